/*
 * kernel_certificate.c - primal and dual objective of kernel machines, and what they prove.
 *
 * As certificate.c has them, with w = sum_j beta_j phi(x_j): |w|^2 = sum_j beta_j f_j, of the
 * scores f_i = sum_j beta_j K(x_i, x_j), which are computed afresh. What rounding may do to scores
 * is part of the certificate.
 *
 * Scores of float columns are computed again in double where that matters: of rows with
 * coefficients, and of those that may be within their margin; of others, rounding leaves no doubt
 * that they are outside, where the loss is 0.
 */
#include "loss.h"
#include "memory.h"
#include "passes.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* What |w|^2 may be below 0, beside the sizes of what it is a sum of, and a dual value above a
 * primal one. */
static const double BY_ROUNDING = 1e-5;
/* Rows whose scores are computed at a time from weights. */
enum { ROWS = 256 };

/* What the certificate of coefficients beta and scores f has to know. */
typedef struct point_sums {
    double squared_norm; /* sum_i beta_i f_i */
    double size;         /* sum_i |beta_i f_i| */
    double doubt;        /* by how much rounding can change a score */
    double length;       /* sum_i |beta_i| */
    double squares;      /* sum_i beta_i^2 */
    double rounding;     /* by how much rounding can change squared_norm */
} point_sums;

/* A certificate in the making. Points are coefficients, those of the models first, and then, unless
 * they are these, those of the dual variables; problem k has points k and, if n_sets is 2,
 * n_problems + k. */
typedef struct making {
    const pegasos_kernel_models *m;
    const pegasos_kernel_evidence *e;
    int64_t n, n_problems, n_sets;
    double *a;                       /* n_problems x n: feasible dual variables */
    double *none;                    /* 2 n_problems: intercepts of 0 */
    double *points, *scores;         /* 2 n_problems x n */
    double *some_coef, *some_scores; /* of some rows */
    point_sums *sums;                /* 2 n_problems */
    int64_t *rows;                   /* some rows */
    int64_t *sequence;               /* 0, 1, ... */
    int8_t *is_wanted;               /* n_problems x n: rows whose scores are to be computed */
    int8_t *mark;                    /* n */
    void *values;
} making;

/* Lays its parts out in `scratch`, and returns how many bytes they take. */
static int64_t lay_out(making *c, const pegasos_kernel_models *m, const pegasos_kernel_evidence *e,
                       void *scratch)
{
    const int64_t n = m->targets.n, k = m->n_problems, d = e->rows ? e->rows->n_features : 0;
    layout all = {scratch, 8, 0};
    *c = (making){.m = m, .e = e, .n = n, .n_problems = k, .n_sets = 1};
    c->a = take(&all, 8 * k * n);
    c->none = take(&all, 16 * k);
    c->points = take(&all, 16 * k * n);
    c->scores = take(&all, 16 * k * n);
    c->sums = take(&all, 2 * k * (int64_t)sizeof *c->sums);
    /* Of weights: those of all points and of one, and scores of some rows. */
    c->some_coef = take(&all, e->rows ? 8 * (2 * k + 1) * d : 16 * k * n);
    c->some_scores = take(&all, 16 * k * (e->rows ? ROWS : n));
    if (e->rows)
        return all.bytes;
    c->rows = take(&all, 8 * n);
    c->sequence = take(&all, 8 * n);
    c->is_wanted = take(&all, k * n);
    c->mark = take(&all, n);
    c->values = take(&all, pegasos_columns_block(n) * e->columns->value_bytes);
    return all.bytes;
}

int64_t pegasos_kernel_certificate_scratch_bytes(const pegasos_kernel_models *models,
                                                 const pegasos_kernel_evidence *evidence)
{
    making c;
    return lay_out(&c, models, evidence, NULL);
}

