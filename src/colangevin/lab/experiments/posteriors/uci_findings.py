"""Table, figures and claims of the posteriors on small regression tables."""

from __future__ import annotations

from typing import Any

from colangevin.lab import kit
from colangevin.lab.experiments.posteriors.posterior import LEVELS

BDE = {
    "Deep Ensemble": (0.3650, 0.1760),
    "TabPFN (V2)": (0.1359, -0.9338),
    "BDE": (0.1215, -0.9126),
}
"""RMSE and NLL on airfoil in bde's paper, means over 5 seeds."""
SPREADS = (0.0042, 0.0131)
"""Standard deviations of BDE's."""
NAMES = {"rmse": "RMSE", "nll": "NLL", "nll_moments": "NLL of one Gaussian", "crps": "CRPS"}


def tables_of(records: kit.Records) -> list[str]:
    """The tables, in their order."""
    return list(dict.fromkeys(record.settings["table"] for record in records.values()))


def table(records: kit.Records) -> kit.Table:
    """Scores of every method, and those of bde's paper."""
    rows = []
    for name in tables_of(records):
        sampled, trained = records.get(f"{name}-posterior"), records.get(f"{name}-ensemble")
        if sampled is not None:
            rows.append([name, "posterior", *_cells(sampled, sampled.final), _clock(sampled)])
        if trained is not None:
            members = trained.final["members"]
            count = trained.settings["chains"]
            label = f"deep ensemble, {count} members"
            rows.append([name, label, *_cells(trained, trained.final["few"]), ""])
            label = f"deep ensemble, {members} members"
            rows.append([name, label, *_cells(trained, trained.final), _clock(trained)])
        if name == "airfoil":
            rows += [
                [name, f"{label} in bde's paper", f"{rmse:.4f}", "", f"{nll:.4f}", "", "", ""]
                for label, (rmse, nll) in BDE.items()
            ]
    columns = ["table", "method", *NAMES.values(), "90 % intervals cover", "wall-clock"]
    return kit.Table(columns, rows)


def _cells(record: kit.Record, values: Any) -> list[str]:
    digits = {"rmse": 4, "crps": 4}
    found = [kit.summary(values[key], digits.get(key, 3)) for key in NAMES]
    place = LEVELS.index(0.9)
    return [*found, kit.summary([100.0 * own[place] for own in values["coverage"]], 1) + " %"]


def _clock(record: kit.Record) -> str:
    return f"{record.seconds:.0f} s"


SCORES = {key: kit.Quantity(key, NAMES[key], digits=3) for key in NAMES}
TABLES = ("airfoil", "concrete", "energy", "yacht")
CLAIMS = [
    *[
        kit.Ahead(
            SCORES[key],
            kit.Of("{table}-posterior", label="posterior"),
            [kit.Of("{table}-ensemble", label="deep ensemble of the same cost")],
            text=f"{NAMES[key]} on {{table}}",
            each={"table": TABLES},
        )
        for key in ("rmse", "nll")
    ],
    *[
        kit.Near(
            SCORES[key],
            "airfoil-posterior",
            f"{value:.4f} ± {spread:.4f}",
            text=f"{NAMES[key]} on airfoil, beside BDE's",
        )
        for key, value, spread in zip(("rmse", "nll_moments"), BDE["BDE"], SPREADS, strict=True)
    ],
]


def draw_curves(records: kit.Records) -> kit.Figure:
    """RMSE and NLL over draws and over members."""
    names = tables_of(records)
    figure, axes = kit.panels((3.2 * len(names) + 0.6, 5.6), 2, len(names), squeeze=False)
    for column, name in enumerate(names):
        for row, key in enumerate(("rmse", "nll")):
            axis = axes[row, column]
            _draw(axis, records, name, key)
            axis.set(xscale="log", xlabel="share of the cost, %", ylabel=f"test {NAMES[key]}")
            axis.grid(alpha=0.3)
        axes[0, column].set(title=name)
    axes[0, 0].legend(fontsize="small")
    return figure


def _draw(axis: Any, records: kit.Records, name: str, key: str) -> None:
    for color, kind, count, label in (
        (kit.COLORS[0], "posterior", "draws", "posterior"),
        (kit.COLORS[1], "ensemble", "members", "deep ensemble"),
    ):
        record = records.get(f"{name}-{kind}")
        if record is None:
            continue
        own = [float(value) for value in record.history[count]]
        cost = [_share(record, kind, value, own[-1]) for value in own]
        kit.band(axis, cost, record.series(key), color=color, label=label, marker=".")
    if name == "airfoil" and key == "rmse":  # the NLL of that paper is that of one Gaussian
        for style, (label, (rmse, _)) in zip((":", "-.", "--"), BDE.items(), strict=True):
            axis.axhline(rmse, color="gray", linestyle=style, linewidth=1, label=f"{label}, bde")


def _share(record: kit.Record, kind: str, value: float, last: float) -> float:
    """Of the cost that has been paid for so many draws or members, in per cent."""
    if kind == "ensemble":
        return 100.0 * value / last
    thin, chains = record.settings["thin"], record.settings["chains"]
    before = record.final["passes"] / chains - last * thin
    return 100.0 * (before + value * thin) / (before + last * thin)


def draw_calibration(records: kit.Records) -> kit.Figure:
    """How many targets lie in central intervals."""
    names = tables_of(records)
    figure, axes = kit.panels((3.0 * len(names) + 0.6, 3.9), 1, len(names), sharey=True)
    for axis, name in zip(axes, names, strict=True):
        axis.plot([0, 1], [0, 1], color="gray", linewidth=1)
        for color, kind in zip(kit.COLORS, ("posterior", "ensemble"), strict=False):
            record = records.get(f"{name}-{kind}")
            if record is None:
                continue
            shares = list(zip(*record.final["coverage"], strict=True))
            kit.band(axis, LEVELS, shares, color=color, label=record.label, marker=".")
        axis.set(xlabel="level of the interval", title=name, aspect="equal")
        axis.grid(alpha=0.3)
    axes[0].set(ylabel="share of test targets inside")
    axes[0].legend(fontsize="small")
    return figure
