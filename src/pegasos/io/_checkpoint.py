"""Checkpoints: models of fits under way, with all that it takes to go on, written now and then.

A checkpoint is a model's archive with more arrays in it: `pegasos.load` reads it as the model so
far. To write one, the fit is stopped as Ctrl-C would stop it and then goes on, so that what is
written is the state of a run that got so far, whatever the solver and its number of threads.
"""

import json
import os
import time
from typing import Any

import numpy as np

from pegasos.io import _archive, _model
from pegasos.io._blocks import Blocks
from pegasos.problems import _rows, _validate
from pegasos.solvers import _state
from pegasos.solvers._joint import Joint

# What may differ when a fit goes on; the rest decides the bits.
_FREE = {"max_iter", "tol", "n_jobs", "verbose", "warm_start", "cache_size", "scores"}


class CheckpointDue(Exception):  # noqa: N818 not an error
    """Stops a fit for a moment."""


class Checkpoints:
    """Where, and how often, an estimator writes what it has learned of X and y so far."""

    def __init__(self, path: _archive.Path, every: float, X: Any, y: Any) -> None:
        self.path, self.every = path, _validate.real("checkpoint_every", every, above=0)
        self._data = _fingerprint(X, y)
        self._due = time.monotonic() + self.every
        self._stood: Any = None

    def watch(self) -> None:
        """Raise `CheckpointDue` if it is time."""
        if time.monotonic() >= self._due:
            raise CheckpointDue

    def write(self, estimator: Any, stands: Any) -> None:
        """Write the state of `estimator`; `stands` grows with every piece of work that is kept."""
        if stands == self._stood:  # what was stopped begins anew, and needs more time than this
            self.every *= 2
        self._stood = stands
        about = {"data": self._data, "parameters": _parameters(estimator)}
        state = {f"state.{name}": array for name, array in estimator._state.items()}
        _archive.save(
            self.path,
            estimator.to_model()._arrays() | state | {"checkpoint": np.array(json.dumps(about))},
        )
        self._due = time.monotonic() + self.every


def resume(estimator: Any, path: _archive.Path, X: Any, y: Any) -> None:
    """Let the next fit of `estimator`, which must be of `X` and `y`, go on from a checkpoint.

    The state is used by code that trusts it, and is therefore checked like any other input: a
    ValueError if it is no whole checkpoint, or one of other data or parameters.
    """
    name = os.fspath(path)
    model, arrays = _model.load(path), _archive.load_sealed(path)
    if "checkpoint" not in arrays:
        raise ValueError(f"{name} is a model, but no checkpoint: there is nothing to go on from")
    state = {k.removeprefix("state."): v for k, v in arrays.items() if k.startswith("state.")}
    try:
        about = json.loads(str(arrays["checkpoint"]))
        before, data = dict(about["parameters"]), about["data"]
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{name} is not a checkpoint: {error!r}") from None
    for parameter, value in _parameters(estimator).items():
        if before.get(parameter) != value:
            raise ValueError(
                f"{parameter} must be {before.get(parameter)!r} to go on from {name}, got {value!r}"
            )
    if data != _fingerprint(X, y):
        raise ValueError(f"{name} is a checkpoint of a fit to other data")
    if isinstance(X, Blocks) and "blocks" not in state:  # they fit into memory
        X, y, _ = X.in_memory()
    is_elsewhere = hasattr(X, "fingerprint")
    if is_elsewhere:
        seen = estimator._read_blocks(X, continuing=False)[0]
    else:
        seen = estimator._read(X, y, None, continuing=False)
    lam = model.lam if estimator.lam is None else estimator.lam  # of C and these rows
    dtype = X.dtype if X.dtype == np.float32 else np.dtype(np.float64)
    settings = estimator._settings_for(lam, seen)
    try:
        if not is_elsewhere:  # where the fit itself checks
            blank = estimator._begin(settings, seen, dtype, 0)
            _state.check(state, blank)
            _, n_rows, stream, _ = state["numbers"].tolist()
            is_joint = isinstance(blank, Joint)
            is_begun = is_joint or ("counts" in state and stream == 0)
            if not is_begun or n_rows != X.shape[0]:
                raise ValueError("state: numbers or counts do not fit the rest")
    except ValueError as error:
        raise ValueError(f"{name} is not a checkpoint of this fit: {error}") from None
    estimator.warm_start = True
    vars(estimator).update(seen.seen | estimator._about(seen))
    estimator._fitted = estimator._choices(settings)
    estimator._state = state


def _parameters(estimator: Any) -> dict[str, Any]:
    params = sorted(estimator.get_params().items())
    plain = str | int | float | None
    return {k: v if isinstance(v, plain) else repr(v) for k, v in params if k not in _FREE}


def _fingerprint(X: Any, y: Any) -> list[Any]:
    if hasattr(X, "fingerprint"):  # rows that lie elsewhere
        return list(X.fingerprint)
    return [*X.shape, _rows.fingerprint(X) if y is None else _rows.fingerprint(X, y)]
