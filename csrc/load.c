/*
 * load.c - dual coordinate ascent (ascent.c) where rows are more than memory holds: some are loaded
 * at a time, and w is that of all.
 *
 * A step asks for the row, its own dual variable and w. So it is the same whichever other rows are
 * in memory, if w = w(a) counts those that are not. What epochs leave out, and what they sum up, is
 * of the rows loaded.
 */
#include "passes.h"

#include <math.h>

int pegasos_load_run(const pegasos_rows *rows, pegasos_dual *problem,
                     const pegasos_targets *targets, const double *norms, int64_t *active,
                     double *a, double *w, int64_t n_epochs, pegasos_watch *watch)
{
    pegasos_dual *const p = problem;
    const double each = 3 * cost_of_row(rows);
    const int64_t most = 1 + (int64_t)fmin(watch->every / each, 1e9);
    const pegasos_progress nothing = {0, INFINITY, INFINITY};
    double gap = 0;
    int64_t n_active = 0;
    assert(are_there(rows, 0, 0) && targets->n == rows->n_rows);
    for (int64_t i = 0; i < rows->n_rows; i++)
        if (targets->labels[i] != 0)
            active[n_active++] = i;
    pegasos_dual_start(p, n_active);
    for (int64_t epoch = 0; epoch < n_epochs; epoch++) {
        while (p->position < p->n_active) {
            const int64_t done = pegasos_dual_run(rows, p, targets, norms, active, a, w, most);
            if (is_to_stop(watch, each * (double)done, &nothing))
                return PEGASOS_STOPPED;
        }
        gap = epoch == 0 ? p->gap : gap;
        if (epoch + 1 < n_epochs)
            pegasos_dual_begin_epoch(p);
    }
    p->gap = gap;
    return PEGASOS_DONE;
}
