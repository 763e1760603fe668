/*
 * loss.h - all that the core knows of a loss; another loss is another case of these functions.
 *
 * A row of weight c adds c l(u) to m P, with u = 1 - y f(x), and l*(a) to m D:
 *
 *     hinge            l(u) = max(0, u)                        l*(a) = a              0 <= a <= c
 *     squared hinge    l(u) = max(0, u)^2                      l*(a) = a - a^2/(4c)   0 <= a
 *     modified Huber   the same, and 4u - 4 where u > 2        l*(a) = a - a^2/(4c)   0 <= a <= 4c
 *     log loss         l(u) = log(1 + e^(u-1))                 l*(a) = c H(a/c)       0 <= a <= c
 *
 * with H(p) = -p log p - (1-p) log(1-p). At the optimum a = c l'(u). The derivative of m D along a
 * is u - pull(a), where pull(a), the u for which a is the slope, is h a for the first three: the
 * diagonal h is 0 for the hinge, and else 1/(2c), which adds to the curvature of |w(a)|^2.
 *
 * Three facts tell losses apart: whether they are smooth (one derivative everywhere), bounded
 * (dual variables have an upper end) and piecewise quadratic (steps of dual variables have a closed
 * form). What rests on the last has a general counterpart, which asks for slopes alone.
 */
#ifndef PEGASOS_LOSS_H
#define PEGASOS_LOSS_H

#include "core.h"
#include "platform.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

/* Whether a gap is small enough, or all of the objective is rounding; never if tol < 0. */
static INLINE bool is_small_gap(double relative_gap, double primal, double tol)
{
    return tol >= 0 && (relative_gap <= tol || primal <= PEGASOS_ROUNDING);
}

/* Runs a statement in which LOSS is the loss, as a constant: so loops have no branches for it. */
#define WITH_THIS_LOSS(loss, ...)                                                                  \
    {                                                                                              \
        enum { LOSS = loss };                                                                      \
        __VA_ARGS__;                                                                               \
        break;                                                                                     \
    }
#define WITH_LOSS(loss, ...)                                                                       \
    do {                                                                                           \
        if ((loss) == PEGASOS_SQUARED_HINGE)                                                       \
            WITH_THIS_LOSS(PEGASOS_SQUARED_HINGE, __VA_ARGS__)                                     \
        if ((loss) == PEGASOS_MODIFIED_HUBER)                                                      \
            WITH_THIS_LOSS(PEGASOS_MODIFIED_HUBER, __VA_ARGS__)                                    \
        if ((loss) == PEGASOS_LOG_LOSS)                                                            \
            WITH_THIS_LOSS(PEGASOS_LOG_LOSS, __VA_ARGS__)                                          \
        WITH_THIS_LOSS(PEGASOS_HINGE, __VA_ARGS__)                                                 \
    } while (0)

/* ---- What kind of loss it is ----------------------------------------------------------------- */

static INLINE int loss_is_known(int64_t loss)
{
    return PEGASOS_HINGE <= loss && loss <= PEGASOS_LOG_LOSS;
}

/* Whether l has one derivative everywhere. */
static INLINE int loss_is_smooth(int64_t loss)
{
    return loss != PEGASOS_HINGE;
}

/* Whether l is piecewise quadratic. */
static INLINE int loss_is_quadratic(int64_t loss)
{
    return loss != PEGASOS_LOG_LOSS;
}

/* The largest second derivative of a smooth loss. */
static INLINE double loss_curvature(int64_t loss)
{
    return loss == PEGASOS_HINGE ? 0 : loss == PEGASOS_LOG_LOSS ? 0.25 : 2;
}

/* lam |w|^2 of the optimum is at most this. At the optimum P = D and a is c l'(u), so that
 * lam |w|^2 = 1/m sum_i l*(a_i) - c_i l(u_i) = 1/m sum_i c_i l'(u_i) (1 - u_i). That is at most the
 * largest l'(u) (1 - u): 1 for the hinge, 2 u (1 - u) <= 1/2, and s/(1 + e^s), s = 1 - u, for the
 * log loss. */
static INLINE double loss_ball(int64_t loss)
{
    return loss == PEGASOS_HINGE ? 1 : loss == PEGASOS_LOG_LOSS ? 0.27846454276107380 : 0.5;
}

