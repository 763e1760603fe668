"""Turn bench/results/*.json into the page bench/README.md, its plots, and the table of README.md.

    python bench/page.py [--results FOLDER] [--page FILE] [--readme FILE]

A time counts only if the benchmark found that its solution is as good as asked for.
"""

import argparse
import json
import re
import textwrap
from pathlib import Path

import measure
import numpy as np

ROOT = Path(__file__).parents[1]
LEVEL = "0.001"  # the suboptimality at which linear fits are compared
CLEARLY = 0.95  # what differs by less is equally fast
GAP = 1.05e-3  # a small fit counts up to this relative gap
ENOUGH = 0.002  # a search counts if its score is at most this much below the best

# Wong's palette, which colour-blind people can tell apart.
COLOURS = ("#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73", "#CC79A7", "#000000", "#999999")


def is_ours(name):
    return name.startswith(("pegasos", "same")) or "Pegasos" in name


def seconds(value):
    """Two digits of seconds, or of milliseconds."""
    if value is None:
        return "–"
    return f"{value:.2g} s" if value >= 0.0995 else f"{1e3 * value:.2g} ms"


def number(value):
    """Two digits, without an exponent."""
    return "–" if value is None else f"{float(f'{value:.2g}'):g}"


def markdown(names, rows):
    """A table: the names of columns, and rows of text."""
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


class Results:
    """The tables that were measured, each a dictionary of sets."""

    def __init__(self, folder):
        self.folder = folder
        self.tables = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
        abouts = [row["about"] for table in self.tables.values() for row in table.values()]
        newest = max(abouts, key=lambda about: about["date"])
        self.machine, self.versions = newest["machine"], {}
        for about in sorted(abouts, key=lambda about: about["date"]):
            self.versions |= {k: v for k, v in about["versions"].items() if k != "pegasos"}
        self.dates = sorted({about["date"] for about in abouts})

    def setting(self):
        """The machine and the versions of nearly all figures."""
        dates = " to ".join(sorted({self.dates[0], self.dates[-1]}))
        versions = ", ".join(f"{name} {v}" for name, v in self.versions.items())
        return f"{self.machine}, {dates}; {versions}."

    def rows(self, table, part=None):
        """All rows of a table."""
        for measured in self.tables.get(table, {}).values():
            yield from measured.get(part or table, ())

    def abouts(self, table):
        """How its sets were measured: sentences, with the sets that each is true of."""
        found, which = {}, "least times" if table == "scale" else "medians"
        for name, measured in self.tables.get(table, {}).items():
            about = measured["about"]
            others = [f"{k} {v}" for k, v in about["versions"].items()
                      if v != self.versions.get(k, v)]  # fmt: skip
            others += [about["machine"]] * (about["machine"] != self.machine)
            times = about["repetitions"]
            told = "; ".join([
                f"`{about['command']}` on {about['date']}, commit {about['commit']}", *others,
                f"{which} of {times} rounds" if times > 1 else "one round",
            ])  # fmt: skip
            found.setdefault(told, []).append(name)
        if len(found) == 1:
            return [f"{told}." for told in found]
        return [f"- {', '.join(names)}: {told}." for told, names in found.items()]


def linear_rows(results, table):
    """Of each set and loss: seconds of ours, of the fastest peer, and their ratio."""
    by_set = {}
    for row in results.rows(table):
        by_set.setdefault((row["set"], row["loss"]), {})[row["machine"]] = row[LEVEL]
    for (name, loss), times in by_set.items():
        peers = {who: t for who, t in times.items() if not is_ours(who) and t is not None}
        fastest = min(peers, key=peers.get) if peers else None
        yield name, loss, times, fastest, peers.get(fastest)


def search_rows(results):
    """Of each set: the search of ours with its defaults, and the fastest valid peer.

    Rows named "same" are ours with other settings: what an epoch scores is not what λ is worth.
    """
    by_set = {}
    for row in results.rows("select"):
        if not row["search"].startswith("same"):
            by_set.setdefault(row["set"], []).append(row)
    for name, rows in by_set.items():
        best = max(float(row["score"]) for row in rows)
        valid = [row for row in rows if float(row["score"]) >= best - ENOUGH]
        ours = [row for row in valid if row["search"].endswith("PegasosClassifierCV")]
        peers = [row for row in valid if not is_ours(row["search"])]
        ours = min(ours, key=lambda row: row["seconds"]) if ours else None
        peer = min(peers, key=lambda row: row["seconds"]) if peers else None
        yield name, ours, peer


