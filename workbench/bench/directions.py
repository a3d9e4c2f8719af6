r"""Anisotropy at the bench: what a trained denoiser resolves at the ends, what its architecture prefers.

At a point y and a level sigma the Jacobian of the denoiser is the posterior covariance of the clean sample
over the noise's, :math:`\partial D/\partial y = \mathrm{Cov}[x_0 \mid y]/\sigma^2`. One standard deviation of
it, seen on the plane, is the ellipse. For the untrained networks of the same architecture the Rayleigh
quotient :math:`v^\top G v` of a curve's tangents over the mean eigenvalue of G says whether the curve runs
along directions that the architecture finds easy (below 1) or hard (above).

References:
    Efron, "Tweedie's Formula and Selection Bias", 2011, https://doi.org/10.1198/jasa.2011.tm11181
    Floros, Moosavi-Dezfooli, Dragotti, "On the Anisotropy of Score-Based Generative Models", 2025,
        https://arxiv.org/abs/2510.22899
"""

import torch
from torch import Tensor

from workbench.anisotropy.probes import ZERO, Probe, data_probe, gaussian_probe
from workbench.bench.answers import Along, Ellipse, Inquiry, LensAnswer, together
from workbench.bench.ways import path_of
from workbench.curves import Curve, straight
from workbench.forward import jvp
from workbench.lenses.anisotropy import DirectionsResult, find_directions
from workbench.models import Landscape, ScoreModel
from workbench.nets import NetModel
from workbench.report import Estimate, SolveReport, Status, provenance_of
from workbench.subjects import Subject

SMALLEST_LEVEL = 0.1
"""Level of the denoiser's ellipse, in units of the data's deviation, where the state's own is below it."""
COARSE_NETWORKS = 8
"""Untrained networks of a coarse answer; all of them where they are at hand."""
DIFFERENCE = 0.1
"""Step of a coarse answer's differences, in units of the noise level."""


def ask_anisotropy(inquiry: Inquiry) -> LensAnswer:
    """Posterior ellipses of the trained model at both ends; v'Gv of the tangents for its architecture."""
    subject = inquiry.place.subject
    model = subject.model
    if isinstance(model, Landscape):
        return LensAnswer(
            "anisotropy",
            inquiry.speed,
            sentence=f"{model.name} is {subject.lacking}: it has no denoiser, nor the architecture of one.",
        )
    sigma = max(inquiry.level, SMALLEST_LEVEL * subject.frame.data_std)
    covariances, symmetric = posterior_on_plane(inquiry, model, sigma)
    feet = inquiry.place.section.encode(torch.stack(inquiry.ends()))
    ellipses = tuple(
        Ellipse(f"posterior at the {name}, σ = {sigma:.3g}", "posterior", feet[k], _root(covariances[k]))
        for k, name in enumerate(("start", "end"))
    )
    facts = []
    for k, name in enumerate(("start", "end")):
        spread = torch.linalg.eigvalsh(covariances[k]).clamp_min(0.0).sqrt()
        facts.append(
            (f"posterior deviation at the {name}, widest", Estimate(float(spread[1]), unit="data units"))
        )
        facts.append(
            (f"posterior deviation at the {name}, narrowest", Estimate(float(spread[0]), unit="data units"))
        )
    methods = ["Tweedie"]
    how = "two forward derivatives an end" if inquiry.full else "four differences an end"
    looked = SolveReport(Status.CONVERGED, 1, symmetric, 2 * 2 * 2, message=how)
    reports, readings, notes = [looked], [], []
    provenance = provenance_of(feet, model=str(subject.frame), settings={"sigma": sigma})
    if not isinstance(model, NetModel):
        notes.append(f"{subject.frame} is a formula, no network: no architecture, so no v'Gv.")
    else:
        found = directions_of_architecture(inquiry, model)
        reports.append(found.report)
        provenance = found.provenance
        readings, more = _along(inquiry, found)
        facts += more
        notes.append(
            f"G over {found.geometry.networks} untrained networks at the probe {found.geometry.probe}"
        )
        methods.append("score anisotropy")
    return LensAnswer(
        "anisotropy",
        inquiry.speed,
        sigma,
        (),
        ellipses,
        tuple(readings),
        tuple(facts),
        notes=tuple(notes),
        report=together(reports),
        provenance=provenance,
        methods=tuple(methods),
    )


