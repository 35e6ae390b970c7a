"""What the settings say when they refuse something: the rule, the nearest word, the line of the file.

Loaded when something is refused, or when a name may be another distribution's.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final

from greenlane.errors import SettingsError

__all__ = [
    "FOREIGN",
    "REMOVED",
    "SERVERS",
    "bad_file",
    "elsewhere",
    "error_place",
    "line_of",
    "nearest",
    "removed",
    "unknown",
]

#: Names that other distributions declare: a process that has not loaded one of them passes its settings over, because
#: a file or an environment may be shared. A test compares them with the declarations.
FOREIGN: Final[Mapping[str, tuple[str, ...]]] = {
    "greenlane-serve": tuple(
        """
        bind workers at_once queue_s stop_s boot_s
        replace_stuck user max_requests max_memory_mb root_path log_level
        trusted_proxies target_max_bytes head_max_bytes
        body_max_mb body_first client_connections websockets tls_bind tls_certificate tls_key
        tls_min_version tls_redirect metrics_bind alive_path access_log access_log_format request_id_header
        """.split()
    ),
    "greenlane-work": tuple(
        """
        task_slots task_key task_order task_store task_store_lease_s task_store_keep_s
        task_result_kb task_attempts task_retries task_deliveries task_retry_s
        task_soft_limit_s task_hard_limit_s task_grace_s task_parked_most task_parked_most_s
        task_limit task_shared_limit task_most_frac task_rules
        task_slow_ms task_breaker_calls task_open_s
        task_return_s task_shutdown_s task_metrics
        task_reason_characters task_allow diversion
        """.split()
    ),
}

_LEFT_OUT: Final = "leave it out: "
_PRELOAD: Final = (
    f"{_LEFT_OUT}each worker loads the application. A forked one would share connections and locks that the import has "
    "made, and no reload could bring new code. To share memory, map large files (`mmap_mode` of numpy.load)"
)
_LOADED: Final = f"{_LEFT_OUT}WSGI or ASGI is seen from the application; uvloop and httptools are used if installed"
_CONFIGURED: Final = f"{_LEFT_OUT}the application configures `logging`; `log_level` is the server's in each worker"
_ENVIRONMENT: Final = f"{_LEFT_OUT}set variables where the service is started (systemd has EnvironmentFile)"
#: Names of gunicorn and uvicorn, and what `greenlane serve` has in their place. docs/serve.md has the same table.
SERVERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("host", "port", "uds"), "set `bind`"),
    **dict.fromkeys(("worker_class", "loop", "http", "interface"), _LOADED),
    "factory": "name it `app:create_app()`",
    **dict.fromkeys(("worker_connections", "limit_concurrency"), "set `at_once`; `queue_s` is for the wait"),
    "timeout": "set `hung_after_s` for workers, or a lane's `deadline_ms` for requests",
    **dict.fromkeys(("graceful_timeout", "timeout_graceful_shutdown"), "set `stop_s`"),
    "timeout_worker_healthcheck": "set `hung_after_s`",
    **dict.fromkeys(("keepalive", "timeout_keep_alive"), f"{_LEFT_OUT}the front keeps clients' connections for 60 s"),
    "backlog": f"{_LEFT_OUT}it is 4096",
    "limit_request_line": "set `target_max_bytes`",
    "limit_request_fields": f"{_LEFT_OUT}it is 100",
    **dict.fromkeys(("limit_request_field_size", "h11_max_incomplete_event_size"), "set `head_max_bytes`"),
    **dict.fromkeys(("certfile", "ssl_certfile"), "set `tls_certificate` and `tls_bind`"),
    **dict.fromkeys(("keyfile", "ssl_keyfile"), "set `tls_key`"),
    "forwarded_allow_ips": "set `trusted_proxies`",
    "proxy_headers": f"{_LEFT_OUT}`trusted_proxies` says whose are believed",
    **dict.fromkeys(("accesslog", "access_logfile"), "set `access_log`"),
    "access_logformat": "set `access_log_format`",
    **dict.fromkeys(("raw_env", "env_file"), _ENVIRONMENT),
    **dict.fromkeys(("chdir", "app_dir"), "start it in that directory"),
    "group": "set `user`: its groups come with it",
    **dict.fromkeys(("limit_max_requests", "max_requests_jitter", "limit_max_requests_jitter"), "set `max_requests`"),
    **dict.fromkeys(("preload", "preload_app"), _PRELOAD),
    "loglevel": "set `log_level`",
    **dict.fromkeys(("logconfig", "log_config"), _CONFIGURED),
    "fd": "let systemd pass the socket, and name its address in `bind`",
}
_CONSTANT: Final = f"{_LEFT_OUT}it is a constant now, with the value that was the default"
#: Our own of before.
REMOVED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("learned_file", "learned_save_s"), f"{_LEFT_OUT}routes are learned again within a second"),
    **dict.fromkeys(("quantile", "margin", "learn_after"), f"{_LEFT_OUT}pin a route by `weight` of its lane instead"),
    **dict.fromkeys(("wait_max_ms", "share_ms", "max_routes", "max_phases", "cluster_queue"), _CONSTANT),
    "process_queue": _CONSTANT,
    "half_closed": f"{_LEFT_OUT}a client that has closed its sending side counts as gone",
    "cluster_cpus": f"{_LEFT_OUT}Ray reserves one CPU for each worker",
    "deadline_out_header": f"{_LEFT_OUT}it is x-envoy-expected-rq-timeout-ms, which Envoy and our hosts read",
    "auto_placements": "set `placement = thread` to keep all placed functions in this process",
    "explore_ms": f"{_LEFT_OUT}three measured calls decide",
    "arena_mb": f"{_LEFT_OUT}shared memory grows with what is sent",
    "one_core": "set `cores = one`, or leave it out: `auto` keeps to one core while that pays",
    "inline_ms": f"{_LEFT_OUT}mark the function `@greenlane.light` or `@greenlane.heavy` instead",
    "auto_lane_ms": f"{_LEFT_OUT}it is 20 ms; a lane of your own says which routes go apart",
    "auto_lane": f"{_LEFT_OUT}write a lane with the routes' `match` and `processes`",
    "auto_last": f"{_LEFT_OUT}routes that compute for long wait last, unless there are lanes or a fixed `at_once`",
    **dict.fromkeys(("at_once_min", "at_once_max", "headers_max", "front_threads"), _CONSTANT),
    "hsts_s": f"{_LEFT_OUT}let the application send Strict-Transport-Security",
    "direct": f"{_LEFT_OUT}start `uvicorn --workers` with the middleware `greenlane.hosts.asgi.Greenlane`",
    **dict.fromkeys(
        ("versions", "version_workers", "version_header"),
        f"{_LEFT_OUT}serve each version by itself, and let the balancer before them share out requests",
    ),
    "preempt_ms": f"{_LEFT_OUT}threads are no longer stopped; `@greenlane.placed` keeps long work from others",
    "task_least": "write `least:N` in `task_rules`, for the keys that need it",
    "task_slow_factor": "set `task_slow_ms`, or leave it out: a call is slow from 5 times the key's usual latency on",
    "task_store_keep_unknown_s": "set `task_store_keep_s`: an order with an unknown end is kept 90 days at least",
    "task_retry_most_s": "set `task_retry_s`: the longest wait is 60 times as long",
    "task_open_most_s": "set `task_open_s`: the longest time is a minute, or that",
    **dict.fromkeys(
        (
            "task_failure_frac",
            "task_slow_frac",
            "task_metrics_keys",
            "task_retry_budget_frac",
            "task_parked_most_mb",
            "task_key_parked_frac",
            "task_probes",
            "task_probe_s",
            "task_keys",
        ),
        _CONSTANT,
    ),
}


def elsewhere(word: str) -> str:
    """What to do in place of another server's setting or flag, or of one that is no more; "" = it is neither."""
    return SERVERS.get(_plain(word)) or removed(word)


