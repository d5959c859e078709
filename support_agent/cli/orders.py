"""`orders`: where the shop's orders come from, looked at before anything is served."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.exits import ExitCode
from support_agent.cli.findings import DEEP_WORDS, Finding
from support_agent.cli.options import Json, examples
from support_agent.cli.output import Column, print_json, print_table, say
from support_agent.cli.runtime import ready, run
from support_agent.cli.views import local
from support_agent.domain.errors import OrderNotFound
from support_agent.domain.money import format_money
from support_agent.domain.orders import PAID_BY_HAND, Moment, Order

if TYPE_CHECKING:
    from support_agent.adapters.orders.mapped.examining import Examination
    from support_agent.container import Container
    from support_agent.settings import Settings

Looked = tuple[list[Finding], Sequence[Order]]
PATIENCE_S = 300.0  # whole tables are counted

app = typer.Typer(name="orders", help="Look at where the shop's orders come from.")


@app.command(epilog=examples("orders check", "orders check --order A100 --json"))
def check(
    *,
    order: Annotated[
        str | None,
        typer.Option("--order", help="Show this order as the product reads it.", metavar="ID"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Look at the shop's orders as the product reads them; exit code 1 when something is wrong.

    Of a map (ORDERS__KIND=mapped): tables and columns that are missing, words that are not mapped,
    double ids, NULL where a value is needed, money in floating point, a role that may write,
    missing indexes, orders that cannot be used and why; then some orders, without what is personal.
    """
    settings = ready()
    findings, samples = _looked(settings, order)
    ok = all(finding.ok for finding in findings)
    if as_json:
        _print_object(settings, findings, samples, ok=ok)
    else:
        for finding in findings:
            say(f"{DEEP_WORDS[finding.level]:<5} {finding.name:<12} {finding.detail}")
        _print_orders(samples, settings.zone)
    raise typer.Exit(ExitCode.DONE if ok else ExitCode.REFUSED)


def _looked(settings: "Settings", order_id: str | None) -> Looked:
    if settings.orders.kind == "mapped":
        return asyncio.run(_of_map(settings, order_id))
    return run(lambda container: _of_others(container, settings, order_id), settings)


async def _of_map(settings: "Settings", order_id: str | None) -> Looked:
    """Without a container: it would not open over a map that does not fit."""
    from support_agent.adapters.orders.mapped.examining import (  # noqa: PLC0415 - not for --help
        examine,
    )
    from support_agent.building.orders import mapped_orders  # noqa: PLC0415 - as above

    patience = max(PATIENCE_S, settings.orders.timeout_seconds)
    orders = mapped_orders(settings, timeout_s=patience)
    try:
        if order_id is not None:
            return [], [_there(await orders.get(order_id), order_id)]
        findings, samples = _told(await examine(orders))
        return [*findings, *_gateways(samples, settings)], samples
    finally:
        await orders.aclose()


def _told(examined: "Examination") -> Looked:
    findings = [
        Finding(
            name=remark.name,
            ok=remark.level != "fail",
            warns=remark.level == "warn",
            detail=remark.detail,
        )
        for remark in examined.remarks
    ]
    return findings, examined.samples


def _gateways(samples: Sequence[Order], settings: "Settings") -> Iterator[Finding]:
    """Payments that our gateway will not carry, as far as some orders show."""
    kind = settings.payments.kind
    if kind == "class":  # its name is its own
        return
    payments = [payment for order in samples for payment in order.payments]
    others = {p.gateway for p in payments if p.method not in PAID_BY_HAND and p.gateway != kind}
    if others:
        names = ", ".join(map(repr, sorted(others)))
        detail = f"refunds at {names} are left to a person: PAYMENTS__KIND is {kind!r}"
        yield Finding(name="gateway", warns=True, detail=detail)


async def _of_others(container: "Container", settings: "Settings", order_id: str | None) -> Looked:
    if order_id is not None:
        return [], [_there(await container.orders().get(order_id), order_id)]
    container.orders()
    about = {
        "sql": "the sample shop's own tables in our database: there is no map to check",
        "http": "the map of the API can be read; --order ID asks it for one order",
        "class": f"{settings.orders.class_} can be made; --order ID asks it for one order",
    }
    return [Finding(name="orders", detail=about[settings.orders.kind])], []


def _there(found: Order | None, order_id: str) -> Order:
    if found is None or found.id != order_id:
        raise OrderNotFound(order_id)
    return found


def _print_object(
    settings: "Settings", findings: Sequence[Finding], samples: Sequence[Order], *, ok: bool
) -> None:
    checks = [{"name": f.name, "ok": f.ok, "level": f.level, "detail": f.detail} for f in findings]
    print_json(
        {
            "ok": ok,
            "kind": settings.orders.kind,
            "checks": checks,
            "samples": [_object(order) for order in samples],
        }
    )


def _object(order: Order) -> dict[str, object]:
    """What no person can be told by: neither names nor addresses, notes or the customer's id."""
    return {
        "id": order.id,
        "customer_id": _masked(order.customer_id),
        "status": order.status,
        "currency": order.currency,
        "total_minor": order.total_minor,
        "placed_at": order.placed_at,
        "delivered_at": order.delivered_at,
        "lines": [
            {
                "id": line.id,
                "kind": line.kind,
                "category": line.category,
                "quantity": line.quantity,
                "total_minor": line.total_minor,
                "returnable": line.returnable,
                "delivered_at": line.delivered_at,
            }
            for line in order.lines
        ],
        "payments": [
            {
                "gateway": payment.gateway,
                "account": payment.account,
                "method": payment.method,
                "captured_minor": payment.captured_minor,
                "currency": payment.currency,
                "disputed": payment.disputed,
            }
            for payment in order.payments
        ],
    }


def _masked(customer_id: str) -> str:
    """Some shops use an e-mail address or a phone number."""
    return f"{customer_id[:1]}…"


def _print_orders(orders: Sequence[Order], zone: tzinfo) -> None:
    if not orders:
        return
    columns = (
        *(Column(title=title) for title in ("ORDER", "CUSTOMER", "STATUS")),
        Column(title="TOTAL", right=True),
        *(Column(title=title) for title in ("PLACED", "DELIVERED", "LINES", "PAID")),
    )
    say()
    print_table(columns, [_row(order, zone) for order in orders])


def _row(order: Order, zone: tzinfo) -> list[str]:
    paid = ", ".join(
        f"{p.method} {format_money(p.captured_minor, p.currency)}" for p in order.payments
    )
    return [
        order.id,
        _masked(order.customer_id),
        order.status,
        format_money(order.total_minor, order.currency),
        local(order.placed_at, zone),
        _when(order.delivered_at, zone),
        str(len(order.lines)),
        paid or "nothing",
    ]


def _when(moment: Moment | None, zone: tzinfo) -> str:
    if moment is None:
        return "-"
    return local(moment, zone) if isinstance(moment, datetime) else moment.isoformat()
