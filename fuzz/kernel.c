/*
 * kernel.c - kernel values are what they should be, and Pegasos on a kernel matrix ends with the
 * same bits wherever it is cut, and takes the same steps however columns come.
 */
#include "input.h"

/* A kernel matrix, and when to stop. */
typedef struct source {
    const void *gram;
    int64_t n, bytes, n_polls, next, apart;
} source;

static int copy_values(void *context, int64_t count, const int64_t *rows, int64_t first, int64_t m,
                       const int64_t *which, int64_t stride, void *out)
{
    const source *of = context;
    for (int64_t j = 0; j < count; j++)
        for (int64_t k = 0; k < m; k++) {
            const int64_t other = which ? which[k] : first + k;
            MUST(0 <= rows[j] && rows[j] < of->n && 0 <= other && other < of->n);
            put(out, of->bytes, j * stride + k,
                number(of->gram, of->bytes, rows[j] * of->n + other));
        }
    return 0;
}

/* Further and further apart: a block that was stopped is begun again. */
static int stop_now_and_then(void *context, const pegasos_progress *progress)
{
    source *of = context;
    (void)progress;
    if (++of->n_polls < of->next)
        return 0;
    of->next += ++of->apart;
    return 1;
}

typedef struct trained {
    pegasos_linear problems[3];
    double *beta, *sums, *counts;
} trained;

/* What all runs have in common. */
typedef struct task {
    const void *gram;
    int64_t m, bytes, K, batch;
    bool averages;
    pegasos_targets targets;
    pegasos_draws draws;
    pegasos_linear problems[3];
} task;

static trained train(input *in, const task *t, bool holds_all, bool is_cut)
{
    const int64_t m = t->m, K = t->K;
    trained end = {
        .beta = room(in, K * m, 8), .sums = room(in, K * m, 8), .counts = room(in, K * m, 8)};
    double *scores = room(in, K * m, 8), *unpushed = room(in, K * m, 8);
    int64_t n_kept = 0;
    source of = {.gram = t->gram, .n = m, .bytes = t->bytes, .next = 1};
    pegasos_watch watch = {.poll = stop_now_and_then, .context = &of, .every = is_cut ? 1 : 1e18};
    const pegasos_workers workers = {.watch = &watch};
    pegasos_columns columns = {.n_rows = m,
                               .value_bytes = t->bytes,
                               .n_columns = holds_all ? m : 0,
                               .columns = room(in, m * m, t->bytes),
                               .column_of = room(in, m, 8),
                               .n_kept = &n_kept,
                               .values = copy_values,
                               .context = &of,
                               .block = room(in, pegasos_columns_block(m), t->bytes),
                               .workers = &workers};
    for (int64_t i = 0; i < m; i++)
        columns.column_of[i] = -1;
    memcpy(end.problems, t->problems, sizeof end.problems);
    const pegasos_linear_set set = {
        .n_problems = K,
        .batch_size = t->batch,
        .problems = end.problems,
        .targets = t->targets,
        .weights = end.beta,
        .sums = t->averages ? end.sums : NULL,
        .counts = end.counts,
        .pending = room(in, K * t->batch, 8),
        .slopes = t->targets.loss.kind == PEGASOS_HINGE ? NULL : room(in, K * t->batch, 8)};
    void *work = room(in, pegasos_kernel_train_scratch_bytes(&columns, &set), 1);
    while (pegasos_kernel_train(&columns, &set, scores, unpushed, &t->draws, work)
           == PEGASOS_STOPPED)
        ;
    return end;
}

