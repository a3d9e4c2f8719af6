"""The table beside the canvas: every curve on the same ground, and in a known world against the exact answer.

All energies are taken at one noise level, all lengths by the same rule, so that rows can be compared whatever
lens they come from. What a solver certifies about its own curve stands beside them.
"""

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.bench.answers import Inquiry, LensAnswer, Line
from workbench.bench.geodesics import metric_of, metrics_for
from workbench.bench.truth import Truth, truth_of
from workbench.curves import Curve
from workbench.geodesics import curve_length
from workbench.metrics import Metric, RankOneScore
from workbench.report import Estimate
from workbench.strings.ground import Ground, ground_of
from workbench.strings.meter import Meter
from workbench.strings.profile import integrate_forces
from workbench.worlds.reference import deviation

NODES = {"coarse": 33, "full": 129}
"""Nodes at which curves are compared where the model is a formula."""
NETWORK_NODES = {"coarse": 5, "full": 17}
"""The same where it is a network."""


@dataclass(frozen=True, slots=True)
class Row:
    """One curve of the table.

    Attributes:
        line: Name of the curve.
        lens: Lens that found it.
        kind: What it is.
        lengths: Its length under each metric, by name.
        barrier: Highest energy on it minus that at the start.
        lowest: Lowest log density passed: absolute where the density is known, else relative to the start;
            None where energies are no log densities.
        calls: Model calls of its solve; 0 if there was none.
        residual: Relative residual of its solve; None if there was none.
        converged: Whether the solve met its tolerance; None if there was none.
        errors: Found minus exact, by the name of the column; empty where nothing is known.
        how: Where the exact answers come from.
    """

    line: str
    lens: str
    kind: str
    lengths: dict[str, Estimate]
    barrier: Estimate
    lowest: Estimate | None
    calls: int
    residual: float | None
    converged: bool | None
    errors: dict[str, float]
    how: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The table.

    Attributes:
        rows: One a curve.
        distances: Largest distance of any point of one curve to the other, whichever way is larger, shape
            (rows, rows).
        sigma: Noise level of energies and metrics.
        unit: Unit of the energies.
        metric: Name of the chosen metric.
        calls: Model calls of the table itself.
    """

    rows: tuple[Row, ...]
    distances: Tensor
    sigma: float
    unit: str
    metric: str
    calls: int

    def row(self, line: str) -> Row:
        """The row of a curve.

        Raises:
            KeyError: If there is no such curve.
        """
        for row in self.rows:
            if row.line == line:
                return row
        raise KeyError(line)

    def numbers(self) -> dict[str, Estimate]:
        """Every number of the table by a name that a notebook can record: curve, dot, column."""
        found: dict[str, Estimate] = {}
        for row in self.rows:
            own = re.sub(r"[^A-Za-z0-9]+", "_", row.line).strip("_")
            found[f"{own}.barrier"] = row.barrier
            if row.lowest is not None:
                found[f"{own}.lowest_density"] = row.lowest
            for name, length in row.lengths.items():
                found[f"{own}.length_{name}"] = length
            for name, error in row.errors.items():
                column = name.replace(" ", "_")
                found[f"{own}.{column}_error"] = Estimate(abs(error), how=row.how)
        return found


def compare(inquiry: Inquiry, answers: tuple[LensAnswer, ...]) -> Comparison:
    """The table of all curves that lenses found between the same ends.

    Args:
        inquiry: What was asked.
        answers: What the lenses said.

    Returns:
        One row a curve, lengths under every metric that the subject has; those of a coarse answer without an
        error. Cost: for each curve NODES points (fewer in a network), once for the energies (in a network up
        to 16 times its nodes) and once for each metric, and half as many again for the error.
    """
    lines = [(answer.lens, line) for answer in answers for line in answer.lines]
    subject, state = inquiry.place.subject, inquiry.state
    sigma = inquiry.level
    ground = ground_of(subject.model, sigma)
    names = metrics_for(subject)
    if not lines:
        return Comparison((), torch.zeros(0, 0), sigma, ground.unit, state.metric, 0)
    points = tuple(line.points for _, line in lines)
    count = (NETWORK_NODES if ground.energy is None else NODES)[inquiry.speed]

    def measure() -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
        fine = torch.stack([Curve.through(line).resample(count).points for line in points])
        metrics = [metric_of(name, subject, sigma, state.weight) for name in names]
        pulls = None
        if ground.energy is None and not inquiry.full:
            pulls = _pulls(ground, fine)
        tops, absolute = _tops(ground, points, fine, pulls)
        lengths = torch.stack([_lengths(metric, fine, inquiry.full, pulls) for metric in metrics])
        return tops, lengths, absolute, _distances(fine)

    tops, lengths, absolute, distances = inquiry.once(
        "comparison", (points, sigma, state.weight, names, count, inquiry.full), make=measure
    )
    rows = []
    for k, (lens, line) in enumerate(lines):
        top = float(tops[0, k])
        barrier = Estimate(top, float(tops[1, k]), ground.unit, "against half as many points")
        found = {
            name: Estimate(
                float(lengths[m, 0, k]),
                float(lengths[m, 1, k]) if inquiry.full else None,
                _unit(name),
                "Richardson, every second node" if inquiry.full else "midpoint rule",
            )
            for m, name in enumerate(names)
        }
        lowest = None
        if ground.unit == "nats":
            value = -top if absolute is None else float(absolute[k]) - top
            how = "relative to the start" if absolute is None else "log p"
            lowest = Estimate(value, barrier.error, "nats", how)
        truth = _truth(inquiry, line)
        report = line.report
        rows.append(
            Row(
                line.name,
                lens,
                line.kind,
                found,
                barrier,
                lowest,
                0 if report is None else report.model_calls,
                None if report is None else report.residual,
                None if report is None else report.converged,
                _errors(truth, line, barrier, found, state.metric),
                truth.how,
            )
        )
    measured = count + len(range(0, count, 2)) if inquiry.full else count  # again from every second node
    shared = {"euclidean"} if ground.energy is not None or inquiry.full else {"euclidean", "score"}
    calls = int(tops[2].sum()) + len(lines) * measured * sum(name not in shared for name in names)
    return Comparison(tuple(rows), distances, sigma, ground.unit, state.metric, calls)


def _pulls(ground: Ground, fine: Tensor) -> Tensor:
    """Forces half-way between neighbouring nodes; curves that are there twice are asked once."""
    first = [next(k for k, other in enumerate(fine) if torch.equal(other, line)) for line in fine]
    rows = sorted(set(first))
    middle = 0.5 * (fine[rows, 1:] + fine[rows, :-1])
    found = ground.force(middle.flatten(0, 1)).reshape(middle.shape)
    return found[[rows.index(k) for k in first]]


def _tops(
    ground: Ground, points: tuple[Tensor, ...], fine: Tensor, pulls: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Highest energy of each curve above its start, its error and its cost, shape (3, curves), and the log
    density at the start.

    Energies of a network are integrals of its score, refined between the nodes; with scores half-way between
    the nodes at hand, the midpoint rule, against itself on every second segment.
    """
    meter, shape = Meter(None), fine.shape[:2]
    cost = torch.full((shape[0],), float(shape[1]))
    if ground.energy is not None:
        values = meter(ground.energy, fine.flatten(0, 1)).reshape(shape)
        rise = (values - values[:, :1]).to(torch.float64)
        top = rise.amax(-1)
        absolute = -values[:, 0] if ground.unit == "nats" else None
        return torch.stack([top, (top - rise[:, ::2].amax(-1)).abs(), cost.to(top)]), absolute
    if pulls is not None:
        rises = -(pulls * fine.diff(dim=1)).sum(-1)
        top = rises.cumsum(-1).amax(-1).clamp_min(0.0).double()
        half = (2.0 * rises[:, ::2]).cumsum(-1).amax(-1).clamp_min(0.0).double()
        return torch.stack([top, (top - half).abs(), (cost - 1.0).to(top)]), None
    curves, tops = [Curve.through(line) for line in points], []
    for curve in curves:
        here = meter(ground.force, curve.points)
        found = integrate_forces(curve, here, lambda x: meter(ground.force, x))
        tops.append((float(found.energy.max()), found.error, float(found.curve.nodes)))
    return torch.tensor(tops, dtype=torch.float64).T, None


