"""The build worker's work: schedules in, object code out."""

import argparse
import importlib
import json
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tunesmith.codegen.binary import Binary
from tunesmith.codegen.builder import build
from tunesmith.ir import Program, program_from_json
from tunesmith.measure.channel import Channel, error_text, resident_bytes
from tunesmith.measure.confine import allow_cpu, confine
from tunesmith.measure.messages import Message, binary_to_json
from tunesmith.records import Target
from tunesmith.schedule import Schedule

__all__ = ["build_candidate", "serve"]

Builder = Callable[[str, str, str], Binary]
"""From program, schedule and target, each as JSON text."""

_EXPECTED = ("BuildError", "IllegalStep", "TunesmithError")


@lru_cache(maxsize=8)
def _program(text: str) -> Program:
    return program_from_json(json.loads(text))


@lru_cache(maxsize=8)
def _target(text: str) -> Target:
    return Target.from_json(json.loads(text))


def build_candidate(program: str, schedule: str, target: str) -> Binary:
    """Compile one schedule of a program."""
    return build(_program(program), Schedule.from_json(json.loads(schedule)), _target(target))


def _resolve(name: str) -> Builder:
    module, _, function = name.partition(":")
    builder: Builder = getattr(importlib.import_module(module), function)
    return builder


def _answer(builder: Builder, message: Message) -> Message:
    start = time.perf_counter()
    kind = "built"
    fields: dict[str, Any] = {}
    blobs: tuple[bytes, ...] = ()
    try:
        binary = builder(*(blob.decode() for blob in message.blobs))
        fields, blobs = {"binary": binary_to_json(binary)}, (binary.object_code,)
    # The boundary of isolation: whatever a candidate does to the builder is an answer about it.
    except Exception as e:
        kind, fields = "failed", {"error": error_text(e, _EXPECTED)}
    fields |= {"seconds": time.perf_counter() - start, "rss": resident_bytes()}
    return Message(kind, fields, blobs)


def serve(channel: Channel, options: argparse.Namespace) -> None:
    builder = _resolve(options.use)
    confine()
    channel.send(Message("ready", {"rss": resident_bytes()}))
    for message in channel:
        allow_cpu(message.header["timeout_s"])
        channel.send(_answer(builder, message))
