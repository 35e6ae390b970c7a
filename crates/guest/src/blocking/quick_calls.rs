//! Socket calls that need no wait, made with the GIL kept; and those that wait, with one loss of the GIL in place of two.
//!
//! CPython releases the GIL around every system call: a request to an upstream over a connection of its own does so nine
//! times, and waits once. Beside a thread that computes each time costs two switches and up to an interval. With a time-out
//! CPython waits in one call and receives in a second one; here what has come is received once the GIL is had again.
//!
//! Each gives what the interpreter's own call would, or None: that call is to be made.

use crate::nonblocking_calls::{again, as_python, is_ready, keeps_the_gil, quick_fd};
use greenlane_methods::call::{Call, Function};
use greenlane_process::clock;
use pyo3::exceptions::PyTimeoutError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::ffi::{c_char, c_int};
use std::io::{self, ErrorKind};
use std::mem::{size_of, zeroed, MaybeUninit};
use std::net::Ipv4Addr;
use std::ptr;
use std::time::Duration;

/// Most bytes that are received with the GIL kept: copying them takes some tens of microseconds. Arbitrary.
const MOST: usize = 1 << 17;
/// Audit events, which a program may refuse.
const CONNECT: &std::ffi::CStr = c"socket.connect";
const LOOK_UP: &std::ffi::CStr = c"socket.getaddrinfo";

extern "C" {
    fn PySys_Audit(event: *const c_char, format: *const c_char, ...) -> c_int;
}

/// A call of a socket in a job whose calls are made at once where they can be.
pub struct Quick<'a, 'py> {
    call: &'a Call<'a>,
    socket: Borrowed<'a, 'py, PyAny>,
    fd: c_int,
}

impl<'a, 'py> Quick<'a, 'py> {
    /// None: the socket's own call is to be made.
    ///
    /// # Safety
    /// Within the call, on an attached thread.
    pub unsafe fn of(call: &'a Call<'a>) -> Option<Self> {
        // SAFETY: as promised; `this` lives as long as the call.
        let socket = unsafe { Borrowed::from_ptr(Python::assume_attached(), call.this) };
        let fd = quick_fd(&socket)?;
        (fd >= 0).then_some(Self { call, socket, fd })
    }

