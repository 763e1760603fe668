/*
 * kernel_ascent.c - dual ascent on one kernel problem: epochs over blocks of rows, exact steps on
 * pairs, gap checks.
 *
 * w = sum_j beta_j phi(x_j) with beta_j = s a_j y_j is never written down: kept are the scores
 * f_i = sum_j beta_j K(x_j, x_i) of all rows. A step changes one a_i and so all scores, by a column
 * of the kernel matrix. Therefore steps go over blocks: rows whose kernel values among one another
 * are at hand, and whose steps move their own scores only; the changes of a block are then pushed
 * to the scores of all rows at once.
 *
 * The first epoch goes over the rows in random order, in blocks each twice as long as the one
 * before. It is one of Pegasos (see `growth` in ascent.c): a block is solved for the sample of the
 * rows seen so far. Rows whose dual variable would not change, after the pushes of earlier blocks,
 * are skipped. Every block begins with coordinate ascent (ascent.c), which solves for most rows, and
 * ends with steps on pairs (pairs.c), which do not undo each other.
 *
 * Later epochs are steps on pairs of all rows that may move, so many that each row could move once.
 * Where columns do not fit in memory, they are like the first.
 */
#include "loss.h"
#include "rows.h"

#include <math.h>
#include <string.h>

/* A block has at most `EPOCHS` epochs, until its gap is `SOLVED` of what it was. Steps on pairs
 * follow an epoch that leaves more than `SLOW` of the gap. */
enum { EPOCHS = 30 };
static const double SOLVED = 0.1, SLOW = 0.5;
/* Steps on pairs of all rows end at this part of the gap that is asked for. They go over the rows
 * that may move alone where these are at most `COMPACT` of all. */
static const double WELL_BELOW = 0.3, COMPACT = 0.5;
/* Numbers that a step on a pair reads of each row. */
enum { NUMBERS_PER_PAIR = 16 };

/* The block under way, in `work`; arrays of n numbers each follow. */
typedef struct block {
    int64_t is_begun; /* what `work` holds at first: 0 */
    pegasos_dual dual;
    int64_t n_epochs, n_pairs, most_pairs, n_visits;
    double weight_seen; /* of all rows up to the end of this block */
    double first_gap, gap, enough;
} block;

/* Where arrays are in `work`. Those of pairs.c have 8 numbers to spare. */
typedef struct arrays {
    block *b;
    double *v; /* 2 n + 1: see PEGASOS_KERNEL */
    double *a, *norms, *bounds, *slopes, *room;
    int64_t *rest, *active, *identity; /* `rest`: rows that come after this block */
    int8_t *labels;
} arrays;
enum { NUMBERS = 2 + 4 + PEGASOS_PAIRS_ARRAYS + 3, SPARE = 8 };

typedef struct run {
    const pegasos_rows *all, *given;
    pegasos_dual *p;
    pegasos_kernel_run *s;
    const pegasos_kernel_arrays *x;
    arrays w;
} run;

int64_t pegasos_kernel_work(int64_t n_rows)
{
    return (int64_t)sizeof(block) + 8 * (NUMBERS * (n_rows + SPARE) + 1) + n_rows;
}

static arrays arrays_in(void *work, int64_t n)
{
    const int64_t size = n + SPARE;
    double *first = (double *)((block *)work + 1), *room = first + 6 * size + 1;
    int64_t *rest = (int64_t *)(room + PEGASOS_PAIRS_ARRAYS * size);
    return (arrays){.b = work,
                    .v = first,
                    .a = first + 2 * size + 1,
                    .norms = first + 3 * size + 1,
                    .bounds = first + 4 * size + 1,
                    .slopes = first + 5 * size + 1,
                    .room = room,
                    .rest = rest,
                    .active = rest + size,
                    .identity = rest + 2 * size,
                    .labels = (int8_t *)(rest + 3 * size)};
}

static INLINE double weight(const run *r, int64_t i)
{
    return r->x->bounds ? r->x->bounds[i] : 1;
}

