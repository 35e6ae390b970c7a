"""A closed-loop client: N connections, each waits for its answer before it asks again. For contrast, not for measuring.

    python -m greenlane.lab.run.closed_client ADDRESS PATH CONNECTIONS SECONDS

Prints JSON: requests, errors, p50_ms, p95_ms, p99_ms, each latency counted from its own send, as such tools do.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import threading
import time

from greenlane.lab.run.address import Connection
from greenlane.lab.statistics import quantile

__all__ = ["main"]


def _ask(address: str, path: str, until_s: float, latencies_ms: list[float], errors: list[str]) -> None:
    connection = Connection(address)
    while (began_s := time.monotonic()) < until_s:
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException) as error:
            errors.append(str(error))
            connection.close()
            time.sleep(0.01)  # a refused connection must not make a busy loop
        else:
            if 200 <= answer.status < 300:
                latencies_ms.append((time.monotonic() - began_s) * 1000)
            else:
                errors.append(str(answer.status))
    connection.close()


def main(argv: list[str]) -> int:
    """Runs it and prints the numbers."""
    address, path, connections, seconds = argv[0], argv[1], int(argv[2]), float(argv[3])
    latencies_ms: list[float] = []
    errors: list[str] = []
    until_s = time.monotonic() + seconds
    clients = [
        threading.Thread(target=_ask, args=(address, path, until_s, latencies_ms, errors)) for _ in range(connections)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    latencies_ms.sort()
    shares = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
    found = {name: quantile(latencies_ms, share) if latencies_ms else None for name, share in shares.items()}
    os.write(1, json.dumps({"requests": len(latencies_ms), "errors": len(errors), **found}).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
