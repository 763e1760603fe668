/*
 * kernel_fit.c - a whole fit of one kernel machine: from labels and kernel values to a gap.
 *
 * The schedule. Dual ascent (kernel.c), whose first epoch is one of Pegasos with steps of exact
 * length, closes the gap. PEGASOS_AUTO gives it a budget of epochs. If the gap has not halved at
 * its end, and the kernel matrix has a factor K = L L^T of few columns, Newton's method (newton.c)
 * runs on the linear machine with the rows of L: it has the same objectives, dual variables and
 * scores. Dual ascent goes on from there, and removes what the factor's rounding has left.
 *
 *     begin -> dual ascent --(gap)--> end
 *                 ^  | slow               ^
 *                 |  v                    | slow again: rounding
 *          Newton's method on L ----------+
 *
 * Kernels of few features have such a factor, above all polynomials. So have smooth kernels of
 * large scale, up to rounding. There, steps of dual ascent along columns of K undo each other.
 *
 * A run of Newton's method is a transaction with its own memory: after a stop it begins again.
 */
#include "fit.h"

#include <math.h>
#include <string.h>

/* PEGASOS_AUTO lets dual ascent go on as long as it halves the gap in BUDGET epochs, or in the
 * epochs that Newton's method is likely to cost, if these are fewer. Newton's method reads all
 * numbers of the factor once for each of its columns, and MORE_NUMBERS. */
static const double BUDGET = 128, MORE_NUMBERS = 5e6;
/* Newton's method goes on to PART_OF_TOL of tol, as dual ascent goes on from the primal point w(a),
 * and not from Newton's best. If that is not enough, it runs again, each time to PART_OF_TOL of the
 * last goal, for at most EPOCHS_OF_RUN epochs. Only rounding is left after MOST_RUNS runs. */
static const double PART_OF_TOL = 0.1;
enum { EPOCHS_OF_RUN = 300 };

/* A fit and where its parts lie. */
typedef struct kernel_fit {
    const pegasos_matrix *matrix;
    const pegasos_problem *problem;
    const pegasos_options *options;
    pegasos_targets targets;
    pegasos_kernel_arrays arrays;
    kernel_state *s;
} kernel_fit;

/* ---- Memory ---------------------------------------------------------------------------------- */

enum { KEPT_ARRAYS = 6 };

int64_t pegasos_kernel_state_bytes(int64_t n_rows)
{
    return (int64_t)sizeof(kernel_state) + 8 * KEPT_ARRAYS * n_rows;
}

pegasos_kernel_arrays pegasos_kernel_arrays_in(int64_t n_rows, void *memory)
{
    double *const first = (double *)((kernel_state *)memory + 1);
    return (pegasos_kernel_arrays){.a = first,
                                   .scored = first + n_rows,
                                   .scores = first + 2 * n_rows,
                                   .slopes = first + 3 * n_rows,
                                   .coef = first + 4 * n_rows,
                                   .active = (int64_t *)(first + 5 * n_rows)};
}

void pegasos_kernel_fit_solution(int64_t n_rows, void *memory, pegasos_solution *solution)
{
    const kernel_state *const s = memory;
    const pegasos_kernel_arrays arrays = pegasos_kernel_arrays_in(n_rows, memory);
    const pegasos_kernel *const r = &s->run;
    const bool has_begun = s->pending == PEGASOS_GO_ON;
    const bool has_run = has_begun && (r->phase != PEGASOS_KERNEL_BEGIN || r->relative_gap == 0);
    const bool is_newton_first =
        s->newton_epochs > 0 && s->epochs_before_newton <= (r->n_steps > 0);
    *solution = (pegasos_solution){
        .coef = arrays.coef,
        .intercept = r->intercept,
        .dual_variables = arrays.a,
        .objective = has_run ? r->primal : INFINITY,
        .dual_objective =
            has_run && isfinite(r->relative_gap) ? r->primal * (1 - r->relative_gap) : -INFINITY,
        .relative_gap = has_run ? r->relative_gap : INFINITY,
        .n_epochs = r->n_epochs,
        .epochs = {0, r->n_epochs - s->newton_epochs, s->newton_epochs},
        .n_steps = r->n_steps,
        .first_solver = has_run ? is_newton_first ? PEGASOS_NEWTON : PEGASOS_ASCENT : PEGASOS_AUTO,
        .solver = has_run ? PEGASOS_ASCENT : PEGASOS_AUTO,
    };
}

/* ---- Before a fit goes on -------------------------------------------------------------------- */

