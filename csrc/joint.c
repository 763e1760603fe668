/*
 * joint.c - one problem over all classes, with a weight vector w_k for each of K classes (Crammer
 * and Singer, JMLR 2001), with costs (section 5.1 of the Pegasos paper):
 *
 *     P(W) = lam/2 sum_k |w_k|^2 + 1/m sum_i c_i max_k G_ik,    G_ik = Delta(k, y_i) + s_ik - s_iy,
 *
 * where s_ik = <w_k, x_i> is the score of class k, Delta(k, y) the cost of answering k for a row of
 * class y, and Delta(y, y) = 0. A constant feature, if there is one, counts as part of x.
 *
 * The dual. A maximum over classes is a maximum over means, max_k G_ik = max_p sum_k p_k G_ik with
 * p >= 0 and sum_k p_k = 1. Put a_ik = c_i (1{k = y_i} - p_ik), so that sum_k a_ik = 0, a_ik <= 0
 * for k != y_i, and a_iy <= c_i. The best W for given p is
 *
 *     w_k(a) = 1/(lam m) sum_i a_ik x_i,
 *     D(a)   = -1/m sum_i sum_k a_ik Delta(k, y_i) - lam/2 sum_k |w_k(a)|^2,
 *
 * and P(W) - D(a) >= P(W) - min P for every W and every feasible a. At W = W(a) the gap is a sum
 * over rows, and no term is negative:
 *
 *     P - D = 1/m sum_i (c_i max_k G_ik + sum_k a_ik G_ik).
 *
 * Dual ascent. A visit finds the best a_i. of one row, while all others stay (Keerthi et al., KDD
 * 2008). For q = |x_i|^2/(lam m) and B_k = Delta(k, y) + s_k - q a_ik, it minimises
 *
 *     sum_k (q/2 a_k^2 + B_k a_k)   where   sum_k a_k = 0,  a_k <= C_k,  C_k = c_i 1{k = y},
 *
 * hence a_k = min(C_k, (beta - B_k)/q), where beta is the mean of B_k + q C_k over the classes with
 * a_k < C_k, minus q c_i over their number. To find these classes, begin with all, and leave out
 * those with B_k + q C_k <= beta until there are none. beta only grows, so no class comes back.
 *
 * A first epoch is one of Pegasos with steps of exact length: a row is visited as if it and the
 * rows before it were all rows. So W shrinks by 1/t, as in the paper, for rows of weight t so far.
 *
 * Shrinking. After a sweep over all rows, the next sweeps leave out rows whose p was all on one
 * class, and best there. All rows come back once the active rows have a small part of the gap, or
 * after MOST_SWEEPS sweeps. The sums of a sweep over all rows tell whether a gap check pays. An
 * epoch is as many visits as there are rows.
 *
 * Pegasos. A row's sub-gradient is x for the class that attains the maximum, the worst one, and -x
 * for its own. Steps are those of pegasos.c, W = q v n/(m lam t), and a_ik is the sum of the
 * factors with which x_i was added to v_k.
 *
 * In memory, v_k = sum_i a_ik x_i are interleaved in panels of 8: the numbers of 8 classes for one
 * feature fill a cache line. The certificate recomputes W(a), and everything in double.
 */
#include "joint.h"

#include <math.h>
#include <string.h>

enum { LANES = JOINT_LANES };
/* From this size on, v does not stay in the second-level cache of a core, and the part of it that
 * the next row needs is prefetched. */
enum { LARGE = 1 << 17 };
/* If q c of a row is below this part of its scores, it is lost in rounding. */
static const double NOTHING = 1e-13;
/* Once q is below this, v is multiplied by q. */
static const double SMALL_FACTOR = 1.0 / 1024;
/* Rows that were left out come back after MOST_SWEEPS sweeps, or at this part of the gap. */
static const double SMALL_PART = 0.1;
enum { MOST_SWEEPS = 30 };
/* Flows between classes are balanced once the imbalance is this part of them. */
static const double BALANCED = 1e-15;
enum { MOST_BALANCES = 200 };

/* ---- Rows and panels ------------------------------------------------------------------------- */

/* dot_all: out[k] = <v_k, x_i>; meanwhile it prefetches what row `next` needs of v, unless that is
 * i. add_all: v_k += u[k] x_i, for panels where some u[k] is not 0. K is rounded up to whole
 * panels, and the last line of each panel is for the constant feature. */
