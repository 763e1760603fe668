/*
 * solve.c - a whole fit of one linear problem: from rows and labels to a certified model. That of a
 * kernel machine is in kernel_fit.c.
 *
 * The schedule. Every fit begins with an epoch of Pegasos. Then a solver brings the problem to the
 * gap that is asked for: dual coordinate ascent (ascent.c), whose first epoch is one of Pegasos,
 * with steps of exact length; or Newton's method (newton.c), after an epoch of Pegasos as the paper
 * has it and from the mean of its last half. PEGASOS_AUTO takes the one that is likely to be
 * cheaper, lets it work for a budget of passes, and changes to the other one, with a larger budget,
 * if the gap has not halved by then.
 *
 *     begin -> [epoch of Pegasos] -> solver --(gap)--> end
 *                                      ^  |
 *                                      +--+ change
 *
 * What is kept from one solver to the next is a dual point and the best model so far. A change is a
 * transaction: the solver that begins has arrays of its own, and is at work once they are complete.
 *
 * A path of lambda is one fit: lambda changes, the state stays.
 */
#include "fit.h"

/* About 10 ms of work. */
static const double NUMBERS_PER_POLL = 5e6;
/* Passes over the rows that PEGASOS_AUTO lets a solver make before it asks whether the gap has
 * halved. Epochs of Newton's method are passes; visits of dual ascent take twice as long as a pass
 * takes for these rows. */
enum { BUDGET = 128, PASSES_OF_VISITS = 2 };
/* Dual ascent may give up after so many epochs where it gets nowhere, and Newton's method is likely
 * to take at most so many times as long. */
enum { PATIENCE = 5, MOST_DEARER = 4 };
/* From how many features on BLAS is worth its while. */
enum { FEW_FEATURES = 50 };

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Arrays of rows that are kept, and the first of them; arrays of features that are kept. */
enum { KEPT_OF_ROWS = 4, KEPT_OF_FEATURES = 4, ROOM_OF_ROWS = 5 };

int64_t pegasos_kept(int64_t n_rows, int64_t n_features)
{
    if (n_features == 0)
        return pegasos_kernel_kept(n_rows);
    return (int64_t)sizeof(state) + 8 * (KEPT_OF_ROWS * n_rows + KEPT_OF_FEATURES * n_features + 2);
}

int64_t pegasos_fit_room(int64_t n_rows, int64_t n_features)
{
    const int64_t bytes =
        8 * (ROOM_OF_ROWS * n_rows + n_features) + pegasos_newton_work(n_rows, n_features);
    return (bytes + 7) / 8 * 8;
}

int64_t pegasos_room(const pegasos_rows *rows)
{
    return pegasos_fit_room(rows->n_rows, rows->n_features) + pegasos_sample_room(rows);
}

static void lay_out(fit *f, void *memory, void *room)
{
    const int64_t n = f->rows->n_rows, d = f->rows->n_features;
    f->s = memory;
    f->a = (double *)(f->s + 1);
    f->coef = f->a + n;
    f->scores = f->coef + d;
    f->centre = f->scores + n;
    f->active = (int64_t *)(f->centre + n);
    f->w = (double *)(f->active + n);
    f->sums = f->w + d;
    f->point = f->sums + d + 1;
    f->room = room;
    f->sum = f->room + ROOM_OF_ROWS * n;
    f->work = f->sum + d;
    f->sample = room ? (char *)room + pegasos_fit_room(n, d) : NULL;
}

pegasos_watch pegasos_watch_of(const pegasos_options *options)
{
    return (pegasos_watch){
        .poll = options->poll,
        .context = options->context,
        .every = options->poll_every > 0 ? options->poll_every : NUMBERS_PER_POLL,
        .by_epochs = options->poll_epochs,
        .progress = {0, INFINITY, INFINITY},
    };
}

fit pegasos_fit_of(const pegasos_problem *problem, const pegasos_options *options,
                   const int8_t *labels, const double *norms, void *memory, void *room)
{
    fit f = {.problem = problem, .options = options, .rows = problem->rows};
    f.targets = targets_of(problem, problem->rows->n_rows, labels);
    f.norms = norms;
    f.watch = pegasos_watch_of(options);
    f.blas = pegasos_gains_by_blas(problem->rows->n_features) ? options->blas : NULL;
    lay_out(&f, memory, room);
    return f;
}

