/*
 * test_newton.c - Newton's method on its own: its equations, its line search, stops anywhere, and
 * plain loops compared with BLAS.
 *
 * With an argument, writes a digest of what was found to that file, like test_pegasos.c.
 */
#include "check.h"
#include "fit.h"
#include "losses.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The BLAS and LAPACK that a caller provides: upper triangles of columns. */
#define DEFINE_BLAS(P, VALUE)                                                                      \
    static void P##syrk(char *uplo, char *trans, int *n, int *k, VALUE *alpha, VALUE *a, int *lda, \
                        VALUE *beta, VALUE *c, int *ldc)                                           \
    {                                                                                              \
        CHECK(*uplo == 'U' && *alpha == 1);                                                        \
        const int row = *trans == 'N' ? 1 : *lda, column = *trans == 'N' ? *lda : 1;               \
        for (int j = 0; j < *n; j++)                                                               \
            for (int i = 0; i <= j; i++) {                                                         \
                VALUE sum = *beta == 0 ? 0 : c[i + j * *ldc];                                      \
                for (int l = 0; l < *k; l++)                                                       \
                    sum += a[i * row + l * column] * a[j * row + l * column];                      \
                c[i + j * *ldc] = sum;                                                             \
            }                                                                                      \
    }                                                                                              \
    static void P##potrf(char *uplo, int *n, VALUE *a, int *lda, int *info)                        \
    {                                                                                              \
        CHECK(*uplo == 'U');                                                                       \
        *info = 0;                                                                                 \
        for (int j = 0; j < *n && *info == 0; j++)                                                 \
            for (int i = 0; i <= j; i++) {                                                         \
                VALUE sum = a[i + j * *lda];                                                       \
                for (int l = 0; l < i; l++)                                                        \
                    sum -= a[l + i * *lda] * a[l + j * *lda];                                      \
                *info = i == j && !(sum > 0) ? j + 1 : 0;                                          \
                a[i + j * *lda] = i == j ? (VALUE)sqrt(sum) : sum / a[i + i * *lda];               \
            }                                                                                      \
    }                                                                                              \
    static void P##potrs(char *uplo, int *n, int *count, VALUE *a, int *lda, VALUE *b, int *ldb,   \
                         int *info)                                                                \
    {                                                                                              \
        CHECK(*uplo == 'U' && *count == 1 && *ldb == *n);                                          \
        for (int i = 0; i < *n; i++) {                                                             \
            for (int l = 0; l < i; l++)                                                            \
                b[i] -= a[l + i * *lda] * b[l];                                                    \
            b[i] /= a[i + i * *lda];                                                               \
        }                                                                                          \
        for (int i = *n - 1; i >= 0; i--) {                                                        \
            b[i] /= a[i + i * *lda];                                                               \
            for (int l = 0; l < i; l++)                                                            \
                b[l] -= a[l + i * *lda] * b[i];                                                    \
        }                                                                                          \
        *info = 0;                                                                                 \
    }
DEFINE_BLAS(d, double)
DEFINE_BLAS(s, float)

static const pegasos_blas blas = {dsyrk, ssyrk, dpotrf, spotrf, dpotrs, spotrs};

/* Memory of zeros for one test, which frees all of it at its end. */
static void *taken[1000];
static int n_taken;

static void *zeros(int64_t count, size_t bytes)
{
    void *const memory = calloc((size_t)count, bytes);
    if (!memory || n_taken == 1000)
        exit(1);
    return taken[n_taken++] = memory;
}

static double *numbers(int64_t count)
{
    return zeros(count, sizeof(double));
}

static void give_back(void)
{
    while (n_taken > 0)
        free(taken[--n_taken]);
}

static uint64_t generator;

/* A random number in [low, high); exact in single precision if these are small integers. */
static double uniform(double low, double high)
{
    return low + (high - low) * (double)pegasos_bounded_random(&generator, 4096) / 4096;
}

/* Types of rows: even ones float, odd ones double; dense, 32-bit CSR, 64-bit CSR. Intercepts: none,
 * penalised, free. */
enum { TYPES = 6, NONE = 0, PENALIZED = 1, FREE = 2, INTERCEPTS = 3 };

