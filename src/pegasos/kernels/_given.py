"""Kernels that users bring: a matrix, or a function."""

from typing import Any

import numpy as np

from pegasos.kernels._base import Kernel
from pegasos.kernels._points import Points
from pegasos.kernels._positive import SYMMETRIC, asymmetry


class Precomputed(Kernel):
    """A kernel matrix that is given in place of X."""

    name = "precomputed"
    formula = "(X is the kernel matrix, symmetric; at prediction, rows against all training rows)"

    @classmethod
    def refuse(cls, X: Any) -> None:
        if X.shape[0] != X.shape[1]:
            raise ValueError(
                f"X must be a square matrix with kernel='precomputed', got shape {X.shape}"
            )
        (i, j), skew = asymmetry(X)
        if not skew <= SYMMETRIC * np.abs(X).max(initial=0):
            raise ValueError(
                f"kernel='precomputed' needs a symmetric matrix, but X[{i}, {j}] is {X[i, j]:.9g} "
                f"and X[{j}, {i}] is {X[j, i]:.9g}"
            )

    def subset(self, X: Any, rows: np.ndarray) -> Any:
        return Points(self, X[np.ix_(rows, rows)])

    def onnx(self, ops: Any, X: Any, Z: Any, rows: np.ndarray) -> Any:
        return ops.Gather(X, rows, axis=1)


class Function(Kernel):
    """A function of two matrices (n, d), (m, d), dense or sparse, that returns (n, m)."""

    uses = ("params",)

    def __init__(self, function: Any, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.name = function

    def write(self, X: Any, Z: Any, out: np.ndarray) -> None:
        values = self.name(X, Z, **self.params)
        values = np.asarray(values.toarray() if hasattr(values, "toarray") else values)
        shape = (X.shape[0], Z.shape[0])
        if values.shape != shape:
            raise ValueError(
                f"kernel must return an array of shape {shape} for matrices of shapes {X.shape} "
                f"and {Z.shape}, got shape {values.shape}"
            )
        if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
            raise ValueError("kernel must return finite real numbers, got NaN, infinity or others")
        out[...] = values

    def onnx(self, ops: Any, X: Any, Z: Any, rows: np.ndarray) -> Any:
        name = getattr(self.name, "__name__", self.name)
        raise ValueError(f"a kernel that is a function cannot be exported, got {name!r}")
