/*
 * kernel_pegasos.c - Pegasos on kernel problems, by alpha counts (figure 3 of the paper).
 *
 * w_{t+1} = v/(lam t) as in pegasos.c, where v = sum_j beta_j phi(x_j) is never formed. With the
 * hinge, beta_j = y_j alpha_j, where alpha_j counts how often row j violated its margin when it was
 * drawn. A decision needs only the score f_i = <v, phi(x_i)> of its row. A row that is added to v
 * moves the scores of all rows by its column of the kernel matrix:
 *
 *     draw i;    if y_i f_i < lam (t - 1):    beta_i += y_i,  f_k += y_i K(x_i, x_k) for all k
 *
 * (`take_steps`, `take_step`). Other losses, weights, batches and averages are as in pegasos.c.
 *
 * Draws are taken in blocks. Decisions within a block need only the scores of its own rows. Of the
 * kernel matrix, they need the columns of the block's violators, among these rows. Coefficients
 * that a block has changed are `unpushed`: later blocks add their part to the scores of their own
 * rows (they pull it). Once PUSHED_TOGETHER rows are unpushed, these are pushed to all rows at
 * once. If there is room for all columns, a block has all rows, and works on the state itself,
 * which is whole before every draw.
 *
 * Other blocks work on copies, and write them back at their end. Where blocks begin follows from
 * the numbers of draws alone. So a block that was stopped is begun again, with the same bits.
 */
#include "passes.h"
#include "step.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* How many draws a block has: SHORTEST at first, when everything violates its margin, and scores
 * say little about the next draw. Blocks grow to one of PARTS of the rows, but at least FEW draws
 * and at most LONGEST. With at most FEW rows, they grow to LONGEST. The more rows a block has, the
 * more kernel values it asks for that serve no other block. */
enum { SHORTEST = 64, LONGEST = 2048, FEW = 512, PARTS = 4 };
/* All problems make this many draws before the next ones, as they share columns. */
enum { DRAWS_TOGETHER = 64 };
/* Columns that are computed together: a few columns take about as long as these. */
enum { TOGETHER = 128, TOGETHER_IN_BLOCK = 64 };
/* A row with a margin below this may well violate it when it is drawn. */
static const double NEARLY = 1.2;
/* Unpushed rows are pushed to all rows once there are this many. */
enum { PUSHED_TOGETHER = 512 };
/* The cost of a kernel value, in numbers read. */
enum { NUMBERS_PER_VALUE = 8 };

typedef struct run {
    pegasos_columns *columns;
    const pegasos_linear_set *set;
    double *scores, *unpushed; /* of all rows */
    pegasos_watch *watch;
    int64_t n, bytes;
    bool holds_all; /* blocks have all rows, the state's arrays and the matrix's columns */
    int64_t n_unpushed, *unpushed_rows; /* at most PUSHED_TOGETHER */
    int8_t *marks;
    double *pushed; /* n_problems x n */
    /* The block: m rows, ascending, and the place among them of each row of the matrix. */
    int64_t m, *rows, *place_in_block;
    int64_t first, count;          /* draws number `first` and so on, */
    int64_t *room, *place_of_draw; /* their places in the block, */
    int64_t *last;                 /* and the last draw of each row of the block */
    const int64_t *draws;
    /* Columns of rows of the block, among these rows: places in `values`, m numbers each. */
    const int64_t *column_of;
    int64_t *own_column_of, n_values, most_values;
    const void *values;
    void *value_room;
    /* Problems, counts, and rows waiting for a step to end: copies, or the state. Arrays of rows
     * are n_problems x m. */
    pegasos_linear_set here;
    double *v, *added_to_beta; /* scores, and what was added to beta, */
    double *added_to_sums;     /* or to the sums */
    /* These factors multiply beta from before the block; NULL if holds_all. */
    double *factor, *sums_factor;
    /* Scratch */
    double *key;
    int64_t *list, *wanted;
} run;

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Arrays are aligned to cache lines. */
enum { ALIGNED = 64 };

