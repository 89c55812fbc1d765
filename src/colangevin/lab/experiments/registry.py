"""The experiments by name, in the order of the paper."""

from __future__ import annotations

from difflib import get_close_matches

from colangevin.lab.experiments import (
    background,
    boundary_digits,
    cifar_orthogonal,
    demo,
    depth_orthogonal,
    depth_penalty,
    depth_temperature,
    fashion_circle,
    language_model,
    loss_paths,
    multirate_biases,
    multirate_images,
    multirate_patches,
    multirate_subsets,
    multirate_text,
    partitioned_evolution,
    partitioned_noise,
    partitioned_overfitting,
    partitioned_poker,
    partitioned_spirals,
    partitioned_temperature,
    partitioned_trigonometric,
    posterior_cold,
    posterior_ood,
    posterior_uci,
    residual_paths,
    spiral_classifiers,
    spiral_curvature,
    spiral_gradients,
    spiral_temperature,
    transformer_circle,
    weight_distributions,
)
from colangevin.lab.experiments.experiment import Experiment

_ALL: tuple[Experiment, ...] = (
    spiral_classifiers.EXPERIMENT,
    spiral_curvature.EXPERIMENT,
    spiral_gradients.EXPERIMENT,
    spiral_temperature.EXPERIMENT,
    depth_orthogonal.EXPERIMENT,
    depth_penalty.EXPERIMENT,
    depth_temperature.EXPERIMENT,
    fashion_circle.EXPERIMENT,
    cifar_orthogonal.EXPERIMENT,
    transformer_circle.EXPERIMENT,
    language_model.EXPERIMENT,
    partitioned_temperature.EXPERIMENT,
    loss_paths.EXPERIMENT,
    weight_distributions.EXPERIMENT,
    partitioned_spirals.EXPERIMENT,
    partitioned_trigonometric.EXPERIMENT,
    partitioned_overfitting.EXPERIMENT,
    partitioned_evolution.EXPERIMENT,
    partitioned_noise.EXPERIMENT,
    partitioned_poker.EXPERIMENT,
    multirate_patches.EXPERIMENT,
    multirate_images.EXPERIMENT,
    multirate_text.EXPERIMENT,
    multirate_subsets.EXPERIMENT,
    multirate_biases.EXPERIMENT,
    residual_paths.EXPERIMENT,
    boundary_digits.EXPERIMENT,
    background.EXPERIMENT,
    posterior_uci.EXPERIMENT,
    posterior_cold.EXPERIMENT,
    posterior_ood.EXPERIMENT,
)

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}


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
