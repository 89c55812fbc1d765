"""Traces: what a sampling has drawn."""

from __future__ import annotations

import copy
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from colangevin import checks
from colangevin.errors import SamplingWarning
from colangevin.sampling import arviz_bridge, predictions, storage
from colangevin.sampling.summaries import Samples, Summary, summarise
from colangevin.sampling.targets import Factory
from colangevin.sampling.tuning import Tuning

if TYPE_CHECKING:
    from colangevin.sampling.predictions import Prediction, Transform

PARAMETER, OBSERVABLE, STATISTIC = "parameter", "observable", "statistic"
KINDS = (PARAMETER, OBSERVABLE, STATISTIC)


class Trace:
    """Draws of all chains: ``trace["name"]`` is [chains, draws, ...].

    Parameters and observables go by their names, and so do the statistics ``"loss"`` (of the
    batch at the draw, without the prior) and ``"kinetic_temperature"``, where no parameter or
    observable has their name.

    Attributes:
        chains: how many chains.
        draws: how many draws of each.
        tuning: step size, friction and metric, and why they were chosen.
        acceptance: the share of accepted steps of each chain, if they were tested.
        temperatures: τ of each chain.
        settings: how the trace was made.

    Example:
        >>> memory = storage.Memory(capacity=3)
        >>> for _ in range(3):
        ...     memory.append({"parameter/q": torch.zeros(2, 5)})
        >>> Trace(memory, {"temperatures": [1.0, 1.0]}, Tuning(0.1))["q"].shape
        torch.Size([2, 3, 5])
    """

    def __init__(
        self,
        store: storage.Store,
        settings: Mapping[str, Any],
        tuning: Tuning,
        acceptance: Sequence[float] | None = None,
        model: nn.Module | None = None,
        fixed: Mapping[str, Tensor] | None = None,
    ) -> None:
        self._store, self.settings, self.tuning = store, dict(settings), tuning
        self.acceptance = None if acceptance is None else torch.tensor(acceptance)
        self._model, self._fixed = model, dict(fixed or {})

    # --- what there is --------------------------------------------------------------------------

    @property
    def chains(self) -> int:
        """How many chains there are."""
        return len(self.temperatures)

    @property
    def draws(self) -> int:
        """How many draws of each chain there are."""
        return self._store.draws

    @property
    def gradients(self) -> int:
        """How many gradients of one chain the draws took; ``tuning.gradients`` has the others."""
        return self.draws * int(self.settings.get("thin", 1))

    @property
    def temperatures(self) -> list[float]:
        """τ of each chain."""
        return list(self.settings["temperatures"])

    def names(self, kind: str) -> list[str]:
        """The names of the kind "parameter", "observable" or "statistic"."""
        start = checks.choice("kind", kind, KINDS) + "/"
        return [key[len(start) :] for key in self._store.names if key.startswith(start)]

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters."""
        return self.names(PARAMETER)

    @property
    def observables(self) -> list[str]:
        """The names of the observables."""
        return self.names(OBSERVABLE)

    def __getitem__(self, name: str) -> Tensor:
        known = set(self._store.names)
        for kind in KINDS:
            if f"{kind}/{name}" in known:
                return self._store[f"{kind}/{name}"]
        there = ", ".join(key.split("/", 1)[1] for key in self._store.names)
        raise KeyError(f"the trace has no {name!r}; there are {there}")

    def __contains__(self, name: object) -> bool:
        return any(f"{kind}/{name}" in self._store.names for kind in KINDS)

    def __repr__(self) -> str:
        return (
            f"Trace({self.chains} chains × {self.draws} draws of {len(self.parameters)} "
            f"parameters and {len(self.observables)} observables"
            f"{', all from one start' if self._one_start else ''})"
        )

    @property
    def _one_start(self) -> bool:
        return bool(self.settings.get("one_start")) and self.chains > 1

    # --- what to do with it ---------------------------------------------------------------------

    def predict(
        self,
        inputs: Tensor,
        transform: Transform | None = None,
        *,
        every: int = 1,
        seed: int = 0,
    ) -> Prediction:
        """The outputs of every draw for some inputs.

        Args:
            inputs: [points, ...].
            transform: a function of one draw's outputs, such as a softmax; or one that draws from
                the likelihood, so that intervals are those of new data:
                ``lambda out: torch.normal(out[:, 0], out[:, 1].exp())``.
            every: use every so many draws only.
            seed: of random numbers in ``transform``.

        Raises:
            ValueError: if the trace lacks parameters, or the model.

        Example:
            >>> import colangevin as cl
            >>> x = torch.linspace(-1, 1, 20).unsqueeze(1)
            >>> loss = lambda outputs, targets: (outputs - targets).square().mean() / 2
            >>> with warnings.catch_warnings():
            ...     warnings.simplefilter("ignore")
            ...     trace = cl.sample(nn.Linear(1, 1), loss, (x, 2 * x), draws=20, warmup=40)
            >>> trace.predict(x).mean.shape
            torch.Size([20, 1])
        """
        checks.count("every", every)
        if self._model is None:
            raise ValueError("the trace knows no model: give it as load_trace(path, model)")
        if self.draws == 0:
            raise ValueError("the trace has no draws yet")
        lacking = {n for n, _ in self._model.named_parameters()} - {*self.parameters, *self._fixed}
        if lacking:
            raise ValueError(
                f"the trace lacks {', '.join(sorted(lacking))}: keep= left them out, so that it "
                "cannot predict"
            )
        weights = {name: self._store[f"{PARAMETER}/{name}"][:, ::every] for name in self.parameters}
        return predictions.predict(self._model, weights, self._fixed, inputs, transform, seed)

    def model(self, chain: int, draw: int) -> nn.Module:
        """One draw as a module of its own."""
        if self._model is None:
            raise ValueError("the trace knows no model: give it as load_trace(path, model)")
        module = copy.deepcopy(self._model)
        with torch.no_grad():
            for name, tensor in (*module.named_parameters(), *module.named_buffers()):
                if name in self._fixed:
                    tensor.copy_(self._fixed[name][chain])
                else:
                    tensor.copy_(self._store[f"{PARAMETER}/{name}"][chain, draw])
        return module

    def summary(self, most: int = 20, only: Sequence[str] | None = None) -> Summary:
        """Means, errors, effective sample sizes and R-hat: print it.

        Args:
            most: rows up to which each number has its own. In larger tables each tensor has one:
                that of its worst number.
            only: some names, to which all statistics are added; None for all.
        """
        kinds = {name: self.names(name) for name in KINDS}
        wanted = [name for names in kinds.values() for name in names]
        if only is not None:
            wanted = [name for name in wanted if name in only or name in kinds[STATISTIC]]
        values = {name: self._samples(name) for name in wanted}
        if "kinetic_temperature" in kinds[STATISTIC] and not self.settings.get("scheduled"):
            # Chains of a ladder have different τ: what they share is 1.
            own = self._store[f"{STATISTIC}/kinetic_temperature"]
            ratio = own / torch.tensor(self.temperatures).unsqueeze(1)
            values["kinetic_ratio"] = Samples(ratio.shape, lambda: [ratio.unsqueeze(2)])
            values.pop("kinetic_temperature", None)
        return summarise(values, self.tuning, self.acceptance, most, self._note())

    def _samples(self, name: str) -> Samples:
        key = next(f"{kind}/{name}" for kind in KINDS if f"{kind}/{name}" in self._store.names)
        return Samples(self._store.shape(key), lambda: self._store.blocks(key))

    def _note(self) -> str:
        """What R-hat cannot tell."""
        if self.chains == 1:
            return "one chain: R-hat compares its halves only"
        if self._one_start:
            return (
                "all chains started near one point: R-hat cannot see other modes; starts=, or a "
                "function as model, sets them apart"
            )
        return ""

    def to_arviz(self) -> Any:
        """The trace for ArviZ: InferenceData of its releases before 1, a DataTree from 1 on.

        Raises:
            ImportError: naming the extra, if neither is installed.
        """
        posterior = {n: self[n] for n in (*self.parameters, *self.observables)}
        statistics = {n: self._store[f"{STATISTIC}/{n}"] for n in self.names(STATISTIC)}
        return arviz_bridge.convert(posterior, statistics, self.settings)

    @classmethod
    def from_arviz(cls, data: Any, model: nn.Module | None = None) -> Trace:
        """Draws that another program made, for this library's diagnostics and predictions.

        Args:
            data: what ArviZ has: InferenceData, or a DataTree.
            model: whose parameters are among the variables, for predictions; other variables are
                observables then.

        Raises:
            ValueError, TypeError: if there are no draws, or they lack parameters of the model.
        """
        posterior, statistics = arviz_bridge.read(data)
        own = list(posterior) if model is None else [n for n, _ in model.named_parameters()]
        for name in own:
            if name not in posterior:
                raise ValueError(f"data lacks {name!r}, a parameter of the model")
        kept = {f"{PARAMETER if n in own else OBSERVABLE}/{n}": v for n, v in posterior.items()}
        kept |= {f"{STATISTIC}/{name}": values for name, values in statistics.items()}
        chains = len(next(iter(posterior.values())))
        tuning = Tuning(math.nan, reason="drawn by another program")
        settings = {"temperatures": [1.0] * chains}
        return cls(storage.Memory.of(kept), settings, tuning, None, copy.deepcopy(model))

    def check(self, names: Sequence[str] | None = None) -> list[str]:
        """What speaks against trusting the trace, each with what to do; empty if nothing does.

        Args:
            names: what it is judged by; None for ``watched()``.
        """
        if self.draws < 4:
            return [f"only {self.draws} draws: diagnostics need at least 4; raise draws"]
        chosen = self.watched() if names is None else names
        network = self.settings.get("reduction", "potential") != "potential"
        found = self.summary(0, chosen)
        return found.complaints(chosen, int(self.settings.get("thin", 1)), network)

    def watched(self) -> list[str]:
        """What convergence is judged by: the loss, the observables, and every parameter."""
        return [name for name in ("loss", *self.observables, *self.parameters) if name in self]

    def warn(self, stacklevel: int = 2, names: Sequence[str] | None = None) -> None:
        """Give the findings of ``check`` as warnings."""
        for message in self.check(names):
            warnings.warn(message, SamplingWarning, stacklevel=stacklevel + 1)


def load_trace(path: str | os.PathLike[str], model: nn.Module | Factory | None = None) -> Trace:
    """Read a trace from the folder that ``sample(..., path=...)`` wrote, finished or not.

    Args:
        path: the folder.
        model: the module, or a function that makes it, for predictions.

    Raises:
        FileNotFoundError, ValueError: if there is none, it is damaged or lacks draws, or it is the
            trace of another model.

    Example:
        >>> load_trace("nowhere")
        Traceback (most recent call last):
        ...
        FileNotFoundError: nowhere has no trace: there is no trace.json
    """
    folder = Path(path)
    described = storage.read_json(folder)
    module = None
    if model is not None:
        module = model if isinstance(model, nn.Module) else model()
        check_model(described["parameters"], described["fixed"], module, str(folder))
        module = copy.deepcopy(module)
    file = folder / "fixed.safetensors"
    fixed: dict[str, Tensor] = {}
    if described["fixed"] and not file.exists():
        raise ValueError(f"{folder} lacks {file.name}, which has {', '.join(described['fixed'])}")
    if described["fixed"]:
        library = storage.library("torch")
        with storage.reading(file):
            fixed = library.load_file(file)
    tuning = Tuning(math.nan, reason="the warm-up has not ended")
    if described.get("tuning") is not None:
        with storage.reading(folder / "trace.json"):
            tuning = Tuning.read(described["tuning"])
    return Trace(
        storage.Folder(folder, 1, described["draws"]),
        described["settings"],
        tuning,
        described.get("acceptance"),
        module,
        fixed,
    )


def check_model(
    parameters: Mapping[str, Sequence[int]],
    fixed: Sequence[str],
    module: nn.Module,
    path: str,
) -> None:
    """Refuse the trace of another model.

    Raises:
        ValueError: naming what differs.
    """
    own = {name: list(p.shape) for name, p in module.named_parameters() if name not in fixed}
    kept = {name: list(shape) for name, shape in parameters.items()}
    for name in sorted({*own, *kept}):
        if own.get(name) != kept.get(name):
            raise ValueError(
                f"{path} is the trace of another model: {name!r} has the shape {kept.get(name)} "
                f"there and {own.get(name)} in the model (None: it has no such parameter)"
            )
