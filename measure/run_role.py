"""The run worker's work: load binaries, verify them, time them."""

import argparse
import contextlib
import importlib
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tunesmith.codegen.llvm import host
from tunesmith.ir.program import Program
from tunesmith.measure.arena import TimingArena
from tunesmith.measure.bench import TimingBench
from tunesmith.measure.channel import Channel, error_text, resident_bytes
from tunesmith.measure.confine import allow_cpu, confine
from tunesmith.measure.eviction import Evictor
from tunesmith.measure.kernel import Kernel
from tunesmith.measure.messages import Message, binary_from_json
from tunesmith.measure.peaks import Calibration
from tunesmith.measure.reference import (
    Inputs,
    Reference,
    Specials,
    compute_reference,
    make_inputs,
    with_padding_left_out,
)
from tunesmith.measure.target import vector_unit
from tunesmith.measure.timing import Sampler, contenders, kernel_clock, time_calls, timing_lock
from tunesmith.measure.verify import Verifier, verdict_on
from tunesmith.records import Measurement, Protocol, Status

__all__ = ["RunWorker", "serve"]

_CALIBRATE_EVERY_S = 0.5
_LOCK_WAIT_S = 10.0
_RACE_S = 5.0
_FEWEST_ROUNDS = 3
_NUMPY_S, _NUMPY_CALLS = 0.1, 15
_EXPECTED = ("BuildError", "TunesmithError")


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
        self._evictor = Evictor(*host()) if self._protocol.cache == "cold" else None
        self.handlers: dict[str, Callable[[Message], dict[str, Any]]] = {
            "run": self._run,
            "verify": self._verify,
            "race": self._race,
            "numpy": self._numpy,
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

    def _flush(self, workspace: TimingArena) -> Callable[[], None] | None:
        """What drops all that a kernel touches from the caches, if they are to be cold."""
        evictor, arrays = self._evictor, [*self._bench.views, *workspace.views]
        return None if evictor is None else lambda: evictor(arrays)

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
            flush = self._flush(workspace)
            times = time_calls(bound.repeat, self._protocol, message.header["best_s"], flush, clock)
        del workspace
        again = verdict_on(self._verifier.reference, self._bench.outputs)
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
            if specials is Specials.WILD:
                args = (self._program, inputs, self._language.evaluate)
                reference = with_padding_left_out(reference, *args)
            verdict = Verifier(self._program, inputs, reference).verify(kernel, binary)
            if not verdict.ok:
                where = f"inputs of seed {seed}, specials {specials}: "
                return {**verdict.to_json(), "error": where + verdict.error}
            if (verdict.max_error or 0.0) > (worst.max_error or 0.0):
                worst = verdict
        return worst.to_json()

    def _numpy(self, message: Message) -> dict[str, Any]:
        """Seconds that NumPy takes in the program's own types; the fastest of a few calls."""
        self._stage("timing")
        inputs = make_inputs(self._program, 0)
        times: list[float] = []
        with timing_lock(_LOCK_WAIT_S):
            deadline = time.monotonic() + _NUMPY_S
            while len(times) < 2 or (len(times) < _NUMPY_CALLS and time.monotonic() < deadline):
                began = time.perf_counter()
                self._language.evaluate(self._program, inputs, None)
                times.append(time.perf_counter() - began)
        return {"times": times}

    def _race(self, message: Message) -> dict[str, Any]:
        """Samples of all binaries in turn, in another order each round; some may stop before others."""
        self._stage("loading")
        pairs = zip(message.header["binaries"], message.blobs, strict=True)
        binaries = [binary_from_json(data, code) for data, code in pairs]
        placed = [self._bench.place(Kernel(b), b) for b in binaries]
        clock = kernel_clock(self._protocol, any(b.needs_openmp for b in binaries))
        samplers = [Sampler(b.repeat, self._protocol, self._flush(space), clock) for b, space in placed]
        times: list[list[float]] = [[] for _ in samplers]
        rng = np.random.default_rng(0)
        self._stage("timing")
        with timing_lock(_LOCK_WAIT_S):
            drift = self._calibration.drift()
            for sampler in samplers:
                sampler.calibrate()
            deadline = time.monotonic() + _RACE_S
            while going := contenders(times, message.header["rounds"]):
                if len(times[going[0]]) >= _FEWEST_ROUNDS and time.monotonic() > deadline:
                    break
                for i in rng.permutation(going):
                    times[i].append(samplers[i].sample())
        return {"times": times, "drift": drift}


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
    confine()
    channel.send(Message("ready", {"rss": resident_bytes()}))
    for message in messages:
        allow_cpu(message.header["timeout_s"])
        channel.send(_answer(worker, message))
        if worker.hurt:  # what follows belongs to a worker whose memory can be trusted
            return
