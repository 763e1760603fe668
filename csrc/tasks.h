/*
 * tasks.h - tasks that threads share, in rounds between which a run asks whether to go on.
 */
#ifndef PEGASOS_TASKS_H
#define PEGASOS_TASKS_H

#include "watch.h"

/* Work of fewer numbers is not worth other threads. */
enum { LEAST_SHARED = 1000000 };

/* Does task number k in slot number `slot`, of which no two are at work at a time. */
typedef void (*task_function)(void *argument, int64_t slot, int64_t k);

typedef struct task_round {
    task_function task;
    void *argument;
    int64_t first, last, n_slots;
} task_round;

static void run_slot(void *argument, int64_t slot)
{
    const task_round *const r = argument;
    for (int64_t k = r->first + slot; k < r->last; k += r->n_slots)
        r->task(r->argument, slot, k);
}

/* Does all of n tasks, each of which reads `numbers` numbers; false: stopped. */
static bool run_tasks(const pegasos_workers *workers, int64_t n, double numbers, task_function task,
                      void *argument)
{
    const bool is_shared = workers->threads && numbers * (double)n >= LEAST_SHARED;
    const int64_t most = n < workers->n_threads ? n : workers->n_threads;
    const int64_t n_slots = is_shared && most > 1 ? most : 1;
    const double tasks = workers->watch->every / numbers;
    const int64_t each = tasks<1 ? 1 : tasks>(double) n ? n : (int64_t)tasks;
    for (int64_t first = 0, last; first < n; first = last) {
        last = n - first < n_slots * each ? n : first + n_slots * each;
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

#endif
