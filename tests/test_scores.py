"""A row's scores do not depend on the rows that are scored with it, bit by bit.

Not of other kernels: BLAS, which has a part in their scores, may round one row differently from
many, and not as the BLAS of another machine does.
"""

import numpy as np
from covering import covering
from rows import DTYPES, LAYOUTS, convert

from pegasos import KernelPegasosClassifier, PegasosClassifier


def check_that_parts_have_the_same_bits(rng, machine, X):
    whole = machine.decision_function(X)
    for i in range(4):
        np.testing.assert_array_equal(machine.decision_function(X[i : i + 1]), whole[i : i + 1])
    some = rng.permutation(X.shape[0])[:7]
    np.testing.assert_array_equal(machine.decision_function(X[some]), whole[some])
    half = X.shape[0] // 2
    np.testing.assert_array_equal(machine.decision_function(X[half:]), whole[half:])


@covering(3, layout=LAYOUTS, dtype=DTYPES, n_classes=(2, 3, 4, 5, 9), d=(1, 3, 16, 37, 130))
def test_linear_machines(rng, layout, dtype, n_classes, d):
    X = rng.normal(size=(203, d)) * (rng.random((203, d)) < 0.6)
    y = np.arange(203) % n_classes
    X = convert(X, layout, dtype)
    for multi_class in ["ovr", "ovo"]:
        machine = PegasosClassifier(lam=1e-2, multi_class=multi_class, max_iter=2, tol=None)
        check_that_parts_have_the_same_bits(rng, machine.fit(X, y), X)


@covering(
    layout=LAYOUTS, dtype=DTYPES, n_classes=(2, 3, 9), kernel=("linear", "precomputed"),
    multi_class=("ovr", "ovo"),
)  # fmt: skip
def test_kernel_machines_whose_scores_are_sums_of_ours(
    rng, layout, dtype, n_classes, kernel, multi_class
):
    X = rng.normal(size=(203, 37)) * (rng.random((203, 37)) < 0.6)
    y = np.arange(203) % n_classes
    if kernel == "precomputed":
        X, layout = X @ X.T, "dense"
    X = convert(X, layout, dtype)
    machine = KernelPegasosClassifier(
        lam=1e-2, kernel=kernel, multi_class=multi_class, max_iter=2, tol=None
    )
    check_that_parts_have_the_same_bits(rng, machine.fit(X, y), X)
