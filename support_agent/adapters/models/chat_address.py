"""Where a model server is and with which key, checked before anything is sent."""

from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from support_agent.domain.addresses import is_loopback
from support_agent.domain.errors import ConfigurationError

NAME_SETTING = "SUPPORT_AGENT_MODEL__NAME"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """Where a vendor's own server is, and the settings that name another one and its key."""

    base_url: str
    key_setting: str
    url_setting: str


OPENAI = Vendor(
    base_url="https://api.openai.com/v1",
    key_setting="OPENAI_API_KEY",
    url_setting="OPENAI_BASE_URL",
)
KEY_SETTING = OPENAI.key_setting
URL_SETTING = OPENAI.url_setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAddress:
    """A server that customer messages and the key may be sent to."""

    base_url: str
    api_key: str = field(repr=False)
    is_loopback: bool
    is_openai: bool


def chat_address(
    base_url: str | None, api_key: str | None, *, vendor: Vendor = OPENAI
) -> ChatAddress:
    """Check both.

    Raises:
        ConfigurationError: a malformed URL, plain http to another machine, a missing or
            unusable key. Servers on this machine need no key.
    """
    url = base_url or vendor.base_url
    parts = _parts(url, vendor)
    host = parts.hostname or ""
    at_home = is_loopback(host)
    if parts.scheme == "http" and not at_home:
        raise ConfigurationError(
            "plain http would send the key and what customers write in the clear; "
            f"use https, or a server on this machine, not {url!r}",
            setting=vendor.url_setting,
        )
    return ChatAddress(
        base_url=url,
        api_key=_key(api_key, vendor, needed=not at_home),
        is_loopback=at_home,
        is_openai=host == "openai.com" or host.endswith((".openai.com", ".openai.azure.com")),
    )


def _parts(url: str, vendor: Vendor) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # reading it is what checks it
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname or not url.isprintable():
        # The value is not repeated: what is no URL may be a key in the wrong place.
        raise ConfigurationError("is not an http(s) URL", setting=vendor.url_setting)
    if parts.username is not None or parts.query or parts.fragment:
        raise ConfigurationError("must not hold credentials, ? or #", setting=vendor.url_setting)
    return parts


def _key(api_key: str | None, vendor: Vendor, *, needed: bool) -> str:
    key = (api_key or "").strip()
    if not key and needed:
        raise ConfigurationError(
            "is missing; the model server needs a key", setting=vendor.key_setting
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ConfigurationError("holds characters that no key has", setting=vendor.key_setting)
    return key or "none"
