/*
 * newton.c - Newton's method on a smooth loss, resumable anywhere. The hinge is smoothed:
 *
 * The proximal point method on the dual: given a dual point A, the next one is the best of
 *
 *     D(a) - delta/(2 m) sum_i (a_i - A_i)^2 / c_i,    0 <= a_i <= c_i.
 *
 * Its own dual is a smooth problem in w. With u_i = 1 - y_i f(x_i),
 *
 *     minimise  lam/2 |w|^2 + 1/m sum_i h_i(u_i),
 *     h_i'(u) = a_i(u) = clip(A_i + c_i u/delta, 0, c_i),
 *
 * which for A = 0 is the hinge rounded off over a width delta (Huber). For any w the a_i(u_i) are
 * dual-feasible and the gradient is lam (w - w(a)): every gradient brings a dual value with it, for
 * nothing. Second derivatives come from the rows in the band 0 < a_i < c_i alone. Once the smooth
 * problem is solved well enough, A becomes a: unlike Huber's width, delta need not go to 0 for the
 * gap to do so, and the problems stay easy. (Rockafellar: Augmented Lagrangians and applications of
 * the proximal point algorithm, Math. Oper. Res. 1 (1976) 97-116; Chapelle: Training a support
 * vector machine in the primal, Neural Computation 19 (2007) 1155-1178.)
 *
 * The squared hinge is smooth as it is: what is above, without the bound c_i, for delta = 1/2 and A
 * = 0, which stay so.
 *
 * One iteration evaluates w (objective, dual value, whether A moves), solves Newton's
 * equations, and searches along the step. Each part goes over rows, or a matrix, in pieces whose
 * size does not depend on the budget, and says what comes next: so a run may be cut between any two
 * pieces. Sums have a fixed shape, so that every instruction set gives the same bits.
 */
#include "loss.h"
#include "rows.h"
#include "symmetric.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    LANES = SYMMETRIC_LANES,
    MOST_ROWS = 256,       /* of a piece, */
    PLAIN_ROWS = 32,       /* of one that becomes products by plain loops, */
    SEARCH_ROWS = 1 << 14, /* and of one of a line search */
    NUMBERS_PER_CALL = 25,
    SEARCHES = 30,
    RIDGES = 6,
    PRODUCTS = 250
};

/* By how much the width falls, and to what, once the smooth problem's own gap is no larger than
 * what the smoothing accounts for. */
static const double NARROWER = 0.6, NARROWEST = 1e-4;
/* A line search ends where the slope is this part of that at its start. */
static const double FLAT = 0.01;
/* Beside lam: what Newton's matrix has for a free intercept, and what its rounding may be. */
static const double FREE = 1e-4, ROUNDING = 0.1;
/* Numbers of single precision lie well within its range. */
static const double TINY = 1e-30;
/* Beside the trace: what makes a matrix regular again; then a hundred times as much. */
static const double RIDGE = 1e-10;
/* How exact conjugate gradients are. */
static const double ACCURACY = 0.01;
/* A piece has about so many numbers, and so many products of the matrix. */
static const double PIECE = 1e6, PIECE_OF_PRODUCTS = 1e9;
/* Products that take as long as reading a number. */
static const double PRODUCTS_PER_NUMBER = 16;

/* What comes next. */
enum {
    START,
    CHECK,
    BALANCE,
    JUDGE,
    BEND,
    GATHER,
    MULTIPLY,
    FACTORISE,
    SOLVE,
    PRODUCT,
    SCORE,
    SEARCH,
    MOVE,
    FIT_INTERCEPT,
    FINISHED /* as START, but the best point has its best intercept */
};

typedef struct line_search {
    double low, high, t, flat, fall, bend;
    int64_t count; /* evaluations that are done */
} line_search;

/* The iteration under way. */
typedef struct iteration {
    int64_t part, place; /* what comes next, and how far that is */
    /* of a gap check: sums of losses, a_i u_i and (a_i - A_i)^2/c_i; for each label, sums of a_i
     * and of a_i - l*(a_i) */
    double loss, inner, moved, positive, negative, less_positive, less_negative;
    /* after it */
    int64_t is_solved;
    double width;
    /* Newton's equations */
    int64_t n_band, is_narrow, is_single, n_ridges, is_hopeless, n_products;
    double largest, ridge, trace, squared, enough;
    /* the step */
    line_search search;
    double first, second; /* slope of the penalty along it, and how that changes */
} iteration;

typedef struct run {
    const pegasos_rows *rows;
    const pegasos_newton_arrays *x;
    pegasos_newton *p;
    iteration *s;
    int64_t n, d, size, stride; /* size: of features and the constant one */
    int64_t piece, block;       /* rows of a piece, and of one that becomes products */
    double numbers;             /* that a row has, on average */
    /* of rows: u_i, a_i(u_i), y_i times what a step adds to f(x_i), c_i/m, A_i/c_i; the band */
    double *u, *a, *moves, *weights, *ratios;
    int64_t *band;
    /* of features */
    double *sums, *right, *direction, *towards, *products;
    double *matrix, *scaled;
} run;

