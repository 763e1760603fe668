"""
Larger than memory: training from files
=======================================

Seven hundred thousand rows of text, sorted by label, are written to two files in LIBSVM's format.
Training keeps a sixth of them in memory at a time.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from pegasos import Blocks, PegasosClassifier

rng = np.random.default_rng(0)
words = 1 + rng.permutation(5000)
truth = rng.normal(size=5001)
# Fields of one length: NumPy makes lines of them in no time.
fields = np.array([f" {word}:0.2".ljust(9).encode() for word in range(5001)])
folder = tempfile.TemporaryDirectory()


def write(n, name):
    """Write rows with up to 20 words, rare and common ones, and labels with some noise."""
    columns = np.sort(words[(5000 * rng.random((n, 20)) ** 3).astype(int)])
    is_new = np.diff(columns, prepend=0) > 0  # a word that is drawn twice is written once
    scores = (is_new * truth[columns]).sum(axis=1) + rng.normal(size=n)
    text = np.where(is_new, fields[columns], b" " * 9)
    for label, rows in ("-1", scores <= 0), ("+1", scores > 0):
        ends = [label.ljust(9).encode(), b"\n".rjust(9)]
        with open(f"{folder.name}/{name}{label}.svm", "ab") as file:
            file.write(np.insert(text[rows], [0, 20], ends, axis=1).tobytes())


for _ in range(35):
    write(20000, "train")
write(5000, "test")
size = sum(path.stat().st_size for path in Path(folder.name).glob("train*"))
print(f"{size / 1e6:.0f} MB of text")

# %%
# The files are read once. The cache has their rows in random order, in blocks with checksums.


def blocks_of(name):
    """The rows of some files."""
    files, cache = f"{folder.name}/{name}*.svm", f"{folder.name}/{name}"
    return Blocks(files, cache=cache, memory="20MB", dtype="float32")


blocks = blocks_of("train")
print(blocks)

# %%
# A fit makes passes over the blocks until its gap over all rows is at most 0.1 % of the objective.
# No linear model has an objective below the dual one.

clf = PegasosClassifier(lam=1e-4, random_state=0).fit(blocks)
print(f"{clf.n_iter_} passes, gap {100 * clf.duality_gap_[0] / clf.objective_[0]:.4f} %")
print(f"objective {clf.objective_[0]:.6f}, dual objective {clf.dual_objective_[0]:.6f}")
seen, new = clf.score(blocks), clf.score(blocks_of("test"))
print(f"accuracy {seen:.3f} in training, {new:.3f} on new rows")

# %%
# How the gap falls from pass to pass. A warm start goes on where the last fit stopped.

one = PegasosClassifier(lam=1e-4, tol=None, max_iter=1, warm_start=True, random_state=0)
gaps = []
for _ in range(4):
    one.fit(blocks)
    gaps.append(one.duality_gap_[0] / one.objective_[0])

fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.semilogy(range(1, 5), gaps, "o-")
ax.axhline(1e-3, color="gray", linestyle="--", label="default tolerance")
ax.set(xlabel="passes over the rows", ylabel="certified relative gap", xticks=range(1, 5))
ax.legend()
plt.show()
folder.cleanup()