static void set_points(making *c)
{
    const pegasos_kernel_models *const m = c->m;
    const int64_t n = c->n, n_points = c->n_problems * n;
    bool are_same = true;
    memcpy(c->points, m->coef, (size_t)n_points * sizeof(double));
    for (int64_t k = 0; k < c->n_problems; k++) {
        const pegasos_targets own = targets_among(&m->targets, m->epsilons, k);
        const double factor = 1 / (m->lams[k] * m->masses[k]);
        double *const beta = c->points + n_points + k * n;
        pegasos_make_feasible(&own, m->free_intercept, m->dual_variables + k * n, c->a + k * n);
        for (int64_t i = 0; i < n; i++) {
            const double coef = m->coef[k * n + i];
            beta[i] = c->a[k * n + i] * own.labels[i] * factor;
            /* But for rounding that the bounds know of anyway. */
            are_same &= fabs(beta[i] - coef) <= 4 * DBL_EPSILON * fabs(coef);
        }
    }
    c->n_sets = are_same ? 1 : 2;
}

/* ---- Scores ---------------------------------------------------------------------------------- */

/* Lists the rows that the problems first .. last - 1 want, those with coefficients first, and
 * returns how many these are. */
static int64_t list_rows(const making *c, int64_t first, int64_t last, int64_t *n_wanted)
{
    const int64_t n = c->n;
    enum { WANTED = 1, SUPPORT = 2 };
    int64_t n_support = 0, count;
    memset(c->mark, 0, (size_t)n);
    for (int64_t k = first; k < last; k++)
        for (int64_t i = 0; i < n; i++) {
            bool is_support = c->points[k * n + i] != 0;
            if (c->n_sets == 2)
                is_support |= c->points[(c->n_problems + k) * n + i] != 0;
            c->mark[i] |= (int8_t)(is_support ? SUPPORT : c->is_wanted[k * n + i] ? WANTED : 0);
        }
    for (int64_t i = 0; i < n; i++)
        if (c->mark[i] & SUPPORT)
            c->rows[n_support++] = i;
    count = n_support;
    for (int64_t i = 0; i < n; i++)
        if (c->mark[i] == WANTED)
            c->rows[count++] = i;
    *n_wanted = count;
    return n_support;
}

/* some_scores += what coefficients of n_points points, `stride` apart, make of values in double;
 * not 0: stopped. */
static int score_in_double(const making *c, int64_t count, int64_t m, int64_t n_points,
                           const double *coef, int64_t stride)
{
    const pegasos_kernel_evidence *const e = c->e;
    const int64_t most = e->most_in_double;
    for (int64_t z = 0; z < m; z += most)
        for (int64_t x = 0; x < count; x += most) {
            const int64_t n_z = m - z < most ? m - z : most;
            const int64_t n_x = count - x < most ? count - x : most;
            const bool is_all = n_z == m; /* which the rows with coefficients are the first of */
            pegasos_columns *columns;
            for (int64_t p = 0; p < n_points; p++)
                for (int64_t r = 0; r < n_x; r++)
                    c->some_coef[p * n_x + r] = coef[p * stride + c->rows[x + r]];
            if (e->in_double(e->context, is_all ? 0 : n_x, c->rows + x, n_z, c->rows + z, &columns)
                    != 0
                || pegasos_columns_add(columns, n_x, c->sequence, n_points, c->some_coef, n_x, NULL,
                                       is_all && !columns->needs_full_rows, m, c->some_scores + z)
                       != 0)
                return 1;
        }
    return 0;
}

