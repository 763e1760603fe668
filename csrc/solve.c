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

struct pegasos_solver {
    pegasos_rows rows;
    pegasos_dual dual;
    pegasos_ascent run;
    pegasos_ascent_arrays arrays;
};

/* Numbers of 8 bytes that follow the struct: of rows, and of features. */
enum { ARRAYS_OF_ROWS = 8, ARRAYS_OF_FEATURES = 5 };

int64_t pegasos_memory(const pegasos_problem *problem)
{
    const int64_t n = problem->rows->n_rows, d = problem->rows->n_features;
    return (int64_t)sizeof(pegasos_solver) + 8 * (ARRAYS_OF_ROWS * n + ARRAYS_OF_FEATURES * d + 1);
}

/* Writes |x_i|^2; returns the constant feature. That of a free intercept is as large as the
 * problem's rows: beside a much larger one, steps would be too short. */
static double measure_rows(const pegasos_problem *problem, int64_t n_inside, double *scratch,
                           double *norms)
{
    const int64_t n = problem->rows->n_rows;
    double mean = 0;
    pegasos_linear_norms(problem->rows, 0, n, scratch, norms);
    if (!problem->free_intercept)
        return problem->intercept_scaling;
    for (int64_t i = 0; i < n; i++)
        mean += problem->labels[i] != 0 ? norms[i] / (double)n_inside : 0;
    return fmax(sqrt(mean), LEAST_FEATURE);
}

pegasos_solver *pegasos_start(const pegasos_problem *problem, const pegasos_options *options,
                              void *memory)
{
    const int64_t n = problem->rows->n_rows, d = problem->rows->n_features;
    assert(are_there(problem->rows, 0, n) && problem->lam > 0 && options->max_epochs >= 0);
    memset(memory, 0, (size_t)pegasos_memory(problem));
    pegasos_solver *solver = memory;
    double *norms = (double *)(solver + 1), *a = norms + n, *scores = a + n, *room = scores + n;
    int64_t *active = (int64_t *)(room + 4 * n);
    double *w = (double *)(active + n), *coef = w + d, *point = coef + d, *sums = point + d;
    double *scratch = sums + d + 1;
    pegasos_ascent *run = &solver->run;
    for (int64_t i = 0; i < n; i++)
        if (problem->labels[i] != 0) {
            active[run->n_inside++] = i;
            run->mass += problem->weights ? problem->weights[i] : 1;
        }
    assert(run->n_inside > 0 && run->mass > 0);
    run->lam = problem->lam;
    run->tol = options->tol;
    run->last_epoch = options->max_epochs;
    run->free_intercept = problem->free_intercept;
    run->estimate = run->estimate_at_check = run->primal = run->relative_gap = INFINITY;
    solver->rows = *problem->rows;
    solver->dual.scale = 1 / (run->lam * run->mass);
    solver->dual.intercept_scaling = measure_rows(problem, run->n_inside, scratch, norms);
    solver->dual.factor = 1;
    solver->dual.loss = problem->loss;
    solver->dual.generator = options->seed;
    pegasos_dual_start(&solver->dual, run->n_inside);
    solver->dual.pegasos_mass = run->mass; /* the first epoch is Pegasos */
    solver->arrays = (pegasos_ascent_arrays){
        .labels = problem->labels,
        .bounds = problem->weights,
        .norms = norms,
        .active = active,
        .a = a,
        .w = w,
        .sums = sums,
        .coef = coef,
        .point = point,
        .scores = scores,
        .room = room,
    };
    return solver;
}

int64_t pegasos_advance(pegasos_solver *solver, double budget)
{
    return pegasos_ascent_advance(&solver->rows, &solver->dual, &solver->run, &solver->arrays,
                                  budget);
}

const double *pegasos_weights(const pegasos_solver *solver)
{
    return solver->arrays.coef;
}

double pegasos_intercept(const pegasos_solver *solver)
{
    return solver->run.intercept;
}

const double *pegasos_dual_variables(const pegasos_solver *solver)
{
    return solver->arrays.a;
}

double pegasos_objective(const pegasos_solver *solver)
{
    return solver->run.primal;
}

double pegasos_dual_objective(const pegasos_solver *solver)
{
    return solver->run.primal * (1 - solver->run.relative_gap);
}

double pegasos_relative_gap(const pegasos_solver *solver)
{
    return solver->run.relative_gap;
}

int64_t pegasos_epochs(const pegasos_solver *solver)
{
    return solver->run.n_epochs;
}
