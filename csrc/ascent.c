/*
 * ascent.c - dual coordinate ascent, which goes where Pegasos goes, with steps that end.
 *
 * The dual of P (pegasos.h) has one variable per row, 0 <= a_i <= c_i:
 *
 *     D(a) = 1/m sum_i a_i - lam/2 |w(a)|^2,      w(a) = s sum_i a_i y_i x_i,      s = 1/(lam m)
 *
 * D(a) <= P(w) for any w. Along one coordinate D is a parabola: its derivative is u_i/m with
 * u_i = 1 - y_i <w(a), x_i>, its curvature s |x_i|^2/m, so the best value within bounds is
 *
 *     a_i <- clip(a_i + u_i / (s |x_i|^2), 0, c_i),      w <- w + s (change of a_i) y_i x_i
 *
 * (Hsieh, Chang, Lin, Keerthi, Sundararajan: A dual coordinate descent method for large-scale linear
 * SVM, ICML 2008; Shalev-Shwartz and Zhang, JMLR 14, 2013.) Vectors are double, whatever the rows: w follows
 * a through millions of changes, and the gap asked for may be 1e-6. Only bundles, which take the first and
 * coarse epochs, have weights of the rows' type: twice as many problems then share a line of cache.
 */
#include "rows.h"

#include <float.h>
#include <math.h>

/* Moves a random one of the rows active[begin .. end - 1] to the front. */
static INLINE void choose(uint64_t *generator, int64_t *active, int64_t begin, int64_t end)
{
    if (begin >= end)
        return;
    const int64_t chosen = begin + pegasos_bounded_random(generator, end - begin);
    const int64_t row = active[chosen];
    active[chosen] = active[begin];
    active[begin] = row;
}

/* Takes the row at `position` out: the next one, which is chosen already, takes its place. */
static INLINE void leave_out(pegasos_dual *p, int64_t *active)
{
    const int64_t last = --p->n_active, row = active[p->position];
    if (p->position < last) {
        active[p->position] = active[p->position + 1];
        active[p->position + 1] = active[last];
    }
    active[last] = row;
}

/*
 * Up to `count` coordinates of the epoch under way.
 *
 * Shrinking (Hsieh et al., section 3.2): a row whose a_i is stuck at a bound, with a derivative that
 * pushes it further out than that of any row in the epoch before, is left out of later epochs. The
 * projected derivative of a row is u_i, or 0 where a bound stops it; all of them 0 is the optimum.
 *
 * How far that is, the same numbers tell: for w = w(a), lam m |w|^2 = sum_i a_i y_i <w, x_i>, so that
 * m (P(w) - D(a)) = sum_i c_i max(0, u_i) - a_i u_i, to which rows with a projected derivative of 0 add
 * nothing. `gap` sums this over an epoch, each row as it was before its step.
 */
static INLINE int64_t ascend(const row_functions *f, const pegasos_rows *rows, pegasos_dual *p,
                             const int8_t *labels, const double *bounds, const double *norms,
                             int64_t *active, double *a, double *w, int64_t count)
{
    int64_t j = 0;
    if (!p->is_chosen) {
        choose(&p->generator, active, 0, p->n_active);
        p->is_chosen = 1;
    }
    for (; j < count && p->position < p->n_active; j++) {
        const int64_t i = active[p->position];
        choose(&p->generator, active, p->position + 1, p->n_active);
        const int64_t next = p->position + 1 < p->n_active ? active[p->position + 1] : i;
        const double y = labels[i], c = bounds ? bounds[i] : 1;
        const double inner = f->dot(rows, i, w, next) + p->intercept_scaling * p->constant_weight;
        const double u = 1 - y * (inner + p->intercept);
        if ((a[i] <= 0 && u < p->lowest_before) || (a[i] >= c && u > p->highest_before)) {
            leave_out(p, active);
            continue;
        }
        p->position++;
        if ((a[i] <= 0 && u < 0) || (a[i] >= c && u > 0))
            continue;
        p->highest = u > p->highest ? u : p->highest;
        p->lowest = u < p->lowest ? u : p->lowest;
        const double curvature = p->scale * norms[i];
        double best = curvature > 0 ? a[i] + u / curvature : (u > 0 ? c : 0);
        best = best < 0 ? 0 : best > c ? c : best;
        const double change = p->scale * (best - a[i]) * y;
        if (change == 0)
            continue;
        p->gap += (u > 0 ? c * u : 0) - a[i] * u;
        a[i] = best;
        f->add(rows, i, change, w);
        p->constant_weight += change * p->intercept_scaling;
        p->squared_norm += change * (2 * inner + change * norms[i]);
    }
    return j;
}

