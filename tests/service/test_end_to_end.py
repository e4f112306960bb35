"""The real tuner behind the real routes, on a small program."""

import time
from pathlib import Path
from typing import Any

from tunesmith.tuning import artifact, tune


def test_from_text_to_shared_library(tmp_path: Path) -> None:
    from harness import TestClient

    from tunesmith.service import Settings, Tools, create_app

    settings = Settings(url=f"sqlite:///{tmp_path}/test.db", tools=Tools(tune, artifact), poll_s=0.05)
    with TestClient(create_app(settings), base_url="http://localhost") as http:
        text = "def dense(x: f32[32, 32], w: f32[32, 32]):\n    return relu(x @ w)\n"
        job = http.post("/v1/jobs", json={"program": text, "trials": 3}).json()["id"]
        done = ended(http, job)
        assert done["state"] == "succeeded", done["error"]
        assert done["progress"]["trials"] >= 3
        best = http.post("/v1/best", json={"program": text}).json()
        assert best["raced"] and best["record"]["id"] == done["progress"]["best"]["record"]
        for kind, magic in (("library", b"\x7fELF"), ("object", b"\x7fELF"), ("llvm", b""), ("header", b"")):
            answer = http.get(f"/v1/records/{best['record']['id']}/artifacts/{kind}")
            assert answer.status_code == 200 and answer.content.startswith(magic) and answer.content


def ended(http: Any, job: str) -> dict[str, Any]:
    for _ in range(1200):
        view: dict[str, Any] = http.get(f"/v1/jobs/{job}").json()
        if view["state"] not in ("queued", "running"):
            return view
        time.sleep(0.05)
    raise AssertionError(f"waited in vain: {view}")
