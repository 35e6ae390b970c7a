"""An upstream service: `python -m tests.system.apps.upstream PORT`.

GET /square/<n> answers after 5 ms; POST and GET /effects/<n> count; GET /effects/all adds up.
"""

import collections
import http.server
import json
import sys
import threading
import time

effects: collections.Counter[str] = collections.Counter()
mutex = threading.Lock()


class Upstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        time.sleep(0.005)
        _, what, n = self.path.split("/")
        with mutex:
            if what == "square":
                value = int(n) ** 2
            else:
                value = effects.total() if n == "all" else effects[n]
        self._answer({"value": value})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        with mutex:
            effects[self.path.split("/")[2]] += 1
        self._answer({"value": 1})

    def _answer(self, body: dict[str, int]) -> None:
        raw = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *ignored: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    Server(("127.0.0.1", int(sys.argv[1])), Upstream).serve_forever()
