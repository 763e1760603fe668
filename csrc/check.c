/*
 * check.c - checks the arguments of C programs, with a message for each mistake, and whether memory
 * from a file is that of a fit.
 */
#include "fit.h"

#include <math.h>

const char *pegasos_message(int status)
{
    static const char *const messages[] = {
        [PEGASOS_DONE] =
            "the gap is small enough, all epochs are used up, or nothing but rounding errors is "
            "left of the gap",
        [PEGASOS_STOPPED] = "the fit was stopped, and can be resumed",
        [PEGASOS_OVERFLOW] =
            "an objective or a kernel value is not a finite number: scale the rows to about 1",
        [PEGASOS_BAD_SIZES] =
            "rows must have n_rows and n_features of at least 1, value_bytes of 4 or 8, "
            "index_bytes of 0, 4 or 8, and indptr_bytes of 4 or 8 if they are CSR",
        [PEGASOS_BAD_ROWS] =
            "a linear machine must have rows, and rows have `values`, and `indices` and `indptr` "
            "if they are CSR; values must be finite; CSR offsets must not decrease, and indices "
            "be in [0, n_features)",
        [PEGASOS_BAD_TARGETS] =
            "targets must not be NULL; they must be -1 or +1, or 0 for rows outside the problem, "
            "and not all 0; those of PEGASOS_EPSILON_INSENSITIVE and the losses after it must be "
            "finite; where nu is not 0, none is -1",
        [PEGASOS_BAD_WEIGHTS] =
            "weights must be finite and not negative, and their sum over the problem's rows "
            "finite and not 0",
        [PEGASOS_BAD_LAM] = "lam must be a finite number above 0",
        [PEGASOS_BAD_LOSS] =
            "loss must have a kind such as PEGASOS_HINGE, below PEGASOS_LOSSES, and an epsilon "
            "that is finite and not negative, above 0 for PEGASOS_HUBER, and 0 for losses without "
            "one; nu must be 0, or in (0, 1] for PEGASOS_HINGE",
        [PEGASOS_BAD_INTERCEPT] =
            "free_intercept must be 0 or 1, and intercept_scaling finite, not negative, and 0 if "
            "the intercept is free, as it must be where nu is not 0",
        [PEGASOS_BAD_OPTIONS] =
            "tol must be a number, max_epochs not negative, poll_every a finite number that is "
            "not negative, poll_epochs and resume 0 or 1, and solver PEGASOS_AUTO, PEGASOS_ASCENT "
            "or PEGASOS_NEWTON, which kernel machines do not take",
        [PEGASOS_BAD_KERNEL] =
            "a kernel must come without rows and have n_rows of at least 1, n_columns that is not "
            "negative, and `values`, with K(x_i, x_i) finite and not negative",
    };
    const int count = (int)(sizeof messages / sizeof *messages);
    return status >= 0 && status < count ? messages[status] : "there is no such status";
}

static bool is_width(int64_t bytes)
{
    return bytes == 4 || bytes == 8;
}

static bool is_truth(int64_t number)
{
    return number == 0 || number == 1;
}

/* Whether sizes are so small that the bytes of a dense matrix, and of the memory of a fit, which
 * has some hundred for each row and feature, can be counted in int64_t. */
static bool are_sizes(const pegasos_rows *rows)
{
    const int64_t most = INT64_MAX / 2048;
    return rows->n_rows >= 1 && rows->n_features >= 1 && is_width(rows->value_bytes)
           && (rows->index_bytes == 0
               || (is_width(rows->index_bytes) && is_width(rows->indptr_bytes)))
           && rows->n_rows <= most && rows->n_features <= most
           && (rows->index_bytes != 0 || rows->n_features <= most / rows->n_rows);
}

static bool are_rows(const pegasos_rows *rows)
{
    const bool is_dense = rows->index_bytes == 0;
    if (!is_dense && !rows->indptr)
        return false;
    const int64_t begin = row_begin(rows, 0), end = row_begin(rows, rows->n_rows);
    if (end > 0 && !(rows->values && (is_dense || rows->indices)))
        return false;
    if (!is_dense && !pegasos_rows_are_valid(rows, end))
        return false;
    return begin == end
           || are_finite((const char *)rows->values + begin * rows->value_bytes, rows->value_bytes,
                         end - begin);
}

