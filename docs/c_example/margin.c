/*
 * margin.c - trains one linear machine, and proves how good it is.
 *
 * N rows of D numbers; labels by a rule with exceptions, so that some rows violate their margin at
 * the optimum as well. Pegasos runs for EPOCHS permutations of the rows.
 */
#include "pegasos.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1000, D = 5, EPOCHS = 200 };

static const double lam = 1e-2;

static double x[N * D], weights[D], coef[D], dual_coef[D], scores[N], factors[N];
static int8_t labels[N];
static int64_t permutation[N], draws[N], counts[N], pending[1];

static void make_rows(void)
{
    for (int64_t i = 0; i < N; i++) {
        for (int64_t j = 0; j < D; j++)
            x[i * D + j] = (double)(i * (2 * j + 3) * (j + 7) % 101) / 50 - 1;
        const double *row = x + i * D;
        const int exception = i % 10 == 0;
        labels[i] = (row[0] + row[1] - row[2] > 0) != exception ? 1 : -1;
    }
}

static double squared_norm(const double *w)
{
    double sum = 0;
    for (int64_t j = 0; j < D; j++)
        sum += w[j] * w[j];
    return sum;
}

int main(void)
{
    make_rows();
    const pegasos_rows rows = {.n_rows = N, .n_features = D, .value_bytes = 8, .values = x};

    /* Settings; pegasos_linear_start sets the rest. */
    pegasos_linear problem = {.lam = lam, .weight_factor = 1, .last_step = (int64_t)EPOCHS * N};
    pegasos_linear_start(&problem);
    const pegasos_linear_set set = {
        .n_problems = 1,
        .batch_size = 1,
        .problems = &problem,
        .labels = labels,
        .weights = weights,
        .counts = counts,
        .pending = pending,
    };

    /* An epoch a call; a call of any length gives the same bits. */
    pegasos_order order;
    pegasos_order_seek(&order, 42, N, PEGASOS_PERMUTATION, 0, permutation);
    while (problem.n_steps < problem.last_step) {
        const int64_t first = order.next;
        pegasos_order_draw(&order, permutation, N, draws);
        pegasos_linear_run(&rows, &set, first, N, draws);
    }
    double intercept;
    pegasos_linear_model(&problem, D, rows.value_bytes, weights, NULL, coef, &intercept);

    /* P(w) = lam/2 |w|^2 + mean hinge. */
    pegasos_linear_scores(&rows, 0, N, 1, coef, 8, 0, &intercept, scores);
    double hinge = 0;
    int right = 0;
    for (int64_t i = 0; i < N; i++) {
        const double margin = labels[i] * scores[i];
        hinge += margin < 1 ? 1 - margin : 0;
        right += margin > 0;
    }
    const double primal = lam / 2 * squared_norm(coef) + hinge / N;

    /* D(a) = mean a - lam/2 |w(a)|^2 with a_i = counts_i / EPOCHS, which is in [0, 1]. */
    double a_sum = 0;
    for (int64_t i = 0; i < N; i++) {
        const double a = (double)counts[i] / EPOCHS;
        a_sum += a;
        factors[i] = a * labels[i] / (lam * N);
    }
    pegasos_linear_combine(&rows, 0, N, factors, dual_coef);
    const double dual = a_sum / N - lam / 2 * squared_norm(dual_coef);

    printf("steps %" PRId64 "\n", problem.n_steps);
    printf("accuracy %.3f\n", (double)right / N);
    printf("objective %.9f\n", primal);
    printf("no model is below %.9f\n", dual);
    return EXIT_SUCCESS;
}
