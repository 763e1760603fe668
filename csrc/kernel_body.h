/*
 * kernel_body.h - steps on pairs of the rows of a round, for one type of values and one of slopes.
 *
 * kernel.c includes this once for each pair of types with these macros, which this file undefines:
 *
 *     VALUE     float or double: type of the columns of the kernel matrix
 *     REAL      float or double: type of slopes
 *     SUFFIX    ends the name of everything defined here
 *     LOAD_FULL loads a whole vector of REAL from VALUEs: LOAD, or LOAD_WIDE
 *
 * With signed dual variables b_i = y_i a_i and their slopes g_i (`slope`), steps p and t of rows i
 * and j raise m D by
 *
 *     g_i p + g_j t - (h_i p^2 + 2 q p t + h_j t^2)/2,      h_i = s K_ii + diagonal, q = s K_ij (1)
 *
 * which is highest, within bounds, at the solution of two equations or on an edge of the box.
 *
 * Where l* has a corner at 0, the slope upwards of b = 0 is g - dead, and downwards g + dead. Here,
 * rows with b != 0 have the slope of their side, and the bound 0. Rows with b = 0 step where they
 * gain.
 */
#define NAME(name) PASTE(name, SUFFIX)
#define LANES      ((int64_t)(LANES_BYTES / sizeof(REAL)))

/* The rows of the round: m numbers per array, padded to a whole vector with rows that stay. */
typedef struct NAME(lists) {
    REAL *slope, *curvature, *inverse; /* g, h > 0 and 1/h */
    REAL *lowest, *highest;            /* how far b may move */
    REAL *dead; /* for rows with b = 0: the corner's part of slopes; else 0 */
} NAME(lists);

/* A pair: rows i and j of the round, their steps, and their columns. Without a partner, the second
 * step is 0, and its column zeros. */
typedef struct NAME(pair) {
    int64_t row[2];
    double step[2];
    const VALUE *column[2];
} NAME(pair);

static NAME(lists) NAME(lists_of)(const run *r)
{
    const int64_t size = r->size;
    REAL *first = r->scratch.lists;
    return (NAME(lists)){
        first,           first + size, first + 2 * size, first + 3 * size, first + 4 * size,
        first + 5 * size};
}

/* The best step along row k at slope g, within its bounds. */
static double NAME(best_step)(const NAME(lists) * l, int64_t k, double g)
{
    g = shrunk(g, (double)l->dead[k]);
    return fmin(fmax(g * (double)l->inverse[k], (double)l->lowest[k]), (double)l->highest[k]);
}

/* Sets how far b_k may move from here. */
static void NAME(set_bounds)(const run *r, const NAME(lists) * l, int64_t k)
{
    const int64_t i = r->rows[k];
    const double a = r->arrays->a[i], up = end_above(r, i, a) - a, down = a - end_below(r, i, a);
    l->lowest[k] = (REAL)(r->targets->labels[i] > 0 ? -down : -up);
    l->highest[k] = (REAL)(r->targets->labels[i] > 0 ? up : down);
    l->dead[k] = (REAL)(a == 0 ? r->loss.dead : 0);
}

/* Copies what is known of the rows of the round; slopes come from the state. */
static void NAME(load)(const run *r)
{
    const NAME(lists) l = NAME(lists_of)(r);
    for (int64_t k = 0; k < r->size; k++) {
        l.slope[k] = l.lowest[k] = l.highest[k] = l.dead[k] = 0;
        l.curvature[k] = l.inverse[k] = 1;
        if (k >= r->m || r->targets->labels[r->rows[k]] == 0)
            continue;
        const double h = curvature_of(r, r->rows[k]);
        l.slope[k] = (REAL)r->arrays->slopes[k];
        l.curvature[k] = (REAL)h;
        l.inverse[k] = (REAL)(1 / h);
        NAME(set_bounds)(r, &l, k);
    }
}

/* Copies slopes into the state. */
static void NAME(save)(const run *r)
{
    const NAME(lists) l = NAME(lists_of)(r);
    for (int64_t k = 0; k < r->m; k++)
        r->arrays->slopes[k] = (double)l.slope[k];
}

