/*
 * together.c - the first epochs of several fits over the same rows, as a bundle (bundle.c): what is
 * interleaved there lies problem by problem in the memory of fits.
 */
#include "fit.h"

#include <string.h>

/* The fits of a bundle, and its arrays. */
typedef struct together {
    int64_t n_problems, lanes;
    const pegasos_options *options;
    fit fits[MOST_LANES];
    pegasos_dual duals[MOST_LANES];
    pegasos_ascent ascents[MOST_LANES];
    double *a;
    int64_t *inside, *permutation;
    char *v, *sums;
    int8_t *labels;
} together;

int64_t pegasos_together_room(const pegasos_rows *rows)
{
    const int64_t lanes = PEGASOS_BUNDLE_BYTES / rows->value_bytes;
    return PEGASOS_BUNDLE_BYTES * (2 * rows->n_features + 2) + rows->n_rows * (9 * lanes + 16);
}

/* Vectors of features begin with a line of cache: loads that straddle two cost a fifth more. */
static void lay_out(together *t, const pegasos_rows *rows, void *room)
{
    const int64_t n = rows->n_rows, d = rows->n_features;
    const uintptr_t skip = (0 - (uintptr_t)room) % PEGASOS_BUNDLE_BYTES;
    memset(room, 0, (size_t)pegasos_together_room(rows));
    t->v = (char *)room + skip;
    t->sums = t->v + PEGASOS_BUNDLE_BYTES * d;
    t->a = (double *)(t->sums + PEGASOS_BUNDLE_BYTES * (d + 1));
    t->inside = (int64_t *)(t->a + n * t->lanes);
    t->permutation = t->inside + n;
    t->labels = (int8_t *)(t->permutation + n);
}

static void take(together *t)
{
    const pegasos_rows *const rows = t->fits->rows;
    const int64_t n = rows->n_rows, d = rows->n_features, bytes = rows->value_bytes, B = t->lanes;
    for (int64_t l = 0; l < t->n_problems; l++) {
        const fit *const f = &t->fits[l];
        t->duals[l] = f->s->dual;
        t->ascents[l] = f->s->ascent;
        t->ascents[l].tol = f->options->tol;
        for (int64_t i = 0; i < n; i++) {
            t->a[i * B + l] = f->a[i];
            t->labels[i * B + l] = f->targets.labels[i];
        }
        for (int64_t j = 0; j < d; j++)
            set_to(t->v, bytes, j * B + l, f->w[j]);
        for (int64_t j = 0; j <= d; j++)
            set_to(t->sums, bytes, j * B + l, f->sums[j]);
    }
}

static void put_back(const together *t)
{
    const pegasos_rows *const rows = t->fits->rows;
    const int64_t n = rows->n_rows, d = rows->n_features, bytes = rows->value_bytes, B = t->lanes;
    for (int64_t l = 0; l < t->n_problems; l++) {
        const fit *const f = &t->fits[l];
        f->s->dual = t->duals[l];
        f->s->ascent = t->ascents[l];
        for (int64_t i = 0; i < n; i++)
            f->a[i] = t->a[i * B + l];
        for (int64_t j = 0; j < d; j++)
            f->w[j] = get(t->v, bytes, j * B + l);
        for (int64_t j = 0; j <= d; j++)
            f->sums[j] = get(t->sums, bytes, j * B + l);
    }
}

/* Who hears of every epoch may want to see what there is. */
static int put_back_and_poll(void *context, const pegasos_progress *progress)
{
    const together *const t = context;
    put_back(t);
    return t->options->poll(t->options->context, progress);
}

/* Whether all problems are in the bundle, and in step: none goes on without the others. */
static bool are_in_step(const together *t, double lam)
{
    const state *const first = t->fits->s;
    for (int64_t l = 0; l < t->n_problems; l++) {
        const state *const s = t->fits[l].s;
        if (s->pending != PEGASOS_GO_ON || s->solver != PEGASOS_ASCENT
            || s->ascent.part != PEGASOS_BUNDLE || s->ascent.n_epochs != first->ascent.n_epochs
            || s->ascent.place != first->ascent.place || s->lam != lam)
            return false;
    }
    return true;
}

/* Lists the rows that are in some of the problems. */
static int64_t list_rows(const together *t, int64_t n_rows)
{
    int64_t n_inside = 0;
    for (int64_t i = 0; i < n_rows; i++) {
        bool is_inside = false;
        for (int64_t l = 0; l < t->n_problems; l++)
            is_inside |= t->fits[l].targets.labels[i] != 0;
        t->inside[n_inside] = i;
        n_inside += is_inside;
    }
    return n_inside;
}

int pegasos_solve_together(int64_t n_problems, const pegasos_problem *problem,
                           const pegasos_options *options, const int8_t *labels,
                           const double *norms, void *memory, void *room)
{
    const pegasos_rows *const rows = problem->rows;
    const int64_t n = rows->n_rows, kept = pegasos_kept(n, rows->n_features);
    const int64_t most = options->max_epochs;
    together t = {.n_problems = n_problems, .options = options};
    t.lanes = PEGASOS_BUNDLE_BYTES / rows->value_bytes;
    assert(1 <= n_problems && n_problems <= t.lanes && loss_has_labels(problem->loss.kind));
    for (int64_t l = 0; l < n_problems; l++) {
        fit *const f = &t.fits[l];
        *f = pegasos_fit_of(problem, options, labels + l * n, norms, (char *)memory + l * kept,
                            room);
        if (f->s->pending == PEGASOS_BEGIN && !pegasos_fit_begin_in_bundle(f))
            return PEGASOS_DONE;
        if (f->s->pending == PEGASOS_CHECK_DATA && !pegasos_fit_check_data(f))
            return PEGASOS_STOPPED;
    }
    if (!are_in_step(&t, problem->lam))
        return PEGASOS_DONE;
    lay_out(&t, rows, room);
    take(&t);
    pegasos_order order = {0};
    pegasos_bundle bundle = {
        .n_problems = n_problems,
        .last_epoch = most < EPOCHS_TOGETHER ? most : EPOCHS_TOGETHER,
        .problems = t.duals,
        .ascents = t.ascents,
        .targets = {n, t.labels, NULL, problem->weights, problem->loss},
        .norms = norms,
        .a = t.a,
        .v = t.v,
        .sums = t.sums,
        .inside = t.inside,
        .n_inside = list_rows(&t, n),
        .order = &order,
        .permutation = t.permutation,
    };
    int status = PEGASOS_DONE;
    if (bundle.n_inside == 0) /* each finds out by itself */
        for (int64_t l = 0; l < n_problems; l++)
            t.ascents[l].part = PEGASOS_VISITS;
    else {
        const int64_t next = t.ascents->n_epochs * bundle.n_inside + t.ascents->place;
        pegasos_watch watch = t.fits->watch;
        if (watch.by_epochs && watch.poll) {
            watch.poll = put_back_and_poll;
            watch.context = &t;
        }
        pegasos_order_seek(&order, options->seed, bundle.n_inside, PEGASOS_PERMUTATION, next,
                           t.permutation);
        status = (int)pegasos_bundle_run(rows, &bundle, &watch);
    }
    put_back(&t);
    return status;
}
