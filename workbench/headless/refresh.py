"""The committed form of a notebook: sources, execution counts and records; nothing that changes by itself.

``workbench notebooks`` executes each notebook as the regression does, keeps of the outputs only the
records, strips everything else, and fails if anything volatile is left.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.errors import DataError
from workbench.headless.catalog import Notebook, open_notebook
from workbench.headless.folder import write_whole
from workbench.headless.record import MIME, read_records
from workbench.headless.run import execute, plan_run
from workbench.headless.watch import Listener

_KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
LARGEST = 100_000  # bytes of a committed notebook


def refresh(path: Path, *, listener: Listener | None = None) -> bool:
    """Execute a notebook and write it back in its committed form.

    Args:
        path: The notebook, changed in place.
        listener: Told where the run is.

    Returns:
        True if the file changed.

    Raises:
        DataError: If it did not complete, or something volatile is left; the file is then as before.
    """
    book = open_notebook(path)
    with tempfile.TemporaryDirectory() as scratch:
        result = execute(plan_run(book, environment={}), out=Path(scratch) / "run", listener=listener)
        if result.exit_code:
            raise DataError(f"{path.name}: {result.status}: {result.message}", "a notebook that completes")
        executed = open_notebook(result.folder / "notebook.ipynb")
    node = committed_form(book, executed)
    if left := find_volatile(node):
        raise DataError(f"{path.name} with {'; '.join(left[:3])}", "records and counts only")
    import nbformat

    text = nbformat.writes(node) + "\n"
    changed = text != path.read_text(encoding="utf-8")
    if changed:
        write_whole(path, text)
    return changed


def committed_form(book: Notebook, executed: Notebook) -> Any:
    """The sources of one notebook with the counts and records of its execution.

    Args:
        book: The notebook as it lies in the repository.
        executed: The same, executed; may hold an injected cell.

    Returns:
        A new node.
    """
    import nbformat

    ran = iter(
        c
        for c in executed.node.cells
        if c.cell_type == "code" and "injected-parameters" not in c.metadata.get("tags", [])
    )
    node = nbformat.v4.new_notebook(metadata={"kernelspec": _KERNELSPEC, "language_info": {"name": "python"}})
    for number, cell in enumerate(book.node.cells):
        tags = cell.metadata.get("tags")
        kept = {
            "id": cell.get("id") or f"cell-{number:02d}",
            "metadata": {"tags": tags} if tags else {},
        }
        if cell.cell_type == "code":
            done = next(ran)
            outputs = [_record_only(o) for o in done.outputs if MIME in o.get("data", {})]
            count = code_count(node) + 1
            node.cells.append(
                nbformat.v4.new_code_cell(cell.source, outputs=outputs, execution_count=count, **kept)
            )
        else:
            node.cells.append(nbformat.v4.new_markdown_cell(cell.source, **kept))
    return node


def find_volatile(node: Any) -> list[str]:
    """What in a notebook would change without a reason.

    Args:
        node: A notebook node.

    Returns:
        One sentence for each thing; empty for the committed form.
    """
    found = [
        f"notebook metadata {key!r}" for key in node.metadata if key not in ("kernelspec", "language_info")
    ]
    if dict(node.metadata.get("language_info", {"name": "python"})) != {"name": "python"}:
        found.append("language_info beyond its name")
    count = 0
    for number, cell in enumerate(node.cells, 1):
        found += [f"metadata {key!r} in cell {number}" for key in cell.metadata if key != "tags"]
        if cell.cell_type != "code":
            continue
        count += 1
        if cell.execution_count != count:
            found.append(f"execution count {cell.execution_count} in code cell {count}")
        for output in cell.outputs:
            data = output.get("data", {})
            if MIME not in data or set(data) - {MIME, "text/plain"} or output.get("metadata"):
                found.append(f"an output ({output.output_type}) that is not a record in cell {number}")
            elif "sha256" in data[MIME]:
                found.append(f"a digest in cell {number}")
    read_records(node)  # two records of one name are refused
    return found


def check(paths: Sequence[Path]) -> list[str]:
    """What is volatile, never run or too large in committed notebooks, without executing them.

    Args:
        paths: The notebooks.

    Returns:
        One sentence for each thing.
    """
    found = []
    for path in paths:
        found += [f"{path.name}: {thing}" for thing in find_volatile(open_notebook(path).node)]
        if path.stat().st_size > LARGEST:
            found.append(f"{path.name}: {path.stat().st_size} bytes, more than {LARGEST}")
    return found


def code_count(node: Any) -> int:
    """How many code cells a notebook has."""
    return sum(cell.cell_type == "code" for cell in node.cells)


def _record_only(output: Any) -> Any:
    import nbformat

    payload = {k: v for k, v in output.data[MIME].items() if k != "sha256"}
    data = {MIME: payload, "text/plain": output.data.get("text/plain", "")}
    return nbformat.v4.new_output("display_data", data=data, metadata={})
