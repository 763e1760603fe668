/*
 * sample.c - where Newton's method begins if rows are many beside features: at the solution of a
 * random part of the rows.
 *
 * That part is a problem like the whole one, with the same lambda, and is solved by the same
 * program (pegasos_solve_one), down to a coarse gap: it begins with an epoch of Pegasos, or with a
 * sample of its own. All of this takes as long as a few passes over all rows. The model is as good
 * as a sample's can be; from there, Newton's method on all rows takes a few iterations.
 *
 * The sample is a transaction: a fit that is stopped in it draws it again, with the same bits.
 */
#include "fit.h"

/* One of so many rows; none if these are fewer than ROWS_PER_FEATURE for each feature: with 33 (one
 * of 8 of 32,561 rows x 123), fits took 1.4 times as long as without a sample; with 58 (15,000 rows
 * x 16), three quarters of the time. */
enum { PART = 16, ROWS_PER_FEATURE = 50 };
/* The relative gap down to which a sample is solved, and epochs for it: 130,000 rows x 54 took 119
 * ms with 0.3, 134 ms with 0.02 and with 0.1. */
static const double SAMPLE_GAP = 0.3;
enum { EPOCHS_OF_SAMPLE = 50 };
/* The rows of a sample may have so many times their share of the numbers, and a few more. */
static const double MOST_NUMBERS = 1.5;

static int64_t rows_of_sample(int64_t n_rows, int64_t n_features)
{
    const int64_t m = n_rows / PART;
    return m / ROWS_PER_FEATURE > n_features ? m : 0;
}

/* Numbers that a sample of m rows may have. */
static int64_t numbers_of_sample(const pegasos_size *size, int64_t m)
{
    const double share = size->numbers * (double)m / (double)size->n_rows;
    return size->index_bytes == 0 ? m * size->n_features
                                  : (int64_t)(MOST_NUMBERS * share) + size->n_features;
}

static int64_t padded(int64_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

/* Where the parts of a sample's memory begin: its rows, what belongs to them, and its fit's. */
typedef struct places {
    int64_t m, numbers;
    int64_t values, indices, offsets, targets, weights, norms, labels, memory, room, end;
} places;

static places places_of(const pegasos_size *size)
{
    const int64_t m = rows_of_sample(size->n_rows, size->n_features);
    places p = {.m = m};
    if (m == 0)
        return p;
    p.numbers = numbers_of_sample(size, m);
    p.indices = p.values + padded(p.numbers * size->value_bytes);
    p.offsets = p.indices + padded(p.numbers * size->index_bytes);
    p.targets = p.offsets + 8 * (m + 1);
    p.weights = p.targets + 8 * m;
    p.norms = p.weights + 8 * m;
    p.labels = p.norms + 8 * m;
    p.memory = p.labels + padded(m);
    p.room = p.memory + pegasos_kept(m, size->n_features);
    const pegasos_size own = {m, size->n_features, size->value_bytes, size->index_bytes,
                              (double)p.numbers};
    p.end = p.room + pegasos_room_of(&own);
    return p;
}

int64_t pegasos_sample_room(const pegasos_size *size)
{
    return places_of(size).end;
}

/* Copies row i to the end of the sample's, where it is number k; false: there is no room. */
static bool copy_row(const pegasos_rows *rows, int64_t i, const places *p, char *memory, int64_t k)
{
    const int64_t d = rows->n_features, bytes = rows->value_bytes;
    int64_t *const offsets = (int64_t *)(memory + p->offsets);
    if (rows->index_bytes == 0) {
        memcpy(memory + p->values + k * d * bytes, (const char *)rows->values + i * d * bytes,
               (size_t)(d * bytes));
        return true;
    }
    const int64_t from = row_offset(rows, i), count = row_offset(rows, i + 1) - from;
    const int64_t to = offsets[k];
    if (to + count > p->numbers)
        return false;
    memcpy(memory + p->values + to * bytes, (const char *)rows->values + from * bytes,
           (size_t)(count * bytes));
    memcpy(memory + p->indices + to * rows->index_bytes,
           (const char *)rows->indices + from * rows->index_bytes,
           (size_t)(count * rows->index_bytes));
    offsets[k + 1] = to + count;
    return true;
}

/* Draws the rows, of those that are in the problem: each is taken with the probability that makes
 * the number of rows right (Knuth, The Art of Computer Programming, vol. 2, algorithm 3.4.2 S).
 * False: there is no room. */
static bool draw(const fit *f, const places *p, char *memory)
{
    const pegasos_targets *const t = &f->targets;
    double *const values = (double *)(memory + p->targets);
    double *const weights = (double *)(memory + p->weights);
    double *const norms = (double *)(memory + p->norms);
    int8_t *const labels = (int8_t *)(memory + p->labels);
    uint64_t generator = f->options->seed;
    int64_t left = f->s->n_inside, k = 0;
    ((int64_t *)(memory + p->offsets))[0] = 0;
    for (int64_t i = 0; i < t->n && k < p->m; i++) {
        if (t->labels[i] == 0)
            continue;
        if (pegasos_bounded_random(&generator, left--) >= p->m - k)
            continue;
        if (!copy_row(f->rows, i, p, memory, k))
            return false;
        labels[k] = t->labels[i];
        values[k] = value_at(t, i);
        weights[k] = weight_at(t, i);
        norms[k++] = f->norms[i];
    }
    return k == p->m;
}

sampled pegasos_fit_sample(fit *f)
{
    const pegasos_size size = pegasos_size_of(f->rows);
    const places p = places_of(&size);
    char *const memory = f->sample;
    if (p.m == 0 || f->s->n_inside < f->rows->n_rows / 2 || !draw(f, &p, memory))
        return NO_SAMPLE;
    const bool is_sparse = f->rows->index_bytes > 0;
    const pegasos_rows rows = {
        .n_rows = p.m,
        .n_features = f->rows->n_features,
        .value_bytes = f->rows->value_bytes,
        .index_bytes = f->rows->index_bytes,
        .indptr_bytes = is_sparse ? 8 : 0,
        .values = memory + p.values,
        .indices = is_sparse ? memory + p.indices : NULL,
        .indptr = is_sparse ? memory + p.offsets : NULL,
    };
    pegasos_problem problem = *f->problem;
    pegasos_options options = *f->options;
    problem.rows = &rows;
    problem.targets = (const double *)(memory + p.targets);
    problem.weights = (const double *)(memory + p.weights);
    options.solver = PEGASOS_NEWTON;
    options.tol = SAMPLE_GAP;
    options.max_epochs = EPOCHS_OF_SAMPLE;
    options.poll_epochs = 0;
    memset(memory + p.memory, 0, (size_t)pegasos_kept(p.m, rows.n_features));
    const int status =
        pegasos_solve_one(&problem, &options, (const int8_t *)(memory + p.labels),
                          (const double *)(memory + p.norms), memory + p.memory, memory + p.room);
    if (status == PEGASOS_STOPPED)
        return STOPPED;
    pegasos_solution found;
    pegasos_found(p.m, rows.n_features, memory + p.memory, &found);
    if (status != PEGASOS_DONE || !isfinite(found.objective))
        return NO_SAMPLE;
    memcpy(f->coef, found.coef, (size_t)rows.n_features * sizeof(double));
    f->s->intercept = found.intercept;
    f->s->pegasos.n_steps = found.n_steps;
    return SAMPLED;
}
