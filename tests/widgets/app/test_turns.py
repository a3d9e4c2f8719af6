"""Turns: no more at once than the limit, in order of arrival, and everybody knows the place."""

import threading
import time

import pytest

from tests.widgets.app.waiting import until

pytest.importorskip("panel")

from widgets.app.turns import Turns
from workbench.errors import Cancelled


def start(turns, name, log, hold, cancel=None, told=lambda place: None):
    """A thread, already in the queue, that takes a turn, notes it, and holds it until `hold` is set."""

    def run() -> None:
        try:
            with turns.turn(cancel or threading.Event(), told):
                log.append(name)
                hold.wait(60)
        except Cancelled:
            log.append(f"{name} left")

    before = turns.waiting + turns.running
    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: turns.waiting + turns.running > before)
    return thread


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_never_more_at_once_than_the_limit(limit):
    turns, now, most, lock = Turns(limit), [0], [0], threading.Lock()
    meeting = threading.Barrier(limit)  # as many as the limit must be inside together

    def work() -> None:
        with turns.turn(threading.Event()):
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])
            meeting.wait(60)
            time.sleep(0.01)  # one more than the limit would come in here
            with lock:
                now[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most[0] == limit
    assert (turns.running, turns.waiting) == (0, 0)


def test_those_who_wait_come_in_order_and_are_told_their_place():
    turns, log, told = Turns(1), [], []
    holds = {name: threading.Event() for name in "abc"}
    threads = [start(turns, "a", log, holds["a"])]
    threads.append(start(turns, "b", log, holds["b"]))
    threads.append(start(turns, "c", log, holds["c"], told=told.append))
    until(lambda: told == [2])
    assert log == ["a"]
    holds["a"].set()
    until(lambda: told == [2, 1])
    assert log == ["a", "b"]
    holds["b"].set()
    holds["c"].set()
    for thread in threads:
        thread.join(60)
    assert log == ["a", "b", "c"]


def test_who_leaves_the_queue_gives_the_place_to_the_next():
    turns, log, hold, gone = Turns(1), [], threading.Event(), threading.Event()
    threads = [start(turns, "a", log, hold)]
    threads.append(start(turns, "b", log, hold, cancel=gone))
    threads.append(start(turns, "c", log, hold))
    gone.set()
    threads[1].join(60)
    assert log == ["a", "b left"]
    hold.set()
    for thread in threads:
        thread.join(60)
    assert log == ["a", "b left", "c"]


def test_a_turn_ends_with_an_error_too():
    turns = Turns(1)
    with pytest.raises(RuntimeError), turns.turn(threading.Event()):
        raise RuntimeError
    assert turns.running == 0


def test_nobody_overtakes_the_one_in_front_however_slow():
    turns, log, hold, slow = Turns(1), [], threading.Event(), threading.Event()
    threads = [start(turns, "a", log, hold)]
    threads.append(start(turns, "b", log, hold, told=lambda place: slow.wait(10)))
    threads.append(start(turns, "c", log, hold))
    hold.set()
    threads[0].join(10)
    time.sleep(0.3)  # b is still being told its place; c looks every twentieth of a second
    assert log == ["a"]
    slow.set()
    for thread in threads:
        thread.join(10)
    assert log == ["a", "b", "c"]
