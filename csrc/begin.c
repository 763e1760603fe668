/*
 * begin.c - how the solvers of a fit begin: at 0, where another solver stands, at a point of the
 * caller, with another lambda.
 *
 * Each function is a transaction, except for the epoch of Pegasos, which is visits. Until its end,
 * it only writes scratch, or what it would write again if it were begun again.
 */
#include "fit.h"

/* Newton's method smooths a loss with corners, at first over errors of FIRST_WIDTH; first_newton
 * explains the other limits. A smooth loss that is curved only within NARROW is smoothed, too, down
 * to OWN_PART of its own width. */
static const double FIRST_WIDTH = 0.25, NARROWEST = 1e-4, FLATTEST = 1e-12, WIDEST = 1e-3;
static const double NARROW = 0.003, OWN_PART = 0.01;
/* The least constant feature of a free intercept (see pegasos_ascent). In dual ascent, the
 * feature's square is PART_OF_ROWS of the mean of |x_i|^2. The log loss has smaller steps, which
 * would move the intercept too slowly with so small a part. */
static const double LEAST_FEATURE = 1e-3, PART_OF_ROWS = 0.1, PART_OF_LOG_LOSS = 0.4;
/* The largest delay of Pegasos for smooth losses, which is |x|^2/lam times their curvature. */
static const double MOST_DELAY = 1e15;

/* ---- What is known of the rows --------------------------------------------------------------- */

/* Adds weights in the order of rows, like `masses` of _core.pyx, so that both get the same m. */
static void count_rows(fit *f)
{
    state *s = f->s;
    const double feature = f->problem->free_intercept ? 1 : f->problem->intercept_scaling;
    s->n_inside = 0;
    s->mass = s->largest_norm = 0;
    for (int64_t i = 0; i < f->rows->n_rows; i++) {
        s->n_inside += f->targets.labels[i] != 0;
        s->mass += weight_at(&f->targets, i);
        const double norm = weight_at(&f->targets, i) * (f->norms[i] + feature * feature);
        s->largest_norm = norm > s->largest_norm ? norm : s->largest_norm; /* NaN is left out */
    }
    s->mass = s->mass > 0 ? s->mass : 1; /* without rows */
    s->lam = f->problem->lam;
    s->loss = f->problem->loss;
    s->n_rows = f->rows->n_rows;
    s->n_features = f->rows->n_features;
    s->value_bytes = f->rows->value_bytes;
}

/* The mean of |x_i|^2 over the rows that are in the problem. */
static double mean_norm(const pegasos_targets *targets, const double *norms, int64_t n_inside)
{
    double mean = 0;
    for (int64_t i = 0; i < targets->n; i++)
        mean += targets->labels[i] != 0 ? norms[i] / (double)n_inside : 0;
    return mean;
}

double pegasos_free_feature(double mean_norm, double nu)
{
    const double size = sqrt(mean_norm);
    return nu != 0 && size > 0 ? size : fmax(size, LEAST_FEATURE);
}

double pegasos_constant_feature(const pegasos_problem *problem, const pegasos_targets *targets,
                                const double *norms, int64_t n_inside)
{
    return problem->free_intercept
               ? pegasos_free_feature(mean_norm(targets, norms, n_inside), problem->loss.nu)
               : problem->intercept_scaling;
}

/* Dual ascent may have a smaller constant feature g, so that steps of rows do not undo each other:
 * see pegasos_ascent. An epoch moves a penalised intercept by at most g^2/lam, so g^2 >= lam. */
static double feature_of_ascent(const fit *f)
{
    const pegasos_problem *const p = f->problem;
    const double problem_feature =
        pegasos_constant_feature(p, &f->targets, f->norms, f->s->n_inside);
    if (p->loss.nu != 0 || problem_feature == 0)
        return problem_feature;
    const double part = loss_is_quadratic(loss_of(p->loss)) ? PART_OF_ROWS : PART_OF_LOG_LOSS;
    const double norm = part * mean_norm(&f->targets, f->norms, f->s->n_inside);
    return p->free_intercept ? pegasos_free_feature(norm, 0)
                             : fmin(sqrt(fmax(norm, p->lam)), problem_feature);
}

/* Forgets the best model's objective, the last gap, and that only rounding was left of it. */
static void forget(state *s)
{
    s->primal = s->relative_gap = s->gap_before = INFINITY;
    s->newton.n_idle = s->newton.was_idle = 0;
}

