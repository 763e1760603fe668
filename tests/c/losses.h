/*
 * losses.h - the losses of pegasos.h, for tests: each by its own formula, other than in loss.h.
 */
#ifndef LOSSES_H
#define LOSSES_H

#include "core.h"

#include <math.h>
#include <stdbool.h>

enum { LOSSES = 8 };

/* One loss of each kind, in the order of their numbers. */
static const pegasos_loss losses[LOSSES] = {
    {PEGASOS_HINGE,                       0   },
    {PEGASOS_SQUARED_HINGE,               0   },
    {PEGASOS_MODIFIED_HUBER,              0   },
    {PEGASOS_LOG_LOSS,                    0   },
    {PEGASOS_EPSILON_INSENSITIVE,         0.25},
    {PEGASOS_SQUARED_EPSILON_INSENSITIVE, 0.25},
    {PEGASOS_HUBER,                       0.75},
    {PEGASOS_SQUARED_ERROR,               0   },
};

static inline bool has_labels(pegasos_loss loss)
{
    return loss.kind < PEGASOS_EPSILON_INSENSITIVE;
}

static inline bool has_corners(pegasos_loss loss)
{
    return loss.kind == PEGASOS_HINGE || loss.kind == PEGASOS_EPSILON_INSENSITIVE;
}

/* How far u is outside [-epsilon, epsilon]. */
static inline double miss_of(pegasos_loss loss, double u)
{
    return u > loss.epsilon ? u - loss.epsilon : u < -loss.epsilon ? u + loss.epsilon : 0;
}

/* l(u). */
static inline double loss_at(pegasos_loss loss, double u)
{
    const double positive = fmax(0, u), miss = miss_of(loss, u);
    switch (loss.kind) {
    case PEGASOS_HINGE:
        return positive;
    case PEGASOS_SQUARED_HINGE:
        return positive * positive;
    case PEGASOS_MODIFIED_HUBER:
        return u > 2 ? 4 * u - 4 : positive * positive;
    case PEGASOS_LOG_LOSS:
        return u > 30 ? u - 1 : log(1 + exp(u - 1));
    case PEGASOS_EPSILON_INSENSITIVE:
        return fabs(miss);
    case PEGASOS_SQUARED_EPSILON_INSENSITIVE:
        return miss * miss;
    case PEGASOS_HUBER:
        return fabs(u) > loss.epsilon ? loss.epsilon * (fabs(u) - loss.epsilon / 2) : u * u / 2;
    default:
        return u * u / 2;
    }
}

/* l'(u); 0 in a corner. */
static inline double slope_at(pegasos_loss loss, double u)
{
    const double miss = miss_of(loss, u);
    switch (loss.kind) {
    case PEGASOS_HINGE:
        return u > 0;
    case PEGASOS_SQUARED_HINGE:
        return 2 * fmax(0, u);
    case PEGASOS_MODIFIED_HUBER:
        return 2 * fmin(2, fmax(0, u));
    case PEGASOS_LOG_LOSS:
        return 1 / (1 + exp(1 - u));
    case PEGASOS_EPSILON_INSENSITIVE:
        return (miss > 0) - (miss < 0);
    case PEGASOS_SQUARED_EPSILON_INSENSITIVE:
        return 2 * miss;
    case PEGASOS_HUBER:
        return fmin(loss.epsilon, fmax(-loss.epsilon, u));
    default:
        return u;
    }
}

/* l''(u), where it exists. */
static inline double second_derivative_at(pegasos_loss loss, double u)
{
    switch (loss.kind) {
    case PEGASOS_SQUARED_HINGE:
        return u > 0 ? 2 : 0;
    case PEGASOS_MODIFIED_HUBER:
        return 0 < u && u < 2 ? 2 : 0;
    case PEGASOS_LOG_LOSS:
        return 1 / (2 + exp(u - 1) + exp(1 - u));
    case PEGASOS_SQUARED_EPSILON_INSENSITIVE:
        return fabs(u) > loss.epsilon ? 2 : 0;
    case PEGASOS_HUBER:
        return fabs(u) < loss.epsilon ? 1 : 0;
    case PEGASOS_SQUARED_ERROR:
        return 1;
    default:
        return 0;
    }
}

/* The largest l''(u) of a loss without corners; else 0. */
static inline double largest_second_derivative(pegasos_loss loss)
{
    return loss.kind == PEGASOS_LOG_LOSS ? 0.25
           : has_corners(loss)           ? 0
                                         : second_derivative_at(loss, 0.5);
}

/* The bounds of a/c. */
static inline double upper_slope(pegasos_loss loss)
{
    switch (loss.kind) {
    case PEGASOS_HINGE:
    case PEGASOS_LOG_LOSS:
    case PEGASOS_EPSILON_INSENSITIVE:
        return 1;
    case PEGASOS_MODIFIED_HUBER:
        return 4;
    case PEGASOS_HUBER:
        return loss.epsilon;
    default:
        return INFINITY;
    }
}

static inline double lower_slope(pegasos_loss loss)
{
    return has_labels(loss) ? 0 : -upper_slope(loss);
}

static inline bool is_within_bounds(pegasos_loss loss, double a, double c)
{
    return c > 0 ? c * lower_slope(loss) <= a && a <= c * upper_slope(loss) : a == 0;
}

/* l*(p), within its bounds. */
static inline double conjugate_at(pegasos_loss loss, double p)
{
    switch (loss.kind) {
    case PEGASOS_HINGE:
        return 0;
    case PEGASOS_SQUARED_HINGE:
    case PEGASOS_MODIFIED_HUBER:
        return p * p / 4;
    case PEGASOS_LOG_LOSS:
        return p + (p > 0 ? p * log(p) : 0) + (p < 1 ? (1 - p) * log(1 - p) : 0);
    case PEGASOS_EPSILON_INSENSITIVE:
        return loss.epsilon * fabs(p);
    case PEGASOS_SQUARED_EPSILON_INSENSITIVE:
        return loss.epsilon * fabs(p) + p * p / 4;
    default:
        return p * p / 2;
    }
}

/* What a row adds to m D, without the norm: z a - c l*(a/c). */
static inline double dual_at(pegasos_loss loss, double a, double c, double z)
{
    return c > 0 ? z * a - c * conjugate_at(loss, a / c) : 0;
}

#endif
