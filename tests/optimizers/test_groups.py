"""From names and module types to groups, and onto the manifolds."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn

import colangevin as cl
from optimizer_cases import ball, network, same

CIRCLE, SPHERE = cl.Circle(0.5), cl.Sphere(0.5)


def names(groups: list[dict[str, object]]) -> list[object]:
    return [group["names"] for group in groups]


def small_network() -> nn.Module:
    layers = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 4))
    return nn.Sequential(layers, nn.Linear(4, 2))


class TestParameterGroups:
    def test_the_first_match_wins(self) -> None:
        groups = cl.parameter_groups(network(), {"0.weight": CIRCLE, "*.weight": SPHERE})
        assert names(groups) == [
            ["0.weight"],
            ["2.weight", "4.weight"],
            ["0.bias", "2.bias", "4.bias"],
        ]
        assert [group["constraint"] for group in groups] == [CIRCLE, SPHERE, None]
        assert [group["name"] for group in groups] == ["0.weight", "*.weight", "unconstrained"]

    def test_groups_hold_the_parameters_themselves(self) -> None:
        model = network()
        groups = cl.parameter_groups(model, {"*.weight": CIRCLE})
        assert [id(p) for p in groups[0]["params"]] == [id(model[i].weight) for i in (0, 2, 4)]
        total = sum(len(group["params"]) for group in groups)
        assert total == len(list(model.parameters()))

    def test_module_types_mean_weights(self) -> None:
        groups = cl.parameter_groups(small_network(), {nn.Linear: CIRCLE, nn.Conv2d: SPHERE})
        assert names(groups)[:2] == [["0.3.weight", "1.weight"], ["0.0.weight"]]
        assert "0.3.bias" in names(groups)[2]
        assert "0.1.weight" in names(groups)[2]  # of the batch norm
        assert groups[0]["name"] == "Linear"

    def test_module_types_include_their_subclasses(self) -> None:
        class Special(nn.Linear):
            pass

        model = nn.Sequential(Special(2, 2), nn.Linear(2, 2))
        assert names(cl.parameter_groups(model, {nn.Linear: CIRCLE}))[0] == ["0.weight", "1.weight"]
        assert names(cl.parameter_groups(model, {Special: CIRCLE}))[0] == ["0.weight"]

    def test_recurrent_weights_have_longer_names(self) -> None:
        groups = cl.parameter_groups(nn.LSTM(2, 3), {nn.LSTM: CIRCLE})
        assert names(groups)[0] == ["weight_ih_l0", "weight_hh_l0"]

    def test_tuples_join_patterns(self) -> None:
        groups = cl.parameter_groups(network(), {("0.*", "4.bias"): CIRCLE})
        assert names(groups)[0] == ["0.weight", "0.bias", "4.bias"]
        assert groups[0]["name"] == "0.*, 4.bias"

    def test_patterns_are_case_sensitive_and_whole(self) -> None:
        with pytest.raises(ValueError, match="'WEIGHT'"):
            cl.parameter_groups(nn.Linear(2, 2), {"WEIGHT": CIRCLE})
        with pytest.raises(ValueError, match="'weigh'"):
            cl.parameter_groups(nn.Linear(2, 2), {"weigh": CIRCLE})

    def test_none_takes_parameters_out(self) -> None:
        groups = cl.parameter_groups(network(), {"4.*": None, "*.weight": CIRCLE})
        assert names(groups)[:2] == [["4.weight", "4.bias"], ["0.weight", "2.weight"]]
        assert groups[0]["constraint"] is None

    def test_none_holds_against_a_default_constraint(self) -> None:
        groups = cl.parameter_groups(network(), {"4.*": None, "*.weight": CIRCLE})
        optimizer = cl.CoLA(groups, lr=0.1, constraint=cl.Sphere(0.5))
        kinds = [type(group["constraint"]) for group in optimizer.param_groups]
        assert kinds == [cl.Unconstrained, cl.Circle, cl.Unconstrained]

    def test_unmatched_parameters_stay_unconstrained(self) -> None:
        groups = cl.parameter_groups(network(), {})
        assert len(groups) == 1
        assert groups[0]["constraint"] is None
        assert len(groups[0]["params"]) == 6

    def test_no_empty_group_is_left(self) -> None:
        assert len(cl.parameter_groups(network(), {"*": CIRCLE})) == 1

    def test_more_options_can_be_set(self) -> None:
        groups = cl.parameter_groups(network(), {"*.weight": CIRCLE})
        groups[0]["lr"] = 0.3
        optimizer = cl.CoLA(groups, lr=0.1)
        assert [group["lr"] for group in optimizer.param_groups] == [0.3, 0.1]

    @pytest.mark.parametrize("pattern", ["0.weight", "2.weight"])
    def test_tied_parameters_are_found_by_either_name(self, pattern: str) -> None:
        model = network()
        model[2].weight = model[0].weight
        groups = cl.parameter_groups(model, {pattern: CIRCLE})
        assert names(groups)[0] == ["0.weight"]
        everything = [id(p) for group in groups for p in group["params"]]
        assert len(everything) == len(set(everything)) == 5
        optimizer = cl.CoLA(groups, lr=0.1, momentum=0.9)
        model(torch.ones(1, 4, dtype=torch.float64)).sum().backward()
        optimizer.step()
        assert model[2].weight is model[0].weight

    def test_tied_parameters_are_found_by_either_module(self) -> None:
        class Tied(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.encoder, self.decoder = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
                self.decoder.weight = self.encoder.weight

        assert names(cl.parameter_groups(Tied(), {nn.Linear: CIRCLE})) == [["encoder.weight"]]

    def test_the_first_rule_wins_for_tied_parameters(self) -> None:
        model = network()
        model[2].weight = model[0].weight
        with pytest.raises(ValueError, match=r"'0\.weight' matches only .*earlier.*: 0\.weight"):
            cl.parameter_groups(model, {"2.weight": CIRCLE, "0.weight": SPHERE})

    def test_a_pattern_that_matches_nothing(self) -> None:
        with pytest.raises(ValueError, match=r"'1\.weight' matches no .*The model has 0\.weight"):
            cl.parameter_groups(network(), {"0.weight": CIRCLE, "1.weight": CIRCLE})

    def test_a_module_type_that_matches_nothing(self) -> None:
        with pytest.raises(ValueError, match="'Conv2d' matches no"):
            cl.parameter_groups(network(), {nn.Conv2d: CIRCLE})

    def test_a_pattern_that_comes_too_late(self) -> None:
        with pytest.raises(ValueError, match=r"'0\.weight' matches only .*earlier.*: 0\.weight"):
            cl.parameter_groups(network(), {"*.weight": CIRCLE, "0.weight": SPHERE})

    @pytest.mark.parametrize("rule", [3, ("0.weight", 3), int, None])
    def test_a_rule_of_another_type(self, rule: object) -> None:
        with pytest.raises(TypeError, match="a pattern must be a name pattern, a module type, "):
            cl.parameter_groups(network(), {rule: CIRCLE})

    def test_modules_and_parameters_are_rules_too(self) -> None:
        model = network()
        groups = cl.parameter_groups(model, {model[4].weight: SPHERE, model[0]: CIRCLE})
        assert names(groups)[:2] == [["4.weight"], ["0.weight", "0.bias"]]

    def test_every_pattern_of_a_tuple_must_match(self) -> None:
        with pytest.raises(ValueError, match=r"'2\.wieght' .*did you mean '2\.weight'"):
            cl.parameter_groups(network(), {("0.weight", "2.wieght"): CIRCLE})
        with pytest.raises(ValueError, match="must not be empty"):
            cl.parameter_groups(network(), {(): CIRCLE})

    def test_a_tuple_may_overlap_with_an_earlier_rule(self) -> None:
        rules = {"0.weight": SPHERE, ("0.weight", "2.weight"): CIRCLE}
        assert names(cl.parameter_groups(network(), rules))[1] == ["2.weight"]

    def test_what_is_no_module(self) -> None:
        with pytest.raises(TypeError, match=r"model must be an nn\.Module, got list"):
            cl.parameter_groups([], {})

    def test_frozen_parameters_are_listed(self) -> None:
        model = network()
        model[0].weight.requires_grad_(False)
        assert names(cl.parameter_groups(model, {"0.weight": CIRCLE}))[0] == ["0.weight"]

    @pytest.mark.parametrize("constraint", [0.5, cl.Circle, "circle"])
    def test_a_constraint_of_another_type(self, constraint: object) -> None:
        with pytest.raises(TypeError, match=r"the rule for '\*' must be a constraint, got"):
            cl.parameter_groups(network(), {"*": constraint})


class OwnRMSNorm(nn.Module):
    """As other libraries write it: no subclass of a layer of torch."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))


