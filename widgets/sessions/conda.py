"""The session behind a view of contrastive maps: what is embedded, the curve's control points, what is drawn.

It knows no host. A notebook's view and a page's both hold one, so that they compute and draw the same.

Control points live in the embedding; the picture is its plane of `widgets.figures.conda.projection_of`. A
dragged point moves in that plane and keeps what lies off it.
"""

import dataclasses
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from widgets.canvas.scene import (
    Cloud,
    Gesture,
    Handle,
    Stroke,
    cloud_traits,
    handle_traits,
    stroke_traits,
    thumb_traits,
    window_traits,
)
from widgets.figures.conda import colours_of, projection_of, shades_of
from widgets.figures.images import is_picture, pixels_of
from widgets.scheduling import Progress, Speed
from widgets.sessions.conda_points import first_anchors, follow_gesture, read_points, write_points
from widgets.sessions.conda_state import CondaAnswer, CondaScene, CondaState
from widgets.theme import Theme
from workbench.checks import check_choice
from workbench.conda.films import save_film
from workbench.conda.lifts import WEIGHTS, Lift
from workbench.conda.picking import enclosed_rows
from workbench.errors import SettingError
from workbench.fields import Window
from workbench.lenses.conda import TraceResult, trace

COARSE_STEPS = 12
"""Points of the curve while a control point is dragged."""
THUMBNAILS = 400
"""Frames whose picture appears when they are pointed at."""
SHOWN = 10
"""Frames of a selection that are shown."""

HINT = (
    "drag the control points; double-click for one more, Delete takes it away; shift and drag draws a lasso"
)
"""What the canvas says while nobody points at it."""


