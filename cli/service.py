"""What a service knows of kernels. Its programs and schedules are data; kernels are built from them here."""

from dataclasses import dataclass, replace
from typing import Any

from tunesmith.cli.known import NothingSuggested, RecordQuery, Suggestion
from tunesmith.client import Client, ClientError
from tunesmith.client.documents import instant, record_of, value_of
from tunesmith.db import Best, Match, Page, RecordSummary, WorkloadSummary
from tunesmith.ir import Program, program_from_json
from tunesmith.records import Record, Status, Target
from tunesmith.schedule import Schedule
from tunesmith.tuning.workload import workload_of

__all__ = ["Service"]

_MOST = 500  # of a page


@dataclass(frozen=True, slots=True)
class _Served:
    """A schedule to be tried here."""

    schedules: tuple[Schedule, ...]
    target: Target


class Service:
    """A service, as a ``Known``."""

    def __init__(self, client: Client, words: list[str]) -> None:
        self._client = client
        self.url: str | None = client.url
        self.words = words

    def record(self, record_id: str) -> Record:
        return record_of(self._client.record(record_id))

    def best(self, workload_hash: str, target: Target) -> Best | None:
        answer = self._client.best(workload_hash, target=target)
        return None if answer is None else _best(answer, workload_hash)

    def near(self, program: Program, target: Target) -> Suggestion:
        answer = self._client.best(program, target=target, near=True)
        if answer is None or answer["match"] != "near":
            raise NothingSuggested(f"{self.url} knows nothing of other shapes that helps")
        found = answer["estimate"]
        source = record_of(self._client.record(found["source"]))
        from tunesmith.tuning.neighbours import called

        return Suggestion(
            workload_of(program)[0], target, (Schedule.from_json(answer["schedule"]),), answer["time_s"],
            found["loss"], found["basis"], source.id,
            called(source, elsewhere=source.target.fingerprint != target.fingerprint),
            tuple(found["records"]), tuple(found["skipped"]),
        )  # fmt: skip

    def usable(self, record: Record, target: Target) -> Record:
        """As it was served, for this machine: built here, and found right once."""
        from tunesmith.tuning.near import confirm
        from tunesmith.tuning.recording import KeepsNothing

        program = program_from_json(record.workload.program)
        served = _Served((Schedule.from_json(record.schedule),), target)
        confirm(program, served, KeepsNothing())
        return replace(record, target=target)

    def confirm(self, program: Program, suggestion: Suggestion) -> tuple[str | None, Record]:
        from tunesmith.tuning.near import confirm
        from tunesmith.tuning.recording import KeepsNothing

        return None, confirm(program, suggestion, KeepsNothing())

    def records(self, query: RecordQuery) -> Page[RecordSummary]:
        page = self._client.page(
            "records", workload=query.workload, target=query.target, job=query.job, status=query.status,
            order=query.order, cache=query.cache, limit=min(query.limit, _MOST), cursor=query.cursor,
        )  # fmt: skip
        return _page(page, _record_summary)

    def workloads(self, limit: int, cursor: str | None) -> Page[WorkloadSummary]:
        page = self._client.page("workloads", limit=min(limit, _MOST), cursor=cursor)
        return _page(page, _workload_summary)


def _best(answer: dict[str, Any], workload_hash: str) -> Best:
    record = record_of(answer["record"])
    if record.workload.hash != workload_hash:
        raise ClientError("the service answered with a record of another program")
    return Best(record, Match(answer["match"]), time_s=answer["time_s"], raced=answer["raced"])


def _page(page: dict[str, Any], value: Any) -> Page[Any]:
    return Page(tuple(map(value, page["items"])), page["next_cursor"])


def _record_summary(item: dict[str, Any]) -> RecordSummary:
    created_at = instant(item["created_at"])
    return value_of(RecordSummary, item, status=Status(item["status"]), created_at=created_at)


def _workload_summary(item: dict[str, Any]) -> WorkloadSummary:
    return value_of(WorkloadSummary, item, created_at=instant(item["created_at"]))
