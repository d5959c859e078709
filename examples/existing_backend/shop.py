"""The shop as it was before: customers are logged in and see their orders."""

from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Cookie, Depends, HTTPException

from existing_backend.database import engine, orders, sessions

shop = APIRouter()


def logged_in(phien: Annotated[str | None, Cookie()] = None) -> str:
    """The customer of the session cookie."""
    with engine().connect() as connection:
        found = connection.scalar(sa.select(sessions.c.ma_kh).where(sessions.c.ma_phien == phien))
    if found is None:
        raise HTTPException(401, "Vui lòng đăng nhập")
    return str(found)


Customer = Annotated[str, Depends(logged_in)]


@shop.get("/don-hang")
def my_orders(customer: Customer) -> list[dict[str, Any]]:
    """The orders of whoever is logged in."""
    with engine().connect() as connection:
        found = connection.execute(sa.select(orders).where(orders.c.ma_kh == customer))
        return [dict(row) for row in found.mappings()]
