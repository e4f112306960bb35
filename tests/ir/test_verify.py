"""Programs that break a rule of the grammar."""

from dataclasses import replace

import pytest

from tunesmith.ir import Axis, DType, Program, ProgramError, Stage, Tensor, verify_program
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
    Unary,
    UnaryOp,
    Within,
)

F32 = DType.F32
ROW, COL = Axis("i", 4), Axis("j", 3)
X = Tensor("x", (4, 3), F32)
LOAD = Load("x", (var("i"), var("j")))
GOOD = Stage("y", (ROW, COL), (), None, LOAD, F32, F32)


def program(stage: Stage, *more: Stage, outputs: tuple[str, ...] = ("y",)) -> Program:
    return Program("f", (X,), (stage, *more), outputs)


def body(e: Expr) -> Program:
    return program(replace(GOOD, body=e))


def test_a_good_one_passes() -> None:
    verify_program(program(GOOD))
    verify_program(program(replace(GOOD, axes=(ROW,), reduce_axes=(COL,), reducer=Reducer.SUM)))


BAD = {
    "reads x with 1 indices": body(Load("x", (var("i"),))),
    "out of range: index i + 1": body(Load("x", (var("i") + 1, var("j")))),
    "out of range: index j": program(replace(GOOD, axes=(ROW, Axis("j", 4)))),
    "no axis k": body(Load("x", (var("k"), var("j")))),
    "reads z, which is not defined": body(Load("z", ())),
    "comparison, which is no value": body(Compare(CompareOp.LT, LOAD, LOAD)),
    "comparison as a value": body(Unary(UnaryOp.NEG, Compare(CompareOp.LT, LOAD, LOAD))),
    "Within without conditions": body(Within((), LOAD, Const(0.0))),
    "not in normal form": body(Load("x", (Affine((("i", 0),)), var("j")))),
    "two axes of one name": program(replace(GOOD, axes=(ROW, Axis("i", 3)))),
    "extents are at least 1": program(replace(GOOD, axes=(ROW, Axis("j", 0)))),
    "both a reducer and reduce axes": program(replace(GOOD, reducer=Reducer.SUM)),
    "is f64 and reads x, which is f32": program(replace(GOOD, dtype=DType.F64)),
    "defined twice": program(GOOD, GOOD),
    "not an ASCII identifier": program(replace(GOOD, name="a b"), outputs=("a b",)),
    "output z is not a stage": program(GOOD, outputs=("z",)),
    "output x is not a stage": program(GOOD, outputs=("x",)),
    "named twice": program(GOOD, outputs=("y", "y")),
    "no outputs": program(GOOD, outputs=()),
    "limit is 4096": body(Binary(BinaryOp.ADD, LOAD, LOAD)),
}


@pytest.mark.parametrize("reason", BAD)
def test_refused(reason: str) -> None:
    bad = BAD[reason]
    if reason.startswith("limit"):
        e: Expr = LOAD
        for _ in range(13):
            e = Binary(BinaryOp.ADD, e, e)
        bad, reason = body(e), "more than 4096 nodes"
    with pytest.raises(ProgramError, match=reason.replace("+", r"\+")):
        verify_program(bad)


@pytest.mark.parametrize(
    ("conds", "index", "ok"),
    [
        ((var("i") - 1,), var("i") - 1, True),
        ((var("i") - 2,), var("i") - 1, True),
        ((var("i"),), var("i") - 1, False),
        ((var("i") + var("j") - 1,), var("i") + var("j") - 1, False),
        ((var("i") + var("j") - 2, -var("i") - var("j") + 5), var("i") + var("j") - 2, True),
        ((var("i") * 2 - 1,), var("i") - 1, True),
        ((-var("i") - 1,), var("i") + 100, True),
        ((constant(-1),), constant(77), True),
    ],
)
def test_conditions_count(conds: tuple[Affine, ...], index: Affine, ok: bool) -> None:
    p = body(Within(conds, Load("x", (index, constant(0))), Const(0.0)))
    if ok:
        verify_program(p)
    else:
        with pytest.raises(ProgramError, match="out of range"):
            verify_program(p)


def test_the_other_branch_has_no_condition() -> None:
    """It may be evaluated everywhere, so its loads must be in range everywhere."""
    with pytest.raises(ProgramError, match="out of range"):
        verify_program(body(Within((-var("i"),), Const(0.0), Load("x", (var("i") - 1, var("j"))))))
