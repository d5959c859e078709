"""Takes events from the outbox and puts them on their way to each endpoint that wants them."""

from support_agent.ports.clock import Clock, Ids
from support_agent.ports.storage import Addressed, Database, Transaction

PAGE = 100
MOST_PAGES = 100  # in one run; the next one goes on


class WebhookFanOut:
    """Each event once to each endpoint, in order; any number of processes may do so at once.

    An endpoint gets what happens from when it is enabled on. What happens while none is enabled is
    for nobody.
    """

    def __init__(self, *, database: Database, clock: Clock, ids: Ids) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids

    async def run(self) -> int:
        """How many deliveries were begun.

        Raises:
            DatabaseUnavailable: what was taken stays taken, the rest is taken the next time.
        """
        begun = 0
        for _ in range(MOST_PAGES):
            if not await self._database.read(lambda tx: tx.webhooks.has_new()):
                break
            taken, addressed = await self._database.transact(self._page)
            begun += addressed
            if taken < PAGE:  # the rest is somebody else's
                break
        return begun

    def _page(self, tx: Transaction) -> tuple[int, int]:
        now = self._clock.now()
        taken, events = tx.webhooks.take_new(limit=PAGE, at=now)
        listeners = tx.webhooks.listeners() if events else ()
        many = [
            Addressed(id=self._ids.new("whd"), endpoint_id=endpoint.id, event=event)
            for event in events
            for endpoint in listeners
            if event.type in endpoint.events
        ]
        tx.webhooks.address(many, at=now)
        return taken, len(many)