static void train_all(input *in, const void *gram, int64_t m, int64_t bytes, pegasos_loss loss)
{
    const int64_t count = take_in(in, 0, 200);
    task t = {.gram = gram,
              .m = m,
              .bytes = bytes,
              .K = take_in(in, 1, 3),
              .batch = take_in(in, 1, 4),
              .averages = take_bool(in)};
    t.targets = take_targets(in, loss, t.K * m, m);
    int64_t *draws = room(in, count, 8);
    for (int64_t j = 0; j < count; j++)
        draws[j] = take_in(in, 0, m - 1);
    t.draws = (pegasos_draws){.count = count, .list = draws};
    for (int64_t k = 0; k < t.K; k++) {
        pegasos_linear *p = &t.problems[k];
        *p = (pegasos_linear){.lam = take_positive(in),
                              .weight_factor = (double)take_in(in, 1, 64) / 16};
        p->intercept_scaling = take_bool(in) ? take_positive(in) : 0;
        p->free_intercept = p->intercept_scaling == 0 && take_bool(in);
        p->ball = take_bool(in);
        p->average_from = t.averages ? take_in(in, 0, 10) : 0;
        p->last_step = take_bool(in) ? INT64_MAX : take_in(in, 0, 100);
        double longest = 0;
        for (int64_t i = 0; i < m; i++) {
            const double c = t.targets.weights ? t.targets.weights[i] : 1;
            const double norm = number(gram, bytes, i * m + i) + constant_of(p) * constant_of(p);
            longest = fmax(longest, c * norm);
        }
        p->delay = delay_for(p, loss, longest);
        pegasos_linear_start(p);
    }
    for (int holds_all = 0; holds_all < 2; holds_all++) {
        const trained once = train(in, &t, holds_all, false), cut = train(in, &t, holds_all, true);
        for (int64_t k = 0; k < t.K; k++) {
            const pegasos_linear *p = &once.problems[k], *q = &cut.problems[k];
            MUST(p->n_steps == q->n_steps && p->next_draw == q->next_draw);
            MUST(p->n_drawn == q->n_drawn && p->n_pending == q->n_pending);
            MUST(same(p->q, q->q) && same(p->intercept, q->intercept));
            MUST(same(p->rate_sum, q->rate_sum) && same(p->constant_sum, q->constant_sum));
        }
        MUST(same_numbers(once.beta, cut.beta, 8, t.K * m));
        MUST(same_numbers(once.sums, cut.sums, 8, t.K * m));
        MUST(same_numbers(once.counts, cut.counts, 8, t.K * m));
    }
}

