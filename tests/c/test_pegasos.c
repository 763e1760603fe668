/*
 * test_pegasos.c - the C core on its own: no Python, every type of rows, all state on the stack.
 *
 * With an argument, writes a digest of what was trained to that file, so that builds with and
 * without clones per instruction set can be compared bit by bit.
 */
#include "check.h"
#include "core.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { N = 50, D = 37, K = 3, BATCH = 2, DRAWS = 4 * N };

/* Rows in all six types: even ones float, odd ones double; dense, 32-bit CSR, 64-bit CSR. */
enum { TYPES = 6 };

static float dense_float[N * D], csr_float[N * D];
static double dense_double[N * D], csr_double[N * D];
static int32_t indices32[N * D], indptr32[N + 1];
static int64_t indices64[N * D], indptr64[N + 1];
static int8_t labels[K * N];
static int64_t draws[DRAWS];

static pegasos_rows rows_of_type(int type)
{
    const int layout = type / 2, wide = type % 2;
    pegasos_rows rows = {.n_rows = N, .n_features = D, .value_bytes = wide ? 8 : 4};
    if (layout == 0) {
        rows.values = wide ? (void *)dense_double : (void *)dense_float;
    } else {
        rows.values = wide ? (void *)csr_double : (void *)csr_float;
        rows.index_bytes = layout == 1 ? 4 : 8;
        rows.indices = layout == 1 ? (void *)indices32 : (void *)indices64;
        rows.indptr_bytes = layout == 1 ? 8 : 4; /* mixed widths are allowed */
        rows.indptr = layout == 1 ? (void *)indptr64 : (void *)indptr32;
    }
    return rows;
}

static void make_data(void)
{
    pegasos_order order;
    int64_t permutation[1000], random[2 * N * D];
    pegasos_order_seek(&order, 7, 1000, PEGASOS_UNIFORM, 0, NULL);
    pegasos_order_draw(&order, NULL, 2 * N * D, random);
    int64_t nnz = 0;
    for (int64_t i = 0; i < N; i++) {
        for (int64_t j = 0; j < D; j++) {
            const int64_t cell = i * D + j;
            const double value =
                random[2 * cell] < 600 ? 0 : (double)random[2 * cell + 1] / 512 - 1;
            dense_double[cell] = value;
            dense_float[cell] = (float)value;
            if (value == 0)
                continue;
            csr_double[nnz] = value;
            csr_float[nnz] = (float)value;
            indices32[nnz] = (int32_t)j;
            indices64[nnz++] = j;
        }
        indptr32[i + 1] = (int32_t)nnz;
        indptr64[i + 1] = nnz;
        for (int k = 0; k < K; k++)
            labels[k * N + i] = (int8_t)(random[i * K + k] % 3 - 1);
    }
    pegasos_order_seek(&order, 8, N, PEGASOS_PERMUTATION, 0, permutation);
    pegasos_order_draw(&order, permutation, DRAWS, draws);
}

/* What belongs to the rows of a problem: labels, and weights or NULL. */
static pegasos_targets targets_of(int64_t kind, const int8_t *y, const double *weights)
{
    return (pegasos_targets){.n = N, .labels = y, .weights = weights, .loss = {.kind = kind}};
}

/* K vectors of either type. */
typedef union vector {
    float single[K * D];
    double wide[K * D];
} vector;

/* Everything that K problems own. */
typedef struct bench {
    pegasos_linear problems[K];
    vector weights, sums;
    double coef[K * D];
    double intercept[K];
    double counts[K * N];
    int64_t pending[K * BATCH];
    pegasos_linear_set set;
} bench;

static void begin(bench *b, double ball, int average, int free_intercept)
{
    memset(b, 0, sizeof *b);
    b->set = (pegasos_linear_set){.n_problems = K,
                                  .batch_size = BATCH,
                                  .problems = b->problems,
                                  .targets = targets_of(PEGASOS_HINGE, labels, NULL),
                                  .weights = &b->weights,
                                  .sums = &b->sums,
                                  .counts = b->counts,
                                  .pending = b->pending};
    for (int k = 0; k < K; k++) {
        b->problems[k] = (pegasos_linear){.lam = 0.03,
                                          .weight_factor = 1,
                                          .ball = ball,
                                          .intercept_scaling = free_intercept ? 0 : 1,
                                          .free_intercept = free_intercept,
                                          .average_from = average ? 11 : 0,
                                          .last_step = INT64_MAX};
        pegasos_linear_start(&b->problems[k]);
    }
}

static void finish(bench *b, const pegasos_rows *rows)
{
    for (int k = 0; k < K; k++) {
        const int64_t row = k * rows->n_features * rows->value_bytes;
        pegasos_linear_model(&b->problems[k], D, rows->value_bytes, (char *)&b->weights + row,
                             (char *)&b->sums + row, b->coef + k * D, &b->intercept[k]);
    }
}

static void every_type_of_rows_gives_the_same_model(void)
{
    for (int variant = 0; variant < 8; variant++) {
        static bench first, other;
        for (int type = 0; type < TYPES; type++) {
            bench *b = type == 0 ? &first : &other;
            const pegasos_rows rows = rows_of_type(type);
            begin(b, variant & 1, variant >> 1 & 1, variant >> 2);
            pegasos_linear_run(&rows, &b->set, 0, DRAWS, draws);
            finish(b, &rows);
            CHECK(memcmp(b->counts, first.counts, sizeof first.counts) == 0);
            for (int k = 0; k < K; k++)
                for (int j = 0; j < D; j++)
                    CHECK(fabs(b->coef[k * D + j] - first.coef[k * D + j]) < 1e-4);
        }
    }
}

static void textbook_steps_are_taken(void)
{
    static bench b;
    const pegasos_rows rows = rows_of_type(1);
    begin(&b, 1, 0, 0);
    pegasos_linear_run(&rows, &b.set, 0, DRAWS, draws);
    finish(&b, &rows);
    for (int k = 0; k < K; k++) {
        double w[D + 1] = {0}, lam = 0.03;
        int64_t t = 0, drawn = 0, violating[BATCH], n_violating = 0;
        for (int64_t j = 0; j < DRAWS; j++) {
            const int64_t i = draws[j];
            const double y = labels[k * N + i], *x = dense_double + i * D;
            double score = w[D];
            if (y == 0)
                continue;
            for (int c = 0; c < D; c++)
                score += w[c] * x[c];
            if (y * score < 1)
                violating[n_violating++] = i;
            if (++drawn < BATCH)
                continue;
            t++;
            for (int c = 0; c <= D; c++)
                w[c] *= 1 - 1 / (double)t;
            for (int64_t q = 0; q < n_violating; q++) {
                const double step = labels[k * N + violating[q]] / (lam * (double)(t * BATCH));
                for (int c = 0; c < D; c++)
                    w[c] += step * dense_double[violating[q] * D + c];
                w[D] += step;
            }
            double norm = 0;
            for (int c = 0; c <= D; c++)
                norm += w[c] * w[c];
            for (int c = 0; c <= D && norm > 1 / lam; c++)
                w[c] *= 1 / sqrt(lam * norm);
            drawn = n_violating = 0;
        }
        CHECK(b.problems[k].n_steps == t);
        for (int c = 0; c < D; c++)
            CHECK(fabs(w[c] - b.coef[k * D + c]) < 1e-10);
        CHECK(fabs(w[D] - b.intercept[k]) < 1e-10);
    }
}

static void a_run_may_be_cut_anywhere(void)
{
    for (int type = 0; type < TYPES; type++) {
        static bench whole, cut;
        const pegasos_rows rows = rows_of_type(type);
        begin(&whole, 1, 1, 0);
        begin(&cut, 1, 1, 0);
        pegasos_linear_run(&rows, &whole.set, 0, DRAWS, draws);
        for (int64_t first = 0, step = 1; first < DRAWS; first += step, step = step % 17 + 3) {
            const int64_t count = first + step < DRAWS ? step : DRAWS - first;
            pegasos_linear_run(&rows, &cut.set, first, count, draws + first);
        }
        CHECK(memcmp(whole.problems, cut.problems, sizeof whole.problems) == 0);
        CHECK(memcmp(&whole.weights, &cut.weights, sizeof whole.weights) == 0);
        CHECK(memcmp(&whole.sums, &cut.sums, sizeof whole.sums) == 0);
    }
}

static void a_set_gives_the_bits_of_separate_problems(void)
{
    for (int type = 0; type < TYPES; type++) {
        static bench set, alone;
        const pegasos_rows rows = rows_of_type(type);
        begin(&set, 0, 1, 1);
        pegasos_linear_run(&rows, &set.set, 0, DRAWS, draws);
        for (int k = 0; k < K; k++) {
            begin(&alone, 0, 1, 1);
            alone.set.n_problems = 1;
            alone.set.targets.labels = labels + k * N;
            pegasos_linear_run(&rows, &alone.set, 0, DRAWS, draws);
            const size_t bytes = (size_t)(D * rows.value_bytes);
            CHECK(memcmp(&alone.problems[0], &set.problems[k], sizeof(pegasos_linear)) == 0);
            CHECK(memcmp(&alone.weights, (char *)&set.weights + (size_t)k * bytes, bytes) == 0);
        }
    }
}

