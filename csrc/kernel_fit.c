/*
 * kernel_fit.c - a whole fit of a kernel machine for C programs: a run of kernel.c on a matrix
 * whose values the program writes.
 *
 * Where memory has room for all columns, they stay there once they are computed. Else a round has
 * the values among its rows, and scores are brought up to date by values that are computed again.
 */
#include "fit.h"

#include <math.h>
#include <string.h>

/* Values are asked for in pieces of so many rows and columns at most. */
enum { PIECE_ROWS = 64, PIECE_COLUMNS = 256, PIECE = PIECE_ROWS * PIECE_COLUMNS };
/* There is room for as many values as so many rows have among themselves, at least. */
enum { LEAST_ROWS = 2048 };
/* A value takes about as long as reading so many numbers. */
static const double NUMBERS_PER_VALUE = 16;

/* Where a fit stands. */
typedef struct kernel_state {
    int64_t has_begun; /* 1: settings of the run are complete */
    int64_t n_kept;    /* columns that are there */
    pegasos_kernel run;
} kernel_state;

/* A fit and where its parts lie. */
typedef struct kernel_fit {
    const pegasos_problem *problem;
    const pegasos_kernel_matrix *kernel;
    int64_t n_columns; /* there is room for so many: n, or none is kept */
    pegasos_watch watch;
    int ended; /* what the fit returns if values end it */
    kernel_state *s;
    double *norms, *a, *scored, *scores, *slopes, *coef; /* n: see pegasos_kernel_arrays */
    double *dual;                                        /* n: dual variables that are feasible */
    int64_t *active, *place, *all;                       /* n; all: 0, 1, 2, ... */
    double *columns;                                     /* n x n, if they are kept */
    double *piece;                                       /* scratch */
    void *work;
    int8_t *labels; /* n */
} kernel_fit;

/* ---- Memory ---------------------------------------------------------------------------------- */

enum { KERNEL_ARRAYS = 10 };

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t room_for_columns(const pegasos_kernel_matrix *kernel)
{
    const int64_t n = kernel->n_rows, least = (int64_t)LEAST_ROWS * LEAST_ROWS / n;
    return least_of(n, kernel->n_columns > least ? kernel->n_columns : least);
}

static int64_t numbers_of_columns(const pegasos_kernel_matrix *kernel)
{
    const int64_t n = kernel->n_rows;
    return room_for_columns(kernel) < n ? 0 : n * n;
}

int64_t pegasos_kernel_memory(const pegasos_kernel_matrix *kernel)
{
    const int64_t n = kernel->n_rows, kept = numbers_of_columns(kernel);
    return (int64_t)sizeof(kernel_state) + 8 * (KERNEL_ARRAYS * n + kept + PIECE)
           + pegasos_kernel_work(n, 8, room_for_columns(kernel)) + n;
}