static int64_t round_up(int64_t n)
{
    return (n + LANES - 1) / LANES * LANES;
}

/* Rows of the band that are multiplied at once. */
static int64_t block_rows(int64_t n, int64_t d, bool has_blas)
{
    const double size = (double)(d + 1), numbers = (double)n * (double)d / 200;
    if (!has_blas)
        return PLAIN_ROWS;
    const double most = fmin(fmax(numbers, 5e4), PIECE) / size;
    const double rows = fmin(most, PIECE_OF_PRODUCTS / (size * size));
    return round_up((int64_t)fmin(fmax(rows, 16), (double)n));
}

/* Rows of `scaled`: a block, or a band of fewer rows than there are features. */
static int64_t scaled_rows(int64_t n, int64_t d)
{
    const int64_t block = block_rows(n, d, true), narrow = round_up(n < d ? n : d);
    const int64_t least = block > PLAIN_ROWS ? block : PLAIN_ROWS;
    return narrow > least ? narrow : least;
}

enum { OF_ROWS = 6, OF_FEATURES = 5 };

int64_t pegasos_newton_work(int64_t n_rows, int64_t n_features)
{
    const int64_t stride = round_up(n_features + 1);
    const int64_t rows =
        n_features < PEGASOS_NEWTON_MOST ? stride + scaled_rows(n_rows, n_features) : 0;
    return (int64_t)sizeof(iteration)
           + 8 * (OF_ROWS * round_up(n_rows) + (OF_FEATURES + rows) * stride);
}

static run lay_out(const pegasos_rows *rows, pegasos_newton *p, const pegasos_newton_arrays *x)
{
    const int64_t n = rows->n_rows, d = rows->n_features, stride = round_up(d + 1);
    const double numbers = stored_numbers(rows) / (double)n, most = PIECE / fmax(numbers, 1);
    run r = {.rows = rows, .x = x, .p = p, .n = n, .d = d, .size = d + 1, .stride = stride};
    double **const of_rows[] = {&r.u, &r.a, &r.moves, &r.weights, &r.ratios};
    double **const of_features[] = {&r.sums, &r.right, &r.direction, &r.towards, &r.products};
    r.numbers = numbers;
    r.piece = round_up((int64_t)fmin(most, MOST_ROWS));
    r.piece = r.piece < LANES ? LANES : r.piece;
    r.block = block_rows(n, d, x->blas != NULL);
    r.s = x->work;
    double *next = (double *)(r.s + 1);
    for (int k = 0; k < OF_ROWS - 1; k++, next += round_up(n))
        *of_rows[k] = next;
    r.band = (int64_t *)next;
    next += round_up(n);
    for (int k = 0; k < OF_FEATURES; k++, next += stride)
        *of_features[k] = next;
    r.matrix = next;
    r.scaled = next + stride * stride;
    return r;
}

static double go_to(const run *r, int64_t part, double cost)
{
    r->s->part = part;
    r->s->place = 0;
    return cost;
}

static double cost_of_rows(const run *r, int64_t count)
{
    return (double)count * (r->numbers + NUMBERS_PER_CALL);
}

/* ---- Where w stands -------------------------------------------------------------------------- */

/* Rows place .. place + count - 1, and what stands for no row, up to a multiple of LANES. */
typedef struct piece {
    int64_t first, count;
    double y[MOST_ROWS], c[MOST_ROWS], centre[MOST_ROWS], factors[MOST_ROWS];
} piece;

static void read_piece(const run *r, piece *x)
{
    const int64_t left = r->n - r->s->place;
    x->first = r->s->place;
    x->count = left < r->piece ? left : r->piece;
    const int8_t *const labels = r->x->labels + x->first;
    for (int64_t i = 0; i < x->count; i++)
        x->y[i] = labels[i];
    for (int64_t i = 0; i < x->count; i++)
        x->c[i] = labels[i] != 0 ? (r->x->weights ? r->x->weights[x->first + i] : 1) : 0;
    memcpy(x->centre, r->x->centre + x->first, (size_t)x->count * sizeof(double));
    for (int64_t i = x->count; i < round_up(x->count); i++)
        x->y[i] = x->c[i] = x->centre[i] = 0;
}

/* sums += sum_i factors_i (x_i, feature) over the rows of a piece. */
static double add_piece(const run *r, const piece *x, double *sums)
{
    double total = 0;
    for (int64_t i = 0; i < x->count; i++)
        total += x->factors[i];
    pegasos_linear_combine(r->rows, x->first, x->count, x->factors, sums);
    sums[r->d] += r->p->feature * total;
    return cost_of_rows(r, x->count);
}

