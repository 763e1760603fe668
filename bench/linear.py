"""Linear machines: time to a relative suboptimality, and test error against time, beside peers.

All minimise the same objective (`peers.py`). Every contender is given budgets from small to large,
each a whole fit from scratch. What a fit reached is computed off the clock from its coefficients;
its time to a suboptimality is that of its fastest budget that got there, and none if none did. The
optimum is the dual bound of a fit of ours to a certified gap of 1e-9. Of several problems,
objectives are added up. Objectives of one class are below 0: there, suboptimality is relative to
their size.

Fits that cannot change what is compared are left out. In the table of other losses, a peer gets no
larger budget after a fit that took ten times as long as ours to whatever level the peer has not
reached. Rounds after the first repeat short fits, but for those that are far from the fastest of
their contender to any level.
"""

import statistics
import warnings

import data as sets
import numpy as np
from measure import say, timed, touch_memory
from peers import TASKS, Ours, Task, contenders

LEVELS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
# A contender gets no larger budget after a fit of so many seconds.
PATIENCE = 20.0
# Nor does a peer, in the table of other losses, after one of so many times our time to all levels
# that it has yet to reach, and of so many seconds: first fits may have to warm up.
TIMES_OURS, LEAST_PATIENCE = 10.0, 0.2
# Fits of so many seconds spread little, and are not repeated. Those that are not SHORT are if no
# fit of their contender was twice as fast to some level.
LONG, SHORT, TWICE = 0.1, 0.02, 2.0


def covtype():
    return sets.real("covtype", 4)


def dense():
    return sets.blobs(22, 2, n=50_000, seed=2, flip_y=0.05)


def thin():
    return sets.binary(50_000, threshold=6.0)


# name: how to get it, the class against the rest (None: all classes), lam
CASES = {
    "imdb": (lambda: sets.load_or_imitate("imdb"), None, 1e-4),
    "adult": (lambda: sets.load_or_imitate("adult"), None, 3.07e-5),
    "covtype": (lambda: sets.load_or_imitate("covtype"), None, 1e-6),
    "covtype, every 4th": (covtype, None, 1e-5),
    "mnist 8": (lambda: sets.load_or_imitate("mnist"), 8, 1e-4),
    "newsgroups20": (lambda: sets.load_or_imitate("newsgroups20"), None, 1e-4),
    "fashion_mnist": (lambda: sets.load_or_imitate("fashion_mnist"), None, 1e-4),
    "50,000 x 300, sparse": (thin, None, 1e-5),
    "50,000 x 22": (dense, None, 1e-4),
    "200 x 10,000": (sets.expression, None, 5e-3),
    "15,000 x 16": (lambda: sets.blobs(16, 2, n=15_000, seed=2, flip_y=0.05), None, 1e-4),
    "7500 x 16, 10 classes": (
        lambda: sets.blobs(16, 10, n=7500, seed=1, class_sep=2), None, 1e-4,
    ),
    "15,000 x 16, 26 classes": (
        lambda: sets.blobs(16, 26, n=15_000, n_clusters_per_class=1, class_sep=1.5), None, 1e-4,
    ),
    "text, 105 classes": (lambda: sets.text(55_000, 105), None, 1e-4),
}  # fmt: skip

# Other losses, on sets of two classes and on numbers: name: how to get it, lam, losses.
LABELS, NUMBERS = (
    ("squared_hinge", "log_loss", "modified_huber"),
    ("epsilon_insensitive", "squared_epsilon_insensitive", "huber", "squared_error"),
)
JOINT, ONE_CLASS, RBF = ("crammer_singer",), ("one_class",), ("epsilon_insensitive, rbf",)
TARGETS = {
    "imdb": (lambda: sets.load_or_imitate("imdb"), 1e-4, LABELS),
    "adult": (lambda: sets.load_or_imitate("adult"), 3.07e-5, LABELS),
    "covtype, every 4th": (covtype, 1e-5, LABELS),
    "50,000 x 22": (dense, 1e-4, LABELS),
    "50,000 x 300, sparse": (thin, 1e-5, LABELS),
    "200 x 10,000": (sets.expression, 5e-3, LABELS),
    "elevation": (sets.elevation, 1e-5, NUMBERS),
    "length of texts": (sets.lengths, 1e-4, NUMBERS),
    "ten outputs": (sets.outputs, 1e-4, NUMBERS),
    "7500 x 16, 10 classes": (CASES["7500 x 16, 10 classes"][0], 1e-4, JOINT),
    "newsgroups20": (CASES["newsgroups20"][0], 1e-4, JOINT),
    "imdb, one class": (lambda: sets.load_or_imitate("imdb"), 0.1, ONE_CLASS),
    "20,000 x 20, one class": (sets.cloud, 0.1, ONE_CLASS),
    "4000 x 10, kernel": (sets.curve, 2.5e-5, RBF),
}


