# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: freethreading_compatible=True
"""The C core on NumPy buffers.

Every function here passes pointers and sizes on to ``csrc/pegasos.h``, where the fields and the
contract are explained, and releases the GIL while the core works. Nothing is checked: arrays must
be what ``_validate.py`` and ``_session.py`` make of them.
"""
from libc.stdint cimport int8_t, int32_t, int64_t, uint64_t

cdef extern from "pegasos.h" nogil:
    ctypedef struct pegasos_rows:
        int64_t n_rows
        int64_t n_features
        int64_t value_bytes
        int64_t index_bytes
        int64_t indptr_bytes
        const void *values
        const void *indices
        const void *indptr
        int64_t column_bytes
        int8_t *wanted

    int PEGASOS_KERNEL
    int PEGASOS_PERMUTATION, PEGASOS_CYCLIC, PEGASOS_UNIFORM

    ctypedef struct pegasos_order:
        int64_t next

    void pegasos_order_seek(pegasos_order *order, uint64_t seed, int64_t n_rows, int64_t sampling,
                            int64_t next, int64_t *permutation)
    void pegasos_order_draw(pegasos_order *order, int64_t *permutation, int64_t count,
                            int64_t *draws)

    ctypedef struct pegasos_linear:
        double lam
        double weight_factor
        double intercept_scaling
        int64_t free_intercept
        int64_t project
        int64_t average_from
        int64_t last_step
        int64_t n_steps
        int64_t next_draw
        int64_t n_drawn
        int64_t n_pending
        int64_t n_violations
        double q
        double squared_norm
        int64_t n_norm_updates
        double constant_weight
        double intercept
        double rate_sum
        double constant_sum
        double intercept_sum
        int64_t n_averaged

    int PEGASOS_BUNDLE_BYTES
    int PEGASOS_PANEL_BYTES

    ctypedef struct pegasos_linear_set:
        int64_t n_problems
        int64_t batch_size
        int64_t bundled
        pegasos_linear *problems
        const int8_t *labels
        const double *row_weights
        void *weights
        void *sums
        int64_t *counts
        int64_t *pending

    void pegasos_linear_start(pegasos_linear *problem)
    void pegasos_linear_restart_average(pegasos_linear *problem, int64_t n_features,
                                        int64_t value_bytes, void *sum)
    void pegasos_linear_run(const pegasos_rows *rows, const pegasos_linear_set *set,
                            int64_t first, int64_t count, const int64_t *draws)
    void pegasos_linear_model(const pegasos_linear *problem, int64_t n_features,
                              int64_t value_bytes, const void *weights, const void *sum,
                              double *coef, double *intercept)
    void pegasos_linear_scores(const pegasos_rows *rows, int64_t first, int64_t count,
                               int64_t n_problems, const void *coef, int64_t coef_bytes,
                               int64_t interleaved, const double *intercepts, double *scores)
    void pegasos_linear_combine(const pegasos_rows *rows, int64_t first, int64_t count,
                                const double *factors, double *sum)
    void pegasos_linear_norms(const pegasos_rows *rows, int64_t first, int64_t count,
                              double *scratch, double *norms)

    void pegasos_linear_copy(const pegasos_rows *rows, int64_t count, const int64_t *which,
                             void *out)

    ctypedef struct pegasos_dual:
        double scale
        double intercept_scaling
        double intercept
        double factor
        uint64_t generator
        int64_t n_active
        int64_t position
        int64_t is_chosen
        double highest_before
        double lowest_before
        double highest
        double lowest
        double gap
        double constant_weight
        double squared_norm
        double constant_sum

    void pegasos_hinge_slopes(int64_t n, const double *u, const double *moves,
                              const double *weights, const double *centre, double width, double t,
                              double *slope, double *curvature)

    void pegasos_dual_start(pegasos_dual *problem, int64_t n_active)
    void pegasos_dual_begin_epoch(pegasos_dual *problem)
    int64_t pegasos_dual_run(const pegasos_rows *rows, pegasos_dual *problem, const int8_t *labels,
                             const double *bounds, const double *norms, int64_t *active, double *a,
                             double *w, int64_t count)
    void pegasos_dual_sweep(const pegasos_rows *rows, int64_t n_problems, pegasos_dual *problems,
                            const int8_t *labels, const double *bounds, const double *norms,
                            double *a, void *v, void *sums, int64_t before, int64_t count,
                            const int64_t *draws)

    void pegasos_sparse_products(const pegasos_rows *x, const pegasos_rows *inverted,
                                 int64_t stride, void *products)
    void pegasos_thick_products(const pegasos_rows *x, const pegasos_rows *z, void *panel,
                                int64_t stride, void *products)
    void pegasos_kernel_push(int64_t count, const int64_t *places, int64_t n, int64_t stride,
                             int64_t value_bytes, const void *columns, int64_t n_problems,
                             const double *coef, int64_t score_stride, double *scores)
    void pegasos_kernel_gather(int64_t count, const int64_t *places, int64_t stride,
                               int64_t value_bytes, const void *columns, int64_t m,
                               const int64_t *which, int64_t out_stride, void *out)
    void pegasos_kernel_gauss(int64_t n, int64_t m, int64_t stride, int64_t value_bytes,
                              void *products, const void *x_norms, const void *z_norms,
                              double gamma)
    void pegasos_kernel_polynomial(int64_t n, int64_t m, int64_t stride, int64_t value_bytes,
                                   void *products, double gamma, double coef0, int64_t degree)
    void pegasos_kernel_sigmoid(int64_t n, int64_t m, int64_t stride, int64_t value_bytes,
                                void *products, double gamma, double coef0)
    void pegasos_kernel_laplace(int64_t n, int64_t m, int64_t d, int64_t value_bytes,
                                const void *x, const void *z, double gamma, int64_t stride,
                                void *out)

