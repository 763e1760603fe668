/*
 * loss.h - all that the core knows of a loss; another loss is another case of these functions.
 *
 * A row of weight c adds c l(u) to m P, with u = 1 - y f(x), and l*(a) to m D:
 *
 *     hinge             l(u) = max(0, u)      l*(a) = a               0 <= a <= c
 *     squared hinge     l(u) = max(0, u)^2    l*(a) = a - a^2/(4c)    0 <= a
 *
 * The derivative of m D along a is u - h a, its curvature that of |w(a)|^2 and h beside it: h, the
 * diagonal, is 0 for the hinge and 1/(2c) for the squared one.
 */
#ifndef PEGASOS_LOSS_H
#define PEGASOS_LOSS_H

#include "core.h"
#include "platform.h"

#include <math.h>
#include <stdbool.h>

/* Whether a gap is small enough, or all of the objective is rounding; never if tol < 0. */
static INLINE bool is_small_gap(double relative_gap, double primal, double tol)
{
    return tol >= 0 && (relative_gap <= tol || primal <= PEGASOS_ROUNDING);
}

/* Runs a statement in which LOSS is the loss, as a constant: so loops have no branches for it. */
#define WITH_LOSS(loss, ...)                                                                       \
    do {                                                                                           \
        if ((loss) == PEGASOS_SQUARED_HINGE) {                                                     \
            enum { LOSS = PEGASOS_SQUARED_HINGE };                                                 \
            __VA_ARGS__;                                                                           \
        } else {                                                                                   \
            enum { LOSS = PEGASOS_HINGE };                                                         \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)

/* l(u). */
static INLINE double loss_value(int64_t loss, double u)
{
    const double excess = u > 0 ? u : 0;
    return loss == PEGASOS_SQUARED_HINGE ? excess * excess : excess;
}

/* l'(u) of a row that violates its margin: what a step of Pegasos takes y x times. */
static INLINE double loss_derivative(int64_t loss, double u)
{
    return loss == PEGASOS_SQUARED_HINGE ? (u > 0 ? 2 * u : 0) : 1;
}

/* Whether l has one derivative everywhere. Its size has no bound then. */
static INLINE int loss_is_smooth(int64_t loss)
{
    return loss == PEGASOS_SQUARED_HINGE;
}

/* lam |w|^2 of the optimum is at most this. At the optimum P = D and a is c l'(u), so that
 * lam |w|^2 = 1/m sum_i l*(a_i) - c_i l(u_i), which is 1/m sum_i a_i - c_i u_i <= 1 for the hinge,
 * and 1/m sum_i c_i (2 u_i - 2 u_i^2) <= 1/2 for the squared one. */
static INLINE double loss_ball(int64_t loss)
{
    return loss == PEGASOS_SQUARED_HINGE ? 0.5 : 1;
}

/* The largest value of a dual variable. */
static INLINE double loss_bound(int64_t loss, double c)
{
    return loss == PEGASOS_SQUARED_HINGE && c > 0 ? INFINITY : c;
}

/* h. */
static INLINE double loss_diagonal(int64_t loss, double c)
{
    return loss == PEGASOS_SQUARED_HINGE && c > 0 ? 0.5 / c : 0;
}

/* a - l*(a), which is h a^2/2. */
static INLINE double loss_smoothing(int64_t loss, double a, double c)
{
    return loss_diagonal(loss, c) * a * a / 2;
}

/* l*(a). */
static INLINE double loss_conjugate(int64_t loss, double a, double c)
{
    return loss_is_smooth(loss) ? a - loss_smoothing(loss, a, c) : a;
}

/* What a row adds to m (P - D) where w = w(a): c l(u) - l*(a) + a (1 - u). */
static INLINE double loss_gap(int64_t loss, double a, double c, double u)
{
    const double gap = c * loss_value(loss, u) - a * u;
    return loss_is_smooth(loss) ? gap + loss_smoothing(loss, a, c) : gap;
}

/* The dual variable nearest to a in its box; 0 for NaN. */
static INLINE double loss_clip(int64_t loss, double a, double c)
{
    const double bound = loss_bound(loss, c);
    a = a > 0 ? a : 0;
    return a < bound ? a : bound;
}

/* The score b, the same for all rows, that is best where the mean label is `balance` and b costs
 * penalty/2 b^2. */
static INLINE double loss_constant(int64_t loss, double balance, double penalty)
{
    if (loss == PEGASOS_SQUARED_HINGE)
        return balance / (1 + penalty / 2);
    if (penalty == 0)
        return (balance > 0) - (balance < 0);
    const double b = balance / penalty;
    return b < -1 ? -1 : b > 1 ? 1 : b;
}

/*
 * Newton's method takes a loss that is smooth: the hinge is smoothed (newton.c). The squared hinge
 * is what this makes of a hinge without the bound, for a width of 1/2 and a centre of 0.
 */

/* Slope of the smoothed loss at u, which is a dual variable. */
static INLINE double loss_slope(int64_t loss, double centre, double c, double u, double width)
{
    return loss_clip(loss, centre + c * u / width, c);
}

/* Whether it has curvature there, c/width: between the bounds. */
static INLINE int loss_is_curved(int64_t loss, double slope, double c)
{
    return 0 < slope && slope < loss_bound(loss, c);
}

#endif
