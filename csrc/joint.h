/*
 * joint.h - what joint.c and joint_newton.c share: a fit, its memory, and functions of single rows.
 */
#ifndef PEGASOS_JOINT_H
#define PEGASOS_JOINT_H

#include "loss.h"
#include "passes.h"

/* Classes of a panel: see joint.c. */
enum { JOINT_LANES = BUNDLE_BYTES / sizeof(double) };

/* W = scale v. Intercepts are scale * feature * (v's weight of the constant feature) + offset. */
typedef struct joint_point {
    double *v, *offset;
    double scale;
} joint_point;

/* A fit and where its parts lie. */
typedef struct joint {
    const pegasos_joint_problem *p;
    const pegasos_joint_options *o;
    pegasos_watch *watch;
    pegasos_joint *s;
    int64_t n, d, n_classes;
    int64_t padded_classes, size; /* numbers in the panels: for one feature; in all */
    double constant_feature;      /* in this run */
    /* State: the best model; dual variables; v; offsets of intercepts; sums for the average, if
     * there is one; the order of rows. */
    double *coef, *intercept, *a, *v, *offset, *sums, *offset_sums;
    int64_t *active;
    /* Scratch: v, recomputed; numbers of one row, for each class; flows and their factors, for each
     * pair of classes; draws. */
    double *fresh, *scores, *row, *change, *flows, *balance;
    int64_t *drawn, *worst;
    void *newton_scratch; /* the rest: see joint_newton.c */
} joint;

/* Number t of class k, where t = n_features is the constant feature. */
static INLINE double *joint_at(const joint *j, double *v, int64_t k, int64_t t)
{
    return v + (k / JOINT_LANES * (j->d + 1) + t) * JOINT_LANES + k % JOINT_LANES;
}

/* scores = Delta(k, y) + s_k; returns the class of the largest one, y among equals. `next` is the
 * row that will be scored next, or i. */
int64_t joint_score(const joint *j, int64_t i, int64_t next, const joint_point *x);

/* v_k += u[k] x_i. */
void joint_add_row(const joint *j, int64_t i, const double *u, double *v);

/* row[k] = the best a_k for these scores: see joint.c. */
void joint_solve_row(const joint *j, int64_t y, int64_t worst, double c, double q, const double *a);

/* The sum of squares of the penalised weights. */
double joint_norm(const joint *j, const double *v);

/* fresh = v of a feasible point near theta a, balanced for free intercepts if `is_balanced`;
 * `value` is m times the linear part of D. False: stopped. */
bool joint_combine(const joint *j, const double *a, double theta, bool is_balanced, double *value);

/* P(0) */
double joint_objective_at_zero(const joint *j);

/* Keeps a point as the model if it is the best so far or `is_last`. */
void joint_keep_best(const joint *j, const joint_point *x, double primal, bool is_last);

/* Polls after this number of passes over a row; true: stop. */
bool joint_is_stopped(const joint *j, double passes);

pegasos_progress joint_progress(const joint *j);

/* The present point of dual ascent and Newton's method. */
joint_point joint_current_point(const joint *j);

/* How many bytes of scratch Newton's method needs; joint_newton.c. */
int64_t joint_newton_scratch_bytes(const pegasos_joint_problem *problem);

/* Goes on by Newton's method until the fit is done or stopped. */
int joint_newton(const joint *j);

#endif
