"""Reads a policy from YAML or from a stored body; a mistake in it is named, not guessed."""

import hashlib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from string import Formatter
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from support_agent.adapters.file_entries import (
    Amount,
    Currency,
    FileEntry,
    Id,
    Instant,
    Limit,
    Text,
    Zone,
    canonical,
    validated,
)
from support_agent.adapters.strict_yaml import read_yaml
from support_agent.domain.errors import ConfigurationError
from support_agent.domain.line_verdicts import DELIVERED_STATUSES
from support_agent.domain.money import format_money
from support_agent.domain.orders import OrderStatus, PaymentMethod
from support_agent.domain.policy import CurrencyLimits, Policy, ShippingRule


def load_policy(path: Path) -> Policy:
    """The policy of one YAML file."""
    return policy_from_body(policy_body(path), source=path.name)


def policy_body(path: Path) -> dict[str, Any]:
    """The file's content as plain JSON data, to be stored and read back by `policy_from_body`."""
    body = read_yaml(path)
    if not isinstance(body, dict):
        raise ConfigurationError(
            "must be a mapping of fields, like standard.yaml", setting=path.name
        )
    return body


def policy_from_body(body: Mapping[str, Any], *, source: str = "policy") -> Policy:
    """The policy a body describes; the same body always gives an equal policy and hash."""
    spelt = canonical(body, source)
    fields = validated(_PolicyBody, spelt, source)
    return Policy(
        id=fields.id,
        version=fields.version,
        hash=hashlib.sha256(spelt).hexdigest(),
        valid_from=fields.valid_from,
        time_zone=fields.time_zone,
        window_days=fields.window_days,
        refundable_statuses=fields.refundable_statuses,
        excluded_categories=fields.excluded_categories,
        limits=MappingProxyType({code: lim.to_domain() for code, lim in fields.limits.items()}),
        text=MappingProxyType({"vi": fields.rendered("vi"), "en": fields.rendered("en")}),
        tender_order=fields.tender_order,
        shipping=fields.shipping,
        clawback=fields.clawback,
        return_required=fields.return_required,
    )


class _Limits(FileEntry):
    # No defaults: a limit that is forgotten must not read as "no limit"; null says that.
    auto: Amount
    levels: Annotated[tuple[Limit, ...], Field(min_length=1)]
    four_eyes_from: Limit | None
    auto_per_customer_day: Amount | None
    auto_per_customer_30_days: Amount | None
    auto_per_installation_day: Amount | None
    per_approver_day: Amount | None
    per_pair_day: Amount | None = None  # bodies from before there was one stay valid, as they were

    @model_validator(mode="after")
    def _ascend(self) -> Self:
        if any(low >= high for low, high in pairwise(self.levels)):
            raise ValueError(f"levels must rise from level to level, not {list(self.levels)}")
        if self.auto > self.levels[0]:
            raise ValueError(f"auto {self.auto} must not be above the first level {self.levels[0]}")
        if self.four_eyes_from is not None and self.four_eyes_from <= self.auto:
            raise ValueError("four_eyes_from must be above auto: what is automatic has no approver")
        return self

    def to_domain(self) -> CurrencyLimits:
        return CurrencyLimits(**self.model_dump())


class _Texts(FileEntry):
    vi: Text
    en: Text


class _PolicyBody(FileEntry):
    id: Id
    version: Annotated[int, Field(ge=1)]
    valid_from: Instant
    time_zone: Zone
    window_days: Annotated[int, Field(ge=0, le=3650)] | None
    refundable_statuses: Annotated[frozenset[OrderStatus], Field(min_length=1)]
    excluded_categories: frozenset[Text]
    limits: dict[Currency, _Limits]
    text: _Texts
    # Rules that came later: without them a body means what it always did.
    tender_order: tuple[PaymentMethod, ...] = ()
    shipping: ShippingRule = ShippingRule.NEVER
    clawback: bool = False
    return_required: bool = False

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if len(set(self.tender_order)) < len(self.tender_order):
            raise ValueError(f"tender_order names a method twice: {', '.join(self.tender_order)}")
        if wrong := sorted(self.refundable_statuses.difference(DELIVERED_STATUSES)):
            allowed = ", ".join(sorted(DELIVERED_STATUSES))
            raise ValueError(f"refundable_statuses: {', '.join(wrong)} is none of {allowed}")
        for language in ("vi", "en"):
            self.rendered(language)
        return self

    def rendered(self, language: Literal["vi", "en"]) -> str:
        """The customer's text with its numbers filled in from the fields, so that both agree."""
        template: str = getattr(self.text, language)
        known = self._numbers()
        for _, name, spec, conversion in _parsed(template, f"text.{language}"):
            if name is not None and (name not in known or spec or conversion):
                names = ", ".join(f"{{{known_name}}}" for known_name in known)
                raise ValueError(f"text.{language}: {{{name}}} cannot be filled; known are {names}")
        return template.format(**known)

    def _numbers(self) -> dict[str, str]:
        numbers = {} if self.window_days is None else {"window_days": str(self.window_days)}
        for code, limits in self.limits.items():
            numbers[f"auto_{code}"] = format_money(limits.auto, code)
            numbers[f"top_{code}"] = format_money(limits.levels[-1], code)
        return numbers


def _parsed(template: str, field: str) -> list[tuple[str, str | None, str | None, str | None]]:
    try:
        return list(Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"{field}: {error}; write a literal brace twice") from None
