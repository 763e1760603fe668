"""
Use from C
==========

Builds the program of :doc:`/c_use`, runs it, and trains the same machine from Python: the
objectives are the same to the last digit that is printed.
"""

# sphinx_gallery_thumbnail_path = "_static/thumbnail_C.svg"

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from pegasos import PegasosClassifier

source = Path.cwd().parent / "c_example"  # examples run in their own folder

with tempfile.TemporaryDirectory() as build:
    options = ["-G", "Ninja"] if shutil.which("ninja") else []
    options += ["-DCMAKE_BUILD_TYPE=Debug"]  # compiles faster, runs slower, gives the same bits
    for command in (["cmake", "-S", source, "-B", build, *options], ["cmake", "--build", build]):
        subprocess.run(command, check=True, capture_output=True)
    (program,) = (p for p in Path(build).rglob("margin*") if p.name in ("margin", "margin.exe"))
    print(subprocess.run([program], check=True, capture_output=True, text=True).stdout)

# %%
# The same rows, labels, λ, seed and number of epochs from Python:

i, j = np.arange(1000)[:, None], np.arange(5)
X = (i * (2 * j + 3) * (j + 7) % 101) / 50 - 1
y = np.where((X[:, 0] + X[:, 1] - X[:, 2] > 0) != (np.arange(1000) % 10 == 0), 1, -1)
clf = PegasosClassifier(
    1e-2, solver="pegasos", tol=None, max_iter=200, fit_intercept=False, random_state=42
).fit(X, y)
print(f"accuracy {clf.score(X, y):.3f}")
print(f"objective {clf.objective_[0]:.9f}")
print(f"no model is below {clf.dual_objective_[0]:.9f}")
