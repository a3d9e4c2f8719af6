"""A page's services: what comes before the page is on a screen waits, and everybody hears their place."""

import threading

import pytest

from tests.widgets.app.waiting import until

pytest.importorskip("panel")

from widgets.app.host import Host
from widgets.app.offer import Offer
from widgets.app.turns import Turns
from widgets.theme import LIGHT


class Document:
    """Stands for a document: keeps what is to be done in its turn."""

    def __init__(self):
        self.acts = []

    def add_next_tick_callback(self, act):
        self.acts.append(act)


@pytest.fixture
def host():
    return Host(LIGHT, Offer(), Turns(1))


def test_what_comes_before_the_page_is_shown_waits_in_order(host):
    document, done = Document(), []
    host.adopt(document)
    host.later(done.append, 1)
    host.later(done.append, 2)
    assert (done, document.acts) == ([], [])
    host.loaded()
    assert done == [1, 2]
    host.later(done.append, 3)
    assert done == [1, 2]
    document.acts[0]()
    assert done == [1, 2, 3]


def test_a_visitor_who_waits_is_told_the_place(host):
    with host.turns.turn(threading.Event()):
        outcomes = []
        scheduler = host.scheduler(lambda *asked: "done", outcomes.append, lambda: None)
        scheduler.submit("something")
        until(lambda: "in the queue" in host.text)
        assert host.text.endswith("you are next in the queue.")
        assert not outcomes
    assert host.wait(60)
    assert outcomes[0].value == "done"
    host.close()


def test_errors_are_sentences_and_html_is_text(host):
    host.fail(ValueError("<b>x</b>\nsecond line"))
    assert host.text == "The computation failed with ValueError: <b>x</b>."
    assert "&lt;b&gt;x&lt;/b&gt;" in host.status.object
    assert 'role="alert"' in host.status.object


def test_progress_is_a_bar_with_a_name(host):
    host.busy()
    host.advance(0.5)
    assert '<progress value="0.50"' in host.status.object
    host.say("● converged")
    assert "<progress" not in host.status.object
