"""The API over the sample shop, asked as a client would, and the keys and tokens to ask it with."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx2
import jwt
from fastapi import FastAPI

from support_agent.api.app import open_api
from support_agent.domain.access import Scope
from support_agent.domain.people import Principal, PrincipalKind, Proof
from support_agent.testing.clock import FixedClock
from tests.kit import TODAY, RelayModel, Shop, settings_for

SECRET_ID, SECRET = "shop", "a-secret-of-the-backend-of-the-shop-0123456789"
HOST = Principal(
    kind=PrincipalKind.STAFF, id="host", person_id=None, proof=Proof.SYSTEM, via="test"
)


def customer_token(customer_id: str, *, lives_s: float = 300, **claims: Any) -> str:
    """What the shop's backend signs for one of its customers."""
    now = time.time()
    told = {"sub": customer_id, "aud": "support-agent", "iat": now, "exp": now + lives_s}
    return jwt.encode({**told, **claims}, SECRET, algorithm="HS256", headers={"kid": SECRET_ID})


@dataclass
class Api:
    """An open API. `client` speaks to it in this process; `shop` is what stands behind it."""

    app: FastAPI
    client: httpx2.AsyncClient
    shop: Shop

    async def key(self, *scopes: Scope, name: str | None = None, **rest: Any) -> str:
        """The text of a new key with these scopes."""
        name = name or "-".join(sorted(scope.replace(":", "-") for scope in scopes))
        _, text = await self.shop.container.api_keys().create(
            name=name, scopes=frozenset(scopes), by=HOST, **rest
        )
        return text

    async def staff(self, *scopes: Scope, **rest: Any) -> dict[str, str]:
        """Headers of somebody at the shop."""
        return {"Authorization": f"Bearer {await self.key(*scopes, **rest)}"}

    async def decider(self, approver: str = "lan") -> dict[str, str]:
        """Headers of an approver."""
        scopes = (Scope.APPROVALS_READ, Scope.APPROVALS_DECIDE)
        return await self.staff(*scopes, name=f"desk-{approver}", approver=approver)

    async def customer(self, customer_id: str = "C001", *, name: str = "web") -> dict[str, str]:
        """Headers of the shop's backend, speaking for a customer."""
        text = await self.key(Scope.CUSTOMERS_ACT, name=name)
        return {
            "Authorization": f"Bearer {text}",
            "Support-Agent-Customer-Token": customer_token(customer_id),
        }


@asynccontextmanager
async def opened_api(
    url: str,
    *,
    now: datetime = TODAY,
    parts: Mapping[str, Any] | None = None,
    **sections: Any,
) -> AsyncIterator[Api]:
    """The API on a seeded database, with a scripted model and a clock that stands still.

    `parts` are others in the container, e.g. a gateway.
    """
    clock, model = FixedClock(now), RelayModel()
    sections["api"] = {
        "customer_token_secrets": f"{SECRET_ID}:{SECRET}",
        # Tests are quicker than customers; those of the rates set their own.
        "rate_per_minute": 100_000,
        "customer_rate_per_minute": 100_000,
        **sections.get("api", {}),
    }
    async with open_api(
        settings_for(url, **sections), overrides={"clock": clock, "model": model, **(parts or {})}
    ) as app:
        shop = Shop(container=app.state.container, clock=clock, model=model, url=url)
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://api") as client:
            yield Api(app=app, client=client, shop=shop)
