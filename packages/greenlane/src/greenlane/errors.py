"""What Greenlane raises.

    GreenlaneError              greenlane      anything below; catch this one
    ├── SettingsError           settings       a setting, flag, variable or file key is wrong
    │   └── ArgumentError       argument       so is a command's argument: a COMMAND, FILE, TARGET, ROUTE or NAME
    ├── PlatformError           platform       this interpreter or operating system cannot run it
    ├── HostError               host           the host program (gunicorn …) is set up in a way that cannot work;
    │                                          also a RuntimeError
    ├── FrontError              front          HAProxy is missing, too old, or refuses its configuration
    ├── ServeError              fleet          a worker does not start, or a socket is gone
    ├── RecordingError          recording      a recording is absent, foreign, newer, or damaged beyond use
    ├── ControlError            control        a running process cannot be reached or refuses the request
    ├── RecordError             record         a recording cannot be made: nothing recorded, no room, no permission
    ├── PlanError               plan           a profile, what-if, goal or set-up cannot be planned with
    ├── PlacementError          placement      a function cannot be placed where it was asked to run; also a TypeError
    ├── Overloaded              overloaded     a bounded queue is full: refused at once, nothing was done
    ├── StoreError              store          the store of orders cannot be used: the order waits
    │   ├── StoreUnavailable    store-gone     now; later it may work: locked, full, unreachable
    │   └── StoreRefused        store-refused  until an operator acts: credentials, a damaged file, a later format
    ├── OrderWaits              order-waits    an order cannot be called now: nothing was done, try again later
    ├── DeadLettersError        dead-letters   dead letters cannot be looked at or sent again
    ├── DiversionError          diversion      a share of diverted orders cannot be set, or where it lies not be reached
    │   └── DiversionUnreadable diversion-text what lies there is no share
    ├── WorkerDied              worker-died    the process that ran a call died of it or was killed; maybe half done
    └── DeadlineExceeded        deadline       the job is past its deadline; also a TimeoutError

Outside the tree, as asyncio's: `Cancelled`, a BaseException, so that `except Exception` does not keep a cancelled
function going.

`PlacementWarning` is no error: a Python warning about what a placed function does that never pays.

Every message reads `<what was attempted>: <name>=<value!r>, expected <rule>`, then on a line of its own
`hint: <one action>`. `.code` never changes between releases; the words may.

Internal failures are not in this tree: a broken invariant is an AssertionError and a bug in Greenlane.
"""

from __future__ import annotations

import re
import signal
from typing import ClassVar, Final

# In a URL: after the user's name up to the last @, for a password may hold what has to be escaped; or an option.
_PASSWORD: Final = re.compile(r"(://[^/?#@:\s]*:).*@|([?&]\w*password=)[^&\s'\"]*")
# Arbitrary: a value longer than this would bury the rule and the hint that follow it.
_VALUE_CHARACTERS: Final = 200


class GreenlaneError(Exception):
    """An error that the caller can act on.

    Args:
        attempted: what was being done, as a verb phrase: "read the settings", "start the worker".
        name: the setting, argument or thing that is at fault; "" = the message is `attempted` alone.
        value: what `name` was.
        rule: what was expected of it, without the word "expected"; "" = left out.
        hint: one action that helps; "" = no hint line.
    """

    code: ClassVar[str] = "greenlane"
    # What the command line exits with: 2 = usage or set-up, 1 = the run failed.
    exit_code: ClassVar[int] = 1

    def __init__(self, attempted: str, *, name: str = "", value: object = None, rule: str = "", hint: str = "") -> None:
        super().__init__(_message(attempted, name, value, rule, hint))
        self.name = name
        self.value = value
        self.rule = rule
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        """Crosses processes as message and fields: the subclasses' arguments differ, what they hold does not."""
        return _revive, (type(self), self.args, self.__dict__)


