# Threads that share the work of one call, and exist only during it; included by _core.pyx.
#
# They end even if no memory is left: doing tasks, ending, and waiting for the end need none.

import _thread
import contextvars

from cpython.pythread cimport (
    NOWAIT_LOCK, PY_LOCK_ACQUIRED, WAIT_LOCK, PyLockStatus, PyThread_acquire_lock,
    PyThread_allocate_lock, PyThread_free_lock, PyThread_get_thread_ident, PyThread_release_lock,
    PyThread_type_lock,
)

cdef extern from "pythread.h" nogil:
    PyLockStatus PyThread_acquire_lock_timed(PyThread_type_lock, long long microseconds,
                                             int is_interruptible)

# The most threads of one call.
cdef int64_t MOST_THREADS = 2**16


cdef PyThread_type_lock new_lock(bint is_held) except NULL:
    lock = PyThread_allocate_lock()
    if lock == NULL:
        raise MemoryError("there is no lock for threads")
    if is_held:
        PyThread_acquire_lock(lock, WAIT_LOCK)
    return lock


cdef void free_lock(PyThread_type_lock lock) noexcept:
    if lock != NULL:
        PyThread_acquire_lock(lock, NOWAIT_LOCK)
        PyThread_release_lock(lock)
        PyThread_free_lock(lock)


cdef struct helper_t:
    PyThread_type_lock wake  # released when there is something to do
    bint is_asleep

# What threads share; `lock` guards it.
cdef struct pool_t:
    PyThread_type_lock lock
    PyThread_type_lock is_done  # if `is_awaited`, released when all tasks (or helpers) are done
    bint is_awaited
    helper_t *helpers
    int64_t n_helpers, n_alive
    void (*task)(void *argument, int64_t k) noexcept nogil
    void *argument
    int64_t n_tasks, n_begun, n_done
    bint is_closed


cdef bint do_task(pool_t *p) noexcept nogil:
    """Do the next task, if there is one; the caller holds the lock before and after."""
    cdef int64_t k = p.n_begun
    if k == p.n_tasks:
        return False
    p.n_begun += 1
    PyThread_release_lock(p.lock)
    p.task(p.argument, k)
    PyThread_acquire_lock(p.lock, WAIT_LOCK)
    p.n_done += 1
    if p.is_awaited and p.n_done == p.n_tasks:
        p.is_awaited = False
        PyThread_release_lock(p.is_done)
    return True


cdef void wake_helpers(pool_t *p, int64_t most) noexcept nogil:
    cdef int64_t k
    for k in range(min(p.n_helpers, most)):
        if p.helpers[k].is_asleep:
            p.helpers[k].is_asleep = False
            PyThread_release_lock(p.helpers[k].wake)


cdef void begin_tasks(pool_t *p, int64_t n_tasks,
                      void (*task)(void *argument, int64_t k) noexcept nogil,
                      void *argument) noexcept nogil:
    """Do tasks until none is left to begin; the caller holds the lock before and after."""
    p.task, p.argument = task, argument
    p.n_tasks, p.n_begun, p.n_done = n_tasks, 0, 0
    wake_helpers(p, n_tasks - 1)
    while do_task(p):
        pass


cdef void do_tasks(void *context, int64_t n_tasks,
                   void (*task)(void *argument, int64_t k) noexcept nogil,
                   void *argument) noexcept nogil:
    """`run` of ``pegasos_threads``. It does not wait for helpers that wake up late."""
    cdef pool_t *p = <pool_t *> context
    cdef bint is_awaited
    PyThread_acquire_lock(p.lock, WAIT_LOCK)
    begin_tasks(p, n_tasks, task, argument)
    is_awaited = p.is_awaited = p.n_done < n_tasks
    PyThread_release_lock(p.lock)
    if is_awaited:
        PyThread_acquire_lock(p.is_done, WAIT_LOCK)


