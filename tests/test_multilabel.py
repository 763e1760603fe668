"""Several labels for each row: zeros and ones in columns, each column a problem."""

import pickle

import numpy as np
import pytest
from covering import covering
from rows import convert, make_rows
from scipy import sparse
from sklearn.metrics import accuracy_score
from sklearn.multiclass import OneVsRestClassifier

import pegasos
from pegasos import KernelPegasosClassifier, PegasosClassifier, cli

KINDS = [PegasosClassifier, KernelPegasosClassifier]


def make_labels(rng, n=90, n_labels=3):
    X, _ = make_rows(rng, n=n, d=6)
    Y = (X @ rng.normal(size=(6, n_labels)) + rng.normal(size=n_labels) > 0).astype(int)
    Y[0], Y[1] = 0, 1
    return X, Y


@covering(
    kind=KINDS,
    loss=["hinge", "log_loss"],
    layout=["dense", "csr32", "csr64"],
    dtype=[np.float32, np.float64],
    n_labels=[2, 4],
    weighted=[False, True],
)
def test_each_column_has_the_bits_of_a_binary_fit(
    rng, kind, loss, layout, dtype, n_labels, weighted
):
    X, Y = make_labels(rng, n_labels=n_labels)
    X, weights = convert(X, layout, dtype), rng.integers(0, 3, len(Y)) if weighted else None
    options = {"solver": "pegasos", "tol": None, "max_iter": 4, "random_state": 5, "lam": 1e-2}
    together = kind(loss=loss, **options).fit(X, Y, weights)
    scores = together.decision_function(X)
    assert scores.shape == Y.shape
    np.testing.assert_array_equal(together.classes_, np.arange(n_labels))
    for k, y in enumerate(Y.T):
        alone = kind(loss=loss, **options).fit(X, y, weights)
        np.testing.assert_array_equal(together.alpha_counts_[k], alone.alpha_counts_[0])
        np.testing.assert_array_equal(together.intercept_[k], alone.intercept_[0])
        # Scores of a kernel are products of BLAS, and support vectors those of all columns.
        np.testing.assert_allclose(scores[:, k], alone.decision_function(X), rtol=1e-5, atol=1e-6)
        if kind is PegasosClassifier:
            np.testing.assert_array_equal(together.coef_[k], alone.coef_[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["squared_hinge", "modified_huber", "log_loss"])
@pytest.mark.parametrize("container", [np.array, sparse.csr_array, sparse.csc_matrix])
def test_answers_are_those_of_one_vs_rest_around_binary_machines(rng, kind, loss, container):
    X, Y = make_labels(rng)
    options = {"lam": 1e-2, "loss": loss, "tol": 1e-9, "random_state": 0}
    clf = kind(**options).fit(X, container(Y))
    theirs = OneVsRestClassifier(kind(**options)).fit(X, container(Y))
    predicted, scores = clf.predict(X), clf.decision_function(X)
    assert (
        sparse.issparse(predicted) == sparse.issparse(theirs.predict(X)) == (container != np.array)
    )
    if sparse.issparse(predicted):
        predicted = predicted.toarray()
    np.testing.assert_array_equal(predicted, scores > 0)
    np.testing.assert_allclose(scores, theirs.decision_function(X), atol=1e-3)
    np.testing.assert_array_equal(clf.classes_, theirs.classes_)
    assert clf.score(X, container(Y)) == accuracy_score(Y, predicted)
    assert hasattr(clf, "predict_proba") == (loss != "squared_hinge")
    if loss != "squared_hinge":
        np.testing.assert_allclose(clf.predict_proba(X), theirs.predict_proba(X), atol=1e-3)
        with np.errstate(divide="ignore"):
            np.testing.assert_array_equal(clf.predict_log_proba(X), np.log(clf.predict_proba(X)))
    np.testing.assert_array_equal(clf.margins(X, Y), np.where(Y, scores, -scores))


@pytest.mark.parametrize("kind", KINDS)
def test_a_warm_start_goes_on_with_the_bits_of_a_longer_fit(rng, kind):
    X, Y = make_labels(rng)
    options = {"solver": "pegasos", "tol": None, "random_state": 5, "lam": 1e-2}
    longer = kind(max_iter=6, **options).fit(X, Y)
    twice = kind(max_iter=3, warm_start=True, **options).fit(X, Y)
    twice = pickle.loads(pickle.dumps(twice)).fit(X, sparse.csr_array(Y))
    np.testing.assert_array_equal(longer.alpha_counts_, twice.alpha_counts_)
    for other, told in (
        (Y[:, 0], "y must have several columns, as in the fit that goes on"),
        (Y[:, :2], "y must have 3 columns"),
    ):
        with pytest.raises(ValueError, match=told):
            twice.fit(X, other)
    of_classes = kind(max_iter=3, warm_start=True, **options).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="one label for each row, as in the fit that goes on"):
        of_classes.fit(X, Y[:, :2])


