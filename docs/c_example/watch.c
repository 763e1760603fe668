/*
 * watch.c - shows how far a fit is, and stops it at Ctrl-C with the model that it has by then.
 *
 * So that the program shows this without a hand at the keyboard, it presses Ctrl-C itself after ten
 * epochs.
 */
#include "data.h"

#include <inttypes.h>
#include <pegasos.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static volatile sig_atomic_t is_pressed;

static void press(int signal_number)
{
    (void)signal_number;
    is_pressed = 1;
}

static int show(void *context, const pegasos_progress *progress)
{
    int64_t *const epochs = context;
    if (progress->n_epochs > *epochs) {
        *epochs = progress->n_epochs;
        printf("epoch %" PRId64 ", objective %.4f\n", *epochs, progress->objective);
        if (*epochs >= 10)
            raise(SIGINT);
    }
    return is_pressed;
}

int main(void)
{
    int64_t epochs = 0;
    make_data();
    signal(SIGINT, press);
    const pegasos_rows rows = {.n_rows = N, .n_features = D, .value_bytes = 8, .values = x};
    const pegasos_problem problem = {
        .rows = &rows, .targets = y, .lam = 1e-2, .intercept_scaling = 1};
    const pegasos_options options = {.tol = 1e-12,
                                     .max_epochs = 1000,
                                     .solver = PEGASOS_NEWTON,
                                     .poll = show,
                                     .poll_epochs = 1,
                                     .context = &epochs};
    pegasos_solution solution;
    void *memory = malloc((size_t)pegasos_memory(&problem));
    if (!memory)
        return EXIT_FAILURE;
    const int status = pegasos_solve(&problem, &options, memory, &solution);
    printf("%s\n", pegasos_message(status));
    printf("objective %.9f\n", solution.objective);
    printf("no model is below %.9f\n", solution.dual_objective);
    free(memory);
    return status == PEGASOS_STOPPED ? EXIT_SUCCESS : EXIT_FAILURE;
}
