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
from workbench.bench.state import NOTEBOOK as VIEW_NOTEBOOK
from workbench.bench.state import view_parameters
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
                found[name] = _preset(name, entry, path)
        return found

    def preset(self, name: str) -> Preset:
        """The preset called ``name``, or the one in the YAML file of that path.

        The file is a plain mapping, or a view that was saved at the bench.

        Raises:
            SettingError: If there is none.
            DataError: If the file is neither, or a view of another notebook.
        """
        presets = self.presets()
        if name in presets:
            return presets[name]
        path = Path(name)
        if path.suffix in (".yaml", ".yml"):
            content = read_mapping(path)
            if "view" not in content:
                return Preset(path.stem, content)
            view = view_parameters(path.read_bytes(), source=str(path))
            if self.name != VIEW_NOTEBOOK:
                raise DataError(
                    f"{path}, a saved view",
                    f"the notebook {VIEW_NOTEBOOK}",
                    f"`workbench run {VIEW_NOTEBOOK}`",
                )
            return Preset(path.stem, view)
        raise SettingError(
            f"preset {shown(name)}", f"one of {', '.join(presets)}, or a YAML file", "`workbench list`"
        )


def _preset(name: str, entry: Any, path: Path) -> Preset:
    """One entry of a file of presets."""
    kinds: dict[Any, type] = {"about": str, "regress": bool, "parameters": dict}
    entry = {} if entry is None else entry
    if not isinstance(entry, dict) or set(entry) - set(kinds):
        raise DataError(f"preset {name!r} = {shown(entry)} in {path}", "about, regress and parameters only")
    given = {key: value for key, value in entry.items() if value is not None}
    for key, value in given.items():
        if not isinstance(value, kinds[key]):
            raise DataError(
                f"preset {name!r} with {key}: {shown(value)} in {path}",
                "about as text, regress as true or false, and parameters as a mapping",
            )
    check_names(given.get("parameters", {}), path)
    return Preset(
        name, given.get("parameters", {}), given.get("about", ""), given.get("regress", name == "default")
    )


def check_names(given: Mapping[Any, Any], path: Path) -> None:
    """Refuse parameters whose names are not text, which YAML allows.

    Args:
        given: From a YAML file.
        path: That file, for the message.

    Raises:
        DataError: If a name is not text.
    """
    for name in given:
        if not isinstance(name, str):
            raise DataError(f"parameter {shown(name)} in {path}", "names of parameters as text")


def shown(value: Any, most: int = 120) -> str:
    """A value for a message: its ``repr``, without the middle of a long one.

    Args:
        value: Anything.
        most: Characters that are kept.
    """
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits; nested without an end
        return f"{type(value).__name__} too long to show"
    return text if len(text) <= most else f"{text[: most - 20]}…{text[-19:]}"


def _is_file(path: Path) -> bool:
    """False too for names that no file can have."""
    try:
        return path.is_file()
    except OSError:
        return False


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
    if not _is_file(path):
        path = notebooks_folder() / f"{str(name).removesuffix('.ipynb')}.ipynb"
    if not _is_file(path):
        known = ", ".join(p.stem for p in find_notebooks()) or "none is shipped"
        raise SettingError(f"notebook {shown(str(name))}", f"a path or one of {known}", "`workbench list`")
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
    except Exception as error:  # PyYAML lets through what its own constructors meet: dates, digits, depth
        reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise DataError(f"{path}, which is not YAML ({reason})", "a mapping") from None
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise DataError(f"{type(content).__name__} in {path}", "a mapping of names to values")
    return content
