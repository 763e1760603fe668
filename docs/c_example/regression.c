/*
 * regression.c - fits numbers, some of which are far off, by the Huber loss: squared errors up to
 * epsilon, absolute ones beyond. Prints the model and its proof.
 */
#include "data.h"

#include <pegasos.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    static double z[N], scores[N];
    make_data();
    for (int64_t i = 0; i < N; i++) {
        const double *row = x + i * D;
        z[i] = 2 * row[0] - row[1] + 0.5 + (double)(i * 29 % 41 - 20) / 100;
        if (i % 20 == 0)
            z[i] += 30; /* an error of measurement */
    }
    const pegasos_rows rows = {.n_rows = N, .n_features = D, .value_bytes = 8, .values = x};
    const pegasos_problem problem = {
        .rows = &rows,
        .targets = z,
        .lam = 1e-4,
        .loss = {.kind = PEGASOS_HUBER, .epsilon = 0.5},
        .free_intercept = 1
    };
    const pegasos_options options = {.tol = 1e-6, .max_epochs = 1000, .seed = 42};
    pegasos_solution solution;
    int n_near = 0, status = pegasos_check(&problem, &options);
    void *memory = status == PEGASOS_DONE ? malloc((size_t)pegasos_memory(&problem)) : NULL;
    if (memory)
        status = pegasos_solve(&problem, &options, memory, &solution);
    if (status != PEGASOS_DONE || !memory) {
        fprintf(stderr, "%s\n", status ? pegasos_message(status) : "memory is short");
        free(memory);
        return EXIT_FAILURE;
    }
    pegasos_scores(&rows, solution.coef, solution.intercept, scores);
    for (int64_t i = 0; i < N; i++)
        n_near += z[i] - scores[i] < 0.5 && scores[i] - z[i] < 0.5;
    for (int64_t j = 0; j < D; j++)
        printf("weight %.6f\n", solution.coef[j]);
    printf("intercept %.6f\n", solution.intercept);
    printf("errors below epsilon %d\n", n_near);
    printf("objective %.9f\n", solution.objective);
    printf("no model is below %.9f\n", solution.dual_objective);
    free(memory);
    return EXIT_SUCCESS;
}