#define DEFINE_PANELS(TYPE)                                                                        \
    CLONES_WIDE static void dot_all_##TYPE(const pegasos_rows *rows, int64_t i, int64_t next,      \
                                           int64_t n_classes, double feature,                      \
                                           const double *restrict v, double *restrict out)         \
    {                                                                                              \
        const int64_t size = rows->n_features * LANES;                                             \
        for (; n_classes > 0; n_classes -= LANES, v += size + LANES, out += LANES) {               \
            if (next != i || n_classes > LANES / 2)                                                \
                dot_bundle_##TYPE(rows, i, v, LANES, LANES, next, out);                            \
            else                                                                                   \
                dot_bundle_##TYPE(rows, i, v, LANES, LANES / 2, i, out);                           \
            for (int l = 0; l < LANES; l++)                                                        \
                out[l] += feature * v[size + l];                                                   \
        }                                                                                          \
    }                                                                                              \
    CLONES static void add_all_##TYPE(const pegasos_rows *rows, int64_t i, int64_t n_classes,      \
                                      double feature, const double *restrict u,                    \
                                      double *restrict v)                                          \
    {                                                                                              \
        const int64_t size = rows->n_features * LANES;                                             \
        for (int64_t k = 0; k < n_classes; k += LANES, v += size + LANES) {                        \
            double any = 0;                                                                        \
            for (int64_t l = k; l < k + LANES; l++)                                                \
                any = u[l] != 0 ? 1 : any;                                                         \
            if (any == 0)                                                                          \
                continue;                                                                          \
            add_bundle_##TYPE(rows, i, u + k, v);                                                  \
            for (int l = 0; l < LANES; l++)                                                        \
                v[size + l] += u[k + l] * feature;                                                 \
        }                                                                                          \
    }
FOR_EVERY_WIDE_TYPE(DEFINE_PANELS)

static joint joint_of(int64_t n_rows, int64_t n_features, int64_t n_classes)
{
    joint j = {.n = n_rows, .d = n_features, .n_classes = n_classes};
    j.padded_classes = round_up(n_classes, LANES);
    j.size = j.padded_classes * (n_features + 1);
    return j;
}

static int64_t lay_out_state(joint *j, bool averages, void *memory)
{
    layout all = {memory, 8, 0};
    j->s = take(&all, (int64_t)sizeof(pegasos_joint));
    j->coef = take(&all, 8 * j->n_classes * j->d);
    j->intercept = take(&all, 8 * j->n_classes);
    j->a = take(&all, 8 * j->n * j->n_classes);
    j->active = take(&all, 8 * j->n);
    all.unit = BUNDLE_BYTES; /* panels begin on a line of cache */
    j->v = take(&all, 8 * j->size);
    j->offset = take(&all, 8 * j->padded_classes);
    j->sums = take(&all, averages ? 8 * j->size : 0);
    j->offset_sums = take(&all, averages ? 8 * j->padded_classes : 0);
    return all.bytes;
}

/* Lays out the scratch, without that of Newton's method; returns how many bytes it takes. */
static int64_t lay_out_scratch(joint *j, int64_t batch_size, void *scratch)
{
    layout all = {scratch, 8, 0};
    j->fresh = take(&all, 8 * j->size);
    j->scores = take(&all, 8 * j->padded_classes);
    j->row = take(&all, 8 * j->padded_classes);
    j->change = take(&all, 8 * j->padded_classes);
    j->flows = take(&all, 8 * j->n_classes * j->n_classes);
    j->balance = take(&all, 8 * j->n_classes * j->n_classes);
    j->drawn = take(&all, 8 * batch_size);
    j->worst = take(&all, 8 * batch_size);
    j->newton_scratch = take(&all, 0);
    return all.bytes;
}

int64_t pegasos_joint_state_bytes(int64_t n_rows, int64_t n_features, int64_t n_classes,
                                  int64_t averages)
{
    joint j = joint_of(n_rows, n_features, n_classes);
    return lay_out_state(&j, averages != 0, NULL);
}

