"""What a model wrote into its text: a call, words for the customer, or a call that is broken."""

import json
import re
from dataclasses import dataclass, field
from functools import lru_cache

from support_agent.adapters.models.json_replies import (
    Members,
    object_at,
    only,
    without_trailing_commas,
)
from support_agent.adapters.models.reply_values import made_up_id, storable
from support_agent.domain.errors import ModelReplyInvalid
from support_agent.domain.runs import AskCustomer, CallTools, Decision, FinalAnswer, ToolCall

_LONGEST_TEXT = 100_000  # characters; no answer to a customer is longer
_MOST_OBJECTS = 200
_LONGEST_THOUGHT = 1_000

_CALL_TYPES = frozenset({"tool", "tool_call", "tool_use", "function", "function_call", "call"})
_FINAL = frozenset({"final", "final_answer", "answer"})
_ASK = frozenset({"ask", "question", "ask_customer"})
_NAMES = ("tool", "action", "name", "function", "tool_name")
_ARGUMENTS = ("arguments", "args", "input", "parameters", "action_input", "tool_input")
_WORDS = ("answer", "question", "text", "content", "message")
_WRAPPERS = ("tool_calls", "tool_call", "function_call", "calls", "actions")
_BESIDE_A_CALL = frozenset(
    {*_NAMES, *_ARGUMENTS, "type", "id", "index", "thought", "reason", "answer", "question"}
)
_KEYS = "|".join(sorted({"type", *_NAMES, *_ARGUMENTS, *_WORDS, *_WRAPPERS, "thought"}))
_QUOTE = "\\\\?[\"'“”‘’`]?"
_STEP_LIKE = re.compile(rf"\{{\s*{_QUOTE}(?:{_KEYS}){_QUOTE}\s*:", re.IGNORECASE)
# Marks of calls, results and thinking, a model's own or copied from us: no words for a customer.
_MARKS = re.compile(
    r"""<\s*+/?\s*+\|?\s*+(?:tool_?calls?|tools?|tool_use|tool_(?:response|results?)|function(?:_?calls?)?
        |invoke|think|thinking|summary|customer_message)\b
    | <\|\w
    | \[/?TOOL_\w+\]
    | ```\s*+(?:json|tool\w*|function\w*)\b
    | ^[^\S\n]*+(?-i:OBSERVATION)\b
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_SIGNS = ("<", "[", "{", "(", "`", "OBSERVATION", "Action")  # one of them is in each mark
_THINKING = re.compile(r"\s*<(think|thinking)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_END_OF_THINKING = re.compile(r"</(?:think|thinking)>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]{0,40}>|```\w*")
_WORD = re.compile(r"\w")
_BEFORE_A_STEP = re.compile(r"[^`<{\[]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCall:
    """A call as it stands in the text; the arguments are not touched."""

    name: str
    arguments: str
    thought: str = field(default="", compare=False)


Step = WrittenCall | FinalAnswer | AskCustomer


class _Broken(ValueError):
    """Why what looks like a step of the protocol cannot be followed."""


def written_decision(text: str, *, tool_names: frozenset[str], call_prefix: str) -> Decision:
    """The calls in a text, in their order; without any the words for the customer.

    A step is understood in each form that models are taught, wherever in the text it stands: bare,
    in a fence, in tags, in doubled braces, after thinking. Calls stand above an answer in the same
    text, which was written before their results were known; the same call written twice is one.
    Words are an answer only when nothing in them looks like a step that cannot be read.

    Raises:
        ModelReplyInvalid: what looks like a step is broken or ambiguous; nothing is guessed.
    """
    said = _without_thinking(text)
    if not said:
        raise ModelReplyInvalid(
            "the reply ended before an answer or a call: think briefly, then answer or call"
        )
    try:
        return _decision(said, tool_names, call_prefix)
    except (_Broken, RecursionError) as problem:
        why = str(problem) if isinstance(problem, _Broken) else "is nested too deeply"
        raise ModelReplyInvalid(
            f"a call or answer written in the reply {why}. Nothing of it was run or shown: "
            "write it again, whole and alone"
        ) from None


def _without_thinking(text: str) -> str:
    """The end of the text: thinking stands before what is said."""
    thinking = _THINKING.match(text)
    at = 0
    while thinking:
        at = thinking.end()
        thinking = _THINKING.match(text, at)
    # Some chat templates open the block themselves, so that only its end is in the text.
    ends = [end.end() for end in _END_OF_THINKING.finditer(text, at)]
    return text[max([at, *ends]) :].strip()


def _decision(said: str, known: frozenset[str], prefix: str) -> Decision:
    if len(said) > _LONGEST_TEXT:
        raise _Broken("is too long")
    steps = _steps(said, known)
    calls = list(dict.fromkeys(step for step in steps if isinstance(step, WrittenCall)))
    if calls:
        return CallTools(
            calls=tuple(
                ToolCall(
                    id=f"{prefix}:{index}",
                    provider_id=made_up_id(f"{prefix}:{index}"),
                    name=call.name,
                    arguments=call.arguments,
                )
                for index, call in enumerate(calls)
            ),
            thought=calls[0].thought or _before_a_step(said),
        )
    words = [step for step in dict.fromkeys(steps) if not isinstance(step, WrittenCall)]
    if len(words) > 1:
        raise _Broken("stands there twice, in different words")
    if words and _stands_between_words(said):
        # It may be quoted, and what is said around it the opposite.
        raise _Broken("stands between other words")
    if words:
        return words[0]
    _refuse_what_is_no_prose(said, known)
    return FinalAnswer(text=said)


def _stands_between_words(said: str) -> bool:
    """Whether there is prose on both sides of the braces; tags and fences are none."""
    before, after = said[: said.find("{")], said[said.rfind("}") + 1 :]
    return all(_WORD.search(_TAG.sub("", side)) for side in (before, after))


def _before_a_step(said: str) -> str:
    before = _BEFORE_A_STEP.match(said)
    return before.group().strip()[:_LONGEST_THOUGHT] if before else ""


def _steps(text: str, known: frozenset[str]) -> list[Step]:
    """Every step that is written in a text."""
    steps: list[Step] = []
    at = end_of_data = tried = 0
    while (at := text.find("{", at)) >= 0:
        tried += 1
        if tried > _MOST_OBJECTS:
            raise _Broken("holds too many braces")
        read = _object_at(text, at)
        found = _steps_of(read[0], known) if read else None
        if read and found:
            if at < end_of_data:
                raise _Broken("stands inside another JSON object")
            steps += found
            at = read[1]
            continue
        if read:
            end_of_data = max(end_of_data, read[1])
        at += 1
    return steps


def _object_at(text: str, at: int) -> tuple[Members, int] | None:
    """None for what is neither JSON nor looks like a step."""
    try:
        return object_at(text, at)
    except (ValueError, RecursionError) as problem:
        if not _STEP_LIKE.match(text, at):
            return None
        repaired = without_trailing_commas(text, at)
        if repaired is None:
            raise _Broken("never ends: it is cut off, or a bracket or quote is missing") from None
        why = "is nested too deeply" if isinstance(problem, RecursionError) else str(problem)
        try:
            return object_at(repaired[0], 0)[0], repaired[1]
        except (ValueError, RecursionError):
            raise _Broken(why) from None


def _steps_of(members: Members, known: frozenset[str]) -> list[Step] | None:
    """The steps an object of the protocol stands for; None for any other object."""
    try:
        wrapped = only(members, _WRAPPERS)
        if wrapped and wrapped.value and isinstance(wrapped.value, dict | list):
            return _wrapped_steps(wrapped.text, known)
        if "function" in members and isinstance(members["function"].value, dict):
            # The vendor's own form, with the call inside.
            members, _ = object_at(members["function"].text, 0)
        step = _step(members, known)
    except _Broken:
        raise
    except ValueError as problem:
        raise _Broken(str(problem)) from None
    return None if step is None else [step]


def _wrapped_steps(text: str, known: frozenset[str]) -> list[Step]:
    steps = _steps(text, known)
    if not steps:
        raise _Broken("names no tool")
    return steps


def _step(members: Members, known: frozenset[str]) -> Step | None:
    kind = members["type"].value if "type" in members else None
    if isinstance(kind, str) and kind in _FINAL | _ASK:
        return _words(members, kind, known)
    for key, alone in (("answer", "final"), ("question", "ask")):
        if key in members and members.keys() <= {key, "thought"}:
            return _words(members, alone, known)
    if not _is_call(members, kind, known):
        return None
    name = _name(members)
    if name in known or name not in _FINAL | _ASK:
        return _call(members, name)
    arguments = only(members, _ARGUMENTS)
    if arguments is not None and isinstance(arguments.value, dict):
        members, _ = object_at(arguments.text, 0)
    elif arguments is not None:
        members = {"answer": arguments}
    return _words(members, name, known)


def _is_call(members: Members, kind: object, known: frozenset[str]) -> bool:
    if isinstance(kind, str) and (kind in _CALL_TYPES or kind in known):
        return True
    if "tool" in members or "action" in members:
        return True
    if any(key in members for key in ("name", "function", "tool_name")):
        names = {members[key].value for key in _NAMES if _is_text(members, key)}
        return any(key in members for key in _ARGUMENTS) or bool(names & known)
    return False


def _is_text(members: Members, key: str) -> bool:
    return key in members and isinstance(members[key].value, str)


def _name(members: Members) -> str:
    names = {members[key].text: members[key].value for key in _NAMES if key in members}
    if len(names) != 1:
        raise _Broken('names two tools: name one, under "tool"' if names else "names no tool")
    (name,) = names.values()
    if not isinstance(name, str) or not name.strip():
        raise _Broken("names no tool: its name must be a string")
    return storable(name, "function name")


def _call(members: Members, name: str) -> WrittenCall:
    beside = sorted(members.keys() - _BESIDE_A_CALL)
    if beside:
        raise _Broken(f'has the unknown key {beside[0][:64]!r}: arguments belong in "arguments"')
    arguments = only(members, _ARGUMENTS)
    text = ""
    if arguments is not None:
        # A string is taken as the text of the arguments, as in native calls.
        is_text = isinstance(arguments.value, str)
        text = arguments.value if is_text else arguments.text
    return WrittenCall(name=name, arguments=storable(text, "arguments"), thought=_thought(members))


def _thought(members: Members) -> str:
    if not _is_text(members, "thought"):
        return ""
    return storable(members["thought"].value, "thought").strip()[:_LONGEST_THOUGHT]


def _words(members: Members, kind: str, known: frozenset[str]) -> FinalAnswer | AskCustomer:
    said = [members[key].value for key in _WORDS if key in members and members[key].value]
    if len(said) != 1 or not isinstance(said[0], str) or not said[0].strip():
        raise _Broken("has no words for the customer: they must be one string")
    text = storable(said[0], "text").strip()
    if _steps(text, known):
        raise _Broken("holds a call inside the words for the customer")
    _refuse_what_is_no_prose(text, known)
    thought = _thought(members)
    if kind in _ASK:
        return AskCustomer(question=text, thought=thought)
    return FinalAnswer(text=text, thought=thought)


def _refuse_what_is_no_prose(text: str, known: frozenset[str]) -> None:
    is_plain = not any(sign in text for sign in _SIGNS)
    if not is_plain and (_MARKS.search(text) or _calls_by_name(known).search(text)):
        raise _Broken("is marked as a call, but holds none that can be read")
    if text.startswith("{") or _is_json(text):
        raise _Broken("is JSON of another form")


@lru_cache(maxsize=16)
def _calls_by_name(known: frozenset[str]) -> re.Pattern[str]:
    """Calls in other notations: `name(…)`, `name {"…`, `Action: name`, `{"name": {…}}`."""
    names = "|".join(sorted(map(re.escape, known))) or r"(?!)"
    # A plain word before a bracket may be prose.
    coined = "|".join(sorted(re.escape(name) for name in known if "_" in name)) or r"(?!)"
    return re.compile(
        rf"\b(?:{coined})\(|\b(?:{names})\W{{0,4}}\{{\s*{_QUOTE}\w"
        rf"|^[^\S\n]*+Action\s*:\s*\W?(?:{names})\b"
        rf"|[{{,]\s*{_QUOTE}(?:{names}){_QUOTE}\s*:\s*\{{",
        re.MULTILINE,
    )


def _is_json(text: str) -> bool:
    if text[:1] not in "[ntf":
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
