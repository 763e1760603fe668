/*
 * rows_body.h - the functions of rows that solvers are made of, for one type of rows.
 *
 * rows.h includes this once per type with these macros, which this file undefines:
 *
 *     VALUE    float or double, the type of the stored numbers
 *     VECTOR   float or double, the type of the vectors that rows are multiplied with and added to
 *     INDEX    int32_t or int64_t; not defined for dense rows
 *     SUFFIX   ends the name of everything defined here
 *
 * Sums have a fixed shape: LANES partial sums in VECTOR are added up in double. So a compiler may
 * put lanes in SIMD registers of any width without changing one bit. Partial sums run over at most
 * CHUNK terms each, which keeps a float sum accurate for rows of any length.
 */
#define NAME(name) PASTE(name, SUFFIX)

#ifdef INDEX

#define LANES 4
#define BLOCK 16
#define CHUNK 4096

/* Prefetches BLOCK values, from number j of all stored ones, and their columns: into the
 * second-level cache, since the first-level one is full of w. */
static INLINE void NAME(prefetch_block)(const pegasos_rows *rows, int64_t j)
{
    for (int l = 0; l < BLOCK; l += 64 / (int)sizeof(VALUE))
        PREFETCH_FAR((const VALUE *)rows->values + j + l);
    for (int l = 0; l < BLOCK; l += 64 / (int)sizeof(INDEX))
        PREFETCH_FAR((const INDEX *)rows->indices + j + l);
}

static INLINE void NAME(prefetch_offset)(const pegasos_rows *rows, int64_t i)
{
    PREFETCH((const char *)rows->indptr + i * rows->indptr_bytes);
}

/* The next row is prefetched block by block while this one is used. All requests at once would fill
 * the queue that this row's own loads need. */
static INLINE double NAME(dot)(const pegasos_rows *rows, int64_t i, const void *vector,
                               int64_t next)
{
    const VECTOR *v = vector;
    const int64_t begin = row_offset(rows, i), end = row_offset(rows, i + 1);
    const VALUE *x = rows->values;
    const INDEX *column = rows->indices;
    int64_t ahead = row_offset(rows, next);
    const int64_t ahead_end = next == i ? ahead : row_offset(rows, next + 1);
    double sum = 0;
    int64_t j = begin;
    while (end - j >= LANES) {
        const int64_t stop = j + (end - j > CHUNK ? CHUNK : (end - j) / LANES * LANES);
        VECTOR lane0 = 0, lane1 = 0, lane2 = 0, lane3 = 0;
        while (j < stop) {
            const int64_t pause = stop - j > BLOCK ? j + BLOCK : stop;
            if (ahead < ahead_end)
                NAME(prefetch_block)(rows, ahead);
            ahead += BLOCK;
            for (; j < pause; j += LANES) {
                lane0 += x[j] * v[column[j]];
                lane1 += x[j + 1] * v[column[j + 1]];
                lane2 += x[j + 2] * v[column[j + 2]];
                lane3 += x[j + 3] * v[column[j + 3]];
            }
        }
        sum += ((double)lane0 + lane1) + ((double)lane2 + lane3);
    }
    for (; j < end; j++)
        sum += (double)x[j] * v[column[j]];
    for (; ahead < ahead_end; ahead += BLOCK)
        NAME(prefetch_block)(rows, ahead);
    return sum;
}

static INLINE void NAME(add)(const pegasos_rows *rows, int64_t i, double u, void *vector)
{
    VECTOR *v = vector;
    const int64_t begin = row_offset(rows, i), end = row_offset(rows, i + 1);
    const VALUE *x = rows->values;
    const INDEX *column = rows->indices;
    const VECTOR factor = (VECTOR)u;
    for (int64_t j = begin; j < end; j++)
        v[column[j]] += factor * x[j];
}

