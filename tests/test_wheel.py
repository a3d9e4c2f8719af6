"""The wheel holds everything, and works in an empty folder; the core works with only the core installed."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OPTIONAL = [  # what the extras bring
    "IPython",
    "ipykernel",
    "ipywidgets",
    "anywidget",
    "jupyter_client",
    "nbclient",
    "nbconvert",
    "nbformat",
    "papermill",
    "panel",
    "bokeh",
    "dask",
    "distributed",
    "pandas",
    "pyarrow",
    "openmm",
    "ase",
    "diffusers",
    "psutil",
    "pytest",
    "playwright",
    "hypothesis",
    "beartype",
]
CORE_ONLY = """
import importlib, sys
BLOCKED = set(sys.argv[1].split())
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import workbench
assert workbench.__file__.startswith(sys.argv[2]), workbench.__file__
for name in workbench.__all__:
    getattr(workbench, name)
import torch
model = workbench.load_model("ring")
path = workbench.find_path(workbench.load_world("v_mixture"), torch.tensor([-3.0, 0.0]).double(),
                           torch.tensor([3.0, 0.0]).double(), regime="static", nodes=21)
print(path.report.status.value)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The wheel, built from the tree and unpacked by pip into a folder of its own."""
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    wheels = tmp_path_factory.mktemp("wheels")
    subprocess.run(
        [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", wheels, ROOT],
        check=True,
        capture_output=True,
    )
    (wheel,) = wheels.glob("*.whl")
    subprocess.run(
        [*pip, "install", "-q", "--no-deps", "--target", target, wheel], check=True, capture_output=True
    )
    return target


def run_outside(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    code = f"import sys; sys.path.insert(0, {str(installed)!r}); "
    code += "import runpy; runpy.run_module('workbench', run_name='__main__', alter_sys=True)"
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize(
    "pattern",
    ["workbench/weights/*", "notebooks/*.ipynb", "notebooks/presets/*", "widgets/canvas/*", "widgets/app/*"],
)
def test_every_data_file_is_inside(installed, pattern):
    tracked = subprocess.run(
        ["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True
    )
    missing = [name for name in tracked.stdout.split() if not (installed / name).is_file()]
    assert tracked.stdout
    assert missing == []


def test_the_core_works_with_only_the_core_installed(installed, tmp_path):
    code = f"import sys; sys.path.insert(0, {str(installed)!r})\n{CORE_ONLY}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, " ".join(OPTIONAL), str(installed)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "converged"), done.stderr


def test_the_installed_command_lists_and_runs_in_an_empty_folder(installed, tmp_path):
    listed = run_outside(installed, tmp_path, "list")
    assert listed.returncode == 0, listed.stderr
    assert "10_paths" in listed.stdout
    assert "regime" in listed.stdout
    ran = run_outside(installed, tmp_path, "run", "00_tour", "--out", "tour")
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert sorted(p.name for p in (tmp_path / "tour").iterdir() if p.is_file()) == [
        "metrics.json", "notebook.ipynb", "report.html", "run.json",
    ]  # fmt: skip
