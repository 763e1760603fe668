/*
 * lanes.h - vectors, of float or double, that stay in registers: arrays of as many numbers go by
 * way of memory, which takes passes over rows twice as long. GCC and clang have such types;
 * elsewhere, loops do. Lanes do not meet but where the best is chosen, of which the first counts:
 * bits do not depend on how many there are.
 *
 * A body that is included once per type defines REAL as that type. Then VEC is a vector of REALs,
 * PLACES one of whole numbers as long, and these macros work on them. (Functions would pass vectors
 * by value, for which there is no one convention.)
 */
#ifndef PEGASOS_LANES_H
#define PEGASOS_LANES_H

#include "platform.h"

#include <string.h>

/* GCC takes comparisons of wider vectors than there are registers apart, number by number. */
#if defined(__AVX2__) || defined(HAS_CLONES)
#define LANES_BYTES 32
#else
#define LANES_BYTES 16
#endif

#define OF_TYPE2(name, type) name##_##type
#define OF_TYPE(name, type)  OF_TYPE2(name, type)
#define OF_REAL(name)        OF_TYPE(name, REAL)
#define VEC                  OF_REAL(vec)
#define PLACES               OF_REAL(places)

#if defined(__GNUC__) && !defined(PEGASOS_NO_VECTORS)

#define DEFINE_LANES(TYPE, WHOLE, SUFFIX)                                                          \
    typedef TYPE vec_##SUFFIX __attribute__((vector_size(LANES_BYTES)));                           \
    typedef WHOLE places_##SUFFIX __attribute__((vector_size(LANES_BYTES)));

#define ADD(a, b)      ((a) + (b))
#define SUBTRACT(a, b) ((a) - (b))
#define MULTIPLY(a, b) ((a) * (b))
#define DIVIDE(a, b)   ((a) / (b))
/* All lanes x. */
#define SPLAT(x) ((x) - (VEC){0})
/* a where the mask has ones, b where it has zeros. */
#define SELECT(mask, a, b) ((VEC)(((mask) & (PLACES)(a)) | (~(mask) & (PLACES)(b))))
#define LARGER(a, b)       SELECT((a) > (b), a, b)
#define SMALLER(a, b)      SELECT((a) < (b), a, b)
/* Where `gain` is above `best`, it becomes the best, and `place` where that is. */
#define KEEP_BEST(gain, place, best, where)                                                        \
    do {                                                                                           \
        const PLACES is_better = (gain) > (best);                                                  \
        (best) = SELECT(is_better, gain, best);                                                    \
        (where) = (is_better & (place)) | (~is_better & (where));                                  \
    } while (0)

/* Floats as doubles. */
typedef float half_float __attribute__((vector_size(LANES_BYTES / 2)));
#define LOAD_WIDE(vector, from)                                                                    \
    do {                                                                                           \
        half_float narrow_;                                                                        \
        memcpy(&narrow_, from, sizeof narrow_);                                                    \
        (vector) = __builtin_convertvector(narrow_, vec_double);                                   \
    } while (0)

#else

#define DEFINE_LANES(TYPE, WHOLE, SUFFIX)                                                          \
    typedef struct vec_##SUFFIX {                                                                  \
        TYPE lane[LANES_BYTES / sizeof(TYPE)];                                                     \
    } vec_##SUFFIX;                                                                                \
    typedef struct places_##SUFFIX {                                                               \
        WHOLE lane[LANES_BYTES / sizeof(WHOLE)];                                                   \
    } places_##SUFFIX;                                                                             \
    DEFINE_OF_TWO(add, TYPE, SUFFIX, a.lane[l] + b.lane[l])                                        \
    DEFINE_OF_TWO(subtract, TYPE, SUFFIX, a.lane[l] - b.lane[l])                                   \
    DEFINE_OF_TWO(multiply, TYPE, SUFFIX, a.lane[l] * b.lane[l])                                   \
    DEFINE_OF_TWO(divide, TYPE, SUFFIX, a.lane[l] / b.lane[l])                                     \
    DEFINE_OF_TWO(larger, TYPE, SUFFIX, a.lane[l] > b.lane[l] ? a.lane[l] : b.lane[l])             \
    DEFINE_OF_TWO(smaller, TYPE, SUFFIX, a.lane[l] < b.lane[l] ? a.lane[l] : b.lane[l])            \
    static INLINE vec_##SUFFIX splat_##SUFFIX(TYPE x)                                              \
    {                                                                                              \
        vec_##SUFFIX out;                                                                          \
        for (int l = 0; l < (int)(LANES_BYTES / sizeof(TYPE)); l++)                                \
            out.lane[l] = x;                                                                       \
        return out;                                                                                \
    }                                                                                              \
    static INLINE void keep_best_##SUFFIX(vec_##SUFFIX gain, WHOLE place, vec_##SUFFIX *best,      \
                                          places_##SUFFIX *where)                                  \
    {                                                                                              \
        for (int l = 0; l < (int)(LANES_BYTES / sizeof(TYPE)); l++) {                              \
            where->lane[l] = gain.lane[l] > best->lane[l] ? place : where->lane[l];                \
            best->lane[l] = gain.lane[l] > best->lane[l] ? gain.lane[l] : best->lane[l];           \
        }                                                                                          \
    }

#define DEFINE_OF_TWO(name, TYPE, SUFFIX, value)                                                   \
    static INLINE vec_##SUFFIX name##_##SUFFIX(vec_##SUFFIX a, vec_##SUFFIX b)                     \
    {                                                                                              \
        vec_##SUFFIX out;                                                                          \
        for (int l = 0; l < (int)(LANES_BYTES / sizeof(TYPE)); l++)                                \
            out.lane[l] = value;                                                                   \
        return out;                                                                                \
    }

#define ADD(a, b)                           OF_REAL(add)(a, b)
#define SUBTRACT(a, b)                      OF_REAL(subtract)(a, b)
#define MULTIPLY(a, b)                      OF_REAL(multiply)(a, b)
#define DIVIDE(a, b)                        OF_REAL(divide)(a, b)
#define SPLAT(x)                            OF_REAL(splat)(x)
#define LARGER(a, b)                        OF_REAL(larger)(a, b)
#define SMALLER(a, b)                       OF_REAL(smaller)(a, b)
#define KEEP_BEST(gain, place, best, where) OF_REAL(keep_best)(gain, place, &(best), &(where))
#define LOAD_WIDE(vector, from)                                                                    \
    do {                                                                                           \
        for (int l_ = 0; l_ < (int)(LANES_BYTES / sizeof(double)); l_++)                           \
            (vector).lane[l_] = (double)(from)[l_];                                                \
    } while (0)

#endif

typedef int32_t whole_float;
typedef int64_t whole_double;
DEFINE_LANES(float, int32_t, float)
DEFINE_LANES(double, int64_t, double)

#define LOAD(vector, from) memcpy(&(vector), from, LANES_BYTES)
#define STORE(to, vector)  memcpy(to, &(vector), LANES_BYTES)

#endif
