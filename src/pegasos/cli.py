"""The command line: ``pegasos train``, ``predict``, ``info`` and ``demo``."""

import argparse
import contextlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import numpy as np

import pegasos
from pegasos import kernels
from pegasos.problems._losses import LOSSES, TARGET_LOSSES

_DATA_HELP = """\
DATA is LIBSVM/SVMlight text ("label index:value ..."), CSV (one row a line,
numbers and a label, between commas, semicolons or tabs; a header line without
numbers is skipped), or .npz (arrays X and y, or a CSR matrix saved by
scipy.sparse and y). Text may be compressed with gzip or bzip2. "-" is standard
input. The format is told from the name; --format overrides it.
"""

_EXAMPLES = {
    "train": """\
examples:
  pegasos train spam.svm.gz --C 0.5 -o spam.npz
  pegasos train spam.svm.gz --cv 5 -o spam.npz
  pegasos train digits.csv --label-column 0 --multi-class ovo --max-iter 50
  pegasos train digits.csv --label-column 0 --kernel rbf --gamma 0.02
  pegasos train prices.csv --task regression --epsilon 10 --cv 5
  pegasos train spam.svm.gz --validation new.svm -o spam.npz
  pegasos train usual.csv --task one-class --nu 0.05 --kernel rbf --label-column none
  pegasos train big.svm --checkpoint half.npz           # killed? then
  pegasos train big.svm --checkpoint half.npz --resume half.npz
""",
    "predict": """\
examples:
  pegasos predict spam.npz new.svm > labels.txt
  pegasos predict spam.npz new.svm --scores -o scores.txt
  pegasos predict spam.npz new.svm --probabilities      # trained with --loss log_loss
  grep 2026 new.csv | pegasos predict spam.npz - --format csv
""",
    "info": """\
examples:
  pegasos info spam.npz
  pegasos info spam.npz --json
""",
}


