/*
 * ascent.c - dual coordinate ascent, which finishes what Pegasos begins, with exact steps. In a
 * default fit, its first epoch is the epoch of Pegasos: see `growth` in step.h.
 *
 * The dual of P (pegasos.h) has one variable per row, with the hinge 0 <= a_i <= c_i:
 *
 *     D(a) = 1/m sum_i a_i - lam/2 |w(a)|^2,      w(a) = s sum_i a_i y_i x_i,      s = 1/(lam m)
 *
 * D(a) <= P(w) for any w. Along one coordinate D is a parabola: its derivative is u_i/m with
 * u_i = 1 - y_i <w(a), x_i>, its curvature s |x_i|^2/m, so the best value within bounds is
 *
 *     a_i <- clip(a_i + u_i / (s |x_i|^2), 0, c_i),      w <- w + s (change of a_i) y_i x_i
 *
 * Other losses have other bounds, add to the curvature, and may have a corner at a_i = 0. The step
 * of the log loss has no closed form (`loss_best` in loss.h). (Hsieh, Chang, Lin, Keerthi,
 * Sundararajan: A dual coordinate descent method for large-scale linear SVM, ICML 2008;
 * Shalev-Shwartz and Zhang, JMLR 14, 2013.) Vectors are double for every type of rows: w follows a
 * through millions of changes, and `tol` may be 1e-6. Only bundles, for searches by epochs, have
 * weights of the rows' type: in float, twice as many problems share a cache line.
 */
#include "fit.h"
#include "step.h"

#include <string.h>

/* ---- A visit --------------------------------------------------------------------------------- */

/* Rows are chosen this many visits ahead, and prefetched: first the label, the dual variable and
 * the norm, later the row's own numbers. */
enum { AHEAD = 16 };
/* A row sleeps if it is stuck by a margin of this many mean moves (see `margin_of`), for losses
 * with corners and for smooth losses. With a smaller number, more rows sleep that have to wake
 * later. bench/notes.md has measurements of these three numbers. */
enum { MOVES = 2, MOVES_OF_SMOOTH = 3 };

/* Keeps the row at `position` for the next epoch: such rows come first in the list. */
static INLINE void keep_active(pegasos_dual *p, int64_t *active)
{
    const int64_t row = active[p->position];
    active[p->position] = active[p->n_kept];
    active[p->n_kept++] = row;
}

/* The part of row i in m D, without its part of |w(a)|^2. */
static INLINE double dual_part(const loss_form l, const pegasos_targets *t, int64_t i, double a)
{
    return value_at(t, i) * a - loss_conjugate(l, a, sample_weight(t->weights, i));
}

/*
 * Shrinking (after Hsieh et al., section 3.2): a row that is stuck by a margin sleeps. It is left
 * out until a gap check finds that it is no longer stuck. A move is how far a step changes the
 * score of its own row, |change of a_i| s |x_i|^2. The margin is a few mean moves of the last
 * epoch. In a first epoch it is a few mean moves of that epoch so far, once a quarter of the rows
 * are visited. The margin shrinks as the run converges. Hsieh et al. take the largest of all
 * derivatives, which one row decides, and let far fewer rows sleep.
 */
static INLINE double margin_of(const pegasos_dual *p, const loss_form loss)
{
    const double moves = loss_is_smooth(loss) ? MOVES_OF_SMOOTH : MOVES;
    if (p->mean_move > 0)
        return moves * p->mean_move;
    const bool is_known = p->n_moved > 0 && 4 * p->position >= p->n_active;
    return is_known ? moves * p->moved / (double)p->n_moved : INFINITY;
}

/*
 * Visits up to `count` rows of the present epoch.
 *
 * The derivative of a row is u_i, or 0 where a bound stops it. At the optimum, all are 0. The u_i
 * also give the gap: for w = w(a), lam m |w|^2 = sum_i a_i y_i <w, x_i>, so that
 * m (P(w) - D(a)) = sum_i c_i l(u_i) + c_i l*(a_i/c_i) - a_i u_i (loss_gap). Rows with a derivative
 * of 0 add nothing to it. `gap` sums this over an epoch, each row as it was before its step.
 */
