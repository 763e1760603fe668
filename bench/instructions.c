/*
 * instructions.c - a small fixed workload for each hot path of the core. bench/instructions.py
 * counts the instructions that `work` takes: unlike times, they do not depend on what else a
 * machine does.
 */
#include "core.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE
#endif

enum {
    N = 400,
    D = 1000,
    PER_ROW = 60,
    DENSE_D = 300,
    K = 8,
    STEPS = 2000,
    BUNDLE = 16,
    FEW_D = 16
};

static float values[N * PER_ROW], dense[N * DENSE_D], weights[D * BUNDLE], sums[D * BUNDLE];
static int32_t columns[N * PER_ROW], offsets[N + 1];
static int8_t labels[BUNDLE * N];
static int64_t draws[STEPS], active[N], places[N], pending[BUNDLE];
static double a[N * BUNDLE], w[D * K], norms[N], intercepts[K], scores[N * K], kernel_beta[N];
static double kernel_scores[N], kernel_unpushed[N];
static float matrix[N * N], near[N * N], row_norms[N],
    panel[D * PEGASOS_PANEL_BYTES / sizeof(float)];

static pegasos_rows sparse_rows = {.n_rows = N,
                                   .n_features = D,
                                   .value_bytes = 4,
                                   .index_bytes = 4,
                                   .indptr_bytes = 4,
                                   .values = values,
                                   .indices = columns,
                                   .indptr = offsets};
static pegasos_rows dense_rows = {
    .n_rows = N, .n_features = DENSE_D, .value_bytes = 4, .values = dense};
static pegasos_linear problems[BUNDLE];
static pegasos_dual duals[K];
static const pegasos_targets one_column = {.n = N, .labels = labels};
static pegasos_linear_set set = {
    .batch_size = 1,
    .problems = problems,
    .targets = {.n = N, .labels = labels},
    .weights = weights,
    .pending = pending
};

static const pegasos_bundle bundle = {
    .n_problems = K,
    .problems = duals,
    .targets = {.n = N, .labels = labels},
    .norms = norms,
    .a = a,
    .v = weights
};

static void make(void)
{
    uint64_t generator = 1;
    for (int64_t i = 0; i < N * PER_ROW; i++) {
        values[i] = (float)pegasos_bounded_random(&generator, 1000) / 1000;
        columns[i] = (int32_t)pegasos_bounded_random(&generator, D);
    }
    for (int64_t i = 0; i < N * DENSE_D; i++)
        dense[i] = (float)pegasos_bounded_random(&generator, 1000) / 1000;
    for (int32_t i = 0; i <= N; i++)
        offsets[i] = i * PER_ROW;
    for (int64_t i = 0; i < BUNDLE * N; i++)
        labels[i] = pegasos_bounded_random(&generator, 2) ? 1 : -1;
    for (int64_t i = 0; i < STEPS; i++)
        draws[i] = pegasos_bounded_random(&generator, N);
    for (int64_t i = 0; i < N; i++) {
        active[i] = places[i] = i;
        row_norms[i] = 20;
        norms[i] = 19; /* and 1, of the constant feature */
        for (int64_t j = 0; j < N; j++)
            matrix[i * N + j] = i == j ? 1 : (float)0.1;
        for (int64_t j = 0; j < N; j++) /* a kernel of places, positive definite */
            near[i * N + j] = 1 / (1 + (float)((i - j) * (i - j)) / 16);
    }
    for (int64_t k = 0; k < BUNDLE; k++) {
        problems[k] = (pegasos_linear){
            .lam = 0.01, .weight_factor = 1, .intercept_scaling = 1, .last_step = STEPS};
        pegasos_linear_start(&problems[k]);
    }
    for (int64_t k = 0; k < K; k++) {
        duals[k] =
            (pegasos_dual){.scale = 0.25, .intercept_scaling = 1, .factor = 1, .generator = 7};
        pegasos_dual_start(&duals[k], N);
    }
}

