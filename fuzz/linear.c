/*
 * linear.c - Pegasos on rows of every type: a run that is cut anywhere, each piece from a copy of
 * the state, problems in a bundle and problems on their own all give the same numbers.
 */
#include "input.h"

enum { LONGEST = 96 };

static bool same_problem(const pegasos_linear *a, const pegasos_linear *b)
{
    return a->n_steps == b->n_steps && a->next_draw == b->next_draw && a->n_drawn == b->n_drawn
           && a->n_pending == b->n_pending && a->n_violations == b->n_violations
           && a->n_averaged == b->n_averaged && a->average_from == b->average_from
           && a->last_step == b->last_step && a->n_norm_updates == b->n_norm_updates
           && same(a->q, b->q) && same(a->squared_norm, b->squared_norm)
           && same(a->constant_weight, b->constant_weight) && same(a->intercept, b->intercept)
           && same(a->rate_sum, b->rate_sum) && same(a->constant_sum, b->constant_sum)
           && same(a->intercept_sum, b->intercept_sum);
}

/* A set with a state of its own, which is that of `from`. */
static pegasos_linear_set copy_set(input *in, const pegasos_linear_set *from,
                                   const pegasos_rows *rows)
{
    const int64_t K = from->n_problems, n = rows->n_rows, bytes = rows->value_bytes;
    const int64_t lanes = from->bundled ? PEGASOS_BUNDLE_BYTES / bytes : K;
    const int64_t size = lanes * rows->n_features;
    pegasos_linear_set set = *from;
    set.problems = copy_of(in, from->problems, K, sizeof *set.problems);
    set.weights = copy_of(in, from->weights, size, bytes);
    set.sums = from->sums ? copy_of(in, from->sums, size, bytes) : NULL;
    set.counts = from->counts ? copy_of(in, from->counts, K * n, 8) : NULL;
    set.pending = copy_of(in, from->pending, K * from->batch_size, 8);
    set.slopes = from->slopes ? copy_of(in, from->slopes, K * from->batch_size, 8) : NULL;
    return set;
}

/* The same problems as a bundle, with zeros in lanes to spare. */
static pegasos_linear_set bundle_of(input *in, const pegasos_linear_set *from,
                                    const pegasos_rows *rows)
{
    const int64_t bytes = rows->value_bytes, d = rows->n_features;
    const int64_t lanes = PEGASOS_BUNDLE_BYTES / bytes;
    pegasos_linear_set set = copy_set(in, from, rows);
    set.bundled = 1;
    set.weights = room(in, d * lanes, bytes);
    set.sums = from->sums ? room(in, d * lanes, bytes) : NULL;
    for (int64_t k = 0; k < set.n_problems; k++)
        for (int64_t j = 0; j < d; j++) {
            put(set.weights, bytes, j * lanes + k, number(from->weights, bytes, k * d + j));
            if (set.sums)
                put(set.sums, bytes, j * lanes + k, number(from->sums, bytes, k * d + j));
        }
    return set;
}

static bool same_vectors(const void *a, bool a_bundled, const void *b, int64_t K,
                         const pegasos_rows *rows)
{
    const int64_t d = rows->n_features, bytes = rows->value_bytes;
    const int64_t lanes = PEGASOS_BUNDLE_BYTES / bytes;
    for (int64_t k = 0; k < K; k++)
        for (int64_t j = 0; j < d; j++)
            if (!same(number(a, bytes, a_bundled ? j * lanes + k : k * d + j),
                      number(b, bytes, k * d + j)))
                return false;
    return true;
}

static void must_be_same(const pegasos_linear_set *a, const pegasos_linear_set *b,
                         const pegasos_rows *rows)
{
    const int64_t K = b->n_problems;
    for (int64_t k = 0; k < K; k++)
        MUST(same_problem(&a->problems[k], &b->problems[k]));
    MUST(same_vectors(a->weights, a->bundled, b->weights, K, rows));
    if (b->sums)
        MUST(same_vectors(a->sums, a->bundled, b->sums, K, rows));
    if (b->counts)
        MUST(same_numbers(a->counts, b->counts, 8, K * rows->n_rows));
}

