"""What can be built from a record: built when first asked for, kept from then on."""

import re
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Header, Response

from tunesmith.db import Artifact
from tunesmith.records import Record
from tunesmith.service.context import Context, Here, etag_matches
from tunesmith.service.errors import TrialFailed
from tunesmith.service.schemas import ArtifactKind

__all__ = ["get_artifact", "router"]

router = APIRouter(prefix="/v1/records", tags=["artifacts"])


@dataclass(frozen=True, slots=True)
class _Format:
    media_type: str
    file: str


_TEXT = "text/plain; charset=utf-8"
_FORMATS = {
    ArtifactKind.LLVM: _Format(_TEXT, "{}.ll"),
    ArtifactKind.ASM: _Format(_TEXT, "{}.s"),
    ArtifactKind.HEADER: _Format(_TEXT, "{}.h"),
    ArtifactKind.OBJECT: _Format("application/octet-stream", "{}.o"),
    ArtifactKind.LIBRARY: _Format("application/octet-stream", "lib{}.so"),
}


@router.get(
    "/{record_id}/artifacts/{kind}",
    response_class=Response,
    responses={
        200: {
            "content": {
                "text/plain": {"schema": {"type": "string"}},
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            },
            "headers": {"ETag": {"description": "SHA-256 of the bytes.", "schema": {"type": "string"}}},
            "description": "Text for `llvm`, `asm` and `header`; bytes for `object` and `library`.",
        },
        304: {"description": "The client's copy is current; an artifact never changes."},
    },
)
def get_artifact(
    here: Here,
    record_id: str,
    kind: ArtifactKind,
    if_none_match: Annotated[str | None, Header(max_length=1000)] = None,
) -> Response:
    """LLVM IR, assembly, object, shared library or its C header of a record that works (else 409)."""
    record = here.store.get(record_id)
    artifact = here.store.artifacts.get(record.id, kind) or _build(here, record, kind)
    headers = {"ETag": f'"{artifact.sha256}"', "Cache-Control": "private, max-age=31536000, immutable"}
    if etag_matches(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    form = _FORMATS[kind]
    file = form.file.format(_file_name(record.workload.name))
    headers["Content-Disposition"] = f'attachment; filename="{file}"'
    return Response(artifact.data, media_type=form.media_type, headers=headers)


def _build(here: Context, record: Record, kind: ArtifactKind) -> Artifact:
    if not record.measurement.ok:
        raise TrialFailed(
            f"record {record.id} ended with {record.measurement.status}; nothing is built from it"
        )
    data = here.settings.tools.artifact(record, kind.value)
    return here.store.artifacts.put(record.id, kind.value, data)


def _file_name(name: str) -> str:
    """Names come from posted text."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)[:100] or "kernel"
