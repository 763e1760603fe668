"""A course report implements Pegasos in R and trains on 200 handwritten digits. It takes λ = 1, 20
epochs with a new permutation for each, and an unpenalised intercept that moves by the step size. The
smaller label is −1. Its single run misclassifies 23 of 600 test digits. Our runs repeat this with
many seeds, with and without an intercept. An independent check of the algorithm over 100 seeds is
known.
"""

import re
import time

import numpy as np

import pegasos
from experiments import report

TITLE = "Linear machine on digits 5 against 6"
SOURCE = "Pegasos in R, report on a course's coding assignment 5 (author not recorded)"
DATA = ["coding5"]
DRAWS = False

PUBLISHED = {"train": [[98, 2], [0, 100]], "test": [[285, 15], [8, 292]]}
PUBLISHED_WRONG, PUBLISHED_OF = 23, 600
CHECK = {True: "20.4 (16 to 28)", False: "19.4"}  # by fit_intercept


def confusion(actual, predicted, classes):
    """Counts, actual classes down, predicted ones across."""
    return np.array([[(predicted[actual == a] == p).sum() for p in classes] for a in classes])


def measure(data, seeds, fit_intercept):
    """Confusion matrices (seed, split, actual, predicted) on train and test, seconds of fits."""
    matrices, seconds = [], []
    for seed in range(seeds):
        began = time.perf_counter()
        model = pegasos.fit(
            data.X,
            data.y,
            lam=1.0,
            solver="pegasos",
            tol=None,
            max_iter=20,
            sampling="permutation",
            fit_intercept=fit_intercept,
            penalize_intercept=False,
            random_state=seed,
        )
        seconds.append(time.perf_counter() - began)
        parts = ((data.X, data.y), (data.X_test, data.y_test))
        matrices.append([confusion(y, model.predict(X), model.classes) for X, y in parts])
    return np.array(matrices), seconds


def errors(matrices):
    """Misclassified rows per seed and split."""
    return matrices.sum(axis=(2, 3)) - np.trace(matrices, axis1=2, axis2=3)


def run(output, quick=False):
    """Markdown: errors with and without intercept, and confusion matrices."""
    data = report.sets.load("coding5")
    seeds = 5 if quick else 100
    rows, wrong = [], {}
    for fit_intercept in (True, False):
        found, seconds = measure(data, seeds, fit_intercept)
        wrong[fit_intercept] = errors(found)[:, 1]
        if fit_intercept:
            matrices, milliseconds = found, 1e3 * np.median(seconds)
        ours = wrong[fit_intercept]
        rows.append(
            [
                "unpenalised intercept" if fit_intercept else "no intercept",
                f"{report.mean_sd(ours)} ({100 * ours.mean() / PUBLISHED_OF:.2f} %)",
                f"{ours.min()} to {ours.max()}",
                f"{PUBLISHED_WRONG} (3.83 %)" if fit_intercept else "",
                CHECK[fit_intercept],
            ]
        )
    counts = [
        [split, *(_matrix(matrices[:, k].mean(axis=0), ".1f"), _matrix(PUBLISHED[split], "d"))]
        for k, split in enumerate(("train", "test"))
    ]
    with_b = wrong[True]
    as_bad = int((with_b >= PUBLISHED_WRONG).sum())
    error = wrong[False].std(ddof=1) / np.sqrt(seeds)
    names = [f"misclassified of {PUBLISHED_OF}", f"ours, {seeds} seeds", "range",
             "published, one run", "independent check"]  # fmt: skip
    matrix_names = ["confusion (actual 5; actual 6)", "ours, mean", "published"]
    difference = (
        f"Misclassified of {PUBLISHED_OF}: mean {with_b.mean():.2f}, published {PUBLISHED_WRONG}. "
        f"{as_bad} of our {seeds} runs misclassify as many or more: the difference is one that "
        f"another seed makes. Without intercept our mean, {wrong[False].mean():.2f}, has a "
        f"standard error of {error:.2f}, and the independent check one of its own. A fit takes "
        f"{milliseconds:.1f} ms; the report gives 0.53 s for its whole document in R."
    )
    return "\n\n".join([report.table(names, rows), report.table(matrix_names, counts), difference])


def claims(section):
    """The errors beside the published ones."""
    (_, ours, spread, *_), (_, without, *_) = (
        report.rows(section, name)[0] for name in ("unpenalised intercept", "no intercept")
    )
    least, most = map(int, spread.split(" to "))
    as_bad, seeds = re.search(r"(\d+) of our (\d+) runs misclassify", section).groups()
    mean, sd = (float(part) for part in re.findall(r"[\d.]+", without)[:2])
    error = sd * np.sqrt(2 / int(seeds))  # of the difference of two such means
    return [
        report.Claim(
            f"misclassified of {PUBLISHED_OF}, with intercept", f"{ours}, {spread}",
            f"{PUBLISHED_WRONG}, one run", report.verdict(least <= PUBLISHED_WRONG <= most),
            f"{as_bad} of {seeds} seeds misclassify as many or more",
        ),
        report.Claim(
            f"misclassified of {PUBLISHED_OF}, no intercept", without,
            f"{CHECK[False]}, independent check",
            report.verdict(abs(mean - float(CHECK[False])) <= 3 * error),
            f"standard error of the difference: {error:.2f}",
        ),
    ]  # fmt: skip


def _matrix(counts, form):
    return "; ".join(" ".join(f"{n:{form}}" for n in row) for row in counts)


if __name__ == "__main__":
    report.alone("digits_5_vs_6")
