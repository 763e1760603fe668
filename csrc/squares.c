/*
 * squares.c - where Newton's method begins with the squared error: at its optimum.
 *
 * This loss is quadratic everywhere, so Newton's matrix is the same at all points, and one step
 * from w = 0 goes to the optimum:
 *
 *     (lam I + 1/m sum_i c_i x_i x_i^T) w = 1/m sum_i c_i z_i x_i.
 *
 * Outputs over the same rows share the matrix. Their targets z are further columns of x, so one
 * pass also finds the right sides. Outputs also share the pass that finds their gaps. At w, the
 * multiples r of the dual variables a_i = c_i u_i have
 *
 *     P = lam/2 |w|^2 + 1/(2m) sum_i c_i u_i^2,
 *     D(r a) = r A - r^2 B,    A = 1/m sum_i z_i a_i,
 *                              B = 1/(2m) sum_i c_i u_i^2 + 1/(2 lam m^2) |sum_i a_i x_i|^2.
 *
 * At the optimum, D is highest at r = 1. If rounding has spoiled w, D(a) may be far below 0. So r =
 * A/(2 B) is taken, where D is highest, A^2/(4 B), as in certificates (pegasos_best_dual).
 *
 * A free intercept needs sum_i a_i = 0, which rounding spoils. So a_i - c_i t replaces a_i, with t
 * = 1/m sum_i a_i. Sums then change by t times the sums of c_i z_i and of c_i x_i, and sum_i
 * a_i^2/c_i by m t^2. The matrix has the sums of c_i x_i, maybe in single precision. Those of c_i
 * z_i are summed again: if z is far from 0, t is large.
 *
 * Newton's method goes on from there, and corrects the rounding.
 *
 * All of this is a transaction: fits that were stopped in it begin again, with the same bits.
 */
#include "fit.h"
#include "symmetric.h"

/* The fewest rows of a block, which has its own matrix, and the rows of a piece. A pass takes as
 * many outputs as there are features, but at least FEW_OUTPUTS and at most MANY_OUTPUTS: the work
 * grows with the square of the columns. */
enum { ROWS_PER_BLOCK = 1024, ROWS = 128, FEW_OUTPUTS = 16, MANY_OUTPUTS = 128 };
/* The sums of the second pass for each output; after them comes a vector of features. */
enum { SQUARE_SUM, PRODUCT_SUM, TARGET_SUM, TOTAL, NUMBERS };
/* The least tol for which single precision is tried; and, with a free intercept, the least variance
 * of targets, as a part of the mean of their squares. */
static const double LEAST_SINGLE = 1e-4, LEAST_VARIANCE = 1e-6;

static int64_t stride_of(int64_t n_features, int64_t n_outputs)
{
    return round_up(n_features + 1 + n_outputs, SYMMETRIC_LANES);
}

/* How many outputs a pass takes. */
static int64_t together(int64_t n_features)
{
    return max_of(FEW_OUTPUTS, min_of(n_features, MANY_OUTPUTS));
}

/* How many blocks there are, whatever the number of outputs. */
static int64_t blocks_of(int64_t n_rows, int64_t n_features)
{
    const int64_t stride = stride_of(n_features, together(n_features));
    return symmetric_blocks(n_rows, ROWS_PER_BLOCK, stride);
}

/* A block's numbers, without its matrix: rows of the first pass; then sums and scores of outputs,
 * which are at most as many as rows. */
static int64_t numbers_of_block(int64_t stride)
{
    return ROWS * (stride + NUMBERS);
}

/* Problems, and the matrices of blocks, one after the other. */
typedef struct squares {
    fit *f;
    int64_t n_problems, n_blocks;
    symmetric m;
    bool is_thin;      /* the matrix is made of stored numbers only (symmetric.h) */
    double *of_blocks; /* see numbers_of_block */
    double constant_feature;
    double *weights; /* of the features and the constant one, for one output */
    double *other;   /* scratch */
    double *means;   /* feature/m sum_i c_i x_i: with a free intercept, the feature is 1 */
} squares;

