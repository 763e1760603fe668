/*
 * scores.c - passes over rows in double precision, for all types of rows: scores, sums and norms.
 */
#include "rows.h"

/* Number k of an array of the vectors' type. */
static INLINE const void *number(const row_functions *f, const void *vector, int64_t k)
{
    return (const char *)vector + k * (BUNDLE_BYTES / f->lanes);
}

/* The row to score as number j. */
static INLINE int64_t scored(int64_t first, const int64_t *which, int64_t j)
{
    return which ? which[j] : first + j;
}

/* A dense row gets all scores while it is in cache. Sparse rows get the scores of one problem at a
 * time: the coefficients that they meet stay in cache, while those of all problems might not. */
static INLINE void score_rows(const row_functions *f, const pegasos_rows *rows, int64_t first,
                              const int64_t *which, int64_t count, int64_t n_problems,
                              const void *coef, const double *intercepts, double *scores)
{
    const int64_t d = rows->n_features, inner = rows->index_bytes == 0 ? n_problems : 1;
    for (int64_t begin = 0; begin < n_problems; begin += inner)
        for (int64_t j = 0; j < count; j++) {
            const int64_t i = scored(first, which, j);
            const int64_t next = j + 1 < count ? scored(first, which, j + 1) : i;
            for (int64_t k = begin; k < begin + inner; k++)
                scores[j * n_problems + k] =
                    f->dot(rows, i, number(f, coef, k * d), next) + intercepts[k];
        }
}

/* `width` scores, from number k on, of up to TILE rows. `next` is a sparse row that comes soon. */
static INLINE void score_tile(const row_functions *f, const pegasos_rows *rows,
                              const int64_t *which, int64_t count, int64_t next, int64_t n_problems,
                              int64_t k, const int width, const void *coef, double *scores)
{
    const void *const some = number(f, coef, k);
    if (!f->dot_tile) {
        f->dot_bundle(rows, which[0], some, n_problems, width, next, scores + k);
        return;
    }
    double out[TILE * MOST_LANES];
    f->dot_tile(rows, which, count, some, n_problems, width, out);
    for (int64_t t = 0; t < count; t++)
        for (int l = 0; l < width; l++)
            scores[t * n_problems + k + l] = out[t * width + l];
}

/* Scores with interleaved coefficients; some dense rows at a time. */
static INLINE void score_bundles(const row_functions *f, const pegasos_rows *rows, int64_t first,
                                 const int64_t *which, int64_t count, int64_t n_problems,
                                 const void *coef, const double *intercepts, double *scores)
{
    const int64_t most = f->dot_tile ? TILE : 1;
    for (int64_t j = 0, tile = most; j < count; j += tile) {
        int64_t k = 0, here[TILE];
        tile = count - j < most ? count - j : most;
        for (int64_t t = 0; t < tile; t++)
            here[t] = scored(first, which, j + t);
        int64_t next = j + 1 < count ? scored(first, which, j + 1) : here[0];
        double *out = scores + j * n_problems;
        for (; n_problems - k >= f->lanes; k += f->lanes, next = here[0])
            score_tile(f, rows, here, tile, next, n_problems, k, f->lanes, coef, out);
        for (; n_problems - k >= 8; k += 8, next = here[0])
            score_tile(f, rows, here, tile, next, n_problems, k, 8, coef, out);
        for (; n_problems - k >= 4; k += 4, next = here[0])
            score_tile(f, rows, here, tile, next, n_problems, k, 4, coef, out);
        for (; n_problems - k >= 2; k += 2, next = here[0])
            score_tile(f, rows, here, tile, next, n_problems, k, 2, coef, out);
        for (; k < n_problems; k++, next = here[0])
            score_tile(f, rows, here, tile, next, n_problems, k, 1, coef, out);
        for (int64_t t = 0; t < tile; t++)
            for (k = 0; k < n_problems; k++)
                out[t * n_problems + k] += intercepts[k];
    }
}

