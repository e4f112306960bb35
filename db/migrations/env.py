"""Alembic's entry point. The caller brings the connection and owns the transaction."""

from alembic import context

from tunesmith.db.models import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=True,  # SQLite too, since the caller begins the transaction itself
)
context.run_migrations()
