"""Where an arrival cannot be known, its clock says so; a proxy's own moment is believed, its connections are not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.arrival.compared import compare, faults
from tests.arrival.servers import SERVED, SERVERS, Server

from tests.fixtures import StartProcess
from tests.servers import HAProxy, Nginx

pytestmark = [pytest.mark.system, pytest.mark.slow]

NGINX = """
    upstream app {{
        server 127.0.0.1:%d;
        keepalive 8;
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://app;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            %s
        }}
    }}
"""
HAPROXY = """
    frontend in
        bind 127.0.0.1:{port}
        %s
        default_backend app
    backend app
        http-reuse always
        server one 127.0.0.1:%d
"""
#: nginx knows the millisecond; HAProxy is asked for the microsecond.
NGINX_START = 'proxy_set_header X-Request-Start "t=${{msec}}";'
HAPROXY_START = "http-request set-header X-Request-Start %[date(0,us)]"


@pytest.mark.parametrize("how", ["reading_thread", "reading_thread_wsgi", "reading_process"])
def test_what_another_thread_or_process_has_read_has_the_handlers_clock(
    how: str, start_process: StartProcess, tmp_path: Path, free_port: int
) -> None:
    command = [sys.executable, str(SERVED / "unknown.py"), how]
    server = Server(lambda port: [*command, str(port)], clock="handler")
    found = faults(compare(server, start_process, tmp_path, free_port), server)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("how", ["task_of_connection", "task_of_request"])
def test_a_task_that_serves_a_connection_has_each_request_s_own_bytes(
    how: str, start_process: StartProcess, tmp_path: Path, free_port: int
) -> None:
    command = [sys.executable, str(SERVED / "unknown.py"), how]
    # What it has read before it asks for it does not wake it.
    server = Server(lambda port: [*command, str(port)], others={"pipelined": "handler", "behind": "handler"})
    found = faults(compare(server, start_process, tmp_path, free_port), server)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ["waitress", "gunicorn.gthread", "uvicorn, httptools, uvloop"])
@pytest.mark.parametrize("header", [False, True], ids=["kept connections", "X-Request-Start"])
@pytest.mark.parametrize("proxy", ["nginx", "haproxy"])
def test_behind_a_proxy_that_keeps_connections(
    proxy: str, header: bool, name: str, start_process: StartProcess, tmp_path: Path, free_port: int
) -> None:
    server = Server(SERVERS[name].command, clock="header" if header else "kernel")
    front = (
        Nginx(NGINX % (free_port, NGINX_START if header else ""))
        if proxy == "nginx"
        else HAProxy(HAPROXY % (HAPROXY_START if header else "", free_port))
    )
    with front:
        found = faults(compare(server, start_process, tmp_path, free_port, ask=front.port), server)
    assert not found, "\n".join(found)