/* The derivative of m D along a_i, where w is `longer` times w(a). */
static INLINE double slope(const run *r, int64_t i, double longer)
{
    const double score = r->x->scores[i] + r->p->intercept_scaling * r->p->constant_weight;
    return 1 - r->x->labels[i] * (longer * score + r->p->intercept)
           - loss_diagonal(r->p->loss, weight(r, i)) * r->x->a[i];
}

static INLINE bool is_low(const run *r, int64_t i)
{
    return r->x->a[i] <= 0;
}

static INLINE bool is_high(const run *r, int64_t i)
{
    return r->x->a[i] >= loss_bound(r->p->loss, weight(r, i));
}

/* How far a_i wants to move; below 0: it is stopped by a bound, and this far from leaving it. */
static INLINE double violation(const run *r, int64_t i, double u)
{
    return is_low(r, i) ? u : is_high(r, i) ? -u : fabs(u);
}

/* m/N in the first epoch: w is so many times w(a); see ascent.c. */
static double growth(const pegasos_dual *p, double weight_seen)
{
    return p->pegasos_mass > 0 ? p->pegasos_mass / fmax(weight_seen, p->pegasos_mass / 2) : 1;
}

static double weight_seen(const run *r, const int64_t *to_come, int64_t count)
{
    double left = 0;
    for (int64_t j = 0; j < count; j++)
        left += r->x->labels[to_come[j]] != 0 ? weight(r, to_come[j]) : 0;
    return r->s->mass - left;
}

/* ---- The next block -------------------------------------------------------------------------- */

static bool goes_by_pairs(const run *r)
{
    return r->s->by_pairs && r->s->n_epochs > 0;
}

/* All rows, in random order if they take more than one block. */
static void begin_epoch(const run *r)
{
    const int64_t n = r->all->n_rows;
    pegasos_kernel_run *s = r->s;
    uint64_t generator = r->p->generator;
    s->longest = s->n_visits == 0 ? s->first_block : s->last_block;
    for (int64_t i = 0; i < n; i++)
        r->x->active[i] = i;
    for (int64_t i = 0; i < n - 1 && s->longest < n; i++) {
        const int64_t other = i + pegasos_bounded_random(&generator, n - i);
        const int64_t row = r->x->active[other];
        r->x->active[other] = r->x->active[i];
        r->x->active[i] = row;
    }
    r->p->generator = generator;
    s->n_active = n;
}

/* Rows that pairs are made of: not those at a bound that would stay there, were slopes to change by
 * as much as any has to. */
static int64_t choose_those_that_may_move(const run *r, int64_t *chosen)
{
    double most = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < r->all->n_rows; i++)
        if (r->x->labels[i] != 0)
            most = fmax(most, violation(r, i, slope(r, i, 1)));
    for (int64_t i = 0; i < r->all->n_rows; i++) {
        const double u = slope(r, i, 1);
        const bool is_stopped = is_low(r, i) || is_high(r, i);
        if (r->x->labels[i] != 0 && (is_stopped ? -violation(r, i, u) < most : most > 0))
            chosen[count++] = i;
    }
    return count;
}

/* The next rows of the order that are not in their place, up to `longest`; others are passed over.
 * The rest is what comes after them. */
static int64_t choose_next(const run *r, int64_t *chosen, int64_t *n_rest)
{
    const double longer = growth(r->p, weight_seen(r, r->x->active, r->s->n_active));
    int64_t count = 0;
    *n_rest = 0;
    for (int64_t j = 0; j < r->s->n_active; j++) {
        const int64_t i = r->x->active[j];
        const double u = r->x->labels[i] != 0 ? slope(r, i, longer) : 0;
        if (u == 0 || ((is_low(r, i) || is_high(r, i)) && violation(r, i, u) <= 0))
            continue;
        if (count < r->s->longest)
            chosen[count++] = i;
        else
            r->w.rest[(*n_rest)++] = i;
    }
    return count;
}

