/*
 * core.h - the parts of the C core, for the Python package and the tests. C programs use pegasos.h.
 * This table says where to find what:
 *
 *                         linear machines               kernel machines
 *     a whole fit         solve.c: pegasos_solve_one    kernel_fit.c: pegasos_kernel_solve_one
 *     the schedule        solve.c: pegasos_fit_run      kernel_fit.c: run_fit
 *     its beginnings      begin.c                       kernel.c
 *     Pegasos             pegasos.c: take_step          kernel_pegasos.c: take_step
 *       its draws         order.c: draw                 order.c: draw
 *       before ascent     step.h: growth                kernel.c: step_on_rows
 *     dual ascent         ascent.c: ascend              kernel.c: step_on_rows; for pairs
 *                                                       kernel_body.h: step_on_pairs
 *     its gap checks      ascent.c: check_gap           kernel.c: check_gap
 *     Newton's method     newton.c                      newton.c, on a factor of the matrix
 *     the certificate     bounds_of in _core.pyx, from  kernel_certificate.c:
 *                         the sums of certificate.c     pegasos_kernel_certify
 *     rows and values     rows.h, rows_body.h           kernels.c, kernel_columns.c
 *     `poll` is called    passes.h                      passes.h
 *
 * The contract is that of pegasos.h: nothing is allocated, there is no global state, and equal
 * arguments give equal bits. Other libraries may round otherwise: a BLAS, in Newton's method and in
 * kernel values, and tanh in the sigmoid kernel. Arguments are trusted. The comment of each field
 * says what must hold. Debug builds (without NDEBUG) assert it where that takes constant time. Code
 * that takes input from people checks it first, as _core.pyx does.
 *
 * State structs hold only 8-byte numbers, so their layout is the same everywhere, except for the
 * order of bytes. Copying a struct with its arrays saves it.
 */
#ifndef PEGASOS_CORE_H
#define PEGASOS_CORE_H

#include "pegasos.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Losses and targets ---------------------------------------------------------------------- */

/* Targets, weights and loss of a problem. Row i costs c_i l(u_i), where u_i = z_i - y_i f(x_i);
 * loss.h has the losses. */
typedef struct pegasos_targets {
    int64_t n;             /* rows */
    const int8_t *labels;  /* n: y_i = -1 or +1; always +1 for losses that take targets; 0: the row
                              is not in the problem */
    const double *values;  /* n: z_i, for losses that take targets; NULL: all one */
    const double *weights; /* n: c_i > 0 where labels are not 0; NULL: all one */
    pegasos_loss loss;
} pegasos_targets;

/* The rounding error of z - y f for targets and scores of about 1. `rounding_of` in loss.h says how
 * much it changes a loss. An objective up to that size counts as optimal for every tol >= 0. */
#define PEGASOS_ROUNDING (4 * 2.2204460492503131e-16)

/* ---- Polls ----------------------------------------------------------------------------------- */

/* A poll follows after this many numbers are read: about 10 ms of work. A call for a row costs as
 * much as reading NUMBERS_PER_CALL more numbers. */
#define PEGASOS_NUMBERS_PER_POLL 5e6
enum { PEGASOS_NUMBERS_PER_CALL = 25 };

/*
 * Runs ask now and then whether to go on. A run that was stopped can go on later, and ends with the
 * bits of an undisturbed run: visits of rows keep their position, and other work begins again.
 */
typedef struct pegasos_watch {
    int (*poll)(void *context, const pegasos_progress *progress); /* not 0: stop; NULL: go on */
    void *context;
    double every;      /* numbers to be read from one call of `poll` to the next: > 0, finite */
    int64_t by_epochs; /* 1: `poll` is called at the end of every epoch, too */
    double n_read;     /* numbers read since the last call; 0 at first */
    pegasos_progress progress; /* passed to `poll`; a fit sets it at the end of every epoch */
} pegasos_watch;

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Whether the index arrays of CSR rows describe a matrix, if `values` and `indices` have n_values
 * entries. Offsets must not decrease, and lie in [0, n_values]. Columns must lie in
 * [0, n_features). Reads indptr and indices in full. */
int pegasos_rows_are_valid(const pegasos_rows *rows, int64_t n_values);

/* Copies some rows into new arrays. With `places`, CSR rows keep only the features that are stored
 * in them, numbered in the order in which they occur. Returns the number of these features.
 *
 *   which    [count]          the rows
 *   places   [n_features]     -1, before and after; NULL: features keep their numbers
 *   values, indices           room for the numbers of these rows, in the types of `rows`; may be
 *                             the arrays of `rows` if `which` grows and `places` is NULL
 *   indptr   [count + 1]      written
 *   columns  [number of stored numbers, or of features]   written: features, by their new number
 */
int64_t pegasos_take_rows(const pegasos_rows *rows, int64_t count, const int64_t *which,
                          int64_t *places, void *values, void *indices, int64_t *indptr,
                          int64_t *columns);

/* Bits that say which of 64 columns occur, and how many columns occur before these 64. */
typedef struct pegasos_word {
    uint64_t bits;
    int64_t before;
} pegasos_word;

/* Numbers the columns that are stored in CSR rows, in ascending order, and returns how many there
 * are. If there are more than `most`, it returns without numbering them.
 *
 *   words    [n_features/64, rounded up]  must be 0
 *   numbers  [length of indices]          written: the number of each value's column
 *   columns  [at most `most`]             written: the columns, by their number
 */
int64_t pegasos_number_columns(const pegasos_rows *rows, int64_t most, pegasos_word *words,
                               void *numbers, int64_t *columns);

/* ---- Order of draws (order.c) ---------------------------------------------------------------- */

enum {
    PEGASOS_PERMUTATION = 0, /* a new permutation every n_rows draws (an epoch) */
    PEGASOS_CYCLIC = 1,      /* one permutation, repeated */
    PEGASOS_UNIFORM = 2      /* independent draws with replacement, as in the paper's analysis */
};

/* A stream of draws, numbered 0, 1, 2, ..., which follows from `seed`. Every epoch has its own
 * generator, seeded by (seed, epoch), so any position can be reached in at most n_rows draws. */
