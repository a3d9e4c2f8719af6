"""Layers of ONNX graphs as torch operations: convolutions, pools, norms, resizing; how attributes are read.

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


def words_of(value: Any) -> str:
    """Text of an attribute."""
    return value.decode() if isinstance(value, bytes) else str(value)


def padding_of(pads: list[int], rank: int) -> list[int]:
    """Padding of ONNX (all begins, then all ends) as torch's, last axis first."""
    pads = pads or [0] * (2 * rank)
    return [pads[axis + half * rank] for axis in reversed(range(rank)) for half in (0, 1)]


def _same(attributes: Attributes) -> None:
    """Only explicit padding is read."""
    if attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID", "NOTSET", "VALID"):
        raise SettingError(f"auto_pad {attributes['auto_pad']!r}", "explicit padding", "exporting with it")


def convolve(inputs: Inputs, attributes: Attributes) -> Tensor:
    """Conv."""
    _same(attributes)
    x, weight = inputs[0], inputs[1]
    bias = inputs[2] if len(inputs) > 2 else None
    rank = x.ndim - 2
    x = F.pad(x, padding_of(whole(attributes.get("pads")), rank))
    stride, dilation = attributes.get("strides", [1] * rank), attributes.get("dilations", [1] * rank)
    convolve = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    return convolve(
        x, weight, bias, stride=tuple(stride), dilation=tuple(dilation), groups=attributes.get("group", 1)
    )


def convolve_back(inputs: Inputs, attributes: Attributes) -> Tensor:
    """ConvTranspose."""
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


def pool_of(kind: str) -> Operator:
    """A pooling operator by its kind, "max" or "average"."""

    def pool(inputs: Inputs, attributes: Attributes) -> Tensor:
        _same(attributes)
        x, kernel = inputs[0], whole(attributes["kernel_shape"])
        rank = len(kernel)
        pads = padding_of(whole(attributes.get("pads")), rank)
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


def affine(inputs: Inputs, attributes: Attributes) -> Tensor:
    """Gemm."""
    a = inputs[0].T if attributes.get("transA") else inputs[0]
    b = inputs[1].T if attributes.get("transB") else inputs[1]
    made = attributes.get("alpha", 1.0) * (a @ b)
    return (
        made + attributes.get("beta", 1.0) * inputs[2] if len(inputs) > 2 and inputs[2] is not None else made
    )


def group_norm(inputs: Inputs, attributes: Attributes) -> Tensor:
    """In plain operations, which have every derivative."""
    x, groups = inputs[0], attributes["num_groups"]
    made = _normal(x.reshape(len(x), groups, -1), (-1,), attributes.get("epsilon", 1e-5)).reshape(x.shape)
    shape = (1, -1, *(1,) * (x.ndim - 2))
    scale, bias = inputs[1], inputs[2]
    if len(scale) == groups != x.shape[1]:  # one a group, as the first version of the operator had it
        scale, bias = (part.repeat_interleave(x.shape[1] // groups) for part in (scale, bias))
    return made * scale.reshape(shape) + bias.reshape(shape)


def instance_norm(inputs: Inputs, attributes: Attributes) -> Tensor:
    """InstanceNormalization."""
    x = inputs[0]
    shape = (1, -1, *(1,) * (x.ndim - 2))
    made = _normal(x, tuple(range(2, x.ndim)), attributes.get("epsilon", 1e-5))
    return made * inputs[1].reshape(shape) + inputs[2].reshape(shape)


def layer_norm(inputs: Inputs, attributes: Attributes) -> Tensor:
    """LayerNormalization."""
    x = inputs[0]
    axis = attributes.get("axis", -1) % x.ndim
    made = _normal(x, tuple(range(axis, x.ndim)), attributes.get("epsilon", 1e-5)) * inputs[1]
    return made + inputs[2] if len(inputs) > 2 and inputs[2] is not None else made


def batch_norm(inputs: Inputs, attributes: Attributes) -> Tensor:
    """BatchNormalization, as in evaluation."""
    x, scale, bias, mean, spread = inputs[:5]
    shape = (1, -1, *(1,) * (x.ndim - 2))
    gain = scale * torch.rsqrt(spread + attributes.get("epsilon", 1e-5))
    return x * gain.reshape(shape) + (bias - mean * gain).reshape(shape)


def _normal(x: Tensor, axes: tuple[int, ...], epsilon: float) -> Tensor:
    centred = x - x.mean(axes, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(axes, keepdim=True) + epsilon)


def resize(inputs: Inputs, attributes: Attributes) -> Tensor:
    """Resize to sizes or by scales, nearest or linear."""
    x = inputs[0]
    scales = inputs[2] if len(inputs) > 2 and inputs[2] is not None and inputs[2].numel() else None
    sizes = whole(inputs[3]) if len(inputs) > 3 and inputs[3] is not None else []
    size = sizes[2:]
    if not size:
        if scales is None:
            raise SettingError("a Resize without scales and sizes", "either of them")
        size = [int(n * f) for n, f in zip(x.shape[2:], scales[2:].tolist(), strict=True)]
    mode, place = (
        words_of(attributes.get("mode", "nearest")),
        words_of(attributes.get("coordinate_transformation_mode", "half_pixel")),
    )
    if mode == "nearest":
        whole_factor = all(out % now == 0 for out, now in zip(size, x.shape[2:], strict=True))
        if not whole_factor:
            raise SettingError(f"a Resize from {tuple(x.shape[2:])} to {tuple(size)}", "a whole factor")
        return F.interpolate(x, size=size, mode="nearest")
    if mode == "linear" and x.ndim == 4 and place in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        return F.interpolate(x, size=size, mode="bilinear", align_corners=place == "align_corners")
    raise SettingError(f"a Resize of mode {mode!r}, {place!r}", "nearest, or linear with half pixels")
