/*
 * rows.h - functions of rows that solvers use, for every type of rows.
 */
#ifndef PEGASOS_ROWS_H
#define PEGASOS_ROWS_H

#include "arrays.h"
#include "core.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* For assertions: checks rows in constant time. CSR rows without values may have them anywhere. */
MAYBE_UNUSED static bool are_plausible(const pegasos_rows *rows)
{
    const int64_t bytes = rows->value_bytes;
    if (rows->n_rows < 1 || rows->n_features < 1 || (bytes != 4 && bytes != 8))
        return false;
    if (rows->index_bytes != 0)
        return (rows->index_bytes == 4 || rows->index_bytes == 8)
               && (rows->indptr_bytes == 4 || rows->indptr_bytes == 8);
    return (uintptr_t)rows->values % (uintptr_t)bytes == 0;
}

/* For assertions: also checks that rows first .. first + count - 1 exist. */
MAYBE_UNUSED static bool are_there(const pegasos_rows *rows, int64_t first, int64_t count)
{
    return are_plausible(rows) && count >= 0 && first >= 0 && first <= rows->n_rows - count;
}

/* Where CSR row i begins. */
static INLINE int64_t row_offset(const pegasos_rows *rows, int64_t i)
{
    return rows->indptr_bytes == 4 ? ((const int32_t *)rows->indptr)[i]
                                   : ((const int64_t *)rows->indptr)[i];
}

/* Where row i begins, dense or CSR; for i = n_rows, where the last row ends. */
static INLINE int64_t row_begin(const pegasos_rows *rows, int64_t i)
{
    return rows->index_bytes == 0 ? i * rows->n_features : row_offset(rows, i);
}

static INLINE double stored_numbers(const pegasos_rows *rows)
{
    return (double)(row_begin(rows, rows->n_rows) - row_begin(rows, 0));
}

/* The average number of stored numbers in a row. */
static INLINE double stored_in_row(const pegasos_rows *rows)
{
    return stored_numbers(rows) / (double)rows->n_rows;
}

/* Column of CSR value number j. */
static INLINE int64_t row_column(const pegasos_rows *rows, int64_t j)
{
    return rows->index_bytes == 4 ? ((const int32_t *)rows->indices)[j]
                                  : ((const int64_t *)rows->indices)[j];
}

/* Functions of one type of rows; rows_body.h defines them. `next` is a row that will be used soon
 * and may be fetched meanwhile; i itself if there is none. */
typedef struct row_functions {
    /* Prefetches where row i begins. */
    void (*prefetch_offset)(const pegasos_rows *rows, int64_t i);
    /* <v, x_i> */
    double (*dot)(const pegasos_rows *rows, int64_t i, const void *v, int64_t next);
    /* v += u x_i */
    void (*add)(const pegasos_rows *rows, int64_t i, double u, void *v);
    /* v += sum_i factors[i] x_{which[i]}, with the bits of `add`; NULL if that is as fast. */
    void (*add_rows)(const pegasos_rows *rows, int64_t count, const int64_t *which,
                     const double *factors, void *v);
    /* Vectors in a bundle; `dot` for `width` interleaved vectors, and `add` for a whole bundle. */
    int lanes;
    void (*dot_bundle)(const pegasos_rows *rows, int64_t i, const void *v, int64_t stride,
                       int width, int64_t next, double *out);
    void (*add_bundle)(const pegasos_rows *rows, int64_t i, const double *u, void *v);
    /* out[t * width + l] = <v_l, x_i> for the rows i = which[t], t < count <= TILE; NULL if tiles
     * do not pay. A row's numbers do not depend on the other rows. */
    void (*dot_tile)(const pegasos_rows *rows, const int64_t *which, int64_t count, const void *v,
                     int64_t stride, int width, double *out);
} row_functions;

enum {
    BUNDLE_BYTES = PEGASOS_BUNDLE_BYTES,
    MOST_LANES = BUNDLE_BYTES / sizeof(float),
    TILE = 4,
    PANEL_LINES = PEGASOS_PANEL_BYTES / BUNDLE_BYTES
};