NORMALISATIONS = {
    "BatchNorm1d": lambda: nn.BatchNorm1d(4),
    "BatchNorm2d": lambda: nn.BatchNorm2d(4),
    "BatchNorm3d": lambda: nn.BatchNorm3d(4),
    "SyncBatchNorm": lambda: nn.SyncBatchNorm(4),
    "LayerNorm": lambda: nn.LayerNorm(4),
    "GroupNorm": lambda: nn.GroupNorm(2, 4),
    "InstanceNorm1d": lambda: nn.InstanceNorm1d(4, affine=True),
    "RMSNorm": lambda: nn.RMSNorm(4),
    "OwnRMSNorm": lambda: OwnRMSNorm(4),
}


class TestNormalisationLayers:
    @pytest.mark.parametrize("make", [cl.parameter_groups, cl.constrain_])
    @pytest.mark.parametrize("kind", NORMALISATIONS)
    def test_a_pattern_that_takes_in_their_weights_warns_once(self, kind: str, make: Any) -> None:
        model = nn.Sequential(nn.Linear(4, 4), NORMALISATIONS[kind](), nn.Linear(4, 4))
        with pytest.warns(UserWarning, match="normalisation layers") as caught:
            make(model, {"0.weight": CIRCLE, "*.weight": SPHERE})
        assert len(caught) == 1
        message = str(caught[0].message)
        assert "layers: 1.weight. " in message  # and no other parameter
        assert f"{{{kind}: None, ...}}" in message
        assert caught[0].filename == __file__

    def test_several_layers_are_named_in_one_warning(self) -> None:
        model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.LayerNorm(2))
        with pytest.warns(UserWarning, match=r"layers: 1\.weight, 2\.weight\.") as caught:
            cl.parameter_groups(model, {("0.*", "*.weight"): CIRCLE})
        assert len(caught) == 1

    @pytest.mark.parametrize(
        "rules",
        [
            {nn.BatchNorm1d: None, "*.weight": CIRCLE},  # what the warning advises
            {"*.weight": None},
            {"*.weight": cl.Unconstrained()},
            {"0.weight": CIRCLE},
            {"*.bias": CIRCLE},
            {nn.Linear: CIRCLE},
            {nn.BatchNorm1d: CIRCLE},  # no name pattern
            {"1.*": CIRCLE, "*.weight": CIRCLE},  # a rule of their own
        ],
        ids=str,
    )
    def test_no_warning(self, rules: Any) -> None:
        model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cl.constrain_(model, rules)