static double start(const run *r)
{
    iteration *s = r->s;
    memset(r->sums, 0, (size_t)r->size * sizeof(double));
    s->loss = s->inner = s->moved = 0;
    s->positive = s->negative = s->less_positive = s->less_negative = 0;
    return go_to(r, CHECK, (double)r->size);
}

enum { SUMS = 7 };

/* Writes u, a(u) and y a as factors, and adds to the sums of a gap check. Each statement has a loop
 * of its own, so that lanes become SIMD. */
static INLINE void look_at(const pegasos_newton *p, piece *x, const double *restrict scores,
                           double *restrict u, double *restrict a, double *sums, const int64_t loss)
{
    double lanes[SUMS][LANES] = {{0}};
    const double width = p->width;
    for (int64_t i = 0; i < x->count; i += LANES) {
        const double *const y = x->y + i, *const c = x->c + i, *const centre = x->centre + i;
        double now[LANES], slope[LANES], value[LANES], change[LANES], less[LANES];
        for (int l = 0; l < LANES; l++)
            now[l] = 1 - y[l] * scores[i + l];
        for (int l = 0; l < LANES; l++)
            slope[l] = loss_slope(loss, centre[l], c[l], now[l], width);
        for (int l = 0; l < LANES; l++)
            value[l] = c[l] * loss_value(loss, now[l]);
        for (int l = 0; l < LANES; l++)
            change[l] = slope[l] - centre[l];
        for (int l = 0; l < LANES; l++)
            change[l] = change[l] * change[l] / (c[l] > 0 ? c[l] : 1);
        for (int l = 0; l < LANES; l++)
            less[l] = loss_smoothing(loss, slope[l], c[l]);
        for (int l = 0; l < LANES; l++)
            lanes[0][l] += value[l];
        for (int l = 0; l < LANES; l++)
            lanes[1][l] += slope[l] * now[l];
        for (int l = 0; l < LANES; l++)
            lanes[2][l] += change[l];
        for (int l = 0; l < LANES; l++)
            lanes[3][l] += y[l] > 0 ? slope[l] : 0;
        for (int l = 0; l < LANES; l++)
            lanes[4][l] += y[l] < 0 ? slope[l] : 0;
        for (int l = 0; l < LANES; l++)
            lanes[5][l] += y[l] > 0 ? less[l] : 0;
        for (int l = 0; l < LANES; l++)
            lanes[6][l] += y[l] < 0 ? less[l] : 0;
        for (int l = 0; l < LANES; l++)
            x->factors[i + l] = y[l] * slope[l];
        memcpy(u + i, now, sizeof now);
        memcpy(a + i, slope, sizeof slope);
    }
    for (int k = 0; k < SUMS; k++)
        for (int l = 0; l < LANES; l++)
            sums[k] += lanes[k][l];
}

CLONES_WIDE static void look_at_rows(const pegasos_newton *p, piece *x, const double *scores,
                                     double *restrict u, double *restrict a, double *sums)
{
    WITH_LOSS(p->loss, look_at(p, x, scores, u, a, sums, LOSS));
}

static double check_gap(const run *r)
{
    iteration *s = r->s;
    piece x;
    double scores[MOST_ROWS] = {0}, sums[SUMS] = {0};
    read_piece(r, &x);
    memcpy(scores, r->x->scores + x.first, (size_t)x.count * sizeof(double));
    look_at_rows(r->p, &x, scores, r->u + x.first, r->a + x.first, sums);
    s->loss += sums[0];
    s->inner += sums[1];
    s->moved += sums[2];
    s->positive += sums[3];
    s->negative += sums[4];
    s->less_positive += sums[5];
    s->less_negative += sums[6];
    const double cost = add_piece(r, &x, r->sums);
    s->place += x.count;
    if (s->place < r->n)
        return cost;
    memset(r->direction, 0, (size_t)r->size * sizeof(double));
    return go_to(r, r->p->free_intercept ? BALANCE : JUDGE, cost);
}

/* What a_i is multiplied by so that those of both labels add up to the same, where the intercept is
 * not penalised. */
static double balance_factor(const run *r, double y)
{
    const double own = y > 0 ? r->s->positive : r->s->negative;
    if (!r->p->free_intercept)
        return 1;
    return own > 0 ? fmin(r->s->positive, r->s->negative) / own : 0;
}

static double balance(const run *r)
{
    piece x;
    read_piece(r, &x);
    const double up = balance_factor(r, 1), down = balance_factor(r, -1);
    for (int64_t i = 0; i < x.count; i++)
        x.factors[i] = r->a[x.first + i] * (x.y[i] > 0 ? up : down) * x.y[i];
    const double cost = add_piece(r, &x, r->direction);
    r->s->place += x.count;
    return r->s->place < r->n ? cost : go_to(r, JUDGE, cost);
}

/* lam of component j of a point, or 0 where it is not penalised. */
static double penalised(const run *r, int64_t j)
{
    return j == r->d && (r->p->free_intercept || r->p->feature == 0) ? 0 : r->p->lam;
}

