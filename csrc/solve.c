/*
 * solve.c - a whole fit of one linear problem: from rows and labels to a certified model.
 *
 * The schedule. Every fit begins with an epoch of Pegasos. Then a solver brings the problem to the
 * gap that is asked for: dual coordinate ascent (ascent.c), whose first epoch is one of Pegasos,
 * with steps of exact length; or Newton's method (newton.c), after an epoch of Pegasos as the paper
 * has it and from the mean of its last half. PEGASOS_AUTO takes the one that is likely to be
 * cheaper, lets it work for a budget of epochs, and changes to the other one, with a larger budget,
 * if the gap has not halved by then.
 *
 *     begin -> [epoch of Pegasos] -> solver --(gap)--> end
 *                                      ^  |
 *                                      +--+ change
 *
 * What is kept from one solver to the next is a dual point and the best model so far. A change is a
 * transaction: the solver that begins has arrays of its own, and is at work once they are complete.
 */
#include "loss.h"
#include "rows.h"
#include "watch.h"

#include <math.h>
#include <string.h>

/* About 10 ms of work. */
static const double NUMBERS_PER_POLL = 5e6;
/* What a call for a row costs, in numbers read; rows are read in pieces of so many. */
enum { NUMBERS_PER_CALL = 25, ROWS_PER_PIECE = 256 };
/* Epochs that PEGASOS_AUTO lets a solver work for before it asks whether the gap has halved; a gap
 * check takes as long as dozens of epochs over few active rows. */
enum { BUDGET = 128 };
/* Dual ascent may give up after so many epochs where it gets nowhere, and Newton's method is likely
 * to take at most so many times as long. */
enum { PATIENCE = 5, MOST_DEARER = 4 };
/* Newton's method: the width over which the hinge is smoothed at first; from how many features on
 * BLAS is worth its while. */
static const double FIRST_WIDTH = 0.25;
enum { FEW_FEATURES = 50 };
/* A free intercept is found by a constant feature of this size at least (see pegasos_ascent). */
static const double LEAST_FEATURE = 1e-3;

/* Where a fit stands. The arrays that belong to it follow in memory, and then those that are
 * scratch. There are no pointers among them: copying the memory is saving the fit. */
typedef struct state {
    int64_t n_rows, n_features, value_bytes; /* of the memory */
    int64_t solver;                          /* at work: PEGASOS_ASCENT, ...; or PEGASOS_AUTO: the
                                                epoch of Pegasos */
    int64_t budget;                          /* epochs of PEGASOS_AUTO that a solver works for; */
    int64_t budget_end;                      /* n_epochs at its end; */
    double gap_before;                       /* the gap at its beginning */
    double mass;                             /* m */
    int64_t n_inside;                        /* rows that are in the problem */
    double longest;                          /* max_i c_i (|x_i|^2 + feature^2) */
    pegasos_linear pegasos;
    pegasos_order order;
    pegasos_dual dual;
    pegasos_ascent ascent;
    pegasos_newton newton;
} state;

/* A fit and where its parts lie. */
typedef struct fit {
    const pegasos_problem *problem;
    const pegasos_options *options;
    const pegasos_rows *rows;
    pegasos_watch watch;
    state *s;
    /* Kept: dual variables and the best model; arrays of dual ascent, in whose place those of
     * Pegasos are; of Newton's method. */
    double *a, *coef;
    double *w, *sums; /* Pegasos: v and its sums, of the rows' type */
    int64_t *active;  /* Pegasos: counts */
    double *point, *scores, *centre;
    /* Scratch. Pegasos: a permutation. Norms are computed once and kept, too. */
    double *norms, *room, *sum;
    void *work;
    int8_t *labels; /* y_i, 0 for rows without weight */
} fit;

enum { KEPT_OF_ROWS = 5, SCRATCH_OF_ROWS = 5, OF_FEATURES = 5, ODD = 2 };

