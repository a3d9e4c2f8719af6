r"""The wake of a cylinder: a flow with one clock, computed here, for frames whose dynamics are known.

The lattice Boltzmann equation with nine velocities :math:`c_i` in the plane and one relaxation time,

.. math::
    f_i(x + c_i, t + 1) = f_i + \frac{1}{\tau}\,(f_i^{eq} - f_i), \qquad
    f_i^{eq} = w_i \Big[\rho + 3\,c_i\!\cdot\! m + \frac{9 (c_i\!\cdot\! m)^2 - 3 m^2}{2\rho}\Big],

with density :math:`\rho = \sum_i f_i`, momentum :math:`m = \sum_i c_i f_i` and viscosity
:math:`\nu = (\tau - 1/2)/3` in lattice units, solves the equations of a slow viscous flow. Fluid enters on
the left at speed U, leaves on the right without gradient, the sides are periodic, nodes inside the cylinder
bounce back what reaches them. The Reynolds number is U D / nu; above about 47 the wake sheds vortices at the
frequency f with Strouhal number f D / U, near 0.164 at Reynolds number 100 in an unbounded flow and somewhat
higher between periodic sides.

References:
    Qian, d'Humières, Lallemand, "Lattice BGK Models for Navier-Stokes Equation", 1992,
        https://doi.org/10.1209/0295-5075/17/6/001
    Williamson, "Defining a Universal and Continuous Strouhal-Reynolds Number Relationship", 1988,
        https://doi.org/10.1063/1.866978
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.checks import check_choice, check_count, check_number, check_run, shown
from workbench.devices import resolve_device
from workbench.errors import SettingError, ShapeError
from workbench.frames.lattice import Lattice, WakeGrid
from workbench.integrators import Cancel, Progress
from workbench.report import Provenance, SolveReport, Status, provenance_of

CRITICAL_REYNOLDS = 47.0
"""Below about this Reynolds number the wake is steady."""

_SOURCES = ("Lattice BGK Models for Navier-Stokes Equation",)
_LOOK_EVERY = 500  # steps between two reports of progress


@dataclass(frozen=True, slots=True)
class WakeResult:
    """Flows past a cylinder.

    Attributes:
        reynolds: Reynolds number of each flow, shape (flows,).
        probe: Velocity across the stream at the probe, in units of U, after every step, shape (flows, steps).
        frames: Pictures of the field, shape (flows, count, rows, columns).
        times: Step of each picture, shape (count,).
        shows: What the pictures show: speed in units of U, or vorticity in units of U / D.
        grid: The channel.
        report: How it went; the residual is none.
        provenance: Where it came from.
    """

    reynolds: Float[Tensor, " flows"]
    probe: Float[Tensor, "flows steps"]
    frames: Float[Tensor, "flows count rows columns"]
    times: Float[Tensor, " count"]
    shows: str
    grid: WakeGrid
    report: SolveReport
    provenance: Provenance


def simulate_wake(
    reynolds: Sequence[float],
    *,
    grid: WakeGrid | None = None,
    steps: int = 11_000,
    frames_from: int | None = None,
    every: int = 20,
    pool: int = 3,
    shows: str = "speed",
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> WakeResult:
    """Flows past a cylinder, all Reynolds numbers at once.

    Args:
        reynolds: Reynolds number of each flow.
        grid: The channel; `WakeGrid()` if None.
        steps: Time steps.
        frames_from: First step whose field is kept; None for no pictures.
        every: Steps between two pictures.
        pool: Side of the squares of nodes whose mean is a pixel. Pictures begin one pooled column before the
            cylinder and end at the outlet.
        shows: "speed" or "vorticity".
        dtype: Floating type; float32 is enough, since populations are stored as deviations from rest.
        device: Where to compute.
        progress: Called now and then with the fraction done and a sentence.
        cancel: Asked now and then; the steps done so far are returned.

    Returns:
        The probe's series and the pictures. No model calls; on one core about 0.35 ms a step and flow of
        180 x 90 nodes.

    Raises:
        SettingError: For a setting that no flow can have.
    """
    grid = WakeGrid() if grid is None else grid
    _check(reynolds, grid, steps, frames_from, every, pool, shows, dtype)
    check_run(None, progress, cancel)
    lattice = Lattice(tuple(float(value) for value in reynolds), grid, dtype, resolve_device(device))
    probe = torch.empty(len(reynolds), steps, dtype=dtype, device=lattice.state.device)
    pictures, times = [], []
    done = steps
    for step in range(steps):
        if step % _LOOK_EVERY == 0 and step:
            if progress is not None:
                progress(step / steps, f"flow past a cylinder: step {step} of {steps}")
            if cancel is not None and cancel.is_set():
                done = step
                break
        u, v = lattice.measure()
        probe[:, step] = v[:, lattice.probe]
        if frames_from is not None and step >= frames_from and (step - frames_from) % every == 0:
            pictures.append(lattice.picture(u, v, pool, shows))
            times.append(float(step))
        lattice.advance()
    if progress is not None and done == steps:
        progress(1.0, f"flow past a cylinder: {steps} steps")
    probe = probe[:, :done] / grid.speed
    rows, columns = lattice.picture_shape(pool)
    frames = torch.stack(pictures, 1) if pictures else probe.new_empty(len(reynolds), 0, rows, columns)
    broken = ~torch.isfinite(probe).all(1)
    status = Status.CANCELLED if done < steps else Status.CONVERGED
    warnings: tuple[str, ...] = ()
    if bool(broken.any()):
        status = Status.DIVERGED
        worst = float(torch.tensor(list(reynolds))[broken.cpu()].max())
        warnings = (
            f"got a flow at Reynolds number {worst:g} that broke down on this lattice; expected a finer one; "
            "try a larger diameter with as many more rows and columns",
        )
    report = SolveReport(
        status, done, None, 0, warnings=warnings, message=f"{done} steps of {len(probe)} flows"
    )
    report.warn_if_failed()
    settings = {
        "reynolds": [float(value) for value in reynolds],
        "grid": [grid.columns, grid.rows, grid.diameter, grid.speed],
        "steps": steps,
        "frames_from": frames_from,
        "every": every,
        "pool": pool,
        "shows": shows,
    }
    provenance = provenance_of(probe, model="lattice Boltzmann, D2Q9", settings=settings, sources=_SOURCES)
    return WakeResult(
        torch.tensor(settings["reynolds"], dtype=probe.dtype, device=probe.device),
        probe,
        frames,
        torch.tensor(times, dtype=probe.dtype, device=probe.device),
        shows,
        grid,
        report,
        provenance,
    )


@dataclass(frozen=True, slots=True)
class Shedding:
    """What a probe says about the vortices.

    Attributes:
        strouhal: Strouhal number f D / U of the strongest frequency, shape (flows,).
        rms: Root mean square of the velocity across the stream over the window, in units of U.
        steady: Whether the flow sheds nothing that lasts: its rms is below 0.05 U and falling.
        period: Steps of one cycle, shape (flows,).
    """

    strouhal: Float[Tensor, " flows"]
    rms: Float[Tensor, " flows"]
    steady: tuple[bool, ...]
    period: Float[Tensor, " flows"]


def measure_shedding(result: WakeResult, *, share: float = 0.5, padding: int = 8) -> Shedding:
    """Strouhal number of each flow from the spectrum of its probe.

    The last part of the series, without its mean, is multiplied by a Hann window and padded with zeros; the
    frequency is the largest value of the spectrum.

    Args:
        result: Flows.
        share: Part of the series, at its end, that is looked at.
        padding: Length of the padded series in lengths of the window; sets how finely frequencies are read.

    Returns:
        Strouhal numbers, sizes and whether the flow is steady. A steady flow's number has no meaning.

    Raises:
        SettingError: For a share or padding out of range.
        ShapeError: If the window holds less than 16 values.

    References:
        Harris, "On the Use of Windows for Harmonic Analysis with the Discrete Fourier Transform", 1978,
        https://doi.org/10.1109/PROC.1978.10837
    """
    check_number("share", share, above=0.0, most=1.0)
    check_count("padding", padding)
    series = result.probe.double()
    window = series[:, series.shape[1] - round(share * series.shape[1]) :]
    count = window.shape[1]
    if count < 16:
        raise ShapeError(f"a window of {count} values", "at least 16", "more steps")
    centred = window - window.mean(1, keepdim=True)
    taper = torch.hann_window(count, dtype=centred.dtype, device=centred.device)
    spectrum = torch.fft.rfft(centred * taper, n=padding * count).abs()
    frequency = spectrum[:, 1:].argmax(1).add(1) / (padding * count)
    rms = centred.square().mean(1).sqrt()
    early, late = (half.std(1) for half in centred.chunk(2, dim=1))
    steady = (rms < 0.05) & (late < early)
    grid = result.grid
    return Shedding(
        strouhal=frequency * grid.diameter / grid.speed,
        rms=rms,
        steady=tuple(bool(value) for value in steady),
        period=1.0 / frequency,
    )


def _check(
    reynolds: Sequence[float],
    grid: WakeGrid,
    steps: int,
    frames_from: int | None,
    every: int,
    pool: int,
    shows: str,
    dtype: torch.dtype,
) -> None:
    if not isinstance(reynolds, Sequence) or isinstance(reynolds, str) or not reynolds:
        raise SettingError(shown("reynolds", reynolds), "a sequence of Reynolds numbers", "reynolds=[100.0]")
    for value in reynolds:
        check_number("reynolds", value, above=0.0)
    check_number("speed", grid.speed, above=0.0, most=0.2, hint="0.1: compressible above")
    check_number("diameter", grid.diameter, least=4.0, hint="9.0")
    check_count("rows", grid.rows, least=math.ceil(2 * grid.diameter))
    check_count("columns", grid.columns, least=math.ceil(6 * grid.diameter))
    check_count("steps", steps)
    check_count("frames_from", frames_from, least=0, none=True)
    check_count("every", every)
    check_count("pool", pool)
    check_choice("shows", shows, ("speed", "vorticity"))
    if dtype not in (torch.float32, torch.float64):
        raise SettingError(shown("dtype", dtype), "torch.float32 or torch.float64", "torch.float32")
    highest = max(float(value) for value in reynolds)
    if grid.relaxation(highest) < 0.505:
        raise SettingError(
            f"Reynolds number {highest:g} on a cylinder of {grid.diameter:g} nodes",
            f"at most {3 * grid.speed * grid.diameter / 0.005:.0f}, where the relaxation time nears 1/2",
            "a larger diameter",
        )
