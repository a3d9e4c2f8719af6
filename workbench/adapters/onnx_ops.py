"""Operators of ONNX as torch operations, differentiable in their floating inputs.

Each entry takes the node's inputs (tensors, or None where one is left out) and its attributes, and returns
one tensor or a tuple. Shapes that a graph computes travel as integer tensors on the CPU.

References:
    ONNX operators, https://onnx.ai/onnx/operators/
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from workbench.adapters.onnx_layers import (
    Attributes,
    Inputs,
    Operator,
    affine,
    batch_norm,
    convolve,
    convolve_back,
    group_norm,
    instance_norm,
    layer_norm,
    padding_of,
    pool_of,
    resize,
    whole,
    words_of,
)


def _axes(inputs: Inputs, attributes: Attributes, place: int = 1) -> list[int]:
    """Axes from an input of newer operator sets or an attribute of older ones."""
    given = inputs[place] if len(inputs) > place and inputs[place] is not None else attributes.get("axes")
    return whole(given)


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


def _pad(inputs: Inputs, attributes: Attributes) -> Tensor:
    x = inputs[0]
    pads = whole(inputs[1]) if len(inputs) > 1 else whole(attributes["pads"])
    mode = words_of(attributes.get("mode", "constant"))
    fill = float(inputs[2]) if len(inputs) > 2 and inputs[2] is not None else 0.0
    if mode == "constant":
        return F.pad(x, padding_of(pads, x.ndim), value=fill)
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
    return F.gelu(inputs[0], approximate=words_of(attributes.get("approximate", "none")))


def _many(combine: Callable[[Tensor, Tensor], Tensor]) -> Operator:
    def over(inputs: Inputs, attributes: Attributes) -> Tensor:
        made = inputs[0]
        for other in inputs[1:]:
            made = combine(made, other)
        return made

    return over


def _one(function: Callable[[Tensor], Tensor]) -> Operator:
    return lambda inputs, attributes: function(inputs[0])


def _two(function: Callable[[Tensor, Tensor], Tensor]) -> Operator:
    return lambda inputs, attributes: function(inputs[0], inputs[1])


OPERATORS: dict[str, Operator] = {
    "Abs": _one(torch.abs),
    "Add": _two(torch.add),
    "And": _two(torch.logical_and),
    "AveragePool": pool_of("average"),
    "BatchNormalization": batch_norm,
    "Cast": _cast,
    "Ceil": _one(torch.ceil),
    "Clip": _clip,
    "Concat": lambda inputs, attributes: torch.cat(tuple(inputs), attributes["axis"]),
    "ConstantOfShape": _filled,
    "Conv": convolve,
    "ConvTranspose": convolve_back,
    "Cos": _one(torch.cos),
    "Div": _divided,
    "Dropout": _one(lambda x: x),
    "Einsum": lambda inputs, attributes: torch.einsum(words_of(attributes["equation"]), *inputs),
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
    "Gemm": affine,
    "GlobalAveragePool": _one(lambda x: x.mean(tuple(range(2, x.ndim)), keepdim=True)),
    "Greater": _two(torch.gt),
    "GreaterOrEqual": _two(torch.ge),
    "GroupNormalization": group_norm,
    "HardSigmoid": lambda inputs, attributes: (
        attributes.get("alpha", 0.2) * inputs[0] + attributes.get("beta", 0.5)
    ).clamp(0, 1),
    "Identity": _one(lambda x: x),
    "InstanceNormalization": instance_norm,
    "LayerNormalization": layer_norm,
    "LeakyRelu": lambda inputs, attributes: F.leaky_relu(inputs[0], attributes.get("alpha", 0.01)),
    "Less": _two(torch.lt),
    "LessOrEqual": _two(torch.le),
    "Log": _one(torch.log),
    "MatMul": _two(torch.matmul),
    "Max": _many(torch.maximum),
    "MaxPool": pool_of("max"),
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
    "Resize": resize,
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
