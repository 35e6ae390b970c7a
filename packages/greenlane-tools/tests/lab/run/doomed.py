"""A server that ends itself at its request NUMBER: `python doomed.py PORT NUMBER`; with a further port it asks there
instead, once, and goes on: the server that listens there is doomed in its place.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys

from greenlane_tools.demo.upstream import Delayed

asked = 0


class Doomed(Delayed):
    """Counts requests."""

    def data_received(self, data: bytes) -> None:
        """At the last one there is no answer."""
        global asked
        asked += 1
        if asked == int(sys.argv[2]):
            if len(sys.argv) < 4:
                os.write(2, b"gone for good\n")
                os._exit(3)
            with socket.create_connection(("127.0.0.1", int(sys.argv[3]))) as other:
                other.sendall(b"GET / HTTP/1.1\r\n\r\n")
        super().data_received(data)


async def serve() -> None:
    """Until the end."""
    server = await asyncio.get_running_loop().create_server(lambda: Doomed(0.002), "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


asyncio.run(serve())
