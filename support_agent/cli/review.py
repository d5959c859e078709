"""`approvals review`: the queue one by one, with single keys. Doing nothing decides nothing."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from support_agent.cli.brief import print_brief
from support_agent.cli.exits import ExitCode, code_of
from support_agent.cli.keystrokes import ENTER, LEFT, at_the_desk, read_key, read_line
from support_agent.cli.options import LONGEST_NOTE, at_most
from support_agent.cli.output import say
from support_agent.cli.proving import As, token_of
from support_agent.cli.runtime import Opened, ready
from support_agent.cli.views import money
from support_agent.cli.words import Lang
from support_agent.domain.errors import ConfigurationError, InvalidInput, SupportAgentError
from support_agent.domain.money import parse_amount
from support_agent.domain.people import Principal
from support_agent.domain.reasons import Language
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.domain.refusals import refusal_sentence, state_name
from support_agent.domain.wording import pick
from support_agent.ports.storage import Page, RequestFilter

if TYPE_CHECKING:
    from support_agent.services.briefs import Brief
    from support_agent.services.decision_desk import Decided
    from support_agent.settings import Settings

PAGE = 50
KEYS = (
    "[a] duyệt  [r] từ chối  [d] giảm số tiền  [k] hỏi khách  [s] bỏ qua  [q] thoát (bỏ qua): ",
    "[a]pprove  [r]eject  re[d]uce  as[k]  [s]kip  [q]uit (skip): ",
)
WAITING = RequestFilter(status=RequestStatus.PENDING_APPROVAL)


def review(*, name: As, lang: Lang = None) -> None:
    """Go through the queue: a approve, r reject, d reduce, k ask, s or Enter skip, q quit.

    Shown is only what NAME may decide. Each decision is about the version just shown; what moved
    meanwhile is refused as stale. Needs a terminal.
    """
    if not at_the_desk():
        raise InvalidInput(
            "review",
            "needs a terminal; without one use `approvals list`, then approve or reject with "
            "--expect VERSION",
        )
    settings = ready()
    token = token_of(name, settings)
    with asyncio.Runner() as runner:
        opened = Opened(runner, settings)
        try:
            prove = opened.container.approvals().prove(name, token, via="cli")
            by = runner.run(prove)
            desk = _Desk(opened, by, lang or settings.shop.language, settings)
            desk.go_through()
        finally:
            opened.close()
    raise typer.Exit(ExitCode.DONE)


class _Desk:
    """One approver at one terminal."""

    def __init__(
        self, opened: Opened, by: Principal, language: Language, settings: "Settings"
    ) -> None:
        self._opened = opened
        self._by = by
        self._language: Language = language
        self._zone = settings.zone
        self._approvals = opened.container.approvals()
        self._done: Counter[str] = Counter()

    def go_through(self) -> None:
        """To the end of the queue, or until the approver has had enough."""
        seen: set[str] = set()
        for request_id in self._queue():
            brief = self._look(request_id)
            if brief.request.status is not RequestStatus.PENDING_APPROVAL:
                continue
            if brief.request.group_id in seen:  # answered with another of its group
                continue
            seen.add(brief.request.group_id)
            if self._by.id not in brief.deciders:
                self._done["others"] += 1
                continue
            if not self._answer(brief):
                break
        self._say_what_was_done()

    def _queue(self) -> Iterator[str]:
        """Ids, page by page: what is decided on the way moves no later one."""
        cursor: str | None = None
        while True:
            page = self._opened.runner.run(self._page(cursor))
            yield from (request.id for request in page.data)
            cursor = page.next_cursor
            if cursor is None:
                return

    async def _page(self, cursor: str | None) -> Page[RefundRequest]:
        return await self._opened.container.database().read(
            lambda tx: tx.requests.list(WAITING, limit=PAGE, cursor=cursor)
        )

    def _look(self, request_id: str) -> "Brief":
        return self._opened.runner.run(self._approvals.brief(request_id))

    def _answer(self, brief: "Brief") -> bool:
        """What one request came to; False once the approver quits."""
        self._show(brief)
        while True:
            key = read_key(pick(KEYS, self._language))
            if key in {"q", LEFT}:
                return False
            if key in {"s", ENTER}:
                self._done["skipped"] += 1
                return True
            if key in {"a", "r", "d", "k"}:  # any other key: ask again
                again = self._try(key, brief)
                if again is None:
                    return True
                brief = again

    def _show(self, brief: "Brief") -> None:
        say()
        print_brief(brief, self._language, self._zone)

    def _try(self, key: str, brief: "Brief") -> "Brief | None":
        """Do it; the brief to go on with when the request is still to be decided here."""
        try:
            outcome = self._decide(key, brief.request)
        except SupportAgentError as error:
            if isinstance(error, ConfigurationError) or code_of(error) is ExitCode.BROKEN:
                raise  # the next one would meet the same
            say(refusal_sentence(error, self._language, self._zone))
        else:
            if outcome is None:
                return brief
            self._tell(key, outcome)
            if key != "d":
                return None
        now = self._look(brief.request.id)
        if now.request.status is not RequestStatus.PENDING_APPROVAL:
            return None
        if self._by.id not in now.deciders:
            return None
        if now.request.version != brief.request.version:
            self._show(now)
        return now

    def _decide(self, key: str, request: RefundRequest) -> "Decided | None":
        """The decision on exactly the version that was shown; None when it was called off."""
        match key:
            case "a":
                work = self._approvals.approve(request.id, by=self._by, expect=request.version)
            case "r":
                note = self._line("Lý do (Enter: không ghi): ", "Why (Enter for no note): ", "note")
                if note is None:  # left: only Enter says that there is no note
                    return None
                work = self._approvals.reject(
                    request.id,
                    by=self._by,
                    expect=request.version,
                    note=at_most(LONGEST_NOTE, "note")(note or None),
                )
            case "k":
                question = self._line(
                    "Hỏi khách (Enter: thôi): ", "Question (Enter to leave it): ", "question"
                )
                if not question:
                    return None
                work = self._approvals.ask(
                    request.id, question=question, by=self._by, expect=request.version
                )
            case _:
                amount = self._line(
                    "Số tiền mới (Enter: thôi): ", "New amount (Enter to leave it): ", "amount"
                )
                if not amount:
                    return None
                work = self._approvals.reduce(
                    request.id,
                    amount_minor=parse_amount(amount, request.currency),
                    by=self._by,
                    expect=request.version,
                )
        decided = self._opened.runner.run(work)
        return self._opened.runner.run(self._opened.container.decision_desk().follow(decided))

    def _line(self, vietnamese: str, english: str, field: str) -> str | None:
        return read_line(pick((vietnamese, english), self._language), field=field)

    def _tell(self, key: str, outcome: "Decided") -> None:
        self._done["decided" if key in "ar" else "amended"] += 1
        for request in (outcome.request, *outcome.group):
            say(f"{request.id} {money(request)}: {state_name(request.status, self._language)}")
        if outcome.trouble is not None:
            later = pick(
                ("đã duyệt; tick sẽ trả lại sau: {0}", "approved; tick pays it later: {0}"),
                self._language,
            )
            told = refusal_sentence(outcome.trouble, self._language, self._zone)
            say(later.format(told))

    def _say_what_was_done(self) -> None:
        told = pick(
            (
                "Đã quyết định {0}, giảm hoặc hỏi {1}, bỏ qua {2}; {3} yêu cầu cần người khác.",
                "{0} decided, {1} reduced or asked, {2} skipped; {3} need somebody else.",
            ),
            self._language,
        )
        counts = (self._done[name] for name in ("decided", "amended", "skipped", "others"))
        say(told.format(*counts))
