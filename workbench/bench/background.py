r"""Fields that can lie under the curves, each measured on the plane that is looked at in one batch.

- *density*: log p at the noise level. A network knows only the score s; on a plane its in-plane part is a
  field of two components whose best potential in the sense of least squares is drawn, relative to the lowest.
- *magnification*: half the log determinant of the chosen metric, restricted to the plane (whose axes are
  orthonormal).
- *dimension*: the local intrinsic dimension by FLIPD, :math:`D + \sigma^2(\mathrm{tr}\,\nabla s + |s|^2)`.
- *score*: the size of the score.
- *phase*: which mode a point belongs to: the most responsible component of a mixture, a judge's class of the
  denoised picture, else clusters of denoised points.

References:
    Kamkari, Ross, Hosseinzadeh, Cresswell, Loaiza-Ganem, "A Geometric View of Data Complexity", 2024,
        https://arxiv.org/abs/2406.03537
    Frankot, Chellappa, "A Method for Enforcing Integrability in Shape from Shading Algorithms", 1988
"""

import math

import torch
from torch import Tensor

from workbench.bench.answers import Inquiry, Resolution
from workbench.bench.geodesics import metric_of, metrics_for
from workbench.cards import JUDGES
from workbench.draws import draw_signs
from workbench.errors import SettingError
from workbench.fields import Field
from workbench.forward import jvp
from workbench.lenses.fisher import measure_metric_field, on_section
from workbench.metrics import RankOneScore
from workbench.models import ExactScore, Landscape, ScoreModel, score
from workbench.phases import label_phases
from workbench.worlds import GaussianMixture
from workbench.zoo import load_judge

SIZES = {"coarse": (48, 12), "full": (192, 40)}
"""Grid points along the longer side: where the model is a formula, where it is a network."""
TRACED = {"coarse": 6, "full": 16}
"""The same for the local dimension of a network in many dimensions, which costs a derivative a probe."""
PROBES = 2
"""Random signs of the trace in more than `EXACT_TRACE` dimensions, the same for every grid point."""
EXACT_TRACE = 8
"""Most dimensions in which the trace is exact."""
PHASES = 4
"""Clusters where neither a mixture nor a judge names the phases."""
METHODS = {"dimension": ("FLIPD",), "magnification": (), "density": (), "score": (), "phase": (), "none": ()}
"""Methods of each field, as citations name them."""


def background_of(inquiry: Inquiry) -> Field | None:
    """The field that a state asks for, on its plane; None for "none".

    Args:
        inquiry: What is asked; the speed decides the grid.

    Returns:
        The field, with its title and unit. One batched evaluation on the grid (FLIPD: one a probe). A coarse
        answer shows the full field where that is at hand, since moving ends seldom change it.

    Raises:
        SettingError: If the subject has no such field.
    """
    state, subject = inquiry.state, inquiry.place.subject
    name = state.background
    if name == "none":
        return None
    if isinstance(subject.model, Landscape) and name != "density":
        raise SettingError(
            f"the background {name!r} in {subject.frame}, {subject.lacking}",
            "density",
            "background='density'",
        )
    sigma = _level(inquiry)
    extra = (state.metric, state.weight) if name == "magnification" else (state.seed,)
    where = (name, inquiry.place.section, inquiry.place.window, sigma, *extra)
    found = None if inquiry.full else inquiry.at_hand("background", (*where, *_grid_size(inquiry, "full")))
    if found is not None:
        return found
    columns, rows = _grid_size(inquiry, inquiry.speed)
    return inquiry.once(
        "background", (*where, columns, rows), make=lambda: _FIELDS[name](inquiry, columns, rows, sigma)
    )


def _level(inquiry: Inquiry) -> float:
    """The noise level of the field; dimension and score need one above 0 also in a world."""
    subject = inquiry.place.subject
    if inquiry.state.background == "dimension" and inquiry.level == 0.0:
        return 0.05 * subject.frame.data_std
    return inquiry.level


def _grid_size(inquiry: Inquiry, speed: Resolution) -> tuple[int, int]:
    window, model = inquiry.place.window, inquiry.place.subject.model
    exact = isinstance(model, ExactScore | Landscape)
    side = SIZES[speed][0 if exact else 1]
    if inquiry.state.background == "dimension" and inquiry.place.subject.frame.dim > EXACT_TRACE:
        side = TRACED[speed]
    width, height = window.x[1] - window.x[0], window.y[1] - window.y[0]
    longer = max(width, height)
    return max(4, round(side * width / longer)), max(4, round(side * height / longer))


