"""`greenlane demo offers --page`: starts both sides, serves the page until Ctrl-C."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TextIO

import aiohttp
from aiohttp import web

from greenlane_tools.lab.processes import free_port
from greenlane_tools.lab.run.talk import Talk
from offers.contenders import FIXES, Fix
from offers.demo.live.show import CHANGING, KEPT_S, WINDOW_S, Show
from offers.demo.live.traffic import BURST_EVERY_S, POLLS_PER_S
from offers.demo.options import Options, bad
from offers.site import CAP_MS, Site

# --- What the page asks for; it has nothing from elsewhere.


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


_FIXED: Final[Fix] = "permits"


def serve(options: Options, talk: Talk, out: TextIO) -> int:
    """Blocks until Ctrl-C, or until `options.open_s` have passed; the address of the page goes to `out`."""
    with Site(say=talk.progress) as site:
        first = {name: site.table.regions[name] for name in options.regions}
        show = Show(
            site, options.regions, bad(first), _fixed(options), talk,
            cancel=options.cancel, propagate_deadline=options.propagate_deadline,
        )  # fmt: skip
        try:
            show.start()
            asyncio.run(_served(show, options, talk, out))
        except BaseExceptionGroup as several:
            raise _first(several) from None
        finally:
            show.close()
    return 0


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """What ended first is the reason of the others."""
    found = several.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


def _fixed(options: Options) -> Fix:
    """The fix of the fixed side: the first that was named and is one."""
    named: list[Fix] = [fix for fix, name in FIXES.items() if name in options.contenders and fix != "none"]
    return named[0] if named else _FIXED


async def _served(show: Show, options: Options, talk: Talk, out: TextIO) -> None:
    port = options.port or free_port()
    running = asyncio.create_task(show.run())
    runner = web.AppRunner(application(show), access_log=None, shutdown_timeout=0.5)
    try:
        await asyncio.sleep(0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        talk.progress("")
        out.write(f"http://127.0.0.1:{port}/\n")
        out.flush()
        talk.say(f"the page is at http://127.0.0.1:{port}/ until Ctrl-C; its buttons switch the fix of the left side")
        await asyncio.wait({running}, timeout=options.open_s or None)
        if running.done():
            running.result()
    finally:
        running.cancel()
        await runner.cleanup()
