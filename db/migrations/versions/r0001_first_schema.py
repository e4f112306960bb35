"""First schema: targets, workloads, jobs, tasks, records, models, artifacts and keys."""

import sqlalchemy as sa
from alembic import op

from tunesmith.db.columns import Id, Json, UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_SERVED = sa.text("rank_s IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        "api_key",
        sa.Column("id", Id(), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("prefix", sa.String(16), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("scopes", Json, nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("expires_at", UtcDateTime),
        sa.Column("last_used_at", UtcDateTime),
        sa.Column("revoked_at", UtcDateTime),
        sa.PrimaryKeyConstraint("id", name="pk_api_key"),
        sa.UniqueConstraint("sha256", name="uq_api_key_sha256"),
    )
    op.create_table(
        "target",
        sa.Column("id", Id(64), nullable=False),
        sa.Column("arch", sa.String(32), nullable=False),
        sa.Column("cpu", sa.String(64), nullable=False),
        sa.Column("features", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("threads", sa.Integer, nullable=False),
        sa.Column("vector_bytes", sa.Integer, nullable=False),
        sa.Column("document", Json, nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_target"),
    )
    op.create_index("ix_target_arch", "target", ["arch"])
    op.create_index("ix_target_cpu", "target", ["cpu", "threads"])
    op.create_table(
        "workload",
        sa.Column("id", Id(64), nullable=False),
        sa.Column("structure", Id(64), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("program", Json, nullable=False),
        sa.Column("flops", sa.BigInteger, nullable=False),
        sa.Column("min_bytes", sa.BigInteger, nullable=False),
        sa.Column("dtype", sa.String(16), nullable=False),
        sa.Column("n_records", sa.Integer, server_default="0", nullable=False),
        sa.Column("n_failed", sa.Integer, server_default="0", nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_workload"),
    )
    op.create_index("ix_workload_created", "workload", ["created_at", "id"])
    op.create_index("ix_workload_structure", "workload", ["structure"])
    op.create_table(
        "job",
        sa.Column("id", Id(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("workload_id", Id(64), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("source", Json, nullable=False),
        sa.Column("options", Json, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.String(64), server_default="", nullable=False),
        sa.Column("idempotency_key", sa.String(255)),
        sa.Column("request_sha256", sa.String(64)),
        sa.Column("trials_total", sa.Integer),
        sa.Column("n_trials", sa.Integer, server_default="0", nullable=False),
        sa.Column("n_failed", sa.Integer, server_default="0", nullable=False),
        sa.Column("trials_seen", sa.Integer, server_default="0", nullable=False),
        sa.Column("best_record_id", Id()),
        sa.Column("best_s", sa.Float(53)),
        sa.Column("best_gflops", sa.Float(53)),
        sa.Column("phase", sa.String(32), server_default="", nullable=False),
        sa.Column("elapsed_s", sa.Float(53), server_default="0", nullable=False),
        sa.Column("untuned_s", sa.Float(53)),
        sa.Column("cancel_requested", sa.Boolean, server_default=sa.false(), nullable=False),
        sa.Column("attempt", sa.Integer, server_default="0", nullable=False),
        sa.Column("result", Json),
        sa.Column("error", sa.Text, server_default="", nullable=False),
        sa.Column("version", sa.Integer, server_default="1", nullable=False),
        sa.Column("lease_owner", sa.String(255)),
        sa.Column("lease_until", UtcDateTime),
        sa.Column("heartbeat_at", UtcDateTime),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("started_at", UtcDateTime),
        sa.Column("finished_at", UtcDateTime),
        sa.Column("updated_at", UtcDateTime, nullable=False),
        sa.ForeignKeyConstraint(["workload_id"], ["workload.id"], name="fk_job_workload_id"),
        sa.PrimaryKeyConstraint("id", name="pk_job"),
        sa.UniqueConstraint("owner", "idempotency_key", name="uq_job_owner_idempotency_key"),
    )
    op.create_index("ix_job_created", "job", ["created_at", "id"])
    op.create_index("ix_job_state", "job", ["state", "created_at", "id"])
    op.create_index("ix_job_workload", "job", ["workload_id"])
    op.create_table(
        "model",
        sa.Column("id", Id(), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("target_id", Id(64)),
        sa.Column("feature_schema", sa.Integer, nullable=False),
        sa.Column("n_records", sa.Integer, nullable=False),
        sa.Column("metrics", Json, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.ForeignKeyConstraint(["target_id"], ["target.id"], name="fk_model_target_id"),
        sa.PrimaryKeyConstraint("id", name="pk_model"),
    )
    op.create_index("ix_model_name", "model", ["name", "created_at"])
    op.create_table(
        "record",
        sa.Column("id", Id(), nullable=False),
        sa.Column("workload_id", Id(64), nullable=False),
        sa.Column("target_id", Id(64), nullable=False),
        sa.Column("job_id", Id()),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("trial", sa.Integer, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("time_s", sa.Float(53)),
        sa.Column("race_s", sa.Float(53)),
        sa.Column("rank_s", sa.Float(53)),
        sa.Column("unraced", sa.Boolean, nullable=False),
        sa.Column("gflops", sa.Float(53)),
        sa.Column("schedule_hash", Id(64), nullable=False),
        sa.Column("schedule", Json, nullable=False),
        sa.Column("measurement", Json, nullable=False),
        sa.Column("protocol", Json, nullable=False),
        sa.Column("versions", Json, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("variant", Json),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_record_job_id"),
        sa.ForeignKeyConstraint(["target_id"], ["target.id"], name="fk_record_target_id"),
        sa.ForeignKeyConstraint(["workload_id"], ["workload.id"], name="fk_record_workload_id"),
        sa.PrimaryKeyConstraint("id", name="pk_record"),
    )
    op.create_index(
        "ix_record_best",
        "record",
        ["workload_id", "target_id", "unraced", "rank_s", "id"],
        sqlite_where=_SERVED,
        postgresql_where=_SERVED,
    )
    op.create_index("ix_record_created", "record", ["created_at", "id"])
    op.create_index(
        "ix_record_fastest",
        "record",
        ["workload_id", "unraced", "rank_s", "id"],
        sqlite_where=_SERVED,
        postgresql_where=_SERVED,
    )
    op.create_index("ix_record_history", "record", ["workload_id", "target_id", "created_at", "id"])
    op.create_index("ix_record_job", "record", ["job_id", "created_at", "id"])
    op.create_index("ix_record_status", "record", ["status", "created_at", "id"])
    op.create_index("ix_record_target", "record", ["target_id", "created_at", "id"])
    op.create_index("ix_record_workload", "record", ["workload_id", "created_at", "id"])
    op.create_table(
        "task",
        sa.Column("id", Id(), nullable=False),
        sa.Column("job_id", Id(), nullable=False),
        sa.Column("workload_id", Id(64), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("weight", sa.Float(53), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("n_trials", sa.Integer, server_default="0", nullable=False),
        sa.Column("best_record_id", Id()),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_task_job_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["workload_id"], ["workload.id"], name="fk_task_workload_id"),
        sa.PrimaryKeyConstraint("id", name="pk_task"),
        sa.UniqueConstraint("job_id", "position", name="uq_task_job_id_position"),
    )
    op.create_index("ix_task_workload", "task", ["workload_id"])
    op.create_table(
        "artifact",
        sa.Column("id", Id(), nullable=False),
        sa.Column("record_id", Id(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("size_bytes", sa.Integer, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.ForeignKeyConstraint(
            ["record_id"], ["record.id"], name="fk_artifact_record_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_artifact"),
        sa.UniqueConstraint("record_id", "kind", name="uq_artifact_record_id_kind"),
    )


def downgrade() -> None:
    for table in ("artifact", "task", "record", "model", "job", "workload", "target", "api_key"):
        op.drop_table(table)