/* The largest gain of all lanes; among equal gains, that of the first row. */
static INLINE choice NAME(best_of)(const REAL *gains, const OF_REAL(whole) * groups)
{
    REAL best = gains[0];
    int64_t first = INT64_MAX;
    UNROLLED
    for (int64_t l = 1; l < LANES; l++)
        best = gains[l] > best ? gains[l] : best;
    UNROLLED
    for (int64_t l = 0; l < LANES; l++) {
        const int64_t row = gains[l] >= best ? (int64_t)groups[l] + l : INT64_MAX;
        first = row < first ? row : first;
    }
    return (choice){.row = first, .gain = (double)best};
}

/* One vector of values of a column that has `count` left. If these are too few, copies of the first
 * fill the vector, for rows that no step moves. */
#define LOAD_VALUES(vector, from, count)                                                           \
    do {                                                                                           \
        if ((count) >= LANES)                                                                      \
            LOAD_FULL(vector, from);                                                               \
        else                                                                                       \
            UNROLLED for (int64_t l_ = 0; l_ < LANES; l_++) LANE(vector, l_) =                     \
                (REAL)(from)[l_ < (count) ? l_ : 0];                                               \
    } while (0)

/* Moves a vector of slopes towards 0 by `from`, and not beyond. */
#define SHRINK(vector, from)                                                                       \
    do {                                                                                           \
        VEC dead_;                                                                                 \
        LOAD(dead_, from);                                                                         \
        const VEC least_ = SPLAT(0) - dead_, above_ = LARGER(vector, least_);                      \
        (vector) = (vector) - SMALLER(above_, dead_);                                              \
    } while (0)

/* Applies the steps of a pair to the slopes of all rows, -s sum_t step_t (column_t + constant), and
 * finds the row that gains most by its own step. */
CLONES_WIDE static void NAME(apply_and_choose)(const run *r, bool has_corner, const NAME(lists) * l,
                                               const NAME(pair) * last, choice *out)
{
    const int64_t m = r->m;
    const VALUE *const x = last->column[0], *const y = last->column[1];
    const REAL p = (REAL)(r->scale * last->step[0]), t = (REAL)(r->scale * last->step[1]);
    const REAL both = (REAL)(r->scale * r->constant * (last->step[0] + last->step[1]));
    const REAL half = (REAL)0.5;
    VEC best = {0};
    PLACES where = {0};
    REAL gains[LANES_BYTES / sizeof(REAL)];
    OF_REAL(whole) groups[LANES_BYTES / sizeof(REAL)];
    for (int64_t k = 0; k < m; k += LANES) {
        VEC q, z, g, h, inverse, lowest, highest;
        LOAD_VALUES(q, x + k, m - k);
        LOAD_VALUES(z, y + k, m - k);
        LOAD(g, l->slope + k);
        LOAD(h, l->curvature + k);
        LOAD(inverse, l->inverse + k);
        LOAD(lowest, l->lowest + k);
        LOAD(highest, l->highest + k);
        g -= SPLAT(p) * q + SPLAT(t) * z + SPLAT(both);
        STORE(l->slope + k, g);
        if (has_corner)
            SHRINK(g, l->dead + k);
        const VEC far = g * inverse, near = LARGER(far, lowest);
        const VEC step = SMALLER(near, highest);
        const VEC gain = step * (g - SPLAT(half) * (h * step));
        KEEP_BEST(gain, (OF_REAL(whole))k, best, where);
    }
    STORE(gains, best);
    STORE(groups, where);
    *out = NAME(best_of)(gains, groups);
}

/*
 * Finds the row that gains most once row i has made its own step p, which moves the slopes of
 * others by -q_k p, with q = s (x_k + constant). With a step t of row k, (1) is highest at the step
 * (g_i - q_k t)/h_i of row i, and without t at p = g_i/h_i. If bounds let row i follow, (1) is
 * there a constant plus (g_k - q_k p) t - (h_k - q_k^2/h_i) t^2/2. `shared` is 1/h_i then, and 0 if
 * row i stays at a bound.
 */