class SettingsError(GreenlaneError):
    """A setting has an invalid value, or is unknown.

    Args:
        setting: its name as the reader wrote it (`interval_ms`, `lanes.fast.weigth`, `GREENLANE_PERMITS`).
        value: what it was set to.
        rule: what it may be.
        hint: one action.
        attempted: what was being done.
    """

    code: ClassVar[str] = "settings"
    exit_code: ClassVar[int] = 2

    def __init__(
        self, setting: str, value: object, rule: str, hint: str = "", *, attempted: str = "read the settings"
    ) -> None:
        super().__init__(attempted, name=setting, value=value, rule=rule, hint=hint)
        self.setting = setting


class ArgumentError(SettingsError):
    """An argument of a command cannot be used: what it names is absent, in the way, or cannot be started."""

    code: ClassVar[str] = "argument"


class PlatformError(GreenlaneError):
    """This interpreter or operating system cannot run what was asked for."""

    code: ClassVar[str] = "platform"
    exit_code: ClassVar[int] = 2


class HostError(GreenlaneError, RuntimeError):
    """The host program is set up in a way that cannot work with Greenlane.

    It is a RuntimeError: gunicorn prints the message of one that its start meets, and ends without a traceback.
    """

    code: ClassVar[str] = "host"
    exit_code: ClassVar[int] = 2


class FrontError(GreenlaneError):
    """HAProxy is missing, too old, or refuses its configuration."""

    code: ClassVar[str] = "front"
    exit_code: ClassVar[int] = 2


class ServeError(GreenlaneError):
    """`greenlane serve` cannot go on: a worker does not start, or a socket is gone."""

    code: ClassVar[str] = "fleet"


class RecordingError(GreenlaneError):
    """A recording is absent, foreign, of a later format, or damaged beyond use."""

    code: ClassVar[str] = "recording"
    exit_code: ClassVar[int] = 2


class ControlError(GreenlaneError):
    """A running process cannot be reached over its control socket, or refuses the request."""

    code: ClassVar[str] = "control"


class RecordError(GreenlaneError):
    """A recording cannot be made. What was recorded until then is kept."""

    code: ClassVar[str] = "record"


class PlanError(GreenlaneError):
    """A profile, what-if, goal or set-up cannot be planned with: absent, damaged, too short or contradictory."""

    code: ClassVar[str] = "plan"
    exit_code: ClassVar[int] = 2


