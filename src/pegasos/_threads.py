"""The number of our threads, and of the threads of NumPy's and SciPy's BLAS, which compete."""

import contextlib
from typing import Any

from pegasos import _core
from pegasos._cached import cached_property


def count(n_jobs: int | None) -> int:
    """The number of threads that `n_jobs` means in scikit-learn."""
    import multiprocessing  # here, so that "import pegasos" is light

    import joblib

    # In a worker of a pool, joblib warns that processes cannot begin there; threads can.
    is_worker = multiprocessing.current_process().daemon
    with joblib.parallel_config(backend="threading") if is_worker else contextlib.nullcontext():
        return int(joblib.effective_n_jobs(n_jobs))  # pyright: ignore[reportArgumentType]


class _Blas:
    def __init__(self) -> None:
        # Libraries that had more than one thread before, and their numbers of threads.
        self._before: dict[Any, int] = {}

    @cached_property
    def _libraries(self) -> Any:  # to find them takes 3 ms
        import scipy.linalg  # noqa: F401 - its BLAS must be loaded to be found
        from threadpoolctl import ThreadpoolController  # here, so that "import pegasos" is light

        return ThreadpoolController().select(user_api="blas").lib_controllers

    def n_threads(self) -> int:
        """The number of BLAS threads."""
        return max((library.num_threads for library in self._libraries), default=1)

    def one_thread(self) -> _core.Closing:
        """A block in which BLAS has one thread, so that it does not compete with our threads.

        The number belongs to the process. Of blocks that overlap, the last end restores it.
        """
        return _core.Closing(_core.OneThread(self._begin, self._end))

    # Both may be called again after Ctrl-C has stopped them.

    def _begin(self) -> None:
        # Without threadpoolctl's limits, which take ten times as long.
        many = {library: n for library in self._libraries if (n := library.num_threads) > 1}
        self._before = many | self._before
        self._set_threads(dict.fromkeys(many, 1))

    def _end(self) -> None:
        self._set_threads(self._before)
        self._before = {}

    def _set_threads(self, numbers: dict[Any, int]) -> None:
        """Set the number of each library; threadpoolctl lets only the first thread do so."""
        if not numbers:
            return
        known = [getattr(library, "clear_controlling_thread", None) for library in numbers]
        clear = [function for function in known if function]  # old versions lack it
        for function in clear:
            function(force=True)
        try:
            for library, n in numbers.items():
                library.set_num_threads(n)
        finally:
            for function in clear:
                function(force=True)


blas = _Blas()
