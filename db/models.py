"""The tables. Rows are mapped to the frozen values of ``records`` and ``db.values``, so these are plain
tables without an object mapper (whose identity map would only copy what is immutable anyway).

Targets and workloads are identified by what they are (fingerprint, hash): inserting one twice is
harmless, and a record names both without a join. Everything else has a UUID of version 7.
"""

import sqlalchemy as sa

from tunesmith.db.columns import Id, Json, UtcDateTime

__all__ = [
    "api_key",
    "artifact",
    "event",
    "job",
    "metadata",
    "model",
    "record",
    "request",
    "target",
    "task",
    "usage",
    "workload",
]

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

target = sa.Table(
    "target",
    metadata,
    sa.Column("id", Id(64), primary_key=True),
    sa.Column("arch", sa.String(32), nullable=False),
    sa.Column("cpu", sa.String(64), nullable=False),
    sa.Column("features", sa.Text, nullable=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("threads", sa.Integer, nullable=False),
    sa.Column("vector_bytes", sa.Integer, nullable=False),
    sa.Column("document", Json, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Index("ix_target_cpu", "cpu", "threads"),
    sa.Index("ix_target_arch", "arch"),
    sa.Index("ix_target_created", "created_at", "id"),
)

workload = sa.Table(
    "workload",
    metadata,
    sa.Column("id", Id(64), primary_key=True),
    sa.Column("structure", Id(64), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("program", Json, nullable=False),
    sa.Column("flops", sa.BigInteger, nullable=False),
    sa.Column("min_bytes", sa.BigInteger, nullable=False),
    sa.Column("dtype", sa.String(16), nullable=False),
    sa.Column("extents", Json),
    sa.Column("log_size", sa.Float(53)),
    sa.Column("n_records", sa.Integer, nullable=False, server_default="0"),
    sa.Column("n_failed", sa.Integer, nullable=False, server_default="0"),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Index("ix_workload_structure", "structure", "log_size", "id"),
    sa.Index("ix_workload_created", "created_at", "id"),
)

# Best and last records are named without a foreign key: job and record would need each other first.
job = sa.Table(
    "job",
    metadata,
    sa.Column("id", Id(), primary_key=True),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("workload_id", Id(64), sa.ForeignKey("workload.id"), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("source", Json, nullable=False),
    sa.Column("options", Json, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("owner", sa.String(64), nullable=False, server_default=""),
    sa.Column("idempotency_key", sa.String(255)),
    sa.Column("request_sha256", sa.String(64)),
    sa.Column("trials_total", sa.Integer),
    sa.Column("n_trials", sa.Integer, nullable=False, server_default="0"),
    sa.Column("n_failed", sa.Integer, nullable=False, server_default="0"),
    sa.Column("trials_seen", sa.Integer, nullable=False, server_default="0"),
    sa.Column("best_record_id", Id()),
    sa.Column("best_s", sa.Float(53)),
    sa.Column("best_gflops", sa.Float(53)),
    sa.Column("phase", sa.String(32), nullable=False, server_default=""),
    sa.Column("elapsed_s", sa.Float(53), nullable=False, server_default="0"),
    sa.Column("untuned_s", sa.Float(53)),
    sa.Column("attempt", sa.Integer, nullable=False, server_default="0"),
    sa.Column("result", Json),
    sa.Column("error", sa.Text, nullable=False, server_default=""),
    sa.Column("version", sa.Integer, nullable=False, server_default="1"),
    sa.Column("lease_owner", sa.String(255)),
    sa.Column("lease_until", UtcDateTime),
    sa.Column("heartbeat_at", UtcDateTime),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("started_at", UtcDateTime),
    sa.Column("finished_at", UtcDateTime),
    sa.Column("updated_at", UtcDateTime, nullable=False),
    sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
    sa.Column("wanted", sa.String(16), nullable=False, server_default=""),
    # Jobs of the same kind of measurements share them: those of one workload do not run at the same time.
    sa.Column("measures", sa.String(64)),
    # Attempts that ended without a word and without a new trial, in a row.
    sa.Column("strikes", sa.Integer, nullable=False, server_default="0"),
    sa.Column("claimed_trials", sa.Integer, nullable=False, server_default="0"),
    sa.Column("end_to_end_s", sa.Float(53)),
    sa.UniqueConstraint("owner", "idempotency_key"),
    sa.Index("ix_job_created", "created_at", "id"),
    sa.Index("ix_job_state", "state", "created_at", "id"),
    sa.Index("ix_job_owner", "owner", "created_at", "id"),
    sa.Index("ix_job_workload", "workload_id"),
)
sa.Index("ix_job_queue", job.c.state, job.c.priority.desc(), job.c.created_at, job.c.id)

# The tensor computations of a job, one or more (a model's layers). A program is in it once.
task = sa.Table(
    "task",
    metadata,
    sa.Column("id", Id(), primary_key=True),
    sa.Column("job_id", Id(), sa.ForeignKey("job.id", ondelete="CASCADE"), nullable=False),
    sa.Column("workload_id", Id(64), sa.ForeignKey("workload.id"), nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("weight", sa.Float(53), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("n_trials", sa.Integer, nullable=False, server_default="0"),
    sa.Column("best_record_id", Id()),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("name", sa.Text, nullable=False, server_default=""),
    sa.Column("n_failed", sa.Integer, nullable=False, server_default="0"),
    sa.Column("best_s", sa.Float(53)),
    sa.Column("best_gflops", sa.Float(53)),
    sa.UniqueConstraint("job_id", "position"),
    sa.Index("ix_task_job", "job_id", "workload_id", unique=True),
    sa.Index("ix_task_workload", "workload_id", "job_id"),
)

# What happened to jobs, in the order in which it became known. Ids are never given twice.
event = sa.Table(
    "event",
    metadata,
    sa.Column(
        "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=True
    ),
    sa.Column("job_id", Id(), sa.ForeignKey("job.id", ondelete="CASCADE"), nullable=False),
    sa.Column("owner", sa.String(64), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("document", Json, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Index("ix_event_job", "job_id", "id"),
    sa.Index("ix_event_at", "at"),
    sqlite_autoincrement=True,
)

record = sa.Table(
    "record",
    metadata,
    sa.Column("id", Id(), primary_key=True),
    sa.Column("workload_id", Id(64), sa.ForeignKey("workload.id"), nullable=False),
    sa.Column("target_id", Id(64), sa.ForeignKey("target.id"), nullable=False),
    sa.Column("job_id", Id(), sa.ForeignKey("job.id")),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("trial", sa.Integer, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("time_s", sa.Float(53)),
    sa.Column("race_s", sa.Float(53)),
    # What serving goes by: race_s for the entrants of the latest race, time_s for all others, NULL for
    # failures and for observations of other programs. Times of different races do not compare, hence only
    # the latest one counts.
    sa.Column("rank_s", sa.Float(53)),
    sa.Column("unraced", sa.Boolean, nullable=False),
    # The protocol's cache mode: times with cold caches do not compare with times with warm ones.
    sa.Column("cache", sa.String(8), nullable=False, server_default="warm"),
    sa.Column("gflops", sa.Float(53)),
    sa.Column("schedule_hash", Id(64), nullable=False),
    sa.Column("schedule", Json, nullable=False),
    sa.Column("measurement", Json, nullable=False),
    sa.Column("protocol", Json, nullable=False),
    sa.Column("versions", Json, nullable=False),
    sa.Column("error", sa.Text, nullable=False),
    sa.Column("variant", Json),
    sa.Column("created_at", UtcDateTime, nullable=False),
    # The how manieth of its job's it is: as many as the job counts, and none twice.
    sa.Column("seq", sa.Integer),
    # With the status in all of them: a page of one status is a range, a page of all merges their ranges.
    sa.Index("ix_record_history", "workload_id", "target_id", "status", "created_at", "id"),
    sa.Index("ix_record_workload", "workload_id", "status", "created_at", "id"),
    sa.Index("ix_record_target", "target_id", "status", "created_at", "id"),
    sa.Index("ix_record_job", "job_id", "status", "created_at", "id"),
    sa.Index("ix_record_seq", "job_id", "seq", unique=True),
    sa.Index("ix_record_status", "status", "created_at", "id"),
)

_served = sa.text("rank_s IS NOT NULL")
_rank = (record.c.cache, record.c.unraced, record.c.rank_s, record.c.id)
for _name, _of in {
    "ix_record_best": (record.c.workload_id, record.c.target_id),
    "ix_record_fastest": (record.c.workload_id,),
    "ix_record_job_best": (record.c.job_id,),
}.items():
    sa.Index(_name, *_of, *_rank, sqlite_where=_served, postgresql_where=_served)

# A trained cost model: the file itself, and what decides whether it fits.
model = sa.Table(
    "model",
    metadata,
    sa.Column("id", Id(), primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("target_id", Id(64), sa.ForeignKey("target.id")),
    sa.Column("feature_schema", sa.Integer, nullable=False),
    sa.Column("n_records", sa.Integer, nullable=False),
    sa.Column("metrics", Json, nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Index("ix_model_name", "name", "created_at"),
    sa.Index("ix_model_created", "created_at", "id"),
    sa.Index("ix_model_sha256", "sha256", unique=True),
)

artifact = sa.Table(
    "artifact",
    metadata,
    sa.Column("id", Id(), primary_key=True),
    sa.Column("record_id", Id(), sa.ForeignKey("record.id", ondelete="CASCADE"), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False),
    sa.Column("size_bytes", sa.Integer, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.UniqueConstraint("record_id", "kind"),
)

# ``sha256`` is of the secret; the secret itself is shown once, when the key is made.
api_key = sa.Table(
    "api_key",
    metadata,
    sa.Column("id", Id(), primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("prefix", sa.String(16), nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False),
    sa.Column("scopes", Json, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime),
    sa.Column("last_used_at", UtcDateTime),
    sa.Column("revoked_at", UtcDateTime),
    sa.UniqueConstraint("sha256"),
)

# Requests with an Idempotency-Key (``id``), and what they were answered; no status: not yet. Those that
# submit jobs are kept with the job instead.
request = sa.Table(
    "request",
    metadata,
    sa.Column("owner", sa.String(64), primary_key=True),
    sa.Column("id", sa.String(255), primary_key=True),
    sa.Column("request_sha256", sa.String(64), nullable=False),
    sa.Column("status", sa.Integer),
    sa.Column("answer", Json),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Index("ix_request_created", "created_at"),
)

# What the owner of a key uploaded on a day (``id``, of UTC).
usage = sa.Table(
    "usage",
    metadata,
    sa.Column("owner", sa.String(64), primary_key=True),
    sa.Column("id", Id(10), primary_key=True),
    sa.Column("records", sa.BigInteger, nullable=False),
    sa.Column("size_bytes", sa.BigInteger, nullable=False),
)
