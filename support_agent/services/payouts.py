"""Paying: commit the intent, call the gateway once with its key, commit what came of it."""

from dataclasses import replace
from datetime import datetime

from support_agent.domain.errors import (
    AlreadyDecided,
    GatewayRefusesUs,
    PaymentDeclined,
    RecordChanged,
    SupportAgentError,
)
from support_agent.domain.orders import Order
from support_agent.domain.people import SYSTEM
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import (
    Attempt,
    AttemptStatus,
    RefundRequest,
    RequestStatus,
    attempt_key,
)
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.orders import OrderRepository
from support_agent.ports.payments import GatewayStatus, PaymentState
from support_agent.ports.storage import Database, SwitchName, Transaction
from support_agent.services.authority import IN_FORCE
from support_agent.services.breaker import Breaker
from support_agent.services.clearance import Clearance
from support_agent.services.gateway_calls import GatewayCalls, instruction_of
from support_agent.services.gateway_refunds import GatewayRefunds
from support_agent.services.outcomes import hold_back, task_about
from support_agent.services.reconciliation import Reconciliation
from support_agent.services.refunds import RefundLife
from support_agent.services.rereads import Rereads
from support_agent.services.sending import Sending
from support_agent.services.standing import REQUESTS, Objection
from support_agent.services.stored_requests import group_of, stored_request
from support_agent.services.sweeps import PAGE, sweep
from support_agent.services.switches import Switchboard
from support_agent.services.tasks import PAY_BY_HAND

S = RequestStatus
NOT_PAID = frozenset({GatewayStatus.FAILED, GatewayStatus.CANCELED})

_MOST_LOOKS = 5  # while other refunds of the same payment are being settled


