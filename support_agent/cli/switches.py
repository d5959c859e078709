"""`payouts` and `auto-approval`: stop at once what moves money, and let it go on."""

from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.options import Json, Operator, examples, operator_or_user
from support_agent.cli.output import print_json, rfc3339, say
from support_agent.cli.proving import As, token_of
from support_agent.cli.runtime import at_the_host, ready, run
from support_agent.cli.views import local
from support_agent.domain.refunds import RequestStatus
from support_agent.ports.storage import SwitchName, Transaction
from support_agent.services.frozen import unfreeze as lift

if TYPE_CHECKING:
    from datetime import tzinfo

    from support_agent.container import Container
    from support_agent.services.switches import SwitchState

MOST = 1_000  # that are counted
TITLES = {SwitchName.PAYOUTS: "payouts", SwitchName.AUTO_APPROVAL: "automatic approval"}
# What a switch that is off keeps waiting.
WAITING = {
    SwitchName.PAYOUTS: (RequestStatus.APPROVED, "to be paid"),
    SwitchName.AUTO_APPROVAL: (RequestStatus.PENDING_APPROVAL, "for a person"),
}

payouts = typer.Typer(name="payouts", help="Stop payouts, all or of a payment, and let them go on.")
OfOrder = Annotated[str, typer.Option("--order", help="The order.", metavar="ID")]
OfPayment = Annotated[str, typer.Option("--payment", help="Its payment.", metavar="ID")]
auto_approval = typer.Typer(
    name="auto-approval", help="Let a person decide everything, or small refunds go by themselves."
)


@payouts.command(epilog=examples("payouts pause --operator lan"))
def pause(*, operator: Operator = None, as_json: Json = False) -> None:
    """Send no money from now on; what is approved waits, what was sent is still reconciled."""
    _turn(SwitchName.PAYOUTS, on=False, operator=operator, as_json=as_json)


@payouts.command(epilog=examples("payouts resume --operator lan"))
def resume(*, operator: Operator = None, as_json: Json = False) -> None:
    """Let payouts go on; says how many requests wait to be paid."""
    _turn(SwitchName.PAYOUTS, on=True, operator=operator, as_json=as_json)


@payouts.command("status", epilog=examples("payouts status"))
def payouts_status(*, as_json: Json = False) -> None:
    """Show whether money is sent, and who said so last."""
    _show(SwitchName.PAYOUTS, as_json=as_json)


@payouts.command(epilog=examples("payouts unfreeze --order A100 --payment PAY-A100-1 --as huong"))
def unfreeze(*, order: OfOrder, payment: OfPayment, name: As, as_json: Json = False) -> None:
    """Let a payment be refunded again once you know what happened to it at the gateway.

    It was frozen because of a refund there that nothing of ours explains. What is gone stays gone.
    """
    settings = ready()
    token = token_of(name, settings)

    async def work(container: "Container") -> None:
        by = await container.approvals().prove(name, token, via="cli")
        clock = container.clock()
        await container.database().transact(lambda tx: lift(tx, order, payment, by=by, clock=clock))

    run(work, settings)
    if as_json:
        print_json({"order_id": order, "payment_id": payment, "frozen": False, "by": name})
    else:
        say(f"payment {payment} of order {order} is no longer frozen")


@auto_approval.command("off", epilog=examples("auto-approval off --operator lan"))
def off(*, operator: Operator = None, as_json: Json = False) -> None:
    """Approve nothing automatically from now on: whatever is filed waits for a person."""
    _turn(SwitchName.AUTO_APPROVAL, on=False, operator=operator, as_json=as_json)


@auto_approval.command("on", epilog=examples("auto-approval on --operator lan"))
def on(*, operator: Operator = None, as_json: Json = False) -> None:
    """Approve small refunds automatically again; what waits for a person goes on waiting."""
    _turn(SwitchName.AUTO_APPROVAL, on=True, operator=operator, as_json=as_json)


@auto_approval.command("status", epilog=examples("auto-approval status"))
def auto_approval_status(*, as_json: Json = False) -> None:
    """Show whether small refunds are approved automatically, and who said so last."""
    _show(SwitchName.AUTO_APPROVAL, as_json=as_json)


def _turn(name: SwitchName, *, on: bool, operator: str | None, as_json: bool) -> None:
    settings = ready()
    by = at_the_host(operator_or_user(operator))

    async def work(container: "Container") -> "tuple[bool, SwitchState, int]":
        switchboard = container.switchboard()
        changed = await container.database().transact(
            lambda tx: switchboard.turn(tx, name, on=on, by=by)
        )
        state = await container.database().read(lambda tx: switchboard.state(tx, name))
        return changed, state, await container.database().read(lambda tx: _waiting(tx, name))

    changed, state, waiting = run(work, settings)
    if as_json:
        print_json(_object(state, waiting) | {"changed": changed})
        return
    say(_line(state, settings.zone) if changed else f"{_line(state, settings.zone)}, as before")
    _say_waiting(name, waiting)


def _show(name: SwitchName, *, as_json: bool) -> None:
    settings = ready()

    async def work(container: "Container") -> "tuple[SwitchState, int]":
        switchboard = container.switchboard()
        return await container.database().read(
            lambda tx: (switchboard.state(tx, name), _waiting(tx, name))
        )

    state, waiting = run(work, settings)
    if as_json:
        print_json(_object(state, waiting))
        return
    say(_line(state, settings.zone))
    _say_waiting(name, waiting)


def _waiting(tx: Transaction, name: SwitchName) -> int:
    status, _ = WAITING[name]
    return len(tx.requests.in_status((status,), limit=MOST))


def _say_waiting(name: SwitchName, waiting: int) -> None:
    _, what = WAITING[name]
    count = f"{waiting}+" if waiting == MOST else str(waiting)
    say(f"{count} waiting {what}")


def _line(state: "SwitchState", zone: "tzinfo") -> str:
    word = "on" if state.on else "off"
    line = f"{TITLES[state.name]}: {word}"
    if not state.genuine:
        return (
            f"{line}: its row was changed by something else than this program; "
            "turn it to make it ours again, and run: support-agent audit verify"
        )
    if state.last is None:
        return line
    return f"{line} since {local(state.last.changed_at, zone)} by {state.last.changed_by}"


def _object(state: "SwitchState", waiting: int) -> dict[str, object]:
    last = state.last if state.genuine else None
    return {
        "id": state.name,
        "on": state.on,
        "genuine": state.genuine,
        "changed_at": rfc3339(last.changed_at) if last else None,
        "changed_by": last.changed_by if last else None,
        "waiting": waiting,
    }
