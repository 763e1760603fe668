"""Threads of ours, those of BLAS, and Ctrl-C, which must not leave things half done."""

import collections
import contextlib
import functools
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from pegasos import _core

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _in_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


class _CtrlC:
    """The handler of Ctrl-C while something is under way: it lets it wait where it would do harm.

    Then it does what the handler before it does. If that raises, as it does as a rule, the
    exception is on its way out and others put arrays in order: a second Ctrl-C must not cut them
    short. So it waits until `handling` ends, whose exception has answered it, or work goes on.

    Only the main thread hears of Ctrl-C. Where it is ignored, or ends the process, it stays so.
    """

    def __init__(self) -> None:
        self._before: Any = None
        self._heard: list[Any] = []
        # Within `handling`; and whether the handler of before is at work, or has raised.
        self._is_handler, self._is_answered = False, False
        self._n_blocks = 0
        self._answered: Any = None

    def __call__(self, *arguments: Any) -> None:
        if self._is_answered and arguments == self._answered:
            # The handler of before calls the one that it found, this one.
            signal.default_int_handler(*arguments)
        self._heard.append(arguments)
        if self._n_blocks == 0 and not self._is_answered:
            self._answer()

    def _answer(self) -> None:
        self._is_answered = True
        self._answered = self._heard[0]
        self._heard.clear()
        before = self._before
        if not self._is_handler:  # nobody is sure to put the handler of before back
            signal.signal(signal.SIGINT, before)
        try:
            before(*self._answered)
        finally:
            self._answered = None  # it has a frame, which has arrays
        self._is_answered = False

    @contextlib.contextmanager
    def handling(self) -> Generator[None]:
        """Make this the handler in a block: what is called there need not (10 us each).

        Ctrl-C waits in it but where it says `answered`.
        """
        before = signal.getsignal(signal.SIGINT) if _in_main_thread() else self
        if before is self or not callable(before):
            yield
            return
        # Whatever an exception may have left behind, no block of ours is under way. What is done
        # here is one, so that it is undone.
        self._before, self._n_blocks, self._is_answered = before, 1, False
        self._heard.clear()
        has_raised, self._is_handler = True, True
        try:
            signal.signal(signal.SIGINT, self)
            yield
            has_raised = False
        finally:
            is_answered, self._is_answered = self._is_answered and has_raised, True
            self._is_handler = False
            if signal.getsignal(signal.SIGINT) is self:
                signal.signal(signal.SIGINT, before)
            heard = self._heard[:1]
            self._heard.clear()
            if heard and not is_answered:
                before(*heard[0])

    def handled(self, function: Callable[_P, _T]) -> Callable[_P, _T]:
        """Make this the handler while a function runs."""

        @functools.wraps(function)
        def call(*arguments: _P.args, **options: _P.kwargs) -> _T:
            with self.handling(), self.answered():
                return function(*arguments, **options)

        return call

    @contextlib.contextmanager
    def _until_answered(self) -> Generator[None]:
        """Make this the handler for a block that nothing handled is around."""
        before = signal.getsignal(signal.SIGINT)
        if before is self or not callable(before):
            yield
            return
        self._before, self._n_blocks, self._is_answered = before, 0, False
        self._heard.clear()
        try:
            signal.signal(signal.SIGINT, self)
            yield
        finally:
            if signal.getsignal(signal.SIGINT) is self:
                signal.signal(signal.SIGINT, before)

    def uninterrupted(self) -> "_Uninterrupted":
        """Let Ctrl-C wait until the block ends, so that what it changes is changed as a whole.

        The block is given something that is true once Ctrl-C was pressed.
        """
        return _Uninterrupted(self)

    @contextlib.contextmanager
    def answered(self) -> Generator[None]:
        """Answer Ctrl-C at once in a block, though this be within others that let it wait."""
        if not _in_main_thread():
            yield
            return
        outside, self._n_blocks = self._n_blocks, 0
        try:
            self._is_answered = False  # if an exception was, somebody has caught it
            if self._heard:
                self._answer()
            yield
        finally:
            self._n_blocks = outside


