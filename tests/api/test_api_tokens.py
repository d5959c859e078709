"""Customer tokens: whom the shop's backend signed for, and nothing else, however it is dressed up."""

import base64
import hashlib
import hmac
import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest

from support_agent.adapters.customer_tokens import CustomerTokens, parse_secrets
from support_agent.domain.errors import ConfigurationError, CustomerTokenRefused
from tests.api_kit import SECRET, SECRET_ID, customer_token

OTHER = "another-secret-of-the-backend-0123456789abcdef"


@dataclass(frozen=True)
class In:
    """So many seconds from the moment at which it is signed, which may be long after collection."""

    seconds: int


GOOD = {"sub": "C001", "aud": "support-agent", "iat": In(0), "exp": In(300)}
NESTED = b'{"a":' * 600
TOKENS = CustomerTokens(parse_secrets(f"{SECRET_ID}:{SECRET},next:{OTHER}"), longest_s=900)


def encoded(part: object) -> str:
    raw = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def dated(claims: object) -> object:
    """With its moments as they are now."""
    now = int(time.time())
    if not isinstance(claims, dict):
        return claims
    return {
        name: now + value.seconds if isinstance(value, In) else value
        for name, value in claims.items()
    }


def signed(claims: object, *, secret: str = SECRET, **header: object) -> str:
    """A token with exactly these claims, which a library might refuse to write."""
    said = f"{encoded({'alg': 'HS256', 'kid': SECRET_ID, **header})}.{encoded(dated(claims))}"
    mac = hmac.digest(secret.encode(), said.encode(), hashlib.sha256)
    return f"{said}.{encoded(mac)}"


def refusal(token: str) -> str:
    with pytest.raises(CustomerTokenRefused) as refused:
        TOKENS.bearer_of(token)
    words = str(refused.value)
    assert SECRET not in words
    assert OTHER not in words
    assert len(words) < 300
    return words


def test_a_good_one_names_the_customer_and_its_end():
    before = datetime.now(UTC)
    bearer = TOKENS.bearer_of(signed(GOOD))

    assert bearer.customer_id == "C001"
    assert abs(bearer.until - before - timedelta(seconds=300)) < timedelta(seconds=5)


@pytest.mark.parametrize("id_", ["C001", "khách-1", "cafe\u0301", "a" * 200, "x/../y", "đơn 5"])
def test_the_id_is_taken_byte_for_byte(id_):
    assert TOKENS.bearer_of(signed({**GOOD, "sub": id_})).customer_id == id_


def test_either_secret_verifies_while_one_replaces_the_other():
    assert TOKENS.bearer_of(signed(GOOD, secret=OTHER, kid="next")).customer_id == "C001"
    assert "ignature" in refusal(signed(GOOD, secret=OTHER))
    assert "ignature" in refusal(signed(GOOD, kid="next"))


def test_a_secret_that_was_taken_out_verifies_no_more():
    later = CustomerTokens(parse_secrets(f"next:{OTHER}"), longest_s=900)

    with pytest.raises(CustomerTokenRefused, match="kid"):
        later.bearer_of(signed(GOOD))


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none"},
        {"alg": "None"},
        {"alg": "RS256"},
        {"alg": "HS512"},
        {"alg": "ES256"},
        {"alg": None},
        {"alg": ["HS256"]},
        {"alg": {}},
        {"kid": None},
        {"kid": "nobody"},
        {"kid": ""},
        {"kid": 1},
        {"kid": ["shop"]},
        {"kid": {"shop": 1}},
        {"kid": "../../etc/passwd"},
        {"kid": "shop' OR '1'='1"},
        {"kid": "SHOP"},
        {"crit": ["exp"]},
        {"crit": []},
        {"crit": "exp"},
        {"b64": False},
        {"b64": False, "crit": ["b64"]},
    ],
)
def test_no_header_talks_it_into_another_way_of_checking(header):
    refusal(signed(GOOD, **header))


def test_unsigned_ones_and_others_signatures_are_refused():
    said = f"{encoded({'alg': 'none', 'kid': SECRET_ID})}.{encoded(dated(GOOD))}"
    refusal(f"{said}.")
    refusal(f"{signed(GOOD).rsplit('.', 1)[0]}.")
    refusal(f"{signed(GOOD)}x")
    refusal(signed(GOOD, secret="x" * 40))
    refusal(jwt.encode(dated(GOOD), "", algorithm="none", headers={"kid": SECRET_ID}))


def test_a_key_of_its_own_in_the_header_is_not_believed():
    own = {"kty": "oct", "k": encoded(b"mine" * 8)}

    refusal(signed(GOOD, secret="mine" * 8, jwk=own, jku="https://evil.example/keys"))


