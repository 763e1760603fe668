"""The command line: ``pegasos train``, ``predict``, ``info`` and ``demo``."""

import argparse
import contextlib
import csv
import difflib
import functools
import inspect
import json
import os
import re
import shlex
import stat
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, TextIO

import numpy as np

import pegasos
from pegasos import _interrupts, kernels
from pegasos.problems import _multiclass, _validate
from pegasos.problems._losses import LOSSES, TARGET_LOSSES

_DATA_HELP = """\
DATA is LIBSVM/SVMlight text ("label index:value ..."), a table in CSV, Parquet
or .npy (numbers and a label in columns; a first line of CSV without numbers is
a header), or .npz (arrays X and y, or a CSR matrix saved by scipy.sparse and
y). Text may be compressed with gzip, bzip2 or xz. "-" is standard input. The
format is told from the name; --format overrides it.
"""

_UNKNOWN = (
    "objective unknown: the fit was interrupted or makes no certificate, or coefficients were set"
)

# With more problems, objectives are summed up in one line.
_MANY = 30

_EXAMPLES = {
    "train": """\
examples:
  pegasos train spam.svm.gz --C 0.5 -o spam.npz
  pegasos train spam.svm.gz --cv 5 -o spam.npz
  pegasos train digits.csv --label 0 --multi-class ovo --max-iter 50
  pegasos train digits.csv --label 0 --kernel rbf --gamma 0.02
  pegasos train prices.csv --task regression --epsilon 10 --cv 5
  pegasos train houses.parquet --task regression --label price --drop id --scale
  pegasos train spam.svm.gz --loss log_loss --validation new.svm -o spam.npz
  pegasos train usual.csv --task one-class --nu 0.05 --kernel rbf --label none
  pegasos train big.svm --checkpoint half.npz           # killed? then
  pegasos train big.svm --checkpoint half.npz --resume half.npz
""",
    "predict": """\
examples:
  pegasos predict spam.npz new.svm > labels.txt
  pegasos predict spam.npz new.svm --scores -o scores.csv
  pegasos predict spam.npz new.svm --proba              # trained with --loss log_loss
  pegasos predict spam.npz new.svm --json > all.json
  grep 2026 new.csv | pegasos predict spam.npz - --format csv
""",
    "info": """\
examples:
  pegasos info spam.npz
  pegasos info spam.npz --json
""",
}


_OUTPUT = "standard output"
_FORMATS = ("libsvm", "csv", "npy", "npz", "parquet")
_ZERO_BASED = {"auto": None, "yes": True, "no": False}

_CLASSES, _TARGETS = "--task classification", "--task regression"
#: Options of some machines only, and the options they need. An option that names a parameter of an
#: estimator is passed on if it was given; otherwise the parameter has its default.
_GO_WITH = {
    **dict.fromkeys(("class_weight", "multi_class"), _CLASSES),
    **dict.fromkeys(("C", "lam", "intercept", "cv", "validation"), f"{_CLASSES} or {_TARGETS}"),
    "epsilon": _TARGETS, "nu": "--task one-class",
    **dict.fromkeys(("gamma", "degree", "coef0", "cache_size"), "--kernel"),
    "cache": "--memory", "Cs": "--cv", "cv_effort": "--cv", "checkpoint_every": "--checkpoint",
    **dict.fromkeys(
        ("average", "batch_size", "project", "sampling"), "--solver pegasos or --n-steps"
    ),
}  # fmt: skip

#: Parameters of rows in files that have options, besides those of estimators.
_OF_ROWS = (
    "cache", "memory", "n_features", "format", "label_column", "drop", "header", "separator",
    "zero_based", "dtype", "task",
)  # fmt: skip
#: Parameters whose option has another name, and values whose option has words for them.
_OTHER_NAMES = {
    "random_state": "seed", "n_jobs": "jobs", "gammas": "gamma", "epsilons": "epsilon",
    "fit_intercept": "intercept", "penalize_intercept": "intercept", "label_column": "label",
    "dtype": "float32",
}  # fmt: skip
_WORDS: dict[str, dict[str, Any]] = {
    "average": {"none": False, "all": True}, "class_weight": {"none": None}, "tol": {"none": None},
    "fit_intercept": {"none": False, "penalized or free": True},
    "penalize_intercept": {"free": False, "penalized": True}, "project": {"given": True},
    "separator": {"tab": "\t"}, "zero_based": {"yes": True, "no": False},
    "dtype": {"given": "float32", "": "float64"},
}  # fmt: skip


