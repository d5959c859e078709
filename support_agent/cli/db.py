"""`db`: making, filling and checking the database."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.exits import ExitCode
from support_agent.cli.options import Json, examples
from support_agent.cli.output import print_json, say
from support_agent.cli.refunds import mismatch_line, mismatch_object
from support_agent.cli.runtime import ready, run
from support_agent.domain.errors import ConfigurationError
from support_agent.ports.storage import Mismatch

if TYPE_CHECKING:
    from support_agent.container import Container
    from support_agent.services.seeding import Seeded
    from support_agent.settings import Settings

KEYS = "SUPPORT_AGENT_SECURITY__KEYS"

app = typer.Typer(name="db", help="Make, fill and check the database.")


@app.command(epilog=examples("db upgrade", "db upgrade --live"))
def upgrade(
    *,
    live: Annotated[
        bool, typer.Option("--live", help="A new database is for real money; never changes back.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Bring the database to this program's schema; makes and stamps a new one.

    A history that has no index gets one, after all of it was verified: nothing counts without.

    The stamp is demo, or live with --live or under the profile prod. A demo database gets a key
    file beside it; a live one needs SUPPORT_AGENT_SECURITY__KEYS.

    With SUPPORT_AGENT_DATABASE__MIGRATE_URL that role makes and owns the tables, and the one of
    SUPPORT_AGENT_DATABASE__URL is given what the program needs and nothing else.

    With QUEUE__KIND=procrastinate the queue gets its tables, too.
    """
    # Alembic is imported in there: only this command pays for it.
    from support_agent.adapters.db.migrations import (  # noqa: PLC0415
        upgrade as migrate,
    )
    from support_agent.building.checks import check_own_tables  # noqa: PLC0415 - not for --help

    settings = ready()
    check_own_tables(settings)
    live = live or settings.profile == "prod"
    _check_keys(settings, live=live)
    role = _check_roles(settings)
    _check_queue(settings)
    result = migrate(settings.of_owner.database.url, live=live)
    own_file = result.kind == "demo" and settings.security.keys is None
    key_file = _key_file(settings, signed=result.signed) if own_file else None
    indexed = asyncio.run(_index(settings.of_owner)) if result.signed else None
    queue = _upgrade_queue(settings)
    if role is not None:
        _grant(settings, role)
    if as_json:
        about = {"from_revision": result.from_revision, "to_revision": result.to_revision}
        about |= {"kind": result.kind, "key_file": key_file}
        print_json(about | {"indexed_events": indexed, "queue": queue, "granted_to": role})
        return
    before = result.from_revision or "nothing"
    same = result.from_revision == result.to_revision
    say(f"schema {result.to_revision} " + ("already there" if same else f"(from {before})"))
    say(f"this is a {result.kind} database")
    if key_file is not None:
        say(f"signing keys are in {key_file} beside it: keep that file")
    if indexed is not None:
        say(f"the history of {indexed} events is whole, and indexed now")
    if queue is not None:
        say(f"the queue is at {queue}")
    if role is not None:
        say(f"the role {role} may do what the program needs and nothing else")


def _check_queue(settings: "Settings") -> None:
    """Before anything is changed: a queue that cannot be there."""
    from support_agent.adapters.queue.procrastinate import (  # noqa: PLC0415 - not for --help
        need_procrastinate,
    )

    if settings.queue.kind == "procrastinate":
        need_procrastinate(settings.database.url)


def _upgrade_queue(settings: "Settings") -> str | None:
    """The newest step of the queue's schema, if settings name a queue that has one."""
    from support_agent.adapters.queue.procrastinate_schema import (  # noqa: PLC0415 - not for --help
        upgrade_queue,
    )

    if settings.queue.kind != "procrastinate":
        return None
    return upgrade_queue(settings.of_owner.database.url).to_step


def _check_roles(settings: "Settings") -> str | None:
    """The role that is to run the program, if another one owns the tables; nothing is changed."""
    from support_agent.adapters.db.grants import (  # noqa: PLC0415 - not for --help
        check_role,
        check_roles,
        owned,
    )

    owner = settings.database.migrate_url
    if owner is None:
        return None
    role = check_roles(owner, settings.database.url)
    with owned(owner) as connection:
        check_role(connection, role)
    return role


def _grant(settings: "Settings", role: str) -> None:
    from support_agent.adapters.db.grants import grant, owned  # noqa: PLC0415 - not for --help

    with owned(settings.of_owner.database.url) as connection:
        grant(connection, role)


