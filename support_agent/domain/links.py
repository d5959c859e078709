"""Links in a model's words: whatever does not lead to the shop is taken out."""

import html
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from unicodedata import normalize

from support_agent.domain.lookalikes import as_latin, without_invisible
from support_agent.domain.reasons import Language
from support_agent.domain.top_level import FILES, KNOWN, PLAIN

LINK_REMOVED = ("[liên kết đã bị gỡ]", "[link removed]")

_SLASH = r"[/\\／∕⁄]"
_SPELT_DOT = r"(?:dot|chấm|cham)"
_DOT = rf"""
    (?: [*_`~\\]{{0,3}} (?: [.．。｡․﹒] | %2e ) [*_`~]{{0,3}}
      | \s? [\[({{] \s? (?: [.．。｡] | {_SPELT_DOT} ) \s? [\])}}] \s?
      | \s{_SPELT_DOT}\s | \s\.\s? )
"""
_LABEL = r"[^\W_](?:[\w-]{0,62}[^\W_])?"
_REST = r"""(?: \[[.:]\] | \([.:]\) | [^\s<>"'“”‘’«»()\[\]{}|] )*"""

_IN_CIRCLES = re.compile("[\u2474-\u24e9\U0001f110-\U0001f189]+")
_ENTITY = re.compile(
    r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|period|colon|sol|bsol|lt|gt|commat);?", re.IGNORECASE
)
_TAG = re.compile(
    r"""
    < \s* (?P<closes>/)? \s* [a-z] [^<>]*?
    (?(closes) | \s (?: (?:xlink:)?href | src(?:set)? | (?:form)?action | data | poster | background
      | style | on\w+ ) \s* = [^<>]* )
    (?: > | $ )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_MARKDOWN = re.compile(
    r"""
    (?P<image>!?) \[ (?P<label>[^\[\]]*) \] \( \s* <?
    (?P<place> (?: [^()\s<>] | \([^()\s]*\) )+ ) >? [^()]* \)
    """,
    re.VERBOSE,
)
_SCHEME = re.compile(
    rf"""
    (?: (?: h [tx*]{{2}} p s? | [a-z][a-z0-9+.-]{{1,20}} )
        \s? [\[(]? [:：] \s? {_SLASH}{{2}} [\])]? \s?
      | h[tx*]{{2}}ps? \s? [\[(]? [:：] [\])]? (?=\S{{0,200}}[.．\[])
      | (?<!\w) (?: javascript | vbscript | mailto | blob | intent | tg | sms ) [:：] (?=\S)
      | (?<!\w) data [:：] \s? (?= \w+/\w | [;,]\w ) )
    (?: \[[0-9a-f:.]+\] )? {_REST}
    """,
    re.VERBOSE | re.IGNORECASE,
)
_DOMAIN = re.compile(
    rf"""
    (?<!\w) (?P<user> [\w.+-]{{1,64}} [@＠] )?
    (?P<labels> {_LABEL} (?: {_DOT} {_LABEL} )+ )
    (?P<tail> (?: [:：]\d{{1,5}}[\w.-]* )? (?: (?:{_SLASH}|[?\#@＠]) {_REST} )? )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SPLIT = re.compile(f"({_DOT})", re.VERBOSE | re.IGNORECASE)
_OURS = re.compile(
    r"(?:https?://|[\w.+-]+@)?(?P<host>[a-z0-9.-]+)(?::443)?(?:[/?#](?:(?!//)[!-\[\]-~])*)?",
    re.IGNORECASE | re.ASCII,
)
_LEADS_SOMEWHERE = re.compile(rf"[a-z\#]|{_SLASH}", re.IGNORECASE)
_ENDS_A_SENTENCE = ".,;:!?…*_`~"
_LONGEST_ABBREVIATION = 2  # TP.HN
_OCTETS = 4
_LARGEST_OCTET = 255


def without_links(text: str, *, hosts: Collection[str], language: Language) -> str:
    """The text with a marker for each link, address or domain that is not one of `hosts`.

    Found also where it is disguised: other dots, letters or widths, invisible characters, `hxxp`,
    "dot" spelt out, HTML, Markdown, entities. Where a sentence and a domain look the same
    ("xong.Shop") a blank behind the dot settles it.
    """
    marker = LINK_REMOVED[language == "en"]
    door = _Door(hosts=frozenset(host.lower() for host in hosts), marker=marker)
    text = _IN_CIRCLES.sub(lambda match: normalize("NFKC", match[0]), without_invisible(text))
    if "&" in text:
        text = _ENTITY.sub(lambda match: html.unescape(match[0]), text)
    if "<" in text:
        text = _TAG.sub(lambda match: "" if match["closes"] else marker, text)
    if "](" in text:
        text = _MARKDOWN.sub(door.markdown, text)
    if ":" in text or "：" in text:
        text = _SCHEME.sub(door.address, text)
    text = "".join(door.through(text))
    if marker in text:
        text = re.sub(rf"{re.escape(marker)}(?:\s*{re.escape(marker)})+", marker, text)
        text = text.replace(f"{marker}(", f"{marker} (")  # together they would be Markdown's link
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Door:
    """Says of each thing that looks like a link what stays in its place."""

    hosts: frozenset[str]
    marker: str

    def markdown(self, match: re.Match[str]) -> str:
        if self._is_ours(match["place"]) or not _LEADS_SOMEWHERE.search(match["place"]):
            return match[0]
        return self.marker if match["image"] else f"{match['label']} {self.marker}".lstrip()

    def address(self, match: re.Match[str]) -> str:
        link = match[0].rstrip(_ENDS_A_SENTENCE)
        return (link if self._is_ours(link) else self.marker) + match[0][len(link) :]

    def through(self, text: str) -> Iterator[str]:
        """The text, piece by piece, without foreign domains."""
        at = 0
        while match := _DOMAIN.search(text, at):
            told, end = self._domain(match)
            yield text[at : match.start()]
            yield told
            at = end
        yield text[at:]

    def _domain(self, match: re.Match[str]) -> tuple[str, int]:
        """What stays in its place, and where the text goes on: the marker, or the words.

        A blank comes behind a dot that ends a sentence as well as it could be a domain's.
        """
        parts = _SPLIT.split(match["labels"])
        labels, dots = parts[::2], parts[1::2]
        tail = match["tail"].rstrip(_ENDS_A_SENTENCE)
        end = match.start("tail") + len(tail)
        if self._is_ours(match.string[match.start() : end]):
            return match.string[match.start() : end], end
        if _is_ip(labels, tail):
            return self.marker, end
        last = _last_known(labels, dots, tail)
        if not last:
            return (match["user"] or "") + _apart(labels, dots), match.start("tail")
        known = "".join(parts[: 2 * last + 1])
        if len(known) < len(match["labels"]):  # a sentence that goes on without a blank
            return self.marker, match.start("labels") + len(known)
        plain = not match["user"] and not tail and dots[-1] == "."
        if plain and _begins_a_sentence(labels[last]):
            return f"{''.join(parts[:-1])} {labels[last]}", end
        return self.marker, end

    def _is_ours(self, link: str) -> bool:
        """Exactly a host of the shop in plain letters: no other port, no name before an @."""
        found = _OURS.fullmatch(link)
        return found is not None and found["host"].lower() in self.hosts


def _last_known(labels: list[str], dots: list[str], tail: str) -> int:
    """Index of the last label a domain can end with, 0 without one."""
    numbers = all(label.isdecimal() for label in labels[:-1])  # 5.tr
    short = labels[-1].isupper() and max(map(len, labels)) <= _LONGEST_ABBREVIATION
    for index in range(len(labels) - 1, 0, -1):
        label = labels[index]
        name = as_latin(label)
        dot = dots[index - 1]
        apart = dot != dot.strip() and dot.strip()[0] not in "[({"  # in words, or between blanks
        if name not in PLAIN and (apart or (not tail and (numbers or short))):
            continue
        if name in KNOWN or label.lower() in KNOWN or name.startswith("xn--"):
            return index
        if tail and index == len(labels) - 1 and _may_be_one(label):
            return index
    return 0


def _may_be_one(label: str) -> bool:
    """Whether it may be a domain's end that is not listed."""
    return (
        len(label) > 2 and label.isascii() and label.isalpha() and label.islower()
    ) and label not in FILES


def _begins_a_sentence(label: str) -> bool:
    return label.istitle() and label.isascii() and label.lower() not in PLAIN


def _apart(labels: list[str], dots: list[str]) -> str:
    """The words with a blank behind each dot that could make a domain of them."""
    told = labels[0]
    for dot, label in zip(dots, labels[1:], strict=True):
        told += f"{dot} {label}" if dot == "." and _may_be_one(label) else dot + label
    return told


def _is_ip(labels: list[str], tail: str) -> bool:
    """Four numbers up to 255; in groups of three digits only with a port or a path: an amount."""
    if len(labels) != _OCTETS or not all(label.isdecimal() for label in labels):
        return False
    if any(int(label) > _LARGEST_OCTET for label in labels):
        return False
    return bool(tail) or any(len(label) != 3 for label in labels[1:])
