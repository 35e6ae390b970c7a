//! gevent's classes, and the kinds of waits that their objects end.

use crate::names;
use greenlane_recording_format::event::Text;
use pyo3::ffi;

/// `phase.Kind`.
pub const SOCKET: u8 = 0;
pub const SLEEP: u8 = 4;
pub const LOCK: u8 = 5;
pub const QUEUE: u8 = 6;
pub const FUTURE: u8 = 7;
pub const PROCESS: u8 = 8;

/// What is known of gevent's classes, by address. Looked at with the GIL only.
pub struct Classes<T: Copy>(std::cell::UnsafeCell<[(usize, Option<T>); CLASSES]>);
// SAFETY: looked at with the GIL only.
unsafe impl<T: Copy> Sync for Classes<T> {}
const CLASSES: usize = 32;

impl<T: Copy> Classes<T> {
    pub const fn new() -> Self {
        Self(std::cell::UnsafeCell::new([(0, None); CLASSES]))
    }

    /// What `find` says of the class's name, asked once a class. A class's address may be another one's later: these
    /// are gevent's and live as long as the process, except those of tests.
    #[inline]
    pub fn get(&self, class: usize, find: fn(&str) -> T) -> T {
        // SAFETY: see `Sync`; nothing here calls Python.
        let known = unsafe { &mut *self.0.get() };
        let place = &mut known[(class >> 4) % CLASSES];
        match place {
            (at, Some(found)) if *at == class => *found,
            _ => {
                // SAFETY: the address of a class that lives, whose name is text.
                let name = unsafe {
                    std::ffi::CStr::from_ptr((*(class as *mut ffi::PyTypeObject)).tp_name)
                };
                let name = name.to_string_lossy();
                let found = find(name.rsplit('.').next().unwrap_or_default());
                *place = (class, Some(found));
                found
            }
        }
    }
}

/// The kind and name of a wait that a callback of an object of `class` ends.
pub fn what_ends(class: usize) -> (u8, Text) {
    static KNOWN: Classes<(u8, Text)> = Classes::new();
    KNOWN.get(class, |name| match name {
        "Waiter" | "MultipleWaiter" => (SLEEP, names::text("gevent.sleep")),
        "Semaphore" | "BoundedSemaphore" | "DummySemaphore" => {
            (LOCK, names::text("Semaphore.acquire"))
        }
        "AsyncResult" => (FUTURE, names::text("AsyncResult.get")),
        "Queue" | "SimpleQueue" | "LifoQueue" | "PriorityQueue" | "Channel" => {
            (QUEUE, names::text("Queue.get"))
        }
        "Greenlet" => (FUTURE, names::text("Greenlet.join")),
        name => (LOCK, names::text(name)),
    })
}