ctypedef fused value_t:
    float
    double

ctypedef fused index_t:
    int32_t
    int64_t

ctypedef fused offset_t:
    int32_t
    int64_t

#: Bytes that the weights of a bundle take per feature; see ``pegasos_linear_set``.
BUNDLE_BYTES = PEGASOS_BUNDLE_BYTES
#: Scratch of `thick_products`, for each feature.
PANEL_BYTES = PEGASOS_PANEL_BYTES

SAMPLINGS = {
    "permutation": PEGASOS_PERMUTATION,
    "cyclic": PEGASOS_CYCLIC,
    "uniform": PEGASOS_UNIFORM,
}

cdef pegasos_linear _blank
#: One zeroed problem; ``np.asarray(BLANK_PROBLEM).dtype`` is the layout of the C struct.
BLANK_PROBLEM = <pegasos_linear[:1]> &_blank


cdef class Rows:
    """The rows of X where they lie; made by `dense_rows` or `csr_rows`."""
    cdef pegasos_rows c
    cdef readonly tuple arrays
    """The memory: values of dense rows; values, indices, indptr of CSR rows. Kept alive by this."""

    cdef readonly int64_t size
    """How many numbers are stored."""

    @property
    def shape(self):
        return self.c.n_rows, self.c.n_features

    @property
    def value_bytes(self):
        """4 or 8."""
        return self.c.value_bytes

    @property
    def is_sparse(self):
        """Whether these are CSR rows."""
        return self.c.index_bytes > 0


def dense_rows(const value_t[:, ::1] values not None):
    cdef Rows rows = Rows()
    rows.c.n_rows = values.shape[0]
    rows.c.n_features = values.shape[1]
    rows.c.value_bytes = sizeof(value_t)
    rows.c.values = &values[0, 0]
    rows.size = values.shape[0] * values.shape[1]
    rows.arrays = (values,)
    return rows