cdef void help_out(pool_t *p, helper_t *own) noexcept nogil:
    """Do tasks until the pool is closed."""
    PyThread_acquire_lock(p.lock, WAIT_LOCK)
    while not p.is_closed:
        if not do_task(p):
            own.is_asleep = True
            PyThread_release_lock(p.lock)
            PyThread_acquire_lock(own.wake, WAIT_LOCK)
            PyThread_acquire_lock(p.lock, WAIT_LOCK)
    PyThread_release_lock(p.lock)


cdef class Alive:
    """Owned by a thread until it ends or fails to begin; until then, the pool counts the thread."""
    cdef Pool pool

    cdef void end(self) noexcept:
        cdef pool_t *p
        if self.pool is None:
            return
        p = &self.pool.c
        PyThread_acquire_lock(p.lock, WAIT_LOCK)
        p.n_alive -= 1
        if p.is_closed and p.n_alive == 0:
            PyThread_release_lock(p.is_done)
        PyThread_release_lock(p.lock)
        self.pool = None

    def __dealloc__(self):
        self.end()


cdef class Pool:
    """Threads that share the work of one call: `n_threads`, including the calling thread."""
    cdef pool_t c
    cdef pegasos_threads threads
    cdef object error  # the first one

    def __cinit__(self, int64_t n_threads):
        cdef int64_t k, n_helpers = min(max(n_threads, 1), MOST_THREADS) - 1
        self.c.helpers = <helper_t *> calloc(<size_t> n_helpers + 1, sizeof(helper_t))
        if self.c.helpers == NULL:
            raise MemoryError(f"there is no room for {n_helpers} threads")
        self.c.n_helpers = n_helpers
        self.c.lock = new_lock(False)
        self.c.is_done = new_lock(True)
        for k in range(n_helpers):
            self.c.helpers[k].wake = new_lock(True)
        self.threads.run, self.threads.context = do_tasks, &self.c

    def __dealloc__(self):
        cdef int64_t k
        for k in range(self.c.n_helpers):
            free_lock(self.c.helpers[k].wake)
        free(self.c.helpers)
        free_lock(self.c.lock)
        free_lock(self.c.is_done)

    cdef int start(self) except -1:
        """Start the threads. Fewer threads give the same results. Must be closed."""
        cdef Alive alive = None
        cdef int64_t k
        try:
            for k in range(self.c.n_helpers):
                alive = None
                alive = Alive()
                PyThread_acquire_lock(self.c.lock, WAIT_LOCK)
                alive.pool = self
                self.c.n_alive += 1
                PyThread_release_lock(self.c.lock)
                _thread.start_new_thread(self._help, (k, alive))
        except BaseException as error:
            if alive is not None:
                alive.end()
            if not isinstance(error, (MemoryError, RuntimeError)):
                self.close()
                raise
        return 0

    def _help(self, int64_t k, Alive alive not None):
        with nogil:
            help_out(&self.c, &self.c.helpers[k])
        alive.end()

    cdef void keep(self, error) noexcept:
        PyThread_acquire_lock(self.c.lock, WAIT_LOCK)
        if self.error is None:
            self.error = error
        PyThread_release_lock(self.c.lock)

    cdef int listen(self) except -1:
        """Called by the calling thread now and then while it waits."""
        PyErr_CheckSignals()
        return 0

    cdef int close(self) except -1:
        """End all threads and wait for them; then raise the error, if there was one."""
        cdef PyLockStatus status = PyLockStatus.PY_LOCK_FAILURE
        if self.c.is_closed:
            return 0
        with nogil:
            PyThread_acquire_lock(self.c.lock, WAIT_LOCK)
            self.c.is_closed = True
            wake_helpers(&self.c, self.c.n_helpers)
            if self.c.n_alive == 0:
                PyThread_release_lock(self.c.is_done)
            PyThread_release_lock(self.c.lock)
        while True:
            with nogil:
                status = PyThread_acquire_lock_timed(self.c.is_done, 50_000, True)
            if status == PY_LOCK_ACQUIRED:
                break
            try:
                self.listen()
            except BaseException as error:
                self.keep(error)
        error, self.error = self.error, None
        if error is not None:
            raise error
        return 0


