"""Films of a view of contrastive maps, alike in both hosts: of a curve, a selection, two conditions."""

import plotly.graph_objects as go
from torch import Tensor

from widgets.figures.conda import along_of, films_figure
from widgets.sessions.conda import CondaSession
from widgets.sessions.conda_state import CondaAnswer, CondaCrossing, CondaScene
from widgets.theme import Theme


def curve_film(scene: CondaScene, answer: CondaAnswer, look: Theme, width: int) -> go.Figure | None:
    """The lifted curve and the interpolations of latents beside it; None where there are no pictures."""
    if not answer.films:
        return None
    path = answer.path
    return films_figure(
        answer.films,
        scene.shape,
        times=path.times,
        along=along_of(path),
        off_support=path.lifted.off_support,
        value_range=scene.value_range,
        theme=look,
        width=width,
    )


def selection_film(session: CondaSession, rows: Tensor, look: Theme, width: int) -> go.Figure | None:
    """Frames of a selection, nearest to its middle first; None if there are none to show."""
    scene = session.scene
    if not len(rows) or scene.frames is None or not scene.pictures:
        return None
    near = session.nearest_to(rows)
    return films_figure(
        {"selected": scene.frames[near]},
        scene.shape,
        times=scene.fit.context.times[near],
        value_range=scene.value_range,
        title="Frames of the selection, nearest to its middle first",
        theme=look,
        width=width,
    )


def crossing_film(scene: CondaScene, made: CondaCrossing, look: Theme, width: int) -> go.Figure:
    """A curve from one condition to another, the condition following and held."""
    return films_figure(
        made.films,
        scene.shape,
        labels=made.labels,
        along=made.along,
        value_range=scene.value_range,
        title="What the condition does",
        theme=look,
        width=width,
    )
