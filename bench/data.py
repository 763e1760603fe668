"""Finds the data sets of benchmarks and experiments; never downloads.

Real sets are read from the folder that PEGASOS_DATA names, else from ../shared/data beside the
project. Parsed sets are kept as .npz in bench/cache. Where a set is missing, `load` raises
`MissingDataError`, and `load_or_imitate` makes synthetic rows of the same shape.
"""

import gzip
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import make_classification, make_friedman1, make_regression
from sklearn.preprocessing import StandardScaler

_ROOT = Path(__file__).parents[1]
_CACHE = Path(__file__).parent / "cache"


class MissingDataError(Exception):
    """A real data set that is not on this machine."""


@dataclass
class Data:
    """Rows and labels; `is_imitation` tells random rows that stand for a set which is missing."""

    name: str
    X: np.ndarray | sparse.csr_array
    y: np.ndarray
    X_test: np.ndarray | sparse.csr_array | None = None
    y_test: np.ndarray | None = None
    is_imitation: bool = False

    def called(self, name):
        """The name of the set in tables, which says if it is an imitation."""
        return f"{name} (imitation)" if self.is_imitation else name

    def first(self, n):
        """`n` rows spread evenly over the set, and over its test rows."""
        every = max(1, self.X.shape[0] // n)
        some = replace(self, X=self.X[::every], y=self.y[::every])
        if self.X_test is not None:
            test = slice(None, None, max(1, self.X_test.shape[0] // n))
            some.X_test, some.y_test = self.X_test[test], self.y_test[test]
        return some


def folder():
    """Where the real sets are."""
    for place in (os.environ.get("PEGASOS_DATA"), _ROOT.parent / "shared" / "data"):
        if place and Path(place).is_dir():
            return Path(place)
    raise MissingDataError("no data folder: set PEGASOS_DATA to the folder that holds the sets")


def _file(*parts):
    path = folder().joinpath(*parts)
    if not path.exists():
        raise MissingDataError(f"{'/'.join(parts)} is not in the data folder")
    return path


def _idx(path):
    with gzip.open(path) as file:
        raw = file.read()
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def _images(name):
    parts = []
    for split in ("train", "t10k"):
        X = _idx(_file(name, f"{split}-images-idx3-ubyte.gz"))
        parts.append(X.reshape(len(X), -1).astype(np.float32) / np.float32(255))
        parts.append(_idx(_file(name, f"{split}-labels-idx1-ubyte.gz")).astype(np.int64))
    return parts


def _text(name):
    from sklearn.datasets import load_svmlight_files
    from sklearn.feature_extraction.text import TfidfTransformer

    files = [str(_file(name, f"{split}.counts.svm.gz")) for split in ("train", "test")]
    X, y, X_test, y_test = load_svmlight_files(files)
    tfidf = TfidfTransformer().fit(X)
    return [
        tfidf.transform(X).astype(np.float32).tocsr(),
        y.astype(np.int64),
        tfidf.transform(X_test).astype(np.float32).tocsr(),
        y_test.astype(np.int64),
    ]


def _coding5():
    parts = []
    for split in ("train", "test"):
        table = np.loadtxt(_file("coding5", f"coding5_{split}.csv"), delimiter=",", skiprows=1)
        parts += [np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64)]
    return parts


def _usps():
    try:
        import h5py
    except ImportError:
        raise MissingDataError("usps needs h5py to be read: pip install '.[data]'") from None
    parts = []
    with h5py.File(_file("usps", "usps.h5")) as file:
        for split in ("train", "test"):
            X = file[split]["data"][:]
            parts += [X.reshape(len(X), -1), file[split]["target"][:].astype(np.int64)]
    return parts


def _libsvm(n_features, *parts):
    from sklearn.datasets import load_svmlight_files

    files = [str(_file(*part)) for part in parts]
    tables = load_svmlight_files(files, n_features=n_features, dtype=np.float32)
    for k in range(0, len(tables), 2):
        X = sparse.csr_array(tables[k])
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        yield X
        yield tables[k + 1].astype(np.int64)


def _covtype():
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(_file("covtype", "covtype.class2_vs_rest.svm.gz")), n_features=54)
    X = X.toarray().astype(np.float32)
    low, high = X[:, :10].min(axis=0), X[:, :10].max(axis=0)
    X[:, :10] = (X[:, :10] - low) / (high - low)
    test = np.arange(len(y)) % 10 == 0
    y = y.astype(np.int64)
    return [np.ascontiguousarray(X[~test]), y[~test], np.ascontiguousarray(X[test]), y[test]]


_LOADERS = {
    "covtype": _covtype,
    "usps": _usps,
    "adult": lambda: _libsvm(123, ("adult", "a9a.gz"), ("adult", "a9a.t.gz")),
    "reuters_moneyfx": lambda: _libsvm(
        8315, ("reuters_moneyfx", "reuters.trn.bz2"), ("reuters_moneyfx", "reuters.tst.bz2")
    ),
    "imdb": lambda: _text("imdb"),
    "newsgroups20": lambda: _text("newsgroups20"),
    "fashion_mnist": lambda: _images("fashion_mnist"),
    "mnist": lambda: _images("mnist"),
    "coding5": _coding5,
}

# rows, columns, nonzeros per row (None: dense), classes
_SHAPES = {
    "imdb": (25000, 74849, 138, 2),
    "newsgroups20": (11314, 130107, 157, 20),
    "fashion_mnist": (60000, 784, None, 10),
    "mnist": (60000, 784, None, 10),
    "adult": (32561, 123, 14, 2),
    "covtype": (522911, 54, None, 2),
}


def load(name):
    """The real set `name`, float32 where its source is."""
    cached = _CACHE / f"{name}.npz"
    if not cached.exists():
        parts = _LOADERS[name]()
        _CACHE.mkdir(exist_ok=True)
        partial = _CACHE / f"{name}.{os.getpid()}.npz"  # nobody may read half a file
        np.savez(partial, **_pack(parts))
        partial.replace(cached)
    return Data(name, *_unpack(np.load(cached)))


def _pack(parts):
    arrays = {}
    for k, part in enumerate(parts):
        if sparse.issparse(part):
            for field in ("data", "indices", "indptr", "shape"):
                arrays[f"{k}.{field}"] = np.asarray(getattr(part, field))
        else:
            arrays[str(k)] = part
    return arrays


def _unpack(arrays):
    parts = []
    for k in range(4):
        if str(k) in arrays:
            parts.append(arrays[str(k)])
        else:
            fields = [arrays[f"{k}.{field}"] for field in ("data", "indices", "indptr")]
            parts.append(sparse.csr_array(tuple(fields), shape=tuple(arrays[f"{k}.shape"])))
    return parts


def load_or_imitate(name, seed=0):
    """The real set, or random rows of its shape where it is missing."""
    try:
        return load(name)
    except MissingDataError:
        return imitate(name, *_SHAPES[name], seed=seed)


def imitate_images(name, n, n_classes=10, d=64, seed=0):
    """Random dense float32 rows in clusters, a train and a test part of `n` rows each."""
    rng = np.random.default_rng(seed)
    centres = rng.random((3 * n_classes, d), dtype=np.float32)
    which = rng.integers(0, len(centres), 2 * n)
    X = centres[which] + 0.25 * rng.standard_normal((2 * n, d), dtype=np.float32)
    y = which % n_classes
    return Data(f"{name} (imitation)", X[:n], y[:n], X[n:], y[n:], is_imitation=True)


def imitate(name, n, d, nonzeros, n_classes, seed=0):
    """Random float32 rows with labels that a linear machine can mostly learn."""
    rng = np.random.default_rng(seed)
    if nonzeros is None:
        X = rng.random((n, d), dtype=np.float32)
    else:
        # Frequencies like those of words: few columns are common, most are rare.
        columns = np.minimum(rng.pareto(0.6, size=n * nonzeros) * 10, d - 1).astype(np.int32)
        columns = np.sort(columns.reshape(n, nonzeros), axis=1).ravel()
        values = rng.random(n * nonzeros, dtype=np.float32) / np.float32(np.sqrt(nonzeros))
        X = sparse.csr_array(
            (values, columns, np.arange(0, n * nonzeros + 1, nonzeros, dtype=np.int32)),
            shape=(n, d),
        )
    truth = rng.normal(size=(d, n_classes)).astype(np.float32)
    y = np.asarray(X @ truth - (X @ truth).mean(0)).argmax(axis=1)
    return Data(f"{name} (imitation)", X, y, is_imitation=True)


def blobs(d, n_classes, n=8000, seed=0, **options):
    """Dense standardised rows of overlapping classes, float64."""
    X, y = make_classification(
        2 * n,
        d,
        n_informative=min(max(d // 2, 10), d - 2),
        n_classes=n_classes,
        random_state=seed,
        **options,
    )
    return halves(f"{d} features, {n_classes}", StandardScaler().fit_transform(X), y)


def text(d, n_classes, n=8000, seed=0):
    """Rows of words: a background by Zipf's law, words of topics, logarithms of counts; float64."""
    rng = np.random.default_rng(seed)
    common = 1 / np.arange(1, d + 1) ** 1.05
    common /= common.sum()
    topics = [rng.choice(d, 400, replace=False) for _ in range(n_classes)]
    y = rng.integers(0, n_classes, 2 * n)
    rows, columns, values = [], [], []
    for i, topic in enumerate(y):
        length = max(5, int(rng.lognormal(np.log(60), 0.6)))
        own = length // 8
        words = np.concatenate([
            rng.choice(d, length - own, p=common), rng.choice(topics[topic], own),
            rng.choice(topics[rng.integers(n_classes)], own // 2),
        ])  # fmt: skip
        found, counts = np.unique(words, return_counts=True)
        value = (1 + np.log(counts)) * np.log1p(1 / common[found])
        rows.append(np.full(len(found), i))
        columns.append(found)
        values.append(value / np.linalg.norm(value))
    parts = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
    return halves(f"text, {n_classes}", sparse.csr_array(parts, shape=(2 * n, d)), y)


def binary(n=8000, d=300, seed=0, threshold=1.0):
    """Sparse rows of ones; the larger the threshold, the rarer one class."""
    rng = np.random.default_rng(seed)
    X = sparse.csr_array(sparse.random(2 * n, d, 0.04, "csr", random_state=seed))
    X.data[:] = 1
    y = (X @ rng.normal(size=d) + rng.normal(size=2 * n) * 0.5 > threshold).astype(int)
    return halves("sparse, 300", X, y)


def expression(n=200, d=10_000):
    """Few rows of many features that go with 20 factors, as gene expression does; standardised."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2 * n, 20)) @ rng.normal(size=(20, d)) + 2 * rng.normal(size=(2 * n, d))
    score = X @ rng.normal(size=d)
    y = (score + score.std() / 2 * rng.normal(size=2 * n) > 0).astype(int)
    return halves("expression", StandardScaler().fit_transform(X), y)


def elevation():
    """Covertype's elevation, standardised, from the other 53 columns; every 4th row."""
    data = real("covtype", 4)
    y, y_test = data.X[:, 0].astype(np.float64), data.X_test[:, 0].astype(np.float64)
    mean, scale = y.mean(), y.std()
    return replace(
        data,
        name="elevation",
        X=np.ascontiguousarray(data.X[:, 1:]),
        y=(y - mean) / scale,
        X_test=np.ascontiguousarray(data.X_test[:, 1:]),
        y_test=(y_test - mean) / scale,
    )


def lengths():
    """The logarithm of the number of different words of imdb's texts, from the words themselves."""
    data = real("imdb")
    parts = [np.log(1 + np.diff(X.indptr)) for X in (data.X, data.X_test)]
    mean, scale = parts[0].mean(), parts[0].std()
    y, y_test = ((part - mean) / scale for part in parts)
    return replace(data, name="length of texts", y=y, y_test=y_test)


def outputs(n=20_000, d=50, n_outputs=10):
    """Ten standardised outputs with noise, by scikit-learn's `make_regression`."""
    X, y = make_regression(2 * n, d, n_targets=n_outputs, noise=20.0, random_state=0)
    return halves("ten outputs", X, (y - y.mean(axis=0)) / y.std(axis=0))


def cloud(n=20_000, d=20):
    """Rows around a point away from the origin, a tenth of them far away; one class."""
    rng = np.random.default_rng(0)
    X = 2 + rng.normal(size=(2 * n, d)) * np.where(rng.random((2 * n, 1)) < 0.1, 3, 1)
    return halves("cloud", X, np.ones(2 * n))


def curve(n=4000):
    """A smooth function of 5 of 10 features with noise, by scikit-learn's `make_friedman1`."""
    X, y = make_friedman1(2 * n, noise=1.0, random_state=0)
    return halves("curve", X, (y - y.mean()) / y.std())


def halves(name, X, y):
    """A set that is tested on its second half."""
    n = len(y) // 2
    if sparse.issparse(X):  # liblinear reads 32-bit indices only
        X = sparse.csr_array(
            (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), X.shape
        )
    return Data(name, X[:n], y[:n], X[n:], y[n:])


def real(name, every=1):
    """A real set, or an imitation."""
    data = load_or_imitate(name)
    if data.X_test is None:
        data = replace(halves(data.name, data.X, data.y), is_imitation=data.is_imitation)
    return data if every == 1 else data.first(data.X.shape[0] // every)
