"""What routes are handed costs no thread."""

import inspect

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts

from support_agent.api.app import bare_app


def calls_of(dependant: Dependant):
    for inner in dependant.dependencies:
        yield inner.call
        yield from calls_of(inner)


def test_nothing_that_a_route_depends_on_is_taken_to_a_thread():
    """FastAPI does so with plain functions: several hops a request, each dearer than the lookup."""
    routes = [context.original_route for context in iter_route_contexts(bare_app().routes)]
    calls = {
        call for one in routes if isinstance(one, APIRoute) for call in calls_of(one.dependant)
    }

    plain = {
        call
        for call in calls
        if not inspect.iscoroutinefunction(call)
        and not inspect.iscoroutinefunction(type(call).__call__)
    }
    assert calls
    assert not plain