/* Keeps a dual point and a primal one if they are the best so far, and finds the gap. */
static void keep(const run *r, double primal, double dual)
{
    pegasos_newton *p = r->p;
    if (dual > p->dual_objective) {
        const double factors[] = {balance_factor(r, -1), balance_factor(r, 1)};
        for (int64_t i = 0; i < r->n; i++)
            r->x->a[i] = r->a[i] * factors[r->x->labels[i] > 0];
        p->dual_objective = dual;
    }
    if (primal < p->primal) {
        memcpy(r->x->coef, r->x->point, (size_t)r->d * sizeof(double));
        p->intercept = p->feature * r->x->point[r->d];
        p->primal = primal;
    }
    p->relative_gap = fmax(p->primal - p->dual_objective, 0) / fmax(p->primal, 1e-300);
}

static bool is_over(const pegasos_newton *p)
{
    return p->n_epochs >= p->last_epoch || is_small_gap(p->relative_gap, p->primal, p->tol);
}

static void count_passes(const run *r, int64_t passes)
{
    r->p->n_epochs += passes;
    r->p->n_visits += passes * r->n;
}

/* Computes the objectives, and decides whether the run ends here, and whether A moves. */
static double judge(const run *r)
{
    iteration *s = r->s;
    const pegasos_newton *p = r->p;
    const double *const sums = p->free_intercept ? r->direction : r->sums;
    double penalty = 0, squared = 0;
    for (int64_t j = 0; j < r->size; j++)
        penalty += penalised(r, j) * r->x->point[j] * r->x->point[j] / 2;
    for (int64_t j = 0; j < r->size - (p->free_intercept != 0); j++)
        squared += sums[j] * sums[j];
    const double up = balance_factor(r, 1), down = balance_factor(r, -1);
    const double total = up * s->positive + down * s->negative - up * up * s->less_positive
                         - down * down * s->less_negative;
    const double primal = penalty + s->loss / p->mass;
    const double smoothing = p->width / 2 * s->moved / p->mass;
    const double dual = total / p->mass - squared / (2 * p->lam * p->mass * p->mass);
    const double smooth = penalty + s->inner / p->mass - smoothing;
    const double cost = (double)(r->n + r->size);
    if (!isfinite(primal))
        return -1;
    keep(r, primal, dual);
    if (is_small_gap(p->relative_gap, p->primal, p->tol)) {
        count_passes(r, 1 + (p->free_intercept != 0));
        return go_to(r, START, cost);
    }
    s->is_solved = !loss_is_smooth(p->loss) && smooth - (dual - smoothing) <= primal - smooth;
    s->width = s->is_solved ? fmax(NARROWER * p->width, NARROWEST) : p->width;
    s->n_band = s->n_ridges = s->is_hopeless = s->n_products = 0;
    s->largest = s->ridge = 0;
    if (s->is_solved)
        memset(r->sums, 0, (size_t)r->size * sizeof(double));
    return go_to(r, BEND, cost);
}

/* ---- Newton's equations ---------------------------------------------------------------------- */

/* A/c and c/m of rows and, where A has become a, the new a(u) and y a as factors. */
static INLINE void bend_some(const pegasos_newton *p, double width, int64_t is_solved, piece *x,
                             const double *restrict u, double *restrict a, double *restrict weights,
                             double *restrict ratios, const int64_t loss)
{
    const double per_mass = 1 / p->mass;
    for (int64_t i = 0; i < x->count; i += LANES) {
        const double *const y = x->y + i, *const c = x->c + i;
        double centre[LANES], slope[LANES];
        memcpy(centre, is_solved ? a + i : x->centre + i, sizeof centre);
        for (int l = 0; l < LANES; l++)
            slope[l] = loss_slope(loss, centre[l], c[l], u[i + l], width);
        for (int l = 0; l < LANES; l++)
            weights[i + l] = c[l] * per_mass;
        for (int l = 0; l < LANES; l++)
            ratios[i + l] = centre[l] / (c[l] > 0 ? c[l] : 1);
        for (int l = 0; l < LANES; l++)
            x->factors[i + l] = y[l] * slope[l];
        memcpy(a + i, slope, sizeof slope);
    }
}

CLONES_WIDE static void bend_rows(const pegasos_newton *p, double width, int64_t is_solved,
                                  piece *x, const double *u, double *restrict a,
                                  double *restrict weights, double *restrict ratios)
{
    WITH_LOSS(p->loss, bend_some(p, width, is_solved, x, u, a, weights, ratios, LOSS));
}

/* What Newton's matrix has on its diagonal beside the sum over the band. An unpenalised intercept
 * gets a little too, so that the matrix is definite, and lam where a band without rows would let it
 * leap. More would hold it back where it and w make up for each other. */