/*
 * The same steps for a bundle of problems, over `count` rows in a given order: no row is left out, since
 * what most of the time goes into, reaching the numbers of w, serves all problems. a is double, and so is
 * what is worked out for a visit; v, where w = factor v, and the sums are of the rows' type.
 *
 * The mean of w over visits costs no pass over w: what is added at a visit, after `before` others, is
 * part of all w from then on, so that sum of w over visits = (number of visits) w - sums, where
 * sums += before (what is added).
 */
static INLINE void sweep(const row_functions *f, const pegasos_rows *rows, int64_t n_problems,
                         pegasos_dual *problems, const int8_t *labels, const double *bounds,
                         const double *norms, double *a, void *v, void *sums, int64_t before,
                         int64_t count, const int64_t *draws)
{
    const int B = f->lanes;
    /* Lane by lane, so that lanes become SIMD; those to spare have labels of 0, and stay as they are. */
    double scale[MOST_LANES] = {0}, step[MOST_LANES] = {0}, feature[MOST_LANES] = {0};
    double intercept[MOST_LANES] = {0}, constant[MOST_LANES] = {0}, gap[MOST_LANES] = {0};
    double factor[MOST_LANES] = {0}, inverse[MOST_LANES] = {0}, squared[MOST_LANES] = {0};
    double constant_sum[MOST_LANES] = {0};
    for (int64_t l = 0; l < n_problems; l++) {
        factor[l] = problems[l].factor;
        inverse[l] = 1 / problems[l].factor;
        squared[l] = problems[l].squared_norm;
        scale[l] = problems[l].scale;
        step[l] = 1 / problems[l].scale;
        feature[l] = problems[l].intercept_scaling;
        intercept[l] = problems[l].intercept;
        constant[l] = problems[l].constant_weight;
    }
    for (int64_t j = 0; j < count; j++) {
        const int64_t i = draws[j], next = j + 1 < count ? draws[j + 1] : i;
        const double c = bounds ? bounds[i] : 1, norm = norms[i] > 0 ? norms[i] : DBL_MIN;
        const double visits = (double)(before + j);
        double score[MOST_LANES], change[MOST_LANES], summed[MOST_LANES], moved = 0;
        PREFETCH(labels + next * B);
        for (int l = 0; l < B; l += 64 / (int)sizeof(double))
            PREFETCH(a + next * B + l);
        f->dot_bundle(rows, i, v, B, B, next, score);
        for (int l = 0; l < B; l++) {
            const double y = labels[i * B + l], old = a[i * B + l];
            const double inner = factor[l] * score[l] + feature[l] * constant[l];
            const double u = 1 - y * (inner + intercept[l]);
            double best = old + u * (step[l] / norm);
            best = best > 0 ? best : 0; /* NaN, which is 0 times infinity, too */
            best = best < c ? best : c;
            best = y != 0 ? best : old;
            gap[l] += y != 0 ? (u > 0 ? c * u : 0) - old * u : 0;
            a[i * B + l] = best;
            change[l] = scale[l] * (best - old) * y;
            squared[l] += change[l] * (2 * inner + change[l] * norm);
            constant[l] += change[l] * feature[l];
            constant_sum[l] += visits * change[l] * feature[l];
            change[l] *= inverse[l];
            summed[l] = visits * change[l];
            moved += fabs(change[l]); /* a square could be lost to underflow */
        }
        if (moved == 0)
            continue;
        f->add_bundle(rows, i, change, v, sums);
        if (sums)
            f->add_bundle(rows, i, summed, sums, NULL);
    }
    for (int64_t l = 0; l < n_problems; l++) {
        problems[l].constant_weight = constant[l];
        problems[l].squared_norm = squared[l];
        problems[l].gap += gap[l];
        problems[l].constant_sum += sums ? constant_sum[l] : 0;
    }
}

