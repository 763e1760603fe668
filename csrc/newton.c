/*
 * newton.c - Newton's method on a smooth loss. The proximal point method on the dual smooths the
 * hinge: given a dual point A, the next one maximises
 *
 *     D(a) - delta/(2 m) sum_i (a_i - A_i)^2 / c_i,    0 <= a_i <= c_i.
 *
 * Its own dual is a smooth problem in w. With u_i = z_i - y_i f(x_i),
 *
 *     minimise  lam/2 |w|^2 + 1/m sum_i h_i(u_i),
 *     h_i'(u) = a_i(u) = clip(A_i + c_i u/delta, 0, c_i).
 *
 * For A = 0 this is the hinge, rounded off over a width delta (Huber). For any w, the a_i(u_i) are
 * dual-feasible, and the gradient is lam (w - w(a)): every gradient brings a dual value at no cost.
 * Only rows in the band 0 < a_i < c_i have second derivatives. Once the smooth problem is solved
 * well enough, A becomes a. So the gap goes to 0 though delta does not. Huber's width would have to
 * go to 0, but here the problems stay easy. (Rockafellar: Augmented Lagrangians and applications of
 * the proximal point algorithm, Math. Oper. Res. 1 (1976) 97-116; Chapelle: Training a support
 * vector machine in the primal, Neural Computation 19 (2007) 1155-1178.)
 *
 * Other losses with corners have other bounds, and a_i(u) = 0 where |A_i + c_i u/delta| is at most
 * c_i dead/delta (loss.h). A smooth loss has its own width h, and delta = 0 unless h is small
 * compared with the errors. Then the width is h + delta, and the centre A delta/(h + delta). The
 * log loss has its own slopes and curvatures, and every row in its band.
 *
 * An iteration evaluates w (objective, dual value, whether A moves), solves Newton's equations for
 * a step, searches along it, and moves:
 *
 *   - A moves once the smooth problem is solved as well as smoothing allows (`find_objectives`).
 *     Then delta falls, so that the next problem is closer to P.
 *   - Before A has moved, delta grows while a small band cuts steps short (`move`). Its first value
 *     and its bounds are in begin.c.
 *   - The step solves Newton's equations, by a matrix or by products (`solve_equations`), and ends
 *     where the smooth objective is least along it (`find_least`). For the log loss, the matrix may
 *     be that of some of the rows (`thin_out`).
 *   - The method ends where the gap is small, or where steps gain nothing but rounding (`move`,
 *     `end_run`).
 *
 * An iteration is a transaction: except for the best points so far, it changes nothing before its
 * end. One that was stopped is begun again, with the same bits.
 *
 * An iteration reads rows in passes (passes.h). evaluate_losses_of_rows, balance_rows,
 * add_hessian_rows and so on work on some rows of a block, and add to the block's sums. Sums have a
 * fixed shape, so every instruction set and any number of threads give the same bits.
 */
#include "fit.h"
#include "symmetric.h"

enum { LANES = SYMMETRIC_LANES };
/* A pass takes pieces of at most MOST_ROWS rows, of about PIECE numbers. For products of Newton's
 * matrix, pieces have BLAS_ROWS rows with BLAS and PLAIN_ROWS with plain loops. For a line search,
 * they have SEARCH_ROWS rows, and SEARCH_COST numbers are read of each. */
enum {
    MOST_ROWS = TARGETS_READ,
    BLAS_ROWS = 128,
    PLAIN_ROWS = 32,
    SEARCH_ROWS = 1 << 14,
    SEARCH_COST = 4
};
static const double PIECE = 1e6;
/* Rows are divided into at most MOST_BLOCKS blocks. Each block of band rows has a matrix, and at
 * least ROWS_PER_MATRIX rows. */
enum { MOST_BLOCKS = 16, ROWS_PER_MATRIX = 64 };

/* By how much delta falls once the smooth problem is solved well enough (see `find_objectives`). */
static const double NARROWER = 0.6;
/* By how much the width grows after a step that goes less than SHORT of its way (see `move`). */
static const double WIDER = 4, SHORT = 0.1;
/* The diagonal of Newton's matrix at a free intercept, as a part of lam. */
static const double FREE = 1e-4;
/* A singular matrix gets RIDGE times its trace on its diagonal. Each later attempt, of RIDGES in
 * all, adds a hundred times as much as the last one. */
enum { RIDGES = 6 };
static const double RIDGE = 1e-10;
/* For the log loss, Newton's matrix of FEWEST_UNKNOWNS or more is that of some of the rows: at
 * least one of MOST_EVERY, at least ROWS_PER_UNKNOWN for each unknown, and so many that each adds
 * at most MOST_OF_LAM times lam on average (see `thin_out`). */
enum { FEWEST_UNKNOWNS = 20, MOST_EVERY = 6, ROWS_PER_UNKNOWN = 50 };
static const double MOST_OF_LAM = 10;
/* Conjugate gradients end after PRODUCTS products with the matrix, or when the norm of the
 * residual, in the metric of the preconditioner, is ACCURACY of its first value. COARSELY replaces
 * ACCURACY for losses with corners, whose band changes along the step. */
enum { PRODUCTS = 250 };
static const double ACCURACY = 0.01, COARSELY = 0.3;
/* For conjugate gradients, the band is this many times as wide (see `widen_band`). */
static const double WIDER_BAND = 2;
/* A line search ends after SEARCHES points beyond its start, or at a slope of FLAT of the first. */
enum { SEARCHES = 30 };
static const double FLAT = 0.01;
/* A column is far from 0 if the square of its mean is more than FAR, and more than FAR times its
 * variance, by ROWS_SEEN rows (see `find_middle`). */
enum { ROWS_SEEN = 32 };
static const double FAR = 200;
/* Below this tol, the rounding of running sums may hide the gap. */
static const double FINE = 1e-6;

/* Sums of a pass over the rows. In a block, a vector of features and the constant one follows. */
enum {
    LOSS_SUM,      /* c_i l(u_i) */
    INNER,         /* a_i u_i - c_i l*(a_i/c_i) */
    PROXIMAL_SUM,  /* (a_i - A_i)^2/c_i */
    DUAL_SUM,      /* z_i a_i - c_i l*(a_i/c_i) */
    POSITIVE,      /* |a_i| where y_i a_i > 0 */
    NEGATIVE,      /* |a_i| where y_i a_i < 0 */
    TRACE,         /* h_i''(u_i)/m |(x_i, feature)|^2: the trace of A^T A in `solve_by_matrix` */
    CURVATURE_SUM, /* h_i''(u_i)/m */
    NUMBERS
};

