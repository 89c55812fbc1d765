"""CoLA: constrained Langevin dynamics as a ``torch.optim.Optimizer``."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

from colangevin.constraints import Constraint, Outcome
from colangevin.errors import ProjectionWarning
from colangevin.optimizers.directions import Direction
from colangevin.optimizers.distributed.replicas import Replicas, anywhere
from colangevin.optimizers.option_checks import (
    check_capturable,
    refuse_flags,
    refuse_uncaptured,
    refuse_unknown,
)
from colangevin.optimizers.options import (
    NUMBERS,
    OPTIONS,
    dynamics,
    is_adaptive,
    own_direction,
    resolve,
    resolve_defaults,
)
from colangevin.optimizers.saving import state_dict as saving
from colangevin.optimizers.step import place
from colangevin.optimizers.step.directing import forces
from colangevin.optimizers.step.exchanged import follow, reset_replaced
from colangevin.optimizers.step.execute import execute
from colangevin.optimizers.step.kernels import insist_on_kernels, wants_kernels
from colangevin.optimizers.step.layout import REMEMBERED, STEP, StateOf
from colangevin.optimizers.step.learning import learn
from colangevin.optimizers.step.noise import choose_seed, exchange_owner
from colangevin.optimizers.step.plan import WHOLE, Call, Marks, Plan
from colangevin.optimizers.step.question import all_stand, holds, reads, repeat, watch
from colangevin.optimizers.violation import Violation, moved_buckets, not_finite, violation_of
from colangevin.torch_compat import STEPS_CAN_BE_COMPILED, add_one, never_compiled, stamp

OWN = ("_given", "_strict", "_native", "_replicas", "_seeded", "_capturable")
"""What a copy or a pickle takes along besides torch's."""
LOOK = 64
"""At every so many steps, and at the steps 1, 2, 4 and so on, weights are looked at for NaN."""


