"""What a contrastive map and a curve in it are: values with what says whether to believe them."""

from dataclasses import dataclass

from torch import Tensor

from workbench.conda.context import Context, context_of
from workbench.conda.encoders import Encoder, embed_table
from workbench.conda.fitting import Training
from workbench.conda.latents import Latents, open_latents
from workbench.conda.lifts import Lift, NeighbourIndex
from workbench.conda.settings import CondaConfig
from workbench.conda.topology import Topology
from workbench.report import Provenance, SolveReport


@dataclass(frozen=True, slots=True)
class CondaFit:
    """An embedding of latents.

    Attributes:
        points: Embedded frames c, shape (count, dim).
        context: What was known about the frames.
        training: The encoder, losses, and the control.
        topology: Loops of the embedding and of the latents.
        spacing: Usual distance of an embedded frame to its nearest other one.
        latents: The latents z, shape (count, latent dim); None if they stay in their file.
        source: That file, "" if there is none.
        config: The settings.
        report: Whether something was learnt.
        provenance: Settings, seed and versions.
    """

    points: Tensor
    context: Context
    training: Training
    topology: Topology
    spacing: float
    latents: Tensor | None
    source: str
    config: CondaConfig
    report: SolveReport
    provenance: Provenance

    @property
    def encoder(self) -> Encoder:
        """The encoder z -> c."""
        return self.training.encoder

    @property
    def bits(self) -> float:
        """Goodness of fit on held-out frames."""
        return self.training.bits

    @property
    def control_gap(self) -> float:
        """Held-out loss of the shuffled control minus that of the fit, in nats."""
        return self.training.control_loss - self.training.loss

    def table(self) -> Latents:
        """The latents, read where they are."""
        return open_latents(self.source if self.latents is None else self.latents)

    def index(self) -> NeighbourIndex:
        """The embedded frames, ready to be searched; keep it where many curves are lifted."""
        return NeighbourIndex(self.points, spacing=self.spacing)

    def embed(self, latents: Tensor, context: Context | None = None) -> Tensor:
        """Embed further latents.

        Args:
            latents: Shape (count, latent dim).
            context: Which follow which, for the convolution; one run if None.

        Returns:
            Their points, shape (count, dim).
        """
        return embed_table(self.encoder, open_latents(latents), context_of(context, len(latents)))


@dataclass(frozen=True, slots=True)
class TraceResult:
    """A curve in the embedding and what it is lifted to.

    Attributes:
        kind: How it was drawn.
        times: Time of each point in the user's unit, or 0 to 1 along a line or shift, shape (steps,).
        points: The curve, shape (steps, dim).
        anchors: Points it was drawn through or from, shape (anchors, dim).
        lifted: Its latents with neighbours, weights, distances to data and norm ratios.
        variables: Variables of the neighbours, averaged with the same weights and kept inside the data's
            range, shape (steps, k); None without variables. The condition that follows the path.
        lerp_z: Straight interpolation of the latents nearest to the anchors, shape (steps, latent dim); None
            for a forecast, which has no end to go to.
        slerp_z: Spherical interpolation of the same.
        length: Length of the curve in the embedding.
        bending: Mean squared second difference over the mean squared step: 0 for even straight motion.
        report: Whether every point lies near frames.
        provenance: Settings and versions.
    """

    kind: str
    times: Tensor
    points: Tensor
    anchors: Tensor
    lifted: Lift
    variables: Tensor | None
    lerp_z: Tensor | None
    slerp_z: Tensor | None
    length: float
    bending: float
    report: SolveReport
    provenance: Provenance

    @property
    def latents(self) -> Tensor:
        """The lifted latents, shape (steps, latent dim)."""
        return self.lifted.latents