/* The results of an iteration, part by part. */
typedef struct iteration {
    double sums[NUMBERS];
    double factors[2];              /* they make a feasible: for rows with y_i a_i < 0, and > 0; */
    pegasos_nu_rescaling rescaling; /* this replaces them for one class */
    double primal, dual;
    bool is_solved;                /* A becomes a, and delta falls */
    double width;                  /* from then on */
    int64_t n_band;                /* rows in the band */
    int64_t in_block[MOST_BLOCKS]; /* rows of the band in each block */
    symmetric matrix;              /* of Newton's equations: the matrix of the first block */
    bool is_thin;                  /* the matrix is made of stored numbers only (symmetric.h) */
    double slope;                  /* of the smooth objective along the step, at its beginning */
    double t;                      /* how far the point goes along the step */
    int64_t n_passes;              /* over the rows */
} iteration;

typedef struct run {
    const pegasos_rows *rows;
    const pegasos_targets *targets;
    loss_form loss;
    fit *f;
    double lam, mass, constant_feature;
    bool is_free; /* the intercept */
    bool is_far;  /* some column is far from 0, so that `middle` is not 0 */
    iteration *s;
    int64_t n, d;       /* rows and features */
    int64_t size;       /* d + 1: the features and the constant one */
    int64_t stride;     /* `size`, rounded up to whole lanes */
    int64_t piece;      /* rows */
    int64_t n_blocks;   /* of rows, at most */
    int64_t n_matrices; /* of blocks of the band, at most */
    /* arrays of rows */
    double *u;           /* u_i; after the last iteration, this and the next three are scratch */
    double *a;           /* a_i(u_i) */
    double *step_scores; /* y_i times what the step adds to f(x_i) */
    double *weights;     /* c_i/m */
    double *ratios;      /* the centre over c_i; for smooth l, A_i/c_i delta/(h + delta) */
    double *second_derivatives; /* h_i''(u_i)/m */
    int64_t *band;              /* the rows where this is not 0 */
    /* arrays of the features and the constant one */
    double *sums;      /* sum_i a_i y_i (x_i, feature) */
    double *right;     /* the right side of Newton's equations: minus the gradient */
    double *direction; /* the step */
    /* m lam w(a) of the feasible a: in `direction` for a free intercept, else in `sums` */
    double *feasible_sums;
    double *towards;  /* conjugate gradients: the vector of the next product */
    double *products; /* the matrix times `towards` */
    double *scale;    /* the diagonal of the matrix */
    double *middle;   /* means of columns far from 0 (see `find_middle`); 0 in others */
    /* arrays of blocks */
    double *of_blocks; /* sums */
    double *matrices;  /* of the band, */
    double *scaled;    /* and a piece of rows of A for each */
} run;

/* The number of blocks for n rows; d = 0 if there are no vectors to add up. With it, adding up the
 * blocks' sums costs little compared with a pass. */
static int64_t blocks_of(int64_t n, int64_t d)
{
    const int64_t by_rows = n / MOST_ROWS, by_features = 4 * n / (d + 1);
    return max_of(1, min_of(min_of(by_rows, by_features), MOST_BLOCKS));
}

enum { LINE = LANES * sizeof(double) };

/* Lays out the arrays, each aligned to a cache line; returns how many bytes they take. */
static int64_t lay_out_arrays(run *r, int64_t n, int64_t d, void *scratch)
{
    const int64_t stride = round_up(d + 1, LANES), of_features = 8 * stride;
    const int64_t of_rows = 8 * round_up(n, LANES);
    const bool has_matrix = d < PEGASOS_NEWTON_MAX_UNKNOWNS;
    r->stride = stride;
    r->n_blocks = blocks_of(n, d);
    r->n_matrices = has_matrix ? symmetric_blocks(n, ROWS_PER_MATRIX, stride) : 0;
    layout all = {scratch, LINE, 0};
    r->u = take(&all, of_rows);
    r->a = take(&all, of_rows);
    r->step_scores = take(&all, of_rows);
    r->weights = take(&all, of_rows);
    r->ratios = take(&all, of_rows);
    r->second_derivatives = take(&all, of_rows);
    r->band = take(&all, of_rows);
    r->sums = take(&all, of_features);
    r->right = take(&all, of_features);
    r->direction = take(&all, of_features);
    r->towards = take(&all, of_features);
    r->products = take(&all, of_features);
    r->scale = take(&all, of_features);
    r->middle = take(&all, of_features);
    r->of_blocks = take(&all, r->n_blocks * (8 * NUMBERS + of_features));
    r->matrices = take(&all, r->n_matrices * stride * of_features);
    r->scaled = take(&all, r->n_matrices * BLAS_ROWS * of_features);
    return all.bytes;
}

int64_t pegasos_newton_scratch_bytes(int64_t n_rows, int64_t n_features)
{
    run r;
    return LINE + lay_out_arrays(&r, n_rows, n_features, NULL);
}

static run lay_out(fit *f)
{
    const int64_t n = f->rows->n_rows, d = f->rows->n_features;
    const double most = PIECE / fmax(stored_numbers(f->rows) / (double)n, 1);
    run r = {.rows = f->rows, .targets = &f->targets, .f = f, .n = n, .d = d, .size = d + 1};
    r.loss = loss_of(f->problem->loss);
    r.lam = f->s->lam;
    r.mass = f->s->mass;
    r.constant_feature = f->s->newton.constant_feature;
    r.is_free = f->problem->free_intercept;
    r.piece = max_of(LANES, round_up((int64_t)fmin(most, MOST_ROWS), LANES));
    lay_out_arrays(&r, n, d, aligned(f->newton_scratch, LINE));
    r.feasible_sums = r.is_free ? r.direction : r.sums;
    for (int64_t i = n; i < round_up(n, LANES); i++) /* line searches read whole lanes */
        r.u[i] = r.step_scores[i] = r.weights[i] = r.ratios[i] = 0;
    return r;
}

/* ---- Passes ---------------------------------------------------------------------------------- */

static double *sums_of(const run *r, int64_t block)
{
    return r->of_blocks + block * (NUMBERS + r->stride);
}

/* Makes a pass, and adds up n_sums sums of all blocks into those of the first; false: stopped. */
static bool go_over(const run *r, const block_pass *pass, int64_t n_sums)
{
    const int64_t n_blocks = pass->n_blocks, stride = NUMBERS + r->stride;
    assert(n_sums == 0 || n_blocks <= r->n_blocks);
    for (int64_t k = 0; k < n_blocks && n_sums > 0; k++)
        memset(sums_of(r, k), 0, (size_t)n_sums * sizeof(double));
    if (!go_over_blocks(pass, r->f->options->threads, &r->f->watch))
        return false;
    add_up_blocks(n_sums > 0 ? n_blocks : 0, stride, n_sums, r->of_blocks);
    return true;
}