CLONES_WIDE static void NAME(choose_partner)(const run *r, bool has_corner, const NAME(lists) * l,
                                             const NAME(pair) * of, choice *out)
{
    const int64_t m = r->m, i = of->row[0];
    const bool is_free = (double)l->lowest[i] < of->step[0] && of->step[0] < (double)l->highest[i];
    const VALUE *const x = of->column[0];
    const REAL scale = (REAL)r->scale, constant = (REAL)r->constant;
    const REAL step_of_i = (REAL)of->step[0], shared = is_free ? l->inverse[i] : 0;
    const REAL half = (REAL)0.5, least = (REAL)SINGULAR;
    VEC best = {0};
    PLACES where = {0};
    REAL gains[LANES_BYTES / sizeof(REAL)];
    OF_REAL(whole) groups[LANES_BYTES / sizeof(REAL)];
    for (int64_t k = 0; k < m; k += LANES) {
        VEC value, g, h, lowest, highest;
        LOAD_VALUES(value, x + k, m - k);
        LOAD(g, l->slope + k);
        LOAD(h, l->curvature + k);
        LOAD(lowest, l->lowest + k);
        LOAD(highest, l->highest + k);
        const VEC q = SPLAT(scale) * (value + SPLAT(constant));
        VEC u = g - q * SPLAT(step_of_i);
        if (has_corner)
            SHRINK(u, l->dead + k);
        const VEC shorter = h - q * q * SPLAT(shared);
        const VEC some = SPLAT(least) * h, left = LARGER(shorter, some);
        const VEC far = u / left, near = LARGER(far, lowest), step = SMALLER(near, highest);
        const VEC gain = step * (u - SPLAT(half) * (left * step));
        KEEP_BEST(gain, (OF_REAL(whole))k, best, where);
    }
    STORE(gains, best);
    STORE(groups, where);
    *out = NAME(best_of)(gains, groups);
}

/* Sets steps of a pair to those that raise (1) most, within bounds; row i's was its best alone. */
static void NAME(solve_pair)(const run *r, const NAME(lists) * l, NAME(pair) * pair)
{
    const int64_t *const row = pair->row;
    const double q = r->scale * ((double)pair->column[0][row[1]] + r->constant);
    const double hi = (double)l->curvature[row[0]], hj = (double)l->curvature[row[1]];
    /* Steps of i alone, and then of j: their signs choose the side of the corner. */
    const double alone[2] = {pair->step[0], (double)l->slope[row[1]] - q * pair->step[0]};
    double g[2], lower[2], upper[2], *const step = pair->step;
    for (int t = 0; t < 2; t++) {
        const double dead = (double)l->dead[row[t]];
        g[t] = (double)l->slope[row[t]] - (alone[t] > 0 ? dead : -dead);
        lower[t] = dead > 0 && alone[t] > 0 ? 0 : (double)l->lowest[row[t]];
        upper[t] = dead > 0 && alone[t] <= 0 ? 0 : (double)l->highest[row[t]];
    }
    const double determinant = hi * hj - q * q;
    if (determinant > SINGULAR * hi * hj) {
        step[0] = (hj * g[0] - q * g[1]) / determinant;
        step[1] = (hi * g[1] - q * g[0]) / determinant;
        if (step[0] >= lower[0] && step[0] <= upper[0] && step[1] >= lower[1]
            && step[1] <= upper[1])
            return;
    }
    double best = -INFINITY;
    for (int edge = 0; edge < 4; edge++) {
        const int t = edge / 2, other = 1 - t; /* row t is at an end of its bounds */
        const double end = edge % 2 ? upper[t] : lower[t], h = t == 0 ? hj : hi;
        const double free = (g[other] - q * end) / h;
        double found[2];
        found[t] = end;
        found[other] = fmin(fmax(free, lower[other]), upper[other]);
        const double p = found[0], s = found[1];
        const double gain =
            g[0] * p + g[1] * s - 0.5 * (hi * p * p + 2 * q * p * s + hj * s * s); /* (1) */
        if (gain > best) {
            best = gain;
            step[0] = p;
            step[1] = s;
        }
    }
}

