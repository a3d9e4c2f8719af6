"""Latent-geometry workbench: lenses on the geometry of generative models.

The names below are the public face; everything else is reached through its module.
"""

from workbench.data import load_images, read_image
from workbench.devices import resolve_device
from workbench.flows import generate, invert, log_likelihood, transport
from workbench.headless.progress import show_progress
from workbench.headless.record import record, record_artifact
from workbench.lenses import LENSES
from workbench.lenses.anisotropy import find_directions
from workbench.lenses.paths import find_path
from workbench.models import Frame, Landscape, ScoreModel, score
from workbench.sampling import sample
from workbench.schedules import Schedule
from workbench.storage import load_result, save_result
from workbench.subjects import Subject, open_subject
from workbench.worlds import load_world
from workbench.worlds.answers import known_answer, measure_deviation
from workbench.zoo import card, load_judge, load_model

__all__ = [
    "LENSES",
    "Frame",
    "Landscape",
    "Schedule",
    "ScoreModel",
    "Subject",
    "card",
    "find_directions",
    "find_path",
    "generate",
    "invert",
    "known_answer",
    "load_images",
    "load_judge",
    "load_model",
    "load_result",
    "load_world",
    "log_likelihood",
    "measure_deviation",
    "open_subject",
    "read_image",
    "record",
    "record_artifact",
    "resolve_device",
    "sample",
    "save_result",
    "score",
    "show_progress",
    "transport",
]
