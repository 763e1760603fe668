# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: freethreading_compatible=True, auto_pickle=False
"""The C core on NumPy buffers, and the checks before it.

Each function here passes pointers and sizes to ``csrc/core.h``, which explains the fields and the
contract, and releases the GIL while the core works. The core trusts its arguments. So each function
first checks all that memory safety depends on: lengths against each other, types, alignment, and
numbers that become sizes, indices or divisors. A mistake of a caller is a ValueError and never
reaches foreign memory. ``_validate.py`` has the messages for users, with the names that they know.

Checks take constant time, except that index arrays are read in full, in a fraction of the call.
"""
import functools
import math
import re
import threading
import zlib

import numpy as np

from cpython.buffer cimport (
    Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.exc cimport PyErr_CheckSignals
from cpython.pycapsule cimport PyCapsule_GetName, PyCapsule_GetPointer
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

# Structs have the fields that are used here, or all of them if NumPy uses their layout. The header
# explains them, and the names of arguments.
cdef extern from "core.h" nogil:
    ctypedef struct pegasos_rows:
        int64_t n_rows, n_features, value_bytes, index_bytes, indptr_bytes
        const void *values, *indices, *indptr

    int pegasos_rows_are_valid(const pegasos_rows *, int64_t)
    int64_t pegasos_take_rows(const pegasos_rows *, int64_t, const int64_t *, int64_t *, void *,
                              void *, int64_t *, int64_t *)

    ctypedef struct pegasos_word:
        pass

    int64_t pegasos_number_columns(const pegasos_rows *, int64_t, pegasos_word *, void *,
                                   int64_t *)

    ctypedef struct pegasos_progress:
        pass

    ctypedef struct pegasos_blas:
        void *dsyrk, *ssyrk, *dpotrf, *spotrf, *dpotrs, *spotrs, *dgemm, *sgemm

    ctypedef struct pegasos_threads:
        void (*run)(void *context, int64_t n_tasks,
                    void (*task)(void *argument, int64_t k) noexcept nogil,
                    void *argument) noexcept nogil
        void *context

    ctypedef struct pegasos_loss:
        int64_t kind
        double epsilon, nu

    ctypedef struct pegasos_problem:
        const pegasos_rows *rows
        const double *targets, *weights
        double lam
        pegasos_loss loss
        int64_t free_intercept
        double intercept_scaling

    int PEGASOS_AUTO, PEGASOS_ASCENT, PEGASOS_NEWTON

    ctypedef struct pegasos_options:
        double tol
        int64_t max_epochs
        uint64_t seed
        int64_t solver
        const pegasos_blas *blas
        const pegasos_threads *threads
        int (*poll)(void *context, const pegasos_progress *progress) noexcept nogil
        void *context
        double poll_every
        int64_t poll_epochs

    ctypedef struct pegasos_solution:
        const double *coef, *dual_variables
        double intercept, objective, relative_gap
        int64_t n_epochs, n_steps, first_solver, solver
        int64_t epochs[3]

    int PEGASOS_BEGIN, PEGASOS_BEGIN_AT_POINT, PEGASOS_GAP_CHECKED

    ctypedef struct pegasos_fit_header:
        int64_t value_bytes, pending

    int64_t pegasos_state_bytes(int64_t, int64_t)
    int64_t pegasos_scratch_bytes(const pegasos_rows *)
    double pegasos_estimated_seconds(const pegasos_rows *, pegasos_loss, int64_t)
    int pegasos_newton_uses_blas(int64_t)
    int pegasos_solve_one(const pegasos_problem *, const pegasos_options *, const int8_t *,
                          const double *, void *, void *)
    int64_t pegasos_squares_scratch_bytes(const pegasos_rows *, int64_t)
    int pegasos_solve_squares(int64_t, const pegasos_problem *, const pegasos_options *,
                              const int8_t *, const double *, void *, void *)
    void pegasos_fit_solution(int64_t, int64_t, void *, pegasos_solution *)
    void pegasos_set_point(int64_t, int64_t, void *, const double *, const double *, double,
                           const void *)
    int pegasos_memory_is_valid(const pegasos_problem *, int64_t, int64_t, int64_t, void *, int64_t)

    double PEGASOS_NUMBERS_PER_POLL
    int PEGASOS_NUMBERS_PER_CALL

    ctypedef struct pegasos_watch:
        int (*poll)(void *context, const pegasos_progress *progress) noexcept nogil
        void *context
        double every
        int64_t by_epochs

    int PEGASOS_HINGE, PEGASOS_SQUARED_HINGE, PEGASOS_MODIFIED_HUBER, PEGASOS_LOG_LOSS
    int PEGASOS_EPSILON_INSENSITIVE, PEGASOS_SQUARED_EPSILON_INSENSITIVE
    int PEGASOS_HUBER, PEGASOS_SQUARED_ERROR

    ctypedef struct pegasos_targets:
        int64_t n
        const int8_t *labels
        const double *values, *weights
        pegasos_loss loss

    int PEGASOS_PERMUTATION, PEGASOS_CYCLIC, PEGASOS_UNIFORM

    ctypedef struct pegasos_order:
        int64_t n_rows, next

    void pegasos_order_seek(pegasos_order *, uint64_t, int64_t, int64_t, int64_t, int64_t *)
    void pegasos_order_draw(pegasos_order *, int64_t *, int64_t, int64_t *)

    ctypedef struct pegasos_linear:
        double lam, weight_factor, intercept_scaling
        int64_t free_intercept
        double ball
        int64_t average_from, last_step, delay
        int64_t n_steps, next_draw, n_drawn, n_pending, n_violations
        double q, squared_norm
        int64_t n_norm_updates
        double constant_weight, intercept, rate_sum, constant_sum, intercept_sum
        int64_t n_averaged

    int PEGASOS_BUNDLE_BYTES

    ctypedef struct pegasos_linear_set:
        int64_t n_problems, batch_size, bundled
        pegasos_linear *problems
        pegasos_targets targets
        const double *epsilons
        void *weights, *sums
        double *counts
        int64_t *pending
        double *slopes

    ctypedef struct pegasos_draws:
        pegasos_order *order
        int64_t *permutation
        int64_t first, count
        const int64_t *list

    int pegasos_linear_train(const pegasos_rows *, const pegasos_linear_set *,
                             const pegasos_draws *, pegasos_watch *)
    void pegasos_linear_model(const pegasos_linear *, int64_t, int64_t, const void *, const void *,
                              double *, double *)
    void pegasos_linear_scores(const pegasos_rows *, int64_t, const int64_t *, int64_t, int64_t,
                               const void *, int64_t, int64_t, const double *, double *)
    void pegasos_linear_combine(const pegasos_rows *, int64_t, int64_t, const double *, double *)
    void pegasos_linear_squares(const pegasos_rows *, int64_t, int64_t, const double *, double *)
    void pegasos_linear_outer(const pegasos_rows *, int64_t, double, int64_t, double *)
    void pegasos_linear_norms(const pegasos_rows *, int64_t, int64_t, double *, double *)

    ctypedef struct pegasos_dual:
        double scale, intercept_scaling, intercept, factor
        uint64_t generator
        int64_t n_active, position, n_chosen, n_kept, n_moved
        double moved, mean_move, asleep, gap, constant_weight, squared_norm, constant_sum
        double pegasos_mass, weight_seen

    double pegasos_loss_sum(const pegasos_targets *, int64_t, int64_t, const double *, int64_t,
                            double)
    double pegasos_best_constant(const pegasos_targets *, double, double, double *)
    void pegasos_make_feasible(const pegasos_targets *, int64_t, const double *, double *)
    double pegasos_best_dual(const pegasos_targets *, const double *, double, double, double,
                             int64_t)

    int PEGASOS_DONE, PEGASOS_OVERFLOW, PEGASOS_STOPPED

    ctypedef struct pegasos_bundle:
        int64_t n_problems, last_epoch, free_intercept
        pegasos_dual *problems
        pegasos_targets targets
        const double *norms
        double *a
        void *v, *sums
        const int64_t *inside
        pegasos_order *order
        int64_t *permutation

    double pegasos_free_feature(double, double)
    int pegasos_dual_run_epochs(const pegasos_rows *, pegasos_dual *, const pegasos_targets *,
                                const double *, int64_t *, double *, double *, double *, int64_t,
                                pegasos_watch *)
    int64_t pegasos_bundle_run(const pegasos_rows *, const pegasos_bundle *, pegasos_watch *)
    void pegasos_bundle_change_lam(const pegasos_rows *, const pegasos_bundle *, const double *,
                                   const double *, const double *)

    int PEGASOS_LINEAR, PEGASOS_POLYNOMIAL, PEGASOS_SIGMOID, PEGASOS_GAUSSIAN, PEGASOS_LAPLACIAN

    ctypedef struct pegasos_kernel_function:
        int64_t kind
        double gamma, coef0
        int64_t degree

    ctypedef struct pegasos_subset:
        const pegasos_points *points
        int64_t first, count
        const int64_t *which

    ctypedef struct pegasos_points:
        pegasos_rows rows
        pegasos_kernel_function kernel
        const void *norms
        int64_t by_differences, by_panels, by_transpose
        pegasos_rows transpose
        int (*write)(const pegasos_subset *x, const pegasos_subset *z, int64_t stride,
                     void *out) noexcept nogil
        void *context

    ctypedef struct pegasos_workers:
        const pegasos_blas *blas
        const pegasos_threads *threads
        int64_t n_threads
        void *scratch
        pegasos_watch *watch

    int64_t pegasos_transpose_bytes(const pegasos_rows *)
    int64_t pegasos_transpose(const pegasos_subset *, void *, pegasos_rows *)
    int64_t pegasos_kernel_values_scratch_bytes(const pegasos_points *, const pegasos_points *,
                                                int64_t)

    ctypedef struct pegasos_source:
        const pegasos_points *x, *z
        const pegasos_workers *workers

    int pegasos_kernel_values(void *, int64_t, const int64_t *, int64_t, int64_t, const int64_t *,
                              int64_t, void *) noexcept

    ctypedef struct pegasos_columns:
        int64_t n_rows, value_bytes, n_columns
        void *columns
        int64_t *column_of, *n_kept
        int64_t is_all_at_once, is_symmetric, needs_full_rows, is_cheap
        int (*values)(void *context, int64_t count, const int64_t *rows, int64_t first, int64_t m,
                      const int64_t *which, int64_t stride, void *out) noexcept nogil
        void *context, *block
        const pegasos_workers *workers

    int64_t pegasos_columns_block(int64_t)
    int pegasos_columns_keep(pegasos_columns *, int64_t, const int64_t *)
    int pegasos_columns_values(pegasos_columns *, int64_t, const int64_t *, int64_t,
                               const int64_t *, int64_t, void *)
    int pegasos_columns_add(pegasos_columns *, int64_t, const int64_t *, int64_t, const double *,
                            int64_t, const int64_t *, int64_t, int64_t, double *)

    ctypedef struct pegasos_factor:
        pegasos_rows rows
        const double *norms
        void *memory, *scratch

    ctypedef struct pegasos_matrix:
        pegasos_columns *columns
        int64_t is_positive, is_narrow, rank
        int (*factor)(void *context, pegasos_factor *factor) noexcept nogil
        void *factor_context

    int64_t pegasos_kernel_scratch_bytes(int64_t, int64_t, int64_t)
    ctypedef struct pegasos_kernel_arrays:
        const double *scores

    pegasos_kernel_arrays pegasos_kernel_arrays_in(int64_t, void *)
    int pegasos_kernel_solve_one(const pegasos_matrix *, const pegasos_problem *,
                                 const pegasos_options *, const int8_t *, const double *, void *,
                                 void *)
    int pegasos_kernel_solve_part(const pegasos_matrix *, const pegasos_problem *,
                                  const pegasos_options *, const int8_t *, const double *, int64_t,
                                  const int64_t *, void *, void *)
    int64_t pegasos_kernel_part_bytes(int64_t, int64_t)
    int64_t pegasos_kernel_train_scratch_bytes(const pegasos_columns *, const pegasos_linear_set *)
    int pegasos_kernel_train(pegasos_columns *, const pegasos_linear_set *, double *, double *,
                             const pegasos_draws *, void *)

    ctypedef struct pegasos_kernel_models:
        int64_t n_problems
        pegasos_targets targets
        const double *epsilons, *lams, *masses
        int64_t free_intercept
        double intercept_scaling
        const double *coef, *intercepts, *dual_variables

    ctypedef struct pegasos_kernel_evidence:
        pegasos_columns *columns
        const pegasos_rows *rows
        const double *norms, *sizes, *errors, *float_errors
        double ridge
        int64_t is_positive
        int (*in_double)(void *context, int64_t n_x, const int64_t *x, int64_t n_z,
                         const int64_t *z, pegasos_columns **columns) noexcept nogil
        void *context
        int64_t most_in_double

    ctypedef struct pegasos_kernel_certificate:
        double objective, dual_value, dual_objective
        int64_t is_refuted

    int64_t pegasos_kernel_certificate_scratch_bytes(const pegasos_kernel_models *,
                                                     const pegasos_kernel_evidence *)
    int pegasos_kernel_certify(const pegasos_kernel_models *, const pegasos_kernel_evidence *,
                               void *, pegasos_kernel_certificate *)

    int PEGASOS_NEWTON_MAX_UNKNOWNS

cdef extern from "symmetric.h" nogil:
    bint symmetric_are_thin(const pegasos_rows *, int64_t, const int64_t *, int64_t, int64_t)

cdef extern from "loss.h" nogil:
    ctypedef struct loss_form:
        int64_t kind
        double lower, upper, dead, width

    loss_form form_of "loss_of"(pegasos_loss)
    bint loss_has_labels(int64_t)
    bint loss_has_epsilon(int64_t)
    bint loss_has_margin(loss_form)
    double rounding_of(pegasos_loss)
    double loss_curvature(loss_form)
    pegasos_targets targets_among(const pegasos_targets *, const double *, int64_t)

ctypedef fused value_t:
    float
    double

#: Bytes per feature of a bundle's weights; see ``pegasos_linear_set``.
BUNDLE_BYTES = PEGASOS_BUNDLE_BYTES

LOSSES = {
    "hinge": PEGASOS_HINGE,
    "squared_hinge": PEGASOS_SQUARED_HINGE,
    "modified_huber": PEGASOS_MODIFIED_HUBER,
    "log_loss": PEGASOS_LOG_LOSS,
    "epsilon_insensitive": PEGASOS_EPSILON_INSENSITIVE,
    "squared_epsilon_insensitive": PEGASOS_SQUARED_EPSILON_INSENSITIVE,
    "huber": PEGASOS_HUBER,
    "squared_error": PEGASOS_SQUARED_ERROR,
}
#: Losses that take targets in place of labels, and losses that have an epsilon.
TARGET_LOSSES = tuple(name for name, kind in LOSSES.items() if not loss_has_labels(kind))
EPSILON_LOSSES = tuple(name for name, kind in LOSSES.items() if loss_has_epsilon(kind))

SAMPLINGS = {
    "permutation": PEGASOS_PERMUTATION,
    "cyclic": PEGASOS_CYCLIC,
    "uniform": PEGASOS_UNIFORM,
}

cdef pegasos_linear _blank
cdef pegasos_kernel_certificate _blank_certificate
cdef object type_of_certificates = np.asarray(
    <pegasos_kernel_certificate[:1]> &_blank_certificate).dtype
#: Layout of the C struct of a problem.
PROBLEM = np.asarray(<pegasos_linear[:1]> &_blank).dtype


# ---- The gate ----------------------------------------------------------------------------------

# Counters stay below LARGEST, so that sums of two of them do not overflow.
cdef int64_t LARGEST = <int64_t>1 << 62


cdef int require(bint holds, str what) except -1:
    """Raise a ValueError unless `holds`."""
    if not holds:
        raise ValueError(what)
    return 0


cdef int require_indices(const int64_t[::1] indices, int64_t start, int64_t stop,
                         str what) except -1:
    """Raise a ValueError unless all `indices` are in [start, stop)."""
    cdef int64_t j
    cdef bint holds = True
    with nogil:
        for j in range(indices.shape[0]):
            holds &= start <= indices[j] < stop
    return require(holds, what)


cdef int require_aligned(const void *address, size_t bytes, str what) except -1:
    """Raise a ValueError unless the address is a multiple of `bytes`, as processors need it."""
    return require(<size_t>address % bytes == 0, what)


cpdef aligned_zeros(shape, dtype, str what=None):
    """Zeros that begin at a cache line: loads that straddle two lines cost a fifth more.

    If memory has no room, the error says `what` they are; None: NumPy's error.
    """
    try:
        raw = np.zeros(np.dtype(dtype).itemsize * math.prod(shape) + PEGASOS_BUNDLE_BYTES, np.uint8)
    except (MemoryError, ValueError):  # a ValueError if no memory could have the room
        if what is None:
            raise
        raise MemoryError(f"{what} memory has room for") from None
    cdef uint8_t[::1] bytes = raw
    cdef int64_t skip = -<size_t> &bytes[0] % PEGASOS_BUNDLE_BYTES
    # Not by np.ndarray, whose array would be read-only where memory runs out.
    return raw[skip:skip + raw.size - PEGASOS_BUNDLE_BYTES].view(dtype).reshape(shape)


cdef class Room:
    """Memory for the core to work in, during one call."""
    cdef void *at

    def __cinit__(self, int64_t n_bytes):
        self.at = malloc(<size_t> max(n_bytes, 1))
        if self.at == NULL:
            raise MemoryError(f"there is no room for {n_bytes} bytes that this takes")

    def __dealloc__(self):
        free(self.at)


cdef pegasos_loss loss_of(loss) except *:
    """The loss with this number of `LOSSES`, or with (number, epsilon) or (number, epsilon, nu)."""
    cdef pegasos_loss c
    c.kind, c.epsilon, c.nu = (*loss, 0.0)[:3] if isinstance(loss, tuple) else (loss, 0.0, 0.0)
    require(c.kind in LOSSES.values(), "loss must be one of LOSSES")
    require(0 <= c.epsilon <= 1e150 if loss_has_epsilon(c.kind) else c.epsilon == 0,
            "epsilon must be in [0, 1e150], and 0 for losses that have none")
    require(c.kind != PEGASOS_HUBER or c.epsilon > 1e-300, "epsilon of this loss must be above 0")
    require(c.nu == 0 or (c.kind == PEGASOS_HINGE and 0 < c.nu <= 1),
            "nu must be 0, or in (0, 1] for the hinge")
    return c


def about_loss(str name, double epsilon=0.0):
    """Facts of ``csrc/loss.h`` about a loss: attributes of a `Loss` of `problems/_losses.py`."""
    cdef pegasos_loss loss = pegasos_loss(kind=LOSSES[name], epsilon=epsilon, nu=0)
    cdef loss_form form = form_of(loss)
    return {
        "dual_lower": form.lower, "dual_upper": form.upper, "dead": form.dead, "width": form.width,
        "curvature": loss_curvature(form), "has_margin": bool(loss_has_margin(form)),
        "rounding": rounding_of(loss),
    }


cdef int require_positive(const double[::1] numbers, int64_t n_problems, str name) except -1:
    """Raise a ValueError unless there is a finite number > 0 for each problem."""
    cdef int64_t k
    cdef bint holds = numbers.shape[0] == n_problems
    for k in range(numbers.shape[0]):
        holds &= numbers[k] > 0 and numbers[k] - numbers[k] == 0
    return require(holds, name + " must have a finite number > 0 for each problem")


cdef int require_problems(const pegasos_linear[::1] problems, int64_t batch_size,
                          bint has_sums) except -1:
    """Raise a ValueError unless training can reach the counters of `problems`."""
    cdef int64_t k
    cdef const pegasos_linear *p
    cdef bint holds = problems.shape[0] >= 1
    for k in range(problems.shape[0]):
        p = &problems[k]
        holds &= 0 <= p.delay < LARGEST
        holds &= 0 < p.lam and 0 < p.q
        holds &= 0 <= p.n_pending <= p.n_drawn and (p.n_drawn < batch_size or batch_size == 0)
        holds &= 0 <= p.n_steps < LARGEST and 0 <= p.next_draw < LARGEST
        holds &= 0 <= p.last_step < LARGEST and 0 <= p.average_from < LARGEST
        holds &= 0 <= p.n_averaged <= p.n_steps
        holds &= has_sums or (p.average_from == 0 and p.n_averaged == 0 and p.rate_sum == 0)
    return require(holds, "problems are not in a state that training can reach")


include "_interrupts.pxi"
include "_sharing.pxi"


# ---- Being asked -------------------------------------------------------------------------------

cdef int poll(void *context, const pegasos_progress *progress) noexcept nogil:
    with gil:
        return (<Watch> context).ask()


class TooLargeError(ArithmeticError):
    """Numbers of a fit overflow."""


cdef class Watch:
    """A run of the core asks it now and then whether to go on.

    Each time the core has read `every` numbers and, with `by_epochs`, at the end of every epoch,
    `on_poll` is called and Ctrl-C is handled. An exception there stops the run, which goes on from
    there when it is called again. Only the main thread handles Ctrl-C. In other threads without
    `on_poll`, the core does not ask, so it does not wait for the interpreter's lock.
    """
    cdef pegasos_watch c
    cdef object on_poll, error

    def __init__(self, on_poll=None, *, double every=PEGASOS_NUMBERS_PER_POLL,
                 bint by_epochs=False):
        require(0 < every <= 1e18, "every must be in (0, 1e18]")
        self.on_poll = on_poll
        if on_poll is not None or PyThread_get_thread_ident() == threading.main_thread().ident:
            self.c.poll = poll
        self.c.context = <void *> self
        self.c.every = every
        self.c.by_epochs = by_epochs

    cdef int ask(self) noexcept:
        try:
            PyErr_CheckSignals()
            if self.on_poll is not None:
                self.on_poll()
            return 0
        # No `return` or `with`: Cython would make a traceback, for which there may be no memory.
        except BaseException as error:
            self.error = error
        return 1

    cdef int answer(self, int64_t status) except -1:
        """Raise the error that stopped a run, or a `TooLargeError` if its numbers overflow."""
        error, self.error = self.error, None
        if status == PEGASOS_STOPPED:
            raise error
        if status == PEGASOS_OVERFLOW:
            raise TooLargeError
        return 0


cdef const void *numbers_of(view, int n_axes, str formats, str name) except? NULL:
    """The address of the numbers of a memoryview, which must have one of these formats."""
    cdef Py_buffer buffer
    require(view.ndim == n_axes and view.c_contiguous and view.format in formats,
            name + " must be contiguous, of its type and number of axes")
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    cdef const void *numbers = buffer.buf
    PyBuffer_Release(&buffer)  # `view` keeps the memory
    # An array without entries may lie anywhere.
    require_aligned(numbers if view.nbytes else NULL, view.itemsize, name + " must be aligned")
    return numbers


cdef class Rows:
    """The rows of X, not copied: a dense array, or the values, indices and indptr of CSR rows.

    Values are float32 or float64, indices int32 or int64. CSR rows need `n_features`.
    """
    cdef pegasos_rows c
    cdef readonly tuple arrays
    """The memory, which this object keeps alive."""

    cdef readonly int64_t size
    """The number of stored numbers."""

    cdef object norms, crc
    cdef list places  # arrays of -1 for each feature, which no call of `part` uses at present

    def __cinit__(self, values not None, indices=None, indptr=None, int64_t n_features=0):
        cdef bint is_dense = indptr is None
        cdef int is_valid
        cdef list views = [memoryview(values)]
        if not is_dense:
            views += [memoryview(indices), memoryview(indptr)]
        self.arrays, self.c.value_bytes = tuple(views), views[0].itemsize
        self.places = []
        self.c.values = numbers_of(views[0], 2 if is_dense else 1, "fd", "values")
        if is_dense:
            require(indices is None and n_features == 0, "CSR rows have indptr")
            self.c.n_rows, self.c.n_features = views[0].shape
            self.size = self.c.n_rows * self.c.n_features
            require(self.size >= 1, "values must not be empty")
            return
        self.c.indices = numbers_of(views[1], 1, "ilq", "indices")
        self.c.indptr = numbers_of(views[2], 1, "ilq", "indptr")
        self.c.index_bytes, self.c.indptr_bytes = views[1].itemsize, views[2].itemsize
        self.c.n_rows, self.c.n_features, self.size = len(views[2]) - 1, n_features, len(views[0])
        require(self.c.n_rows >= 1 and n_features >= 1, "there must be rows and features")
        cdef int64_t n_values = min(self.size, <int64_t> len(views[1]))
        with nogil:
            is_valid = pegasos_rows_are_valid(&self.c, n_values)
        require(is_valid, "indices and indptr must describe a matrix: offsets that never decrease "
                "and end within the values, columns in [0, n_features)")

    @property
    def shape(self):
        return self.c.n_rows, self.c.n_features

    @property
    def value_bytes(self):
        """Bytes of a value, 4 or 8."""
        return self.c.value_bytes

    @property
    def is_sparse(self):
        """Whether these are CSR rows."""
        return self.c.index_bytes > 0

    @property
    def checksum(self):
        """A CRC-32 of the arrays, computed once: it finds mistakes but proves nothing."""
        if self.crc is None:
            crc = 0
            for array in self.arrays:
                numbers = np.asarray(array).reshape(-1).view(np.uint8)
                for first in range(0, len(numbers), 2**24):
                    PyErr_CheckSignals()
                    crc = zlib.crc32(numbers[first:first + 2**24], crc)
            self.crc = crc
        return self.crc

    cdef Rows in_double(self, which):
        """Some of the rows, with values of float64."""
        if self.c.index_bytes == 0:
            return Rows(np.asarray(self.arrays[0])[which].astype(np.float64))
        cdef int64_t size = self.size_of(which)
        values, indices = (np.empty(size, of.format) for of in self.arrays[:2])
        ends = self.take(which, values, indices)
        return Rows(values.astype(np.float64), indices, ends, self.c.n_features)

    cdef int64_t piece(self, double n_passes) noexcept:
        """The number of rows that are read between two checks for Ctrl-C."""
        cdef double n = <double> self.c.n_rows
        cdef double numbers = n_passes * (<double> self.size / n + PEGASOS_NUMBERS_PER_CALL)
        return <int64_t> max(1.0, min(PEGASOS_NUMBERS_PER_POLL / numbers, n))

    def seconds(self, loss, int64_t solver):
        """Seconds that ASCENT or NEWTON is likely to take; see ``pegasos_estimated_seconds``."""
        require(solver == PEGASOS_ASCENT or solver == PEGASOS_NEWTON, "solver must be one")
        return pegasos_estimated_seconds(&self.c, loss_of(loss), solver)

    def squared_norms(self, count=None):
        """|x_i|^2 of the first `count` rows, read-only; None: of all rows, computed once."""
        cdef int64_t n = self.c.n_rows if count is None else min(count, self.c.n_rows)
        cdef int64_t first, size, piece = self.piece(1)
        cdef double[::1] out, scratch
        if self.norms is not None:
            return self.norms[:n]
        require(n >= 1, "count must be at least 1")
        norms = np.empty(n)
        try:  # zeros, if columns that are stored twice are summed
            out, scratch = norms, np.zeros(self.c.n_features if self.is_sparse else 1)
        except (MemoryError, ValueError):
            raise MemoryError(f"X has {self.c.n_features} features, more than memory has room for "
                              "when its rows are measured") from None
        for first in range(0, n, piece):
            PyErr_CheckSignals()
            size = min(piece, n - first)
            with nogil:
                pegasos_linear_norms(&self.c, first, size, &scratch[0], &out[first])
        norms.flags.writeable = False
        if n == self.c.n_rows:
            self.norms = norms
        return norms

    def combine(self, const double[:, ::1] factors not None, bint squared=False):
        """Sums of the rows, or of their squared numbers, weighted by each row of `factors`."""
        sums = np.zeros((factors.shape[0], self.c.n_features))
        cdef double[:, ::1] out = sums
        cdef int64_t k, first, size, piece = self.piece(1)
        require(factors.shape[1] == self.c.n_rows, "factors must have n_rows columns")
        for k in range(factors.shape[0]):
            for first in range(0, self.c.n_rows, piece):
                PyErr_CheckSignals()
                size = min(piece, self.c.n_rows - first)
                with nogil:
                    if squared:
                        pegasos_linear_squares(&self.c, first, size, &factors[k, first], &out[k, 0])
                    else:
                        pegasos_linear_combine(&self.c, first, size, &factors[k, first], &out[k, 0])
        return sums

    def add_products(self, const double[:, ::1] factors not None, double[:, :, ::1] sums not None):
        """If rows are thin (``symmetric.h``), add their x_i x_i^T times each of `factors`."""
        cdef int64_t k, first, i, n = self.c.n_rows, d = self.c.n_features, stride = sums.shape[2]
        cdef int64_t piece = self.piece(1 + <double> self.size / n)
        require(factors.shape[1] == n and sums.shape[0] == factors.shape[0]
                and min(sums.shape[1], stride) >= d,
                "factors must have n_rows columns, and sums room for a matrix of each")
        if not symmetric_are_thin(&self.c, 0, NULL, n, stride):
            return False
        for k in range(factors.shape[0]):
            for first in range(0, n, piece):
                PyErr_CheckSignals()
                with nogil:
                    for i in range(first, min(first + piece, n)):
                        if factors[k, i] != 0:
                            pegasos_linear_outer(&self.c, i, factors[k, i], stride, &sums[k, 0, 0])
        return True

    cdef int64_t size_of(self, const int64_t[::1] which) except -1:
        """The number of stored numbers in some rows."""
        cdef int64_t size = 0, t
        require_indices(which, 0, self.c.n_rows, "which must be in [0, n_rows)")
        if self.c.index_bytes == 0:
            return which.shape[0] * self.c.n_features
        for t in range(which.shape[0]):
            size += offset_of(self, which[t] + 1) - offset_of(self, which[t])
        return size

    def take(self, const int64_t[::1] which not None, values not None, indices not None):
        """Copy some rows into arrays of their types; returns where each begins and ends.

        If `which` grows, the arrays may be those of these rows. See ``pegasos_take_rows``.
        """
        cdef int64_t count = which.shape[0], size = self.size_of(which)
        cdef uint8_t[::1] of_values = values.view(np.uint8), of_indices = indices.view(np.uint8)
        cdef int64_t[::1] offsets = np.zeros(count + 1, np.int64)
        require(values.itemsize == self.c.value_bytes and values.shape[0] >= size
                and (self.c.index_bytes == 0 or (indices.itemsize == self.c.index_bytes
                                                 and indices.shape[0] >= size)),
                "values and indices must have the types of the rows, and room for their numbers")
        if size > 0:
            with nogil:
                pegasos_take_rows(&self.c, count, &which[0], NULL, &of_values[0],
                                  &of_indices[0] if self.c.index_bytes else NULL, &offsets[0], NULL)
        return np.asarray(offsets)

    def part(self, const int64_t[::1] which not None):
        """Copies of some rows, with the features that are stored in them; and these features.

        None in place of all features. See ``pegasos_take_rows``.
        """
        cdef int64_t count = which.shape[0], size = self.size_of(which), n_columns = 0
        require(count >= 1, "there must be rows")
        if self.c.index_bytes == 0:
            return Rows(np.asarray(self.arrays[0])[which]), None
        try:
            free = self.places.pop()
        except IndexError:
            free = np.full(self.c.n_features, -1, np.int64)
        cdef int64_t[::1] places = free
        # At least one entry, because the core needs an address.
        values = np.zeros(max(size, 1), f"f{self.c.value_bytes}")
        indices = np.zeros(max(size, 1), f"i{self.c.index_bytes}")
        indptr = np.zeros(count + 1, np.int64)
        columns = np.zeros(max(min(size, self.c.n_features), 1), np.int64)
        cdef uint8_t[::1] of_values = values.view(np.uint8), of_indices = indices.view(np.uint8)
        cdef int64_t[::1] of_rows = indptr, of_features = columns
        if size > 0:
            with nogil:
                n_columns = pegasos_take_rows(&self.c, count, &which[0], &places[0], &of_values[0],
                                              &of_indices[0], &of_rows[0], &of_features[0])
        self.places.append(free)
        n_columns = max(n_columns, 1)
        return Rows(values, indices, indptr, n_columns), columns[:n_columns].copy()

    def without_empty_columns(self, int64_t most):
        """CSR rows with only the columns stored in them, and these; None if more than `most`."""
        cdef int64_t size = offset_of(self, self.c.n_rows), n
        require(self.c.index_bytes > 0 and size > 0, "there must be CSR rows with numbers")
        values, _, indptr = self.arrays
        indices = np.zeros(size, f"i{self.c.index_bytes}")
        columns = np.empty(max(min(most, size), 1), np.int64)
        words = np.zeros((self.c.n_features + 63) // 64 * sizeof(pegasos_word), np.uint8)
        cdef uint8_t[::1] of_indices = indices.view(np.uint8), of_words = words
        cdef int64_t[::1] of_columns = columns
        with nogil:
            n = pegasos_number_columns(&self.c, most, <pegasos_word *> &of_words[0],
                                       &of_indices[0], &of_columns[0])
        return (Rows(values, indices, indptr, n), columns[:n].copy()) if n <= most else None


cdef int64_t offset_of(Rows rows, int64_t i) noexcept:
    """The place where CSR row `i` begins."""
    if rows.c.indptr_bytes == 4:
        return (<const int32_t *> rows.c.indptr)[i]
    return (<const int64_t *> rows.c.indptr)[i]


cdef class Order:
    """Draws number `next`, `next` + 1, ... of the stream given by `seed` and `sampling`."""
    cdef pegasos_order c
    cdef int64_t[::1] permutation

    def __init__(self, uint64_t seed, int64_t[::1] permutation not None, int64_t sampling,
                 int64_t next):
        require(permutation.shape[0] >= 1, "permutation must have room for one row at least")
        require(sampling in SAMPLINGS.values(), "sampling must be one of SAMPLINGS")
        require(0 <= next < LARGEST, "next must be in [0, 2**62)")
        self.permutation = permutation
        with nogil:
            pegasos_order_seek(&self.c, seed, permutation.shape[0], sampling, next,
                               &permutation[0])

    def draw(self, int64_t[::1] draws not None):
        """Fill `draws` with the next draws."""
        require(self.permutation is not None, "an order must be made before it is drawn from")
        if draws.shape[0] == 0:
            return
        with nogil:
            pegasos_order_draw(&self.c, &self.permutation[0], draws.shape[0], &draws[0])


cdef class Targets:
    """Problems over the same rows, without the rows; their losses are of one kind.

    `labels`, of shape (n_problems, n_rows), are -1 or 1, or 0 for rows outside a problem. Losses
    that take targets have them in `values`, of the same shape, and labels 0 and 1. `row_weights`,
    of shape (n_rows,), may be None. `loss` is a number of `LOSSES`, or a tuple of a number, epsilon
    and, for one class, nu. `epsilons`, of shape (n_problems,), replace that one epsilon. `lams` has
    λ of each problem; None: all are 1.
    """
    cdef pegasos_targets c
    cdef const double *epsilons
    cdef const double[::1] lams
    cdef double intercept_scaling
    cdef bint free_intercept
    cdef int64_t n_problems
    cdef readonly object masses
    """The sum of the weights of each problem's rows, added in order; 1 without rows."""
    cdef readonly tuple arrays
    """The memory, which this object keeps alive."""

    def __cinit__(self, const int8_t[:, ::1] labels not None, const double[::1] row_weights=None,
                  loss=PEGASOS_HINGE, const double[:, ::1] values=None,
                  const double[::1] epsilons=None, *, const double[::1] lams=None,
                  double intercept_scaling=0, bint free_intercept=False):
        self.n_problems, self.c.n = labels.shape[0], labels.shape[1]
        require(self.n_problems >= 1 and self.c.n >= 1, "labels must not be empty")
        self.c.loss = loss_of(loss)
        if epsilons is not None:
            require(epsilons.shape[0] == self.n_problems, "epsilons must be of n_problems")
            for epsilon in epsilons:
                loss_of((self.c.loss.kind, epsilon, self.c.loss.nu))
            self.epsilons = &epsilons[0]
        require(row_weights is None or row_weights.shape[0] == self.c.n,
                "row_weights must have n_rows entries")
        require((values is None) == loss_has_labels(self.c.loss.kind),
                "values must be given for losses that take targets, and no others")
        require(values is None or (values.shape[0] == self.n_problems
                                   and values.shape[1] == self.c.n),
                "values must have the shape of labels")
        # Copied, so that it stays as it was checked.
        self.lams = np.ones(self.n_problems) if lams is None else np.array(lams)
        require_positive(self.lams, self.n_problems, "lams")
        require(0 <= intercept_scaling <= 1e150, "intercept_scaling must be in [0, 1e150]")
        require(not (free_intercept and intercept_scaling), "a free intercept has no scaling")
        require(free_intercept or self.c.loss.nu == 0, "one class has a free intercept")
        self.intercept_scaling, self.free_intercept = intercept_scaling, free_intercept
        self.c.labels = &labels[0, 0]
        self.c.values = NULL if values is None else &values[0, 0]
        self.c.weights = NULL if row_weights is None else &row_weights[0]
        self.arrays = (labels, row_weights, values, epsilons)
        self.masses = self.sum_up()

    cdef pegasos_targets of(self, int64_t k) noexcept nogil:
        """The targets of problem `k`."""
        return targets_among(&self.c, self.epsilons, k)

    cdef pegasos_problem problem(self, int64_t k, const pegasos_rows *rows) noexcept nogil:
        """Problem `k` over rows; its labels are those of ``self.of(k)``."""
        cdef pegasos_targets own = self.of(k)
        cdef pegasos_problem problem
        memset(&problem, 0, sizeof(problem))
        problem.rows = rows
        problem.targets, problem.weights, problem.loss = own.values, own.weights, own.loss
        problem.lam, problem.intercept_scaling = self.lams[k], self.intercept_scaling
        problem.free_intercept = self.free_intercept
        return problem

    cdef object sum_up(self):
        cdef double[::1] masses = np.empty(self.n_problems)
        cdef double mass
        cdef int64_t k, i, n = self.c.n
        for k in range(self.n_problems):
            mass = 0
            with nogil:
                for i in range(n):
                    if self.c.labels[k * n + i] != 0:
                        mass += 1 if self.c.weights == NULL else self.c.weights[i]
            masses[k] = 1 if mass == 0 else mass
        require_positive(masses, self.n_problems, "masses")
        found = np.asarray(masses)
        found.setflags(write=False)
        return found

    cdef int require_rows(self, const double[:, :] array, str name) except -1:
        return require(array.shape[0] == self.n_problems and array.shape[1] == self.c.n,
                       name + " must have the shape of labels")

    # Computations that need no rows. Ctrl-C is handled between problems.

    def constants(self, const double[::1] penalties not None):
        """The best models with w = 0, and their objectives; see ``pegasos_best_constant``."""
        best, least = np.empty((2, self.n_problems))
        cdef double[::1] of_best = best, of_least = least
        cdef const double[::1] masses = self.masses
        cdef pegasos_targets own
        cdef int64_t k
        require(penalties.shape[0] == self.n_problems, "penalties must be of n_problems")
        for k in range(self.n_problems):
            PyErr_CheckSignals()
            require(penalties[k] >= 0, "penalties must be >= 0")
            own = self.of(k)
            with nogil:
                of_best[k] = pegasos_best_constant(&own, masses[k], penalties[k], &of_least[k])
        return best, least

    def feasible(self, const double[:, ::1] a not None, bint balance):
        """Dual variables within their bounds; see ``pegasos_make_feasible``."""
        made = np.empty((self.n_problems, self.c.n))
        cdef double[:, ::1] of_made = made
        cdef pegasos_targets own
        cdef int64_t k
        self.require_rows(a, "a")
        for k in range(self.n_problems):
            PyErr_CheckSignals()
            own = self.of(k)
            with nogil:
                pegasos_make_feasible(&own, balance, &a[k, 0], &of_made[k, 0])
        return made

    def parts(self, const double[:, ::1] a not None):
        """Terms of rows in m D(a), without those of |w(a)|^2; see ``pegasos_best_dual``."""
        parts = np.empty(self.n_problems)
        cdef double[::1] of_parts = parts
        cdef pegasos_targets own
        cdef int64_t k
        self.require_rows(a, "a")
        for k in range(self.n_problems):
            PyErr_CheckSignals()
            own = self.of(k)
            with nogil:
                of_parts[k] = pegasos_best_dual(&own, &a[k, 0], 0, 1, 1, False)
        return parts


# ---- Linear problems ---------------------------------------------------------------------------


cdef pegasos_draws draws_of(draws, int64_t first, int64_t n,
                            const pegasos_linear[::1] problems) except *:
    """Draws from number `first` on, from an `Order` that has got so far, or from a list."""
    cdef const int64_t[::1] chosen
    cdef pegasos_draws source
    cdef Order order
    cdef int64_t k
    memset(&source, 0, sizeof(source))
    source.first = first
    require(0 <= first < LARGEST, "first must be in [0, 2**62)")
    for k in range(problems.shape[0]):  # draws before `first` are not available
        require(problems[k].next_draw >= first or problems[k].n_steps >= problems[k].last_step,
                "first must not be beyond what a problem reads next")
    if isinstance(draws, Order):
        order = draws
        require(order.permutation is not None and order.c.n_rows == n and order.c.next == first,
                "the order must be of n_rows rows, and stand at first")
        source.order, source.permutation = &order.c, &order.permutation[0]
        return source
    chosen = draws
    require_indices(chosen, 0, n, "draws must be in [0, n_rows)")
    source.count, source.list = chosen.shape[0], &chosen[0] if chosen.shape[0] else NULL
    return source


cdef class Pegasos:
    """Problems and the state of Pegasos on them; see ``pegasos_linear_set``.

    `weights` and `sums` have a row of features for each problem or, for kernel machines, a row of
    n_rows float64 numbers. `counts` has a number for each row of X. `sums` and `counts` may be
    None; so may `slopes`, shaped like `pending`, for the hinge or a bundle. Runs update in place.
    """
    cdef pegasos_linear_set c
    cdef pegasos_linear[::1] problems
    cdef int64_t[:, ::1] pending
    cdef int64_t value_bytes, width, n_counted
    cdef tuple arrays
    cdef list trained

    def __init__(self, pegasos_linear[::1] problems not None, weights not None, sums,
                 double[:, ::1] counts, int64_t[:, ::1] pending not None,
                 double[:, ::1] slopes=None):
        cdef int64_t n_problems = problems.shape[0]
        self.trained = [weights] if sums is None else [weights, sums]
        cdef list views = [memoryview(array) for array in self.trained]
        self.c.weights = <void *> numbers_of(views[0], 2, "fd", "weights")
        self.value_bytes, (n_rows, self.width) = views[0].itemsize, views[0].shape
        require(n_rows == n_problems >= 1 and self.width >= 1,
                "weights must have one row for each problem")
        if sums is not None:
            self.c.sums = <void *> numbers_of(views[1], 2, views[0].format, "sums")
            require(views[1].shape == views[0].shape, "sums must have the shape of weights")
        require(not any(view.readonly for view in views), "weights and sums must be writeable")
        require(pending.shape[0] == n_problems and pending.shape[1] >= 1,
                "pending must have shape (n_problems, batch_size)")
        require(counts is None or counts.shape[0] == n_problems,
                "counts must have shape (n_problems, n_rows)")
        require(slopes is None or (slopes.shape[0] == n_problems
                                   and slopes.shape[1] == pending.shape[1]),
                "slopes must have the shape of pending")
        self.problems, self.pending, self.arrays = problems, pending, (*views, counts, slopes)
        self.n_counted = 0 if counts is None else counts.shape[1]
        self.c.n_problems, self.c.batch_size = n_problems, pending.shape[1]
        self.c.problems, self.c.pending = &problems[0], &pending[0, 0]
        self.c.counts = NULL if counts is None else &counts[0, 0]
        self.c.slopes = NULL if slopes is None else &slopes[0, 0]

    cdef pegasos_linear_set over(self, int64_t n, Targets targets, bint bundled) except *:
        """The set over n rows; a ValueError unless it can go on with them."""
        cdef pegasos_linear_set set = self.c
        cdef int64_t k
        require_problems(self.problems, set.batch_size, set.sums != NULL)
        require(targets.n_problems == set.n_problems and targets.c.n == n,
                "targets must be of n_problems and n_rows")
        require(set.counts == NULL or self.n_counted == n,
                "counts must have shape (n_problems, n_rows)")
        require(bundled or set.slopes != NULL or targets.c.loss.kind == PEGASOS_HINGE,
                "this loss needs slopes")
        for k in range(set.n_problems):
            require_indices(self.pending[k, :self.problems[k].n_pending], 0, n,
                            "pending must be in [0, n_rows)")
        set.targets, set.epsilons, set.bundled = targets.c, targets.epsilons, bundled
        return set

    def run(self, Rows rows not None, Targets targets not None, int64_t first, draws not None,
            Watch watch not None, bint bundled=False):
        """Go on over draws number `first`, `first` + 1, ...; see ``pegasos_linear_train``.

        All problems go to their last steps, or to the end of `draws`, an array or an `Order` that
        is at `first`. During the run, the weights of a bundle are interleaved.
        """
        cdef int64_t n = rows.c.n_rows, d = rows.c.n_features, k, bytes = rows.c.value_bytes
        cdef int status
        cdef uint8_t[::1] room
        lanes = ()
        cdef pegasos_linear_set set = self.over(n, targets, bundled)
        cdef pegasos_draws source = draws_of(draws, first, n, self.problems)
        require(self.value_bytes == bytes and self.width == d,
                "weights must have n_features columns, and the type of the rows")
        if bundled:
            require(rows.c.index_bytes > 0 and set.n_problems <= PEGASOS_BUNDLE_BYTES // bytes
                    and set.batch_size == 1, "a bundle is of CSR rows, and of one draw a step")
            for k in range(set.n_problems):
                require(self.problems[k].ball == 0, "a bundle does not project")
            require(targets.c.values == NULL, "a bundle has labels")
            bundle = aligned_zeros((len(self.trained), d, PEGASOS_BUNDLE_BYTES // bytes),
                                   self.trained[0].dtype)
            lanes = bundle[:, :, :set.n_problems].transpose(0, 2, 1)
            for k in range(len(lanes)):
                lanes[k] = self.trained[k]
            room = bundle.view(np.uint8).ravel()
            set.weights = &room[0]
            if set.sums != NULL:
                set.sums = &room[d * PEGASOS_BUNDLE_BYTES]
        with nogil:
            status = pegasos_linear_train(&rows.c, &set, &source, &watch.c)
        for k in range(len(lanes)):
            self.trained[k][:] = lanes[k]
        watch.answer(status)

    def run_kernel(self, Columns columns not None, Targets targets not None,
                   double[:, ::1] scores not None, double[:, ::1] unpushed not None,
                   int64_t first, draws not None, Watch watch not None):
        """Go on with kernel problems over draws, as `run` does; see ``pegasos_kernel_train``.

        `scores` and `unpushed` have shape (n_problems, n_rows).
        """
        cdef int64_t n = columns.c.n_rows
        cdef int status
        cdef pegasos_linear_set set = self.over(n, targets, False)
        cdef pegasos_draws drawn = draws_of(draws, first, n, self.problems)
        cdef Work work
        cdef Room room
        require(columns.c.column_of != NULL and self.value_bytes == 8 and self.width == n,
                "weights must have n_rows columns, of float64, and columns column_of")
        require(scores.shape[0] == unpushed.shape[0] == set.n_problems
                and scores.shape[1] == unpushed.shape[1] == n,
                "scores and unpushed must have shape (n_problems, n_rows)")
        work = Work.of(watch, 1, columns)
        room = Room(pegasos_kernel_train_scratch_bytes(&work.columns, &set))
        with nogil:
            status = pegasos_kernel_train(&work.columns, &set, &scores[0, 0], &unpushed[0, 0],
                                          &drawn, room.at)
        work.end(status)

    def model(self):
        """Coefficients and intercepts of every problem: of its last iterate, or its average."""
        cdef int64_t k, bytes = self.width * self.value_bytes
        coef, intercept = np.empty((self.c.n_problems, self.width)), np.empty(self.c.n_problems)
        cdef double[:, ::1] of_coef = coef
        cdef double[::1] of_intercept = intercept
        require_problems(self.problems, 0, self.c.sums != NULL)
        for k in range(self.c.n_problems):
            pegasos_linear_model(&self.problems[k], self.width, self.value_bytes,
                                 <const uint8_t *> self.c.weights + k * bytes,
                                 NULL if self.c.sums == NULL
                                 else <const uint8_t *> self.c.sums + k * bytes,
                                 &of_coef[k, 0], &of_intercept[k])
        return coef, intercept


# ---- Passes over rows --------------------------------------------------------------------------


cdef int require_coefficients(Rows rows, const value_t[:, ::1] coef, const double[::1] intercept,
                              int64_t n_problems, int64_t n_groups, bint interleaved) except -1:
    """Raise a ValueError unless these are coefficients and intercepts of groups of problems."""
    cdef int64_t d = rows.c.n_features
    require(sizeof(value_t) == sizeof(double) or sizeof(value_t) == rows.c.value_bytes,
            "coef must be float64, or of the type of the rows")
    require(n_problems >= 1 and intercept.shape[0] == n_groups * n_problems,
            "intercept must have one entry for each problem")
    require(coef.shape[0] == n_groups * (d if interleaved else n_problems)
            and coef.shape[1] == (n_problems if interleaved else d),
            "coef must have shape (n_problems, n_features), or its transpose's if interleaved")
    require_aligned(&coef[0, 0], sizeof(value_t), "coef must be aligned")
    return require_aligned(&intercept[0], sizeof(double), "intercept must be aligned")


def decision_function(Rows rows not None, const value_t[:, ::1] coef not None,
                      const double[::1] intercept not None, bint interleaved=False,
                      const int64_t[::1] which=None, const int64_t[::1] ends=None):
    """Scores of rows number `which`, or of all rows, of shape (n_rows, n_problems).

    `coef` is float64 or of the rows' type and has a row for each problem or, if `interleaved`, for
    each feature. With `ends`, `coef` and `intercept` have as many groups of problems, one after the
    other; group g scores the rows ``which[ends[g - 1]:ends[g]]``. Ctrl-C is handled now and then.
    """
    cdef int64_t n_groups = 1 if ends is None else ends.shape[0], d = rows.c.n_features
    cdef int64_t n_problems = intercept.shape[0] // max(n_groups, 1), g, first, last = 0, end, count
    cdef int64_t n = rows.c.n_rows if which is None else which.shape[0]
    cdef int64_t piece = rows.piece(<double> max(n_problems, 1))
    cdef int64_t apart = d if interleaved else n_problems  # rows of `coef` of a group
    require_coefficients(rows, coef, intercept, n_problems, n_groups, interleaved)
    scores = np.empty((n, n_problems))
    cdef double[:, ::1] out = scores
    if which is not None:
        require_indices(which, 0, rows.c.n_rows, "which must be in [0, n_rows)")
    for g in range(n_groups):
        first, end = last, n if ends is None else ends[g]
        require(first <= end <= n and (g < n_groups - 1 or end == n),
                "ends must grow to the number of rows that are scored")
        for first in range(first, end, piece):
            PyErr_CheckSignals()
            count = min(piece, end - first)
            with nogil:
                pegasos_linear_scores(&rows.c, first, NULL if which is None else &which[first],
                                      count, n_problems, &coef[g * apart, 0], sizeof(value_t),
                                      interleaved, &intercept[g * n_problems], &out[first, 0])
        last = end
    return scores


# ---- The certificate ---------------------------------------------------------------------------


# A certificate reads this many rows from memory once, and finds sums of dense rows for this many
# problems together. Sums of sparse rows for one problem need the caches for themselves.
cdef enum:
    ROWS_OF_BLOCK = 256
    PROBLEMS_OF_BLOCK = 16


cdef object squared_norms_of(const double[:, ::1] coef, int64_t n_problems, bint interleaved):
    """|w|^2 of every problem, without the intercept."""
    cdef int64_t d = coef.shape[0 if interleaved else 1], k, j
    cdef int64_t apart = n_problems if interleaved else 1
    squared_norms = np.zeros(n_problems)
    cdef double[::1] out = squared_norms
    cdef const double *w
    # Summed in order, as in a gap check: equal points have equal bits.
    with nogil:
        for k in range(n_problems):
            w = &coef[0, 0] + (k if interleaved else k * d)
            for j in range(d):
                out[k] += w[j * apart] * w[j * apart]
    return squared_norms


cdef object bounds_of(Rows rows, Targets targets, const double[:, :] a,
                      const double[:, ::1] coef, const double[::1] intercept, bint interleaved,
                      double[::1] losses):
    """The best dual values of multiples of rows of `a`, which are made feasible first.

    The first pass also adds up the losses of models, unless `coef` is None; without `a` it is the
    only pass.
    """
    cdef int64_t n = rows.c.n_rows, d = rows.c.n_features, n_problems = targets.n_problems
    cdef bint has_models = coef is not None
    cdef int64_t apart = 0 if a is None else stride(a), n_bounds = 0 if a is None else a.shape[0]
    cdef int64_t together = 1 if rows.is_sparse else max(1, min(n_bounds, PROBLEMS_OF_BLOCK))
    cdef int64_t n_sums = (2 * together if n_bounds else 0) + (n_problems if has_models else 0)
    cdef int64_t piece = rows.piece(<double> max(n_sums, 1))
    cdef int64_t begin, end, first, last, block, size, k, i
    cdef double scale, squared, total
    cdef const double[::1] lams = targets.lams, masses = None if a is None else targets.masses
    cdef pegasos_targets own
    best = np.empty(n_bounds)
    cdef double[::1] of_best = best, factors = np.empty(ROWS_OF_BLOCK), totals = np.empty(together)
    cdef double[:, ::1] points = np.empty((min(together, n_bounds), n))
    cdef double[:, ::1] sums = np.empty((together, d))
    cdef double[::1] scores = np.empty(ROWS_OF_BLOCK * n_problems if has_models else 0)
    for begin in range(0, max(n_bounds, 1), together):
        end = min(begin + together, n_bounds)
        sums[:], totals[:] = 0, 0
        for k in range(begin, end):
            own = targets.of(k)
            with nogil:
                pegasos_make_feasible(&own, targets.free_intercept, &a[0, 0] + k * apart,
                                      &points[k - begin, 0])
        for first in range(0, n, piece):
            PyErr_CheckSignals()
            block, last = first, min(first + piece, n)
            with nogil:
                while block < last:
                    size = min(<int64_t> ROWS_OF_BLOCK, last - block)
                    if begin == 0 and has_models:
                        pegasos_linear_scores(&rows.c, block, NULL, size, n_problems, &coef[0, 0],
                                              sizeof(double), interleaved, &intercept[0],
                                              &scores[0])
                        for k in range(n_problems):
                            own = targets.of(k)
                            losses[k] = pegasos_loss_sum(&own, block, size, &scores[k], n_problems,
                                                         losses[k])
                    for k in range(begin, end):
                        own, scale = targets.of(k), lams[k] * masses[k]
                        total = totals[k - begin]
                        for i in range(size):
                            factors[i] = (own.labels[block + i] * points[k - begin, block + i]
                                          / scale)
                            total += factors[i]
                        totals[k - begin] = total
                        pegasos_linear_combine(&rows.c, block, size, &factors[0],
                                               &sums[k - begin, 0])
                    block += size
        for k in range(begin, end):
            own, squared = targets.of(k), 0
            total = targets.intercept_scaling * totals[k - begin]
            with nogil:
                for i in range(d):
                    squared += sums[k - begin, i] * sums[k - begin, i]
                of_best[k] = pegasos_best_dual(&own, &points[k - begin, 0], squared + total * total,
                                               masses[k], lams[k], True)
    return best


def certify(Rows rows not None, Targets targets not None, const double[:, ::1] coef,
            const double[::1] intercept, const double[:, :] a=None, *, bint interleaved=False):
    """What models and dual variables prove, by as few passes over the rows as are fast.

    Returns |w|^2 of every problem, without the intercept, and the sum of its losses; both are None
    without `coef`, which has the form of `decision_function`. Also returns the best dual values of
    multiples of rows of `a`, which are contiguous and made feasible first, or None without `a`. See
    ``pegasos_make_feasible`` and ``pegasos_best_dual``.
    """
    squared_norms = losses = None
    require(targets.c.n == rows.c.n_rows, "targets must be of n_rows")
    require((coef is None) == (intercept is None), "coef goes with intercept")
    if coef is not None:
        require_coefficients(rows, coef, intercept, targets.n_problems, 1, interleaved)
        squared_norms = squared_norms_of(coef, targets.n_problems, interleaved)
        losses = np.zeros(targets.n_problems)
    if a is not None:
        targets.require_rows(a, "a")
    bounds = bounds_of(rows, targets, a, coef, intercept, interleaved, losses)
    return squared_norms, losses, None if a is None else bounds


# ---- Dual coordinate ascent --------------------------------------------------------------------

cdef pegasos_dual _blank_dual
#: Layout of the C struct of a dual problem.
DUAL_STATE = np.asarray(<pegasos_dual[:1]> &_blank_dual).dtype


def free_feature(double mean_norm, double nu=0):
    """Return the constant feature of a free intercept; see ``pegasos_free_feature``."""
    return pegasos_free_feature(mean_norm, nu)


def run_dual_epochs(Rows rows not None, Targets targets not None, int64_t k,
             const double[::1] norms not None, int64_t[::1] active not None,
             double[::1] a not None, double[::1] w not None, double[::1] last_u not None,
             pegasos_dual[::1] problem not None, int64_t n_epochs, Watch watch not None):
    """Run epochs of problem `k` over rows that are loaded; see ``pegasos_dual_run_epochs``."""
    cdef int64_t n = rows.c.n_rows, status
    cdef pegasos_targets own
    require(targets.c.n == n and 0 <= k < targets.n_problems, "targets must be of n_rows")
    require(norms.shape[0] == n == active.shape[0] and a.shape[0] == n == last_u.shape[0],
            "norms, active, a and last_u must have n_rows entries")
    require(w.shape[0] == rows.c.n_features, "w must have n_features entries")
    require(problem.shape[0] == 1 and 1 <= n_epochs < LARGEST, "n_epochs must be >= 1")
    own = targets.of(k)
    with nogil:
        status = pegasos_dual_run_epochs(&rows.c, &problem[0], &own, &norms[0], &active[0], &a[0],
                                         &w[0], &last_u[0], n_epochs, &watch.c)
    watch.answer(status)


cdef class LamPath:
    """A bundle of problems on a path of λ, from large to small.

    Each λ begins where the last one ended; the first begins with an epoch of Pegasos. Problems
    share values and epsilon. See ``pegasos_bundle``.
    """
    cdef pegasos_bundle c
    cdef Rows rows
    cdef Order order
    cdef tuple memory
    cdef const double[::1] masses
    cdef double[::1] lams
    cdef readonly object problems
    """An array of dtype `DUAL_STATE`."""

    cdef readonly object a, v, means
    """Interleaved, with n_rows, n_features and n_features + 1 rows: see ``pegasos_bundle``."""

    def __init__(self, Rows rows not None, Targets targets not None, *, uint64_t seed):
        cdef int64_t n = rows.c.n_rows, d = rows.c.n_features, n_problems = targets.n_problems, k
        cdef int64_t lanes = PEGASOS_BUNDLE_BYTES // rows.c.value_bytes
        cdef pegasos_dual[::1] problems
        cdef const double[::1] norms = rows.squared_norms()
        cdef const int64_t[::1] inside
        cdef const int8_t[:, ::1] of_lanes
        cdef double[:, ::1] a
        cdef uint8_t[::1] v, means
        require(targets.c.n == n and n_problems <= lanes,
                "targets must be of n_rows, of as many problems as a bundle has room for")
        labels, _, values, epsilons = targets.arrays
        for shared in (values, epsilons):
            require(shared is None or bool((np.asarray(shared) == shared[0]).all()),
                    "problems of a bundle must have the same values and epsilon")
        labels = np.asarray(labels)
        self.rows, self.masses, self.lams = rows, targets.masses, np.zeros(n_problems)
        self.problems = np.zeros(n_problems, DUAL_STATE)
        self.problems["factor"], self.problems["pegasos_mass"] = 1, targets.masses
        self.problems["generator"] = np.random.SeedSequence([seed, 1]).generate_state(
            n_problems, np.uint64)
        self.problems["intercept_scaling"] = targets.intercept_scaling
        for k in range(n_problems if targets.free_intercept else 0):
            of_k = np.asarray(norms)[labels[k] != 0]
            mean = of_k.mean() if len(of_k) else 0
            self.problems["intercept_scaling"][k] = pegasos_free_feature(mean, 0)
        signs, self.a = np.zeros((n, lanes), np.int8), aligned_zeros((n, lanes), np.float64)
        signs[:, :n_problems] = labels.T
        self.v, self.means = (aligned_zeros((d + more, lanes), f"f{rows.c.value_bytes}")
                              for more in (0, 1))
        some = np.flatnonzero(labels.any(axis=0))
        self.memory = targets, norms, signs, some
        problems, inside, of_lanes, a = self.problems, some, signs, self.a
        v, means = self.v.view(np.uint8).ravel(), self.means.view(np.uint8).ravel()
        self.c.n_problems, self.c.free_intercept = n_problems, targets.free_intercept
        self.c.problems, self.c.targets, self.c.targets.labels = (
            &problems[0], targets.of(0), &of_lanes[0, 0])
        self.c.norms, self.c.a, self.c.v, self.c.sums = &norms[0], &a[0, 0], &v[0], &means[0]
        if len(some):  # a fold of two classes may have no row
            self.order = Order(seed, np.empty(len(some), np.int64), PEGASOS_PERMUTATION, 0)
            self.c.inside, self.c.order = &inside[0], &self.order.c
            self.c.permutation = &self.order.permutation[0]

    def run(self, const double[::1] lams not None, int64_t last_epoch, Watch watch not None):
        """Go on to the end of an epoch, each problem at a λ that is at most that of the last call.

        Epochs of all calls are counted. A run that was stopped goes on when it is called again.
        """
        cdef int status
        require_positive(lams, self.c.n_problems, "lams")
        require(0 <= last_epoch < LARGEST // self.rows.c.n_rows,
                "last_epoch must be in [0, 2**62/n_rows)")
        with nogil:
            pegasos_bundle_change_lam(&self.rows.c, &self.c, &self.masses[0], &self.lams[0],
                                      &lams[0])
        self.lams[:] = lams
        self.c.last_epoch = last_epoch
        if self.order is None:
            return
        with nogil:
            status = pegasos_bundle_run(&self.rows.c, &self.c, &watch.c)
        watch.answer(status)

    def model(self):
        """Means of w over the last half epoch, the factors of these means, and intercepts."""
        d, k = self.rows.c.n_features, self.c.n_problems
        constant = self.problems["intercept_scaling"] * self.means[d, :k]
        return self.means[:d].T, self.problems["factor"], self.problems["intercept"] + constant


# ---- Kernel problems ---------------------------------------------------------------------------

cdef int64_t stride(const value_t[:, :] array) except -1:
    """Numbers from one row to the next, if rows are contiguous and in order."""
    cdef int64_t bytes = sizeof(value_t)
    require(array.shape[1] <= 1 or array.strides[1] == bytes, "rows of an array must be contiguous")
    if array.shape[0] <= 1 or array.shape[1] == 0:
        return array.shape[1]
    require(array.strides[0] >= array.shape[1] * bytes and array.strides[0] % bytes == 0,
            "rows of an array must follow each other")
    require_aligned(&array[0, 0], bytes, "arrays must be aligned")
    return array.strides[0] // bytes


#: Kernels of the core, by their names.
KERNELS = {
    "linear": PEGASOS_LINEAR, "poly": PEGASOS_POLYNOMIAL, "sigmoid": PEGASOS_SIGMOID,
    "rbf": PEGASOS_GAUSSIAN, "laplacian": PEGASOS_LAPLACIAN,
}
#: A kernel whose values `write` computes.
OTHER = -1
# Numbers of rows that are made double at a time.
cdef int64_t MOST_IN_DOUBLE = 2**24
# Fewer rows are multiplied without BLAS, which rounds as the machine does, and needs one thread.
cdef int64_t FEW_ROWS = 256
# Rows of more features than this are not made dense. Scratch has a few thousand rows at most.
cdef int64_t MOST_DENSE = <int64_t>1 << 40


cdef object copied(const int64_t *numbers, int64_t count):
    return np.asarray(<int64_t[:count]> <int64_t *> numbers).copy()


cdef object rows_in(const pegasos_subset *subset):
    """The index that selects these rows of an array."""
    if subset.which == NULL:
        return slice(subset.first, subset.first + subset.count)
    return copied(subset.which, subset.count)


cdef int write_by_python(const pegasos_subset *x, const pegasos_subset *z, int64_t stride,
                         void *out) noexcept nogil:
    with gil:
        return (<Points> z.points.context).ask(x, z, stride, out)


cdef class Points:
    """Rows among which a kernel is evaluated; see ``pegasos_points``.

    For the kernel OTHER, ``write(data of x, rows, data of z, rows, out)`` writes the values between
    some rows of two points; rows are a slice or an array. Points of float may have their rows in
    double in `wide`; `far_in_double` is `by_differences` for these.
    """
    cdef pegasos_points c
    cdef readonly Rows rows
    cdef Rows wide
    cdef object norms, write, data, error
    cdef uint8_t[::1] room  # of the transpose
    cdef PyThread_type_lock lock
    cdef bint far_in_double, by_blas  # by_blas: BLAS multiplies these rows with others

    def __cinit__(self):
        self.lock = new_lock(False)

    def __dealloc__(self):
        free_lock(self.lock)

    def __init__(self, Rows rows not None, *, int64_t kind, double gamma=1, double coef0=0,
                 int64_t degree=0, norms=None, bint by_differences=False, bint by_panels=False,
                 bint by_transpose=False, write=None, data=None, Rows wide=None,
                 bint far_in_double=False):
        require(kind == OTHER or PEGASOS_LINEAR <= kind <= PEGASOS_LAPLACIAN,
                "there is no such kernel")
        require((kind == OTHER) == (write is not None), "OTHER kernels have write, and only they")
        require(degree >= 0, "degree must be >= 0")
        require(not (by_transpose or by_panels) or rows.c.index_bytes > 0,
                "rows of products by transpose or by panels must be CSR")
        self.c.rows, self.rows = rows.c, rows
        self.c.kernel.kind, self.c.kernel.degree = kind, degree
        self.c.kernel.gamma, self.c.kernel.coef0 = gamma, coef0
        self.c.by_differences = by_differences
        self.c.by_panels, self.c.by_transpose = by_panels, by_transpose
        self.by_blas = (rows.c.n_rows >= FEW_ROWS
                        and not (by_transpose or by_panels or by_differences))
        self.write, self.data = write, data
        require(wide is None or (wide.c.n_rows == rows.c.n_rows
                                 and wide.c.n_features == rows.c.n_features),
                "wide must be of these rows")
        self.wide, self.far_in_double = wide, far_in_double
        if norms is not None:
            require(len(norms) == rows.c.n_rows, "norms must have n_rows entries")
            self.norms = memoryview(norms)
            self.c.norms = numbers_of(self.norms, 1, "f" if rows.c.value_bytes == 4 else "d",
                                      "norms")
        if write is not None:
            self.c.write, self.c.context = write_by_python, <void *> self

    cdef int ask(self, const pegasos_subset *x, const pegasos_subset *z, int64_t stride,
                 void *out) noexcept:
        """Let `write` write values."""
        cdef Points others
        try:
            others = <Points> x.points.context
            if self.c.rows.value_bytes == 4:
                room = np.asarray(<float[:x.count, :stride]> <float *> out)
            else:
                room = np.asarray(<double[:x.count, :stride]> <double *> out)
            self.write(others.data, rows_in(x), self.data, rows_in(z), room[:, :z.count])
            return 0
        except BaseException as error:
            self.error = error
        return 1

    cdef Points in_double(self, rows):
        """Some of these points, which are float, in double."""
        cdef Rows exact = (self.rows if self.wide is None else self.wide).in_double(rows)
        norms = None if self.norms is None else exact.squared_norms()
        return Points(exact, kind=self.c.kernel.kind, gamma=self.c.kernel.gamma,
                      coef0=self.c.kernel.coef0, degree=self.c.kernel.degree, norms=norms,
                      by_differences=self.far_in_double, by_panels=self.c.by_panels,
                      by_transpose=self.c.by_transpose)

    def transpose(self):
        """Make the transpose, if products use it and values will be needed more than once.

        If several threads call this, one of them makes it.
        """
        if not self.c.by_transpose:
            return
        with nogil:
            PyThread_acquire_lock(self.lock, WAIT_LOCK)
        try:
            if self.c.transpose.n_rows == 0:
                self.make_transpose()
        finally:
            PyThread_release_lock(self.lock)

    cdef int make_transpose(self) except -1:
        cdef pegasos_subset every
        cdef pegasos_rows out
        try:
            self.room = np.empty(pegasos_transpose_bytes(&self.c.rows), np.uint8)
        except (MemoryError, ValueError):
            raise MemoryError(f"X has {self.c.rows.n_features} features, more than memory has "
                              "room for when X is transposed") from None
        every.points, every.first, every.count, every.which = &self.c, 0, self.c.rows.n_rows, NULL
        out.n_rows = 0
        with nogil:
            pegasos_transpose(&every, &self.room[0], &out)
        self.c.transpose = out
        return 0

    cdef uint8_t[::1] scratch(self, Points x, int64_t n_threads):
        """Scratch for tiles of values with `x`, where some rows are made dense or transposed."""
        cdef int64_t d = self.c.rows.n_features
        try:
            if d > MOST_DENSE and self.c.write == NULL:
                raise MemoryError
            return np.empty(1 + pegasos_kernel_values_scratch_bytes(&x.c, &self.c, n_threads),
                            np.uint8)
        except MemoryError:
            raise MemoryError(f"X has {d} features, more than memory has room for when a row is "
                              "made dense") from None


@cython.no_gc_clear
cdef class Work:
    """What the core needs to compute kernel values or columns, in one call."""
    cdef pegasos_workers c
    cdef pegasos_columns columns
    cdef pegasos_source source
    cdef Pool pool
    cdef Watch watch
    cdef Points z
    cdef tuple memory
    cdef Points exact
    cdef Work inner
    cdef Matrix matrix
    cdef object inside  # the rows of a part of the matrix; None: all
    cdef object factor  # the last factor of the matrix
    cdef Closing blas_limit

    @staticmethod
    cdef Work of(Watch watch, int64_t n_threads, Columns columns=None, Points x=None,
                 Points z=None, Work outer=None):
        """Must be ended by `end`, unless within `outer`. Without points, it computes no values."""
        cdef Work work = Work()
        cdef uint8_t[::1] scratch, block
        cdef int64_t bytes = 0 if columns is None else columns.c.value_bytes
        work.watch, work.c.watch = watch, &watch.c
        work.c.n_threads = min(max(n_threads, 1), 64)
        if outer is not None:
            work.c.threads, work.c.n_threads = outer.c.threads, outer.c.n_threads
        if columns is not None:
            columns.check()
            x, z, work.columns = columns.x, columns.z, columns.c
            work.columns.n_kept, work.columns.workers = &columns.n_kept, &work.c
            work.columns.values, work.columns.context = pegasos_kernel_values, &work.source
            if z is None:
                work.columns.n_columns = columns.c.n_rows
        if z is not None:
            require(x.c.rows.n_features == z.c.rows.n_features
                    and x.c.rows.value_bytes == z.c.rows.value_bytes
                    and (x.c.rows.index_bytes > 0) == (z.c.rows.index_bytes > 0)
                    and (x.c.write == NULL) == (z.c.write == NULL),
                    "points must have the same kernel, features, type and layout")
            require(z.c.kernel.kind != PEGASOS_GAUSSIAN or x.c.by_differences or z.c.by_differences
                    or (x.c.norms != NULL and z.c.norms != NULL), "points must have norms")
            if z.by_blas and outer is None:
                work.blas_limit = one_thread_of_blas()
            work.c.blas = blas() if z.by_blas and z.c.write == NULL else NULL
            work.source.x, work.source.z, work.source.workers = &x.c, &z.c, &work.c
            scratch = z.scratch(x, work.c.n_threads)
            work.c.scratch, work.z, work.memory = &scratch[0], z, (x, z, columns, scratch)
        # If all columns are computed at once, no block of others is needed.
        if z is not None and columns is not None and not columns.c.is_all_at_once:
            block = np.empty(pegasos_columns_block(columns.c.n_rows) * bytes, np.uint8)
            work.columns.block = &block[0]
            work.memory += (block,)
        if work.c.n_threads > 1 and outer is None:
            work.pool = Pool(work.c.n_threads)
            work.pool.start()
            work.c.threads = &work.pool.threads
        return work

    cdef int supply_in_double(self, int64_t n_x, const int64_t *x, int64_t n_z, const int64_t *z,
                            pegasos_columns **columns) noexcept:
        """Supply columns of `z` until the next call; see ``pegasos_kernel_evidence``."""
        cdef Columns of_z
        try:
            of_z = Columns(self.exact.in_double(copied(z, n_z)), np.empty((0, n_z)), None)
            if n_x > 0:
                of_z.x = self.exact.in_double(copied(x, n_x))
            self.inner = Work.of(self.watch, 1, of_z, None, None, self)
            columns[0] = &self.inner.columns
            return 0
        except BaseException as error:
            self.watch.error = error
        return 1

    cdef int supply_factor(self, pegasos_factor *factor) noexcept:
        """Supply a factor of the matrix, which lasts as long as this, or until the next factor."""
        cdef const double[:, ::1] rows
        cdef const double[::1] norms
        cdef uint8_t[::1] memory, room
        cdef Rows of_core
        try:
            self.blas_limit = self.blas_limit or one_thread_of_blas()
            factor_of_all = self.matrix.factor(self.watch.on_poll)
            require(len(factor_of_all) == self.columns.n_rows, "a factor must have n_rows rows")
            rows = factor_of_all if self.inside is None else factor_of_all[self.inside]
            factor.rows.n_features = rows.shape[1]
            if rows.shape[1] == 0:
                return 0
            of_core = Rows(rows)
            norms = of_core.squared_norms()
            memory = np.empty(pegasos_state_bytes(rows.shape[0], rows.shape[1]), np.uint8)
            room = np.empty(pegasos_scratch_bytes(&of_core.c), np.uint8)
            self.factor = of_core, norms, memory, room
            factor.rows, factor.norms = of_core.c, &norms[0]
            factor.memory, factor.scratch = &memory[0], &room[0]
            return 0
        except BaseException as error:
            self.watch.error = error
        return 1

    def __dealloc__(self):
        if self.pool is not None:  # not ended yet if memory ran out
            self.pool.close()

    cdef int end(self, int status) except -1:
        """Let the threads end, and raise what stopped this, as `Watch.answer` does."""
        if self.pool is not None:
            self.pool.close()
        if self.blas_limit is not None:
            self.blas_limit.end()
        cdef Work work = self
        while work is not None:
            if work.z is not None and work.z.error is not None:
                self.watch.error, work.z.error = work.z.error, None
            work = work.inner
        return self.watch.answer(status)


cdef int supply_in_double(void *context, int64_t n_x, const int64_t *x, int64_t n_z,
                        const int64_t *z, pegasos_columns **columns) noexcept nogil:
    with gil:
        return (<Work> context).supply_in_double(n_x, x, n_z, z, columns)


cdef int supply_factor(void *context, pegasos_factor *factor) noexcept nogil:
    with gil:
        return (<Work> context).supply_factor(factor)


def kernel_values(Points x not None, Points z not None, value_t[:, :] out not None,
                  Watch watch not None, int64_t n_threads=1):
    """Write the values between all rows of `x` and of `z`; rows of `out` are contiguous."""
    cdef int64_t apart = stride(out)
    cdef int status
    cdef Work work
    require(sizeof(value_t) == z.c.rows.value_bytes and out.shape[0] == x.c.rows.n_rows
            and out.shape[1] == z.c.rows.n_rows,
            "out must be of rows of x and z, and of their type")
    work = Work.of(watch, n_threads, None, x, z)
    with nogil:
        status = pegasos_kernel_values(&work.source, out.shape[0], NULL, 0, out.shape[1], NULL,
                                       apart, &out[0, 0])
    work.end(PEGASOS_STOPPED if status else PEGASOS_DONE)


cdef class Columns:
    """Columns of the kernel matrix of points, as many as `columns` has room for.

    ``column_of[i]`` is the number of row i's column, or -1 if it is not kept. Without points, all
    columns must be there. See ``pegasos_columns``.
    """
    cdef pegasos_columns c
    cdef Points x, z
    cdef object held
    cdef const int64_t[::1] column_of
    cdef int64_t n_kept

    def __init__(self, Points points, columns not None, int64_t[::1] column_of, *,
                 bint is_all_at_once=False, bint is_cheap=False):
        cdef int64_t k
        self.held = memoryview(columns)
        self.c.columns = <void *> numbers_of(self.held, 2, "fd", "columns")
        self.c.n_columns, self.c.n_rows = columns.shape
        self.c.value_bytes = columns.itemsize
        require(self.c.n_columns <= self.c.n_rows >= 1, "columns must be at most n_rows")
        require(column_of is None or column_of.shape[0] == self.c.n_rows,
                "column_of must have n_rows entries")
        require(column_of is not None or points is not None, "there must be column_of")
        self.column_of, self.x, self.z = column_of, points, points
        if column_of is not None:
            self.c.column_of = &column_of[0]
            for k in range(self.c.n_rows):
                self.n_kept += column_of[k] >= 0
        self.check()
        if points is None:
            return
        points.transpose()
        require(not self.held.readonly and points.c.rows.n_rows == self.c.n_rows
                and points.c.rows.value_bytes == self.c.value_bytes,
                "columns must be of the points")
        require(not is_all_at_once or (self.c.n_columns == self.c.n_rows
                                       and self.n_kept in (0, self.c.n_rows)),
                "there must be room for all columns at once")
        self.c.is_all_at_once, self.c.is_cheap = is_all_at_once, is_cheap
        self.c.needs_full_rows = points.c.by_transpose
        self.c.is_symmetric = points.c.write == NULL and not points.c.by_transpose

    cdef int check(self) except -1:
        """Raise a ValueError unless `column_of` has numbers of columns."""
        if self.column_of is None:
            return 0
        return require_indices(self.column_of, 0 if self.z is None else -1, self.c.n_columns,
                               "column_of must be in [-1, n_columns), none missing without points")

    def keep(self, const int64_t[::1] rows not None, Watch watch not None, int64_t n_threads=1):
        """Compute columns of `rows` that are not kept yet, as many as there is room for."""
        cdef int status
        cdef Work work
        require_indices(rows, 0, self.c.n_rows, "rows must be in [0, n_rows)")
        require(self.c.column_of != NULL, "there must be column_of")
        if rows.shape[0] == 0:
            return
        work = Work.of(watch, n_threads, self)
        with nogil:
            status = pegasos_columns_keep(&work.columns, rows.shape[0], &rows[0])
        work.end(PEGASOS_STOPPED if status else PEGASOS_DONE)

    def among(self, const int64_t[::1] rows not None, const int64_t[::1] which not None,
              value_t[:, :] out not None, Watch watch not None, int64_t n_threads=1):
        """Write values between `rows` and `which`; rows of `out` are contiguous."""
        cdef int64_t apart = stride(out)
        cdef int status
        cdef Work work
        require_indices(rows, 0, self.c.n_rows, "rows must be in [0, n_rows)")
        require_indices(which, 0, self.c.n_rows, "which must be in [0, n_rows)")
        require(sizeof(value_t) == self.c.value_bytes and out.shape[0] == rows.shape[0]
                and out.shape[1] == which.shape[0] and self.c.column_of != NULL,
                "out must have shape (n_rows, n_which), and the type of columns")
        if rows.shape[0] == 0 or which.shape[0] == 0:
            return
        work = Work.of(watch, n_threads, self)
        with nogil:
            status = pegasos_columns_values(&work.columns, rows.shape[0], &rows[0], which.shape[0],
                                           &which[0], apart, &out[0, 0])
        work.end(PEGASOS_STOPPED if status else PEGASOS_DONE)

    def add(self, const int64_t[::1] rows not None, const double[:, ::1] coef not None,
            double[:, :] scores not None, Watch watch not None, int64_t n_threads=1):
        """Add ``coef @ K[rows]`` to `scores` (n_problems, n_rows), summed in double."""
        cdef int64_t apart = stride(scores)
        cdef int status
        cdef Work work
        require_indices(rows, 0, self.c.n_rows, "rows must be in [0, n_rows)")
        require(coef.shape[0] == scores.shape[0] and coef.shape[1] == rows.shape[0]
                and scores.shape[1] == self.c.n_rows, "coef must have shape (n_problems, n_rows)")
        if rows.shape[0] == 0 or coef.shape[0] == 0:
            return
        work = Work.of(watch, n_threads, self)
        with nogil:
            status = pegasos_columns_add(&work.columns, rows.shape[0], &rows[0], coef.shape[0],
                                         &coef[0, 0], rows.shape[0], NULL, False, apart,
                                         &scores[0, 0])
        work.end(PEGASOS_STOPPED if status else PEGASOS_DONE)

    def certify(self, Targets targets not None, const double[:, ::1] coef not None,
                const double[::1] intercept not None, const double[:, ::1] a not None,
                const double[::1] norms not None, const double[::1] sizes not None,
                const double[::1] errors not None, const double[::1] float_errors=None, *,
                double ridge, bint is_positive, bint by_weights=False, Points exact=None,
                Watch watch not None, int64_t n_threads=1):
        """Certificates of kernel machines, as a table; see ``pegasos_kernel_certify``.

        `float_errors` are those of float kernel values; `exact` then has the points, to be made
        double. `by_weights`: compute w, for the linear kernel.
        """
        cdef int64_t n = self.c.n_rows
        cdef int status
        cdef const double[::1] masses = targets.masses
        cdef Room room
        cdef pegasos_kernel_models models
        cdef pegasos_kernel_evidence evidence
        cdef Work work
        table = np.empty(targets.n_problems, type_of_certificates)
        cdef pegasos_kernel_certificate[::1] certificates = table
        require(targets.c.n == n and self.c.column_of != NULL, "targets must be of n_rows")
        targets.require_rows(coef, "coef")
        targets.require_rows(a, "a")
        require(intercept.shape[0] == targets.n_problems, "intercept must be of each problem")
        require(n == norms.shape[0] == sizes.shape[0] == errors.shape[0]
                and (float_errors is None or float_errors.shape[0] == n),
                "norms, sizes and errors must have n_rows entries")
        require((float_errors is None) == (exact is None), "float_errors go with exact")
        require(exact is None or (exact.c.rows.n_rows == n and exact.c.rows.value_bytes == 4
                                  and exact.c.write == NULL),
                "exact must be of these rows, in float, and of a kernel that the core knows")
        require(self.x is not None or not by_weights, "there must be points")
        memset(&models, 0, sizeof(models))
        models.n_problems, models.targets = targets.n_problems, targets.c
        models.epsilons, models.lams, models.masses = targets.epsilons, &targets.lams[0], &masses[0]
        models.intercept_scaling = targets.intercept_scaling
        models.free_intercept = targets.free_intercept
        models.coef, models.intercepts = &coef[0, 0], &intercept[0]
        models.dual_variables = &a[0, 0]
        work = Work.of(watch, n_threads, self)
        memset(&evidence, 0, sizeof(evidence))
        evidence.columns, evidence.norms, evidence.sizes = &work.columns, &norms[0], &sizes[0]
        evidence.errors, evidence.ridge = &errors[0], ridge
        evidence.is_positive = is_positive
        evidence.rows = &self.x.rows.c if by_weights else NULL
        if float_errors is not None:
            work.exact, evidence.context = exact, <void *> work
            evidence.float_errors, evidence.in_double = &float_errors[0], supply_in_double
            evidence.most_in_double = max(1, MOST_IN_DOUBLE // exact.c.rows.n_features)
        room = Room(pegasos_kernel_certificate_scratch_bytes(&models, &evidence))
        with nogil:
            status = pegasos_kernel_certify(&models, &evidence, room.at, &certificates[0])
        work.end(PEGASOS_STOPPED if status else PEGASOS_DONE)
        return table


cdef class Matrix:
    """A kernel matrix for `solve`: its columns, and a function that factorises it.

    ``factor(on_poll)`` returns a factor of shape (n_rows, rank), or (n_rows, 0), and calls
    `on_poll`, if it is not None, now and then.
    """
    cdef pegasos_matrix c
    cdef Columns columns
    cdef object factor

    def __init__(self, Columns columns not None, factor not None, *, bint is_positive,
                 bint is_narrow=False, double rank=math.inf):
        require(columns.c.column_of != NULL, "there must be column_of")
        require(rank >= 0, "rank must not be negative")
        self.columns, self.factor = columns, factor
        self.c.is_positive, self.c.is_narrow = is_positive, is_narrow
        self.c.rank = <int64_t> min(<double> columns.c.n_rows, rank)


# ---- Newton's method ---------------------------------------------------------------------------

#: Up to this number of features, Newton's equations are solved with a matrix in memory.
NEWTON_MAX_UNKNOWNS = PEGASOS_NEWTON_MAX_UNKNOWNS

cdef pegasos_blas _blas
cdef bint _blas_is_there = False

# Signatures of routines, with x for their type of numbers.
_GEMM = "void (char *, char *, int *, int *, int *, x *, x *, int *, x *, int *, x *, x *, int *)"
_SYRK = "void (char *, char *, int *, int *, x *, x *, int *, x *, x *, int *)"
_POTRF = "void (char *, int *, x *, int *, int *)"
_POTRS = "void (char *, int *, int *, x *, int *, x *, int *, int *)"


cdef void *routine(object module, str name, str form) except NULL:
    """The function that SciPy offers to Cython under this name."""
    capsule = module.__pyx_capi__[name]
    cdef const char *signature = PyCapsule_GetName(capsule)
    if re.sub(rf"\w+_{name[0]} \*", "x *", (<bytes> signature).decode()) != form:
        raise ImportError(f"SciPy has another {name}")
    return PyCapsule_GetPointer(capsule, signature)


cdef const pegasos_blas *blas() except? NULL:
    """SciPy's BLAS and LAPACK, loaded when they are first needed; NULL without SciPy."""
    global _blas_is_there
    if _blas_is_there:
        return &_blas
    try:
        from scipy.linalg import cython_blas, cython_lapack
        (<void **> &_blas.dsyrk)[0] = routine(cython_blas, "dsyrk", _SYRK)
        (<void **> &_blas.ssyrk)[0] = routine(cython_blas, "ssyrk", _SYRK)
        (<void **> &_blas.dgemm)[0] = routine(cython_blas, "dgemm", _GEMM)
        (<void **> &_blas.sgemm)[0] = routine(cython_blas, "sgemm", _GEMM)
        (<void **> &_blas.dpotrf)[0] = routine(cython_lapack, "dpotrf", _POTRF)
        (<void **> &_blas.spotrf)[0] = routine(cython_lapack, "spotrf", _POTRF)
        (<void **> &_blas.dpotrs)[0] = routine(cython_lapack, "dpotrs", _POTRS)
        (<void **> &_blas.spotrs)[0] = routine(cython_lapack, "spotrs", _POTRS)
    except ImportError:
        return NULL
    _blas_is_there = True
    return &_blas


# ---- Whole fits ---------------------------------------------------------------------------------

#: The solvers of `solve`.
AUTO, ASCENT, NEWTON = PEGASOS_AUTO, PEGASOS_ASCENT, PEGASOS_NEWTON

#: Layout of the table that `Fits.solutions` returns.
SOLUTION = np.dtype([
    *((name, np.float64) for name in ("objective", "relative_gap", "intercept")),
    *((name, np.int64) for name in ("n_epochs", "n_steps", "pegasos", "ascent", "newton",
                                    "first_solver", "solver", "value_bytes", "is_gap_checked")),
])


cdef int require_size(int64_t n_rows, int64_t n_features) except -1:
    return require(1 <= n_rows < LARGEST // 1024 and 0 <= n_features < LARGEST // 1024,
                   "n_rows must be in [1, 2**52), and n_features in [0, 2**52)")


cdef class Fits:
    """Fits over the same rows: a piece of memory for each, with its whole state.

    Without `memory`, they begin at 0. Kernel machines have no features, and n_rows coefficients.
    """
    cdef readonly object memory
    """Of shape (n_problems, n_bytes). A copy of it is a saved state."""

    cdef readonly int64_t n_rows, n_features
    cdef uint8_t[:, ::1] c

    def __cinit__(self, int64_t n_problems, int64_t n_rows, int64_t n_features, memory=None):
        if memory is None:
            try:  # also for the number of bytes
                memory = aligned_zeros((n_problems, Fits.n_bytes(n_rows, n_features)), np.uint8)
            except (MemoryError, ValueError):
                raise MemoryError(f"{n_problems} problems over {n_rows} rows of {n_features} "
                                  "features are more than memory has room for") from None
        self.memory, self.n_rows, self.n_features = memory, n_rows, n_features
        self.c = memory
        require(self.c.shape[0] == n_problems >= 1
                and self.c.shape[1] == Fits.n_bytes(n_rows, n_features),
                "memory must have shape (n_problems, n_bytes)")
        require_aligned(&self.c[0, 0], sizeof(double), "memory must be aligned")

    @staticmethod
    def n_bytes(int64_t n_rows, int64_t n_features):
        """The number of bytes of a fit's memory."""
        require_size(n_rows, n_features)
        return pegasos_state_bytes(n_rows, n_features)

    # ---- Results so far ----

    def solutions(self):
        """A table of the best models so far, and of the work done."""
        return np.array(self.rows_of_table(), SOLUTION)

    cdef list rows_of_table(self):
        cdef pegasos_solution found
        cdef const pegasos_fit_header *memory
        cdef int64_t k
        cdef list rows = []
        for k in range(self.c.shape[0]):
            pegasos_fit_solution(self.n_rows, self.n_features, &self.c[k, 0], &found)
            memory = <const pegasos_fit_header *> &self.c[k, 0]
            rows.append((found.objective, found.relative_gap, found.intercept, found.n_epochs,
                         found.n_steps, found.epochs[0], found.epochs[1], found.epochs[2],
                         found.first_solver, found.solver, memory.value_bytes,
                         memory.pending == PEGASOS_GAP_CHECKED))
        return rows

    cdef object numbers(self, const double *of_first, int64_t count):
        """`count` numbers of each fit, given their address in the first fit."""
        cdef int64_t start = <const uint8_t *> of_first - &self.c[0, 0]
        return self.memory[:, start:start + 8 * count].view(np.float64)

    @property
    def a(self):
        """Dual variables, of shape (n_problems, n_rows), not copied."""
        cdef pegasos_solution found
        pegasos_fit_solution(self.n_rows, self.n_features, &self.c[0, 0], &found)
        return self.numbers(found.dual_variables, self.n_rows)

    @property
    def coef(self):
        """Coefficients of the best models, of shape (n_problems, n_features), not copied."""
        cdef pegasos_solution found
        pegasos_fit_solution(self.n_rows, self.n_features, &self.c[0, 0], &found)
        return self.numbers(found.coef, self.n_features or self.n_rows)

    @property
    def scores(self):
        """Scores of the rows of kernel machines under the dual variables last checked.

        They have no intercepts, and are not copied.
        """
        require(self.n_features == 0, "only kernel machines have scores")
        return self.numbers(pegasos_kernel_arrays_in(self.n_rows, &self.c[0, 0]).scores,
                            self.n_rows)

    # ---- Before they go on ----

    def begin_at(self, const double[:, ::1] a not None, const double[:, ::1] coef=None,
                 const double[::1] intercept=None, Fits before=None):
        """Begin at dual points and models; kernel machines at dual points only.

        Linear fits count epochs on from those `before`, on the same rows with other features.
        """
        cdef int64_t k, n = self.c.shape[0], n_coef = 0 if coef is None else coef.shape[1]
        require((coef is None) == (intercept is None) and n == a.shape[0]
                and self.n_rows == a.shape[1] and self.n_features == n_coef
                and (coef is None or n == coef.shape[0] == intercept.shape[0]),
                "a, coef and intercept must have an entry for each problem")
        require(before is None or (coef is not None and before.n_features > 0
                                   and before.c.shape[0] == n and before.n_rows == self.n_rows),
                "fits before must be linear ones of the same problems")
        for k in range(n):
            pegasos_set_point(self.n_rows, self.n_features, &self.c[k, 0], &a[k, 0],
                              NULL if coef is None else &coef[k, 0],
                              0 if coef is None else intercept[k],
                              NULL if before is None else &before.c[k, 0])

    def begin_at_point(self):
        """Let the next run, which has other data, begin at the current point."""
        cdef int64_t k
        cdef pegasos_fit_header *memory
        for k in range(self.c.shape[0]):
            memory = <pegasos_fit_header *> &self.c[k, 0]
            if memory.pending != PEGASOS_BEGIN:
                memory.pending = PEGASOS_BEGIN_AT_POINT

    def are_valid(self, Targets targets not None, int64_t value_bytes, bint with_numbers=True):
        """Whether these are fits of such problems, and can go on.

        The rows of `targets` do not matter. See ``pegasos_memory_is_valid``.
        """
        cdef pegasos_problem problem
        cdef int64_t k
        require(targets.n_problems == self.c.shape[0], "targets must be of n_problems")
        for k in range(self.c.shape[0]):
            problem = targets.problem(k, NULL)
            if not pegasos_memory_is_valid(&problem, self.n_rows, self.n_features, value_bytes,
                                           &self.c[k, 0], with_numbers):
                return False
        return True


# The most jobs for each thread into which problems are split.
cdef int64_t JOBS_OF_THREAD = 16


def solve(over not None, Targets targets not None, const double[::1] norms not None,
          fits not None, const int64_t[::1] max_epochs not None, *, double tol, uint64_t seed,
          int64_t solver, bint begin_together=False, list insides=None, Watch watch not None,
          int64_t n_threads=1, int64_t n_jobs=1):
    """Solve problems over `Rows` or a `Matrix`, one after the other, or `n_jobs` side by side.

    Returns the solutions of `fits`, which has one fit for each problem. See ``pegasos_solve_one``
    and ``pegasos_kernel_solve_one``. With `insides`, each problem is solved only on these rows of a
    matrix whose columns are all there, or computed at once; `fits` is then a list with `Fits` for
    each. Linear problems of the squared error may `begin_together`: see ``pegasos_solve_squares``.
    Side by side, kernel machines need all columns, which are computed first. `n_threads` are
    divided among the jobs, and share kernel values and passes of Newton's method, with equal bits.
    """
    cdef Matrix matrix = over if isinstance(over, Matrix) else None
    cdef Rows rows = None if matrix is not None else over
    cdef Columns columns = None if matrix is None else matrix.columns
    cdef bint is_kernel = matrix is not None
    cdef bint has_parts = insides is not None
    cdef Fits whole = None if has_parts else fits, own_fits
    cdef const int64_t[::1] inside
    cdef pegasos_problem to_check
    cdef int64_t n = columns.c.n_rows if is_kernel else rows.c.n_rows
    cdef int64_t n_problems = len(fits) if has_parts else whole.c.shape[0], largest = 0
    cdef int64_t d = 0 if is_kernel else rows.c.n_features, k
    cdef int64_t value_bytes = columns.c.value_bytes if is_kernel else rows.c.value_bytes
    cdef bint is_by_blas = solver != PEGASOS_ASCENT and (is_kernel or pegasos_newton_uses_blas(d))
    cdef Closing blas_limit = None
    require(has_parts or (whole.n_rows == n and whole.n_features == d),
            "fits must be of n_rows and n_features")
    require(targets.c.n == n and n_problems == targets.n_problems == max_epochs.shape[0],
            "targets must be of n_rows, and fits and max_epochs of their problems")
    require(norms.shape[0] == n, "norms must have n_rows entries")
    require_indices(max_epochs, 0, LARGEST // n - 1, "max_epochs must be in [0, 2**62/n_rows - 1)")
    require(has_parts or whole.are_valid(targets, value_bytes, False),
            "fits must be some which can go on")
    require(not has_parts or (is_kernel and len(insides) == n_problems
                              and (columns.c.is_all_at_once or columns.n_kept == n)),
            "insides must be of a matrix whose columns are there, and of each problem")
    for k in range(n_problems if has_parts else 0):
        own_fits, inside, to_check = fits[k], insides[k], targets.problem(k, NULL)
        require_indices(inside, 0, n, "insides must be in [0, n_rows)")
        require(own_fits.n_rows == inside.shape[0] and own_fits.n_features == 0
                and own_fits.c.shape[0] == 1
                and pegasos_memory_is_valid(&to_check, inside.shape[0], 0, value_bytes,
                                            &own_fits.c[0, 0], False),
                "fits must be some of insides which can go on")
        largest = max(largest, inside.shape[0])
    require(not begin_together or (targets.c.loss.kind == PEGASOS_SQUARED_ERROR and not is_kernel),
            "only linear problems of the squared error begin together")
    require(tol == tol and PEGASOS_AUTO <= solver <= PEGASOS_NEWTON, "tol must be a number")
    require(n_jobs >= 1, "n_jobs must be at least 1")
    require(n_jobs == 1 or not is_kernel or columns.z is None or columns.c.is_all_at_once,
            "problems side by side must have all columns at once")
    for k in range(n_problems if begin_together else 0):
        require(targets.lams[k] == targets.lams[0] and max_epochs[k] == max_epochs[0],
                "problems that begin together must have the same lam and max_epochs")
    if n_jobs > 1 if is_kernel else is_by_blas:
        blas_limit = one_thread_of_blas()  # in a job's thread, `threading` would keep a dummy of it

    def solve_some(int64_t begin, int64_t end, on_poll, bint is_beginning=False,
                   int64_t n_shares=n_threads // n_jobs):
        cdef Watch own = Watch(on_poll, every=watch.c.every, by_epochs=watch.c.by_epochs)
        cdef Work work
        cdef pegasos_problem problem
        cdef pegasos_options options
        cdef pegasos_matrix of_columns
        cdef const int8_t *labels
        cdef int64_t first_row = 0, k
        cdef int status = PEGASOS_DONE
        cdef Room room
        cdef Fits part
        cdef const int64_t[::1] own_rows
        work = Work.of(own, n_shares, columns)
        if is_kernel:
            work.matrix, of_columns, of_columns.columns = matrix, matrix.c, &work.columns
            of_columns.factor, of_columns.factor_context = supply_factor, <void *> work
            room = Room(pegasos_kernel_part_bytes(largest, value_bytes) if has_parts else
                        pegasos_kernel_scratch_bytes(n, value_bytes, work.columns.n_columns))
        else:
            room = Room(max(pegasos_scratch_bytes(&rows.c) if begin < end else 0,
                            pegasos_squares_scratch_bytes(&rows.c, n_problems)
                            if is_beginning else 0))
        memset(&options, 0, sizeof(options))
        options.tol, options.seed, options.solver = tol, seed, solver
        options.poll, options.context = own.c.poll, own.c.context
        options.poll_every, options.poll_epochs = own.c.every, own.c.by_epochs
        options.threads = work.c.threads
        if is_by_blas:
            options.blas = blas()
        with nogil:
            if is_beginning:
                options.max_epochs, problem = max_epochs[0], targets.problem(0, &rows.c)
                status = pegasos_solve_squares(n_problems, &problem, &options, targets.c.labels,
                                               &norms[0], &whole.c[0, 0], room.at)
            elif work.columns.is_all_at_once:
                if pegasos_columns_keep(&work.columns, 1, &first_row):
                    status = PEGASOS_STOPPED
            for k in range(begin, end if status == PEGASOS_DONE else begin):
                options.max_epochs, labels = max_epochs[k], targets.c.labels + k * n
                problem = targets.problem(k, NULL if is_kernel else &rows.c)
                if has_parts:
                    with gil:
                        part, own_rows, work.inside = fits[k], insides[k], insides[k]
                    status = pegasos_kernel_solve_part(
                        &of_columns, &problem, &options, labels, &norms[0], own_rows.shape[0],
                        &own_rows[0], &part.c[0, 0], room.at)
                    # Most parts are too short to poll.
                    if status == PEGASOS_DONE and own.c.poll and own.c.poll(own.c.context, NULL):
                        status = PEGASOS_STOPPED
                elif is_kernel:
                    status = pegasos_kernel_solve_one(&of_columns, &problem, &options, labels,
                                                      &norms[0], &whole.c[k, 0], room.at)
                else:
                    status = pegasos_solve_one(&problem, &options, labels, &norms[0],
                                               &whole.c[k, 0], room.at)
                if status != PEGASOS_DONE:
                    break
        work.end(status)

    try:
        if n_jobs == 1:
            solve_some(0, n_problems, watch.on_poll, begin_together)
        else:
            if begin_together:
                solve_some(0, 0, watch.on_poll, True, n_threads)
            elif is_kernel and columns.z is not None:
                columns.keep(np.zeros(1, np.int64), watch, n_threads)
            each = max(n_problems // (JOBS_OF_THREAD * n_jobs), 1)
            run_jobs([functools.partial(solve_some, k, min(k + each, n_problems))
                      for k in range(0, n_problems, each)], n_jobs, watch.on_poll)
    finally:  # if Ctrl-C came as the block is freed, it could not be raised
        if blas_limit is not None:
            blas_limit.end()
    if not has_parts:
        return whole.solutions()
    return np.array([row for own_fits in fits for row in own_fits.rows_of_table()], SOLUTION)


# ---- One problem over all classes --------------------------------------------------------------

cdef extern from "core.h" nogil:
    ctypedef struct pegasos_joint_problem:
        const pegasos_rows *rows
        int64_t n_classes
        const int64_t *codes
        const double *weights, *cost, *norms
        double lam, constant_feature
        int64_t is_free
    ctypedef struct pegasos_joint_options:
        double tol
        int64_t last_epoch, last_step, newton_after, batch_size, sampling, project
        int64_t averages, average_from
        uint64_t seed
        const pegasos_blas *blas
    ctypedef struct pegasos_joint:
        int64_t n_rows, n_features, n_classes, n_inside, n_epochs, n_visits, n_sweeps, n_steps
        int64_t n_active, position, n_kept, next_draw, n_averaged, n_newton, is_due, is_checked
        uint64_t generator
        double mass, visited, gap, loss, whole, ratio, q, squared_norm, rate_sum
        double width, primal, dual
    int64_t pegasos_joint_state_bytes(int64_t, int64_t, int64_t, int64_t)
    int64_t pegasos_joint_scratch_bytes(const pegasos_joint_problem *,
                                        const pegasos_joint_options *)
    int64_t pegasos_joint_unknowns(const pegasos_joint_problem *)
    int64_t pegasos_joint_newton_after(const pegasos_joint_problem *)
    const int64_t *pegasos_joint_active(int64_t, int64_t, int64_t, const void *)
    int pegasos_joint_run(const pegasos_joint_problem *, const pegasos_joint_options *, void *,
                          void *, pegasos_watch *)

cdef pegasos_joint _blank_joint
#: Layout of the state of a joint fit; its coefficients and intercepts follow in memory.
JOINT_STATE = np.asarray(<pegasos_joint[:1]> &_blank_joint).dtype


cdef bint is_joint(const pegasos_joint *s, int64_t n, int64_t d, int64_t n_classes,
                   const int64_t *codes, const int64_t *active, bint is_ascent) noexcept nogil:
    """Whether a fit that has begun belongs to these rows and codes, and can go on."""
    cdef int64_t i, n_inside = 0
    cdef bint holds = s.n_rows == n and s.n_features == d and s.n_classes == n_classes
    for i in range(n):
        n_inside += codes[i] >= 0
    holds = holds and s.n_inside == n_inside
    holds = holds and 0 <= s.n_kept <= s.position <= s.n_active <= n_inside
    holds = holds and 0 <= s.n_epochs < LARGEST and 0 <= s.n_steps < LARGEST
    holds = holds and 0 <= s.n_visits < LARGEST and 0 <= s.n_sweeps < LARGEST
    holds = holds and 0 <= s.n_newton < LARGEST and 0 <= s.next_draw < LARGEST and s.mass > 0
    if holds and is_ascent:
        for i in range(n_inside):
            holds = holds and 0 <= active[i] < n and codes[active[i]] >= 0
    return holds


cdef class Joint:
    """One problem over the classes of rows, whose numbers are `codes`; see ``core.h``.

    A row with the code -1 is not in the problem. `weights` may be None.
    """
    cdef pegasos_joint_problem c
    cdef Rows rows
    cdef tuple arrays

    def __init__(self, Rows rows not None, const int64_t[::1] codes not None,
                 const double[::1] weights, const double[:, ::1] cost not None,
                 const double[::1] norms not None, *, double lam, double feature,
                 bint is_free=False):
        cdef int64_t n = rows.c.n_rows, n_classes = cost.shape[0], i
        cdef bint is_inside = False
        require(n_classes >= 2 and cost.shape[1] == n_classes,
                "cost must be of two classes or more")
        require(codes.shape[0] == n and norms.shape[0] == n,
                "codes and norms must have n_rows entries")
        require_indices(codes, -1, n_classes, "codes must be in [-1, n_classes)")
        require(weights is None or weights.shape[0] == n, "weights must have n_rows entries")
        for i in range(n):
            is_inside |= codes[i] >= 0
            require(codes[i] < 0 or weights is None or weights[i] > 0, "weights must be > 0")
        require(is_inside, "a row must be in the problem")
        require(0 < lam and lam - lam == 0 and 0 <= feature <= 1e150,
                "lam must be > 0, and finite")
        require(not is_free or feature == 1, "feature must be 1 where intercepts are not penalised")
        self.rows, self.arrays = rows, (codes, weights, cost, norms)
        self.c.rows, self.c.n_classes, self.c.codes = &rows.c, n_classes, &codes[0]
        self.c.weights = &weights[0] if weights is not None else NULL
        self.c.cost, self.c.norms = &cost[0, 0], &norms[0]
        self.c.lam, self.c.constant_feature, self.c.is_free = lam, feature, is_free

    @staticmethod
    def n_bytes(int64_t n_rows, int64_t n_features, int64_t n_classes, bint averages=False):
        """The number of bytes of a fit's memory."""
        require_size(n_rows, n_features)
        require(2 <= n_classes < LARGEST // 1024 and
                (<double> n_rows + n_features + 9) * (<double> n_classes + 8) < 1e17,
                "n_classes must be >= 2, and sizes such as memory may have")
        return pegasos_joint_state_bytes(n_rows, n_features, n_classes, averages)

    @property
    def newton_after(self):
        """The number of epochs of dual ascent before Newton's method; 0: never take it."""
        return pegasos_joint_newton_after(&self.c)

    def run(self, uint8_t[::1] memory not None, *, double tol=-1, int64_t last_epoch=0,
            int64_t last_step=0, int64_t newton_after=0, int64_t batch_size=1, int64_t sampling=0,
            bint project=False, bint averages=False, int64_t average_from=0, uint64_t seed,
            Watch watch not None):
        """Begin a fit, or go on with it; see ``pegasos_joint_run``.

        `memory` has `n_bytes`, all zeros before the fit begins. `last_step` > 0 means Pegasos.
        """
        cdef int64_t n = self.c.rows.n_rows, d = self.c.rows.n_features, K = self.c.n_classes
        cdef pegasos_joint_options options
        cdef int status
        cdef Closing blas_limit = None
        cdef Room room
        require(memory.shape[0] == Joint.n_bytes(n, d, K, averages), "memory must have n_bytes")
        require_aligned(&memory[0], sizeof(double), "memory must be aligned")
        require(tol == tol, "tol must be a number")
        require(0 <= average_from < LARGEST and (averages or average_from == 0),
                "average_from needs memory with room for averages")
        require(0 <= last_epoch < LARGEST and 0 <= last_step < LARGEST,
                "last_epoch and last_step must be in [0, 2**62)")
        require(1 <= batch_size < LARGEST // 1024 and PEGASOS_PERMUTATION <= sampling
                and sampling <= PEGASOS_UNIFORM, "batch_size must be >= 1, and sampling one")
        require((<pegasos_joint *> &memory[0]).n_rows == 0
                or is_joint(<pegasos_joint *> &memory[0], n, d, K, self.c.codes,
                            pegasos_joint_active(n, d, K, &memory[0]), last_step == 0),
                "memory is not that of a fit of this kind which can go on")
        options.newton_after = newton_after if last_step == 0 else 0
        require(0 <= newton_after < LARGEST, "newton_after must be in [0, 2**62)")
        require(options.newton_after == 0
                or pegasos_joint_unknowns(&self.c) <= PEGASOS_NEWTON_MAX_UNKNOWNS,
                "Newton's method has no room for so many classes and features")
        options.blas = NULL
        if options.newton_after > 0 and pegasos_newton_uses_blas(pegasos_joint_unknowns(&self.c)):
            options.blas, blas_limit = blas(), one_thread_of_blas()
        options.averages, options.average_from = averages, average_from
        options.tol, options.last_epoch, options.last_step = tol, last_epoch, last_step
        options.batch_size, options.sampling, options.project = batch_size, sampling, project
        options.seed = seed
        room = Room(pegasos_joint_scratch_bytes(&self.c, &options))
        with nogil:
            status = pegasos_joint_run(&self.c, &options, &memory[0], room.at, &watch.c)
        if blas_limit is not None:
            blas_limit.end()
        watch.answer(status)
