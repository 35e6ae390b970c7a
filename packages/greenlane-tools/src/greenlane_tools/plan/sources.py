"""A profile from whatever holds one: a profile, a model, a recording or its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from greenlane.errors import PlanError
from greenlane_tools.plan.model_file import profile_of_model
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.recorded import profile_of_recording
from greenlane_tools.reader.recording import SUFFIX, open_recording

__all__ = ["opened"]

_ATTEMPT: Final = "open the source of the plan"
_PARTS: Final = ".parts"


def opened(source: str, *, skip_s: float = 0.0) -> Profile:
    """The profile.

    Args:
        source: a profile (JSON), a model (.toml), or a recording or its folder.
        skip_s: of a recording, leave out so much of the beginning.

    Raises: PlanError, RecordingError: it is none of these, or cannot be read.
    """
    path = Path(source)
    if not path.exists() and Path(f"{source}{_PARTS}").is_dir():
        path = Path(f"{source}{_PARTS}")  # still recorded
    if not path.exists():
        hint = "`greenlane record -o FILE -- COMMAND` makes a recording"
        raise _error(source, "a file or folder that exists", hint)
    if path.is_dir():
        return profile_of_recording(open_recording(path), _name(path), skip_s=skip_s)
    return _file(path, skip_s)


def _file(path: Path, skip_s: float) -> Profile:
    try:
        with path.open("rb") as file:
            begin = file.read(64)
        if path.suffix == ".toml":
            return profile_of_model(path.read_text("utf-8"))
        if begin.lstrip()[:1] == b"{":
            return Profile.from_json(path.read_bytes())
    except OSError as error:
        raise _error(str(path), f"a file that can be read ({error.strerror})", "look at its owner and mode") from None
    except UnicodeDecodeError:
        raise _error(str(path), "UTF-8", "write the model as UTF-8") from None
    except PlanError as error:
        raise _in_file(error, path) from None
    if path.suffix == ".json":
        raise _error(str(path), "a profile: a JSON object", "it was cut or changed: make it again")
    return profile_of_recording(open_recording(path), _name(path), skip_s=skip_s)


def _in_file(error: PlanError, path: Path) -> PlanError:
    """The same, with the file that it is in."""
    return PlanError(f"read {path}", name=error.name, value=error.value, rule=error.rule, hint=error.hint)


def _name(path: Path) -> str:
    return path.name.removesuffix(_PARTS).removesuffix(SUFFIX)


def _error(source: str, rule: str, hint: str) -> PlanError:
    return PlanError(_ATTEMPT, name="source", value=source, rule=rule, hint=hint)