int64_t pegasos_joint_scratch_bytes(const pegasos_joint_problem *problem,
                                    const pegasos_joint_options *options)
{
    const pegasos_rows *const rows = problem->rows;
    joint j = joint_of(rows->n_rows, rows->n_features, problem->n_classes);
    return lay_out_scratch(&j, options->batch_size, NULL)
           + (options->newton_after > 0 ? joint_newton_scratch_bytes(problem) : 0);
}

const int64_t *pegasos_joint_active(int64_t n_rows, int64_t n_features, int64_t n_classes,
                                    const void *memory)
{
    joint j = joint_of(n_rows, n_features, n_classes);
    lay_out_state(&j, false, (void *)(uintptr_t)memory);
    return j.active;
}

/* ---- One row --------------------------------------------------------------------------------- */

/* scores[k] = <v_k, x_i> */
static void score_classes(const joint *j, int64_t i, int64_t next, const double *v)
{
    DISPATCH_WIDE(dot_all, j->p->rows, i, next, j->n_classes, j->constant_feature, v, j->scores);
}

void joint_add_row(const joint *j, int64_t i, const double *u, double *v)
{
    DISPATCH_WIDE(add_all, j->p->rows, i, j->n_classes, j->constant_feature, u, v);
}

static double squared_norm(const joint *j, int64_t i)
{
    return j->p->norms[i] + j->constant_feature * j->constant_feature;
}

int64_t joint_score(const joint *j, int64_t i, int64_t next, const joint_point *x)
{
    const int64_t y = j->p->codes[i];
    const double *cost = j->p->cost + y * j->n_classes;
    int64_t worst = y;
    score_classes(j, i, next, x->v);
    for (int64_t k = 0; k < j->n_classes; k++)
        j->scores[k] = cost[k] + (x->scale * j->scores[k] + x->offset[k]);
    for (int64_t k = 0; k < j->n_classes; k++)
        worst = j->scores[k] > j->scores[worst] ? k : worst;
    return worst;
}

/* With scores G_k = Delta + s_k; see the head of this file. */
void joint_solve_row(const joint *j, int64_t y, int64_t worst, double c, double q, const double *a)
{
    const int64_t K = j->n_classes;
    double *const best = j->row, total = 0, beta = -INFINITY;
    if (q * c <= NOTHING * (fabs(j->scores[worst]) + fabs(j->scores[y]))) {
        memset(best, 0, (size_t)K * sizeof(double)); /* the simplex's best corner */
        best[worst] = -c;
        best[y] = worst == y ? 0 : c;
        return;
    }
    for (int64_t k = 0; k < K; k++)
        best[k] = j->scores[k] - q * (a[k] - (k == y ? c : 0)); /* B_k + q C_k */
    for (int64_t t = 0, before = -1, count = 0; t < K && count != before; t++) {
        double sum = -q * c;
        before = count;
        count = 0;
        for (int64_t k = 0; k < K; k++) {
            sum += best[k] > beta ? best[k] : 0;
            count += best[k] > beta;
        }
        beta = sum / (double)count;
    }
    for (int64_t k = 0; k < K; k++) {
        best[k] = best[k] > beta ? (beta - best[k]) / q : 0;
        total -= k == y ? 0 : best[k];
    }
    /* Rounding may lead beyond c where q c is small. With free intercepts, this is kept: sums over
     * rows must be 0, and `joint_combine` makes the dual variables feasible. */
    for (int64_t k = 0; total > c && k < K && !j->p->is_free; k++)
        best[k] *= c / total;
    best[y] = fmin(total, c);
}

/* Whether this is a run of dual ascent; otherwise it is one of Pegasos. */
static bool is_ascent(const joint *j)
{
    return j->o->last_step == 0;
}

/* The scale of W = scale v. */
static double scale_of(const joint *j)
{
    const pegasos_joint *s = j->s;
    if (is_ascent(j))
        return s->visited > 0 ? 1 / (j->p->lam * s->visited) : 0;
    if (s->n_steps == 0)
        return 0;
    return s->q * (double)s->n_inside / (s->mass * j->p->lam * (double)s->n_steps);
}

joint_point joint_current_point(const joint *j)
{
    return (joint_point){j->v, j->offset, scale_of(j)};
}

/* ---- Dual ascent ----------------------------------------------------------------------------- */

