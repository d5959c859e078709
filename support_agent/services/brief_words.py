"""What a brief says in words: why a person has to look, and the clauses of the policy behind it."""

from typing import TYPE_CHECKING

from support_agent.domain.clauses import clause_of, level_clauses
from support_agent.domain.reasons import Language
from support_agent.domain.wording import person_reasons

if TYPE_CHECKING:  # so that --help, which shows no brief, stays light
    from support_agent.services.briefs import Brief


def why_a_person(brief: "Brief", language: Language) -> tuple[str, ...]:
    """Why the request waits for somebody, one sentence a reason."""
    return person_reasons(
        brief.request.reasons,
        policy=brief.policy,
        currency=brief.request.currency,
        cumulative_minor=brief.cumulative_minor,
        language=language,
    )


def clauses(brief: "Brief") -> tuple[str, ...]:
    """The policy's fields behind the verdict, the reasons and the level, each once."""
    request, policy = brief.request, brief.policy
    reasons = (*(brief.assessment.reasons if brief.assessment else ()), *request.reasons)
    named = [clause_of(reason, policy, request.currency) for reason in reasons]
    levels = level_clauses(policy, request.currency, approvals=request.approvals_needed)
    return tuple(dict.fromkeys(clause for clause in (*named, *levels) if clause))
