"""WSGI applications through the middleware: nested calls, streams, and everything that ends a response badly."""

import gc
import io
import sys
import threading
import time
import wsgiref.util
import wsgiref.validate

import flask
import pytest
import werkzeug.test
from tests.hazards import scenario
from tests.hazards.scenario import Flag, Threads, burn

from greenlane.hosts.wsgi import Greenlane


def environ(path: str = "/heavy/x") -> dict[str, object]:
    made: dict[str, object] = {
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "wsgi.errors": sys.stderr,
        "wsgi.input": io.BytesIO(),
    }
    wsgiref.util.setup_testing_defaults(made)
    return made


class Started:
    """A start_response that keeps what it was given."""

    def __init__(self) -> None:
        self.status = ""
        self.written: list[bytes] = []

    def __call__(self, status, headers, exc_info=None):
        self.status = status
        return self.written.append


def call(application, path: str = "/heavy/x") -> bytes:
    """One request as a server makes it: iterate, then close."""
    started = Started()
    body = application(environ(path), started)
    try:
        return b"".join(started.written) + b"".join(body)
    finally:
        if hasattr(body, "close"):
            body.close()


def at_once(functions) -> list[object]:
    threads = Threads()
    for function in functions:
        threads.start(function)
    return threads.join()


def plain(environ, start_response):
    burn(2)
    time.sleep(0)
    burn(2)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ["PATH_INFO"].encode()]


def test_a_plain_application_answers(running):
    application = Greenlane(plain)
    paths = [f"/heavy/{number}" for number in range(8)]
    assert at_once([lambda path=path: call(application, path) for path in paths]) == [path.encode() for path in paths]


def test_an_application_that_calls_itself(running):
    def outer(environ, start_response):
        burn(2)
        if environ["PATH_INFO"] == "/heavy/outer":
            inner = call(application, "/heavy/inner")
            burn(2)
            start_response("200 OK", [])
            return [b"outer of ", inner]
        start_response("200 OK", [])
        return [b"inner"]

    application = Greenlane(outer)
    assert at_once([lambda: call(application, "/heavy/outer")] * 6) == [b"outer of inner"] * 6


def test_two_layers_of_the_middleware_are_one_job(running):
    application = Greenlane(Greenlane(plain))
    before = running.counters()["jobs"]
    assert at_once([lambda: call(application)] * 4) == [b"/heavy/x"] * 4
    counted = running.counters()["jobs"] - before
    assert counted in (0, 4)  # 0: a mode that counts no jobs


def test_a_test_client_inside_a_view(running):
    application = flask.Flask("nested")

    @application.get("/heavy/outer")
    def outer() -> str:
        burn(2)
        client = werkzeug.test.Client(application)
        return "outer of " + client.get("/heavy/inner").get_data(as_text=True)

    @application.get("/heavy/inner")
    def inner() -> str:
        burn(2)
        time.sleep(0)
        return "inner"

    application.wsgi_app = Greenlane(application.wsgi_app)
    assert at_once([lambda: call(application, "/heavy/outer")] * 4) == [b"outer of inner"] * 4


def test_a_nested_call_on_another_thread_ends(running):
    def outer(environ, start_response):
        burn(2)
        start_response("200 OK", [])
        if environ["PATH_INFO"] == "/heavy/outer":
            return at_once([lambda: call(application, "/heavy/inner")] * 2)
        return [b"inner "]

    application = Greenlane(outer)
    assert at_once([lambda: call(application, "/heavy/outer")] * 4) == [b"inner inner "] * 4


class Stream:
    """A streamed body that computes and blocks between its chunks, and notes its close."""

    def __init__(self, chunks: int = 5, fails_at: int = -1, close_error: BaseException | None = None) -> None:
        self.left = chunks
        self.fails_at = fails_at
        self.close_error = close_error
        self.closed = 0

    def __iter__(self):
        return self

    def __next__(self) -> bytes:
        if self.left == self.fails_at:
            raise RuntimeError("in the middle of the body")
        if not self.left:
            raise StopIteration
        self.left -= 1
        burn(1)
        time.sleep(0)
        burn(1)
        return b"."

    def close(self) -> None:
        self.closed += 1
        if self.close_error is not None:
            raise self.close_error


def streaming(stream):
    def application(environ, start_response):
        start_response("200 OK", [])
        return stream

    return Greenlane(application)


def test_a_generator_as_response_gives_every_chunk(running):
    def application(environ, start_response):
        start_response("200 OK", [])
        for number in range(5):
            burn(1)
            time.sleep(0)
            yield str(number).encode()

    wrapped = Greenlane(application)
    assert at_once([lambda: call(wrapped)] * 6) == [b"01234"] * 6


def test_a_streamed_body_is_closed_once(running):
    streams = [Stream() for _ in range(6)]
    assert at_once([lambda stream=stream: call(streaming(stream)) for stream in streams]) == [b"....."] * 6
    assert [stream.closed for stream in streams] == [1] * 6


def test_a_streamed_body_closed_early(running):
    stream = Stream()

    def one() -> None:
        body = streaming(stream)(environ(), Started())
        assert next(iter(body)) == b"."
        body.close()

    at_once([one])
    assert (stream.left, stream.closed) == (4, 1)


