"""Groups: what several payments give back together is one offer, one decision, one notice."""

from collections.abc import Iterable
from typing import Protocol, TypeVar


class Member(Protocol):
    """A quote or a request; a refund from a single payment is a group of one."""

    @property
    def group_id(self) -> str: ...


M = TypeVar("M", bound=Member)


def grouped(members: Iterable[M]) -> tuple[tuple[M, ...], ...]:
    """By group, groups and members in the order in which they come."""
    groups: dict[str, list[M]] = {}
    for member in members:
        groups.setdefault(member.group_id, []).append(member)
    return tuple(tuple(group) for group in groups.values())