/* ---- The loss -------------------------------------------------------------------------------- */

/* 1/(1 + e^-z). */
static INLINE double logistic(double z)
{
    return 1 / (1 + exp(-z));
}

/* l(u). */
static INLINE double loss_value(int64_t loss, double u)
{
    const double excess = u > 0 ? u : 0;
    if (loss == PEGASOS_LOG_LOSS)
        return (u > 1 ? u - 1 : 0) + log1p(exp(-fabs(u - 1)));
    if (loss == PEGASOS_MODIFIED_HUBER && u > 2)
        return 4 * u - 4;
    return loss == PEGASOS_HINGE ? excess : excess * excess;
}

/* Whether a row has a slope other than 0. */
static INLINE bool loss_is_active(int64_t loss, double u)
{
    return loss == PEGASOS_LOG_LOSS || u > 0;
}

/* l'(u) of a row that is active, which a step of Pegasos takes y x times; 0 of others. */
static INLINE double loss_derivative(int64_t loss, double u)
{
    const double twice = u > 0 ? 2 * u : 0;
    if (loss == PEGASOS_LOG_LOSS)
        return logistic(u - 1);
    if (loss == PEGASOS_MODIFIED_HUBER)
        return twice < 4 ? twice : 4;
    return loss == PEGASOS_HINGE ? 1 : twice;
}

/* l''(u) of a smooth loss. */
static INLINE double loss_second_derivative(int64_t loss, double u)
{
    const double p = loss == PEGASOS_LOG_LOSS ? logistic(u - 1) : 0;
    if (loss == PEGASOS_LOG_LOSS)
        return p * (1 - p);
    return u > 0 && (loss != PEGASOS_MODIFIED_HUBER || u < 2) ? 2 : 0;
}

/* ---- Its dual variables ---------------------------------------------------------------------- */

/* The largest value of a dual variable. */
static INLINE double loss_bound(int64_t loss, double c)
{
    if (loss == PEGASOS_MODIFIED_HUBER)
        return 4 * c;
    return loss == PEGASOS_SQUARED_HINGE && c > 0 ? INFINITY : c;
}

/* h of a piecewise quadratic loss; 0 of others. */
static INLINE double loss_diagonal(int64_t loss, double c)
{
    return loss_is_smooth(loss) && loss_is_quadratic(loss) && c > 0 ? 0.5 / c : 0;
}

/* -p log p, 0 at 0. */
static INLINE double loss_entropy_of(double p)
{
    return p > 0 ? -p * log(p) : 0;
}

/* l*(a). */
static INLINE double loss_conjugate(int64_t loss, double a, double c)
{
    if (loss == PEGASOS_LOG_LOSS)
        return c > 0 ? c * (loss_entropy_of(a / c) + loss_entropy_of(1 - a / c)) : 0;
    return loss_is_smooth(loss) ? a - loss_diagonal(loss, c) * a * a / 2 : a;
}

/* l*(a) of the slope a = c l'(u), where value = c l(u): without another logarithm. */
static INLINE double loss_conjugate_of(int64_t loss, double a, double c, double u, double value)
{
    return loss == PEGASOS_LOG_LOSS ? value + a * (1 - u) : loss_conjugate(loss, a, c);
}

/* pull(a); infinite at the ends of the log loss. */
static INLINE double loss_pull(int64_t loss, double a, double c)
{
    return loss == PEGASOS_LOG_LOSS ? 1 + log(a / (c - a)) : loss_diagonal(loss, c) * a;
}

/* What a row adds to m (P - D) where w = w(a): c l(u) - l*(a) + a (1 - u). */
static INLINE double loss_gap(int64_t loss, double a, double c, double u)
{
    const double gap = c * loss_value(loss, u) - a * u;
    if (loss == PEGASOS_LOG_LOSS)
        return gap + a - loss_conjugate(loss, a, c);
    return loss_is_smooth(loss) ? gap + loss_diagonal(loss, c) * a * a / 2 : gap;
}

/* The dual variable nearest to a in its box; 0 for NaN. */
static INLINE double loss_clip(int64_t loss, double a, double c)
{
    const double bound = loss_bound(loss, c);
    a = a > 0 ? a : 0;
    return a < bound ? a : bound;
}