def _grid(inquiry: Inquiry, columns: int, rows: int) -> Tensor:
    """Points of the grid, shape (rows * columns, dim), lowest ordinate first."""
    window, subject = inquiry.place.window, inquiry.place.subject
    like = {"dtype": subject.dtype, "device": subject.device}
    x, y = torch.linspace(*window.x, columns, **like), torch.linspace(*window.y, rows, **like)
    return inquiry.place.section.decode(torch.cartesian_prod(y, x).flip(-1))


def _scored(inquiry: Inquiry) -> ScoreModel:
    """The model, where it has a score.

    Raises:
        SettingError: If it is an energy without a density.
    """
    model = inquiry.place.subject.model
    if isinstance(model, Landscape):
        raise SettingError(f"the score of {model.name}", "a model with noise levels", "background='density'")
    return model


def _scores(inquiry: Inquiry, columns: int, rows: int, sigma: float) -> Tensor:
    """The score on the grid, shape (rows * columns, dim): one evaluation that several fields share."""
    place = inquiry.place
    return inquiry.once(
        "score grid",
        (place.section, place.window, columns, rows, sigma),
        make=lambda: score(_scored(inquiry), _grid(inquiry, columns, rows), sigma),
    )


def _density(inquiry: Inquiry, columns: int, rows: int, sigma: float) -> Field:
    model, window = inquiry.place.subject.model, inquiry.place.window
    points = _grid(inquiry, columns, rows)
    if isinstance(model, Landscape):
        return Field(-model.energy(points).reshape(rows, columns), window, "−V", model.unit)
    if isinstance(model, ExactScore):
        values = model.log_prob(points, sigma).reshape(rows, columns)
        return Field(values, window, f"log p at σ = {sigma:.3g}", "nats")
    section = inquiry.place.section
    pull = _scores(inquiry, columns, rows, sigma)
    seen = section.encode(points + pull) - section.encode(points)
    steps = ((window.x[1] - window.x[0]) / (columns - 1), (window.y[1] - window.y[0]) / (rows - 1))
    values = potential_of(seen.reshape(rows, columns, 2), steps)
    return Field(
        values, window, f"log p at σ = {sigma:.3g}, potential of the in-plane score", "nats, relative"
    )


def potential_of(slopes: Tensor, steps: tuple[float, float]) -> Tensor:
    """The potential on a grid whose gradient is closest to given slopes in the sense of least squares.

    Slopes live at the nodes; between two nodes their mean stands for the difference of the potential. The
    normal equations are Poisson's equation with free boundaries, solved in the cosine basis.

    Args:
        slopes: Shape (rows, columns, 2), abscissa first.
        steps: Grid steps along abscissa and ordinate.

    Returns:
        The potential, shape (rows, columns), its largest value 0; exact for quadratic potentials.
    """
    rows, columns = slopes.shape[:2]
    along = 0.5 * steps[0] * (slopes[:, 1:, 0] + slopes[:, :-1, 0])  # differences over columns
    across = 0.5 * steps[1] * (slopes[1:, :, 1] + slopes[:-1, :, 1])
    # each equation over its squared step, so that both axes weigh alike
    weight_x, weight_y = steps[0] ** -2, steps[1] ** -2
    source = torch.zeros_like(slopes[..., 0])
    source[:, :-1] -= weight_x * along
    source[:, 1:] += weight_x * along
    source[:-1] -= weight_y * across
    source[1:] += weight_y * across
    base_y, base_x = _cosines(rows, slopes), _cosines(columns, slopes)
    turned = base_y @ source @ base_x.T
    own_x = weight_x * (2.0 - 2.0 * torch.cos(math.pi * torch.arange(columns).to(slopes) / columns))
    own_y = weight_y * (2.0 - 2.0 * torch.cos(math.pi * torch.arange(rows).to(slopes) / rows))
    stiffness = own_y[:, None] + own_x
    stiffness[0, 0] = 1.0
    turned = turned / stiffness
    turned[0, 0] = 0.0
    values = base_y.T @ turned @ base_x
    return values - values.max()


