//! The Python stack of a thread, as a recording has it. With the GIL.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::{ffi, intern};
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Innermost frames of a stack that are written down.
const MOST_FRAMES: usize = 64;

/// The frames of a thread, innermost first.
pub struct Stack<'py>(Vec<Bound<'py, PyAny>>);

/// Shows the stack of the thread whose `PyThreadState` lies at `state`; None if there is no such thread, or it runs no
/// Python.
pub fn look<T>(py: Python<'_>, state: usize, see: impl FnOnce(&Stack<'_>) -> T) -> Option<T> {
    let _none = NoCollection::begin(py);
    // SAFETY: with the GIL, threads are neither added to nor taken off the list. `state` is only compared.
    let mut next = unsafe {
        let mut thread = ffi::PyInterpreterState_ThreadHead(ffi::PyInterpreterState_Get());
        while !thread.is_null() && thread as usize != state {
            thread = ffi::PyThreadState_Next(thread);
        }
        if thread.is_null() {
            return None;
        }
        Some(Bound::from_owned_ptr_or_opt(
            py,
            ffi::PyThreadState_GetFrame(thread).cast(),
        )?)
    };
    let mut frames = Vec::new();
    while let Some(frame) = next {
        // SAFETY: a frame, kept alive here.
        next = unsafe {
            Bound::from_owned_ptr_or_opt(py, ffi::PyFrame_GetBack(frame.as_ptr().cast()).cast())
        };
        frames.push(frame);
        if frames.len() >= MOST_FRAMES {
            break;
        }
    }
    Some(see(&Stack(frames)))
}

impl Stack<'_> {
    /// A number for where it stands, by codes, their names and instructions: what it says need not be made again. Costs
    /// a tenth of that.
    pub fn place(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for frame in &self.0 {
            // SAFETY: a frame, kept alive by us; its code is a new reference.
            let (code, instruction) = unsafe {
                let pointer = frame.as_ptr().cast();
                let code = ffi::PyFrame_GetCode(pointer).cast();
                let instruction = ffi::PyFrame_GetLasti(pointer);
                (Bound::from_owned_ptr(frame.py(), code), instruction)
            };
            // Another code may come to lie there, but hardly with another name at the same place.
            let name = code.getattr(intern!(frame.py(), "co_qualname"));
            let name = name.map_or(0, |name| name.as_ptr() as usize);
            (code.as_ptr() as usize, name, instruction).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Its frames, outermost first.
    pub fn said(&self) -> Vec<String> {
        let frames = self.0.iter().rev();
        frames
            .map(|frame| said(frame.py(), frame).unwrap_or_else(|_| "?".to_owned()))
            .collect()
    }
}

/// No garbage collection meanwhile: frame objects are made, and up to 3.11 that may set one off. Objects of the program
/// would be finalised on our thread then, in the middle of a look. The GIL is held all along: nobody sees the switch.
struct NoCollection(bool);

impl NoCollection {
    fn begin(_with_the_gil: Python<'_>) -> Self {
        // SAFETY: with the GIL.
        Self(unsafe { ffi::PyGC_Disable() } != 0)
    }
}

impl Drop for NoCollection {
    fn drop(&mut self) {
        if self.0 {
            // SAFETY: as in `begin`.
            unsafe { ffi::PyGC_Enable() };
        }
    }
}

/// The calling thread's stack as a recording has it; None if it runs no Python.
pub fn stack_here(py: Python<'_>) -> Option<String> {
    // SAFETY: the caller holds the GIL, so it has a state.
    let state = unsafe { ffi::PyThreadState_Get() } as usize;
    look(py, state, |stack| stack.said().join(";"))
}

/// Flags of code whose frames are coroutines' or asynchronous generators'; see `inspect`.
const ASYNC: u32 = 0x80 | 0x100 | 0x200;

/// `function (file:line)`, the file [`shortened`], after `async ` in a coroutine.
fn said(py: Python<'_>, frame: &Bound<'_, PyAny>) -> PyResult<String> {
    // SAFETY: a frame, kept alive by the caller; its code is a new reference.
    let (code, line) = unsafe {
        let frame = frame.as_ptr().cast();
        let code = ffi::PyFrame_GetCode(frame).cast();
        (
            Bound::from_owned_ptr(py, code),
            ffi::PyFrame_GetLineNumber(frame),
        )
    };
    let function = code.getattr(intern!(py, "co_qualname"))?;
    let file = code.getattr(intern!(py, "co_filename"))?;
    let flags: u32 = code.getattr(intern!(py, "co_flags"))?.extract()?;
    let mut text = String::from(if flags & ASYNC == 0 { "" } else { "async " });
    let file = file.str()?;
    let _ = write!(
        text,
        "{} ({}:{line})",
        function.str()?.to_str()?,
        shortened(file.to_str()?, ours(py))
    );
    // What separates frames must not be inside of one.
    Ok(text.replace(';', ","))
}

/// What tells where a file is from: a library's path from `site-packages` or the like on, the standard library's from
/// `python3.N`, ours from `greenlane`; of any other, an application's, the last two parts.
fn shortened<'a>(path: &'a str, ours: &str) -> &'a str {
    if !ours.is_empty()
        && path
            .strip_prefix(ours)
            .is_some_and(|rest| rest.starts_with('/'))
    {
        return path
            .get(ours.rfind('/').map_or(0, |at| at + 1)..)
            .unwrap_or(path);
    }
    for packages in ["/site-packages/", "/dist-packages/"] {
        if let Some(at) = path.rfind(packages) {
            return &path[at + 1..];
        }
    }
    for (at, name) in path.rmatch_indices("/python3") {
        let version = path[at + name.len()..]
            .split('/')
            .next()
            .unwrap_or_default();
        let parent = path[..at].rsplit('/').next().unwrap_or_default();
        if parent.starts_with("lib") && version.starts_with('.') {
            return &path[at + 1..];
        }
    }
    let mut slashes = path.rmatch_indices('/');
    slashes.next();
    slashes.next().map_or(path, |(at, _)| &path[at + 1..])
}

