//! What the calls of a method of gevent tell: which wait it is, what is ready since when.

use super::classes::{Classes, LOCK, PROCESS, SLEEP, SOCKET};
use super::greenlets::{self, Label, PyMethod_Type, UNLABELLED};
use super::switches::{self, current_hub, Cause};
use super::timed_callback::stamp;
use crate::names;
use crate::switch;
use crate::thread_state;
use greenlane_methods::call::Call;
use greenlane_methods::table::Rule;
use greenlane_process::clock;
use greenlane_recording_format::event::Text;
use pyo3::ffi;
use std::ptr;
use std::sync::OnceLock;

/// What a method is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It may wait: `kind`, its name, and where its timeout stands. The outermost one counts.
    Waits(u8, Text, Option<usize>),
    /// `loop.run_callback(callback, *arguments)`: the callback's greenlet is ready now.
    RunCallback,
    /// `hub.wait(watcher)`: what it waits for is the watcher's.
    HubWait,
    /// `timeout._on_expiration(greenlet, error)`: its greenlet is ready since the timer was due.
    Expires,
    /// `thread_result._on_async()`: ready since its worker said so.
    ThreadResult,
}

impl Rule for Role {
    fn wants(&self) -> bool {
        switch::on() && switches::is_installed()
    }

    unsafe fn see(&self, call: &Call<'_>) -> *mut ffi::PyObject {
        // SAFETY: as the caller says.
        unsafe {
            match (*self, call.argument(0, None)) {
                (Role::RunCallback, Some(callback)) => run_callback(call, callback),
                (Role::HubWait, Some(watcher)) => {
                    switches::watch_from(false);
                    label_greenlet(label_of(watcher), call)
                }
                (Role::RunCallback | Role::HubWait, None) => call.pass(),
                (Role::Waits(kind, name, timeout_at), _) => {
                    let label = Label {
                        kind,
                        call: name,
                        yields: timeout_at
                            .and_then(|at| call.argument(at, Some(c"timeout")))
                            .is_some_and(|timeout| is_zero(timeout)),
                        ..Label::NONE
                    };
                    label_greenlet(label, call)
                }
                (Role::Expires, _) => stamp_with_cause(timeout_cause(call.this), call),
                (Role::ThreadResult, _) => stamp_with_cause(result_cause(call.this), call),
            }
        }
    }
}

/// Where the timeout of gevent's method of this name stands; None = it has none.
pub fn timeout_at(method: &str) -> Option<usize> {
    match method {
        "wait" | "join" | "poll" | "wait_available" => Some(0),
        "get" | "peek" | "acquire" | "communicate" => Some(1),
        "put" | "add" | "start" | "select" => Some(2),
        _ => None,
    }
}

/// Whether `number` is the whole number or the float 0; of other types it is not asked.
unsafe fn is_zero(number: *mut ffi::PyObject) -> bool {
    // SAFETY: a valid object; no errors come of numbers of exactly these types.
    unsafe {
        if ffi::PyFloat_CheckExact(number) != 0 {
            return ffi::PyFloat_AS_DOUBLE(number) == 0.0;
        }
        ffi::PyLong_CheckExact(number) != 0 && ffi::PyObject_IsTrue(number) == 0
    }
}

unsafe fn label_greenlet(label: Label, call: &Call<'_>) -> *mut ffi::PyObject {
    // SAFETY: within the call. A greenlet takes its label along when it is switched away.
    unsafe {
        let now = &mut current_hub().label;
        let before = *now;
        if before.kind == UNLABELLED {
            *now = label;
        } else {
            now.due_ns = label.due_ns;
            now.yields |= label.yields;
        }
        let result = call.pass();
        current_hub().label = before;
        result
    }
}

unsafe fn stamp_with_cause(cause: Cause, call: &Call<'_>) -> *mut ffi::PyObject {
    // SAFETY: within the call.
    unsafe {
        switches::watch_from(true);
        let before = std::mem::replace(&mut current_hub().cause, cause);
        let result = call.pass();
        current_hub().cause = before;
        result
    }
}

unsafe fn run_callback(call: &Call<'_>, callback: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: within the call.
    unsafe {
        let stamped = stamp(callback, cause_of(callback));
        if stamped.is_null() {
            return ptr::null_mut();
        }
        let result = call.pass_with(0, stamped);
        ffi::Py_DECREF(stamped);
        result
    }
}