/* Scores of the rows that some problems want; not 0: stopped. */
static int score_rows(const making *c, int64_t first, int64_t last, bool in_double)
{
    const bool is_one = last - first == 1;
    const int64_t n = c->n, n_points = c->n_sets * (last - first);
    const int64_t stride = is_one ? c->n_problems * n : n;
    const double *const coef = c->points + first * n;
    int64_t m, status;
    const int64_t count = list_rows(c, first, last, &m);
    memset(c->some_scores, 0, (size_t)(n_points * m) * sizeof(double));
    if (in_double)
        status = score_in_double(c, count, m, n_points, coef, stride);
    else
        status = pegasos_columns_score(c->e->columns, count, c->rows, m, c->rows, n_points, coef,
                                       stride, c->rows, c->values, c->some_scores);
    for (int64_t p = 0; p < n_points && status == 0; p++)
        for (int64_t j = 0; j < m; j++)
            c->scores[first * n + p * stride + c->rows[j]] = c->some_scores[p * m + j];
    return (int)status;
}

/* Scores of the rows that each problem wants: one by one, or where that takes fewer kernel values,
 * or additions of values that are there, of all problems at once; not 0: stopped. */
static int score(const making *c, bool in_double)
{
    const pegasos_columns *const columns = c->e->columns;
    const int64_t n = c->n, n_problems = c->n_problems;
    const bool are_there = columns->is_all_at_once || *columns->n_kept == n;
    double apart = 0, supports = 0;
    int64_t m;
    for (int64_t k = 0; k < n_problems; k++) {
        const double n_support = (double)list_rows(c, k, k + 1, &m);
        apart += n_support * (double)m;
        supports += n_support;
    }
    const double together = (double)list_rows(c, 0, n_problems, &m) * (double)(in_double ? m : n);
    const bool are_apart =
        in_double || !are_there ? apart < together : 2 * apart <= supports * (double)n;
    if (are_apart) {
        for (int64_t k = 0; k < n_problems; k++)
            if (score_rows(c, k, k + 1, in_double) != 0)
                return 1;
        return 0;
    }
    if (in_double)
        return score_rows(c, 0, n_problems, true);
    return pegasos_columns_multiply(c->e->columns, c->n_sets * n_problems, c->points, c->scores);
}

/* Kernel values K(x_i, .) are at most sizes[i], with an error of at most errors[i]. A sum of them
 * in double adds an error of a part of sizes[i] for each number added. */
static point_sums sum_point(const making *c, int64_t point, const double *errors)
{
    const double *const coef = c->points + point * c->n, *const scores = c->scores + point * c->n;
    point_sums s = {0};
    double n_added = 2, rounding = 0;
    for (int64_t i = 0; i < c->n; i++) {
        const double beta = coef[i], length = fabs(beta), product = beta * scores[i];
        s.squared_norm += product;
        s.size += fabs(product);
        s.length += length;
        s.squares += beta * beta;
        s.doubt += length * errors[i];
        rounding += length * c->e->sizes[i];
        n_added += beta != 0;
    }
    s.doubt += n_added * DBL_EPSILON * rounding;
    s.rounding = s.doubt * s.length;
    return s;
}

/* Scores from columns, and in double where that matters; not 0: stopped. */
static int score_by_columns(const making *c)
{
    const int64_t n = c->n;
    const bool has_margin = loss_has_margin(loss_of(c->m->targets.loss));
    memset(c->scores, 0, (size_t)(c->n_sets * c->n_problems * n) * sizeof(double));
    for (int64_t i = 0; i < n; i++)
        c->sequence[i] = i;
    for (int64_t i = 0; i < c->n_problems * n; i++)
        c->is_wanted[i] = c->m->targets.labels[i] != 0;
    if (score(c, false) != 0)
        return 1;
    for (int64_t k = 0; k < c->n_problems && c->e->float_errors; k++) {
        const double most = 1 + sum_point(c, k, c->e->float_errors).doubt;
        for (int64_t i = k * n; i < (k + 1) * n; i++) {
            const double margin = c->m->targets.labels[i] * (c->scores[i] + c->m->intercepts[k]);
            c->is_wanted[i] &= (int8_t)(!has_margin || margin <= most);
        }
    }
    return c->e->float_errors ? score(c, true) : 0;
}