static INLINE int64_t ascend(const row_functions *f, const pegasos_rows *rows, pegasos_dual *p,
                             const pegasos_targets *targets, const double *norms, int64_t *active,
                             double *a, double *w, double *last_u, int64_t count,
                             const loss_form loss)
{
    const int8_t *const labels = targets->labels;
    const double *const weights = targets->weights, *const values = targets->values;
    const double square = p->intercept_scaling * p->intercept_scaling;
    int64_t j = 0;
    for (; j < count && p->position < p->n_active; j++, p->position++) {
        while (p->n_chosen < p->n_active && p->n_chosen <= p->position + AHEAD) {
            const int64_t later =
                pegasos_draw_one(&p->generator, p->n_active, p->n_chosen++, active);
            PREFETCH(labels + later);
            PREFETCH(a + later);
            PREFETCH(norms + later);
            if (weights)
                PREFETCH(weights + later);
            if (values)
                PREFETCH(values + later);
            f->prefetch_offset(rows, later);
        }
        const int64_t *const chosen = active + p->position, i = chosen[0];
        const int64_t n_ahead = p->n_chosen - 1 - p->position;
        const int64_t next = chosen[n_ahead < AHEAD / 2 ? n_ahead : AHEAD / 2];
        const double y = labels[i], c = sample_weight(weights, i), norm = norms[i] + square;
        const double inner = f->dot(rows, i, w, next) + p->intercept_scaling * p->constant_weight;
        double longer = 1;
        if (p->pegasos_mass > 0)
            longer = growth(p->pegasos_mass, p->weight_seen += c);
        const double u = value_at(targets, i) - y * (longer * inner + p->intercept);
        if (last_u)
            last_u[i] = u;
        /* The log loss has all rows between their bounds. */
        const double steepness =
            loss_is_quadratic(loss)
                ? loss_steepness(loss, a[i], c, u - loss_diagonal(loss, c) * a[i])
                : 0;
        if (steepness < 0) { /* it is stuck */
            if (steepness < -margin_of(p, loss))
                p->asleep += dual_part(loss, targets, i, a[i]);
            else
                keep_active(p, active);
            continue;
        }
        keep_active(p, active);
        const double best = loss_best(loss, a[i], c, u, longer * p->scale * norm);
        const double change = p->scale * (best - a[i]) * y;
        if (change == 0)
            continue;
        p->gap += loss_gap(loss, a[i], c, u);
        a[i] = best;
        f->add(rows, i, change, w);
        p->moved += longer * fabs(change) * norm;
        p->n_moved++;
        p->constant_weight += change * p->intercept_scaling;
        p->squared_norm += change * (2 * inner + change * norm);
    }
    if (p->position >= p->n_active)
        p->position = p->n_chosen = p->n_active = p->n_kept;
    return j;
}

#define DEFINE_ASCENTS(TYPE)                                                                       \
    CLONES_WIDE static void ascend_##TYPE(const pegasos_rows *rows, pegasos_dual *p,               \
                                          const pegasos_targets *targets, const double *norms,     \
                                          int64_t *active, double *a, double *w, double *last_u,   \
                                          int64_t count, int64_t *done)                            \
    {                                                                                              \
        const loss_form loss = loss_of(targets->loss);                                             \
        pegasos_dual copy = *p; /* which need not go to memory at every change */                  \
        WITH_LOSS(loss, *done = ascend(&functions_##TYPE, rows, &copy, targets, norms, active, a,  \
                                       w, last_u, count, LOSS));                                   \
        *p = copy;                                                                                 \
    }
FOR_EVERY_WIDE_TYPE(DEFINE_ASCENTS)

void pegasos_dual_begin_epoch(pegasos_dual *p)
{
    p->mean_move = p->n_moved > 0 ? p->moved / (double)p->n_moved : 0;
    p->moved = p->gap = 0;
    p->n_moved = p->position = p->n_chosen = p->n_kept = 0;
    p->pegasos_mass = p->weight_seen = 0;
}

void pegasos_dual_start(pegasos_dual *p, int64_t n_active)
{
    assert(n_active >= 0);
    p->n_active = n_active;
    p->n_moved = 0;
    p->asleep = 0;
    pegasos_dual_begin_epoch(p);
}

int64_t pegasos_dual_run(const pegasos_rows *rows, pegasos_dual *problem,
                         const pegasos_targets *targets, const double *norms, int64_t *active,
                         double *a, double *w, double *last_u, int64_t count)
{
    int64_t done = 0;
    assert(are_plausible(rows) && 0 <= problem->position && problem->position <= problem->n_active);
    assert(are_in_range(active, problem->n_active, 0, rows->n_rows));
    DISPATCH_WIDE(ascend, rows, problem, targets, norms, active, a, w, last_u, count, &done);
    return done;
}

