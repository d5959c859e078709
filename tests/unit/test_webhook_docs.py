"""The page for integrators: what it names is what there is, and its receiver works."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support_agent.adapters.webhooks.sender import _headers
from support_agent.domain.signing import KeyRing
from support_agent.domain.webhooks import PAUSES_S, EndpointState, EventType, WebhookEndpoint
from support_agent.ports.webhooks import ToEndpoint
from support_agent.services.webhook_secrets import secret_text, secrets_of

PAGE = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text()
SECONDS = {"second": 1, "minute": 60, "hour": 3_600}


def test_every_event_is_on_the_page():
    named = re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \|", PAGE, re.MULTILINE)

    assert named == list(EventType)


def test_the_pauses_on_the_page_are_those_that_are_kept():
    (line,) = re.findall(r"^5 seconds,.*$", PAGE, re.MULTILINE)
    told = [
        int(many) * SECONDS[unit] for many, unit in re.findall(r"(\d+) (second|minute|hour)", line)
    ]

    assert told == list(PAUSES_S[1:])


@pytest.fixture
def receive():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)  # noqa: S102 - our own page
    return names["receive"]


def test_the_receiver_on_the_page_takes_what_we_send_once_and_nothing_else(receive, capsys):
    keys = KeyRing(keys=(("k1", b"a secret of thirty-two characters"),))
    endpoint = WebhookEndpoint(
        id="whe_1",
        url="https://shop.vn/",
        events=(EventType.RUN_COMPLETED,),
        state=EndpointState.ENABLED,
        key_id="k1",
        created_at=datetime.now(UTC),
        created_by="host",
    )
    (example,) = re.findall(r"```json\n(.*)\n```", PAGE)
    sent = ToEndpoint(
        url=endpoint.url,
        id="evt_1",
        at=datetime.now(UTC),
        body=example,
        secrets=secrets_of(endpoint, keys),
    )
    headers = {name.decode(): value.decode() for name, value in _headers(sent)}
    secret, seen = secret_text(endpoint, keys), set[str]()
    body = example.encode()

    assert receive(body, headers, secret=secret, seen=seen) == 204
    assert receive(body, headers, secret=secret, seen=seen) == 204
    assert capsys.readouterr().out.count("approval.requested") == 1
    assert receive(body + b" ", headers, secret=secret, seen=set()) == 400
