"""Pieces of work: how large they are, and how threads share them."""

import collections
import functools
import itertools
from collections.abc import Callable, Generator
from typing import Any

from pegasos import _threads

# Rows on the longer side of a product in one piece: the product stays in cache until it is used.
CHUNK = 1024
# Rows on the other side of a product in one piece.
PIECE = 512
# Fewer kernel values than this are not worth another thread.
_FEW = 2**20


def share(
    n: int, width: float, work: Callable[[int, int], Generator[Any]], n_threads: int, size: int = 1
) -> None:
    """Exhaust ``work(first, last)``, a generator, for shares of range(n), of `width` values each.

    Each begins at a multiple of `size`.
    """
    n_pieces = -(-n // size)
    n_threads = max(1, min(n_threads, 1 + int(n * width // _FEW), n_pieces))
    if n_threads == 1:  # many shares are small
        collections.deque(work(0, n), maxlen=0)
        return
    ends = [min(n, size * (n_pieces * k // n_threads)) for k in range(n_threads + 1)]
    jobs = [functools.partial(work, *pair) for pair in itertools.pairwise(ends)]
    _threads.in_threads(jobs, n_threads)


def parts(n: int, size: int, first: int = 0) -> list[slice]:
    """Slices of at most `size` that cover first, ..., first + n - 1."""
    return [slice(k, min(k + size, first + n)) for k in range(first, first + n, size)]
