"""A customer's own refund requests outside of a conversation: seen, and taken back."""

from collections.abc import Mapping
from dataclasses import dataclass

from support_agent.domain.access import VIA, Acting
from support_agent.domain.conversation import Assurance
from support_agent.domain.errors import AlreadyDecided, IdentityNotVerified, RequestNotFound
from support_agent.domain.people import Asker, customer_principal
from support_agent.domain.reasons import Language
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.domain.wording import request_sentence
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Database, Page, RequestFilter, Transaction
from support_agent.services.destinations import accounts_of
from support_agent.services.refunds import RefundLife
from support_agent.services.stored_requests import note_foreign_request


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRefund:
    """A request as its customer may see it, with what code says of it."""

    request: RefundRequest
    accounts: Mapping[str, str]  # masked, by destination
    books_only: bool

    def sentence(self, language: Language) -> str:
        """Amount, state and where the money goes; never more than is true."""
        return request_sentence(
            self.request, language, books_only=self.books_only, accounts=self.accounts
        )


class CustomerRefunds:
    """For a customer who is proved to be one; another's request is as if it did not exist.

    Each raises:
        IdentityNotVerified: it is only claimed which customer this is.
    """

    def __init__(
        self, *, database: Database, life: RefundLife, clock: Clock, books_only: bool
    ) -> None:
        self._database = database
        self._life = life
        self._clock = clock
        self._books_only = books_only

    async def page(
        self,
        acting: Acting,
        *,
        status: RequestStatus | None,
        order_id: str | None,
        limit: int,
        cursor: str | None,
    ) -> Page[OwnRefund]:
        """The customer's requests of all conversations, in the order of `Requests.list`.

        Raises:
            InvalidInput: a cursor that this list did not hand out.
        """
        mine = _asker(acting).customer_id
        where = RequestFilter(status=status, customer_id=mine, order_id=order_id)

        def read(tx: Transaction) -> Page[OwnRefund]:
            page = tx.requests.list(where, limit=limit, cursor=cursor)
            found = tuple(self._told(tx, request) for request in page.data)
            return Page(data=found, next_cursor=page.next_cursor)

        return await self._database.read(read)

    async def get(self, acting: Acting, request_id: str) -> OwnRefund:
        """One of them.

        Raises:
            RequestNotFound: unknown, or another customer's (which leaves an audit event).
        """
        asker = _asker(acting)

        def read(tx: Transaction) -> OwnRefund | None:
            request = tx.requests.get(request_id)
            if request is None or request.customer_id != asker.customer_id:
                return None
            return self._told(tx, request)

        found = await self._database.read(read)
        if found is None:
            await self._note(asker, request_id)
            raise RequestNotFound(request_id)
        return found

    async def cancel(self, acting: Acting, request_id: str) -> OwnRefund:
        """Take it back, and what was filed with it, while nothing of it is on its way.

        Raises:
            RequestNotFound: as `get`.
            RefundRefused: ALREADY_PAYING.
            AlreadyDecided: it is final already; who of the shop decided is not told.
        """
        asker = _asker(acting)

        def write(tx: Transaction) -> OwnRefund:
            return self._told(tx, self._life.cancel(tx, request_id, asker))

        try:
            return await self._database.transact(write)
        except RequestNotFound:
            await self._note(asker, request_id)
            raise
        except AlreadyDecided as decided:
            raise AlreadyDecided(
                request_id, status=decided.status, by=None, at=decided.at
            ) from decided

    async def _note(self, asker: Asker, request_id: str) -> None:
        """Nothing is written about an id that is nobody's."""
        exists = await self._database.read(
            lambda tx: tx.requests.get(request_id) is not None, brief=True
        )
        if exists:
            await self._database.transact(
                lambda tx: note_foreign_request(tx, request_id, asker, self._clock)
            )

    def _told(self, tx: Transaction, request: RefundRequest) -> OwnRefund:
        accounts = accounts_of(tx, (request,))
        return OwnRefund(request=request, accounts=accounts, books_only=self._books_only)


def _asker(acting: Acting) -> Asker:
    if acting.assurance is not Assurance.VERIFIED:
        raise IdentityNotVerified
    return Asker(
        customer_id=acting.customer_id,
        principal=customer_principal(acting.customer_id, via=VIA),
        operator=None,
        conversation_id="",
        run_id=None,
    )
