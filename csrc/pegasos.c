/*
 * pegasos.c - Pegasos for linear machines. For kernel machines, see kernel_pegasos.c.
 *
 * The problem:   min_w  P(w) = lam/2 |w|^2 + 1/m sum_i c_i max(0, 1 - y_i <w, x_i>)
 *
 * (with the hinge; for other losses see below). Step t draws k rows A_t and keeps those that
 * violate the margin, A+ = {i in A_t : y_i <w_t, x_i> < 1}. It follows the sub-gradient of P on A_t
 * with the rate eta_t = 1/(lam t):
 *
 *     w_{t+1} = (1 - eta_t lam) w_t + eta_t/k sum_{A+} y_i x_i                                 (1)
 *
 * Then, if asked to, it projects on a ball that must hold the optimum: |w| <= 1/sqrt(lam) with the
 * hinge (`ball` in src/pegasos/problems/_losses.py has others), w <- min(1, 1/(sqrt(lam) |w|)) w.
 *
 * Another loss l(u), u = z - y <w, x>, has the slope l'(u) where the hinge has 1: A+ are the rows
 * whose slope is not 0, and row i adds l'(u_i) y_i x_i. A row of sample weight c_i adds c_i n/m
 * times that: P divides by m = sum_i c_i, while each of n rows is drawn equally often. n/m is
 * `weight_factor`. With the hinge and weights of 1, both factors are 1.
 *
 * The slope of a smooth loss grows with the error. A step of 1/(lam t) at small t would leap far
 * beyond the optimum, and the next one further back. So its rates begin later: eta_t = 1/(lam (t +
 * t0)), t0 = `delay`, which is 0 for losses with corners. With l'' <= L, the loss on a row has the
 * curvature L c n/m |x|^2, and steps of eta_t <= 1/(L c n/m |x|^2) do not leap. The caller knows
 * the rows, and sets t0 >= L n/m max c |x|^2/lam.
 *
 * The lazy scale. Shrinking w costs O(d) if done in place. But with T = t + t0,
 * 1 - eta_t lam = (T - 1)/T, and these factors telescope: with w_t = v_t / (lam (T - 1)) put
 * into (1),
 *
 *     w_{t+1} = v_{t+1} / (lam T),      v_{t+1} = v_t + 1/k sum_{A+} y_i x_i
 *
 * exactly. The scale is set, never multiplied, so that it cannot drift or underflow. v is a plain
 * sum of rows, which grows like lam t w: in float, lam t k is best kept below 2^22. A step takes
 * time proportional to the nonzeros of the rows it drew. Projection multiplies w by a factor; q is
 * the product of these factors, so that
 *
 *     w_{t+1} = q_t v_{t+1} / (lam T),  v_{t+1} = v_t + 1/(k q_{t-1}) sum_{A+} y_i x_i         (2)
 *
 * and without projection q = 1 throughout. The margin test is y q <v, x> < lam (T - 1), without a
 * division that would round; at t = 1, w = 0, and every row violates its margin.
 *
 * The average of iterates costs no pass over w either: see count_step in step.h, for S and a.
 *
 * Names above: t is the step, k the batch size, u the error. Names below: problem is the number of
 * a problem in its set, i a row, y its label, z its target. The coefficient of a row is the
 * multiple of x that a step adds to v. core.h explains q, v, a and S.
 */
#include "passes.h"
#include "step.h"

#include <math.h>
#include <string.h>

/* ---- The step -------------------------------------------------------------------------------- */

void pegasos_linear_start(pegasos_linear *problem)
{
    *problem = (pegasos_linear){.lam = problem->lam,
                                .weight_factor = problem->weight_factor,
                                .intercept_scaling = problem->intercept_scaling,
                                .free_intercept = problem->free_intercept,
                                .ball = problem->ball,
                                .average_from = problem->average_from,
                                .last_step = problem->last_step,
                                .delay = problem->delay,
                                .q = 1};
}

/* v += r x_i, for the coefficient r, and updates |v|^2 by |v + r x|^2 - |v|^2 = r (<v, x> + <v + r
 * x, x>), which also holds for rows with repeated columns. */
static INLINE void add_with_norm(const row_functions *f, const pegasos_rows *rows,
                                 pegasos_linear *p, int64_t i, double coefficient, void *v)
{
    const double before = f->dot(rows, i, v, i) + p->intercept_scaling * p->constant_weight;
    f->add(rows, i, coefficient, v);
    p->constant_weight += coefficient * p->intercept_scaling;
    const double after = f->dot(rows, i, v, i) + p->intercept_scaling * p->constant_weight;
    p->squared_norm += coefficient * (before + after);
    p->n_norm_updates++;
}

