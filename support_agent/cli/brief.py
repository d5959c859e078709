"""The brief of an approver in words: what code computed first, what others wrote last, boxed."""

from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from support_agent.cli.output import print_box, print_facts, say
from support_agent.cli.views import local, money
from support_agent.cli.words import AUTHORS, CHOICES, VERDICTS, label
from support_agent.domain.money import format_money
from support_agent.domain.orders import Moment
from support_agent.domain.reasons import Language, sentence
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.domain.refusals import state_name
from support_agent.domain.wording import pick
from support_agent.services.brief_words import clauses, why_a_person

if TYPE_CHECKING:
    from support_agent.services.briefs import Brief

UNTRUSTED = (
    "do người khác viết: chưa kiểm tra, không đổi được quy định nào",
    "written by others: not checked, changes no rule",
)
BY_THE_MODEL = (
    "lý do của mô hình: do máy viết, chưa kiểm tra, không đổi được quy định nào",
    "the model's reason: made by a machine, not checked, changes no rule",
)
NOTHING = ("(không có)", "(nothing)")
MOST_MESSAGES = 30
Fact = tuple[str, str]


def print_brief(brief: "Brief", language: Language, zone: tzinfo) -> None:
    """Everything in the reader's language, but for what others wrote."""
    words = _Words(brief, language, zone)
    print_facts(list(words.facts()))
    for line in words.history():
        say(line)
    print_box(pick(UNTRUSTED, language), words.foreign())
    if brief.proposals:
        print_box(pick(BY_THE_MODEL, language), words.reasons_of_the_model())


