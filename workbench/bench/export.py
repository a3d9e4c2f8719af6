"""The filmstrip of a curve at equal steps of a chosen metric, and its export as PNG, GIF or MP4.

Frames lie at equal lengths under the metric, so that each step is as large as the next for whoever measures
with it. The Euclidean sizes of the steps stand beside: where they jump, the metric says that little changes,
and where they shrink there is a boundary.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from workbench.bench.answers import Line
from workbench.bench.geodesics import metric_of, metrics_for
from workbench.bench.places import level_of
from workbench.bench.results import BenchResult
from workbench.curves import Curve
from workbench.errors import MissingExtra, SettingError, ShapeError
from workbench.geodesics import segment_lengths
from workbench.metrics import Metric
from workbench.models import Frame
from workbench.subjects import Subject

DENSE = 8
"""Fine steps of a curve for each frame, where lengths are summed."""
FORMATS = (".png", ".gif", ".mp4")
"""What `export_filmstrip` writes."""
_GAP = 2  # pixels between the frames of a strip
_BAR = 24  # height of the bars under it, in pixels before magnification


@dataclass(frozen=True, slots=True)
class Filmstrip:
    """Points of a curve at equal steps of a metric.

    Attributes:
        points: Shape (frames, dim), both ends included.
        shares: Share of the metric length at each, shape (frames,).
        steps: Metric length of each step, shape (frames - 1,); equal up to the error of the sum.
        plain: Euclidean length of each step, shape (frames - 1,).
        metric: Name of the metric.
        line: Name of the curve.
        calls: Model calls that it took.
    """

    points: Tensor
    shares: Tensor
    steps: Tensor
    plain: Tensor
    metric: str
    line: str
    calls: int

    @property
    def evenness(self) -> float:
        """Longest over shortest step under the metric; 1 for equal steps."""
        return float(self.steps.max() / self.steps.min())


def filmstrip_of(line: Line, metric: Metric, *, frames: int = 9) -> Filmstrip:
    """Frames at equal steps of a metric along a curve.

    Args:
        line: The curve.
        metric: The metric that is equal from frame to frame.
        frames: How many, both ends included.

    Returns:
        The frames with their steps. DENSE (frames - 1) inner products of the metric, twice.

    Raises:
        SettingError: If fewer than two frames are asked for.
    """
    if frames < 2:
        raise SettingError(f"frames={frames}", "2 or more")
    count = DENSE * (frames - 1) + 1
    fine = Curve.through(line.points).resample(max(count, len(line.points))).points
    arc = torch.cat([fine.new_zeros(1), segment_lengths(metric, fine).cumsum(0)])
    wanted = torch.linspace(0.0, 1.0, frames, dtype=arc.dtype, device=arc.device) * arc[-1]
    right = torch.searchsorted(arc, wanted[1:-1].contiguous()).clamp(1, len(arc) - 1)
    share = ((wanted[1:-1] - arc[right - 1]) / (arc[right] - arc[right - 1]).clamp_min(1e-300))[:, None]
    inner = torch.lerp(fine[right - 1], fine[right], share)
    points = torch.cat([fine[:1], inner, fine[-1:]])
    steps = _steps(metric, fine, arc, wanted, points)
    plain = (points[1:] - points[:-1]).norm(dim=-1)
    calls = round((len(fine) - 1 + 2 * (frames - 1)) * metric.calls)
    shares = wanted / arc[-1].clamp_min(1e-300)
    return Filmstrip(points, shares, steps.detach(), plain, metric.name, line.name, calls)


def _steps(metric: Metric, fine: Tensor, arc: Tensor, wanted: Tensor, points: Tensor) -> Tensor:
    """Metric length between frames: the whole fine steps and the pieces at both sides, as one sum."""
    places = torch.cat([arc, wanted[1:-1]])
    order = places.argsort(stable=True)
    merged = torch.cat([fine, points[1:-1]])[order]
    pieces = segment_lengths(metric, merged)
    ends = torch.searchsorted(places[order].contiguous(), wanted.contiguous()).clamp_max(len(merged) - 1)
    total = torch.cat([pieces.new_zeros(1), pieces.cumsum(0)])
    return total[ends].diff()


def strip_of(result: BenchResult, *, line: str = "", frames: int = 9) -> Filmstrip:
    """The filmstrip of a curve of a view at equal steps of the view's metric.

    Args:
        result: All answers.
        line: Name of the curve; the geodesic, else the first path, else the first curve if empty.
        frames: How many frames.

    Returns:
        The strip; at equal Euclidean steps where the subject lacks the metric.

    Raises:
        SettingError: If there is no such curve.
    """
    order = {"geodesic": 0, "path": 1}
    lines = sorted(result.lines, key=lambda one: order.get(one.kind, 2))
    named = [one for one in lines if one.name == line] if line else lines[:1]
    if not named:
        known = ", ".join(one.name for one in result.lines) or "none has been drawn"
        raise SettingError(f"the curve {line!r}", f"one of {known}")
    state, subject = result.state, result.place.subject
    name = state.metric if state.metric in metrics_for(subject) else "euclidean"
    metric = metric_of(name, subject, level_of(subject, state.sigma), state.weight)
    return filmstrip_of(named[0], metric, frames=frames)


def pixels_of(points: Tensor, frame: Frame) -> np.ndarray:
    """Samples as grey or coloured pictures.

    Args:
        points: Flat samples, shape (count, dim).
        frame: Their shape and range of values.

    Returns:
        uint8, shape (count, rows, columns, 3).

    Raises:
        ShapeError: If the samples are no pictures.
    """
    if len(frame.shape) != 3 or frame.shape[0] not in (1, 3):
        raise ShapeError(f"samples of shape {frame.shape}", "pictures of one or three channels", "the canvas")
    values = points.detach().cpu().double()
    low, high = frame.value_range or (float(values.min()), float(values.max()))
    scaled = ((values - low) / ((high - low) or 1.0)).clamp(0, 1).mul(255).round().to(torch.uint8)
    stack = scaled.reshape(len(points), *frame.shape).permute(0, 2, 3, 1).numpy()
    return np.ascontiguousarray(np.broadcast_to(stack, (*stack.shape[:3], 3)))


def export_filmstrip(
    strip: Filmstrip, subject: Subject, path: str | Path, *, magnify: int = 4, seconds: float = 0.25
) -> Path:
    """Write a filmstrip: PNG as one strip with its steps as bars, GIF and MP4 as a film there and back.

    Args:
        strip: The frames.
        subject: Whose points they are; latents are decoded.
        path: A file ending in .png, .gif or .mp4; an existing one is replaced.
        magnify: Pixels a pixel.
        seconds: Time of a frame of a film.

    Returns:
        The path.

    Raises:
        SettingError: For another ending, or a path that cannot be written.
        ShapeError: If the samples are no pictures.
        MissingExtra: For MP4 without the packages of the extra [movies].
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise SettingError(f"the file {path.name!r}", f"an ending of {', '.join(FORMATS)}", "filmstrip.png")
    if magnify < 1 or not seconds > 0:
        raise SettingError(f"magnify={magnify} and seconds={seconds}", "1 or more, and above 0")
    pixels = pixels_of(subject.show(strip.points), subject.shown)
    pixels = pixels.repeat(magnify, axis=1).repeat(magnify, axis=2)
    try:
        if path.suffix.lower() == ".png":
            _strip_image(pixels, strip, magnify).save(path, format="PNG")
        elif path.suffix.lower() == ".gif":
            images = [Image.fromarray(one) for one in _there_and_back(pixels)]
            images[0].save(
                path,
                format="GIF",
                save_all=True,
                append_images=images[1:],
                duration=round(1000 * seconds),
                loop=0,
            )
        else:
            _write_film(_there_and_back(pixels), path, seconds)
    except OSError as error:
        raise SettingError(
            f"{path}, which cannot be written ({error.strerror or error})", "a folder to write in"
        ) from error
    return path


