"""Reads from a customer's own plain words how they want to be served.

A wrong preference is worse than a missed one: it would change how someone is spoken to, from then
on. So a whole clause has to be one of the phrases below, said as an order or a wish. Messages with
quotation marks, sentences with a negation, a condition or somebody else's words, and questions that
ask for no favour say nothing. Nor does what letters of two scripts pretend.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType

from support_agent.domain.lookalikes import INVISIBLE
from support_agent.domain.preferences import PreferenceKind

LONGEST = 500  # characters: who writes more tells a story, or pasted one


def stated(text: str) -> dict[PreferenceKind, str]:
    """What a customer's message says of it; mostly nothing, and nothing when it says two things."""
    if len(text) > LONGEST:
        return {}
    seen = INVISIBLE.sub("", unicodedata.normalize("NFC", text))
    raw = seen.lower().replace("’", "'")
    if not _HINT.search(raw) or _FOREIGN.search(raw) or not _is_plain(raw):
        return {}
    found: dict[PreferenceKind, set[str]] = {}
    for sentence in _SENTENCE.findall(raw):
        if _HINT.search(sentence) and _is_taken_back(sentence):
            return {}
        for kind, value in _of_sentence(sentence):
            found.setdefault(kind, set()).add(value)
    return {kind: values.pop() for kind, values in found.items() if len(values) == 1}


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


# Cheap, and asked of every message.
_HINT = re.compile(
    r"ti[eếê]\w*\s+(?:vi|anh)|english|vietnamese|g[oọ]i|call me|address me|li[eê]n (?:h|l)|contact"
    r"|reach|prefer|mail|[đd]i[eệ]n tho|notify|mornings|afternoons|evenings",
)
# Quotation marks of any kind, a quoted line, and words announced by a colon at the end of a line.
_FOREIGN = re.compile(r"[\"“”„«»‘`]|(?<!\w)'|'(?!\w)|^\s*>|:\s*$", re.MULTILINE)
_SENTENCE = re.compile(r"[^.!?;\n…]+[.!?;\n…]*")
# "dung" is "dùng" or "đừng", "bao" is "báo" or "bảo": typed bare, neither is known.
_TAKEN_BACK = _words(
    """
    không khong ko k kh khg hông hong hok hem đừng dung chớ chưa chua nếu neu khi bảo bao hỏi hoi
    họ ai sao đâu dau if unless when whether not don't dont never no without said says say told
    asked asks wrote heard until once why who they he she nhưng nhung trừ tru
    """
)
# Beside a wish these say that it is somebody else's, imagined, or no longer meant. Not "viet": who
# is Vietnamese may say so.
_TOLD = _words(
    """
    nói noi nhắn nhan dặn dan kêu keu viết ghi dịch dich đọc giả lỡ ghét đùa khỏi khoi chẳng chang
    trước translate translated translates reads writes writing written wrote says telling label
    case suppose supposing assuming provided joking kidding stop hate rather neither nor nobody
    """
)
_FAVOUR = re.compile(r" ?\b(?:duoc|dc) (?:khong|ko|k|hong)\b[ \w]*$")
_ABLE = re.compile(r"\b(?:can|could|would|do) you\b")
_ASKING = re.compile(
    r"\b(?:please|pls|plz|kindly|giup|gium|vui long|lam on|nho (?:shop|em|ban))\b", re.ASCII
)

