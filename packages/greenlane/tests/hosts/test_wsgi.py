"""The middleware, called as a server calls it."""

from __future__ import annotations

import time
import wsgiref.util
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from tests.lanes.burners import burn

import greenlane
from greenlane import phase
from greenlane.hosts.wsgi import Greenlane
from greenlane.settings import Lane, Settings
from greenlane.wiring import process

StartResponse = Callable[..., Any]


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    """Each test starts Greenlane again, and nobody holds a permit at its end."""
    yield
    running = process.running()
    if running is not None:
        pressure, counters = running.pressure(), running.counters()
        running.stop()
        assert pressure == (0, 0)
        assert counters["released"] == counters["granted"] + counters["waited_granted"]


class Answer:
    """What a server would have sent."""

    def __init__(self, app: Any, path: str = "/", headers: dict[str, str] | None = None, read: int = 1000) -> None:
        environ: dict[str, Any] = {"PATH_INFO": path, **(headers or {})}
        wsgiref.util.setup_testing_defaults(environ)
        self.starts: list[tuple[str, list[tuple[str, str]]]] = []
        self.written: list[bytes] = []
        self.iterable = app(environ, self._start)
        self.chunks = []
        try:
            for _, chunk in zip(range(read), self.iterable, strict=False):
                self.chunks.append(chunk)
        finally:
            if hasattr(self.iterable, "close"):
                self.iterable.close()

    def _start(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], None]:
        self.starts.append((status, headers))
        return self.written.append

    @property
    def status(self) -> str:
        """Of the one response."""
        assert len(self.starts) == 1, self.starts
        return self.starts[0][0]