/* ---- Epochs, gap checks, and when to stop ---------------------------------------------------- */

/*
 * A whole run of one problem (`pegasos_ascent_run`), until the gap is small or no epoch may follow:
 *
 *     visit the rows that are left of the epoch        (`visit_rows`)
 *     estimate the gap, and tell whether to give up    (`note_estimate`)
 *     if a gap check is due:                           (`is_check_due`)
 *         compute the gap, keep the best point, and wake rows that are not stuck    (`check_gap`)
 *     begin the next epoch, unless rows were woken for this one                     (`end_epoch`)
 *
 * A gap check costs about an epoch. It is made at the end of an epoch if one of these holds:
 *
 *   - the run may make no other epoch, no row is active, or the run gives up;
 *   - the gap is likely to be small enough, by the estimate that an epoch gives (see `ascend`) and
 *     by how fast the estimate falls;
 *   - there are GROWTH_BEFORE_CHECK times the visits of the last check;
 *   - most rows sleep, and the estimate has fallen far since the last check. The check wakes rows.
 *
 * The last epoch that a run may make ends with two primal points: w(a), and the mean of w(a) over
 * snapshots. With many more rows than features, w(a) swings from visit to visit, and far from the
 * optimum the mean is by far the better point. Near the optimum it gains nothing.
 *
 * A run may be stopped wherever it polls. Within an epoch, its position is in the state. A gap
 * check changes nothing before its end, and is begun again.
 */
enum { SNAPSHOTS = 8, VISIT = 3 /* times what a row costs */ };
/* Checks for growth alone come from this epoch on. With 1.5, there are few of them in long runs. */
enum { EPOCHS_BEFORE_CHECK = 16 };
static const double GROWTH_BEFORE_CHECK = 1.5;
/* The gap expected at the end of an epoch is the estimate times its mean fall per epoch, over the
 * last two epochs. A check is due when that is at most EXPECTED_PART of tol, and the estimate has
 * fallen by FALL_BEFORE_CHECK since the last check. */
static const double EXPECTED_PART = 0.95, FALL_BEFORE_CHECK = 1.5;
/* A check is made to wake rows once the estimate is at most FIRST_WAKE, and again each time it
 * falls to FALL_BEFORE_WAKE of its value at the last check. None is made for that below
 * tol/FALL_BEFORE_WAKE: the check that may end the run is near, and wakes rows, too. */
static const double FIRST_WAKE = 0.03, FALL_BEFORE_WAKE = 0.1;
/* A run with a larger estimate is far from the optimum. */
static const double FAR = 0.5;

static double intercept_of(const pegasos_dual *p)
{
    return p->intercept + p->intercept_scaling * p->constant_weight;
}

/* w's weight of the problem's constant feature, or of the solver's own if the intercept is free. */
static double weight_of_feature(const fit *f)
{
    const pegasos_dual *const p = &f->s->dual;
    const double feature = f->problem->intercept_scaling;
    return feature > 0 ? feature / p->intercept_scaling * p->constant_weight : p->constant_weight;
}

static bool is_averaged(const fit *f)
{
    return f->s->n_epochs + 1 >= f->options->max_epochs;
}

/* The position at which to take the next snapshot, or the end of the epoch. */
static int64_t next_snapshot(const fit *f)
{
    const pegasos_dual *const p = &f->s->dual;
    const int64_t n = p->n_active, each = (n + SNAPSHOTS - 1) / SNAPSHOTS;
    const int64_t next = (p->position / each + 1) * each;
    return is_averaged(f) && next < n ? next : n;
}

static void take_snapshot(const fit *f)
{
    const int64_t d = f->rows->n_features;
    for (int64_t j = 0; j < d; j++)
        f->sums[j] += f->w[j];
    f->sums[d] += f->s->dual.constant_weight;
    f->s->ascent.n_snapshots++;
}

/* How many visits are made between polls; `each` is the cost of a visit. */
static int64_t visits_at_once(const pegasos_watch *watch, double each)
{
    return 1 + (int64_t)fmin(watch->every / each, 1e9);
}

/* Visits the remaining rows of the epoch; false: stopped. */
static bool visit_rows(fit *f)
{
    pegasos_dual *const p = &f->s->dual;
    const double each = VISIT * cost_of_row(f->rows);
    const int64_t most = visits_at_once(&f->watch, each);
    while (p->position < p->n_active) {
        const int64_t next = next_snapshot(f), left = next - p->position;
        const int64_t done = pegasos_dual_run(f->rows, p, &f->targets, f->norms, f->active, f->a,
                                              f->w, NULL, min_of(left, most));
        const bool is_over = p->position >= p->n_active;
        f->s->ascent.n_visits += done;
        if (is_averaged(f) && (is_over || p->position == next))
            take_snapshot(f);
        if (is_to_stop(&f->watch, each * (double)done))
            return false;
    }
    return true;
}

