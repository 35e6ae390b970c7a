"""The front's certificate: the user's two files, joined into one, again when they change."""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from greenlane.errors import ServeError, SettingsError
from greenlane_serve.haproxy.runtime import Runtime
from greenlane_serve.haproxy.site import word
from greenlane_serve.rounds import Service
from greenlane_serve.settings import ServeSettings


def files_of(settings: ServeSettings) -> list[tuple[Path, ...]]:
    """The files of each certificate: one and its key, or all of a directory; the first is the default."""
    named = Path(settings.tls_certificate)
    if settings.tls_certificate and named.is_dir():
        return [(file,) for file in sorted(named.glob("*.pem"))]
    return [tuple(Path(name) for name in (settings.tls_certificate, settings.tls_key) if name)]


def binds(settings: ServeSettings, fds: Sequence[int], folder: Path, certificates: int = 1) -> list[str]:
    """What follows `bind` for each listening socket of clients: those of `bind`, then those of `tls_bind`.

    `certificates`: how many there are, as `files_of` counts them.
    """
    protocols = "h2,http/1.1" if settings.http2 else "http/1.1"
    each = " ".join(f"crt {word(str(_joined(folder, number)))}" for number in range(certificates))
    secure = f" ssl {each} alpn {protocols} ssl-min-ver TLSv{settings.tls_min_version}"
    clear = len(settings.bind)
    public = fds[: clear + len(settings.tls_bind)]
    return [f"fd@{fd}{secure if number >= clear else ''}" for number, fd in enumerate(public)]


def global_lines(settings: ServeSettings) -> list[str]:
    """Of the section `global`: forward secrecy and authenticated ciphers for TLS 1.2; 1.3 has no others."""
    if not settings.tls_bind:
        return []
    return ["ssl-default-bind-ciphers ECDHE+AESGCM:ECDHE+CHACHA20"]


_READ: Final = "read the certificate"
# inode, size, time of change of each file.
_Stamp = tuple[tuple[int, int, int], ...]


class Certificate:
    """Certificate, chain and key.

    Args:
        files: that have them.
        path: where HAProxy reads them, as one file that other users cannot read.
    """

    def __init__(self, files: Sequence[Path], path: Path) -> None:
        self._files = files
        #: See above.
        self.path = path
        self._stamp: _Stamp = ()
        #: What was written last; "" = nothing yet.
        self.text = ""

    @property
    def changed(self) -> bool:
        """Whether the files are others than those last read."""
        return self._seen() != self._stamp

    def write(self) -> None:
        """Read the files and write ours.

        Raises:
            SettingsError: a file cannot be read, or the two are no certificate with its key. Ours stays as it was.
        """
        self._stamp = self._seen()  # first: what changes meanwhile is read again
        new = self.path.with_suffix(".new")
        try:
            text = "".join(_sections(file.read_text()) for file in self._files)
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(text)
            _check(new)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError, UnicodeDecodeError a ValueError
            with contextlib.suppress(OSError):
                new.unlink()
            names = ", ".join(map(str, self._files))
            rule = f"a certificate and its key in PEM, without a passphrase ({error})"
            hint = "name both in tls_certificate and tls_key"
            raise SettingsError("tls_certificate", names, rule, hint, attempted=_READ) from None
        new.replace(self.path)
        self.text = text

    def tell(self, runtime: Runtime) -> None:
        """Give a front that runs what was written last. Connections that exist keep theirs.

        Raises:
            ServeError: it does not take it; it goes on with the one before.
        """
        runtime.ask(f"abort ssl cert {self.path}")  # what an attempt before has left
        for command in (f"set ssl cert {self.path} <<\n{self.text}", f"commit ssl cert {self.path}"):
            answer = runtime.ask(command).strip()
            if "Transaction" not in answer and "Success" not in answer:
                rule = f"one that HAProxy accepts; it says: {answer}"
                raise ServeError("renew the certificate", name="tls_certificate", value=str(self._files[0]), rule=rule)

    def _seen(self) -> _Stamp:
        with contextlib.suppress(OSError):
            found = [file.stat() for file in self._files]
            return tuple((one.st_ino, one.st_size, one.st_mtime_ns) for one in found)
        return ()


class Renewal:
    """The certificates of the settings, and looks whether they were renewed. Without TLS it does nothing."""

    #: In s. Arbitrary: a certificate is renewed weeks before it ends.
    every_s = 10.0

    def __init__(self) -> None:
        self._certificates: list[Certificate] = []
        # What the front has, by its file.
        self._told: dict[Path, str] = {}

    def take(self, settings: ServeSettings, folder: Path) -> None:
        """Read the certificates of these settings for a front whose folder this is.

        Raises:
            SettingsError: see `Certificate.write`, or there is none. Those before stay.
        """
        files = files_of(settings) if settings.tls_bind else []
        if settings.tls_bind and not files:
            raise SettingsError("tls_certificate", settings.tls_certificate, "a directory with *.pem files",
                                "put certificate, chain and key into one file there", attempted=_READ)  # fmt: skip
        certificates = [Certificate(one, _joined(folder, number)) for number, one in enumerate(files)]
        for certificate in certificates:
            certificate.write()
        self._certificates = certificates

    def look(self, service: Service, now_s: float) -> None:
        """Read what has changed and tell the front. What cannot be read is logged, once for each change."""
        for certificate in self._certificates:
            if certificate.changed:
                try:
                    certificate.write()
                except SettingsError as error:
                    service.say(f"the certificate is not renewed: {error}")
            path, text = certificate.path, certificate.text
            if self._told.get(path, text) != text:  # the first one a front has read by itself
                certificate.tell(service.front.runtime)
                service.say("the certificate is renewed")
            self._told[path] = text


def _joined(folder: Path, number: int) -> Path:
    """Certificate, chain and key in one file of the front's folder."""
    return folder / f"tls{number or ''}.pem"


def _sections(text: str) -> str:
    """Without empty lines: one ends what HAProxy's runtime socket reads."""
    return "".join(f"{line.strip()}\n" for line in text.splitlines() if line.strip())


def _check(file: Path) -> None:
    def refuse() -> str:
        raise ValueError("the key has a passphrase")

    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file, password=refuse)
