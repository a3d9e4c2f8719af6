"""The trust badge: in one line whether what is on the screen can be trusted, and what it cost."""

from collections.abc import Iterable
from dataclasses import dataclass

from workbench.bench.answers import LensAnswer, together
from workbench.bench.state import BenchState
from workbench.models import Frame


@dataclass(frozen=True, slots=True)
class Trust:
    """What the badge says.

    Attributes:
        converged: Whether every solve met its tolerance; None if nothing was solved.
        status: The worst status, in words.
        residual: Largest relative residual; None if none was measured.
        calls: Model calls of all answers.
        seed: Seed of whatever draws.
        device: Device of the computation.
        guidance: Weight of classifier-free guidance; with any but 0 the field is no score.
        coarse: Whether any answer is a coarse one.
        failed: Lenses whose solve did not meet its tolerance.
    """

    converged: bool | None
    status: str
    residual: float | None
    calls: int
    seed: int
    device: str
    guidance: float
    coarse: bool
    failed: tuple[str, ...] = ()

    def parts(self) -> tuple[str, ...]:
        """What the badge shows, part by part."""
        sign = "○" if self.converged is None else "●" if self.converged else "▲"
        residual = "no residual" if self.residual is None else f"residual {self.residual:.1e}"
        status = f"{self.status} ({', '.join(self.failed)})" if self.failed else self.status
        guided = "no guidance" if self.guidance == 0.0 else f"guidance {self.guidance:g}: no score"
        rest = (residual, f"{self.calls} model calls", f"seed {self.seed}", self.device, guided)
        return (f"{sign} {status}", *(("coarse",) if self.coarse else ()), *rest)

    def __str__(self) -> str:
        return " · ".join(self.parts())


def trust_of(answers: Iterable[LensAnswer], state: BenchState, frame: Frame) -> Trust:
    """The badge of some answers.

    Args:
        answers: What the lenses said; those with nothing to say count for nothing.
        state: What was asked.
        frame: The model's frame, for its guidance.

    Returns:
        The worst status, the largest residual, all calls.
    """
    said = [answer for answer in answers if answer.report is not None]
    if not said:
        return Trust(None, "nothing solved yet", None, 0, state.seed, state.device, frame.guidance, False)
    report = together([answer.report for answer in said if answer.report is not None])
    failed = tuple(
        answer.lens for answer in said if answer.report is not None and not answer.report.converged
    )
    return Trust(
        report.converged,
        str(report.status),
        report.residual,
        report.model_calls,
        state.seed,
        state.device,
        frame.guidance,
        any(answer.speed == "coarse" for answer in said),
        failed,
    )