int64_t pegasos_memory(const pegasos_problem *problem)
{
    const int64_t n = problem->rows->n_rows, d = problem->rows->n_features;
    return (int64_t)sizeof(state)
           + 8 * ((KEPT_OF_ROWS + SCRATCH_OF_ROWS) * n + OF_FEATURES * d + ODD)
           + pegasos_newton_work(n, d) + n;
}

static void lay_out(fit *f, void *memory)
{
    const int64_t n = f->rows->n_rows, d = f->rows->n_features;
    f->s = memory;
    f->a = (double *)(f->s + 1);
    f->norms = f->a + n;
    f->scores = f->norms + n;
    f->centre = f->scores + n;
    f->active = (int64_t *)(f->centre + n);
    f->coef = (double *)(f->active + n);
    f->w = f->coef + d;
    f->sums = f->w + d;
    f->point = f->sums + d + 1;
    f->sum = f->point + d + 1;
    f->room = f->sum + d; /* 5 n */
    f->work = f->room + 5 * n;
    f->labels = (int8_t *)f->work + pegasos_newton_work(n, d);
}

static double weight(const fit *f, int64_t i)
{
    return f->labels[i] == 0 ? 0 : f->problem->weights ? f->problem->weights[i] : 1;
}

static double numbers_of(const fit *f, int64_t count)
{
    const double each = stored_numbers(f->rows) / (double)f->rows->n_rows;
    return (double)count * (each + NUMBERS_PER_CALL);
}

static pegasos_progress progress_of(const fit *f)
{
    const state *s = f->s;
    return s->solver == PEGASOS_NEWTON
               ? (pegasos_progress){s->newton.n_epochs, s->newton.primal, s->newton.relative_gap}
               : (pegasos_progress){s->ascent.n_epochs, s->ascent.primal, s->ascent.relative_gap};
}

static bool is_stopped(fit *f, double numbers)
{
    const pegasos_progress progress = progress_of(f);
    return is_to_stop(&f->watch, numbers, &progress);
}

/* ---- Passes over the rows; false: stopped ---------------------------------------------------- */

static int64_t rows_of_piece(const fit *f, int64_t first)
{
    const int64_t left = f->rows->n_rows - first;
    return left < ROWS_PER_PIECE ? left : ROWS_PER_PIECE;
}

/* Writes |x_i|^2. */
static bool measure(fit *f)
{
    memset(f->sum, 0, (size_t)f->rows->n_features * sizeof(double)); /* scratch */
    for (int64_t first = 0, count; first < f->rows->n_rows; first += count) {
        count = rows_of_piece(f, first);
        pegasos_linear_norms(f->rows, first, count, f->sum, f->norms + first);
        if (is_stopped(f, numbers_of(f, count)))
            return false;
    }
    return true;
}

/* out = 1/(lam m) sum_i a_i y_i x_i; returns sum_i a_i y_i/(lam m) as `total`. */
static bool combine(fit *f, const double *a, double *out, double *total)
{
    const double scale = 1 / (f->problem->lam * f->s->mass);
    double factors[ROWS_PER_PIECE];
    memset(out, 0, (size_t)f->rows->n_features * sizeof(double));
    *total = 0;
    for (int64_t first = 0, count; first < f->rows->n_rows; first += count) {
        count = rows_of_piece(f, first);
        for (int64_t i = 0; i < count; i++) {
            factors[i] = scale * a[first + i] * f->labels[first + i];
            *total += factors[i];
        }
        pegasos_linear_combine(f->rows, first, count, factors, out);
        if (is_stopped(f, numbers_of(f, count)))
            return false;
    }
    return true;
}

static bool score(fit *f, const double *w, double intercept, double *scores)
{
    for (int64_t first = 0, count; first < f->rows->n_rows; first += count) {
        count = rows_of_piece(f, first);
        pegasos_linear_scores(f->rows, first, count, 1, w, 8, 0, &intercept, scores + first);
        if (is_stopped(f, numbers_of(f, count)))
            return false;
    }
    return true;
}

/* ---- An epoch of Pegasos --------------------------------------------------------------------- */