/* ---- Which solver ---------------------------------------------------------------------------- */

/* About 15 epochs of dual ascent where features are many, four times as many where rows are; their
 * additions to w cost as much as another pass. Ten iterations of Newton's method of four passes,
 * and a product over the rows in the band, a tenth of all. */
double pegasos_seconds(const pegasos_rows *rows, int64_t solver)
{
    const double n = (double)rows->n_rows, d = (double)rows->n_features;
    const double pass = stored_numbers(rows) * (rows->index_bytes == 0 ? 0.4e-9 : 1.5e-9);
    if (solver == PEGASOS_ASCENT)
        return 2 * (n < 2 * d ? 15 : 60) * pass;
    if (d >= PEGASOS_NEWTON_MOST)
        return INFINITY;
    return 10 * (4 * pass + 0.2 * n * d * d / 1e11 + d * d * d / 3e10);
}

int pegasos_gains_by_blas(int64_t n_features)
{
    return FEW_FEATURES < n_features && n_features < PEGASOS_NEWTON_MOST;
}

static bool newton_is_cheaper(const fit *f, double factor)
{
    return pegasos_seconds(f->rows, PEGASOS_NEWTON)
           < factor * pegasos_seconds(f->rows, PEGASOS_ASCENT);
}

int64_t pegasos_fit_first_solver(const fit *f)
{
    if (f->options->solver != PEGASOS_AUTO)
        return f->options->solver;
    return newton_is_cheaper(f, 1) ? PEGASOS_NEWTON : PEGASOS_ASCENT;
}

static bool is_auto(const fit *f)
{
    return f->options->solver == PEGASOS_AUTO && f->options->tol >= 0;
}

/* ---- The schedule ---------------------------------------------------------------------------- */

/* Passes that the solver at work has made, or visits that take as long. */
static int64_t passes_made(const state *s)
{
    if (s->solver == PEGASOS_ASCENT)
        return PASSES_OF_VISITS * s->ascent.n_visits / (s->n_inside > 0 ? s->n_inside : 1);
    return s->n_epochs;
}

/* PEGASOS_AUTO: lets the solver at work go on for a first budget. Where Newton's method is not much
 * dearer, dual ascent may give up early, after PATIENCE epochs. */
static void begin_budget(fit *f)
{
    state *s = f->s;
    s->budget = BUDGET;
    s->budget_end = passes_made(s) + BUDGET;
    s->gap_before = INFINITY;
    if (is_auto(f) && s->solver == PEGASOS_ASCENT && newton_is_cheaper(f, MOST_DEARER))
        s->ascent.patience = PATIENCE * s->n_inside;
}

/* What comes before the solver at work goes on: a beginning, another lambda, another solver; false:
 * stopped. */
static bool prepare(fit *f)
{
    state *s = f->s;
    const int64_t asked = f->options->solver;
    if (s->pending == PEGASOS_CHECK_DATA && !pegasos_fit_check_data(f))
        return false;
    if (s->pending == PEGASOS_BEGIN || (s->pending != PEGASOS_GO_ON && s->solver == PEGASOS_AUTO)) {
        pegasos_fit_begin(f);
        begin_budget(f);
    }
    if (s->solver == PEGASOS_AUTO && pegasos_fit_first_solver(f) == PEGASOS_NEWTON)
        return pegasos_fit_first_epoch(f);
    if (s->solver == PEGASOS_AUTO) {
        pegasos_fit_begin_ascent(f, true);
        begin_budget(f);
    }
    if (s->pending != PEGASOS_GO_ON) {
        const int64_t solver =
            s->first && asked == PEGASOS_AUTO ? s->solver : pegasos_fit_first_solver(f);
        if (!pegasos_fit_begin_at_point(f, solver))
            return false;
        begin_budget(f);
    } else if (s->lam != f->problem->lam) {
        pegasos_fit_change_lam(f);
        begin_budget(f);
    }
    if (asked != PEGASOS_AUTO && asked != s->solver)
        return asked == PEGASOS_NEWTON ? pegasos_fit_begin_newton(f)
                                       : pegasos_fit_begin_ascent(f, false);
    return true;
}

