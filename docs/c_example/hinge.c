/*
 * hinge.c - trains a linear machine to a gap of 1e-6, and prints the model and its proof.
 */
#include "data.h"

#include <pegasos.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    make_data();
    const pegasos_rows rows = {.n_rows = N, .n_features = D, .value_bytes = 8, .values = x};
    const pegasos_problem problem = {
        .rows = &rows, .targets = y, .lam = 1e-2, .intercept_scaling = 1};
    const pegasos_options options = {.tol = 1e-6, .max_epochs = 1000, .seed = 42};
    pegasos_solution solution;
    static double scores[N];
    int right = 0, status = pegasos_check(&problem, &options);
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
        right += y[i] * scores[i] > 0;
    for (int64_t j = 0; j < D; j++)
        printf("weight %.6f\n", solution.coef[j]);
    printf("intercept %.6f\n", solution.intercept);
    printf("accuracy %.3f\n", (double)right / N);
    printf("objective %.9f\n", solution.objective);
    printf("no model is below %.9f\n", solution.dual_objective);
    free(memory);
    return EXIT_SUCCESS;
}
