"""Keeps a run's calls within its own limits and the budgets of conversation, customer and day."""

from support_agent.agent.budget import Budget, RunLimits
from support_agent.agent.state import RunState
from support_agent.domain.errors import ConfigurationError
from support_agent.domain.prices import Price
from support_agent.domain.runs import StopReason, Usage
from support_agent.domain.usage import Hold, OverBudget, UsageAccount
from support_agent.ports.storage import Database, Transaction
from support_agent.services.usage import UsageMeter

OBSERVATION_TOKENS = 800  # of an observation that is not known yet; more is held when it comes
NOTHING = Usage()


class Metering:
    """Every call is held before it is made: mostly in the commit of the step before it."""

    def __init__(
        self,
        *,
        meter: UsageMeter,
        database: Database,
        price: Price | None,
        max_output_tokens: int,
        limits: RunLimits,
    ) -> None:
        self._meter = meter
        self._database = database
        self._price = price
        self._max_output_tokens = max_output_tokens
        self._limits = limits

    def check(self, prompt_tokens: int) -> None:
        """Stop the start when a limit leaves no room for even one call.

        Raises:
            ConfigurationError: names the variable.
        """
        self._meter.check(self._call(prompt_tokens))
        room = Budget(limits=self._limits).output_room(prompt_tokens, self._price)
        if isinstance(room, StopReason):
            name = "MAX_COST_MICROS" if room is StopReason.COST_BUDGET else "MAX_TOKENS"
            raise ConfigurationError(
                f"leaves no room for a single model call: the prompt alone is about "
                f"{prompt_tokens} tokens",
                setting=f"SUPPORT_AGENT_LIMITS__{name}",
            )

    def begin(self, tx: Transaction, state: RunState, input_tokens: int) -> None:
        """Hold the run's first call in the transaction that starts it."""
        self._exchange(tx, state, ahead=self._call(input_tokens))

    def output_room(self, state: RunState, input_tokens: int) -> int | StopReason:
        """The most tokens the next answer may have, or the run's limit that leaves too few."""
        return state.budget.output_room(input_tokens, self._price)

    async def cover(self, state: RunState, input_tokens: int) -> OverBudget | None:
        """Before a call: None when it is held, the limit that leaves no room for it otherwise.

        What was too much when the run or the step was committed may fit now: the view was cut, or
        an observation is shorter than was feared.
        """
        if not self._is_covered(state, input_tokens):
            ahead = self._call(input_tokens)
            with state.counted_unless_it_fails():
                await self._database.transact(
                    lambda tx: self._exchange(tx, state, ahead=ahead), durable=False
                )
        return state.over

    def step(self, tx: Transaction, state: RunState, input_tokens: int, *, calls: int) -> None:
        """In a step's commit: count its reply, and hold the next call when there will be one.

        There will be when the reply makes calls: each adds an observation to this view.
        """
        size = input_tokens + calls * OBSERVATION_TOKENS
        self._exchange(tx, state, ahead=self._call(size) if calls else None)

    def end(self, tx: Transaction, state: RunState) -> None:
        """In the commit that ends the run: nothing is held after it."""
        self._exchange(tx, state, ahead=None)

    def lost(self, input_tokens: int) -> Usage:
        """What a call may have cost that was broken off before its answer came."""
        cost = self._price.cost_micros(input_tokens, 0) if self._price else 0
        return Usage(requests=1, input_tokens=input_tokens, cost_micros=cost)

    def _is_covered(self, state: RunState, input_tokens: int) -> bool:
        held = state.hold
        if held is None or state.unsettled != NOTHING:
            return False
        return held.usage.input_tokens >= input_tokens

    def _exchange(self, tx: Transaction, state: RunState, *, ahead: Usage | None) -> None:
        result = self._meter.exchange(
            tx, account_of(state), held=state.hold, spent=state.unsettled, ahead=ahead
        )
        state.unsettled = NOTHING
        state.hold = result if isinstance(result, Hold) else None
        state.over = result if isinstance(result, OverBudget) else None

    def _call(self, input_tokens: int) -> Usage:
        """The most a call of this size may cost."""
        output = self._max_output_tokens
        cost = self._price.cost_micros(input_tokens, output) if self._price else 0
        return Usage(requests=1, input_tokens=input_tokens, output_tokens=output, cost_micros=cost)


def account_of(state: RunState) -> UsageAccount:
    """Whom the run's calls are counted for."""
    return UsageAccount(
        conversation_id=state.conversation.id,
        customer_id=state.conversation.customer_id,
        channel=state.conversation.channel,
    )
