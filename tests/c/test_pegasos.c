/*
 * test_pegasos.c - the C core on its own: no Python, every type of rows, all state on the stack.
 *
 * With an argument, writes a digest of what was trained to that file, to compare builds with and
 * without clones per instruction set bit by bit.
 */
#include "check.h"
#include "core.h"
#include "exponential.h"
#include "losses.h"

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
static int8_t labels[K * N], inside[K * N]; /* inside: 1 where the label is not 0 */
static double values[K * N];                /* for losses that take targets */
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
        for (int k = 0; k < K; k++) {
            labels[k * N + i] = (int8_t)(random[i * K + k] % 3 - 1);
            inside[k * N + i] = labels[k * N + i] != 0;
            values[k * N + i] = 2 * dense_double[i * D + k] - dense_double[i * D + k + 5]
                                + (double)random[(i * K + k) * 5] / 500 - 1;
        }
    }
    pegasos_order_seek(&order, 8, N, PEGASOS_PERMUTATION, 0, permutation);
    pegasos_order_draw(&order, permutation, DRAWS, draws);
}

/* The targets of problem k, followed by those of later problems; weights may be NULL. */
static pegasos_targets targets_of(pegasos_loss loss, int64_t k, const double *weights)
{
    const bool is_labelled = has_labels(loss);
    return (pegasos_targets){N, (is_labelled ? labels : inside) + k * N,
                             is_labelled ? NULL : values + k * N, weights, loss};
}

/* z_i. */
static double target_of(const pegasos_targets *t, int64_t i)
{
    return t->values ? t->values[i] : 1;
}

static double weight_of(const pegasos_targets *t, int64_t i)
{
    return t->labels[i] == 0 ? 0 : t->weights ? t->weights[i] : 1;
}

/* sum_i c_i l(u_i), by the formulas of losses.h. */
static double loss_of_scores(const pegasos_targets *t, const double *scores, double intercept)
{
    double sum = 0;
    for (int64_t i = 0; i < t->n; i++) {
        const double u = target_of(t, i) - t->labels[i] * (scores[i] + intercept);
        const double own = loss_at(t->loss, u) + t->loss.nu * intercept;
        sum += t->labels[i] != 0 ? weight_of(t, i) * own : 0;
    }
    return sum;
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
    double slopes[K * BATCH];
    int64_t pending[K * BATCH];
    pegasos_linear_set set;
} bench;

/* t0 for a lambda of 0.03. */
static int64_t delay_of(pegasos_loss loss)
{
    double longest = 0;
    for (int64_t i = 0; i < N; i++) {
        double norm = 1;
        for (int64_t j = 0; j < D; j++)
            norm += dense_double[i * D + j] * dense_double[i * D + j];
        longest = fmax(longest, norm);
    }
    return (int64_t)ceil(largest_second_derivative(loss) * longest / 0.03);
}