/* The row that will be visited after row i; or i itself if there is none, or if v is not LARGE. */
static int64_t row_after(const joint *j, int64_t i)
{
    const int64_t position = j->s->position + 1, left = j->s->n_active - position;
    uint64_t generator = j->s->generator; /* which stays as it is */
    return left > 0 && j->size >= LARGE
               ? j->active[position + pegasos_bounded_random(&generator, left)]
               : i;
}

/* Adds the loss of a row with scores G_k, and its part of the gap, to the sums of the sweep. */
static void add_to_sweep(const joint *j, int64_t y, int64_t worst, double c, const double *a)
{
    const double *G = j->scores;
    double gap = c * (G[worst] - G[y]);
    j->s->loss += gap;
    for (int64_t k = 0; k < j->n_classes; k++)
        gap += a[k] * G[k];
    j->s->gap += fmax(gap, 0);
}

/* Whether a row's p is all on the worst class, and best there. */
static bool is_at_corner(const joint *j, int64_t y, int64_t worst, double c, const double *a)
{
    for (int64_t k = 0; k < j->n_classes; k++)
        if (k != worst && a[k] < (k == y ? c : 0))
            return false;
    return true;
}

/* A visit of one row: the best a_i., or nothing if the row is left out from now on. */
static void visit(const joint *j, int64_t i)
{
    pegasos_joint *s = j->s;
    const int64_t y = j->p->codes[i];
    const double c = sample_weight(j->p->weights, i), size = squared_norm(j, i);
    double *const a = j->a + i * j->n_classes, dot = 0, square = 0;
    if (s->n_epochs == 0)
        s->visited = s->n_steps + 1 == s->n_inside ? s->mass : s->visited + c;
    const joint_point now = joint_current_point(j);
    const int64_t worst = joint_score(j, i, row_after(j, i), &now);
    s->n_steps += s->n_epochs == 0;
    s->is_checked = 0;
    add_to_sweep(j, y, worst, c, a);
    if (is_at_corner(j, y, worst, c, a))
        return;
    j->active[s->position] = j->active[s->n_kept];
    j->active[s->n_kept++] = i;
    joint_solve_row(j, y, worst, c, size * now.scale, a);
    const double *cost = j->p->cost + y * j->n_classes;
    for (int64_t k = 0; k < j->n_classes; k++) {
        j->change[k] = j->row[k] - a[k];
        dot += j->change[k] * (j->scores[k] - cost[k] - j->offset[k]);
        square += j->change[k] * j->change[k];
        a[k] = j->row[k];
    }
    if (square == 0)
        return;
    joint_add_row(j, i, j->change, j->v);
    s->squared_norm += 2 * dot / now.scale + square * size;
}

/* Ends a sweep: which rows the next one visits, and whether a gap check pays. */
static void end_sweep(const joint *j)
{
    pegasos_joint *s = j->s;
    const double scale = scale_of(j), expected = s->ratio * s->gap / s->mass;
    const double primal = s->loss / s->mass + j->p->lam / 2 * scale * scale * s->squared_norm;
    const bool is_of_all = s->n_active == s->n_inside;
    s->n_visits += s->n_active;
    s->n_epochs = (s->n_visits + s->n_inside - 1) / s->n_inside + s->n_newton;
    s->n_sweeps = is_of_all ? 0 : s->n_sweeps + 1;
    s->is_due = s->n_epochs >= j->o->last_epoch
                || (is_of_all && s->n_epochs > 1 && expected <= j->o->tol * primal);
    if (is_of_all)
        s->whole = s->gap;
    s->n_active = s->n_kept;
    if (s->gap <= SMALL_PART * s->whole || s->n_sweeps >= MOST_SWEEPS || s->n_kept == 0)
        s->n_active = s->n_inside;
    s->position = s->n_kept = 0;
}

/* Moves the offsets of free intercepts to where the penalised constant feature has brought these,
 * as in the method of multipliers. See pegasos_ascent in fit.h. */
static void move_intercepts(const joint *j)
{
    const double scale = scale_of(j);
    for (int64_t k = 0; k < j->n_classes && j->p->is_free; k++)
        j->offset[k] += scale * j->constant_feature * *joint_at(j, j->v, k, j->d);
}

/* Goes on from a point of Newton's method. The gap check makes v that of the dual variables;
 * intercepts stay where they are. */
static void return_to_ascent(const joint *j)
{
    move_intercepts(j);
    j->s->width = 0;
    j->s->is_due = 1;
}

