/*
 * bundle.c - epochs of dual coordinate ascent of several problems over the same rows.
 *
 * Such problems go through the rows in one order, since what most of the time goes into, reaching
 * the numbers of w, then serves all of them (pegasos_dual_sweep in ascent.c). A bundle costs as
 * much as three problems.
 */
#include "loss.h"
#include "passes.h"

#include <math.h>
#include <string.h>

enum { COSTS = 3, DRAWS_PER_PIECE = 256 };
/* A piece of work has no more numbers, unless one row has. */
static const double NUMBERS_PER_PIECE = 1e5;
/* From where on the factor of w = factor v is folded into v, whose numbers get small beside it. */
static const double LARGEST_FACTOR = 1e6;

/* The reference of a free intercept moves to where the last epoch has left it: see
 * `pegasos_ascent`. */
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

/* Makes the sums of pegasos_dual_sweep the mean of w over `visits`. */
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

/* Visits some more rows; returns the cost. The mean is over the last half of the last epoch. */
static double visit(const pegasos_rows *rows, const pegasos_bundle *b)
{
    const int64_t n = b->order->n_rows, half = n / 2, place = b->order->next % n;
    const bool is_last = b->order->next / n + 1 >= b->last_epoch;
    const double numbers = cost_of_row(rows), affordable = NUMBERS_PER_PIECE / numbers;
    int64_t count = (is_last && place < half ? half : n) - place, draws[DRAWS_PER_PIECE];
    if (place == 0)
        begin_epoch(rows, b, is_last);
    count = count < DRAWS_PER_PIECE ? count : DRAWS_PER_PIECE;
    if ((double)count > affordable)
        count = affordable > 1 ? (int64_t)affordable : 1;
    pegasos_order_draw(b->order, b->permutation, count, draws);
    for (int64_t j = 0; j < count; j++)
        draws[j] = b->inside[draws[j]];
    pegasos_dual_sweep(rows, b->n_problems, b->problems, &b->targets, b->norms, b->a, b->v,
                       is_last && place >= half ? b->sums : NULL, place - half, count, draws);
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
        const double cost = visit(rows, bundle);
        const pegasos_progress progress = {order->next / order->n_rows, INFINITY, INFINITY};
        if (is_to_stop(watch, cost, &progress))
            return PEGASOS_STOPPED;
    }
    return PEGASOS_DONE;
}

/*
 * With q = before/lam, w(a) becomes q w. Of the points r a, that of the best dual value is taken,
 * where 1/q <= r <= 1: at r = 1/q, w stays as it is, as it does for small lam once no row is at its
 * bound; at r = 1, a does. D(r a) = r A - r^2 B, with A = sum_i a_i/m and B = lam/2 |q w|^2 +
 * sum_i h_i a_i^2/(2m), is highest at A/(2 B).
 */
void pegasos_bundle_change_lam(const pegasos_rows *rows, const pegasos_bundle *b,
                               const double *masses, double before, double lam)
{
    const loss_form form = loss_of(b->targets.loss);
    const int64_t bytes = rows->value_bytes, B = BUNDLE_BYTES / bytes;
    const double q = before > 0 ? before / lam : 1, *const weights = b->targets.weights;
    for (int64_t k = 0; k < b->n_problems; k++) {
        pegasos_dual *const p = &b->problems[k];
        double sum = 0, bend = 0;
        for (int64_t i = 0; i < rows->n_rows; i++) {
            const double a = b->a[i * B + k];
            sum += a;
            bend += loss_diagonal(form, sample_weight(weights, i)) * a * a;
        }
        const double twice_b = lam * q * q * p->squared_norm + bend / masses[k];
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
