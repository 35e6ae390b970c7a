"""A profile of a running service: by its metrics page, and by its control sockets. Means only, and says so."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.record.command import GREENLANE, JOBS, environment

from greenlane.errors import PlanError
from greenlane_tools.plan.live import profile_of_control, profile_of_metrics
from greenlane_tools.plan.missing import missing
from greenlane_tools.plan.profile import Profile
from tests.child import free_port
from tests.fixtures import StartProcess

pytestmark = pytest.mark.slow

#: A job every 10 ms or so: 2 ms of CPU and a sleep of 5; its metrics on a thread beside it.
SERVICE = """
import os, socket, threading
from greenlane._native import Recorder
from greenlane.export.prometheus import render

def burn(ms):
    end = time.thread_time() + ms / 1000
    while time.thread_time() < end:
        pass

listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))

def serve():
    while True:
        client, _ = listening.accept()
        client.recv(65536)
        text = render({}, recorder=Recorder(), labels={"pid": str(os.getpid())}).encode()
        client.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Type: text/plain\\r\\n\\r\\n" + text)
        client.close()

threading.Thread(target=serve, daemon=True).start()
print("ready", flush=True)
while True:
    with greenlane.record.job("GET /tick"):
        burn(1)
        time.sleep(0.005)
        burn(1)
    time.sleep(0.003)
"""


@pytest.fixture
def service(tmp_path: Path, start_process: StartProcess) -> tuple[str, Path]:
    """Its metrics' address and its control directory."""
    port, control = free_port(), tmp_path / "control"
    argv = [*GREENLANE, "record", "-o", "r.glr", "--", sys.executable, "-c", JOBS + SERVICE, str(port)]
    env = environment(GREENLANE_CONTROL_DIR=str(control))
    start_process(argv, cwd=tmp_path, env=env).wait_output("^ready$")
    return f"http://127.0.0.1:{port}/metrics", control


def check(found: Profile) -> None:
    tick = found.route("GET /tick")
    assert (found.source, found.host, found.processes) == ("live", "threads", 1)
    assert tick.requests >= 20 and tick.rate_per_s == pytest.approx(tick.requests / found.seconds, rel=0.05)
    assert tick.demand.cpu_ms == pytest.approx(2, rel=0.25) and tick.demand.io_ms >= 4.9
    assert [step.kind for step in tick.sequences[0].steps] == ["cpu", "io", "cpu"] and len(tick.sequences) == 1
    assert any("means only" in note for note in found.notes)
    assert any(sentence.startswith("Means only") for sentence in missing(found))
    assert Profile.from_json(found.to_json()) == found


def test_a_running_service_is_profiled_by_metrics_and_by_control_socket(service: tuple[str, Path]) -> None:
    address, control = service
    by_metrics = profile_of_metrics(address, 1.0)
    check(by_metrics)
    latency = by_metrics.measured["GET /tick"].quantile_ms(0.5)
    assert latency is not None and 5 < latency < 40
    check(profile_of_control(control, 1.0))


def test_a_page_without_requests_says_what_to_do() -> None:
    with pytest.raises(PlanError, match="requests of recorded routes within") as refused:
        profile_of_metrics("http://x/metrics", 0.1, scrape=lambda _: "up 1\n", pause=lambda _: None)
    assert "longer (--seconds)" in str(refused.value)


def test_counters_that_fall_are_a_restart() -> None:
    texts = iter([_page(50), _page(20)])
    with pytest.raises(PlanError, match="a process was restarted"):
        profile_of_metrics("http://x/metrics", 1, scrape=lambda _: next(texts), pause=lambda _: None)


def test_learned_phases_become_steps_and_free_cpu_is_told_apart() -> None:
    learned = (
        'greenlane_learned_burst_seconds{route="GET /a",phase="0"} 0.002\n'
        'greenlane_learned_burst_seconds{route="GET /a",phase="1"} 0.006\n'
        'greenlane_learned_released_ratio{route="GET /a",phase="1"} 0.5\n'
    )
    texts = iter([_page(0) + learned, _page(100) + learned])
    found = profile_of_metrics("http://x/metrics", 1, scrape=lambda _: next(texts), pause=lambda _: None)
    steps = found.route("GET /a").sequences[0].steps
    assert found.host == "permits" and [step.kind for step in steps] == ["cpu", "io", "cpu", "free"]
    assert [step.ms for step in steps] == pytest.approx([2.5, 40, 3.75, 3.75])
    assert found.processes == 2


def _page(requests: int) -> str:
    """A metrics page of two processes, as Prometheus writes names with quotes."""
    return "".join(
        f"greenlane_recording{{pid={json.dumps(pid)}}} 1\n"
        f'greenlane_job_latency_seconds_count{{route="GET /a",pid="{pid}"}} {requests / 2}\n'
        f'greenlane_job_latency_seconds_sum{{route="GET /a",pid="{pid}"}} {requests * 0.03}\n'
        f'greenlane_job_time_seconds_total{{route="GET /a",part="cpu",pid="{pid}"}} {requests * 0.005}\n'
        f'greenlane_job_time_seconds_total{{route="GET /a",part="io",pid="{pid}"}} {requests * 0.02}\n'
        f'greenlane_job_time_seconds_total{{route="GET /a",part="wait",pid="{pid}"}} {requests * 0.005}\n'
        for pid in ("1", "2")
    )


@pytest.mark.parametrize("address", ["ftp://x/metrics", f"http://127.0.0.1:{free_port()}/metrics"])
def test_an_address_that_does_not_answer_is_named(address: str) -> None:
    with pytest.raises(PlanError) as refused:
        profile_of_metrics(address, 0.1)
    assert refused.value.name == "address" and refused.value.value == address
