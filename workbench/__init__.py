"""Latent-geometry workbench: lenses on the geometry of generative models."""
