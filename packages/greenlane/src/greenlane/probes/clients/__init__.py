"""Probes for clients that block in C, and for what a client sends along.

- `drivers` — `install`, `uninstall`, `absent`: psycopg, psycopg2, MySQLdb, grpc
- `http_client` — `install_deadline_out`, `uninstall_deadline_out`: the remaining time as a request header
"""

from greenlane.probes.clients.drivers import absent, install, uninstall
from greenlane.probes.clients.http_client import install_deadline_out, uninstall_deadline_out

__all__ = [
    "absent",
    "install",
    "install_deadline_out",
    "uninstall",
    "uninstall_deadline_out",
]
