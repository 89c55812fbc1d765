"""Tables 2 and 4.4 beside what the records have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from colangevin.lab import kit

TITLES = {
    "ptb": "Penn Treebank",
    "wikitext-2": "WikiText-2",
    "treebank": "the whole Penn Treebank",
}
DATASETS = {"treebank": "ptb"}
"""Which dataset a text is, where its name is not the dataset's."""
CIRCLES = "c-cola-ud"
"""How the methods with circles begin; the paper has one number for them."""
PAPER: dict[str, dict[str, Any]] = {
    "ptb": {"batch_tokens": 1024, "train_tokens": 929_589, "valid_tokens": 73_760},
    "wikitext-2": {"batch_tokens": 128, "train_tokens": 2_088_628, "valid_tokens": 217_646},
}
PAPER_EPOCHS = 200
STATED = {
    "ptb": {"c-cola-ud": 4.81, "sgd-m": 4.83, "sgd-m-fast": 4.83, "sgd-m-wd": 4.77}
    | {"sgd-m-0.7": 4.87, "sgd-m-0.9": 4.84, "sgd-m-fast-0.7": 4.83}
    | {"sgd-m-wd-0.7": 4.84, "sgd-m-wd-0.9": 4.77},
    "wikitext-2": {"c-cola-ud": 5.09, "sgd-m": 5.13, "sgd-m-fast": 5.14, "sgd-m-wd": 5.02}
    | {"sgd-m-0.7": 5.13, "sgd-m-0.9": 5.13, "sgd-m-fast-0.7": 5.13}
    | {"sgd-m-wd-0.7": 5.01, "sgd-m-wd-0.9": 5.02},
}
"""The paper's minimum validation losses."""
OTHERS: dict[str, dict[str, Any]] = {
    "sgd-m-0.7": {"label": "SGD-m, h = 0.1, momentum 0.7", "lr": 0.1, "momentum": 0.7},
    "sgd-m-0.9": {"label": "SGD-m, h = 0.1, momentum 0.9", "lr": 0.1, "momentum": 0.9},
    "sgd-m-fast-0.7": {"label": "SGD-m, h = 0.2, momentum 0.7", "lr": 0.2, "momentum": 0.7},
    "sgd-m-wd-0.7": {"label": "SGD-m, momentum 0.7, WD 1e-4", "lr": 0.1, "momentum": 0.7}
    | {"weight_decay": 1e-4},
    "sgd-m-wd-0.9": {"label": "SGD-m, momentum 0.9, WD 1e-4", "lr": 0.1, "momentum": 0.9}
    | {"weight_decay": 1e-4},
}
"""The rows of tables 2 and 4.4 that only the scale paper has on both texts."""

LOSS = kit.Quantity("min_valid_loss", "minimum validation loss")


def of_text(records: kit.Records, text: str) -> dict[str, kit.Record]:
    """Records of a text by method; the names of jobs begin with that of the text."""
    own = [record for record in records.values() if record.job.startswith(f"{text}-")]
    return {record.settings["method"]: record for record in own}


def figures(records: kit.Records) -> dict[str, kit.Figure]:
    """Validation and training losses, one row per text, the longest training first."""
    panels = {"valid_loss": "validation loss", "train_loss": "training loss"}
    present = {text: list(of_text(records, text).values()) for text in reversed(TITLES)}
    present = {text: found for text, found in present.items() if found}
    rows = [(panels, found) for found in present.values()]
    titles = [_title(text, found[0].settings) for text, found in present.items()]
    return {"losses": kit.draw_curves(rows, titles=titles)}


def _title(text: str, settings: kit.Settings) -> str:
    """What a text is called, with the number of its tokens if it is a part of a dataset."""
    tokens = settings["train_tokens"]
    part = tokens < PAPER[settings["dataset"]]["train_tokens"]
    return TITLES[text] + (f", {tokens:,} tokens" if part else "")


def stated_of(settings: kit.Settings) -> float:
    """The paper's minimum validation loss of a method.

    Example:
        >>> stated_of({"dataset": "ptb", "method": "c-cola-ud-aoab"})
        4.81
    """
    method = settings["method"]
    return STATED[settings["dataset"]][CIRCLES if method.startswith(CIRCLES) else method]


def after(record: kit.Record, epochs: int) -> str:
    """The validation loss after so many epochs."""
    found = dict(zip(record.history["epoch"], record.series("valid_loss"), strict=True))
    return f"{kit.mean_std(found[epochs])[0]:.2f}" if epochs in found else "–"


def table(records: kit.Records) -> kit.Table:
    """Losses of all methods, next to the paper's."""
    rows = []
    fewest = sorted({record.settings["epochs"] for record in records.values()})
    for job, record in records.items():
        settings = record.settings
        text = next(text for text in TITLES if job.startswith(f"{text}-"))
        rows.append(
            [
                TITLES[text],
                settings["label"],
                f"{settings['epochs']}",
                *[after(record, epochs) for epochs in fewest[:-1]],
                LOSS.text(record),
                f"{stated_of(settings):.2f}",
                records.text(job, "valid_loss", 2),
                records.text(job, "train_loss", 2),
                records.text(job, "largest_weight", 2),
            ]
        )
    columns = ["data", "method", "epochs"]
    columns += [f"loss after {n} epoch{'' if n == 1 else 's'}" for n in fewest[:-1]]
    columns += [LOSS.label, "the paper's", "last one", "train loss"]
    return kit.Table([*columns, "largest weight"], rows)


def claims(records: kit.Records) -> list[kit.Claim]:
    """The paper's numbers, and their orderings."""
    found = []
    for text, title in TITLES.items():
        methods = of_text(records, text)
        loss = replace(LOSS, label=f"{LOSS.label}, {title}")
        for record in methods.values():
            what = f"{loss.label}: {record.settings['label']}"
            claim = kit.number(what, f"{stated_of(record.settings):.2f}", loss.of(record))
            found.append(claim.reduced(_reduced(record.settings)))
        pairs = [("c-cola-ud", "sgd-m"), ("c-cola-ud", "sgd-m-fast"), ("sgd-m-wd", "c-cola-ud")]
        for better, worse in pairs:
            if better in methods and worse in methods:
                found.append(loss.ahead(methods[better], methods[worse]))
    return found + _not_measured(records)


def _not_measured(records: kit.Records) -> list[kit.Claim]:
    """The rows of the tables that were not run, in one."""
    measured = {(own.settings["dataset"], own.settings["method"]) for own in records.values()}
    rows = [(d, n) for d, own in STATED.items() for n in own if (d, n) not in measured]
    if not rows:
        return []
    named = "; ".join(f"{TITLES[d]}, {n}" for d, n in rows)
    stated = ", ".join(f"{STATED[d][n]:.2f}" for d, n in rows)
    why = kit.Answer(kit.UNDECIDED, "not run: the scale paper measures them")
    return [kit.Claim(f"{LOSS.label} of {len(rows)} more rows", stated, "–", number=why, why=named)]


def _reduced(settings: kit.Settings) -> str:
    whole = settings["train_tokens"] >= PAPER[settings["dataset"]]["train_tokens"]
    if settings["epochs"] >= PAPER_EPOCHS and whole and settings["size"] == 200:
        return ""
    return (
        f"{settings['epochs']} of {PAPER_EPOCHS} epochs"
        + ("" if whole else f" of {settings['train_tokens']:,} training tokens")
        + ("" if settings["size"] == 200 else f", width {settings['size']}")
    )