class JobCancelledError(Exception):
    """Ends a job because another one failed or was interrupted."""


cdef void do_job(void *context, int64_t k) noexcept nogil:
    with gil:
        (<JobPool> context).do(k)


cdef class JobPool(Pool):
    """Jobs that threads take one by one. The first error stops them, and so does Ctrl-C."""
    cdef list jobs
    cdef object on_poll, context
    cdef long caller

    cdef int listen(self) except -1:
        PyErr_CheckSignals()
        self._on_poll()
        return 0

    def _on_poll(self):
        """Called now and then by jobs of the calling thread."""
        if self.error is not None:
            raise self.error
        if self.on_poll is not None:
            self.on_poll()

    def _check(self):
        """Called now and then by jobs of other threads."""
        if self.error is not None:
            raise JobCancelledError

    cdef void do(self, int64_t k) noexcept:
        """Do a job, unless the jobs are cancelled."""
        try:
            if self.error is not None:
                pass
            elif PyThread_get_thread_ident() == self.caller:
                self.jobs[k](self._on_poll)
            else:  # with NumPy's errstate of the calling thread
                self.context.copy().run(self.jobs[k], self._check)
        except BaseException as error:
            self.keep(error)


def run_jobs(list jobs not None, int64_t n_threads, on_poll=None):
    """Do jobs, several at a time.

    Each job gets a function to call now and then, and ends at once if that raises. The calling
    thread works too, and calls `on_poll` now and then; other fits may run in it. An exception or
    Ctrl-C stops all jobs. No thread is at work when this returns or raises.
    """
    cdef JobPool pool
    cdef int64_t n_jobs = len(jobs)
    pool = JobPool(min(n_threads, n_jobs))
    pool.jobs, pool.on_poll, pool.context = jobs, on_poll, contextvars.copy_context()
    pool.caller = PyThread_get_thread_ident()
    pool.start()
    with nogil:
        PyThread_acquire_lock(pool.c.lock, WAIT_LOCK)
        begin_tasks(&pool.c, n_jobs, do_job, <void *> pool)
        PyThread_release_lock(pool.c.lock)
    pool.close()


@cython.no_gc_clear
cdef class Ending:
    """Owned by the thread of a call until it ends, or fails to begin."""
    cdef Background of

    cdef void end(self) noexcept:
        if self.of is not None:
            PyThread_release_lock(self.of.is_idle)
            self.of = None

    def __dealloc__(self):
        self.end()


cdef class Background:
    """Calls of functions in another thread, one at a time, while this thread goes on.

    Ctrl-C can stop a wait for the last call, and `wait` can be called again. It comes nowhere else:
    a call that has begun is always known, and `wait` waits for it.
    """
    cdef PyThread_type_lock is_idle  # held by a call until its end
    cdef bint is_done
    cdef object error

    def __cinit__(self):
        self.is_idle = new_lock(False)
        self.is_done = True

    def __dealloc__(self):
        free_lock(self.is_idle)

    def start(self, function):
        """Let a thread call `function`, after the last call has ended; its error is dropped."""
        cdef Ending ending
        self.wait()
        ending = Ending()
        self.is_done, self.error = False, None
        PyThread_acquire_lock(self.is_idle, WAIT_LOCK)
        ending.of = self
        try:
            _thread.start_new_thread(self._call, (function, ending))
        except BaseException:
            ending.end()
            raise

    def _call(self, function, Ending ending not None):
        try:
            function()
            self.is_done = True
        except BaseException as error:
            self.error = error

    def wait(self):
        """Wait for the end of the last call, and return what it raised, or None."""
        cdef PyLockStatus status = PyLockStatus.PY_LOCK_FAILURE
        while status != PY_LOCK_ACQUIRED:
            with nogil:
                status = PyThread_acquire_lock_timed(self.is_idle, 50_000, True)
            if status != PY_LOCK_ACQUIRED:
                PyErr_CheckSignals()
        PyThread_release_lock(self.is_idle)
        if self.error is None and not self.is_done:
            return MemoryError("a thread could not begin")
        return self.error
