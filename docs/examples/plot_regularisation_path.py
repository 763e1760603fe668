"""
A regularisation path with certificates
=======================================

The smallest objective as a function of λ. For each λ, a fit finds two numbers that it lies between:
the objective of a model, and the lower bound of the certificate.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pegasos import PegasosClassifier

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)

lams = np.geomspace(1e-5, 10, 25)
upper, lower, norms, train, test = [], [], [], [], []
for lam in lams:
    pipeline = make_pipeline(StandardScaler(), PegasosClassifier(lam=lam, tol=0.01, random_state=0))
    clf = pipeline.fit(X_train, y_train)[-1]
    upper.append(clf.objective_[0])
    lower.append(clf.dual_objective_[0])
    norms.append(np.hypot(np.linalg.norm(clf.coef_), clf.intercept_[0]))
    train.append(pipeline.score(X_train, y_train))
    test.append(pipeline.score(X_test, y_test))

# %%
# With ``tol=0.01`` the two numbers can hardly be told apart.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(lams, upper, "v", label="objective")
left.plot(lams, lower, "^", label="no model is below")
left.set(xscale="log", yscale="log", xlabel="λ", ylabel="objective")
left.legend()
right.plot(lams, train, ".-", label="training rows")
right.plot(lams, test, ".-", label="held-out rows")
right.set(xscale="log", xlabel="λ", ylabel="accuracy")
right.legend()
plt.show()

# %%
# The weights of an optimum shrink as λ grows, and never leave the ball of radius 1/√λ.

fig, ax = plt.subplots(layout="constrained")
ax.plot(lams, norms, ".-", label="norm of the weights")
ax.plot(lams, 1 / np.sqrt(lams), "--", label="1/√λ")
ax.set(xscale="log", yscale="log", xlabel="λ", ylabel="norm")
ax.legend()
plt.show()

# %%
# Every fit reached its relative gap:

print(f"largest {np.max((np.array(upper) - lower) / upper):.1e}")
