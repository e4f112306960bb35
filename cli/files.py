"""Files of lines, or standard streams; compressed or not. What is written appears whole or not at all."""

import contextlib
import gzip
import json
import os
import sys
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast

__all__ = ["Output", "read_lines"]

_LONGEST = 16 << 20  # bytes of a line: the longest programs take a small part of it
_GZIP = b"\x1f\x8b"


class Output:
    """Lines of JSON to a file, or to standard output for ``-``."""

    def __init__(self, name: str) -> None:
        self._path = None if name == "-" else Path(name)
        self._part = self._path and self._path.with_name(f".{self._path.name}.{os.getpid()}.part")

    def __enter__(self) -> Self:
        self._file = sys.stdout.buffer if self._part is None else self._part.open("wb")
        packed = self._path is not None and self._path.suffix == ".gz"
        self._lines = cast(IO[bytes], gzip.open(self._file, "wb", 6)) if packed else self._file
        return self

    def line(self, document: dict[str, Any]) -> None:
        """In ASCII, so that no tool takes a character of a text for the end of a line."""
        text = json.dumps(document, allow_nan=False, separators=(",", ":"))
        self._lines.write(text.encode("ascii") + b"\n")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lines is not self._file:
            self._lines.close()
        self._file.flush()
        if self._part is None or self._path is None:
            return
        os.fsync(self._file.fileno())
        self._file.close()
        if kind is None:
            self._part.replace(self._path)
        else:
            self._part.unlink()


def read_lines(name: str) -> Iterator[bytes | None]:
    """Without their ends; None for a line that is too long, and where a damaged file breaks off."""
    with _opened(name) as file:
        while True:
            try:
                line = file.readline(_LONGEST)
                if len(line) == _LONGEST and not line.endswith(b"\n"):
                    while line and not line.endswith(b"\n"):
                        line = file.readline(_LONGEST)
                    yield None
                    continue
            except (EOFError, zlib.error, gzip.BadGzipFile):
                yield None
                return
            if not line:
                return
            yield line.rstrip(b"\r\n")


@contextlib.contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    with contextlib.ExitStack() as files:
        file = sys.stdin.buffer if name == "-" else files.enter_context(open(name, "rb"))
        packed = cast(BufferedReader, file).peek(2)[:2] == _GZIP
        yield files.enter_context(cast(IO[bytes], gzip.GzipFile(fileobj=file))) if packed else file