static int64_t longest_row(const pegasos_rows *rows)
{
    int64_t most = rows->index_bytes ? 0 : rows->n_features;
    for (int64_t i = 0; i < rows->n_rows && rows->index_bytes; i++) {
        const int64_t length = row_offset(rows, i + 1) - row_offset(rows, i);
        most = length > most ? length : most;
    }
    return most;
}

/* What is rounded in w itself matters for |w(a)|^2 alone: any w has a primal value. */
static void sum_weights(const making *c, int64_t point, double longest, double squares)
{
    const double *const coef = c->points + point * c->n;
    double lengths = 0, n_added = 2, largest = 0;
    for (int64_t i = 0; i < c->n; i++) {
        lengths += fabs(coef[i]) * sqrt(c->e->norms[i]);
        n_added += coef[i] != 0;
        largest = c->e->norms[i] > largest ? c->e->norms[i] : largest;
    }
    const double summed = n_added * DBL_EPSILON * lengths;
    point_sums *const s = c->sums + point;
    s->squared_norm = squares;
    s->doubt = (longest + 4) * DBL_EPSILON * sqrt(squares) * sqrt(largest);
    s->rounding = (2 * sqrt(squares) + summed) * summed
                  + ((double)c->e->rows->n_features + 4) * DBL_EPSILON * squares;
}

/* Scores of the linear kernel, from w; not 0: stopped. */
static int score_by_weights(const making *c)
{
    const pegasos_rows *const rows = c->e->rows;
    pegasos_watch *const watch = c->e->columns->workers->watch;
    const int64_t n = c->n, d = rows->n_features, n_points = c->n_sets * c->n_problems;
    const double numbers = 1 + stored_numbers(rows) / (double)n;
    const double most = watch->every / (numbers * (double)n_points);
    const int64_t piece = most < 1 ? 1 : most < ROWS ? (int64_t)most : ROWS;
    double *const w = c->some_coef + n_points * d; /* of one point */
    for (int64_t p = 0; p < n_points; p++) {
        memset(w, 0, (size_t)d * sizeof(double));
        for (int64_t i = 0, count; i < n; i += count) {
            count = min_of(piece, n - i);
            pegasos_linear_combine(rows, i, count, c->points + p * n + i, w);
            if (is_to_stop(watch, numbers * (double)count))
                return 1;
        }
        c->sums[p].squared_norm = squared_norm_of(w, d);
        for (int64_t j = 0; j < d; j++)
            c->some_coef[j * n_points + p] = w[j];
        c->none[p] = 0;
    }
    for (int64_t i = 0, count; i < n; i += count) {
        count = min_of(piece, n - i);
        pegasos_linear_scores(rows, i, NULL, count, n_points, c->some_coef, 8, n_points > 1,
                              c->none, c->some_scores);
        for (int64_t p = 0; p < n_points; p++)
            for (int64_t r = 0; r < count; r++)
                c->scores[p * n + i + r] = c->some_scores[r * n_points + p];
        if (is_to_stop(watch, numbers * (double)(count * n_points)))
            return 1;
    }
    return 0;
}

/* ---- Certificates ---------------------------------------------------------------------------- */

/* Returns sum_i c_i l(z_i - y_i (f_i + b)), and writes by how much it grows at most where each
 * z_i - y_i (f_i + b) is off by doubt + ridge |beta_i|. */
static double losses_in_doubt(const pegasos_targets *t, const double *scores, double intercept,
                              const double *coef, double doubt, double ridge, double *growth)
{
    const loss_form l = loss_of(t->loss);
    double sum = 0, more = 0;
    for (int64_t i = 0; i < t->n; i++) {
        const double c = weight_at(t, i), f = scores[i] + intercept;
        const double u = error_at(t, i, f), own = doubt + ridge * fabs(coef[i]);
        if (t->labels[i] == 0)
            continue;
        sum += c * loss_value(l, u) + (f - f);
        /* The loss is convex. */
        more += c * own * fmax(loss_derivative(l, u + own), -loss_derivative(l, u - own));
    }
    *growth = more;
    return sum;
}

