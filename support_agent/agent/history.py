"""A conversation as turns: append-only, every call with its result, read from the last cut on."""

import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo

from support_agent.domain.conversation import Author, Message
from support_agent.domain.preferences import Known, told
from support_agent.domain.runs import CallTools, RunStep
from support_agent.domain.text import Masker
from support_agent.ports.model import (
    AssistantCalls,
    AssistantTurn,
    CustomerTurn,
    Recap,
    ToolResult,
    Turn,
)
from support_agent.ports.storage import Compaction, Transaction

INTERRUPTED = "ERROR INTERRUPTED: the call was not answered; nothing is known of its outcome"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a message stands among the turns."""

    index: int
    seq: int
    author: Author
    masked: Mapping[str, int]  # how many placeholders of each kind came before it
    starts_run: bool = False  # the first of the messages that a run read


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What is read of a conversation when a run begins: a recap of all before the last cut first.

    While the run goes on its turns are appended elsewhere; no message is.
    """

    turns: tuple[Turn, ...] = ()
    places: tuple[Place, ...] = ()
    steps: tuple[RunStep, ...] = ()
    cut: Compaction | None = None
    masker: Masker = field(default_factory=Masker)


def read_history(
    tx: Transaction,
    conversation_id: str,
    *,
    through_seq: int,
    zone: tzinfo,
    going_on: str | None = None,
    known: Sequence[Known] = (),
) -> History:
    """The conversation up to message `through_seq`, from its last cut on.

    The last step of the run `going_on` is still open.
    """
    cut = tx.compactions.newest(conversation_id)
    after = cut.through_seq if cut else 0
    found = tx.conversations.messages(conversation_id, after_seq=after)
    messages = [message for message in found if _is_known(message, through_seq)]
    steps = tx.runs.steps_of_conversation(conversation_id, after_seq=after)
    own = [step for step in steps if step.run_id == going_on]
    left_open = own[-1] if own else None
    return history_of(messages, steps, zone, cut=cut, left_open=left_open, known=known)


def history_of(
    messages: Sequence[Message],
    steps: Sequence[RunStep],
    zone: tzinfo,
    *,
    cut: Compaction | None = None,
    left_open: RunStep | None = None,
    known: Sequence[Known] = (),
) -> History:
    """The turns of messages behind a cut, with the runs they started.

    A customer's message stands where a run read it: behind all we said before that run began. What
    the run did stands behind the last message it read. Numbers that identify people are replaced by
    stable placeholders. Each turn depends only on what came before it, so the turns of a later
    moment start with those of an earlier one. Calls of `left_open` that are not answered have no
    result yet. What was known of the customer before stands with their first message; what they
    said since stands where they said it, and in the recap once that is cut off.
    """
    by_run: dict[str, list[RunStep]] = {}
    for step in steps:
        by_run.setdefault(step.run_id, []).append(step)
    masker = Masker(cut.masks if cut else None)
    turns: list[Turn] = [] if cut is None or not cut.through_seq else [recap_of(cut, known)]
    note = "" if turns else told(known, through_seq=0)
    places: list[Place] = []
    written = [message for message in messages if message.author is Author.CUSTOMER]
    last_read = {message.run_id: message.seq for message in written}
    first_read = {message.run_id: message.seq for message in reversed(written)}
    for message in sorted(messages, key=_order_read):
        is_customers = message.author is Author.CUSTOMER
        places.append(
            Place(
                index=len(turns),
                seq=message.seq,
                author=message.author,
                masked=masker.counts(),
                starts_run=is_customers and first_read[message.run_id] == message.seq,
            )
        )
        text = masker.mask(unicodedata.normalize("NFC", message.text))
        if not is_customers:
            turns.append(AssistantTurn(text=text))
            continue
        today = message.at.astimezone(zone).date()
        turns.append(CustomerTurn(text=text, today=today, note=note))
        note = ""
        if message.run_id is None or last_read[message.run_id] != message.seq:
            continue
        for step in by_run.get(message.run_id, ()):
            turns += step_turns(step, still_open=step is left_open)
    return History(
        turns=tuple(turns), places=tuple(places), steps=tuple(steps), cut=cut, masker=masker
    )


def _is_known(message: Message, through_seq: int) -> bool:
    """Whether it was said, or read, when `through_seq` was the newest message."""
    unread = message.author is Author.CUSTOMER and message.run_id is None
    return not unread and _order_read(message)[0] <= through_seq


def _order_read(message: Message) -> tuple[int, bool, int]:
    """A customer's message stands behind all of ours that there were when it was read."""
    written = message.author is Author.CUSTOMER
    read = message.read_seq if written and message.read_seq else message.seq
    return read, written, message.seq


def turns_of(messages: Sequence[Message], steps: Sequence[RunStep], zone: tzinfo) -> list[Turn]:
    """A whole conversation as turns."""
    return [*history_of(messages, steps, zone).turns]


def recap_of(cut: Compaction, known: Sequence[Known] = ()) -> Recap:
    """What stands first in place of everything before the cut."""
    note = told(known, through_seq=cut.through_seq)
    return Recap(facts=compact(cut.facts), summary=cut.summary, note=note)


def compact(value: object) -> str:
    """JSON as models are sent it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def step_turns(step: RunStep, *, still_open: bool = False) -> list[Turn]:
    """A step's calls, each with its result; answers are shown as the message that carried them.

    Of one that is still open, the calls that were not answered yet have none.
    """
    if not isinstance(step.decision, CallTools):
        return []
    results = [
        ToolResult(
            call=recorded.call,
            content=recorded.observation.content if recorded.observation else INTERRUPTED,
        )
        for recorded in step.calls
        if recorded.observation is not None or not still_open
    ]
    calls = AssistantCalls(
        calls=step.decision.calls,
        thought=step.decision.thought,
        provider_state=step.decision.provider_state,
    )
    return [calls, *results]
