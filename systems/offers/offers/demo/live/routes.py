"""What the page asks for; it has nothing from elsewhere.

GET /, /page.css, /page.js
GET /live?after=17         what was seen after look 17: {"number", "sides", "rows", "marks", "is_switching", …}
GET /offers?side=&region=&id=   a rider's poll, handed on to that side's offerservice
POST /fix {"fix": "lane"}  switches the changing side; 202, or 409 while it is being switched
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

from offers.contenders import FIXES, Fix
from offers.site import CAP_MS

from .series import KEPT_S, WINDOW_S
from .show import CHANGING, Show
from .traffic import BURST_EVERY_S, POLLS_PER_S

__all__ = ["application"]

_PAGES: Final = Path(__file__).resolve().parents[2] / "pages"
_POLICY: Final = (
    "default-src 'none'; connect-src 'self'; img-src data:; style-src 'self' 'unsafe-inline'; script-src 'self'"
)
_FILES: Final = {
    "/": ("page.html", "text/html"), "/page.css": ("page.css", "text/css"), "/page.js": ("page.js", "text/javascript"),
}  # fmt: skip
_MOST_BYTES: Final = 1_000


def application(show: Show) -> web.Application:
    """The page's server."""
    app = web.Application(client_max_size=_MOST_BYTES)
    for path, (name, kind) in _FILES.items():
        app.router.add_get(path, _file(_PAGES / name, kind))
    app.router.add_get("/live", _live(show))
    app.router.add_get("/offers", _offers(show))
    app.router.add_post("/fix", _fix(show))
    return app


Answer = Callable[[web.Request], Awaitable[web.Response]]


def _file(path: Path, kind: str) -> Answer:
    async def answer(_: web.Request) -> web.Response:
        headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"}
        return web.Response(text=path.read_text("utf-8"), content_type=kind, headers=headers)

    return answer


def _live(show: Show) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        text = request.query.get("after", "0")
        if not text.lstrip("-").isdecimal():
            return _wrong("after", text, "a whole number")
        return web.json_response({**_facts(show), **show.since(int(text))})

    return answer


def _facts(show: Show) -> dict[str, Any]:
    return {
        "fixes": list(FIXES), "regions": list(show.regions), "first": show.first, "bursty": show.bursty(),
        "kept_s": KEPT_S, "window_s": WINDOW_S, "cap_ms": CAP_MS, "polls_per_s": POLLS_PER_S,
        "burst_every_s": BURST_EVERY_S,
    }  # fmt: skip


def _offers(show: Show) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        side, region = request.query.get("side", ""), request.query.get("region", "")
        service = show.services.get(f"{side}/{region}")
        if service is None:
            return _wrong("side/region", f"{side}/{region}", f"one of {', '.join(show.services)}")
        asked = {"region": region, "id": request.query.get("id", "page")[:80]}
        try:
            async with show.session.get(f"{service.offers.url}/offers", params=asked) as got:
                return web.Response(body=await got.read(), status=got.status, content_type="application/json")
        except (aiohttp.ClientError, TimeoutError):
            return web.json_response({"error": "offerservice does not answer"}, status=502)

    return answer


def _fix(show: Show) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return _wrong("origin", request.headers.get("origin", ""), "this page")
        try:
            body = json.loads(await request.read())
        except ValueError:
            body = None
        fix = body.get("fix") if isinstance(body, Mapping) else None
        if fix not in FIXES:
            return _wrong("fix", fix, f"one of {', '.join(FIXES)}")
        if not show.switch(_known(str(fix))):
            return web.json_response({"error": f"{CHANGING} is being switched"}, status=409)
        return web.json_response({"fix": fix}, status=202)

    return answer


def _known(fix: str) -> Fix:
    return next(one for one in FIXES if one == fix)


def _wrong(name: str, value: object, rule: str) -> web.Response:
    return web.json_response({"error": f"ask the page: {name}={value!r}, expected {rule}"}, status=400)
