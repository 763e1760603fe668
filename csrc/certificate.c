/*
 * certificate.c - primal and dual objective of one problem, which prove how good a model is.
 *
 *     P(w, b) = lam/2 |w|^2 + 1/m sum_i c_i l(u_i),      u_i = z_i - y_i (<w, x_i> + b)
 *     D(a) = 1/m sum_i (z_i a_i - c_i l*(a_i/c_i)) - lam/2 |w(a)|^2
 *     w(a) = 1/(lam m) sum_i a_i y_i x_i
 *
 * (loss.h has l, l* and the bounds of a_i). For any w, b and feasible a, P - D >= P - min P >= 0.
 * Feasible means that a_i is within its bounds and, if the intercept is free, that
 * sum_i a_i y_i = 0. One class has the term nu b in P, and sum_i a_i = nu m. Sums run over the rows
 * in order.
 */
#include "loss.h"
#include "rows.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* An infinite score could seem to be far on the right side of a margin. f - f shows it: this is NaN
 * for an infinite score, and 0 for numbers. */
static INLINE double loss_term(double c, double loss, double f)
{
    return (c > 0 ? c * loss : 0) + (f - f);
}

/* Computes losses side by side, and adds them up one by one. */
CLONES_WIDE static double sum_log_losses(const pegasos_targets *t, int64_t first, int64_t count,
                                         const double *scores, int64_t stride, double sum)
{
    for (int64_t k = 0; k < count; k += LOSS_LANES) {
        const int n = (int)min_of(count - k, LOSS_LANES);
        double f[LOSS_LANES] = {0}, c[LOSS_LANES] = {0}, values[LOSS_LANES] = {0};
        for (int l = 0; l < n; l++) {
            f[l] = scores[(k + l) * stride];
            c[l] = weight_at(t, first + k + l);
            values[l] = error_at(t, first + k + l, f[l]);
        }
        for (int l = 0; l < LOSS_LANES; l++)
            values[l] = loss_value(LOG_LOSS_FORM, values[l]);
        for (int l = 0; l < n; l++)
            sum += loss_term(c[l], values[l], f[l]);
    }
    return sum;
}

double pegasos_loss_sum(const pegasos_targets *t, int64_t first, int64_t count,
                        const double *scores, int64_t stride, double sum)
{
    const loss_form loss = loss_of(t->loss);
    assert(count >= 0 && first >= 0 && first + count <= t->n);
    if (!loss_is_quadratic(loss))
        return sum_log_losses(t, first, count, scores, stride, sum);
    WITH_LOSS(
        loss, for (int64_t k = 0; k < count; k++) {
            const double f = scores[k * stride], u = error_at(t, first + k, f);
            sum += loss_term(weight_at(t, first + k), loss_value(LOSS, u), f);
        });
    return sum;
}

/* The b at which a row meets its margin; and its label times its weight. */
typedef struct breakpoint {
    double b, weight;
} breakpoint;

/* Merges two sorted lists, from[0 .. middle - 1] and from[middle .. end - 1]. */
static void merge(const breakpoint *from, int64_t middle, int64_t end, breakpoint *to)
{
    for (int64_t i = 0, j = middle, k = 0; k < end; k++)
        to[k] = i < middle && (j == end || from[i].b <= from[j].b) ? from[i++] : from[j++];
}

/* Sorts n breakpoints, and returns the one of the two arrays that has them in the end. */
static const breakpoint *sort(int64_t n, breakpoint *breakpoints, breakpoint *other)
{
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * width) {
            const int64_t left = n - begin, middle = min_of(width, left);
            merge(breakpoints + begin, middle, min_of(2 * width, left), other + begin);
        }
        breakpoint *const sorted = other;
        other = breakpoints;
        breakpoints = sorted;
    }
    return breakpoints;
}

/*
 * sum_i c_i max(0, 1 - y_i (f_i + b)) is convex in b, and linear between breakpoints b = y_i - f_i,
 * where a row meets its margin. Its slope begins at minus the weight of the positive rows and grows
 * by c_i at each breakpoint; nu b adds nu `weight`. The best b are those from where the slope
 * reaches 0 to where it leaves 0, up to the rounding of `count` additions.
 */
