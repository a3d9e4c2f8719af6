"""Tensors as the plain numbers that plotly takes."""

import math

from torch import Tensor


def listed(values: Tensor) -> list[float | None]:
    """Plain numbers for plotly; gaps as None."""
    return [None if math.isnan(v) else v for v in values.detach().double().cpu().tolist()]
