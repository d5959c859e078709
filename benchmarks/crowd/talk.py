"""What a crowd of customers says: each a conversation of five turns, some about a refund.

A message of the crowd carries a mark that the scripted model repeats in its answer, so that what
answers what can be read off the rows. A yes carries none: code would not take it for a yes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum, auto

from support_agent import Assurance, Binding, customer_principal
from support_agent.domain.orders import Customer, Order
from support_agent.testing.builders import make_line, make_order, make_payment

YES = "đồng ý"
SMALL, LARGE = 120_000, 250_000  # paid automatically, and by an approver of level 1
BURST = 3  # messages


class Kind(StrEnum):
    TALK = auto()
    AUTOMATIC = auto()
    APPROVED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message as the channel delivers it, `deliveries` times."""

    id: str
    text: str
    deliveries: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One customer's conversation. The messages of a turn are sent at once, without waiting."""

    number: int
    kind: Kind
    turns: tuple[tuple[Said, ...], ...]

    @property
    def customer_id(self) -> str:
        return f"K{self.number:05}"

    @property
    def order_id(self) -> str:
        return f"B{self.number:05}"

    @property
    def amount_minor(self) -> int:
        return LARGE if self.kind is Kind.APPROVED else SMALL

    @property
    def binding(self) -> Binding:
        return Binding(
            channel="crowd",
            account="local",
            external_contact=self.customer_id,
            customer_id=self.customer_id,
            assurance=Assurance.VERIFIED,
            principal=customer_principal(self.customer_id, via="crowd"),
        )

    @property
    def messages(self) -> Iterator[Said]:
        for turn in self.turns:
            yield from turn


def stories(count: int) -> tuple[Story, ...]:
    """The crowd: one in five wants a refund, one in four sends a burst, one in three duplicates."""
    return tuple(_story(number) for number in range(count))


def _story(number: int) -> Story:
    kind = {0: Kind.AUTOMATIC, 5: Kind.APPROVED}.get(number % 10, Kind.TALK)
    texts = _refund(f"B{number:05}") if kind is not Kind.TALK else _talk(number, f"B{number:05}")
    turns = [
        tuple(
            Said(
                id=f"{number}-{turn}-{part}",
                text=text if text == YES else f"{text} m{number}t{turn}p{part}",
                deliveries=2 if number % 3 == 0 and part == 0 else 1,
            )
            for part, text in enumerate(together)
        )
        for turn, together in enumerate(texts)
    ]
    return Story(number=number, kind=kind, turns=tuple(turns))


def _refund(order: str) -> Sequence[tuple[str, ...]]:
    return (
        (f"Đơn {order} đang ở đâu?",),
        (f"Hoàn tiền đơn {order} giúp tôi.",),
        (YES,),
        ("Yêu cầu hoàn của tôi đến đâu rồi?",),
        ("Cảm ơn shop.",),
    )


def _talk(number: int, order: str) -> Sequence[tuple[str, ...]]:
    again = ("Shop mở cửa lúc nào?",) * (BURST if number % 4 == 1 else 1)
    return (
        (f"Đơn {order} đang ở đâu?",),
        again,
        ("Chính sách đổi trả thế nào?",),
        (f"Đơn {order} giao ngày nào?",),
        ("Cảm ơn shop.",),
    )


def customers(crowd: Sequence[Story]) -> tuple[Customer, ...]:
    return tuple(Customer(id=one.customer_id, name=f"Khách {one.number}") for one in crowd)


def orders(crowd: Sequence[Story]) -> tuple[Order, ...]:
    """One for each customer, delivered twelve days ago."""
    now = datetime.now(UTC)
    return tuple(
        make_order(
            (make_line(f"{one.order_id}-1", one.amount_minor),),
            (make_payment(f"PAY-{one.order_id}", one.amount_minor, order_id=one.order_id),),
            id=one.order_id,
            customer_id=one.customer_id,
            placed_at=now - timedelta(days=20),
            delivered_at=now - timedelta(days=12),
        )
        for one in crowd
    )
