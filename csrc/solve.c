/*
 * solve.c - a whole linear fit: its schedule, which chooses and stops solvers, and the functions
 * that start it. kernel_fit.c has the fit of a kernel machine.
 *
 * The schedule. Dual coordinate ascent (ascent.c) or Newton's method (newton.c) closes the gap. A
 * fit at w = 0 begins with an epoch of Pegasos. With dual ascent, this is its first epoch, with
 * steps of exact length. Before Newton's method, it is an epoch as in the paper (pegasos.c), and
 * Newton's method begins from the mean of its last half. There is no epoch of Pegasos where a fit
 * begins at a point, at a sample's model (sample.c), or at the optimum of the squared error
 * (squares.c). Nor is there one for rows far from 0: Newton's method begins at the best constant.
 *
 * PEGASOS_AUTO takes the solver that is likely to be cheaper, and gives it a budget of passes. A
 * solver's first budget only measures the gap, unless dual ascent gives up (`has_given_up`), or
 * epochs get few (`is_late`). After each later budget the gap must have halved, or the other solver
 * goes on with twice the budget.
 *
 * A tol may be below what rounding leaves of the gap. Newton's method then ends before its budget
 * (`is_idle`), and is run once more. If that does not halve the gap either, dual ascent must halve
 * it in a small budget. If dual ascent does not, or may not run, the fit ends (`is_at_rounding`).
 *
 *     begin -> [epoch of Pegasos] -> solver --(gap)--> end
 *                                      ^  |
 *                                      +--+ change
 *
 * From one solver to the next, a dual point and the best model so far are kept. A change is a
 * transaction: the new solver fills its own arrays, and takes over once they are complete.
 *
 * A path of lambda is one fit: lambda changes, the state stays.
 */
#include "fit.h"
#include "symmetric.h"

#include <string.h>

/* PEGASOS_AUTO's first budget of a solver, in passes over the rows. An epoch of Newton's method is
 * a pass. A visit of every row by dual ascent takes PASSES_OF_VISITS passes. After Newton's method
 * was idle, dual ascent gets BUDGET_AT_ROUNDING passes. */
enum { BUDGET = 128, BUDGET_AT_ROUNDING = 32, PASSES_OF_VISITS = 2 };
/* Dual ascent may give up after PATIENCE epochs if it gets nowhere. Newton's method must be likely
 * to take at most MOST_COSTLIER times as long. For losses with corners the limit is
 * MOST_COSTLIER_OF_CORNERS, as Newton's method then makes 50 to 150 iterations instead of ten. For
 * these losses, dual ascent may also give up after twice as many epochs, with the limit
 * MOST_COSTLIER_IF_CHEAP, if Newton's method costs less than estimated (`are_equations_cheap`). */
enum { PATIENCE = 5, MOST_COSTLIER = 4, MOST_COSTLIER_OF_CORNERS = 2 };
enum { MOST_COSTLIER_IF_CHEAP = 16 };
/* With the squared error, Newton's method makes one iteration instead of ten (squares.c), mostly a
 * factorisation by BLAS. */
static const double EXACT = 64;
/* How many passes the products of an iteration without a matrix cost, roughly. */
enum { PASSES_BY_PRODUCTS = 20 };
/* See `rows_outweigh`. */
static const double OUTWEIGHING = 100;
/* BLAS is used above this number of features. Below, plain loops are as fast. */
enum { FEW_FEATURES = 50 };
/* Rough speeds of one core, to compare solvers: seconds to read a number of dense and of sparse
 * rows, as seconds_a_pass in _rows.py has them; products of Newton's matrix per second, of whole
 * rows and of stored numbers; d^3 per second in the factorisation of the d x d matrix. BLAS is
 * three times as fast at that, but losses with corners take more iterations than ten. */
static const double SECONDS_OF_DENSE = 0.4e-9, SECONDS_OF_SPARSE = 1.5e-9;
static const double PRODUCTS_PER_SECOND = 1e11, STORED_PER_SECOND = 2e9, CUBES_PER_SECOND = 3e10;

/* ---- Which solver ---------------------------------------------------------------------------- */

static double seconds_a_pass(const pegasos_rows *rows)
{
    return stored_numbers(rows) * (rows->index_bytes == 0 ? SECONDS_OF_DENSE : SECONDS_OF_SPARSE);
}

