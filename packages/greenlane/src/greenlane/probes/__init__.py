"""Blocking calls seen: probes turn what a thread waits for into phase events, whoever wrote the code.

- `install`, `uninstall` — everything below at once
- `install_routes` — the frameworks' route names alone
- `absent` — names that the installed versions of libraries do not have although the probes ask for them
- `explain_gevent` — why a monkey-patched process is refused, and what to do
- `install_deadline_out`, `uninstall_deadline_out` — the remaining time as a header of upstream requests

`threads` holds the standard library's probes, `clients` the C drivers', `routes` the frameworks' route names,
`patching` the rules by which something is replaced and given back.
"""

from greenlane.probes.clients import install_deadline_out, uninstall_deadline_out
from greenlane.probes.cooperative import explain_gevent
from greenlane.probes.installation import absent, install, install_routes, uninstall

__all__ = [
    # everything
    "install",
    "uninstall",
    "install_routes",
    "absent",
    # green threads
    "explain_gevent",
    # deadlines
    "install_deadline_out",
    "uninstall_deadline_out",
]
