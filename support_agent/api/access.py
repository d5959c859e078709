"""Who sends a request: the key it bears, and the customer it speaks for."""

from typing import Annotated
from urllib.parse import unquote

from fastapi import Depends
from starlette.datastructures import Headers
from starlette.requests import Request

from support_agent.adapters.customer_tokens import LONGEST_ID, CustomerTokens
from support_agent.api.problems import ProblemError
from support_agent.domain.access import API_CHANNEL, Acting, ApiKey, Caller, Scope
from support_agent.domain.conversation import Assurance
from support_agent.domain.errors import CustomerTokenRefused, InvalidInput, ScopeMissing
from support_agent.domain.errors import NotAuthenticated as Unknown

TOKEN = "Support-Agent-Customer-Token"  # noqa: S105 - a header's name
CUSTOMER = "Support-Agent-Customer"
CONTACT = "Support-Agent-Contact"
LONGEST_KEY = 500  # of what stands after `Bearer`; ours are much shorter


def caller_of(
    key: ApiKey, headers: Headers, scopes: tuple[Scope, ...], *, tokens: CustomerTokens | None
) -> Caller:
    """Who comes with this key, allowed to by one of the scopes.

    Raises:
        ScopeMissing: the key is not good for this.
        CustomerTokenRefused: the token that names the customer is not good.
        ProblemError: it has to say for which customer.
        InvalidInput: a header that is there twice, or cannot be read.
    """
    usable = tuple(scope for scope in scopes if key.allows(scope))
    if not usable:
        raise ScopeMissing(scopes)
    says_who = any(name in headers for name in (TOKEN, CUSTOMER, CONTACT))
    if not says_who:
        if usable == (Scope.CUSTOMERS_ACT,):
            raise ProblemError(400, "CUSTOMER_NEEDED", _how(key))
        return Caller(key=key)
    if Scope.CUSTOMERS_ACT not in usable:
        raise ScopeMissing((Scope.CUSTOMERS_ACT,))
    return Caller(key=key, acting=_acting(key, headers, tokens))


def bearer(headers: Headers) -> str:
    """The text of the key a request bears.

    Raises:
        NotAuthenticated: there is none that could be one.
    """
    given = headers.getlist("authorization")
    kind, _, text = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    if kind.lower() != "bearer" or not 1 <= len(text.strip()) <= LONGEST_KEY:
        raise Unknown(
            "send one key: Authorization: Bearer sak_…; `support-agent keys create` makes it"
        )
    return text.strip()


def the_only(headers: Headers, name: str) -> str:
    """A header's value.

    Raises:
        InvalidInput: it is there more than once, so that nobody knows which of them counts.
    """
    values = headers.getlist(name)
    if len(values) != 1:
        raise InvalidInput(name, "is there more than once; send it once")
    return values[0]


def _how(key: ApiKey) -> str:
    named = f"or {CUSTOMER} (the id), " if key.channel else ""
    return (
        f"say for which customer this is, in the header {TOKEN} (signed by the shop), {named}"
        "on every request of a key that speaks for customers"
    )


def _acting(key: ApiKey, headers: Headers, tokens: CustomerTokens | None) -> Acting:
    channel, account, until = key.channel or API_CHANNEL, key.account or key.name, None
    if TOKEN in headers:
        if tokens is None:
            raise CustomerTokenRefused(
                "customer tokens are not set up: SUPPORT_AGENT_API__CUSTOMER_TOKEN_SECRETS"
            )
        bearer_of_it = tokens.bearer_of(the_only(headers, TOKEN))
        customer_id, assurance = bearer_of_it.customer_id, Assurance.VERIFIED
        until = bearer_of_it.until
        if CUSTOMER in headers and _decoded(headers, CUSTOMER) != customer_id:
            raise InvalidInput(CUSTOMER, "is not the customer of the token")
    elif key.channel is None or CUSTOMER not in headers:
        raise ProblemError(400, "CUSTOMER_NEEDED", _how(key))
    else:
        customer_id, assurance = _decoded(headers, CUSTOMER), key.assurance
    contact = _decoded(headers, CONTACT) if CONTACT in headers else customer_id
    return Acting(
        customer_id=customer_id,
        contact=contact,
        channel=channel,
        account=account,
        assurance=assurance,
        until=until,
    )


def _decoded(headers: Headers, name: str) -> str:
    """Percent-encoded UTF-8, as headers hold nothing else safely."""
    raw = the_only(headers, name)
    try:
        text = unquote(raw, errors="strict")
    except UnicodeDecodeError:
        text = ""
    if not raw.isascii() or not text:
        raise InvalidInput(name, "is not percent-encoded UTF-8")
    if len(text) > LONGEST_ID or not text.isprintable():
        raise InvalidInput(name, f"is not 1 to {LONGEST_ID} printable characters")
    return text


async def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


CallerOf = Annotated[Caller, Depends(_caller)]
