"""Whether a matrix is symmetric and positive semi-definite."""

import numpy as np

# Rows and columns that are compared at a time.
_ROWS, _COLUMNS = 64, 512
# Rounding explains an asymmetry of a matrix of up to this part of its largest number.
SYMMETRIC = 1e-4


def asymmetry(matrix: np.ndarray) -> tuple[tuple[int, int], float]:
    """The place where a square matrix is least symmetric, and the asymmetry there."""
    place, most = (0, 0), 0.0
    for i in range(0, len(matrix), _ROWS):
        rows = slice(i, i + _ROWS)
        for j in range(0, min(i + _ROWS, len(matrix)), _COLUMNS):
            columns = slice(j, min(j + _COLUMNS, i + _ROWS))
            difference = np.abs(matrix[rows, columns] - matrix[columns, rows].T)
            at = np.unravel_index(np.argmax(difference), difference.shape)
            if difference[at] > most:
                place, most = (i + int(at[0]), j + int(at[1])), difference[at]
    return place, float(most)


def ridge(matrix: np.ndarray) -> float:
    """The number that makes a matrix positive semi-definite, added to its diagonal; NaN if large.

    If a factorisation A = L L^T succeeds in floating point, A plus (n + 1) u trace(A) on its
    diagonal is positive semi-definite; u is the unit roundoff (Rump: Verification of positive
    definiteness, BIT 46 (2006) 433-452). A is the matrix plus, at most, its type's rounding error.
    """
    n, (_, skew) = len(matrix), asymmetry(matrix)
    trace, largest = float(matrix.trace(dtype=np.float64)), np.abs(matrix).max()
    if not (skew <= SYMMETRIC * largest and 0 < trace < np.inf):
        return np.nan
    symmetric = matrix.astype(np.float64)
    symmetric += symmetric.T
    symmetric /= 2
    diagonal = symmetric.diagonal().copy()
    least, most = (n + 1) * np.finfo(np.float64).eps * trace, np.finfo(matrix.dtype).eps * trace
    for added in (least, max(least, most)):
        symmetric[np.diag_indices(n)] = diagonal + added
        try:
            np.linalg.cholesky(symmetric)
        except np.linalg.LinAlgError:
            continue
        return added + least
    return np.nan
