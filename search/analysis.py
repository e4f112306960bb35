"""What the structure of a program says about how a stage can run."""

from tunesmith.ir.affine import var
from tunesmith.ir.expr import Binary, BinaryOp, Expr, Load, Reducer, Unary, Within, loads, walk
from tunesmith.ir.program import Program, Stage

__all__ = [
    "batch_axis",
    "flat_stride",
    "has_reuse",
    "is_constant",
    "is_expensive",
    "is_guarded",
    "lane_axes",
    "reads_pointwise",
    "reduces_contiguously",
    "shared_axes",
]


def batch_axis(program: Program) -> str | None:
    """The first axis of the result, if all that several products on the way compute is needed slice by slice
    along it: then a slice of everything can stay in a cache."""
    *before, last = program.stages
    axis = next((a.name for a in last.axes if a.extent > 1), None)
    if axis is None or program.outputs != (last.name,) or sum(map(has_reuse, program.stages)) < 2:
        return None
    along = {last.name: axis}
    for stage in reversed(before):
        index = [
            (along[c.name], load.index)
            for c in program.consumers(stage.name)
            for load in loads(c.body)
            if load.tensor == stage.name
        ]
        mine = [a.name for d, a in enumerate(stage.axes) if all(i[d] == var(axis) for axis, i in index)]
        if not mine:
            return None
        along[stage.name] = mine[0]
    return axis


def flat_stride(program: Program, load: Load, axis: str) -> int:
    """Elements between the addresses of neighbours along an axis; 0 when the load does not depend on it."""
    stride, total = 1, 0
    for index, extent in zip(reversed(load.index), reversed(program.tensors[load.tensor].shape), strict=True):
        total += index.coefficient(axis) * stride
        stride *= extent
    return total


def has_reuse(stage: Stage) -> bool:
    """Whether some operand is read again for another value of a spatial axis (products, convolutions)."""
    if stage.reducer is None:
        return False
    for load in loads(stage.body):
        names = {n for i in load.index for n in i.names}
        if any(a.extent > 1 and a.name not in names for a in stage.axes):
            return True
    return False


def shared_axes(stage: Stage) -> tuple[str, ...]:
    """Spatial axes that every operand is indexed by: nothing is reused along them (batches, channels)."""
    index_names = [{n for i in load.index for n in i.names} for load in loads(stage.body)]
    return tuple(a.name for a in stage.axes if all(a.name in names for names in index_names))


def is_constant(program: Program, tensor: str) -> bool:
    return any(t.name == tensor and t.const for t in program.inputs)


def is_expensive(stage: Stage) -> bool:
    """Whether recomputing the body costs more than reading a stored value."""
    nodes = list(walk(stage.body))
    return len(nodes) > 24 or any(isinstance(n, Unary) or _is_power(n) for n in nodes)


def _is_power(e: Expr) -> bool:
    return isinstance(e, Binary) and e.op is BinaryOp.POW


def is_guarded(stage: Stage) -> bool:
    return any(isinstance(n, Within) for n in walk(stage.body))


def reads_pointwise(stage: Stage, producer: Stage) -> bool:
    """Whether an elementwise stage reads a producer of its own shape, only at its own index."""
    names = tuple(a.name for a in stage.axes)
    mine = [load for load in loads(stage.body) if load.tensor == producer.name]
    return (
        stage.reducer is None
        and stage.shape == producer.shape
        and bool(mine)
        and all(
            len(i.terms) == 1 and i.terms[0] == (n, 1) and i.const == 0
            for load in mine
            for i, n in zip(load.index, names, strict=True)
        )
    )


def lane_axes(program: Program, stage: Stage, packable: frozenset[str]) -> tuple[str, ...]:
    """Spatial axes to vectorize, the best first: the last one, if operands lie close along it or can be
    packed to; and where a window slides along that one, where padding cuts vectors short, another."""
    wide = [a.name for a in reversed(stage.axes) if a.extent > 1]
    fit = [a for a in wide if _lies_close(program, stage, a, packable)]
    if not wide or wide[0] not in fit or not _has_window(stage, wide[0]):
        return tuple(wide[:1]) if wide and wide[0] in fit else ()
    return (wide[0], *[a for a in fit[1:] if not _has_window(stage, a) and a not in shared_axes(stage)][:1])


def _lies_close(program: Program, stage: Stage, axis: str, packable: frozenset[str]) -> bool:
    strided = [x for x in loads(stage.body) if flat_stride(program, x, axis) not in (0, 1)]
    return all(x.tensor in packable for x in strided)


def _has_window(stage: Stage, axis: str) -> bool:
    """Whether an operand is indexed by the axis and a reduce axis together."""
    reduce = {a.name for a in stage.reduce_axes}
    return any(axis in i.names and reduce & set(i.names) for x in loads(stage.body) for i in x.index)


def reduces_contiguously(program: Program, stage: Stage) -> str | None:
    """A reduce axis along which some operand is contiguous and none is strided."""
    if stage.reducer not in tuple(Reducer):
        return None
    for axis in reversed(stage.reduce_axes):
        strides = [flat_stride(program, x, axis.name) for x in loads(stage.body)]
        if axis.extent > 1 and 1 in strides:
            return axis.name
    return None
