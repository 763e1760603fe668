/*
 * fit.c - the memory of a linear fit: where its parts lie, and how callers read and write it.
 * n_features is 0 for the memory of a kernel machine. Passes that solvers share are here, too.
 */
#include "fit.h"

#include <string.h>

/* ---- Memory ---------------------------------------------------------------------------------- */

static int64_t lay_out_state(fit *f, int64_t n, int64_t d, void *memory)
{
    layout all = {memory, 8, 0};
    f->s = take(&all, (int64_t)sizeof(state));
    f->a = take(&all, 8 * n);
    f->coef = take(&all, 8 * d);
    f->scores = take(&all, 8 * n);
    f->centre = take(&all, 8 * n);
    f->active = take(&all, 8 * n);
    f->w = take(&all, 8 * d);
    f->sums = take(&all, 8 * (d + 1));
    f->point = take(&all, 8 * (d + 1));
    return all.bytes;
}

/* Lays out the scratch of a fit, without the sample. */
static int64_t lay_out_scratch(fit *f, int64_t n, int64_t d, void *scratch)
{
    layout all = {scratch, 8, 0};
    f->scratch = take(&all, 8 * 5 * n);
    f->sum = take(&all, 8 * d);
    f->newton_scratch = take(&all, pegasos_newton_scratch_bytes(n, d));
    f->sample = take(&all, 0);
    return all.bytes;
}

int64_t pegasos_state_bytes(int64_t n_rows, int64_t n_features)
{
    fit f;
    return n_features == 0 ? pegasos_kernel_state_bytes(n_rows)
                           : lay_out_state(&f, n_rows, n_features, NULL);
}

int64_t pegasos_fit_scratch_bytes(int64_t n_rows, int64_t n_features)
{
    fit f;
    return lay_out_scratch(&f, n_rows, n_features, NULL);
}

int64_t pegasos_scratch_bytes(const pegasos_rows *rows)
{
    return pegasos_fit_scratch_bytes(rows->n_rows, rows->n_features)
           + pegasos_sample_scratch_bytes(rows);
}

pegasos_watch pegasos_watch_of(const pegasos_options *options)
{
    return (pegasos_watch){
        .poll = options->poll,
        .context = options->context,
        .every = options->poll_every > 0 ? options->poll_every : PEGASOS_NUMBERS_PER_POLL,
        .by_epochs = options->poll_epochs,
        .progress = {0, INFINITY, INFINITY},
    };
}

fit pegasos_fit_of(const pegasos_problem *problem, const pegasos_options *options,
                   const int8_t *labels, const double *norms, void *memory, void *scratch)
{
    fit f = {.problem = problem, .options = options, .rows = problem->rows};
    f.targets = targets_of(problem, problem->rows->n_rows, labels);
    f.norms = norms;
    f.watch = pegasos_watch_of(options);
    f.blas = pegasos_newton_uses_blas(problem->rows->n_features) ? options->blas : NULL;
    lay_out_state(&f, f.targets.n, problem->rows->n_features, memory);
    lay_out_scratch(&f, f.targets.n, problem->rows->n_features, scratch);
    return f;
}

/* ---- What callers read and write ------------------------------------------------------------- */

void pegasos_fit_solution(int64_t n_rows, int64_t n_features, void *memory,
                          pegasos_solution *solution)
{
    if (n_features == 0) {
        pegasos_kernel_fit_solution(n_rows, memory, solution);
        return;
    }
    fit f;
    lay_out_state(&f, n_rows, n_features, memory);
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
        .first_solver = s->first_solver,
        .solver = s->solver,
    };
    int64_t before = 0;
    for (int64_t k = 0; k < 3; k++)
        before += solution->epochs[k] = s->epochs[k];
    solution->epochs[s->solver] += solution->n_epochs - before;
}

void pegasos_set_point(int64_t n_rows, int64_t n_features, void *memory, const double *a,
                       const double *coef, double intercept, const void *before)
{
    pegasos_fit_header *const s = memory;
    fit f;
    s->pending = PEGASOS_BEGIN_AT_POINT;
    if (n_features == 0) {
        s->n_rows = n_rows;
        memcpy(pegasos_kernel_arrays_in(n_rows, memory).a, a, (size_t)n_rows * sizeof(double));
        return;
    }
    lay_out_state(&f, n_rows, n_features, memory);
    if (before) {
        *f.s = *(const state *)before;
        f.s->n_features = n_features;
        f.s->pending = PEGASOS_BEGIN_AT_POINT;
    } else
        f.s->solver = PEGASOS_ASCENT;
    memcpy(f.a, a, (size_t)n_rows * sizeof(double));
    memcpy(f.coef, coef, (size_t)n_features * sizeof(double));
    f.s->intercept = intercept;
}

/* ---- What solvers share ---------------------------------------------------------------------- */

bool pegasos_fit_combine(fit *f, const double *a, double *sum)
{
    const double cost = cost_of_row(f->rows), scale = 1 / (f->problem->lam * f->s->mass);
    double factors[ROWS_PER_PIECE];
    memset(sum, 0, (size_t)f->rows->n_features * sizeof(double));
    for (int64_t first = 0, count; first < f->rows->n_rows; first += count) {
        count = rows_of_piece(f->rows, first);
        for (int64_t i = 0; i < count; i++)
            factors[i] = scale * a[first + i] * f->targets.labels[first + i];
        pegasos_linear_combine(f->rows, first, count, factors, sum);
        if (is_to_stop(&f->watch, (double)count * cost))
            return false;
    }
    return true;
}

bool pegasos_fit_score(fit *f, const double *w, double *room, double *intercept, double *scores)
{
    const double cost = cost_of_row(f->rows), b = room ? 0 : *intercept;
    const int64_t n = f->rows->n_rows;
    for (int64_t first = 0, count; first < n; first += count) {
        count = rows_of_piece(f->rows, first);
        pegasos_linear_scores(f->rows, first, NULL, count, 1, w, 8, 0, &b, scores + first);
        if (is_to_stop(&f->watch, (double)count * cost))
            return false;
    }
    if (room)
        *intercept = pegasos_best_intercept(&f->targets, scores, room);
    for (int64_t i = 0; room && i < n; i++)
        scores[i] += *intercept;
    return true;
}

void pegasos_fit_keep_best(fit *f, const double *w, double intercept, double primal, double dual)
{
    state *const s = f->s;
    if (primal < s->primal) {
        memcpy(f->coef, w, (size_t)f->rows->n_features * sizeof(double));
        s->intercept = intercept;
        s->primal = primal;
    }
    s->relative_gap = relative_gap_of(s->primal, dual);
}