_OUTPUT = "standard output"
_ZERO_BASED = {"auto": None, "yes": True, "no": False}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pegasos",
        description="Support vector machines by Pegasos, stochastic sub-gradient descent on the "
        "primal.",
        epilog="Start with `pegasos demo`. Help on a command: `pegasos train --help`.",
    )
    parser.add_argument("--version", action="version", version=f"pegasos {pegasos.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(
        name: str, run: Callable[[argparse.Namespace], int], help: str
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name,
            help=help,
            description=f"{help[0].upper()}{help[1:]}.\n\n"
            f"{_DATA_HELP if name in ('train', 'predict') else ''}",
            epilog=_EXAMPLES.get(name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.set_defaults(run=run)
        return sub

    train = command("train", _train, "train a linear or kernel support vector machine and save it")
    train.add_argument(
        "--task", choices=("classification", "regression", "one-class"), default="classification",
        help="what the label is: a class (default), or a number to be predicted; one-class learns "
        "to tell outliers, without labels",
    )  # fmt: skip
    _add_data_options(train)
    train.add_argument(
        "-o", "--output", default="model.npz", metavar="FILE", help="the model (default model.npz)"
    )
    _add_regularisation_options(train)
    _add_machine_options(train.add_argument)
    _add_kernel_options(train.add_argument)
    _add_run_options(train.add_argument)

    predict = command(
        "predict", _predict, "predict labels or numbers with a saved model, one row a line"
    )
    predict.add_argument("model", metavar="MODEL", help="file written by `pegasos train`")
    _add_data_options(predict)
    predict.add_argument(
        "-o",
        "--output",
        default="-",
        metavar="FILE",
        help="write here, not to standard output",
    )
    instead = predict.add_mutually_exclusive_group()
    instead.add_argument("--scores", action="store_true", help="scores in place of labels")
    instead.add_argument(
        "--probabilities", action="store_true",
        help="probabilities in place of labels, a column for each class in sorted order (of a "
        "model trained with --loss log_loss or modified_huber)",
    )  # fmt: skip

    info = command("info", _info, "tell what a saved model is, and how good its fit was")
    info.add_argument("model", metavar="MODEL", help="file written by `pegasos train`")
    info.add_argument("--json", action="store_true", help="as one JSON object")
    info.add_argument(
        "--weights", type=int, default=5, metavar="N",
        help="of a linear model, how many of the largest weights to show (default 5)",
    )  # fmt: skip

    demo = command("demo", _demo, "train on handwritten digits and draw what was learned")
    demo.add_argument(
        "-o", "--output", default="pegasos-demo.svg", metavar="FILE",
        help="the picture, which any browser shows (default pegasos-demo.svg)",
    )  # fmt: skip
    return parser


def _add_data_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("data", metavar="DATA", help="file with the rows")
    sub.add_argument("--format", choices=("libsvm", "csv", "npz"), help="format of DATA")
    sub.add_argument(
        "--label-column", type=_label_column, default=-1, metavar="J",
        help="CSV: column of the label, from 0; negative from the end (default -1, the last); "
        "none: there is no label",
    )  # fmt: skip
    sub.add_argument(
        "--header", choices=("auto", "yes", "no"), default="auto",
        help="CSV: whether the first line is one (default auto: if it has no numbers)",
    )  # fmt: skip
    sub.add_argument(
        "--zero-based", choices=("auto", "yes", "no"), default="auto",
        help="LIBSVM: whether features are counted from 0 (default auto: if there is a feature "
        "0; a model remembers)",
    )  # fmt: skip


def _add_regularisation_options(sub: argparse.ArgumentParser) -> None:
    one = sub.add_mutually_exclusive_group()
    one.add_argument("--C", type=float, metavar="C",
                     help="weight of the losses; larger fits closer (default 1)")  # fmt: skip
    one.add_argument("--lam", type=float, metavar="L",
                     help="regularisation lambda = 1/(C n) in place of C")  # fmt: skip
    one.add_argument("--nu", type=float, metavar="NU",
                     help="with --task one-class, in place of C: at most this fraction of the "
                          "rows are outliers (default 0.5)")  # fmt: skip
    sub.add_argument(
        "--cv", type=int, metavar="FOLDS",
        help="take the C, and with a kernel the gamma unless --gamma says it, that "
             "cross-validation with so many folds finds best",
    )  # fmt: skip
    sub.add_argument(
        "--Cs", type=int, metavar="K",
        help="with --cv: how many C to try, from 1e-4 to 10 (default 10)",
    )  # fmt: skip


def _add_machine_options(add: Callable[..., Any]) -> None:
    add("--loss", choices=(*LOSSES, *TARGET_LOSSES),
        help="of a row. Classes, with u = 1 - y f(x): max(0, u) (hinge, the default), its square, "
             "or one of two that have probabilities: the square, but 4u - 4 beyond 2; "
             "log(1 + e^(u-1)). Regression, with u = y - f(x): max(0, |u| - epsilon) "
             "(epsilon_insensitive, the default), its square, huber, or u^2/2")  # fmt: skip
    add("--epsilon", type=float, metavar="E",
        help="of the loss of regression, in the units of the label (default 0.1)")  # fmt: skip
    add(
        "--class-weight",
        choices=("none", "balanced"),
        help="balanced: rows of rare classes weigh more, so that all classes weigh the same",
    )
    add(
        "--solver",
        choices=("auto", "pegasos", "sdca", "newton"),
        default="auto",
        help="pegasos, or a solver that goes to the optimum (default auto: one that suits)",
    )
    add("--tol", type=_tol, default="auto", metavar="G",
        help="stop at this relative duality gap (default auto: 1e-3, or what rounding leaves "
             "of few numbers; none: at --max-iter)")  # fmt: skip
    add(
        "--max-iter",
        type=int,
        default=1000,
        metavar="E",
        help="passes over the data, at most, but for Newton's last iteration (default 1000)",
    )
    add("--n-steps", type=int, metavar="T", help="exact number of steps, in place of --max-iter")
    add("--batch-size", type=int, default=1, metavar="K", help="rows per step (default 1)")
    add("--sampling", choices=("permutation", "cyclic", "uniform"), default="permutation",
        help="new permutation every epoch, one kept, or with replacement")  # fmt: skip
    add("--project", action="store_true", help="project on a ball that holds the optimum")
    add("--average", choices=("none", "all", "suffix"), default="none",
        help="output the last iterate, the average of all, or of the last half")  # fmt: skip
    add("--intercept", choices=("none", "penalized", "free"),
        help="b: none, weight of a constant feature (default), or not penalised")  # fmt: skip
    add("--multi-class", choices=("ovr", "ovo", "crammer_singer"),
        help="one-vs-rest (default), one-vs-one, or one joint problem of all classes (without a "
        "kernel)")  # fmt: skip


def _add_kernel_options(add: Callable[..., Any]) -> None:
    add("--kernel", choices=kernels.stored_names(),
        help="train a kernel machine (default: a linear one, without a kernel)")  # fmt: skip
    add(
        "--gamma",
        type=_gamma,
        metavar="G",
        help="kernel parameter: a number, scale (default: 1 / (d Var X)) or auto (1 / d); by "
        "default, --cv tries scale, a tenth and ten times it",
    )
    add("--degree", type=int, default=3, help="of the polynomial kernel (default 3)")
    add(
        "--coef0", type=float, default=0.0, help="of the polynomial and sigmoid kernels (default 0)"
    )
    add("--cache-size", type=float, default=1000, metavar="MB",
        help="room for columns of the kernel matrix that are kept (default 1000)")  # fmt: skip


def _add_run_options(add: Callable[..., Any]) -> None:
    add("--n-features", type=int, metavar="D", help="columns of X, where the file cannot tell")
    add("--float32", action="store_true", help="store and train in single precision")
    add("--memory", metavar="SIZE",
        help="train on rows that are larger than memory, and keep at most so much of them there, "
             "such as 2G: they are first written to --cache, in random order")  # fmt: skip
    add(
        "--cache",
        metavar="FOLDER",
        help="with --memory: where the rows are, for later runs, too (default DATA.blocks)",
    )
    add("--seed", type=int, default=0, metavar="S", help="seed for the order of rows (default 0)")
    add("--jobs", type=int, metavar="N",
        help="threads (default: 1 for linear machines, as many as BLAS has for kernel machines); "
             "results do not depend on it")  # fmt: skip
    add(
        "--checkpoint",
        metavar="FILE",
        help="write the model so far to FILE now and then, and on Ctrl-C; always a whole one",
    )
    add("--checkpoint-every", type=float, default=60, metavar="S",
        help="seconds between checkpoints (default 60)")  # fmt: skip
    add("--resume", metavar="FILE",
        help="go on from a checkpoint, with the same DATA and options")  # fmt: skip
    add("--validation", metavar="FILE",
        help="tell how good the model is on the rows of FILE, in the format of DATA")  # fmt: skip
    add("-q", "--quiet", action="store_true", help="no progress, no report")


def _label_column(text: str) -> int | None:
    """ "none" or a number, for argparse."""
    return None if text == "none" else int(text)


def _gamma(text: str) -> str | float:
    """ "scale", "auto" or a number, for argparse."""
    return text if text in ("scale", "auto") else float(text)


def _tol(text: str) -> float | str | None:
    """ "auto", "none" or a number, for argparse."""
    return {"auto": "auto", "none": None}[text] if text in ("auto", "none") else float(text)


def _machine(args: argparse.Namespace) -> Any:
    """The estimator that the options ask for."""
    options = _options(args)
    if args.task != "one-class":
        options |= {"C": args.C, "lam": args.lam}
    for name in ("epsilon", "nu"):
        if getattr(args, name) is not None:
            options[name] = getattr(args, name)
    if args.kernel:
        options["gamma"] = "scale" if args.gamma is None else args.gamma
    return _class(args)(**options)


def _class(args: argparse.Namespace, ending: str = "") -> Any:
    """The class of estimators, or of searches over them, that the options ask for."""
    kind = {"regression": "Regressor", "one-class": "OneClass"}.get(args.task, "Classifier")
    return getattr(pegasos, f"{'Kernel' if args.kernel else ''}Pegasos{kind}{ending}")


def _search(args: argparse.Namespace) -> Any:
    """The search that the options ask for, or None."""
    if args.cv is None:
        if args.Cs is not None:
            raise ValueError("--Cs goes with --cv FOLDS")
        return None
    for name in ("C", "lam", "checkpoint", "resume"):
        if getattr(args, name) is not None:
            raise ValueError(f"--{name} does not go with --cv, which makes many fits and chooses C")
    options = _options(args) | {"Cs": args.Cs, "cv": args.cv, "refit": False}
    if args.epsilon is not None:
        options["epsilons"] = [args.epsilon]
    if args.kernel and args.gamma is not None:
        options["gammas"] = [args.gamma]
    return _class(args, "CV")(**options)


def _report_search(say: Callable[..., None], search: Any) -> None:
    results = search.cv_results_
    has_gamma = "param_gamma" in results
    names = f"{'C':>10}  {'lambda':>10}" + f"  {'gamma':>10}" * has_gamma
    say(f"{names}  mean score of {search.n_splits_} folds, standard error")
    for k, point in enumerate(results["params"]):
        rest = f" +- {results['standard_error'][k]:.4f}"
        if results["dropped"][k]:
            rest = "  in the first fold: dropped"
        elif point == search.best_params_:
            rest += "  best"
        lam = results["param_lam"][k]
        values = f"{point['C']:>10.3g}  {lam:>10.3g}"
        if has_gamma:
            gamma = point["gamma"]
            values += f"  {gamma:>10}" if isinstance(gamma, str) else f"  {gamma:>10.3g}"
        say(f"{values}  {results['mean_test_score'][k]:.4f}{rest}")
    if "max_iter" in search.best_params_:
        say(f"best after {search.best_params_['max_iter']} epochs: more score less")


#: Options that some tasks have.
_OF_TASKS = {
    "epsilon": ("regression",), "nu": ("one-class",),
    "class_weight": ("classification",), "multi_class": ("classification",),
} | dict.fromkeys(
    ("C", "lam", "loss", "intercept", "cv", "memory", "validation"),
    ("classification", "regression"),
)  # fmt: skip


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Those that a fit and a search share."""
    for name, tasks in _OF_TASKS.items():
        if getattr(args, name) is not None and args.task not in tasks:
            raise ValueError(
                f"--{name.replace('_', '-')} goes with --task {' or '.join(tasks)}, "
                f"got --task {args.task}"
            )
    options: dict[str, Any] = {
        "solver": args.solver,
        "tol": args.tol,
        "max_iter": args.max_iter,
        "n_steps": args.n_steps,
        "batch_size": args.batch_size,
        "sampling": args.sampling,
        "project": args.project,
        "average": {"none": False, "all": True, "suffix": "suffix"}[args.average],
        "n_jobs": args.jobs,
        "random_state": args.seed,
        "verbose": int(not args.quiet),
    }
    if args.kernel:
        names = ("kernel", "degree", "coef0", "cache_size")
        options |= {name: getattr(args, name) for name in names}
    if args.loss is not None:
        options["loss"] = args.loss
    if args.task != "one-class":
        options["fit_intercept"] = args.intercept != "none"
        options["penalize_intercept"] = args.intercept != "free"
    if args.task == "classification":
        options["multi_class"] = args.multi_class or "ovr"
        options["class_weight"] = "balanced" if args.class_weight == "balanced" else None
    return options


def _train(args: argparse.Namespace) -> int:
    from pegasos.estimators import _parameters
    from pegasos.io import _checkpoint, _readers

    say: Callable[..., None] = (lambda *_: None) if args.quiet else _say
    if args.output == "-":
        raise ValueError("a model is written to a file: say -o FILE")
    # A model has no state to go on from: in place of a checkpoint, it would end the training there.
    _check_output(args.output, args.data, *([] if args.resume is None else [args.resume]))
    _check_output(args.checkpoint, args.data)
    search, machine = _search(args), _machine(args)
    for estimator in (machine, search):  # before files are read or written
        if estimator is not None:
            _parameters.check(estimator)
    say(f"reading {args.data}")
    layout: dict[str, Any] = {
        "format": args.format, "label_column": args.label_column, "header": args.header,
    }  # fmt: skip
    counted = {"n_features": args.n_features, "zero_based": _ZERO_BASED[args.zero_based]}
    is_regression = args.task == "regression"
    X: Any
    if args.memory is not None:
        dtype, cache = ("float32" if args.float32 else "float64"), args.cache
        X, y = pegasos.Blocks(
            args.data, cache=f"{args.data}.blocks" if cache is None else cache,
            memory=args.memory, dtype=dtype, random_state=args.seed, **layout, **counted,
        ), None  # fmt: skip
        zero_based = X.zero_based
    else:
        X, y, zero_based = _readers.read(
            args.data, targets=is_regression, labels_optional=args.task == "one-class",
            **layout, **counted,
        )  # fmt: skip
        X = X.astype(np.float32) if args.float32 else X
        if args.task == "one-class" and y is not None:
            is_csv = (args.format or _readers.guess_format(args.data)) == "csv"
            say("labels are ignored" + "; without labels, say --label-column none" * is_csv)
            y = None
    held_out = None
    if args.validation is not None:
        counted = {"n_features": X.shape[1], "zero_based": zero_based}
        held_out = _readers.read(args.validation, targets=is_regression, **layout, **counted)
    say(f"{X.shape[0]} rows, {X.shape[1]} features")
    began = time.perf_counter()
    if search is not None:
        search.fit(X, y)
        _report_search(say, search)
        machine.set_params(**search.best_params_)
    machine._of_file = {"zero_based": zero_based}
    if args.resume is not None:
        _checkpoint.resume(machine, args.resume, X, y)
    if args.checkpoint is not None:
        machine.warm_start = True  # keeps the state
        machine._checkpoints = _checkpoint.Checkpoints(args.checkpoint, args.checkpoint_every, X, y)
    is_whole = True
    try:
        machine.fit(X, y)
    except KeyboardInterrupt:
        if not hasattr(machine, "intercept_"):
            raise  # nothing was learned yet
        is_whole = False
    model = machine.to_model()
    model.save(args.output)
    if not is_whole:
        _say(f"pegasos: interrupted; the model so far is saved to {args.output}")
        return 130
    say(f"trained {model} in {time.perf_counter() - began:.2f} s")
    _report(say, model)
    known = y if args.memory is None else X.targets()[0]
    say(f"training {_quality(model, known, machine.predict(X))}")
    if held_out is not None:
        rows, known, _ = held_out
        say(f"validation {_quality(model, known, model.predict(rows))} of {rows.shape[0]} rows")
    say(f"model saved to {args.output}")
    return 0


def _quality(model: Any, y: Any, predicted: np.ndarray) -> str:
    """How good predictions are, or how many are outliers, in words."""
    if model.multi_class == "one_class":
        return f"outliers {100 * (predicted < 0).mean():.2f} %"
    if not model.has_targets:
        # The recall of a class is the part of its rows that are found.
        recalls = [(predicted[y == label] == label).mean() for label in np.unique(y)]
        accuracy = f"accuracy {100 * (predicted == y).mean():.2f} %"
        return f"{accuracy}, mean recall of {len(recalls)} classes {100 * np.mean(recalls):.2f} %"
    from sklearn.metrics import mean_absolute_error, r2_score

    r2 = f"R2 {r2_score(y, predicted):.4f}, " if len(y) > 1 else ""  # of one row there is none
    return f"{r2}mean absolute error {mean_absolute_error(y, predicted):.6g}"


def _report(say: Callable[..., None], model: Any) -> None:
    if hasattr(model, "dual_coef"):
        say(f"{len(model.support)} support vectors")
    for k, (objective, gap) in enumerate(zip(model.objective, model.duality_gap, strict=True)):
        if np.isnan(objective):  # few steps on many rows: the others were never read
            break
        bound = "" if np.isnan(gap) else f", at most {gap:.2g} above the optimum"
        name = model.problem_name(k)
        say(f"objective {objective:.6g}{bound}" + (f"  ({name})" if name else ""))


def _info(args: argparse.Namespace) -> int:
    """Everything about a model but its numbers of rows and features."""
    model: Any = pegasos.load(args.model)
    names = [model.problem_name(k) for k in range(model.n_problems)]
    numbers = [model.objective, model.duality_gap, model.n_steps]
    if model.multi_class == "crammer_singer" and len(names) > 1:  # one objective for all classes
        names = [f"class {label}" for label in model.classes]
        numbers = [np.repeat(of, len(names)) for of in numbers]
    classes = None if model.classes is None else model.classes.tolist()
    told: dict[str, Any] = {
        "model": str(model),
        "classes": classes,
        "features": model.n_features,
        "loss": model.loss,
        "epsilon": model.epsilon,
        "lam": model.lam,
        "kernel": getattr(model, "kernel", None),
        "support_vectors": len(model.support) if hasattr(model, "support") else None,
        "problems": [
            {"name": name, "objective": objective, "gap": gap, "steps": steps}
            for name, objective, gap, steps in zip(
                names, *map(np.ndarray.tolist, numbers), strict=True
            )
        ],
    }  # fmt: skip
    coef = getattr(model, "coef", np.empty((len(names), 0)))
    features = model.feature_names
    for problem, weights in zip(told["problems"], coef, strict=True):
        largest = np.argsort(-np.abs(weights), kind="stable")[: max(args.weights, 0)]
        problem["largest_weights"] = {
            str(j if features is None else features[j]): float(weights[j]) for j in largest
        }
    told = {name: value for name, value in told.items() if value is not None}
    if args.json:
        # JSON has no NaN, which stands for what nobody knows.
        text = json.dumps(_known(told), indent=1, default=str, allow_nan=False)
    else:
        lines = [f"{name}: {value}" for name, value in told.items() if name != "problems"]
        for problem in told["problems"]:
            largest = problem["largest_weights"].items()
            of = f" ({problem['name']})" if problem["name"] else ""
            lines.append(f"objective {problem['objective']:.6g}, gap {problem['gap']:.2g}{of}")
            lines += ["  " + ", ".join(f"{name} {w:.4g}" for name, w in largest)] * bool(largest)
        text = "\n".join(lines)
    print(text, flush=True)
    return 0


def _known(value: Any) -> Any:
    """The value with None for each float that is no number."""
    if isinstance(value, dict):
        return {name: _known(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_known(part) for part in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _predict(args: argparse.Namespace) -> int:
    from pegasos.io import _readers

    if args.output != "-":
        _check_output(args.output, args.data, args.model)
    elif sys.stdout is None:
        raise ValueError(f"{_OUTPUT} is closed: say -o FILE")
    model = pegasos.load(args.model)
    if args.probabilities and not hasattr(model, "predict_proba"):
        raise ValueError(
            f"--probabilities needs a model with --loss log_loss or modified_huber, but "
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
    X, y, zero_based = _readers.read(
        args.data,
        format=args.format,
        n_features=model.n_features,
        label_column=args.label_column,
        labels_optional=True,
        header=args.header,
        zero_based=known,
        targets=model.has_targets,
    )
    if zero_based is False and known is None and not X[:, [-1]].nnz:
        warnings.warn(
            f"{args.data} has neither a feature 0 nor a feature {model.n_features}: features are "
            "taken to be counted from 1; say --zero-based yes if they are counted from 0",
            stacklevel=2,
        )
    of_problems = model.problem_scores(X)
    scores = model.class_scores(of_problems)
    predicted = model.predictions_of(scores)
    if args.probabilities:
        _write(args.output, model.probabilities(of_problems))
    else:
        _write(args.output, scores if args.scores else predicted)
    if model.multi_class == "one_class":
        _say(f"{_quality(model, None, predicted)} of {len(predicted)} rows")
    elif y is not None and model.multi_class == "multilabel":
        _say(f"no accuracy: {args.model} gives rows several labels, and {args.data} has one each")
    elif y is not None:
        if model.has_targets and y.shape != predicted.shape:
            _say(f"no R2: y of {args.data} has shape {y.shape}, predictions {predicted.shape}")
            return 0
        is_known = np.isin(y, y if model.has_targets else model.classes)
        if is_known.all():
            _say(f"{_quality(model, y, predicted)} of {len(y)} rows")
        else:
            other = y[~is_known][0]
            _say(
                f"no accuracy: {args.data} has labels that the model does not know, such as {other}"
                + ("; is --label-column right?" if not is_known.any() else "")
            )
    return 0


def _check_output(path: str | None, *read: str) -> None:
    """Raise unless `path`, if there is one, can be written to without loss of what is `read`."""
    from pegasos.io import _archive

    if path is None:
        return
    _archive.check_writable(path)
    for other in read:
        if os.path.isfile(path) and os.path.exists(other) and os.path.samefile(path, other):
            raise ValueError(f"{path} is read, and would be overwritten: write to another file")


def _write(path: str, out: np.ndarray) -> None:
    """Write an array as text to a file, or to standard output."""
    from pegasos.io import _archive

    form = "%.9g" if out.dtype.kind == "f" else "%s"
    if path != "-":
        with _archive.replacing(path, "w") as file:
            np.savetxt(file, out, fmt=form)
        return
    try:
        np.savetxt(sys.stdout, out, fmt=form)
        sys.stdout.flush()
    except OSError as error:
        error.filename = _OUTPUT
        raise


def _demo(args: argparse.Namespace) -> int:
    from pegasos.io import _demo

    _demo.run(args.output)
    return 0


def _say(*words: object) -> None:
    """Print to standard error, if anybody reads it."""
    try:
        print(*words, file=sys.stderr, flush=True)
    except OSError:
        _let_go(sys.stderr)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    _say("pegasos: warning:", " ".join(str(message).split()))


def _let_go(stream: TextIO) -> None:
    """Let what is still to be written to a stream, and cannot be, go nowhere."""
    with contextlib.suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    args = _parser().parse_args(arguments)
    if sys.stderr is None:  # closed
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 as long as the process lives
    with warnings.catch_warnings():
        warnings.showwarning = _warn
        try:
            return int(args.run(args))
        except (OSError, TypeError, ValueError) as error:
            what, name = str(error), None
            if isinstance(error, OSError) and error.filename is not None:
                name = error.filename
                what = f"{name or repr(name)}: {error.strerror}"
            if isinstance(error, BrokenPipeError) and name in (None, _OUTPUT):
                _let_go(sys.stdout)  # its reader has left; nothing to say, no one to hear
                return 141
            if name == _OUTPUT:
                _let_go(sys.stdout)
            _say("pegasos: error:", " ".join(what.split()))
            return 2
        except MemoryError as error:
            _say(f"pegasos: error: out of memory: {error}")
            return 2
        except KeyboardInterrupt:
            _say("pegasos: interrupted")
            return 130


if __name__ == "__main__":
    sys.exit(main())
