/*
 * rows.c - checks index arrays, copies some rows, and numbers the columns that are stored.
 */
#include "rows.h"

#include <string.h>

/* Loops have this fixed length, so that compilers make SIMD of them; the rest is checked alone. */
enum { CHECKED_TOGETHER = 32 };

#define DEFINE_CHECKS(INDEX, UNSIGNED)                                                             \
    /* Whether all columns are in [0, n_features). As unsigned numbers, negatives are large. */    \
    CLONES static bool columns_are_inside_##INDEX(const INDEX *columns, int64_t count,             \
                                                  int64_t n_features)                              \
    {                                                                                              \
        const UNSIGNED largest = (UNSIGNED) - 1 >> 1;                                              \
        const UNSIGNED most = (uint64_t)n_features > largest ? largest : (UNSIGNED)n_features - 1; \
        UNSIGNED outside[CHECKED_TOGETHER] = {0};                                                  \
        int64_t j = 0;                                                                             \
        for (; count - j >= CHECKED_TOGETHER; j += CHECKED_TOGETHER)                               \
            for (int l = 0; l < CHECKED_TOGETHER; l++)                                             \
                outside[l] |= (UNSIGNED)columns[j + l] > most;                                     \
        for (; j < count; j++)                                                                     \
            outside[0] |= (UNSIGNED)columns[j] > most;                                             \
        for (int l = 1; l < CHECKED_TOGETHER; l++)                                                 \
            outside[0] |= outside[l];                                                              \
        return outside[0] == 0;                                                                    \
    }
DEFINE_CHECKS(int32_t, uint32_t)
DEFINE_CHECKS(int64_t, uint64_t)

int pegasos_rows_are_valid(const pegasos_rows *rows, int64_t n_values)
{
    assert(are_plausible(rows) && rows->index_bytes > 0);
    const int64_t begin = row_offset(rows, 0), end = row_offset(rows, rows->n_rows);
    bool decreases = false;
    for (int64_t i = 0; i < rows->n_rows; i++)
        decreases |= row_offset(rows, i + 1) < row_offset(rows, i);
    if (decreases || begin < 0 || end > n_values)
        return 0;
    if (rows->index_bytes == 4)
        return columns_are_inside_int32_t((const int32_t *)rows->indices + begin, end - begin,
                                          rows->n_features);
    return columns_are_inside_int64_t((const int64_t *)rows->indices + begin, end - begin,
                                      rows->n_features);
}

int64_t pegasos_take_rows(const pegasos_rows *rows, int64_t count, const int64_t *which,
                          int64_t *places, void *values, void *indices, int64_t *indptr,
                          int64_t *columns)
{
    const int64_t value_bytes = rows->value_bytes, index_bytes = rows->index_bytes;
    const bool is_sparse = index_bytes > 0;
    int64_t n_columns = 0, end = 0;
    assert(are_plausible(rows) && (is_sparse || !places));
    assert(are_in_range(which, count, 0, rows->n_rows));
    for (int64_t t = 0; t < count; t++) {
        const int64_t begin = row_begin(rows, which[t]), n = row_begin(rows, which[t] + 1) - begin;
        memmove((char *)values + end * value_bytes,
                (const char *)rows->values + begin * value_bytes, (size_t)(n * value_bytes));
        if (is_sparse && !places)
            memmove((char *)indices + end * index_bytes,
                    (const char *)rows->indices + begin * index_bytes, (size_t)(n * index_bytes));
        for (int64_t j = 0; places && j < n; j++) {
            const int64_t column = row_column(rows, begin + j);
            if (places[column] < 0) {
                places[column] = n_columns;
                columns[n_columns++] = column;
            }
            if (index_bytes == 4)
                ((int32_t *)indices)[end + j] = (int32_t)places[column];
            else
                ((int64_t *)indices)[end + j] = places[column];
        }
        indptr[t] = end;
        end += n;
    }
    indptr[count] = end;
    for (int64_t j = 0; j < n_columns; j++)
        places[columns[j]] = -1;
    return n_columns;
}

static INLINE int64_t count_bits(uint64_t bits)
{
    bits -= bits >> 1 & 0x5555555555555555;
    bits = (bits & 0x3333333333333333) + (bits >> 2 & 0x3333333333333333);
    return (int64_t)(((bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0f) * 0x0101010101010101 >> 56);
}

#define DEFINE_NUMBERING(INDEX)                                                                    \
    CLONES static int64_t number_columns_##INDEX(                                                  \
        const INDEX *indices, int64_t count, int64_t n_words, int64_t most, pegasos_word *words,   \
        INDEX *numbers, int64_t *columns)                                                          \
    {                                                                                              \
        int64_t n = 0;                                                                             \
        for (int64_t j = 0; j < count; j++)                                                        \
            words[indices[j] >> 6].bits |= (uint64_t)1 << (indices[j] & 63);                       \
        for (int64_t k = 0; k < n_words; k++) {                                                    \
            words[k].before = n;                                                                   \
            n += count_bits(words[k].bits);                                                        \
        }                                                                                          \
        for (int64_t j = 0; n <= most && j < count; j++) {                                         \
            const pegasos_word word = words[indices[j] >> 6];                                      \
            const uint64_t below = ((uint64_t)1 << (indices[j] & 63)) - 1;                         \
            numbers[j] = (INDEX)(word.before + count_bits(word.bits & below));                     \
            columns[numbers[j]] = indices[j];                                                      \
        }                                                                                          \
        return n;                                                                                  \
    }
DEFINE_NUMBERING(int32_t)
DEFINE_NUMBERING(int64_t)

int64_t pegasos_number_columns(const pegasos_rows *rows, int64_t most, pegasos_word *words,
                               void *numbers, int64_t *columns)
{
    const int64_t begin = row_offset(rows, 0), count = row_offset(rows, rows->n_rows) - begin;
    const int64_t n_words = (rows->n_features + 63) / 64;
    assert(are_plausible(rows) && rows->index_bytes > 0);
    if (rows->index_bytes == 4)
        return number_columns_int32_t((const int32_t *)rows->indices + begin, count, n_words, most,
                                      words, (int32_t *)numbers + begin, columns);
    return number_columns_int64_t((const int64_t *)rows->indices + begin, count, n_words, most,
                                  words, (int64_t *)numbers + begin, columns);
}