static void a_problem_stops_at_its_last_step_and_goes_on_from_there(void)
{
    static bench whole, parts;
    const pegasos_rows rows = rows_of_type(2);
    begin(&whole, 0, 0, 0);
    begin(&parts, 0, 0, 0);
    for (int k = 0; k < K; k++) {
        whole.problems[k].last_step = 40;
        parts.problems[k].last_step = 13 + k; /* each stops at another draw */
    }
    pegasos_linear_run(&rows, &whole.set, 0, DRAWS, draws);
    pegasos_linear_run(&rows, &parts.set, 0, DRAWS, draws);
    int64_t first = DRAWS;
    for (int k = 0; k < K; k++) {
        CHECK(parts.problems[k].n_steps == 13 + k);
        parts.problems[k].last_step = 40;
        if (parts.problems[k].next_draw < first)
            first = parts.problems[k].next_draw;
    }
    pegasos_linear_run(&rows, &parts.set, first, DRAWS - first, draws + first);
    CHECK(memcmp(whole.problems, parts.problems, sizeof whole.problems) == 0);
    CHECK(memcmp(&whole.weights, &parts.weights, sizeof whole.weights) == 0);
}

static void permutations_hold_every_row_once(void)
{
    const int64_t sampling[] = {PEGASOS_PERMUTATION, PEGASOS_CYCLIC};
    for (int s = 0; s < 2; s++) {
        int64_t permutation[N], stream[3 * N];
        pegasos_order order;
        pegasos_order_seek(&order, 5, N, sampling[s], 0, permutation);
        pegasos_order_draw(&order, permutation, 3 * N, stream);
        for (int epoch = 0; epoch < 3; epoch++) {
            int seen[N] = {0};
            for (int j = 0; j < N; j++)
                seen[stream[epoch * N + j]]++;
            for (int i = 0; i < N; i++)
                CHECK(seen[i] == 1);
        }
        const int repeated = memcmp(stream, stream + N, N * sizeof *stream) == 0;
        CHECK(repeated == (sampling[s] == PEGASOS_CYCLIC));
    }
}

static void scores_are_dot_products(void)
{
    static bench b;
    for (int type = 0; type < TYPES; type++) {
        const pegasos_rows rows = rows_of_type(type);
        double scores[(N - 3) * K];
        begin(&b, 0, 0, 0);
        pegasos_linear_run(&rows, &b.set, 0, DRAWS, draws);
        finish(&b, &rows);
        pegasos_linear_scores(&rows, 3, N - 3, K, b.coef, 8, 0, b.intercept, scores);
        for (int i = 3; i < N; i++)
            for (int k = 0; k < K; k++) {
                double expected = b.intercept[k];
                for (int j = 0; j < D; j++)
                    expected += b.coef[k * D + j] * dense_double[i * D + j];
                CHECK(fabs(scores[(i - 3) * K + k] - expected) < 1e-4);
            }
        const int64_t which[] = {N - 1, 3, 3, 5, 4};
        double some[5 * K];
        pegasos_linear_scores_of(&rows, 5, which, K, b.coef, 8, 0, b.intercept, some);
        for (int j = 0; j < 5; j++)
            CHECK(memcmp(some + j * K, scores + (which[j] - 3) * K, K * sizeof *some) == 0);
    }
}

/* Dual coordinate ascent climbs, keeps w = w(a), stays in its box, and gets to where no coordinate
 * can climb: y <w, x> >= 1 at a = 0, <= 1 at a = c, = 1 between. */
static void the_dual_is_climbed_to_its_top(void)
{
    for (int type = 0; type < TYPES; type++) {
        const pegasos_rows rows = rows_of_type(type);
        double norms[N], a[N] = {0}, w[D] = {0}, scratch[D] = {0}, bounds[N];
        int64_t active[N], n_active = 0;
        const double lam = 0.03, feature = 0.5;
        pegasos_linear_norms(&rows, 0, N, type < 2 ? NULL : scratch, norms);
        for (int i = 0; i < N; i++) {
            double norm = 0;
            for (int j = 0; j < D; j++)
                norm += dense_double[i * D + j] * dense_double[i * D + j];
            CHECK(fabs(norms[i] - norm) < 1e-9 * (1 + norm));
            if (labels[i] != 0) /* others are not in the problem */
                active[n_active++] = i;
            bounds[i] = i % 3 == 0 ? 0.5 : 2;
        }
        const pegasos_targets targets = targets_of(PEGASOS_HINGE, labels, bounds);
        pegasos_dual problem = {.scale = 1 / (lam * (double)N), .intercept_scaling = feature};
        pegasos_dual_start(&problem, n_active);
        double before = 0;
        for (int epoch = 0; epoch < 2000; epoch++) {
            /* in two pieces, which must not matter */
            const int64_t some =
                pegasos_dual_run(&rows, &problem, &targets, norms, active, a, w, 7);
            CHECK(some <= 7);
            while (pegasos_dual_run(&rows, &problem, &targets, norms, active, a, w, N) > 0)
                ;
            CHECK(problem.position == problem.n_active);
            double sum = 0, expected[D] = {0}, constant = 0, squared = 0;
            for (int i = 0; i < N; i++) {
                CHECK(0 <= a[i] && a[i] <= bounds[i]);
                sum += a[i];
                const double factor = problem.scale * a[i] * labels[i];
                pegasos_linear_combine(&rows, i, 1, &factor, expected);
                constant += factor * feature;
            }
            for (int j = 0; j < D; j++) {
                CHECK(fabs(expected[j] - w[j]) < 1e-9);
                squared += expected[j] * expected[j];
            }
            CHECK(fabs(constant - problem.constant_weight) < 1e-9);
            const double dual = sum / (double)N - lam / 2 * (squared + constant * constant);
            CHECK(dual >= before - 1e-12);
            before = dual;
            if (epoch % 20 == 19)
                pegasos_dual_start(&problem, n_active); /* everybody again */
            else
                pegasos_dual_begin_epoch(&problem);
        }
        const double intercept = problem.constant_weight * feature;
        double scores[N];
        pegasos_linear_scores(&rows, 0, N, 1, w, 8, 0, &intercept, scores);
        for (int i = 0; i < N; i++) {
            if (labels[i] == 0)
                continue;
            const double margin = labels[i] * scores[i];
            CHECK(a[i] >= bounds[i] || margin > 1 - 1e-6);
            CHECK(a[i] <= 0 || margin < 1 + 1e-6);
        }
    }
}

/* How columns are given to a kernel run: all at once, when they are wanted, or parts of them. */
enum { WHOLE, COLUMNS, PARTS };

/* A kernel matrix, and those of its columns that were asked for. */
typedef struct source {
    const void *gram;
    int64_t bytes, place[N], n_columns;
    char columns[N * N * sizeof(double)];
} source;

static int keep_columns(void *context, int64_t count, const int64_t *rows)
{
    source *of = context;
    const int64_t line = N * of->bytes;
    for (int64_t j = 0; j < count; j++) {
        CHECK(of->place[rows[j]] < 0);
        of->place[rows[j]] = of->n_columns++;
        memcpy(of->columns + of->place[rows[j]] * line, (const char *)of->gram + rows[j] * line,
               (size_t)line);
    }
    return 0;
}

static double value_at(const source *of, int64_t i, int64_t k)
{
    return of->bytes == 4 ? (double)((const float *)of->gram)[i * N + k]
                          : ((const double *)of->gram)[i * N + k];
}

static int write_among(void *context, int64_t count, const int64_t *rows, int64_t m,
                       const int64_t *which, int64_t stride, void *out)
{
    const source *of = context;
    for (int64_t j = 0; j < count; j++)
        for (int64_t k = 0; k < m; k++) {
            const double value = value_at(of, rows[j], which[k]);
            if (of->bytes == 4)
                ((float *)out)[j * stride + k] = (float)value;
            else
                ((double *)out)[j * stride + k] = value;
        }
    return 0;
}

static int write_scores(void *context, int64_t n_problems, const double *change, double *pushed)
{
    for (int64_t p = 0; p < n_problems; p++)
        for (int64_t i = 0; i < N; i++) {
            pushed[p * N + i] = 0;
            for (int64_t k = 0; k < N; k++)
                pushed[p * N + i] += change[p * N + k] * value_at(context, k, i);
        }
    return 0;
}

static pegasos_matrix matrix_of(source *of, const void *gram, int64_t bytes, int mode)
{
    *of = (source){.gram = gram, .bytes = bytes};
    for (int64_t i = 0; i < N; i++)
        of->place[i] = -1;
    for (int64_t i = 0; mode == WHOLE && i < N; i++)
        keep_columns(of, 1, &i);
    return (pegasos_matrix){.n_rows = N,
                            .value_bytes = bytes,
                            .n_columns = mode != PARTS ? N : 0,
                            .columns = of->columns,
                            .place = of->place,
                            .context = of,
                            .keep = mode == COLUMNS ? keep_columns : NULL,
                            .among = mode == WHOLE ? NULL : write_among,
                            .push = mode == PARTS ? write_scores : NULL};
}

static int stop_every_seventh(void *context, const pegasos_progress *progress)
{
    (void)progress;
    return ++*(int64_t *)context % 7 == 0;
}

