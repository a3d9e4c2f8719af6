"""A cache keyed by content: what was computed once from the same tensors and settings is not computed again.

A key is a digest of everything that an answer depends on: bytes of tensors, weights of networks, fields of
frozen values, text and numbers. Entries are kept until their tensors fill a budget of bytes; then the least
recently used go first. Two threads that ask for the same key at the same time compute it once.
"""

import dataclasses
import hashlib
import inspect
import struct
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from workbench.errors import SettingError

Value = TypeVar("Value")
_OVERHEAD = 256  # bytes counted for an entry and for every part of it that is no tensor
_WEIGHTS: "weakref.WeakKeyDictionary[nn.Module, tuple[tuple, bytes]]" = weakref.WeakKeyDictionary()


def content_key(*parts: Any) -> str:
    """A digest of values by what they hold, not by which objects they are.

    Args:
        parts: Tensors, networks, text, numbers, None, tuples, mappings and dataclasses of them, in any
            nesting; functions count by their code and what they close over.

    Returns:
        Hexadecimal digits; equal for equal content, whatever the process.

    Raises:
        SettingError: For a value whose content cannot be read.
    """
    digest = hashlib.sha256()
    _feed(digest, parts)
    return digest.hexdigest()


def _feed(digest: Any, value: Any, above: tuple[int, ...] = ()) -> None:
    if id(value) in above:  # an object that holds itself
        return
    above = (*above, id(value))
    digest.update(type(value).__name__.encode() + b"\0")
    if isinstance(value, Tensor):
        plain = value.detach().cpu().contiguous()
        digest.update(f"{plain.dtype}{tuple(plain.shape)}{value.device.type}".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    elif isinstance(value, nn.Module):
        digest.update(_weights(value))
    elif isinstance(value, Enum):
        _feed(digest, value.value, above)
    elif isinstance(value, float):
        digest.update(struct.pack("<d", value))
    elif value is None or isinstance(value, str | bytes | int):
        data = value if isinstance(value, bytes) else str(value).encode()
        digest.update(struct.pack("<q", len(data)) + data)
    elif isinstance(value, torch.dtype | torch.device):
        digest.update(str(value).encode())
    elif isinstance(value, tuple | list):
        digest.update(struct.pack("<q", len(value)))
        for part in value:
            _feed(digest, part, above)
    elif isinstance(value, Mapping):
        digest.update(struct.pack("<q", len(value)))
        for key in sorted(value, key=str):
            _feed(digest, key, above)
            _feed(digest, value[key], above)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            digest.update(field.name.encode())
            _feed(digest, getattr(value, field.name), above)
    elif inspect.ismethod(value):
        _feed(digest, (value.__func__, value.__self__), above)
    elif inspect.isfunction(value):
        held = [cell.cell_contents for cell in value.__closure__ or ()]
        digest.update(f"{value.__module__}.{value.__qualname__}".encode() + value.__code__.co_code)
        _feed(digest, (held, value.__defaults__), above)
    elif inspect.isroutine(value) or isinstance(value, type):
        digest.update(f"{value.__module__}.{value.__qualname__}".encode())
    elif hasattr(value, "__dict__"):
        _feed(digest, vars(value), above)
    else:
        raise SettingError(
            f"a key of type {type(value).__name__}", "tensors, numbers, text and dataclasses of them"
        )


def _weights(network: nn.Module) -> bytes:
    """Digest of a network's structure and weights; read again only after one of them was written to."""
    tensors = network.state_dict(keep_vars=True)
    version = tuple((name, tensor.data_ptr(), tensor._version) for name, tensor in tensors.items())
    known = _WEIGHTS.get(network)
    if known is None or known[0] != version:
        digest = hashlib.sha256(repr(network).encode())
        for name, tensor in tensors.items():
            digest.update(name.encode())
            _feed(digest, tensor.detach())
        known = _WEIGHTS[network] = (version, digest.digest())
    return known[1]


def size_of(value: Any) -> int:
    """Bytes that a value keeps: its tensors', each storage once, and an allowance for every other part."""
    seen: set[int] = set()

    def add(item: Any) -> int:
        if isinstance(item, Tensor):
            storage = item.untyped_storage()
            if storage.data_ptr() in seen:
                return 0
            seen.add(storage.data_ptr())
            return storage.nbytes()
        if isinstance(item, str | bytes):
            return len(item)
        if isinstance(item, tuple | list):
            return _OVERHEAD + sum(map(add, item))
        if isinstance(item, Mapping):
            return _OVERHEAD + sum(map(add, item.values()))
        if dataclasses.is_dataclass(item) and not isinstance(item, type):
            return _OVERHEAD + sum(add(getattr(item, field.name)) for field in dataclasses.fields(item))
        return 16

    return _OVERHEAD + add(value)


@dataclasses.dataclass(frozen=True, slots=True)
class CacheUse:
    """What a cache has done so far.

    Attributes:
        hits: Answers that were there.
        misses: Answers that were computed.
        evictions: Entries that had to go.
        bytes: What the entries keep now.
        entries: How many there are.
    """

    hits: int
    misses: int
    evictions: int
    bytes: int
    entries: int


class ContentCache:
    """Answers by key within a budget of memory; safe to share between threads and sessions.

    Args:
        budget: Most bytes to keep. A single answer above it is handed out but not kept.
    """

    def __init__(self, budget: int = 256 * 2**20) -> None:
        if budget < 0:
            raise SettingError(f"budget={budget}", "0 bytes or more")
        self.budget = budget
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._making: dict[str, threading.Event] = {}
        self._hits = self._misses = self._evictions = self._bytes = 0

    @property
    def use(self) -> CacheUse:
        """Counts so far."""
        with self._lock:
            return CacheUse(self._hits, self._misses, self._evictions, self._bytes, len(self._entries))

    def get(
        self, key: str, make: Callable[[], Value], *, keep: Callable[[Value], bool] = lambda value: True
    ) -> Value:
        """The answer of a key, computed if it is not there.

        Args:
            key: From `content_key`.
            make: Computes it; called without any lock held.
            keep: Whether an answer may be kept, as one that was cancelled half-way may not.

        Returns:
            The answer. If `make` fails, its error is raised and nothing is kept.
        """
        while True:
            with self._lock:
                if key in self._entries:
                    self._entries.move_to_end(key)
                    self._hits += 1
                    return self._entries[key][0]
                others = self._making.get(key)
                if others is None:
                    done = self._making[key] = threading.Event()
                    self._misses += 1
                    break
            others.wait()
        try:
            value = make()
            if keep(value):
                self._store(key, value)
            return value
        finally:
            with self._lock:
                del self._making[key]
            done.set()

    def peek(self, key: str) -> Any | None:
        """The answer of a key if it is there, else None; counts as no use."""
        with self._lock:
            found = self._entries.get(key)
        return None if found is None else found[0]

    def clear(self) -> None:
        """Forget every answer; the counts stay."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def _store(self, key: str, value: Any) -> None:
        size = size_of(value)
        with self._lock:
            if size > self.budget:
                return
            self._entries[key] = (value, size)
            self._bytes += size
            while self._bytes > self.budget:
                _, (_, freed) = self._entries.popitem(last=False)
                self._bytes -= freed
                self._evictions += 1
