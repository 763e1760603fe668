/*
 * test_threads.c - problems that share rows, labels and draws get the same bits in threads as one
 * after the other. ThreadSanitizer must find no race.
 */
#include "check.h"
#include "core.h"

#include <pthread.h>
#include <string.h>

enum { N = 60, D = 24, PER_ROW = 9, DRAWS = 40 * N, THREADS = 4 };

static double dense[N * D], values[N * PER_ROW];
static int32_t indices[N * PER_ROW], indptr[N + 1];
static int8_t labels[N];
static int64_t draws[DRAWS];

typedef struct job {
    const pegasos_rows *rows;
    pegasos_linear problem;
    pegasos_dual dual;
    double weights[D], sums[D], a[N], w[D], norms[N], scratch[D], scores[N];
    double counts[N];
    int64_t pending[1], active[N];
} job;

static void make_data(void)
{
    uint64_t generator = 3;
    pegasos_order order;
    int64_t permutation[N];
    for (int i = 0; i < N; i++) {
        labels[i] = (int8_t)(2 * pegasos_bounded_random(&generator, 2) - 1);
        indptr[i + 1] = (i + 1) * PER_ROW;
        for (int j = 0; j < PER_ROW; j++) {
            const int place = i * PER_ROW + j;
            values[place] = (double)pegasos_bounded_random(&generator, 1000) / 500 - 1;
            indices[place] = (int32_t)pegasos_bounded_random(&generator, D);
            dense[i * D + indices[place]] += values[place];
        }
    }
    pegasos_order_seek(&order, 8, N, PEGASOS_PERMUTATION, 0, permutation);
    pegasos_order_draw(&order, permutation, DRAWS, draws);
}

static void begin(job *j, const pegasos_rows *rows, int number)
{
    memset(j, 0, sizeof *j);
    j->rows = rows;
    j->problem = (pegasos_linear){
        .lam = 0.01 * (number + 1), .weight_factor = 1, .average_from = 20, .last_step = INT64_MAX};
    pegasos_linear_start(&j->problem);
    j->dual.scale = 1 / (j->problem.lam * N);
    for (int i = 0; i < N; i++)
        j->active[i] = i;
    pegasos_dual_start(&j->dual, N);
}

static void *work(void *argument)
{
    job *j = argument;
    const pegasos_targets targets = {.n = N, .labels = labels};
    const pegasos_linear_set set = {.n_problems = 1,
                                    .batch_size = 1,
                                    .problems = &j->problem,
                                    .targets = targets,
                                    .weights = j->weights,
                                    .sums = j->sums,
                                    .counts = j->counts,
                                    .pending = j->pending};
    const double none = 0;
    pegasos_linear_run(j->rows, &set, 0, DRAWS, draws);
    pegasos_linear_norms(j->rows, 0, N, j->scratch, j->norms);
    for (int epoch = 0; epoch < 20; epoch++) {
        pegasos_dual_run(j->rows, &j->dual, &targets, j->norms, j->active, j->a, j->w, NULL, N);
        pegasos_dual_begin_epoch(&j->dual);
    }
    pegasos_linear_scores(j->rows, 0, NULL, N, 1, j->w, 8, 0, &none, j->scores);
    return NULL;
}

static void threads_do_not_see_each_other(void)
{
    static job together[THREADS], alone;
    const pegasos_rows kinds[] = {
        {.n_rows = N, .n_features = D, .value_bytes = 8, .values = dense},
        {.n_rows = N,
         .n_features = D,
         .value_bytes = 8,
         .index_bytes = 4,
         .indptr_bytes = 4,
         .values = values,
         .indices = indices,
         .indptr = indptr},
    };
    for (int kind = 0; kind < 2; kind++) {
        pthread_t threads[THREADS];
        for (int t = 0; t < THREADS; t++) {
            begin(&together[t], &kinds[kind], t);
            CHECK(pthread_create(&threads[t], NULL, work, &together[t]) == 0);
        }
        for (int t = 0; t < THREADS; t++)
            CHECK(pthread_join(threads[t], NULL) == 0);
        for (int t = 0; t < THREADS; t++) {
            begin(&alone, &kinds[kind], t);
            work(&alone);
            CHECK(memcmp(&alone, &together[t], sizeof alone) == 0);
            CHECK(alone.problem.n_violations > 0 && alone.scores[0] != 0);
        }
    }
}

int main(void)
{
    make_data();
    RUN(threads_do_not_see_each_other);
    return REPORT();
}