/* v += u times the squares of the numbers of x_i. */
static INLINE void NAME(add_squares)(const pegasos_rows *rows, int64_t i, double u, double *v)
{
    const int64_t end = row_offset(rows, i + 1);
    const VALUE *x = rows->values;
    const INDEX *column = rows->indices;
    for (int64_t j = row_offset(rows, i); j < end; j++)
        v[column[j]] += u * ((double)x[j] * x[j]);
}

/* out[l] = <v_l, x_i> for `width` interleaved vectors: number j of v_l is v[j stride + l]. Each has
 * the bits of `dot`. With sparse rows, reaching the numbers of v takes the time. Neighbours come
 * along for little, so a bundle of 16 vectors costs about twice as much as one. What the next row
 * needs of v is prefetched meanwhile. */
static INLINE void NAME(dot_bundle)(const pegasos_rows *rows, int64_t i, const void *vectors,
                                    int64_t stride, const int width, int64_t next, double *out)
{
    const VECTOR *v = vectors;
    const int64_t end = row_offset(rows, i + 1);
    const VALUE *x = rows->values;
    const INDEX *column = rows->indices;
    int64_t j = row_offset(rows, i), ahead = row_offset(rows, next);
    const int64_t ahead_end = next == i || width < 8 ? ahead : row_offset(rows, next + 1);
    double sum[MOST_LANES] = {0};
    while (end - j >= LANES) {
        const int64_t stop = j + (end - j > CHUNK ? CHUNK : (end - j) / LANES * LANES);
        VECTOR lane0[MOST_LANES] = {0}, lane1[MOST_LANES] = {0};
        VECTOR lane2[MOST_LANES] = {0}, lane3[MOST_LANES] = {0};
        for (; j < stop; j += LANES, ahead += LANES) {
            const VECTOR *v0 = v + column[j] * stride, *v1 = v + column[j + 1] * stride;
            const VECTOR *v2 = v + column[j + 2] * stride, *v3 = v + column[j + 3] * stride;
            for (int64_t m = ahead; m < ahead + LANES && m < ahead_end; m++)
                PREFETCH(v + column[m] * stride);
            for (int l = 0; l < width; l++)
                lane0[l] += x[j] * v0[l];
            for (int l = 0; l < width; l++)
                lane1[l] += x[j + 1] * v1[l];
            for (int l = 0; l < width; l++)
                lane2[l] += x[j + 2] * v2[l];
            for (int l = 0; l < width; l++)
                lane3[l] += x[j + 3] * v3[l];
        }
        for (int l = 0; l < width; l++)
            sum[l] += ((double)lane0[l] + lane1[l]) + ((double)lane2[l] + lane3[l]);
    }
    for (; j < end; j++)
        for (int l = 0; l < width; l++)
            sum[l] += (double)x[j] * v[column[j] * stride + l];
    for (; ahead < ahead_end; ahead++)
        PREFETCH(v + column[ahead] * stride);
    for (int l = 0; l < width; l++)
        out[l] = sum[l];
}

/* v_l += u[l] x_i for a whole bundle. */
static INLINE void NAME(add_bundle)(const pegasos_rows *rows, int64_t i, const double *u,
                                    void *vectors)
{
    enum { WIDTH = BUNDLE_BYTES / sizeof(VECTOR) };
    const INDEX *column = rows->indices;
    const VALUE *x = rows->values;
    const int64_t end = row_offset(rows, i + 1);
    VECTOR factors[WIDTH];
    for (int l = 0; l < WIDTH; l++)
        factors[l] = (VECTOR)u[l];
    for (int64_t j = row_offset(rows, i); j < end; j++) {
        VECTOR *v = (VECTOR *)vectors + (int64_t)column[j] * WIDTH;
        const VECTOR value = x[j];
        for (int l = 0; l < WIDTH; l++)
            v[l] += factors[l] * value;
    }
}

/* sums[l] = <v_l, x_i> for the vectors of a panel, which is PANEL_LINES cache lines wide and
 * interleaved like a bundle. Sums stay in registers. */
