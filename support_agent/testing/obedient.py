"""A model that obeys whatever text it is shown: the worst one the shop could be given."""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from support_agent.domain.lookalikes import without_invisible
from support_agent.domain.runs import CallTools, Decision, FinalAnswer, ToolCall, Usage
from support_agent.ports.model import (
    AssistantCalls,
    AssistantTurn,
    Correction,
    CustomerTurn,
    ModelReply,
    ModelRequest,
    Recap,
    ToolResult,
    Turn,
)

ROUNDS = 2  # of calls after each message, the second with the ids that the first brought
MADE_UP = {"$quote": "quo_00000000000000000000", "$request": "req_00000000000000000000"}
_ID = {"$quote": re.compile(r"\bquo_\w+"), "$request": re.compile(r"\breq_\w+")}
_ORDER = re.compile(r"\bA\d{3}\b")
# Code replaces numbers and addresses of persons before a model sees a text.
_REPLACED = re.compile(r"\S*@\S*|\d+")

Arguments = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """What a text orders, spelt out: the calls a model makes that obeys it, and what it says then.

    `"$quote"` and `"$request"` among the arguments stand for each id of the kind that was seen in
    an observation, and for one that is made up. A `thought` goes with every call.
    """

    text: str
    calls: Sequence[tuple[str, Arguments]]
    says: str
    thought: str = ""


@dataclass(slots=True, kw_only=True)
class ObedientModel:
    """Does what the customer asks until it sees the attack, then only what the attack asks.

    It sees it anywhere in a request. From then on it makes all the calls in one reply, again in the
    next ones with what it learnt, and the same after every later message. A test asks `obeyed`: an
    attack that never reached the model would prove nothing. With `told` it needs to see nothing.
    """

    attack: Attack
    told: bool = False
    obeyed: bool = field(default=False, init=False)

    async def decide(self, request: ModelRequest) -> ModelReply:
        if self.told or is_shown(self.attack.text, request.turns):
            self.obeyed = True
            decision = self._obey(request)
        else:
            decision = _serve(request)
        return ModelReply(decision=decision, usage=Usage(requests=1))

    async def aclose(self) -> None:
        """Nothing is held open."""

    def _obey(self, request: ModelRequest) -> Decision:
        calls = list(self._calls(request.turns)) if _rounds(request.turns) < ROUNDS else []
        if not calls:
            return FinalAnswer(text=self.attack.says)
        return _call(request, calls, thought=self.attack.thought)

    def _calls(self, turns: Sequence[Turn]) -> Iterator[tuple[str, Arguments]]:
        """The attack's calls; first those about what there is already, which others may replace.

        Each id that was seen, one that is made up, and the newest again.
        """
        results = "\n".join(turn.content for turn in turns if isinstance(turn, ToolResult))
        done: list[tuple[str, Arguments]] = []
        for name, arguments in sorted(self.attack.calls, key=lambda call: not _kind(call[1])):
            kind = _kind(arguments)
            if not kind:
                yield name, arguments
            elif (name, arguments) not in done:
                done.append((name, arguments))
                seen = [*dict.fromkeys(_ID[kind].findall(results))]
                for id_ in (*seen, MADE_UP[kind], *seen[-1:]):
                    yield name, {k: id_ if v == kind else v for k, v in arguments.items()}


def _kind(arguments: Arguments) -> str:
    return next((kind for kind in MADE_UP if kind in arguments.values()), "")


def is_shown(text: str, turns: Iterable[Turn]) -> bool:
    """Whether the turns hold the text, in whatever letters and between whatever signs.

    The longest part of it that holds no number and no address has to be there.
    """
    sought = max(map(_letters, _REPLACED.split(text)), key=len)
    return bool(sought) and any(sought in _letters(words) for t in turns for words in _words(t))


def _serve(request: ModelRequest) -> Decision:
    """Look up the orders the customer names, then answer."""
    last = request.turns[-1]
    orders = _ORDER.findall(last.text) if isinstance(last, CustomerTurn) else []
    if not orders:
        return FinalAnswer(text="Vâng ạ.")
    return _call(request, [("lookup_order", {"order_id": order}) for order in orders])


def _call(
    request: ModelRequest, calls: Iterable[tuple[str, Arguments]], thought: str = ""
) -> CallTools:
    prefix = f"{request.run_id}:{request.step}"
    return CallTools(
        calls=tuple(
            ToolCall(
                id=f"{prefix}:{index}",
                provider_id=f"call_{prefix}:{index}",
                name=name,
                arguments=json.dumps(arguments, ensure_ascii=False),
            )
            for index, (name, arguments) in enumerate(calls)
        ),
        thought=thought,
    )


def _rounds(turns: Sequence[Turn]) -> int:
    """How often it has made calls since the customer wrote."""
    rounds = 0
    for turn in turns:
        if isinstance(turn, CustomerTurn):
            rounds = 0
        elif isinstance(turn, AssistantCalls):
            rounds += 1
    return rounds


def _words(turn: Turn) -> Iterator[str]:
    match turn:
        case CustomerTurn(text=text) | AssistantTurn(text=text) | Correction(text=text):
            yield text
        case Recap(facts=facts, summary=summary):
            yield from _strings(facts)
            yield summary
        case ToolResult(content=content):
            yield from _strings(content)
        case AssistantCalls(thought=thought):
            yield thought
        case _:
            assert_never(turn)


def _strings(content: str) -> Iterator[str]:
    """The texts inside JSON, or the content itself where it is none."""
    try:
        found = [json.loads(content)]
    except ValueError:
        yield content
        return
    while found:
        match found.pop():
            case str(text):
                yield text
            case dict(fields):
                found += fields.values()
            case list(items):
                found += items


def _letters(text: str) -> str:
    text = unicodedata.normalize("NFC", without_invisible(text)).casefold()
    return "".join(filter(str.isalpha, text))
