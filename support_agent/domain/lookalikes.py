"""Characters that hide or pretend: what cannot be seen, and letters that look like Latin ones."""

import re
import unicodedata

# Controls but \t and \n, invisible and bidi characters, tags, variation selectors, blank fillers.
INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_BREAKS = frozenset("\x0b\x0c\r\x1c\x1d\x1e\x1f\x85\u2028\u2029")
_EMOJI_SELECTORS = frozenset("\ufe0e\ufe0f")
_JOINER = "\u200d"
_SKIN_TONES = range(0x1F3FB, 0x1F400)

# Small Cyrillic, Greek, Armenian and Latin letters by the ASCII letter they are drawn like; NFKC
# already takes wide, circled and mathematical ones.
_DRAWN_LIKE = {
    "a": "аαɑ", "b": "ьƅ", "c": "сϲᴄ", "d": "ԁɗ", "e": "еєҽ", "f": "ƒ", "g": "ɡցğ", "h": "һհ",
    "i": "іιıɩ", "j": "јϳ", "k": "кκ", "l": "ӏ|ǀ", "m": "мⅿ", "n": "пոηɴ", "o": "оοօσ",
    "p": "рρ", "q": "ԛգ", "r": "гᴦ", "s": "ѕꜱ", "t": "тτ", "u": "υսц", "v": "ѵν", "w": "ԝωш",
    "x": "хχ", "y": "уγү", "z": "ᴢ",
}  # fmt: skip
_LATIN = str.maketrans({char: ascii_ for ascii_, chars in _DRAWN_LIKE.items() for char in chars})


def without_invisible(text: str) -> str:
    """The text as it looks: what nobody sees is gone, an odd line break is a blank.

    Emoji stay whole: a selector or joiner behind a symbol belongs to it.
    """
    return INVISIBLE.sub(_seen, text) if INVISIBLE.search(text) else text


def _seen(match: re.Match[str]) -> str:
    char, text, at = match[0], match.string, match.start()
    before = text[at - 1 : at]
    if char in _BREAKS:
        return " "
    if char in _EMOJI_SELECTORS and (_is_symbol(before) or before in set("0123456789#*")):
        return char
    after = text[at + 1 : at + 2]
    if char == _JOINER and _is_symbol(after) and (_is_symbol(before) or before == "\ufe0f"):
        return char
    return ""


def _is_symbol(char: str) -> bool:
    return bool(char) and (unicodedata.category(char) == "So" or ord(char) in _SKIN_TONES)


def as_latin(text: str) -> str:
    """In small letters, with ASCII for what looks like it; Vietnamese keeps its marks."""
    return unicodedata.normalize("NFKC", text).lower().translate(_LATIN)


def without_marks(text: str) -> str:
    """`as_latin`, and no marks either."""
    bare = unicodedata.normalize("NFD", as_latin(text))
    return "".join(c for c in bare if unicodedata.category(c) != "Mn").translate(_LATIN)
