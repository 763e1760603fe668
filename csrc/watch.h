/*
 * watch.h - how a run asks whether to go on: solvers call `poll` here alone. Called from Python, it
 * is Watch.ask in _core.pyx, which hears Ctrl-C.
 */
#ifndef PEGASOS_WATCH_H
#define PEGASOS_WATCH_H

#include "core.h"
#include "platform.h"

#include <stdbool.h>

/* Whether `poll` is called after this many numbers: then the state is to be whole. */
static INLINE bool is_due(const pegasos_watch *watch, double numbers)
{
    return watch->n_read + numbers >= watch->every;
}

/* To be called after each piece of work, which read this many numbers: whether to stop. */
static INLINE bool is_to_stop(pegasos_watch *watch, double numbers)
{
    watch->n_read += numbers;
    if (watch->n_read < watch->every)
        return false;
    watch->n_read = 0;
    return watch->poll && watch->poll(watch->context, &watch->progress) != 0;
}

/* To be called at the end of each epoch, with how far the run is now: whether to stop. */
static INLINE bool is_to_stop_after_epoch(pegasos_watch *watch, pegasos_progress now)
{
    watch->progress = now;
    return watch->by_epochs && watch->poll && watch->poll(watch->context, &watch->progress) != 0;
}

#endif
