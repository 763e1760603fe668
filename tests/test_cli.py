"""The command line and the file readers, run as a person would run them."""

import bz2
import contextlib
import dataclasses
import gzip
import io
import json
import re
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import paper
import pytest
from rows import make_rows
from scipy import sparse
from sklearn import metrics
from sklearn.datasets import dump_svmlight_file, make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

import pegasos
from pegasos import _core, cli
from pegasos.io import _metrics, _readers
from pegasos.problems import _validate
from pegasos.problems._losses import LOSSES


@pytest.fixture
def data(rng):
    X, y = make_rows(rng, n=80, d=6)
    return X, y


def write(path, X, y):
    """Write rows in the format that the name speaks of."""
    name = path.name
    if ".svm" in name:
        plain = path.with_name("plain")
        dump_svmlight_file(X, y, str(plain), zero_based=False)
        text = plain.read_bytes()
    elif ".csv" in name:
        head = "a,b,c,d,e,f,label\n" if "header" in name else ""
        body = "\n".join(
            ",".join(map(repr, [*map(float, x), int(t)])) for x, t in zip(X, y, strict=True)
        )
        text = (head + body + "\n").encode()
    elif "sparse" in name:
        csr = sparse.csr_array(X)
        np.savez(path, data=csr.data, indices=csr.indices, indptr=csr.indptr, shape=csr.shape, y=y)
        return path
    else:
        np.savez(path, X=X, y=y)
        return path
    packed = {".gz": gzip.compress, ".bz2": bz2.compress}.get(path.suffix, lambda b: b)(text)
    path.write_bytes(packed)
    return path


NAMES = ("a.svm", "a.svm.gz", "a.svm.bz2", "a.csv", "a.csv.gz", "a.header.csv", "a.npz",
         "sparse.npz")  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_format_trains_and_predicts_like_the_library(tmp_path, data, name, capsys):
    X, y = data
    file = write(tmp_path / name, X, y)
    model = tmp_path / "model.npz"
    assert cli.main(["train", str(file), "-o", str(model), "--lam", "0.01", "--seed", "3"]) == 0
    report = capsys.readouterr().err
    assert "objective" in report
    assert "80 rows, 6 features" in report
    loaded = pegasos.LinearModel.load(model)
    as_read = sparse.csr_array(X) if name.endswith((".svm", ".gz", ".bz2", "sparse.npz")) else X
    direct = pegasos.fit(as_read, y, 0.01, random_state=3)
    np.testing.assert_allclose(loaded.coef, direct.coef, rtol=1e-9)
    assert cli.main(["predict", str(model), str(file)]) == 0
    shown = capsys.readouterr()
    assert shown.out.split() == [str(label) for label in direct.predict(X)]
    assert "accuracy" in shown.err
    assert cli.main(["predict", str(model), str(file), "--scores", "-o", str(tmp_path / "s")]) == 0
    np.testing.assert_allclose(
        np.loadtxt(tmp_path / "s", skiprows=1), pegasos.decision_function(loaded, X), rtol=1e-8
    )


def test_rows_without_labels_can_be_predicted(tmp_path, data, capsys):
    X, y = data
    pegasos.fit(X, y, 0.01, random_state=0).save(tmp_path / "m.npz")
    np.savetxt(tmp_path / "new.csv", X, delimiter=",")
    np.savez(tmp_path / "new.npz", X=X)
    out = []
    for name in ("new.csv", "new.npz"):
        assert cli.main(["predict", str(tmp_path / "m.npz"), str(tmp_path / name)]) == 0
        out.append(capsys.readouterr().out.split())
    assert out[0] == out[1]
    assert len(out[0]) == 80


@pytest.mark.parametrize("name", ["a.svm", "a.csv", "a.npz"])
def test_labels_are_not_read_where_there_are_said_to_be_none(tmp_path, numbers, name, capsys):
    X, y = numbers
    file, model = write_numbers(tmp_path / name, X, y > 3), str(tmp_path / "m.npz")
    none = ["--label", "none", *(["--drop", "-1"] if name == "a.csv" else [])]
    assert cli.main(["train", file, "-q", "-o", model]) == 0
    assert cli.main(["predict", model, file, *none]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.split()) == len(y)
    assert "accuracy" not in shown.err
    assert cli.main(["train", file, "-q", "-o", model, *none]) == 2
    assert f"{name} has no labels, which are needed" in capsys.readouterr().err


