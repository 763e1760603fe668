/*
 * fit.h - the state of a fit, for its memory (fit.c), schedule (solve.c) and beginnings (begin.c).
 */
#ifndef PEGASOS_FIT_H
#define PEGASOS_FIT_H

#include "loss.h"
#include "passes.h"

/*
 * Where a run of dual ascent stands: epochs and gap checks, in addition to pegasos_dual. Estimates
 * are infinite at first, and the rest is 0.
 *
 * An intercept is b = b_0 + g v. Here v is the weight in w(a) of a constant feature g
 * (pegasos_dual's intercept_scaling), and b_0 a reference (its `intercept`) that moves after every
 * epoch. A free intercept needs sum_i a_i y_i = 0, which steps along single coordinates cannot
 * keep. So v penalises the distance of b from b_0, and moving b_0 to b removes that penalty (the
 * method of multipliers). A penalised intercept is the weight of the constant feature f. There,
 * g = f and b_0 = 0 would do, but if rows are short compared with f, all steps move b, and undo
 * each other. So g may be smaller, with b_0 = (1 - (g/f)^2) times the last b: v then penalises b
 * and its distance from the last b (the proximal point method). If g^2 is a tenth of mean |x_i|^2,
 * few epochs suffice.
 */
typedef struct pegasos_ascent {
    int64_t patience; /* visits: when an epoch ends with at least as many, the run gives up if it is
                            far from the optimum and most rows are active; 0: never */
    int64_t has_given_up; /* 1: patience has run out */
    int64_t n_visits;     /* rows visited */
    int64_t n_steps;      /* visits in an epoch of Pegasos */
    int64_t n_visits_at_check;
    int64_t n_snapshots;         /* of w in this epoch so far */
    double estimate;             /* of the relative gap, after the last epoch */
    double estimate_before;      /* after the epoch before that; 0 or infinite: there was none */
    double estimate_since_check; /* the largest since the last gap check, including the one then */
} pegasos_ascent;

/* Where Newton's method stands. A loss without smoothing has its own width, and the centre 0. */
typedef struct pegasos_newton {
    double constant_feature; /* value of the feature that carries the intercept; 0: none */
    double narrowest;        /* the least delta, > 0 */
    double widest;           /* the width may grow up to this; 0 once A has moved */
    double width;            /* delta, and the loss's own width, > 0 */
    double dual_objective;   /* the best so far */
    int64_t n_idle;          /* successive steps that could gain nothing, up to MOST_IDLE; also
                              MOST_IDLE if only the rounding of running sums hides the gap */
    int64_t was_idle;        /* 1: the last run was idle at its end, and it is run once more */
} pegasos_newton;

/* After this number of steps that could gain nothing, only rounding is left of the gap: where steps
 * are small, each one leaves about a hundredth of the gradient, or less. */
enum { MOST_IDLE = 3 };

/* Where a fit stands. Its arrays follow, without pointers, so copying the memory saves the fit. */
typedef struct state {
    int64_t n_rows, n_features, value_bytes, pending; /* as pegasos_fit_header has them */
    int64_t solver; /* PEGASOS_ASCENT or PEGASOS_NEWTON; or PEGASOS_AUTO: the epoch of Pegasos, or
                           nothing yet */
    int64_t first_solver;
    int64_t epochs[3];  /* epochs of each, by these numbers, before the present solver began */
    int64_t budget;     /* PEGASOS_AUTO: passes that the solver may make, as solve.c counts them; */
    int64_t budget_end; /* passes made at the end of the budget; */
    double gap_before;  /* the gap at its beginning */
    int64_t epochs_before_budgets; /* of all solvers, before the first of these budgets */
    pegasos_loss loss;
    double lam, mass;    /* lambda and m */
    int64_t n_inside;    /* rows that are in the problem */
    int64_t n_steps;     /* of Pegasos, in runs of dual ascent that have ended */
    double largest_norm; /* max_i c_i (|x_i|^2 + feature^2) */
    int64_t n_epochs;    /* of all solvers with this lambda */
    double primal;       /* the objective of the best model so far, */
    double intercept;    /* its intercept, penalised or not, */
    double relative_gap; /* and its gap, divided by `primal` */
    pegasos_linear pegasos;
    pegasos_dual dual;
    pegasos_ascent ascent;
    pegasos_newton newton;
} state;

/* Newton's method runs at most this number of times on a factor of a kernel matrix. */
enum { MOST_RUNS = 3 };

/* Where the fit of a kernel machine stands. Arrays of n_rows numbers follow: those of
 * pegasos_kernel_arrays from `a` to `active`. */