def kernel_rows(results):
    by_set = {}
    for row in results.rows("kernel"):
        by_set.setdefault(row["set"], {})[row["machine"]] = row
    yield from by_set.items()


def ratio(peer, ours):
    return peer / ours if peer and ours else None


def overview(results):
    """The table of ratios, as lines of markdown; and where peers are faster, as sentences."""
    lines, faster = [], []

    def add(what, loss, one, other, who, theirs, note):
        told = ratio(theirs, other) or ratio(theirs, one)
        who = who and re.sub(r"-s \d+", r"`\g<0>`", who)  # an option is not to break
        peer = f"{who} {seconds(theirs)}" if who else "none got there"
        times = [seconds(one), seconds(other), peer]
        lines.append([what, loss, number(told), *times, note])
        if who and one is None and other is None:
            faster.append(f"{who} on {what} ({loss}): what pegasos found is not as good")
        elif told is not None and told < CLEARLY:
            faster.append(f"{who} on {what} ({loss}): {1 / told:.2g} times as fast")

    for table in ("linear", "targets"):
        for name, loss, times, who, theirs in linear_rows(results, table):
            one, other = times.get("pegasos float32"), times.get("pegasos float64")
            add(name, loss, one, other, who, theirs, "a")
    for name, rows in kernel_rows(results):
        good = {k: row["train s"] for k, row in rows.items() if row["reached"] == "yes"}
        peers = {who: t for who, t in good.items() if not is_ours(who)}
        who = min(peers, key=peers.get) if peers else None
        one, other = good.get("pegasos float32"), good.get("pegasos float64")
        add(f"{name}, Gaussian kernel", "hinge", one, other, who, peers.get(who), "b")
    for name, ours, peer in search_rows(results):
        who, theirs = (peer["search"], peer["seconds"]) if peer else (None, None)
        add(f"{name}, search", "hinge", None, ours and ours["seconds"], who, theirs, "c")
    for row in results.rows("small"):
        if not is_ours(row["machine"]) and float(row["gap"]) <= GAP and row["x pegasos"] < CLEARLY:
            kind = "linear" if row["kind"] == "linear" else "Gaussian kernel"
            times = 1 / row["x pegasos"]
            faster.append(f"{row['machine']} on {row['set']} ({kind}): {times:.2g} times as fast")
    return lines, faster


def cells(line):
    """A line of the overview with data and loss in one cell: phones have room for ratios then."""
    what, loss, *rest = line
    return [what if loss == "hinge" else f"{what}, {loss}", *rest]


NAMES = ["data", "ratio", "float32", "float64", "fastest valid peer", ""]
NOTES = """\
The loss is the hinge where none is named. The ratio is the peer's time over that of pegasos with
float64 rows, or float32 where only that counts.

- **a** pegasos has one thread, and so have peers whose names tell of no others. Whole fits to
  within 0.1 % of the optimum, at the same objective.
- **b** Two threads, but SVC uses one. Whole fits to within 0.1 % of the optimum, with a free
  intercept; of several classes, pairs.
- **c** Two processes or threads. Ten λ, or six λ times six γ, in five folds. A search counts if
  its best score is within 0.002 of the best of all. Apart from λ, γ and the hinge, searches have
  default settings, and so different objectives: SGDClassifier and SVC have a free intercept. But
  kernel searches of pegasos train pairs of classes, as SVC does. Times of searches stand under
  float64, whatever the type of their rows.
"""

HEAD = """\
# Benchmarks

The table shows seconds of whole fits, beside the fastest peer whose solution is as good. In
fits, all minimise the same objective; [method](#method) says how. `python bench/page.py` makes this
page of the files in `bench/results`. [notes.md](notes.md) has what was tried, and what bounds
each figure.

"""