static double best_of_hinges(int64_t count, const breakpoint *breakpoints, double weight,
                             double positive, double nu)
{
    const double rounding = (double)count * DBL_EPSILON * weight;
    double total = 0, slope = 0, sum_of_ends = 0;
    int64_t first = -1, last = -1, n_ends = 0;
    for (int64_t j = 0; j <= count; j++) { /* the slope on the left of places[j] */
        slope = total - positive + nu * weight;
        first = first < 0 && slope >= -rounding ? j : first;
        last = last < 0 && slope > rounding ? j : last;
        total += j < count ? fabs(breakpoints[j].weight) : 0;
    }
    if (first > 0)
        sum_of_ends += breakpoints[first - 1].b, n_ends++;
    if (last > 0)
        sum_of_ends += breakpoints[last - 1].b, n_ends++;
    return n_ends > 0 ? sum_of_ends / (double)n_ends : 0;
}

/* The slope in b of sum_i c_i l(u_i), and its derivative; `scores` may be NULL: all 0. */
CLONES_WIDE static double slope_in_intercept(const pegasos_targets *t, const double *scores,
                                             double b, double *curvature)
{
    enum { ROWS = TARGETS_READ, LANES = LOSS_LANES };
    const loss_form l = loss_of(t->loss);
    double slopes[LANES] = {0}, curvatures[LANES] = {0}, slope = 0;
    double y[ROWS], z[ROWS], c[ROWS], u[ROWS], f[ROWS] = {0};
    for (int64_t first = 0; first < t->n; first += ROWS) {
        const int64_t count = min_of(t->n - first, ROWS);
        read_targets(t, first, count, y, z, c);
        if (scores)
            memcpy(f, scores + first, (size_t)count * sizeof(double));
        for (int64_t i = 0; i < ROWS; i++) /* rows outside may have any score */
            u[i] = y[i] != 0 ? z[i] - y[i] * f[i] : 0;
        for (int64_t i = 0; i < count; i += LANES) {
            double p[LANES], second[LANES];
            for (int k = 0; k < LANES; k++)
                u[i + k] -= y[i + k] * b;
            loss_slopes(l, u + i, p, second);
            for (int k = 0; k < LANES; k++)
                slopes[k] += c[i + k] * y[i + k] * p[k];
            for (int k = 0; k < LANES; k++)
                curvatures[k] += c[i + k] * (y[i + k] * y[i + k]) * second[k];
        }
    }
    *curvature = 0;
    for (int k = 0; k < LANES; k++) {
        slope -= slopes[k];
        *curvature += curvatures[k];
    }
    return slope;
}

/* For the squared error, the slope is a line. One step from 0 leads to its root, and a second one
 * corrects the rounding of the first. */
static double best_of_squares(const pegasos_targets *t, const double *scores, double penalty)
{
    double b = 0, curvature;
    for (int k = 0; k < 2; k++) {
        const double slope = slope_in_intercept(t, scores, b, &curvature) + penalty * b;
        b -= slope == 0 ? 0 : slope / (curvature + penalty); /* the slope is 0 without rows */
    }
    return isfinite(b) ? b : NAN;
}

/*
 * The b at which sum_i c_i l(u_i) + penalty/2 b^2 is least, for any loss. The slope grows with b,
 * and Newton's method finds its root, kept between points to its left and right. If all rows are of
 * one class, the log loss has no root; b ends where no score is within LOSS_FAR of 0.
 */
