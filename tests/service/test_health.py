"""What a server says of itself while PostgreSQL is cut off, hangs, and is back."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from fresh import POSTGRES, FreshSchema, needs_postgres
from processes import server, until

pytestmark = needs_postgres


class Proxy:
    """A way to PostgreSQL that can be ``cut`` (nobody there), ``held`` (no answer) and ``mended``."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._open = threading.Event()
        self._ends: list[socket.socket] = []
        self.port = 0
        self.mend()

    def mend(self) -> None:
        self._open.set()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._ends.clear()

    def hold(self) -> None:
        self._open.clear()

    def go_on(self) -> None:
        self._open.set()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(self._target)
                self._ends += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._open.wait(60)
                sink.sendall(data)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    parts = urlsplit(POSTGRES)
    proxy = Proxy(parts.hostname, parts.port or 5432)
    yield proxy
    proxy.go_on()
    proxy.cut()


def test_a_database_that_goes_and_comes_back(proxy: Proxy) -> None:
    with FreshSchema() as direct:
        url = direct.replace(f":{urlsplit(POSTGRES).port}/", f":{proxy.port}/")
        with server(url, trial_s=0.05) as (process, http):
            job = http.post("/v1/jobs", json={"operator": "matmul(64,64,64)", "trials": 40}).json()["id"]
            assert http.get("/readyz").status_code == 200
            until(lambda: http.get(f"/v1/jobs/{job}").json(), lambda j: j["progress"]["measured"] >= 3)
            proxy.cut()
            gone = until(lambda: http.get("/readyz"), lambda answer: answer.status_code == 503)
            assert gone.json()["type"].endswith("database-unavailable")
            assert gone.headers["retry-after"] == "10"
            assert http.get("/livez").status_code == 200
            assert "tunesmith_database_up 0.0" in until(
                lambda: http.get("/metrics").text, lambda text: "database_up 1" not in text
            )
            proxy.mend()
            until(lambda: http.get("/readyz").status_code, lambda status: status == 200)
            proxy.hold()
            began = time.monotonic()
            assert http.get("/readyz").status_code == 503, "whoever does not answer is not there"
            assert time.monotonic() - began < 9 and http.get("/livez").status_code == 200
            proxy.go_on()
            until(lambda: http.get("/readyz").status_code, lambda status: status == 200)
            done = until(lambda: http.get(f"/v1/jobs/{job}").json(), lambda j: j["state"] == "succeeded")
            assert (done["progress"]["measured"], done["attempt"]) == (40, 1)
            assert process.end(15) == 0