static INLINE void NAME(dot_panel)(const pegasos_rows *rows, int64_t i, const void *panel,
                                   void *sums)
{
    enum { WIDTH = BUNDLE_BYTES / sizeof(VECTOR) };
    VECTOR *restrict out = sums;
    const INDEX *column = rows->indices;
    const VALUE *x = rows->values;
    const int64_t end = row_offset(rows, i + 1);
    VECTOR sum[PANEL_LINES][WIDTH] = {{0}};
    for (int64_t j = row_offset(rows, i); j < end; j++) {
        const VECTOR *restrict v =
            (const VECTOR *)panel + (int64_t)column[j] * (PANEL_LINES * WIDTH);
        const VECTOR value = x[j];
        UNROLLED
        for (int k = 0; k < PANEL_LINES; k++)
            for (int l = 0; l < WIDTH; l++)
                sum[k][l] += value * v[k * WIDTH + l];
    }
    memcpy(out, sum, sizeof sum);
}

/* |x_i|^2. A column may occur more than once, and its entries add up. If columns do not rise, they
 * are added in `scratch`, which must be n_features zeros, and is so again in the end. */
static INLINE double NAME(squared_norm)(const pegasos_rows *rows, int64_t i, double *scratch)
{
    const int64_t begin = row_offset(rows, i), end = row_offset(rows, i + 1);
    const VALUE *x = rows->values;
    const INDEX *column = rows->indices;
    double sum = 0;
    int rises = 1;
    for (int64_t j = begin; j < end; j++) {
        sum += (double)x[j] * x[j];
        rises &= j == begin || column[j - 1] < column[j];
    }
    if (rises)
        return sum;
    for (int64_t j = begin; j < end; j++)
        scratch[column[j]] += x[j];
    sum = 0;
    for (int64_t j = begin; j < end; j++) {
        sum += scratch[column[j]] * scratch[column[j]];
        scratch[column[j]] = 0;
    }
    return sum;
}

#define ADD_ROWS NULL
#define DOT_TILE NULL

#else

#define LANES 16 /* sum_lanes relies on this */
#define CHUNK 16384

static INLINE double NAME(sum_lanes)(const VECTOR *lane)
{
    double half[8], quarter[4];
    for (int l = 0; l < 8; l++)
        half[l] = (double)lane[l] + lane[l + 8];
    for (int l = 0; l < 4; l++)
        quarter[l] = half[l] + half[l + 4];
    return (quarter[0] + quarter[1]) + (quarter[2] + quarter[3]);
}

static INLINE void NAME(prefetch_lanes)(const VALUE *x)
{
    for (int l = 0; l < LANES; l += 64 / (int)sizeof(VALUE))
        PREFETCH(x + l);
}

static INLINE void NAME(prefetch_offset)(const pegasos_rows *rows, int64_t i)
{
    (void)rows; /* which are dense: offsets are known */
    (void)i;
}

static INLINE double NAME(dot)(const pegasos_rows *rows, int64_t i, const void *vector,
                               int64_t next)
{
    const VECTOR *v = vector;
    const int64_t d = rows->n_features;
    const VALUE *x = (const VALUE *)rows->values + i * d;
    const VALUE *ahead = (const VALUE *)rows->values + next * d;
    double sum = 0;
    int64_t j = 0;
    while (d - j >= LANES) {
        const int64_t stop = j + (d - j > CHUNK ? CHUNK : (d - j) / LANES * LANES);
        VECTOR lane[LANES] = {0};
        for (; j < stop; j += LANES) {
            NAME(prefetch_lanes)(ahead + j);
            for (int l = 0; l < LANES; l++)
                lane[l] += x[j + l] * v[j + l];
        }
        sum += NAME(sum_lanes)(lane);
    }
    double rest = 0;
    for (; j < d; j++)
        rest += (double)x[j] * v[j];
    return sum + rest;
}