/* ---- Pegasos --------------------------------------------------------------------------------- */

/* Multiplies v, and all that scales with it, by q. */
static void fold(const joint *j)
{
    pegasos_joint *s = j->s;
    for (int64_t t = 0; t < j->size && s->rate_sum > 0; t++)
        j->sums[t] -= s->rate_sum * j->v[t];
    s->rate_sum = 0;
    for (int64_t t = 0; t < j->size; t++)
        j->v[t] *= s->q;
    for (int64_t t = 0; t < j->n * j->n_classes; t++)
        j->a[t] *= s->q;
    s->squared_norm *= s->q * s->q;
    s->q = 1;
}

/* W <- min(1, radius/|W|) W, by changing q only. At the optimum, lam/2 |W|^2 <= P(W) <= P(0). */
static void project(const joint *j, double radius)
{
    pegasos_joint *s = j->s;
    const double norm = scale_of(j) * sqrt(fmax(s->squared_norm, 0));
    if (norm > radius)
        s->q *= radius / norm;
    if (s->q < SMALL_FACTOR)
        fold(j);
}

/* Draws rows of the problem for a step, and finds their worst classes. Returns how many. */
static int64_t draw(const joint *j, pegasos_order *order)
{
    const joint_point now = joint_current_point(j);
    int64_t row, count = 0;
    while (count < j->o->batch_size) {
        pegasos_order_draw(order, j->active, 1, &row);
        if (j->p->codes[row] < 0)
            continue;
        j->drawn[count] = row;
        j->worst[count++] = joint_score(j, row, row, &now);
    }
    return count;
}

/* Adds W and the intercepts to the average, without a pass over them: see count_step in step.h. */
static void average(const joint *j)
{
    pegasos_joint *s = j->s;
    if (j->o->average_from == 0 || s->n_steps < j->o->average_from)
        return;
    if (s->n_steps == j->o->average_from) {
        memset(j->sums, 0, (size_t)(j->size + j->padded_classes) * sizeof(double));
        s->rate_sum = 0;
        s->n_averaged = 0;
    }
    s->rate_sum += scale_of(j);
    s->n_averaged++;
    for (int64_t k = 0; k < j->n_classes; k++)
        j->offset_sums[k] += j->offset[k];
}

static void step(const joint *j, pegasos_order *order, double radius)
{
    pegasos_joint *s = j->s;
    const int64_t K = j->n_classes, count = draw(j, order);
    const double rate =
        s->q * (double)s->n_inside / (s->mass * j->p->lam * (double)(s->n_steps + 1));
    for (int64_t t = 0; t < count; t++) {
        const int64_t i = j->drawn[t], worst = j->worst[t], y = j->p->codes[i];
        const double u = sample_weight(j->p->weights, i) / (s->q * (double)j->o->batch_size);
        if (worst == y)
            continue;
        if (j->o->project) {
            score_classes(j, i, i, j->v); /* other rows of the step may have moved v */
            s->squared_norm += 2 * u * (j->scores[y] - j->scores[worst] + u * squared_norm(j, i));
        }
        j->change[y] = u;
        j->change[worst] = -u;
        joint_add_row(j, i, j->change, j->v);
        if (s->rate_sum > 0) {
            j->change[y] = u * s->rate_sum;
            j->change[worst] = -u * s->rate_sum;
            joint_add_row(j, i, j->change, j->sums);
        }
        j->change[y] = j->change[worst] = 0;
        j->a[i * K + y] += u;
        j->a[i * K + worst] -= u;
        if (j->p->is_free) {
            j->offset[y] += rate * u;
            j->offset[worst] -= rate * u;
        }
    }
    s->n_steps++;
    s->next_draw = order->next;
    s->is_checked = 0;
    if (j->o->project)
        project(j, radius);
    average(j);
}

/* ---- The certificate ------------------------------------------------------------------------- */

/* row[k] = a feasible point near theta a_ik, except for sums over rows; returns
 * -sum_k row[k] Delta(k, y). */