static double diagonal(const run *r, int64_t j)
{
    const bool is_free = j == r->d && r->p->free_intercept && r->s->n_band > 0;
    return r->p->lam * (is_free ? FREE : 1);
}

static double inner_product(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += x[j] * y[j];
    return sum;
}

/*
 * Newton's equations for the step p are (D + A^T A) p = r, with the rows sqrt(c_i/(m delta)) (x_i,
 * feature) of the band as A, D the diagonal, and r minus the gradient. Where the band has fewer
 * rows than there are features, and D = lam, there are fewer unknowns in (Woodbury)
 *
 *     p = (r - A^T x)/lam,    (lam + A A^T) x = A r.
 *
 * Along directions in which nothing but lam holds the matrix up (features that add up to a
 * constant), errors must stay small beside it: single precision will do for a large lam alone.
 */
static double choose_method(const run *r)
{
    iteration *s = r->s;
    const pegasos_newton *p = r->p;
    for (int64_t j = 0; j < r->size; j++)
        r->right[j] = r->sums[j] / p->mass - penalised(r, j) * r->x->point[j];
    if (s->n_band == 0) {
        for (int64_t j = 0; j < r->size; j++)
            r->direction[j] = r->right[j] / diagonal(r, j);
        return go_to(r, SCORE, (double)r->size);
    }
    if (r->size <= PEGASOS_NEWTON_MOST) {
        s->is_narrow = s->n_band < r->size && !p->free_intercept;
        s->is_single = r->x->blas && FLT_EPSILON * s->largest <= ROUNDING * p->lam && p->lam > TINY
                       && s->largest < 1 / TINY;
        return go_to(r, GATHER, (double)r->size);
    }
    memset(r->direction, 0, (size_t)r->size * sizeof(double));
    memcpy(r->towards, r->right, (size_t)r->size * sizeof(double));
    s->squared = inner_product(r->right, r->right, r->size);
    s->enough = ACCURACY * ACCURACY * s->squared;
    return go_to(r, s->squared > 0 ? PRODUCT : SCORE, (double)r->size);
}

/* Finds the band, and what the equations are made of. */
static double bend(const run *r)
{
    iteration *s = r->s;
    const int64_t first = s->place;
    const bool is_measured = r->x->blas && r->size <= PEGASOS_NEWTON_MOST;
    piece x;
    read_piece(r, &x);
    bend_rows(r->p, s->width, s->is_solved, &x, r->u + first, r->a + first, r->weights + first,
              r->ratios + first);
    if (first == 0)
        memset(r->direction, 0, (size_t)r->size * sizeof(double)); /* scratch of norms */
    for (int64_t i = 0; i < x.count; i++) {
        if (!loss_is_curved(r->p->loss, r->a[first + i], x.c[i]))
            continue;
        double norm = 0;
        r->band[s->n_band++] = first + i;
        if (is_measured)
            pegasos_linear_norms(r->rows, first + i, 1, r->direction, &norm);
        norm += r->p->feature * r->p->feature;
        s->largest += r->weights[first + i] / s->width * norm;
    }
    const double cost = s->is_solved ? add_piece(r, &x, r->sums) : 8 * (double)x.count;
    s->place += x.count;
    return s->place < r->n ? cost : cost + choose_method(r);
}

/* out = root (x, feature), and zeros up to the stride. */
#define DEFINE_SCALE(NAME, VALUE, OUT)                                                             \
    CLONES static void scale_##NAME(int64_t d, const VALUE *restrict x, double root,               \
                                    OUT *restrict out)                                             \
    {                                                                                              \
        int64_t j = 0;                                                                             \
        for (; d - j >= LANES; j += LANES)                                                         \
            for (int l = 0; l < LANES; l++)                                                        \
                out[j + l] = (OUT)(root * (double)x[j + l]);                                       \
        for (; j < d; j++)                                                                         \
            out[j] = (OUT)(root * (double)x[j]);                                                   \
    }
DEFINE_SCALE(float_to_float, float, float)
DEFINE_SCALE(float_to_double, float, double)
DEFINE_SCALE(double_to_float, double, float)
DEFINE_SCALE(double_to_double, double, double)

static void scale_row(const run *r, int64_t i, double root, int64_t to)
{
    const pegasos_rows *rows = r->rows;
    const int64_t d = r->d, bytes = r->s->is_single ? 4 : 8, dense = rows->index_bytes == 0 ? d : 0;
    char *const out = (char *)r->scaled + to * r->stride * bytes;
    memset(out + dense * bytes, 0, (size_t)((r->stride - dense) * bytes));
    if (dense && rows->value_bytes == 4 && bytes == 4)
        scale_float_to_float(d, (const float *)rows->values + i * d, root, (float *)out);
    else if (dense && rows->value_bytes == 4)
        scale_float_to_double(d, (const float *)rows->values + i * d, root, (double *)out);
    else if (dense && bytes == 4)
        scale_double_to_float(d, (const double *)rows->values + i * d, root, (float *)out);
    else if (dense)
        scale_double_to_double(d, (const double *)rows->values + i * d, root, (double *)out);
    else
        for (int64_t j = row_offset(rows, i); j < row_offset(rows, i + 1); j++) {
            const int64_t at = row_column(rows, j);
            const double value = root * get(rows->values, rows->value_bytes, j);
            set_to(out, bytes, at, get(out, bytes, at) + value);
        }
    set_to(out, bytes, d, r->p->feature * root);
}

