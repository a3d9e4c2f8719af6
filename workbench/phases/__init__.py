"""Phases in a generative model: labels, boundaries on a slice, sensitivity across zooms, dimension."""

from workbench.phases.boundaries import (
    Sensitivity,
    box_dimension,
    find_boundary,
    find_ridges,
    label_phases,
    measure_sensitivity,
)
from workbench.phases.dimension import NormalBundle, measure_flipd, measure_normal_bundle
from workbench.phases.lipschitz import FlowMap, exact_slope, exponent, measure_slope, two_gaussians
from workbench.phases.plateaus import (
    LearnedSlice,
    Plateaus,
    compare_metrics,
    learn_slice,
    measure_plateaus,
)
from workbench.phases.slices import LATENTS, LatentSlice, latent_slice, open_slice

__all__ = [
    "LATENTS",
    "FlowMap",
    "LatentSlice",
    "LearnedSlice",
    "NormalBundle",
    "Plateaus",
    "Sensitivity",
    "box_dimension",
    "compare_metrics",
    "exact_slope",
    "exponent",
    "find_boundary",
    "find_ridges",
    "label_phases",
    "latent_slice",
    "learn_slice",
    "measure_flipd",
    "measure_normal_bundle",
    "measure_plateaus",
    "measure_sensitivity",
    "measure_slope",
    "open_slice",
    "two_gaussians",
]