def removed(word: str) -> str:
    """What to do in place of a setting or flag that is no more; "" = it is none."""
    return REMOVED.get(_plain(word), "")


def _plain(word: str) -> str:
    return word.lower().lstrip("-").replace("-", "_")


def unknown(name: str, value: object, key: str, among: Iterable[str], *, attempted: str, hint: str) -> SettingsError:
    """The error of a name that nobody declares; `among` are those near which `key` may be."""
    told = elsewhere(key) or nearest(key, among) or hint
    return SettingsError(name, value, "a known name", told, attempted=attempted)


def nearest(word: str, among: Iterable[str]) -> str:
    """The question "did you mean …?", or "" when nothing is near. Case and dashes do not count."""
    names = {name.lower().replace("-", "_"): name for name in among}
    found = difflib.get_close_matches(word.lower().replace("-", "_"), names, n=1)
    return f"did you mean {names[found[0]]!r}?" if found else ""


def bad_file(name: str, rule: str, hint: str) -> SettingsError:
    """The error of a settings file that cannot be used."""
    return SettingsError("file", name, rule, hint, attempted="read the settings file")


def line_of(text: str, table: str, key: str) -> int:
    """The line of a key in a table ("" = before all tables); 0 = written in some way that is not looked for."""
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        head = re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line)
        if head:
            current = re.sub(r"[\"'\s]", "", head[1])
            if f"{current}.".startswith(f"{table}.{key}." if table else f"{key}."):
                return number
        elif current == table and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
            return number
    return 0


def error_place(text: str, message: str) -> str:
    """Where in a TOML text an error is, in words."""
    found = re.search(r"line (\d+)", message)
    if found:
        return f"line {found[1]}"
    return f"line {len(text.splitlines())}, the last one" if "end of document" in message else "the file"
