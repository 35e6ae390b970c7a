"""Lets each Python program that `greenlane record` runs be recorded: `PYTHONPATH` names this folder.

It first runs the `sitecustomize` that it stands before, which then is `sys.modules["sitecustomize"]`, and leaves
`sys.path` as the program would have had it. `usercustomize` comes after, as ever. Nothing that goes wrong here ends the
program: it is reported on stderr, and the program runs unrecorded.

Any Python may meet this file: no syntax here that an old one does not know, and no functions.
"""

import os
import sys

if __name__ == "sitecustomize":
    _here = os.path.dirname(os.path.abspath(__file__))
    _package = os.path.dirname(os.path.dirname(_here))
    _folder = os.environ.get("GREENLANE_RECORD_FOLDER")
    _ours = sys.modules.pop("sitecustomize")
    sys.path[:] = [_entry for _entry in sys.path if os.path.abspath(_entry or os.curdir) != _here]
    try:
        import sitecustomize  # type: ignore[import-not-found] # noqa: F401 # the one behind us
    except ImportError:
        if getattr(sys.exc_info()[1], "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", _ours)
        if _folder and os.path.isdir(_folder) and not os.path.exists(os.path.join(_folder, "ended")):
            _why = ""
            try:
                from importlib import machinery as _machinery

                _suffixes = _machinery.EXTENSION_SUFFIXES
            except ImportError:
                _suffixes = []
            if any(os.path.exists(os.path.join(_package, "_native" + _suffix)) for _suffix in _suffixes):
                # Of greenlane the one that records wins.
                _root = os.path.dirname(_package)
                sys.path.insert(0, _root)
                try:
                    from greenlane.hosts.observed.import_trigger import start_when_needed

                    start_when_needed(_folder)
                except Exception:
                    _why = "%s: %s" % (sys.exc_info()[0].__name__, sys.exc_info()[1])  # type: ignore[union-attr] # noqa: UP031
                finally:
                    sys.path.remove(_root)
            else:
                _why = "this is Python %d.%d, and Greenlane is installed for another one" % sys.version_info[:2]  # noqa: UP031
            if _why:
                # Said once a recording and reason, not once a process; `greenlane record` repeats it at its end.
                _note = "".join(_letter if _letter.isalnum() else "-" for _letter in _why)[:100]
                try:
                    os.close(os.open(os.path.join(_folder, "skipped-" + _note), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                    with open(os.path.join(_folder, "skipped-" + _note), "w") as _stream:
                        _stream.write(_why)
                    os.write(2, ("greenlane record: %s is not recorded: %s\n" % (sys.executable, _why)).encode("utf-8"))  # noqa: UP031
                except OSError:
                    pass
