/*
 * newton.c - Newton's method on the smoothed hinge, for few features.
 *
 * The proximal point method on the dual: given a dual point A, the next one is the best of
 *
 *     D(a) - delta/(2 m) sum_i (a_i - A_i)^2 / c_i,    0 <= a_i <= c_i.
 *
 * Its own dual is a smooth problem in w. With u_i = 1 - y_i f(x_i),
 *
 *     minimise  lam/2 |w|^2 + 1/m sum_i h_i(u_i),    h_i'(u) = a_i(u) = clip(A_i + c_i u/delta, 0, c_i),
 *
 * which for A = 0 is the hinge rounded off over a width delta (Huber). For any w the a_i(u_i) are
 * dual-feasible and the gradient is lam (w - w(a)): every gradient brings a dual value with it, for
 * nothing. Second derivatives come from the rows in the band 0 < a_i < c_i alone. Once the smooth
 * problem is solved well enough, A becomes a: unlike Huber's width, delta need not go to 0 for the
 * gap to do so, and the problems stay easy. (Rockafellar: Augmented Lagrangians and applications of
 * the proximal point algorithm, Math. Oper. Res. 1 (1976) 97-116; Chapelle: Training a support
 * vector machine in the primal, Neural Computation 19 (2007) 1155-1178.)
 *
 * One iteration is a look at where w stands (objective, dual value, whether A moves), Newton's
 * equations, and an exact line search. Sums have a fixed shape, so that every instruction set gives
 * the same bits.
 */
#include "loss.h"
#include "rows.h"

#include <math.h>
#include <string.h>

enum { LANES = 8, TILE_ROWS = 8, SEARCHES = 30, RIDGES = 6 };

/* By how much the width falls, and to what. */
static const double NARROWER = 0.6, NARROWEST = 1e-4;
/* A line search ends where the slope is this part of that at its start. */
static const double FLAT = 0.01;
/* Beside lam: what Newton's matrix has for a free intercept. */
static const double FREE = 1e-4;
/* Beside the trace: what makes a matrix regular again; then a hundred times as much. */
static const double RIDGE = 1e-10;

/* The work space: vectors of n_rows and of `size` numbers, and matrices with rows of `stride`. */
typedef struct workspace {
    double *u, *a, *factors, *moves, *weights, *centre; /* of rows; centre: A_i/c_i */
    double *sums, *right, *direction, *diagonal;        /* of features and the constant one */
    double *matrix, *lower, *scaled, *solution;
    int64_t size, stride, n_band;
} workspace;

static int64_t stride_of(int64_t size)
{
    return (size + LANES - 1) / LANES * LANES;
}

int64_t pegasos_newton_work(int64_t n_rows, int64_t n_features)
{
    const int64_t stride = stride_of(n_features + 1);
    return 6 * n_rows + 5 * stride + (2 * stride + stride) * stride;
}

static workspace lay_out(int64_t n, int64_t n_features, double *work)
{
    workspace s = {.size = n_features + 1, .stride = stride_of(n_features + 1)};
    double **const of_rows[] = {&s.u, &s.a, &s.factors, &s.moves, &s.weights, &s.centre};
    double **const of_features[] = {&s.sums, &s.right, &s.direction, &s.diagonal, &s.solution};
    double **const matrices[] = {&s.matrix, &s.lower, &s.scaled};
    for (int k = 0; k < 6; k++, work += n)
        *of_rows[k] = work;
    for (int k = 0; k < 5; k++, work += s.stride)
        *of_features[k] = work;
    for (int k = 0; k < 3; k++, work += s.stride * s.stride)
        *matrices[k] = work;
    return s;
}

/* ---- Linear algebra -------------------------------------------------------------------------- */

static INLINE double dot(const double *restrict x, const double *restrict y, int64_t n)
{
    double lanes[LANES] = {0}, sum = 0;
    int64_t j = 0;
    for (; n - j >= LANES; j += LANES)
        for (int l = 0; l < LANES; l++)
            lanes[l] += x[j + l] * y[j + l];
    for (; j < n; j++)
        sum += x[j] * y[j];
    for (int l = 0; l < LANES; l++)
        sum += lanes[l];
    return sum;
}

