/*
 * kernels.c - what kernels do after the matrix product: one pass over a block of <x, z>, in place.
 *
 * A new kernel of this kind needs a function in kernels_body.h, an entry here and in pegasos.h, and
 * one in src/pegasos/_kernels.py, which multiplies the matrices.
 */
#include "pegasos.h"
#include "platform.h"

#include <math.h>
#include <string.h>

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
    (1.0f / 2                                                                                      \
     + r * (1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r * (1.0f / 720 + r * (1.0f / 5040))))))
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
#define EXP_TAIL(r)                                                                                            \
    (1.0 / 2                                                                                                   \
     + r                                                                                                       \
           * (1.0 / 6                                                                                          \
              + r                                                                                              \
                    * (1.0 / 24                                                                                \
                       + r                                                                                     \
                             * (1.0 / 120                                                                      \
                                + r                                                                            \
                                      * (1.0 / 720                                                             \
                                         + r                                                                   \
                                               * (1.0 / 5040                                                   \
                                                  + r                                                          \
                                                        * (1.0 / 40320                                         \
                                                           + r                                                 \
                                                                 * (1.0 / 362880                               \
                                                                    + r                                        \
                                                                          * (1.0 / 3628800                     \
                                                                             + r                               \
                                                                                   * (1.0 / 39916800           \
                                                                                      + r                      \
                                                                                            * (1.0 / 479001600 \
                                                                                               + r             \
                                                                                                     * (1.0    \
                                                                                                        / 6227020800))))))))))))
#include "kernels_body.h"

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

void pegasos_kernel_laplace(int64_t n, int64_t m, int64_t d, int64_t value_bytes, const void *x,
                            const void *z, double gamma, int64_t stride, void *out)
{
    if (value_bytes == 4)
        laplace_float(n, m, d, x, z, (float)gamma, stride, out);
    else
        laplace_double(n, m, d, x, z, gamma, stride, out);
}
