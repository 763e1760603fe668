/*
 * kernel.c - kernel values are what they should be, and training on blocks of a kernel matrix whose
 * columns come as they are wanted gives the numbers of training on the whole matrix (Pegasos), or
 * keeps its bounds and coefficients (ascent).
 */
#include "input.h"

typedef struct linear_state {
    pegasos_linear problems[3];
    double *v, *a;
    double *counts;
    int64_t *pending;
} linear_state;

static linear_state copy_linear(input *in, const linear_state *from, int64_t K, int64_t m,
                                int64_t batch)
{
    linear_state state = *from;
    state.v = copy_of(in, from->v, K * (2 * m + 1), 8);
    state.a = copy_of(in, from->a, K * (2 * m + 1), 8);
    state.counts = copy_of(in, from->counts, K * m, 8);
    state.pending = copy_of(in, from->pending, K * batch, 8);
    return state;
}

static pegasos_linear_set set_of(linear_state *state, int64_t K, int64_t batch,
                                 const int8_t *labels, const double *weights, bool averages)
{
    return (pegasos_linear_set){.n_problems = K,
                                .batch_size = batch,
                                .problems = state->problems,
                                .labels = labels,
                                .row_weights = weights,
                                .weights = state->v,
                                .sums = averages ? state->a : NULL,
                                .counts = state->counts,
                                .pending = state->pending};
}

/* Gives the rows that are wanted columns; returns how many there were. `from` has them all. */
static int64_t bring(const pegasos_rows *from, pegasos_rows *to, int64_t *place, int64_t *used)
{
    const int64_t m = from->n_rows, bytes = from->column_bytes;
    int64_t brought = 0;
    for (int64_t i = 0; i < m; i++) {
        if (!to->wanted[i])
            continue;
        MUST(to->wanted[i] == 1 && place[i] < 0);
        to->wanted[i] = 0;
        place[i] = (*used)++;
        memcpy((char *)to->values + place[i] * m * bytes,
               (const char *)from->values + i * m * bytes, (size_t)(m * bytes));
        brought++;
    }
    return brought;
}

static void train(input *in, const pegasos_rows *all)
{
    const int64_t m = all->n_rows, width = 2 * m + 1, K = take_in(in, 1, 3);
    const int64_t batch = take_in(in, 1, 4), count = take_in(in, 0, 60);
    const bool averages = take_bool(in);
    const int8_t *labels = take_labels(in, K * m);
    const double *weights = take_weights(in, m);
    int64_t *draws = room(in, count, 8), *place = room(in, m, 8), used = 0;
    for (int64_t j = 0; j < count; j++)
        draws[j] = take_in(in, 0, m - 1);
    linear_state whole = {.v = room(in, K * width, 8),
                          .a = room(in, K * width, 8),
                          .counts = room(in, K * m, 8),
                          .pending = room(in, K * batch, 8)};
    for (int64_t k = 0; k < K; k++) {
        pegasos_linear *p = &whole.problems[k];
        *p = (pegasos_linear){.lam = take_positive(in),
                              .weight_factor = (double)take_in(in, 1, 64) / 16};
        p->intercept_scaling = take_bool(in) ? take_positive(in) : 0;
        p->free_intercept = p->intercept_scaling == 0 && take_bool(in);
        p->project = take_bool(in);
        p->average_from = averages ? take_in(in, 0, 10) : 0;
        p->last_step = take_bool(in) ? INT64_MAX : take_in(in, 0, 40);
        pegasos_linear_start(p);
        whole.v[k * width + 2 * m] = 1;
    }
    linear_state parts = copy_linear(in, &whole, K, m, batch);
    pegasos_linear_set set = set_of(&whole, K, batch, labels, weights, averages);
    pegasos_linear_run(all, &set, 0, count, draws);
    for (int64_t i = 0; i < m; i++)
        MUST(all->wanted[i] == 0);

    pegasos_rows some = *all;
    some.values = room(in, m * m, all->column_bytes);
    some.indptr = place;
    some.wanted = room(in, m, 1);
    for (int64_t i = 0; i < m; i++)
        place[i] = -1;
    pegasos_linear_set part = set_of(&parts, K, batch, labels, weights, averages);
    const int64_t cut = count > 0 ? take_in(in, 0, count) : 0;
    for (int half = 0; half < 2; half++)
        do
            pegasos_linear_run(&some, &part, half ? cut : 0, half ? count - cut : cut,
                               draws + (half ? cut : 0));
        while (bring(all, &some, place, &used) > 0);
    for (int64_t k = 0; k < K; k++) {
        const pegasos_linear *p = &whole.problems[k], *q = &parts.problems[k];
        MUST(p->n_steps == q->n_steps && p->next_draw == q->next_draw);
        MUST(p->n_drawn == q->n_drawn && p->n_pending == q->n_pending);
        MUST(same(p->q, q->q) && same(p->intercept, q->intercept));
        MUST(same(p->rate_sum, q->rate_sum) && same(p->constant_sum, q->constant_sum));
    }
    MUST(same_numbers(whole.v, parts.v, 8, K * width));
    MUST(same_numbers(whole.a, parts.a, 8, K * width));
    MUST(memcmp(whole.counts, parts.counts, (size_t)(K * m * 8)) == 0);
}