/* v <- q v, q <- 1. */
static void fold(pegasos_linear *p, const pegasos_rows *rows, void *v, void *a)
{
    const int64_t d = rows->n_features, bytes = rows->value_bytes;
    if (p->rate_sum > 0)
        for (int64_t j = 0; j < d; j++)
            set_to(a, bytes, j, get(a, bytes, j) - p->rate_sum * get(v, bytes, j));
    for (int64_t j = 0; j < d; j++)
        set_to(v, bytes, j, p->q * get(v, bytes, j));
    fold_numbers(p);
}

/* Projects in O(1), except for two rare passes over v: its norm is summed again after d additions,
 * before rounding piles up, and q is folded into v before it gets small. */
static void project(pegasos_linear *p, const pegasos_rows *rows, void *v, void *a)
{
    const int64_t d = rows->n_features, bytes = rows->value_bytes;
    if (p->n_norm_updates > d) {
        double sum = 0;
        for (int64_t j = 0; j < d; j++)
            sum += get(v, bytes, j) * get(v, bytes, j);
        p->squared_norm = sum + p->constant_weight * p->constant_weight;
        p->n_norm_updates = 0;
    }
    if (project_on_ball(p))
        fold(p, rows, v, a);
}

/* take_row for row i of a problem. */
static INLINE double take_row_of(const pegasos_rows *rows, const pegasos_linear_set *set,
                                 int64_t problem, pegasos_linear *p, int64_t i, double slope)
{
    const int64_t place = problem * rows->n_rows + i;
    const pegasos_targets *const t = &set->targets;
    return take_row(p, t->labels[place], sample_weight(t->weights, i), slope, set->batch_size,
                    set->counts ? set->counts + place : NULL);
}

/* Ends step t: adds the pending rows to v, projects, and adds the result to the average. */
static INLINE void take_step(const row_functions *f, const pegasos_rows *rows,
                             const pegasos_linear_set *set, int64_t problem, pegasos_linear *p)
{
    const int64_t batch_size = set->batch_size;
    const int64_t *pending = set->pending + problem * batch_size;
    const double *slopes = set->slopes ? set->slopes + problem * batch_size : NULL;
    const int64_t offset = problem * rows->n_features * rows->value_bytes;
    char *v = (char *)set->weights + offset;
    char *a = set->sums ? (char *)set->sums + offset : NULL;
    p->n_steps++;
    for (int64_t j = 0; j < p->n_pending; j++) {
        const int64_t i = pending[j];
        const double coefficient = take_row_of(rows, set, problem, p, i, slopes ? slopes[j] : 1);
        if (p->rate_sum > 0)
            f->add(rows, i, p->rate_sum * coefficient, a);
        if (p->ball > 0) {
            add_with_norm(f, rows, p, i, coefficient, v);
        } else {
            f->add(rows, i, coefficient, v);
            p->constant_weight += coefficient * p->intercept_scaling;
        }
    }
    p->n_pending = 0;
    p->n_drawn = 0;
    if (p->ball > 0)
        project(p, rows, v, a);
    count_step(p, set->targets.loss.nu);
}

/* Rows are prefetched this many draws before they are needed. */
#define PREFETCH_AHEAD 2

/* Runs a problem over `count` draws. `draws` has `ahead` of them, as later rows are prefetched. */
static INLINE void run_problem(const row_functions *f, const pegasos_rows *rows,
                               const pegasos_linear_set *set, int64_t problem, int64_t count,
                               int64_t ahead, const int64_t *draws)
{
    const int64_t batch = problem * set->batch_size;
    const pegasos_targets own = targets_among(&set->targets, set->epsilons, problem);
    const int8_t *labels = own.labels;
    const double *values = own.values;
    const loss_form loss = loss_of(own.loss);
    const void *v = (const char *)set->weights + problem * rows->n_features * rows->value_bytes;
    pegasos_linear p =
        set->problems[problem]; /* a copy that need not go to memory at every change */
    for (int64_t j = 0; j < count && p.n_steps < p.last_step; j++) {
        const int64_t i = draws[j];
        const int64_t next = j + PREFETCH_AHEAD < ahead ? draws[j + PREFETCH_AHEAD] : i;
        const int8_t y = labels[i];
        p.next_draw++;
        if (y == 0)
            continue;
        const double z = values ? values[i] : 1, dot = f->dot(rows, i, v, next);
        if (violates(loss, &p, y, z, dot)) {
            const int64_t place = batch + p.n_pending++;
            set->pending[place] = i;
            if (set->slopes)
                set->slopes[place] = slope_of_violation(loss, &p, y, z, dot);
        }
        if (++p.n_drawn == set->batch_size)
            take_step(f, rows, set, problem, &p);
    }
    set->problems[problem] = p;
}

