"""What the language means: extents, forms, stages."""

import re
import textwrap

import numpy as np
import pytest
from ir_samples import CONV, DENSE, MIXED, inputs_of

from tunesmith.ir import (
    DType,
    Program,
    ProgramError,
    evaluate,
    format_expr,
    parse,
    verify_program,
    workload_hash,
)
from tunesmith.ir.affine import var
from tunesmith.ir.expr import Binary, BinaryOp, Const, Load, Unary, UnaryOp, Within
from tunesmith.ir.printing import format_program


def program(signature: str, *lines: str) -> Program:
    found = parse(f"def f({signature}):\n" + textwrap.indent("\n".join(lines), "    "))
    verify_program(found)
    return found


def shape_of(p: Program, name: str) -> tuple[int, ...]:
    return p.tensors[name].shape


def test_index_form_makes_a_reduce_stage_and_an_elementwise_one() -> None:
    p = parse(DENSE)
    y, out = p.stages
    assert [(a.name, a.extent) for a in y.axes] == [("i", 8), ("o", 20)]
    assert [(a.name, a.extent) for a in y.reduce_axes] == [("k", 12)]
    assert format_expr(y.body) == "(x[i, k] * w[o, k])"
    assert out.reducer is None and p.outputs == ("out",)
    assert "erf" in format_expr(out.body)


def test_const_operands_and_padding() -> None:
    p = parse(CONV)
    assert [t.const for t in p.inputs] == [False, True, True]
    assert isinstance(p.stage("p").body, Within)
    assert shape_of(p, "p") == (1, 8, 9, 4) and shape_of(p, "y") == (1, 6, 7, 5)


def test_array_elementwise_is_one_stage_after_the_matmul() -> None:
    p = program("a: f32[4, 6], b: f32[5, 6], c: f32[5]", "return relu(a @ b.T + c) * 2 - 1")
    assert [s.name for s in p.stages] == ["out_sum", "out"]


def test_a_reduction_alone_takes_the_assigned_name() -> None:
    p = program("a: f32[4, 6], b: f32[6, 5]", "y = a @ b", "s = sum(y, axis=1)", "return s")
    assert [s.name for s in p.stages] == ["y", "s"]


def test_equal_generated_reductions_are_one_stage() -> None:
    p = program("x: f32[4, 6]", "return exp(x[i, j] - max(x[i, k], k)) + max(x[i, l], l)")
    assert [s.name for s in p.stages] == ["out_max", "out"]


def test_generated_names_keep_clear_of_the_users() -> None:
    p = program("a: f32[4]", "out_sum[i] = a[i] * 2", "return out_sum[i] + sum(a[k], k)")
    assert [s.name for s in p.stages] == ["out_sum", "out_sum_2", "out"]


@pytest.mark.parametrize(
    ("access", "shape"),
    [
        ("x[i, j]", (12, 9)),
        ("x[j, i]", (12, 9)),
        ("x[2*i, j]", (6, 9)),
        ("x[i + 3, j]", (9, 9)),
        ("x[i - 1 + 1, j]", (12, 9)),
        ("x[11 - i, j]", (12, 9)),
        ("x[i, 4]", (12,)),
        ("x[3*i + 1, 2*j]", (4, 5)),
        ("x[i, i]", None),
    ],
)
def test_extents_come_from_the_accesses(access: str, shape: tuple[int, ...] | None) -> None:
    if shape is None:
        with pytest.raises(ProgramError, match="axis i has extent 12 by dimension 0 of x"):
            program("x: f32[12, 9]", f"return {access} * 1")
        return
    # Axes of a returned expression come in the order in which they appear.
    assert program("x: f32[12, 9]", f"return {access} * 1").stages[-1].shape == shape


@pytest.mark.parametrize(("stride", "dilation", "out"), [(1, 1, 12), (2, 1, 6), (3, 2, 4), (1, 3, 8)])
def test_windows_get_the_largest_extent_in_range(stride: int, dilation: int, out: int) -> None:
    p = program("x: f32[14], w: f32[3]", f"return sum(x[{stride}*h + {dilation}*r] * w[r], r)")
    assert p.stages[0].shape == (out,)


def test_two_windows_on_one_axis_take_the_smaller() -> None:
    p = program("x: f32[14], y: f32[10], w: f32[3]", "return sum(x[h + r] * y[h + r] * w[r], r)")
    assert p.stages[0].shape == (8,)


def test_extents_can_be_given() -> None:
    p = program("x: f32[8], z: f32[2]", "y[i:4, j:3] = x[2*i] * z[0]", "return max(y[i, j], j=2)")
    assert shape_of(p, "y") == (4, 3)
    assert p.stages[-1].reduce_axes[0].extent == 2


