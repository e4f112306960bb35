"""The interpreter runs what is right and names what is wrong."""

import numpy as np
import pytest

from tunesmith.ir import Buffer, DType, LoopNest, NestError, run_nest
from tunesmith.ir.affine import Affine, constant, var
from tunesmith.ir.expr import (
    Binary,
    BinaryOp,
    Compare,
    CompareOp,
    Const,
    Expr,
    Load,
    Reducer,
    Select,
    Unary,
    UnaryOp,
    Within,
)
from tunesmith.ir.loopnest import Alloc, For, If, Let, LetOp, LoopKind, Role, Stmt, Store, Update

ROW, COL = var("i"), var("j")
X = Buffer("x", (10,), DType.F32, Role.INPUT)
W = Buffer("w", (10,), DType.F32, Role.INPUT, const=True)
Y = Buffer("y", (10,), DType.F32, Role.OUTPUT)
PACKED = Buffer("p", (10,), DType.F32, Role.PACKED)
LOCAL = Buffer("t", (4,), DType.F32, Role.LOCAL)
VALUES = np.arange(10, dtype=np.float32)


def loop(
    var_: str, extent: int, *body: Stmt, limits: tuple[Affine, ...] = (), kind: LoopKind = LoopKind.SERIAL
) -> For:
    return For(var_, extent, limits, kind, body)


def run(*body: Stmt, prepare: tuple[Stmt, ...] = ()) -> np.ndarray:
    nest = LoopNest("f", (X, W, PACKED, Y), prepare, body)
    return run_nest(nest, {"x": VALUES, "w": VALUES})["y"]


def copy(value: Expr | None = None, index: Affine = ROW) -> Store:
    return Store("y", (index,), value or Load("x", (index,)))


@pytest.mark.parametrize("kind", list(LoopKind))
def test_loops_of_every_kind(kind: LoopKind) -> None:
    np.testing.assert_array_equal(run(loop("i", 10, copy(), kind=kind)), VALUES)


def test_split_with_a_limited_tail() -> None:
    inner = loop("j", 4, copy(index=ROW * 4 + COL), limits=(constant(10) - ROW * 4,))
    np.testing.assert_array_equal(run(loop("i", 3, inner)), VALUES)


def test_loops_that_start_later() -> None:
    starts = (constant(2) - ROW * 4, constant(-1))
    inner = For("j", 4, (), LoopKind.SERIAL, (copy(index=ROW * 4 + COL),), starts)
    found = run(loop("i", 2, inner))
    assert np.isnan(found[[0, 1, 8, 9]]).all()
    np.testing.assert_array_equal(found[2:8], VALUES[2:8])


def test_empty_loops_and_untouched_outputs_are_nan() -> None:
    found = run(
        loop("i", 10, copy(), limits=(constant(3),)), loop("j", 5, copy(index=COL), limits=(constant(-2),))
    )
    np.testing.assert_array_equal(found[:3], VALUES[:3])
    assert np.isnan(found[3:]).all()


