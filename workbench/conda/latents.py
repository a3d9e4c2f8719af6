"""Tables of latents that need not fit in memory: rows are read when they are asked for.

A table is a tensor, an array, a `.npy` file or a tensor of a `.safetensors` file; files are mapped, so that
gathering k neighbours reads k rows and nothing else.

References:
    NEP 1 (the .npy format), https://numpy.org/neps/nep-0001-npy-format.html
    safetensors, https://huggingface.co/docs/safetensors (header length, JSON header, raw tensors)
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from workbench.errors import DataError, SettingError, ShapeError

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_BUDGET = 64 * 2**20  # bytes of a block when a whole table is walked through


@dataclass(slots=True)
class Latents:
    """Rows of latents.

    Attributes:
        array: The tensor, or an array that may be mapped from a file.
        source: The file, "" if the table is in memory.
        bfloat: Whether the array holds the bits of bfloat16 numbers.
        rows_read: Rows that have been asked for so far.
    """

    array: Tensor | np.ndarray
    source: str = ""
    bfloat: bool = False
    rows_read: int = field(default=0)

    def __len__(self) -> int:
        return self.array.shape[0]

    @property
    def dim(self) -> int:
        """Entries of a row."""
        return self.array.shape[1]

    @property
    def row_bytes(self) -> int:
        """Size of a row."""
        return self.dim * (
            self.array.element_size() if isinstance(self.array, Tensor) else self.array.dtype.itemsize
        )

    def rows(self, index: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
        """Some rows.

        Args:
            index: Rows, any shape, int64.
            dtype: Precision of the answer; the table's own, but at least float32, if None.

        Returns:
            Latents, shape (*index.shape, dim); each row of a file is read once.
        """
        if isinstance(self.array, Tensor):
            self.rows_read += index.numel()
            return self._wide(self.array[index.to(self.array.device)], dtype)
        unique, back = torch.unique(index.cpu(), return_inverse=True)
        self.rows_read += len(unique)
        return self._wide(self._tensor(self.array[unique.numpy()]), dtype)[back]

    def blocks(self, *, dtype: torch.dtype | None = None) -> Iterator[tuple[slice, Tensor]]:
        """The whole table, a block of rows at a time."""
        size = max(1, _BUDGET // max(1, self.row_bytes))
        for start in range(0, len(self), size):
            part = slice(start, min(start + size, len(self)))
            self.rows_read += part.stop - part.start
            block = self.array[part]
            yield part, self._wide(block if isinstance(block, Tensor) else self._tensor(block), dtype)

    def _tensor(self, block: np.ndarray) -> Tensor:
        found = torch.from_numpy(np.array(block))
        return found.view(torch.bfloat16) if self.bfloat else found

    @staticmethod
    def _wide(block: Tensor, dtype: torch.dtype | None) -> Tensor:
        if dtype is not None:
            return block.to(dtype)
        return block.float() if block.element_size() < 4 or not block.is_floating_point() else block


def open_latents(source: Latents | Tensor | np.ndarray | str | Path, *, key: str | None = None) -> Latents:
    """A table of latents.

    Args:
        source: A table, a tensor or array of shape (count, dim), or the path of a `.npy` or `.safetensors`
            file that holds one. Further axes are flattened.
        key: Name of the tensor in a `.safetensors` file; its only one if None.

    Returns:
        The table; files are mapped, not read.

    Raises:
        ShapeError: If it has fewer than two axes.
        DataError: If a file cannot be read or holds no floating-point table.
        SettingError: If the source is of another kind.
    """
    if isinstance(source, Latents):
        return source
    if isinstance(source, str | Path):
        return _from_file(Path(source), key)
    if not isinstance(source, Tensor | np.ndarray):
        raise SettingError(
            f"latents of type {type(source).__name__}",
            "a tensor, an array, or a path",
            "torch.stack(latents)",
        )
    if source.ndim < 2:
        raise ShapeError(f"latents of shape {tuple(source.shape)}", "(count, dim)", "latents[:, None]")
    table = source.detach() if isinstance(source, Tensor) else source
    if isinstance(table, np.ndarray) and not isinstance(table, np.memmap):
        table = torch.as_tensor(table)
    if isinstance(table, Tensor) and not table.is_floating_point():
        table = table.to(torch.get_default_dtype())
    return Latents(table.reshape(len(table), -1))


def check_finite(table: Latents, index: Tensor | None = None) -> None:
    """Refuse latents that are not finite; walks through the table once, or through some rows.

    Raises:
        DataError: Names the number of bad frames and the first one.
    """
    if index is not None:
        bad = ~torch.isfinite(table.rows(index)).all(dim=1)
        rows = index[bad]
    else:
        rows = torch.cat(
            [
                part.start + (~torch.isfinite(block).all(dim=1)).nonzero()[:, 0].cpu()
                for part, block in table.blocks()
            ]
        )
    if len(rows):
        raise DataError(
            f"{len(rows)} frames with values that are not finite, the first in row {int(rows[0])}",
            "finite latents",
            "leaving those frames out",
        )


def _from_file(path: Path, key: str | None) -> Latents:
    if not path.is_file():
        raise DataError(f"no file {path}", "a .npy or .safetensors file")
    try:
        if path.suffix == ".npy":
            array, bfloat = np.load(path, mmap_mode="r", allow_pickle=False), False
        elif path.suffix == ".safetensors":
            array, bfloat = _map_safetensors(path, key)
        else:
            raise DataError(f"the file {path}", "a .npy or .safetensors file", "np.save(path, latents)")
    except (ValueError, KeyError, TypeError, OSError, EOFError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}, which cannot be read ({error})", "a table of latents") from error
    if array.ndim < 2 or not (bfloat or np.issubdtype(array.dtype, np.floating)):
        raise DataError(
            f"{path} of shape {array.shape} and dtype {array.dtype}", "a floating-point table (count, dim)"
        )
    return Latents(array.reshape(len(array), -1), source=str(path), bfloat=bfloat)


def _map_safetensors(path: Path, key: str | None) -> tuple[np.ndarray, bool]:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    names = [name for name in header if name != "__metadata__"]
    if key is None and len(names) != 1:
        raise DataError(
            f"{len(names)} tensors in {path}", "one", f"key={names[0]!r}" if names else "another file"
        )
    if (key or names[0]) not in names:
        raise DataError(f"key {key!r}", f"one of {', '.join(names)}")
    entry = header[key or names[0]]
    if entry["dtype"] not in _DTYPES:
        raise DataError(f"a tensor of {entry['dtype']} in {path}", f"one of {', '.join(_DTYPES)}")
    array = np.memmap(
        path,
        dtype=_DTYPES[entry["dtype"]],
        mode="r",
        offset=8 + length + entry["data_offsets"][0],
        shape=tuple(entry["shape"]),
    )
    return array, entry["dtype"] == "BF16"
