"""Access to the server: the Host header, the token, the origin of requests, and what a page may do.

By default the server listens on this machine alone and asks for no token. A page of another host
could reach it all the same, through a browser here: its requests are told by their Host (a name
that was bound anew) or by their Origin. With a token every request needs it.
"""

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "ordercast"
LOCAL = ("127.0.0.1", "localhost", "::1")
MOST_BODY = 1 << 20
POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none';"
    " form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_OPEN = ("/login", "/api/login", "/static/", "/favicon.ico")  # what needs no token
_WRITES = ("POST", "PUT", "DELETE", "PATCH")


class Access:
    """State: none. `local`: the server listens on this machine only."""

    def __init__(self, *, local: bool, secure: bool, token: str = "") -> None:
        self.local = local
        self.secure = secure
        self.token = token

    def cookie(self) -> str:
        """What a browser keeps: no token, but good for as long as the token is."""
        return hashlib.sha256(b"ordercast dashboard\0" + self.token.encode()).hexdigest()

    def admits(self, headers: Headers) -> bool:
        """Whether the request has the token, as a cookie or as a bearer."""
        if not self.token:
            return True
        given = headers.get("authorization", "")
        if given.startswith("Bearer ") and _same(given.removeprefix("Bearer "), self.token):
            return True
        return _same(_cookie_of(headers), self.cookie())

    def is_token(self, given: str) -> bool:
        return bool(self.token) and _same(given, self.token)

    def wrong_host(self, headers: Headers) -> str:
        """Empty, or the host that a local server does not have."""
        host = headers.get("host", "")
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            name = ""
        return "" if not self.local or name in LOCAL else host or "none"

    def foreign(self, headers: Headers) -> bool:
        """Whether a page of another host has made this request."""
        origin = headers.get("origin")
        scheme = "https" if self.secure else "http"
        if origin is not None and origin != f"{scheme}://{headers.get('host', '')}":
            return True
        return headers.get("sec-fetch-site", "none") not in ("same-origin", "none")


def _same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode(), right.encode())


def _cookie_of(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""


class PageGuard:
    """Around the application: refuses requests that `Access` does not admit, and tells in every
    answer what the page may do."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refused = self._refusal(scope, path)
        await (refused or self._app)(scope, receive, told)

    def _refusal(self, scope: Scope, path: str) -> Response | None:
        access, headers = self._access, Headers(scope=scope)
        if wrong := access.wrong_host(headers):
            return _error(421, f"this server is not {wrong!r}: open it as 127.0.0.1 or localhost")
        if scope["method"] in _WRITES:
            if access.foreign(headers):
                return _error(403, "a page of another host may not ask for this")
            if not headers.get("content-type", "").startswith("application/json"):
                return _error(415, "the body must be JSON")
            if _length(headers) > MOST_BODY:
                return _error(413, "the body is too large")
        if path.startswith(_OPEN) or access.admits(headers):
            return None
        if path.startswith("/api/"):
            return _error(401, "the token is missing or wrong")
        return RedirectResponse("/login", status_code=303)


def _length(headers: Headers) -> int:
    """The length of the body. A body without one is refused as too large: our pages send it."""
    told = headers.get("content-length", "")
    return int(told) if told.isdecimal() and len(told) < 12 else MOST_BODY + 1


def _error(code: int, message: str) -> Response:
    return JSONResponse({"error": message}, status_code=code)
