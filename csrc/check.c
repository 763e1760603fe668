/*
 * check.c - what a C program may have got wrong, and a sentence for each.
 */
#include "core.h"
#include "rows.h"

#include <math.h>

const char *pegasos_message(int status)
{
    static const char *const messages[] = {
        [PEGASOS_DONE] = "the gap is small enough, or all epochs are used up",
        [PEGASOS_STOPPED] = "poll stopped the fit, which can be resumed",
        [PEGASOS_OVERFLOW] = "an objective is not a finite number: scale the rows to about 1",
        [PEGASOS_BAD_SIZES] =
            "rows must have n_rows and n_features of at least 1, value_bytes of 4 or "
            "8, index_bytes of 0, 4 or 8, and indptr_bytes of 4 or 8 if they are CSR",
        [PEGASOS_BAD_ROWS] =
            "values must be finite; CSR offsets must not decrease, and indices be in "
            "[0, n_features)",
        [PEGASOS_BAD_TARGETS] =
            "targets must be -1 or +1, or 0 for rows outside the problem, and not "
            "all 0",
        [PEGASOS_BAD_WEIGHTS] = "weights must be finite and not negative, and their sum over the "
                                "problem's rows finite and not 0",
        [PEGASOS_BAD_LAM] = "lam must be a finite number above 0",
        [PEGASOS_BAD_LOSS] = "loss must be PEGASOS_HINGE or PEGASOS_SQUARED_HINGE",
        [PEGASOS_BAD_INTERCEPT] =
            "free_intercept must be 0 or 1, and intercept_scaling finite, not "
            "negative, and 0 if the intercept is free",
        [PEGASOS_BAD_OPTIONS] =
            "tol must be a number, max_epochs not negative, poll_every a finite "
            "number that is not negative, and solver PEGASOS_AUTO, "
            "PEGASOS_ASCENT or PEGASOS_NEWTON",
    };
    const int count = (int)(sizeof messages / sizeof *messages);
    return status >= 0 && status < count ? messages[status] : "there is no such status";
}

static bool is_width(int64_t bytes)
{
    return bytes == 4 || bytes == 8;
}

/* Sizes are small enough for the number of bytes of a dense matrix to be one. */
static bool are_sizes(const pegasos_rows *rows)
{
    const int64_t most = INT64_MAX / 64;
    return rows->n_rows >= 1 && rows->n_features >= 1 && is_width(rows->value_bytes)
           && (rows->index_bytes == 0
               || (is_width(rows->index_bytes) && is_width(rows->indptr_bytes)))
           && rows->n_rows <= most && rows->n_features <= most
           && (rows->index_bytes != 0 || rows->n_features <= most / rows->n_rows);
}

static bool are_rows(const pegasos_rows *rows)
{
    const bool is_dense = rows->index_bytes == 0;
    if (!is_dense
        && (row_offset(rows, 0) < 0
            || !pegasos_rows_are_valid(rows, row_offset(rows, rows->n_rows))))
        return false;
    const int64_t begin = is_dense ? 0 : row_offset(rows, 0);
    const int64_t end = is_dense ? rows->n_rows * rows->n_features : row_offset(rows, rows->n_rows);
    double sum = 0; /* NaN once a value is not finite */
    for (int64_t j = begin; j < end; j++)
        sum += 0 * get(rows->values, rows->value_bytes, j);
    return sum == 0;
}

int pegasos_check(const pegasos_problem *problem, const pegasos_options *options)
{
    const pegasos_rows *const rows = problem->rows;
    const double scaling = problem->intercept_scaling;
    double mass = 0;
    bool are_targets = true, are_weights = true, is_empty = true;
    if (!are_sizes(rows))
        return PEGASOS_BAD_SIZES;
    if (!are_rows(rows))
        return PEGASOS_BAD_ROWS;
    for (int64_t i = 0; i < rows->n_rows; i++) {
        const double y = problem->targets[i], c = problem->weights ? problem->weights[i] : 1;
        are_targets = are_targets && (y == 0 || y == 1 || y == -1);
        are_weights = are_weights && c >= 0 && c < INFINITY;
        is_empty = is_empty && y == 0;
        mass += y != 0 ? c : 0;
    }
    if (!are_targets || is_empty)
        return PEGASOS_BAD_TARGETS;
    if (!are_weights || !(mass > 0 && mass < INFINITY))
        return PEGASOS_BAD_WEIGHTS;
    if (!(problem->lam > 0 && problem->lam < INFINITY))
        return PEGASOS_BAD_LAM;
    if (problem->loss != PEGASOS_HINGE && problem->loss != PEGASOS_SQUARED_HINGE)
        return PEGASOS_BAD_LOSS;
    if (!(scaling >= 0 && scaling < INFINITY)
        || !(problem->free_intercept == 0 || (problem->free_intercept == 1 && scaling == 0)))
        return PEGASOS_BAD_INTERCEPT;
    if (isnan(options->tol) || options->max_epochs < 0
        || !(options->poll_every >= 0 && options->poll_every < INFINITY)
        || options->solver < PEGASOS_AUTO || options->solver > PEGASOS_NEWTON)
        return PEGASOS_BAD_OPTIONS;
    return PEGASOS_DONE;
}
