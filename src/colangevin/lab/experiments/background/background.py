"""Figures 1.9, 1.10 and 1.12 to 1.14: resonances of r-RESPA, and reversible averaging."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from colangevin.lab import kit
from colangevin.lab.experiments.background.time_stepping import (
    averaging_matrices,
    langevin_respa,
    respa_matrices,
)

NAME = "background"
FULL: dict[str, Any] = {
    "runs": 1,
    "frequency": 3.0,
    "stiffness": 10.0,
    "grid": 600,
    "short_steps": 200,
    "sampled_steps": 40,
    "frictions": 12,
    "chains": 250,
    "steps": 4_000,
    "inner": 10,
}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": {
        **FULL,
        "grid": 30,
        "short_steps": 10,
        "sampled_steps": 4,
        "frictions": 3,
        "chains": 2,
        "steps": 10,
        "inner": 3,
    },
    "full": FULL,
}
SCALES["laptop"] = {**FULL, "chains": 50}
LARGEST = {"respa": 10.0, "averaging": 1.0}
"""Up to which h Ω, and up to which h, eigenvalues are shown."""


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """Eigenvalues of r-RESPA, its Langevin version, and reversible averaging."""
    labels = {"respa": "r-RESPA", "langevin": "Langevin r-RESPA", "averaging": "RA-0 and RA-1"}
    return [kit.Job(NAME, name, {**settings, "label": label}) for name, label in labels.items()]


def run(job: kit.Job, log: kit.Log) -> None:
    """Compute one of the three."""
    log.finish(
        **{"respa": _respa, "langevin": _langevin, "averaging": _averaging}[job.name](job, log)
    )


def _respa(job: kit.Job, log: kit.Log) -> dict[str, Any]:
    s = job.settings
    phases = torch.linspace(0, LARGEST["respa"], s["grid"] + 1, dtype=torch.float64)[1:]
    h = phases / s["frequency"]
    values = torch.linalg.eigvals(respa_matrices(h, s["frequency"], s["short_steps"]))
    closed = _closed_form(h, s["frequency"])
    return {"phase": phases, "modulus": values.abs().amax(dim=1), "closed": closed}


def _closed_form(h: Tensor, frequency: float) -> Tensor:
    """The larger |λ| of (1.35): λ + 1/λ = 2 cos Ωh − (h/Ω) sin Ωh."""
    trace = 2 * torch.cos(frequency * h) - h / frequency * torch.sin(frequency * h)
    beyond = (trace.square() / 4 - 1).clamp_min(0).sqrt()
    return torch.where(trace.abs() > 2, trace.abs() / 2 + beyond, torch.ones_like(trace))


def _langevin(job: kit.Job, log: kit.Log) -> dict[str, Any]:
    """The error of ⟨q²⟩ against τ/(1 + Ω²), over h and γ; null where it is not stable."""
    s = job.settings
    square = s["frequency"] ** 2
    h = torch.linspace(0, 8.0 / s["frequency"], s["sampled_steps"] + 1, dtype=torch.float64)[1:]
    friction = torch.logspace(-2, 1.5, s["frictions"], dtype=torch.float64)
    shape = (len(h), len(friction), s["chains"])
    steps, gamma = h.view(-1, 1, 1), friction.view(1, -1, 1)
    generator = torch.Generator().manual_seed(1000 * s["seed"])
    q = torch.randn(shape, generator=generator, dtype=torch.float64) / math.sqrt(1 + square)
    p, total = torch.randn(shape, generator=generator, dtype=torch.float64), torch.zeros(shape)
    settings = (steps, s["inner"], gamma, 1.0, generator)
    for step in range(s["steps"]):
        q, p = langevin_respa(q, p, lambda x: x, lambda x: square * x, *settings)
        if step >= s["steps"] // 10:
            total = total + q.square()
        log.keep_going(0.99 * step / s["steps"])
    mean = total.mean(dim=2) / (s["steps"] - s["steps"] // 10)
    exact = 1.0 / (1 + square)
    error = (mean - exact).abs() / exact
    found = torch.where(error < 1e3, error, math.nan)
    return {"h": h, "friction": friction, "error": found.tolist()}


def _averaging(job: kit.Job, log: kit.Log) -> dict[str, Any]:
    s = job.settings
    h = torch.linspace(0, LARGEST["averaging"], s["grid"] + 1, dtype=torch.float64)[1:]
    found: dict[str, Any] = {"h": h}
    for name, drift in (("RA-0", False), ("RA-1", True)):
        matrices = averaging_matrices(h, s["stiffness"], s["short_steps"], drift)
        values = torch.linalg.eigvals(matrices)
        order = values.angle().argsort(dim=1)
        values = values.gather(1, order)
        found[name] = {"modulus": values.abs().tolist(), "argument": values.angle().tolist()}
    return found


def figures(records: kit.Records) -> dict[str, kit.Figure]:
    """The figures of chapter 1."""
    found = {}
    if "respa" in records:
        figure, axis = kit.panels((6.5, 3.6))
        own = records["respa"].final
        axis.plot(own["phase"], own["modulus"], label="algorithm 1.1")
        axis.plot(own["phase"], own["closed"], "--", label="closed form")
        for multiple in range(1, 4):
            axis.axvline(multiple * math.pi, color="gray", linestyle=":", linewidth=1)
        axis.set(xlabel="h Ω", ylabel="largest |eigenvalue|", title="r-RESPA, Ω = 3")
        axis.legend()
        found["respa"] = figure
    if "langevin" in records:
        found["langevin"] = _map(records["langevin"].final)
    if "averaging" in records:
        found["averaging"] = _eigenvalues(records["averaging"].final)
    return found


def _map(own: Any) -> kit.Figure:

    figure, axis = kit.panels((6.5, 4.0))
    error = np.array(own["error"], dtype=float)
    levels = np.log10(np.maximum(error, 1e-3))
    picture = axis.pcolormesh(
        own["h"], own["friction"], levels.T, cmap="coolwarm", vmin=-2.5, vmax=1.0, shading="nearest"
    )
    figure.colorbar(picture, ax=axis, label="log₁₀ of the relative error of ⟨q²⟩")
    axis.set(xlabel="h", ylabel="friction γ", yscale="log")
    axis.set_title("Langevin r-RESPA, Ω = 3, τ = 1; white: not stable")
    return figure


def _eigenvalues(own: Any) -> kit.Figure:

    figure, axes = kit.panels((10, 6), 2, 2, sharex=True)
    for column, name in enumerate(("RA-0", "RA-1")):
        for row, key in enumerate(("modulus", "argument")):
            axes[row, column].plot(own["h"], own[name][key], ".", markersize=2)
            axes[row, column].set(ylabel=f"{key} of the eigenvalues")
        axes[0, column].set(title=f"{name}, Ω² = 10")
        axes[1, column].set(xlabel="h")
    return figure


def table(records: kit.Records) -> kit.Table:
    """What was found, in numbers."""
    rows = []
    if "respa" in records:
        rows.append(["r-RESPA", "unstable h Ω", _intervals(records)])
    if "langevin" in records:
        rows.append(
            ["Langevin r-RESPA", "h that are not stable or wrong by 20 %", _by_friction(records)]
        )
    if "averaging" in records:
        for name in ("RA-0", "RA-1"):
            rows.append([name, "largest | |λ| − 1 |", f"{_excess(records, name):.2g}"])
    return kit.Table(["method", "what", "found"], rows)


def _intervals(records: kit.Records) -> str:
    own = records["respa"].final
    inside, found = False, []
    for phase, value in zip(own["phase"], own["modulus"], strict=True):
        if (value > 1 + 1e-6) != inside:
            inside = not inside
            found.append(phase)
    pairs = zip(found[::2], [*found[1::2], LARGEST["respa"]], strict=False)
    return ", ".join(f"{low:.2f} to {high:.2f}" for low, high in pairs)


def _bad(records: kit.Records) -> dict[float, int]:
    """For the smallest and the largest γ, how many h are unstable or off by more than 20 %."""
    own = records["langevin"].final
    found = {}
    for index in (0, len(own["friction"]) - 1):
        column = [row[index] for row in own["error"]]
        found[own["friction"][index]] = sum(v is None or not v < 0.2 for v in column)
    return found


def _by_friction(records: kit.Records) -> str:
    count = len(records["langevin"].final["h"])
    return "; ".join(f"γ = {g:g}: {n} of {count}" for g, n in _bad(records).items())


def _excess(records: kit.Records, name: str) -> float:
    moduli = records["averaging"].final[name]["modulus"]
    return max(abs(value - 1) for row in moduli for value in row)


def claims(records: kit.Records) -> list[kit.Claim]:
    """Resonances at multiples of π, friction against them, and RA-1 without them."""
    found = []
    if "respa" in records:
        own = records["respa"].final
        for multiple in (1, 2, 3):
            top = multiple * math.pi
            below = [
                v
                for x, v in zip(own["phase"], own["modulus"], strict=True)
                if top - 0.25 < x < top - 0.02
            ]
            if below:
                text = f"largest |eigenvalue| of r-RESPA just below h Ω = {multiple}π"
                found.append(
                    kit.computed(text, "above 1", f"{max(below):.4f}", max(below) > 1 + 1e-4)
                )
    if "langevin" in records:
        low, high = _bad(records).values()
        text = "steps h that are not stable or wrong by 20 %, at the smallest and largest friction"
        chains = records["langevin"].settings["chains"]
        by = f"averages of {chains} chains; taken as fewer than half"
        order = kit.Answer(kit.YES if high < low / 2 else kit.NO, by)
        found.append(kit.Claim(text, "friction removes", _by_friction(records), order=order))
    if "averaging" in records:
        zero, one = _excess(records, "RA-0"), _excess(records, "RA-1")
        text = "largest | |λ| − 1 | up to h = 1"
        found.append(kit.computed(f"{text}, RA-0", "resonances", f"{zero:.2g}", zero > 1e-2))
        why = "taken as below 0.001"
        found.append(kit.computed(f"{text}, RA-1", "0", f"{one:.2g}", one < 1e-3, why))
        found += [_crossing(records, "RA-0", True), _crossing(records, "RA-1", False)]
    return found


def _crossing(records: kit.Records, name: str, stated: bool) -> kit.Claim:
    """Figures 1.13 and 1.14: whether the arguments of the two pairs of eigenvalues meet."""
    own = records["averaging"].final
    sizes = np.sort(np.abs(np.array(own[name]["argument"])), axis=1)
    met = int((sizes[:, 2] - sizes[:, 1] < 1e-6).sum())
    ours = f"at {met} of {len(sizes)} steps h"
    text = f"arguments of the eigenvalues of {name} meet, up to h = 1"
    return kit.computed(text, "they cross" if stated else "they do not", ours, bool(met) is stated)


EXPERIMENT = kit.Experiment(
    name=NAME,
    title="resonances of r-RESPA, and reversible averaging with and without linear drift",
    phrase="resonances of r-RESPA, and averaging",
    source="thesis figures 1.9, 1.10, 1.12, 1.13 and 1.14",
    claimed="""r-RESPA is unstable where h Ω is a multiple of π, friction removes that; reversible
        averaging with linear drift has no resonances""",
    ours="fast parts are solved in 200 short steps; k = 10 in figure 1.10",
    settings_stated="""
        fast parts | exactly | in {short_steps} short steps
        k of figure 1.10 | not stated | {inner}
        steps of figure 1.10 | 1,000,000 | {chains} chains of {steps}
        Ω, Ω² of averaging | 3, 10 | {frequency}, {stiffness}
    """,
    scales=SCALES,
    jobs=jobs,
    run=run,
    figures=figures,
    table=table,
    claims=claims,
    note="""Fast parts are solved in 200 short steps, not exactly. Averages of figure 1.10 are of
        250 chains of 4,000 steps, together the thesis's 1,000,000, with k = 10, which it does not
        state; 50 chains at laptop""",
    times={"smoke": "1 s", "laptop": "1 min", "full": "5 min"},
)
