/*
 * bundle.c - the first epochs of dual coordinate ascent of several problems over the same rows.
 *
 * Such problems begin together, in one order of the rows, since what most of the time goes into,
 * reaching the numbers of w, then serves all of them (pegasos_dual_sweep in ascent.c). A bundle
 * costs as much as three problems. It ends when so few are far from their gap, or after as many
 * epochs as the caller wants: from then on, each problem leaves out rows of its own.
 */
#include "ascent.h"
#include "loss.h"

#include <string.h>

enum { WORTH = 3, DRAWS_PER_PIECE = 256 };
/* A piece of work has no more numbers, unless one row has. */
static const double NUMBERS_PER_PIECE = 1e5;
/* A problem is near its gap if it is estimated at no more than so many times that. */
static const double HOPEFUL = 1.3;

/* Whether fewer problems than a bundle is worth are far from their gap. */
static bool are_most_near(const pegasos_bundle *b)
{
    int64_t left = 0;
    for (int64_t l = 0; l < b->n_problems; l++) {
        const pegasos_ascent *s = &b->ascents[l];
        left += s->estimate > HOPEFUL * s->tol && s->primal > PEGASOS_ROUNDING;
    }
    return b->ascents->tol >= 0 && left < WORTH;
}

/* Whether this is the last epoch, in which the mean of w is taken. */
static bool is_last(const pegasos_bundle *b)
{
    return b->ascents->n_epochs + 1 >= b->last_epoch;
}

static void begin_epoch(const pegasos_rows *rows, const pegasos_bundle *b)
{
    if (b->ascents->n_snapshots > 0)
        memset(b->sums, 0, (size_t)(rows->n_features + 1) * BUNDLE_BYTES);
    for (int64_t l = 0; l < b->n_problems; l++) {
        b->problems[l].gap = b->problems[l].constant_sum = 0;
        b->ascents[l].n_snapshots = 0;
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
        b->ascents[l].n_snapshots = 1;
    }
}

static void estimate_gaps(const pegasos_rows *rows, const pegasos_bundle *b)
{
    const int64_t B = BUNDLE_BYTES / rows->value_bytes;
    double sums[MOST_LANES] = {0};
    const loss_form loss = loss_of(b->targets.loss);
    WITH_LOSS(
        loss, for (int64_t i = 0; i < rows->n_rows; i++) {
            const double c = b->targets.weights ? b->targets.weights[i] : 1;
            for (int64_t l = 0; l < B; l++)
                sums[l] += b->a[i * B + l] - loss_conjugate(LOSS, b->a[i * B + l], c);
        });
    for (int64_t l = 0; l < b->n_problems; l++)
        estimate_gap(&b->problems[l], &b->ascents[l], b->targets.loss, sums[l]);
}

/* Lets each problem go on by itself, from the end of an epoch or from within one. */
static void split_up(const pegasos_rows *rows, const pegasos_bundle *b, bool at_end)
{
    if (!at_end)
        memset(b->sums, 0, (size_t)(rows->n_features + 1) * BUNDLE_BYTES);
    for (int64_t l = 0; l < b->n_problems; l++) {
        pegasos_dual *p = &b->problems[l];
        pegasos_ascent *s = &b->ascents[l];
        const double gap = p->gap, mass = p->pegasos_mass;
        pegasos_dual_start(p, s->n_inside);
        s->place = 0;
        s->part = PEGASOS_WEIGHTS;
        if (at_end) {
            p->gap = gap;
            p->pegasos_mass = mass;
            p->position = p->n_chosen = p->n_kept = p->n_active;
        } else
            s->n_snapshots = 0;
    }
}

static void end_epoch(const pegasos_rows *rows, const pegasos_bundle *b)
{
    if (is_last(b))
        find_means(rows, b, b->n_inside - b->n_inside / 2);
    estimate_gaps(rows, b);
    for (int64_t l = 0; l < b->n_problems; l++)
        b->ascents[l].n_visits += b->ascents[l].n_inside;
    if (is_last(b) || are_most_near(b)) {
        split_up(rows, b, true);
        return;
    }
    for (int64_t l = 0; l < b->n_problems; l++) {
        pegasos_dual *p = &b->problems[l];
        pegasos_ascent *s = &b->ascents[l];
        s->place = 0;
        s->n_epochs++;
        s->n_steps += p->pegasos_mass > 0 ? s->n_inside : 0;
        p->pegasos_mass = p->weight_seen = 0;
        move_reference(p, s);
    }
}

/* Visits some more rows; returns the cost. The mean is over the last half of an epoch. How many
 * rows does not depend on the budget: gaps are summed piece by piece. */
static double visit(const pegasos_rows *rows, const pegasos_bundle *b)
{
    const int64_t place = b->ascents->place, n = b->n_inside, half = n / 2;
    const double numbers = cost_of_row(rows);
    const double affordable = NUMBERS_PER_PIECE / numbers;
    const bool averaged = is_last(b);
    int64_t count = (averaged && place < half ? half : n) - place, draws[DRAWS_PER_PIECE];
    if (place == 0)
        begin_epoch(rows, b);
    count = count < DRAWS_PER_PIECE ? count : DRAWS_PER_PIECE;
    if ((double)count > affordable)
        count = affordable > 1 ? (int64_t)affordable : 1;
    pegasos_order_draw(b->order, b->permutation, count, draws);
    for (int64_t j = 0; j < count; j++)
        draws[j] = b->inside[draws[j]];
    pegasos_dual_sweep(rows, b->n_problems, b->problems, &b->targets, b->norms, b->a, b->v,
                       averaged && place >= half ? b->sums : NULL, place - half, count, draws);
    for (int64_t l = 0; l < b->n_problems; l++)
        b->ascents[l].place = place + count;
    const double cost = 2 * WORTH * numbers * (double)count;
    if (place + count < n)
        return cost;
    end_epoch(rows, b);
    return cost + (double)(rows->n_rows + rows->n_features) * WORTH;
}

int64_t pegasos_bundle_run(const pegasos_rows *rows, const pegasos_bundle *bundle,
                           pegasos_watch *watch)
{
    const pegasos_ascent *first = bundle->ascents;
    assert(are_there(rows, 0, 0) && bundle->n_inside >= 1);
    assert(1 <= bundle->n_problems && bundle->n_problems <= BUNDLE_BYTES / rows->value_bytes);
    assert(first->part == PEGASOS_BUNDLE);
    while (first->n_epochs < bundle->last_epoch) {
        const int64_t n_epochs = first->n_epochs;
        const double cost = visit(rows, bundle);
        const pegasos_progress progress = {first->n_epochs, first->primal, first->relative_gap};
        if (first->part != PEGASOS_BUNDLE)
            return PEGASOS_DONE;
        if (is_to_stop(watch, cost, &progress)
            || (first->n_epochs > n_epochs && is_to_stop_after_epoch(watch, &progress)))
            return PEGASOS_STOPPED;
    }
    split_up(rows, bundle, false);
    return PEGASOS_DONE;
}
