"""Alembic's entry point. The caller brings the connection and owns the transaction."""

from alembic import context

from tunesmith.db.models import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
)
context.run_migrations()