typedef struct pegasos_order {
    uint64_t seed;
    uint64_t generator; /* SplitMix64 state within the epoch */
    int64_t n_rows;     /* draws lie in [0, n_rows) */
    int64_t sampling;   /* PEGASOS_PERMUTATION, _CYCLIC or _UNIFORM */
    int64_t next;       /* number of the next draw */
} pegasos_order;

/* Puts `order` just before draw number `next` of the stream. `permutation` is the caller's n_rows
 * integers, kept and passed unchanged to later calls; it may be NULL for PEGASOS_UNIFORM. */
void pegasos_order_seek(pegasos_order *order, uint64_t seed, int64_t n_rows, int64_t sampling,
                        int64_t next, int64_t *permutation);

/* A random number in [0, n), unbiased, n >= 1, from a SplitMix64 state, which may be any number. */
int64_t pegasos_bounded_random(uint64_t *generator, int64_t n);

/* Swaps a random one of list[at .. count - 1] into list[at], and returns it. */
int64_t pegasos_draw_one(uint64_t *generator, int64_t count, int64_t at, int64_t *list);

/* Writes the next `count` draws. */
void pegasos_order_draw(pegasos_order *order, int64_t *permutation, int64_t count, int64_t *draws);

/* ---- Linear problems ------------------------------------------------------------------------- */

/*
 * One problem. The caller sets the first block, pegasos_linear_start the second. After that, the
 * caller may raise last_step. It may also restart the average: it sets average_from to the next
 * step, and all sums to 0, including the set's `sums`. It changes nothing else.
 */
typedef struct pegasos_linear {
    /* settings */
    double lam;               /* regularisation lambda > 0, finite */
    double weight_factor;     /* n/m: rows of this problem over the sum of their weights */
    double intercept_scaling; /* value of the constant feature whose weight is the (penalised)
                                 intercept; 0: there is no such feature */
    int64_t free_intercept;   /* 1: unpenalised intercept b, moved by eta_t; 0: none */
    double ball;              /* after every step, project on lam |w|^2 <= ball, which must contain
                                 the optimum; 0: no projection */
    int64_t average_from;     /* first step whose result enters the average; 0: no average */
    int64_t last_step;        /* T: the problem ignores draws once n_steps is this */
    int64_t delay;            /* t0 >= 0: rates are 1/(lam (t + t0)). 0 for losses with corners. For
                                 losses with second derivative at most L, it is at least
                                 L/lam max_i weight_factor c_i |x_i|^2. This |x_i|^2 includes the
                                 constant feature, which is 1 for a free intercept */
    /* state */
    int64_t n_steps;      /* t: steps taken */
    int64_t next_draw;    /* number of this problem's next draw from the stream */
    int64_t n_drawn;      /* rows drawn for the present step, below batch_size */
    int64_t n_pending;    /* violations among these rows: l'(u) is not 0 */
    int64_t n_violations; /* violations in all steps so far */
    double q; /* product of projection factors: w = q v / (lam (t + t0)); 1 without projection */
    double squared_norm; /* |v|^2, constant feature included; kept only when projecting. It can be
                            negative by rounding, or if a kernel is not positive semi-definite */
    int64_t n_norm_updates; /* additions to v since squared_norm was last recomputed */
    double constant_weight; /* v's component for the constant feature */
    double intercept;       /* b of the unpenalised intercept */
    double rate_sum;      /* S: sum of q_t/(t + t0) over averaged steps since v was last rescaled */
    double constant_sum;  /* the constant feature's component of a, see `sums` */
    double intercept_sum; /* sum of b over the averaged steps */
    int64_t n_averaged;   /* steps in the average */
} pegasos_linear;

/*
 * Problems over CSR rows can be trained as bundles of up to B problems, where B numbers fill a
 * cache line of PEGASOS_BUNDLE_BYTES. Vectors of features are interleaved: problem l's weight of
 * feature j is number j B + l, so one line holds all weights of a feature. Unused lanes hold 0.
 */
enum { PEGASOS_BUNDLE_BYTES = 64 };

/* Problems that share rows and the order of draws, and their arrays. */
typedef struct pegasos_linear_set {
    int64_t n_problems;
    int64_t batch_size;       /* k: draws per step, at least 1 */
    int64_t bundled;          /* 1: the problems, at most B, are a bundle: weights and sums are
                                 interleaved; batch_size is 1, and no problem projects */
    pegasos_linear *problems; /* n_problems */
    pegasos_targets targets;  /* labels and values are n_problems x n_rows; weights are n_rows. A
                                 draw changes nothing in a problem that does not have the row. A
                                 bundle has no values. */
    const double *epsilons;   /* n_problems: replace the loss's epsilon; NULL: all have that one */
    void *weights;            /* n_problems x n_features: v, zero at the start */
    void *sums;               /* n_problems x n_features: a, zero at the start, with
                                  sum of averaged w = (S v - a)/lam; NULL if no problem averages */
    double *counts;           /* n_problems x n_rows: alpha, the sum of l'(u) over the draws of each
                                 row: for the hinge, its number of violations; zero at the start;
                                 NULL: not wanted */
    int64_t *pending;         /* n_problems x batch_size: rows waiting for the step to end */
    double *slopes;           /* n_problems x batch_size: l'(u) of these rows; NULL for the hinge,
                                 where all are 1; a bundle needs none */
} pegasos_linear_set;

/* Sets the state of `problem` to w = 0, before its first step. Settings stay. */
void pegasos_linear_start(pegasos_linear *problem);

/*
 * Runs every problem over the draws number first .. first + count - 1; draws[j] is the row of draw
 * first + j. `first` must be at most the next_draw of every problem that is not at its last step. A
 * problem skips draws before its next_draw and stops at its last_step. So a run that was cut
 * anywhere continues with the same bits. A set gives the bits of separate runs.
 */
void pegasos_linear_run(const pegasos_rows *rows, const pegasos_linear_set *set, int64_t first,
                        int64_t count, const int64_t *draws);

/* Where draws come from: a stream at any position, with its permutation; or a list of the draws
 * number first .. first + count - 1. */
