"""What a chat completion cost: as the server counted, estimated where it did not."""

from support_agent.adapters.models.reply_values import is_token_count
from support_agent.domain.prices import Price
from support_agent.domain.runs import Usage
from support_agent.domain.tokens import estimate_tokens

_LABELS = frozenset({"id", "index", "role", "type"})


def counted_usage(counts: object, *, sent: bytes, message: object, price: Price | None) -> Usage:
    """The server's figures; a budget holds on a server that counts nothing too."""
    figures = counts if isinstance(counts, dict) else {}
    prompt, completion = figures.get("prompt_tokens"), figures.get("completion_tokens")
    # What is 0 was not counted: some servers send the figures and fill none in.
    return _usage(
        prompt if is_token_count(prompt) and prompt else _sent_tokens(sent),
        completion if is_token_count(completion) and completion else _tokens_of(message),
        price,
    )


def estimated_usage(sent: bytes, message: object, price: Price | None) -> Usage:
    """An attempt that may have been billed although it brought no answer, or a part of one."""
    return _usage(_sent_tokens(sent), _tokens_of(message), price)


def _usage(input_tokens: int, output_tokens: int, price: Price | None) -> Usage:
    return Usage(
        requests=1,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost_micros=price.cost_micros(input_tokens, output_tokens) if price else 0,
    )


def _sent_tokens(sent: bytes) -> int:
    return estimate_tokens(sent.decode())


def _tokens_of(message: object) -> int:
    """Of all texts in a message, whatever its shape; names of fields and labels count nothing."""
    tokens, left = 0, [message]
    while left:  # not recursive: nothing bounds how deep a server nests
        match left.pop():
            case str() as text:
                tokens += estimate_tokens(text)
            case dict() as fields:
                left += [part for key, part in fields.items() if key not in _LABELS]
            case list() as parts:
                left += parts
    return tokens
