"""What comes of the Fashion-MNIST records: pictures, table and verdicts."""

from __future__ import annotations

import numpy as np

from colangevin.lab import kit

BEST = "c-cola-ud"
ACCURACIES: dict[str, tuple[float, float | None]] = {
    "c-cola-ud": (87.63, 0.04),
    "c-cola-ud-oba": (87.63, 0.04),
    "sgd-m": (87.39, 0.06),
    "sgd-m-wd-1e-4": (87.47, 0.38),
    "sgd-m-wd-5e-5": (87.29, 0.58),
    "sgd-m-wd-1e-5": (87.45, 0.06),
}
"""Test accuracy and its standard deviation in section 4.7.3.2."""
LOSSES = {"c-cola-ud": 0.386, "c-cola-ud-oba": 0.386}
TABLE: dict[tuple[float, float, float], tuple[float, float]] = {
    (0.2, 0.8, 0.0): (87.18, 1.06),
    (0.2, 0.8, 1e-4): (84.05, 0.696),
    (0.2, 0.7, 0.0): (87.38, 0.890),
    (0.2, 0.7, 1e-4): (87.0, 0.547),
    (0.1, 0.9, 0.0): (86.97, 1.133),
    (0.1, 0.9, 1e-4): (85.35, 0.634),
    (0.1, 0.8, 0.0): (87.39, 0.824),
    (0.1, 0.8, 1e-4): (87.47, 0.531),
    (0.1, 0.7, 0.0): (87.39, 0.750),
    (0.1, 0.7, 1e-4): (87.25, 0.517),
    (0.05, 0.95, 0.0): (86.67, 1.226),
    (0.05, 0.95, 1e-4): (85.63, 0.623),
    (0.05, 0.9, 0.0): (87.33, 0.837),
    (0.05, 0.9, 1e-4): (86.24, 0.569),
    (0.05, 0.8, 0.0): (87.27, 0.719),
    (0.05, 0.8, 1e-4): (87.33, 0.511),
}
"""Table 4.3: test accuracy and test loss by step size, momentum and weight decay."""

WHY = {
    "c-cola-ud": "the authors' circle step leaves the circle (errata, 8), this one does not",
    "c-cola-ud-oba": "the paper's numbers are of AOAB with a delayed gradient",
}
LABELS = {
    "test_loss": "test loss",
    "test_accuracy": "test accuracy, %",
    "largest_output_weight": "largest |weight| of the output layer",
}


def draw(records: kit.Records, keys: tuple[str, str]) -> kit.Figure:
    """Two quantities over time, mean over the runs with two standard errors on either side."""
    figure, axes = kit.panels((11, 4.6), 1, 2)
    if "largest_output_weight" in keys:
        axes[0].set_yscale("log")
    shown = [record for record in records.values() if not record.settings.get("grid")]
    for axis, key in zip(axes, keys, strict=True):
        for color, record in zip(kit.COLORS, shown, strict=False):
            epochs = record.history["epoch"][1:]  # without the untrained network
            values = kit.factor_of(key) * np.array(record.series(key)[1:])
            kit.band(axis, epochs, values, color=color, label=record.label)
        axis.set(xlabel="epoch", ylabel=LABELS[key])
        axis.grid(alpha=0.3)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    kit.say_bands(figure)
    return figure


def _measured(record: kit.Record, key: str) -> kit.Measured:
    values = [kit.factor_of(key) * value for value in record.values(key)]
    return kit.Measured(record.label, values)


def table(records: kit.Records) -> kit.Table:
    """Results after the last epoch, with the paper's next to them."""
    columns = ["method", "test accuracy, %", "paper", "test loss", "paper", "train accuracy, %"]
    rows = []
    for job, record in records.items():
        accuracy, loss = _stated(job, record)
        rows.append(
            [
                record.label,
                _measured(record, "test_accuracy").text(2),
                "–" if accuracy is None else f"{accuracy:.2f}",
                _measured(record, "test_loss").text(3),
                "–" if loss is None else f"{loss:g}",
                _measured(record, "train_accuracy").text(2),
                _measured(record, "largest_output_weight").text(3),
            ]
        )
    return kit.Table([*columns, "largest output weight"], rows)


def _stated(job: str, record: kit.Record) -> tuple[float | None, float | None]:
    """The paper's accuracy and loss of a job; None for what it does not state."""
    settings = record.settings
    cell = TABLE.get(tuple(settings.get(key) for key in ("lr", "momentum", "weight_decay")))  # type: ignore[arg-type]
    accuracy = ACCURACIES[job][0] if job in ACCURACIES else None
    if cell is None:
        return accuracy, LOSSES.get(job)
    return cell[0] if accuracy is None else accuracy, cell[1]


def claims(records: kit.Records) -> list[kit.Claim]:
    """Every number that the paper states, and the orderings of figures 7 and 4.10."""
    found = []
    for job, record in records.items():
        accuracy, loss = _stated(job, record)
        label, why = record.label, WHY.get(job, "")
        for key, value in (("test_accuracy", accuracy), ("test_loss", loss)):
            if value is None:
                continue
            spread = ACCURACIES.get(job, (0.0, None))[1] if key == "test_accuracy" else None
            digits = 3 if key == "test_loss" else 2
            stated = f"{value:.{2 if value > 1.2 else 3}f}" + (f" ± {spread:g}" if spread else "")
            ours = _measured(record, key)
            found.append(
                kit.number(f"{LABELS[key]} of {label}", stated, ours, digits=digits, why=why)
            )
    return found + _orderings(records) + _not_measured(records)


def _not_measured(records: kit.Records) -> list[kit.Claim]:
    """Cells of table 4.3 without a record; the scale grid has them."""
    settings = [record.settings for record in records.values()]
    there = {tuple(own.get(key) for key in ("lr", "momentum", "weight_decay")) for own in settings}
    return [
        kit.Claim(
            f"test accuracy, % and test loss of SGD-m, h = {cell[0]:g}, momentum {cell[1]:g}"
            + (", WD 1e-4" if cell[2] else ""),
            f"{accuracy:.2f}, {loss:g}",
            "–",
            number=kit.Answer(kit.UNDECIDED, "not run: the scale grid measures it"),
        )
        for cell, (accuracy, loss) in TABLE.items()
        if cell not in there
    ]


def _orderings(records: kit.Records) -> list[kit.Claim]:
    rivals = [
        record
        for job, record in records.items()
        if not job.startswith(BEST) and not record.settings.get("grid")
    ]
    if not rivals or BEST not in records:
        return []
    return [
        kit.ahead(
            LABELS[key],
            _measured(records[BEST], key),
            [_measured(rival, key) for rival in rivals],
            sign=sign,
            digits=digits,
        )
        for key, sign, digits in (
            ("test_accuracy", 1, 2),
            ("test_loss", -1, 3),
            ("largest_output_weight", -1, 3),
        )
    ]
