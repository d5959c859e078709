"""The refund endpoint's answers are believed because of TLS, however its address is written."""

import httpx2
import pytest

from support_agent.adapters.payments.http import HttpGateway
from support_agent.domain.errors import PaymentOutcomeUnknown
from support_agent.ports.payments import PaymentRef
from support_agent.settings.endpoints import is_endpoint
from tests.refund_kit import ACCOUNT, SECRET

PAYMENT = PaymentRef(gateway="http", account=ACCOUNT, gateway_payment_id="PAY-1")


@pytest.mark.parametrize(
    ("scheme", "verified"), [("https", True), ("HTTPS", True), ("Https", True), ("http", False)]
)
async def test_the_certificate_is_verified(scheme, verified, monkeypatch):
    asked = []
    monkeypatch.setattr(httpx2, "create_ssl_context", lambda: asked.append(True) or True)
    url = f"{scheme}://127.0.0.1:1/refunds"
    assert is_endpoint(url)
    gateway = HttpGateway(url=url, account=ACCOUNT, secrets=(SECRET,), livemode=False, timeout_s=5)

    with pytest.raises(PaymentOutcomeUnknown):
        await gateway.payment_state(PAYMENT)
    await gateway.aclose()

    assert bool(asked) is verified
