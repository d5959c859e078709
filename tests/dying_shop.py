"""`python -m tests.dying_shop FD`: the example shop, which dies right after it has paid a refund.

Its own commit is done; nobody gets an answer any more.
"""

import os
import signal
import sys
from typing import Any

import sqlalchemy as sa
import uvicorn
from existing_backend import database


def die_after_paying(engine: sa.Engine) -> None:
    """The first commit that follows a new refund is the last thing that this process does."""
    paid = False
    commit = engine.dialect.do_commit

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        nonlocal paid
        paid = paid or statement.startswith("INSERT INTO hoan_tien")

    def commit_and_die(connection: Any) -> None:
        commit(connection)
        if paid:
            os.kill(os.getpid(), signal.SIGKILL)

    sa.event.listen(engine, "before_cursor_execute", note)
    engine.dialect.do_commit = commit_and_die  # type: ignore[method-assign]


if __name__ == "__main__":
    die_after_paying(database.engine())
    uvicorn.run("existing_backend.with_agent:app", fd=int(sys.argv[1]), log_level="warning")
