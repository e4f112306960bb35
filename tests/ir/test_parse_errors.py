"""What the language refuses, why, and where it says the mistake is."""

import pytest

from tunesmith.ir import LimitError, Limits, ProgramError, parse

# Signature, statements, part of the reason, line and column of the mistake (the statements start at 2, 5).
CASES = [
    ("x: f32[4]", "return y", "y is not defined", 2, 12),
    ("x: f32[4]", "y = x + 1\n    return x", "y is never used", 2, 5),
    ("x: f32[4], z: f32[2]", "return x * 1", "input z is never used", 1, 18),
    ("x: f32[4]", "y = x\n    y = x\n    return y", "y is assigned twice", 3, 5),
    ("x: f32[4]", "x = x + 1\n    return x", "x is an input and cannot be assigned", 2, 5),
    ("x: f32[4], x: f32[4]", "return x", "two inputs are called x", 1, 18),
    ("x: f32[4]", "y[i] = y[i] + x[i]\n    return y", "y is not defined", 2, 12),
    ("x: f32[4]", "y = x * 1", "must return a value", 2, 5),
    ("x: f32[4]", "return x * 1\n    y = x", "must return a value", 3, 5),
    ("x: f32[4]", "return", "must return a value", 2, 5),
    ("x: f32[4]", "return y, y", "y is not defined", 2, 12),
    ("x: f32[4]", "y = x * 1\n    return y, y", "y is returned twice", 3, 15),
    # types
    ("x: f16[4]", "return x", "unknown type 'f16'; f32 and f64 are supported", 1, 10),
    ("x: const[i8[4]]", "return x", "unknown type 'i8'", 1, 16),
    ("x: f32[4], y: f64[4]", "return x + y", "types are mixed: x is f32, y is f64", 2, 12),
    ("x: f32[0]", "return x", "an extent must be at least 1, not 0", 1, 14),
    ("x: f32[-3]", "return x", "an extent must be at least 1, not -3", 1, 14),
    ("x: f32[n]", "return x", "an extent must be an integer", 1, 14),
    ("x: f32[2.0]", "return x", "an extent must be an integer", 1, 14),
    ("x: f32[True]", "return x", "an extent must be an integer", 1, 14),
    ("x", "return x", "input x needs a type", 1, 7),
    ("x: f32[4] = 1", "return x", "default values are not supported", 1, 19),
    ("*x: f32[4]", "return x", "a program needs at least one input|starred", 1, None),
    ("x: f32[4], *y", "return x", "starred parameters", 1, 19),
    ("x: f32[4], *, y: f32[4]", "return x", "only plain parameters", 1, 21),
    # accesses
    ("x: f32[4], z: f32[5]", "return x[i] + z[i]", "axis i has extent 4 by dimension 0 of x", 2, 21),
    ("x: f32[4]", "return x[i] + x[i + 1]", "index i + 1 reaches 4, out of range for dimension 0", 2, 21),
    ("x: f32[4]", "return x[i] + x[i - 1]", "index i - 1 reaches -1", 2, 21),
    ("x: f32[4, 4]", "return x[i, -1]", "index -1 is out of range", 2, 17),
    ("x: f32[4, 4]", "return x[i, 4]", "index 4 is out of range", 2, 17),
    ("x: f32[4]", "return x[i + j]", "the extent of axis i cannot be inferred, i + j of x also", 2, 14),
    ("x: f32[4]", "y[i, j] = x[i]\n    return y", "extent of axis j cannot be inferred", 2, 10),
    ("x: f32[4]", "y[i:9] = x[i]\n    return y", "index i reaches 8", 2, 16),
    ("x: f32[4]", "y[i:0] = x[i]\n    return y", "an extent must be an integer of at least 1", 2, 9),
    ("x: f32[4]", "return sum(x[2*i + 9*r], r=2)", "out of range", 2, 18),
    ("x: f32[4]", "return x[i, j]", "x has 1 dimensions, not 2", 2, 12),
    ("x: f32[4]", "return x[i] + x", "x has 1 dimensions; index it", 2, 19),
    ("x: f32[4]", "return x[i] * i", "axis i cannot be used as a value", 2, 19),
    ("x: f32[4, 4]", "return x[i*j, j]", "a product of axes is not supported", 2, 14),
    ("x: f32[4]", "return x[i // 2]", "// and % are not supported in an index", 2, 14),
    ("x: f32[4]", "return x[i % 2]", "// and % are not supported in an index", 2, 14),
    ("x: f32[4], y: f32[4]", "return x[y[i]]", "depends on data", 2, 14),
    ("x: f32[4], y: f32[4]", "return x[y]", "depends on data", 2, 14),
    ("x: f32[4]", "return x[0:2]", "slices are not supported", 2, 14),
    ("x: f32[4]", "return x[0.5]", "an index must be an integer", 2, 14),
    ("x: f32[4]", "return x[f(i)]", "must be affine", 2, 14),
    ("x: f32[4]", f"return x[{1 << 62}*4*i]", "does not fit in 64 bits", 2, 14),
    ("x: f32[4]", "return (x * 2)[i]", "only a tensor can be indexed", 2, 13),
    ("x: f32[4]", "y[i] = x[j]\n    return y", "axis j is neither on the left nor reduced over", 2, 14),
    ("x: f32[4]", "y[i, i] = x[i]\n    return y", "axis i appears twice", 2, 10),
    ("x: f32[4]", "y[i + 1] = x[i]\n    return y", "an axis on the left is a name", 2, 7),
    ("x: f32[4]", "y[x] = x[0]\n    return y", "x is a tensor and cannot be an axis", 2, 7),
    # reductions
    ("x: f32[4]", "return sum(x[i], k)", "reduce axis k does not occur", 2, 12),
    ("x: f32[4]", "y[i] = sum(x[i], i)\n    return y", "i is an axis here already", 2, 22),
    ("x: f32[4, 4]", "return sum(x[i, k], k) + x[k, 0]", "k is reduced over in this statement", 2, 32),
    ("x: f32[4]", "return sum(x[i], 0)", "a reduce axis must be a name", 2, 22),
    ("x: f32[4]", "return sum(x[i], ())", "sum needs at least one reduce axis", 2, 12),
    ("x: f32[4]", "return sum(x[k], x)", "x is a tensor and cannot be a reduce axis", 2, 22),
    ("x: f32[4]", "return sum(x[k], axis=0)", "axis= is array form", 2, 22),
    ("x: f32[4]", "return sum(x, 0)", "write sum(x, axis=", 2, 19),
    ("x: f32[4]", "return sum(x, axis=1)", "axis 1 is out of range for 1 dimensions", 2, 24),
    ("x: f32[4]", "return sum(x, axis=(0, 0))", "an axis is named twice", 2, 24),
    ("x: f32", "return sum(x)", "sum has nothing to reduce", 2, 12),
    # arrays
    ("x: f32[4], y: f32[5]", "return x + y", r"shapes do not broadcast: \(4,\), \(5,\)", 2, 12),
    ("x: f32[4, 5], y: f32[4, 5]", "return x @ y", "do not fit a matrix product", 2, 12),
    ("x: f32[4], y: f32", "return x @ y", "do not fit a matrix product", 2, 12),
    ("x: f32[4, 5]", "return x.reshape(20)", "merges dimensions", 2, 12),
    ("x: f32[4, 5]", "return x.reshape(3, -1)", "20 elements do not fit", 2, 12),
    ("x: f32[4, 5]", "return x.reshape(0, 4)", "extents of at least 1", 2, 12),
    ("x: f32[4, 5]", "return x.transpose(0, 0)", "each of 2 dimensions once", 2, 12),
    ("x: f32[4, 5]", "return pad(x, ((1, 1),))", "pad needs 2 pairs", 2, 19),
    ("x: f32[4]", "return pad(x, ((-1, 1),))", "cannot take elements away", 2, 19),
    ("x: f32[4], y: f32[4, 4]", "return concat([x, y], 0)", "shapes differ in more than axis 0", 2, 12),
    ("x: f32[4]", "return x.foo", "the attribute .foo is not supported", 2, 12),
    ("x: f32[4]", "return x.foo()", "unknown method .foo", 2, 12),
    ("x: f32[4]", "return softmax(x)[i]", "only a tensor can be indexed", 2, 12),
    ("x: f32[4]", "return softmax(x[i])", "softmax is array form", 2, 12),
    ("x: f32[4, 4]", "return x[i, j] @ x[j, i]", "@ is array form", 2, 12),
    ("x: f32[4, 4]", "return layer_norm(x, x)", "layer_norm is over the last axis", 2, 12),
    ("x: f32[4]", "return pad(x, ((1, 1),), mode=1)", "pad takes x, widths, value", 2, 30),
    # conditions
    ("x: f32[4]", "return x > 0", "a comparison is only allowed as the condition", 2, 12),
    ("x: f32[4]", "return where(x, x, x)", "must be one comparison", 2, 18),
    ("x: f32[4]", "return where(0 < x < 1, x, x)", "must be one comparison", 2, 18),
    ("x: f32[4]", "return where(i < 2 or i > 3, x[i], 0)", "comparisons joined by and", 2, 18),
    ("x: f32[4]", "return where(1 <= i < i, x[i], x[i])", "does not depend on any axis", 2, 18),
    ("x: f32[4]", "return where(i != 2, x[i], x[i])", "indices are compared with", 2, 18),
    ("x: f32[4]", "return where(i < 2, x[i + 2], x[i])", None, 0, 0),
    ("x: f32[4]", "return where(i < 3, x[i + 2], x[i])", "index i \\+ 2 reaches 4", 2, 27),
    # what Python has and the language has not
    ("x: f32[4]", "return foo(x)", "unknown function 'foo'", 2, 12),
    ("x: f32[4]", "return geluu(x)", "did you mean gelu", 2, 12),
    ("x: f32[4]", "return exp(x, x)", "exp takes 1 argument, not 2", 2, 12),
    ("x: f32[4]", "return exp(x, k=1)", "exp takes no keyword arguments", 2, 19),
    ("x: f32[4]", "return x // 2", "the operator // is not supported", 2, 12),
    ("x: f32[4]", "return not x", "the operator not is not supported", 2, 12),
    ("x: f32[4]", "return x if x else x", "a conditional expression", 2, 12),
    ("x: f32[4]", "return (lambda: x)", "a lambda is not supported", 2, 13),
    ("x: f32[4]", "return [x for i in x]", "a comprehension is not supported", 2, 12),
    ("x: f32[4]", "return (y := x)", "the walrus operator", 2, 13),
    ("x: f32[4]", "return f'{x}'", "an f-string is not supported", 2, 12),
    ("x: f32[4]", "return x * 'a'", "str values are not supported", 2, 16),
    ("x: f32[4]", "return x * True", "bool values are not supported", 2, 16),
    ("x: f32[4]", "return x * 1j", "complex values are not supported", 2, 16),
    ("x: f32[4]", "return x * 1" + "0" * 400, "the number is too large", 2, 16),
    ("x: f32[4]", "import os\n    return x", "only assignments and a return", 2, 5),
    ("x: f32[4]", "y += x\n    return x", "only assignments and a return", 2, 5),
    ("x: f32[4]", "y: f32 = x\n    return y", "only assignments and a return", 2, 5),
    ("x: f32[4]", "a = b = x\n    return a", "an assignment has one target", 2, 5),
    ("x: f32[4]", "a, b = x, x\n    return a", "an assignment has one target", 2, 5),
    ("x: f32[4]", "return x +", "not valid Python syntax", 2, None),
    ("x: f32[]", "return x", "a scalar is written f32 or f64", 1, None),
]