typedef struct pegasos_draws {
    pegasos_order *order; /* NULL: the list */
    int64_t *permutation;
    int64_t first, count;
    const int64_t *list;
} pegasos_draws;

/* Runs every problem to its last step or to the end of the list. Returns a status. */
int pegasos_linear_train(const pegasos_rows *rows, const pegasos_linear_set *set,
                         const pegasos_draws *draws, pegasos_watch *watch);

/* Writes the model of `problem`: the average if one has begun, else the last iterate. `weights` and
 * `sum` are the problem's rows of the set's arrays; `coef` has n_features numbers. */
void pegasos_linear_model(const pegasos_linear *problem, int64_t n_features, int64_t value_bytes,
                          const void *weights, const void *sum, double *coef, double *intercept);

/* ---- In double precision, for rows of any type (scores.c) ------------------------------------ */

/* scores[i * n_problems + k] = <coef_k, x_{first + i}> + intercepts[k] for i < count. If `which` is
 * not NULL, row which[i] takes the place of first + i, with the same bits. `coef` is
 * n_problems x n_features, and n_features x n_problems if `interleaved`: faster for several
 * problems, with the same bits for CSR rows, but another order of sums for dense rows. `coef` is
 * double (coef_bytes = 8) or has the rows' type, in which products are then summed. */
void pegasos_linear_scores(const pegasos_rows *rows, int64_t first, const int64_t *which,
                           int64_t count, int64_t n_problems, const void *coef, int64_t coef_bytes,
                           int64_t interleaved, const double *intercepts, double *scores);

/* sum += sum_i factors[i] x_{first + i}, i < count; `sum` has n_features numbers. */
void pegasos_linear_combine(const pegasos_rows *rows, int64_t first, int64_t count,
                            const double *factors, double *sum);

/* sum += sum_i factors[i] s_i, i < count, where s_i has the squares of the numbers of row i. */
void pegasos_linear_squares(const pegasos_rows *rows, int64_t first, int64_t count,
                            const double *factors, double *sum);

/* matrix += factor x_i x_i^T for CSR rows; number (j, k) is matrix[j stride + k]. */
void pegasos_linear_outer(const pegasos_rows *rows, int64_t i, double factor, int64_t stride,
                          double *matrix);

/* out = factor x_i, and zeros up to `stride`; numbers of 4 or 8 bytes. */
void pegasos_linear_scale(const pegasos_rows *rows, int64_t i, double factor, int64_t stride,
                          int64_t bytes, void *out);

/* norms[i] = |x_{first + i}|^2, i < count. For CSR rows, `scratch` must be n_features zeros, and is
 * zeros again afterwards; dense rows do not use it. */
void pegasos_linear_norms(const pegasos_rows *rows, int64_t first, int64_t count, double *scratch,
                          double *norms);

/* ---- The certificate of one problem (certificate.c) ------------------------------------------ */

/* Returns sum + sum_i c_i l(z_i - y_i f_i) over the rows first <= i < first + count, where f_i is
 * scores[(i - first) * stride]. Rows are added in order, so a pass over them may be cut anywhere. A
 * score that is not finite makes the sum NaN. */
double pegasos_loss_sum(const pegasos_targets *targets, int64_t first, int64_t count,
                        const double *scores, int64_t stride, double sum);

/* The b that minimises sum_i c_i (l(z_i - y_i (scores[i] + b)) + nu b). If a whole interval does,
 * the result is one b of it: for the hinge the middle, as in LIBSVM, or the only end, if all rows
 * are of one class. For rows of one class, the log loss has no minimum; b is then so large that the
 * loss is below rounding. `scratch` has 4 n numbers, in which breakpoints are sorted. */
double pegasos_best_intercept(const pegasos_targets *targets, const double *scores,
                              double *scratch);

/* The b that minimises sum_i c_i (l(z_i - y_i b) + nu b)/mass + penalty/2 b^2; `least` gets the
 * minimum. An infinite penalty makes b 0. */
double pegasos_best_constant(const pegasos_targets *targets, double mass, double penalty,
                             double *least);

/* One class: how to change dual variables within their bounds so that sum_i a_i = nu m. Those
 * between their bounds become inside a_i + lift (c_i - a_i). Those at c_i become full c_i. Those at
 * 0 become zero c_i before row `from`, part c_i there and 0 after it. Dual variables at a bound
 * move only where the others do not suffice. As few of those at 0 as possible move, so that few
 * rows have a_i > 0. If all are 0, all become nu c_i. */
typedef struct pegasos_nu_rescaling {
    int64_t from;
    double zero, part, inside, lift, full;
} pegasos_nu_rescaling;
pegasos_nu_rescaling pegasos_nu_rescaling_of(const pegasos_targets *targets, const double *a);

/* Writes dual variables within their bounds, and 0 where the label is 0. If `balance`, it scales
 * down those of the heavier sign of a_i y_i, so that sum_i a_i y_i = 0. For one class, see
 * pegasos_nu_rescaling. `feasible` may be `a`. */
void pegasos_make_feasible(const pegasos_targets *targets, int64_t balance, const double *a,
                           double *feasible);

/* D(a), given squared_norm = |w(a)|^2 with the constant feature, and mass = m. If `scaled`, the
 * best D among feasible multiples of `a`; but for the log loss and one class it is always D(a). */
double pegasos_best_dual(const pegasos_targets *targets, const double *a, double squared_norm,
                         double mass, double lam, int64_t scaled);

/* ---- Dual coordinate ascent ------------------------------------------------------------------ */

/* One problem. The caller sets the first block, pegasos_dual_start the second. The caller also sets
 * constant_weight and squared_norm, along with w = w(a). */
