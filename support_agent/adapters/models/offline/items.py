"""Which lines of an order a customer names, and how many of each."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from support_agent.adapters.models.offline.folding import compose, fold


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line as `lookup_order` told it."""

    line_id: str
    name: str
    quantity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """`quantity` of a line: as said, else all of it; code judges whether that many are left."""

    line_id: str
    quantity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ambiguous:
    """The words fit several lines equally well."""

    names: tuple[str, ...]


# With diacritics where it has them: "ví" is a wallet, "vì" is not.
_SAID_WITH_EVERY_REFUND = """
    hoàn tiền đơn hàng mã số cho tôi mình em anh chị tui bạn shop ad ơi ạ à ừ nhé nha nhá nè với đi
    được không muốn cần xin yêu cầu giúp hộ giùm dùm lại trả lấy rút của này đó kia đang đã rồi là
    thì và hay vì vui lòng làm ơn một tất cả toàn bộ hết ngay luôn nữa thôi khoản phần phí về trong
    từ vào nhanh gấp sớm đồng ý có vâng dạ ok oke chào đổi mua đặt bị sẽ thế vậy chưa cái chiếc món
    hôm qua nay giao nhận cứ nhờ hãy đúng xác nhận sản phẩm tiếp tục theo cả
    i i'd i'm want to get a an the refund refunded my for order please of on in can could would you
    like need money back return it this that from give all whole entire full now and hi hello me
    just only yes okay sure go ahead do so is be have items item thanks too also well as on
    continue next both
"""
_COUNTS = {
    "một": 1, "mot": 1, "hai": 2, "ba": 3, "bốn": 4, "bon": 4, "năm": 5,
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5,
}  # fmt: skip
_CLASSIFIERS = frozenset(
    {"cái", "cai", "chiếc", "chiec", "đôi", "doi", "bộ", "bo", "hộp", "hop", "gói", "goi"}
    | {"chai", "quyển", "quyen", "cuốn", "cuon", "món", "mon", "x"}
)
# "1 cái", "just one", "2 of them": so many, of what is not said.
_COUNTED = re.compile(
    rf"\b(?P<count>[0-9]{{1,3}}|{'|'.join(sorted(set(map(fold, _COUNTS))))})"
    r" (?:cai|chiec|mon|san pham|sp|doi|bo|hop|goi|chai|quyen|cuon|items?|pieces?|pcs?|units?"
    r"|of (?:them|it|those|these|the))\b"
    r"|\b(?:chi|only|just) (?P<only>[0-9]{1,3}|one|two|three|four|five)\b"
)
_SOME = re.compile(
    r"\b(?:cai|chiec|mon|san pham|item|one) (?:bi|loi|hong|rach|kia|that|which)\b"
    r"|\bmot (?:vai|so) (?:mon|cai|san pham)\b|\bsome (?:items|of (?:it|them|the))\b"
    r"|\b(?:broken|defective|damaged|faulty) (?:one|item|piece)\b"
)


def count_in(typed: str) -> int | None:
    """How many pieces are asked for, whatever they are; None where no number says it."""
    match = _COUNTED.search(_spaced(typed))
    if not match:
        return None
    said = match["count"] or match["only"]
    return int(said) if said.isdecimal() else {fold(k): v for k, v in _COUNTS.items()}[said]


def wants_a_part(typed: str) -> bool:
    """Whether pieces are asked for rather than the order."""
    return count_in(typed) is not None or _SOME.search(_spaced(typed)) is not None


def leftover(typed: str) -> tuple[str, ...]:
    """The words that are not said with every refund: perhaps goods, perhaps a reason."""
    common = _SAID_WITH_EVERY_REFUND.split()
    usual = {*common, *map(fold, common)}
    return tuple(
        word
        for word in _words(typed)
        if word not in usual and not word.isdigit() and (len(word) > 1 or not word.isascii())
    )


def pick(lines: Sequence[Line], typed: str) -> tuple[Picked, ...] | Ambiguous:
    """The named lines; none when the words name no line.

    "áo thun" is the line that shares both words, not every line with "áo" in its name.
    """
    said = leftover(typed)
    shared = {
        line: frozenset(word for word in said if any(_same(word, own) for own in _words(line.name)))
        for line in lines
    }
    named = [
        line
        for line in lines
        if shared[line] and not any(shared[line] < other for other in shared.values())
    ]
    if len({shared[line] for line in named}) < len(named):
        return Ambiguous(names=tuple(line.name for line in named))
    total = count_in(typed) if len(named) == 1 else None
    return tuple(
        Picked(
            line_id=line.line_id,
            quantity=_said_quantity(typed, shared[line]) or total or line.quantity,
        )
        for line in named
    )


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+(?:'[^\W_]+)?", compose(text).lower())


def _spaced(typed: str) -> str:
    return " ".join(fold(compose(typed)).split())


def _same(typed: str, own: str) -> bool:
    """Typed without diacritics it fits every word; else marks count, wherever the tone sits."""
    if typed == fold(typed):
        return typed == fold(own)
    return sorted(unicodedata.normalize("NFD", typed)) == sorted(unicodedata.normalize("NFD", own))


def _said_quantity(typed: str, shared: frozenset[str]) -> int | None:
    """The number before the first word of the name, a classifier between them or not."""
    words = _words(typed)
    for place, word in enumerate(words):
        if word not in shared:
            continue
        before = [w for w in words[max(0, place - 3) : place] if w not in _CLASSIFIERS][-1:]
        for count in before:
            if count.isdecimal() and len(count) <= 3:
                return int(count)
            return _COUNTS.get(count)
        return None
    return None
