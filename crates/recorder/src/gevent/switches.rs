//! The trace function of greenlet switches: one unit's slice ends, another one's begins.
//!
//! greenlet has one trace function a thread, and calls it in the target, after the switch. Ours calls the one that was
//! set before it. One that is set later (gevent's monitor thread, an APM agent) calls ours or does not; when it does
//! not, [`watch`] notices it at the hub's next callback and puts ours back, with the other one behind it. An exception
//! that leaves a trace function is thrown into the target, so ours raises none of its own.

use super::classes::{what_ends, LOCK};
use super::greenlets::{self, Entry, Label, UNLABELLED};
use crate::switch;
use crate::thread_state::{self, Unit};
use greenlane_process::clock;
use greenlane_process::forks;
use greenlane_recording_format::event::{UnitKind, NO_JOB};
use pyo3::ffi;
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Counts up with every installation and its end: odd = installed.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Python objects that live as long as the process.
static TRACE: AtomicPtr<ffi::PyObject> = AtomicPtr::new(ptr::null_mut());
static SETTRACE: AtomicPtr<ffi::PyObject> = AtomicPtr::new(ptr::null_mut());
static GETTRACE: AtomicPtr<ffi::PyObject> = AtomicPtr::new(ptr::null_mut());
static SWITCH: AtomicPtr<ffi::PyObject> = AtomicPtr::new(ptr::null_mut());
static THROW: AtomicPtr<ffi::PyObject> = AtomicPtr::new(ptr::null_mut());
static HUB_CLASS: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(ptr::null_mut());

/// When what the hub does now became possible: [known, ready].
#[derive(Clone, Copy)]
pub struct Cause {
    pub known_ns: u64,
    /// 0 = there is none.
    pub ready_ns: u64,
    /// A wait that began later than `ready_ns` was over by then: `ready_ns` again if there was nothing left to wait for,
    /// else when the hub took it up.
    pub seen_ns: u64,
    /// The class whose callback it is: it says what ends here when the greenlet has not. 0 = none.
    pub class: usize,
}

impl Cause {
    pub const NONE: Self = Self {
        known_ns: 0,
        ready_ns: 0,
        seen_ns: 0,
        class: 0,
    };

    /// It was so before any wait began: a timeout of 0.
    pub const BEFORE: Self = Self {
        known_ns: 1,
        ready_ns: 1,
        seen_ns: 1,
        class: 0,
    };
}

/// What one thread's probe knows.
pub struct CurrentHub {
    /// The epoch in which it was installed; another one than [`EPOCH`] = it is to go.
    epoch: u64,
    generation: u64,
    thread: u64,
    /// Who was traced before us; ours, or null.
    next: *mut ffi::PyObject,
    /// Whom our function was last told of, recording or not: another one runs = we are no longer called.
    told: *mut ffi::PyObject,
    /// Waits in the hub that have begun since then.
    waits: u32,
    /// Our function runs: a switch inside of it (an object's end) is not ours to see.
    inside: bool,
    /// Who runs, as far as is written down.
    current: *mut ffi::PyObject,
    entry: *mut Entry,
    /// What the running greenlet is about to wait in.
    pub label: Label,
    /// Why the hub does what it does.
    pub cause: Cause,
}

struct Place(UnsafeCell<CurrentHub>);

thread_local! {
    static CURRENT: Place = const {
        Place(UnsafeCell::new(CurrentHub {
            epoch: 0,
            generation: 0,
            thread: 0,
            next: ptr::null_mut(),
            told: ptr::null_mut(),
            waits: 0,
            inside: false,
            current: ptr::null_mut(),
            entry: ptr::null_mut(),
            label: Label::NONE,
            cause: Cause::NONE,
        }))
    };
}

/// This thread's place.
pub fn current_hub() -> &'static mut CurrentHub {
    // SAFETY: a value without a destructor lives as long as its thread, and only this thread has the pointer. Functions
    // that call Python do not keep the reference over the call.
    CURRENT.with(|place| unsafe { &mut *place.0.get() })
}

