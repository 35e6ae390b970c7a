//! Rules of the interpreter's locks: a wait for one ends the phase, and permits know who holds one.

use super::waits::{is_true, never_waits, number};
use super::{callers, phase};
use greenlane_methods::call::{Call, Function};
use greenlane_methods::table::Rule;
use greenlane_permits::locks;
use greenlane_recorder::locks as recorded;
use pyo3::exceptions::PyValueError;
use pyo3::ffi::{self, PyObject, PyTypeObject};
use pyo3::prelude::*;
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// `Kind.LOCK` of `greenlane.phase`.
const LOCK: u8 = 5;

enum Does {
    Acquires,
    Releases,
    ReleasesAll,
    AcquiresAll,
    Forgets,
}

struct LockRule {
    does: Does,
    recursive: bool,
    /// Its `acquire`, and where the GIL keeps the answer true until the call, its `locked`, which costs less to ask.
    acquire: Function,
    locked: Option<Function>,
}

/// The rule called `rule`, of a lock's method; `asks` is its class' `acquire`, and maybe its `locked`.
pub fn rule_named(
    rule: &str,
    method: &Bound<'_, PyAny>,
    asks: &[Function],
) -> PyResult<Option<Box<dyn Rule>>> {
    let does = match rule {
        "acquires" => Does::Acquires,
        "releases" => Does::Releases,
        "releases_all" => Does::ReleasesAll,
        "acquires_all" => Does::AcquiresAll,
        "forgets" => Does::Forgets,
        _ => return Ok(None),
    };
    let [acquire, more @ ..] = asks else {
        return Err(PyValueError::new_err("a lock's rule asks its acquire"));
    };
    let class = method.getattr("__objclass__")?;
    // Only of a lock that may be acquired again.
    let recursive = class.hasattr("_is_owned")?;
    see_endings(class.as_ptr().cast(), recursive);
    locks::count(true);
    Ok(Some(Box::new(LockRule {
        does,
        recursive,
        acquire: *acquire,
        locked: more.first().copied(),
    })))
}

impl Rule for LockRule {
    #[inline]
    fn wants(&self) -> bool {
        match self.does {
            Does::Acquires | Does::AcquiresAll => phase::is_heard(),
            _ => locks::any() || recorded::any(),
        }
    }

    unsafe fn see(&self, call: &Call<'_>) -> *mut PyObject {
        // SAFETY: within the call.
        unsafe {
            match self.does {
                Does::Acquires => self.acquires(call),
                Does::AcquiresAll => self.acquires_all(call),
                Does::Releases => self.releases(call, false),
                Does::ReleasesAll => self.releases(call, true),
                Does::Forgets => {
                    forget_lock(call.this);
                    call.pass()
                }
            }
        }
    }
}

impl LockRule {
    unsafe fn acquires(&self, call: &Call<'_>) -> *mut PyObject {
        let plain = call.placed() == 0 && call.named() == 0;
        // SAFETY: within the call.
        unsafe {
            if !plain && never_waits(call, 1) {
                let result = call.pass();
                self.note(call, result, 1);
                return result;
            }
            if plain || asks_to_wait(call) {
                if let Some(had) = self.try_now(call) {
                    self.note(call, had, 1);
                    return had;
                }
            }
            let kind = callers::kind_or(LOCK);
            let py = Python::assume_attached();
            let wait = (kind == LOCK).then(|| recorded::waits(py, call.this as usize));
            phase::around(
                kind,
                || call.pass(),
                |result| {
                    // Nothing is asked while an error is set.
                    if let Some(wait) = wait.flatten().filter(|_| !result.is_null()) {
                        wait.end(py, call.this, result == ffi::Py_True());
                    }
                    self.note(call, result, 1);
                    if result == ffi::Py_False() && callers::wait_for_an_event() {
                        greenlane_recorder::timed_out();
                    }
                },
            )
        }
    }

    /// What the call gives of a lock that can be had now, or an error; None: of one that cannot.
    unsafe fn try_now(&self, call: &Call<'_>) -> Option<*mut PyObject> {
        // SAFETY: within the call; references are given back.
        unsafe {
            if let Some(locked) = &self.locked {
                return (is_true(locked.call(call.this, &[])) == Some(false)).then(|| call.pass());
            }
            let tried = self.acquire.call(call.this, &[ffi::Py_False()]);
            if tried.is_null() || tried == ffi::Py_True() {
                return Some(tried);
            }
            ffi::Py_DECREF(tried);
            None
        }
    }

    /// `_acquire_restore((times, thread))`: as often as it was held before, immediately if it is free.
    unsafe fn acquires_all(&self, call: &Call<'_>) -> *mut PyObject {
        // SAFETY: within the call; what the tuple gives is borrowed from it.
        unsafe {
            let state = call.argument(0, None).filter(|&state| {
                ffi::PyTuple_CheckExact(state) != 0 && ffi::PyTuple_Size(state) == 2
            });
            let part = |at| state.and_then(|state| number(ffi::PyTuple_GetItem(state, at)));
            let (Some(times), Some(_)) = (part(0), part(1)) else {
                return call.pass();
            };
            let owner = ffi::PyLong_AsUnsignedLong(ffi::PyTuple_GetItem(
                state.unwrap_or(ptr::null_mut()),
                1,
            ));
            if !ffi::PyErr_Occurred().is_null() {
                ffi::PyErr_Clear();
            }
            let times = times as usize;
            if times > 0 && owner == libc::pthread_self() as std::ffi::c_ulong {
                let tried = self.acquire.call(call.this, &[ffi::Py_False()]);
                if tried.is_null() {
                    return tried;
                }
                let is_mine = tried == ffi::Py_True();
                ffi::Py_DECREF(tried);
                if is_mine {
                    for _ in 1..times {
                        let again = self.acquire.call(call.this, &[ffi::Py_False()]);
                        if again.is_null() {
                            return again;
                        }
                        ffi::Py_DECREF(again);
                    }
                    self.note_acquire(call, times);
                    ffi::Py_INCREF(ffi::Py_None());
                    return ffi::Py_None();
                }
            }
            phase::around(
                callers::kind_or(LOCK),
                || call.pass(),
                |result| {
                    if !result.is_null() {
                        self.note_acquire(call, times);
                    }
                },
            )
        }
    }

