"""``pegasos demo``: linear machines on scikit-learn's digits, and a kernel machine on two moons."""

import os
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, make_moons
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split

from pegasos import KernelPegasosClassifier, PegasosClassifier
from pegasos.io import _archive, _metrics


def run(path: str) -> None:
    """Train, report on standard output, and save the picture to `path` if there is matplotlib."""
    _archive.check_writable(path)
    digits, moons = _digits(), _moons()
    try:
        from pegasos import plotting
    except ImportError as error:
        print(f"\nno picture: {error}")
        return
    import matplotlib
    from matplotlib.figure import Figure

    # Text stays text, pixels stay squares, and two runs write equal files.
    style: Any = {"svg.fonttype": "none", "image.interpolation": "none", "svg.hashsalt": "pegasos"}
    with matplotlib.rc_context(style), _archive.replacing(path) as file:
        figure = Figure(figsize=(12, 9.6), layout="constrained")
        parts: Any = figure.subfigures(3, 1, height_ratios=(1.5, 1.3, 4))
        top, middle, bottom = parts
        machine, misread, summary = digits
        top.suptitle(f"{summary}\nWeights: ink on red speaks for the digit, ink on blue against it")
        plotting.WeightsDisplay.from_estimator(machine, (8, 8), ax=top.subplots(1, 10))
        middle.suptitle("Some digits that were misread: actual → predicted")
        for axes, (image, actual, predicted) in zip(middle.subplots(1, 12), misread, strict=False):
            axes.imshow(image.reshape(8, 8), cmap="Greys")
            axes.set(title=f"{actual} → {predicted}", xticks=[], yticks=[])
        machine, X, y, summary = moons
        bottom.suptitle(f"{summary}\nSolid: the boundary; dashed: the margins")
        axes = bottom.subplots()
        plotting.SupportVectorsDisplay.from_estimator(machine, X, y, ax=axes)
        axes.set(xlabel="first feature", ylabel="second feature")
        figure.savefig(file, format="svg", metadata={"Date": None})
    print(f"\npicture saved to {os.path.abspath(path)}")


def _digits() -> tuple[PegasosClassifier, Any, str]:
    """Linear machines on digits, the digits that they misread, and a summary."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, random_state=0, stratify=y
    )
    print(
        f"{len(X_train)} handwritten digits of 8 x 8 pixels to learn from, {len(X_test)} held out"
    )
    machine = PegasosClassifier(lam=1e-3, random_state=0, verbose=1)
    machine.fit(X_train, y_train)
    predicted = machine.predict(X_test)
    matrix = confusion_matrix(y_test, predicted)
    accuracy = (predicted == y_test).mean()

    print(f"\n{'digit':>5} {'objective P(w)':>15} {'optimum at least':>17}")
    for digit, objective, bound in zip(
        machine.classes_, machine.objective_, machine.dual_objective_, strict=True
    ):
        print(f"{digit:>5} {objective:>15.5f} {bound:>17.5f}")
    print(f"\nheld-out accuracy {100 * accuracy:.2f} %")
    _metrics.say_tables(print, {"confusion": _metrics.by_class(matrix, machine.classes_)})

    wrong = predicted != y_test
    misread = zip(X_test[wrong], y_test[wrong], predicted[wrong], strict=True)
    summary = (
        f"Ten linear machines: {len(X_train)} digits to learn from, {len(X_test)} held out, "
        f"{100 * accuracy:.1f} % of these read correctly"
    )
    return machine, misread, summary


def _moons() -> tuple[KernelPegasosClassifier, np.ndarray, np.ndarray, str]:
    """A kernel machine on two moons, its training rows and labels, and a summary."""
    X, y = make_moons(400, noise=0.18, random_state=0)
    train, test = slice(0, 200), slice(200, 400)
    machine = KernelPegasosClassifier(lam=1e-3, gamma=2.0, random_state=0)
    machine.fit(X[train], y[train])
    accuracy = machine.score(X[test], y[test])
    n_support = len(machine.support_)
    print(
        f"\ntwo moons, Gaussian kernel: {n_support} of 200 points are support vectors\n"
        f"objective P(w) {machine.objective_[0]:.5f}, optimum at least "
        f"{machine.dual_objective_[0]:.5f}\n"
        f"held-out accuracy {100 * accuracy:.2f} %"
    )
    summary = (
        f"A kernel machine on two moons: 200 points to learn from, {n_support} of them support "
        f"vectors (ringed), 200 held out, {100 * accuracy:.1f} % of these told right"
    )
    return machine, X[train], y[train], summary
