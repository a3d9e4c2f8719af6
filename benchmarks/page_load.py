"""Many visitors of the page at once, each dragging an end: errors, memory, time to a coarse answer.

Every visitor is a session of its own over a web socket and speaks as a browser does, without being one:
twenty browsers would measure themselves. A visitor moves the start to a new place as soon as the last move
was answered, as the front end does, and lets go now and then.

Run as `python benchmarks/page_load.py [SECONDS] [VISITORS]`; two minutes and twenty visitors by default.
"""

import argparse
import asyncio
import json
import os
import random
import re
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from typing import Any

import psutil
from tornado.websocket import WebSocketClientConnection, websocket_connect

RESTS = 25
"""Moves of a drag before its end is let go."""
PATIENCE = 60.0
"""Seconds after which an answer counts as lost."""


@dataclass
class Seen:
    """What the visitors saw.

    Attributes:
        coarse: Seconds from each move to its coarse answer.
        full: Seconds from each release to its full answer.
        errors: Sentences that were shown, and what went wrong on the way.
        opened: Visitors whose page has shown its first answer.
    """

    coarse: list[float] = field(default_factory=list)
    full: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    opened: int = 0


class Visitor:
    """A session of the page, as a browser holds one.

    Args:
        socket: An open web socket.
    """

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self._socket, self._number = socket, 0
        self.canvas = ""
        self.heard: dict[str, Any] = {}

    async def send(self, kind: str, content: Any) -> None:
        """Send a message of Bokeh's protocol."""
        self._number += 1
        header = {"msgid": f"load-{self._number}", "msgtype": kind}
        for part in (header, {}, content):
            await self._socket.write_message(json.dumps(part))

    async def receive(self) -> tuple[str, Any]:
        """The kind and the content of the next message; its binary parts are let go."""
        parts = []
        for _ in range(3):
            part = await asyncio.wait_for(self._socket.read_message(), PATIENCE)
            if part is None:
                raise ConnectionError("the server hung up")
            parts.append(json.loads(part))
        for _ in range(2 * parts[0].get("num_buffers", 0)):
            await asyncio.wait_for(self._socket.read_message(), PATIENCE)
        return parts[0]["msgtype"], parts[2]

    async def open(self) -> None:
        """Take the document, find the canvas in it, and say that it is on the screen."""
        while (await self.receive())[0] != "ACK":
            pass
        await self.send("PULL-DOC-REQ", {})
        while True:
            kind, content = await self.receive()
            if kind == "PULL-DOC-REPLY":
                break
        canvases = [node for node in _objects(content) if "handles" in node.get("attributes", {})]
        if not canvases:
            raise ConnectionError("the page holds no canvas")
        self.canvas = canvases[0]["id"]
        ready = {"type": "event", "name": "document_ready", "values": {"type": "map", "entries": []}}
        event = {"kind": "MessageSent", "msg_type": "bokeh_event", "msg_data": ready}
        await self.send("PATCH-DOC", {"events": [event]})

    async def gesture(self, kind: str, x: float, y: float, number: int) -> None:
        """Say what a user did to the start."""
        values = {"kind": kind, "id": "start", "x": x, "y": y, "seq": number}
        new = {"type": "map", "entries": list(values.items())}
        event = {"kind": "ModelChanged", "model": {"id": self.canvas}, "attr": "gesture", "new": new}
        await self.send("PATCH-DOC", {"events": [event]})

    async def until(self, wanted: Any, seen: Seen) -> None:
        """Listen until something has changed on the canvas."""
        while True:
            kind, content = await self.receive()
            text = json.dumps(content)
            if 'data-kind=\\"error' in text or kind == "ERROR":
                seen.errors.append(re.sub(r"<[^>]*>", "", text)[:200])
            for event in content.get("events", []) if kind == "PATCH-DOC" else []:
                if event.get("model", {}).get("id") == self.canvas and wanted(event):
                    return


def _objects(node: Any):
    """Every object in a document."""
    if isinstance(node, dict):
        if "id" in node and node.get("type") == "object":
            yield node
        for value in node.values():
            yield from _objects(value)
    elif isinstance(node, list):
        for value in node:
            yield from _objects(value)


def drawn(event: dict) -> bool:
    """Whether curves have come."""
    return event.get("attr") == "vertices"


