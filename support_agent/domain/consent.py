"""Did the customer say yes? A deterministic reading of one message, in Vietnamese and English.

A YES moves money, so the whole message is matched, not searched. It is cut into clauses and words,
and every word must belong to a phrase listed below, in a place where that phrase makes sense. One
word left over (an amount, an order id, "nhưng", "if", a question mark, a quotation mark, a letter
of another script, an invisible character) makes the message UNCLEAR. Searching for a yes would have
to know every way of taking it back ("tôi đâu có nói đồng ý"); matching the whole only has to know
ways of saying it, and what it does not know costs one more question.

Signs that only decorate (👍, "!") separate words and mean nothing by themselves: a lone 👍 is as
often "seen" as "yes", so it is UNCLEAR. So is trailing off ("ok..."), and "ok, cảm ơn", which ends
a talk as often as it answers a question.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, StrEnum, auto
from functools import cache
from itertools import pairwise, product
from types import MappingProxyType


class Consent(StrEnum):
    """What a message answers to the quote shown before it."""

    YES = "yes"
    NO = "no"
    UNCLEAR = "unclear"


def classify(text: str) -> Consent:
    """YES or NO only if that is all the message says; UNCLEAR for everything else."""
    if len(text) > MAX_CHARS * 4 or len(text := unicodedata.normalize("NFC", text)) > MAX_CHARS:
        return Consent.UNCLEAR
    kinds = {kind for clause in _clauses(text) for kind in _read(clause)}
    if kinds & _ANY_YES and kinds <= _YES_MESSAGE:
        # "dạ, cảm ơn" only thanks; beside thanks it takes a word that says yes and nothing else.
        return Consent.UNCLEAR if _Kind.ASIDE in kinds and not kinds & _FIRM_YES else Consent.YES
    if kinds & _ANY_NO and kinds <= _NO_MESSAGE:
        return Consent.NO
    return Consent.UNCLEAR


class _Kind(Enum):
    """What a phrase does in an answer."""

    AGREE = auto()  # says yes: "đồng ý", "yes"
    ORDER = auto()  # tells us to do it: "hoàn đi"
    OK = auto()  # says yes, or only "I see": "ok", "được"
    HEARD = auto()  # "dạ": a yes when alone, politeness before anything else
    REFUSE = auto()  # says no: "không", "chưa đồng ý"
    STOP = auto()  # tells us not to: "đừng hoàn", "khoan"
    ASIDE = auto()  # thanks and "never mind": says neither
    URGE = auto()  # "đi", "giúp em": belongs to an order just before it
    ME = auto()  # "tôi": the subject of what follows
    PERSON = auto()  # "em", "anh": the customer or the one spoken to
    SHOP = auto()  # the one spoken to, never the customer
    PARTICLE = auto()  # "ạ", "nhé", "please"
    OTHER = auto()  # anything else


_FIRM_YES = frozenset({_Kind.AGREE, _Kind.ORDER})
_ANY_YES = _FIRM_YES | {_Kind.OK, _Kind.HEARD}
_ANY_NO = frozenset({_Kind.REFUSE, _Kind.STOP})
_AROUND = frozenset(
    {_Kind.ASIDE, _Kind.URGE, _Kind.ME, _Kind.PERSON, _Kind.SHOP, _Kind.PARTICLE, _Kind.HEARD}
)
_YES_MESSAGE = _ANY_YES | _AROUND
_NO_MESSAGE = _ANY_NO | _AROUND

# Who speaks matters: "em đồng ý" is the customer's yes, "shop đồng ý" is talk about the shop's.
_NEVER_AFTER: Mapping[_Kind, frozenset[_Kind]] = MappingProxyType(
    {
        _Kind.SHOP: frozenset({_Kind.AGREE, _Kind.OK, _Kind.HEARD, _Kind.REFUSE}),
        _Kind.PERSON: frozenset({_Kind.OK, _Kind.HEARD}),  # "em có" begins another sentence
        _Kind.ME: frozenset(_Kind) - {_Kind.AGREE, _Kind.REFUSE},
        _Kind.ASIDE: frozenset({_Kind.AGREE, _Kind.OK, _Kind.HEARD}),  # thanks for agreeing
    }
)
_ONLY_AFTER: Mapping[_Kind, frozenset[_Kind]] = MappingProxyType(
    {_Kind.URGE: frozenset({_Kind.ORDER, _Kind.STOP, _Kind.URGE})}
)

MAX_CHARS = 120  # a plain yes or no is shorter; whoever writes more is saying more
CLAUSE_ENDS = ",.!\n\r"
# Separators never join what stands around them: hiding one inside a word makes no other word.
SKIN_TONES = "".join(map(chr, range(0x1F3FB, 0x1F400)))
SPACES = " \t\u00a0~👍👌🙏😊🙂😀😁☺😍🥰❤\ufe0f" + SKIN_TONES
TRAILING_OFF = "…"
_SPACED = str.maketrans(dict.fromkeys(SPACES, " "))
_CUT = str.maketrans(dict.fromkeys(CLAUSE_ENDS + TRAILING_OFF, "\n"))

# Phrases are written with their diacritics. A word typed without them matches too, unless it is one
# of these, where the bare letters could as well be a no, a question or another word: dung = đúng,
# đừng; hoan = hoàn, hoãn (put off); a = ạ, à; ban = bạn, bận; chi = chị, chỉ; u, um = ừ, ừm and
# hesitation.
AMBIGUOUS_BARE = frozenset({"a", "ban", "chi", "dung", "hoan", "u", "um"})

ME = ("tôi", "mình", "tui", "tớ", "mk", "e", "cháu", "con")
PERSONS = ("em", "anh", "chị")
SHOPS = ("shop", "bạn", "ad", "admin", "bot")
OKS = ("ok", "oke", "okie", "oki", "okey", "okay", "okê", "okela", "okla", "okk", "ô kê")
NEGATIONS = ("không", "ko", "k", "kh", "khg", "hông", "hong", "hổng", "hok", "hem", "chưa")
AGREEMENTS = ("đồng ý", "xác nhận", "nhất trí", "chấp nhận")
# A bare "hoan" is ambiguous, but "hoan tien" can only be "hoàn tiền".
DEEDS = (
    *("hoàn", "hoàn tiền", "hoàn lại", "hoàn lại tiền", "hoan tien", "hoan lai tien"),
    *("làm", "xử lý", "tiến hành", "thực hiện"),
)
DEEDS_EN = ("go ahead", "do it", "do that", "proceed", "refund it", "refund me", "process it")
URGES = ("đi", "ngay", "với", "giúp", "giùm", "hộ")
SOFTENERS = ("nhé", "nha", "nhá", "nhen", "nghen", "luôn")

# Phrases that are not put together from the words above.
LISTED: Mapping[_Kind, str] = MappingProxyType(
    {
        _Kind.AGREE: """
            chuẩn, chuẩn rồi, hoàn toàn đồng ý, hoan toan dong y, đúng, đúng rồi, chốt, chắc chắn,
            chắc chắn rồi,
            tất nhiên, tất nhiên rồi, dĩ nhiên, có chứ, được thôi, yes, yes please, yep, yeah, yea,
            yup, sure, sure thing, of course, absolutely, definitely, certainly, confirm, confirmed,
            i confirm, agree, agreed, i agree, i do, accept, i accept, correct, that's fine,
            that is fine, that's right, that's correct, fine by me""",
        _Kind.ORDER: "please do, please refund, refund please, go for it, process the refund",
        _Kind.OK: """
            vâng, vang a, ừ, ừm, ừa, uh, uh huh, được, đc, dc, có, alright, all right,
            sounds good""",
        _Kind.HEARD: "dạ",
        _Kind.REFUSE: """
            từ chối, no, nope, nah, never, no way, no need, no thanks, not now, not yet, not ok,
            not okay, i refuse, i disagree, i don't, i do not, i don't agree, i do not agree,
            i don't want it, i do not want it, of course not, absolutely not, definitely not,
            đổi ý, đổi ý rồi, changed my mind, i changed my mind""",
        _Kind.STOP: """
            thôi, thôi khỏi, khỏi cần, từ từ, dừng, dừng lại, dung lai, bỏ đi, bỏ qua, để sau,
            dung hoan nua, dung hoan tien nua, stop, wait, cancel, cancel it, cancel that,
            never mind, nevermind, hold on, hang on, forget it, please do not""",
        _Kind.ASIDE: """
            thanks, thanks a lot, thank you, thank you so much, thank you very much, thx, tks,
            no problem, no worries""",
        _Kind.PARTICLE: "ạ, ơi, please, pls, plz, :), :)), ^^, <3",
        # Made of words of a yes and still none: "có được" asks, "đã có" tells, "uh uh" is a no.
        _Kind.OTHER: "có được, đã có, đã được, duoc thoi, uh uh",
    }
)


def _phrases() -> Iterator[tuple[_Kind, Iterable[str]]]:
    """Every phrase the grammar knows, by what it does."""
    for kind, listed in LISTED.items():
        yield kind, listed.split(",")
    yield from _phrases_of_yes()
    yield from _phrases_of_no()
    yield _Kind.ASIDE, _joined(("cảm ơn", "cám ơn"), ("", *SHOPS, *PERSONS), ("", "nhiều"))
    yield _Kind.ASIDE, _joined(NEGATIONS, ("sao", "sao đâu", "vấn đề gì"))
    yield _Kind.URGE, (*URGES, *_favours())
    yield _Kind.ME, ME
    yield _Kind.PERSON, _joined(("", "nhờ"), PERSONS)
    yield _Kind.SHOP, _joined(("", "nhờ"), SHOPS)
    yield _Kind.PARTICLE, SOFTENERS
    yield _Kind.OTHER, _joined(NEGATIONS, ("đổi ý",))
    # "được hoàn" and "đã hoàn" tell, "có đồng ý" asks, "chưa hoàn" complains.
    yield _Kind.OTHER, _joined(("được", "có", "đã", "chưa"), DEEDS)
    yield _Kind.OTHER, _joined(("được", "có"), (*AGREEMENTS, *OKS))


def _phrases_of_yes() -> Iterator[tuple[_Kind, Iterable[str]]]:
    yield _Kind.AGREE, _joined(AGREEMENTS, ("", *DEEDS))
    yield _Kind.AGREE, _joined(("ừ thì", "uh thì"), AGREEMENTS)
    yield _Kind.AGREE, _joined((*ME, *PERSONS), ("ok", "oke"))
    yield _Kind.ORDER, _joined(("cứ", "nhờ", "vui lòng", "làm ơn"), DEEDS)
    yield _Kind.ORDER, _joined(DEEDS, (*URGES, *_favours(), *SOFTENERS))
    yield _Kind.ORDER, _joined(("", "please"), DEEDS_EN)
    yield _Kind.OK, OKS


def _phrases_of_no() -> Iterator[tuple[_Kind, Iterable[str]]]:
    no_more = ("", "nữa", "đâu", "nữa đâu")
    yield _Kind.REFUSE, _joined(NEGATIONS, ("", *AGREEMENTS, *OKS, "confirm", "được"))
    yield _Kind.REFUSE, _joined(NEGATIONS, ("cần", "muốn", *DEEDS), no_more)
    yield _Kind.REFUSE, _joined(NEGATIONS, (*AGREEMENTS, "muốn"), DEEDS, no_more)
    yield _Kind.STOP, _joined(("đừng", "khoan", "khỏi"), ("", *DEEDS), ("", "nữa"))
    yield _Kind.STOP, _joined(("don't", "dont", "do not"), ("", "confirm", "refund", *DEEDS_EN))
    yield _Kind.STOP, _joined(("huỷ", "hủy"), ("", "bỏ", "yêu cầu", "hoàn tiền"))
    yield _Kind.STOP, _joined(("khoan", "từ từ", "đợi", "chờ"), ("đã", "chút", "tí", "xíu"))


def _favours() -> list[str]:
    """`giúp em`, `cho tôi`: whom an order is meant to help."""
    return _joined(("giúp", "giùm", "hộ", "cho"), (*ME, *PERSONS))


def _joined(*parts: Sequence[str]) -> list[str]:
    return [" ".join(filter(None, words)) for words in product(*parts)]


_Lexicon = dict[str, list[tuple[tuple[str, ...], _Kind]]]


@cache
def _lexicon() -> _Lexicon:
    """Phrases by their bare letters, so that one look-up finds them however they were typed."""
    lexicon: _Lexicon = {}
    for kind, phrases in _phrases():
        for phrase in phrases:
            words = tuple(phrase.split())
            lexicon.setdefault(_bare(" ".join(words)), []).append((words, kind))
    return lexicon


@cache
def _longest() -> int:
    return max(len(bare.split()) for bare in _lexicon())


def _bare(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text).replace("đ", "d")
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def _clauses(text: str) -> list[list[str]]:
    """Words of each clause: lower case, one apostrophe, held-down letters let go."""
    text = text.lower().replace("’", "'").translate(_SPACED)
    lines = text.translate(_CUT).split("\n")
    clauses = [[_let_go(word) for word in line.split(" ") if word] for line in lines]
    trails_off = "..." in text.replace(" ", "").replace("…", "...")
    return [*clauses, [TRAILING_OFF]] if trails_off else clauses


def _let_go(word: str) -> str:
    """`vânggg` is `vâng`; but `kkkk` is laughter and not `k`, a no."""
    short = word.rstrip(word[-1])
    return short + word[-1] if short and len(word) - len(short) >= 3 else word


def _read(words: Sequence[str]) -> set[_Kind]:
    """The kinds of a clause's phrases, and OTHER if one of them does not fit where it stands."""
    kinds = list(_cut(words))
    misplaced = any(
        after in _NEVER_AFTER.get(before, ())
        or (after in _ONLY_AFTER and before not in _ONLY_AFTER[after])
        for before, after in pairwise([_Kind.PARTICLE, *kinds, _Kind.PARTICLE])
    )
    return {*kinds, _Kind.OTHER} if misplaced else set(kinds)


def _cut(words: Sequence[str]) -> Iterator[_Kind]:
    """Cut a clause into known phrases, the longest first, so that "không đồng ý" is never a yes."""
    start = 0
    while start < len(words):
        for end in range(min(len(words), start + _longest()), start, -1):
            kind = _kind_of(words[start:end])
            if kind is not None:
                yield kind
                start = end
                break
        else:
            yield _Kind.OTHER
            return


def _kind_of(words: Sequence[str]) -> _Kind | None:
    """The kind of these words as one phrase; OTHER if two kinds claim the same bare letters."""
    entries = _lexicon().get(_bare(" ".join(words)), [])
    kinds = {kind for phrase, kind in entries if all(map(_is_typed_as, phrase, words))}
    if len(kinds) > 1:
        return _Kind.OTHER
    return kinds.pop() if kinds else None


def _is_typed_as(word: str, typed: str) -> bool:
    return typed == word or (typed == _bare(word) and typed not in AMBIGUOUS_BARE)