/* A problem at w = 0. */
typedef struct problem {
    int64_t n, d;
    double *x; /* n x d: the rows, dense */
    double *c; /* weights; 0 for rows that are not in the problem */
    int8_t *labels;
    double *values; /* targets, if the loss takes targets; else ones */
    pegasos_rows rows;
    pegasos_problem own;
    pegasos_options options;
    state state;
    fit fit;
} problem;

/* The log loss may have any width. */
static double own_width(pegasos_loss loss)
{
    return loss.kind >= PEGASOS_HUBER ? 1 : 0.5;
}

/* Makes `rows` of x. */
static void set_rows(problem *p, int type)
{
    const bool is_sparse = type >= 2, has_wide_indices = type >= 4, is_wide = type % 2;
    const int64_t size = p->n * p->d;
    float *const single = zeros(size, sizeof *single);
    double *const wide = numbers(size);
    int32_t *const indices32 = zeros(size, 4), *const indptr32 = zeros(p->n + 1, 4);
    int64_t *const indices64 = zeros(size, 8), *const indptr64 = zeros(p->n + 1, 8), at = 0;
    for (int64_t i = 0; i < p->n; i++) {
        for (int64_t j = 0; j < p->d; j++) {
            const double value = p->x[i * p->d + j];
            if (is_sparse && value == 0)
                continue;
            single[at] = (float)value;
            wide[at] = value;
            indices32[at] = (int32_t)j;
            indices64[at++] = j;
        }
        indptr32[i + 1] = (int32_t)at;
        indptr64[i + 1] = at;
    }
    p->rows = (pegasos_rows){.n_rows = p->n,
                             .n_features = p->d,
                             .value_bytes = is_wide ? 8 : 4,
                             .values = is_wide ? (void *)wide : (void *)single};
    if (is_sparse) {
        p->rows.index_bytes = has_wide_indices ? 8 : 4;
        p->rows.indices = has_wide_indices ? (void *)indices64 : (void *)indices32;
        p->rows.indptr_bytes = has_wide_indices ? 4 : 8; /* mixed widths are allowed */
        p->rows.indptr = has_wide_indices ? (void *)indptr32 : (void *)indptr64;
    }
}

/* Makes a problem of the given x, or of random rows, many of whose numbers are zero. */
static problem make(int64_t n, int64_t d, double *x, int type, pegasos_loss loss, int intercept,
                    double lam)
{
    problem p = {.n = n, .d = d, .x = x ? x : numbers(n * d), .c = numbers(n)};
    double *const normal = numbers(d), *const weights = numbers(n), *const norms = numbers(n);
    p.labels = zeros(n, 1);
    p.values = numbers(n);
    for (int64_t j = 0; j < d; j++)
        normal[j] = uniform(-2, 2);
    for (int64_t i = 0; i < n; i++) {
        double score = uniform(-1, 1);
        for (int64_t j = 0; j < d; j++) {
            if (!x && uniform(0, 1) < 0.4)
                p.x[i * d + j] = uniform(-2, 2);
            score += normal[j] * p.x[i * d + j];
            norms[i] += p.x[i * d + j] * p.x[i * d + j];
        }
        p.labels[i] = score > 0 || !has_labels(loss) ? 1 : -1;
        p.values[i] = has_labels(loss) ? 1 : score;
        p.c[i] = weights[i] = uniform(0.5, 2);
        p.state.mass += p.c[i];
    }
    set_rows(&p, type);
    p.own = (pegasos_problem){.lam = lam, .free_intercept = intercept == FREE, .loss = loss};
    p.options = (pegasos_options){.tol = -1, .max_epochs = 10000};
    p.state.solver = PEGASOS_NEWTON;
    p.state.lam = lam;
    p.state.primal = p.state.relative_gap = INFINITY;
    p.state.newton = (pegasos_newton){.constant_feature = intercept == NONE   ? 0
                                                          : intercept == FREE ? 1
                                                                              : 0.5,
                                      .narrowest = 1e-4,
                                      .width = has_corners(loss) ? 0.25 : own_width(loss),
                                      .dual_objective = -INFINITY};
    p.fit.targets =
        (pegasos_targets){n, p.labels, has_labels(loss) ? NULL : p.values, weights, loss};
    p.fit.norms = norms;
    p.fit.a = numbers(n);
    p.fit.coef = numbers(d);
    p.fit.point = numbers(d + 1);
    p.fit.scores = numbers(n);
    p.fit.centre = numbers(n);
    p.fit.newton_scratch = zeros(pegasos_newton_scratch_bytes(n, d), 1);
    return p;
}

