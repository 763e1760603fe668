/*
 * loss.h - all that the core knows of a loss. A new loss is a new case of `loss_of`.
 *
 * A row of weight c costs c l(u) with u = z - y f(x). For a label y, z = 1 and u is how far f(x)
 * misses the margin. For a target z, y = 1 and u is the error of f(x). The row adds c l(u) to m P,
 * and z a - c l*(a/c) to m D, for its dual variable a and the conjugate l*. At the optimum,
 * a = c l'(u).
 *
 *     hinge                          max(0, u)
 *     squared hinge                  max(0, u)^2
 *     modified Huber                 max(0, u)^2 up to u = 2, and 4u - 4 from there
 *     log loss                       log(1 + e^(u-1))
 *     epsilon-insensitive            max(0, |u| - epsilon)
 *     squared epsilon-insensitive    max(0, |u| - epsilon)^2
 *     Huber                          u^2/2 up to |u| = epsilon, then epsilon |u| - epsilon^2/2
 *     squared error                  u^2/2
 *
 * All but the log loss are piecewise quadratic, and have the conjugate
 *
 *     l*(p) = dead |p| + width p^2/2,    lower <= p <= upper.
 *
 * Four numbers describe each of them. l'(u) is 0 for |u| <= dead, grows by 1/width beyond (or jumps
 * if width = 0), and ends at the bounds. The conjugate of the log loss is p - H(p), with
 * H(p) = -p log p - (1-p) log(1-p).
 *
 * One class (pegasos_loss) adds c nu b, with the intercept b. It is added to P apart from the
 * losses, and it changes the condition on the sum of dual variables, and the best intercept.
 *
 * Three facts tell losses apart: whether they are smooth (one derivative everywhere), bounded (dual
 * variables have upper ends) and piecewise quadratic (steps of dual variables have a closed form).
 * Where a method relies on the last, other losses have a general method that only needs slopes.
 */
#ifndef PEGASOS_LOSS_H
#define PEGASOS_LOSS_H

#include "core.h"
#include "exponential.h"
#include "platform.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef struct loss_form {
    int64_t kind;
    double lower, upper; /* bounds of a dual variable of weight 1; lower is 0 or -upper */
    double dead, width;
} loss_form;

#define HINGE_FORM    ((loss_form){PEGASOS_HINGE, 0, 1, 0, 0})
#define SQUARED_FORM  ((loss_form){PEGASOS_SQUARED_HINGE, 0, INFINITY, 0, 0.5})
#define LOG_LOSS_FORM ((loss_form){PEGASOS_LOG_LOSS, 0, 1, 0, 0})

static INLINE loss_form loss_of(pegasos_loss loss)
{
    const double epsilon = loss.epsilon;
    switch (loss.kind) {
    case PEGASOS_SQUARED_HINGE:
        return SQUARED_FORM;
    case PEGASOS_MODIFIED_HUBER:
        return (loss_form){loss.kind, 0, 4, 0, 0.5};
    case PEGASOS_LOG_LOSS:
        return LOG_LOSS_FORM;
    case PEGASOS_EPSILON_INSENSITIVE:
        return (loss_form){loss.kind, -1, 1, epsilon, 0};
    case PEGASOS_SQUARED_EPSILON_INSENSITIVE:
        return (loss_form){loss.kind, -INFINITY, INFINITY, epsilon, 0.5};
    case PEGASOS_HUBER:
        return (loss_form){loss.kind, -epsilon, epsilon, 0, 1};
    case PEGASOS_SQUARED_ERROR:
        return (loss_form){loss.kind, -INFINITY, INFINITY, 0, 1};
    default:
        return HINGE_FORM;
    }
}

/* By how much rounding changes an objective: losses are of about 1, or as small as their slopes. */
static INLINE double rounding_of(pegasos_loss loss)
{
    return PEGASOS_ROUNDING * fmin(loss_of(loss).upper, 1);
}

/* (P - D)/P */
static INLINE double relative_gap_of(double primal, double dual)
{
    return fmax(primal - dual, 0) / fmax(primal, 1e-300);
}

/* The size with which a gap is compared, times tol: P, or for one class nu - D, which is lam/2
 * |w(a)|^2, whatever nu adds to P. */