static void begin_pegasos(fit *f)
{
    state *s = f->s;
    const double factor = (double)s->n_inside / s->mass;
    s->pegasos = (pegasos_linear){
        .lam = f->problem->lam,
        .weight_factor = factor,
        .intercept_scaling = f->problem->intercept_scaling,
        .free_intercept = f->problem->free_intercept,
        .average_from = s->n_inside / 2 + 1,
        .last_step = s->n_inside,
        .loss = f->problem->loss,
    };
    if (loss_is_smooth(f->problem->loss))
        s->pegasos.delay = (int64_t)fmin(ceil(2 * factor * s->longest / f->problem->lam), 1e15);
    pegasos_linear_start(&s->pegasos);
}

/* Steps on all rows once; the permutation is drawn again where an epoch goes on. */
static bool run_pegasos(fit *f)
{
    pegasos_linear *p = &f->s->pegasos;
    double *const counts = (double *)f->active, slope = 1;
    int64_t *const permutation = (int64_t *)f->room, pending = 0, draws[ROWS_PER_PIECE];
    const pegasos_linear_set set = {
        .n_problems = 1,
        .batch_size = 1,
        .problems = p,
        .labels = f->labels,
        .row_weights = f->problem->weights,
        .weights = f->w,
        .sums = f->sums,
        .counts = counts,
        .pending = &pending,
        .slopes = &slope,
    };
    pegasos_order_seek(&f->s->order, f->options->seed, f->rows->n_rows, PEGASOS_PERMUTATION,
                       p->next_draw, permutation);
    while (p->n_steps < p->last_step) {
        const int64_t first = p->next_draw, count = rows_of_piece(f, first);
        pegasos_order_draw(&f->s->order, permutation, count, draws);
        pegasos_linear_run(f->rows, &set, first, count, draws);
        if (is_stopped(f, 2 * numbers_of(f, count)))
            return false;
    }
    return true;
}

/* The dual point and the model that Pegasos leaves: w(a) = w for a_i = c_i alpha_i n/(T + t0), and
 * the mean of the last half. */
static void take_pegasos(fit *f, double *intercept)
{
    const pegasos_linear *p = &f->s->pegasos;
    const double *const counts = (double *)f->active;
    const double each = (double)f->s->n_inside / (double)(p->n_steps + p->delay);
    for (int64_t i = 0; i < f->rows->n_rows; i++)
        f->a[i] = weight(f, i) * counts[i] * each;
    pegasos_make_feasible(p->loss, f->rows->n_rows, f->labels, f->problem->weights,
                          p->free_intercept, f->a, f->a);
    pegasos_linear_model(p, f->rows->n_features, f->rows->value_bytes, f->w, f->sums, f->coef,
                         intercept);
}

/* ---- Which solver ---------------------------------------------------------------------------- */

/* Seconds that solvers are likely to take to a gap of about 1e-3, from sizes alone. */
static double seconds_a_pass(const fit *f)
{
    return stored_numbers(f->rows) * (f->rows->index_bytes == 0 ? 0.4e-9 : 1.5e-9);
}

/* About 15 epochs where features are many, four times as many where rows are. Their additions to w
 * cost as much as another pass. */
static double cost_of_ascent(const fit *f)
{
    return 2 * (f->rows->n_rows < 2 * f->rows->n_features ? 15 : 60) * seconds_a_pass(f);
}

/* Ten iterations of four passes, and a product over the rows in the band, a tenth of all. */
static double cost_of_newton(const fit *f)
{
    const double n = (double)f->rows->n_rows, d = (double)f->rows->n_features;
    if (d >= PEGASOS_NEWTON_MOST)
        return INFINITY;
    return 10 * (4 * seconds_a_pass(f) + 0.2 * n * d * d / 1e11 + d * d * d / 3e10);
}

static int64_t first_solver(const fit *f)
{
    if (f->options->solver != PEGASOS_AUTO)
        return f->options->solver;
    return cost_of_newton(f) < cost_of_ascent(f) ? PEGASOS_NEWTON : PEGASOS_ASCENT;
}

/* ---- Solvers begin --------------------------------------------------------------------------- */

