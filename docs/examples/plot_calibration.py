"""
Probabilities
=============

A support vector machine has scores, not probabilities. ``CalibratedClassifierCV`` learns how one
follows from the other. With ``ensemble=False`` it predicts with a single machine, trained on all
rows; the scores that it calibrates by come from cross-validation, so that no row judges itself.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.datasets import make_classification
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pegasos import KernelPegasosClassifier, PegasosClassifier

X, y = make_classification(6000, 20, n_informative=6, flip_y=0.1, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)

machines = {
    "linear": PegasosClassifier(lam=1e-3, random_state=0),
    "Gaussian kernel": KernelPegasosClassifier(gamma=0.05, random_state=0),
}
fig, ax = plt.subplots(figsize=(6, 5.5), layout="constrained")
for name, machine in machines.items():
    clf = CalibratedClassifierCV(make_pipeline(StandardScaler(), machine), ensemble=False)
    probability = clf.fit(X_train, y_train).predict_proba(X_test)[:, 1]
    print(
        f"{name}: accuracy {clf.score(X_test, y_test):.3f}, "
        f"Brier score {brier_score_loss(y_test, probability):.3f}"
    )
    CalibrationDisplay.from_predictions(y_test, probability, n_bins=10, name=name, ax=ax)
plt.show()

# %%
# The sigmoid by which scores become probabilities has two numbers. With a thousand rows and more,
# ``method="isotonic"`` may take any growing function instead.
