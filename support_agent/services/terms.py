"""How long things stay valid, and what a channel's consent is worth: filled from settings."""

from dataclasses import dataclass
from datetime import timedelta
from zoneinfo import ZoneInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class RefundTerms:
    """Terms of quoting, filing and deciding."""

    quote_valid_for: timedelta
    decide_within: timedelta  # after it a waiting request is escalated, again and again
    request_waits_for: timedelta  # a person has this long; after it the answer is no
    approved_valid_for: timedelta  # an approval that was not paid by then is void
    consent_implied: bool  # the channel asks its customers itself: nothing is automatic then
    gateway_timeout_s: float
    zone: ZoneInfo  # for dates in sentences and for the days of caps