/* Sorts row numbers by marks, so that kernel values are read in their order. */
static void sort_rows(const run *r, int64_t *rows, int64_t count)
{
    int8_t *marks = r->w.labels;
    memset(marks, 0, (size_t)r->all->n_rows);
    for (int64_t j = 0; j < count; j++)
        marks[rows[j]] = 1;
    for (int64_t i = 0, j = 0; j < count; i++)
        if (marks[i])
            rows[j++] = i;
}

/* Chooses the rows of the next block, and copies what belongs to them. */
static int64_t begin_block(const run *r)
{
    pegasos_kernel_run *s = r->s;
    block *b = r->w.b;
    const int64_t n = r->all->n_rows;
    int64_t *which = r->x->which;
    const bool by_pairs = goes_by_pairs(r);
    if (s->longest == 0 && !by_pairs)
        begin_epoch(r);
    s->longest = by_pairs ? n : s->longest;
    s->n_rest = 0;
    s->m = by_pairs ? choose_those_that_may_move(r, which) : choose_next(r, which, &s->n_rest);
    if (s->m == 0) {
        s->part = PEGASOS_KERNEL_CHECK;
        return PEGASOS_RUNNING;
    }
    /* Columns that are there, or will be, are used where they lie, unless few of their rows are. */
    s->is_all = (by_pairs || s->is_whole) && (double)s->m > COMPACT * (double)n;
    if (s->is_all)
        for (s->m = 0; s->m < n; s->m++)
            which[s->m] = s->m;
    else
        sort_rows(r, which, s->m);
    b->weight_seen = weight_seen(r, r->w.rest, s->n_rest);
    double own_weight = 0;
    for (int64_t j = 0; j < s->m; j++) {
        const int64_t i = which[j];
        r->w.labels[j] = r->x->labels[i];
        r->w.a[j] = r->x->a[i];
        r->w.norms[j] = r->x->norms[i];
        r->w.bounds[j] = weight(r, i);
        r->w.slopes[j] = slope(r, i, 1);
        r->w.v[j] = r->x->scores[i];
        r->w.identity[j] = j;
        own_weight += r->x->labels[i] != 0 ? weight(r, i) : 0;
    }
    memset(r->w.v + s->m, 0, (size_t)(s->m + 1) * sizeof(double));
    b->dual = *r->p;
    b->n_epochs = b->n_pairs = b->n_visits = 0;
    if (by_pairs) {
        b->enough = s->tol >= 0 ? WELL_BELOW * s->tol * s->primal * s->mass : 0;
        b->most_pairs = (n + 1) / 2;
        s->part = PEGASOS_KERNEL_PAIRS;
    } else {
        int64_t n_active = 0;
        for (int64_t j = 0; j < s->m; j++)
            if (r->w.labels[j] != 0)
                r->w.active[n_active++] = j;
        pegasos_dual_start(&b->dual, n_active);
        b->dual.pegasos_mass = r->p->pegasos_mass;
        b->dual.weight_seen = b->weight_seen - own_weight;
        s->part = PEGASOS_KERNEL_EPOCHS;
    }
    if (s->is_all)
        return PEGASOS_RUNNING;
    if (!s->is_whole)
        return PEGASOS_WANTS_BLOCK;
    pegasos_kernel_gather(s->m, which, n, r->all->column_bytes, r->all->values, s->m, which, s->m,
                          r->x->matrix);
    return PEGASOS_RUNNING;
}

/* The kernel matrix among the rows of the block. */
static pegasos_rows matrix_of(const run *r)
{
    if (r->s->is_all)
        return *r->all;
    if (!r->s->is_whole)
        return *r->given;
    pegasos_rows gathered = *r->all;
    gathered.n_rows = r->s->m;
    gathered.n_features = 2 * r->s->m + 1;
    gathered.values = r->x->matrix;
    gathered.indptr = r->w.identity;
    return gathered;
}

/* ---- Steps within it ------------------------------------------------------------------------- */

