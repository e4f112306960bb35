"""A PostgreSQL server of a test's own, to be stopped and started at will."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

__all__ = ["OwnPostgres", "needs_own_postgres", "own_postgres"]

_FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
needs_own_postgres = pytest.mark.skipif(
    not _FOLDERS or not os.environ.get("TUNESMITH_TEST_POSTGRES"),
    reason="TUNESMITH_TEST_POSTGRES is not set, or the programs of PostgreSQL are not there",
)


class OwnPostgres:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self._port: int = taken.getsockname()[1]
        self.url = f"postgresql://tunesmith@127.0.0.1:{self._port}/postgres"

    def create(self) -> None:
        self._run("initdb", "-U", "tunesmith", "-A", "trust", "--no-sync")

    def start(self) -> None:
        options = f"-p {self._port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self._run("pg_ctl", "-w", "-l", str(self._folder / "log"), "-o", options, "start")

    def stop(self) -> None:
        """As a crash does: connections are cut."""
        self._run("pg_ctl", "-m", "immediate", "stop")

    def set(self, option: str, value: str) -> None:
        """For all sessions, those that are open too."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")
            connection.execute(f"ALTER SYSTEM SET {option} = {value}")
            connection.execute("SELECT pg_reload_conf()")

    def _run(self, program: str, *arguments: str) -> None:
        """As another user where this one is root, as which PostgreSQL does not run."""
        command = [str(_FOLDERS[-1] / program), "-D", str(self._folder / "data"), *arguments]
        if os.getuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/", timeout=60)


@contextlib.contextmanager
def own_postgres() -> Iterator[OwnPostgres]:
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    server = OwnPostgres(folder)
    try:
        if os.getuid() == 0:
            shutil.chown(folder, "postgres")
        server.create()
        server.start()
        yield server
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):  # it may be stopped already
            server.stop()
        shutil.rmtree(folder)