static void step_sparse(void)
{
    set.n_problems = 1;
    pegasos_linear_run(&sparse_rows, &set, 0, STEPS, draws);
}

static void step_dense(void)
{
    set.n_problems = 1;
    pegasos_linear_run(&dense_rows, &set, 0, STEPS, draws);
}

static void step_bundle(void)
{
    set.n_problems = BUNDLE;
    set.bundled = 1;
    set.sums = sums;
    pegasos_linear_run(&sparse_rows, &set, 0, STEPS, draws);
}

static void step_kernel(void)
{
    set.n_problems = 1;
    pegasos_watch nobody = {.every = 1e18};
    const pegasos_workers workers = {.watch = &nobody};
    pegasos_columns whole = {.n_rows = N,
                             .value_bytes = 4,
                             .n_columns = N,
                             .columns = matrix,
                             .column_of = places,
                             .workers = &workers};
    const pegasos_draws list = {.count = STEPS, .list = draws};
    void *work = malloc((size_t)pegasos_kernel_train_scratch_bytes(&whole, &set));
    set.weights = kernel_beta;
    pegasos_kernel_train(&whole, &set, kernel_scores, kernel_unpushed, &list, work);
    free(work);
}

static void ascent_sparse(void)
{
    for (int epoch = 0; epoch < 5; epoch++) {
        pegasos_dual_run(&sparse_rows, duals, &one_column, norms, active, a, w, NULL, N);
        pegasos_dual_begin_epoch(duals);
    }
}

static void ascent_dense(void)
{
    for (int epoch = 0; epoch < 5; epoch++) {
        pegasos_dual_run(&dense_rows, duals, &one_column, norms, active, a, w, NULL, N);
        pegasos_dual_begin_epoch(duals);
    }
}

static void sweep_sparse(void)
{
    pegasos_bundle_sweep(&sparse_rows, &bundle, -1, STEPS, draws);
}

static void sweep_dense(void)
{
    pegasos_bundle_sweep(&dense_rows, &bundle, -1, STEPS, draws);
}

static void scores_plain(void)
{
    pegasos_linear_scores(&sparse_rows, 0, NULL, N, K, w, 8, 0, intercepts, scores);
}

static void scores_interleaved(void)
{
    pegasos_linear_scores(&sparse_rows, 0, NULL, N, K, w, 8, 1, intercepts, scores);
}

static void scores_dense(void)
{
    pegasos_linear_scores(&dense_rows, 0, NULL, N, K, w, 8, 0, intercepts, scores);
}

static void scores_tiled(void)
{
    pegasos_linear_scores(&dense_rows, 0, NULL, N, K, w, 8, 1, intercepts, scores);
}

static void combine_sparse(void)
{
    pegasos_linear_combine(&sparse_rows, 0, N, norms, w);
}

static void kernel_values(const pegasos_rows *rows, int64_t kind)
{
    const pegasos_points points = {
        .rows = *rows,
        .kernel = {.kind = kind, .gamma = 0.1},
        .norms = row_norms,
        .by_panels = rows == &sparse_rows
    };
    pegasos_watch nobody = {.every = 1e18};
    const pegasos_workers workers = {.scratch = panel, .watch = &nobody};
    pegasos_source source = {.x = &points, .z = &points, .workers = &workers};
    pegasos_kernel_values(&source, N, NULL, 0, N, NULL, N, matrix);
}

static void kernel_gauss(void)
{
    kernel_values(&dense_rows, PEGASOS_GAUSSIAN);
}

static void kernel_thick(void)
{
    kernel_values(&sparse_rows, PEGASOS_LINEAR);
}

