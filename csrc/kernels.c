/*
 * kernels.c - blocks of kernel matrices: products of sparse rows, what kernels do to products, in
 * place, and what coefficients of columns add to scores.
 *
 * A kernel is a class in src/pegasos/kernels, which leaves products of dense rows to BLAS. Only one
 * that NumPy computes too slowly needs a function in kernels_body.h, an entry here, in core.h
 * and _core.pyx.
 */
#include "push.h"
#include "rows.h"

#include <math.h>
#include <string.h>

/* Polynomials in pairs of terms, not by Horner's rule: that waits for each sum in turn. */
#define PAIR(r, a, b)       ((a) + (r) * (b))
#define FOUR(r, a, b, c, d) (PAIR(r, a, b) + (r) * (r) * PAIR(r, c, d))

#define VALUE    float
#define BITS     int32_t
#define UBITS    uint32_t
#define SUFFIX   float
#define MANTISSA 23
#define ONE      INT32_C(0x3f800000)
#define ROUNDER  12582912.0f
#define LN2_HIGH 0.693359375f
#define LN2_LOW  -2.12194440e-4f
#define EXP_MIN  -87.0f
#define EXP_TAIL(r)                                                                                \
    (PAIR(r, 1.0f / 2, 1.0f / 6)                                                                   \
     + (r) * (r)                                                                                   \
           * (PAIR(r, 1.0f / 24, 1.0f / 120) + (r) * (r) * PAIR(r, 1.0f / 720, 1.0f / 5040)))
#include "kernels_body.h"

#define VALUE    double
#define BITS     int64_t
#define UBITS    uint64_t
#define SUFFIX   double
#define MANTISSA 52
#define ONE      INT64_C(0x3ff0000000000000)
#define ROUNDER  6755399441055744.0
#define LN2_HIGH 6.93147180369123816490e-01
#define LN2_LOW  1.90821492927058770002e-10
#define EXP_MIN  -708.0
#define EXP_TAIL(r)                                                                                \
    (FOUR(r, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120)                                                \
     + (r) * (r) * ((r) * (r))                                                                     \
           * (FOUR(r, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880)                            \
              + (r) * (r) * ((r) * (r))                                                            \
                    * FOUR(r, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800)))
#include "kernels_body.h"

/* ---- Products of sparse rows ----------------------------------------------------------------- */

/* <x, Z> = sum_j x_j Z_j, where Z_j, the column j of Z, is row j of `inverted`: only entries that
 * meet cost anything. */
static INLINE void multiply_rows(const row_functions *f, const pegasos_rows *inverted,
                                 const pegasos_rows *x, int64_t stride, void *products)
{
    const int64_t bytes = x->value_bytes;
    char *out = products;
    for (int64_t i = 0; i < x->n_rows; i++, out += stride * bytes) {
        memset(out, 0, (size_t)(inverted->n_features * bytes));
        for (int64_t j = row_offset(x, i); j < row_offset(x, i + 1); j++) {
            f->add(inverted, row_column(x, j), get(x->values, bytes, j), out);
        }
    }
}

/* The same where most entries meet: rows of z are written out side by side, as many as there are
 * registers for their sums, and each x goes over them once. */
static INLINE void multiply_panels(const row_functions *f, const pegasos_rows *x,
                                   const pegasos_rows *z, void *panel, int64_t stride,
                                   void *products)
{
    const int64_t bytes = x->value_bytes, width = PEGASOS_PANEL_BYTES / bytes;
    double sums[PEGASOS_PANEL_BYTES / sizeof(double)];
    for (int64_t first = 0; first < z->n_rows; first += width) {
        const int64_t count = z->n_rows - first < width ? z->n_rows - first : width;
        memset(panel, 0, (size_t)(x->n_features * PEGASOS_PANEL_BYTES));
        for (int64_t k = 0; k < count; k++)
            for (int64_t j = row_offset(z, first + k); j < row_offset(z, first + k + 1); j++) {
                const int64_t place = row_column(z, j) * width + k;
                set_to(panel, bytes, place, get(panel, bytes, place) + get(z->values, bytes, j));
            }
        for (int64_t i = 0; i < x->n_rows; i++) {
            f->dot_panel(x, i, panel, sums);
            memcpy((char *)products + (i * stride + first) * bytes, sums, (size_t)(count * bytes));
        }
    }
}

