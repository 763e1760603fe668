/*
 * kernel_columns.c - columns of a kernel matrix, each computed once as long as there is room.
 *
 * A column that found room stays. Rows are visited in random order, so room for half of the columns
 * serves half of the requests, and no replacement could do much better. Other columns are computed
 * in blocks, for some rows of a round or to be added to scores, and forgotten.
 *
 * Kernels of rows (kernels.c) or a program (kernel_callback.c) write the values.
 */
#include "passes.h"

#include <math.h>
#include <string.h>

/* Rows whose columns are computed, or added to scores, together; and columns of a block. */
enum { ROWS = 256, WIDTH = 4096, MIRRORED = 512, GATHERED = 16 };
/* The time in which a known kernel value is added to a score, in numbers read. */
static const double PART_OF_NUMBER = 0.125;
/* Clearing a number may take as long as reading this many. */
static const double CLEARED = 4;

int64_t pegasos_columns_block(int64_t n_rows)
{
    return max_of(n_rows, (int64_t)ROWS * min_of(WIDTH, n_rows));
}

/* How many rows a block of `width` columns has. */
static int64_t rows_of_block(int64_t width)
{
    return max_of(1, min_of((int64_t)ROWS * WIDTH / width, ROWS));
}

/* ---- Columns that are kept ------------------------------------------------------------------- */

typedef struct mirror {
    const pegasos_columns *c;
    int64_t first, last; /* rows whose columns are known, from `first` on */
} mirror;

static void do_mirror(void *argument, int64_t slot, int64_t k)
{
    const mirror *const m = argument;
    const int64_t n = m->c->n_rows, bytes = m->c->value_bytes, first = m->last + k * GATHERED;
    void *const columns = m->c->columns;
    (void)slot;
    for (int64_t j = first; j < n && j < first + GATHERED; j++)
        for (int64_t i = m->first; i < m->last; i++)
            set_to(columns, bytes, j * n + i, get(columns, bytes, i * n + j));
}

/* Computes all columns, or half of a symmetric matrix, which it mirrors; not 0: stopped. */
static int fill_all(pegasos_columns *c)
{
    const int64_t n = c->n_rows;
    /* Squares on the diagonal are computed in full, so pieces are small if threads do not pay. */
    const bool is_little = c->is_symmetric && n * n <= LEAST_SHARED / 2;
    const int64_t part = is_little ? min_of(MIRRORED, n / 8 + 32) : MIRRORED;
    int64_t rows[MIRRORED];
    for (int64_t first = 0, count; first < n; first += count) {
        count = min_of(part, n - first);
        const int64_t from = c->is_symmetric ? first : 0, last = first + count;
        for (int64_t i = 0; i < count; i++)
            rows[i] = first + i;
        char *const out = (char *)c->columns + (first * n + from) * c->value_bytes;
        if (c->values(c->context, count, rows, from, n - from, NULL, n, out) != 0)
            return 1;
        mirror m = {c, first, last};
        const int64_t n_tasks = (n - last + GATHERED - 1) / GATHERED;
        /* The cost is that of reading and clearing whole rows: where memory comes in large pages,
         * the system clears all of them at the first write. */
        if (c->is_symmetric && n_tasks > 0
            && !run_tasks(c->workers, n_tasks, CLEARED * GATHERED * (double)n, do_mirror, &m))
            return 1;
    }
    for (int64_t i = 0; i < n; i++)
        c->column_of[i] = i;
    *c->n_kept = n;
    return 0;
}

