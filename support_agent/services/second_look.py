"""Two of a hundred paid refunds are looked at again; nobody without the key knows which."""

from support_agent.domain.refunds import RefundRequest
from support_agent.domain.signing import KeyRing
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Task

SECOND_LOOK = "second_look"
ONE_IN = 50


def drawn(request: RefundRequest, keys: KeyRing) -> bool:
    """Whether this request is one of them: the same answer each time, under the same first key."""
    _, mac = keys.sign(("second_look/1", request.id))
    return int(mac, 16) % ONE_IN == 0


def second_look_task(request: RefundRequest, keys: KeyRing, clock: Clock) -> Task | None:
    """The task of a paid request that was drawn; once a request, however often it is paid."""
    if not drawn(request, keys):
        return None
    return Task(
        id=f"task_{SECOND_LOOK}_{request.id}",
        kind=SECOND_LOOK,
        subject=request.id,
        conversation_id=request.conversation_id,
        created_at=clock.now(),
    )