#define DEFINE_PRODUCTS(TYPE)                                                                      \
    static void multiply_##TYPE(const pegasos_rows *inverted, const pegasos_rows *x,               \
                                int64_t stride, void *products)                                    \
    {                                                                                              \
        multiply_rows(&functions_##TYPE, inverted, x, stride, products);                           \
    }                                                                                              \
    CLONES_WIDE static void multiply_panels_##TYPE(const pegasos_rows *x, const pegasos_rows *z,   \
                                                   void *panel, int64_t stride, void *products)    \
    {                                                                                              \
        multiply_panels(&functions_##TYPE, x, z, panel, stride, products);                         \
    }
FOR_EVERY_SPARSE_TYPE(DEFINE_PRODUCTS)

void pegasos_sparse_products(const pegasos_rows *x, const pegasos_rows *inverted, int64_t stride,
                             void *products)
{
    assert(are_there(x, 0, 0) && are_there(inverted, 0, 0) && stride >= inverted->n_features);
    assert(x->index_bytes > 0 && inverted->index_bytes > 0
           && x->value_bytes == inverted->value_bytes && x->n_features == inverted->n_rows);
    DISPATCH_SPARSE(multiply, inverted, x, stride, products);
}

void pegasos_thick_products(const pegasos_rows *x, const pegasos_rows *z, void *panel,
                            int64_t stride, void *products)
{
    assert(are_there(x, 0, 0) && are_there(z, 0, 0) && stride >= z->n_rows);
    assert(x->index_bytes > 0 && z->index_bytes > 0 && x->value_bytes == z->value_bytes
           && x->n_features == z->n_features);
    DISPATCH_SPARSE(multiply_panels, x, z, panel, stride, products);
}

/* ---- Scores ---------------------------------------------------------------------------------- */

/* Scores of `PUSH_ROWS` rows are updated by `PUSH_COLUMNS` columns before the next rows: both stay
 * in cache. */
enum { PUSH_ROWS = 8192, PUSH_COLUMNS = 16, PUSH_TOGETHER = 4 };

/* Adds four columns to scores, one after the other for each row: as if by four pushes. */
#define DEFINE_PUSH_FOUR(VALUE)                                                                    \
    static INLINE void push_four_##VALUE(int64_t m, const double *u, const VALUE *const *columns,  \
                                         double *restrict to)                                      \
    {                                                                                              \
        const VALUE *restrict c0 = columns[0], *restrict c1 = columns[1];                          \
        const VALUE *restrict c2 = columns[2], *restrict c3 = columns[3];                          \
        const double u0 = u[0], u1 = u[1], u2 = u[2], u3 = u[3];                                   \
        const int64_t full = m - m % PUSH_LANES;                                                   \
        for (int64_t i = 0; i < full; i += PUSH_LANES)                                             \
            for (int l = 0; l < PUSH_LANES; l++)                                                   \
                to[i + l] = to[i + l] + u0 * (double)c0[i + l] + u1 * (double)c1[i + l]            \
                            + u2 * (double)c2[i + l] + u3 * (double)c3[i + l];                     \
        for (int64_t i = full; i < m; i++)                                                         \
            to[i] = to[i] + u0 * (double)c0[i] + u1 * (double)c1[i] + u2 * (double)c2[i]           \
                    + u3 * (double)c3[i];                                                          \
    }                                                                                              \
                                                                                                   \
    CLONES_WIDE static void push_some_##VALUE(int64_t count, const int64_t *places, int64_t m,     \
                                              int64_t stride, const VALUE *columns,                \
                                              const double *coef, double *to)                      \
    {                                                                                              \
        const VALUE *chosen[PUSH_COLUMNS];                                                         \
        double u[PUSH_COLUMNS];                                                                    \
        int64_t n = 0, r = 0;                                                                      \
        for (int64_t j = 0; j < count; j++)                                                        \
            if (coef[j] != 0) {                                                                    \
                u[n] = coef[j];                                                                    \
                chosen[n++] = columns + places[j] * stride;                                        \
            }                                                                                      \
        for (; r + PUSH_TOGETHER <= n; r += PUSH_TOGETHER)                                         \
            push_four_##VALUE(m, u + r, chosen + r, to);                                           \
        for (; r < n; r++)                                                                         \
            push_##VALUE(m, u[r], chosen[r], to);                                                  \
    }
