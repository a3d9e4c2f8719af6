"""Operators of ONNX as torch operations, differentiable in their floating inputs.

Each entry takes the node's inputs (tensors, or None where one is left out) and its attributes, and returns
one tensor or a tuple. Shapes that a graph computes travel as integer tensors on the CPU.

References:
    ONNX operators, https://onnx.ai/onnx/operators/
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from workbench.errors import SettingError

Inputs = Sequence[Any]
Attributes = dict[str, Any]
Operator = Callable[[Inputs, Attributes], Any]


def whole(values: Any) -> list[int]:
    """Integers of a shape, an axis list, or an attribute."""
    if values is None:
        return []
    if isinstance(values, Tensor):
        return [int(value) for value in values.reshape(-1).tolist()]
    return [int(value) for value in values] if isinstance(values, list | tuple) else [int(values)]


def _axes(inputs: Inputs, attributes: Attributes, place: int = 1) -> list[int]:
    """Axes from an input of newer operator sets or an attribute of older ones."""
    given = inputs[place] if len(inputs) > place and inputs[place] is not None else attributes.get("axes")
    return whole(given)


def _spatial(pads: list[int], rank: int) -> list[int]:
    """Padding of ONNX (all begins, then all ends) as torch's, last axis first."""
    pads = pads or [0] * (2 * rank)
    return [pads[axis + half * rank] for axis in reversed(range(rank)) for half in (0, 1)]


def _same(attributes: Attributes) -> None:
    """Only explicit padding is read."""
    if attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID", "NOTSET", "VALID"):
        raise SettingError(f"auto_pad {attributes['auto_pad']!r}", "explicit padding", "exporting with it")


def _conv(inputs: Inputs, attributes: Attributes) -> Tensor:
    _same(attributes)
    x, weight = inputs[0], inputs[1]
    bias = inputs[2] if len(inputs) > 2 else None
    rank = x.ndim - 2
    x = F.pad(x, _spatial(whole(attributes.get("pads")), rank))
    stride, dilation = attributes.get("strides", [1] * rank), attributes.get("dilations", [1] * rank)
    convolve = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    return convolve(
        x, weight, bias, stride=tuple(stride), dilation=tuple(dilation), groups=attributes.get("group", 1)
    )


def _conv_transpose(inputs: Inputs, attributes: Attributes) -> Tensor:
    _same(attributes)
    x, weight = inputs[0], inputs[1]
    rank = x.ndim - 2
    pads = whole(attributes.get("pads")) or [0] * (2 * rank)
    if pads[:rank] != pads[rank:]:
        raise SettingError(f"padding {pads} of a ConvTranspose", "equal on both sides")
    convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    return convolve(
        x,
        weight,
        inputs[2] if len(inputs) > 2 else None,
        stride=tuple(attributes.get("strides", [1] * rank)),
        padding=tuple(pads[:rank]),
        output_padding=tuple(attributes.get("output_padding", [0] * rank)),
        groups=attributes.get("group", 1),
        dilation=tuple(attributes.get("dilations", [1] * rank)),
    )


def _pool(kind: str) -> Operator:
    def pool(inputs: Inputs, attributes: Attributes) -> Tensor:
        _same(attributes)
        x, kernel = inputs[0], whole(attributes["kernel_shape"])
        rank = len(kernel)
        pads = _spatial(whole(attributes.get("pads")), rank)
        stride = attributes.get("strides", [1] * rank)
        if kind == "max":
            pooled = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank - 1]
            return pooled(F.pad(x, pads, value=-math.inf), kernel, stride)
        if any(pads) and not attributes.get("count_include_pad", 0):
            ones = F.pad(torch.ones_like(x[:1, :1]), pads)
            average = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank - 1]
            return average(F.pad(x, pads), kernel, stride) / average(ones, kernel, stride)
        return (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank - 1](F.pad(x, pads), kernel, stride)

    return pool


def _gemm(inputs: Inputs, attributes: Attributes) -> Tensor:
    a = inputs[0].T if attributes.get("transA") else inputs[0]
    b = inputs[1].T if attributes.get("transB") else inputs[1]
    made = attributes.get("alpha", 1.0) * (a @ b)
    return (
        made + attributes.get("beta", 1.0) * inputs[2] if len(inputs) > 2 and inputs[2] is not None else made
    )


