"""
Text: which package is this docstring from?
===========================================

Python's own standard library makes a small collection of texts that is at hand wherever its sources
are installed: the docstrings of functions and classes, labelled by their package. TF-IDF and a
linear machine in one pipeline.
"""

import ast
import sysconfig
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import ConfusionMatrixDisplay, balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from pegasos import PegasosClassifier, PegasosClassifierCV
from pegasos.plotting import WeightsDisplay

PACKAGES = ["asyncio", "concurrent", "email", "http", "importlib", "logging", "unittest", "xml"]


def docstrings(package):
    """Docstrings of at least five words in a package's source files."""
    for path in sorted((Path(sysconfig.get_path("stdlib")) / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                if len(text.split()) >= 5:
                    yield text


texts, labels = [], []
for package in PACKAGES:
    found = sorted(set(docstrings(package)))
    texts += found
    labels += [package] * len(found)
print(f"{len(texts)} docstrings")
texts_train, texts_test, y_train, y_test = train_test_split(
    texts, labels, stratify=labels, random_state=0
)

# %%
# TF-IDF gives sparse rows of norm one, which are read as they are. Eight classes are eight problems
# over them. Balanced weights make the small packages as important as the large ones, and so does
# balanced accuracy, the mean recall of the packages.

clf = make_pipeline(
    TfidfVectorizer(sublinear_tf=True),
    PegasosClassifier(lam=1e-3, class_weight="balanced", random_state=0),
)
began = time.perf_counter()
clf.fit(texts_train, y_train)
seconds = time.perf_counter() - began
machine = clf[-1]
hardest = machine.objective_.argmax()
print(f"{machine.n_features_in_} words, read and learned in {seconds:.2f} s")
balanced = balanced_accuracy_score(y_test, clf.predict(texts_test))
print(f"held-out accuracy {clf.score(texts_test, y_test):.3f}, balanced {balanced:.3f}")
print(
    f"hardest class {machine.classes_[hardest]}: objective {machine.objective_[hardest]:.4f}, "
    f"no model is below {machine.dual_objective_[hardest]:.4f}"
)

# %%
# The words with the largest weights. Bars to the right speak for a package.

WeightsDisplay.from_estimator(clf, max_features=10)

# %%
# Rows are true packages, columns are predicted ones.

fig, ax = plt.subplots(figsize=(6, 6), layout="constrained")
ConfusionMatrixDisplay.from_estimator(
    clf, texts_test, y_test, ax=ax, colorbar=False, cmap="Blues", xticks_rotation="vertical"
)
plt.show()

# %%
# A search over λ trains all classes, folds and values of λ over one matrix. It scores by the class
# weights, so it looks for the best balanced accuracy.

X_train = clf[0].transform(texts_train)
search = PegasosClassifierCV(
    lams=np.geomspace(1e-5, 1e-1, 9), class_weight="balanced", random_state=0
).fit(X_train, y_train)
predicted = search.predict(clf[0].transform(texts_test))
print(
    f"lam = {search.best_params_['lam']:.1e}, held-out balanced accuracy "
    f"{balanced_accuracy_score(y_test, predicted):.3f}"
)
