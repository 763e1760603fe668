/*
 * arrays.h - arrays of numbers: where they lie in memory, and functions of them.
 */
#ifndef PEGASOS_ARRAYS_H
#define PEGASOS_ARRAYS_H

#include "platform.h"

#include <stdbool.h>
#include <stddef.h>

static INLINE int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static INLINE int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The least multiple of `unit` that is at least n. */
static INLINE int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* The first multiple of `unit` in memory that has up to `unit` bytes to spare. */
static INLINE void *aligned(void *memory, int64_t unit)
{
    return (char *)memory + (0 - (uintptr_t)memory) % (uintptr_t)unit;
}

/* Arrays that lie one after the other in a piece of memory. One function lays them out; without
 * memory, it only says how many bytes they take. */
typedef struct layout {
    void *memory;  /* NULL: there is none */
    int64_t unit;  /* arrays begin at multiples of this, in bytes */
    int64_t bytes; /* taken so far */
} layout;

/* The next array, of `bytes` bytes; NULL without memory. */
static INLINE void *take(layout *p, int64_t bytes)
{
    const int64_t first = round_up(p->bytes, p->unit);
    p->bytes = first + bytes;
    return p->memory ? (char *)p->memory + first : NULL;
}

/* Number j of an array of float or double. */
static INLINE double get(const void *vector, int64_t value_bytes, int64_t j)
{
    return value_bytes == 4 ? (double)((const float *)vector)[j] : ((const double *)vector)[j];
}

static INLINE void set_to(void *vector, int64_t value_bytes, int64_t j, double value)
{
    if (value_bytes == 4)
        ((float *)vector)[j] = (float)value;
    else
        ((double *)vector)[j] = value;
}

static INLINE bool are_finite(const void *vector, int64_t value_bytes, int64_t count)
{
    double sum = 0; /* NaN once a number is not finite */
    for (int64_t j = 0; j < count; j++)
        sum += 0 * get(vector, value_bytes, j);
    return sum == 0;
}

/* For assertions: whether all of `count` indices are in [start, stop). */
MAYBE_UNUSED static bool are_in_range(const int64_t *indices, int64_t count, int64_t start,
                                      int64_t stop)
{
    for (int64_t j = 0; j < count; j++)
        if (indices[j] < start || indices[j] >= stop)
            return false;
    return true;
}

/* <x, y>, summed in order. */
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

/* <x, y>, summed in eight lanes. */
static INLINE double dot_in_lanes(const double *restrict x, const double *restrict y, int64_t n)
{
    double lanes[8] = {0}, sum = 0;
    int64_t j = 0;
    for (; n - j >= 8; j += 8)
        for (int l = 0; l < 8; l++)
            lanes[l] += x[j + l] * y[j + l];
    for (; j < n; j++)
        sum += x[j] * y[j];
    for (int l = 0; l < 8; l++)
        sum += lanes[l];
    return sum;
}

/* Moves the `most` rows with the largest keys to the front of the first `count` in `list`. */
static inline void select_largest(const double *key, int64_t *list, int64_t count, int64_t most)
{
    int64_t low = 0, high = count - 1;
    while (low < high) { /* quickselect, with the middle one as pivot */
        const double pivot = key[list[low + (high - low) / 2]];
        int64_t i = low, j = high;
        while (i <= j) {
            while (key[list[i]] > pivot)
                i++;
            while (key[list[j]] < pivot)
                j--;
            if (i <= j) {
                const int64_t other = list[i];
                list[i++] = list[j];
                list[j--] = other;
            }
        }
        if (most - 1 <= j)
            high = j;
        else if (most - 1 >= i)
            low = i;
        else
            return;
    }
}

#endif
