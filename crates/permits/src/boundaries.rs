//! Bytecode boundaries at which a thread may be asked to stand still: local events of `sys.monitoring` on the code that it
//! runs. They are there from the asking until the thread meets one, or its phase ends.
//!
//! Nobody stands still in what other code cannot wait for: import machinery, logging, `__del__` and other finalizers,
//! generators (any thread may drive them), our own code. Then the callers of those are watched instead.

use crate::face::ThreadFace;
use greenlane_process::clock;
use pyo3::prelude::*;
use pyo3::{ffi, intern};
use std::ffi::CStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many frames are watched: from the innermost one in which a thread may stand still.
const MOST_CODES: usize = 4;
/// Deeper stacks are left alone.
const MOST_FRAMES: usize = 400;
/// A thread that has met no boundary for this long, and not said that its phase ended, has died.
const FORGOTTEN_NS: u64 = 10_000_000_000;
/// CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR.
const GENERATORS: i64 = 0x20 | 0x80 | 0x200;

/// The name of our tool.
const NAME: &str = "greenlane";

/// Ours in `sys.monitoring`.
struct Tool {
    /// `set_local_events` of our tool: (code, events).
    set: Py<PyAny>,
    /// `get_tool` of our id: whose it is by now.
    owner: Py<PyAny>,
    events: i64,
    /// Where our own code lies.
    ours: String,
}

/// Who is asked, and the code that has events because of it.
struct Asked {
    face: Arc<ThreadFace>,
    ticket: u64,
    since_ns: u64,
    codes: Vec<Py<PyAny>>,
}

struct State {
    tool: Option<Arc<Tool>>,
    asked: Option<Asked>,
}

/// Under the GIL, nobody waits for it: no Python runs while it is locked.
static STATE: Mutex<State> = Mutex::new(State {
    tool: None,
    asked: None,
});

impl Tool {
    /// Sets the events of `code`; false: the id is another tool's by now, whose events stay as they are.
    fn watches(&self, py: Python<'_>, code: &Py<PyAny>, events: i64) -> bool {
        let owner = self.owner.call0(py);
        let ours = owner.is_ok_and(|owner| owner.bind(py).eq(NAME).unwrap_or(false));
        ours && self.set.call1(py, (code, events)).is_ok()
    }
}

/// Uses a tool of `sys.monitoring` from now on: its `set_local_events` and `get_tool`; None = no more.
pub fn use_tool(py: Python<'_>, calls: Option<(Py<PyAny>, Py<PyAny>)>, events: i64, ours: String) {
    withdraw(py);
    state().tool = calls.map(|(set, owner)| {
        Arc::new(Tool {
            set,
            owner,
            events,
            ours,
        })
    });
}

/// Asks the holder of `ticket` to stand still at its next boundary, if it `holds` it. Takes the GIL.
pub fn ask_to_stop(face: &Arc<ThreadFace>, ticket: u64, holds: impl Fn() -> bool) {
    Python::try_attach(|py| {
        let Some(tool) = state().tool.clone() else {
            return;
        };
        let now_ns = clock::monotonic_ns();
        let busy = state().asked.as_ref().is_some_and(|asked| {
            asked.face.asked_to_stop() == asked.ticket
                && now_ns.saturating_sub(asked.since_ns) < FORGOTTEN_NS
        });
        if busy || !holds() {
            return;
        }
        withdraw(py);
        let codes = codes_to_watch(py, face.state(), &tool.ours);
        if codes.is_empty() {
            return;
        }
        face.ask_to_stop(ticket);
        let watched = |code: &Py<PyAny>| tool.watches(py, code, tool.events);
        let seen = codes.iter().filter(|code| watched(code)).count();
        state().asked = Some(Asked {
            face: Arc::clone(face),
            ticket,
            since_ns: now_ns,
            codes,
        });
        if seen == 0 {
            withdraw(py); // The tool is no longer ours.
        }
    });
}

/// The phase of the calling thread ends.
pub fn leave(py: Python<'_>, face: &ThreadFace) {
    if face.asked_to_stop() != 0 {
        withdraw(py);
    }
}