    fn py(&self) -> Python<'py> {
        self.socket.py()
    }

    /// `recv(size)`, or with `into` `recv_into(buffer)`.
    pub fn receives(&self, into: bool, gettimeout: &Function) -> Option<*mut PyObject> {
        if self.call.placed() != 1 || self.call.named() != 0 {
            return None;
        }
        let receive = || match into {
            true => self.received_into(),
            false => self.try_receive(),
        };
        match receive()? {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            came => return Some(into_result(self.py(), came)),
        }
        let until_ns = self.until_ns(gettimeout)?;
        match self.waits(libc::POLLIN, until_ns) {
            Ok(()) if quick_fd(&self.socket) == Some(self.fd) => match receive()? {
                Err(error) if error.kind() == ErrorKind::WouldBlock => None,
                came => Some(into_result(self.py(), came)),
            },
            Ok(()) => None,
            Err(error) => Some(raise(self.py(), error)),
        }
    }

    /// What `recv` would give; None: an odd size.
    fn try_receive(&self) -> Option<io::Result<Py<PyAny>>> {
        let size: usize = self.argument()?.extract().ok()?;
        if size == 0 || size > MOST {
            return None;
        }
        let mut place = Vec::<u8>::with_capacity(size);
        Some(self.receive(place.as_mut_ptr(), size).map(|came| {
            // SAFETY: this many bytes have been written.
            let bytes = unsafe { std::slice::from_raw_parts(place.as_ptr(), came) };
            pyo3::types::PyBytes::new(self.py(), bytes)
                .into_any()
                .unbind()
        }))
    }

    /// What `recv_into` would give; None: no plain buffer, for which the socket's own call has the words.
    fn received_into(&self) -> Option<io::Result<Py<PyAny>>> {
        let buffer = self.argument()?;
        let mut view = MaybeUninit::<ffi::Py_buffer>::zeroed();
        // SAFETY: `view` is filled by the first call, used while it is held, and released.
        unsafe {
            if ffi::PyObject_GetBuffer(buffer.as_ptr(), view.as_mut_ptr(), ffi::PyBUF_WRITABLE) != 0
            {
                ffi::PyErr_Clear();
                return None;
            }
            let mut view = view.assume_init();
            let size = view.len as usize;
            let plain = size > 0 && size <= MOST;
            let came = plain.then(|| self.receive(view.buf.cast(), size));
            ffi::PyBuffer_Release(&mut view);
            came.map(|came| {
                came.map(|count| {
                    let count = ffi::PyLong_FromSize_t(count);
                    Bound::from_owned_ptr(self.py(), count).unbind()
                })
            })
        }
    }

    fn receive(&self, place: *mut u8, size: usize) -> io::Result<usize> {
        // SAFETY: the kernel writes at most `size` bytes there, which the caller has room for.
        again(|| unsafe { libc::recv(self.fd, place.cast(), size, libc::MSG_DONTWAIT) })
    }

    fn argument(&self) -> Option<Borrowed<'_, 'py, PyAny>> {
        let argument = self.call.argument(0, None)?;
        // SAFETY: an argument of the call, which lives as long as it.
        Some(unsafe { Borrowed::from_ptr(self.py(), argument) })
    }

    /// When its time-out is over. None: it has none, and CPython loses the GIL once as it is; or it does not block.
    fn until_ns(&self, gettimeout: &Function) -> Option<u64> {
        // SAFETY: within the call; a new reference or null with an error set.
        let timeout = unsafe {
            let timeout = gettimeout.call(self.call.this, &[]);
            Bound::from_owned_ptr_or_err(self.py(), timeout).ok()?
        };
        let timeout_s: f64 = timeout.extract().ok()?;
        let timeout = Duration::try_from_secs_f64(timeout_s).ok()?;
        let timeout_ns = u64::try_from(timeout.as_nanos()).ok()?;
        (timeout_ns > 0).then(|| clock::monotonic_ns().saturating_add(timeout_ns))
    }

    /// Until one of `events`, without the GIL. Signals' handlers run meanwhile, and may raise.
    fn waits(&self, events: i16, until_ns: u64) -> PyResult<()> {
        let fd = self.fd;
        loop {
            let left_ms = until_ns
                .saturating_sub(clock::monotonic_ns())
                .div_ceil(1_000_000);
            let most_ms = c_int::try_from(left_ms).unwrap_or(c_int::MAX);
            match self.py().detach(move || is_ready(fd, events, most_ms)) {
                Ok(true) => return Ok(()),
                Ok(false) if clock::monotonic_ns() >= until_ns => {
                    return Err(PyTimeoutError::new_err("timed out"))
                }
                Ok(false) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    self.py().check_signals()?
                }
                Err(error) => return Err(as_python(error)),
            }
        }
    }

    /// `connect((host, port))` over IPv4 with a time-out.
    pub fn connects(&self, gettimeout: &Function) -> Option<*mut PyObject> {
        if self.call.placed() != 1 || self.call.named() != 0 {
            return None;
        }
        let to = self.argument()?;
        let (host, port): (String, u16) = to.extract().ok()?;
        let host: Ipv4Addr = host.parse().ok()?;
        let until_ns = self.until_ns(gettimeout)?;
        if self.option(libc::SO_DOMAIN) != Some(libc::AF_INET) {
            return None;
        }
        // SAFETY: two objects for two letters.
        let heard = unsafe {
            PySys_Audit(
                CONNECT.as_ptr(),
                c"OO".as_ptr(),
                self.call.this,
                to.as_ptr(),
            )
        };
        if heard < 0 {
            return Some(ptr::null_mut());
        }
        let connected = self.try_connect(host, port, until_ns);
        Some(into_result(self.py(), connected.map(|()| self.py().None())))
    }

    fn try_connect(&self, host: Ipv4Addr, port: u16, until_ns: u64) -> PyResult<()> {
        // SAFETY: plain data, of which zeros are a value.
        let mut to: libc::sockaddr_in = unsafe { zeroed() };
        to.sin_family = libc::AF_INET as libc::sa_family_t;
        to.sin_port = port.to_be();
        to.sin_addr.s_addr = u32::from(host).to_be();
        let size = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        // SAFETY: `to` lives as long as the call.
        let failed = unsafe { libc::connect(self.fd, (&raw const to).cast(), size) } != 0;
        if !failed {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINPROGRESS | libc::EINTR) => {}
            _ => return Err(as_python(error)),
        }
        let either = libc::POLLOUT | libc::POLLERR;
        if !is_ready(self.fd, either, 0)? {
            self.waits(either, until_ns)?;
        }
        match self.option(libc::SO_ERROR) {
            Some(0 | libc::EISCONN) => Ok(()),
            Some(number) => Err(as_python(io::Error::from_raw_os_error(number))),
            None => Err(as_python(io::Error::last_os_error())),
        }
    }

    /// `close()`: the socket gives its descriptor away, which is then closed. None where that may wait (SO_LINGER).
    pub fn closes(&self, detach: &Function) -> Option<*mut PyObject> {
        let mut linger = libc::linger {
            l_onoff: 0,
            l_linger: 0,
        };
        let mut size = size_of::<libc::linger>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `size` bytes into `linger`.
        let asked = unsafe {
            let place = (&raw mut linger).cast();
            libc::getsockopt(self.fd, libc::SOL_SOCKET, libc::SO_LINGER, place, &mut size)
        };
        if asked != 0 || linger.l_onoff != 0 {
            return None;
        }
        // SAFETY: within the call; the descriptor is ours from here on.
        unsafe {
            let given_away = detach.call(self.call.this, &[]);
            if given_away.is_null() {
                return Some(given_away);
            }
            ffi::Py_DECREF(given_away);
            if libc::close(self.fd) != 0 {
                let error = io::Error::last_os_error();
                // As CPython has it: the other side's reset is no error of closing.
                if error.raw_os_error() != Some(libc::ECONNRESET) {
                    return Some(raise(self.py(), as_python(error)));
                }
            }
        }
        Some(self.py().None().into_ptr())
    }

    fn option(&self, name: c_int) -> Option<c_int> {
        let mut value: c_int = 0;
        let mut size = size_of::<c_int>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `size` bytes into `value`.
        let failed = unsafe {
            let place = (&raw mut value).cast();
            libc::getsockopt(self.fd, libc::SOL_SOCKET, name, place, &mut size)
        };
        (failed == 0).then_some(value)
    }
}

