"""Troubles of HTTP servers: whose clock begins a request, and workers that are taken and blocked themselves.

The client is another process, and knows from its own clocks when each request was sent and when its answer was there.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from typing import Any

MS = 1_000_000
_HELD_S = 0.005
_BLOCKED_S = 0.02
#: Of a private machine, and of the public Internet: the client has both.
_LOCAL, _PUBLIC = "127.0.0.1", "203.0.114.9"
_NEWUSER, _NEWNET = 0x10000000, 0x40000000
_SET_FLAGS, _SET_ADDRESS, _UP = 0x8914, 0x8916, 1

_CLIENT = """
import json, socket, sys, time
port, from_, path, form, count = int(sys.argv[1]), *sys.argv[2:5], int(sys.argv[5])
told = []
for _ in range(count):
    stamp_ns, stamp_unix_ns = time.monotonic_ns(), time.time_ns() - (5_000_000_000 if form == "old" else 0)
    header = {"ms": f"t={stamp_unix_ns // 1_000_000 / 1e3:.3f}", "s": f"t={stamp_unix_ns // 1_000_000_000}"}
    time.sleep(0.005)
    with socket.create_connection((from_, port), source_address=(from_, 0)) as end:
        sent_ns = time.monotonic_ns()
        said = header.get(form, header["ms"])
        end.sendall(f"GET {path} HTTP/1.0\\r\\nX-Request-Start: {said}\\r\\n\\r\\n".encode())
        said, answered_ns = b"", 0
        while got := end.recv(65536):
            said += got
            answered_ns = answered_ns or (bytes((13, 10) * 2) in said) * time.monotonic_ns()
    told.append((stamp_ns, sent_ns, answered_ns, time.monotonic_ns()))
print(json.dumps(told))
"""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer after a while."""
        time.sleep({"/slow": _BLOCKED_S, "/victim": 0.0}.get(self.path, _HELD_S))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


def _own_network() -> bool:
    """Go to a network of this process's own, with a public address; False: the system does not let us."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEWNET) and libc.unshare(_NEWUSER | _NEWNET):
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        address = struct.pack("<16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton(_PUBLIC))
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("<16sH14x", b"lo", _UP))
        fcntl.ioctl(any_socket, _SET_ADDRESS, address)
    return True


def _asks(port: int, from_: str, path: str, form: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-S", "-c", _CLIENT, str(port), from_, path, form, str(count)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GREENLANE_")}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def _told(client: subprocess.Popen[str]) -> list[list[int]]:
    said, _ = client.communicate()
    if client.returncode:
        raise RuntimeError(f"the client: exit code {client.returncode}")
    told: list[list[int]] = json.loads(said)
    return told


def front(count: int) -> dict[str, Any]:
    """A front of this machine tells when a request came to it; a client of the Internet and a coarse clock do not."""
    has_public = _own_network()
    server = ThreadingHTTPServer(("0.0.0.0", 0), _Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    port = server.server_address[1]
    rows = {
        "/front": _told(_asks(port, _LOCAL, "/front", "ms", count)),
        "/public": _told(_asks(port, _PUBLIC, "/public", "old", count)) if has_public else [],
        "/coarse": _told(_asks(port, _LOCAL, "/coarse", "s", count)),
    }
    server.shutdown()
    server.server_close()
    # It ends after its answer, and before its connection. The front's clock says whole milliseconds.
    true = {"latency GET /front": (_sum(rows["/front"], 0, 2), _sum(rows["/front"], 0, 3) + count * MS)}
    for path in ("/public", "/coarse"):
        true[f"latency GET {path}"] = (_sum(rows[path], 1, 2), _sum(rows[path], 1, 3))
    return true


def _sum(rows: list[list[int]], begin: int, end: int) -> int:
    return sum(row[end] - row[begin] for row in rows)


def occupied(count: int) -> dict[str, Any]:
    """Two workers that take turns at one socket wait for somebody else; who stands in line waits for no hog."""
    server = HTTPServer((_LOCAL, 0), _Handler)
    server.timeout = 0.05
    over: list[bool] = []

    def works() -> None:
        while not over:
            server.handle_request()

    workers = [threading.Thread(target=works, daemon=True) for _ in range(2)]
    for worker in workers:
        worker.start()
    port = server.server_address[1]
    slow = [_asks(port, _LOCAL, "/slow", "s", 100 * count) for _ in range(4)]
    victims = _asks(port, _LOCAL, "/victim", "s", count)
    rows = _told(victims)
    for client in slow:
        client.kill()
        client.communicate()
    over.append(True)
    for worker in workers:
        worker.join()
    server.server_close()
    return {"latency GET /victim": (_sum(rows, 1, 2), _sum(rows, 1, 3)), "verdict executor": 1}
