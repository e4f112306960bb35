"""Programs and schedules made to hurt: each is refused, costs the server little time and memory, and is never
executed. One server process takes them all, so that it can be measured from outside."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import db_samples as samples
import httpx
import psutil
import pytest
from processes import server

from tunesmith.frontend import operator
from tunesmith.schedule import Schedule
from tunesmith.tuning import workload_of

CPU_S = 2.0
MEMORY_BYTES = 64 << 20
UPLOAD_BYTES = 160 << 20  # an upload may be eight times as long as another body

X = "def f(x: f32[4]):\n    "
DOUBLED = "\n    ".join(f"x{n + 1} = x{n} * x{n}" for n in range(64))

PROGRAMS = {
    # too much
    "nothing": "",
    "60,000 lines": X + "y = x\n    " * 6_000 + "return y",
    "100,000 axes": f"def f(x: f32[{','.join(['1'] * 30_000)}]):\n    return x + 1",
    "100,000 inputs": f"def f({','.join(f'x{n}: f32[1]' for n in range(4_000))}):\n    return x0",
    "nested in brackets": X + "return " + "(" * 30_000 + "x" + ")" * 30_000,
    "nested in calls": X + "return " + "exp(" * 12_000 + "x" + ")" * 12_000,
    "nested in minus": X + "return " + "-" * 60_000 + "x",
    "a sum of 20,000": X + "return " + "x+" * 20_000 + "x",
    "a power of powers": X + "return " + "x**" * 15_000 + "x",
    "nested in subscripts": X + "return x" + "[0]" * 15_000,
    "indented 100 deep": "\n".join(" " * n + "if 1:" for n in range(90)),
    "a name of 60,000": f"def {'f' * 60_000}(x: f32[4]):\n    return x + 1",
    "a number of 60,000 digits": X + f"return x * {'9' * 60_000}",
    "a hexadecimal number": X + f"return x * 0x{'f' * 60_000}",
    "an extent without end": "def f(x: f32[10**10**10]):\n    return x + 1",
    "an extent of 60,000 digits": f"def f(x: f32[{'9' * 60_000}]):\n    return x + 1",
    "an exabyte": "def f(x: f32[1099511627776]):\n    return x + 1",
    "years of work": "def f(x: f32[60000, 60000], y: f32[60000, 60000]):\n    return x @ y",
    "a domain of 2⁶⁰": "def f(x: f32[1048576], y: f32[1048576], z: f32[1048576]):\n"
    "    return sum(x[i] * y[j] * z[k], (i, j, k))",
    "a shift": X + "return x * (1 << 10**9)",
    "a text times a number": X + "return x * ('a' * 10**12)",
    "a shape without end": X + "return x.reshape(" + "1," * 20_000 + "4)",
    "padding without end": X + "return pad(x, ((0, 10**18),))",
    "concatenated 10,000 times": X + "return concat([" + "x," * 15_000 + "], 0)",
    # numbers that are none
    "imaginary": X + "return x * 1j",
    # texts that look like something else
    "a null": X + "return x\0 + 1",
    "from right to left": X + "return x \u202e+ 1",
    "an invisible name": X + "return x\u200b + 1",
    "a homoglyph": "def f(x: f32[4]):\n    return \u0445 + 1",
    "a foreign name of the program": "def \u0435xp(x: f32[4]):\n    return x + 1",
    "a mark of byte order": "\ufeff" * 1000 + X,
    "form feeds": "\f" * 60_000 + "def",
    "lines that are none": "def f(x: f32[4]):\u2028    return x",
    "a coding line": "# -*- coding: utf-7 -*-\ndef f(x: f32[4]):\n    return +AHg-",
    "backslashes": X + "return x" + "\\\n" * 20_000,
    "quotes that do not end": X + "return x * '" + '"""' * 15_000,
    # texts that would do something if they were run
    "an import": X + "return __import__('os').system('touch {proof}')",
    "an import statement": "import os; os.system('touch {proof}')\n" + X + "return x",
    "a decorator": "@__import__('os').system('touch {proof}')\n" + X + "return x + 1",
    "a default": "def f(x: f32[4] = open('{proof}', 'w')):\n    return x + 1",
    "an annotation": "def f(x: f32[open('{proof}', 'w')]):\n    return x + 1",
    "an annotation of the result": "def f(x: f32[4]) -> open('{proof}', 'w'):\n    return x.y",
    "an evaluation": X + 'return eval(\'open("{proof}", "w")\')',
    "the way to all classes": X + "return x.__class__.__mro__[1].__subclasses__()",
    "a lambda": X + "return (lambda: open('{proof}', 'w'))()",
    "a comprehension": X + "return [open('{proof}', 'w') for _ in x]",
    "a formatted text": X + "return f\"{{open('{proof}', 'w')}}\"",
    "a global": X + "global x\n    return x",
    "itself": X + "return f(x)",
    "a class": "class f:\n    open('{proof}', 'w')",
    "a generator": X + "yield x",
    "an assignment to what is built in": X + "__builtins__ = x\n    return x",
}