/* ---- An epoch of Pegasos --------------------------------------------------------------------- */

void pegasos_fit_begin(fit *f)
{
    state *s = f->s;
    memset(s, 0, (size_t)pegasos_state_bytes(f->rows->n_rows, f->rows->n_features));
    count_rows(f);
    const double factor = (double)s->n_inside / s->mass;
    s->pegasos = (pegasos_linear){
        .lam = f->problem->lam,
        .weight_factor = factor > 0 ? factor : 1,
        .intercept_scaling = f->problem->intercept_scaling,
        .free_intercept = f->problem->free_intercept,
        .average_from = s->n_inside / 2 + 1,
        .last_step = s->n_inside,
    };
    const double curvature = loss_curvature(loss_of(f->problem->loss)) * factor * s->largest_norm;
    s->pegasos.delay = (int64_t)fmin(ceil(curvature / f->problem->lam), MOST_DELAY);
    pegasos_linear_start(&s->pegasos);
    forget(s);
    s->pending = PEGASOS_GO_ON;
}

/* Steps on all rows once. To go on with an epoch, the permutation is drawn again. */
static bool run_pegasos(fit *f)
{
    pegasos_linear *const p = &f->s->pegasos;
    pegasos_order order;
    double slope = 1;
    int64_t pending = 0;
    const pegasos_draws draws = {.order = &order, .permutation = (int64_t *)f->scratch};
    const pegasos_linear_set set = {
        .n_problems = 1,
        .batch_size = 1,
        .problems = p,
        .targets = f->targets,
        .weights = f->w,
        .sums = f->sums,
        .counts = (double *)f->active,
        .pending = &pending,
        .slopes = &slope,
    };
    pegasos_order_seek(&order, f->options->seed, f->rows->n_rows, PEGASOS_PERMUTATION, p->next_draw,
                       draws.permutation);
    return pegasos_linear_train(f->rows, &set, &draws, &f->watch) == PEGASOS_DONE;
}

/* Newton's method smooths a loss with corners about dual variables. This sets them to the middles
 * of their boxes, so that no row is at a bound before the model says so. */
static void begin_in_the_middle(fit *f)
{
    const loss_form loss = loss_of(f->problem->loss);
    for (int64_t i = 0; i < f->rows->n_rows; i++) {
        const double c = weight_at(&f->targets, i);
        f->a[i] = loss_is_smooth(loss) ? 0 : (loss_lower(loss, c) + loss_upper(loss, c)) / 2;
    }
}

bool pegasos_fit_first_epoch(fit *f)
{
    const pegasos_linear *const p = &f->s->pegasos;
    const double *const counts = (double *)f->active;
    const sampled sample = p->next_draw == 0 ? pegasos_fit_sample(f) : NO_SAMPLE;
    if (sample == STOPPED)
        return false;
    if (sample == SAMPLED) {
        begin_in_the_middle(f);
        f->s->n_epochs = 1;
        return pegasos_fit_begin_newton(f);
    }
    /* A shorter delay would let w grow from step to step until it overflows. */
    const bool grows = (double)p->delay == MOST_DELAY && isfinite(f->s->largest_norm);
    if (p->next_draw == 0 && (grows || pegasos_newton_is_far(f))) { /* it begins at w = 0 */
        pegasos_constant_model(f->problem, &f->targets, f->s->mass, &f->s->intercept);
        return pegasos_fit_begin_newton(f);
    }
    if (!run_pegasos(f))
        return false;
    /* Pegasos leaves a model, the mean of its last half, and a dual point,
     * a_i = c_i alpha_i n/(T + t0) with w(a) = w. */
    const double each = (double)f->s->n_inside / (double)(p->n_steps + p->delay);
    for (int64_t i = 0; i < f->rows->n_rows; i++)
        f->a[i] = weight_at(&f->targets, i) * counts[i] * each;
    pegasos_make_feasible(&f->targets, p->free_intercept, f->a, f->a);
    pegasos_linear_model(p, f->rows->n_features, f->rows->value_bytes, f->w, f->sums, f->coef,
                         &f->s->intercept);
    f->s->n_epochs = 1;
    return pegasos_fit_begin_newton(f);
}

/* ---- Dual ascent ----------------------------------------------------------------------------- */

