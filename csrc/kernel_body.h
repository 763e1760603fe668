/*
 * kernel_body.h - steps on pairs of rows among the rows of a round, for one type of kernel values
 * and one type in which slopes are kept.
 *
 * kernel.c includes this once for each with these macros, undefined again at the end:
 *
 *     VALUE     float or double: of the columns of the kernel matrix
 *     REAL      float or double: of slopes
 *     SUFFIX    ends the name of everything defined here
 *     LOAD_FULL loads a whole vector of REAL from VALUEs: LOAD, or LOAD_WIDE
 *
 * With signed dual variables b_i = y_i a_i and their slopes g_i (`slope`), steps p and t of rows i
 * and j raise m D by
 *
 *     g_i p + g_j t - (h_i p^2 + 2 q p t + h_j t^2)/2,      h_i = s K_ii + diagonal, q = s K_ij (1)
 *
 * which is highest, within bounds, at the solution of two equations or on an edge of the box.
 */
#define NAME(name) OF_TYPE(name, SUFFIX)
#define LANES      ((int64_t)(LANES_BYTES / sizeof(REAL)))

/* Rows of the round: arrays of m numbers, and after their ends numbers for rows that no step moves,
 * up to a whole vector. */
typedef struct NAME(lists) {
    REAL *slope, *curvature, *inverse; /* g, h > 0 and 1/h */
    REAL *lowest, *highest;            /* how far b may move */
} NAME(lists);

static NAME(lists) NAME(lists_of)(const run *r)
{
    const int64_t size = r->size;
    REAL *first = r->w.lists;
    return (NAME(lists)){first, first + size, first + 2 * size, first + 3 * size, first + 4 * size};
}

/* The best step along row k at slope g, within its bounds. */
static double NAME(best_step)(const NAME(lists) * l, int64_t k, double g)
{
    return fmin(fmax(g * (double)l->inverse[k], (double)l->lowest[k]), (double)l->highest[k]);
}

/* How far b_k may move from here. */
static void NAME(set_bounds)(const run *r, const NAME(lists) * l, int64_t k)
{
    const int64_t i = r->rows[k];
    const double a = r->x->a[i], up = most_of(r, i) - a, down = a - least_of(r, i);
    l->lowest[k] = (REAL)(r->targets->labels[i] > 0 ? -down : -up);
    l->highest[k] = (REAL)(r->targets->labels[i] > 0 ? up : down);
}

/* Copies what belongs to the rows of the round; slopes are as the state has them. */
static void NAME(load)(const run *r)
{
    const NAME(lists) l = NAME(lists_of)(r);
    for (int64_t k = 0; k < r->size; k++) {
        l.slope[k] = l.lowest[k] = l.highest[k] = 0;
        l.curvature[k] = l.inverse[k] = 1;
        if (k >= r->m || r->targets->labels[r->rows[k]] == 0)
            continue;
        const double h = curvature_of(r, r->rows[k]);
        l.slope[k] = (REAL)r->x->slopes[k];
        l.curvature[k] = (REAL)h;
        l.inverse[k] = (REAL)(1 / h);
        NAME(set_bounds)(r, &l, k);
    }
}

/* Lets the state have the slopes. */
static void NAME(save)(const run *r)
{
    const NAME(lists) l = NAME(lists_of)(r);
    for (int64_t k = 0; k < r->m; k++)
        r->x->slopes[k] = (double)l.slope[k];
}

/* The best of all lanes, which of several is the first row. */
static INLINE choice NAME(best_of)(const REAL *gains, const OF_REAL(whole) * groups)
{
    choice best = {.row = 0, .gain = 0};
    for (int64_t l = 0; l < LANES; l++) {
        const double gain = (double)gains[l];
        const int64_t row = (int64_t)groups[l] + l;
        if (gain > best.gain || (gain == best.gain && gain > 0 && row < best.row))
            best = (choice){.row = row, .gain = gain};
    }
    return best;
}

/* One vector of values of a column, of which there may be no more than `count` left. */
#define LOAD_VALUES(vector, from, count)                                                           \
    do {                                                                                           \
        if ((count) >= LANES)                                                                      \
            LOAD_FULL(vector, from);                                                               \
        else {                                                                                     \
            REAL values_[LANES_BYTES / sizeof(REAL)] = {0};                                        \
            for (int64_t l_ = 0; l_ < (count); l_++)                                               \
                values_[l_] = (REAL)(from)[l_];                                                    \
            LOAD(vector, values_);                                                                 \
        }                                                                                          \
    } while (0)