/* Makes a pass over all rows, and writes the vector of sums to `vector`, unless that is NULL. */
static bool go_over_rows(const run *r, block_work *work, double *vector)
{
    const block_pass x = {work, r, r->n, r->n_blocks, r->piece, cost_of_row(r->rows)};
    if (!go_over(r, &x, NUMBERS + (vector ? r->size : 0)))
        return false;
    if (vector)
        memcpy(vector, sums_of(r, 0) + NUMBERS, (size_t)r->size * sizeof(double));
    return true;
}

/* Makes a pass over the rows of the band, with a vector of sums. */
static bool go_over_band(const run *r, block_work *work, double cost)
{
    const int64_t n = r->s->n_band;
    const block_pass x = {work, r, n, blocks_of(n, r->d), r->piece, cost};
    return go_over(r, &x, NUMBERS + r->size);
}

/* lam of component j of a point, or 0 where it is not penalised. */
static double penalised(const run *r, int64_t j)
{
    return j == r->d && (r->is_free || r->constant_feature == 0) ? 0 : r->lam;
}

/* ---- Where w stands -------------------------------------------------------------------------- */

/* Some rows, padded to a multiple of LANES with values that stand for no row. */
typedef struct piece {
    int64_t first, count;
    double y[MOST_ROWS], z[MOST_ROWS], c[MOST_ROWS], centre[MOST_ROWS], factors[MOST_ROWS];
} piece;

static void read_piece(const run *r, int64_t first, int64_t count, piece *x)
{
    x->first = first;
    x->count = count;
    read_targets(r->targets, first, count, x->y, x->z, x->c);
    memcpy(x->centre, r->f->centre + first, (size_t)count * sizeof(double));
    for (int64_t i = count; i < round_up(count, LANES); i++)
        x->centre[i] = 0;
}

/* For one class, the objective has the term nu b, b = feature * weight of the constant feature. */
static double slope_of_constant(const run *r)
{
    return r->targets->loss.nu * r->constant_feature;
}

/* sums += sum_i factors_i (x_i, feature) over the rows of a piece. */
static void add_piece(const run *r, const piece *x, double *sums)
{
    double total = 0;
    for (int64_t i = 0; i < x->count; i++)
        total += x->factors[i];
    pegasos_linear_combine(r->rows, x->first, x->count, x->factors, sums);
    sums[r->d] += r->constant_feature * total;
}

/* Finds u, a(u), y a as factors, and the input of line searches and Newton's equations, for a piece
 * of rows; adds to the sums. If the smooth problem is solved, the present `a`, of the same w, is
 * the next A. `a` is overwritten, but `move` takes A from `ratios`. Each statement has its own
 * loop, so that lanes become SIMD. */
static INLINE void evaluate_losses_of_lanes(const run *r, piece *x, const double *restrict scores,
                                            double *restrict u, double *restrict a,
                                            double *restrict weights, double *restrict ratios,
                                            double *restrict second_derivatives, double *sums,
                                            const loss_form loss)
{
    double lanes[NEGATIVE + 1][LANES] = {{0}};
    const bool is_solved = r->s->is_solved;
    const double width = r->s->width, pull = loss_smoothing(loss, width) / width;
    const double per_mass = 1 / r->mass;
    for (int64_t i = 0; i < x->count; i += LANES) {
        const double *const y = x->y + i, *const c = x->c + i, *const z = x->z + i;
        double now[LANES], centre[LANES], slope[LANES], value[LANES], change[LANES], dual[LANES];
        for (int l = 0; l < LANES; l++)
            now[l] = z[l] - y[l] * scores[i + l];
        for (int l = 0; l < LANES; l++)
            centre[l] = is_solved ? a[i + l] : x->centre[i + l];
        for (int l = 0; l < LANES; l++)
            slope[l] = loss_slope(loss, pull * centre[l], c[l], now[l], width);
        for (int l = 0; l < LANES; l++)
            value[l] = c[l] * loss_value(loss, now[l]);
        for (int l = 0; l < LANES; l++)
            change[l] = slope[l] - centre[l];
        for (int l = 0; l < LANES; l++)
            change[l] = change[l] * change[l] / (c[l] > 0 ? c[l] : 1);
        for (int l = 0; l < LANES; l++)
            dual[l] = loss_conjugate_of(loss, slope[l], c[l], now[l], value[l]);
        for (int l = 0; l < LANES; l++)
            lanes[LOSS_SUM][l] += value[l];
        for (int l = 0; l < LANES; l++)
            lanes[INNER][l] += slope[l] * now[l] - dual[l];
        for (int l = 0; l < LANES; l++)
            lanes[PROXIMAL_SUM][l] += change[l];
        for (int l = 0; l < LANES; l++)
            lanes[DUAL_SUM][l] += z[l] * slope[l] - dual[l];
        for (int l = 0; l < LANES; l++)
            x->factors[i + l] = y[l] * slope[l];
        for (int l = 0; l < LANES; l++)
            lanes[POSITIVE][l] += x->factors[i + l] > 0 ? x->factors[i + l] : 0;
        for (int l = 0; l < LANES; l++)
            lanes[NEGATIVE][l] -= x->factors[i + l] < 0 ? x->factors[i + l] : 0;
        for (int l = 0; l < LANES; l++)
            weights[i + l] = c[l] * per_mass;
        for (int l = 0; l < LANES; l++)
            ratios[i + l] = pull * centre[l] / (c[l] > 0 ? c[l] : 1);
        for (int l = 0; l < LANES; l++)
            second_derivatives[i + l] =
                loss_second_derivative(loss, slope[l], c[l], width) * per_mass;
        memcpy(u + i, now, sizeof now);
        memcpy(a + i, slope, sizeof slope);
    }
    for (int k = 0; k <= NEGATIVE; k++)
        for (int l = 0; l < LANES; l++)
            sums[k] += lanes[k][l];
}

CLONES_WIDE static void evaluate_losses_of_piece(const run *r, piece *x, const double *scores,
                                                 double *sums)
{
    const int64_t first = x->first;
    WITH_LOSS(r->loss, evaluate_losses_of_lanes(r, x, scores, r->u + first, r->a + first,
                                                r->weights + first, r->ratios + first,
                                                r->second_derivatives + first, sums, LOSS));
}

/* For a loss with one corner, rows enter and leave the band along a step, and those that enter cut
 * it short. Conjugate gradients need not be exact: they get a wider band with the same middle. */
static void widen_band(const run *r, int64_t first, int64_t count)
{
    const double width = r->s->width, middle = (r->loss.lower + r->loss.upper) / 2;
    const double half = WIDER_BAND * (r->loss.upper - r->loss.lower) / 2;
    for (int64_t i = first; i < first + count; i++) {
        const double slope = r->ratios[i] + r->u[i] / width; /* of a weight of 1, without bounds */
        r->second_derivatives[i] =
            fabs(slope - middle) < half ? r->weights[i] / (WIDER_BAND * width) : 0;
    }
}