typedef struct kernel_state {
    int64_t n_rows, n_features, value_bytes; /* as above; a kernel machine has no features */
    int64_t pending; /* PEGASOS_BEGIN, PEGASOS_GO_ON or PEGASOS_BEGIN_AT_POINT */
    pegasos_loss loss;
    int64_t plan_end;      /* max_epochs of the present plan */
    int64_t budget_end;    /* n_epochs at the end of dual ascent's budget; 0: it has none yet */
    double gap_before;     /* the gap at the beginning of the budget */
    int64_t was_slow;      /* 1: the gap had not halved by the end of the last budget */
    int64_t n_runs;        /* of Newton's method in this plan */
    int64_t newton_epochs; /* of Newton's method */
    int64_t epochs_before_newton; /* of dual ascent, before the first run of Newton's method */
    int64_t has_no_factor;        /* 1: the kernel matrix has no factor of few columns */
    int64_t is_at_rounding;       /* 1: nothing but rounding errors is left of the gap */
    pegasos_kernel run;
} kernel_state;

/* A fit and where its parts lie. */
typedef struct fit {
    const pegasos_problem *problem;
    const pegasos_options *options;
    const pegasos_rows *rows;
    pegasos_targets targets;  /* labels are 0 for rows without weight */
    const double *norms;      /* |x_i|^2 */
    const pegasos_blas *blas; /* of Newton's method; NULL: plain loops */
    pegasos_watch watch;
    state *s;
    /* State: dual variables and the best model; then the arrays of dual ascent, which Pegasos uses
     * before; then those of Newton's method. */
    double *a, *coef;
    double *w, *sums; /* Pegasos: v and its sums, in the rows' type */
    int64_t *active;  /* Pegasos: counts */
    double *point, *scores, *centre;
    /* Scratch: 5 n numbers (Pegasos: a permutation), d, Newton's method's, and a sample's. */
    double *scratch, *sum;
    void *newton_scratch;
    char *sample; /* NULL: none is drawn */
} fit;

/* The label of row i, and the targets of all rows, given their labels. */
static INLINE int8_t label_of(const pegasos_problem *p, int64_t i)
{
    return (int8_t)(sample_weight(p->weights, i) <= 0 ? 0
                    : loss_has_labels(p->loss.kind)   ? p->targets[i]
                                                      : 1);
}

static INLINE pegasos_targets targets_of(const pegasos_problem *p, int64_t n, const int8_t *labels)
{
    return (pegasos_targets){n, labels, loss_has_labels(p->loss.kind) ? NULL : p->targets,
                             p->weights, p->loss};
}

static INLINE pegasos_progress progress_of_state(const state *s)
{
    return (pegasos_progress){s->n_epochs, s->primal, s->relative_gap};
}

/* sum = w(a); false: stopped. */
bool pegasos_fit_combine(fit *f, const double *a, double *sum);

/* scores_i = <w, x_i> + intercept; false: stopped. If `room` is not NULL, it has room for 4 n
 * numbers, and the intercept becomes the best one for w. */
bool pegasos_fit_score(fit *f, const double *w, double *room, double *intercept, double *scores);

/* Keeps a model if it is the best so far, and computes the gap from the best dual value. */
void pegasos_fit_keep_best(fit *f, const double *w, double intercept, double primal, double dual);

/* P of a model, given its sum of losses. */
static INLINE double fit_primal(const fit *f, const double *w, double intercept, double losses)
{
    const pegasos_problem *const p = f->problem;
    double norm = squared_norm_of(w, f->rows->n_features);
    if (!p->free_intercept && p->intercept_scaling > 0) {
        const double weight = intercept / p->intercept_scaling;
        norm += weight * weight;
    }
    return p->lam / 2 * norm + losses / f->s->mass + p->loss.nu * intercept;
}

/* P of a model, given its scores. Scores and penalised intercept must have the bits of the model's,
 * so that P is the P of its certificate. */
static INLINE double fit_objective(const fit *f, const double *w, double intercept,
                                   const double *scores)
{
    const double losses = pegasos_loss_sum(&f->targets, 0, f->rows->n_rows, scores, 1, 0);
    return fit_primal(f, w, intercept, losses);
}

static INLINE double newton_intercept(const fit *f)
{
    return f->s->newton.constant_feature * f->point[f->rows->n_features];
}

/* The part of tol for gaps of running sums, as the certificate's gap may be a little larger. */
static const double SAFELY = 0.99;

/* Whether the gap is small enough. Newton's method computes it from running sums. */
static INLINE bool is_close(const fit *f)
{
    const state *const s = f->s;
    const double tol = s->solver == PEGASOS_NEWTON ? SAFELY * f->options->tol : f->options->tol;
    return is_small_gap(f->problem->loss, s->relative_gap, s->primal, tol);
}

