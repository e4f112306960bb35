"""Processes that read what strangers sent: they are given none of the parent's secrets."""

import subprocess
from typing import Any

import pytest

from tunesmith.tuning import apart, model_check


@pytest.mark.parametrize("module", [apart, model_check])
def test_children_have_no_secrets(module: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    given: list[dict[str, str]] = []

    class Stopped(Exception):
        pass

    def start(self: object, *args: object, env: dict[str, str], **more: object) -> None:
        given.append(env)
        raise Stopped

    monkeypatch.setenv("TUNESMITH_KEY", "planted")
    monkeypatch.setattr(subprocess.Popen, "__init__", start)
    monkeypatch.setattr(subprocess.Popen, "__del__", lambda self: None)
    monkeypatch.setattr(apart, "_to_json", lambda record: {})
    with pytest.raises(Stopped):
        if module is apart:
            apart.artifact_apart(None, "asm")  # type: ignore[arg-type]
        else:
            model_check._asked(tmp_path)
    assert "planted" not in given[0].values() and "PATH" in given[0]