/* Evaluates a piece of rows, and lists its rows in the band. */
static void evaluate_losses_of_rows(const block_pass *pass, int64_t block, int64_t first,
                                    int64_t count)
{
    const run *const r = pass->context;
    const double square = r->constant_feature * r->constant_feature;
    double scores[MOST_ROWS] = {0}, *const sums = sums_of(r, block);
    int64_t *const band = r->band + first_of_block(pass, block), *const n_band =
                                                                     r->s->in_block + block;
    piece x;
    read_piece(r, first, count, &x);
    memcpy(scores, r->f->scores + first, (size_t)count * sizeof(double));
    evaluate_losses_of_piece(r, &x, scores, sums);
    if (r->size > PEGASOS_NEWTON_MAX_UNKNOWNS && !loss_is_smooth(r->loss) && r->loss.dead == 0)
        widen_band(r, first, count);
    int64_t n = *n_band;
    for (int64_t i = first; i < first + count; i++) { /* no branch: none could be foreseen */
        band[n] = i;
        n += r->second_derivatives[i] != 0;
    }
    for (int64_t k = *n_band; k < n; k++) {
        const int64_t i = band[k];
        sums[TRACE] += r->second_derivatives[i] * (r->f->norms[i] + square);
        sums[CURVATURE_SUM] += r->second_derivatives[i];
    }
    *n_band = n;
    add_piece(r, &x, sums + NUMBERS);
}

/* A pass that finds a(u), the sums and the band at w; false: stopped. */
static bool evaluate_losses(const run *r, iteration *s)
{
    memset(s->in_block, 0, sizeof s->in_block);
    s->n_band = 0;
    s->n_passes++;
    if (!go_over_rows(r, evaluate_losses_of_rows, r->sums))
        return false;
    memcpy(s->sums, sums_of(r, 0), sizeof s->sums);
    const block_pass x = {.n = r->n, .n_blocks = r->n_blocks};
    for (int64_t k = 0; k < r->n_blocks; s->n_band += s->in_block[k++])
        memmove(r->band + s->n_band, r->band + first_of_block(&x, k),
                (size_t)s->in_block[k] * sizeof(int64_t));
    return true;
}

/* a_i, made feasible. */
static double feasible_at(const run *r, const iteration *s, int64_t i)
{
    if (r->targets->loss.nu != 0)
        return nu_rescaled(s->rescaling, i, r->a[i], weight_at(r->targets, i));
    return r->a[i] * s->factors[r->targets->labels[i] * r->a[i] > 0];
}

static void balance_rows(const block_pass *pass, int64_t block, int64_t first, int64_t count)
{
    const run *const r = pass->context;
    double *const sums = sums_of(r, block);
    piece x;
    read_piece(r, first, count, &x);
    for (int64_t i = 0; i < count; i++) {
        const double a = feasible_at(r, r->s, first + i);
        x.factors[i] = a * x.y[i];
        sums[0] += x.z[i] * a - loss_conjugate(r->loss, a, x.c[i]);
    }
    add_piece(r, &x, sums + NUMBERS);
}

/* A free intercept needs sum_i a_i y_i = 0, so the a_i of the heavier sign are multiplied by a
 * factor. One class: see pegasos_nu_rescaling. Writes `feasible_sums`; false: stopped. */
static bool balance(const run *r, iteration *s)
{
    const double least = fmin(s->sums[POSITIVE], s->sums[NEGATIVE]);
    s->factors[0] = s->sums[NEGATIVE] > 0 ? least / s->sums[NEGATIVE] : 0;
    s->factors[1] = s->sums[POSITIVE] > 0 ? least / s->sums[POSITIVE] : 0;
    if (r->targets->loss.nu != 0)
        s->rescaling = pegasos_nu_rescaling_of(r->targets, r->a);
    s->n_passes++;
    if (!go_over_rows(r, balance_rows, r->feasible_sums))
        return false;
    s->sums[DUAL_SUM] = sums_of(r, 0)[0];
    return true;
}

/*
 * Finds the objectives, and whether A moves; false: stopped. h_i(u) is the largest value of a u -
 * c_i l*(a/c_i) - delta (a - A_i)^2/(2 c_i), and a_i(u) attains it. So with S = delta/(2 m) sum_i
 * (a_i - A_i)^2/c_i, the smooth problem has at w the objective
 *
 *     P_delta = penalty + 1/m sum_i (a_i u_i - c_i l*(a_i/c_i)) - S
 *
 * and the dual value D(a) - S. It is solved well enough once its gap is at most P - P_delta: the
 * rest of P - D then comes from the smoothing.
 */
static bool find_objectives(const run *r, iteration *s)
{
    const pegasos_newton *const p = &r->f->s->newton;
    s->factors[0] = s->factors[1] = 1;
    s->width = p->width;
    if (!evaluate_losses(r, s))
        return false;
    if (r->is_free && !balance(r, s))
        return false;
    const double squared = squared_norm_of(r->feasible_sums, r->size - r->is_free);
    double penalty = slope_of_constant(r) * r->f->point[r->d];
    for (int64_t j = 0; j < r->size; j++)
        penalty += penalised(r, j) * r->f->point[j] * r->f->point[j] / 2;
    const double delta = loss_smoothing(r->loss, p->width);
    const double smoothing = delta / 2 * s->sums[PROXIMAL_SUM] / r->mass;
    const double smooth = penalty + s->sums[INNER] / r->mass - smoothing;
    s->primal = penalty + s->sums[LOSS_SUM] / r->mass;
    s->dual = s->sums[DUAL_SUM] / r->mass - squared / (2 * r->lam * r->mass * r->mass);
    s->is_solved = delta > 0 && smooth - (s->dual - smoothing) <= s->primal - smooth;
    if (s->is_solved)
        s->width = r->loss.width + fmax(NARROWER * delta, p->narrowest);
    return true;
}

/* Keeps the dual point and the primal point if they are the best so far, and finds the gap. */
static void keep_best(const run *r, const iteration *s)
{
    state *const best = r->f->s;
    if (s->dual > best->newton.dual_objective) {
        if (!r->is_free)
            memcpy(r->f->a, r->a, (size_t)r->n * sizeof(double));
        for (int64_t i = 0; i < r->n && r->is_free; i++)
            r->f->a[i] = feasible_at(r, s, i);
        best->newton.dual_objective = s->dual;
    }
    pegasos_fit_keep_best(r->f, r->f->point, newton_intercept(r->f), s->primal,
                          best->newton.dual_objective);
}

/* ---- Newton's equations ---------------------------------------------------------------------- */

/* The diagonal of Newton's matrix, without the sum over the band. A free intercept gets a little,
 * too, so that the matrix is definite. More would hold the intercept back where it and w compensate
 * each other, or where lam is large. Without rows in the band, it gets what one row would add. */