/* Lets the solver at work go on, of PEGASOS_AUTO to the end of its budget; returns a status. */
static int run_solver(fit *f)
{
    const state *const s = f->s;
    const int64_t most = f->options->max_epochs,
                  budget_end = is_auto(f) ? s->budget_end : INT64_MAX;
    if (s->solver == PEGASOS_NEWTON)
        return pegasos_newton_run(f, most < budget_end ? most : budget_end);
    const double visits = (double)budget_end / PASSES_OF_VISITS * (double)s->n_inside;
    return pegasos_ascent_run(f, (int64_t)fmin(visits, 1e18));
}

/* Whether the fit ends here. */
static bool is_over(const fit *f)
{
    return is_close(f) || f->s->n_epochs >= f->options->max_epochs;
}

/* PEGASOS_AUTO: lets the solver at work go on if the gap has halved, or else the other one; false:
 * stopped. */
static bool choose(fit *f)
{
    state *s = f->s;
    const bool has_given_up = s->solver == PEGASOS_ASCENT && s->ascent.has_stopped;
    const bool has_halved = !has_given_up && s->relative_gap <= s->gap_before / 2;
    if (!has_halved) {
        if (!(s->solver == PEGASOS_ASCENT ? pegasos_fit_begin_newton(f)
                                          : pegasos_fit_begin_ascent(f, false)))
            return false;
        s->budget *= 2;
    }
    s->gap_before = has_halved ? s->relative_gap : INFINITY;
    s->budget_end = passes_made(s) + s->budget;
    return true;
}

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

/* Takes w = 0 where no better model is known. Where it is the optimum, solvers come close to it.
 * What they leave is noise, by which the model would rank rows. */
static void prefer_zero(fit *f)
{
    state *const s = f->s;
    const double norm = f->problem->lam / 2 * squared_norm_of(f->coef, f->rows->n_features);
    double b;
    /* P is strongly convex: it is above P* by norm or more at w = 0 if w is the optimum, and if it
     * is not, w is no farther from it than the gap allows. */
    if (norm > 4 * (s->relative_gap * s->primal + rounding_of(s->loss)))
        return;
    const double constant = pegasos_constant_model(f->problem, &f->targets, s->mass, &b);
    const double primal = s->n_inside > 0 ? constant : 0;
    if (!isfinite(s->primal) || primal > s->primal + rounding_of(s->loss))
        return;
    memset(f->coef, 0, (size_t)f->rows->n_features * sizeof(double));
    s->relative_gap = relative_gap_of(primal, s->primal * (1 - s->relative_gap));
    s->primal = primal;
    s->intercept = b;
}

int pegasos_fit_run(fit *f)
{
    if (!prepare(f))
        return PEGASOS_STOPPED;
    for (;;) {
        const int status = run_solver(f);
        if (status != PEGASOS_DONE)
            return status;
        if (is_over(f))
            break;
        if (!choose(f))
            return PEGASOS_STOPPED;
    }
    if (f->options->tol >= 0)
        prefer_zero(f);
    return PEGASOS_DONE;
}

int pegasos_solve_one(const pegasos_problem *problem, const pegasos_options *options,
                      const int8_t *labels, const double *norms, void *memory, void *room)
{
    fit f = pegasos_fit_of(problem, options, labels, norms, memory, room);
    assert(are_there(problem->rows, 0, problem->rows->n_rows) && problem->lam > 0);
    assert(options->max_epochs >= 0);
    return pegasos_fit_run(&f);
}

/* ---- For C programs -------------------------------------------------------------------------- */

/* In the memory of a fit from C, norms and labels follow what is kept, and then comes the room. */
int64_t pegasos_memory(const pegasos_problem *problem)
{
    if (problem->kernel)
        return pegasos_kernel_memory(problem->kernel);
    const int64_t n = problem->rows->n_rows, d = problem->rows->n_features;
    return pegasos_kept(n, d) + 8 * n + pegasos_room(problem->rows) + n;
}

/* Writes labels and |x_i|^2; false: stopped. */
static bool measure(const fit *f, int8_t *labels, double *norms)
{
    fit own = *f; /* whose watch goes on counting */
    const int64_t n = f->rows->n_rows;
    const double cost = cost_of_row(f->rows);
    const pegasos_progress nothing = {0, INFINITY, INFINITY};
    memset(f->sum, 0, (size_t)f->rows->n_features * sizeof(double));
    for (int64_t first = 0, count; first < n; first += count) {
        count = rows_of_piece(f->rows, first);
        pegasos_linear_norms(f->rows, first, count, f->sum, norms + first);
        for (int64_t i = first; i < first + count; i++) {
            labels[i] = label_of(f->problem, i);
        }
        if (is_to_stop(&own.watch, (double)count * cost, &nothing))
            return false;
    }
    return true;
}

