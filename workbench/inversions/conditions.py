"""A condition for every sample: for inverting labelled data, and for a condition that follows a path."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.checks import shown
from workbench.errors import SettingError, ShapeError
from workbench.models import Frame, ScoreModel
from workbench.nets import NetModel, given
from workbench.types import Points, Sigma


@dataclass(frozen=True, slots=True, eq=False)
class Blend:
    """Posterior means of several models, mixed for each sample in its own way.

    With one model and weight one a sample this binds a condition to each; with two the condition moves from
    one to the other. A mixture of two denoisers is what guidance is made of, and no score of a density in
    general.

    Attributes:
        models: The models, of one shape.
        weights: Weight of each model for each sample, shape (count, models); rows sum to one.
        frame: That of the first model, with the conditions in words.
    """

    models: tuple[ScoreModel, ...]
    weights: Float[Tensor, "count models"]
    frame: Frame = field(init=False)
    _rows: tuple[Tensor, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.models or self.weights.ndim != 2 or self.weights.shape[1] != len(self.models):
            raise ShapeError(
                f"weights of shape {tuple(self.weights.shape)} for {len(self.models)} models",
                "one column a model",
            )
        names = [model.frame.condition or "no condition" for model in self.models]
        text = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        object.__setattr__(self, "frame", replace(self.models[0].frame, condition=f"{text}, one a sample"))
        rows = tuple(column.nonzero().squeeze(1) for column in self.weights.unbind(1))
        object.__setattr__(self, "_rows", rows)

    def denoise(self, y: Points, sigma: Sigma) -> Points:
        """Mixed E[x0 | y]; as many model calls a point as it has weights above zero.

        Args:
            y: Noisy points, shape (count, dim).
            sigma: Noise level, one for all or one a sample.

        Returns:
            Denoised points of y's shape.

        Raises:
            ShapeError: If there are not as many points as rows of weights.
        """
        if y.ndim != 2 or len(y) != len(self.weights):
            raise ShapeError(
                f"points of shape {tuple(y.shape)}", f"{len(self.weights)} points, one a condition"
            )
        total = torch.zeros_like(y)
        level = sigma if not isinstance(sigma, Tensor) or sigma.ndim == 0 else sigma.expand(len(y))
        weights = self.weights.to(y)
        for k, (model, rows) in enumerate(zip(self.models, self._rows, strict=True)):
            if len(rows):
                own = level[rows] if isinstance(level, Tensor) and level.ndim else level
                total[rows] += weights[rows, k, None] * model.denoise(y[rows], own)
        return total


def given_each(
    model: NetModel | Sequence[ScoreModel], conditions: Sequence[int | float | str | None] | Tensor
) -> Blend:
    """A model with a condition for every sample.

    Args:
        model: A class-conditional network; or one model a class, whose conditions are then class indices.
        conditions: For each sample a class index or name, None for the null class, or a number between two
            indices, which mixes the two classes next to it: for classes that lie on a scale.

    Returns:
        The model for that many samples in that order.

    Raises:
        SettingError: For an unknown class.
        ShapeError: If models differ in shape, or there is none.
    """
    each: tuple[ScoreModel, ...] = ()
    if isinstance(model, NetModel):
        count = len(model.frame.classes)
    else:
        each = tuple(model)
        count, shapes = len(each), {one.frame.shape for one in each}
        if len(shapes) != 1:
            raise ShapeError(f"{count} models of {len(shapes)} shapes", "one shape")
    listed = conditions.tolist() if isinstance(conditions, Tensor) else list(conditions)
    if not listed:
        raise SettingError("no conditions", "one a sample")
    spots = []
    for condition in listed:
        if isinstance(condition, Real) and not isinstance(condition, Integral):
            if not 0 <= float(condition) <= count - 1:
                raise SettingError(
                    shown("condition", condition), f"a number from 0 to {count - 1}", "clipping the path"
                )
            low = min(int(float(condition)), max(count - 2, 0))
            share = float(condition) - low
            spots.append([(low, 1 - share), (low + 1, share)] if share else [(low, 1.0)])
        else:
            spots.append([(condition, 1.0)])
    keys = list(dict.fromkeys(key for spot in spots for key, _ in spot))
    weights = torch.zeros(len(spots), len(keys))
    for row, spot in enumerate(spots):
        for key, weight in spot:
            weights[row, keys.index(key)] += weight
    return Blend(tuple(_of_class(model, each, key) for key in keys), weights)


def _of_class(model: Any, each: tuple[ScoreModel, ...], key: int | str | None) -> ScoreModel:
    """The model of one class."""
    if not each:
        return given(model, key)
    if not isinstance(key, Integral) or not 0 <= int(key) < len(each):
        raise SettingError(shown("condition", key), f"an index from 0 to {len(each) - 1}")
    return each[int(key)]