static double diagonal(const run *r, const iteration *s, int64_t j)
{
    const double lam = r->lam, square = r->constant_feature * r->constant_feature;
    if (j < r->d || !r->is_free)
        return lam;
    return s->n_band > 0 ? FREE * fmin(lam, square * s->sums[CURVATURE_SUM])
                         : fmin(lam, square / (s->width * r->mass));
}

/* Up to ROWS_SEEN rows of the problem, spread evenly, as rows may be sorted; returns how many. */
static int64_t choose_seen(const run *r, int64_t *which)
{
    const int64_t count = r->n < ROWS_SEEN ? r->n : ROWS_SEEN, length = r->n / count;
    int64_t n_seen = 0;
    for (int64_t k = 0; k < count; k++) {
        int64_t i = k * length;
        const int64_t end = i + length;
        while (i < end && r->targets->labels[i] == 0)
            i++;
        if (i < end)
            which[n_seen++] = i;
    }
    return n_seen;
}

/*
 * A free intercept b compensates for steps along columns far from 0, and moves far for that. The
 * diagonal of Newton's matrix there (FREE), and rounding, would leave little of such steps. So the
 * equations are those for w and b + <w, middle>, with x_i - middle in place of x_i. Nearly any
 * middle will do: it is the mean of a few rows, and 0 in columns that are not far. Returns whether
 * the far means outweigh the variances of all columns.
 */
static bool find_middle(run *r)
{
    int64_t which[ROWS_SEEN];
    const int64_t n_seen = choose_seen(r, which);
    const double one = 1;
    double *const squares = r->products, far = 0, near = 0, longest = 0;
    for (int64_t k = 0; k < n_seen; k++)
        longest = fmax(longest, r->f->norms[which[k]]);
    if (!(longest > FAR)) /* the square of a column's mean is at most `longest` */
        return false;
    memset(r->middle, 0, (size_t)r->size * sizeof(double));
    memset(squares, 0, (size_t)r->size * sizeof(double));
    for (int64_t k = 0; k < n_seen; k++) {
        pegasos_linear_combine(r->rows, which[k], 1, &one, r->middle);
        pegasos_linear_squares(r->rows, which[k], 1, &one, squares);
    }
    for (int64_t j = 0; j < r->d; j++) {
        const double mean = r->middle[j] / (double)n_seen, square = mean * mean;
        const double variance = fmax(squares[j] / (double)n_seen - square, 0);
        const bool is_far = isfinite(square) && square > FAR * (1 + variance);
        r->middle[j] = is_far ? mean : 0;
        r->is_far = r->is_far || is_far;
        far += is_far ? square : 0;
        near += variance;
    }
    return far > FAR * near;
}

/* Writes a row of A: row number k of the band. */
static void scale_row(const run *r, int64_t k, int64_t bytes, char *out)
{
    const int64_t i = r->band[k];
    const double root = sqrt(r->second_derivatives[i]);
    pegasos_linear_scale(r->rows, i, root, r->stride, bytes, out);
    for (int64_t j = 0; r->is_far && j < r->d; j++)
        ((double *)(void *)out)[j] -= root * r->middle[j];
    set_to(out, bytes, r->d, r->constant_feature * root);
}

/* Adds A^T A of some rows of the band. */
static void add_hessian_rows(const block_pass *pass, int64_t block, int64_t first, int64_t count)
{
    const run *const r = pass->context;
    const symmetric m = symmetric_of_block(&r->s->matrix, block);
    const bool is_first = first == first_of_block(pass, block), is_thin = r->s->is_thin;
    if (is_thin && is_first)
        memset(m.numbers, 0, (size_t)(m.size * m.stride) * sizeof(double));
    if (!is_thin || !symmetric_are_thin(r->rows, first, r->band, count, r->size)) {
        char *const scaled = (char *)(r->scaled + block * BLAS_ROWS * r->stride);
        for (int64_t k = 0; k < count; k++)
            scale_row(r, first + k, m.bytes, scaled + k * m.stride * m.bytes);
        symmetric_add_outer(&m, count, scaled, is_first);
        return;
    }
    for (int64_t k = first; k < first + count; k++)
        symmetric_add_stored(&m, r->rows, r->band[k], r->second_derivatives[r->band[k]], 1,
                             &r->constant_feature);
}

/* Makes A A^T, followed by A in memory; false: stopped. */
static bool make_gram_matrix(const run *r)
{
    const symmetric *const m = &r->s->matrix;
    const double n_products = (double)(m->size * m->size) / 2 * (double)m->stride;
    char *const scaled = (char *)m->numbers + m->size * m->stride * m->bytes;
    for (int64_t k = 0; k < m->size; k++)
        scale_row(r, k, m->bytes, scaled + k * m->stride * m->bytes);
    symmetric_set_inner(m, scaled);
    return !is_to_stop(&r->f->watch, n_products / PRODUCTS_PER_NUMBER);
}

/* Makes A^T A; false: stopped. */
static bool make_hessian(const run *r, const iteration *s)
{
    const double cost = symmetric_cost(r->rows, s->is_thin, r->size);
    const int64_t n_blocks = symmetric_blocks(s->n_band, ROWS_PER_MATRIX, r->stride);
    const int64_t together = r->f->blas ? BLAS_ROWS : PLAIN_ROWS;
    const block_pass over = {add_hessian_rows, r, s->n_band, n_blocks, together, cost};
    if (!go_over(r, &over, 0))
        return false;
    symmetric_add_up(&s->matrix, n_blocks);
    return true;
}

/* Makes a matrix and its Cholesky factor: lam + A A^T where the band has few rows, else D + A^T A.
 * If rounding has made it singular, it is made again in double precision, and then with a growing
 * ridge. Returns the last status of symmetric_factorise. There is no factor only if numbers have
 * overflown; then the step is minus the gradient. */
static int factorise(const run *r, iteration *s, bool are_few)
{
    symmetric *const m = &s->matrix;
    const double last = diagonal(r, s, r->d);
    double ridge = 0;
    for (int n_ridges = 0;; m->bytes = 8) {
        if (!(are_few ? make_gram_matrix(r) : make_hessian(r, s)))
            return SYMMETRIC_STOPPED;
        const double trace = symmetric_add_diagonal(m, r->lam + ridge, last + ridge);
        const int status = symmetric_factorise(m, &r->f->watch);
        if (status != SYMMETRIC_NOT_POSITIVE || n_ridges == RIDGES)
            return status;
        if (m->bytes == 8)
            ridge = n_ridges++ == 0 ? RIDGE * trace : 100 * ridge;
    }
}

/*
 * Newton's equations for the step p are (D + A^T A) p = r. A has the rows sqrt(h_i''/m) (x_i,
 * feature) of the band, where h_i'' = c_i/delta for a piecewise quadratic loss. D is the diagonal,
 * and r minus the gradient. If the band has at most half as many rows as there are features, and D
 * = lam, there are fewer unknowns in (Woodbury)
 *
 *     p = (r - A^T x)/lam,    (lam + A A^T) x = A r.
 *
 * False: stopped.
 */
