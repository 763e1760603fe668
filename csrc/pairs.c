/*
 * pairs.c - dual ascent on a block of a kernel matrix by exact steps on pairs, greedily chosen.
 *
 * Steps on one row at a time (ascent.c) undo each other where rows are near to one another and lam
 * is small. Steps on pairs do not (Steinwart, Hush and Scovel: Training SVMs without offset, JMLR
 * 12, 2011). With h_i = s |x_i|^2, q = s y_i y_j <x_i, x_j> and the slopes u_i = 1 - y_i f(x_i),
 * steps p_i and p_j of two dual variables raise m D by
 *
 *     u_i p_i + u_j p_j - (h_i p_i^2 + 2 q p_i p_j + h_j p_j^2)/2,                             (1)
 *
 * which is highest, within the bounds, at the solution of two equations or on an edge of the box.
 * The first row of a pair is the one whose own step gains most; the second gains most once the
 * first has moved. Each choice is one pass over the block; the first also moves all slopes by the
 * pair before: u_k <- u_k - s y_k (y_i p_i <x_i, x_k> + y_j p_j <x_j, x_k>).
 *
 * The order of rows decides between equal gains: nothing is random here.
 */
#include "loss.h"
#include "rows.h"

#include <math.h>
#include <string.h>

/* Sums and choices in so many lanes, for SIMD. */
#define LANES 8
/* The gap is summed up after so many pairs: a pass beside twice as many. */
#define PAIRS_BEFORE_CHECK 64
/* 1/h where h = 0: then a step ends at a bound. */
#define HUGE_STEP 1e300
/* A pair whose two equations have a determinant below this part of h_i h_j is one row twice. */
#define SINGULAR 1e-12

/* Rows of a block: arrays of m numbers each, and zeros after their ends, for rows that no step
 * moves. */
typedef struct pair_rows {
    int64_t m;
    const double *sign, *weight;       /* y, and c */
    const double *curvature, *inverse; /* h > 0 and 1/h */
    double *a, *slope, *lowest,
        *highest;           /* a, u, and how far a may move: -a, and its bound less a */
    double *first, *second; /* q_k of the rows of a pair with all others */
} pair_rows;

/* A row, and what a step along it alone would gain. */
typedef struct choice {
    int64_t row;
    double gain;
} choice;

static INLINE double smaller(double a, double b)
{
    return a < b ? a : b;
}

static INLINE double larger(double a, double b)
{
    return a > b ? a : b;
}

/* The best step along row k at slope u, within its bounds. */
static INLINE double best_step(const pair_rows *r, int64_t k, double u)
{
    return smaller(larger(u * r->inverse[k], r->lowest[k]), r->highest[k]);
}

/* Keeps the best of each lane, and in which group of rows it was found. */
static INLINE void keep_best(const double *gains, double group, double *best, double *where)
{
    double most[LANES], place[LANES];
    for (int l = 0; l < LANES; l++) {
        place[l] = gains[l] > best[l] ? group : where[l];
        most[l] = gains[l] > best[l] ? gains[l] : best[l];
    }
    memcpy(best, most, sizeof most);
    memcpy(where, place, sizeof place);
}

#define OF_LANES(f, x) f(f(f(x[0], x[1]), f(x[2], x[3])), f(f(x[4], x[5]), f(x[6], x[7])))

/* The best of all lanes, which of several is the first; groups begin at where[l]. */
static INLINE choice best_of_lanes(const double *best, const double *where)
{
    const double most = OF_LANES(larger, best);
    double rows[LANES];
    for (int l = 0; l < LANES; l++)
        rows[l] = best[l] == most ? where[l] + l : INFINITY;
    return (choice){.row = (int64_t)OF_LANES(smaller, rows), .gain = most};
}

/* Moves the slopes of all rows by -(p x_k + t z_k), and finds the row that gains most by a step of
 * its own. */
CLONES_WIDE static void move_and_choose(const pair_rows *r, double p, double t, choice *out)
{
    const double *restrict x = r->first, *restrict z = r->second;
    const double *restrict curvature = r->curvature, *restrict inverse = r->inverse;
    const double *restrict lowest = r->lowest, *restrict highest = r->highest;
    double *restrict slope = r->slope, best[LANES] = {0}, where[LANES] = {0};
    for (int64_t k = 0; k < r->m; k += LANES) {
        double moved[LANES], gains[LANES];
        for (int l = 0; l < LANES; l++) {
            const double u = slope[k + l] - (p * x[k + l] + t * z[k + l]);
            const double far = larger(u * inverse[k + l], lowest[k + l]);
            const double step = smaller(far, highest[k + l]);
            gains[l] = step * (u - 0.5 * curvature[k + l] * step);
            moved[l] = u;
        }
        memcpy(slope + k, moved, sizeof moved);
        keep_best(gains, (double)k, best, where);
    }
    *out = best_of_lanes(best, where);
}