typedef struct pegasos_dual {
    /* settings */
    double scale;             /* s = 1/(lam m) */
    double intercept_scaling; /* value of the constant feature; 0: none */
    double intercept;         /* added to scores; fixed during an epoch */
    double factor;            /* in a bundle: w is factor times the stored vector */
    uint64_t generator;       /* SplitMix64 state; any number */
    /* state */
    int64_t n_active; /* rows that take part: active[0 .. n_active - 1] */
    int64_t position; /* rows visited in this epoch. At its end it is n_active, which no longer
                         counts rows that were left out */
    int64_t n_chosen; /* active[position .. n_chosen - 1] are visited next */
    int64_t n_kept;   /* active[0 .. n_kept - 1] were visited, and are not left out */
    int64_t n_moved;  /* dual variables that have changed in this epoch so far, */
    double moved;     /* and the sum of how far they moved the scores of their own rows */
    double mean_move; /* moved/n_moved of the last epoch; 0: there was none */
    double asleep;    /* sum of z_i a_i - c_i l*(a_i/c_i) over rows left out */
    double gap;       /* m (P - D), summed over this epoch so far, each row's part at its visit */
    double constant_weight; /* w(a)'s weight of the constant feature */
    double squared_norm;    /* |w(a)|^2, the constant feature included */
    double constant_sum;    /* the constant feature's component of the bundle's `sums` */
    double pegasos_mass;    /* m in a first epoch of Pegasos, see ascent.c; else 0. The caller sets
                               it after pegasos_dual_start, where a = 0; pegasos_dual_begin_epoch
                               makes it 0 */
    double weight_seen;     /* sum of the weights of the rows visited in that epoch */
} pegasos_dual;

/* The constant feature of a free intercept, from the mean of |x_i|^2 over the problem's rows. It is
 * as large as the rows: a much larger one would make steps too short. It has a lower limit, except
 * for one class (nu is not 0), which has no targets that give rows a scale. */
double pegasos_free_feature(double mean_norm, double nu);

/* Lets the rows active[0 .. n_active - 1] take part, in an epoch that begins now. */
void pegasos_dual_start(pegasos_dual *problem, int64_t n_active);

/* Begins the next epoch. How far scores moved in the last one decides which rows may sleep. */
void pegasos_dual_begin_epoch(pegasos_dual *problem);

/*
 * Visits up to `count` rows in random order, stops at the end of the epoch, and returns how many it
 * visited. A run that is cut anywhere continues with the same bits. `norms` (|x_i|^2, without the
 * constant feature) and `a` have n_rows numbers, `w` n_features. `active` is the caller's list of
 * row numbers, which is reordered. It must not have rows with label 0. `last_u`, NULL or n_rows
 * numbers, gets the u of each visited row.
 */
int64_t pegasos_dual_run(const pegasos_rows *rows, pegasos_dual *problem,
                         const pegasos_targets *targets, const double *norms, int64_t *active,
                         double *a, double *w, double *last_u, int64_t count);

/*
 * Makes epochs over `rows`, a part of a problem's rows, from the rows' dual variables; w = w(a)
 * sums over all rows. Returns a status. If stopped, a, w and the problem have changed: begin again
 * from copies. Rows with label 0 are skipped; `active` is scratch for n_rows numbers.
 */
int pegasos_dual_run_epochs(const pegasos_rows *rows, pegasos_dual *problem,
                            const pegasos_targets *targets, const double *norms, int64_t *active,
                            double *a, double *w, double *last_u, int64_t n_epochs,
                            pegasos_watch *watch);

/*
 * Joint epochs of dual ascent of several problems over the same rows, for searches by epochs. A
 * bundle's numbers are interleaved, and fill PEGASOS_BUNDLE_BYTES; unused lanes hold 0.
 */
typedef struct pegasos_bundle {
    int64_t n_problems;      /* 1 to B */
    int64_t last_epoch;      /* the bundle stops at its end */
    int64_t free_intercept;  /* 1: intercepts are not penalised, and move after every epoch */
    pegasos_dual *problems;  /* with a pegasos_mass if the first epoch is one of Pegasos */
    pegasos_targets targets; /* labels are n x B; values are shared */
    const double *norms;     /* n: |x_i|^2, without the constant feature */
    double *a;               /* n x B: dual variables */
    void *v;                 /* d x B of the rows' type: w(a)/factor, see pegasos_dual */
    void *sums;              /* (d + 1) x B of the rows' type: scratch */
    const int64_t *inside;   /* the rows that have a label in some problem, at least one */
    pegasos_order *order;    /* of draws from `inside`; it says where the bundle stands */
    int64_t *permutation;    /* of the order */
} pegasos_bundle;

/* Visits the rows draws[0 .. count - 1] for each problem. Rows with label 0 are skipped, and no row
 * is left out; `position`, `gap` and moves are not used. If before >= 0, `sums`, zero at first,
 * serve the mean of v over visits: after `before` visits, it is v - sums/(before + count). */
void pegasos_bundle_sweep(const pegasos_rows *rows, const pegasos_bundle *bundle, int64_t before,
                          int64_t count, const int64_t *draws);

/* Goes on until the last epoch ends or a stop; returns a status. At the end, `sums` are means over
 * the last half of the last epoch: of v, where w = factor v, and of w's constant weight. */
int64_t pegasos_bundle_run(const pegasos_rows *rows, const pegasos_bundle *bundle,
                           pegasos_watch *watch);

/* Changes each problem's lam from `before`, 0 at the start, to `lams`; `masses` are their m. */
void pegasos_bundle_change_lam(const pegasos_rows *rows, const pegasos_bundle *bundle,
                               const double *masses, const double *before, const double *lams);

/* ---- Kernel values (kernels.c) --------------------------------------------------------------- */

/* Built-in kernels: <x, z>; (gamma <x, z> + coef0)^degree, by squaring; tanh(gamma <x, z> + coef0);
 * exp(-gamma |x - z|^2); exp(-gamma |x - z|_1). */
enum {
    PEGASOS_LINEAR = 0,
    PEGASOS_POLYNOMIAL = 1,
    PEGASOS_SIGMOID = 2,
    PEGASOS_GAUSSIAN = 3,
    PEGASOS_LAPLACIAN = 4
};

typedef struct pegasos_kernel_function {
    int64_t kind;
    double gamma, coef0;
    int64_t degree; /* >= 0 */
} pegasos_kernel_function;

/* Some of the rows of points: consecutive rows from number `first`, or a list. */
typedef struct pegasos_subset {
    const struct pegasos_points *points;
    int64_t first, count;
    const int64_t *which; /* the list, with first = 0; NULL: the rows are consecutive */
} pegasos_subset;

