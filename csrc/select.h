/*
 * select.h - the largest of some numbers.
 */
#ifndef PEGASOS_SELECT_H
#define PEGASOS_SELECT_H

#include <stdint.h>

/* Leaves the `most` rows of the first `count` in `list` that have the largest keys. */
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
