"""A curve from one condition to another for a view: the condition following, and held where the curve began.

It needs a map of its own, of several flows; that takes some seconds, so that it is made when it is asked for.
"""

import torch

from widgets.scheduling import Progress
from widgets.sessions.conda_state import CondaCrossing
from workbench.frames.crossing import Passage, render_crossing
from workbench.integrators import Cancel
from workbench.inversions import encode, given_each
from workbench.lenses.conda import fit_conda, trace
from workbench.nets import NetModel

STEPS = 17
"""Points of the curve."""


def cross_conditions(
    model: NetModel,
    passage: Passage,
    progress: Progress,
    cancel: Cancel,
    *,
    solver: str,
    low: float | None,
    depth: float | None,
    steps: int,
    device: torch.device,
    seed: int,
) -> CondaCrossing:
    """Render a curve through the conditions of a passage.

    Args:
        model: A network with the passage's classes.
        passage: The flows.
        progress: Told the share of the whole and a sentence.
        cancel: Stops early; what has been learnt of the map is rendered then.
        solver: How latents are found, as for `encode`.
        low: As for `encode`.
        depth: As for `encode`.
        steps: As for `encode`.
        device: Where to compute.
        seed: Of the map.

    Returns:
        Both films with their sentence; a few seconds of one core.
    """

    def told(fraction: float, message: str) -> None:
        progress(0.9 * fraction, message)

    x = passage.points.to(device)
    asked = given_each(model, passage.labels)
    latent = encode(asked, x, solver=solver, low=low, depth=depth, steps=steps)
    with torch.enable_grad():  # workers record no gradients otherwise
        fit = fit_conda(
            latent.joined().cpu(),
            passage.context,
            generator=torch.Generator().manual_seed(seed),
            topology=False,
            progress=told,
            cancel=cancel,
            positives="delta",
            delta=0.15,
            iterations=400,
            restarts=1,
            batch=128,
        )
    path = trace(fit, fit.points[passage.anchors], steps=STEPS)
    crossing = render_crossing(model, latent, path.lifted, passage.labels, passage.truth)
    films = {
        "condition follows": crossing.rendered.following.cpu(),
        "condition held": crossing.rendered.held.cpu(),
    }
    labels = [f"{value:.3g}" for value in passage.values_at(crossing.conditions)]
    return CondaCrossing(films, labels, passage.name, str(crossing))
