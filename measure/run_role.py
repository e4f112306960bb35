"""The run worker's work: load binaries, verify them, time them."""

import argparse
import contextlib
import importlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tunesmith.codegen.binary import Binary, BufferSpec
from tunesmith.codegen.llvm import host
from tunesmith.ir.loopnest import Role
from tunesmith.ir.program import Program
from tunesmith.measure.arena import GuardedArena, GuardedBuffer, TimingArena
from tunesmith.measure.channel import Channel, error_text, resident_bytes
from tunesmith.measure.hardware import hardware, memory_available
from tunesmith.measure.kernel import BoundKernel, Kernel
from tunesmith.measure.messages import Message, binary_from_json
from tunesmith.measure.peaks import Calibration
from tunesmith.measure.reference import Inputs, Reference, Specials, compute_reference, make_inputs
from tunesmith.measure.target import vector_unit
from tunesmith.measure.timing import Sampler, kernel_clock, time_calls, timing_lock
from tunesmith.measure.verify import compare
from tunesmith.records import Measurement, Protocol, Status

__all__ = ["RunWorker", "TimingBench", "Verifier", "serve"]

_CALIBRATE_EVERY_S = 0.5
_LOCK_WAIT_S = 10.0
_RACE_S = 5.0
_FEWEST_ROUNDS = 3
_EXPECTED = ("BuildError", "TunesmithError")


class Verifier:
    """Runs kernels between guard pages and compares their answers with a reference."""

    def __init__(self, program: Program, inputs: Inputs, reference: Reference) -> None:
        self.reference = reference
        self._arena = GuardedArena()
        self._inputs = {t.name: _frozen(t.name, inputs[t.name], program) for t in program.inputs}

    def verify(self, kernel: Kernel, binary: Binary) -> Measurement:
        """The kernel's answer once; ``max_error`` is the worst over the outputs."""
        buffers = [self._inputs.get(s.name) or self._arena.take(s) for s in binary.buffers]
        try:
            bound = kernel.bind([b.address for b in buffers])
            bound.prepare()
            bound.run()
            return self._judge(binary.buffers, buffers)
        finally:
            self._arena.release()

    def _judge(self, specs: Sequence[BufferSpec], buffers: Sequence[GuardedBuffer]) -> Measurement:
        pairs = list(zip(specs, buffers, strict=True))
        for spec, buffer in pairs:
            if not buffer.intact():
                return Measurement(Status.OUT_OF_BOUNDS, error=f"wrote outside {spec.name}")
        return _verdict(self.reference, {s.name: b.view(s) for s, b in pairs if s.role is Role.OUTPUT})


def _verdict(reference: Reference, outputs: Mapping[str, np.ndarray]) -> Measurement:
    """Whether the outputs are right; ``max_error`` is the worst of them."""
    found = [compare(name, outputs[name], expected) for name, expected in reference.outputs.items()]
    faults = [fault for _, fault in found if fault]
    status = Status.WRONG_ANSWER if faults else Status.OK
    worst = max(error for error, _ in found)
    return Measurement(status, error="\n".join(faults), max_error=worst, tolerance=reference.tolerance)


def _frozen(name: str, values: np.ndarray, program: Program) -> GuardedBuffer:
    tensor = program.tensors[name]
    spec = BufferSpec(name, Role.INPUT, tensor.dtype, tensor.shape)
    buffer = GuardedBuffer(spec.size_bytes, tensor.dtype.size_bytes)
    buffer.view(spec)[...] = values
    buffer.freeze()
    return buffer


class TimingBench:
    """Places for the buffers of kernels that are timed: inputs and outputs stay where they are."""

    def __init__(self, program: Program, inputs: Inputs) -> None:
        specs = [BufferSpec(t.name, Role.INPUT, t.dtype, t.shape) for t in program.inputs]
        outputs = (program.tensors[name] for name in program.outputs)
        specs += [BufferSpec(t.name, Role.OUTPUT, t.dtype, t.shape) for t in outputs]
        self._count = len(specs)
        self._arena = TimingArena(specs)
        self._fixed = {s.name: a for s, a in zip(specs, self._arena.addresses, strict=True)}
        views = {s.name: v for s, v in zip(specs, self._arena.views, strict=True)}
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