/* A state that training may have left behind, within what core.h says of the fields. */
static void take_state(input *in, pegasos_linear_set *set, const pegasos_rows *rows)
{
    for (int64_t k = 0; k < set->n_problems; k++) {
        pegasos_linear *p = &set->problems[k];
        p->n_steps = take_in(in, 0, 40);
        p->next_draw = take_in(in, 0, 10);
        p->n_drawn = take_in(in, 0, set->batch_size - 1);
        p->n_pending = take_in(in, 0, p->n_drawn);
        p->n_norm_updates = take_in(in, 0, 60);
        if (p->n_steps > 0) {
            p->q = p->ball > 0 ? 1.0 / (double)take_in(in, 1, 255) : 1;
            p->constant_weight = take_number(in);
            p->intercept = take_number(in);
        }
        for (int64_t j = 0; j < set->batch_size; j++)
            set->pending[k * set->batch_size + j] = take_in(in, 0, rows->n_rows - 1);
        for (int64_t j = 0; set->slopes && j < set->batch_size; j++)
            set->slopes[k * set->batch_size + j] =
                loss_clip(loss_of(set->targets.loss), take_number(in), 1);
        double norm = p->constant_weight * p->constant_weight;
        for (int64_t j = 0; j < rows->n_features; j++) {
            const double w = take_number(in);
            put(set->weights, rows->value_bytes, k * rows->n_features + j, w);
            norm += w * w;
        }
        p->squared_norm = norm;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.data = data, .left = size};
    in.extreme = take_in(&in, 0, 3) == 0;
    const pegasos_loss loss = take_loss(&in);
    const bool is_hinge = loss.kind == PEGASOS_HINGE;
    const pegasos_rows rows = take_rows(&in);
    const int64_t n = rows.n_rows, d = rows.n_features, bytes = rows.value_bytes;
    const bool sparse = rows.index_bytes > 0;
    const int64_t K = take_in(&in, 1, 17);
    const bool averages = take_bool(&in);
    pegasos_linear_set set = {.n_problems = K};
    set.batch_size = take_bool(&in) ? 1 : take_in(&in, 1, 5);
    set.problems = room(&in, K, sizeof *set.problems);
    set.targets = take_targets(&in, loss, K * n, n);
    set.weights = room(&in, K * d, bytes);
    set.sums = averages ? room(&in, K * d, bytes) : NULL;
    set.counts = take_bool(&in) ? room(&in, K * n, 8) : NULL;
    set.pending = room(&in, K * set.batch_size, 8);
    set.slopes = is_hinge ? NULL : room(&in, K * set.batch_size, 8);
    double *norms = room(&in, n, 8), *scratch = sparse ? room(&in, d, 8) : NULL;
    pegasos_linear_norms(&rows, 0, n, scratch, norms);
    const bool project = take_bool(&in);
    for (int64_t k = 0; k < K; k++) {
        pegasos_linear *p = &set.problems[k];
        p->lam = take_positive(&in);
        p->weight_factor = (double)take_in(&in, 1, 64) / 16; /* n/m, which undoes the c_i */
        p->intercept_scaling = take_bool(&in) ? take_positive(&in) : 0;
        p->free_intercept = p->intercept_scaling == 0 && take_bool(&in);
        p->ball = project && take_in(&in, 0, 3) > 0;
        p->average_from = averages ? take_in(&in, 0, 20) : 0;
        p->last_step = take_bool(&in) ? INT64_MAX : take_in(&in, 0, 60);
        double longest = 0;
        for (int64_t i = 0; i < n; i++) {
            const double c = set.targets.weights ? set.targets.weights[i] : 1;
            longest = fmax(longest, c * (norms[i] + constant_of(p) * constant_of(p)));
        }
        p->delay = delay_for(p, loss, longest);
        pegasos_linear_start(p);
    }
    if (take_bool(&in))
        take_state(&in, &set, &rows);

    /* draws, which must not depend on where the order is sought */
    int64_t first = INT64_MAX;
    for (int64_t k = 0; k < K; k++)
        if (set.problems[k].next_draw < first)
            first = set.problems[k].next_draw;
    const int64_t count = take_in(&in, 0, LONGEST), sampling = take_in(&in, 0, 2);
    const uint64_t seed = take_seed(&in);
    int64_t *draws = room(&in, count, 8), *again = room(&in, count, 8);
    int64_t *permutation = room(&in, n, 8), cuts[3];
    for (int c = 0; c < 3; c++)
        cuts[c] = count > 0 ? take_in(&in, 0, count) : 0;
    pegasos_order order;
    pegasos_order_seek(&order, seed, n, sampling, first, permutation);
    pegasos_order_draw(&order, permutation, count, draws);
    pegasos_order_seek(&order, seed, n, sampling, first + cuts[0], permutation);
    pegasos_order_draw(&order, permutation, count - cuts[0], again);
    MUST(memcmp(again, draws + cuts[0], (size_t)((count - cuts[0]) * 8)) == 0);
    for (int64_t j = 0; j < count; j++)
        MUST(0 <= draws[j] && draws[j] < n);

    const pegasos_linear_set begun = copy_set(&in, &set, &rows);
    pegasos_linear_set pieces = copy_set(&in, &set, &rows);
    pegasos_linear_run(&rows, &set, first, count, draws);
    for (int64_t c = 0, from = 0; c < 4; c++) {
        const int64_t to = c < 3 ? cuts[c] : count;
        if (to < from)
            continue;
        pegasos_linear_run(&rows, &pieces, first + from, to - from, draws + from);
        if (c < 2)
            pieces = copy_set(&in, &pieces, &rows); /* saved, and restored elsewhere */
        from = to;
    }
    must_be_same(&pieces, &set, &rows);

    for (int64_t k = 0; k < K; k++) {
        const pegasos_linear *p = &set.problems[k], *before = &begun.problems[k];
        MUST(before->n_steps <= p->n_steps);
        MUST(p->n_steps <= (p->last_step > before->n_steps ? p->last_step : before->n_steps));
        MUST(p->next_draw
             <= (before->next_draw > first + count ? before->next_draw : first + count));
        MUST(0 <= p->n_drawn && p->n_drawn < set.batch_size);
        MUST(0 <= p->n_pending && p->n_pending <= p->n_drawn);
        MUST(in.extreme || (0 < p->q && p->q <= 1));
        double counted = 0; /* a whole number of the hinge, whose slope is 1 */
        for (int64_t i = 0; set.counts && i < n; i++) {
            const double own = set.counts[k * n + i], most = (double)(count + before->n_pending);
            MUST((in.extreme && isnan(own))
                 || (loss_lower(loss_of(loss), most) <= own
                     && own <= loss_upper(loss_of(loss), most)));
            counted += own;
        }
        MUST(!set.counts || !is_hinge || counted == (double)p->n_violations);

        pegasos_linear_set alone = begun;
        alone.n_problems = 1;
        alone.problems += k;
        alone.targets.labels += k * n;
        alone.targets.values += alone.targets.values ? k * n : 0;
        alone.weights = (char *)begun.weights + k * d * bytes;
        alone.sums = begun.sums ? (char *)begun.sums + k * d * bytes : NULL;
        alone.counts = begun.counts ? begun.counts + k * n : NULL;
        alone.pending += k * set.batch_size;
        alone.slopes += alone.slopes ? k * set.batch_size : 0;
        if (k == cuts[0] % K) {
            pegasos_linear_set one = copy_set(&in, &alone, &rows);
            pegasos_linear_run(&rows, &one, first, count, draws);
            MUST(same_problem(&one.problems[0], p));
            MUST(same_numbers(one.weights, (char *)set.weights + k * d * bytes, bytes, d));
            if (set.sums)
                MUST(same_numbers(one.sums, (char *)set.sums + k * d * bytes, bytes, d));
        }
    }

    bool projects = false;
    for (int64_t k = 0; k < K; k++)
        projects |= set.problems[k].ball > 0;
    if (sparse && loss_has_labels(loss.kind) && !projects && set.batch_size == 1
        && K <= PEGASOS_BUNDLE_BYTES / bytes) {
        pegasos_linear_set bundle = bundle_of(&in, &begun, &rows);
        pegasos_linear_run(&rows, &bundle, first, cuts[0], draws);
        pegasos_linear_run(&rows, &bundle, first + cuts[0], count - cuts[0], draws + cuts[0]);
        must_be_same(&bundle, &set, &rows);
        const int64_t lanes = PEGASOS_BUNDLE_BYTES / bytes;
        for (int64_t j = 0; j < d * lanes; j++)
            MUST(j % lanes < K || number(bundle.weights, bytes, j) == 0);
    }

    double *coef = room(&in, K * d, 8), *intercept = room(&in, K, 8);
    for (int64_t k = 0; k < K; k++)
        pegasos_linear_model(&set.problems[k], d, bytes, (char *)set.weights + k * d * bytes,
                             set.sums ? (char *)set.sums + k * d * bytes : NULL, coef + k * d,
                             &intercept[k]);
    if (!in.extreme) {
        MUST(all_finite(set.weights, bytes, K * d));
        MUST(all_finite(coef, 8, K * d) && all_finite(intercept, 8, K));
    }
    double *scores = room(&in, n * K, 8), *others = room(&in, n * K, 8);
    pegasos_linear_scores(&rows, 0, NULL, n, K, coef, 8, 0, intercept, scores);
    if (sparse) {
        double *turned = room(&in, K * d, 8);
        for (int64_t k = 0; k < K; k++)
            for (int64_t j = 0; j < d; j++)
                turned[j * K + k] = coef[k * d + j];
        pegasos_linear_scores(&rows, 0, NULL, n, K, turned, 8, 1, intercept, others);
        MUST(same_numbers(scores, others, 8, n * K));
    }
    const pegasos_rows copy = {
        .n_rows = n, .n_features = d, .value_bytes = bytes, .values = dense(&in, &rows)};
    pegasos_linear_scores(&copy, 0, NULL, n, K, coef, 8, 0, intercept, others);
    for (int64_t i = 0; !in.extreme && i < n; i++)
        for (int64_t k = 0; k < K; k++) {
            double scale = fabs(intercept[k]);
            for (int64_t j = 0; j < d; j++)
                scale += fabs(coef[k * d + j]) * 8 * 40;
            MUST(fabs(scores[i * K + k] - others[i * K + k]) <= 1e-4 * scale);
        }
    release(&in);
    return 0;
}
