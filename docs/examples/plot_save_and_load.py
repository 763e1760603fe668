"""
Saving and loading
==================

Two ways that execute nothing when a file is read: ``.npz`` for a model, skops for a pipeline.
"""

# sphinx_gallery_thumbnail_path = "_static/thumbnail_npz.svg"

import tempfile
from pathlib import Path

import numpy as np
import skops.io
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import pegasos
from pegasos import KernelPegasosClassifier

X, y = load_digits(return_X_y=True)
pipeline = make_pipeline(
    MinMaxScaler(), KernelPegasosClassifier(C=10, gamma=0.1, random_state=0)
).fit(X, y)
folder = tempfile.TemporaryDirectory()

# %%
# A model as .npz
# ---------------
#
# ``to_model`` gives what predicts, and nothing that training needs. The file is an archive of plain
# arrays, which any program that reads NumPy's format can open.

path = Path(folder.name) / "digits.npz"
pipeline[-1].to_model().save(path)
print(f"{path.stat().st_size / 1e3:.0f} kB")
with np.load(path, allow_pickle=False) as archive:
    for name in archive.files:
        print(f"{name:>15}: {archive[name].dtype}, shape {archive[name].shape}")

# %%
# It predicts on scaled rows, as the last step of the pipeline does.

model = pegasos.load(path)
same = model.predict(pipeline[0].transform(X)) == pipeline.predict(X)
print(f"rows with equal labels: {same.sum()} of {len(same)}")

# %%
# A whole pipeline with skops
# ---------------------------
#
# skops writes scikit-learn's objects without pickle. A file says which types it holds beyond those
# that skops knows. Look at the list, and name those that you trust:

path = Path(folder.name) / "digits.skops"
skops.io.dump(pipeline, path)
types = skops.io.get_untrusted_types(file=path)
print("\n".join(types))

# %%

assert all(name.startswith("pegasos.") for name in types)
again = skops.io.load(path, trusted=types)
difference = abs(again.decision_function(X) - pipeline.decision_function(X)).max()
print(f"largest difference of scores: {difference}")
folder.cleanup()