/// The folder of our own package; "" = unknown.
fn ours(py: Python<'_>) -> &str {
    static OURS: PyOnceLock<String> = PyOnceLock::new();
    OURS.get_or_init(py, || {
        let file = py
            .import("greenlane")
            .and_then(|module| module.getattr("__file__"));
        let file: String = file.and_then(|file| file.extract()).unwrap_or_default();
        file.rsplit_once('/')
            .map_or_else(String::new, |(folder, _)| folder.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_keeps_the_last_two_parts_of_a_path() {
        let kept = |path| shortened(path, "/opt/venv/site-packages/greenlane");
        assert_eq!(kept("/srv/app/shop/pricing.py"), "shop/pricing.py");
        assert_eq!(kept("pricing.py"), "pricing.py");
        assert_eq!(kept("<frozen runpy>"), "<frozen runpy>");
        assert_eq!(kept("/srv/python3.11/shop/pricing.py"), "shop/pricing.py");
    }

    #[test]
    fn a_library_keeps_where_it_is_from() {
        let kept = |path| shortened(path, "/src/python/greenlane");
        let flask = "/opt/venv/lib/python3.11/site-packages/flask/app.py";
        assert_eq!(kept(flask), "site-packages/flask/app.py");
        assert_eq!(
            kept("/usr/lib/python3/dist-packages/six.py"),
            "dist-packages/six.py"
        );
        let json = "/usr/lib/python3.11/json/encoder.py";
        assert_eq!(kept(json), "python3.11/json/encoder.py");
        assert_eq!(
            kept("/x/lib/python3.13t/pickle.py"),
            "python3.13t/pickle.py"
        );
        assert_eq!(
            kept("/src/python/greenlane/probes/gevent.py"),
            "greenlane/probes/gevent.py"
        );
        assert_eq!(
            kept("/src/python/greenlane_shop/views.py"),
            "greenlane_shop/views.py"
        );
    }
}
