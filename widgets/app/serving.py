"""The server: one page a visitor, a gate before all of them, and a few computations at a time."""

import logging
import os
from collections.abc import Mapping
from typing import Any

import panel as pn
import torch

from widgets.app.access import Gate, check_access, guard, is_loopback
from widgets.app.offer import Offer
from widgets.app.page import Page
from widgets.app.turns import Turns
from widgets.state import PathState
from workbench.errors import SettingError

MESSAGE_BYTES = 4_000_000
"""Largest message of a browser: an upload travels as text, a third larger than its file."""
FORGET_MS = 20_000
"""Milliseconds after which a page whose visitor has gone is forgotten."""

_log = logging.getLogger(__name__)


def visit(offer: Offer, turns: Turns) -> pn.Template:
    """One visitor's page, made while a request for it is answered."""
    arguments: Mapping[str, Any] = pn.state.session_args
    page = Page(offer, turns, arguments, document=pn.state.curdoc)
    if pn.state.curdoc is not None:
        pn.state.onload(page.host.loaded)
        pn.state.on_session_destroyed(lambda _: page.close())
    pn.config.exception_handler = lambda error: _surprised(page, error)
    return page.template()


def _surprised(page: Page, error: BaseException) -> None:
    """The outermost door: whatever else goes wrong in a visitor's turn becomes one sentence."""
    _log.error("a visitor's request failed", exc_info=error)
    page.host.fail(error)


def build_server(
    *, address: str = "127.0.0.1", port: int = 5006, token: str = "", model: str = "", computations: int = 0
) -> Any:
    """The server, listening but not yet running.

    Args:
        address: Address to listen on.
        port: Port; a free one if 0.
        token: What visitors must know; needed where the address is no loopback one.
        model: A folder, or a file, with a model of one's own.
        computations: How many may run at once; half the cores if 0.

    Returns:
        Bokeh's server; `server.port` is the port.

    Raises:
        SettingError: If the address needs a token, or cannot be listened on.
    """
    check_access(address, token)
    cores = os.cpu_count() or 1
    turns = Turns(computations or max(1, cores // 2))
    torch.set_num_threads(max(1, cores // turns.limit))
    offer = Offer(model, here=is_loopback(address))
    if offer.first:
        offer.stage(PathState(model=offer.first))  # one that cannot be opened is said here, not to visitors
    pn.extension("plotly")
    logging.getLogger("bokeh.server.util").setLevel(logging.ERROR)  # it warns of "*", see below
    try:
        server: Any = pn.serve(
            {"/": lambda: visit(offer, turns)},
            address=address,
            port=port,
            websocket_origin=["*"],  # the gate is stricter: a socket's origin must be the page's own host
            start=False,
            show=False,
            verbose=False,
            websocket_max_message_size=MESSAGE_BYTES,
            http_server_kwargs={"max_body_size": MESSAGE_BYTES},
            check_unused_sessions_milliseconds=FORGET_MS // 4,
            unused_session_lifetime_milliseconds=FORGET_MS,
        )
    except OSError as error:
        raise SettingError(
            f"{error.strerror or error} at {address}:{port}", "a free port of this machine", "another --port"
        ) from error
    guard(server._tornado, Gate(token))
    return server


def serve(*, show: bool = True, **settings: Any) -> None:
    """Serve the page until it is interrupted.

    Args:
        show: Open a browser.
        settings: As for `build_server`.
    """
    server = build_server(**settings)
    address = settings.get("address", "127.0.0.1")
    name = f"[{address}]" if ":" in address else address
    secret = settings.get("token", "")
    url = f"http://{name}:{server.port}/"
    print(f"page {url}" + ("?token=… (the token that was given)" if secret else ""), flush=True)
    server.start()
    if show and is_loopback(address):
        server.show(f"/?token={secret}" if secret else "/")
    try:
        server.io_loop.start()
    except KeyboardInterrupt:
        server.stop()