/* Rows between which a kernel is evaluated. Both points of a pair have the same type, number of
 * features and kernel, and are both dense or both sparse. */
typedef struct pegasos_points {
    pegasos_rows rows;
    pegasos_kernel_function kernel;
    const void *norms;      /* n: |x|^2, in the rows' type, for PEGASOS_GAUSSIAN; else NULL */
    int64_t by_differences; /* 1: PEGASOS_GAUSSIAN computes |x - z|^2 from differences */
    int64_t by_panels;      /* 1: sparse rows that store many numbers, say 4 %. Products with them
                               spend their time on reaching the sums, not on multiplying */
    int64_t by_transpose;   /* 1: sparse rows that store few numbers: products with them use their
                               transpose, */
    pegasos_rows transpose; /* which is kept here, for all rows; n_rows is 0: it is not there */
    /* If not NULL: writes the values of any kernel, instead of the core. Not 0: it has failed. */
    int (*write)(const pegasos_subset *x, const pegasos_subset *z, int64_t stride, void *out);
    void *context; /* for `write` */
} pegasos_points;

/* What computes values. */
typedef struct pegasos_workers {
    const pegasos_blas *blas;       /* NULL: plain loops, with the same bits on every machine */
    const pegasos_threads *threads; /* NULL: only the calling thread; same bits */
    int64_t n_threads;
    void *scratch; /* pegasos_kernel_values_scratch_bytes, for these points */
    pegasos_watch *watch;
} pegasos_workers;

/* Transposes some CSR rows, unless `out` is their transpose already. `room` has
 * pegasos_transpose_bytes of the points. Returns the number of rows transposed: all, if none occurs
 * twice, else as many as there is room for. */
int64_t pegasos_transpose_bytes(const pegasos_rows *rows);
int64_t pegasos_transpose(const pegasos_subset *subset, void *room, pegasos_rows *out);

int64_t pegasos_kernel_values_scratch_bytes(const pegasos_points *x, const pegasos_points *z,
                                            int64_t n_threads);

/* The points between which values are computed: x for rows of `out`, z for its columns. */
typedef struct pegasos_source {
    const pegasos_points *x, *z;
    const pegasos_workers *workers;
    pegasos_rows transpose; /* in scratch, of the rows z used last; zeros at first */
} pegasos_source;

/* Writes K(x_i, z_j) to `out`; `source` is a pegasos_source. i runs over rows[0 .. count - 1]
 * (NULL: 0 .. count - 1), and j over m rows: the list `which`, or consecutive ones from `first` if
 * it is NULL. Rows of `out` are `stride` numbers apart. Not 0: stopped, or `write` of points
 * failed. */
int pegasos_kernel_values(void *source, int64_t count, const int64_t *rows, int64_t first,
                          int64_t m, const int64_t *which, int64_t stride, void *out);

/* The scratch of products by panels, in bytes for each feature. */
enum { PEGASOS_PANEL_BYTES = 4 * PEGASOS_BUNDLE_BYTES };

/* scores[j] += factor column[j] + constant, j < n. */
void pegasos_kernel_add(int64_t n, double factor, double constant, int64_t value_bytes,
                        const void *column, double *scores);

/* out[i][j] = columns[places[i]][which[j]], i < count, j < m: a block of the kernel matrix from
 * some of its columns. Rows of `out` with places[i] < 0 are left alone. */
void pegasos_kernel_gather(int64_t count, const int64_t *places, int64_t stride,
                           int64_t value_bytes, const void *columns, int64_t m,
                           const int64_t *which, int64_t out_stride, void *out);

/* ---- Columns of a kernel matrix (kernel_columns.c) ------------------------------------------- */

/* The column cache, and what computes values. */
typedef struct pegasos_columns {
    int64_t n_rows, value_bytes;
    int64_t n_columns;       /* that there is room for */
    void *columns;           /* the kept columns, n_rows numbers each */
    int64_t *column_of;      /* n_rows: number of each row's column, or -1; NULL: none is kept */
    int64_t *n_kept;         /* number of kept columns */
    int64_t is_all_at_once;  /* 1: the first request computes all columns, for which there is room,
                               and column_of[i] is i */
    int64_t is_symmetric;    /* 1: then half of the matrix is computed, and mirrored */
    int64_t needs_full_rows; /* 1: a row's values are computed with all rows at once */
    int64_t is_cheap;        /* 1: values that are added to scores are computed, not kept */
    /* Writes K(x_i, x_j), as pegasos_kernel_values does; `rows` are listed. It asks its watch. */
    int (*values)(void *context, int64_t count, const int64_t *rows, int64_t first, int64_t m,
                  const int64_t *which, int64_t stride, void *out);
    void *context;
    void *block;                    /* scratch: pegasos_columns_block numbers of value_bytes */
    const pegasos_workers *workers; /* here without blas and scratch */
} pegasos_columns;

int64_t pegasos_columns_block(int64_t n_rows);

/* These return 0, or not 0 if they were stopped. Then nothing has changed except which columns are
 * kept. The first keeps the columns rows[0 .. count - 1], as far as there is room. The second
 * writes values between `count` rows and the m rows `which`, in lines of m numbers that begin
 * `stride` numbers apart. The third, for several problems, writes
 * product[k][i] = sum_j change[k][j] K(x_j, x_i). */
int pegasos_columns_keep(pegasos_columns *columns, int64_t count, const int64_t *rows);
int pegasos_columns_values(pegasos_columns *columns, int64_t count, const int64_t *rows, int64_t m,
                           const int64_t *which, int64_t stride, void *out);
int pegasos_columns_multiply(pegasos_columns *columns, int64_t n_problems, const double *change,
                             double *product);

/* scores[k][i] += sum_r coef[k][which[r]] K(x_rows[r], x_i), r < count, for n_problems problems,
 * whose coefficients begin coef_stride numbers apart, and scores score_stride. Coefficients of zero
 * cost nothing. Without `which`, the coefficient is coef[k][r]. is_half (values are double and not
 * kept): the rows are the first ones, and the value of a pair of them serves both. */
