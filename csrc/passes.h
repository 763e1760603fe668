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
