"""The work (e): whole training steps, forward, backward and optimizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from colangevin.lab.bench import works
from colangevin.lab.bench.contestant import Contestant, Setting, Weight, bytes_of
from colangevin.lab.bench.ours import Build, contestant_of, group
from colangevin.lab.bench.works import Entry, Sizes, Work
from colangevin.lab.models import mlp, resnet
from colangevin.optimizers import CoLA

MLP_BATCH = 128


def work_e(sizes: Sizes) -> list[Work]:
    """A fully connected network with circles, and a small ResNet with orthogonal kernels."""
    first, second = Task("mlp", sizes), Task("resnet", sizes)
    circles = {
        works.CIRCLE: first.constrained("circle"),
        works.CIRCLE_EAGER: first.constrained("circle", fused=False),
    }
    both = {
        works.ORTHOGONAL: second.constrained("orthogonal"),
        works.CIRCLE: second.constrained("circle"),
    }
    blocks = "-".join(map(str, sizes.blocks))
    return [
        _work(first, circles, f"784-{sizes.hidden}-10, batch {MLP_BATCH}"),
        _work(
            second, both, f"ResNet of {blocks} blocks, width {sizes.channels}, batch {sizes.batch}"
        ),
    ]


def _work(task: Task, ours: Mapping[str, Build], series: str) -> Work:
    entries = [
        Entry(works.SGD_MOMENTUM, task.against("SGD")),
        Entry(works.ADAM, task.against("Adam")),
        *[Entry(label, build, ours=True) for label, build in ours.items()],
    ]
    return Work("e", "whole training steps", [], entries, series=series)


class Task:
    """A network and a batch of random images.

    Args:
        network: ``mlp`` or ``resnet``.
        sizes: how large.
    """

    def __init__(self, network: str, sizes: Sizes) -> None:
        self.network = network
        self.sizes = sizes

    def make(self, setting: Setting) -> tuple[nn.Module, Tensor, Tensor]:
        """The network, inputs and labels; the same for every contestant."""
        sizes, devices = self.sizes, [setting.device] if setting.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(setting.seed)
            if self.network == "mlp":
                model: nn.Module = mlp(784, [sizes.hidden], 10)
                inputs = torch.rand(MLP_BATCH, 784)
            else:
                model = resnet(sizes.blocks, width=sizes.channels)
                inputs = torch.randn(sizes.batch, 3, 32, 32)
            labels = torch.randint(10, (len(inputs),))
        return model.to(setting.device), inputs.to(setting.device), labels.to(setting.device)

    def against(self, name: str) -> Build:
        """A fused optimizer of torch."""

        def build(setting: Setting) -> Contestant:
            model, inputs, labels = self.make(setting)
            parameters = list(model.parameters())
            if name == "Adam":
                optimizer: Optimizer = torch.optim.Adam(parameters, lr=1e-3, fused=True)
            else:
                optimizer = torch.optim.SGD(
                    parameters, lr=setting.lr, momentum=setting.momentum, fused=True
                )
            return Contestant(
                step=_training_step(model, inputs, labels, optimizer),
                gradients=[],
                parameters=sum(p.numel() for p in parameters),
                state_bytes=lambda: bytes_of([optimizer]),
            )

        return build

    def constrained(self, kind: str, fused: bool | None = None) -> Build:
        """CoLA with its constraint on matrices and kernels; biases and norms are free."""

        def build(setting: Setting) -> Contestant:
            model, inputs, labels = self.make(setting)
            parameters = list(model.parameters())
            weights = [_weight(p, kind) for p in parameters]
            groups, constraints = group(weights, parameters)
            optimizer = CoLA(groups, lr=setting.lr, momentum=setting.momentum, fused=fused)
            step = _training_step(model, inputs, labels, optimizer)
            made = contestant_of(optimizer, parameters, constraints, step)
            made.compiles = fused is not False
            return made

        return build


def _weight(parameter: Tensor, kind: str) -> Weight:
    """Bounds that the usual initialisation is within."""
    if parameter.dim() < 2:
        return Weight(tuple(parameter.shape))
    bound = 2.0 * float(parameter.detach().abs().max())
    return Weight(tuple(parameter.shape), kind, round(bound, 2) or 0.01)


def _training_step(
    model: nn.Module, inputs: Tensor, labels: Tensor, optimizer: Optimizer
) -> Callable[[], None]:
    def step() -> None:
        optimizer.zero_grad()
        cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step
