"""Pieces of work: how large they are, and how threads share them."""

import functools
import itertools
from collections.abc import Callable

from pegasos._threads import Job

# Rows on the longer side of a product in one piece: the product stays in cache until it is used.
CHUNK = 1024
# Rows on the other side of a product in one piece.
PIECE = 512
# Fewer kernel values than this are not worth another thread.
_FEW = 2**20

#: What is done to numbers `first` to `last`, with a function to call between short pieces of it.
Work = Callable[[int, int, Callable[[], None]], None]


def shares(n: int, width: float, work: Work, n_threads: int, size: int = 1) -> list[Job]:
    """Jobs that do `work` and cover range(n), `width` values each: one for each thread.

    Each begins at a multiple of `size`; there are fewer where they would be small.
    """
    n_pieces = -(-n // size)
    n_shares = max(1, min(n_threads, 1 + int(n * width // _FEW), n_pieces))
    ends = [min(n, size * (n_pieces * k // n_shares)) for k in range(n_shares + 1)]
    return [functools.partial(work, *pair) for pair in itertools.pairwise(ends)]


def parts(n: int, size: int, first: int = 0) -> list[slice]:
    """Slices of at most `size` that cover first, ..., first + n - 1."""
    return [slice(k, min(k + size, first + n)) for k in range(first, first + n, size)]