/* Takes all from the problem and the options, except lambda. */
static void set_problem(kernel_fit *f, const double *norms)
{
    kernel_state *const s = f->s;
    pegasos_kernel *const r = &s->run;
    const double tol = f->options->tol < 0 ? -1 : SAFELY * f->options->tol;
    r->n_inside = 0;
    r->mass = 0;
    for (int64_t i = 0; i < f->targets.n; i++) {
        r->n_inside += f->targets.labels[i] != 0;
        r->mass += weight_at(&f->targets, i);
    }
    r->free_intercept = f->problem->free_intercept;
    r->constant_feature = pegasos_constant_feature(f->problem, &f->targets, norms, r->n_inside);
    s->loss = f->problem->loss;
    if (s->plan_end != f->options->max_epochs) {
        s->plan_end = f->options->max_epochs;
        s->budget_end = s->n_runs = s->has_no_factor = 0;
    } else if (r->tol == tol)
        return;
    s->is_at_rounding = r->is_at_rounding = 0;
    r->tol = tol;
}

/* Takes w = 0 as the best model so far. Without rows, its objective is 0. */
static void forget_model(kernel_fit *f)
{
    pegasos_kernel *const r = &f->s->run;
    memset(f->arrays.coef, 0, (size_t)f->targets.n * sizeof(double));
    r->primal = r->intercept = 0;
    if (r->n_inside > 0)
        r->primal = pegasos_constant_model(f->problem, &f->targets, r->mass, &r->intercept);
    r->relative_gap = INFINITY;
}

/* Begins at the dual variables in memory; false: stopped. */
static bool begin_at_point(kernel_fit *f)
{
    kernel_state *const s = f->s;
    pegasos_kernel *const r = &s->run;
    const bool is_wider = s->value_bytes == 4 && f->matrix->columns->value_bytes == 8;
    r->lam = f->problem->lam;
    if (r->n_inside == 0) {
        memset(f->arrays.a, 0, (size_t)(8 * KEPT_ARRAYS * s->n_rows));
        pegasos_kernel_leave_round(r);
        r->phase = PEGASOS_KERNEL_BEGIN;
    } else if (pegasos_kernel_begin(f->matrix, r, &f->arrays) != PEGASOS_DONE)
        return false;
    /* A problem that was slow in single precision has used up its budget. */
    s->budget_end = is_wider && s->was_slow ? r->n_epochs : 0;
    s->gap_before = r->relative_gap;
    s->was_slow = s->n_runs = s->has_no_factor = s->is_at_rounding = 0;
    forget_model(f);
    if (r->phase == PEGASOS_KERNEL_BEGIN)
        r->relative_gap = r->primal > 0; /* the dual value of a = 0 is 0 */
    s->value_bytes = f->matrix->columns->value_bytes;
    s->pending = PEGASOS_GO_ON;
    return true;
}

/* Goes on with another lambda. w stays, since optima change little with lambda. So dual variables
 * shrink for a smaller lambda; for a larger one they stay, which their bounds allow. */
static void change_lam(kernel_fit *f)
{
    kernel_state *const s = f->s;
    pegasos_kernel *const r = &s->run;
    const double before = r->lam, lam = f->problem->lam;
    const double factor = fmin(1, lam / before), of_w = factor * before / lam;
    for (int64_t i = 0; i < f->targets.n; i++) {
        f->arrays.a[i] *= factor;
        f->arrays.scored[i] *= factor;
        f->arrays.scores[i] *= of_w;
    }
    r->constant_weight *= of_w; /* with one class, lambda never changes */
    r->lam = lam;
    r->reference = r->free_intercept ? r->intercept : 0;
    r->n_epochs = r->n_steps = 0;
    s->budget_end = s->was_slow = s->n_runs = s->has_no_factor = s->is_at_rounding = 0;
    s->newton_epochs = s->epochs_before_newton = 0;
    s->gap_before = 0;
    pegasos_kernel_leave_round(r);
    forget_model(f);
}

/* Begins, or takes other data, values of another type or another lambda; false: stopped. */
static bool prepare(kernel_fit *f, const double *norms)
{
    kernel_state *const s = f->s;
    if (s->pending == PEGASOS_BEGIN)
        memset(s, 0, (size_t)pegasos_kernel_state_bytes(f->targets.n));
    if (s->run.phase == PEGASOS_KERNEL_BEGIN && s->run.n_epochs == 0)
        s->run.generator = f->options->seed;
    s->n_rows = f->targets.n;
    set_problem(f, norms);
    if (s->pending != PEGASOS_GO_ON || s->value_bytes != f->matrix->columns->value_bytes)
        return begin_at_point(f);
    if (s->run.lam != f->problem->lam)
        change_lam(f);
    return true;
}

/* ---- Newton's method ------------------------------------------------------------------------- */

