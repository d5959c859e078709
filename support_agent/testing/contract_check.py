"""What contract suites say with: a rule that an adapter must keep, without a test framework."""


class ContractBroken(AssertionError):
    """An adapter does not keep a rule of its port."""


def must(holds: bool, rule: str) -> None:  # noqa: FBT001 - reads like `assert`
    """Raise unless the rule holds."""
    if not holds:
        raise ContractBroken(rule)
