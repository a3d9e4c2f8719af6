"""Phases in a generative model: labels, boundaries on a slice, sensitivity across zooms, dimension."""

from workbench.phases.boundaries import (
    Sensitivity,
    box_dimension,
    find_boundary,
    find_ridges,
    label_phases,
    measure_sensitivity,
)
from workbench.phases.dimension import (
    LocalDimension,
    NormalBundle,
    measure_dimension,
    measure_flipd,
    measure_normal_bundle,
)
from workbench.phases.lipschitz import FlowMap, exact_slope, exponent, measure_slope, two_gaussians
from workbench.phases.plateaus import (
    MEASURES,
    LearnedSlice,
    Plateaus,
    compare_metrics,
    grid_metric,
    learn_slice,
    measure_plateaus,
    slice_metric,
)
from workbench.phases.slices import LATENTS, LatentSlice, latent_slice, open_slice

__all__ = [
    "LATENTS",
    "MEASURES",
    "FlowMap",
    "LatentSlice",
    "LearnedSlice",
    "LocalDimension",
    "NormalBundle",
    "Plateaus",
    "Sensitivity",
    "box_dimension",
    "compare_metrics",
    "exact_slope",
    "exponent",
    "find_boundary",
    "find_ridges",
    "grid_metric",
    "label_phases",
    "latent_slice",
    "learn_slice",
    "measure_dimension",
    "measure_flipd",
    "measure_normal_bundle",
    "measure_plateaus",
    "measure_sensitivity",
    "measure_slope",
    "open_slice",
    "slice_metric",
    "two_gaussians",
]
