"""The answers that the worker gives without the application: whole HTTP/1 messages as bytes.

Each but `too_late` closes its connection: what the client may have sent behind the request has not been looked at.
"""

from __future__ import annotations

__all__ = ["DEADLINE", "HEAD_TIMEOUT", "answer"]


def answer(status: str, body: str, *, head_only: bool = False, kind: str = "text/plain", extra: str = "") -> bytes:
    """One HTTP/1.1 message that closes the connection.

    Args:
        status: such as "503 Service Unavailable".
        body: text, sent as UTF-8.
        head_only: leave the body out, as the answer to HEAD.
        kind: media type.
        extra: further header lines, each ended by CRLF.
    """
    content = body.encode()
    head = (
        f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: {kind}; charset=utf-8\r\n"
        f"Content-Length: {len(content)}\r\n{extra}\r\n"
    )
    return head.encode("latin-1") + (b"" if head_only else content)


def over_limit(limit: int, retry_after_s: int) -> bytes:
    """The refusal of a request over the limit."""
    body = f"over the limit of {limit} requests in progress\n"
    return answer("503 Service Unavailable", body, extra=f"Retry-After: {retry_after_s}\r\n")


def too_late(retry_after_s: int, *, keep: bool) -> bytes:
    """The refusal of a request that would end too late, without a body; `keep`: the connection stays."""
    connection = "" if keep else "Connection: close\r\n"
    head = f"HTTP/1.1 503 Service Unavailable\r\n{connection}Retry-After: {retry_after_s}\r\nContent-Length: 0\r\n\r\n"
    return head.encode("latin-1")


DEADLINE = answer("504 Gateway Timeout", "deadline exceeded\n")
HEAD_TIMEOUT = answer("408 Request Timeout", "the request's head did not arrive in time\n")
BODY_TIMEOUT = answer("408 Request Timeout", "the request's body did not arrive in time\n")
