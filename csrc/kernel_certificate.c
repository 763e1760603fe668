/*
 * kernel_certificate.c - primal and dual objectives of kernel machines, and what they prove.
 *
 * Objectives are those of certificate.c, with w = sum_j beta_j phi(x_j) and
 * |w|^2 = sum_j beta_j f_j. Scores f_i = sum_j beta_j K(x_i, x_j) are recomputed, and the
 * certificate allows for their rounding.
 *
 * Scores from float columns are computed again in double where that matters: for rows with
 * coefficients, and for rows that may be within their margin. Other rows are outside beyond doubt,
 * whatever the rounding, and have the loss 0.
 *
 * Problems with the same rows are certified together. Others, such as pairs of classes, are
 * certified one by one, on arrays of their own rows.
 */
#include "loss.h"
#include "passes.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* How far |w|^2 may be below 0, as a part of its terms, and a dual value above a primal one. */
static const double BY_ROUNDING = 1e-5;
/* With weights, scores of this many rows are computed at a time. */
enum { ROWS = 256 };

/* Sums over coefficients beta and scores f that a certificate needs. */
typedef struct point_sums {
    double squared_norm; /* sum_i beta_i f_i */
    double size;         /* sum_i |beta_i f_i| */
    double doubt;        /* by how much rounding can change a score */
    double length;       /* sum_i |beta_i| */
    double squares;      /* sum_i beta_i^2 */
    double rounding;     /* by how much rounding can change squared_norm */
} point_sums;

/* Certificates in the making, for problems with the same n rows: m, e and the arrays have these
 * rows only. Points are coefficients: first those of the models, then those of the dual variables,
 * unless both are equal. Problem k has point k and, if n_sets is 2, point n_problems + k. */
typedef struct making {
    pegasos_kernel_models m;
    pegasos_kernel_evidence e;
    int64_t n, n_problems, n_sets;
    int64_t *inside;                 /* n: the numbers of the rows */
    int8_t *labels;                  /* n_problems x n */
    double *targets;                 /* n_problems x n */
    double *of_rows;                 /* 5 x n */
    double *a;                       /* n_problems x n: feasible dual variables */
    double *none;                    /* 2 n_problems: intercepts of 0 */
    double *points, *scores;         /* 2 n_problems x n */
    double *some_coef, *some_scores; /* of some rows */
    point_sums *sums;                /* 2 n_problems */
    int64_t *rows, *numbers;         /* some rows, and their numbers */
    int64_t *sequence;               /* 0, 1, ... */
    int8_t *mark;                    /* n: 1 for rows whose scores are to be computed */
    void *values;
} making;

/* How many problems are certified together: all, if they have the same rows. But if their
 * coefficients are on different rows, there may be more values among all these rows than for one
 * problem after the other. Then it is 1, if columns need not be computed again. */
static int64_t how_many(const pegasos_kernel_models *m, const pegasos_kernel_evidence *e)
{
    const int64_t n = m->targets.n;
    const int8_t *const labels = m->targets.labels;
    double apart = 0, together = 0;
    for (int64_t k = 0; k < m->n_problems; k++) {
        double own = 0;
        for (int64_t i = 0; i < n; i++) {
            if ((labels[k * n + i] != 0) != (labels[i] != 0))
                return 1;
            own += m->coef[k * n + i] != 0;
        }
        apart += own * own;
    }
    for (int64_t i = 0; i < n; i++) {
        bool is_support = false;
        for (int64_t k = 0; k < m->n_problems; k++)
            is_support |= m->coef[k * n + i] != 0;
        together += is_support;
    }
    const bool are_kept = e->columns->n_columns == n && !e->columns->is_cheap;
    return are_kept && apart < together * together ? 1 : m->n_problems;
}

static int64_t lay_out(making *c, const pegasos_kernel_models *m, const pegasos_kernel_evidence *e,
                       void *scratch)
{
    const int64_t n = m->targets.n, d = e->rows ? e->rows->n_features : 0;
    const int64_t k = how_many(m, e);
    layout all = {scratch, 8, 0};
    *c = (making){.n_problems = k};
    c->inside = take(&all, 8 * n);
    c->labels = take(&all, k * n);
    c->targets = take(&all, m->targets.values ? 8 * k * n : 0);
    c->of_rows = take(&all, 8 * 5 * n);
    c->a = take(&all, 8 * k * n);
    c->none = take(&all, 16 * k);
    c->mark = take(&all, n);
    c->points = take(&all, 16 * k * n);
    c->scores = take(&all, 16 * k * n);
    c->sums = take(&all, 2 * k * (int64_t)sizeof *c->sums);
    /* By weights: those of all points and of one; scores of some rows. */
    c->some_coef = take(&all, e->rows ? 8 * (2 * k + 1) * d : 16 * k * n);
    c->some_scores = take(&all, 16 * k * (e->rows ? ROWS : n));
    if (e->rows)
        return all.bytes;
    c->rows = take(&all, 8 * n);
    c->numbers = take(&all, 8 * n);
    c->sequence = take(&all, 8 * n);
    c->values = take(&all, pegasos_columns_block(n) * e->columns->value_bytes);
    return all.bytes;
}

