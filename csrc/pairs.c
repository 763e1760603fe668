/*
 * pairs.c - dual ascent on a block of a kernel matrix by exact steps on pairs, greedily chosen.
 *
 * Steps on one row at a time (ascent.c) undo each other where rows are near to one another and lam is
 * small. Steps on pairs do not (Steinwart, Hush and Scovel: Training SVMs without offset, JMLR 12,
 * 2011). With h_i = s |x_i|^2, q = s y_i y_j <x_i, x_j> and the slopes u_i = 1 - y_i f(x_i), steps
 * p_i and p_j of two dual variables raise m D by
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

/* Rows of a block; arrays of m numbers each. */
typedef struct pair_rows {
    int64_t m;
    const double *sign, *bound, *curvature, *inverse; /* y, upper bound of a, h and 1/h */
    const double *weight;                             /* c */
    double *a, *slope;                                /* a and u */
} pair_rows;

/* A row, and what a step along it alone would gain. */
typedef struct choice {
    int64_t row;
    double gain;
} choice;

/* The best step along row k at slope u, within its bounds. */
static INLINE double best_step(const pair_rows *r, int64_t k, double u)
{
    const double least = -r->a[k], most = r->bound[k] - r->a[k];
    double step = u * r->inverse[k];
    step = step < least ? least : step;
    return step > most ? most : step;
}

/* The best of lanes; lane l found its own in the group of rows that begins at groups[l]. */
static choice best_of_lanes(const double *gains, const double *groups)
{
    choice best = {.row = (int64_t)groups[0], .gain = gains[0]};
    for (int l = 1; l < LANES; l++) {
        const int64_t row = (int64_t)groups[l] + l;
        if (gains[l] > best.gain || (gains[l] == best.gain && row < best.row))
            best = (choice){.row = row, .gain = gains[l]};
    }
    return best;
}

/*
 * Moves the slopes of all rows by -y_k (p x_k + q z_k + r), where x and z are columns i and j, and
 * finds the row that gains most by a step of its own.
 */
#define DEFINE_MOVE_AND_CHOOSE(VALUE)                                                              \
    CLONES_WIDE static void move_and_choose_##VALUE(                                               \
        const pair_rows *rows, const VALUE *restrict x, double p, const VALUE *restrict z,         \
        double q, double r, choice *out)                                                           \
    {                                                                                              \
        const double *restrict sign = rows->sign, *restrict bound = rows->bound;                   \
        const double *restrict curvature = rows->curvature, *restrict inverse = rows->inverse;     \
        const double *restrict a = rows->a;                                                        \
        double *restrict slope = rows->slope, best[LANES] = {0}, where[LANES] = {0};               \
        const int64_t full = rows->m - rows->m % LANES;                                            \
        VALUE last_x[LANES] = {0}, last_z[LANES] = {0};                                            \
        memcpy(last_x, x + full, (size_t)(rows->m - full) * sizeof(VALUE));                        \
        memcpy(last_z, z + full, (size_t)(rows->m - full) * sizeof(VALUE));                        \
        for (int64_t k = 0; k < rows->m; k += LANES) {                                             \
            const VALUE *restrict some = k < full ? x + k : last_x;                                \
            const VALUE *restrict others = k < full ? z + k : last_z;                              \
            double here[LANES];                                                                    \
            for (int l = 0; l < LANES; l++) {                                                      \
                const double moved = p * (double)some[l] + q * (double)others[l] + r;              \
                const double u = slope[k + l] - sign[k + l] * moved;                               \
                const double least = -a[k + l], most = bound[k + l] - a[k + l];                    \
                double step = u * inverse[k + l];                                                  \
                step = step < least ? least : step;                                                \
                step = step > most ? most : step;                                                  \
                const double gain = step * (u - 0.5 * curvature[k + l] * step);                    \
                here[l] = u;                                                                       \
                where[l] = gain > best[l] ? (double)k : where[l];                                  \
                best[l] = gain > best[l] ? gain : best[l];                                         \
            }                                                                                      \
            memcpy(slope + k, here, sizeof here);                                                  \
        }                                                                                          \
        *out = best_of_lanes(best, where);                                                         \
    }
DEFINE_MOVE_AND_CHOOSE(float)
DEFINE_MOVE_AND_CHOOSE(double)

/*
 * The row that gains most once row i has made its own step, which moves the slopes of others by
 * -q_k step with q_k = y_k (t x_k + r). If row i is `free` to follow, the curvature along row k is
 * h_k - q_k^2/h_i: `shared` is 1/h_i then, else 0.
 */
#define DEFINE_CHOOSE_PARTNER(VALUE)                                                               \
    CLONES_WIDE static void choose_partner_##VALUE(const pair_rows *rows, const VALUE *restrict x, \
                                                   double t, double r, double step_of_i,           \
                                                   double shared, choice *out)                     \
    {                                                                                              \
        const double *restrict sign = rows->sign, *restrict bound = rows->bound;                   \
        const double *restrict curvature = rows->curvature, *restrict slope = rows->slope;         \
        const double *restrict a = rows->a;                                                        \
        double best[LANES] = {0}, where[LANES] = {0};                                              \
        const int64_t full = rows->m - rows->m % LANES;                                            \
        VALUE last[LANES] = {0};                                                                   \
        memcpy(last, x + full, (size_t)(rows->m - full) * sizeof(VALUE));                          \
        for (int64_t k = 0; k < rows->m; k += LANES) {                                             \
            const VALUE *restrict some = k < full ? x + k : last;                                  \
            for (int l = 0; l < LANES; l++) {                                                      \
                const double q = sign[k + l] * (t * (double)some[l] + r);                          \
                const double u = slope[k + l] - q * step_of_i, h = curvature[k + l];               \
                const double alone = h - q * q * shared, floor = SINGULAR * h + 1 / HUGE_STEP;     \
                const double left = alone > floor ? alone : floor;                                 \
                const double least = -a[k + l], most = bound[k + l] - a[k + l];                    \
                double step = u / left;                                                            \
                step = step < least ? least : step;                                                \
                step = step > most ? most : step;                                                  \
                const double gain = step * (u - 0.5 * left * step);                                \
                where[l] = gain > best[l] ? (double)k : where[l];                                  \
                best[l] = gain > best[l] ? gain : best[l];                                         \
            }                                                                                      \
        }                                                                                          \
        *out = best_of_lanes(best, where);                                                         \
    }
