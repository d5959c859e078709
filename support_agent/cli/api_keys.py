"""`keys`: who may use the HTTP API, and for what."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.listing import print_page
from support_agent.cli.options import (
    Cursor,
    Json,
    Limit,
    Operator,
    examples,
    operator_or_user,
)
from support_agent.cli.output import Column, print_json, rfc3339, say
from support_agent.cli.runtime import at_the_host, ready, run
from support_agent.cli.views import local
from support_agent.domain.access import ApiKey, Scope
from support_agent.domain.conversation import Assurance
from support_agent.domain.errors import InvalidInput
from support_agent.ports.storage import Page, Transaction
from support_agent.services.api_key_proofs import is_genuine
from support_agent.services.paging import check_cursor, page_of

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from support_agent.container import Container

DAYS, MOST_DAYS = 365, 3_650
MOST_OVERLAP_HOURS = 24 * 30
CHANGED = "changed by something else; see audit verify"
Listed = tuple[ApiKey, bool]  # and whether it is as it was signed
COLUMNS = (
    Column(title="ID"),
    Column(title="NAME"),
    Column(title="SCOPES"),
    Column(title="FOR"),
    Column(title="CREATED"),
    Column(title="STATE"),
)

app = typer.Typer(name="keys", help="Keys of the HTTP API: who may use it, and for what.")
Id = Annotated[str, typer.Argument(help="The key's id.", metavar="KEY")]
Days = Annotated[
    int,
    typer.Option(
        "--days", min=0, max=MOST_DAYS, help="How long it works; 0 is without end.", metavar="N"
    ),
]


@app.command(
    epilog=examples(
        "keys create web --scope customers:act",
        "keys create zalo --scope customers:act --channel zalo:oa_1 --assurance claimed",
        "keys create desk-lan --scope approvals:read --scope approvals:decide --approver lan",
    )
)
def create(
    name: Annotated[
        str,
        typer.Argument(help="Whose it is; stays when the key is rotated.", metavar="NAME"),
    ],
    *,
    scope: Annotated[
        list[Scope], typer.Option("--scope", help="What it may do; repeat it.", metavar="SCOPE")
    ],
    approver: Annotated[
        str | None,
        typer.Option("--approver", help="Who decides with it.", metavar="NAME"),
    ] = None,
    channel: Annotated[
        str | None,
        typer.Option(
            "--channel",
            help="Where its customers come from; it names them itself.",
            metavar="CHANNEL:ACCOUNT",
        ),
    ] = None,
    assurance: Annotated[
        str,
        typer.Option(
            "--assurance",
            help="Whether that channel proves who they are: claimed or verified.",
            metavar="WORD",
        ),
    ] = "claimed",
    days: Days = DAYS,
    operator: Operator = None,
    as_json: Json = False,
) -> None:
    """Make a key and print it once.

    Only its hash is stored, so a lost key is replaced, never shown again.
    """
    sure = _assurance(assurance)
    of_channel, of_account = _parts(channel)
    settings, by = ready(), at_the_host(operator_or_user(operator))

    async def work(container: "Container") -> tuple[ApiKey, str]:
        return await container.api_keys().create(
            name=name,
            scopes=frozenset(scope),
            by=by,
            approver=approver,
            channel=of_channel,
            account=of_account,
            assurance=sure,
            lives=_life(days),
        )

    key, text = run(work, settings)
    if as_json:
        print_json({"key": text, **_object(key)})
    else:
        say(text)


@app.command("list", epilog=examples("keys list", "keys list --json"))
def list_keys(*, limit: Limit = 20, cursor: Cursor = None, as_json: Json = False) -> None:
    """List the keys, the oldest first, those that ended too."""
    settings = ready()

    async def work(container: "Container") -> "tuple[Page[Listed], datetime]":
        def read(tx: Transaction) -> Page[Listed]:
            check_cursor(cursor, tx.api_keys.get(cursor) if cursor else None)
            page = page_of(
                tx.api_keys.list(limit=limit + 1, after=cursor), limit, lambda row: row.id
            )
            data = tuple((key, is_genuine(tx, key, container.keys())) for key in page.data)
            return Page(data=data, next_cursor=page.next_cursor)

        return await container.database().read(read), container.wall_clock()()

    page, now = run(work, settings)
    print_page(
        page,
        columns=COLUMNS,
        row=lambda listed: _row(*listed, now, settings.zone),
        as_object=lambda listed: {**_object(listed[0]), "genuine": listed[1]},
        as_json=as_json,
        none="there are no keys; make one with `keys create`",
    )


@app.command(epilog=examples("keys rotate key_01… --overlap-hours 24"))
def rotate(
    key_id: Id,
    *,
    overlap_hours: Annotated[
        int,
        typer.Option(
            "--overlap-hours",
            min=0,
            max=MOST_OVERLAP_HOURS,
            help="How long the old key still works.",
            metavar="N",
        ),
    ] = 24,
    days: Days = DAYS,
    operator: Operator = None,
    as_json: Json = False,
) -> None:
    """Make another key like this one and print it once; this one ends after the overlap."""
    settings, by = ready(), at_the_host(operator_or_user(operator))

    async def work(container: "Container") -> tuple[ApiKey, ApiKey, str]:
        return await container.api_keys().rotate(
            key_id, overlap=timedelta(hours=overlap_hours), by=by, lives=_life(days)
        )

    old, new, text = run(work, settings)
    if as_json:
        print_json({"key": text, **_object(new), "replaces": _object(old)})
    else:
        say(text)


@app.command(epilog=examples("keys revoke key_01…"))
def revoke(key_id: Id, *, operator: Operator = None, as_json: Json = False) -> None:
    """End a key at once: it opens nothing any more, and its open streams end."""
    settings, by = ready(), at_the_host(operator_or_user(operator))

    async def work(container: "Container") -> ApiKey:
        return await container.api_keys().revoke(key_id, by=by)

    key = run(work, settings)
    if as_json:
        print_json(_object(key))
    else:
        say(f"key {key.id} of {key.name} is revoked")


def _life(days: int) -> timedelta | None:
    return timedelta(days=days) if days else None


def _assurance(word: str) -> Assurance:
    known = {one.name.lower(): one for one in (Assurance.CLAIMED, Assurance.VERIFIED)}
    if word not in known:
        raise InvalidInput("assurance", f"{word!r} must be one of {', '.join(known)}")
    return known[word]


def _parts(channel: str | None) -> tuple[str | None, str | None]:
    if channel is None:
        return None, None
    name, colon, account = channel.partition(":")
    if not (name and colon and account):
        raise InvalidInput("channel", f"{channel!r} must be written like zalo:oa_1")
    return name, account


def _for(key: ApiKey) -> str:
    if key.channel is not None:
        return f"{key.channel}:{key.account} ({key.assurance.name.lower()})"
    return key.approver or ""


def _row(key: ApiKey, genuine: bool, now: "datetime", zone: "tzinfo") -> tuple[str, ...]:  # noqa: FBT001 - as listed
    return (
        key.id,
        key.name,
        ", ".join(sorted(key.scopes)),
        _for(key),
        local(key.created_at, zone),
        _state(key, now, zone) if genuine else CHANGED,
    )


def _state(key: ApiKey, now: "datetime", zone: "tzinfo") -> str:
    if key.revoked_at is not None:
        return f"revoked {local(key.revoked_at, zone)}"
    if key.expires_at is None:
        return "works without end"
    word = "ended" if key.ended_at(now) else "works until"
    return f"{word} {local(key.expires_at, zone)}"


def _object(key: ApiKey) -> dict[str, object]:
    return {
        "id": key.id,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "approver": key.approver,
        "channel": key.channel,
        "account": key.account,
        "assurance": key.assurance.name.lower(),
        "created_at": rfc3339(key.created_at),
        "created_by": key.created_by,
        "expires_at": rfc3339(key.expires_at) if key.expires_at else None,
        "revoked_at": rfc3339(key.revoked_at) if key.revoked_at else None,
    }