/* Dual ascent makes about 15 epochs where features are many, and 60 where rows are many. An epoch
 * costs two passes: one for scores, one for additions to w. Newton's method makes about ten
 * iterations of four passes each, with a matrix of the rows where the smoothed loss is curved:
 * about a tenth of all rows, with 2 d^2 products and additions each. A thin row (symmetric.h) costs
 * the square of its stored numbers; then half of the rows count, as the log loss is curved at all
 * rows. Losses with corners take more iterations, so d^2 counts for their thin rows, too. Without a
 * matrix, products count as passes if rows are many and the loss has a corner. See
 * `may_be_cheaper`. */
double pegasos_estimated_seconds(const pegasos_rows *rows, pegasos_loss loss, int64_t solver)
{
    const double n = (double)rows->n_rows, d = (double)rows->n_features;
    const double pass = seconds_a_pass(rows);
    if (solver == PEGASOS_ASCENT)
        return 2 * (n < 2 * d ? 15 : 60) * pass;
    const bool is_smooth = loss_is_smooth(loss_of(loss));
    if (d >= PEGASOS_NEWTON_MAX_UNKNOWNS)
        return n < 2 * d || is_smooth ? INFINITY : 10 * (4 + PASSES_BY_PRODUCTS) * pass;
    const int64_t size = rows->n_features + 1;
    const bool are_thin = is_smooth && symmetric_are_thin(rows, 0, NULL, rows->n_rows, size);
    const double stored = symmetric_stored(rows, 0, NULL, rows->n_rows, size);
    const double product =
        are_thin ? stored / 2 / STORED_PER_SECOND : 0.2 * n * d * d / PRODUCTS_PER_SECOND;
    return 10 * (4 * pass + product + d * d * d / CUBES_PER_SECOND);
}

int pegasos_newton_uses_blas(int64_t n_features)
{
    return FEW_FEATURES < n_features && n_features < PEGASOS_NEWTON_MAX_UNKNOWNS;
}

static bool newton_is_cheaper(const fit *f, double factor)
{
    const pegasos_loss loss = f->problem->loss;
    return pegasos_estimated_seconds(f->rows, loss, PEGASOS_NEWTON)
           < factor * pegasos_estimated_seconds(f->rows, loss, PEGASOS_ASCENT);
}

/* Whether the eigenvalues of sum_i c_i x_i x_i^T are on average more than OUTWEIGHING times lam m.
 * Then the rows, not the penalty, determine most of w. A visit raises a dual variable by at most
 * lam m/|x_i|^2 times the violation of its margin, which is little then. (Where a fit begins at a
 * point, its m is not known yet.) */
static bool rows_outweigh(const fit *f)
{
    double trace = 0, mass = 0;
    for (int64_t i = 0; i < f->rows->n_rows; i++) {
        trace += weight_at(&f->targets, i) * f->norms[i];
        mass += weight_at(&f->targets, i);
    }
    return trace > OUTWEIGHING * (double)f->rows->n_features * f->problem->lam * mass;
}

/* Whether Newton's method may take less time than estimated: for the squared error by the factor
 * EXACT, and by products where features are too many for a matrix, and rows twice as many. */
static bool may_be_cheaper(const fit *f)
{
    const int64_t n = f->rows->n_rows, d = f->rows->n_features;
    if (d < PEGASOS_NEWTON_MAX_UNKNOWNS)
        return f->problem->loss.kind == PEGASOS_SQUARED_ERROR && n > d
               && newton_is_cheaper(f, EXACT);
    return n >= 2 * d && loss_is_smooth(loss_of(f->problem->loss));
}

int64_t pegasos_fit_first_solver(fit *f)
{
    if (f->options->solver != PEGASOS_AUTO)
        return f->options->solver;
    return newton_is_cheaper(f, 1) || (may_be_cheaper(f) && rows_outweigh(f))
                   || pegasos_newton_is_far(f)
               ? PEGASOS_NEWTON
               : PEGASOS_ASCENT;
}

/* Whether the schedule may change the solver. A fit to a number of epochs keeps its solver. */
static bool may_change_solver(const fit *f)
{
    return f->options->solver == PEGASOS_AUTO && f->options->tol >= 0;
}

static bool is_over(const fit *f)
{
    return is_close(f) || f->s->n_epochs >= f->options->max_epochs;
}

/* ---- The schedule ---------------------------------------------------------------------------- */

