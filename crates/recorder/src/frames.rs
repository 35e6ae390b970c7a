//! The Python stack of a thread, as a recording has it. With the GIL.

use greenlane_process::numbers::NumberMap;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{ffi, intern};
use std::ffi::c_int;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

/// Innermost frames of a stack that are written down.
pub const MOST_FRAMES: usize = 64;
/// Codes whose origin is remembered. Arbitrary: others are looked at again.
const MOST_CODES: usize = 4096;
/// A function given to an executor may be wrapped in up to this many others.
const MOST_WRAPPERS: usize = 8;

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
    pub fn describe(&self) -> Vec<String> {
        let frames = self.0.iter().rev();
        frames
            .map(|frame| describe(frame.py(), frame).unwrap_or_else(|_| "?".to_owned()))
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

/// See `_native.pyi`.
#[pyfunction]
pub fn current_frames(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let ask = py
        .import(intern!(py, "sys"))?
        .getattr(intern!(py, "_current_frames"))?;
    let _none = NoCollection::begin(py);
    ask.call0()
}

/// The calling thread's stack as a recording has it; None if it runs no Python.
pub fn stack_here(py: Python<'_>) -> Option<String> {
    // SAFETY: the caller holds the GIL, so it has a state.
    let state = unsafe { ffi::PyThreadState_Get() } as usize;
    look(py, state, |stack| stack.describe().join(";"))
}

/// A place in the program's code.
pub struct Caller {
    code: Py<PyAny>,
    instruction: c_int,
    pub is_application: bool,
}

/// The innermost frame of the application that calls us, among the innermost `most`; of a library's code alone the innermost. From
/// `frame` on, if one is given, where the calling thread's own frames have none of the application's.
pub fn caller(py: Python<'_>, frame: Option<Bound<'_, PyAny>>, most: usize) -> Option<Caller> {
    let _none = NoCollection::begin(py);
    // SAFETY: with the GIL; borrowed, or null.
    let here = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast()) };
    first_of([here, frame].into_iter().flatten(), most)
}

/// The same of the thread whose `PyThreadState` lies at `state`.
pub fn caller_of(py: Python<'_>, state: usize) -> Option<Caller> {
    look(py, state, |stack| {
        first_of(stack.0.first().cloned().into_iter(), MOST_FRAMES)
    })?
}

/// What a name of the application's module refers to `object`, as `module.name`; None: none does.
pub fn global_name(py: Python<'_>, object: *mut ffi::PyObject) -> Option<String> {
    if !greenlane_interpreter::gil_enabled(py).unwrap_or(false) {
        return None; // Other threads change the module's names meanwhile.
    }
    let _none = NoCollection::begin(py);
    // SAFETY: with the GIL; borrowed, or null.
    let mut next = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast()) };
    for _ in 0..MOST_FRAMES {
        let frame = next?;
        // SAFETY: a frame, kept alive here; its code is a new reference.
        let code = unsafe {
            Bound::from_owned_ptr(py, ffi::PyFrame_GetCode(frame.as_ptr().cast()).cast())
        };
        if origin(&code) == Origin::Application {
            let names = frame.getattr(intern!(py, "f_globals")).ok()?;
            let names = names.cast_into::<PyDict>().ok()?;
            let module = names.get_item(intern!(py, "__name__")).ok()??;
            let mut names = names.iter();
            let (name, _) = names.find(|(_, value)| value.as_ptr() == object)?;
            return Some(format!("{}.{}", module.str().ok()?, name.str().ok()?));
        }
        // SAFETY: as above.
        next = unsafe {
            Bound::from_owned_ptr_or_opt(py, ffi::PyFrame_GetBack(frame.as_ptr().cast()).cast())
        };
    }
    None
}

fn first_of<'py>(from: impl Iterator<Item = Bound<'py, PyAny>>, most: usize) -> Option<Caller> {
    let mut first = None;
    for from in from {
        let py = from.py();
        let mut next = Some(from);
        for _ in 0..most {
            let Some(frame) = next else { break };
            // SAFETY: a frame, kept alive here; its code is a new reference.
            let code = unsafe {
                Bound::from_owned_ptr(py, ffi::PyFrame_GetCode(frame.as_ptr().cast()).cast())
            };
            let of = origin(&code);
            if of == Origin::Application || (of == Origin::Library && first.is_none()) {
                // SAFETY: as above.
                let instruction = unsafe { ffi::PyFrame_GetLasti(frame.as_ptr().cast()) };
                let code = code.unbind();
                let is_application = of == Origin::Application;
                let found = Caller {
                    code,
                    instruction,
                    is_application,
                };
                if is_application {
                    return Some(found);
                }
                first = Some(found);
            }
            // SAFETY: as above.
            next = unsafe {
                Bound::from_owned_ptr_or_opt(py, ffi::PyFrame_GetBack(frame.as_ptr().cast()).cast())
            };
        }
    }
    first
}

impl Caller {
    /// As a stack has it.
    pub fn describe(&self, py: Python<'_>) -> String {
        let code = self.code.bind(py);
        // SAFETY: a code, kept alive by us.
        let line = unsafe { ffi::PyCode_Addr2Line(code.as_ptr().cast(), self.instruction) };
        said_of(code, line).unwrap_or_else(|_| "?".to_owned())
    }
}

/// Where the function begins that somebody has given to an executor: the application's, also where a library hands it on
/// as another one's argument. None: it is not written in Python.
pub fn function(given: &Bound<'_, PyAny>) -> Option<String> {
    let mut first = None;
    let code = function_of(given, MOST_WRAPPERS, &mut first).or(first)?;
    let line = code.getattr(intern!(given.py(), "co_firstlineno"));
    said_of(&code, line.ok()?.extract().ok()?).ok()
}

