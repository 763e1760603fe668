/*
 * kernels_body.h - the elementwise part of kernels, for one type of values.
 *
 * kernels.c includes this once per type with these macros, undefined again at the end:
 *
 *     VALUE, BITS, UBITS    float, int32_t, uint32_t; or double, int64_t, uint64_t
 *     SUFFIX                ends the name of everything defined here
 *     MANTISSA, ONE         bits of the mantissa; the bit pattern of 1.0
 *     ROUNDER               1.5 * 2^MANTISSA: adding it rounds to a whole number
 *     LN2_HIGH, LN2_LOW     ln 2 in two parts; small whole multiples of the first are exact
 *     EXP_MIN               exp(EXP_MIN) is just a normal number
 *     EXP_TAIL(r)           (exp(r) - 1 - r) / r^2 by its Taylor series, long enough for VALUE
 *
 * Values are worked on LANES at a time, in loops of fixed length that compilers turn into SIMD.
 */
#define PASTE2(name, suffix) name##_##suffix
#define PASTE(name, suffix)  PASTE2(name, suffix)
#define NAME(name)           PASTE(name, SUFFIX)

#define LANES 16

/*
 * exp(x) for x <= 0. With k = round(x / ln 2) and r = x - k ln 2, |r| <= ln 2 / 2,
 *
 *     exp(x) = 2^k exp(r),
 *
 * where exp(r) is its Taylor polynomial and 2^k is made by writing k into the exponent: once
 * ROUNDER was added, k stands in the low bits. Relative error: 1.1e-7 in float, 1.6e-16 in double.
 */
static INLINE VALUE NAME(exp_of)(VALUE x)
{
    const VALUE z = x > EXP_MIN ? x : EXP_MIN;
    VALUE power = z * (VALUE)1.4426950408889634 + ROUNDER;
    const VALUE k = power - ROUNDER;
    const VALUE r = (z - k * LN2_HIGH) - k * LN2_LOW;
    BITS bits;
    memcpy(&bits, &power, sizeof bits);
    bits = (BITS)((UBITS)bits << MANTISSA) + ONE;
    memcpy(&power, &bits, sizeof bits);
    return (1 + (r + r * r * EXP_TAIL(r))) * power;
}

static INLINE void NAME(exp_lanes)(VALUE *x)
{
    for (int l = 0; l < LANES; l++)
        x[l] = NAME(exp_of)(x[l]);
}

/* Numbers far apart each take a line of cache: those of the next column are asked for meanwhile. */
static void NAME(gather)(int64_t count, const int64_t *places, int64_t stride, const VALUE *columns,
                         int64_t m, const int64_t *which, int64_t out_stride, VALUE *out)
{
    for (int64_t i = 0; i < count; i++, out += out_stride) {
        const int64_t place = places[i], next = i + 1 < count ? places[i + 1] : -1;
        if (place < 0)
            continue;
        const VALUE *from = columns + place * stride;
        const VALUE *ahead = columns + (next < 0 ? place : next) * stride;
        for (int64_t j = 0; j < m; j++) {
            out[j] = from[which[j]];
            PREFETCH(ahead + which[j]);
        }
    }
}

