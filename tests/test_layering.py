"""Which module may import which, read from the syntax tree; what a bare import brings, from a fresh process.

Arrows point down the list of layers and never back. A new module of workbench takes its place in `LAYERS`.
"""

import ast
import json
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = (
    {"types", "errors", "report", "devices", "draws", "forward", "memory", "cells", "scheduling"},
    {
        "checks",
        "schedules",
        "models",
        "decoders",
        "metrics",
        "curves",
        "splines",
        "embeddings",
        "fields",
        "linalg",
        "integrators",
        "minima",
    },
    {
        "worlds",
        "adapters",
        "flows",
        "strings",
        "geodesics",
        "anisotropy",
        "conda",
        "logpartition",
        "phases",
        "inversions",
        "frames",
        "decoding",
    }
    | {
        "architectures",
        "nets",
        "principal",
        "autoencoders",
        "training",
        "recipes",
        "pipelines",
        "data",
        "pictures",
        "sampling",
        "judges",
        "quality",
        "cards",
        "zoo",
        "subjects",
    },
    {"lenses"},
    {"storage"},
    {"doctor"},
    {"bench"},
    {"headless", "__main__"},
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
NOTEBOOK_PACKAGES = {"ipywidgets", "anywidget", "IPython", "ipykernel", "jupyterlab", "panel", "bokeh"}
IMPORT_NAMES = {
    "scikit-learn": "sklearn",
    "PyYAML": "yaml",
    "pillow": "PIL",
}  # where they differ from the package's


@dataclass(frozen=True)
class Import:
    """One import statement: the dotted name it brings and whether it runs when its module is imported."""

    line: int
    name: str
    eager: bool


def imports_of(path: Path, module: str) -> list[Import]:
    """The imports of a file; those under TYPE_CHECKING do not run and are left out."""
    found = []

    def visit(node: ast.AST, eager: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import):
                found.extend(Import(child.lineno, alias.name, eager) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                package = module if path.name == "__init__.py" else module.rpartition(".")[0]
                above = package.split(".")[: len(package.split(".")) - child.level + 1] if child.level else []
                base = ".".join([*above, *([child.module] if child.module else [])])
                found.extend(Import(child.lineno, f"{base}.{alias.name}", eager) for alias in child.names)
            visit(child, eager and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    visit(ast.parse(path.read_text(encoding="utf-8")), True)
    return found


def modules_under(folder: str) -> dict[str, Path]:
    """Dotted name to file for every module of a package."""
    files = sorted((ROOT / folder).rglob("*.py"))
    return {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in files}


WORKBENCH = modules_under("workbench")
WIDGETS = modules_under("widgets")
IMPORTS = {name: imports_of(path, name) for name, path in (WORKBENCH | WIDGETS).items()}


def part(module: str) -> str:
    """The first name below the package: workbench.strings.static is part of strings."""
    return (*module.split("."), "")[1]


def inside(module: str, package: str = "workbench") -> list[Import]:
    return [i for i in IMPORTS[module] if i.name.split(".")[0] == package]


def where(module: str, found: Import) -> str:
    return f"{(WORKBENCH | WIDGETS)[module].relative_to(ROOT)}:{found.line} imports {found.name}"


@pytest.mark.parametrize("module", [m for m in WORKBENCH if m != "workbench"])
def test_arrows_never_turn_back(module):
    assert part(module) in RANK, f"{module} has no place in LAYERS"
    wrong = [i for i in inside(module) if part(i.name) in RANK and RANK[part(i.name)] > RANK[part(module)]]
    assert not wrong, "; ".join(where(module, i) for i in wrong)


def test_no_module_waits_for_itself():
    graph = {}
    for module in WORKBENCH:
        targets = [
            i.name if i.name in WORKBENCH else i.name.rpartition(".")[0] for i in inside(module) if i.eager
        ]
        graph[module] = {t for t in targets if t in WORKBENCH and t not in (module, "workbench")}
    assert len(list(TopologicalSorter(graph).static_order())) >= len(
        WORKBENCH
    )  # a cycle raises and names itself


def test_no_lens_imports_another():
    lenses = {m for m in WORKBENCH if m.startswith("workbench.lenses.")}
    wrong = []
    for module in lenses:
        own = ".".join(module.split(".")[:3])
        for i in inside(module):
            target = ".".join(i.name.split(".")[:3])
            if target in lenses and target != own:
                wrong.append(where(module, i))
    assert not wrong, "; ".join(wrong)


def core_packages() -> set[str]:
    """Import names of the packages that a bare install brings."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    names = {re.split(r"[\s\[<>=!~;]", text, maxsplit=1)[0] for text in declared}
    return {IMPORT_NAMES.get(name, name.replace("-", "_")) for name in names}


def test_the_instrument_takes_optional_packages_inside_functions():
    allowed = (core_packages() - {"plotly"}) | set(sys.stdlib_module_names) | {"workbench"}
    low = [m for m in WORKBENCH if part(m) != "headless"]
    wrong = [where(m, i) for m in low for i in IMPORTS[m] if i.eager and i.name.split(".")[0] not in allowed]
    assert not wrong, "; ".join(wrong)


def test_the_instrument_knows_no_front_end():
    wrong = [where(m, i) for m in WORKBENCH for i in inside(m, "widgets")]
    assert not wrong, "; ".join(wrong)


def test_figures_need_no_kernel():
    figures = [m for m in WIDGETS if m.startswith("widgets.figures") or m == "widgets.theme"]
    above = ("widgets.views", "widgets.controls", "widgets.canvas", "widgets.app")
    wrong = [
        where(m, i)
        for m in figures
        for i in IMPORTS[m]
        if i.name.split(".")[0] in NOTEBOOK_PACKAGES or i.name.startswith(above)
    ]
    assert figures
    assert not wrong, "; ".join(wrong)


def test_oracles_know_nothing_of_what_they_judge():
    files = modules_under("tests/oracles")
    wrong = [
        f"{m}:{i.line}" for m, p in files.items() for i in imports_of(p, m) if i.name.startswith("workbench")
    ]
    assert not wrong, "; ".join(wrong)


def test_the_bare_package_is_silent_and_light():
    """All of the instrument imports in a process where nothing but the core packages can be found."""
    names = [m for m in WORKBENCH if part(m) != "headless" and part(m) != "__main__"]
    script = f"""
import importlib, json, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {OPTIONAL!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
import workbench
light = sorted({{m.split(".")[0] for m in sys.modules}} & ({OPTIONAL!r} | {{"plotly", "matplotlib"}}))
for name in {names!r}:
    importlib.import_module(name)
full = sorted({{m.split(".")[0] for m in sys.modules}} & {{"plotly", "matplotlib"}})
print(json.dumps([light, full]), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert json.loads(done.stderr) == [[], []]


def optional_packages() -> set[str]:
    """Import names of the packages that only an extra brings."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    names = {re.split(r"[\s\[<>=!~;]", text, maxsplit=1)[0] for texts in extras.values() for text in texts}
    imported = {IMPORT_NAMES.get(name, name.replace("-", "_")) for name in names - {"latent-workbench"}}
    return imported | NOTEBOOK_PACKAGES


OPTIONAL = optional_packages()
