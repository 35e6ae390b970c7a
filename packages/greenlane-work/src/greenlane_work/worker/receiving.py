"""Messages are received many at a time, and acknowledged so: one system call for what py-amqp does one by one.

It asks the socket for a message nine times.

Each of its reads, and the two changes of the socket's time-out around each frame, release the interpreter's lock.
Where other threads wait for that, the owner of the channel then waits for all of them, some fifteen times a message.

`loop_of` is the consumer's loop where Celery's event loop does not run: under gevent, and for brokers without a socket
to poll. Celery's own (`celery.worker.loops.synloop`, 5.7) waits 100 ms for the events' connection after each message
with green threads and a broker's heartbeat, which holds the intake at ten orders a second; and it looks for signals
every two seconds.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any, Final

from amqp.transport import TCPTransport
from celery import bootsteps
from celery.worker import state
from celery.worker.loops import _enable_amqheartbeats

from greenlane_work.worker.owner import Owner
from greenlane_work.worker.threads import ThreadOwner

__all__ = ["loop_of", "read_ahead", "read_many", "written_together"]

#: Some ten messages of usual size: others do not wait long for the loop. Arbitrary.
_BYTES: Final = 16_384
#: A frame is seven bytes, of which the last four are its length, that many, and one more.
_HEAD: Final = 7
_LENGTH: Final = struct.Struct(">3xI")
#: Green: until a signal is seen at the latest. Threads: until an order that ended is acknowledged.
_GREEN_STEP_S: Final = 0.5
_STEP_S: Final = 0.02
#: Between two looks at the connection that events go by, for the broker's heartbeats.
_EVENTS_S: Final = 1.0


def read_many(connection: Any, hub: Any) -> None:
    """Let Celery's loop read the messages of this connection so. Others than plain TCP's keep the reader they have."""
    if _is_plain(connection):
        hub.add_reader(connection.sock, _read, connection)


def read_ahead(connection: Any) -> None:
    """The same where nobody asks the socket whether it is readable: every read looks at what was read ahead first."""
    if _is_plain(connection):
        receive = connection.transport.sock.recv
        connection.transport._quick_recv = lambda length: receive(max(length, _BYTES))


@contextlib.contextmanager
def written_together(connection: Any) -> Iterator[None]:
    """Send what the block writes to this connection in one write, at its end. Others than plain TCP's write as ever.

    A read sends it first, since a caller that waits for an answer has sent its request. If the connection is lost
    meanwhile, the next read fails, and the messages come again.
    """
    # Not its property, which raises where the connection is gone.
    transport = getattr(connection, "_transport", None)
    if not isinstance(transport, TCPTransport) or transport.sock is None:
        yield
        return
    said: list[bytes] = []
    write, receive = transport._write, transport._quick_recv

    def send() -> None:
        if said:
            together = b"".join(said)
            said.clear()
            write(together)

    def sent_first(length: int) -> Any:
        send()
        return receive(length)

    # What is given is a view of a buffer that is used again.
    transport._write, transport._quick_recv = lambda part: said.append(bytes(part)), sent_first
    try:
        yield
    finally:
        transport._write, transport._quick_recv = write, receive
        with contextlib.suppress(OSError):
            send()


def loop_of(owner: Owner) -> Any:
    """Give a loop as Celery's consumer has one."""
    step_s = _STEP_S if isinstance(owner, ThreadOwner) else _GREEN_STEP_S

    def loop(
        c: Any, connection: Any, consumer: Any, blueprint: Any, _hub: Any, qos: Any, *rest: Any, **more: Any
    ) -> None:
        beats = [
            _enable_amqheartbeats(c.timer, each, rate=c.amqheartbeat_rate)
            for each in (connection, c.event_dispatcher and c.event_dispatcher.connection)
            if c.pool.is_green and each
        ]
        read_ahead(connection.connection)
        consumer.on_message = c.create_task_handler()
        consumer.consume()
        c.on_ready()
        looked = time.monotonic()
        while blueprint.state == bootsteps.RUN and c.connection:
            state.maybe_shutdown()
            for failed in beats:
                if failed[0] is not None:
                    raise failed[0]
            if isinstance(owner, ThreadOwner):
                owner.run()
            if qos.prev != qos.value:
                qos.update()
            c.perform_pending_operations()
            _drain(connection, blueprint, step_s)
            if time.monotonic() - looked > _EVENTS_S:
                looked = time.monotonic()
                _read_events(c)
                _restore(connection)

    return loop


def _is_plain(connection: Any) -> bool:
    return isinstance(getattr(connection, "transport", None), TCPTransport)


def _read(connection: Any) -> None:
    """Receive once, and take in every whole frame: the rest of one that is not whole makes the socket readable."""
    transport = connection.transport
    try:
        received = transport.sock.recv(_BYTES, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return
    except OSError:
        received = b""
    if not received:
        connection.blocking_read(0)  # py-amqp is to meet the end of the connection itself
        return
    transport._read_buffer += received
    # The code that takes a message in may read on this connection, or lose it.
    while connection._transport is transport and _is_whole(transport._read_buffer):
        connection.blocking_read()


def _is_whole(received: bytes) -> bool:
    """A frame stands at the beginning, with all of its bytes."""
    return len(received) >= _HEAD and len(received) > _HEAD + _LENGTH.unpack_from(received)[0]


def _drain(connection: Any, blueprint: Any, step_s: float) -> None:
    try:
        connection.drain_events(timeout=step_s)
    except TimeoutError:
        pass
    except OSError:
        if blueprint.state == bootsteps.RUN:
            raise


def _read_events(c: Any) -> None:
    """Let the broker's heartbeats be read on the events' connection. Never waits: its publishers read there."""
    connection = c.event_dispatcher and c.event_dispatcher.connection
    if c.pool.is_green and connection and connection.supports_heartbeats:
        with contextlib.suppress(OSError):
            connection.drain_events(timeout=0)


def _restore(connection: Any) -> None:
    """Redis: let kombu look for what killed workers had; by itself it does so only in a wait that nothing ends."""
    restore = getattr(getattr(connection.transport, "cycle", None), "maybe_restore_messages", None)
    if restore is not None:
        restore()