class CondaSession:
    """One user's look at an embedding.

    Args:
        scene: The embedding and its frames.
        state: What to look at; empty control points become a few frames of one run.
    """

    def __init__(self, scene: CondaScene, state: CondaState) -> None:
        self.scene = scene
        self.plane = projection_of(scene.fit.points)
        self.coords = self.plane.encode(scene.fit.points).double()
        self.index = scene.fit.index()
        self.state = self.filled(state)
        self.controls = read_points(self.state.anchors, scene.fit.points)

    def filled(self, state: CondaState) -> CondaState:
        """A state whose empty entries are the data's own.

        Raises:
            SettingError: For an unknown name or a number out of range.
        """
        check_choice("kind", state.kind, ("spline", "line", "arc"))
        check_choice("weights", state.weights, WEIGHTS)
        known = tuple(colours_of(self.scene.fit))
        check_choice("colour", state.colour or known[-1], known)
        if not 1 <= state.k < len(self.coords):
            raise SettingError(f"k={state.k}", f"from 1 to {len(self.coords) - 1}", "k=8")
        anchors = state.anchors or first_anchors(self.scene.fit.context)
        read_points(anchors, self.scene.fit.points)
        return state.but(colour=state.colour or known[-1], anchors=anchors)

    def window(self) -> Window:
        """The part of the plane that holds all frames, with a margin."""
        low, high = self.coords.amin(0), self.coords.amax(0)
        side = 0.56 * float((high - low).max())
        middle = ((low + high) / 2).tolist()
        return Window(
            (middle[0] - 1.25 * side, middle[0] + 1.25 * side), (middle[1] - side, middle[1] + side)
        )

    # -- asking and answering

    def take(self, state: CondaState) -> None:
        """Make a state the session's own, control points included."""
        state = self.filled(state)
        if state.anchors != self.state.anchors:
            self.controls = read_points(state.anchors, self.scene.fit.points)
        self.state = state

    def after(self, gesture: Gesture) -> Speed | None:
        """What a gesture asks for: the control points are moved, made or taken away.

        Raises:
            LookupError: For a point that is not there.
            SettingError: If fewer than two would be left.
        """
        if gesture.kind == "start":
            return None
        self.controls = follow_gesture(self.controls, gesture, self.plane)
        self.state = dataclasses.replace(self.state, anchors=write_points(self.controls))
        return "coarse" if gesture.kind == "move" else "full"

    def solve(
        self, state: CondaState, speed: Speed, cancel: threading.Event, progress: Progress
    ) -> CondaAnswer:
        """Draw, lift and render a curve."""
        steps = min(COARSE_STEPS, state.steps) if speed == "coarse" else state.steps
        controls = read_points(state.anchors, self.scene.fit.points)
        anchors = controls if state.kind == "spline" else controls[[0, -1]]
        path = trace(
            self.scene.fit,
            anchors,
            kind=state.kind,
            steps=steps,
            period=1.0 if state.closed and state.kind == "spline" and len(anchors) > 2 else None,
            k=state.k,
            weights=state.weights,
            rank=state.rank or None,
            renorm=state.renorm,
            index=self.index,
        )
        progress(0.2, "lifted")
        films = {} if speed == "coarse" or cancel.is_set() else self.films(path)
        return CondaAnswer(state, speed, path, films)

    def films(self, path: TraceResult) -> dict[str, Tensor]:
        """The curve beside the straight and the spherical interpolation, rendered in one call."""
        scene = self.scene
        if not scene.pictures:
            return {}
        if scene.render is None:
            nearest = path.lifted.neighbours[:, 0]
            return {} if scene.frames is None else {"nearest frames": scene.frames[nearest]}
        rows = {"curve, lifted": path.latents}
        if path.lerp_z is not None and path.slerp_z is not None:
            rows |= {"straight in z": path.lerp_z, "spherical in z": path.slerp_z}
        follow = None if path.variables is None else path.variables.repeat(len(rows), 1)
        made = scene.render(torch.cat(list(rows.values())), follow)
        return dict(zip(rows, made.split(len(path.points)), strict=True))

    # -- selections

    def enclosed(self, corners: Sequence[float]) -> Tensor:
        """Rows of the frames inside a polygon of the picture.

        Args:
            corners: x and y of every corner in turn.
        """
        whole = len(corners) - len(corners) % 2
        polygon = torch.tensor(list(corners)[:whole], dtype=torch.float64).reshape(-1, 2)
        return enclosed_rows(self.coords, polygon)

    def nearest_to(self, rows: Tensor, count: int = SHOWN) -> Tensor:
        """The frames of a selection that are nearest to its middle, nearest first."""
        points = self.scene.fit.points[rows]
        apart = (points - points.mean(dim=0)).norm(dim=1)
        return rows[apart.argsort()[:count]]

    def selection_text(self, rows: Tensor) -> str:
        """A sentence on a selection: how many frames, and what they are."""
        if not len(rows):
            return "nothing selected"
        words = [f"{len(rows)} of {len(self.coords)} frames selected"]
        for name, values in colours_of(self.scene.fit).items():
            part = values[rows]
            if part.is_floating_point():
                words.append(f"{name} {float(part.min()):.3g} to {float(part.max()):.3g}")
            else:
                words.append(f"{name} " + ", ".join(map(str, torch.unique(part).tolist()[:6])))
        return "; ".join(words)

    # -- what the canvas shows

    def ground(self, look: Theme) -> dict[str, Any]:
        """Traits of what stays: the frames, the axes, and pictures of some frames."""
        values = colours_of(self.scene.fit)[self.state.colour]
        colours, rows = shades_of(values, look)
        count = len(self.coords)
        radius, opacity = (2.6, 0.75) if count < 20_000 else (1.6, 0.4)
        name = f"frames, by {self.state.colour}"
        cloud = Cloud(name, self.coords, colours, rows, radius=radius, opacity=opacity)
        return {
            **cloud_traits([cloud]),
            **window_traits(self.window(), self.plane.axes),
            "can_add": True,
            "hint": HINT,
            "caption": f"{self.scene.name} in the embedding, {self.plane.name}",
        }

    def curve_traits(self, answer: CondaAnswer | None, look: Theme, selected: Tensor) -> dict[str, Any]:
        """Traits of what moves: the curve, its unsupported points, the selection."""
        strokes = []
        if len(selected):
            strokes.append(
                Stroke("selection", self.coords[self._some(selected)], look.via, "dots", width=3.4)
            )
        thumbs = self._thumb_rows()
        if thumbs is not None:
            strokes.append(
                Stroke("pictures", self.coords[thumbs], look.muted, "dots", width=1.2, opacity=0.0)
            )
        if answer is not None:
            coords = self.plane.encode(answer.path.points).double()
            strokes.append(Stroke("curve", coords, look.path, halo=True))
            off = answer.path.lifted.off_support
            if bool(off.any()):
                strokes.append(Stroke("off support", coords[off], look.warning, "crosses", width=4.0))
        pixels, names = None, []
        if thumbs is not None and self.scene.frames is not None:
            grey = pixels_of(self.scene.frames[thumbs], self.scene.shape, self.scene.value_range)
            pixels = grey if grey.ndim == 3 else grey.mean(axis=-1).astype(np.uint8)
            times = self.scene.fit.context.times[thumbs].tolist()
            names = [f"frame {row}, t = {t:.4g}" for row, t in zip(thumbs.tolist(), times, strict=True)]
        return {**stroke_traits(strokes), **thumb_traits(pixels, "pictures", names)}

    def handles(self) -> dict[str, Any]:
        """Traits of the control points."""
        places = self.plane.encode(self.controls).tolist()
        last = len(places) - 1
        return handle_traits(
            [
                Handle(
                    f"c{k}",
                    "start" if k == 0 else "end" if k == last else str(k),
                    x,
                    y,
                    "start" if k == 0 else "end" if k == last else "via",
                )
                for k, (x, y) in enumerate(places)
            ]
        )

    def facts(self, answer: CondaAnswer) -> list[tuple[str, str]]:
        """Names and values of what the curve is."""
        path, fit = answer.path, self.scene.fit
        lifted: Lift = path.lifted
        off = int(lifted.off_support.sum())
        return [
            ("support", f"▲ {off} of {len(path.points)} points off" if off else "● all points near frames"),
            ("farthest point", f"{float(lifted.distance.max()):.3g} usual spacings"),
            ("norm ratio", f"{float(lifted.norm_ratio.min()):.3f} to {float(lifted.norm_ratio.max()):.3f}"),
            ("length in c", f"{path.length:.4g}"),
            ("fit", f"{fit.bits:.2f} bits, control {fit.control_gap:.2f} nats worse"),
            ("split", f"{len(fit.training.held_rows)} of {len(fit.points)} frames "
             + ("held out" if fit.training.honest else "judged, none held out")),
            ("seed", str(fit.provenance.seed)),
        ]  # fmt: skip

    def export(self, answer: CondaAnswer, path: str) -> str:
        """Write the curve and its films to .npz, .gif or .mp4; the path written.

        Raises:
            SettingError: For another ending, or nothing to write.
        """
        films = answer.films
        if not films and not path.endswith(".npz"):
            raise SettingError("no pictures to write", "frames or a render function", "a .npz file")
        taken = answer.path
        arrays = {name: getattr(taken, name) for name in ("times", "points", "anchors", "latents")}
        arrays |= {
            name: getattr(taken.lifted, name)
            for name in ("neighbours", "weights", "distance", "norm_ratio", "off_support")
        }
        scene = self.scene
        written = save_film(path, films, scene.shape, arrays=arrays, value_range=scene.value_range)
        return str(written)

    # -- inside

    def _thumb_rows(self) -> Tensor | None:
        if self.scene.frames is None or not is_picture(self.scene.shape):
            return None
        return torch.arange(0, len(self.coords), -(-len(self.coords) // THUMBNAILS))

    def _some(self, rows: Tensor, most: int = 1000) -> Tensor:
        return rows[:: -(-len(rows) // most)]
