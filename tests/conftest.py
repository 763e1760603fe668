"""Fixtures that every test module shares."""

import gc
import os
import signal
from pathlib import Path

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # or one of scikit-learn's checks is skipped

import numpy as np
import pytest
from rows import DTYPES, LAYOUTS, make_rows


def pytest_collection_finish():
    """Garbage is not looked for among all tests, each time that one of them collects it."""
    gc.freeze()


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return request.param


@pytest.fixture(params=DTYPES, ids=lambda dtype: dtype.__name__)
def dtype(request):
    return request.param


@pytest.fixture
def rng():
    return np.random.default_rng(20261120)


@pytest.fixture(autouse=True)
def seeded():
    """What is not given a random_state asks NumPy's global generator: the same in every run."""
    np.random.seed(20261120)  # noqa: NPY002 scikit-learn's convention


@pytest.fixture
def problem(rng):
    return make_rows(rng)


@pytest.fixture(autouse=True, scope="session")
def ctrl_c_is_heard():
    """Shells start jobs in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def data_folder():
    """Where the real data sets are; skips where they are not."""
    for place in (os.environ.get("PEGASOS_DATA"), Path(__file__).parents[2] / "shared" / "data"):
        if place and Path(place).is_dir():
            return Path(place)
    pytest.skip("real data sets not found: set PEGASOS_DATA to the folder that holds them")
