r"""A plane through the latents of a generative model, seen by a judge.

Three latents span the plane; a point (a, b) of it is :math:`z_0 + a (z_1 - z_0) + b (z_2 - z_0)`. A
deterministic sampler maps it to a sample, a decoder to a picture where samples are latents themselves, and a
judge to features. The pullback of the features is the metric of the plane, exact up to the sampler's steps:
two forward derivatives a point. It is the reference that a learned metric is compared with.

The latents are those that the sampler starts from, or those of the decoder, without any sampler: then the
pullback of the picture is the decoder's metric :math:`J_g^\top J_g`.

The plane is affine: no division by the latent's norm, which would make (a, b) curvilinear.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from workbench.adapters.wrap import WrappedModel
from workbench.decoders import Decoder, LatentModel, Latents, decoder_of
from workbench.draws import draw_normal, seeded
from workbench.errors import SettingError, ShapeError
from workbench.integrators import Progress
from workbench.memory import points_together
from workbench.metrics import Chart, Pullback
from workbench.models import Frame, ScoreModel
from workbench.phases.boundaries import label_phases
from workbench.phases.lipschitz import FlowMap
from workbench.subjects import open_subject
from workbench.types import Coords, Points
from workbench.zoo import load_judge

LATENTS = ("noise", "decoder")
"""Whose latents a slice lies in."""


@dataclass(frozen=True, slots=True)
class LatentSlice:
    """A plane through three latents with the maps that read it.

    Attributes:
        flow: From unit-normal latents to the model's points; None where the corners are such points.
        features: A judge's features of flat pictures; None for the pictures themselves.
        corners: z0, z1, z2, shape (3, dim).
        name: Model and judge in words.
        decoder: From the model's points to pictures, where they are latents.
        classify: Class scores of flat pictures by the judge; None without one.
        picture: Frame of the pictures; None if unknown.
        model: The score model; None if unknown.
    """

    flow: FlowMap | None
    features: Callable[[Tensor], Tensor] | None
    corners: Tensor
    name: str = "latent slice"
    decoder: Decoder | None = None
    classify: Callable[[Tensor], Tensor] | None = None
    picture: Frame | None = None
    model: ScoreModel | None = None

    @property
    def calls(self) -> int:
        """Model calls that one picture takes."""
        return 0 if self.flow is None else 4 * self.flow.steps

    def decode(self, coords: Coords) -> Points:
        """Latents at (a, b), shape (*batch, 2) to (*batch, dim), in the arithmetic of the slice."""
        base = self.corners[1:] - self.corners[0]
        return self.corners[0] + coords.to(base.dtype) @ base

    def samples(self, coords: Coords) -> Points:
        """The model's points there, shape (*batch, dim); four model calls a step and point."""
        latents = self.decode(coords)
        return latents if self.flow is None else self.flow(latents)

    def pictures(self, coords: Coords) -> Tensor:
        """What a person sees there: decoded samples, or the samples, shape (*batch, picture dim)."""
        samples = self.samples(coords)
        shown = samples if self.decoder is None else self.decoder.decode(samples)
        return shown.to(coords.dtype)

    def read(self, coords: Tensor) -> Tensor:
        """Features of the pictures at (a, b), (count, 2) to (count, features), in the coordinates' type.

        Inside, model and judge keep their own arithmetic: double coordinates do not make it finer.
        """
        pictures = self.pictures(coords)
        if self.features is None:
            return pictures
        return self.features(pictures.to(self.corners.dtype)).to(coords.dtype)

    @property
    def rounding(self) -> float:
        """Step in (a, b) below which the slice's arithmetic, not the model, makes the difference."""
        return 32.0 * torch.finfo(self.corners.dtype).eps

    def watched(self, progress: Progress) -> "LatentSlice":
        """The same slice, whose flow tells how far it is and ends with what `progress` raises."""
        return self if self.flow is None else replace(self, flow=replace(self.flow, progress=progress))

    def labels(self, coords: Tensor) -> Tensor:
        """Classes that the judge sees at coordinates (count, 2), shape (count,), as many at once as fit.

        Raises:
            SettingError: If the slice has no judge.
        """
        if self.classify is None:
            raise SettingError(
                f"{self.name}, a slice without a judge", "a judge", "label_phases of its features"
            )
        classify = self.classify

        def read(part: Tensor) -> Tensor:
            return classify(self.pictures(part).to(self.corners.dtype)).argmax(dim=1)

        with torch.no_grad():
            together = points_together(read, coords)
            return torch.cat([read(part) for part in coords.split(together)])

    def phases(self, coords: Tensor, *, count: int = 3) -> Tensor:
        """Phases at coordinates (points, 2): the judge's classes, or without one clusters of what is read.

        Args:
            coords: Where, shape (points, 2).
            count: Clusters, where there is no judge.

        Returns:
            Integer labels, shape (points,).
        """
        if self.classify is not None:
            return self.labels(coords)
        with torch.no_grad():
            return label_phases(self.read(coords), count)

    def metric(self) -> Pullback:
        """The pullback of the features to (a, b): two forward derivatives through all maps a point."""
        kind = "feature" if self.features is not None else "picture"
        return Pullback(self.read, _CHART, None, f"{kind} pullback of {self.name}")

    def picture_metric(self) -> Pullback:
        """The pullback of the pictures: every pixel counts the same, the decoder's own metric."""
        return Pullback(self.pictures, _CHART, None, f"picture pullback of {self.name}")


