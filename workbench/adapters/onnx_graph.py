r"""ONNX graphs as score models and decoders.

A graph whose operators are all known (`workbench.adapters.onnx_ops`) is computed by torch and has every
derivative. Any other is computed by onnxruntime: its values are as good, but it has no derivatives, and a
lens that needs one says which operator stands in the way. A graph of one input is a decoder; one of two or
three is a network of (x, t, condition), whose prediction and schedule must be given, here or in the JSON
beside the file:

.. code-block:: json

    {"kind": "onnx", "prediction": "eps", "schedule": "vp_cosine", "value_range": [-1, 1]}

References:
    ONNX, https://onnx.ai; ONNX Runtime, https://onnxruntime.ai
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from workbench.adapters.latents import Coder, Generator, generator_of
from workbench.adapters.onnx_ops import OPERATORS
from workbench.adapters.settings import Settings, class_index, import_extra, named_after, said
from workbench.adapters.wrap import WrappedModel, wrap
from workbench.errors import DataError, SettingError

_FLOATS = (1, 10, 11, 16)  # float, float16, double, bfloat16


@dataclass(frozen=True, slots=True)
class Step:
    """One node of a graph.

    Attributes:
        kind: Its operator.
        inputs: Names of what it reads; "" where one is left out.
        outputs: Names of what it writes.
        attributes: Its settings.
    """

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A graph computed by torch.

    Attributes:
        steps: Its nodes, in an order in which they can be computed.
        constants: Tensors that it holds.
        inputs: Names of its inputs.
        output: Name of its first output.
    """

    steps: tuple[Step, ...]
    constants: dict[str, Tensor]
    inputs: tuple[str, ...]
    output: str

    def __call__(self, *given: Tensor) -> Tensor:
        """The first output for the inputs in order. Differentiable."""
        known: dict[str, Any] = dict(self.constants) | dict(zip(self.inputs, given, strict=True)) | {"": None}
        for step in self.steps:
            made = OPERATORS[step.kind]([known[name] for name in step.inputs], step.attributes)
            made = made if isinstance(made, tuple) else (made,)
            known.update(zip(step.outputs, made, strict=False))
        return known[self.output]


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """A graph computed by onnxruntime: values without derivatives.

    Attributes:
        run: Arrays to the array of the first output.
        types: numpy type of each input.
        reason: Which operator stands in the way of derivatives.
    """

    run: Callable[[list[Any]], Any]
    types: tuple[Any, ...]
    reason: str

    def __call__(self, *given: Tensor) -> Tensor:
        """The first output for the inputs in order."""
        return _Valued.apply(self, *given)  # pyright: ignore[reportReturnType]  # torch types it as Any or None

    def values(self, given: tuple[Tensor, ...]) -> Tensor:
        """The same without any record of how."""
        arrays = [
            one.detach().cpu().numpy().astype(kind) for one, kind in zip(given, self.types, strict=True)
        ]
        return torch.from_numpy(self.run(arrays)).to(given[0])

    def refused(self) -> SettingError:
        """The sentence for a lens that asks for a derivative."""
        return SettingError(
            f"a derivative of an ONNX graph with {self.reason}",
            "operators that the reader knows, see workbench.adapters.onnx_ops.OPERATORS",
            "a lens that needs values only, or exporting the network as weights",
        )


