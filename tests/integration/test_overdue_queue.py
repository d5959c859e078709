"""The part of the queue that somebody should have decided by now, on each database."""

from datetime import timedelta

from support_agent.domain.refunds import RequestStatus
from support_agent.ports.storage import RequestFilter
from tests.kit import Shop


async def test_what_is_due_before_a_moment_is_found_page_by_page(shop_on_each: Shop):
    shop = shop_on_each
    late = [await shop.filed(order, customer="C003") for order in ("A300", "A301")]
    shop.clock.set(shop.clock.now() + timedelta(hours=1))
    later = await shop.filed("A100")
    where = RequestFilter(status=RequestStatus.PENDING_APPROVAL, due_before=later.due_at)

    first = await shop.read(lambda tx: tx.requests.list(where, limit=1))
    second = await shop.read(lambda tx: tx.requests.list(where, limit=1, cursor=first.next_cursor))

    assert [page.data[0].id for page in (first, second)] == [request.id for request in late]
    assert second.next_cursor is None
