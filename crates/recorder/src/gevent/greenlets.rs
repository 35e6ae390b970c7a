//! Which greenlet is which unit: the table, keyed by the greenlet object, and greenlet's own C functions.
//!
//! An entry lives as long as its greenlet: it goes when the greenlet's end is seen, or by a weak reference when the
//! object is freed unseen. Keeping the greenlet alive instead would change when the program's greenlets are collected.
//! Everything here is called with the GIL, which is the table's lock.

use crate::names;
use crate::thread_state::{self, Unit};
use greenlane_process::clock;
use greenlane_process::forks;
use greenlane_process::numbers::NumberMap;
use greenlane_recording_format::event::{Event, Text, UnitKind, NO_JOB};
use pyo3::ffi;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr;

/// What a greenlet waits in.
#[derive(Clone, Copy)]
pub struct Label {
    /// `phase.Kind`; [`UNLABELLED`] = not known.
    pub kind: u8,
    pub call: Text,
    pub peer: Text,
    /// When the timer that it waits for is due, ns; 0 = it waits for none.
    pub due_ns: u64,
    /// With a timeout of 0: it waits for its turn only, whatever else may come meanwhile.
    pub yields: bool,
}

/// `Label.kind` of a wait that nobody has named.
pub const UNLABELLED: u8 = u8::MAX;

impl Label {
    pub const NONE: Self = Self {
        kind: UNLABELLED,
        call: 0,
        peer: 0,
        due_ns: 0,
        yields: false,
    };
}

/// One greenlet.
pub struct Entry {
    /// Its unit: `held`, or the thread's own for a thread's first greenlet.
    pub unit: *mut Unit,
    held: Option<Box<Unit>>,
    pub is_hub: bool,
    /// What it waits in, while it is away.
    pub label: Label,
    /// When it was made ready for the first time; 0 = unknown.
    pub spawned_ns: u64,
    /// The OS thread that it belongs to.
    pub thread: u64,
    generation: u64,
    gone: *mut ffi::PyObject,
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.held.is_some() {
            thread_state::forget(self.unit);
        }
        // SAFETY: our own reference; a weak reference that goes first does not call back.
        unsafe { ffi::Py_XDECREF(self.gone) };
    }
}

/// greenlet's C functions, from its capsule.
#[derive(Clone, Copy)]
pub struct Functions {
    kind: *mut ffi::PyTypeObject,
    current: unsafe extern "C" fn() -> *mut ffi::PyObject,
    main: unsafe extern "C" fn(*mut ffi::PyObject) -> c_int,
    started: unsafe extern "C" fn(*mut ffi::PyObject) -> c_int,
    active: unsafe extern "C" fn(*mut ffi::PyObject) -> c_int,
}

struct Table {
    functions: Option<Functions>,
    entries: NumberMap<usize, Box<Entry>>,
    /// Weak reference -> greenlet.
    watched: NumberMap<usize, usize>,
    /// Called when a greenlet is freed.
    callback: *mut ffi::PyObject,
}

struct Locked(UnsafeCell<Option<Table>>);
// SAFETY: looked at only with the GIL held; the probe is not installed on a build without one.
unsafe impl Sync for Locked {}
static TABLE: Locked = Locked(UnsafeCell::new(None));

fn table() -> &'static mut Table {
    // SAFETY: see `Locked`. No function of this module calls Python while it holds the reference, but to free weak
    // references, which runs nothing.
    let table = unsafe { &mut *TABLE.0.get() };
    table.get_or_insert_with(|| Table {
        functions: None,
        entries: NumberMap::default(),
        watched: NumberMap::default(),
        callback: ptr::null_mut(),
    })
}

/// Finds greenlet's C functions; false (and a Python error set) when this greenlet has none.
pub fn load() -> bool {
    let table = table();
    if table.functions.is_some() {
        return true;
    }
    // SAFETY: the capsule is an array of at least 12 pointers since greenlet 1.0, in this order.
    unsafe {
        let capsule = ffi::PyCapsule_Import(c"greenlet._C_API".as_ptr(), 0).cast::<*mut c_void>();
        if capsule.is_null() {
            return false;
        }
        table.functions = Some(Functions {
            kind: (*capsule).cast(),
            current: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *mut ffi::PyObject>(
                *capsule.add(4),
            ),
            main: predicate(*capsule.add(8)),
            started: predicate(*capsule.add(9)),
            active: predicate(*capsule.add(10)),
        });
        table.callback = ffi::PyCFunction_NewEx(&raw mut GONE.0, ptr::null_mut(), ptr::null_mut());
        !table.callback.is_null()
    }
}

