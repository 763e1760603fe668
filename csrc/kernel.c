/*
 * kernel.c - dual ascent on a kernel problem, by exact steps on pairs of rows.
 *
 * w = sum_j s b_j phi(x_j) with b_j = y_j a_j and s = 1/(lam m) is never formed. A run keeps the
 * scores f_i = sum_j s b_j K(x_j, x_i) of all rows, in double. The slope of m D along b_i is
 * g_i = y_i u_i = y_i z_i - f(x_i), less the derivative of the loss's conjugate (loss.h), whose
 * diagonal is part of the kept slopes. A step changes one b_i, and all slopes by a kernel column.
 *
 * A run goes in rounds:
 *
 *   - The first takes a random part of the rows. It begins with an epoch of Pegasos, with steps
 *     of exact length (see `growth` in step.h), and goes on with steps on pairs. Its solution is
 *     then spread over all rows.
 *   - Each later round leaves out rows at a bound whose slope points outwards, and makes steps on
 *     pairs of the others, until their own gap is well below that of all rows.
 *   - A round ends with a gap check, which updates the scores of all rows in double. (So slopes
 *     within a round may be float: this is iterative refinement.)
 *
 * The state has the phase of a run, which only `run_phase` changes:
 *
 *     BEGIN   (from a = 0) a sample, and the epoch of Pegasos over it           -> SAMPLE
 *     SAMPLE  steps, from `position` on; their solution is spread               -> SPREAD
 *     SPREAD  a gap check                                                       -> CHOOSE
 *     CHECK   a gap check, after dual variables or lambda were changed          -> CHOOSE
 *     CHOOSE  the choice of the rows of a round                                 -> ROUND
 *     ROUND   steps, from `position` on, and a gap check                        -> CHOOSE
 *
 * A run ends in BEGIN or CHOOSE (`is_over`). A run that is stopped keeps only its steps.
 *
 * Steps on one row at a time undo each other where rows are near one another and lam is small.
 * Steps on pairs do not (Steinwart, Hush and Scovel: Training SVMs without offset, JMLR 12, 2011);
 * kernel_body.h has them. Rows are visited one at a time if the matrix is not known to be positive
 * semi-definite, or if steps on pairs have no closed form (log loss).
 *
 * A free intercept needs sum_i b_i = 0. Instead, a constant feature penalises the distance of b
 * from a reference, which moves to b at the end of every round: see pegasos_ascent.
 */
#include "lanes.h"
#include "passes.h"
#include "step.h"

#include <math.h>
#include <string.h>

/* A pair whose two equations have a determinant below this part of h_i h_j is one row twice. */
#define SINGULAR 1e-12
/* The least curvature along a row: with less, a step ends at a bound. */
static const double FLAT = 1e-300;
/* The first round has one of ROWS_PER_SAMPLED rows, but at least LEAST_OF_SAMPLE and at most
 * MOST_OF_SAMPLE; or all rows if they are at most FEW. */
enum { ROWS_PER_SAMPLED = 8, LEAST_OF_SAMPLE = 256, MOST_OF_SAMPLE = 2048, FEW = 512 };
/* Rows are visited again, at most SWEEPS_OF_SAMPLE times, while a sweep brings the gap to FAST of
 * its last value. Then come steps on pairs, up to the relative gap SAMPLE_GAP. */
enum { SWEEPS_OF_SAMPLE = 8 };
static const double FAST = 0.5, SAMPLE_GAP = 0.05;
/* Later rounds end at PART_OF_GAP of the gap of all rows, or at PART_OF_TOL of tol. */
static const double PART_OF_GAP = 0.05, PART_OF_TOL = 0.5;
/* After a round that has not halved the gap of all rows, the next ends at FINER of the gap where
 * that one ended: a free intercept far from its reference can be in the way. */
static const double FINER = 0.1;
/* A round has at most the steps on pairs of EPOCHS_OF_ROUND epochs; or it visits each of its rows
 * at most SWEEPS_OF_ROUND times, until its gap is SOLVED of what the first sweep saw. */
enum { EPOCHS_OF_ROUND = 4, SWEEPS_OF_ROUND = 30 };
static const double SOLVED = 0.1;
/* Down to this tol, single precision can tell whether steps gain. */
static const double LEAST_OF_FLOAT = 1e-5;
/* The gap of a round is summed after each STEPS_BEFORE_CHECK steps, wherever a run is cut: a sum
 * takes one pass, a step two. */
enum { STEPS_BEFORE_CHECK = 64 };
/* Columns that are computed together. */
enum { TOGETHER = 64 };
/* Without room for all columns, a round has as many rows as would fill that room with the matrix
 * among them, and at least MOST_ROWS. */
enum { MOST_ROWS = 2048 };
/* Roughly how many numbers a step reads of each row, as a poll counts them. */
enum { NUMBERS_PER_STEP = 2 };

