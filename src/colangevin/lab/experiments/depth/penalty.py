"""Figure 5: soft orthogonality, step sizes and penalty strengths, against o-CoLA-od."""

from __future__ import annotations

from colangevin.lab import kit
from colangevin.lab.experiments.depth import depth
from colangevin.lab.experiments.depth.plot import accuracies, draw_curves, draw_grid

NAME = "depth-penalty"
CONSTRAINED = "o-CoLA-od"
FULL = {"steps": [0.1, 0.05, 0.02], "penalties": [0.05, 0.5, 5.0], "depths": [2, 5]}
SCALES = {
    "smoke": {**depth.TINY, **FULL, "steps": [0.1, 0.05], "penalties": [0.05], "depths": [3]},
    "laptop": {**depth.PAPER, **FULL, "runs": 2, "epochs": 1_000, "depths": [3]},
    "full": {**depth.PAPER, **FULL, "epochs": 1_000},
}


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """One job per depth and penalty, with all step sizes, and one per depth with the constraint."""
    rest = {key: settings[key] for key in settings if key not in ("steps", "penalties")}
    found = []
    for layers in settings["depths"]:
        for strength in settings["penalties"]:
            own = {"penalty": strength, "lr": settings["steps"], "label": f"λ = {strength:g}"}
            found.append(depth.job(NAME, f"penalty-{strength:g}", layers, {**rest, **own}))
        own = {"orthogonal": True, "lr": [settings["lr"]], "label": CONSTRAINED}
        found.append(depth.job(NAME, "o-cola-od", layers, {**rest, **own}))
    return found


def _runs(record: kit.Record, index: int) -> slice:
    """The runs of a record's step size."""
    runs = record.settings["runs"]
    return slice(runs * index, runs * (index + 1))


def _measured(record: kit.Record) -> dict[float, kit.Measured]:
    """Accuracies at the end by step size."""
    label, values = depth.LATE.of(record)
    return {
        step: kit.Measured(
            label if label == CONSTRAINED else f"{label}, h = {step:g}",
            values[_runs(record, index)],
        )
        for index, step in enumerate(record.settings["lr"])
    }


def _by_depth(records: kit.Records) -> dict[int, list[kit.Record]]:
    found: dict[int, list[kit.Record]] = {}
    for record in records.values():
        found.setdefault(record.settings["depth"], []).append(record)
    return found


def figures(records: kit.Records) -> dict[str, kit.Figure]:
    """Figure 5, and accuracy against the step size."""
    depths = _by_depth(records)
    curves = {
        f"{layers} hidden layers, {record.settings['label']}": {
            f"h = {step:g}": (record.history["epoch"], accuracies(record, _runs(record, index)))
            for index, step in enumerate(record.settings["lr"])
        }
        for layers, own in depths.items()
        for record in own
    }
    columns = max(len(own) for own in depths.values())
    steps = max((record.settings["lr"] for record in records.values()), key=len)
    grid = {
        f"{layers} hidden layers": {
            record.label: list(_measured(record).values()) for record in own
        }
        for layers, own in depths.items()
    }
    return {
        "accuracy": draw_curves(curves, columns),
        "grid": draw_grid(grid, [f"{step:g}" for step in steps]),
    }


def table(records: kit.Records) -> kit.Table:
    """Accuracies at the end, a penalty a row and a step size a column."""
    steps = sorted({step for record in records.values() for step in record.settings["lr"]})[::-1]
    rows = []
    for layers, own in _by_depth(records).items():
        for record in own:
            found = _measured(record)
            cells = [found[step].text(1) if step in found else "–" for step in steps]
            rows.append([str(layers), record.label, *cells])
    return kit.Table(["hidden layers", "method", *(f"h = {step:g}" for step in steps)], rows)


def claims(records: kit.Records) -> list[kit.Claim]:
    """No penalty and step size reaches o-CoLA-od; large penalties need small steps."""
    found = []
    for layers, own in _by_depth(records).items():
        soft = [record for record in own if "penalty" in record.settings]
        hard = [_measured(record) for record in own if "penalty" not in record.settings]
        if not soft or not hard:
            continue
        (best,) = hard[0].values()
        others = [measured for record in soft for measured in _measured(record).values()]
        where = f"with {layers} hidden layers"
        text = f"test accuracy {where} against all penalties and steps, %"
        found += [
            kit.ahead(text, best, others, digits=1, chance=kit.COIN),
            *_best_step(soft, where),
        ]
    return found


def _best_step(soft: list[kit.Record], where: str) -> list[kit.Claim]:
    """The strongest penalty does better with a smaller step than with the weakest one's best."""
    ranked = sorted(soft, key=lambda record: float(record.settings["penalty"]))
    weak, strong = _measured(ranked[0]), _measured(ranked[-1])
    usual = max(weak, key=lambda step: _rank(weak[step]))
    smaller = [step for step in strong if step < usual]
    if not smaller or len(ranked) < 2:
        return []
    best = max(smaller, key=lambda step: _rank(strong[step]))
    text = f"test accuracy {where}: a large penalty needs a smaller step, %"
    return [kit.ahead(text, strong[best], [strong[usual]], digits=1, chance=kit.COIN)]


def _rank(method: kit.Measured) -> float:
    """A mean for a maximum: NaN, where every run diverged, is the least."""
    mean = kit.mean_std(method.values)[0]
    return mean if mean == mean else -1.0


EXPERIMENT = kit.Experiment(
    name=NAME,
    title="soft orthogonality by penalties and step sizes on the four-turn spiral",
    phrase="orthogonality by a penalty instead",
    source="figure 5 (thesis: 4.5)",
    claimed="""no penalty strength and step size reaches the accuracy of orthogonal weights, and
        large penalties need small steps""",
    ours="""1,000 epochs, the grid of three penalties and three step sizes, and two depths: the text
        states none of them""",
    settings_stated="""
        grid of penalties | not in the text | 0.05, 0.5, 5
        grid of step sizes | not in the text | 0.1, 0.05, 0.02
        hidden layers | not in the text | {depth}
        epochs | not stated | {epochs}
        network | 100 nodes a layer | {hidden} nodes a layer
        data | 500 training points, four turns | {train_points}, every run its own
    """,
    scales=SCALES,
    jobs=jobs,
    run=depth.run,
    figures=figures,
    table=table,
    claims=claims,
    note="Accuracies are means over the last tenth of the epochs",
    gpus=True,
    times={"smoke": "10 s", "laptop": "4 min", "full": "30 min"},
)