class _Options(_validate.Wording):
    """Wording of messages with options in place of parameters: "--tol 0.1"."""

    for_units = "--cv without --Cs, which tries C in the units of the label"
    for_scale = "--scale"

    def parameter(self, name: str, *value: Any) -> str:
        from pegasos.estimators._parameters import PARAMETERS

        if name not in (*PARAMETERS, *_OF_ROWS):
            return "DATA" if name == "source" else super().parameter(name, *value)
        words = [f"{v:.4g}" if isinstance(v, float) else self.value(name, v) for v in value]
        return " ".join(
            [f"--{_OTHER_NAMES.get(name, name).replace('_', '-')}", *filter(None, words)]
        )

    def value(self, name: str, value: Any) -> str | None:
        for word, stands_for in _WORDS.get(name, {}).items():
            if type(value) is type(stands_for) and value == stands_for:
                return word
        if value is None or value is False or value == []:
            return None
        return shlex.quote(",".join(map(str, value)) if isinstance(value, list) else str(value))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pegasos",
        description="Train support vector machines, and tell how far each one can be from the "
        "optimum.",
        epilog="Start with `pegasos demo`. Help on a command: `pegasos train --help`.",
    )
    parser.add_argument("--version", action="version", version=f"pegasos {pegasos.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, run, add_options, files, help in (
        ("train", _train, _add_train_options, "DATA",
         "train a linear or kernel support vector machine and save it"),
        ("predict", _predict, _add_predict_options, "MODEL DATA",
         "predict labels or numbers with a saved model, one row a line"),
        ("info", _info, _add_info_options, "MODEL",
         "tell what a saved model is, and how good its fit was"),
        ("demo", _demo, _add_demo_options, "",
         "train on handwritten digits and draw what was learned"),
    ):  # fmt: skip
        sub = commands.add_parser(
            name,
            help=help,
            usage=f"%(prog)s [OPTION]... {files}".strip(),
            description=f"{help[0].upper()}{help[1:]}.\n\n"
            f"{_DATA_HELP if name in ('train', 'predict') else ''}",
            epilog=_EXAMPLES.get(name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.set_defaults(run=run, parser=sub)
        add_options(sub)
    return parser


def _add_train_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--task", choices=("classification", "regression", "one-class"), default="classification",
        help="what the label is: a class (default), or a number to be predicted; one-class learns "
        "to tell outliers, without labels",
    )  # fmt: skip
    _add_data_options(sub)
    sub.add_argument(
        "-o", "--output", default="model.npz", metavar="FILE", help="the model (default model.npz)"
    )
    _add_regularisation_options(sub.add_argument_group("regularisation"))
    for title, add_options in (
        ("loss and solver", _add_machine_options), ("kernel", _add_kernel_options),
    ):  # fmt: skip
        # Options that are not given have no attribute: estimators have their own defaults.
        add_argument = sub.add_argument_group(title).add_argument
        add_options(functools.partial(add_argument, default=argparse.SUPPRESS))
    _add_run_options(sub.add_argument_group("run").add_argument)


def _add_predict_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("model", metavar="MODEL", help="file written by `pegasos train`")
    _add_data_options(sub, "-1, or by name the column that was the label in training")
    sub.add_argument("-o", "--output", default="-", metavar="FILE",
                     help="write here, not to standard output")  # fmt: skip
    instead = sub.add_mutually_exclusive_group()
    instead.add_argument(
        "--scores", action="store_true",
        help="scores in place of labels: CSV with a header and a column for each class; of two "
        "classes a single one, where positive scores mean the class in its header",
    )  # fmt: skip
    instead.add_argument(
        "--proba", action="store_true",
        help="probabilities in place of labels: CSV with a header and a column for each class (of "
        "a model trained with --loss log_loss or modified_huber)",
    )  # fmt: skip
    sub.add_argument(
        "--json", action="store_true",
        help="one JSON object: predictions, scores, probabilities if there are some, and metrics "
        "if there are labels",
    )  # fmt: skip
    sub.add_argument("-q", "--quiet", action="store_true", help="no report of metrics")


def _add_info_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("model", metavar="MODEL", help="file written by `pegasos train`")
    sub.add_argument("--json", action="store_true", help="as one JSON object")
    sub.add_argument(
        "--weights", type=_integer, default=5, metavar="N",
        help="how many of the largest weights of a linear model to show (default 5), each after "
        "the name of its feature, or its number as the training file counts",
    )  # fmt: skip


def _add_demo_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "-o", "--output", default="pegasos-demo.svg", metavar="FILE",
        help="the picture (default pegasos-demo.svg), which any browser shows; needs matplotlib",
    )  # fmt: skip


def _add_data_options(sub: argparse.ArgumentParser, label: str = "-1, the last") -> None:
    sub.add_argument("data", metavar="DATA", help="file with the rows")
    add = sub.add_argument_group("reading DATA").add_argument
    add("--format", choices=_FORMATS, help="format of DATA")
    add(
        "--label", type=_column, default=-1, metavar="COLUMN", dest="label_column",
        help="tables: name of the column of the label, or its number from 0, or negative from the "
        f"end (default {label}). Any format: none, there is no label",
    )  # fmt: skip
    add(
        "--drop", type=_column, action="append", default=[], metavar="COLUMN",
        help="tables: name or number of a column to leave out; may be repeated",
    )  # fmt: skip
    add(
        "--separator", type=_separator, metavar="CHARACTER",
        help="CSV: the character between fields, such as ';' or tab (default: comma, semicolon or "
        "tab, as in the first line)",
    )  # fmt: skip
    add(
        "--header", choices=("auto", "yes", "no"), default="auto",
        help="CSV: whether the first line is a header (default auto: if it has no numbers, or "
        "columns are chosen by name)",
    )  # fmt: skip
    add(
        "--zero-based", choices=("auto", "yes", "no"), default="auto",
        help="LIBSVM: whether features are counted from 0 (default auto: if there is a feature "
        "0; a model remembers)",
    )  # fmt: skip


