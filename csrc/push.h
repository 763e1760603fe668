/*
 * push.h - what a column of a kernel matrix adds to scores.
 */
#ifndef PEGASOS_PUSH_H
#define PEGASOS_PUSH_H

#include "platform.h"

#include <stdint.h>

enum { PUSH_LANES = 8 };

/* to += u column */
#define DEFINE_PUSH(VALUE)                                                                         \
    static INLINE void push_##VALUE(int64_t m, double u, const VALUE *restrict column,             \
                                    double *restrict to)                                           \
    {                                                                                              \
        const int64_t full = m - m % PUSH_LANES;                                                   \
        for (int64_t i = 0; i < full; i += PUSH_LANES)                                             \
            for (int l = 0; l < PUSH_LANES; l++)                                                   \
                to[i + l] += u * (double)column[i + l];                                            \
        for (int64_t i = full; i < m; i++)                                                         \
            to[i] += u * (double)column[i];                                                        \
    }
DEFINE_PUSH(float)
DEFINE_PUSH(double)

#endif