/*
 * The row that gains most once row i has made its own step, which moves the slopes of others by
 * -q_k step. If row i is free to follow, the curvature along row k is h_k - q_k^2/h_i: `shared` is
 * 1/h_i then, else 0.
 */
CLONES_WIDE static void choose_partner(const pair_rows *r, double step_of_i, double shared,
                                       choice *out)
{
    const double *restrict q = r->first, *restrict slope = r->slope;
    const double *restrict curvature = r->curvature;
    const double *restrict lowest = r->lowest, *restrict highest = r->highest;
    double best[LANES] = {0}, where[LANES] = {0};
    for (int64_t k = 0; k < r->m; k += LANES) {
        double gains[LANES];
        for (int l = 0; l < LANES; l++) {
            const double u = slope[k + l] - q[k + l] * step_of_i, h = curvature[k + l];
            const double left = larger(h - q[k + l] * q[k + l] * shared, SINGULAR * h);
            const double step = smaller(larger(u / left, lowest[k + l]), highest[k + l]);
            gains[l] = step * (u - 0.5 * left * step);
        }
        keep_best(gains, (double)k, best, where);
    }
    *out = best_of_lanes(best, where);
}

/* q_k = y_k t (<x_i, x_k> + constant), for all k. */
#define DEFINE_READ_COLUMN(VALUE)                                                                  \
    CLONES_WIDE static void read_##VALUE##s(int64_t m, const VALUE *restrict column,               \
                                            const double *restrict sign, double t,                 \
                                            double constant, double *restrict q)                   \
    {                                                                                              \
        const int64_t full = m - m % LANES;                                                        \
        for (int64_t k = 0; k < full; k += LANES)                                                  \
            for (int l = 0; l < LANES; l++)                                                        \
                q[k + l] = sign[k + l] * (t * ((double)column[k + l] + constant));                 \
        for (int64_t k = full; k < m; k++)                                                         \
            q[k] = sign[k] * (t * ((double)column[k] + constant));                                 \
    }
DEFINE_READ_COLUMN(float)
DEFINE_READ_COLUMN(double)

/* The same for row i of the block, with t = s y_i. */
static void read_column(const pegasos_rows *block, const pair_rows *r, int64_t i, double scale,
                        double constant, double *q)
{
    const int64_t place = ((const int64_t *)block->indptr)[i] * block->n_rows;
    const double t = scale * r->sign[i];
    if (block->column_bytes == 4)
        read_floats(r->m, (const float *)block->values + place, r->sign, t, constant, q);
    else
        read_doubles(r->m, (const double *)block->values + place, r->sign, t, constant, q);
}