/*
 * The log loss: the dual variable b at which u - q (b - a) = pull(b). With b = c/(1 + e^-z) that is
 * the root of F(z) = z - (u - 1) + q (b - a), which grows; it is convex below 0 and concave above,
 * so that Newton's method from 0, or from between 0 and the root, goes to the root without passing
 * it. Where it passed 0, it had begun beyond the root. (Yu, Huang and Lin: Dual coordinate descent
 * methods for logistic regression and maximum entropy models, Machine Learning 85, 2011, solve the
 * same equation for b.)
 */
static INLINE double log_loss_best(double a, double c, double u, double q)
{
    enum { STEPS = 60 };
    const double accuracy = 1e-8; /* whose square is what is left after one step more */
    const double sign = u - 1 - q * (c / 2 - a) < 0 ? -1 : 1;
    double z = 0 < a && a < c ? log(a / (c - a)) : 0;
    z = z * sign > 0 ? z : 0;
    for (int n = 0; n < STEPS; n++) {
        const double p = logistic(z), excess = z - (u - 1) + q * (c * p - a);
        const double step = excess / (1 + q * c * p * (1 - p));
        z = (z - step) * sign > 0 ? z - step : 0;
        if (!(fabs(step) > accuracy * (1 + fabs(z))))
            break;
    }
    return c * logistic(z);
}

/* The best value of a dual variable that is a now, where a change of 1 changes u by -q. */
static INLINE double loss_best(int64_t loss, double a, double c, double u, double q)
{
    if (loss == PEGASOS_LOG_LOSS)
        return log_loss_best(a, c, u, q);
    const double most = loss_bound(loss, c), diagonal = loss_diagonal(loss, c);
    const double curvature = q + diagonal, slope = u - diagonal * a;
    const double best = curvature > 0 ? a + slope / curvature : slope > 0 ? most : 0;
    return best < 0 ? 0 : best > most ? most : best;
}

/* ---- For models without features, and for Newton's method ------------------------------------ */

/* Scores beyond this are as good as infinite: the log loss is below rounding there. */
static const double LOSS_FAR = 40;

/* The root b of 1/(1 + e^-b) + penalty b = (1 + balance)/2: Newton's method from 0, as above. */
static INLINE double log_loss_constant(double balance, double penalty)
{
    double b = 0;
    for (int n = 0; n < 100 && fabs(b) < LOSS_FAR; n++) {
        const double up = logistic(b), down = logistic(-b); /* 1 - up, to the last bit */
        const double excess = (up * (1 - balance) - down * (1 + balance)) / 2 + penalty * b;
        const double step = excess / (up * down + penalty);
        b -= step;
        if (!(fabs(step) > DBL_EPSILON * fabs(b)))
            break;
    }
    return b < -LOSS_FAR ? -LOSS_FAR : b < LOSS_FAR ? b : LOSS_FAR;
}

/* The score b, the same for all rows, that is best where the mean label is `balance` and b costs
 * penalty/2 b^2. */
static INLINE double loss_constant(int64_t loss, double balance, double penalty)
{
    if (loss == PEGASOS_LOG_LOSS)
        return log_loss_constant(balance, penalty);
    if (loss_is_smooth(loss))
        return balance / (1 + penalty / 2);
    if (penalty == 0)
        return (balance > 0) - (balance < 0);
    const double b = balance / penalty;
    return b < -1 ? -1 : b > 1 ? 1 : b;
}

/*
 * Newton's method takes a loss that is smooth: the hinge is smoothed (newton.c). A piecewise
 * quadratic loss that is smooth is what this makes of a hinge with another bound, for a width of
 * 1/2 and a centre of 0.
 */

/* Slope of the smoothed loss at u, which is a dual variable. */
static INLINE double loss_slope(int64_t loss, double centre, double c, double u, double width)
{
    return loss == PEGASOS_LOG_LOSS ? c * logistic(u - 1)
                                    : loss_clip(loss, centre + c * u / width, c);
}

/* Its curvature there, given the slope: none at the bounds. */
static INLINE double loss_bend(int64_t loss, double slope, double c, double width)
{
    if (loss == PEGASOS_LOG_LOSS)
        return c > 0 ? slope * (1 - slope / c) : 0;
    return 0 < slope && slope < loss_bound(loss, c) ? c / width : 0;
}

#endif