static int check_kernel(const pegasos_kernel_matrix *kernel)
{
    const int64_t n = kernel->n_rows, most = 1 << 29; /* bytes can be counted, too */
    double value = NAN;
    if (!(1 <= n && n <= most && kernel->n_columns >= 0 && kernel->values))
        return PEGASOS_BAD_KERNEL;
    for (int64_t i = 0; i < n; i++) {
        if (kernel->values(kernel->context, 1, &i, 1, &i, &value) != 0)
            return PEGASOS_STOPPED;
        if (!(value >= 0 && value < INFINITY))
            return PEGASOS_BAD_KERNEL;
    }
    return PEGASOS_DONE;
}

int pegasos_check(const pegasos_problem *problem, const pegasos_options *options)
{
    const pegasos_rows *const rows = problem->rows;
    const pegasos_kernel_matrix *const kernel = problem->kernel;
    const double scaling = problem->intercept_scaling;
    double mass = 0;
    bool are_targets = true, are_weights = true, is_empty = true;
    if (kernel) {
        const int status = rows ? PEGASOS_BAD_KERNEL : check_kernel(kernel);
        if (status != PEGASOS_DONE)
            return status;
    } else if (!rows) {
        return PEGASOS_BAD_ROWS;
    } else if (!are_sizes(rows)) {
        return PEGASOS_BAD_SIZES;
    } else if (!are_rows(rows)) {
        return PEGASOS_BAD_ROWS;
    }
    if (!problem->targets)
        return PEGASOS_BAD_TARGETS;
    const int64_t n_rows = kernel ? kernel->n_rows : rows->n_rows;
    const bool has_labels = loss_has_labels(problem->loss.kind);
    const bool is_one_class = loss_is_known(problem->loss) && problem->loss.nu != 0;
    for (int64_t i = 0; i < n_rows; i++) {
        const double y = problem->targets[i], c = sample_weight(problem->weights, i);
        are_targets = are_targets && (has_labels ? y == 0 || y == 1 || y == -1 : isfinite(y));
        are_targets = are_targets && (!is_one_class || y >= 0);
        are_weights = are_weights && c >= 0 && c < INFINITY;
        is_empty = is_empty && has_labels && y == 0;
        mass += has_labels && y == 0 ? 0 : c;
    }
    if (!are_targets || is_empty)
        return PEGASOS_BAD_TARGETS;
    if (!are_weights || !(mass > 0 && mass < INFINITY))
        return PEGASOS_BAD_WEIGHTS;
    if (!(problem->lam > 0 && problem->lam < INFINITY))
        return PEGASOS_BAD_LAM;
    if (!loss_is_known(problem->loss))
        return PEGASOS_BAD_LOSS;
    if (!(scaling >= 0 && scaling < INFINITY)
        || !(problem->free_intercept == 0 || (problem->free_intercept == 1 && scaling == 0))
        || (problem->loss.nu != 0 && !problem->free_intercept))
        return PEGASOS_BAD_INTERCEPT;
    if (isnan(options->tol) || options->max_epochs < 0
        || !(options->poll_every >= 0 && options->poll_every < INFINITY)
        || options->solver < PEGASOS_AUTO
        || options->solver > (kernel ? PEGASOS_ASCENT : PEGASOS_NEWTON)
        || !is_truth(options->poll_epochs) || !is_truth(options->resume))
        return PEGASOS_BAD_OPTIONS;
    return PEGASOS_DONE;
}

/* ---- The memory of a fit --------------------------------------------------------------------- */

/* Counters stay below this, so that sums of two of them do not overflow. */
static const int64_t LARGEST = (int64_t)1 << 62;

static bool is_count(int64_t number)
{
    return 0 <= number && number < LARGEST;
}

/* Whether the fit begins at its dual point and its model, so that nothing else counts. */
static bool is_at_point(const state *s)
{
    return s->pending == PEGASOS_BEGIN_AT_POINT || s->pending == PEGASOS_BEGIN_AGAIN;
}

