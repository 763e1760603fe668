/*
 * pegasos.h - support vector machines in C, with a proof of how good they are.
 *
 * A linear machine f(x) = <w, x> + b minimises
 *
 *     P(w, b) = lam/2 |w|^2 + 1/m sum_i c_i l(u_i),      m = sum_i c_i.
 *
 * Training also finds a bound D: no model has a P below it. For classification,
 * u_i = 1 - y_i f(x_i) with labels y_i, and l is the hinge, its square, the modified Huber loss or
 * the log loss. For regression, u_i = z_i - f(x_i) with targets z_i, and l is the
 * epsilon-insensitive loss, its square, the Huber loss or the squared error. A kernel machine has
 * phi(x) in place of x, and a kernel K(x, z) = <phi(x), phi(z)>.
 *
 * A program describes a problem, provides memory, and calls pegasos_solve:
 *
 *     pegasos_rows rows = {.n_rows = n, .n_features = d, .value_bytes = 8, .values = x};
 *     pegasos_problem problem = {.rows = &rows, .targets = y, .lam = 1e-4, .intercept_scaling = 1};
 *     pegasos_options options = {.tol = 1e-3, .max_epochs = 1000};
 *     pegasos_solution solution;
 *     int status = pegasos_check(&problem, &options);
 *     if (status == PEGASOS_DONE) {
 *         void *memory = malloc(pegasos_memory(&problem));
 *         status = pegasos_solve(&problem, &options, memory, &solution);
 *     }
 *     puts(pegasos_message(status));
 *
 * Fields of a struct that are left out are 0.
 *
 *   - Nothing is allocated, freed, kept or printed here, and there is no global state: calls on
 *     different memory may run at the same time.
 *   - Data are read where they lie. They must stay there, unchanged, during a call.
 *   - Pointers that are arguments must not be NULL. Fields may be NULL where their comments say so.
 *   - The same arguments give the same bits on every machine with IEEE arithmetic, if the compiler
 *     does not fuse products with sums (gcc: -ffp-contract=off). Each BLAS has its own bits.
 *
 * Nearly every fit begins with an epoch of Pegasos (Shalev-Shwartz, Singer, Srebro and Cotter,
 * Mathematical Programming B 127 (2011) 3-30). Then dual coordinate ascent or Newton's method
 * closes the gap (solve.c). Kernel machines use dual ascent by steps on pairs of rows (kernel.c).
 * core.h has the parts of the core, which may change.
 */
#ifndef PEGASOS_H
#define PEGASOS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) && defined(PEGASOS_BUILDS)
#define PEGASOS_API __declspec(dllexport)
#elif defined(_WIN32) && defined(PEGASOS_SHARED)
#define PEGASOS_API __declspec(dllimport)
#elif defined(__GNUC__)
#define PEGASOS_API __attribute__((visibility("default")))
#else
#define PEGASOS_API
#endif

/* ---- The problem ----------------------------------------------------------------------------- */

/* A matrix of n_rows x n_features numbers. */
typedef struct pegasos_rows {
    int64_t n_rows;       /* at least 1 */
    int64_t n_features;   /* at least 1 */
    int64_t value_bytes;  /* 4: float; 8: double */
    int64_t index_bytes;  /* 0: dense; CSR: 4 for int32_t indices, 8 for int64_t */
    int64_t indptr_bytes; /* CSR: 4 or 8; need not equal index_bytes */
    const void *values;   /* dense: row after row; CSR: the stored values; finite */
    const void *indices; /* CSR: column of each value, in [0, n_features); any order, repeats add */
    const void *indptr;  /* CSR: n_rows + 1 offsets into values, >= 0, never decreasing */
} pegasos_rows;

/* The kernel of a kernel machine: K(x_i, x_j) = <phi(x_i), phi(x_j)>. The n_rows x n_rows matrix of
 * its values must be positive semi-definite, or else D is not a bound. */
typedef struct pegasos_kernel_matrix {
    int64_t n_rows; /* at least 1 */
    /* How many columns memory has room for. If n_rows, all are kept. If fewer, values are computed
     * again when they are needed again. There is always room for 2048 x 2048 values. */
    int64_t n_columns;
    /* Writes out[j m + k] = K(x_r, x_s) with r = rows[j] and s = others[k], for j < count <= 64 and
     * k < m <= 256. Values must be finite, and never change. If it returns not 0, the fit stops. */
    int (*values)(void *context, int64_t count, const int64_t *rows, int64_t m,
                  const int64_t *others, double *out);
    void *context; /* passed to `values` */
} pegasos_kernel_matrix;

/* The loss l(u) of a row. The first four losses take labels y, with u = 1 - y f(x). The others take
 * targets z, with u = z - f(x). */