/* Brings a kernel problem to a gap; `cut`: stopping at every poll. Returns its objective. */
static double kernel_objective(const void *gram, int64_t bytes, int mode, int is_free, int loss,
                               double tol, bool cut, double *coef)
{
    static source of;
    static double norms[N], a[N], scored[N], scores[N], slopes[N];
    static int64_t active[N];
    pegasos_kernel problem = {.lam = 0.02,
                              .tol = tol,
                              .feature = 0.7,
                              .free_intercept = is_free,
                              .is_positive = 1,
                              .last_epoch = 100000,
                              .generator = 5,
                              .primal = INFINITY,
                              .relative_gap = INFINITY};
    const pegasos_matrix matrix = matrix_of(&of, gram, bytes, mode);
    const int64_t n_columns = matrix.n_columns;
    const pegasos_targets targets = targets_of(loss, labels, NULL);
    for (int64_t i = 0; i < N; i++) {
        norms[i] = value_at(&of, i, i);
        a[i] = scored[i] = scores[i] = 0;
        problem.n_inside += labels[i] != 0;
    }
    problem.mass = (double)problem.n_inside;
    int64_t n_polls = 0;
    pegasos_watch watch = {
        .poll = stop_every_seventh, .context = &n_polls, .every = cut ? 1 : 1e18};
    int status;
    do {
        const pegasos_kernel_arrays arrays = {
            .targets = &targets,
            .norms = norms,
            .a = a,
            .scored = scored,
            .scores = scores,
            .slopes = slopes,
            .coef = coef,
            .active = active,
            .work = malloc((size_t)pegasos_kernel_work(N, bytes, n_columns))};
        status = pegasos_kernel_run(&matrix, &problem, &arrays, &watch);
        free(arrays.work);
        for (int64_t i = 0; i < N; i++)
            CHECK(labels[i] == 0 ? a[i] == 0 : a[i] >= 0 && (loss != PEGASOS_HINGE || a[i] <= 1));
    } while (status == PEGASOS_STOPPED);
    CHECK(status == PEGASOS_DONE && problem.relative_gap <= tol);
    CHECK(problem.n_steps == problem.n_inside);
    return problem.primal;
}

static void make_gram(double *gram, float *narrow)
{
    for (int64_t i = 0; i < N; i++)
        for (int64_t k = 0; k < N; k++) {
            gram[i * N + k] = 0;
            for (int64_t j = 0; j < D; j++)
                gram[i * N + k] += dense_double[i * D + j] * dense_double[k * D + j];
            narrow[i * N + k] = (float)gram[i * N + k];
        }
}

/* Wherever it is cut, with the same bits; and however kernel values come, to the same optimum. */
static void kernel_problems_are_solved(void)
{
    static double gram[N * N], coef[N], cut[N];
    static float narrow[N * N];
    make_gram(gram, narrow);
    for (int is_free = 0; is_free < 2; is_free++)
        for (int loss = 0; loss < 2; loss++) {
            const double whole = kernel_objective(gram, 8, WHOLE, is_free, loss, 1e-9, false, coef);
            for (int mode = WHOLE; mode <= PARTS; mode++) {
                double once = kernel_objective(gram, 8, mode, is_free, loss, 1e-9, false, coef);
                CHECK(fabs(once - whole) <= 2e-9 * whole);
                CHECK(kernel_objective(gram, 8, mode, is_free, loss, 1e-9, true, cut) == once);
                CHECK(memcmp(coef, cut, sizeof coef) == 0);
                once = kernel_objective(narrow, 4, mode, is_free, loss, 1e-4, false, coef);
                CHECK(fabs(once - whole) <= 2e-4 * whole);
            }
        }
}

/* What K kernel problems own. */
typedef struct kernel_bench {
    bench own;
    double beta[K * N], sums[K * N], scores[K * N], unpushed[K * N], slopes[K * BATCH];
} kernel_bench;

/* Polls that stop a run, further and further apart: a block that was stopped is begun again. */
typedef struct stops {
    int64_t n_polls, next, apart;
} stops;

static int stop_now_and_then(void *context, const pegasos_progress *progress)
{
    stops *s = context;
    (void)progress;
    if (++s->n_polls < s->next)
        return 0;
    s->next += ++s->apart;
    return 1;
}

static void train_kernel(kernel_bench *b, const void *gram, int64_t bytes, int mode, int settings,
                         bool cut)
{
    static source of;
    enum { SEED = 3 };
    const pegasos_matrix matrix = matrix_of(&of, gram, bytes, mode);
    const int is_squared = settings / 8;
    stops when = {.next = 1};
    pegasos_watch watch = {.poll = stop_now_and_then, .context = &when, .every = cut ? 1 : 1e18};
    int64_t permutation[N];
    pegasos_order order;
    pegasos_order_seek(&order, SEED, N, PEGASOS_PERMUTATION, 0, permutation);
    const pegasos_draws stream = {.order = &order, .permutation = permutation};
    memset(b, 0, sizeof *b);
    begin(&b->own, settings & 1 ? (is_squared ? 0.5 : 1) : 0, settings / 2 & 1, settings / 4 & 1);
    pegasos_linear_set *set = &b->own.set;
    set->weights = b->beta;
    set->sums = b->sums;
    set->slopes = b->slopes;
    set->targets.loss.kind = is_squared;
    for (int k = 0; k < K; k++) {
        b->own.problems[k].last_step = 300 + 40 * k; /* blocks of 64, 128, ... draws */
        b->own.problems[k].delay = is_squared ? 200 : 0;
    }
    int status;
    do {
        void *work = malloc((size_t)pegasos_kernel_train_work(&matrix, set));
        status = pegasos_kernel_train(&matrix, set, b->scores, b->unpushed, &stream, work, &watch);
        free(work);
    } while (status == PEGASOS_STOPPED);
    CHECK(status == PEGASOS_DONE);
}

/* Wherever it is cut, with the same bits; and however kernel values come, that of the linear kernel
 * is linear Pegasos. */
static void kernel_pegasos_is_pegasos(void)
{
    static double gram[N * N];
    static float narrow[N * N];
    static kernel_bench whole, cut;
    static bench linear;
    const pegasos_rows rows = rows_of_type(1);
    const pegasos_draws list = {.count = 0};
    int64_t permutation[N];
    pegasos_order order;
    make_gram(gram, narrow);
    for (int settings = 0; settings < 16; settings++)
        for (int mode = WHOLE; mode <= PARTS; mode++)
            for (int64_t bytes = 4; bytes <= 8; bytes += 4) {
                const void *matrix = bytes == 8 ? (void *)gram : (void *)narrow;
                const double tolerance = bytes == 8 ? 1e-9 : 1e-3;
                train_kernel(&whole, matrix, bytes, mode, settings, false);
                train_kernel(&cut, matrix, bytes, mode, settings, true);
                CHECK(memcmp(whole.own.problems, cut.own.problems, sizeof cut.own.problems) == 0);
                CHECK(memcmp(whole.own.counts, cut.own.counts, sizeof cut.own.counts) == 0);
                CHECK(memcmp(whole.beta, cut.beta, sizeof cut.beta) == 0);
                CHECK(memcmp(whole.sums, cut.sums, sizeof cut.sums) == 0);
                if (bytes == 4)
                    continue; /* decisions may differ by rounding */
                begin(&linear, whole.own.problems[0].ball, settings / 2 & 1, settings / 4 & 1);
                double slopes[K * BATCH];
                linear.set.slopes = slopes;
                linear.set.targets.loss = whole.own.set.targets.loss;
                for (int k = 0; k < K; k++) {
                    linear.problems[k].last_step = whole.own.problems[k].last_step;
                    linear.problems[k].delay = whole.own.problems[k].delay;
                }
                pegasos_order_seek(&order, 3, N, PEGASOS_PERMUTATION, 0, permutation);
                pegasos_draws stream = list;
                stream.order = &order;
                stream.permutation = permutation;
                pegasos_watch nobody = {.every = 1e18};
                CHECK(pegasos_linear_train(&rows, &linear.set, &stream, &nobody) == PEGASOS_DONE);
                finish(&linear, &rows);
                for (int k = 0; k < K; k++) {
                    double coef[N], intercept;
                    pegasos_linear_model(&whole.own.problems[k], N, 8, whole.beta + k * N,
                                         whole.sums + k * N, coef, &intercept);
                    CHECK(fabs(intercept - linear.intercept[k]) <= tolerance);
                    for (int j = 0; j < D; j++) {
                        double w = 0;
                        for (int i = 0; i < N; i++)
                            w += coef[i] * dense_double[i * D + j];
                        CHECK(fabs(w - linear.coef[k * D + j]) <= tolerance);
                    }
                }
            }
}