static int64_t longest_block(int64_t n)
{
    const int64_t part = n / PARTS;
    return n <= FEW || part > LONGEST ? LONGEST : part < FEW ? FEW : part;
}

static int64_t lay_out(run *r, void *scratch)
{
    const int64_t n = r->n, K = r->set->n_problems, batch = r->set->batch_size;
    const int64_t draws = longest_block(n), pending = K * (batch - 1);
    const int64_t most = r->holds_all || draws + pending > n ? n : draws + pending;
    layout all = {scratch, ALIGNED, 0};
    r->marks = take(&all, n);
    r->place_in_block = take(&all, n * 8);
    r->rows = take(&all, most * 8);
    r->last = take(&all, most * 8);
    r->list = take(&all, most * 8);
    r->wanted = take(&all, most * 8);
    r->key = take(&all, most * 8);
    r->room = take(&all, draws * 8);
    r->place_of_draw = take(&all, draws * 8);
    r->pushed = take(&all, K * n * 8);
    if (r->holds_all)
        return all.bytes;
    r->unpushed_rows = take(&all, PUSHED_TOGETHER * 8);
    r->own_column_of = take(&all, most * 8);
    r->here.problems = take(&all, K * (int64_t)sizeof(pegasos_linear));
    r->factor = take(&all, K * 8);
    r->sums_factor = take(&all, K * 8);
    r->here.pending = take(&all, K * batch * 8);
    r->here.slopes = r->set->slopes ? take(&all, K * batch * 8) : NULL;
    r->v = take(&all, K * most * 8);
    r->added_to_beta = take(&all, K * most * 8);
    r->added_to_sums = r->set->sums ? take(&all, K * most * 8) : NULL;
    r->here.counts = r->set->counts ? take(&all, K * most * 8) : NULL;
    /* If pending rows make blocks long, there is room for fewer columns than rows. */
    const int64_t columns = LONGEST * (int64_t)LONGEST / most;
    r->most_values = columns > most ? most : columns > PUSHED_TOGETHER ? columns : PUSHED_TOGETHER;
    r->value_room = take(&all, r->most_values * most * r->bytes);
    return all.bytes;
}

static run run_of(const pegasos_columns *columns, const pegasos_linear_set *set)
{
    const int64_t n = columns->n_rows;
    return (run){.set = set,
                 .here = *set,
                 .n = n,
                 .bytes = columns->value_bytes,
                 .holds_all = columns->n_columns >= n};
}

int64_t pegasos_kernel_train_scratch_bytes(const pegasos_columns *columns,
                                           const pegasos_linear_set *set)
{
    run r = run_of(columns, set);
    return lay_out(&r, NULL);
}

/* ---- Columns --------------------------------------------------------------------------------- */

/* Computes the columns of the rows list[0 .. count - 1] of the block; false: stopped. */
static bool compute(run *r, int64_t count, const int64_t *list)
{
    const double numbers = NUMBERS_PER_VALUE * (double)count * (double)r->m;
    if (count == 0)
        return true;
    for (int64_t j = 0; j < count; j++)
        r->wanted[j] = r->rows[list[j]];
    if (r->holds_all)
        return pegasos_columns_keep(r->columns, count, r->wanted) == 0
               && !is_to_stop(r->watch, numbers);
    if (r->n_values + count > r->most_values) { /* room is short: forget the present ones */
        r->n_values = 0;
        for (int64_t l = 0; l < r->m; l++)
            r->own_column_of[l] = -1;
    }
    char *const out = (char *)r->value_room + r->n_values * r->m * r->bytes;
    if (pegasos_columns_values(r->columns, count, r->wanted, r->m, r->rows, r->m, out) != 0)
        return false;
    for (int64_t j = 0; j < count; j++)
        r->own_column_of[list[j]] = r->n_values++;
    return !is_to_stop(r->watch, numbers);
}

