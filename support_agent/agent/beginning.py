"""How a turn begins: with a message just taken, with what is unread, or where its owner left it."""

from dataclasses import dataclass, replace
from itertools import takewhile

import structlog

from support_agent.agent.ending import Ending
from support_agent.agent.restoring import Restoring
from support_agent.agent.state import RunState
from support_agent.domain.audit import RUN_RESUMED, AuditEvent
from support_agent.domain.conversation import (
    Author,
    Claim,
    Conversation,
    Message,
    Waiting,
)
from support_agent.domain.errors import Conflict, ConversationBusy, RunBusy, RunNotFound
from support_agent.domain.people import (
    Asker,
    Principal,
    PrincipalKind,
    Proof,
    customer_principal,
)
from support_agent.domain.runs import Run, RunStatus
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.storage import Transaction
from support_agent.services.inbox import Inbox, Incoming, Posted
from support_agent.services.memory import CustomerMemory

log = structlog.get_logger(__name__)
LONGEST_BURST = 5  # times the debounce: who goes on and on writing is answered in between


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A message that is in the inbox, and the turn that began with it, if one did.

    `answers_it`: the turn read this message, and not only what came before it. `alone`: it began
    with nothing else.
    """

    posted: Posted
    state: RunState | None = None
    answers_it: bool = False
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """There is something to do, but not yet."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """Claims conversations and starts runs. A conversation has one owner at a time, by its lease.

    Attributes:
        lease_s: of a turn; its owner is thought dead after it.
        debounce_s: how long the customer has to have written nothing.
        max_attempts: owners a run may have had before it is a dead letter.
    """

    inbox: Inbox
    memory: CustomerMemory
    restoring: Restoring
    ending: Ending
    clock: Clock
    ids: Ids
    lease_s: float
    debounce_s: float
    max_attempts: int

    def take(
        self, tx: Transaction, conversation: Conversation, text: str, incoming: Incoming
    ) -> Taken:
        """Put a message in the inbox and, where nothing stands before it, start its run."""
        claim = tx.conversations.claim(conversation.id, lease_s=self.lease_s)
        if claim is None or claim.has_orphan or claim.has_unread:
            posted = self.inbox.post(tx, conversation, text, incoming)
            state = None if claim is None else self._go_on(tx, conversation.id, claim)
            return _taken(tx, posted, state)
        run_id = self.ids.new("run")
        seq = self.inbox.receive(tx, conversation, text, incoming, run_id=run_id)
        message = Message(
            conversation_id=conversation.id,
            seq=seq,
            author=Author.CUSTOMER,
            text=text,
            at=self.clock.now(),
            run_id=run_id,
        )
        run = self._run(
            conversation, claim, id_=run_id, trigger_seq=seq, operator=incoming.operator
        )
        # A channel that is less sure of who is writing now than it was then is believed.
        run = replace(run, assurance=min(run.assurance, incoming.binding.assurance))
        self._start(tx, conversation, run, text)
        binding = incoming.binding
        asker = _asker(run, binding.customer_id, binding.principal)
        return Taken(
            posted=Posted(conversation_id=conversation.id, seq=seq),
            state=self.restoring.begun(tx, run, asker, message),
            answers_it=True,
            alone=True,
        )

    def answer(self, tx: Transaction, posted: Posted) -> Taken | Later | None:
        """As `next`, for who waits for the answer to this message."""
        begun = self.next(tx, posted.conversation_id)
        return _taken(tx, posted, begun) if isinstance(begun, RunState) else begun

    def next(
        self, tx: Transaction, conversation_id: str, *, held: int | None = None
    ) -> RunState | Later | None:
        """The next turn of a conversation: the one that its owner left, else what is unread.

        `held` is the epoch of a lease of one's own. None: there is nothing to do.
        """
        waiting = tx.conversations.waiting(conversation_id)
        if waiting is None:
            return None
        burst_s = self._burst_s(waiting)
        if not waiting.is_running and burst_s is None:
            return None
        if not waiting.is_running and burst_s:
            return Later(seconds=burst_s)
        claim = tx.conversations.claim(conversation_id, lease_s=self.lease_s, held=held)
        if claim is None:
            return Later(seconds=max(0.0, waiting.left_s))
        return self._go_on(tx, conversation_id, claim, held=held)

    def reopen(self, tx: Transaction, run_id: str, *, operator: str | None, via: str) -> RunState:
        """Go on with a run that was stopped, is a dead letter, or whose owner is gone.

        `operator`: None when it is the customer who wants it; who wrote for them before stays.

        Raises:
            RunNotFound: unknown.
            ConversationBusy: its owner still has it.
            Conflict: it has ended, the customer has written since, or a person has it.
        """
        found = tx.runs.get(run_id)
        if found is None:
            raise RunNotFound(run_id)
        waiting = tx.conversations.waiting(found.conversation_id)
        # Before it is judged: who has the row may be about to answer a newer message.
        claim = tx.conversations.claim(found.conversation_id, lease_s=self.lease_s)
        run, conversation = tx.runs.get(run_id), tx.conversations.get(found.conversation_id)
        if run is None or conversation is None or conversation.customer_id is None:
            raise RunNotFound(run_id)
        self._check_resumable(tx, run, conversation)
        left_s = waiting.left_s if waiting else 0.0
        if claim is None and run.status is RunStatus.RUNNING:
            raise RunBusy(run.id, conversation.id, left_s=left_s)
        if claim is None:
            raise ConversationBusy(conversation.id, left_s=left_s)
        if run.status is RunStatus.RUNNING:
            taken = tx.runs.take_over(conversation.id, epoch=claim.epoch, operator=operator)
        else:
            reopened = tx.runs.reopen(run_id, epoch=claim.epoch, operator=operator)
            taken = replace(run, epoch=claim.epoch, answer_seq=None) if reopened else None
        if taken is None:
            raise ConversationBusy(conversation.id)
        principal = customer_principal(conversation.customer_id, via=via)
        tx.audit.append(self._resumed(run, operator, principal))
        asker = _asker(taken, conversation.customer_id, principal)
        asker = replace(asker, operator=operator or asker.operator)
        return self.restoring.begun(tx, taken, asker)

    def _resumed(self, run: Run, operator: str | None, customer: Principal) -> AuditEvent:
        """The row says who went on with it last; of all who ever did nobody may decide."""
        staff = operator and Principal(
            kind=PrincipalKind.OPERATOR,
            id=operator,
            person_id=None,
            proof=Proof.ASSERTED,
            via=customer.via,
        )
        return AuditEvent(
            action=RUN_RESUMED,
            actor=staff or customer,
            subject=run.id,
            at=self.clock.now(),
            data={"conversation": run.conversation_id},
        )

    def _check_resumable(self, tx: Transaction, run: Run, conversation: Conversation) -> None:
        if run.status is RunStatus.RUNNING:
            return
        if run.status not in {RunStatus.STOPPED, RunStatus.DEAD}:
            raise Conflict(f"run {run.id!r} ended as {run.status}: there is nothing to resume")
        if conversation.erased:
            raise Conflict(f"the texts of run {run.id!r} were erased: there is nothing to resume")
        if conversation.handed_off:
            raise Conflict(
                f"a person has the conversation of run {run.id!r}; give it back first: "
                f"`support-agent conversations return {conversation.id}`"
            )
        # Not by `trigger_seq`: what another person had written by then is not this run's to answer.
        messages = tx.conversations.messages(conversation.id)
        written = [message for message in messages if message.author is Author.CUSTOMER]
        if written and written[-1].run_id != run.id:
            raise Conflict(f"run {run.id!r} was overtaken: the customer has written since")

    def _burst_s(self, waiting: Waiting) -> float | None:
        """Seconds until what is unread is a whole message; None when nothing is."""
        if waiting.newest_s is None or waiting.oldest_s is None:
            return None
        quiet = self.debounce_s - waiting.newest_s
        longest = self.debounce_s * LONGEST_BURST - waiting.oldest_s
        return max(0.0, min(quiet, longest))

    def _go_on(
        self, tx: Transaction, conversation_id: str, claim: Claim, *, held: int | None = None
    ) -> RunState | None:
        """With what was claimed; given back where there is nothing to go on with after all."""
        conversation, state = tx.conversations.get(conversation_id), None
        if conversation is not None and conversation.customer_id is not None:
            customer = customer_principal(conversation.customer_id, via=conversation.channel)
            # Its own owner, who could not go on for a while, is not another one.
            counts = held is None or claim.epoch != held + 1
            state = (
                self._take_over(tx, conversation, customer, claim, counts=counts)
                if claim.has_orphan
                else self._read(tx, conversation, customer, claim)
            )
        if state is None:
            tx.conversations.release(conversation_id, epoch=claim.epoch)
        return state

    def _take_over(
        self,
        tx: Transaction,
        conversation: Conversation,
        customer: Principal,
        claim: Claim,
        *,
        counts: bool,
    ) -> RunState | None:
        run = tx.runs.take_over(conversation.id, epoch=claim.epoch, counts=counts)
        if run is None:
            return None
        log.warning("run.taken_over", run_id=run.id, attempt=run.attempts, epoch=run.epoch)
        asker = _asker(run, customer.id, customer)
        if run.attempts > self.max_attempts:
            self.ending.bury(tx, run, conversation, asker)
            return None
        return self.restoring.begun(tx, run, asker)

    def _read(
        self, tx: Transaction, conversation: Conversation, customer: Principal, claim: Claim
    ) -> RunState | None:
        """One run for what is unread; what somebody else wrote for the customer is another one."""
        unread = tx.conversations.unread(conversation.id)
        written_by = {(one.operator, one.assurance) for one in unread[:1]}
        unread = tuple(takewhile(lambda u: (u.operator, u.assurance) in written_by, unread))
        if not unread:
            return None
        run = self._run(
            conversation,
            claim,
            id_=self.ids.new("run"),
            trigger_seq=conversation.last_seq,
            operator=unread[-1].operator,
        )
        run = replace(run, assurance=min(run.assurance, unread[-1].assurance))
        tx.conversations.mark_read(
            conversation.id,
            run_id=run.id,
            through_seq=unread[-1].seq,
            last_seq=run.trigger_seq,
        )
        self._start(tx, conversation, run, "\n".join(one.text for one in unread))
        return self.restoring.begun(tx, run, _asker(run, customer.id, customer))

    def _start(self, tx: Transaction, conversation: Conversation, run: Run, text: str) -> None:
        writing = replace(conversation, assurance=run.assurance)
        self.memory.hear(tx, writing, text, seq=run.trigger_seq, at=run.started_at)
        if not tx.runs.start(run):
            raise ConversationBusy(conversation.id)

    def _run(
        self,
        conversation: Conversation,
        claim: Claim,
        *,
        id_: str,
        trigger_seq: int,
        operator: str | None,
    ) -> Run:
        return Run(
            id=id_,
            conversation_id=conversation.id,
            trigger_seq=trigger_seq,
            status=RunStatus.RUNNING,
            stop_reason=None,
            operator=operator,
            started_at=self.clock.now(),
            assurance=conversation.assurance,
            epoch=claim.epoch,
        )


def _taken(tx: Transaction, posted: Posted, state: RunState | None) -> Taken:
    """A run may begin with what somebody else wrote before, and leave this message to the next."""
    message = tx.conversations.message(posted.conversation_id, posted.seq)
    reads = state is not None and message is not None and message.run_id == state.run.id
    return Taken(posted=posted, state=state, answers_it=reads)


def _asker(run: Run, customer_id: str, principal: Principal) -> Asker:
    return Asker(
        customer_id=customer_id,
        principal=principal,
        operator=run.operator,
        conversation_id=run.conversation_id,
        run_id=run.id,
    )