static double best_by_slopes(const pegasos_targets *t, const double *scores, double penalty)
{
    const loss_form l = loss_of(t->loss);
    const double far = loss_is_quadratic(l) ? 0 : LOSS_FAR;
    if (l.kind == PEGASOS_SQUARED_ERROR)
        return best_of_squares(t, scores, penalty);
    double low = penalty > 0 ? 0 : INFINITY, high = penalty > 0 ? 0 : -INFINITY;
    for (int64_t i = 0; i < t->n; i++) { /* u_i = 0 where b = y_i z_i - f_i */
        const double at = t->labels[i] * value_at(t, i) - (scores ? scores[i] : 0);
        low = t->labels[i] != 0 && at < low ? at : low;
        high = t->labels[i] != 0 && at > high ? at : high;
    }
    if (!(isfinite(low) && isfinite(high)))
        return low == INFINITY && high == -INFINITY ? 0 : NAN; /* no rows, or an overflow */
    low -= far;
    high += far;
    /* The rounding of b in the errors u, however small b itself is. */
    const double rounding = DBL_EPSILON * (fabs(low) + fabs(high));
    /* Ends that were not tried are inside, so that a step may lead there. Steps to earlier points
     * are refused, as two points could lead to each other. */
    low -= rounding;
    high += rounding;
    double b = low + (high - low) / 2;
    enum { STEPS = 200 };
    for (int k = 0; k < STEPS && high - low > rounding; k++) {
        double curvature;
        const double slope = slope_in_intercept(t, scores, b, &curvature) + penalty * b;
        if (slope == 0)
            break;
        *(slope < 0 ? &low : &high) = b;
        const double steepness = curvature + penalty, better = b - slope / steepness;
        const bool is_inside = steepness > 0 && low < better && better < high;
        /* This includes b itself, which is an end by now. */
        const bool is_near = steepness > 0 && fabs(better - b) <= rounding;
        b = is_inside || is_near ? better : low + (high - low) / 2;
        if (is_near)
            break;
    }
    return b;
}

double pegasos_best_intercept(const pegasos_targets *t, const double *scores, double *scratch)
{
    breakpoint *const unsorted = (breakpoint *)scratch;
    double total = 0, positive = 0;
    int64_t count = 0;
    if (t->loss.kind != PEGASOS_HINGE)
        return best_by_slopes(t, scores, 0);
    for (int64_t i = 0; i < t->n; i++) {
        const double y = t->labels[i], c = weight_at(t, i);
        if (y == 0)
            continue;
        unsorted[count++] = (breakpoint){y - scores[i], y * c};
        total += c;
        positive += y > 0 ? c : 0;
    }
    const breakpoint *const breakpoints = sort(count, unsorted, unsorted + t->n);
    return best_of_hinges(count, breakpoints, total, positive, t->loss.nu);
}

/* The best constant for labels, which depends only on their weighted mean. */
static double best_of_labels(pegasos_loss loss, double balance, double penalty)
{
    const int8_t labels[] = {1, -1};
    const double weights[] = {(1 + balance) / 2, (1 - balance) / 2};
    const pegasos_targets two = {2, labels, NULL, weights, loss};
    if (loss.kind != PEGASOS_HINGE)
        return best_by_slopes(&two, NULL, penalty);
    return penalty > 0 ? clamp(balance / penalty, -1, 1) : (balance > 0) - (balance < 0);
}

double pegasos_best_constant(const pegasos_targets *t, double mass, double penalty, double *least)
{
    const loss_form l = loss_of(t->loss);
    double sum = 0, b;
    if (!loss_has_labels(t->loss.kind)) {
        b = penalty < INFINITY ? best_by_slopes(t, NULL, penalty * mass) : 0;
        *least = pegasos_loss_sum(t, 0, t->n, &b, 0, 0) / mass + (b != 0 ? penalty / 2 * b * b : 0);
        return b;
    }
    for (int64_t i = 0; i < t->n; i++)
        sum += weight_at(t, i) * t->labels[i];
    const double balance = sum / mass;
    b = penalty < INFINITY ? best_of_labels(t->loss, balance, penalty) : 0;
    *least = ((1 + balance) * loss_value(l, 1 - b) + (1 - balance) * loss_value(l, 1 + b)
              + (b != 0 ? penalty * b * b : 0))
                 / 2
             + t->loss.nu * b;
    return b;
}

