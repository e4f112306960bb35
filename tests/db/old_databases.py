"""Databases as earlier versions made them."""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from tunesmith.db.engine import Database
from tunesmith.db.models import metadata
from tunesmith.db.schema import _MIGRATIONS

OLD_TYPES = {"cancel_requested": sa.Boolean()}


def old_database(url: str, revision: str, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """One of the schema ``revision`` with these rows, by table; columns that it does not have yet are
    left out."""
    if url.startswith("sqlite"):
        open(url.removeprefix("sqlite:///"), "w").close()
    database = Database(url)
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    engine = database.engine.execution_options(tunesmith_write=True)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        for name, given in rows.items():
            known = [column["name"] for column in sa.inspect(connection).get_columns(name)]
            types = {column.name: column.type for column in metadata.tables[name].columns} | OLD_TYPES
            wanted = [key for key in known if key in given[0]]
            table = sa.table(name, *(sa.column(key, types[key]) for key in wanted))
            kept = [{key: row[key] for key in wanted} for row in given]
            connection.execute(sa.insert(table), kept)
    database.close()