@pytest.mark.parametrize("name", ["sub", "aud", "iat", "exp"])
def test_every_claim_is_needed(name):
    claims = {key: value for key, value in GOOD.items() if key != name}

    assert name in refusal(signed(claims))
    assert name in refusal(signed({**GOOD, name: None}))


MOMENTS = [
    *("1796074112", "1796074112.5", "soon", "", True, False, [], {}, [1_796_074_112]),
    *(float("nan"), float("inf"), float("-inf"), 10**400, -(10**400), 1e308, -1, 2**63),
]


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("name", ["iat", "exp", "nbf"])
def test_a_moment_is_a_number_of_this_age(name, moment):
    refusal(signed({**GOOD, name: moment}))


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ({"iat": In(-400), "exp": In(-100)}, "expired"),
        ({"iat": In(100), "exp": In(400)}, "not yet valid"),
        ({"nbf": In(100)}, "not yet valid"),
        ({"exp": In(901)}, "901 s"),
        ({"iat": In(-5_000), "exp": In(300)}, "5300 s"),
        ({"iat": 0}, "900 s are taken"),
        ({"iat": In(20), "exp": In(10)}, "lives -10 s"),
        ({"aud": "somebody-else"}, "aud"),
        ({"aud": ["support-agent", "somebody-else"]}, "aud"),
        ({"aud": ["support-agent"]}, "aud"),
        ({"aud": {"support-agent": 1}}, "aud"),
        ({"aud": ""}, "aud"),
        ({"sub": 1}, "ubject"),
        ({"sub": ["C001"]}, "ubject"),
        ({"sub": ""}, "sub"),
        ({"sub": "a" * 201}, "sub"),
        ({"sub": "C001\0"}, "sub"),
        ({"sub": "C001\n"}, "sub"),
        ({"sub": "C001\u202e"}, "sub"),
        ({"sub": "C\ud800"}, "sub"),
        ({"sub": "C\u200b001"}, "sub"),
    ],
)
def test_what_it_says_has_to_make_sense(claims, says):
    assert says in refusal(signed({**GOOD, **claims}))


def test_a_little_is_allowed_for_clocks_that_differ():
    TOKENS.bearer_of(signed({**GOOD, "iat": In(20), "exp": In(300)}))
    TOKENS.bearer_of(signed({**GOOD, "iat": In(-300), "exp": In(-20)}))


@pytest.mark.parametrize(
    "token",
    [
        *("", ".", "..", "...", "a.b.c", "x" * 9_000, "é.é.é", "a.b", " ", "null"),
        f"{encoded(b'[]')}.{encoded({})}.{encoded(b'x')}",
        f"{encoded(b'{')}.{encoded({})}.{encoded(b'x')}",
        f"{encoded(b'[' * 3_000)}.{encoded({})}.{encoded(b'x')}",
        f"{encoded(NESTED)}.{encoded({})}.{encoded(b'x')}",
    ],
    ids=lambda token: token[:12],
)
def test_what_is_no_token_is_refused(token):
    refusal(token)


@pytest.mark.parametrize(
    "claims",
    [
        b"[]",
        b"7",
        b"\xff",
        b"[" * 4_000,
        b'{"iat": ' + b"9" * 4_900 + b"}",
        {**GOOD, "more": ["x" * 50] * 150},
    ],
    ids=lambda claims: str(claims)[:12],
)
def test_claims_that_are_a_bomb_are_refused(claims):
    refusal(signed(claims))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "id:secret"),
        ("shop", "id:secret"),
        (f":{SECRET}", "id:secret"),
        ("shop:short", "32 bytes"),
        (f"shop:{SECRET[:20]},{SECRET[20:]}", "comma"),
        (f"shop:{SECRET},shop:{OTHER}", "twice"),
        (f"shop:{SECRET},", "id:secret"),
    ],
)
def test_secrets_that_are_malformed_are_told_without_them(text, says):
    with pytest.raises(ConfigurationError) as refused:
        parse_secrets(text)

    assert says in str(refused.value)
    assert SECRET[:20] not in str(refused.value)


def test_the_kit_signs_as_a_backend_would():
    assert TOKENS.bearer_of(customer_token("C002")).customer_id == "C002"


def test_the_page_for_integrators_shows_how_it_is_done():
    page = (Path(__file__).parents[2] / "docs" / "api-access.md").read_text(encoding="utf-8")
    shown = page.split("```python\n")[1].split("```")[0]
    there: dict[str, Any] = {"SECRET": SECRET}

    exec(shown, there)  # noqa: S102 - our own page

    assert TOKENS.bearer_of(there["customer_token"]("khách-1")).customer_id == "khách-1"
