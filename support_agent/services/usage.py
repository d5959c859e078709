"""Counts what models cost each conversation, customer, channel and day, and says when to stop."""

from collections.abc import Mapping
from datetime import date, tzinfo

from support_agent.domain.errors import ConfigurationError
from support_agent.domain.runs import Usage
from support_agent.domain.usage import (
    Allowances,
    Hold,
    Measure,
    OverBudget,
    Scope,
    UsageAccount,
)
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Transaction

NOTHING = Usage()
# What a narrow limit has a customer do, a new conversation for one, is no use under a wide one.
WIDEST_FIRST = tuple(reversed(Scope))


def budget_setting(scope: Scope, measure: Measure) -> str:
    """The variable that limits it, by its environment name."""
    day = "" if scope is Scope.CONVERSATION else "_day"
    return f"SUPPORT_AGENT_BUDGETS__{scope}{day}_{measure}".upper()


class UsageMeter:
    """Counts a call before it is made, as what it may cost at most, and sets it right after it.

    So two calls at once never pass a limit together, and what a process that died had under way
    stays counted.
    """

    def __init__(self, *, allowances: Allowances, clock: Clock, zone: tzinfo) -> None:
        self._allowances = allowances
        self._clock = clock
        self._zone = zone

    def check(self, call: Usage) -> None:
        """Stop the start when what one call may cost is more than a scope may ever use.

        Raises:
            ConfigurationError: names the variable.
        """
        for scope, allowance in self._allowances.items():
            passed = allowance.passed_by(call)
            if passed is not None:
                measure, limit = passed
                raise ConfigurationError(
                    f"{limit} is too small for a single model call, which may use up to "
                    f"{getattr(call, measure)}; raise it, or shorten MODEL__MAX_OUTPUT_TOKENS",
                    setting=budget_setting(scope, measure),
                )

    def exchange(
        self,
        tx: Transaction,
        account: UsageAccount,
        *,
        held: Hold | None,
        spent: Usage,
        ahead: Usage | None,
    ) -> Hold | OverBudget | None:
        """Put what was spent in the place of what was held, and hold `ahead` for the next call.

        Returns the new hold, None without `ahead`. Over a limit nothing is held, what was spent is
        counted all the same, and the limit comes back. What was held on another day is settled on
        that day.
        """
        if held is None and ahead is None and spent == NOTHING:
            return None
        today = self._today()
        if ahead is None:
            self._settle(tx, account, held, spent, on=held.day if held else today)
            return None
        if held is not None and held.day != today:
            self._settle(tx, account, held, spent, on=held.day)
            held, spent = None, NOTHING
        taken = held.usage if held else NOTHING
        used = tx.usage.move(account, today, add=spent + ahead, take=taken)
        over = self._over(used)
        if over is not None:
            # The rows are locked since they were raised, so nobody has counted on it.
            tx.usage.move(account, today, add=NOTHING, take=ahead)
            return over
        return Hold(usage=ahead, day=today)

    def _settle(
        self, tx: Transaction, account: UsageAccount, held: Hold | None, spent: Usage, *, on: date
    ) -> None:
        tx.usage.move(account, on, add=spent, take=held.usage if held else NOTHING)

    def _over(self, used: Mapping[Scope, Usage]) -> OverBudget | None:
        for scope in WIDEST_FIRST:
            count, allowance = used.get(scope), self._allowances.get(scope)
            passed = allowance.passed_by(count) if count and allowance else None
            if passed is not None:
                measure, limit = passed
                return OverBudget(scope=scope, measure=measure, limit=limit)
        return None

    def _today(self) -> date:
        return self._clock.now().astimezone(self._zone).date()
