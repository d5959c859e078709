"""A customer whose every text holds a mark, and the places where a database still holds one."""

from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa

from support_agent.adapters.db.migrations import exclusive
from support_agent.domain.conversation import Author
from support_agent.ports.storage import Compaction, MadeBy, Reply, Slot
from support_agent.services.inbox import Incoming
from tests.catalogue import rows_of
from tests.heart import add_destination, calls
from tests.kit import Shop, binding_of

MARK = "DAUVETBIMAT"
NUMBER = "770011770011"
WHO = "C006"
COD, TRANSFER = "A602", "A603"
BINDING = replace(binding_of(WHO), external_contact=f"tel:{MARK}")


async def write(shop: Shop, text: str, *script: dict, conversation: str | None = None):
    """The customer, through a channel that knows them by a contact of their own."""
    shop.model.play(*(script or ({"answer": f"Vâng {MARK}."},)))
    return await shop.container.agent().take(
        Incoming(
            text=text,
            binding=BINDING,
            conversation_id=conversation,
            message_id=f"{MARK}-{shop.container.ids().new('msg')}",
        )
    )


async def plant(shop: Shop) -> str:
    """Fill every door with the mark; the conversation."""
    await add_destination(shop, WHO, account_number=NUMBER, holder=f"TRAN {MARK}")
    told = await write(
        shop,
        f"Please answer in English. {MARK}",
        {**calls("lookup_order", order_id=MARK), "thought": f"think {MARK}"},
        {"calls": [calls(f"no_such_{MARK}", what=MARK), calls("hand_over", why=MARK)]},
        {**calls("list_orders", surprise=MARK)},
        {"answer": f"Sorry {MARK}."},
    )
    conversation = told.conversation_id
    await settle(shop, TRANSFER, conversation, approve=False)
    await settle(shop, COD, conversation, approve=True)
    await shop.write(lambda tx: _plant_rest(tx, conversation, shop))
    with exclusive(shop.url) as connection:
        done = connection.execute(
            sa.text("UPDATE steps SET provider_state = :mark WHERE run_id = :run"),
            {"mark": MARK, "run": told.run_id},
        )
        assert done.rowcount > 0
    return conversation


async def settle(shop: Shop, order_id: str, conversation: str, *, approve: bool) -> None:
    """A request that is filed and decided, with a note, until it is final."""
    quoted = await write(
        shop,
        f"hoàn tiền đơn {order_id} {MARK}",
        calls("quote_refund", order_id=order_id),
        {"answer": f"Đồng ý không {MARK}?"},
        conversation=conversation,
    )
    filed = await write(
        shop,
        "đồng ý",
        calls("request_refund", quote_id=quoted.quotes[0].id),
        {"answer": f"Xong {MARK}."},
        conversation=conversation,
    )
    (request,) = filed.requests
    approvals, note = shop.container.approvals(), f"because {MARK}"
    by = await shop.approver("huong")
    if not approve:
        await approvals.reject(request.id, by=by, note=note)
        return
    await approvals.approve(request.id, by=by, note=note)
    await shop.container.payouts().pay(request.id)
    await shop.container.resolutions().resolve(
        request.id,
        paid=True,
        evidence="FT2600001",
        by=await shop.approver("tuan"),
        note=note,
    )


def _plant_rest(tx, conversation: str, shop: Shop) -> None:
    now = shop.clock.now()
    for author in (Author.STAFF, Author.NOTICE):
        tx.conversations.append(
            conversation, author=author, text=f"Shop {MARK}", at=now, run_id=None
        )
    for customer_id in (WHO, ""):  # the shop's backend for the customer, and staff
        slot = Slot(principal="web", customer_id=customer_id, route="POST /v1/x", key="k")
        mine = tx.idempotency.take(slot, "hash", lease_s=60, kept_s=3_600)
        said = Reply(status=200, headers={}, body=f'{{"text": "{MARK}"}}')
        tx.idempotency.settle(slot, mine, said)
    tx.compactions.add(
        Compaction(
            conversation_id=conversation,
            number=1,
            at=now,
            through_seq=1,
            facts={"wishes": [MARK]},
            masks={"phone": [MARK]},
            summary=f"Khách {MARK}",
            made_by=MadeBy.CODE,
            model_calls=1,
        )
    )


def in_files(url: str, *words: str) -> list[str]:
    """Which of a SQLite database's files hold one of the words."""
    path = Path(url.removeprefix("sqlite:///"))
    held = [(file.name, file.read_bytes()) for file in path.parent.glob(f"{path.name}*")]
    assert held
    return [name for name, content in held if any(word.encode() in content for word in words)]


def in_columns(url: str, *words: str) -> list[str]:
    """Which columns of a database hold one of the words, whatever tables there are."""
    return [
        f"{table}.{column}"
        for table, (columns, *rows) in rows_of(url).items()
        for place, column in enumerate(columns)
        if any(word in str(row[place]) for row in rows for word in words)
    ]