void pegasos_found(int64_t n_rows, int64_t n_features, void *memory, pegasos_solution *solution)
{
    if (n_features == 0) {
        pegasos_kernel_found(n_rows, memory, solution);
        return;
    }
    const pegasos_rows rows = {.n_rows = n_rows, .n_features = n_features};
    fit f = {.rows = &rows};
    lay_out(&f, memory, NULL);
    const state *const s = f.s;
    const bool has_begun = s->n_rows > 0;
    const double primal = has_begun ? s->primal : INFINITY;
    const double gap = has_begun ? s->relative_gap : INFINITY;
    *solution = (pegasos_solution){
        .coef = f.coef,
        .intercept = s->intercept,
        .dual_variables = f.a,
        .objective = primal,
        .dual_objective = isfinite(primal) ? primal * (1 - gap) : -INFINITY,
        .relative_gap = gap,
        .n_epochs = has_begun ? s->n_epochs : 0,
        .n_steps = s->pegasos.n_steps + s->n_steps + s->ascent.n_steps,
        .first_solver = s->first,
        .solver = s->solver,
    };
    int64_t before = 0;
    for (int64_t k = 0; k < 3; k++)
        before += solution->epochs[k] = s->epochs[k];
    solution->epochs[s->solver] += solution->n_epochs - before;
}

int64_t pegasos_value_bytes(const void *memory)
{
    int64_t sizes[3]; /* with which either state begins */
    memcpy(sizes, memory, sizeof sizes);
    return sizes[2];
}

void pegasos_set_pending(int64_t n_features, void *memory, int64_t pending)
{
    if (n_features == 0) {
        kernel_state *const s = memory;
        if (s->pending != PEGASOS_BEGIN && pending != PEGASOS_CHECK_DATA)
            s->pending = pending;
        return;
    }
    state *const s = memory;
    if (s->pending != PEGASOS_BEGIN
        && (pending != PEGASOS_CHECK_DATA || s->pending == PEGASOS_GO_ON))
        s->pending = pending;
}

void pegasos_set_point(int64_t n_rows, int64_t n_features, void *memory, const double *a,
                       const double *coef, double intercept)
{
    if (n_features == 0) {
        pegasos_kernel_set_point(n_rows, memory, a);
        return;
    }
    const pegasos_rows rows = {.n_rows = n_rows, .n_features = n_features};
    fit f = {.rows = &rows};
    lay_out(&f, memory, NULL);
    memcpy(f.a, a, (size_t)n_rows * sizeof(double));
    memcpy(f.coef, coef, (size_t)n_features * sizeof(double));
    f.s->intercept = intercept;
    f.s->solver = PEGASOS_ASCENT;
    f.s->pending = PEGASOS_BEGIN_AT_POINT;
}

int pegasos_solve(const pegasos_problem *problem, const pegasos_options *options, void *memory,
                  pegasos_solution *solution)
{
    if (problem->kernel)
        return pegasos_kernel_solve(problem, options, memory, solution);
    const int64_t n = problem->rows->n_rows, d = problem->rows->n_features;
    double *const norms = (double *)((char *)memory + pegasos_kept(n, d)), *const room = norms + n;
    int8_t *const labels = (int8_t *)room + pegasos_room(problem->rows);
    state *const s = memory;
    const fit f = pegasos_fit_of(problem, options, labels, norms, memory, room);
    int status = PEGASOS_STOPPED;
    if (!options->resume)
        memset(s, 0, sizeof *s);
    if (s->pending != PEGASOS_BEGIN || measure(&f, labels, norms))
        status = pegasos_solve_one(problem, options, labels, norms, memory, room);
    pegasos_found(n, d, memory, solution);
    return status;
}

void pegasos_scores(const pegasos_rows *rows, const double *coef, double intercept, double *scores)
{
    pegasos_linear_scores(rows, 0, NULL, rows->n_rows, 1, coef, 8, 0, &intercept, scores);
}
