"""Latent-geometry workbench: lenses on the geometry of generative models."""

from workbench.headless.progress import show_progress
from workbench.headless.record import record, record_artifact

__all__ = ["record", "record_artifact", "show_progress"]
