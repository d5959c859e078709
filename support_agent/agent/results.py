"""What a message came to, as whoever sent it is told: at the end of its turn, or from the books."""

from dataclasses import dataclass

from support_agent.domain.refunds import Quote, RefundRequest
from support_agent.domain.runs import Run, RunStatus, RunStep, StopReason, Usage
from support_agent.ports.storage import Transaction
from support_agent.services.stored_requests import group_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """What a message came to. `answer` holds the model's words and the sentences code added.

    It is empty where a person has the conversation: then nobody but them answers.
    """

    conversation_id: str
    run_id: str
    status: RunStatus
    stop_reason: StopReason
    answer: str
    steps: tuple[RunStep, ...]
    quotes: tuple[Quote, ...]
    requests: tuple[RefundRequest, ...]
    usage: Usage


def result_for(tx: Transaction, conversation_id: str, seq: int) -> TurnResult | None:
    """What the run that read a message came to; None while none has, or it goes on."""
    message = tx.conversations.message(conversation_id, seq)
    run = tx.runs.get(message.run_id) if message and message.run_id else None
    return None if run is None else result_of(tx, run)


def result_of(tx: Transaction, run: Run) -> TurnResult | None:
    """What a run came to; None while it goes on."""
    return None if run.stop_reason is None else _stored(tx, run, run.stop_reason)


def _stored(tx: Transaction, run: Run, reason: StopReason) -> TurnResult:
    """Quotes and requests as they stand now."""
    steps = tx.runs.steps(run.id)
    answer = tx.conversations.message(run.conversation_id, run.answer_seq or 0)
    return TurnResult(
        conversation_id=run.conversation_id,
        run_id=run.id,
        status=run.status,
        stop_reason=reason,
        answer=answer.text if answer else "",
        steps=steps,
        quotes=_shown(tx, run, steps),
        requests=spoken_of(tx, request_ids_of(steps)),
        usage=run.usage,
    )


def _shown(tx: Transaction, run: Run, steps: tuple[RunStep, ...]) -> tuple[Quote, ...]:
    """The quotes that the answer showed: those of its own calls, and open ones shown again."""
    own = (tx.quotes.get(quote_id) for quote_id in _ids(steps, "quote_ids"))
    quotes = (*(quote for quote in own if quote), *tx.quotes.open_in(run.conversation_id))
    shown = {q.id: q for q in quotes if q.shown_seq is not None and q.shown_seq == run.answer_seq}
    return tuple(shown.values())


def spoken_of(tx: Transaction, request_ids: list[str]) -> tuple[RefundRequest, ...]:
    """The requests that a run's tools spoke of, as they stand now, with what belongs to them."""
    found = [tx.requests.get(request_id) for request_id in dict.fromkeys(request_ids)]
    groups = {r.group_id: group_of(tx, r) for r in found if r is not None}
    return tuple(request for group in groups.values() for request in group)


def request_ids_of(steps: tuple[RunStep, ...]) -> list[str]:
    """The requests that the tools of these steps spoke of."""
    return _ids(steps, "request_ids")


def _ids(steps: tuple[RunStep, ...], kind: str) -> list[str]:
    seen = (call.observation for step in steps for call in step.calls if call.observation)
    return [one for observation in seen for one in getattr(observation, kind)]
