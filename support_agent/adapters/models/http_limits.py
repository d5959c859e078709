"""What every model server's HTTP answer is held to: its length, and when it may be asked again."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2

LONGEST_REPLY = 4 * 1024 * 1024
LONGEST_ERROR = 64 * 1024
_MEDIA_TYPE = re.compile(r"[a-z0-9.+-]{1,40}/[a-z0-9.+-]{1,40}")
# What servers label JSON as, or nothing; any other type is that of another kind of server.
_MAYBE_JSON = re.compile(r"|.*json.*|text/plain|application/octet-stream")
_SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)


async def read_limited(response: "httpx2.Response", limit: int) -> bytes:
    """The body, or a little more than `limit` bytes of it."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > limit:
            break
    return bytes(body)


def media_type(headers: Mapping[str, str]) -> str:
    """Without parameters; foreign text, so only what looks like a media type."""
    found = _MEDIA_TYPE.match(headers.get("content-type", "").strip().lower())
    return found.group() if found else ""


def may_be_json(media_type: str) -> bool:
    """Whether a model server may have labelled its answer so."""
    return _MAYBE_JSON.fullmatch(media_type) is not None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from a number or an HTTP date (RFC 9110, 10.2.3); None when it says neither."""
    value = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    then = _http_date(value)
    if then is None:
        return None
    # Against the server's own clock where it names it: ours may be wrong.
    now = _http_date(headers.get("date", "")) or datetime.now(UTC)
    return max(0.0, (then - now).total_seconds())


def _http_date(value: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):  # a year or an hour of twenty digits
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
