"""Requests that take effect once, what each key used in a day, and models known by what they are."""

import sqlalchemy as sa
from alembic import op

from tunesmith.db.columns import Id, Json, UtcDateTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "request",
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("id", sa.String(255), nullable=False),
        sa.Column("request_sha256", sa.String(64), nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("answer", Json),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("owner", "id", name="pk_request"),
    )
    op.create_index("ix_request_created", "request", ["created_at"])
    op.create_table(
        "usage",
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("id", Id(10), nullable=False),
        sa.Column("records", sa.BigInteger, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("owner", "id", name="pk_usage"),
    )
    op.create_index("ix_model_sha256", "model", ["sha256"], unique=True)
    op.create_index("ix_model_created", "model", ["created_at", "id"])
    op.create_index("ix_target_created", "target", ["created_at", "id"])


def downgrade() -> None:
    op.drop_index("ix_target_created", "target")
    op.drop_index("ix_model_created", "model")
    op.drop_index("ix_model_sha256", "model")
    op.drop_table("usage")
    op.drop_table("request")