/* |x - z|_1 */
static INLINE VALUE NAME(distance)(const VALUE *x, const VALUE *z, int64_t d)
{
    VALUE lane[LANES] = {0};
    int64_t j = 0;
    for (; d - j >= LANES; j += LANES)
        for (int l = 0; l < LANES; l++) {
            const VALUE difference = x[j + l] - z[j + l];
            lane[l] += difference > 0 ? difference : -difference;
        }
    double sum = 0;
    for (; j < d; j++)
        sum += fabs((double)x[j] - z[j]);
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    return (VALUE)sum;
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

CLONES_WIDE static void NAME(gauss)(int64_t n, int64_t m, int64_t stride, VALUE *products,
                                    const VALUE *x_norms, const VALUE *z_norms, VALUE gamma)
{
    for (int64_t i = 0; i < n; i++, products += stride) {
        int64_t j = 0;
        for (; m - j >= LANES; j += LANES)
            NAME(gauss_lanes)(products + j, x_norms[i], z_norms + j, gamma);
        if (j < m) { /* the rest in a buffer of full length */
            VALUE rest[LANES] = {0}, norms[LANES] = {0};
            const size_t bytes = (size_t)(m - j) * sizeof(VALUE);
            memcpy(rest, products + j, bytes);
            memcpy(norms, z_norms + j, bytes);
            NAME(gauss_lanes)(rest, x_norms[i], norms, gamma);
            memcpy(products + j, rest, bytes);
        }
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

CLONES_WIDE static void NAME(polynomial)(int64_t n, int64_t m, int64_t stride, VALUE *products,
                                         VALUE gamma, VALUE coef0, int64_t degree)
{
    for (int64_t i = 0; i < n; i++, products += stride) {
        int64_t j = 0;
        for (; m - j >= LANES; j += LANES)
            NAME(power_lanes)(products + j, gamma, coef0, degree);
        if (j < m) { /* the rest in a buffer of full length */
            VALUE rest[LANES] = {0};
            const size_t bytes = (size_t)(m - j) * sizeof(VALUE);
            memcpy(rest, products + j, bytes);
            NAME(power_lanes)(rest, gamma, coef0, degree);
            memcpy(products + j, rest, bytes);
        }
    }
}

static void NAME(sigmoid)(int64_t n, int64_t m, int64_t stride, VALUE *products, VALUE gamma,
                          VALUE coef0)
{
    for (int64_t i = 0; i < n; i++, products += stride)
        for (int64_t j = 0; j < m; j++)
            products[j] = (VALUE)tanh((double)(gamma * products[j] + coef0));
}

/* exp(-gamma |x - z|_1), dense rows of d features */
CLONES_WIDE static void NAME(laplace)(int64_t n, int64_t m, int64_t d, const VALUE *x,
                                      const VALUE *z, VALUE gamma, int64_t stride, VALUE *out)
{
    for (int64_t i = 0; i < n; i++, out += stride)
        for (int64_t j = 0; j < m; j += LANES) {
            const int64_t width = m - j < LANES ? m - j : LANES;
            VALUE exponent[LANES] = {0};
            for (int64_t l = 0; l < width; l++)
                exponent[l] = -gamma * NAME(distance)(x + i * d, z + (j + l) * d, d);
            NAME(exp_lanes)(exponent);
            memcpy(out + j, exponent, (size_t)width * sizeof(VALUE));
        }
}

#define DEPTH   256
#define ABREAST 4

/* sums[r][l] += sum_k (root (x_r[k] - panel[k][l]))^2, for ABREAST rows x and LANES rows of the
 * panel */
static INLINE void NAME(add_squares)(const VALUE *const *x, int64_t depth, const VALUE *panel,
                                     VALUE root, VALUE sums[ABREAST][LANES])
{
    for (int64_t k = 0; k < depth; k++)
        for (int r = 0; r < ABREAST; r++)
            for (int l = 0; l < LANES; l++) {
                const VALUE difference = root * (x[r][k] - panel[k * LANES + l]);
                sums[r][l] += difference * difference;
            }
}

/*
 * exp(-|root (x - z)|^2), dense rows of d features. LANES rows z are written out side by side,
 * DEPTH features at a time; between these, sums wait in `out`. Differences lose nothing where rows
 * are far from 0 and near to each other, and with the root of gamma on them squares overflow only
 * where the kernel is 0.
 */
CLONES_WIDE static void NAME(gauss_rows)(int64_t n, int64_t m, int64_t d, const VALUE *x,
                                         const VALUE *z, VALUE root, int64_t stride, VALUE *out)
{
    VALUE panel[DEPTH * LANES];
    for (int64_t j = 0; j < m; j += LANES) {
        const int64_t width = m - j < LANES ? m - j : LANES;
        const size_t bytes = (size_t)width * sizeof(VALUE);
        for (int64_t k = 0; k < d; k += DEPTH) {
            const int64_t depth = d - k < DEPTH ? d - k : DEPTH;
            for (int64_t l = 0; l < LANES; l++)
                for (int64_t c = 0; c < depth; c++)
                    panel[c * LANES + l] = z[(j + (l < width ? l : 0)) * d + k + c];
            for (int64_t i = 0; i < n; i += ABREAST) {
                const VALUE *rows[ABREAST];
                VALUE sums[ABREAST][LANES] = {{0}};
                for (int r = 0; r < ABREAST; r++) {
                    const int64_t row = i + r < n ? i + r : n - 1;
                    rows[r] = x + row * d + k;
                    if (k > 0)
                        memcpy(sums[r], out + row * stride + j, bytes);
                }
                NAME(add_squares)(rows, depth, panel, root, sums);
                for (int r = 0; r < ABREAST && i + r < n; r++) {
                    if (k + depth == d) {
                        for (int l = 0; l < LANES; l++)
                            sums[r][l] = -sums[r][l];
                        NAME(exp_lanes)(sums[r]);
                    }
                    memcpy(out + (i + r) * stride + j, sums[r], bytes);
                }
            }
        }
    }
}

#undef DEPTH
#undef ABREAST
#undef LANES
#undef VALUE
#undef BITS
#undef UBITS
#undef SUFFIX
#undef MANTISSA
#undef ONE
#undef ROUNDER
#undef LN2_HIGH
#undef LN2_LOW
#undef EXP_MIN
#undef EXP_TAIL
#undef NAME
#undef PASTE
#undef PASTE2