static INLINE void NAME(add)(const pegasos_rows *rows, int64_t i, double u, void *vector)
{
    const int64_t d = rows->n_features;
    const VALUE *restrict x = (const VALUE *)rows->values + i * d;
    VECTOR *restrict v = vector;
    const VECTOR factor = (VECTOR)u;
    int64_t j = 0;
    for (; d - j >= LANES; j += LANES)
        for (int l = 0; l < LANES; l++)
            v[j + l] += factor * x[j + l];
    for (; j < d; j++)
        v[j] += factor * x[j];
}

static INLINE void NAME(add_squares)(const pegasos_rows *rows, int64_t i, double u, double *v)
{
    const VALUE *x = (const VALUE *)rows->values + i * rows->n_features;
    for (int64_t j = 0; j < rows->n_features; j++)
        v[j] += u * ((double)x[j] * x[j]);
}

/* Four rows at a time, so that each number of v is loaded and stored once for all four. The next
 * four, which lie close together, are prefetched meanwhile. */
static INLINE void NAME(add_rows)(const pegasos_rows *rows, int64_t count, const int64_t *which,
                                  const double *factors, void *vector)
{
    enum { WIDTH = 8 };
    const int64_t d = rows->n_features;
    const VALUE *const values = rows->values;
    VECTOR *v = vector;
    int64_t i = 0;
    for (; count - i >= 4; i += 4) {
        const VALUE *x0 = values + which[i] * d, *x1 = values + which[i + 1] * d;
        const VALUE *x2 = values + which[i + 2] * d, *x3 = values + which[i + 3] * d;
        const VECTOR u0 = (VECTOR)factors[i], u1 = (VECTOR)factors[i + 1];
        const VECTOR u2 = (VECTOR)factors[i + 2], u3 = (VECTOR)factors[i + 3];
        const VALUE *ahead = values + which[count - i > 4 ? i + 4 : i] * d;
        int64_t j = 0;
        for (; d - j >= WIDTH; j += WIDTH, ahead += 4 * WIDTH) {
            VECTOR lane[WIDTH];
            for (int l = 0; l < 4 * WIDTH; l += 64 / (int)sizeof(VALUE))
                PREFETCH(ahead + l);
            for (int l = 0; l < WIDTH; l++)
                lane[l] = v[j + l] + u0 * x0[j + l];
            for (int l = 0; l < WIDTH; l++)
                lane[l] += u1 * x1[j + l];
            for (int l = 0; l < WIDTH; l++)
                lane[l] += u2 * x2[j + l];
            for (int l = 0; l < WIDTH; l++)
                lane[l] += u3 * x3[j + l];
            for (int l = 0; l < WIDTH; l++)
                v[j + l] = lane[l];
        }
        for (; j < d; j++)
            v[j] = (((v[j] + u0 * x0[j]) + u1 * x1[j]) + u2 * x2[j]) + u3 * x3[j];
    }
    for (; i < count; i++)
        NAME(add)(rows, which[i], factors[i], vector);
}

/* out[l] = <v_l, x_i> for interleaved vectors. Each number of x is loaded once for all of them. */
static INLINE void NAME(dot_bundle)(const pegasos_rows *rows, int64_t i, const void *vectors,
                                    int64_t stride, const int width, int64_t next, double *out)
{
    const VECTOR *v = vectors;
    const int64_t d = rows->n_features;
    const VALUE *x = (const VALUE *)rows->values + i * d;
    const VALUE *ahead = (const VALUE *)rows->values + next * d;
    VECTOR even[MOST_LANES] = {0}, odd[MOST_LANES] = {0};
    int64_t j = 0;
    for (; d - j >= 2; j += 2) {
        if (j % LANES == 0 && d - j >= LANES)
            NAME(prefetch_lanes)(ahead + j);
        for (int l = 0; l < width; l++)
            even[l] += x[j] * v[j * stride + l];
        for (int l = 0; l < width; l++)
            odd[l] += x[j + 1] * v[(j + 1) * stride + l];
    }
    for (; j < d; j++)
        for (int l = 0; l < width; l++)
            even[l] += x[j] * v[j * stride + l];
    for (int l = 0; l < width; l++)
        out[l] = (double)even[l] + odd[l];
}