static symmetric matrix_of(const run *r)
{
    return (symmetric){.numbers = r->matrix,
                       .size = r->s->is_narrow ? r->s->n_band : r->size,
                       .stride = r->stride,
                       .bytes = r->s->is_single ? 4 : 8,
                       .blas = r->x->blas};
}

static double end_matrix(const run *r, double cost)
{
    iteration *s = r->s;
    const symmetric m = matrix_of(r);
    const double last = s->is_narrow ? r->p->lam : diagonal(r, r->d);
    s->trace = symmetric_add_diagonal(&m, r->p->lam + s->ridge, last + s->ridge);
    return go_to(r, FACTORISE, cost);
}

/* Copies rows of the band, and sums up the matrix unless that is made of their inner products. */
static double gather(const run *r)
{
    iteration *s = r->s;
    const symmetric m = matrix_of(r);
    const int64_t left = s->n_band - s->place, count = left < r->block ? left : r->block;
    const int64_t to = s->is_narrow ? s->place : 0;
    double cost = (double)(count * r->stride);
    for (int64_t k = 0; k < count; k++) {
        const int64_t i = r->band[s->place + k];
        scale_row(r, i, sqrt(r->weights[i] / s->width), to + k);
    }
    if (!s->is_narrow) {
        symmetric_add_outer(&m, count, r->scaled, s->place == 0);
        cost += cost * (double)r->size / 2 / PRODUCTS_PER_NUMBER;
    }
    s->place += count;
    if (s->place < s->n_band)
        return cost;
    return s->is_narrow ? go_to(r, MULTIPLY, cost) : end_matrix(r, cost);
}

static double multiply(const run *r)
{
    const symmetric m = matrix_of(r);
    double products = 0;
    const int is_done = symmetric_add_inner(&m, r->scaled, r->size, &r->s->place, &products);
    const double cost = products / PRODUCTS_PER_NUMBER;
    return is_done ? end_matrix(r, cost) : cost;
}

/* The factor; a matrix that rounding has made singular is made again, in double precision, and then
 * with a little more on its diagonal. */
static double factorise(const run *r)
{
    iteration *s = r->s;
    const symmetric m = matrix_of(r);
    double products = 0;
    const int status = symmetric_factorise(&m, &s->place, &products);
    const double cost = products / PRODUCTS_PER_NUMBER;
    if (status == SYMMETRIC_RUNNING)
        return cost;
    s->is_hopeless = status == SYMMETRIC_NOT_POSITIVE && s->n_ridges == RIDGES;
    if (status == SYMMETRIC_FACTORED || s->is_hopeless)
        return go_to(r, SOLVE, cost);
    if (!s->is_single) {
        s->ridge = s->n_ridges == 0 ? RIDGE * s->trace : 100 * s->ridge;
        s->n_ridges++;
    }
    s->is_single = 0;
    return go_to(r, GATHER, cost);
}

static double solve(const run *r)
{
    const iteration *s = r->s;
    const symmetric m = matrix_of(r);
    double *const x = s->is_narrow ? r->towards : r->direction;
    memcpy(r->direction, r->right, (size_t)r->size * sizeof(double));
    for (int64_t k = 0; s->is_narrow && k < s->n_band; k++) {
        x[k] = 0;
        for (int64_t j = 0; j < r->size; j++)
            x[k] += get(r->scaled, m.bytes, k * r->stride + j) * r->right[j];
    }
    if (!s->is_hopeless)
        symmetric_solve(&m, x, r->products);
    for (int64_t k = 0; s->is_hopeless && k < m.size; k++)
        x[k] /= s->trace; /* downhill, at least; numbers have overflown */
    for (int64_t k = 0; s->is_narrow && k < s->n_band; k++)
        for (int64_t j = 0; j < r->size; j++)
            r->direction[j] -= get(r->scaled, m.bytes, k * r->stride + j) * x[k];
    for (int64_t j = 0; s->is_narrow && j < r->size; j++)
        r->direction[j] /= r->p->lam;
    return go_to(r, SCORE, 2 * (double)(m.size * r->size));
}