def csr_rows(const value_t[::1] values not None, const index_t[::1] indices not None,
             const offset_t[::1] indptr not None, int64_t n_features):
    cdef Rows rows = Rows()
    rows.c.n_rows = indptr.shape[0] - 1
    rows.c.n_features = n_features
    rows.c.value_bytes = sizeof(value_t)
    rows.c.index_bytes = sizeof(index_t)
    rows.c.indptr_bytes = sizeof(offset_t)
    rows.c.values = &values[0]
    rows.c.indices = &indices[0]
    rows.c.indptr = &indptr[0]
    rows.size = values.shape[0]
    rows.arrays = (values, indices, indptr)
    return rows


def kernel_block(const value_t[:, ::1] columns not None, const int64_t[::1] place not None,
                 int8_t[::1] wanted not None):
    """A block of a kernel matrix as rows; see ``PEGASOS_KERNEL``.

    Row i has its column in ``columns[place[i]]``, or nowhere if that is -1. ``wanted`` is marked.
    """
    cdef Rows rows = Rows()
    rows.c.n_rows = place.shape[0]
    rows.c.n_features = 2 * place.shape[0] + 1
    rows.c.value_bytes = sizeof(double)
    rows.c.index_bytes = PEGASOS_KERNEL
    rows.c.values = &columns[0, 0]
    rows.c.indptr = &place[0]
    rows.c.column_bytes = sizeof(value_t)
    rows.c.wanted = &wanted[0]
    rows.size = columns.shape[0] * columns.shape[1]
    rows.arrays = (columns, place, wanted)
    return rows


cdef class Order:
    """Draws number `next`, `next` + 1, ... of the stream that `seed` and `sampling` name."""
    cdef pegasos_order c
    cdef int64_t[::1] permutation

    def __init__(self, uint64_t seed, int64_t[::1] permutation not None, int64_t sampling,
                 int64_t next):
        self.permutation = permutation
        with nogil:
            pegasos_order_seek(&self.c, seed, permutation.shape[0], sampling, next,
                               &permutation[0])

    def draw(self, int64_t[::1] draws not None):
        """Fill `draws` with the next draws."""
        with nogil:
            pegasos_order_draw(&self.c, &self.permutation[0], draws.shape[0], &draws[0])


def start(pegasos_linear[::1] problems not None):
    """Put every problem at w = 0, before its first step."""
    cdef int64_t k
    for k in range(problems.shape[0]):
        pegasos_linear_start(&problems[k])


def restart_averages(pegasos_linear[::1] problems not None, value_t[:, ::1] sums not None):
    """Begin every average afresh with the next step."""
    cdef int64_t k
    for k in range(problems.shape[0]):
        pegasos_linear_restart_average(&problems[k], sums.shape[1], sizeof(value_t), &sums[k, 0])


def fit(Rows rows not None, pegasos_linear[::1] problems not None,
        const int8_t[:, ::1] labels not None, const double[::1] row_weights,
        value_t[:, ::1] weights not None, value_t[:, ::1] sums, int64_t[:, ::1] counts,
        int64_t[:, ::1] pending not None, int64_t first, const int64_t[::1] draws not None,
        bint bundled=False):
    """Run the problems over draws number `first`, `first` + 1, ...; see ``pegasos_linear_run``.

    `row_weights`, `sums` and `counts` may be None. `problems`, `weights`, `sums`, `counts` and
    `pending` are updated in place. A row of `weights` and `sums` belongs to a problem, or, of a
    bundle, to a feature.
    """
    cdef pegasos_linear_set set
    set.n_problems = problems.shape[0]
    set.batch_size = pending.shape[1]
    set.bundled = bundled
    set.problems = &problems[0]
    set.labels = &labels[0, 0]
    set.row_weights = NULL if row_weights is None else &row_weights[0]
    set.weights = &weights[0, 0]
    set.sums = NULL if sums is None else &sums[0, 0]
    set.counts = NULL if counts is None else &counts[0, 0]
    set.pending = &pending[0, 0]
    with nogil:
        pegasos_linear_run(&rows.c, &set, first, draws.shape[0], &draws[0])