static void kernel_push(void)
{
    for (int64_t i = 0; i < N * K; i++)
        a[i] = 1;
    pegasos_watch nobody = {.every = 1e18};
    const pegasos_workers workers = {.watch = &nobody};
    int64_t n_kept = N;
    pegasos_columns whole = {.n_rows = N,
                             .value_bytes = 4,
                             .n_columns = N,
                             .columns = matrix,
                             .column_of = places,
                             .n_kept = &n_kept,
                             .workers = &workers};
    pegasos_columns_multiply(&whole, K, a, scores);
}

/* ---- Whole fits of a few rows, to certified gaps ---- */

static void fit(const pegasos_rows *rows, double lam, double tol, int64_t solver)
{
    double targets[N];
    for (int64_t i = 0; i < N; i++)
        targets[i] = labels[i];
    const pegasos_problem problem = {
        .rows = rows, .targets = targets, .lam = lam, .intercept_scaling = 1};
    const pegasos_options options = {.tol = tol, .max_epochs = 1000, .solver = solver};
    pegasos_solution solution;
    void *memory = malloc((size_t)pegasos_memory(&problem));
    pegasos_solve(&problem, &options, memory, &solution);
    free(memory);
}

static void fit_sdca(void)
{
    fit(&sparse_rows, 1e-3, 1e-3, PEGASOS_ASCENT);
}

static void fit_newton(void)
{
    pegasos_rows few = dense_rows;
    few.n_features = FEW_D;
    fit(&few, 1e-2, 1e-6, PEGASOS_NEWTON);
}

static void fit_kernel(void)
{
    pegasos_kernel problem = {.lam = 1e-3,
                              .mass = N,
                              .tol = 1e-6,
                              .constant_feature = 1,
                              .n_inside = N,
                              .last_epoch = 1000,
                              .primal = INFINITY,
                              .relative_gap = INFINITY};
    static double slopes[N];
    const pegasos_kernel_arrays arrays = {
        .targets = &one_column,
        .norms = norms,
        .a = a,
        .scored = a + N,
        .scores = scores,
        .slopes = slopes,
        .coef = a + 2 * N,
        .active = active,
        .scratch = malloc((size_t)pegasos_kernel_scratch_bytes(N, 4, N))};
    pegasos_watch nobody = {.every = 1e18};
    const pegasos_workers workers = {.watch = &nobody};
    int64_t n_kept = N;
    pegasos_columns kept = {.n_rows = N,
                            .value_bytes = 4,
                            .n_columns = N,
                            .columns = near,
                            .column_of = places,
                            .n_kept = &n_kept,
                            .workers = &workers};
    const pegasos_matrix matrix = {.columns = &kept, .is_positive = 1};
    for (int64_t i = 0; i < N; i++)
        norms[i] = 1; /* of the matrix; that of the constant feature comes on top */
    pegasos_kernel_run(&matrix, &problem, &arrays);
    free(arrays.scratch);
}

#define PATH(name) {#name, name}
static const struct {
    const char *name;
    void (*run)(void);
} paths[] = {PATH(step_sparse),    PATH(step_dense),         PATH(step_bundle),  PATH(step_kernel),
             PATH(ascent_sparse),  PATH(ascent_dense),       PATH(sweep_sparse), PATH(sweep_dense),
             PATH(scores_plain),   PATH(scores_interleaved), PATH(scores_dense), PATH(scores_tiled),
             PATH(combine_sparse), PATH(kernel_gauss),       PATH(kernel_push),  PATH(kernel_thick),
             PATH(fit_sdca),       PATH(fit_newton),         PATH(fit_kernel)};

/* What is counted. */
NOINLINE void work(void (*run)(void));
NOINLINE void work(void (*run)(void))
{
    run();
}

int main(int count, char **arguments)
{
    make();
    for (size_t k = 0; k < sizeof(paths) / sizeof(paths[0]); k++) {
        if (count < 2)
            puts(paths[k].name);
        else if (strcmp(arguments[1], paths[k].name) == 0)
            return work(paths[k].run), EXIT_SUCCESS;
    }
    return count < 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
