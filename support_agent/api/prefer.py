"""`Prefer: wait=20` (RFC 7240): for how long a client would wait for the answer itself."""

import re
from collections.abc import Sequence

APPLIED = "Preference-Applied"
# A preference with its parameters, which say nothing of `wait`; commas may stand in quotes.
_ITEM = re.compile(r'\s*((?:[^",]|"(?:[^"\\]|\\.)*")*)\s*(?:,|$)')
_WAIT = re.compile(r'wait\s*=\s*(?:(\d+)|"(\d+)")\s*(?:;.*)?', re.IGNORECASE | re.DOTALL | re.ASCII)
LONGEST_HEADER = 1_000  # of what is read at all


def wait_of(headers: Sequence[str], *, most_s: float) -> int:
    """The seconds that are waited; 0 without a preference. What cannot be read is ignored.

    Of several the first counts, and more than `most_s` is not waited.
    """
    text = ",".join(headers)
    if len(text) > LONGEST_HEADER:
        return 0
    for item in _ITEM.finditer(text):
        found = _WAIT.fullmatch(item[1].strip())
        if found:
            digits = (found[1] or found[2]).lstrip("0") or "0"
            longest = int(most_s)
            return longest if len(digits) > len(str(longest)) else min(int(digits), longest)
    return 0