/* Whether |w|^2 is below 0 by more than rounding explains. Where scores cancel to 0, the numbers
 * that they are sums of are rounding errors themselves. */
static bool is_negative(const making *c, int64_t point)
{
    const point_sums *const s = c->sums + point;
    const double eps = c->e->columns->value_bytes == 4 ? FLT_EPSILON : DBL_EPSILON;
    double lengths = 0;
    if (!(s->squared_norm < -BY_ROUNDING * s->size))
        return false;
    for (int64_t i = 0; i < c->n; i++)
        lengths += fabs(c->points[point * c->n + i]) * sqrt(fabs(c->e->norms[i]));
    const double noise = (double)c->n * eps * lengths * lengths;
    return s->squared_norm < -BY_ROUNDING * s->size - noise;
}

/* With `ridge` on the diagonal, |w|^2 and each row's own score are larger, too. */
static pegasos_kernel_certificate certificate_of(const making *c, int64_t k)
{
    const pegasos_targets t = targets_among(&c->m->targets, c->m->epsilons, k);
    const int64_t n = c->n, other = (c->n_sets - 1) * c->n_problems + k;
    const double lam = c->m->lams[k], mass = c->m->masses[k], b = c->m->intercepts[k];
    const double feature = c->m->intercept_scaling, of_intercept = feature > 0 ? b / feature : 0;
    const double ridge = c->e->ridge, *const a = c->a + k * n;
    const point_sums *const model = c->sums + k, *const dual = c->sums + other;
    const int64_t is_positive = c->e->is_positive;
    double growth, total = 0;
    const double losses =
        losses_in_doubt(&t, c->scores + k * n, b, c->points + k * n, model->doubt, ridge, &growth);
    for (int64_t i = 0; i < n; i++)
        total += a[i] * t.labels[i] / (lam * mass);
    const double norm = model->squared_norm + of_intercept * of_intercept;
    const double dual_norm = dual->squared_norm + feature * total * (feature * total);
    const double errors = ridge * model->squares + model->rounding;
    const double dual_errors = ridge * dual->squares + dual->rounding;
    const double objective = lam / 2 * norm + losses / mass + t.loss.nu * b;
    const double value = pegasos_best_dual(&t, a, dual_norm, mass, lam, is_positive);
    const double bound = pegasos_best_dual(&t, a, dual_norm + dual_errors, mass, lam, 1);
    const double more = lam / 2 * errors + growth / mass;
    return (pegasos_kernel_certificate){
        .objective = objective,
        .dual_value = value,
        .dual_objective = is_positive ? fmax(bound, 0) - more : NAN,
        .is_refuted =
            value > objective * (1 + BY_ROUNDING) || is_negative(c, k) || is_negative(c, other),
    };
}

int pegasos_kernel_certify(const pegasos_kernel_models *models,
                           const pegasos_kernel_evidence *evidence, void *scratch,
                           pegasos_kernel_certificate *certificates)
{
    making c;
    lay_out(&c, models, evidence, scratch);
    assert(c.n_problems >= 1 && (evidence->most_in_double >= 1 || !evidence->float_errors));
    set_points(&c);
    if ((evidence->rows ? score_by_weights(&c) : score_by_columns(&c)) != 0)
        return 1;
    const double longest = evidence->rows ? (double)longest_row(evidence->rows) : 0;
    for (int64_t p = 0; p < c.n_sets * c.n_problems; p++) {
        const double squares = c.sums[p].squared_norm; /* of weights */
        c.sums[p] = sum_point(&c, p, evidence->errors);
        if (evidence->rows)
            sum_weights(&c, p, longest, squares);
    }
    for (int64_t k = 0; k < c.n_problems; k++)
        certificates[k] = certificate_of(&c, k);
    return 0;
}