/* Goes on with conjugate gradients, given the matrix times `towards` as `products`. */
static void end_product(const run *r)
{
    iteration *s = r->s;
    for (int64_t j = 0; j < r->size; j++)
        r->products[j] += diagonal(r, j) * r->towards[j];
    const double t = s->squared / inner_product(r->towards, r->products, r->size);
    const double before = s->squared;
    for (int64_t j = 0; j < r->size; j++) {
        r->direction[j] += t * r->towards[j];
        r->right[j] -= t * r->products[j];
    }
    s->squared = inner_product(r->right, r->right, r->size);
    for (int64_t j = 0; j < r->size; j++)
        r->towards[j] = r->right[j] + s->squared / before * r->towards[j];
    s->n_products++;
}

/* A piece of a product of conjugate gradients: two passes over rows of the band. */
static double multiply_band(const run *r)
{
    iteration *s = r->s;
    const int64_t left = s->n_band - s->place, count = left < r->piece ? left : r->piece;
    const int64_t *const band = r->band + s->place;
    const double intercept = r->p->feature * r->towards[r->d];
    double scores[MOST_ROWS], cost = 2 * cost_of_rows(r, count);
    if (s->place == 0)
        memset(r->products, 0, (size_t)r->size * sizeof(double));
    pegasos_linear_scores_of(r->rows, count, band, 1, r->towards, 8, 0, &intercept, scores);
    for (int64_t k = 0; k < count; k++) {
        const double factor = r->weights[band[k]] / s->width * scores[k];
        pegasos_linear_combine(r->rows, band[k], 1, &factor, r->products);
        r->products[r->d] += r->p->feature * factor;
    }
    s->place += count;
    if (s->place < s->n_band)
        return cost;
    cost += (double)(4 * r->size);
    end_product(r);
    const bool is_over = !(s->squared > s->enough) || s->n_products == PRODUCTS;
    return go_to(r, is_over ? SCORE : PRODUCT, cost);
}

/* ---- The step -------------------------------------------------------------------------------- */

static void begin_search(line_search *search)
{
    *search = (line_search){.high = INFINITY};
}

/*
 * The derivative along a step, first + t second less that of the loss, is piecewise linear and
 * grows: Newton's method on it, kept between what is known to lie left and right of the root. Given
 * the loss's derivatives at t, finds the next t, or returns true.
 */
static bool end_evaluation(line_search *s, double first, double second, double width)
{
    const double slope = first + s->t * second - s->fall, curvature = second + s->bend / width;
    s->fall = s->bend = 0;
    if (s->count++ == 0) {
        s->flat = FLAT * fabs(slope);
        s->t = 1;
        return false;
    }
    *(slope < 0 ? &s->low : &s->high) = s->t;
    if (fabs(slope) <= s->flat || s->high - s->low <= 1e-12 * s->t)
        return true;
    const double better = curvature > 0 ? s->t - slope / curvature : INFINITY;
    if (s->low < better && better < s->high)
        s->t = better;
    else
        s->t = s->high == INFINITY ? 2 * s->t : (s->low + s->high) / 2;
    return s->count > SEARCHES;
}

/* Adds the derivatives over rows from `place` on; returns how many. */
static int64_t evaluate(line_search *s, int64_t loss, int64_t n, int64_t place, const double *u,
                        const double *moves, const double *weights, const double *centre,
                        double width)
{
    const int64_t left = n - place, count = left < SEARCH_ROWS ? left : SEARCH_ROWS;
    double fall, bend;
    pegasos_hinge_slopes(count, u + place, moves + place, weights + place, centre + place, width,
                         s->t, loss, &fall, &bend);
    s->fall += fall;
    s->bend += bend;
    return count;
}

double pegasos_line_search(int64_t loss, int64_t n, const double *u, const double *moves,
                           const double *weights, const double *centre, double width, double first,
                           double second)
{
    line_search s;
    assert(n >= 0 && width > 0);
    begin_search(&s);
    do
        for (int64_t place = 0; place < n;)
            place += evaluate(&s, loss, n, place, u, moves, weights, centre, width);
    while (!end_evaluation(&s, first, second, width));
    return s.t;
}

/* Rows outside have the sign +1. No branch: labels cannot be foreseen. */
static INLINE double sign_of(int8_t label)
{
    return 1 - 2 * (label < 0);
}

static double score(const run *r)
{
    iteration *s = r->s;
    const int64_t left = r->n - s->place, count = left < r->piece ? left : r->piece;
    const double intercept = r->p->feature * r->direction[r->d];
    double *const moves = r->moves + s->place;
    pegasos_linear_scores(r->rows, s->place, count, 1, r->direction, 8, 0, &intercept, moves);
    for (int64_t i = 0; i < count; i++)
        moves[i] *= sign_of(r->x->labels[s->place + i]);
    s->place += count;
    if (s->place < r->n)
        return cost_of_rows(r, count);
    s->first = s->second = 0;
    for (int64_t j = 0; j < r->size; j++) {
        s->first += penalised(r, j) * r->x->point[j] * r->direction[j];
        s->second += penalised(r, j) * r->direction[j] * r->direction[j];
    }
    begin_search(&s->search);
    return go_to(r, SEARCH, cost_of_rows(r, count) + (double)r->size);
}