int pegasos_columns_add(pegasos_columns *columns, int64_t count, const int64_t *rows,
                        int64_t n_problems, const double *coef, int64_t coef_stride,
                        const int64_t *which, int64_t is_half, int64_t score_stride,
                        double *scores);

/* scores[k][j] += sum_r coef[k][which[r]] K(x_rows[r], x_others[j]), j < m: adds to the scores of
 * some rows, m for each problem. `values` is scratch of pegasos_columns_block numbers. */
int pegasos_columns_score(pegasos_columns *columns, int64_t count, const int64_t *rows, int64_t m,
                          const int64_t *others, int64_t n_problems, const double *coef,
                          int64_t coef_stride, const int64_t *which, void *values, double *scores);

/* ---- A kernel problem (kernel.c) ------------------------------------------------------------- */

/* A factor, K = L L^T up to rounding, and memory for a fit to the rows of L. */
typedef struct pegasos_factor {
    pegasos_rows rows;      /* L, in double; n_features is 0 if the rank is too large for it */
    const double *norms;    /* n: squared norms of the rows of L */
    void *memory, *scratch; /* pegasos_state_bytes and pegasos_scratch_bytes */
} pegasos_factor;

/* The kernel matrix of a problem. */
typedef struct pegasos_matrix {
    pegasos_columns *columns; /* with column_of */
    int64_t is_positive;      /* 1: positive semi-definite, so that D is a bound; else relative gaps
                                 are |P - D|/P at the last point */
    int64_t is_narrow;        /* 1: values are float; where float does not suffice, the caller goes
                                 on with double */
    int64_t rank;             /* at most; n_rows if nothing is known */
    /* Provides a factor of the matrix, valid until the next call; not 0: stopped. NULL: none. */
    int (*factor)(void *context, pegasos_factor *factor);
    void *factor_context; /* for `factor` */
} pegasos_matrix;

/* The phase of a run. The head of kernel.c describes each phase and what follows it. */
enum {
    PEGASOS_KERNEL_BEGIN = 0,
    PEGASOS_KERNEL_SAMPLE = 1,
    PEGASOS_KERNEL_SPREAD = 2,
    PEGASOS_KERNEL_CHECK = 3,
    PEGASOS_KERNEL_CHOOSE = 4,
    PEGASOS_KERNEL_ROUND = 5
};

/* Where the run of one problem stands. The caller sets the first block. The second is 0 at first,
 * except for `phase` and for infinite primal and relative_gap. */
typedef struct pegasos_kernel {
    /* settings */
    double lam;  /* > 0 */
    double mass; /* m, > 0: the sum of the weights of the rows that are in the problem */
    double tol;  /* the relative gap to stop at; below 0: last_epoch alone ends the run */
    double constant_feature; /* value of the feature that carries the intercept; 0: none */
    int64_t free_intercept;  /* 1: the intercept is not penalised; see pegasos_ascent */
    int64_t n_inside;        /* rows whose label is not 0; at least 1 */
    int64_t last_epoch;      /* stop once n_epochs is this */
    uint64_t generator;      /* SplitMix64 state; any number to begin with */
    /* state */
    int64_t phase;               /* PEGASOS_KERNEL_BEGIN, ... */
    int64_t n_active;            /* rows of the round, in `active` */
    int64_t position;            /* steps made in the round, */
    int64_t most_steps;          /* and the most that it may make */
    double gap_to_reach;         /* the round ends when its rows' m (P - D) is this */
    double sample_mass;          /* the sum of weights in the sample */
    double largest_score_change; /* in the last round */
    double constant_weight;      /* w(a)'s weight of the constant feature */
    double reference;            /* of a free intercept */
    int64_t is_slow;             /* 1: the last round was solved, but has not halved the gap */
    int64_t in_double;           /* 1: slopes are double from now on */
    int64_t is_at_rounding; /* 1: steps can gain nothing but rounding errors; the caller makes it 0
                               for another run */
    int64_t n_seen;         /* visits since n_epochs was last increased */
    int64_t n_epochs;       /* visits of all rows */
    int64_t n_steps;        /* visits of single rows in an epoch of Pegasos */
    double primal;          /* objective of the best point so far */
    double intercept;       /* its intercept, penalised or not */
    double relative_gap;    /* at the last gap check */
} pegasos_kernel;

/* The arrays of the run, of n = n_rows numbers. All but `scratch` are its state. */
typedef struct pegasos_kernel_arrays {
    const pegasos_targets *targets;
    const double *norms; /* K(x_i, x_i), without the constant feature */
    double *a;           /* dual variables */
    double *scored;      /* the dual variables that `scores` belong to */
    double *scores;      /* sum_j s y_j scored_j K(x_j, x_i), without the intercept */
    double *slopes;      /* of the rows of the round; in steps on pairs, see kernel_body.h */
    double *coef;        /* s a_i y_i of the best point so far */
    int64_t *active;     /* rows of the round, ascending */
    void *scratch;       /* pegasos_kernel_scratch_bytes */
} pegasos_kernel_arrays;

int64_t pegasos_kernel_scratch_bytes(int64_t n_rows, int64_t value_bytes, int64_t n_columns);

/* Goes on with a run until it is done or stopped; returns a status. */
int pegasos_kernel_run(const pegasos_matrix *matrix, pegasos_kernel *problem,
                       const pegasos_kernel_arrays *arrays);

/* Begins a run at the dual variables `a`, made feasible; returns a status. Stops change nothing. */
int pegasos_kernel_begin(const pegasos_matrix *matrix, pegasos_kernel *problem,
                         const pegasos_kernel_arrays *arrays);

/* Lets a run go on with a gap check, after dual variables or lambda were changed. */
void pegasos_kernel_leave_round(pegasos_kernel *problem);

/* ---- Pegasos on kernel problems (kernel_pegasos.c) ------------------------------------------- */