/* Makes a fit of the rows of the factor, to begin at the present dual variables. */
static fit fit_of_factor(const kernel_fit *f, const pegasos_factor *factor,
                         const pegasos_problem *problem, const pegasos_options *options)
{
    const int64_t n = f->targets.n, d = factor->rows.n_features;
    const pegasos_kernel *const r = &f->s->run;
    const fit own = pegasos_fit_of(problem, options, f->targets.labels, factor->norms,
                                   factor->memory, factor->scratch);
    double *const beta = own.scratch, *const coef = own.sum;
    memset(factor->memory, 0, (size_t)pegasos_state_bytes(n, d));
    memset(coef, 0, (size_t)d * sizeof(double));
    for (int64_t i = 0; i < n; i++)
        beta[i] = f->arrays.a[i] * f->targets.labels[i] / (r->lam * r->mass);
    pegasos_linear_combine(&factor->rows, 0, n, beta, coef);
    pegasos_set_point(n, d, factor->memory, f->arrays.a, coef, r->intercept, NULL);
    return own;
}

/* Runs Newton's method, after which dual ascent goes on; returns a status. */
static int run_newton(kernel_fit *f)
{
    kernel_state *const s = f->s;
    pegasos_kernel *const r = &s->run;
    pegasos_factor factor = {.norms = NULL};
    pegasos_problem problem = *f->problem;
    pegasos_options options = *f->options;
    pegasos_solution found;
    if (f->matrix->factor(f->matrix->factor_context, &factor) != 0)
        return PEGASOS_STOPPED;
    s->has_no_factor = factor.rows.n_features == 0;
    if (s->has_no_factor)
        return PEGASOS_DONE;
    problem.kernel = NULL;
    problem.rows = &factor.rows;
    options.solver = PEGASOS_NEWTON;
    options.max_epochs -= r->n_epochs;
    if (options.tol >= 0 && options.max_epochs > EPOCHS_OF_RUN)
        options.max_epochs = EPOCHS_OF_RUN;
    for (int64_t k = 0; k <= s->n_runs; k++)
        options.tol *= PART_OF_TOL;
    const fit own = fit_of_factor(f, &factor, &problem, &options);
    const int status = pegasos_solve_one(&problem, &options, f->targets.labels, factor.norms,
                                         factor.memory, factor.scratch);
    if (status != PEGASOS_DONE)
        return status;
    pegasos_fit_solution(factor.rows.n_rows, factor.rows.n_features, factor.memory, &found);
    pegasos_make_feasible(&f->targets, problem.free_intercept, own.a, f->arrays.a);
    s->epochs_before_newton = s->newton_epochs == 0 ? r->n_epochs : s->epochs_before_newton;
    s->n_runs++;
    s->newton_epochs += found.n_epochs;
    r->n_epochs += found.n_epochs;
    r->reference = r->free_intercept ? found.intercept : r->reference;
    pegasos_kernel_leave_round(r);
    return PEGASOS_DONE;
}

/* ---- The schedule ---------------------------------------------------------------------------- */

/* Whether Newton's method may follow if dual ascent is slow. */
static bool may_change(const kernel_fit *f)
{
    const int64_t solver = f->options->solver;
    return f->matrix->factor && f->matrix->is_positive && !f->s->has_no_factor
           && (solver == PEGASOS_NEWTON || (solver == PEGASOS_AUTO && f->options->tol >= 0));
}

/* The epochs of dual ascent, of n^2 numbers each, that take as long as Newton's method. */
static int64_t budget_of(const kernel_fit *f)
{
    const double n = (double)f->targets.n, rank = fmin((double)f->matrix->rank, n);
    if (f->options->solver == PEGASOS_NEWTON)
        return 1;
    return (int64_t)fmin(fmax((n * rank * rank + MORE_NUMBERS) / (n * n), 1), BUDGET);
}

static bool is_over(const kernel_fit *f)
{
    const pegasos_kernel *const r = &f->s->run;
    return f->s->is_at_rounding || r->n_epochs >= f->options->max_epochs
           || is_small_gap(f->s->loss, r->relative_gap, r->primal, r->tol);
}

/* Takes w = 0 if no better model is known; see prefer_zero of solve.c. */
static void prefer_zero(kernel_fit *f)
{
    pegasos_kernel *const r = &f->s->run;
    double gap = r->relative_gap;
    bool is_zero = true;
    for (int64_t i = 0; i < f->targets.n; i++)
        is_zero &= f->arrays.coef[i] == 0;
    if (is_zero
        || !pegasos_take_zero(f->problem, &f->targets, r->n_inside, r->mass, &r->primal, &gap,
                              &r->intercept))
        return;
    memset(f->arrays.coef, 0, (size_t)f->targets.n * sizeof(double));
    r->relative_gap = f->matrix->is_positive ? gap : r->relative_gap;
}

