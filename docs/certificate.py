"""Draws docs/certificate.png: ``python docs/certificate.py``.

Dual ascent learns to tell the digit 8 from the others. A fit that ends after k epochs recomputes
the objective, which is above the optimum, and the dual objective, which is below it.
"""

import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from pegasos import PegasosClassifier
from pegasos.plotting import ConvergenceDisplay

X, y = load_digits(return_X_y=True)
epochs = np.arange(1, 21)
# One seed: the fit of k epochs is the beginning of that of k + 1.
fits = [
    PegasosClassifier(lam=1e-2, solver="sdca", tol=1e-9, max_iter=int(k), random_state=0)
    for k in epochs
]
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    for clf in fits:
        clf.fit(X / 16, y == 8)
objective = np.array([clf.objective_ for clf in fits])
bound = np.array([clf.dual_objective_ for clf in fits])

figure, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
display = ConvergenceDisplay(epochs, objective, bound, 1 - bound / objective).plot(ax)
(above,), (below,), _ = display.lines_
(area,) = display.areas_
above.set_label(f"objective, {objective[-1, 0]:.4f} at the end")
area.set_label("the optimum is in between")
below.set(color="#D55E00", marker="s")
below.set_label(f"bound, {bound[-1, 0]:.4f} at the end")
ax.legend(handles=[above, area, below])
ax.set(ylabel="objective", title="Objective above, bound below")
ax.yaxis.set_major_formatter("{x:g}")
ax.yaxis.set_minor_formatter("{x:g}")
ax.tick_params(axis="y", which="both", labelsize=8)
figure.savefig(Path(__file__).with_name("certificate.png"), dpi=100, facecolor="white")
