"""Where events may be sent: what is read, and what is refused whoever reads it."""

import ipaddress

import pytest

from support_agent.domain.errors import InvalidInput
from support_agent.domain.webhook_targets import is_public, parse_target

PUBLIC = [
    "93.184.216.34",
    "8.8.8.8",
    "172.32.0.1",
    "192.169.0.1",
    "100.128.0.1",
    "2606:2800:220:1:248:1893:25c8:1946",
    "2400:cb00::1",
]
NOT_PUBLIC = [
    *("127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1"),  # noqa: S104 - refused
    *("172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200"),
    *("192.0.0.192", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1"),
    *("239.255.255.250", "240.0.0.1", "255.255.255.255", "168.63.129.16", "192.88.99.1"),
    *("::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:0:8.8.8.8"),
    *("fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "64:ff9b::7f00:1"),
    *("64:ff9b::808:808", "64:ff9b:1::1", "2002:7f00:1::", "2001::1", "2001:db8::1", "100::1"),
    *("3fff::1", "5f00::1"),
]


@pytest.mark.parametrize("text", PUBLIC)
def test_addresses_of_the_open_internet(text: str):
    assert is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_addresses_that_are_not(text: str):
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize(
    ("url", "host", "port", "path", "authority"),
    [
        ("https://shop.vn", "shop.vn", 443, "/", "shop.vn"),
        ("https://Shop.VN:443/a", "shop.vn", 443, "/a", "shop.vn"),
        ("HTTPS://shop.vn:8443/a/b?c=1&d=%20", "shop.vn", 8443, "/a/b?c=1&d=%20", "shop.vn:8443"),
        ("https://shop.vn?c", "shop.vn", 443, "/?c", "shop.vn"),
        ("https://xn--ca-1ua.vn/", "xn--ca-1ua.vn", 443, "/", "xn--ca-1ua.vn"),
        ("https://shop.vn/@a:b", "shop.vn", 443, "/@a:b", "shop.vn"),
        ("https://shop.vn//a", "shop.vn", 443, "//a", "shop.vn"),
        ("https://8.8.8.8/", "8.8.8.8", 443, "/", "8.8.8.8"),
        ("https://[2400:CB00:0::1]:8443/", "2400:cb00::1", 8443, "/", "[2400:cb00::1]:8443"),
    ],
)
def test_an_address_is_taken_apart(url: str, host: str, port: int, path: str, authority: str):
    target = parse_target(url)

    assert (target.scheme, target.host, target.port, target.path) == ("https", host, port, path)
    assert target.authority == authority
    assert not target.is_private


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "characters long"),
        ("https://shop.vn/" + "a" * 2_100, "characters long"),
        ("shop.vn/a", "https://"),
        ("//shop.vn/a", "https://"),
        ("ftp://shop.vn/a", "https://"),
        ("javascript:alert(1)", "https://"),
        ("file:///etc/passwd", "https://"),
        ("http://shop.vn/a", "is not https"),
        ("http://8.8.8.8/a", "is not https"),
        ("https:shop.vn", "https://"),
        ("https:///shop.vn", "host"),
        ("https://", "host"),
        ("https://user@shop.vn/", "user or password"),
        ("https://user:secret@shop.vn/", "user or password"),
        ("https://8.8.8.8@127.0.0.1/", "user or password"),
        ("https://shop.vn/#part", "fragment"),
        ("https://127.0.0.1#@shop.vn/", "fragment"),
        ("https://127.0.0.1\\@shop.vn/", "characters"),
        ("https://shop.vn\\.evil.vn/", "characters"),
        ("https://shop.vn/a b", "characters"),
        ("https://shop.vn/a\r\nX: y", "characters"),
        ("https://shop.vn/\0", "characters"),
        ("https://shop\t.vn/", "characters"),
        ("https://cửahàng.vn/", "ASCII"),
        ("https://①②⑦.⓪.⓪.①/", "ASCII"),
        ("https://127。0。0。1/", "ASCII"),
        ("https://shop.vn./", "host"),
        ("https://.shop.vn/", "host"),
        ("https://shop..vn/", "host"),
        ("https://-shop.vn/", "host"),
        ("https://shop.vn%2eevil.vn/", "host"),
        ("https://%31%32%37.0.0.1/", "host"),
        ("https://" + "a" * 64 + ".vn/", "host"),
        ("https://" + "a." * 127 + "vn/", "host"),
        ("https://127.0.0.1/", "private"),
        ("https://127.0.0.1./", "host"),
        ("https://127.1/", "number"),
        ("https://2130706433/", "number"),
        ("https://0x7f000001/", "number"),
        ("https://0x7f.1/", "number"),
        ("https://0x7f.0.0.0x1/", "number"),
        ("https://0177.0.0.1/", "number"),
        ("https://127.0.0.01/", "number"),
        ("https://1.2.3.4.5/", "number"),
        ("https://999.1.1.1/", "number"),
        ("https://shop.0x/", "number"),
        ("https://169.254.169.254/latest/meta-data/", "private"),
        ("https://[::1]/", "private"),
        ("https://[::ffff:127.0.0.1]/", "private"),
        ("https://[0:0:0:0:0:ffff:7f00:1]/", "private"),
        ("https://[64:ff9b::7f00:1]/", "private"),
        ("https://[fe80::1%25eth0]/", "IPv6"),
        ("https://[127.0.0.1]/", "IPv6"),
        ("https://[]/", "IPv6"),
        ("https://[::1/", "host"),
        ("https://[2400:cb00::1]x/", "host"),
        ("https://2400:cb00::1/", "number"),
        ("https://shop.vn:/", "port"),
        ("https://shop.vn:0/", "port"),
        ("https://shop.vn:+443/", "port"),
        ("https://shop.vn:0443/", "port"),
        ("https://shop.vn:65536/", "port"),
        ("https://shop.vn:443:443/", "port"),
        ("https://shop.vn:22/", "1024"),
        ("https://shop.vn:25/", "1024"),
    ],
)
def test_what_is_no_address_for_events_is_refused(url: str, why: str):
    with pytest.raises(InvalidInput) as refused:
        parse_target(url)

    assert why in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1:99/a", "https://127.0.0.1/", "http://10.0.0.5/"])
def test_a_host_that_is_listed_may_be_private_and_without_tls(url: str):
    target = parse_target(url, private_hosts=frozenset({"127.0.0.1", "10.0.0.5"}))

    assert target.is_private
    with pytest.raises(InvalidInput, match="PRIVATE_TARGETS"):
        parse_target(url, private_hosts=frozenset({"127.0.0.2", "0.0.1"}))


def test_what_is_listed_says_nothing_of_a_host_that_only_looks_like_it():
    with pytest.raises(InvalidInput):
        parse_target("http://backend.evil.vn/", private_hosts=frozenset({"backend", "evil"}))
