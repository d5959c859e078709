"""What became of a request that a model server did not answer: our error, and what it may cost."""

import ssl
from collections.abc import Callable

from support_agent.adapters.models.chat_transport import HttpClient, causes, tls_problem
from support_agent.domain.errors import (
    ConfigurationError,
    ModelReplyInvalid,
    ModelUnavailable,
    SupportAgentError,
)
from support_agent.domain.runs import Usage


def no_answer(
    failure: Exception,
    *,
    client: HttpClient,
    url_setting: str,
    timeout_s: float,
    lost: Callable[[], Usage],
) -> SupportAgentError:
    """The error for a failure of the client; `lost` tells what a request may cost that was sent."""
    import httpx2

    chain = list(causes(failure))
    ours = next((cause for cause in chain if isinstance(cause, SupportAgentError)), None)
    if ours is not None:  # raised in a hook, and wrapped by the vendor's client
        return ours
    if any(isinstance(cause, httpx2.DecodingError) for cause in chain):
        return ModelReplyInvalid("the reply is not what its Content-Encoding says", usage=lost())
    tls = tls_problem(failure)
    if tls is not None:
        return _no_tls(tls, url_setting)
    if any(isinstance(cause, client.unsent) for cause in chain):
        return _no_connection(chain, Usage(requests=1))
    # Not httpx2's own: the vendor's aiohttp calls a broken connection a ConnectTimeout.
    if any(isinstance(cause, TimeoutError) for cause in chain):
        return ModelUnavailable(f"the model gave no answer in {timeout_s:g} s", usage=lost())
    return _no_connection(chain, lost())


def _no_connection(chain: list[BaseException], usage: Usage) -> ModelUnavailable:
    cause = type(chain[-1]).__name__
    return ModelUnavailable(f"no connection to the model server ({cause})", usage=usage)


def _no_tls(problem: ssl.SSLError, url_setting: str) -> SupportAgentError:
    """A certificate that cannot be trusted will not be at the next try; other failures may pass."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return ConfigurationError(
            f"the certificate of the server is not to be trusted ({problem.verify_message})",
            setting=url_setting,
        )
    reason = (problem.reason or "no reason given").lower().replace("_", " ")
    return ModelUnavailable(f"no TLS with the model server ({reason}); see also {url_setting}")
