"""The order of the gallery: from a first model to what fewer people need."""

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