static pegasos_targets targets_of_problem(const run *r, int64_t k)
{
    return targets_among(&r->set->targets, r->set->epsilons, k);
}

/* By how much a row violates its margin, or misses its target. With the log loss, all rows do. */
static double key_of(loss_form l, double u)
{
    return !loss_is_quadratic(l) ? DBL_MAX : l.lower < 0 ? fabs(u) - l.dead : u;
}

/* For each row of the block, finds its largest key in an unfinished problem, up to rounding. */
static void find_keys(const run *r)
{
    for (int64_t l = 0; l < r->m; l++)
        r->key[l] = -INFINITY;
    for (int64_t k = 0; k < r->set->n_problems; k++) {
        const pegasos_linear p = r->here.problems[k];
        const pegasos_targets own = targets_of_problem(r, k);
        const loss_form loss = loss_of(own.loss);
        const double *v = r->v + k * r->m, scale = p.q / (p.lam * time_of(&p));
        const double constant = p.intercept_scaling * p.constant_weight;
        if (p.n_steps >= p.last_step)
            continue;
        for (int64_t l = 0; l < r->m; l++) {
            const int64_t i = r->rows[l];
            const double u = error_at(&own, i, scale * (v[l] + constant) + p.intercept);
            const double key = p.n_steps == 0 ? DBL_MAX : key_of(loss, u);
            if (own.labels[i] != 0 && key > r->key[l])
                r->key[l] = key;
        }
    }
}

/* Gets the columns of the first `count` rows of `list`. With them, up to `most`, it gets those of
 * rows still to be drawn that violate their margins most, or will soon: with keys above `least`. */
static bool fetch(run *r, int64_t count, int64_t most, double least)
{
    const int64_t next = next_draw(r->set->n_problems, r->here.problems) - r->first;
    int64_t *const others = r->list + count, n_others = 0, left = most - count;
    for (int64_t l = 0; l < r->m; l++)
        if (r->key[l] > least && r->key[l] < INFINITY && r->column_of[l] < 0
            && (r->holds_all || r->last[l] >= next))
            others[n_others++] = l;
    left = left > 0 ? left : 0;
    if (n_others > left) {
        select_largest(r->key, others, n_others, left);
        n_others = left;
    }
    return compute(r, count + n_others, r->list);
}