unsafe fn predicate(function: *mut c_void) -> unsafe extern "C" fn(*mut ffi::PyObject) -> c_int {
    // SAFETY: the caller passes a pointer of that type.
    unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut ffi::PyObject) -> c_int>(
            function,
        )
    }
}

struct Definition(ffi::PyMethodDef);
// SAFETY: written once, at compile time.
unsafe impl Sync for Definition {}
static mut GONE: Definition = Definition(ffi::PyMethodDef {
    ml_name: c"greenlet_is_gone".as_ptr(),
    ml_meth: ffi::PyMethodDefPointer {
        PyCFunction: on_gone,
    },
    ml_flags: ffi::METH_O,
    ml_doc: ptr::null(),
});

unsafe extern "C" fn on_gone(
    _nothing: *mut ffi::PyObject,
    reference: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let table = table();
    if let Some(greenlet) = table.watched.remove(&(reference as usize)) {
        drop(table.entries.remove(&greenlet));
    }
    // SAFETY: None is immortal or counted; the reference is ours to give.
    unsafe { ffi::Py_NewRef(ffi::Py_None()) }
}

/// Whether `object` is a greenlet.
pub fn is_greenlet(object: *mut ffi::PyObject) -> bool {
    // SAFETY: a valid object, and the type of greenlets.
    match table().functions {
        Some(functions) => unsafe { ffi::PyObject_TypeCheck(object, functions.kind) != 0 },
        None => false,
    }
}

/// The greenlet that runs on this thread, borrowed: it runs, so it lives.
pub fn current() -> *mut ffi::PyObject {
    let Some(functions) = table().functions else {
        return ptr::null_mut();
    };
    // SAFETY: greenlet's function gives a new reference, or null with an error set.
    unsafe {
        let greenlet = (functions.current)();
        if greenlet.is_null() {
            ffi::PyErr_Clear();
        } else {
            ffi::Py_DECREF(greenlet);
        }
        greenlet
    }
}

/// Whether `greenlet` is the first one of its thread.
pub fn is_main(greenlet: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller passes a greenlet.
    table()
        .functions
        .is_some_and(|functions| unsafe { (functions.main)(greenlet) != 0 })
}

/// Whether `greenlet` has never run.
pub fn is_new(greenlet: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller passes a greenlet.
    table()
        .functions
        .is_some_and(|functions| unsafe { (functions.started)(greenlet) == 0 })
}

/// Whether `greenlet` has ended.
pub fn is_over(greenlet: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller passes a greenlet.
    table().functions.is_some_and(|functions| unsafe {
        (functions.active)(greenlet) == 0 && (functions.started)(greenlet) != 0
    })
}

/// The entry of `greenlet`, if it has one of this process.
pub fn find(greenlet: *mut ffi::PyObject) -> Option<*mut Entry> {
    let entry = table().entries.get_mut(&(greenlet as usize))?;
    if entry.generation == forks::generation() {
        return Some(&raw mut **entry);
    }
    forget(greenlet);
    None
}

/// Makes the entry of `greenlet` with a unit of its own, which works for `job`.
pub fn make(
    greenlet: *mut ffi::PyObject,
    kind: UnitKind,
    name: Text,
    job: u64,
    thread: u64,
) -> *mut Entry {
    let mut unit = Box::new(thread_state::new_unit(kind, name));
    if unit.id != 0 && unit.job != job {
        unit.job = job;
        thread_state::emit(Event::Attach {
            at_ns: clock::monotonic_ns(),
            unit: unit.id,
            job,
        });
    }
    let unit_at = &raw mut *unit;
    let is_hub = kind == UnitKind::Loop;
    insert(greenlet, unit_at, Some(unit), is_hub, thread)
}

/// The job of the greenlet that `greenlet` was made by, as gevent's greenlets remember it.
pub fn spawner_job(greenlet: *mut ffi::PyObject) -> u64 {
    // SAFETY: an attribute of gevent's, which is a weak reference; calling one runs no Python code.
    unsafe {
        let reference = ffi::PyObject_GetAttrString(greenlet, c"spawning_greenlet".as_ptr());
        if reference.is_null() {
            ffi::PyErr_Clear();
            return NO_JOB;
        }
        let mut spawner = ptr::null_mut();
        if ffi::PyWeakref_Check(reference) != 0 {
            spawner = ffi::PyObject_CallNoArgs(reference);
        }
        ffi::Py_DECREF(reference);
        if spawner.is_null() {
            ffi::PyErr_Clear();
            return NO_JOB;
        }
        let job = find(spawner).map_or(NO_JOB, |entry| job_of(&*entry));
        ffi::Py_DECREF(spawner);
        job
    }
}

