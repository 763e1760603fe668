/*
 * kernel_columns.c - columns of a kernel matrix, each computed once as long as there is room.
 *
 * A column that found room stays. Rows are visited in random order, so room for half of the columns
 * meets half of the requests; no replacement could do much better. What is not kept is computed in
 * blocks, for some rows of a round or to be added to scores, and forgotten.
 *
 * Values come from whoever writes them: kernels of rows (kernels.c), or a program
 * (kernel_values.c).
 */
#include "rows.h"
#include "share.h"

#include <math.h>
#include <string.h>

/* Rows whose columns are computed, or added to scores, at a time; and columns of a block. */
enum { ROWS = 256, WIDTH = 4096, SCORES = 8192, MIRRORED = 512, GATHERED = 16 };
/* Numbers this far apart each take a line of cache: computing products of thick rows is faster. */
enum { FAR = 16 };
/* A kernel value that is there is added to a score in so many values' time. */
static const double PART_OF_NUMBER = 0.125;
/* Clearing memory may take as long as reading so many times the numbers. */
static const double CLEARED = 4;

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t pegasos_columns_block(int64_t n_rows)
{
    const int64_t least = (int64_t)ROWS * least_of(WIDTH, n_rows);
    return n_rows > least ? n_rows : least;
}

/* How many rows a block of so many columns has. */
static int64_t rows_of_block(int64_t width)
{
    const int64_t rows = (int64_t)ROWS * WIDTH / width;
    return rows < 1 ? 1 : least_of(rows, ROWS);
}

/* ---- Columns that are kept ------------------------------------------------------------------- */

typedef struct mirror {
    const pegasos_columns *c;
    int64_t first, last; /* rows whose columns are there, from `first` on */
} mirror;

#define DEFINE_MIRROR(VALUE)                                                                       \
    static void mirror_##VALUE(int64_t n, int64_t first, int64_t last, int64_t j, VALUE *columns)  \
    {                                                                                              \
        for (int64_t i = first; i < last; i++)                                                     \
            columns[j * n + i] = columns[i * n + j];                                               \
    }
DEFINE_MIRROR(float)
DEFINE_MIRROR(double)

static void do_mirror(void *argument, int64_t slot, int64_t k)
{
    const mirror *const m = argument;
    const int64_t n = m->c->n_rows, first = m->last + k * GATHERED;
    (void)slot;
    for (int64_t j = first; j < n && j < first + GATHERED; j++)
        if (m->c->value_bytes == 4)
            mirror_float(n, m->first, m->last, j, m->c->columns);
        else
            mirror_double(n, m->first, m->last, j, m->c->columns);
}

/* Computes all columns, of a symmetric matrix a half, which is mirrored; not 0: stopped. */
static int fill_all(pegasos_columns *c)
{
    const int64_t n = c->n_rows;
    /* A piece's square on the diagonal is not halved: where threads are not worth while, pieces are
     * small. */
    const bool is_little = c->is_symmetric && n * n <= LEAST_SHARED / 2;
    const int64_t part = is_little ? least_of(MIRRORED, n / 8 + 32) : MIRRORED;
    int64_t rows[MIRRORED];
    for (int64_t first = 0, count; first < n; first += count) {
        count = least_of(part, n - first);
        const int64_t from = c->is_symmetric ? first : 0, last = first + count;
        for (int64_t i = 0; i < count; i++)
            rows[i] = first + i;
        char *const out = (char *)c->columns + (first * n + from) * c->value_bytes;
        if (c->values(c->context, count, rows, from, n - from, NULL, n, out) != 0)
            return 1;
        mirror m = {c, first, last};
        const int64_t n_tasks = (n - last + GATHERED - 1) / GATHERED;
        /* As if whole rows were read, and cleared: where memory comes in large pages, it is all of
         * them that the system clears when they are first written to. */
        if (c->is_symmetric && n_tasks > 0
            && !share(c->workers, n_tasks, CLEARED * GATHERED * (double)n, do_mirror, &m))
            return 1;
    }
    for (int64_t i = 0; i < n; i++)
        c->place[i] = i;
    *c->n_kept = n;
    return 0;
}