static double search(const run *r)
{
    iteration *s = r->s;
    const int64_t count = evaluate(&s->search, r->p->loss, r->n, s->place, r->u, r->moves,
                                   r->weights, r->ratios, s->width);
    s->place += count;
    if (s->place < r->n)
        return (double)count;
    const bool is_over = end_evaluation(&s->search, s->first, s->second, s->width);
    return go_to(r, is_over ? MOVE : SEARCH, (double)count);
}

/* Ends the iteration. */
static double move(const run *r)
{
    const iteration *s = r->s;
    const double t = s->search.t, part = (double)s->n_band / (double)r->n;
    for (int64_t j = 0; j < r->size; j++)
        r->x->point[j] += t * r->direction[j];
    for (int64_t i = 0; i < r->n; i++)
        r->x->scores[i] += t * sign_of(r->x->labels[i]) * r->moves[i];
    for (int64_t i = 0; s->is_solved && i < r->n; i++)
        r->x->centre[i] = r->ratios[i] * (r->x->weights ? r->x->weights[i] : 1);
    r->p->width = s->width;
    count_passes(r, 2 + s->is_solved + (r->p->free_intercept != 0)
                        + (int64_t)round(2 * (double)s->n_products * part));
    return go_to(r, START, (double)(r->n + r->size));
}

/* At the end of a run: gives the best point the best intercept, where that is not penalised. */
static double fit_intercept(const run *r)
{
    iteration *s = r->s;
    pegasos_newton *p = r->p;
    const int64_t left = r->n - s->place, count = left < r->piece ? left : r->piece;
    const double none = 0;
    pegasos_linear_scores(r->rows, s->place, count, 1, r->x->coef, 8, 0, &none,
                          r->ratios + s->place);
    s->place += count;
    if (s->place < r->n)
        return cost_of_rows(r, count);
    double primal = 0, loss = 0;
    /* whose scratch is u and the three arrays after it */
    p->intercept =
        pegasos_best_intercept(p->loss, r->n, r->x->labels, r->x->weights, r->ratios, r->u);
    for (int64_t i = 0; i < r->n; i++) {
        const double y = r->x->labels[i], c = r->x->weights ? r->x->weights[i] : 1;
        loss += y == 0 ? 0 : c * loss_value(p->loss, 1 - y * (r->ratios[i] + p->intercept));
    }
    for (int64_t j = 0; j < r->d; j++)
        primal += p->lam * r->x->coef[j] * r->x->coef[j] / 2;
    p->primal = primal + loss / p->mass;
    p->relative_gap = fmax(p->primal - p->dual_objective, 0) / fmax(p->primal, 1e-300);
    return go_to(r, FINISHED, cost_of_rows(r, count) + 20 * (double)r->n);
}

/* For assertions. */
MAYBE_UNUSED static bool are_settings(const pegasos_newton *p)
{
    const bool is_squared = p->loss == PEGASOS_SQUARED_HINGE;
    return p->lam > 0 && p->mass > 0 && p->width > 0
           && (p->loss == PEGASOS_HINGE || (is_squared && p->width == 0.5));
}

MAYBE_UNUSED static bool are_routines(const pegasos_blas *blas)
{
    return blas->dsyrk && blas->ssyrk && blas->dpotrf && blas->spotrf && blas->dpotrs
           && blas->spotrs;
}

int64_t pegasos_newton_advance(const pegasos_rows *rows, pegasos_newton *problem,
                               const pegasos_newton_arrays *arrays, double budget)
{
    static double (*const parts[])(const run *) = {
        [START] = start,       [CHECK] = check_gap,
        [BALANCE] = balance,   [JUDGE] = judge,
        [BEND] = bend,         [GATHER] = gather,
        [MULTIPLY] = multiply, [FACTORISE] = factorise,
        [SOLVE] = solve,       [PRODUCT] = multiply_band,
        [SCORE] = score,       [SEARCH] = search,
        [MOVE] = move,         [FIT_INTERCEPT] = fit_intercept,
        [FINISHED] = start,
    };
    assert(are_there(rows, 0, 0) && are_settings(problem) && arrays->work);
    assert(!arrays->blas || are_routines(arrays->blas));
    const run r = lay_out(rows, problem, arrays);
    const int64_t n_epochs = problem->n_epochs;
    for (;;) {
        const int64_t part = r.s->part;
        if ((part == START || part == FINISHED) && is_over(problem)) {
            if (part == FINISHED || !problem->free_intercept)
                return PEGASOS_DONE;
            go_to(&r, FIT_INTERCEPT, 0);
        }
        if (budget <= 0 || (problem->by_epochs && problem->n_epochs > n_epochs))
            return PEGASOS_RUNNING;
        const double cost = parts[r.s->part](&r);
        if (cost < 0) {
            go_to(&r, START, 0);
            return PEGASOS_OVERFLOW;
        }
        budget -= cost;
    }
}
