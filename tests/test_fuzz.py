"""Files of any bytes: a model or data, or an error that says so; and what fuzzing found."""

import gzip
import io
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from seal import seal

import pegasos
from pegasos import KernelPegasosClassifier
from pegasos.io import _archive, _readers

FEW = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
# At a place, so many bytes are taken out and others put in.
CHANGES = st.lists(
    st.tuples(st.integers(0, 2**12), st.integers(0, 40), st.binary(max_size=12)), max_size=4
)


def changed(content, changes):
    for place, gone, new in changes:
        at = place % (len(content) + 1)
        content = content[:at] + new + content[at + gone :]
    return content


def rezipped(archive, member, changes):
    """The archive with one member changed, and checksums that are right."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        for k, name in enumerate(names):
            content = old.read(name)
            new.writestr(name, changed(content, changes) if k == member % len(names) else content)
    return out.getvalue()


@pytest.fixture(scope="module")
def model_files(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "model.npz"
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9, 3)), np.arange(9) % 3
    files = []
    for model in (
        pegasos.fit(X, y, 0.1, n_steps=9),
        KernelPegasosClassifier(n_steps=9).fit(X, y).to_model(),
    ):
        model.save(path)
        files.append(path.read_bytes())
    return files


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("remove", [False, True])
def test_a_model_that_was_changed_is_refused(tmp_path, model_files, which, remove):
    """One bit of any array, or the checksum itself, and whatever the numbers still say."""
    path = tmp_path / "model.npz"
    with np.load(io.BytesIO(model_files[which])) as archive:
        arrays = dict(archive)
    for name, array in arrays.items():
        others = arrays | {name: array.copy()}
        if remove:
            del others["checksum"]
        elif array.size:
            others[name].reshape(-1).view(np.uint8)[-4] ^= 1
        else:
            continue
        np.savez(path, **others)
        with pytest.raises(ValueError, match=r"not a pegasos model: .* checksum"):
            pegasos.load(path)


@pytest.mark.parametrize("name", ["coef_", "intercept_"])
def test_a_model_that_load_would_refuse_is_not_saved(tmp_path, name):
    X = np.random.default_rng(0).normal(size=(9, 3))
    clf = pegasos.PegasosClassifier(n_steps=9).fit(X, np.arange(9) % 3)
    setattr(clf, name, getattr(clf, name).astype(np.float32))
    clf.to_model().save(tmp_path / "model.npz")
    assert (pegasos.load(tmp_path / "model.npz").predict(X) == clf.predict(X)).all()
    getattr(clf, name).flat[0] = np.nan
    with pytest.raises(ValueError, match=f"{name[:-1]} must be finite to be saved"):
        clf.to_model().save(tmp_path / "model.npz")


def refused_or_used(path):
    """Either `load` refuses the file with a ValueError, or the model works."""
    try:
        model = pegasos.load(path)
    except ValueError:
        return
    if model.n_features < 1000:
        model.predict(np.zeros((2, model.n_features)))
    assert model.duality_gap.shape == model.n_steps.shape


@FEW
@given(which=st.integers(0, 1), changes=CHANGES)
def test_changed_model_files_are_refused_or_work(tmp_path, model_files, which, changes):
    path = tmp_path / "changed.npz"
    path.write_bytes(changed(model_files[which], changes))
    refused_or_used(path)


@FEW
@given(which=st.integers(0, 1), member=st.integers(0, 20), changes=CHANGES)
def test_changed_arrays_in_model_files_are_refused_or_work(
    tmp_path, model_files, which, member, changes
):
    path = tmp_path / "changed.npz"
    path.write_bytes(rezipped(model_files[which], member, changes))
    seal(path)
    refused_or_used(path)


TEXTS = {
    "svm": b"1 1:0.5 3:2\n-1 2:1e-3\n1 qid:3 1:1 # c\n",
    "csv": b'a,b,label\n1,2,x\n3,4e5,"y"\n-1,.5,x\n',
}


@pytest.mark.filterwarnings("ignore:column 1 has no name and is a feature")
@FEW
@given(kind=st.sampled_from(sorted(TEXTS)), zipped=st.booleans(), changes=CHANGES)
def test_changed_texts_are_refused_or_read(tmp_path, kind, zipped, changes):
    path = tmp_path / f"data.{kind}{'.gz' if zipped else ''}"
    content = gzip.compress(TEXTS[kind]) if zipped else TEXTS[kind]
    path.write_bytes(changed(content, changes))
    try:
        X, y, *_ = _readers.read(path)
    except ValueError:
        return
    assert X.shape[0] == len(y) >= 1


# ---- Found by fuzzing
# ------------------------------------------------------------------------------


def npy(header, data=b""):
    """A .npy file with any header."""
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


ARRAY = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }"


@pytest.mark.parametrize(
    "member",
    [
        b"no array at all",
        npy(ARRAY[:-2], bytes(32)),  # tokenize.TokenError
        npy(ARRAY.replace("2, 2", "10**15"), bytes(32)),
        npy(ARRAY.replace("(2, 2)", "(1000000000000,)"), bytes(32)),
        npy(ARRAY.replace("<f8", "<U0").replace("(2, 2)", "(1000000000000,)")),
        npy("-" * 9000 + "1"),  # MemoryError of Python's parser
        npy("1+" * 4000 + "1"),  # RecursionError
    ],
    ids=["bytes", "half", "power", "huge", "no-size", "signs", "sum"],
)
def test_members_that_are_not_arrays_are_refused(tmp_path, member):
    path = tmp_path / "data.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", member)
    with pytest.raises(ValueError, match=r"data\.npz is corrupt or holds more than plain arrays"):
        _readers.read(path)


@pytest.mark.parametrize("name", ["objective", "dual_objective", "n_steps"])
@pytest.mark.parametrize("wrong", [np.array(["a", "b", "c"]), np.zeros(2)])
def test_what_a_model_says_of_its_training_is_checked(tmp_path, model_files, name, wrong):
    path = tmp_path / "model.npz"
    with np.load(io.BytesIO(model_files[0])) as archive:
        arrays = dict(archive) | {name: wrong}
    np.savez(path, **_archive.sealed(arrays))
    with pytest.raises(ValueError, match=f"not a pegasos model: {name} has dtype"):
        pegasos.load(path)


def test_a_deeply_nested_description_is_refused(tmp_path, model_files):
    path = tmp_path / "model.npz"
    with np.load(io.BytesIO(model_files[0])) as archive:
        arrays = dict(archive) | {"about": np.array("[" * 100_000)}
    np.savez(path, **_archive.sealed(arrays))
    with pytest.raises(ValueError, match="not a pegasos model"):
        pegasos.load(path)