int64_t pegasos_kernel_certificate_scratch_bytes(const pegasos_kernel_models *models,
                                                 const pegasos_kernel_evidence *evidence)
{
    making c;
    return lay_out(&c, models, evidence, NULL);
}

/* Copies the numbers of the rows inside; returns the copy, or NULL if there are none. */
static double *copy(const making *c, const double *from, double *to)
{
    for (int64_t i = 0; i < c->n && from; i++)
        to[i] = from[c->inside[i]];
    return from ? to : NULL;
}

/* Takes the data of problems number first, first + 1, ...; given dual variables go to `scores`. */
static void set_rows(making *c, const pegasos_kernel_models *all,
                     const pegasos_kernel_evidence *evidence, int64_t first)
{
    const int64_t n_all = all->targets.n;
    pegasos_kernel_models *const m = &c->m;
    memset(c->mark, 0, (size_t)n_all);
    for (int64_t j = first * n_all, k = 0; k < c->n_problems; k++)
        for (int64_t i = 0; i < n_all; i++, j++)
            c->mark[i] |= (int8_t)(all->targets.labels[j] != 0 || all->coef[j] != 0);
    c->n = 0;
    for (int64_t i = 0; i < n_all; i++)
        if (c->mark[i])
            c->inside[c->n++] = i;
    c->m = *all;
    c->e = *evidence;
    m->targets.n = c->n;
    m->targets.labels = c->labels;
    m->targets.weights = copy(c, all->targets.weights, c->of_rows);
    m->targets.values = all->targets.values ? c->targets : NULL;
    m->epsilons = all->epsilons ? all->epsilons + first : NULL;
    m->lams += first;
    m->masses += first;
    m->intercepts += first;
    c->e.norms = copy(c, evidence->norms, c->of_rows + n_all);
    c->e.sizes = copy(c, evidence->sizes, c->of_rows + 2 * n_all);
    c->e.errors = copy(c, evidence->errors, c->of_rows + 3 * n_all);
    c->e.float_errors = copy(c, evidence->float_errors, c->of_rows + 4 * n_all);
    for (int64_t k = 0; k < c->n_problems; k++) {
        const int64_t at = (first + k) * n_all;
        for (int64_t i = 0; i < c->n; i++)
            c->labels[k * c->n + i] = all->targets.labels[at + c->inside[i]];
        if (all->targets.values)
            copy(c, all->targets.values + at, c->targets + k * c->n);
        copy(c, all->coef + at, c->points + k * c->n);
        copy(c, all->dual_variables + at, c->scores + k * c->n);
    }
}

static void set_points(making *c)
{
    const pegasos_kernel_models *const m = &c->m;
    const int64_t n = c->n, n_points = c->n_problems * n;
    bool are_same = true;
    for (int64_t k = 0; k < c->n_problems; k++) {
        const pegasos_targets own = targets_among(&m->targets, m->epsilons, k);
        const double factor = 1 / (m->lams[k] * m->masses[k]);
        double *const beta = c->points + n_points + k * n;
        pegasos_make_feasible(&own, m->free_intercept, c->scores + k * n, c->a + k * n);
        for (int64_t i = 0; i < n; i++) {
            const double coef = c->points[k * n + i];
            beta[i] = c->a[k * n + i] * own.labels[i] * factor;
            /* Rounding to this size is within the bounds anyway. */
            are_same &= fabs(beta[i] - coef) <= 4 * DBL_EPSILON * fabs(coef);
        }
    }
    c->n_sets = are_same ? 1 : 2;
}

/* ---- Scores ---------------------------------------------------------------------------------- */

/* Lists rows with coefficients, and then other marked rows; returns how many have coefficients. */
static int64_t list_rows(const making *c, int64_t *n_wanted)
{
    const int64_t n = c->n;
    enum { WANTED = 1, SUPPORT = 2 };
    int64_t n_support = 0, count;
    for (int64_t p = 0; p < c->n_sets * c->n_problems; p++)
        for (int64_t i = 0; i < n; i++)
            c->mark[i] |= (int8_t)(c->points[p * n + i] != 0 ? SUPPORT : 0);
    for (int64_t i = 0; i < n; i++)
        if (c->mark[i] & SUPPORT)
            c->rows[n_support++] = i;
    count = n_support;
    for (int64_t i = 0; i < n; i++)
        if (c->mark[i] == WANTED)
            c->rows[count++] = i;
    for (int64_t j = 0; j < count; j++)
        c->numbers[j] = c->inside[c->rows[j]];
    *n_wanted = count;
    return n_support;
}

