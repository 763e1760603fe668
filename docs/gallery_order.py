"""The gallery: its colours, and its order, from a first model to what fewer people need."""

import matplotlib.pyplot as plt

from pegasos import plotting

ORDER = [
    "digits",
    "text",
    "calibration",
    "regularisation_path",
    "moons",
    "regression",
    "one_class",
    "several_labels",
    "costs",
    "partial_fit",
    "blocks",
    "cluster",
    "save_and_load",
    "use_from_c",
]


class ByTask:
    """A key for sphinx-gallery, which makes one for each folder of examples."""

    def __init__(self, folder):
        pass

    def __call__(self, name):
        return ORDER.index(name.removeprefix("plot_").removesuffix(".py"))


def colours(gallery, file):
    """Let examples draw in the colours of our displays, which colour-blind people tell apart."""
    plt.rcParams["axes.prop_cycle"] = plt.cycler(color=plotting._COLOURS)