static void begin(bench *b, pegasos_loss loss, double ball, int average, int free_intercept)
{
    memset(b, 0, sizeof *b);
    b->set = (pegasos_linear_set){.n_problems = K,
                                  .batch_size = BATCH,
                                  .problems = b->problems,
                                  .targets = targets_of(loss, 0, NULL),
                                  .weights = &b->weights,
                                  .sums = &b->sums,
                                  .counts = b->counts,
                                  .pending = b->pending,
                                  .slopes = b->slopes};
    for (int k = 0; k < K; k++) {
        b->problems[k] = (pegasos_linear){.lam = 0.03,
                                          .weight_factor = 1,
                                          .ball = ball,
                                          .intercept_scaling = free_intercept ? 0 : 1,
                                          .free_intercept = free_intercept,
                                          .average_from = average ? 11 : 0,
                                          .last_step = INT64_MAX,
                                          .delay = delay_of(loss)};
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

static void a_problem_stops_at_its_last_step_and_goes_on_from_there(void)
{
    for (int kind = 0; kind < LOSSES; kind++) {
        static bench whole, parts;
        const pegasos_rows rows = rows_of_type(2);
        begin(&whole, losses[kind], 0, 0, 0);
        begin(&parts, losses[kind], 0, 0, 0);
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
}

/* A draw is the high half of x n, with random bits x. Here n is 3/8 of 2^64. Of 8 values of x, 3
 * lead to 0, 3 to 1 and 2 to 2 modulo 3, except for 0 and 3, which are drawn again. */
static void large_draws_are_unbiased(void)
{
    enum { DRAWN = 6000 };
    const int64_t half = INT64_C(1) << 62, n = 3 * (half / 2);
    uint64_t generator = 1;
    int counts[3] = {0};
    for (int j = 0; j < DRAWN; j++) {
        uint64_t copy = generator;
        const int64_t quarter = pegasos_bounded_random(&copy, half); /* of x */
        const int64_t draw = pegasos_bounded_random(&generator, n);
        CHECK(0 <= draw && draw < n);
        counts[draw % 3]++;
        if (quarter % 2 == 1) /* x is 4 to 7 modulo 8 */
            CHECK(draw / 3 == quarter / 2 && draw % 3 >= 1);
    }
    for (int k = 0; k < 3; k++)
        CHECK(abs(counts[k] - DRAWN / 3) < DRAWN / 30); /* 5 standard deviations */
}

/* Checks that dual coordinate ascent climbs, keeps w = w(a), stays within bounds, and reaches a
 * point where none can climb: there, a row adds c l(u) + c l*(a/c) - a u = 0 to the gap. */
static void climb_to_the_top(const pegasos_rows *rows, pegasos_loss loss)
{
    double norms[N], a[N] = {0}, w[D] = {0}, scratch[D] = {0}, weights[N];
    int64_t active[N], n_active = 0;
    const double lam = 0.03, feature = 0.5;
    const pegasos_targets targets = targets_of(loss, 0, weights);
    pegasos_linear_norms(rows, 0, N, rows->index_bytes == 0 ? NULL : scratch, norms);
    for (int i = 0; i < N; i++) {
        double norm = 0;
        for (int j = 0; j < D; j++)
            norm += dense_double[i * D + j] * dense_double[i * D + j];
        CHECK(fabs(norms[i] - norm) < 1e-9 * (1 + norm));
        if (labels[i] != 0) /* the row is in the problem */
            active[n_active++] = i;
        weights[i] = i % 3 == 0 ? 0.5 : 2;
    }
    pegasos_dual problem = {.scale = 1 / (lam * (double)N), .intercept_scaling = feature};
    pegasos_dual_start(&problem, n_active);
    double before = 0;
    for (int epoch = 0; epoch < 1000; epoch++) {
        /* Two pieces must do the same as one. */
        const int64_t some =
            pegasos_dual_run(rows, &problem, &targets, norms, active, a, w, NULL, 7);
        CHECK(some <= 7);
        while (pegasos_dual_run(rows, &problem, &targets, norms, active, a, w, NULL, N) > 0)
            ;
        CHECK(problem.position == problem.n_active);
        double sum = 0, expected[D] = {0}, constant = 0, squared = 0;
        for (int i = 0; i < N; i++) {
            CHECK(is_within_bounds(loss, a[i], weight_of(&targets, i)));
            sum += dual_at(loss, a[i], weight_of(&targets, i), target_of(&targets, i));
            const double factor = problem.scale * a[i] * targets.labels[i];
            pegasos_linear_combine(rows, i, 1, &factor, expected);
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
            pegasos_dual_start(&problem, n_active); /* all rows again */
        else
            pegasos_dual_begin_epoch(&problem);
    }
    const double intercept = problem.constant_weight * feature;
    double scores[N];
    pegasos_linear_scores(rows, 0, NULL, N, 1, w, 8, 0, &intercept, scores);
    for (int i = 0; i < N; i++) {
        const double z = target_of(&targets, i), c = weight_of(&targets, i);
        const double u = z - targets.labels[i] * scores[i];
        const double gap = c * loss_at(loss, u) - dual_at(loss, a[i], c, z) + (z - u) * a[i];
        CHECK(-1e-12 <= gap && gap <= 1e-7);
    }
}

static void rows_are_added_with_the_bits_of_one_at_a_time(void)
{
    for (int type = 0; type < TYPES; type++)
        for (int count = 0; count <= N; count++) {
            const pegasos_rows rows = rows_of_type(type);
            double factors[N], sum[D] = {0}, expected[D] = {0};
            for (int i = 0; i < N; i++)
                factors[i] = i * count % 3 == 1 ? 0 : 0.1 * i - 0.7;
            pegasos_linear_combine(&rows, N - count, count, factors, sum);
            for (int i = 0; i < count; i++)
                pegasos_linear_combine(&rows, N - count + i, 1, factors + i, expected);
            CHECK(memcmp(sum, expected, sizeof sum) == 0);
        }
}

static void squares_of_numbers_are_added(void)
{
    for (int type = 0; type < TYPES; type++) {
        const pegasos_rows rows = rows_of_type(type);
        double factors[N] = {0}, sum[D] = {0}, expected[D] = {0};
        for (int i = 1; i < N; i += 2) {
            double row[D] = {0};
            const double one = 1;
            factors[i] = 0.1 * i - 0.7;
            pegasos_linear_combine(&rows, i, 1, &one, row);
            for (int j = 0; j < D; j++)
                expected[j] += factors[i] * (row[j] * row[j]);
        }
        pegasos_linear_squares(&rows, 0, N, factors, sum);
        for (int j = 0; j < D; j++)
            CHECK(fabs(sum[j] - expected[j]) <= 1e-12);
    }
}

static void the_dual_is_climbed_to_its_top(void)
{
    for (int type = 0; type < TYPES; type++)
        for (int kind = 0; kind < LOSSES; kind++) {
            const pegasos_rows rows = rows_of_type(type);
            climb_to_the_top(&rows, losses[kind]);
        }
}

/* How a kernel run gets columns: all at once, one by one when they are needed, or parts of them. */
enum { WHOLE, COLUMNS, PARTS };

/* A kernel matrix, and the columns that were asked for. */
enum { BLOCK = 256 * N };
typedef struct source {
    const void *gram;
    int64_t bytes, place[N], n_kept;
    double columns[N * N], block[BLOCK];
    pegasos_workers workers;
} source;

static double entry_of(const source *of, int64_t i, int64_t k)
{
    return of->bytes == 4 ? (double)((const float *)of->gram)[i * N + k]
                          : ((const double *)of->gram)[i * N + k];
}

static int copy_values(void *context, int64_t count, const int64_t *rows, int64_t first, int64_t m,
                       const int64_t *which, int64_t stride, void *out)
{
    const source *of = context;
    for (int64_t j = 0; j < count; j++)
        for (int64_t k = 0; k < m; k++) {
            const double value = entry_of(of, rows[j], which ? which[k] : first + k);
            if (of->bytes == 4)
                ((float *)out)[j * stride + k] = (float)value;
            else
                ((double *)out)[j * stride + k] = value;
        }
    return 0;
}

static pegasos_columns columns_of(source *of, const void *gram, int64_t bytes, int mode,
                                  pegasos_watch *watch)
{
    *of = (source){.gram = gram, .bytes = bytes, .workers = {.watch = watch}};
    for (int64_t i = 0; i < N; i++)
        of->place[i] = -1;
    pegasos_columns columns = {.n_rows = N,
                               .value_bytes = bytes,
                               .n_columns = mode != PARTS ? N : 0,
                               .columns = of->columns,
                               .column_of = of->place,
                               .n_kept = &of->n_kept,
                               .values = copy_values,
                               .context = of,
                               .block = of->block,
                               .workers = &of->workers};
    CHECK(pegasos_columns_block(N) <= BLOCK);
    for (int64_t i = 0; mode == WHOLE && i < N; i++)
        CHECK(pegasos_columns_keep(&columns, 1, &i) == 0);
    return columns;
}

/* Solves a kernel problem with a matrix of all values to a gap. */
static void solve_kernel_problem(const void *gram, int64_t bytes, pegasos_loss loss, double tol,
                                 double *coef)
{
    static source of;
    static double norms[N], a[N], scored[N], scores[N], slopes[N];
    static int64_t active[N];
    pegasos_kernel problem = {.lam = 0.02,
                              .tol = tol,
                              .constant_feature = 0.7,
                              .last_epoch = 100000,
                              .generator = 5,
                              .primal = INFINITY,
                              .relative_gap = INFINITY};
    const pegasos_targets targets = targets_of(loss, 0, NULL);
    of = (source){.gram = gram, .bytes = bytes};
    for (int64_t i = 0; i < N; i++) {
        norms[i] = entry_of(&of, i, i);
        a[i] = scored[i] = scores[i] = 0;
        problem.n_inside += labels[i] != 0;
    }
    problem.mass = (double)problem.n_inside;
    pegasos_watch watch = {.every = 1e18};
    pegasos_columns columns = columns_of(&of, gram, bytes, WHOLE, &watch);
    const pegasos_matrix matrix = {.columns = &columns, .is_positive = 1, .rank = N};
    const pegasos_kernel_arrays arrays = {
        .targets = &targets,
        .norms = norms,
        .a = a,
        .scored = scored,
        .scores = scores,
        .slopes = slopes,
        .coef = coef,
        .active = active,
        .scratch = malloc((size_t)pegasos_kernel_scratch_bytes(N, bytes, columns.n_columns))};
    CHECK(pegasos_kernel_run(&matrix, &problem, &arrays) == PEGASOS_DONE);
    CHECK(problem.relative_gap <= tol);
    free(arrays.scratch);
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

/* What K kernel problems own. */
typedef struct kernel_bench {
    bench own;
    double beta[K * N], sums[K * N], scores[K * N], unpushed[K * N];
} kernel_bench;

/* Polls that stop a run at growing distances, since a block that was stopped is begun again. */
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
    const pegasos_loss loss = losses[settings / 8];
    stops when = {.next = 1};
    pegasos_watch watch = {.poll = stop_now_and_then, .context = &when, .every = cut ? 1 : 1e18};
    pegasos_columns columns = columns_of(&of, gram, bytes, mode, &watch);
    int64_t permutation[N];
    pegasos_order order;
    pegasos_order_seek(&order, SEED, N, PEGASOS_PERMUTATION, 0, permutation);
    const pegasos_draws stream = {.order = &order, .permutation = permutation};
    memset(b, 0, sizeof *b);
    begin(&b->own, loss, settings & 1 ? 0.05 : 0, settings / 2 & 1, settings / 4 & 1);
    pegasos_linear_set *set = &b->own.set;
    set->weights = b->beta;
    set->sums = b->sums;
    for (int k = 0; k < K; k++)
        b->own.problems[k].last_step = 300 + 40 * k; /* blocks of 64, 128, ... draws */
    int status;
    do {
        void *work = malloc((size_t)pegasos_kernel_train_scratch_bytes(&columns, set));
        status = pegasos_kernel_train(&columns, set, b->scores, b->unpushed, &stream, work);
        free(work);
    } while (status == PEGASOS_STOPPED);
    CHECK(status == PEGASOS_DONE);
}

/* Cuts do not change bits. With the linear kernel, any way to get values gives linear Pegasos. */
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
    for (int settings = 0; settings < 8 * LOSSES; settings++)
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
                begin(&linear, losses[settings / 8], settings & 1 ? 0.05 : 0, settings / 2 & 1,
                      settings / 4 & 1);
                for (int k = 0; k < K; k++)
                    linear.problems[k].last_step = whole.own.problems[k].last_step;
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

/* Checks that no intercept is better than the best one: neither those near it, nor those at which a
 * row is at an end of a piece of its loss. */
static void check_best_intercept(const pegasos_targets *t, const double *scores)
{
    double room[4 * N];
    const double best = pegasos_best_intercept(t, scores, room);
    const double most = loss_of_scores(t, scores, best), ends[] = {0, -1, 1, 2};
    const double least = most - 1e-12 * (1 + fabs(most)); /* of one class, a log loss nears 0 */
    for (int64_t j = 0; j < 4 * t->n; j++) {
        const int64_t i = j % t->n;
        const double end = (t->loss.epsilon > 0 ? t->loss.epsilon : 1) * ends[j / t->n];
        const double b = t->labels[i] * (target_of(t, i) - end) - scores[i];
        CHECK(least <= loss_of_scores(t, scores, b));
    }
    for (double h = 1e-6; h < 10; h *= 10) {
        CHECK(least <= loss_of_scores(t, scores, best - h));
        CHECK(least <= loss_of_scores(t, scores, best + h));
    }
}

/* Of few rows, where two breakpoints may lead to each other; some are of one class, or of none. */
static void no_intercept_is_better_than_the_best(void)
{
    const double spreads[] = {0.1, 1, 30}, nus[] = {0.1, 0.25, 0.5, 1};
    double scores[N], weights[N];
    for (int trial = 0; trial < 300; trial++) {
        const int64_t n = trial % 30 ? 1 + trial % 5 : N, first = trial % (N - n + 1);
        for (int64_t i = 0; i < N; i++) {
            scores[i] = spreads[trial % 3] * sin(trial + (double)(i * i));
            weights[i] = 1.5 + sin((double)(trial * i));
        }
        for (int kind = 0; kind <= LOSSES; kind++) {
            pegasos_loss loss = {.kind = PEGASOS_HINGE, .nu = nus[trial % 4]};
            pegasos_targets t = targets_of(kind < LOSSES ? losses[kind] : loss, trial % K, weights);
            if (kind == LOSSES) /* rows of one class */
                t.labels = inside + trial % K * N;
            t.labels += first;
            t.values += t.values ? first : 0;
            t.n = n;
            check_best_intercept(&t, scores);
        }
    }
}

/* For the hinge, that is between the last negative row that meets its margin and the first positive
 * one, where both classes have equal weight but for the last bit: 0.1 thirty times. */
static void the_middle_one_of_equally_good_intercepts_is_taken(void)
{
    const double sizes[] = {0.1, 0.3, 1e-200, 7, 1e200};
    double room[4 * N], scores[N], weights[N];
    int8_t signs[N];
    for (int trial = 0; trial < 200; trial++) {
        double below = -INFINITY, above = INFINITY;
        const int64_t n = 4 * (1 + trial % 12);
        for (int64_t i = 0; i < n; i++) {
            signs[i] = i % 4 == 0 ? -1 : 1;
            scores[i] = i % 4 > 1 ? scores[i - 1] : 0.9 * sin(trial + (double)(i * i));
            weights[i] = sizes[trial % 5] / (i % 4 == 0 ? 1 : 3);
            below = i % 4 == 0 ? fmax(below, -1 - scores[i]) : below;
            above = i % 4 != 0 ? fmin(above, 1 - scores[i]) : above;
        }
        const pegasos_targets t = {n, signs, NULL, weights, {.kind = PEGASOS_HINGE}};
        CHECK(fabs(pegasos_best_intercept(&t, scores, room) - (below + above) / 2) < 1e-12);
    }
    const double three[] = {0.5, -0.25, 0};
    for (int sign = -1; sign <= 1;
         sign++) { /* of one class, the end of the best ones; of none, 0 */
        memset(signs, sign, 3);
        const pegasos_targets t = {3, signs, NULL, NULL, {.kind = PEGASOS_HINGE}};
        const double ends[] = {-1.5, 0, 1.25};
        CHECK(pegasos_best_intercept(&t, three, room) == ends[sign + 1]);
    }
}

/* A poll that stops every time. */
static int stop(void *n_polls, const pegasos_progress *progress)
{
    CHECK(progress->n_epochs >= 0 && progress->objective > 0 && progress->relative_gap >= 0);
    ++*(int64_t *)n_polls;
    return 1;
}

/* The targets of a C program's problem: labels, or numbers. */
static void write_targets(pegasos_loss loss, double *targets)
{
    for (int i = 0; i < N; i++)
        targets[i] = has_labels(loss) ? labels[i] : values[i];
}

/* Reads these targets, for n rows; writes labels to `y`. */
static pegasos_targets read_targets(const pegasos_problem *p, int64_t n, int8_t *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (int8_t)(p->weights && p->weights[i] == 0 ? 0
                        : has_labels(p->loss)            ? p->targets[i]
                                                         : 1);
    return (pegasos_targets){n, y, has_labels(p->loss) ? NULL : p->targets, p->weights, p->loss};
}

/* The size of a fit's memory, in numbers. */
enum { MEMORY = 100 * N + 100 * D + 30000 };

/* Solves a problem with many stops, and moves its memory; returns the number of calls. */
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
        part.poll_every = pow(1.02, (double)calls); /* so that transactions come to their end */
        part.resume = calls > 0;
        memcpy(moved, memory, bytes);
        memset(memory, 0xff, bytes);
        status = pegasos_solve(problem, &part, moved, solution);
        memcpy(memory, moved, bytes);
    }
    CHECK(status == PEGASOS_DONE);
    return calls;
}

/* D of r times the dual variables a, where |w(a)|^2 is `norm`. */
static double dual_of_multiple(const pegasos_targets *t, const double *a, double r, double norm,
                               double mass, double lam)
{
    double sum = 0;
    for (int64_t i = 0; i < t->n; i++)
        sum += dual_at(t->loss, r * a[i], weight_of(t, i), target_of(t, i)) / mass;
    return sum - lam / 2 * r * r * norm;
}

/* The highest D of multiples of the dual variables. D is concave, so thirds are cut off. */
static double best_of_multiples(const pegasos_targets *t, const double *a, double norm, double mass,
                                double lam)
{
    double low = 0, high = 1000;
    for (int64_t i = 0; i < t->n; i++) {
        const double bound = a[i] > 0 ? upper_slope(t->loss) : lower_slope(t->loss);
        high = a[i] != 0 ? fmin(high, weight_of(t, i) * bound / a[i]) : high;
    }
    for (int n = 0; n < 100; n++) {
        const double left = low + (high - low) / 3, right = high - (high - low) / 3;
        if (dual_of_multiple(t, a, left, norm, mass, lam)
            < dual_of_multiple(t, a, right, norm, mass, lam))
            low = left;
        else
            high = right;
    }
    return dual_of_multiple(t, a, low, norm, mass, lam);
}

/* Checks that a linear fit has the P of its model, and a D that its dual variables prove. */
static void check_linear_machine(const pegasos_problem *p, const pegasos_solution *found)
{
    int8_t y[N];
    double scores[N], w[D] = {0}, mass = 0, balance = 0, size = 0, norm = 0, squared = 0;
    const pegasos_targets t = read_targets(p, N, y);
    const double none = 0, b = found->intercept, feature = p->intercept_scaling;
    double a[N]; /* balanced, if the intercept is free */
    pegasos_make_feasible(&t, p->free_intercept, found->dual_variables, a);
    for (int i = 0; i < N; i++)
        mass += weight_of(&t, i);
    for (int i = 0; i < N; i++) {
        const double factor = a[i] * y[i] / (p->lam * mass);
        CHECK(is_within_bounds(p->loss, found->dual_variables[i], weight_of(&t, i)));
        pegasos_linear_combine(p->rows, i, 1, &factor, w);
        CHECK(p->free_intercept || a[i] == found->dual_variables[i]);
        balance += factor;
        size += fabs(factor);
    }
    CHECK(!p->free_intercept || fabs(balance) <= 1e-9 * size);
    CHECK(p->free_intercept || feature > 0 || b == 0);
    for (int j = 0; j < D; j++) {
        norm += found->coef[j] * found->coef[j];
        squared += w[j] * w[j];
    }
    norm += feature > 0 ? b / feature * (b / feature) : 0;
    squared += feature * balance * (feature * balance);
    pegasos_linear_scores(p->rows, 0, NULL, N, 1, found->coef, 8, 0, &none, scores);
    const double primal = p->lam / 2 * norm + loss_of_scores(&t, scores, b) / mass;
    CHECK(fabs(primal - found->objective) < 1e-9 * primal);
    CHECK(found->dual_objective <= found->objective);
    const double dual = best_of_multiples(&t, a, squared, mass, p->lam);
    CHECK(found->dual_objective <= dual + 1e-9 * primal);
    CHECK(dual <= primal * (1 + 1e-9));
}

/* A fit from C ends with the same bits wherever it is stopped, and its gap is that of its model. */
static void a_whole_fit_is_certified(void)
{
    static double whole_memory[MEMORY], cut_memory[MEMORY];
    double weights[N], targets[N];
    for (int i = 0; i < N; i++)
        weights[i] = 1 + i % 3;
    for (int type = 0; type < TYPES; type++)
        for (int kind = 0; kind < 9 * LOSSES; kind++) {
            if ((type + kind + kind / 3 + kind / 9) % 3) /* any three of the four meet */
                continue;
            const pegasos_rows rows = rows_of_type(type);
            const pegasos_problem problem = {.rows = &rows,
                                             .targets = targets,
                                             .weights = type % 2 ? weights : NULL,
                                             .lam = 0.03,
                                             .intercept_scaling = kind % 3 == 1 ? 0.5 : 0,
                                             .free_intercept = kind % 3 == 2,
                                             .loss = losses[kind / 9]};
            const pegasos_options options = {
                .tol = 1e-6, .max_epochs = 100000, .seed = 7, .solver = kind / 3 % 3};
            pegasos_solution whole, cut;
            write_targets(problem.loss, targets);
            CHECK(pegasos_check(&problem, &options) == PEGASOS_DONE);
            CHECK(pegasos_memory(&problem) <= (int64_t)sizeof whole_memory);
            CHECK(pegasos_solve(&problem, &options, whole_memory, &whole) == PEGASOS_DONE);
            CHECK(fit_in_parts(&problem, &options, cut_memory, &cut) > 50);
            CHECK(memcmp(whole.coef, cut.coef, D * sizeof *whole.coef) == 0);
            CHECK(memcmp(whole.dual_variables, cut.dual_variables, N * sizeof(double)) == 0);
            CHECK(whole.n_epochs == cut.n_epochs && whole.objective == cut.objective);
            CHECK(whole.relative_gap <= 1e-6);
            check_linear_machine(&problem, &whole);
        }
}

/* Without a tolerance, the number of epochs ends dual ascent; it may be 0. In the first epoch, of
 * Pegasos, w is longer than w(a), but the model must be certified by w(a). */
static void dual_ascent_makes_as_many_epochs_as_it_may(void)
{
    static double memory[MEMORY];
    double targets[N];
    for (int type = 0; type < TYPES; type++)
        for (int kind = 0; kind < 12 * LOSSES; kind++) {
            const pegasos_rows rows = rows_of_type(type);
            const pegasos_problem problem = {.rows = &rows,
                                             .targets = targets,
                                             .lam = 0.03,
                                             .intercept_scaling = kind % 3 == 1,
                                             .free_intercept = kind % 3 == 2,
                                             .loss = losses[kind / 12]};
            const pegasos_options options = {
                .tol = -1, .max_epochs = kind / 3 % 4, .solver = PEGASOS_ASCENT};
            pegasos_solution found;
            write_targets(problem.loss, targets);
            CHECK(pegasos_solve(&problem, &options, memory, &found) == PEGASOS_DONE);
            CHECK(found.n_epochs == options.max_epochs && isfinite(found.objective));
            check_linear_machine(&problem, &found);
        }
}

/* Solves a problem in memory of an earlier fit, with another lambda, other weights or another
 * solver; `is_cut`: it is stopped at every poll. */
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
    double weights[N], heavier[N], norms[N], sums[D], targets[N];
    for (int i = 0; i < N; i++) {
        weights[i] = 1 + i % 3;
        heavier[i] = labels[i] > 0 ? 2 * weights[i] : weights[i];
    }
    for (int type = 0; type < TYPES; type++)
        for (int kind = 0; kind < 9 * LOSSES; kind++) {
            if ((type + kind + kind / 3 + kind / 9) % 3) /* any three of the four meet */
                continue;
            const pegasos_rows rows = rows_of_type(type);
            const pegasos_loss loss = losses[kind / 9];
            const int8_t *const y = has_labels(loss) ? labels : inside;
            pegasos_problem problem = {.rows = &rows,
                                       .targets = targets,
                                       .weights = weights,
                                       .lam = 0.1,
                                       .intercept_scaling = kind % 3 == 1 ? 0.5 : 0,
                                       .free_intercept = kind % 3 == 2,
                                       .loss = loss};
            pegasos_options options = {
                .tol = 1e-6, .max_epochs = 1000000, .seed = 7, .solver = kind / 3 % 3};
            int64_t n_polls = 0;
            write_targets(loss, targets);
            memset(sums, 0, sizeof sums);
            pegasos_linear_norms(&rows, 0, N, sums, norms);
            memset(whole_memory, 0, sizeof whole_memory);
            memset(cut_memory, 0, sizeof cut_memory);
            for (int step = 0; step < 6; step++) {
                pegasos_solution whole, cut, alone;
                problem.lam = (const double[]){0.1, 0.03, 0.01, 0.05, 0.05, 0.05}[step];
                if (step == 4) { /* other data: weights */
                    problem.weights = heavier;
                    ((pegasos_fit_header *)whole_memory)->pending = PEGASOS_BEGIN_AT_POINT;
                    ((pegasos_fit_header *)cut_memory)->pending = PEGASOS_BEGIN_AT_POINT;
                } else if (step == 5)
                    options.solver =
                        options.solver == PEGASOS_ASCENT ? PEGASOS_NEWTON : PEGASOS_ASCENT;
                solve_after(&problem, &options, y, norms, whole_memory, room, false, &n_polls);
                solve_after(&problem, &options, y, norms, cut_memory, room, true, &n_polls);
                pegasos_fit_solution(N, D, whole_memory, &whole);
                pegasos_fit_solution(N, D, cut_memory, &cut);
                CHECK(memcmp(whole.coef, cut.coef, D * sizeof *whole.coef) == 0);
                CHECK(memcmp(whole.dual_variables, cut.dual_variables, N * sizeof(double)) == 0);
                CHECK(whole.n_epochs == cut.n_epochs && whole.objective == cut.objective);
                CHECK(whole.relative_gap <= 1e-6);
                memset(alone_memory, 0, sizeof alone_memory);
                solve_after(&problem, &options, y, norms, alone_memory, room, false, &n_polls);
                pegasos_fit_solution(N, D, alone_memory, &alone);
                CHECK(fabs(whole.objective - alone.objective) <= 1.1e-6 * alone.objective);
                /* A fit that has ended is over. */
                solve_after(&problem, &options, y, norms, alone_memory, room, false, &n_polls);
                const int64_t n_epochs = alone.n_epochs;
                pegasos_fit_solution(N, D, alone_memory, &alone);
                CHECK(alone.n_epochs == n_epochs);
            }
            CHECK(n_polls > 100);
        }
}

/* ---- Kernel machines of C programs ----------------------------------------------------------- */

/* Rows, and which call for values between them goes wrong. */
typedef struct points {
    const double *x;
    int64_t n, d;
    bool is_linear; /* else rational: 1/(1 + |x - z|^2) */
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

/* Finds P, and the highest D of multiples of the dual variables, from all kernel values. The fit
 * must have this P, and no bound above this D. */
static void check_kernel_machine(const pegasos_problem *problem, const pegasos_solution *found,
                                 double tol)
{
    const points *const p = problem->kernel->context;
    const double feature = problem->intercept_scaling, lam = problem->lam;
    const double *const a = found->dual_variables;
    int8_t *const y = malloc((size_t)p->n);
    double *const scores = calloc((size_t)p->n, sizeof(double));
    const pegasos_targets t = read_targets(problem, p->n, y);
    double mass = 0, norm = 0, dual_norm = 0, balance = 0, size = 0;
    for (int64_t i = 0; i < p->n; i++)
        mass += weight_of(&t, i);
    for (int64_t i = 0; i < p->n; i++) {
        double dual_score = 0;
        for (int64_t j = 0; j < p->n; j++) {
            const double value = kernel_of(p, i, j);
            scores[i] += found->coef[j] * value;
            dual_score += a[j] * y[j] / (lam * mass) * value;
        }
        norm += found->coef[i] * scores[i];
        dual_norm += a[i] * y[i] / (lam * mass) * dual_score;
        balance += a[i] * y[i];
        size += fabs(a[i]);
        CHECK(is_within_bounds(t.loss, a[i], weight_of(&t, i)));
        CHECK(y[i] != 0 || found->coef[i] == 0);
    }
    if (problem->free_intercept)
        CHECK(fabs(balance) <= 1e-9 * size);
    else if (feature > 0) {
        norm += found->intercept / feature * (found->intercept / feature);
        dual_norm += feature * balance / (lam * mass) * (feature * balance / (lam * mass));
    } else
        CHECK(found->intercept == 0);
    const double primal = lam / 2 * norm + loss_of_scores(&t, scores, found->intercept) / mass;
    const double dual = best_of_multiples(&t, a, dual_norm, mass, lam);
    CHECK(fabs(primal - found->objective) <= 1e-9 * primal);
    CHECK(found->dual_objective <= dual + 1e-9 * primal);
    CHECK(dual <= primal + 1e-9 * primal);
    CHECK(primal - dual <= tol * primal + 1e-9 * primal);
    CHECK(found->relative_gap <= tol);
    free(y);
    free(scores);
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

/* With all losses and intercepts, with weights and without, stopped or not. A row without weight is
 * outside, and a machine with the kernel <x, z> is the linear machine. */
static void kernel_machines_are_certified(void)
{
    static double memory[MEMORY], other[MEMORY];
    double weights[N], targets[N], left_out[N];
    for (int i = 0; i < N; i++)
        weights[i] = i % 4;
    for (int kind = 0; kind < 12 * LOSSES; kind++) {
        points all = {.x = dense_double, .n = N, .d = D, .is_linear = kind % 12 >= 6};
        const pegasos_kernel_matrix kernel = {.n_rows = N, .values = write_values, .context = &all};
        const double tol = kind % 2 ? 1e-6 : 1e-3;
        pegasos_problem problem = {.kernel = &kernel,
                                   .targets = targets,
                                   .weights = kind % 6 >= 3 ? weights : NULL,
                                   .lam = 0.03,
                                   .intercept_scaling = kind % 3 == 1 ? 0.5 : 0,
                                   .free_intercept = kind % 3 == 2,
                                   .loss = losses[kind / 12]};
        const pegasos_options options = {
            .tol = tol, .max_epochs = 10000, .seed = 3, .solver = kind % 2};
        pegasos_solution whole, cut, linear;
        write_targets(problem.loss, targets);
        CHECK(pegasos_memory(&problem) <= (int64_t)sizeof memory);
        CHECK(pegasos_check(&problem, &options) == PEGASOS_DONE);
        CHECK(pegasos_solve(&problem, &options, memory, &whole) == PEGASOS_DONE);
        check_kernel_machine(&problem, &whole, tol);
        CHECK(whole.n_epochs == whole.epochs[PEGASOS_ASCENT] && whole.n_steps > 0);
        CHECK(fit_in_parts(&problem, &options, other, &cut) > 30);
        check_same_machines(&whole, &cut, N);
        for (int i = 0; i < N; i++)
            left_out[i] = weights[i] > 0 ? targets[i] : has_labels(problem.loss) ? 0 : 100;
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
        problem.kernel = &kernel;
        problem.rows = NULL;
        for (int k = 0; k < 2; k++) { /* the fit goes on with another lambda */
            pegasos_options more = options;
            more.resume = 1;
            problem.lam = k == 0 ? 0.3 : 0.1;
            CHECK(pegasos_solve(&problem, &more, memory, &whole) == PEGASOS_DONE);
            check_kernel_machine(&problem, &whole, tol);
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

/* Whether a run notices that only rounding errors are left. A run that visits single rows does not.
 * If slopes have bounds, a free intercept leaves the dual objective uncertain. */
static bool ends_by_rounding(const pegasos_problem *p)
{
    const int64_t kind = p->loss.kind;
    const bool by_rows = kind == PEGASOS_LOG_LOSS || kind == PEGASOS_EPSILON_INSENSITIVE
                         || kind == PEGASOS_SQUARED_EPSILON_INSENSITIVE;
    return !by_rows && !(kind == PEGASOS_HUBER && p->free_intercept);
}

/* For a gap of 0, rounding ends the fit, at the same step even if it was stopped at every epoch. */
static void rounding_ends_a_fit_of_a_kernel_machine(void)
{
    static double memory[MEMORY], other[MEMORY];
    double targets[N];
    points all = {.x = dense_double, .n = N, .d = D};
    const pegasos_kernel_matrix kernel = {.n_rows = N, .values = write_values, .context = &all};
    int n_positive = 0;
    for (int kind = 0; kind < 6 * LOSSES; kind++) {
        const pegasos_problem problem = {.kernel = &kernel,
                                         .targets = targets,
                                         .lam = kind % 2 ? 0.003 : 0.1,
                                         .intercept_scaling = kind / 2 % 3 == 1,
                                         .free_intercept = kind / 2 % 3 == 2,
                                         .loss = losses[kind / 6]};
        pegasos_options options = {.tol = 0, .max_epochs = 10000};
        pegasos_solution whole, cut;
        int64_t n_polls = 0;
        write_targets(problem.loss, targets);
        CHECK(pegasos_solve(&problem, &options, memory, &whole) == PEGASOS_DONE);
        CHECK(whole.n_epochs < options.max_epochs || !ends_by_rounding(&problem));
        check_kernel_machine(&problem, &whole, ends_by_rounding(&problem) ? 1e-12 : 1e-8);
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

/* The best model may be a constant, and numbers may overflow. */
static void kernel_machines_have_their_limits(void)
{
    static double memory[MEMORY], far[N * D];
    double targets[N], ones[N];
    points all = {.x = dense_double, .n = N, .d = D, .is_linear = true};
    const pegasos_kernel_matrix kernel = {.n_rows = N, .values = write_values, .context = &all};
    pegasos_problem problem = {.kernel = &kernel, .targets = ones, .lam = 0.1, .free_intercept = 1};
    pegasos_options options = {.tol = 1e-3, .max_epochs = 100};
    pegasos_solution found;
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    for (int kind = 0; kind < LOSSES; kind++) {
        if (kind == PEGASOS_LOG_LOSS)
            continue; /* it has no minimum */
        problem.loss = losses[kind];
        CHECK(pegasos_solve(&problem, &options, memory, &found) == PEGASOS_DONE);
        CHECK(found.objective == 0 && fabs(found.intercept - 1) <= problem.loss.epsilon);
        for (int i = 0; i < N; i++)
            CHECK(found.coef[i] == 0);
    }
    options.max_epochs = 0;
    CHECK(pegasos_solve(&problem, &options, memory, &found) == PEGASOS_DONE);
    CHECK(found.n_epochs == 0 && found.objective == 0 && found.dual_objective == 0);
    problem.targets = targets;
    write_targets(problem.loss, targets);
    CHECK(pegasos_solve(&problem, &options, memory, &found) == PEGASOS_DONE);
    CHECK(found.n_epochs == 0 && isinf(found.objective) && isinf(found.dual_objective));
    options.max_epochs = 100;
    for (int kind = 0; kind < 3 * LOSSES; kind++)
        for (int large = 0; large < 3; large++) {
            problem.loss = losses[kind / 3];
            problem.free_intercept = kind % 3 == 2;
            problem.intercept_scaling = kind % 3 == 1;
            write_targets(problem.loss, targets);
            for (int i = 0; i < N * D; i++)
                far[i] = dense_double[i] * (const double[]){1e50, 1e100, 1e153}[large];
            all.x = far;
            const int status = pegasos_solve(&problem, &options, memory, &found);
            CHECK(status == PEGASOS_DONE ? isfinite(found.objective) : status == PEGASOS_OVERFLOW);
        }
}

enum { LARGE = 2100 };

/* Room for all columns or for fewer gives the same optimum; stops do not change bits. */
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
            options.poll_every *= 1.5; /* so that transactions come to their end */
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
    const int32_t before[5] = {-1, 0, 1, 2, 3}, ends_before[5] = {0, 1, 2, 3, -1};
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
    REFUSED(rows, n_features, INT64_MAX / 2048, SIZES); /* in each row */
    REFUSED(rows, value_bytes, 2, SIZES);
    REFUSED(rows, index_bytes, -1, SIZES);
    REFUSED(rows, values, odd, ROWS);
    REFUSED(rows, values, infinite, ROWS);
    REFUSED(rows, values, NULL, ROWS);
    REFUSED(problem, rows, NULL, ROWS);
    REFUSED(problem, targets, NULL, TARGETS);
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
    REFUSED(problem, loss.kind, -1, LOSS);
    REFUSED(problem, loss.kind, PEGASOS_SQUARED_ERROR + 1, LOSS);
    REFUSED(problem, loss, ((pegasos_loss){PEGASOS_HUBER, 0, 0}), LOSS);
    REFUSED(problem, loss, ((pegasos_loss){PEGASOS_HINGE, 0, -0.1}), LOSS);
    REFUSED(problem, loss, ((pegasos_loss){PEGASOS_HINGE, 0, 1.1}), LOSS);
    REFUSED(problem, loss, ((pegasos_loss){PEGASOS_HINGE, 0, NAN}), LOSS);
    REFUSED(problem, loss, ((pegasos_loss){PEGASOS_SQUARED_HINGE, 0, 0.5}), LOSS);
    REFUSED(problem, loss, ((pegasos_loss){PEGASOS_HINGE, 0, 0.5}), TARGETS);
    for (int kind = 0; kind < LOSSES; kind++) {
        const bool has_epsilon = losses[kind].epsilon > 0;
        const double epsilons[] = {-0.1, NAN, INFINITY, -INFINITY, has_epsilon ? -1e-300 : 0.1};
        for (int k = 0; k < 5; k++)
            REFUSED(problem, loss, ((pegasos_loss){kind, epsilons[k], 0}), LOSS);
        problem.loss = losses[kind];
        CHECK(pegasos_check(&problem, &options) == PEGASOS_DONE);
        REFUSED(problem, targets, odd, TARGETS);
        problem.loss = losses[kind];
        REFUSED(problem, targets, infinite, TARGETS);
        problem.loss = losses[kind];
        REFUSED(problem, weights, none, WEIGHTS);
        problem.loss = losses[kind];
        if (has_labels(problem.loss)) { /* other losses take any number, and 0 is one */
            REFUSED(problem, targets, bad, TARGETS);
            problem.loss = losses[kind];
            REFUSED(problem, targets, none, TARGETS);
        } else
            for (int k = 0; k < 3; k++) {
                problem.targets = (const double *const[]){bad, none, huge}[k];
                CHECK(pegasos_check(&problem, &options) == PEGASOS_DONE);
            }
        problem = (pegasos_problem){.rows = &rows, .targets = good, .lam = 0.1};
    }
    problem.loss.kind = PEGASOS_EPSILON_INSENSITIVE; /* with 0: the absolute error */
    CHECK(pegasos_check(&problem, &options) == PEGASOS_DONE);
    problem.loss.kind = PEGASOS_SQUARED_EPSILON_INSENSITIVE;
    CHECK(pegasos_check(&problem, &options) == PEGASOS_DONE);
    problem.loss.kind = PEGASOS_HINGE;
    REFUSED(problem, free_intercept, 2, INTERCEPT);
    problem.targets = (const double[4]){1, 0, 1, 1};
    REFUSED(problem, loss, ((pegasos_loss){PEGASOS_HINGE, 0, 0.5}), INTERCEPT);
    REFUSED(problem, intercept_scaling, -1, INTERCEPT);
    REFUSED(options, tol, NAN, OPTIONS);
    REFUSED(options, max_epochs, -1, OPTIONS);
    REFUSED(options, solver, 3, OPTIONS);
    REFUSED(options, poll_every, INFINITY, OPTIONS);
    REFUSED(options, poll_epochs, 5, OPTIONS);
    REFUSED(options, resume, 3, OPTIONS);
    problem.intercept_scaling = 1;
    REFUSED(problem, free_intercept, 1, INTERCEPT);
    rows = csr;
    CHECK(pegasos_check(&problem, &options) == PEGASOS_DONE);
    REFUSED(rows, indptr, falling, ROWS);
    rows = csr;
    REFUSED(rows, indptr, before, ROWS);
    rows = csr;
    REFUSED(rows, indptr, ends_before, ROWS);
    rows = csr;
    REFUSED(rows, indices, far, ROWS);
    rows = csr;
    REFUSED(rows, indptr_bytes, 0, SIZES);
    rows = csr;
    REFUSED(rows, values, NULL, ROWS);
    rows = csr;
    REFUSED(rows, indices, NULL, ROWS);
    rows = csr;
    REFUSED(rows, indptr, NULL, ROWS);
    rows = csr;
    rows.n_features = INT64_MAX / 2048;
    CHECK(pegasos_check(&problem, &options) == PEGASOS_DONE && pegasos_memory(&problem) > 0);
    REFUSED(rows, n_features, INT64_MAX / 64, SIZES);
    rows = csr;
    rows.indptr = (const int32_t[5]){0}; /* rows of zeros have no values */
    rows.values = rows.indices = NULL;
    CHECK(pegasos_check(&problem, &options) == PEGASOS_DONE);
    rows = dense;
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
    KERNEL_REFUSED(problem, targets, NULL, TARGETS);
    KERNEL_REFUSED(problem, weights, none, WEIGHTS);
    KERNEL_REFUSED(problem, lam, -1, LAM);
    KERNEL_REFUSED(options, solver, PEGASOS_NEWTON, OPTIONS);
    for (int status = PEGASOS_DONE; status <= PEGASOS_BAD_KERNEL; status++)
        for (int other = -1; other < status; other++)
            CHECK(strcmp(pegasos_message(status), pegasos_message(other)) != 0);
    CHECK(strcmp(pegasos_message(-1), pegasos_message(PEGASOS_BAD_KERNEL + 1)) == 0);
}

/* Rows without weight are outside the problem, so their targets do not count. */
static void rows_without_weight_do_not_change_a_fit(void)
{
    static double memory[2][MEMORY];
    double weights[N], targets[2][N];
    pegasos_solution found[2];
    const pegasos_rows rows = rows_of_type(1);
    for (int kind = 0; kind < 3 * LOSSES; kind++) {
        const pegasos_loss loss = losses[kind / 3];
        write_targets(loss, targets[0]);
        for (int i = 0; i < N; i++) {
            weights[i] = i % 3;
            targets[1][i] = i % 3 ? targets[0][i] : has_labels(loss) ? 0 : 1e6;
        }
        for (int k = 0; k < 2; k++) {
            const pegasos_problem problem = {.rows = &rows,
                                             .targets = targets[k],
                                             .weights = weights,
                                             .lam = 0.03,
                                             .free_intercept = 1,
                                             .loss = loss};
            const pegasos_options options = {.tol = 1e-6, .max_epochs = 1000, .solver = kind % 3};
            CHECK(pegasos_check(&problem, &options) == PEGASOS_DONE);
            CHECK(pegasos_solve(&problem, &options, memory[k], &found[k]) == PEGASOS_DONE);
            CHECK(found[k].relative_gap <= 1e-6);
        }
        CHECK(memcmp(found[0].coef, found[1].coef, D * sizeof(double)) == 0);
        CHECK(memcmp(found[0].dual_variables, found[1].dual_variables, N * sizeof(double)) == 0);
        CHECK(found[0].objective == found[1].objective);
        CHECK(found[0].intercept == found[1].intercept);
    }
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
    for (int kind = 0; kind < 9 * 4; kind++) { /* losses with labels */
        const pegasos_options options = {
            .tol = 1e-6, .max_epochs = 1000, .seed = 7, .solver = kind / 3 % 3};
        pegasos_solution found[2];
        for (int k = 0; k < 2; k++) {
            pegasos_rows rows = rows_of_type(1);
            rows.values = k == 0 ? dense_double : far;
            const pegasos_problem problem = {.rows = &rows,
                                             .targets = targets,
                                             .lam = 0.03,
                                             .intercept_scaling = kind % 3 == 1,
                                             .free_intercept = kind % 3 == 2,
                                             .loss = losses[kind / 9]};
            CHECK(pegasos_solve(&problem, &options, memory[k], &found[k]) == PEGASOS_DONE);
        }
        CHECK(found[0].n_epochs == found[1].n_epochs);
        CHECK(memcmp(found[0].coef, found[1].coef, D * sizeof(double)) == 0);
        CHECK(found[0].intercept == found[1].intercept);
    }
}

static bool is_close(double found, double expected)
{
    return fabs(found - expected) <= 5e-16 * fabs(expected);
}

/* Compared with the C library, whose error is below a unit in the last place. */
static void exponentials_and_logarithms_are_accurate(void)
{
    for (int k = 0; k <= 100000; k++) {
        const double x = -708.0 * k / 100000, part = k / 100000.0, small = ldexp(1 + part, -40);
        CHECK(is_close(exp_of_double(x), exp(x)));
        CHECK(is_close(exp_of_double(-small), exp(-small)));
        CHECK(fabsf(exp_of_float((float)x / 9) / expf((float)x / 9) - 1) < 4e-7f);
        CHECK(is_close(log1p_of(part), log1p(part)));
        CHECK(is_close(log1p_of(small), log1p(small)));
        CHECK(is_close(log_of(exp(x)), log(exp(x))));
        CHECK(is_close(log_of(part + 0.5), log(part + 0.5)));
    }
    for (int k = -1074; k <= 1023; k++)
        CHECK(is_close(log_of(ldexp(1, k)), log(ldexp(1, k))));
    CHECK(exp_of_double(0) == 1 && exp_of_double(-1e300) < 1e-307 && exp_of_double(-INFINITY) >= 0);
    CHECK(log1p_of(0) == 0 && log_of(1) == 0 && log_of(INFINITY) == INFINITY);
    CHECK(isnan(exp_of_double(NAN)) && isnan(exp_of_float(NAN)) && isnan(log1p_of(NAN))
          && isnan(log_of(NAN)));
}

/* Writes a digest of all that training leaves behind, for every type of rows and every variant. */
static int write_digest(const char *path)
{
    uint64_t digest = FNV1A;
    for (int type = 0; type < TYPES; type++)
        for (int variant = 0; variant < 8 * LOSSES; variant++) {
            static bench b;
            const pegasos_rows rows = rows_of_type(type);
            begin(&b, losses[variant / 8], variant & 1, variant >> 1 & 1, variant >> 2 & 1);
            pegasos_linear_run(&rows, &b.set, 0, DRAWS, draws);
            digest = fnv1a(digest, b.problems, sizeof b.problems);
            digest = fnv1a(digest, &b.weights, sizeof b.weights);
            digest = fnv1a(digest, &b.sums, sizeof b.sums);
        }
    for (int type = 0; type < TYPES; type++)
        for (int kind = PEGASOS_LINEAR; kind <= PEGASOS_LAPLACIAN; kind++) {
            static double K[N * N];
            const pegasos_points points = {
                .rows = rows_of_type(type),
                .kernel = {kind, 0.1, 1, 3},
                .by_differences = kind == PEGASOS_GAUSSIAN,
                .by_panels = type >= 2
            };
            pegasos_watch watch = {.every = 1e18};
            const pegasos_workers workers = {
                .scratch =
                    malloc((size_t)pegasos_kernel_values_scratch_bytes(&points, &points, 1) + 1),
                .watch = &watch};
            pegasos_source source = {.x = &points, .z = &points, .workers = &workers};
            CHECK(pegasos_kernel_values(&source, N, NULL, 0, N, NULL, N, K) == 0);
            free(workers.scratch);
            if (kind != PEGASOS_SIGMOID) /* its bits are the C library's */
                digest = fnv1a(digest, K, (size_t)(N * N * points.rows.value_bytes));
        }
    for (int kind = 0; kind < 4 * LOSSES; kind++) {
        static double gram[N * N], coef[N];
        static float narrow[N * N];
        make_gram(gram, narrow);
        const void *matrix = kind & 1 ? (const void *)gram : narrow;
        const double tol = kind & 2 ? 1e-9 : 1e-4;
        solve_kernel_problem(matrix, kind & 1 ? 8 : 4, losses[kind / 4], tol, coef);
        digest = fnv1a(digest, coef, sizeof coef);
    }
    return write_hex(path, digest);
}

int main(int argc, char **argv)
{
    make_data();
    if (argc > 1)
        return write_digest(argv[1]);
    RUN(large_draws_are_unbiased);
    RUN(a_problem_stops_at_its_last_step_and_goes_on_from_there);
    RUN(rows_are_added_with_the_bits_of_one_at_a_time);
    RUN(squares_of_numbers_are_added);
    RUN(the_dual_is_climbed_to_its_top);
    RUN(kernel_pegasos_is_pegasos);
    RUN(no_intercept_is_better_than_the_best);
    RUN(the_middle_one_of_equally_good_intercepts_is_taken);
    RUN(a_whole_fit_is_certified);
    RUN(dual_ascent_makes_as_many_epochs_as_it_may);
    RUN(a_fit_goes_on_where_the_last_one_ended);
    RUN(rows_outside_a_problem_do_not_change_its_fit);
    RUN(rows_without_weight_do_not_change_a_fit);
    RUN(what_a_program_gets_wrong_is_named);
    RUN(exponentials_and_logarithms_are_accurate);
    RUN(kernel_machines_are_certified);
    RUN(a_kernel_may_stop_a_fit);
    RUN(rounding_ends_a_fit_of_a_kernel_machine);
    RUN(kernel_machines_have_their_limits);
    RUN(a_kernel_matrix_may_be_larger_than_memory);
    return REPORT();
}