static bool solve_by_matrix(const run *r, iteration *s)
{
    const bool are_few = r->f->blas && 2 * s->n_band <= r->size && !r->is_free;
    /* x_i - middle has no zeros */
    s->is_thin =
        !are_few && !r->is_far && symmetric_are_thin(r->rows, 0, r->band, s->n_band, r->size);
    const bool is_single =
        !s->is_thin && !r->is_far && symmetric_may_be_single(r->f->blas, s->sums[TRACE], r->lam);
    s->matrix = (symmetric){.numbers = r->matrices,
                            .size = are_few ? s->n_band : r->size,
                            .stride = r->stride,
                            .bytes = is_single ? 4 : 8,
                            .blas = r->f->blas};
    const symmetric *const m = &s->matrix;
    double *const p = r->direction, *const x = r->towards;
    const int status = factorise(r, s, are_few);
    if (status == SYMMETRIC_STOPPED)
        return false;
    memcpy(p, r->right, (size_t)r->size * sizeof(double));
    if (are_few) {
        const double intercept = r->constant_feature * r->right[r->d];
        pegasos_linear_scores(r->rows, 0, r->band, m->size, 1, r->right, 8, 0, &intercept, x);
        for (int64_t k = 0; k < m->size; k++)
            x[k] *= sqrt(r->second_derivatives[r->band[k]]);
        if (status == SYMMETRIC_FACTORED)
            symmetric_solve(m, x, r->products);
        for (int64_t k = 0; k < m->size; k++) {
            const double factor = -sqrt(r->second_derivatives[r->band[k]]) * x[k];
            pegasos_linear_combine(r->rows, r->band[k], 1, &factor, p);
            p[r->d] += r->constant_feature * factor;
        }
        for (int64_t j = 0; j < r->size; j++)
            p[j] /= r->lam;
    } else if (status == SYMMETRIC_FACTORED)
        symmetric_solve(m, p, r->products);
    return !is_to_stop(&r->f->watch, (double)(m->size * r->size));
}

/* <w, middle> */
static double score_middle(const run *r, const double *w)
{
    return r->is_far ? inner_product(r->middle, w, r->d) : 0;
}

/* Replaces x_i by x_i - middle in sum_i p_i (x_i, feature), whose last number is given. */
static void subtract_middle(const run *r, double last, double *sum)
{
    for (int64_t j = 0; r->is_far && j < r->d; j++)
        sum[j] -= last / r->constant_feature * r->middle[j];
}

static void multiply_by_hessian_rows(const block_pass *pass, int64_t block, int64_t first,
                                     int64_t count)
{
    const run *const r = pass->context;
    const double intercept = r->constant_feature * r->towards[r->d] - score_middle(r, r->towards);
    const int64_t *const band = r->band + first;
    double scores[MOST_ROWS], *const sums = sums_of(r, block) + NUMBERS;
    pegasos_linear_scores(r->rows, 0, band, count, 1, r->towards, 8, 0, &intercept, scores);
    for (int64_t k = 0; k < count; k++) {
        const double factor = r->second_derivatives[band[k]] * scores[k];
        pegasos_linear_combine(r->rows, band[k], 1, &factor, sums);
        sums[r->d] += r->constant_feature * factor;
    }
}

/* products = (D + A^T A) towards, by two passes over the band; false: stopped. */
static bool multiply_by_hessian(const run *r, const iteration *s)
{
    if (!go_over_band(r, multiply_by_hessian_rows, 2 * cost_of_row(r->rows)))
        return false;
    for (int64_t j = 0; j < r->size; j++)
        r->products[j] = sums_of(r, 0)[NUMBERS + j] + diagonal(r, s, j) * r->towards[j];
    subtract_middle(r, sums_of(r, 0)[NUMBERS + r->d], r->products);
    return true;
}

static void add_squares_of_rows(const block_pass *pass, int64_t block, int64_t first, int64_t count)
{
    const run *const r = pass->context;
    double *const sums = sums_of(r, block) + NUMBERS;
    for (int64_t k = first; k < first + count; k++)
        pegasos_linear_squares(r->rows, r->band[k], 1, r->second_derivatives + r->band[k], sums);
}

/* scale = the diagonal of D + A^T A, or 1 if columns are far from 0, as it would take the squares
 * of x_i - middle. False: stopped. */
static bool find_scale(const run *r, const iteration *s)
{
    const double square = r->constant_feature * r->constant_feature;
    if (!r->is_far && !go_over_band(r, add_squares_of_rows, cost_of_row(r->rows)))
        return false;
    double *const squares = sums_of(r, 0) + NUMBERS;
    squares[r->d] = square * s->sums[CURVATURE_SUM];
    for (int64_t j = 0; j < r->size; j++)
        r->scale[j] = r->is_far ? 1 : diagonal(r, s, j) + squares[j];
    return true;
}

/* Conjugate gradients, with `scale` as preconditioner; false: stopped. */
static bool solve_by_products(const run *r, iteration *s)
{
    int n_products = 0;
    if (!find_scale(r, s))
        return false;
    memset(r->direction, 0, (size_t)r->size * sizeof(double));
    for (int64_t j = 0; j < r->size; j++)
        r->towards[j] = r->right[j] / r->scale[j];
    double squared = inner_product(r->right, r->towards, r->size);
    const double accuracy = loss_is_smooth(r->loss) ? ACCURACY : COARSELY;
    const double enough = accuracy * accuracy * squared;
    for (; squared > enough && n_products < PRODUCTS; n_products++) {
        if (!multiply_by_hessian(r, s))
            return false;
        const double t = squared / inner_product(r->towards, r->products, r->size);
        const double before = squared;
        squared = 0;
        for (int64_t j = 0; j < r->size; j++) {
            r->direction[j] += t * r->towards[j];
            r->right[j] -= t * r->products[j];
            squared += r->right[j] * (r->right[j] / r->scale[j]);
        }
        for (int64_t j = 0; j < r->size; j++)
            r->towards[j] = r->right[j] / r->scale[j] + squared / before * r->towards[j];
    }
    s->n_passes += (int64_t)round((2 * n_products + 1) * ((double)s->n_band / (double)r->n));
    return true;
}

/*
 * The log loss has all rows in its band. One row of each `every`, drawn at random, stays for
 * Newton's matrix, and counts for all of them. With R rows for each unknown, a step leaves about
 * 1/R of the gap that a step with all rows would close. A step that must close the rest of the gap
 * gets twice this R. Where the gap is as large as P, no step can close it, and R is the least. A
 * feature that few rows have may be missed, and only lam limits steps along it. So rows count for
 * at most MOST_OF_LAM times lam on average. (Byrd, Chin, Neveitt and Nocedal: On the use of
 * stochastic Hessian information in optimization methods for machine learning, SIAM J. Optim. 21
 * (2011) 977-995.)
 */