/// A thread's first greenlet may outlive the thread, whose unit is gone then.
fn job_of(entry: &Entry) -> u64 {
    if entry.held.is_none() && thread_state::own_unit() != Some(entry.unit) {
        return NO_JOB;
    }
    // SAFETY: held by the entry, or this thread's.
    unsafe { (*entry.unit).job }
}

/// Makes the entry of a thread's first greenlet: the unit is the thread's own.
pub fn make_main(greenlet: *mut ffi::PyObject, own: *mut Unit, thread: u64) -> *mut Entry {
    insert(greenlet, own, None, false, thread)
}

fn insert(
    greenlet: *mut ffi::PyObject,
    unit: *mut Unit,
    held: Option<Box<Unit>>,
    is_hub: bool,
    thread: u64,
) -> *mut Entry {
    let table = table();
    // SAFETY: greenlets can be referred to weakly; without memory the entry lives until its thread's probe goes.
    let gone = unsafe { ffi::PyWeakref_NewRef(greenlet, table.callback) };
    if gone.is_null() {
        // SAFETY: an error is set, and this is no place to raise it.
        unsafe { ffi::PyErr_Clear() };
    } else {
        table.watched.insert(gone as usize, greenlet as usize);
    }
    let mut entry = Box::new(Entry {
        unit,
        held,
        is_hub,
        label: Label::NONE,
        spawned_ns: 0,
        thread,
        generation: forks::generation(),
        gone,
    });
    let at = &raw mut *entry;
    if let Some(former) = table.entries.insert(greenlet as usize, entry) {
        table.watched.remove(&(former.gone as usize));
    }
    at
}

/// Takes the entry of `greenlet` away: it has ended.
pub fn forget(greenlet: *mut ffi::PyObject) {
    let table = table();
    if let Some(entry) = table.entries.remove(&(greenlet as usize)) {
        table.watched.remove(&(entry.gone as usize));
    }
}

/// Takes all entries of `thread` away.
pub fn forget_thread(thread: u64) {
    let table = table();
    let watched = &mut table.watched;
    table.entries.retain(|_, entry| {
        if entry.thread == thread {
            watched.remove(&(entry.gone as usize));
        }
        entry.thread != thread
    });
}

/// Greenlets that are followed now.
pub fn count() -> usize {
    table().entries.len()
}

/// What to call `greenlet`: its function's name. Runs no Python code.
pub fn name_of(greenlet: *mut ffi::PyObject) -> Text {
    // SAFETY: attribute look-ups on a greenlet's own members and on functions of CPython's own types.
    unsafe {
        for attribute in [c"_run", c"run"] {
            let run = ffi::PyObject_GetAttrString(greenlet, attribute.as_ptr());
            if run.is_null() {
                ffi::PyErr_Clear();
                continue;
            }
            let name = name_of_function(run);
            ffi::Py_DECREF(run);
            if name != 0 {
                return name;
            }
        }
        0
    }
}

unsafe fn name_of_function(function: *mut ffi::PyObject) -> Text {
    // SAFETY: as above.
    unsafe {
        let kind = ffi::Py_TYPE(function);
        let plain = ffi::PyFunction_Check(function) != 0
            || ffi::PyCFunction_Check(function) != 0
            || kind == &raw mut PyMethod_Type;
        if !plain {
            return names::text(&std::ffi::CStr::from_ptr((*kind).tp_name).to_string_lossy());
        }
        let name = ffi::PyObject_GetAttrString(function, c"__qualname__".as_ptr());
        if name.is_null() {
            ffi::PyErr_Clear();
            return 0;
        }
        let text = text_of(name);
        ffi::Py_DECREF(name);
        text
    }
}

/// The number of a Python text; 0 if it is none.
pub unsafe fn text_of(object: *mut ffi::PyObject) -> Text {
    // SAFETY: a valid object; the bytes live as long as it.
    unsafe {
        let mut length = 0;
        if ffi::PyUnicode_Check(object) == 0 {
            return 0;
        }
        let bytes = ffi::PyUnicode_AsUTF8AndSize(object, &mut length);
        if bytes.is_null() {
            ffi::PyErr_Clear();
            return 0;
        }
        let bytes = std::slice::from_raw_parts(bytes.cast::<u8>(), length as usize);
        names::text(std::str::from_utf8_unchecked(bytes))
    }
}

extern "C" {
    pub static mut PyMethod_Type: ffi::PyTypeObject;
}
