r"""Score anisotropy: which directions an architecture finds easy, read off its untrained networks.

The average geometry :math:`G = \mathbb E[F F^\top]` of the score's network part F over initialisations,
probe inputs and noise levels is a symmetric matrix on the space of samples. Its eigenvectors are the
directions. **Order and sign**: ascending; the conjecture is that data along small eigenvalues
(`lambda_min`) are generated better than data along large ones (`lambda_max`). It is a conjecture: there are
networks with the opposite sign.

References:
    On the Anisotropy of Score-Based Generative Models (Floros, Moosavi-Dezfooli, Dragotti, 2025),
    https://arxiv.org/abs/2510.22899
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from workbench.adapters.wrap import WrappedModel
from workbench.anisotropy.geometry import Geometry, average_geometry
from workbench.anisotropy.levels import Levels, ddpm_levels, edm_levels
from workbench.anisotropy.probes import ZERO, Probe
from workbench.anisotropy.spectrum import ScoreSpectrum, find_score_spectrum
from workbench.architectures import Architecture, architecture_of, load_architecture, reset_architecture
from workbench.decoders import LatentModel
from workbench.errors import SettingError
from workbench.nets import NetModel
from workbench.report import Provenance, SolveReport, Status, provenance_of

SOURCES = ("On the Anisotropy of Score-Based Generative Models (Floros, Moosavi-Dezfooli, Dragotti, 2025)",)


@dataclass(frozen=True, slots=True)
class DirectionsResult:
    """Directions of an architecture, ascending.

    Attributes:
        geometry: The average geometry, with its two halves.
        spectrum: Eigenvalues, clusters, rank and overlaps; `spectrum.direction(i)` is a flat unit vector.
        indices: Ascending indices of the directions kept as vectors, shape (count,).
        vectors: Those directions as unit rows, shape (count, dim).
        meanings: What each is worth by itself, in words.
        order: Always "ascending": index 0 is lambda_min, predicted best.
        report: Status, estimated relative error of G and model calls.
        provenance: Settings, seed and versions.
    """

    geometry: Geometry
    spectrum: ScoreSpectrum
    indices: tuple[int, ...]
    vectors: Tensor
    meanings: tuple[str, ...]
    order: str
    report: SolveReport
    provenance: Provenance

    @property
    def lambda_min(self) -> Tensor:
        """The first vector kept: smallest eigenvalue, predicted best."""
        return self.vectors[0]

    @property
    def lambda_max(self) -> Tensor:
        """The last vector kept: largest eigenvalue, predicted worst."""
        return self.vectors[-1]


def find_directions(
    factory_or_model: Architecture
    | str
    | nn.Module
    | NetModel
    | WrappedModel
    | LatentModel
    | Callable[[], nn.Module],
    *,
    probe: Probe = ZERO,
    count: int | None = None,
    networks: int = 200,
    levels: Levels | None = None,
    estimator: str = "auto",
    reinitialise: str = "none",
    shape: tuple[int, ...] | None = None,
    tol: float = 0.1,
    generator: torch.Generator | None = None,
    seed: int | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    chunk: int | None = None,
    progress: Callable[[float, str], None] | None = None,
    cancel=None,
) -> DirectionsResult:
    """Directions that an architecture prefers before it has seen any data.

    Args:
        factory_or_model: An architecture or its shipped name; a factory or a module (with `shape`); or a
            shipped or an opened model, copies of whose network are initialised anew; of a model on latents,
            the network on the latents.
        probe: Inputs at which the networks are asked; part of a direction's identity.
        count: How many directions to keep as vectors, half from either end; None keeps at most 64.
        networks: How many untrained networks; the error falls like one over its root.
        levels: Noise levels; those of the network's own parametrisation if None.
        estimator: See `workbench.anisotropy.ensemble`.
        reinitialise: "none", "output" or "all", for weights that start at zero.
        shape: Shape of one sample, for a factory or a module.
        tol: The report says "converged" where the estimated relative error of G is below it.
        generator: Where the seed is drawn from.
        seed: The seed itself, in its place.
        dtype: Precision of the networks.
        device: Where they are evaluated.
        chunk: Networks evaluated together; None fits a memory budget. It changes the answer by rounding
            alone.
        progress: Called with a fraction and a sentence.
        cancel: An object whose `is_set()` stops early with what has been summed.

    Returns:
        The directions; a `ConvergenceWarning` if the error is above tol.

    Raises:
        SettingError: If a setting is out of range or the networks' outputs are zero.
        ShapeError: If a factory returns different shapes.
        ModelOutputError: If an output is not finite.

    Cost:
        One model call a network.

    References:
        On the Anisotropy of Score-Based Generative Models (Floros et al., 2025), section 3
    """
    if isinstance(factory_or_model, LatentModel):
        factory_or_model = cast(NetModel | WrappedModel, factory_or_model.model)
    architecture = _architecture(factory_or_model, shape)
    if isinstance(factory_or_model, NetModel | WrappedModel) and levels is None:
        levels = levels_of(factory_or_model)
    geometry = average_geometry(
        architecture,
        networks=networks,
        probe=probe,
        levels=levels,
        estimator=estimator,
        reinitialise=reinitialise,
        generator=generator,
        seed=seed,
        dtype=dtype,
        device=device,
        chunk=chunk,
        progress=progress,
        cancel=cancel,
    )
    return directions_of(geometry, count=count, tol=tol, asked=networks)


def levels_of(model: object, level: int = -1) -> Levels:
    """Noise levels to ask at: an opened model's own, those of anything else the ladder of a thousand.

    Args:
        model: A model, or an architecture or its name, whose output decides the weights.
        level: Index on the ladder of a thousand, 0 has least noise; -1 averages over all levels. Of a model
            the own level with the nearest ratio of noise to data.

    Returns:
        All levels, or the one.

    Raises:
        SettingError: If the ladder has no such level.
    """
    inner = model.model if isinstance(model, LatentModel) else model
    ladder = ddpm_levels()
    if isinstance(inner, NetModel):
        frame = inner.frame
        own = edm_levels(sigma_min=frame.sigma_min, sigma_max=frame.sigma_max, data_std=inner.net.data_std)
    elif isinstance(inner, WrappedModel):
        own = _opened_levels(inner)
    else:
        asked = load_architecture(inner) if isinstance(inner, str) else inner
        ladder = ddpm_levels(prediction=asked.prediction) if isinstance(asked, Architecture) else ladder
        return ladder if level < 0 else ladder.only(level)
    return own if level < 0 else own.near(float(ladder.only(level).sigma) * inner.frame.data_std)


def lacking_of(model: object) -> str:
    """What a model lacks to have directions: the network behind it must be known, and its layers start anew.

    Args:
        model: A model as `find_directions` takes it, or any other.

    Returns:
        What is lacking, in words; empty where a network is known that has such layers. Its directions may
        still be refused once it is asked, as where its output starts at zero.
    """
    inner = model.model if isinstance(model, LatentModel) else model
    if isinstance(inner, NetModel):
        return ""
    network = inner.network if isinstance(inner, WrappedModel) else None
    layers = [] if network is None else network.modules()
    known = any(callable(getattr(layer, "reset_parameters", None)) for layer in layers)
    return "" if known else "a torch network whose layers can start anew"


def directions_of(
    geometry: Geometry, *, count: int | None = None, tol: float = 0.1, asked: int | None = None
) -> DirectionsResult:
    """The directions of a geometry that is already there, also of a closed form.

    Args:
        geometry: The geometry.
        count: How many directions to keep as vectors, half from either end; None keeps at most 64.
        tol: Bound of the estimated relative error for "converged".
        asked: How many networks were wanted; fewer mean that the sum was cancelled.

    Returns:
        The directions.

    Raises:
        SettingError: If count is not between 1 and the number of directions.
    """
    count = min(64, geometry.dim) if count is None else count
    if not 1 <= count <= geometry.dim:
        raise SettingError(f"{count} directions of {geometry.dim}", f"1 to {geometry.dim}", "count=None")
    spectrum = find_score_spectrum(geometry)
    low = range((count + 1) // 2)
    indices = (*low, *range(geometry.dim - (count - len(low)), geometry.dim))
    report = _report(geometry, spectrum, tol, asked)
    report.warn_if_failed()
    vectors = spectrum.directions(list(indices))
    settings = {
        "networks": geometry.networks,
        "estimator": geometry.estimator,
        "head": geometry.head,
        "probe": geometry.probe,
        "levels": geometry.levels,
        "count": count,
        "tol": tol,
    }
    provenance = provenance_of(vectors, model=geometry.architecture, settings=settings, sources=SOURCES)
    return DirectionsResult(
        geometry=geometry,
        spectrum=spectrum,
        indices=indices,
        vectors=vectors,
        meanings=tuple(spectrum.meaning(i) for i in indices),
        order=spectrum.order,
        report=report,
        provenance=_seeded(provenance, geometry),
    )


def _architecture(
    given: Architecture | str | nn.Module | NetModel | WrappedModel | Callable[[], nn.Module],
    shape: tuple[int, ...] | None,
) -> Architecture:
    if isinstance(given, Architecture):
        return given
    if isinstance(given, str):
        return load_architecture(given)
    if isinstance(given, NetModel | nn.Module):
        return reset_architecture(given, shape=shape)
    if isinstance(given, WrappedModel):
        if given.network is None:
            raise SettingError(
                f"{given.frame.name}, a function behind which no network is known",
                "a torch network, to initialise copies of it anew",
                "a factory with its shape",
            )
        made = reset_architecture(
            given.network, shape=given.frame.shape, prediction=given.prediction, call=given.ask_network
        )
        return replace(made, name=f"{given.frame.name}, reset")
    if not callable(given):
        raise SettingError(
            f"{type(given).__name__}, behind which no network is known",
            "a torch network, to initialise copies of it anew",
            "a shipped architecture",
        )
    if shape is None:
        raise SettingError("a factory without a shape", "the shape of one sample", "shape=(1, 28, 28)")
    return architecture_of(given, shape=shape)


def _opened_levels(model: WrappedModel, count: int = 100) -> Levels:
    """Log-spaced noise levels of an opened model, as its network meets them.

    With D = g F + ... the score of y holds g F / sigma^2, and that of the network's input x = a y 1/a of it.
    An EDM network's weight stays in the frame of y, as in `edm_levels`.
    """
    frame = model.frame
    low = frame.sigma_min or 1e-3 * frame.sigma_max
    steps = torch.linspace(0.0, 1.0, count, dtype=torch.float64)
    sigma = low * (frame.sigma_max / low) ** steps
    told, a, s = model.met_at(sigma)
    share = model.gain_at(sigma) / sigma**2
    weight = (share if model.prediction == "edm" else share / a) ** 2
    return Levels(f"{frame.name}, {count} levels", model.prediction, told, a, s, weight)


def _report(geometry: Geometry, spectrum: ScoreSpectrum, tol: float, asked: int | None) -> SolveReport:
    error = geometry.error
    status = Status.CONVERGED if error <= tol else Status.MAX_ITERATIONS
    if asked is not None and geometry.networks < asked:
        status = Status.CANCELLED
    warnings = []
    if geometry.blind:
        warnings.append("the networks do not see the noise level: their output is the same at every time")
    if spectrum.nullity:
        warnings.append(
            f"a null space of {spectrum.nullity} dimensions: its single directions have no meaning"
        )
    if len(spectrum.clusters) == 1:
        warnings.append("one eigenvalue only: no direction is preferred")
    if spectrum.copies > 1:
        warnings.append(
            f"every eigenvalue is {spectrum.copies}-fold: directions are arbitrary within a block"
        )
    if geometry.head == "other":
        warnings.append("no linear last layer was found: its average is sampled, which needs more networks")
    return SolveReport(
        status=status,
        iterations=geometry.networks,
        residual=error,
        model_calls=geometry.networks,
        warnings=tuple(warnings),
        message=f"relative error of G about {error:.2g} from {geometry.networks} networks",
    )


def _seeded(provenance: Provenance, geometry: Geometry) -> Provenance:
    return replace(provenance, seed=geometry.seed, dtype=geometry.dtype)
