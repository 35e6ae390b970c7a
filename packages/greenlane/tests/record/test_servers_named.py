"""A recording without jobs names the server that is not observed, and the lines that make its requests jobs."""

from __future__ import annotations

import re
import signal
import socket
import sys
import textwrap
from pathlib import Path

import pytest
from tests.record.command import GREENLANE, environment, greenlane, recorded

from greenlane.hosts.observed.import_trigger import OBSERVERS, UNOBSERVED
from greenlane.record.servers import JOB_LINES, OBSERVED, advice, listening
from tests.child import Child
from tests.fixtures import StartProcess

#: What answers one line stands in each of them at `ANSWER`.
ASYNCIO = """
import asyncio, sys
async def serve(reader, writer):
    while line := await reader.readline():
        ANSWER
    writer.close()
async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1])) as server:
        await server.serve_forever()
asyncio.run(main())
"""
SOCKETSERVER = """
import socketserver, sys
class Lines(socketserver.StreamRequestHandler):
    def handle(self):
        while line := self.rfile.readline():
            ANSWER
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
Server(("127.0.0.1", int(sys.argv[1])), Lines).serve_forever()
"""
#: The same with a host that is observed beside it: this one is recorded from its start on.
BESIDE = "import http.server\n" + ASYNCIO
GRPC = """
import sys, grpc
from concurrent import futures
def answer(line, context):
    ANSWER
    return line
class Lines(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(answer)
server = grpc.server(futures.ThreadPoolExecutor(2))
server.add_generic_rpc_handlers((Lines(),))
server.add_insecure_port("127.0.0.1:" + sys.argv[1])
server.start()
server.wait_for_termination()
"""
#: Program, what it answers with, how it is named.
SERVERS = {
    "asyncio": (ASYNCIO, "writer.write(line)", "asyncio"),
    "socketserver": (SOCKETSERVER, "self.wfile.write(line)", "socketserver"),
    "beside": (BESIDE, "writer.write(line)", "asyncio"),
    "grpc": (GRPC, "pass", "grpc"),
}
ASKED = 5


def ask(server: str, port: int) -> None:
    if server == "grpc":
        import grpc

        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary("/lines.Lines/Answer")
            assert [call(b"line") for _ in range(ASKED)] == [b"line"] * ASKED
        return
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client, client.makefile("rwb") as stream:
        for _ in range(ASKED):
            stream.write(b"line\n")
            stream.flush()
            assert stream.readline() == b"line\n"


def serve(start: StartProcess, folder: Path, port: int, server: str, answer: str) -> Child:
    """A recorded server whose `ANSWER` is these lines."""
    source, _, _ = SERVERS[server]
    (line,) = (line for line in source.splitlines() if "ANSWER" in line)
    indent = line[: line.index("ANSWER")]
    source = source.replace(line, textwrap.indent(answer, indent))
    command = [*GREENLANE, "record", "-o", "r.glr", "--", sys.executable, "-c", source, str(port)]
    return start(command, cwd=folder, env=environment(), port=port)


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
def test_a_server_that_is_not_observed_is_named_with_lines_that_count_its_requests(
    server: str, tmp_path: Path, start_process: StartProcess, free_port: int
) -> None:
    if server == "grpc":
        pytest.importorskip("grpc")
    _, answer, name = SERVERS[server]
    running = serve(start_process, tmp_path, free_port, server, answer)
    ask(server, free_port)
    running.signal(signal.SIGINT)
    running.wait_exit()
    told = running.output
    assert f"a server was seen that is not observed: {name}, listening on 127.0.0.1:{free_port}\n" in told, told
    if server == "beside":
        for shape in ((), ("--brief",)):
            report = greenlane("report", "r.glr", *shape, cwd=tmp_path).out
            assert f"not observed: asyncio, listening on 127.0.0.1:{free_port}\n" in report, report
            assert textwrap.indent(JOB_LINES.rstrip(), "    ") in report
        (tmp_path / "r.glr").unlink()
    printed = re.search(r"with these lines:\n((?:    .*\n)+)", told)
    assert printed is not None, told
    lines = textwrap.dedent(printed[1])
    for pasted in (f"{lines}\n{answer}", lines.replace("...", answer)):
        running = serve(start_process, tmp_path, free_port, server, pasted)
        ask(server, free_port)
        running.signal(signal.SIGINT)
        running.wait_exit()
        assert "not observed" not in running.output
        assert [job.route for job in recorded(tmp_path).jobs] == ["request"] * ASKED
        (tmp_path / "r.glr").unlink()


def test_what_is_named_as_observed_is_what_is_observed() -> None:
    assert all(any(f"{module}.".startswith(f"{name}.") for module in OBSERVERS) for name in OBSERVED)
    assert all(any(f"{module}.".startswith(f"{name}.") for name in OBSERVED) for module in OBSERVERS)
    assert not {*OBSERVED} & {*UNOBSERVED}


def test_clients_and_observed_servers_without_requests_are_not_named() -> None:
    assert advice(["asyncio", "socketserver"], []) == ""
    assert advice(["asyncio", "uvicorn"], ["127.0.0.1:8000"]) == ""
    assert advice(["asyncio", "http.server", "socketserver"], ["127.0.0.1:8000"]).startswith(
        "a server was seen that is not observed: asyncio, listening on 127.0.0.1:8000\n"
    )
    assert advice([], ["/run/it"]).startswith("a server was seen that is not observed: of an unknown kind, listening")


def test_listening_sockets_are_named_by_their_address(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as four, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "it"))
        unix.listen()
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as six:
            wanted = {f"127.0.0.1:{four.getsockname()[1]}", f"[::1]:{six.getsockname()[1]}", str(tmp_path / "it")}
            assert wanted <= {*listening()}
    assert not wanted & {*listening()}
