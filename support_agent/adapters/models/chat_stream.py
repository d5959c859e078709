"""A streamed chat completion, put together again from its events."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from support_agent.adapters.models.chat_errors import told_failure
from support_agent.domain.errors import ModelReplyInvalid

_Place = tuple[int, int]  # an index, and 0 or what tells calls apart that a server gave the same

_DONE = b"[DONE]"
_BOM = b"\xef\xbb\xbf"
_MOST_CALLS = 1000  # the loop answers far fewer; each takes room until the reply ends
_LONGEST_NAME = 1000


class ChatStream:
    """Takes the bytes of an event stream as they come and keeps the first choice's message.

    Deltas of several calls may be interleaved; servers disagree on which of index, id and name
    they repeat.
    """

    def __init__(self) -> None:
        self.is_done = False  # the server said that nothing follows
        self.usage: object = None
        self._finish_reason: str | None = None
        self._texts: dict[str, list[str]] = {}
        self._calls: dict[_Place, dict[str, Any]] = {}
        self._last: _Place = (0, 0)  # the call that began last
        self._of_index: dict[int, _Place] = {}  # the call of each index that began last
        self._of_id: dict[str, _Place] = {}
        self._lines = _Lines()
        self._data: list[bytes] = []

    @property
    def is_complete(self) -> bool:
        return self.is_done or self._finish_reason is not None

    @property
    def message(self) -> dict[str, Any]:
        """As far as it has come."""
        message: dict[str, Any] = {key: "".join(parts) for key, parts in self._texts.items()}
        if self._calls:
            message["tool_calls"] = [_whole(self._calls[place]) for place in sorted(self._calls)]
        return message

    def document(self) -> dict[str, Any]:
        """The same completion as it would have come in one piece."""
        choice = {"index": 0, "message": self.message, "finish_reason": self._finish_reason}
        return {"choices": [choice], "usage": self.usage}

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes.

        Raises:
            ModelReplyInvalid: an event is none of a chat completion.
            ModelUnavailable: an event says that the server failed.
        """
        for fed in self._lines.feed(chunk):
            line = fed.removeprefix(_BOM)
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line:
                self._event()

    def end(self) -> None:
        """Take what is left: the last event of some servers is not ended by a blank line."""
        self.feed(b"\n\n")

    def _event(self) -> None:
        data, self._data = b"\n".join(self._data), []
        if self.is_done or not data.strip():
            return
        if data.strip() == _DONE:
            self.is_done = True
            return
        document = _document(data)
        failure = told_failure(document)
        if failure is not None:
            raise failure
        self.usage = document.get("usage") or self.usage
        for choice in _list(document.get("choices")):
            if _object(choice).get("index", 0) == 0:
                self._choice(_object(choice))

    def _choice(self, choice: Mapping[str, Any]) -> None:
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._finish_reason = reason
        delta = _object(choice.get("delta"))
        for key in ("content", "refusal"):
            text = _text(joined_text(delta.get(key)), key)
            if text:
                self._texts.setdefault(key, []).append(text)
        for entry in _list(delta.get("tool_calls")):
            self._call(_object(entry))
        if delta.get("function_call"):
            self._call({"index": 0, "function": delta["function_call"]})

    def _call(self, entry: Mapping[str, Any]) -> None:
        call = self._call_of(entry)
        kind = call.setdefault("type", "custom" if entry.get("custom") else "function")
        text = "input" if kind == "custom" else "arguments"
        part = _object(entry.get(kind))
        told = call.setdefault(kind, {"name": "", text: []})
        name = _text(part.get("name"), "function name")
        if name != told["name"]:  # some servers repeat it in every event
            told["name"] += name
        if len(told["name"]) > _LONGEST_NAME:
            raise ModelReplyInvalid("a function name of the reply is too long to be one")
        told[text].append(arguments_text(part.get(text)))
        if entry.get("id"):
            call.setdefault("id", entry["id"])

    def _call_of(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """The call that the entry is a part of: by its index, by its id, or the last one."""
        index, call_id = entry.get("index"), entry.get("id")
        if type(index) is int:
            place = self._of_index.get(index, (index, 0))
        elif isinstance(call_id, str):
            place = self._of_id.get(call_id, self._last)
        else:
            place = self._last
        if self._begins_another(entry, self._calls.get(place)):
            place = (place[0], len(self._calls))
        if place not in self._calls:
            if len(self._calls) == _MOST_CALLS:
                raise ModelReplyInvalid(f"over {_MOST_CALLS} calls in one reply; ask for a few")
            self._calls[place] = {}
            self._last = self._of_index[place[0]] = place
        if isinstance(call_id, str) and call_id:
            self._of_id.setdefault(call_id, place)
        return self._calls[place]

    def _begins_another(self, entry: Mapping[str, Any], known: Mapping[str, Any] | None) -> bool:
        """Some servers give every call the same index, or none: then a name begins another."""
        function = entry.get("function")
        if not known or not (isinstance(function, dict) and function.get("name")):
            return False
        ids = entry.get("id"), known.get("id")
        return ids[0] != ids[1] if all(ids) else type(entry.get("index")) is not int


def _whole(call: Mapping[str, Any]) -> dict[str, Any]:
    """A call with the pieces of its text put together: once, as each time copies all of it."""
    whole = dict(call)
    kind = call.get("type")
    if isinstance(kind, str) and kind in call:  # it is not where its first part was none of a call
        parts = call[kind].items()
        whole[kind] = {key: "".join(part) if type(part) is list else part for key, part in parts}
    return whole


class _Lines:
    """Cuts bytes into lines, which may end in LF, CR LF or CR."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._after_cr = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        if not chunk:
            return
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        *lines, rest = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            yield bytes(self._rest) + line
            self._rest.clear()
        self._rest += rest


def joined_text(content: object) -> object:
    """A content of several parts as the text of them; anything else as it is."""
    if not isinstance(content, list):
        return content
    parts = (part.get("text") for part in content if isinstance(part, dict))
    return "".join(text for text in parts if isinstance(text, str))


def arguments_text(value: object) -> str:
    """Arguments as text: some servers send the object itself in its place."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        raise ModelReplyInvalid("the arguments of the reply are nested too deeply") from None


def _document(data: bytes) -> Mapping[str, Any]:
    try:
        return _object(json.loads(data.decode("utf-8")))
    except (ValueError, RecursionError):
        raise ModelReplyInvalid("an event of the reply is not JSON in UTF-8") from None


def _text(value: object, what: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ModelReplyInvalid(f"the {what} of the reply is not a string")
    return value


def _object(value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ModelReplyInvalid("an event of the reply is none of a chat completion")
    return value


def _list(value: object) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ModelReplyInvalid("an event of the reply is none of a chat completion")
    return value