def posterior_on_plane(inquiry: Inquiry, model: ScoreModel, sigma: float) -> tuple[Tensor, float]:
    """Posterior covariances at both ends as the plane shows them.

    Args:
        inquiry: The question.
        model: The denoiser.
        sigma: Noise level, above 0.

    Returns:
        (sigma^2 P J P' made symmetric, shape (2, 2, 2); largest relative asymmetry, which an exact denoiser
        has not). Two Jacobian-vector products an end; four evaluations for a coarse answer, which takes
        differences.
    """
    section = inquiry.place.section

    def turned(points: Tensor, axes: Tensor) -> Tensor:
        if inquiry.full:
            return jvp(lambda y: model.denoise(y, sigma), (points,), (axes,))[1].detach()
        step = DIFFERENCE * sigma * axes
        ahead, behind = model.denoise(torch.cat([points + step, points - step]), sigma).detach().chunk(2)
        return (ahead - behind) / (2.0 * DIFFERENCE * sigma)

    def measure(point: Tensor) -> Tensor:
        points = point.repeat(2, 1)
        moved = points + turned(points, _axes_of(section, point))
        return sigma**2 * (section.encode(moved) - section.encode(points))

    raw = torch.stack(  # an end that stays where it was is not measured again
        [
            inquiry.once(
                "posterior", (section, point, sigma, inquiry.full), make=lambda point=point: measure(point)
            )
            for point in inquiry.ends()
        ]
    )
    even = 0.5 * (raw + raw.mT)
    odd = torch.linalg.matrix_norm(raw - even) / torch.linalg.matrix_norm(raw).clamp_min(1e-300)
    return even, float(odd.max())


def _axes_of(section, like: Tensor) -> Tensor:
    """Unit vectors of the space along the plane's axes, shape (2, dim)."""
    eye = torch.eye(2, dtype=like.dtype, device=like.device)
    return section.decode(eye) - section.decode(torch.zeros_like(eye))


def _root(covariance: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(covariance)
    return vectors @ torch.diag(values.clamp_min(0.0).sqrt()) @ vectors.mT


def directions_of_architecture(inquiry: Inquiry, model: NetModel) -> DirectionsResult:
    """The directions of the model's architecture, found once for the same probe, networks and seed."""
    state = inquiry.state

    def find(networks: int) -> DirectionsResult:
        return find_directions(
            model,
            probe=probe_of(state.probe, inquiry.place.subject),
            networks=networks,
            count=2,
            seed=state.seed,
            dtype=torch.float32,
            device=str(inquiry.place.subject.device),
            progress=inquiry.progress,
            cancel=inquiry.cancel,
        )

    full = (state.probe, state.networks, state.seed)
    if not inquiry.full and inquiry.at_hand("directions", full) is None:
        networks = min(state.networks, COARSE_NETWORKS)
        return inquiry.once("directions", (state.probe, networks, state.seed), make=lambda: find(networks))
    return inquiry.once("directions", full, make=lambda: find(state.networks))


def probe_of(name: str, subject: Subject) -> Probe:
    """The probe of that name: the origin, unit normal inputs, or the subject's real samples."""
    if name == "data" and subject.choices is not None:
        return data_probe(subject.choices)
    return gaussian_probe() if name == "gaussian" else ZERO


def _along(inquiry: Inquiry, found: DirectionsResult) -> tuple[list[Along], list[tuple[str, Estimate]]]:
    """v'Gv over the mean eigenvalue along the straight line and each path that is there."""
    geometry = found.geometry
    mean = geometry.trace.value / geometry.dim
    curves = {"straight line": straight(*inquiry.ends(), max(inquiry.state.nodes, 3))}
    if "paths" in inquiry.state.lens_names:
        for regime in inquiry.state.regime_names:
            if regime in inquiry.place.subject.regimes:
                curves[f"path, {regime}"] = path_of(inquiry, regime).curve
    readings, facts = [], []
    for name, curve in curves.items():
        values = geometry.rayleigh(_tangents(curve)) / mean
        readings.append(Along(name, "v'Gv of the tangents over the mean eigenvalue", values))
        halves = [geometry.halves[k].norm() for k in (0, 1)]
        error = float(values.mean()) * float((halves[0] - halves[1]).abs() / (halves[0] + halves[1]))
        facts.append(
            (f"v'Gv, {name}", Estimate(float(values.mean()), error, how="even against odd networks"))
        )
    return readings, facts


def _tangents(curve: Curve) -> Tensor:
    return curve.tangents().to(device="cpu", dtype=torch.float64)