int pegasos_columns_keep(pegasos_columns *c, int64_t count, const int64_t *rows)
{
    const int64_t n = c->n_rows;
    int64_t missing[ROWS];
    if (c->is_all_at_once)
        return *c->n_kept == n ? 0 : fill_all(c);
    for (int64_t j = 0; j < count && *c->n_kept < c->n_columns;) {
        const int64_t room = min_of(ROWS, c->n_columns - *c->n_kept);
        int64_t some = 0;
        for (; j < count && some < room; j++)
            if (c->column_of[rows[j]] < 0)
                missing[some++] = rows[j];
        char *const out = (char *)c->columns + *c->n_kept * n * c->value_bytes;
        if (some > 0 && c->values(c->context, some, missing, 0, n, NULL, n, out) != 0)
            return 1;
        for (int64_t k = 0; k < some; k++)
            c->column_of[missing[k]] = (*c->n_kept)++;
    }
    return 0;
}

/* ---- Values among rows ----------------------------------------------------------------------- */

/* Numbers far apart each take a cache line, so those of the next column, `ahead`, are prefetched.
 * Callers give `value_bytes` as a constant. */
static INLINE void gather(int64_t value_bytes, const char *from, const char *ahead, int64_t m,
                          const int64_t *which, char *to)
{
    for (int64_t j = 0; j < m; j++) {
        set_to(to, value_bytes, j, get(from, value_bytes, which[j]));
        PREFETCH(ahead + which[j] * value_bytes);
    }
}

void pegasos_kernel_gather(int64_t count, const int64_t *places, int64_t stride,
                           int64_t value_bytes, const void *columns, int64_t m,
                           const int64_t *which, int64_t out_stride, void *out)
{
    assert(count >= 0 && m >= 0 && are_in_range(which, m, 0, INT64_MAX));
    const char *const first = columns;
    const int64_t bytes = value_bytes, apart = stride * bytes;
    for (int64_t i = 0; i < count; i++) {
        if (places[i] < 0)
            continue;
        const int64_t next = i + 1 < count && places[i + 1] >= 0 ? places[i + 1] : places[i];
        const char *const from = first + places[i] * apart, *const ahead = first + next * apart;
        char *const to = (char *)out + i * out_stride * bytes;
        if (bytes == 4)
            gather(4, from, ahead, m, which, to);
        else
            gather(8, from, ahead, m, which, to);
    }
}

typedef struct gathering {
    const pegasos_columns *c;
    int64_t count, m, stride;
    const int64_t *rows, *which;
    char *out;
} gathering;

static void do_gather(void *argument, int64_t slot, int64_t k)
{
    const gathering *const g = argument;
    const int64_t first = k * GATHERED, count = min_of(GATHERED, g->count - first);
    const int64_t bytes = g->c->value_bytes;
    int64_t places[GATHERED];
    (void)slot;
    for (int64_t j = 0; j < count; j++)
        places[j] = g->c->column_of[g->rows[first + j]];
    pegasos_kernel_gather(count, places, g->c->n_rows, bytes, g->c->columns, g->m, g->which,
                          g->stride, g->out + first * g->stride * bytes);
}

int pegasos_columns_values(pegasos_columns *c, int64_t count, const int64_t *rows, int64_t m,
                           const int64_t *which, int64_t stride, void *out)
{
    const int64_t bytes = c->value_bytes, most = rows_of_block(m);
    gathering g = {c, count, m, stride, rows, which, out};
    int64_t missing[ROWS], lines[ROWS], n_missing = 0;
    if (c->is_all_at_once && pegasos_columns_keep(c, count, rows) != 0)
        return 1;
    for (int64_t j = 0; j < count; j++)
        n_missing += c->column_of[rows[j]] < 0;
    if (n_missing < count
        && !run_tasks(c->workers, (count + GATHERED - 1) / GATHERED, GATHERED * (double)m,
                      do_gather, &g))
        return 1;
    for (int64_t j = 0, some; j < count && n_missing > 0;) {
        for (some = 0; j < count && some < most; j++)
            if (c->column_of[rows[j]] < 0) {
                missing[some] = rows[j];
                lines[some++] = j;
            }
        if (some == 0)
            break;
        const bool is_direct = lines[some - 1] - lines[0] == some - 1;
        char *const to = is_direct ? g.out + lines[0] * stride * bytes : c->block;
        const int64_t apart = is_direct ? stride : m;
        if (c->values(c->context, some, missing, 0, m, which, apart, to) != 0)
            return 1;
        for (int64_t k = 0; k < some && !is_direct; k++)
            memcpy(g.out + lines[k] * stride * bytes, to + k * m * bytes, (size_t)(m * bytes));
    }
    return 0;
}

