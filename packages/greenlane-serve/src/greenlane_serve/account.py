"""The user that the front and the workers become. The parent opens ports, keys and certificates before."""

from __future__ import annotations

import grp
import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from greenlane.errors import SettingsError

__all__ = ["Account", "account_of"]


@dataclass(frozen=True)
class Account:
    """Another user than the parent's."""

    user: str
    uid: int
    group: str
    gid: int
    # All groups of the user.
    groups: tuple[int, ...]

    def give(self, path: Path) -> None:
        """Let the user own what the parent has made."""
        os.chown(path, self.uid, self.gid)


def account_of(user: str) -> Account | None:
    """Of the setting `user`; None = all stay who we are.

    Raises:
        SettingsError: there is no such user, or we may not become another one.
    """
    if not user:
        return None
    attempted, hint = "choose the user of the workers", "start as root, or leave user out"
    try:
        found = pwd.getpwnam(user)
        group = grp.getgrgid(found.pw_gid).gr_name
    except KeyError:
        raise SettingsError("user", user, "a user of this machine", hint, attempted=attempted) from None
    if found.pw_uid == os.geteuid():
        return None
    if os.geteuid():
        raise SettingsError("user", user, "our own user, since we are not root", hint, attempted=attempted)
    return Account(user, found.pw_uid, group, found.pw_gid, tuple(os.getgrouplist(user, found.pw_gid)))