static bool is_linear_safe(const pegasos_linear *p, const state *s)
{
    return p->ball == 0 && is_count(p->average_from) && p->last_step <= s->n_inside
           && is_count(p->delay) && is_count(p->n_steps) && is_count(p->next_draw)
           && p->next_draw <= s->n_rows && p->n_drawn == 0 && p->n_pending == 0
           && p->n_steps <= p->last_step && is_count(p->n_violations) && is_count(p->n_norm_updates)
           && is_count(p->n_averaged) && p->n_averaged <= p->n_steps && p->lam > 0 && p->q > 0;
}

static bool is_ascent_safe(const state *s, const int64_t *active)
{
    const pegasos_dual *const p = &s->dual;
    const pegasos_ascent *const q = &s->ascent;
    bool are_rows_of_it = 0 <= p->n_active && p->n_active <= s->n_inside;
    for (int64_t i = 0; are_rows_of_it && i < s->n_inside; i++)
        are_rows_of_it = 0 <= active[i] && active[i] < s->n_rows;
    return are_rows_of_it && 0 <= p->n_kept && p->n_kept <= p->position
           && p->position <= p->n_chosen && p->n_chosen <= p->n_active && is_count(q->patience)
           && 0 <= q->has_given_up && q->has_given_up <= 1 && s->n_epochs < LARGEST / s->n_rows - 1
           && is_count(q->n_visits) && q->n_visits <= (s->n_epochs + 1) * s->n_inside
           && is_count(q->n_visits_at_check) && is_count(q->n_snapshots);
}

/* Whether sizes, counters and indices are such as a fit can reach. */
static bool is_safe(const fit *f, int64_t value_bytes)
{
    const state *const s = f->s;
    const int64_t n = f->rows->n_rows, d = f->rows->n_features;
    const int64_t n_epochs = s->n_epochs;
    if (!(PEGASOS_BEGIN <= s->pending && s->pending <= PEGASOS_LAST_PENDING
          && PEGASOS_AUTO <= s->solver && s->solver <= PEGASOS_NEWTON
          && PEGASOS_AUTO <= s->first_solver && s->first_solver <= PEGASOS_NEWTON
          && is_count(s->epochs[0]) && is_count(s->epochs[1]) && is_count(s->epochs[2])
          && is_count(n_epochs) && is_count(s->n_steps) && s->epochs[0] <= n_epochs
          && s->epochs[1] <= n_epochs && s->epochs[2] <= n_epochs
          && s->epochs[0] + s->epochs[1] + s->epochs[2] <= n_epochs && is_count(s->ascent.n_steps)
          && is_count(s->pegasos.n_steps)))
        return false;
    if (is_at_point(s))
        return true;
    if (!(s->n_rows == n && s->n_features == d && s->value_bytes == value_bytes
          && is_count(s->budget) && is_count(s->budget_end) && 0 <= s->epochs_before_budgets
          && s->epochs_before_budgets <= n_epochs && s->lam > 0 && s->mass > 0 && 0 <= s->n_inside
          && s->n_inside <= n))
        return false;
    if (s->solver == PEGASOS_ASCENT)
        return is_ascent_safe(s, f->active);
    if (s->solver == PEGASOS_NEWTON)
        return s->newton.width > 0 && s->newton.narrowest > 0 && 0 <= s->newton.n_idle
               && s->newton.n_idle <= MOST_IDLE && is_truth(s->newton.was_idle);
    return is_linear_safe(&s->pegasos, s);
}

/* Whether numbers can be dual variables or sums of slopes. */
static bool are_duals(pegasos_loss loss, const double *vector, int64_t count)
{
    bool holds = are_finite(vector, sizeof(double), count);
    for (int64_t i = 0; i < count && loss_of(loss).lower == 0; i++)
        holds &= vector[i] >= 0;
    return holds;
}

static bool are_linear_numbers(const pegasos_linear *p, const state *s,
                               const pegasos_problem *problem)
{
    const double numbers[] = {p->squared_norm, p->constant_weight, p->intercept,    p->rate_sum,
                              p->constant_sum, p->intercept_sum,   p->weight_factor};
    return are_finite(numbers, sizeof(double), sizeof numbers / sizeof *numbers) && p->lam == s->lam
           && p->weight_factor > 0 && p->intercept_scaling == problem->intercept_scaling
           && p->free_intercept == problem->free_intercept && p->average_from == s->n_inside / 2 + 1
           && p->last_step == s->n_inside && p->q <= 1;
}