def _cosines(count: int, like: Tensor) -> Tensor:
    """Orthonormal cosine basis in rows, shape (count, count)."""
    k = torch.arange(count, dtype=like.dtype, device=like.device)
    basis = torch.cos(math.pi * k[:, None] * (k + 0.5) / count) * math.sqrt(2.0 / count)
    basis[0] /= math.sqrt(2.0)
    return basis


def _magnification(inquiry: Inquiry, columns: int, rows: int, sigma: float) -> Field:
    state, place = inquiry.state, inquiry.place
    if state.metric not in metrics_for(place.subject):
        raise SettingError(
            f"the magnification of the metric {state.metric!r} in {place.subject.frame}",
            f"one of {', '.join(metrics_for(place.subject))}",
        )
    metric = metric_of(state.metric, place.subject, sigma, state.weight)
    if isinstance(metric, RankOneScore):  # det(E E' + w (E s)(E s)') from one score a point
        points = _grid(inquiry, columns, rows)
        scores = _scores(inquiry, columns, rows, sigma)
        seen = place.section.encode(points + scores) - place.section.encode(points)
        values = 0.5 * torch.log1p(metric.weight * seen.square().sum(-1)).reshape(rows, columns)
        return Field(values, place.window, f"log √det g, {metric.name}", "")
    seen = metric if place.subject.frame.dim == 2 else on_section(metric, place.section)
    like = torch.empty(0, dtype=place.subject.dtype, device=place.subject.device)
    field = measure_metric_field(seen, place.window, columns=columns, rows=rows, like=like)
    return Field(field.log_magnification, place.window, f"log √det g, {metric.name}", "")


def _dimension(inquiry: Inquiry, columns: int, rows: int, sigma: float) -> Field:
    subject = inquiry.place.subject
    model, dim = _scored(inquiry), subject.frame.dim
    points = _grid(inquiry, columns, rows)
    if dim <= EXACT_TRACE:
        probes = torch.eye(dim, dtype=points.dtype, device=points.device)
        share = 1.0
    else:
        generator = torch.Generator(points.device).manual_seed(inquiry.state.seed)
        probes = draw_signs((PROBES, dim), points, generator)
        share = 1.0 / PROBES
    trace = torch.zeros(len(points), dtype=points.dtype, device=points.device)
    value = torch.zeros_like(points)
    for probe in probes:
        along = probe.expand_as(points).contiguous()
        value, turned = jvp(lambda y: model.denoise(y, sigma), (points,), (along,))
        trace += share * (turned * probe).sum(-1)
    values = trace + ((value - points) / sigma).square().sum(-1)
    return Field(
        values.detach().reshape(rows, columns),
        inquiry.place.window,
        f"local dimension (FLIPD, σ = {sigma:.3g})",
    )


def _score_size(inquiry: Inquiry, columns: int, rows: int, sigma: float) -> Field:
    values = _scores(inquiry, columns, rows, sigma).norm(dim=-1)
    title = f"size of the score at σ = {sigma:.3g}"
    return Field(values.reshape(rows, columns), inquiry.place.window, title, "nats per data unit")


def _phase(inquiry: Inquiry, columns: int, rows: int, sigma: float) -> Field:
    subject, window = inquiry.place.subject, inquiry.place.window
    points = _grid(inquiry, columns, rows)
    if isinstance(subject.model, GaussianMixture):
        labels = subject.model.responsibilities(points, sigma).argmax(-1)
        title = "phase: most responsible component"
    elif subject.frame.name in JUDGES:
        judge = load_judge(subject.frame.name, device=subject.device, dtype=subject.dtype)
        labels = judge(points + sigma**2 * _scores(inquiry, columns, rows, sigma)).argmax(-1)
        title = f"phase: a judge's class of the denoised picture, σ = {sigma:.3g}"
    else:
        blur = max(sigma, 0.5 * subject.frame.data_std)
        clean = _scored(inquiry).denoise(points, blur)
        generator = torch.Generator(points.device).manual_seed(inquiry.state.seed)
        labels = label_phases(clean, PHASES, generator=generator)
        title = f"phase: clusters of denoised points, σ = {blur:.3g}"
    return Field(labels.to(points.dtype).reshape(rows, columns), window, title)


_FIELDS = {
    "density": _density,
    "magnification": _magnification,
    "dimension": _dimension,
    "score": _score_size,
    "phase": _phase,
}
