"""What a run has in memory, built from what is stored: for a new run and one that goes on."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from support_agent.agent.budget import WITHOUT_RUNNING, Budget, RunLimits, what_is_asked
from support_agent.agent.history import History, history_of, read_history
from support_agent.agent.loop import AgentLoop
from support_agent.agent.shown import shown_of
from support_agent.agent.state import RunState
from support_agent.domain.conversation import Conversation, Message
from support_agent.domain.errors import RunNotFound
from support_agent.domain.people import Asker
from support_agent.domain.runs import CallTools, Observation, RecordedCall, Run, RunStep
from support_agent.ports.storage import Transaction
from support_agent.services.hand_offs import called_by_the_agent
from support_agent.services.terms import RefundTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoring:
    """Reads a run's state, in the transaction that takes the run."""

    loop: AgentLoop
    limits: RunLimits
    terms: RefundTerms

    def begun(
        self, tx: Transaction, run: Run, asker: Asker, message: Message | None = None
    ) -> RunState:
        """The state of a run that was just stored as running; its first model call is held.

        `message` is what it was started with, when that is all that is new.
        """
        conversation = tx.conversations.get(run.conversation_id)
        if conversation is None:
            raise RunNotFound(run.id)
        state = self._state(tx, run, conversation, asker, message)
        if not state.silent:
            self.loop.begin(tx, state)
        return state

    def _state(
        self,
        tx: Transaction,
        run: Run,
        conversation: Conversation,
        asker: Asker,
        message: Message | None,
    ) -> RunState:
        history, calls_so_far = self._history(tx, run, conversation, message)
        own = [step for step in history.steps if step.run_id == run.id]
        seen = [call.observation for step in own for call in step.calls if call.observation]
        return RunState(
            run=run,
            conversation=replace(conversation, assurance=run.assurance),
            asker=asker,
            turns=[*history.turns],
            shown=shown_of(history),
            budget=self._budget(run, own),
            step=len(own),
            call_index=calls_so_far,
            # What it decided when it called a person is still said; who took over by themselves
            # is not talked over.
            handed_off=conversation.handed_off and called_by_the_agent(tx, conversation.id),
            silent=conversation.handed_off and not own,
            left_open=own[-1] if own else None,
            quote_ids=[quote_id for one in seen for quote_id in one.quote_ids],
            request_ids=[request_id for one in seen for request_id in one.request_ids],
        )

    def _history(
        self, tx: Transaction, run: Run, conversation: Conversation, new: Message | None
    ) -> tuple[History, int]:
        """What the model may be shown, and how often it was asked before."""
        zone = self.terms.zone
        if new is not None and (new.seq == 1 or conversation.handed_off):
            # Nothing was said before, or a person has the conversation and no model is asked.
            return history_of([new], (), zone, known=conversation.known), 0
        # What a run that goes on was answered with stands behind its steps, now and later.
        history = read_history(
            tx,
            conversation.id,
            through_seq=run.trigger_seq,
            zone=zone,
            going_on=run.id,
            known=conversation.known,
        )
        cut = history.cut
        after = cut.through_seq if cut else 0
        calls = tx.runs.model_calls(conversation.id, after_seq=after)
        return history, calls + (cut.model_calls if cut else 0)

    def _budget(self, run: Run, own: Sequence[RunStep]) -> Budget:
        answered = [call for step in own for call in step.calls if call.observation]
        observations = [call.observation for call in answered if call.observation]
        return Budget(
            limits=self.limits,
            usage=run.usage,
            steps=run.steps,
            consecutive_errors=max(run.consecutive_errors, _errors_at_the_end(observations)),
            tool_calls=sum(one.error_code not in WITHOUT_RUNNING for one in observations),
            calls=_asked(own, answered),
        )


def _asked(own: Sequence[RunStep], answered: Sequence[RecordedCall]) -> "Counter[tuple[str, str]]":
    """What was asked for how often; calls that are still to run are counted when they do."""
    still_open = own[-1] if own else None
    done = {recorded.call.id for recorded in answered}
    return Counter(
        what_is_asked(call)
        for step in own
        if isinstance(step.decision, CallTools)
        for call in step.decision.calls
        if step is not still_open or call.id in done
    )


def _errors_at_the_end(observations: Sequence[Observation]) -> int:
    """How many in a row: an owner that is gone never told. What was not executed is none."""
    errors = 0
    for observation in observations:
        if observation.error_code not in WITHOUT_RUNNING:
            errors = 0 if observation.ok else errors + 1
    return errors
