//! `greenlane._native.Poll`: an epoll set, also where gevent has taken Python's away.

use super::system::{interrupted, last_error};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicI32, Ordering};

/// Most descriptors that one wait gives; the others come with the next.
const AT_ONCE: usize = 64;

/// See `_native.pyi`.
#[pyclass(module = "greenlane._native", frozen)]
pub struct Poll {
    /// -1 = closed.
    fd: AtomicI32,
}

#[pymethods]
impl Poll {
    #[new]
    fn new() -> PyResult<Self> {
        // SAFETY: no pointers.
        match unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } {
            -1 => Err(last_error()),
            fd => Ok(Self {
                fd: AtomicI32::new(fd),
            }),
        }
    }

    fn fileno(&self) -> i32 {
        self.fd.load(Ordering::Relaxed)
    }

    fn add(&self, fd: i32) -> PyResult<()> {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: fd as u64,
        };
        // SAFETY: the event is read during the call only.
        if unsafe { libc::epoll_ctl(self.fileno(), libc::EPOLL_CTL_ADD, fd, &mut event) } != 0 {
            return Err(last_error());
        }
        Ok(())
    }

    /// A descriptor that is not in the set is no error: a closed one left by itself.
    fn remove(&self, fd: i32) {
        // SAFETY: no event is read for a removal.
        unsafe { libc::epoll_ctl(self.fileno(), libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
    }

    fn ready(&self) -> PyResult<Vec<i32>> {
        wait(self.fileno(), 0)
    }

    fn wait(&self, py: Python<'_>, timeout_ms: i32) -> PyResult<Vec<i32>> {
        let fd = self.fileno();
        py.detach(|| wait(fd, timeout_ms))
    }

    fn close(&self) {
        let fd = self.fd.swap(-1, Ordering::Relaxed);
        if fd >= 0 {
            // SAFETY: ours, and closed once.
            unsafe { libc::close(fd) };
        }
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        self.close();
    }
}

fn wait(fd: i32, timeout_ms: i32) -> PyResult<Vec<i32>> {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; AT_ONCE];
    // SAFETY: room for AT_ONCE events.
    let got = unsafe { libc::epoll_wait(fd, events.as_mut_ptr(), AT_ONCE as i32, timeout_ms) };
    match usize::try_from(got) {
        Ok(got) => Ok(events[..got].iter().map(|event| event.u64 as i32).collect()),
        Err(_) if interrupted() => Ok(Vec::new()),
        Err(_) => Err(last_error()),
    }
}