enum {
    PEGASOS_HINGE = 0,               /* max(0, u) */
    PEGASOS_SQUARED_HINGE = 1,       /* max(0, u)^2 */
    PEGASOS_MODIFIED_HUBER = 2,      /* max(0, u)^2 up to u = 2, and 4 u - 4 from there */
    PEGASOS_LOG_LOSS = 3,            /* log(1 + e^(u - 1)), the loss of logistic regression */
    PEGASOS_EPSILON_INSENSITIVE = 4, /* max(0, |u| - epsilon) */
    PEGASOS_SQUARED_EPSILON_INSENSITIVE = 5, /* max(0, |u| - epsilon)^2 */
    PEGASOS_HUBER = 6,         /* u^2/2 up to |u| = epsilon, epsilon |u| - epsilon^2/2 from there */
    PEGASOS_SQUARED_ERROR = 7, /* u^2/2 */
    PEGASOS_LOSSES = 8         /* the number of losses */
};

typedef struct pegasos_loss {
    int64_t kind;   /* PEGASOS_HINGE, ... */
    double epsilon; /* for losses that have one: >= 0, for PEGASOS_HUBER > 0; else 0 */
    /* Not 0: one class. P then has the term nu b, with 0 < nu <= 1. This takes PEGASOS_HINGE, a
     * free intercept b, targets of 1, and a lam of at least nu times the weighted mean of |x_i|^2,
     * so that P >= nu/2. Dual variables have sum_i a_i = nu m. */
    double nu;
} pegasos_loss;

typedef struct pegasos_problem {
    const pegasos_rows *rows;            /* for a linear machine */
    const pegasos_kernel_matrix *kernel; /* for a kernel machine, without rows; else NULL */
    const double *targets; /* n_rows: labels -1 and +1, or 0 for a row outside the problem; or
                              targets, finite */
    const double *weights; /* n_rows: c_i >= 0, where 0 leaves the row out; NULL: all one */
    double lam;            /* regularisation lambda > 0; it is 1/(C m) */
    pegasos_loss loss;
    int64_t free_intercept;   /* 1: the intercept is not penalised, and intercept_scaling is 0.
                                 0: intercept_scaling says which intercept there is */
    double intercept_scaling; /* b = intercept_scaling w_0, where w_0 is one more weight, penalised
                                 like the others. 0: b = 0, or b is free */
} pegasos_problem;

/* ---- How to solve it ------------------------------------------------------------------------- */

/* How far a fit was at the end of its last epoch. */
typedef struct pegasos_progress {
    int64_t n_epochs;    /* passes made over the rows */
    double objective;    /* P of the best model so far; before the first gap check, infinite or P of
                            w = 0 */
    double relative_gap; /* (P - D)/P at the last gap check; before the first, infinite or 1 */
} pegasos_progress;

/* The solver that closes the gap after Pegasos's epoch. PEGASOS_ASCENT is dual coordinate ascent,
 * for many features. PEGASOS_NEWTON is Newton's method, for few features, and for smooth losses of
 * many more rows than features. PEGASOS_AUTO takes the solver that is likely to be faster, and
 * changes to the other where it gets slow. */
enum { PEGASOS_AUTO = 0, PEGASOS_ASCENT = 1, PEGASOS_NEWTON = 2 };

/* Routines of BLAS and LAPACK, with Fortran's arguments, in double and in single precision. They
 * are called with triangles "U", products "N" and "T", and one right side. pegasos_solve does not
 * use gemm, which may be NULL. */
typedef struct pegasos_blas {
    void (*dsyrk)(char *, char *, int *, int *, double *, double *, int *, double *, double *,
                  int *);
    void (*ssyrk)(char *, char *, int *, int *, float *, float *, int *, float *, float *, int *);
    void (*dpotrf)(char *, int *, double *, int *, int *);
    void (*spotrf)(char *, int *, float *, int *, int *);
    void (*dpotrs)(char *, int *, int *, double *, int *, double *, int *, int *);
    void (*spotrs)(char *, int *, int *, float *, int *, float *, int *, int *);
    void (*dgemm)(char *, char *, int *, int *, int *, double *, double *, int *, double *, int *,
                  double *, double *, int *);
    void (*sgemm)(char *, char *, int *, int *, int *, float *, float *, int *, float *, int *,
                  float *, float *, int *);
} pegasos_blas;

/* Threads that a program lends to a fit. */
typedef struct pegasos_threads {
    /* Calls task(argument, k) once for each 0 <= k < n_tasks, on any threads, in any order or at
     * the same time. Returns when all calls have returned. */
    void (*run)(void *context, int64_t n_tasks, void (*task)(void *argument, int64_t k),
                void *argument);
    void *context; /* passed to `run` */
} pegasos_threads;