/* Takes every seventh row out of a problem. */
static void leave_rows_out(problem *p)
{
    for (int64_t i = 0; i < p->n; i += 7) {
        p->state.mass -= p->c[i];
        p->labels[i] = 0;
        p->c[i] = 0;
    }
}

static int run_watched(problem *p, const pegasos_watch *watch)
{
    p->fit.rows = &p->rows;
    p->fit.problem = &p->own;
    p->fit.options = &p->options;
    p->fit.s = &p->state;
    p->fit.watch = *watch;
    p->fit.watch.progress = progress_of_state(&p->state);
    return pegasos_newton_run(&p->fit, p->options.max_epochs);
}

static int run(problem *p)
{
    pegasos_watch nobody = {.every = INFINITY};
    return run_watched(p, &nobody);
}

/* <z_i, w>, where z_i is row i with the feature that carries the intercept. */
static double score_of(const problem *p, int64_t i, const double *w)
{
    double score = p->state.newton.constant_feature * w[p->d];
    for (int64_t j = 0; j < p->d; j++)
        score += p->x[i * p->d + j] * w[j];
    return score;
}

/* sum += factor z_i */
static void add_row(const problem *p, int64_t i, double factor, double *sum)
{
    for (int64_t j = 0; j < p->d; j++)
        sum[j] += factor * p->x[i * p->d + j];
    sum[p->d] += factor * p->state.newton.constant_feature;
}

static void move_to(problem *p, const double *point)
{
    memcpy(p->fit.point, point, (size_t)(p->d + 1) * sizeof *point);
    for (int64_t i = 0; i < p->n; i++)
        p->fit.scores[i] = score_of(p, i, point);
}

static double error_of(const problem *p, int64_t i, double score)
{
    return p->values[i] - p->labels[i] * score;
}

/* The smoothing part of the width: all of it if the loss has corners. */
static double smoothing_of(const problem *p)
{
    const pegasos_loss loss = p->fit.targets.loss;
    return p->state.newton.width - (has_corners(loss) ? 0 : own_width(loss));
}

/* a_i(u), and its derivative. For a smoothed loss, a_i maximises
 * u a - c l*(a/c) - delta/2 (a - A)^2/c. */
static double slope_of(const problem *p, int64_t i, double u, double *second_derivative)
{
    const pegasos_loss loss = p->fit.targets.loss;
    const double c = p->c[i], width = p->state.newton.width, most = c * upper_slope(loss);
    double a = (smoothing_of(p) * p->fit.centre[i] + c * u) / width;
    *second_derivative = c * second_derivative_at(loss, u);
    if (smoothing_of(p) == 0)
        return c > 0 ? c * slope_at(loss, u) : 0;
    if (has_corners(loss))
        a = a > 0 ? fmax(0, a - c * loss.epsilon / width) : fmin(0, a + c * loss.epsilon / width);
    a = fmin(most, fmax(c * lower_slope(loss), a));
    *second_derivative = a != 0 && fabs(a) < most ? c / width : 0;
    return a;
}