def _there_and_back(pixels: np.ndarray) -> np.ndarray:
    return np.concatenate([pixels, pixels[-2:0:-1]])


def _strip_image(pixels: np.ndarray, strip: Filmstrip, magnify: int) -> Image.Image:
    """All frames in a row; under each gap a bar of the Euclidean size of the step."""
    count, rows, columns, _ = pixels.shape
    gap, bar = _GAP * magnify, _BAR * magnify // 2
    width = count * columns + (count - 1) * gap
    canvas = np.full((rows + gap + bar, width, 3), 255, dtype=np.uint8)
    for k in range(count):
        left = k * (columns + gap)
        canvas[:rows, left : left + columns] = pixels[k]
    plain = strip.plain.detach().cpu().double()
    heights = (plain / plain.max().clamp_min(1e-300) * bar).round().long().tolist()
    for k, height in enumerate(heights):
        middle = k * (columns + gap) + columns + gap // 2
        half = columns // 3
        canvas[rows + gap + bar - max(height, 1) :, middle - half : middle + half] = 70
    return Image.fromarray(canvas)


def _write_film(frames: np.ndarray, path: Path, seconds: float) -> None:
    """MP4 through ffmpeg; sides are padded to even numbers, which the codec wants."""
    try:
        import imageio.v2 as imageio
        import imageio_ffmpeg  # noqa: F401 - imageio finds it by itself, but says less if it is missing
    except ImportError:
        raise MissingExtra.of("imageio-ffmpeg", "movies") from None
    rows, columns = frames.shape[1:3]
    odd = [(0, 0), (0, int(rows) % 2), (0, int(columns) % 2), (0, 0)]
    frames = np.pad(frames, odd, mode="edge")
    options: dict[str, Any] = {"codec": "libx264", "pixelformat": "yuv420p", "macro_block_size": 2}
    imageio.mimwrite(path, list(frames), format="FFMPEG", fps=1.0 / seconds, **options)
