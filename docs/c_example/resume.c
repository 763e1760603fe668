/*
 * resume.c - saves a fit to a file after each epoch, as a program does that may be killed, and goes
 * on from the file: to the bits of a fit that was never stopped.
 */
#include "data.h"

#include <pegasos.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int stop(void *context, const pegasos_progress *progress)
{
    (void)context;
    (void)progress;
    return 1;
}

/* Writes the memory of a fit to a file, or reads it. */
static void transfer(const char *path, void *memory, size_t bytes, int writes)
{
    FILE *file = fopen(path, writes ? "wb" : "rb");
    const size_t done = !file    ? 0
                        : writes ? fwrite(memory, 1, bytes, file)
                                 : fread(memory, 1, bytes, file);
    if (!file || fclose(file) != 0 || done != bytes) {
        perror(path);
        exit(EXIT_FAILURE);
    }
}

int main(int count, char **arguments)
{
    const char *const path = count > 1 ? arguments[1] : "fit.bin";
    make_data();
    const pegasos_rows rows = {.n_rows = N, .n_features = D, .value_bytes = 8, .values = x};
    const pegasos_problem problem = {.rows = &rows, .targets = y, .lam = 1e-2, .free_intercept = 1};
    pegasos_options options = {.tol = 1e-6, .max_epochs = 1000, .solver = PEGASOS_ASCENT};
    pegasos_solution whole, resumed;
    const size_t bytes = (size_t)pegasos_memory(&problem);
    void *first = malloc(bytes), *memory = malloc(bytes);
    if (!first || !memory || pegasos_solve(&problem, &options, first, &whole) != PEGASOS_DONE)
        return EXIT_FAILURE;
    int status, n_parts = 0;
    options.poll = stop; /* at the end of every epoch: then the fit is saved */
    options.poll_epochs = 1;
    do {
        status = pegasos_solve(&problem, &options, memory, &resumed);
        transfer(path, memory, bytes, 1);
        memset(memory, 0, bytes); /* nothing but the file is left */
        transfer(path, memory, bytes, 0);
        options.resume = 1;
        n_parts++;
    } while (status == PEGASOS_STOPPED);
    if (status != PEGASOS_DONE)
        return EXIT_FAILURE;
    printf("parts %d\n", n_parts);
    printf("same objective %d\n", whole.objective == resumed.objective);
    printf("same weights %d\n", memcmp(whole.coef, resumed.coef, D * sizeof(double)) == 0);
    printf("objective %.9f\n", resumed.objective);
    printf("no model is below %.9f\n", resumed.dual_objective);
    free(first);
    free(memory);
    return EXIT_SUCCESS;
}
