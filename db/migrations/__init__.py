"""Alembic's environment and the schema's revisions."""
