/*
 * sample.c - where Newton's method begins if rows are many compared with features: at the solution
 * of a random part of the rows.
 *
 * The sample is a problem like the whole one, with the same lambda. The same program solves it to a
 * coarse gap, from an epoch of Pegasos on. This takes as long as a few passes over all rows. The
 * model is as good as a sample's can be; from there, Newton's method takes a few iterations.
 *
 * The sample is a transaction: a fit that is stopped in it draws it again, with the same bits.
 */
#include "fit.h"

/* A sample has one of PART rows. There is none if these are fewer than ROWS_PER_FEATURE for each
 * feature. With 33 (one of 8 of 32,561 rows x 123), fits took 1.4 times as long as without a
 * sample; with 58 (15,000 rows x 16), they took three quarters of the time. */
enum { PART = 16, ROWS_PER_FEATURE = 50 };
/* The relative gap to which a sample is solved, and its epochs: 130,000 rows x 54 took 119 ms with
 * 0.3, and 134 ms with 0.02 and with 0.1. */
static const double SAMPLE_GAP = 0.3;
enum { EPOCHS_OF_SAMPLE = 50 };
/* The rows of a sample may have this many times their share of the numbers, and a few more. */
static const double MOST_NUMBERS = 1.5;

static int64_t rows_of_sample(int64_t n_rows, int64_t n_features)
{
    const int64_t m = n_rows / PART;
    return m / ROWS_PER_FEATURE > n_features ? m : 0;
}

/* A sample's memory: its rows, their data, and the memory of its fit. */
typedef struct parts {
    int64_t m, numbers; /* rows, and how many numbers they may have */
    void *values, *indices;
    int64_t *offsets;
    double *targets, *weights, *norms;
    int8_t *labels;
    void *memory, *scratch;
} parts;

/* Lays out a sample's memory, and returns how many bytes it takes; 0: there is no sample. */
static int64_t lay_out(parts *p, const pegasos_rows *rows, void *memory)
{
    const int64_t d = rows->n_features, m = rows_of_sample(rows->n_rows, d);
    const double share = stored_numbers(rows) * (double)m / (double)rows->n_rows;
    layout all = {memory, 8, 0};
    *p = (parts){.m = m};
    if (m == 0)
        return 0;
    p->numbers = rows->index_bytes == 0 ? m * d : (int64_t)(MOST_NUMBERS * share) + d;
    p->values = take(&all, p->numbers * rows->value_bytes);
    p->indices = take(&all, p->numbers * rows->index_bytes);
    p->offsets = take(&all, 8 * (m + 1));
    p->targets = take(&all, 8 * m);
    p->weights = take(&all, 8 * m);
    p->norms = take(&all, 8 * m);
    p->labels = take(&all, m);
    p->memory = take(&all, pegasos_state_bytes(m, d));
    p->scratch = take(&all, pegasos_fit_scratch_bytes(m, d));
    return all.bytes;
}

int64_t pegasos_sample_scratch_bytes(const pegasos_rows *rows)
{
    parts p;
    return lay_out(&p, rows, NULL);
}

/* Draws m rows of the problem: each is taken with the probability that leads to m rows (Knuth, The
 * Art of Computer Programming, vol. 2, algorithm 3.4.2 S). Returns how many numbers they have. */
static int64_t draw(const fit *f, int64_t m, int64_t *which)
{
    uint64_t generator = f->options->seed;
    int64_t left = f->s->n_inside, k = 0, numbers = 0;
    for (int64_t i = 0; i < f->rows->n_rows && k < m; i++) {
        if (f->targets.labels[i] == 0 || pegasos_bounded_random(&generator, left--) >= m - k)
            continue;
        which[k++] = i;
        numbers += row_begin(f->rows, i + 1) - row_begin(f->rows, i);
    }
    return numbers;
}

sampled pegasos_fit_sample(fit *f)
{
    parts p;
    int64_t *const which = (int64_t *)f->scratch;
    lay_out(&p, f->rows, f->sample);
    if (!f->sample || p.m == 0 || f->s->n_inside < f->rows->n_rows / 2
        || draw(f, p.m, which) > p.numbers)
        return NO_SAMPLE;
    pegasos_take_rows(f->rows, p.m, which, NULL, p.values, p.indices, p.offsets, NULL);
    for (int64_t k = 0; k < p.m; k++) {
        p.targets[k] = value_at(&f->targets, which[k]);
        p.weights[k] = weight_at(&f->targets, which[k]);
        p.norms[k] = f->norms[which[k]];
        p.labels[k] = f->targets.labels[which[k]];
    }
    pegasos_rows rows = *f->rows;
    pegasos_problem problem = *f->problem;
    pegasos_options options = *f->options;
    rows.n_rows = p.m;
    rows.values = p.values;
    rows.indices = p.indices;
    rows.indptr = p.offsets;
    rows.indptr_bytes = 8;
    problem.rows = &rows;
    problem.targets = p.targets;
    problem.weights = p.weights;
    options.solver = PEGASOS_NEWTON;
    options.tol = SAMPLE_GAP;
    options.max_epochs = EPOCHS_OF_SAMPLE;
    options.poll_epochs = 0;
    fit own = pegasos_fit_of(&problem, &options, p.labels, p.norms, p.memory, p.scratch);
    own.sample = NULL;
    own.s->pending = PEGASOS_BEGIN;
    const int status = pegasos_fit_run(&own);
    if (status == PEGASOS_STOPPED)
        return STOPPED;
    if (status != PEGASOS_DONE || !isfinite(own.s->primal))
        return NO_SAMPLE;
    memcpy(f->coef, own.coef, (size_t)rows.n_features * sizeof(double));
    f->s->intercept = own.s->intercept;
    f->s->pegasos.n_steps = own.s->pegasos.n_steps;
    return SAMPLED;
}
