"""The libraries that operators are compared with: PyTorch, ONNX Runtime, OpenVINO, NumPy.

Every peer is a function from a workload's arrays to a call without arguments that gives the result. Weights
are constant for all who can use that; each library gets the layout it is best at. One thread each.
"""

import ast
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

__all__ = ["Call", "Spec", "peers_for", "spec_of"]

Call = Callable[[], np.ndarray]
Arrays = Mapping[str, np.ndarray]


class Spec:
    """A named operator with its parameters: ``spec.name``, ``spec.k`` and so on, defaults included."""

    def __init__(self, name: str, parameters: Mapping[str, Any]) -> None:
        self.name = name
        self.parameters = dict(parameters)

    def __getattr__(self, key: str) -> Any:
        try:
            return self.parameters[key]
        except KeyError:
            raise AttributeError(key) from None


def spec_of(text: str) -> Spec:
    import inspect

    from tunesmith.frontend import OPERATORS

    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    signature = inspect.signature(OPERATORS[call.func.id])
    positional = [ast.literal_eval(a) for a in call.args]
    bound = signature.bind(*positional, **{k.arg: ast.literal_eval(k.value) for k in call.keywords if k.arg})
    bound.apply_defaults()
    return Spec(call.func.id, bound.arguments)


def _grouped(spec: Spec, w: np.ndarray) -> np.ndarray:
    """Weights [k, k, ci/groups, groups, co/groups] as [co, ci/groups, k, k]."""
    shape = (spec.co, spec.ci // spec.groups, spec.k, spec.k)
    return np.ascontiguousarray(w.transpose(3, 4, 2, 0, 1).reshape(shape))


# -- PyTorch -------------------------------------------------------------------------------------------------


def _torch_function(
    spec: Spec, a: Arrays
) -> "tuple[Callable[..., Any], list[Any], Callable[[Any], np.ndarray]]":
    """The function, its inputs, and how its result becomes ours."""
    import torch
    import torch.nn.functional as F

    t = {k: torch.from_numpy(v) for k, v in a.items()}
    rank = {"conv1d": 1, "conv3d": 3}.get(spec.name, 2)
    last = {2: torch.channels_last, 3: torch.channels_last_3d}.get(rank)

    def image(x: Any) -> Any:
        x = x.movedim(-1, 1)
        return x.contiguous(memory_format=last) if last else x.contiguous()

    def back(y: Any) -> np.ndarray:
        out: np.ndarray = y.movedim(1, -1).numpy()
        return out

    def plain(y: Any) -> np.ndarray:
        out: np.ndarray = y.numpy()
        return out

    conv = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[rank]
    match spec.name:
        case "conv1d" | "conv2d" | "conv3d":
            w = t["w"].movedim(-1, 0).movedim(-1, 1)
            w = w.contiguous(memory_format=last) if last else w.contiguous()
            b = t.get("b")
            options = {"stride": spec.stride, "padding": spec.pad, "dilation": spec.dilation}
            act = F.relu if spec.act == "relu" else (lambda y: y)
            return (lambda x: act(conv(x, w, b, **options))), [image(t["x"])], back
        case "conv2d_bn_relu":
            w = t["w"].permute(3, 2, 0, 1).contiguous(memory_format=last)
            scale = t["scale"]
            w, b = w * scale[:, None, None, None], t["b"] * scale + t["offset"]
            return (
                (lambda x: F.relu(F.conv2d(x, w, b, stride=spec.stride, padding=spec.pad))),
                [image(t["x"])],
                back,
            )
        case "depthwise_conv2d":
            w = t["w"].permute(2, 0, 1).unsqueeze(1).contiguous()
            c = w.shape[0]
            return (
                (lambda x: F.conv2d(x, w, stride=spec.stride, padding=spec.pad, groups=c)),
                [image(t["x"])],
                back,
            )
        case "group_conv2d":
            g = spec.groups
            w = torch.from_numpy(_grouped(spec, a["w"]))
            return (
                (lambda x: F.conv2d(x, w, stride=spec.stride, padding=spec.pad, groups=g)),
                [image(t["x"])],
                back,
            )
        case "conv2d_transpose":
            w = t["w"].permute(2, 3, 0, 1).contiguous()
            return (
                (lambda x: F.conv_transpose2d(x, w, stride=spec.stride, padding=spec.pad)),
                [image(t["x"])],
                back,
            )
        case "matmul":
            return torch.matmul, [t["a"], t["b"]], plain
        case "batch_matmul":
            return torch.bmm, [t["x"], t["y"]], plain
        case "transpose_batch_matmul":
            return (
                (lambda q, k: torch.matmul(q.permute(0, 2, 1, 3), k.permute(0, 2, 3, 1))),
                [t["q"], t["k"]],
                plain,
            )
        case "dense":
            return (lambda x: F.linear(x, t["w"], t.get("b"))), [t["x"]], plain
        case "softmax":
            return (lambda x: torch.softmax(x, -1)), [t["x"]], plain
        case "layer_norm":
            return (lambda x: F.layer_norm(x, x.shape[-1:], t["gamma"], t["beta"])), [t["x"]], plain
        case "norm":
            return (lambda x: torch.linalg.vector_norm(x, dim=(1, 2))), [t["x"]], plain
        case "attention":
            return _torch_attention, [t["q"], t["k"], t["v"]], plain
    raise NotImplementedError(spec.name)


def _torch_attention(q: Any, k: Any, v: Any) -> Any:
    import torch

    return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5, -1), v)


