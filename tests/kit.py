"""What tests share: a whole sample shop on a real SQLite file, with a model that plays a script."""

import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from support_agent.adapters.db.migrations import upgrade
from support_agent.adapters.policy_files import load_policy, policy_body
from support_agent.adapters.shop_files import (
    load_approvers,
    load_customers,
    load_orders,
)
from support_agent.agent.turns import Incoming, TurnResult
from support_agent.container import Container, open_container
from support_agent.domain.conversation import Assurance
from support_agent.domain.people import Principal, customer_principal
from support_agent.domain.refunds import RefundRequest
from support_agent.resources import resource_dir
from support_agent.services.conversations import Binding
from support_agent.services.seeding import SampleShop
from support_agent.settings import Settings
from support_agent.testing import ScriptedModel
from support_agent.testing.clock import FixedClock

TODAY = datetime(2026, 10, 13, 2, 0, tzinfo=UTC)  # nine in the morning in Vietnam
DATA = resource_dir() / "data"
KEYS = f"test:{'5e' * 32}"
Line = Mapping[str, Any]


def sample(policy: str = "standard") -> SampleShop:
    path = DATA / "policies" / f"{policy}.yaml"
    return SampleShop(
        customers=load_customers(DATA / "shop"),
        orders=load_orders(DATA / "shop"),
        approvers=load_approvers(DATA / "shop"),
        policy=load_policy(path),
        policy_body=policy_body(path),
    )


def settings_for(url: str, **sections: Any) -> Settings:
    """Settings of a test: asserted proof, nothing from the environment or a file."""
    sections.setdefault("approvals", {"proof": "asserted"})
    sections.setdefault("security", {"keys": KEYS})
    # A test in which somebody never answers should not take minutes.
    sections["queue"] = {"wait_seconds": 10.0, **sections.get("queue", {})}
    return Settings(_env_file=None, database={"url": url}, **sections)


class RelayModel:
    """Lets a test change the script between turns; counts calls by conversation itself."""

    def __init__(self) -> None:
        self.model: Any = ScriptedModel([])
        self.base = 0
        self.requests: list[Any] = []

    def play(self, *lines: Line) -> None:
        self.model = ScriptedModel(list(lines))
        self.base = -1

    async def decide(self, request: Any) -> Any:
        from dataclasses import replace  # noqa: PLC0415 - local to this shim

        if self.base < 0:
            self.base = request.call_index
        self.requests.append(request)
        return await self.model.decide(replace(request, call_index=request.call_index - self.base))

    async def aclose(self) -> None:
        await self.model.aclose()


def binding_of(customer_id: str, *, assurance: Assurance = Assurance.VERIFIED) -> Binding:
    return Binding(
        channel="cli",
        account="local",
        external_contact=customer_id,
        customer_id=customer_id,
        assurance=assurance,
        principal=customer_principal(customer_id, via="test"),
    )


@dataclass
class Shop:
    """The sample shop, open. `say` is a customer's message; give the script the model plays."""

    container: Container
    clock: FixedClock
    model: RelayModel
    url: str

    async def say(
        self,
        text: str,
        *script: Line,
        customer: str = "C001",
        conversation: str | None = None,
        operator: str | None = None,
    ) -> TurnResult:
        self.model.play(*(script or ({"answer": "Vâng."},)))
        return await self.container.agent().take(
            Incoming(
                text=text,
                binding=binding_of(customer),
                conversation_id=conversation,
                operator=operator,
            )
        )

    async def quote(
        self,
        order_id: str,
        *,
        customer: str = "C001",
        conversation: str | None = None,
        **arguments: Any,
    ) -> TurnResult:
        """A turn in which the model quotes; `result.quotes` is empty when it was refused."""
        call = {"tool": "quote_refund", "arguments": {"order_id": order_id, **arguments}}
        return await self.say(
            f"hoàn tiền đơn {order_id}",
            call,
            {"answer": "Bạn có đồng ý không?"},
            customer=customer,
            conversation=conversation,
        )

    async def answer(
        self, quoted: TurnResult, text: str = "đồng ý", *, customer: str = "C001"
    ) -> TurnResult:
        """The customer answers a quote and the model files it, whatever the answer was."""
        call = {
            "tool": "request_refund",
            "arguments": {"quote_id": quoted.quotes[0].id},
        }
        return await self.say(
            text,
            call,
            {"answer": "Xong."},
            customer=customer,
            conversation=quoted.conversation_id,
        )

    async def filed(
        self, order_id: str, *, customer: str = "C001", **arguments: Any
    ) -> RefundRequest:
        """A request that was quoted, answered with a yes and filed."""
        quoted = await self.quote(order_id, customer=customer, **arguments)
        result = await self.answer(quoted, customer=customer)
        return result.requests[0]

    async def approver(self, name: str = "lan") -> Principal:
        return await self.container.approvals().prove(name, None, via="test")

    async def request(self, request_id: str) -> RefundRequest:
        found = await self.container.database().read(lambda tx: tx.requests.get(request_id))
        assert found is not None
        return found

    async def read(self, fn: Any) -> Any:
        return await self.container.database().read(fn)

    async def write(self, fn: Any) -> Any:
        return await self.container.database().transact(fn)


def make_database(path: Path) -> str:
    """A migrated, empty demo database; its URL."""
    url = f"sqlite:///{path}"
    upgrade(url, live=False)
    return url


def copy_database(template: Path, path: Path) -> str:
    """A private copy of a closed database; a copy is much faster than migrating and seeding anew."""
    shutil.copy(template, path)
    return f"sqlite:///{path}"


@asynccontextmanager
async def open_shop(url: str, *, now: datetime = TODAY, **sections: Any) -> AsyncIterator[Shop]:
    """The shop of a seeded database, with a scripted model and a clock that stands still."""
    clock, model = FixedClock(now), RelayModel()
    overrides = {"clock": clock, "model": model}
    async with open_container(settings_for(url, **sections), overrides=overrides) as container:
        yield Shop(container=container, clock=clock, model=model, url=url)


async def seed(url: str, policy: str = "standard", what: SampleShop | None = None) -> None:
    async with open_container(
        settings_for(url), overrides={"clock": FixedClock(TODAY)}
    ) as container:
        await container.seeding().run(what or sample(policy))