HARMLESS = {
    "doubled 64 times": f"def f(x0: f32[4]):\n    {DOUBLED}\n    return x64",
    "a power that is a number": X + "return x * 9**9**9**9",
    "not a number": X + "return x * nan",
    "infinite": X + "return x * 1e999",
    "a name that is normalised": "def f(x: f32[4]):\n    return \U0001d426\U0001d41a\U0001d431(x, x)",
}
"""What is legal, and no more expensive than it looks."""

OPERATORS = {
    "an attribute": "matmul.__globals__(1,1,1)",
    "an evaluation": "matmul(__import__('os').system('touch {proof}'),1,1)",
    "a number without end": "matmul(10**10**10,1,1)",
    "a long number": f"matmul({'9' * 4000},1,1)",
    "nothing": "matmul(0,0,0)",
    "less": "matmul(-1,-1,-1)",
    "nested": "matmul(" + "(" * 2000 + "1" + ")" * 2000 + ",1,1)",
    "starred": "matmul(*[1,2,3])",
    "two calls": "matmul(8,8,8);matmul(8,8,8)",
    "a homoglyph": "m\u0430tmul(8,8,8)",
    "not a number": "matmul(nan,8,8)",
    "true": "matmul(True,8,8)",
    "twice": "matmul(8,8,8,m=8)",
}

S, REDUCED = "out", ["i", "j", "k"]
STEPS = {
    "no list": "split",
    "no step": [["exec", "touch {proof}"]],
    "a million steps": [["inline", "x"]] * 50_000,
    "10,000 splits": [["split", S, "i", [2], "peel"]] * 9_999,
    "a split of no size": [["split", S, "i", [0], "peel"]],
    "a split of less": [["split", S, "i", [-1], "peel"]],
    "a split of all numbers": [["split", S, "i", [1 << 62] * 1000, "peel"]],
    "a number of 4,000 digits": [["split", S, "i", [10**4000], "peel"]],
    "half a number": [["split", S, "i", [1.5], "peel"]],
    "true": [["split", S, "i", [True], "peel"]],
    "100,000 factors": [["split", S, "i", [1] * 100_000, "mask"]],
    "a loop of 100,000 characters": [["unroll", S, "i" * 100_000]],
    "unrolled altogether": [["unroll", S, loop] for loop in REDUCED],
    "a million lanes": [["vectorize", S, "i"]],
    "an order of loops that are none": [["reorder", S, ["z"] * 10_000]],
    "packed into itself": [["pack", S, "out.x.pack", [], "root"]] * 100,
    "computed in itself": [["compute_at", S, S, "i"]],
    "nested lists": [["split", S, "i", json.loads("[" * 400 + "]" * 400), "peel"]],
    "another version": {"version": 1 << 70, "steps": []},
}


