"""
Several labels for each text
============================

A text may be about several subjects, or none. A y of zeros and ones has a column for each subject.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

from pegasos import PegasosClassifier

# %%
# Made-up texts: each subject has words of its own, among words that all texts have.

rng = np.random.default_rng(0)
subjects = {
    "music": "violin concert singer melody orchestra tune drums",
    "food": "soup baker oven spice dinner taste kitchen",
    "travel": "train harbour ticket island border luggage map",
}
common = ["the", "a", "of", "today", "we", "they", "saw", "many", "good", "new", "place", "day"]
y = rng.random((1500, 3)) < [0.4, 0.3, 0.2]
texts = []
for row in y:
    words = list(rng.choice(common, 12))
    for has_subject, own in zip(row, subjects.values(), strict=True):
        words += list(rng.choice(own.split(), 2 if has_subject else 0))
        words += list(rng.choice(own.split(), int(rng.random() < 0.2)))  # words may stray
    texts.append(" ".join(rng.permutation(words)))
print(texts[0], "|", *np.array(list(subjects))[y[0]])

# %%
# One fit trains a problem for each column.

X = TfidfVectorizer().fit_transform(texts)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
clf = PegasosClassifier(C=1, loss="log_loss", random_state=0).fit(X_train, y_train)
print(f"all labels of a text right: {clf.score(X_test, y_test):.3f}")
for name, f1 in zip(subjects, f1_score(y_test, clf.predict(X_test), average=None), strict=True):
    print(f"F1 of {name}: {f1:.3f}")

# %%
# Each label has a probability of its own; those of a text need not add up to one.

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
found = clf.predict_proba(X_test[:12])
image = ax.imshow(found, vmin=0, vmax=1, cmap="Blues", aspect="auto")
for i, k in np.argwhere(y_test[:12]):
    ax.text(k, i, "true", ha="center", va="center", color="white" if found[i, k] > 0.5 else "black")
ax.set_xticks(range(3), list(subjects))
ax.set_ylabel("text")
fig.colorbar(image, label="probability")
plt.show()