typedef struct pegasos_options {
    double tol;         /* relative gap (P - D)/P to stop at; below 0: only max_epochs counts */
    int64_t max_epochs; /* passes over the rows; a last iteration of Newton's method may add some */
    uint64_t seed;      /* for the order in which rows are visited */
    int64_t solver;     /* PEGASOS_AUTO, PEGASOS_ASCENT or PEGASOS_NEWTON; a kernel machine does not
                           take PEGASOS_NEWTON, and always uses dual ascent */
    const pegasos_blas *blas; /* for Newton's method; NULL: plain loops */
    /* These threads share the passes of Newton's method, with the same bits. Several of them may
     * call `blas` at the same time. NULL: only the calling thread works. */
    const pegasos_threads *threads;
    /* Called about every 10 ms; if it returns not 0, the fit stops. NULL: it is not called. */
    int (*poll)(void *context, const pegasos_progress *progress);
    void *context;     /* passed to `poll` */
    double poll_every; /* numbers to read between calls of `poll`; 0: as many as take about 10 ms */
    int64_t poll_epochs; /* 1: `poll` is also called at the end of every epoch; else 0 */
    int64_t resume;      /* 1: go on with the fit that is in `memory`; 0: begin a new fit */
} pegasos_options;

/* ---- Its solution ---------------------------------------------------------------------------- */

/* What a fit has found so far. Its arrays are in the memory of the fit. */
typedef struct pegasos_solution {
    const double *coef;           /* n_features: w of the best model so far; for a kernel
                                     machine n_rows, with w = sum_j coef[j] phi(x_j) */
    double intercept;             /* b of the best model so far */
    const double *dual_variables; /* n_rows: a_i, >= 0 if the loss takes labels. D belongs to a
                                     multiple of them. For a linear machine with a free intercept,
                                     those of the heavier sign of a_i y_i are scaled down first, so
                                     that sum_i a_i y_i = 0 (y_i = 1 for targets) */
    double objective;             /* P of the model. Before the first gap check it is infinite:
                                     there is no model yet, and coef means nothing */
    double dual_objective;        /* D: no model has a P below it */
    double relative_gap;          /* (P - D)/P */
    int64_t n_epochs;             /* passes over the rows */
    int64_t epochs[3];            /* passes by Pegasos, PEGASOS_ASCENT and PEGASOS_NEWTON */
    int64_t n_steps;              /* steps of Pegasos, also in a first epoch of dual ascent */
    int64_t first_solver;         /* the first solver; 0: none yet */
    int64_t solver;               /* the present solver */
} pegasos_solution;

/* What functions return. */
enum {
    /* relative_gap <= tol (with one class, P - D <= tol (nu - D)), or epochs are used up, or
     * nothing but rounding errors is left of the gap. */
    PEGASOS_DONE = 0,
    PEGASOS_STOPPED = 1,  /* by `poll` or by a kernel's `values`; can be resumed */
    PEGASOS_OVERFLOW = 2, /* an objective or a kernel value is not finite: scale the rows */
    /* What pegasos_check found wrong. */
    PEGASOS_BAD_SIZES = 3,
    PEGASOS_BAD_ROWS = 4,
    PEGASOS_BAD_TARGETS = 5,
    PEGASOS_BAD_WEIGHTS = 6,
    PEGASOS_BAD_LAM = 7,
    PEGASOS_BAD_LOSS = 8,
    PEGASOS_BAD_INTERCEPT = 9,
    PEGASOS_BAD_OPTIONS = 10,
    PEGASOS_BAD_KERNEL = 11
};

/* A sentence that says what a status means. */
PEGASOS_API const char *pegasos_message(int status);

/* Reads all data once. Returns PEGASOS_DONE if data and options are as described here, or else the
 * status that says what is wrong. pegasos_solve trusts its arguments. For a kernel, this computes
 * all K(x_i, x_i), and returns PEGASOS_STOPPED if `values` stops it. These are not checked: the
 * lengths of arrays (`values` and `indices` of CSR rows must have as many entries as the last
 * offset says); whether a kernel's matrix is positive semi-definite; how large lam must be if nu is
 * not 0; the functions of `blas` and `threads`; the memory of a fit that is resumed. */
PEGASOS_API int pegasos_check(const pegasos_problem *problem, const pegasos_options *options);

/* How many bytes of memory a fit needs. */
PEGASOS_API int64_t pegasos_memory(const pegasos_problem *problem);

/*
 * Fits until the gap is small enough, epochs are used up, or nothing but rounding errors is left.
 * Returns PEGASOS_DONE then, PEGASOS_STOPPED if `poll` stops it, or PEGASOS_OVERFLOW. `memory` must
 * be aligned for double, as malloc's is.
 *
 * To resume a fit, pass the same problem, seed and solver. Rows, targets, weights and kernel may
 * lie elsewhere then. So may the memory: it has no pointers, and can be copied, or saved to a file
 * and loaded on a machine with the same order of bytes. Wherever a fit was stopped, it ends with
 * the bits of an undisturbed one.
 */
PEGASOS_API int pegasos_solve(const pegasos_problem *problem, const pegasos_options *options,
                              void *memory, pegasos_solution *solution);

/* Writes f(x_i) of all rows. A row's score does not depend on the other rows. The score of a kernel
 * machine is intercept + sum_j coef[j] K(x_j, x), which the program sums itself. */
PEGASOS_API void pegasos_scores(const pegasos_rows *rows, const double *coef, double intercept,
                                double *scores);

#ifdef __cplusplus
}
#endif
#endif
