"""Kernels that are functions of a distance: Gaussian, Laplacian."""

from typing import Any

import numpy as np

from pegasos.kernels._base import Kernel
from pegasos.problems import _validate

# Limits for Gaussian kernels by products. Rounding in norms and products may make an error of
# _BLURRED in exponents. In float64, gamma |x|^2 may also be at most _FARTHEST, because certificates
# leave room for an error that grows with it. For rows farther from 0, kernel values come from
# differences, which takes 2 to 4 times as long.
_BLURRED, _FARTHEST = 1e-5, 1e4


class _OfDistance(Kernel):
    """exp(−γ times a distance)."""

    uses = ("gamma",)
    is_positive = True
    has_unit_diagonal = True

    def refuse_overflow(self, X: Any) -> None:
        self._refuse_gamma(X)

    def mean_distance(self, X: Any) -> float:
        """A bound on the mean distance of any row of `X` from all rows."""
        raise NotImplementedError

    def may_vanish(self, X: Any, type_: Any) -> bool:
        """Whether the mean distance is too large; the nearest row is at most that far away."""
        return bool(self.gamma * self.mean_distance(X) > -np.log(float(type_.tiny)))

    def rounding(self, points: Any, dtype: Any) -> Any:
        """Bound the errors: an exponent t has a relative error, and t exp(-t) <= 1/e."""
        sizes = np.ones(len(points))
        return np.finfo(dtype).eps * (points.longest() + 16) * sizes, sizes

    def _onnx_exp(self, ops: Any, distances: Any) -> Any:
        return ops.Exp(ops.Mul(distances, -np.array([self.gamma], dtype=np.float64)))


class Gaussian(_OfDistance):
    name = "rbf"
    formula = "exp(−γ‖x−z‖²)"
    is_of_products = True
    needs_norms = True

    @property
    def _factor(self) -> float:
        return np.sqrt(self.gamma)

    def mean_distance(self, X: Any) -> float:
        """The largest |x|^2 - 2 <x, m> plus the mean of |z|^2, where m is the mean row."""
        squared = _validate.rows(X, checked=True)[0].squared_norms()
        mean = np.asarray(X.mean(axis=0)).ravel()
        return float((squared - 2 * (X @ mean)).max() + squared.mean())

    def is_far(self, largest: float, type_: Any) -> bool:
        """Whether |x|^2 + |z|^2 - 2 <x, z> loses too many digits of a distance, or overflows."""
        largest, least, most = float(largest), float(type_.tiny), float(type_.max)
        is_within = 4 * largest < most and least < self.gamma < most
        most_far = min(_BLURRED / float(type_.eps), _FARTHEST)
        return not (is_within and self.gamma * largest <= most_far)

    def rounding(self, points: Any, dtype: Any) -> Any:
        """Bound the errors of values by products or, if rows are far, by differences.

        By products, the exponent's error is (d + 4) u gamma (|x| + |z|)^2, to be multiplied by the
        kernel value. If |x| > 2 |z|, the distance is at least |x|/2, so this is at most
        9/e (d + 4) u; else |x| + |z| <= 3 |z|.
        """
        if points.is_far_in(dtype):
            return super().rounding(points, dtype)
        exponents = self.gamma * points.norms.astype(np.float64)
        blur = 9 * (points.longest() + 4) * np.maximum(exponents, 1 / np.e)
        return np.finfo(dtype).eps * (blur + 8), np.ones(len(points))

    def onnx(self, ops: Any, X: Any, Z: Any, rows: np.ndarray) -> Any:
        # As for `_OfSums`, the factor goes into the matrix.
        products = ops.MatMul(X, np.ascontiguousarray(-2.0 * Z.T))
        norms = ops.ReduceSum(ops.Mul(X, X), np.array([1]), keepdims=1)
        distances = ops.Add(ops.Add(norms, products), (Z * Z).sum(axis=1))
        return self._onnx_exp(ops, ops.Max(distances, np.zeros(1)))


class Laplacian(_OfDistance):
    name = "laplacian"
    formula = "exp(−γ‖x−z‖₁)"
    ignores_zeros = True

    def mean_distance(self, X: Any) -> float:
        """A bound by the triangle inequality, by way of 0."""
        sums = abs(_validate.summed_up(X)).sum(axis=1)  # `abs` alone would sort the user's rows
        return float(sums.max() + sums.mean())

    def onnx(self, ops: Any, X: Any, Z: Any, rows: np.ndarray) -> Any:
        apart = ops.Abs(ops.Sub(ops.Unsqueeze(X, np.array([1])), Z))
        return self._onnx_exp(ops, ops.ReduceSum(apart, np.array([2]), keepdims=0))