def test_a_generator_closed_early_runs_its_finally(running):
    ended = []

    def application(environ, start_response):
        start_response("200 OK", [])
        try:
            while True:
                burn(1)
                yield b"."
        finally:
            burn(1)
            time.sleep(0)
            ended.append(True)

    def one() -> None:
        body = Greenlane(application)(environ(), Started())
        iterator = iter(body)
        assert (next(iterator), next(iterator)) == (b".", b".")
        body.close()

    at_once([one] * 4)
    assert ended == [True] * 4


def test_a_body_never_iterated_but_closed(running):
    stream = Stream()
    at_once([lambda: streaming(stream)(environ(), Started()).close()])
    assert (stream.left, stream.closed) == (5, 1)


def test_a_body_dropped_without_close_leaves_no_permit(running):
    """A server that breaks the rules, on a thread that lives on."""
    go_on = Flag()

    def one() -> None:
        body = streaming(Stream())(environ(), Started())
        next(iter(body))
        del body
        gc.collect()
        go_on.wait(15)

    threads = Threads()
    threads.start(one)
    scenario.settled(running)
    go_on.set()
    threads.join()


def test_a_thread_whose_last_body_was_dropped_serves_the_next(running):
    def one() -> bytes:
        kept = streaming(Stream())(environ(), Started())
        next(iter(kept))
        answer = call(Greenlane(plain))
        kept.close()
        return answer + call(Greenlane(plain))

    assert at_once([one] * 3) == [b"/heavy/x/heavy/x"] * 3


def test_a_body_iterated_and_closed_on_other_threads(running):
    made, chunks = [], []

    def make() -> None:
        made.append(streaming(Stream())(environ(), Started()))

    at_once([make])
    at_once([lambda: chunks.extend(made[0])])
    at_once([lambda: made[0].close()])
    assert chunks == [b"."] * 5


def test_a_body_closed_on_another_thread_while_its_own_lives(running):
    made, go_on = [], threading.Event()

    def make() -> bytes:
        made.append(streaming(Stream())(environ(), Started()))
        go_on.wait(15)
        return call(Greenlane(plain))

    threads = Threads()
    threads.start(make)
    scenario.until(lambda: made)
    assert b"".join(made[0]) == b"....."
    made[0].close()
    go_on.set()
    assert threads.join() == [b"/heavy/x"]


@pytest.mark.parametrize("error", [RuntimeError("in close"), SystemExit(3), KeyboardInterrupt()])
def test_a_close_that_raises_gives_the_permit_back_and_the_error_on(running, error):
    def one() -> str:
        try:
            call(streaming(Stream(close_error=error)))
        except BaseException as raised:
            return "same" if raised is error else repr(raised)
        return "nothing"

    assert at_once([one]) == ["same"]


@pytest.mark.parametrize("error", [RuntimeError("in view"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_an_error_in_the_view_gives_the_permit_back_and_the_error_on(running, error):
    def application(environ, start_response):
        burn(2)
        time.sleep(0)
        burn(1)
        raise error

    def one() -> str:
        try:
            call(Greenlane(application))
        except BaseException as raised:
            return "same" if raised is error else repr(raised)
        return "nothing"

    assert at_once([one] * 3) == ["same"] * 3


def test_an_error_in_the_middle_of_a_body_gives_the_permit_back(running):
    streams = [Stream(fails_at=2) for _ in range(4)]

    def one(stream: Stream) -> str:
        try:
            call(streaming(stream))
        except RuntimeError as raised:
            return str(raised)
        return "nothing"

    assert at_once([lambda stream=stream: one(stream) for stream in streams]) == ["in the middle of the body"] * 4
    assert [stream.closed for stream in streams] == [1] * 4


def test_the_write_callable_works(running):
    def application(environ, start_response):
        write = start_response("200 OK", [])
        for _ in range(3):
            burn(1)
            time.sleep(0)
            write(b"w")
        return [b"end"]

    assert at_once([lambda: call(Greenlane(application))] * 4) == [b"wwwend"] * 4


def test_an_error_page_through_exc_info_works(running):
    def application(environ, start_response):
        start_response("200 OK", [])
        try:
            burn(1)
            raise ValueError("late")
        except ValueError:
            start_response("500 Oops", [], sys.exc_info())
            return [b"sorry"]

    started = Started()

    def one() -> bytes:
        body = Greenlane(application)(environ(), started)
        return b"".join(body)

    assert at_once([one]) == [b"sorry"]
    assert started.status == "500 Oops"


def test_the_middleware_obeys_the_letter_of_wsgi(running):
    def inner(environ, start_response):
        burn(1)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return iter([b"a", b"b"])

    application = wsgiref.validate.validator(Greenlane(wsgiref.validate.validator(inner)))
    assert at_once([lambda: call(application, "/heavy/valid")] * 3) == [b"ab"] * 3


def test_a_flask_stream_with_its_request_context(running):
    application = flask.Flask("streams")

    @application.get("/heavy/<who>")
    def stream(who: str):
        def body():
            for _ in range(3):
                burn(1)
                time.sleep(0)
                yield flask.request.view_args["who"]

        return flask.Response(flask.stream_with_context(body()))

    application.wsgi_app = Greenlane(application.wsgi_app)
    answers = at_once([lambda who=who: call(application, f"/heavy/{who}") for who in "abcdef"])
    assert answers == [who.encode() * 3 for who in "abcdef"]
