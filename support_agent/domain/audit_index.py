"""The audit index: where the newest event about each thing is, under one root that events sign.

A tree of digests over buckets of entries. Whoever shows an entry with the digests beside its path
proves that it is the newest, and an empty place proves that there is none, without the chain.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from support_agent.domain.audit import START, UNPROVED, AuditHead, AuditRow, holds
from support_agent.domain.signing import KeyRing, canonical

LEVELS = 4
_BITS = 4
BRANCHES = 1 << _BITS
NOTHING = ""  # the digest of an empty bucket, and of a node that has nothing below it
_EMPTY = (NOTHING,) * BRANCHES

Thing = tuple[str, str]  # topic, subject
Position = tuple[int, int]  # level from the root, number within it
Children = tuple[str, ...]  # a digest per branch


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The newest event about a thing; `bucket` is where the tree has it."""

    bucket: int
    topic: str
    subject: str
    seq: int


@lru_cache(maxsize=512)
def bucket_of(topic: str, subject: str) -> int:
    """Spread by a hash, so that buckets stay of one size whatever ids look like."""
    digest = hashlib.sha256(canonical(("audit/thing", topic, subject))).digest()
    return int.from_bytes(digest, "big") % (1 << _BITS * LEVELS)


def entry_of(topic: str, subject: str, seq: int) -> Entry:
    """The entry of a thing, in its bucket."""
    return Entry(bucket=bucket_of(topic, subject), topic=topic, subject=subject, seq=seq)


@lru_cache(maxsize=512)
def path_of(bucket: int) -> tuple[Position, ...]:
    """The nodes above a bucket, the root first."""
    return tuple((level, bucket >> _BITS * (LEVELS - level)) for level in range(LEVELS))


class AuditIndex:
    """The whole index, or of it some buckets with the nodes above them."""

    def __init__(
        self,
        *,
        entries: Iterable[Entry] = (),
        nodes: Mapping[Position, Children] | None = None,
    ) -> None:
        self._buckets: dict[int, dict[Thing, int]] = {}
        self._nodes = {position: list(children) for position, children in (nodes or {}).items()}
        self._stale: set[int] = set()
        for entry in entries:
            things = self._buckets.setdefault(entry.bucket, {})
            things[entry.topic, entry.subject] = entry.seq

    def newest(self, topic: str, subject: str) -> int | None:
        """The `seq` of the newest event about a thing; None when there is no such event."""
        return self._buckets.get(bucket_of(topic, subject), {}).get((topic, subject))

    def proves(self, root: str, bucket: int) -> bool:
        """Whether `root` stands for exactly what is here of a bucket and of the nodes above it."""
        digest = self._bucket_digest(bucket)
        below = bucket
        for position in reversed(path_of(bucket)):
            if self._children(position)[below % BRANCHES] != digest:
                return False
            digest, below = self._digest(position), position[1]
        return digest == root

    def put(self, topic: str, subject: str, seq: int) -> None:
        """A newer event about a thing."""
        bucket = bucket_of(topic, subject)
        self._buckets.setdefault(bucket, {})[topic, subject] = seq
        self._stale.add(bucket)

    def root(self) -> str:
        """What an event signs: it stands for every entry, and for the absence of all others."""
        changed = {bucket: self._bucket_digest(bucket) for bucket in self._stale}
        for level in reversed(range(LEVELS)):
            above = set()
            for below, digest in changed.items():
                position = (level, below // BRANCHES)
                children = self._nodes.setdefault(position, [*_EMPTY])
                children[below % BRANCHES] = digest
                above.add(position)
            changed = {position[1]: self._digest(position) for position in above}
        self._stale.clear()
        return self._digest((0, 0))

    def entries(self) -> Iterator[Entry]:
        """Every entry that is here."""
        for bucket, things in self._buckets.items():
            for (topic, subject), seq in things.items():
                yield Entry(bucket=bucket, topic=topic, subject=subject, seq=seq)

    def nodes(self) -> Iterator[tuple[Position, Children]]:
        """Every node that is here, as `root` left it."""
        return ((position, tuple(children)) for position, children in self._nodes.items())

    def _children(self, position: Position) -> Sequence[str]:
        return self._nodes.get(position, _EMPTY)

    def _bucket_digest(self, bucket: int) -> str:
        things = self._buckets.get(bucket)
        if not things:
            return NOTHING
        listed = ((*thing, str(seq)) for thing, seq in sorted(things.items()))
        return _digest("audit/bucket", str(bucket), *chain.from_iterable(listed))

    def _digest(self, position: Position) -> str:
        level, number = position
        children = self._children(position)
        if level and not any(children):
            return NOTHING
        return _digest("audit/node", str(level), str(number), *children)


@lru_cache(maxsize=512)
def _digest(*fields: str) -> str:
    """Remembered: of a path that is proved again, most is as it was."""
    return hashlib.sha256(canonical(fields)).hexdigest()


EMPTY_ROOT = AuditIndex().root()  # of a history that speaks of nothing yet


def proved_root(keys: KeyRing, head: AuditHead, newest: AuditRow | None) -> str | None:
    """The root that the newest event vouches for: UNPROVED when it is not ours or not the newest.

    None where the history is older than its index.
    """
    if newest is None:
        return EMPTY_ROOT if head == START else UNPROVED
    if (newest.seq, newest.mac) != (head.seq, head.mac) or not holds(keys, newest):
        return UNPROVED
    return newest.root
