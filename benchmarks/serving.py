"""Servers and workers as processes of their own, and databases for them: what several benchmarks share."""

import contextlib
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psutil  # type: ignore[import-untyped]

__all__ = ["Process", "Server", "databases", "descendants", "marked"]

_PATIENCE_S = 100.0  # more than a server takes to end by itself, whatever hangs


class Process:
    """``tunesmith`` with these words on a database. What it says goes to a file in ``folder``.

    Its temporary files go to ``folder`` too. All that it starts inherit that variable, builders and runners
    as well, which are given few: by it they are found again (``marked``).
    """

    def __init__(self, url: str, folder: Path, *words: str) -> None:
        command = [sys.executable, "-m", "tunesmith.cli.main", *words, "--db", url]
        environment = {**os.environ, "TMPDIR": str(folder)}
        with (folder / f"{words[0]}.log").open("ab") as log:
            self.popen = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)

    @property
    def pid(self) -> int:
        return self.popen.pid

    def kill(self) -> None:
        self.popen.kill()
        self._reap()

    def end(self) -> int:
        """In good order; returns the exit code."""
        self.popen.terminate()
        return self._reap()

    def _reap(self) -> int:
        code = self.popen.wait(_PATIENCE_S)
        assert self.popen.stdout is not None
        self.popen.stdout.close()
        return code


class Server(Process):
    """``address`` is that of a server that answers; its port is any free one."""

    def __init__(self, url: str, folder: Path, *words: str) -> None:
        super().__init__(url, folder, "serve", "--port", "0", "--json", *words)
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        if not line:
            raise SystemExit(f"the server does not start; see {folder}/serve.log")
        self.address: str = json.loads(line)["url"]


def descendants(*processes: Process) -> set[int]:
    """The numbers of these processes, and of all that come from them."""
    found: set[int] = set()
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            found.update(child.pid for child in psutil.Process(process.pid).children(recursive=True))
            found.add(process.pid)
    return found


def marked(folder: Path) -> set[int]:
    """The numbers of processes that were started for this folder and run, whoever is their parent now."""
    found: set[int] = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("TMPDIR") == str(folder):
                found.add(process.pid)
    return found


@contextlib.contextmanager
def databases(folder: Path, postgres: str | None) -> Iterator[list[tuple[str, str]]]:
    """Empty ones by name: a SQLite file, and a schema of its own in a PostgreSQL database if one is given."""
    places = [("sqlite", f"sqlite:///{folder.absolute()}/bench.db")]
    if postgres is None:
        yield places
        return
    import psycopg

    schema = f"bench_{uuid.uuid4().hex[:12]}"
    parts = urlsplit(postgres)
    option = f"options=-csearch_path%3D{schema}&application_name={schema}"
    query = f"{parts.query}&{option}" if parts.query else option
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    try:
        yield [*places, ("postgresql", urlunsplit(parts._replace(query=query)))]
    finally:
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())
