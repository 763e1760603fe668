/*
 * ascent.h - what a run of dual coordinate ascent and a bundle share.
 */
#ifndef PEGASOS_ASCENT_H
#define PEGASOS_ASCENT_H

#include "loss.h"
#include "passes.h"

#include <math.h>

/* Estimates the gap, as the part that tol is compared with, by what the last epoch saw and the sum
 * of z_i a_i - c_i l*(a_i/c_i): D from running sums, and the gap. */
static INLINE void estimate_gap(const pegasos_dual *p, pegasos_ascent *s, pegasos_loss loss,
                                double sum)
{
    const double dual = sum / s->mass - s->lam / 2 * p->squared_norm, gap = p->gap / s->mass;
    s->estimate = gap / fmax(loss.nu == 0 ? dual + gap : loss.nu - dual, 1e-300);
}

#endif