/* Moves b_k, and returns by how much. At a bound, b_k is exactly that bound. */
static double NAME(move)(const run *r, const NAME(lists) * l, int64_t k, double step)
{
    const int64_t i = r->rows[k];
    const double y = r->targets->labels[i], before = r->arrays->a[i];
    const double lower = end_below(r, i, before), upper = end_above(r, i, before);
    const double corner = corner_of(r, i);
    const bool is_up = step >= (double)l->highest[k], is_down = step <= (double)l->lowest[k];
    double after = before + y * step;
    if (is_up || is_down)
        after = is_up == (y > 0) ? upper : lower;
    r->arrays->a[i] = clamp(after, lower, upper);
    NAME(set_bounds)(r, l, k);
    /* Slopes of all rows move later (`apply_and_choose`); these parts concern row k only. */
    const double change = y * (r->arrays->a[i] - before);
    const double diagonal = loss_diagonal(r->loss, weight(r, i));
    l->slope[k] -= (REAL)(diagonal * change + (corner_of(r, i) - corner));
    return change;
}

/* Gets the column of row k of the round; false: stopped. If it must be computed, so are those of
 * the rows without columns that gain most by their own steps, as they are likely to come next. */
static bool NAME(fetch)(run *r, int64_t k)
{
    const NAME(lists) l = NAME(lists_of)(r);
    double *const gains = r->scratch.gains;
    int64_t found[TOGETHER], count = 1;
    if (use_kept_column(r, k))
        return true;
    found[0] = k;
    for (int64_t i = 0; i < r->m; i++) {
        const double step = NAME(best_step)(&l, i, (double)l.slope[i]);
        const double g = shrunk((double)l.slope[i], (double)l.dead[i]);
        gains[i] = step * (g - 0.5 * (double)l.curvature[i] * step);
        const bool is_there = r->scratch.column[i] || r->columns->column_of[r->rows[i]] >= 0;
        if (is_there || i == k || gains[i] <= 0
            || (count == TOGETHER && gains[i] <= gains[found[count - 1]]))
            continue;
        int64_t j = count < TOGETHER ? count++ : count - 1;
        for (; j > 1 && gains[found[j - 1]] < gains[i]; j--)
            found[j] = found[j - 1];
        found[j] = i;
    }
    NAME(save)(r);
    return compute(r, count, found);
}

/*
 * Makes steps on pairs until the round is over; false: stopped.
 *
 *     repeat:
 *         apply the steps of the last pair to all slopes, and
 *             choose i: the row that gains most by its own step
 *         choose j: the row that gains most once i has made that step
 *         solve for the steps of i and j together
 *         move a_i and a_j
 *
 * Each choice is one pass over the rows. Among equal gains the first row counts: nothing is random.
 */
static bool NAME(step_on_pairs)(run *r)
{
    const NAME(lists) l = NAME(lists_of)(r);
    const double numbers = NUMBERS_PER_STEP * (double)r->m;
    const VALUE *const zeros = r->scratch.zeros;
    const bool has_corner = r->loss.dead > 0; /* passes would look that up for each vector */
    struct NAME(pair) pair = {
        .column = {zeros, zeros}
    };
    NAME(load)(r);
    for (;; r->s->position++) {
        choice first, partner;
        NAME(apply_and_choose)(r, has_corner, &l, &pair, &first);
        const bool is_last = first.gain <= 0 || r->s->position >= r->s->most_steps;
        const bool is_checked = r->s->position % STEPS_BEFORE_CHECK == 0 && r->s->tol >= 0;
        if (is_last || is_checked || is_due(r->watch, numbers))
            NAME(save)(r);
        const bool is_over = is_last || (is_checked && is_round_solved(r));
        if (is_over)
            return true;
        if (is_to_stop(r->watch, numbers))
            return false;
        const int64_t i = first.row;
        if (!NAME(fetch)(r, i))
            return false;
        pair = (NAME(pair)){
            .row = {i},
            .step = {NAME(best_step)(&l, i, (double)l.slope[i])},
            .column = {r->scratch.column[i], zeros}
        };
        NAME(choose_partner)(r, has_corner, &l, &pair, &partner);
        const int64_t j = partner.row;
        if (j != i && partner.gain > 0) {
            if (!NAME(fetch)(r, j))
                return false;
            pair.row[1] = j;
            pair.column[1] = r->scratch.column[j];
            NAME(solve_pair)(r, &l, &pair);
            pair.step[1] = NAME(move)(r, &l, j, pair.step[1]);
        }
        pair.step[0] = NAME(move)(r, &l, i, pair.step[0]);
    }
}

#undef LOAD_VALUES
#undef SHRINK
#undef LOAD_FULL
#undef LANES
#undef NAME
#undef VALUE
#undef REAL
#undef SUFFIX
