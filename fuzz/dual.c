/*
 * dual.c - dual coordinate ascent: bounds hold, w stays w(a), the order stays a permutation, and
 * epochs cut after a row that stays and sweeps of bundles give the numbers of whole and separate
 * ones.
 */
#include "input.h"

typedef struct state {
    pegasos_dual problem;
    int64_t *active;
    double *a, *w;
} state;

static state take_copy(input *in, const state *from, int64_t n, int64_t d)
{
    return (state){from->problem, copy_of(in, from->active, n, 8), copy_of(in, from->a, n, 8),
                   copy_of(in, from->w, d, 8)};
}

static bool same_dual(const pegasos_dual *p, const pegasos_dual *q)
{
    return p->generator == q->generator && p->n_active == q->n_active && p->position == q->position
           && p->n_chosen == q->n_chosen && p->n_kept == q->n_kept && p->n_moved == q->n_moved
           && same(p->moved, q->moved) && same(p->mean_move, q->mean_move)
           && same(p->asleep, q->asleep) && same(p->gap, q->gap)
           && same(p->constant_weight, q->constant_weight)
           && same(p->squared_norm, q->squared_norm);
}

/* w and the constant's weight that belong to a, and a bound of their size for rounding. */
static void w_of(const pegasos_rows *rows, const int8_t *labels, const double *a, double scale,
                 double feature, double *w, double *constant)
{
    *constant = 0;
    for (int64_t i = 0; i < rows->n_rows; i++) {
        const double factor = scale * a[i] * labels[i];
        pegasos_linear_combine(rows, i, 1, &factor, w);
        *constant += factor * feature;
    }
}

/* What sums of the constant's weight may reach in a sweep, where dual variables without an upper
 * end stay below 1e4 times their weight. */
static double weight_sizes(const pegasos_dual *p, const double *weights, loss_form loss, int64_t n)
{
    double size = 1;
    for (int64_t i = 0; i < n; i++)
        size += 70 * 40 * p->scale * p->intercept_scaling * (weights ? weights[i] : 1)
                * fmin(loss.upper, 1e4);
    return size;
}

/* One of nine places among those that a dual variable of weight c may have. */
static double begin_at(loss_form loss, double c, int64_t place)
{
    const double part = (double)place / 8;
    return loss_clip(loss, c * (loss.lower < 0 ? 4 * part - 2 : part), c);
}

