"""Checkpoints: models of unfinished fits, with all that a fit needs to go on.

A checkpoint is a model's archive with more arrays: `pegasos.load` reads it as the model so far. To
write one, the fit is stopped as by Ctrl-C and then goes on. So the file has the state of a run that
got so far, for every solver and number of threads. Searches over `Blocks` write their scores and
the state of the present fits in the same way. The fit with the best parameters, which follows,
keeps these scores in its own checkpoints.
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
from pegasos.solvers._block_schedule import fit_into_memory
from pegasos.solvers._joint import JointSchedule

# Parameters that may change when a fit goes on; the others determine the bits.
_FREE = {"max_iter", "tol", "n_jobs", "verbose", "warm_start", "cache_size", "scores"}

# After a checkpoint with new work, the next wait is this part of the last one, or at least `every`.
_SOONER = 0.8


class CheckpointDue(Exception):  # noqa: N818 not an error
    """Stops a fit in order to write a checkpoint."""


class Checkpoints:
    """The file of checkpoints of an estimator or a search, and how often it is written."""

    def __init__(self, path: _archive.Path, every: float, X: Any, y: Any) -> None:
        self.path, self.every = path, _validate.real("checkpoint_every", every, above=0)
        self._data = _fingerprint(X, y)
        self._wait = self.every
        self._due = time.monotonic() + self._wait
        self._stood: Any = None
        self._of_search: dict[str, Any] = {}
        self.is_written = False

    def watch(self) -> None:
        """Raise `CheckpointDue` if it is time for a checkpoint."""
        if time.monotonic() >= self._due:
            raise CheckpointDue

    def keep(self, of_search: dict[str, Any]) -> None:
        """Add these arrays of a search to all later checkpoints."""
        self._of_search = {f"search.{name}": array for name, array in of_search.items()}

    def write(self, owner: Any, arrays: dict[str, Any], stands: Any) -> None:
        """Write these arrays of an estimator or a search; `stands` grows with kept work."""
        if stands == self._stood:  # a piece of work was stopped and needs a longer wait
            self._wait *= 2
        else:  # a little shorter: the next piece of work may take as long
            self._wait = max(self.every, _SOONER * self._wait)
        self._stood = stands
        about = {"data": self._data, "parameters": _parameters(owner), "layout": _state.layout()}
        arrays = arrays | {"checkpoint": np.array(json.dumps(about))}
        if hasattr(owner, "cv"):
            self.keep(arrays)
            arrays = {}
        _archive.save(self.path, arrays | self._of_search)
        self.is_written = True
        self._due = time.monotonic() + self._wait


def check_file(path: _archive.Path) -> None:
    """Raise if a file is missing or no checkpoint; `resume` checks its contents."""
    name = os.fspath(path)
    try:
        names = _archive.names(path)
    except ValueError as error:
        raise ValueError(f"{name} is not a checkpoint: {error}") from None
    if not names & {"checkpoint", "search.checkpoint"}:
        what = "a model, but no checkpoint" if "about" in names else "no checkpoint"
        raise ValueError(f"{name} is {what}: there is nothing to go on from")


def resume(estimator: Any, path: _archive.Path, X: Any, y: Any) -> None:
    """Let the next fit of `estimator`, to the same `X` and `y`, go on from a checkpoint.

    Since code trusts the state, it is checked like any other input: a ValueError if it is no
    complete checkpoint, or belongs to other data or parameters.
    """
    name = os.fspath(path)
    model, arrays = _model.with_arrays(path, _room_for(X))
    if "checkpoint" not in arrays:
        raise ValueError(f"{name} is a model, but no checkpoint: there is nothing to go on from")
    _check_about(estimator, name, arrays["checkpoint"], X, y)
    state = _named("state.", arrays)
    state.pop("solver.is_proved", None)  # whoever changes a file can claim it
    if isinstance(X, Blocks) and "blocks" not in state:  # the rows fit into memory
        X, y, _ = X.in_memory()
    is_out_of_core = hasattr(X, "fingerprint")
    if is_out_of_core:
        data = estimator._read_blocks(X, continuing=False)[0]
    else:
        data = estimator._read(X, y, None, continuing=False)
    lam = model.lam if estimator.lam is None else estimator.lam  # C gave λ for these rows
    dtype = X.dtype if X.dtype == np.float32 else np.dtype(np.float64)
    settings = estimator._settings_for(lam, data)
    try:
        if not is_out_of_core:  # else the fit itself checks the state
            data.columns = _state.columns_of(state, X.shape[1])
            blank = estimator._begin(settings, data, dtype, 0)
            _state.check(state, blank)
            _, n_rows, stream, _ = state["numbers"].tolist()
            is_joint = isinstance(blank, JointSchedule)
            is_begun = is_joint or ("counts" in state and stream == 0)
            if not is_begun or n_rows != X.shape[0]:
                raise ValueError("state: numbers or counts do not fit the rest")
    except ValueError as error:
        raise ValueError(f"{name} is not a checkpoint of this fit: {error}") from None
    estimator.warm_start = True
    vars(estimator).update(data.feature_attributes | estimator._target_attributes(data))
    estimator._fitted = estimator._fixed_parameters(settings)
    estimator._state = state


def resume_search(search: Any, path: _archive.Path, X: Any, y: Any) -> bool:
    """Let the next fit of a search over `X` go on from a checkpoint.

    Returns whether the search was over; the file then has a state of the fit that follows.
    """
    name = os.fspath(path)
    try:
        arrays = _archive.load_sealed(path, _room_for(X))
    except ValueError as error:
        raise ValueError(f"{name} is not a checkpoint: {error}") from None
    of_search, has_fit = _named("search.", arrays), "checkpoint" in arrays
    if not (of_search or has_fit):
        raise ValueError(f"{name} is no checkpoint: there is nothing to go on from")
    if of_search:
        if search._checkpoints is not None:  # a search that was over writes nothing
            search._checkpoints.keep(of_search)
        _check_about(search, name, of_search.pop("checkpoint", ""), X, y)
        search._resumed = of_search
    return has_fit


def _room_for(X: Any) -> str | None:
    """A folder for arrays that stay on disk, if they may be larger than memory; else None."""
    return X.cache if isinstance(X, Blocks) and not fit_into_memory(X) else None


def _named(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """The arrays whose names have this prefix, under names without it."""
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


def _check_about(owner: Any, name: str, about: Any, X: Any, y: Any) -> None:
    """Raise unless a checkpoint belongs to these parameters and data."""
    try:
        told = json.loads(str(about))
        before, data = dict(told["parameters"]), told["data"]
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{name} is not a checkpoint: {error!r}") from None
    if told.get("layout") != _state.layout():
        raise ValueError(
            f"{name} is a checkpoint of another version of pegasos, from which no fit can go on"
        )
    now = _parameters(owner)
    if now.keys() != before.keys():
        raise ValueError(f"{name} is a checkpoint of another kind of estimator")
    for parameter, value in now.items():
        if before[parameter] != value:
            was, given = (_validate.value_of(parameter, v) for v in (before[parameter], value))
            raise ValueError(
                f"{_validate.parameter(parameter)} must be {was} to go on from {name}, got {given}"
            )
    if data != _fingerprint(X, y):
        raise ValueError(f"{name} is a checkpoint of a fit to other data")


def _parameters(estimator: Any) -> dict[str, Any]:
    params = sorted(estimator.get_params().items())
    return {k: v if _is_plain(v) else repr(v) for k, v in params if k not in _FREE}


def _is_plain(value: Any) -> bool:
    """Whether JSON returns an equal value."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return isinstance(value, str | int | float | None)


def _fingerprint(X: Any, y: Any) -> list[Any]:
    if hasattr(X, "fingerprint"):  # rows on disk or on a cluster
        return list(X.fingerprint)
    return [*X.shape, _rows.fingerprint(X) if y is None else _rows.fingerprint(X, y)]
