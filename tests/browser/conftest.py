"""A real Chromium, and a JupyterLab and a Panel page to point it at; everything on the loopback interface."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / "screenshots"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # the network is blocked, names included
]


def pytest_collection_modifyitems(items):
    """Everything in this folder needs a browser; without one it is skipped with one line."""
    for item in items:
        if Path(__file__).parent in Path(item.fspath).parents:
            item.add_marker(pytest.mark.browser)
            if CHROMIUM is None:
                item.add_marker(
                    pytest.mark.skip(reason="no Chromium on this machine: apt-get install chromium")
                )


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def serving(command: list[str], *, environment: dict[str, str], ready: str, log: Path) -> Iterator[None]:
    """Run a server until the block ends; it counts as up when `ready` answers."""
    with log.open("w") as out:
        server = subprocess.Popen(
            command,
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            start_new_session=True,
        )
        try:
            for _ in range(480):
                try:
                    with urllib.request.urlopen(ready, timeout=2):
                        break
                except OSError:
                    assert server.poll() is None, log.read_text()[-3000:]
                    time.sleep(0.25)
            else:
                raise AssertionError(f"{ready} did not answer: {log.read_text()[-3000:]}")
            yield
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait(15)


def server_environment(environment: dict[str, str]) -> dict[str, str]:
    """An environment in which the source tree is importable and one thread computes."""
    path = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return {**environment, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}


@pytest.fixture(scope="session")
def lab(tmp_path_factory) -> Iterator[Callable[[str, list[str]], str]]:
    """A running JupyterLab; call it with a name and cells to get the address of a notebook with them."""
    import nbformat

    from widgets.lab import lab_command, lab_environment

    folder, port = tmp_path_factory.mktemp("lab"), free_port()
    root = folder / "notebooks"
    root.mkdir()
    environment = server_environment(lab_environment(folder)) | {
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
    }
    command = [
        *lab_command(root, port=port, browser=False),
        "--IdentityProvider.token=",
        "--ServerApp.password=",
        "--LabApp.expose_app_in_browser=True",
    ]
    address = f"http://127.0.0.1:{port}"

    def open_notebook(name: str, cells: list[str]) -> str:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, root / f"{name}.ipynb")
        # without the reset the server restores the last test's notebook, and this one may lie behind it
        return f"{address}/lab/tree/{name}.ipynb?reset"

    with serving(command, environment=environment, ready=f"{address}/api/status", log=folder / "lab.log"):
        yield open_notebook


@pytest.fixture(scope="session")
def app(tmp_path_factory) -> Iterator[tuple[str, Path]]:
    """The page of the workbench, served; its address and its log."""
    folder, port = tmp_path_factory.mktemp("page"), free_port()
    command = [sys.executable, "-m", "widgets.app", "--port", str(port), "--no-browser"]
    address, log = f"http://127.0.0.1:{port}", folder / "page.log"
    ready = f"{address}/static/js/bokeh.min.js"  # the page itself would start a session at every try
    with serving(command, environment=server_environment(dict(os.environ)), ready=ready, log=log):
        yield address, log


@pytest.fixture(scope="session")
def chromium():
    """One browser for all tests."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium):
    """A fresh page; `outside` holds what it asked of other hosts, `problems` its errors."""
    context = chromium.new_context(viewport={"width": 1480, "height": 1240})
    made = context.new_page()
    made.outside, made.problems = [], []
    inside = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:")
    made.on("request", lambda r: None if r.url.startswith(inside) else made.outside.append(r.url))
    made.on("pageerror", lambda error: made.problems.append(f"{error} {error.stack}"[:2000]))
    yield made
    context.close()


@pytest.fixture
def shoot(page, request) -> Callable[[str], Path]:
    """Save a picture of the page, or of one part of it, under `screenshots/`."""

    def save(name: str, *, of: str | None = None) -> Path:
        SCREENSHOTS.mkdir(exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        (page.locator(of).first if of else page).screenshot(path=str(path))
        return path

    return save


@pytest.fixture
def run_notebook(page) -> Callable[[str], None]:
    """Open a notebook in JupyterLab, wait for its kernel and run every cell."""

    def run(address: str) -> None:
        page.goto(address, wait_until="domcontentloaded")
        page.wait_for_function(
            """() => { const w = window.jupyterapp?.shell.currentWidget;
            const k = w?.sessionContext?.session?.kernel;
            return k && k.connectionStatus === 'connected' && k.status === 'idle' }""",
            timeout=120_000,
        )
        assert page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')") is True

    return run
