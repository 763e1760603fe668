/*
 * kernel_callback.c - kernel machines of C programs, with a matrix whose values the program writes.
 *
 * If memory has room for all columns, they stay once they are computed. If not, a round has the
 * values among its rows, and scores are updated with values computed again (kernel_columns.c).
 */
#include "fit.h"

#include <math.h>
#include <string.h>

/* The program computes pieces of at most PIECE_ROWS rows and PIECE_COLUMNS columns. */
enum { PIECE_ROWS = 64, PIECE_COLUMNS = 256, PIECE = PIECE_ROWS * PIECE_COLUMNS };
/* There is always room for the values that LEAST_ROWS rows have among themselves. */
enum { LEAST_ROWS = 2048 };
/* A value takes about as long as reading this many numbers. */
static const double NUMBERS_PER_VALUE = 16;

/* What is known of the matrix. */
typedef struct matrix_state {
    int64_t has_begun; /* 1: labels, norms and column_of are there */
    int64_t n_kept;    /* columns that are there */
} matrix_state;

/* A fit's memory begins with the state of pegasos_kernel_solve_one. Then these follow: */
typedef struct callback_fit {
    const pegasos_problem *problem;
    const pegasos_kernel_matrix *kernel;
    int64_t n_columns; /* that there is room for: n, or no column is kept */
    pegasos_watch watch;
    int ended; /* the status of the fit if `values` ends it */
    matrix_state *s;
    double *norms, *dual;     /* n: K(x_i, x_i), and feasible dual variables */
    int64_t *column_of, *all; /* n; all: 0, 1, 2, ... */
    double *columns;          /* n x n, if they are kept */
    double *piece, *block;    /* scratch */
    void *scratch;
    int8_t *labels; /* n */
} callback_fit;

/* ---- Memory ---------------------------------------------------------------------------------- */

static int64_t room_for_columns(const pegasos_kernel_matrix *kernel)
{
    const int64_t n = kernel->n_rows;
    return min_of(n, max_of(kernel->n_columns, (int64_t)LEAST_ROWS * LEAST_ROWS / n));
}

static int64_t lay_out(callback_fit *v, const pegasos_kernel_matrix *kernel, void *memory)
{
    const int64_t n = kernel->n_rows;
    layout all = {memory, 8, 0};
    v->n_columns = room_for_columns(kernel);
    take(&all, pegasos_kernel_state_bytes(n));
    v->s = take(&all, (int64_t)sizeof(matrix_state));
    v->norms = take(&all, 8 * n);
    v->dual = take(&all, 8 * n);
    v->column_of = take(&all, 8 * n);
    v->all = take(&all, 8 * n);
    v->columns = take(&all, v->n_columns < n ? 0 : 8 * n * n);
    v->piece = take(&all, 8 * PIECE);
    v->block = take(&all, 8 * pegasos_columns_block(n));
    v->scratch = take(&all, pegasos_kernel_scratch_bytes(n, 8, v->n_columns));
    v->labels = take(&all, n);
    return all.bytes;
}

int64_t pegasos_kernel_memory(const pegasos_kernel_matrix *kernel)
{
    callback_fit v;
    return lay_out(&v, kernel, NULL);
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Lets the program write values between `count` rows and m others; false: the fit ends. */
static bool ask(callback_fit *v, int64_t count, const int64_t *rows, int64_t m,
                const int64_t *others, double *out)
{
    if (v->kernel->values(v->kernel->context, count, rows, m, others, out) != 0)
        return false;
    if (!are_finite(out, sizeof(double), count * m)) {
        v->ended = PEGASOS_OVERFLOW;
        return false;
    }
    return !is_to_stop(&v->watch, NUMBERS_PER_VALUE * (double)(count * m));
}

static int write_values(void *context, int64_t count, const int64_t *rows, int64_t first, int64_t m,
                        const int64_t *which, int64_t stride, void *out)
{
    callback_fit *const v = context;
    const int64_t *const others = which ? which : v->all + first;
    for (int64_t j = 0, height; j < count; j += height) {
        height = min_of(PIECE_ROWS, count - j);
        for (int64_t k = 0, width; k < m; k += width) {
            width = min_of(PIECE_COLUMNS, m - k);
            if (!ask(v, height, rows + j, width, others + k, v->piece))
                return 1;
            for (int64_t l = 0; l < height; l++)
                memcpy((double *)out + (j + l) * stride + k, v->piece + l * width,
                       (size_t)width * sizeof(double));
        }
    }
    return 0;
}

/* ---- A fit ----------------------------------------------------------------------------------- */

/* Writes labels and K(x_i, x_i); false: the fit ends. */
static bool begin(callback_fit *v)
{
    for (int64_t i = 0; i < v->kernel->n_rows; i++) {
        v->labels[i] = label_of(v->problem, i);
        v->column_of[i] = -1;
        v->all[i] = i;
        if (!ask(v, 1, v->all + i, 1, v->all + i, v->norms + i))
            return false;
    }
    v->s->has_begun = 1;
    return true;
}

static int solve(callback_fit *v, const pegasos_options *options, void *memory)
{
    const int64_t n = v->kernel->n_rows;
    const pegasos_workers workers = {.watch = &v->watch};
    pegasos_columns columns = {.n_rows = n,
                               .value_bytes = 8,
                               .n_columns = v->n_columns,
                               .is_cheap = v->n_columns < n, /* none is kept */
                               .columns = v->columns,
                               .column_of = v->column_of,
                               .n_kept = &v->s->n_kept,
                               .values = write_values,
                               .context = v,
                               .block = v->block,
                               .workers = &workers};
    const pegasos_matrix matrix = {.columns = &columns, .is_positive = 1, .rank = n};
    const int status = pegasos_kernel_solve_one(&matrix, v->problem, options, v->labels, v->norms,
                                                memory, v->scratch);
    return status == PEGASOS_STOPPED ? v->ended : status;
}

int pegasos_kernel_solve(const pegasos_problem *problem, const pegasos_options *options,
                         void *memory, pegasos_solution *solution)
{
    callback_fit v = {.problem = problem,
                      .kernel = problem->kernel,
                      .watch = pegasos_watch_of(options),
                      .ended = PEGASOS_STOPPED};
    const int64_t n = problem->kernel->n_rows;
    lay_out(&v, problem->kernel, memory);
    if (!options->resume) {
        memset(memory, 0, (size_t)pegasos_kernel_state_bytes(n));
        memset(v.s, 0, sizeof *v.s);
    }
    pegasos_kernel_fit_solution(n, memory, solution);
    v.watch.progress =
        (pegasos_progress){solution->n_epochs, solution->objective, solution->relative_gap};
    const int status = v.s->has_begun || begin(&v) ? solve(&v, options, memory) : v.ended;
    pegasos_kernel_fit_solution(n, memory, solution);
    const pegasos_targets targets = targets_of(problem, n, v.labels);
    memset(v.dual, 0, (size_t)n * sizeof(double));
    if (v.s->has_begun)
        pegasos_make_feasible(&targets, problem->free_intercept, solution->dual_variables, v.dual);
    solution->dual_variables = v.dual;
    return status;
}