/* Checks by the formulas that P and D are those reported; P - D must be at most gap P. */
static void check_certificate(const problem *p, double gap)
{
    const state *s = &p->state;
    const pegasos_loss kind = p->fit.targets.loss;
    double *const model = numbers(p->d + 1), *const sums = numbers(p->d + 1);
    double loss = 0, dual = 0, penalty = 0, norm = 0, balance = 0, mass = 0;
    memcpy(model, p->fit.coef, (size_t)p->d * sizeof *model);
    model[p->d] = s->newton.constant_feature == 0 ? 0 : s->intercept / s->newton.constant_feature;
    for (int64_t i = 0; i < p->n; i++) {
        const double a = p->fit.a[i], c = p->c[i];
        CHECK(is_within_bounds(kind, a, c));
        CHECK(smoothing_of(p) > 0 || p->fit.centre[i] == 0);
        loss += c * loss_at(kind, error_of(p, i, score_of(p, i, model)));
        dual += dual_at(kind, a, c, p->values[i]);
        add_row(p, i, a * p->labels[i], sums);
        balance += a * p->labels[i];
        mass += fabs(a);
    }
    if (p->own.free_intercept) {
        CHECK(fabs(balance) <= 1e-9 * mass);
        model[p->d] = sums[p->d] = 0;
    }
    for (int64_t j = 0; j <= p->d; j++) {
        penalty += model[j] * model[j];
        norm += sums[j] * sums[j];
    }
    const double primal = s->lam / 2 * penalty + loss / s->mass;
    dual = dual / s->mass - norm / (2 * s->lam * s->mass * s->mass);
    CHECK(fabs(primal - s->primal) <= 1e-9 * primal);
    CHECK(fabs(dual - s->newton.dual_objective) <= 1e-9 * primal);
    CHECK(primal - dual <= gap * primal);
}

/* The gradient of the smooth objective at `point`, for its scores and the present A and delta. */
static void gradient_at(const problem *p, const double *point, const double *scores, double *slope)
{
    const state *s = &p->state;
    const bool is_bare = p->own.free_intercept || s->newton.constant_feature == 0;
    for (int64_t j = 0; j <= p->d; j++)
        slope[j] = j == p->d && is_bare ? 0 : s->lam * point[j];
    for (int64_t i = 0; i < p->n; i++) {
        double second_derivative;
        const double a = slope_of(p, i, error_of(p, i, scores[i]), &second_derivative);
        add_row(p, i, -a * p->labels[i] / s->mass, slope);
    }
}

static double product(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += x[j] * y[j];
    return sum;
}

/* The second derivative in the equations. For the hinge, conjugate gradients have a wider band. */
static double curvature_of(const problem *p, int64_t i, double u)
{
    double second_derivative;
    slope_of(p, i, u, &second_derivative);
    if (p->fit.targets.loss.kind != PEGASOS_HINGE || p->d < PEGASOS_NEWTON_MAX_UNKNOWNS)
        return second_derivative;
    const double c = p->c[i], width = p->state.newton.width,
                 slope = p->fit.centre[i] + c * u / width;
    return fabs(slope - c / 2) < c ? c / (2 * width) : 0;
}

/* Makes an iteration, and compares its step with Newton's equations. Returns the band's rows. */
static int64_t check_step(problem *p, double tolerance)
{
    state *const s = &p->state;
    const int64_t size = p->d + 1;
    double *const step = numbers(size), *const before = numbers(size), *const left = numbers(size);
    double *const after = numbers(size), *const scores = numbers(p->n);
    memcpy(step, p->fit.point, (size_t)size * sizeof *step);
    memcpy(scores, p->fit.scores, (size_t)p->n * sizeof *scores);
    p->options.max_epochs = s->n_epochs + 1;
    CHECK(run(p) == PEGASOS_DONE);
    /* A and delta are still those of the step. */
    int64_t n_band = 0, n_curved = 0;
    double curvature_sum = 0;
    gradient_at(p, step, scores, before);
    for (int64_t j = 0; j < size; j++)
        step[j] = p->fit.point[j] - step[j];
    for (int64_t i = 0; i < p->n; i++) {
        double second_derivative;
        const double u = error_of(p, i, scores[i]), curvature = curvature_of(p, i, u);
        slope_of(p, i, u, &second_derivative);
        n_band += second_derivative > 0;
        n_curved += curvature > 0;
        curvature_sum += curvature / s->mass;
        add_row(p, i, curvature / s->mass * score_of(p, i, step), left);
    }
    for (int64_t j = 0; j < size; j++) {
        const double least = n_curved > 0 ? 1e-4 * curvature_sum : 1 / (s->newton.width * s->mass);
        const bool is_free = j == p->d && p->own.free_intercept;
        left[j] +=
            (is_free ? fmin(least, n_curved > 0 ? 1e-4 * s->lam : s->lam) : s->lam) * step[j];
    }
    const double left_norm = sqrt(product(left, left, size));
    const double right_norm = sqrt(product(before, before, size));
    for (int64_t j = 0; j < size; j++)
        CHECK(fabs(left[j] / left_norm + before[j] / right_norm) <= tolerance);
    if (s->lam < 1e-12)
        return n_band; /* a line search may not reach a minimum that is so far away */
    /* The search ends where the slope is a hundredth of its first value. */
    for (int64_t i = 0; i < p->n; i++) {
        const double score = score_of(p, i, p->fit.point);
        CHECK(fabs(p->fit.scores[i] - score) <= 1e-9 * (1 + fabs(score)));
    }
    gradient_at(p, p->fit.point, p->fit.scores, after);
    CHECK(fabs(product(after, step, size)) <= 0.0101 * fabs(product(before, step, size)));
    return n_band;
}

