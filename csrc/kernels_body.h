/*
 * kernels_body.h - kernels as functions of products and of differences, for one type of values.
 *
 * kernels.c includes this once per type with these macros, which this file undefines:
 *
 *     VALUE     float; or double
 *     SUFFIX    ends the name of everything defined here
 *
 * Loops work on LANES values at a time, with a fixed length, so that compilers make SIMD of them.
 */
#define NAME(name) PASTE(name, SUFFIX)

#define LANES 16

static INLINE const VALUE *NAME(row_of)(const tile_rows *rows, int64_t i, int64_t d)
{
    return (const VALUE *)rows->values + (rows->which ? rows->which[i] : rows->first + i) * d;
}

/* exp(-gamma |x - z|^2) from products <x, z>, for one x and LANES z: |x|^2 + |z|^2 - 2 <x, z> */
static INLINE void NAME(gauss_lanes)(VALUE *restrict products, VALUE x_norm,
                                     const VALUE *restrict z_norms, VALUE gamma)
{
    for (int l = 0; l < LANES; l++) {
        const VALUE distance = x_norm + z_norms[l] - 2 * products[l];
        products[l] = NAME(exp_of)(distance > 0 ? -gamma * distance : 0); /* < 0 by rounding */
    }
}

/* x <- (gamma x + coef0)^degree by squaring: degree may come from a file, and be huge */
static INLINE void NAME(power_lanes)(VALUE *x, VALUE gamma, VALUE coef0, int64_t degree)
{
    VALUE square[LANES], power[LANES];
    for (int l = 0; l < LANES; l++) {
        square[l] = gamma * x[l] + coef0;
        power[l] = 1;
    }
    for (int64_t left = degree; left > 0; left /= 2) {
        if (left % 2 == 1)
            for (int l = 0; l < LANES; l++)
                power[l] *= square[l];
        for (int l = 0; l < LANES; l++)
            square[l] *= square[l];
    }
    memcpy(x, power, sizeof power);
}

/* The norms of x and z, for `finish`. For each next LANES sums, they are `x_step` and `z_step`
 * numbers further on. */
typedef struct NAME(norms) {
    const VALUE *x, *z;
    int x_step, z_step;
} NAME(norms);

/* Turns `count` times LANES sums into kernel values, in place; each LANES belong to one x. If
 * `is_apart`, they are sums of differences, else products. */
static INLINE void NAME(finish)(const pegasos_kernel_function *f, bool is_apart, int64_t count,
                                VALUE *restrict sums, NAME(norms) norms)
{
    const VALUE gamma = (VALUE)f->gamma, coef0 = (VALUE)f->coef0;
    const VALUE factor = f->kind == PEGASOS_LAPLACIAN ? gamma : 1;
    const int64_t degree = f->degree;
    if (is_apart)
        for (int64_t k = 0; k < count; k++, sums += LANES)
            for (int l = 0; l < LANES; l++)
                sums[l] = NAME(exp_of)(-factor * sums[l]);
    else if (f->kind == PEGASOS_GAUSSIAN)
        for (int64_t k = 0; k < count; k++, sums += LANES)
            NAME(gauss_lanes)(sums, norms.x[k * norms.x_step], norms.z + k * norms.z_step, gamma);
    else if (f->kind == PEGASOS_POLYNOMIAL)
        for (int64_t k = 0; k < count; k++, sums += LANES)
            NAME(power_lanes)(sums, gamma, coef0, degree);
    else if (f->kind == PEGASOS_SIGMOID)
        for (int64_t k = 0; k < count * LANES; k++)
            sums[k] = (VALUE)tanh((double)(gamma * sums[k] + coef0));
}

/* Turns n x m products into kernel values, in place. */
CLONES_WIDE static void NAME(transform)(const pegasos_kernel_function *f, const tile_rows *x_rows,
                                        const tile_rows *z_rows, int64_t stride, VALUE *products)
{
    const VALUE *const x_norms = x_rows->norms, *const z_norms = z_rows->norms;
    const int64_t n = f->kind == PEGASOS_LINEAR ? 0 : x_rows->count, m = z_rows->count;
    const int64_t full = m / LANES;
    const size_t bytes = (size_t)(m - full * LANES) * sizeof(VALUE);
    VALUE rest[LANES] = {0}, last[LANES] = {0};
    if (z_norms)
        memcpy(last, z_norms + full * LANES, bytes);
    for (int64_t i = 0; i < n; i++, products += stride) {
        const VALUE *const x = x_norms ? x_norms + i : NULL;
        NAME(finish)(f, false, full, products, (NAME(norms)){x, z_norms, 0, LANES});
        if (bytes == 0)
            continue;
        memcpy(rest, products + full * LANES, bytes); /* in a buffer of full length */
        NAME(finish)(f, false, 1, rest, (NAME(norms)){x, last, 0, 0});
        memcpy(products + full * LANES, rest, bytes);
    }
}

#define REAL     VALUE
#define DEPTH    256
#define ABREAST  4
#define BUFFERED 32 /* rows of sums that wait for loops of another length */

/* Adds the terms of `depth` features to the sums of ABREAST rows x and of the LANES rows of a
 * panel: s_r[l] += term of x_r[k] and panel[k][l]. */