/* Adds to the lower triangle of `matrix` the products of columns of TILE_ROWS rows `z`. */
CLONES_WIDE static void add_products(int64_t size, int64_t stride, const double *restrict z,
                                     double *restrict matrix)
{
    for (int64_t i = 0; i < size; i++)
        for (int64_t j = 0; j <= i; j += LANES) {
            double sum[LANES] = {0};
            for (int t = 0; t < TILE_ROWS; t++)
                for (int l = 0; l < LANES; l++)
                    sum[l] += z[t * stride + i] * z[t * stride + j + l];
            for (int l = 0; l < LANES; l++)
                matrix[i * stride + j + l] += sum[l];
        }
}

/* The lower triangle of the inner products of the rows of `z`. */
CLONES_WIDE static void multiply_rows(int64_t count, int64_t stride, const double *restrict z,
                                      double *restrict matrix)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j <= i; j++)
            matrix[i * stride + j] = dot(z + i * stride, z + j * stride, stride);
}

/* Cholesky's factor of `matrix` + ridge; *is_positive tells whether there is one. */
CLONES_WIDE static void factorise(int64_t size, int64_t stride, const double *restrict matrix,
                                  double ridge, double *restrict lower, int *is_positive)
{
    *is_positive = 0;
    for (int64_t i = 0; i < size; i++) {
        double *row = lower + i * stride;
        for (int64_t j = 0; j < i; j++)
            row[j] =
                (matrix[i * stride + j] - dot(row, lower + j * stride, j)) / lower[j * stride + j];
        const double pivot = matrix[i * stride + i] + ridge - dot(row, row, i);
        if (!(pivot > 0 && pivot < INFINITY))
            return;
        row[i] = sqrt(pivot);
    }
    *is_positive = 1;
}

/* Solves matrix x = x in place; where rounding has made the matrix singular, with a little more on
 * its diagonal. */
