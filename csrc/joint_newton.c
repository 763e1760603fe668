/*
 * joint_newton.c - Newton's method on the joint problem of joint.c, for few classes and features.
 *
 * The maximum over classes is smoothed like the hinge in newton.c, by the proximal point method on
 * the dual: given a dual point A, the loss of a row with scores G_k = Delta(k, y) + s_k becomes
 *
 *     max_a [-sum_k a_k G_k - delta/(2 c) sum_k (a_k - A_k)^2],  sum_k a_k = 0,  a_k <= c 1{k = y}.
 *
 * A visit of dual ascent finds its maximiser a(G) for q = delta/c. For any W, the rows' a(G) are
 * dual-feasible, and the gradient of the smooth objective is lam (W - W(a)): each gradient brings a
 * dual value. If M classes of a row have a_k below its bound, the second derivatives with respect
 * to their scores are c/delta (1{k = l} - 1/M), and 0 for all others. This is the sum of c/(delta
 * M) (e_k - e_l) (e_k - e_l)^T over pairs of these classes. So Newton's matrix is made of one sum
 * of x x^T for each pair, over the rows that have both.
 *
 * An iteration solves Newton's equations at W and moves to about where the smooth objective is
 * least along the step; there it finds the certificate. Once the smooth problem is solved well
 * enough, A becomes a(G), and delta shrinks. It grows at most once (SHORT). Iterations are
 * transactions.
 */
#include "joint.h"
#include "symmetric.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { LANES = JOINT_LANES, SEARCHES = 30, ROWS = 128 };
/* delta begins at FIRST of the objective at W = 0, and shrinks by NARROWER to NARROWEST of it. */
static const double FIRST = 0.3, NARROWER = 0.6, NARROWEST = 3e-4;
/* If the first delta is small compared with the scores, few rows have curvature, and steps are far
 * too long along the others. Once less than SHORT of a step is taken, delta becomes WIDER FIRST. */
static const double SHORT = 0.1, WIDER = 10;
/* A line search ends where the slope is FLAT of its first value, and the fall of the objective is
 * ENOUGH of what the first slope promises. */
static const double FLAT = 0.5, ENOUGH = 1e-4;
/* The rounding of an objective, as a part of it. */
static const double ROUNDING = 1e-13;
/* The diagonal of the matrix at free intercepts, as a part of lam; see newton.c. */
static const double FREE = 1e-3;
/* Rough figures: nanoseconds of a visit, for the row and for each class; products per nanosecond;
 * iterations to a usual gap; and pairs of a row's classes that are below their bounds. */
static const double PER_ROW = 100, PER_CLASS = 16, PRODUCTS = 8, ITERATIONS = 5, PAIRS = 1.5;
/* A dual variable this close to its bound is at it. */
static const double AT_BOUND = 1e-12;

typedef struct newton {
    const joint *j;
    int64_t depth, padded, size; /* unknowns of a class, also padded; of all classes */
    double full;                 /* W = full v */
    double *next, *trial, *gradient, *step, *scratch;
    double *scores, *before; /* Delta + s, row after row, at a point and where its line begins */
    /* For rows: c/(m delta M); whether a_k is below its bound, class after class; the rows of a
     * class. Rows of a pair, times the root of the second derivative. */
    double *second_derivatives, *scaled;
    int8_t *is_inside;
    int64_t *of_class;
    symmetric matrix, pair;
    double primal, smooth, proximal, value; /* of a point */
    double t;                               /* how far the search has gone along the step */
} newton;

int64_t pegasos_joint_unknowns(const pegasos_joint_problem *problem)
{
    return problem->n_classes * (problem->rows->n_features + (problem->constant_feature > 0));
}

