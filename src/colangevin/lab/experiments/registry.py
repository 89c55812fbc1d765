"""The experiments by name, in the order of the paper."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

from colangevin.lab.experiments.demo import demo
from colangevin.lab.runner.experiment import Experiment

_MODULES = (
    "spirals.classifiers",
    "spirals.curvature",
    "spirals.gradients",
    "spirals.temperature",
    "depth.orthogonal",
    "depth.penalty",
    "depth.temperature",
    "images.fashion_circle",
    "images.cifar_orthogonal",
    "text.transformer_circle",
    "text.language_model",
    "partitioned.temperature",
    "paths.loss_paths",
    "partitioned.weight_distributions",
    "partitioned.spirals",
    "partitioned.trigonometric",
    "partitioned.overfitting",
    "partitioned.evolution",
    "partitioned.noise",
    "partitioned.poker",
    "multirate.patches",
    "multirate.images",
    "multirate.text",
    "multirate.subsets",
    "multirate.biases",
    "paths.residual_paths",
    "boundaries.digits",
    "background.background",
    "posteriors.uci",
    "posteriors.cold",
    "posteriors.ood",
    "problems.lipschitz",
    "problems.grokking",
    "problems.no_normalisation",
    "problems.long_memory",
    "problems.quantisation",
    "problems.plasticity",
)
"""One file per experiment, in this folder."""

_ALL: list[Experiment] = [
    import_module(f"{__package__}.{module}").EXPERIMENT for module in _MODULES
]
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}
THEMES = {own.name: path.partition(".")[0] for own, path in zip(_ALL, _MODULES, strict=True)}
"""The folder of each experiment."""


def find(name: str) -> Experiment:
    """Return the experiment of a name.

    Raises:
        ValueError: if there is none; it names one that is nearly called so.

    Example:
        >>> find("speech")
        Traceback (most recent call last):
        ...
        ValueError: unknown experiment 'speech'; `cola reproduce list` has all names
        >>> find("spiral-gradient")
        Traceback (most recent call last):
        ...
        ValueError: unknown experiment 'spiral-gradient'; did you mean 'spiral-gradients'? \
`cola reproduce list` has all names
    """
    if name == demo.NAME:  # has records as the others, but is no part of the paper
        return demo.EXPERIMENT
    if name not in EXPERIMENTS:
        near = get_close_matches(name, EXPERIMENTS, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown experiment {name!r}; {hint}`cola reproduce list` has all names")
    return EXPERIMENTS[name]