/* A bundle of problems with the values and weights of `targets`. */
static void sweep(input *in, const pegasos_rows *rows, const pegasos_targets *targets,
                  const double *norms, double feature)
{
    const double *const bounds = targets->weights;
    const int64_t n = rows->n_rows, d = rows->n_features, bytes = rows->value_bytes;
    const int64_t B = PEGASOS_BUNDLE_BYTES / bytes, K = take_in(in, 1, B);
    const int64_t count = take_in(in, 0, 40), before = take_in(in, 0, 30);
    const int64_t cut = count > 0 ? take_in(in, 0, count) : 0, one = take_in(in, 0, K - 1);
    const bool mean = take_bool(in);
    pegasos_dual *problems = room(in, K, sizeof *problems);
    int8_t *labels = room(in, n * B, 1), *single = room(in, n * B, 1);
    double *a = room(in, n * B, 8), *a1 = room(in, n * B, 8);
    void *v = room(in, d * B, bytes), *sums = room(in, d * B, bytes);
    void *v1 = room(in, d * B, bytes), *sums1 = room(in, d * B, bytes);
    int64_t *draws = room(in, count, 8);
    for (int64_t k = 0; k < K; k++) {
        problems[k].scale = take_positive(in);
        problems[k].factor = in->extreme ? take_positive(in) : (double)take_in(in, 1, 4) / 2;
        problems[k].intercept_scaling = feature;
        problems[k].intercept = take_number(in);
        for (int64_t i = 0; i < n; i++)
            labels[i * B + k] = (int8_t)take_in(in, targets->values ? 0 : -1, 1);
    }
    for (int64_t i = 0; i < n; i++)
        single[i * B] = labels[i * B + one];
    for (int64_t j = 0; j < count; j++)
        draws[j] = take_in(in, 0, n - 1);
    pegasos_dual alone = problems[one];
    pegasos_bundle all = {.n_problems = K, .problems = problems, .targets = *targets};
    pegasos_bundle own = {.n_problems = 1, .problems = &alone, .targets = *targets};
    all.norms = own.norms = norms;
    all.targets.labels = labels, all.a = a, all.v = v, all.sums = sums;
    own.targets.labels = single, own.a = a1, own.v = v1, own.sums = sums1;
    const loss_form form = loss_of(targets->loss);
    pegasos_bundle_sweep(rows, &all, mean ? before : -1, count, draws);
    pegasos_bundle_sweep(rows, &own, mean ? before : -1, cut, draws);
    pegasos_bundle_sweep(rows, &own, mean ? before + cut : -1, count - cut, draws + cut);
    MUST(same(alone.constant_weight, problems[one].constant_weight));
    MUST(same(alone.squared_norm, problems[one].squared_norm));
    /* these are summed by calls */
    const pegasos_dual *p = &problems[one];
    MUST(in->extreme || fabs(alone.gap - p->gap) <= 1e-9 * (1 + fabs(alone.gap)));
    MUST(in->extreme
         || fabs(alone.constant_sum - p->constant_sum) <= 1e-9 * weight_sizes(p, bounds, form, n));
    for (int64_t i = 0; i < n; i++) {
        MUST(same(a1[i * B], a[i * B + one]));
        for (int64_t k = 0; k < B; k++) {
            const double c = bounds ? bounds[i] : 1, at = a[i * B + k];
            MUST((in->extreme && isnan(at))
                 || (labels[i * B + k] != 0 ? loss_lower(form, c) <= at && at <= loss_upper(form, c)
                                            : at == 0));
        }
    }
    double squared = p->constant_weight * p->constant_weight;
    for (int64_t j = 0; j < d; j++) {
        const double w_j = p->factor * number(v, bytes, j * B + one);
        squared += w_j * w_j;
        MUST(same(number(v1, bytes, j * B), number(v, bytes, j * B + one)));
        MUST(same(number(sums1, bytes, j * B), number(sums, bytes, j * B + one)));
        for (int64_t k = K; k < B; k++)
            MUST(number(v, bytes, j * B + k) == 0 && number(sums, bytes, j * B + k) == 0);
    }
    const double size =
        weight_sizes(p, bounds, form, n) + 320 * p->scale * (double)n * fmin(form.upper, 1e4);
    MUST(in->extreme || bytes == 4 || fabs(squared - p->squared_norm) <= 1e-9 * size * size);
    MUST(in->extreme || (all_finite(v, bytes, d * B) && all_finite(sums, bytes, d * B)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.data = data, .left = size};
    in.extreme = take_in(&in, 0, 3) == 0;
    const pegasos_loss loss = take_loss(&in);
    const loss_form form = loss_of(loss);
    const pegasos_rows rows = take_rows(&in);
    const int64_t n = rows.n_rows, d = rows.n_features;
    const pegasos_targets targets = take_targets(&in, loss, n, n);
    const int8_t *labels = targets.labels;
    const double feature = take_bool(&in) ? take_positive(&in) : 0;
    double *norms = room(&in, n, 8);
    double *scratch = rows.index_bytes > 0 ? room(&in, d, 8) : NULL;
    pegasos_linear_norms(&rows, 0, n, scratch, norms);
    for (int64_t j = 0; scratch && j < d; j++)
        MUST(scratch[j] == 0);
    for (int64_t i = 0; i < n; i++)
        MUST(norms[i] >= 0);
    if (rows.index_bytes > 0 && take_bool(&in)) {
        sweep(&in, &rows, &targets, norms, feature);
        release(&in);
        return 0;
    }

    state whole = {.active = room(&in, n, 8), .a = room(&in, n, 8), .w = room(&in, d, 8)};
    int64_t n_active = 0;
    whole.problem.scale = take_positive(&in);
    whole.problem.intercept_scaling = feature;
    whole.problem.intercept = take_number(&in);
    whole.problem.generator = take_seed(&in);
    const bool begun = take_bool(&in);
    for (int64_t i = 0; i < n; i++)
        if (labels[i] != 0) {
            whole.active[n_active++] = i;
            if (begun)
                whole.a[i] = begin_at(form, weight_at(&targets, i), take_in(&in, 0, 8));
        }
    w_of(&rows, labels, whole.a, whole.problem.scale, feature, whole.w,
         &whole.problem.constant_weight);
    pegasos_dual_start(&whole.problem, n_active);
    state cut = take_copy(&in, &whole, n, d);
    double *largest = room(&in, n, 8); /* each changes once in an epoch */
    for (int64_t i = 0; i < n; i++)
        largest[i] = fmax(weight_at(&targets, i), fabs(whole.a[i]));
    const int64_t n_epochs = take_in(&in, 1, 6);
    for (int64_t epoch = 0; epoch < n_epochs; epoch++) {
        const int64_t some = take_in(&in, 1, 15);
        int64_t visits = pegasos_dual_run(&rows, &whole.problem, &targets, norms, whole.active,
                                          whole.a, whole.w, NULL, INT64_MAX);
        int64_t done = pegasos_dual_run(&rows, &cut.problem, &targets, norms, cut.active, cut.a,
                                        cut.w, NULL, some);
        MUST(done <= some);
        const bool first_again = cut.problem.position == 0 && done > 0;
        if (epoch < 3)
            cut = take_copy(&in, &cut, n, d); /* saved, and restored elsewhere */
        done += pegasos_dual_run(&rows, &cut.problem, &targets, norms, cut.active, cut.a, cut.w,
                                 NULL, INT64_MAX);
        MUST(visits <= n_active && done <= n_active);
        MUST(whole.problem.position == whole.problem.n_active);
        MUST(cut.problem.position == cut.problem.n_active);
        MUST(0 <= whole.problem.n_active && whole.problem.n_active <= n_active);
        if (first_again) /* then the order of what is left is another */
            cut = take_copy(&in, &whole, n, d), done = visits;
        MUST(visits == done);
        MUST(same_dual(&whole.problem, &cut.problem));
        MUST(same_numbers(whole.a, cut.a, 8, n) && same_numbers(whole.w, cut.w, 8, d));
        MUST(memcmp(whole.active, cut.active, (size_t)(n * 8)) == 0);
        for (int64_t i = 0; i < n; i++)
            largest[i] = fmax(largest[i], fabs(whole.a[i]));
        if (take_in(&in, 0, 3) == 0) {
            pegasos_dual_start(&whole.problem, n_active); /* everybody again */
            pegasos_dual_start(&cut.problem, n_active);
        } else {
            pegasos_dual_begin_epoch(&whole.problem);
            pegasos_dual_begin_epoch(&cut.problem);
        }
    }
    int64_t seen = 0;
    for (int64_t r = 0; r < n_active; r++) {
        MUST(0 <= whole.active[r] && whole.active[r] < n && labels[whole.active[r]] != 0);
        MUST((seen >> whole.active[r] & 1) == 0);
        seen |= INT64_C(1) << whole.active[r];
    }
    double *expected = room(&in, d, 8), constant, size_of_w = 0;
    for (int64_t i = 0; i < n; i++) {
        MUST((in.extreme && isnan(whole.a[i])) || is_feasible(&targets, i, whole.a[i]));
        size_of_w += whole.problem.scale * largest[i] * (320 + feature);
    }
    w_of(&rows, labels, whole.a, whole.problem.scale, feature, expected, &constant);
    if (!in.extreme) {
        for (int64_t j = 0; j < d; j++)
            MUST(fabs(expected[j] - whole.w[j]) <= 1e-11 * size_of_w);
        MUST(fabs(constant - whole.problem.constant_weight) <= 1e-11 * size_of_w);
    }
    release(&in);
    return 0;
}
