"""Contrastive trajectories at the bench: the way that a declared context draws between two points."""

from workbench.bench.answers import Inquiry, LensAnswer


def ask_conda(inquiry: Inquiry) -> LensAnswer:
    """A trajectory where a context is declared, else one sentence."""
    frame = inquiry.place.subject.frame
    return LensAnswer(
        "conda",
        inquiry.speed,
        sentence=f"No context is declared for {frame}, so there is no trajectory to follow.",
    )
