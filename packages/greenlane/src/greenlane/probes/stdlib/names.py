"""DNS: a look-up ends a phase.

A look-up of a numeric address or of /etc/hosts does not wait for the network, but takes the resolver's locks and files;
telling them apart would cost what it saves. A host name given to `connect` directly is resolved inside that call and
belongs to it. `socket.getfqdn` and `socket.create_connection` come through here.
"""

from __future__ import annotations

from types import ModuleType
from typing import Final

from greenlane.phase import Kind
from greenlane.probes.patching import Patches
from greenlane.probes.wrapping import always

__all__ = ["place"]

_LOOKUPS: Final = ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo")


def place(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `socket`."""
    lookup = always(Kind.DNS)
    for name in _LOOKUPS:
        patches.replace(module, name, lookup)
