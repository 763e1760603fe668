/*
 * input.h - from fuzz bytes to arguments that keep the contract of core.h.
 *
 * Every array is allocated with exactly its size, so that a sanitizer sees one number too far. When
 * the bytes are used up, the rest reads as zeros.
 */
#ifndef INPUT_H
#define INPUT_H

#include "core.h"
#include "loss.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What must hold whatever the input. */
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_BLOCKS = 128 };

typedef struct input {
    const uint8_t *data;
    size_t left;
    bool extreme; /* numbers may be as large and as small as their type allows */
    void *blocks[MOST_BLOCKS];
    int n_blocks;
} input;

static inline uint8_t take(input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->data++;
}

/* A whole number in [low, high], high - low < 256. */
static inline int64_t take_in(input *in, int64_t low, int64_t high)
{
    return low + take(in) % (high - low + 1);
}

static inline bool take_bool(input *in)
{
    return take(in) & 1;
}

static inline uint64_t take_seed(input *in)
{
    uint64_t seed = 0;
    for (int k = 0; k < 8; k++)
        seed = seed << 8 | take(in);
    return seed;
}

static inline void *keep(input *in, void *block)
{
    MUST(block != NULL && in->n_blocks < MOST_BLOCKS);
    return in->blocks[in->n_blocks++] = block;
}

/* Zeros, freed by `release`; never NULL. */
static inline void *room(input *in, int64_t count, int64_t bytes)
{
    return keep(in, calloc((size_t)(count > 0 ? count : 1), (size_t)bytes));
}

static inline void *copy_of(input *in, const void *from, int64_t count, int64_t bytes)
{
    void *copy = room(in, count, bytes);
    memcpy(copy, from, (size_t)(count * bytes));
    return copy;
}

static inline void release(input *in)
{
    while (in->n_blocks > 0)
        free(in->blocks[--in->n_blocks]);
}

/* A finite number that both types can hold. */
static inline double take_number(input *in)
{
    static const double edges[] = {0, -0.0, 1, -1, 3e38, -3e38, 1e-45, -1e-45, 1e-38, 1e19, -1e19};
    const int8_t byte = (int8_t)take(in);
    if (in->extreme && byte % 3 == 0)
        return edges[(uint8_t)byte % (sizeof edges / sizeof *edges)];
    return (double)byte / 16;
}

static inline double take_positive(input *in)
{
    static const double edges[] = {1e-300, 1e-30, 1e-8, 1e8, 1e30, 1e300};
    const uint8_t byte = take(in);
    if (in->extreme && byte % 3 == 0)
        return edges[byte / 3 % (sizeof edges / sizeof *edges)];
    return (1 + (double)byte) / 64;
}

static inline void put(void *array, int64_t bytes, int64_t j, double value)
{
    if (bytes == 4)
        ((float *)array)[j] = (float)value;
    else
        ((double *)array)[j] = value;
}

static inline double number(const void *array, int64_t bytes, int64_t j)
{
    return bytes == 4 ? (double)((const float *)array)[j] : ((const double *)array)[j];
}

/* The rows as a dense array of their type. */
static inline const void *dense(input *in, const pegasos_rows *rows)
{
    const int64_t d = rows->n_features, bytes = rows->value_bytes;
    void *const values = room(in, rows->n_rows * d, bytes);
    double *const row = room(in, d, 8), one = 1;
    for (int64_t i = 0; i < rows->n_rows; i++) {
        for (int64_t j = 0; j < d; j++)
            row[j] = 0;
        pegasos_linear_combine(rows, i, 1, &one, row);
        for (int64_t j = 0; j < d; j++)
            put(values, bytes, i * d + j, row[j]);
    }
    return values;
}

static inline void put_whole(void *array, int64_t bytes, int64_t j, int64_t value)
{
    if (bytes == 4)
        ((int32_t *)array)[j] = (int32_t)value;
    else
        ((int64_t *)array)[j] = value;
}