class TestConstrain:
    def test_moves_only_what_is_off(self) -> None:
        model = network()
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        groups = cl.constrain_(model, {"0.weight": cl.Circle(0.1), "2.weight": cl.Circle(9.0)})
        # Rescaled as a whole, so that it keeps its shape, into the open interval.
        factor = 0.09 / before["0.weight"].abs().max()
        torch.testing.assert_close(model[0].weight.detach(), before["0.weight"] * factor)
        for name in before.keys() - {"0.weight"}:
            assert same(model.get_parameter(name).detach(), before[name])
        assert names(groups)[:2] == [["0.weight"], ["2.weight"]]

    def test_every_constraint(self) -> None:
        model = small_network()
        groups = cl.constrain_(
            model,
            {
                "0.0.weight": cl.Orthogonal(),
                "0.3.weight": cl.Sphere(1.0, equality=True),
                "1.weight": cl.General(ball),
                "*.bias": cl.Sphere(0.01),
            },
        )
        optimizer = cl.CoLA(groups, lr=0.1, strict=True)  # strict: nothing is left to do
        assert max(violation.residual for violation in optimizer.violation()) <= 1e-6
        kernel = model[0][0].weight.detach().flatten(1)
        torch.testing.assert_close(kernel @ kernel.T, torch.eye(2))
        torch.testing.assert_close(model[0][3].weight.detach().norm(dim=1), torch.ones(4))

    def test_twice_changes_nothing_more(self) -> None:
        model = network()
        rules = {"0.weight": cl.Orthogonal(), "2.weight": cl.Circle(0.1), "4.*": cl.Sphere(0.2)}
        cl.constrain_(model, rules)
        once = [p.detach().clone() for p in model.parameters()]
        cl.constrain_(model, rules, strict=True)
        assert same([p.detach() for p in model.parameters()], once)

    def test_half_precision(self) -> None:
        model = network(dtype=torch.bfloat16)
        cl.constrain_(model, {"0.weight": cl.Orthogonal()})
        weight = model[0].weight.detach()
        assert weight.dtype == torch.bfloat16
        gram = weight.float().T @ weight.float()
        assert float((gram - torch.eye(4)).abs().max()) < 0.01

    def test_weights_keep_their_identity_and_gradients(self) -> None:
        model = network()
        weight = model[0].weight
        weight.grad = torch.ones_like(weight)
        cl.constrain_(model, {"0.weight": cl.Orthogonal()})
        assert model[0].weight is weight
        assert weight.requires_grad
        assert same(weight.grad, torch.ones_like(weight).detach())

    def test_an_error_in_one_rule_leaves_all_alone(self) -> None:
        model = network()
        before = [p.detach().clone() for p in model.parameters()]
        with pytest.raises(
            cl.ConstraintError, match=r"0\.bias: a weight of Orthogonal needs at least 2"
        ):
            cl.constrain_(model, {"0.weight": cl.Circle(0.1), "0.bias": cl.Orthogonal()})
        assert same([p.detach() for p in model.parameters()], before)

    def test_strict_names_the_weight_and_leaves_all_alone(self) -> None:
        model = network()
        before = [p.detach().clone() for p in model.parameters()]
        with pytest.raises(cl.ConstraintError, match=r"2\.weight: strict=True"):
            cl.constrain_(
                model, {"0.weight": cl.Circle(9.0), "2.weight": cl.Circle(0.1)}, strict=True
            )
        assert same([p.detach() for p in model.parameters()], before)

    def test_frozen_weights_stay_as_they_are(self) -> None:
        model = network()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(3.0)
        model[0].requires_grad_(False)
        for strict in (True, False):
            groups = cl.constrain_(model, {"0.weight": cl.Circle(0.1)}, strict=strict)
        assert same(model[0].weight.detach(), torch.full((4, 4), 3.0, dtype=torch.float64))
        assert names(groups)[0] == ["0.weight"]
        cl.constrain_(model, {"*.weight": cl.Circle(0.1)})
        assert float(model[0].weight.max()) == 3.0
        assert float(model[2].weight.detach().max()) < 0.1

    def test_a_joint_constraint_of_frozen_weights(self) -> None:
        model = network()
        rules = {("0.weight", "2.weight"): cl.General(lambda a, b: (a * b).sum() - 9.0)}
        before = [p.detach().clone() for p in model.parameters()]
        model[0].requires_grad_(False)
        with pytest.raises(cl.ConstraintError, match=r"these are frozen: 0\.weight"):
            cl.constrain_(model, rules)
        model.requires_grad_(False)
        cl.constrain_(model, rules)
        assert same([p.detach() for p in model.parameters()], before)