/// `getaddrinfo` of an IPv4 address in its own notation, for a stream: what the C library would say, without its locks.
///
/// # Safety
/// Within the call, on an attached thread.
pub unsafe fn looks_up(call: &Call<'_>) -> Option<*mut PyObject> {
    if call.placed() != 6 || call.named() != 0 || !keeps_the_gil() {
        return None;
    }
    // SAFETY: as promised; arguments live as long as the call.
    unsafe {
        let py = Python::assume_attached();
        let argument = |at| {
            call.argument(at, None)
                .map(|one| Borrowed::from_ptr(py, one))
        };
        let number = |at| argument(at)?.extract::<i32>().ok();
        let (host, port) = (argument(0)?, argument(1)?);
        let named: String = host.extract().ok()?;
        let asked = [number(2)?, number(3)?, number(4)?, number(5)?];
        let plain = matches!(
            asked,
            [libc::AF_UNSPEC | libc::AF_INET, libc::SOCK_STREAM, 0, 0]
        );
        if !plain || named.parse::<Ipv4Addr>().is_err() {
            return None;
        }
        let port_number: u16 = port.extract().ok()?;
        let heard = PySys_Audit(
            LOOK_UP.as_ptr(),
            c"OOiii".as_ptr(),
            host.as_ptr(),
            port.as_ptr(),
            asked[0],
            asked[1],
            asked[2],
        );
        if heard < 0 {
            return Some(ptr::null_mut());
        }
        let row = (
            libc::AF_INET,
            libc::SOCK_STREAM,
            libc::IPPROTO_TCP,
            "",
            (named, port_number),
        );
        Some(into_result(
            py,
            Ok::<_, PyErr>(vec![row])
                .and_then(|rows| rows.into_pyobject(py).map(|list| list.into_any().unbind())),
        ))
    }
}

fn into_result<E: Into<Raised>>(py: Python<'_>, result: Result<Py<PyAny>, E>) -> *mut PyObject {
    match result {
        Ok(object) => object.into_ptr(),
        Err(error) => raise(py, error.into().0),
    }
}

struct Raised(PyErr);

impl From<PyErr> for Raised {
    fn from(error: PyErr) -> Self {
        Self(error)
    }
}

impl From<io::Error> for Raised {
    fn from(error: io::Error) -> Self {
        Self(as_python(error))
    }
}

fn raise(py: Python<'_>, error: PyErr) -> *mut PyObject {
    error.restore(py);
    ptr::null_mut()
}
