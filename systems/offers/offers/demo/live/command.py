"""`greenlane demo offers --page`: starts both sides, serves the page until Ctrl-C."""

from __future__ import annotations

import asyncio
from typing import Final, TextIO

from aiohttp import web

from greenlane_tools.lab.processes import free_port
from greenlane_tools.lab.run.talk import Talk
from offers.contenders import FIXES, Fix
from offers.site import Site

from ..options import Options, bad
from .routes import application
from .show import Show

__all__ = ["serve"]

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