/* Gets the columns of a step's pending rows j to count - 1, while there is room; false: stopped. */
static bool ensure_columns(run *r, int64_t k, const pegasos_linear *p, int64_t j, int64_t count)
{
    const int64_t *pending = r->here.pending + k * r->set->batch_size;
    const int64_t most = r->holds_all ? r->n : r->most_values;
    int64_t missing = 0;
    while (j < count && r->column_of[r->place_in_block[pending[j]]] >= 0)
        j++;
    if (j == count)
        return true;
    r->here.problems[k] = *p;
    find_keys(r);
    for (; j < count && missing < most; j++) {
        const int64_t l = r->place_in_block[pending[j]];
        if (r->column_of[l] < 0 && r->key[l] < INFINITY) {
            r->key[l] = INFINITY; /* once */
            r->list[missing++] = l;
        }
    }
    return fetch(r, missing, r->holds_all ? TOGETHER : TOGETHER_IN_BLOCK, 1 - NEARLY);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* v += u phi(x), for row l of the block. */
static void add(const run *r, int64_t l, double u, double *v)
{
    const char *const column = (const char *)r->values + r->column_of[l] * r->m * r->bytes;
    pegasos_kernel_add(r->m, u, 0, r->bytes, column, v);
    r->watch->n_read += (double)r->m;
}

/* v <- q v, q <- 1. */
static void fold(run *r, int64_t k, pegasos_linear *p)
{
    double *const v = r->v + k * r->m, *const added_to_beta = r->added_to_beta + k * r->m;
    if (p->rate_sum > 0) {
        double *const added_to_sums = r->added_to_sums + k * r->m;
        for (int64_t l = 0; l < r->m; l++)
            added_to_sums[l] -= p->rate_sum * added_to_beta[l];
        if (r->sums_factor)
            r->sums_factor[k] -= p->rate_sum * r->factor[k];
    }
    for (int64_t l = 0; l < r->m; l++) {
        v[l] *= p->q;
        added_to_beta[l] *= p->q;
    }
    if (r->factor)
        r->factor[k] *= p->q;
    fold_numbers(p);
}

/* Ends a step of problem k; false: stopped. */
static bool take_step(run *r, int64_t k, pegasos_linear *p)
{
    const pegasos_linear_set *set = r->set;
    const int64_t m = r->m, batch = set->batch_size, *pending = r->here.pending + k * batch;
    const pegasos_targets own = targets_of_problem(r, k);
    double *const v = r->v + k * m;
    p->n_steps++;
    for (int64_t j = 0; j < p->n_pending; j++) {
        const int64_t i = pending[j], l = r->place_in_block[i], place = k * m + l;
        if (r->column_of[l] < 0 && !ensure_columns(r, k, p, j, p->n_pending))
            return false; /* copies are discarded: columns of the whole matrix stay */
        const double u = take_row(p, own.labels[i], sample_weight(own.weights, i),
                                  r->here.slopes ? r->here.slopes[k * batch + j] : 1, batch,
                                  r->here.counts ? r->here.counts + place : NULL);
        const double before = v[l] + p->intercept_scaling * p->constant_weight;
        r->added_to_beta[place] += u;
        if (p->rate_sum > 0)
            r->added_to_sums[place] += p->rate_sum * u;
        add(r, l, u, v);
        p->constant_weight += u * p->intercept_scaling;
        /* |v + u x|^2 - |v|^2 = u (<v, x> + <v + u x, x>) */
        if (p->ball > 0)
            p->squared_norm += u * (before + v[l] + p->intercept_scaling * p->constant_weight);
    }
    p->n_pending = p->n_drawn = 0;
    if (p->ball > 0 && project_on_ball(p))
        fold(r, k, p);
    count_step(p, set->targets.loss.nu);
    return true;
}

/* Lets problem k see draws number begin .. end - 1 of the block; false: stopped. */
static bool take_steps(run *r, int64_t k, int64_t begin, int64_t end)
{
    const int64_t batch = r->set->batch_size, skip = r->here.problems[k].next_draw - r->first;
    const pegasos_targets own = targets_of_problem(r, k);
    const loss_form loss = loss_of(own.loss);
    const double *v = r->v + k * r->m;
    pegasos_linear p = r->here.problems[k];
    bool goes_on = true;
    for (int64_t j = skip > begin ? skip : begin; j < end && p.n_steps < p.last_step; j++) {
        const int64_t i = r->draws[j];
        const double y = own.labels[i], z = value_at(&own, i), score = v[r->place_of_draw[j]];
        if (y == 0) {
            p.next_draw++;
            continue;
        }
        const bool violation = violates(loss, &p, y, z, score), is_last = p.n_drawn + 1 == batch;
        if (violation && r->here.slopes)
            r->here.slopes[k * batch + p.n_pending] = slope_of_violation(loss, &p, y, z, score);
        if (violation)
            r->here.pending[k * batch + p.n_pending] = r->draws[j];
        if (is_last && !ensure_columns(r, k, &p, 0, p.n_pending + violation)) {
            goes_on = false; /* this draw is not taken */
            break;
        }
        p.next_draw++;
        p.n_drawn++;
        p.n_pending += violation;
        if (is_last && !take_step(r, k, &p))
            return false; /* a copy is discarded */
    }
    r->here.problems[k] = p;
    return goes_on;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* Number of the first draw after the block of draw number `first`. */
static int64_t end_of_block(int64_t n, int64_t first)
{
    const int64_t longest = longest_block(n);
    int64_t size = SHORTEST, end = SHORTEST;
    while (end <= first && size < longest) {
        size = 2 * size < longest ? 2 * size : longest;
        end += size;
    }
    return end > first ? end : end + ((first - end) / longest + 1) * longest;
}

/* Finds the rows of a block: of all its draws, and of unfinished steps. */
static void find_rows(run *r)
{
    const pegasos_linear_set *set = r->set;
    memset(r->marks, r->holds_all, (size_t)r->n);
    for (int64_t j = 0; j < r->count; j++)
        r->marks[r->draws[j]] = 1;
    for (int64_t k = 0; k < set->n_problems; k++)
        for (int64_t j = 0; j < set->problems[k].n_pending; j++)
            r->marks[set->pending[k * set->batch_size + j]] = 1;
    r->m = 0;
    for (int64_t i = 0; i < r->n; i++)
        if (r->marks[i]) {
            r->rows[r->m] = i;
            r->last[r->m] = -1;
            r->place_in_block[i] = r->m++;
        }
    for (int64_t j = 0; j < r->count; j++) {
        r->place_of_draw[j] = r->place_in_block[r->draws[j]];
        r->last[r->place_of_draw[j]] = j;
    }
}

/* Lets a block of all rows work on the state. */
static void use_state(run *r)
{
    const pegasos_linear_set *set = r->set;
    r->column_of = r->columns->column_of;
    r->values = r->columns->columns;
    r->v = r->scores;
    r->added_to_beta = set->weights;
    r->added_to_sums = set->sums;
}

/* Adds all unpushed coefficients to the scores of all rows; false: stopped. */
static bool push(run *r)
{
    const int64_t K = r->set->n_problems;
    if (pegasos_columns_multiply(r->columns, K, r->unpushed, r->pushed) != 0)
        return false;
    for (int64_t i = 0; i < K * r->n; i++) {
        r->scores[i] += r->pushed[i];
        r->unpushed[i] = 0;
    }
    r->n_unpushed = 0;
    return true;
}

/* Lists unpushed rows, or pushes them if there are many; false: stopped. */
static bool find_unpushed(run *r)
{
    r->n_unpushed = 0;
    for (int64_t i = 0; i < r->n && r->n_unpushed < PUSHED_TOGETHER; i++) {
        bool is_unpushed = false;
        for (int64_t k = 0; k < r->set->n_problems; k++)
            is_unpushed |= r->unpushed[k * r->n + i] != 0;
        if (is_unpushed)
            r->unpushed_rows[r->n_unpushed++] = i;
    }
    return r->n_unpushed < PUSHED_TOGETHER || push(r);
}

/* Copies a problem, and the rows that wait for its step to end. */
static void copy_problem(const pegasos_linear_set *from, int64_t k, const pegasos_linear_set *to)
{
    const int64_t first = k * from->batch_size;
    const size_t waiting = (size_t)from->problems[k].n_pending * 8;
    to->problems[k] = from->problems[k];
    memcpy(to->pending + first, from->pending + first, waiting);
    if (from->slopes)
        memcpy(to->slopes + first, from->slopes + first, waiting);
}

/* Lets a block work on copies of its rows' state, with complete scores; false: stopped. */
static bool copy_state(run *r)
{
    const pegasos_linear_set *set = r->set;
    const int64_t K = set->n_problems;
    const size_t bytes = (size_t)(K * r->m) * sizeof(double);
    if (!find_unpushed(r))
        return false;
    r->column_of = r->own_column_of;
    r->values = r->value_room;
    r->n_values = 0;
    for (int64_t l = 0; l < r->m; l++)
        r->own_column_of[l] = -1;
    memset(r->added_to_beta, 0, bytes);
    if (r->added_to_sums)
        memset(r->added_to_sums, 0, bytes);
    if (r->here.counts)
        memset(r->here.counts, 0, bytes);
    for (int64_t k = 0; k < K; k++) {
        copy_problem(set, k, &r->here);
        r->factor[k] = 1;
        r->sums_factor[k] = 0;
        for (int64_t l = 0; l < r->m; l++)
            r->v[k * r->m + l] = r->scores[k * r->n + r->rows[l]];
    }
    return pegasos_columns_score(r->columns, r->n_unpushed, r->unpushed_rows, r->m, r->rows, K,
                                 r->unpushed, r->n, r->unpushed_rows, r->value_room, r->v)
           == 0;
}

/* Begins the block at draw number `first`; false: there is none. */
static bool begin_block(run *r, const pegasos_draws *draws, int64_t first)
{
    const int64_t left = end_of_block(r->n, first) - first, most = count_draws(r->set, left);
    r->first = first;
    r->count = most > SHORTEST ? most : left < SHORTEST ? left : SHORTEST;
    r->draws = take_draws(draws, first, &r->count, r->room);
    if (r->count == 0)
        return false;
    find_rows(r);
    return true;
}

/* Gets the columns of all rows of the block that violate their margins now; false: stopped. */
static bool fetch_violators(run *r)
{
    find_keys(r);
    return fetch(r, 0, r->most_values, 0);
}

/* Writes the results of a block's copies to the state. */
static void put_back(run *r)
{
    const pegasos_linear_set *set = r->set;
    const int64_t n = r->n, m = r->m;
    for (int64_t k = 0; k < set->n_problems; k++) {
        double *beta = (double *)set->weights + k * n, *scores = r->scores + k * n;
        double *sums = set->sums ? (double *)set->sums + k * n : NULL;
        double *unpushed = r->unpushed + k * n;
        const double factor = r->factor[k], sums_factor = r->sums_factor[k];
        for (int64_t i = 0; sums_factor != 0 && i < n; i++)
            sums[i] += sums_factor * beta[i];
        for (int64_t i = 0; factor != 1 && i < n; i++) {
            beta[i] *= factor;
            scores[i] *= factor;
            unpushed[i] *= factor;
        }
        for (int64_t l = 0; l < m; l++) {
            const int64_t i = r->rows[l];
            const double added_to_beta = r->added_to_beta[k * m + l];
            beta[i] += added_to_beta;
            unpushed[i] += added_to_beta;
            if (sums)
                sums[i] += r->added_to_sums[k * m + l];
            if (r->here.counts)
                set->counts[k * n + i] += r->here.counts[k * m + l];
        }
        copy_problem(&r->here, k, set);
    }
}

/* ---- The run --------------------------------------------------------------------------------- */

int pegasos_kernel_train(pegasos_columns *columns, const pegasos_linear_set *set, double *scores,
                         double *unpushed, const pegasos_draws *draws, void *scratch)
{
    run r = run_of(columns, set);
    r.columns = columns;
    r.scores = scores;
    r.unpushed = unpushed;
    r.watch = columns->workers->watch;
    assert(set->n_problems >= 1 && set->batch_size >= 1 && !set->bundled);
    lay_out(&r, scratch);
    if (r.holds_all) {
        use_state(&r);
        if (!push(&r))
            return PEGASOS_STOPPED;
    }
    for (int64_t first; (first = next_draw(set->n_problems, set->problems)) >= 0;) {
        if (!begin_block(&r, draws, first))
            break;
        if (!r.holds_all && (!copy_state(&r) || !fetch_violators(&r)))
            return PEGASOS_STOPPED;
        for (int64_t begin = 0; begin < r.count; begin += DRAWS_TOGETHER) {
            const int64_t end = min_of(begin + DRAWS_TOGETHER, r.count);
            for (int64_t k = 0; k < set->n_problems; k++)
                if (!take_steps(&r, k, begin, end) || is_to_stop(r.watch, 0))
                    return PEGASOS_STOPPED;
        }
        if (!r.holds_all)
            put_back(&r);
        if (is_to_stop(r.watch, (double)(set->n_problems * (r.m + r.count))))
            return PEGASOS_STOPPED;
    }
    return PEGASOS_DONE;
}
