"""What `doctor` found, and how it is told."""

from collections.abc import Sequence
from dataclasses import dataclass

from support_agent.cli.output import print_json, say


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at: somebody has to act when it is not `ok`, and should when it `warns`."""

    name: str
    ok: bool = True
    warns: bool = False
    detail: str

    @property
    def level(self) -> str:
        if not self.ok:
            return "fail"
        return "warn" if self.warns else "ok"


WORDS = {"ok": "ok", "warn": "WARN", "fail": "PROBLEM"}
DEEP_WORDS = {"ok": "OK", "warn": "WARN", "fail": "FAIL"}


def tell(findings: Sequence[Finding], *, deep: bool, as_json: bool) -> None:
    """One line, or one object, a finding."""
    if as_json:
        checks = [
            {"name": f.name, "ok": f.ok, "level": f.level, "detail": f.detail} for f in findings
        ]
        print_json({"ok": all(finding.ok for finding in findings), "checks": checks})
        return
    words = DEEP_WORDS if deep else WORDS
    for finding in findings:
        say(f"{words[finding.level]:<8} {finding.name:<12} {finding.detail}")
