//! System calls that cannot block, made without releasing the GIL.
//!
//! CPython releases it around each of them. Where other threads want it that is a hand-over and one back, some 10 us
//! of switches for a call of 2 us, and the caller waits for its turn.

use greenlane_permits::job::Job;
use greenlane_permits::running;
use greenlane_recorder::switch;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;

/// Most bytes that `recv_now` gives (they are on the stack first) and `send_at_once` takes.
const MOST: usize = 16 * 1024;
/// `_socket.socket`'s `family` and `fileno`, to be called with a socket.
static ASKS: PyOnceLock<(Py<PyAny>, Py<PyAny>)> = PyOnceLock::new();

/// See `_native.pyi`.
#[pyfunction]
pub fn recv_now(py: Python<'_>, fd: i32) -> PyResult<Bound<'_, PyBytes>> {
    let mut place = [const { MaybeUninit::<u8>::uninit() }; MOST];
    // SAFETY: the kernel writes at most MOST bytes into `place`.
    let size =
        again(|| unsafe { libc::recv(fd, place.as_mut_ptr().cast(), MOST, libc::MSG_DONTWAIT) })
            .map_err(as_python)?;
    // SAFETY: this many bytes have been written.
    let came = unsafe { std::slice::from_raw_parts(place.as_ptr().cast::<u8>(), size) };
    Ok(PyBytes::new(py, came))
}

/// See `_native.pyi`.
#[pyfunction]
pub fn send_now(fd: i32, data: &[u8]) -> PyResult<usize> {
    send(fd, data, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL).map_err(as_python)
}

/// See `_native.pyi`.
#[pyfunction]
pub fn send_at_once(socket: &Bound<'_, PyAny>, data: &[u8]) -> PyResult<usize> {
    // An empty datagram is one: 0 would have it sent twice.
    let wanted = !data.is_empty() && data.len() <= MOST;
    let Some(fd) = Some(socket).filter(|_| wanted).and_then(quick_fd) else {
        return Ok(0);
    };
    // A broken pipe signals, as with the interpreter's own call: whether that matters is the guest's choice.
    match send(fd, data, libc::MSG_DONTWAIT) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        sent => sent.map_err(as_python),
    }
}

/// Whether calls that cannot block are made with the GIL kept: in a job under permits. A recording is to see each call,
/// and does not.
pub fn keeps_the_gil() -> bool {
    !switch::on() && running::has_job_that(Job::keeps_the_gil)
}

/// The descriptor of one of the interpreter's sockets, where its calls are made with the GIL kept if they need no wait:
/// its family's wait for nothing but room and data (netlink's wait for locks of the kernel).
///
/// Asked of the C class, as its own calls do: a guest's class may have a `fileno` that means something else. And asked
/// here: between two calls of Python code another thread may close the socket and open one with the same number.
pub fn quick_fd(socket: &Bound<'_, PyAny>) -> Option<i32> {
    if !keeps_the_gil() {
        return None;
    }
    let py = socket.py();
    let asks = || {
        let class = py.import("_socket")?.getattr("socket")?;
        let family = class.getattr("family")?.getattr("__get__")?;
        Ok::<_, PyErr>((family.unbind(), class.getattr("fileno")?.unbind()))
    };
    let (family, fileno) = ASKS.get_or_try_init(py, asks).ok()?;
    let family: i32 = family.call1(py, (socket,)).ok()?.extract(py).ok()?;
    if ![libc::AF_INET, libc::AF_INET6, libc::AF_UNIX].contains(&family) {
        return None;
    }
    fileno.call1(py, (socket,)).ok()?.extract(py).ok()
}

fn send(fd: i32, data: &[u8], flags: libc::c_int) -> io::Result<usize> {
    // SAFETY: `data` lives as long as the call.
    again(|| unsafe { libc::send(fd, data.as_ptr().cast(), data.len(), flags) })
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (epoll_fd, fd, events, *, known=true))]
pub fn rearm_now(epoll_fd: i32, fd: i32, events: u32, known: bool) -> PyResult<()> {
    let mut event = libc::epoll_event {
        events,
        u64: fd as u32 as u64,
    };
    let what = match (known, events) {
        (false, _) => libc::EPOLL_CTL_ADD,
        (true, 0) => libc::EPOLL_CTL_DEL,
        (true, _) => libc::EPOLL_CTL_MOD,
    };
    // SAFETY: `event` lives as long as the call.
    again(|| unsafe { libc::epoll_ctl(epoll_fd, what, fd, &mut event) as isize })
        .map_err(as_python)?;
    Ok(())
}

/// See `_native.pyi`.
#[pyfunction]
pub fn readable_now(fd: i32) -> PyResult<bool> {
    is_ready(fd, libc::POLLIN, 0).map_err(as_python)
}

/// Whether one of `events` is there within this many milliseconds.
pub fn is_ready(fd: i32, events: i16, most_ms: i32) -> io::Result<bool> {
    let mut asked = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: `asked` lives as long as the call.
    match unsafe { libc::poll(&mut asked, 1, most_ms) } {
        0 => Ok(false),
        count if count > 0 => Ok(true),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The call's result, after as many tries as signals came in between.
pub fn again(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        if let Ok(result) = usize::try_from(call()) {
            return Ok(result);
        }
        let error = io::Error::last_os_error();
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// As the interpreter raises it: the subclass of OSError that the number is for.
pub fn as_python(error: io::Error) -> PyErr {
    let number = error.raw_os_error().unwrap_or(0);
    let text = error.to_string();
    let text = text
        .split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned();
    PyOSError::new_err((number, text))
}
