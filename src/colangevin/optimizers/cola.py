"""CoLA: constrained Langevin dynamics as a ``torch.optim.Optimizer``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

from colangevin.constraints import Constraint
from colangevin.optimizers import execution, placement, saving, thermostats
from colangevin.optimizers.buckets import Bucket
from colangevin.optimizers.fused import Fused
from colangevin.optimizers.inspection import Violation, violation
from colangevin.optimizers.noise import Noise, checksum
from colangevin.optimizers.options import GROUP_OPTIONS, resolve, resolve_defaults
from colangevin.optimizers.planning import Plan, Planner, by_age
from colangevin.optimizers.resident import Resident


class CoLA(Optimizer):
    """Constrained Langevin dynamics: momentum, friction, temperature and hard constraints.

    Every parameter group may set ``constraint``, the step (``lr`` and ``momentum``, or
    ``step_size`` and ``friction``), ``temperature``, ``scheme``, ``delayed_gradient`` and
    ``weight_decay``. Unconstrained and at temperature 0, OBA is ``torch.optim.SGD``.

    Args:
        params: parameters or groups, such as ``parameter_groups`` returns.
        lr: h², as in SGD (overdamped: h).
        momentum: e^{−γh}, between 0 and 1; 0 is overdamped.
        temperature: τ, relative to the loss: with a mean loss over N samples the Bayes
            posterior is τ = 1/N.
        scheme: a word over A, B, O: "OBA", "ABO", "BAOAB", "AOAB".
        delayed_gradient: run the word literally with the gradient from before the move.
        generator: source of the noise; by default one of the optimizer's own, which depends
            on the seed and on the first weights: copies of a network need generators.
        step_size: h, in the place of ``lr``.
        friction: γ, in the place of ``momentum``; ``inf`` is overdamped.
        constraint: the constraint of groups that set none.
        weight_decay: adds weight_decay · θ to the gradient.
        strict: refuse weights that are off the manifold instead of moving them onto it.
        fused: compile the step of circle-constrained and unconstrained parameters into one
            kernel, and the drawing of large noise into another (the first step takes some
            seconds longer); None and False do not.
        thermostat: "langevin", or "adaptive" (2.58), whose friction is a variable that starts
            from ``friction`` (0 if not given); its scheme is "BACDEDCAB" or such as "BAFEFAB".
        coupling: ε of the adaptive thermostat.
        driving_noise: σ_A of the adaptive thermostat.

    Raises:
        ValueError, TypeError: naming the argument; nothing has been changed then.

    Example:
        >>> import colangevin as cl
        >>> model = torch.nn.Linear(3, 2)
        >>> groups = cl.parameter_groups(model, {"weight": cl.Circle(radius=0.5)})
        >>> optimizer = cl.CoLA(groups, lr=0.1, momentum=0.9)
        >>> model(torch.ones(1, 3)).square().sum().backward()
        >>> optimizer.step()
        >>> bool(model.weight.abs().max() <= 0.5)
        True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor | None = None,
        momentum: float | None = None,
        temperature: float = 0.0,
        scheme: str = "OBA",
        delayed_gradient: bool = False,
        generator: torch.Generator | None = None,
        *,
        step_size: float | None = None,
        friction: float | None = None,
        constraint: Constraint | None = None,
        weight_decay: float = 0.0,
        strict: bool = False,
        fused: bool | None = None,
        thermostat: str = "langevin",
        coupling: float | None = None,
        driving_noise: float | None = None,
    ) -> None:
        self._given = {
            "lr": lr,
            "momentum": momentum,
            "step_size": step_size,
            "friction": friction,
            "temperature": temperature,
            "scheme": scheme,
            "delayed_gradient": delayed_gradient,
            "constraint": constraint,
            "weight_decay": weight_decay,
            "thermostat": thermostat,
            "coupling": coupling,
            "driving_noise": driving_noise,
        }
        defaults = resolve_defaults(self._given)
        if fused is not None and not isinstance(fused, bool):
            raise TypeError(f"fused must be True, False or None, got {fused!r}")
        self._strict = strict
        self._fuse = bool(fused)
        self._prepare()
        placements: list[placement.Placement] = []
        self._collecting: list[placement.Placement] | None = placements
        super().__init__(params, defaults)
        self._collecting = None
        weights = (p for group in self.param_groups for p in group["params"])
        salt = checksum(weights) if generator is None else 0
        self._noise = Noise(generator, salt, fused=self._fuse)
        placement.commit(placements, self.state)

    def _prepare(self) -> None:
        """What is derived from the groups and never saved."""
        self._planner = Planner(self._strict)
        self._fused = Fused() if self._fuse else None

    # --- groups ---------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group; its weights are put on its manifold.

        Raises:
            ValueError, TypeError: nothing has been changed then.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"a parameter group must be a dict, got {type(param_group).__name__}")
        group = dict(param_group)
        own = {name: group.pop(name) for name in GROUP_OPTIONS if name in group}
        group.update(resolve(own, self._given))
        placement.refuse_duplicates(group, self.param_groups)
        super().add_param_group(group)
        try:
            placements = placement.of_group(self.param_groups[-1], self._strict)
        except Exception:
            self.param_groups.pop()
            raise
        if self._collecting is not None:
            self._collecting.extend(placements)
        else:
            placement.commit(placements, self.state)

    # --- the step -------------------------------------------------------------------------

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make one step.

        Args:
            closure: reevaluates the model and returns the loss.

        Raises:
            ConvergenceError: a projection failed; parameters, state and generator are as
                they were before the step.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._move(closure)
        return loss

    def _move(self, closure: Callable[[], Any] | None) -> None:
        """Move every group once with the gradients as they stand."""
        try:
            actives = self._run_groups()
        except Exception:
            self._planner.undo(self.state)
            raise
        self._planner.keep(self.param_groups, actives)

    def _run_groups(self) -> list[list[int]]:
        """Return which parameters of each group have moved."""
        groups = self.param_groups
        # All gradients are looked at before anything is changed.
        actives = [placement.with_gradient(group) for group in groups]
        adaptive = [i for i, group in enumerate(groups) if thermostats.is_adaptive(group)]
        plans = [
            plan
            for i, group in enumerate(groups)
            if i not in adaptive
            for plan in self._planner.plan(i, group, actives[i], self.state)
        ]
        if adaptive:
            self._run_with_adaptive([(i, actives[i]) for i in adaptive if actives[i]], plans)
        else:
            execution.run(plans, self.state, self._noise, self._fused)
        return actives

    def _run_with_adaptive(
        self, adaptive: Sequence[tuple[int, list[int]]], plans: Sequence[Plan]
    ) -> None:
        """Adaptive groups are computed first and written last: a failure leaves all as it was."""
        generators = self._noise.state_dict()
        try:
            outcomes = [self._adapt(index, active) for index, active in adaptive]
            execution.run(plans, self.state, self._noise, self._fused)
        except Exception:
            self._noise.load_state_dict(generators)
            raise
        for outcome in outcomes:
            outcome.write(self.state)

    def _adapt(self, index: int, active: list[int]) -> thermostats.Outcome:
        group = self.param_groups[index]
        self._planner.settle(group, active, self.state)
        fresh, moved = (
            self._planner.buckets(group, indices) if indices else []
            for indices in by_age(group, active, self.state)
        )
        return thermostats.advance(group, fresh, moved, self.state, self._noise.draw)

    # --- what a user can read -------------------------------------------------------------

    @torch.no_grad()
    def violation(self) -> list[Violation]:
        """For each group: max |g| and the largest cotangency residual, both relative.

        Example:
            >>> import colangevin as cl
            >>> weight = torch.nn.Parameter(torch.randn(4, 2))
            >>> optimizer = cl.CoLA([weight], lr=0.1, constraint=cl.Orthogonal())
            >>> optimizer.violation()[0].residual < 1e-6
            True
        """
        return [
            violation([bucket for bucket, _ in self._filled(index)], self.state)
            for index in range(len(self.param_groups))
        ]

    def _filled(self, index: int) -> list[tuple[Bucket, Resident | None]]:
        """The buckets of all parameters of a group that have any entries."""
        params = self.param_groups[index]["params"]
        filled = [i for i, parameter in enumerate(params) if parameter.numel()]
        return self._buckets_of(index, filled) if filled else []

    def _buckets_of(
        self, index: int, indices: Sequence[int]
    ) -> list[tuple[Bucket, Resident | None]]:
        return self._planner.buckets(self.param_groups[index], indices)

    # --- saving ---------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """As in torch, with constraints as plain values and the noise's generators."""
        return saving.pack(super().state_dict(), self._noise)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue exactly where ``state_dict`` was taken.

        Raises:
            ValueError: if it belongs to other constraints or other parameters.
        """
        state_dict = saving.run_pre_hooks(self, state_dict)
        saving.check(state_dict, self.param_groups)
        constraints = [group["constraint"] for group in self.param_groups]
        with saving.without_hooks(self):
            super().load_state_dict(saving.without_extras(state_dict))
        for group, constraint in zip(self.param_groups, constraints, strict=True):
            group["constraint"] = constraint
        saving.restore_dtypes(state_dict, self.param_groups, self.state)
        if "noise" in state_dict:
            self._noise.load_state_dict(state_dict["noise"])
        self._prepare()
        saving.run_post_hooks(self)

    def __getstate__(self) -> dict[str, Any]:
        own = {name: self.__dict__[name] for name in ("_given", "_strict", "_fuse", "_noise")}
        return {**super().__getstate__(), **own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._collecting = None
        self._prepare()
