/*
 * bundle.c - epochs of dual coordinate ascent of several problems over the same rows.
 *
 * These problems visit the rows in one order. Most of the time goes into reaching the numbers of w,
 * which then serves all problems (`sweep_bundle`). A bundle costs as much as three problems.
 */
#include "passes.h"
#include "step.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { COSTS = 3, DRAWS_PER_PIECE = 256 };
/* The most numbers of a piece of work, unless one row has more. */
static const double NUMBERS_PER_PIECE = 1e5;
/* Above this factor in w = factor v, the factor is folded into v, whose numbers get small. */
static const double LARGEST_FACTOR = 1e6;

/* ---- Visits ---------------------------------------------------------------------------------- */

/* loss_best for q = 1/length, without a branch where there is a closed form. */
static INLINE double best_by_length(const loss_form loss, double a, double c, double u,
                                    double length)
{
    if (!loss_is_quadratic(loss))
        return loss_best(loss, a, c, u, 1 / length);
    const double diagonal = loss_diagonal(loss, c);
    const double damped = diagonal > 0 ? 1 / (1 / length + diagonal) : length;
    return loss_clip(loss, shrunk(a + (u - diagonal * a) * damped, loss.dead * damped), c);
}

/* The numbers of a bundle's problems that visits need, lane by lane, so that lanes become SIMD.
 * Unused lanes have labels of 0, and do not change. */
typedef struct lanes {
    double scale[MOST_LANES], step[MOST_LANES], longer[MOST_LANES]; /* step is 1/(scale longer) */
    double feature[MOST_LANES], square[MOST_LANES];                 /* square is feature^2 */
    double intercept[MOST_LANES], constant[MOST_LANES], constant_sum[MOST_LANES];
    double factor[MOST_LANES], inverse[MOST_LANES], squared[MOST_LANES];
    bool is_pegasos;
} lanes;

static INLINE void load_lanes(lanes *x, const pegasos_bundle *b)
{
    for (int64_t l = 0; l < b->n_problems; l++) {
        const pegasos_dual *const p = &b->problems[l];
        x->scale[l] = p->scale;
        x->step[l] = 1 / p->scale;
        x->longer[l] = 1;
        x->feature[l] = p->intercept_scaling;
        x->square[l] = p->intercept_scaling * p->intercept_scaling;
        x->intercept[l] = p->intercept;
        x->constant[l] = p->constant_weight;
        x->factor[l] = p->factor;
        x->inverse[l] = 1 / p->factor;
        x->squared[l] = p->squared_norm;
        x->is_pegasos |= p->pegasos_mass > 0;
    }
}

static INLINE void store_lanes(const lanes *x, const pegasos_bundle *b, bool with_sums)
{
    for (int64_t l = 0; l < b->n_problems; l++) {
        b->problems[l].constant_weight = x->constant[l];
        b->problems[l].squared_norm = x->squared[l];
        b->problems[l].constant_sum += with_sums ? x->constant_sum[l] : 0;
    }
}

/* In the first epoch: the length of steps with row i, of weight c, in the sample; see `growth`. */
static INLINE void lengthen(lanes *x, const pegasos_bundle *b, const int8_t *labels, double c)
{
    for (int64_t l = 0; l < b->n_problems; l++) {
        pegasos_dual *const p = &b->problems[l];
        if (p->pegasos_mass > 0 && labels[l] != 0) {
            x->longer[l] = growth(p->pegasos_mass, p->weight_seen += c);
            x->step[l] = 1 / (p->scale * x->longer[l]);
        }
    }
}

/*
 * Makes steps for a bundle of problems, over `count` rows in a given order. No row is left out:
 * most of the time goes into reaching the numbers of w, which serves all problems at once. a and
 * the numbers of a visit are double; v, where w = factor v, and the sums have the rows' type.
 *
 * The mean of w over visits costs no pass over w. An addition at a visit, after `before` others, is
 * part of all later w. So the sum of w over visits is (number of visits) w - sums, where sums +=
 * before (addition).
 */
