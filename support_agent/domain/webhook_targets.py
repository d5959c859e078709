"""Where events may be sent: addresses are read strictly, and private networks are out of bounds."""

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from support_agent.domain.errors import InvalidInput

LONGEST = 2_048
FIELD = "url"
SETTING = "SUPPORT_AGENT_WEBHOOKS__PRIVATE_TARGETS"
IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_PORTS = {"https": 443, "http": 80}
_FIRST_FREE_PORT = 1_024  # below it are mail, shells and the like
_ALLOWED = re.compile(r"[!$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]+")  # RFC 3986, without a fragment
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")  # a last label that some programs read as an address
_PORT = re.compile(r"[1-9][0-9]{0,4}")

# What `is_global` of the standard library calls global, or did in some version, and is not for us:
# it holds another address, or answers for the machine itself.
_REFUSED = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8",
            "100.64.0.0/10",  # shared between customers of a provider
            "168.63.129.16/32",  # a cloud's own, for its guests
            "192.0.0.0/24",
            "192.88.99.0/24",  # 6to4 relays
            "198.18.0.0/15",
            "240.0.0.0/4",
            "::/96",  # IPv4 in IPv6, the oldest form
            "::ffff:0:0/96",  # IPv4-mapped
            "::ffff:0:0:0/96",
            "64:ff9b::/96",  # NAT64
            "64:ff9b:1::/48",
            "100::/64",
            "2001::/23",  # Teredo and other protocols
            "2002::/16",  # 6to4
            "3fff::/20",
            "5f00::/16",
            "fec0::/10",  # site-local
        ),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An address taken apart; `path` has the query with it."""

    scheme: str
    host: str  # in small letters; an IPv6 address without its brackets
    port: int
    path: str
    is_private: bool  # listed as one that may be

    @property
    def authority(self) -> str:
        """As the Host header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def parse_target(url: str, *, private_hosts: frozenset[str] = frozenset()) -> Target:
    """An address that events may be sent to, as far as can be told without asking for its host.

    Anything that two programs could read differently is refused.

    Raises:
        InvalidInput: with what is wrong, and without the address: it may hold a secret.
    """
    if not 1 <= len(url) <= LONGEST:
        raise InvalidInput(FIELD, f"is not 1 to {LONGEST} characters long")
    if "#" in url:
        raise InvalidInput(FIELD, "has a fragment (#…), which is never sent; leave it out")
    if not url.isascii():
        raise InvalidInput(FIELD, "is not ASCII; write the host as xn--…, the path with %-escapes")
    if not _ALLOWED.fullmatch(url):
        raise InvalidInput(FIELD, "has characters that no URL has")
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() not in _PORTS:
        raise InvalidInput(FIELD, "does not begin with https://")
    scheme = scheme.lower()
    authority = re.split(r"[/?]", rest, maxsplit=1)[0]
    if "@" in authority:
        raise InvalidInput(FIELD, "has a user or password; the signature is what proves us")
    host, port = _host_and_port(authority, scheme)
    is_private = host in private_hosts
    if scheme != "https" and not is_private:
        raise InvalidInput(
            FIELD, f"is not https://; http:// is only for what {SETTING} names as private"
        )
    if not is_private and port != _PORTS[scheme] and port < _FIRST_FREE_PORT:
        raise InvalidInput(FIELD, f"has a port that is not 443 or from {_FIRST_FREE_PORT} up")
    address = _address(host)
    if address is not None and not is_private and not is_public(address):
        raise InvalidInput(FIELD, not_public(host))
    parts = urlsplit(f"//x{rest[len(authority) :]}")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(scheme=scheme, host=host, port=port, path=path, is_private=is_private)


def is_public(address: IpAddress) -> bool:
    """Whether it is an address of the open internet, and of nothing that leads back inside."""
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not any(
            address.version == network.version and address in network for network in _REFUSED
        )
    )


def not_public(host: str) -> str:
    """Why such a host is refused."""
    where = "leads to a private, local or reserved address"
    return f"{where}; if that is meant, name {host!r} in {SETTING}"


def _host_and_port(authority: str, scheme: str) -> tuple[str, int]:
    host, port = authority.lower(), ""
    if host.startswith("["):
        host, closed, after = host[1:].partition("]")
        if not closed or (after and not after.startswith(":")):
            raise InvalidInput(FIELD, "has no host that can be read")
        port, has_port = after[1:], bool(after)
        host = _ipv6(host)
    else:
        host, colon, port = host.partition(":")
        has_port = bool(colon)
        _check_name(host)
    if not has_port:
        return host, _PORTS[scheme]
    if not _PORT.fullmatch(port) or int(port) > 65_535:
        raise InvalidInput(FIELD, "has a port that is none")
    return host, int(port)


def _ipv6(text: str) -> str:
    try:
        return ipaddress.IPv6Address(text if "%" not in text else "").compressed
    except ValueError as error:
        raise InvalidInput(FIELD, "has no IPv6 address in its brackets") from error


def _check_name(host: str) -> None:
    """A DNS name or a plain IPv4 address; 0x7f.1, 2130706433 and 127.1 are neither."""
    labels = host.split(".")
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise InvalidInput(FIELD, "has no host that can be read; write it without a dot at its end")
    if _NUMBER.fullmatch(labels[-1]) and _address(host) is None:
        raise InvalidInput(FIELD, "has a number as its host; write the name or all four parts")


def _address(host: str) -> IpAddress | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