#define DEFINE_ADD(name, DO_TERM)                                                                  \
    static INLINE void NAME(name)(const VALUE *const *x, int64_t depth, const VALUE *panel,        \
                                  VALUE root, VALUE sums[ABREAST][LANES])                          \
    {                                                                                              \
        (void)root;                                                                                \
        for (int h = 0; h < LANES; h += LANES_BYTES / (int)sizeof(VALUE)) {                        \
            VEC s[ABREAST], z;                                                                     \
            UNROLLED                                                                               \
            for (int r = 0; r < ABREAST; r++)                                                      \
                LOAD(s[r], sums[r] + h);                                                           \
            for (int64_t k = 0; k < depth; k++) {                                                  \
                LOAD(z, panel + k * LANES + h);                                                    \
                UNROLLED                                                                           \
                for (int r = 0; r < ABREAST; r++)                                                  \
                    DO_TERM(s[r], x[r][k]);                                                        \
            }                                                                                      \
            UNROLLED                                                                               \
            for (int r = 0; r < ABREAST; r++)                                                      \
                STORE(sums[r] + h, s[r]);                                                          \
        }                                                                                          \
    }
#define DO_PRODUCT(s, number) s += SPLAT(number) * z
#define DO_SQUARE(s, number)                                                                       \
    do {                                                                                           \
        const VEC difference = SPLAT(root) * (SPLAT(number) - z);                                  \
        s += difference * difference;                                                              \
    } while (0)
#define DO_SIZE(s, number)                                                                         \
    do {                                                                                           \
        const VEC up = SPLAT(number) - z, down = z - SPLAT(number);                                \
        s += LARGER(up, down);                                                                     \
    } while (0)
DEFINE_ADD(add_products, DO_PRODUCT)
DEFINE_ADD(add_squares, DO_SQUARE)
DEFINE_ADD(add_sizes, DO_SIZE)

/*
 * Kernel values between dense rows of d features. LANES rows z are written side by side, DEPTH
 * features at a time; sums wait in `out` meanwhile. Differences lose nothing where rows are far
 * from 0 and near one another. With the root of gamma on them, squares only overflow where K is 0.
 */
CLONES_WIDE static void NAME(panels)(const pegasos_kernel_function *f, bool is_apart,
                                     const tile_rows *x, const tile_rows *z, int64_t d,
                                     int64_t stride, VALUE *out)
{
    const bool has_norms = f->kind == PEGASOS_GAUSSIAN && !is_apart;
    const VALUE *const x_norms = x->norms;
    const VALUE root = (VALUE)sqrt(f->gamma);
    VALUE panel[DEPTH * LANES], norms[LANES] = {0}, sums[BUFFERED][LANES];
    for (int64_t j = 0; j < z->count; j += LANES) {
        const int64_t width = z->count - j < LANES ? z->count - j : LANES;
        const size_t bytes = (size_t)width * sizeof(VALUE);
        if (has_norms)
            memcpy(norms, (const VALUE *)z->norms + j, bytes);
        for (int64_t k = 0; k < d; k += DEPTH) {
            const int64_t depth = d - k < DEPTH ? d - k : DEPTH;
            for (int64_t l = 0; l < LANES; l++) {
                const VALUE *const row = NAME(row_of)(z, j + (l < width ? l : 0), d) + k;
                for (int64_t c = 0; c < depth; c++)
                    panel[c * LANES + l] = row[c];
            }
            for (int64_t i = 0; i < x->count; i += BUFFERED) {
                const int64_t count = x->count - i < BUFFERED ? x->count - i : BUFFERED;
                for (int64_t r = 0; r < count; r++)
                    if (k > 0)
                        memcpy(sums[r], out + (i + r) * stride + j, bytes);
                    else
                        memset(sums[r], 0, sizeof sums[r]);
                for (int64_t r = 0; r < count; r += ABREAST) {
                    const VALUE *rows[ABREAST];
                    for (int64_t h = 0; h < ABREAST; h++)
                        rows[h] = NAME(row_of)(x, i + (r + h < count ? r + h : r), d) + k;
                    if (!is_apart)
                        NAME(add_products)(rows, depth, panel, 0, sums + r);
                    else if (f->kind == PEGASOS_GAUSSIAN)
                        NAME(add_squares)(rows, depth, panel, root, sums + r);
                    else
                        NAME(add_sizes)(rows, depth, panel, 0, sums + r);
                }
                if (k + depth == d)
                    NAME(finish)(f, is_apart, count, sums[0],
                                 (NAME(norms)){has_norms ? x_norms + i : NULL, norms, 1, 0});
                for (int64_t r = 0; r < count; r++)
                    if (width == LANES)
                        memcpy(out + (i + r) * stride + j, sums[r], sizeof sums[r]);
                    else
                        memcpy(out + (i + r) * stride + j, sums[r], bytes);
            }
        }
    }
}

#undef REAL
#undef DEFINE_ADD
#undef DO_PRODUCT
#undef DO_SQUARE
#undef DO_SIZE
#undef BUFFERED
#undef DEPTH
#undef ABREAST
#undef LANES
#undef VALUE
#undef SUFFIX
#undef NAME