/// Since when what `callback` will do is possible: now; or, for what the hub itself passes on, since what made the hub
/// do it. Announces the greenlet that it starts.
unsafe fn cause_of(callback: *mut ffi::PyObject) -> Cause {
    // SAFETY: a valid object.
    unsafe {
        let now_ns = clock::monotonic_ns();
        let hub = current_hub();
        let (owner, is_native) = owner_of(callback);
        let cause = Cause {
            known_ns: now_ns,
            ready_ns: now_ns,
            seen_ns: now_ns,
            class: if owner.is_null() {
                0
            } else {
                ffi::Py_TYPE(owner) as usize
            },
        };
        // Greenlets' own `switch` is a native method.
        if is_native
            && !owner.is_null()
            && greenlets::is_greenlet(owner)
            && greenlets::is_new(owner)
        {
            hub.announce(owner, now_ns);
            return cause;
        }
        if !hub.in_hub() {
            return cause;
        }
        if hub.cause.ready_ns != 0 {
            return Cause {
                known_ns: hub.cause.known_ns,
                ready_ns: hub.cause.ready_ns,
                seen_ns: hub.cause.seen_ns,
                ..cause
            };
        }
        match thread_state::poll_bracket() {
            Some((known_ns, ready_ns)) => Cause {
                known_ns,
                ready_ns,
                ..cause
            },
            None => cause,
        }
    }
}

/// The object whose method `callback` is, and whether it is a native method; null = it is none.
unsafe fn owner_of(callback: *mut ffi::PyObject) -> (*mut ffi::PyObject, bool) {
    #[repr(C)]
    struct Method {
        head: ffi::PyObject,
        function: *mut ffi::PyObject,
        object: *mut ffi::PyObject,
    }
    // SAFETY: the layouts are CPython's, 3.8 and later.
    unsafe {
        if ffi::Py_TYPE(callback) == &raw mut PyMethod_Type {
            return ((*callback.cast::<Method>()).object, false);
        }
        if ffi::PyCFunction_Check(callback) != 0 {
            return (ffi::PyCFunction_GetSelf(callback), true);
        }
        (ptr::null_mut(), false)
    }
}

/// What a watcher is.
#[derive(Clone, Copy)]
enum Watcher {
    Io,
    Timer,
    Child,
    Other,
}

/// The attribute names that watchers are asked for, and their calls.
struct HubMethods {
    events: *mut ffi::PyObject,
    after: *mut ffi::PyObject,
    at: *mut ffi::PyObject,
    timer: *mut ffi::PyObject,
    seconds: *mut ffi::PyObject,
    reads: Text,
    writes: Text,
    either: Text,
    sleeps: Text,
    children: Text,
    others: Text,
}
// SAFETY: interned texts, never released.
unsafe impl Sync for HubMethods {}
// SAFETY: as above.
unsafe impl Send for HubMethods {}

fn hub_methods() -> &'static HubMethods {
    static ASKED: OnceLock<HubMethods> = OnceLock::new();
    ASKED.get_or_init(|| {
        // SAFETY: called with the GIL.
        let name =
            |text: &std::ffi::CStr| unsafe { ffi::PyUnicode_InternFromString(text.as_ptr()) };
        HubMethods {
            events: name(c"events"),
            after: name(c"_after"),
            at: name(c"at"),
            timer: name(c"timer"),
            seconds: name(c"seconds"),
            reads: names::text("wait_read"),
            writes: names::text("wait_write"),
            either: names::text("wait_readwrite"),
            sleeps: names::text("gevent.sleep"),
            children: names::text("child.wait"),
            others: names::text("Hub.wait"),
        }
    })
}

/// What a wait for `watcher` is. Only gevent's own watchers are asked, by their class's name.
unsafe fn label_of(watcher: *mut ffi::PyObject) -> Label {
    // SAFETY: a valid object; errors are cleared.
    unsafe {
        let asked = hub_methods();
        static KNOWN: Classes<Watcher> = Classes::new();
        let watcher_is = KNOWN.get(ffi::Py_TYPE(watcher) as usize, |name| match name {
            "io" => Watcher::Io,
            "timer" => Watcher::Timer,
            "child" => Watcher::Child,
            _ => Watcher::Other,
        });
        let (kind, call, due_ns) = match watcher_is {
            Watcher::Io => {
                let call = match whole(watcher, asked.events) & 3 {
                    1 => asked.reads,
                    2 => asked.writes,
                    _ => asked.either,
                };
                (SOCKET, call, 0)
            }
            Watcher::Timer => {
                let now_ns = clock::monotonic_ns();
                let after_s = real(watcher, asked.at).or_else(|| real(watcher, asked.after));
                let due_ns = after_s.map_or(0, |s| now_ns + (s.clamp(0.0, 1e9) * 1e9) as u64);
                (SLEEP, asked.sleeps, due_ns)
            }
            Watcher::Child => (PROCESS, asked.children, 0),
            Watcher::Other => (LOCK, asked.others, 0),
        };
        Label {
            kind,
            call,
            peer: 0,
            due_ns,
            yields: false,
        }
    }
}