static void climb(input *in, const pegasos_rows *all)
{
    const int64_t m = all->n_rows, width = 2 * m + 1, bytes = all->column_bytes;
    const int8_t *labels = take_labels(in, m);
    const double *bounds = take_weights(in, m);
    pegasos_dual problem = {.scale = take_positive(in), .generator = take_seed(in)};
    double *norms = room(in, m, 8), *a = room(in, m, 8), *b = room(in, m, 8);
    double *v = room(in, width, 8), *w = room(in, width, 8);
    int64_t *active = room(in, m, 8), *others = room(in, m, 8);
    int64_t n_active = 0;
    for (int64_t i = 0; i < m; i++) {
        norms[i] = number(all->values, bytes, i * m + i);
        norms[i] = norms[i] > 0 ? norms[i] : 0;
        if (labels[i] != 0) {
            active[n_active] = i;
            others[n_active++] = i;
        }
    }
    v[2 * m] = w[2 * m] = 1;
    pegasos_dual_start(&problem, n_active);
    pegasos_dual other = problem; /* the same in pieces */
    for (int64_t epoch = take_in(in, 1, 5); epoch > 0; epoch--) {
        pegasos_dual_run(all, &problem, labels, bounds, norms, active, a, v, INT64_MAX);
        MUST(problem.position == problem.n_active);
        while (other.position < other.n_active)
            pegasos_dual_run(all, &other, labels, bounds, norms, others, b, w, take_in(in, 1, 9));
        pegasos_dual_begin_epoch(&problem);
        pegasos_dual_begin_epoch(&other);
    }
    MUST(same_numbers(a, b, 8, m) && same_numbers(v, w, 8, width));
    for (int64_t i = 0; i < m; i++) {
        const double c = bounds ? bounds[i] : 1, size = 1 + fabs(problem.scale * c);
        MUST(labels[i] != 0 || a[i] == 0);
        if (in->extreme) /* scores may overflow, and a be NaN */
            continue;
        MUST(0 <= a[i] && a[i] <= c);
        MUST(fabs(v[m + i] - problem.scale * a[i] * labels[i]) <= 1e-9 * size);
    }
}

/* The rows as a dense array. */
static const void *dense(input *in, const pegasos_rows *rows)
{
    int64_t *which = room(in, rows->n_rows, 8);
    for (int64_t i = 0; i < rows->n_rows; i++)
        which[i] = i;
    void *values = room(in, rows->n_rows * rows->n_features, rows->value_bytes);
    pegasos_linear_copy(rows, rows->n_rows, which, values);
    return values;
}

