"""The transformer language model."""

import math

import pytest
import torch
from torch import nn

from colangevin.lab.models.transformer import PositionalEncoding, TransformerLM


def small(**options):
    torch.manual_seed(1)
    return TransformerLM(20, **({"size": 8, "hidden": 12, "dropout": 0.0} | options))


def tokens(length=9, count=3):
    return torch.randint(20, (length, count), generator=torch.Generator().manual_seed(1))


def test_default_is_the_network_of_the_experiments():
    with torch.device("meta"):
        model = TransformerLM(10_000)
    layers = model.encoder.layers
    assert len(layers) == 2
    for layer in layers:
        assert layer.self_attn.num_heads == 2
        assert layer.self_attn.embed_dim == 200
        assert layer.linear1.out_features == layer.linear2.in_features == 200
    attention = 4 * (200 * 200 + 200)
    feed_forward = 2 * (200 * 200 + 200)
    norms = 2 * 2 * 200
    expected = 2 * (attention + feed_forward + norms) + 2 * 10_000 * 200 + 10_000
    assert sum(p.numel() for p in model.parameters()) == expected


@pytest.mark.parametrize("training", [True, False])
def test_no_position_sees_a_later_token(training):
    model = small().train(training)
    text = tokens()
    changed = text.clone()
    changed[5:] = (changed[5:] + 1) % 20
    with torch.no_grad():
        before, after = model(text), model(changed)
    torch.testing.assert_close(before[:5], after[:5])
    assert ((before[5:] - after[5:]).abs().amax(-1) > 1e-3).all()


def test_every_position_sees_the_first_token():
    model = small()
    text = tokens()
    changed = text.clone()
    changed[0] = (changed[0] + 1) % 20
    assert ((model(text) - model(changed)).abs().amax(-1) > 1e-6).all()


def test_columns_do_not_mix():
    model = small()
    text = tokens()
    torch.testing.assert_close(model(text)[:, 1:2], model(text[:, 1:2]))


def test_training_and_evaluation_agree_without_dropout():
    model = small()
    with torch.no_grad():
        torch.testing.assert_close(model(tokens()), model.eval()(tokens()), atol=1e-5, rtol=1e-5)


def test_dropout_acts_in_training_only():
    model = small(dropout=0.5)
    assert not torch.equal(model(tokens()), model(tokens()))
    model.eval()
    assert torch.equal(model(tokens()), model(tokens()))


@pytest.mark.parametrize("size", [4, 5])
def test_positions_are_sines_and_cosines(size):
    waves = PositionalEncoding(size, dropout=0.0)(torch.zeros(30, 2, size))
    for position in (0, 1, 29):
        for place in range(size):
            angle = position / 10000 ** ((place - place % 2) / size)
            expected = math.cos(angle) if place % 2 else math.sin(angle)
            assert waves[position, 1, place].item() == pytest.approx(expected, abs=1e-5)


def test_embedding_is_scaled():
    model = small(size=4)
    seen = []
    model.position.register_forward_pre_hook(lambda _m, inputs: seen.append(inputs[0]))
    model(tokens())
    torch.testing.assert_close(seen[0], 2 * model.embedding.weight[tokens()])


def test_initialisation():
    model = small(size=64)
    for weight in (model.embedding.weight, model.output.weight):
        assert 0.09 < weight.abs().max() <= 0.1
        assert abs(weight.mean()) < 0.01
    assert not model.output.bias.any()


def test_state_holds_parameters_only():
    model = small()
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters()}


def test_it_learns_to_count():
    model = small(size=16, hidden=32)
    text = (torch.arange(12)[:, None] + torch.arange(0, 20, 3)) % 20
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(text[:-1]).flatten(0, 1), text[1:].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 and losses[0] > 2.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 3}, "size must be a multiple of heads, got 8 and 3"),
        ({"layers": 0}, "layers"),
        ({"hidden": -1}, "hidden"),
        ({"longest": 0}, "longest"),
    ],
)
def test_bad_sizes(options, message):
    with pytest.raises(ValueError, match=message):
        small(**options)


def test_text_beyond_the_longest():
    with pytest.raises(ValueError, match="9 positions, but at most 8"):
        small(longest=8)(tokens())
