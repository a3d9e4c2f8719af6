"""Which device a computation uses: ``auto``, ``cpu``, ``cuda``, ``cuda:1``, ``mps``."""

import re

import torch

from workbench.errors import SettingError


def resolve_device(name: str | torch.device = "auto") -> torch.device:
    """A device that is there.

    Args:
        name: ``auto`` takes the first CUDA device, then MPS, then the CPU.

    Returns:
        The device; CUDA devices with their index.

    Raises:
        SettingError: If the name means nothing or the device is not there.
    """
    name = str(name)
    if name == "cpu":
        return torch.device("cpu")
    if not (name in ("auto", "mps") or re.fullmatch(r"cuda(:\d+)?", name)):
        raise SettingError(f"device {name!r}", "auto, cpu, cuda, cuda:INDEX or mps", "auto")
    there = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        there.append("mps")
    there.append("cpu")
    wanted = there[0] if name == "auto" else ("cuda:0" if name == "cuda" else name)
    if wanted not in there:
        raise SettingError(f"device {name!r}, which is not there", f"one of {', '.join(there)}", "auto")
    return torch.device(wanted)