class DeadlineExceeded(GreenlaneError, TimeoutError):
    """The current job is past its deadline.

    Raised only at a job's own blocking calls (`deadline_cancel`) and at `greenlane.checkpoint()`, never between
    two arbitrary instructions. It is a TimeoutError, so code that handles socket time-outs handles this one.
    """

    code: ClassVar[str] = "deadline"

    def __init__(
        self,
        attempted: str = "go on with a job past its deadline",
        *,
        name: str = "",
        value: object = None,
        rule: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(attempted, name=name, value=value, rule=rule, hint=hint)


class PlacementError(GreenlaneError, TypeError):
    """A function cannot be placed: it is not a function, belongs to an event loop, or its executor has been closed."""

    code: ClassVar[str] = "placement"
    exit_code: ClassVar[int] = 2


class Overloaded(GreenlaneError):
    """A bounded queue is full, so the call was refused. It has not started: it may be tried elsewhere."""

    code: ClassVar[str] = "overloaded"


class StoreError(GreenlaneError):
    """The store of orders cannot be used. What it would have answered is not known, so the order must wait."""

    code: ClassVar[str] = "store"


class StoreUnavailable(StoreError):
    """It cannot be used now, and later it may be: locked, full, unreachable. It is tried again by itself."""

    code: ClassVar[str] = "store-gone"


class StoreRefused(StoreError):
    """It cannot be used until an operator acts: credentials, a damaged file, a format of a later release."""

    code: ClassVar[str] = "store-refused"
    exit_code: ClassVar[int] = 2


class OrderWaits(GreenlaneError):
    """An order cannot be called now, because another worker runs it or the store cannot be asked. Nothing was done.

    Args:
        order: its key.
        wait_s: when to try again, seconds from now.
        why: in a few words.
    """

    code: ClassVar[str] = "order-waits"

    def __init__(self, order: str, wait_s: float, why: str) -> None:
        rule = f"one that no other worker runs; {why}"
        super().__init__("call an order", name="order", value=order, rule=rule, hint=f"try it again in {wait_s:.2g} s")
        self.wait_s = wait_s


class DeadLettersError(GreenlaneError):
    """Dead letters cannot be looked at or sent again: no broker, no such queue."""

    code: ClassVar[str] = "dead-letters"
    exit_code: ClassVar[int] = 2


class DiversionError(GreenlaneError):
    """A share of diverted orders cannot be what it was set to, or where it lies cannot be reached."""

    code: ClassVar[str] = "diversion"
    exit_code: ClassVar[int] = 2


class DiversionUnreadable(DiversionError):
    """The stored share is not one: another program's, damaged, or of a later release."""

    code: ClassVar[str] = "diversion-text"


class WorkerDied(GreenlaneError):
    """The process that ran a placed call is gone. Whatever the function does outside itself may be half done.

    Args:
        attempted: what was being done.
        pid: of the process.
        code: its exit status, negative = killed by that signal; None = unknown.
        last_line: the last that it said on stderr; "" = nothing.
        ended: how it ended, where that is known otherwise; "" = as `code` says.
        hint: one action; "" = as `code` suggests.
    """

    code: ClassVar[str] = "worker-died"

    def __init__(
        self, attempted: str, *, pid: int, code: int | None, last_line: str = "", ended: str = "", hint: str = ""
    ) -> None:
        if not ended:
            ended, hint = _ending(code)
        said = f"; its last line: {last_line}" if last_line else ""
        super().__init__(attempted, name="worker", value=pid, rule=f"an answer; it {ended}{said}", hint=hint)
        self.pid = pid
        self.exit_status = code
        self.signal = -code if code is not None and code < 0 else 0
        self.last_line = last_line


class Cancelled(BaseException):
    """The caller of the running placed function has left. Raised at `greenlane.checkpoint()` only."""


def _revive(kind: type[GreenlaneError], args: tuple[object, ...], fields: dict[str, object]) -> GreenlaneError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


def _ending(code: int | None) -> tuple[str, str]:
    """How a process ended, and what to look for."""
    if code is None:
        return "ended, and other code took its exit status", "look for code that waits for all children"
    if code >= 0:
        return f"exited with status {code}", "look for os._exit, sys.exit or the end of its main thread"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if name == "SIGKILL":
        return f"was killed by {name}", "look in dmesg for the kernel's out-of-memory killer, else for the sender"
    return f"was killed by {name}", "look at the native code that the function calls"


def _message(attempted: str, name: str, value: object, rule: str, hint: str) -> str:
    first = f"{attempted}: {name}={_format(value)}" if name else attempted
    if rule:
        first += f", expected {rule}"
    return f"{first}\nhint: {hint}" if hint else first


def without_passwords(text: str) -> str:
    """The text with `***` for each password of a URL."""
    return _PASSWORD.sub(lambda found: f"{found[1]}***@" if found[1] else f"{found[2]}***", text)


def _format(value: object) -> str:
    try:
        text = without_passwords(repr(value))
    except Exception:  # the value is a stranger's object: its repr must not hide our message
        text = f"<{type(value).__name__} whose repr fails>"
    if len(text) > _VALUE_CHARACTERS:
        return f"{text[:_VALUE_CHARACTERS]}… ({len(text)} characters)"
    return text


class PlacementWarning(UserWarning):
    """A placed function can never gain from placement. Names the function, the reason and a remedy.

    Given once for a function and reason, where the function is defined. `warnings.filterwarnings` switches it off.
    """