static void thin_out(const run *r, iteration *s)
{
    const double gap = r->f->s->relative_gap, tol = r->f->options->tol;
    const double per_unknown = fmax(ROWS_PER_UNKNOWN, gap < 1 ? 2 * gap / tol : 0);
    const double least =
        fmax(per_unknown * (double)r->size, s->sums[TRACE] / (MOST_OF_LAM * r->lam));
    const int64_t every = (int64_t)fmin((double)s->n_band / least, MOST_EVERY);
    uint64_t generator = (uint64_t)r->f->s->n_epochs;
    const bool has_matrix = r->size <= PEGASOS_NEWTON_MAX_UNKNOWNS;
    if (loss_is_quadratic(r->loss) || tol < 0 || every < 2 || !has_matrix
        || r->size < FEWEST_UNKNOWNS)
        return;
    s->n_band /= every;
    for (int64_t k = 0; k < s->n_band; k++) {
        const int64_t i = r->band[k * every + pegasos_bounded_random(&generator, every)];
        r->band[k] = i;
        r->second_derivatives[i] *= (double)every;
    }
}

static bool solve_equations(const run *r, iteration *s)
{
    thin_out(r, s);
    for (int64_t j = 0; j < r->size; j++)
        r->right[j] = r->sums[j] / r->mass - penalised(r, j) * r->f->point[j];
    r->right[r->d] -= slope_of_constant(r);
    subtract_middle(r, r->right[r->d], r->right);
    for (int64_t j = 0; j < r->size && s->n_band == 0; j++)
        r->direction[j] = r->right[j] / diagonal(r, s, j);
    if (s->n_band > 0
        && !(r->size <= PEGASOS_NEWTON_MAX_UNKNOWNS ? solve_by_matrix(r, s)
                                                    : solve_by_products(r, s)))
        return false;
    if (r->is_far)
        r->direction[r->d] -= score_middle(r, r->direction) / r->constant_feature;
    return true;
}

/* ---- The step -------------------------------------------------------------------------------- */

/* The smooth objective along a step. Its derivative is first + t second - sum_i weights_i s_i p_i,
 * where s_i is step_scores_i, and p_i is the slope of the smoothed loss (loss.h) at u_i - t s_i,
 * for the centre ratios_i and a weight of 1. */
typedef struct line {
    const run *r;
    double width, first, second, t;
    double slope; /* at 0 */
} line;

/* Smoothed over `width`, with a centre A and a weight of 1, l has the slope at u that it has with a
 * width of 1 at A + u/width, with its corner at dead/width. */
static INLINE void sum_slopes(int64_t n, const double *u, const double *step_scores,
                              const double *weights, const double *centre, double width, double t,
                              const loss_form form, double *sums)
{
    const double per_width = 1 / width;
    const bool is_quadratic = loss_is_quadratic(form);
    const loss_form unit = {form.kind, form.lower, form.upper, form.dead * per_width, 1};
    double first[LANES] = {0}, second[LANES] = {0}, sum_of_first = 0, sum_of_second = 0;
    for (int64_t i = 0; i < n; i += LANES) {
        const double *const step = step_scores + i;
        double at[LANES], slope[LANES], curvature[LANES], weighted[LANES];
        for (int l = 0; l < LANES; l++)
            at[l] = u[i + l] - t * step[l];
        for (int l = 0; l < LANES && is_quadratic; l++)
            at[l] = centre[i + l] + at[l] * per_width;
        loss_slopes(unit, at, slope, curvature);
        for (int l = 0; l < LANES; l++)
            weighted[l] = weights[i + l] * step[l];
        for (int l = 0; l < LANES; l++)
            first[l] += weighted[l] * slope[l];
        for (int l = 0; l < LANES; l++)
            second[l] += weighted[l] * step[l] * curvature[l];
    }
    for (int l = 0; l < LANES; l++) {
        sum_of_first += first[l];
        sum_of_second += second[l] * (is_quadratic ? per_width : 1);
    }
    sums[0] += sum_of_first;
    sums[1] += sum_of_second;
}

CLONES_WIDE static void add_slopes(const block_pass *pass, int64_t block, int64_t i, int64_t count)
{
    const line *const x = pass->context;
    const run *const r = x->r;
    WITH_LOSS(r->loss, sum_slopes(count, r->u + i, r->step_scores + i, r->weights + i,
                                  r->ratios + i, x->width, x->t, LOSS, sums_of(r, block)));
}

/*
 * Finds the t >= 0 where the objective is least; false: stopped. The derivative grows, and is
 * piecewise linear except for the log loss. Newton's method finds its root, kept in a bracket.
 */
static bool find_least(line *x)
{
    const run *const r = x->r;
    const block_pass over = {add_slopes, x, r->n, r->n_blocks, SEARCH_ROWS, SEARCH_COST};
    double low = 0, high = INFINITY;
    for (int n_done = 0; n_done <= SEARCHES; n_done++) {
        if (!go_over(r, &over, 2))
            return false;
        const double slope = x->first + x->t * x->second - sums_of(r, 0)[0];
        const double curvature = x->second + sums_of(r, 0)[1];
        if (n_done == 0) {
            x->slope = slope;
            x->t = 1;
            continue;
        }
        *(slope < 0 ? &low : &high) = x->t;
        if (fabs(slope) <= FLAT * fabs(x->slope) || high - low <= 1e-12 * x->t)
            break;
        const double better = curvature > 0 ? x->t - slope / curvature : INFINITY;
        if (low < better && better < high)
            x->t = better;
        else
            x->t = high == INFINITY ? 2 * x->t : (low + high) / 2;
    }
    return true;
}

/* Rows outside the problem have the sign +1. There is no branch, as labels cannot be foreseen. */
static INLINE double sign_of(int8_t label)
{
    return 1 - 2 * (label < 0);
}

static void score_step_of_rows(const block_pass *pass, int64_t block, int64_t first, int64_t count)
{
    const run *const r = pass->context;
    const double intercept = r->constant_feature * r->direction[r->d];
    double *const step_scores = r->step_scores + first;
    (void)block;
    pegasos_linear_scores(r->rows, first, NULL, count, 1, r->direction, 8, 0, &intercept,
                          step_scores);
    for (int64_t i = 0; i < count; i++)
        step_scores[i] *= sign_of(r->targets->labels[first + i]);
}

/* Finds y_i times what the step adds to scores; false: stopped. */
static bool score_step(const run *r, iteration *s)
{
    const double cost = cost_of_row(r->rows);
    const block_pass over = {score_step_of_rows, r, r->n, blocks_of(r->n, 0), r->piece, cost};
    s->n_passes++;
    return go_over(r, &over, 0);
}