static kernel_fit fit_in(void *memory, const pegasos_problem *problem,
                         const pegasos_options *options)
{
    const int64_t n = problem->kernel->n_rows;
    kernel_fit f = {.problem = problem, .kernel = problem->kernel, .ended = PEGASOS_STOPPED};
    f.n_columns = room_for_columns(f.kernel);
    f.watch = pegasos_watch_of(options);
    f.s = memory;
    f.norms = (double *)(f.s + 1);
    f.a = f.norms + n;
    f.scored = f.a + n;
    f.scores = f.scored + n;
    f.slopes = f.scores + n;
    f.coef = f.slopes + n;
    f.dual = f.coef + n;
    f.active = (int64_t *)(f.dual + n);
    f.place = f.active + n;
    f.all = f.place + n;
    f.columns = (double *)(f.all + n);
    f.piece = f.columns + numbers_of_columns(f.kernel);
    f.work = f.piece + PIECE;
    f.labels = (int8_t *)f.work + pegasos_kernel_work(n, 8, f.n_columns);
    return f;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Has values between `count` rows and m others written to `out`; false: the fit ends. */
static bool ask(kernel_fit *f, int64_t count, const int64_t *rows, int64_t m, const int64_t *others,
                double *out)
{
    const pegasos_kernel *run = &f->s->run;
    const pegasos_progress progress = {run->n_epochs, run->primal, run->relative_gap};
    double sum = 0; /* NaN once a value is not finite */
    if (f->kernel->values(f->kernel->context, count, rows, m, others, out) != 0)
        return false;
    for (int64_t k = 0; k < count * m; k++)
        sum += 0 * out[k];
    if (sum != 0) {
        f->ended = PEGASOS_OVERFLOW;
        return false;
    }
    return !is_to_stop(&f->watch, NUMBERS_PER_VALUE * (double)(count * m), &progress);
}

/* The functions of pegasos_matrix. */
static int write_among(void *context, int64_t count, const int64_t *rows, int64_t m,
                       const int64_t *which, int64_t stride, void *out)
{
    kernel_fit *const f = context;
    for (int64_t j = 0, height; j < count; j += height) {
        height = least_of(PIECE_ROWS, count - j);
        for (int64_t k = 0, width; k < m; k += width) {
            width = least_of(PIECE_COLUMNS, m - k);
            if (!ask(f, height, rows + j, width, which + k, f->piece))
                return 1;
            for (int64_t l = 0; l < height; l++)
                memcpy((double *)out + (j + l) * stride + k, f->piece + l * width,
                       (size_t)width * sizeof(double));
        }
    }
    return 0;
}

static int keep_columns(void *context, int64_t count, const int64_t *rows)
{
    kernel_fit *const f = context;
    const int64_t n = f->kernel->n_rows;
    for (int64_t j = 0, some; j < count; j += some) {
        some = least_of(PIECE_ROWS, count - j);
        if (write_among(f, some, rows + j, n, f->all, n, f->columns + f->s->n_kept * n) != 0)
            return 1;
        for (int64_t l = 0; l < some; l++)
            f->place[rows[j + l]] = f->s->n_kept++;
    }
    return 0;
}

static int push_scores(void *context, int64_t n_problems, const double *change, double *pushed)
{
    kernel_fit *const f = context;
    const int64_t n = f->kernel->n_rows;
    assert(n_problems == 1); /* this one */
    (void)n_problems;
    memset(pushed, 0, (size_t)n * sizeof(double));
    int64_t rows[PIECE_ROWS], count = 0;
    for (int64_t i = 0; i < n; i++) {
        if (change[i] != 0)
            rows[count++] = i;
        if (count == 0 || (count < PIECE_ROWS && i < n - 1))
            continue;
        for (int64_t k = 0, width; k < n; k += width) {
            width = least_of(PIECE_COLUMNS, n - k);
            if (!ask(f, count, rows, width, f->all + k, f->piece))
                return 1;
            for (int64_t l = 0; l < count; l++)
                for (int64_t j = 0; j < width; j++)
                    pushed[k + j] += change[rows[l]] * f->piece[l * width + j];
        }
        count = 0;
    }
    return 0;
}

/* ---- A fit ----------------------------------------------------------------------------------- */

/* Everything but what it takes kernel values to know. */
static void clear(kernel_fit *f)
{
    const int64_t n = f->kernel->n_rows;
    memset(f->s, 0, sizeof *f->s + KERNEL_ARRAYS * (size_t)n * sizeof(double));
    f->s->run.primal = f->s->run.relative_gap = INFINITY;
    for (int64_t i = 0; i < n; i++) {
        f->labels[i] = label_of(f->problem, i);
        f->place[i] = -1;
        f->all[i] = i;
    }
}

/* False: the fit ends. */
static bool begin(kernel_fit *f, uint64_t seed)
{
    const pegasos_problem *const p = f->problem;
    const int64_t n = f->kernel->n_rows;
    const pegasos_targets targets = targets_of(p, n, f->labels);
    pegasos_kernel run = {.lam = p->lam,
                          .free_intercept = p->free_intercept,
                          .is_positive = 1,
                          .generator = seed,
                          .primal = INFINITY,
                          .relative_gap = INFINITY};
    for (int64_t i = 0; i < n; i++) {
        if (!ask(f, 1, f->all + i, 1, f->all + i, f->norms + i))
            return false;
        run.n_inside += f->labels[i] != 0;
        run.mass += weight_at(&targets, i);
    }
    run.feature = pegasos_constant_feature(p, &targets, f->norms, run.n_inside);
    f->s->run = run;
    f->s->has_begun = 1;
    return true;
}

/* As prefer_zero of solve.c. */
static void prefer_zero(kernel_fit *f)
{
    pegasos_kernel *const run = &f->s->run;
    const int64_t n = f->kernel->n_rows;
    double b;
    const pegasos_targets targets = targets_of(f->problem, n, f->labels);
    const double primal = pegasos_constant_model(f->problem, &targets, run->mass, &b);
    if (!isfinite(run->primal) || primal > run->primal + PEGASOS_ROUNDING)
        return;
    const double dual = run->primal * (1 - run->relative_gap);
    memset(f->coef, 0, (size_t)n * sizeof(double));
    run->intercept = b;
    run->primal = primal;
    run->relative_gap = fmax(primal - dual, 0) / fmax(primal, 1e-300);
}

/* Returns a status. */
static int go_on(kernel_fit *f, const pegasos_options *options)
{
    pegasos_kernel *const run = &f->s->run;
    const double tol = options->tol < 0 ? -1 : SAFELY * options->tol;
    const pegasos_matrix matrix = {.n_rows = f->kernel->n_rows,
                                   .value_bytes = 8,
                                   .n_columns = f->n_columns,
                                   .columns = f->columns,
                                   .place = f->place,
                                   .context = f,
                                   .keep = keep_columns,
                                   .among = write_among,
                                   .push = push_scores};
    const pegasos_targets targets = targets_of(f->problem, f->kernel->n_rows, f->labels);
    const pegasos_kernel_arrays arrays = {.targets = &targets,
                                          .norms = f->norms,
                                          .a = f->a,
                                          .scored = f->scored,
                                          .scores = f->scores,
                                          .slopes = f->slopes,
                                          .coef = f->coef,
                                          .active = f->active,
                                          .work = f->work};
    run->is_stuck = run->is_stuck && run->tol == tol;
    run->tol = tol;
    run->last_epoch = options->max_epochs;
    if (pegasos_kernel_run(&matrix, run, &arrays, &f->watch) != PEGASOS_DONE)
        return f->ended;
    if (run->n_epochs > 0 && !isfinite(run->primal))
        return PEGASOS_OVERFLOW;
    if (tol >= 0)
        prefer_zero(f);
    return PEGASOS_DONE;
}

int pegasos_kernel_solve(const pegasos_problem *problem, const pegasos_options *options,
                         void *memory, pegasos_solution *solution)
{
    kernel_fit f = fit_in(memory, problem, options);
    const pegasos_kernel *const run = &f.s->run;
    if (!options->resume)
        clear(&f);
    const bool is_ready = f.s->has_begun || begin(&f, options->seed);
    const int status = is_ready ? go_on(&f, options) : f.ended;
    const pegasos_targets targets = targets_of(problem, f.kernel->n_rows, f.labels);
    pegasos_make_feasible(&targets, problem->free_intercept, f.a, f.dual);
    const bool has_run = run->part != PEGASOS_KERNEL_BEGIN;
    *solution = (pegasos_solution){
        .coef = f.coef,
        .intercept = run->intercept,
        .dual_variables = f.dual,
        .objective = run->primal,
        .dual_objective = isfinite(run->primal) ? run->primal * (1 - run->relative_gap) : -INFINITY,
        .relative_gap = run->relative_gap,
        .n_epochs = run->n_epochs,
        .epochs = {0, run->n_epochs, 0},
        .n_steps = run->n_steps,
        .first_solver = has_run ? PEGASOS_ASCENT : PEGASOS_AUTO,
        .solver = has_run ? PEGASOS_ASCENT : PEGASOS_AUTO,
    };
    return status;
}
