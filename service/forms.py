"""What the API takes and gives of keys, models and uploaded measurements."""

import datetime as dt
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tunesmith.db import Scope
from tunesmith.records import Status
from tunesmith.service.lines import Line

__all__ = [
    "KeyList",
    "KeyRequest",
    "KeyView",
    "ModelList",
    "ModelView",
    "NewKeyView",
    "PeaksUpload",
    "RecordUpload",
    "UploadItem",
    "UploadResult",
]

_Short = Annotated[Line, Field(max_length=256)]
_Count = Annotated[int, Field(ge=0, lt=1 << 63)]
_Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class KeyRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Line = Field(min_length=1, max_length=100, description="What it is for, or whose it is.")
    scopes: list[Scope] = Field(min_length=1, max_length=4)
    expires_in_s: float | None = Field(None, gt=0, le=10 * 366 * 86400, description="Without it, never.")


class KeyView(BaseModel):
    """``prefix`` is how the secret begins."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    name: str
    prefix: str
    scopes: list[Scope]
    created_at: dt.datetime
    expires_at: dt.datetime | None
    last_used_at: dt.datetime | None = Field(description="To the minute.")
    revoked_at: dt.datetime | None


class NewKeyView(BaseModel):
    key: KeyView
    secret: str | None = Field(description="Shown this once; null when the request is a repeated one.")


class KeyList(BaseModel):
    items: list[KeyView]
    next_cursor: str | None


class ModelView(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: str
    name: str
    feature_schema: int = Field(description="Version of the features that it was trained with.")
    n_records: int
    about: dict[str, Any] = Field(description="What the file says of itself.")
    sha256: str
    size_bytes: int
    created_at: dt.datetime


class ModelList(BaseModel):
    items: list[ModelView]
    next_cursor: str | None


class _WorkloadUpload(BaseModel):
    program: dict[str, Any] = Field(description="From which everything else of the workload follows.")


class PeaksUpload(BaseModel):
    f32_gflops: float = Field(gt=0, allow_inf_nan=False)
    f64_gflops: float = Field(gt=0, allow_inf_nan=False)
    l1_gbs: float = Field(gt=0, allow_inf_nan=False)
    l2_gbs: float = Field(gt=0, allow_inf_nan=False)
    l3_gbs: float = Field(gt=0, allow_inf_nan=False)
    dram_gbs: float = Field(gt=0, allow_inf_nan=False)


class _TargetUpload(BaseModel):
    triple: str = Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_.-]*$")
    cpu: str = Field(max_length=64, pattern=r"^[A-Za-z0-9_.-]*$")
    features: str = Field(max_length=8192, pattern=r"^([+-][A-Za-z0-9_.-]+(,[+-][A-Za-z0-9_.-]+)*)?$")
    model: _Short
    cores: int = Field(ge=1, le=1 << 16)
    threads: int = Field(ge=1, le=1 << 16)
    l1d_bytes: int = Field(ge=0, lt=1 << 40)
    l2_bytes: int = Field(ge=0, lt=1 << 40)
    l3_bytes: int = Field(ge=0, lt=1 << 40)
    line_bytes: int = Field(ge=0, le=4096)
    vector_bytes: int = Field(ge=4, le=256)
    vector_registers: int = Field(ge=0, le=1024)
    peaks: PeaksUpload


class _MeasurementUpload(BaseModel):
    """Numbers that are null are those that JSON has no word for (an infinite error)."""

    status: Status
    times_s: list[float | None] = Field(max_length=10_000)
    error: str = Field("", max_length=20_000)
    signal: int = Field(0, ge=0, le=128)
    build_s: _Seconds = 0.0
    run_s: _Seconds = 0.0
    max_error: float | None = None
    tolerance: float | None = None
    drift: float = Field(1.0, gt=0, le=1000, allow_inf_nan=False)


class _ProtocolUpload(BaseModel):
    model_config = ConfigDict(extra="forbid")

    cache: Literal["warm", "cold"]
    samples: int = Field(ge=1, le=100_000)
    sample_s: _Seconds
    warmup_s: _Seconds
    cut_off: float = Field(ge=0, le=1e6)
    build_timeout_s: _Seconds
    run_timeout_s: _Seconds


class RecordUpload(BaseModel):
    """A measurement in the form that `GET /v1/records/{id}` gives it; members that follow from others are
    not read."""

    id: str = Field(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
    workload: _WorkloadUpload
    target: _TargetUpload
    schedule: dict[str, Any]
    measurement: _MeasurementUpload
    protocol: _ProtocolUpload
    trial: int = Field(0, ge=0, lt=1 << 31)
    seed: _Count = 0
    created_at: dt.datetime
    versions: dict[_Short, _Short] = Field(default_factory=dict, max_length=16)


class UploadItem(BaseModel):
    index: int = Field(description="Of the upload, from 0.")
    id: str | None
    status: Literal["new", "known", "refused"]
    detail: str | None = Field(description="Why it was refused.")


class UploadResult(BaseModel):
    new: int
    known: int = Field(description="Were there already, by their id.")
    refused: int
    items: list[UploadItem]