static INLINE void sweep_bundle(const row_functions *f, const pegasos_rows *rows,
                                const pegasos_bundle *b, int64_t before, int64_t count,
                                const int64_t *draws, const loss_form loss)
{
    const int8_t *const labels = b->targets.labels;
    const double *const weights = b->targets.weights, *const norms = b->norms;
    double *const a = b->a;
    const int B = f->lanes;
    lanes x = {.is_pegasos = false};
    load_lanes(&x, b);
    for (int64_t j = 0; j < count; j++) {
        const int64_t i = draws[j], next = j + 1 < count ? draws[j + 1] : i;
        const double c = sample_weight(weights, i), z = value_at(&b->targets, i);
        const double x_norm = norms[i] > 0 ? norms[i] : DBL_MIN; /* a divisor */
        const double visits = (double)(before + j);
        double score[MOST_LANES], change[MOST_LANES], summed[MOST_LANES], moved = 0;
        PREFETCH(labels + next * B);
        for (int l = 0; l < B; l += 64 / (int)sizeof(double))
            PREFETCH(a + next * B + l);
        if (x.is_pegasos)
            lengthen(&x, b, labels + i * B, c);
        f->dot_bundle(rows, i, b->v, B, B, next, score);
        for (int l = 0; l < B; l++) {
            const double y = labels[i * B + l], old = a[i * B + l];
            const double inner = x.factor[l] * score[l] + x.feature[l] * x.constant[l];
            const double u = z - y * (x.longer[l] * inner + x.intercept[l]);
            const double norm = x_norm + x.square[l], length = x.step[l] / norm;
            double best = best_by_length(loss, old, c, u, length);
            best = y != 0 ? best : old;
            a[i * B + l] = best;
            change[l] = x.scale[l] * (best - old) * y;
            x.squared[l] += change[l] * (2 * inner + change[l] * norm);
            x.constant[l] += change[l] * x.feature[l];
            x.constant_sum[l] += visits * change[l] * x.feature[l];
            change[l] *= x.inverse[l];
            summed[l] = visits * change[l];
            moved += fabs(change[l]); /* a square could be lost to underflow */
        }
        if (moved == 0)
            continue;
        f->add_bundle(rows, i, change, b->v);
        if (before >= 0)
            f->add_bundle(rows, i, summed, b->sums);
    }
    store_lanes(&x, b, before >= 0);
}