DEFINE_PUSH_FOUR(float)
DEFINE_PUSH_FOUR(double)

void pegasos_kernel_push(int64_t count, const int64_t *places, int64_t n, int64_t stride,
                         int64_t value_bytes, const void *columns, int64_t n_problems,
                         const double *coef, int64_t score_stride, double *scores)
{
    assert(count >= 0 && n >= 0 && n_problems >= 0 && (value_bytes == 4 || value_bytes == 8));
    for (int64_t first = 0; first < n; first += PUSH_ROWS) {
        const int64_t m = n - first < PUSH_ROWS ? n - first : PUSH_ROWS;
        for (int64_t r = 0; r < count; r += PUSH_COLUMNS) {
            const int64_t some = count - r < PUSH_COLUMNS ? count - r : PUSH_COLUMNS;
            for (int64_t k = 0; k < n_problems; k++) {
                double *to = scores + k * score_stride + first;
                if (value_bytes == 4)
                    push_some_float(some, places + r, m, stride, (const float *)columns + first,
                                    coef + k * count + r, to);
                else
                    push_some_double(some, places + r, m, stride, (const double *)columns + first,
                                     coef + k * count + r, to);
            }
        }
    }
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

void pegasos_kernel_gather(int64_t count, const int64_t *places, int64_t stride,
                           int64_t value_bytes, const void *columns, int64_t m,
                           const int64_t *which, int64_t out_stride, void *out)
{
    assert(count >= 0 && m >= 0 && are_in_range(which, m, 0, INT64_MAX));
    if (value_bytes == 4)
        gather_float(count, places, stride, columns, m, which, out_stride, out);
    else
        gather_double(count, places, stride, columns, m, which, out_stride, out);
}

/* ---- What kernels do to products ------------------------------------------------------------- */

void pegasos_kernel_gauss(int64_t n, int64_t m, int64_t stride, int64_t value_bytes, void *products,
                          const void *x_norms, const void *z_norms, double gamma)
{
    if (value_bytes == 4)
        gauss_float(n, m, stride, products, x_norms, z_norms, (float)gamma);
    else
        gauss_double(n, m, stride, products, x_norms, z_norms, gamma);
}

void pegasos_kernel_polynomial(int64_t n, int64_t m, int64_t stride, int64_t value_bytes,
                               void *products, double gamma, double coef0, int64_t degree)
{
    assert(n >= 0 && m >= 0 && degree >= 0);
    if (value_bytes == 4)
        polynomial_float(n, m, stride, products, (float)gamma, (float)coef0, degree);
    else
        polynomial_double(n, m, stride, products, gamma, coef0, degree);
}

void pegasos_kernel_sigmoid(int64_t n, int64_t m, int64_t stride, int64_t value_bytes,
                            void *products, double gamma, double coef0)
{
    if (value_bytes == 4)
        sigmoid_float(n, m, stride, products, (float)gamma, (float)coef0);
    else
        sigmoid_double(n, m, stride, products, gamma, coef0);
}

void pegasos_kernel_gauss_rows(int64_t n, int64_t m, int64_t d, int64_t value_bytes, const void *x,
                               const void *z, double gamma, int64_t stride, void *out)
{
    if (value_bytes == 4)
        gauss_rows_float(n, m, d, x, z, (float)sqrt(gamma), stride, out);
    else
        gauss_rows_double(n, m, d, x, z, sqrt(gamma), stride, out);
}

void pegasos_kernel_laplace(int64_t n, int64_t m, int64_t d, int64_t value_bytes, const void *x,
                            const void *z, double gamma, int64_t stride, void *out)
{
    if (value_bytes == 4)
        laplace_float(n, m, d, x, z, (float)gamma, stride, out);
    else
        laplace_double(n, m, d, x, z, gamma, stride, out);
}
