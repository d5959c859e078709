"""The example shop's refund endpoint keeps the contract that docs/refund-endpoint.md asks for."""

import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from importlib import import_module
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI

from support_agent.adapters.payments import http_errors
from support_agent.adapters.payments.http import HttpGateway
from support_agent.testing.fault_proxy import Fault, FaultProxy, forward_to
from support_agent.testing.gateway_backstage import Backstage, CapturedPayment, lacking
from support_agent.testing.gateway_contract import CHECKS
from support_agent.testing.postgres import fresh_database
from support_agent.testing.refund_endpoint_contract import ENDPOINT_CHECKS, EndpointAt
from tests.refund_kit import SECRET

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGE = (ROOT / "docs" / "refund-endpoint.md").read_text(encoding="utf-8")
ACCOUNT = "vuon-nha"
NUMBERS = count(1)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shop(request, tmp_path_factory) -> Iterator[Any]:
    """The example's modules on a database of their own."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('shop') / 'shop.db'}"
    else:
        url = fresh_database(request.getfixturevalue("postgres"))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        patch.setenv("SHOP_DATABASE_URL", url)
        patch.setenv("REFUND_SIGNING_SECRET", SECRET)
        found = SimpleNamespace(
            database=import_module("existing_backend.database"),
            endpoint=import_module("existing_backend.refund_endpoint"),
        )
        found.database.main()
        yield found
        found.database.engine().dispose()
        for name in [name for name in sys.modules if name.partition(".")[0] == "existing_backend"]:
            del sys.modules[name]


@pytest.fixture(scope="module")
def port(shop) -> Iterator[int]:
    """Where it is served, by a real server."""
    app = FastAPI()
    app.include_router(shop.endpoint.endpoint)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        thread.join(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join()


def sold(shop: Any, price: int) -> CapturedPayment:
    """One more payment in the shop's own tables."""
    database = shop.database
    order_id = f"DH9{next(NUMBERS):04}"
    now = datetime.now(database.ZONE).replace(tzinfo=None)
    with database.engine().begin() as connection:
        payment_id = database.sell(connection, order_id, "KH01", "Áo", price, now, delivered=1)
    return CapturedPayment(
        gateway="http",
        account=ACCOUNT,
        gateway_payment_id=payment_id,
        captured_minor=price,
        currency="VND",
    )


@asynccontextmanager
async def opened(shop: Any, port: int) -> AsyncIterator[tuple[HttpGateway, Backstage]]:
    engine, refunds = shop.database.engine, shop.database.refunds

    async def sell(captured_minor: int, currency: str) -> CapturedPayment:
        return sold(shop, captured_minor)

    async def refund_outside(payment: CapturedPayment, amount_minor: int) -> str:
        made = refunds.insert().values(
            ma_gd=payment.gateway_payment_id,
            so_tien=amount_minor,
            trang_thai="da_hoan",
            tao_luc=time.time(),
        )
        with engine().begin() as connection:
            return f"HT{connection.execute(made).inserted_primary_key[0]}"

    async def fail_late(refund_id: str) -> None:
        of_it = refunds.c.ma_hoan == int(refund_id.removeprefix("HT"))
        with engine().begin() as connection:
            connection.execute(refunds.update().where(of_it).values(trang_thai="that_bai"))

    async with FaultProxy(forward_to(port)) as proxy:
        gateway = HttpGateway(
            url=f"{proxy.url}/hoan-tien",
            account=ACCOUNT,
            secrets=(SECRET,),
            livemode=False,
            timeout_s=10,
        )
        try:
            yield (
                gateway,
                Backstage(
                    sell=sell,
                    currencies=("VND",),
                    lose_next_answer=lambda: proxy.will(Fault.DROP_RESPONSE),
                    refund_outside=refund_outside,
                    fail_late=fail_late,
                ),
            )
        finally:
            await gateway.aclose()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_gateways_contract_is_kept(check, shop, port, monkeypatch):
    monkeypatch.setattr(shop.endpoint, "PAGE", 3)
    async with opened(shop, port) as (gateway, backstage):
        assert not lacking(backstage)
        await check(gateway, backstage)


@pytest.mark.parametrize("check", ENDPOINT_CHECKS, ids=lambda check: check.__name__)
async def test_what_must_be_refused_is_refused(check, shop, port):
    await check(
        EndpointAt(
            url=f"http://127.0.0.1:{port}/hoan-tien",
            secret=SECRET,
            account=ACCOUNT,
            payment_id=sold(shop, 250_000).gateway_payment_id,
            amount_minor=1_000,
            currency="VND",
        )
    )


@pytest.mark.parametrize("chunked", [False, True])
async def test_what_is_too_long_is_not_read(chunked, port):
    """Anybody can send it: it has no signature yet."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(160):
            yield b" " * 65_536

    body = chunks() if chunked else b" " * 10 * 1024 * 1024
    async with httpx2.AsyncClient(trust_env=False) as client:
        answer = await client.post(f"http://127.0.0.1:{port}/hoan-tien", content=body)

    assert answer.status_code == 413


@pytest.mark.parametrize(
    "fields",
    [{"key": None}, {"key": ""}, *({"amount_minor": amount} for amount in (True, 1.5, 0, -1, "1"))],
    ids=str,
)
def test_what_is_signed_but_no_refund_pays_nothing(fields, shop):
    asked = {
        "key": "check",
        "payment_id": sold(shop, 250_000).gateway_payment_id,
        "amount_minor": 1_000,
        "currency": "VND",
    }
    with pytest.raises(shop.endpoint.Refused):
        shop.endpoint.refund({**asked, **fields})


def test_the_checks_of_the_page_can_be_copied():
    (block,) = [b for b in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "LACKS" in b]
    copied: dict[str, Any] = {}
    exec(compile(block, "refund-endpoint.md", "exec"), copied)  # noqa: S102 - our own page

    assert {"test_it_is_a_gateway", "test_it_refuses_what_it_must"} <= copied.keys()
    kept = Backstage(sell=copied["checks_for"], refund_outside=copied["checks_for"])
    assert lacking(kept) == copied["LACKS"]


def test_the_page_names_each_code_that_the_adapter_knows():
    declined = next(line for line in PAGE.splitlines() if "**nothing was paid**" in line)

    assert set(re.findall(r"`([a-z_]+)`", declined)) == http_errors.NOT_EXECUTED
    assert f"`{http_errors.KEY_REUSED}`" in PAGE
    assert f"`{http_errors.KEY_IN_USE}`" in PAGE
