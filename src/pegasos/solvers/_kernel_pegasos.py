"""Kernel Pegasos, without the whole kernel matrix in memory.

``csrc/kernel_pegasos.c`` has the loop; here are the arrays.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from pegasos import _core
from pegasos.problems._settings import Settings
from pegasos.problems._validate import parameter
from pegasos.solvers._pegasos import Pegasos, next_draw


def check_convex(settings: Settings, cache: Any) -> None:
    """Raise a ValueError where there may be no minimum.

    If |w|^2 can be below 0, only bounds on dual variables keep w finite. Some smooth losses have no
    such bounds, so all of them are refused.
    """
    if settings.loss.curvature and not cache.is_positive:
        bounded = "epsilon_insensitive" if settings.loss.has_targets else "hinge"
        raise ValueError(
            f"{parameter('loss', settings.loss.name)} needs a kernel matrix that is known to be "
            "positive semi-definite, since there may be no minimum otherwise: take "
            f"{parameter('loss', bounded)}, the "
            f"kernel 'rbf', 'laplacian', 'linear', or 'poly' with {parameter('coef0')} >= 0, or, "
            "in Python, say assume_psd=True if you know that it is"
        )


class KernelPegasos(Pegasos):
    """Kernel problems over the same rows, and the state of Pegasos on them.

    `weights` holds beta and `scores` holds <v, phi(x_i)> for all rows, both of shape
    (n_problems, n_rows). `unpushed` is the part of beta that `scores` does not contain yet. See
    `Pegasos` for the other attributes.
    """

    _ARRAYS = (*Pegasos._ARRAYS, "scores", "unpushed")

    def __init__(
        self, settings: Settings, n_problems: int, n_rows: int, dtype: Any, seed: int
    ) -> None:
        super().__init__(settings, n_problems, n_rows, np.float64, seed)
        self.scores, self.unpushed = np.zeros((2, n_problems, n_rows))

    def go_on_from(self, *arguments: Any, **options: Any) -> None:
        super().go_on_from(*arguments, **options)
        self.scores[...], self.unpushed[...] = 0, self.weights

    def _squared_norms(self, cache: Any) -> np.ndarray:
        check_convex(self.settings, cache)
        return np.abs(cache.diagonal)

    def _scale(self, factor: np.ndarray) -> None:
        super()._scale(factor)
        self.scores *= factor[:, None]
        self.unpushed *= factor[:, None]

    def _run(
        self,
        cache: Any,
        order: np.ndarray | None,
        n_threads: int,
        on_progress: Callable[[], None] | None,
    ) -> None:
        """Run over the points of a `ColumnCache`, with the threads of the cache."""
        first = next_draw(self.problems)
        if first < 0:
            return
        draws = self._order_from(first) if order is None else order[first:]
        self._in_core().run_kernel(
            cache.core, self.problem.targets, self.scores, self.unpushed, first, draws,
            _core.Watch(on_progress),
        )  # fmt: skip

    def planned_draws(self, most: Any) -> np.ndarray | None:
        """The draws that the plan will make, or None if there are more than `most`.

        Also None for smooth losses, whose steps need other rows too: see `_shorten_steps`.
        """
        if self.settings.loss.curvature:
            return None
        left = (self.problems["last_step"] - self.problems["n_steps"]) * self.settings.batch_size
        if left.max() > most:
            return None
        stream = self._order_from(0)
        draws = np.empty(0, np.int64)
        own = np.zeros(len(left), np.int64)
        while (own < left).any():
            more = np.empty(int((left - own).max()), np.int64)
            stream.draw(more)
            draws = np.concatenate([draws, more])
            own += np.count_nonzero(self.problem.labels[:, more], axis=1)
            if len(draws) > most:
                return None
        return draws

    def run_among(self, draws: np.ndarray, make_cache: Callable[[np.ndarray], Any]) -> None:
        """Carry out a first plan over the rows in `draws`, as if there were no others.

        A step needs the score of its row only, so scores are computed only for rows that will be
        drawn. The time of a few steps thus does not depend on the number of rows. The scores of
        other rows stay unknown, so the session cannot go on.
        """
        rows, order = np.unique(draws, return_inverse=True)
        few = KernelPegasos(self.settings, len(self.problems), len(rows), np.float64, self.seed)
        few.set_problem(self.problem.subset(slice(None), rows), normalize=False)
        few.problems[...] = self.problems
        few.run(make_cache(rows), order=order.astype(np.int64))
        self.problems[...] = few.problems
        self.weights[:, rows] = few.weights
        if self.counts is not None:
            self.counts[:, rows] = few.counts
        if self.sums is not None:
            self.sums[:, rows] = few.sums
