//! `greenlane._native.Channel`: one end of a pair of Unix sockets that carries whole messages and descriptors.
//!
//! Why not Python's socket: it gives up the GIL around calls that cannot block, and beside a thread that computes, each
//! time costs a switch interval to get it back.

use super::system::{interrupted, last_error, would_block};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io::{Error, Result};
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

/// Longest message. A pair's default buffer (212,992 bytes) holds several.
const MESSAGE_BYTES: usize = 64 << 10;

/// See `_native.pyi`.
#[pyclass(module = "greenlane._native", frozen)]
pub struct Channel {
    /// -1 = closed.
    fd: AtomicI32,
}

#[pymethods]
impl Channel {
    #[classattr]
    #[pyo3(name = "MESSAGE_BYTES")]
    fn message_bytes() -> usize {
        MESSAGE_BYTES
    }

    #[new]
    fn new(fd: i32) -> Self {
        Self {
            fd: AtomicI32::new(fd),
        }
    }

    #[staticmethod]
    fn pair() -> PyResult<(Self, Self)> {
        let mut fds = [0; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: room for two descriptors.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) } != 0 {
            return Err(last_error());
        }
        Ok((Self::new(fds[0]), Self::new(fds[1])))
    }

    pub fn fileno(&self) -> i32 {
        self.fd.load(Ordering::Relaxed)
    }

    fn send(&self, message: &[u8]) -> PyResult<bool> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        loop {
            // SAFETY: the message is valid for its length.
            let sent =
                unsafe { libc::send(self.fileno(), message.as_ptr().cast(), message.len(), flags) };
            match sent {
                0.. => return Ok(true),
                _ if would_block() => return Ok(false),
                _ if interrupted() => {}
                _ => return Err(last_error()),
            }
        }
    }

    fn receive<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut room = Room::new();
        let got = room.receive(self.fileno(), libc::MSG_DONTWAIT)?;
        Ok(got.map(|length| PyBytes::new(py, room.bytes(length))))
    }

    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut room = Room::new();
        let fd = self.fileno();
        let got = py.detach(|| room.receive(fd, 0))?;
        Ok(got.map(|length| PyBytes::new(py, room.bytes(length))))
    }

    pub fn send_fd(&self, fd: i32) -> PyResult<()> {
        let mut note = Note::new();
        // SAFETY: the header in `note` has room for one descriptor.
        let sent = unsafe {
            let header = libc::CMSG_FIRSTHDR(note.message());
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(mem::size_of::<i32>() as u32) as _;
            ptr::write_unaligned(libc::CMSG_DATA(header).cast::<i32>(), fd);
            libc::sendmsg(
                self.fileno(),
                note.message(),
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        if sent < 0 {
            return Err(last_error());
        }
        Ok(())
    }

    pub fn receive_fd(&self) -> PyResult<Option<i32>> {
        let mut note = Note::new();
        // SAFETY: the kernel writes at most what `note` has room for.
        unsafe {
            let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
            if libc::recvmsg(self.fileno(), note.message(), flags) < 0 {
                return if would_block() {
                    Ok(None)
                } else {
                    Err(last_error())
                };
            }
            let header = libc::CMSG_FIRSTHDR(note.message());
            if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
                return Ok(None);
            }
            Ok(Some(ptr::read_unaligned(
                libc::CMSG_DATA(header).cast::<i32>(),
            )))
        }
    }

    fn close(&self) {
        let fd = self.fd.swap(-1, Ordering::Relaxed);
        if fd >= 0 {
            // SAFETY: ours, and closed once.
            unsafe { libc::close(fd) };
        }
    }
}

impl Channel {
    /// Sends one message of two parts; see `send`.
    pub fn send_parts(&self, head: &[u8], tail: &[u8]) -> Result<bool> {
        let mut pieces = [head, tail].map(|part| libc::iovec {
            iov_base: part.as_ptr().cast_mut().cast(),
            iov_len: part.len(),
        });
        // SAFETY: all zero is a valid header.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_iov = pieces.as_mut_ptr();
        header.msg_iovlen = pieces.len() as _;
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        loop {
            // SAFETY: the kernel reads the parts, which are valid for their lengths.
            match unsafe { libc::sendmsg(self.fileno(), &raw const header, flags) } {
                0.. => return Ok(true),
                _ if would_block() => return Ok(false),
                _ if interrupted() => {}
                _ => return Err(Error::last_os_error()),
            }
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.close();
    }
}

/// Room for one message.
pub(crate) struct Room(MaybeUninit<[u8; MESSAGE_BYTES]>);

impl Room {
    pub fn new() -> Self {
        Self(MaybeUninit::uninit())
    }

    /// Receives a message and gives its length: None = there is none yet, or a signal came first; 0 = the other end is
    /// closed.
    pub fn receive(&mut self, fd: i32, flags: i32) -> Result<Option<usize>> {
        // SAFETY: the kernel writes at most the room's size and says how much.
        let got = unsafe { libc::recv(fd, self.0.as_mut_ptr().cast(), MESSAGE_BYTES, flags) };
        if let Ok(length) = usize::try_from(got) {
            return Ok(Some(length));
        }
        let error = Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Ok(None),
            // The other end closed without reading all: for us, closed.
            Some(libc::ECONNRESET) => Ok(Some(0)),
            _ => Err(error),
        }
    }

    /// The first bytes, as many as the last `receive` has given.
    pub fn bytes(&self, length: usize) -> &[u8] {
        let length = length.min(MESSAGE_BYTES);
        // SAFETY: written by the kernel, see `receive`.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), length) }
    }
}

/// A message of one byte with room for one descriptor beside it.
struct Note {
    header: libc::msghdr,
    _byte: Box<[u8; 1]>,
    _piece: Box<libc::iovec>,
    _beside: Box<[u64; 8]>,
}

impl Note {
    fn new() -> Self {
        let mut byte = Box::new([b'm'; 1]);
        let mut piece = Box::new(libc::iovec {
            iov_base: byte.as_mut_ptr().cast(),
            iov_len: 1,
        });
        let mut beside = Box::new([0u64; 8]);
        // SAFETY: all zero is a valid header; what it points to lives as long as the note, in boxes of its own.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_iov = &mut *piece;
        header.msg_iovlen = 1;
        header.msg_control = beside.as_mut_ptr().cast();
        // SAFETY: arithmetic only.
        header.msg_controllen = unsafe { libc::CMSG_SPACE(mem::size_of::<i32>() as u32) } as _;
        Self {
            header,
            _byte: byte,
            _piece: piece,
            _beside: beside,
        }
    }

    fn message(&mut self) -> *mut libc::msghdr {
        &mut self.header
    }
}