def _reduce(kind: str) -> Operator:
    def reduce(inputs: Inputs, attributes: Attributes) -> Tensor:
        x, keep = inputs[0], bool(attributes.get("keepdims", 1))
        axes = _axes(inputs, attributes)
        if not axes:
            if attributes.get("noop_with_empty_axes"):
                return x
            axes = list(range(x.ndim))
        if kind == "mean":
            return x.mean(axes, keepdim=keep)
        if kind == "sum":
            return x.sum(axes, keepdim=keep)
        if kind == "squares":
            return x.square().sum(axes, keepdim=keep)
        if kind == "length":
            return x.square().sum(axes, keepdim=keep).sqrt()
        if kind == "prod":
            for axis in sorted((a % x.ndim for a in axes), reverse=True):
                x = x.prod(axis, keepdim=keep)
            return x
        return x.amax(axes, keepdim=keep) if kind == "max" else x.amin(axes, keepdim=keep)

    return reduce


def _group_norm(inputs: Inputs, attributes: Attributes) -> Tensor:
    """In plain operations, which have every derivative."""
    x, groups = inputs[0], attributes["num_groups"]
    made = _normal(x.reshape(len(x), groups, -1), (-1,), attributes.get("epsilon", 1e-5)).reshape(x.shape)
    shape = (1, -1, *(1,) * (x.ndim - 2))
    scale, bias = inputs[1], inputs[2]
    if len(scale) == groups != x.shape[1]:  # one a group, as the first version of the operator had it
        scale, bias = (part.repeat_interleave(x.shape[1] // groups) for part in (scale, bias))
    return made * scale.reshape(shape) + bias.reshape(shape)


def _instance_norm(inputs: Inputs, attributes: Attributes) -> Tensor:
    x = inputs[0]
    shape = (1, -1, *(1,) * (x.ndim - 2))
    made = _normal(x, tuple(range(2, x.ndim)), attributes.get("epsilon", 1e-5))
    return made * inputs[1].reshape(shape) + inputs[2].reshape(shape)


def _layer_norm(inputs: Inputs, attributes: Attributes) -> Tensor:
    x = inputs[0]
    axis = attributes.get("axis", -1) % x.ndim
    made = _normal(x, tuple(range(axis, x.ndim)), attributes.get("epsilon", 1e-5)) * inputs[1]
    return made + inputs[2] if len(inputs) > 2 and inputs[2] is not None else made


def _batch_norm(inputs: Inputs, attributes: Attributes) -> Tensor:
    x, scale, bias, mean, spread = inputs[:5]
    shape = (1, -1, *(1,) * (x.ndim - 2))
    gain = scale * torch.rsqrt(spread + attributes.get("epsilon", 1e-5))
    return x * gain.reshape(shape) + (bias - mean * gain).reshape(shape)


def _normal(x: Tensor, axes: tuple[int, ...], epsilon: float) -> Tensor:
    centred = x - x.mean(axes, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(axes, keepdim=True) + epsilon)


def _reshape(inputs: Inputs, attributes: Attributes) -> Tensor:
    x, wanted = inputs[0], whole(inputs[1])
    if not attributes.get("allowzero"):
        wanted = [x.shape[place] if size == 0 else size for place, size in enumerate(wanted)]
    return x.reshape(wanted)


def _flatten(inputs: Inputs, attributes: Attributes) -> Tensor:
    x, axis = inputs[0], attributes.get("axis", 1)
    return x.reshape(math.prod(x.shape[:axis]), -1)


def _squeeze(inputs: Inputs, attributes: Attributes) -> Tensor:
    axes = _axes(inputs, attributes)
    return inputs[0].squeeze(tuple(axes)) if axes else inputs[0].squeeze()


def _unsqueeze(inputs: Inputs, attributes: Attributes) -> Tensor:
    x, axes = inputs[0], _axes(inputs, attributes)
    rank = x.ndim + len(axes)
    for axis in sorted(a % rank for a in axes):
        x = x.unsqueeze(axis)
    return x


def _split(inputs: Inputs, attributes: Attributes) -> tuple[Tensor, ...]:
    x, axis = inputs[0], attributes.get("axis", 0)
    sizes = whole(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else whole(attributes.get("split"))
    if sizes:
        return x.split(sizes, axis)
    return x.split(-(-x.shape[axis] // attributes["outputs"]), axis)


def _slice(inputs: Inputs, attributes: Attributes) -> Tensor:
    x = inputs[0]
    starts, ends = (
        (whole(inputs[1]), whole(inputs[2]))
        if len(inputs) > 2
        else (
            whole(attributes["starts"]),
            whole(attributes["ends"]),
        )
    )
    axes = _axes(inputs, attributes, 3) or list(range(len(starts)))
    steps = whole(inputs[4]) if len(inputs) > 4 and inputs[4] is not None else [1] * len(starts)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = x.shape[axis]
        places = (
            torch.arange(size)[slice(start, end, step)]
            if step > 0
            else torch.tensor(
                range(size)[start if start < size else None : None if end < -size else end : step]
            )
        )
        x = x.index_select(axis, places.long().to(x.device))
    return x


def _gather(inputs: Inputs, attributes: Attributes) -> Tensor:
    x, places, axis = inputs[0], inputs[1].to(inputs[0].device), attributes.get("axis", 0) % inputs[0].ndim
    places = torch.where(places < 0, places + x.shape[axis], places)
    made = x.index_select(axis, places.reshape(-1).long())
    return made.reshape((*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]))


def _resize(inputs: Inputs, attributes: Attributes) -> Tensor:
    x = inputs[0]
    scales = inputs[2] if len(inputs) > 2 and inputs[2] is not None and inputs[2].numel() else None
    sizes = whole(inputs[3]) if len(inputs) > 3 and inputs[3] is not None else []
    size = sizes[2:]
    if not size:
        if scales is None:
            raise SettingError("a Resize without scales and sizes", "either of them")
        size = [int(n * f) for n, f in zip(x.shape[2:], scales[2:].tolist(), strict=True)]
    mode, place = (
        _text(attributes.get("mode", "nearest")),
        _text(attributes.get("coordinate_transformation_mode", "half_pixel")),
    )
    if mode == "nearest":
        whole_factor = all(out % now == 0 for out, now in zip(size, x.shape[2:], strict=True))
        if not whole_factor:
            raise SettingError(f"a Resize from {tuple(x.shape[2:])} to {tuple(size)}", "a whole factor")
        return F.interpolate(x, size=size, mode="nearest")
    if mode == "linear" and x.ndim == 4 and place in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        return F.interpolate(x, size=size, mode="bilinear", align_corners=place == "align_corners")
    raise SettingError(f"a Resize of mode {mode!r}, {place!r}", "nearest, or linear with half pixels")


def _pad(inputs: Inputs, attributes: Attributes) -> Tensor:
    x = inputs[0]
    pads = whole(inputs[1]) if len(inputs) > 1 else whole(attributes["pads"])
    mode = _text(attributes.get("mode", "constant"))
    fill = float(inputs[2]) if len(inputs) > 2 and inputs[2] is not None else 0.0
    if mode == "constant":
        return F.pad(x, _spatial(pads, x.ndim), value=fill)
    inside = [pads[axis + half * x.ndim] for axis in reversed(range(2, x.ndim)) for half in (0, 1)]
    return F.pad(x, inside, mode={"reflect": "reflect", "edge": "replicate", "wrap": "circular"}[mode])


def _cast(inputs: Inputs, attributes: Attributes) -> Tensor:
    kinds = {9: torch.bool, 6: torch.int32, 7: torch.int64, 2: torch.uint8, 3: torch.int8}
    target = kinds.get(attributes["to"])
    if target is None:
        return inputs[0] if inputs[0].is_floating_point() else inputs[0].to(attributes["floating"])
    return inputs[0].to(target)


def _filled(inputs: Inputs, attributes: Attributes) -> Tensor:
    value = attributes.get("value")
    value = torch.zeros(1, dtype=attributes["floating"]) if value is None else value
    return value.reshape(()).expand(whole(inputs[0])).clone()


def _softmax(inputs: Inputs, attributes: Attributes) -> Tensor:
    return torch.softmax(inputs[0], attributes.get("axis", -1))


def _clip(inputs: Inputs, attributes: Attributes) -> Tensor:
    low = inputs[1] if len(inputs) > 1 else attributes.get("min")
    high = inputs[2] if len(inputs) > 2 else attributes.get("max")
    x = inputs[0]
    x = x if low is None else torch.maximum(x, torch.as_tensor(low).to(x))
    return x if high is None else torch.minimum(x, torch.as_tensor(high).to(x))


def _divided(inputs: Inputs, attributes: Attributes) -> Tensor:
    a, b = inputs
    if a.is_floating_point() or b.is_floating_point():
        return a / b
    return torch.div(a, b, rounding_mode="trunc")


def _gelu(inputs: Inputs, attributes: Attributes) -> Tensor:
    return F.gelu(inputs[0], approximate=_text(attributes.get("approximate", "none")))


def _many(combine: Callable[[Tensor, Tensor], Tensor]) -> Operator:
    def over(inputs: Inputs, attributes: Attributes) -> Tensor:
        made = inputs[0]
        for other in inputs[1:]:
            made = combine(made, other)
        return made

    return over


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _one(function: Callable[[Tensor], Tensor]) -> Operator:
    return lambda inputs, attributes: function(inputs[0])


def _two(function: Callable[[Tensor, Tensor], Tensor]) -> Operator:
    return lambda inputs, attributes: function(inputs[0], inputs[1])


OPERATORS: dict[str, Operator] = {
    "Abs": _one(torch.abs),
    "Add": _two(torch.add),
    "And": _two(torch.logical_and),
    "AveragePool": _pool("average"),
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "Ceil": _one(torch.ceil),
    "Clip": _clip,
    "Concat": lambda inputs, attributes: torch.cat(tuple(inputs), attributes["axis"]),
    "ConstantOfShape": _filled,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Cos": _one(torch.cos),
    "Div": _divided,
    "Dropout": _one(lambda x: x),
    "Einsum": lambda inputs, attributes: torch.einsum(_text(attributes["equation"]), *inputs),
    "Elu": lambda inputs, attributes: F.elu(inputs[0], attributes.get("alpha", 1.0)),
    "Equal": _two(torch.eq),
    "Erf": _one(torch.erf),
    "Exp": _one(torch.exp),
    "Expand": lambda inputs, attributes: (
        inputs[0] * torch.ones(whole(inputs[1]), dtype=inputs[0].dtype, device=inputs[0].device)
    ),
    "Flatten": _flatten,
    "Floor": _one(torch.floor),
    "Gather": _gather,
    "Gelu": _gelu,
    "Gemm": _gemm,
    "GlobalAveragePool": _one(lambda x: x.mean(tuple(range(2, x.ndim)), keepdim=True)),
    "Greater": _two(torch.gt),
    "GreaterOrEqual": _two(torch.ge),
    "GroupNormalization": _group_norm,
    "HardSigmoid": lambda inputs, attributes: (
        attributes.get("alpha", 0.2) * inputs[0] + attributes.get("beta", 0.5)
    ).clamp(0, 1),
    "Identity": _one(lambda x: x),
    "InstanceNormalization": _instance_norm,
    "LayerNormalization": _layer_norm,
    "LeakyRelu": lambda inputs, attributes: F.leaky_relu(inputs[0], attributes.get("alpha", 0.01)),
    "Less": _two(torch.lt),
    "LessOrEqual": _two(torch.le),
    "Log": _one(torch.log),
    "MatMul": _two(torch.matmul),
    "Max": _many(torch.maximum),
    "MaxPool": _pool("max"),
    "Min": _many(torch.minimum),
    "Mul": _two(torch.mul),
    "Neg": _one(torch.neg),
    "Not": _one(torch.logical_not),
    "Or": _two(torch.logical_or),
    "PRelu": lambda inputs, attributes: torch.where(inputs[0] < 0, inputs[1] * inputs[0], inputs[0]),
    "Pad": _pad,
    "Pow": _two(torch.pow),
    "Range": lambda inputs, attributes: torch.arange(
        *(part.item() for part in inputs), dtype=inputs[0].dtype
    ),
    "Reciprocal": _one(torch.reciprocal),
    "ReduceL2": _reduce("length"),
    "ReduceMax": _reduce("max"),
    "ReduceMean": _reduce("mean"),
    "ReduceMin": _reduce("min"),
    "ReduceProd": _reduce("prod"),
    "ReduceSum": _reduce("sum"),
    "ReduceSumSquare": _reduce("squares"),
    "Relu": _one(torch.relu),
    "Reshape": _reshape,
    "Resize": _resize,
    "Shape": lambda inputs, attributes: torch.tensor(
        inputs[0].shape[attributes.get("start", 0) : attributes.get("end")], dtype=torch.int64
    ),
    "Sigmoid": _one(torch.sigmoid),
    "Sign": _one(torch.sign),
    "Sin": _one(torch.sin),
    "Slice": _slice,
    "Softmax": _softmax,
    "Softplus": _one(F.softplus),
    "Split": _split,
    "Sqrt": _one(torch.sqrt),
    "Squeeze": _squeeze,
    "Sub": _two(torch.sub),
    "Sum": _many(torch.add),
    "Tanh": _one(torch.tanh),
    "Tile": lambda inputs, attributes: inputs[0].repeat(*whole(inputs[1])),
    "Transpose": lambda inputs, attributes: inputs[0].permute(
        *(attributes.get("perm") or reversed(range(inputs[0].ndim)))
    ),
    "Unsqueeze": _unsqueeze,
    "Where": lambda inputs, attributes: torch.where(inputs[0], inputs[1], inputs[2]),
}
"""Operator names of the standard domain to what computes them."""
