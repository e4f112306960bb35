"""The client: submit, watch and steer jobs, ask for the best, page through records, fetch artifacts."""

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from tunesmith.client.errors import JobEnded, ServiceError
from tunesmith.client.transport import Transport
from tunesmith.client.watching import JobEvent, watch

if TYPE_CHECKING:
    from tunesmith.ir import Program
    from tunesmith.records import Target
    from tunesmith.tuning import Kernel

__all__ = ["Client", "Source", "connect"]

Source: TypeAlias = "Program | str"
"""A program, its text, or an operator with sizes such as ``matmul(512,512,512)``."""

Weighted: TypeAlias = "Source | tuple[Source, float]"
"""A computation, or how often a call of the whole calls it besides."""

Document: TypeAlias = dict[str, Any]
"""A JSON object in the shape of the service's OpenAPI document."""

_OPERATOR = re.compile(r"\s*(?!def\b|@)[A-Za-z_]\w*\s*\([^\n]*\)\s*")


def connect(url: str, *, key: str | None = None, timeout_s: float = 60.0) -> "Client":
    """A client of the service at ``url``; nothing is sent yet. ``timeout_s`` bounds each step of a request.

    The key is shown by nothing; over http it travels in the clear, so use https outside of one machine.
    """
    return Client(Transport(url, key, timeout_s))