def measure(name, data, task, levels, repetitions, times_ours=np.inf):
    """Rows of the table for one set, and curves of seconds, suboptimality and error."""
    say(f"{name}, {task.loss}: optimum")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bound, gap = Ours(task, n_jobs=2).bound()
        everyone = list(contenders(task))
    times, reached, errors = {}, {}, {}
    for repetition in range(repetitions):
        for machine in everyone:  # ours first
            say(f"{name}, {task.loss}: {machine.name}")
            for budget in machine.budgets:
                key = machine.name, budget
                if repetition > 0 and not may_be_fastest(key, times, reached, levels):
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    seconds = timed(lambda m=machine, b=budget: m.fit(b))
                times.setdefault(key, []).append(seconds)
                if repetition == 0:
                    coef, intercept = machine.model()
                    reached[key] = (task.objective(coef, intercept) - bound) / abs(bound)
                    errors[key] = test_error(task, data, coef, intercept)
                    if reached[key] < levels[-1] / 3 or seconds > PATIENCE:
                        break
                    if not isinstance(machine, Ours) and seconds > patience(
                        machine.name, times, reached, levels, times_ours
                    ):
                        break
    rows, curves = [], []
    for machine in everyone:
        keys = [key for key in times if key[0] == machine.name]
        row = {"set": name, "loss": task.loss, "lam": task.lam, "machine": machine.name}
        for level in levels:
            there = [statistics.median(times[key]) for key in keys if reached[key] <= level]
            row[f"{level:g}"] = min(there) if there else None
        row["spread"] = max(max(times[key]) / min(times[key]) for key in keys)
        rows.append(row)
        curves.append(
            {
                "set": name,
                "loss": task.loss,
                "machine": machine.name,
                "budget": [str(key[1]) for key in keys],
                "seconds": [statistics.median(times[key]) for key in keys],
                "suboptimality": [float(reached[key]) for key in keys],
                "test error": [float(errors[key]) for key in keys],
            }
        )
    for row in rows:
        if row["machine"].startswith("pegasos"):
            row |= {f"x at {level:g}": _ratio(rows, row, f"{level:g}") for level in levels}
    say(f"{name}, {task.loss}: optimum known to {gap:.1g}")
    return rows, curves


def first_time(level, times, reached, prefix):
    """Seconds, in the first round, of the fastest to a level whose names begin so, or infinite."""
    there = [
        seconds[0]
        for key, seconds in times.items()
        if key[0].startswith(prefix) and reached[key] <= level
    ]
    return min(there, default=np.inf)


def patience(name, times, reached, levels, times_ours):
    """After a fit of how many seconds a peer gets no larger budget."""
    best = min(reached[key] for key in times if key[0] == name)
    ours = [first_time(level, times, reached, "pegasos") for level in levels if level < best]
    return max([LEAST_PATIENCE, *(times_ours * seconds for seconds in ours)])


def may_be_fastest(key, times, reached, levels):
    """Whether repeating a fit may change its contender's time to a level, by the first round."""
    if key not in times or times[key][0] > LONG:
        return False
    own = {k: times[k] for k in times if k[0] == key[0]}
    fastest = [first_time(level, own, reached, "") for level in levels if reached[key] <= level]
    return times[key][0] <= max([SHORT, *(TWICE * seconds for seconds in fastest)])


def test_error(task, data, coef, intercept):
    """Per cent of test rows with another label; of numbers, 1 - R²; NaN without test rows."""
    if data.X_test is None or task.loss == "one_class":
        return np.nan
    scores = task.scores(data.X_test, coef, intercept)
    if task.is_regression:
        truth = data.y_test.reshape(len(data.y_test), -1)
        left = ((truth - scores) ** 2).sum(axis=0)
        return float((left / ((truth - truth.mean(axis=0)) ** 2).sum(axis=0)).mean())
    found = scores[:, 0] > 0 if len(task.classes) == 2 else scores.argmax(axis=1)
    return 100 * np.mean(found != np.searchsorted(task.classes, data.y_test))


def _ratio(rows, ours, level):
    """Time of the fastest peer over ours; None where we or all peers do not get there."""
    peers = [r[level] for r in rows if not r["machine"].startswith("pegasos") and r[level]]
    return min(peers) / ours[level] if peers and ours[level] else None


def run(args):
    """The table of the hinge: all rows, and the curves."""
    repetitions = args.repetitions or (1 if args.quick else 3)
    results = {"repetitions": repetitions, "linear": [], "curves": []}
    touch_memory(2**31)
    for name, (get, label, lam) in CASES.items():
        if args.sets and name not in args.sets:
            continue
        data = get()
        if args.quick:
            data = data.first(1000)
        if label is not None:
            data.y, data.y_test = data.y == label, data.y_test == label
        task = Task(data.X, data.y, lam)
        rows, curves = measure(data.called(name), data, task, LEVELS, repetitions)
        results["linear"] += rows
        results["curves"] += curves
        args.keep(results)
    return results


def run_targets(args):
    """The table of the other losses."""
    repetitions = args.repetitions or (1 if args.quick else 3)
    results = {"repetitions": repetitions, "targets": [], "curves": []}
    touch_memory(2**31)
    for name, (get, lam, losses) in TARGETS.items():
        if args.sets and name not in args.sets:
            continue
        data = get()
        if args.quick:
            data = data.first(1000)
        for loss in losses:
            task = TASKS.get(loss, Task)(data.X, data.y, lam, loss)
            rows, curves = measure(
                data.called(name), data, task, LEVELS[:4], repetitions, TIMES_OURS
            )
            results["targets"] += rows
            results["curves"] += curves
        args.keep(results)
    return results
