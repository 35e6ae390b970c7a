//! Threads that still want the GIL when the interpreter ends.
//!
//! CPython before 3.14 ends them by `pthread_exit`, which unwinds their stacks, whatever lies there:
//!
//! - Rust refuses ("exception not rethrown"), and the process aborts;
//! - greenlet's C++ cleans up after a switch, with variables that another greenlet of the thread has overwritten since:
//!   some word of the process's memory is counted down ("corrupted double-linked list").
//!
//! From 3.14 on they hang until the process is gone. So do, with this, those that have our frames or greenlet's;
//! all others end as ever. PyO3 does so where it takes the GIL itself; this is for Python code that we, or a greenlet,
//! have called.

use greenlane_process::objects::{self, Object};
use greenlane_process::pages::{self, Pages};
use libc::{c_int, c_void};
use pyo3::prelude::*;
use pyo3::wrap_pyfunction;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// No stack is deeper; also the end of a walk that goes in circles.
const MOST_FRAMES: usize = 100_000;
/// What the file of greenlet's object is called, up to its suffix.
const GREENLET: &[u8] = b"_greenlet.";

/// Where an object lies, once [`guard`] has found it.
struct Place {
    from: AtomicUsize,
    to: AtomicUsize,
}

impl Place {
    const fn unknown() -> Self {
        Self {
            from: AtomicUsize::new(0),
            to: AtomicUsize::new(0),
        }
    }

    fn is(&self, span: &Range<usize>) {
        self.from.store(span.start, Ordering::Relaxed);
        self.to.store(span.end, Ordering::Relaxed);
    }

    fn contains(&self, address: usize) -> bool {
        (self.from.load(Ordering::Relaxed)..self.to.load(Ordering::Relaxed)).contains(&address)
    }
}

static OURS: Place = Place::unknown();
static GREENLETS: Place = Place::unknown();
static INTERPRETER: Place = Place::unknown();

/// The unwinder's, known by its address alone.
type Frame = c_void;
type Visit = unsafe extern "C" fn(*mut Frame, *mut c_void) -> c_int;

// Of the unwinder that every Rust program has.
extern "C" {
    fn _Unwind_Backtrace(visit: Visit, search: *mut c_void) -> c_int;
    fn _Unwind_GetIP(frame: *mut Frame) -> usize;
}

extern "C-unwind" {
    fn pthread_exit(value: *mut c_void) -> !;
}

/// Whether [`guard_endings`] is registered to run at exit.
static AT_EXIT: AtomicBool = AtomicBool::new(false);

/// Has the end of this interpreter guarded, if its CPython unwinds threads. Called before our first frame from
/// which Python code is called, or that a greenlet may leave standing. Cost: some ns when that was before.
#[inline]
pub fn guard_at_exit(py: Python<'_>) -> PyResult<()> {
    if AT_EXIT.load(Ordering::Relaxed) {
        return Ok(());
    }
    register(py)
}

#[cold]
fn register(py: Python<'_>) -> PyResult<()> {
    if py.version_info() < (3, 14) {
        let atexit = py.import("atexit")?;
        let guard = wrap_pyfunction!(guard_endings, py)?;
        // Importing may have let another thread come here.
        if !AT_EXIT.swap(true, Ordering::Relaxed) {
            atexit.call_method1("register", (guard,))?;
        }
    }
    AT_EXIT.store(true, Ordering::Relaxed);
    Ok(())
}

/// See `_native.pyi`.
#[pyfunction]
pub fn guard_endings() -> usize {
    guard()
}

/// Lets no thread with our frames or greenlet's be unwound from now on; for the end of the interpreter. Gives
/// how many of its calls lead here: none where it has been built in another way, and then all is as without us.
pub fn guard() -> usize {
    let mut pages = Pages::with_room();
    let mut slots = 0;
    objects::visit_all(&mut |object, _| {
        if object.contains(guard as *const () as usize) {
            OURS.is(&object.span());
        } else if object.contains(crate::address()) {
            INTERPRETER.is(&object.span());
            slots = redirect(object, &mut pages);
        } else if object.file_name().starts_with(GREENLET) {
            GREENLETS.is(&object.span());
        }
        true
    });
    slots
}

fn redirect(object: &Object<'_>, pages: &mut Pages) -> usize {
    let mut slots = 0;
    object.each_slot(&mut |slot| {
        if slot.name == c"pthread_exit" {
            // SAFETY: an aligned word in a loaded object's data, checked by `each_slot`; others read it whole.
            let place = unsafe { &*(slot.address as *const AtomicUsize) };
            let writable = pages.writable(slot.address);
            let to = ends as *const () as usize;
            slots += usize::from(writable.is_some_and(|now| pages::write_word(place, to, now)));
        }
    });
    slots
}

/// In the place of the interpreter's `pthread_exit`.
unsafe extern "C-unwind" fn ends(value: *mut c_void) -> ! {
    if must_not_be_unwound() {
        loop {
            // SAFETY: without arguments. A signal's handler makes it return.
            unsafe { libc::pause() };
        }
    }
    // SAFETY: as the interpreter called it.
    unsafe { pthread_exit(value) }
}

#[derive(Default)]
struct Search {
    frames: usize,
    /// Behind this module's own frames.
    in_interpreter: bool,
    found: bool,
}

/// Whether the calling thread, under the interpreter's call of us, has our frames or greenlet's.
fn must_not_be_unwound() -> bool {
    let mut search = Search::default();
    // SAFETY: the visitor gets a pointer to `search`, which outlives the walk.
    unsafe { _Unwind_Backtrace(visit, (&raw mut search).cast()) };
    search.found
}

/// Stops at the first frame that is looked for: behind greenlet's, the stack may be anybody's.
unsafe extern "C" fn visit(frame: *mut Frame, search: *mut c_void) -> c_int {
    const GO_ON: c_int = 0;
    const END: c_int = 4;
    // SAFETY: `search` is `must_not_be_unwound`'s, and the frame is the unwinder's, for this call.
    let (search, address) = unsafe { (&mut *search.cast::<Search>(), _Unwind_GetIP(frame)) };
    search.frames += 1;
    search.in_interpreter |= INTERPRETER.contains(address);
    search.found = GREENLETS.contains(address) || search.in_interpreter && OURS.contains(address);
    if search.found || search.frames > MOST_FRAMES {
        END
    } else {
        GO_ON
    }
}
