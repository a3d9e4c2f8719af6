"""Two speeds and a worker thread, for the views; see `workbench.scheduling`."""

from workbench.scheduling import Outcome, Progress, Scheduler, Speed, Work, sentence_of

__all__ = ["Outcome", "Progress", "Scheduler", "Speed", "Work", "sentence_of"]