unsafe fn whole(object: *mut ffi::PyObject, name: *mut ffi::PyObject) -> i64 {
    // SAFETY: valid objects; errors are cleared.
    unsafe {
        let value = ffi::PyObject_GetAttr(object, name);
        if value.is_null() {
            ffi::PyErr_Clear();
            return -1;
        }
        let whole = ffi::PyLong_AsLong(value);
        ffi::Py_DECREF(value);
        if whole == -1 {
            ffi::PyErr_Clear();
        }
        whole
    }
}

unsafe fn real(object: *mut ffi::PyObject, name: *mut ffi::PyObject) -> Option<f64> {
    // SAFETY: valid objects; errors are cleared.
    unsafe {
        let value = ffi::PyObject_GetAttr(object, name);
        if value.is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        let real = ffi::PyFloat_AsDouble(value);
        ffi::Py_DECREF(value);
        if real == -1.0 && !ffi::PyErr_Occurred().is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        Some(real)
    }
}

/// Since when the timer of a `gevent.Timeout` is due.
///
/// libev leaves in an expired timer how long before the loop's time it was due: that time is the last poll's end.
unsafe fn timeout_cause(timeout: *mut ffi::PyObject) -> Cause {
    // SAFETY: a valid object; errors are cleared.
    unsafe {
        let asked = hub_methods();
        if real(timeout, asked.seconds) == Some(0.0) {
            return Cause::BEFORE;
        }
        let Some((known_ns, polled_ns)) = thread_state::poll_bracket() else {
            return Cause::NONE;
        };
        let timer = ffi::PyObject_GetAttr(timeout, asked.timer);
        if timer.is_null() {
            ffi::PyErr_Clear();
            return Cause::NONE;
        }
        let at_s = real(timer, asked.at);
        ffi::Py_DECREF(timer);
        let (known_ns, ready_ns) = match at_s {
            Some(at_s) if (-1e6..=0.0).contains(&at_s) => {
                let due_ns = switches::due(polled_ns.saturating_sub((-at_s * 1e9) as u64));
                (due_ns, due_ns)
            }
            _ => (known_ns, polled_ns),
        };
        Cause {
            known_ns,
            ready_ns,
            seen_ns: ready_ns,
            class: 0,
        }
    }
}

/// Since when a thread pool's result is there, as its worker said ([`finish`]); else since the last poll found it.
fn result_cause(result: *mut ffi::PyObject) -> Cause {
    let said_ns = FINISHED.lock().map_or(None, |mut said| {
        let at = said
            .iter()
            .position(|&(object, _)| object == result as usize)?;
        Some(said.swap_remove(at).1)
    });
    let (known_ns, ready_ns) = match (said_ns, thread_state::poll_bracket()) {
        (Some(said_ns), _) => (said_ns, said_ns),
        (None, Some(bracket)) => bracket,
        (None, None) => return Cause::NONE,
    };
    Cause {
        known_ns,
        ready_ns,
        seen_ns: ready_ns,
        class: 0,
    }
}

static FINISHED: std::sync::Mutex<Vec<(usize, u64)>> = std::sync::Mutex::new(Vec::new());
/// Results that were finished and not yet fetched; more are forgotten.
const MOST_FINISHED: usize = 4096;

/// A worker thread has finished `result`, now.
pub fn finish(result: *mut ffi::PyObject) {
    if let Ok(mut said) = FINISHED.lock() {
        let now_ns = clock::monotonic_ns();
        if let Some(known) = said
            .iter_mut()
            .find(|(object, _)| *object == result as usize)
        {
            known.1 = now_ns;
        } else if said.len() < MOST_FINISHED {
            said.push((result as usize, now_ns));
        }
    }
}