/* Lays out memory after the scratch of a fit; returns how many bytes it takes. */
static int64_t lay_out(squares *x, int64_t n_rows, int64_t d, int64_t n_problems, void *scratch)
{
    const int64_t stride = stride_of(d, n_problems), n_blocks = blocks_of(n_rows, d);
    layout all = {scratch, 8, 0};
    x->n_problems = n_problems;
    x->n_blocks = n_blocks;
    x->f = take(&all, n_problems * (int64_t)sizeof(fit));
    x->weights = take(&all, 8 * stride);
    x->other = take(&all, 8 * stride);
    x->means = take(&all, 8 * stride);
    x->m = (symmetric){.size = d + 1 + n_problems, .stride = stride, .bytes = 8};
    x->m.numbers = take(&all, 8 * n_blocks * stride * stride);
    x->of_blocks = take(&all, 8 * n_blocks * numbers_of_block(stride));
    return all.bytes;
}

int64_t pegasos_squares_scratch_bytes(const pegasos_rows *rows, int64_t n_problems)
{
    const int64_t d = rows->n_features;
    squares x;
    if (d >= PEGASOS_NEWTON_MAX_UNKNOWNS)
        return 0; /* there is no such beginning */
    return pegasos_scratch_bytes(rows) + PEGASOS_BUNDLE_BYTES
           + lay_out(&x, rows->n_rows, d, min_of(n_problems, together(d)), NULL);
}

/* Adds the products of sqrt(c_i/m) (x_i, feature, z_i of each problem) with itself. */
static void add_rows_to_matrix(const block_pass *pass, int64_t block, int64_t first, int64_t count)
{
    const squares *const x = pass->context;
    const fit *const f = x->f;
    const int64_t stride = x->m.stride, d = f->rows->n_features;
    const symmetric m = symmetric_of_block(&x->m, block);
    double *const room = x->of_blocks + block * numbers_of_block(stride);
    if (x->is_thin && symmetric_are_thin(f->rows, first, NULL, count, m.size)) {
        room[0] = x->constant_feature;
        for (int64_t i = first; i < first + count; i++) {
            for (int64_t l = 0; l < x->n_problems; l++)
                room[1 + l] = f[l].targets.values[i];
            symmetric_add_stored(&m, f->rows, i, weight_at(&f->targets, i) / f->s->mass,
                                 1 + x->n_problems, room);
        }
        return;
    }
    for (int64_t k = 0; k < count; k++) {
        char *const row = (char *)room + k * stride * m.bytes;
        const double root = sqrt(weight_at(&f->targets, first + k) / f->s->mass);
        pegasos_linear_scale(f->rows, first + k, root, stride, m.bytes, row);
        set_to(row, m.bytes, d, x->constant_feature * root);
        for (int64_t l = 0; l < x->n_problems; l++)
            set_to(row, m.bytes, d + 1 + l, root * f[l].targets.values[first + k]);
    }
    symmetric_add_outer(&m, count, room, first == first_of_block(pass, block));
}

/* Makes the matrix, in place of that of the first block; false: stopped. */
static bool make_matrix(const squares *x, pegasos_watch *watch)
{
    const int64_t n = x->f->rows->n_rows, stride = x->m.stride;
    const double cost = symmetric_cost(x->f->rows, x->is_thin, x->m.size);
    const block_pass pass = {add_rows_to_matrix, x, n, x->n_blocks, ROWS, cost};
    memset(x->m.numbers, 0, (size_t)(x->n_blocks * stride * stride) * sizeof(double));
    if (!go_over_blocks(&pass, x->f->options->threads, watch))
        return false;
    symmetric_add_up(&x->m, x->n_blocks);
    return true;
}

/* Writes scores and dual variables of all outputs, and adds to the sums of P and D. The outputs' w
 * are interleaved in place of the matrix. */
static void evaluate_rows(const block_pass *pass, int64_t block, int64_t first, int64_t count)
{
    const squares *const x = pass->context;
    const int64_t n_problems = x->n_problems, d = x->f->rows->n_features;
    const double *const w = x->m.numbers, *const intercepts = w + d * n_problems;
    double *sums = x->of_blocks + block * numbers_of_block(x->m.stride);
    double *const scores = sums + n_problems * (NUMBERS + d);
    pegasos_linear_scores(x->f->rows, first, NULL, count, n_problems, w, sizeof(double),
                          n_problems > 1, intercepts, scores);
    for (int64_t l = 0; l < n_problems; l++, sums += NUMBERS + d) {
        const fit *const f = &x->f[l];
        for (int64_t i = 0; i < count; i++) {
            const double c = weight_at(&f->targets, first + i), z = f->targets.values[first + i];
            const double score = scores[i * n_problems + l], u = z - score, a = c > 0 ? c * u : 0;
            f->scores[first + i] = score;
            f->a[first + i] = a;
            sums[SQUARE_SUM] += a * u;
            sums[PRODUCT_SUM] += z * a;
            sums[TARGET_SUM] += c * z;
            sums[TOTAL] += a;
        }
        pegasos_linear_combine(f->rows, first, count, f->a + first, sums + NUMBERS);
    }
}