static void the_certificate_is_the_textbook_s(void)
{
    double scores[N], room[4 * N], a[N], bounds[N];
    for (int i = 0; i < N; i++) {
        scores[i] = sin(i);
        bounds[i] = i % 3 == 0 ? 0.5 : 2;
        a[i] = 3 * cos(i);
    }
    const pegasos_targets targets = targets_of(PEGASOS_HINGE, labels, bounds);
    const double whole = pegasos_loss_sum(&targets, 0, N, scores, 1, 0);
    const double cut = pegasos_loss_sum(&targets, 0, 7, scores, 1, 0);
    CHECK(pegasos_loss_sum(&targets, 7, N - 7, scores + 7, 1, cut) == whole);
    /* The best intercept: no place where a row meets its margin is better. */
    const double best = pegasos_best_intercept(&targets, scores, room);
    double least = INFINITY, at_best = 0;
    for (int j = -1; j < N; j++) {
        double sum = 0;
        const double b = j < 0 ? best : labels[j] - scores[j];
        for (int i = 0; i < N; i++)
            sum += labels[i] ? bounds[i] * fmax(0, 1 - labels[i] * (scores[i] + b)) : 0;
        at_best = j < 0 ? sum : at_best;
        least = sum < least ? sum : least;
    }
    CHECK(at_best <= least + 1e-12);
    double balance = 0, sum = 0;
    pegasos_make_feasible(&targets, 1, a, a);
    for (int i = 0; i < N; i++) {
        CHECK(0 <= a[i] && a[i] <= bounds[i] && (labels[i] || a[i] == 0));
        balance += a[i] * labels[i];
        sum += a[i];
    }
    CHECK(sum > 1 && fabs(balance) < 1e-12);
    const double squared = 40, lam = 0.3, dual = sum / N - lam / 2 * squared;
    CHECK(fabs(pegasos_best_dual(&targets, a, squared, N, lam, 0) - dual) < 1e-12);
    const double scaled = pegasos_best_dual(&targets, a, squared, N, lam, 1);
    for (int j = 0; j <= 100; j++) /* every multiple up to 1 is feasible */
        CHECK(j * 0.01 * sum / N - j * j * 1e-4 * lam / 2 * squared <= scaled + 1e-12);
    scores[3] = INFINITY;
    CHECK(isnan(pegasos_loss_sum(&targets, 0, N, scores, 1, 0)));
}

/* A run by dual ascent, and all that belongs to it. */
typedef struct ascent_bench {
    pegasos_dual problem;
    pegasos_ascent ascent;
    double norms[N], a[N], w[D], sums[D + 1], coef[D], point[D], scores[N], room[4 * N];
    int64_t active[N];
} ascent_bench;

static void begin_ascent(ascent_bench *b, const pegasos_rows *rows, const int8_t *y,
                         int free_intercept, double tol, int64_t last_epoch)
{
    double scratch[D] = {0};
    const double lam = 0.03, feature = 0.5;
    memset(b, 0, sizeof *b);
    pegasos_linear_norms(rows, 0, N, rows->index_bytes == 0 ? NULL : scratch, b->norms);
    for (int i = 0; i < N; i++)
        if (y[i] != 0)
            b->active[b->ascent.n_inside++] = i;
    const double m = (double)b->ascent.n_inside;
    b->ascent.lam = lam;
    b->ascent.mass = m;
    b->ascent.tol = tol;
    b->ascent.last_epoch = last_epoch;
    b->ascent.free_intercept = free_intercept;
    b->ascent.estimate = b->ascent.estimate_at_check = INFINITY;
    b->ascent.primal = b->ascent.relative_gap = INFINITY;
    b->problem.scale = 1 / (lam * m);
    b->problem.intercept_scaling = feature;
    pegasos_dual_start(&b->problem, b->ascent.n_inside);
    b->problem.pegasos_mass = m; /* the first epoch is Pegasos */
}

/* A poll that stops every time. */
static int stop(void *n_polls, const pegasos_progress *progress)
{
    CHECK(progress->n_epochs >= 0 && progress->objective > 0 && progress->relative_gap >= 0);
    ++*(int64_t *)n_polls;
    return 1;
}

/* To the end of the run, asked each time that so many numbers were read; how many calls that took.
 */
static int64_t end_ascent(ascent_bench *b, const pegasos_rows *rows, const int8_t *y, double every)
{
    const pegasos_targets targets = targets_of(PEGASOS_HINGE, y, NULL);
    const pegasos_ascent_arrays x = {.targets = &targets,
                                     .norms = b->norms,
                                     .active = b->active,
                                     .a = b->a,
                                     .w = b->w,
                                     .sums = b->sums,
                                     .coef = b->coef,
                                     .point = b->point,
                                     .scores = b->scores,
                                     .room = b->room};
    int64_t status = PEGASOS_STOPPED, calls = 0, n_polls = 0;
    for (; status == PEGASOS_STOPPED; calls++) {
        pegasos_watch watch = {
            .poll = stop, .context = &n_polls, .every = every * (double)(1 + calls)};
        status = pegasos_ascent_run(rows, &b->problem, &b->ascent, &x, &watch);
    }
    CHECK(status == PEGASOS_DONE && calls == n_polls + 1);
    return calls;
}

static int64_t ascend(ascent_bench *b, const pegasos_rows *rows, int free_intercept, double tol,
                      int64_t last_epoch, double every)
{
    begin_ascent(b, rows, labels, free_intercept, tol, last_epoch);
    return end_ascent(b, rows, labels, every);
}

/* The objective of its model, computed afresh. */
static double objective_of(const ascent_bench *b, const pegasos_rows *rows, const int8_t *y)
{
    double scores[N], norm = 0;
    const double intercept = b->ascent.intercept;
    const pegasos_targets targets = targets_of(PEGASOS_HINGE, y, NULL);
    pegasos_linear_scores(rows, 0, N, 1, b->coef, 8, 0, &intercept, scores);
    const double loss = pegasos_loss_sum(&targets, 0, N, scores, 1, 0);
    for (int j = 0; j < D; j++)
        norm += b->coef[j] * b->coef[j];
    norm += b->ascent.free_intercept ? 0 : 4 * intercept * intercept;
    return 0.015 * norm + loss / b->ascent.mass;
}

static void a_run_of_dual_ascent_ends_at_a_true_gap(void)
{
    for (int type = 0; type < TYPES; type++)
        for (int free_intercept = 0; free_intercept < 2; free_intercept++) {
            static ascent_bench whole, cut;
            const pegasos_rows rows = rows_of_type(type);
            CHECK(ascend(&whole, &rows, free_intercept, 1e-6, 100000, 1e12) == 1);
            CHECK(ascend(&cut, &rows, free_intercept, 1e-6, 100000, 1) > 100);
            CHECK(memcmp(&whole, &cut, sizeof whole) == 0); /* wherever it is cut */
            const double primal = objective_of(&whole, &rows, labels);
            CHECK(fabs(primal - whole.ascent.primal) < 1e-9 * primal);
            CHECK(whole.ascent.relative_gap <= 1e-6);
            CHECK(ascend(&cut, &rows, free_intercept, 1e-12, 100000, 1e12) == 1);
            CHECK(cut.ascent.primal <= primal && primal <= cut.ascent.primal * (1 + 1e-6));
            /* After an epoch of Pegasos, w is w(a), though each step took w to be longer. */
            double w[D] = {0}, change = 0;
            ascend(&cut, &rows, free_intercept, -1, 1, 1e12);
            for (int i = 0; i < N; i++) {
                const double factor = cut.problem.scale * cut.a[i] * labels[i];
                pegasos_linear_combine(&rows, i, 1, &factor, w);
            }
            for (int j = 0; j < D; j++) {
                CHECK(fabs(w[j] - cut.w[j]) < 1e-12);
                change += fabs(w[j]);
            }
            CHECK(change > 0 && cut.problem.pegasos_mass == 0);
            /* Without a tolerance, by the number of epochs; 0 epochs are 0 epochs. */
            for (int64_t epochs = 0; epochs < 4; epochs++) {
                ascend(&cut, &rows, free_intercept, -1, epochs, 300);
                CHECK(cut.ascent.n_epochs == epochs && isfinite(cut.ascent.primal));
            }
        }
}

/* K problems that begin together, for up to `epochs` epochs; how many calls that took. */
static int64_t begin_together(ascent_bench *b, const pegasos_rows *rows, int64_t epochs,
                              double every)
{
    enum { MOST = PEGASOS_BUNDLE_BYTES / sizeof(float) };
    int8_t signs[N * MOST] = {0};
    double a[N * MOST] = {0}, v[D * 8] = {0}, sums[(D + 1) * 8] = {0};
    const int64_t bytes = rows->value_bytes, lanes = PEGASOS_BUNDLE_BYTES / bytes;
    int64_t permutation[N], inside[N], status = PEGASOS_STOPPED, calls = 0, n_polls = 0;
    pegasos_dual problems[K];
    pegasos_ascent ascents[K];
    pegasos_order order;
    pegasos_order_seek(&order, 3, N, PEGASOS_PERMUTATION, 0, permutation);
    for (int i = 0; i < N; i++) {
        inside[i] = i;
        for (int k = 0; k < K; k++)
            signs[i * lanes + k] = labels[k * N + i];
    }
    for (int k = 0; k < K; k++) {
        problems[k] = b[k].problem;
        problems[k].factor = 1;
        ascents[k] = b[k].ascent;
        ascents[k].part = PEGASOS_BUNDLE;
    }
    const pegasos_bundle bundle = {.n_problems = K,
                                   .last_epoch = epochs,
                                   .problems = problems,
                                   .ascents = ascents,
                                   .targets = targets_of(PEGASOS_HINGE, signs, NULL),
                                   .norms = b->norms,
                                   .a = a,
                                   .v = v,
                                   .sums = sums,
                                   .inside = inside,
                                   .n_inside = N,
                                   .order = &order,
                                   .permutation = permutation};
    for (; status == PEGASOS_STOPPED; calls++) {
        pegasos_watch watch = {.poll = stop, .context = &n_polls, .every = every};
        status = pegasos_bundle_run(rows, &bundle, &watch);
    }
    CHECK(status == PEGASOS_DONE);
    for (int k = 0; k < K; k++) {
        CHECK(ascents[k].part == PEGASOS_WEIGHTS && ascents[k].place == 0);
        b[k].problem = problems[k];
        b[k].ascent = ascents[k];
        for (int i = 0; i < N; i++)
            b[k].a[i] = a[i * lanes + k];
        for (int64_t j = 0; j <= D; j++) {
            const int64_t at = j * lanes + k;
            b[k].sums[j] = bytes == 4 ? (double)((float *)sums)[at] : sums[at];
            if (j < D)
                b[k].w[j] = bytes == 4 ? (double)((float *)v)[at] : v[at];
        }
    }
    return calls;
}

