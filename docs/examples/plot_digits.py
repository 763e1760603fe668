"""
Handwritten digits
==================

Ten linear machines, one for each digit against the rest, compared with a kernel machine.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import train_test_split

from pegasos import KernelPegasosClassifier, PegasosClassifier
from pegasos.plotting import WeightsDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16, y, test_size=0.4, stratify=y, random_state=0
)

linear = PegasosClassifier(random_state=0).fit(X_train, y_train)
print(f"held-out accuracy {linear.score(X_test, y_test):.3f}")

# %%
# Each of the ten problems has a certificate: no weights reach an objective below the second number.

for digit, objective, bound in zip(
    linear.classes_, linear.objective_, linear.dual_objective_, strict=True
):
    print(f"{digit}: objective {objective:.5f}, optimum at least {bound:.5f}")

# %%
# The weights as pictures: ink on red pixels speaks for a digit, ink on blue ones against it.

WeightsDisplay.from_estimator(linear, (8, 8))

# %%
# A Gaussian kernel makes about a quarter of the errors.

kernel = KernelPegasosClassifier(C=10, gamma=0.05, random_state=0).fit(X_train, y_train)
print(f"held-out accuracy {kernel.score(X_test, y_test):.3f}")

fig, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
for ax, clf, name in zip(axes, (linear, kernel), ("linear", "Gaussian kernel"), strict=True):
    ConfusionMatrixDisplay.from_estimator(clf, X_test, y_test, ax=ax, colorbar=False, cmap="Blues")
    ax.set_title(name)
plt.show()