/*
 * Runs every problem to its last step or to the end of the list. Returns a status.
 *
 * v = sum_j beta_j phi(x_j). The set is not bundled: its `weights` hold beta, and its `sums` the
 * sums of beta, both n_problems x n_rows doubles. `scores` and `unpushed` have the same shape.
 * `scores` are the scores of beta - unpushed. At the start, both are 0, or unpushed is beta.
 *
 * Draws are taken in blocks, which are transactions: a stop changes nothing, and they begin again.
 */
int pegasos_kernel_train(pegasos_columns *columns, const pegasos_linear_set *set, double *scores,
                         double *unpushed, const pegasos_draws *draws, void *scratch);

int64_t pegasos_kernel_train_scratch_bytes(const pegasos_columns *columns,
                                           const pegasos_linear_set *set);

/* ---- Certificates of kernel machines (kernel_certificate.c) ---------------------------------- */

/* Models of problems over the same rows. Coefficients and dual variables are n_problems x n_rows;
 * dual variables are made feasible first. */
typedef struct pegasos_kernel_models {
    int64_t n_problems;
    pegasos_targets targets;     /* labels and values are n_problems x n_rows */
    const double *epsilons;      /* n_problems: replace the loss's; NULL: all have that one */
    const double *lams, *masses; /* lambda and m of each problem */
    int64_t free_intercept;
    double intercept_scaling;
    const double *coef, *intercepts, *dual_variables;
} pegasos_kernel_models;

/* Where certificates get kernel values from, and how exact these values are. */
typedef struct pegasos_kernel_evidence {
    pegasos_columns *columns; /* its watch is asked in any case */
    const pegasos_rows *rows; /* for the linear kernel, whose scores come from w; else NULL */
    const double *norms;      /* n_rows: K(x_i, x_i) */
    /* n_rows: |K(x_i, .)| is at most sizes[i], and its error in double at most errors[i]. */
    const double *sizes, *errors;
    double ridge;        /* added to the diagonal, to make the kernel matrix positive */
    int64_t is_positive; /* 1: the matrix is positive semi-definite then */
    /* Not NULL if columns are float: the errors of float values. `in_double` then provides columns
     * in double, none of them kept: of the rows z, with values at the rows x; if n_x is 0, at the
     * rows z. Not 0: it has failed. */
    const double *float_errors;
    int (*in_double)(void *context, int64_t n_x, const int64_t *x, int64_t n_z, const int64_t *z,
                     pegasos_columns **columns);
    void *context;
    int64_t most_in_double; /* rows per request: >= 1 */
} pegasos_kernel_evidence;

/* A kernel machine's certificate. */
typedef struct pegasos_kernel_certificate {
    double objective;
    double dual_value;     /* the highest D of multiples of a; or D(a) */
    double dual_objective; /* dual_value less what rounding can add at most, in both objectives: no
                              model is below it. NaN if the matrix is not positive */
    int64_t is_refuted;    /* 1: |w|^2 is below 0, or dual_value above the objective, by more than
                              rounding explains: the matrix is not positive */
} pegasos_kernel_certificate;

int64_t pegasos_kernel_certificate_scratch_bytes(const pegasos_kernel_models *models,
                                                 const pegasos_kernel_evidence *evidence);

/* Writes the certificates of all problems, from recomputed scores; not 0: stopped. */
int pegasos_kernel_certify(const pegasos_kernel_models *models,
                           const pegasos_kernel_evidence *evidence, void *scratch,
                           pegasos_kernel_certificate *certificates);

/* ---- Newton's method (newton.c) -------------------------------------------------------------- */

/* Up to this number of unknowns (weights and intercept), Newton's equations are solved with a
 * matrix; beyond it, by conjugate gradients. */
enum { PEGASOS_NEWTON_MAX_UNKNOWNS = 2000 };

int64_t pegasos_newton_scratch_bytes(int64_t n_rows, int64_t n_features);

/* ---- Fits of several problems over the same rows (fit.c, solve.c) ---------------------------- */

/* What a fit does before it goes on. Memory of zeros means PEGASOS_BEGIN. A point is dual
 * variables, coef and intercept. Earlier versions wrote 2 and 6, too, with which a fit begins at
 * its point. */
enum {
    PEGASOS_BEGIN = 0,
    PEGASOS_GO_ON = 1,
    PEGASOS_BEGIN_AT_POINT = 3,
    PEGASOS_BEGIN_AGAIN = 4, /* at a point that is feasible */
    PEGASOS_GAP_CHECKED = 5, /* goes on; a pass over the rows has recomputed the gap, from the model
                                and the dual variables in memory, without running sums */
    PEGASOS_LAST_PENDING = 6
};

/* How many bytes a fit needs for its state, and for scratch, which one fit after the other may use.
 * Here and below, n_features is 0 for a kernel machine, which has n_rows coefficients. */
int64_t pegasos_state_bytes(int64_t n_rows, int64_t n_features);
int64_t pegasos_scratch_bytes(const pegasos_rows *rows);

/* Estimates the seconds that a solver takes to a gap of about 1e-3, from sizes alone. */
double pegasos_estimated_seconds(const pegasos_rows *rows, pegasos_loss loss, int64_t solver);

/* Whether Newton's method uses `blas` where it is given. */
int pegasos_newton_uses_blas(int64_t n_features);

/* Like pegasos_solve, for one of several problems over the same rows. `labels` are the problem's
 * labels, 0 for rows without weight, and `norms` has |x_i|^2 of all rows. `memory` has
 * pegasos_state_bytes, zeros at first, and says what is pending. If its lambda was another one, the
 * fit goes on from there, and counts epochs from 0. */
int pegasos_solve_one(const pegasos_problem *problem, const pegasos_options *options,
                      const int8_t *labels, const double *norms, void *memory, void *scratch);

/* Like pegasos_solve_one, for a kernel machine (kernel_fit.c). `norms` has all K(x_i, x_i), and
 * `scratch` has pegasos_kernel_scratch_bytes. If kernel values had another type, the fit goes on
 * from there. Another max_epochs begins another plan, with new budgets. */
int pegasos_kernel_solve_one(const pegasos_matrix *matrix, const pegasos_problem *problem,
                             const pegasos_options *options, const int8_t *labels,
                             const double *norms, void *memory, void *scratch);

