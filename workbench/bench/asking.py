"""Asking every lens of a state in turn: the field, then lens by lens, then the table that compares them."""

from collections.abc import Callable
from dataclasses import replace

from workbench.bench.answers import BenchLens, Inquiry, LensAnswer, answer
from workbench.bench.background import background_of
from workbench.bench.compare import compare
from workbench.bench.lenses import lens_named
from workbench.bench.results import BenchEvent, BenchResult
from workbench.errors import WorkbenchError
from workbench.fields import Field
from workbench.integrators import Progress


def ask_all(inquiry: Inquiry, tell: Callable[[BenchEvent], None] = lambda event: None) -> BenchResult:
    """All answers to an inquiry, each told as soon as it is there.

    Args:
        inquiry: What is asked; its progress hears shares of the whole, its cancel stops between lenses.
        tell: Given "background", then "answer" lens by lens, then "table".

    Returns:
        The answers; what cannot be answered is a sentence in an answer or in the notes.
    """
    state, speed, cancel = inquiry.state, inquiry.speed, inquiry.cancel
    quiet = replace(inquiry, progress=None)
    notes = list(inquiry.place.subject.remarks(start=state.start, end=state.end)) if inquiry.full else []
    found: list[LensAnswer] = []

    def stopped() -> bool:
        return cancel is not None and cancel.is_set()

    background: Field | None = None
    try:
        background = background_of(quiet)
    except WorkbenchError as error:
        notes.append(str(error))
    tell(BenchEvent("background", state, speed, background=background))
    for number, name in enumerate(state.lens_names):
        if stopped():
            break
        whole = inquiry.progress
        part = None if whole is None else _part_of(whole, number + 1, len(state.lens_names) + 2)
        one = _ask_one(lens_named(name), replace(inquiry, progress=part))
        if stopped() and one.report is None:
            break
        found.append(one)
        tell(BenchEvent("answer", state, speed, answer=one))
    table = compare(quiet, tuple(found))
    tell(BenchEvent("table", state, speed, table=table))
    return BenchResult(state, speed, inquiry.place, tuple(found), background, table, tuple(notes))


def _ask_one(lens: BenchLens, inquiry: Inquiry) -> LensAnswer:
    """One lens's answer; an error of its own is its sentence, so that the others still speak."""
    try:
        return answer(
            lens,
            inquiry.state,
            inquiry.place,
            resolution=inquiry.speed,
            cache=inquiry.cache,
            progress=inquiry.progress,
            cancel=inquiry.cancel,
            near=inquiry.near,
        )
    except WorkbenchError as error:
        text = str(error)
        return LensAnswer(lens.name, inquiry.speed, sentence=f"{text[:1].upper()}{text[1:]}.")


def _part_of(whole: Progress, number: int, parts: int) -> Progress:
    """Progress of one part of a whole."""
    return lambda share, words: whole((number + min(max(share, 0.0), 1.0)) / parts, words)
