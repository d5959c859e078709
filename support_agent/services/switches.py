"""Kill switches: whether payouts and automatic approval may happen at all, and who said so."""

from dataclasses import dataclass
from datetime import UTC

from support_agent.domain.audit import AuditEvent, holds
from support_agent.domain.errors import HistoryBroken
from support_agent.domain.people import Principal
from support_agent.domain.signing import KeyRing
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Switch, SwitchName, Transaction

SWITCH_CHANGED = "switch.changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchState:
    """How a switch stands; `last` is its row, `genuine` whether the signed history says the same.

    What is not genuine is off: who can only write the database may stop us, and never start us.
    """

    name: SwitchName
    last: Switch | None
    genuine: bool

    @property
    def on(self) -> bool:
        return self.genuine and (self.last is None or self.last.on)


class Switchboard:
    """Reads switches inside the transactions that they stop, and turns them."""

    def __init__(self, *, keys: KeyRing, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock

    def is_on(self, tx: Transaction, name: SwitchName) -> bool:
        """Whether it may happen; a switch that nobody ever touched is on."""
        return self.state(tx, name).on

    def state(self, tx: Transaction, name: SwitchName) -> SwitchState:
        """The switch, and whether its row is what its newest signed event says of it.

        Raises:
            ConfigurationError: the history has no index yet.
        """
        seen = self._seen(tx, name)
        # Somebody may have turned it between the look at its row and the one at the history.
        return seen if seen.genuine else self._seen(tx, name)

    def _seen(self, tx: Transaction, name: SwitchName) -> SwitchState:
        switch = tx.switches.get(name)
        try:
            row = tx.audit.vouched("switch", name)
        except HistoryBroken:  # nothing proves that nobody turned it off
            return SwitchState(name=name, last=switch, genuine=False)
        if row is None or switch is None:
            genuine = row is None and switch is None
        else:
            genuine = holds(self._keys, row) and row.event.data == switch_facts(switch)
        return SwitchState(name=name, last=switch, genuine=genuine)

    def turn(self, tx: Transaction, name: SwitchName, *, on: bool, by: Principal) -> bool:
        """Turn it on or off, audited; False when it stood so already."""
        before = self.state(tx, name)
        if before.genuine and before.on is on:
            return False
        now = self._clock.now()
        switch = Switch(name=name, on=on, changed_at=now, changed_by=by.id)
        if not before.genuine:  # it may stand so by somebody else's hand: the row has to be ours
            tx.switches.put(Switch(name=name, on=not on, changed_at=now, changed_by=by.id))
        if not tx.switches.put(switch):
            return False  # somebody else turned it at the same moment
        tx.audit.append(
            AuditEvent(
                action=SWITCH_CHANGED, actor=by, subject=name, at=now, data=switch_facts(switch)
            )
        )
        return True


def switch_facts(switch: Switch) -> dict[str, str]:
    """What the audit says of a switch."""
    return {
        "on": str(switch.on).lower(),
        "changed_at": switch.changed_at.astimezone(UTC).isoformat(),
        "by": switch.changed_by,
    }
