"""Who may open the page: everybody on this machine, and beyond it those who have the token.

A guard stands before every address of the server, its web socket and its files included. On the loopback
interface it lets requests pass that name a loopback host, so that no foreign name that resolves to it can be
used to read the page. Elsewhere it asks for the token once, as `?token=...` or in a form, and remembers the
browser by a cookie that no script can read. Secrets are compared in constant time.
"""

import asyncio
import hashlib
import hmac
import html
import ipaddress
import re
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlencode, urlsplit

from tornado.web import RequestHandler

from workbench.errors import SettingError

COOKIE = "workbench"
PARDON = 0.5
"""Seconds that a wrong token costs."""
SHORTEST = 16
"""Characters of a token that is long enough."""

Verdict = Literal["pass", "enter", "ask", "refuse"]


def is_loopback(address: str) -> bool:
    """Whether an address is reached from this machine only."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def check_access(address: str, token: str) -> None:
    """Refuse to serve beyond this machine without a token.

    Args:
        address: Address that the server is to listen on.
        token: The token; empty for none.

    Raises:
        SettingError: If the address is no loopback one and there is no token, or it is short.
    """
    if token and len(token) < SHORTEST:
        raise SettingError(f"a token of {len(token)} characters", f"{SHORTEST} or more", "a random one")
    if not token and not is_loopback(address):
        raise SettingError(
            f"the address {address} without a token", "a token for visitors from other machines", "--token"
        )


class Gate:
    """Decides on requests.

    Args:
        token: What visitors must know; empty if the server listens on the loopback interface only.
    """

    def __init__(self, token: str = "") -> None:
        self._token = token.encode()
        self.mark = hmac.new(self._token, b"a visitor of the workbench", hashlib.sha256).hexdigest()

    def knows(self, offered: str) -> bool:
        """Whether somebody offers the token."""
        return hmac.compare_digest(offered.encode("utf-8", "replace"), self._token)

    def judge(
        self, *, host: str, origin: str, cookie: str, offered: str | None, site: str = "", use: str = ""
    ) -> Verdict:
        """What to do with a request.

        Args:
            host: Its Host header.
            origin: Its Origin header; empty if it has none.
            cookie: Value of its cookie; empty if it has none.
            offered: A token in its address; None if there is none.
            site: Its Sec-Fetch-Site header: "cross-site" if another site made a browser ask.
            use: Its Sec-Fetch-Dest header: "document" for a link that was followed.

        Returns:
            "pass", "enter" for one that brings the token, "ask" for one that must, "refuse" for one that
            comes from elsewhere.
        """
        if origin and urlsplit(origin).netloc.lower() != host.lower():
            return "refuse"
        if site == "cross-site" and use != "document":  # a frame, a picture or a script of another site
            return "refuse"
        if not self._token:
            return "pass" if is_loopback(urlsplit(f"//{host}").hostname or "") else "refuse"
        if offered is not None and self.knows(offered):
            return "enter"
        return "pass" if hmac.compare_digest(cookie.encode("utf-8", "replace"), self.mark.encode()) else "ask"


class Door(RequestHandler):
    """Answers those who may not pass: asks for the token, or sends them away."""

    def initialize(self, gate: Gate, verdict: Verdict) -> None:
        """Tornado's constructor."""
        self._gate, self._verdict = gate, verdict

    def check_xsrf_cookie(self) -> None:
        """The token itself proves where a form came from."""

    async def get(self) -> None:
        """Ask for the token, or take the one in the address and hide it."""
        if self._verdict == "enter":
            rest = [(k, v) for k, values in self.request.arguments.items() for v in values if k != "token"]
            self._let_in(urlencode(rest))
        elif self._verdict == "ask":
            if "token" in self.request.query_arguments:
                await asyncio.sleep(PARDON)
            self._say(401, "This page asks for a token.", form=True)
        else:
            self._say(403, "This request comes from another site.")

    async def post(self) -> None:
        """Take the token of the form."""
        if self._verdict == "ask" and self._gate.knows(self.get_body_argument("token", "")):
            self._let_in("")
        else:
            await asyncio.sleep(PARDON)
            self._say(401, "That is not the token.", form=self._verdict == "ask")

    def _let_in(self, query: str) -> None:
        secure = self.request.protocol == "https"
        self.set_cookie(COOKIE, self._gate.mark, httponly=True, samesite="Lax", secure=secure, path="/")
        self.redirect(re.sub("^/+", "/", self.request.path) + (f"?{query}" if query else ""))

    def _say(self, status: int, words: str, *, form: bool = False) -> None:
        self.set_status(status)
        self.set_header("Cache-Control", "no-store")
        field = (
            '<form method="post"><label>Token <input name="token" type="password" autocomplete="off" '
            "autofocus></label> <button>Enter</button></form>"
        )
        self.finish(
            '<!doctype html><html lang="en"><meta name="viewport" content="width=device-width">'
            f"<title>Latent-geometry workbench</title><main><p>{html.escape(words)}</p>"
            f"{field if form else ''}</main></html>"
        )


def guard(application: Any, gate: Gate) -> None:
    """Put a gate before every address of a tornado application.

    Args:
        application: The application; changed in place.
        gate: The gate.
    """
    inner = application.find_handler

    def find_handler(request: Any, **options: Any) -> Any:
        verdict = gate.judge(**seen(request))
        if verdict == "pass":
            return inner(request, **options)
        return application.get_handler_delegate(request, Door, {"gate": gate, "verdict": verdict})

    application.find_handler = find_handler


def seen(request: Any) -> Mapping[str, Any]:
    """What the gate looks at in a tornado request."""
    cookie = request.cookies.get(COOKIE)
    offered = request.query_arguments.get("token")
    return {
        "host": request.host or "",
        "origin": request.headers.get("Origin", ""),
        "cookie": "" if cookie is None else cookie.value,
        "offered": offered[-1].decode("utf-8", "replace") if offered else None,
        "site": request.headers.get("Sec-Fetch-Site", ""),
        "use": request.headers.get("Sec-Fetch-Dest", ""),
    }
