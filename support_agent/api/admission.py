"""The door: who is let in, and how often."""

import hashlib
import time
from collections import OrderedDict

from starlette.requests import Request

from support_agent.adapters.customer_tokens import CustomerTokens
from support_agent.api.access import bearer, caller_of
from support_agent.api.problems import ProblemError
from support_agent.api.rates import Rate
from support_agent.domain.access import Acting, ApiKey, Caller, Scope
from support_agent.domain.conversation import Assurance
from support_agent.domain.errors import NotAuthenticated
from support_agent.services.api_keys import ApiKeys, id_of

MOST_KNOWN = 1_000  # keys that were good lately; they come in from whatever address
IDS_S = 1.0  # how long what was read of the keys' ids counts


class Admission:
    """Proves each request's key, then counts it, then asks whether it may do this.

    An address from which many wrong keys come is made to wait before the database is asked again,
    but never a key that was good lately, nor one whose id is that of a key: behind a proxy all
    clients have one address, and none of them may lock out the others.
    """

    def __init__(
        self,
        *,
        keys: ApiKeys,
        tokens: CustomerTokens | None,
        of_key: Rate,
        of_customer: Rate,
        refused: Rate,
    ) -> None:
        self._keys = keys
        self._tokens = tokens
        self._of_key = of_key
        self._of_customer = of_customer
        self._refused = refused
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._ids: frozenset[str] = frozenset()
        self._ids_until = 0.0  # by the monotonic clock

    async def let_in(self, request: Request, scopes: tuple[Scope, ...]) -> Caller:
        """Who this is, allowed to by one of the scopes; nothing of the body is read.

        Raises:
            NotAuthenticated: no key or a wrong one, or a customer token that is not good.
            ScopeMissing: the key is good, but not for this.
            ProblemError: too many requests, or it has to say for which customer.
            InvalidInput: a header that cannot be read.
        """
        key = await self._proved(request)
        self._of_key.count(key.name)
        caller = caller_of(key, request.headers, scopes, tokens=self._tokens)
        if caller.acting is not None:
            self._of_customer.count(_name(caller.acting))
        return caller

    async def _proved(self, request: Request) -> ApiKey:
        address = request.client.host if request.client else ""
        digest = b""
        try:
            text = bearer(request.headers)
            digest = hashlib.sha256(text.encode()).digest()
            if digest not in self._known:
                await self._check_address(address, text)
            key = await self._keys.authenticate(text)
        except NotAuthenticated:
            self._known.pop(digest, None)  # it is good no more
            self._refused.add(address)
            raise
        self._known[digest] = None
        self._known.move_to_end(digest)
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return key

    async def _check_address(self, address: str, text: str) -> None:
        """Pass when no more wrong keys than are allowed came from there, or this may be a good one.

        The ids are read at most once a second, however many keys are tried.
        """
        try:
            self._refused.check(address)
        except ProblemError:
            now = time.monotonic()
            if self._ids_until <= now:
                self._ids_until = now + IDS_S
                self._ids = await self._keys.live_ids()
            if id_of(text) not in self._ids:
                raise


def _name(acting: Acting) -> str:
    """Who is only said to be a customer does not use up what that customer may do."""
    if acting.assurance is Assurance.VERIFIED:
        return acting.customer_id
    return f"{acting.channel}\n{acting.account}\n{acting.contact}\n{acting.customer_id}"
