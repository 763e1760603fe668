/*
 * symmetric.c - symmetric matrices: sums of products of rows, and equations with them.
 *
 * Rows are stored one after the other. For Fortran, these are columns: our lower triangle is its
 * upper one. Sums of plain loops have a fixed shape, so every instruction set gives the same bits.
 * A BLAS may round in its own way.
 */
#include "symmetric.h"
#include "passes.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

enum { LANES = SYMMETRIC_LANES, TILE_COLUMNS = 4, MOST_BLOCKS = 8 };
/* The most numbers that the matrices of all blocks have together, unless there are two blocks. */
static const double MATRICES = 1e6;

/* Adds to the lower triangle of `matrix` the products of columns of the TILE_ROWS rows `z`. Each
 * loaded number is multiplied with TILE_COLUMNS others. */
CLONES_WIDE static void add_tile(int64_t size, int64_t stride, const double *restrict z,
                                 double *restrict matrix)
{
    for (int64_t i = 0; i < size; i += TILE_COLUMNS)
        for (int64_t j = 0; j <= i; j += LANES) {
            double sum0[LANES] = {0}, sum1[LANES] = {0}, sum2[LANES] = {0}, sum3[LANES] = {0};
            double *const out = matrix + i * stride + j;
            for (int t = 0; t < TILE_ROWS; t++) {
                const double *const u = z + t * stride + i, *const v = z + t * stride + j;
                for (int l = 0; l < LANES; l++)
                    sum0[l] += u[0] * v[l];
                for (int l = 0; l < LANES; l++)
                    sum1[l] += u[1] * v[l];
                for (int l = 0; l < LANES; l++)
                    sum2[l] += u[2] * v[l];
                for (int l = 0; l < LANES; l++)
                    sum3[l] += u[3] * v[l];
            }
            for (int l = 0; l < LANES; l++)
                out[l] += sum0[l];
            for (int l = 0; l < LANES; l++)
                out[stride + l] += sum1[l];
            for (int l = 0; l < LANES; l++)
                out[2 * stride + l] += sum2[l];
            for (int l = 0; l < LANES; l++)
                out[3 * stride + l] += sum3[l];
        }
}

/* Finds row i of the factor, given the rows above, and its pivot before the root. */
CLONES_WIDE static void factorise_row(int64_t i, int64_t stride, double *restrict lower,
                                      double *pivot)
{
    double *row = lower + i * stride;
    for (int64_t j = 0; j < i; j++)
        row[j] = (row[j] - dot_in_lanes(row, lower + j * stride, j)) / lower[j * stride + j];
    *pivot = row[i] - dot_in_lanes(row, row, i);
}

bool symmetric_may_be_single(const pegasos_blas *blas, double trace, double lam)
{
    const double rounding = 0.1, tiny = 1e-30;
    return blas && FLT_EPSILON * trace <= rounding * lam && lam > tiny && trace < 1 / tiny;
}

static void add_by_blas(const symmetric *m, char *form, int64_t count, const void *z, bool is_first)
{
    double one = 1, before = is_first ? 0 : 1;
    float one_float = 1, before_float = is_first ? 0 : 1;
    int size = (int)m->size, n = (int)count, stride = (int)m->stride;
    if (m->bytes == 4)
        m->blas->ssyrk("U", form, &size, &n, &one_float, (float *)z, &stride, &before_float,
                       m->numbers, &stride);
    else
        m->blas->dsyrk("U", form, &size, &n, &one, (double *)z, &stride, &before, m->numbers,
                       &stride);
}

void symmetric_add_outer(const symmetric *m, int64_t count, void *z, bool is_first)
{
    if (m->blas) {
        add_by_blas(m, "N", count, z, is_first);
        return;
    }
    const int64_t tiles = (count + TILE_ROWS - 1) / TILE_ROWS;
    double *const rows = z;
    memset(rows + count * m->stride, 0,
           (size_t)((tiles * TILE_ROWS - count) * m->stride) * sizeof(double));
    if (is_first)
        memset(m->numbers, 0, (size_t)(m->size * m->stride) * sizeof(double));
    for (int64_t k = 0; k < tiles; k++)
        add_tile(m->size, m->stride, rows + k * TILE_ROWS * m->stride, m->numbers);
}

/* The cost of an output, in addition to a row's numbers: for a call and for products of outputs. */
static double cost_of_output(int64_t n_outputs)
{
    const double call = 10, product = 0.25;
    return call + product * (double)n_outputs;
}

static double stored_products(const pegasos_rows *rows, int64_t i, int64_t size)
{
    const double stored = (double)(row_offset(rows, i + 1) - row_offset(rows, i));
    const int64_t n_outputs = size - rows->n_features - 1;
    return stored * stored + (double)n_outputs * (stored + cost_of_output(n_outputs));
}

static double products_of_size(int64_t size)
{
    return (double)size * (1 + (double)size / 2 / PRODUCTS_PER_NUMBER);
}

double symmetric_stored(const pegasos_rows *rows, int64_t first, const int64_t *which,
                        int64_t count, int64_t size)
{
    double sum = 0;
    if (rows->index_bytes == 0)
        return INFINITY;
    for (int64_t k = first; k < first + count; k++)
        sum += stored_products(rows, which ? which[k] : k, size);
    return sum;
}

bool symmetric_are_thin(const pegasos_rows *rows, int64_t first, const int64_t *which,
                        int64_t count, int64_t size)
{
    return symmetric_stored(rows, first, which, count, size)
           < (double)count * products_of_size(size);
}

