"""`doctor`: is this installation set up, and what is missing."""

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.exits import ExitCode
from support_agent.cli.findings import Finding, tell
from support_agent.cli.options import Json
from support_agent.cli.runtime import ready, run
from support_agent.cli.views import head_text, local
from support_agent.domain.errors import SupportAgentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from support_agent.container import Container
    from support_agent.domain.prices import Price
    from support_agent.ports.storage import Transaction
    from support_agent.settings import ModelChoice, Settings

PROOFS = {
    "token": "approvers prove who they are by a token",
    "asserted": "approvers are believed by name, on a demo database only",
}
NEAR_END = timedelta(days=14)
STARTING = frozenset({"database", "start"})  # without them there is nothing to look into


def doctor(
    *,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Look at what waits, clocks, rights and files as well."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Look at settings and database and say what is wrong; exit code 2 when something is.

    With --deep also what waits for whom, the queue, versions, clocks, rights and files; exit code
    1 when only there something is wrong.
    """
    settings = ready()
    findings = [*_of_settings(settings), *_of_installation(settings)]
    code = ExitCode.DONE if all(finding.ok for finding in findings) else ExitCode.USAGE
    if deep and all(finding.ok for finding in findings if finding.name in STARTING):
        from support_agent.cli.condition import deep_findings  # noqa: PLC0415 - not for --help

        looked = deep_findings(settings)
        findings += looked
        if code is ExitCode.DONE and not all(finding.ok for finding in looked):
            code = ExitCode.REFUSED
    tell(findings, deep=deep, as_json=as_json)
    raise typer.Exit(code)


def _of_settings(settings: "Settings") -> Iterator[Finding]:
    from support_agent.adapters.db.faults import parse  # noqa: PLC0415 - not for --help

    yield Finding(name="profile", detail=settings.profile)
    try:
        yield Finding(name="database", detail=parse(settings.database.url).render_as_string())
    except SupportAgentError as error:
        yield Finding(name="database", ok=False, detail=str(error))
    now = settings.clock.now
    fixed = f"fixed at {local(now, settings.zone)}" if now else "this machine's"
    yield Finding(name="clock", detail=fixed)
    yield Finding(name="proof", detail=PROOFS[settings.approvals.proof])
    yield Finding(name="orders", detail=_orders(settings))
    by_worker = ", paid by a worker" if settings.payouts.run == "worker" else ""
    yield Finding(name="payments", detail=f"{_gateway(settings)}{by_worker}")


def _gateway(settings: "Settings") -> str:
    """What pays, and whether real money moves where only a setting tells."""
    payments = settings.payments
    mode = "real money" if payments.livemode else "no real money"
    match payments.kind:
        case "http":
            return f"http, the refund endpoint of account {payments.account}, {mode}"
        case "class":
            return f"class {payments.class_}, {mode}"
        case kind:
            return kind


def _orders(settings: "Settings") -> str:
    """Where orders are; an address is left out, for it may hold a password."""
    orders = settings.orders
    match orders.kind:
        case "mapped" | "http":
            return f"{orders.kind}, by {orders.map}" if orders.map else orders.kind
        case "class":
            return f"class {orders.class_}"
        case _:
            return orders.kind


def _of_installation(settings: "Settings") -> list[Finding]:
    async def work(container: "Container") -> list[Finding]:
        await container.database().transact(_change_nothing)
        stored = await container.database().read(lambda tx: list(_of_database(tx, settings)))
        now = container.wall_clock()()
        stored.append(await container.database().read(lambda tx: _api_keys(tx, now)))
        signatures = await _signatures(container)
        about_models = [*_models(container, settings)]
        if all(finding.ok for finding in about_models):
            about_models.append(_budgets(container))
        return [*about_models, *stored, signatures, await _books(container)]

    try:
        return run(work, settings, check_history=False)
    except SupportAgentError as error:
        return [Finding(name="start", ok=False, detail=str(error))]


def _change_nothing(tx: "Transaction") -> None:
    """Writes no row; a database that can only be read refuses it all the same."""
    tx.conversations.release("", epoch=0)


def _models(container: "Container", settings: "Settings") -> Iterator[Finding]:
    """What is set and whether it can be built; no server is asked."""
    deciding = [settings.first_model, settings.fallback_model]
    yield _model("model", container.model, deciding, container)
    if settings.small_model is not None:
        yield _model("small model", container.small_model, [settings.small_model], container)


def _budgets(container: "Container") -> Finding:
    """Whether limits leave room for a call, and can be held at all."""
    try:
        container.metering().check(container.views().whole(()).tokens)
    except SupportAgentError as error:
        return Finding(name="budgets", ok=False, detail=str(error))
    return Finding(name="budgets", detail="leave room for model calls")


def _model(
    name: str,
    build: "Callable[[], object]",
    choices: "Iterable[ModelChoice | None]",
    container: "Container",
) -> Finding:
    given = [choice for choice in choices if choice is not None]
    try:
        build()
        prices = container.prices()
    except SupportAgentError as error:
        kinds = " and ".join(choice.kind for choice in given)
        return Finding(name=name, ok=False, detail=f"{kinds}: {error}")
    return Finding(name=name, detail="; then ".join(_described(one, prices) for one in given))


def _described(choice: "ModelChoice", prices: "Mapping[str, Price]") -> str:
    if choice.is_local:
        return choice.kind
    key = "with a key" if choice.api_key else "without a key"
    price = "" if choice.model in prices else ", no price: counted as free of charge"
    return f"{choice.kind} {choice.model}, {key}{price}"


async def _signatures(container: "Container") -> Finding:
    from support_agent.services.audit import check_keys  # noqa: PLC0415 - not for --help

    try:
        await container.database().read(lambda tx: check_keys(tx, container.keys()))
    except SupportAgentError as error:
        return Finding(name="keys", ok=False, detail=str(error))
    return Finding(name="keys", detail="signed the newest audit event, or nothing is signed yet")


async def _books(container: "Container") -> Finding:
    mismatches = await container.database().read(lambda tx: tx.books.check())
    if mismatches:
        return Finding(name="books", ok=False, detail="do not balance; see `refunds check`")
    return Finding(name="books", detail="balance")


def _of_database(tx: "Transaction", settings: "Settings") -> Iterator[Finding]:
    kind = "live" if tx.installation.is_live() else "demo"
    yield Finding(name="schema", detail=f"{tx.installation.revision()}, a {kind} database")
    policy = tx.policies.in_force()
    yield Finding(
        name="policy",
        ok=policy is not None,
        detail=f"{policy.id} version {policy.version}"
        if policy
        else "none is in force; run: support-agent policies activate FILE",
    )
    yield _approvers(tx, settings)
    yield Finding(name="audit head", detail=head_text(tx.audit.head()))


def _api_keys(tx: "Transaction", now: "datetime") -> Finding:
    from support_agent.services.api_keys import ending_soon, every_key  # noqa: PLC0415 - not for --help

    live = sum(not key.ended_at(now) for key in every_key(tx))
    ending = ending_soon(tx, now, within=NEAR_END)
    if not ending:
        return Finding(name="api keys", detail=f"{live} work")
    named = ", ".join(f"{key.name} ({key.id})" for key in ending)
    detail = f"{live} work; these end within {NEAR_END.days} days: {named}; `keys rotate` each"
    return Finding(name="api keys", warns=True, detail=detail)


def _approvers(tx: "Transaction", settings: "Settings") -> Finding:
    from support_agent.services.api_keys import every_key  # noqa: PLC0415 - not for --help

    active = [approver for approver in tx.people.list() if not approver.disabled]
    tokens = sum(approver.token_hash is not None for approver in active)
    of_the_api = {key.approver for key in every_key(tx) if key.revoked_at is None}
    keys = sum(approver.name in of_the_api for approver in active)
    detail = f"{len(active)} active, {tokens} with a token"
    detail += f", {keys} with a key of the API" if keys else ""
    if not active:
        return Finding(name="approvers", ok=False, detail="none; add one with `approvers add`")
    if settings.approvals.proof == "token" and not tokens + keys:
        hint = "make tokens with `approvers token NAME`, or nobody can decide"
        return Finding(name="approvers", ok=False, detail=f"{detail}: {hint}")
    return Finding(name="approvers", detail=detail)
