"""Figures of contrastive maps: frames in the embedding, losses beside chance, support along a curve, films.

Each is a pure function of results.
"""

from widgets.figures.conda.curves import FILM, along_of, films_figure, gaps_figure, support_figure
from widgets.figures.conda.maps import (
    MOST_POINTS,
    SHADES,
    colours_of,
    figure,
    loss_figure,
    projection_of,
    shades_of,
)

__all__ = [
    "FILM",
    "MOST_POINTS",
    "SHADES",
    "along_of",
    "colours_of",
    "figure",
    "films_figure",
    "gaps_figure",
    "loss_figure",
    "projection_of",
    "shades_of",
    "support_figure",
]