/* Whether Newton's method runs, and can gain nothing more with its running sums. A fit to a number
 * of epochs makes them all anyway. */
static INLINE bool is_idle(const fit *f)
{
    return f->options->tol >= 0 && f->s->solver == PEGASOS_NEWTON
           && f->s->newton.n_idle == MOST_IDLE;
}

/*
 * Solvers run until the gap is small, `last_epoch` epochs are made, or they are stopped; they
 * return a status. Dual ascent begins with all rows of the problem in `active`. It also ends with
 * the first epoch that reaches `last_visit` visits; 0: no limit. Newton's method also ends where it
 * is idle. Another run then begins at the best model, with recomputed sums. An iteration that was
 * stopped is begun again: until its end, it changes only the best points and their objectives.
 */
int pegasos_ascent_run(fit *f, int64_t last_visit, int64_t last_epoch);
int pegasos_newton_run(fit *f, int64_t last_epoch);

/* Whether there is an intercept and rows are far from 0, so that they are nearly equal to their
 * mean. Single rows then say little: an epoch of Pegasos or dual ascent would get nowhere. */
bool pegasos_newton_is_far(fit *f);

/* Makes Newton's point, whose scores are given, its best multiple, and writes P; false: stopped. */
bool pegasos_newton_scale(fit *f, double *primal);

pegasos_watch pegasos_watch_of(const pegasos_options *options);

/* The objective of the best model with w = 0; writes its intercept. */
double pegasos_constant_model(const pegasos_problem *problem, const pegasos_targets *targets,
                              double mass, double *intercept);

/* If w = 0 is as good as a model of this objective, up to rounding, takes it: writes its objective,
 * gap and intercept, and returns true. */
bool pegasos_take_zero(const pegasos_problem *problem, const pegasos_targets *targets,
                       int64_t n_inside, double mass, double *primal, double *relative_gap,
                       double *intercept);

/* The constant feature of dual ascent; norms are |x_i|^2. */
double pegasos_constant_feature(const pegasos_problem *problem, const pegasos_targets *targets,
                                const double *norms, int64_t n_inside);

/* pegasos_state_bytes and pegasos_fit_solution of a kernel machine (kernel_fit.c). */
int64_t pegasos_kernel_state_bytes(int64_t n_rows);
void pegasos_kernel_fit_solution(int64_t n_rows, void *memory, pegasos_solution *solution);

/* pegasos_memory and pegasos_solve of a kernel machine (kernel_callback.c). */
int64_t pegasos_kernel_memory(const pegasos_kernel_matrix *kernel);
int pegasos_kernel_solve(const pegasos_problem *problem, const pegasos_options *options,
                         void *memory, pegasos_solution *solution);

/* A fit in some memory; `scratch` is as for pegasos_solve_one, or NULL where it is not needed. */
fit pegasos_fit_of(const pegasos_problem *problem, const pegasos_options *options,
                   const int8_t *labels, const double *norms, void *memory, void *scratch);

/* The solver that a fit begins with. */
int64_t pegasos_fit_first_solver(fit *f);

/* A whole fit; returns a status. */
int pegasos_fit_run(fit *f);

/* The parts of pegasos_scratch_bytes: for a fit, and for a sample. */
int64_t pegasos_fit_scratch_bytes(int64_t n_rows, int64_t n_features);
int64_t pegasos_sample_scratch_bytes(const pegasos_rows *rows);

/* Finds a model on a sample of the rows, where Newton's method begins (sample.c). Does nothing
 * where that would not save time. */
typedef enum sampled { NO_SAMPLE, SAMPLED, STOPPED } sampled;
sampled pegasos_fit_sample(fit *f);

/* Begins the fit; an epoch of Pegasos comes next. */
void pegasos_fit_begin(fit *f);

/* The other functions of begin.c. Those that return a bool are transactions; false: stopped. */
bool pegasos_fit_begin_ascent(fit *f, bool is_zero);
bool pegasos_fit_begin_newton(fit *f);
/* Lets Newton's method begin at the model, whose scores are given; this is no transaction. */
void pegasos_fit_set_newton(fit *f, double intercept);
/* An epoch of Pegasos, which is visits, and then Newton's method. */
bool pegasos_fit_first_epoch(fit *f);
/* Begins with `solver` at the dual point and the model in memory. */
bool pegasos_fit_begin_at_point(fit *f, int64_t solver);
void pegasos_fit_change_lam(fit *f);

#endif