_CHART = Chart("latent plane", 2, ("a", "b"))


def latent_slice(
    model: ScoreModel | Latents,
    features: Callable[[Tensor], Tensor] | None = None,
    *,
    corners: Tensor | None = None,
    latents: str = "noise",
    steps: int = 12,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    classify: Callable[[Tensor], Tensor] | None = None,
) -> LatentSlice:
    """A plane through three latents of a model.

    Args:
        model: The score model; its sigma_max and the spread of its data set the flow's grid. A model with a
            decoder is seen through it; of a decoder alone only its latents can be asked.
        features: A judge's features of flat pictures (count, dim); None for the pictures themselves.
        corners: Three latents, shape (3, dim); drawn from a unit normal if None.
        latents: "noise" for what the sampler starts from, "decoder" for points of the model itself.
        steps: Runge-Kutta steps of the sampler.
        generator: Source of the corners; None for one of seed 0.
        dtype: Arithmetic of the model.
        device: Where the model lives.
        classify: Class scores of flat pictures, for `LatentSlice.labels`.

    Returns:
        The slice.

    Raises:
        ShapeError: If the corners are not three latents of the model.
        SettingError: If the decoder's latents are asked of a model without one.
    """
    frame = model.frame
    decoder = decoder_of(model)
    if latents not in LATENTS or (latents == "decoder" and decoder is None):
        raise SettingError(
            f"latents={latents!r} of {frame}", "noise, or decoder where the model has one", "latents='noise'"
        )
    if corners is None:
        like = torch.empty(0, dtype=torch.float64)  # the same corners in every arithmetic
        corners = draw_normal((3, frame.dim), like, seeded(generator))
    if corners.shape != (3, frame.dim):
        raise ShapeError(f"corners of shape {tuple(corners.shape)}", f"(3, {frame.dim})")
    flow = flow_of(model, steps) if latents == "noise" and isinstance(model, ScoreModel) else None
    picture = frame if decoder is None else decoder.picture
    return LatentSlice(
        flow,
        features,
        corners.to(device, dtype),
        str(frame),
        decoder,
        classify,
        picture,
        model if isinstance(model, ScoreModel) else None,
    )


def flow_of(model: ScoreModel, steps: int) -> FlowMap:
    """The deterministic sampler of a slice: from the model's largest noise level down to its data.

    An opened network is asked inside the levels that it declares; below them it is asked at the smallest.
    """
    frame = model.frame
    opened = isinstance(model.model if isinstance(model, LatentModel) else model, WrappedModel)
    lowest = frame.sigma_min if opened else 0.0
    return FlowMap(model, frame.sigma_max, 0.5 * frame.data_std, steps, lowest)


def open_slice(
    model: str | Path,
    *,
    judge: str = "",
    corners: str = "",
    latents: str = "noise",
    steps: int = 12,
    generator: torch.Generator | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | str = torch.float32,
) -> LatentSlice:
    """A slice by names: of a model, its judge, and the samples that span it.

    Args:
        model: A shipped model's name, or a file or folder that can be opened.
        judge: A shipped judge; empty for the one of the model's data, none if there is none.
        corners: Three points of the model "9;0;3" whose latents span the plane, as a subject reads them;
            empty draws them.
        latents: "noise", or "decoder" for the latents of a decoder.
        steps: Runge-Kutta steps of the sampler.
        generator: Source of the corners; None for one of seed 0.
        device: Where to compute.
        dtype: Arithmetic of model and judge, or its name.

    Returns:
        The slice. Named corners take the flow backwards once.

    Raises:
        SettingError: If a name means nothing, or the corners are not three.
    """
    subject = open_subject(model=model, device=device, dtype=dtype)
    opened = subject.model
    decoded = latents == "decoder" and isinstance(opened, Latents)  # a decoder needs no score
    if not isinstance(opened, ScoreModel) and not decoded:
        what = subject.lacking or "no model of noise levels"
        raise SettingError(f"{model}, {what}", "a model that samples", "model='digits'")
    picture = subject.shown
    reader = None
    if judge or picture.name in ("digits", "fashion"):
        reader = load_judge(judge or picture.name, device=subject.device, dtype=subject.dtype)
    named = None
    if corners.strip():
        named = subject.points(corners)
        if named is None or len(named) != 3:
            raise SettingError(f"the corners {corners!r}", "three points with semicolons between", "'0;1;2'")
        if latents == "noise" and isinstance(opened, ScoreModel):
            with torch.no_grad():
                named = flow_of(opened, steps).invert(named)
    assert isinstance(opened, ScoreModel | Latents)  # nothing else is left
    return latent_slice(
        opened,
        None if reader is None else reader.features,
        corners=named,
        latents=latents,
        steps=steps,
        generator=generator,
        dtype=subject.dtype,
        device=subject.device,
        classify=reader,
    )