/* m (P - D) of the block. */
static INLINE double sum_gaps(const pair_rows *r, int64_t loss)
{
    double lane[LANES] = {0}, sum = 0;
    for (int64_t k = 0; k < r->m; k += LANES)
        for (int l = 0; l < LANES; l++) {
            const double a = r->a[k + l], c = r->weight[k + l];
            const double u = r->slope[k + l] + loss_diagonal(loss, c) * a;
            lane[l] += loss_gap(loss, a, c, u);
        }
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

static double gap_of(const pair_rows *r, int64_t loss)
{
    double gap = 0;
    WITH_LOSS(loss, gap = sum_gaps(r, LOSS));
    return gap;
}

/* (1). */
static double pair_gain(const pair_rows *r, int64_t i, int64_t j, double q, const double *step)
{
    const double hi = r->curvature[i], hj = r->curvature[j], p = step[0], t = step[1];
    return r->slope[i] * p + r->slope[j] * t - 0.5 * (hi * p * p + 2 * q * p * t + hj * t * t);
}

/* The steps of rows i and j that raise (1) most, within bounds. */
static void pair_steps(const pair_rows *r, int64_t i, int64_t j, double q, double *step)
{
    const double hi = r->curvature[i], hj = r->curvature[j], ui = r->slope[i], uj = r->slope[j];
    const double least[2] = {r->lowest[i], r->lowest[j]};
    const double most[2] = {r->highest[i], r->highest[j]};
    const double determinant = hi * hj - q * q;
    if (determinant > SINGULAR * hi * hj) {
        step[0] = (hj * ui - q * uj) / determinant;
        step[1] = (hi * uj - q * ui) / determinant;
        if (step[0] >= least[0] && step[0] <= most[0] && step[1] >= least[1] && step[1] <= most[1])
            return;
    }
    double best = -INFINITY;
    for (int edge = 0; edge < 4; edge++) {
        const double end = edge % 2 ? most[edge / 2] : least[edge / 2];
        const double on_i[2] = {end, best_step(r, j, uj - q * end)};
        const double on_j[2] = {best_step(r, i, ui - q * end), end};
        const double *found = edge < 2 ? on_i : on_j;
        const double gain = pair_gain(r, i, j, q, found);
        if (gain > best) {
            best = gain;
            step[0] = found[0];
            step[1] = found[1];
        }
    }
}

/* Moves a_k, and returns by how much. At a bound it is that bound, to the last bit. */
static double move(const pair_rows *r, int64_t loss, int64_t k, double step)
{
    const double before = r->a[k], bound = loss_bound(loss, r->weight[k]);
    if (step <= r->lowest[k])
        r->a[k] = 0;
    else if (step >= r->highest[k])
        r->a[k] = bound;
    else
        r->a[k] = before + step;
    const double change = r->a[k] - before;
    r->lowest[k] = -r->a[k];
    r->highest[k] = bound - r->a[k];
    r->slope[k] -= loss_diagonal(loss, r->weight[k]) * change; /* the rest follows with all rows */
    return change;
}

static pair_rows rows_in(double *room, const pegasos_rows *block, int64_t loss, double scale,
                         double constant, const int8_t *labels, const double *bounds,
                         const double *norms, const double *a, const double *slopes)
{
    const int64_t m = block->n_rows, size = m + LANES;
    double *sign = room, *weight = room + size, *curvature = room + 2 * size;
    double *inverse = room + 3 * size;
    const pair_rows r = {.m = m,
                         .sign = sign,
                         .weight = weight,
                         .curvature = curvature,
                         .inverse = inverse,
                         .a = room + 4 * size,
                         .slope = room + 5 * size,
                         .lowest = room + 6 * size,
                         .highest = room + 7 * size,
                         .first = room + 8 * size,
                         .second = room + 9 * size};
    memset(room, 0, (size_t)(PEGASOS_PAIRS_ARRAYS * size) * sizeof(double));
    for (int64_t k = 0; k < size; k++)
        curvature[k] = inverse[k] = 1;
    for (int64_t k = 0; k < m; k++) {
        r.a[k] = a[k];
        if (labels[k] == 0)
            continue;
        sign[k] = labels[k];
        weight[k] = bounds ? bounds[k] : 1;
        const double norm = norms[k] + constant;
        curvature[k] = larger(scale * norm + loss_diagonal(loss, weight[k]), 1 / HUGE_STEP);
        inverse[k] = 1 / curvature[k];
        r.slope[k] = slopes[k];
        r.lowest[k] = -a[k];
        r.highest[k] = loss_bound(loss, weight[k]) - a[k];
    }
    return r;
}

/* The partner of row i, of which a step of its own would be `step`. */
static choice partner_of(const pair_rows *r, int64_t i, double step)
{
    const bool is_free = r->lowest[i] < step && step < r->highest[i];
    choice partner;
    choose_partner(r, step, is_free ? r->inverse[i] : 0, &partner);
    return partner;
}

int64_t pegasos_pairs_run(const pegasos_rows *block, int64_t loss, double scale, double feature,
                          const int8_t *labels, const double *bounds, const double *norms,
                          double *a, double *slopes, double enough, int64_t first_step,
                          int64_t most, double *room, double *gap)
{
    const int64_t m = block->n_rows, *place = block->indptr;
    const double constant = feature * feature;
    assert(are_plausible(block) && block->index_bytes == PEGASOS_KERNEL && scale > 0);
    const pair_rows r =
        rows_in(room, block, loss, scale, constant, labels, bounds, norms, a, slopes);
    int64_t done = 0;
    choice first;
    move_and_choose(&r, 0, 0, &first);
    while (done < most && first.gain > 0) {
        /* Wherever a run is cut, steps end at the same one. */
        if ((first_step + done) % PAIRS_BEFORE_CHECK == 0 && gap_of(&r, loss) <= enough)
            break;
        const int64_t i = first.row;
        if (place[i] < 0) {
            block->wanted[i] = 1;
            break;
        }
        double steps[2] = {best_step(&r, i, r.slope[i]), 0};
        read_column(block, &r, i, scale, constant, r.first);
        const choice partner = partner_of(&r, i, steps[0]);
        const int64_t j = partner.row;
        const bool is_pair = j != i && partner.gain > 0;
        if (is_pair && place[j] < 0) {
            block->wanted[j] = 1;
            break;
        }
        double t = 0;
        if (is_pair) {
            pair_steps(&r, i, j, r.first[j], steps);
            read_column(block, &r, j, scale, constant, r.second);
            t = move(&r, loss, j, steps[1]);
        }
        const double p = move(&r, loss, i, steps[0]);
        move_and_choose(&r, p, t, &first);
        done++;
    }
    *gap = gap_of(&r, loss);
    memcpy(a, r.a, (size_t)m * sizeof(double));
    for (int64_t k = 0; k < m; k++)
        slopes[k] = labels[k] == 0 ? slopes[k] : r.slope[k];
    return done;
}
