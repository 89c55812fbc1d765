"""What comes of the Fashion-MNIST records: pictures, table and verdicts."""

from __future__ import annotations

from dataclasses import replace

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
ACCURACY = kit.Quantity("test_accuracy", "test accuracy, %", 1, 100.0)
LOSS = kit.Quantity("test_loss", "test loss", digits=3)
TRAIN = replace(ACCURACY, key="train_accuracy", label="train accuracy, %")
WEIGHT = kit.Quantity("largest_output_weight", "largest |weight| of the output layer", digits=3)
COMPARED = (ACCURACY, LOSS, WEIGHT)


def stated(key: str) -> kit.Column:
    """A column of what the paper states: accuracies (0), or losses (1)."""
    place = ("test_accuracy", "test_loss").index(key)

    def text(record: kit.Record) -> str:
        value = _stated(record.job, record)[place]
        return kit.NONE if value is None else f"{value:g}" if place else f"{value:.2f}"

    return kit.Column("paper", text)


def _stated(job: str, record: kit.Record) -> tuple[float | None, float | None]:
    """The paper's accuracy and loss of a job; None for what it does not state."""
    settings = record.settings
    cell = TABLE.get(tuple(settings.get(key) for key in ("lr", "momentum", "weight_decay")))  # type: ignore[arg-type]
    accuracy = ACCURACIES[job][0] if job in ACCURACIES else None
    if cell is None:
        return accuracy, LOSSES.get(job)
    return cell[0] if accuracy is None else accuracy, cell[1]


def numbers(records: kit.Records) -> list[kit.Claim]:
    """Every number that the paper states."""
    found = []
    for job, record in records.items():
        for quantity, value in zip((ACCURACY, LOSS), _stated(job, record), strict=True):
            if value is None:
                continue
            spread = ACCURACIES.get(job, (0.0, None))[1] if quantity is ACCURACY else None
            said = f"{value:.{2 if value > 1.2 else 3}f}" + (f" ± {spread:g}" if spread else "")
            text, why = f"{quantity.label} of {{label}}", WHY.get(job, "")
            found += kit.Near(quantity, job, said, text=text, why=why)(records)
    return found + _not_measured(records)


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
