"""What the hash sees and what it does not."""

import pytest
from ir_samples import TEXTS

from tunesmith.ir import (
    anatomy,
    canonical,
    extents,
    parse,
    structure_hash,
    verify_program,
    workload_hash,
)

SAME = {
    "names": (
        "def f(a: f32[4, 6], b: f32[6]):\n    t[i] = sum(a[i, k] * b[k], k)\n    return relu(t)",
        "def g(x: f32[4, 6], y: f32[6]):\n    u[p] = sum(x[p, q] * y[q], q)\n    return relu(u)",
    ),
    "operand order": (
        "def f(a: f32[4], b: f32[4]):\n    return max(a * b + 1, 0)",
        "def f(a: f32[4], b: f32[4]):\n    return max(0, 1 + b * a)",
    ),
    "array and index form": (
        "def f(a: f32[4, 6], b: f32[5, 6], c: f32[5]):\n    return a @ b.T + c",
        "def f(a: f32[4, 6], b: f32[5, 6], c: f32[5]):\n"
        "    z[i, o] = c[o] + sum(b[o, k] * a[i, k], k)\n    return z",
    ),
    "order of reduce axes": (
        "def f(x: f32[9, 9, 4], w: f32[3, 3, 4]):\n"
        "    y[h, v] = sum(x[h + r, v + s, c] * w[r, s, c], (r, s, c))\n    return y",
        "def f(x: f32[9, 9, 4], w: f32[3, 3, 4]):\n"
        "    y[h, v] = sum(w[a, b, c] * x[a + h, v + b, c], (c, b, a))\n    return y",
    ),
    "reduce axes of equal roles": (
        "def f(x: f32[4]):\n    return sum(x[i] * x[j], (i, j))",
        "def f(x: f32[4]):\n    return sum(x[j] * x[i], (i, j))",
    ),
    "comparisons": (
        "def f(x: f32[4]):\n    return where(x > 0, x, 1)",
        "def f(x: f32[4]):\n    return where(0 < x, x, 1)",
    ),
    "constants": (
        "def f(x: f32[4]):\n    return x - 2 * 3",
        "def f(x: f32[4]):\n    return -6 + x",
    ),
    "padding by hand": (
        "def f(x: f32[4]):\n    return pad(x, ((1, 1),))",
        "def f(x: f32[4]):\n    y[i:6] = where(i < 5 and 1 <= i, x[i - 1], 0)\n    return y",
    ),
    "order of stages": (
        "def f(x: f32[4]):\n    a = exp(x)\n    b = tanh(x)\n    return a - b",
        "def f(x: f32[4]):\n    b = tanh(x)\n    a = exp(x)\n    return a - b",
    ),
    "repeated stages": (
        "def f(x: f32[4, 4]):\n    a = tanh(x)\n    b = tanh(x)\n    return a * exp(b)",
        "def f(x: f32[4, 4]):\n    a = tanh(x)\n    return exp(a) * a",
    ),
}

DIFFERENT = {
    "subtraction": (
        "def f(a: f32[4], b: f32[4]):\n    return a - b",
        "def f(a: f32[4], b: f32[4]):\n    return b - a",
    ),
    "inputs": (
        "def f(a: f32[4], b: f32[4, 4]):\n    return a + b",
        "def f(b: f32[4, 4], a: f32[4]):\n    return a + b",
    ),
    "const": ("def f(a: f32[4]):\n    return a * 2", "def f(a: const[f32[4]]):\n    return a * 2"),
    "extents": ("def f(a: f32[4]):\n    return a * 2", "def f(a: f32[5]):\n    return a * 2"),
    "types": ("def f(a: f32[4]):\n    return a * 2", "def f(a: f64[4]):\n    return a * 2"),
    "values": ("def f(a: f32[4]):\n    return a * 2", "def f(a: f32[4]):\n    return a * 3"),
    "outputs": (
        "def f(a: f32[4]):\n    return a * 2, a * 3",
        "def f(a: f32[4]):\n    return a * 3, a * 2",
    ),
    "reducers": (
        "def f(a: f32[4, 4]):\n    return max(a, axis=0)",
        "def f(a: f32[4, 4]):\n    return min(a, axis=0)",
    ),
    "reduced dimension": (
        "def f(a: f32[4, 4]):\n    return sum(a, axis=0)",
        "def f(a: f32[4, 4]):\n    return sum(a, axis=1)",
    ),
}


@pytest.mark.parametrize("what", SAME)
def test_hash_does_not_see(what: str) -> None:
    a, b = map(parse, SAME[what])
    assert workload_hash(a) == workload_hash(b)
    assert canonical(a) == canonical(b)
    assert structure_hash(a) == structure_hash(b)