/* An epoch over the block; returns its cost. */
static double ascend(const run *r)
{
    block *b = r->w.b;
    const int64_t m = r->s->m;
    const pegasos_rows matrix = matrix_of(r);
    const int64_t visited = pegasos_dual_run(&matrix, &b->dual, r->w.labels, r->w.bounds,
                                             r->w.norms, r->w.active, r->w.a, r->w.v, m);
    const double before = b->gap;
    b->n_visits += visited;
    b->gap = b->dual.gap;
    if (b->n_epochs++ == 0) {
        /* Further epochs are on the sample that was seen with this block. */
        const double longer = growth(r->p, b->weight_seen);
        b->dual.scale *= longer;
        b->dual.constant_weight *= longer;
        for (int64_t j = 0; j < m; j++)
            r->w.v[j] *= longer;
        b->first_gap = b->gap;
        pegasos_dual_begin_epoch(&b->dual);
    } else if (b->gap <= SOLVED * b->first_gap || b->n_epochs == EPOCHS) {
        r->s->part = PEGASOS_KERNEL_PUSH;
    } else if (b->gap > SLOW * before && r->s->is_positive) {
        const double constant = b->dual.intercept_scaling * b->dual.constant_weight;
        for (int64_t j = 0; j < m; j++)
            r->w.slopes[j] = 1 - r->w.labels[j] * (r->w.v[j] + constant + b->dual.intercept)
                             - loss_diagonal(b->dual.loss, r->w.bounds[j]) * r->w.a[j];
        b->enough = SOLVED * b->first_gap;
        b->most_pairs = EPOCHS * m / 2;
        r->s->part = PEGASOS_KERNEL_PAIRS;
    } else
        pegasos_dual_begin_epoch(&b->dual);
    return (double)(visited * m);
}

/* Marks rows whose columns are likely to be wanted next, besides those that are, in order to have
 * them computed together: those whose own steps gain most. */
static void want_likely(const run *r)
{
    const int64_t *const place = r->all->indptr;
    int8_t *wanted = r->all->wanted;
    double gains[PEGASOS_TOGETHER];
    int64_t rows[PEGASOS_TOGETHER], count = 0;
    for (int64_t i = 0; i < r->all->n_rows; i++) {
        const double u = r->w.slopes[i], a = r->w.a[i];
        const double most = loss_bound(r->w.b->dual.loss, r->w.bounds[i]);
        const double gain = a <= 0 ? u : a >= most ? -u : fabs(u);
        if (place[i] >= 0 || wanted[i] || r->w.labels[i] == 0 || gain <= 0
            || (count == PEGASOS_TOGETHER && gain <= gains[count - 1]))
            continue;
        int64_t j = count < PEGASOS_TOGETHER ? count++ : count - 1;
        for (; j > 0 && gains[j - 1] < gain; j--) {
            gains[j] = gains[j - 1];
            rows[j] = rows[j - 1];
        }
        gains[j] = gain;
        rows[j] = i;
    }
    for (int64_t j = 0; j < count; j++)
        wanted[rows[j]] = 1;
}

/* Steps on pairs, as many as the budget allows. */
static int64_t step_on_pairs(const run *r, double *budget)
{
    block *b = r->w.b;
    const int64_t m = r->s->m;
    const double each = NUMBERS_PER_PAIR * (double)m;
    const int64_t affordable = 1 + (int64_t)(fmax(*budget, 0) / each);
    const int64_t left = b->most_pairs - b->n_pairs;
    const int64_t asked = left < affordable ? left : affordable;
    const pegasos_rows matrix = matrix_of(r);
    double gap;
    const int64_t done = pegasos_pairs_run(
        &matrix, b->dual.loss, b->dual.scale, b->dual.intercept_scaling, r->w.labels, r->w.bounds,
        r->w.norms, r->w.a, r->w.slopes, b->enough, b->n_pairs, asked, r->w.room, &gap);
    b->n_pairs += done;
    b->n_visits += 2 * done;
    *budget -= each * (double)(done + 1);
    if (r->s->is_all && !r->s->is_whole)
        for (int64_t i = 0; i < m; i++)
            if (r->all->wanted[i]) {
                want_likely(r);
                return PEGASOS_WANTS_COLUMNS;
            }
    if (done < asked || b->n_pairs >= b->most_pairs)
        r->s->part = PEGASOS_KERNEL_PUSH;
    return PEGASOS_RUNNING;
}

