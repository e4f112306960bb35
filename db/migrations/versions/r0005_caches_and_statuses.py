"""Records say the state of the caches they were measured with; lists of one status are ranges of an index."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_SERVED = sa.text("rank_s IS NOT NULL")
_LISTS = {
    "ix_record_history": ("workload_id", "target_id"),
    "ix_record_workload": ("workload_id",),
    "ix_record_target": ("target_id",),
    "ix_record_job": ("job_id",),
}
_RANKS = {"ix_record_best": ("workload_id", "target_id"), "ix_record_fastest": ("workload_id",)}
_CACHE = {"sqlite": "json_extract(protocol, '$.cache')", "postgresql": "protocol ->> 'cache'"}


def upgrade() -> None:
    op.add_column("record", sa.Column("cache", sa.String(8), nullable=False, server_default="warm"))
    cache = _CACHE[op.get_context().dialect.name]
    op.execute(f"UPDATE record SET cache = {cache} WHERE {cache} <> 'warm'")
    for name in (*_LISTS, *_RANKS, "ix_record_created"):
        op.drop_index(name, "record")
    for name, columns in _LISTS.items():
        op.create_index(name, "record", [*columns, "status", "created_at", "id"])
    for name, columns in {**_RANKS, "ix_record_job_best": ("job_id",)}.items():
        _create_served(name, [*columns, "cache", "unraced", "rank_s", "id"])


def downgrade() -> None:
    for name in (*_LISTS, *_RANKS, "ix_record_job_best"):
        op.drop_index(name, "record")
    op.drop_column("record", "cache")
    for name, columns in _LISTS.items():
        op.create_index(name, "record", [*columns, "created_at", "id"])
    for name, columns in _RANKS.items():
        _create_served(name, [*columns, "unraced", "rank_s", "id"])
    op.create_index("ix_record_created", "record", ["created_at", "id"])


def _create_served(name: str, columns: list[str]) -> None:
    op.create_index(name, "record", columns, sqlite_where=_SERVED, postgresql_where=_SERVED)