    unsafe fn releases(&self, call: &Call<'_>, wholly: bool) -> *mut PyObject {
        let lock = call.this as usize;
        let giving = locks::giving(lock, self.recursive, wholly);
        // SAFETY: within the call, so the thread is attached.
        unsafe {
            if recorded::any() {
                recorded::giving(Python::assume_attached(), lock, self.recursive, wholly);
            }
            let result = call.pass();
            if !result.is_null() {
                giving.settle(Python::assume_attached());
            }
            result
        }
    }

    unsafe fn note(&self, call: &Call<'_>, result: *mut PyObject, times: usize) {
        // SAFETY: an immortal object's address.
        if result == unsafe { ffi::Py_True() } {
            self.note_acquire(call, times);
        }
    }

    fn note_acquire(&self, call: &Call<'_>, times: usize) {
        let lock = call.this as usize;
        locks::note_acquire(lock, times, self.recursive);
        // SAFETY: within the call, so the thread is attached.
        recorded::note_acquire(
            unsafe { Python::assume_attached() },
            lock,
            times,
            self.recursive,
        );
    }
}

/// Whether the arguments of `acquire` ask to wait, possibly with a time-out. Anything odd is left to the lock.
unsafe fn asks_to_wait(call: &Call<'_>) -> bool {
    /// Below `threading.TIMEOUT_MAX`; the lock says in its own words what is wrong with more.
    const LONGEST_S: f64 = 9.2e9;
    let blocking = call.argument(0, Some(c"blocking"));
    let timeout = call.argument(1, Some(c"timeout"));
    let known = usize::from(blocking.is_some()) + usize::from(timeout.is_some());
    known == call.placed() + call.named()
        && blocking.is_none_or(|given| number(given).is_some())
        && timeout.is_none_or(|given| {
            number(given).is_some_and(|s| s == -1.0 || (0.0..LONGEST_S).contains(&s))
        })
}

/// A class of locks whose objects' ends are seen: the memory of one that dies held may become another lock's.
struct Ending {
    class: AtomicPtr<PyTypeObject>,
    before: AtomicUsize,
}

impl Ending {
    const fn none() -> Self {
        Self {
            class: AtomicPtr::new(ptr::null_mut()),
            before: AtomicUsize::new(0),
        }
    }
}

static PLAIN: Ending = Ending::none();
static RECURSIVE: Ending = Ending::none();

fn forget_lock(lock: *mut PyObject) {
    if locks::any() {
        locks::forget_lock(lock as usize);
    }
    if recorded::any() {
        recorded::forget_lock(lock as usize);
    }
}

unsafe extern "C" fn plain_ends(lock: *mut PyObject) {
    // SAFETY: as CPython called it.
    unsafe { ends(lock, &PLAIN) }
}

unsafe extern "C" fn recursive_ends(lock: *mut PyObject) {
    // SAFETY: as CPython called it.
    unsafe { ends(lock, &RECURSIVE) }
}

unsafe fn ends(lock: *mut PyObject, of: &Ending) {
    forget_lock(lock);
    // SAFETY: the destructor that stood there.
    unsafe { transmute::<usize, ffi::destructor>(of.before.load(Ordering::Acquire))(lock) }
}

fn see_endings(class: *mut PyTypeObject, recursive: bool) {
    let (of, ours) = if recursive {
        (&RECURSIVE, recursive_ends as ffi::destructor)
    } else {
        (&PLAIN, plain_ends as ffi::destructor)
    };
    // SAFETY: a class of the interpreter's, with the GIL; its word is read at each object's end.
    unsafe {
        if let Some(now) = (*class)
            .tp_dealloc
            .filter(|&now| now as usize != ours as usize)
        {
            of.before.store(now as usize, Ordering::Release);
            of.class.store(class, Ordering::Release);
            (*class).tp_dealloc = Some(ours);
        }
    }
}

/// Puts the destructors back, and forgets who holds what.
pub fn restore(_py: Python<'_>) {
    for (of, ours) in [
        (&PLAIN, plain_ends as ffi::destructor),
        (&RECURSIVE, recursive_ends as ffi::destructor),
    ] {
        // SAFETY: null, or the class that `see_endings` was given; with the GIL.
        unsafe {
            if let Some(class) = of.class.load(Ordering::Acquire).as_mut() {
                if class
                    .tp_dealloc
                    .is_some_and(|now| now as usize == ours as usize)
                {
                    class.tp_dealloc = Some(transmute::<usize, ffi::destructor>(
                        of.before.load(Ordering::Acquire),
                    ));
                }
            }
        }
    }
    locks::count(false);
}