def rested(event: dict) -> bool:
    """Whether nothing is being computed any more."""
    return event.get("attr") == "busy" and event.get("new") is False


async def visit(address: str, until: float, seen: Seen, seed: int) -> None:
    """One visitor: drags the start about until the time is over."""
    draw = random.Random(seed)
    try:
        text = await asyncio.to_thread(_page, address)
        token = re.search(r'"token":"([^"]+)"', text)
        assert token is not None, "a page without a session"
        socket = await websocket_connect(
            address.replace("http", "ws") + "ws", subprotocols=["bokeh", token.group(1)]
        )
        visitor = Visitor(socket)
        await visitor.open()
        await visitor.until(rested, seen)
        seen.opened += 1
        x, y, number = -3.0, 0.0, 0
        while time.monotonic() < until:
            x = min(max(x + draw.gauss(0.0, 0.08), -6.5), -0.5)
            y = min(max(y + draw.gauss(0.0, 0.08), -7.0), 5.0)
            number += 1
            began = time.monotonic()
            if number % RESTS:
                await visitor.gesture("move", x, y, number)
                await visitor.until(drawn, seen)
                seen.coarse.append(time.monotonic() - began)
            else:
                await visitor.gesture("end", x, y, number)
                await visitor.until(rested, seen)
                seen.full.append(time.monotonic() - began)
        socket.close()
    except Exception as error:  # a load test reports whatever happens to a visitor
        seen.errors.append(f"{type(error).__name__}: {error}")


def _page(address: str) -> str:
    state = json.dumps({"world": "v_mixture", "regime": "static"}).replace(" ", "").replace('"', "%22")
    with urllib.request.urlopen(f"{address}?tab=paths&theme=light&paths={state}", timeout=PATIENCE) as answer:
        return answer.read().decode("utf-8")


def serve(port: int) -> subprocess.Popen:
    """A page on that port, in a process of its own, once it answers."""
    command = [sys.executable, "-m", "widgets.app", "--port", str(port), "--no-browser"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    for _ in range(240):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/static/js/bokeh.min.js", timeout=2):
                return server
        except OSError:
            if server.poll() is not None:
                break
            time.sleep(0.25)
    server.terminate()
    raise SystemExit("the page did not answer within a minute")


async def load(seconds: float, visitors: int) -> tuple[Seen, list[int]]:
    """Let visitors drag for a while.

    Args:
        seconds: How long.
        visitors: How many at once.

    Returns:
        What they saw, and the server's memory in bytes every second once all had their first answer.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server, seen, memory = serve(port), Seen(), []
    try:
        process = psutil.Process(server.pid)
        until = time.monotonic() + seconds
        address = f"http://127.0.0.1:{port}/"
        tasks = [asyncio.create_task(visit(address, until, seen, k)) for k in range(visitors)]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(1.0)
            if seen.opened == visitors:
                memory.append(process.memory_info().rss)
        await asyncio.gather(*tasks)
    finally:
        server.terminate()
        server.wait(20)
    return seen, memory


def quantile(values: list[float], share: float) -> float:
    """A quantile of numbers; NaN of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def main(arguments: list[str] | None = None) -> int:
    """Print what the visitors saw; 1 if one of them saw an error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=120.0)
    parser.add_argument("visitors", type=int, nargs="?", default=20)
    asked = parser.parse_args(arguments)
    seen, memory = asyncio.run(load(asked.seconds, asked.visitors))
    print(f"{asked.visitors} visitors, {asked.seconds:g} s, {os.cpu_count()} cores")
    for name, values in (("coarse", seen.coarse), ("full", seen.full)):
        p50, p95 = (1000 * quantile(values, share) for share in (0.5, 0.95))
        print(f"{name:7s} answers {len(values):6d}   median {p50:7.0f} ms   p95 {p95:7.0f} ms")
    if len(memory) > 3:
        third = len(memory) // 3
        first, last = (sorted(part)[len(part) // 2] / 1e6 for part in (memory[:third], memory[-third:]))
        print(f"memory of the server: {first:.0f} MB in the first third, {last:.0f} MB in the last")
    print(f"pages opened {seen.opened}, errors {len(seen.errors)}")
    for text in sorted(set(seen.errors)):
        print(f"  {text}")
    return 1 if seen.errors else 0


if __name__ == "__main__":
    sys.exit(main())
