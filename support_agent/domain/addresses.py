"""Where an address leads, by what stands in it."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or number; nothing is looked up."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