class _Uninterrupted:
    """The block of `_CtrlC.uninterrupted`: a fit has a dozen, and a generator would take 4 us."""

    __slots__ = ("_ctrl_c", "_outside", "_until_answered")

    def __init__(self, ctrl_c: _CtrlC) -> None:
        self._ctrl_c, self._outside = ctrl_c, -1
        self._until_answered: Any = None

    def __enter__(self) -> Sequence[Any]:
        ctrl_c = self._ctrl_c
        if not _in_main_thread():
            return ()
        if ctrl_c._is_handler:
            self._begin()
            return ctrl_c._heard
        self._until_answered = ctrl_c._until_answered()
        self._until_answered.__enter__()
        try:
            self._begin()
        except BaseException:
            self._until_answered.__exit__(*sys.exc_info())
            raise
        return ctrl_c._heard

    def _begin(self) -> None:
        self._outside = self._ctrl_c._n_blocks
        self._ctrl_c._n_blocks = self._outside + 1

    def __exit__(self, *error: object) -> None:
        ctrl_c, outside = self._ctrl_c, self._outside
        if outside < 0:
            return
        try:
            ctrl_c._n_blocks = outside
            if ctrl_c._heard and outside == 0 and not ctrl_c._is_answered:
                ctrl_c._answer()
        finally:
            if self._until_answered is not None:
                self._until_answered.__exit__(*error)


_ctrl_c = _CtrlC()
handling, handled = _ctrl_c.handling, _ctrl_c.handled
uninterrupted, answered = _ctrl_c.uninterrupted, _ctrl_c.answered


def answering(on_progress: Callable[[], None] | None) -> Callable[[], None]:
    """What the core is to call now and then: Ctrl-C is answered there, and `on_progress` called."""

    def tell() -> None:
        with answered():
            if on_progress is not None:
                on_progress()

    return tell


#: What `in_threads` does: it is given a function to call now and then.
Job = Callable[[Callable[[], None]], None]


class _OverError(Exception):
    """What a thread has to do is over: another one failed, or was interrupted."""


def in_threads(
    jobs: Iterable[Job], n_threads: int, on_progress: Callable[[], None] | None = None
) -> None:
    """Do jobs, several at a time.

    Parameters
    ----------
    jobs : iterable of callables
        Each is given a function to call now and then, and ends at once with what that raises.
    n_threads : int
        The calling thread works, too: one that is not needed need not be woken.
    on_progress : callable, optional
        Called now and then, from the calling thread: other fits may run in it. An exception stops
        all jobs. So does Ctrl-C, which is answered where jobs make calls only.
    """
    errors, answer = list[BaseException](), answering(on_progress)

    def tell() -> None:
        answer()
        if errors:
            raise errors[0]

    # No thread may be at work when this returns or raises: that is why Ctrl-C waits while threads
    # start, and while they end. Neither `start` nor `join` of a thread can be interrupted and then
    # say truly whether the thread runs. Nor must it come where a job puts arrays back as it ends.
    jobs = list(jobs) if n_threads > 1 else jobs
    with uninterrupted():
        if isinstance(jobs, list) and min(n_threads, len(jobs)) > 1:
            _share(jobs, min(n_threads, len(jobs)) - 1, tell, errors)
            return
        for job in jobs:
            job(tell)