/* Runs a bundle over draws number first .. first + count - 1, with steps of one draw. A row is
 * added to all problems of the bundle in one call, even if it violates the margin of only one. */
static INLINE void run_bundle(const row_functions *f, const pegasos_rows *rows,
                              const pegasos_linear_set *set, int64_t first, int64_t count,
                              const int64_t *draws)
{
    const int64_t n = rows->n_rows;
    const int size = (int)set->n_problems;
    const loss_form loss = loss_of(set->targets.loss);
    pegasos_linear *p = set->problems;
    for (int64_t j = 0; j < count; j++) {
        const int64_t i = draws[j], next = j + 1 < count ? draws[j + 1] : i;
        double dots[MOST_LANES], coefficients[MOST_LANES] = {0}, averaged[MOST_LANES] = {0};
        bool adds = false, averages = false;
        f->dot_bundle(rows, i, set->weights, f->lanes, f->lanes, next, dots);
        for (int l = 0; l < size; l++) {
            const int8_t y = set->targets.labels[l * n + i];
            if (p[l].next_draw != first + j || p[l].n_steps >= p[l].last_step)
                continue;
            p[l].next_draw++;
            if (y == 0)
                continue;
            const bool violation = violates(loss, &p[l], y, 1, dots[l]);
            const double slope = violation ? slope_of_violation(loss, &p[l], y, 1, dots[l]) : 0;
            p[l].n_steps++;
            if (violation) {
                coefficients[l] = take_row_of(rows, set, l, &p[l], i, slope);
                p[l].constant_weight += coefficients[l] * p[l].intercept_scaling;
                adds = true;
                if (p[l].rate_sum > 0) { /* 0 times an overflow is not 0 */
                    averaged[l] = p[l].rate_sum * coefficients[l];
                    averages = true;
                }
            }
            count_step(&p[l], set->targets.loss.nu);
        }
        if (adds)
            f->add_bundle(rows, i, coefficients, set->weights);
        if (averages)
            f->add_bundle(rows, i, averaged, set->sums);
    }
}

/* ---- Loops for every type of rows ------------------------------------------------------------ */

