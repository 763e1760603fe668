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

static INLINE bool is_within(const pegasos_ascent *s, double relative_gap, double factor)
{
    return is_small_gap(relative_gap, s->primal, factor * s->tol);
}

/* Estimates the relative gap by what the last epoch saw and the sum of z_i a_i - c_i l*(a_i/c_i): D
 * from running sums, and the gap. */
static INLINE void estimate_gap(const pegasos_dual *p, pegasos_ascent *s, double sum)
{
    const double dual = sum / s->mass - s->lam / 2 * p->squared_norm, gap = p->gap / s->mass;
    s->estimate = gap / fmax(dual + gap, 1e-300);
}

#endif