class Payouts:
    """Pays approved requests. Status alone moves no money: the decisions must verify."""

    def __init__(
        self,
        *,
        database: Database,
        orders: OrderRepository,
        calls: GatewayCalls,
        sending: Sending,
        clearance: Clearance,
        breaker: Breaker,
        switchboard: Switchboard,
        reconciliation: Reconciliation,
        rereads: Rereads,
        gateway_refunds: GatewayRefunds,
        life: RefundLife,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._database = database
        self._orders = orders
        self._calls = calls
        self._sending = sending
        self._clearance = clearance
        self._breaker = breaker
        self._switchboard = switchboard
        self._reconciliation = reconciliation
        self._rereads = rereads
        self._gateway_refunds = gateway_refunds
        self._life = life
        self._clock = clock
        self._ids = ids

    async def pay(self, request_id: str, *, notify: bool = True) -> RefundRequest:
        """Try to pay an approved request once; any other status is handed back as it is.

        So is an approved one while payouts are paused.

        Raises:
            RequestNotFound: unknown id.
            PaymentOutcomeUnknown: the gateway could not even be asked; nothing was sent.
            OrdersUnavailable: the shop's system did not answer; nothing was sent.
        """
        for _ in range(_MOST_LOOKS):
            tried = await self._try(request_id, notify=notify)
            if tried is not None:
                return tried
        return await self._stored(request_id)  # the sweep pays it

    async def _try(self, request_id: str, *, notify: bool) -> RefundRequest | None:
        """None when a refund that this one was judged beside moved meanwhile: look again."""
        request, paused = await self._database.read(
            lambda tx: self._seen(tx, request_id), brief=True
        )
        if paused or request.status is not S.APPROVED:
            return request
        order = await self._orders.get(request.order_id)
        try:
            state = await self._payment_state(request)
            paid = await self._is_paid(request, state)
            # A payment with a refund that we had called failed is not to be paid from.
            payable = None if await self._is_paid_before(request, state) else state
            started = await self._database.transact(
                lambda tx: self._begin(tx, request_id, order, payable, paid=paid, notify=notify)
            )
        except GatewayRefusesUs as refused:
            await self._breaker.trip(self._calls.gateway.name, str(refused))
            return await self._stored(request_id)
        except AlreadyDecided:  # somebody else moved it at the same moment, or one beside it
            now = await self._stored(request_id)
            return None if now.status is S.APPROVED else now
        except RecordChanged:
            return await self._database.transact(lambda tx: self._key_taken(tx, request_id))
        if isinstance(started, Attempt):
            return await self._sending.send(started, notify=notify)
        if started.status is S.PENDING_APPROVAL and state is not None and state.refunded_minor:
            # So that who decides again sees what was refunded outside. It is compared anyway.
            await self._gateway_refunds.compare_payment(instruction_of(request).payment)
        return started

    async def pay_group(self, request_id: str, *, notify: bool = True) -> tuple[RefundRequest, ...]:
        """Pay what is one refund over several payments: each request alone, in order of filing.

        Raises:
            RequestNotFound: unknown id.
            SupportAgentError: as `pay`, for the first that could not be tried; the others were.
        """
        members = await self._database.read(
            lambda tx: group_of(tx, stored_request(tx, request_id)), brief=True
        )
        done: list[RefundRequest] = []
        problem: SupportAgentError | None = None
        for member in members:
            try:
                done.append(await self.pay(member.id, notify=notify))
            except SupportAgentError as error:
                problem = problem or error
        if problem is not None:
            raise problem
        return tuple(done)

    async def pay_due(self) -> tuple[RefundRequest, ...]:
        """Pay what is approved and was not tried yet: a process died, or the gateway was down."""
        return await sweep(
            self._database,
            lambda tx, last: tx.requests.in_status((S.APPROVED,), limit=PAGE, after=last),
            self.pay,
            going_on=self._calls.worth_asking(),
        )

    async def reconcile(self) -> tuple[RefundRequest, ...]:
        """Hold our attempts against the gateway, and then the gateway's refunds against ours.

        Returns:
            Every request whose outcome was unclear, as it is now, and whatever else moved.
        """
        unclear = await self._reconciliation.run()
        late = await self._rereads.run()
        return (*unclear, *late, *await self._gateway_refunds.compare())

    async def _stored(self, request_id: str) -> RefundRequest:
        return await self._database.read(lambda tx: stored_request(tx, request_id), brief=True)

    def _seen(self, tx: Transaction, request_id: str) -> tuple[RefundRequest, bool]:
        """The request, and whether somebody paused payouts.

        A switch that is off because the history is broken is looked at later: then it is told what
        is wrong with the request.
        """
        switch = self._switchboard.state(tx, SwitchName.PAYOUTS)
        return stored_request(tx, request_id), switch.genuine and not switch.on

    async def _payment_state(self, request: RefundRequest) -> PaymentState | None:
        """What the gateway says of the payment, read before each attempt; None: it knows none."""
        if self._clearance.by_hand(request):
            return None
        payment = instruction_of(request).payment
        try:
            return await self._calls.ask(self._calls.gateway.payment_state(payment))
        except PaymentDeclined:
            return None

    async def _is_paid(self, request: RefundRequest, state: PaymentState | None) -> bool:
        """Whether the gateway paid this very attempt, of which our database knows nothing.

        It was put back to an earlier copy then. The gateway forgets a key in a day and would pay
        again, and a person who decides again need not see that it is this request that was paid.
        """
        if state is None or not state.refunded_minor:
            return False
        return await self._is_paid_under(request, request.attempt_no)

    async def _is_paid_before(self, request: RefundRequest, state: PaymentState | None) -> bool:
        """Whether a try that had failed was paid after all, since staff asked for another.

        Its amount alone does not tell: what else is sent of the payment may seem to explain it.
        """
        if state is None or not state.refunded_minor:
            return False
        for number in range(1, request.attempt_no):
            if await self._is_paid_under(request, number):
                return True
        return False

    async def _is_paid_under(self, request: RefundRequest, number: int) -> bool:
        sent = replace(instruction_of(request), key=attempt_key(request.id, number))
        found = await self._calls.ask(self._calls.gateway.find(sent))
        return found is not None and found.status not in NOT_PAID

    def _begin(
        self,
        tx: Transaction,
        request_id: str,
        order: Order | None,
        state: PaymentState | None,
        *,
        paid: bool,
        notify: bool,
    ) -> Attempt | RefundRequest:
        """Commit the attempt with its exact parameters before anything is sent."""
        request = stored_request(tx, request_id)
        if request.status is not S.APPROVED:
            return request
        tx.audit.expect(
            (REQUESTS, request.id), ("switch", SwitchName.PAYOUTS), ("policy", IN_FORCE)
        )
        held = self._held_back(tx, request, paid=paid, notify=notify)
        if held is not None:
            return held
        if request.approved_until is not None and self._clock.now() > request.approved_until:
            return self._moved(tx, request, S.EXPIRED, notify=notify)
        objection = self._clearance.objection(tx, request, order, state)
        if objection is not None:
            return self._back(tx, request, objection)
        if self._clearance.by_hand(request):
            return self._to_a_person(tx, request, PAY_BY_HAND, notify=notify)
        return self._start(tx, request)

    def _held_back(
        self, tx: Transaction, request: RefundRequest, *, paid: bool, notify: bool
    ) -> RefundRequest | None:
        """The request when it is not what we wrote, is paid, or nothing is to be paid at all."""
        forged = self._clearance.forgery(tx, request)
        if forged is not None:
            now = stored_request(tx, request.id)  # another worker may have moved it while we looked
            return now if now != request else hold_back(tx, request, forged, self._clock)
        if not self._switchboard.is_on(tx, SwitchName.PAYOUTS):
            return request
        return self._to_a_person(tx, request, "paid_after_all", notify=notify) if paid else None

    def _to_a_person(
        self, tx: Transaction, request: RefundRequest, kind: str, *, notify: bool
    ) -> RefundRequest:
        moved = self._moved(tx, request, S.MANUAL_REVIEW, notify=notify)
        tx.tasks.add(task_about(moved, kind, self._clock))
        return moved

    def _moved(
        self, tx: Transaction, request: RefundRequest, to: RequestStatus, *, notify: bool
    ) -> RefundRequest:
        moved = self._life.transition(tx, request, to, actor=SYSTEM, notify=notify)
        if not notify:
            self._life.tell_unless_stated(tx, request, moved)
        return moved

    def _start(self, tx: Transaction, request: RefundRequest) -> Attempt:
        """The request's row first: who has moved it is the only one to start this round.

        Raises:
            RecordChanged: its key is taken all the same, so somebody wrote that by hand.
        """
        attempt = self._attempt(request, tx.database_now())
        self._life.transition(
            tx,
            request,
            S.PAYING,
            actor=SYSTEM,
            notify=False,
            approved_until=request.approved_until,
            changes={"attempt_at": attempt.sent_at},
            data={"attempt": attempt.id, "key": attempt.key},
        )
        if not tx.attempts.add(attempt):
            raise RecordChanged("refund request", request.id)
        return attempt

    def _key_taken(self, tx: Transaction, request_id: str) -> RefundRequest:
        """Starting was rolled back; the request is as it was, unless it moved since."""
        request = stored_request(tx, request_id)
        if request.status is not S.APPROVED:
            return request
        return hold_back(tx, request, Reason.RECORD_CHANGED, self._clock)

    def _back(self, tx: Transaction, request: RefundRequest, objection: Objection) -> RefundRequest:
        """A person decides again; the decisions of this round no longer count."""
        return self._life.transition(
            tx,
            request,
            S.PENDING_APPROVAL,
            actor=SYSTEM,
            next_round=True,
            data={"reason": objection.reason},
        )

    def _attempt(self, request: RefundRequest, sent_at: datetime) -> Attempt:
        return Attempt(
            id=self._ids.new("att"),
            request_id=request.id,
            number=request.attempt_no,
            round=request.round,
            key=attempt_key(request.id, request.attempt_no),
            gateway=request.gateway,
            account=request.account,
            gateway_payment_id=request.gateway_payment_id,
            amount_minor=request.amount_minor,
            currency=request.currency,
            status=AttemptStatus.CREATED,
            created_at=self._clock.now(),
            sent_at=sent_at,
        )