class _Words:
    """One brief, told to one reader."""

    def __init__(self, brief: "Brief", language: Language, zone: tzinfo) -> None:
        self._brief = brief
        self._request = brief.request
        self._language: Language = language
        self._zone = zone

    def facts(self) -> Iterator[Fact]:
        """Label and value; a value without a label goes on with the one above."""
        request = self._request
        head = self._pick("{0} (bản {1}, vòng {2})", "{0} (version {1}, round {2})")
        yield self._fact("request", head.format(request.id, request.version, request.round))
        yield from self._standing()
        yield self._fact("customer", request.customer_id)
        filed = self._pick("{0}, khách trả lời: {1}", "{0}, customer's answer: {1}")
        if request.conversation_id is None:  # filed by staff: there was nobody to ask
            filed = self._pick("{0}, không hỏi khách", "{0}, the customer was not asked")
        yield self._fact("filed", filed.format(self._local(request.created_at), request.consent))
        yield self._fact("by", self._requester())
        to = self._pick("{0} về {1}", "{0} to {1}")
        yield self._fact("amount", to.format(money(request), self._brief.destination))
        if request.filed_minor != request.amount_minor:
            asked = format_money(request.filed_minor, request.currency)
            told = self._pick("khách yêu cầu {0}", "filed with {0}")
            yield self._fact("reduced", told.format(asked))
        yield from self._several("group", [self._other(one) for one in self._brief.group])
        yield self._fact("order", self._order())
        yield from self._verdict()
        yield from self._several("clause", self._clauses())
        yield self._fact("balance", self._balance())
        yield from self._several("why", why_a_person(self._brief, self._language))
        yield from self._needed()

    def history(self) -> Iterator[str]:
        """Earlier decisions, and the customer's other requests."""
        decided = self._pick(
            "đã quyết định: {0}, {1}, lúc {2} (xác thực: {3})",
            "decided: {0} by {1} at {2} (proof: {3})",
        )
        for one in self._brief.decisions:
            choice = pick(CHOICES[one.choice], self._language)
            yield decided.format(choice, one.name, self._local(one.at), one.proof)
        earlier = self._pick("trước đây: {0}", "earlier: {0}")
        for other in self._brief.earlier:
            yield earlier.format(self._other(other))

    def foreign(self) -> list[str]:
        """What people wrote: the newest messages, and the texts of the order."""
        brief = self._brief
        texts = [
            f"{pick(AUTHORS[m.author], self._language)}, {self._local(m.at)}: {m.text}"
            for m in brief.conversation[-MOST_MESSAGES:]
        ]
        if len(brief.conversation) > MOST_MESSAGES:
            more = self._pick("… trước đó còn {0} tin nhắn", "… {0} messages before these")
            texts.insert(0, more.format(len(brief.conversation) - MOST_MESSAGES))
        if brief.account is not None:
            texts.append(f"{self._label('account')}: {brief.account.holder}")
        if brief.order is not None:
            texts += [f"{self._label('item')} {one.id}: {one.name}" for one in brief.order.lines]
            texts += [f"{self._label('note')}: {brief.order.note}"] if brief.order.note else []
        notes = self._pick("ghi chú của {0}: {1}", "note of {0}: {1}")
        texts += [notes.format(d.name, d.note) for d in brief.decisions if d.note]
        return texts or [pick(NOTHING, self._language)]

    def reasons_of_the_model(self) -> list[str]:
        """The calls it made about this request, and its thoughts, as they came."""
        return [
            f"{one.tool} {one.arguments}{f': {one.thought}' if one.thought else ''}"
            for one in self._brief.proposals
        ]

    def _standing(self) -> Iterator[Fact]:
        request = self._request
        status = state_name(request.status, self._language)
        if request.status is not RequestStatus.PENDING_APPROVAL:
            yield self._fact("status", status)
            return
        until = self._pick("{0}, đến {1}", "{0} until {1}")
        yield self._fact("status", until.format(status, self._local(request.expires_at)))
        due = self._local(request.due_at)
        if request.escalations:
            times = self._pick("{0} (đã chuyển cấp {1} lần)", "{0} (escalated {1} times)")
            due = times.format(due, request.escalations)
        yield self._fact("due", due)
        if request.asked_at is not None:
            answered = self._pick("khách đã nhắn lại", "the customer has written since")
            waits = self._pick("chưa có trả lời", "no answer yet")
            then = waits if self._brief.is_held else answered
            yield self._fact("asked", f"{self._local(request.asked_at)}: {then}")

    def _requester(self) -> str:
        requester, operator = self._request.requester, self._request.operator
        typed = self._pick(", do {0} nhập", ", typed by {0}").format(operator) if operator else ""
        told = self._pick("{0} {1} qua {2}{3}", "{0} {1} via {2}{3}")
        return told.format(requester.kind, requester.id, requester.via, typed)

    def _order(self) -> str:
        order = self._brief.order
        if order is None:
            gone = self._pick(
                "{0}: cửa hàng không còn biết đơn này", "{0}: the shop does not know it any more"
            )
            return gone.format(self._request.order_id)
        total = format_money(order.total_minor, order.currency)
        told = self._pick("{0}: {1}, tổng {2}", "{0}: {1}, total {2}")
        text = told.format(order.id, order.status, total)
        if order.delivered_at is None:
            return text
        delivered = self._pick("{0}, giao ngày {1}", "{0}, delivered {1}")
        return delivered.format(text, _day(order.delivered_at, self._zone))

    def _verdict(self) -> Iterator[Fact]:
        found = self._brief.assessment
        if found is None:
            return
        told = self._pick(
            "hôm nay {0}, không kể yêu cầu này: {1}", "{0} today, this request aside: {1}"
        )
        verdict = pick(VERDICTS[found.verdict], self._language)
        yield self._fact("verdict", told.format(verdict, ", ".join(found.reasons)))
        for reason in found.reasons:
            yield "", sentence(reason, self._language, **found.facts)
        if found.days_since_delivery is not None and found.window_days is not None:
            window = self._pick(
                "ngày {0} trên {1}, hạn cuối {2} (xét lúc lập yêu cầu)",
                "day {0} of {1}, last day {2} (judged when it was filed)",
            )
            days, last = found.days_since_delivery, found.last_day
            yield self._fact("window", window.format(days, found.window_days, last))

    def _clauses(self) -> list[str]:
        policy, request = self._brief.policy, self._request
        texts = [f"{policy.id} v{policy.version} {one}" for one in clauses(self._brief)]
        if (request.policy_id, request.policy_version) != (policy.id, policy.version):
            filed = self._pick("lập theo {0} v{1}", "filed under {0} v{1}")
            texts.append(filed.format(request.policy_id, request.policy_version))
        return texts

    def _balance(self) -> str:
        currency = self._request.currency
        payments = self._brief.books.payments
        told = self._pick(
            "đã thu {0}, đã hoàn {1}, kể cả yêu cầu này và các yêu cầu đang mở {2}",
            "captured {0}, refunded {1}, with this and other open requests {2}",
        )
        amounts = (
            sum(payment.captured_minor for payment in payments),
            sum(payment.refunded_minor for payment in payments),
            self._brief.cumulative_minor,
        )
        return told.format(*(format_money(amount, currency) for amount in amounts))

    def _needed(self) -> Iterator[Fact]:
        request = self._request
        one = self._pick("cấp {0}, một người", "level {0}, one person")
        several = self._pick("cấp {0}, {1} người khác nhau", "level {0}, {1} different persons")
        needed = one if request.approvals_needed == 1 else several
        yield self._fact("needed", needed.format(request.required_level, request.approvals_needed))
        if request.status is RequestStatus.PENDING_APPROVAL:
            nobody = self._pick("không ai đủ thẩm quyền", "nobody: no authority reaches")
            yield self._fact("deciders", ", ".join(self._brief.deciders) or nobody)

    def _other(self, other: RefundRequest) -> str:
        told = self._pick("{0} {1} của đơn {2}: {3}", "{0} {1} for order {2}: {3}")
        status = state_name(other.status, self._language)
        return told.format(other.id, money(other), other.order_id, status)

    def _several(self, name: str, values: "tuple[str, ...] | list[str]") -> Iterator[Fact]:
        for number, value in enumerate(values):
            yield ("" if number else self._label(name)), value

    def _fact(self, name: str, value: str) -> Fact:
        return self._label(name), value

    def _label(self, name: str) -> str:
        return label(name, self._language)

    def _pick(self, vietnamese: str, english: str) -> str:
        return pick((vietnamese, english), self._language)

    def _local(self, moment: datetime) -> str:
        return local(moment, self._zone)


def _day(moment: Moment, zone: tzinfo) -> str:
    return (moment.astimezone(zone).date() if isinstance(moment, datetime) else moment).isoformat()
