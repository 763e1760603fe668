"""
Larger than memory: training from a file
========================================

Forty thousand rows of text, sorted by label, are written to a file in LIBSVM's format. Training
keeps a twentieth of them in memory at a time.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from pegasos import Blocks, PegasosClassifier

rng = np.random.default_rng(0)
words = rng.permutation(5000)
truth = rng.normal(size=5000) / np.sqrt(20)


def texts(n):
    """Rows with 20 words each, rare and common ones, and labels with some noise."""
    columns = words[(5000 * rng.random((n, 20)) ** 3).astype(int)].ravel().astype(np.int32)
    places = np.arange(0, 20 * n + 1, 20, dtype=np.int32)
    X = sparse.csr_array((np.full(20 * n, 20**-0.5), columns, places), shape=(n, 5000))
    X.sum_duplicates()
    y = np.where(X @ truth + 0.05 * rng.normal(size=n) > 0, 1, -1)
    return X, y


folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "texts.svm"
X, y = texts(40000)
order = np.argsort(y, kind="stable")
dump_svmlight_file(X[order], y[order], str(path), zero_based=False)
print(f"{path.stat().st_size / 1e6:.0f} MB of text")

# %%
# The file is read once. The cache has its rows in random order, in blocks with checksums.

blocks = Blocks(path, cache=Path(folder.name) / "cache", memory="3MB", dtype="float32")
print(blocks)

# %%
# A fit makes passes over the blocks until its gap over all rows is at most 0.1 % of the objective.

clf = PegasosClassifier(lam=1e-4, random_state=0).fit(blocks)
print(f"{clf.n_iter_} passes, gap {100 * clf.duality_gap_[0] / clf.objective_[0]:.3f} %")
X_test, y_test = texts(5000)
print(f"accuracy {clf.score(blocks):.3f} in training, {clf.score(X_test, y_test):.3f} on new rows")

# %%
# How the gap falls from pass to pass. A warm start goes on where the last fit stopped. A fit of the
# rows in memory says where the optimum is.

one = PegasosClassifier(lam=1e-4, tol=None, max_iter=1, warm_start=True, random_state=0)
gaps = []
for _ in range(5):
    one.fit(blocks)
    gaps.append(one.duality_gap_[0] / one.objective_[0])
exact = PegasosClassifier(lam=1e-4, tol=1e-6, random_state=0).fit(X, y)
print(f"objective {one.objective_[0]:.6f}; in memory {exact.objective_[0]:.6f}")

fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.semilogy(range(1, 6), gaps, "o-")
ax.axhline(1e-3, color="gray", linestyle="--", label="default tolerance")
ax.set(xlabel="passes over the file", ylabel="certified relative gap", xticks=range(1, 6))
ax.legend()
plt.show()
folder.cleanup()