/* Finds the gaps, and lets Newton's method go on from here. A fit whose numbers overflow begins as
 * other fits do. False: stopped. */
static bool find_gaps(const squares *x, pegasos_watch *watch)
{
    const int64_t d = x->f->rows->n_features, n_problems = x->n_problems;
    const int64_t stride = numbers_of_block(x->m.stride), n_sums = n_problems * (NUMBERS + d);
    const double cost = (double)(2 * n_problems) * cost_of_row(x->f->rows);
    const block_pass pass = {evaluate_rows, x, x->f->rows->n_rows, x->n_blocks, ROWS, cost};
    double *const w = x->m.numbers, *sums = x->of_blocks;
    for (int64_t l = 0; l < n_problems; l++) {
        for (int64_t j = 0; j < d; j++)
            w[j * n_problems + l] = x->f[l].coef[j];
        w[d * n_problems + l] = x->f[l].s->intercept;
    }
    for (int64_t k = 0; k < x->n_blocks; k++)
        memset(sums + k * stride, 0, (size_t)n_sums * sizeof(double));
    if (!go_over_blocks(&pass, x->f->options->threads, watch))
        return false;
    add_up_blocks(x->n_blocks, stride, n_sums, sums);
    for (int64_t l = 0; l < n_problems; l++, sums += NUMBERS + d) {
        fit *const f = &x->f[l];
        state *const s = f->s;
        const double lam = s->lam, mass = s->mass, losses = sums[SQUARE_SUM] / 2;
        const double primal = fit_primal(f, f->coef, s->intercept, losses);
        const bool is_free = f->problem->free_intercept;
        const double t = is_free ? sums[TOTAL] / mass : 0;
        const double constant = is_free ? 0 : x->constant_feature * sums[TOTAL];
        for (int64_t j = 0; j < d; j++)
            sums[NUMBERS + j] -= t * mass * x->means[j];
        const double squared = squared_norm_of(sums + NUMBERS, d) + constant * constant;
        const double A = (sums[PRODUCT_SUM] - t * sums[TARGET_SUM]) / mass;
        const double B = losses / mass - t * t / 2 + squared / (2 * lam * mass * mass);
        const double dual = A > 0 ? A * (A / (4 * B)) : 0;
        if (!isfinite(primal) || !isfinite(A) || !isfinite(B) || !isfinite(dual))
            continue;
        pegasos_fit_set_newton(f, s->intercept);
        s->primal = primal;
        s->newton.dual_objective = dual;
        s->relative_gap = relative_gap_of(primal, dual);
        s->first_solver = s->solver = PEGASOS_NEWTON;
        s->n_epochs = 2; /* passes: make_matrix, and this one */
        s->pending = PEGASOS_GAP_CHECKED;
    }
    return !is_to_stop_after_epoch(watch, progress_of_state(x->f->s));
}

/* Whether problems can begin with Newton's method: over the same rows, and with more rows than
 * features. With fewer rows, there are equations with fewer unknowns. */
static bool are_alike(fit *f, int64_t n_problems)
{
    const size_t n = (size_t)f->rows->n_rows;
    for (int64_t l = 0; l < n_problems; l++)
        if (f[l].s->pending != PEGASOS_BEGIN
            || memcmp(f[l].targets.labels, f->targets.labels, n) != 0)
            return false;
    return f->rows->n_rows > f->rows->n_features && f->options->max_epochs > 1
           && pegasos_fit_first_solver(f) == PEGASOS_NEWTON;
}

/* Whether single precision will do, also for targets, which may be large. Newton's method corrects
 * its rounding. This takes longer than double precision if the gap must be fine, or if targets are
 * nearly constant: a free intercept then leaves next to nothing of them. */