/* ---- Every type, with vectors of the same type ----------------------------------------------- */

#define VALUE  float
#define VECTOR float
#define SUFFIX float_dense
#include "rows_body.h"

#define VALUE  double
#define VECTOR double
#define SUFFIX double_dense
#include "rows_body.h"

#define VALUE  float
#define VECTOR float
#define INDEX  int32_t
#define SUFFIX float_csr32
#include "rows_body.h"

#define VALUE  double
#define VECTOR double
#define INDEX  int32_t
#define SUFFIX double_csr32
#include "rows_body.h"

#define VALUE  float
#define VECTOR float
#define INDEX  int64_t
#define SUFFIX float_csr64
#include "rows_body.h"

#define VALUE  double
#define VECTOR double
#define INDEX  int64_t
#define SUFFIX double_csr64
#include "rows_body.h"

/* ---- float rows with double vectors ---------------------------------------------------------- */

#define VALUE  float
#define VECTOR double
#define SUFFIX wide_dense
#include "rows_body.h"

#define VALUE  float
#define VECTOR double
#define INDEX  int32_t
#define SUFFIX wide_csr32
#include "rows_body.h"

#define VALUE  float
#define VECTOR double
#define INDEX  int64_t
#define SUFFIX wide_csr64
#include "rows_body.h"

/* ---- All types ------------------------------------------------------------------------------- */

#define FOR_EVERY_SPARSE_TYPE(DEFINE)                                                              \
    DEFINE(float_csr32)                                                                            \
    DEFINE(double_csr32)                                                                           \
    DEFINE(float_csr64)                                                                            \
    DEFINE(double_csr64)

#define FOR_EVERY_TYPE(DEFINE)                                                                     \
    DEFINE(float_dense)                                                                            \
    DEFINE(double_dense)                                                                           \
    FOR_EVERY_SPARSE_TYPE(DEFINE)

#define FOR_EVERY_WIDE_TYPE(DEFINE)                                                                \
    DEFINE(wide_dense)                                                                             \
    DEFINE(double_dense)                                                                           \
    DEFINE(wide_csr32)                                                                             \
    DEFINE(double_csr32)                                                                           \
    DEFINE(wide_csr64)                                                                             \
    DEFINE(double_csr64)

/* Those of FOR_EVERY_WIDE_TYPE that are not in FOR_EVERY_TYPE. */
#define FOR_EVERY_MIXED_TYPE(DEFINE)                                                               \
    DEFINE(wide_dense)                                                                             \
    DEFINE(wide_csr32)                                                                             \
    DEFINE(wide_csr64)

/* Calls name_TYPE(arguments); types of float rows start with `single`. */
#define DISPATCH_SPARSE_AS(single, name, rows, ...)                                                \
    do {                                                                                           \
        const bool is_float = (rows)->value_bytes == 4;                                            \
        if ((rows)->index_bytes == 4)                                                              \
            (is_float ? name##_##single##_csr32 : name##_double_csr32)(rows, __VA_ARGS__);         \
        else                                                                                       \
            (is_float ? name##_##single##_csr64 : name##_double_csr64)(rows, __VA_ARGS__);         \
    } while (0)

#define DISPATCH_AS(single, name, rows, ...)                                                       \
    do {                                                                                           \
        if ((rows)->index_bytes == 0)                                                              \
            ((rows)->value_bytes == 4 ? name##_##single##_dense                                    \
                                      : name##_double_dense)(rows, __VA_ARGS__);                   \
        else                                                                                       \
            DISPATCH_SPARSE_AS(single, name, rows, __VA_ARGS__);                                   \
    } while (0)

/* With vectors of the rows' type, and with double vectors. */
#define DISPATCH(name, rows, ...)        DISPATCH_AS(float, name, rows, __VA_ARGS__)
#define DISPATCH_SPARSE(name, rows, ...) DISPATCH_SPARSE_AS(float, name, rows, __VA_ARGS__)
#define DISPATCH_WIDE(name, rows, ...)   DISPATCH_AS(wide, name, rows, __VA_ARGS__)

#endif