/* ---- Scores ---------------------------------------------------------------------------------- */

/* COLUMNS_IN_CACHE columns update SCORES scores before the next scores: both stay in cache. */
enum { SCORES = 8192, COLUMNS_IN_CACHE = 16, ADDED_TOGETHER = 4, SCORE_LANES = 8 };

/* Adds `count` columns, `stride` numbers apart, times coefficients, to several problems' scores. */
typedef struct addition {
    int64_t count, n, stride, value_bytes, n_problems, coef_stride, score_stride;
    const int64_t *places, *which; /* of columns and coefficients; NULL: 0, 1, 2, ... */
    const void *columns;
    const double *coef;
    double *scores;
    int64_t n_mirrored; /* coefficients belong to rows 0 .. n_mirrored - 1, and the value of two of
                           these serves both; 0: this is not so */
} addition;

/* to += u column + constant */
#define DEFINE_ADD_COLUMN(VALUE)                                                                   \
    CLONES_WIDE static void add_column_##VALUE(int64_t m, double u, double constant,               \
                                               const VALUE *restrict column, double *restrict to)  \
    {                                                                                              \
        const int64_t full = m - m % SCORE_LANES;                                                  \
        for (int64_t i = 0; i < full; i += SCORE_LANES)                                            \
            for (int l = 0; l < SCORE_LANES; l++)                                                  \
                to[i + l] += u * (double)column[i + l] + constant;                                 \
        for (int64_t i = full; i < m; i++)                                                         \
            to[i] += u * (double)column[i] + constant;                                             \
    }
DEFINE_ADD_COLUMN(float)
DEFINE_ADD_COLUMN(double)

void pegasos_kernel_add(int64_t n, double factor, double constant, int64_t value_bytes,
                        const void *column, double *scores)
{
    if (value_bytes == 4)
        add_column_float(n, factor, constant, column, scores);
    else
        add_column_double(n, factor, constant, column, scores);
}

/* add_four adds four columns to scores, one after the other for each row, with the bits of four
 * additions. add_columns adds columns from number r on, up to COLUMNS_IN_CACHE, to the scores of
 * problem k, for rows number first .. first + m - 1. */
#define DEFINE_ADD_COLUMNS(VALUE)                                                                  \
    static INLINE void add_four_##VALUE(int64_t m, const double *u, const VALUE *const *columns,   \
                                        double *restrict to)                                       \
    {                                                                                              \
        const VALUE *restrict c0 = columns[0], *restrict c1 = columns[1];                          \
        const VALUE *restrict c2 = columns[2], *restrict c3 = columns[3];                          \
        const double u0 = u[0], u1 = u[1], u2 = u[2], u3 = u[3];                                   \
        const int64_t full = m - m % SCORE_LANES;                                                  \
        for (int64_t i = 0; i < full; i += SCORE_LANES)                                            \
            for (int l = 0; l < SCORE_LANES; l++)                                                  \
                to[i + l] = to[i + l] + u0 * (double)c0[i + l] + u1 * (double)c1[i + l]            \
                            + u2 * (double)c2[i + l] + u3 * (double)c3[i + l];                     \
        for (int64_t i = full; i < m; i++)                                                         \
            to[i] = to[i] + u0 * (double)c0[i] + u1 * (double)c1[i] + u2 * (double)c2[i]           \
                    + u3 * (double)c3[i];                                                          \
    }                                                                                              \
                                                                                                   \
    CLONES_WIDE static void add_columns_##VALUE(const addition *p, int64_t r, int64_t k,           \
                                                int64_t first, int64_t m)                          \
    {                                                                                              \
        const VALUE *const columns = (const VALUE *)p->columns + first, *chosen[COLUMNS_IN_CACHE]; \
        const double *const coef = p->coef + k * p->coef_stride;                                   \
        double *const to = p->scores + k * p->score_stride + first, u[COLUMNS_IN_CACHE];           \
        int64_t n = 0, done = 0;                                                                   \
        for (int64_t j = r; j < p->count && j < r + COLUMNS_IN_CACHE; j++) {                       \
            u[n] = coef[p->which ? p->which[j] : j];                                               \
            chosen[n] = columns + (p->places ? p->places[j] : j) * p->stride;                      \
            n += u[n] != 0;                                                                        \
        }                                                                                          \
        for (; done + ADDED_TOGETHER <= n; done += ADDED_TOGETHER)                                 \
            add_four_##VALUE(m, u + done, chosen + done, to);                                      \
        for (; done < n; done++)                                                                   \
            add_column_##VALUE(m, u[done], 0, chosen[done], to);                                   \
    }
