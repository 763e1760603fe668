"""
Rows on a cluster
=================

``pegasos.dask`` trains on rows that are spread over the workers of a Dask cluster. Here the
cluster is two workers in this process. Every partition of the rows is made where it is needed, as
if it were read from a file.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from dask.distributed import Client

from pegasos.dask import DaskPegasosClassifier

N_PARTITIONS, N_ROWS, N_FEATURES = 8, 5000, 30


def make_rows(block_info=None):
    """The rows of one partition, and their labels in the last column."""
    (number, _) = block_info[None]["chunk-location"]
    rng = np.random.default_rng(number)
    X = rng.normal(size=(N_ROWS, N_FEATURES))
    scores = X @ np.linspace(-1, 1, N_FEATURES) + rng.normal(scale=2, size=N_ROWS)
    return np.column_stack([X, scores > 0])


rows = da.map_blocks(
    make_rows, chunks=((N_ROWS,) * N_PARTITIONS, (N_FEATURES + 1,)), dtype=float
)  # fmt: skip
X, y = rows[:, :-1], rows[:, -1].astype(int)

# %%
# A fit ends when the gap, over all rows, is at most ``tol``. A round is one pass over all
# partitions.

client = Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0")
losses = ["hinge", "squared_hinge", "modified_huber", "log_loss"]
tols, fits = [1e-1, 1e-2, 1e-3, 1e-4], {}
for loss in losses:
    fits[loss] = [
        DaskPegasosClassifier(lam=1e-4, loss=loss, tol=tol, random_state=0).fit(X, y)
        for tol in tols
    ]
    finest = fits[loss][-1]
    print(f"{loss:>15}: {finest.n_iter_:2} rounds, accuracy {finest.score(X, y):.3f}")

# %%
# Only the hinge, which has a corner, needs more than a few rounds. The gaps are often far below
# what was asked for, since Newton's method ends fast.

_, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for loss, found in fits.items():
    gaps = [max(clf.duality_gap_[0] / clf.objective_[0], 1e-12) for clf in found]
    axes.semilogy([clf.n_iter_ for clf in found], gaps, "o-", label=loss)
axes.set(xlabel="rounds", ylabel="certified relative gap")
axes.legend()

# %%
# Predictions are lazy. ``to_local`` returns the model as an estimator that needs no cluster.

print(finest.predict(X))
local = finest.to_local()
client.close()
print(local.predict(np.eye(N_FEATURES)[:3]))
