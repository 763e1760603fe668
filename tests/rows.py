"""Random rows in every layout and type that the core takes without a copy."""

import numpy as np
from scipy import sparse

LAYOUTS = ("dense", "csr32", "csr64", "csr32-64")
DTYPES = (np.float32, np.float64)


def convert(X, layout, dtype):
    """`X` in a layout; "csr32-64" has 32-bit indices and 64-bit row pointers."""
    if layout == "dense":
        return np.ascontiguousarray(X, dtype=dtype)
    matrix = sparse.csr_array(np.asarray(X, dtype=dtype))
    matrix.indices = matrix.indices.astype(np.int64 if layout == "csr64" else np.int32)
    matrix.indptr = matrix.indptr.astype(np.int32 if layout == "csr32" else np.int64)
    return matrix


def make_rows(rng, n=60, d=23, density=0.4):
    """Random rows, many entries zero, exact in float32; a row of zeros and labels +-1."""
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    X = X.astype(np.float32).astype(np.float64)
    X[3] = 0
    y = np.where(X @ rng.normal(size=d) + 0.5 * rng.normal(size=n) > 0, 1, -1)
    y[:2] = 1, -1
    return X, y