impl CurrentHub {
    /// Whether the hub runs, as far as is known.
    pub fn in_hub(&self) -> bool {
        // SAFETY: the entry of the running greenlet, which lives. In a forked child it is a copy of the parent's, which
        // goes when somebody asks for it.
        !self.entry.is_null()
            && self.generation == forks::generation()
            && unsafe { (*self.entry).is_hub }
    }

    fn is_traced(&self) -> bool {
        self.epoch == EPOCH.load(Ordering::Relaxed) && self.epoch & 1 == 1
    }

    fn lose(&mut self) {
        self.current = ptr::null_mut();
        self.entry = ptr::null_mut();
        self.label = Label::NONE;
    }
}

/// Whether the probe is installed.
pub fn is_installed() -> bool {
    EPOCH.load(Ordering::Relaxed) & 1 == 1
}

/// Begins (or ends) the probe's time; threads follow at their next switch.
pub fn set_installed(on: bool) {
    if is_installed() != on {
        EPOCH.fetch_add(1, Ordering::Relaxed);
    }
}

struct Definition(ffi::PyMethodDef);
// SAFETY: written once, at compile time.
unsafe impl Sync for Definition {}
static mut DEFINITION: Definition = Definition(ffi::PyMethodDef {
    ml_name: c"greenlane_switch_trace".as_ptr(),
    ml_meth: ffi::PyMethodDefPointer {
        PyCFunctionFast: on_switch,
    },
    ml_flags: ffi::METH_FASTCALL,
    ml_doc: ptr::null(),
});

/// Finds what the trace needs; false with a Python error set when something is missing. `hub_class` may be null.
pub fn load() -> bool {
    if !greenlets::load() {
        return false;
    }
    if !TRACE.load(Ordering::Relaxed).is_null() {
        return true;
    }
    // SAFETY: plain calls with the GIL; what is kept is never released.
    unsafe {
        let module = ffi::PyImport_ImportModule(c"greenlet".as_ptr());
        if module.is_null() {
            return false;
        }
        let settrace = ffi::PyObject_GetAttrString(module, c"settrace".as_ptr());
        let gettrace = ffi::PyObject_GetAttrString(module, c"gettrace".as_ptr());
        let trace = ffi::PyCFunction_NewEx(&raw mut DEFINITION.0, ptr::null_mut(), ptr::null_mut());
        ffi::Py_DECREF(module);
        if settrace.is_null() || gettrace.is_null() || trace.is_null() {
            return false;
        }
        SETTRACE.store(settrace, Ordering::Relaxed);
        GETTRACE.store(gettrace, Ordering::Relaxed);
        SWITCH.store(
            ffi::PyUnicode_InternFromString(c"switch".as_ptr()),
            Ordering::Relaxed,
        );
        THROW.store(
            ffi::PyUnicode_InternFromString(c"throw".as_ptr()),
            Ordering::Relaxed,
        );
        TRACE.store(trace, Ordering::Relaxed);
    }
    true
}

/// Says which class hubs are of. The class is kept for good.
pub fn know_hub(class: *mut ffi::PyTypeObject) {
    // SAFETY: a valid type, with the GIL.
    unsafe { ffi::Py_INCREF(class.cast()) };
    HUB_CLASS.store(class, Ordering::Relaxed);
}

fn is_hub(greenlet: *mut ffi::PyObject) -> bool {
    let class = HUB_CLASS.load(Ordering::Relaxed);
    // SAFETY: a valid object and a valid type.
    !class.is_null() && unsafe { ffi::PyObject_TypeCheck(greenlet, class) != 0 }
}

/// Sees to it that this thread's switches are traced. Cost when they are: a few ns.
///
/// `in_hub`: whether the hub calls it; else a greenlet that is about to wait in it. Threads without a hub stay untraced.
#[inline]
pub fn watch_from(in_hub: bool) {
    let hub = current_hub();
    // Who was told last that the hub runs, and is called from it, has missed nothing; and the other way round. Two waits
    // with no switch between them cannot be.
    hub.waits += 1;
    let missed = hub.in_hub() != in_hub || (!in_hub && hub.waits > 1);
    if missed || !hub.is_traced() || hub.generation != forks::generation() {
        hub.waits = 1;
        if missed && switch::on() && is_installed() {
            begin(greenlets::current());
        } else {
            watch();
        }
    }
}