class RunWorker:
    def __init__(self, channel: Channel, task: Message, options: argparse.Namespace) -> None:
        self._channel = channel
        self._protocol = Protocol.from_json(task.header["protocol"])
        self._language = importlib.import_module(options.use)
        self._program: Program = self._language.program_from_json(task.header["program"])
        self.hurt = False  # a kernel wrote who knows where
        self._fastest_s: float = task.header["fastest_s"]
        inputs = make_inputs(self._program, task.header["seed"])
        reference = self._stored_reference(options.store) or self._compute(inputs, options.store)
        self._verifier = Verifier(self._program, inputs, reference)
        self._bench = TimingBench(self._program, inputs)
        triple, cpu, features = host()
        vector_bytes, _ = vector_unit(triple.split("-", 1)[0], features)
        self._calibration = Calibration(triple, cpu, features, vector_bytes)
        self._drift, self._calibrated_at = 1.0, time.monotonic()
        self._flush = _flusher() if self._protocol.cache == "cold" else None
        self.handlers: dict[str, Callable[[Message], dict[str, Any]]] = {
            "run": self._run,
            "verify": self._verify,
            "race": self._race,
        }

    def _stored_reference(self, store: int) -> Reference | None:
        """What an earlier worker of this task computed. The first eight bytes come last."""
        head = os.pread(store, 8, 0) if store >= 0 else b""
        size = int.from_bytes(head, "little")
        return Reference.from_bytes(os.pread(store, size, 8)) if size else None

    def _compute(self, inputs: Inputs, store: int) -> Reference:
        reference = compute_reference(self._program, inputs, self._language.evaluate)
        if store >= 0:
            data = reference.to_bytes()
            with contextlib.suppress(OSError):
                if os.pwrite(store, data, 8) == len(data):
                    os.pwrite(store, len(data).to_bytes(8, "little"), 0)
        return reference

    def _stage(self, name: str) -> None:
        self._channel.send(Message("stage", {"stage": name}))

    def _recalibrate(self) -> float:
        if time.monotonic() - self._calibrated_at > _CALIBRATE_EVERY_S:
            self._drift = self._calibration.drift()
            self._calibrated_at = time.monotonic()
        return self._drift

    def _run(self, message: Message) -> dict[str, Any]:
        binary = binary_from_json(message.header["binary"], message.blobs[0])
        self._stage("loading")
        kernel = Kernel(binary)
        self._stage("verifying")
        verdict = self._verifier.verify(kernel, binary)
        if not verdict.ok:
            self.hurt = verdict.status is Status.OUT_OF_BOUNDS
            return verdict.to_json()
        self._stage("timing")
        bound, workspace = self._bench.place(kernel, binary)
        with timing_lock(_LOCK_WAIT_S):
            drift = self._recalibrate()
            clock = kernel_clock(self._protocol, binary.needs_openmp)
            times = time_calls(bound.repeat, self._protocol, message.header["best_s"], self._flush, clock)
        del workspace
        again = _verdict(self._verifier.reference, self._bench.outputs)
        if not again.ok:  # a race between threads, or state that calls leave behind
            self.hurt = True
            return {**again.to_json(), "error": f"after many calls: {again.error}", "drift": drift}
        if min(times) < self._fastest_s:
            error = f"{min(times):.3g} s a call is faster than the roofline allows ({self._fastest_s:.3g} s)"
            return {**verdict.to_json(), "status": Status.REJECTED, "error": error, "drift": drift}
        return {**verdict.to_json(), "times_s": times, "drift": drift}

    def _verify(self, message: Message) -> dict[str, Any]:
        binary = binary_from_json(message.header["binary"], message.blobs[0])
        self._stage("loading")
        kernel = Kernel(binary)
        self._stage("verifying")
        cases = [(seed, Specials.NONE) for seed in message.header["seeds"]]
        if message.header["specials"]:
            cases += [(0, Specials.TAME), (0, Specials.WILD)]
        worst = Measurement(Status.OK, max_error=0.0, tolerance=self._verifier.reference.tolerance)
        for seed, specials in cases:
            inputs = make_inputs(self._program, seed, specials)
            reference = compute_reference(self._program, inputs, self._language.evaluate)
            verdict = Verifier(self._program, inputs, reference).verify(kernel, binary)
            if not verdict.ok:
                where = f"inputs of seed {seed}, specials {specials}: "
                return {**verdict.to_json(), "error": where + verdict.error}
            if (verdict.max_error or 0.0) > (worst.max_error or 0.0):
                worst = verdict
        return worst.to_json()

    def _race(self, message: Message) -> dict[str, Any]:
        """Samples of all binaries in turn, in another order each round."""
        self._stage("loading")
        pairs = zip(message.header["binaries"], message.blobs, strict=True)
        binaries = [binary_from_json(data, code) for data, code in pairs]
        placed = [self._bench.place(Kernel(b), b) for b in binaries]
        clock = kernel_clock(self._protocol, any(b.needs_openmp for b in binaries))
        samplers = [Sampler(bound.repeat, self._protocol, self._flush, clock) for bound, _ in placed]
        times: list[list[float]] = [[] for _ in samplers]
        rng = np.random.default_rng(0)
        self._stage("timing")
        with timing_lock(_LOCK_WAIT_S):
            drift = self._calibration.drift()
            for sampler in samplers:
                sampler.calibrate()
            deadline = time.monotonic() + _RACE_S
            while len(times[0]) < message.header["rounds"]:
                if len(times[0]) >= _FEWEST_ROUNDS and time.monotonic() > deadline:
                    break
                for i in rng.permutation(len(samplers)):
                    times[i].append(samplers[i].sample())
        return {"times": times, "drift": drift}


def _flusher() -> Callable[[], object]:
    """Streams through twice the last cache."""
    facts = hardware()
    size = min(2 * max(facts.l3_bytes, facts.l2_bytes, 1 << 20), memory_available() // 8)
    buffer = np.zeros(size // 8)
    return lambda: np.add(buffer, 1.0, out=buffer)


def _answer(worker: RunWorker, message: Message) -> Message:
    start = time.perf_counter()
    try:
        result = worker.handlers[message.kind](message)
    # The boundary of isolation: whatever a candidate does to the runner is an answer about it.
    except Exception as e:
        result = Measurement(Status.RUN_ERROR, error=error_text(e, _EXPECTED)).to_json()
    seconds = time.perf_counter() - start
    fields = {"result": result, "seconds": seconds, "rss": resident_bytes(), "hurt": worker.hurt}
    return Message("done", fields)


def serve(channel: Channel, options: argparse.Namespace) -> None:
    messages = iter(channel)
    task = next(messages, None)
    if task is None:
        return
    worker = RunWorker(channel, task, options)
    channel.send(Message("ready", {"rss": resident_bytes()}))
    for message in messages:
        channel.send(_answer(worker, message))