@pytest.mark.parametrize("what", DIFFERENT)
def test_hash_sees(what: str) -> None:
    a, b = map(parse, DIFFERENT[what])
    assert workload_hash(a) != workload_hash(b)


@pytest.mark.parametrize("text", TEXTS)
def test_canonical_form(text: str) -> None:
    form = canonical(parse(text))
    verify_program(form)
    assert canonical(form) == form
    assert [t.name for t in form.inputs] == [f"x{n}" for n in range(len(form.inputs))]
    assert [s.name for s in form.stages] == [f"t{n}" for n in range(len(form.stages))]


def test_unused_stages_vanish() -> None:
    p = parse("def f(x: f32[4]):\n    a = exp(x)\n    b = tanh(x)\n    return a, b")
    alone = parse("def f(x: f32[4]):\n    return exp(x)")
    without = type(p)(p.name, p.inputs, p.stages, ("a",))
    assert workload_hash(without) == workload_hash(alone)
    assert len(canonical(without).stages) == 1


def test_equal_outputs_stay_two() -> None:
    p = parse("def f(x: f32[4], y: f32[4]):\n    a = x + y\n    b = y + x\n    return a, b")
    form = canonical(p)
    assert len(set(form.outputs)) == 2
    verify_program(form)


CONV = """
def conv(x: f32[{n}, {h}, {h}, {c}], w: f32[3, 3, {c}, {o}]):
    p = pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return relu(sum(p[n, 2*h + r, 2*v + s, c] * w[r, s, c, o], (r, s, c)))
"""


def test_structure_leaves_shapes_out() -> None:
    small, large = parse(CONV.format(n=1, h=8, c=4, o=6)), parse(CONV.format(n=2, h=17, c=3, o=5))
    assert structure_hash(small) == structure_hash(large)
    assert workload_hash(small) != workload_hash(large)
    unpadded = CONV.format(n=1, h=8, c=4, o=6).replace("(1, 1)", "(0, 0)")
    assert structure_hash(parse(unpadded)) != structure_hash(small)
    strided = CONV.format(n=1, h=8, c=4, o=6).replace("2*", "")
    assert structure_hash(parse(strided)) != structure_hash(small)


@pytest.mark.parametrize("body", ["layer_norm(x)", "mean(x, axis=1)", "softmax(x)", "concat([x, x * 2], 1)"])
def test_structure_leaves_out_constants_that_come_from_shapes(body: str) -> None:
    a, b = (parse(f"def f(x: f32[{m}, {n}]):\n    return {body}") for m, n in [(4, 6), (5, 9)])
    assert structure_hash(a) == structure_hash(b)


def test_structure_sees_types_and_operations() -> None:
    base = parse("def f(x: f32[4]):\n    return exp(x)")
    for other in ("def f(x: f64[4]):\n    return exp(x)", "def f(x: f32[4]):\n    return tanh(x)"):
        assert structure_hash(parse(other)) != structure_hash(base)


@pytest.mark.parametrize("other", sorted(DIFFERENT.keys() - {"extents"}))
def test_structure_sees_all_but_extents(other: str) -> None:
    a, b = map(parse, DIFFERENT[other])
    assert structure_hash(a) != structure_hash(b)


GATES = """
def f(x: f32[{m}, {k}], u: f32[{k}, {n}], v: f32[{k}, {n}]):
    return (x @ u) + (x @ v)
"""


def test_extents_have_one_order_whatever_the_canonical_form_calls_them() -> None:
    """Of two products that are added, either may come first: that goes by hashes, which extents enter."""
    orders = set()
    for n in range(1, 17):
        form = canonical(parse(GATES.format(m=5, k=6, n=n)))
        stages = anatomy(form)
        orders.add(tuple(name for name, _ in stages))
        reads = {s.name: s.reads for s in form.stages}
        assert [reads[name][-1] for name, _ in stages[:2]] == ["x1", "x2"]
        assert extents(form) == (5, n, 6, 5, n, 6, 5, n)
    assert len(orders) == 2


def test_hashes_are_stable() -> None:
    """Stored records are found by these; a change needs a migration of every database."""
    p = parse("def f(a: f32[4, 6], b: const[f32[6, 5]]):\n    return relu(a @ b)")
    assert len(workload_hash(p)) == 32
    assert workload_hash(p) == "d4492d9abcb232f271b6d84851a7c445"
    assert structure_hash(p) == "5bdd24610062b9fdf646782be31591a2"