/* Points of rows, which are thin or thick if they are sparse and `layout` says so. */
static pegasos_points points_of(input *in, pegasos_rows rows, const pegasos_points *like,
                                int layout)
{
    const int64_t n = rows.n_rows, d = rows.n_features, bytes = rows.value_bytes;
    pegasos_points points = *like;
    double *norms = room(in, n, 8), *scratch = room(in, d, 8);
    void *own = room(in, n, bytes);
    points.rows = rows;
    pegasos_linear_norms(&rows, 0, n, scratch, norms);
    for (int64_t i = 0; i < n; i++)
        put(own, bytes, i, norms[i]);
    points.norms = own;
    points.by_panels = rows.index_bytes != 0 && layout == 1;
    points.by_transpose = rows.index_bytes != 0 && layout == 2;
    return points;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.data = data, .left = size};
    in.extreme = take_in(&in, 0, 3) == 0;
    const pegasos_loss loss = take_loss(&in);
    const int64_t n = take_in(&in, 1, 9), m = take_in(&in, 1, 35), d = take_in(&in, 1, 20);
    const int64_t bytes = take_bool(&in) ? 8 : 4, stride = m + take_in(&in, 0, 2);
    const int kind = (int)take_in(&in, 0, 5);
    const double gamma = take_positive(&in), coef0 = take_number(&in);
    const double tolerance = bytes == 4 ? 1e-3 : 1e-9;
    if (kind == 5) { /* a matrix like those of kernels, symmetric; or not, which must not matter */
        void *columns = room(&in, m * m, bytes);
        for (int64_t i = 0; i < m; i++) {
            for (int64_t j = 0; j <= i; j++) {
                const double value = i == j ? fabs(take_number(&in)) : take_number(&in);
                put(columns, bytes, i * m + j, value);
                put(columns, bytes, j * m + i, value);
            }
        }
        train_all(&in, columns, m, bytes, loss);
        release(&in);
        return 0;
    }
    const int64_t is_sparse = take_bool(&in), degree = take_in(&in, 0, 6);
    const int layout = (int)take_in(&in, 0, 2);
    const pegasos_rows x = take_rows_of(&in, n, d, bytes, is_sparse);
    const pegasos_rows z = take_rows_of(&in, m, d, bytes, is_sparse);
    const void *X = dense(&in, &x), *Z = dense(&in, &z);
    void *K = room(&in, n * stride, bytes);
    const pegasos_points like = {
        .kernel = {kind, gamma, coef0, degree},
        .by_differences = kind == PEGASOS_GAUSSIAN && take_bool(&in)
    };
    const pegasos_points of_x = points_of(&in, x, &like, layout);
    const pegasos_points of_z = points_of(&in, z, &like, layout);
    pegasos_watch watch = {.every = 1e18};
    const pegasos_workers workers = {
        .scratch = room(&in, 1 + pegasos_kernel_values_scratch_bytes(&of_x, &of_z, 1), 1),
        .n_threads = 1,
        .watch = &watch};
    int64_t *some = room(&in, n, 8);
    for (int64_t i = 0; i < n; i++)
        some[i] = i;
    for (int64_t j = 0; j < n * stride; j++)
        put(K, bytes, j, 7);
    pegasos_source source = {.x = &of_x, .z = &of_z, .workers = &workers};
    MUST(pegasos_kernel_values(&source, n, take_bool(&in) ? some : NULL, 0, m, NULL, stride, K)
         == 0);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = m; j < stride; j++)
            MUST(number(K, bytes, i * stride + j) == 7); /* not ours to write */
        for (int64_t j = 0; j < m; j++) {
            const double value = number(K, bytes, i * stride + j);
            double product = 0, apart = 0, square = 0, sizes = 0;
            for (int64_t c = 0; c < d; c++) {
                const double s = number(X, bytes, i * d + c), t = number(Z, bytes, j * d + c);
                product += s * t;
                sizes += fabs(s * t) + s * s + t * t;
                apart += fabs(s - t);
                square += (s - t) * (s - t);
            }
            /* Of overflow to infinity too; NaN of infinity less itself. */
            if (kind == PEGASOS_GAUSSIAN || kind == PEGASOS_LAPLACIAN)
                MUST((0 <= value && value <= 1 + 1e-6) || (in.extreme && isnan(value)));
            if (kind == PEGASOS_SIGMOID)
                MUST((-1 <= value && value <= 1) || (in.extreme && isnan(value)));
            if (in.extreme)
                continue;
            MUST(isfinite(value) || kind == PEGASOS_POLYNOMIAL);
            const double slack = tolerance * (1 + gamma) * (1 + sizes + apart);
            if (kind == PEGASOS_LINEAR)
                MUST(fabs(value - product) <= slack);
            else if (kind == PEGASOS_GAUSSIAN)
                MUST(fabs(value - exp(-gamma * square)) <= slack);
            else if (kind == PEGASOS_SIGMOID)
                MUST(fabs(value - tanh(gamma * product + coef0)) <= slack);
            else if (kind == PEGASOS_LAPLACIAN)
                MUST(fabs(value - exp(-gamma * apart)) <= slack);
            else if (degree == 0)
                MUST(value == 1);
        }
    }
    /* blocks from columns */
    if (kind == PEGASOS_LINEAR) {
        const int64_t count = take_in(&in, 1, 5), m = take_in(&in, 1, 5);
        int64_t *places = room(&in, count, 8), *which = room(&in, m, 8);
        for (int64_t i = 0; i < count; i++)
            places[i] = take_in(&in, -1, n - 1);
        for (int64_t j = 0; j < m; j++)
            which[j] = take_in(&in, 0, stride - 1);
        char *block = room(&in, count * m, bytes);
        pegasos_kernel_gather(count, places, stride, bytes, K, m, which, m, block);
        for (int64_t i = 0; i < count; i++)
            for (int64_t j = 0; j < m; j++)
                MUST(places[i] < 0
                     || !memcmp(block + (i * m + j) * bytes,
                                (const char *)K + (places[i] * stride + which[j]) * bytes,
                                (size_t)bytes));
    }
    /* scores of coefficients on columns */
    if (kind == PEGASOS_LINEAR && !in.extreme) {
        const int64_t count = take_in(&in, 0, 5), problems = take_in(&in, 1, 3);
        int64_t n_kept = n, *rows = room(&in, count, 8), *place = room(&in, stride, 8);
        double *coef = room(&in, problems * count, 8), *scores = room(&in, problems * stride, 8);
        pegasos_columns columns = {.n_rows = stride,
                                   .value_bytes = bytes,
                                   .columns = K,
                                   .column_of = place,
                                   .n_kept = &n_kept,
                                   .workers = &workers};
        for (int64_t i = 0; i < stride; i++)
            place[i] = i < n ? n - 1 - i : -1;
        for (int64_t r = 0; r < count; r++)
            rows[r] = take_in(&in, 0, (n < stride ? n : stride) - 1);
        for (int64_t r = 0; r < problems * count; r++)
            coef[r] = take_number(&in);
        MUST(pegasos_columns_add(&columns, count, rows, problems, coef, count, NULL, 0, stride,
                                 scores)
             == 0);
        for (int64_t k = 0; k < problems; k++)
            for (int64_t j = 0; j < stride; j++) {
                double sum = 0;
                for (int64_t r = 0; r < count; r++)
                    sum += coef[k * count + r] * number(K, bytes, place[rows[r]] * stride + j);
                MUST(fabs(scores[k * stride + j] - sum) <= 1e-6 * (1 + fabs(sum)));
            }
    }
    release(&in);
    return 0;
}