/* Ends this epoch and begins the next one. If no row is active, a gap check has found none to wake,
 * and only rounding is left: then the next epoch visits all rows. The reference of an intercept
 * moves: see struct pegasos_ascent, fit.h. */
static void end_epoch(const fit *f)
{
    state *const s = f->s;
    pegasos_dual *const p = &s->dual;
    const double feature = f->problem->intercept_scaling;
    const double part = feature > 0 ? p->intercept_scaling / feature : 0;
    s->n_epochs++;
    s->ascent.n_steps += p->pegasos_mass > 0 ? s->n_inside : 0;
    if (s->ascent.n_snapshots > 0)
        memset(f->sums, 0, (size_t)(f->rows->n_features + 1) * sizeof(double));
    s->ascent.n_snapshots = 0;
    if (p->n_active == 0)
        pegasos_dual_start(p, s->n_inside);
    else
        pegasos_dual_begin_epoch(p);
    p->intercept = (1 - part * part) * intercept_of(p);
}

/* ---- Gap checks ------------------------------------------------------------------------------ */

/* The sum of z_i a_i - c_i l*(a_i/c_i). For rows asleep it is known. */
static double sum_of_dual_parts(const fit *f)
{
    const loss_form loss = loss_of(f->problem->loss);
    double sum = f->s->dual.asleep;
    WITH_LOSS(
        loss, for (int64_t j = 0; j < f->s->dual.n_active; j++) {
            const int64_t i = f->active[j];
            sum += dual_part(LOSS, &f->targets, i, f->a[i]);
        });
    return sum;
}

/*
 * Estimates the relative gap, which is compared with tol. D comes from running sums, and P - D from
 * what the last epoch saw (`ascend`). Both were computed with the solver's constant feature g and
 * the reference b_0 (struct pegasos_ascent). If the problem has a constant feature f, its |w|^2 has
 * the weight that dual variables give to f, not that of g. Until b_0 has settled, the model's b is
 * f times another weight. This adds lam/2 times the squared difference of weights to P - D.
 */
static double estimate_gap(const fit *f)
{
    const pegasos_dual *const p = &f->s->dual;
    const double lam = f->s->lam, mass = f->s->mass, feature = f->problem->intercept_scaling;
    const double weight = weight_of_feature(f), constant = p->constant_weight;
    const double norm = p->squared_norm - constant * constant + weight * weight;
    const double apart = feature > 0 ? intercept_of(p) / feature - weight : 0;
    const double gap = p->gap / mass + lam / 2 * apart * apart;
    const double dual = sum_of_dual_parts(f) / mass - lam / 2 * norm, nu = f->problem->loss.nu;
    return gap / fmax(nu == 0 ? dual + gap : nu - dual, 1e-300);
}

/*
 * Whether the run is far from the optimum and most rows are active. In an epoch, a dual variable
 * grows by at most lam m/|x_i|^2 times the violation of its margin. If that is far below 1 and most
 * rows violate their margin, ascent needs many epochs over all rows to get near the optimum.
 */
static bool is_hopeless(const fit *f, double estimate)
{
    return estimate > FAR && f->s->dual.n_active > f->s->n_inside / 2;
}

/* Whether the run has made its visits: asked between epochs only. */
static bool are_visits_over(const fit *f, int64_t last_visit)
{
    return last_visit > 0 && f->s->ascent.n_visits >= last_visit;
}

/* Notes the epoch's estimate, and whether the run gives up. Returns the gap expected at its end. */
static double note_estimate(const fit *f, pegasos_ascent *s)
{
    const double two_epochs_ago = s->estimate_before;
    s->estimate_before = s->estimate;
    s->estimate = estimate_gap(f);
    /* Rows that a check woke add to the estimate. What counts is how far it falls from there. */
    s->estimate_since_check = fmax(s->estimate_since_check, s->estimate);
    if (s->patience > 0 && s->n_visits >= s->patience) {
        s->patience = 0;
        s->has_given_up = is_hopeless(f, s->estimate);
    }
    const double fall = isfinite(two_epochs_ago) ? fmin(s->estimate / two_epochs_ago, 1) : 1;
    return s->estimate * sqrt(fall);
}

