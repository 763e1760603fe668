/*
 * loss.h - what Newton's method asks of a loss; another loss is another case of these functions.
 */
#ifndef PEGASOS_LOSS_H
#define PEGASOS_LOSS_H

#include "pegasos.h"
#include "platform.h"

/* The loss of a row at u = 1 - y f(x). */
static INLINE double loss_value(int64_t loss, double u)
{
    (void)loss; /* PEGASOS_HINGE is all there is */
    return u > 0 ? u : 0;
}

/* The dual variable nearest to a in its box [0, c]; 0 for NaN. */
static INLINE double loss_clip(int64_t loss, double a, double c)
{
    (void)loss;
    a = a > 0 ? a : 0;
    return a < c ? a : c;
}

/* Slope of the smoothed loss at u, which is a dual variable: clip(centre + c u/width, 0, c). */
static INLINE double loss_slope(int64_t loss, double centre, double c, double u, double width)
{
    return loss_clip(loss, centre + c * u / width, c);
}

/* Whether it has curvature there, c/width: between the bounds. */
static INLINE int loss_is_curved(int64_t loss, double slope, double c)
{
    (void)loss;
    return 0 < slope && slope < c;
}

#endif