/// The same, from wherever.
pub fn watch() {
    if !switch::on() || !is_installed() {
        return;
    }
    let hub = current_hub();
    let running = greenlets::current();
    if hub.is_traced() && hub.told == running {
        if hub.current != running || hub.generation != forks::generation() {
            hub.adopt(running, clock::monotonic_ns());
        }
        return;
    }
    begin(running);
}

#[cold]
fn begin(running: *mut ffi::PyObject) {
    let trace = TRACE.load(Ordering::Relaxed);
    if trace.is_null() {
        return;
    }
    // SAFETY: calls of greenlet's functions with the GIL; an error means that this thread stays untraced.
    unsafe {
        let standing = ffi::PyObject_CallNoArgs(GETTRACE.load(Ordering::Relaxed));
        if standing.is_null() {
            return ffi::PyErr_Clear();
        }
        if standing == trace || called_by(standing, trace) {
            ffi::Py_DECREF(standing);
        } else {
            set_trace(trace);
            let hub = current_hub();
            let former = std::mem::replace(&mut hub.next, ptr::null_mut());
            if standing == ffi::Py_None() {
                ffi::Py_DECREF(standing);
            } else {
                hub.next = standing;
            }
            ffi::Py_XDECREF(former);
        }
    }
    let epoch = EPOCH.load(Ordering::Relaxed);
    thread_state::enter_loop();
    self::current_hub().generation = forks::generation();
    let now_ns = clock::monotonic_ns();
    let hub = current_hub();
    hub.epoch = epoch;
    hub.told = running;
    hub.inside = false;
    hub.lose();
    hub.adopt(running, now_ns);
}

/// Whether `standing` is a trace function that has ours behind it, as gevent's own tracers do.
unsafe fn called_by(standing: *mut ffi::PyObject, trace: *mut ffi::PyObject) -> bool {
    // SAFETY: a valid object; the attribute is gevent's (`gevent._tracer.GreenletTracer`), its absence no error.
    unsafe {
        let behind = ffi::PyObject_GetAttrString(standing, c"previous_trace_function".as_ptr());
        if behind.is_null() {
            ffi::PyErr_Clear();
            return false;
        }
        ffi::Py_DECREF(behind);
        behind == trace
    }
}

unsafe fn set_trace(trace: *mut ffi::PyObject) {
    // SAFETY: greenlet's function takes one callable or None and gives back the former one.
    unsafe {
        let former = ffi::PyObject_CallOneArg(SETTRACE.load(Ordering::Relaxed), trace);
        if former.is_null() {
            ffi::PyErr_Clear();
        } else {
            ffi::Py_DECREF(former);
        }
    }
}

/// Takes the trace off this thread.
pub fn end() {
    let hub = current_hub();
    if hub.epoch & 1 == 0 {
        return;
    }
    hub.epoch = 0;
    hub.lose();
    hub.cause = Cause::NONE;
    thread_state::run_own(clock::monotonic_ns());
    greenlets::forget_thread(hub.thread);
    thread_state::leave_loop();
    // SAFETY: as in `begin`. A trace function over ours keeps calling ours; ours passes on to the one behind it.
    unsafe {
        let standing = ffi::PyObject_CallNoArgs(GETTRACE.load(Ordering::Relaxed));
        if standing.is_null() {
            return ffi::PyErr_Clear();
        }
        if standing == TRACE.load(Ordering::Relaxed) {
            let next = std::mem::replace(&mut self::current_hub().next, ptr::null_mut());
            if next.is_null() {
                set_trace(ffi::Py_None());
            } else {
                set_trace(next);
                ffi::Py_DECREF(next);
            }
        }
        ffi::Py_DECREF(standing);
    }
}

