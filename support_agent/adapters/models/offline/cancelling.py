"""Steps that take a filed refund back, and what is known of the requests filed here."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from support_agent.adapters.models.offline.history import Facts, Outcome, rows_of, text_of
from support_agent.adapters.models.offline.steps import Ask, Call, Say, Step, call, refused
from support_agent.adapters.models.offline.telling import ask_status, requests_in
from support_agent.adapters.models.offline.wish import Wish, says_all
from support_agent.adapters.models.offline.wording import say

MOST_CANCELLED = 2  # of one message; each may cost two steps
_CANCELLABLE = frozenset({"PENDING_APPROVAL", "APPROVED"})
_FINAL = frozenset({"REFUNDED", "REJECTED", "CANCELLED", "EXPIRED", "FAILED"})
_TOO_LATE = frozenset({"ALREADY_DECIDED", "ALREADY_PAYING", "ILLEGAL_TRANSITION"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Filed:
    """A request filed in this conversation, with the status that was last told."""

    request_id: str
    order_id: str
    status: str
    is_recalled: bool = False  # it may have been told of only, and filed elsewhere

    @property
    def is_open(self) -> bool:
        return self.status not in _FINAL


def cancel_refund(facts: Facts, wish: Wish) -> Step:
    """Cancel the request that is named or meant; look for it first where that is not plain."""
    if wish.request_id:
        return _cancel_one(facts, wish.request_id)
    in_question = [
        filed
        for filed in filed_requests(facts)
        if not wish.order_ids or filed.order_id in wish.order_ids
    ]
    fitting = [filed for filed in in_question if filed.is_open]
    if len(fitting) == 1 and fitting[0] is in_question[-1] and not fitting[0].is_recalled:
        return _cancel_one(facts, fitting[0].request_id)
    # Of several some may have been paid or decided meanwhile.
    among = frozenset(filed.request_id for filed in fitting)
    return _find_and_cancel(facts, replace(wish, order_id=None) if among else wish, among)


def filed_requests(facts: Facts) -> tuple[Filed, ...]:
    """Requests filed in this conversation, oldest first, each as it was last told."""
    filed = {
        text_of(row, "id"): Filed(
            request_id=text_of(row, "id"),
            order_id=text_of(row, "order_id"),
            status=text_of(row, "status"),
            is_recalled=True,
        )
        for row in facts.recalled
    }
    for outcome in facts.past:
        for row in (outcome.data, *rows_of(outcome.data, "requests")):
            request_id, status = text_of(row, "request_id"), text_of(row, "status")
            if outcome.name == "request_refund" and request_id:
                order_id = text_of(row, "order_id")
                filed[request_id] = Filed(request_id=request_id, order_id=order_id, status=status)
            elif request_id in filed and status:
                filed[request_id] = replace(filed[request_id], status=status)
    return tuple(filed.values())


def _cancel_each(facts: Facts, requests: list[tuple[str, str]]) -> Step:
    told: list[str] = []
    for request_id, order_id in requests:
        step = _cancel_one(facts, request_id)
        if not isinstance(step, Say):
            return step
        told.append(say("of_order", facts.language, order=order_id, told=step.text))
    return Say(text=" ".join(told))


def _cancel_one(facts: Facts, request_id: str) -> Step:
    cancelled = call(facts, "cancel_refund", {"request_id": request_id})
    if isinstance(cancelled, Call):
        return cancelled
    if cancelled.refusal:
        if cancelled.refusal.code in _TOO_LATE and "refund_status" in facts.tools:
            # Its state is stated beside the answer by code.
            stated = call(facts, "refund_status", {"request_id": request_id})
            if isinstance(stated, Call):
                return stated
        return refused(facts, cancelled.refusal)
    done = text_of(cancelled.data, "status") == "CANCELLED"
    return Say(text=say("cancelled" if done else "cancel_sent", facts.language))


def _ask_which(facts: Facts, requests: list[tuple[str, str]]) -> Ask:
    about = ", ".join(
        request_id + (say("in_order", facts.language, order=order_id) if order_id else "")
        for request_id, order_id in requests
    )
    return Ask(text=say("which_request", facts.language, requests=about))


def _find_and_cancel(facts: Facts, wish: Wish, among: frozenset[str]) -> Step:
    """As they stand now: cancel the one that can be, ask which of several; all if so said."""
    found = ask_status(facts, wish)
    if isinstance(found, Call):
        return found
    if found.refusal:
        return refused(facts, found.refusal, wish.order_id or "")
    cancellable = [
        (request_id, order_id)
        for request_id, order_id in _cancellable(found)
        if not among or request_id in among
    ]
    if not cancellable:
        state = requests_in(facts, found)
        about = say("about_order", facts.language, order=wish.order_id) if wish.order_id else ""
        none = say("none_to_cancel", facts.language, about=about)
        return Say(text=f"{none} {state}".strip())
    # "Cancel it" may mean the newest, which is paid: that is no reason to cancel another.
    plain = not among or bool(wish.order_ids) or says_all(wish.rest)
    return _cancel_or_ask(facts, cancellable, plain=plain, all_of_them=says_all(wish.rest))


def _cancellable(found: Outcome) -> Iterator[tuple[str, str]]:
    """Requests that can be cancelled; those filed as one go together, by the first one's id."""
    told: set[str] = set()
    for row in rows_of(found.data, "requests"):
        request_id = text_of(row, "part_of") or text_of(row, "request_id")
        if text_of(row, "status") in _CANCELLABLE and request_id and request_id not in told:
            told.add(request_id)
            yield request_id, text_of(row, "order_id")


def _cancel_or_ask(
    facts: Facts, cancellable: list[tuple[str, str]], *, plain: bool, all_of_them: bool
) -> Step:
    request_id, order_id = cancellable[0]
    if len(cancellable) == 1 and plain:
        return _cancel_one(facts, request_id)
    if len(cancellable) == 1:
        left = say("one_left_to_cancel", facts.language, request=request_id, order=order_id)
        return Ask(text=left)
    if all_of_them and len(cancellable) <= MOST_CANCELLED:
        return _cancel_each(facts, cancellable)
    return _ask_which(facts, cancellable)