def _add_regularisation_options(group: Any) -> None:
    one = functools.partial(
        group.add_mutually_exclusive_group().add_argument, default=argparse.SUPPRESS, type=_decimal
    )
    one("--C", metavar="C", help="weight of the losses; larger fits closer (default 1)")
    one("--lam", metavar="L", help="regularisation lambda = 1/(C n) in place of C")
    one("--nu", metavar="NU", help="with --task one-class, in place of C: at most this fraction of "
        "the rows are outliers (default 0.5)")  # fmt: skip
    group.add_argument(
        "--cv", type=_integer, metavar="FOLDS",
        help="choose C by cross-validation with this number of folds, for the best accuracy or R2; "
             "with a kernel, choose gamma as well unless --gamma is given",
    )  # fmt: skip
    group.add_argument(
        "--Cs", metavar="K",
        type=_option("an integer or numbers such as 0.1,1,10", _count_or_list),
        help="with --cv: the C to try, such as 0.1,1,10 or 1.0; or, as an integer, how many from "
        "1e-4 to 10 (default 10; for epsilon_insensitive, times about the standard deviation of "
        "the label)",
    )  # fmt: skip
    group.add_argument(
        "--cv-effort", type=_number_or("auto"), metavar="E", default=argparse.SUPPRESS,
        help="with --cv: how well its machines are trained: to a relative duality gap such as "
        "0.05, for a number of epochs such as 5, or auto (default). With --memory, a number bounds "
        "the passes over the rows",
    )  # fmt: skip


def _add_machine_options(add: Callable[..., Any]) -> None:
    add("--loss", choices=(*LOSSES, *TARGET_LOSSES),
        help="classification: hinge (default), squared_hinge, or one that has probabilities, "
             "modified_huber or log_loss. Regression: epsilon_insensitive (default), "
             "squared_epsilon_insensitive, huber or squared_error")  # fmt: skip
    add("--epsilon", type=_decimal, metavar="E",
        help="of the loss of regression, in the units of the label (default 0.1)")  # fmt: skip
    add("--class-weight", choices=("none", "balanced"),
        help="balanced: all classes have equal weight, however rare they are")  # fmt: skip
    add("--solver", choices=("auto", "pegasos", "sdca", "newton"),
        help="pegasos is the published algorithm; sdca suits many features, newton few (default "
             "auto: the data decide)")  # fmt: skip
    add("--tol", type=_number_or("auto", "none"), metavar="G",
        help="stop at this relative duality gap, at most 1 (default auto: 1e-3, and less for small "
             "data; none: stop at --max-iter)")  # fmt: skip
    add("--max-iter", type=_integer, metavar="E",
        help="most passes over the data (default 1000); Newton's method completes its last "
             "iteration")  # fmt: skip
    add(
        "--n-steps",
        type=_integer,
        metavar="T",
        help="exact number of steps, in place of --max-iter",
    )
    add("--batch-size", type=_integer, metavar="K", help="of Pegasos: rows per step (default 1)")
    add("--sampling", choices=("permutation", "cyclic", "uniform"),
        help="of Pegasos: a new permutation of the rows in every pass (default), one permutation, "
             "or draws with replacement")  # fmt: skip
    add("--project", action="store_true",
        help="of Pegasos: after each step, project on a ball that holds the optimum")  # fmt: skip
    add("--average", choices=("none", "all", "suffix"),
        help="of Pegasos: output the last iterate (default), the average of all, or of the last "
             "half. Options of Pegasos go with --solver pegasos or --n-steps")  # fmt: skip
    add("--intercept", choices=("none", "penalized", "free"),
        help="none, penalised like a weight (default), or free")  # fmt: skip
    add("--multi-class", choices=("ovr", "ovo", "crammer_singer"),
        help="one-vs-rest (default), one-vs-one, or one joint problem of all classes (without a "
        "kernel)")  # fmt: skip


def _add_kernel_options(add: Callable[..., Any]) -> None:
    add("--kernel", choices=kernels.stored_names(),
        help="train a kernel machine; rbf is Gaussian (default: a linear machine)")  # fmt: skip
    add("--gamma", type=_number_or("scale", "auto"), metavar="G",
        help="kernel parameter: a number, scale (default: 1 / (d Var X)) or auto (1 / d); by "
        "default, --cv tries scale, a tenth and ten times it")  # fmt: skip
    add("--degree", type=_integer, help="of the polynomial kernel (default 3)")
    add("--coef0", type=_decimal, help="of the polynomial and sigmoid kernels (default 0)")
    add("--cache-size", type=_decimal, metavar="MB",
        help="room for columns of the kernel matrix that are kept (default 1000)")  # fmt: skip


def _add_run_options(add: Callable[..., Any]) -> None:
    add("--scale", action="store_true",
        help="standardise features: subtract the mean and divide by the standard deviation of all "
             "rows of DATA; features of sparse rows are divided by their largest absolute values. "
             "The model keeps these numbers. With --memory, scaled rows are written to --cache as "
             "well")  # fmt: skip
    add(
        "--n-features", type=_integer, metavar="D", help="number of features, if DATA does not tell"
    )
    add("--float32", action="store_true", help="store and train in single precision")
    add("--memory", metavar="SIZE",
        help="train on rows that are larger than memory, with at most SIZE, such as 2G, in memory: "
             "they are first written to --cache, in random order")  # fmt: skip
    add("--cache", metavar="FOLDER",
        help="with --memory: folder of the rows, which later runs use again (default DATA.blocks)"
        )  # fmt: skip
    add("--seed", type=_integer, default=0, metavar="S", dest="random_state",
        help="seed for the order of rows (default 0)")  # fmt: skip
    add("--jobs", type=_integer, metavar="N", dest="n_jobs",
        help="threads (default: 1 for linear machines, as many as BLAS has for kernel machines); "
             "results do not depend on it")  # fmt: skip
    add("--checkpoint", metavar="FILE",
        help="write the model so far to FILE now and then, on Ctrl-C and at the end; FILE is "
             "always whole (with --cv and --memory, first the search so far)")  # fmt: skip
    add("--checkpoint-every", type=_decimal, metavar="S",
        help="seconds between checkpoints (default 60)")  # fmt: skip
    add("--resume", metavar="FILE",
        help="go on from a checkpoint, with the same DATA and options")  # fmt: skip
    add("--validation", metavar="FILE",
        help="tell how good the model is on the rows of FILE, in the format of DATA")  # fmt: skip
    add("-q", "--quiet", action="store_true", help="no progress, no report")
    add("--json", action="store_true", help="the report as one JSON object on standard output")