/* Counts passes made so far. Only differences of this count are used: for Newton's method it
 * includes the epochs of every solver. */
static int64_t passes_made(const state *s)
{
    if (s->solver == PEGASOS_ASCENT)
        return PASSES_OF_VISITS * s->ascent.n_visits / (s->n_inside > 0 ? s->n_inside : 1);
    return s->n_epochs;
}

/* Whether rows are many compared with features, and Newton's equations are solved without a matrix,
 * or with a matrix made of few stored numbers. */
static bool are_equations_cheap(const fit *f)
{
    const int64_t n = f->rows->n_rows, d = f->rows->n_features;
    return n >= 2 * d
           && (d >= PEGASOS_NEWTON_MAX_UNKNOWNS || symmetric_are_thin(f->rows, 0, NULL, n, d + 1));
}

/* PEGASOS_AUTO: gives the present solver a first budget. Dual ascent gets PATIENCE epochs after
 * which it may give up, if Newton's method is not much costlier. */
static void begin_budget(fit *f)
{
    state *s = f->s;
    s->budget = BUDGET;
    s->budget_end = passes_made(s) + BUDGET;
    s->gap_before = INFINITY;
    s->epochs_before_budgets = s->n_epochs;
    if (!may_change_solver(f) || s->solver != PEGASOS_ASCENT)
        return;
    const bool is_smooth = loss_is_smooth(loss_of(s->loss));
    if (newton_is_cheaper(f, is_smooth ? MOST_COSTLIER : MOST_COSTLIER_OF_CORNERS))
        s->ascent.patience = PATIENCE * s->n_inside;
    else if (!is_smooth && are_equations_cheap(f) && newton_is_cheaper(f, MOST_COSTLIER_IF_CHEAP))
        s->ascent.patience = 2 * PATIENCE * s->n_inside;
}

/* Changes to a solver, which begins where the fit stands; false: stopped. */
static bool change_to(fit *f, int64_t solver)
{
    return solver == PEGASOS_NEWTON ? pegasos_fit_begin_newton(f)
                                    : pegasos_fit_begin_ascent(f, false);
}

/* Begins at w = 0, without a solver; false: stopped. An epoch of Pegasos that was stopped goes on,
 * unless lambda has changed. */
static bool begin_at_zero(fit *f)
{
    if (f->s->pending != PEGASOS_GO_ON || f->s->lam != f->problem->lam) {
        pegasos_fit_begin(f);
        begin_budget(f);
    }
    if (pegasos_fit_first_solver(f) == PEGASOS_NEWTON)
        return pegasos_fit_first_epoch(f);
    pegasos_fit_begin_ascent(f, true);
    begin_budget(f);
    return true;
}

/* Begins at the point in memory; false: stopped. PEGASOS_AUTO keeps the last solver. */
static bool begin_at_point(fit *f)
{
    const bool is_kept = f->s->first_solver && f->options->solver == PEGASOS_AUTO;
    const int64_t solver = is_kept ? f->s->solver : pegasos_fit_first_solver(f);
    if (!pegasos_fit_begin_at_point(f, solver))
        return false;
    begin_budget(f);
    return true;
}

/* Does what is pending before the solver goes on; false: stopped. */
static bool prepare(fit *f)
{
    state *const s = f->s;
    const int64_t asked = f->options->solver;
    if (s->pending == PEGASOS_BEGIN || s->solver == PEGASOS_AUTO)
        return begin_at_zero(f);
    if (s->pending != PEGASOS_GO_ON && s->pending != PEGASOS_GAP_CHECKED)
        return begin_at_point(f);
    if (s->lam != f->problem->lam || !is_over(f)) /* another gap will be found */
        s->pending = PEGASOS_GO_ON;
    if (s->budget == 0) /* it goes on from the optimum of the squared error */
        begin_budget(f);
    if (s->lam != f->problem->lam) {
        pegasos_fit_change_lam(f);
        begin_budget(f);
    }
    if (!may_change_solver(f)) /* dual ascent that goes on with other options gives up no more */
        s->ascent.patience = s->ascent.has_given_up = 0;
    return asked == PEGASOS_AUTO || asked == s->solver || change_to(f, asked);
}

/* PEGASOS_AUTO: whether dual ascent should leave the rest to Newton's method after n_epochs. Three
 * things must hold: at most 2 BUDGET epochs are left; fewer are left than were made; and Newton's
 * method is likely to take less time than as many epochs over all rows as were made. */