METHOD = """\
## Method

Both sides of a ratio run in one process, in turn, on the same matrix. Parsing and conversion are
not counted: each peer gets a matrix of the type that it computes with. The intercept is the
weight of a constant feature in all linear fits, so that the objectives are equal. Peers get
budgets from small to large (epochs, or tolerances), and the fastest budget whose solution is good
enough counts. How good a solution is, NumPy computes from its coefficients in float64, off the
clock; the optimum is known from a certified gap of 1e-9. pegasos stops by its own certificate,
which is part of its time. "SGD, best schedule" is the fastest of 32 fits with different schedules
and lengths; the search for the schedule is not counted. Kernel peers get tolerances of 0.1 to
1e-4, and searches the peers' default settings. With other losses than the hinge, a peer gets no
larger budget after a fit that took ten times as long as those of pegasos to whatever level the
peer has not reached. Linear fits of more than 0.1 s, and those that are far from the fastest of
their peer, are measured once.

Run the tables yourself (`pip install ".[bench]" liblinear-multicore`, whose last package needs a
C++ compiler; real data in the folder that `PEGASOS_DATA` names; where a set is missing, random
rows of its shape take its place, and tables say "imitation"). `--quick` takes few rows of each set,
to try the program in some minutes:

```sh
python bench/run.py linear --json            # one table; --sets imdb adult; --repetitions 5; --slow
python bench/run.py all --json && python bench/page.py
python bench/instructions.py                 # instruction counts of hot paths beside those recorded
```

To add a peer, add a class to `bench/peers.py`.

## Limits

Virtual machines with two CPUs measured all of this. Their speed drifts within minutes, so that a
tenth more or less says nothing, and some are 1.6 times as fast as others: compare times of one
line, and ratios between lines. Ratios depend on λ: with a large λ all fits are short, with a small
one dual methods take longer. Peers whose compilers or threads need more cores than two are not at
their best here.
"""


def page(results):
    lines, faster = overview(results)
    text = HEAD + markdown(NAMES, map(cells, lines)) + "\n" + NOTES + "\n"
    for name, what in PLOTS.items():
        if (results.folder / f"{name}.png").exists():
            caption = textwrap.fill(f"*{CAPTIONS[name]}*", 98)
            text += f"![{what}](results/{name}.png)\n\n{caption}\n\n"
    text += METHOD + "\n## Where others are faster\n\n"
    text += "Those that are faster by at least 5 %, by the ratios of the tables:\n\n"
    text += "".join(f"- {line}.\n" for line in faster) or "Nowhere in these tables.\n"
    text += f"\n## Figures\n\n{textwrap.fill(results.setting(), 98)}\n"
    text += "A + after a commit stands for changes that were not yet committed.\n"
    for table, (title, parts) in TABLES.items():
        if table in results.tables:
            text += f"\n### {title}\n\n" + "\n".join(results.abouts(table)) + "\n"
            for part in parts:
                rows = list(results.rows(table, part))
                text += f"\n```\n{measure.table(rows)}\n```\n" if rows else ""
    return text


# How each table was measured stands on the page; of those in the overview, the rows do not.
TABLES = {
    "linear": ("Linear machines, hinge", ()),
    "targets": ("Other losses and regression", ()),
    "kernel": ("Gaussian kernels", ("kernel", "summary")),
    "select": ("Searches", ("select",)),
    "small": ("Small sets", ("small",)),
    "threads": ("Two threads", ("threads",)),
    "gap": ("Seconds to a certified gap", ("gap",)),
    "micro": ("Epochs, prediction, memory", ("epochs", "memory", "prediction")),
    "scale": ("Growth", ("curves of growth", "large runs")),
    "blocks": ("Rows on disk", ("blocks",)),
    "cluster": ("A Dask cluster on one machine", ("rounds", "overhead", "workers", "peers")),
}


# ---- Plots ---------------------------------------------------------------------------------------


def draw_linear(results, plt):
    """Suboptimality against seconds, on four sets."""
    chosen = {}
    for table in ("linear", "targets"):
        for curve in results.rows(table, "curves"):
            chosen.setdefault((curve["set"], curve["loss"]), []).append(curve)
    wanted = [("covtype, every 4th", "hinge"), ("imdb", "hinge"), ("imdb", "log_loss"),
              ("elevation", "epsilon_insensitive")]  # fmt: skip
    chosen = {key: chosen[key] for key in wanted if key in chosen}
    if not chosen:
        return None
    figure, axes = plt.subplots(2, 2, figsize=(8, 9), layout="constrained")
    for ax, ((name, loss), curves) in zip(axes.flat, chosen.items(), strict=False):
        told = []
        for curve in curves:
            who = curve["machine"]
            if "2 threads" in who or max(curve["suboptimality"]) <= 0:
                continue
            family = who.split(",")[0]
            n_before = sum(other["machine"].split(",")[0] == family for other in told)
            told.append(curve)
            style = {"pegasos float32": 0, "pegasos float64": 1, "LinearSVC": 2, "LinearSVR": 2,
                     "LogisticRegression": 2, "liblinear-multicore": 3, "liblinear-official": 3,
                     "SGD": 4, "snapml": 5, "skglm": 6}.get(family, 7)  # fmt: skip
            front = front_of(curve)
            line, filled = [("--", "full"), (":", "none"), ("-.", "left")][n_before % 3]
            ax.loglog(*front, marker="os^vDPXd"[style], color=COLOURS[style], markersize=4,
                      linestyle="-" if is_ours(who) else line, fillstyle=filled,
                      label=who, linewidth=1)  # fmt: skip
        ax.axhline(1e-3, color="0.8", linewidth=0.8, zorder=0)
        ax.set(title=f"{name}, {loss}", xlabel="seconds of a whole fit", ylim=(1e-6, 1))
        ax.xaxis.set_minor_formatter("")
        below = {"loc": "upper left", "bbox_to_anchor": (-0.1, -0.15), "ncol": 2}
        ax.legend(fontsize=7, frameon=False, **below)
        ax.set_ylabel("relative suboptimality")
    for ax in axes.flat[len(chosen) :]:
        ax.set_visible(False)
    return figure


