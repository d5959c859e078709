"""What a model's tokens cost, from the operator's own price sheet (`data/prices.toml`)."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from support_agent.domain.errors import ConfigurationError
from support_agent.domain.prices import Price

_KEYS = frozenset({"input", "output"})
_HIGHEST = 1_000_000_000_000  # a dollar a token; what a call costs still fits into a column


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
        if type(micros) is not int or not 0 <= micros <= _HIGHEST:
            raise ConfigurationError(
                f"{path}: {key} of model {model!r} must be a whole number of "
                f"micro-USD per million tokens up to {_HIGHEST}, not {micros!r}"
            )
    return Price(**entry)