_ME = r"(?:em|anh|chi|toi|minh|tui|chau|con|co|chu|bac)"
_BEFORE = (
    rf"(?P<before>(?:(?:da|vang|a|alo|ok|oke|xin chao|chao|hi|hello|hey|so|and|also|then|tu nay"
    rf"|tu gio|sau nay|lan sau|co gi|co tin gi|from now on|in future|in the future"
    rf"|(?:shop|ad|admin|em|ban|bot) oi|thi) )*)"
    rf"(?P<subject>(?:(?:shop|ad|admin|ban|bot|ben minh) )?)"
    rf"(?P<order>(?:(?:cu|hay|xin|vui long|lam on|nho|nho shop|nho em|nho ban|please|pls|plz|kindly"
    rf"|could you|can you|would you|{_ME} (?:muon|thich)(?: duoc)?|i want you to"
    rf"|i would like you to|i'd like you to) )*)"
)
_AFTER = (
    rf"(?P<after>(?: (?:nhe|nha|nhen|nghen|di|thoi|giup|gium|giup {_ME}|gium {_ME}|ho {_ME}"
    rf"|cho {_ME}|voi|please|pls|plz|only|instead|from now on|la duoc|duoc roi))*)"
    rf"(?: (?:a|shop|em|ban|ad|admin|cam on|cam on shop|cam on em|thanks|thank you|from now on"
    rf"|la duoc|duoc roi|tu gio|tu nay))*"
)
_LANGUAGE = r"(?P<language>viet|viet nam|anh|english|vietnamese)"
_FORM = r"(?P<address>anh|chi|em|co|chu|bac|ban)"
_CHANNEL = r"(?P<contact>email|e-mail|mail|gmail|dien thoai|sdt|so dien thoai|phone|telephone|chat)"
_WHEN = r"(?:vao |luc )?(?:cac |moi )?buoi (?P<hours>sang|chieu|toi)"
_WHEN_EN = r"in the (?P<hours>morning|afternoon|evening)s?"
_TO_ME = rf"(?: lai)?(?: (?:cho|voi))?(?: {_ME})?(?: lai)?"
# What can be asked for, by how plainly: an order or a wish has to stand with the first.
_ORDERS = (
    (
        rf"(?:tra loi|rep|reply|phan hoi|nhan tin|viet|noi|noi chuyen|tu van|ho tro|trao doi"
        rf"|giao tiep|chat|dung|su dung){_TO_ME}(?: bang)? tieng {_LANGUAGE}"
    ),
    (
        rf"(?:reply|answer|respond|write|speak|talk|chat|text|communicate|continue|message)(?: to"
        rf"| with| me| us| back| only)* (?:in )?{_LANGUAGE}"
    ),
    rf"(?:use|switch to) {_LANGUAGE}",
    rf"goi {_ME} (?:la|bang) {_FORM}",
    rf"(?:call|address) me (?:as )?{_FORM}",
    (
        rf"(?:lien he|lien lac|bao|bao tin|phan hoi|nhan tin|tra loi|rep|thong bao){_TO_ME}"
        rf" (?:qua|bang) {_CHANNEL}(?: {_WHEN})?"
    ),
    rf"(?:lien he|lien lac|goi|goi dien|goi dien thoai){_TO_ME} {_WHEN}",
    (
        rf"(?:contact|reach|notify|update|reply to|answer)(?: me| us)(?: only)?"
        rf" (?:by|via|through|over) (?:the )?{_CHANNEL}(?: {_WHEN_EN})?"
    ),
    rf"(?:contact|reach) me {_WHEN_EN}",
    r"call me in the (?P<hours>morning|afternoon|evening)s",
)
_WISHES = (
    (
        rf"(?:i|we)(?:'d| would)? prefer to (?:chat|write|speak|talk|communicate)(?: in)?"
        rf" {_LANGUAGE}"
    ),
    rf"my preferred language is {_LANGUAGE}",
    rf"(?:i|we)(?:'d| would)? prefer(?: to be contacted(?: by| via)?)? {_CHANNEL}",
    r"(?P<hours>morning|afternoon|evening)s (?:are|work) (?:best|better)(?: for me)?",
)
_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "viet": "vi",
        "viet nam": "vi",
        "vietnamese": "vi",
        "anh": "en",
        "english": "en",
        "e-mail": "email",
        "email": "email",
        "mail": "email",
        "gmail": "email",
        "dien thoai": "phone",
        "sdt": "phone",
        "so dien thoai": "phone",
        "phone": "phone",
        "telephone": "phone",
        "chat": "chat",
        "sang": "morning",
        "chieu": "afternoon",
        "toi": "evening",
        "morning": "morning",
        "afternoon": "afternoon",
        "evening": "evening",
    }
)
# Each form of address as it may be typed: "chỉ" and "có" are other words.
_TYPED = _words("anh chị chi em cô co chú chu bác bac bạn ban")


@cache
def _phrases() -> tuple[tuple[re.Pattern[str], bool], ...]:
    """Each with whether it has to stand as an order or a wish."""
    orders = [(re.compile(_BEFORE + one + _AFTER), True) for one in _ORDERS]
    wishes = [(re.compile(_BEFORE + one + _AFTER), False) for one in _WISHES]
    return (*orders, *wishes)


def _of_sentence(sentence: str) -> Iterator[tuple[PreferenceKind, str]]:
    asked = _without_favour(sentence)
    is_question = "?" in sentence or _ABLE.search(sentence) or asked != sentence.rstrip("?!., ")
    if is_question and not _ASKING.search(_bare(asked)):
        return
    clauses = [clause for clause in re.split(r"[,–—]| - ", asked) if clause.strip()]
    said = [(clause, [*_of_clause(clause, alone=len(clauses) == 1)]) for clause in clauses]
    if not any(_is_told(clause) for clause, found in said if not found):
        for _, found in said:
            yield from found


def _is_told(clause: str) -> bool:
    return not _TOLD.isdisjoint(re.findall(r"[\w']+", clause))


def _is_plain(text: str) -> bool:
    """Of Latin letters only: one that looks like another would hide a negation."""
    return not any(
        unicodedata.category(char) == "Mn"
        or (char.isalpha() and not unicodedata.name(char, "").startswith("LATIN "))
        for char in text
    )


def _is_taken_back(sentence: str) -> bool:
    return not _TAKEN_BACK.isdisjoint(re.findall(r"[\w']+", _without_favour(sentence)))


def _without_favour(sentence: str) -> str:
    """Without the "… được không" of somebody who asks for a favour."""
    bare = _bare(sentence).rstrip("?!., ")
    return sentence[: len(_FAVOUR.sub("", bare))]


def _of_clause(clause: str, *, alone: bool) -> Iterator[tuple[PreferenceKind, str]]:
    raw = " ".join(clause.strip(" .!?…~").split())
    bare = _bare(raw)
    for phrase, is_order in _phrases():
        match = phrase.fullmatch(bare)
        if match is None or (is_order and not _is_ordered(match, alone=alone)):
            continue
        for kind in PreferenceKind:
            value = match.groupdict().get(kind)
            if value is None:
                continue
            if kind is not PreferenceKind.ADDRESS:
                yield kind, _MEANINGS[value]
            elif raw[slice(*match.span(kind))] in _TYPED:
                yield kind, value
        return


def _is_ordered(match: re.Match[str], *, alone: bool) -> bool:
    """Said in the imperative: "shop gọi em là chị" alone tells, "cứ gọi em là chị" asks.

    How somebody is addressed is told as often as it is asked for; the rest, standing alone, asks.
    """
    if match["order"] or match["after"].strip():
        return True
    return alone and not match["subject"] and "address" not in match.groupdict()


def _bare(text: str) -> str:
    """Without diacritics, letter by letter, so that places stay the same."""
    return "".join(_letter(char) for char in text)


@cache
def _letter(char: str) -> str:
    base = unicodedata.normalize("NFD", char)[0]
    return "d" if base == "đ" else base
