"""The scheduler: newest request wins, a drag sees answers, errors are sentences, no gradients in threads."""

import subprocess
import sys
import threading
import time

import pytest
import torch

from widgets.scheduling import Outcome, Scheduler, sentence_of
from workbench.errors import SettingError


class Desk:
    """Collects outcomes; its work waits for a gate so that tests decide what runs when."""

    def __init__(self, work=None):
        self.outcomes: list[Outcome] = []
        self.shares: list[float] = []
        self.idle = 0
        self.gate = threading.Event()
        self.started = threading.Event()
        self.scheduler = Scheduler(
            work or self.work, deliver=self.outcomes.append, progress=self.note, idle=self.rest
        )

    def note(self, share, words):
        self.shares.append(share)

    def rest(self):
        self.idle += 1

    def work(self, request, speed, cancel, progress):
        self.started.set()
        while not (self.gate.is_set() or cancel.is_set()):
            time.sleep(0.001)
        progress(1.0, "done")
        return f"{request} {speed}"


@pytest.fixture
def desk():
    made = Desk()
    yield made
    made.gate.set()
    made.scheduler.close()


def values(desk):
    assert desk.scheduler.wait(60)
    return [outcome.value for outcome in desk.outcomes]


def test_an_answer_is_delivered_and_then_all_is_idle(desk):
    desk.gate.set()
    desk.scheduler.submit("a")
    assert values(desk) == ["a full"]
    assert desk.idle == 1
    assert desk.shares == [1.0]
    assert not desk.scheduler.busy


def test_a_newer_request_cancels_a_full_one_and_its_answer_is_never_shown(desk):
    desk.scheduler.submit("old")
    assert desk.started.wait(60)
    desk.scheduler.submit("new")
    desk.gate.set()
    assert values(desk) == ["new full"]


def test_a_coarse_answer_is_let_finish_during_a_drag(desk):
    desk.scheduler.submit("first", "coarse")
    assert desk.started.wait(60)
    desk.scheduler.submit("second", "coarse")
    desk.scheduler.submit("third", "coarse")
    desk.gate.set()
    assert values(desk) == ["first coarse", "third coarse"]


def test_release_cancels_the_coarse_answer(desk):
    desk.scheduler.submit("drag", "coarse")
    assert desk.started.wait(60)
    desk.scheduler.submit("drop", "full")
    desk.gate.set()
    assert values(desk) == ["drop full"]


def test_a_delayed_request_is_replaced_before_it_starts(desk):
    desk.gate.set()
    desk.scheduler.submit("typing", delay=30.0)
    desk.scheduler.submit("typed", delay=0.01)
    assert values(desk) == ["typed full"]


def test_cancel_delivers_the_best_so_far_as_stopped(desk):
    desk.scheduler.submit("long")
    assert desk.started.wait(60)
    desk.scheduler.cancel()
    assert values(desk) == ["long full"]
    assert desk.outcomes[0].stopped


def test_an_error_is_one_sentence_and_the_worker_lives_on():
    def work(request, speed, cancel, progress):
        if request == "bad":
            raise SettingError("3 nodes", "at least 5", "nodes=33")
        return request

    desk = Desk(work)
    desk.scheduler.submit("bad")
    assert desk.scheduler.wait(60)
    desk.scheduler.submit("good")
    assert values(desk) == [None, "good"]
    assert desk.outcomes[0].error == "got 3 nodes; expected at least 5; try nodes=33"
    desk.scheduler.close()


def test_an_answer_that_cannot_be_shown_is_an_error_and_not_the_end():
    shown = []

    def deliver(outcome):
        if outcome.value == "strange":
            raise KeyError("no such trace")
        shown.append(outcome.error or outcome.value)

    scheduler = Scheduler(lambda request, *_: request, deliver=deliver)
    scheduler.submit("strange")
    assert scheduler.wait(60)
    scheduler.submit("plain")
    assert scheduler.wait(60)
    assert shown == ["the computation failed with KeyError: 'no such trace'", "plain"]
    scheduler.close()


def test_the_worker_records_no_gradients_whatever_the_caller_has_set():
    seen = []
    desk = Desk(lambda *_: seen.append(torch.is_grad_enabled()))
    with torch.enable_grad():
        desk.scheduler.submit("x")
        assert desk.scheduler.wait(60)
    assert seen == [False]
    desk.scheduler.close()


def test_nothing_is_delivered_after_close(desk):
    desk.scheduler.submit("a")
    assert desk.started.wait(60)
    desk.scheduler.close()
    assert values(desk) == []


def test_a_dropped_scheduler_lets_its_thread_end():
    desk = Desk(lambda request, *_: request)
    desk.scheduler.submit("x")
    assert desk.scheduler.wait(60)
    thread = desk.scheduler._thread
    desk.scheduler.close()
    thread.join(60)
    assert not thread.is_alive()


def test_foreign_errors_lose_their_later_lines():
    assert sentence_of(RuntimeError("first\nTraceback")) == "the computation failed with RuntimeError: first"


def test_a_program_ends_while_a_worker_still_computes():
    script = """
import torch
from widgets.scheduling import Scheduler

def work(request, speed, cancel, progress):
    x = torch.eye(200)
    while not cancel.is_set():
        x = x @ x

scheduler = Scheduler(work, deliver=print)
scheduler.submit("endless")
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")