@dataclass(frozen=True)
class Watched:
    """A server, what it has used, and a file that is made if anything of a text is executed."""

    http: httpx.Client
    process: psutil.Process
    proof: Path

    def cost(self) -> tuple[float, int]:
        used = self.process.cpu_times()
        peak = next(line for line in self._status() if line.startswith("VmHWM"))
        return used.user + used.system, int(peak.split()[1]) << 10

    def sent(self, path: str, body: bytes, most: int = MEMORY_BYTES, **headers: str) -> tuple[int, Any]:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")  # the peak of memory counts from now
        cpu_s, memory = self.cost()
        answer = self.http.post(path, content=body, headers={"Content-Type": "application/json", **headers})
        cpu_after_s, peak = self.cost()
        assert answer.status_code < 500, answer.text[:500]
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert len(answer.content) < 20_000, "it is not repeated to the one who sent it"
        assert cpu_after_s - cpu_s < CPU_S
        assert peak - memory < most
        assert not self.proof.exists()
        return answer.status_code, answer.json()

    def refused(self, path: str, body: bytes, most: int = MEMORY_BYTES, **headers: str) -> None:
        status, answer = self.sent(path, body, most, **headers)
        assert 400 <= status < 500, answer

    def _status(self) -> list[str]:
        return Path(f"/proc/{self.process.pid}/status").read_text().splitlines()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("hostile")
    with server(f"sqlite:///{folder}/test.db", trial_s=0.02) as (process, http):
        http.post("/v1/jobs", json={"operator": "matmul(8,8,8)"})  # what is loaded once is loaded now
        yield Watched(http, psutil.Process(process.pid), folder / "proof")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(watched: Watched, name: str) -> None:
    text = PROGRAMS[name].replace("{proof}", str(watched.proof))
    for path in ("/v1/jobs", "/v1/best"):
        watched.refused(path, json.dumps({"program": text}).encode())
    task = {"program": text, "weight": 1.0}
    watched.refused("/v1/jobs", json.dumps({"tasks": [task]}).encode())


@pytest.mark.parametrize("name", HARMLESS)
def test_what_looks_hostile_and_is_not(watched: Watched, name: str) -> None:
    status, _ = watched.sent("/v1/jobs", json.dumps({"program": HARMLESS[name]}).encode())
    assert status == 202


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(watched: Watched, name: str) -> None:
    text = OPERATORS[name].replace("{proof}", str(watched.proof))
    watched.refused("/v1/jobs", json.dumps({"operator": text}).encode())
    assert 400 <= watched.http.get("/v1/best", params={"operator": text}).status_code < 500


@pytest.mark.parametrize("name", STEPS)
def test_schedules(watched: Watched, name: str) -> None:
    """Of an upload each record is refused for itself."""
    steps = STEPS[name]
    text = json.dumps(steps if isinstance(steps, dict) else {"version": 1, "steps": steps})
    body = uploaded(text.replace("{proof}", str(watched.proof)))
    _, answer = watched.sent("/v1/records", body, UPLOAD_BYTES)
    assert answer.get("new", 0) == 0 and len(json.dumps(answer)) < 20_000


def uploaded(schedule: str) -> bytes:
    """A record in order, but for its schedule."""
    from tunesmith.service.views import record_view

    workload, _ = workload_of(operator("matmul(512,512,512)"))
    made = samples.record(workload=workload, schedule=Schedule().to_json(), schedule_hash=Schedule().hash)
    document = json.loads(record_view(made).model_dump_json()) | {"schedule": "HERE"}
    return json.dumps({"records": [document]}).replace('"HERE"', schedule).encode()


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/best", "/v1/keys", "/v1/records", "/v1/models?name=x"])
def test_bombs(watched: Watched, path: str) -> None:
    kind = "application/zip" if "models" in path else "application/json"
    packed = {"Content-Encoding": "gzip", "Content-Type": kind}
    for bomb in (bytes(200 << 20), b"[" * (64 << 20), gzip.compress(bytes(200 << 20))):
        watched.refused(path, gzip.compress(bomb, 1), UPLOAD_BYTES, **packed)


def test_of_two_members_the_last_counts(watched: Watched) -> None:
    """As in all of Python; nothing is checked of one and used of the other."""
    watched.refused("/v1/jobs", b'{"operator":"matmul(8,8,8)","trials":8,"trials":"9"}')
