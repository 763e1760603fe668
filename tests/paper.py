"""The paper's algorithm alone, for a fixed number of epochs: what many tests are about."""

import functools

import pegasos

PLAIN = {"solver": "pegasos", "tol": None, "max_iter": 20}

fit = functools.partial(pegasos.fit, **PLAIN)
linear = functools.partial(pegasos.PegasosClassifier, **PLAIN)
kernel = functools.partial(pegasos.KernelPegasosClassifier, **PLAIN)