def test_the_other_branch_of_an_index_condition_is_guarded_where_it_must_be() -> None:
    p = program("a: f32[3], b: f32[4]", "z[i] = where(i < 3, a[i], b[i - 3])", "return z")
    assert shape_of(p, "z") == (7,)
    assert format_expr(p.stages[0].body) == "within(-i + 2 >= 0, a[i], within(i - 3 >= 0, b[i - 3], 0.0))"


def test_conditions_that_always_hold_vanish() -> None:
    p = program("a: f32[3]", "z[i:3] = where(0 <= i and i < 3, a[i], 0)", "return z")
    assert isinstance(p.stages[0].body, Load)


def test_where_on_values_is_a_select() -> None:
    p = program("a: f32[3]", "return where(a > 0, a, 0.1 * a)")
    assert format_expr(p.stages[0].body) == "where(a[i0] > 0.0, a[i0], (0.1 * a[i0]))"


def test_max_of_two_values_and_max_over_an_axis() -> None:
    p = program("a: f32[3, 4], s: f32", "return max(a[i, j], s), max(a[i, j], j), max(a, axis=0), max(a, s)")
    assert [s.reducer for s in p.stages] == [None, "max", "max", None]


def test_scalars_and_types() -> None:
    p = program("x: f64[3], s: f64, t: f64[()]", "return x * s + t")
    assert p.tensors["s"].shape == () == p.tensors["t"].shape
    assert p.stages[0].dtype is DType.F64 is p.stages[0].accumulate


def test_several_outputs_and_outputs_that_are_stages() -> None:
    p = program("a: f32[3, 4]", "y = a * 2", "return y[i, j], a.T, y + 1")
    assert p.outputs == ("y", "out1", "out2")


@pytest.mark.parametrize(
    ("short", "written_out"),
    [
        ("x[i] ** 2", "x[i] * x[i]"),
        ("(x[i] - 1) ** 2", "(x[i] - 1) * (x[i] - 1)"),
        ("-x[i] ** 2", "-(x[i] * x[i])"),
        ("x[i] ** 0.5", "sqrt(x[i])"),
        ("pow(x[i], 0.5)", "sqrt(x[i])"),
        ("x[i] * 2 ** 3", "x[i] * 8"),
        ("x[i] ** 1.5", "power(x[i], 1.5)"),
        ("power(x[i], 2)", "x[i] * x[i]"),
        ("2 ** exp(x[i])", "pow(2, exp(x[i]))"),
    ],
)
def test_powers(short: str, written_out: str) -> None:
    one, other = (parse(f"def f(x: f32[4]):\n    y[i] = {e}\n    return y") for e in (short, written_out))
    assert one == other
    assert parse(format_program(one)) == one


def test_powers_of_something_dear_stay_powers() -> None:
    stage = parse("def f(x: f32[4]):\n    return exp(x) ** 2").stages[0]
    assert stage.body == Binary(BinaryOp.POW, Unary(UnaryOp.EXP, Load("x", (var("i0"),))), Const(2.0))


def test_constants_fold() -> None:
    p = program("a: f32[3]", "return a * (2 * 3 - 4 / 2) - -1")
    assert format_expr(p.stages[0].body) == "((a[i0] * 4.0) - -1.0)"


def test_one_of_several_functions() -> None:
    text = 'def f(a: f32[2]):\n    return a * 1\n\ndef g(a: f32[3]):\n    """Three."""\n    return a * 2\n'
    assert parse(text, name="g").inputs[0].shape == (3,)
    with pytest.raises(ProgramError, match="several functions, choose one by name: f, g"):
        parse(text)
    with pytest.raises(ProgramError, match="defines h nowhere"):
        parse(text, name="h")