/// The code of the application's function in it; in `first` the first one's of all.
fn function_of<'py>(
    given: &Bound<'py, PyAny>,
    most: usize,
    first: &mut Option<Bound<'py, PyAny>>,
) -> Option<Bound<'py, PyAny>> {
    let py = given.py();
    // SAFETY: an object.
    if unsafe { ffi::PyFunction_Check(given.as_ptr()) } != 0 {
        let code = given.getattr(intern!(py, "__code__")).ok()?;
        if origin(&code) == Origin::Application {
            return Some(code);
        }
        first.get_or_insert(code);
        return None;
    }
    let kind = given.get_type().name().ok()?;
    let of = |name| given.getattr(name).ok();
    let most = most.checked_sub(1)?;
    if kind == "method" {
        return function_of(&of(intern!(py, "__func__"))?, most, first);
    }
    if kind != "partial" {
        return None;
    }
    // `asyncio.to_thread` gives `partial(context.run, function)`, FastAPI `partial(runs, function=function)`.
    let inner = function_of(&of(intern!(py, "func"))?, most, first);
    inner.or_else(|| {
        let placed = of(intern!(py, "args"))?.cast_into::<PyTuple>().ok()?;
        let named = of(intern!(py, "keywords"))?.cast_into::<PyDict>().ok()?;
        let mut given = placed.iter().chain(named.values().iter());
        given.find_map(|each| function_of(&each, most, first))
    })
}

/// Whose code it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Application,
    /// A library's, or the interpreter's.
    Library,
    Ours,
}

/// Found out once a code: an address that has become another one's makes us look one frame too far or too near.
fn origin(code: &Bound<'_, PyAny>) -> Origin {
    static KNOWN: Mutex<Option<NumberMap<usize, Origin>>> = Mutex::new(None);
    let address = code.as_ptr() as usize;
    let known = KNOWN
        .try_lock()
        .ok()
        .and_then(|known| known.as_ref()?.get(&address).copied());
    if let Some(known) = known {
        return known;
    }
    let file = code.getattr(intern!(code.py(), "co_filename"));
    let of = file
        .ok()
        .and_then(|file| Some(origin_of(file.extract().ok()?, own_folder(code.py()))));
    let of = of.unwrap_or(Origin::Library);
    if let Ok(mut known) = KNOWN.try_lock() {
        let known = known.get_or_insert_with(NumberMap::default);
        if known.len() >= MOST_CODES {
            known.clear();
        }
        known.insert(address, of);
    }
    of
}

fn origin_of(path: &str, ours: &str) -> Origin {
    let short = shorten_path(path, ours);
    let is_ours = !ours.is_empty() && path.starts_with(ours) && short.starts_with("greenlane/");
    let libraries = ["site-packages/", "dist-packages/", "python3.", "bin/"];
    let generated = short.starts_with('<') && !["<string>", "<stdin>"].contains(&short);
    if is_ours {
        Origin::Ours
    } else if generated || libraries.iter().any(|library| short.starts_with(library)) {
        Origin::Library
    } else {
        Origin::Application
    }
}

/// Flags of code whose frames are coroutines' or asynchronous generators'; see `inspect`.
const ASYNC: u32 = 0x80 | 0x100 | 0x200;

/// `function (file:line)`, the file [`shorten_path`], after `async ` in a coroutine.
fn describe(py: Python<'_>, frame: &Bound<'_, PyAny>) -> PyResult<String> {
    // SAFETY: a frame, kept alive by the caller; its code is a new reference.
    let (code, line) = unsafe {
        let frame = frame.as_ptr().cast();
        let code = ffi::PyFrame_GetCode(frame).cast();
        (
            Bound::from_owned_ptr(py, code),
            ffi::PyFrame_GetLineNumber(frame),
        )
    };
    said_of(&code, line)
}

fn said_of(code: &Bound<'_, PyAny>, line: c_int) -> PyResult<String> {
    let py = code.py();
    let function = code.getattr(intern!(py, "co_qualname"))?;
    let file = code.getattr(intern!(py, "co_filename"))?;
    let flags: u32 = code.getattr(intern!(py, "co_flags"))?.extract()?;
    let mut text = String::from(if flags & ASYNC == 0 { "" } else { "async " });
    let file = file.str()?;
    let _ = write!(
        text,
        "{} ({}:{line})",
        function.str()?.to_str()?,
        shorten_path(file.to_str()?, own_folder(py))
    );
    // What separates frames must not be inside of one.
    Ok(text.replace(';', ","))
}

/// What tells where a file is from: a library's path from `site-packages` or the like on, the standard library's from
/// `python3.N`, ours from `greenlane`; of any other, an application's, the last two parts.
fn shorten_path<'a>(path: &'a str, ours: &str) -> &'a str {
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
fn own_folder(py: Python<'_>) -> &str {
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
        let kept = |path| shorten_path(path, "/opt/venv/site-packages/greenlane");
        assert_eq!(kept("/srv/app/shop/pricing.py"), "shop/pricing.py");
        assert_eq!(kept("pricing.py"), "pricing.py");
        assert_eq!(kept("<frozen runpy>"), "<frozen runpy>");
        assert_eq!(kept("/srv/python3.11/shop/pricing.py"), "shop/pricing.py");
    }

    #[test]
    fn a_library_keeps_where_it_is_from() {
        let kept = |path| shorten_path(path, "/src/python/greenlane");
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