static bool is_single(const fit *f, int64_t n_problems, double feature)
{
    const int64_t n = f->rows->n_rows;
    double trace = 0;
    if (!f->options->blas || !(f->options->tol >= LEAST_SINGLE))
        return false;
    for (int64_t i = 0; i < n; i++)
        trace += weight_at(&f->targets, i) / f->s->mass * (f->norms[i] + feature * feature);
    for (int64_t l = 0; l < n_problems; l++) {
        const double *const z = f[l].targets.values;
        double mean = 0, square = 0;
        for (int64_t i = 0; i < n; i++) {
            const double part = weight_at(&f->targets, i) / f->s->mass * z[i];
            mean += part;
            square += part * z[i];
        }
        if (f->problem->free_intercept && square - mean * mean < LEAST_VARIANCE * square)
            return false;
        trace += square;
    }
    return symmetric_may_be_single(f->options->blas, trace, f->problem->lam);
}

/* Lets fits begin at the optimum, up to rounding. If numbers overflow, they begin as others do. */
static int solve_some(squares *all)
{
    fit *const f = all->f;
    const int64_t d = f->rows->n_features, n_problems = all->n_problems, stride = all->m.stride;
    const bool is_free = f->problem->free_intercept;
    const double lam = f->problem->lam;
    double *const x = all->weights;
    all->m.blas = f->options->blas;
    all->constant_feature = is_free ? 1 : f->problem->intercept_scaling;
    pegasos_fit_begin(f);
    f->s->pending = PEGASOS_BEGIN;
    for (int64_t l = 1; l < n_problems; l++)
        *f[l].s = *f->s;
    if (f->s->n_inside == 0)
        return PEGASOS_DONE;
    all->is_thin = symmetric_are_thin(f->rows, 0, NULL, f->rows->n_rows, all->m.size);
    if (!all->is_thin && is_single(f, n_problems, all->constant_feature))
        all->m.bytes = 4;
    if (!make_matrix(all, &f->watch))
        return PEGASOS_STOPPED;
    for (int64_t j = 0; j < d; j++)
        all->means[j] = get(all->m.numbers, all->m.bytes, d * stride + j);
    all->m.size = d + 1;
    symmetric_add_diagonal(&all->m, lam, is_free ? 0 : lam);
    const int status = symmetric_factorise(&all->m, &f->watch);
    if (status != SYMMETRIC_FACTORED)
        return status == SYMMETRIC_STOPPED ? PEGASOS_STOPPED : PEGASOS_DONE;
    for (int64_t l = 0; l < n_problems; l++) {
        for (int64_t j = 0; j <= d; j++)
            x[j] = get(all->m.numbers, all->m.bytes, (d + 1 + l) * stride + j);
        symmetric_solve(&all->m, x, all->other);
        memcpy(f[l].coef, x, (size_t)d * sizeof(double));
        f[l].s->intercept = all->constant_feature * x[d];
    }
    return find_gaps(all, &f->watch) ? PEGASOS_DONE : PEGASOS_STOPPED;
}

int pegasos_solve_squares(int64_t n_problems, const pegasos_problem *problem,
                          const pegasos_options *options, const int8_t *labels, const double *norms,
                          void *memory, void *scratch)
{
    const int64_t n = problem->rows->n_rows, d = problem->rows->n_features;
    const int64_t bytes = pegasos_state_bytes(n, d), most = together(d);
    char *const own = (char *)scratch + pegasos_scratch_bytes(problem->rows);
    int status = PEGASOS_DONE;
    assert(problem->loss.kind == PEGASOS_SQUARED_ERROR);
    if (d >= PEGASOS_NEWTON_MAX_UNKNOWNS)
        return PEGASOS_DONE;
    for (int64_t first = 0; first < n_problems && status == PEGASOS_DONE; first += most) {
        const int64_t count = n_problems - first < most ? n_problems - first : most;
        squares x;
        lay_out(&x, n, d, count, aligned(own, PEGASOS_BUNDLE_BYTES));
        for (int64_t l = 0; l < count; l++) {
            pegasos_problem of_output = *problem;
            of_output.targets += (first + l) * n;
            x.f[l] = pegasos_fit_of(&of_output, options, labels + (first + l) * n, norms,
                                    (char *)memory + (first + l) * bytes, scratch);
            x.f[l].problem = problem; /* of_output ends here; targets stay those of the output */
        }
        if (are_alike(x.f, count))
            status = solve_some(&x);
    }
    return status;
}