def test_let_and_if() -> None:
    parts = Let(
        "a",
        LetOp.DIV,
        ROW,
        3,
        (Let("b", LetOp.MOD, ROW - 10, 3, (Let("c", LetOp.MIN, ROW, 4, (_sum3(),)),)),),
    )
    expected = [i // 3 + 10 * ((i - 10) % 3) + 100 * min(i, 4) for i in range(10)]
    np.testing.assert_array_equal(run(loop("i", 10, parts)), expected)


def _sum3() -> Stmt:
    total: Expr = Const(0.0)
    conds = [("a", 1.0), ("b", 10.0), ("c", 100.0)]
    for name, factor in conds:
        for n in range(1, 10):  # the value of a variable, by counting the conditions that it meets
            total = Binary(BinaryOp.ADD, total, Within((var(name) - n,), Const(factor), Const(0.0)))
    return If((ROW,), (copy(total),), (copy(Const(-1.0)),))


def test_packing_local_buffers_and_updates() -> None:
    prepare = (loop("i", 10, Store("p", (constant(9) - ROW,), Load("w", (ROW,)))),)
    init = loop("j", 4, Store("t", (COL,), Const(1.0)))
    add = loop("j", 4, Update("t", (COL,), Reducer.SUM, Load("p", (ROW,))))
    body = loop("i", 10, Alloc(LOCAL, (init, add, copy(Load("t", (constant(3),))))))
    np.testing.assert_array_equal(run(body, prepare=prepare), VALUES[::-1] + 1)


def test_select_is_lazy_and_within_does_not_look_outside() -> None:
    outside = Within((constant(8) - ROW,), Load("x", (ROW + 1,)), Const(-1.0))
    np.testing.assert_array_equal(run(loop("i", 10, copy(outside))), [*VALUES[1:], -1])
    guarded = Select(Compare(CompareOp.LT, Load("x", (ROW,)), Const(9.0)), Load("x", (ROW,)), Const(0.0))
    np.testing.assert_array_equal(run(loop("i", 10, copy(guarded))), [*VALUES[:9], 0])


def test_values_are_rounded_when_stored_only() -> None:
    value = Binary(BinaryOp.SUB, Binary(BinaryOp.ADD, Const(1.0), Const(1e-9)), Const(1.0))
    assert run(loop("i", 10, copy(value)))[0] == np.float32((1.0 + 1e-9) - 1.0)
    assert run(loop("i", 10, copy(Const(0.1))))[0] == np.float32(0.1)


def test_functions_answer_as_numpy() -> None:
    x = np.array([-1000, -1, -0.0, 0, 0.5, 1000, np.inf, -np.inf, np.nan, 2], np.float32)
    v = x.astype(np.float64)
    with np.errstate(all="ignore"):
        expected = {
            UnaryOp.EXP: np.exp(v),
            UnaryOp.EXP2: np.exp2(v).astype(np.float32),
            UnaryOp.LOG: np.log(v),
            UnaryOp.LOG2: np.log2(v),
            UnaryOp.LOG10: np.log10(v),
            UnaryOp.SIN: np.sin(v),
            UnaryOp.COS: np.cos(v),
            UnaryOp.SQRT: np.sqrt(v),
            UnaryOp.RSQRT: 1 / np.sqrt(v),
            UnaryOp.TANH: np.tanh(v),
            UnaryOp.SIGMOID: 1 / (1 + np.exp(-v)),
            UnaryOp.ABS: np.abs(v),
        }
        binary = {
            BinaryOp.DIV: v / v[::-1],
            BinaryOp.MAX: np.maximum(v, v[::-1]),
            BinaryOp.MIN: np.minimum(v, v[::-1]),
        }
    for op, wanted in expected.items():
        body = (loop("i", 10, copy(Unary(op, Load("x", (ROW,))))),)
        found = run_nest(LoopNest("f", (X, Y), (), body), {"x": x})["y"]
        np.testing.assert_allclose(found, wanted.astype(np.float32), rtol=1e-6, err_msg=op)
    for b, wanted in binary.items():
        body = (loop("i", 10, copy(Binary(b, Load("x", (ROW,)), Load("x", (constant(9) - ROW,))))),)
        found = run_nest(LoopNest("f", (X, Y), (), body), {"x": x})["y"]
        np.testing.assert_array_equal(found, wanted.astype(np.float32), err_msg=b)


@pytest.mark.parametrize(
    "exponent", [2.0, 3.0, -1.0, -2.0, -3.0, 0.5, -0.5, 0.0, 400.0, -401.0, np.inf, -np.inf, np.nan]
)
def test_powers_answer_as_numpy(exponent: float) -> None:
    x = np.array([-1000, -1, -0.0, 0, 0.5, 1000, np.inf, -np.inf, np.nan, 1], np.float32)
    body = (loop("i", 10, copy(Binary(BinaryOp.POW, Load("x", (ROW,)), Const(exponent)))),)
    with np.errstate(all="ignore"):
        wanted = np.power(x.astype(np.float64), np.full(10, exponent)).astype(np.float32)
        found = run_nest(LoopNest("f", (X, Y), (), body), {"x": x})["y"]
    np.testing.assert_array_equal(found, wanted)
    number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(wanted[number]))


WRONG = {
    r"x\[10\] is outside of shape \(10,\): y\[i\] = x\[i \+ 1\]": (
        loop("i", 10, copy(Load("x", (ROW + 1,)))),
    ),
    r"x\[-1\] is outside": (loop("i", 10, copy(Load("x", (ROW - 1,)))),),
    r"y\[10\] is outside": (loop("i", 11, copy(Const(0.0))),),
    "y is read before it is written": (loop("i", 10, copy(Load("y", (ROW,)))),),
    "y is updated before it is written": (loop("i", 10, Update("y", (ROW,), Reducer.SUM, Const(1.0))),),
    "t is read before it is written": (Alloc(LOCAL, (loop("i", 10, copy(Load("t", (constant(0),)))),)),),
    "x is input and must not be written": (loop("i", 10, Store("x", (ROW,), Const(0.0))),),
    "p is packed and must not be written": (loop("i", 10, Store("p", (ROW,), Const(0.0))),),
    "buffer t does not exist here": (loop("i", 10, copy(Load("t", (ROW,)))),),
    "x has 1 dimensions, not 2": (loop("i", 10, copy(Load("x", (ROW, ROW)))),),
    "vectorized inside vectorized": (
        loop("i", 2, loop("j", 2, copy(), kind=LoopKind.VECTOR), kind=LoopKind.VECTOR),
    ),
    "the limit of loop j depends on vectorized i": (
        loop("i", 2, loop("j", 2, copy(), limits=(ROW,)), kind=LoopKind.VECTOR),
    ),
    "allocated twice": (Alloc(LOCAL, (Alloc(LOCAL, ()),)),),
}


@pytest.mark.parametrize("reason", WRONG)
def test_wrong_nests(reason: str) -> None:
    with pytest.raises(NestError, match=reason):
        run(*WRONG[reason])


def test_a_local_buffer_starts_unwritten_each_time() -> None:
    write = If((constant(0) - ROW,), (Store("t", (constant(0),), Const(1.0)),))
    with pytest.raises(NestError, match="t is read before it is written"):
        run(loop("i", 2, Alloc(LOCAL, (write, copy(Load("t", (constant(0),)))))))


def test_prepare_reads_constants_only() -> None:
    with pytest.raises(NestError, match="prepare reads x, which is not constant"):
        run(loop("i", 10, copy()), prepare=(loop("i", 10, Store("p", (ROW,), Load("x", (ROW,)))),))


def test_inputs_are_checked() -> None:
    with pytest.raises(NestError, match="input x needs an array of shape"):
        run_nest(LoopNest("f", (X,), (), ()), {"x": np.zeros(3)})