def _column(text: str) -> int | str | None:
    """ "none", a number or a name, for argparse."""
    if text == "none":
        return None
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def _separator(text: str) -> str:
    """A character, or "tab", for argparse."""
    return "\t" if text in ("tab", "\\t") else text


def _number(text: str) -> int | float:
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def _option(wanted: str, parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """`parse` for argparse, with an error that says what is wanted."""

    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be {wanted}, got {text!r}") from None

    return parsed


_integer, _decimal = _option("an integer", int), _option("a number", _number)


def _number_or(*words: str) -> Callable[[str], Any]:
    """A parser of numbers for argparse, which keeps these words."""
    wanted = f"a number, {' or '.join(words)}"
    return _option(wanted, lambda text: text if text in words else _number(text))


def _count_or_list(text: str) -> int | list[float]:
    """An integer, or numbers between commas."""
    numbers = [_number(C) for C in text.split(",")]
    return numbers[0] if len(numbers) == 1 and isinstance(numbers[0], int) else numbers


def _class(args: argparse.Namespace, ending: str = "") -> Any:
    """The class of estimators, or of searches over them, for these options."""
    kind = {"regression": "Regressor", "one-class": "OneClass"}.get(args.task, "Classifier")
    return getattr(pegasos, f"{'Kernel' if 'kernel' in args else ''}Pegasos{kind}{ending}")


def _machines(args: argparse.Namespace) -> tuple[Any, Any]:
    """The estimator for these options, and the search over its class, or None."""
    given: dict[str, Any] = {k: value for k, value in vars(args).items() if value is not None}
    of_loss = {"loss": _CLASSES if given.get("loss") in LOSSES else _TARGETS}
    there = {f"--{name}".replace("_", "-") for name in given}
    there |= {f"--{name} {given.get(name)}" for name in ("solver", "task")}
    for name, what in (_GO_WITH | of_loss).items():
        if name in given and there.isdisjoint(what.split(" or ")):
            other = what.split()[0][2:]
            got = f", got --{other} {given[other]}" if other in given else ""
            value = f" {given[name]}" if name == "loss" else ""
            raise ValueError(f"--{name.replace('_', '-')}{value} goes with {what}{got}")
    if {"kernel", "memory"} <= given.keys():
        raise ValueError(
            "--kernel does not go with --memory: kernel machines need all rows in memory. In "
            "Python, make Blocks of the features of sklearn.kernel_approximation.Nystroem"
        )
    if "kernel" in given and given.get("multi_class") == "crammer_singer":
        raise ValueError("--multi-class must be ovr or ovo with --kernel, got crammer_singer")
    given = vars(args) | {"verbose": int(not args.quiet and not _is_pipe(sys.stderr))}
    if "intercept" in given:
        given["fit_intercept"] = args.intercept != "none"
        given["penalize_intercept"] = args.intercept != "free"
    for name in ("average", "class_weight", "tol"):
        if given.get(name) in _WORDS[name]:
            given[name] = _WORDS[name][given[name]]
    machine = _made(_class(args), given)
    if args.cv is None:
        return machine, None
    kept = () if args.memory is not None else ("checkpoint", "resume")
    for name in ("C", "lam", *kept):
        if given.get(name) is not None:
            rest = "; with --memory it does" if name in kept else ""
            raise ValueError(
                f"--{name} does not go with --cv, which makes many fits and chooses C{rest}"
            )
    lists = {f"{name}s": [given[name]] for name in ("gamma", "epsilon") if name in given}
    return machine, _made(_class(args, "CV"), given | lists | {"refit": False})


def _made(kind: Any, given: dict[str, Any]) -> Any:
    """An estimator or a search of this class, with checked parameters from `given`."""
    from pegasos.estimators import _parameters

    names = inspect.signature(kind).parameters
    made = kind(**{name: value for name, value in given.items() if name in names})
    _parameters.check(made)
    return made


def _report_search(say: Callable[..., None], search: Any) -> None:
    from sklearn.base import is_regressor

    results = search.cv_results_
    names = {"C": "param_C", "lambda": "param_lam", "gamma": "param_gamma"}
    columns = {name: results[key] for name, key in names.items() if key in results}
    score = "R2" if is_regressor(search) else "accuracy"
    if getattr(search, "class_weight", None) is not None:
        score += ", weighted by class,"
    head = "  ".join(f"{name:>10}" for name in columns)
    say(f"{head}  mean {score} of {search.n_splits_} folds, standard error")
    for k, point in enumerate(results["params"]):
        rest = f" +- {results['standard_error'][k]:.4f}"
        if results["dropped"][k]:
            rest = "  in the first fold: dropped"
        elif point == search.best_params_:
            rest += "  best"
        values = [column[k] for column in columns.values()]
        texts = [f"{v:>10}" if isinstance(v, str) else f"{v:>10.3g}" for v in values]
        say("  ".join([*texts, f"{results['mean_test_score'][k]:.4f}{rest}"]))
    if "max_iter" in search.best_params_:
        say(f"best after {search.best_params_['max_iter']} epochs: more epochs score less")
    means, error = results["mean_test_score"], results["standard_error"][search.best_index_]
    for name, end in search.edges_.items():
        is_other = [point[name] != search.best_params_[name] for point in results["params"]]
        if search.best_score_ - np.nanmax(means[is_other]) <= error / 10:
            continue  # the difference may be chance
        option = "--Cs" if name == "C" else f"--{name}"
        others = "larger" if end == "largest" else "smaller"
        say(f"the {end} {name} of the grid is best: {others} ones ({option}) may score higher")


def _layout(args: argparse.Namespace) -> dict[str, Any]:
    """Options for reading files: arguments of `pegasos.io._readers.Layout`."""
    from pegasos.io import _readers

    if None in args.drop:
        raise ValueError("--drop needs a column, got none")
    names = ("format", "label_column", "drop", "header", "separator")
    layout = {name: getattr(args, name) for name in names}
    format = _readers.Layout(**layout).format_of(args.data)
    if args.zero_based != "auto" and format != "libsvm":
        raise ValueError(f"--zero-based is for LIBSVM text, and the format of DATA is {format!r}")
    return layout


def _is_table(args: argparse.Namespace) -> bool:
    """Whether DATA has columns, so that --label can name one."""
    from pegasos.io import _readers

    return _readers.Layout(**_layout(args)).format_of(args.data) not in ("libsvm", "npz")


def _n_problems(args: argparse.Namespace, search: Any, n_classes: int) -> int:
    """The number of problems that are trained at a time, if there are `n_classes` classes."""
    count = 1
    if args.task == "classification" and n_classes > 2:
        count = _multiclass.count(n_classes, vars(args).get("multi_class", "ovr"))
    if search is None:
        return count
    Cs = 10 if search.Cs is None else search.Cs
    return count * search.cv * (Cs if isinstance(Cs, int) else len(set(Cs)))


def _training_rows(args: argparse.Namespace, search: Any, say: Callable[..., None]) -> Any:
    """The rows of DATA as `pegasos.io._readers.Rows`; X is `Blocks` with --memory."""
    from pegasos.io import _readers

    layout, is_one_class = _layout(args), args.task == "one-class"
    counted = {"n_features": args.n_features, "zero_based": _ZERO_BASED[args.zero_based]}
    if args.memory is not None:
        from pegasos.io._blocks import BlocksToTrain

        cache = f"{args.data}.blocks" if args.cache is None else args.cache
        dtype = "float32" if args.float32 else "float64"
        blocks = BlocksToTrain(
            args.data, cache=cache, memory=args.memory, dtype=dtype,
            random_state=args.random_state, **layout, **counted,
            n_problems=functools.partial(_n_problems, args, search), task=args.task,
        )  # fmt: skip
        known = blocks.zero_based, blocks.feature_names, blocks._label_name
        return _readers.Rows(blocks, None, *known)
    rows = _readers.read(
        args.data, targets=args.task == "regression", labels_optional=is_one_class,
        **layout, **counted,
    )  # fmt: skip
    if args.float32:
        rows = rows._replace(X=rows.X.astype(np.float32))
    if is_one_class and rows.y is not None:
        say("labels are ignored" + "; without labels, say --label none" * _is_table(args))
        rows = rows._replace(y=None, label_name=None)
    return rows


def _scaled(X: Any) -> tuple[Any, dict[str, Any]]:
    """Scaled rows, or `Blocks` of them, with the numbers by which features are scaled."""
    from scipy import sparse
    from sklearn.preprocessing import MaxAbsScaler, StandardScaler

    from pegasos.io._model import standardized

    is_on_disk = isinstance(X, pegasos.Blocks)
    is_sparse = X.is_sparse if is_on_disk else sparse.issparse(X)
    scaler: Any = MaxAbsScaler() if is_sparse else StandardScaler()
    for rows, *_ in X if is_on_disk else [(X,)]:
        scaler.partial_fit(rows)
    scaling = {"center": getattr(scaler, "mean_", None), "scale": scaler.scale_}
    if not is_on_disk:
        return standardized(X, **scaling), scaling

    def pieces() -> Iterator[tuple[Any, ...]]:
        for rows, *others in X:
            yield standardized(rows, **scaling), *others

    folder = os.path.join(X.cache, "scaled")
    purpose = {"n_problems": X._n_problems, "task": X._task}
    return type(X)(pieces, cache=folder, memory=X.memory, dtype=X.dtype, **purpose), scaling


def _train(args: argparse.Namespace) -> int:
    from pegasos.io import _blocks, _checkpoint, _readers

    say: Callable[..., None] = (lambda *_: None) if args.quiet else _say
    if args.output == "-":
        raise ValueError("a model is written to a file: say -o FILE")
    # A model has no state of a fit, so it must not replace the checkpoint that training needs.
    _check_output(args.output, args.data, args.validation, args.resume)
    _check_output(args.checkpoint, args.data, args.validation)
    places = [os.path.realpath(path) for path in (args.output, args.checkpoint) if path is not None]
    if len(places) > len(set(places)):
        raise ValueError(f"{args.checkpoint} is the checkpoint: write the model to another file")
    if args.output.endswith((".joblib", ".onnx", ".pickle", ".pkl")):
        _warn(f"{args.output} will be an .npz archive, whatever its name is: say -o FILE.npz")
    machine, search = _machines(args)  # checks options before files are read or written
    if args.memory is not None:
        _blocks.n_bytes("memory", args.memory)
    if args.resume is not None:
        _checkpoint.check_file(args.resume)
    say(f"reading {args.data}")
    X, y, zero_based, names, label_name = _training_rows(args, search, say)
    held_out = None
    if args.validation is not None:
        held_out = _readers.read(
            args.validation, targets=args.task == "regression", names=names,
            label_name=label_name, n_features=X.shape[1], zero_based=zero_based, **_layout(args),
        )  # fmt: skip
    if args.task == "classification":
        classes = X.classes if y is None else np.unique(y)
        _check_classes(classes, X.shape[0], is_table=_is_table(args))
    kept = f", kept in {X.cache}" if isinstance(X, pegasos.Blocks) else ""
    say(f"{X.shape[0]} rows, {_validate.counted(X.shape[1], 'feature')}{kept}")
    of_file: dict[str, Any] = {
        "zero_based": zero_based, "feature_names": None if names is None else np.array(names),
        "label_name": label_name,
    }  # fmt: skip
    X, scaling = _scaled(X) if args.scale else (X, {"center": None, "scale": None})
    if scaling["center"] is not None and args.task == "one-class" and "kernel" not in args:
        raise ValueError(
            "--scale centres the rows, and no hyperplane separates rows around the origin from it: "
            "leave out --scale, or say --kernel rbf"
        )
    began = time.perf_counter()
    checkpoints, resume = None, args.resume
    if args.checkpoint is not None:
        every = 60.0 if args.checkpoint_every is None else args.checkpoint_every
        checkpoints = args.checkpoints = _checkpoint.Checkpoints(args.checkpoint, every, X, y)
    if resume is not None:
        say(f"going on from {resume}")
    if search is not None:
        search._checkpoints = checkpoints
        if resume is not None and not _checkpoint.resume_search(search, resume, X, y):
            resume = None  # the search was not over, so there is no state of the last fit
        search.fit(X, y)
        _report_search(say, search)
        machine.set_params(**search.best_params_)
    machine._of_file = of_file | scaling
    is_whole = _fitted(machine, X, y, checkpoints, resume)
    model = machine.to_model()
    weights = model.coef if isinstance(model, pegasos.LinearModel) else model.dual_coef
    is_begun = weights.any(axis=1)
    if not is_whole and not (is_begun.any() and (is_begun | (model.n_steps > 0)).all()):
        of = " of some classes or outputs" if is_begun.any() else ""
        raise KeyboardInterrupt(f"nothing was learned yet{of}: no model is written")
    model.save(args.output)
    if not is_whole:
        raise KeyboardInterrupt(f"the model so far is saved to {args.output}")
    seconds = time.perf_counter() - began
    say(f"trained {model} in {seconds:.2f} s")
    _report(say, model)
    machine._of_file = of_file  # without scaling, because X is scaled
    told = {"seconds": seconds, "rows": X.shape[0], "written_to": args.output}
    known = y if args.memory is None else X.targets()[0]
    told |= _measured(say, machine, model, X, known, held_out)
    say(f"model saved to {args.output}")
    if args.json:
        if search is not None:
            results = search.cv_results_
            names = "mean_test_score", "standard_error"
            points = zip(results["params"], *(results[k].tolist() for k in names), strict=True)
            told["search"] = [
                point | {"score": score, "standard_error": error, "best": k == search.best_index_}
                for k, (point, score, error) in enumerate(points)
            ]
        _print_json(_about(model) | told)
    return 0


def _check_classes(classes: Any, n_rows: int, *, is_table: bool) -> None:
    """Refuse a single class and targets of regression as labels; warn of labels that may be so."""
    other = ["--label if another column has the labels"] * is_table
    if classes is not None and len(classes) == 1:
        told = f"all rows have the label {classes[0]}, but two are needed"
        raise ValueError(": say ".join([told, *other]))
    if classes is None or classes.dtype.kind not in "iuf":
        return
    hints = ", ".join([*other, "--task regression if they are quantities"])
    fractions = classes[classes % 1 != 0]
    if len(fractions):
        raise ValueError(f"labels such as {fractions[0]:g} are no classes: say {hints}")
    if _MANY < len(classes) > n_rows / 5:
        told = f"there are {len(classes)} numbers as labels of {n_rows} rows"
        if len(classes) > n_rows / 2:
            raise ValueError(f"{told}: say {hints}")
        hint = "if they are quantities, say --task regression"
        warnings.warn(f"{told}, and each is a class: {hint}", stacklevel=2)
        warnings.filterwarnings("ignore", "The number of unique classes")  # the same warning


def _measured(
    say: Callable[..., None], machine: Any, model: Any, X: Any, y: Any, held_out: Any
) -> dict[str, Any]:
    """Report and return metrics: of training rows by a machine, of others by its model."""
    from pegasos.io import _metrics

    scores = machine._problem_scores(X)
    told = {"training": _metrics.measured(say, "training ", machine.to_model(), y, scores)}
    if held_out is not None:
        scores = model._problem_scores(held_out.X)
        told["validation"] = _metrics.measured(say, "validation ", model, held_out.y, scores)
        _metrics.say_tables(say, told["validation"])
    return told


def _fitted(machine: Any, X: Any, y: Any, checkpoints: Any, resume: str | None) -> bool:
    """Fit a machine, with checkpoints if given; False if Ctrl-C ended the fit."""
    from pegasos.io import _checkpoint

    if resume is not None:
        _checkpoint.resume(machine, resume, X, y)
    if checkpoints is not None:
        machine.warm_start = True  # so that the fit keeps its state
        machine._checkpoints = checkpoints
    try:
        machine.fit(X, y)
    except KeyboardInterrupt:
        if not hasattr(machine, "intercept_"):
            raise  # nothing was learned yet
        return False
    return True


def _report(say: Callable[..., None], model: Any) -> None:
    if hasattr(model, "dual_coef"):
        say(f"{len(model.support)} support vectors")
    objectives, gaps = model.objective, model.duality_gap
    if len(objectives) > _MANY:
        say(
            f"objectives {objectives.min():.4g} to {objectives.max():.4g}, each "
            f"{_bound(gaps.max())}  ({len(objectives)} problems)"
        )
        return
    for k, (objective, gap) in enumerate(zip(objectives, gaps, strict=True)):
        if np.isnan(objective):  # after few steps on many rows, some of which were never read
            break
        say(_certificate(objective, gap, model._problem_name(k)))


def _certificate(objective: float, gap: float, name: str) -> str:
    known = "unknown" if np.isnan(objective) else f"{objective:.6g}"
    bound = "" if np.isnan(gap) else f", {_bound(gap)}"
    return f"objective {known}{bound}" + (f"  ({name})" if name else "")


def _bound(gap: float) -> str:
    return f"at most {gap:.2g} above the optimum" if gap else "the optimum up to rounding"


def _about(model: Any) -> dict[str, Any]:
    """The description of a model."""
    names = [model._problem_name(k) for k in range(model._n_problems)]
    numbers = [model.objective, model.duality_gap, model.n_steps]
    if model.multi_class == "crammer_singer" and len(names) > 1:  # one objective for all classes
        names = [f"class {label}" for label in model.classes]
        numbers = [np.repeat(of, len(names)) for of in numbers]
    classes = None if model.classes is None else model.classes.tolist()
    told: dict[str, Any] = {
        "model": str(model),
        "format": model._FORMAT,
        "version": model.version,
        "classes": classes,
        "features": model.n_features,
        "label": model.label_name,
        "loss": model.loss,
        "epsilon": model.epsilon,
        "lam": model.lam,
        "scaled": None if model.scale is None else True,
        "kernel": getattr(model, "kernel", None),
        "support_vectors": len(model.support) if hasattr(model, "support") else None,
        "problems": [
            {"name": name, "objective": objective, "gap": gap, "steps": steps}
            for name, objective, gap, steps in zip(
                names, *map(np.ndarray.tolist, numbers), strict=True
            )
        ],
    }  # fmt: skip
    return {name: value for name, value in told.items() if value is not None}


def _info(args: argparse.Namespace) -> int:
    _validate.integer("--weights", args.weights, at_least=0)
    model = pegasos.load(args.model)
    told = _about(model)
    if isinstance(model, pegasos.LinearModel) and args.weights > 0:
        names: Any = model.feature_names
        if names is None:  # use numbers, counted as in the training file
            names = np.arange(model.n_features) + (model.zero_based is False)
        for problem, weights in zip(told["problems"], model.coef, strict=True):
            largest = np.argsort(-np.abs(weights), kind="stable")[: args.weights]
            problem["largest_weights"] = {str(names[j]): float(weights[j]) for j in largest}
    if args.json:
        _print_json(told)
        return 0
    print(*(f"{name}: {value}" for name, value in told.items() if name != "problems"), sep="\n")
    for problem in told["problems"]:
        line = _certificate(problem["objective"], problem["gap"], problem["name"])
        print(line.replace("objective unknown", _UNKNOWN))
        if largest := problem.get("largest_weights"):
            shown = ", ".join(f"{name} {weight:.4g}" for name, weight in largest.items())
            print(f"  largest weights: {shown}")
    sys.stdout.flush()
    return 0


def _json(told: dict[str, Any]) -> str:
    # JSON has no NaN, so numbers that are not known become null.
    known = json.loads(json.dumps(told, default=str), parse_constant=lambda _: None)
    return json.dumps(known, indent=1)


def _check_json(args: argparse.Namespace) -> None:
    """Refuse --json if standard output is closed, before a model is trained."""
    if vars(args).get("json") and sys.stdout is None:
        raise ValueError(f"{_OUTPUT} is closed: leave --json out")


def _print_json(told: dict[str, Any]) -> None:
    _write("-", lambda file: print(_json(told), file=file))


def _predict(args: argparse.Namespace) -> int:
    from pegasos.io import _metrics, _readers

    if args.output != "-":
        _check_output(args.output, args.data, args.model)
    elif sys.stdout is None:
        raise ValueError(f"{_OUTPUT} is closed: say -o FILE")
    model = pegasos.load(args.model)
    task = "regression" if model._has_targets else "one-class"
    if args.proba and (model._has_targets or model.multi_class == "one_class"):
        raise ValueError(
            f"--proba is for classes, and {args.model} was trained with --task {task}: leave it out"
        )
    if args.proba and not hasattr(model, "predict_proba"):
        raise ValueError(
            f"--proba needs a model with --loss log_loss or modified_huber, but "
            f"{args.model} was trained with --loss {model.loss}"
        )
    known = _ZERO_BASED[args.zero_based]
    if known is None:
        known = model.zero_based
    elif model.zero_based is (not known):
        warnings.warn(
            f"features of {args.data} are counted from {int(not known)} as told, but the model was "
            f"trained on text that counts them from {int(known)}",
            stacklevel=2,
        )
    X, y, zero_based, *_ = _readers.read(
        args.data, label_name=model.label_name, n_features=model.n_features, labels_optional=True,
        names=None if model.feature_names is None else model.feature_names.tolist(),
        zero_based=known, targets=model._has_targets, **_layout(args),
    )  # fmt: skip
    if zero_based is False and known is None and not X[:, [-1]].nnz:
        warnings.warn(
            f"{args.data} has neither a feature 0 nor a feature {model.n_features}: features are "
            "taken to be counted from 1; say --zero-based yes if they are counted from 0",
            stacklevel=2,
        )
    of_problems = model._problem_scores(X)
    scores = model._class_scores(of_problems)
    predicted = model._predictions_of(scores)
    told: dict[str, Any] = {}
    lines: list[str] = []  # printed after the predictions are written
    if y is not None or model.multi_class == "one_class":
        told = _metrics.measured(lines.append, "", model, y, of_problems)
    names = _columns(model, scores)
    if args.json:
        found = {"predictions": predicted.tolist(), "scores": _by_name(names, scores)}
        if hasattr(model, "predict_proba"):
            found["probabilities"] = _by_name(model.classes, model._probabilities(of_problems))
        text = _json(found | ({"metrics": told} if told else {}))
        _write(args.output, lambda file: print(text, file=file))
    elif args.proba:
        _write(args.output, _table(model._probabilities(of_problems), model.classes))
    else:
        _write(args.output, _table(scores, names) if args.scores else _table(predicted))
    if not args.quiet:
        _say(*lines) if lines else None
        _metrics.say_tables(_say, told)
    return 0


def _columns(model: Any, scores: np.ndarray) -> Any:
    """Names of the columns of scores."""
    n = 1 if scores.ndim == 1 else scores.shape[1]
    if model._has_targets or model.multi_class == "one_class":
        return [model._problem_name(k) or "score" for k in range(n)]
    return model.classes[-n:]


def _by_name(names: Any, numbers: np.ndarray) -> dict[str, Any]:
    columns = numbers.reshape(len(numbers), -1).T.tolist()
    return {str(name): column for name, column in zip(names, columns, strict=True)}


def _check_output(path: str | None, *read: str | None) -> None:
    """Raise unless `path` can be written to without overwriting files that are `read`."""
    from pegasos.io import _archive

    if path is None:
        return
    _archive.check_writable(path)
    for other in filter(None, read):
        if os.path.isfile(path) and os.path.exists(other) and os.path.samefile(path, other):
            raise ValueError(f"{path} is read, and would be overwritten: write to another file")


def _table(numbers: np.ndarray, names: Any = None) -> Callable[[IO[str]], None]:
    """A function that writes each row as a line; with names, as CSV with a header."""

    def write(file: IO[str]) -> None:
        if names is not None:
            csv.writer(file, lineterminator="\n").writerow(map(str, names))
        form = "%.9g" if numbers.dtype.kind == "f" else "%s"
        np.savetxt(file, numbers, form, delimiter=" " if names is None else ",")

    return write


def _write(path: str, write: Callable[[IO[str]], None]) -> None:
    """Write to a file, or to standard output."""
    from pegasos.io import _archive

    if path != "-":
        with _archive.replacing(path, "w") as file:
            write(file)
        return
    try:
        write(sys.stdout)
        sys.stdout.flush()
    except OSError as error:
        error.filename = _OUTPUT
        raise


def _demo(args: argparse.Namespace) -> int:
    from pegasos.io import _demo

    _demo.run(args.output)
    return 0


def _is_pipe(stream: TextIO) -> bool:
    """Whether another program reads this stream and needs no progress."""
    with contextlib.suppress(OSError, ValueError):
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    return False


def _say(*words: object) -> None:
    """Print to standard error, if it is open."""
    try:
        # In one call, so that lines of standard output do not split it.
        sys.stderr.write(" ".join(map(str, words)) + "\n")
        sys.stderr.flush()
    except OSError:
        _let_go(sys.stderr)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    _say("pegasos: warning:", " ".join(str(message).split()))


def _let_go(stream: TextIO) -> None:
    """Discard what is still buffered for a stream and cannot be written."""
    with contextlib.suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    args, unknown = _parser().parse_known_args(arguments)
    if unknown:
        # The value of an unknown option was taken for DATA, and DATA is left over.
        unknown = [word for word in unknown if word.startswith("-")] or unknown
        options = re.findall(r"--[\w-]+", args.parser.format_help())
        near = difflib.get_close_matches(unknown[0].partition("=")[0], options, 1, cutoff=0.7)
        hint = f"did you mean {near[0]}?" if near else f"{args.parser.prog} --help has the options"
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}; {hint}")
    if sys.stderr is None:  # closed
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 open until the process ends
    with warnings.catch_warnings(), _validate.written_by(_Options()):
        warnings.showwarning = _warn
        try:
            _check_json(args)
            with _interrupts.told_as_such():
                return int(args.run(args))
        except (ImportError, MemoryError, OSError, TypeError, ValueError) as error:
            name, what = getattr(error, "filename", None), str(error)
            if isinstance(error, OSError) and name is not None:
                what = f"{name or repr(name)}: {error.strerror}"
            elif isinstance(error, UnicodeEncodeError) and error.encoding.lower() != "utf-8":
                letter = error.object[error.start]
                what = (
                    f"{_OUTPUT} is in {error.encoding}, which has no {letter!r}: "
                    "set PYTHONIOENCODING=utf-8"
                )
            elif isinstance(error, MemoryError):
                what = f"out of memory: {what}"
            has_left = isinstance(error, BrokenPipeError) and name in (None, _OUTPUT)
            if has_left or name == _OUTPUT:
                _let_go(sys.stdout)
            if has_left:  # the reader has gone, so there is nothing to print
                return 141
            _say("pegasos: error:", " ".join(what.split()))
            return 2
        except KeyboardInterrupt as stop:
            told = ["pegasos: interrupted", *map(str, stop.args)]
            checkpoints, resume = (vars(args).get(name) for name in ("checkpoints", "resume"))
            if checkpoints is not None and checkpoints.is_written:
                resume = checkpoints.path
            if resume is not None:
                told.append(f"to go on, say --resume {shlex.quote(resume)}")
            _say("; ".join(told))
            return 130