static bool are_ascent_numbers(const state *s, const pegasos_problem *problem)
{
    const pegasos_dual *const p = &s->dual;
    const pegasos_ascent *const q = &s->ascent;
    const double numbers[] = {p->scale,           p->intercept_scaling, p->intercept,
                              p->moved,           p->mean_move,         p->gap,
                              p->constant_weight, p->squared_norm,      p->constant_sum,
                              p->pegasos_mass,    p->weight_seen};
    return are_finite(numbers, sizeof(double), sizeof numbers / sizeof *numbers) && p->factor == 1
           && isfinite(p->asleep) && p->n_moved >= 0 && !isnan(q->estimate)
           && (p->intercept_scaling > 0)
                  == (problem->free_intercept || problem->intercept_scaling > 0)
           && !isnan(q->estimate_since_check);
}

static bool are_newton_numbers(const state *s, const pegasos_problem *problem)
{
    const pegasos_newton *const p = &s->newton;
    const bool is_feature = problem->free_intercept
                                ? p->constant_feature > 0 && isfinite(p->constant_feature)
                                : p->constant_feature == problem->intercept_scaling;
    return is_feature && isfinite(p->width) && isfinite(p->narrowest) && p->widest >= 0
           && loss_smoothing(loss_of(s->loss), p->width) >= 0 && !isnan(p->dual_objective);
}

/* Whether the arrays of the present solver are valid. */
static bool are_arrays(const fit *f)
{
    const state *const s = f->s;
    const int64_t n = s->n_rows, d = s->n_features, bytes = s->value_bytes, eight = sizeof(double);
    if (s->solver == PEGASOS_AUTO)
        return are_duals(s->loss, (const double *)f->active, n) && are_finite(f->w, bytes, d)
               && are_finite(f->sums, bytes, d);
    if (s->solver == PEGASOS_ASCENT)
        return are_finite(f->w, eight, d) && are_finite(f->sums, eight, d + 1);
    bool is_centre = are_duals(s->loss, f->centre, n);
    for (int64_t i = 0; i < n; i++)
        is_centre &= f->centre[i] == 0 || loss_smoothing(loss_of(s->loss), s->newton.width) > 0;
    return is_centre && are_finite(f->point, eight, d + 1) && are_finite(f->scores, eight, n);
}

/* Whether all numbers are valid; gaps and objectives may be infinite. */
static bool are_numbers(const fit *f)
{
    const state *const s = f->s;
    const pegasos_problem *const problem = f->problem;
    const bool has_intercept = problem->free_intercept || problem->intercept_scaling > 0;
    if (!(are_duals(problem->loss, f->a, f->rows->n_rows) && isfinite(s->intercept)
          && (has_intercept || s->intercept == 0)
          && are_finite(f->coef, sizeof(double), f->rows->n_features)))
        return false;
    if (is_at_point(s))
        return true;
    if (!(s->loss.kind == problem->loss.kind && s->loss.epsilon == problem->loss.epsilon
          && s->loss.nu == problem->loss.nu && s->gap_before >= 0 && isfinite(s->lam)
          && isfinite(s->mass) && s->largest_norm >= 0 && s->primal >= 0 && s->relative_gap >= 0
          && are_arrays(f)))
        return false;
    if (s->solver == PEGASOS_ASCENT)
        return are_ascent_numbers(s, problem);
    return s->solver == PEGASOS_NEWTON ? are_newton_numbers(s, problem)
                                       : are_linear_numbers(&s->pegasos, s, problem);
}

/* ---- Kernel machines ------------------------------------------------------------------------- */