def _share(
    jobs: list[Job], n_helpers: int, tell: Callable[[], None], errors: list[BaseException]
) -> None:
    """Do jobs in this thread and in helpers, whose `errors` `tell` raises."""
    # Each thread takes jobs until it takes a None.
    waiting = collections.deque([*jobs, *[None] * (n_helpers + 1)])
    is_over, ended = threading.Event(), list[threading.Event]()

    def check() -> None:
        if is_over.is_set():
            raise _OverError

    def help_out(end: threading.Event) -> None:
        try:
            in_threads(iter(waiting.popleft, None), 1, check)
        except BaseException as error:  # noqa: BLE001 it is the caller's
            errors.append(error)
            is_over.set()
        finally:
            end.set()

    try:
        inherited = np.errstate(**np.geterr())
        for end in [threading.Event() for _ in range(n_helpers)]:
            threading.Thread(target=inherited(help_out), args=[end]).start()
            ended.append(end)
        with answered():
            pass
        for job in iter(waiting.popleft, None):
            job(tell)
        for end in ended:
            while not end.wait(timeout=0.05):
                tell()
    finally:
        is_over.set()
        for end in ended:
            end.wait()
    if errors:
        raise errors[0]


@contextlib.contextmanager
def pool(n_threads: int) -> Generator[_core.Pool | None]:
    """A block in which other threads share what `_core.solve` does: `n_threads` with this one.

    It is given None if there are no others.
    """
    if n_threads <= 1:
        yield None
        return
    helpers, threads = _core.Pool(n_threads - 1), list[threading.Thread]()
    with uninterrupted():  # as in `in_threads`
        try:
            for _ in range(n_threads - 1):
                thread = threading.Thread(target=helpers.help_out)
                thread.start()
                threads.append(thread)
            yield helpers
        finally:
            helpers.close()
            for thread in threads:
                thread.join()


class _Block:
    """A block in which BLAS has one thread; nothing but the block refers to it."""


def _no_block() -> None:
    """A dead reference to a block."""


class _OfThread(threading.local):
    """A weak reference to the block that a thread is in."""

    block: Callable[[], _Block | None] = staticmethod(_no_block)


class _Blas:
    """The threads of BLAS, NumPy's and SciPy's."""

    def __init__(self) -> None:
        # One that an exception in the wrong line leaves locked does not lock its own thread out.
        self._lock = threading.RLock()
        # Libraries that had more threads than one before, and how many.
        self._before: dict[Any, int] = {}
        self._blocks: weakref.WeakSet[_Block] = weakref.WeakSet()
        self._own = _OfThread()

    @functools.cached_property
    def _libraries(self) -> Any:  # to find them takes 3 ms
        import scipy.linalg  # noqa: F401 - its BLAS has to be there to be found
        from threadpoolctl import ThreadpoolController  # here, so that "import pegasos" is light

        return ThreadpoolController().select(user_api="blas")

    def n_threads(self) -> int:
        """How many there are."""
        return max((library.num_threads for library in self._libraries.lib_controllers), default=1)

    def _set_threads(self, numbers: dict[Any, int]) -> None:
        """Set the number of each library, as threadpoolctl lets only the first thread do."""
        if not numbers:
            return
        known = [getattr(library, "clear_controlling_thread", None) for library in numbers]
        clear = [function for function in known if function]  # old versions have none
        for function in clear:
            function(force=True)
        try:
            for library, n in numbers.items():
                library.set_num_threads(n)
        finally:
            for function in clear:
                function(force=True)

    @contextlib.contextmanager
    def one_thread(self) -> Generator[None]:
        """A block in which there is one: ours then do not stand in its way.

        The number belongs to the process: of blocks that overlap, in threads, the last one puts it
        back. A block that Ctrl-C cuts off at its very end is forgotten with its frame, and the next
        one puts the number back.
        """
        if self._own.block() is not None:  # within another block of this thread
            yield
            return
        block = _Block()
        with uninterrupted(), self._lock:
            # By itself: threadpoolctl's limits take ten times as long.
            libraries = self._libraries.lib_controllers
            many = {each: n for each in libraries if (n := each.num_threads) > 1}
            self._before = many | self._before
            self._set_threads(dict.fromkeys(many, 1))
            self._blocks.add(block)
            self._own.block = weakref.ref(block)
        try:
            yield
        finally:
            with uninterrupted(), self._lock:
                self._blocks.discard(block)
                self._own.block = _no_block
                if not self._blocks:
                    self._set_threads(self._before)
                    self._before = {}


blas = _Blas()
