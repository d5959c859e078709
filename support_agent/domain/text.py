"""Text from outside: checked on the way in, masked for the model, made visible on the way out."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from support_agent.domain.errors import InvalidInput

ELLIPSIS = "…"
# One code point of composed text comes from at most this many of decomposed text.
_MOST_DECOMPOSED = 4


def clean_message(text: str, *, max_chars: int) -> str:
    r"""A customer's message as it is stored: NFC, stripped, `\n` and `\t` the only controls.

    Invisible characters other than controls stay: they are evidence, `visible` shows them, and a
    consent that has one in it is not a yes.

    Raises:
        InvalidInput: empty or invisible, too long, or with NUL or half a character in it.
    """
    # Looked at first, so that normalising never runs over a text of any length.
    if len(text) > max_chars * _MOST_DECOMPOSED:
        raise _too_long(max_chars)
    if "\0" in text:
        raise InvalidInput("text", "must not contain NUL")
    if any(unicodedata.category(c) == "Cs" for c in text):
        raise InvalidInput("text", "is not valid Unicode: it has half of a surrogate pair in it")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    kept = (c for c in text if c in "\n\t" or unicodedata.category(c) != "Cc")
    text = unicodedata.normalize("NFC", "".join(kept)).strip()
    if all(c.isspace() or c in _BLANK or unicodedata.category(c) == "Cf" for c in text):
        raise InvalidInput("text", "is empty; write what you need")
    if len(text) > max_chars:
        raise _too_long(max_chars)
    return text


def _too_long(max_chars: int) -> InvalidInput:
    return InvalidInput("text", f"is longer than {max_chars} characters; shorten it")


# Groups of digits as cards are written, not behind a letter as in an order id.
_DIGIT_GROUPS = re.compile(
    r"(?<![0-9A-Za-z_])(?<![0-9A-Za-z_][-_])\d+(?:[ \u00a0\u202f–-]{1,3}\d+)*"
)
_CARD_LENGTHS = range(13, 20)
# Beside other groups a longer one is a phone or account number.
_LONGEST_CARD_GROUP = 8


def redact_cards(text: str) -> str:
    """Card numbers become `[card …1234]`; amounts, ids and phone numbers stay.

    A card number is 13 to 19 digits, in one piece or in groups, that starts as cards do and passes
    the check digit of ISO/IEC 7812-1.
    """
    return _DIGIT_GROUPS.sub(_redact_groups, text)


def _redact_groups(match: re.Match[str]) -> str:
    groups = [(m.start(), m.end()) for m in re.finditer(r"\d+", match[0])]
    result, copied, first = "", 0, 0
    while first < len(groups):
        last, digits = _card_at(match[0], groups[first : first + _CARD_LENGTHS[-1]])
        if digits:
            result += match[0][copied : groups[first][0]] + f"[card {ELLIPSIS}{digits[-4:]}]"
            copied = groups[first + last][1]
        first += last + 1
    return result + match[0][copied:]


def _card_at(text: str, groups: Sequence[tuple[int, int]]) -> tuple[int, str]:
    """Index of the last group of a card that starts with the first, and its digits; or 0 and ""."""
    best, digits, longest = (0, ""), "", 0
    for index, (start, end) in enumerate(groups):
        digits += text[start:end]
        longest = max(longest, end - start)
        if len(digits) > _CARD_LENGTHS[-1] or (index and longest > _LONGEST_CARD_GROUP):
            break
        if _is_card(digits):
            best = (index, digits)
    return best


def _is_card(digits: str) -> bool:
    starts_as_cards = digits[0] in "3456" or "2221" <= digits[:4] <= "2720" or digits[:4] == "9704"
    return len(digits) in _CARD_LENGTHS and starts_as_cards and _passes_luhn(digits)


def _passes_luhn(digits: str) -> bool:
    doubled = (sum(divmod(2 * int(d), 10)) for d in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0


# Digits that go on, or a currency: then it is an amount, and amounts stay readable.
_NO_AMOUNT = r"(?!\d|\s?(?:₫|(?:đ|d|k|tr|triệu|trieu|vnd|vnđ|đồng|dong|usd)\b))"
# The order matters: what an earlier kind took, a later one does not see.
_PERSONAL = re.compile(
    rf"""
      (?P<email> (?<![\w.+-]) [\w.+-]+ @ [\w-]+ (?:\.[\w-]+)+ )
    | (?<![\w+]) (?:
        (?P<phone> (?: (?:\+84|0084|84)[ .-]?[35789]\d(?:[ .-]?\d){{7}}
                     | 0[35789]\d(?:[ .-]?\d){{7}}
                     | 0[35789](?:[ .-]\d{{4}}){{2}}
                     | (?:\+84[ .-]?|0)2\d(?:[ .-]?\d){{8}} ) (?!\.?\d) )
      | (?P<id> (?: \d{{12}} | 0\d\d(?:[ .-]\d{{3}}){{3}} ) {_NO_AMOUNT} )
      | (?P<number> (?: \d{{9,}} | \d{{4}}(?:[ -]\d{{4}}){{2,}}(?:[ -]\d{{1,4}})? ) {_NO_AMOUNT} ) )
    """,
    re.VERBOSE | re.IGNORECASE,
)


Masks = Mapping[str, Mapping[str, int]]  # kind -> value -> the number of its placeholder


class Masker:
    """Replaces personal numbers and addresses by placeholders, the same value by the same one.

    E-mail addresses, phone numbers, CCCD (12 digits) and other long numbers become `[email-1]`,
    `[phone-1]`, `[id-1]`, `[number-1]`, numbered as they first appear; `known` are those of the
    texts before. So a history that only grows keeps its prefix, wherever it is begun.
    """

    def __init__(self, known: Masks | None = None) -> None:
        self._numbers = {kind: dict(values) for kind, values in (known or {}).items()}

    def mask(self, text: str) -> str:
        return _PERSONAL.sub(self._placeholder, text)

    def counts(self) -> Mapping[str, int]:
        """The highest number of each kind so far."""
        return {kind: max(values.values()) for kind, values in self._numbers.items()}

    def up_to(self, counts: Mapping[str, int], *, most: int) -> Masks:
        """What was known when these were the counts, at most the last `most` of each kind."""
        return {
            kind: {
                value: number
                for value, number in self._numbers[kind].items()
                if count - most < number <= count
            }
            for kind, count in counts.items()
        }

    def _placeholder(self, match: re.Match[str]) -> str:
        kind = str(match.lastgroup)
        seen = self._numbers.setdefault(kind, {})
        value = _value(kind, match[0])
        number = seen.get(value)
        if number is None:
            number = seen[value] = max(seen.values(), default=0) + 1
        return f"[{kind}-{number}]"


def _value(kind: str, written: str) -> str:
    """What makes two ways of writing the same: `+84 912…` is `0912…`."""
    if kind == "email":
        return written.lower()
    digits = re.sub(r"\D", "", written)
    return re.sub(r"^(?:00)?84", "0", digits) if kind == "phone" else digits


# Blank though no control: fillers, joiners of marks, the empty braille pattern.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_VARIATION_SELECTORS = frozenset(
    map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)
_EMOJI_SELECTORS = frozenset("\ufe0e\ufe0f")
_PICTOGRAPHS = range(0x1F000, 0x1FB00)  # an emoji newer than this Python is unassigned to it
_MOST_MARKS = 2  # on one letter; more climb over the lines above


def visible(text: str, limit: int, *, keep_newlines: bool = False) -> str:
    r"""Foreign text as it may be printed: the one door at every output edge.

    Controls, escapes, invisible characters, bidi controls and line breaks come out as `\x1b`,
    `\u202e`, `\n`; Vietnamese and ordinary emoji pass; at most `limit` characters, the last of them
    `…` when something was cut. `keep_newlines` is for bodies printed over several lines.
    """
    # Only what can show up is normalised, however long the text is.
    text = unicodedata.normalize("NFC", text[: (limit + 1) * _MOST_DECOMPOSED])
    if keep_newlines:
        text = text.replace("\r\n", "\n")
    pieces: list[str] = []
    room = limit
    for piece in _visible_pieces(text, keep_newlines=keep_newlines):
        pieces.append(piece)
        room -= len(piece)
        if room < 0:
            return _cut(pieces, limit)
    return "".join(pieces)


def _cut(pieces: list[str], limit: int) -> str:
    """As many whole pieces as fit before the ellipsis; an escape is never cut in two."""
    length = sum(map(len, pieces))
    while pieces and length > limit - 1:
        length -= len(pieces.pop())
    return "".join(pieces) + ELLIPSIS if limit > 0 else ""


def _visible_pieces(text: str, *, keep_newlines: bool) -> Iterator[str]:
    before, marks = "\n", 0
    for char in text:
        marks = marks + 1 if unicodedata.category(char)[0] == "M" else 0
        passes = (char == "\n" and keep_newlines) or _is_safe(char, before, marks)
        yield char if passes else _escape(char)
        before = char


def _is_safe(char: str, before: str, marks: int) -> bool:
    """Whether `char` may be printed after `before`, as the `marks`-th mark on its letter."""
    if char in _VARIATION_SELECTORS:
        return char in _EMOJI_SELECTORS and unicodedata.category(before)[0] == "S"
    if marks:
        starts_a_line = unicodedata.category(before)[0] in "CZ"
        return marks <= _MOST_MARKS and not starts_a_line and char not in _BLANK
    category = unicodedata.category(char)
    if category == "Cn":
        return ord(char) in _PICTOGRAPHS
    return category[0] != "C" and category not in {"Zl", "Zp"} and char not in _BLANK


def _escape(char: str) -> str:
    named = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
    code = ord(char)
    if char in named:
        return named[char]
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )


def csv_cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula; give it text that passed `visible`."""
    return f"'{text}" if text.lstrip(" \u00a0")[:1] in set("=+-@＝＋－＠\t\r\n") else text