static int run_fit(kernel_fit *f)
{
    kernel_state *const s = f->s;
    pegasos_kernel *const r = &s->run;
    const int64_t most = f->options->max_epochs;
    /* Single precision may be the reason for slowness, so the caller goes on in double. */
    const int64_t most_runs = f->matrix->is_narrow ? 0 : MOST_RUNS;
    while (!s->is_at_rounding) {
        const bool has_budget = may_change(f);
        if (has_budget && s->budget_end == 0) {
            s->budget_end = r->n_epochs + budget_of(f);
            s->gap_before = 1;
        }
        r->last_epoch = has_budget && s->budget_end < most ? s->budget_end : most;
        const int status = pegasos_kernel_run(f->matrix, r, &f->arrays);
        if (status != PEGASOS_DONE)
            return status;
        if (is_over(f))
            break;
        const bool is_first = s->n_runs == 0 && f->options->solver == PEGASOS_NEWTON;
        const bool is_slow = is_first || r->relative_gap > s->gap_before / 2;
        s->is_at_rounding = r->is_at_rounding || (is_slow && s->n_runs >= most_runs);
        if (!s->is_at_rounding && is_slow) {
            const int ended = run_newton(f);
            if (ended != PEGASOS_DONE)
                return ended;
        }
        s->was_slow = is_slow;
        s->gap_before = r->relative_gap;
        s->budget_end = r->n_epochs + budget_of(f);
    }
    if (!isfinite(r->relative_gap))
        return PEGASOS_OVERFLOW;
    if (f->options->tol >= 0)
        prefer_zero(f);
    return PEGASOS_DONE;
}

int pegasos_kernel_solve_one(const pegasos_matrix *matrix, const pegasos_problem *problem,
                             const pegasos_options *options, const int8_t *labels,
                             const double *norms, void *memory, void *scratch)
{
    const int64_t n = matrix->columns->n_rows;
    kernel_fit f = {.matrix = matrix, .problem = problem, .options = options, .s = memory};
    f.targets = targets_of(problem, n, labels);
    f.arrays = pegasos_kernel_arrays_in(n, memory);
    f.arrays.targets = &f.targets;
    f.arrays.norms = norms;
    f.arrays.scratch = scratch;
    assert(problem->lam > 0 && options->max_epochs >= 0);
    if (!prepare(&f, norms))
        return PEGASOS_STOPPED;
    return f.s->run.n_inside > 0 ? run_fit(&f) : PEGASOS_DONE;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

int64_t pegasos_kernel_part_bytes(int64_t n, int64_t value_bytes)
{
    /* Labels, four arrays of 8 bytes and values; each begins at a multiple of 8. */
    return 8 * 6 + 33 * n + n * n * value_bytes + pegasos_kernel_scratch_bytes(n, value_bytes, n);
}

int pegasos_kernel_solve_part(const pegasos_matrix *matrix, const pegasos_problem *problem,
                              const pegasos_options *options, const int8_t *labels,
                              const double *norms, int64_t n, const int64_t *inside, void *memory,
                              void *scratch)
{
    pegasos_columns *const all_columns = matrix->columns, columns = {.n_rows = n, .n_columns = n};
    pegasos_matrix own_matrix = *matrix;
    pegasos_problem own = *problem;
    layout all = {scratch, 8, 0};
    double *const own_norms = take(&all, 8 * n), *const targets = take(&all, 8 * n);
    double *const weights = take(&all, 8 * n);
    int8_t *const own_labels = take(&all, n);
    columns.column_of = take(&all, 8 * n);
    columns.columns = take(&all, n * n * all_columns->value_bytes);
    columns.value_bytes = all_columns->value_bytes;
    columns.n_kept = &columns.n_columns;
    columns.workers = all_columns->workers;
    own_matrix.columns = &columns;
    own_matrix.rank = min_of(n, matrix->rank);
    for (int64_t i = 0; i < n; i++) {
        columns.column_of[i] = i;
        own_labels[i] = labels[inside[i]];
        own_norms[i] = norms[inside[i]];
        targets[i] = problem->targets ? problem->targets[inside[i]] : 0;
        weights[i] = problem->weights ? problem->weights[inside[i]] : 1;
    }
    own.targets = problem->targets ? targets : NULL;
    own.weights = problem->weights ? weights : NULL;
    if (pegasos_columns_values(all_columns, n, inside, n, inside, n, columns.columns) != 0)
        return PEGASOS_STOPPED;
    return pegasos_kernel_solve_one(&own_matrix, &own, options, own_labels, own_norms, memory,
                                    take(&all, 0));
}
