"""aiohttp: synchronous views beside its loop, and deadlines for asynchronous ones.

    @routes.post("/quote")
    @placed_view(body=True)
    def quote(request, body): ...                          # json.loads(body) and all that follows, not on the loop

    app = web.Application(middlewares=[deadlines])         # for `await greenlane.run(fn, x)` in async views

Greenlane learns each synchronous view by its name. A view that computes and does not block runs on the heavy lane, one
call after the other. Any other view (it blocks, does both, or is new) runs on one of up to `threads` threads, where its
heavy phases take turns. `@greenlane.light` keeps a view on the loop: only for views that never block.

A deadline from the request's headers, or of its lane, applies to the view, to `greenlane.run` and to
`greenlane.checkpoint()`. A late request gets 504. If `placed_queue` calls are waiting, it gets 503 with Retry-After.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, overload

from aiohttp import web

from greenlane import deadline
from greenlane.errors import DeadlineExceeded, Overloaded
from greenlane.hosts import placed_views
from greenlane.job import WEIGHT_MARK
from greenlane.wiring import placed_calls, process

# Placement is loaded when a view is decorated: an application may want `deadlines` alone.
if TYPE_CHECKING:
    from greenlane.placement import Call, Executor, ExecutorStats

__all__ = ["deadlines", "placed_view"]

View = Callable[..., Any]
AsyncView = Callable[..., Awaitable[web.StreamResponse]]


@overload
def placed_view(view: View, /) -> AsyncView: ...
@overload
def placed_view(*, body: bool = False) -> Callable[[View], AsyncView]: ...
def placed_view(view: View | None = None, /, *, body: bool = False) -> AsyncView | Callable[[View], AsyncView]:
    """Make a view of a synchronous function, or of a synchronous method of a `web.View`.

    It gets the request (a method: its object) and returns a response; aiohttp gets its exceptions. It runs on another
    thread. If it needs something awaited first, write an async view and call `greenlane.run` there.

    Args:
        view: the function.
        body: whether it gets the request's body, read on the loop, as a further argument (bytes).

    Raises:
        PlacementError: it is async, or a generator.
    """
    if view is None:
        return functools.partial(_view, body=body)
    return _view(view, body=body)


@web.middleware
async def deadlines(request: web.Request, handler: AsyncView) -> web.StreamResponse:
    """A middleware: applies the deadline of each request's headers, and answers 504 and 503."""
    with _answered(request):
        return await handler(request)


def _view(view: View, body: bool) -> AsyncView:
    from greenlane.placement.functions import name_of, plain, refuse_unplaceable

    refuse_unplaceable(view)
    name = name_of(view)
    stays = getattr(plain(view), WEIGHT_MARK, "") == "light"

    @functools.wraps(view)
    async def placed(subject: Any) -> Any:
        request = subject if isinstance(subject, web.BaseRequest) else subject.request
        with _answered(request):
            arguments = (subject, await request.read()) if body else (subject,)
            return view(*arguments) if stays else await _elsewhere(view, arguments, name)

    return placed


async def _elsewhere(view: View, arguments: tuple[Any, ...], name: str) -> Any:
    from greenlane.placement import on_loop
    from greenlane.placement.call import without_ours
    from greenlane.placement.functions import refuse_result

    if process.running() is None:
        process.start(host="aiohttp", worker_index=os.getpid())
    placement = placed_calls.placement()
    executor: Executor = placement.lane if placement.belongs_on_lane(name) else _threads(placement.threads)
    fn = view if executor is placement.lane else placement.on_any_thread(view, name)
    call = placement.call(fn, arguments, name)
    try:
        await on_loop.wait(executor, call, asyncio.get_running_loop())
        result = call.result()
    except BaseException as error:
        raise without_ours(error)  # noqa: B904 # the same one: it has its own cause
    refuse_result(result, name)
    return result


@contextlib.contextmanager
def _answered(request: web.BaseRequest) -> Iterator[None]:
    """Give what runs inside the request's deadline; what is late or refused becomes an answer, if none has begun."""
    with deadline.until(placed_views.due_ns(request.path, request.headers.get)):
        try:
            yield
        except (DeadlineExceeded, Overloaded) as error:
            if request.writer.output_size:
                raise
            if isinstance(error, DeadlineExceeded):
                raise web.HTTPGatewayTimeout(text=placed_views.LATE) from error
            seconds = {"Retry-After": str(placed_views.retry_after_s())}
            raise web.HTTPServiceUnavailable(text=placed_views.REFUSED, headers=seconds) from error


class _Threads:
    """An `Executor` of plain threads, for views that may block. Any number of calls may wait, as for a thread pool."""

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, "greenlane-views")

    def submit(self, call: Call) -> None:
        self._pool.submit(call.run)

    def cancel(self, call: Call) -> bool:
        return call.cancel()

    def stats(self) -> ExecutorStats:
        from greenlane.placement import ExecutorStats

        return ExecutorStats()

    def close(self, seconds: float) -> None:
        self._pool.shutdown(wait=seconds > 0)


_threads = functools.cache(_Threads)
# The parent's threads do not exist in a forked child.
os.register_at_fork(after_in_child=_threads.cache_clear)