unsafe extern "C" fn on_switch(
    _nothing: *mut ffi::PyObject,
    arguments: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: CPython passes `count` valid objects.
    unsafe {
        if std::mem::replace(&mut current_hub().inside, true) {
            return ffi::Py_NewRef(ffi::Py_None());
        }
        if count == 2 {
            let event = *arguments;
            if event == SWITCH.load(Ordering::Relaxed) || event == THROW.load(Ordering::Relaxed) {
                let pair = *arguments.add(1);
                if ffi::PyTuple_CheckExact(pair) != 0 && ffi::PyTuple_GET_SIZE(pair) == 2 {
                    record_switch(
                        ffi::PyTuple_GET_ITEM(pair, 0),
                        ffi::PyTuple_GET_ITEM(pair, 1),
                    );
                }
            }
        }
        let hub = current_hub();
        let next = hub.next;
        if next.is_null() {
            hub.inside = false;
            return ffi::Py_NewRef(ffi::Py_None());
        }
        ffi::Py_INCREF(next);
        let result = ffi::PyObject_Vectorcall(next, arguments, count as usize, ptr::null_mut());
        ffi::Py_DECREF(next);
        let hub = self::current_hub();
        hub.inside = false;
        if result.is_null() {
            // As without us: who raises is not called again. greenlet takes us off too; `watch` puts us back.
            if hub.next == next {
                hub.next = ptr::null_mut();
                ffi::Py_DECREF(next);
            }
            hub.told = ptr::null_mut();
        }
        result
    }
}

fn record_switch(origin: *mut ffi::PyObject, target: *mut ffi::PyObject) {
    let hub = current_hub();
    hub.told = target;
    hub.waits = 0;
    if !hub.is_traced() {
        return end();
    }
    if !switch::on() {
        if !hub.current.is_null() {
            thread_state::run_own(clock::monotonic_ns());
            hub.lose();
        }
        return;
    }
    let now_ns = clock::monotonic_ns();
    if hub.current != origin || hub.generation != forks::generation() {
        if !greenlets::is_greenlet(origin) {
            return;
        }
        hub.adopt(origin, now_ns);
    }
    let from = hub.entry;
    if from.is_null() {
        return;
    }
    // SAFETY: entries and their units live until `forget`, which is called for the origin only, below.
    unsafe {
        let from_hub = (*from).is_hub;
        // Before the origin stops: whom it starts belongs to its job.
        let to = match greenlets::find(target) {
            Some(entry) => entry,
            None if greenlets::is_greenlet(target) => hub.meet(target),
            None => return hub.lose(),
        };
        let unit = (*from).unit;
        thread_state::suspend(unit, now_ns);
        if greenlets::is_over(origin) {
            greenlets::forget(origin);
        } else if !from_hub {
            (*from).label = hub.label;
            describe(&mut *unit, &hub.label);
        }
        hub.current = target;
        hub.entry = to;
        let unit = (*to).unit;
        if (*to).is_hub {
            // The hub waits for nobody: what it does between greenlets is its slice.
            (*unit).left_ns = 0;
        } else {
            hub.label = std::mem::replace(&mut (*to).label, Label::NONE);
            if from_hub {
                hub.explain(&mut *unit, now_ns);
            } else {
                thread_state::set_ready(&mut *unit, now_ns, now_ns, true);
            }
        }
        thread_state::resume(unit, now_ns);
    }
}

fn describe(unit: &mut Unit, label: &Label) {
    unit.kind = if label.kind == UNLABELLED {
        LOCK
    } else {
        label.kind
    };
    unit.call = label.call;
    unit.peer = label.peer;
}