static void solve(workspace *s, int64_t size, double *restrict x)
{
    double trace = 0, ridge = 0;
    int is_positive = 0;
    for (int64_t i = 0; i < size; i++)
        trace += s->matrix[i * s->stride + i];
    for (int k = 0; k < RIDGES && !is_positive; k++) {
        factorise(size, s->stride, s->matrix, ridge, s->lower, &is_positive);
        ridge = k == 0 ? RIDGE * trace : 100 * ridge;
    }
    if (!is_positive) { /* downhill, at least; numbers have overflown */
        for (int64_t i = 0; i < size; i++)
            x[i] /= trace;
        return;
    }
    for (int64_t i = 0; i < size; i++)
        x[i] = (x[i] - dot(s->lower + i * s->stride, x, i)) / s->lower[i * s->stride + i];
    for (int64_t i = size - 1; i >= 0; i--) {
        x[i] /= s->lower[i * s->stride + i];
        for (int64_t j = 0; j < i; j++)
            x[j] -= s->lower[i * s->stride + j] * x[i];
    }
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Writes root (x_i, feature), and zeros up to the stride. */
static void scale_row(const pegasos_rows *rows, int64_t i, double root, double feature,
                      int64_t stride, double *restrict out)
{
    const int64_t d = rows->n_features;
    memset(out, 0, (size_t)stride * sizeof *out);
    if (rows->index_bytes > 0)
        for (int64_t j = row_offset(rows, i); j < row_offset(rows, i + 1); j++)
            out[row_column(rows, j)] += root * get(rows->values, rows->value_bytes, j);
    else if (rows->value_bytes == 4)
        for (int64_t j = 0; j < d; j++)
            out[j] = root * (double)((const float *)rows->values)[i * d + j];
    else
        for (int64_t j = 0; j < d; j++)
            out[j] = root * ((const double *)rows->values)[i * d + j];
    out[d] = feature * root;
}

/* sums = sum_i factors_i (x_i, feature) */
static void combine(const pegasos_rows *rows, const pegasos_newton *p, workspace *s)
{
    double total = 0;
    memset(s->sums, 0, (size_t)s->size * sizeof *s->sums);
    pegasos_linear_combine(rows, 0, rows->n_rows, s->factors, s->sums);
    for (int64_t i = 0; i < rows->n_rows; i++)
        total += s->factors[i];
    s->sums[s->size - 1] = p->feature * total;
}

/* ---- One iteration --------------------------------------------------------------------------- */

/* lam of component j of a point, or 0 where it is not penalised. */
static double penalised(const pegasos_newton *p, const workspace *s, int64_t j)
{
    return j == s->size - 1 && (p->free_intercept || p->feature == 0) ? 0 : p->lam;
}

/* Makes the dual variables of both labels add up to the same, where the intercept is not penalised.
 * Returns the sum of all. */
static double balance(const pegasos_newton *p, int64_t n, const int8_t *labels, double *a)
{
    double positive = 0, negative = 0;
    for (int64_t i = 0; i < n; i++)
        *(labels[i] > 0 ? &positive : &negative) += a[i];
    if (!p->free_intercept)
        return positive + negative;
    const double both = positive < negative ? positive : negative;
    const double up = positive > 0 ? both / positive : 0;
    const double down = negative > 0 ? both / negative : 0;
    for (int64_t i = 0; i < n; i++)
        a[i] *= labels[i] > 0 ? up : down;
    return 2 * both;
}

/* Writes u and a(u), and the labels times a as factors. */
static void write_slopes(const pegasos_newton *p, int64_t n, const int8_t *labels, const double *c,
                         const double *centre, workspace *s)
{
    for (int64_t i = 0; i < n; i++) {
        s->a[i] = loss_slope(p->loss, centre[i], c[i], s->u[i], p->width);
        s->factors[i] = s->a[i] * labels[i];
    }
}

/* Computes objectives at the point, keeps what is best so far, and moves A and narrows the width
 * where the smooth problem is solved. Leaves u, and in `sums` what the gradient is made of. Returns
 * passes. */
static int64_t look(const pegasos_rows *rows, pegasos_newton *p, const int8_t *labels,
                    const double *c, const double *point, const double *scores, double *centre,
                    double *a, double *coef, workspace *s)
{
    const int64_t n = rows->n_rows, d = rows->n_features;
    double penalty = 0, loss = 0, inner = 0, moved = 0, squared = 0, less = 0;
    for (int64_t j = 0; j < s->size; j++)
        penalty += penalised(p, s, j) * point[j] * point[j] / 2;
    for (int64_t i = 0; i < n; i++)
        s->u[i] = 1 - labels[i] * scores[i];
    write_slopes(p, n, labels, c, centre, s);
    for (int64_t i = 0; i < n; i++) {
        const double change = s->a[i] - centre[i];
        loss += c[i] * loss_value(p->loss, s->u[i]);
        inner += s->a[i] * s->u[i];
        moved += c[i] > 0 ? change * change / c[i] : 0;
    }
    const double *balanced = s->a;
    if (p->free_intercept) { /* in `moves`, which is free until the step */
        memcpy(s->moves, s->a, (size_t)n * sizeof *s->a);
        balanced = s->moves;
    }
    const double total = balance(p, n, labels, p->free_intercept ? s->moves : s->a);
    for (int64_t i = 0; i < n; i++) {
        s->factors[i] = balanced[i] * labels[i];
        less += loss_smoothing(p->loss, balanced[i], c[i]);
    }
    combine(rows, p, s);
    for (int64_t j = 0; j < s->size - (p->free_intercept != 0); j++)
        squared += s->sums[j] * s->sums[j];
    const double primal = penalty + loss / p->mass, smoothing = p->width / 2 * moved / p->mass;
    const double dual = (total - less) / p->mass - squared / (2 * p->lam * p->mass * p->mass);
    const double smooth = penalty + inner / p->mass - smoothing;
    if (dual > p->dual_objective) {
        memcpy(a, balanced, (size_t)n * sizeof *a);
        p->dual_objective = dual;
    }
    if (primal < p->primal) {
        memcpy(coef, point, (size_t)d * sizeof *coef);
        p->intercept = p->feature * point[d];
        p->primal = primal;
    }
    const double gap = p->primal - p->dual_objective;
    p->relative_gap = (gap < 0 ? 0 : gap) / (p->primal > 1e-300 ? p->primal : 1e-300);
    const int is_solved =
        !loss_is_smooth(p->loss) && smooth - (dual - smoothing) <= primal - smooth;
    if (is_solved) {
        memcpy(centre, s->a, (size_t)n * sizeof *a);
        p->width = NARROWER * p->width > NARROWEST ? NARROWER * p->width : NARROWEST;
    }
    if (is_solved || p->free_intercept) {
        write_slopes(p, n, labels, c, centre, s);
        combine(rows, p, s);
    }
    return 2 + is_solved + (p->free_intercept != 0);
}

/* The equations (D + Z^T W Z) p = r with a matrix at hand, Z the rows of the band. */
static void solve_wide(const pegasos_rows *rows, const pegasos_newton *p, workspace *s)
{
    int64_t filled = 0;
    memset(s->matrix, 0, (size_t)(s->stride * s->stride) * sizeof *s->matrix);
    for (int64_t i = 0; i < rows->n_rows; i++) {
        if (!(s->factors[i] > 0))
            continue;
        scale_row(rows, i, s->factors[i], p->feature, s->stride, s->scaled + filled * s->stride);
        if (++filled == TILE_ROWS) {
            add_products(s->size, s->stride, s->scaled, s->matrix);
            filled = 0;
        }
    }
    memset(s->scaled + filled * s->stride, 0,
           (size_t)((TILE_ROWS - filled) * s->stride) * sizeof *s->scaled);
    add_products(s->size, s->stride, s->scaled, s->matrix);
    for (int64_t j = 0; j < s->size; j++)
        s->matrix[j * s->stride + j] += s->diagonal[j];
    memcpy(s->direction, s->right, (size_t)s->size * sizeof *s->right);
    solve(s, s->size, s->direction);
}

/* The same for a band of fewer rows than there are features, and D = lam (Woodbury):
 * p = (r - A^T x)/lam, (lam + A A^T) x = A r, with the rows sqrt(weight_i) (x_i, feature) as A. */
static void solve_narrow(const pegasos_rows *rows, const pegasos_newton *p, workspace *s)
{
    int64_t count = 0;
    for (int64_t i = 0; i < rows->n_rows; i++)
        if (s->factors[i] > 0)
            scale_row(rows, i, s->factors[i], p->feature, s->stride,
                      s->scaled + count++ * s->stride);
    multiply_rows(count, s->stride, s->scaled, s->matrix);
    for (int64_t k = 0; k < count; k++) {
        s->matrix[k * s->stride + k] += p->lam;
        s->solution[k] = dot(s->scaled + k * s->stride, s->right, s->size);
    }
    solve(s, count, s->solution);
    memcpy(s->direction, s->right, (size_t)s->size * sizeof *s->right);
    for (int64_t k = 0; k < count; k++)
        for (int64_t j = 0; j < s->size; j++)
            s->direction[j] -= s->scaled[k * s->stride + j] * s->solution[k];
    for (int64_t j = 0; j < s->size; j++)
        s->direction[j] /= p->lam;
}

/* The t >= 0 at which the smooth objective is least along the step. Its derivative, first + t
 * second less that of the loss, is piecewise linear and grows: Newton's method on it, kept between
 * what is known to lie left and right of the root. */
static double search(const workspace *s, int64_t n, const pegasos_newton *p, double first,
                     double second)
{
    const double width = p->width;
    double low = 0, high = INFINITY, t = 1, fall, bend;
    pegasos_hinge_slopes(n, s->u, s->moves, s->weights, s->centre, width, 0, p->loss, &fall, &bend);
    const double flat = FLAT * fabs(first - fall);
    for (int k = 0; k < SEARCHES; k++) {
        pegasos_hinge_slopes(n, s->u, s->moves, s->weights, s->centre, width, t, p->loss, &fall,
                             &bend);
        const double slope = first + t * second - fall, curvature = second + bend / width;
        *(slope < 0 ? &low : &high) = t;
        if (fabs(slope) <= flat || high - low <= 1e-12 * t)
            break;
        const double better = curvature > 0 ? t - slope / curvature : INFINITY;
        if (low < better && better < high)
            t = better;
        else
            t = high == INFINITY ? 2 * t : (low + high) / 2;
    }
    return t;
}

/* Newton's step with exact line search. */
static void step(const pegasos_rows *rows, const pegasos_newton *p, const int8_t *labels,
                 const double *c, double *point, double *scores, const double *centre, workspace *s)
{
    const int64_t n = rows->n_rows, last = s->size - 1;
    double first = 0, second = 0;
    s->n_band = 0;
    for (int64_t i = 0; i < n; i++) {
        const int is_inside = loss_is_curved(p->loss, s->a[i], c[i]);
        s->weights[i] = c[i] / p->mass;
        s->centre[i] = c[i] > 0 ? centre[i] / c[i] : 0;
        s->factors[i] = is_inside ? sqrt(s->weights[i] / p->width) : 0;
        s->n_band += is_inside;
    }
    for (int64_t j = 0; j < s->size; j++) {
        s->right[j] = s->sums[j] / p->mass - penalised(p, s, j) * point[j];
        s->diagonal[j] = p->lam;
    }
    if (p->free_intercept && s->n_band > 0) /* more would hold it back where w makes up for it */
        s->diagonal[last] *= FREE;
    if (s->n_band < s->size && !p->free_intercept)
        solve_narrow(rows, p, s);
    else
        solve_wide(rows, p, s);
    const double intercept = p->feature * s->direction[last];
    pegasos_linear_scores(rows, 0, n, 1, s->direction, 8, 0, &intercept, s->factors);
    for (int64_t i = 0; i < n; i++)
        s->moves[i] = labels[i] * s->factors[i];
    for (int64_t j = 0; j < s->size; j++) {
        first += penalised(p, s, j) * point[j] * s->direction[j];
        second += penalised(p, s, j) * s->direction[j] * s->direction[j];
    }
    const double t = search(s, n, p, first, second);
    for (int64_t j = 0; j < s->size; j++)
        point[j] += t * s->direction[j];
    for (int64_t i = 0; i < n; i++)
        scores[i] += t * s->factors[i];
}

int64_t pegasos_newton_run(const pegasos_rows *rows, pegasos_newton *problem, const int8_t *labels,
                           const double *bounds, double *point, double *scores, double *centre,
                           double *a, double *coef, double *work, double target, int64_t last_epoch,
                           int64_t budget)
{
    const int64_t n = rows->n_rows, d = rows->n_features;
    assert(are_there(rows, 0, n) && problem->lam > 0 && problem->mass > 0 && problem->width > 0);
    workspace s = lay_out(n, d, work);
    const int64_t stored = rows->index_bytes ? row_offset(rows, n) - row_offset(rows, 0) : n * d;
    int64_t spent = 0, n_iterations = 0;
    while (spent < budget && problem->n_epochs < last_epoch && !(problem->relative_gap <= target)) {
        const int64_t passes =
            look(rows, problem, labels, bounds, point, scores, centre, a, coef, &s);
        step(rows, problem, labels, bounds, point, scores, centre, &s);
        problem->n_epochs += passes;
        problem->n_visits += passes * n;
        spent += (passes + 1) * stored + 20 * n + s.n_band * s.size * s.size / 8;
        spent += s.size * s.size * s.size / 8;
        n_iterations++;
    }
    return n_iterations;
}
