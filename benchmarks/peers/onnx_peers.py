"""ONNX Runtime and OpenVINO: one ONNX model of a workload for both."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from peers.spec import CHANNELS_LAST, Arrays, Peer, Spec, capsules_as_images, conv_weights

__all__ = ["onnxruntime", "openvino"]

OPSET = 20


class _Model:
    """A graph under construction. Constants are weights, ``feeds`` what comes with each call."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.feeds: dict[str, np.ndarray] = {}
        self.outputs: list[str] = ["out"]
        self.finish: Callable[[np.ndarray], np.ndarray] = lambda y: y

    def const(self, name: str, value: np.ndarray) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def feed(self, name: str, value: np.ndarray) -> str:
        self.feeds[name] = np.ascontiguousarray(value)
        return name

    def node(self, op: str, inputs: Sequence[str], out: str = "out", **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(op, inputs, [out], **attributes))
        return out

    def ints(self, name: str, *values: int) -> str:
        return self.const(name, np.array(values, np.int64))

    def to_bytes(self) -> bytes:
        from onnx import TensorProto, helper

        def info(name: str, shape: Sequence[int] | None) -> Any:
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

        inputs = [info(n, v.shape) for n, v in self.feeds.items()]
        outputs = [info(n, None) for n in self.outputs]
        graph = helper.make_graph(self.nodes, "workload", inputs, outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
        data: bytes = model.SerializeToString()
        return data


def _model(spec: Spec, a: Arrays) -> _Model:
    m = _Model()
    if spec.name in CHANNELS_LAST or spec.name.endswith("_nchw"):
        _image(m, spec, a)
    else:
        _plain(m, spec, a)
    return m


def _image(m: _Model, spec: Spec, a: Arrays) -> None:
    is_last = spec.name in CHANNELS_LAST
    rank = CHANNELS_LAST.get(spec.name, 2)

    def front(x: np.ndarray) -> np.ndarray:
        x = capsules_as_images(x) if spec.name == "conv2d_capsule" else x
        return np.moveaxis(x, -1, 1) if is_last else x

    def back(y: np.ndarray) -> np.ndarray:
        y = np.moveaxis(y, 1, -1) if is_last else y
        if spec.name == "conv2d_capsule":
            y = y.reshape(spec.n, spec.size, *y.shape[1:3], spec.size, spec.co).transpose(0, 2, 3, 1, 4, 5)
        return y

    m.finish = back
    x = m.feed("x", front(a["x"]))
    window = {"strides": [spec.get("stride", 1) or spec.k] * rank, "pads": [spec.get("pad", 0)] * 2 * rank}
    match spec.name:
        case "max_pool2d" | "max_pool2d_nchw":
            m.node("MaxPool", [x], kernel_shape=[spec.k] * 2, **window)
        case "avg_pool2d" | "avg_pool2d_nchw":
            m.node("AveragePool", [x], kernel_shape=[spec.k] * 2, count_include_pad=1, **window)
        case "global_avg_pool" | "global_avg_pool_nchw":
            m.node("GlobalAveragePool", [x])
        case "global_max_pool":
            m.node("GlobalMaxPool", [x])
        case "conv2d_transpose":
            m.node("ConvTranspose", [x, m.const("w", a["w"].transpose(2, 3, 0, 1))], **window)
        case _:
            _convolution(m, spec, a, x, window, front)


def _convolution(
    m: _Model,
    spec: Spec,
    a: Arrays,
    x: str,
    window: dict[str, Any],
    front: Callable[[np.ndarray], np.ndarray],
) -> None:
    w, groups = conv_weights(spec, a["w"])
    bias = a["b"].reshape(-1) if "b" in a else None
    act = spec.get("act", None)
    if spec.name == "conv2d_bn_relu":  # folded into the weights, as runtimes do
        w, bias, act = w * a["scale"][:, None, None, None], a["b"] * a["scale"] + a["offset"], "relu"
    inputs = [x, m.const("w", w), *([] if bias is None else [m.const("b", bias)])]
    rest = ("res" in a) + (act is not None)
    dilations = [spec.get("dilation", 1)] * len(window["strides"])
    y = m.node("Conv", inputs, "y" if rest else "out", group=groups, dilations=dilations, **window)
    if "res" in a:
        y = m.node("Add", [y, m.feed("res", front(a["res"]))], "z" if act else "out")
    _activate(m, y, act)


def _activate(m: _Model, y: str, act: str | None) -> None:
    match act:
        case None:
            pass
        case "relu" | "tanh" | "sigmoid":
            m.node(act.capitalize(), [y])
        case "gelu" | "gelu_tanh":
            m.node("Gelu", [y], approximate="tanh" if act == "gelu_tanh" else "none")
        case _:
            raise NotImplementedError(act)


def _plain(m: _Model, spec: Spec, a: Arrays) -> None:
    act = spec.get("act", None)
    match spec.name:
        case "matmul":
            x, y = m.feed("a", a["a"]), m.feed("b", a["b"])
            x = m.node("Transpose", [x], "at", perm=[1, 0]) if spec.ta else x
            y = m.node("Transpose", [y], "bt", perm=[1, 0]) if spec.tb else y
            _ends(m, "MatMul", [x, y], [m.feed(n, a[n]) for n in ("bias", "res") if n in a], act)
        case "dense":
            others = [m.const("b", a["b"])] if "b" in a else []
            others += [m.feed("res", a["res"])] if "res" in a else []
            _ends(m, "MatMul", [m.feed("x", a["x"]), m.const("w", a["w"].T)], others, act)
        case "activation":
            x = m.feed("x", a["x"])
            _activate(m, m.node("Add", [x, m.const("b", a["b"])], "y") if "b" in a else x, act)
        case "batch_matmul":
            x, y = m.feed("x", a["x"]), m.feed("y", a["y"])
            x = m.node("Transpose", [x], "xt", perm=[0, 2, 1]) if spec.ta else x
            y = m.node("Transpose", [y], "yt", perm=[0, 2, 1]) if spec.tb else y
            m.node("MatMul", [x, y])
        case "gemv":
            x = m.feed("a", a["a"])
            x = m.node("Transpose", [x], "at", perm=[1, 0]) if spec.ta else x
            m.node("MatMul", [x, m.feed("x", a["x"])])
        case "transpose_batch_matmul":
            m.node("Transpose", [m.feed("q", a["q"])], "qt", perm=[0, 2, 1, 3])
            m.node("Transpose", [m.feed("k", a["k"])], "kt", perm=[0, 2, 3, 1])
            m.node("MatMul", ["qt", "kt"])
        case "softmax":
            m.node("Softmax", [m.feed("x", a["x"])], axis=-1)
        case "layer_norm":
            inputs = [m.feed("x", a["x"]), m.const("gamma", a["gamma"]), m.const("beta", a["beta"])]
            m.node("LayerNormalization", inputs, axis=-1, epsilon=spec.eps)
        case "norm":
            m.node("ReduceL2", [m.feed("x", a["x"]), m.ints("axes", 1, 2)], keepdims=0)
        case "moments":
            x, axes = m.feed("x", a["x"]), m.ints("axes", -1)
            m.node("ReduceMean", [x, axes], "mean", keepdims=1)
            m.node("Sub", [x, "mean"], "centred")
            m.node("Mul", ["centred", "centred"], "squares")
            m.node("ReduceMean", ["squares", axes], "var", keepdims=0)
            m.outputs = ["mean", "var"]
        case "attention":
            m.node("Transpose", [m.feed("k", a["k"])], "kt", perm=[0, 2, 1])
            m.node("MatMul", [m.feed("q", a["q"]), "kt"], "s")
            m.node("Mul", ["s", m.const("scale", np.array(a["q"].shape[-1] ** -0.5, np.float32))], "t")
            m.node("Softmax", ["t"], "p", axis=-1)
            m.node("MatMul", ["p", m.feed("v", a["v"])])
        case _:
            raise NotImplementedError(spec.name)


def _ends(m: _Model, op: str, inputs: Sequence[str], others: Sequence[str], act: str | None) -> None:
    """An operation, sums with other operands, an activation: each feeds the next, the last is ``out``."""
    left = len(others) + (act is not None)
    y = m.node(op, inputs, f"y{left}" if left else "out")
    for other in others:
        left -= 1
        y = m.node("Add", [y, other], f"y{left}" if left else "out")
    _activate(m, y, act)


def onnxruntime(spec: Spec, arrays: Arrays) -> Peer:
    import onnxruntime as ort

    model = _model(spec, arrays)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(model.to_bytes(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in model.feeds.items():
        binding.bind_cpu_input(name, value)
    for name in model.outputs:
        binding.bind_output(name, "cpu")

    def call() -> object:
        return session.run_with_iobinding(binding)

    def results() -> Sequence[np.ndarray]:
        call()
        return [model.finish(y) for y in binding.copy_outputs_to_cpu()]

    results()
    return Peer(call, results)


def openvino(spec: Spec, arrays: Arrays) -> Peer:
    import openvino as ov

    model = _model(spec, arrays)
    hints = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    core = ov.Core()
    request = core.compile_model(core.read_model(model.to_bytes()), "CPU", hints).create_infer_request()
    for name, value in model.feeds.items():
        request.set_tensor(name, ov.Tensor(value, shared_memory=True))

    def results() -> Sequence[np.ndarray]:
        request.infer()
        return [model.finish(request.get_output_tensor(i).data.copy()) for i in range(len(model.outputs))]

    results()
    return Peer(request.infer, results)
