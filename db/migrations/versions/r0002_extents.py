"""Workloads know their extents, and are found by structure and size."""

import sqlalchemy as sa
from alembic import op

from tunesmith.db.codec import document, log_size
from tunesmith.db.columns import Id, Json
from tunesmith.ir import TunesmithError, canonical, extents, program_from_json

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_BATCH = 500
_workload = sa.table(
    "workload",
    sa.column("id", Id(64)),
    sa.column("program", Json),
    sa.column("extents", Json),
    sa.column("log_size", sa.Float(53)),
)


def upgrade() -> None:
    op.add_column("workload", sa.Column("extents", Json))
    op.add_column("workload", sa.Column("log_size", sa.Float(53)))
    _fill()
    op.drop_index("ix_workload_structure", "workload")
    op.create_index("ix_workload_structure", "workload", ["structure", "log_size", "id"])


def _fill() -> None:
    """From the stored programs; one that this version cannot read stays without, and is no neighbour."""
    connection = op.get_bind()
    last = ""
    while True:
        page = sa.select(_workload.c.id, _workload.c.program).where(_workload.c.id > last)
        rows = connection.execute(page.order_by(_workload.c.id).limit(_BATCH)).all()
        for last, program in rows:
            try:
                found = extents(canonical(program_from_json(document(program))))
            except TunesmithError:
                continue
            values = {"extents": list(found), "log_size": log_size(found)}
            connection.execute(sa.update(_workload).where(_workload.c.id == last).values(values))
        if len(rows) < _BATCH:
            return


def downgrade() -> None:
    op.drop_index("ix_workload_structure", "workload")
    op.drop_column("workload", "log_size")
    op.drop_column("workload", "extents")
    op.create_index("ix_workload_structure", "workload", ["structure"])
