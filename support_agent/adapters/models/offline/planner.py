"""The next step, from the facts of the conversation alone."""

from dataclasses import replace
from typing import assert_never

from support_agent.adapters.models.offline.cancelling import cancel_refund, filed_requests
from support_agent.adapters.models.offline.history import Facts, Quote, text_of
from support_agent.adapters.models.offline.intents import Intent
from support_agent.adapters.models.offline.items import leftover
from support_agent.adapters.models.offline.refunding import (
    and_later,
    ask_refund,
    file_refund,
    orders_left,
    remind,
)
from support_agent.adapters.models.offline.steps import Ask, Call, Say, Step, call
from support_agent.adapters.models.offline.telling import (
    tell_items,
    tell_list,
    tell_orders,
    tell_policy,
    tell_process,
    tell_requests,
    tell_total,
    tell_verdicts,
)
from support_agent.adapters.models.offline.wish import Wish, wish_of
from support_agent.adapters.models.offline.wording import say
from support_agent.domain.consent import Consent
from support_agent.domain.reasons import Language

MOST_CALLS = 4  # of one turn
LANGUAGES: tuple[Language, ...] = ("vi", "en")

# Said while a quote is open, these may name another refund than the quoted one.
_ABOUT_THE_QUOTE = frozenset({Intent.REFUND_REQUEST, Intent.CONFIRM, Intent.DECLINE, Intent.DETAIL})
_TAKES_BACK = frozenset({Intent.CANCEL, Intent.CANCEL_REFUND})


def plan(facts: Facts) -> Step:
    """The same facts give the same step; once a result is there, the step after it."""
    if facts.corrected:
        return Say(text=say("gave_up", facts.language))
    if facts.asked is None:
        return Say(text=say("greeting", facts.language))
    wish = wish_of(facts, facts.asked)
    step = _with_quote(facts, wish, facts.quote) if facts.quote else _answer(facts, wish)
    return _within_limits(facts, step)


def _within_limits(facts: Facts, step: Step) -> Step:
    """Only tools that exist, no call twice, no more than a few."""
    if not isinstance(step, Call):
        return step
    if step.name not in facts.tools:
        if "hand_off" not in facts.tools or step.name == "hand_off":
            return Say(text=say("no_tool", facts.language))
        step = _hand_off(facts, "reason.no_tool")
        if not isinstance(step, Call):
            return step
    if len(facts.current) >= MOST_CALLS or facts.result(step.name, step.arguments):
        return Say(text=say("gave_up", facts.language))
    return step


def _answer(facts: Facts, wish: Wish) -> Step:  # noqa: C901, PLR0911, PLR0912 - one line an intent
    match wish.intent:
        case Intent.ORDER_STATUS:
            return tell_orders(facts, wish)
        case Intent.ELIGIBILITY:
            return tell_verdicts(facts, wish)
        case Intent.REFUND_REQUEST:
            return ask_refund(facts, wish)
        case Intent.REFUND_STATUS:
            return tell_requests(facts, wish)
        case Intent.CANCEL_REFUND:
            return cancel_refund(facts, wish)
        case Intent.CANCEL:
            plain = wish.request_id or filed_requests(facts)
            return cancel_refund(facts, wish) if plain else _cancel_what(facts)
        case Intent.CANCEL_ORDER:
            return Say(text=say("cancel_order", facts.language))
        case Intent.ABOUT_CANCEL:
            return _leave_as_is(facts) or Say(text=say("about_cancel", facts.language))
        case Intent.PROGRESS | Intent.PROCESS:
            return _what_became_of_it(facts, wish)
        case Intent.RETURNABLE_ITEMS:
            return tell_items(facts, wish)
        case Intent.TOTAL_REFUND:
            return tell_total(facts, wish, filed=bool(filed_requests(facts)))
        case Intent.POLICY:
            return tell_policy(facts)
        case Intent.LIST_ORDERS:
            return tell_list(facts)
        case Intent.PERSON:
            return _hand_off(facts, "reason.asked")
        case Intent.CONFIRM:
            return _yes_to_nothing(facts, wish)
        case Intent.DECLINE:
            return _leave_as_is(facts) or Say(text=say("anything_else", facts.language))
        case Intent.GREETING:
            return Say(text=say("greeting", facts.language))
        case Intent.THANKS:
            return Say(text=say("thanks", facts.language))
        case Intent.DETAIL | Intent.UNKNOWN:
            again = facts.before and facts.before[-1].intent is Intent.UNKNOWN
            return Ask(text=say("offer_person" if again else "unknown", facts.language))
        case _:
            assert_never(wish.intent)


def _with_quote(facts: Facts, wish: Wish, quote: Quote) -> Step:
    """A quote waits for yes or no; whatever else is said is answered with a reminder of it."""
    if wish.intent is Intent.PERSON:
        return _answer(facts, wish)
    if _cancels_another(facts, wish, quote):
        step = cancel_refund(facts, wish)
        return _reminding(facts, wish, quote, step) if wish.order_ids else step
    if wish.intent in _ABOUT_THE_QUOTE and _is_another(wish, quote):
        return _reminding(facts, wish, quote, ask_refund(facts, wish))
    if wish.consent is Consent.YES:
        return file_refund(facts, quote)
    if wish.consent is Consent.NO or wish.intent in _TAKES_BACK:
        others, declined = _leave_as_is(facts), say("declined", facts.language)
        text = f"{declined} {others.text}" if others else declined
        return Say(text=text + and_later(facts, orders_left(facts)))
    return _neither_yes_nor_no(facts, wish, quote)


