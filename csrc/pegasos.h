/*
 * pegasos.h - support vector machines with a proof of how good they are, from C.
 *
 * Trains a linear machine f(x) = <w, x> + b, the minimum of
 *
 *     P(w, b) = lam/2 |w|^2 + 1/m sum_i c_i l(u_i),      m = sum_i c_i,
 *
 * and finds a bound D below which no P is. For classification, u_i = 1 - y_i f(x_i) with labels
 * y_i, and l is the hinge, its square, the modified Huber loss or the log loss. For regression,
 * u_i = z_i - f(x_i) with targets z_i, and l is the epsilon-insensitive loss, its square, the Huber
 * loss or the squared error (PEGASOS_HINGE, ...). A kernel machine has phi(x) in place of x, and a
 * kernel K(x, z) = <phi(x), phi(z)>. A program describes a problem, brings memory, and calls
 * pegasos_solve:
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
 *   - Arguments of functions that are pointers must not be NULL; fields may be where they say so.
 *   - The same arguments give the same bits on every machine with IEEE arithmetic, if compilers do
 *     not fuse products with sums (gcc: -ffp-contract=off). A BLAS has bits of its own.
 *
 * The method is Pegasos (Shalev-Shwartz, Singer, Srebro and Cotter, Mathematical Programming B 127
 * (2011) 3-30), which begins nearly every fit, and what goes on from there to the gap that is asked
 * for: dual coordinate ascent or Newton's method (solve.c); of kernel machines, dual ascent by
 * steps on pairs of rows (kernel.c). core.h has the parts of the core, which may change.
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

/* n_rows x n_features numbers. */
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
 * its values must be positive semi-definite: else D is not a bound. */
typedef struct pegasos_kernel_matrix {
    int64_t n_rows; /* at least 1 */
    /* Columns that memory has room for. n_rows: they are kept. Fewer: values are computed again
     * where they are needed again. Room for 2048 x 2048 values is there in any case. */
    int64_t n_columns;
    /* Writes out[j m + k] = K(x_r, x_s) with r = rows[j] and s = others[k], for j < count <= 64 and
     * k < m <= 256. Values are finite, and those of a pair never change. Not 0: the fit stops. */
    int (*values)(void *context, int64_t count, const int64_t *rows, int64_t m,
                  const int64_t *others, double *out);
    void *context; /* what `values` is given */
} pegasos_kernel_matrix;

/* What a row costs. The first four take labels y, and are functions of u = 1 - y f(x): max(0, u);
 * its square; the square up to u = 2, and 4 u - 4 from there; log(1 + e^(u - 1)), as logistic
 * regression has it. The others take targets z, and are functions of u = z - f(x):
 * max(0, |u| - epsilon); its square; u^2/2 up to |u| = epsilon, and epsilon |u| - epsilon^2/2 from
 * there; u^2/2. */
enum {
    PEGASOS_HINGE = 0,
    PEGASOS_SQUARED_HINGE = 1,
    PEGASOS_MODIFIED_HUBER = 2,
    PEGASOS_LOG_LOSS = 3,
    PEGASOS_EPSILON_INSENSITIVE = 4,
    PEGASOS_SQUARED_EPSILON_INSENSITIVE = 5,
    PEGASOS_HUBER = 6,
    PEGASOS_SQUARED_ERROR = 7,
    PEGASOS_LOSSES = 8 /* how many there are */
};

typedef struct pegasos_loss {
    int64_t kind;   /* PEGASOS_HINGE, ... */
    double epsilon; /* of losses that have one: >= 0, of PEGASOS_HUBER > 0; else 0 */
    /* Not 0: one class. P has nu b more, 0 < nu <= 1, with PEGASOS_HINGE, a free intercept b,
     * targets of 1 and lam >= nu times the mean of c_i |x_i|^2, so that nu/2 <= P. Then sum_i a_i =
     * nu m. */
    double nu;
} pegasos_loss;

typedef struct pegasos_problem {
    const pegasos_rows *rows;            /* of a linear machine */
    const pegasos_kernel_matrix *kernel; /* of a kernel machine, without rows; else NULL */
    const double *targets; /* n_rows: labels -1 and +1, 0: the row is not in the problem; or
                                 targets, finite */
    const double *weights; /* n_rows: c_i >= 0, where 0 leaves the row out; NULL: all one */
    double lam;            /* regularisation lambda > 0; it is 1/(C m) */
    pegasos_loss loss;
    int64_t free_intercept;   /* 1: an intercept that is not penalised; intercept_scaling is 0 then.
                                 0: intercept_scaling says which intercept there is */
    double intercept_scaling; /* b = intercept_scaling w_0, where w_0 is one more weight, and
                                 penalised like the others; 0: b = 0, or a free one */
} pegasos_problem;

/* ---- How to solve it ------------------------------------------------------------------------- */

/* How far a fit was at the end of its last epoch. */
typedef struct pegasos_progress {
    int64_t n_epochs;    /* passes over the rows that are done */
    double objective;    /* of the best model so far; infinite before the first gap check, or that
                            of w = 0 */
    double relative_gap; /* (P - D)/P at the last gap check; infinite before the first, or 1 */
} pegasos_progress;

/* What brings a problem to its gap after Pegasos's epoch: the solver that is likely to be faster,
 * and the other one where that gets slow; dual coordinate ascent, for many features; Newton's
 * method, for few, and for smooth losses of many more rows. */
enum { PEGASOS_AUTO = 0, PEGASOS_ASCENT = 1, PEGASOS_NEWTON = 2 };