#define DEFINE_SWEEPS(TYPE)                                                                        \
    CLONES_WIDE static void sweep_##TYPE(const pegasos_rows *rows, const pegasos_bundle *b,        \
                                         int64_t before, int64_t count, const int64_t *draws)      \
    {                                                                                              \
        const loss_form loss = loss_of(b->targets.loss);                                           \
        WITH_LOSS(loss, sweep_bundle(&functions_##TYPE, rows, b, before, count, draws, LOSS));     \
    }
FOR_EVERY_TYPE(DEFINE_SWEEPS)

void pegasos_bundle_sweep(const pegasos_rows *rows, const pegasos_bundle *b, int64_t before,
                          int64_t count, const int64_t *draws)
{
    assert(are_there(rows, 0, 0) && are_in_range(draws, count, 0, rows->n_rows));
    assert(1 <= b->n_problems && b->n_problems <= BUNDLE_BYTES / rows->value_bytes);
    DISPATCH(sweep, rows, b, before, count, draws);
}

/* ---- Epochs ---------------------------------------------------------------------------------- */

/* Moves the reference of a free intercept to the present intercept: see `pegasos_ascent`. */
static void begin_epoch(const pegasos_rows *rows, const pegasos_bundle *b, bool is_last)
{
    if (is_last)
        memset(b->sums, 0, (size_t)(rows->n_features + 1) * BUNDLE_BYTES);
    for (int64_t l = 0; l < b->n_problems; l++) {
        pegasos_dual *const p = &b->problems[l];
        p->constant_sum = 0;
        if (b->order->next > 0)
            p->pegasos_mass = p->weight_seen = 0;
        if (b->order->next > 0 && b->free_intercept)
            p->intercept += p->intercept_scaling * p->constant_weight;
    }
}

/* Turns sums of sweeps into means over `visits`: of v (w = factor v) and of w's constant weight. */
static void find_means(const pegasos_rows *rows, const pegasos_bundle *b, int64_t visits)
{
    const int64_t bytes = rows->value_bytes, B = BUNDLE_BYTES / bytes, size = rows->n_features * B;
    for (int64_t j = 0; j < size; j++)
        set_to(b->sums, bytes, j, get(b->v, bytes, j) - get(b->sums, bytes, j) / (double)visits);
    for (int64_t l = 0; l < b->n_problems; l++) {
        const pegasos_dual *p = &b->problems[l];
        set_to(b->sums, bytes, size + l, p->constant_weight - p->constant_sum / (double)visits);
    }
}

/* Visits some more rows; returns the cost. Means are over the last half of the last epoch. */
static double visit(const pegasos_rows *rows, const pegasos_bundle *b)
{
    const int64_t n = b->order->n_rows, half = n / 2, place = b->order->next % n;
    const bool is_last = b->order->next / n + 1 >= b->last_epoch;
    const double numbers = cost_of_row(rows), affordable = NUMBERS_PER_PIECE / numbers;
    int64_t count = (is_last && place < half ? half : n) - place, draws[DRAWS_PER_PIECE];
    if (place == 0)
        begin_epoch(rows, b, is_last);
    count = min_of(count, DRAWS_PER_PIECE);
    if ((double)count > affordable)
        count = affordable > 1 ? (int64_t)affordable : 1;
    pegasos_order_draw(b->order, b->permutation, count, draws);
    for (int64_t j = 0; j < count; j++)
        draws[j] = b->inside[draws[j]];
    pegasos_bundle_sweep(rows, b, is_last ? place - half : -1, count, draws);
    const bool is_over = is_last && place + count == n;
    if (is_over)
        find_means(rows, b, n - half);
    return COSTS * (2 * numbers * (double)count + (is_over ? (double)rows->n_features : 0));
}

int64_t pegasos_bundle_run(const pegasos_rows *rows, const pegasos_bundle *bundle,
                           pegasos_watch *watch)
{
    const pegasos_order *const order = bundle->order;
    assert(are_there(rows, 0, 0) && order->n_rows >= 1);
    assert(1 <= bundle->n_problems && bundle->n_problems <= BUNDLE_BYTES / rows->value_bytes);
    while (order->next / order->n_rows < bundle->last_epoch) {
        if (is_to_stop(watch, visit(rows, bundle)))
            return PEGASOS_STOPPED;
    }
    return PEGASOS_DONE;
}

/* ---- Another lambda -------------------------------------------------------------------------- */

/*
 * With q = before/lam of a problem, w(a) becomes q w. Of the points r a with 1/q <= r <= 1, this
 * takes the one with the best dual value. At r = 1/q, w stays, as it does for small lam once no row
 * is at a bound; at r = 1, a stays. D(r a) = r A - r^2 B is highest at A/(2 B), with A = sum_i (z_i
 * a_i - dead |a_i|)/m and B = lam/2 |q w|^2 + sum_i h_i a_i^2/(2m).
 */
void pegasos_bundle_change_lam(const pegasos_rows *rows, const pegasos_bundle *b,
                               const double *masses, const double *before, const double *lams)
{
    const loss_form form = loss_of(b->targets.loss);
    const int64_t bytes = rows->value_bytes, B = BUNDLE_BYTES / bytes;
    const double *const weights = b->targets.weights;
    for (int64_t k = 0; k < b->n_problems; k++) {
        const double lam = lams[k], q = before[k] > 0 ? before[k] / lam : 1;
        pegasos_dual *const p = &b->problems[k];
        double sum = 0, quadratic = 0;
        if (lam == before[k])
            continue;
        for (int64_t i = 0; i < rows->n_rows; i++) {
            const double a = b->a[i * B + k];
            sum += value_at(&b->targets, i) * a - form.dead * fabs(a);
            quadratic += loss_diagonal(form, sample_weight(weights, i)) * a * a;
        }
        const double twice_b = lam * q * q * p->squared_norm + quadratic / masses[k];
        const double r = twice_b > 0 ? clamp(sum / masses[k] / twice_b, 1 / q, 1) : 1;
        for (int64_t i = 0; i < rows->n_rows; i++)
            b->a[i * B + k] *= r;
        p->scale = 1 / (lam * masses[k]);
        p->squared_norm *= q * r * (q * r);
        p->constant_weight *= q * r;
        p->factor *= q * r;
        if (p->factor <= LARGEST_FACTOR)
            continue;
        for (int64_t j = 0; j < rows->n_features; j++)
            set_to(b->v, bytes, j * B + k, get(b->v, bytes, j * B + k) * p->factor);
        p->factor = 1;
    }
}
