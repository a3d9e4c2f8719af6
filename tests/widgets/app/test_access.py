"""Who may open the page: loopback without a token, elsewhere with one, and nobody through another site."""

import asyncio
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest

pytest.importorskip("panel")

from widgets.app.access import COOKIE, Gate, check_access, is_loopback
from workbench.errors import SettingError

TOKEN = "a token of good length"
HERE = {"host": "127.0.0.1:5006", "origin": "", "cookie": "", "offered": None}


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1", True), ("127.3.2.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False),
     ("192.168.1.4", False), ("example.org", False), ("::", False), ("localhost.example.org", False)],
)  # fmt: skip
def test_loopback_addresses_are_known(address, expected):
    assert is_loopback(address) is expected


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.1.4", "host.example.org"])
def test_an_address_beyond_this_machine_needs_a_token(address):
    with pytest.raises(SettingError, match="expected a token for visitors from other machines"):
        check_access(address, "")
    check_access(address, TOKEN)


def test_a_short_token_is_refused_everywhere():
    with pytest.raises(SettingError, match="16 or more"):
        check_access("127.0.0.1", "short")


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "pass"),
        ({"host": "localhost:5006"}, "pass"),
        ({"host": "[::1]:5006"}, "pass"),
        ({"host": "rebound.example.org:5006"}, "refuse"),
        ({"host": ""}, "refuse"),
        ({"origin": "http://127.0.0.1:5006"}, "pass"),
        ({"origin": "http://127.0.0.1:9999"}, "refuse"),
        ({"origin": "https://example.org"}, "refuse"),
        ({"origin": "null"}, "refuse"),
        ({"site": "cross-site", "use": "document"}, "pass"),
        ({"site": "cross-site", "use": "iframe"}, "refuse"),
        ({"site": "cross-site", "use": "image"}, "refuse"),
        ({"site": "same-origin", "use": "script"}, "pass"),
    ],
)
def test_without_a_token_only_this_machine_passes(changes, verdict):
    assert Gate().judge(**{**HERE, **changes}) == verdict


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "ask"),
        ({"offered": TOKEN}, "enter"),
        ({"offered": TOKEN[:-1]}, "ask"),
        ({"offered": ""}, "ask"),
        ({"cookie": "mark"}, "pass"),
        ({"cookie": TOKEN}, "ask"),
        ({"cookie": "mark", "host": "lab.example.org"}, "pass"),
        ({"cookie": "mark", "origin": "https://example.org"}, "refuse"),
        ({"offered": "ß" * 30}, "ask"),
    ],
)
def test_with_a_token_those_pass_who_know_it(changes, verdict):
    gate = Gate(TOKEN)
    if changes.get("cookie") == "mark":
        changes = {**changes, "cookie": gate.mark}
    assert gate.judge(**{**HERE, **changes}) == verdict


def test_another_token_makes_another_mark():
    assert Gate(TOKEN).mark != Gate(TOKEN + ".").mark
    assert TOKEN not in Gate(TOKEN).mark


@pytest.fixture(scope="module")
def server():
    """A server with a token, in a thread of its own; its address."""
    from widgets.app.serving import build_server

    found, ready = {}, threading.Event()

    def run() -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        made = build_server(port=0, token=TOKEN)
        made.start()
        found.update(server=made, loop=made.io_loop)
        ready.set()
        made.io_loop.start()
        made.stop()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(60)
    yield f"http://127.0.0.1:{found['server'].port}"
    found["loop"].add_callback(found["loop"].stop)
    thread.join(10)


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments):
        return None


def ask(address, **headers):
    """Status, headers and text of an answer; redirections are not followed."""
    form = headers.pop("form", None)
    data = None if form is None else urllib.parse.urlencode(form).encode()
    request = urllib.request.Request(address, headers=headers, data=data)
    try:
        with urllib.request.build_opener(Stay).open(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode("utf-8", "replace")


@pytest.mark.parametrize(
    "path", ["/", "/static/js/bokeh.min.js", "/ws", "/autoload.js", "/no-such", "/?token=x"]
)
def test_every_address_of_the_server_is_behind_the_gate(server, path):
    status, _, text = ask(server + path)
    assert status == 401
    assert "This page asks for a token." in text


def test_the_token_in_an_address_is_taken_and_hidden(server):
    status, headers, _ = ask(f"{server}/?tab=fisher&token={urllib.parse.quote(TOKEN)}")
    assert status == 302
    assert headers["Location"] == "/?tab=fisher"
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert TOKEN not in cookie
    status, _, text = ask(f"{server}/static/js/bokeh.min.js", Cookie=cookie.partition(";")[0])
    assert status == 200
    assert "Bokeh" in text


def test_a_form_takes_the_token_and_refuses_another(server):
    assert ask(f"{server}/", form={"token": TOKEN})[0] == 302
    status, headers, text = ask(f"{server}/", form={"token": "guess"})
    assert status == 401
    assert "That is not the token." in text
    assert headers["Set-Cookie"] is None


def test_a_made_up_cookie_and_another_site_are_sent_away(server):
    assert ask(f"{server}/", Cookie=f"{COOKIE}=made-up")[0] == 401
    cookie = f"{COOKIE}={Gate(TOKEN).mark}"
    assert ask(f"{server}/ws", Cookie=cookie, Origin="https://example.org")[0] == 403
    framed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "iframe"}
    assert ask(f"{server}/", Cookie=cookie, **framed)[0] == 403


def test_no_answer_leads_out_of_the_server(server):
    status, headers, _ = ask(f"{server}//example.org/?token={urllib.parse.quote(TOKEN)}")
    assert status == 302
    assert headers["Location"] == "/example.org/"
