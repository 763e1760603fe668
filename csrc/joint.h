/*
 * joint.h - one problem over all classes, with a weight vector for each: joint.c has the
 * algorithms.
 */
#ifndef PEGASOS_JOINT_H
#define PEGASOS_JOINT_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is minimised: see joint.c. */
typedef struct pegasos_joint_problem {
    const pegasos_rows *rows;
    int64_t n_classes;       /* K >= 2 */
    const int64_t *codes;    /* n_rows: y_i in [0, K); -1: the row is not in the problem */
    const double *weights;   /* n_rows: c_i > 0 where codes are not -1; NULL: all one */
    const double *cost;      /* K x K: Delta(k, y) >= 0 is at y * K + k; 0 where k = y */
    const double *norms;     /* n_rows: |x_i|^2 */
    double lam;              /* lambda > 0 */
    double constant_feature; /* its value; 0: there is none */
    int64_t is_free;         /* 1: intercepts are not penalised, and constant_feature is 1 */
} pegasos_joint_problem;

typedef struct pegasos_joint_options {
    double tol;           /* dual ascent: the relative gap to stop at; below 0: last_epoch alone */
    int64_t last_epoch;   /* dual ascent: stop once n_epochs is this */
    int64_t last_step;    /* Pegasos: make steps up to this number; 0: dual ascent */
    int64_t newton_after; /* epochs of dual ascent before Newton's method; 0: it never runs */
    int64_t batch_size;   /* Pegasos: k >= 1, rows drawn per step */
    int64_t sampling;     /* Pegasos: PEGASOS_PERMUTATION, ... */
    int64_t project;      /* Pegasos: 1: on a ball that holds the optimum */
    int64_t averages;     /* Pegasos: 1: memory has room for an average of the iterates, */
    int64_t average_from; /* which begins anew with this step; 0: there is none */
    uint64_t seed;        /* of the order of rows */
    const pegasos_blas *blas; /* of Newton's method; NULL: plain loops */
} pegasos_joint_options;

/* Where a fit stands; all zeros before it begins. Its arrays follow in memory, without pointers:
 * copying the memory is saving the fit. */
typedef struct pegasos_joint {
    int64_t n_rows, n_features, n_classes; /* of the memory; 0: not begun */
    int64_t n_inside;                      /* rows that are in the problem */
    int64_t n_epochs;    /* of dual ascent (visits by rows, at the end of a sweep) and Newton */
    int64_t n_visits;    /* of dual ascent, in sweeps that have ended; */
    int64_t n_sweeps;    /* how many of these since one was of all rows */
    int64_t n_steps;     /* of Pegasos, one a row in the first epoch of dual ascent */
    int64_t n_active;    /* the rows that a sweep visits come first in `active`; */
    int64_t position;    /* how many of them it has visited */
    int64_t n_kept;      /* how many of those the next one visits, too */
    int64_t next_draw;   /* of Pegasos */
    int64_t n_averaged;  /* iterates in the average */
    int64_t n_newton;    /* epochs of Newton's method */
    int64_t is_due;      /* 1: a gap check comes next */
    int64_t is_checked;  /* 1: coef, primal and dual are of where the fit stands */
    uint64_t generator;  /* of the order of visits */
    double mass;         /* m */
    double visited;      /* of dual ascent: sum of the weights visited so far, at last m */
    double gap;          /* sum of what the rows of this sweep had of the gap when visited; */
    double loss;         /* and of their losses */
    double whole;        /* the gap that the last sweep over all rows has summed up; */
    double ratio;        /* of the gap at the last check to it */
    double q;            /* Pegasos: what projections have multiplied v by */
    double squared_norm; /* sum_k |v_k|^2, constant feature included */
    double rate_sum;     /* Pegasos: sum over averaged iterates of what v is multiplied by */
    double width;        /* delta of Newton's method; 0: it has not begun */
    double primal, dual; /* P of the best model, a lower bound on P */
} pegasos_joint;

/* How many bytes the state of a fit has, and how many of scratch it needs; memory is aligned as a
 * line of cache. `coef` (K x n_features) and K intercepts follow the struct. */
int64_t pegasos_joint_state_bytes(int64_t n_rows, int64_t n_features, int64_t n_classes,
                                  int64_t averages);
int64_t pegasos_joint_scratch_bytes(const pegasos_joint_problem *problem,
                                    const pegasos_joint_options *options);

/* How many unknowns Newton's method has, which takes up to PEGASOS_NEWTON_MAX_UNKNOWNS. */
int64_t pegasos_joint_unknowns(const pegasos_joint_problem *problem);

/* After how many epochs of dual ascent Newton's method may well be faster, which then takes about
 * as long as they did; 0: it does not take that number of unknowns. */
int64_t pegasos_joint_newton_after(const pegasos_joint_problem *problem);

/* The order of rows in the memory of a fit: n_inside of them, for dual ascent. */
const int64_t *pegasos_joint_active(int64_t n_rows, int64_t n_features, int64_t n_classes,
                                    const void *memory);

/* Begins a fit, or goes on with it, until it is done or stopped; returns a status. */
int pegasos_joint_run(const pegasos_joint_problem *problem, const pegasos_joint_options *options,
                      void *memory, void *scratch, pegasos_watch *watch);

#ifdef __cplusplus
}
#endif
#endif
