/*
 * passes.h - passes over the rows, in pieces between which a run asks whether to go on.
 */
#ifndef PEGASOS_PASSES_H
#define PEGASOS_PASSES_H

#include "rows.h"
#include "watch.h"

#include <string.h>

/* The most rows that are read before a run asks whether to go on. */
enum { ROWS_PER_PIECE = 256 };

/* How many numbers a row costs, on average. */
static INLINE double cost_of_row(const pegasos_rows *rows)
{
    return stored_in_row(rows) + PEGASOS_NUMBERS_PER_CALL;
}

static INLINE int64_t rows_of_piece(const pegasos_rows *rows, int64_t first)
{
    return min_of(ROWS_PER_PIECE, rows->n_rows - first);
}

/* sum = scale sum_i a_i y_i x_i; false: stopped. */
static INLINE bool combine_all(const pegasos_rows *rows, const int8_t *labels, double scale,
                               const double *a, double *sum, pegasos_watch *watch)
{
    const double cost = cost_of_row(rows);
    double factors[ROWS_PER_PIECE];
    memset(sum, 0, (size_t)rows->n_features * sizeof(double));
    for (int64_t first = 0, count; first < rows->n_rows; first += count) {
        count = rows_of_piece(rows, first);
        for (int64_t i = 0; i < count; i++)
            factors[i] = scale * a[first + i] * labels[first + i];
        pegasos_linear_combine(rows, first, count, factors, sum);
        if (is_to_stop(watch, (double)count * cost))
            return false;
    }
    return true;
}

/* scores_i = <w, x_i> + intercept; false: stopped. */
static INLINE bool score_all(const pegasos_rows *rows, const double *w, double intercept,
                             double *scores, pegasos_watch *watch)
{
    const double cost = cost_of_row(rows);
    for (int64_t first = 0, count; first < rows->n_rows; first += count) {
        count = rows_of_piece(rows, first);
        pegasos_linear_scores(rows, first, NULL, count, 1, w, 8, 0, &intercept, scores + first);
        if (is_to_stop(watch, (double)count * cost))
            return false;
    }
    return true;
}

static INLINE double inner_product(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += x[j] * y[j];
    return sum;
}

static INLINE double squared_norm_of(const double *vector, int64_t n)
{
    return inner_product(vector, vector, n);
}

#endif
