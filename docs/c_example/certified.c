/*
 * certified.c - trains a linear machine to a gap of 1e-6, and prints model and proof.
 */
#include "pegasos.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1000, D = 5 };

/* Is called at the end of every epoch; could hear signals, or stop the fit. */
static int show(void *context, const pegasos_progress *progress)
{
    (void)context;
    printf("epoch %" PRId64 "\n", progress->n_epochs);
    return 0;
}

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
    const pegasos_options options = {.tol = 1e-6, .max_epochs = 1000, .seed = 42, .poll = show};
    pegasos_solution solution;
    void *memory = malloc((size_t)pegasos_memory(&problem));
    if (!memory || pegasos_solve(&problem, &options, memory, &solution) != PEGASOS_DONE)
        return EXIT_FAILURE;
    for (int64_t j = 0; j < D; j++)
        printf("weight %.6f\n", solution.coef[j]);
    printf("intercept %.6f\n", solution.intercept);
    printf("objective %.9f\n", solution.objective);
    printf("no model is below %.9f\n", solution.dual_objective);
    free(memory);
    return EXIT_SUCCESS;
}
