"""``pegasos demo``: linear machines on digits, and a kernel machine on two moons.

The digits are part of scikit-learn. The picture is SVG, written here as text, without a library.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, make_moons
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split

from pegasos import KernelPegasosClassifier, PegasosClassifier
from pegasos.io import _archive, _metrics

_MARGIN, _TILE, _GAP = 40, 92, 10
_WIDTH = 2 * _MARGIN + 10 * _TILE + 9 * _GAP
_INK, _GREY, _RED, _BLUE = "#222222", "#777777", (178, 24, 43), (33, 102, 172)


def run(path: str) -> None:
    """Train, report on standard output, and save the picture to `path`."""
    _archive.check_writable(path)
    digits, height = _digits()
    moons, height = _moons(height)
    with _archive.replacing(path, "w") as file:
        file.write(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" font-family="Helvetica, Arial, sans-serif">\n'
            + "\n".join([_box(0, 0, _WIDTH, height, "white"), *digits, *moons])
            + "\n</svg>\n"
        )
    print(f"\npicture saved to {os.path.abspath(path)}")


def _digits() -> tuple[list[str], int]:
    """Linear machines on digits: elements of the picture, and their lower end."""
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

    wrong = np.flatnonzero(predicted != y_test)
    misread = list(zip(X_test[wrong], y_test[wrong], predicted[wrong], strict=True))
    summary = (
        f"{len(X_train)} digits to learn from, {len(X_test)} held out, "
        f"{100 * accuracy:.1f} % of these read correctly"
    )
    return _digits_picture(machine.coef_, misread, summary)


def _moons(top: int) -> tuple[list[str], int]:
    """A kernel machine on two moons: elements of the picture from `top` on, and their lower end."""
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
    return _moons_picture(
        machine, X[train], y[train],
        f"200 points to learn from, {n_support} of them support vectors (ringed), 200 held out, "
        f"{100 * accuracy:.1f} % of these told right", top,
    )  # fmt: skip


def _digits_picture(
    weights: np.ndarray, misread: list[tuple[Any, int, int]], summary: str
) -> tuple[list[str], int]:
    """Weights of each machine, and the digits that were misread."""
    margin, tile = _MARGIN, _TILE
    parts = [
        _text(margin, 52, "What ten support vector machines learned from handwritten digits", 26),
        _text(margin, 82, summary, 15, _GREY),
        _text(margin, 128, "Weights of each machine", 18),
        _text(margin, 150, "ink on red speaks for the digit, ink on blue against it", 14, _GREY),
    ]
    top = 166
    for digit, w in enumerate(weights):
        left = margin + digit * (tile + _GAP)
        parts += _image(w / np.abs(w).max(), left, top, tile, _diverging)
        parts.append(_text(left + tile / 2, top + tile + 22, str(digit), 17, anchor="middle"))

    top += tile + 74
    small, columns = 62, 12
    shown = misread[: 2 * columns]
    which = "Every digit that was" if len(shown) == len(misread) else "Some digits that were"
    parts.append(_text(margin, top, f"{which} misread", 18))
    parts.append(_text(margin, top + 22, "actual → predicted", 14, _GREY))
    top += 40
    for k, (image, actual, predicted) in enumerate(shown):
        x = margin + (k % columns) * (small + 24)
        y = top + (k // columns) * (small + 34)
        parts += _image(image, x, y, small, lambda ink: _mix((34, 34, 34), ink))
        label = f"{actual} → {predicted}"
        parts.append(_text(x + small / 2, y + small + 18, label, 14, anchor="middle"))
    height = top + -(-len(shown) // columns) * (small + 34) + margin
    return parts, height


def _moons_picture(
    machine: KernelPegasosClassifier, X: np.ndarray, y: np.ndarray, summary: str, top: int
) -> tuple[list[str], int]:
    """Draw points and support vectors on the plane, coloured by side of boundary and margins."""
    left, width, height, cell = _MARGIN, _WIDTH - 2 * _MARGIN, 360, 5
    parts = [
        _text(left, top + 10, "A kernel machine on two moons", 18),
        _text(left, top + 32, summary, 14, _GREY),
        _text(
            left, top + 52, "pale: within the margin; the boundary is where colours meet", 14, _GREY
        ),
    ]
    top += 70
    low, high = X.min(axis=0) - 0.25, X.max(axis=0) + 0.25
    across = np.linspace(low[0], high[0], width // cell)
    down = np.linspace(high[1], low[1], height // cell)
    plane = np.stack(np.meshgrid(across, down), axis=-1).reshape(-1, 2)
    scores = machine.decision_function(plane).reshape(len(down), len(across))
    bands = np.digitize(scores, [-1, 0, 1])
    fills = [_mix(_BLUE, 0.5), _mix(_BLUE, 0.2), _mix(_RED, 0.2), _mix(_RED, 0.5)]
    for i, row in enumerate(bands):
        ends = [*np.flatnonzero(np.diff(row)) + 1, len(row)]
        begin = 0
        for end in ends:  # one box for a run of the same colour
            x, wide = left + begin * cell, (end - begin) * cell
            parts.append(_box(x, top + i * cell, wide + 0.4, cell + 0.4, fills[row[begin]]))
            begin = end
    where = (X - low) / (high - low) * [1, -1] * [width, height] + [left, top + height]
    rings = np.isin(np.arange(len(X)), machine.support_)
    for (x, y_pixel), label, ring in zip(where, y, rings, strict=True):
        fill = _mix(_RED if label else _BLUE, 1)
        if ring:
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y_pixel:.1f}" r="8" fill="none" stroke="{_INK}"/>'
            )
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y_pixel:.1f}" r="4.5" fill="{fill}" stroke="white" '
            'stroke-width="0.8"/>'
        )
    return parts, top + height + 40


def _image(
    pixels: np.ndarray, left: float, top: float, size: float, colour: Callable[[float], str]
) -> list[str]:
    """An 8 x 8 image as squares in a frame."""
    step = size / 8
    squares = [
        # Squares overlap a little, so that no seams show.
        _box(left + step * (k % 8), top + step * (k // 8), step + 0.4, step + 0.4, colour(value))
        for k, value in enumerate(pixels)
    ]
    frame = (
        f'<rect x="{left}" y="{top}" width="{size}" height="{size}" fill="none" '
        f'stroke="{_GREY}" stroke-width="0.8"/>'
    )
    return [*squares, frame]


def _diverging(value: float) -> str:
    return _mix(_RED if value > 0 else _BLUE, abs(value))


def _mix(colour: tuple[int, int, int], strength: float) -> str:
    """`colour` over white."""
    return "#" + "".join(f"{round(255 + (c - 255) * strength):02x}" for c in colour)


def _box(x: float, y: float, width: float, height: float, fill: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}"/>'


def _text(x: float, y: float, text: str, size: int, fill: str = _INK, anchor: str = "start") -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}">'
        f"{text}</text>"
    )
