"""What a model's tokens cost, from the operator's own price sheet (`data/prices.toml`)."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from support_agent.domain.errors import ConfigurationError

_PER_MILLION = 1_000_000
_KEYS = frozenset({"input", "output"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Millionths of a USD for a million tokens."""

    input: int
    output: int

    def cost_micros(self, input_tokens: int, output_tokens: int) -> int:
        """Exact, rounded up: a budget is never overspent by roundings."""
        return -(-(input_tokens * self.input + output_tokens * self.output) // _PER_MILLION)


def load_prices(path: Path) -> Mapping[str, Price]:
    """The price of each model the sheet names.

    Raises:
        ConfigurationError: names the file, the model and what is wrong.
    """
    try:
        sheet = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigurationError(f"cannot read the prices in {str(path)!r}: {reason}") from None
    except ValueError as error:
        raise ConfigurationError(f"{path}: not TOML: {error}") from None
    models = sheet.pop("models", None)
    if sheet or not isinstance(models, dict):
        raise ConfigurationError(f'{path}: needs tables [models."NAME"] and nothing else')
    return MappingProxyType({name: _price(path, name, entry) for name, entry in models.items()})


def _price(path: Path, model: str, entry: object) -> Price:
    if not isinstance(entry, dict) or entry.keys() != _KEYS:
        raise ConfigurationError(f"{path}: model {model!r} needs exactly the keys input and output")
    for key, micros in entry.items():
        if type(micros) is not int or micros < 0:
            raise ConfigurationError(
                f"{path}: {key} of model {model!r} must be a whole number of "
                f"micro-USD per million tokens, not {micros!r}"
            )
    return Price(**entry)
