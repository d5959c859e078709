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
from support_agent.services.api_keys import ApiKeys

TOKEN = "Support-Agent-Customer-Token"  # noqa: S105 - a header's name
CUSTOMER = "Support-Agent-Customer"
CONTACT = "Support-Agent-Contact"


async def admitted(
    headers: Headers,
    scopes: tuple[Scope, ...],
    *,
    keys: ApiKeys,
    tokens: CustomerTokens | None,
) -> Caller:
    """Who this is, allowed to by one of the scopes.

    Raises:
        NotAuthenticated: no key or a wrong one, or a customer token that is not good.
        ScopeMissing: the key is good, but not for this.
        ProblemError: it has to say for which customer.
    """
    key = await keys.authenticate(_bearer(headers))
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


def _bearer(headers: Headers) -> str:
    kind, _, text = headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not text.strip():
        raise Unknown(
            "send a key: Authorization: Bearer sak_…; `support-agent keys create` makes it"
        )
    return text.strip()


def _how(key: ApiKey) -> str:
    named = f"or {CUSTOMER} (the id), " if key.channel else ""
    return (
        f"say for which customer this is, in the header {TOKEN} (signed by the shop), {named}"
        "on every request of a key that speaks for customers"
    )


def _acting(key: ApiKey, headers: Headers, tokens: CustomerTokens | None) -> Acting:
    channel, account = key.channel or API_CHANNEL, key.account or key.name
    if TOKEN in headers:
        if tokens is None:
            raise CustomerTokenRefused(
                "customer tokens are not set up: SUPPORT_AGENT_API__CUSTOMER_TOKEN_SECRETS"
            )
        customer_id, assurance = tokens.customer_of(headers[TOKEN]), Assurance.VERIFIED
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
    )


def _decoded(headers: Headers, name: str) -> str:
    """Percent-encoded UTF-8, as headers hold nothing else safely."""
    try:
        text = unquote(headers[name], errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidInput(name, "is not percent-encoded UTF-8") from error
    if not 1 <= len(text) <= LONGEST_ID or not text.isprintable():
        raise InvalidInput(name, f"is not 1 to {LONGEST_ID} printable characters")
    return text


def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


CallerOf = Annotated[Caller, Depends(_caller)]
