"""Alembic's way in. The program hands over an open transaction; a developer may give an address."""

import os

from sqlalchemy import Connection

from alembic import context
from support_agent.adapters.db.faults import SETTING
from support_agent.adapters.db.migrations import exclusive
from support_agent.adapters.db.tables import metadata
from support_agent.adapters.db.types import CompactJson, UtcDateTime


def render_item(kind: str, item: object, _: object) -> str | bool:
    """Our column types by what the database sees: a migration must not move with them."""
    if kind == "type" and isinstance(item, UtcDateTime):
        return "sa.DateTime(timezone=True)"
    if kind == "type" and isinstance(item, CompactJson):
        return "sa.Text()"
    return False


def migrate(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        compare_server_default=True,
        render_item=render_item,
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    migrate(given)
else:
    with exclusive(os.environ.get(SETTING, "sqlite:///var/support_agent.db")) as opened:
        migrate(opened)