@pytest.mark.parametrize(("signature", "body", "reason", "line", "column"), CASES)
def test_refused(signature: str, body: str, reason: str | None, line: int, column: int | None) -> None:
    text = f"def f({signature}):\n    {body}\n"
    if reason is None:
        parse(text)
        return
    with pytest.raises(ProgramError) as caught:
        parse(text)
    error = caught.value
    assert any(_matches(part, error.reason) for part in reason.split("|")), error.reason
    assert error.line == line
    assert column is None or error.column == column
    assert str(error) == f"line {error.line}, column {error.column}: {error.reason}"


def _matches(pattern: str, text: str) -> bool:
    return pattern.replace("\\", "") in text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "defines no function"),
        ("x = 1", "only function definitions"),
        ("@jit\ndef f(x: f32[2]):\n  return x", "decorators are not supported"),
        ("async def f(x: f32[2]):\n  return x", "only function definitions"),
        ("def f(x: f32[2]) -> f32[2]:\n  return x", "return annotations"),
        ("def f():\n  return 1", "at least one input"),
        ("def f(x: f32[2]):\n  'only words'", "the function is empty"),
        ("def f(x: f32[2]):\n  return x\x00", "not"),
        ("def f(x: f32[2]):\n  return x\ud800", "not"),
        ("def f(x: f32[2]):\n  return x * " + "9" * 5000, "not valid Python"),
        ("def f(é: f32[2]):\n  return é", "names must be ASCII"),
    ],
)
def test_texts_that_are_no_program(text: str, reason: str) -> None:
    with pytest.raises(ProgramError, match=reason):
        parse(text)