static bool is_kernel_safe(const kernel_state *s, const pegasos_kernel_arrays *arrays, int64_t n)
{
    const pegasos_kernel *const r = &s->run;
    bool are_rows = 0 <= r->n_active && r->n_active <= n;
    for (int64_t k = 0; are_rows && k < r->n_active; k++)
        are_rows = 0 <= arrays->active[k] && arrays->active[k] < n;
    return are_rows && (s->pending == PEGASOS_GO_ON || s->pending == PEGASOS_BEGIN_AT_POINT)
           && s->n_rows == n && s->n_features == 0
           && (s->value_bytes == 0 || is_width(s->value_bytes)) && is_count(s->plan_end)
           && is_count(s->budget_end) && is_truth(s->was_slow) && is_truth(s->has_no_factor)
           && is_truth(s->is_at_rounding) && 0 <= s->n_runs && s->n_runs <= MOST_RUNS
           && is_count(s->newton_epochs) && is_count(s->epochs_before_newton)
           && is_count(r->n_epochs) && s->newton_epochs <= r->n_epochs
           && s->epochs_before_newton <= r->n_epochs - s->newton_epochs
           && PEGASOS_KERNEL_BEGIN <= r->phase && r->phase <= PEGASOS_KERNEL_ROUND
           && 0 <= r->position && r->position <= r->most_steps && r->most_steps < LARGEST / n
           && is_truth(r->is_slow) && is_truth(r->in_double) && is_truth(r->is_at_rounding)
           && is_count(r->n_seen) && is_count(r->n_steps) && (r->n_steps + n - 1) / n <= r->n_epochs
           && 0 <= r->n_inside && r->n_inside <= n;
}

static bool are_kernel_numbers(const kernel_state *s, const pegasos_kernel_arrays *arrays,
                               const pegasos_problem *problem)
{
    const pegasos_kernel *const r = &s->run;
    const double numbers[] = {r->lam,
                              r->mass,
                              r->tol,
                              r->constant_feature,
                              r->gap_to_reach,
                              r->largest_score_change,
                              r->constant_weight,
                              r->reference,
                              r->sample_mass,
                              r->intercept};
    const int64_t n = s->n_rows, bytes = sizeof(double);
    const bool has_intercept = problem->free_intercept || problem->intercept_scaling > 0;
    if (!(are_finite(numbers, bytes, sizeof numbers / sizeof *numbers)
          && are_duals(problem->loss, arrays->a, n) && are_finite(arrays->scored, bytes, n)
          && are_finite(arrays->scores, bytes, n) && are_finite(arrays->slopes, bytes, n)
          && are_finite(arrays->coef, bytes, n) && (has_intercept || r->intercept == 0)))
        return false;
    return s->pending == PEGASOS_BEGIN_AT_POINT
           || (s->loss.kind == problem->loss.kind && s->loss.epsilon == problem->loss.epsilon
               && s->loss.nu == problem->loss.nu && s->gap_before >= 0 && r->lam > 0
               && (r->mass > 0 || r->n_inside == 0) && r->primal > -INFINITY && r->relative_gap >= 0
               && r->free_intercept == problem->free_intercept
               && (r->sample_mass > 0 || r->phase != PEGASOS_KERNEL_SAMPLE));
}

static bool is_kernel_valid(const pegasos_problem *problem, int64_t n, void *memory,
                            bool with_numbers)
{
    const kernel_state *const s = memory;
    const pegasos_kernel_arrays arrays = pegasos_kernel_arrays_in(n, memory);
    return s->pending == PEGASOS_BEGIN
           || (is_kernel_safe(s, &arrays, n)
               && (!with_numbers || are_kernel_numbers(s, &arrays, problem)));
}

int pegasos_memory_is_valid(const pegasos_problem *problem, int64_t n_rows, int64_t n_features,
                            int64_t value_bytes, void *memory, int64_t with_numbers)
{
    if (n_features == 0)
        return is_kernel_valid(problem, n_rows, memory, with_numbers != 0);
    const pegasos_rows rows = {.n_rows = n_rows, .n_features = n_features};
    const pegasos_problem of_rows = {.rows = &rows};
    const pegasos_options options = {0};
    fit f = pegasos_fit_of(&of_rows, &options, NULL, NULL, memory, NULL);
    f.problem = problem;
    return f.s->pending == PEGASOS_BEGIN
           || (is_safe(&f, value_bytes) && (!with_numbers || are_numbers(&f)));
}
