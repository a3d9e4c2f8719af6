"""Geodesics of any metric: one batched engine, errors, certificates, shooting, transport, logarithms."""

from workbench.geodesics.affine import affine_length, dual_line, natural_line
from workbench.geodesics.engine import (
    NoCurveLeft,
    Relaxed,
    curve_energy,
    curve_inside,
    curve_length,
    relax,
    segment_lengths,
)
from workbench.geodesics.known import KnownDistance, torus, torus_distances
from workbench.geodesics.levels import Refined, extrapolate, relax_levels, second_variation, start_velocity
from workbench.geodesics.shooting import (
    Logarithm,
    Shot,
    exponential_map,
    geodesic_residual,
    log_map,
    parallel_transport,
)
from workbench.geodesics.starts import bent_starts, fit_inside, resample_start, straight_start, via_start

__all__ = [
    "KnownDistance",
    "Logarithm",
    "NoCurveLeft",
    "Refined",
    "Relaxed",
    "Shot",
    "affine_length",
    "bent_starts",
    "curve_energy",
    "curve_inside",
    "curve_length",
    "dual_line",
    "exponential_map",
    "extrapolate",
    "fit_inside",
    "geodesic_residual",
    "log_map",
    "natural_line",
    "parallel_transport",
    "relax",
    "relax_levels",
    "resample_start",
    "second_variation",
    "segment_lengths",
    "start_velocity",
    "straight_start",
    "torus",
    "torus_distances",
    "via_start",
]
