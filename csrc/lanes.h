/*
 * lanes.h - vectors of float or double that stay in registers. Arrays of the same length go through
 * memory, and passes over rows take twice as long. GCC and clang have such types; with other
 * compilers, vectors have one number. Lanes meet only where the best is chosen, and there the first
 * counts: so bits do not depend on the number of lanes.
 *
 * A body that is included once per type defines REAL as that type. Then VEC is a vector of REALs,
 * PLACES a vector of as many integers, and these macros work on them. (Functions would pass vectors
 * by value, for which there is no common convention.)
 */
#ifndef PEGASOS_LANES_H
#define PEGASOS_LANES_H

#include "platform.h"

#include <string.h>

#define OF_REAL(name) PASTE(name, REAL)
#define VEC           OF_REAL(vec)
#define PLACES        OF_REAL(places)

typedef int32_t whole_float;
typedef int64_t whole_double;

#if defined(__GNUC__) && !defined(PEGASOS_NO_VECTORS)

/* GCC compares vectors that are wider than registers number by number. */
#if defined(__AVX2__) || defined(HAS_CLONES)
#define LANES_BYTES 32
#else
#define LANES_BYTES 16
#endif

typedef float vec_float __attribute__((vector_size(LANES_BYTES)));
typedef double vec_double __attribute__((vector_size(LANES_BYTES)));
typedef int32_t places_float __attribute__((vector_size(LANES_BYTES)));
typedef int64_t places_double __attribute__((vector_size(LANES_BYTES)));

/* x in all lanes. */
#define SPLAT(x)        ((x) - (VEC){0})
#define LANE(vector, l) (vector)[l]
/* a where the mask has ones, b where it has zeros. */
#define SELECT(mask, a, b) ((VEC)(((mask) & (PLACES)(a)) | (~(mask) & (PLACES)(b))))
#define LARGER(a, b)       SELECT((a) > (b), a, b)
#define SMALLER(a, b)      SELECT((a) < (b), a, b)
/* In lanes where `gain` is above `best`, it becomes the best, and `place` becomes its place. */
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

#define LANES_BYTES ((int)sizeof(REAL))

typedef float vec_float;
typedef double vec_double;
typedef int32_t places_float;
typedef int64_t places_double;

#define SPLAT(x)        ((REAL)(x))
#define LANE(vector, l) (vector)
#define LARGER(a, b)    ((a) > (b) ? (a) : (b))
#define SMALLER(a, b)   ((a) < (b) ? (a) : (b))
#define KEEP_BEST(gain, place, best, where)                                                        \
    do {                                                                                           \
        (where) = (gain) > (best) ? (place) : (where);                                             \
        (best) = LARGER(gain, best);                                                               \
    } while (0)
#define LOAD_WIDE(vector, from) ((vector) = (double)*(from))

#endif

#define LOAD(vector, from) memcpy(&(vector), from, LANES_BYTES)
#define STORE(to, vector)  memcpy(to, &(vector), LANES_BYTES)

#endif