class CoLA(Optimizer):
    """Constrained Langevin dynamics: momentum, friction, temperature and hard constraints.

    Every parameter group may set ``constraint``, the step (``lr`` and ``momentum``, or
    ``step_size`` and ``friction``), ``temperature``, ``scheme``, ``delayed_gradient``,
    ``weight_decay``, ``direction``, ``rounding`` and ``mass``. Unconstrained and at temperature 0,
    OBA is ``torch.optim.SGD``.

    Weights that are off their manifold are moved onto it at once, which is logged. Parameters that
    need no gradient are left alone.

    Args:
        params: parameters or groups, such as ``parameter_groups`` returns.
        lr: h², as in SGD (overdamped: h). A step with lr = 0 changes nothing.
        momentum: e^{−γh}, between 0 and 1; 0 is overdamped.
        temperature: τ, relative to the loss: with a mean loss over N samples the Bayes
            posterior is τ = 1/N.
        scheme: a word over A, B, O: "OBA", "ABO", "BAOAB", "AOAB".
        delayed_gradient: run the word literally with the gradient from before the move.
        step_size: h, in the place of ``lr``.
        friction: γ, in the place of ``momentum``; ``inf`` is overdamped.
        constraint: the constraint of groups that set none.
        mass: of unconstrained weights: a positive number, or a tensor that broadcasts to them. A
            weight moves as with lr / mass; what it samples stays the same.
        weight_decay: adds weight_decay · θ to the gradient.
        decoupled_weight_decay: that of AdamW: θ shrinks by lr · decoupled_weight_decay in a step,
            whatever the direction is. It needs momentum = 0.
        direction: what a step goes along: "gradient", "sign" (Lion's), "adam", "polar" (Muon's),
            or an object such as ``Adam(betas=(0.9, 0.95))``. It has a momentum of its own, so
            ``momentum`` may stay 0. Only "gradient" goes with a temperature above 0.
        rounding: of weights in bfloat16 or float16. "nearest" keeps a float32 copy of them in the
            state. "stochastic" keeps none: a step is made in float32, and each weight goes to one
            of its two neighbours at random, so that the mean is right.
        strict: refuse weights that are off the manifold instead of moving them onto it, and
            gradients that are not finite. By default weights that became NaN are a warning, once.
        seed: of the noise, which is a function of the seed, the parameter's place, its count of
            steps, and the index. By default it depends on the state of torch's generator and on the
            first weights, so copies of a network need seeds of their own.
        fused: whether to use the C kernels for unconstrained, circle-constrained and small
            orthogonal parameters and for rows of spheres on a CPU. None: wherever they exist.
            False: never. True: RuntimeError if there are none, or if no parameter can use one.
        capturable: whether a CUDA graph may capture the step, or torch.compile may compile it. No
            number is read from the device then: counts of steps lie there, an lr in a tensor is
            used as it is, projections make a fixed number of iterations, and nobody looks for NaN.
        thermostat: "langevin", or "adaptive" (2.58), whose friction is a variable that starts
            from ``friction`` (0 if not given) and is the entry "friction" of the state of all
            parameters of the group; its scheme is "BACDEDCAB" or such as "BAFEFAB".
        coupling: ε of the adaptive thermostat.
        driving_noise: σ_A of the adaptive thermostat.
        independent_chains: in a distributed training, one chain per process, with noise of its
            own. By default processes hold replicas, whose noise is the same.
        check_replicas: compare the weights of replicas at the first step and at every k-th; 0
            for never.
        process_group: the processes that hold replicas; by default all of them.
        flags: other arguments of ``torch.optim.SGD``. They are accepted at their neutral values,
            such as ``nesterov=False``, and refused at others.

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
        *,
        step_size: float | None = None,
        friction: float | None = None,
        constraint: Constraint | None = None,
        mass: float | Tensor | None = None,
        weight_decay: float = 0.0,
        decoupled_weight_decay: float = 0.0,
        direction: str | Direction = "gradient",
        rounding: str = "nearest",
        strict: bool = False,
        seed: int | None = None,
        fused: bool | None = None,
        capturable: bool = False,
        thermostat: str = "langevin",
        coupling: float | None = None,
        driving_noise: float | None = None,
        independent_chains: bool = False,
        check_replicas: int = 100,
        process_group: Any = None,
        **flags: Any,
    ) -> None:
        refuse_flags(flags)
        named = locals()
        self._given = {name: named.get(name, flags.get(name)) for name in OPTIONS}
        defaults = resolve_defaults(self._given)
        self._strict = strict
        self._capturable = check_capturable(capturable, strict, fused)
        self._native = not capturable and wants_kernels(fused)
        self._replicas = Replicas(independent_chains, check_replicas, process_group)
        self._seeded = seed is not None
        self._prepare()
        self._found: list[list[place.Placement]] | None = []
        super().__init__(params, defaults)
        found, self._found = self._found, None
        chosen = choose_seed(seed, self._parameters())
        for group in self.param_groups:
            group.setdefault("seed", chosen)
        for index, placements in enumerate(found):
            self._settle(index, placements)
        self._refuse_shared_seed()
        if fused:
            insist_on_kernels(self._plans.values())

    def _parameters(self) -> Iterator[Tensor]:
        for group in self.param_groups:
            yield from group["params"]

    def _prepare(self) -> None:
        """What is derived from the groups and never saved."""
        self._plans: dict[int, Plan] = {}
        self._marks: Marks = {}
        self._held: dict[Tensor, Constraint] = {}
        self._call = WHOLE
        self._calls, self._said_nan = 0, False

    def _refuse_shared_seed(self) -> None:
        """Warn if another optimizer that still exists draws the same noise."""
        if self._seeded or not self.param_groups:
            return
        if not any(float(group["temperature"]) > 0.0 for group in self.param_groups):
            return
        other: Any = exchange_owner(self.param_groups[0]["seed"], self)
        # Methods that are compared may well have the same noise; chains of one method may not.
        read = operator.itemgetter(*NUMBERS, "scheme")
        if other and [*map(read, self.param_groups)] == [*map(read, other.param_groups)]:
            warnings.warn(
                "another optimizer was made from the same weights and the same state of torch's "
                "generator, so both draw the same noise; give each its own seed=",
                UserWarning,
                stacklevel=3,
            )

    # --- groups ---------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group; its weights are put on its manifold.

        Raises:
            ValueError, TypeError: nothing has been changed then.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"a parameter group must be a dict, got {type(param_group).__name__}")
        group = refuse_unknown(param_group, self._replicas.options)
        own = {name: group.pop(name) for name in OPTIONS if name in group}
        group.update(resolve(own, self._given))
        if self._capturable:
            refuse_uncaptured(group)
        # Loading in torch.distributed.checkpoint takes no keys that a new group lacks.
        group["fallbacks"] = group["iterations"] = 0
        place.refuse_duplicates(group, self.param_groups)
        super().add_param_group(group)
        index = len(self.param_groups) - 1
        try:
            self._plans[index] = self._view(index)
            placements = self._plans[index].settle(self._strict)
        except Exception:
            self._plans.pop(index, None)
            for parameter in self.param_groups.pop()["params"]:
                self.state.pop(parameter, None)
            raise
        if self._found is not None:  # nothing moves before all groups are known to be right
            self._found.append(placements)
            return
        self.param_groups[index].setdefault("seed", self.param_groups[0].get("seed"))
        self._settle(index, placements)

    def _settle(self, index: int, placements: Sequence[place.Placement]) -> None:
        """Put the weights of a new group on their manifold and make their state."""
        group = self.param_groups[index]
        for bucket, position, _ in placements:
            bucket.move_to(self.state, position)
        place.announce(group, placements)
        momentum = not dynamics(group).is_overdamped
        awake = [i for i, p in enumerate(group["params"]) if p.requires_grad and p.numel()]
        for _, bucket in self._plans[index].divide(awake):
            bucket.prepare(self.state, momentum)
        if is_adaptive(group):
            self._plans[index].share_friction(group["friction"])
        self._marks.update({p: stamp(p) for p in (group["params"][i] for i in awake)})
        self._held.update(dict.fromkeys(group["params"], group["constraint"]))

    def _view(self, index: int, state_of: StateOf | None = None) -> Plan:
        """A group's parameters with their geometries, to be looked at."""
        first = sum(len(group["params"]) for group in self.param_groups[:index])
        group = self.param_groups[index]
        ordinals = range(first, first + len(group["params"]))
        state_of = self.state if state_of is None else state_of
        plan = Plan(group, ordinals, state_of, self._native, captured=self._capturable)
        plan.first = first
        return plan

    # --- the step -------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make one step.

        Args:
            closure: reevaluates the model and returns the loss.

        Raises:
            ConvergenceError: a projection failed; parameters and state are as they were before
                the step.
        """
        if torch.compiler.is_compiling():
            own = closure is None and self._capturable and self._call is WHOLE
            if (
                STEPS_CAN_BE_COMPILED
                and own
                and self._replicas.alone
                and all_stand(self._plans, self.param_groups)
            ):
                return repeat(self._plans, self.param_groups)
            return self._left_alone(closure)
        loss = None if closure is None else _evaluated(closure)
        self._move(closure)
        return loss

    @never_compiled
    def _left_alone(self, closure: Callable[[], Any] | None) -> Any:
        """A step in code that is compiled. To be left alone takes time, which others need not."""
        loss = None if closure is None else _evaluated(closure)
        self._move(closure)
        return loss

    def _move(self, closure: Callable[[], Any] | None = None, call: Call | None = None) -> None:
        """Move every group with the gradients as they stand: all of them, or none.

        Args:
            closure: reevaluates the model; for methods that need more than one gradient.
            call: what to do, if it is not a whole step.
        """
        call = self._call if call is None else call
        self._calls = calls = self._calls + 1
        if self._strict or calls % LOOK == 0 or calls & (calls - 1) == 0:
            self._look_for_nan()
        replicas, groups = self._replicas, self.param_groups
        if not replicas.alone:
            replicas.meet(groups, self._seeded)
        undo: list[Callable[[], None]] = []
        plans: dict[int, Plan] = {}
        with torch.no_grad():
            try:
                ordinal = 0
                for index, group in enumerate(groups):
                    first, ordinal = ordinal, ordinal + len(group["params"])
                    if call.only is not None and index not in call.only:
                        continue
                    plan = self._plans.get(index)
                    if plan is not None and plan.first != first:  # parameters came, or went
                        plan.leave(self._marks)
                        plan = None
                    if plan is None or not reads(plan, group, call, index, replicas.chain):
                        plan = self._new_plan(index, call, undo)
                    if plan.rests:
                        plan.moving(call.gradients)  # refuses gradients that are wrong
                        continue
                    if not holds(plan, group, self.state, call.gradients):
                        plan = self._new_plan(index, call, undo)
                    plans[index] = plan
                execute(plans.values())
            except BaseException:
                self._roll_back(plans.values(), undo)
                raise
            self._finish(plans, call.counted)

    @torch.no_grad()
    def _forces(self, indices: Iterable[int] | None = None) -> dict[Tensor, Tensor]:
        """What the parameters of groups are kicked with, where a step is made in parts.

        A direction remembers these gradients as those of a step.
        """
        found: dict[Tensor, Tensor] = {}
        for index in range(len(self.param_groups)) if indices is None else indices:
            group = self.param_groups[index]
            plan = None if own_direction(group) is None else self._new_plan(index, WHOLE, [])
            found.update(forces(group, plan))
        return found

    def _finish(self, plans: dict[int, Plan], counted: bool) -> None:
        """A step has been made."""
        if counted:
            add_one([bucket.counts for plan in plans.values() for bucket in plan.buckets])
        for index, plan in plans.items():
            if not plan.finish(counted):
                plan.leave(self._marks)
            if counted and plan.constraint.learns:
                self._marks.update(learn(plan, lambda i=index: self._view(i), self._marks))  # type: ignore[misc]
            if plan.outcome is not None:
                self._note(self.param_groups[index], plan.outcome)

    def _new_plan(self, index: int, call: Call, undo: list[Callable[[], None]]) -> Plan:
        """What a group does in this step and, as long as it holds, in the next ones."""
        group, old = self.param_groups[index], self._plans.get(index)
        if old is not None:
            old.leave(self._marks)
            if old.direction != own_direction(group):
                old.let_go_of(REMEMBERED, undo)  # they get another one
        follow(self.param_groups, self._plans, self.state, self._held)
        reset_replaced(group, self.state, self._held, self._marks, undo)
        plan = self._view(index)
        reads(plan, group, call, index, self._replicas.chain)
        if not plan.rests:
            plan.attach(group, self._marks, self._strict, undo)
            watch(plan, call.gradients)
            staying = {plan.parameters[i] for i in plan.active}
            for bucket in () if old is None else old.buckets:
                bucket.part_from(staying)
        self._plans[index] = plan
        return plan

    def _roll_back(self, plans: Iterable[Plan], undo: Sequence[Callable[[], None]]) -> None:
        """A step has failed, and what it wrote over is there again: so are other things."""
        for plan in plans:
            plan.rolled_back(self._marks)
        for put_back in reversed(undo):
            put_back()

    def _look_for_nan(self) -> None:
        """Say once that weights are not finite; with ``strict`` refuse gradients that are not.

        Weights are looked at now and then, which costs next to nothing: NaN stays.
        """
        if self._strict:
            name = not_finite(self.param_groups, gradients=True)
            if anywhere(name is not None, list(self._parameters())):
                whose = name or "a parameter in another process"
                raise ValueError(f"{whose} has a gradient that is not finite (strict=True)")
        elif not (self._said_nan or self._capturable):
            name = not_finite(self.param_groups)
            self._said_nan = name is not None
            if self._said_nan:
                warnings.warn(
                    f"{name} has weights that are not finite, and so may others: a gradient was "
                    "NaN or infinite, or lr is too large. strict=True refuses such gradients",
                    UserWarning,
                    stacklevel=5,
                )

    def _check(self) -> None:
        """Refuse options and gradients that a step would refuse."""
        for index, group in enumerate(self.param_groups):
            plan = self._view(index)
            reads(plan, group, WHOLE)
            plan.moving()

    def _note(self, group: dict[str, Any], outcome: Outcome) -> None:
        """Count how projections went, and warn of a fallback."""
        group["iterations"] = outcome.iterations
        warned = group.get("fallbacks", 0) > 0
        group["fallbacks"] = group.get("fallbacks", 0) + outcome.fallbacks
        if outcome.fallbacks and not warned:
            warnings.warn(
                "the quasi-Newton projection did not converge for some weights and the polar "
                "factor was used; smaller steps avoid this (violation() counts it)",
                ProjectionWarning,
                stacklevel=2,
            )

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
        found = []
        for index, group in enumerate(self.param_groups):
            state_of = self._seen(group)
            buckets = moved_buckets(self._view(index, state_of), state_of)
            counts = group.get("iterations", 0), group.get("fallbacks", 0)
            found.append(violation_of(buckets, state_of, counts))
        return found

    def _seen(self, group: dict[str, Any]) -> StateOf:
        """The state of a group; that of bare weights where its constraint has been replaced."""
        constraint, params = group["constraint"], group["params"]
        if all(self._held.get(p, constraint) is constraint for p in params):
            return self.state
        return {p: {STEP: torch.zeros((), dtype=torch.int64)} for p in params if p in self.state}

    # --- saving ---------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """As in torch, with constraints as plain values; it shares no memory with the optimizer."""
        follow(self.param_groups, self._plans, self.state, self._held)
        with saving.packed_by(self, saving.pack):
            return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue exactly where ``state_dict`` was taken.

        Raises:
            ValueError, TypeError: if it belongs to other constraints or other parameters, or is
                damaged; nothing has been changed then.
        """

        def look(loaded: dict[str, Any]) -> None:
            saving.check(loaded, self.param_groups, self._view, self.state)
            self._loading: dict[str, Any] | None = loaded

        try:
            with saving.looked_at(self, look):
                super().load_state_dict(state_dict)
        finally:
            self._loading = None

    def __getstate__(self) -> dict[str, Any]:
        own = {name: self.__dict__[name] for name in OWN}
        return {**super().__getstate__(), **own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        loading = self.__dict__.get("_loading")
        if loading is not None:  # torch's load_state_dict comes by here, before its hooks
            state = saving.restored(state, loading, self.param_groups)
        super().__setstate__(state)
        self.__dict__.setdefault("_capturable", False)  # of a pickle from before
        self._found = None
        self._prepare()


@torch.enable_grad()
def _evaluated(closure: Callable[[], Any]) -> Any:
    return closure()
