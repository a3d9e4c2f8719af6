"""What views hear of the bench, and all answers to one state as one value."""

import re
from dataclasses import dataclass
from typing import Literal

from workbench.bench.answers import LensAnswer, Line, Resolution
from workbench.bench.compare import Comparison
from workbench.bench.places import Place
from workbench.bench.state import BenchState
from workbench.errors import SettingError
from workbench.fields import Field
from workbench.report import Estimate

What = Literal["state", "answer", "background", "table", "progress", "done", "error", "idle"]


@dataclass(frozen=True, slots=True)
class BenchEvent:
    """Something that views want to hear.

    Attributes:
        what: "state" when it changed; "answer", "background" and "table" as they are ready; "progress";
            "done" when a request is answered in full or stopped; "error"; "idle" when nothing waits any more.
        state: The state that it belongs to.
        speed: "coarse" or "full".
        answer: The lens's answer, for "answer".
        background: The field, for "background"; None clears it.
        table: The table, for "table".
        share: Share done, for "progress".
        words: A sentence: on the progress, the error, or the end.
    """

    what: What
    state: BenchState
    speed: Resolution = "full"
    answer: LensAnswer | None = None
    background: Field | None = None
    table: Comparison | None = None
    share: float = 0.0
    words: str = ""


@dataclass(frozen=True, slots=True)
class BenchResult:
    """All answers to one state.

    Attributes:
        state: What was asked.
        speed: "coarse" or "full".
        place: The subject and its plane.
        answers: One a lens, in the order of the state.
        background: The field on the plane; None if the state asks for none.
        table: All curves compared.
        notes: Sentences on what could not be answered.
    """

    state: BenchState
    speed: Resolution
    place: Place
    answers: tuple[LensAnswer, ...]
    background: Field | None
    table: Comparison
    notes: tuple[str, ...] = ()

    def answer(self, lens: str) -> LensAnswer:
        """What a lens said.

        Raises:
            SettingError: If it was not asked.
        """
        for found in self.answers:
            if found.lens == lens:
                return found
        raise SettingError(
            f"the answer of {lens!r}", f"one of {', '.join(found.lens for found in self.answers)}"
        )

    @property
    def lines(self) -> tuple[Line, ...]:
        """Every curve, in the order of the lenses."""
        return tuple(line for found in self.answers for line in found.lines)

    def numbers(self) -> dict[str, Estimate]:
        """Every number by a name that a notebook can record: the table's, then the lenses' own."""
        found = self.table.numbers()
        for said in self.answers:
            for name, fact in said.facts:
                found[f"{said.lens}.{re.sub(r'[^A-Za-z0-9]+', '_', name).strip('_')[:60]}"] = fact
        calls = sum(said.report.model_calls for said in self.answers if said.report is not None)
        found["model_calls"] = Estimate(float(calls), unit="points")
        return found
