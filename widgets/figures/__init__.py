"""Figures: pure functions from a result to a plotly figure, no kernel needed."""
