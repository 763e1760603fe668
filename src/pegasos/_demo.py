"""``pegasos demo``: ten machines learn handwritten digits, and a picture shows what they learned.

The digits ship inside scikit-learn. The picture is SVG, written here as text, so that the demo
needs nothing but the package itself.
"""

import os

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split

from pegasos import PegasosClassifier

_INK, _GREY, _RED, _BLUE = "#222222", "#777777", (178, 24, 43), (33, 102, 172)


def run(path):
    """Train, report on standard output, and save the picture to `path`."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, random_state=0, stratify=y
    )
    print(
        f"{len(X_train)} handwritten digits of 8 x 8 pixels to learn from, {len(X_test)} held out"
    )
    machine = PegasosClassifier(lam=1e-3, max_iter=100, average="suffix", random_state=0, verbose=1)
    machine.fit(X_train, y_train)
    predicted = machine.predict(X_test)
    matrix = confusion_matrix(y_test, predicted)
    accuracy = (predicted == y_test).mean()

    print(f"\n{'digit':>5} {'steps':>8} {'objective P(w)':>15}")
    for digit, n_steps, objective in zip(
        machine.classes_, machine.n_steps_, machine.objective_, strict=True
    ):
        print(f"{digit:>5} {n_steps:>8} {objective:>15.5f}")
    print(f"\nheld-out accuracy {100 * accuracy:.2f} %\n")
    print(confusion_text(matrix, machine.classes_))

    wrong = np.flatnonzero(predicted != y_test)
    summary = (
        f"{len(X_train)} digits to learn from, {len(X_test)} held out, "
        f"{100 * accuracy:.1f} % of these read correctly"
    )
    picture = _picture(
        machine.coef_, matrix, X_test[wrong], y_test[wrong], predicted[wrong], summary
    )
    with open(path, "w", encoding="utf-8") as file:
        file.write(picture)
    print(f"\npicture saved to {os.path.abspath(path)}")


def confusion_text(matrix, classes):
    """A confusion matrix as text, actual classes down, predicted ones across."""
    names = [str(label) for label in classes]
    wide = max(len(str(matrix.max())), *(len(name) for name in names)) + 2
    left = max(len("actual"), *(len(name) for name in names))
    lines = [" " * left + "".join(name.rjust(wide) for name in names) + "   predicted"]
    for name, row in zip(names, matrix, strict=True):
        cells = "".join((str(n) if n else ".").rjust(wide) for n in row)
        lines.append(name.rjust(left) + cells)
    lines.append("actual")
    return "\n".join(lines)


def _picture(weights, matrix, images, actual, predicted, summary):
    """The SVG: weights of each machine, confusion matrix, and the digits that were misread."""
    margin, tile, gap = 40, 92, 10
    width = 2 * margin + 10 * tile + 9 * gap
    parts = [
        _text(margin, 52, "What ten support vector machines learned from handwritten digits", 26),
        _text(margin, 82, summary, 15, _GREY),
        _text(margin, 128, "Weights of each machine", 18),
        _text(margin, 150, "ink on red speaks for the digit, ink on blue against it", 14, _GREY),
    ]
    top = 166
    for digit, w in enumerate(weights):
        left = margin + digit * (tile + gap)
        parts += _image(w / np.abs(w).max(), left, top, tile, _diverging)
        parts.append(_text(left + tile / 2, top + tile + 22, str(digit), 17, anchor="middle"))

    top += tile + 74
    cell = 38
    parts.append(_text(margin, top, "Held-out digits", 18))
    parts.append(_text(margin, top + 22, "actual digit down, predicted across", 14, _GREY))
    grid_left, grid_top = margin + 28, top + 60
    for i, row in enumerate(matrix):
        middle = cell * (i + 0.5)
        parts.append(_text(grid_left - 14, grid_top + middle + 5, str(i), 14, anchor="middle"))
        parts.append(_text(grid_left + middle, grid_top - 9, str(i), 14, anchor="middle"))
        for j, n in enumerate(row):
            share = n / row.sum()
            strength = share if i == j else min(1, 4 * share)
            fill = _mix(_BLUE if i == j else _RED, strength)
            x, y = grid_left + j * cell, grid_top + i * cell
            parts.append(_box(x, y, cell - 2, cell - 2, fill))
            if n:
                ink = "white" if strength > 0.5 else _INK
                parts.append(_text(x + cell / 2 - 1, y + 24, str(n), 14, ink, "middle"))

    left, small, columns = grid_left + 10 * cell + 56, 62, 6
    shown = min(len(images), 4 * columns)
    title = "Every digit that was misread" if shown == len(images) else "Some that were misread"
    parts.append(_text(left, top, title, 18))
    parts.append(_text(left, top + 22, "actual → predicted", 14, _GREY))
    for k in range(shown):
        x = left + (k % columns) * (small + 22)
        y = grid_top + (k // columns) * (small + 34)
        parts += _image(images[k], x, y, small, lambda ink: _mix((34, 34, 34), ink))
        label = f"{actual[k]} → {predicted[k]}"
        parts.append(_text(x + small / 2, y + small + 18, label, 14, anchor="middle"))
    height = grid_top + max(10 * cell, -(-shown // columns) * (small + 34)) + margin
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif">\n'
        f"{_box(0, 0, width, height, 'white')}\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _image(pixels, left, top, size, colour):
    """An 8 x 8 image as squares in a frame."""
    step = size / 8
    squares = [
        # Squares overlap a little: seams between them would show.
        _box(left + step * (k % 8), top + step * (k // 8), step + 0.4, step + 0.4, colour(value))
        for k, value in enumerate(pixels)
    ]
    frame = (
        f'<rect x="{left}" y="{top}" width="{size}" height="{size}" fill="none" '
        f'stroke="{_GREY}" stroke-width="0.8"/>'
    )
    return [*squares, frame]


def _diverging(value):
    return _mix(_RED if value > 0 else _BLUE, abs(value))


def _mix(colour, strength):
    """`colour` over white."""
    return "#" + "".join(f"{round(255 + (c - 255) * strength):02x}" for c in colour)


def _box(x, y, width, height, fill):
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}"/>'


def _text(x, y, text, size, fill=_INK, anchor="start"):
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}">'
        f"{text}</text>"
    )
