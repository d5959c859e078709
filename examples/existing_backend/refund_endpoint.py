"""The shop's own refund endpoint, as docs/refund-endpoint.md asks for it.

Each refund is one committed row, unique by the key that came with it.
"""

import os
import time
from datetime import datetime
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import JSONResponse
from standardwebhooks import Webhook, WebhookVerificationError

from existing_backend.database import engine, payments, refunds

ACCOUNT, LIVEMODE, CURRENCY = "vuon-nha", False, "VND"
PAGE = 50
MOST_BYTES = 64 * 1024  # of a request; what is longer is not even read
# Our words for how a refund stands, and the endpoint's.
STATUS = {"da_hoan": "succeeded", "dang_cho": "pending", "that_bai": "failed"}

Asked = dict[str, Any]
endpoint = APIRouter()


class Refused(Exception):
    """Nothing was paid; the code says why."""


async def signed(request: Request) -> Asked:
    """What is asked, when it is the agent who asks, and asks for this shop."""
    if int(request.headers.get("content-length", MOST_BYTES + 1)) > MOST_BYTES:
        raise HTTPException(413)
    try:
        secret = os.environ["REFUND_SIGNING_SECRET"]
        asked: Asked = Webhook(secret).verify(await request.body(), dict(request.headers))
    except (WebhookVerificationError, ValueError) as error:
        raise HTTPException(401) from error
    if (asked.get("account"), asked.get("livemode")) != (ACCOUNT, LIVEMODE):
        raise HTTPException(403)
    return asked


@endpoint.post("/hoan-tien")
def answer(asked: Annotated[Asked, Depends(signed)]) -> JSONResponse:
    """One address for every operation: each is in the signed body."""
    operation = OPERATIONS.get(asked.get("operation", ""))
    if operation is None:
        return JSONResponse({"error": {"code": "operation_unknown"}}, 400)
    try:
        return JSONResponse(operation(asked))
    except Refused as refused:
        return JSONResponse({"error": {"code": str(refused)}}, 422)


def refund(asked: Asked) -> Asked:
    """Refund once per key; without one each sending would be another refund."""
    if not asked["key"]:
        raise Refused("key_missing")
    with engine().begin() as connection:
        # The payment's row is locked first, so that its refunds are judged one by one.
        of_payment = payments.c.ma_gd == asked["payment_id"]
        lock = payments.update().where(of_payment).values(so_tien=payments.c.so_tien)
        connection.execute(lock)
        known = connection.execute(refunds.select().where(refunds.c.khoa == asked["key"])).first()
        if known is None:
            known = _pay(connection, asked)
        same = (known.ma_gd, known.so_tien) == (asked["payment_id"], asked["amount_minor"])
        if not same or asked["currency"] != CURRENCY:
            raise Refused("key_reused")
    return {"refund": _told(known)}


def _pay(connection: sa.Connection, asked: Asked) -> sa.Row[Any]:
    payment = connection.execute(
        payments.select().where(payments.c.ma_gd == asked["payment_id"])
    ).first()
    if payment is None:
        raise Refused("payment_unknown")
    if payment.tranh_chap:
        raise Refused("payment_disputed")
    if asked["currency"] != CURRENCY:
        raise Refused("currency_mismatch")
    if type(asked["amount_minor"]) is not int or asked["amount_minor"] <= 0:
        raise Refused("amount_invalid")
    if asked["amount_minor"] + _refunded(connection, payment.ma_gd) > payment.so_tien:
        raise Refused("amount_above_captured")
    # A shop with a bank behind it commits the row as `dang_cho` here and sends it to the bank with
    # the same key; this one keeps its money in a drawer.
    return connection.execute(
        refunds.insert()
        .values(
            khoa=asked["key"],
            ma_gd=payment.ma_gd,
            so_tien=asked["amount_minor"],
            trang_thai="da_hoan",
            tao_luc=time.time(),
        )
        .returning(*refunds.c)
    ).one()


def find(asked: Asked) -> Asked:
    """The refund of a key, or null: a 404 would say nothing."""
    return _one(refunds.c.khoa == asked["key"], asked)


def get(asked: Asked) -> Asked:
    """The refund of an id of ours, or null."""
    number = asked["refund_id"].removeprefix("HT")
    return _one(sa.cast(refunds.c.ma_hoan, sa.String) == number, asked)


def _one(which: sa.ColumnElement[bool], asked: Asked) -> Asked:
    with engine().connect() as connection:
        found = connection.execute(
            refunds.select().where(which, refunds.c.ma_gd == asked["payment_id"])
        ).first()
    return {"refund": None if found is None else _told(found)}


def since(asked: Asked) -> Asked:
    """Every refund made since then, our staff's as well, page by page."""
    start, after = datetime.fromisoformat(asked["since"]).timestamp(), int(asked["cursor"] or 0)
    with engine().connect() as connection:
        rows = connection.execute(
            refunds.select()
            .where(refunds.c.tao_luc >= start, refunds.c.ma_hoan > after)
            .order_by(refunds.c.ma_hoan)
            .limit(PAGE)
        ).all()
    cursor = str(rows[-1].ma_hoan) if len(rows) == PAGE else None
    return {"refunds": [_told(row) for row in rows], "next_cursor": cursor}


def payment_state(asked: Asked) -> Asked:
    """The payment as it is now."""
    with engine().connect() as connection:
        found = connection.execute(
            payments.select().where(payments.c.ma_gd == asked["payment_id"])
        ).first()
        if found is None:
            raise Refused("payment_unknown")
        refunded = _refunded(connection, found.ma_gd)
    return {
        "payment": {
            "id": found.ma_gd,
            "account": ACCOUNT,
            "livemode": LIVEMODE,
            "captured_minor": found.so_tien,
            "refunded_minor": refunded,
            "charged_back_minor": 0,
            "disputed": found.tranh_chap,
        }
    }


OPERATIONS = {
    "refund": refund,
    "find": find,
    "get": get,
    "list": since,
    "payment_state": payment_state,
}


def _refunded(connection: sa.Connection, payment_id: str) -> int:
    paid = refunds.select().where(refunds.c.ma_gd == payment_id, refunds.c.trang_thai != "that_bai")
    return sum(row.so_tien for row in connection.execute(paid))


def _told(row: sa.Row[Any]) -> Asked:
    return {
        "id": f"HT{row.ma_hoan}",
        "key": row.khoa,
        "account": ACCOUNT,
        "payment_id": row.ma_gd,
        "status": STATUS[row.trang_thai],
        "amount_minor": row.so_tien,
        "currency": CURRENCY,
    }