static double make_feasible(const joint *j, int64_t i, const double *of_rows, double theta)
{
    const int64_t y = j->p->codes[i];
    const double *a = of_rows + i * j->n_classes, *cost = j->p->cost + y * j->n_classes;
    const double c = sample_weight(j->p->weights, i);
    double total = 0, value = 0;
    for (int64_t k = 0; k < j->n_classes; k++) {
        j->row[k] = k == y ? 0 : fmin(theta * a[k], 0);
        total -= j->row[k];
    }
    const double shrink = total > c ? c / total : 1;
    for (int64_t k = 0; k < j->n_classes; k++) {
        j->row[k] *= shrink;
        value -= j->row[k] * cost[k];
    }
    j->row[y] = total * shrink;
    return value;
}

double joint_norm(const joint *j, const double *v)
{
    const int64_t depth = j->d + 1, count = depth - (j->p->is_free != 0);
    double lane[LANES] = {0}, sum = 0;
    for (int64_t first = 0; first < j->size; first += depth * LANES)
        for (int64_t t = 0; t < count * LANES; t += LANES)
            for (int l = 0; l < LANES; l++)
                lane[l] += v[first + t + l] * v[first + t + l];
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

pegasos_progress joint_progress(const joint *j)
{
    const pegasos_joint *const s = j->s;
    return (pegasos_progress){s->n_epochs, s->primal, relative_gap_of(s->primal, s->dual)};
}

bool joint_is_stopped(const joint *j, double passes)
{
    return is_to_stop(j->watch, passes * (double)j->n_classes * cost_of_row(j->p->rows));
}

/*
 * Free intercepts need sum_i a_ik = 0. With flows F_yk = -sum of a_ik over the rows of class y,
 * each class must have equal flows out and in. Class by class, the flows of the larger side are
 * multiplied by one factor, so that the sums become equal, until all classes are balanced. Factors
 * are at most 1, so that dual variables stay within their bounds. If this does not end, the lesser
 * of F_yk and F_ky is a balanced flow.
 */
static void find_balance(const joint *j)
{
    const int64_t K = j->n_classes;
    const double *const before = j->flows;
    double *const flows = j->balance, total = 0, left = INFINITY;
    for (int64_t t = 0; t < K * K; t++)
        total += flows[t] = before[t];
    for (int n_done = 0; n_done < MOST_BALANCES && left > BALANCED * total; n_done++) {
        left = 0;
        for (int64_t k = 0; k < K; k++) {
            double out = 0, in = 0;
            for (int64_t l = 0; l < K; l++) {
                out += flows[k * K + l];
                in += flows[l * K + k];
            }
            left += fabs(out - in);
            for (int64_t l = 0; l < K; l++) {
                flows[k * K + l] *= out > in ? in / out : 1;
                flows[l * K + k] *= in > out ? out / in : 1;
            }
        }
    }
    const bool is_balanced = left <= 1e3 * BALANCED * total; /* rounding may be more than wanted */
    for (int64_t y = 0; y < K; y++)
        for (int64_t k = 0; k < K; k++) {
            const double there = before[y * K + k], back = before[k * K + y];
            const double flow = is_balanced ? flows[y * K + k] : fmin(there, back);
            j->balance[y * K + k] = there > 0 ? flow / there : 1;
        }
}

/* Multiplies `row` by the factors; returns -sum_k row[k] Delta(k, y). */
static double balance_row(const joint *j, int64_t y)
{
    const double *factors = j->balance + y * j->n_classes, *cost = j->p->cost + y * j->n_classes;
    double total = 0, value = 0;
    for (int64_t k = 0; k < j->n_classes; k++) {
        j->row[k] *= k == y ? 0 : factors[k];
        total -= j->row[k];
        value -= j->row[k] * cost[k];
    }
    j->row[y] = total;
    return value;
}

/* Finds the factors for a point near theta a; false: stopped. */
static bool find_flows(const joint *j, const double *a, double theta)
{
    const int64_t K = j->n_classes;
    memset(j->flows, 0, (size_t)(K * K) * sizeof(double));
    for (int64_t i = 0; i < j->n; i++) {
        const int64_t y = j->p->codes[i];
        if (y < 0)
            continue;
        make_feasible(j, i, a, theta);
        for (int64_t k = 0; k < K; k++)
            j->flows[y * K + k] -= k == y ? 0 : j->row[k];
        if (joint_is_stopped(j, 0.1))
            return false;
    }
    find_balance(j);
    return true;
}

bool joint_combine(const joint *j, const double *a, double theta, bool is_balanced, double *value)
{
    const bool balances = is_balanced && j->p->is_free;
    if (balances && !find_flows(j, a, theta))
        return false;
    memset(j->fresh, 0, (size_t)j->size * sizeof(double));
    *value = 0;
    for (int64_t i = 0; i < j->n; i++) {
        if (j->p->codes[i] < 0)
            continue;
        const double linear = make_feasible(j, i, a, theta);
        *value += balances ? balance_row(j, j->p->codes[i]) : linear;
        joint_add_row(j, i, j->row, j->fresh);
        if (joint_is_stopped(j, 1))
            return false;
    }
    return true;
}

double joint_objective_at_zero(const joint *j)
{
    double sum = 0;
    for (int64_t i = 0; i < j->n; i++) {
        double most = 0;
        for (int64_t k = 0; j->p->codes[i] >= 0 && k < j->n_classes; k++)
            most = fmax(most, j->p->cost[j->p->codes[i] * j->n_classes + k]);
        sum += most > 0 ? sample_weight(j->p->weights, i) * most : 0;
    }
    return sum / j->s->mass;
}

/* m times the mean loss of a point; false: stopped. */
static bool find_loss(const joint *j, const joint_point *x, double *loss)
{
    *loss = 0;
    for (int64_t i = 0; i < j->n; i++) {
        const int64_t y = j->p->codes[i];
        if (y < 0)
            continue;
        const int64_t worst = joint_score(j, i, i, x);
        *loss += sample_weight(j->p->weights, i) * (j->scores[worst] - j->scores[y]);
        if (joint_is_stopped(j, 1))
            return false;
    }
    return true;
}

void joint_keep_best(const joint *j, const joint_point *x, double primal, bool is_last)
{
    if (primal >= j->s->primal && !is_last) /* the caller reports NaN */
        return;
    for (int64_t k = 0; k < j->n_classes; k++) {
        for (int64_t t = 0; t < j->d; t++)
            j->coef[k * j->d + t] = x->scale * *joint_at(j, x->v, k, t);
        j->intercept[k] =
            x->scale * *joint_at(j, x->v, k, j->d) * j->constant_feature + x->offset[k];
    }
    j->s->primal = primal;
}

/* fresh = the sum of the iterates of Pegasos. */
static joint_point sum_up(const joint *j)
{
    for (int64_t t = 0; t < j->size; t++)
        j->fresh[t] = j->s->rate_sum * j->v[t] - j->sums[t];
    for (int64_t k = 0; k < j->padded_classes; k++)
        j->change[k] = j->offset_sums[k] / (double)j->s->n_averaged;
    return (joint_point){j->fresh, j->change, 1 / (double)j->s->n_averaged};
}

/* Finds D at a feasible point near a; with Pegasos, near theta a. There a sums the additions to v,
 * so W = scale v is W(theta a) for theta = scale lam m. False: stopped. */
static bool find_dual(const joint *j, double *dual)
{
    const double full = 1 / (j->p->lam * j->s->mass);
    double value;
    if (!joint_combine(j, j->a, is_ascent(j) ? 1 : scale_of(j) / full, true, &value))
        return false;
    *dual = value / j->s->mass - j->p->lam / 2 * full * full * joint_norm(j, j->fresh);
    return true;
}

/* Finds the primal point, after `find_dual`: with Pegasos, the average or W; with dual ascent,
 * W(a). If intercepts are free, D needs sum_i a_ik = 0, but ascent goes on from the unbalanced a.
 * So v is summed once more, without balance. False: stopped. */
static bool find_point(const joint *j, joint_point *x)
{
    double value; /* not used: D is known */
    if (!is_ascent(j))
        *x = j->s->n_averaged > 0 ? sum_up(j) : joint_current_point(j);
    else if (!j->p->is_free || joint_combine(j, j->a, 1, false, &value))
        *x = (joint_point){j->fresh, j->offset, 1 / (j->p->lam * j->s->mass)};
    else
        return false;
    return true;
}

/* A gap check, which is a transaction; false: stopped. */
static bool check_gap(const joint *j)
{
    pegasos_joint *s = j->s;
    joint_point now;
    double dual, loss;
    if (!find_dual(j, &dual) || !find_point(j, &now) || !find_loss(j, &now, &loss))
        return false;
    const double squared = joint_norm(j, now.v);
    const double primal = loss / s->mass + j->p->lam / 2 * now.scale * now.scale * squared;
    s->dual = fmax(s->dual, dual);
    joint_keep_best(j, &now, primal, !is_ascent(j));
    if (is_ascent(j)) {
        memcpy(j->v, j->fresh, (size_t)j->size * sizeof(double));
        s->squared_norm = squared;
    }
    s->is_checked = 1;
    s->is_due = 0;
    return true;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static int run_ascent(const joint *j)
{
    pegasos_joint *s = j->s;
    for (;;) {
        if (s->width > 0 && j->o->newton_after == 0) /* Newton's method has left v behind */
            return_to_ascent(j);
        if (s->is_due) {
            if (!check_gap(j))
                return PEGASOS_STOPPED;
            if (s->whole > 0)
                s->ratio = fmin(fmax((s->primal - s->dual) * s->mass / s->whole, 0.01), 1);
        }
        if (!isfinite(s->primal) && s->is_checked)
            return PEGASOS_OVERFLOW;
        if (s->n_epochs >= j->o->last_epoch || joint_progress(j).relative_gap <= j->o->tol)
            return PEGASOS_DONE;
        if (j->o->newton_after > 0 && s->n_epochs >= j->o->newton_after)
            return joint_newton(j);
        if (s->position == 0) {
            s->gap = s->loss = 0;
            move_intercepts(j);
        }
        while (s->position < s->n_active) {
            visit(j, pegasos_draw_one(&s->generator, s->n_active, s->position, j->active));
            s->position++;
            if (joint_is_stopped(j, 2))
                return PEGASOS_STOPPED;
        }
        end_sweep(j);
        if (is_to_stop_after_epoch(j->watch, joint_progress(j)))
            return PEGASOS_STOPPED;
    }
}

static int run_pegasos(const joint *j)
{
    pegasos_joint *s = j->s;
    pegasos_order order;
    const double radius = sqrt(2 * joint_objective_at_zero(j) / j->p->lam);
    pegasos_order_seek(&order, j->o->seed, j->n, j->o->sampling, s->next_draw, j->active);
    while (s->n_steps < j->o->last_step) {
        step(j, &order, radius);
        if (joint_is_stopped(j, 2 * (double)j->o->batch_size))
            return PEGASOS_STOPPED;
    }
    if (!s->is_checked && !check_gap(j))
        return PEGASOS_STOPPED;
    return isfinite(s->primal) ? PEGASOS_DONE : PEGASOS_OVERFLOW;
}

/* ---- A fit ----------------------------------------------------------------------------------- */

static void begin(const joint *j)
{
    pegasos_joint *s = j->s;
    double mass = 0;
    memset(s, 0, (size_t)pegasos_joint_state_bytes(j->n, j->d, j->n_classes, j->o->averages));
    for (int64_t i = 0; i < j->n; i++)
        if (j->p->codes[i] >= 0) {
            mass += sample_weight(j->p->weights, i);
            j->active[s->n_inside++] = i;
        }
    s->n_rows = j->n;
    s->n_features = j->d;
    s->n_classes = j->n_classes;
    s->n_active = s->n_inside;
    s->generator = j->o->seed;
    s->mass = mass;
    s->primal = INFINITY;
    s->dual = -INFINITY;
    s->ratio = 0.5;
    s->q = 1;
}

int pegasos_joint_run(const pegasos_joint_problem *problem, const pegasos_joint_options *options,
                      void *memory, void *scratch, pegasos_watch *watch)
{
    joint j = joint_of(problem->rows->n_rows, problem->rows->n_features, problem->n_classes);
    j.p = problem;
    j.o = options;
    j.watch = watch;
    /* Pegasos moves free intercepts directly. */
    j.constant_feature = options->last_step > 0 && problem->is_free ? 0 : problem->constant_feature;
    assert(are_there(problem->rows, 0, j.n) && problem->lam > 0 && j.n_classes >= 2);
    assert(!problem->is_free || problem->constant_feature == 1);
    lay_out_state(&j, options->averages != 0, memory);
    lay_out_scratch(&j, options->batch_size, scratch);
    memset(j.scores, 0, 3 * (size_t)j.padded_classes * sizeof(double)); /* row and change, too */
    if (j.s->n_rows == 0)
        begin(&j);
    return is_ascent(&j) ? run_ascent(&j) : run_pegasos(&j);
}
