"""
Outliers, and the contour of one class
======================================

Two groups of rows without labels, a few rows elsewhere, and what a one-class machine makes of them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from pegasos import KernelPegasosOneClass
from pegasos.plotting import SupportVectorsDisplay

rng = np.random.RandomState(0)
groups, _ = make_blobs(190, centers=[[-2, -1], [2, 1]], cluster_std=0.6, random_state=0)
X = np.vstack([groups, rng.uniform(-5, 5, size=(10, 2))])
one = KernelPegasosOneClass(nu=0.1, gamma=0.5, random_state=0).fit(X)
outliers = one.predict(X) == -1
print(
    f"{outliers.sum()} of {len(X)} rows are outliers, {len(one.support_)} are support vectors\n"
    f"objective {one.objective_[0]:.5f}, at most {one.duality_gap_[0]:.1e} above the optimum"
)

# %%
# The contour is where the score is the offset. At most a share of ``nu`` of the rows is outside. A
# larger ``nu`` gives more rows up; a larger γ follows the rows more closely.

fig, axes = plt.subplots(2, 2, figsize=(9, 8), layout="constrained", sharex=True, sharey=True)
for row, nu in zip(axes, (0.05, 0.3), strict=True):
    for ax, gamma in zip(row, (0.1, 1.0), strict=True):
        machine = KernelPegasosOneClass(nu=nu, gamma=gamma, random_state=0).fit(X)
        SupportVectorsDisplay.from_estimator(machine, X, ax=ax)
        ax.set_title(f"nu = {nu:g}, γ = {gamma:g}")
        if ax is not axes[0, 1]:
            ax.get_legend().remove()
plt.show()
