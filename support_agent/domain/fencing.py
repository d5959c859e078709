"""Fences around what others wrote, for a model: nothing inside can close, copy or leave one."""

import re

from support_agent.domain.lookalikes import without_invisible, without_marks

# Whatever is drawn like an opening bracket.
_ANGLES = "<＜﹤‹«〈⟨❮❬〈《⟪≺˂ᐸ≪⋘"
_SLASHES = "/\\\\／∕⁄"
_SQUARES = "\\[［【〔⟦﹝"
# A bracket that may open a tag, a marker or a token of a chat template. It starts with one set of
# characters, which is searched fast; in JSON, where a value follows each `[`, it finds little.
_OPENING = re.compile(
    rf"""
    [{_ANGLES}{_SQUARES}&] (?: (?<=&) (?: lt | \#0*60 | \#x0*3c ) ;? )?
    (?= [{_ANGLES}{_SQUARES}]{{0,16}}+
        (?: \s*+ [{_SLASHES}!?]*+ \s*+ (?: [^\W\d] | [|｜ǀ∣] ) | !-- ) )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_REAL_ANGLES = frozenset("<＜﹤")
_BRACKETS = f"{_ANGLES}{_SQUARES}"
_NAME = re.compile(rf"[{_ANGLES}{_SQUARES}\s{_SLASHES}!?|｜]*((?:[^\W\d]|[ \t_.-]){{1,40}})")
_NOT_A_LETTER = re.compile(r"[^a-z]")
# Of our fences and markers, of roles, and of the templates that open models are run with.
_NAMES = frozenset(
    """
    customermessage summary systemnotice earlierinthisconversation toolresult toolresults toolcall
    toolcalls toolresponse tools tool function functioncall observation system systemprompt
    sys inst assistant user human developer availabletools toolcontent imstart imend imsep
    endoftext eot eotid startheaderid endheaderid startofturn endofturn
    """.split()  # noqa: SIM905 - a list of words reads as one
)


def fenced(name: str, text: str) -> str:
    """The text as data between `<name>` and `</name>`."""
    return f"<{name}>\n{inert(text)}\n</{name}>"


def inert(text: str) -> str:
    """The text as a model may read it: without what it cannot see, tags and template tokens broken.

    A bracket that opens a tag becomes `(`, in whatever script it is drawn. Ordinary text, and JSON
    of it, comes back as it is, byte for byte; JSON stays JSON.
    """
    text = without_invisible(text)
    return _OPENING.sub(_broken, text) if _OPENING.search(text) else text


def _broken(match: re.Match[str]) -> str:
    """A round bracket in the place of one that opens something."""
    opening, after = match[0], match.string[match.end() : match.end() + 60]
    if opening != "&" and (_is_tag(opening, after) or _named(after) in _NAMES):
        return "("
    return opening


def _is_tag(opening: str, after: str) -> bool:
    """A real angle bracket right before a letter, a slash or a bar opens something, whatever it is.

    One drawn like it may be a quotation mark: then the name decides.
    """
    return opening in _REAL_ANGLES and not after.lstrip(_BRACKETS)[:1].isspace()


def _named(after: str) -> str:
    found = _NAME.match(after)
    return _NOT_A_LETTER.sub("", without_marks(found[1])) if found else ""