@pytest.mark.parametrize(
    "body",
    [
        "return " + "-" * 3000 + "x",
        "return " + "(" * 150 + "x" + ")" * 150 + " * (" * 120 + "x" + ")" * 120,
        "return " + " + ".join(["x"] * 2000),
        "return " + "gelu(" * 30 + "x" + ")" * 30,
        "return " + "x" * 1000,
        "return x * 1 #" + "#" * 70_000,
        "return " + "exp(" * 5000 + "x" + ")" * 5000,
        "return pad(x, ((0, " + str(1 << 50) + "),))",
        "return sum(x[i] * x[j] * x[k] * x[l] * x[m] * x[n] * x[o] * x[p] * x[q] * x[r], k)",
    ],
)
def test_limits(body: str) -> None:
    with pytest.raises(ProgramError):
        parse(f"def f(x: f32[4]):\n    {body}\n")


def test_limits_are_explicit_and_can_be_tightened() -> None:
    text = "def f(x: f32[4, 8]):\n    y = x * 2\n    return y + 1\n"
    parse(text)
    for limits in (Limits(stages=1), Limits(nodes=2), Limits(elements=31), Limits(rank=1), Limits(extent=7)):
        with pytest.raises(LimitError):
            parse(text, limits=limits)
    with pytest.raises(LimitError, match="the limit is 10"):
        parse(text, limits=Limits(text_bytes=10))


def test_columns_count_characters_not_bytes() -> None:
    with pytest.raises(ProgramError) as caught:
        parse("def f(x: f32[4]):\n    return x * 'é' + y\n")
    assert (caught.value.line, caught.value.column) == (2, 16)
    with pytest.raises(ProgramError) as caught:
        parse("def f(x: f32[4]):\n    'é'; return yy\n")
    assert (caught.value.line, caught.value.column) == (2, 17)


def test_texts_beyond_the_limits_say_where_they_pass_them() -> None:
    small = Limits(text_bytes=40)
    with pytest.raises(LimitError, match="the limit is 40") as caught:
        parse("def f(x: f32[8]):\n    return relu(x) + relu(x)", limits=small)
    assert (caught.value.line, caught.value.column) == (2, 23)
    with pytest.raises(LimitError, match="nested too deeply") as caught:
        parse("def f(x: f32[8]):\n    return " + "-" * 20_000 + "x")
    assert (caught.value.line, caught.value.column) == (1, 1)
