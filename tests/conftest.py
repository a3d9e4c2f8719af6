"""Seeds, dtype and tolerances for the whole suite; shape annotations are checked at every call."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from jaxtyping import install_import_hook

_CHECKED = install_import_hook(
    "workbench", "beartype.beartype"
)  # before any test module imports the workbench

import hypothesis  # noqa: E402 - the hook above must come first
import pytest  # noqa: E402
import torch  # noqa: E402

hypothesis.settings.register_profile("push", max_examples=25, deadline=None, derandomize=True)
hypothesis.settings.register_profile("full", max_examples=200, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "push"))


@pytest.fixture(autouse=True)
def _double_precision():
    """Every test starts in float64 with a fixed global seed, and leaves the process as it was."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def generator() -> torch.Generator:
    """A seeded generator."""
    return torch.Generator().manual_seed(0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests come last: their server, kernels and event loop live until the session ends."""
    items.sort(key=lambda item: "browser" in item.path.parts)
