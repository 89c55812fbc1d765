"""What can be measured of a network and its dynamics."""

from colangevin.diagnostics.boundary import Curvature as Curvature
from colangevin.diagnostics.boundary import boundary_curvature as boundary_curvature
from colangevin.diagnostics.boundary import section_gradients as section_gradients
from colangevin.diagnostics.effects import plot_effects as plot_effects
from colangevin.diagnostics.effects import point_effects as point_effects
from colangevin.diagnostics.fluctuations import fluctuation_temperature as fluctuation_temperature
from colangevin.diagnostics.fluctuations import loss_fluctuation as loss_fluctuation
from colangevin.diagnostics.fluctuations import plot_fluctuations as plot_fluctuations
from colangevin.diagnostics.labellers import Disagreement as Disagreement
from colangevin.diagnostics.labellers import Spread as Spread
from colangevin.diagnostics.labellers import agreement_map as agreement_map
from colangevin.diagnostics.labellers import agrees as agrees
from colangevin.diagnostics.labellers import certainty as certainty
from colangevin.diagnostics.labellers import certainty_by_reference as certainty_by_reference
from colangevin.diagnostics.labellers import disagreement as disagreement
from colangevin.diagnostics.labellers import majority as majority
from colangevin.diagnostics.labellers import maximum_softmax as maximum_softmax
from colangevin.diagnostics.labellers import misclassified as misclassified
from colangevin.diagnostics.labellers import pairwise_disagreement as pairwise_disagreement
from colangevin.diagnostics.labellers import plot_agreement as plot_agreement
from colangevin.diagnostics.labellers import plot_spreads as plot_spreads
from colangevin.diagnostics.labellers import plot_types as plot_types
from colangevin.diagnostics.lines import Line as Line
from colangevin.diagnostics.lines import loss_paths as loss_paths
from colangevin.diagnostics.paths import Barrier as Barrier
from colangevin.diagnostics.paths import LossPath as LossPath
from colangevin.diagnostics.paths import loss_path as loss_path
from colangevin.diagnostics.paths import plot_paths as plot_paths
from colangevin.diagnostics.paths import relative_distance as relative_distance
from colangevin.diagnostics.regions import RegionCourse as RegionCourse
from colangevin.diagnostics.regions import Regions as Regions
from colangevin.diagnostics.regions import accuracy_by_radius as accuracy_by_radius
from colangevin.diagnostics.regions import decision_regions as decision_regions
from colangevin.diagnostics.regions import plot_course as plot_course
from colangevin.diagnostics.regions import plot_regions as plot_regions
from colangevin.diagnostics.regions import plot_rings as plot_rings
from colangevin.diagnostics.signals import Product as Product
from colangevin.diagnostics.signals import gradient_norms as gradient_norms
from colangevin.diagnostics.signals import jacobian_spectrum as jacobian_spectrum
from colangevin.diagnostics.signals import layer_products as layer_products
from colangevin.diagnostics.signals import plot_signals as plot_signals
from colangevin.diagnostics.significance import Lead as Lead
from colangevin.diagnostics.significance import compare as compare
from colangevin.diagnostics.spectrum import HessianSpectrum as HessianSpectrum
from colangevin.diagnostics.spectrum import hessian_spectrum as hessian_spectrum
from colangevin.diagnostics.spectrum import multirate_speed_up as multirate_speed_up
from colangevin.diagnostics.spectrum import plot_spectrum as plot_spectrum
from colangevin.diagnostics.surfaces import LossSurface as LossSurface
from colangevin.diagnostics.surfaces import loss_surface as loss_surface
from colangevin.diagnostics.surfaces import plot_surface as plot_surface
from colangevin.diagnostics.temperature import Configurational as Configurational
from colangevin.diagnostics.temperature import (
    configurational_temperature as configurational_temperature,
)
from colangevin.diagnostics.temperature import friction_variable as friction_variable
from colangevin.diagnostics.temperature import kinetic_temperature as kinetic_temperature
from colangevin.diagnostics.weights import Distribution as Distribution
from colangevin.diagnostics.weights import largest_weight as largest_weight
from colangevin.diagnostics.weights import plot_weights as plot_weights
from colangevin.diagnostics.weights import weight_distributions as weight_distributions

__all__ = [
    "Barrier",
    "Configurational",
    "Curvature",
    "Disagreement",
    "Distribution",
    "HessianSpectrum",
    "Line",
    "LossPath",
    "LossSurface",
    "Product",
    "RegionCourse",
    "Regions",
    "Spread",
    "accuracy_by_radius",
    "agreement_map",
    "agrees",
    "boundary_curvature",
    "certainty",
    "certainty_by_reference",
    "configurational_temperature",
    "decision_regions",
    "disagreement",
    "fluctuation_temperature",
    "friction_variable",
    "gradient_norms",
    "hessian_spectrum",
    "jacobian_spectrum",
    "kinetic_temperature",
    "largest_weight",
    "layer_products",
    "loss_fluctuation",
    "loss_path",
    "loss_paths",
    "loss_surface",
    "majority",
    "maximum_softmax",
    "misclassified",
    "multirate_speed_up",
    "pairwise_disagreement",
    "plot_agreement",
    "plot_course",
    "plot_effects",
    "plot_fluctuations",
    "plot_paths",
    "plot_regions",
    "plot_rings",
    "plot_signals",
    "plot_spectrum",
    "plot_spreads",
    "plot_surface",
    "plot_types",
    "plot_weights",
    "point_effects",
    "relative_distance",
    "section_gradients",
    "weight_distributions",
]