int64_t pegasos_joint_newton_after(const pegasos_joint_problem *problem)
{
    const double K = (double)problem->n_classes, size = (double)pegasos_joint_unknowns(problem);
    const double n = (double)problem->rows->n_rows, stored = stored_numbers(problem->rows) / n;
    if (size > PEGASOS_NEWTON_MAX_UNKNOWNS)
        return 0;
    const double epoch = n * (PER_ROW + K * (PER_CLASS + stored / 2));
    const double products = n * PAIRS * (size / K) * (size / K) / 2 + size * size * size / 6;
    return (int64_t)ceil(ITERATIONS * (2 + products / PRODUCTS / epoch));
}

static int64_t lay_out_arrays(newton *x, const pegasos_joint_problem *problem, void *scratch)
{
    const int64_t n = problem->rows->n_rows, d = problem->rows->n_features;
    const int64_t K = problem->n_classes;
    layout all = {scratch, 8, 0};
    x->size = pegasos_joint_unknowns(problem);
    x->depth = x->size / K;
    x->padded = round_up(x->depth, LANES);
    x->next = take(&all, 8 * n * K);
    x->scores = take(&all, 8 * n * K);
    x->before = take(&all, 8 * n * K);
    x->trial = take(&all, 8 * round_up(K, LANES) * (d + 1));
    x->gradient = take(&all, 8 * x->size);
    x->step = take(&all, 8 * x->size);
    x->scratch = take(&all, 8 * x->size);
    x->second_derivatives = take(&all, 8 * n);
    x->of_class = take(&all, 8 * n);
    x->is_inside = take(&all, n * K);
    x->scaled = take(&all, 8 * ROWS * x->padded);
    x->pair = (symmetric){.size = x->depth, .stride = x->padded, .bytes = 8};
    x->pair.numbers = take(&all, 8 * x->padded * x->padded);
    x->matrix = (symmetric){.size = x->size, .bytes = 8};
    x->matrix.stride = round_up(x->size, LANES) + LANES;
    x->matrix.numbers = take(&all, 8 * x->matrix.size * x->matrix.stride);
    return all.bytes;
}

int64_t joint_newton_scratch_bytes(const pegasos_joint_problem *problem)
{
    newton x;
    return lay_out_arrays(&x, problem, NULL);
}

static newton lay_out(const joint *j)
{
    newton x = {.j = j, .full = 1 / (j->p->lam * j->s->mass)};
    lay_out_arrays(&x, j->p, j->newton_scratch);
    x.pair.blas = pegasos_newton_uses_blas(x.depth) ? j->o->blas : NULL;
    x.matrix.blas = j->o->blas;
    return x;
}

static double penalty(const newton *x, int64_t t)
{
    return t == x->j->d && x->j->p->is_free ? 0 : x->j->p->lam;
}

/* ---- A pass over the rows -------------------------------------------------------------------- */

/* Notes which second derivatives of row i are not 0; its a(G) is in `row`. */
static void set_second_derivatives(const newton *x, int64_t i, double c)
{
    const joint *const j = x->j;
    int64_t n = 0;
    for (int64_t k = 0; k < j->n_classes; k++) {
        const double most = k == j->p->codes[i] ? c : 0;
        const bool is_inside = j->row[k] < most - AT_BOUND * c;
        x->is_inside[k * j->n + i] = is_inside;
        n += is_inside;
    }
    x->second_derivatives[i] = c / (j->s->mass * j->s->width * (double)(n > 0 ? n : 1));
}

/* The second derivative of the losses along the move from `before` to `scores`; false: stopped. */
static bool find_curvature(const newton *x, double *curvature)
{
    const joint *const j = x->j;
    *curvature = 0;
    for (int64_t i = 0; i < j->n; i++) {
        const int64_t first = i * j->n_classes;
        double n = 0, sum = 0, squares = 0;
        for (int64_t k = 0; k < j->n_classes; k++)
            if (x->is_inside[k * j->n + i]) {
                const double move = x->scores[first + k] - x->before[first + k];
                n++;
                sum += move;
                squares += move * move;
            }
        *curvature += n > 1 ? x->second_derivatives[i] * (n * squares - sum * sum) : 0;
    }
    return !joint_is_stopped(j, 0.1 * (double)j->n);
}

