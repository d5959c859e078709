"""Builds the guard of an application from its container."""

from support_agent.api.admission import Admission
from support_agent.api.guarded import Guard
from support_agent.api.idempotency import Idempotency
from support_agent.api.rates import Rate
from support_agent.container import Container

HOUR_S = 3_600
MOST_REFUSED = 30  # wrong keys of one address in a minute; then it is asked to wait
GRACE_S = 30.0  # that a request may take beside what it waits for, before it is thought dead


def guard_of(container: Container) -> Guard:
    """The guard. It counts for this application alone."""
    api = container.settings().api
    return Guard(
        admission=Admission(
            keys=container.api_keys(),
            tokens=container.customer_tokens(),
            of_key=Rate("requests of this key", api.rate_per_minute),
            of_customer=Rate("requests for this customer", api.customer_rate_per_minute),
            refused=Rate("wrong keys from this address", MOST_REFUSED),
        ),
        idempotency=Idempotency(
            database=container.database(),
            kept_s=api.idempotency_hours * HOUR_S,
            lease_s=api.max_wait_seconds + GRACE_S,
        ),
        most_bytes=api.max_body_bytes,
        body_s=api.body_seconds,
    )
