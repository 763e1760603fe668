/*
 * memory.h - arrays that lie one after the other in a piece of memory. One function lays them out;
 * without memory, it only tells how many bytes they take.
 */
#ifndef PEGASOS_MEMORY_H
#define PEGASOS_MEMORY_H

#include "platform.h"

#include <stddef.h>

typedef struct layout {
    void *memory;  /* NULL: there is none */
    int64_t unit;  /* arrays begin at multiples of this, in bytes */
    int64_t bytes; /* that are taken */
} layout;

/* The least multiple of `unit` that is at least n. */
static INLINE int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Where arrays that begin at multiples of `unit` bytes can lie in memory of as many more bytes. */
static INLINE void *aligned(void *memory, int64_t unit)
{
    return (char *)memory + (0 - (uintptr_t)memory) % (uintptr_t)unit;
}

/* The next array, of `bytes` bytes; NULL without memory. */
static INLINE void *take(layout *p, int64_t bytes)
{
    const int64_t first = round_up(p->bytes, p->unit);
    p->bytes = first + bytes;
    return p->memory ? (char *)p->memory + first : NULL;
}

#endif
