"""
Data that come in pieces
========================

``partial_fit`` makes one epoch over the rows that it is given, and goes on from the model so far.
It suits streams, and has no certificate. In this example, a thousand rows at a time are read from
a file. For a file that is larger than memory, :doc:`/larger_than_memory` has a certificate.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification

from pegasos import PegasosClassifier, fit

X, y = make_classification(
    22_000, 50, n_informative=20, n_clusters_per_class=3, class_sep=1.5, random_state=0
)
X = (X / np.sqrt((X**2).sum(axis=1).mean())).astype(np.float32)  # rows with norms of about one
X, X_test, y, y_test = X[:20_000], X[20_000:], y[:20_000], y[20_000:]

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "rows.npy"
np.save(path, X)

# %%
# Chunks in a new order every time, since a pass over sorted data would forget its beginning. All
# classes must be named in the first call. ``average="suffix"`` calms the last steps.

lam, rng = 1e-4, np.random.default_rng(0)
on_disk = np.load(path, mmap_mode="r")
clf = PegasosClassifier(lam=lam, solver="pegasos", average="suffix", random_state=0)
rows_seen, accuracy, objective = [], [], []
for _ in range(5):
    for k in rng.permutation(20):
        chunk = slice(1000 * k, 1000 * (k + 1))
        clf.partial_fit(np.array(on_disk[chunk]), y[chunk], classes=[0, 1])
        rows_seen.append(1000 + (rows_seen[-1] if rows_seen else 0))
        accuracy.append(clf.score(X_test, y_test))
        margins = (2 * y - 1) * clf.decision_function(X)
        norm = clf.coef_[0] @ clf.coef_[0] + clf.intercept_[0] ** 2
        objective.append(lam / 2 * norm + np.maximum(0, 1 - margins).mean())

# %%
# A stream has no rows to go back to, hence no certificate. A fit of all rows has one, and its lower
# bound holds for the streamed model, too.

full = fit(X, y, lam, random_state=0)
print(f"streamed: objective {objective[-1]:.4f}, held-out accuracy {accuracy[-1]:.3f}")
print(f"all rows: objective {full.objective[0]:.4f}, held-out accuracy "
      f"{(full.predict(X_test) == y_test).mean():.3f}, "
      f"no model below {full.dual_objective[0]:.4f}")  # fmt: skip

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(rows_seen, objective, label="partial_fit")
left.axhline(full.dual_objective[0], ls="--", color="black", label="lower bound")
left.set(xlabel="rows seen", ylabel="objective on all rows", yscale="log")
left.legend()
right.plot(rows_seen, accuracy)
right.set(xlabel="rows seen", ylabel="held-out accuracy")
plt.show()

del on_disk
folder.cleanup()