static void problems_that_begin_together_end_at_true_gaps(void)
{
    for (int type = 0; type < TYPES; type++)
        for (int variant = 0; variant < 6; variant++) {
            static ascent_bench whole[K], cut[K], alone;
            const pegasos_rows rows = rows_of_type(type);
            const int free_intercept = variant % 2, has_tol = variant < 4;
            const int64_t epochs = variant < 2 ? 8 : 1, last = has_tol ? 100000 : epochs;
            for (int k = 0; k < K; k++) {
                const double tol = has_tol ? 1e-6 : -1;
                begin_ascent(&whole[k], &rows, labels + k * N, free_intercept, tol, last);
                begin_ascent(&cut[k], &rows, labels + k * N, free_intercept, tol, last);
            }
            CHECK(begin_together(whole, &rows, epochs, 1e12) == 1);
            CHECK(begin_together(cut, &rows, epochs, 1) > epochs);
            for (int k = 0; k < K; k++) {
                const int8_t *y = labels + k * N;
                CHECK(end_ascent(&whole[k], &rows, y, 1e12) == 1);
                end_ascent(&cut[k], &rows, y, 1);
                CHECK(memcmp(&whole[k], &cut[k], sizeof cut[k]) == 0);
                const double primal = objective_of(&whole[k], &rows, y);
                CHECK(fabs(primal - whole[k].ascent.primal) < 1e-9 * primal);
                CHECK(whole[k].ascent.n_steps == whole[k].ascent.n_inside);
                if (!has_tol) {
                    CHECK(whole[k].ascent.n_epochs == epochs);
                    continue;
                }
                CHECK(whole[k].ascent.relative_gap <= 1e-6);
                begin_ascent(&alone, &rows, y, free_intercept, 1e-9, 100000);
                end_ascent(&alone, &rows, y, 1e12);
                CHECK(alone.ascent.primal <= primal * (1 + 1e-9));
                CHECK(primal <= alone.ascent.primal * (1 + 1e-6));
            }
        }
}

/* Numbers that the memory of a fit has room for. */
enum { MEMORY = 100 * N + 100 * D + 30000 };

/* A fit that is stopped again and again, and moved in memory; how many calls that took. */
static int64_t fit_in_parts(const pegasos_problem *problem, const pegasos_options *options,
                            double *memory, pegasos_solution *solution)
{
    static double moved[MEMORY];
    const size_t bytes = (size_t)pegasos_memory(problem);
    int64_t status = PEGASOS_STOPPED, calls = 0, n_polls = 0;
    CHECK(bytes <= sizeof moved);
    for (; status == PEGASOS_STOPPED; calls++) {
        pegasos_options part = *options;
        part.poll = stop;
        part.context = &n_polls;
        part.poll_every = pow(1.02, (double)calls); /* transactions are to come to their end */
        part.resume = calls > 0;
        memcpy(moved, memory, bytes);
        memset(memory, 0xff, bytes);
        status = pegasos_solve(problem, &part, moved, solution);
        memcpy(memory, moved, bytes);
    }
    CHECK(status == PEGASOS_DONE);
    return calls;
}

/* A whole fit from C: wherever it is stopped it ends with the same bits, and its gap is that of its
 * model. */
static void a_whole_fit_is_certified(void)
{
    static double whole_memory[MEMORY], cut_memory[MEMORY];
    double weights[N], targets[N];
    for (int i = 0; i < N; i++) {
        weights[i] = 1 + i % 3;
        targets[i] = labels[i];
    }
    for (int type = 0; type < TYPES; type++)
        for (int kind = 0; kind < 18; kind++) {
            const bool is_squared = kind % 6 >= 3;
            const pegasos_rows rows = rows_of_type(type);
            const pegasos_problem problem = {.rows = &rows,
                                             .targets = targets,
                                             .weights = type % 2 ? weights : NULL,
                                             .lam = 0.03,
                                             .intercept_scaling = kind % 3 == 1 ? 0.5 : 0,
                                             .free_intercept = kind % 3 == 2,
                                             .loss.kind = is_squared ? PEGASOS_SQUARED_HINGE
                                                                     : PEGASOS_HINGE};
            const pegasos_options options = {
                .tol = 1e-6, .max_epochs = 100000, .seed = 7, .solver = kind / 6};
            const int64_t bytes = pegasos_memory(&problem);
            pegasos_solution whole, cut;
            CHECK(bytes <= (int64_t)sizeof whole_memory);
            CHECK(pegasos_solve(&problem, &options, whole_memory, &whole) == PEGASOS_DONE);
            CHECK(fit_in_parts(&problem, &options, cut_memory, &cut) > 100);
            const double *w = whole.coef, *a = whole.dual_variables;
            CHECK(memcmp(w, cut.coef, D * sizeof *w) == 0);
            CHECK(memcmp(a, cut.dual_variables, N * sizeof *a) == 0);
            CHECK(whole.n_epochs == cut.n_epochs && whole.objective == cut.objective);
            double scores[N], loss = 0, norm = 0, mass = 0, highest = 0;
            const double b = whole.intercept;
            pegasos_linear_scores(&rows, 0, N, 1, w, 8, 0, &b, scores);
            for (int i = 0; i < N; i++) {
                const double c = problem.weights ? weights[i] : 1, u = 1 - labels[i] * scores[i];
                mass += labels[i] ? c : 0;
                loss += labels[i] && u > 0 ? c * (is_squared ? u * u : u) : 0;
                highest = fmax(highest, a[i] / c);
                CHECK(0 <= a[i]);
            }
            CHECK(is_squared == (highest > 1));
            for (int j = 0; j < D; j++)
                norm += w[j] * w[j];
            norm += kind % 3 == 1 ? 4 * b * b : 0;
            const double primal = 0.015 * norm + loss / mass;
            CHECK(kind % 3 > 0 || b == 0);
            CHECK(fabs(primal - whole.objective) < 1e-9 * primal);
            CHECK(whole.relative_gap <= 1e-6);
            CHECK(whole.dual_objective <= whole.objective);
        }
}

/* Bits and objectives of fits of one problem after the other in the same memory: other lambdas,
 * other weights, other solvers; whether they are stopped at every poll or not. */
static void solve_after(const pegasos_problem *problem, const pegasos_options *options,
                        const int8_t *y, const double *norms, void *memory, void *room, bool is_cut,
                        int64_t *n_polls)
{
    pegasos_options own = *options;
    own.poll = is_cut ? stop : NULL;
    own.context = n_polls;
    own.poll_every = 1;
    while (pegasos_solve_one(problem, &own, y, norms, memory, room) == PEGASOS_STOPPED) {
        own.poll_every *= 1.05; /* so that transactions come to their end */
        CHECK(pegasos_memory_is_valid(problem, N, D, problem->rows->value_bytes, memory, 1));
    }
}

static void a_fit_goes_on_where_the_last_one_ended(void)
{
    static double whole_memory[MEMORY], cut_memory[MEMORY], alone_memory[MEMORY], room[MEMORY];
    double weights[N], heavier[N], norms[N], sums[D];
    for (int i = 0; i < N; i++) {
        weights[i] = 1 + i % 3;
        heavier[i] = labels[i] > 0 ? 2 * weights[i] : weights[i];
    }
    for (int type = 0; type < TYPES; type++)
        for (int kind = 0; kind < 18; kind++) {
            const pegasos_rows rows = rows_of_type(type);
            pegasos_problem problem = {.rows = &rows,
                                       .weights = weights,
                                       .lam = 0.1,
                                       .intercept_scaling = kind % 3 == 1 ? 0.5 : 0,
                                       .free_intercept = kind % 3 == 2,
                                       .loss.kind =
                                           kind % 6 >= 3 ? PEGASOS_SQUARED_HINGE : PEGASOS_HINGE};
            pegasos_options options = {
                .tol = 1e-6, .max_epochs = 1000000, .seed = 7, .solver = kind / 6};
            int64_t n_polls = 0;
            memset(sums, 0, sizeof sums);
            pegasos_linear_norms(&rows, 0, N, sums, norms);
            memset(whole_memory, 0, sizeof whole_memory);
            memset(cut_memory, 0, sizeof cut_memory);
            for (int step = 0; step < 6; step++) {
                pegasos_solution whole, cut, alone;
                problem.lam = (const double[]){0.1, 0.03, 0.01, 0.05, 0.05, 0.05}[step];
                if (step == 4) { /* other data: weights */
                    problem.weights = heavier;
                    pegasos_set_pending(whole_memory, PEGASOS_BEGIN_AT_POINT);
                    pegasos_set_pending(cut_memory, PEGASOS_BEGIN_AT_POINT);
                } else if (step == 5) { /* it is said that they may be others, but they are not */
                    pegasos_set_pending(whole_memory, PEGASOS_CHECK_DATA);
                    pegasos_set_pending(cut_memory, PEGASOS_CHECK_DATA);
                    options.solver =
                        options.solver == PEGASOS_ASCENT ? PEGASOS_NEWTON : PEGASOS_ASCENT;
                }
                solve_after(&problem, &options, labels, norms, whole_memory, room, false, &n_polls);
                solve_after(&problem, &options, labels, norms, cut_memory, room, true, &n_polls);
                pegasos_found(N, D, whole_memory, &whole);
                pegasos_found(N, D, cut_memory, &cut);
                CHECK(memcmp(whole.coef, cut.coef, D * sizeof *whole.coef) == 0);
                CHECK(memcmp(whole.dual_variables, cut.dual_variables, N * sizeof(double)) == 0);
                CHECK(whole.n_epochs == cut.n_epochs && whole.objective == cut.objective);
                CHECK(whole.relative_gap <= 1e-6);
                memset(alone_memory, 0, sizeof alone_memory);
                solve_after(&problem, &options, labels, norms, alone_memory, room, false, &n_polls);
                pegasos_found(N, D, alone_memory, &alone);
                CHECK(fabs(whole.objective - alone.objective) <= 1.1e-6 * alone.objective);
            }
            CHECK(n_polls > 100);
        }
}

