"""Small notebooks written by the tests of the headless layer."""

from pathlib import Path

import nbformat

RECORD = "from workbench.headless.record import record, record_artifact"


def write_notebook(folder: Path, *cells: str, name: str = "tiny", parameters: str | None = "") -> Path:
    """Write a notebook: a title, the parameters cell (None leaves it out), then the code cells."""
    node = nbformat.v4.new_notebook()
    node.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    node.cells = [nbformat.v4.new_markdown_cell(f"# {name}\n\nDoes it run?")]
    if parameters is not None:
        node.cells.append(nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]}))
    node.cells += [nbformat.v4.new_code_cell(source) for source in cells]
    for number, cell in enumerate(node.cells):
        cell["id"] = f"cell-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.ipynb"
    nbformat.write(node, path)
    return path