/* Makes a pair's sum over those of a class's n rows with class l. Returns how many; -1: stopped. */
static int64_t sum_pair(const newton *x, int64_t n, int64_t l)
{
    const joint *const j = x->j;
    const double K = (double)j->n_classes, size = (double)x->depth;
    int64_t count = 0, n_added = 0;
    for (int64_t t = 0; t < n; t++) {
        const int64_t i = x->of_class[t];
        double *const row = x->scaled + count * x->padded, root = sqrt(x->second_derivatives[i]);
        if (x->is_inside[l * j->n + i]) {
            pegasos_linear_scale(j->p->rows, i, root, x->padded, 8, row);
            if (j->constant_feature > 0)
                row[j->d] = j->constant_feature * root;
            count++;
        }
        if (count < ROWS && (t < n - 1 || count == 0))
            continue;
        symmetric_add_outer(&x->pair, count, x->scaled, n_added == 0);
        if (joint_is_stopped(j, (double)count * size * size / 2 / PRODUCTS_PER_NUMBER / K))
            return -1;
        n_added += count;
        count = 0;
    }
    return joint_is_stopped(j, (double)n / K) ? -1 : n_added;
}

/* Adds the sum of the pair of classes k > l to the matrix. */
static void add_pair(const newton *x, int64_t k, int64_t l)
{
    const int64_t stride = x->matrix.stride, of_k = k * x->depth, of_l = l * x->depth;
    double *const matrix = x->matrix.numbers;
    for (int64_t t = 0; t < x->depth; t++)
        for (int64_t u = 0; u <= t; u++) {
            const double sum = ((const double *)x->pair.numbers)[t * x->padded + u];
            matrix[(of_k + t) * stride + of_k + u] += sum;
            matrix[(of_l + t) * stride + of_l + u] += sum;
            matrix[(of_k + t) * stride + of_l + u] = -sum;
            matrix[(of_k + u) * stride + of_l + t] = -sum;
        }
}

/* Makes Newton's matrix, without lam on its diagonal; false: stopped. */
static bool make_hessian(const newton *x)
{
    const joint *const j = x->j;
    memset(x->matrix.numbers, 0, (size_t)(x->size * x->matrix.stride) * sizeof(double));
    for (int64_t k = 1; k < j->n_classes; k++) {
        int64_t n = 0;
        for (int64_t i = 0; i < j->n; i++) {
            x->of_class[n] = i;
            n += x->is_inside[k * j->n + i];
        }
        for (int64_t l = 0; l < k; l++) {
            const int64_t n_added = sum_pair(x, n, l);
            if (n_added < 0)
                return false;
            if (n_added > 0)
                add_pair(x, k, l);
        }
    }
    return true;
}

/* next = a(G) at a point, and fresh = its sum over the rows. Also finds the gradient, second
 * derivatives, scores and sums there. False: stopped. */