pegasos_nu_rescaling pegasos_nu_rescaling_of(const pegasos_targets *t, const double *a)
{
    double mass = 0, inside = 0, room = 0, full = 0;
    for (int64_t i = 0; i < t->n; i++) {
        const double c = weight_at(t, i);
        mass += c;
        full += a[i] >= c ? c : 0;
        inside += a[i] < c ? a[i] : 0;
        room += 0 < a[i] && a[i] < c ? c - a[i] : 0;
    }
    const double wanted = t->loss.nu * mass;
    double lack = wanted - full - inside;
    if (full + inside <= 0)
        return (pegasos_nu_rescaling){t->n, t->loss.nu, 0, 1, 0, 1};
    if (lack < 0 && inside + lack >= 0)
        return (pegasos_nu_rescaling){0, 0, 0, (inside + lack) / inside, 0, 1};
    if (lack < 0)
        return (pegasos_nu_rescaling){0, 0, 0, 0, 0, wanted / full};
    if (lack <= room)
        return (pegasos_nu_rescaling){0, 0, 0, 1, room > 0 ? lack / room : 0, 1};
    lack -= room;
    int64_t from = 0;
    for (; from < t->n; from++) {
        const double c = a[from] <= 0 ? weight_at(t, from) : 0;
        if (c > 0 && c >= lack)
            return (pegasos_nu_rescaling){from, 1, lack / c, 1, 1, 1};
        lack -= c;
    }
    return (pegasos_nu_rescaling){from, 1, 0, 1, 1, 1};
}

void pegasos_make_feasible(const pegasos_targets *t, int64_t balance, const double *a,
                           double *feasible)
{
    const loss_form l = loss_of(t->loss);
    double positive = 0, negative = 0; /* sums of a_i y_i > 0, and of the others */
    for (int64_t i = 0; i < t->n; i++) {
        feasible[i] = t->labels[i] != 0 ? loss_clip(l, a[i], sample_weight(t->weights, i)) : 0;
        const double signed_a = feasible[i] * t->labels[i];
        positive += signed_a > 0 ? signed_a : 0;
        negative += signed_a < 0 ? -signed_a : 0;
    }
    if (!balance)
        return;
    if (t->loss.nu != 0) { /* one class */
        const pegasos_nu_rescaling rescaling = pegasos_nu_rescaling_of(t, feasible);
        for (int64_t i = 0; i < t->n; i++)
            feasible[i] = nu_rescaled(rescaling, i, feasible[i], weight_at(t, i));
        return;
    }
    if (positive == negative)
        return;
    const double sign = positive > negative ? 1 : -1;
    const double factor = positive > negative ? negative / positive : positive / negative;
    for (int64_t i = 0; i < t->n; i++)
        feasible[i] *= sign * feasible[i] * t->labels[i] > 0 ? factor : 1;
}

/* For a piecewise quadratic loss, D(r a) = r A - r^2 B with A = sum_i (z_i a_i - dead |a_i|)/m and
 * B = lam/2 |w(a)|^2 + sum_i h_i a_i^2/(2m). It is highest at r = A/(2 B), if bounds allow it. */
double pegasos_best_dual(const pegasos_targets *t, const double *a, double squared_norm,
                         double mass, double lam, int64_t scaled)
{
    const loss_form l = loss_of(t->loss);
    const bool is_bounded = isfinite(l.upper);
    double sum = 0, part = 0, smoothing = 0;
    for (int64_t i = 0; i < t->n; i++) {
        const double c = t->weights && t->weights[i] > 0 ? t->weights[i] : 1;
        const double linear = value_at(t, i) * a[i];
        if (!loss_is_quadratic(l)) {
            sum += linear - loss_conjugate(l, a[i], c);
            continue;
        }
        if (is_bounded) {
            const double share = a[i] / (a[i] < 0 ? loss_lower(l, c) : loss_upper(l, c));
            part = share > part ? share : part;
        }
        sum += l.dead == 0 ? linear : linear - l.dead * fabs(a[i]);
        smoothing += l.width > 0 ? loss_diagonal(l, c) * a[i] * a[i] / 2 : 0;
    }
    const double first = sum / mass, second = lam / 2 * squared_norm + smoothing / mass;
    double r = 1;
    scaled = scaled && t->loss.nu == 0; /* else only a itself has the right sum */
    if (scaled && first <= 0 && loss_is_quadratic(l))
        return 0; /* D at a = 0 */
    if (scaled && first > 0 && loss_is_quadratic(l)) {
        const double most = 1 / part, best = second > 0 ? first / (2 * second) : most;
        r = best < most ? best : most;
    }
    return isfinite(r) ? r * first - r * r * second : first - second;
}
