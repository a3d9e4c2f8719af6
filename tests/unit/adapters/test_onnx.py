"""ONNX graphs: every operator against onnxruntime, derivatives, exactness, and what is refused."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch.testing import assert_close

from tests.oracles import frames
from tests.unit.adapters import ideal
from workbench import open_model
from workbench.adapters.onnx_graph import read_graph, unknown_operators
from workbench.adapters.onnx_ops import OPERATORS
from workbench.adapters.settings import Settings
from workbench.errors import DataError, SettingError
from workbench.models import ScoreModel, score

RANDOM = np.random.default_rng(0)
FLOAT, WHOLE = TensorProto.FLOAT, TensorProto.INT64
IMAGE = (2, 4, 6, 6)


def f32(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def i64(*values):
    return np.array(values, dtype=np.int64)


def graph_of(nodes, inputs, constants=(), outputs=1, opset=18):
    """A model file's content from nodes; inputs are (name, type, shape)."""
    entries = [helper.make_tensor_value_info(*one) for one in inputs]
    last = nodes[-1].output
    exits = [helper.make_tensor_value_info(name, 0, None) for name in last[:outputs]]
    for one in exits:
        one.type.Clear()
    held = [numpy_helper.from_array(value, name) for name, value in dict(constants).items()]
    graph = helper.make_graph(nodes, "g", entries, exits, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def one(kind, *constants, shape=IMAGE, opset=18, before=(), **attributes):
    """A graph of one operator on x, further inputs constant; None leaves an input out."""
    names = ["" if value is None else f"c{k}" for k, value in enumerate(constants)]
    node = helper.make_node(kind, ["x", *names], ["out"], **attributes)
    held = {name: value for name, value in zip(names, constants, strict=True) if name}
    return graph_of([*before, node], [("x", FLOAT, shape)], held, opset=opset)


PLAIN = [
    *("Abs", "Ceil", "Cos", "Elu", "Erf", "Exp", "Floor", "GlobalAveragePool", "HardSigmoid", "Identity"),
    *("LeakyRelu", "Log", "Neg", "Reciprocal", "Relu", "Sigmoid", "Sign", "Sin", "Softplus", "Sqrt", "Tanh"),
]
POSITIVE = {"Log", "Sqrt", "Pow", "Reciprocal"}
CASES = {
    **{kind: one(kind) for kind in PLAIN},
    **{kind: one(kind, f32(4, 1, 1)) for kind in ("Add", "Div", "Max", "Min", "Mul", "PRelu", "Sub", "Sum")},
    "Pow": one("Pow", np.float32(1.7)),
    "AveragePool": one("AveragePool", kernel_shape=[2, 2], strides=[2, 2]),
    "AveragePool padded": one("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "AveragePool counting": one("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    "MaxPool": one("MaxPool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
    "BatchNormalization": one("BatchNormalization", f32(4), f32(4), f32(4), np.abs(f32(4)), epsilon=1e-3),
    "InstanceNormalization": one("InstanceNormalization", f32(4), f32(4)),
    "LayerNormalization": one("LayerNormalization", f32(6), f32(6), axis=-1),
    "LayerNormalization wide": one("LayerNormalization", f32(6, 6), axis=2),
    "GroupNormalization": one("GroupNormalization", f32(4), f32(4), num_groups=2, opset=21),
    "GroupNormalization 18": one("GroupNormalization", f32(2), f32(2), num_groups=2),
    "Gelu": one("Gelu", opset=20),
    "Gelu tanh": one("Gelu", opset=20, approximate="tanh"),
    "Clip": one("Clip", np.float32(-0.3), np.float32(0.4)),
    "Clip above": one("Clip", None, np.float32(0.4)),
    "Concat": one("Concat", f32(2, 1, 6, 6), axis=1),
    "Conv": one("Conv", f32(5, 4, 3, 3), f32(5), pads=[1, 0, 2, 1], strides=[2, 1]),
    "Conv groups": one("Conv", f32(4, 2, 3, 3), group=2, dilations=[2, 2]),
    "Conv line": one("Conv", f32(5, 4, 3), shape=(2, 4, 7), pads=[1, 1]),
    "ConvTranspose": one("ConvTranspose", f32(4, 3, 4, 4), f32(3), strides=[2, 2], pads=[1, 1, 1, 1]),
    "ConvTranspose wide": one("ConvTranspose", f32(4, 3, 3, 3), strides=[2, 2], output_padding=[1, 1]),
    "Dropout": one("Dropout"),
    "Einsum": one("Einsum", f32(4, 3), equation="nchw,cd->ndhw"),
    "Expand": one("Expand", i64(3, 2, 4, 6, 6)),
    "Flatten": one("Flatten", axis=2),
    "Gather": one("Gather", i64(3, -1, 0), axis=1),
    "Gather single": one("Gather", np.array(1, dtype=np.int64), axis=2),
    "Gemm": one("Gemm", f32(5, 3), f32(5), shape=(2, 3), transB=1, alpha=0.5, beta=2.0),
    "MatMul": one("MatMul", f32(6, 3)),
    "Pad": one("Pad", i64(0, 0, 1, 2, 0, 0, 0, 1), np.float32(0.5)),
    "Pad reflect": one("Pad", i64(0, 0, 1, 2, 0, 0, 0, 1), mode="reflect"),
    "ReduceL2": one("ReduceL2", i64(1), keepdims=0),
    "ReduceMax": one("ReduceMax", i64(2, 3)),
    "ReduceMean": one("ReduceMean", i64(-1)),
    "ReduceMean old": one("ReduceMean", axes=[1, 2], opset=17),
    "ReduceMin": one("ReduceMin", i64(1)),
    "ReduceProd": one("ReduceProd", i64(1, 2)),
    "ReduceSum": one("ReduceSum", i64(1, 2), keepdims=0),
    "ReduceSum all": one("ReduceSum"),
    "ReduceSumSquare": one("ReduceSumSquare", i64(1)),
    "Reshape": one("Reshape", i64(0, 2, -1)),
    "Resize": one("Resize", None, np.array([1, 1, 2, 2], dtype=np.float32), mode="nearest"),
    "Resize sizes": one("Resize", None, None, i64(2, 4, 12, 18), mode="nearest"),
    "Resize linear": one("Resize", None, np.array([1, 1, 2, 2], dtype=np.float32), mode="linear"),
    "Slice": one("Slice", i64(1, -3), i64(4, 9), i64(1, 3), i64(2, 1)),
    "Slice backwards": one("Slice", i64(5), i64(-7), i64(3), i64(-2)),
    "Softmax": one("Softmax", axis=1),
    "Squeeze": one("Squeeze", i64(1), shape=(2, 1, 3)),
    "Tile": one("Tile", i64(1, 2, 1, 3)),
    "Transpose": one("Transpose", perm=[0, 2, 3, 1]),
    "Transpose all": one("Transpose"),
    "Unsqueeze": one("Unsqueeze", i64(0, -1)),
}


def chain(*nodes, constants=(), shape=IMAGE):
    """A graph of several nodes on x."""
    made = [helper.make_node(kind, list(ins), list(outs), **settings) for kind, ins, outs, settings in nodes]
    return graph_of(made, [("x", FLOAT, shape)], constants)


CASES |= {
    "Split": chain(
        ("Split", ["x", "parts"], ["a", "b"], {"axis": 1}),
        ("Mul", ["b", "b"], ["c"], {}),
        ("Concat", ["a", "c"], ["out"], {"axis": 1}),
        constants={"parts": i64(1, 3)},
    ),
    "Split evenly": chain(
        ("Split", ["x"], ["a", "b"], {"axis": 1, "num_outputs": 2}), ("Sub", ["a", "b"], ["out"], {})
    ),
    "Shape": chain(
        ("Shape", ["x"], ["s"], {}),
        ("Gather", ["s", "zero"], ["n"], {}),
        ("Unsqueeze", ["n", "axis"], ["m"], {}),
        ("Concat", ["m", "rest"], ["t"], {"axis": 0}),
        ("Reshape", ["x", "t"], ["out"], {}),
        constants={"zero": np.array(0, dtype=np.int64), "axis": i64(0), "rest": i64(-1)},
    ),
    "Where": chain(
        ("Greater", ["x", "level"], ["a"], {}),
        ("Less", ["x", "top"], ["b"], {}),
        ("And", ["a", "b"], ["c"], {}),
        ("Not", ["c"], ["d"], {}),
        ("Or", ["d", "a"], ["e"], {}),
        ("Where", ["e", "x", "level"], ["out"], {}),
        constants={"level": np.float32(0.1), "top": np.float32(0.9)},
    ),
    "Equal": chain(
        ("GreaterOrEqual", ["x", "level"], ["a"], {}),
        ("LessOrEqual", ["x", "level"], ["b"], {}),
        ("Equal", ["a", "b"], ["c"], {}),
        ("Cast", ["c"], ["d"], {"to": FLOAT}),
        ("Mul", ["x", "d"], ["out"], {}),
        constants={"level": np.float32(0.1)},
    ),
    "Range": chain(
        ("Range", ["zero", "six", "step"], ["r"], {}),
        ("Cast", ["r"], ["f"], {"to": FLOAT}),
        ("Mul", ["x", "f"], ["out"], {}),
        constants={
            "zero": np.array(0, dtype=np.int64),
            "six": np.array(6, dtype=np.int64),
            "step": np.array(1, dtype=np.int64),
        },
    ),
    "ConstantOfShape": chain(
        ("Shape", ["x"], ["s"], {}),
        (
            "ConstantOfShape",
            ["s"],
            ["c"],
            {"value": numpy_helper.from_array(np.array([2.0], dtype=np.float32))},
        ),
        ("Add", ["x", "c"], ["out"], {}),
    ),
    "Constant": chain(("Constant", [], ["c"], {"value_float": 1.5}), ("Mul", ["x", "c"], ["out"], {})),
}


def peer(model, *arrays):
    """What onnxruntime makes of it."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]
    return torch.from_numpy(np.asarray(session.run(None, dict(zip(names, arrays, strict=True)))[0]))


@pytest.mark.parametrize("case", CASES)
def test_every_operator_is_that_of_onnxruntime(case):
    model = CASES[case]
    shape = [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim]
    x = RANDOM.standard_normal(shape).astype(np.float32)
    x = np.abs(x) + 0.1 if case.split()[0] in POSITIVE else x
    assert not unknown_operators(model)
    found = read_graph(model, Settings())(torch.from_numpy(x))
    expected = peer(model, x)
    assert found.shape == expected.shape
    assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_every_operator_of_the_reader_has_its_case():
    covered = {node.op_type for model in CASES.values() for node in model.graph.node}
    assert covered - {"Constant"} == set(OPERATORS)


def small_net(tmp_path, *, time=FLOAT, rank=1, name="net.onnx", extra=()):
    """A graph of (x, t): one convolution with the time added."""
    shape_t = ["n"] if rank == 1 else []
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"], pads=[1, 1, 1, 1]),
        helper.make_node("Cast", ["t"], ["f"], to=FLOAT),
        helper.make_node("Reshape", ["f", "shape"], ["g"]),
        helper.make_node("Mul", ["g", "scale"], ["k"]),
        helper.make_node("Add", ["h", "k"], ["s"]),
        *extra,
        helper.make_node("Tanh", ["s" if not extra else "u"], ["out"]),
    ]
    inputs = [("x", FLOAT, ["n", 1, 6, 6]), ("t", time, shape_t)]
    constants = {"w": f32(1, 1, 3, 3), "shape": i64(-1, 1, 1, 1), "scale": np.float32(0.01)}
    model = graph_of(nodes, inputs, constants)
    onnx.save(model, tmp_path / name)
    return model, tmp_path / name


SETTINGS = {"prediction": "eps", "schedule": "vp_cosine"}


@pytest.mark.parametrize("time", [FLOAT, WHOLE])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_network_opens_with_values_and_derivatives(tmp_path, time, rank):
    model, path = small_net(tmp_path, time=time, rank=rank)
    opened = open_model(path, **SETTINGS)
    assert isinstance(opened, ScoreModel)
    y, sigma = torch.randn(3, 36), 1.0
    a = 0.5**0.5
    t = np.array([0.5] * 3, dtype=np.float32) if time == FLOAT else np.zeros(3, dtype=np.int64)
    x = (a * y).float().reshape(3, 1, 6, 6).numpy()
    outputs = torch.cat(
        [peer(model, x[i : i + 1], np.array(t[0]) if rank == 0 else t[i : i + 1]) for i in range(3)]
    )
    assert_close(
        opened.denoise(y, sigma), (y - sigma * outputs.flatten(1)), rtol=1e-5, atol=1e-5, check_dtype=False
    )
    exact = open_model(path, **SETTINGS, dtype="float64")
    v, w = torch.randn(2, 3, 36)
    forward = torch.func.jvp(lambda p: exact.denoise(p, sigma), (y,), (v,))[1]
    backward = torch.func.vjp(lambda p: exact.denoise(p, sigma), y)[1](w)[0]
    assert_close((forward * w).sum(), (backward * v).sum(), rtol=1e-9, atol=1e-9)


def test_an_ideal_graph_gives_the_exact_mean(tmp_path, monkeypatch):
    onnx.save(
        graph_of(
            [helper.make_node("Add", ["x", "t"], ["out"])], [("x", FLOAT, ["n", 2]), ("t", FLOAT, ["n"])]
        ),
        tmp_path / "net.onnx",
    )
    answer = ideal.answer(frames.cosine, "eps")
    monkeypatch.setattr("workbench.adapters.onnx_graph.Graph.__call__", lambda self, x, t: answer(x, t))
    opened = open_model(tmp_path / "net.onnx", **SETTINGS, dtype="float64")
    assert max(ideal.worst(opened, sigma) for sigma in (0.02, 0.5, 5.0, 80.0)) <= 1e-10


def test_an_unknown_operator_gives_values_and_names_what_is_lacking(tmp_path):
    extra = (helper.make_node("Acosh", ["v"], ["u"]),)
    before = helper.make_node("Exp", ["s"], ["e"])
    shift = helper.make_node("Add", ["e", "one"], ["v"])
    model, _ = small_net(tmp_path)
    nodes = [*list(model.graph.node)[:-1], before, shift, *extra, helper.make_node("Tanh", ["u"], ["out"])]
    constants = {c.name: numpy_helper.to_array(c) for c in model.graph.initializer} | {"one": np.float32(1.0)}
    odd = graph_of(nodes, [("x", FLOAT, ["n", 1, 6, 6]), ("t", FLOAT, ["n"])], constants)
    onnx.save(odd, tmp_path / "odd.onnx")
    opened = open_model(tmp_path / "odd.onnx", **SETTINGS)
    assert unknown_operators(odd) == ["Acosh"]
    assert any("Acosh" in note for note in opened.frame.notes)
    y = torch.randn(2, 36, dtype=torch.float32)
    x = (0.5**0.5 * y).reshape(2, 1, 6, 6).numpy()
    outputs = peer(odd, x, np.array([0.5, 0.5], dtype=np.float32)).flatten(1)
    assert_close(score(opened, y, 1.0), -outputs, rtol=1e-4, atol=1e-4)
    with pytest.raises(SettingError, match="the operator Acosh"):
        torch.autograd.grad(opened.denoise(y.requires_grad_(), 1.0).sum(), y)
    with pytest.raises(SettingError, match="the operator Acosh"):
        torch.func.jvp(lambda p: opened.denoise(p, 1.0), (y.detach(),), (y.detach(),))


def test_a_graph_of_one_input_is_a_decoder(tmp_path):
    model = graph_of(
        [helper.make_node("Gemm", ["z", "w"], ["h"]), helper.make_node("Reshape", ["h", "s"], ["out"])],
        [("z", FLOAT, ["n", 3])],
        {"w": f32(3, 8), "s": i64(-1, 2, 4)},
    )
    onnx.save(model, tmp_path / "decoder.onnx")
    decoder = open_model(tmp_path / "decoder.onnx", value_range=(-1.0, 1.0))
    z = torch.randn(5, 3, dtype=torch.float32)
    assert decoder.picture.shape == (2, 4)
    assert_close(decoder.decode(z), peer(model, z.numpy()).flatten(1), rtol=1e-5, atol=1e-5)


def test_a_third_input_is_the_condition(tmp_path):
    nodes = [helper.make_node("Mul", ["x", "c"], ["h"]), helper.make_node("Add", ["h", "t"], ["out"])]
    model = graph_of(nodes, [("x", FLOAT, ["n", 2]), ("t", FLOAT, ["n", 1]), ("c", FLOAT, ["n", 1])])
    onnx.save(model, tmp_path / "net.onnx")
    settings = {**SETTINGS, "prediction": "x0"}
    opened = open_model(tmp_path / "net.onnx", condition=0.25, **settings)
    y = torch.randn(3, 2, dtype=torch.float32)
    assert_close(opened.denoise(y, 1.0), 0.25 * 0.5**0.5 * y + 0.5, rtol=1e-5, atol=1e-5)
    with pytest.raises(SettingError, match="no condition"):
        open_model(tmp_path / "net.onnx", **settings).denoise(y, 1.0)


def test_what_is_missing_or_damaged_is_named(tmp_path):
    _, path = small_net(tmp_path)
    with pytest.raises(SettingError, match="without prediction"):
        open_model(path)
    (tmp_path / "bad.onnx").write_bytes(b"\xff\xff\xff\xff nonsense")
    with pytest.raises(DataError, match="unreadable"):
        open_model(tmp_path / "bad.onnx")
    path.with_suffix(".json").write_text('{"kind": "onnx", "prediction": "eps", "schedule": "vp_cosine"}')
    assert open_model(path).frame.name == "net"
