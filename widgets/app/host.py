"""What the tabs of one visitor's page share: colours, a status line, turns for computations, the address."""

import html
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import panel as pn
import plotly.graph_objects as go

from widgets.app.offer import Offer
from widgets.app.turns import Turns
from widgets.figures.status import status_line
from widgets.scheduling import Outcome, Scheduler, sentence_of
from widgets.theme import Theme
from workbench.integrators import Cancel
from workbench.report import Provenance, SolveReport

PLOT = {"displaylogo": False, "modeBarButtonsToRemove": ["lasso2d", "select2d"]}
_DOT = {"idle": "", "warning": "", "error": "font-weight:600;"}


class _Common:
    """What the hosts of one page's tabs have in common."""

    def __init__(self) -> None:
        self.status = pn.pane.HTML("", sizing_mode="stretch_width", min_height=44)
        self.shown = ""  # whose words the status line holds
        self.document: Any = None
        self.held: list[Callable[[], None]] | None = None
        self.lock = threading.Lock()
        self.workers: list[Any] = []


class Host:
    """The services of one page, and what one of its tabs has said.

    Args:
        look: Colours.
        offer: What visitors may ask for.
        turns: Turns that all visitors share.
        remember: Called with a tab's name and the values that a reload needs.
        name: The tab's name; empty for the page's own words.
        common: What it shares with the page's other tabs; made if None.
    """

    def __init__(
        self,
        look: Theme,
        offer: Offer,
        turns: Turns,
        remember: Callable[[str, Mapping[str, Any]], None] = lambda name, values: None,
        *,
        name: str = "",
        common: _Common | None = None,
    ) -> None:
        self.look, self.offer, self.turns, self.remember = look, offer, turns, remember
        self.name, self._common = name, common or _Common()
        self.text, self.kind = "", "idle"
        self._share = -1.0

    @property
    def status(self) -> pn.pane.HTML:
        """The status line, which shows the words of the tab that is looked at."""
        return self._common.status

    def of(self, name: str) -> "Host":
        """The services for one tab, which says its own words."""
        return Host(self.look, self.offer, self.turns, self.remember, name=name, common=self._common)

    def show(self) -> None:
        """From now on the status line shows this tab's words."""
        self._common.shown = self.name
        self._draw()

    def adopt(self, document: Any) -> None:
        """From now on widgets are touched in the turn of this document only, once it is on a screen.

        A document that is still being made takes no turns: what comes meanwhile waits for `loaded`.
        """
        with self._common.lock:
            self._common.document, self._common.held = document, []

    def loaded(self) -> None:
        """The document is on the screen: do what had to wait."""
        with self._common.lock:
            held, self._common.held = self._common.held or [], None
        for act in held:
            act()

    def later(self, function: Callable[..., None], *arguments: Any) -> None:
        """Run in the page's own turn: widgets of a page may be touched by its thread only."""
        with self._common.lock:
            if self._common.held is not None:
                self._common.held.append(lambda: function(*arguments))
                return
            document = self._common.document
        if document is None:
            function(*arguments)
        else:
            document.add_next_tick_callback(lambda: function(*arguments))

    def scheduler(
        self,
        work: Callable[..., Any],
        deliver: Callable[[Outcome], None],
        idle: Callable[[], None],
        *,
        gated: bool = True,
    ):
        """A scheduler whose work waits for its turn; what it delivers is delivered in the page's turn.

        Args:
            work: As for `Scheduler`.
            deliver: Given each outcome.
            idle: Called when nothing is being computed any more.
            gated: Whether all of the work is one turn; if not, it takes its turns itself, by `gate`.
        """

        def in_turn(request: Any, speed: Any, cancel: Any, progress: Any) -> Any:
            with self.gate(cancel) if gated else nullcontext():
                return work(request, speed, cancel, progress if speed == "full" else _silent)

        made = Scheduler(
            in_turn,
            deliver=lambda outcome: self.later(deliver, outcome),
            progress=lambda share, words: self.advance(share),
            idle=lambda: self.later(idle),
        )
        return self.keep(made)

    def keep(self, worker: Any) -> Any:
        """Wait for a worker with the others, and close it with them; returns it."""
        self._common.workers.append(worker)
        return worker

    def drop(self, worker: Any) -> None:
        """Close one worker and wait for it no more."""
        worker.close()
        self._common.workers = [kept for kept in self._common.workers if kept is not worker]

    def gate(self, cancel: Cancel) -> AbstractContextManager[None]:
        """A turn for a worker that takes its turns itself."""
        return self.turns.turn(cancel, lambda place: self.later(self._waits, place))

    def wait(self, timeout: float = 60.0) -> bool:
        """Block until nothing is being computed; False if that took longer."""
        return all(worker.wait(float(timeout)) for worker in self._common.workers)

    def close(self) -> None:
        """Stop computing for good."""
        for worker in self._common.workers:
            worker.close()

    # -- the status line

    def say(self, text: str, kind: str = "idle") -> None:
        """Show sentences; "<br>" parts lines.

        Args:
            text: The sentences.
            kind: "idle", "warning" or "error", which decides the colour.
        """
        self.text, self.kind, self._share = text, kind, -1.0
        self._draw()

    def conclude(self, report: SolveReport, provenance: Provenance, *, stopped: bool) -> None:
        """Say how a solve went: its status line, its warnings, and whether the visitor stopped it."""
        notes = [*report.warnings, *(["stopped by you, best so far"] if stopped else [])]
        kind = "idle" if report.converged and not stopped else "warning"
        self.say("<br>".join([status_line(report, provenance), *notes]), kind)

    def fail(self, error: BaseException | str) -> None:
        """Show an error as one sentence."""
        text = error if isinstance(error, str) else sentence_of(error)
        self.say(text[:1].upper() + text[1:] + ("" if text.endswith(".") else "."), "error")

    def busy(self) -> None:
        """Say that work has begun."""
        self.say("Computing …")

    def _waits(self, place: int) -> None:
        ahead = "next" if place == 1 else f"number {place}"
        self.say(f"Waiting for the computations before this one: you are {ahead} in the queue.")

    def advance(self, share: float) -> None:
        """Tell of progress, in steps that are worth a message."""
        if share - self._share >= 0.05 or share < self._share:
            self._share = share
            self.later(self._draw)

    def _draw(self) -> None:
        if self._common.shown != self.name:
            return  # another tab is looked at
        colour = self.look.muted if self.kind == "idle" else self.look.warning
        lines = "<br>".join(html.escape(line) for line in self.text.split("<br>"))
        bar = ""
        if 0.0 < self._share < 1.0:
            bar = (
                f'<progress value="{self._share:.2f}" max="1" aria-label="progress" '
                'style="width:100%;height:6px"></progress>'
            )
        role = "alert" if self.kind == "error" else "status"
        self.status.object = (
            f'<div role="{role}" aria-live="polite" class="wb-status" data-kind="{self.kind}" '
            f'style="color:{colour};{_DOT[self.kind]}line-height:1.4">{lines}{bar}</div>'
        )


def _silent(share: float, words: str = "") -> None:
    """Progress of an answer that is there before a bar could be drawn."""


class FigurePane(pn.Column):
    """A figure that keeps its size and is scrolled inside its own frame where the screen is narrower.

    Args:
        figure: What to show first; nothing if None.
    """

    def __init__(self, figure: go.Figure | None = None) -> None:
        self._pane: pn.pane.Plotly | None = None
        super().__init__(
            sizing_mode="stretch_width", styles={"overflow-x": "auto", "max-width": "100%"}, margin=(4, 0)
        )
        if figure is not None:
            self.show(figure)

    @property
    def figure(self) -> Any:
        """What is shown; None if nothing is."""
        return None if self._pane is None else self._pane.object

    def show(self, figure: go.Figure) -> None:
        """Show a figure. The pane is made with its first one: a hidden figure cannot be measured."""
        if self._pane is None:
            size: Any = figure.layout
            self._pane = pn.pane.Plotly(figure, config=PLOT, width=size.width, height=size.height)
            self.objects = [self._pane]
        else:
            size: Any = figure.layout
            self._pane.param.update(object=figure, width=size.width, height=size.height)

    def hide(self) -> None:
        """Show nothing."""
        self._pane, self.objects = None, []