int pegasos_columns_keep(pegasos_columns *c, int64_t count, const int64_t *rows)
{
    const int64_t n = c->n_rows;
    int64_t missing[ROWS];
    bool is_there = true;
    for (int64_t j = 0; j < count; j++)
        is_there &= c->place[rows[j]] >= 0;
    if (is_there)
        return 0;
    if (c->is_all_at_once)
        return fill_all(c);
    for (int64_t j = 0; j < count && *c->n_kept < c->n_columns;) {
        const int64_t room = least_of(ROWS, c->n_columns - *c->n_kept);
        int64_t some = 0;
        for (; j < count && some < room; j++)
            if (c->place[rows[j]] < 0)
                missing[some++] = rows[j];
        char *const out = (char *)c->columns + *c->n_kept * n * c->value_bytes;
        if (some > 0 && c->values(c->context, some, missing, 0, n, NULL, n, out) != 0)
            return 1;
        for (int64_t k = 0; k < some; k++)
            c->place[missing[k]] = (*c->n_kept)++;
    }
    return 0;
}

/* ---- Values among rows ----------------------------------------------------------------------- */

typedef struct gathering {
    const pegasos_columns *c;
    int64_t count, m, stride;
    const int64_t *rows, *which;
    char *out;
} gathering;

static void do_gather(void *argument, int64_t slot, int64_t k)
{
    const gathering *const g = argument;
    const int64_t first = k * GATHERED, count = least_of(GATHERED, g->count - first);
    const int64_t bytes = g->c->value_bytes;
    int64_t places[GATHERED];
    (void)slot;
    for (int64_t j = 0; j < count; j++)
        places[j] = g->c->place[g->rows[first + j]];
    pegasos_kernel_gather(count, places, g->c->n_rows, bytes, g->c->columns, g->m, g->which,
                          g->stride, g->out + first * g->stride * bytes);
}