double symmetric_cost(const pegasos_rows *rows, bool are_thin, int64_t size)
{
    double most = 0;
    for (int64_t i = 0; i < rows->n_rows && are_thin; i++)
        most = fmax(most, stored_products(rows, i, size));
    return are_thin ? fmax(fmin(most, products_of_size(size)), 1) : products_of_size(size);
}

void symmetric_add_stored(const symmetric *m, const pegasos_rows *rows, int64_t i, double weight,
                          int64_t n_tail, const double *tail)
{
    const int64_t d = rows->n_features;
    double *const numbers = m->numbers;
    assert(m->bytes == 8 && d + n_tail <= m->stride);
    pegasos_linear_outer(rows, i, weight, m->stride, numbers);
    for (int64_t k = 0; k < n_tail; k++) {
        double *const row = numbers + (d + k) * m->stride, factor = weight * tail[k];
        pegasos_linear_combine(rows, i, 1, &factor, row);
        for (int64_t j = 0; j <= k; j++)
            row[d + j] += factor * tail[j];
    }
}

void symmetric_set_inner(const symmetric *m, const void *z)
{
    add_by_blas(m, "T", m->stride, z, true);
}

int64_t symmetric_blocks(int64_t n, int64_t least, int64_t stride)
{
    int64_t n_blocks = 1;
    while (n_blocks < MOST_BLOCKS && n >= 2 * n_blocks * least
           && (n_blocks == 1 || 2 * (double)n_blocks * (double)(stride * stride) <= MATRICES))
        n_blocks *= 2;
    return n_blocks;
}

symmetric symmetric_of_block(const symmetric *first, int64_t block)
{
    symmetric m = *first;
    m.numbers = (double *)m.numbers + block * m.stride * m.stride;
    return m;
}

static void add(const symmetric *m, const symmetric *more)
{
    for (int64_t i = 0; i < m->size; i++)
        for (int64_t j = i * m->stride; j <= i * m->stride + i; j++)
            set_to(m->numbers, m->bytes, j,
                   get(m->numbers, m->bytes, j) + get(more->numbers, m->bytes, j));
}

void symmetric_add_up(const symmetric *first, int64_t n_blocks)
{
    for (int64_t apart = 1; apart < n_blocks; apart *= 2)
        for (int64_t k = 0; k + apart < n_blocks; k += 2 * apart) {
            const symmetric sum = symmetric_of_block(first, k),
                            more = symmetric_of_block(first, k + apart);
            add(&sum, &more);
        }
}

double symmetric_add_diagonal(const symmetric *m, double each, double last)
{
    double trace = 0;
    for (int64_t i = 0; i < m->size; i++) {
        const int64_t at = i * m->stride + i;
        const double value = get(m->numbers, m->bytes, at) + (i < m->size - 1 ? each : last);
        set_to(m->numbers, m->bytes, at, value);
        trace += value;
    }
    return trace;
}

static int factorise_by_blas(const symmetric *m)
{
    int size = (int)m->size, stride = (int)m->stride, failed = 0;
    if (m->bytes == 4)
        m->blas->spotrf("U", &size, m->numbers, &stride, &failed);
    else
        m->blas->dpotrf("U", &size, m->numbers, &stride, &failed);
    /* LAPACK may accept a pivot that is NaN; then so are all later ones. */
    const double last = get(m->numbers, m->bytes, (m->size - 1) * (m->stride + 1));
    return failed || !(last < INFINITY) ? SYMMETRIC_NOT_POSITIVE : SYMMETRIC_FACTORED;
}

int symmetric_factorise(const symmetric *m, pegasos_watch *watch)
{
    const double n = (double)m->size;
    if (m->blas) {
        const int status = factorise_by_blas(m);
        return is_to_stop(watch, n * n * n / 6 / PRODUCTS_PER_NUMBER) ? SYMMETRIC_STOPPED : status;
    }
    for (int64_t i = 0; i < m->size; i++) {
        double pivot;
        factorise_row(i, m->stride, m->numbers, &pivot);
        if (!(pivot > 0 && pivot < INFINITY))
            return SYMMETRIC_NOT_POSITIVE;
        ((double *)m->numbers)[i * m->stride + i] = sqrt(pivot);
        if (is_to_stop(watch, (double)(i * i) / 2 / PRODUCTS_PER_NUMBER))
            return SYMMETRIC_STOPPED;
    }
    return SYMMETRIC_FACTORED;
}

static void solve_by_blas(const symmetric *m, double *x, void *scratch)
{
    int size = (int)m->size, stride = (int)m->stride, one = 1, failed = 0;
    if (m->bytes == 8) {
        m->blas->dpotrs("U", &size, &one, m->numbers, &stride, x, &size, &failed);
        return;
    }
    for (int64_t i = 0; i < m->size; i++)
        ((float *)scratch)[i] = (float)x[i];
    m->blas->spotrs("U", &size, &one, m->numbers, &stride, scratch, &size, &failed);
    for (int64_t i = 0; i < m->size; i++)
        x[i] = (double)((float *)scratch)[i];
}

void symmetric_solve(const symmetric *m, double *x, void *scratch)
{
    const double *const lower = m->numbers;
    const int64_t n = m->size, stride = m->stride;
    if (m->blas) {
        solve_by_blas(m, x, scratch);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        x[i] = (x[i] - dot_in_lanes(lower + i * stride, x, i)) / lower[i * stride + i];
    for (int64_t i = n - 1; i >= 0; i--) {
        x[i] /= lower[i * stride + i];
        for (int64_t j = 0; j < i; j++)
            x[j] -= lower[i * stride + j] * x[i];
    }
}