def draw_peers(results, plt):
    """Seconds of pegasos and of scikit-learn's machines: the picture of README.md."""
    panels = {}
    for name, loss, times, _, _ in linear_rows(results, "linear"):
        sgd = [t for who, t in times.items() if who.startswith("SGD") and t is not None]
        panels[f"{name}, {loss}"] = {"pegasos": times.get("pegasos float64"),
                                     "LinearSVC": times.get("LinearSVC"),
                                     "SGDClassifier": min(sgd, default=None)}  # fmt: skip
    for name, rows in kernel_rows(results):
        good = {who: row["train s"] for who, row in rows.items() if row["reached"] == "yes"}
        times = {"pegasos": good.get("pegasos float64"), "SVC": good.get("SVC")}
        panels[f"{name}, Gaussian kernel"] = times
    for name, ours, _ in search_rows(results):
        peers = {row["search"]: row["seconds"] for row in results.rows("select")
                 if row["set"] == name and not is_ours(row["search"])}  # fmt: skip
        if ours:
            panels[f"{name}, search"] = {"pegasos": ours["seconds"]} | {
                who.removeprefix("GridSearchCV(")[:-1]: t for who, t in peers.items()
            }
    wanted = {"imdb, hinge": "imdb (text)", "covtype, every 4th, hinge": "covtype, every 4th row",
              "adult, Gaussian kernel": "adult, Gaussian kernel",
              "adult, search": "adult, search over 10 λ"}  # fmt: skip
    chosen = {title: panels[key] for key, title in wanted.items() if key in panels}
    if not chosen:
        return None
    figure, axes = plt.subplots(2, 2, figsize=(8, 2.6), squeeze=False, layout="constrained")
    for ax, (title, times) in zip(axes.flat, chosen.items(), strict=False):
        names = [*times][::-1]
        longest = max(filter(None, times.values()))
        for k, who in enumerate(names):
            told = seconds(times[who]) if times[who] else "not within 0.1 % of the optimum"
            ax.barh(k, times[who] or 0, color=COLOURS[0] if is_ours(who) else COLOURS[3])
            ax.text(times[who] or 0, k, f" {told}", va="center", fontsize=8)
        ax.set_yticks(range(len(names)), names, fontsize=9)
        ax.set_xlim(0, 1.25 * longest)
        ax.set_xticks([])
        ax.set_title(title, fontsize=10, loc="left")
        ax.spines[["top", "right", "bottom"]].set_visible(False)
    for ax in axes.flat[len(chosen) :]:
        ax.set_visible(False)
    return figure


def front_of(curve):
    """The budgets that no other one beats in both seconds and suboptimality."""
    pairs = sorted(zip(curve["seconds"], curve["suboptimality"], strict=True))
    best, front = float("inf"), []
    for time, reached in pairs:
        if reached < best:
            best = reached
            front.append((time, max(reached, 1e-9)))
    return [time for time, _ in front], [reached for _, reached in front]


def bars(plt, entries, title):
    """Ratios of pairs (name, ratio), on a logarithmic axis."""
    if not entries:
        return None
    figure, ax = plt.subplots(figsize=(7, 0.5 + 0.32 * len(entries)))
    names, ratios = zip(*entries[::-1], strict=True)
    ax.barh(names, ratios, color=[COLOURS[0] if r >= 1 else COLOURS[2] for r in ratios])
    for k, value in enumerate(ratios):
        ax.text(value, k, f" {value:.2g}", va="center", fontsize=8)
    ax.axvline(1, color="0.3", linewidth=1)
    ax.set(xscale="log", xlabel=title)
    ax.margins(x=0.15)
    return figure


def draw_searches(results, plt):
    """Time of the fastest valid peer over ours."""
    entries = [(name, peer["seconds"] / ours["seconds"])
               for name, ours, peer in search_rows(results) if ours and peer]  # fmt: skip
    return bars(plt, entries, "seconds of the fastest GridSearchCV, times those of pegasos")