static bool is_late(const fit *f, int64_t n_epochs)
{
    const int64_t n_made = n_epochs - f->s->epochs_before_budgets;
    const int64_t n_left = f->options->max_epochs - n_epochs;
    const double made = PASSES_OF_VISITS * (double)n_made * seconds_a_pass(f->rows);
    return n_left <= 2 * BUDGET && n_left < n_made
           && pegasos_estimated_seconds(f->rows, f->problem->loss, PEGASOS_NEWTON) < made;
}

/* Runs the present solver, with PEGASOS_AUTO to the end of its budget; returns a status. Epochs of
 * dual ascent are short where few rows are active, and may be used up before the gap is reached or
 * the budget ends. So dual ascent stops when 2 BUDGET epochs are left, if it `is_late` then. */
static int run_solver(fit *f)
{
    const state *const s = f->s;
    const bool is_auto = may_change_solver(f);
    const int64_t most = f->options->max_epochs, budget_end = is_auto ? s->budget_end : INT64_MAX,
                  late = most - 2 * BUDGET;
    if (s->solver == PEGASOS_NEWTON)
        return pegasos_newton_run(f, min_of(most, budget_end));
    const double visits = (double)budget_end / PASSES_OF_VISITS * (double)s->n_inside;
    const bool is_left = is_auto && s->n_epochs < late && is_late(f, late);
    return pegasos_ascent_run(f, (int64_t)fmin(visits, 1e18), is_left ? late : most);
}

static bool has_halved(const state *s)
{
    return s->relative_gap <= s->gap_before / 2;
}

/* At the end of a budget: whether nothing but rounding is left to gain. The present solver has not
 * halved the gap, and no other one may run: none is wanted, or Newton's method was idle. */
static bool is_at_rounding(const fit *f)
{
    const bool is_second = f->s->solver == PEGASOS_ASCENT && f->s->newton.n_idle == MOST_IDLE;
    return !has_halved(f->s) && (is_second || !may_change_solver(f));
}

/* At the end of a budget: the present solver goes on if the gap has halved. Otherwise, the other
 * one does, with twice the budget; false: stopped. After Newton's method was idle, it always goes
 * on once. Then dual ascent must halve the gap in its budget. If so, Newton's method may return. */
static bool change_if_slow(fit *f)
{
    state *s = f->s;
    const bool is_ascent = s->solver == PEGASOS_ASCENT, was_idle = is_idle(f);
    const bool has_given_up = is_ascent && (s->ascent.has_given_up || is_late(f, s->n_epochs));
    const bool is_once_more = was_idle && !s->newton.was_idle;
    const bool goes_on = is_once_more || (!has_given_up && has_halved(s));
    if (!goes_on) {
        if (!change_to(f, is_ascent ? PEGASOS_NEWTON : PEGASOS_ASCENT))
            return false;
        s->budget = was_idle ? BUDGET_AT_ROUNDING : 2 * s->budget;
    } else {
        s->newton.n_idle = 0;
        s->newton.was_idle = was_idle;
    }
    s->gap_before = goes_on || was_idle ? s->relative_gap : INFINITY;
    s->budget_end = passes_made(s) + s->budget;
    return true;
}

/* ---- The model w = 0 ------------------------------------------------------------------------- */

double pegasos_constant_model(const pegasos_problem *p, const pegasos_targets *targets, double mass,
                              double *intercept)
{
    const double feature = p->intercept_scaling;
    const bool has_intercept = p->free_intercept || feature > 0;
    const double penalty = p->free_intercept ? 0 : p->lam / (feature * feature);
    double least;
    *intercept = pegasos_best_constant(targets, mass, has_intercept ? penalty : INFINITY, &least);
    return least;
}

bool pegasos_take_zero(const pegasos_problem *p, const pegasos_targets *targets, int64_t n_inside,
                       double mass, double *primal, double *relative_gap, double *intercept)
{
    double b;
    const double constant = pegasos_constant_model(p, targets, mass, &b);
    const double at_zero = n_inside > 0 ? constant : 0;
    if (!isfinite(*primal) || at_zero > *primal + rounding_of(p->loss))
        return false;
    *relative_gap = relative_gap_of(at_zero, *primal * (1 - *relative_gap));
    *primal = at_zero;
    *intercept = b;
    return true;
}

