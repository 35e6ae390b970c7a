"""`greenlane export`: the lanes of the settings as other programs read them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from greenlane.cli.command import Command
from greenlane.cli.extra import needed
from greenlane.cli.output import Output
from greenlane.cli.settings_flags import declare_settings, effective_settings
from greenlane.errors import SettingsError
from greenlane_serve.export import envoy, haproxy, kubernetes, nginx
from greenlane_serve.export.fleet import Fleet, fleet_of
from greenlane_serve.settings import ServeSettings
from greenlane_serve.worker.application import parts

_TARGETS: Final = ("haproxy", "nginx", "envoy", "kubernetes")
_FLAGS: Final = ("workers", "at_once", "health_path", "queue_s", "stop_s")
_MOST: Final = 10_000
# What is left to the servers behind, by target.
_LEFT: Final = {
    "nginx": "nginx has no queue before its servers: queues, reserves and priorities are in each `greenlane serve`",
    "envoy": "Envoy has no queue before its servers: queues, reserves and priorities are in each `greenlane serve`",
    "kubernetes": "soft lanes share pods; HTTPRoutes go by the longest match, not by the order of the lanes",
}


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", choices=_TARGETS, help="the program that reads the output")
    fronts = parser.add_argument_group("haproxy, nginx, envoy")
    fronts.add_argument("--server", action="append", metavar="[LANE=]HOST:PORT",
                        help="a machine that runs `greenlane serve` with these settings, for each; with LANE= one that"
                        " serves this hard lane alone")  # fmt: skip
    fronts.add_argument("--listen", metavar="HOST:PORT", help="where the front listens (0.0.0.0:80)")
    fronts.add_argument("--fronts", type=int, metavar="N", help="haproxy: number of identical fronts (1)")
    fronts.add_argument("--connections", type=int, metavar="N", help="haproxy: most connections (10000)")
    fronts.add_argument("--folder", metavar="PATH", help="haproxy: folder of its runtime socket (/run/haproxy)")
    pods = parser.add_argument_group("kubernetes")
    pods.add_argument("--application", metavar="NAME", help="module:attribute, as for `greenlane serve`")
    pods.add_argument("--image", metavar="IMAGE", help="image with Python, the application, greenlane and HAProxy")
    pods.add_argument("--name", metavar="NAME", help="name of the objects (app)")
    pods.add_argument("--namespace", metavar="NAME", help="their namespace (kubectl's default)")
    pods.add_argument("--gateway", metavar="NAME", help="gateway of the HTTPRoutes (none: no HTTPRoutes)")
    pods.add_argument("--host", metavar="HOST", help="host of the HTTPRoutes (all)")
    pods.add_argument("--pods", metavar="LEAST-MOST", help="pods of each group (2-20)")
    declare_settings(parser, ServeSettings, _FLAGS, shown=())


def _run(arguments: argparse.Namespace, output: Output) -> int:
    _refuse_others(arguments)
    settings = effective_settings(arguments, ServeSettings)
    if arguments.target == "kubernetes":
        cluster = _cluster(arguments)
        text = _yaml(kubernetes.documents(settings, cluster))
        for doubt in kubernetes.doubtful(settings, cluster):
            output.say(f"greenlane: {doubt}")
    else:
        text = _front(arguments, _fleet(settings, arguments))
    output.out.write(text)
    if said := _LEFT.get(arguments.target):
        output.say(f"greenlane: {said} (docs/scaling.md)")
    return 0


def _refuse_others(arguments: argparse.Namespace) -> None:
    """A flag of another target would do nothing."""
    own: dict[str, tuple[str, ...]] = {
        "kubernetes": ("application", "image", "name", "namespace", "gateway", "host", "pods"),
        "haproxy": ("server", "listen", "fronts", "connections", "folder"),
    }
    own |= dict.fromkeys(("nginx", "envoy"), ("server", "listen"))
    for names in own.values():
        for name in names:
            if name not in own[arguments.target] and getattr(arguments, name) is not None:
                arguments.parser.error(f"--{name} does nothing for {arguments.target}")
    for name in ("application", "image") if arguments.target == "kubernetes" else ("server",):
        if not getattr(arguments, name):
            arguments.parser.error(f"{arguments.target} needs --{name}")


def _fleet(settings: ServeSettings, arguments: argparse.Namespace) -> Fleet:
    fronts = 1 if arguments.fronts is None else arguments.fronts
    if not 1 <= fronts <= _MOST:
        arguments.parser.error(f"--fronts must be from 1 to {_MOST}")
    return fleet_of(settings, arguments.server, fronts)


def _front(arguments: argparse.Namespace, fleet: Fleet) -> str:
    listen = arguments.listen or "0.0.0.0:80"
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65536 or set(host) & set(" \t'\";{}\\"):
        rule, hint = "host:port", "write it as 0.0.0.0:80"
        raise SettingsError("--listen", listen, rule, hint, attempted="export the lanes")
    if arguments.target == "haproxy":
        connections = _MOST if arguments.connections is None else arguments.connections
        if not 1 <= connections <= 10_000_000:
            arguments.parser.error("--connections must be from 1 to 10000000")
        return haproxy.text(fleet, listen, Path(arguments.folder or "/run/haproxy"), connections)
    if arguments.target == "nginx":
        return nginx.text(fleet, listen)
    return _yaml([envoy.bootstrap(fleet, host.strip("[]") or "0.0.0.0", int(port))])


def _cluster(arguments: argparse.Namespace) -> kubernetes.Cluster:
    parts(arguments.application)
    least, _, most = (arguments.pods or "2-20").partition("-")
    if not (least.isdecimal() and most.isdecimal() and 1 <= int(least) <= int(most) <= _MOST):
        arguments.parser.error("--pods must be two numbers, such as 2-20")
    return kubernetes.Cluster(
        arguments.name or "app", arguments.application, arguments.image, arguments.gateway or "",
        host=arguments.host or "", namespace=arguments.namespace or "", least=int(least), most=int(most),
    )  # fmt: skip


def _yaml(documents: Iterable[dict[str, Any]]) -> str:
    with needed("serve", "export the lanes"):
        import yaml

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]  # it has no types
        """Texts of several lines as such; what stands in two places is written twice."""

        def ignore_aliases(self, data: object) -> bool:
            return True

    def text(dumper: Dumper, said: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", said, style="|" if "\n" in said else None)

    Dumper.add_representer(str, text)
    return str(yaml.dump_all(documents, Dumper=Dumper, sort_keys=False, width=120))


COMMAND: Final = Command(
    "export", "write the lanes for HAProxy, nginx, Envoy or Kubernetes", _declare, _run,
    examples=(
        "greenlane export nginx --server 10.0.0.5:8000",
        "greenlane export kubernetes --application shop:app --image shop:1.4",
    ),
)  # fmt: skip
