"""The audit index: one root stands for every entry and for the absence of all others."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support_agent.domain.audit import topic_of
from support_agent.domain.audit_index import (
    BRANCHES,
    EMPTY_ROOT,
    LEVELS,
    AuditIndex,
    Entry,
    bucket_of,
    entry_of,
    path_of,
)

TOPICS = st.sampled_from(["refund", "approver", "policy"])
SUBJECTS = st.one_of(st.text(max_size=8), st.integers(0, 400).map("ref_{}".format))
THINGS = st.dictionaries(st.tuples(TOPICS, SUBJECTS), st.integers(1, 2**62), max_size=60)


def index_of(things) -> AuditIndex:
    index = AuditIndex()
    for (topic, subject), seq in things.items():
        index.put(topic, subject, seq)
    return index


def part_of(index: AuditIndex, *buckets: int) -> AuditIndex:
    """What a database shows of an index: some buckets with the nodes above them."""
    above = {place for bucket in buckets for place in path_of(bucket)}
    return AuditIndex(
        entries=[entry for entry in index.entries() if entry.bucket in buckets],
        nodes={place: children for place, children in index.nodes() if place in above},
    )


@pytest.mark.parametrize(
    ("action", "topic"),
    [
        ("refund.filed", "refund"),
        ("refund.pending_approval", "refund"),
        ("approver.changed", "approver"),
        ("approver.token_set", "approver.token"),
        ("person.accounts", "person"),
        ("policy.activated", "policy"),
        ("policy.proposed", "policy.proposal"),
        ("switch.changed", "switch"),
        ("destination.added", "destination"),
        ("quote.shown", None),
        ("payout.refused", None),
        ("approver.seen", None),
        ("refund", None),
        ("refunds.filed", None),
        ("", None),
    ],
)
def test_what_somebody_has_to_prove_later_is_indexed(action, topic):
    assert topic_of(action) == topic


def test_a_bucket_lies_below_each_node_of_its_path():
    bucket = bucket_of("refund", "ref_1")

    path = path_of(bucket)

    assert [level for level, _ in path] == list(range(LEVELS))
    assert path[0] == (0, 0)
    assert path[-1][1] == bucket // BRANCHES
    assert all(above[1] == below[1] // BRANCHES for above, below in pairwise(path))


@given(THINGS, st.randoms())
def test_the_root_depends_on_the_entries_and_not_on_their_order(things, random):
    shuffled = list(things.items())
    random.shuffle(shuffled)

    assert index_of(dict(shuffled)).root() == index_of(things).root()


@given(THINGS, THINGS)
def test_two_histories_have_two_roots(one, other):
    assert (index_of(one).root() == index_of(other).root()) == (one == other)


def test_no_history_has_a_root_as_well():
    assert AuditIndex().root() == EMPTY_ROOT != ""


@given(THINGS, st.tuples(TOPICS, SUBJECTS))
def test_a_part_proves_what_it_holds_and_what_is_absent(things, thing):
    index = index_of(things)
    root, bucket = index.root(), bucket_of(*thing)

    part = part_of(index, bucket)

    assert part.proves(root, bucket)
    assert part.newest(*thing) == things.get(thing)


@given(THINGS, THINGS)
def test_a_part_that_goes_on_has_the_root_of_the_whole(before, newer):
    index = index_of(before)
    index.root()
    part = part_of(index, *(bucket_of(*thing) for thing in newer))
    for (topic, subject), seq in newer.items():
        part.put(topic, subject, seq)

    if newer:
        assert part.root() == index_of(before | newer).root()


@given(THINGS.filter(bool), st.data())
def test_any_other_entry_proves_nothing(things, data):
    thing = data.draw(st.sampled_from(sorted(things)))
    other = data.draw(
        st.one_of(
            st.just(None),
            st.integers(1, 2**62).filter(lambda seq: seq != things[thing]),
        )
    )
    index = index_of(things)
    root, bucket = index.root(), bucket_of(*thing)
    changed = {**things} | ({} if other is None else {thing: other})
    if other is None:
        del changed[thing]
    entries = [entry_of(*key, seq) for key, seq in changed.items()]

    part = AuditIndex(entries=entries, nodes=dict(index.nodes()))

    assert not part.proves(root, bucket)


@given(THINGS.filter(bool), st.integers(0, LEVELS - 1), st.integers(0, BRANCHES - 1))
def test_any_other_digest_on_the_path_proves_nothing(things, level, branch):
    index = index_of(things)
    root, bucket = index.root(), bucket_of(*next(iter(things)))
    nodes = dict(index.nodes())
    place = path_of(bucket)[level]
    children = [*nodes[place]]
    children[branch] = "0" * 64

    part = AuditIndex(entries=index.entries(), nodes=nodes | {place: tuple(children)})

    assert not part.proves(root, bucket)


def test_the_same_entries_in_another_bucket_prove_nothing():
    index = index_of({("refund", "a"): 1})
    moved = [Entry(bucket=7, topic="refund", subject="a", seq=1)]

    assert not AuditIndex(entries=moved, nodes=dict(index.nodes())).proves(index.root(), 7)