impl CurrentHub {
    /// Says since when `unit`, which the hub runs now, could have run.
    fn explain(&self, unit: &mut Unit, now_ns: u64) {
        if self.label.kind == UNLABELLED && self.cause.class != 0 {
            (unit.kind, unit.call) = what_ends(self.cause.class);
        }
        if self.label.yields {
            thread_state::set_ready(unit, unit.left_ns, unit.left_ns, true);
        } else if self.cause.ready_ns != 0 && self.cause.ready_ns < unit.left_ns {
            thread_state::set_ready(unit, self.cause.seen_ns, self.cause.seen_ns, true);
        } else if self.cause.ready_ns != 0 {
            let exact = self.cause.known_ns == self.cause.ready_ns;
            thread_state::set_ready(unit, self.cause.known_ns, self.cause.ready_ns, exact);
        } else if self.label.due_ns != 0 && self.label.due_ns <= now_ns {
            let ready_ns = due(self.label.due_ns);
            thread_state::set_ready(unit, ready_ns, ready_ns, true);
        } else if let Some((known_ns, ready_ns)) = thread_state::poll_bracket() {
            // A poll before it left says nothing.
            if ready_ns > unit.left_ns {
                thread_state::set_ready(unit, known_ns, ready_ns, known_ns == ready_ns);
            }
        }
    }

    /// Takes `greenlet` for the one that has been running, whatever we knew before.
    fn adopt(&mut self, greenlet: *mut ffi::PyObject, now_ns: u64) {
        if self.generation != forks::generation() {
            // A forked child's thread starts again.
            self.generation = forks::generation();
            thread_state::enter_loop();
        }
        // SAFETY: no arguments; it cannot fail.
        self.thread = unsafe { libc::pthread_self() } as u64;
        if greenlet.is_null() {
            return self.lose();
        }
        let entry = greenlets::find(greenlet).unwrap_or_else(|| self.meet(greenlet));
        // SAFETY: a live entry, just found or made.
        unsafe {
            let unit = (*entry).unit;
            if thread_state::running_unit() != unit {
                (*unit).left_ns = 0;
                thread_state::resume(unit, now_ns);
            }
        }
        self.current = greenlet;
        self.entry = entry;
        self.label = Label::NONE;
    }

    /// Makes the entry of a greenlet that nobody has announced.
    fn meet(&self, greenlet: *mut ffi::PyObject) -> *mut Entry {
        if greenlets::is_main(greenlet) {
            if let Some(own) = thread_state::own_unit() {
                return greenlets::make_main(greenlet, own, self.thread);
            }
        }
        if is_hub(greenlet) {
            let name = crate::names::text("gevent hub");
            return greenlets::make(greenlet, UnitKind::Loop, name, NO_JOB, self.thread);
        }
        // What a timer starts (`spawn_later`) belongs to the job that set the timer.
        let job = match thread_state::running().1 {
            NO_JOB => greenlets::spawner_job(greenlet),
            job => job,
        };
        let name = greenlets::name_of(greenlet);
        greenlets::make(greenlet, UnitKind::Greenlet, name, job, self.thread)
    }

    /// Announces `greenlet`, which is about to be started by the running one.
    pub fn announce(&self, greenlet: *mut ffi::PyObject, now_ns: u64) {
        if greenlets::find(greenlet).is_some() {
            return;
        }
        let entry = self.meet(greenlet);
        // SAFETY: just made.
        unsafe {
            (*entry).spawned_ns = now_ns;
            (*(*entry).unit).left_ns = now_ns;
        }
    }
}

/// libev and libuv round a poll's time to milliseconds: a timer may be so much late with nobody to blame.
const GRAIN_NS: u64 = 1_500_000;

/// When a timer that was due at `due_ns` let its greenlet go: then, or when the poll that slept over it came back.
pub fn due(due_ns: u64) -> u64 {
    match thread_state::poll_bracket() {
        Some((known_ns, polled_ns))
            if known_ns == polled_ns && (due_ns..due_ns + GRAIN_NS).contains(&polled_ns) =>
        {
            polled_ns
        }
        _ => due_ns,
    }
}

/// When the running greenlet was made ready for the first time; 0 = unknown.
pub fn spawned_ns() -> u64 {
    let hub = current_hub();
    let foreign = hub.generation != forks::generation();
    if foreign || hub.entry.is_null() || !hub.is_traced() || hub.current != greenlets::current() {
        return 0;
    }
    // SAFETY: the entry of the running greenlet.
    unsafe { (*hub.entry).spawned_ns }
}
