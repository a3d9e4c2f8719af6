"""Figures of the Fisher lens: geodesics over a metric field with ellipses, lengths with certificates, zooms,
slopes.

Ellipses are the steps of equal metric length: long where the metric is small. Points where the metric is no
metric are left blank, never clipped. Distances in a chart mislead; what counts is printed: metric lengths.
"""

from widgets.figures.fisher.curves import certificate_line, describe, lengths_figure
from widgets.figures.fisher.ground import READINGS, reading_of, step_of
from widgets.figures.fisher.learned import published_figure, staircase_figure
from widgets.figures.fisher.maps import figure, map_figure
from widgets.figures.fisher.zooms import resolution_figure, sensitivity_figure, slopes_figure

__all__ = [
    "READINGS",
    "certificate_line",
    "describe",
    "figure",
    "lengths_figure",
    "map_figure",
    "published_figure",
    "reading_of",
    "resolution_figure",
    "sensitivity_figure",
    "slopes_figure",
    "staircase_figure",
    "step_of",
]
