/*
 * order.c - random numbers, and the order in which rows are drawn.
 */
#include "core.h"

#include <assert.h>
#include <stdbool.h>

/* SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a counter and a mixing function. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t next_random(uint64_t *generator)
{
    return mix(*generator += UINT64_C(0x9e3779b97f4a7c15));
}

/* The high and low half of a * b, without a 128-bit type. */
static uint64_t multiply(uint64_t a, uint64_t b, uint64_t *low)
{
    const uint64_t a0 = a & 0xffffffff, a1 = a >> 32, b0 = b & 0xffffffff, b1 = b >> 32;
    const uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
    *low = a * b;
    return a1 * b1 + (middle >> 32) + (((middle & 0xffffffff) + a0 * b1) >> 32);
}

/* The high half of random * n is drawn again if the low half falls into the incomplete interval, so
 * that the result is unbiased (Lemire, ACM TOMACS 29:1, 2019). */
int64_t pegasos_bounded_random(uint64_t *generator, int64_t n)
{
    assert(n >= 1);
    const uint64_t range = (uint64_t)n;
    uint64_t low;
    uint64_t high = multiply(next_random(generator), range, &low);
    if (low < range) {
        const uint64_t threshold = (0 - range) % range;
        while (low < threshold)
            high = multiply(next_random(generator), range, &low);
    }
    return (int64_t)high;
}

int64_t pegasos_draw_one(uint64_t *generator, int64_t count, int64_t at, int64_t *list)
{
    const int64_t other = at + pegasos_bounded_random(generator, count - at), one = list[other];
    list[other] = list[at];
    list[at] = one;
    return one;
}

static void begin_epoch(pegasos_order *order, int64_t *permutation)
{
    const int64_t epoch = order->next / order->n_rows;
    order->generator = mix(order->seed ^ mix((uint64_t)epoch + 1));
    if (order->sampling == PEGASOS_UNIFORM)
        return;
    for (int64_t i = 0; i < order->n_rows; i++)
        permutation[i] = i;
}

/* One draw. A permutation is shuffled while it is used (Fisher and Yates): position p swaps with a
 * random later one, and stays as it is for the rest of its epoch. */
static int64_t draw(pegasos_order *order, int64_t *permutation)
{
    const int64_t n = order->n_rows, position = order->next % n;
    const bool kept = order->sampling == PEGASOS_CYCLIC && order->next >= n;
    if (position == 0 && !kept)
        begin_epoch(order, permutation);
    order->next++;
    if (order->sampling == PEGASOS_UNIFORM)
        return pegasos_bounded_random(&order->generator, n);
    return kept ? permutation[position]
                : pegasos_draw_one(&order->generator, n, position, permutation);
}

void pegasos_order_draw(pegasos_order *order, int64_t *permutation, int64_t count, int64_t *draws)
{
    for (int64_t j = 0; j < count; j++)
        draws[j] = draw(order, permutation);
}

void pegasos_order_seek(pegasos_order *order, uint64_t seed, int64_t n_rows, int64_t sampling,
                        int64_t next, int64_t *permutation)
{
    assert(n_rows >= 1 && next >= 0 && (permutation || sampling == PEGASOS_UNIFORM));
    assert(sampling >= PEGASOS_PERMUTATION && sampling <= PEGASOS_UNIFORM);
    /* Redraw from the start of the epoch whose permutation is used at `next`. */
    const int64_t epoch = sampling == PEGASOS_CYCLIC ? 0 : next / n_rows;
    const int64_t begin = epoch * n_rows;
    const int64_t end = next - begin > n_rows ? begin + n_rows : next;
    *order = (pegasos_order){.seed = seed, .n_rows = n_rows, .sampling = sampling, .next = begin};
    while (order->next < end)
        draw(order, permutation);
    order->next = next;
}
