/*
 * rows_body.h - the primitives on which the solver stands, for one type of rows.
 *
 * pegasos.c includes this once per type with these macros, which are undefined again at the end:
 *
 *     VALUE    float or double
 *     INDEX    int32_t or int64_t; not defined for dense rows
 *     SUFFIX   ends the name of everything defined here
 *
 * Sums have a fixed shape, LANES partial sums in VALUE that are added up in double, so that a
 * compiler may put lanes in SIMD registers of any width without changing one bit. Partial sums run
 * over at most CHUNK terms each, which keeps a float sum accurate however long the row.
 */
#define PASTE2(name, suffix) name##_##suffix
#define PASTE(name, suffix) PASTE2(name, suffix)
#define NAME(name) PASTE(name, SUFFIX)

#ifdef INDEX

#define LANES 4
#define CHUNK 4096

/* <v, x_i> */
static INLINE double NAME(dot)(const pegasos_rows *rows, int64_t i, const void *vector)
{
    const VALUE *v = vector;
    const int64_t begin = row_offset(rows, i), end = row_offset(rows, i + 1);
    const VALUE *x = rows->values;
    const INDEX *column = rows->indices;
    double sum = 0;
    int64_t j = begin;
    while (end - j >= LANES) {
        const int64_t stop = j + (end - j > CHUNK ? CHUNK : (end - j) / LANES * LANES);
        VALUE lane0 = 0, lane1 = 0, lane2 = 0, lane3 = 0;
        for (; j < stop; j += LANES) {
            lane0 += x[j] * v[column[j]];
            lane1 += x[j + 1] * v[column[j + 1]];
            lane2 += x[j + 2] * v[column[j + 2]];
            lane3 += x[j + 3] * v[column[j + 3]];
        }
        sum += ((double)lane0 + lane1) + ((double)lane2 + lane3);
    }
    for (; j < end; j++)
        sum += (double)x[j] * v[column[j]];
    return sum;
}

/* v += u x_i */
static INLINE void NAME(add)(const pegasos_rows *rows, int64_t i, double u, void *vector)
{
    VALUE *v = vector;
    const int64_t begin = row_offset(rows, i), end = row_offset(rows, i + 1);
    const VALUE *x = rows->values;
    const INDEX *column = rows->indices;
    const VALUE factor = (VALUE)u;
    for (int64_t j = begin; j < end; j++)
        v[column[j]] += factor * x[j];
}

static INLINE void NAME(prefetch)(const pegasos_rows *rows, int64_t i)
{
    const int64_t begin = row_offset(rows, i), end = row_offset(rows, i + 1);
    prefetch_bytes((const VALUE *)rows->values + begin, (const VALUE *)rows->values + end);
    prefetch_bytes((const INDEX *)rows->indices + begin, (const INDEX *)rows->indices + end);
}

#else

#define LANES 16
#define CHUNK 16384

static INLINE double NAME(dot)(const pegasos_rows *rows, int64_t i, const void *vector)
{
    const VALUE *v = vector;
    const int64_t d = rows->n_features;
    const VALUE *x = (const VALUE *)rows->values + i * d;
    double sum[4] = {0};
    int64_t j = 0;
    while (d - j >= LANES) {
        const int64_t stop = j + (d - j > CHUNK ? CHUNK : (d - j) / LANES * LANES);
        VALUE lane[LANES] = {0};
        for (; j < stop; j += LANES)
            for (int l = 0; l < LANES; l++)
                lane[l] += x[j + l] * v[j + l];
        for (int l = 0; l < LANES; l++)
            sum[l % 4] += lane[l];
    }
    double rest = 0;
    for (; j < d; j++)
        rest += (double)x[j] * v[j];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest;
}

static INLINE void NAME(add)(const pegasos_rows *rows, int64_t i, double u, void *vector)
{
    const int64_t d = rows->n_features;
    const VALUE *restrict x = (const VALUE *)rows->values + i * d;
    VALUE *restrict v = vector;
    const VALUE factor = (VALUE)u;
    for (int64_t j = 0; j < d; j++)
        v[j] += factor * x[j];
}

static INLINE void NAME(prefetch)(const pegasos_rows *rows, int64_t i)
{
    const VALUE *x = (const VALUE *)rows->values + i * rows->n_features;
    prefetch_bytes(x, x + rows->n_features);
}

#endif

static const row_functions NAME(functions) = {NAME(dot), NAME(add), NAME(prefetch)};

/* The algorithm of pegasos.c with these primitives inlined, per instruction set. */
CLONES static void NAME(run)(const pegasos_rows *rows, const pegasos_linear_set *set, int64_t k,
                             int64_t count, int64_t ahead, const int64_t *draws)
{
    run_problem(&NAME(functions), rows, set, k, count, ahead, draws);
}

CLONES static void NAME(scores)(const pegasos_rows *rows, int64_t first, int64_t count,
                                int64_t n_problems, const void *coef, const double *intercepts,
                                double *scores)
{
    score_rows(&NAME(functions), rows, first, count, n_problems, coef, intercepts, scores);
}

#undef LANES
#undef CHUNK
#undef VALUE
#undef INDEX
#undef SUFFIX
#undef NAME
#undef PASTE
#undef PASTE2
