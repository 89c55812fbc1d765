"""CoLA: constrained Langevin dynamics as a ``torch.optim.Optimizer``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

from colangevin.constraints import Constraint, State
from colangevin.errors import ConvergenceError
from colangevin.integrators.dynamics import Action, Dynamics, advance
from colangevin.integrators.stretches import stretch
from colangevin.optimizers import placement, saving, thermostats
from colangevin.optimizers.buckets import MOMENTUM, Bucket, make_buckets
from colangevin.optimizers.elementwise import run_in_blocks
from colangevin.optimizers.fused import Fused
from colangevin.optimizers.hyperparameters import GROUP_OPTIONS, dynamics, resolve, resolve_defaults
from colangevin.optimizers.noise import Noise
from colangevin.optimizers.resident import Resident

PLANNED = (
    "lr",
    "momentum",
    "friction",
    "temperature",
    "scheme",
    "delayed_gradient",
    "weight_decay",
)
"""The options of a group that its plan depends on."""


class Violation(NamedTuple):
    """How well a group's constraint holds.

    Attributes:
        residual: max |g| relative to the constraint's scale.
        cotangency: max |∇gᵀp| relative to |∇g||p|.
    """

    residual: float
    cotangency: float


class Plan(NamedTuple):
    """What one bucket does in one step."""

    bucket: Bucket
    resident: Resident | None
    actions: tuple[Action, ...]
    momentum: bool
    weight_decay: float


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
        generator: source of the noise; by default one of the optimizer's own.
        step_size: h, in the place of ``lr``.
        friction: γ, in the place of ``momentum``; ``inf`` is overdamped.
        constraint: the constraint of groups that set none.
        weight_decay: adds weight_decay · θ to the gradient.
        strict: refuse weights that are off the manifold instead of moving them onto it.
        fused: compile the step of circle-constrained and unconstrained parameters into one
            kernel (the first step takes some seconds longer); None and False do not.
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
        sizes = [p.numel() for group in self.param_groups for p in group["params"]]
        self._noise = Noise(generator, salt=sum(sizes) + len(sizes))
        self._commit(placements)

    def _prepare(self) -> None:
        """What is derived from the groups and never saved."""
        self._buckets: dict[tuple[int, ...], list[tuple[Bucket, Resident | None]]] = {}
        self._plans: dict[int, tuple[tuple[object, ...], list[Plan]]] = {}
        self._settled: set[int] = set()
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
            self._commit(placements)

    def _commit(self, placements: Sequence[placement.Placement]) -> None:
        for bucket, position in placements:
            bucket.write_position(self.state, position)

    # --- the step -------------------------------------------------------------------------

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
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
        indices = range(len(self.param_groups))
        adaptive = [i for i in indices if thermostats.is_adaptive(self.param_groups[i])]
        plans = [plan for i in indices if i not in adaptive for plan in self._plan(i)]
        if adaptive:
            self._run_with_adaptive(adaptive, plans)
        else:
            self._run(plans)

    def _plan(self, index: int) -> list[Plan]:
        """The group's buckets with their actions; refuses bad gradients before any change."""
        group = self.param_groups[index]
        active = placement.with_gradient(group)
        if not active:
            return []
        share = group.get("stretch", (0, 1))  # set while Multirate walks a part of the way
        options = [share, *(group[name] for name in PLANNED)]
        # Schedulers change a tensor in place, so it is its number that is compared.
        key = (*active, *(float(o) if isinstance(o, Tensor) else o for o in options))
        if index in self._plans and self._plans[index][0] == key:
            return self._plans[index][1]
        settings = dynamics(group)
        self._settle(group, active)
        momentum = not settings.is_overdamped
        fresh, moved = self._by_age(group, active) if momentum else ([], active)
        plans = [
            Plan(bucket, resident, stretch(actions, *share), momentum, group["weight_decay"])
            for indices, actions in self._calls(settings, fresh, moved)
            for bucket, resident in self._buckets_of(index, indices)
        ]
        if not fresh:
            self._plans[index] = (key, plans)
        return plans

    def _by_age(self, group: dict[str, Any], active: list[int]) -> tuple[list[int], list[int]]:
        """The parameters that have never moved, and the others."""
        fresh = [i for i in active if MOMENTUM not in self.state.get(group["params"][i], {})]
        return fresh, [i for i in active if i not in fresh] if fresh else active

    @staticmethod
    def _calls(
        settings: Dynamics, fresh: list[int], moved: list[int]
    ) -> list[tuple[list[int], tuple[Action, ...]]]:
        """Parameters that have never moved make a first call, which may differ."""
        first, later = settings.actions(first=True), settings.actions(first=False)
        if first == later:
            return [(sorted(fresh + moved), later)]
        return [(indices, a) for indices, a in ((fresh, first), (moved, later)) if indices]

    def _settle(self, group: dict[str, Any], active: list[int]) -> None:
        """Put on the manifold what was changed between construction and the first step."""
        if all(id(group["params"][i]) in self._settled for i in active):
            return
        self._commit(placement.of_group(group, self._strict))
        self._settled.update(id(p) for p in group["params"])

    def _buckets_of(
        self, index: int, indices: Sequence[int]
    ) -> list[tuple[Bucket, Resident | None]]:
        key = (index, *indices)
        if key not in self._buckets:
            group = self.param_groups[index]
            names = placement.names(group)
            buckets = make_buckets(
                group["constraint"],
                [group["params"][i] for i in indices],
                [names[i] for i in indices],
            )
            self._buckets[key] = [(bucket, Resident.of(bucket)) for bucket in buckets]
        return self._buckets[key]

    def _run(self, plans: Sequence[Plan]) -> None:
        """Compute what may fail before anything is written, then the rest."""
        fallible = [plan for plan in plans if plan.bucket.constraint.fallible]
        generators = self._noise.state_dict() if fallible else None
        try:
            results = [(plan, self._advance(plan)) for plan in fallible]
        except Exception:
            assert generators is not None
            self._noise.load_state_dict(generators)
            raise
        for plan, state in results:
            self._write(plan, state)
        for plan in plans:
            if plan.bucket.constraint.fallible:
                continue
            if plan.resident is not None and plan.bucket.constraint.elementwise:
                self._advance_in_place(plan, plan.resident)
            else:
                self._write(plan, self._advance(plan))

    def _write(self, plan: Plan, state: State) -> None:
        if plan.resident is None:
            plan.bucket.write(self.state, state)
        else:
            plan.resident.commit(self.state, state)

    def _advance_in_place(self, plan: Plan, resident: Resident) -> None:
        state = resident.read(self.state, plan.momentum)
        constraint, gradient = plan.bucket.constraint, self._gradient(plan.bucket)
        job = (constraint, state, gradient, plan.weight_decay, plan.actions, self._noise.draw)
        if self._fused is None or not self._fused.run(*job):
            run_in_blocks(*job)
        resident.commit(self.state)

    @staticmethod
    def _gradient(bucket: Bucket) -> Tensor:
        # Without a gradient of its own, a parameter moves only with a joint constraint.
        parameters = bucket.parameters
        return bucket.gather(
            [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        )

    def _run_with_adaptive(self, adaptive: Sequence[int], plans: Sequence[Plan]) -> None:
        """Adaptive groups are computed first and written last: a failure leaves all as it was."""
        generators = self._noise.state_dict()
        try:
            outcomes = [self._adapt(index) for index in adaptive]
            self._run(plans)
        except Exception:
            self._noise.load_state_dict(generators)
            raise
        for outcome in outcomes:
            if outcome is not None:
                outcome.write(self.state)

    def _adapt(self, index: int) -> thermostats.Outcome | None:
        group = self.param_groups[index]
        active = placement.with_gradient(group)
        if not active:
            return None
        self._settle(group, active)
        fresh, moved = (
            self._buckets_of(index, indices) if indices else []
            for indices in self._by_age(group, active)
        )
        return thermostats.advance(group, fresh, moved, self.state, self._noise.draw)

    def _advance(self, plan: Plan) -> State:
        bucket = plan.bucket
        home = bucket if plan.resident is None else plan.resident
        state = home.read(self.state, plan.momentum)
        gradient = self._gradient(bucket)
        if plan.weight_decay:
            gradient = gradient + plan.weight_decay * state.position
        try:
            return advance(bucket.constraint, state, gradient, plan.actions, self._noise.draw)
        except ConvergenceError as error:
            raise ConvergenceError(f"{bucket.name}: {error}") from error

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
        return [self._violation(index) for index in range(len(self.param_groups))]

    def _violation(self, index: int) -> Violation:
        residual = cotangency = 0.0
        params = self.param_groups[index]["params"]
        filled = [i for i, parameter in enumerate(params) if parameter.numel()]
        for bucket, _ in self._buckets_of(index, filled) if filled else []:
            momentum = all(MOMENTUM in self.state.get(p, {}) for p in bucket.parameters)
            state = bucket.read(self.state, momentum)
            if bucket.constraint.double_safe and state.position.device.type != "mps":
                state = State(*[None if t is None else t.double() for t in state])  # type: ignore[arg-type]
            residual = max(residual, float(bucket.constraint.residual(state).abs().max()))
            if momentum:
                closed = bucket.constraint.close(state)
                along = float(bucket.constraint.cotangency(closed).abs().max())
                cotangency = max(cotangency, along)
        return Violation(residual, cotangency)

    # --- saving ---------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """As in torch, with constraints as plain values and the noise's generators."""
        return saving.pack(super().state_dict(), self._noise)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue exactly where ``state_dict`` was taken.

        Raises:
            ValueError: if it belongs to other constraints or other parameters.
        """
        saving.check(state_dict, self.param_groups)
        constraints = [group["constraint"] for group in self.param_groups]
        super().load_state_dict(saving.without_extras(state_dict))
        for group, constraint in zip(self.param_groups, constraints, strict=True):
            group["constraint"] = constraint
        saving.restore_dtypes(state_dict, self.param_groups, self.state)
        if "noise" in state_dict:
            self._noise.load_state_dict(state_dict["noise"])
        self._prepare()

    def __getstate__(self) -> dict[str, Any]:
        own = {name: self.__dict__[name] for name in ("_given", "_strict", "_fuse", "_noise")}
        return {**super().__getstate__(), **own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._collecting = None
        self._prepare()
