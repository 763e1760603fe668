"""
Regression, and the tube of errors that cost nothing
====================================================

A Gaussian kernel machine fits a curve to noisy numbers. Errors up to ε cost nothing, so that rows
inside the tube do not bend the curve; ``loss="epsilon_insensitive"`` lets outliers bend it little.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import PredictionErrorDisplay
from sklearn.model_selection import KFold

from pegasos import KernelPegasosRegressor, KernelPegasosRegressorCV
from pegasos.plotting import SearchDisplay, TubeDisplay

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0, 6, 150))[:, None]
y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=150)
y[::15] += 1.5  # outliers
reg = KernelPegasosRegressor(C=1, epsilon=0.2, random_state=0).fit(X, y)
print(
    f"{len(reg.support_)} support vectors of {len(y)} rows, objective {reg.objective_[0]:.4f}, "
    f"at most {reg.duality_gap_[0]:.1e} above the optimum"
)
TubeDisplay.from_estimator(reg, X, y)

# %%
# The squared error has no tube, and outliers lift its curve.

fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for ax, loss in zip(axes, ("epsilon_insensitive", "squared_error"), strict=True):
    other = KernelPegasosRegressor(loss=loss, epsilon=0.2, random_state=0).fit(X, y)
    TubeDisplay.from_estimator(other, X, y, ax=ax)
    ax.set_title(loss)
plt.show()

# %%
# C, γ and ε by cross-validation. The absolute error does not count outliers as much as R² does.

search = KernelPegasosRegressorCV(
    Cs=[0.1, 1, 10],
    gammas=[0.1, 0.3, 1.0, 3.0],
    epsilons=[0.05, 0.1, 0.2],
    cv=KFold(5, shuffle=True, random_state=0),
    scoring="neg_mean_absolute_error",
    random_state=0,
).fit(X, y)
print(search.best_params_)
SearchDisplay.from_estimator(search)

# %%
# scikit-learn draws predictions against targets, and residuals.

fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for ax, kind in zip(axes, ("actual_vs_predicted", "residual_vs_predicted"), strict=True):
    PredictionErrorDisplay.from_estimator(search, X, y, kind=kind, ax=ax)
plt.show()
