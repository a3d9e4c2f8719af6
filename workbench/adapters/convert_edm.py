"""From a trusted pickle of EDM or EDM2 to weights that open anywhere; run as a module.

The pickle carries its own source and runs it on loading, so this asks for explicit trust and for the folder
of the code that wrote it, the one that holds ``torch_utils`` and ``dnnlib``. Run it once, keep the two files.
"""

import argparse
import json
import pickle
import sys
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from workbench.errors import DataError, SettingError

PRECONDITIONINGS = ("EDMPrecond", "VPPrecond", "VEPrecond", "iDDPMPrecond", "Precond")
"""Classes that a JSON may name; the last is EDM2's."""


def convert_pickle(path: Path, folder: Path, *, code: Path | None = None, trust: bool = False) -> Path:
    """Write NAME.safetensors and NAME.json from a pickled checkpoint; runs the code inside the pickle.

    Args:
        path: The pickle.
        folder: Where the two files go.
        code: Folder of the repository that wrote it, put on the import path meanwhile.
        trust: Must be True: loading runs what the file contains.

    Returns:
        Path of the weights.

    Raises:
        SettingError: Without trust, or if the pickle holds no network of EDM.
    """
    if trust is not True:
        raise SettingError(
            f"{path}, a pickle whose loading runs what it contains",
            "trust=True (--trust)",
            "it only for a file whose origin you know",
        )
    if code is not None:
        sys.path.insert(0, str(code))
    try:
        with path.open("rb") as file:
            content = pickle.load(file)
    except ModuleNotFoundError as error:
        raise DataError(
            f"{path}, which needs the module {error.name!r}",
            "the code that wrote it on the import path",
            "--code FOLDER of that repository",
        ) from error
    finally:
        if code is not None:
            sys.path.remove(str(code))
    network = content["ema"] if isinstance(content, dict) else content
    arguments = arguments_of(network)
    folder.mkdir(parents=True, exist_ok=True)
    weights = folder / f"{path.stem}.safetensors"
    tensors: dict[str, Tensor] = dict(network.state_dict())
    save_file({name: one.detach().cpu().float().contiguous() for name, one in tensors.items()}, weights)
    facts = {"kind": "edm", "arguments": arguments}
    weights.with_suffix(".json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    return weights


def arguments_of(network: Any) -> dict[str, Any]:
    """The constructor's arguments that a persistent object of EDM remembers.

    Raises:
        SettingError: If it is no preconditioned network.
    """
    name = type(network).__name__
    if name not in PRECONDITIONINGS:
        raise SettingError(f"a pickled {name}", f"one of {', '.join(PRECONDITIONINGS)}")
    names = ("img_resolution", "img_channels", "label_dim")
    given = dict(zip(names, network.init_args, strict=False)) | dict(network.init_kwargs)
    return {"class": name, **{key: value for key, value in given.items() if _plain(value)}}


def _plain(value: Any) -> bool:
    """Whether JSON can say it."""
    if isinstance(value, list | tuple):
        return all(map(_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pickle", type=Path)
    parser.add_argument("folder", type=Path, help="where the two files go")
    parser.add_argument("--code", type=Path, help="folder of the repository that wrote the pickle")
    parser.add_argument("--trust", action="store_true", help="run the code inside the pickle")
    given = parser.parse_args(arguments)
    try:
        print(convert_pickle(given.pickle, given.folder, code=given.code, trust=given.trust))
    except (SettingError, DataError) as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
