"""A conversation as turns: append-only, every call with its result, read from the last cut on."""

import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo

from support_agent.domain.conversation import Author, Message
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
    tx: Transaction, conversation_id: str, *, through_seq: int, zone: tzinfo
) -> History:
    """The conversation up to message `through_seq`, from its last cut on."""
    cut = tx.compactions.newest(conversation_id)
    after = cut.through_seq if cut else 0
    found = tx.conversations.messages(conversation_id, after_seq=after)
    messages = [message for message in found if message.seq <= through_seq]
    steps = tx.runs.steps_of_conversation(conversation_id, after_seq=after)
    return history_of(messages, steps, zone, cut=cut)


def history_of(
    messages: Sequence[Message],
    steps: Sequence[RunStep],
    zone: tzinfo,
    *,
    cut: Compaction | None = None,
) -> History:
    """The turns of messages behind a cut, with the runs they started.

    A run's calls stand after the customer message that started it. Numbers that identify people are
    replaced by stable placeholders. Each turn depends only on what came before it, so the turns of
    a later moment start with those of an earlier one.
    """
    by_run: dict[str, list[RunStep]] = {}
    for step in steps:
        by_run.setdefault(step.run_id, []).append(step)
    masker = Masker(cut.masks if cut else None)
    turns: list[Turn] = [] if cut is None or not cut.through_seq else [recap_of(cut)]
    places: list[Place] = []
    for message in messages:
        places.append(
            Place(index=len(turns), seq=message.seq, author=message.author, masked=masker.counts())
        )
        text = masker.mask(unicodedata.normalize("NFC", message.text))
        if message.author is not Author.CUSTOMER:
            turns.append(AssistantTurn(text=text))
            continue
        turns.append(CustomerTurn(text=text, today=message.at.astimezone(zone).date()))
        for step in by_run.get(message.run_id or "", ()):
            turns += step_turns(step)
    return History(
        turns=tuple(turns), places=tuple(places), steps=tuple(steps), cut=cut, masker=masker
    )


def turns_of(messages: Sequence[Message], steps: Sequence[RunStep], zone: tzinfo) -> list[Turn]:
    """A whole conversation as turns."""
    return [*history_of(messages, steps, zone).turns]


def recap_of(cut: Compaction) -> Recap:
    """What stands first in place of everything before the cut."""
    return Recap(facts=compact(cut.facts), summary=cut.summary)


def compact(value: object) -> str:
    """JSON as models are sent it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def step_turns(step: RunStep) -> list[Turn]:
    """A step's calls, each with its result; answers are shown as the message that carried them."""
    if not isinstance(step.decision, CallTools):
        return []
    results = [
        ToolResult(
            call=recorded.call,
            content=recorded.observation.content if recorded.observation else INTERRUPTED,
        )
        for recorded in step.calls
    ]
    calls = AssistantCalls(
        calls=step.decision.calls,
        thought=step.decision.thought,
        provider_state=step.decision.provider_state,
    )
    return [calls, *results]
