"""The refund window: civil days in the policy's zone from a delivery on, counted only here."""

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from support_agent.domain.errors import InvalidInput
from support_agent.domain.orders import Moment
from support_agent.domain.policy import Policy

# Two clocks differ a little; a delivery further ahead than this is wrong data.
CLOCK_TOLERANCE = timedelta(minutes=10)


def last_day(delivered: Moment, policy: Policy) -> date | None:
    """The last civil day on which a refund may be asked for; None when the policy has no window."""
    if policy.window_days is None:
        return None
    return _local_date(delivered, policy) + timedelta(days=policy.window_days)


def days_since(delivered: Moment, policy: Policy, now: datetime) -> int | None:
    """Civil days from delivery to now in the policy's zone; None when it lies in the future."""
    today = _local_date(now, policy)
    if isinstance(delivered, datetime):
        ahead = aware("delivered_at", delivered) > now + CLOCK_TOLERANCE
    else:
        ahead = delivered > today
    return None if ahead else max(0, (today - _local_date(delivered, policy)).days)


def aware(field: str, moment: datetime) -> datetime:
    """The moment as it is.

    Raises:
        InvalidInput: it has no zone, and would be read in that of whichever machine this runs on.
    """
    if moment.utcoffset() is None:
        raise InvalidInput(field, f"has no time zone: {moment.isoformat()}")
    return moment


def _local_date(moment: Moment, policy: Policy) -> date:
    # A datetime is a date too, in Python: the instant has to be asked for first.
    if isinstance(moment, datetime):
        return aware("moment", moment).astimezone(ZoneInfo(policy.time_zone)).date()
    return moment