class Client:
    """Thread-safe; a context manager, or ``close`` it.

    Every method raises ``ServiceError`` when the service refuses and ``Unreachable`` when it does not answer.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def __repr__(self) -> str:
        return f"Client({self._transport!r})"

    @property
    def url(self) -> str:
        return self._transport.url

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of idle connections."""
        self._transport.close()

    # -- jobs ---------------------------------------------------------------------------------------------

    def submit(self, source: Source, **options: Any) -> Document:
        """Queue a job and return it. Options: ``trials``, ``seconds``, ``threads``, ``seed``, ``priority``,
        ``fresh``, ``cache``. Sent again after a broken connection, it is still one job."""
        return self._submit({**_source(source), **options})

    def submit_many(self, tasks: Iterable[Weighted], **options: Any) -> Document:
        """Queue one job of several computations, each alone or with a weight, under one budget."""
        pairs = (t if isinstance(t, tuple) else (t, 1.0) for t in tasks)
        return self._submit({"tasks": [{**_source(s), "weight": w} for s, w in pairs], **options})

    def _submit(self, body: Document) -> Document:
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        return self._read("POST", "/v1/jobs", body=body, repeatable=True, headers=headers)

    def tune(
        self, source: Source, *, on_event: Callable[[JobEvent], object] = lambda _: None, **options: Any
    ) -> Document:
        """Submit a job, wait until it has ended, and return it with its ``result``. Raises ``JobEnded`` if it
        failed or was cancelled."""
        return self.wait(self.submit(source, **options)["id"], on_event=on_event)

    def tune_many(
        self,
        tasks: Iterable[Weighted],
        *,
        on_event: Callable[[JobEvent], object] = lambda _: None,
        **options: Any,
    ) -> Document:
        """As ``tune``, for several computations."""
        return self.wait(self.submit_many(tasks, **options)["id"], on_event=on_event)

    def wait(self, job_id: str, *, on_event: Callable[[JobEvent], object] = lambda _: None) -> Document:
        """The job once it has ended. Raises ``JobEnded`` if it failed or was cancelled."""
        for event in self.watch(job_id):
            on_event(event)
        job = self.job(job_id)
        if job["state"] in ("failed", "cancelled"):
            raise JobEnded(job)
        return job

    def watch(self, job_id: str, after: int | None = None) -> Iterator[JobEvent]:
        """Events of a job, from its first or from what comes after a known one, until it has ended; over as
        many connections as it takes."""
        return watch(self._transport, job_id, after)

    def job(self, job_id: str) -> Document:
        """A job with its progress, and its result when it has ended."""
        return self._read("GET", f"/v1/jobs/{job_id}")

    def tasks(self, job_id: str) -> list[Document]:
        """The computations of a job."""
        return list(self._read("GET", f"/v1/jobs/{job_id}/tasks")["items"])

    def jobs(self, **filters: Any) -> Iterator[Document]:
        """Jobs, newest first. Filters: ``state``, ``priority``, ``workload``."""
        return self._pages("/v1/jobs", filters)

    def pause(self, job_id: str) -> Document:
        """Measure nothing new until ``resume``."""
        return self._ask(job_id, "pause")

    def resume(self, job_id: str) -> Document:
        """Let a paused job go on."""
        return self._ask(job_id, "resume")

    def stop(self, job_id: str) -> Document:
        """End a job with what it has."""
        return self._ask(job_id, "stop")

    def cancel(self, job_id: str) -> Document:
        """End a job at once."""
        return self._ask(job_id, "cancel")

    def _ask(self, job_id: str, verb: str) -> Document:
        return self._read("POST", f"/v1/jobs/{job_id}:{verb}", repeatable=True)

    # -- what is known ------------------------------------------------------------------------------------

    def best(
        self, source: Source, *, target: "Target | Document | str | None" = None, near: bool = False
    ) -> Document | None:
        """The best schedule of a program, operator or workload's hash, from the closest target; None if
        nothing is known. ``match`` says how close; with ``near`` it may be an estimate from other shapes.

        ``target`` is a fingerprint that the service knows, or a whole target, such as this machine's
        ``tunesmith.measure.detect_target(threads=1)``, which it need not; without it, any target counts.
        """
        is_hash = isinstance(source, str) and re.fullmatch(r"[0-9a-f]{8,64}", source)
        body: Document = {"workload": source} if is_hash else dict(_source(source))
        given = target if target is None or isinstance(target, str | dict) else target.to_json()
        body |= {"target": given, "near": near}
        try:
            return self._read("POST", "/v1/best", body=body, repeatable=True)
        except ServiceError as refused:
            if refused.status == 404:
                return None
            raise

    def load(self, source: Source, *, threads: int = 1) -> "Kernel":
        """``tunesmith.load`` with the best schedule that the service knows for this machine: built here, from
        data. What the service does not know is loaded as if there were none."""
        from tunesmith.client.documents import record_of
        from tunesmith.measure import detect_target
        from tunesmith.tuning import load

        program = _program(source)
        answer = self.best(program, target=detect_target(threads))
        record = None if answer is None else record_of(answer["record"])
        return load(program, threads=threads, record=record)

    def record(self, record_id: str) -> Document:
        """A whole record; the id may be abbreviated."""
        return self._read("GET", f"/v1/records/{record_id}")

    def records(self, **filters: Any) -> Iterator[Document]:
        """Summaries of records, newest first. Filters: ``workload``, ``target``, ``status``, ``job``,
        ``order``, ``cache``."""
        return self._pages("/v1/records", filters)

    def workloads(self, **filters: Any) -> Iterator[Document]:
        """Workloads with their counts and best times. Filter: ``structure``."""
        return self._pages("/v1/workloads", filters)

    def page(
        self, kind: str, *, limit: int = 100, cursor: str | None = None, **filters: Any
    ) -> Document:
        """One page of ``jobs``, ``records``, ``workloads`` or ``targets``: its ``items``, and ``next_cursor``
        for the page after it (None at the end)."""
        return self._read("GET", f"/v1/{kind}", {**filters, "limit": limit, "cursor": cursor})

    def targets(self) -> Iterator[Document]:
        """Targets that were ever measured on."""
        return self._pages("/v1/targets", {})

    def artifact(self, record_id: str, kind: str = "library") -> bytes:
        """What is built from a record: ``llvm``, ``asm``, ``object``, ``library`` or ``header``."""
        path = f"/v1/records/{record_id}/artifacts/{kind}"
        return self._transport.ask("GET", path, headers={"Accept": "*/*"}).body

    def upload(self, records: Iterable[Document]) -> Document:
        """Hand in measurements made elsewhere, in the form of ``record``; at most 500. A record that is
        there already changes nothing."""
        return self._read("POST", "/v1/records", body={"records": list(records)}, repeatable=True)

    # -- all of it ----------------------------------------------------------------------------------------

    def _read(self, method: str, path: str, query: Mapping[str, Any] | None = None, **more: Any) -> Document:
        document = self._transport.ask(method, path, query, **more).json()
        assert isinstance(document, dict)
        return document

    def _pages(self, path: str, filters: Mapping[str, Any]) -> Iterator[Document]:
        cursor: str | None = None
        while True:
            page = self._read("GET", path, {**filters, "cursor": cursor})
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return


def _program(source: Source) -> "Program":
    if not isinstance(source, str):
        return getattr(source, "program", source)
    from tunesmith.frontend import operator
    from tunesmith.ir import parse

    return operator(source) if _OPERATOR.fullmatch(source) else parse(source)


def _source(source: Source) -> dict[str, str]:
    if not isinstance(source, str):
        from tunesmith.ir import format_program

        return {"program": format_program(getattr(source, "program", source))}
    return {"operator": source.strip()} if _OPERATOR.fullmatch(source) else {"program": source}