/* ---- Kernel machines of C programs ----------------------------------------------------------- */

/* Rows, and what is to go wrong when values between them are asked for. */
typedef struct points {
    const double *x;
    int64_t n, d;
    bool is_linear; /* or rational: 1/(1 + |x - z|^2) */
    int64_t stops, breaks;
    int64_t n_calls, n_values;
} points;

static double kernel_of(const points *p, int64_t i, int64_t j)
{
    double product = 0, distance = 0;
    for (int64_t k = 0; k < p->d; k++) {
        const double x = p->x[i * p->d + k], z = p->x[j * p->d + k];
        product += x * z;
        distance += (x - z) * (x - z);
    }
    return p->is_linear ? product : 1 / (1 + distance);
}

static int write_values(void *context, int64_t count, const int64_t *rows, int64_t m,
                        const int64_t *others, double *out)
{
    points *const p = context;
    CHECK(1 <= count && count <= 64 && 1 <= m && m <= 256);
    p->n_calls++;
    p->n_values += count * m;
    for (int64_t j = 0; j < count; j++)
        for (int64_t k = 0; k < m; k++) {
            if (rows[j] < 0 || rows[j] >= p->n || others[k] < 0 || others[k] >= p->n)
                return 1;
            out[j * m + k] = kernel_of(p, rows[j], others[k]);
        }
    if (p->n_calls == p->breaks)
        out[count * m - 1] = INFINITY;
    return p->n_calls == p->stops;
}

/* P and the highest D of multiples of the dual variables, from all kernel values: what was found is
 * that P, and no bound above that D. */
static void check_kernel_machine(const pegasos_problem *problem, const pegasos_solution *found,
                                 double tol)
{
    const points *const p = problem->kernel->context;
    const double feature = problem->intercept_scaling, lam = problem->lam;
    const bool is_squared = problem->loss.kind == PEGASOS_SQUARED_HINGE;
    double mass = 0, losses = 0, norm = 0, dual_norm = 0, sum = 0, balance = 0, most = INFINITY;
    double smoothing = 0;
    for (int64_t i = 0; i < p->n; i++)
        mass += problem->targets[i] == 0 ? 0 : problem->weights ? problem->weights[i] : 1;
    for (int64_t i = 0; i < p->n; i++) {
        const double y = problem->targets[i], a = found->dual_variables[i];
        const double c = y == 0 ? 0 : problem->weights ? problem->weights[i] : 1;
        double score = 0, dual_score = 0;
        for (int64_t j = 0; j < p->n; j++) {
            const double value = kernel_of(p, i, j);
            score += found->coef[j] * value;
            dual_score += found->dual_variables[j] * problem->targets[j] / (lam * mass) * value;
        }
        norm += found->coef[i] * score;
        dual_norm += a * y / (lam * mass) * dual_score;
        const double u = 1 - y * (score + found->intercept);
        losses += u > 0 ? c * (is_squared ? u * u : u) : 0;
        sum += a;
        balance += a * y;
        CHECK(c > 0 ? a >= 0 && (is_squared || a <= c) : a == 0 && found->coef[i] == 0);
        most = !is_squared && a > 0 ? fmin(most, c / a) : most;
        smoothing += is_squared && c > 0 ? a * a / (4 * c) : 0;
    }
    if (problem->free_intercept)
        CHECK(fabs(balance) <= 1e-9 * sum);
    else if (feature > 0) {
        norm += found->intercept / feature * (found->intercept / feature);
        dual_norm += feature * balance / (lam * mass) * (feature * balance / (lam * mass));
    } else
        CHECK(found->intercept == 0);
    const double primal = lam / 2 * norm + losses / mass;
    const double curvature = lam / 2 * dual_norm + smoothing / mass;
    const double multiple = curvature > 0 ? fmin(sum / mass / (2 * curvature), most) : 0;
    const double dual = multiple * (sum / mass) - multiple * multiple * curvature;
    CHECK(fabs(primal - found->objective) <= 1e-9 * primal);
    CHECK(found->dual_objective <= dual + 1e-9 * primal);
    CHECK(dual <= primal + 1e-9 * primal);
    CHECK(primal - dual <= tol * primal + 1e-9 * primal);
    CHECK(found->relative_gap <= tol);
}

static void check_same_machines(const pegasos_solution *one, const pegasos_solution *other,
                                int64_t n)
{
    const size_t bytes = (size_t)n * sizeof(double);
    CHECK(memcmp(one->coef, other->coef, bytes) == 0);
    CHECK(memcmp(one->dual_variables, other->dual_variables, bytes) == 0);
    CHECK(one->intercept == other->intercept && one->objective == other->objective);
    CHECK(one->dual_objective == other->dual_objective && one->n_epochs == other->n_epochs);
}

/* All losses and intercepts, with weights and without, stopped or not. A row without weight is
 * outside, and a machine whose kernel is <x, z> is the linear machine. */
static void kernel_machines_are_certified(void)
{
    static double memory[MEMORY], other[MEMORY];
    double weights[N], targets[N], left_out[N];
    for (int i = 0; i < N; i++) {
        weights[i] = i % 4;
        targets[i] = labels[i];
    }
    for (int kind = 0; kind < 24; kind++) {
        points all = {.x = dense_double, .n = N, .d = D, .is_linear = kind < 12};
        const pegasos_kernel_matrix kernel = {.n_rows = N, .values = write_values, .context = &all};
        const double tol = kind % 2 ? 1e-6 : 1e-3;
        pegasos_problem problem = {.kernel = &kernel,
                                   .targets = targets,
                                   .weights = kind % 12 >= 6 ? weights : NULL,
                                   .lam = 0.03,
                                   .intercept_scaling = kind % 3 == 1 ? 0.5 : 0,
                                   .free_intercept = kind % 3 == 2,
                                   .loss.kind =
                                       kind % 6 >= 3 ? PEGASOS_SQUARED_HINGE : PEGASOS_HINGE};
        const pegasos_options options = {
            .tol = tol, .max_epochs = 10000, .seed = 3, .solver = kind % 2};
        pegasos_solution whole, cut, linear;
        CHECK(pegasos_memory(&problem) <= (int64_t)sizeof memory);
        CHECK(pegasos_check(&problem, &options) == PEGASOS_DONE);
        CHECK(pegasos_solve(&problem, &options, memory, &whole) == PEGASOS_DONE);
        check_kernel_machine(&problem, &whole, tol);
        CHECK(whole.n_epochs == whole.epochs[PEGASOS_ASCENT] && whole.n_steps > 0);
        CHECK(fit_in_parts(&problem, &options, other, &cut) > 100);
        check_same_machines(&whole, &cut, N);
        for (int i = 0; i < N; i++)
            left_out[i] = weights[i] > 0 ? targets[i] : 0;
        if (problem.weights) {
            problem.targets = left_out;
            CHECK(pegasos_solve(&problem, &options, other, &cut) == PEGASOS_DONE);
            check_same_machines(&whole, &cut, N);
            problem.targets = targets;
        }
        if (all.is_linear) {
            const pegasos_rows rows = {
                .n_rows = N, .n_features = D, .value_bytes = 8, .values = dense_double};
            problem.kernel = NULL;
            problem.rows = &rows;
            CHECK(pegasos_solve(&problem, &options, other, &linear) == PEGASOS_DONE);
            CHECK(linear.dual_objective <= whole.objective);
            CHECK(whole.dual_objective <= linear.objective);
        }
    }
}