ARRAY_CASES = {
    "a @ b": lambda a, b, c, v: a @ b,
    "(a @ b).T": lambda a, b, c, v: (a @ b).T,
    "b.T @ a.T": lambda a, b, c, v: b.T @ a.T,
    "c @ b": lambda a, b, c, v: c @ b,
    "c @ c.transpose(0, 2, 1)": lambda a, b, c, v: c @ c.transpose(0, 2, 1),
    "a @ v": lambda a, b, c, v: a @ v,
    "v @ b": lambda a, b, c, v: v @ b,
    "v @ v": lambda a, b, c, v: v @ v,
    "relu(a) @ b": lambda a, b, c, v: np.maximum(a, 0) @ b,
    "a + v": lambda a, b, c, v: a + v,
    "a - c": lambda a, b, c, v: a - c,
    "c.transpose(2, 0, 1) * 2": lambda a, b, c, v: c.transpose(2, 0, 1) * 2,
    "transpose(c, (1, 0, 2)) * a.reshape(4, 1, 6).sum(axis=0)": lambda a, b, c, v: (
        c.transpose(1, 0, 2) * a.reshape(4, 1, 6).sum(axis=0)
    ),
    "a.reshape(4, 2, 3)": lambda a, b, c, v: a.reshape(4, 2, 3),
    "reshape(a, (1, 2, 2, 1, -1))": lambda a, b, c, v: a.reshape(1, 2, 2, 1, -1),
    "c.reshape(2, 4, 2, 3)": lambda a, b, c, v: c.reshape(2, 4, 2, 3),
    "sum(c)": lambda a, b, c, v: c.sum(),
    "mean(c, axis=(0, 2))": lambda a, b, c, v: c.mean(axis=(0, 2)),
    "c - c.mean(axis=-1, keepdims=True)": lambda a, b, c, v: c - c.mean(axis=-1, keepdims=True),
    "min(c, axis=1) + prod(c, axis=1)": lambda a, b, c, v: c.min(axis=1) + c.prod(axis=1),
    "pad(a, ((1, 0), (0, 2)))": lambda a, b, c, v: np.pad(a, ((1, 0), (0, 2))),
    "pad(exp(a), ((1, 0), (0, 2)), value=-1.5)": lambda a, b, c, v: np.pad(
        np.exp(a), ((1, 0), (0, 2)), constant_values=-1.5
    ),
    "concat([a, b.T * 2, a], 1)": lambda a, b, c, v: np.concatenate([a, b.T[:4] * 2, a], 1),
    "where(a >= v, a, v)": lambda a, b, c, v: np.where(a >= v, a, v),
    "softmax(c, axis=1)": lambda a, b, c, v: np.exp(c) / np.exp(c).sum(axis=1, keepdims=True),
    "rms_norm(a, v, eps=0.1)": lambda a, b, c, v: a / np.sqrt((a * a).mean(-1, keepdims=True) + 0.1) * v,
    "layer_norm(a)": lambda a, b, c, v: (
        (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5)
    ),
    "sigmoid(a) + tanh(a) * abs(a) + log(a * a) / sqrt(a * a + 1)": lambda a, b, c, v: (
        1 / (1 + np.exp(-a)) + np.tanh(a) * np.abs(a) + np.log(a * a) / np.sqrt(a * a + 1)
    ),
    "max(a, 0.5) + min(v, a) - maximum(a, v) + minimum(1, a)": lambda a, b, c, v: (
        np.maximum(a, 0.5) + np.minimum(v, a) - np.maximum(a, v) + np.minimum(1, a)
    ),
    "silu(a) + rsqrt(a * a + 2)": lambda a, b, c, v: a / (1 + np.exp(-a)) + 1 / np.sqrt(a * a + 2),
}


@pytest.mark.parametrize("text", ARRAY_CASES)
def test_array_form_is_numpy(text: str) -> None:
    types = {"a": "f64[4, 6]", "b": "f64[6, 4]", "c": "f64[2, 4, 6]", "v": "f64[6]"}
    used = [n for n in types if re.search(rf"\b{n}\b", text)]
    p = program(", ".join(f"{n}: {types[n]}" for n in used), f"return {text}")
    inputs = inputs_of(p)
    everything = {n: inputs.get(n, np.zeros(1)) for n in types}
    (found,) = evaluate(p, inputs).values()
    np.testing.assert_allclose(found, ARRAY_CASES[text](**everything), rtol=1e-12, atol=1e-13)


def test_forms_can_be_mixed() -> None:
    p = parse(MIXED)
    verify_program(p)
    a, g, b, s = inputs_of(p).values()
    x = (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5) * g + b
    y = np.exp(x * s) / np.exp(x * s).sum(1, keepdims=True)
    z = np.exp(a) / np.exp(a).sum(1, keepdims=True)
    q = np.concatenate([y, z], 1)
    expected = [y @ z.T, q, q.mean(), q.reshape(2, 3, 8), np.abs(a), np.concatenate([g[:2], b])]
    for found, wanted in zip(evaluate(p, inputs_of(p)).values(), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_stack_of_gelus_is_the_written_out_one() -> None:
    short = program("x: f32[4]", "return gelu(x)")
    long = program("x: f32[4]", "return 0.5 * x[i] * (1 + erf(x[i] * 0.7071067811865476))")
    assert workload_hash(short) == workload_hash(long)
