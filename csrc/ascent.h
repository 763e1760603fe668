/*
 * ascent.h - what a run of dual coordinate ascent and a bundle share.
 */
#ifndef PEGASOS_ASCENT_H
#define PEGASOS_ASCENT_H

#include "loss.h"
#include "passes.h"

#include <math.h>

/* The intercept of w(a). */
static INLINE double intercept_of(const pegasos_dual *p)
{
    return p->intercept + p->intercept_scaling * p->constant_weight;
}

/* Moves the reference of an intercept at the end of an epoch: see `pegasos_ascent`. */
static INLINE void move_reference(pegasos_dual *p, const pegasos_ascent *s)
{
    const double part = s->feature > 0 ? p->intercept_scaling / s->feature : 0;
    p->intercept = (1 - part * part) * intercept_of(p);
}

/* The weight in w(a) of the constant feature that the problem has. */
static INLINE double weight_of_feature(const pegasos_dual *p, const pegasos_ascent *s)
{
    return s->feature > 0 ? s->feature / p->intercept_scaling * p->constant_weight
                          : p->constant_weight;
}

/* Estimates the gap, as the part that tol is compared with, by what the last epoch saw and the sum
 * of z_i a_i - c_i l*(a_i/c_i): D from running sums, and the gap. */
static INLINE void estimate_gap(const pegasos_dual *p, pegasos_ascent *s, pegasos_loss loss,
                                double sum)
{
    const double weight = weight_of_feature(p, s), constant = p->constant_weight;
    const double norm = p->squared_norm - constant * constant + weight * weight;
    const double apart = s->feature > 0 ? intercept_of(p) / s->feature - weight : 0;
    const double gap = p->gap / s->mass + s->lam / 2 * apart * apart;
    const double dual = sum / s->mass - s->lam / 2 * norm;
    s->estimate = gap / fmax(loss.nu == 0 ? dual + gap : loss.nu - dual, 1e-300);
}

#endif
