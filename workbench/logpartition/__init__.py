"""Learning a log partition function and its Fisher metric from samples at known natural points."""

from workbench.logpartition.chain import ChainTrial, try_tasep
from workbench.logpartition.family import (
    FamilyFit,
    LatticeStatistics,
    VectorStatistics,
    fit_family,
    network_for,
)
from workbench.logpartition.mbar import LearnedPotential, bootstrap_metric, potential_of_statistics
from workbench.logpartition.scoring import PUBLISHED, Published
from workbench.logpartition.trial import LatticeTrial, try_ising
from workbench.logpartition.twostage import ConvexPotential, SmoothPotential, TwoStageFit, fit_two_stage

__all__ = [
    "PUBLISHED",
    "ChainTrial",
    "ConvexPotential",
    "FamilyFit",
    "LatticeStatistics",
    "LatticeTrial",
    "LearnedPotential",
    "Published",
    "SmoothPotential",
    "TwoStageFit",
    "VectorStatistics",
    "bootstrap_metric",
    "fit_family",
    "fit_two_stage",
    "network_for",
    "potential_of_statistics",
    "try_ising",
    "try_tasep",
]