/* Moves the slopes of all rows by -(p x_k + t y_k + both), where x and y are columns, and finds the
 * row that gains most by a step of its own. */
CLONES_WIDE static void NAME(move_and_choose)(int64_t m, const NAME(lists) * l, const VALUE *x,
                                              const VALUE *y, REAL p, REAL t, REAL both,
                                              choice *out)
{
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
        const VEC moves = ADD(MULTIPLY(SPLAT(p), q), MULTIPLY(SPLAT(t), z));
        g = SUBTRACT(g, ADD(moves, SPLAT(both)));
        STORE(l->slope + k, g);
        const VEC far = MULTIPLY(g, inverse), near = LARGER(far, lowest);
        const VEC step = SMALLER(near, highest);
        const VEC less = MULTIPLY(SPLAT(half), MULTIPLY(h, step));
        const VEC gain = MULTIPLY(step, SUBTRACT(g, less));
        KEEP_BEST(gain, (OF_REAL(whole))k, best, where);
    }
    STORE(gains, best);
    STORE(groups, where);
    *out = NAME(best_of)(gains, groups);
}

/*
 * The row that gains most once row i has made its own step, which moves the slopes of others by
 * -q_k step, with q = s (x_k + constant). If row i is free to follow, the curvature along row k is
 * h_k - q_k^2/h_i: `shared` is 1/h_i then, else 0.
 */
CLONES_WIDE static void NAME(choose_partner)(int64_t m, const NAME(lists) * l, const VALUE *x,
                                             REAL scale, REAL constant, REAL step_of_i, REAL shared,
                                             choice *out)
{
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
        const VEC q = MULTIPLY(SPLAT(scale), ADD(value, SPLAT(constant)));
        const VEC u = SUBTRACT(g, MULTIPLY(q, SPLAT(step_of_i)));
        const VEC shorter = SUBTRACT(h, MULTIPLY(MULTIPLY(q, q), SPLAT(shared)));
        const VEC some = MULTIPLY(SPLAT(least), h), left = LARGER(shorter, some);
        const VEC far = DIVIDE(u, left), near = LARGER(far, lowest), step = SMALLER(near, highest);
        const VEC less = MULTIPLY(SPLAT(half), MULTIPLY(left, step));
        const VEC gain = MULTIPLY(step, SUBTRACT(u, less));
        KEEP_BEST(gain, (OF_REAL(whole))k, best, where);
    }
    STORE(gains, best);
    STORE(groups, where);
    *out = NAME(best_of)(gains, groups);
}

/* (1). */
static double NAME(pair_gain)(const NAME(lists) * l, int64_t i, int64_t j, double q,
                              const double *step)
{
    const double hi = (double)l->curvature[i], hj = (double)l->curvature[j];
    const double p = step[0], t = step[1];
    return (double)l->slope[i] * p + (double)l->slope[j] * t
           - 0.5 * (hi * p * p + 2 * q * p * t + hj * t * t);
}

/* The steps of rows i and j that raise (1) most, within bounds. */
static void NAME(pair_steps)(const NAME(lists) * l, int64_t i, int64_t j, double q, double *step)
{
    const double hi = (double)l->curvature[i], hj = (double)l->curvature[j];
    const double gi = (double)l->slope[i], gj = (double)l->slope[j];
    const double least[2] = {(double)l->lowest[i], (double)l->lowest[j]};
    const double most[2] = {(double)l->highest[i], (double)l->highest[j]};
    const double determinant = hi * hj - q * q;
    if (determinant > SINGULAR * hi * hj) {
        step[0] = (hj * gi - q * gj) / determinant;
        step[1] = (hi * gj - q * gi) / determinant;
        if (step[0] >= least[0] && step[0] <= most[0] && step[1] >= least[1] && step[1] <= most[1])
            return;
    }
    double best = -INFINITY;
    for (int edge = 0; edge < 4; edge++) {
        const double end = edge % 2 ? most[edge / 2] : least[edge / 2];
        const double on_i[2] = {end, NAME(best_step)(l, j, gj - q * end)};
        const double on_j[2] = {NAME(best_step)(l, i, gi - q * end), end};
        const double *found = edge < 2 ? on_i : on_j;
        const double gain = NAME(pair_gain)(l, i, j, q, found);
        if (gain > best) {
            best = gain;
            step[0] = found[0];
            step[1] = found[1];
        }
    }
}