/* Where arrays are in the scratch memory. */
typedef struct scratch {
    void *lists;         /* of kernel_body.h */
    void *zeros;         /* a column of zeros */
    const void **column; /* for each row of the round: its values with the rows of the round; NULL:
                            not there */
    double *change, *product, *feasible, *gains, *fresh;
    double *room; /* 4 n */
    int64_t *list;
    int8_t *marks;
    char *values; /* room for columns among the rows of a round, `size` numbers each */
} scratch;

typedef struct run {
    pegasos_columns *columns;
    bool is_positive; /* the matrix is positive semi-definite */
    const pegasos_kernel_arrays *arrays;
    pegasos_kernel *s;
    pegasos_watch *watch;
    const pegasos_targets *targets;
    loss_form loss;
    scratch scratch;
    const int64_t *rows;      /* the m rows of the round */
    int64_t m, size;          /* size: m, rounded up to ALIGNED */
    int64_t n_values;         /* columns in `values` */
    bool is_direct;           /* columns are used where they lie */
    bool computes_round_only; /* columns that are not kept have only the rows of the round */
    double scale, constant;   /* s of the round; what the constant feature adds to K */
} run;

static INLINE bool holds_all(const pegasos_columns *columns)
{
    return columns->n_columns >= columns->n_rows;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Arrays begin at multiples of this number of bytes, and have a multiple of it of numbers. */
enum { ALIGNED = 64 };

static int64_t rows_of_sample(int64_t n_inside)
{
    const int64_t part = min_of(n_inside / ROWS_PER_SAMPLED, MOST_OF_SAMPLE);
    return n_inside <= FEW ? n_inside : max_of(LEAST_OF_SAMPLE, part);
}

static bool is_part(const pegasos_kernel *s)
{
    return rows_of_sample(s->n_inside) < s->n_inside;
}

/* The largest number of rows of a round, if there is room for n_columns. With room for all columns,
 * a round may also have all rows. */
static int64_t rows_of_round(int64_t n_rows, int64_t n_columns)
{
    if (n_columns < n_rows) {
        const int64_t side = (int64_t)sqrt((double)n_columns * (double)n_rows);
        return min_of(n_rows, max_of(side, MOST_ROWS));
    }
    return max_of(n_rows / 2, min_of(n_rows, FEW));
}

static int64_t lay_out(scratch *s, void *memory, int64_t n_rows, int64_t value_bytes,
                       int64_t n_columns)
{
    const int64_t bytes = 8 * round_up(n_rows, ALIGNED), most = rows_of_round(n_rows, n_columns);
    layout all = {memory, ALIGNED, 0};
    s->lists = take(&all, 6 * bytes);
    s->zeros = take(&all, bytes);
    s->column = take(&all, bytes);
    s->change = take(&all, bytes);
    s->product = take(&all, bytes);
    s->feasible = take(&all, bytes);
    s->gains = take(&all, bytes);
    s->fresh = take(&all, bytes);
    s->room = take(&all, 4 * bytes);
    s->list = take(&all, bytes);
    s->marks = take(&all, round_up(n_rows, ALIGNED));
    s->values = take(&all, most * round_up(most, ALIGNED) * value_bytes);
    return all.bytes;
}

int64_t pegasos_kernel_scratch_bytes(int64_t n_rows, int64_t value_bytes, int64_t n_columns)
{
    scratch s;
    return ALIGNED + lay_out(&s, NULL, n_rows, value_bytes, n_columns);
}

/* ---- What is known of a row ------------------------------------------------------------------ */

static INLINE double weight(const run *r, int64_t i)
{
    return sample_weight(r->targets->weights, i);
}

static INLINE double lower_bound(const run *r, int64_t i)
{
    return loss_lower(r->loss, weight(r, i));
}

static INLINE double upper_bound(const run *r, int64_t i)
{
    return loss_upper(r->loss, weight(r, i));
}

/* How far down and up a step may move a_i: to its bounds, or to a corner of l*. */
static INLINE double end_below(const run *r, int64_t i, double a)
{
    return r->loss.dead > 0 && a > 0 ? 0 : lower_bound(r, i);
}

static INLINE double end_above(const run *r, int64_t i, double a)
{
    return r->loss.dead > 0 && a < 0 ? 0 : upper_bound(r, i);
}

/* What the corner of l* subtracts from the slope along b_i. */
static INLINE double corner_of(const run *r, int64_t i)
{
    const double a = r->arrays->a[i], dead = r->loss.dead;
    return r->targets->labels[i] * (a > 0 ? dead : a < 0 ? -dead : 0);
}

static INLINE double curvature_of(const run *r, int64_t i)
{
    return fmax(r->scale * (r->arrays->norms[i] + r->constant)
                    + loss_diagonal(r->loss, weight(r, i)),
                FLAT);
}

/* The weight of the constant feature in w(a), including the term nu b of one class. */
static double constant_of(const run *r, const double *a)
{
    double sum = 0; /* s sum_i b_i */
    for (int64_t i = 0; i < r->columns->n_rows; i++)
        sum += r->scale * a[i] * r->targets->labels[i];
    return r->s->constant_feature * (sum - r->targets->loss.nu / r->s->lam);
}

/* g_i, given the row's score without the intercept. */
static INLINE double dual_slope(const run *r, int64_t i, double score, double intercept)
{
    const double y = r->targets->labels[i], a = r->arrays->a[i];
    return y * value_at(r->targets, i) - (score + intercept)
           - y * loss_diagonal(r->loss, weight(r, i)) * a;
}

/* Whether rounds make steps on pairs; otherwise, rows are visited one at a time. Steps on pairs
 * need a positive semi-definite matrix, and have a closed form where l* is quadratic. */
static bool is_by_pairs(const run *r)
{
    return r->is_positive && loss_is_quadratic(r->loss);
}

/* Turns slopes into those of steps on pairs (kernel_body.h); called once, since it rounds them. */
static void take_corners(const run *r)
{
    for (int64_t k = 0; k < r->s->n_active && is_by_pairs(r); k++)
        r->arrays->slopes[k] -= corner_of(r, r->arrays->active[k]);
}

/* ---- Columns --------------------------------------------------------------------------------- */

/* Makes the rows in `active` those of the round. */
static void set_rows(run *r, bool is_sample)
{
    const int64_t n = r->columns->n_rows, *const column_of = r->columns->column_of;
    const pegasos_kernel *s = r->s;
    r->rows = r->arrays->active;
    r->m = s->n_active;
    r->size = round_up(r->m, ALIGNED);
    r->n_values = 0;
    r->scale = is_sample ? 1 / (s->lam * s->sample_mass) : 1 / (s->lam * s->mass);
    r->is_direct = r->m == n && holds_all(r->columns);
    r->computes_round_only = !holds_all(r->columns);
    for (int64_t k = 0; k < r->m; k++) {
        r->scratch.column[k] = NULL;
        r->computes_round_only |= is_sample && !r->is_direct && column_of[r->rows[k]] < 0;
    }
}

static char *value_room(const run *r, int64_t k)
{
    return r->scratch.values + k * r->size * r->columns->value_bytes;
}

/* Points to the column of row k of the round, which is kept. */
static void point_at(run *r, int64_t k)
{
    const pegasos_columns *const c = r->columns;
    const int64_t n = c->n_rows, bytes = c->value_bytes, place = c->column_of[r->rows[k]];
    const char *column = (const char *)c->columns + place * n * bytes;
    if (!r->is_direct) {
        char *const copy = value_room(r, r->n_values++);
        pegasos_kernel_gather(1, &place, n, bytes, c->columns, r->m, r->rows, r->m, copy);
        column = copy;
    }
    r->scratch.column[k] = column;
}

/* Points to the column of row k of the round if it is kept; false: it must be computed. */
static bool use_kept_column(run *r, int64_t k)
{
    if (!r->scratch.column[k] && r->columns->column_of[r->rows[k]] >= 0)
        point_at(r, k);
    return r->scratch.column[k] != NULL;
}

/* Computes the columns of rows k[0 .. count - 1] of the round; false: stopped. */
static bool compute(run *r, int64_t count, const int64_t *k)
{
    int64_t *const which = r->scratch.list;
    for (int64_t j = 0; j < count; j++)
        which[j] = r->rows[k[j]];
    if (!r->computes_round_only) {
        if (pegasos_columns_keep(r->columns, count, which) != 0)
            return false;
        for (int64_t j = 0; j < count; j++)
            point_at(r, k[j]);
        return true;
    }
    char *const out = value_room(r, r->n_values);
    if (pegasos_columns_values(r->columns, count, which, r->m, r->rows, r->size, out) != 0)
        return false;
    for (int64_t j = 0; j < count; j++)
        r->scratch.column[k[j]] = value_room(r, r->n_values++);
    return true;
}

/* Gets all columns of the round; false: stopped. */
static bool fetch_all(run *r)
{
    int64_t *const k = (int64_t *)r->scratch.room, count = 0;
    for (int64_t j = 0; j < r->m; j++)
        if (!use_kept_column(r, j))
            k[count++] = j;
    return count == 0 || compute(r, count, k);
}

/* product = K change; false: stopped. */
static bool multiply_by_kernel(const run *r, const double *change, double *product)
{
    return pegasos_columns_multiply(r->columns, 1, change, product) == 0;
}

/* f = the scores at w(a), without the intercept; false: stopped. */
static bool score(const run *r, const double *a, double *f)
{
    for (int64_t i = 0; i < r->columns->n_rows; i++)
        r->scratch.change[i] = r->scale * a[i] * r->targets->labels[i];
    return multiply_by_kernel(r, r->scratch.change, f);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* A row, and what a step along it alone would gain. */
typedef struct choice {
    int64_t row;
    double gain;
} choice;

/* Whether the gap of the round's rows, by their slopes, is small enough. */
static bool is_round_solved(const run *r)
{
    const loss_form loss = r->loss;
    double gap = 0, norm = 0, losses = 0;
    for (int64_t k = 0; k < r->m; k++) {
        const int64_t i = r->rows[k];
        const double y = r->targets->labels[i], c = weight(r, i), a = r->arrays->a[i];
        const double u = y * (r->arrays->slopes[k] + corner_of(r, i)) + loss_diagonal(loss, c) * a;
        if (y == 0)
            continue;
        gap += loss_gap(loss, a, c, u);
        norm += a * (value_at(r->targets, i) - u);
        losses += c * loss_value(loss, u);
    }
    const double part = SAMPLE_GAP * (norm / 2 + losses); /* of m P */
    return gap <= (r->s->phase == PEGASOS_KERNEL_SAMPLE ? part : r->s->gap_to_reach);
}

#define VALUE     float
#define REAL      float
#define SUFFIX    float
#define LOAD_FULL LOAD
#include "kernel_body.h"

#define VALUE     float
#define REAL      double
#define SUFFIX    wide
#define LOAD_FULL LOAD_WIDE
#include "kernel_body.h"

#define VALUE     double
#define REAL      double
#define SUFFIX    double
#define LOAD_FULL LOAD
#include "kernel_body.h"

static bool is_in_float(const run *r)
{
    return r->columns->value_bytes == 4 && !r->s->in_double
           && (r->s->tol < 0 || r->s->tol >= LEAST_OF_FLOAT);
}

#define OF_RUN(r, name)                                                                            \
    (is_in_float(r) ? name##_float : (r)->columns->value_bytes == 4 ? name##_wide : name##_double)

/* ---- Visits of single rows ------------------------------------------------------------------- */

/* Draws `some` of the first `count` in `list`, without replacement, and puts them first. */
static void draw(uint64_t *generator, int64_t count, int64_t some, int64_t *list)
{
    for (int64_t k = 0; k < some; k++)
        pegasos_draw_one(generator, count, k, list);
}

/* Moves all slopes by a change of b_k. */
static void move_slopes(const run *r, int64_t k, double change)
{
    double *const slopes = r->arrays->slopes;
    const double u = -r->scale * change;
    pegasos_kernel_add(r->m, u, u * r->constant, r->columns->value_bytes, r->scratch.column[k],
                       slopes);
    slopes[k] -= loss_diagonal(r->loss, weight(r, r->rows[k])) * change;
}

/*
 * Makes an exact step along every row of the round, once each, in random order. All columns of the
 * round must be there. Returns m (P - D), each row's part at its visit. In an epoch of Pegasos, w
 * is longer than w(a) until all rows are seen; see `growth` in step.h.
 */
static double step_on_rows(run *r, bool is_pegasos)
{
    pegasos_kernel *s = r->s;
    double *const slopes = r->arrays->slopes, *const a = r->arrays->a, seen = 0, gap = 0;
    int64_t *const order = r->scratch.list;
    for (int64_t k = 0; k < r->m; k++)
        order[k] = k;
    draw(&s->generator, r->m, r->m, order);
    for (int64_t j = 0; j < r->m; j++) {
        const int64_t k = order[j], i = r->rows[k];
        const double y = r->targets->labels[i], z = value_at(r->targets, i), c = weight(r, i);
        const double diagonal = loss_diagonal(r->loss, c);
        if (y == 0)
            continue;
        seen += c;
        const double longer = is_pegasos ? growth(s->sample_mass, seen) : 1;
        /* `dual_slope`, solved for the score */
        const double score = y * z - slopes[k] - y * diagonal * a[i] - s->reference;
        const double u = z - y * (longer * score + s->reference);
        const double q = longer * r->scale * (r->arrays->norms[i] + r->constant);
        const double best = loss_best(r->loss, a[i], c, u, q);
        const double change = y * (best - a[i]);
        if (change == 0)
            continue;
        gap += loss_gap(r->loss, a[i], c, u);
        a[i] = best;
        move_slopes(r, k, change);
    }
    return gap;
}

/* Sweeps over the rows of a round; false: stopped. */
static bool sweep_round(run *r)
{
    pegasos_kernel *s = r->s;
    if (!fetch_all(r))
        return false;
    while (s->position < s->most_steps) {
        const double gap = step_on_rows(r, false);
        s->gap_to_reach = s->position == 0 ? SOLVED * gap : s->gap_to_reach;
        s->position++;
        s->most_steps = gap <= s->gap_to_reach ? s->position : s->most_steps;
        if (is_to_stop(r->watch, (double)(r->m * r->m)))
            return false;
    }
    return true;
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

/* Sorts the rows in `list` into `active`. */
static void sort_into_active(const run *r, const int64_t *list, int64_t count)
{
    memset(r->scratch.marks, 0, (size_t)r->columns->n_rows);
    for (int64_t j = 0; j < count; j++)
        r->scratch.marks[list[j]] = 1;
    r->s->n_active = 0;
    for (int64_t i = 0; i < r->columns->n_rows; i++)
        if (r->scratch.marks[i])
            r->arrays->active[r->s->n_active++] = i;
}

/* Begins at a = 0: draws a sample of rows, and makes an epoch of Pegasos on it; false: stopped. */
static bool begin_with_sample(run *r)
{
    pegasos_kernel *s = r->s, before = *s;
    const int64_t n = r->columns->n_rows, count = rows_of_sample(s->n_inside);
    int64_t *const list = r->scratch.list, n_inside = 0;
    for (int64_t i = 0; i < n; i++)
        if (r->targets->labels[i] != 0)
            list[n_inside++] = i;
    draw(&s->generator, n_inside, count, list);
    sort_into_active(r, list, count);
    s->sample_mass = 0;
    for (int64_t k = 0; k < s->n_active; k++)
        s->sample_mass += weight_at(r->targets, r->arrays->active[k]);
    set_rows(r, true);
    if (!fetch_all(r)) {
        *s = before;
        return false;
    }
    const double intercept = s->reference + s->constant_feature * constant_of(r, r->arrays->a);
    for (int64_t k = 0; k < r->m; k++)
        r->arrays->slopes[k] = dual_slope(r, r->rows[k], 0, intercept);
    double gap = step_on_rows(r, true), last = INFINITY;
    for (int64_t j = 0; j < SWEEPS_OF_SAMPLE && gap <= FAST * last; j++) {
        last = gap;
        gap = step_on_rows(r, false);
    }
    take_corners(r);
    s->position = 0;
    s->most_steps = is_by_pairs(r) ? EPOCHS_OF_ROUND * (count + 1) / 2 : SWEEPS_OF_ROUND;
    return true;
}

/*
 * Chooses the rows of the next round, and how far the round goes. A step moves slopes as far as it
 * moves scores. A row at a bound is left out if its slope is further from releasing it than scores
 * have moved in the last round, or than the largest violation, if that is less. If the round has no
 * room for all others, half of its rows have the largest violations, and half are drawn at random:
 * rows with wrong labels have the largest violations, and would turn the model over if the rows
 * around them could not answer. But if there is room for all columns, the round takes all rows of
 * the fit, as columns then need not be copied.
 */
static void choose_rows(const run *r)
{
    pegasos_kernel *s = r->s;
    const int64_t n = r->columns->n_rows, most = rows_of_round(n, r->columns->n_columns);
    const double intercept = s->reference + s->constant_feature * s->constant_weight;
    double *const key = r->scratch.product, largest = 0;
    int64_t *const list = r->scratch.list, count = 0;
    for (int64_t i = 0; i < n; i++) {
        const double slope = dual_slope(r, i, r->arrays->scores[i], intercept);
        key[i] =
            loss_steepness(r->loss, r->arrays->a[i], weight(r, i), r->targets->labels[i] * slope);
        largest = r->targets->labels[i] != 0 ? fmax(largest, key[i]) : largest;
    }
    const double reach = fmin(largest, s->largest_score_change);
    for (int64_t i = 0; i < n; i++)
        if (r->targets->labels[i] != 0 && key[i] > -reach)
            list[count++] = i;
    if (count > most && holds_all(r->columns)) {
        for (count = 0; count < n; count++)
            list[count] = count;
    } else if (count > most) {
        const int64_t part = most / 2;
        select_largest(key, list, count, part);
        draw(&s->generator, count - part, most - part, list + part);
        count = most;
    }
    sort_into_active(r, list, count);
    for (int64_t k = 0; k < s->n_active; k++) {
        const int64_t i = r->arrays->active[k];
        r->arrays->slopes[k] = dual_slope(r, i, r->arrays->scores[i], intercept);
    }
    take_corners(r);
    const int64_t left = s->last_epoch - s->n_epochs;
    const int64_t epochs = s->tol < 0 ? 1 : min_of(left, EPOCHS_OF_ROUND);
    s->most_steps = is_by_pairs(r) ? epochs * ((s->n_inside + 1) / 2) : SWEEPS_OF_ROUND;
    const double size = size_of_gap(r->targets->loss, s->relative_gap, s->primal);
    const double wanted = s->tol * (size / s->primal); /* as a part of P */
    const double enough = fmax(PART_OF_TOL * wanted, PART_OF_GAP * s->relative_gap);
    const double finer = s->is_slow ? FINER * s->gap_to_reach : INFINITY;
    s->gap_to_reach = fmin(enough * s->primal * s->mass, finer);
    s->position = 0;
}

/* Makes the remaining steps of a round; false: stopped. */
static bool solve_round(run *r)
{
    set_rows(r, r->s->phase == PEGASOS_KERNEL_SAMPLE);
    return is_by_pairs(r) ? OF_RUN(r, step_on_pairs)(r) : sweep_round(r);
}

/*
 * Spreads the solution of the sample over all rows, whose weight is m/m_s times that of the sample.
 * At the optimum, a_i = c_i l'(u_i), and scores give u_i. But where l' jumps, u_i does not
 * determine a_i. There, w has the coefficient a_i/(lam m_s) for a row of the sample, and a_i/(lam
 * m) with all rows. So it stays if a_i becomes m/m_s times as large. False: stopped.
 */
static bool spread(const run *r)
{
    pegasos_kernel *s = r->s;
    const int64_t n = r->columns->n_rows;
    const double more = s->mass / s->sample_mass;
    double *const a = r->scratch.feasible, *const f = r->scratch.product;
    if (!score(r, r->arrays->a, f))
        return false;
    double intercept = s->constant_feature * constant_of(r, r->arrays->a);
    if (s->free_intercept)
        intercept = s->reference = pegasos_best_intercept(r->targets, f, r->scratch.room);
    for (int64_t i = 0; i < n; i++) {
        const double c = weight(r, i), lower = lower_bound(r, i), upper = upper_bound(r, i);
        const double u = error_at(r->targets, i, f[i] + intercept);
        const bool is_free =
            lower < r->arrays->a[i] && r->arrays->a[i] < upper && r->arrays->a[i] != 0;
        if (!loss_is_smooth(r->loss) && is_free)
            a[i] = clamp(more * r->arrays->a[i], lower, upper);
        else
            a[i] = c * loss_derivative(r->loss, u);
        a[i] = r->targets->labels[i] != 0 ? a[i] : 0;
    }
    memcpy(r->arrays->a, a, (size_t)n * sizeof(double));
    return true;
}

/* ---- The end of a round ---------------------------------------------------------------------- */

/* What a gap check finds. */
typedef struct found {
    double constant;             /* w(a)'s weight of the constant feature */
    double largest_score_change; /* since the last gap check */
    bool has_changed;            /* some dual variable has, since then */
    double primal, dual, intercept;
    const double *a; /* the dual variables at which these were found */
} found;

/* Updates the scores of all rows, in `fresh`. False: stopped. */
static bool find_scores(const run *r, double *fresh, found *at)
{
    const pegasos_kernel *s = r->s;
    const int64_t n = r->columns->n_rows;
    *at = (found){.constant = constant_of(r, r->arrays->a)};
    for (int64_t i = 0; i < n; i++) {
        /* not from the difference of dual variables: so a_i = 0 leaves no rounding errors */
        const double before = r->scale * r->arrays->scored[i] * r->targets->labels[i];
        r->scratch.change[i] = r->scale * r->arrays->a[i] * r->targets->labels[i] - before;
        at->has_changed |= r->scratch.change[i] != 0;
    }
    if (!multiply_by_kernel(r, r->scratch.change, fresh))
        return false;
    const double shift = s->constant_feature * (at->constant - s->constant_weight);
    for (int64_t i = 0; i < n; i++) {
        if (r->targets->labels[i] != 0)
            at->largest_score_change = fmax(at->largest_score_change, fabs(fresh[i] + shift));
        fresh[i] += r->arrays->scores[i];
    }
    return true;
}

/* The objectives at a, whose scores are `fresh`. With a free intercept, there is a dual value only
 * if sum_i b_i = 0, so dual variables are balanced first, which moves scores. False: stopped. */
static bool find_objectives(const run *r, const double *fresh, found *at)
{
    const pegasos_kernel *s = r->s;
    const int64_t n = r->columns->n_rows;
    const double *f = fresh;
    double norm = s->free_intercept ? 0 : at->constant * at->constant, losses = 0;
    at->a = r->arrays->a;
    at->intercept = s->constant_feature * at->constant;
    if (s->free_intercept) {
        double *const balanced = r->scratch.feasible, *const moved = r->scratch.product;
        pegasos_make_feasible(r->targets, 1, r->arrays->a, balanced);
        for (int64_t i = 0; i < n; i++)
            r->scratch.change[i] =
                r->scale * (balanced[i] - r->arrays->a[i]) * r->targets->labels[i];
        if (!multiply_by_kernel(r, r->scratch.change, moved))
            return false;
        for (int64_t i = 0; i < n; i++)
            moved[i] += fresh[i];
        f = moved;
        at->a = balanced;
        at->intercept = pegasos_best_intercept(r->targets, f, r->scratch.room);
    }
    for (int64_t i = 0; i < n; i++) {
        norm += r->scale * at->a[i] * r->targets->labels[i] * f[i];
        if (r->targets->labels[i] != 0)
            losses +=
                weight(r, i) * loss_value(r->loss, error_at(r->targets, i, f[i] + at->intercept));
    }
    at->primal = s->lam / 2 * norm + losses / s->mass + r->targets->loss.nu * at->intercept;
    at->dual = pegasos_best_dual(r->targets, at->a, norm, s->mass, s->lam, r->is_positive);
    return true;
}

/* Keeps the point if it is the best so far, and sets the gap. */
static void keep_best(const run *r, const found *at)
{
    pegasos_kernel *s = r->s;
    if (at->primal < s->primal) {
        for (int64_t i = 0; i < r->columns->n_rows; i++)
            r->arrays->coef[i] = r->scale * at->a[i] * r->targets->labels[i];
        s->intercept = at->intercept;
        s->primal = at->primal;
    }
    const double primal = r->is_positive ? s->primal : at->primal;
    const double gap = r->is_positive ? fmax(primal - at->dual, 0) : fabs(primal - at->dual);
    const bool is_known = isfinite(at->primal) && !isnan(at->dual);
    s->relative_gap = is_known ? gap / fmax(primal, 1e-300) : INFINITY;
}

/* Counts the work of a round. An epoch is a visit of every row. A round that had room for all rows,
 * or found none to move, counts as at least one. */
static void count_epochs(const run *r)
{
    pegasos_kernel *s = r->s;
    const bool is_limited = s->phase == PEGASOS_KERNEL_ROUND && !holds_all(r->columns)
                            && 0 < s->n_active && s->n_active < s->n_inside;
    const int64_t visits = s->position * (is_by_pairs(r) ? 2 : s->n_active);
    const int64_t least = is_limited ? s->n_active : s->n_inside;
    const int64_t seen = s->n_seen + max_of(visits, least);
    const int64_t left = s->last_epoch - s->n_epochs, epochs = seen / s->n_inside;
    s->n_epochs += min_of(epochs, left);
    s->n_seen = epochs < left ? seen % s->n_inside : 0;
}

/* Judges a later round after its gap check. A round that was solved, but has not halved the gap,
 * asks for slopes in double. If it had them and moved no dual variable, only rounding is left. */
static void judge_round(const run *r, double gap_before, bool has_changed)
{
    pegasos_kernel *s = r->s;
    const bool is_solved = s->position < s->most_steps;
    const double moves = s->free_intercept ? fabs(s->constant_feature * s->constant_weight) : 0;
    s->is_slow = is_solved && s->relative_gap > gap_before / 2;
    s->is_at_rounding = is_by_pairs(r) && s->is_slow && !has_changed && !is_in_float(r)
                        && moves <= PEGASOS_ROUNDING;
    s->in_double |= s->is_slow;
}

/* Ends the sample or a later round, whose gap is known. If the round was solved for this reference,
 * the reference moves to the intercept. */
static void end_round(const run *r, const found *at, double gap_before)
{
    pegasos_kernel *s = r->s;
    const bool is_later = s->phase == PEGASOS_KERNEL_ROUND;
    const bool is_solution = is_later || !is_part(s);
    if (is_later)
        judge_round(r, gap_before, at->has_changed);
    else
        s->n_steps += rows_of_sample(s->n_inside);
    count_epochs(r);
    s->reference += s->free_intercept && is_solution ? s->constant_feature * at->constant : 0;
}

/* Finds the gap, at the end of a round or where a run begins. Changes nothing before its end;
 * false: stopped. */
static bool check_gap(run *r)
{
    pegasos_kernel *s = r->s;
    const size_t bytes = (size_t)r->columns->n_rows * sizeof(double);
    const double gap_before = s->relative_gap;
    double *const fresh = r->scratch.fresh;
    found at;
    r->scale = 1 / (s->lam * s->mass);
    if (!find_scores(r, fresh, &at) || !find_objectives(r, fresh, &at))
        return false;
    memcpy(r->arrays->scores, fresh, bytes);
    memcpy(r->arrays->scored, r->arrays->a, bytes);
    s->constant_weight = at.constant;
    s->largest_score_change = at.largest_score_change;
    keep_best(r, &at);
    if (s->phase != PEGASOS_KERNEL_CHECK)
        end_round(r, &at, gap_before);
    return true;
}

/* ---- The run --------------------------------------------------------------------------------- */

static pegasos_progress progress_of(const pegasos_kernel *s)
{
    return (pegasos_progress){s->n_epochs, s->primal, s->relative_gap};
}

static bool is_over(const run *r)
{
    const pegasos_kernel *s = r->s;
    return (s->phase == PEGASOS_KERNEL_BEGIN || s->phase == PEGASOS_KERNEL_CHOOSE)
           && (s->n_epochs >= s->last_epoch || s->is_at_rounding
               || is_small_gap(r->targets->loss, s->relative_gap, s->primal, s->tol));
}

/* Leaves a round that began with room for more columns than there is now. */
static void leave_round_without_room(const pegasos_columns *c, pegasos_kernel *s)
{
    const bool has_all = holds_all(c) && s->n_active == c->n_rows;
    if (!has_all && s->n_active > rows_of_round(c->n_rows, c->n_columns)) {
        s->n_active = 0;
        s->phase = PEGASOS_KERNEL_CHECK;
    }
}

static run run_of(const pegasos_matrix *matrix, pegasos_kernel *s,
                  const pegasos_kernel_arrays *arrays)
{
    pegasos_columns *const c = matrix->columns;
    run r = {.columns = c,
             .is_positive = matrix->is_positive,
             .arrays = arrays,
             .s = s,
             .watch = c->workers->watch,
             .targets = arrays->targets,
             .loss = loss_of(arrays->targets->loss),
             .scale = 1 / (s->lam * s->mass),
             .constant = s->constant_feature * s->constant_feature};
    assert(s->lam > 0 && s->mass > 0 && 1 <= s->n_inside && s->n_inside <= c->n_rows);
    lay_out(&r.scratch, aligned(arrays->scratch, ALIGNED), c->n_rows, c->value_bytes, c->n_columns);
    memset(r.scratch.zeros, 0, (size_t)c->n_rows * sizeof(double));
    return r;
}

void pegasos_kernel_leave_round(pegasos_kernel *s)
{
    s->n_active = s->n_seen = s->is_slow = s->in_double = s->is_at_rounding = 0;
    s->largest_score_change = 0;
    s->phase = PEGASOS_KERNEL_CHECK;
}

int pegasos_kernel_begin(const pegasos_matrix *matrix, pegasos_kernel *s,
                         const pegasos_kernel_arrays *arrays)
{
    run r = run_of(matrix, s, arrays);
    const int64_t n = matrix->columns->n_rows;
    const size_t bytes = (size_t)n * sizeof(double);
    double *const a = r.scratch.feasible, *const f = r.scratch.fresh;
    bool is_zero = true;
    for (int64_t i = 0; i < n; i++)
        is_zero &= arrays->a[i] == 0;
    memset(a, 0, bytes);
    memset(f, 0, bytes);
    if (!is_zero) {
        pegasos_make_feasible(r.targets, s->free_intercept, arrays->a, a);
        if (!score(&r, a, f))
            return PEGASOS_STOPPED;
    }
    s->constant_weight = is_zero ? 0 : constant_of(&r, a);
    s->reference = s->free_intercept ? pegasos_best_intercept(r.targets, f, r.scratch.room) : 0;
    memcpy(arrays->a, a, bytes);
    memcpy(arrays->scored, a, bytes);
    memcpy(arrays->scores, f, bytes);
    pegasos_kernel_leave_round(s);
    if (is_zero && r.is_positive)
        s->phase = PEGASOS_KERNEL_BEGIN;
    return PEGASOS_DONE;
}

static bool enter(pegasos_kernel *s, int64_t phase)
{
    s->phase = phase;
    return true;
}

/* Does the rest of a phase, and enters the next one; false: stopped. */
static bool run_phase(run *r)
{
    pegasos_kernel *s = r->s;
    switch (s->phase) {
    case PEGASOS_KERNEL_BEGIN:
        return begin_with_sample(r) && enter(s, PEGASOS_KERNEL_SAMPLE);
    case PEGASOS_KERNEL_SAMPLE:
        return solve_round(r) && (!is_part(s) || spread(r)) && enter(s, PEGASOS_KERNEL_SPREAD);
    case PEGASOS_KERNEL_CHOOSE:
        choose_rows(r);
        return enter(s, PEGASOS_KERNEL_ROUND);
    case PEGASOS_KERNEL_ROUND:
        return solve_round(r) && check_gap(r) && enter(s, PEGASOS_KERNEL_CHOOSE);
    default: /* PEGASOS_KERNEL_SPREAD, PEGASOS_KERNEL_CHECK */
        return check_gap(r) && enter(s, PEGASOS_KERNEL_CHOOSE);
    }
}

int pegasos_kernel_run(const pegasos_matrix *matrix, pegasos_kernel *s,
                       const pegasos_kernel_arrays *arrays)
{
    run r = run_of(matrix, s, arrays);
    leave_round_without_room(r.columns, s);
    r.watch->progress = progress_of(s);
    while (!is_over(&r)) {
        if (!run_phase(&r))
            return PEGASOS_STOPPED;
        const bool is_checked = s->phase == PEGASOS_KERNEL_CHOOSE;
        if (is_checked && is_to_stop_after_epoch(r.watch, progress_of(s)))
            return PEGASOS_STOPPED;
    }
    return PEGASOS_DONE;
}
