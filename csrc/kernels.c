/*
 * kernels.c - values of kernels between rows.
 *
 * Values are computed tile by tile, in ways that `way_of` chooses. BLAS multiplies dense rows, if
 * there is a BLAS. Sparse rows that store little, or a good part, have their own loops; other
 * sparse rows are made dense, tile by tile. Differences of dense rows, and products without BLAS,
 * go through panels that stay in cache, with the kernel in the same loop (kernels_body.h), and give
 * the same bits on every machine.
 *
 * A kernel is a class in src/pegasos/kernels. If it is computed here, it has a place in
 * pegasos_kernel_function, and a case in `finish` for its function of products or differences.
 * Other kernels write values themselves.
 */
#include "exponential.h"
#include "lanes.h"
#include "passes.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* The rows of a tile: dense ones, consecutive from number `first`, or listed; and their squared
 * norms, if the kernel needs them, one after the other. */
typedef struct tile_rows {
    const void *values, *norms;
    int64_t first, count;
    const int64_t *which;
} tile_rows;

#define VALUE  float
#define SUFFIX float
#include "kernels_body.h"

#define VALUE  double
#define SUFFIX double
#include "kernels_body.h"

/* ---- Products of sparse rows ----------------------------------------------------------------- */

static INLINE int64_t number_of(const pegasos_subset *rows, int64_t i)
{
    return rows->which ? rows->which[i] : rows->first + i;
}

static pegasos_subset part_of(const pegasos_subset *subset, int64_t first, int64_t count)
{
    pegasos_subset part = *subset;
    part.count = subset->count - first < count ? subset->count - first : count;
    part.first += first;
    part.which = subset->which ? subset->which + first : NULL;
    return part;
}

/* <x, Z> = sum_j x_j Z_j, where Z_j, column j of Z, is row j of its transpose: only entries that
 * meet cost time. */
static INLINE void multiply_rows(const row_functions *f, const pegasos_rows *transpose,
                                 const pegasos_subset *subset, int64_t stride, void *products)
{
    const pegasos_rows *const x = &subset->points->rows;
    const int64_t bytes = x->value_bytes;
    char *out = products;
    for (int64_t k = 0; k < subset->count; k++, out += stride * bytes) {
        const int64_t i = number_of(subset, k);
        memset(out, 0, (size_t)(transpose->n_features * bytes));
        for (int64_t j = row_offset(x, i); j < row_offset(x, i + 1); j++)
            f->add(transpose, row_column(x, j), get(x->values, bytes, j), out);
    }
}

/* Products where most entries meet: as many rows of z as there are registers for sums are written
 * side by side, and each x goes over them once. */
typedef void dot_panel(const pegasos_rows *rows, int64_t i, const void *panel, void *sums);
static INLINE void multiply_panels(dot_panel *dot, const pegasos_rows *x,
                                   const pegasos_subset *subset, const pegasos_subset *others,
                                   void *panel, int64_t stride, void *products)
{
    const pegasos_rows *const z = &others->points->rows;
    const int64_t bytes = x->value_bytes, width = PEGASOS_PANEL_BYTES / bytes;
    double sums[PEGASOS_PANEL_BYTES / sizeof(double)];
    for (int64_t first = 0; first < others->count; first += width) {
        const int64_t count = others->count - first < width ? others->count - first : width;
        memset(panel, 0, (size_t)(x->n_features * PEGASOS_PANEL_BYTES));
        for (int64_t k = 0; k < count; k++) {
            const int64_t row = number_of(others, first + k);
            for (int64_t j = row_offset(z, row); j < row_offset(z, row + 1); j++) {
                const int64_t place = row_column(z, j) * width + k;
                set_to(panel, bytes, place, get(panel, bytes, place) + get(z->values, bytes, j));
            }
        }
        for (int64_t i = 0; i < subset->count; i++) {
            dot(x, number_of(subset, i), panel, sums);
            memcpy((char *)products + (i * stride + first) * bytes, sums, (size_t)(count * bytes));
        }
    }
}