static INLINE double size_of_gap(pegasos_loss loss, double relative_gap, double primal)
{
    return loss.nu == 0 ? primal : loss.nu - primal * (1 - relative_gap);
}

/* Whether a gap, (P - D)/P, is small enough, or the objective is all rounding; false if tol < 0. */
static INLINE bool is_small_gap(pegasos_loss loss, double relative_gap, double primal, double tol)
{
    if (loss.nu == 0)
        return tol >= 0 && (relative_gap <= tol || primal <= rounding_of(loss));
    const double gap = relative_gap * primal;
    return tol >= 0 && isfinite(gap)
           && (gap <= tol * size_of_gap(loss, relative_gap, primal) || gap <= rounding_of(loss));
}

/* ---- The rows ------------------------------------------------------------------------------- */

/* The targets of problem k of several, one after the other; `epsilons` may have one for each. */
static INLINE pegasos_targets targets_among(const pegasos_targets *all, const double *epsilons,
                                            int64_t k)
{
    pegasos_targets own = *all;
    own.labels += k * own.n;
    if (own.values)
        own.values += k * own.n;
    if (epsilons)
        own.loss.epsilon = epsilons[k];
    return own;
}

/* z_i. */
static INLINE double value_at(const pegasos_targets *t, int64_t i)
{
    return t->values ? t->values[i] : 1;
}

/* The sample weight of a row, also if it is not in the problem. */
static INLINE double sample_weight(const double *weights, int64_t i)
{
    return weights ? weights[i] : 1;
}

/* c_i; 0 for a row that is not in the problem. */
static INLINE double weight_at(const pegasos_targets *t, int64_t i)
{
    return t->labels[i] == 0 ? 0 : sample_weight(t->weights, i);
}

/* Reads y_i, z_i and c_i of some rows as numbers, padded to TARGETS_READ with values that stand for
 * no row. So loops over them have fixed lengths and no branches. */
enum { TARGETS_READ = 256 };
static INLINE void read_targets(const pegasos_targets *t, int64_t first, int64_t count, double *y,
                                double *z, double *c)
{
    const size_t bytes = (size_t)count * sizeof(double);
    int8_t labels[TARGETS_READ] = {0};
    memcpy(labels, t->labels + first, (size_t)count);
    for (int64_t i = 0; i < TARGETS_READ; i++)
        y[i] = labels[i];
    for (int64_t i = 0; i < TARGETS_READ; i++)
        z[i] = c[i] = 1;
    if (t->values)
        memcpy(z, t->values + first, bytes);
    if (t->weights)
        memcpy(c, t->weights + first, bytes);
    for (int64_t i = 0; i < TARGETS_READ; i++)
        c[i] = y[i] != 0 ? c[i] : 0;
}

/* u_i, given f(x_i) = score. */
static INLINE double error_at(const pegasos_targets *t, int64_t i, double score)
{
    return value_at(t, i) - t->labels[i] * score;
}