/* Takes w = 0 if no better model is known. If w = 0 is the optimum, solvers come close to it, and
 * the model of what they leave would rank rows by noise. */
static void prefer_zero(fit *f)
{
    state *const s = f->s;
    const double norm = f->problem->lam / 2 * squared_norm_of(f->coef, f->rows->n_features);
    /* If w = 0 is as good as w, both objectives are within E = gap + rounding of the optimum. P is
     * strongly convex, so both are within sqrt(2 E/lam) of the optimum, and lam/2 |w|^2 <= 4 E. */
    if (norm > 4 * (s->relative_gap * s->primal + rounding_of(s->loss)))
        return;
    if (!pegasos_take_zero(f->problem, &f->targets, s->n_inside, s->mass, &s->primal,
                           &s->relative_gap, &s->intercept))
        return;
    memset(f->coef, 0, (size_t)f->rows->n_features * sizeof(double));
    s->pending = PEGASOS_GO_ON;
}

/* ---- The run --------------------------------------------------------------------------------- */

int pegasos_fit_run(fit *f)
{
    assert(are_there(f->rows, 0, f->rows->n_rows) && f->problem->lam > 0);
    assert(f->options->max_epochs >= 0);
    if (f->s->pending != PEGASOS_BEGIN && f->s->n_rows > 0) /* it goes on */
        f->watch.progress = progress_of_state(f->s);
    if (!prepare(f))
        return PEGASOS_STOPPED;
    for (;;) {
        f->watch.progress = progress_of_state(f->s);
        const int status = run_solver(f);
        if (status != PEGASOS_DONE)
            return status;
        if (is_over(f) || is_at_rounding(f))
            break;
        if (!change_if_slow(f))
            return PEGASOS_STOPPED;
    }
    if (f->options->tol >= 0)
        prefer_zero(f);
    return PEGASOS_DONE;
}

int pegasos_solve_one(const pegasos_problem *problem, const pegasos_options *options,
                      const int8_t *labels, const double *norms, void *memory, void *scratch)
{
    fit f = pegasos_fit_of(problem, options, labels, norms, memory, scratch);
    return pegasos_fit_run(&f);
}

/* ---- For C programs -------------------------------------------------------------------------- */

/* The memory of a fit from C has its state, norms, scratch and labels, in this order. */
int64_t pegasos_memory(const pegasos_problem *problem)
{
    if (problem->kernel)
        return pegasos_kernel_memory(problem->kernel);
    const int64_t n = problem->rows->n_rows, d = problem->rows->n_features;
    return pegasos_state_bytes(n, d) + 8 * n + pegasos_scratch_bytes(problem->rows) + n;
}

/* Writes labels and |x_i|^2; false: stopped. */
static bool measure(const fit *f, int8_t *labels, double *norms)
{
    pegasos_watch watch = f->watch; /* a copy, since it is written to */
    const int64_t n = f->rows->n_rows;
    const double cost = cost_of_row(f->rows);
    memset(f->sum, 0, (size_t)f->rows->n_features * sizeof(double));
    for (int64_t first = 0, count; first < n; first += count) {
        count = rows_of_piece(f->rows, first);
        pegasos_linear_norms(f->rows, first, count, f->sum, norms + first);
        for (int64_t i = first; i < first + count; i++)
            labels[i] = label_of(f->problem, i);
        if (is_to_stop(&watch, (double)count * cost))
            return false;
    }
    return true;
}

int pegasos_solve(const pegasos_problem *problem, const pegasos_options *options, void *memory,
                  pegasos_solution *solution)
{
    if (problem->kernel)
        return pegasos_kernel_solve(problem, options, memory, solution);
    const int64_t n = problem->rows->n_rows, d = problem->rows->n_features;
    double *const norms = (double *)((char *)memory + pegasos_state_bytes(n, d));
    double *const scratch = norms + n;
    int8_t *const labels = (int8_t *)scratch + pegasos_scratch_bytes(problem->rows);
    state *const s = memory;
    fit f = pegasos_fit_of(problem, options, labels, norms, memory, scratch);
    int status = PEGASOS_STOPPED;
    if (!options->resume)
        memset(s, 0, sizeof *s);
    if (s->pending != PEGASOS_BEGIN || measure(&f, labels, norms))
        status = pegasos_fit_run(&f);
    pegasos_fit_solution(n, d, memory, solution);
    return status;
}