static int in_order(const void *one, const void *other)
{
    const double x = *(const double *)one, y = *(const double *)other;
    return (x > y) - (x < y);
}

/* Sets targets so that n_band rows are in the band. */
static void set_errors(problem *p, int64_t n_band)
{
    const pegasos_loss loss = p->fit.targets.loss;
    for (int64_t i = 0; i < p->n; i++) {
        const bool is_small = (i * 7919 % p->n < n_band) == (loss.kind == PEGASOS_HUBER);
        const double size = loss.epsilon * (is_small ? uniform(0, 0.9) : uniform(1.1, 3));
        p->values[i] = p->fit.scores[i] + (uniform(0, 1) < 0.5 ? -size : size);
    }
}

/* Moves a problem so that n_band rows are in the band, and stay there if A moves. For some losses,
 * all rows are in the band; returns how many are. */
static int64_t set_band(problem *p, int64_t n_band)
{
    const pegasos_loss loss = p->fit.targets.loss;
    double *const point = numbers(p->d + 1), *const sizes = numbers(p->n + 2);
    if (has_corners(loss)) {
        p->state.newton.width = 10;
        for (int64_t i = 0; i < p->n; i++) {
            const double sign = has_labels(loss) || uniform(0, 1) < 0.5 ? 1 : -1;
            p->values[i] = sign;
            p->fit.centre[i] = sign * p->c[i] * (i * 7919 % p->n < n_band ? uniform(0.1, 0.6) : 1);
        }
        return n_band;
    }
    for (int64_t j = 0; j <= p->d; j++)
        point[j] = uniform(-2, 2);
    move_to(p, point);
    if (loss.kind == PEGASOS_LOG_LOSS || loss.kind == PEGASOS_SQUARED_ERROR)
        return p->n;
    if (!has_labels(loss)) {
        set_errors(p, n_band);
        return n_band;
    }
    /* The rows within the margin are in the band. */
    for (int64_t i = 0; i < p->n; i++) {
        p->labels[i] = p->fit.scores[i] > 0 ? 1 : -1;
        sizes[i + 1] = fabs(p->fit.scores[i]);
        sizes[p->n + 1] = fmax(sizes[p->n + 1], 2 * sizes[i + 1]);
    }
    qsort(sizes + 1, (size_t)p->n, sizeof *sizes, in_order);
    for (int64_t j = 0; j <= p->d; j++)
        point[j] /= (sizes[n_band] + sizes[n_band + 1]) / 2;
    move_to(p, point);
    /* Beyond the margin on the wrong side, u > 2, the modified Huber loss is linear, too. */
    for (int64_t i = 0; loss.kind == PEGASOS_MODIFIED_HUBER && i < p->n; i += 3)
        if (fabs(p->fit.scores[i]) > 1)
            p->labels[i] = (int8_t)-p->labels[i];
    return n_band;
}

static void equations_are_solved_however_many_rows_there_are(void)
{
    const int64_t bands[] = {0, 1, 17, 20, 21, 42, 100};
    const double lams[] = {1e-6, 1e-2, 1};
    for (int type = 0; type < TYPES; type++)
        for (int kind = 0; kind < LOSSES * INTERCEPTS * 6; kind++) {
            const pegasos_loss loss = losses[kind % LOSSES];
            const double lam = lams[kind / LOSSES / INTERCEPTS / 2];
            const bool has_blas = kind / LOSSES / INTERCEPTS % 2;
            /* BLAS works in single precision while its errors stay below a tenth of what lam adds.
             * They grow with the matrix, which is twenty times as large for the squared hinge. */
            const double single = has_corners(loss) ? 1e-6 : 2e-5;
            for (int k = 0; k < 7; k++) {
                problem p = make(120, 40, NULL, type, loss, kind / LOSSES % INTERCEPTS, lam);
                p.fit.blas = has_blas ? &blas : NULL;
                const int64_t n_band = set_band(&p, bands[k]);
                CHECK(check_step(&p, has_blas ? (lam < 1e-2 ? 0.1 : single) : 1e-8) == n_band);
                give_back();
            }
        }
}