/* Lets all rows of the problem take part. */
static void activate(fit *f)
{
    int64_t n_active = 0;
    for (int64_t i = 0; i < f->rows->n_rows; i++)
        if (f->targets.labels[i] != 0)
            f->active[n_active++] = i;
    pegasos_dual_start(&f->s->dual, n_active);
    memset(f->sums, 0, (size_t)(f->rows->n_features + 1) * sizeof(double));
}

/* Notes the epochs of the last solver, and that another one takes over. */
static void note_change(state *s, int64_t solver)
{
    const int64_t before = s->epochs[0] + s->epochs[1] + s->epochs[2];
    s->epochs[s->solver] += s->n_epochs - before;
    s->first_solver = s->first_solver ? s->first_solver : solver;
    s->solver = solver;
}

/* As in pegasos_ascent: `feature` is g, `intercept` b_0, `constant` v, `problem_feature` f. */
bool pegasos_fit_begin_ascent(fit *f, bool is_zero)
{
    state *s = f->s;
    const int64_t n = f->rows->n_rows, d = f->rows->n_features;
    const double feature = feature_of_ascent(f), problem_feature = f->problem->intercept_scaling;
    const double part = problem_feature > 0 ? feature / problem_feature : 0;
    double total = 0, intercept = 0;
    if (is_zero) {
        memset(f->w, 0, (size_t)d * sizeof(double));
        pegasos_constant_model(f->problem, &f->targets, s->mass, &intercept);
        intercept = f->problem->free_intercept ? intercept : 0;
    } else if (!pegasos_fit_combine(f, f->a, f->w))
        return false;
    if (!is_zero && f->problem->free_intercept
        && !pegasos_fit_score(f, f->w, f->scratch + n, &intercept, f->scratch))
        return false;
    const double scale = 1 / (f->problem->lam * s->mass);
    if (problem_feature > 0)
        intercept = (1 - part * part) * s->intercept;
    for (int64_t i = 0; i < n && !is_zero; i++)
        total += scale * f->a[i] * f->targets.labels[i];
    const double constant = feature * (total - f->problem->loss.nu / f->problem->lam);
    note_change(s, PEGASOS_ASCENT);
    s->n_steps += s->ascent.n_steps;
    s->dual = (pegasos_dual){
        .scale = scale,
        .intercept_scaling = feature,
        .intercept = intercept,
        .factor = 1,
        .generator = f->options->seed,
        .constant_weight = constant,
        .squared_norm = squared_norm_of(f->w, d) + constant * constant,
    };
    activate(f);
    s->dual.pegasos_mass = is_zero ? s->mass : 0;
    s->ascent = (pegasos_ascent){.estimate = INFINITY, .estimate_since_check = INFINITY};
    return true;
}

/* ---- Newton's method ------------------------------------------------------------------------- */

/* A free intercept may have any constant feature, but rounding hides rows that are much smaller
 * than it. Rows of one class may have any size; other rows should be of about 1. */
static double newton_feature(const fit *f)
{
    const pegasos_problem *const p = f->problem;
    if (p->loss.nu != 0)
        return pegasos_constant_feature(p, &f->targets, f->norms, f->s->n_inside);
    return p->free_intercept ? 1 : p->intercept_scaling;
}

/*
 * The numbers that Newton's method begins with, given the best model so far. A change of a_i by c_i
 * moves the score of row i by about |x_i|^2/(lam m):
 *
 *   - A smoothing of the hinge far wider than such a move would let dual variables creep.
 *   - If Huber's epsilon is small, the loss is curved at few rows, which would lead steps astray.
 *     So it is smoothed, too.
 *   - The band may grow up to `widest` where steps are short (see `move` in newton.c). For a large
 *     lam, `widest` is below the first width, with which few steps are short. The log loss has its
 *     own band.
 */
static pegasos_newton first_newton(const fit *f)
{
    const state *const s = f->s;
    const loss_form loss = loss_of(f->problem->loss);
    const double move = mean_norm(&f->targets, f->norms, s->n_inside) / (f->problem->lam * s->mass);
    const bool is_as_it_is = loss_is_smooth(loss) && loss.upper >= NARROW;
    const double least = NARROWEST * fmax(fmin(move, 1), FLATTEST);
    return (pegasos_newton){
        .constant_feature = newton_feature(f),
        .narrowest = fmax(least, OWN_PART * loss.width),
        .widest = loss_is_quadratic(loss) ? WIDEST * move : 0,
        .width = is_as_it_is ? loss_width(loss) : FIRST_WIDTH / loss.upper,
        .dual_objective = isfinite(s->primal) ? s->primal * (1 - s->relative_gap) : -INFINITY,
    };
}

