"""Which language a message is written in, so that it is answered in the same one."""

import re
import unicodedata

from support_agent.domain.reasons import Language


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_WORD = re.compile(r"(?<!\w)[^\W\d_]+(?!\w)")  # not the A of A100
# Letters that no other language here has; an "é" or "à" alone may come from a café.
_VIETNAMESE_LETTERS = frozenset("đăơưĩũ" + "".join(map(chr, range(0x1EA0, 0x1EFA))))
# Common words without their diacritics, and none that is an English word too.
_VIETNAMESE_WORDS = _words(
    """
    toi minh em anh khong ko hok duoc dc cua cho voi nhe nha vang da roi chua hoan tien giao nhan
    huy doi tra mua gui giup xin chao oi la va thi nay kia gi nao sao dau bao nhieu lau khi muon
    phai yeu cau dong thoi biet xem kiem ngay hom qua co vay duyet
    """
)
# The small words of a sentence: Vietnamese chat borrows nouns and verbs, but hardly these. Those
# that are also unaccented Vietnamese ("can", "to", "do", "me", "an") say nothing.
_ENGLISH_WORDS = _words(
    """
    i you my your we it is are was were been the this that these what when where why how who which
    does did could will would should have has had and or if of from about not want need get got
    there they please
    """
)
# Borrowed into Vietnamese chat every day, so they count only where nothing else speaks.
_BORROWED_WORDS = _words(
    """
    order refund refunded cancel delivery delivered shipping return policy status check money
    payment item package customer service support help request approved
    """
)


def detect(text: str, default: Language) -> Language:
    """The language most words speak for; `default` where none does, as in "A100" or "ok"."""
    words = _WORD.findall(unicodedata.normalize("NFC", text).lower())
    vietnamese = sum(map(_is_vietnamese, words))
    english = sum(word in _ENGLISH_WORDS for word in words)
    if vietnamese == english:
        only_borrowed = not vietnamese and not _BORROWED_WORDS.isdisjoint(words)
        return "en" if only_borrowed else default
    return "vi" if vietnamese > english else "en"


def _is_vietnamese(word: str) -> bool:
    if not _VIETNAMESE_LETTERS.isdisjoint(word):
        return True
    bare = "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))
    return bare in _VIETNAMESE_WORDS
