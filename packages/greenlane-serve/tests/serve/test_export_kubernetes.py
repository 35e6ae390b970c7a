"""Manifests: held to the published schemas, and to what a pod makes of its settings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from greenlane.errors import SettingsError
from greenlane.settings import Lane, load
from greenlane_serve.export.kubernetes import Cluster, documents, pod_settings
from greenlane_serve.lanes import SHARED, layout_of
from greenlane_serve.settings import ServeSettings

CLUSTER = Cluster("shop", "shop:app", "registry/shop:7", "edge", host="shop.example", namespace="live", least=3, most=9)
LANES = (
    Lane("phones", match=("GET /bikes/*", "/rides/<id>"), headers={"X-Client": "it's a \"phone\"*"}, processes=1,
         priority=10, deadline_ms=250),
    Lane("Big.Reports", match=("/report*", "/a b\\"), kind="hard", processes=2, deadline_ms=123_456, priority=3),
)  # fmt: skip
SETTINGS = ServeSettings(
    workers=6, lanes=LANES, health_path="/healthz", stop_s=12.5, deadline_headers=("x-due",), permits=2
)
# Of the Gateway API, which is no part of Kubernetes: see its README.
PUBLISHED = Path(__file__).with_name("published") / "httproute.json"


def made(settings: ServeSettings = SETTINGS, cluster: Cluster = CLUSTER) -> list[dict[str, Any]]:
    return documents(settings, cluster)


def of_kind(kind: str, nodes: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {node["metadata"]["name"]: node for node in nodes if node["kind"] == kind}


@pytest.mark.slow
def test_the_published_schemas_accept_every_object() -> None:
    validate = pytest.importorskip("kubernetes_validate")
    nodes = [node for node in made() if node["kind"] != "HTTPRoute"]
    assert {node["kind"] for node in nodes} == {
        "ConfigMap", "Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget",
    }  # fmt: skip
    for node in nodes:
        validate.validate(node, "1.35", strict=True)
    nodes[1]["spec"]["replica"] = 1
    with pytest.raises(Exception, match="replica"):
        validate.validate(nodes[1], "1.35", strict=True)


@pytest.mark.parametrize("lanes", [LANES, (), tuple(Lane(f"l{n}", match=(f"* /{n}",)) for n in range(40))])
def test_the_published_schema_accepts_every_route(lanes: tuple[Lane, ...]) -> None:
    schema = json.loads(PUBLISHED.read_text())
    routes = of_kind("HTTPRoute", made(ServeSettings(workers=6, lanes=lanes)))
    assert len(routes) == (3 if len(lanes) == 40 else 1)
    for route in routes.values():
        jsonschema.validate(route, schema)
        route["spec"]["rules"][0]["timeouts"] = {"request": "1.5s"}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(route, schema)


def test_each_group_has_its_objects_under_names_that_kubernetes_takes() -> None:
    nodes = made()
    for kind in ("ConfigMap", "Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget"):
        assert list(of_kind(kind, nodes)) == ["shop", "shop-big-reports"]
    assert all(node["metadata"]["namespace"] == "live" for node in nodes)
    scaled = of_kind("HorizontalPodAutoscaler", nodes)["shop"]["spec"]
    assert (scaled["scaleTargetRef"]["name"], scaled["minReplicas"], scaled["maxReplicas"]) == ("shop", 3, 9)
    pod = of_kind("Deployment", nodes)["shop"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= 5 + 12.5
    assert pod["containers"][0]["readinessProbe"]["httpGet"] == {"path": "/healthz", "port": "inner"}
    assert pod["containers"][0]["resources"]["requests"]["cpu"] == "4"


def test_a_pod_is_asked_for_what_each_probe_means_where_no_service_leads(tmp_path: Path) -> None:
    nodes = made(ServeSettings())
    container = of_kind("Deployment", nodes)["shop"]["spec"]["template"]["spec"]["containers"][0]
    file = tmp_path / "greenlane.toml"
    file.write_text(of_kind("ConfigMap", nodes)["shop"]["data"]["greenlane.toml"])
    pod = load(file=file, environ={}, kind=ServeSettings)
    asked = {name: container[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert asked["startupProbe"] == asked["readinessProbe"] == {"path": pod.health_path, "port": "inner"}
    assert asked["livenessProbe"] == {"path": pod.alive_path, "port": "inner"}
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert pod.metrics_bind == (f":{ports['inner']}",)
    assert of_kind("Service", nodes)["shop"]["spec"]["ports"] == [{"name": "http", "port": 80, "targetPort": "http"}]
    assert container["startupProbe"]["failureThreshold"] * container["startupProbe"]["periodSeconds"] > pod.boot_s
    assert (pod.workers, container["resources"]["requests"]["cpu"]) == (2, "2")  # not those of this machine


def test_a_pod_may_run_under_the_restricted_standard_and_writes_in_one_directory() -> None:
    pod = of_kind("Deployment", made())["shop"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True,
    }  # fmt: skip
    places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    environ = {one["name"]: one["value"] for one in container["env"]}
    assert environ["RUNTIME_DIRECTORY"] == environ["TMPDIR"] == places["run"]


def test_requests_go_to_the_pods_of_their_lane() -> None:
    (route,) = of_kind("HTTPRoute", made()).values()
    phones, reports, rest = route["spec"]["rules"]
    assert [rule["backendRefs"][0]["name"] for rule in (phones, reports, rest)] == ["shop", "shop-big-reports", "shop"]
    assert phones["timeouts"] == {"request": "250ms"}
    assert reports["timeouts"] == {"request": "123s456ms"}
    assert "matches" not in rest
    bikes, rides = phones["matches"]
    assert (bikes["path"], bikes["method"]) == ({"type": "PathPrefix", "value": "/bikes"}, "GET")
    assert rides["path"]["type"] == "RegularExpression"
    assert re.search(rides["path"]["value"], "/rides/7")
    assert bikes["headers"][0]["name"] == "x-client"
    wide, exact = reports["matches"]
    assert wide["path"]["type"] == "RegularExpression"
    assert exact["path"] == {"type": "Exact", "value": "/a%20b%5C"}


def _pods(tmp_path: Path) -> Iterator[ServeSettings]:
    layout = layout_of(SETTINGS)
    for group in layout.groups:
        file = tmp_path / f"{group}.toml"
        file.write_text(pod_settings(SETTINGS, layout, group, 8000))
        yield load(file=file, environ={}, kind=ServeSettings)


def test_a_pod_reads_what_was_meant(tmp_path: Path) -> None:
    shared, reports = _pods(tmp_path)
    for pod in (shared, reports):
        assert pod.bind == (":8000",)
        assert (pod.health_path, pod.stop_s, pod.deadline_headers, pod.permits) == ("/healthz", 12.5, ("x-due",), 2)
    assert (shared.workers, reports.workers) == (4, 2)
    assert shared.lanes == LANES[:1]
    (lane,) = reports.lanes
    assert (lane.name, lane.kind, lane.processes, lane.match) == ("Big.Reports", "soft", 0, LANES[1].match)
    assert (lane.priority, lane.deadline_ms) == (3, 123_456)
    for pod in (shared, reports):
        assert layout_of(pod).groups == {SHARED: pod.workers}


@pytest.mark.parametrize(
    ("settings", "cluster", "said"),
    [
        (SETTINGS, Cluster("Shop", "a:b", "c", ""), "at most 40 of a-z"),
        (ServeSettings(workers=6, lanes=(Lane("a.b", match=("/x",), kind="hard", processes=1),
                                    Lane("a-b", match=("/y",), kind="hard", processes=1))), CLUSTER, "stays different"),
        (ServeSettings(workers=6, lanes=(Lane("__", match=("/x",), kind="hard", processes=1),)), CLUSTER,
         "stays different"),
    ],
)  # fmt: skip
def test_names_that_cannot_be_are_refused(settings: ServeSettings, cluster: Cluster, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        documents(settings, cluster)


def test_without_a_gateway_there_is_no_route() -> None:
    assert not of_kind("HTTPRoute", made(cluster=Cluster("shop", "shop:app", "i", "")))
