"""Speed-up by two threads: two fits side by side, and one fit on two threads.

"two fits": one fit in each of two Python threads, beside both fits one after the other in one
thread. "n_jobs": a fit with n_jobs=2 beside the same fit with n_jobs=1. Both sides are timed in
turn, in one process; "speed-up" is the median over rounds, between quartiles. "bits" says whether
the models are equal bit for bit. "limit" is what the machine gave in the same rounds: the speed-up
of two threads that compute checksums, which need neither the interpreter nor much memory. On a
busy machine it is below 2, and a fit can hardly do better. Sizes are such that a fit takes 20 ms
to 1 s on one thread.
"""

import functools
import hashlib
import statistics
import threading
import warnings

import data as sets
import numpy as np
from measure import in_turn, quartiles, ratio, say, timed
from scipy import sparse
from sklearn.base import clone

import pegasos

THREADS = 2
LAM = 1e-4


def dense(quick, n_classes, n=6000, d=32):
    made = sets.imitate("dense", n // (20 if quick else 1), d, None, n_classes)
    return made.X, made.y


def text(quick, n_classes, n=3000, d=20_000):
    made = sets.imitate("text", n // (5 if quick else 1), d, 60, n_classes)
    return made.X, made.y


def linear(**options):
    return pegasos.PegasosClassifier(lam=LAM, random_state=0, **options)


def kernel(**options):
    return pegasos.KernelPegasosClassifier(lam=1e-3, random_state=0, **options)


def search(**options):
    return pegasos.PegasosClassifierCV(lams=[1e-2, 1e-3, 1e-4], cv=3, random_state=0, **options)


def kernel_search(**options):
    return pegasos.KernelPegasosClassifierCV(
        lams=[1e-2, 1e-3], gammas=["scale"], cv=3, random_state=0, **options
    )


# name: rows and labels, and machines by name. Two fits are made of the first machine alone.
CASES = {
    "dense, 2 classes": (
        lambda quick: dense(quick, 2, n=20_000, d=100),
        {"linear": linear, "search": search},
    ),
    "dense, 10 classes": (
        lambda quick: dense(quick, 10),
        {
            "one-vs-rest": linear,
            "one-vs-one": lambda **options: linear(multi_class="ovo", **options),
            "search": search,
            "search, cv_effort=1": lambda **options: search(cv_effort=1, **options),
        },
    ),
    "dense, 26 classes": (
        lambda quick: dense(quick, 26, n=1500, d=16),
        {
            "one-vs-rest": linear,
            "one-vs-one": lambda **options: linear(multi_class="ovo", **options),
        },
    ),
    "sparse, 2 classes": (
        lambda quick: text(quick, 2, n=20_000),
        {"linear": linear, "search": search},
    ),
    "sparse, 20 classes": (
        lambda quick: text(quick, 20, n=1000, d=5000),
        {
            "one-vs-rest": linear,
            "one-vs-one": lambda **options: linear(multi_class="ovo", **options),
            "search": search,
            "search, cv_effort=1": lambda **options: search(cv_effort=1, **options),
        },
    ),
    "kernel, 2 classes": (
        lambda quick: dense(quick, 2, n=1500),
        {"Gaussian": kernel, "search": kernel_search},
    ),
    "kernel, 10 classes": (
        lambda quick: dense(quick, 10, n=1500),
        {
            "one-vs-rest": kernel,
            "one-vs-one": lambda **options: kernel(multi_class="ovo", **options),
            "search": kernel_search,
        },
    ),
}


def side_by_side(calls):
    """Make all calls, each in a thread of its own."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def one_after_the_other(calls):
    for call in calls:
        call()


def model(machine):
    """The numbers of a fitted machine."""
    names = ("coef_", "dual_coef_", "support_", "intercept_", "objective_", "scores_")
    given = vars(machine)
    return {name: given[name] for name in names if name in given}


def same_bits(machines):
    """Whether the models of all machines are equal; None if there are none."""
    first, *others = map(model, machines)
    return all(
        first.keys() == other.keys() and np.array_equal(first[name], other[name], equal_nan=True)
        for other in others
        for name in first
    )


# What two threads do to show the limit of the machine, about 10 ms for each.
_CHECKSUMS = [functools.partial(hashlib.sha256, bytes(2**24))] * THREADS


def compare(one, two, repetitions):
    """Figures of the call `two`, on two threads, beside the call `one`, on one."""
    calls = (
        one,
        two,
        functools.partial(one_after_the_other, _CHECKSUMS),
        functools.partial(side_by_side, _CHECKSUMS),
    )
    one(), two()
    times = in_turn([functools.partial(timed, call) for call in calls], repetitions)
    low, high = quartiles(*times[:2])
    return {
        "one ms": 1e3 * statistics.median(times[0]),
        "two ms": 1e3 * statistics.median(times[1]),
        "speed-up": ratio(*times[:2]),
        "quartiles": f"{low:.3g} to {high:.3g}",
        "of least": min(times[0]) / min(times[1]),
        "limit": ratio(*times[2:]),
    }


def two_fits(make, X, y, repetitions):
    machines = [make(n_jobs=1) for _ in range(THREADS)]
    alone = clone(machines[0]).fit(X, y)
    calls = [functools.partial(machine.fit, X, y) for machine in machines]
    both = functools.partial(side_by_side, calls)
    row = compare(functools.partial(one_after_the_other, calls), both, repetitions)
    return row | {"bits": "equal" if same_bits([alone, *machines]) else "DIFFER"}


def jobs(make, X, y, repetitions):
    one, two = make(n_jobs=1), make(n_jobs=THREADS)
    row = compare(lambda: one.fit(X, y), lambda: two.fit(X, y), repetitions)
    return row | {"bits": "equal" if same_bits([one, two]) else "DIFFER"}


def measure(name, X, y, machines, repetitions):
    """The rows of one set."""
    about = {"set": name, "layout": "CSR" if sparse.issparse(X) else "dense", "dtype": X.dtype.name}
    for number, (what, make) in enumerate(machines.items()):
        if number == 0:
            say(f"{name}: two fits")
            yield about | {"what": f"two fits, {what}"} | two_fits(make, X, y, repetitions)
        say(f"{name}: {what}")
        if len(np.unique(y)) > 2 or "search" in what or name.startswith("kernel"):
            yield about | {"what": f"n_jobs={THREADS}, {what}"} | jobs(make, X, y, repetitions)


def run(args):
    """All rows of the table."""
    repetitions = args.repetitions or (2 if args.quick else 9)
    results = {"repetitions": repetitions, "threads": []}
    for name, (make, machines) in CASES.items():
        if args.sets and name not in args.sets:
            continue
        X, y = make(args.quick)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results["threads"] += measure(name, X, y, machines, repetitions)
    return results
