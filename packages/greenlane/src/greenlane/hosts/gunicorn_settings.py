"""What each gunicorn setting means under this worker, and the checks that refuse what cannot hold.

`MEANING` names every setting of gunicorn 27; a test holds that none is missing and that docs/gunicorn.md says the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import gunicorn

from greenlane import bootstrap
from greenlane.control import check_directory
from greenlane.errors import HostError
from greenlane.lanes import learned
from greenlane.probes import explain_gevent
from greenlane.settings import SETTINGS, Settings, load

__all__ = ["MEANING", "ceiling", "check", "most_kept_alive"]

_OLDEST: Final = (27, 0)
_ATTEMPT: Final = "set up gunicorn's worker"

_SAME: Final = "as in gthread"
_ARBITER: Final = "as in gthread: the arbiter's, not the worker's"
_PARSER: Final = "as in gthread: gunicorn's own parser reads every request"
_LOG: Final = "as in gthread"
_HOOK: Final = "as in gthread"
_H2: Final = "as in gthread"
_NONE: Final = "without effect, as in gthread"

MEANING: Final[Mapping[str, str]] = {
    # what this worker touches
    "worker_class": "`greenlane.hosts.gunicorn.Worker`",
    "threads": (
        "most threads of a worker; they start on demand and end after 30 s idle. 1, gunicorn's default, is read as "
        "Greenlane's own setting `threads` (64), and the log says so; above 4096 it is refused"
    ),
    "worker_connections": (
        "as in gthread: most connections of a worker, idle ones included; above it none is accepted. Requests are "
        "limited by Greenlane's `limit`. Below 1 it is refused"
    ),
    "timeout": "as in gthread: a worker whose main thread is silent for so long is killed. No bound on a request",
    "graceful_timeout": "as in gthread: a stopping worker waits so long for what is in progress",
    "keepalive": "as in gthread: an idle connection is closed after so many seconds; 0 = after each answer",
    "max_requests": (
        "as in gthread, counted exactly. A worker that is alone accepts for the time of its linger (2 s), since its "
        "successor is started at its end"
    ),
    "max_requests_jitter": _SAME,
    "reuse_port": (
        "as in gthread: the kernel spreads connections over the workers by hash. So a worker does not leave a "
        "connection to a less busy one; each has a door of its own"
    ),
    "workers": _ARBITER,
    "backlog": _ARBITER,
    "preload_app": (
        "as in gthread. The application is imported before Greenlane starts: locks and clients that it makes at import "
        "are not seen, so a wait in them ends no CPU phase until the stand-still check lends the permit"
    ),
    "sendfile": _SAME,
    "do_handshake_on_connect": "the handshake is made in steps when the client's bytes come, whichever it is",
    "keyfile": _SAME,
    "certfile": _SAME,
    "ca_certs": _SAME,
    "cert_reqs": _SAME,
    "ciphers": _SAME,
    "ssl_version": _SAME,
    "ssl_context": _HOOK + ", once per connection",
    "suppress_ragged_eofs": _SAME,
    "proxy_protocol": _PARSER,
    "proxy_allow_ips": _PARSER,
    "protocol": "as in gthread; with `uwsgi`, Greenlane's health and metrics paths are not answered",
    "uwsgi_allow_ips": _PARSER,
    "reload": _SAME,
    "reload_engine": _SAME,
    "reload_extra_files": _SAME,
    # hooks
    "on_starting": _HOOK,
    "on_reload": _HOOK,
    "when_ready": _HOOK,
    "pre_fork": _HOOK,
    "post_fork": _HOOK + "; before Greenlane starts",
    "post_worker_init": _HOOK + "; Greenlane runs",
    "worker_int": _HOOK,
    "worker_abort": _HOOK,
    "pre_exec": _HOOK,
    "pre_request": _HOOK + ", for each request that reaches the application; not for health, metrics, 503 and 408",
    "post_request": _HOOK + ", likewise",
    "child_exit": _HOOK,
    "worker_exit": _HOOK,
    "nworkers_changed": _HOOK,
    "on_exit": _HOOK,
    # parser
    "limit_request_line": _PARSER,
    "limit_request_fields": _PARSER,
    "limit_request_field_size": _PARSER,
    "permit_obsolete_folding": _PARSER,
    "permit_unconventional_http_method": _PARSER,
    "permit_unconventional_http_version": _PARSER,
    "casefold_http_method": _PARSER,
    "strip_header_spaces": _PARSER,
    "header_map": _PARSER,
    "forwarder_headers": _PARSER,
    "forwarded_allow_ips": _PARSER,
    "secure_scheme_headers": _PARSER,
    "http_parser": _PARSER,
    # HTTP/2
    "http_protocols": _H2,
    "http2_cleartext": _H2,
    "http2_initial_window_size": _H2,
    "http2_max_concurrent_streams": _H2,
    "http2_max_frame_size": _H2,
    "http2_max_header_list_size": _H2,
    # logs
    "accesslog": (
        "as in gthread; a request answered 504 at its deadline is logged as 504 when its work ends. What is answered "
        "without a thread (health, metrics, 503, 408) is counted in the metrics, not logged"
    ),
    "access_log_format": _LOG,
    "errorlog": _LOG,
    "loglevel": _LOG,
    "capture_output": _LOG,
    "logger_class": _LOG,
    "logconfig": _LOG,
    "logconfig_dict": _LOG,
    "logconfig_json": _LOG,
    "syslog": _LOG,
    "syslog_addr": _LOG,
    "syslog_facility": _LOG,
    "syslog_prefix": _LOG,
    "disable_redirect_access_to_syslog": _LOG,
    "enable_stdio_inheritance": _LOG,
    "statsd_host": _LOG,
    "statsd_prefix": _LOG,
    "dogstatsd_tags": _LOG,
    "enable_backlog_metric": _LOG,
    # the arbiter's
    "bind": _ARBITER,
    "config": _ARBITER,
    "wsgi_app": _ARBITER,
    "chdir": _ARBITER,
    "daemon": _ARBITER,
    "raw_env": _ARBITER,
    "pidfile": _ARBITER,
    "worker_tmp_dir": _ARBITER,
    "user": _ARBITER,
    "group": _ARBITER,
    "umask": _ARBITER,
    "initgroups": _ARBITER,
    "pythonpath": _ARBITER,
    "paste": _ARBITER,
    "raw_paste_global_conf": _ARBITER,
    "proc_name": _ARBITER,
    "default_proc_name": _ARBITER,
    "print_config": _ARBITER,
    "check_config": _ARBITER,
    "spew": _ARBITER,
    "control_socket": _ARBITER,
    "control_socket_mode": _ARBITER,
    "control_socket_disable": _ARBITER,
    "dirty_apps": _ARBITER,
    "dirty_workers": _ARBITER,
    "dirty_threads": _ARBITER,
    "dirty_timeout": _ARBITER,
    "dirty_graceful_timeout": _ARBITER,
    "on_dirty_starting": _ARBITER,
    "dirty_post_fork": _ARBITER,
    "dirty_worker_init": _ARBITER,
    "dirty_worker_exit": _ARBITER,
    # for other workers
    "tmp_upload_dir": _NONE,
    "root_path": _NONE,
    "asgi_loop": _NONE,
    "asgi_lifespan": _NONE,
    "asgi_disconnect_grace_period": _NONE,
    "websocket_max_message_size": _NONE,
}


def check(cfg: Any, log: Any) -> Settings:
    """Check gunicorn's and Greenlane's settings in the arbiter, and log how `threads` is read.

    Raises:
        GreenlaneError: something cannot hold; the message names it.
    """
    _check_release()
    settings = load()
    # Here in the arbiter, where a wrong set-up ends with exit code 2, and not in the worker, which would be restarted.
    bootstrap.check_platform()
    if settings.learned_file:
        learned.load(Path(settings.learned_file))
    if settings.control_dir:
        check_directory(settings.control_dir)
    most = int(SETTINGS["threads"].high or 0)
    if not 1 <= cfg.threads <= most:
        raise HostError(_ATTEMPT, name="threads", value=cfg.threads, rule=f"1 to {most}", hint="lower --threads")
    if cfg.worker_connections < 1:
        raise HostError(
            _ATTEMPT,
            name="worker_connections",
            value=cfg.worker_connections,
            rule="at least 1",
            hint="leave it out, or set Greenlane's `limit` to limit requests",
        )
    if (why := explain_gevent()) is not None:
        raise HostError(_ATTEMPT, name="gevent.monkey", value="patched", rule="threads", hint=why)
    if cfg.threads == 1:
        log.info(
            "greenlane: threads is not set: up to %d per worker, started on demand (setting `threads`)",
            settings.threads,
        )
    elif cfg.keepalive and most_kept_alive(cfg, settings) <= 0:
        log.warning("No keepalived connections can be handled. Check the number of worker connections and threads.")
    if cfg.reuse_port and cfg.workers > 1:
        log.info("greenlane: reuse_port: %s", MEANING["reuse_port"].partition(". ")[2])
    if cfg.preload_app:
        log.info("greenlane: preload_app: %s", MEANING["preload_app"].partition(". ")[2])
    return settings


def ceiling(cfg: Any, settings: Settings) -> int:
    """Most threads of a worker: gunicorn's `threads` when it is set (over 1), else Greenlane's."""
    return int(cfg.threads) if cfg.threads > 1 else settings.threads


def most_kept_alive(cfg: Any, settings: Settings) -> int:
    """How many connections may be kept idle: gthread's rule; our own default ceiling reserves at most half of them."""
    reserved = ceiling(cfg, settings)
    if cfg.threads <= 1:
        reserved = min(reserved, cfg.worker_connections // 2)
    return int(cfg.worker_connections) - reserved


def _check_release() -> None:
    if gunicorn.version_info < _OLDEST:
        raise HostError(
            _ATTEMPT,
            name="gunicorn",
            value=gunicorn.__version__,
            rule="release 27.0 or later",
            hint="pip install 'gunicorn>=27', or use the middleware greenlane.hosts.wsgi under gthread",
        )
