"""Services with a made-up tuner, over a database of their own."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import fake_tuner

from tunesmith.db import Store, open_store
from tunesmith.service import Settings, Tools, create_app

with warnings.catch_warnings():  # it warns that it prefers another HTTP library
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

__all__ = ["Running", "Service", "made_up_settings"]


@dataclass
class Service:
    """A running service: ``http`` asks it, ``store`` looks behind it."""

    http: TestClient
    store: Store
    tuner: fake_tuner.FakeTuner

    def submit(self, **body: Any) -> str:
        answer = self.http.post("/v1/jobs", json={"operator": "matmul(64,64,64)", "trials": 8} | body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def wait(self, job: str, until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The job once ``until`` holds for it."""
        view: dict[str, Any] = {}
        for _ in range(1000):
            view = self.http.get(f"/v1/jobs/{job}").json()
            if until(view):
                return view
            time.sleep(0.01)
        raise AssertionError(f"waited in vain: {view}")

    def ended(self, job: str) -> dict[str, Any]:
        return self.wait(job, lambda view: view["state"] not in ("queued", "running", "paused"))


def made_up_settings(url: str) -> Settings:
    tools = Tools(tune=fake_tuner.FakeTuner(), artifact=fake_tuner.artifact)
    return Settings(url=url, tools=tools, poll_s=0.05, progress_s=0.0, stop_s=5.0)


class Running:
    """``with Running(settings, run_jobs=False) as service:``"""

    def __init__(self, settings: Settings, **changes: Any) -> None:
        self.settings = replace(settings, **changes)

    def __enter__(self) -> Service:
        app = create_app(self.settings)
        self._http = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
        self._http.__enter__()
        self._store = open_store(self.settings.url)
        tuner = self.settings.tools.tune
        assert isinstance(tuner, fake_tuner.FakeTuner)
        return Service(self._http, self._store, tuner)

    def __exit__(self, *error: Any) -> None:
        self._http.__exit__(*error)
        self._store.close()