/* Routines of BLAS and LAPACK, as Fortran has them, in double and in single precision: triangles
 * "U", products "N" and "T", one right side. pegasos_solve needs no gemm, which may be NULL. */
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

/* Threads that a program has for a fit. */
typedef struct pegasos_threads {
    /* Calls task(argument, k) for all 0 <= k < n_tasks, each once, at the same time or in any
     * order, on any threads; returns once all calls have. */
    void (*run)(void *context, int64_t n_tasks, void (*task)(void *argument, int64_t k),
                void *argument);
    void *context; /* what `run` is given */
} pegasos_threads;

typedef struct pegasos_options {
    double tol;         /* relative gap (P - D)/P to stop at; below 0: max_epochs alone counts */
    int64_t max_epochs; /* passes over the rows; a last iteration of Newton's method may add some */
    uint64_t seed;      /* of the order in which rows are visited */
    int64_t solver;     /* PEGASOS_AUTO, PEGASOS_ASCENT or PEGASOS_NEWTON; a kernel machine has
                           dual ascent alone, and does not take PEGASOS_NEWTON */
    const pegasos_blas *blas; /* of Newton's method; NULL: plain loops */
    /* Share the passes of Newton's method, with the same bits; NULL: the calling thread makes them.
     * A BLAS must let several threads call it. */
    const pegasos_threads *threads;
    /* Is called about every 10 ms; not 0: the fit stops. NULL: it is not called. */
    int (*poll)(void *context, const pegasos_progress *progress);
    void *context;       /* what poll is given */
    double poll_every;   /* numbers to be read from one call of poll to the next; 0: about 10 ms' */
    int64_t poll_epochs; /* 1: it is called at the end of every epoch, too; else 0 */
    int64_t resume;      /* 1: go on with the fit that is in `memory`; 0: begin anew */
} pegasos_options;

/* ---- Its solution ---------------------------------------------------------------------------- */

/* What a fit has found so far. What it points to is in the memory of the fit. */
typedef struct pegasos_solution {
    const double *coef;           /* n_features: w of the best model so far; of a kernel
                                     machine n_rows, with w = sum_j coef[j] phi(x_j) */
    double intercept;             /* and its b */
    const double *dual_variables; /* n_rows: a_i, >= 0 where the loss takes labels. D is that of
                                     a multiple of them; of a linear machine with a free intercept,
                                     those of the heavier sign of a_i y_i are scaled down first,
                                     so that sum_i a_i y_i = 0 (y_i = 1 for targets) */
    double objective;             /* P of the model; infinite before the first gap check: there
                                     is no model then, and coef means nothing */
    double dual_objective;        /* D: no model is below it */
    double relative_gap;          /* (P - D)/P */
    int64_t n_epochs;             /* passes over the rows, */
    int64_t epochs[3];            /* of them by Pegasos, PEGASOS_ASCENT and PEGASOS_NEWTON */
    int64_t n_steps;      /* of Pegasos; a first epoch of dual ascent is one of Pegasos, too */
    int64_t first_solver; /* the solver that came first; 0: none yet */
    int64_t solver;       /* the solver at work */
} pegasos_solution;

/* What functions return. */
enum {
    /* The gap is small enough, or epochs are used up, or nothing but rounding errors is left of the
     * gap. It is small enough if relative_gap <= tol. */
    PEGASOS_DONE = 0,
    PEGASOS_STOPPED = 1,  /* by poll, or by a kernel's `values`; to be resumed */
    PEGASOS_OVERFLOW = 2, /* an objective, or a kernel value, is not finite: scale the rows */
    /* Of pegasos_check: what is wrong. */
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

/* Reads all data once, and returns PEGASOS_DONE if they and the options are as described here, or
 * else what is not. pegasos_solve trusts its arguments. A kernel is asked for all K(x_i, x_i).
 * Not checked are: the lengths of arrays (of CSR rows, `values` and `indices` must have as many
 * entries as the last offset says); whether a kernel's matrix is positive semi-definite; how large
 * lam must be where nu is not 0; the functions of `blas` and `threads`; the memory of a fit that is
 * to be resumed. */
PEGASOS_API int pegasos_check(const pegasos_problem *problem, const pegasos_options *options);

/* How many bytes of memory a fit takes. */
PEGASOS_API int64_t pegasos_memory(const pegasos_problem *problem);

/*
 * Fits until the gap is small enough, epochs are used up, or nothing but rounding errors is left:
 * PEGASOS_DONE; until poll stops it: PEGASOS_STOPPED; or PEGASOS_OVERFLOW. `memory` is aligned for
 * double, as that of malloc is.
 *
 * A fit that was stopped is resumed with the same problem, seed and solver. Rows, targets,
 * weights and kernel may lie elsewhere then, and so may the memory: it has no pointers, and can be
 * copied, or saved to a file and loaded on a machine with the same order of bytes. Wherever a fit
 * was stopped, it ends with the bits of one that was not.
 */
PEGASOS_API int pegasos_solve(const pegasos_problem *problem, const pegasos_options *options,
                              void *memory, pegasos_solution *solution);

/* Writes f(x_i) of all rows. A row's score does not depend on the other rows. A kernel machine's
 * score is intercept + sum_j coef[j] K(x_j, x), which the program adds up. */
PEGASOS_API void pegasos_scores(const pegasos_rows *rows, const double *coef, double intercept,
                                double *scores);

#ifdef __cplusplus
}
#endif
#endif
