/*
 * ascent.h - what a run of dual coordinate ascent and a bundle share.
 */
#ifndef PEGASOS_ASCENT_H
#define PEGASOS_ASCENT_H

#include "loss.h"
#include "passes.h"

#include <math.h>

/* A gap is checked if it is estimated at no more than so many times the one that is asked for. */
static const double HOPEFUL = 1.3;

/* Whether the estimate is so many times what is asked for, at most. */
static INLINE bool is_within(const pegasos_ascent *s, double factor)
{
    return s->tol >= 0 && (s->estimate <= factor * s->tol || s->primal <= PEGASOS_ROUNDING);
}

/* Estimates the gap, as the part that tol is compared with, by what the last epoch saw and the sum
 * of z_i a_i - c_i l*(a_i/c_i): D from running sums, and the gap. */
static INLINE void estimate_gap(const pegasos_dual *p, pegasos_ascent *s, pegasos_loss loss,
                                double sum)
{
    const double dual = sum / s->mass - s->lam / 2 * p->squared_norm, gap = p->gap / s->mass;
    s->estimate = gap / fmax(loss.nu == 0 ? dual + gap : loss.nu - dual, 1e-300);
}

#endif
