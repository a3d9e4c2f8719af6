"""What a map of frames starts from: one recording, its gaps hidden, and a model that has not seen them.

The shipped wake has a shipped model; frames of one's own get a small one that is trained on the visible
frames. Both come with a condition bound where there is one.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from workbench.conda.context import Context
from workbench.conda.gaps import hide_gaps
from workbench.devices import resolve_device
from workbench.draws import seeded
from workbench.errors import SettingError, ShapeError
from workbench.frames.files import FrameSet
from workbench.frames.models import fit_frame_model, wake_as_frames
from workbench.frames.rendering import bind
from workbench.frames.wake_set import load_wake
from workbench.integrators import Cancel, Progress
from workbench.models import ScoreModel
from workbench.zoo import load_model

AUTO = "auto"
"""Model and condition that fit the frames: for "wake" the shipped model at Reynolds number 100, for others a
model that is trained here, without a condition."""

_WAKE = {"model": "wake", "condition": "Re 100"}


@dataclass(frozen=True, slots=True)
class PreparedFrames:
    """Frames of one recording and their model.

    Attributes:
        frames: The recording.
        context: What is known about its frames.
        hidden: Which of them nothing may see, shape (count,).
        model: The model, its condition bound.
        condition: The bound condition; "" for none.
        flows: Frames of all conditions that the model knows.
    """

    frames: FrameSet
    context: Context
    hidden: Tensor
    model: ScoreModel
    condition: str
    flows: FrameSet

    @property
    def visible(self) -> Tensor:
        """Rows of the frames that may be seen."""
        return (~self.hidden).nonzero()[:, 0]


def prepare_frames(
    frames: FrameSet,
    *,
    model: str = AUTO,
    condition: str = AUTO,
    gap: int = 6,
    every: int = 41,
    train_steps: int = 2000,
    device: str = "cpu",
    generator: torch.Generator | None = None,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> PreparedFrames:
    """Choose one recording, hide its gaps, and find or train its model.

    Args:
        frames: What `open_frames` gives.
        model: A shipped model or a folder; "" trains one on the visible frames; see `AUTO`.
        condition: The class that is bound, which for the wake is also the flow that is shown, and must be
            one; "" for none.
        gap: Hidden frames of a gap.
        every: Frames from one gap to the next.
        train_steps: Optimiser steps of a model that is trained here.
        device: Where to compute.
        generator: Source of all draws; that of seed 0 if None.
        progress: Called with the fraction done and a sentence.
        cancel: Stops a training.

    Returns:
        The recording with its model.

    Raises:
        SettingError: For a condition that the frames do not have, gaps that no recording holds, or glyphs.
        ShapeError: If a model is of other frames.
    """
    if frames.name == "glyphs":
        raise SettingError("glyphs, which have no order", "frames in time", "the notebook 41_glyphs")
    known = _WAKE if frames.name == "wake" else {"model": "", "condition": ""}
    model = known["model"] if model == AUTO else model
    condition = known["condition"] if condition == AUTO else condition
    group = int(frames.groups.mode().values)
    if frames.name == "wake":
        if condition not in frames.classes:
            raise SettingError(f"condition={condition!r}", f"one of {', '.join(frames.classes)}")
        group = frames.classes.index(condition)
    shown = frames.at((frames.groups == group).nonzero()[:, 0])
    context = shown.context()
    hidden = hide_gaps(context, gap=gap, every=every)
    rows = (~hidden).nonzero()[:, 0]
    if model:
        net = load_model(model, device=resolve_device(device))
        if net.frame.dim != shown.points.shape[1]:
            raise ShapeError(
                f"the model {model!r} of {net.frame.dim} numbers for frames of {shown.points.shape[1]}",
                "a model of these frames",
                "model='auto', which trains one",
            )
    else:
        trained = fit_frame_model(
            shown,
            rows=rows,
            steps=train_steps,
            generator=seeded(generator),
            progress=progress,
            cancel=cancel,
        )
        net = replace(trained, net=trained.net.to(resolve_device(device)))
        if frames.name == "wake":
            condition = condition if net.frame.classes else ""  # it chose the flow, which may be the only one
    flows = wake_as_frames(load_wake()) if frames.name == "wake" else frames if model else shown
    return PreparedFrames(shown, context, hidden, bind(net, condition or None), condition, flows)