/* CSR rows number j of which hold column j of `values`, d columns of m rows. */
static pegasos_rows inverted(input *in, const void *values, int64_t m, int64_t d, int64_t bytes)
{
    int64_t *indptr = room(in, d + 1, 8), size = 0;
    int32_t *indices = room(in, m * d, 4);
    void *stored = room(in, m * d, bytes);
    for (int64_t j = 0; j < d; j++) {
        for (int64_t i = 0; i < m; i++) {
            const double value = number(values, bytes, i * d + j);
            if (value == 0)
                continue;
            indices[size] = (int32_t)i;
            put(stored, bytes, size++, value);
        }
        indptr[j + 1] = size;
    }
    return (pegasos_rows){.n_rows = d,
                          .n_features = m,
                          .value_bytes = bytes,
                          .index_bytes = 4,
                          .indptr_bytes = 8,
                          .values = stored,
                          .indices = indices,
                          .indptr = indptr};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.data = data, .left = size};
    in.extreme = take_in(&in, 0, 3) == 0;
    const int64_t n = take_in(&in, 1, 9), m = take_in(&in, 1, 35), d = take_in(&in, 1, 20);
    const int64_t bytes = take_bool(&in) ? 8 : 4, stride = m + take_in(&in, 0, 2);
    const int kind = (int)take_in(&in, 0, 6);
    const double gamma = take_positive(&in), coef0 = take_number(&in);
    const double tolerance = bytes == 4 ? 1e-3 : 1e-9;
    if (kind >= 5) { /* a matrix like those of kernels, symmetric; or not, which must not matter */
        int64_t *place = room(&in, m, 8);
        void *columns = room(&in, m * m, bytes);
        for (int64_t i = 0; i < m; i++) {
            place[i] = i;
            for (int64_t j = 0; j <= i; j++) {
                const double value = i == j ? fabs(take_number(&in)) : take_number(&in);
                put(columns, bytes, i * m + j, value);
                put(columns, bytes, j * m + i, value);
            }
        }
        const pegasos_rows all = {.n_rows = m,
                                  .n_features = 2 * m + 1,
                                  .value_bytes = 8,
                                  .index_bytes = PEGASOS_KERNEL,
                                  .values = columns,
                                  .indptr = place,
                                  .column_bytes = bytes,
                                  .wanted = room(&in, m, 1)};
        (kind == 5 ? train : climb)(&in, &all);
        release(&in);
        return 0;
    }
    const pegasos_rows x = take_rows_of(&in, n, d, bytes, true);
    const pegasos_rows z = take_rows_of(&in, m, d, bytes, take_bool(&in));
    const void *X = dense(&in, &x), *Z = dense(&in, &z);
    const pegasos_rows turned = inverted(&in, Z, m, d, bytes);
    void *K = room(&in, n * stride, bytes);
    double *x_norms = room(&in, n, 8), *z_norms = room(&in, m, 8), *scratch = room(&in, d, 8);
    void *xn = room(&in, n, bytes), *zn = room(&in, m, bytes);
    pegasos_linear_norms(&x, 0, n, scratch, x_norms);
    pegasos_linear_norms(&z, 0, m, scratch, z_norms);
    for (int64_t i = 0; i < n; i++)
        put(xn, bytes, i, x_norms[i]);
    for (int64_t j = 0; j < m; j++)
        put(zn, bytes, j, z_norms[j]);
    for (int64_t j = 0; j < n * stride; j++)
        put(K, bytes, j, 7);
    const int64_t degree = take_in(&in, 0, 6);
    if (z.index_bytes != 0 && take_bool(&in))
        pegasos_thick_products(&x, &z, room(&in, d, PEGASOS_PANEL_BYTES), stride, K);
    else
        pegasos_sparse_products(&x, &turned, stride, K);
    if (kind == 1 && take_bool(&in))
        pegasos_kernel_gauss_rows(n, m, d, bytes, X, Z, gamma, stride, K);
    else if (kind == 1)
        pegasos_kernel_gauss(n, m, stride, bytes, K, xn, zn, gamma);
    else if (kind == 2)
        pegasos_kernel_polynomial(n, m, stride, bytes, K, gamma, coef0, degree);
    else if (kind == 3)
        pegasos_kernel_sigmoid(n, m, stride, bytes, K, gamma, coef0);
    else if (kind == 4)
        pegasos_kernel_laplace(n, m, d, bytes, X, Z, gamma, stride, K);
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
            if (kind == 1
                || kind == 4) /* of overflow to infinity too; NaN of infinity less itself */
                MUST((0 <= value && value <= 1 + 1e-6) || (in.extreme && isnan(value)));
            if (kind == 3)
                MUST((-1 <= value && value <= 1) || (in.extreme && isnan(value)));
            if (in.extreme)
                continue;
            MUST(isfinite(value) || kind == 2);
            const double slack = tolerance * (1 + gamma) * (1 + sizes + apart);
            if (kind == 0)
                MUST(fabs(value - product) <= slack);
            else if (kind == 1)
                MUST(fabs(value - exp(-gamma * square)) <= slack);
            else if (kind == 3)
                MUST(fabs(value - tanh(gamma * product + coef0)) <= slack);
            else if (kind == 4)
                MUST(fabs(value - exp(-gamma * apart)) <= slack);
            else if (degree == 0)
                MUST(value == 1);
        }
    }
    /* blocks from columns */
    if (kind == 0) {
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
    if (kind == 0 && !in.extreme) {
        const int64_t count = take_in(&in, 0, 5), problems = take_in(&in, 1, 3);
        int64_t *places = room(&in, count, 8);
        double *coef = room(&in, problems * count, 8), *scores = room(&in, problems * stride, 8);
        for (int64_t r = 0; r < count; r++)
            places[r] = take_in(&in, 0, n - 1);
        for (int64_t r = 0; r < problems * count; r++)
            coef[r] = take_number(&in);
        pegasos_kernel_push(count, places, stride, stride, bytes, K, problems, coef, stride,
                            scores);
        for (int64_t k = 0; k < problems; k++)
            for (int64_t j = 0; j < stride; j++) {
                double sum = 0;
                for (int64_t r = 0; r < count; r++)
                    sum += coef[k * count + r] * number(K, bytes, places[r] * stride + j);
                MUST(fabs(scores[k * stride + j] - sum) <= 1e-6 * (1 + fabs(sum)));
            }
    }
    release(&in);
    return 0;
}