#define DEFINE_PRODUCTS(TYPE)                                                                      \
    static void multiply_##TYPE(const pegasos_rows *transpose, const pegasos_subset *x,            \
                                int64_t stride, void *products)                                    \
    {                                                                                              \
        multiply_rows(&functions_##TYPE, transpose, x, stride, products);                          \
    }                                                                                              \
    CLONES_WIDE static void multiply_panels_##TYPE(                                                \
        const pegasos_rows *rows, const pegasos_subset *x, const pegasos_subset *z, void *panel,   \
        int64_t stride, void *products)                                                            \
    {                                                                                              \
        multiply_panels(dot_panel_##TYPE, rows, x, z, panel, stride, products);                    \
    }
FOR_EVERY_SPARSE_TYPE(DEFINE_PRODUCTS)

/* ---- Tiles ----------------------------------------------------------------------------------- */

/* The most rows of a tile, on either side. Ctrl-C waits for a tile, so its cost, in numbers read,
 * has a limit. */
enum { MOST_X = 256, MOST_Z = 1024 };
static const double NUMBERS_OF_TILE = 5e6;
/* The cost of a value in addition to its product, in numbers read: the system clears memory before
 * the first write, and tanh is computed number by number. */
static const double WRITTEN = 3, OF_TANH = 6;

/* How values are computed: by the points' own function; from differences of dense rows; from
 * products of dense rows; or from products of sparse rows, by their transpose or by panels. */
typedef enum way { BY_KERNEL, BY_DIFFERENCES, BY_DENSE, BY_TRANSPOSE, BY_PANELS } way;

static way way_of(const pegasos_points *x, const pegasos_points *z)
{
    if (z->write)
        return BY_KERNEL;
    if (x->by_differences || z->by_differences || z->kernel.kind == PEGASOS_LAPLACIAN)
        return BY_DIFFERENCES;
    return z->by_transpose ? BY_TRANSPOSE : z->by_panels ? BY_PANELS : BY_DENSE;
}

/* The cost of a product or difference, in numbers read, without the kernel's function of it. Sizes
 * of tiles follow from this cost, and the bits of BLAS depend on these sizes. */
static double cost_of(const pegasos_points *x, const pegasos_points *z)
{
    const double d = (double)x->rows.n_features, n = (double)x->rows.n_rows;
    switch (way_of(x, z)) {
    case BY_DIFFERENCES:
        return 1 + d * (double)x->rows.value_bytes / 96;
    case BY_TRANSPOSE:
        return 1
               + stored_numbers(&x->rows) / n
                     * (stored_numbers(&z->rows) / (double)z->rows.n_rows / d);
    case BY_PANELS:
        return 1 + stored_numbers(&x->rows) / n / 16;
    default:
        return 1 + d / 32;
    }
}

/* The size of a tile for m rows z. It does not depend on threads, so values do not either. */
typedef struct tile_size {
    int64_t x, z;
    double cost; /* of a value */
} tile_size;

static tile_size size_of_tiles(const pegasos_points *x, const pegasos_points *z, int64_t m)
{
    tile_size size = {MOST_X, MOST_Z, cost_of(x, z)};
    const way how = way_of(x, z);
    if (how == BY_PANELS) /* many rows share a panel */
        size = (tile_size){MOST_Z, MOST_X, size.cost};
    if (how == BY_TRANSPOSE) /* whole rows of it at once */
        size.z = m;
    while (size.cost * (double)size.x * (double)size.z > NUMBERS_OF_TILE && size.x * size.z > 1) {
        if (size.x < size.z && how != BY_TRANSPOSE)
            size.z /= 2;
        else if (size.x > 1)
            size.x /= 2;
        else
            break;
    }
    return size;
}

/* Consecutive rows of a subset, with their norms; dense copies in `room` unless that is NULL.
 * `norms` has room for norms of rows that are not consecutive. */
static tile_rows rows_of_tile(const pegasos_subset *subset, void *room, void *norms)
{
    const pegasos_points *const p = subset->points;
    const int64_t d = p->rows.n_features, bytes = p->rows.value_bytes;
    tile_rows found = {p->rows.values, p->norms, subset->first, subset->count, subset->which};
    if (p->norms && subset->which) {
        for (int64_t i = 0; i < subset->count; i++)
            set_to(norms, bytes, i, get(p->norms, bytes, subset->which[i]));
        found.norms = norms;
    } else if (p->norms)
        found.norms = (const char *)p->norms + subset->first * bytes;
    if (!room)
        return found;
    for (int64_t i = 0; i < subset->count; i++)
        pegasos_linear_scale(&p->rows, number_of(subset, i), 1, d, bytes,
                             (char *)room + i * d * bytes);
    found.values = room;
    found.first = 0;
    found.which = NULL;
    return found;
}

/* out = X Z^T */
static void multiply_by_blas(const pegasos_blas *blas, const tile_rows *x, const tile_rows *z,
                             int64_t d, int64_t bytes, int64_t stride, void *out)
{
    char *const X = (char *)(uintptr_t)x->values + x->first * d * bytes;
    char *const Z = (char *)(uintptr_t)z->values + z->first * d * bytes;
    int n = (int)x->count, m = (int)z->count, k = (int)d, apart = (int)stride;
    if (bytes == 4) {
        float one = 1, zero = 0;
        blas->sgemm("T", "N", &m, &n, &k, &one, (float *)Z, &k, (float *)X, &k, &zero, out, &apart);
    } else {
        double one = 1, zero = 0;
        blas->dgemm("T", "N", &m, &n, &k, &one, (double *)Z, &k, (double *)X, &k, &zero, out,
                    &apart);
    }
}

/* Values between rows x and z, which go tile by tile. */
typedef struct block {
    const pegasos_subset *x, *z;
    const pegasos_workers *workers;
    const pegasos_rows *transpose; /* of the rows z, for products by it */
    tile_size size;
    int64_t n_across, scratch_bytes, stride;
    char *out;
    int ended; /* a status of kernels that write values themselves: they have one thread */
} block;

/* Writes a tile of values; not 0: the kernel's own function has failed. */
static int write_tile(const block *b, const pegasos_subset *x, const pegasos_subset *z,
                      void *scratch, void *out)
{
    const pegasos_points *const p = z->points;
    const pegasos_blas *const blas = b->workers->blas;
    const int64_t stride = b->stride, d = p->rows.n_features, bytes = p->rows.value_bytes;
    const way how = way_of(x->points, p);
    const bool by_blas = how == BY_DENSE && blas && stride <= INT_MAX && d <= INT_MAX;
    const bool has_products = by_blas || how == BY_TRANSPOSE || how == BY_PANELS;
    const bool is_sparse = p->rows.index_bytes != 0 && (how == BY_DENSE || how == BY_DIFFERENCES);
    double x_norms[MOST_Z], z_norms[MOST_Z];
    if (how == BY_KERNEL)
        return p->write(x, z, stride, out);
    char *const room = scratch, *const more = room + x->count * d * bytes;
    const bool copies_x = is_sparse || (by_blas && x->which);
    const bool copies_z = is_sparse || (by_blas && z->which);
    const tile_rows X = rows_of_tile(x, copies_x ? room : NULL, x_norms);
    const pegasos_kernel_function *const f = &p->kernel;
    if (how == BY_TRANSPOSE)
        DISPATCH_SPARSE(multiply, b->transpose, x, stride, out);
    else if (how == BY_PANELS)
        DISPATCH_SPARSE(multiply_panels, &x->points->rows, x, z, scratch, stride, out);
    /* One pass, except for BY_TRANSPOSE. */
    for (int64_t first = 0; first < z->count; first += MOST_Z) {
        const pegasos_subset part = part_of(z, first, MOST_Z);
        const tile_rows Z = rows_of_tile(&part, copies_z ? more : NULL, z_norms);
        char *const to = (char *)out + first * bytes;
        if (by_blas)
            multiply_by_blas(blas, &X, &Z, d, bytes, stride, to);
        if (bytes == 4 && has_products)
            transform_float(f, &X, &Z, stride, (float *)to);
        else if (bytes == 4)
            panels_float(f, how == BY_DIFFERENCES, &X, &Z, d, stride, (float *)to);
        else if (has_products)
            transform_double(f, &X, &Z, stride, (double *)to);
        else
            panels_double(f, how == BY_DIFFERENCES, &X, &Z, d, stride, (double *)to);
    }
    return 0;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static int64_t scratch_of_tile(const pegasos_points *x, const pegasos_points *z)
{
    const int64_t d = z->rows.n_features, bytes = z->rows.value_bytes;
    const tile_size size = size_of_tiles(x, z, 1);
    const way how = way_of(x, z);
    if (how == BY_KERNEL || how == BY_TRANSPOSE)
        return 0;
    const int64_t each = how == BY_PANELS ? PEGASOS_PANEL_BYTES : (size.x + size.z) * bytes;
    return round_up(d * each, PEGASOS_BUNDLE_BYTES);
}

/* A transpose begins with the numbers of its rows; then come offsets, indices and values. */
int64_t pegasos_transpose_bytes(const pegasos_rows *rows)
{
    const int64_t numbers = (int64_t)stored_numbers(rows);
    return 8 * (rows->n_rows + rows->n_features + 1 + numbers) + numbers * rows->value_bytes;
}

int64_t pegasos_kernel_values_scratch_bytes(const pegasos_points *x, const pegasos_points *z,
                                            int64_t n_threads)
{
    if (way_of(x, z) == BY_TRANSPOSE)
        return pegasos_transpose_bytes(&z->rows);
    return n_threads * scratch_of_tile(x, z);
}

int64_t pegasos_transpose(const pegasos_subset *subset, void *room, pegasos_rows *out)
{
    const pegasos_rows *const x = &subset->points->rows;
    const int64_t bytes = x->value_bytes, d = x->n_features;
    int64_t *const which = room, *const ends = which + x->n_rows;
    int64_t *const indices = ends + d + 1;
    char *const values = (char *)(indices + (int64_t)stored_numbers(x));
    int64_t count = 0, left = (int64_t)stored_numbers(x);
    bool is_there = out->n_rows == d;
    for (; count < subset->count && count < x->n_rows; count++) {
        const int64_t i = number_of(subset, count);
        left -= row_offset(x, i + 1) - row_offset(x, i);
        if (left < 0)
            break;
        is_there &= out->n_features > count && which[count] == i;
        which[count] = i;
    }
    if (is_there && out->n_features == count)
        return count;
    memset(ends, 0, (size_t)(d + 1) * sizeof(int64_t));
    for (int64_t k = 0; k < count; k++)
        for (int64_t i = which[k], j = row_offset(x, i); j < row_offset(x, i + 1); j++)
            ends[row_column(x, j) + 1]++;
    for (int64_t c = 0; c < d; c++)
        ends[c + 1] += ends[c];
    /* Offsets move to the ends of columns while these are filled, and then back. */
    for (int64_t k = 0; k < count; k++)
        for (int64_t i = which[k], j = row_offset(x, i); j < row_offset(x, i + 1); j++) {
            const int64_t to = ends[row_column(x, j)]++;
            memcpy(values + to * bytes, (const char *)x->values + j * bytes, (size_t)bytes);
            indices[to] = k;
        }
    memmove(ends + 1, ends, (size_t)d * sizeof(int64_t));
    ends[0] = 0;
    *out = (pegasos_rows){.values = values,
                          .indices = indices,
                          .indptr = ends,
                          .n_rows = d,
                          .n_features = count,
                          .value_bytes = bytes,
                          .index_bytes = 8,
                          .indptr_bytes = 8};
    return count;
}

static void do_tile(void *argument, int64_t slot, int64_t k)
{
    block *const b = argument;
    const int64_t bytes = b->z->points->rows.value_bytes;
    const int64_t i = k / b->n_across * b->size.x, j = k % b->n_across * b->size.z;
    const pegasos_subset x = part_of(b->x, i, b->size.x), z = part_of(b->z, j, b->size.z);
    char *const scratch = (char *)b->workers->scratch + slot * b->scratch_bytes;
    if (b->ended == 0)
        b->ended = write_tile(b, &x, &z, scratch, b->out + (i * b->stride + j) * bytes);
}

/* Writes all tiles; not 0: stopped, or a kernel's own function has failed. */
static int write_tiles(block *b)
{
    const pegasos_points *const x = b->x->points, *const z = b->z->points;
    pegasos_workers workers = *b->workers;
    if (z->write)
        workers.threads = NULL;
    b->size = size_of_tiles(x, z, b->z->count);
    b->scratch_bytes = scratch_of_tile(x, z);
    b->n_across = (b->z->count + b->size.z - 1) / b->size.z;
    const int64_t n_tiles = b->n_across * ((b->x->count + b->size.x - 1) / b->size.x);
    const double values = (double)(b->x->count * b->z->count) / (double)n_tiles;
    const double cost = b->size.cost + WRITTEN + (z->kernel.kind == PEGASOS_SIGMOID ? OF_TANH : 0);
    return run_tasks(&workers, n_tiles, cost * values, do_tile, b) ? b->ended : 1;
}

int pegasos_kernel_values(void *source, int64_t count, const int64_t *rows, int64_t first,
                          int64_t m, const int64_t *which, int64_t stride, void *out)
{
    pegasos_source *const s = source;
    const int64_t bytes = s->z->rows.value_bytes;
    pegasos_subset x = {s->x, 0, count, rows};
    const pegasos_subset z = {s->z, first, m, which};
    const bool by_transpose = way_of(s->x, s->z) == BY_TRANSPOSE;
    const bool is_there = s->z->transpose.n_rows > 0 && !which && m == s->z->rows.n_rows;
    int64_t j = 1;
    assert(s->x->rows.value_bytes == bytes && s->x->rows.n_features == s->z->rows.n_features);
    while (rows && j < count && rows[j] == rows[0] + j)
        j++;
    if (rows && j == count) /* they are read where they lie */
        x = (pegasos_subset){s->x, rows[0], count, NULL};
    for (int64_t k = 0, some = m; k < m && count > 0; k += some) {
        pegasos_subset part = part_of(&z, k, m);
        if (by_transpose && !is_there)
            part.count = some = pegasos_transpose(&part, s->workers->scratch, &s->transpose);
        block b = {.x = &x,
                   .z = &part,
                   .workers = s->workers,
                   .transpose = is_there ? &s->z->transpose : &s->transpose,
                   .stride = stride,
                   .out = (char *)out + k * bytes};
        if (write_tiles(&b) != 0)
            return 1;
    }
    return 0;
}
