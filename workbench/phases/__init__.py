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
from workbench.phases.slices import LatentSlice, latent_slice

__all__ = [
    "FlowMap",
    "LatentSlice",
    "NormalBundle",
    "Sensitivity",
    "box_dimension",
    "exact_slope",
    "exponent",
    "find_boundary",
    "find_ridges",
    "label_phases",
    "latent_slice",
    "measure_flipd",
    "measure_normal_bundle",
    "measure_sensitivity",
    "measure_slope",
    "two_gaussians",
]