/* ---- Scores of all rows ---------------------------------------------------------------------- */

/* Asks for what `change` adds to the scores, or finds it where all columns are there. */
static int64_t push(const run *r, int64_t following)
{
    const int64_t n = r->all->n_rows, *const place = r->all->indptr;
    int64_t count = 0;
    r->s->part = following;
    memset(r->x->pushed, 0, (size_t)n * sizeof(double));
    for (int64_t i = 0; i < n; i++)
        if (r->x->change[i] != 0) {
            r->w.room[count] = r->x->change[i];
            r->w.active[count++] = place[i];
        }
    if (count == 0)
        return PEGASOS_RUNNING;
    if (!r->s->is_whole)
        return PEGASOS_WANTS_SCORES;
    pegasos_kernel_push(count, r->w.active, n, n, r->all->column_bytes, r->all->values, 1,
                        r->w.room, n, r->x->pushed);
    return PEGASOS_RUNNING;
}

static int64_t push_block(const run *r)
{
    memset(r->x->change, 0, (size_t)r->all->n_rows * sizeof(double));
    for (int64_t j = 0; j < r->s->m; j++) {
        const int64_t i = r->x->which[j];
        /* not the difference of coefficients: a_i = 0 leaves no rounding errors */
        const double before = r->p->scale * r->x->a[i] * r->x->labels[i];
        r->x->change[i] = r->p->scale * r->w.a[j] * r->x->labels[i] - before;
    }
    return push(r, PEGASOS_KERNEL_PUSHED);
}

/* The scores know of the block now: makes what it has found the state of the run. */
static void keep_block(const run *r)
{
    pegasos_kernel_run *s = r->s;
    double sum = 0;
    for (int64_t i = 0; i < r->all->n_rows; i++) {
        r->x->scores[i] += r->x->pushed[i];
        sum += r->x->change[i];
    }
    for (int64_t j = 0; j < s->m; j++)
        r->x->a[r->x->which[j]] = r->w.a[j];
    r->p->constant_weight += r->p->intercept_scaling * sum;
    r->p->generator = r->w.b->dual.generator;
    s->n_visits += r->w.b->n_visits;
    memcpy(r->x->active, r->w.rest, (size_t)s->n_rest * sizeof(int64_t));
    s->n_active = s->n_rest;
    s->longest = 2 * s->longest < s->last_block ? 2 * s->longest : s->last_block;
    s->part = goes_by_pairs(r) ? PEGASOS_KERNEL_CHECK : PEGASOS_KERNEL_BLOCK;
}

/* ---- Gap checks ------------------------------------------------------------------------------ */

/* Both objectives are those of one point. With a free intercept its dual variables are balanced, so
 * that sum_i a_i y_i = 0 and it has a dual value: that moves scores. */
static int64_t begin_check(const run *r)
{
    const int64_t n = r->all->n_rows;
    memset(r->x->change, 0, (size_t)n * sizeof(double));
    memcpy(r->w.a, r->x->a, (size_t)n * sizeof(double));
    if (r->s->free_intercept) {
        pegasos_make_feasible(r->p->loss, n, r->x->labels, r->x->bounds, 1, r->x->a, r->w.a);
        for (int64_t i = 0; i < n; i++)
            r->x->change[i] = r->p->scale * (r->w.a[i] - r->x->a[i]) * r->x->labels[i];
    }
    return push(r, PEGASOS_KERNEL_CHECKED);
}