/* Only a small lam makes the matrix positive definite: errors of single precision would show. */
static void features_that_add_up_to_a_constant_are_no_trouble(void)
{
    for (int type = 0; type < TYPES; type++)
        for (int kind = 0; kind < 2 * INTERCEPTS; kind++) {
            double *const x = numbers(200 * 40);
            for (int64_t i = 0; i < 200; i++)
                x[i * 40 + i * 7919 % 40] = 1;
            problem p = make(200, 40, x, type, losses[PEGASOS_HINGE], kind / 2, 1e-9);
            p.fit.blas = kind % 2 ? &blas : NULL;
            for (int64_t i = 0; i < 200; i++)
                p.labels[i] = uniform(0, 1) < 0.5 ? 1 : -1;
            set_band(&p, 200);
            CHECK(check_step(&p, 1e-7) == 200);
            give_back();
        }
}

/* lam is lost in the rounding of the sum: among equal features, none may leap. */
static void singular_equations_have_an_answer(void)
{
    for (int type = 0; type < TYPES; type++)
        for (int kind = 0; kind < 4 * INTERCEPTS; kind++) {
            double *const x = numbers(200 * 30);
            for (int64_t j = 0; j < 200 * 30; j++)
                x[j] = 1;
            problem p = make(200, 30, x, type, losses[PEGASOS_HINGE], kind / 4, 1e-22);
            p.fit.blas = kind % 2 ? &blas : NULL;
            for (int64_t i = 0; i < 200; i++)
                p.labels[i] = uniform(0, 1) < 0.3 ? 1 : -1;
            set_band(&p, kind / 2 % 2 ? 10 : 200);
            check_step(&p, 1e-4);
            const double *w = p.fit.point;
            for (int64_t j = 1; j < 30; j++)
                CHECK(fabs(w[j] - w[0]) <= 1e-3 * fabs(w[0]));
            give_back();
        }
}

static void conjugate_gradients_solve_the_equations_of_many_features(void)
{
    for (int type = 0; type < TYPES; type++)
        for (int kind = 0; kind < LOSSES * INTERCEPTS; kind++)
            for (int64_t n_band = 0; n_band <= 60; n_band += n_band ? 40 : 20) {
                problem p = make(60, PEGASOS_NEWTON_MAX_UNKNOWNS + 50, NULL, type,
                                 losses[kind % LOSSES], kind / LOSSES, 0.1);
                p.fit.blas = &blas;
                const int64_t expected = set_band(&p, n_band);
                CHECK(check_step(&p, has_corners(losses[kind % LOSSES]) ? 0.05 : 0.02) == expected);
                give_back();
            }
}

/* There are so many features that equations are solved by products. */
static void features_without_values_change_nothing(void)
{
    enum { FEW = 10, MANY = PEGASOS_NEWTON_MAX_UNKNOWNS + 1 };
    for (int type = 0; type < TYPES; type++)
        for (int kind = 0; kind < LOSSES * INTERCEPTS; kind++) {
            const uint64_t before = generator;
            problem few = make(80, FEW, NULL, type, losses[kind % LOSSES], kind / LOSSES, 1e-2);
            double *const x = numbers(80 * MANY);
            for (int64_t i = 0; i < 80; i++)
                memcpy(x + i * MANY, few.x + i * FEW, FEW * sizeof *x);
            problem many = make(80, MANY, x, type, losses[kind % LOSSES], kind / LOSSES, 1e-2);
            memcpy(many.labels, few.labels, 80);
            memcpy(many.values, few.values, 80 * sizeof *many.values);
            memcpy(many.c, few.c, 80 * sizeof *many.c);
            many.fit.targets.weights = few.fit.targets.weights;
            many.state = few.state;
            few.options.tol = many.options.tol = 1e-6;
            CHECK(run(&few) == PEGASOS_DONE && run(&many) == PEGASOS_DONE);
            check_certificate(&few, 1.01e-6);
            check_certificate(&many, 1.01e-6);
            CHECK(fabs(few.state.primal - many.state.primal) <= 2e-6 * many.state.primal);
            CHECK(generator != before);
            give_back();
        }
}

