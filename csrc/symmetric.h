/*
 * symmetric.h - symmetric matrices: sums of products of rows, and equations with them. By BLAS and
 * LAPACK where the caller has them, else by plain loops.
 */
#ifndef PEGASOS_SYMMETRIC_H
#define PEGASOS_SYMMETRIC_H

#include "pegasos.h"

/* Rows that plain loops take at a time, and what lengths of rows are rounded up to. */
enum { TILE_ROWS = 8, SYMMETRIC_LANES = 8 };

/* The lower triangle of a matrix, row after row; numbers of 4 bytes by BLAS only. */
typedef struct symmetric {
    void *numbers;
    int64_t size, stride, bytes;
    const pegasos_blas *blas;
} symmetric;

/* Adds z z^T for `count` rows z, whose numbers from `size` up to the stride are 0. There must be
 * room for rows up to a multiple of TILE_ROWS, which are overwritten. The matrix is 0 before where
 * `is_first`. */
void symmetric_add_outer(const symmetric *matrix, int64_t count, void *z, int is_first);

/* The inner products of the rows of z, as many as the matrix has, over `length` numbers of each: a
 * piece of the work from *place on, which is 0 at first. Returns whether that was the last one;
 * *cost grows by the number of multiplications. */
int symmetric_add_inner(const symmetric *matrix, const void *z, int64_t length, int64_t *place,
                        double *cost);

/* Adds to the diagonal, to the last number of which `last` is added instead. Returns the trace. */
double symmetric_add_diagonal(const symmetric *matrix, double each, double last);

enum { SYMMETRIC_RUNNING, SYMMETRIC_FACTORED, SYMMETRIC_NOT_POSITIVE };

/* Cholesky's factor, in place, piece by piece as above; returns one of these. */
int symmetric_factorise(const symmetric *matrix, int64_t *place, double *cost);

/* Solves equations with a matrix of which that is the factor: x is the right side, then the
 * solution. `room` is as long. */
void symmetric_solve(const symmetric *factor, double *x, void *room);

#endif