/* `values` may end a fit at any of its calls. */
static void a_kernel_may_stop_a_fit(void)
{
    static double memory[MEMORY], other[MEMORY];
    double targets[N];
    points all = {.x = dense_double, .n = N, .d = D};
    const pegasos_kernel_matrix kernel = {.n_rows = N, .values = write_values, .context = &all};
    const pegasos_problem problem = {
        .kernel = &kernel, .targets = targets, .lam = 0.03, .free_intercept = 1};
    const pegasos_options options = {.tol = 1e-6, .max_epochs = 10000};
    pegasos_options rest = options;
    pegasos_solution whole, cut;
    rest.resume = 1;
    for (int i = 0; i < N; i++)
        targets[i] = labels[i];
    CHECK(pegasos_solve(&problem, &options, memory, &whole) == PEGASOS_DONE);
    const int64_t n_calls = all.n_calls;
    for (int64_t call = 1; call <= n_calls; call++)
        for (int breaks = 0; breaks < 2; breaks++) {
            all.n_calls = 0;
            all.stops = breaks ? 0 : call;
            all.breaks = breaks ? call : 0;
            const int status = pegasos_solve(&problem, &options, other, &cut);
            CHECK(status == (breaks ? PEGASOS_OVERFLOW : PEGASOS_STOPPED));
            CHECK(cut.dual_objective <= whole.objective && whole.dual_objective <= cut.objective);
            CHECK(pegasos_solve(&problem, &rest, other, &cut) == PEGASOS_DONE);
            check_same_machines(&whole, &cut, N);
        }
    all.n_calls = 0;
    all.stops = 1;
    CHECK(pegasos_check(&problem, &options) == PEGASOS_STOPPED);
}

/* A gap of 0 is asked for: rounding ends the fit, at the same step if it was stopped at every epoch. */
static void rounding_ends_a_fit_of_a_kernel_machine(void)
{
    static double memory[MEMORY], other[MEMORY];
    double targets[N];
    points all = {.x = dense_double, .n = N, .d = D};
    const pegasos_kernel_matrix kernel = {.n_rows = N, .values = write_values, .context = &all};
    int n_positive = 0;
    for (int i = 0; i < N; i++)
        targets[i] = labels[i];
    for (int kind = 0; kind < 12; kind++) {
        const pegasos_problem problem = {.kernel = &kernel,
                                         .targets = targets,
                                         .lam = kind < 6 ? 0.003 : 0.1,
                                         .intercept_scaling = kind % 3 == 1,
                                         .free_intercept = kind % 3 == 2,
                                         .loss.kind = kind % 6 / 3};
        pegasos_options options = {.tol = 0, .max_epochs = 100000};
        pegasos_solution whole, cut;
        int64_t n_polls = 0;
        CHECK(pegasos_solve(&problem, &options, memory, &whole) == PEGASOS_DONE);
        CHECK(whole.n_epochs < options.max_epochs);
        check_kernel_machine(&problem, &whole, 1e-12);
        options.poll = stop;
        options.poll_epochs = 1;
        options.context = &n_polls;
        while (pegasos_solve(&problem, &options, other, &cut) == PEGASOS_STOPPED)
            options.resume = 1;
        CHECK(n_polls > 0);
        n_positive += whole.relative_gap > 0;
        check_same_machines(&whole, &cut, N);
    }
    CHECK(n_positive > 0);
}

/* Where the best model is a constant, and where numbers end. */
static void kernel_machines_have_their_limits(void)
{
    static double memory[MEMORY], far[N * D];
    double targets[N], ones[N];
    points all = {.x = dense_double, .n = N, .d = D, .is_linear = true};
    const pegasos_kernel_matrix kernel = {.n_rows = N, .values = write_values, .context = &all};
    pegasos_problem problem = {.kernel = &kernel, .targets = ones, .lam = 0.1, .free_intercept = 1};
    pegasos_options options = {.tol = 1e-3, .max_epochs = 100};
    pegasos_solution found;
    for (int i = 0; i < N; i++) {
        targets[i] = labels[i];
        ones[i] = 1;
    }
    CHECK(pegasos_solve(&problem, &options, memory, &found) == PEGASOS_DONE);
    CHECK(found.objective == 0 && found.intercept == 1);
    for (int i = 0; i < N; i++)
        CHECK(found.coef[i] == 0);
    options.max_epochs = 0;
    CHECK(pegasos_solve(&problem, &options, memory, &found) == PEGASOS_DONE);
    CHECK(found.n_epochs == 0 && isinf(found.objective) && isinf(found.dual_objective));
    options.max_epochs = 100;
    problem.targets = targets;
    for (int kind = 0; kind < 6; kind++)
        for (int large = 0; large < 3; large++) {
            problem.loss.kind = kind % 2;
            problem.free_intercept = kind / 2 == 2;
            problem.intercept_scaling = kind / 2 == 1;
            for (int i = 0; i < N * D; i++)
                far[i] = dense_double[i] * (const double[]){1e50, 1e100, 1e153}[large];
            all.x = far;
            const int status = pegasos_solve(&problem, &options, memory, &found);
            CHECK(status == PEGASOS_DONE ? isfinite(found.objective) : status == PEGASOS_OVERFLOW);
        }
}

enum { LARGE = 2100 };

/* With room for all columns and with less: the same optimum; and each, stopped or not, with the same
 * bits. */
static void a_kernel_matrix_may_be_larger_than_memory(void)
{
    static double x[2 * LARGE], targets[LARGE];
    points all = {.x = x, .n = LARGE, .d = 2};
    pegasos_solution found[2], cut;
    double *memory[2];
    for (int i = 0; i < LARGE; i++) {
        x[2 * i] = (double)(i * 31 % 101) / 25 - 2;
        x[2 * i + 1] = (double)(i * 17 % 97) / 24 - 2;
        const bool is_inside = x[2 * i] * x[2 * i] + x[2 * i + 1] * x[2 * i + 1] < 2;
        targets[i] = i % 50 == 0 ? 0 : is_inside != (i % 9 == 0) ? 1 : -1;
    }
    for (int has_room = 0; has_room < 2; has_room++) {
        const pegasos_kernel_matrix kernel = {.n_rows = LARGE,
                                              .n_columns = has_room ? LARGE : 0,
                                              .values = write_values,
                                              .context = &all};
        const pegasos_problem problem = {
            .kernel = &kernel, .targets = targets, .lam = 1e-3, .free_intercept = 1};
        pegasos_options options = {.tol = 1e-3, .max_epochs = 1000};
        const size_t bytes = (size_t)pegasos_memory(&problem);
        all.n_values = 0;
        memory[has_room] = malloc(bytes);
        CHECK(pegasos_check(&problem, &options) == PEGASOS_DONE);
        CHECK(pegasos_solve(&problem, &options, memory[has_room], &found[has_room])
              == PEGASOS_DONE);
        check_kernel_machine(&problem, &found[has_room], 1e-3);
        CHECK(!has_room || all.n_values < (int64_t)LARGE * LARGE * 11 / 10);
        double *part = malloc(bytes);
        int64_t n_polls = 0, n_parts = 0;
        int status = PEGASOS_STOPPED;
        options.poll = stop;
        options.context = &n_polls;
        options.poll_every = 1e5;
        for (; status == PEGASOS_STOPPED; n_parts++) {
            double *const moved = malloc(bytes);
            if (n_parts > 0)
                memcpy(moved, part, bytes);
            free(part);
            part = moved;
            options.resume = n_parts > 0;
            status = pegasos_solve(&problem, &options, part, &cut);
            options.poll_every *= 1.5; /* transactions are to come to their end */
        }
        CHECK(status == PEGASOS_DONE && n_parts > 5);
        check_same_machines(&found[has_room], &cut, LARGE);
        free(part);
    }
    CHECK(found[0].dual_objective <= found[1].objective);
    CHECK(found[1].dual_objective <= found[0].objective);
    free(memory[0]);
    free(memory[1]);
}

static int write_negative(void *context, int64_t count, const int64_t *rows, int64_t m,
                          const int64_t *others, double *out)
{
    const int status = write_values(context, count, rows, m, others, out);
    out[0] = -1;
    return status;
}

static int write_infinite(void *context, int64_t count, const int64_t *rows, int64_t m,
                          const int64_t *others, double *out)
{
    const int status = write_values(context, count, rows, m, others, out);
    out[0] = INFINITY;
    return status;
}

