"""What all addresses share: a request's body as data, and a user's mistake as one line."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ordercast.model.errors import ConfigError, Error

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


def answers(handler: Handler) -> Handler:
    """What a user's mistake raises becomes an answer of one line; so does the server's end."""

    @wraps(handler)
    async def guarded(request: Request) -> Response:
        try:
            return await handler(request)
        except Error as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        except asyncio.CancelledError:
            return JSONResponse({"error": "the server stops"}, status_code=503)

    return guarded


async def body_of(request: Request) -> Mapping[str, Any]:
    try:
        found = await request.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConfigError("the body is not a JSON object")
    return found


def text_of(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise ConfigError(f"{name}: is not a text")
    return value


def number_of(query: Mapping[str, str], name: str, least: int, most: int) -> int:
    """A number of the address; one that is out of bounds is moved to them."""
    try:
        value = int(query.get(name, ""))
    except ValueError:
        raise ConfigError(f"{name}: {query.get(name, '')!r} is not a whole number") from None
    return max(least, min(most, value))
