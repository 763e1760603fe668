/*
 * solve.c - a whole fit of one linear problem: from rows and labels to a certified model.
 *
 * It lays out memory, begins with an epoch of Pegasos with steps of exact length, and goes on by
 * dual coordinate ascent to the gap that is asked for (ascent.c has both).
 */
#include "rows.h"

#include <math.h>
#include <string.h>

/* A free intercept is found by a constant feature of this size at least (see pegasos_ascent). */
#define LEAST_FEATURE 1e-3

/* About 10 ms of work. */
static const double NUMBERS_PER_POLL = 5e6;

/* Where a fit stands. The arrays that belong to it follow in memory, and then those that are
 * scratch. There are no pointers among them: copying the memory is saving the fit. */
typedef struct state {
    int64_t n_rows, n_features;
    pegasos_dual dual;
    pegasos_ascent run;
} state;

typedef struct layout {
    state *s;
    double *norms; /* |x_i|^2 */
    double *zeros; /* n_features: scratch of norms */
    pegasos_ascent_arrays arrays;
} layout;

/* Numbers of 8 bytes: of rows, and of features. */
enum { ARRAYS_OF_ROWS = 8, ARRAYS_OF_FEATURES = 5 };

int64_t pegasos_memory(const pegasos_problem *problem)
{
    const int64_t n = problem->rows->n_rows, d = problem->rows->n_features;
    return (int64_t)sizeof(state) + 8 * (ARRAYS_OF_ROWS * n + ARRAYS_OF_FEATURES * d + 1);
}

static layout lay_out(const pegasos_problem *problem, void *memory)
{
    const int64_t n = problem->rows->n_rows, d = problem->rows->n_features;
    layout x = {
        .s = memory, .arrays = {.labels = problem->labels, .bounds = problem->weights}
    };
    pegasos_ascent_arrays *const to = &x.arrays;
    to->a = (double *)(x.s + 1);
    to->active = (int64_t *)(to->a + n);
    to->w = (double *)(to->active + n);
    to->coef = to->w + d;
    to->sums = to->coef + d;
    x.norms = to->sums + d + 1;
    to->norms = x.norms;
    to->scores = x.norms + n;
    to->room = to->scores + n;
    to->point = to->room + 4 * n;
    x.zeros = to->point + d;
    return x;
}

/* Writes |x_i|^2; returns the constant feature. That of a free intercept is as large as the
 * problem's rows: beside a much larger one, steps would be too short. */
static double measure_rows(const pegasos_problem *problem, int64_t n_inside, const layout *x)
{
    const int64_t n = problem->rows->n_rows;
    double mean = 0;
    pegasos_linear_norms(problem->rows, 0, n, x->zeros, x->norms);
    if (!problem->free_intercept)
        return problem->intercept_scaling;
    for (int64_t i = 0; i < n; i++)
        mean += problem->labels[i] != 0 ? x->norms[i] / (double)n_inside : 0;
    return fmax(sqrt(mean), LEAST_FEATURE);
}

static void begin(const pegasos_problem *problem, const pegasos_options *options, const layout *x)
{
    const int64_t n = problem->rows->n_rows;
    memset(x->s, 0, (size_t)pegasos_memory(problem));
    x->s->n_rows = n;
    x->s->n_features = problem->rows->n_features;
    pegasos_ascent *run = &x->s->run;
    pegasos_dual *dual = &x->s->dual;
    for (int64_t i = 0; i < n; i++)
        if (problem->labels[i] != 0) {
            x->arrays.active[run->n_inside++] = i;
            run->mass += problem->weights ? problem->weights[i] : 1;
        }
    assert(run->n_inside > 0 && run->mass > 0);
    run->lam = problem->lam;
    run->free_intercept = problem->free_intercept;
    run->estimate = run->estimate_at_check = run->primal = run->relative_gap = INFINITY;
    dual->scale = 1 / (run->lam * run->mass);
    dual->intercept_scaling = measure_rows(problem, run->n_inside, x);
    dual->factor = 1;
    dual->loss = problem->loss;
    dual->generator = options->seed;
    pegasos_dual_start(dual, run->n_inside);
    dual->pegasos_mass = run->mass; /* the first epoch is Pegasos */
}

int64_t pegasos_solve(const pegasos_problem *problem, const pegasos_options *options, void *memory,
                      pegasos_solution *solution)
{
    const layout x = lay_out(problem, memory);
    assert(are_there(problem->rows, 0, problem->rows->n_rows) && problem->lam > 0);
    assert(options->max_epochs >= 0);
    pegasos_watch watch = {
        .poll = options->poll,
        .context = options->context,
        .every = options->poll_every > 0 ? options->poll_every : NUMBERS_PER_POLL,
        .by_epochs = 1,
    };
    if (!options->resume)
        begin(problem, options, &x);
    assert(x.s->n_rows == problem->rows->n_rows && x.s->n_features == problem->rows->n_features);
    pegasos_ascent *run = &x.s->run;
    run->tol = options->tol;
    run->last_epoch = options->max_epochs;
    const int64_t status = pegasos_ascent_run(problem->rows, &x.s->dual, run, &x.arrays, &watch);
    *solution = (pegasos_solution){
        .coef = x.arrays.coef,
        .intercept = run->intercept,
        .dual_variables = x.arrays.a,
        .objective = run->primal,
        .dual_objective = isfinite(run->primal) ? run->primal * (1 - run->relative_gap) : -INFINITY,
        .relative_gap = run->relative_gap,
        .n_epochs = run->n_epochs,
    };
    return status;
}
