"""Which device a run uses: ``auto``, ``cpu``, ``cuda``, ``cuda:1``, ``mps``."""

import re

from workbench.errors import SettingError


def resolve_device(name: str) -> str:
    """A device that is there.

    Args:
        name: ``auto`` takes the first CUDA device, then MPS, then the CPU.

    Returns:
        ``cpu``, ``cuda:INDEX`` or ``mps``.

    Raises:
        SettingError: If the name means nothing or the device is not there.
    """
    if name == "cpu":
        return name
    if not (name in ("auto", "mps") or re.fullmatch(r"cuda(:\d+)?", name)):
        raise SettingError(f"device {name!r}", "auto, cpu, cuda, cuda:INDEX or mps", "auto")
    import torch

    there = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        there.append("mps")
    there.append("cpu")
    wanted = there[0] if name == "auto" else ("cuda:0" if name == "cuda" else name)
    if wanted not in there:
        raise SettingError(f"device {name!r}, which is not there", f"one of {', '.join(there)}", "auto")
    return wanted
