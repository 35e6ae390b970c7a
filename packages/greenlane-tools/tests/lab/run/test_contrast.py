"""What closed-loop tools print is read; one that prints otherwise is left out rather than misread."""

from __future__ import annotations

import pytest

from greenlane_tools.lab.run import contrast
from greenlane_tools.lab.run.performed import Closed

AB = """
Concurrency Level:      2
Complete requests:      1313
Failed requests:        3
   (Connect: 0, Receive: 0, Length: 3, Exceptions: 0)

Percentage of the requests served within a certain time (ms)
  50%      5
  66%      5
  95%     10
  98%     13
  99%     20
 100%   1008 (longest request)
"""
WRK = """
Running 8s test @ http://127.0.0.1:21987/
  Latency Distribution
     50%    5.17ms
     75%    5.23ms
     90%  108.03ms
     99%    1.02s
  2665 requests in 8.01s, 104.10KB read
  Socket errors: connect 1, read 2, write 0, timeout 4
Requests/sec:    332.76
"""


def test_ab_is_read() -> None:
    assert contrast._ab("ab", AB, 8.0) == Closed("ab", 8.0, 1313, 3, 5.0, 10.0, 20.0)


def test_wrk_is_read_with_its_units_and_has_no_p95() -> None:
    assert contrast._wrk("wrk", WRK, 8.0) == Closed("wrk", 8.0, 2665, 7, 5.17, None, pytest.approx(1020.0))


@pytest.mark.parametrize("read", [contrast._ab, contrast._wrk])
def test_something_else_is_an_error_that_the_caller_meets(read: object) -> None:
    assert callable(read)
    with pytest.raises((TypeError, KeyError)):
        read("tool", "something else", 8.0)
