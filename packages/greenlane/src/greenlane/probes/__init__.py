"""Blocking calls seen: probes turn what a thread waits for into phase events, in any code.

For permits and for the recording:

- `install`, `uninstall` — the interpreter's C functions (`native`), C drivers (`drivers`) and the frameworks' route
  names (`routes`) at once
- `install_routes` — the route names alone
- `absent` — names that the installed versions of libraries do not have although the probes ask for them
- `explain_gevent` — why a monkey-patched process is refused, and what to do
- `deadline_out` — the remaining time as a header of upstream requests

For the recording alone: `gevent`, `asyncio`, `children` (what runs in threads for a job), `calls` (of upstreams).

`patching` holds the rules by which something is replaced and given back, `wrapping` the wrappers of drivers.
"""

from greenlane.probes.cooperative import explain_gevent
from greenlane.probes.threads import absent, install, install_routes, uninstall

__all__ = ["absent", "explain_gevent", "install", "install_routes", "uninstall"]