/* Leaves out rows with factors of 0 without a branch, as these cannot be foreseen. */
static INLINE void combine_rows(const row_functions *f, const pegasos_rows *rows, int64_t first,
                                int64_t count, const double *factors, double *sum)
{
    enum { ROWS = 64 };
    int64_t which[ROWS], i = 0;
    double kept[ROWS];
    if (!f->add_rows) {
        for (; i < count; i++)
            if (factors[i] != 0)
                f->add(rows, first + i, factors[i], sum);
        return;
    }
    while (i < count) {
        int64_t n = 0;
        for (; i < count && n < ROWS; i++) {
            which[n] = first + i;
            kept[n] = factors[i];
            n += factors[i] != 0;
        }
        f->add_rows(rows, n, which, kept, sum);
    }
}

#define DEFINE_DRIVERS(TYPE)                                                                       \
    CLONES_WIDE static void norms_##TYPE(const pegasos_rows *rows, int64_t first, int64_t count,   \
                                         double *scratch, double *norms)                           \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            norms[i] = squared_norm_##TYPE(rows, first + i, scratch);                              \
    }                                                                                              \
    CLONES static void combine_##TYPE(const pegasos_rows *rows, int64_t first, int64_t count,      \
                                      const double *factors, double *sum)                          \
    {                                                                                              \
        combine_rows(&functions_##TYPE, rows, first, count, factors, sum);                         \
    }                                                                                              \
    CLONES static void squares_##TYPE(const pegasos_rows *rows, int64_t first, int64_t count,      \
                                      const double *factors, double *sum)                          \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            if (factors[i] != 0)                                                                   \
                add_squares_##TYPE(rows, first + i, factors[i], sum);                              \
    }
FOR_EVERY_WIDE_TYPE(DEFINE_DRIVERS)

#define DEFINE_OUTER(TYPE)                                                                         \
    CLONES static void outer_##TYPE(const pegasos_rows *rows, int64_t i, double factor,            \
                                    int64_t stride, double *matrix)                                \
    {                                                                                              \
        for (int64_t j = row_offset(rows, i); j < row_offset(rows, i + 1); j++)                    \
            functions_##TYPE.add(rows, i, factor * get(rows->values, rows->value_bytes, j),        \
                                 matrix + row_column(rows, j) * stride);                           \
    }
DEFINE_OUTER(wide_csr32)
DEFINE_OUTER(double_csr32)
DEFINE_OUTER(wide_csr64)
DEFINE_OUTER(double_csr64)

#define DEFINE_SCORES(TYPE)                                                                        \
    CLONES_WIDE static void scores_##TYPE(                                                         \
        const pegasos_rows *rows, int64_t first, const int64_t *which, int64_t count,              \
        int64_t n_problems, const void *coef, const double *intercepts, double *scores)            \
    {                                                                                              \
        if (n_problems == 1 && !which)                                                             \
            score_rows(&functions_##TYPE, rows, first, NULL, count, 1, coef, intercepts, scores);  \
        else                                                                                       \
            score_rows(&functions_##TYPE, rows, first, which, count, n_problems, coef, intercepts, \
                       scores);                                                                    \
    }                                                                                              \
    CLONES_WIDE static void score_bundles_##TYPE(                                                  \
        const pegasos_rows *rows, int64_t first, const int64_t *which, int64_t count,              \
        int64_t n_problems, const void *coef, const double *intercepts, double *scores)            \
    {                                                                                              \
        score_bundles(&functions_##TYPE, rows, first, which, count, n_problems, coef, intercepts,  \
                      scores);                                                                     \
    }
FOR_EVERY_TYPE(DEFINE_SCORES)
FOR_EVERY_MIXED_TYPE(DEFINE_SCORES)