def _lengths(metric: Metric, fine: Tensor, full: bool, pulls: Tensor | None) -> Tensor:
    """Lengths and their errors, shape (2, curves): the midpoint rule extrapolated from every second node,
    which a coarse answer leaves out. The metric of the score takes scores that are at hand."""
    if pulls is not None and isinstance(metric, RankOneScore):
        steps = fine.diff(dim=1)
        flat = metric.inner_with(pulls, steps, steps).sqrt().sum(-1).detach()
    else:
        flat = curve_length(metric, fine).detach()
    if not full:
        return torch.stack([flat, torch.full_like(flat, torch.nan)])
    half = curve_length(metric, fine[:, ::2]).detach()
    return torch.stack([flat + (flat - half) / 3.0, (flat - half).abs() / 3.0])


def _distances(fine: Tensor) -> Tensor:
    off = torch.stack([deviation(fine, path).amax(-1) for path in fine])
    off.fill_diagonal_(0.0)
    return torch.maximum(off, off.T)


def _truth(inquiry: Inquiry, line: Line) -> Truth:
    """What is exactly known about a curve; not asked while a point moves."""
    subject, state = inquiry.place.subject, inquiry.state
    if subject.world is None or not inquiry.full or state.metric not in metrics_for(subject):
        return Truth()
    metric = metric_of(state.metric, subject, inquiry.level, state.weight)
    weight = metric.weight if isinstance(metric, RankOneScore) else None
    return inquiry.once(
        "truth",
        (line.kind, line.name, line.points, line.sigma, state.metric, inquiry.level, weight),
        make=lambda: truth_of(line, subject, state.metric, metric, inquiry.level, weight),
    )


def _errors(
    truth: Truth, line: Line, barrier: Estimate, lengths: dict[str, Estimate], metric: str
) -> dict[str, float]:
    """Found minus exact for every column whose exact answer is known.

    The barrier of a path and the length of a geodesic are those that their solver certifies.
    """
    own = line.solved
    errors = {}
    if truth.barrier is not None:
        solved = own.value if own is not None and line.kind == "path" else barrier.value
        errors["barrier"] = solved - truth.barrier
    if truth.length is not None and "euclidean" in lengths:
        errors["length"] = lengths["euclidean"].value - truth.length
    if truth.metric_length is not None and metric in lengths:
        solved = own.value if own is not None and line.kind == "geodesic" else lengths[metric].value
        errors["metric length"] = solved - truth.metric_length
    if truth.curve is not None:
        errors["off the exact curve"] = float(deviation(line.points, truth.curve.to(line.points)).max())
    return errors


def _unit(name: str) -> str:
    return "data units" if name == "euclidean" else "metric units"