static void what_a_program_gets_wrong_is_named(void)
{
    const double good[4] = {1, -1, 0, 1}, huge[4] = {1e308, 1e308, 1, 1};
    const double bad[4] = {1, 2, -1, 1}, none[4] = {0}, negative[4] = {1, -1, 1, 1};
    const double odd[4] = {1, NAN, 1, 1}, infinite[4] = {1, 1, INFINITY, 1};
    const int32_t indptr[5] = {0, 1, 2, 3, 4}, falling[5] = {0, 2, 1, 3, 4};
    const int32_t indices[4] = {0, 0, 0, 0}, far[4] = {0, 1, 0, 0};
    const pegasos_rows dense = {.n_rows = 4, .n_features = 1, .value_bytes = 8, .values = good};
    const pegasos_rows csr = {.n_rows = 4,
                              .n_features = 1,
                              .value_bytes = 8,
                              .index_bytes = 4,
                              .indptr_bytes = 4,
                              .values = good,
                              .indices = indices,
                              .indptr = indptr};
    pegasos_rows rows = dense;
    pegasos_problem problem = {.rows = &rows, .targets = good, .lam = 0.1};
    pegasos_options options = {.tol = 1e-3, .max_epochs = 10};
    CHECK(pegasos_check(&problem, &options) == PEGASOS_DONE);
#define REFUSED(STRUCT, FIELD, VALUE, STATUS)                                                      \
    do {                                                                                           \
        STRUCT.FIELD = VALUE;                                                                      \
        CHECK(pegasos_check(&problem, &options) == PEGASOS_BAD_##STATUS);                          \
        rows = dense;                                                                              \
        problem = (pegasos_problem){.rows = &rows, .targets = good, .lam = 0.1};                   \
        options = (pegasos_options){.tol = 1e-3, .max_epochs = 10};                                \
    } while (0)
    REFUSED(rows, n_rows, 0, SIZES);
    REFUSED(rows, n_features, INT64_MAX / 2, SIZES);
    REFUSED(rows, value_bytes, 2, SIZES);
    REFUSED(rows, index_bytes, -1, SIZES);
    REFUSED(rows, values, odd, ROWS);
    REFUSED(rows, values, infinite, ROWS);
    REFUSED(problem, targets, bad, TARGETS);
    REFUSED(problem, targets, odd, TARGETS);
    REFUSED(problem, targets, none, TARGETS);
    REFUSED(problem, weights, negative, WEIGHTS);
    REFUSED(problem, weights, odd, WEIGHTS);
    REFUSED(problem, weights, infinite, WEIGHTS);
    REFUSED(problem, weights, none, WEIGHTS);
    REFUSED(problem, weights, huge, WEIGHTS);
    REFUSED(problem, lam, 0, LAM);
    REFUSED(problem, lam, NAN, LAM);
    REFUSED(problem, loss.kind, 8, LOSS);
    REFUSED(problem, free_intercept, 2, INTERCEPT);
    REFUSED(problem, intercept_scaling, -1, INTERCEPT);
    REFUSED(options, tol, NAN, OPTIONS);
    REFUSED(options, max_epochs, -1, OPTIONS);
    REFUSED(options, solver, 3, OPTIONS);
    REFUSED(options, poll_every, INFINITY, OPTIONS);
    problem.intercept_scaling = 1;
    REFUSED(problem, free_intercept, 1, INTERCEPT);
    rows = csr;
    CHECK(pegasos_check(&problem, &options) == PEGASOS_DONE);
    REFUSED(rows, indptr, falling, ROWS);
    rows = csr;
    REFUSED(rows, indices, far, ROWS);
    rows = csr;
    REFUSED(rows, indptr_bytes, 0, SIZES);
    points all = {.x = good, .n = 4, .d = 1};
    const pegasos_kernel_matrix right = {.n_rows = 4, .values = write_values, .context = &all};
    pegasos_kernel_matrix kernel = right;
#define KERNEL_REFUSED(STRUCT, FIELD, VALUE, STATUS)                                               \
    do {                                                                                           \
        problem = (pegasos_problem){.kernel = &kernel, .targets = good, .lam = 0.1};               \
        CHECK(pegasos_check(&problem, &options) == PEGASOS_DONE);                                  \
        REFUSED(STRUCT, FIELD, VALUE, STATUS);                                                     \
        kernel = right;                                                                            \
    } while (0)
    KERNEL_REFUSED(kernel, n_rows, 0, KERNEL);
    KERNEL_REFUSED(kernel, n_rows, INT64_MAX / 2, KERNEL);
    KERNEL_REFUSED(kernel, n_columns, -1, KERNEL);
    KERNEL_REFUSED(kernel, values, NULL, KERNEL);
    KERNEL_REFUSED(kernel, values, write_negative, KERNEL);
    KERNEL_REFUSED(kernel, values, write_infinite, KERNEL);
    KERNEL_REFUSED(problem, rows, &rows, KERNEL);
    KERNEL_REFUSED(problem, targets, odd, TARGETS);
    KERNEL_REFUSED(problem, weights, none, WEIGHTS);
    KERNEL_REFUSED(problem, lam, -1, LAM);
    KERNEL_REFUSED(options, solver, PEGASOS_NEWTON, OPTIONS);
    for (int status = PEGASOS_DONE; status <= PEGASOS_BAD_KERNEL; status++)
        for (int other = -1; other < status; other++)
            CHECK(strcmp(pegasos_message(status), pegasos_message(other)) != 0);
    CHECK(strcmp(pegasos_message(-1), pegasos_message(PEGASOS_BAD_KERNEL + 1)) == 0);
}

/* Rows without weight are outside, too. */
static void rows_without_weight_do_not_change_a_fit(void)
{
    static double memory[2][MEMORY];
    double weights[N], targets[2][N];
    pegasos_solution found[2];
    const pegasos_rows rows = rows_of_type(1);
    for (int i = 0; i < N; i++) {
        weights[i] = i % 3;
        targets[0][i] = labels[i];
        targets[1][i] = i % 3 ? labels[i] : 0;
    }
    for (int k = 0; k < 2; k++) {
        const pegasos_problem problem = {
            .rows = &rows, .targets = targets[k], .weights = weights, .lam = 0.03};
        const pegasos_options options = {.tol = 1e-6, .max_epochs = 1000};
        CHECK(pegasos_check(&problem, &options) == PEGASOS_DONE);
        CHECK(pegasos_solve(&problem, &options, memory[k], &found[k]) == PEGASOS_DONE);
    }
    CHECK(memcmp(found[0].coef, found[1].coef, D * sizeof(double)) == 0);
    CHECK(found[0].objective == found[1].objective);
}

static void rows_outside_a_problem_do_not_change_its_fit(void)
{
    static double memory[2][MEMORY], far[N * D];
    double targets[N];
    for (int i = 0; i < N; i++)
        targets[i] = labels[i];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < D; j++)
            far[i * D + j] = (labels[i] == 0 ? 1e4 : 1) * dense_double[i * D + j];
    for (int kind = 0; kind < 9; kind++) {
        const pegasos_options options = {
            .tol = 1e-6, .max_epochs = 1000, .seed = 7, .solver = kind / 3};
        pegasos_solution found[2];
        for (int k = 0; k < 2; k++) {
            pegasos_rows rows = rows_of_type(1);
            rows.values = k == 0 ? dense_double : far;
            const pegasos_problem problem = {.rows = &rows,
                                             .targets = targets,
                                             .lam = 0.03,
                                             .intercept_scaling = kind % 3 == 1,
                                             .free_intercept = kind % 3 == 2,
                                             .loss.kind = PEGASOS_HINGE};
            CHECK(pegasos_solve(&problem, &options, memory[k], &found[k]) == PEGASOS_DONE);
        }
        CHECK(found[0].n_epochs == found[1].n_epochs);
        CHECK(memcmp(found[0].coef, found[1].coef, D * sizeof(double)) == 0);
        CHECK(found[0].intercept == found[1].intercept);
    }
}

/* A digest of all that training leaves behind, for every type of rows and every variant. */
static int write_digest(const char *path)
{
    uint64_t digest = FNV1A;
    for (int type = 0; type < TYPES; type++)
        for (int variant = 0; variant < 8; variant++) {
            static bench b;
            const pegasos_rows rows = rows_of_type(type);
            begin(&b, variant & 1, variant >> 1 & 1, variant >> 2);
            pegasos_linear_run(&rows, &b.set, 0, DRAWS, draws);
            digest = fnv1a(digest, b.problems, sizeof b.problems);
            digest = fnv1a(digest, &b.weights, sizeof b.weights);
            digest = fnv1a(digest, &b.sums, sizeof b.sums);
        }
    for (int type = 2; type < TYPES; type++) {
        static double panel[D * PEGASOS_PANEL_BYTES / sizeof(double)], products[N * N];
        const pegasos_rows rows = rows_of_type(type);
        pegasos_thick_products(&rows, &rows, panel, N, products);
        digest = fnv1a(digest, products, (size_t)(N * N * rows.value_bytes));
    }
    for (int kind = 0; kind < 8; kind++) {
        static double gram[N * N], coef[N];
        static float narrow[N * N];
        make_gram(gram, narrow);
        const void *values = kind & 1 ? (const void *)gram : narrow;
        const double tol = kind & 4 ? 1e-9 : 1e-4;
        kernel_objective(values, kind & 1 ? 8 : 4, WHOLE, 0, kind >> 1 & 1, tol, false, coef);
        digest = fnv1a(digest, coef, sizeof coef);
    }
    return write_hex(path, digest);
}

int main(int argc, char **argv)
{
    make_data();
    if (argc > 1)
        return write_digest(argv[1]);
    RUN(permutations_hold_every_row_once);
    RUN(textbook_steps_are_taken);
    RUN(every_type_of_rows_gives_the_same_model);
    RUN(a_run_may_be_cut_anywhere);
    RUN(a_set_gives_the_bits_of_separate_problems);
    RUN(a_problem_stops_at_its_last_step_and_goes_on_from_there);
    RUN(scores_are_dot_products);
    RUN(the_dual_is_climbed_to_its_top);
    RUN(kernel_problems_are_solved);
    RUN(kernel_pegasos_is_pegasos);
    RUN(the_certificate_is_the_textbook_s);
    RUN(a_run_of_dual_ascent_ends_at_a_true_gap);
    RUN(problems_that_begin_together_end_at_true_gaps);
    RUN(a_whole_fit_is_certified);
    RUN(a_fit_goes_on_where_the_last_one_ended);
    RUN(rows_outside_a_problem_do_not_change_its_fit);
    RUN(rows_without_weight_do_not_change_a_fit);
    RUN(what_a_program_gets_wrong_is_named);
    RUN(kernel_machines_are_certified);
    RUN(a_kernel_may_stop_a_fit);
    RUN(rounding_ends_a_fit_of_a_kernel_machine);
    RUN(kernel_machines_have_their_limits);
    RUN(a_kernel_matrix_may_be_larger_than_memory);
    return REPORT();
}
