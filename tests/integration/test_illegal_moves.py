"""Every move that the state table does not list is refused, for every kind of actor."""

from dataclasses import replace
from itertools import product

import pytest

from support_agent.domain.errors import IllegalTransition
from support_agent.domain.people import Principal, PrincipalKind, Proof
from support_agent.domain.refunds import MOVES, RequestStatus
from tests.heart import change_request
from tests.kit import Shop


def who(kind: PrincipalKind) -> Principal:
    return Principal(kind=kind, id="somebody", person_id=None, proof=Proof.SYSTEM, via="test")


def listed(current: RequestStatus | None, to: RequestStatus, kind: PrincipalKind) -> bool:
    move = MOVES.get((current, to))
    return move is not None and kind in move.actors


async def everything(shop: Shop) -> tuple[object, ...]:
    """What a move could have changed."""
    return await shop.read(
        lambda tx: (
            tuple(tx.requests.all()),
            tx.audit.head(),
            tx.books.totals(),
            tx.books.of_order("A100"),
            tx.tasks.list(open_only=False, limit=100),
        )
    )


@pytest.mark.parametrize("current", list(RequestStatus))
async def test_a_move_that_is_not_listed_changes_nothing(shop, current):
    request = await shop.filed("A100")
    change_request(shop, request.id, f"status = '{current}'")
    request, life = await shop.request(request.id), shop.container.life()
    before = await everything(shop)
    refused = 0

    def try_each(tx) -> None:
        nonlocal refused
        for to, kind in product(RequestStatus, PrincipalKind):
            if listed(current, to, kind):
                continue
            with pytest.raises(IllegalTransition) as caught:
                life.transition(tx, request, to, actor=who(kind))
            assert (caught.value.current, caught.value.wanted) == (current, to)
            refused += 1

    await shop.write(try_each)

    assert refused == sum(
        not listed(current, *move) for move in product(RequestStatus, PrincipalKind)
    )
    assert refused > 0
    assert await everything(shop) == before


async def test_nothing_is_filed_in_a_state_that_is_not_listed(shop):
    request, life = await shop.filed("A100"), shop.container.life()
    before = await everything(shop)

    def try_each(tx) -> None:
        for to, kind in product(RequestStatus, PrincipalKind):
            if not listed(None, to, kind):
                drafted = replace(request, id="req_x", status=to, requester=who(kind))
                with pytest.raises(IllegalTransition):
                    life.admit(tx, drafted)

    await shop.write(try_each)

    assert await everything(shop) == before


@pytest.mark.parametrize(
    "final", [RequestStatus.REJECTED, RequestStatus.CANCELLED, RequestStatus.EXPIRED]
)
def test_what_is_final_has_no_way_out(final):
    assert not [to for current, to in MOVES if current is final]