/* The loss is curved at few rows, so it is smoothed, too. */
static void a_narrow_loss_is_smoothed(void)
{
    for (int type = 0; type < TYPES; type++)
        for (int kind = 0; kind < 3 * INTERCEPTS; kind++) {
            const double epsilon = 1e-6, lam = epsilon * (kind < INTERCEPTS ? 1e-3 : 1);
            const pegasos_loss loss = {PEGASOS_HUBER, epsilon, 0};
            problem p = make(200, 6, NULL, type, loss, kind % INTERCEPTS,
                             kind < 2 * INTERCEPTS ? lam : 1e3 * lam);
            p.state.newton.width = 0.25 / epsilon;
            p.state.newton.narrowest = 0.01;
            check_step(&p, 1e-8);
            p.options.max_epochs = 300;
            p.options.tol = 1e-6;
            CHECK(run(&p) == PEGASOS_DONE && smoothing_of(&p) > 0);
            check_certificate(&p, 1.01e-6);
            give_back();
        }
}

/* Stops when the count of calls left reaches 0. */
static int stop_later(void *n_left, const pegasos_progress *progress)
{
    CHECK(progress->n_epochs >= 0 && progress->objective > 0 && progress->relative_gap >= 0);
    return --*(int64_t *)n_left == 0;
}

static bool are_equal(const double *x, const double *y, int64_t count)
{
    return memcmp(x, y, (size_t)count * sizeof *x) == 0;
}

static void a_run_may_be_stopped_anywhere(void)
{
    const int64_t shapes[2][2] = {
        {600, 12},
        {30,  60}
    }; /* with several pieces; with few rows */
    for (int type = 0; type < TYPES; type++)
        for (int kind = 0; kind < 4 * LOSSES * INTERCEPTS; kind++) {
            if ((type + kind % 4 + kind / 4 % LOSSES + kind / 4 / LOSSES) % 3)
                continue; /* any three of type, shape, loss and intercept meet */
            const int64_t *shape = shapes[kind / 2 % 2];
            const uint64_t seed = generator;
            /* Whole; stopped after each iteration; stopped at the first poll, the second, ... */
            problem runs[3];
            for (int k = 0; k < 3; k++) {
                problem *const p = runs + k;
                generator = seed;
                *p = make(shape[0], shape[1], NULL, type, losses[kind / 4 % LOSSES],
                          kind / 4 / LOSSES, 1e-2);
                p->fit.blas = kind % 2 ? &blas : NULL;
                p->options.tol = 1e-6;
                leave_rows_out(p);
                int64_t n_stops = 0, n_left = 1;
                pegasos_watch watch = {.poll = k > 0 ? stop_later : NULL,
                                       .context = &n_left,
                                       .every = k == 2 ? 1 : INFINITY,
                                       .by_epochs = k == 1};
                int status;
                while ((status = run_watched(p, &watch)) == PEGASOS_STOPPED) {
                    n_stops++;
                    n_left = k == 2 ? 1 + n_stops : 1;
                }
                CHECK(status == PEGASOS_DONE);
                CHECK(k == 0 ? n_stops == 0 : n_stops >= (k == 1 ? 2 : 8));
            }
            check_certificate(runs, 1.01e-6);
            const fit *one = &runs[0].fit;
            for (int k = 1; k < 3; k++) {
                const fit *other = &runs[k].fit;
                CHECK(memcmp(&runs[0].state, &runs[k].state, sizeof(state)) == 0);
                CHECK(are_equal(one->point, other->point, shape[1] + 1));
                CHECK(are_equal(one->coef, other->coef, shape[1]));
                CHECK(are_equal(one->scores, other->scores, shape[0]));
                CHECK(are_equal(one->centre, other->centre, shape[0]));
                CHECK(are_equal(one->a, other->a, shape[0]));
            }
            give_back();
        }
}

