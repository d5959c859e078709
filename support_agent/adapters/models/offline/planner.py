"""The next step, from the facts of the conversation alone."""

from typing import assert_never

from support_agent.adapters.models.offline.history import Facts, Quote
from support_agent.adapters.models.offline.intents import Intent
from support_agent.adapters.models.offline.items import leftover
from support_agent.adapters.models.offline.refunding import (
    ask_refund,
    cancel_refund,
    file_refund,
    filed_requests,
    remind,
)
from support_agent.adapters.models.offline.steps import Ask, Call, Say, Step, call
from support_agent.adapters.models.offline.telling import (
    tell_list,
    tell_orders,
    tell_policy,
    tell_requests,
    tell_verdicts,
)
from support_agent.adapters.models.offline.wish import Wish, wish_of
from support_agent.adapters.models.offline.wording import say
from support_agent.domain.consent import Consent

MOST_CALLS = 4  # of one turn

# Said while a quote is open, these may name another refund than the quoted one.
_ABOUT_THE_QUOTE = frozenset({Intent.REFUND_REQUEST, Intent.CONFIRM, Intent.DECLINE, Intent.DETAIL})


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
        case Intent.CANCEL_ORDER:
            return Say(text=say("cancel_order", facts.language))
        case Intent.POLICY:
            return tell_policy(facts)
        case Intent.LIST_ORDERS:
            return tell_list(facts)
        case Intent.PERSON:
            return _hand_off(facts, "reason.asked")
        case Intent.CONFIRM:
            return _yes_to_nothing(facts)
        case Intent.DECLINE:
            return Say(text=say("anything_else", facts.language))
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
    if wish.intent is Intent.PERSON or (
        wish.intent is Intent.CANCEL_REFUND and filed_requests(facts)
    ):
        return _answer(facts, wish)
    if wish.intent in _ABOUT_THE_QUOTE and _is_another(wish, quote):
        return _reminding(facts, wish, quote, ask_refund(facts, wish))
    if wish.consent is Consent.YES:
        return file_refund(facts, quote)
    if wish.consent is Consent.NO or wish.intent is Intent.CANCEL_REFUND:
        return Say(text=say("declined", facts.language))
    if wish.intent in _ABOUT_THE_QUOTE:
        return remind(facts, quote)
    answer = _answer(facts, wish)
    return _reminding(
        facts, wish, quote, Say(text=answer.text) if isinstance(answer, Ask) else answer
    )


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


def _yes_to_nothing(facts: Facts) -> Step:
    """A yes without an open quote: to the offer of a person, or to something long done."""
    if [understood.intent for understood in facts.before[-2:]] == [Intent.UNKNOWN, Intent.UNKNOWN]:
        return _hand_off(facts, "reason.asked")
    filed = filed_requests(facts)
    if filed:
        return Say(text=say("filed_before", facts.language, order=list(filed.values())[-1]))
    return Ask(text=say("what_next", facts.language))
