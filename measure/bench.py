"""Where the buffers of kernels lie while they are timed."""

from tunesmith.codegen.binary import Binary, BufferSpec
from tunesmith.ir.loopnest import Role
from tunesmith.ir.program import Program
from tunesmith.measure.arena import TimingArena
from tunesmith.measure.kernel import BoundKernel, Kernel
from tunesmith.measure.reference import Inputs

__all__ = ["TimingBench"]


class TimingBench:
    """Places for the buffers of kernels that are timed: inputs and outputs stay where they are."""

    def __init__(self, program: Program, inputs: Inputs) -> None:
        specs = [BufferSpec(t.name, Role.INPUT, t.dtype, t.shape) for t in program.inputs]
        outputs = (program.tensors[name] for name in program.outputs)
        specs += [BufferSpec(t.name, Role.OUTPUT, t.dtype, t.shape) for t in outputs]
        self._count = len(specs)
        self._arena = TimingArena(specs)
        self._fixed = {s.name: a for s, a in zip(specs, self._arena.addresses, strict=True)}
        self.views = self._arena.views
        views = {s.name: v for s, v in zip(specs, self.views, strict=True)}
        for name, view in views.items():
            view[...] = inputs.get(name, 0)
        self.outputs = {name: views[name] for name in program.outputs}

    def place(self, kernel: Kernel, binary: Binary) -> tuple[BoundKernel, TimingArena]:
        """The kernel bound to its buffers and prepared, and the workspace to keep alive meanwhile."""
        specs = [s for s in binary.buffers if s.role not in (Role.INPUT, Role.OUTPUT)]
        workspace = TimingArena(specs, self._count)
        for view in workspace.views:
            view[...] = 0
        own = {s.name: a for s, a in zip(specs, workspace.addresses, strict=True)}
        bound = kernel.bind([own.get(s.name) or self._fixed[s.name] for s in binary.buffers])
        bound.prepare()
        return bound, workspace