/* The constant feature. That of a free intercept is as large as the problem's rows: beside a much
 * larger one, steps would be too short. */
static double constant_feature(const fit *f)
{
    double mean = 0;
    if (!f->problem->free_intercept)
        return f->problem->intercept_scaling;
    for (int64_t i = 0; i < f->rows->n_rows; i++)
        mean += f->labels[i] != 0 ? f->norms[i] / (double)f->s->n_inside : 0;
    return fmax(sqrt(mean), LEAST_FEATURE);
}

/* Lets dual ascent begin at `a`: at w(a), or with an epoch of Pegasos where a = 0. */
static bool begin_ascent(fit *f, bool is_zero)
{
    state *s = f->s;
    const int64_t n = f->rows->n_rows, d = f->rows->n_features;
    const double feature = constant_feature(f);
    double total = 0, intercept = 0, norm = 0;
    if (is_zero)
        memset(f->w, 0, (size_t)d * sizeof(double));
    else if (!combine(f, f->a, f->w, &total))
        return false;
    if (!is_zero && f->problem->free_intercept) {
        if (!score(f, f->w, 0, f->room))
            return false;
        intercept = pegasos_best_intercept(f->problem->loss, n, f->labels, f->problem->weights,
                                           f->room, f->room + n);
    }
    for (int64_t j = 0; j < d; j++)
        norm += f->w[j] * f->w[j];
    memset(f->sums, 0, (size_t)(d + 1) * sizeof(double));
    int64_t n_active = 0;
    for (int64_t i = 0; i < n; i++)
        if (f->labels[i] != 0)
            f->active[n_active++] = i;
    const double constant = feature * total;
    s->dual = (pegasos_dual){
        .scale = 1 / (f->problem->lam * s->mass),
        .intercept_scaling = feature,
        .intercept = intercept,
        .factor = 1,
        .generator = f->options->seed,
        .loss = f->problem->loss,
        .constant_weight = constant,
        .squared_norm = norm + constant * constant,
    };
    pegasos_dual_start(&s->dual, n_active);
    s->dual.pegasos_mass = is_zero ? s->mass : 0;
    s->ascent = (pegasos_ascent){
        .lam = f->problem->lam,
        .mass = s->mass,
        .free_intercept = f->problem->free_intercept,
        .n_inside = n_active,
        .n_epochs = s->newton.n_epochs,
        .estimate = INFINITY,
        .estimate_at_check = INFINITY,
        .primal = s->newton.primal,
        .intercept = s->newton.intercept,
        .relative_gap = s->newton.relative_gap,
    };
    if (is_zero && f->options->solver == PEGASOS_AUTO
        && cost_of_newton(f) <= MOST_DEARER * cost_of_ascent(f))
        s->ascent.patience = PATIENCE * n_active;
    s->solver = PEGASOS_ASCENT;
    return true;
}

/* Lets Newton's method begin at the model of `coef` and `intercept`, or rather its best multiple:
 * after an epoch, w can be worse than 0. */
