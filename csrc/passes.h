/*
 * passes.h - work in pieces, between which a run asks whether to go on. Solvers call `poll` only
 * here. In Python, `poll` is Watch.ask in _core.pyx, which hears Ctrl-C. Pieces are consecutive
 * rows, tasks that threads share, or parts of blocks, where each block has its own sums.
 */
#ifndef PEGASOS_PASSES_H
#define PEGASOS_PASSES_H

#include "rows.h"

#include <math.h>

/* Whether `poll` comes after this many more numbers: the state must be whole then. */
static INLINE bool is_due(const pegasos_watch *watch, double numbers)
{
    return watch->n_read + numbers >= watch->every;
}

/* Call this after each piece of work, with the numbers that it read; true: stop. */
static INLINE bool is_to_stop(pegasos_watch *watch, double numbers)
{
    watch->n_read += numbers;
    if (watch->n_read < watch->every)
        return false;
    watch->n_read = 0;
    return watch->poll && watch->poll(watch->context, &watch->progress) != 0;
}

/* Call this at the end of each epoch, with how far the run is now; true: stop. */
static INLINE bool is_to_stop_after_epoch(pegasos_watch *watch, pegasos_progress now)
{
    watch->progress = now;
    return watch->by_epochs && watch->poll && watch->poll(watch->context, &watch->progress) != 0;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* The most rows that are read between polls. */
enum { ROWS_PER_PIECE = 256 };

/* How many numbers a row costs, on average. */
static INLINE double cost_of_row(const pegasos_rows *rows)
{
    return stored_in_row(rows) + PEGASOS_NUMBERS_PER_CALL;
}

static INLINE int64_t rows_of_piece(const pegasos_rows *rows, int64_t first)
{
    return min_of(ROWS_PER_PIECE, rows->n_rows - first);
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

/* Work of fewer numbers is not worth several threads. */
enum { LEAST_SHARED = 1000000 };

/* Does task number k in slot number `slot`; two tasks of a slot never run at the same time. */
typedef void (*task_function)(void *argument, int64_t slot, int64_t k);

typedef struct task_round {
    task_function task;
    void *argument;
    int64_t first, last, n_slots;
} task_round;

static inline void run_slot(void *argument, int64_t slot)
{
    const task_round *const r = argument;
    for (int64_t k = r->first + slot; k < r->last; k += r->n_slots)
        r->task(r->argument, slot, k);
}

/* Does n tasks, each of which reads `numbers` numbers; false: stopped. */
static inline bool run_tasks(const pegasos_workers *workers, int64_t n, double numbers,
                             task_function task, void *argument)
{
    const bool is_shared = workers->threads && numbers * (double)n >= LEAST_SHARED;
    const int64_t n_slots = is_shared ? max_of(1, min_of(n, workers->n_threads)) : 1;
    const int64_t each = (int64_t)fmin(fmax(workers->watch->every / numbers, 1), (double)n);
    for (int64_t first = 0, last; first < n; first = last) {
        last = min_of(n, first + n_slots * each);
        task_round r = {task, argument, first, last, n_slots};
        if (n_slots == 1)
            run_slot(&r, 0);
        else
            workers->threads->run(workers->threads->context, n_slots, run_slot, &r);
        if (is_to_stop(workers->watch, numbers * (double)(last - first) / (double)n_slots))
            return false;
    }
    return true;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/*
 * Passes over blocks of rows, or of other items, which threads may share. Each block has its own
 * sums, which are added up in a tree at the end. The number of blocks and their beginnings follow
 * from the size of the data alone, so threads do not change a bit.
 */
typedef struct block_pass block_pass;

/* Works on the items first .. first + count - 1, which are in one block. */
typedef void block_work(const block_pass *pass, int64_t block, int64_t first, int64_t count);

struct block_pass {
    block_work *work;
    const void *context; /* for `work` */
    int64_t n;           /* items */
    int64_t n_blocks;
    int64_t piece; /* the most items that `work` gets at once */
    double cost;   /* of an item, in numbers read */
};

/* Numbers that all blocks together read between polls; and the fewest that are worth threads. */
#define NUMBERS_OF_WAVE 4e6
#define WORTH_THREADS   1e5

/* Blocks begin at multiples of this: with a cache line of doubles. */
enum { ITEMS_OF_LINE = 8 };

static INLINE int64_t items_of_block(const block_pass *pass)
{
    const int64_t lines = (pass->n + ITEMS_OF_LINE - 1) / ITEMS_OF_LINE;
    return (lines + pass->n_blocks - 1) / pass->n_blocks * ITEMS_OF_LINE;
}

/* Where a block begins; n if it is empty. */
static INLINE int64_t first_of_block(const block_pass *pass, int64_t block)
{
    return min_of(block * items_of_block(pass), pass->n);
}

/* The part of each block that is worked on. */
typedef struct wave {
    const block_pass *pass;
    int64_t begin, end;
} wave;

static inline void work_on_block(void *argument, int64_t block)
{
    const wave *const w = argument;
    const block_pass *const pass = w->pass;
    const int64_t first = first_of_block(pass, block), next = first_of_block(pass, block + 1);
    const int64_t end = min_of(first + w->end, next);
    for (int64_t i = first + w->begin; i < end; i += pass->piece)
        pass->work(pass, block, i, min_of(end - i, pass->piece));
}

/* Makes a pass; false: stopped. Threads go over all blocks in waves, each of which is some pieces
 * of every block. One thread goes over one block after the other. */
static inline bool go_over_blocks(const block_pass *pass, const pegasos_threads *threads,
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
            w.end = min_of(length, w.begin + most);
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

/* Adds up `count` sums of each block into those of the first; blocks are `stride` numbers apart. */
static INLINE void add_up_blocks(int64_t n_blocks, int64_t stride, int64_t count, double *sums)
{
    for (int64_t apart = 1; apart < n_blocks; apart *= 2)
        for (int64_t k = 0; k + apart < n_blocks; k += 2 * apart)
            for (int64_t j = 0; j < count; j++)
                sums[k * stride + j] += sums[(k + apart) * stride + j];
}

#endif
