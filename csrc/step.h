/*
 * step.h - the parts of a step of Pegasos, for any form of v: see pegasos.c.
 */
#ifndef PEGASOS_STEP_H
#define PEGASOS_STEP_H

#include "loss.h"

/* T after the steps taken: w = q v / (lam T). */
static INLINE double time_of(const pegasos_linear *p)
{
    return (double)(p->n_steps + p->delay);
}

static INLINE double slope_of(loss_form l, const pegasos_linear *p, double y, double z, double dot)
{
    const double score = p->q * (dot + p->intercept_scaling * p->constant_weight);
    const double f = p->n_steps > 0 ? score / (p->lam * time_of(p)) : 0;
    return loss_derivative(l, z - y * (f + p->intercept));
}

/* Whether l'(u) is not 0. With margins: y <w_t, x> + y b < 1, multiplied by lam (T - 1). */
static INLINE bool violates(loss_form l, const pegasos_linear *p, double y, double z, double dot)
{
    if (l.lower < 0 || !loss_is_quadratic(l))
        return slope_of(l, p, y, z, dot) != 0;
    if (p->n_steps == 0)
        return true;
    const double score = p->q * (dot + p->intercept_scaling * p->constant_weight);
    return y * score < p->lam * time_of(p) * (1 - y * p->intercept);
}

/* The slope of a row that violates its margin; for the hinge 1, wherever rounding puts u. */
static INLINE double slope_of_violation(loss_form l, const pegasos_linear *p, double y, double z,
                                        double dot)
{
    return l.kind == PEGASOS_HINGE ? 1 : slope_of(l, p, y, z, dot);
}

/* Adds a row of label y and weight c, with l'(u) = slope, to the step. Returns its coefficient: the
 * multiple of x that the caller must add to v. All other numbers of the problem, except a, are
 * updated here, and so is `count`, the row's alpha count, unless it is NULL. */
static INLINE double take_row(pegasos_linear *p, double y, double c, double slope,
                              int64_t batch_size, double *count)
{
    const double g = slope * y * c * (p->weight_factor / (double)batch_size);
    const double coefficient = g / p->q; /* minus the sub-gradient is g x_i */
    if (p->rate_sum > 0)
        p->constant_sum += p->rate_sum * coefficient * p->intercept_scaling;
    if (p->free_intercept)
        p->intercept += g / (p->lam * time_of(p));
    if (count)
        *count += slope;
    p->n_violations++;
    return coefficient;
}

/* w <- min(1, sqrt(ball/lam)/|w|) w, where w = q v / (lam T), by changing q only; true: q is so
 * small that it must be folded into v. */
static INLINE bool project_on_ball(pegasos_linear *p)
{
    const double radius = sqrt(p->ball * p->lam) * time_of(p); /* of q v */
    if (p->q * p->q * p->squared_norm > radius * radius)
        p->q = radius / sqrt(p->squared_norm);
    return p->q < 1.0 / 1024;
}

/* v <- q v, q <- 1, for a problem's numbers, not its arrays. The average's sum S v - a stays:
 * a <- a - S v, S <- 0. S/q would be exact, too, but S v and a would grow until rounding drowned
 * their difference. */
static INLINE void fold_numbers(pegasos_linear *p)
{
    if (p->rate_sum > 0)
        p->constant_sum -= p->rate_sum * p->constant_weight;
    p->rate_sum = 0;
    p->constant_weight *= p->q;
    p->squared_norm *= p->q * p->q;
    p->q = 1;
}

/*
 * Ends step t: moves b along the term nu b of P, and adds w and b to the average.
 *
 * The average of w_{tau+1} = q_tau v_{tau+1} / (lam (tau + t0)) over steps costs no O(d) either.
 * Let S_t = sum_{tau <= t} q_tau / (tau + t0). A row added to v at step t with coefficient r is
 * part of all later iterates and of none before, and so adds r (S_T - S_{t-1}) x / lam to their
 * sum. Hence a += S_{t-1} r x goes with v += r x, and the sum is (S_T v - a) / lam.
 */
static INLINE void count_step(pegasos_linear *p, double nu)
{
    if (nu != 0) /* the slope of nu b */
        p->intercept -= nu / (p->lam * time_of(p));
    if (p->average_from > 0 && p->n_steps >= p->average_from) {
        p->rate_sum += p->q / time_of(p);
        p->intercept_sum += p->intercept;
        p->n_averaged++;
    }
}

/* Number of the first draw that an unfinished problem has not read; -1 if all are finished.
 * Finished problems may be far ahead: their draws are not made again. */
static INLINE int64_t next_draw(int64_t n_problems, const pegasos_linear *problems)
{
    int64_t next = -1;
    for (int64_t k = 0; k < n_problems; k++) {
        const pegasos_linear *p = &problems[k];
        if (p->n_steps < p->last_step && (next < 0 || p->next_draw < next))
            next = p->next_draw;
    }
    return next;
}

/* How many draws to make at once: at most `most`, and no more than the steps left need, so that a
 * short run draws little. */
static INLINE int64_t count_draws(const pegasos_linear_set *set, int64_t most)
{
    int64_t left = 1;
    for (int64_t k = 0; k < set->n_problems; k++) {
        const int64_t own = set->problems[k].last_step - set->problems[k].n_steps;
        left = own > left ? own : left;
    }
    return left < most / set->batch_size + 1 ? left * set->batch_size : most;
}

/* Makes the draws number `first` and so on, in `room`; a list may have fewer than `count`. */
static INLINE const int64_t *take_draws(const pegasos_draws *draws, int64_t first, int64_t *count,
                                        int64_t *room)
{
    pegasos_order *const order = draws->order;
    if (!order) {
        const int64_t left = draws->first + draws->count - first;
        *count = *count < left ? *count : left > 0 ? left : 0;
        return *count > 0 ? draws->list + (first - draws->first) : room;
    }
    if (order->next != first)
        pegasos_order_seek(order, order->seed, order->n_rows, order->sampling, first,
                           draws->permutation);
    pegasos_order_draw(order, draws->permutation, *count, room);
    return room;
}

/*
 * The first epoch from a = 0 is Pegasos, with steps of exact length (Shalev-Shwartz and Zhang, JMLR
 * 14, 2013, "SGD initialisation"). With the sum of rows v, Pegasos's w_t is v/(lam t), and w(a) is
 * v/(lam m), which is too short until all rows are seen. So let N be the weight of the rows seen so
 * far, but at least m/2. The sample seen so far has w_t = (m/N) w(a) and the curvature (m/N) s
 * |x_i|^2, and its dual gives the length of the step. After the epoch N = m, and w_t is w(a): dual
 * ascent goes on from there. This returns m/N.
 */
static INLINE double growth(double mass, double weight_seen)
{
    return mass / (weight_seen > mass / 2 ? weight_seen : mass / 2);
}

#endif
