"""Kernels that are functions of one inner product: linear, polynomial, sigmoid."""

import math
from typing import Any

import numpy as np

from pegasos.kernels._base import Kernel


class Linear(Kernel):
    name = "linear"
    formula = "⟨x,z⟩"
    is_of_products = True
    is_positive = True

    def rounding(self, points: Any, dtype: Any) -> Any:
        return np.zeros(len(points)), np.zeros(len(points))  # certificates use w

    def on_diagonal(self, squared: np.ndarray) -> Any:
        return squared

    def rank(self, n_features: int) -> float:
        return n_features

    def onnx(self, ops: Any, X: Any, Z: Any, rows: np.ndarray) -> Any:
        return ops.MatMul(X, np.ascontiguousarray(Z.T))


class _OfSums(Kernel):
    """A function of γ⟨x, z⟩ + coef0."""

    is_of_products = True

    def largest(self, squared: Any) -> Any:
        return max(squared, abs(self.gamma) * squared + abs(self.coef0))

    def _onnx_sums(self, ops: Any, X: Any, Z: Any) -> Any:
        # Factors go into the matrix: onnxruntime would join a product by a number with the matrix
        # product, and round the number to single precision.
        products = ops.MatMul(X, np.ascontiguousarray(self.gamma * Z.T))
        return ops.Add(products, np.array([self.coef0], dtype=np.float64))


class Polynomial(_OfSums):
    name = "poly"
    formula = "(γ⟨x,z⟩ + coef0)^degree"
    uses = ("gamma", "degree", "coef0")

    def __init__(self, *parameters: Any, **more: Any) -> None:
        super().__init__(*parameters, **more)
        self.is_positive = self.coef0 >= 0  # sums and products of positive matrices are positive

    def rounding(self, points: Any, dtype: Any) -> Any:
        eps, d = np.finfo(dtype).eps, points.longest()
        norms = np.sqrt(points.squared_norms())
        sizes = (self.gamma * norms * norms.max(initial=0) + self.coef0) ** self.degree
        return eps * (self.degree * (d + 6) + 4) * sizes, sizes

    def on_diagonal(self, squared: np.ndarray) -> Any:
        return (self.gamma * squared + self.coef0) ** self.degree

    def rank(self, n_features: int) -> float:
        return math.comb(n_features + self.degree, self.degree)  # monomials

    def largest(self, squared: Any) -> Any:
        value = super().largest(squared)
        return max(value, np.float64(value) ** self.degree)

    def onnx(self, ops: Any, X: Any, Z: Any, rows: np.ndarray) -> Any:
        return ops.Pow(self._onnx_sums(ops, X, Z), np.array([self.degree], dtype=np.float64))


class Sigmoid(_OfSums):
    name = "sigmoid"
    formula = "tanh(γ⟨x,z⟩ + coef0)"
    uses = ("gamma", "coef0")

    def onnx(self, ops: Any, X: Any, Z: Any, rows: np.ndarray) -> Any:
        return ops.Tanh(self._onnx_sums(ops, X, Z))