def _neither_yes_nor_no(facts: Facts, wish: Wish, quote: Quote) -> Step:
    match wish.intent:
        case Intent.UNKNOWN | Intent.ABOUT_CANCEL:
            return _plain_answer(facts, quote)
        case Intent.PROGRESS | Intent.PROCESS | Intent.REFUND_STATUS if not _asks_of_another(
            facts, wish, quote
        ):
            waits = say("not_filed_yet", facts.language, order=quote.order_id)
            return Ask(text=f"{waits} {_plain_answer(facts, quote).text}")
        case intent if intent in _ABOUT_THE_QUOTE:
            return remind(facts, quote)
        case _:
            step = _answer(facts, wish)
            answer = Say(text=step.text) if isinstance(step, Ask) else step
            return _reminding(facts, wish, quote, answer)


def _asks_of_another(facts: Facts, wish: Wish, quote: Quote) -> bool:
    """Whether the state of something else than the quoted refund is asked for."""
    if wish.order_ids or wish.request_id:
        return quote.order_id not in wish.order_ids
    return wish.intent is Intent.REFUND_STATUS and bool(filed_requests(facts))


def _cancels_another(facts: Facts, wish: Wish, quote: Quote) -> bool:
    """Whether a request is to be cancelled; a plain no answers the quote and leaves requests."""
    if wish.intent not in _TAKES_BACK or wish.consent is Consent.NO:
        return False
    if wish.order_ids or wish.request_id:
        return quote.order_id not in wish.order_ids
    filed = any(request.is_open for request in filed_requests(facts))
    return wish.intent is Intent.CANCEL_REFUND and filed


def _is_another(wish: Wish, quote: Quote) -> bool:
    """Whether the customer now names another order, amount or item than the quote's."""
    if wish.order_ids and wish.order_ids[0] != quote.order_id:
        return True
    if wish.amount_unclear or (wish.amount is not None and wish.amount != quote.amount):
        return True
    names_goods = wish.intent is Intent.REFUND_REQUEST and bool(leftover(wish.rest))
    return names_goods and wish.amount is None and wish.consent is Consent.UNCLEAR


def _reminding(facts: Facts, wish: Wish, quote: Quote, step: Step) -> Step:
    """A refused or finished side question leaves the quote open, unless it came with a no."""
    if not isinstance(step, Say) or wish.consent is Consent.NO:
        return step
    return Ask(text=f"{step.text} {remind(facts, quote).text}")


def _hand_off(facts: Facts, reason: str) -> Step:
    handed = call(facts, "hand_off", {"reason": say(reason, facts.language)})
    if isinstance(handed, Call):
        return handed
    return Say(text=say("broken" if handed.refusal else "handed_off", facts.language))


def _plain_answer(facts: Facts, quote: Quote) -> Ask:
    """What was said is neither a yes nor a no: say which words are."""
    text = say("plain_answer", facts.language, order=quote.order_id)
    if facts.before and facts.before[-1].intent is Intent.UNKNOWN:
        text += say("or_a_person", facts.language)
    return Ask(text=text)


def _cancel_what(facts: Facts) -> Step:
    """Nothing was filed here; what else could be meant is asked, not guessed."""
    return Ask(text=say("cancel_what", facts.language))


def _leave_as_is(facts: Facts) -> Say | None:
    """A no cancels nothing that was filed: say so, and how it is cancelled."""
    left = [filed for filed in filed_requests(facts) if filed.is_open]
    if not left:
        return None
    orders = ", ".join(dict.fromkeys(filed.order_id for filed in left))
    text = say("left_as_is", facts.language, orders=orders)
    waits = any(filed.status == "PENDING_APPROVAL" for filed in left)
    return Say(text=text + (say("to_cancel", facts.language) if waits else ""))


def _what_became_of_it(facts: Facts, wish: Wish) -> Step:
    """The state of what was filed, else of the order; who decides is in the rules."""
    filed_orders = {filed.order_id for filed in filed_requests(facts)}
    if wish.request_id or (filed_orders and (not wish.order_ids or wish.order_id in filed_orders)):
        if wish.intent is Intent.PROCESS:
            return tell_process(facts, wish)
        return tell_requests(facts, wish)
    return tell_policy(facts) if wish.intent is Intent.PROCESS else tell_orders(facts, wish)


def _yes_to_nothing(facts: Facts, wish: Wish) -> Step:
    """A yes without an open quote: to the offer of a person, to the next order, or to nothing."""
    if any(say("offer_person", language) in facts.last_said for language in LANGUAGES):
        return _hand_off(facts, "reason.asked")
    left = orders_left(facts)
    if left:
        return ask_refund(facts, replace(wish, order_ids=left, order_id=left[0]))
    if not facts.before or facts.before[-1].intent is not Intent.CONFIRM:
        return Ask(text=say("what_next", facts.language))
    last = facts.past[-1] if facts.past else None
    just_filed = last is not None and last.name == "request_refund" and not last.refusal
    repeated = [understood.intent for understood in facts.before[-2:]].count(Intent.CONFIRM) > 1
    if last is None or not just_filed or repeated:
        return Ask(text=say("nothing_open", facts.language))
    return Say(text=say("filed_before", facts.language, order=text_of(last.data, "order_id")))