/* Like pegasos_kernel_solve_one, for a problem on the n rows `inside`, in ascending order, with the
 * kernel matrix among them. `memory` is for n rows, and `scratch` has pegasos_kernel_part_bytes.
 * All columns must be kept, or be computed at once. A factor has only these rows. */
int pegasos_kernel_solve_part(const pegasos_matrix *matrix, const pegasos_problem *problem,
                              const pegasos_options *options, const int8_t *labels,
                              const double *norms, int64_t n, const int64_t *inside, void *memory,
                              void *scratch);

int64_t pegasos_kernel_part_bytes(int64_t n, int64_t value_bytes);

/* Begins fits of the squared error together: call it before pegasos_solve_one. Fits that have begun
 * are left as they are. `labels`, `memory` and the targets of the problems follow each other. */
int64_t pegasos_squares_scratch_bytes(const pegasos_rows *rows, int64_t n_problems);
int pegasos_solve_squares(int64_t n_problems, const pegasos_problem *problem,
                          const pegasos_options *options, const int8_t *labels, const double *norms,
                          void *memory, void *scratch);

/* Reads the solution from the memory of a fit. */
void pegasos_fit_solution(int64_t n_rows, int64_t n_features, void *memory,
                          pegasos_solution *solution);

/* The beginning of the memory of a fit. */
typedef struct pegasos_fit_header {
    int64_t n_rows, n_features; /* 0: it has not begun */
    int64_t value_bytes;        /* of the values that the fit was made on, 4 or 8; 0: none yet */
    int64_t pending;            /* what the fit does before it goes on: PEGASOS_BEGIN, ... */
} pegasos_fit_header;

pegasos_kernel_arrays pegasos_kernel_arrays_in(int64_t n_rows, void *memory);

/* Lets a fit begin at a point; a kernel machine's fit begins at the dual variables. With `before`,
 * the memory of a fit to the same rows in other features, a linear fit goes on with the counters
 * there; NULL: it counts from 0. */
void pegasos_set_point(int64_t n_rows, int64_t n_features, void *memory, const double *a,
                       const double *coef, double intercept, const void *before);

/* Whether memory from any source is that of a fit of this size, which can go on: a fit can reach
 * its sizes, counters and indices. If `with_numbers`, all other numbers are checked, too, and loss
 * and intercept must be those of `problem`. */
int pegasos_memory_is_valid(const pegasos_problem *problem, int64_t n_rows, int64_t n_features,
                            int64_t value_bytes, void *memory, int64_t with_numbers);

/* ---- All classes as one problem (joint.c) ---------------------------------------------------- */

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
    int64_t average_from; /* which restarts at this step; 0: there is none */
    uint64_t seed;        /* of the order of rows */
    const pegasos_blas *blas; /* of Newton's method; NULL: plain loops */
} pegasos_joint_options;

/* Where a fit stands; all zeros before it begins. Its arrays follow in memory, without pointers, so
 * copying the memory saves the fit. */
typedef struct pegasos_joint {
    int64_t n_rows, n_features, n_classes; /* of the memory; 0: not begun */
    int64_t n_inside;                      /* rows that are in the problem */
    int64_t n_epochs;    /* of dual ascent (visits by rows, at the end of a sweep) and Newton */
    int64_t n_visits;    /* of dual ascent, in sweeps that have ended; */
    int64_t n_sweeps;    /* sweeps since the last one over all rows */
    int64_t n_steps;     /* of Pegasos, one per row in the first epoch of dual ascent */
    int64_t n_active;    /* the rows that a sweep visits come first in `active`; */
    int64_t position;    /* how many of them the sweep has visited, */
    int64_t n_kept;      /* and how many of these the next sweep visits, too */
    int64_t next_draw;   /* of Pegasos */
    int64_t n_averaged;  /* iterates in the average */
    int64_t n_newton;    /* epochs of Newton's method */
    int64_t is_due;      /* 1: a gap check comes next */
    int64_t is_checked;  /* 1: coef, primal and dual belong to the present point */
    uint64_t generator;  /* of the order of visits */
    double mass;         /* m */
    double visited;      /* of dual ascent: sum of the weights visited so far, at last m */
    double gap;          /* sum over this sweep of each row's part of the gap at its visit; */
    double loss;         /* and of its loss */
    double whole;        /* the gap summed by the last sweep over all rows; */
    double ratio;        /* the gap at the last check, divided by `whole` */
    double q;            /* Pegasos: product of projection factors of v */
    double squared_norm; /* sum_k |v_k|^2, constant feature included */
    double rate_sum;     /* Pegasos: sum over averaged iterates of the factors of v */
    double width;        /* delta of Newton's method; 0: it has not begun */
    double primal, dual; /* P of the best model, a lower bound on P */
} pegasos_joint;

/* How many bytes a fit needs for its state and for scratch; memory is aligned to a cache line.
 * `coef` (K x n_features) and K intercepts follow the struct. */
int64_t pegasos_joint_state_bytes(int64_t n_rows, int64_t n_features, int64_t n_classes,
                                  int64_t averages);
int64_t pegasos_joint_scratch_bytes(const pegasos_joint_problem *problem,
                                    const pegasos_joint_options *options);

/* The number of unknowns of Newton's method, which takes up to PEGASOS_NEWTON_MAX_UNKNOWNS. */
int64_t pegasos_joint_unknowns(const pegasos_joint_problem *problem);

/* After this number of epochs of dual ascent, Newton's method may be faster, and then takes about
 * as long as these epochs did. 0: it does not take that number of unknowns. */
int64_t pegasos_joint_newton_after(const pegasos_joint_problem *problem);

/* The order of the n_inside rows in the memory of a fit, for dual ascent. */
const int64_t *pegasos_joint_active(int64_t n_rows, int64_t n_features, int64_t n_classes,
                                    const void *memory);

/* Begins a fit or goes on with it until it is done or stopped; returns a status. */
int pegasos_joint_run(const pegasos_joint_problem *problem, const pegasos_joint_options *options,
                      void *memory, void *scratch, pegasos_watch *watch);

#ifdef __cplusplus
}
#endif
#endif