static bool begin_newton(fit *f, double intercept)
{
    state *s = f->s;
    const pegasos_problem *p = f->problem;
    const int64_t n = f->rows->n_rows, d = f->rows->n_features;
    const bool is_smooth = loss_is_smooth(p->loss);
    const double feature = p->free_intercept ? 1 : p->intercept_scaling;
    const double width = is_smooth ? 0.5 : FIRST_WIDTH;
    double *const ones = f->room, *const moves = ones + n, *const weights = moves + n;
    double *const zeros = weights + n, squared = 0;
    if (!score(f, f->coef, intercept, f->scores))
        return false;
    for (int64_t i = 0; i < n; i++) {
        ones[i] = 1;
        moves[i] = f->labels[i] * f->scores[i];
        weights[i] = weight(f, i) / s->mass;
        zeros[i] = 0;
        f->centre[i] = is_smooth ? 0 : f->a[i];
    }
    memcpy(f->point, f->coef, (size_t)d * sizeof(double));
    f->point[d] = feature > 0 ? intercept / feature : 0;
    for (int64_t j = 0; j < d + !p->free_intercept; j++)
        squared += f->point[j] * f->point[j];
    const double t =
        pegasos_line_search(p->loss, n, ones, moves, weights, zeros, width, 0, p->lam * squared);
    for (int64_t j = 0; j <= d; j++)
        f->point[j] *= t;
    double primal = p->lam / 2 * t * t * squared;
    for (int64_t i = 0; i < n; i++) {
        f->scores[i] *= t;
        primal += weights[i] * loss_value(p->loss, 1 - f->labels[i] * f->scores[i]);
    }
    const pegasos_ascent before = s->ascent; /* the best so far is of dual ascent, if it ran */
    s->newton = (pegasos_newton){
        .lam = p->lam,
        .mass = s->mass,
        .feature = feature,
        .free_intercept = p->free_intercept,
        .loss = p->loss,
        .width = width,
        .primal = before.primal,
        .dual_objective =
            isfinite(before.primal) ? before.primal * (1 - before.relative_gap) : -INFINITY,
        .relative_gap = before.relative_gap,
        .intercept = before.intercept,
        .n_epochs = before.n_epochs,
    };
    if (primal < before.primal) {
        memcpy(f->coef, f->point, (size_t)d * sizeof(double));
        s->newton.intercept = feature * f->point[d];
        s->newton.primal = primal;
        s->newton.relative_gap = fmax(primal - s->newton.dual_objective, 0) / fmax(primal, 1e-300);
    }
    s->solver = PEGASOS_NEWTON;
    return true;
}

/* ---- The schedule ---------------------------------------------------------------------------- */

static bool begin(fit *f, void *memory)
{
    memset(memory, 0, (size_t)((char *)f->room - (char *)memory));
    state *s = f->s;
    const double feature =
        f->problem->free_intercept ? 1 : f->problem->intercept_scaling; /* of Pegasos's steps */
    s->ascent.primal = s->ascent.relative_gap = INFINITY;
    s->newton.primal = s->newton.relative_gap = INFINITY;
    if (!measure(f))
        return false;
    for (int64_t i = 0; i < f->rows->n_rows; i++) {
        const double c = f->problem->weights ? f->problem->weights[i] : 1;
        f->labels[i] = (int8_t)(c > 0 ? f->problem->targets[i] : 0);
        s->n_inside += f->labels[i] != 0;
        s->mass += weight(f, i);
        s->longest = fmax(s->longest, weight(f, i) * (f->norms[i] + feature * feature));
    }
    assert(s->n_inside > 0 && s->mass > 0);
    s->budget = s->budget_end = BUDGET;
    s->gap_before = INFINITY;
    begin_pegasos(f);
    /* Now the memory has a fit. */
    s->value_bytes = f->rows->value_bytes;
    s->n_features = f->rows->n_features;
    s->n_rows = f->rows->n_rows;
    return true;
}

/* Lets the solver at work make so many epochs at most; returns a status. */
static int run_solver(fit *f, int64_t n_epochs)
{
    state *s = f->s;
    const int64_t d = f->rows->n_features, n = f->rows->n_rows;
    if (s->solver == PEGASOS_ASCENT) {
        const pegasos_ascent_arrays arrays = {
            .labels = f->labels,
            .bounds = f->problem->weights,
            .norms = f->norms,
            .active = f->active,
            .a = f->a,
            .w = f->w,
            .sums = f->sums,
            .coef = f->coef,
            .point = f->sum,
            .scores = f->room,
            .room = f->room + n,
        };
        s->ascent.tol = f->options->tol;
        s->ascent.last_epoch = n_epochs;
        return (int)pegasos_ascent_run(f->rows, &s->dual, &s->ascent, &arrays, &f->watch);
    }
    const bool has_blas = FEW_FEATURES < d && d < PEGASOS_NEWTON_MOST;
    const pegasos_newton_arrays arrays = {
        .labels = f->labels,
        .weights = f->problem->weights,
        .point = f->point,
        .scores = f->scores,
        .centre = f->centre,
        .a = f->a,
        .coef = f->coef,
        .work = f->work,
        .blas = has_blas ? f->options->blas : NULL,
    };
    s->newton.tol = f->options->tol;
    s->newton.last_epoch = n_epochs;
    return pegasos_newton_run(f->rows, &s->newton, &arrays, &f->watch);
}

