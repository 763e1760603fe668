"""The documentation site: ``python -m sphinx -W -b html docs docs/_build/html``, offline."""

import argparse
import inspect
import re
import sys
from pathlib import Path

from sphinx.util.inspect import stringify_signature

import pegasos
from pegasos import cli

HERE = Path(__file__).parent
GENERATED = HERE / "_generated"
sys.path.insert(0, str(HERE))  # of gallery_order
MARKDOWN = {
    "benchmarks.md": HERE.parent / "bench" / "README.md",
    "changelog.md": HERE.parent / "CHANGELOG.md",
    "security.md": HERE.parent / "SECURITY.md",
}

project = "pegasos"
author = "The pegasos developers"
copyright = author
version = release = pegasos.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # brings MathJax along: formulas need no network either
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_generated", "_templates", "examples"]
default_role = "py:obj"
smartquotes = False  # of values in docstrings, such as "sdca"
html_theme = "pydata_sphinx_theme"
html_title = "pegasos"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {page: [] for page in ("index", "quick_start", "coming_from")}  # no subpages

autodoc_member_order = "bysource"
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "within_subsection_order": "gallery_order.ByTask",
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 0,
    "write_computation_times": False,
    "capture_repr": (),
    "reset_modules": ("matplotlib", "gallery_order.colours"),
}


# ---- One page of reference for each class --------------------------------------------------------

#: What users call of classes that are no estimators; the package itself uses the rest.
MODEL = ["predict", "predict_proba", "decision_function", "save", "load", "to_estimator"]
autosummary_context = {
    "shown": {
        "pegasos.Blocks": ["in_memory", "targets"],
        "pegasos.LinearModel": MODEL,
        "pegasos.KernelModel": MODEL,
        "pegasos.plotting.Recorder": [],
    },
    # Metadata routing of scikit-learn, whose manual describes it.
    "hidden": [
        "__init__", "get_metadata_routing",
        "set_fit_request", "set_partial_fit_request", "set_score_request",
    ],
}  # fmt: skip


def signature_of_class(app, what, name, found, *_):
    """Parameters of ``__init__``, where ``__new__`` only refuses foreign ones; none of models."""
    if what != "class":
        return None
    if found in (pegasos.LinearModel, pegasos.KernelModel):  # which users do not make themselves
        return "", None
    return stringify_signature(inspect.signature(found), show_annotation=False), None


def own_method(app, what, name, found, options, lines):
    """`fit` means the method, where a class has one: a dot lets Sphinx look there first."""
    function = re.compile(r"(?<!`)`(fit|decision_function|load)`(?!`)")
    lines[:] = [function.sub(r"`.\1`", line) for line in lines]


# ---- Pages that are made of sources --------------------------------------------------------------


def c_manual():
    """Make a page of ``csrc/pegasos.h``, with a heading for each section and declaration."""
    header = (HERE.parent / "csrc" / "pegasos.h").read_text(encoding="utf-8")
    introduction, _, body = header.partition("#ifndef PEGASOS_H")
    body = body.partition('extern "C" {\n#endif\n')[2].rpartition("#ifdef __cplusplus")[0]
    page = [_heading("The manual, ``pegasos.h``", "="), _code(introduction)]
    _, *sections = re.split(r"^/\* -{4} (.+?) -+ \*/$", body, flags=re.MULTILINE)
    for title, section in zip(sections[::2], sections[1::2], strict=True):
        page.append(_heading(title, "-"))
        for block in section.strip().split("\n\n"):
            declarations = re.sub(r"/\*.*?\*/", "", block, flags=re.DOTALL)
            names = re.findall(r"\b(pegasos_\w+)\(", declarations)
            names += re.findall(r"^} (\w+);", declarations, flags=re.MULTILINE)
            names = names or re.findall(r"\b(PEGASOS_\w+) =", declarations)
            if names:
                page.append(_heading(", ".join(f"``{name}``" for name in names), "~"))
            page.append(_code(block))
    return "\n".join(page)


def _heading(title, line):
    return f"{title}\n{line * len(title)}\n"


def _code(text):
    indented = "\n".join(f"   {line}".rstrip() for line in text.strip().splitlines())
    return f".. code-block:: c\n\n{indented}\n"


def command_line_help():
    """What ``--help`` says, by command; that of the program itself is called ``pegasos``."""
    parser = cli._parser()
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return {name: sub.format_help() for name, sub in commands.choices.items()} | {
        "pegasos": parser.format_help()
    }


def generate(app):
    GENERATED.mkdir(exist_ok=True)
    pages = {f"help_{name}.txt": text for name, text in command_line_help().items()}
    pages["c_manual.rst"] = c_manual()
    for name, path in MARKDOWN.items():
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        # Links to files of the repository, which are no pages here, become their text.
        text = re.sub(r"(?<!!)\[([^\]]+)\]\((?!\w+:|#)[^)]*\)", r"\1", text)
        pages[name] = text.replace("](results/", "](../bench/results/")
    for name, text in pages.items():
        (GENERATED / name).write_text(text, encoding="utf-8")


def setup(app):
    app.connect("builder-inited", generate)
    app.connect("autodoc-process-signature", signature_of_class)
    app.connect("autodoc-process-docstring", own_method)