#define DEFINE_ASCENTS(TYPE)                                                                       \
    CLONES_WIDE static void ascend_##TYPE(                                                         \
        const pegasos_rows *rows, pegasos_dual *p, const int8_t *labels, const double *bounds,     \
        const double *norms, int64_t *active, double *a, double *w, int64_t count, int64_t *done)  \
    {                                                                                              \
        pegasos_dual copy = *p; /* which need not go to memory at every change */                  \
        *done =                                                                                    \
            ascend(&functions_##TYPE, rows, &copy, labels, bounds, norms, active, a, w, count);    \
        *p = copy;                                                                                 \
    }
FOR_EVERY_WIDE_TYPE(DEFINE_ASCENTS)

#define DEFINE_SWEEPS(TYPE)                                                                        \
    CLONES_WIDE static void sweep_##TYPE(                                                          \
        const pegasos_rows *rows, int64_t n_problems, pegasos_dual *problems,                      \
        const int8_t *labels, const double *bounds, const double *norms, double *a, void *v,       \
        void *sums, int64_t before, int64_t count, const int64_t *draws)                           \
    {                                                                                              \
        sweep(&functions_##TYPE, rows, n_problems, problems, labels, bounds, norms, a, v, sums,    \
              before, count, draws);                                                               \
    }
FOR_EVERY_TYPE(DEFINE_SWEEPS)

CLONES static void ascend_kernel(const pegasos_rows *rows, pegasos_dual *p, const int8_t *labels,
                                 const double *bounds, const double *norms, int64_t *active,
                                 double *a, double *v, int64_t count, int64_t *done)
{
    pegasos_dual copy = *p;
    *done = ascend(&functions_kernel, rows, &copy, labels, bounds, norms, active, a, v, count);
    *p = copy;
}

void pegasos_dual_begin_epoch(pegasos_dual *p)
{
    /* Bounds of 0 say nothing: then no row is left out. */
    p->highest_before = p->highest > 0 ? p->highest : INFINITY;
    p->lowest_before = p->lowest < 0 ? p->lowest : -INFINITY;
    p->highest = p->lowest = p->gap = 0;
    p->position = p->is_chosen = 0;
}

void pegasos_dual_start(pegasos_dual *p, int64_t n_active)
{
    assert(n_active >= 0);
    p->n_active = n_active;
    p->highest = p->lowest = 0;
    pegasos_dual_begin_epoch(p);
}

int64_t pegasos_dual_run(const pegasos_rows *rows, pegasos_dual *problem, const int8_t *labels,
                         const double *bounds, const double *norms, int64_t *active, double *a,
                         double *w, int64_t count)
{
    int64_t done = 0;
    assert(are_plausible(rows) && 0 <= problem->position && problem->position <= problem->n_active);
    assert(are_in_range(active, problem->n_active, 0, rows->n_rows));
    if (rows->index_bytes == PEGASOS_KERNEL)
        ascend_kernel(rows, problem, labels, bounds, norms, active, a, w, count, &done);
    else
        DISPATCH_WIDE(ascend, rows, problem, labels, bounds, norms, active, a, w, count, &done);
    return done;
}

void pegasos_dual_sweep(const pegasos_rows *rows, int64_t n_problems, pegasos_dual *problems,
                        const int8_t *labels, const double *bounds, const double *norms, double *a,
                        void *v, void *sums, int64_t before, int64_t count, const int64_t *draws)
{
    assert(are_there(rows, 0, 0) && are_in_range(draws, count, 0, rows->n_rows));
    assert(1 <= n_problems && n_problems <= BUNDLE_BYTES / rows->value_bytes);
    DISPATCH(sweep, rows, n_problems, problems, labels, bounds, norms, a, v, sums, before, count,
             draws);
}
