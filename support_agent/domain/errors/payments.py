"""What a payment gateway said, or did not say."""

from support_agent.domain.errors.root import SupportAgentError


class PaymentError(SupportAgentError):
    code = "PAYMENT_ERROR"


class PaymentDeclined(PaymentError):
    """Positive evidence that the gateway did not execute the refund."""

    code = "PAYMENT_DECLINED"


class GatewayBusy(PaymentError):
    """Nothing was executed yet; the same key may be sent again later."""

    code = "GATEWAY_BUSY"


class GatewayRefusesUs(PaymentError):
    """Nothing was executed: the gateway does not accept our credentials. An operator must act."""

    code = "GATEWAY_REFUSES_US"


class PaymentOutcomeUnknown(PaymentError):
    """It may have been paid: reconcile by key, never retry blindly, never call it failed."""

    code = "PAYMENT_OUTCOME_UNKNOWN"


class IdempotencyMismatch(PaymentError):
    """The gateway knows this key with other parameters: our bug, a person must look."""

    code = "IDEMPOTENCY_MISMATCH"
