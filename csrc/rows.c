/*
 * rows.c - whether index arrays describe a matrix.
 */
#include "rows.h"

/* Loops of fixed length, which compilers turn into SIMD; a part that is no multiple is done alone.
 * */
enum { CHECKED_TOGETHER = 32 };

#define DEFINE_CHECKS(INDEX, UNSIGNED)                                                             \
    /* Whether all columns are in [0, n_features): below 0 is far above, as an unsigned number. */ \
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
    assert(are_plausible(rows) && rows->index_bytes > 0 && n_values >= 0);
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
