"""Plant each one-line fault of ``tests/mutations/*.toml`` in a copy of the tree and see its test fail.

A fault that no test notices means that a bar is not held. Each entry is::

    [[mutant]]
    name = "what is wrong"
    file = "workbench/curves.py"
    find = "exact text of the sound line"       # must occur exactly once
    replace = "what the fault makes of it"
    test = "tests/unit/test_curves.py::test_name"

Usage: ``python tests/mutate.py [WORD ...] [--list] [--jobs N]``; words choose by file of the list or by name.
Exit code: 0 if every fault was noticed, 1 otherwise. The unchanged tree is tried first with the same
tests, since a test that fails anyway notices nothing.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 600  # seconds for one test: a fault may make a solver run on, which also counts as noticed
SKIPPED = shutil.ignore_patterns(
    ".git", ".venv*", "runs", ".lab", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info"
)


@dataclass(frozen=True)
class Mutant:
    """One fault and the test that must notice it."""

    subject: str
    name: str
    file: str
    find: str
    replace: str
    test: str


def read_mutants(words: list[str]) -> list[Mutant]:
    """The faults whose subject or name holds one of the words; all without words."""
    found = []
    for path in sorted((ROOT / "tests" / "mutations").glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", []):
            found.append(Mutant(path.stem, **entry))
    return [m for m in found if not words or any(w in m.subject or w in m.name for w in words)]


def stale(mutant: Mutant) -> str:
    """Why a fault cannot be planted; "" if it can."""
    path = ROOT / mutant.file
    if not path.is_file():
        return "no such file"
    count = path.read_text(encoding="utf-8").count(mutant.find)
    if count != 1:
        return f"the sound line occurs {count} times"
    return "" if mutant.find != mutant.replace else "the fault changes nothing"


def run_tests(tree: Path, tests: list[str]) -> int:
    """pytest's exit code for some tests of a tree; 124 if they did not end in time."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "OMP_WAIT_POLICY": "passive",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    line = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        return subprocess.run(line, cwd=tree, env=environment, timeout=TIMEOUT, **streams).returncode
    except subprocess.TimeoutExpired:
        return 124


def try_mutant(mutant: Mutant) -> tuple[str, float]:
    """Plant a fault in a copy and run its test: ``noticed``, ``SURVIVED`` or why it could not be tried."""
    began = time.monotonic()
    if reason := stale(mutant):
        return f"STALE: {reason}", 0.0
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=SKIPPED)
        path = tree / mutant.file
        path.write_text(
            path.read_text(encoding="utf-8").replace(mutant.find, mutant.replace), encoding="utf-8"
        )
        code = run_tests(tree, [mutant.test])
    verdict = {0: "SURVIVED", 1: "noticed", 124: "noticed (never ends)"}.get(
        code, f"BROKEN: pytest exit code {code}"
    )
    return verdict, time.monotonic() - began


def main() -> int:
    """Try the faults, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="choose by subject or by name")
    parser.add_argument("--list", action="store_true", help="only look whether each can be planted")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    mutants = read_mutants(asked.words)
    if asked.list:
        for m in mutants:
            print(f"{m.subject:12}  {m.name:60}  {stale(m) or 'can be planted'}")
        return int(any(stale(m) for m in mutants))
    sound = run_tests(ROOT, sorted({m.test for m in mutants})) if mutants else 0
    if sound:
        print(f"the tests of the faults do not pass on the unchanged tree (pytest exit code {sound})")
        return 1
    bad = 0
    with ThreadPoolExecutor(asked.jobs) as pool:
        for m, (verdict, seconds) in zip(mutants, pool.map(try_mutant, mutants), strict=True):
            print(f"{m.subject:12}  {m.name:60}  {verdict:10}  {seconds:6.1f} s  {m.test}", flush=True)
            bad += not verdict.startswith("noticed")
    print(f"{len(mutants) - bad} of {len(mutants)} faults noticed")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
