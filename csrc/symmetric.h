/*
 * symmetric.h - symmetric matrices: sums of products of rows, and equations with them. BLAS and
 * LAPACK do the work if the caller has them, else plain loops.
 */
#ifndef PEGASOS_SYMMETRIC_H
#define PEGASOS_SYMMETRIC_H

#include "core.h"

#include <stdbool.h>

/* Rows that plain loops take at a time; and the unit to which lengths of rows are rounded up. */
enum { TILE_ROWS = 8, SYMMETRIC_LANES = 8 };

/* Products that take as long as reading a number. */
enum { PRODUCTS_PER_NUMBER = 16 };

/* The lower triangle of a matrix, row after row; numbers of 4 bytes only with BLAS. */
typedef struct symmetric {
    void *numbers;
    int64_t size, stride, bytes;
    const pegasos_blas *blas;
} symmetric;

/* Whether numbers of 4 bytes will do for a matrix of this trace, to whose diagonal lam is added. In
 * directions where only lam makes it positive definite (features that add up to a constant),
 * rounding must be small compared with lam. Numbers must be well within the range. */
bool symmetric_may_be_single(const pegasos_blas *blas, double trace, double lam);

/* Adds z z^T for `count` rows z, whose numbers from `size` up to the stride must be 0. There must
 * be room for rows up to a multiple of TILE_ROWS, which are overwritten, and for `stride` rows of
 * the matrix. If `is_first`, the matrix counts as 0 before. */
void symmetric_add_outer(const symmetric *matrix, int64_t count, void *z, bool is_first);

/*
 * If CSR rows store few numbers, products of these cost less than those of whole rows z of `size`
 * numbers. Then `symmetric_add_stored` replaces symmetric_add_outer, with numbers of 8 bytes. It
 * adds weight z z^T for z = (x_i, tail), and also writes above the diagonal.
 *
 * symmetric_stored returns the cost of products of stored numbers, in numbers read, for the rows
 * which[first], which[first + 1], ... (NULL: the rows `first`, ...). symmetric_are_thin says
 * whether whole rows cost more. A pass over thin rows asks again for each piece, since a few long
 * rows may lie together. symmetric_cost is the highest cost of a row in such a pass.
 */
double symmetric_stored(const pegasos_rows *rows, int64_t first, const int64_t *which,
                        int64_t count, int64_t size);
bool symmetric_are_thin(const pegasos_rows *rows, int64_t first, const int64_t *which,
                        int64_t count, int64_t size);
double symmetric_cost(const pegasos_rows *rows, bool are_thin, int64_t size);
void symmetric_add_stored(const symmetric *matrix, const pegasos_rows *rows, int64_t i,
                          double weight, int64_t n_tail, const double *tail);

/* Makes the matrix of inner products of the rows of z, `size` rows of `stride` numbers, by BLAS. */
void symmetric_set_inner(const symmetric *matrix, const void *z);

/* Each block of rows has a matrix, so that threads can share the work. The first function says how
 * many blocks n rows make, with at least `least` rows in each. The second one returns a block's
 * matrix, given that of the first block: matrices lie stride^2 numbers of 8 bytes apart. The third
 * one adds all up in a tree, in place of the first. */
int64_t symmetric_blocks(int64_t n, int64_t least, int64_t stride);
symmetric symmetric_of_block(const symmetric *first, int64_t block);
void symmetric_add_up(const symmetric *first, int64_t n_blocks);

/* Adds `each` to the numbers of the diagonal, but `last` to the last one. Returns the trace. */
double symmetric_add_diagonal(const symmetric *matrix, double each, double last);

/* Replaces a matrix by its Cholesky factor, if it is positive definite and nobody stops it. */
enum { SYMMETRIC_FACTORED, SYMMETRIC_NOT_POSITIVE, SYMMETRIC_STOPPED };
int symmetric_factorise(const symmetric *matrix, pegasos_watch *watch);

/* Solves equations with the matrix that has this factor: x is the right side, then the solution.
 * `scratch` has as many numbers. */
void symmetric_solve(const symmetric *factor, double *x, void *scratch);

#endif
