"""Members as modules, stacked parameters, devices."""

import copy

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.ensemble.state import move

mse = nn.functional.mse_loss
POINTS = torch.randn(16, 3, generator=torch.Generator().manual_seed(0))
TARGETS = POINTS.sum(dim=1, keepdim=True)


def network():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))


def make():
    rules = {"0.weight": cl.Orthogonal(), "3.weight": [cl.Circle(r) for r in (0.5, 1.0, 2.0)]}
    return cl.Ensemble(network, [5, 3, 4], rules, lr=0.1, momentum=0.9, temperature=1e-4)


def test_iteration_gives_the_members_as_modules():
    ensemble = make()
    ensemble.epoch(mse, POINTS, TARGETS, batch_size=4)
    outputs = ensemble(POINTS)
    for found in (list(ensemble), ensemble.members, [ensemble[i] for i in range(3)]):
        assert len(found) == len(ensemble) == 3
        for module, expected in zip(found, outputs, strict=True):
            module.eval()
            assert torch.allclose(module(POINTS), expected, atol=1e-6)
    assert torch.equal(ensemble[-1][0].weight, ensemble[2][0].weight)
    with pytest.raises(IndexError, match="there are 3 members, got index 3"):
        ensemble[3]


def test_parameters_are_stacked_by_name_and_cannot_be_replaced():
    ensemble = make()
    assert list(ensemble.parameters) == [name for name, _ in network().named_parameters()]
    assert ensemble.parameters["0.weight"].shape == (3, 4, 3)
    for row, member in enumerate(ensemble):
        for name, parameter in member.named_parameters():
            assert torch.equal(ensemble.parameters[name][row], parameter)
    with pytest.raises(TypeError):
        ensemble.parameters["0.weight"] = torch.zeros(3)


def test_parameters_have_the_order_of_the_module_with_frozen_ones_too():
    def frozen():
        module = network()
        module[0].weight.requires_grad_(False)
        return module

    ensemble = cl.Ensemble(frozen, range(2), lr=0.1)
    assert list(ensemble.parameters) == [name for name, _ in network().named_parameters()]


def test_a_move_in_the_middle_changes_nothing_of_a_training():
    stays, moves = make(), make()
    for ensemble in (stays, moves):
        ensemble.epoch(mse, POINTS, TARGETS, batch_size=4)
    before = dict(moves.parameters)
    move(moves, torch.clone)  # to another place, if not to another device
    assert all(moves.parameters[name] is not tensor for name, tensor in before.items())
    for ensemble in (stays, moves):
        ensemble.epoch(mse, POINTS, TARGETS, batch_size=4)
    for name, tensor in stays.parameters.items():
        assert torch.equal(tensor, moves.parameters[name])
    assert torch.equal(stays(POINTS), moves(POINTS))


def test_to_moves_everything():
    ensemble = make()
    ensemble.epoch(mse, POINTS, TARGETS, batch_size=4)
    assert ensemble.to("cpu") is ensemble
    assert ensemble.to("meta") is ensemble
    state = ensemble.state_dict()
    tensors = [*state["weights"].values(), *state["buffers"].values(), *ensemble.state_tensors()]
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert ensemble.device == torch.device("meta")
    assert ensemble(POINTS).shape == (3, 16, 1), "points go to the members"
    assert {p.device.type for p in ensemble.member(0).parameters()} == {"meta"}


def test_a_device_that_is_not_there_changes_nothing():
    ensemble = make()
    with pytest.raises(RuntimeError):
        ensemble.to("nonsense")
    if not torch.cuda.is_available():
        with pytest.raises((RuntimeError, AssertionError)):
            ensemble.to("cuda")
    assert ensemble.device == torch.device("cpu")
    ensemble.epoch(mse, POINTS, TARGETS, batch_size=4)


def test_a_copy_is_independent():
    ensemble = make()
    twin = copy.deepcopy(ensemble)
    ensemble.epoch(mse, POINTS, TARGETS, batch_size=4)
    assert twin.steps == 0
    assert not torch.equal(twin.parameters["3.weight"], ensemble.parameters["3.weight"])
