"""Time of the string solvers over the time of the model calls alone, and calls an image.

Ratios, not seconds: a solver can do no better than its model, so the ratio says what is left to gain. Small
worlds are dominated by the solver's own arithmetic, networks by their calls.

Run as `python benchmarks/strings.py [--fashion]`; about a minute, a few more with the network.
"""

import sys
import time
from collections.abc import Callable

import torch

from workbench.curves import Curve, straight
from workbench.data import load_images
from workbench.lenses.paths import PathResult, find_path
from workbench.strings.meter import Meter
from workbench.strings.static import relax_string
from workbench.worlds import load_world
from workbench.zoo import load_model


def show(name: str, find: Callable[[], PathResult]) -> None:
    """One row: the solve's calls an image, its time over the bare calls', and its status."""
    find()  # warm up
    begin = time.perf_counter()
    found = find()
    spent = time.perf_counter() - begin
    calls = found.report.model_calls / found.curve.nodes
    print(f"{name:34s}{calls:12.0f}{1.0 / found.share_in_model:12.1f}{spent:10.2f}  {found.report.status}")


def main() -> None:
    """Print the table."""
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    print(f"{'path':34s}{'calls/image':>12s}{'time ratio':>12s}{'seconds':>10s}  status")
    surface = load_world("muller_brown")
    facts = surface.facts
    show("Mueller-Brown, static, 41", lambda: find_path(surface, facts.start, facts.end, nodes=41))
    mixture = load_world("v_mixture")
    for regime in ("static", "transport", "mep"):
        ends = mixture.facts.start, mixture.facts.end
        show(f"V-mixture, {regime}, 33", lambda r=regime, e=ends: find_path(mixture, *e, regime=r))
    wide = mixture.rotated(256, generator=torch.Generator().manual_seed(0))
    show(
        "V-mixture in 256-d, mep, 33", lambda: find_path(wide, wide.facts.start, wide.facts.end, polish=False)
    )
    starts = Curve.through(straight(facts.start, facts.end, 41).points.expand(64, 41, 2).contiguous())
    meter = Meter()
    begin = time.perf_counter()
    relax_string(surface.force, starts, meter=meter)
    spent = time.perf_counter() - begin
    calls, ratio = meter.points / 64 / 41, spent / meter.replay()
    print(f"{'64 strings at once, static, 41':34s}{calls:12.0f}{ratio:12.1f}{spent:10.2f}")
    if "--fashion" in sys.argv:
        torch.set_default_dtype(torch.float32)
        model, images = load_model("fashion"), load_images("fashion", split="test").points.float()
        for regime in ("transport", "mep"):
            show(f"Fashion, {regime}, 33", lambda r=regime: find_path(model, images[0], images[1], regime=r))


if __name__ == "__main__":
    main()
