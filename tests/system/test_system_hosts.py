"""The middleware under each threaded server, several workers, and modes."""

import json

import pytest

from tests.system import load


def answers_rightly(served) -> load.Outcome:
    outcome = load.mixed(served.port)
    assert outcome.wrong == [], served.process.output
    status, body = load.send(served.port, "/total")
    assert (status, json.loads(body)) == (200, {"total": outcome.heavy})
    return outcome


@pytest.mark.parametrize("host", ["waitress", "cheroot", "granian"])
@pytest.mark.gate
def test_the_middleware_under_a_threaded_server(serve, upstream, host):
    served = serve(host, "http_client", UPSTREAM_URL=upstream)
    outcome = answers_rightly(served)
    counted = served.settled_counters()
    assert counted["jobs"] >= outcome.heavy + outcome.light
    assert counted["granted"] + counted["waited_granted"] > 0


@pytest.mark.parametrize("host", ["worker", "gthread"])
@pytest.mark.parametrize("mode", ["off", "observe"])
def test_nobody_waits_in_other_modes(serve, upstream, host, mode):
    served = serve(host, "http_client", mode=mode, UPSTREAM_URL=upstream)
    answers_rightly(served)
    assert served.settled_counters()["waited"] == 0


@pytest.mark.parametrize("host", ["worker", "gthread"])
@pytest.mark.gate
def test_three_workers_share_no_permit_and_lose_none(serve, upstream, host):
    served = serve(host, "http_client", options="-w 3", UPSTREAM_URL=upstream)
    answers_rightly(served)
    served.settled_counters()


@pytest.mark.parametrize("host", ["worker", "gthread"])
def test_an_application_preloaded_before_the_fork(serve, upstream, host):
    served = serve(host, "http_client", options="-w 2 --preload", UPSTREAM_URL=upstream)
    answers_rightly(served)
    served.settled_counters()


def test_the_mode_is_switched_under_load(serve, upstream):
    import threading

    served = serve("worker", "http_client", UPSTREAM_URL=upstream)
    outcomes: list[load.Outcome] = []
    loading = threading.Thread(target=lambda: outcomes.append(load.mixed(served.port)), daemon=True)
    loading.start()
    turns = 0
    while loading.is_alive():
        served.set_mode(("off", "on", "observe", "on")[turns % 4])
        turns += 1
        loading.join(0.05)
    assert turns > 4
    assert outcomes[0].wrong == [], served.process.output
    served.settled_counters()