def test_labels_may_be_words_and_stand_in_any_column(tmp_path, data, capsys):
    X, y = data
    words = np.where(y > 0, "spam", "ham")
    lines = [",".join([w, *map(str, x)]) for w, x in zip(words, X, strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    model = str(tmp_path / "m.npz")
    arguments = ["--label", "0", "-q"]
    assert cli.main(["train", str(tmp_path / "a.csv"), "-o", model, *arguments]) == 0
    assert capsys.readouterr().err == ""
    assert cli.main(["predict", model, str(tmp_path / "a.csv"), "--label", "0"]) == 0
    assert set(capsys.readouterr().out.split()) == {"spam", "ham"}


def test_quoted_fields_and_byte_order_marks_are_read(tmp_path):
    text = '\ufeff"a, b","c","kind"\n1,2,"x, y"\n"3",4,z\n'
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    X, y, *_ = _readers.read(tmp_path / "a.csv")
    np.testing.assert_array_equal(X, [[1, 2], [3, 4]])
    assert y.tolist() == ["x, y", "z"]


def test_labels_are_not_merged_nor_changed(tmp_path):
    for labels, expected in (
        (["007", "7"], ["007", "7"]),
        (["9007199254740993", "9007199254740992"], [9007199254740993, 9007199254740992]),
        (["12345678901234567890", "12345678901234567891"],) * 2,
        (["1.0", "2"], [1, 2]),
        (["1e30", "2e30"], [1e30, 2e30]),
        (["-1", "+1"], [-1, 1]),
        (["0.5", "x"], ["0.5", "x"]),
    ):
        (tmp_path / "a.csv").write_text("".join(f"{k},{t}\n" for k, t in enumerate(labels)))
        assert _readers.read(tmp_path / "a.csv")[1].tolist() == expected


def test_training_options_reach_the_solver(tmp_path, data):
    X, y = data
    file = write(tmp_path / "a.npz", X, y)
    options = [
        "--n-steps", "55", "--batch-size", "2", "--sampling", "uniform", "--project",
        "--average", "suffix", "--intercept", "free", "--float32", "--jobs", "2",
    ]  # fmt: skip
    assert cli.main(["train", str(file), "-q", "-o", str(tmp_path / "m.npz"), *options]) == 0
    model = pegasos.LinearModel.load(tmp_path / "m.npz")
    direct = pegasos.fit(
        X.astype(np.float32), y, 1 / len(y), n_steps=55, batch_size=2, sampling="uniform",
        project=True, average="suffix", penalize_intercept=False, random_state=0,
    )  # fmt: skip
    np.testing.assert_array_equal(model.coef, direct.coef)


@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("kernel", [[], ["--kernel", "rbf", "--gamma", "0.1"]])
@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_probabilities_are_written_where_there_are_some(
    tmp_path, rng, loss, kernel, multi_class, capsys
):
    X = rng.normal(size=(60, 3))
    y = np.array(["b", "c", "a"])[np.argmax(X, axis=1)]
    (tmp_path / "a.csv").write_text(
        "".join(f"{','.join(map(repr, x.tolist()))},{t}\n" for x, t in zip(X, y, strict=True))
    )
    file, model, out = (str(tmp_path / name) for name in ("a.csv", "m.npz", "out.txt"))
    options = ["--loss", loss, "--lam", "1e-2", "--multi-class", multi_class, *kernel]
    assert cli.main(["train", file, "-q", "-o", model, *options]) == 0
    loaded = pegasos.load(model)
    assert loaded.loss == loss
    done = cli.main(["predict", model, file, "--proba", "-o", out])
    said = capsys.readouterr().err
    if loss in ("hinge", "squared_hinge"):
        assert done == 2
        assert "--proba needs a model with --loss log_loss or modified_huber" in said
        assert f"{model} was trained with --loss {loss}" in said
        assert not (tmp_path / "out.txt").exists()
        return
    assert done == 0
    assert "accuracy" in said
    expected = loaded.predict_proba(X)
    found = pd.read_csv(out)
    assert found.columns.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-300)
    assert expected[y == "a", 0].mean() > 0.5  # columns are in the order of the labels
    assert cli.main(["predict", model, file, "-o", out]) == 0
    assert np.loadtxt(out, dtype=str).tolist() == loaded.predict(X).tolist()
    with pytest.raises(SystemExit):
        cli.main(["predict", model, file, "--proba", "--scores"])


@pytest.mark.parametrize("kernel", [[], ["--kernel", "rbf"]])
@pytest.mark.parametrize(("jobs", "expected"), [([], None), (["--jobs", "3"], 3)])
def test_jobs_reach_machines_and_searches(kernel, jobs, expected):
    args = cli._parser().parse_args(["train", "a", "-o", "b", "--cv", "3", *kernel, *jobs])
    assert [made.n_jobs for made in cli._machines(args)] == [expected, expected]


def test_what_a_search_drops_is_told(tmp_path, capsys):
    X, y = make_blobs(600, 3, centers=8, cluster_std=2.0, random_state=0)
    file, model = write(tmp_path / "a.npz", X, y), str(tmp_path / "m.npz")
    options = ["--kernel", "rbf", "--gamma", "0.001", "--cv", "5", "--Cs", "5", "-o", model]
    assert cli.main(["train", str(file), *options]) == 0
    report = capsys.readouterr().err
    search = pegasos.KernelPegasosClassifierCV(Cs=5, gammas=[0.001], random_state=0).fit(X, y)
    results = search.cv_results_
    assert 0 < results["dropped"].sum() < 5
    for k, lam in enumerate(results["param_lam"]):
        rest = " in the first fold: dropped" if results["dropped"][k] else "+- "
        values = f"{results['param_C'][k]:>10.3g}  {lam:>10.3g}  {0.001:>10.3g}"
        assert f"{values}  {results['mean_test_score'][k]:.4f} {rest}" in report


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_c_may_be_chosen_by_cross_validation(tmp_path, data, kernel, capsys):
    X, y = data
    file, model = write(tmp_path / "a.npz", X, y), str(tmp_path / "m.npz")
    options = ["--loss", "squared_hinge", "--intercept", "free", "--seed", "2", "-o", model]
    options += [] if kernel is None else ["--kernel", kernel, "--gamma", "0.2"]
    arguments = ["train", str(file), "--cv", "4", "--Cs", "0.1,1,30" if kernel else "6", *options]
    assert cli.main(arguments) == 0
    report = capsys.readouterr().err
    shared = {"cv": 4, "loss": "squared_hinge", "penalize_intercept": False, "random_state": 2}
    if kernel is None:
        search = pegasos.PegasosClassifierCV(Cs=6, **shared)
    else:
        search = pegasos.KernelPegasosClassifierCV(Cs=[0.1, 1, 30], gammas=[0.2], **shared)
    search.fit(X, y)
    results = search.cv_results_
    for k, (C, lam) in enumerate(zip(results["param_C"], results["param_lam"], strict=True)):
        gamma = "" if kernel is None else f"{0.2:>12.3g}"
        mark = "  best" if k == search.best_index_ else ""
        mean, error = results["mean_test_score"][k], results["standard_error"][k]
        assert f"{C:>10.3g}  {lam:>10.3g}{gamma}  {mean:.4f} +- {error:.4f}{mark}\n" in report
    loaded = pegasos.load(model)
    assert loaded.lam == search.lam_
    np.testing.assert_array_equal(loaded.decision_function(X), search.decision_function(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cv", "1"], "error: --cv must be"), (["--Cs", "5"], "--Cs goes with --cv"),
        (["--cv", "3", "--lam", "0.1"], "--lam does not go with --cv"),
        (["--cv", "3", "--C", "0.1"], "--C does not go with --cv"),
        (["--cv", "3", "--Cs", "0"], "--Cs must be an integer >= 1"),
        (["--cv", "3", "--Cs", "1,0"], "--Cs must be a finite number > 0"),
        (["--C", "0"], "error: --C must be a finite"),
        (["--cv", "3", "--checkpoint", "c.npz"], "--checkpoint does not go with --cv"),
        (["--cv", "3", "--resume", "c.npz"], "--resume does not go with --cv"),
        (["--tol", "0"], "--tol must be a finite number > 0 and <= 1, or auto or none, got 0"),
        (["--tol", "2"], "--tol must be a finite number > 0 and <= 1, or auto or none, got 2"),
        (["--cv-effort", "5"], "--cv-effort goes with --cv"),
        (["--cv", "3", "--cv-effort", "0"], "--cv-effort must be"),
        (["--checkpoint-every", "5"], "--checkpoint-every goes with --checkpoint"),
        (["--jobs", "0"], "--jobs must be an integer other than 0, got 0"),
        (["--n-steps", "0"], "--n-steps must be an integer >= 1, got 0"),
        (["--memory", "1Q"], "error: --memory must be a number of bytes, 1000 or more, or text"),
    ],
)  # fmt: skip
def test_options_that_are_wrong_are_refused_before_files_are_read(
    tmp_path, options, message, capsys
):
    arguments = ["train", "no such file", "-o", str(tmp_path / "m.npz"), *options]
    assert cli.main(arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "reading" not in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid", "laplacian"])
@pytest.mark.parametrize("name", ["a.svm", "a.csv"])
def test_kernel_models_train_and_predict_like_the_library(tmp_path, data, name, kernel, capsys):
    X, y = data
    file = write(tmp_path / name, X, y)
    model = tmp_path / "model.npz"
    options = ["--lam", "0.01", "--gamma", "0.3", "--degree", "2", "--coef0", "1", "--seed", "3"]
    plain = {}
    if kernel == "sigmoid":  # which has no certificate that a tolerance could ask for
        options += ["--solver", "pegasos", "--tol", "none", "--max-iter", "20"]
        plain = paper.PLAIN
    arguments = ["train", str(file), "-o", str(model), "--kernel", kernel, *options]
    assert cli.main(arguments) == 0
    report = capsys.readouterr().err
    assert "support vectors" in report
    assert "objective" in report
    direct = pegasos.KernelPegasosClassifier(
        lam=0.01,
        kernel=kernel,
        gamma=0.3,
        degree=2,
        coef0=1,
        random_state=3,
        **plain,
    ).fit(sparse.csr_array(X) if name == "a.svm" else X, y)
    assert cli.main(["predict", str(model), str(file)]) == 0
    assert capsys.readouterr().out.split() == [str(label) for label in direct.predict(X)]


@pytest.mark.parametrize("command", [[], ["train"], ["predict"], ["demo"]])
def test_help_teaches(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main([*command, "--help"])
    text = capsys.readouterr().out
    assert len(text) > 200
    if command and command != ["demo"]:
        assert "examples:" in text


def test_models_survive_saving_and_loading(tmp_path, rng, dtype):
    X, _ = make_rows(rng)
    for labels in ([0, 1, 2], ["a", "b", "c"], [0.5, 1.5, 2.5]):
        y = rng.choice(labels, len(X))
        model = pegasos.fit(X.astype(dtype), y, 0.01, multi_class="ovo", random_state=0)
        model.save(tmp_path / "m.npz")
        loaded = pegasos.LinearModel.load(tmp_path / "m.npz")
        for name in ("coef", "intercept", "classes", "objective", "n_steps"):
            np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
        assert (loaded.lam, loaded.multi_class) == (model.lam, model.multi_class)
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert [p.name for p in tmp_path.iterdir()] == ["m.npz"]


def words_of_picture(path):
    """Texts of an SVG file, but for numbers at ticks, which depend on matplotlib."""
    texts = [element.text or "" for element in ET.parse(path).findall(".//{*}text")]
    return [text for text in texts if not re.fullmatch(r"[−\d.]+", text)]


def test_the_demo_reports_and_draws(tmp_path):
    pictures = [tmp_path / name for name in ("a.svg", "b.svg")]
    for picture in pictures:
        done = subprocess.run(
            [sys.executable, "-m", "pegasos", "demo", "-o", str(picture)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert "gap" in done.stderr  # progress
    words = words_of_picture(pictures[0])
    for told in done.stdout.split("held-out accuracy")[1:]:  # digits, then moons
        accuracy = float(told.split("%")[0])
        assert accuracy > 94
        assert any(f"{accuracy:.1f} %" in text for text in words)
    assert "objective" in done.stdout
    assert "predicted" in done.stdout
    assert "support vectors" in words
    assert pictures[0].read_bytes() == pictures[1].read_bytes()
    # The site shows such a picture: python -m pegasos demo -o docs/demo.svg
    assert words == words_of_picture(Path(__file__).parents[1] / "docs" / "demo.svg")


def test_the_demo_without_matplotlib_says_what_draws_the_picture(tmp_path):
    run = "from pegasos.io import _demo; _demo.run('demo.svg')"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules['matplotlib'] = None; {run}"],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.count("held-out accuracy") == 2
    told = 'no picture: pegasos.plotting needs matplotlib: pip install "pegasos[plot]"'
    assert done.stdout.splitlines()[-1] == told
    assert not any(tmp_path.iterdir())


def test_the_formats_of_the_command_line_are_those_of_the_readers():
    """It has a list of its own: help shall not load scikit-learn, as the readers do."""
    assert sorted(cli._FORMATS) == sorted(_readers.FORMATS)


def test_readers_tell_the_format_from_the_name():
    expected = {"a.svm": "libsvm", "a9a": "libsvm", "a.csv": "csv", "a.csv.gz": "csv",
                "a.txt.bz2": "libsvm", "a.npz": "npz"}  # fmt: skip
    assert {name: _readers.guess_format(name) for name in expected} == expected


# ---- Regression ----------------------------------------------------------------------------------


@pytest.fixture
def numbers(rng):
    X = rng.normal(size=(80, 4)).round(3)
    return X, (X @ [1.0, -2.0, 0.5, 0.0] + 3 + 0.1 * rng.normal(size=80)).round(4)


def write_numbers(path, X, y):
    if path.suffix == ".svm":
        dump_svmlight_file(X, y, str(path), zero_based=False)
    elif path.suffix == ".csv":
        np.savetxt(path, np.column_stack([X, y]), delimiter=",", fmt="%.6g")
    else:
        np.savez(path, X=X, y=y)
    return str(path)


@pytest.mark.parametrize("name", ["a.svm", "a.csv", "a.npz"])
@pytest.mark.parametrize("kernel", [(), ("--kernel", "rbf", "--gamma", "0.1")])
def test_regression_predicts_numbers(tmp_path, numbers, name, kernel, capsys):
    X, y = numbers
    file, model = write_numbers(tmp_path / name, X, y), str(tmp_path / "m.npz")
    options = ["--task", "regression", "--epsilon", "0.05", "--C", "10", *kernel]
    assert cli.main(["train", file, "-o", model, *options]) == 0
    report = capsys.readouterr().err
    make = pegasos.KernelPegasosRegressor if kernel else pegasos.PegasosRegressor
    reg = make(C=10, epsilon=0.05, random_state=0, **({"gamma": 0.1} if kernel else {}))
    reg.fit(sparse.csr_array(X) if name == "a.svm" else X, y)
    r2, error = reg.score(X, y), np.abs(y - reg.predict(X)).mean()
    assert f"training R2 {r2:.4f}, mean absolute error {error:.4g}"[:30] in report
    assert pegasos.load(model).epsilon == 0.05
    for more in ((), ("--scores",)):
        assert cli.main(["predict", model, file, *more]) == 0
        shown = capsys.readouterr()
        lines = shown.out.split()[len(more) :]  # without the header
        np.testing.assert_allclose([*map(float, lines)], reg.predict(X), rtol=1e-6)
        assert f"R2 {r2:.4f}, mean absolute error" in shown.err
        assert "of 80 rows" in shown.err


def test_several_outputs_are_columns(tmp_path, numbers, capsys):
    X, y = numbers
    file = write_numbers(tmp_path / "a.npz", X, np.column_stack([y, -y]))
    model = str(tmp_path / "m.npz")
    options = ["--task", "regression", "--loss", "huber"]
    assert cli.main(["train", file, "-o", model, *options]) == 0
    assert "(output 1)" in capsys.readouterr().err
    assert cli.main(["predict", model, file, "-o", str(tmp_path / "out")]) == 0
    assert np.loadtxt(tmp_path / "out").shape == (80, 2)
    assert "R2 0.9" in capsys.readouterr().err
    write_numbers(tmp_path / "b.npz", X, y)
    assert cli.main(["predict", model, str(tmp_path / "b.npz"), "-o", str(tmp_path / "out")]) == 0
    assert "no metrics: y has shape (80,), predictions have (80, 2)" in capsys.readouterr().err


@pytest.mark.parametrize(("loss", "epsilon"), [("huber", 0.05), ("squared_error", None)])
def test_cross_validation_chooses_what_regression_needs(tmp_path, numbers, capsys, loss, epsilon):
    X, y = numbers
    file, model = write_numbers(tmp_path / "a.csv", X, y), tmp_path / "m.npz"
    options = ["--task", "regression", "--cv", "3", "--Cs", "4", "--loss", loss]
    options += ["--epsilon", "0.05"]
    assert cli.main(["train", file, "-o", str(model), *options]) == 0
    report = capsys.readouterr().err
    search = pegasos.PegasosRegressorCV(Cs=4, cv=3, epsilons=[0.05], loss=loss, random_state=0)
    search.fit(X, y)
    assert "mean R2 of 3 folds" in report
    assert f"{search.best_score_:.4f} +- " in report
    loaded = pegasos.load(model)
    assert (loaded.lam, loaded.epsilon) == (pytest.approx(search.lam_), epsilon)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--epsilon", "0.1"], "--epsilon goes with --task regression"),
        (
            ["--task", "regression", "--epsilon", "-1"],
            "--epsilon must be a finite number >= 0, got -1",
        ),
        (["--task", "regression", "--loss", "hinge"], "--loss hinge goes with --task class.*got"),
        (["--loss", "huber"], "--loss huber goes with --task regression, got --task class"),
        (["--task", "one-class", "--loss", "hinge"], "--loss hinge goes with --task class"),
        (
            ["--task", "regression", "--class-weight", "balanced"],
            "--class-weight goes with --task classification, got --task regression",
        ),
        (["--task", "regression", "--multi-class", "ovo"], "--multi-class goes with"),
        (["--nu", "0.1"], "--nu goes with --task one-class, got --task classification"),
        (["--task", "one-class", "--nu", "2"], "--nu must be .* got 2"),
        (
            ["--task", "one-class", "--C", "1"],
            "--C goes with --task classification or --task regression, got --task one-class",
        ),
        (["--task", "one-class", "--cv", "3"], "--cv goes with"),
        (["--task", "one-class", "--intercept", "none"], "--intercept goes with"),
        (["--kernel", "rbf", "--memory", "1G"], "--kernel does not go with --memory"),
        (["--cache", "a.blocks"], "--cache goes with --memory$"),
        (["--average", "all"], "--average goes with --solver pegasos or --n-steps$"),
        (["--task", "regression", "--solver", "newton", "--project"], "--project goes with"),
        (["--task", "regression", "--cv", "3", "--epsilon", "-1"], "epsilons? must be a finite"),
    ],
)
def test_options_that_do_not_suit_the_task_are_refused(tmp_path, numbers, options, words, capsys):
    file = write_numbers(tmp_path / "a.csv", *numbers)
    assert cli.main(["train", file, "-o", str(tmp_path / "m.npz"), *options]) == 2
    assert re.search(words, capsys.readouterr().err)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.parametrize("name", ["a.svm", "a.csv", "a.npz"])
@pytest.mark.parametrize("kernel", [(), ("--kernel", "rbf", "--gamma", "0.1")])
def test_one_class_tells_outliers(tmp_path, numbers, name, kernel, capsys):
    """With labels, which count for nothing, and without them."""
    X, y = numbers
    X = np.abs(X) + 1
    file, model = tmp_path / name, str(tmp_path / "m.npz")
    make = pegasos.KernelPegasosOneClass if kernel else pegasos.PegasosOneClass
    one = make(nu=0.1, random_state=0, **({"gamma": 0.1} if kernel else {}))
    one.fit(sparse.csr_array(X) if name == "a.svm" else X)
    n_outliers = (one.predict(X) == -1).sum()
    for is_labelled in (True, False):
        write_numbers(file, X, y)
        if not is_labelled:
            if name == "a.svm":
                lines = file.read_text().splitlines()
                file.write_text("".join(line.partition(" ")[2] + "\n" for line in lines))
            elif name == "a.csv":
                np.savetxt(file, X, delimiter=",")
            else:
                np.savez(file, X=X)
        column = ["--label", "-1" if is_labelled else "none"]
        train = ["train", str(file), "-o", model, "--task", "one-class", "--nu", "0.1", *kernel]
        assert cli.main([*train, *column]) == 0
        report = capsys.readouterr().err
        assert ("labels are ignored" in report) == is_labelled
        if not kernel:
            blocks = ["--memory", "1G", "--cache", str(tmp_path / f"blocks {is_labelled}")]
            assert cli.main([*train, *column, *blocks]) == 0
            assert "training outliers" in capsys.readouterr().err
        assert f"training outliers {100 * n_outliers / 80:.2f} %" in report
        assert pegasos.load(model).multi_class == "one_class"
        assert cli.main(["info", model]) == 0
        assert re.search(
            r"Model\(1 class, 4 features, lam=0.1, .*gap (<= \S+|0)\)", capsys.readouterr().out
        )
        for more, expected in (((), one.predict(X)), (("--scores",), one.decision_function(X))):
            assert cli.main(["predict", model, str(file), *more, *column]) == 0
            shown = capsys.readouterr()
            written = [*map(float, shown.out.split()[len(more) :])]  # without the header
            np.testing.assert_allclose(written, expected, rtol=1e-6)
            assert f"outliers {100 * n_outliers / 80:.2f} % of 80 rows" in shown.err


@pytest.mark.parametrize("memory", [(), ("--memory", "1kB")])
def test_one_class_ignores_what_labels_are(tmp_path, memory, capsys):
    """With --memory, a word after numbers was refused. Its blocks are for no other task."""
    file = tmp_path / "a.csv"
    file.write_text("".join(f"{k % 7},{k % 5},{'odd' if k == 90 else k % 2}\n" for k in range(99)))
    train = ["train", str(file), "-q", "-o", str(tmp_path / "m.npz"), *memory]
    assert cli.main([*train, "--task", "one-class"]) == 0
    assert cli.main([*train, "--task", "one-class"]) == 0
    assert cli.main(train) == (2 if memory else 0)
    told = "(--task was one-class and is left out): delete" in capsys.readouterr().err
    assert told == bool(memory)


def test_one_feature_is_counted_as_one(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("1,a\n2,b\n3,b\n")
    assert cli.main(["train", str(tmp_path / "a.csv"), "-o", str(tmp_path / "m.npz")]) == 0
    assert "3 rows, 1 feature\n" in capsys.readouterr().err
    (tmp_path / "b.csv").write_text("1,2,a\n2,2,b\n")
    assert cli.main(["predict", str(tmp_path / "m.npz"), str(tmp_path / "b.csv")]) == 2
    assert "b.csv has 2 features, but 1 are expected" in capsys.readouterr().err


@pytest.mark.parametrize(
    "field",
    [
        "NA", "?", "", '"33,498.46"', "$ 12.50", "7 %", "1'000", '"0,5"', "1 2", "Lima", "False",
    ],
)  # fmt: skip
def test_fields_that_are_no_numbers_are_told_what_to_write(tmp_path, field, capsys):
    (tmp_path / "a.csv").write_text(f"age,size,y\n1,2,a\n3,{field},b\n")
    assert cli.main(["train", str(tmp_path / "a.csv"), "-o", str(tmp_path / "m.npz")]) == 2
    said = capsys.readouterr().err
    what = "is not a number" if field else "is empty"
    assert f"line 3: column 2 ('size') {what} in {f'3,{field},b'!r}: " in said
    for advice in ("1234.5", "1 for true", "fill missing", "encode categories", "--drop size\n"):
        assert advice in said


@pytest.mark.parametrize("options", [[], ["--label", "y"]])
def test_commas_at_ends_of_lines_are_told(tmp_path, options, capsys):
    """It was advised to fill in values of a column without a name."""
    (tmp_path / "a.csv").write_text("a,b,y,\n1,2,p,\n3,1,q,\n")
    train = ["train", str(tmp_path / "a.csv"), "-q", "-o", str(tmp_path / "m.npz"), *options]
    assert cli.main(train) == 2
    said = capsys.readouterr().err
    assert "line 2: column 4 ('Unnamed: 3') is empty in '1,2,p,': " in said
    assert said.endswith("or leave the column out: --drop 'Unnamed: 3'\n")
    assert cli.main([*train, "--drop", "3"]) == 0


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("more", [[], ["--memory", "1G"]], ids=["", "memory"])
def test_a_column_without_a_name_has_that_of_pandas(tmp_path, monkeypatch, more, capsys):
    """Numbers of the rows became a feature named '', silently; with a label without a name, the
    model predicted nothing.
    """
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text(",x,\n0,1,p\n1,4,q\n2,3,q\n")
    assert cli.main(["train", "a.csv", "-q", "-o", "m.npz", *more]) == 0
    told = "warning: column 1 has no name and is a feature: if it numbers the rows, leave it out: "
    assert capsys.readouterr().err == f"pegasos: {told}--drop 0\n"
    frame = pd.read_csv("a.csv")
    assert pegasos.load("m.npz").feature_names.tolist() == frame.columns[:2].tolist()
    for command in (["predict", "m.npz", "a.csv"], ["train", "a.csv", "-q", "--drop", "0"]):
        assert cli.main(command) == 0
        assert "no name" not in capsys.readouterr().err
    Path("b.csv").write_text(",Unnamed: 0,y\n0,1,p\n1,4,q\n2,3,q\n")
    assert cli.main(["train", "b.csv", "-q", "-o", "m.npz", *more]) == 0
    names = pegasos.load("m.npz").feature_names
    assert names.tolist() == ["Unnamed: 0.1", "Unnamed: 0"] == [*pd.read_csv("b.csv").columns[:2]]
    capsys.readouterr()
    Path("a.csv").write_text("x,\nred,p\nblue,q\n")
    assert cli.main(["train", "a.csv", "-q"]) == 2
    assert "if it is the label, say --label x; else" in capsys.readouterr().err
    Path("a.csv").write_text("x,,y\n1,p,2\n4,q,3\n")
    assert cli.main(["train", "a.csv", "-q"]) == 2
    assert "column 2 ('Unnamed: 1') is not a number" in capsys.readouterr().err


@pytest.mark.parametrize("options", [(), ("--cv", "2"), ("--solver", "pegasos")])
def test_features_that_overflow_are_told_in_words_of_the_shell(tmp_path, options, capsys):
    """Neither --lam, which was not given, nor a class of scikit-learn is named."""
    (tmp_path / "a.csv").write_text("a,y\n1e300,0\n-1e300,1\n2e300,0\n-3e300,1\n")
    assert cli.main(["train", str(tmp_path / "a.csv"), "-q", *options]) == 2
    said = capsys.readouterr().err
    assert "too large for λ=" in said
    assert said.endswith("Scale X, for instance with --scale\n")
    assert "--lam" not in said


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("label", ["NA", "nan", "?"])
@pytest.mark.parametrize("others", ["pq", "01"])
@pytest.mark.parametrize("memory", [(), ("--memory", "1MB")])
def test_a_label_that_looks_missing_is_a_class_and_is_told(tmp_path, label, others, memory, capsys):
    (tmp_path / "a.csv").write_text(f"a,y\n1,{others[0]}\n3,{others[1]}\n2,{label}\n")
    train = ["train", str(tmp_path / "a.csv"), "-q", "-o", str(tmp_path / "m.npz"), *memory]
    assert cli.main(train) == 0
    assert f"warning: {train[1]}: the label {label!r} is taken for the" in capsys.readouterr().err
    assert label in pegasos.load(train[4]).classes


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("memory", [(), ("--memory", "1MB")])
def test_one_class_says_nothing_of_a_label_that_looks_missing(tmp_path, memory, capsys):
    (tmp_path / "a.csv").write_text("a,y\n1,nan\n3,nan\n2,nan\n")
    train = ["train", str(tmp_path / "a.csv"), "-q", "-o", str(tmp_path / "m.npz"), *memory]
    assert cli.main([*train, "--task", "one-class"]) == 0
    assert "nan" not in capsys.readouterr().err


@pytest.mark.filterwarnings("default")
def test_signs_are_classes_that_do_not_look_missing(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("a,y\n1,+\n3,-\n2,+\n")
    train = ["train", str(tmp_path / "a.csv"), "-q", "-o", str(tmp_path / "m.npz")]
    for memory in ([], ["--memory", "1MB"]):
        assert cli.main([*train, *memory]) == 0
        assert "missing" not in capsys.readouterr().err
        assert set(pegasos.load(tmp_path / "m.npz").classes) == {"+", "-"}


def test_messages_of_other_threads_name_options():
    said, both = [], threading.Barrier(2)

    def job(on_poll):
        both.wait(60)  # each thread has one
        said.append(_validate.parameter("tol", 0.5))

    with _validate.written_by(cli._Options()):
        _core.run_jobs([job, job], 2)
    assert said == ["--tol 0.5"] * 2


def test_quantities_are_no_classes(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("1.5,2,0.5\n3,4,7\n5,6,8\n")
    train = ["train", str(tmp_path / "a.csv"), "-q", "-o", str(tmp_path / "m.npz")]
    for more in ([], ["--memory", "1M"]):
        assert cli.main([*train, *more]) == 2
        said = capsys.readouterr().err
        assert "labels such as 0.5 are no classes: say --label if another column has the" in said
        assert "--task regression if they are quantities" in said
    assert cli.main([*train, "--task", "regression"]) == 0


def test_targets_must_be_numbers(tmp_path, capsys):
    for text, words in (
        (
            "1,2,7\n\n3,4,ham\n",
            "a.csv, line 3: column 3 is not a number in '3,4,ham': if another column has",
        ),
        (
            'a,b,price\n3,4,"$578,244.57"\n',
            "line 2: column 3 ('price') is not a number in '3,4,\"$578,244.57\"': if",
        ),
        ("1,2,7\n4,5,inf\n", "a.csv, line 2: column 3 is not finite in '4,5,inf': if another"),
    ):
        (tmp_path / "a.csv").write_text(text)
        arguments = [str(tmp_path / "a.csv"), "-o", str(tmp_path / "m.npz"), "--task", "regression"]
        for memory in ([], ["--memory", "1MB"]):
            assert cli.main(["train", *arguments, *memory]) == 2
            assert words in capsys.readouterr().err
    (tmp_path / "a.csv").write_text("1,2,1e200\n3,4,5\n")
    assert cli.main(["train", *arguments]) == 2
    assert "a.csv: y must have targets between" in capsys.readouterr().err


def test_numbers_that_are_not_finite_are_told_by_line_and_name(tmp_path, capsys):
    """They were told by numbers of features, from which the label and dropped columns are gone."""
    (tmp_path / "a.csv").write_text("klasse,id,alter,betrag\nja,7,1,2\nnein,8,3,inf\nja,9,1,4\n")
    arguments = [str(tmp_path / "a.csv"), "--label", "klasse", "--drop", "id"]
    for memory in ([], ["--memory", "1MB"]):
        assert cli.main(["train", *arguments, "-o", str(tmp_path / "m.npz"), *memory]) == 2
        told = "a.csv, line 3: column 4 ('betrag') is not finite in 'nein,8,3,inf': "
        assert told in capsys.readouterr().err


@pytest.mark.parametrize("cv", [(), ("--cv", "3", "--Cs", "3")])
def test_classes_may_be_one_joint_problem(tmp_path, rng, cv, capsys):
    X, y = rng.normal(size=(90, 4)), rng.integers(0, 3, 90)
    file, model = write_numbers(tmp_path / "a.npz", X, y), str(tmp_path / "m.npz")
    options = ["--multi-class", "crammer_singer", *cv]
    assert cli.main(["train", file, "-o", model, *options]) == 0
    report = capsys.readouterr().err
    assert report.count("objective ") == 1
    clf = pegasos.PegasosClassifier(multi_class="crammer_singer", random_state=0)
    if cv:
        search = pegasos.PegasosClassifierCV(
            multi_class="crammer_singer", Cs=3, cv=3, random_state=0
        )
        clf.set_params(**search.fit(X, y).best_params_)
    np.testing.assert_array_equal(pegasos.load(model).coef, clf.fit(X, y).coef_)
    assert cli.main(["info", model]) == 0
    shown = capsys.readouterr().out
    assert all(f"(class {k})" in shown for k in range(3))
    assert cli.main(["train", file, "-o", model, *options, "--kernel", "rbf"]) == 2
    assert "--multi-class must be ovr or ovo with --kernel" in capsys.readouterr().err


def test_rare_classes_may_weigh_as_much_as_others(tmp_path, rng, capsys):
    X = rng.normal(size=(200, 3)).round(3)
    y = (X[:, 0] + rng.normal(size=200) > 1.5).astype(int)
    file = str(write(tmp_path / "a.npz", X, y))
    for cv in ((), ("--cv", "3", "--Cs", "3")):
        balanced = str(tmp_path / "m.npz")
        assert cli.main(["train", file, "-o", balanced, "--class-weight", "balanced", *cv]) == 0
        assert ("mean accuracy, weighted by class, of 3 folds" in capsys.readouterr().err) == bool(
            cv
        )
        model = pegasos.load(balanced)
        C = pegasos.C_from_lam(model.lam, len(y))
        clf = pegasos.PegasosClassifier(C=C, class_weight="balanced", random_state=0).fit(X, y)
        np.testing.assert_allclose(model.coef, clf.coef_, rtol=1e-3, atol=1e-6)
        assert (model.predict(X) == 1).sum() > 1.5 * y.sum()


@pytest.mark.filterwarnings("always:there are 40 numbers")
def test_objectives_of_many_classes_are_told_in_a_line(tmp_path, capsys):
    X, y = np.repeat(np.eye(40), 2, axis=0), np.repeat(np.arange(40), 2)
    file, model = str(write(tmp_path / "a.npz", X, y)), str(tmp_path / "m.npz")
    assert cli.main(["train", file, "-o", model]) == 0
    told = capsys.readouterr().err
    assert "40 numbers as labels of 80 rows, and each is a class: if they are quantities" in told
    (line,) = re.findall("^objective.*$", told, re.MULTILINE)
    least, most = np.array(re.findall(r"\d[\d.e-]*", line)[:2], float)
    objectives = pegasos.load(model).objective
    assert [least, most] == pytest.approx([objectives.min(), objectives.max()], rel=1e-3)
    assert line.endswith("above the optimum  (40 problems)")


@pytest.mark.parametrize("n_problems", [1, 40])
def test_a_gap_of_0_is_told_in_words(n_problems):
    model = SimpleNamespace(
        objective=np.full(n_problems, 0.25),
        duality_gap=np.zeros(n_problems),
        _problem_name=lambda _: "",
    )
    said = []
    cli._report(said.append, model)
    assert len(said) == 1
    assert "the optimum up to rounding" in said[0]
    assert "at most 0" not in said[0]


def test_info_says_that_an_objective_is_unknown(tmp_path, capsys):
    X, y = np.eye(4), np.array([0, 1, 0, 1])
    path = str(tmp_path / "m.npz")
    pegasos.PegasosClassifier().partial_fit(X, y, classes=[0, 1]).to_model().save(path)
    assert cli.main(["info", path]) == 0
    (line,) = re.findall("^objective.*$", capsys.readouterr().out, re.MULTILINE)
    assert line == cli._UNKNOWN


def test_info_tells_what_a_model_is(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 4)), np.array(["a", "b", "c"])[np.arange(90) % 3]
    frame = pd.DataFrame(X + 2 * (y == "b")[:, None], columns=["tall", "wide", "deep", "old"])
    clf = pegasos.PegasosClassifier(lam=0.01, random_state=0).fit(frame, y)
    model = str(tmp_path / "m.npz")
    clf.to_model().save(model)
    assert cli.main(["info", model, "--weights", "2"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("model: LinearModel(3 classes, 4 features, lam=0.01, loss='hinge'")
    assert "(class b)" in shown
    assert cli.main(["info", model, "--json", "--weights", "2"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["classes"] == ["a", "b", "c"]
    assert told["lam"] == 0.01
    assert told["version"] == pegasos.__version__
    for k, problem in enumerate(told["problems"]):
        assert problem["name"] == f"class {'abc'[k]}"
        assert problem["objective"] == clf.objective_[k]
        assert problem["gap"] == clf.duality_gap_[k]
        largest = np.argsort(-np.abs(clf.coef_[k]))[:2]
        assert problem["largest_weights"] == {frame.columns[j]: clf.coef_[k, j] for j in largest}
    assert "largest weights" not in show(capsys, "info", model, "--weights", "0")
    assert cli.main(["info", model, "--weights", "-3"]) == 2
    assert "--weights must be an integer >= 0, got -3" in capsys.readouterr().err


@pytest.mark.parametrize("first", [0, 1])
def test_info_counts_features_as_the_training_file_does(tmp_path, capsys, first):
    X, y = np.tile([0.1, 0.1, 0.1, 1.0], (4, 1)), np.array([0, 1, 0, 1])
    X[:, 3] *= 2 * y - 1  # the feature that tells the classes apart
    dump_svmlight_file(X, y, str(tmp_path / "a.svm"), zero_based=first == 0)
    path = str(tmp_path / "m.npz")
    assert cli.main(["train", str(tmp_path / "a.svm"), "-q", "-o", path]) == 0
    largest = f"{first + 3}"
    assert f"\n  largest weights: {largest} " in show(capsys, "info", path, "--weights", "1")
    told = json.loads(show(capsys, "info", path, "--weights", "1", "--json"))
    assert list(told["problems"][0]["largest_weights"]) == [largest]


def show(capsys, *args):
    assert cli.main(list(args)) == 0
    return capsys.readouterr().out


def test_a_table_with_another_ending_is_told_to_name_its_format(tmp_path, capsys):
    path = str(tmp_path / "rows.txt")
    (tmp_path / "rows.txt").write_text("a;b;label\n1;2;x\n3;1;y\n")
    for option in (["--label", "label"], ["--separator", ";"]):
        assert cli.main(["train", path, *option, "-o", str(tmp_path / "m.npz")]) == 2
        said = capsys.readouterr().err
        assert "format 'libsvm'; --format names another one\n" in said
        assert cli.main(["train", path, *option, "--format", "csv", "-q", "-o",
                         str(tmp_path / "m.npz")]) == 0  # fmt: skip
        capsys.readouterr()


def test_json_has_counts_without_a_point(tmp_path, capsys):
    path = write_numbers(tmp_path / "a.npz", np.eye(4), np.array([0, 1, 0, 1]))
    train = ("train", path, "-q", "-o", str(tmp_path / "m.npz"), "--json")
    assert '"support": 2\n' in show(capsys, *train)


def test_quiet_predictions_come_without_a_report(tmp_path, capsys):
    path = write_numbers(tmp_path / "a.npz", np.eye(4), np.array([0, 1, 0, 1]))
    model = str(tmp_path / "m.npz")
    assert cli.main(["train", path, "-q", "-o", model]) == 0
    capsys.readouterr()
    assert cli.main(["predict", model, path, "-q"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "0\n1\n0\n1\n"
    assert shown.err == ""


def test_info_tells_nothing_that_is_not_known(tmp_path, capsys):
    X = np.random.default_rng(0).normal(size=(30, 2))
    clf = pegasos.KernelPegasosClassifier(kernel="sigmoid", random_state=0, max_iter=2, tol=None)
    model = str(tmp_path / "m.npz")
    clf.fit(X, X[:, 0] > 0).to_model().save(model)
    assert cli.main(["info", model, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["problems"][0]["gap"] is None
    assert told["kernel"]["name"] == "sigmoid"
    assert told["support_vectors"] == len(clf.support_)
    assert cli.main(["info", model]) == 0
    assert "nan" not in capsys.readouterr().out


def test_counts_of_many_rows_are_shown_whole():
    shown, told = [], {"confusion": {"ham": {"ham": 91847, "spam": 7}}}
    _metrics.say_tables(lambda line="": shown.append(line), told)
    assert shown[-1].split() == ["ham", "91847", "7"]


def test_validation_rows_have_the_columns_of_training_by_name(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y, other = (X[:, 0] > 0).astype(int), rng.integers(2, size=120)
    train, more, moved = (str(tmp_path / f"{name}.csv") for name in ("train", "more", "moved"))
    for file, header, columns in (
        (train, "a,b,bought", (X, y)),
        (more, "a,b,bought,before", (X, y, other)),
        (moved, "bought,b,a", (y, X[:, ::-1])),
    ):
        np.savetxt(file, np.column_stack(columns), delimiter=",", header=header, comments="")
    told = []
    for file in (train, more, moved):
        assert cli.main(["train", train, "--validation", file, "-o", f"{file}.npz"]) == 0
        told.append(re.search("validation accuracy.*", capsys.readouterr().err)[0])
    assert told[0] == told[1] == told[2]


def test_validation_rows_are_not_trained_on(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = (X @ [1.0, -1, 0.5] + 0.3 * rng.normal(size=120) > 0).astype(int)
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for file, part in zip(files, (slice(80), slice(80, None)), strict=True):
        np.savetxt(file, np.column_stack([X[part], y[part]]), delimiter=",")
    model = str(tmp_path / "m.npz")
    assert cli.main(["train", str(files[0]), "--validation", str(files[1]), "-o", model]) == 0
    shown = capsys.readouterr().err
    clf = pegasos.PegasosClassifier(random_state=0).fit(X[:80], y[:80])
    predicted = clf.predict(X[80:])
    recall = np.mean([(predicted[y[80:] == k] == k).mean() for k in (0, 1)])
    assert (
        f"validation accuracy {100 * clf.score(X[80:], y[80:]):.2f} %, balanced accuracy "
        f"{100 * recall:.2f} %, average precision"
    ) in shown
    assert cli.main(["train", str(files[0]), "--validation", str(tmp_path / "no.csv")]) == 2
    assert "no.csv" in capsys.readouterr().err


# ---- Tables --------------------------------------------------------------------------------------


@pytest.fixture
def table(rng):
    """A frame with a name of each row, a label between features, and a remark."""
    frame = pd.DataFrame(rng.normal(size=(90, 4)).round(3), columns=["tall", "wide", "deep", "old"])
    kind = np.array(["a", "b, c", "d"])[np.argmax(frame.to_numpy()[:, :3], axis=1)]
    frame.insert(2, "kind", kind)
    frame.insert(0, "name", [f"row {k}" for k in range(90)])
    return frame.assign(remark="none")


def write_table(path, frame):
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        frame.to_parquet(path, index=True)  # a column that is no feature
    else:
        separator = {".tsv": "\t", ".psv": "|"}.get(path.suffixes[0], ",")
        frame.to_csv(path, index=False, sep=separator)
    return str(path)


CHOSEN = ["--label", "kind", "--drop", "name", "--drop", "remark"]


@pytest.mark.parametrize("more", [[], ["--memory", "1G"]], ids=["", "memory"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.csv", []), ("a.tsv", []), ("a.csv.xz", []), ("a.parquet", []),
        ("a.psv", ["--format", "csv", "--separator", "|"]),
    ],
)  # fmt: skip
def test_columns_are_chosen_by_name(tmp_path, table, name, options, more, capsys):
    file, model = write_table(tmp_path / name, table), str(tmp_path / "m.npz")
    assert cli.main(["train", file, "-o", model, *CHOSEN, *options, *more]) == 0
    loaded = pegasos.load(model)
    features = ["tall", "wide", "deep", "old"]
    assert loaded.feature_names.tolist() == features
    X, y = table[features].to_numpy(), table["kind"].to_numpy().astype(str)
    clf = pegasos.PegasosClassifier(random_state=0).fit(X, y)
    np.testing.assert_allclose(loaded.coef, clf.coef_, rtol=1e-3 if more else 1e-12)
    # The model knows features and label, whatever the order of columns; others do not count.
    shuffled = write_table(tmp_path / f"new{name[1:]}", table[table.columns[::-1]])
    capsys.readouterr()
    for label in ([], ["--label", "kind"]):
        assert cli.main(["predict", model, shuffled, *options, *label]) == 0
        shown = capsys.readouterr()
        assert shown.out.splitlines() == loaded.predict(X).tolist()
        assert f"accuracy {100 * clf.score(X, y):.2f} %" in shown.err
    lacking = write_table(tmp_path / f"less{name[1:]}", table.drop(columns="wide"))
    assert cli.main(["predict", model, lacking, *options]) == 2
    assert "no column 'wide'; its columns are ['name', 'tall'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
@pytest.mark.parametrize("label", ["kind", None])
def test_a_label_without_a_known_name_is_the_only_other_column(
    tmp_path, table, name, label, capsys
):
    """Columns that --drop left out were counted, so that a file had no labels."""
    last = table[["name", "tall", "wide", "deep", "old", "kind"]]
    file, model = write_table(tmp_path / name, last), str(tmp_path / "m.npz")
    options = ["-o", str(tmp_path / "labels.txt")]
    assert cli.main(["train", file, "-o", model, "--drop", "name"]) == 0
    assert pegasos.load(model).label_name == "kind"
    dataclasses.replace(pegasos.load(model), label_name=label).save(model)  # None: an old one
    alone = write_table(tmp_path / f"alone{name[1:]}", last.drop(columns="name"))
    unlabelled = write_table(tmp_path / f"new{name[1:]}", last.drop(columns="kind"))
    for data, more, has_labels in (
        (file, ["--drop", "name"], True),
        (alone, [], True),
        (file, [], label is not None),  # two others, of which either may have the labels
        (alone, ["--label", "none"], False),
        (alone, ["--drop", "kind"], False),
        (unlabelled, [], False),
        (unlabelled, ["--drop", "name"], False),
    ):
        capsys.readouterr()
        assert cli.main(["predict", model, data, *options, *more]) == 0
        assert ("accuracy" in capsys.readouterr().err) == has_labels, (data, more)


@pytest.mark.parametrize("more", [[], ["--memory", "1G"]], ids=["", "memory"])
def test_columns_of_an_npy_file_have_numbers(tmp_path, numbers, more):
    X, y = numbers
    np.save(tmp_path / "a.npy", np.column_stack([X[:, :2], np.arange(80), y, X[:, 2:]]))
    file, model = str(tmp_path / "a.npy"), str(tmp_path / "m.npz")
    options = ["--task", "regression", "--label", "3", "--drop", "2", *more]
    assert cli.main(["train", file, "-o", model, *options]) == 0
    reg = pegasos.PegasosRegressor(random_state=0).fit(X, y)
    np.testing.assert_allclose(pegasos.load(model).coef[0], reg.coef_, rtol=1e-2 if more else 1e-12)


def test_an_archive_or_another_file_is_no_npy_file(tmp_path, capsys):
    X, y = np.eye(4), np.arange(4) % 2
    np.savez(tmp_path / "archive", X=X, y=y)
    (tmp_path / "archive.npz").rename(tmp_path / "archive.npy")
    (tmp_path / "zip.npy").write_bytes(b"PK\x03\x04 and no more")
    (tmp_path / "text.npy").write_text("1,2,0\n3,4,1\n")
    (tmp_path / "empty.npy").write_bytes(b"")
    for name in ("archive.npy", "zip.npy", "text.npy", "empty.npy"):
        assert cli.main(["train", str(tmp_path / name), "-o", str(tmp_path / "m.npz")]) == 2
        assert f"{name} is not a .npy file of numbers: " in capsys.readouterr().err
        with pytest.raises(ValueError, match=f"{name} is not a .npy file of numbers: "):
            pegasos.Blocks((tmp_path / name, y), cache=tmp_path / "cache", memory="1G")


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--label", "kind"], r"column 1 \('name'\).*--drop name"),
        (
            ["--drop", "name", "--label", "kind"],
            r"'remark'.*get_dummies\(\.\.\., dtype=float\).*--drop remark",
        ),
        (["--label", "sort"], "no column 'sort'; its columns are"),
        (["--label", "kind", "--drop", "kind"], "'kind' has the labels, and is left out"),
        (["--drop", "none"], "--drop needs a column"),
        (["--drop", "name,remark"], "no column 'name,remark'.*; --drop takes columns one by one$"),
        (["--separator", "ab"], "separator must be one character, got 'ab'"),
    ],
)
def test_columns_that_hold_no_numbers_are_named(tmp_path, table, name, options, words, capsys):
    file = write_table(tmp_path / name, table)
    assert cli.main(["train", file, "-o", str(tmp_path / "m.npz"), *options]) == 2
    assert re.search(words, capsys.readouterr().err)


@pytest.mark.parametrize("options", [(), ("--kernel", "rbf", "--gamma", "0.1"), ("--memory", "1G")])
@pytest.mark.parametrize("name", ["a.csv", "sparse.npz"])
def test_scaled_features_are_as_scikit_learn_scales_them(tmp_path, data, name, options, capsys):
    X, y = data
    X = np.exp(3 * X) * (np.abs(X) > 0.3)
    file, model = write(tmp_path / name, X, y), str(tmp_path / "m.npz")
    assert cli.main(["train", str(file), "-o", model, "--scale", *options]) == 0
    report = capsys.readouterr().err
    is_sparse = name != "a.csv"
    rows = sparse.csr_array(X) if is_sparse else X
    kernel = "--kernel" in options
    make = pegasos.KernelPegasosClassifier if kernel else pegasos.PegasosClassifier
    clf = make(random_state=0, **({"gamma": 0.1} if kernel else {}))
    pipe = make_pipeline(MaxAbsScaler() if is_sparse else StandardScaler(), clf).fit(rows, y)
    loaded, expected = pegasos.load(model), pipe.decision_function(rows)
    close = {"rtol": 1e-6, "atol": 1e-6}
    np.testing.assert_allclose(loaded.decision_function(rows), expected, **close)
    again = loaded.to_estimator()
    assert [type(step) for _, step in again.steps] == [StandardScaler, make]
    np.testing.assert_allclose(again.decision_function(rows), expected, **close)
    assert f"training accuracy {100 * pipe.score(rows, y):.2f} %" in report


def test_a_checkpoint_is_scaled_like_its_model(tmp_path, data, capsys):
    X, y = data
    file = str(write(tmp_path / "a.csv", 100 * X + 5, y))
    half, model = str(tmp_path / "half.npz"), str(tmp_path / "m.npz")
    train = ["train", file, "-o", model, "--scale", "--solver", "pegasos", "--tol", "none"]
    every = ["--checkpoint", half, "--checkpoint-every", "1e-4"]
    assert cli.main([*train, "--max-iter", "20000", *every]) == 0
    expected = pegasos.load(model).decision_function(X)
    assert pegasos.load(half).scale is not None
    assert cli.main([*train, "--max-iter", "20000", "--resume", half]) == 0
    np.testing.assert_array_equal(pegasos.load(model).decision_function(X), expected)


def test_scores_and_json_have_names(tmp_path, table, capsys):
    file, model = write_table(tmp_path / "a.csv", table), str(tmp_path / "m.npz")
    train = ["train", file, "-o", model, "-q", "--json", *CHOSEN, "--loss", "log_loss"]
    assert cli.main([*train, "--validation", file, "--cv", "3", "--Cs", "3"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    told, loaded = json.loads(shown.out), pegasos.load(model)
    assert (told["classes"], told["lam"]) == (["a", "b, c", "d"], loaded.lam)
    assert len(told["search"]) == 3
    assert [*told["problems"][0]] == ["name", "objective", "gap", "steps"]
    X, y = table[["tall", "wide", "deep", "old"]].to_numpy(), table["kind"].to_numpy().astype(str)
    predicted, scores = loaded.predict(X), loaded.decision_function(X)
    assert told["training"] == told["validation"]
    assert told["training"]["accuracy"] == metrics.accuracy_score(y, predicted)
    balanced = metrics.balanced_accuracy_score(y, predicted)
    assert told["training"]["balanced_accuracy"] == pytest.approx(balanced)
    precision = metrics.average_precision_score(y, scores)
    assert told["training"]["average_precision"] == pytest.approx(precision)
    confusion = [[*row.values()] for row in told["training"]["confusion"].values()]
    assert confusion == metrics.confusion_matrix(y, predicted).tolist()
    assert cli.main(["predict", model, file, "--scores"]) == 0
    written = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert written.columns.tolist() == ["a", "b, c", "d"]
    np.testing.assert_allclose(written, scores, rtol=1e-6)
    assert cli.main(["predict", model, file, "--json", "--label", "kind"]) == 0
    shown = capsys.readouterr()
    told = json.loads(shown.out)
    assert told["predictions"] == predicted.tolist()
    np.testing.assert_allclose([*told["scores"].values()], scores.T)
    np.testing.assert_allclose([*told["probabilities"].values()], loaded.predict_proba(X).T)
    assert told["metrics"]["accuracy"] == metrics.accuracy_score(y, predicted)
    assert re.search(r"class +precision +recall +f1-score +support\n", shown.err)
    assert "label, predicted as" in shown.err


def test_parquet_without_pyarrow_is_an_error_of_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    (file := tmp_path / "a.parquet").write_bytes(b"PAR1")
    assert cli.main(["train", str(file), "-q", "-o", str(tmp_path / "m.npz")]) == 2
    expected = 'pegasos: error: reading Parquet needs pyarrow: pip install "pegasos[parquet]"\n'
    assert capsys.readouterr().err == expected


def test_metrics_of_unknown_labels_are_not_made_up(tmp_path, table, capsys):
    file, model = write_table(tmp_path / "a.csv", table), str(tmp_path / "m.npz")
    other = write_table(tmp_path / "b.csv", table.assign(kind="e"))
    assert cli.main(["train", file, "-o", model, *CHOSEN, "--validation", other]) == 0
    words = "no validation metrics: labels that the model does not know, such as e"
    assert words in capsys.readouterr().err


@pytest.mark.filterwarnings("always:w = 0")
def test_what_one_class_cannot_have_is_told(tmp_path, rng, capsys):
    X = rng.normal(size=(100, 3))
    np.savetxt(tmp_path / "a.csv", X, delimiter=",")
    model, rows = str(tmp_path / "m.npz"), str(tmp_path / "a.csv")
    train = ["train", rows, "-o", model, "--task", "one-class", "--label", "none"]
    assert cli.main([*train, "--scale"]) == 2
    assert "leave out --scale, or say --kernel rbf" in capsys.readouterr().err
    assert cli.main([*train, "--scale", "--kernel", "rbf"]) == 0
    np.savetxt(tmp_path / "a.csv", X - X.mean(axis=0), delimiter=",")
    capsys.readouterr()
    assert cli.main(train) == 0
    said = capsys.readouterr().err
    assert "What may help: a kernel machine with --kernel rbf, or rows that" in said
    (above,) = re.findall(r"\nobjective 0, (?:at most ([\d.e-]+) above )?the optimum", said)
    assert float(above or 0) < 1e-9
    assert cli.main(["predict", model, rows, "--proba"]) == 2
    assert "m.npz was trained with --task one-class: leave it out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--lable", "--lable; did you mean --label?"),
        ("--lable=species", "did you mean --label?"),
        ("--seperator=;", "did you mean --separator?"),
        ("--zzz", "unrecognized arguments: --zzz; pegasos train --help has the options\n"),
    ],
)
def test_an_option_that_is_not_known_is_told_with_the_nearest(option, words, capsys):
    for arguments in (["a.csv", option, "x"], [option, "x", "a.csv"]):
        with pytest.raises(SystemExit):
            cli.main(["train", *arguments])
        said = capsys.readouterr().err
        assert said.startswith("usage: pegasos train")
        assert words in said


def test_a_line_for_people_is_one_write(monkeypatch):
    """Lines of standard output came between its text and its end."""
    written = []
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=written.append, flush=lambda: None))
    cli._say("of", 150, "rows")
    assert written == ["of 150 rows\n"]


def test_a_column_of_identifiers_is_no_label(tmp_path, rng, capsys):
    np.savetxt(tmp_path / "a.csv", np.c_[rng.normal(size=(90, 3)), np.arange(90)], delimiter=",")
    arguments = [str(tmp_path / "a.csv"), "-o", str(tmp_path / "m.npz")]
    assert cli.main(["train", *arguments]) == 2
    assert "90 numbers as labels of 90 rows: say --label if another" in capsys.readouterr().err


def test_an_output_whose_name_speaks_of_another_format_is_warned_of(tmp_path, data, capsys):
    file = str(write(tmp_path / "a.npz", *data))
    for name, is_warned in (("m.pkl", True), ("m.npz", False), ("m", False)):
        assert cli.main(["train", file, "-o", str(tmp_path / name)]) == 0
        assert ("will be an .npz archive" in capsys.readouterr().err) == is_warned


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_python_and_the_command_line_share_a_cache_of_one_type(tmp_path, data, dtype, capsys):
    file, cache = str(write(tmp_path / "a.csv", *data)), str(tmp_path / "a.csv.blocks")
    own = {} if dtype == "float64" else {"dtype": dtype}  # the default of both is float64
    pegasos.Blocks(file, cache=cache, **own)
    train = ["train", file, "-o", str(tmp_path / "m.npz"), "--memory", "1G"]
    single = ["--float32"]
    same, other = ([*train, *single], train) if dtype == "float32" else (train, [*train, *single])
    assert cli.main(other) == 2
    was, is_now = ("given", "left out") if dtype == "float32" else ("left out", "given")
    assert f"parameters (--float32 was {was} and is {is_now}): " in capsys.readouterr().err
    assert cli.main(same) == 0


def test_options_that_differ_from_those_of_a_cache_are_named(tmp_path, data, capsys):
    """They had the names and the values that Python has for them."""
    train = ["train", str(write(tmp_path / "a.csv", *data)), "-q", "--memory", "1G"]
    train += ["-o", str(tmp_path / "m.npz")]
    assert cli.main(train) == 0
    assert cli.main([*train, "--drop", "0", "--label", "2", "--format", "csv", "--seed", "1"]) == 2
    told = capsys.readouterr().err
    for difference in (
        "--format was left out and is csv", "--label was -1 and is 2",
        "--drop was left out and is 0", "--seed was 0 and is 1",
    ):  # fmt: skip
        assert difference in told


@pytest.mark.parametrize("memory", [[], ["--memory", "1G"]], ids=["", "memory"])
def test_a_model_remembers_which_column_is_the_label(tmp_path, monkeypatch, memory, capsys):
    """With another column beside, no label was found, or the other column was taken for it."""
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"churn": ["p", "q"] * 9, "a": np.arange(18) % 2, "id": np.arange(18)})
    frame["b"] = 1.5
    frame.to_csv("a.csv", index=False)
    train = ["train", "a.csv", "--label", "churn", "--drop", "id", "-q", "-o", "m.npz", *memory]
    assert cli.main(train) == 0
    assert pegasos.load("m.npz").label_name == "churn"
    assert pegasos.load("m.npz").to_estimator().to_model().label_name == "churn"
    assert "\nlabel: churn\n" in show(capsys, "info", "m.npz")
    for columns in (["churn", "a", "id", "b"], ["id", "b", "a", "churn"]):
        frame[columns].to_csv("new.csv", index=False)
        assert cli.main(["predict", "m.npz", "new.csv"]) == 0
        assert "accuracy 100.00 %" in capsys.readouterr().err
    for columns, options in ((["id", "b", "a"], []), ([*frame.columns], ["--drop", "churn"])):
        frame[columns].to_csv("new.csv", index=False)
        assert cli.main(["predict", "m.npz", "new.csv", *options]) == 0
        assert capsys.readouterr() == ("p\nq\n" * 9, "")
    assert cli.main(["predict", "m.npz", "a.csv", "--label", "id"]) == 0
    assert "labels that the model does not know, such as 0" in capsys.readouterr().err


@pytest.mark.parametrize("effort", ["2", "0.3", "auto"])
def test_the_effort_of_a_search_may_be_chosen(tmp_path, data, effort, capsys):
    X, y = data
    file, model = str(write(tmp_path / "a.npz", X, y)), str(tmp_path / "m.npz")
    options = ["--cv", "3", "--Cs", "4", "--json", "-q", "--cv-effort", effort]
    assert cli.main(["train", file, "-o", model, *options]) == 0
    points = json.loads(capsys.readouterr().out)["search"]
    scores = [point["score"] for point in points]
    value = {"2": 2, "0.3": 0.3}.get(effort, effort)
    search = pegasos.PegasosClassifierCV(Cs=4, cv=3, cv_effort=value, random_state=0).fit(X, y)
    assert scores == search.cv_results_["mean_test_score"].tolist()
    errors = [point["standard_error"] for point in points]
    assert errors == search.cv_results_["standard_error"].tolist()
    assert [k for k, point in enumerate(points) if point["best"]] == [search.best_index_]


def test_a_folder_of_other_files_as_a_cache_is_told_by_the_option(tmp_path, data, capsys):
    file = str(write(tmp_path / "a.csv", *data))
    train = ["train", file, "-o", str(tmp_path / "m.npz"), "--memory", "1G"]
    assert cli.main([*train, "--cache", str(tmp_path)]) == 2
    assert "error: --cache must be a new folder" in capsys.readouterr().err


def test_too_little_memory_for_a_search_is_told_with_what_helps(tmp_path, rng, capsys):
    X = rng.normal(size=(400, 300))
    file = str(write_numbers(tmp_path / "a.npz", X, (X[:, 0] > 0).astype(int)))
    train = ["train", file, "-o", str(tmp_path / "m.npz"), "--cv", "5"]
    assert cli.main([*train, "--memory", "500kB"]) == 2
    said = capsys.readouterr().err
    assert "a search with fewer --Cs or --cv needs less" in said
    (give,) = re.findall(r"give (\d+[kM]B) at least", said)
    assert cli.main([*train, "--memory", give, "--cv-effort", "2"]) == 0


# Whether the fit that has the memory comes to its tolerance is not the point.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("task", "ending"), [("classification", "svm"), ("regression", "csv")])
def test_too_little_memory_is_told_before_the_rows_are_converted(tmp_path, rng, task, ending):
    """All rows were read, dealt and written before a word of it."""
    X = rng.normal(size=(600, 300))
    y = rng.integers(3, size=600) if task == "classification" else X[:, 0]
    file, cache = tmp_path / f"a.{ending}", tmp_path / "cache"
    if ending == "svm":
        dump_svmlight_file(X, y, str(file))
    else:
        np.savetxt(file, np.column_stack([X, y]), delimiter=",")
    train = ["train", str(file), "-o", str(tmp_path / "m.npz"), "--cache", str(cache)]
    train += ["--cv", "3", "--Cs", "2", "--cv-effort", "2", "--task", task]
    n_problems = 18 if task == "classification" else 6
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        assert cli.main([*train, "--memory", "100kB"]) == 2
    assert "--memory 100000 bytes is too little for " in said.getvalue()
    assert f"for {n_problems} problem(s) over rows of 300 features" in said.getvalue()
    assert "a search with fewer --Cs or --cv needs less" in said.getvalue()
    assert not cache.exists()
    (give,) = re.findall(r"give (\d+[kM]B) at least", said.getvalue())
    assert cli.main([*train, "--memory", give, "-q", "--max-iter", "5"]) == 0


@pytest.mark.filterwarnings("default")
def test_regression_worse_than_a_constant_is_told_what_helps_here(tmp_path, rng, capsys):
    """TransformedTargetRegressor was advised, a class of Python."""
    X = rng.normal(size=(300, 3))
    file = write(tmp_path / "a.npz", X, 1e4 * X[:, 0] + 3e5)
    train = ["train", str(file), "-o", str(tmp_path / "m.npz"), "--task", "regression"]
    assert cli.main(train) == 0
    said = capsys.readouterr().err
    assert "a constant predicts the training targets better" in said
    assert "or --cv without --Cs, which tries C in the units of the label" in said
    assert "sklearn" not in said
    assert cli.main([*train, "--cv", "3", "--intercept", "free"]) == 0
    said = capsys.readouterr().err
    assert "a constant" not in said
    assert float(re.search(r"training R2 (\S+),", said)[1]) > 0.9


def test_a_best_c_at_the_edge_of_the_grid_is_told(tmp_path, capsys):
    X, y = make_blobs(200, 3, centers=4, cluster_std=4.0, random_state=0)
    file = write(tmp_path / "a.npz", X, y)
    train = ["train", str(file), "-o", str(tmp_path / "m.npz"), "--cv", "3", "--Cs"]
    scores = pegasos.PegasosClassifierCV(Cs=[1e-5, 1e-3, 1e-1], cv=3, random_state=0).fit(X, y)
    C, means = scores.C_, scores.cv_results_["mean_test_score"]
    assert C > 1e-5
    assert means[0] < means.max()
    for Cs, is_told in ((f"1e-5,{C}", True), (f"{C},{C}", False), (f"{C}", False)):
        assert cli.main([*train, Cs]) == 0
        report = capsys.readouterr().err
        told = "the largest C of the grid is best: larger ones (--Cs) may score higher\n"
        assert (told in report) == is_told
        assert "smaller ones" not in report


def test_scores_that_hardly_rise_are_not_told_to_rise(tmp_path, capsys):
    """Of linear data, the largest C is the best one by very little."""
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = X.sum(axis=1) + 0.1 * np.random.default_rng(2).normal(size=200)
    Cs = [1e-3, 1.0, 100.0]
    options = {"cv": 3, "epsilons": [0.1], "random_state": 0}
    found = pegasos.PegasosRegressorCV(Cs=Cs, **options).fit(X, y)
    before, last = found.cv_results_["mean_test_score"][1:]
    assert 0 < last - before < 0.1 * found.cv_results_["standard_error"][2]
    assert found.edges_ == {"C": "largest"}
    train = ["train", str(write_numbers(tmp_path / "a.npz", X, y)), "-o", str(tmp_path / "m.npz")]
    assert cli.main([*train, "--task", "regression", "--cv", "3", "--Cs", "1e-3,1,100"]) == 0
    assert "may score higher" not in capsys.readouterr().err


def test_output_without_a_letter_of_the_labels(tmp_path, monkeypatch, capsys):
    path, model = tmp_path / "rows.csv", str(tmp_path / "model.npz")
    path.write_text("a,b,y\n1,2,é\n3,1,e\n", encoding="utf-8")
    assert cli.main(["train", str(path), "--quiet", "-o", model]) == 0
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii"))
    assert cli.main(["predict", model, str(path)]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert re.search(r"standard output is in ascii, .*'é': set PYTHONIOENCODING=utf-8$", said)