def model(const pegasos_linear[::1] problems not None, const value_t[:, ::1] weights not None,
          const value_t[:, ::1] sums, double[:, ::1] coef not None,
          double[::1] intercept not None):
    """Write coefficients and intercept of every problem: its last iterate, or its average."""
    cdef int64_t k
    for k in range(problems.shape[0]):
        pegasos_linear_model(&problems[k], weights.shape[1], sizeof(value_t), &weights[k, 0],
                             NULL if sums is None else &sums[k, 0], &coef[k, 0], &intercept[k])


def decision_function(Rows rows not None, int64_t first, const value_t[:, ::1] coef not None,
                      const double[::1] intercept not None, double[:, ::1] scores not None,
                      bint interleaved=False):
    """Write the scores of rows `first`, `first` + 1, ..., one column per problem.

    `coef`, float64 or of the rows' type, has a row for each problem or, if `interleaved`, for each feature.
    """
    with nogil:
        pegasos_linear_scores(&rows.c, first, scores.shape[0], scores.shape[1], &coef[0, 0],
                              sizeof(value_t), interleaved, &intercept[0], &scores[0, 0])


def combine(Rows rows not None, int64_t first, const double[::1] factors not None,
            double[::1] sum not None):
    """Add rows `first`, `first` + 1, ... times `factors` to `sum`."""
    with nogil:
        pegasos_linear_combine(&rows.c, first, factors.shape[0], &factors[0], &sum[0])


def norms(Rows rows not None, int64_t first, double[::1] scratch, double[::1] out not None):
    """Write squared norms of rows `first`, ...; `scratch`: zeros for CSR rows, None for dense."""
    with nogil:
        pegasos_linear_norms(&rows.c, first, out.shape[0],
                             NULL if scratch is None else &scratch[0], &out[0])


def copy_rows(Rows rows not None, const int64_t[::1] which not None,
              value_t[:, ::1] out not None):
    """Write some rows as a dense array of their type."""
    with nogil:
        pegasos_linear_copy(&rows.c, which.shape[0], &which[0], &out[0, 0])


def hinge_slopes(const double[::1] u not None, const double[::1] moves not None,
                 const double[::1] weights not None, const double[::1] centre not None,
                 double width, double t):
    """Return slope and curvature of the smoothed hinge along a step; see ``pegasos_hinge_slopes``."""
    cdef double slope, curvature
    with nogil:
        pegasos_hinge_slopes(u.shape[0], &u[0], &moves[0], &weights[0], &centre[0], width, t,
                             &slope, &curvature)
    return slope, curvature


cdef pegasos_dual _blank_dual
#: One zeroed dual problem, as `BLANK_PROBLEM`.
BLANK_DUAL = <pegasos_dual[:1]> &_blank_dual


def dual_start(pegasos_dual[::1] problem not None, int64_t n_active):
    """Let the first `n_active` rows of the list take part, in an epoch that begins now."""
    pegasos_dual_start(&problem[0], n_active)


def dual_begin_epoch(pegasos_dual[::1] problem not None):
    """Begin the next epoch."""
    pegasos_dual_begin_epoch(&problem[0])


def dual_run(Rows rows not None, pegasos_dual[::1] problem not None,
             const int8_t[::1] labels not None, const double[::1] bounds,
             const double[::1] norms not None, int64_t[::1] active not None,
             double[::1] a not None, double[::1] w not None, int64_t count):
    """Visit up to `count` rows; returns how many. See ``pegasos_dual_run``."""
    cdef int64_t done
    with nogil:
        done = pegasos_dual_run(&rows.c, &problem[0], &labels[0],
                                NULL if bounds is None else &bounds[0], &norms[0], &active[0],
                                &a[0], &w[0], count)
    return done


