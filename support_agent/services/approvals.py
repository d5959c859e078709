"""The approver's desk: prove who decides, then approve, reject, lower or ask about a request."""

import hmac

from support_agent.domain.errors import NotProved
from support_agent.domain.people import Approver, Principal, PrincipalKind, Proof
from support_agent.domain.refunds import RefundRequest
from support_agent.domain.signing import KeyRing
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.orders import OrderRepository
from support_agent.ports.storage import Database, Transaction
from support_agent.services.amendments import Amendments
from support_agent.services.authority import token_hash
from support_agent.services.briefs import Brief, brief_of
from support_agent.services.deciding import Deciding
from support_agent.services.decisions import Decisions
from support_agent.services.policies import PoliciesInForce
from support_agent.services.refunds import RefundLife
from support_agent.services.stored_requests import stored_request
from support_agent.services.terms import RefundTerms


class Approvals:
    """One transaction a decision; a request that is offered with others is decided with them.

    Each of these raises, and changes nothing then:
        RequestNotFound, AlreadyDecided, RequestExpired, StaleDecision: look again.
        NotAuthorised: this person may not; InsufficientAuthority names who may.
        DecisionRefused: the order no longer allows it, a cap is full, or the record was changed.
    """

    def __init__(
        self,
        *,
        database: Database,
        orders: OrderRepository,
        life: RefundLife,
        policies: PoliciesInForce,
        terms: RefundTerms,
        keys: KeyRing,
        clock: Clock,
        ids: Ids,
        proof: Proof,
    ) -> None:
        self._database = database
        self._orders = orders
        self._policies = policies
        self._clock = clock
        self._proof = proof
        self._deciding = Deciding(policies=policies, keys=keys, clock=clock)
        self._decisions = Decisions(
            deciding=self._deciding,
            life=life,
            policies=policies,
            terms=terms,
            keys=keys,
            clock=clock,
            ids=ids,
        )
        self._amendments = Amendments(
            deciding=self._deciding,
            decisions=self._decisions,
            life=life,
            policies=policies,
            clock=clock,
        )

    @property
    def proof(self) -> Proof:
        """What `prove` asks for: a token, or (demo databases) only the name."""
        return self._proof

    async def prove(self, name: str, token: str | None, *, via: str) -> Principal:
        """Who is deciding.

        Raises:
            ApproverNotFound: no such approver.
            NotProved: the token is missing or wrong.
            RecordChanged: the approver's row is not what the signed history says.
        """
        approver = await self._database.read(
            lambda tx: self._deciding.approver(tx, name), brief=True
        )
        if self._proof is Proof.TOKEN:
            _check_token(approver, token)
        return Principal(
            kind=PrincipalKind.APPROVER,
            id=approver.name,
            person_id=approver.person_id,
            proof=self._proof,
            via=via,
        )

    async def approve(
        self, request_id: str, *, by: Principal, expect: int | None = None, note: str | None = None
    ) -> RefundRequest:
        """Approve what waits; with four eyes it stays pending until the second person."""
        request = await self._known(request_id)
        order = await self._orders.get(request.order_id)
        return await self._database.transact(
            lambda tx: self._decisions.approve(
                tx, request_id, by=by, order=order, expect=expect, note=note
            )
        )

    async def reject(
        self, request_id: str, *, by: Principal, expect: int | None = None, note: str | None = None
    ) -> RefundRequest:
        """Reject what waits; the reserve is released and the customer told."""
        return await self._database.transact(
            lambda tx: self._decisions.reject(tx, request_id, by=by, expect=expect, note=note)
        )

    async def reduce(
        self,
        request_id: str,
        *,
        amount_minor: int,
        by: Principal,
        expect: int | None = None,
        note: str | None = None,
    ) -> RefundRequest:
        """Lower the amount; what was filed is kept, decisions so far are void, it waits on.

        Raises:
            InvalidInput: not an amount.
            DecisionRefused: also AMOUNT_NOT_LOWER and GROUP_NOT_REDUCED.
        """
        request = await self._known(request_id)
        order = await self._orders.get(request.order_id)
        return await self._database.transact(
            lambda tx: self._amendments.reduce(
                tx,
                request_id,
                amount_minor=amount_minor,
                by=by,
                order=order,
                expect=expect,
                note=note,
            )
        )

    async def ask(
        self, request_id: str, *, question: str, by: Principal, expect: int | None = None
    ) -> RefundRequest:
        """Ask the customer in the request's conversation; it waits on and expires as before.

        Raises:
            InvalidInput: no question, or too long.
            DecisionRefused: also NO_CONVERSATION.
        """
        return await self._database.transact(
            lambda tx: self._amendments.ask(tx, request_id, question=question, by=by, expect=expect)
        )

    async def brief(self, request_id: str) -> Brief:
        """The facts of a request as they are now.

        Raises:
            RequestNotFound: unknown id.
        """
        request = await self._known(request_id)
        order = await self._orders.get(request.order_id)

        def tell(tx: Transaction) -> Brief:
            now = self._clock.now()
            return brief_of(
                tx, stored_request(tx, request_id), order, self._policies.current(tx), now
            )

        return await self._database.read(tell)

    async def _known(self, request_id: str) -> RefundRequest:
        return await self._database.read(lambda tx: stored_request(tx, request_id), brief=True)


def _check_token(approver: Approver, token: str | None) -> None:
    if not token:
        raise NotProved(
            f"approver {approver.name!r} must prove who they are: set SUPPORT_AGENT_APPROVER_TOKEN "
            "or answer the prompt; `support-agent approvers token NAME` makes a token"
        )
    if approver.token_hash is None or not hmac.compare_digest(
        token_hash(token), approver.token_hash
    ):
        raise NotProved(f"the token is not that of approver {approver.name!r}")