class _Valued(torch.autograd.Function):
    """Values from onnxruntime; a derivative is refused in words."""

    @staticmethod
    def forward(session: Session, *given: Tensor) -> Tensor:
        return session.values(given)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.session = inputs[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise ctx.session.refused()

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise ctx.session.refused()


def open_onnx(source: Path, settings: Settings) -> WrappedModel | Generator | Coder:
    """Open an ONNX graph.

    Args:
        source: The file.
        settings: What was asked for.

    Returns:
        A score model for a graph of (x, t) or (x, t, condition); a decoder for one of a single input.

    Raises:
        MissingExtra: If onnx, or onnxruntime where it is needed, is not installed.
        DataError: If the file is no graph.
        SettingError: If prediction, schedule or a shape is missing.
    """
    onnx = import_extra("onnx")
    if not isinstance(source, Path):
        raise SettingError(f"a {type(source).__name__} as an ONNX graph", "the path of a file")
    try:
        model = onnx.load(str(source))
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(f"unreadable {source} ({str(error)[:120]})", "an ONNX file") from error
    except import_extra("google.protobuf.message").DecodeError as error:
        raise DataError(f"unreadable {source}", "an ONNX file") from error
    held = {one.name for one in model.graph.initializer}
    entries = [entry for entry in model.graph.input if entry.name not in held]
    if not 1 <= len(entries) <= 3:
        raise SettingError(
            f"{source} with {len(entries)} inputs", "one latent, or x, a time and at most one condition"
        )
    unknown = unknown_operators(model)
    ask = _session(source, unknown, onnx, entries) if unknown else read_graph(model, settings)
    shape = settings.shape or _shape(entries[0])
    if shape is None:
        raise SettingError(f"{source} with an input of open shape", "shape=...", "shape=(3, 64, 64)")
    notes = (f"computed by onnxruntime, without derivatives: {unknown[0]} is not known",) if unknown else ()
    name = settings.name or named_after(source)
    if len(entries) == 1:
        with torch.no_grad():
            made = ask(torch.zeros(1, *shape, dtype=settings.dtype, device=settings.device))
        return generator_of(
            ask,
            latent_shape=shape,
            shape=tuple(made.shape[1:]),
            name=name,
            value_range=settings.value_range,
            dtype=settings.dtype,
            batch=settings.batch,
            notes=notes,
        )
    if settings.prediction is None or settings.schedule is None:
        raise SettingError(
            f"{source} without {'prediction' if settings.prediction is None else 'schedule'}",
            "what it predicts and on which schedule",
            "prediction='eps', schedule='vp_cosine', here or in the JSON beside it",
        )
    condition = class_index(settings.condition, settings.classes)
    return wrap(
        _asked(ask, entries),
        prediction=settings.prediction,
        schedule=settings.schedule,
        shape=shape,
        sigma_range=settings.sigma_range,
        name=name,
        data_std=settings.data_std or 1.0,
        value_range=settings.value_range,
        classes=settings.classes,
        dtype=settings.dtype,
        null=settings.null,
        batch=settings.batch,
        notes=notes,
    ).given(condition, said(condition, settings.classes), guidance=settings.guidance)


def unknown_operators(model: Any) -> list[str]:
    """Operators of a graph that the reader does not know, in order of appearance."""
    found = dict.fromkeys(
        node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
        for node in model.graph.node
    )
    return [name for name in found if name not in OPERATORS and name != "Constant"]


def read_graph(model: Any, settings: Settings) -> Graph:
    """A graph as torch operations, its floating constants in the type and on the device asked for."""
    onnx = import_extra("onnx")

    def tensor(value: Any) -> Tensor:
        made = torch.from_numpy(onnx.numpy_helper.to_array(value).copy())
        if made.is_floating_point():
            return made.to(device=settings.device, dtype=settings.dtype)
        return made  # shapes and places stay on the CPU

    constants = {one.name: tensor(one) for one in model.graph.initializer}
    held = set(constants)
    steps = []
    for node in model.graph.node:
        attributes: dict[str, Any] = {
            one.name: onnx.helper.get_attribute_value(one) for one in node.attribute
        }
        for key, value in attributes.items():
            if isinstance(value, onnx.TensorProto):
                attributes[key] = tensor(value)
        if node.op_type == "Constant":
            constants[node.output[0]] = _constant(attributes, settings)
            continue
        attributes |= {"outputs": len(node.output), "floating": settings.dtype}
        steps.append(Step(node.op_type, tuple(node.input), tuple(node.output), attributes))
    inputs = tuple(entry.name for entry in model.graph.input if entry.name not in held)
    return Graph(tuple(steps), constants, inputs, model.graph.output[0].name)


def _constant(attributes: dict[str, Any], settings: Settings) -> Tensor:
    """The value of a Constant, however it is written."""
    (name, value), *_ = attributes.items()
    if isinstance(value, Tensor):
        return value
    kind = settings.dtype if name.startswith("value_float") else torch.int64
    return torch.as_tensor(value, dtype=kind)


def _session(path: Path, unknown: list[str], onnx: Any, entries: list[Any]) -> Session:
    """The file in onnxruntime, on the CPU."""
    runtime = import_extra("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    try:
        made = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except (RuntimeError, ValueError) as error:
        raise DataError(
            f"{path} with operator {unknown[0]} ({' '.join(str(error).split())[:120]})", "known operators"
        ) from error
    names = [entry.name for entry in entries]
    types = tuple(onnx.helper.tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type) for entry in entries)

    def run(arrays: list[Any]) -> Any:
        return made.run(None, dict(zip(names, arrays, strict=True)))[0]

    return Session(run, types, f"the operator {unknown[0]}")


def _shape(entry: Any) -> tuple[int, ...] | None:
    """Shape of one sample of an input; None where the graph leaves it open."""
    sizes = [size.dim_value for size in entry.type.tensor_type.shape.dim][1:]
    return tuple(sizes) if sizes and all(size > 0 for size in sizes) else None


def _asked(ask: Callable[..., Tensor], entries: list[Any]) -> Callable[[Tensor, Tensor, Any], Tensor]:
    """A graph of (x, t) or (x, t, condition) as a callable of the three."""
    kinds = [entry.type.tensor_type.elem_type for entry in entries]
    ranks = [len(entry.type.tensor_type.shape.dim) for entry in entries]

    def shaped(value: Tensor, place: int, count: int) -> Tensor:
        told = value if kinds[place] in _FLOATS else value.round().long()
        return told.expand(count).reshape(count, *(1,) * (ranks[place] - 1)) if ranks[place] else told[0]

    def module(x: Tensor, t: Tensor, condition: Any) -> Tensor:
        if ranks[1] == 0 and len(t) > 1 and bool((t != t[0]).any()):
            return torch.cat([module(x[i : i + 1], t[i : i + 1], condition) for i in range(len(x))])
        given = [x, shaped(t, 1, len(x))]
        if len(entries) == 3:
            if condition is None:
                raise SettingError(
                    f"no condition for a graph that reads {entries[2].name!r}",
                    "a number or a tensor",
                    "condition=0",
                )
            told = torch.as_tensor(condition, dtype=x.dtype, device=x.device)
            one = told.reshape(1) if told.ndim == 0 else told
            given.append(
                shaped(one, 2, len(x))
                if one.numel() == 1
                else one.expand(len(x), *one.shape[-(ranks[2] - 1) :])
            )
        elif condition is not None:
            raise SettingError(f"condition {condition!r} for a graph of (x, t)", "None", "condition=None")
        return ask(*given)

    return module
