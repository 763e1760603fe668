"""A short run of random calls, and that it would see a wrong answer, a riddle and a crash."""

import sys

import numpy as np
import pytest
import random_calls

import pegasos


def test_random_calls_answer_as_numpy_does_or_refuse_in_words(capsys):
    hunt = random_calls.Hunt(0, stop=60).run()
    assert sum(hunt.counts.values()) == 60
    assert hunt.counts.total() > sum(hunt.counts[k, "refused"] for k in random_calls.KINDS)
    assert not hunt.failures, capsys.readouterr().out


def outcomes(kind, n=40):
    """Outcomes of the first `n` cases of a kind."""
    seeds = (seed for seed in range(10**4) if random_calls.kind_of(seed) == kind)
    return [random_calls.run(next(seeds))[1] for _ in range(n)]


def test_a_wrong_row_is_seen(monkeypatch):
    real = pegasos.PegasosClassifier.decision_function

    def wrong(self, X):
        scores = real(self, X)
        scores[-1] += 1e-3 * (1 + np.abs(scores).max())
        return scores

    monkeypatch.setattr(pegasos.PegasosClassifier, "decision_function", wrong)
    found = outcomes("linear fit")
    assert found.count("answered") <= 2  # one-vs-one where every row is near a tie
    assert found.count("WRONG") > 20


def test_a_false_certificate_is_seen(monkeypatch):
    real = pegasos.PegasosClassifier.fit

    def false(self, *args, **kwargs):
        real(self, *args, **kwargs)
        self.dual_objective_ = self.objective_ * 1.01 + 1e-3
        return self

    monkeypatch.setattr(pegasos.PegasosClassifier, "fit", false)
    assert "answered" not in outcomes("linear fit")


@pytest.mark.parametrize("error", [IndexError("list index"), ValueError("ambiguous X")])
def test_an_exception_without_good_words_is_seen(monkeypatch, error):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr(pegasos, "fit", fails)
    assert set(outcomes("functional", 10)) == {"WRONG"}


# Like the program, but from one case nobody comes back.
PLANTED = """
import os, sys
sys.path.insert(0, {folder!r})
import random_calls
def run(seed, **_):
    return os.abort() if seed == 3 else ("linear fit", "answered", "")
random_calls.run = run
sys.exit(random_calls.main(sys.argv[1:]))
"""


def test_a_crash_costs_one_case_and_is_told(capfd):
    folder = str(random_calls.Path(random_calls.__file__).parent)
    hunt = random_calls.Hunt(0, stop=6)
    hunt.program = [sys.executable, "-c", PLANTED.format(folder=folder)]
    hunt.run()
    assert hunt.failures == [3]
    assert hunt.counts == {("linear fit", "answered"): 5, ("crash", "CRASH"): 1}
    assert "seed 3, crash: CRASH\n  exit code" in capfd.readouterr().out
