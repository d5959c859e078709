"""Deciding from wherever an approver sits: the decision, then one try to pay what it approved."""

from dataclasses import dataclass, replace
from typing import assert_never

from support_agent.domain.errors import InvalidInput, SupportAgentError
from support_agent.domain.money import Money
from support_agent.domain.people import Principal
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.ports.storage import Database, Transaction
from support_agent.services.approvals import Approvals
from support_agent.services.briefs import held_among
from support_agent.services.paid_elsewhere import Payer
from support_agent.services.stored_requests import group_of, stored_request


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve:
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduce:
    """To this amount, in the request's currency; it has to be approved then."""

    amount: Money
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Put a question to the customer; the request waits on."""

    question: str


Wish = Approve | Reject | Reduce | Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A decision that stands, and what the payout after it came to."""

    request: RefundRequest
    group: tuple[RefundRequest, ...] = ()  # the others that were decided with it
    is_held: bool = False  # its customer was asked, and has not written since
    by_worker: bool = False  # another process pays
    trouble: SupportAgentError | None = None


class DecisionDesk:
    """Decisions as `Approvals` makes them, each followed by what it is for."""

    def __init__(
        self, *, database: Database, approvals: Approvals, payer: Payer, by_worker: bool
    ) -> None:
        self._database = database
        self._approvals = approvals
        self._payer = payer
        self._by_worker = by_worker

    async def decide(
        self, request_id: str, wish: Wish, *, by: Principal, expect: int | None
    ) -> Decided:
        """Do as the approver wishes, on the version they have seen; None: whatever it is now.

        Raises:
            InvalidInput: also an amount in another currency.
            SupportAgentError: as `Approvals`; nothing was decided then.
        """
        desk = self._approvals
        match wish:
            case Approve():
                moved = await desk.approve(request_id, by=by, expect=expect, note=wish.note)
            case Reject():
                moved = await desk.reject(request_id, by=by, expect=expect, note=wish.note)
            case Reduce():
                await self._check_currency(request_id, wish.amount)
                moved = await desk.reduce(
                    request_id,
                    amount_minor=wish.amount.amount_minor,
                    by=by,
                    expect=expect,
                    note=wish.note,
                )
            case Ask():
                moved = await desk.ask(request_id, question=wish.question, by=by, expect=expect)
            case _:
                assert_never(wish)
        return await self.follow(moved)

    async def follow(self, decided: RefundRequest) -> Decided:
        """Pay what was approved, each alone, or leave it to the worker that pays.

        The decision is committed: nothing that goes wrong here may look like its failure.
        """
        outcome = Decided(request=decided, by_worker=self._by_worker)
        if decided.status is RequestStatus.APPROVED:
            try:
                await self._payer.pay_group(decided.id)
            except SupportAgentError as error:
                outcome = replace(outcome, trouble=error)
        return await self._database.read(lambda tx: _as_it_is(tx, outcome))

    async def _check_currency(self, request_id: str, amount: Money) -> None:
        request = await self._database.read(lambda tx: stored_request(tx, request_id), brief=True)
        if amount.currency != request.currency:
            raise InvalidInput(
                "currency", f"is {amount.currency}; the request is in {request.currency}"
            )


def _as_it_is(tx: Transaction, outcome: Decided) -> Decided:
    now = {member.id: member for member in group_of(tx, outcome.request)}
    request = now.pop(outcome.request.id)
    held = held_among(tx, (request,))
    return replace(outcome, request=request, group=tuple(now.values()), is_held=request.id in held)
