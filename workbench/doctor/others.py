"""What can be said about a decoder alone, and about an energy: neither has noise levels to be judged at."""

import torch
from torch import Tensor

from workbench.decoders import Autoencoder, Decoder
from workbench.doctor.costs import measure_call
from workbench.doctor.diagnosis import Costs, Finding, LensRow
from workbench.doctor.structure import ASKING, ROWS_AGREE, push_by
from workbench.draws import draw_normal
from workbench.models import Landscape

NO_SCORE = "a score at every noise level"


def examine_decoder(
    decoder: Decoder, like: Tensor, *, generator: torch.Generator, batch: int
) -> tuple[list[Finding], Costs | None, tuple[LensRow, ...]]:
    """Findings, costs and lenses of a decoder without a score.

    Args:
        decoder: The decoder.
        like: A tensor of the dtype and device to compute in.
        generator: Source of the latents.
        batch: Latents to decode together.

    Returns:
        The three parts of a diagnosis.
    """
    dim = int(torch.Size(decoder.latent_shape).numel())
    z = draw_normal((batch, dim), like, generator)
    try:
        with torch.no_grad():
            whole = decoder.decode(z)
            alone = torch.cat([decoder.decode(row) for row in z[:3].split(1)])
    except ASKING as error:
        first = " ".join(str(error).split())[:200]
        return (
            [Finding("shapes", "fault", f"it cannot be asked: {first}", "the shapes that it needs")],
            None,
            (),
        )
    findings = [_decoded(whole, (batch, decoder.picture.dim)), _rows(whole[:3], alone)]
    if findings[0].verdict == "fault":
        return findings[:1], None, ()
    v = draw_normal(z.shape, z, generator)
    pushed, forward = push_by(decoder.decode, z, v)
    findings.append(forward)
    costs = measure_call(decoder.decode, z)
    field = None if costs.forward is None else 1e-3 * costs.forward.value * dim * 256
    works = pushed is not None
    lacks = "" if works else "derivatives"
    back = isinstance(decoder, Autoencoder)
    rows = (
        LensRow("paths", "transport, mep, principal", False, NO_SCORE, 0, None),
        LensRow(
            "fisher", "decoder pullback, 16×16 field", works, lacks, 2 * dim * 256 if works else 0, field
        ),
        LensRow("anisotropy", "directions", False, NO_SCORE, 0, None),
        LensRow("conda", "a map of latents over time", back, "" if back else "an encoder", 0, None),
        LensRow("likelihood", "one point", False, NO_SCORE, 0, None),
    )
    return findings, costs, rows


def examine_landscape(
    landscape: Landscape, x: Tensor, *, generator: torch.Generator
) -> tuple[list[Finding], Costs | None, tuple[LensRow, ...]]:
    """Findings, costs and lenses of an energy: above all, whether its force is minus its slope.

    Args:
        landscape: The energy.
        x: Points, shape (count, dim).
        generator: Source of the directions.

    Returns:
        The three parts of a diagnosis.
    """
    try:
        energy, force = landscape.energy(x), landscape.force(x)
    except ASKING as error:
        first = " ".join(str(error).split())[:200]
        return (
            [Finding("shapes", "fault", f"it cannot be asked: {first}", "points that it accepts")],
            None,
            (),
        )
    if energy.shape != x.shape[:-1] or force.shape != x.shape or not bool(torch.isfinite(energy).all()):
        sentence = (
            f"energies {tuple(energy.shape)} and forces {tuple(force.shape)} of points {tuple(x.shape)}"
        )
        return [Finding("shapes", "fault", f"{sentence}, or not finite")], None, ()
    v = draw_normal(x.shape, x, generator)
    v = v / v.norm(dim=-1, keepdim=True)
    step = torch.finfo(x.dtype).eps ** (1 / 3) * (1.0 + x.abs().max())
    with torch.no_grad():
        slope = (landscape.energy(x + step * v) - landscape.energy(x - step * v)) / (2.0 * step)
    gap = float((slope + (force * v).sum(dim=-1)).norm() / (slope.norm() + 1e-12))
    limit = 1e3 * float(torch.finfo(x.dtype).eps) ** 0.5
    agrees = gap < max(limit, 1e-2)
    findings = [
        Finding("shapes", "ok", f"energies of {x.shape[-1]} coordinates"),
        Finding(
            "force",
            "ok" if agrees else "fault",
            f"force and minus the slope of the energy differ by {gap:.1e}",
            "" if agrees else "-grad of the energy",
        ),
    ]
    costs = measure_call(landscape.force, x)
    calls = 50 * 17
    seconds = 1e-3 * costs.evaluation.value * calls
    no_noise = (("paths", "transport, mep, principal"), ("likelihood", "by its flow"))
    rows = (
        LensRow("paths", "static, 17 nodes", True, "", calls, seconds),
        *(LensRow(lens, task, False, NO_SCORE, 0, None) for lens, task in no_noise),
    )
    return findings, costs, rows


def _decoded(pictures: Tensor, shape: tuple[int, ...]) -> Finding:
    if tuple(pictures.shape) != shape:
        return Finding("shapes", "fault", f"latents decode to {tuple(pictures.shape)}, not to {shape}")
    if not bool(torch.isfinite(pictures).all()):
        return Finding("shapes", "fault", "decoded samples are not finite", "latents of unit spread")
    return Finding("shapes", "ok", f"{shape[1]} entries from unit latents")


def _rows(whole: Tensor, alone: Tensor) -> Finding:
    apart = float((whole - alone).norm()) / (float(alone.norm()) or 1.0)
    if apart > ROWS_AGREE:
        sentence = f"a latent alone and in a batch differ by {apart:.1e}: rows of a batch are mixed"
        return Finding("rows", "fault", sentence, "module.eval()")
    return Finding("rows", "ok", f"a latent alone and in a batch agree to {apart:.0e}")