DEFINE_ADD_COLUMNS(float)
DEFINE_ADD_COLUMNS(double)

static void add_to_scores_of_rows(void *argument, int64_t slot, int64_t task)
{
    const addition *const p = argument;
    const int64_t first = task * SCORES, m = min_of(SCORES, p->n - first);
    (void)slot;
    for (int64_t r = 0; r < p->count; r += COLUMNS_IN_CACHE)
        for (int64_t k = 0; k < p->n_problems; k++)
            if (p->value_bytes == 4)
                add_columns_float(p, r, k, first, m);
            else
                add_columns_double(p, r, k, first, m);
}

static bool add_to_scores(const pegasos_columns *c, addition *p)
{
    const double each = PART_OF_NUMBER * (double)(p->count * p->n_problems * SCORES);
    const int64_t n_tasks = (p->n + SCORES - 1) / SCORES;
    return p->count == 0 || run_tasks(c->workers, n_tasks, each, add_to_scores_of_rows, p);
}

/* sum_j u_j column_j */
CLONES_WIDE static double weighted_sum(int64_t m, const double *restrict u,
                                       const double *restrict column)
{
    return dot_in_lanes(u, column, m);
}

typedef struct mirrored_addition {
    const addition *p;
    const double *coef, *columns;
    int64_t m;
    double *scores;
} mirrored_addition;

/* Adds row r of a block, times the coefficients of its columns, to the score of this row. */
static void add_mirrored(void *argument, int64_t slot, int64_t r)
{
    const mirrored_addition *const g = argument;
    const addition *const p = g->p;
    (void)slot;
    for (int64_t k = 0; k < p->n_problems; k++)
        g->scores[k * p->score_stride + r] +=
            weighted_sum(g->m, g->coef + k * p->coef_stride, g->columns + r * p->stride);
}

/* Adds at most ROWS columns, which it computes; `which` has a number for each; not 0: stopped. */
static int add_computed(pegasos_columns *c, int64_t count, const int64_t *rows, addition p)
{
    const int64_t n = c->n_rows, width = c->needs_full_rows ? n : min_of(WIDTH, n);
    const int64_t most = rows_of_block(width), *const which = p.which;
    double *const scores = p.scores;
    p.columns = c->block;
    p.places = NULL;
    for (int64_t j = 0; j < count; j += p.count)
        for (int64_t first = p.n_mirrored > 0 ? rows[j] : 0; first < n; first += p.n) {
            p.count = min_of(most, count - j);
            p.n = p.stride = min_of(width, n - first);
            p.which = which + j;
            p.scores = scores + first;
            if (c->values(c->context, p.count, rows + j, first, p.n, NULL, p.n, c->block) != 0
                || !add_to_scores(c, &p))
                return 1;
            const int64_t own = rows[j] + p.count, begin = own > first ? own : first;
            const int64_t m = min_of(p.n_mirrored, first + p.n) - begin;
            mirrored_addition g = {&p, p.coef + begin, (double *)c->block + begin - first, m,
                                   scores + rows[j]};
            if (m > 0 && !run_tasks(c->workers, p.count, (double)m, add_mirrored, &g))
                return 1;
        }
    return 0;
}