/* Runs a statement in which LOSS is the loss: a constant if it is common, to avoid branches. */
#define WITH_LOSS(form, ...)                                                                       \
    do {                                                                                           \
        if ((form).kind == PEGASOS_HINGE) {                                                        \
            const loss_form LOSS = HINGE_FORM;                                                     \
            __VA_ARGS__;                                                                           \
        } else if ((form).kind == PEGASOS_SQUARED_HINGE) {                                         \
            const loss_form LOSS = SQUARED_FORM;                                                   \
            __VA_ARGS__;                                                                           \
        } else if ((form).kind == PEGASOS_LOG_LOSS) {                                              \
            const loss_form LOSS = LOG_LOSS_FORM;                                                  \
            __VA_ARGS__;                                                                           \
        } else {                                                                                   \
            const loss_form LOSS = (form);                                                         \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)

/* ---- What kind of loss it is ----------------------------------------------------------------- */

static INLINE bool loss_has_epsilon(int64_t kind)
{
    return kind == PEGASOS_EPSILON_INSENSITIVE || kind == PEGASOS_SQUARED_EPSILON_INSENSITIVE
           || kind == PEGASOS_HUBER;
}

/* Whether rows have labels, and z = 1. Otherwise they have targets, and y = 1. */
static INLINE bool loss_has_labels(int64_t kind)
{
    return kind == PEGASOS_HINGE || kind == PEGASOS_SQUARED_HINGE || kind == PEGASOS_MODIFIED_HUBER
           || kind == PEGASOS_LOG_LOSS;
}

static INLINE bool loss_is_known(pegasos_loss loss)
{
    const double least = loss.kind == PEGASOS_HUBER ? DBL_MIN : 0;
    return PEGASOS_HINGE <= loss.kind && loss.kind < PEGASOS_LOSSES
           && (loss_has_epsilon(loss.kind) ? least <= loss.epsilon && isfinite(loss.epsilon)
                                           : loss.epsilon == 0)
           && (loss.nu == 0 || (loss.kind == PEGASOS_HINGE && 0 < loss.nu && loss.nu <= 1));
}

static INLINE bool loss_is_quadratic(loss_form l)
{
    return l.kind != PEGASOS_LOG_LOSS;
}

/* Whether a row beyond its margin, u < 0, has no loss and no dual variable. */
static INLINE bool loss_has_margin(loss_form l)
{
    return l.lower == 0 && loss_is_quadratic(l);
}

/* Whether l has one derivative everywhere. */
static INLINE bool loss_is_smooth(loss_form l)
{
    return l.width > 0 || !loss_is_quadratic(l);
}

/* The largest second derivative of a smooth loss; else 0. */
static INLINE double loss_curvature(loss_form l)
{
    return !loss_is_quadratic(l) ? 0.25 : l.width > 0 ? 1 / l.width : 0;
}

/* ---- The loss -------------------------------------------------------------------------------- */

/* 1/(1 + e^-z). */
static INLINE double logistic(double z)
{
    const double e = exp_of_double(z > 0 ? -z : z);
    return (z > 0 ? 1 : e) / (1 + e);
}

/* u moved towards 0 by `dead`, and not beyond. */
static INLINE double shrunk(double u, double dead)
{
    if (dead == 0)
        return u;
    return u > dead ? u - dead : u < -dead ? u + dead : 0;
}

static INLINE double clamp(double p, double lower, double upper)
{
    p = p > lower ? p : lower;
    return p < upper ? p : upper;
}

/* l(u). */
static INLINE double loss_value(loss_form l, double u)
{
    if (!loss_is_quadratic(l))
        return (u > 1 ? u - 1 : 0) + log1p_of(exp_of_double(u > 1 ? 1 - u : u - 1));
    assert(l.lower == 0 || l.lower == -l.upper);
    /* No branch depends on u: a processor cannot predict its side. */
    const double beyond = (l.lower == 0 ? u : fabs(u)) - l.dead;
    const double v = beyond / 2 + fabs(beyond / 2); /* 0 if that is below 0 */
    if (l.width == 0)
        return l.upper * v;
    const double p = v / l.width < l.upper ? v / l.width : l.upper;
    return p * (v - l.width * p / 2);
}

/* l'(u); at a corner, the one closest to 0. */
static INLINE double loss_derivative(loss_form l, double u)
{
    if (!loss_is_quadratic(l))
        return logistic(u - 1);
    const double v = shrunk(u, l.dead);
    if (l.width == 0)
        return v > 0 ? l.upper : v < 0 ? l.lower : 0;
    return clamp(v / l.width, l.lower, l.upper);
}

/* l'(u) of some errors side by side, and `second`, l''(u) if l is smooth, else 0. Where l' reaches
 * a bound, l'' jumps, and `second` is its value within the bounds. */
enum { LOSS_LANES = 8 };
static INLINE void loss_slopes(loss_form l, const double *u, double *slope, double *second)
{
    const double dead = l.dead, lower = l.lower, upper = l.upper, per_width = 1 / l.width;
    for (int k = 0; k < LOSS_LANES; k++)
        second[k] = 0;
    if (!loss_is_quadratic(l)) {
        for (int k = 0; k < LOSS_LANES; k++)
            slope[k] = loss_derivative(l, u[k]);
        for (int k = 0; k < LOSS_LANES; k++)
            second[k] = slope[k] * (1 - slope[k]);
    } else if (!loss_is_smooth(l)) {
        for (int k = 0; k < LOSS_LANES; k++)
            slope[k] = u[k] > dead ? upper : u[k] < -dead ? lower : 0;
    } else {
        for (int k = 0; k < LOSS_LANES; k++)
            slope[k] = u[k] > dead ? u[k] - dead : u[k] < -dead ? u[k] + dead : 0;
        for (int k = 0; k < LOSS_LANES; k++)
            slope[k] *= per_width;
        for (int k = 0; k < LOSS_LANES; k++)
            second[k] = (lower <= slope[k]) & (slope[k] <= upper) & ((dead == 0) | (slope[k] != 0))
                            ? per_width
                            : 0;
        for (int k = 0; k < LOSS_LANES; k++)
            slope[k] = slope[k] > lower ? slope[k] : lower;
        for (int k = 0; k < LOSS_LANES; k++)
            slope[k] = slope[k] < upper ? slope[k] : upper;
    }
}

/* ---- Its dual variables ---------------------------------------------------------------------- */

static INLINE double loss_lower(loss_form l, double c)
{
    return l.lower == 0 || c <= 0 ? 0 : l.lower * c;
}

static INLINE double loss_upper(loss_form l, double c)
{
    return c > 0 ? l.upper * c : 0;
}

/* The dual variable nearest to a within its bounds; the lower one for NaN. */
static INLINE double loss_clip(loss_form l, double a, double c)
{
    return clamp(a, loss_lower(l, c), loss_upper(l, c));
}

/* One class: the dual variable that pegasos_nu_rescaling makes of a_i = a. */
static INLINE double nu_rescaled(pegasos_nu_rescaling rescaling, int64_t i, double a, double c)
{
    if (a <= 0)
        return i > rescaling.from ? 0 : (i < rescaling.from ? rescaling.zero : rescaling.part) * c;
    if (a >= c)
        return rescaling.full * c;
    return clamp(rescaling.inside * a + rescaling.lift * (c - a), 0, c);
}

/* What l* adds to the curvature of D along a: the second derivative of c l*(a/c). For the log loss
 * it is 0, as `loss_best` treats this loss by itself. */
static INLINE double loss_diagonal(loss_form l, double c)
{
    return l.width > 0 && c > 0 ? l.width / c : 0;
}

/* -p log p; 0 at 0. */
static INLINE double entropy_of(double p)
{
    return p > 0 ? -p * log_of(p) : 0;
}

/* c l*(a/c). */
static INLINE double loss_conjugate(loss_form l, double a, double c)
{
    if (!loss_is_quadratic(l))
        return c > 0 ? a - c * (entropy_of(a / c) + entropy_of(1 - a / c)) : 0;
    const double quadratic = l.width > 0 ? loss_diagonal(l, c) * a * a / 2 : 0;
    return l.dead == 0 ? quadratic : l.dead * fabs(a) + quadratic;
}

/* c l*(a/c) for a = c l'(u), given value = c l(u): this needs no other logarithm. */
static INLINE double loss_conjugate_of(loss_form l, double a, double c, double u, double value)
{
    return loss_is_quadratic(l) ? loss_conjugate(l, a, c) : a * u - value;
}

/* What a row adds to m (P - D) if w = w(a): c l(u) + c l*(a/c) - a u. */
static INLINE double loss_gap(loss_form l, double a, double c, double u)
{
    return c * loss_value(l, u) - a * u + loss_conjugate(l, a, c);
}

/* How far u is from where the log loss has the slope a; infinite at the bounds of a. */
static INLINE double log_loss_excess(double a, double c, double u)
{
    return a > 0 ? u - 1 - log_of(a / (c - a)) : INFINITY;
}

/* How steep m D is along a, in units of scores; 0 at the optimum. `slope` is the derivative,
 * without the corner of l* at 0. Below 0, a bound or that corner stops a, and the slope is this far
 * from releasing it. */
static INLINE double loss_steepness(loss_form l, double a, double c, double slope)
{
    if (!loss_is_quadratic(l))
        return c > 0 ? fabs(log_loss_excess(a, c, slope)) : 0;
    const double up = l.dead == 0 ? slope : slope - (a < 0 ? -l.dead : l.dead);
    const double down = l.dead == 0 ? -slope : (a > 0 ? l.dead : -l.dead) - slope;
    if (a <= loss_lower(l, c))
        return up;
    return a >= loss_upper(l, c) || down > up ? down : up;
}

/*
 * The log loss: the dual variable b for which the slope at u - q (b - a) is b. With b = c p and
 * p = 1/(1 + e^-z), it is the root of F(z) = z - (u - 1) + q (b - a). F grows, is convex below 0
 * and concave above. So Newton's method from 0, or from between 0 and the root, does not pass the
 * root. If a step passes 0, it began beyond the root. The last step is made in p, whose error is
 * the square of the step. (Yu, Huang and Lin: Dual coordinate descent methods for logistic
 * regression and maximum entropy models, Machine Learning 85, 2011, solve the same equation for b.)
 */
static INLINE double log_loss_best(double a, double c, double u, double q)
{
    enum { STEPS = 60 };
    const double accuracy = 1e-8; /* its square is rounding */
    const double sign = u - 1 - q * (c / 2 - a) < 0 ? -1 : 1;
    double z = 0 < a && a < c ? log_of(a / (c - a)) : 0;
    const bool is_right = z * sign > 0;
    double p = is_right ? a / c : 0.5;
    z = is_right ? z : 0;
    for (int n = 0; n < STEPS; n++) {
        const double derivative = p * (1 - p), excess = z - (u - 1) + q * (c * p - a);
        const double step = excess / (1 + q * c * derivative);
        if (!(fabs(step) > accuracy * (1 + fabs(z))))
            return c * (p - step * derivative);
        z = (z - step) * sign > 0 ? z - step : 0;
        p = logistic(z);
    }
    return c * p;
}

/* The best value of a dual variable that is a now, if a change of it by 1 changes u by -q. */
static INLINE double loss_best(loss_form l, double a, double c, double u, double q)
{
    if (!loss_is_quadratic(l))
        return log_loss_best(a, c, u, q);
    const double lower = loss_lower(l, c), upper = loss_upper(l, c), h = loss_diagonal(l, c);
    const double curvature = q + h;
    if (!(curvature > 0)) {
        const double v = shrunk(u, l.dead);
        return clamp(v > 0 ? upper : v < 0 ? lower : 0, lower, upper);
    }
    const double best =
        l.dead == 0 ? a + (u - h * a) / curvature : shrunk(u + q * a, l.dead) / curvature;
    return clamp(best, lower, upper);
}

/* ---- For models without features, and for Newton's method ------------------------------------ */

/* Scores beyond this are as good as infinite: the log loss is below rounding there. */
#define LOSS_FAR 40.0

/*
 * Newton's method takes a smooth loss. A loss with corners, or with a narrow width, is smoothed
 * (newton.c), and has another width and a centre. Otherwise, the width is the loss's own.
 */

/* The part of a width that is smoothing; 0 for the log loss, which no width changes. */
static INLINE double loss_smoothing(loss_form l, double width)
{
    return loss_is_quadratic(l) ? width - l.width : 0;
}

/* The slope of the smoothed loss at u, which is a dual variable. */
static INLINE double loss_slope(loss_form l, double centre, double c, double u, double width)
{
    if (!loss_is_quadratic(l))
        return c * logistic(u - 1);
    return loss_clip(l, shrunk(centre + c * u / width, c * l.dead / width), c);
}

/* Its second derivative, given the slope: 0 at the bounds, and where l' is 0. */
static INLINE double loss_second_derivative(loss_form l, double slope, double c, double width)
{
    if (!loss_is_quadratic(l))
        return c > 0 ? slope * (1 - slope / c) : 0;
    const bool is_within = loss_lower(l, c) < slope && slope < loss_upper(l, c);
    return is_within && (l.dead == 0 || slope != 0) ? c / width : 0;
}

/* The width of a smooth loss; for the log loss, any number. */
static INLINE double loss_width(loss_form l)
{
    return l.width > 0 ? l.width : 0.5;
}

#endif
