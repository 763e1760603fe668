/*
 * watch.h - how a run asks whether to go on: solvers call `poll` here alone. Called from Python, it
 * is Watch.ask in _core.pyx, which hears Ctrl-C.
 */
#ifndef PEGASOS_WATCH_H
#define PEGASOS_WATCH_H

#include "core.h"
#include "platform.h"

#include <stdbool.h>

/* To be called after each piece of work, which read this many numbers: whether to stop. */
static INLINE bool is_to_stop(pegasos_watch *watch, double numbers,
                              const pegasos_progress *progress)
{
    watch->n_read += numbers;
    if (watch->n_read < watch->every)
        return false;
    watch->n_read = 0;
    return watch->poll && watch->poll(watch->context, progress) != 0;
}

/* is_to_stop for a watch that itself knows the progress. */
static INLINE bool stops(pegasos_watch *watch, double numbers)
{
    return is_to_stop(watch, numbers, &watch->progress);
}

/* To be called at the end of each epoch: whether to stop. */
static INLINE bool is_to_stop_after_epoch(const pegasos_watch *watch,
                                          const pegasos_progress *progress)
{
    return watch->by_epochs && watch->poll && watch->poll(watch->context, progress) != 0;
}

#endif
