"""The Trainer of Hugging Face: its factory hook, accumulation, resumption, reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import colangevin as cl
from colangevin.integrations import unwrap
from colangevin.integrations.transformers import Monitor, optimizer_from
from integrations.small import KINDS, data, loss_of, multirate_for, network

SETTINGS = {"lr": 0.02, "momentum": 0.9, "temperature": 1e-4, "seed": 0}


class Model(nn.Module):
    """What the Trainer needs of a model: a forward that returns a dict with the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network()

    def forward(self, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": loss_of(self.net, inputs, labels)}


def trainer(folder: Path, rules: Any = None, model: Any = None, **options: Any) -> Trainer:
    inputs, targets = data()
    arguments = {
        "max_steps": 8,
        "save_steps": 4,
        "logging_steps": 2,
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 2,
        **options.pop("arguments", {}),
    }
    made = Trainer(
        Model() if model is None else model,
        TrainingArguments(
            str(folder), use_cpu=True, disable_tqdm=True, report_to="none", **arguments
        ),
        train_dataset=[{"inputs": x, "labels": y} for x, y in zip(inputs, targets, strict=True)],
        optimizer_cls_and_kwargs=options.pop("optimizer", optimizer_from(rules or {}, **SETTINGS)),
        **options,
    )
    made.remove_callback(PrinterCallback)
    return made


def losses(made: Trainer) -> list[float]:
    return [entry["loss"] for entry in made.state.log_history if "loss" in entry]


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_ends_where_a_whole_one_does(kind: str, tmp_path: Path) -> None:
    """With accumulated gradients, a cosine schedule and clipping, as the Trainer has them."""
    rules = {"net.0.weight": KINDS[kind]}
    arguments = {"lr_scheduler_type": "cosine", "warmup_steps": 2}
    whole = trainer(tmp_path, rules, arguments=arguments)
    whole.train()
    torch.manual_seed(99)
    resumed = trainer(tmp_path, rules, arguments=arguments)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    assert losses(resumed) == losses(whole)
    for one, two in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, two)
    optimizer = unwrap(whole.optimizer)
    assert optimizer.param_groups[0]["names"] == ["net.0.weight"]
    assert optimizer.violation()[0].residual < 1e-6


def test_accumulated_gradients_make_one_step(tmp_path: Path) -> None:
    made = trainer(tmp_path)
    made.train()
    optimizer = unwrap(made.optimizer)
    assert {int(entry["step"]) for entry in optimizer.state.values()} == {8}


def test_wrong_rules_and_options_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'nothing\.weight'.* matches no"):
        trainer(tmp_path, {"nothing.weight": cl.Circle(1.0)}).train()
    wrong = optimizer_from({}, lr=0.1, tempreture=1.0)
    with pytest.raises(TypeError, match="did you mean 'temperature'"):
        trainer(tmp_path, optimizer=wrong).train()


def test_frozen_layers_stay(tmp_path: Path) -> None:
    model = Model()
    model.net[0].requires_grad_(False)
    before = model.net[0].weight.clone()
    made = trainer(tmp_path, {"net.0.weight": cl.Orthogonal()}, model)
    made.train()
    assert torch.equal(model.net[0].weight, before)
    assert [group["name"] for group in made.optimizer.param_groups] == ["unconstrained"]


def test_multirate_by_a_function_of_ones_own(tmp_path: Path) -> None:
    def make(groups: Any) -> cl.Multirate:
        return multirate_for(model.net)

    model = Model()
    made = trainer(tmp_path, model=model, optimizer=optimizer_from({}, make), callbacks=[Monitor()])
    made.train()
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert "violation/slow.weight" in made.state.log_history[0]
    whole, model = losses(made), Model()
    resumed = trainer(tmp_path, model=model, optimizer=optimizer_from({}, make))
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    assert losses(resumed) == whole


def test_the_monitor_reports(tmp_path: Path) -> None:
    """Into the log history, the saved state, and callbacks that come after it."""
    seen: list[dict[str, float]] = []

    class Report(TrainerCallback):  # a stand-in for TensorBoard
        def on_log(
            self, args: Any, state: Any, control: Any, logs: Any = None, **given: Any
        ) -> None:
            seen.append(dict(logs))

    made = trainer(tmp_path, {"net.0.weight": cl.Orthogonal()}, callbacks=[Report()])
    Monitor.attach(made)
    made.train()
    assert all("violation/net.0.weight" in logs for logs in seen if "loss" in logs)
    assert "violation/net.0.weight" not in seen[-1]  # the summary
    saved = json.loads((tmp_path / "checkpoint-8" / "trainer_state.json").read_text("utf-8"))
    assert saved["log_history"][-1]["temperature/net.0.weight"] == 1e-4


def test_stacked_heads_and_tied_weights_of_gpt2(tmp_path: Path) -> None:
    """``c_attn`` is a Conv1D, in × 3·out: its transpose has the blocks along the columns."""
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=2))
    rules = {
        "transformer.h.*.mlp.c_fc.weight": cl.Orthogonal(),
        "lm_head.weight": cl.Sphere(1.0, equality=True),  # tied to wte
    }
    groups = cl.parameter_groups(model, rules)
    assert [len(group["params"]) for group in groups[:2]] == [1, 1]
    optimizer = cl.CoLA(groups, lr=0.01, momentum=0.9)
    tokens = torch.randint(16, (4, 8))
    for _ in range(3):
        optimizer.zero_grad()
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
    assert max(violation.residual for violation in optimizer.violation()) < 1e-6
    assert model.lm_head.weight is model.transformer.wte.weight
