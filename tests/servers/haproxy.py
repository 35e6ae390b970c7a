"""A real HAProxy with the configuration of a test."""

from __future__ import annotations

from tests import child
from tests.servers.server import Server, find

_HEAD = """\
global
    stats socket {folder}/control mode 600 level admin
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
"""


class HAProxy(Server):
    """HAProxy as one process in the foreground; its runtime interface is the Unix socket `control`."""

    name = "HAProxy"

    def __init__(self, configuration: str) -> None:
        """`configuration`: the sections after `global` and `defaults`.

        `{port}` becomes the port, `{folder}` the folder; braces that are HAProxy's own are doubled. Example:

            frontend in
                bind 127.0.0.1:{port}
                default_backend app
            backend app
                server one 127.0.0.1:20001
        """
        super().__init__()
        self._configuration = configuration

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def control(self) -> str:
        """Path of its runtime interface."""
        return f"{self.folder}/control"

    def prepare(self) -> None:
        """Write the configuration."""
        text = (_HEAD + self._configuration.rstrip() + "\n").format(port=self.port, folder=self.folder)
        (self.folder / "haproxy.cfg").write_text(text)

    def launch(self) -> child.Child:
        """Start the process."""
        return child.Child([find("haproxy", name=self.name), "-db", "-f", self.folder / "haproxy.cfg"], cwd=self.folder)