void pegasos_fit_set_newton(fit *f, double intercept)
{
    const pegasos_newton first = first_newton(f);
    const int64_t n = f->rows->n_rows, d = f->rows->n_features;
    const bool is_smoothed = loss_smoothing(loss_of(f->problem->loss), first.width) > 0;
    for (int64_t i = 0; i < n; i++)
        f->centre[i] = is_smoothed ? f->a[i] : 0;
    memcpy(f->point, f->coef, (size_t)d * sizeof(double));
    f->point[d] = first.constant_feature > 0 ? intercept / first.constant_feature : 0;
    f->s->newton = first;
}

/* Takes the best multiple of the model: after an epoch of Pegasos, w can be worse than 0. */
bool pegasos_fit_begin_newton(fit *f)
{
    state *const s = f->s;
    /* For one class, Pegasos's first steps move the intercept by nu/lam even where the rows are
     * small. So find the best intercept for w before scaling w. */
    double *const room = f->problem->loss.nu != 0 ? f->scratch : NULL;
    double intercept = s->intercept, primal;
    if (!pegasos_fit_score(f, f->coef, room, &intercept, f->scores))
        return false;
    pegasos_fit_set_newton(f, intercept);
    if (!pegasos_newton_scale(f, &primal))
        return false;
    note_change(s, PEGASOS_NEWTON);
    if (primal < s->primal)
        pegasos_fit_keep_best(f, f->point, newton_intercept(f), primal, s->newton.dual_objective);
    return true;
}

/* ---- Other data, another lambda -------------------------------------------------------------- */

bool pegasos_fit_begin_at_point(fit *f, int64_t solver)
{
    const int64_t n = f->rows->n_rows;
    bool is_zero = true;
    count_rows(f);
    forget(f->s);
    if (f->s->pending != PEGASOS_BEGIN_AGAIN) /* not to be made feasible twice */
        pegasos_make_feasible(&f->targets, f->problem->free_intercept, f->a, f->a);
    f->s->pending = PEGASOS_BEGIN_AGAIN;
    for (int64_t i = 0; i < n && is_zero; i++)
        is_zero = f->a[i] == 0;
    const bool is_ascent = solver == PEGASOS_ASCENT;
    if (!(is_ascent ? pegasos_fit_begin_ascent(f, is_zero) : pegasos_fit_begin_newton(f)))
        return false;
    f->s->pending = PEGASOS_GO_ON;
    return true;
}

/*
 * Optima change little with lambda. For a smaller lambda, dual variables shrink in proportion to
 * it, so w(a) = 1/(lam m) sum_i a_i y_i x_i stays. For a larger lambda, dual variables stay within
 * their bounds, and w shrinks. No pass over the rows is needed. Epochs are counted from 0.
 */
void pegasos_fit_change_lam(fit *f)
{
    state *s = f->s;
    const int64_t n = f->rows->n_rows, d = f->rows->n_features;
    const double before = s->lam, lam = f->problem->lam;
    const double of_a = lam < before ? lam / before : 1, of_w = lam < before ? 1 : before / lam;
    forget(s);
    for (int64_t i = 0; i < n; i++)
        f->a[i] *= of_a;
    if (s->solver == PEGASOS_NEWTON) {
        s->newton = first_newton(f);
        for (int64_t i = 0; i < n; i++)
            f->centre[i] *= of_a;
    } else {
        for (int64_t j = 0; j < d; j++)
            f->w[j] *= of_w;
        s->dual.scale = 1 / (lam * s->mass);
        const double nu = f->problem->loss.nu, feature = s->dual.intercept_scaling;
        s->dual.constant_weight =
            of_w * (s->dual.constant_weight + feature * nu / before) - feature * nu / lam;
        s->dual.squared_norm *= of_w * of_w;
        activate(f);
        s->ascent = (pegasos_ascent){
            .n_steps = s->ascent.n_steps, .estimate = INFINITY, .estimate_since_check = INFINITY};
    }
    s->lam = lam;
    s->n_epochs = 0;
    memset(s->epochs, 0, sizeof s->epochs);
}
