/*
 * certified.c - trains a linear machine to a gap of 1e-6, and prints model and proof.
 */
#include "pegasos.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1000, D = 5 };

int main(void)
{
    static double x[N * D];
    static int8_t labels[N];
    for (int64_t i = 0; i < N; i++) { /* a rule with exceptions */
        double *row = x + i * D;
        for (int64_t j = 0; j < D; j++)
            row[j] = (double)(i * (2 * j + 3) * (j + 7) % 101) / 50 - 1;
        labels[i] = (row[0] + row[1] - row[2] > 0) != (i % 10 == 0) ? 1 : -1;
    }
    const pegasos_rows rows = {.n_rows = N, .n_features = D, .value_bytes = 8, .values = x};
    const pegasos_problem problem = {
        .rows = &rows, .labels = labels, .lam = 1e-2, .intercept_scaling = 1};
    const pegasos_options options = {.tol = 1e-6, .max_epochs = 1000, .seed = 42};
    void *memory = malloc((size_t)pegasos_memory(&problem));
    if (!memory)
        return EXIT_FAILURE;
    pegasos_solver *solver = pegasos_start(&problem, &options, memory);
    while (pegasos_advance(solver, 1e6) == PEGASOS_RUNNING)
        printf("epoch %" PRId64 "\n", pegasos_epochs(solver)); /* or hear signals, or save */
    for (int64_t j = 0; j < D; j++)
        printf("weight %.6f\n", pegasos_weights(solver)[j]);
    printf("intercept %.6f\n", pegasos_intercept(solver));
    printf("objective %.9f\n", pegasos_objective(solver));
    printf("no model is below %.9f\n", pegasos_dual_objective(solver));
    free(memory);
    return EXIT_SUCCESS;
}
