"""
Probabilities
=============

Two losses have probabilities: with ``loss="log_loss"`` and ``loss="modified_huber"`` there is
``predict_proba``. The hinge has none. ``CalibratedClassifierCV`` learns them from its scores, by
five more fits; with ``ensemble=False`` it then predicts with one machine, trained on all rows.

A reliability diagram shows whether probabilities are true: of the rows that are said to be
positive with a probability of 0.8, eight of ten should be. On the dotted diagonal they are. The
histograms below count the rows for each probability.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import train_test_split

from pegasos import PegasosClassifier

rng = np.random.default_rng(0)
y = rng.integers(0, 2, 20000)
X = rng.normal(size=(20000, 20)) + 0.35 * y[:, None]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.8, random_state=0)

hinge = PegasosClassifier(lam=1e-3, random_state=0)
machines = {
    "log_loss": PegasosClassifier(lam=1e-3, loss="log_loss", random_state=0),
    "modified_huber": PegasosClassifier(lam=1e-3, loss="modified_huber", random_state=0),
    "hinge, calibrated": CalibratedClassifierCV(hinge, ensemble=False),
    "hinge, scores scaled": hinge,
}
fig = plt.figure(figsize=(7, 8), layout="constrained")
grid = fig.add_gridspec(4, 2)
ax = fig.add_subplot(grid[:2, :])
for k, (name, machine) in enumerate(machines.items()):
    machine.fit(X_train, y_train)
    if hasattr(machine, "predict_proba"):
        probability = machine.predict_proba(X_test)[:, 1]
    else:  # for comparison only: these are no probabilities
        scores = machine.decision_function(X_test)
        probability = (scores - scores.min()) / (scores.max() - scores.min())
    print(
        f"{name}: Brier score {brier_score_loss(y_test, probability):.4f}, "
        f"log loss {log_loss(y_test, probability):.3f}"
    )
    CalibrationDisplay.from_predictions(y_test, probability, n_bins=15, name=name, ax=ax)
    below = fig.add_subplot(grid[2 + k // 2, k % 2])
    below.hist(probability, range=(0, 1), bins=15, color=f"C{k}")
    below.set(title=name, xlabel="probability", ylabel="rows")
plt.show()

# %%
# The log loss is least where probabilities are true, and punishes those that are wrong and sure.
# The modified Huber loss has many probabilities of exactly 0 and 1, which its scores beyond -1 and
# 1 are clipped to. Its log loss is therefore large, though its Brier score is not: if you need
# ``log_loss`` as a measure, take the loss of that name.
#
# Scores of the hinge, scaled to [0, 1], are too unsure: their curve is steeper than the diagonal.
# The sigmoid of ``CalibratedClassifierCV`` mends that. It has two numbers. With a thousand rows and
# more, ``method="isotonic"`` may take any growing function instead.
