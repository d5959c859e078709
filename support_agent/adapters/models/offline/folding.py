"""Vietnamese and English text made comparable: composed, and folded without losing positions."""

import unicodedata

LONGEST = 4_000  # what is read of one message; more is noise and costs time


def compose(text: str) -> str:
    """NFC text, cut, with what cannot be written as UTF-8 replaced."""
    clean = text[:LONGEST].encode("utf-8", "replace").decode("utf-8")
    return unicodedata.normalize("NFC", clean)


def fold(composed: str) -> str:
    """Lower case without diacritics, one character for each of `composed`, so positions agree."""
    return "".join(map(_fold_character, composed))


def words_of(folded: str) -> str:
    """Only the words, one space between them, common shorthand written out."""
    spaced = "".join(character if character.isalnum() else " " for character in folded)
    return " ".join(SHORTHAND.get(word, word) for word in spaced.split())


SHORTHAND = {
    "dc": "duoc", "dk": "duoc", "dch": "duoc",
    "k": "khong", "ko": "khong", "kg": "khong", "hok": "khong", "hong": "khong", "khum": "khong",
    "r": "roi", "j": "gi", "bn": "bao nhieu", "nv": "nhan vien", "sp": "san pham",
    "chx": "chua", "ch": "chua", "tks": "thanks", "thx": "thanks",
}  # fmt: skip


def _fold_character(character: str) -> str:
    if character in "đĐ":
        return "d"
    base = unicodedata.normalize("NFD", character)[0]
    lowered = base.lower()
    return lowered if len(lowered) == 1 else base