DEFINE_CHOOSE_PARTNER(float)
DEFINE_CHOOSE_PARTNER(double)

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
    const double least[2] = {-r->a[i], -r->a[j]};
    const double most[2] = {r->bound[i] - r->a[i], r->bound[j] - r->a[j]};
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
    const double before = r->a[k], most = r->bound[k];
    if (step <= -before)
        r->a[k] = 0;
    else if (step >= most - before)
        r->a[k] = most;
    else
        r->a[k] = before + step;
    const double change = r->a[k] - before;
    r->slope[k] -= loss_diagonal(loss, r->weight[k]) * change; /* the rest follows with all rows */
    return change;
}

/* Arrays of `room`, with zeros after their ends: rows that no step moves. */
static pair_rows rows_in(double *room, const pegasos_rows *block, int64_t loss, double scale,
                         const int8_t *labels, const double *bounds, const double *norms,
                         const double *a, const double *slopes)
{
    const int64_t m = block->n_rows, size = m + LANES;
    double *sign = room, *bound = room + size, *curvature = room + 2 * size;
    double *inverse = room + 3 * size, *own = room + 4 * size, *slope = room + 5 * size;
    double *weight = room + 6 * size;
    memset(room, 0, (size_t)(PEGASOS_PAIRS_ARRAYS * size) * sizeof(double));
    for (int64_t k = 0; k < m; k++) {
        sign[k] = labels[k];
        weight[k] = labels[k] == 0 ? 0 : bounds ? bounds[k] : 1;
        bound[k] = labels[k] == 0 ? a[k] : loss_bound(loss, weight[k]);
        curvature[k] = scale * norms[k] + loss_diagonal(loss, weight[k]);
        inverse[k] = curvature[k] > 0 ? 1 / curvature[k] : HUGE_STEP;
        own[k] = a[k];
        slope[k] = labels[k] == 0 ? 0 : slopes[k];
    }
    return (pair_rows){.m = m,
                       .sign = sign,
                       .bound = bound,
                       .curvature = curvature,
                       .inverse = inverse,
                       .weight = weight,
                       .a = own,
                       .slope = slope};
}

static const void *column(const pegasos_rows *block, int64_t i)
{
    const int64_t place = ((const int64_t *)block->indptr)[i];
    return (const char *)block->values + place * block->n_rows * block->column_bytes;
}

static void move_and_choose(const pegasos_rows *block, const pair_rows *r, const void *x, double p,
                            const void *z, double q, double constant, choice *out)
{
    if (block->column_bytes == 4)
        move_and_choose_float(r, x, p, z, q, constant, out);
    else
        move_and_choose_double(r, x, p, z, q, constant, out);
}

/* The partner of row i, of which a step of its own would be `step`. */
static choice partner_of(const pegasos_rows *block, const pair_rows *r, int64_t i, double step,
                         double scale, double constant)
{
    const double t = scale * r->sign[i], end = step < 0 ? -r->a[i] : r->bound[i] - r->a[i];
    const double shared = step != end && r->curvature[i] > 0 ? 1 / r->curvature[i] : 0;
    choice partner;
    if (block->column_bytes == 4)
        choose_partner_float(r, column(block, i), t, t * constant, step, shared, &partner);
    else
        choose_partner_double(r, column(block, i), t, t * constant, step, shared, &partner);
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
    const pair_rows r = rows_in(room, block, loss, scale, labels, bounds, norms, a, slopes);
    int64_t done = 0;
    choice first;
    /* No column is needed for a move by 0: any numbers will do. */
    move_and_choose(block, &r, r.sign, 0, r.sign, 0, 0, &first);
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
        const choice partner = partner_of(block, &r, i, steps[0], scale, constant);
        const int64_t j = partner.row;
        const bool is_pair = j != i && partner.gain > 0;
        if (is_pair && place[j] < 0) {
            block->wanted[j] = 1;
            break;
        }
        if (is_pair) {
            const double inner = get(column(block, i), block->column_bytes, j) + constant;
            pair_steps(&r, i, j, scale * r.sign[i] * r.sign[j] * inner, steps);
        }
        const double p = scale * r.sign[i] * move(&r, loss, i, steps[0]);
        const double q = is_pair ? scale * r.sign[j] * move(&r, loss, j, steps[1]) : 0;
        move_and_choose(block, &r, column(block, i), p, column(block, is_pair ? j : i), q,
                        (p + q) * constant, &first);
        done++;
    }
    *gap = gap_of(&r, loss);
    memcpy(a, r.a, (size_t)m * sizeof(double));
    for (int64_t k = 0; k < m; k++)
        slopes[k] = labels[k] == 0 ? slopes[k] : r.slope[k];
    return done;
}