/* some_scores += sums of coefficients times values in double; not 0: stopped. */
static int score_in_double(const making *c, int64_t count, int64_t m)
{
    const pegasos_kernel_evidence *const e = &c->e;
    const int64_t most = e->most_in_double, n_points = c->n_sets * c->n_problems;
    for (int64_t z = 0; z < m; z += most)
        for (int64_t x = 0; x < count; x += most) {
            const int64_t n_z = m - z < most ? m - z : most;
            const int64_t n_x = count - x < most ? count - x : most;
            const bool is_all = n_z == m; /* the rows with coefficients are the first of them */
            pegasos_columns *columns;
            for (int64_t p = 0; p < n_points; p++)
                for (int64_t r = 0; r < n_x; r++)
                    c->some_coef[p * n_x + r] = c->points[p * c->n + c->rows[x + r]];
            if (e->in_double(e->context, is_all ? 0 : n_x, c->numbers + x, n_z, c->numbers + z,
                             &columns)
                    != 0
                || pegasos_columns_add(columns, n_x, c->sequence, n_points, c->some_coef, n_x, NULL,
                                       is_all && !columns->needs_full_rows, m, c->some_scores + z)
                       != 0)
                return 1;
        }
    return 0;
}

/* Computes the scores of marked rows; not 0: stopped. */
static int score(const making *c, bool in_double)
{
    const int64_t n = c->n, n_points = c->n_sets * c->n_problems;
    int64_t m, status;
    if (!in_double && n == c->e.columns->n_rows)
        return pegasos_columns_multiply(c->e.columns, n_points, c->points, c->scores);
    const int64_t count = list_rows(c, &m);
    memset(c->some_scores, 0, (size_t)(n_points * m) * sizeof(double));
    if (in_double)
        status = score_in_double(c, count, m);
    else
        status = pegasos_columns_score(c->e.columns, count, c->numbers, m, c->numbers, n_points,
                                       c->points, n, c->rows, c->values, c->some_scores);
    for (int64_t p = 0; p < n_points && status == 0; p++)
        for (int64_t j = 0; j < m; j++)
            c->scores[p * n + c->rows[j]] = c->some_scores[p * m + j];
    return (int)status;
}

/* Kernel values K(x_i, .) are at most sizes[i], with errors of at most errors[i]. In a sum in
 * double, each number added brings an error of a part of sizes[i]. */
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
        rounding += length * c->e.sizes[i];
        n_added += beta != 0;
    }
    s.doubt += n_added * DBL_EPSILON * rounding;
    s.rounding = s.doubt * s.length;
    return s;
}

/* Computes scores from columns, and in double where that matters; not 0: stopped. */
static int score_by_columns(const making *c)
{
    const int64_t n = c->n;
    const bool has_margin = loss_has_margin(loss_of(c->m.targets.loss));
    for (int64_t i = 0; i < n; i++)
        c->sequence[i] = i;
    memset(c->mark, 1, (size_t)n);
    if (score(c, false) != 0)
        return 1;
    if (!c->e.float_errors)
        return 0;
    memset(c->mark, !has_margin, (size_t)n);
    for (int64_t k = 0; k < c->n_problems && has_margin; k++) {
        const double most = 1 + sum_point(c, k, c->e.float_errors).doubt;
        const int8_t *const labels = c->labels + k * n;
        for (int64_t i = 0; i < n; i++) {
            const double margin = labels[i] * (c->scores[k * n + i] + c->m.intercepts[k]);
            c->mark[i] |= (int8_t)(labels[i] != 0 && margin <= most);
        }
    }
    return score(c, true);
}

static int64_t longest_row(const pegasos_rows *rows)
{
    int64_t most = 0;
    for (int64_t i = 0; i < rows->n_rows; i++)
        most = max_of(most, row_begin(rows, i + 1) - row_begin(rows, i));
    return most;
}

/* Rounding in w itself matters only for |w(a)|^2, since any w has a primal value. */
static void sum_weights(const making *c, int64_t point, double longest, double squares)
{
    const double *const coef = c->points + point * c->n;
    double lengths = 0, n_added = 2, largest = 0;
    for (int64_t i = 0; i < c->n; i++) {
        lengths += fabs(coef[i]) * sqrt(c->e.norms[i]);
        n_added += coef[i] != 0;
        largest = c->e.norms[i] > largest ? c->e.norms[i] : largest;
    }
    const double summed = n_added * DBL_EPSILON * lengths;
    point_sums *const s = c->sums + point;
    s->squared_norm = squares;
    s->doubt = (longest + 4) * DBL_EPSILON * sqrt(squares) * sqrt(largest);
    s->rounding = (2 * sqrt(squares) + summed) * summed
                  + ((double)c->e.rows->n_features + 4) * DBL_EPSILON * squares;
}