/* The algorithm with the functions of one type of rows inlined, per instruction set. */
#define DEFINE_DRIVERS(TYPE)                                                                       \
    CLONES static void run_##TYPE(const pegasos_rows *rows, const pegasos_linear_set *set,         \
                                  int64_t problem, int64_t count, int64_t ahead,                   \
                                  const int64_t *draws)                                            \
    {                                                                                              \
        run_problem(&functions_##TYPE, rows, set, problem, count, ahead, draws);                   \
    }
FOR_EVERY_TYPE(DEFINE_DRIVERS)

#define DEFINE_BUNDLE_DRIVER(TYPE)                                                                 \
    CLONES_WIDE static void run_bundle_##TYPE(const pegasos_rows *rows,                            \
                                              const pegasos_linear_set *set, int64_t first,        \
                                              int64_t count, const int64_t *draws)                 \
    {                                                                                              \
        run_bundle(&functions_##TYPE, rows, set, first, count, draws);                             \
    }
FOR_EVERY_SPARSE_TYPE(DEFINE_BUNDLE_DRIVER)

/* The draws that a problem makes before the next problem does. Dense rows are long compared with a
 * weight vector, so a few of them stay in cache while each problem steps on them. A sparse row is
 * short, and a change of problem loads a whole weight vector, so each problem makes many draws. */
#define BLOCK_DENSE  32
#define BLOCK_SPARSE 4096

/* For assertions: whether a problem of a set is in a state that training can reach. */
MAYBE_UNUSED static bool is_reachable(const pegasos_linear *p, const pegasos_linear_set *set,
                                      int64_t problem, int64_t n_rows)
{
    const bool averages = p->average_from > 0 || p->n_averaged > 0 || p->rate_sum > 0;
    return p->lam > 0 && p->q > 0 && p->n_steps >= 0 && p->next_draw >= 0 && p->n_pending >= 0
           && p->n_pending <= p->n_drawn && p->n_drawn < set->batch_size && (set->sums || !averages)
           && !(set->bundled && (p->ball > 0 || set->targets.values)) && p->delay >= 0
           && (set->slopes || set->bundled || set->targets.loss.kind == PEGASOS_HINGE)
           && are_in_range(set->pending + problem * set->batch_size, p->n_pending, 0, n_rows);
}

void pegasos_linear_run(const pegasos_rows *rows, const pegasos_linear_set *set, int64_t first,
                        int64_t count, const int64_t *draws)
{
    assert(are_plausible(rows) && are_in_range(draws, count, 0, rows->n_rows) && first >= 0);
    assert(set->n_problems >= 1 && set->batch_size >= 1);
    for (int64_t problem = 0; problem < set->n_problems; problem++)
        assert(is_reachable(&set->problems[problem], set, problem, rows->n_rows));
    if (set->bundled) {
        assert(rows->index_bytes > 0 && set->batch_size == 1
               && set->n_problems <= BUNDLE_BYTES / rows->value_bytes);
        DISPATCH_SPARSE(run_bundle, rows, set, first, count, draws);
        return;
    }
    const int64_t block = rows->index_bytes == 0 ? BLOCK_DENSE : BLOCK_SPARSE;
    for (int64_t begin = 0; begin < count; begin += block) {
        const int64_t end = begin + block < count ? begin + block : count;
        for (int64_t problem = 0; problem < set->n_problems; problem++) {
            const pegasos_linear *const p = &set->problems[problem];
            const int64_t skip = p->next_draw - first; /* draws that it has read */
            const int64_t from = skip > begin ? skip : begin;
            if (from >= end || p->n_steps >= p->last_step)
                continue;
            DISPATCH(run, rows, set, problem, end - from, count - from, draws + from);
        }
    }
}

/* An upper bound of the numbers that all problems read for a draw. For problems that project, it
 * counts a pass over v at every draw, although such passes are rare. */
static double numbers_of_draw(const pegasos_rows *rows, const pegasos_linear_set *set)
{
    const double row = cost_of_row(rows);
    const double whole = set->problems->ball > 0 ? 2 * (double)rows->n_features : 0;
    return (double)set->n_problems * (2 * row + whole);
}

int pegasos_linear_train(const pegasos_rows *rows, const pegasos_linear_set *set,
                         const pegasos_draws *draws, pegasos_watch *watch)
{
    const double each = numbers_of_draw(rows, set);
    const int64_t most = 1 + (int64_t)fmin(watch->every / each, BLOCK_SPARSE - 1);
    int64_t room[BLOCK_SPARSE];
    assert(are_there(rows, 0, 0) && (!draws->order || draws->order->n_rows == rows->n_rows));
    for (int64_t first; (first = next_draw(set->n_problems, set->problems)) >= 0;) {
        int64_t count = count_draws(set, most);
        const int64_t *drawn = take_draws(draws, first, &count, room);
        if (count == 0)
            break;
        pegasos_linear_run(rows, set, first, count, drawn);
        if (is_to_stop(watch, each * (double)count))
            return PEGASOS_STOPPED;
    }
    return PEGASOS_DONE;
}

/* w = q v/(lam T), or the average (S v - a)/(lam n) of n iterates. */
void pegasos_linear_model(const pegasos_linear *problem, int64_t n_features, int64_t value_bytes,
                          const void *weights, const void *sum, double *coef, double *intercept)
{
    assert(problem->lam > 0 && (sum || problem->n_averaged == 0));
    const pegasos_linear p = *problem;
    const bool average = p.n_averaged > 0;
    const double divisor = p.lam * (average ? (double)p.n_averaged : time_of(&p));
    const double factor = p.n_steps == 0 ? 0 : (average ? p.rate_sum : p.q) / divisor;
    for (int64_t j = 0; j < n_features; j++) {
        double w = factor * get(weights, value_bytes, j);
        if (average)
            w -= get(sum, value_bytes, j) / divisor;
        coef[j] = w;
    }
    const double constant = factor * p.constant_weight - (average ? p.constant_sum / divisor : 0);
    const double free = average ? p.intercept_sum / (double)p.n_averaged : p.intercept;
    *intercept = p.intercept_scaling * constant + free;
}
