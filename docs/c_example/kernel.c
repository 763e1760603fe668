/*
 * kernel.c - trains a machine with a Gaussian kernel, which tells the inside of a circle from its
 * outside, and prints its proof.
 */
#include <math.h>
#include <pegasos.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 600 };

static double points[N][2], y[N], scores[N];

/* Points in a square, whose labels follow a rule with exceptions. */
static void make_data(void)
{
    for (int i = 0; i < N; i++) {
        points[i][0] = (double)(i * 37 % 199) / 99 - 1;
        points[i][1] = (double)(i * i * 5 % 211) / 105 - 1;
        const double radius = points[i][0] * points[i][0] + points[i][1] * points[i][1];
        y[i] = (radius < 0.5) != (i % 20 == 0) ? 1 : -1;
    }
}

static double gauss(const double *x, const double *z)
{
    const double dx = x[0] - z[0], dy = x[1] - z[1];
    return exp(-4 * (dx * dx + dy * dy));
}

/* What the fit asks for: kernel values between some rows and others. */
static int write_values(void *context, int64_t count, const int64_t *rows, int64_t m,
                        const int64_t *others, double *out)
{
    (void)context; /* a larger program has its rows here */
    for (int64_t j = 0; j < count; j++)
        for (int64_t k = 0; k < m; k++)
            out[j * m + k] = gauss(points[rows[j]], points[others[k]]);
    return 0;
}

int main(void)
{
    make_data();
    const pegasos_kernel_matrix kernel = {.n_rows = N, .n_columns = N, .values = write_values};
    const pegasos_problem problem = {
        .kernel = &kernel, .targets = y, .lam = 1e-3, .free_intercept = 1};
    const pegasos_options options = {.tol = 1e-9, .max_epochs = 1000};
    pegasos_solution solution;
    int right = 0, status = pegasos_check(&problem, &options);
    void *memory = status == PEGASOS_DONE ? malloc((size_t)pegasos_memory(&problem)) : NULL;
    if (memory)
        status = pegasos_solve(&problem, &options, memory, &solution);
    if (status != PEGASOS_DONE || !memory) {
        fprintf(stderr, "%s\n", status ? pegasos_message(status) : "memory is short");
        free(memory);
        return EXIT_FAILURE;
    }
    for (int i = 0; i < N; i++) {
        scores[i] = solution.intercept;
        for (int j = 0; j < N; j++)
            scores[i] += solution.coef[j] * gauss(points[j], points[i]);
        right += y[i] * scores[i] > 0;
    }
    printf("accuracy %.3f\n", (double)right / N);
    printf("intercept %.4f\n", solution.intercept);
    printf("objective %.7f\n", solution.objective);
    printf("no model is below %.7f\n", solution.dual_objective);
    free(memory);
    return EXIT_SUCCESS;
}