async def _index(settings: "Settings") -> int | None:
    """Let the history vouch for what is in the database, where it does not; needs the keys."""
    from support_agent.adapters.db.database import SqlDatabase  # noqa: PLC0415 - not for --help
    from support_agent.adapters.keys import load_keys  # noqa: PLC0415 - not for --help
    from support_agent.services.audit_index import (  # noqa: PLC0415 - not for --help
        is_indexed,
        reindex,
    )

    url = settings.database.url
    keys = load_keys(configured=settings.security.keys, database_url=url)
    database = SqlDatabase(url, keys)
    try:
        if await database.read(lambda tx: is_indexed(tx, keys)):
            return None
        return await database.transact(lambda tx: reindex(tx, keys))
    finally:
        await database.aclose()


def _key_file(settings: "Settings", *, signed: bool) -> str:
    """The demo's key file; made only while nothing was signed, for a lost key stays lost."""
    from support_agent.adapters.keys import (  # noqa: PLC0415 - not for --help
        ensure_key_file,
        load_keys,
    )

    if signed:
        try:
            load_keys(configured=None, database_url=settings.database.url)
        except ConfigurationError as error:
            raise ConfigurationError(
                "the key file beside this database is missing or broken, and what was signed with "
                "it cannot be signed again; restore that file, or start with a fresh database"
            ) from error
    return ensure_key_file(settings.database.url).name


def _check_keys(settings: "Settings", *, live: bool) -> None:
    """Before anything is changed: a live database takes no generated key."""
    from support_agent.adapters.keys import load_keys  # noqa: PLC0415 - not for --help

    if settings.security.keys is not None:
        load_keys(configured=settings.security.keys, database_url=settings.database.url)
    elif live:
        raise ConfigurationError(
            "is needed for a live database; write it as id:hex, at least 32 bytes of hex",
            setting=KEYS,
        )


@app.command(epilog=examples("db seed"))
def seed(*, as_json: Json = False) -> None:
    """Fill a demo database with the sample shop; a second time changes nothing."""

    async def work(container: "Container") -> "Seeded":
        from support_agent.adapters import (  # noqa: PLC0415 - not for --help
            policy_files,
            shop_files,
        )
        from support_agent.resources import resource_dir  # noqa: PLC0415 - not for --help
        from support_agent.services.seeding import SampleShop  # noqa: PLC0415 - not for --help

        data = resource_dir() / "data"
        body = policy_files.policy_body(data / "policies" / "standard.yaml")
        sample = SampleShop(
            customers=shop_files.load_customers(data / "shop"),
            orders=shop_files.load_orders(data / "shop"),
            approvers=shop_files.load_approvers(data / "shop"),
            policy=policy_files.policy_from_body(body),
            policy_body=body,
        )
        return await container.seeding().run(sample)

    from support_agent.services.seeding import (  # noqa: PLC0415 - not for --help
        check_is_sample_shop,
    )

    settings = ready().of_owner
    check_is_sample_shop(settings.orders.kind)
    done = run(work, settings)
    if as_json:
        counts = {"customers": done.customers, "orders": done.orders, "approvers": done.approvers}
        policy = {"policy_activated": done.policy_activated, "policy_kept": done.policy_kept}
        print_json({**counts, **policy})
        return
    say(f"changed: {done.customers} customers, {done.orders} orders, {done.approvers} approvers")
    say("the sample policy is in force" if done.policy_activated else "the policy stays as it is")
    if done.policy_kept is not None:
        say(
            f"version {done.policy_kept} of it is in force, the file is newer; to change that: "
            "support-agent policies activate data/policies/standard.yaml"
        )


@app.command(epilog=examples("db check"))
def check(*, as_json: Json = False) -> None:
    """Check schema, references and books; exit code 1 when something is wrong."""

    async def work(container: "Container") -> tuple[str, tuple[str, ...], tuple[Mismatch, ...]]:
        database = container.database()
        revision = await database.read(lambda tx: tx.installation.revision())
        broken = await database.broken_references()
        return revision, broken, await database.read(lambda tx: tx.books.check())

    revision, broken, mismatches = run(work)
    wrong = bool(broken or mismatches)
    if as_json:
        books = [mismatch_object(mismatch) for mismatch in mismatches]
        about = {"ok": not wrong, "revision": revision, "broken_references": list(broken)}
        print_json(about | {"mismatches": books})
    else:
        say(f"schema {revision}")
        say(f"rows of {', '.join(broken)} point nowhere" if broken else "every reference holds")
        say("the books do not balance:" if mismatches else "the books balance")
        for mismatch in mismatches:
            say(mismatch_line(mismatch))
    raise typer.Exit(ExitCode.REFUSED if wrong else ExitCode.DONE)
