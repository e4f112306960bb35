"""Jobs with priorities, requests and tasks; events; the place of a record among those of its job."""

import sqlalchemy as sa
from alembic import op

from tunesmith.db.columns import Id, Json, UtcDateTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _jobs()
    _tasks()
    _events()
    _records()


def _jobs() -> None:
    op.add_column("job", sa.Column("priority", sa.Integer, nullable=False, server_default="0"))
    op.add_column("job", sa.Column("wanted", sa.String(16), nullable=False, server_default=""))
    op.add_column("job", sa.Column("measures", sa.String(64)))
    op.add_column("job", sa.Column("strikes", sa.Integer, nullable=False, server_default="0"))
    op.add_column("job", sa.Column("claimed_trials", sa.Integer, nullable=False, server_default="0"))
    op.add_column("job", sa.Column("end_to_end_s", sa.Float(53)))
    op.execute("UPDATE job SET wanted = 'cancelled' WHERE cancel_requested AND state = 'running'")
    op.execute("ALTER TABLE job DROP COLUMN cancel_requested")  # in place: others refer to the table
    op.create_index("ix_job_owner", "job", ["owner", "created_at", "id"])
    op.create_index("ix_job_queue", "job", ["state", sa.text("priority DESC"), "created_at", "id"])


def _tasks() -> None:
    op.add_column("task", sa.Column("name", sa.Text, nullable=False, server_default=""))
    op.add_column("task", sa.Column("n_failed", sa.Integer, nullable=False, server_default="0"))
    op.add_column("task", sa.Column("best_s", sa.Float(53)))
    op.add_column("task", sa.Column("best_gflops", sa.Float(53)))
    op.execute(
        "INSERT INTO task (id, job_id, workload_id, position, weight, state, n_trials, n_failed,"
        " best_record_id, best_s, best_gflops, name, created_at)"
        " SELECT id, id, workload_id, 0, 1.0,"
        " CASE state WHEN 'queued' THEN 'waiting' WHEN 'running' THEN 'running'"
        " WHEN 'failed' THEN 'failed' ELSE 'done' END,"
        " n_trials, n_failed, best_record_id, best_s, best_gflops, name, created_at FROM job"
    )
    op.drop_index("ix_task_workload", "task")
    op.create_index("ix_task_workload", "task", ["workload_id", "job_id"])
    op.create_index("ix_task_job", "task", ["job_id", "workload_id"], unique=True)


def _events() -> None:
    op.create_table(
        "event",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=True
        ),
        sa.Column("job_id", Id(), sa.ForeignKey("job.id", ondelete="CASCADE"), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("document", Json, nullable=False),
        sa.Column("at", UtcDateTime, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_event_job", "event", ["job_id", "id"])
    op.create_index("ix_event_at", "event", ["at"])


def _records() -> None:
    """The place of older records is that of their time."""
    op.add_column("record", sa.Column("seq", sa.Integer))
    op.execute(
        "UPDATE record SET seq = placed.n FROM (SELECT id, row_number() OVER"
        " (PARTITION BY job_id ORDER BY created_at, id) - 1 AS n FROM record WHERE job_id IS NOT NULL)"
        " AS placed WHERE record.id = placed.id"
    )
    op.create_index("ix_record_seq", "record", ["job_id", "seq"], unique=True)


def downgrade() -> None:
    op.drop_index("ix_record_seq", "record")
    op.drop_column("record", "seq")
    op.drop_table("event")
    op.drop_index("ix_task_job", "task")
    op.drop_index("ix_task_workload", "task")
    op.create_index("ix_task_workload", "task", ["workload_id"])
    for name in ("name", "n_failed", "best_s", "best_gflops"):
        op.drop_column("task", name)
    op.drop_index("ix_job_queue", "job")
    op.drop_index("ix_job_owner", "job")
    op.add_column("job", sa.Column("cancel_requested", sa.Boolean, nullable=False, server_default=sa.false()))
    for name in ("priority", "wanted", "measures", "strikes", "claimed_trials", "end_to_end_s"):
        op.drop_column("job", name)