/* Whether a gap check is due in an epoch that need not be the last, for the reasons above. */
static bool is_check_due(const fit *f, const pegasos_ascent *s, double expected_gap)
{
    const int64_t n_inside = f->s->n_inside;
    const double tol = f->options->tol;
    const bool is_small =
        expected_gap <= EXPECTED_PART * tol || f->s->primal <= rounding_of(f->problem->loss);
    const bool may_end = is_small && s->estimate <= s->estimate_since_check / FALL_BEFORE_CHECK;
    const bool has_grown =
        s->n_visits >= EPOCHS_BEFORE_CHECK * n_inside
        && (double)s->n_visits >= GROWTH_BEFORE_CHECK * (double)s->n_visits_at_check;
    const double last = fmin(s->estimate_since_check, FIRST_WAKE / FALL_BEFORE_WAKE);
    const bool may_wake = f->s->dual.n_active < n_inside / 2 && s->estimate > tol / FALL_BEFORE_WAKE
                          && s->estimate <= FALL_BEFORE_WAKE * last
                          && s->n_visits >= s->n_visits_at_check + n_inside;
    return s->has_given_up || may_end || has_grown || may_wake;
}

/* The best dual value among multiples of a. With a free intercept, a is balanced first. This
 * changes w(a), and a pass over the rows sums it. */
static int find_dual_value(fit *f, double *dual)
{
    const state *const s = f->s;
    const int64_t d = f->rows->n_features;
    const double *a = f->a, constant = weight_of_feature(f);
    double norm = 0;
    if (f->problem->free_intercept) {
        a = f->scratch;
        pegasos_make_feasible(&f->targets, 1, f->a, f->scratch);
        if (!pegasos_fit_combine(f, a, f->sum))
            return PEGASOS_STOPPED;
        norm = squared_norm_of(f->sum, d);
    } else
        norm = squared_norm_of(f->w, d) + constant * constant;
    *dual = pegasos_best_dual(&f->targets, a, norm, s->mass, s->lam, 1);
    return PEGASOS_DONE;
}

typedef struct candidate {
    const double *w;
    double constant; /* the weight of the constant feature */
    /* Written by find_primal_value. Scores are in scratch, until the next call. */
    const double *scores;
    double intercept, primal;
} candidate;

/* Finds scores, intercept and objective of a point; a free intercept is the best one for w. */
static int find_primal_value(fit *f, candidate *x)
{
    const pegasos_dual *const p = &f->s->dual;
    double *const room = f->problem->free_intercept ? f->scratch + f->rows->n_rows : NULL;
    x->intercept = p->intercept + p->intercept_scaling * x->constant;
    x->scores = f->scratch;
    if (!pegasos_fit_score(f, x->w, room, &x->intercept, f->scratch))
        return PEGASOS_STOPPED;
    x->primal = fit_objective(f, x->w, x->intercept, x->scores);
    return isfinite(x->primal) ? PEGASOS_DONE : PEGASOS_OVERFLOW;
}

/* Lets sleeping rows take part in the next epoch unless they are stuck at `x`, which is w. */
static void wake_rows(const fit *f, const candidate *x)
{
    pegasos_dual *const p = &f->s->dual;
    const pegasos_targets *const t = &f->targets;
    const loss_form loss = loss_of(t->loss);
    const double b = intercept_of(p) - x->intercept;
    const bool is_at_end = p->position >= p->n_active;
    for (int64_t j = p->n_active; j < f->s->n_inside; j++) {
        const int64_t i = f->active[j];
        const double c = sample_weight(t->weights, i), u = error_at(t, i, x->scores[i] + b);
        if (loss_steepness(loss, f->a[i], c, u - loss_diagonal(loss, c) * f->a[i]) < 0)
            continue;
        p->asleep -= dual_part(loss, t, i, f->a[i]);
        f->active[j] = f->active[p->n_active];
        f->active[p->n_active++] = i;
    }
    if (is_at_end)
        p->position = p->n_chosen = p->n_kept = p->n_active;
}

/* Computes the gap at the mean of w, if there is one, and at w unless the mean is good enough.
 * Nothing lasting is written before the end. */