static bool evaluate(newton *x, const joint_point *point)
{
    const joint *const j = x->j;
    const int64_t K = j->n_classes;
    x->primal = x->smooth = x->proximal = x->value = 0;
    memset(j->fresh, 0, (size_t)j->size * sizeof(double));
    memset(x->is_inside, 0, (size_t)(j->n * K));
    for (int64_t i = 0; i < j->n; i++) {
        const int64_t y = j->p->codes[i];
        if (y < 0) {
            memset(x->next + i * K, 0, (size_t)K * sizeof(double));
            continue;
        }
        const double c = sample_weight(j->p->weights, i), *cost = j->p->cost + y * K,
                     *A = j->a + i * K;
        const int64_t worst = joint_score(j, i, i, point);
        double proximal = 0;
        x->primal += c * (j->scores[worst] - j->scores[y]);
        joint_solve_row(j, y, worst, c, j->s->width / c, A);
        for (int64_t k = 0; k < K; k++) {
            x->smooth -= j->row[k] * (j->scores[k] - j->scores[y]);
            x->value -= j->row[k] * cost[k];
            proximal += (j->row[k] - A[k]) * (j->row[k] - A[k]);
        }
        x->proximal += proximal / c;
        memcpy(x->next + i * K, j->row, (size_t)K * sizeof(double));
        joint_add_row(j, i, j->row, j->fresh);
        memcpy(x->scores + i * K, j->scores, (size_t)K * sizeof(double));
        set_second_derivatives(x, i, c);
        if (joint_is_stopped(j, 3))
            return false;
    }
    const double mass = j->s->mass, norm = joint_norm(j, point->v);
    const double square = j->p->lam / 2 * point->scale * point->scale * norm;
    x->proximal *= j->s->width / (2 * mass);
    x->primal = x->primal / mass + square;
    x->smooth = x->smooth / mass - x->proximal + square;
    for (int64_t r = 0; r < x->size; r++) {
        const int64_t k = r / x->depth, t = r % x->depth;
        const double w = point->scale * *joint_at(j, point->v, k, t);
        x->gradient[r] = penalty(x, t) * w - *joint_at(j, j->fresh, k, t) / mass;
    }
    return true;
}

/* ---- An iteration ---------------------------------------------------------------------------- */

/* Solves Newton's equations at the point of `evaluate`, for `step`; false: stopped. */
static bool solve_equations(newton *x)
{
    const joint *const j = x->j;
    double *const numbers = x->matrix.numbers;
    if (!make_hessian(x))
        return false;
    for (int64_t r = 0; r < x->size; r++) {
        const double lam = penalty(x, r % x->depth);
        x->step[r] = -x->gradient[r];
        numbers[r * (x->matrix.stride + 1)] += lam > 0 ? lam : FREE * j->p->lam;
    }
    const double trace = symmetric_add_diagonal(&x->matrix, 0, 0);
    const double ridge = (double)x->size * DBL_EPSILON * trace; /* what rounding takes away */
    symmetric_add_diagonal(&x->matrix, ridge, ridge);
    const int status = symmetric_factorise(&x->matrix, j->watch);
    if (status == SYMMETRIC_FACTORED)
        symmetric_solve(&x->matrix, x->step, x->scratch);
    return status != SYMMETRIC_STOPPED;
}

/* The mean over classes of W and of steps is 0. Removes its rounding, which only lam holds back. */
static void take_mean_away(newton *x)
{
    const int64_t K = x->j->n_classes;
    for (int64_t t = 0; t < x->depth; t++) {
        double sum = 0;
        for (int64_t k = 0; k < K; k++)
            sum += x->step[k * x->depth + t];
        for (int64_t k = 0; k < K; k++)
            x->step[k * x->depth + t] -= sum / (double)K;
    }
}

/* trial = now + t step */
static joint_point move(const newton *x, const joint_point *now, double t)
{
    const joint *const j = x->j;
    memcpy(x->trial, now->v, (size_t)j->size * sizeof(double));
    for (int64_t r = 0; r < x->size; r++)
        *joint_at(j, x->trial, r / x->depth, r % x->depth) += t / now->scale * x->step[r];
    return (joint_point){x->trial, now->offset, now->scale};
}

static double slope_of(const newton *x)
{
    double slope = 0;
    for (int64_t r = 0; r < x->size; r++)
        slope += x->gradient[r] * x->step[r];
    return slope;
}

/*
 * A line search: goes along the step to about where the smooth objective is least; false: stopped.
 * The slope grows with t and is piecewise linear. Newton's method finds its root, kept in the
 * bracket [low, high]. A row whose a(G) is at a corner may have all of the curvature where it
 * leaves the corner, and steps that ignore this are too long by orders of magnitude. So where the
 * slope has not halved, or Newton's method leaves the bracket, t becomes the geometric mean of the
 * bracket. If that ends at 0 or infinity, t changes tenfold.
 */