/* Computes scores of the linear kernel from w; not 0: stopped. */
static int score_by_weights(const making *c)
{
    const pegasos_rows *const rows = c->e.rows;
    pegasos_watch *const watch = c->e.columns->workers->watch;
    const int64_t n = c->n, n_all = rows->n_rows, d = rows->n_features;
    const int64_t n_points = c->n_sets * c->n_problems;
    const double numbers = 1 + stored_in_row(rows);
    const double most = watch->every / (numbers * (double)n_points);
    const int64_t piece = most < 1 ? 1 : most < ROWS ? (int64_t)most : ROWS;
    double *const w = c->some_coef + n_points * d, *const coef = c->scores; /* of one point */
    for (int64_t p = 0; p < n_points; p++) {
        memset(w, 0, (size_t)d * sizeof(double));
        memset(coef, 0, (size_t)n_all * sizeof(double));
        for (int64_t i = 0; i < n; i++)
            coef[c->inside[i]] = c->points[p * n + i];
        for (int64_t i = 0, count; i < n_all; i += count) {
            count = min_of(piece, n_all - i);
            pegasos_linear_combine(rows, i, count, coef + i, w);
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
        pegasos_linear_scores(rows, 0, c->inside + i, count, n_points, c->some_coef, 8,
                              n_points > 1, c->none, c->some_scores);
        for (int64_t p = 0; p < n_points; p++)
            for (int64_t r = 0; r < count; r++)
                c->scores[p * n + i + r] = c->some_scores[r * n_points + p];
        if (is_to_stop(watch, numbers * (double)(count * n_points)))
            return 1;
    }
    return 0;
}

/* ---- Certificates ---------------------------------------------------------------------------- */

/* Returns sum_i c_i l(z_i - y_i (f_i + b)). `growth` is the most that it can grow if each z_i - y_i
 * (f_i + b) is off by doubt + ridge |beta_i|. */
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
        /* By convexity of the loss. */
        more += c * own * fmax(loss_derivative(l, u + own), -loss_derivative(l, u - own));
    }
    *growth = more;
    return sum;
}

/* Whether |w|^2 is below 0 by more than rounding explains. Where scores cancel to 0, their terms
 * are rounding errors themselves. */
static bool is_negative(const making *c, int64_t point)
{
    const point_sums *const s = c->sums + point;
    const double eps = c->e.columns->value_bytes == 4 ? FLT_EPSILON : DBL_EPSILON;
    double lengths = 0;
    if (!(s->squared_norm < -BY_ROUNDING * s->size))
        return false;
    for (int64_t i = 0; i < c->n; i++)
        lengths += fabs(c->points[point * c->n + i]) * sqrt(fabs(c->e.norms[i]));
    const double noise = (double)c->n * eps * lengths * lengths;
    return s->squared_norm < -BY_ROUNDING * s->size - noise;
}

/* `ridge` on the diagonal also adds to |w|^2 and to each row's own score. */
static pegasos_kernel_certificate certificate_of(const making *c, int64_t k)
{
    const pegasos_targets t = targets_among(&c->m.targets, c->m.epsilons, k);
    const int64_t n = c->n, other = (c->n_sets - 1) * c->n_problems + k;
    const double lam = c->m.lams[k], mass = c->m.masses[k], b = c->m.intercepts[k];
    const double feature = c->m.intercept_scaling, of_intercept = feature > 0 ? b / feature : 0;
    const double ridge = c->e.ridge, *const a = c->a + k * n;
    const point_sums *const model = c->sums + k, *const dual = c->sums + other;
    const int64_t is_positive = c->e.is_positive;
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
    const double longest = evidence->rows ? (double)longest_row(evidence->rows) : 0;
    for (int64_t first = 0; first < models->n_problems; first += c.n_problems) {
        set_rows(&c, models, evidence, first);
        set_points(&c);
        if ((evidence->rows ? score_by_weights(&c) : score_by_columns(&c)) != 0)
            return 1;
        for (int64_t p = 0; p < c.n_sets * c.n_problems; p++) {
            const double squares = c.sums[p].squared_norm; /* of weights */
            c.sums[p] = sum_point(&c, p, c.e.errors);
            if (evidence->rows)
                sum_weights(&c, p, longest, squares);
        }
        for (int64_t k = 0; k < c.n_problems; k++)
            certificates[first + k] = certificate_of(&c, k);
    }
    return 0;
}