/* Moves b_k, and returns by how much. At a bound it is that bound, to the last bit. */
static double NAME(move)(const run *r, const NAME(lists) * l, int64_t k, double step)
{
    const int64_t i = r->rows[k];
    const double y = r->targets->labels[i], before = r->x->a[i];
    const double least = least_of(r, i), most = most_of(r, i);
    const bool is_up = step >= (double)l->highest[k], is_down = step <= (double)l->lowest[k];
    double after = before + y * step;
    if (is_up || is_down)
        after = is_up == (y > 0) ? most : least;
    r->x->a[i] = clamp(after, least, most);
    NAME(set_bounds)(r, l, k);
    /* The rest of what this does to the slope follows with all rows. */
    const double change = y * (r->x->a[i] - before);
    l->slope[k] -= (REAL)(loss_diagonal(r->loss, weight(r, i)) * change);
    return change;
}

/* m (P - D) of the rows of the round, and m P. */
static double NAME(gap)(const run *r, double *primal)
{
    const NAME(lists) l = NAME(lists_of)(r);
    const loss_form loss = r->loss;
    double sum = 0, norm = 0, losses = 0;
    for (int64_t k = 0; k < r->m; k++) {
        const int64_t i = r->rows[k];
        const double y = r->targets->labels[i], c = weight(r, i), a = r->x->a[i];
        const double u = y * (double)l.slope[k] + loss_diagonal(loss, c) * a;
        if (y == 0)
            continue;
        sum += loss_gap(loss, a, c, u);
        norm += a * (value_at(r->targets, i) - u);
        losses += c * loss_value(loss, u);
    }
    *primal = norm / 2 + losses;
    return sum;
}

/* What each row of the round gains by a step of its own. */
static void NAME(find_gains)(const run *r, double *gains)
{
    const NAME(lists) l = NAME(lists_of)(r);
    for (int64_t k = 0; k < r->m; k++) {
        const double g = (double)l.slope[k], step = NAME(best_step)(&l, k, g);
        gains[k] = step * (g - 0.5 * (double)l.curvature[k] * step);
    }
}

/*
 * Makes up to `most` steps on pairs. The first row of a pair is the one whose own step gains most,
 * the second gains most once the first has moved. Each choice is one pass over the rows; the first
 * also moves all slopes by the pair before. Of equal gains, the first row's counts: nothing is
 * random here.
 */
static ended NAME(step_on_pairs)(run *r, int64_t most)
{
    const NAME(lists) l = NAME(lists_of)(r);
    const double scale = r->scale, constant = r->constant;
    const VALUE *x = r->w.zeros, *z = r->w.zeros;
    double p = 0, t = 0;
    for (int64_t done = 0;; done++, r->s->position++) {
        choice first, partner;
        const REAL both = (REAL)(scale * constant * (p + t));
        NAME(move_and_choose)(r->m, &l, x, z, (REAL)(scale * p), (REAL)(scale * t), both, &first);
        x = z = r->w.zeros;
        p = t = 0;
        if (first.gain <= 0 || is_round_over(r, NAME(gap)))
            return (ended){.why = OVER};
        if (done >= most)
            return (ended){.why = PAUSED};
        const int64_t i = first.row;
        if (!has_column(r, i))
            return (ended){.why = WANTS, .row = i};
        double steps[2] = {NAME(best_step)(&l, i, (double)l.slope[i]), 0};
        const bool is_free = (double)l.lowest[i] < steps[0] && steps[0] < (double)l.highest[i];
        x = r->w.column[i];
        NAME(choose_partner)(r->m, &l, x, (REAL)scale, (REAL)constant, (REAL)steps[0],
                             is_free ? l.inverse[i] : 0, &partner);
        const int64_t j = partner.row;
        const bool is_pair = j != i && partner.gain > 0;
        if (is_pair && !has_column(r, j))
            return (ended){.why = WANTS, .row = j};
        if (is_pair) {
            NAME(pair_steps)(&l, i, j, scale * ((double)x[j] + constant), steps);
            z = r->w.column[j];
            t = NAME(move)(r, &l, j, steps[1]);
        }
        p = NAME(move)(r, &l, i, steps[0]);
    }
}

#undef LOAD_VALUES
#undef LOAD_FULL
#undef LANES
#undef NAME
#undef VALUE
#undef REAL
#undef SUFFIX