def torch_eager(spec: Spec, arrays: Arrays) -> tuple[Call, Callable[[], object]]:
    import torch

    torch.set_num_threads(1)
    function, inputs, finish = _torch_function(spec, arrays)
    with torch.inference_mode():
        finish(function(*inputs))

    def run() -> object:
        with torch.inference_mode():
            return function(*inputs)

    return lambda: finish(run()), run


# -- ONNX: one model for both runtimes -----------------------------------------------------------------------


class _Model:
    """An ONNX model of a workload: ``feeds`` are the inputs, ``finish`` brings the result into our layout."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.feeds: dict[str, np.ndarray] = {}
        self.finish: Callable[[np.ndarray], np.ndarray] = lambda y: y

    def const(self, name: str, value: np.ndarray) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def feed(self, name: str, value: np.ndarray) -> str:
        self.feeds[name] = np.ascontiguousarray(value)
        return name

    def node(self, op: str, inputs: list[str], out: str = "out", **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(op, inputs, [out], **attributes))
        return out

    def to_bytes(self) -> bytes:
        from onnx import TensorProto, helper

        inputs = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, list(v.shape)) for n, v in self.feeds.items()
        ]
        output = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "workload", inputs, [output], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        data: bytes = model.SerializeToString()
        return data


def _onnx(spec: Spec, a: Arrays) -> _Model:
    m = _Model()
    front = lambda x: np.moveaxis(x, -1, 1)  # noqa: E731
    back = lambda y: np.moveaxis(y, 1, -1)  # noqa: E731
    match spec.name:
        case "conv1d" | "conv2d" | "conv3d" | "conv2d_bn_relu" | "depthwise_conv2d" | "group_conv2d":
            _onnx_convolution(m, spec, a, front, back)
        case "conv2d_transpose":
            w = m.const("w", a["w"].transpose(2, 3, 0, 1))
            m.node(
                "ConvTranspose",
                [m.feed("x", front(a["x"])), w],
                strides=[spec.stride] * 2,
                pads=[spec.pad] * 4,
            )
            m.finish = back
        case "matmul":
            m.node("MatMul", [m.feed("a", a["a"]), m.feed("b", a["b"])])
        case "batch_matmul":
            m.node("MatMul", [m.feed("x", a["x"]), m.feed("y", a["y"])])
        case "transpose_batch_matmul":
            m.node("Transpose", [m.feed("q", a["q"])], "qt", perm=[0, 2, 1, 3])
            m.node("Transpose", [m.feed("k", a["k"])], "kt", perm=[0, 2, 3, 1])
            m.node("MatMul", ["qt", "kt"])
        case "dense":
            m.node("MatMul", [m.feed("x", a["x"]), m.const("w", a["w"].T)], "y")
            m.node("Add", ["y", m.const("b", a["b"])])
        case "softmax":
            m.node("Softmax", [m.feed("x", a["x"])], axis=-1)
        case "layer_norm":
            inputs = [m.feed("x", a["x"]), m.const("gamma", a["gamma"]), m.const("beta", a["beta"])]
            m.node("LayerNormalization", inputs, axis=-1, epsilon=1e-5)
        case "norm":
            m.node("ReduceL2", [m.feed("x", a["x"])], axes=[1, 2], keepdims=0)
        case "attention":
            m.node("Transpose", [m.feed("k", a["k"])], "kt", perm=[0, 2, 1])
            m.node("MatMul", [m.feed("q", a["q"]), "kt"], "s")
            m.node("Mul", ["s", m.const("scale", np.array(a["q"].shape[-1] ** -0.5, np.float32))], "t")
            m.node("Softmax", ["t"], "p", axis=-1)
            m.node("MatMul", ["p", m.feed("v", a["v"])])
        case _:
            raise NotImplementedError(spec.name)
    return m


def _onnx_convolution(m: _Model, spec: Spec, a: Arrays, front: Any, back: Any) -> None:
    w, group, rank = a["w"], 1, {"conv1d": 1, "conv3d": 3}.get(spec.name, 2)
    x = a["x"]
    if spec.name == "depthwise_conv2d":
        w, group = w.transpose(2, 0, 1)[:, None], w.shape[2]
    elif spec.name == "group_conv2d":
        group = spec.groups
        w = _grouped(spec, w)
    else:
        w = np.moveaxis(np.moveaxis(w, -1, 0), -1, 1)
    bias = [m.const("b", a["b"])] if "b" in a and spec.name != "conv2d_bn_relu" else []
    if spec.name == "conv2d_bn_relu":  # folded into the weights, as runtimes do
        w = w * a["scale"][:, None, None, None]
        bias = [m.const("b", a["b"] * a["scale"] + a["offset"])]
    relu = spec.name == "conv2d_bn_relu" or spec.parameters.get("act") == "relu"
    m.node(
        "Conv", [m.feed("x", front(x)), m.const("w", w), *bias], "y" if relu else "out", group=group,
        strides=[spec.stride] * rank, pads=[spec.pad] * 2 * rank,
        dilations=[spec.parameters.get("dilation", 1)] * rank,
    )  # fmt: skip
    if relu:
        m.node("Relu", ["y"])
    m.finish = back


def onnxruntime(spec: Spec, arrays: Arrays) -> tuple[Call, Callable[[], object]]:
    import onnxruntime as ort

    model = _onnx(spec, arrays)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(model.to_bytes(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in model.feeds.items():
        binding.bind_cpu_input(name, value)
    binding.bind_output("out", "cpu")

    def run() -> object:
        session.run_with_iobinding(binding)
        return binding

    return lambda: (run(), model.finish(binding.copy_outputs_to_cpu()[0]))[1], run


def openvino(spec: Spec, arrays: Arrays) -> tuple[Call, Callable[[], object]]:
    import openvino as ov

    model = _onnx(spec, arrays)
    hints = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    request = (
        ov.Core().compile_model(ov.Core().read_model(model.to_bytes()), "CPU", hints).create_infer_request()
    )
    for name, value in model.feeds.items():
        request.set_tensor(name, ov.Tensor(value, shared_memory=True))

    def run() -> object:
        request.infer()
        return request

    return lambda: (run(), model.finish(request.get_output_tensor(0).data.copy()))[1], run


# -- NumPy ---------------------------------------------------------------------------------------------------


def numpy(spec: Spec, arrays: Arrays) -> tuple[Call, Callable[[], object]]:
    a = arrays
    match spec.name:
        case "matmul":
            out = np.empty((spec.m, spec.n), np.float32)
            call = lambda: np.matmul(a["a"], a["b"], out=out)  # noqa: E731
        case "batch_matmul":
            call = lambda: a["x"] @ a["y"]  # noqa: E731
        case "norm":
            call = lambda: np.sqrt(np.einsum("bij,bij->b", a["x"], a["x"]))  # noqa: E731
        case "softmax":
            call = lambda: _softmax(a["x"])  # noqa: E731
        case _:
            raise NotImplementedError(spec.name)
    return call, call


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def peers_for(spec: Spec, arrays: Arrays) -> dict[str, tuple[Call, Callable[[], object]]]:
    """Those peers that are installed and have the operator: the call with its result, and the call alone."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found = {}
    for peer in (torch_eager, onnxruntime, openvino, numpy):
        try:
            found[peer.__name__] = peer(spec, arrays)
        except (ImportError, NotImplementedError):
            continue
    return found
