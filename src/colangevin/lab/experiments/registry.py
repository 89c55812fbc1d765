"""The experiments by name, in the order of the paper."""

from __future__ import annotations

from difflib import get_close_matches

from colangevin.lab.experiments.background.background import background
from colangevin.lab.experiments.boundaries import digits as boundary_digits
from colangevin.lab.experiments.demo.demo import demo
from colangevin.lab.experiments.depth.depth import orthogonal as depth_orthogonal
from colangevin.lab.experiments.depth.depth import penalty as depth_penalty
from colangevin.lab.experiments.depth.depth import temperature as depth_temperature
from colangevin.lab.experiments.images import cifar_orthogonal, fashion_circle
from colangevin.lab.experiments.multirate.multirate import biases as multirate_biases
from colangevin.lab.experiments.multirate.multirate import images as multirate_images
from colangevin.lab.experiments.multirate.multirate import patches as multirate_patches
from colangevin.lab.experiments.multirate.multirate import subsets as multirate_subsets
from colangevin.lab.experiments.multirate.multirate import text as multirate_text
from colangevin.lab.experiments.partitioned.partitioned import evolution as partitioned_evolution
from colangevin.lab.experiments.partitioned.partitioned import noise as partitioned_noise
from colangevin.lab.experiments.partitioned.partitioned import (
    overfitting as partitioned_overfitting,
)
from colangevin.lab.experiments.partitioned.partitioned import poker as partitioned_poker
from colangevin.lab.experiments.partitioned.partitioned import spirals as partitioned_spirals
from colangevin.lab.experiments.partitioned.partitioned import (
    temperature as partitioned_temperature,
)
from colangevin.lab.experiments.partitioned.partitioned import (
    trigonometric as partitioned_trigonometric,
)
from colangevin.lab.experiments.partitioned.partitioned import weight_distributions
from colangevin.lab.experiments.paths import loss_paths, residual_paths
from colangevin.lab.experiments.posteriors import cold as posterior_cold
from colangevin.lab.experiments.posteriors import ood as posterior_ood
from colangevin.lab.experiments.posteriors import uci as posterior_uci
from colangevin.lab.experiments.spirals import classifiers as spiral_classifiers
from colangevin.lab.experiments.spirals import curvature as spiral_curvature
from colangevin.lab.experiments.spirals import gradients as spiral_gradients
from colangevin.lab.experiments.spirals import temperature as spiral_temperature
from colangevin.lab.experiments.text import language_model, transformer_circle
from colangevin.lab.runner.experiment import Experiment

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