def plain(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    """Answer with a list."""
    start_response("200 OK", [])
    return [b"hello"]


def streaming(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    """Answer with a generator; each chunk is a phase."""
    start_response("200 OK", [])
    for number in range(3):
        yield str(number).encode()


def test_a_list_comes_back_as_it_is() -> None:
    answer = Answer(Greenlane(plain))
    assert answer.iterable == [b"hello"] and answer.status == "200 OK"


def test_a_job_is_open_in_the_application_and_closed_after_it() -> None:
    seen: list[bool] = []

    def app(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        seen.append(phase.active())
        return plain(environ, start_response)

    wrapped = Greenlane(app)
    Answer(wrapped)
    assert seen == [True] and not phase.active()


def test_chunks_of_a_stream_are_phases_of_the_job_and_of_one_class() -> None:
    wrapped = Greenlane(streaming)
    running = process.running()
    assert running is not None
    assert Answer(wrapped, "/stream").chunks == [b"0", b"1", b"2"]
    assert running.counters()["jobs"] == 1
    assert {row.route for row in running.learned()} == {"GET /stream"}
    assert [row.samples for row in running.learned()] == [1, 5]


def test_a_stream_that_the_client_leaves_ends_its_job() -> None:
    answer = Answer(Greenlane(streaming), read=1)
    assert answer.chunks == [b"0"]
    assert not phase.active()


def test_a_stream_that_nobody_reads_or_closes_ends_its_job() -> None:
    wrapped = Greenlane(streaming)
    environ: dict[str, Any] = {}
    wsgiref.util.setup_testing_defaults(environ)
    wrapped(environ, lambda *_: None)
    assert not phase.active()


def test_close_of_the_application_runs_once_and_its_error_comes_through() -> None:
    class Body:
        closed = 0

        def __iter__(self) -> Iterator[bytes]:
            return iter([b"x"])

        def close(self) -> None:
            Body.closed += 1
            raise RuntimeError("close failed")

    with pytest.raises(RuntimeError, match="close failed"):
        Answer(Greenlane(lambda environ, start: (start("200 OK", []), Body())[1]))
    assert Body.closed == 1 and not phase.active()


def test_a_sized_response_keeps_its_length() -> None:
    class Sized:
        def __len__(self) -> int:
            return 1

        def __iter__(self) -> Iterator[bytes]:
            return iter([b"x"])

    answer = Answer(Greenlane(lambda environ, start: (start("200 OK", []), Sized())[1]))
    assert len(answer.iterable) == 1 and answer.chunks == [b"x"]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
def test_an_exception_comes_through_and_ends_the_job(error: BaseException) -> None:
    def app(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        raise error

    with pytest.raises(type(error)):
        Answer(Greenlane(app))
    assert not phase.active()


def test_an_application_inside_an_application_is_one_job() -> None:
    inner = Greenlane(streaming)

    def app(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        return [b"".join(Answer(inner).chunks), b"".join(plain(environ, start_response))]

    outer = Greenlane(app)
    running = process.running()
    assert running is not None
    assert Answer(outer).chunks == [b"012", b"hello"]
    assert running.counters()["jobs"] == 1


def test_a_file_is_left_to_the_server() -> None:
    class Wrapper:
        pass

    body = Wrapper()
    environ: dict[str, Any] = {"wsgi.file_wrapper": Wrapper}
    wsgiref.util.setup_testing_defaults(environ)
    assert Greenlane(lambda *_: body)(environ, lambda *_: None) is body
    assert not phase.active()


@pytest.mark.parametrize("wrapper", [None, len, lambda file: file])
def test_a_server_whose_file_wrapper_is_no_class_is_served(wrapper: object) -> None:
    environ: dict[str, Any] = {"wsgi.file_wrapper": wrapper}
    wsgiref.util.setup_testing_defaults(environ)
    body = Greenlane(streaming)(environ, lambda *_: None)
    assert list(body) == [b"0", b"1", b"2"]
    body.close()  # type: ignore[attr-defined] # a server does the same
    assert not phase.active()


def test_methods_that_a_client_makes_up_share_a_route() -> None:
    wrapped = Greenlane(plain)
    for number in range(20):
        environ: dict[str, Any] = {"REQUEST_METHOD": f"MADE{number}"}
        wsgiref.util.setup_testing_defaults(environ)
        wrapped(environ, lambda *_: None)
    running = process.running()
    assert running is not None and {row.route for row in running.learned()} == {"OTHER /"}


def test_a_stopped_greenlane_opens_no_jobs() -> None:
    settings = Settings(lanes=(Lane("all", match=("*",), mode="on", weight="heavy"),))
    wrapped = Greenlane(plain, settings=settings)
    running = process.running()
    assert running is not None
    Answer(wrapped)
    running.stop()
    jobs = running.counters()["jobs"]
    assert Answer(wrapped).status == "200 OK" and running.counters()["jobs"] == jobs


def test_a_refused_response_still_closes_the_applications_body() -> None:
    closed: list[bool] = []

    class Body(list[bytes]):
        def close(self) -> None:
            closed.append(True)

    def refuse(*_: Any) -> None:
        raise ValueError("bad header")

    environ: dict[str, Any] = {"HTTP_GRPC_TIMEOUT": "1M"}
    wsgiref.util.setup_testing_defaults(environ)
    with pytest.raises(ValueError, match="bad header"):
        Greenlane(lambda env, start: (start("200 OK", []), Body())[1])(environ, refuse)
    assert closed == [True]


LATE = {"HTTP_X_ENVOY_EXPECTED_RQ_TIMEOUT_MS": "1"}


def test_a_late_answer_becomes_a_504() -> None:
    def app(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        burn(5)
        return plain(environ, start_response)

    answer = Answer(Greenlane(app), headers=LATE)
    assert answer.status == "504 Gateway Timeout" and answer.chunks == [b"deadline exceeded\n"]


def test_a_checkpoint_ends_late_work() -> None:
    done: list[str] = []

    def app(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        burn(5)
        greenlane.checkpoint()
        done.append("late work")
        return plain(environ, start_response)

    assert Answer(Greenlane(app), headers=LATE).status == "504 Gateway Timeout"
    assert done == []


def test_an_answer_in_time_is_untouched() -> None:
    answer = Answer(Greenlane(plain), headers={"HTTP_X_ENVOY_EXPECTED_RQ_TIMEOUT_MS": "60000"})
    assert answer.status == "200 OK" and answer.chunks == [b"hello"]


def test_a_stream_with_a_deadline_starts_its_response() -> None:
    answer = Answer(Greenlane(streaming), headers={"HTTP_X_ENVOY_EXPECTED_RQ_TIMEOUT_MS": "60000"})
    assert answer.status == "200 OK" and answer.chunks == [b"0", b"1", b"2"]


def test_what_is_written_by_the_old_callable_goes_out_after_the_headers() -> None:
    def app(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])(b"written")
        return []

    answer = Answer(Greenlane(app), headers={"HTTP_X_ENVOY_EXPECTED_RQ_TIMEOUT_MS": "60000"})
    assert answer.status == "200 OK" and answer.written == [b"written"]


def test_a_lane_gives_a_deadline_and_the_sooner_one_holds() -> None:
    due: list[int] = []

    def app(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        running = process.running()
        assert running is not None
        due.append(running.deadline_ns() - time.monotonic_ns())
        return plain(environ, start_response)

    settings = Settings(lanes=(Lane("offers", match=("/bikes*",), deadline_ms=5_000),))
    wrapped = Greenlane(app, settings=settings)
    Answer(wrapped, "/bikes/7")
    Answer(wrapped, "/bikes/7", headers={"HTTP_GRPC_TIMEOUT": "1S"})
    Answer(wrapped, "/bikes/7", headers={"HTTP_GRPC_TIMEOUT": "1M"})
    Answer(wrapped, "/other")
    second = 1_000_000_000
    assert 4 * second < due[0] <= 5 * second and 0 < due[1] <= second and 4 * second < due[2] <= 5 * second
    assert due[3] < 0


def test_a_lane_over_its_limit_is_refused_with_retry_after() -> None:
    settings = Settings(lanes=(Lane("reports", match=("/report*",), limit=1),), retry_after_s=7)
    nested: list[Answer] = []

    def app(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        if not nested:
            nested.append(Answer(wrapped, "/report"))
        return plain(environ, start_response)

    wrapped = Greenlane(app, settings=settings)
    assert Answer(wrapped, "/report").status == "200 OK"
    assert nested[0].status == "503 Service Unavailable"
    assert ("Retry-After", "7") in nested[0].starts[0][1]
    assert Answer(wrapped, "/report").status == "200 OK", "the place is free again"


def test_a_limited_stream_keeps_its_place_until_closed() -> None:
    settings = Settings(lanes=(Lane("reports", match=("/report*",), limit=1),))
    wrapped = Greenlane(streaming, settings=settings)
    environ: dict[str, Any] = {"PATH_INFO": "/report"}
    wsgiref.util.setup_testing_defaults(environ)
    body = wrapped(environ, lambda *_: None)
    assert Answer(wrapped, "/report").status == "503 Service Unavailable"
    body.close()  # type: ignore[attr-defined] # a server does the same
    assert Answer(wrapped, "/report").status == "200 OK"


def test_a_lane_pins_its_routes_and_a_route_function_names_them() -> None:
    settings = Settings(lanes=(Lane("heavy", match=("GET /items/*",), weight="heavy"),))
    wrapped = Greenlane(plain, settings=settings, route=lambda environ: "GET /items/<id>")
    Answer(wrapped, "/items/12345")
    running = process.running()
    assert running is not None
    assert running.counters()["granted"] == 1
    assert [(row.route, row.pinned) for row in running.learned() if row.samples] == [("GET /items/<id>", True)]


def test_raw_paths_never_become_routes() -> None:
    wrapped = Greenlane(plain)
    for number in range(50):
        Answer(wrapped, f"/items/{number}")
        Answer(wrapped, f"/{number}")
    running = process.running()
    assert running is not None
    assert {row.route for row in running.learned()} == {"GET /items/*", "GET /*"}


def test_switched_off_it_is_the_application_itself() -> None:
    wrapped = Greenlane(streaming, settings=Settings(mode="off"))
    answer = Answer(wrapped)
    assert answer.chunks == [b"0", b"1", b"2"]
    running = process.running()
    assert running is not None and running.counters()["jobs"] == 0
