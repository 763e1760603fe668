/*
 * data.h - the rows of the examples, and labels by a rule with exceptions.
 */
#include <stdint.h>

enum { N = 1000, D = 5 };

static double x[N * D], y[N];

static void make_data(void)
{
    for (int64_t i = 0; i < N; i++) {
        double *row = x + i * D;
        for (int64_t j = 0; j < D; j++)
            row[j] = (double)(i * (2 * j + 3) * (j + 7) % 101) / 50 - 1;
        y[i] = (row[0] + row[1] - row[2] > 0) != (i % 10 == 0) ? 1 : -1;
    }
}
