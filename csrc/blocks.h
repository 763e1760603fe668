/*
 * blocks.h - passes over blocks of rows, or of other items, which threads may share.
 *
 * Each block has sums of its own, which are added up in a tree at the end. How many blocks there
 * are, and where they begin, follows from the size of the data alone: so threads do not change a
 * bit.
 */
#ifndef PEGASOS_BLOCKS_H
#define PEGASOS_BLOCKS_H

#include "watch.h"

typedef struct block_pass block_pass;

/* Works on the items first .. first + count - 1, which are in a block. */
typedef void block_work(const block_pass *pass, int64_t block, int64_t first, int64_t count);

struct block_pass {
    block_work *work;
    const void *context; /* of `work` */
    int64_t n;           /* items, */
    int64_t n_blocks;    /* in blocks, */
    int64_t piece;       /* of which at most this number are worked on at once */
    double cost;         /* of an item, in numbers read */
};

/* Numbers that all blocks together read before the run asks whether to go on; and the fewest in a
 * pass for which other threads are asked. */
#define NUMBERS_OF_WAVE 4e6
#define WORTH_THREADS   1e5

/* Blocks begin at multiples of this: with a cache line of doubles. */
enum { ITEMS_OF_LINE = 8 };

static INLINE int64_t items_of_block(const block_pass *pass)
{
    const int64_t lines = (pass->n + ITEMS_OF_LINE - 1) / ITEMS_OF_LINE;
    return (lines + pass->n_blocks - 1) / pass->n_blocks * ITEMS_OF_LINE;
}

/* Where a block begins; n, if it is empty. */
static INLINE int64_t first_of_block(const block_pass *pass, int64_t block)
{
    const int64_t first = block * items_of_block(pass);
    return first < pass->n ? first : pass->n;
}

/* The part of each block that is under way. */
typedef struct wave {
    const block_pass *pass;
    int64_t begin, end;
} wave;

static INLINE void work_on_block(void *argument, int64_t block)
{
    const wave *const w = argument;
    const block_pass *const pass = w->pass;
    const int64_t first = first_of_block(pass, block), next = first_of_block(pass, block + 1);
    const int64_t end = first + w->end < next ? first + w->end : next;
    for (int64_t i = first + w->begin; i < end; i += pass->piece)
        pass->work(pass, block, i, end - i < pass->piece ? end - i : pass->piece);
}

/* Makes a pass; false: stopped. Threads go over all blocks in waves, each of which is some pieces
 * of every block; one thread goes over one block after the other. */
static INLINE bool go_over_blocks(const block_pass *pass, const pegasos_threads *threads,
                                  pegasos_watch *watch)
{
    const int64_t n_blocks = pass->n_blocks, length = items_of_block(pass), piece = pass->piece;
    const bool is_shared = threads && n_blocks > 1 && (double)pass->n * pass->cost >= WORTH_THREADS;
    const int64_t together = is_shared ? n_blocks : 1;
    const double cost = (double)together * pass->cost;
    const double n_pieces = NUMBERS_OF_WAVE / (cost * (double)piece);
    const int64_t most = n_pieces > 1 ? (int64_t)n_pieces * piece : piece;
    for (int64_t block = 0; block < n_blocks; block += together) {
        wave w = {pass, 0, 0};
        for (; w.begin < length; w.begin = w.end) {
            w.end = length - w.begin < most ? length : w.begin + most;
            if (is_shared)
                threads->run(threads->context, n_blocks, work_on_block, &w);
            else
                work_on_block(&w, block);
            if (is_to_stop(watch, (double)(w.end - w.begin) * cost))
                return false;
        }
    }
    return true;
}

/* Adds up `count` sums of each block in those of the first; `stride` is from one block's to the
 * next one's. */
static INLINE void add_up_blocks(int64_t n_blocks, int64_t stride, int64_t count, double *sums)
{
    for (int64_t apart = 1; apart < n_blocks; apart *= 2)
        for (int64_t k = 0; k + apart < n_blocks; k += 2 * apart)
            for (int64_t j = 0; j < count; j++)
                sums[k * stride + j] += sums[(k + apart) * stride + j];
}

#endif