static bool search(newton *x, const joint_point *now, int64_t *n_passes)
{
    double low = 0, high = INFINITY, last = INFINITY, square = 0, curvature;
    take_mean_away(x);
    double *const scores = x->scores;
    x->scores = x->before;
    x->before = scores;
    const double before = x->smooth, first = slope_of(x), rounding = ROUNDING * fabs(before);
    for (int64_t r = 0; r < x->size; r++)
        square += penalty(x, r % x->depth) * x->step[r] * x->step[r];
    x->t = 1;
    for (int n_done = 0; n_done < SEARCHES; n_done++) {
        const joint_point trial = move(x, now, x->t);
        ++*n_passes;
        if (!evaluate(x, &trial))
            return false;
        const double slope = slope_of(x), fall = x->smooth - before;
        if (fabs(fall) <= rounding
            || (fabs(slope) <= FLAT * fabs(first) && fall <= ENOUGH * x->t * first))
            break;
        *(slope < 0 ? &low : &high) = x->t;
        if (!find_curvature(x, &curvature))
            return false;
        const double better = x->t - slope / (square + curvature / (x->t * x->t));
        if (fabs(slope) <= last / 2 && low < better && better < high)
            x->t = better;
        else
            x->t = low == 0 ? high / 10 : high < INFINITY ? sqrt(low * high) : 10 * low;
        last = fabs(slope);
    }
    return true;
}

/* Finds the dual value of `next`; false: stopped. */
static bool find_dual(newton *x, double *dual)
{
    const joint *const j = x->j;
    const double lam = j->p->lam;
    if (j->p->is_free && !joint_combine(j, x->next, 1, true, &x->value))
        return false;
    *dual = x->value / j->s->mass - lam / 2 * x->full * x->full * joint_norm(j, j->fresh);
    return true;
}

static void count_passes(const joint *j, int64_t n)
{
    j->s->n_epochs += n;
    j->s->n_newton += n;
}

int joint_newton(const joint *j)
{
    pegasos_joint *const s = j->s;
    const double at_zero = joint_objective_at_zero(j), first = FIRST * at_zero;
    newton x = lay_out(j);
    bool is_known = false; /* whether `evaluate` was at the present point */
    if (s->width == 0) {
        s->width = first;
        count_passes(j, 1);
    }
    for (;;) {
        const joint_point now = joint_current_point(j);
        const double width = s->width;
        int64_t n_passes = 0;
        double dual;
        if (s->n_epochs >= j->o->last_epoch
            || (s->is_checked && joint_progress(j).relative_gap <= j->o->tol))
            return PEGASOS_DONE;
        if (!(is_known || evaluate(&x, &now)) || !solve_equations(&x)
            || !search(&x, &now, &n_passes) || !find_dual(&x, &dual))
            return PEGASOS_STOPPED;
        if (!isfinite(x.primal))
            return PEGASOS_OVERFLOW;
        const joint_point found = {x.trial, now.offset, now.scale};
        s->dual = fmax(s->dual, dual);
        joint_keep_best(j, &found, x.primal, false);
        memcpy(j->v, x.trial, (size_t)j->size * sizeof(double));
        count_passes(j, n_passes);
        s->is_checked = 1;
        const bool is_solved = x.smooth - (dual - x.proximal) <= x.primal - x.smooth;
        const pegasos_progress progress = joint_progress(j);
        const bool is_over = s->n_epochs >= j->o->last_epoch || progress.relative_gap <= j->o->tol;
        if (is_solved || is_over)
            memcpy(j->a, x.next, (size_t)(j->n * j->n_classes) * sizeof(double));
        if (is_solved)
            s->width = fmax(NARROWER * s->width, NARROWEST * at_zero);
        else if (x.t < SHORT && s->width == first)
            s->width = WIDER * first;
        is_known = !is_solved && s->width == width;
        if (!is_known && !is_over)
            count_passes(j, 1);
        if (is_to_stop_after_epoch(j->watch, progress))
            return PEGASOS_STOPPED;
    }
}