/* The epoch of Pegasos, and the solver that follows; false: stopped. */
static bool run_first_epoch(fit *f)
{
    double intercept;
    if (first_solver(f) == PEGASOS_ASCENT)
        return begin_ascent(f, true);
    if (!run_pegasos(f))
        return false;
    take_pegasos(f, &intercept);
    f->s->ascent.n_epochs = 1;
    return begin_newton(f, intercept);
}

/* Lets the other solver go on where this one stands; false: stopped. */
static bool change_solver(fit *f)
{
    return f->s->solver == PEGASOS_ASCENT ? begin_newton(f, f->s->ascent.intercept)
                                          : begin_ascent(f, false);
}

/* Whether the fit ends here. */
static bool is_over(const fit *f)
{
    const pegasos_progress now = progress_of(f);
    return is_small_gap(now.relative_gap, now.objective, f->options->tol)
           || now.n_epochs >= f->options->max_epochs;
}

static int run(fit *f, void *memory)
{
    state *s = f->s;
    const pegasos_options *const options = f->options;
    const bool is_auto = options->solver == PEGASOS_AUTO && options->tol >= 0;
    if ((!options->resume || s->n_rows == 0) && !begin(f, memory))
        return PEGASOS_STOPPED;
    assert(s->n_rows == f->rows->n_rows && s->n_features == f->rows->n_features);
    if (s->solver == PEGASOS_AUTO && !run_first_epoch(f))
        return PEGASOS_STOPPED;
    for (;;) {
        const int64_t most = options->max_epochs;
        const int64_t end = is_auto && s->budget_end < most ? s->budget_end : most;
        const int status = run_solver(f, end);
        if (status != PEGASOS_DONE || is_over(f))
            return status;
        const pegasos_progress now = progress_of(f);
        const bool has_given_up = s->solver == PEGASOS_ASCENT && s->ascent.has_stopped;
        const bool has_halved = !has_given_up && now.relative_gap <= s->gap_before / 2;
        if (has_halved)
            s->gap_before = now.relative_gap;
        else if (!change_solver(f))
            return PEGASOS_STOPPED;
        else {
            s->gap_before = INFINITY;
            s->budget *= 2;
        }
        s->budget_end = now.n_epochs + s->budget;
    }
}

/* What there is so far. */
static void tell(const fit *f, pegasos_solution *solution)
{
    const pegasos_progress now = progress_of(f);
    const bool is_newton = f->s->solver == PEGASOS_NEWTON;
    *solution = (pegasos_solution){
        .coef = f->coef,
        .intercept = is_newton ? f->s->newton.intercept : f->s->ascent.intercept,
        .dual_variables = f->a,
        .objective = now.objective,
        .dual_objective =
            isfinite(now.objective) ? now.objective * (1 - now.relative_gap) : -INFINITY,
        .relative_gap = now.relative_gap,
        .n_epochs = now.n_epochs,
    };
}

int pegasos_solve(const pegasos_problem *problem, const pegasos_options *options, void *memory,
                  pegasos_solution *solution)
{
    fit f = {.problem = problem, .options = options, .rows = problem->rows};
    assert(are_there(problem->rows, 0, problem->rows->n_rows) && problem->lam > 0);
    assert(options->max_epochs >= 0);
    f.watch = (pegasos_watch){
        .poll = options->poll,
        .context = options->context,
        .every = options->poll_every > 0 ? options->poll_every : NUMBERS_PER_POLL,
        .by_epochs = 1,
    };
    lay_out(&f, memory);
    const int status = run(&f, memory);
    tell(&f, solution);
    return status;
}

void pegasos_scores(const pegasos_rows *rows, const double *coef, double intercept, double *scores)
{
    pegasos_linear_scores(rows, 0, rows->n_rows, 1, coef, 8, 0, &intercept, scores);
}
