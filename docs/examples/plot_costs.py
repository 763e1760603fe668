"""
Errors of different cost
========================

Some errors are worse than others, such as sending somebody home who is ill. A matrix of costs says
how much each error costs.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from pegasos import PegasosClassifier

names = np.array(["well", "watch", "ill"])
X, codes = make_classification(
    3000, 12, n_informative=6, n_classes=3, class_sep=1.5, random_state=0
)
X, y = StandardScaler().fit_transform(X), names[codes]
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# Rows of the matrix are true classes, columns are answers, both in the order of ``classes_``:
# "ill", "watch", "well". To call an ill person well costs 10, to watch them 2, and all other errors
# cost 1.

cost = np.array([[0, 2, 10], [1, 0, 1], [1, 1, 0]])
plain = PegasosClassifier(C=0.1, multi_class="crammer_singer", random_state=0)
costly = PegasosClassifier(C=0.1, multi_class="crammer_singer", cost=cost, random_state=0)

fig, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, clf, title in zip(axes, (plain, costly), ("all errors cost 1", "with costs"), strict=True):
    clf.fit(X_train, y_train)
    predicted = clf.predict(X_test)
    ConfusionMatrixDisplay.from_predictions(y_test, predicted, ax=ax, colorbar=False, cmap="Blues")
    ax.set_title(title)
    row, column = (np.searchsorted(clf.classes_, of) for of in (y_test, predicted))
    print(
        f"{title}: {np.mean(predicted != y_test):.1%} errors, mean cost "
        f"{cost[row, column].mean():.2f}, gap {clf.duality_gap_[0] / clf.objective_[0]:.1e}"
    )
plt.show()

# %%
# The column on the right, "well", has fewer rows of the ill. The price is more errors of other
# kinds.