static int check_gap(fit *f, pegasos_ascent *s)
{
    const int64_t d = f->rows->n_features, n_snapshots = s->n_snapshots;
    candidate mean = {.w = f->sum, .primal = INFINITY};
    candidate last = {.w = f->w, .constant = f->s->dual.constant_weight, .primal = INFINITY};
    double dual = 0;
    int status = find_dual_value(f, &dual);
    if (status == PEGASOS_DONE && n_snapshots > 0) {
        for (int64_t j = 0; j < d; j++)
            f->sum[j] = f->sums[j] / (double)n_snapshots;
        mean.constant = f->sums[d] / (double)n_snapshots;
        status = find_primal_value(f, &mean);
    }
    const double primal = fmin(f->s->primal, mean.primal), gap = relative_gap_of(primal, dual);
    const bool is_enough =
        n_snapshots > 0 && is_small_gap(f->problem->loss, gap, primal, f->options->tol);
    if (status == PEGASOS_DONE && !is_enough)
        status = find_primal_value(f, &last);
    if (status != PEGASOS_DONE)
        return status;
    pegasos_fit_keep_best(f, mean.w, mean.intercept, mean.primal, dual);
    pegasos_fit_keep_best(f, last.w, last.intercept, last.primal, dual);
    if (!is_enough)
        wake_rows(f, &last);
    s->n_visits_at_check = s->n_visits;
    s->estimate_since_check = s->estimate;
    return status;
}

/* Ends an epoch with an estimate, and with a gap check if one is due. The state changes only at its
 * end, so it can be stopped and begun again. */
static int assess(fit *f, bool is_last)
{
    pegasos_ascent after = f->s->ascent;
    bool is_due = is_last || f->s->dual.n_active == 0;
    if (!is_due) {
        const double expected_gap = note_estimate(f, &after);
        is_due = is_check_due(f, &after, expected_gap);
    }
    const int status = is_due ? check_gap(f, &after) : PEGASOS_DONE;
    if (status == PEGASOS_DONE)
        f->s->ascent = after;
    return status;
}

/* ---- The run --------------------------------------------------------------------------------- */

int pegasos_ascent_run(fit *f, int64_t last_visit, int64_t last_epoch)
{
    state *const s = f->s;
    const pegasos_dual *const p = &s->dual;
    for (;;) {
        /* No other epoch may begin, but one that has begun goes on to its end. */
        const bool is_over = s->ascent.has_given_up || s->n_epochs >= last_epoch
                             || (p->position == 0 && are_visits_over(f, last_visit));
        if (is_small_gap(f->problem->loss, s->relative_gap, s->primal, f->options->tol)
            || (is_over && isfinite(s->primal)))
            return PEGASOS_DONE;
        if (!is_over && !visit_rows(f))
            return PEGASOS_STOPPED;
        /* A run that ends without a model makes a gap check to get one. */
        const bool is_last =
            is_over || s->n_epochs + 1 >= last_epoch || are_visits_over(f, last_visit);
        const int status = assess(f, is_last);
        if (status != PEGASOS_DONE)
            return status;
        if (p->position >= p->n_active)
            end_epoch(f);
        if (is_to_stop_after_epoch(&f->watch, progress_of_state(s)))
            return PEGASOS_STOPPED;
    }
}

/* ---- Rows that are loaded -------------------------------------------------------------------- */

/*
 * Where memory cannot hold all rows, some are loaded at a time. A step needs its row, that row's
 * dual variable and w. So it does not depend on the other rows in memory, as long as w = w(a) sums
 * over all rows. Epochs visit the loaded rows; shrinking and an epoch's sums are about these alone.
 */
int pegasos_dual_run_epochs(const pegasos_rows *rows, pegasos_dual *problem,
                            const pegasos_targets *targets, const double *norms, int64_t *active,
                            double *a, double *w, double *last_u, int64_t n_epochs,
                            pegasos_watch *watch)
{
    pegasos_dual *const p = problem;
    const double each = VISIT * cost_of_row(rows);
    const int64_t most = visits_at_once(watch, each);
    int64_t n_active = 0;
    assert(are_there(rows, 0, 0) && targets->n == rows->n_rows);
    for (int64_t i = 0; i < rows->n_rows; i++)
        if (targets->labels[i] != 0)
            active[n_active++] = i;
    pegasos_dual_start(p, n_active);
    for (int64_t epoch = 0; epoch < n_epochs; epoch++) {
        while (p->position < p->n_active) {
            const int64_t done =
                pegasos_dual_run(rows, p, targets, norms, active, a, w, last_u, most);
            if (is_to_stop(watch, each * (double)done))
                return PEGASOS_STOPPED;
        }
        if (epoch + 1 < n_epochs)
            pegasos_dual_begin_epoch(p);
    }
    return PEGASOS_DONE;
}
