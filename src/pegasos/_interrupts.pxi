# Work that Ctrl-C does not cut short; included by _core.pyx.
#
# The interpreter checks for signals between bytecodes, of which there are none here. So Ctrl-C
# comes where a Python function or `PyErr_CheckSignals` is called, as its KeyboardInterrupt.

from _thread import RLock

cimport cython

cdef enum:
    # After this many interruptions, stop trying and raise KeyboardInterrupt.
    MOST_BEGINNINGS = 100


cdef object to_the_end(function, list stopped):
    """Call a function, again if Ctrl-C stops it; `stopped[0]` is then the KeyboardInterrupt."""
    cdef int k
    for k in range(MOST_BEGINNINGS):
        try:
            return function()
        except KeyboardInterrupt as now:
            stopped[0] = now
    raise stopped[0]


cpdef object defer_interrupt(function):
    """Call a function that can be called again after a stop, until Ctrl-C lets it end.

    Then raise the KeyboardInterrupt, if one came, or return the result.
    """
    cdef list stopped = [None]
    result = to_the_end(function, stopped)
    if stopped[0] is not None:
        raise stopped[0]
    return result


@cython.no_gc_clear
cdef class Closing:
    """A block between ``thing.open()`` and ``thing.close()``; Ctrl-C cuts neither short.

    Both must allow another call after a stop. If a tracing function prevents the end of a block,
    the block ends when nothing refers to it.
    """
    cdef object thing
    cdef bint is_open

    def __init__(self, thing):
        self.thing = thing

    cdef int begin(self) except -1:
        self.is_open = True
        try:
            defer_interrupt(self.thing.open)
        except BaseException:
            self.end()
            raise
        return 0

    cdef int end(self) except -1:
        if self.is_open:
            self.is_open = False
            defer_interrupt(self.thing.close)
        return 0

    def __enter__(self):
        self.begin()

    def __exit__(self, *_):
        self.end()

    def __dealloc__(self):
        self.end()


def update_atomically(dict attributes not None, dict new not None, optional=(), *,
                      tuple written=()):
    """Make several changes: all of them or, if Ctrl-C comes, none.

    Parameters
    ----------
    attributes, new : dict
        The `vars` of an object, and the changes of them.
    optional : iterable of str
        Attributes to delete if they are not in `new`.
    written : tuple of tuple
        Parts of arrays to write: (array, where, values).
    """
    gone = [name for name in optional if name not in new]
    for array, where, values in written:
        array[where] = values
    for name in gone:
        attributes.pop(name, None)
    attributes.update(new)


cdef class KeepOnInterrupt:
    """A block that is entered as ``commit``: ``commit(new)`` sets attributes.

    If Ctrl-C stops the block before that, ``so_far()`` returns what to set, if anything.
    """
    cdef dict attributes
    cdef object optional, so_far
    cdef bint is_committed

    def __init__(self, dict attributes not None, optional, so_far):
        self.attributes, self.optional, self.so_far = attributes, optional, so_far

    def commit(self, dict new not None):
        update_atomically(self.attributes, new, self.optional)
        self.is_committed = True

    def __enter__(self):
        return self.commit

    def __exit__(self, kind, *_):
        if not self.is_committed and kind is not None and issubclass(kind, KeyboardInterrupt):
            new = to_the_end(self.so_far, [None])
            if new:
                update_atomically(self.attributes, new, self.optional)


# Made here, because the lock must be released even if there is no memory left.
cdef object _count_lock = RLock()
cdef object _lock_count = _count_lock.acquire, _unlock_count = _count_lock.release
cdef int64_t _n_open = 0


@cython.no_gc_clear
cdef class OneThread:
    """A state of the whole process while any of these is open: BLAS has one thread.

    ``begin()`` is called before each, ``end()`` after the last one.
    """
    cdef object begin, end
    cdef bint is_open

    def __init__(self, begin, end):
        self.begin, self.end = begin, end

    cdef int turn(self, bint is_open) except -1:
        global _n_open
        _lock_count()
        try:
            _n_open += <int> is_open - <int> self.is_open
            self.is_open = is_open
            if is_open:
                self.begin()
            elif _n_open == 0:
                self.end()
        finally:
            _unlock_count()
        return 0

    def open(self):
        self.turn(True)

    def close(self):
        self.turn(False)


cdef Closing one_thread_of_blas():
    """A block in which BLAS has one thread. It has begun, and the caller must end it."""
    from pegasos import _threads
    cdef Closing block = _threads.blas.one_thread()
    block.begin()
    return block