def dual_sweep(Rows rows not None, pegasos_dual[::1] problems not None,
               const int8_t[:, ::1] labels not None, const double[::1] bounds,
               const double[::1] norms not None, double[:, ::1] a not None,
               value_t[:, ::1] v not None, value_t[:, ::1] sums, int64_t before,
               const int64_t[::1] draws not None):
    """Visit rows for a bundle of problems; see ``pegasos_dual_sweep``."""
    with nogil:
        pegasos_dual_sweep(&rows.c, problems.shape[0], &problems[0], &labels[0, 0],
                           NULL if bounds is None else &bounds[0], &norms[0], &a[0, 0],
                           &v[0, 0], NULL if sums is None else &sums[0, 0], before,
                           draws.shape[0], &draws[0])


cdef int64_t stride(const value_t[:, :] array) noexcept nogil:
    """Numbers from one row to the next."""
    return array.strides[0] // <int64_t>sizeof(value_t)


def sparse_products(Rows x not None, Rows inverted not None, value_t[:, :] products not None):
    """Write the inner products of CSR rows `x` with those whose transpose is `inverted`."""
    with nogil:
        pegasos_sparse_products(&x.c, &inverted.c, stride(products), &products[0, 0])


def thick_products(Rows x not None, Rows z not None, value_t[:, ::1] panel not None,
                   value_t[:, :] products not None):
    """Write the inner products of CSR rows `x` and `z`; `panel` is scratch."""
    with nogil:
        pegasos_thick_products(&x.c, &z.c, &panel[0, 0], stride(products), &products[0, 0])


def push(const value_t[:, :] columns not None, const int64_t[::1] places not None,
         const double[:, ::1] coef not None, double[:, :] scores not None):
    """Add ``coef @ columns[places]`` to `scores`, in double; rows of both are contiguous."""
    with nogil:
        pegasos_kernel_push(places.shape[0], &places[0], columns.shape[1], stride(columns),
                            sizeof(value_t), &columns[0, 0], coef.shape[0], &coef[0, 0],
                            stride(scores), &scores[0, 0])


def gather(const value_t[:, :] columns not None, const int64_t[::1] places not None,
           const int64_t[::1] which not None, value_t[:, :] out not None):
    """Write ``columns[places][:, which]``, but where a place is below 0; rows of both are contiguous."""
    with nogil:
        pegasos_kernel_gather(places.shape[0], &places[0], stride(columns), sizeof(value_t),
                              &columns[0, 0], which.shape[0], &which[0], stride(out), &out[0, 0])


def gauss(value_t[:, :] products not None, const value_t[::1] x_norms not None,
          const value_t[::1] z_norms not None, double gamma):
    """Turn inner products into values of the Gaussian kernel, in place; rows are contiguous."""
    with nogil:
        pegasos_kernel_gauss(products.shape[0], products.shape[1], stride(products),
                             sizeof(value_t), &products[0, 0], &x_norms[0], &z_norms[0], gamma)


def polynomial(value_t[:, :] products not None, double gamma, double coef0, int64_t degree):
    """Turn inner products into values of the polynomial kernel, in place; rows are contiguous."""
    with nogil:
        pegasos_kernel_polynomial(products.shape[0], products.shape[1], stride(products),
                                  sizeof(value_t), &products[0, 0], gamma, coef0, degree)


def sigmoid(value_t[:, :] products not None, double gamma, double coef0):
    """Turn inner products into values of the sigmoid kernel, in place; rows are contiguous."""
    with nogil:
        pegasos_kernel_sigmoid(products.shape[0], products.shape[1], stride(products),
                               sizeof(value_t), &products[0, 0], gamma, coef0)


def laplace(const value_t[:, ::1] x not None, const value_t[:, ::1] z not None, double gamma,
            value_t[:, :] out not None):
    """Write values of the Laplacian kernel between rows of `x` and of `z`; rows are contiguous."""
    with nogil:
        pegasos_kernel_laplace(x.shape[0], z.shape[0], x.shape[1], sizeof(value_t), &x[0, 0],
                               &z[0, 0], gamma, stride(out), &out[0, 0])