/* Adds columns number first, ... of the listed rows, at most ROWS, kept first; not 0: stopped. */
static int add_some(pegasos_columns *c, int64_t first, int64_t count, const int64_t *rows,
                    addition p)
{
    const int64_t *const which = p.which;
    int64_t places[ROWS], own[ROWS], missing[ROWS], others[ROWS], n_missing = 0;
    p.count = 0;
    for (int64_t j = first; j < count && j < first + ROWS; j++) {
        const int64_t place = c->column_of ? c->column_of[rows[j]] : -1;
        const int64_t number = which ? which[j] : j;
        if (place >= 0) {
            places[p.count] = place;
            own[p.count++] = number;
        } else {
            missing[n_missing] = rows[j];
            others[n_missing++] = number;
        }
    }
    p.places = places;
    p.which = own;
    if (!add_to_scores(c, &p))
        return 1;
    p.which = others;
    return add_computed(c, n_missing, missing, p);
}

int pegasos_columns_add(pegasos_columns *c, int64_t count, const int64_t *rows, int64_t n_problems,
                        const double *coef, int64_t coef_stride, const int64_t *which,
                        int64_t is_half, int64_t score_stride, double *scores)
{
    /* Keep columns for later calls if there is room, and if computing them again is not cheap. */
    const bool is_worth = c->column_of && (c->is_all_at_once || !c->is_cheap);
    const addition p = {.n = c->n_rows,
                        .stride = c->n_rows,
                        .value_bytes = c->value_bytes,
                        .columns = c->columns,
                        .n_problems = n_problems,
                        .coef = coef,
                        .coef_stride = coef_stride,
                        .which = which,
                        .n_mirrored = is_half ? count : 0,
                        .score_stride = score_stride,
                        .scores = scores};
    assert(!is_half || (c->value_bytes == 8 && !c->column_of && !c->needs_full_rows && !which));
    if (is_worth && pegasos_columns_keep(c, count, rows) != 0)
        return 1;
    for (int64_t j = 0; j < count; j += ROWS)
        if (add_some(c, j, count, rows, p) != 0)
            return 1;
    return 0;
}

int pegasos_columns_multiply(pegasos_columns *c, int64_t n_problems, const double *change,
                             double *product)
{
    const int64_t n = c->n_rows;
    int64_t rows[ROWS], count = 0;
    memset(product, 0, (size_t)(n_problems * n) * sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        bool has_changed = false;
        for (int64_t k = 0; k < n_problems; k++)
            has_changed |= change[k * n + i] != 0;
        if (has_changed)
            rows[count++] = i;
        if (count == 0 || (count < ROWS && i < n - 1))
            continue;
        if (pegasos_columns_add(c, count, rows, n_problems, change, n, rows, 0, n, product) != 0)
            return 1;
        count = 0;
    }
    return 0;
}

int pegasos_columns_score(pegasos_columns *c, int64_t count, const int64_t *rows, int64_t m,
                          const int64_t *others, int64_t n_problems, const double *coef,
                          int64_t coef_stride, const int64_t *which, void *values, double *scores)
{
    addition p = {.n = m,
                  .stride = m,
                  .value_bytes = c->value_bytes,
                  .columns = values,
                  .n_problems = n_problems,
                  .coef = coef,
                  .coef_stride = coef_stride,
                  .score_stride = m,
                  .scores = scores};
    for (int64_t j = 0; j < count; j += p.count) {
        p.count = min_of(rows_of_block(m), count - j);
        p.which = which + j;
        if (pegasos_columns_values(c, p.count, rows + j, m, others, m, values) != 0
            || !add_to_scores(c, &p))
            return 1;
    }
    return 0;
}
