"""What the runner asks of the kernel: settings before the first cell, facts after the last.

Both go through silent requests, so that the notebook shows nothing of them. The settings arrive in the
environment: ``WORKBENCH_DTYPE``, ``WORKBENCH_THREADS``, ``WORKBENCH_DETERMINISTIC``. Those of torch are
applied the moment it is imported, and a notebook without it does not pay for it.
"""

import importlib.abc
import importlib.util
import json
import os
import platform
import random
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any


class _AfterTorch(importlib.abc.MetaPathFinder):
    """Applies the settings when torch has been imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_prepare(module: Any) -> None:
            load(module)
            _prepare_torch()

        spec.loader.exec_module = load_and_prepare  # type: ignore[method-assign] - this one import only
        return spec


def prepare() -> None:
    """Apply the runner's settings: threads, default dtype, determinism, seeds, TF32 off."""
    if os.environ.get("WORKBENCH_DETERMINISTIC") == "1":
        random.seed(0)
    if "torch" in sys.modules:
        _prepare_torch()
    else:
        sys.meta_path.insert(0, _AfterTorch())


def _prepare_torch() -> None:
    import numpy as np
    import torch

    if threads := os.environ.get("WORKBENCH_THREADS"):
        torch.set_num_threads(int(threads))
    if dtype := os.environ.get("WORKBENCH_DTYPE"):
        torch.set_default_dtype(getattr(torch, dtype))
    if os.environ.get("WORKBENCH_DETERMINISTIC") == "1":
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False
        np.random.seed(0)  # noqa: NPY002 - the global generator is what careless code draws from
        torch.manual_seed(0)


def facts() -> str:
    """What is true at the end of a run: versions, device, memory, determinism; as JSON."""
    found: dict[str, Any] = {
        "versions": {"python": platform.python_version()},
        "determinism": {
            "cublas_workspace": os.environ.get("CUBLAS_WORKSPACE_CONFIG", ""),
            "hash_seed": os.environ.get("PYTHONHASHSEED", ""),
        },
        "peak_resident_mb": _peak_resident_mb(),
        "peak_device_mb": None,
        "device_name": "cpu",
        "driver": "",
    }
    return json.dumps(found | (_torch_facts(found) if "torch" in sys.modules else {}))


def _torch_facts(found: dict[str, Any]) -> dict[str, Any]:
    import torch

    from workbench.report import versions_in_use

    known: dict[str, Any] = {
        "versions": versions_in_use(),
        "threads": torch.get_num_threads(),
        "dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "determinism": {
            "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
            "tf32": bool(torch.backends.cudnn.allow_tf32 or torch.backends.cuda.matmul.allow_tf32),
            **found["determinism"],
        },
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        peaks = [torch.cuda.max_memory_allocated(i) for i in range(torch.cuda.device_count())]
        known["peak_device_mb"] = max(peaks) / 2**20
        known["device_name"] = torch.cuda.get_device_name(peaks.index(max(peaks)))
        known["driver"] = _driver()
    return known


def _peak_resident_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def _driver() -> str:
    """The NVIDIA driver's version, "" if it cannot be had."""
    try:
        asked = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        return asked.stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        path = Path("/proc/driver/nvidia/version")
        return path.read_text().splitlines()[0] if path.is_file() else ""
