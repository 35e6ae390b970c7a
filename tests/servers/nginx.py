"""A real nginx with the configuration of a test."""

from __future__ import annotations

from tests import child
from tests.servers.server import Server, find

# One process: workers of a killed master would live on.
_HEAD = """\
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr warn;
events {{ worker_connections 1024; }}
"""
_HTTP = """\
    access_log {folder}/access.log;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
"""


class Nginx(Server):
    """nginx as one process in the foreground."""

    name = "nginx"

    def __init__(self, configuration: str) -> None:
        """`configuration`: what stands in `http`; `{port}` becomes the port, `{folder}` the folder;
        braces that are nginx's own are doubled. Example:

            server {{
                listen 127.0.0.1:{port};
                location / {{ proxy_pass http://127.0.0.1:20001; }}
            }}
        """
        super().__init__()
        self._configuration = configuration

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        """Write the configuration."""
        places = {"port": self.port, "folder": self.folder}
        inner = (_HTTP + self._configuration.rstrip() + "\n").format(**places)
        (self.folder / "nginx.conf").write_text(_HEAD.format(**places) + f"http {{\n{inner}}}\n")

    def launch(self) -> child.Child:
        """Start the process."""
        places = ["-p", str(self.folder), "-c", str(self.folder / "nginx.conf")]
        command = [find("nginx", name=self.name), *places, "-e", "stderr"]
        return child.Child(command, cwd=self.folder)