def draw_kernels(results, plt):
    """Time of SVC and intelex over ours."""
    entries = []
    for name, rows in kernel_rows(results):
        ours = rows["pegasos float64"]
        entries += [(f"{name}, {who}", row["train s"] / ours["train s"])
                    for who, row in rows.items()
                    if not is_ours(who) and "yes" == row["reached"] == ours["reached"]]  # fmt: skip
    return bars(plt, entries, "seconds of the peer, times those of pegasos with float64 rows")


def draw_scale(results, plt):
    """Time against size, one curve for each thing that grows."""
    rows = list(results.rows("scale", "curves of growth"))
    if not rows:
        return None
    figure, ax = plt.subplots(figsize=(6, 4))
    for k, row in enumerate(rows):
        sizes, times = np.array(row["sizes"]), np.array(row["ms"])
        ax.loglog(sizes / sizes[0], times / times[0], marker="os^vD"[k], color=COLOURS[k],
                  label=f"{row['what grows']}: slope {row['slope']:z.2f}")  # fmt: skip
    ax.plot([1, 300], [1, 300], color="0.8", zorder=0, label="in proportion")
    ax.set(xlabel="size, times the smallest", ylabel="time, times that of the smallest")
    ax.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(0, -0.15))
    return figure


# What each plot shows, for those who cannot see it.
PLOTS = {
    "peers": "Seconds of pegasos beside LinearSVC, SGDClassifier and SVC, on four tasks",
    "suboptimality": "Relative suboptimality against seconds of a whole fit, on four sets",
    "searches": "Ratios of cross-validated searches",
    "kernels": "Ratios of fits with a Gaussian kernel",
    "scale": "Time of training and prediction against the size of the data",
}
# What to see in it.
CAPTIONS = {
    "peers": "Seconds to a model within 0.1 % of the optimum, or to the best scores of a search: "
    "shorter is better.",
    "suboptimality": "How far above the optimum whole fits of a certain time end: lower left is "
    "better. The grey line is 0.1 %, where the table compares.",
    "searches": "How many times as long as pegasos the fastest GridSearchCV takes, with scores as "
    "good.",
    "kernels": "How many times as long as pegasos SVC and intelex take with a Gaussian kernel.",
    "scale": "How time grows with one size while the others stay: below the grey line, twice the "
    "size takes less than twice the time.",
}
DRAW = {
    "peers": draw_peers,
    "suboptimality": draw_linear,
    "searches": draw_searches,
    "kernels": draw_kernels,
    "scale": draw_scale,
}


def draw(results, folder):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for name, make in DRAW.items():
        figure = make(results, plt)
        if figure is not None:
            figure.savefig(folder / f"{name}.png", dpi=110, bbox_inches="tight")
            plt.close(figure)


BEGIN, END = "<!-- figures: python bench/page.py -->", "<!-- end of figures -->"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results")
    parser.add_argument("--page", type=Path, default=ROOT / "bench" / "README.md")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    args = parser.parse_args()
    results = Results(args.results)
    draw(results, args.results)
    args.page.write_text(page(results))
    readme = args.readme.read_text()
    before, rest = readme.split(BEGIN)
    lines, _ = overview(results)
    some = [line for line in lines if line[0] in SHOWN or line[:2] in SHOWN]
    told = "A selection: bench/README.md has the other lines, searches in which peers found better "
    told += f"scores among them, and names each commit. {results.setting()}"
    told += " Linear fits of pegasos have one thread, kernel fits and searches two."
    told = textwrap.fill(told, 118, break_on_hyphens=False)
    args.readme.write_text(
        before + BEGIN + "\n\n" + markdown(NAMES[:-1], [cells(line)[:-1] for line in some])
        + f"\n{told}\n\n" + END + rest.split(END)[1]
    )  # fmt: skip


# What README.md shows.
SHOWN = (
    ["covtype", "hinge"], ["covtype, every 4th", "hinge"], ["imdb", "hinge"], ["imdb", "log_loss"],
    ["adult", "hinge"], ["newsgroups20", "hinge"], ["mnist 8", "hinge"],
    ["7500 x 16, 10 classes", "hinge"], ["50,000 x 22", "hinge"], ["200 x 10,000", "hinge"],
    ["50,000 x 300, sparse", "hinge"], ["50,000 x 300, sparse", "log_loss"],
    ["elevation", "squared_error"],
    "adult, Gaussian kernel", "usps, Gaussian kernel", "adult, search", "newsgroups20, search",
    "kernel, 57 features, search",
)  # fmt: skip


if __name__ == "__main__":
    main()
