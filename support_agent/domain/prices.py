"""What a model's tokens cost."""

from dataclasses import dataclass

_PER_MILLION = 1_000_000
_ANY_AMOUNT = 1_000_000_000  # of tokens that are free


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Millionths of a USD for a million tokens."""

    input: int
    output: int

    def cost_micros(self, input_tokens: int, output_tokens: int) -> int:
        """Exact, rounded up: a budget is never overspent by roundings."""
        return -(-(input_tokens * self.input + output_tokens * self.output) // _PER_MILLION)

    def output_tokens(self, cost_micros: int, input_tokens: int) -> int:
        """The most output this much pays for beside the input; below zero when not even that."""
        left = cost_micros * _PER_MILLION - input_tokens * self.input
        if self.output == 0:
            return _ANY_AMOUNT if left >= 0 else -1
        return left // self.output
