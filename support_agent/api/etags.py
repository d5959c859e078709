"""Versions as entity tags (RFC 9110): given with what is shown, asked back when it is changed."""

import re
from typing import Annotated

from fastapi import Depends, Header, Request

from support_agent.api.problems import ProblemError
from support_agent.domain.errors import InvalidInput

IF_MATCH = "If-Match"
# A strong tag: a weak one never matches where If-Match is asked for.
_VERSION = re.compile(r'"([1-9][0-9]{0,8})"')


def etag(version: int) -> str:
    """The tag of a version."""
    return f'"{version}"'


async def _version_seen(
    request: Request,
    if_match: Annotated[  # noqa: ARG001 - for the OpenAPI; two headers of the name have to be seen
        str | None,
        Header(
            alias=IF_MATCH,
            description="The `ETag` of what was looked at. It is required.",
            examples=['"1"'],
            json_schema_extra={"pattern": f"^{_VERSION.pattern}$"},
        ),
    ] = None,
) -> int:
    """The one version that the client says it has seen.

    Raises:
        ProblemError: 428, it says none.
        InvalidInput: `*`, a weak tag, several, or no tag of ours: none says what was seen.
    """
    tags = request.headers.getlist(IF_MATCH)
    if not tags:
        raise ProblemError(
            428,
            "PRECONDITION_REQUIRED",
            "send If-Match with the ETag that came with what you looked at; for a row of a list "
            "it is the version in double quotes",
        )
    found = _VERSION.fullmatch(tags[0].strip()) if len(tags) == 1 else None
    if found is None:
        raise InvalidInput(
            IF_MATCH,
            'must be the one strong ETag that was seen, such as "1"; * and W/ say nothing of it',
        )
    return int(found[1])


VersionSeen = Annotated[int, Depends(_version_seen)]
