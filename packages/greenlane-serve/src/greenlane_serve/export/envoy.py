"""What Envoy can do of the lanes: tell them apart, deadlines, hard lanes on servers of their own.

Envoy chooses a server when a request comes and does not change its mind: queues, reserves and order are in each
server. So the bounds of its own that would refuse what a server's queue holds are raised here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from greenlane_serve.export.fleet import Fleet, Instance, refuse
from greenlane_serve.haproxy.requests import FORGEABLE, FORGEABLE_BEGUN, HEADERS_MOST
from greenlane_serve.lanes import FrontLane, Match

Node = dict[str, Any]
_TYPES: Final = "type.googleapis.com/envoy.extensions"
_MANAGER: Final = f"{_TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager"
_ROUTER: Final = f"{_TYPES}.filters.http.router.v3.Router"
# As many as the front of `greenlane serve` takes.
_MOST: Final = 10_000
# Servers that are compared before one is chosen; the more, the less random. Arbitrary.
_COMPARED: Final = 10
# HTTP/2's names for the request line and Host, and some to spare.
_PSEUDO: Final = 8
_MOST_HEAD_KB: Final = 8192
_SILENT_S: Final = 3600
_DEADLINE: Final = "x-envoy-expected-rq-timeout-ms"


def bootstrap(fleet: Fleet, host: str, port: int) -> Node:
    """The whole configuration, for `envoy -c`.

    Raises:
        SettingsError: a setting that Envoy cannot do.
    """
    refuse("envoy", fleet.settings)
    return {
        "static_resources": {
            "listeners": [_listener(fleet, host, port)],
            "clusters": [_cluster(fleet, group, instances) for group, instances in fleet.instances.items()],
        },
    }  # fmt: skip


def _listener(fleet: Fleet, host: str, port: int) -> Node:
    routes = {
        "name": "lanes",
        "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": list(_routes(fleet))}],
        # The servers believe what this front sends.
        "request_headers_to_remove": list(_removed(fleet)),
        "request_headers_to_add": [{
            "header": {"key": "x-request-start", "value": "t=%START_TIME(%s.%3f)%"},
            "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
        }],
    }  # fmt: skip
    manager = {
        "@type": _MANAGER,
        "stat_prefix": "greenlane",
        # The client's address is the last of X-Forwarded-For: what Envoy has seen, not what the client says.
        "use_remote_address": True,
        # Nobody's x-envoy-* are believed, wherever he calls from.
        "internal_address_config": {"cidr_ranges": []},
        "codec_type": "AUTO" if fleet.settings.http2 else "HTTP1",
        "normalize_path": True,
        "max_request_headers_kb": min(_MOST_HEAD_KB, -(-fleet.settings.head_max_bytes // 1024)),
        "common_http_protocol_options": {
            "max_headers_count": HEADERS_MOST + _PSEUDO,
            "headers_with_underscores_action": "DROP_HEADER",
        },
        # Of a stream on which nobody says anything, an event stream or a WebSocket; a worker's own, as in `serve`.
        "stream_idle_timeout": _seconds(_SILENT_S),
        "request_headers_timeout": _seconds(fleet.settings.head_timeout_s),
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "route_config": routes,
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {"@type": _ROUTER}}],
    }
    filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
    return {"name": "public", "address": _address(host, port), "filter_chains": [{"filters": filters}]}


def _removed(fleet: Fleet) -> Iterator[str]:
    settings = fleet.settings
    deadlines = (name.lower() for name in settings.deadline_headers)
    # Envoy writes its own x-request-id, and its deadline after it has taken out the client's.
    names = (*FORGEABLE_BEGUN, *FORGEABLE, *deadlines, settings.request_id_header.lower())
    yield "x-greenlane-lane"
    yield from dict.fromkeys(name for name in names if name not in ("", "x-request-id", _DEADLINE))


def _routes(fleet: Fleet) -> Iterator[Node]:
    """The first that matches counts, as among the lanes."""
    for lane in fleet.layout.lanes:
        action = _action(fleet.layout.group_of(lane), lane)
        for match in lane.matches:
            yield {"name": lane.name, "match": _match(match.encoded, lane), "route": action}
        if not lane.name:
            yield {"name": "rest", "match": {"prefix": "/"}, "route": action}


def _match(match: Match, lane: FrontLane) -> Node:
    if match.exact is not None:
        found: Node = {"path": match.exact}
    elif match.prefix is not None:
        found = {"prefix": match.prefix}
    else:
        found = {"safe_regex": {"regex": match.path_regex}}
    asked = [(":method", match.method_regex)] if match.method_regex else []
    headers = [
        {"name": name, "string_match": {"safe_regex": {"regex": regex}}} for name, regex in (*asked, *lane.headers)
    ]
    return {**found, **({"headers": headers} if headers else {})}


def _action(group: str, lane: FrontLane) -> Node:
    action: Node = {
        "cluster": group,
        # A lane's deadline also goes to the server, in x-envoy-expected-rq-timeout-ms. 0 = none; Envoy's own is 15 s.
        "timeout": _seconds(lane.deadline_ms / 1000),
        "retry_policy": {
            "retry_on": "connect-failure,refused-stream",  # never sent: safe to send for any method
            "num_retries": 2,
            "retry_host_predicate": [{
                "name": "envoy.retry_host_predicates.previous_hosts",
                "typed_config": {"@type": f"{_TYPES}.retry.host.previous_hosts.v3.PreviousHostsPredicate"},
            }],
            "host_selection_retry_max_attempts": 3,
        },
    }  # fmt: skip
    return {**action, "priority": "HIGH"} if lane.priority > 0 else action


def _cluster(fleet: Fleet, group: str, instances: tuple[Instance, ...]) -> Node:
    bounds = {"max_connections": _MOST, "max_pending_requests": _MOST, "max_requests": _MOST}
    health = fleet.settings.health_path
    check: Node = {"timeout": "1s", "interval": "2s", "unhealthy_threshold": 3, "healthy_threshold": 1}
    check |= {"http_health_check": {"path": health}} if health else {"tcp_health_check": {}}
    endpoints = [{"endpoint": {"address": _address(one.host, one.port)}} for one in instances]
    return {
        "name": group,
        "type": "STRICT_DNS",
        "connect_timeout": "1s",
        "lb_policy": "LEAST_REQUEST",
        "least_request_lb_config": {"choice_count": max(2, min(len(instances), _COMPARED))},
        # One of its own for each priority: requests of a lane before others do not use up what those may have.
        "circuit_breakers": {"thresholds": [{"priority": name, **bounds} for name in ("DEFAULT", "HIGH")]},
        "health_checks": [check],
        "load_assignment": {"cluster_name": group, "endpoints": [{"lb_endpoints": endpoints}]},
    }


def _address(host: str, port: int) -> Node:
    return {"socket_address": {"address": host, "port_value": port}}


def _seconds(seconds: float) -> str:
    """As protobuf writes a duration."""
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"
