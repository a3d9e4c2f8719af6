"""The notebooks that exist: by name among the shipped ones, or by path; with their presets.

A preset is a named set of parameters in ``notebooks/presets/NOTEBOOK.yaml``::

    full:
      about: carries the accuracy bars, about ten minutes
      regress: false
      parameters: {nodes: 101}

``default`` always exists: the values in the notebook itself. The regression runs ``default`` and every
preset marked ``regress: true``.
"""

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import workbench
from workbench.errors import DataError, MissingExtra, SettingError


@dataclass(frozen=True, slots=True)
class Preset:
    """A named set of parameters."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    about: str = ""
    regress: bool = False


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook that can be run.

    Attributes:
        name: File name without ``.ipynb``.
        path: Where it lies.
        node: Its content, an ``nbformat`` node of version 4.
    """

    name: str
    path: Path
    node: Any

    @property
    def parameters_source(self) -> str:
        """The source of its parameters cell.

        Raises:
            SettingError: If there is not exactly one.
        """
        cells = [c["source"] for c in self.node["cells"] if "parameters" in c["metadata"].get("tags", [])]
        if len(cells) != 1:
            raise SettingError(
                f"{self.path.name} with {len(cells)} cells tagged 'parameters'",
                "exactly one",
                "tagging the cell that sets the defaults, even if it is empty",
            )
        return cells[0]

    def fingerprint(self) -> str:
        """Digest of the sources of its cells; outputs, counts and metadata do not matter."""
        text = json.dumps([[c["cell_type"], c["source"]] for c in self.node["cells"]])
        return hashlib.sha256(text.encode()).hexdigest()

    def presets(self) -> dict[str, Preset]:
        """Its presets by name, ``default`` first.

        Raises:
            DataError: If the file of presets cannot be read.
        """
        found = {"default": Preset("default", regress=True)}
        path = self.path.parent / "presets" / f"{self.name}.yaml"
        if path.is_file():
            for name, entry in read_mapping(path).items():
                entry = entry or {}
                unknown = (
                    set(entry) - {"about", "regress", "parameters"} if isinstance(entry, dict) else {"?"}
                )
                if unknown:
                    raise DataError(
                        f"preset {name!r} with {sorted(unknown)} in {path}",
                        "about, regress and parameters only",
                    )
                found[name] = Preset(
                    name,
                    entry.get("parameters") or {},
                    entry.get("about", ""),
                    bool(entry.get("regress", name == "default")),
                )
        return found

    def preset(self, name: str) -> Preset:
        """The preset called ``name``, or the one in the YAML file of that path (a plain mapping).

        Raises:
            SettingError: If there is none.
        """
        presets = self.presets()
        if name in presets:
            return presets[name]
        if Path(name).suffix in (".yaml", ".yml"):
            return Preset(Path(name).stem, read_mapping(Path(name)))
        raise SettingError(
            f"preset {name!r}", f"one of {', '.join(presets)}, or a YAML file", "`workbench list`"
        )


def notebooks_folder() -> Path:
    """The folder of the shipped notebooks: beside the package, in a source tree as in an installed wheel."""
    return Path(workbench.__file__).resolve().parent.parent / "notebooks"


def find_notebooks(folder: Path | None = None) -> list[Path]:
    """The notebooks of a folder, in the order of their names.

    Args:
        folder: Where to look; the shipped ones by default.
    """
    return sorted((folder or notebooks_folder()).glob("*.ipynb"))


def open_notebook(name: str | Path) -> Notebook:
    """Read a notebook by path, or by the name of a shipped one.

    Args:
        name: ``10_paths``, ``10_paths.ipynb`` or a path.

    Returns:
        The notebook.

    Raises:
        SettingError: If there is none of that name.
        DataError: If the file is not a notebook.
        MissingExtra: If the packages that run notebooks are not installed.
    """
    path = Path(name)
    if not path.is_file():
        path = notebooks_folder() / f"{str(name).removesuffix('.ipynb')}.ipynb"
    if not path.is_file():
        known = ", ".join(p.stem for p in find_notebooks()) or "none is shipped"
        raise SettingError(f"notebook {str(name)!r}", f"a path or one of {known}", "`workbench list`")
    try:
        import nbformat
    except ImportError:
        raise MissingExtra.of("nbformat", "run") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of cells without ids: an older notebook is still a notebook
            node = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
            node = nbformat.v4.upgrade(node)
            nbformat.validate(node)
    except Exception as error:  # nbformat raises its own kinds for each way in which a file is not one
        reason = str(error).strip().splitlines()[0][:120] if str(error).strip() else type(error).__name__
        raise DataError(
            f"{path}, which is not a notebook ({reason})",
            "JSON in the notebook format",
            "saving it again in JupyterLab",
        ) from None
    return Notebook(path.stem, path.resolve(), node)


def read_mapping(path: Path) -> dict[str, Any]:
    """A YAML file that holds a mapping.

    Raises:
        SettingError: If there is no such file.
        DataError: If it holds something else.
    """
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingError(f"missing file {str(path)!r}", "a YAML file") from None
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise DataError(f"{path}, which is not YAML ({str(error).splitlines()[0]})", "a mapping") from None
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise DataError(f"{type(content).__name__} in {path}", "a mapping of names to values")
    return content