/* Finds the objectives and the gap; keeps the point if it is the best so far. */
static void end_check(const run *r)
{
    pegasos_kernel_run *s = r->s;
    const int64_t n = r->all->n_rows, loss = r->p->loss;
    const double constant = r->p->constant_weight;
    double *const f = r->x->pushed, norm = 0, losses = 0;
    for (int64_t i = 0; i < n; i++) {
        f[i] += r->x->scores[i];
        norm += r->p->scale * r->w.a[i] * r->x->labels[i] * f[i];
    }
    norm += s->free_intercept ? 0 : constant * constant;
    const double intercept = s->free_intercept ? pegasos_best_intercept(loss, n, r->x->labels,
                                                                        r->x->bounds, f, r->w.room)
                                               : r->p->intercept_scaling * constant;
    for (int64_t i = 0; i < n; i++)
        if (r->x->labels[i] != 0)
            losses += weight(r, i) * loss_value(loss, 1 - r->x->labels[i] * (f[i] + intercept));
    const double primal = s->lam / 2 * norm + losses / s->mass;
    const double dual =
        pegasos_best_dual(loss, n, r->w.a, r->x->bounds, norm, s->mass, s->lam, s->is_positive);
    if (primal < s->primal) {
        for (int64_t i = 0; i < n; i++)
            r->x->coef[i] = r->p->scale * r->w.a[i] * r->x->labels[i];
        s->intercept = intercept;
        s->primal = primal;
    }
    const double best = s->is_positive ? s->primal : primal;
    const double gap = s->is_positive ? fmax(best - dual, 0) : fabs(best - dual);
    s->relative_gap = gap / fmax(best, 1e-300);
    s->part = PEGASOS_KERNEL_BLOCK;
    if (s->longest == 0) /* of where the run began */
        return;
    s->longest = 0;
    s->n_epochs++;
    s->n_steps += r->p->pegasos_mass > 0 ? s->n_inside : 0;
    r->p->pegasos_mass = 0;
    if (s->free_intercept) /* see `pegasos_ascent` */
        r->p->intercept += r->p->intercept_scaling * constant;
}

static bool is_over(const pegasos_kernel_run *s)
{
    return s->longest == 0 && s->part == PEGASOS_KERNEL_BLOCK
           && (s->n_epochs >= s->last_epoch || is_small_gap(s->relative_gap, s->primal, s->tol));
}

int64_t pegasos_kernel_advance(const pegasos_rows *all, const pegasos_rows *given,
                               pegasos_dual *problem, pegasos_kernel_run *state,
                               const pegasos_kernel_arrays *x, double budget)
{
    pegasos_kernel_run *s = state;
    const int64_t n = all->n_rows, n_epochs = s->n_epochs;
    const run r = {all, given, problem, s, x, arrays_in(x->work, n)};
    int64_t status = PEGASOS_RUNNING;
    assert(are_plausible(all) && s->lam > 0 && s->mass > 0 && 0 <= s->n_active && s->n_active <= n);
    if (!r.w.b->is_begun) {
        r.w.b->is_begun = 1;
        s->part = s->part < PEGASOS_KERNEL_CHECK ? PEGASOS_KERNEL_BLOCK : PEGASOS_KERNEL_CHECK;
    }
    while (status == PEGASOS_RUNNING) {
        if (is_over(s))
            return PEGASOS_DONE;
        if (budget <= 0 || (s->by_epochs && s->n_epochs > n_epochs))
            return PEGASOS_RUNNING;
        budget -= 10 * (double)n;
        switch (s->part) {
        case PEGASOS_KERNEL_BLOCK:
            status = begin_block(&r);
            break;
        case PEGASOS_KERNEL_EPOCHS:
            budget -= ascend(&r);
            break;
        case PEGASOS_KERNEL_PAIRS:
            status = step_on_pairs(&r, &budget);
            break;
        case PEGASOS_KERNEL_PUSH:
            status = push_block(&r);
            break;
        case PEGASOS_KERNEL_PUSHED:
            keep_block(&r);
            break;
        case PEGASOS_KERNEL_CHECK:
            status = begin_check(&r);
            break;
        default:
            end_check(&r);
        }
    }
    return status;
}