/// Withdraws the request to stand still, if there is one.
pub fn withdraw(py: Python<'_>) {
    let Some(asked) = state().asked.take() else {
        return;
    };
    asked.face.ask_to_stop(0);
    if let Some(tool) = state().tool.clone() {
        for code in &asked.codes {
            // Another owner may have the id by now: then none of our events is left.
            tool.watches(py, code, 0);
        }
    }
}

/// Whether the calling thread, which has met a boundary, may stand still in all that it runs.
pub fn may_stand_still(py: Python<'_>) -> bool {
    let Some(tool) = state().tool.clone() else {
        return false;
    };
    // SAFETY: attached.
    let state = unsafe { ffi::PyThreadState_Get() } as usize;
    let mut first = true;
    let mut fit = true;
    let walked = walk(py, state, |code| {
        let ours = first && is_in(code, &tool.ours);
        fit = !ours && !is_unfit(code);
        first = false;
        fit
    });
    walked && fit
}

fn codes_to_watch(py: Python<'_>, thread: usize, ours: &str) -> Vec<Py<PyAny>> {
    let mut codes = Vec::new();
    let walked = walk(py, thread, |code| {
        if is_unfit(code) {
            codes.clear();
        } else if codes.len() < MOST_CODES && !is_in(code, ours) {
            codes.push(code.clone().unbind());
        }
        true
    });
    if walked {
        codes
    } else {
        Vec::new()
    }
}

/// Shows the code of each frame of the thread whose `PyThreadState` lies at `thread`, innermost first, until `show` says
/// no. False: there is no such thread, or its stack is too deep.
fn walk(py: Python<'_>, thread: usize, mut show: impl FnMut(&Bound<'_, PyAny>) -> bool) -> bool {
    // SAFETY: with the GIL, threads are neither added to nor taken off the list; `thread` is only compared. Frames and
    // code are held as long as they are looked at.
    unsafe {
        let mut known = ffi::PyInterpreterState_ThreadHead(ffi::PyInterpreterState_Get());
        while !known.is_null() && known as usize != thread {
            known = ffi::PyThreadState_Next(known);
        }
        if known.is_null() {
            return false;
        }
        let mut frame = Bound::from_owned_ptr_or_opt(py, ffi::PyThreadState_GetFrame(known).cast());
        for _ in 0..MOST_FRAMES {
            let Some(now) = frame else { return true };
            let code = ffi::PyFrame_GetCode(now.as_ptr().cast());
            let Some(code) = Bound::from_owned_ptr_or_opt(py, code.cast()) else {
                return false;
            };
            if !show(&code) {
                return true;
            }
            frame =
                Bound::from_owned_ptr_or_opt(py, ffi::PyFrame_GetBack(now.as_ptr().cast()).cast());
        }
    }
    false
}

fn is_unfit(code: &Bound<'_, PyAny>) -> bool {
    let py = code.py();
    let flags = code.getattr(intern!(py, "co_flags"));
    let flags: i64 = flags
        .and_then(|flags| flags.extract())
        .unwrap_or(GENERATORS);
    flags & GENERATORS != 0
        || says(code, "co_name", |name| name == "__del__")
        || says(code, "co_filename", |file| {
            file.starts_with("<frozen importlib")
                || file.contains("/logging/") && !file.contains("/site-packages/")
                || file.ends_with("/weakref.py")
        })
}

fn is_in(code: &Bound<'_, PyAny>, folder: &str) -> bool {
    says(code, "co_filename", |file| file.starts_with(folder))
}

/// What `is` says of one of its names; true if it has none.
fn says(code: &Bound<'_, PyAny>, name: &str, is: impl FnOnce(&str) -> bool) -> bool {
    let Ok(value) = code.getattr(name) else {
        return true;
    };
    // SAFETY: the text belongs to the string, which is held here.
    unsafe {
        let text = ffi::PyUnicode_AsUTF8(value.as_ptr());
        if text.is_null() {
            ffi::PyErr_Clear();
            return true;
        }
        CStr::from_ptr(text).to_str().map_or(true, is)
    }
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}