/* n x d rows, dense or CSR with columns in any order, repeats and empty rows, all widths. */
static inline pegasos_rows take_rows_of(input *in, int64_t n, int64_t d, int64_t value_bytes,
                                        bool sparse)
{
    pegasos_rows rows = {.n_rows = n, .n_features = d, .value_bytes = value_bytes};
    if (!sparse) {
        void *values = room(in, n * d, value_bytes);
        for (int64_t j = 0; j < n * d; j++)
            put(values, value_bytes, j, take_number(in));
        rows.values = values;
        return rows;
    }
    rows.index_bytes = take_bool(in) ? 8 : 4;
    rows.indptr_bytes = take_bool(in) ? 8 : 4;
    void *indptr = room(in, n + 1, rows.indptr_bytes);
    int64_t size = 0;
    for (int64_t i = 0; i < n; i++) {
        size += take_in(in, 0, 40);
        put_whole(indptr, rows.indptr_bytes, i + 1, size);
    }
    void *values = room(in, size, value_bytes), *indices = room(in, size, rows.index_bytes);
    for (int64_t j = 0; j < size; j++) {
        put(values, value_bytes, j, take_number(in));
        put_whole(indices, rows.index_bytes, j, take_in(in, 0, d - 1));
    }
    rows.values = values;
    rows.indices = indices;
    rows.indptr = indptr;
    return rows;
}

static inline pegasos_rows take_rows(input *in)
{
    const int64_t n = take_in(in, 1, 12), d = take_in(in, 1, 50);
    const int64_t value_bytes = take_bool(in) ? 8 : 4;
    return take_rows_of(in, n, d, value_bytes, take_bool(in));
}

/* A loss of any kind. Its kind is the last byte, so that what the bytes before it mean does not
 * depend on it. */
static inline pegasos_loss take_loss(input *in)
{
    pegasos_loss loss = {.kind = in->left > 0 ? in->data[--in->left] % 8 : 0};
    if (loss.kind == PEGASOS_HUBER)
        loss.epsilon = take_positive(in);
    if (loss.kind == PEGASOS_EPSILON_INSENSITIVE
        || loss.kind == PEGASOS_SQUARED_EPSILON_INSENSITIVE)
        loss.epsilon = take_bool(in) ? take_positive(in) : 0;
    MUST(loss_is_known(loss));
    return loss;
}

/* -1, 0 or +1 for count places. */
static inline int8_t *take_labels(input *in, int64_t count)
{
    int8_t *labels = room(in, count, 1);
    for (int64_t j = 0; j < count; j++)
        labels[j] = (int8_t)take_in(in, -1, 1);
    return labels;
}

/* NULL, or positive numbers. */
static inline double *take_weights(input *in, int64_t count)
{
    if (take_bool(in))
        return NULL;
    double *weights = room(in, count, sizeof *weights);
    for (int64_t j = 0; j < count; j++)
        weights[j] = take_positive(in);
    return weights;
}

/* What belongs to count places, weights to n rows; a loss that takes targets has no label of -1. */
static inline pegasos_targets take_targets(input *in, pegasos_loss loss, int64_t count, int64_t n)
{
    int8_t *labels = take_labels(in, count);
    double *values = NULL;
    if (!loss_has_labels(loss.kind)) {
        values = room(in, count, sizeof *values);
        for (int64_t j = 0; j < count; j++) {
            labels[j] = labels[j] != 0;
            values[j] = take_number(in);
        }
    }
    return (pegasos_targets){n, labels, values, take_weights(in, n), loss};
}

/* t0 of steps, as core.h has it; `longest` is max_i c_i (|x_i|^2 + constant^2). */
static inline int64_t delay_for(const pegasos_linear *p, pegasos_loss loss, double longest)
{
    const double least = loss_curvature(loss_of(loss)) / p->lam * p->weight_factor * longest;
    return (int64_t)fmin(ceil(least), 1e15);
}

/* The value of the constant feature, 1 for a free intercept. */
static inline double constant_of(const pegasos_linear *p)
{
    return p->free_intercept ? 1 : p->intercept_scaling;
}

/* Whether a dual variable is within its bounds. */
static inline bool is_feasible(const pegasos_targets *t, int64_t i, double a)
{
    const loss_form l = loss_of(t->loss);
    const double c = weight_at(t, i);
    return loss_lower(l, c) <= a && a <= loss_upper(l, c);
}

/* The same number, where all NaN are one. -0 and 0 are the same. */
static inline bool same(double a, double b)
{
    return a == b || (a != a && b != b);
}

static inline bool same_numbers(const void *a, const void *b, int64_t bytes, int64_t count)
{
    for (int64_t j = 0; j < count; j++)
        if (!same(number(a, bytes, j), number(b, bytes, j)))
            return false;
    return true;
}

static inline bool all_finite(const void *a, int64_t bytes, int64_t count)
{
    for (int64_t j = 0; j < count; j++)
        if (!isfinite(number(a, bytes, j)))
            return false;
    return true;
}

#endif