static int count_polls(void *n_polls, const pegasos_progress *progress)
{
    ++*(int64_t *)n_polls;
    return progress->n_epochs < 0;
}

/* With many rows or features, in every part of a run: a piece is about a million numbers. */
static void a_run_asks_after_about_so_many_numbers(void)
{
    const int64_t shapes[3][2] = {
        {30000, 20  },
        {400,   300 },
        {50,    2500}
    };
    for (int k = 0; k < 3; k++) {
        const int64_t n = shapes[k][0], d = shapes[k][1];
        int64_t n_polls = 0;
        pegasos_watch watch = {.poll = count_polls, .context = &n_polls, .every = 1e6};
        problem p = make(n, d, NULL, 1, losses[PEGASOS_HINGE], NONE, 1e-3);
        p.options.max_epochs = 30;
        CHECK(run_watched(&p, &watch) == PEGASOS_DONE);
        CHECK(30 * (double)(n * d) / 4e6 <= (double)n_polls);
        CHECK((double)n_polls <= 30 * (double)(n * d) / 1e4);
        give_back();
    }
}

static void plain_loops_go_where_blas_goes(void)
{
    const int64_t shapes[3][2] = {
        {200, 12 },
        {30,  60 },
        {150, 300}
    };
    for (int type = 0; type < TYPES; type++)
        for (int kind = 0; kind < 3 * LOSSES * INTERCEPTS; kind++) {
            const int64_t n = shapes[kind % 3][0], d = shapes[kind % 3][1];
            const uint64_t seed = generator;
            if (kind % 3 == 2 && kind / 3 != type)
                continue; /* each type and each kind once, as BLAS is slow here */
            problem runs[2];
            for (int k = 0; k < 2; k++) {
                problem *const p = runs + k;
                generator = seed;
                *p = make(n, d, NULL, type, losses[kind / 3 % LOSSES], kind / 3 / LOSSES, 1e-3);
                for (int64_t i = 0; i < n; i++) { /* features depend on each other */
                    p->x[i * d + d - 2] = p->x[i * d];
                    p->x[i * d + d - 1] = 1;
                }
                set_rows(p, type);
                p->options.tol = 1e-6;
                p->fit.blas = k ? &blas : NULL;
                CHECK(run(p) == PEGASOS_DONE);
                check_certificate(p, 1.01e-6);
            }
            const state *loops = &runs[0].state, *by_blas = &runs[1].state;
            CHECK(fabs(loops->primal - by_blas->primal) <= 2e-6 * by_blas->primal);
            CHECK((double)loops->n_epochs <= 1.2 * (double)by_blas->n_epochs + 5);
            give_back();
        }
}

static void a_point_whose_objective_is_no_number_is_told(void)
{
    problem p = make(20, 3, NULL, 1, losses[PEGASOS_HINGE], NONE, 0.1);
    p.fit.scores[3] = INFINITY;
    p.labels[3] = -1;
    CHECK(run(&p) == PEGASOS_OVERFLOW);
    give_back();
}

/* For every type of rows and every loss; without BLAS, which has its own bits. */
static int write_digest(const char *path)
{
    uint64_t digest = FNV1A;
    for (int type = 0; type < TYPES; type++)
        for (int k = 0; k < LOSSES; k++) {
            problem p = make(50, 37, NULL, type, losses[k], type % INTERCEPTS, 1e-3);
            p.options.tol = 1e-6;
            CHECK(run(&p) == PEGASOS_DONE);
            digest = fnv1a(digest, p.fit.coef, 37 * sizeof *p.fit.coef);
            give_back();
        }
    return write_hex(path, digest);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return write_digest(argv[1]);
    RUN(equations_are_solved_however_many_rows_there_are);
    RUN(features_that_add_up_to_a_constant_are_no_trouble);
    RUN(singular_equations_have_an_answer);
    RUN(conjugate_gradients_solve_the_equations_of_many_features);
    RUN(features_without_values_change_nothing);
    RUN(a_narrow_loss_is_smoothed);
    RUN(a_run_may_be_stopped_anywhere);
    RUN(a_run_asks_after_about_so_many_numbers);
    RUN(plain_loops_go_where_blas_goes);
    RUN(a_point_whose_objective_is_no_number_is_told);
    return REPORT();
}