/* Finds how far to go; false: stopped. */
static bool search(const run *r, iteration *s)
{
    line x = {.r = r, .width = s->width};
    for (int64_t j = 0; j < r->size; j++) {
        x.first += penalised(r, j) * r->f->point[j] * r->direction[j];
        x.second += penalised(r, j) * r->direction[j] * r->direction[j];
    }
    x.first += slope_of_constant(r) * r->direction[r->d];
    if (!find_least(&x))
        return false;
    s->slope = x.slope;
    s->t = x.t;
    return true;
}

/*
 * Moves the point, and A if the smooth problem is solved: A_i = `ratios` c_i/pull. (A stays until
 * here, as an iteration that is stopped is begun again.)
 *
 * If lam is small and the band has fewer rows than there are features, steps are long in directions
 * that the band does not see. The first rows that enter the band cut them short, so each iteration
 * finds a few rows of hundreds. A wider band sees more rows. So the width grows after a short step
 * of such a band, until A first moves. Later, it would grow again whenever it has fallen.
 *
 * If A and the width stay, a step gains about half of its slope: nothing, if that is rounding of P.
 */
static void move(const run *r, const iteration *s)
{
    pegasos_newton *const p = &r->f->s->newton;
    const bool is_cut_short =
        !s->is_solved && s->t < SHORT && s->n_band < r->size && s->width < p->widest;
    for (int64_t j = 0; j < r->size; j++)
        r->f->point[j] += s->t * r->direction[j];
    for (int64_t i = 0; i < r->n; i++)
        r->f->scores[i] += s->t * sign_of(r->targets->labels[i]) * r->step_scores[i];
    const double pull = loss_smoothing(r->loss, s->width) / s->width;
    for (int64_t i = 0; s->is_solved && i < r->n; i++)
        r->f->centre[i] = r->ratios[i] / pull * sample_weight(r->targets->weights, i);
    const bool gains =
        s->is_solved || is_cut_short || fabs(s->slope) > DBL_EPSILON * fabs(s->primal);
    p->n_idle = gains ? 0 : p->n_idle < MOST_IDLE ? p->n_idle + 1 : MOST_IDLE;
    p->widest = s->is_solved ? 0 : p->widest;
    p->width = is_cut_short ? fmin(WIDER * s->width, p->widest) : s->width;
}

/* ---- The beginning --------------------------------------------------------------------------- */

/* Finds the best multiple t of the point: u_i = z_i - t y_i f(x_i), as in a line search from 0. */
bool pegasos_newton_scale(fit *f, double *primal)
{
    run r = lay_out(f);
    const double norm = squared_norm_of(f->point, r.d + !r.is_free);
    line x = {.r = &r,
              .width = f->s->newton.width,
              .first = slope_of_constant(&r) * f->point[r.d],
              .second = r.lam * norm};
    r.n_blocks = 1;
    for (int64_t i = 0; i < r.n; i++)
        r.u[i] = value_at(r.targets, i);
    for (int64_t i = 0; i < r.n; i++)
        r.step_scores[i] = r.targets->labels[i] * f->scores[i];
    for (int64_t i = 0; i < r.n; i++)
        r.weights[i] = weight_at(r.targets, i) / r.mass;
    memset(r.ratios, 0, (size_t)r.n * sizeof(double));
    if (!find_least(&x))
        return false;
    for (int64_t j = 0; j < r.size; j++)
        f->point[j] *= x.t;
    for (int64_t i = 0; i < r.n; i++)
        f->scores[i] *= x.t;
    const double losses = pegasos_loss_sum(r.targets, 0, r.n, f->scores, 1, 0);
    *primal = r.lam / 2 * x.t * x.t * norm + x.t * x.first + losses / r.mass;
    return true;
}

/* ---- The run --------------------------------------------------------------------------------- */

/* Finds P of the best model from recomputed scores, which are written to `ratios`, and the best
 * intercept if it is free; false: stopped. */
static bool find_best_primal(const run *r)
{
    state *const best = r->f->s;
    double *const room = r->is_free ? r->u : NULL;
    if (!pegasos_fit_score(r->f, r->f->coef, room, &best->intercept, r->ratios))
        return false;
    best->primal = fit_objective(r->f, r->f->coef, best->intercept, r->ratios);
    best->relative_gap = relative_gap_of(best->primal, best->newton.dual_objective);
    return true;
}

/* Scores that change step by step keep the rounding of the longest steps. So if a run ends by
 * itself, but the gap of recomputed scores is not small, another run goes on from the best model
 * with these scores. Coarse gaps are recomputed only to find the intercept. False: stopped. */
static bool end_run(const run *r)
{
    fit *const f = r->f;
    const bool was_close = is_close(f), was_idle = is_idle(f);
    const bool needs_primal = r->is_free || was_idle || (was_close && f->options->tol < FINE);
    if (f->s->pending == PEGASOS_GAP_CHECKED || !needs_primal)
        return true;
    if (!find_best_primal(r))
        return false;
    if (is_close(f) || !(was_close || was_idle))
        return true;
    memcpy(f->point, f->coef, (size_t)r->d * sizeof(double));
    f->point[r->d] = r->constant_feature > 0 ? f->s->intercept / r->constant_feature : 0;
    memcpy(f->scores, r->ratios, (size_t)r->n * sizeof(double));
    f->s->newton.n_idle = MOST_IDLE;
    return true;
}

/* A penalised intercept must also move far before w is of use. */
bool pegasos_newton_is_far(fit *f)
{
    run r = lay_out(f);
    return (r.is_free || f->problem->intercept_scaling > 0) && find_middle(&r);
}

int pegasos_newton_run(fit *f, int64_t last_epoch)
{
    state *const s = f->s;
    assert(s->newton.width > 0 && s->newton.narrowest > 0);
    assert(loss_smoothing(loss_of(f->problem->loss), s->newton.width) >= 0);
    run r = lay_out(f);
    if (r.is_free)
        (void)find_middle(&r);
    while (s->n_epochs < last_epoch && !is_close(f) && !is_idle(f)) {
        iteration now = {0};
        r.s = &now;
        if (!find_objectives(&r, &now))
            return PEGASOS_STOPPED;
        if (!isfinite(now.primal))
            return PEGASOS_OVERFLOW;
        keep_best(&r, &now);
        if (!is_close(f)) {
            /* If A moves, a(u) and the band must be those of the next smooth problem. */
            if ((now.is_solved && !evaluate_losses(&r, &now)) || !solve_equations(&r, &now)
                || !score_step(&r, &now) || !search(&r, &now))
                return PEGASOS_STOPPED;
            move(&r, &now);
        }
        s->n_epochs += now.n_passes;
        if (is_to_stop_after_epoch(&f->watch, progress_of_state(s)))
            return PEGASOS_STOPPED;
    }
    return end_run(&r) ? PEGASOS_DONE : PEGASOS_STOPPED;
}
