/*
 * exponential.h - exponential functions and logarithms that compilers turn into SIMD. Unlike those
 * of the C library, they have the same bits on every machine.
 *
 * Polynomials add pairs of terms. Horner's rule would wait for each sum before the next term.
 */
#ifndef PEGASOS_EXPONENTIAL_H
#define PEGASOS_EXPONENTIAL_H

#include "platform.h"

#include <float.h>
#include <stdbool.h>
#include <string.h>

#define PAIR(r, a, b)       ((a) + (r) * (b))
#define FOUR(r, a, b, c, d) (PAIR(r, a, b) + (r) * (r) * PAIR(r, c, d))

/* ln 2 in two parts; small whole multiples of the first are exact. */
#define LN2_HIGH 6.93147180369123816490e-01
#define LN2_LOW  1.90821492927058770002e-10

/*
 * exp(x) for x <= 0. With k = round(x / ln 2) and r = x - k ln 2, |r| <= ln 2 / 2,
 *
 *     exp(x) = 2^k exp(r),
 *
 * where exp(r) is its Taylor polynomial, and 2^k is made by writing k into the exponent: after 1.5
 * * 2^52 is added (in float, 1.5 * 2^23), k is in the low bits. Results below the least normal
 * number become about that number. Relative error: 1.1e-7 in float, 1.6e-16 in double.
 */
static INLINE double exp_of_double(double x)
{
    const double rounder = 6755399441055744.0, z = x < -708.0 ? -708.0 : x;
    double power = z * 1.4426950408889634 + rounder;
    const double k = power - rounder, r = (z - k * LN2_HIGH) - k * LN2_LOW, r4 = r * r * (r * r);
    const double last = FOUR(r, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800);
    const double middle = FOUR(r, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880);
    const double tail = FOUR(r, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120) + r4 * (middle + r4 * last);
    int64_t bits;
    memcpy(&bits, &power, sizeof bits);
    bits = (int64_t)((uint64_t)bits << 52) + INT64_C(0x3ff0000000000000);
    memcpy(&power, &bits, sizeof bits);
    return (1 + (r + r * r * tail)) * power;
}

static INLINE float exp_of_float(float x)
{
    const float rounder = 12582912.0f, z = x < -87.0f ? -87.0f : x;
    float power = z * 1.4426950408889634f + rounder;
    const float k = power - rounder, r = (z - k * 0.693359375f) - k * -2.12194440e-4f;
    const float last = PAIR(r, 1.0f / 24, 1.0f / 120) + r * r * PAIR(r, 1.0f / 720, 1.0f / 5040);
    const float tail = PAIR(r, 1.0f / 2, 1.0f / 6) + r * r * last;
    int32_t bits;
    memcpy(&bits, &power, sizeof bits);
    bits = (int32_t)((uint32_t)bits << 23) + INT32_C(0x3f800000);
    memcpy(&power, &bits, sizeof bits);
    return (1 + (r + r * r * tail)) * power;
}

/* log(1 + f) for 1/sqrt(2) <= 1 + f <= sqrt(2): 2 artanh(t) = 2 (t + t^3/3 + t^5/5 + ...) with
 * t = f/(2 + f), |t| <= 0.172. Relative error: some 1e-16. */
static INLINE double log_near_one(double f)
{
    const double t = f / (2 + f), s = t * t, s4 = s * s * (s * s);
    const double tail =
        FOUR(s, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9)
        + s4 * (FOUR(s, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17) + s4 * PAIR(s, 1.0 / 19, 1.0 / 21));
    return 2 * t + 2 * t * (s * tail);
}

/* log(1 + x) for 0 <= x <= 1. */
static INLINE double log1p_of(double x)
{
    const bool is_halved = x > 0.41421356237309503;
    const double near = log_near_one(is_halved ? (x - 1) / 2 : x);
    return is_halved ? LN2_HIGH + (near + LN2_LOW) : near;
}

/* log(x) for x > 0, which may be infinite. */
static INLINE double log_of(double x)
{
    const bool is_small = x < DBL_MIN;
    const double normal = is_small ? x * 18014398509481984.0 : x; /* 2^54 */
    uint64_t bits;
    if (!(x <= DBL_MAX)) /* infinite, or not a number */
        return x;
    memcpy(&bits, &normal, sizeof bits);
    /* 1/sqrt(2) has the mantissa 0x6a09e667f3bcd, from which the exponent counts. */
    const uint64_t shifted = bits - UINT64_C(0x3fe6a09e667f3bcd);
    const int64_t exponent = (int64_t)shifted >> 52;
    bits -= (uint64_t)exponent << 52;
    double near;
    memcpy(&near, &bits, sizeof near);
    const double k = (double)(exponent - (is_small ? 54 : 0));
    return k * LN2_HIGH + (log_near_one(near - 1) + k * LN2_LOW);
}

#endif
