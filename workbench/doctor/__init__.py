"""The doctor: whether a model is what it is declared to be, and which lenses can use it at what cost."""

from workbench.doctor.diagnosis import Costs, Diagnosis, Finding, LensRow
from workbench.doctor.examine import examine

__all__ = ["Costs", "Diagnosis", "Finding", "LensRow", "examine"]