def test_pieces_need_no_classes(rng):
    X, Y = make_labels(rng)
    clf, with_classes = (PegasosClassifier(lam=1e-2, random_state=0) for _ in range(2))
    for first in range(0, 90, 30):
        part = slice(first, first + 30)
        clf.partial_fit(X[part], Y[part])
        with_classes.partial_fit(X[part], sparse.csr_array(Y[part]), classes=[0, 1, 2])
    np.testing.assert_array_equal(clf.coef_, with_classes.coef_)
    assert clf.score(X, Y) > 0.5
    with pytest.raises(ValueError, match="y must have 3 columns"):
        clf.partial_fit(X, Y[:, :2])
    with pytest.raises(
        ValueError, match=r"classes must be None or the numbers of the columns of y"
    ):
        clf.partial_fit(X, Y, classes=["a", "b", "c"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [0, 1])
def test_a_label_that_all_rows_have_or_lack_is_told(rng, kind, value):
    X, Y = make_labels(rng)
    weights = np.where(Y[:, 1] == value, 1, 0)
    with pytest.warns(
        UserWarning, match=f"no row of weight > 0 {'lacks' if value else 'has'} label 1"
    ):
        clf = kind(lam=1e-2, random_state=0).fit(X, Y, weights)
    assert (clf.predict(X)[weights > 0, 1] == value).all()


def damaged(Y):
    Y = sparse.csr_array(Y)
    Y.indices[0] = 10**6
    return Y


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda Y: Y * 2, r"zeros and ones with a column for each label, but y\[1, 0\] is 2$"),
        (lambda Y: np.where(Y, 1, -1), r"zeros and ones"),
        (lambda Y: np.where(Y, np.nan, 0), r"zeros and ones.*nan"),
        (lambda Y: Y.astype(str), r"zeros and ones"),
        (lambda Y: np.ma.masked_equal(Y, 1), r"y must not have masked values"),
        (lambda Y: Y[:, :0], r"y must have a column for each label, at least two"),
        (lambda Y: Y[:-1], r"y must have one entry per row of X"),
        (damaged, r"y\.indices"),
        (lambda Y: [list(np.flatnonzero(y)) for y in Y], r"lists of labels.*MultiLabelBinarizer"),
    ],
)  # fmt: skip
def test_what_is_not_zeros_and_ones_is_refused(rng, kind, change, told):
    X, Y = make_labels(rng)
    with pytest.raises(ValueError, match=told):
        kind().fit(X, change(Y))


def test_class_weight_is_refused(rng):
    X, Y = make_labels(rng)
    for class_weight in ("balanced", {0: 2.0}):
        with pytest.raises(ValueError, match="class_weight must be None if y has several columns"):
            PegasosClassifier(class_weight=class_weight).fit(X, Y)


def test_the_command_line_predicts_columns(rng, tmp_path, capsys):
    X, Y = make_labels(rng)
    clf = PegasosClassifier(lam=1e-2, loss="log_loss", random_state=0).fit(X, Y)
    clf.to_model().save(tmp_path / "model.npz")
    np.savetxt(tmp_path / "rows.csv", np.column_stack([X, Y[:, 0]]), delimiter=",")
    files = [str(tmp_path / "model.npz"), str(tmp_path / "rows.csv"), "-o", str(tmp_path / "out")]
    for option, expected in (([], clf.predict(X)), (["--proba"], clf.predict_proba(X))):
        assert cli.main(["predict", *files, *option]) == 0
        layout = {"delimiter": ",", "skiprows": 1} if option else {}
        np.testing.assert_allclose(np.loadtxt(tmp_path / "out", **layout), expected, rtol=1e-5)
        assert "no metrics: y has shape" in capsys.readouterr().err
    np.savez(tmp_path / "rows.npz", X=X, y=Y)
    model = str(tmp_path / "again.npz")
    assert cli.main(["train", str(tmp_path / "rows.npz"), "-o", model]) == 0
    again = pegasos.PegasosClassifier(random_state=0).fit(X, Y)
    assert f"training accuracy {100 * again.score(X, Y):.2f} %" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [pegasos.PegasosClassifierCV, pegasos.KernelPegasosClassifierCV])
@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
def test_searches_score_the_share_of_rows_with_all_labels_right(rng, kind, container):
    X, Y = make_labels(rng)
    options = {"lams": [1e-3, 1e-1], "cv": 3, "random_state": 0, "cv_effort": 1e-3}
    ours = kind(**options).fit(X, container(Y))
    theirs = kind(**options, scoring="accuracy").fit(X, container(Y))
    np.testing.assert_allclose(ours.scores_, theirs.scores_, rtol=1e-12)
    for predicted in (ours.predict(X), ours.best_estimator_.predict(X)):
        assert predicted.shape == Y.shape
        assert sparse.issparse(predicted) == (container is not np.array)  # as y of the search
    assert ours.score(X, Y) > 0.5


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csc_matrix])
def test_predictions_are_of_the_kind_of_y(rng, container):
    """A y that was a matrix of SciPy, in which * is another product, came back as an array."""
    X, Y = make_labels(rng)
    kind = sparse.csr_matrix if container is sparse.csc_matrix else sparse.csr_array
    for machine in PegasosClassifier(), pegasos.PegasosClassifierCV(cv=2, Cs=2):
        clf = pickle.loads(pickle.dumps(machine.fit(X, container(Y))))
        assert type(clf.predict(X)) is kind