int pegasos_columns_among(pegasos_columns *c, int64_t count, const int64_t *rows, int64_t m,
                          const int64_t *which, int64_t stride, void *out)
{
    const int64_t bytes = c->value_bytes, most = rows_of_block(m);
    gathering g = {c, count, m, stride, rows, which, out};
    int64_t missing[ROWS], lines[ROWS], n_missing = 0;
    if (c->is_all_at_once && pegasos_columns_keep(c, count, rows) != 0)
        return 1;
    const bool is_far = c->is_thick && !c->is_all_at_once && c->n_rows > FAR * m;
    for (int64_t j = 0; j < count; j++)
        n_missing += is_far || c->place[rows[j]] < 0;
    if (n_missing < count
        && !share(c->workers, (count + GATHERED - 1) / GATHERED, GATHERED * (double)m, do_gather,
                  &g))
        return 1;
    for (int64_t j = 0, some; j < count && n_missing > 0;) {
        for (some = 0; j < count && some < most; j++)
            if (is_far || c->place[rows[j]] < 0) {
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

typedef struct pushing {
    int64_t count, n, stride, value_bytes, n_problems, coef_stride, score_stride;
    const double *mirrored; /* not NULL: coefficients of rows 0 .. n_mirrored - 1, to which all */
    int64_t n_mirrored;     /* belong, and values between two of them serve both */
    const int64_t *places, *which;
    const char *columns;
    const double *coef;
    double *scores;
} pushing;

static void do_push(void *argument, int64_t slot, int64_t k)
{
    const pushing *const p = argument;
    const int64_t first = k * SCORES;
    (void)slot;
    pegasos_kernel_push(p->count, p->places, least_of(SCORES, p->n - first), p->stride,
                        p->value_bytes, p->columns + first * p->value_bytes, p->n_problems, p->coef,
                        p->coef_stride, p->which, p->score_stride, p->scores + first);
}

static bool push_all(const pegasos_columns *c, pushing *p)
{
    const double each = PART_OF_NUMBER * (double)(p->count * p->n_problems * SCORES);
    const int64_t n_tasks = (p->n + SCORES - 1) / SCORES;
    return p->count == 0 || share(c->workers, n_tasks, each, do_push, p);
}

/* sum_j u_j column_j */
CLONES_WIDE static double weighted_sum(int64_t m, const double *restrict u,
                                       const double *restrict column)
{
    double sums[8] = {0}, sum = 0;
    int64_t j = 0;
    for (; m - j >= 8; j += 8)
        for (int l = 0; l < 8; l++)
            sums[l] += u[j + l] * column[j + l];
    for (; j < m; j++)
        sum += u[j] * column[j];
    for (int l = 0; l < 8; l++)
        sum += sums[l];
    return sum;
}

typedef struct pulling {
    const pushing *p;
    const double *coef, *columns;
    int64_t m;
    double *scores;
} pulling;

/* Adds what coefficients of the columns of a block make to the score of its row number r. */
static void do_pull(void *argument, int64_t slot, int64_t r)
{
    const pulling *const g = argument;
    const pushing *const p = g->p;
    (void)slot;
    for (int64_t k = 0; k < p->n_problems; k++)
        g->scores[k * p->score_stride + r] +=
            weighted_sum(g->m, g->coef + k * p->coef_stride, g->columns + r * p->stride);
}

/* Adds at most ROWS columns that are computed, number which[r] of the coefficients; not 0: stopped.
 */
static int push_computed(pegasos_columns *c, int64_t count, const int64_t *rows, pushing p)
{
    const int64_t n = c->n_rows, width = c->is_whole ? n : least_of(WIDTH, n);
    const int64_t most = rows_of_block(width), *const which = p.which;
    double *const scores = p.scores;
    int64_t places[ROWS];
    p.columns = c->block;
    p.places = places;
    for (int64_t j = 0; j < ROWS; j++)
        places[j] = j;
    for (int64_t j = 0; j < count; j += p.count)
        for (int64_t first = p.mirrored ? rows[j] : 0; first < n; first += p.n) {
            p.count = least_of(most, count - j);
            p.n = p.stride = least_of(width, n - first);
            p.which = which + j;
            p.scores = scores + first;
            if (c->values(c->context, p.count, rows + j, first, p.n, NULL, p.n, c->block) != 0
                || !push_all(c, &p))
                return 1;
            const int64_t own = rows[j] + p.count, begin = own > first ? own : first;
            const int64_t m = least_of(p.n_mirrored, first + p.n) - begin;
            pulling g = {&p, p.mirrored + begin, (double *)c->block + begin - first, m,
                         scores + rows[j]};
            if (p.mirrored && m > 0 && !share(c->workers, p.count, (double)m, do_pull, &g))
                return 1;
        }
    return 0;
}

/* Adds at most ROWS columns, those that are kept first. */
static int push_some(pegasos_columns *c, int64_t count, const int64_t *rows, pushing p)
{
    int64_t places[ROWS], own[ROWS], missing[ROWS], others[ROWS], n_missing = 0;
    p.count = 0;
    for (int64_t j = 0; j < count; j++) {
        const int64_t place = c->place ? c->place[rows[j]] : -1;
        if (place >= 0) {
            places[p.count] = place;
            own[p.count++] = p.which ? p.which[j] : j;
        } else {
            missing[n_missing] = rows[j];
            others[n_missing++] = p.which ? p.which[j] : j;
        }
    }
    p.places = places;
    p.which = own;
    if (!push_all(c, &p))
        return 1;
    p.which = others;
    return n_missing > 0 ? push_computed(c, n_missing, missing, p) : 0;
}

/* Columns serve later calls as well, if there is room, and computing them again is not cheap. */
static int keep_if_worth(pegasos_columns *c, int64_t count, const int64_t *rows)
{
    const bool is_worth = c->place && (c->is_all_at_once || !c->is_cheap);
    return is_worth ? pegasos_columns_keep(c, count, rows) : 0;
}

static pushing pushing_of(const pegasos_columns *c, int64_t n_problems, const double *coef,
                          int64_t coef_stride, int64_t score_stride, double *scores)
{
    return (pushing){.n = c->n_rows,
                     .stride = c->n_rows,
                     .value_bytes = c->value_bytes,
                     .columns = c->columns,
                     .n_problems = n_problems,
                     .coef = coef,
                     .coef_stride = coef_stride,
                     .score_stride = score_stride,
                     .scores = scores};
}

int pegasos_columns_add(pegasos_columns *c, int64_t count, const int64_t *rows, int64_t n_problems,
                        const double *coef, int64_t is_half, int64_t score_stride, double *scores)
{
    pushing p = pushing_of(c, n_problems, coef, count, score_stride, scores);
    assert(!is_half || (c->value_bytes == 8 && !c->place && !c->is_whole));
    p.mirrored = is_half ? coef : NULL;
    p.n_mirrored = count;
    if (keep_if_worth(c, count, rows) != 0)
        return 1;
    for (int64_t j = 0; j < count; j += ROWS, p.coef += ROWS)
        if (push_some(c, least_of(ROWS, count - j), rows + j, p) != 0)
            return 1;
    return 0;
}

int pegasos_columns_push(pegasos_columns *c, int64_t n_problems, const double *change,
                         double *pushed)
{
    const int64_t n = c->n_rows;
    pushing p = pushing_of(c, n_problems, change, n, n, pushed);
    int64_t rows[ROWS], count = 0;
    memset(pushed, 0, (size_t)(n_problems * n) * sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        bool has_changed = false;
        for (int64_t k = 0; k < n_problems; k++)
            has_changed |= change[k * n + i] != 0;
        if (has_changed)
            rows[count++] = i;
        if (count == 0 || (count < ROWS && i < n - 1))
            continue;
        p.which = rows;
        if (keep_if_worth(c, count, rows) != 0 || push_some(c, count, rows, p) != 0)
            return 1;
        count = 0;
    }
    return 0;
}

int pegasos_columns_score(pegasos_columns *c, int64_t count, int64_t m, const int64_t *rows,
                          int64_t n_problems, const double *coef, int64_t coef_stride,
                          const int64_t *which, void *values, double *scores)
{
    pushing p = pushing_of(c, n_problems, coef, coef_stride, m, scores);
    int64_t places[ROWS];
    for (int64_t j = 0; j < ROWS; j++)
        places[j] = j;
    p.n = p.stride = m;
    p.columns = values;
    p.places = places;
    for (int64_t j = 0; j < count; j += p.count) {
        p.count = least_of(rows_of_block(m), count - j);
        p.which = which + j;
        if (pegasos_columns_among(c, p.count, rows + j, m, rows, m, values) != 0
            || !push_all(c, &p))
            return 1;
    }
    return 0;
}

/* ---- Values of kernels of rows --------------------------------------------------------------- */

int64_t pegasos_choice_bytes(const pegasos_points *points, int64_t most)
{
    const int64_t d = points->rows.n_features, bytes = points->rows.value_bytes;
    const int64_t numbers = (int64_t)stored_numbers(&points->rows);
    return 64 + 8 * most + most * bytes + numbers * bytes + 8 * (numbers + d + 1);
}

/* Writes the transpose of some rows, unless the last choice was the same. */
static void choose(pegasos_choice *choice, const pegasos_points *points, int64_t m,
                   const int64_t *which)
{
    const int64_t d = points->rows.n_features, bytes = points->rows.value_bytes;
    const pegasos_some some = {points, 0, m, which};
    int64_t *const kept = choice->room;
    int64_t *const ends = kept + m;
    char *const norms = (char *)(ends + d + 1);
    char *const values = norms + (m * bytes + 7) / 8 * 8;
    pegasos_points *const p = &choice->points;
    if (choice->count == m && memcmp(kept, which, (size_t)m * sizeof *which) == 0)
        return;
    choice->count = m;
    memcpy(kept, which, (size_t)m * sizeof *which);
    *p = *points;
    p->rows.n_rows = m;
    for (int64_t j = 0; j < m && p->norms; j++)
        memcpy(norms + j * bytes, (const char *)points->norms + which[j] * bytes, (size_t)bytes);
    p->norms = p->norms ? norms : NULL;
    p->inverted = points->rows;
    p->inverted.index_bytes = 8;
    p->inverted.indptr = ends;
    p->inverted.values = values + 8 * (int64_t)stored_numbers(&points->rows);
    p->inverted.indices = values;
    pegasos_invert(&some, &p->inverted);
}

int pegasos_columns_values(void *context, int64_t count, const int64_t *rows, int64_t first,
                           int64_t m, const int64_t *which, int64_t stride, void *out)
{
    pegasos_source *const s = context;
    int64_t j = 1;
    while (j < count && rows[j] == rows[0] + j)
        j++;
    pegasos_some x = {s->x, 0, count, rows};
    if (j == count) /* they are read where they lie */
        x = (pegasos_some){s->x, rows[0], count, NULL};
    pegasos_some z = {s->z, first, m, which};
    const int64_t bytes = s->z->rows.value_bytes;
    if (!which || !s->choice.room)
        return pegasos_kernel_values(&x, &z, s->workers, stride, out);
    for (int64_t some, k = 0; k < m; k += some) {
        some = least_of(m - k, s->choice.most);
        choose(&s->choice, s->z, some, which + k);
        z = (pegasos_some){&s->choice.points, 0, some, NULL};
        if (pegasos_kernel_values(&x, &z, s->workers, stride, (char *)out + k * bytes) != 0)
            return 1;
    }
    return 0;
}
