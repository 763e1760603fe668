"""Kernels: a class that describes each, and the registry of their names.

`Kernel` is the base class. `Points` are rows with a kernel; `ColumnCache` keeps columns of their
kernel matrix.
"""

import textwrap
from collections.abc import Callable
from typing import Any

from pegasos.kernels._base import Kernel
from pegasos.kernels._cache import ColumnCache
from pegasos.kernels._distances import Gaussian, Laplacian
from pegasos.kernels._given import Function, Precomputed
from pegasos.kernels._points import Points
from pegasos.kernels._products import Linear, Polynomial, Sigmoid
from pegasos.problems import _validate

__all__ = ["KERNELS", "ColumnCache", "Kernel", "Points", "Precomputed", "make", "register"]

#: The kernels by their names.
KERNELS: dict[str, type[Kernel]] = {}
#: The largest degree of a polynomial.
MOST_DEGREE = 2**31 - 1


def register(kind: type[Kernel]) -> type[Kernel]:
    """Make a kernel known to estimators, searches and model files by its `name`."""
    if not isinstance(kind.name, str) or kind.name in KERNELS:
        raise ValueError(f"name must be a string that no other kernel has, got {kind.name!r}")
    if kind.is_positive and kind.rounding is Kernel.rounding:
        raise ValueError(f"kernel {kind.name!r} is positive: its certificates need `rounding`")
    KERNELS[kind.name] = kind
    return kind


for _kind in (Linear, Polynomial, Gaussian, Sigmoid, Laplacian, Precomputed):
    register(_kind)


def kind(name: Any) -> type[Kernel]:
    """The class of a kernel, given its name or a function; `Kernel` for anything else."""
    if callable(name):
        return Function
    return KERNELS.get(name, Kernel) if isinstance(name, str) else Kernel


def make(name: str | Callable[..., Any], **parameters: Any) -> Kernel:
    """The kernel with this name or function; its parameters are those of `Kernel`."""
    return Function(name, **parameters) if callable(name) else KERNELS[name](**parameters)


def stored_names() -> list[str]:
    """Names of the kernels that model files can hold."""
    return [name for name, kind in KERNELS.items() if kind().is_stored]


def formulas(indent: int) -> str:
    """The formulas of all kernels, for docstrings whose lines are indented."""
    said = ", ".join(f'"{name}" {kind.formula}' for name, kind in KERNELS.items())
    return textwrap.fill(said, 100 - indent).replace("\n", "\n" + " " * indent)


def from_stored(stored: dict[str, Any]) -> Kernel:
    """The kernel of a model file, given its `Kernel.stored`; a ValueError if it is not valid."""
    return make(
        _validate.choice("kernel", stored["name"], stored_names()),
        gamma=_validate.real("gamma", stored["gamma"], above=0),
        degree=_validate.integer("degree", stored["degree"], at_least=0, at_most=MOST_DEGREE),
        coef0=_validate.real("coef0", stored["coef0"]),
    )