void pegasos_linear_scores(const pegasos_rows *rows, int64_t first, const int64_t *which,
                           int64_t count, int64_t n_problems, const void *coef, int64_t coef_bytes,
                           int64_t interleaved, const double *intercepts, double *scores)
{
    assert(which ? are_in_range(which, count, 0, rows->n_rows) : are_there(rows, first, count));
    assert(n_problems >= 1 && (coef_bytes == 8 || coef_bytes == rows->value_bytes));
    if (interleaved && coef_bytes == 8)
        DISPATCH_WIDE(score_bundles, rows, first, which, count, n_problems, coef, intercepts,
                      scores);
    else if (interleaved)
        DISPATCH(score_bundles, rows, first, which, count, n_problems, coef, intercepts, scores);
    else if (coef_bytes == 8)
        DISPATCH_WIDE(scores, rows, first, which, count, n_problems, coef, intercepts, scores);
    else
        DISPATCH(scores, rows, first, which, count, n_problems, coef, intercepts, scores);
}

void pegasos_linear_combine(const pegasos_rows *rows, int64_t first, int64_t count,
                            const double *factors, double *sum)
{
    assert(are_there(rows, first, count));
    DISPATCH_WIDE(combine, rows, first, count, factors, sum);
}

void pegasos_linear_squares(const pegasos_rows *rows, int64_t first, int64_t count,
                            const double *factors, double *sum)
{
    assert(are_there(rows, first, count));
    DISPATCH_WIDE(squares, rows, first, count, factors, sum);
}

void pegasos_linear_outer(const pegasos_rows *rows, int64_t i, double factor, int64_t stride,
                          double *matrix)
{
    assert(are_there(rows, i, 1) && rows->index_bytes > 0);
    DISPATCH_SPARSE_AS(wide, outer, rows, i, factor, stride, matrix);
}

void pegasos_linear_norms(const pegasos_rows *rows, int64_t first, int64_t count, double *scratch,
                          double *norms)
{
    assert(are_there(rows, first, count) && (scratch || rows->index_bytes == 0));
    DISPATCH_WIDE(norms, rows, first, count, scratch, norms);
}

static INLINE void scale(int64_t d, const void *restrict x, int64_t value_bytes, double factor,
                         int64_t bytes, void *restrict out)
{
    enum { TOGETHER = 8 };
    int64_t j = 0;
    for (; d - j >= TOGETHER; j += TOGETHER)
        for (int l = 0; l < TOGETHER; l++)
            set_to(out, bytes, j + l, factor * get(x, value_bytes, j + l));
    for (; j < d; j++)
        set_to(out, bytes, j, factor * get(x, value_bytes, j));
}

/* One loop for each pair of types, so that the compiler knows the types. */
CLONES static void scale_dense(int64_t d, const void *x, int64_t value_bytes, double factor,
                               int64_t bytes, void *out)
{
    if (value_bytes == 4 && bytes == 4)
        scale(d, x, 4, factor, 4, out);
    else if (value_bytes == 4)
        scale(d, x, 4, factor, 8, out);
    else if (bytes == 4)
        scale(d, x, 8, factor, 4, out);
    else
        scale(d, x, 8, factor, 8, out);
}

void pegasos_linear_scale(const pegasos_rows *rows, int64_t i, double factor, int64_t stride,
                          int64_t bytes, void *out)
{
    const bool is_dense = rows->index_bytes == 0;
    const int64_t d = is_dense ? rows->n_features : 0, value_bytes = rows->value_bytes;
    memset((char *)out + d * bytes, 0, (size_t)((stride - d) * bytes));
    if (is_dense)
        scale_dense(d, (const char *)rows->values + i * d * value_bytes, value_bytes, factor, bytes,
                    out);
    for (int64_t j = row_begin(rows, i); !is_dense && j < row_begin(rows, i + 1); j++) {
        const int64_t at = row_column(rows, j);
        const double value = factor * get(rows->values, value_bytes, j);
        set_to(out, bytes, at, get(out, bytes, at) + value);
    }
}

void pegasos_scores(const pegasos_rows *rows, const double *coef, double intercept, double *scores)
{
    pegasos_linear_scores(rows, 0, NULL, rows->n_rows, 1, coef, 8, 0, &intercept, scores);
}
