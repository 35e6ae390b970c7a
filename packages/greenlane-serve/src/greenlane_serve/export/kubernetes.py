"""Manifests: for each group of workers a Deployment, its settings, a Service, an autoscaler, a disruption budget.

Soft lanes share pods, and each pod keeps their reserves as on one machine; a hard lane has pods of its own.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from greenlane.errors import SettingsError
from greenlane.settings import LANE_KEYS, Lane, settings_of
from greenlane_serve.export.fleet import refuse
from greenlane_serve.export.routes import doubts, http_routes
from greenlane_serve.lanes import SHARED, Layout, layout_of
from greenlane_serve.settings import ServeSettings

Node = dict[str, Any]
_PORT: Final = 8000
_FOLDER: Final = "/etc/greenlane"
# Longer than most proxies take to notice that a pod goes.
_NOTICE_S: Final = 5
# Names of what the metrics adapter offers: docs/scaling.md has its rules.
_BUSY, _WAITING = "greenlane_busy_hottest", "greenlane_waiting_per_place"
# Where a pod answers probes; no Service leads there, so these paths hide none of the application's.
_INNER: Final = 9000
_HEALTH, _ALIVE, _METRICS = "/greenlane/health", "/greenlane/alive", "/metrics"
# Of a pod, where the settings do not say: what this machine has says nothing of it.
_WORKERS: Final = 2
_RUN: Final = "/run/greenlane"
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")


@dataclass(frozen=True)
class Cluster:
    """What the settings do not say."""

    name: str
    application: str
    image: str
    # Of the HTTPRoutes; "" = none of this kind.
    gateway: str
    host: str = ""
    namespace: str = ""
    # Pods of each group.
    least: int = 2
    most: int = 20


def documents(settings: ServeSettings, cluster: Cluster) -> list[Node]:
    """All of them.

    Raises:
        SettingsError: see `layout_of` and `http_routes`; a name that Kubernetes refuses; two lanes whose names become
            one.
    """
    if not _NAME.fullmatch(cluster.name):
        rule = "at most 40 of a-z 0-9 -, with a letter first"
        raise SettingsError("--name", cluster.name, rule, "choose another one", attempted="write manifests")
    refuse("kubernetes", settings)
    settings = pods(settings)
    layout = layout_of(settings, live=False)
    names = _names(layout, cluster.name)
    found = [node for group, name in names.items() for node in _group(settings, layout, cluster, group, name)]
    if cluster.gateway:
        found += http_routes(layout, names, cluster.name, cluster.gateway, cluster.host)
    if cluster.namespace:
        for node in found:
            node["metadata"]["namespace"] = cluster.namespace
    return found


def pods(settings: ServeSettings) -> ServeSettings:
    """The settings with what a pod needs: a number of workers, and something to be asked by."""
    return replace(
        settings,
        workers=settings.workers or _WORKERS,
        metrics_bind=(f":{_INNER}",),
        health_path=settings.health_path or _HEALTH,
        alive_path=settings.alive_path or _ALIVE,
        metrics_path=settings.metrics_path or _METRICS,
    )


def doubtful(settings: ServeSettings, cluster: Cluster) -> list[str]:
    """What is left to the gateway of these settings: lines for the person who exports."""
    layout = layout_of(pods(settings))
    return list(doubts(layout, _names(layout, cluster.name))) if cluster.gateway else []


def _names(layout: Layout, name: str) -> dict[str, str]:
    """Group -> name of its objects."""
    names: dict[str, str] = {}
    for group in layout.groups:
        short = re.sub(r"[^a-z0-9]+", "-", group.removeprefix("lane-").lower()).strip("-")[:40].strip("-")
        mine = name if group == SHARED else f"{name}-{short}"
        if mine in names.values() or not short:
            rule, hint = "a name that stays different as a-z 0-9 -", "rename the lane"
            raise SettingsError(f"lanes.{group.removeprefix('lane-')}", group, rule, hint, attempted="write manifests")
        names[group] = mine
    return names


def _group(settings: ServeSettings, layout: Layout, cluster: Cluster, group: str, name: str) -> Iterator[Node]:
    labels = {"app": name}
    text = pod_settings(settings, layout, group, _PORT)
    scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    yield _node("v1", "ConfigMap", name, labels, data={"greenlane.toml": text})
    yield _node("apps/v1", "Deployment", name, labels, spec={
        "selector": {"matchLabels": labels},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "25%"}},
        "template": {
            # Other settings are other pods.
            "metadata": {"labels": labels, "annotations": {"greenlane/settings": _digest(text)}},
            "spec": _pod(settings, cluster, labels, name, layout.groups[group]),
        },
    })  # fmt: skip
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    yield _node("v1", "Service", name, labels, spec={"selector": labels, "ports": ports})
    yield _node("autoscaling/v2", "HorizontalPodAutoscaler", name, labels, spec={
        "scaleTargetRef": scaled, "minReplicas": cluster.least, "maxReplicas": cluster.most,
        "metrics": [_metric(_BUSY, labels, "700m"), _metric(_WAITING, labels, "500m")],
        # The queue is gone at once when a pod comes: do not take it away again.
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 300}},
    })  # fmt: skip
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
    yield _node("policy/v1", "PodDisruptionBudget", name, labels, spec=budget)


def _pod(settings: ServeSettings, cluster: Cluster, labels: Node, name: str, workers: int) -> Node:
    ready = {"httpGet": {"path": settings.health_path, "port": "inner"}}
    alive = {"httpGet": {"path": settings.alive_path, "port": "inner"}}
    container: Node = {
        "name": "app",
        "image": cluster.image,
        "command": ["greenlane", "serve", cluster.application],
        "env": [
            {"name": "GREENLANE_CONFIG", "value": f"{_FOLDER}/greenlane.toml"},
            *({"name": name, "value": _RUN} for name in ("RUNTIME_DIRECTORY", "TMPDIR")),
        ],
        "ports": [{"name": "http", "containerPort": _PORT}, {"name": "inner", "containerPort": _INNER}],
        # As the standard *restricted* asks; what is written is in the run directory.
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        # No CPU limit: a throttled pod answers no request for the rest of a period.
        "resources": {"requests": {"cpu": str(workers)}},
        "startupProbe": {**ready, "periodSeconds": 1, "failureThreshold": math.ceil(2 * settings.boot_s)},
        "readinessProbe": {**ready, "periodSeconds": 2, "failureThreshold": 3},
        # A worker that hangs is the service's to replace; only a parent that is stuck needs another pod.
        "livenessProbe": {**alive, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6},
        # Meanwhile clients of the Service learn that this pod leaves.
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(_NOTICE_S)]}}},
        "volumeMounts": [
            {"name": "settings", "mountPath": _FOLDER, "readOnly": True},
            {"name": "run", "mountPath": _RUN},
        ],
    }
    return {
        "containers": [container],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "automountServiceAccountToken": False,
        "volumes": [
            {"name": "settings", "configMap": {"name": name}}, {"name": "run", "emptyDir": {"medium": "Memory"}},
        ],
        "terminationGracePeriodSeconds": round(_NOTICE_S + settings.stop_s + 5),
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels},
        }],
    }  # fmt: skip


def _metric(name: str, labels: Node, target: str) -> Node:
    metric = {"name": name, "selector": {"matchLabels": labels}}
    return {"type": "External", "external": {"metric": metric, "target": {"type": "Value", "value": target}}}


def _node(version: str, kind: str, name: str, labels: Node, **parts: Node) -> Node:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": dict(labels)}, **parts}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# What the pod says itself, or what names a place of another machine.
_NOT_OURS: Final = frozenset({"bind", "workers", "control_dir", "record_folder"})


def pod_settings(settings: ServeSettings, layout: Layout, group: str, port: int) -> str:
    """The text. A pod has the workers that the group has on one machine; a hard lane has its pods to itself."""
    lanes = {lane.name: layout.group_of(lane) for lane in layout.lanes}
    own = [lane for lane in settings.lanes if lanes[lane.name] == group]
    if group != SHARED:
        own = [replace(lane, kind="soft", processes=0) for lane in own]
    lines = [f'bind = [":{port}"]', f"workers = {layout.groups[group]}"]
    declared = settings_of(ServeSettings).items()
    lines += _changed(settings, {name: key.default for name, key in declared if name not in _NOT_OURS})
    for lane in own:
        lines += ["", f"[lanes.{json.dumps(lane.name)}]"]
        lines += _changed(lane, {name: key.default for name, key in LANE_KEYS.items()})
    return "\n".join(lines) + "\n"


def _changed(of: ServeSettings | Lane, defaults: Mapping[str, object]) -> Iterator[str]:
    for name, default in defaults.items():
        value = getattr(of, name)
        if value != default:
            yield f"{name} = {_written(value)}"


def _written(value: object) -> str:
    """A value as TOML: its strings, numbers and lists are those of JSON."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_written(one)}" for key, one in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)
