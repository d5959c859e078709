"""Whether the process is alive, and whether it can serve."""

import structlog
from fastapi import APIRouter, Request

from support_agent.adapters.queue.procrastinate_schema import check_queue
from support_agent.api.probing import Probe
from support_agent.api.problems import MEDIA_TYPE, FieldProblem, Problem, ProblemError
from support_agent.api.schemas import Shape
from support_agent.container import Container
from support_agent.domain.errors import ConfigurationError, SupportAgentError

router = APIRouter(tags=["health"])
log = structlog.get_logger(__name__)

# The whole error may name hosts and files, and anybody may ask: it is in the log.
WORDS = {
    "stopping": "the server is about to stop",
    "database": "the database does not answer",
    "schema": "the database does not have the schema of this program; see `support-agent doctor`",
    "queue": "the queue does not have the tables that it needs; see `support-agent doctor`",
    "policy": "no policy is in force; see `support-agent policies activate`",
}


class Health(Shape):
    status: str


class NotReady(SupportAgentError):
    """Something that every request needs is not there; `what` is one of `WORDS`."""

    def __init__(self, what: str) -> None:
        super().__init__(WORDS[what])
        self.what = what


def readiness(container: Container) -> Probe[None]:
    """Passes when requests can be served."""
    database, settings = container.database(), container.settings()

    async def look() -> None:
        try:
            await database.check_schema()
        except ConfigurationError as error:
            raise NotReady("schema") from error
        except SupportAgentError as error:
            raise NotReady("database") from error
        if settings.queue.kind == "procrastinate":
            try:
                await database.run_read(check_queue)
            except ConfigurationError as error:
                raise NotReady("queue") from error
        if await database.read(lambda tx: tx.policies.in_force()) is None:
            raise NotReady("policy")

    return Probe(look)


@router.head("/healthz", include_in_schema=False)  # some monitors ask no more
@router.get("/healthz")
async def get_health() -> Health:
    """The process is alive. Nothing else is looked at."""
    return Health(status="alive")


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz",
    responses={
        503: {
            "model": Problem,
            "content": {MEDIA_TYPE: {}},
            "description": "Not ready: `errors[0].pointer` says what is missing",
        }
    },
)
async def get_readiness(request: Request) -> Health:
    """Requests can be served: the database answers and has what this program needs.

    503 within a few seconds when it does not, also when the database hangs, and when the server
    is about to stop.
    """
    state = request.app.state
    if state.background.closing.is_set():
        raise _not_ready("stopping")
    try:
        await state.readiness()
    except TimeoutError as error:
        raise _not_ready("database") from error
    except NotReady as error:
        log.warning("readiness.failed", what=error.what, problem=str(error.__cause__ or error))
        raise _not_ready(error.what) from error
    except SupportAgentError as error:
        log.warning("readiness.failed", what="database", problem=str(error))
        raise _not_ready("database") from error
    return Health(status="ready")


def _not_ready(what: str) -> ProblemError:
    detail = WORDS[what]
    return ProblemError(
        503,
        "NOT_READY",
        detail,
        fields=(FieldProblem(pointer=what, detail=detail, code="NOT_READY"),),
        headers={"Retry-After": "1"},
    )
