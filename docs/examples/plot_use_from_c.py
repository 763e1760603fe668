"""
Use from C
==========

Installs the C library, builds the first program of :doc:`/c_use`, runs it, and trains the same
machine from Python: both answers are within the gap of 1e-6 that the program asks for.
"""

# sphinx_gallery_thumbnail_path = "_static/thumbnail_C.svg"

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from pegasos import PegasosClassifier

source = Path.cwd().parent / "c_example"  # examples run in their own folder


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


with tempfile.TemporaryDirectory() as folder:
    build, installed, example = (Path(folder) / name for name in ("build", "installed", "example"))
    options = ["-G", "Ninja"] if shutil.which("ninja") else []
    options += ["-DCMAKE_BUILD_TYPE=Debug"]  # compiles faster, runs slower, gives the same bits
    run("cmake", "-S", source.parents[1], "-B", build, *options)
    run("cmake", "--build", build, "--target", "pegasos", "pegasos_shared")
    run("cmake", "--install", build, "--prefix", installed)
    run("cmake", "-S", source, "-B", example, f"-DCMAKE_PREFIX_PATH={installed}", *options)
    run("cmake", "--build", example, "--target", "hinge")
    print(run(example / "hinge"))

# %%
# The same rows, labels and λ from Python:

i, j = np.arange(1000)[:, None], np.arange(5)
X = (i * (2 * j + 3) * (j + 7) % 101) / 50 - 1
y = np.where((X[:, 0] + X[:, 1] - X[:, 2] > 0) != (np.arange(1000) % 10 == 0), 1, -1)
clf = PegasosClassifier(lam=1e-2, tol=1e-6, random_state=0).fit(X, y)
print(f"accuracy {clf.score(X, y):.3f}")
print(f"objective {clf.objective_[0]:.9f}")
print(f"no model is below {clf.dual_objective_[0]:.9f}")
