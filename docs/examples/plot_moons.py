"""
Two moons, and the boundary between them
========================================

A Gaussian kernel machine, its support vectors, its margins, and how C and γ change them.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from pegasos import KernelPegasosClassifier, KernelPegasosClassifierCV
from pegasos.plotting import ConvergenceDisplay, SearchDisplay, SupportVectorsDisplay

X, y = make_moons(300, noise=0.2, random_state=0)
clf = KernelPegasosClassifier(C=3, gamma=2.0, random_state=0).fit(X, y)
print(
    f"{len(clf.support_)} support vectors, objective {clf.objective_[0]:.5f}, "
    f"at most {clf.duality_gap_[0]:.1e} above the optimum"
)
SupportVectorsDisplay.from_estimator(clf, X, y)

# %%
# A smaller C asks for a wider margin, and more rows support it; a larger γ lets each row speak for
# its neighbourhood only.

fig, axes = plt.subplots(2, 2, figsize=(9, 7), layout="constrained", sharex=True, sharey=True)
for row, C in zip(axes, (0.03, 30), strict=True):
    for ax, gamma in zip(row, (0.3, 10.0), strict=True):
        machine = KernelPegasosClassifier(C=C, gamma=gamma, random_state=0).fit(X, y)
        SupportVectorsDisplay.from_estimator(machine, X, y, ax=ax)
        ax.set_title(f"C = {C:g}, γ = {gamma:g}")
        ax.get_legend().remove()
plt.show()

# %%
# Both by cross-validation, one kernel matrix for each γ.

search = KernelPegasosClassifierCV(
    Cs=[0.03, 0.3, 3, 30], gammas=[0.1, 0.3, 1.0, 3.0, 10.0], random_state=0
).fit(X, y)
SearchDisplay.from_estimator(search)

# %%
# The optimum is in the shaded area between the objective and its bound. They approach each other as
# a fit goes on (with scikit-learn 1.9 or later, which has callbacks). These are thirty epochs of
# plain Pegasos; the default solver takes a few epochs here, and leaves a gap of rounding alone.

if hasattr(clf, "set_callbacks"):
    ConvergenceDisplay.from_estimator(
        KernelPegasosClassifier(
            C=3, gamma=2.0, solver="pegasos", tol=None, max_iter=30, random_state=0
        ),
        X,
        y,
    )
