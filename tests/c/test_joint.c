/*
 * test_joint.c - the joint problem of several classes: its certificate by plain sums, and stops.
 *
 * With an argument, writes a digest of what was found to that file, like test_pegasos.c.
 */
#include "check.h"
#include "core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 40, D = 5, K = 3, OFTEN = 397 /* polls; an iteration has fewer */ };

static double x[N * D], norms[N], weights[N];
static int64_t codes[N];
static const double cost[K * K] = {0, 1, 2, 1, 0, 0.5, 3, 1, 0};

static const pegasos_rows rows = {.n_rows = N, .n_features = D, .value_bytes = 8, .values = x};

static void make_rows(void)
{
    uint64_t generator = 1;
    for (int i = 0; i < N; i++) {
        norms[i] = 0;
        for (int j = 0; j < D; j++) {
            x[i * D + j] = (double)pegasos_bounded_random(&generator, 2001) / 1000 - 1;
            norms[i] += x[i * D + j] * x[i * D + j];
        }
        codes[i] = pegasos_bounded_random(&generator, K + 1) - 1; /* -1: not in the problem */
        weights[i] = codes[i] < 0 ? 0 : 0.5 + (double)(i % 3);
    }
}

static pegasos_joint_problem problem = {
    .rows = &rows,
    .n_classes = K,
    .codes = codes,
    .weights = weights,
    .cost = cost,
    .norms = norms,
    .lam = 1e-2,
    .constant_feature = 1,
};

static void *make_memory(void)
{
    void *const memory = calloc(1, (size_t)pegasos_joint_state_bytes(N, D, K, 1));
    CHECK(memory != NULL);
    if (!memory)
        exit(1);
    return memory;
}

/* Stops at every OFTEN-th poll; `context` counts down. */
static int stop_now_and_then(void *context, const pegasos_progress *progress)
{
    int64_t *const left = context;
    (void)progress;
    if (--*left > 0)
        return 0;
    *left = OFTEN;
    return 1;
}

/* Fits into `memory`; returns the number of stops. */
static int fit(const pegasos_joint_options *options, void *memory, int64_t *left)
{
    void *const room = malloc((size_t)pegasos_joint_scratch_bytes(&problem, options));
    pegasos_watch watch = {.every = left ? 1 : 1e18};
    int stops = 0, status = PEGASOS_STOPPED;
    if (left) {
        watch.poll = stop_now_and_then;
        watch.context = left;
    }
    while (room && status == PEGASOS_STOPPED) {
        status = pegasos_joint_run(&problem, options, memory, room, &watch);
        stops += status == PEGASOS_STOPPED;
    }
    CHECK(status == PEGASOS_DONE);
    free(room);
    return stops;
}

static double objective(const double *coef, const double *intercept)
{
    double norm = 0, loss = 0, mass = 0;
    for (int k = 0; k < K; k++) {
        norm += problem.is_free ? 0 : intercept[k] * intercept[k];
        for (int j = 0; j < D; j++)
            norm += coef[k * D + j] * coef[k * D + j];
    }
    for (int i = 0; i < N; i++) {
        double scores[K], most = -INFINITY;
        if (codes[i] < 0)
            continue;
        for (int k = 0; k < K; k++) {
            scores[k] = intercept[k];
            for (int j = 0; j < D; j++)
                scores[k] += coef[k * D + j] * x[i * D + j];
        }
        for (int k = 0; k < K; k++)
            most = fmax(most, cost[codes[i] * K + k] + scores[k]);
        loss += weights[i] * (most - scores[codes[i]]);
        mass += weights[i];
    }
    return problem.lam / 2 * norm + loss / mass;
}

static const pegasos_joint_options ascent = {
    .tol = 1e-9, .last_epoch = 100000, .batch_size = 1, .averages = 1, .seed = 7};
static const pegasos_joint_options newton = {
    .tol = 1e-9, .last_epoch = 1000, .newton_after = 1, .batch_size = 1, .averages = 1, .seed = 7};
static const pegasos_joint_options steps = {.tol = -1,
                                            .last_step = 1500,
                                            .batch_size = 2,
                                            .project = 1,
                                            .averages = 1,
                                            .average_from = 751,
                                            .seed = 7};
static const pegasos_joint_options *const all[] = {&ascent, &newton, &steps};
enum { ALL = sizeof all / sizeof *all };

static void objectives_are_those_of_plain_sums(void)
{
    double best = INFINITY, bound = -INFINITY;
    for (int t = 0; t < ALL; t++) {
        pegasos_joint *const s = make_memory();
        fit(all[t], s, NULL);
        const double *coef = (const double *)(s + 1), plain = objective(coef, coef + K * D);
        CHECK(fabs(plain - s->primal) <= 1e-12 * plain);
        best = fmin(best, plain);
        bound = fmax(bound, s->dual);
        CHECK(all[t] == &steps || s->primal - s->dual <= 1e-9 * s->primal);
        free(s);
    }
    CHECK(bound <= best * (1 + 1e-15));
}

static void a_fit_may_be_stopped_anywhere(void)
{
    const size_t size = (size_t)pegasos_joint_state_bytes(N, D, K, 1);
    for (int t = 0; t < ALL; t++) {
        void *const whole = make_memory(), *const stopped = make_memory();
        int64_t left = OFTEN;
        fit(all[t], whole, NULL);
        CHECK(fit(all[t], stopped, &left) > 2);
        CHECK(memcmp(whole, stopped, size) == 0);
        free(whole);
        free(stopped);
    }
}

static int write_digest(const char *path)
{
    uint64_t digest = FNV1A;
    void *const memory = make_memory();
    for (int t = 0; t < 2; t++) { /* Newton's method goes on from dual ascent */
        fit(all[t], memory, NULL);
        digest = fnv1a(digest, memory, (size_t)pegasos_joint_state_bytes(N, D, K, 1));
    }
    free(memory);
    return write_hex(path, digest);
}

int main(int argc, char **argv)
{
    make_rows();
    if (argc > 1)
        return write_digest(argv[1]);
    for (problem.is_free = 0; problem.is_free < 2; problem.is_free++) {
        RUN(objectives_are_those_of_plain_sums);
        RUN(a_fit_may_be_stopped_anywhere);
    }
    return REPORT();
}