static INLINE void NAME(add_bundle)(const pegasos_rows *rows, int64_t i, const double *u,
                                    void *vectors)
{
    enum { WIDTH = BUNDLE_BYTES / sizeof(VECTOR) };
    const int64_t d = rows->n_features;
    const VALUE *restrict x = (const VALUE *)rows->values + i * d;
    VECTOR *restrict v = vectors;
    VECTOR factors[WIDTH];
    for (int l = 0; l < WIDTH; l++)
        factors[l] = (VECTOR)u[l];
    for (int64_t j = 0; j < d; j++, v += WIDTH) {
        const VECTOR value = x[j];
        for (int l = 0; l < WIDTH; l++)
            v[l] += factors[l] * value;
    }
}

static INLINE double NAME(squared_norm)(const pegasos_rows *rows, int64_t i, double *scratch)
{
    const int64_t d = rows->n_features;
    const VALUE *x = (const VALUE *)rows->values + i * d;
    double lane[LANES] = {0}, sum = 0;
    int64_t j = 0;
    (void)scratch;
    for (; d - j >= LANES; j += LANES) {
        UNROLLED
        for (int l = 0; l < LANES; l++)
            lane[l] += (double)x[j + l] * x[j + l];
    }
    for (; j < d; j++)
        sum += (double)x[j] * x[j];
    UNROLLED
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

/* Each number of the vectors is loaded once for four rows. */
static INLINE void NAME(dot_tile)(const pegasos_rows *rows, const int64_t *which, int64_t count,
                                  const void *vectors, int64_t stride, const int width, double *out)
{
    const VECTOR *v = vectors;
    const int64_t d = rows->n_features;
    const VALUE *values = rows->values, *x = values + which[0] * d;
    const VALUE *x1 = count > 1 ? values + which[1] * d : x;
    const VALUE *x2 = count > 2 ? values + which[2] * d : x;
    const VALUE *x3 = count > 3 ? values + which[3] * d : x;
    double sums[TILE][MOST_LANES] = {{0}};
    for (int64_t j = 0; j < d;) {
        const int64_t stop = d - j > CHUNK ? j + CHUNK : d;
        VECTOR s0[MOST_LANES] = {0}, s1[MOST_LANES] = {0};
        VECTOR s2[MOST_LANES] = {0}, s3[MOST_LANES] = {0};
        for (; j < stop; j++) {
            for (int l = 0; l < width; l++)
                s0[l] += x[j] * v[j * stride + l];
            for (int l = 0; l < width; l++)
                s1[l] += x1[j] * v[j * stride + l];
            for (int l = 0; l < width; l++)
                s2[l] += x2[j] * v[j * stride + l];
            for (int l = 0; l < width; l++)
                s3[l] += x3[j] * v[j * stride + l];
        }
        for (int l = 0; l < width; l++) {
            sums[0][l] += s0[l];
            sums[1][l] += s1[l];
            sums[2][l] += s2[l];
            sums[3][l] += s3[l];
        }
    }
    for (int64_t t = 0; t < count; t++)
        for (int l = 0; l < width; l++)
            out[t * width + l] = sums[t][l];
}

#define ADD_ROWS NAME(add_rows)
#define DOT_TILE NAME(dot_tile)

#endif

MAYBE_UNUSED static const row_functions NAME(functions) = {.prefetch_offset = NAME(prefetch_offset),
                                                           .dot = NAME(dot),
                                                           .add = NAME(add),
                                                           .add_rows = ADD_ROWS,
                                                           .lanes = PEGASOS_BUNDLE_BYTES
                                                                    / sizeof(VECTOR),
                                                           .dot_bundle = NAME(dot_bundle),
                                                           .add_bundle = NAME(add_bundle),
                                                           .dot_tile = DOT_TILE};

#undef LANES
#undef BLOCK
#undef ADD_ROWS
#undef DOT_TILE
#undef CHUNK
#undef VALUE
#undef VECTOR
#undef INDEX
#undef SUFFIX
#undef NAME
