//! `greenlane._native.Inbox`: the receiving end between a worker and its parent. See `outbox`.

use super::channel::{Channel, Room};
use super::letter::{number64, Header, Place, HEADER_BYTES, PLACE_BYTES};
use super::mapping::Mapping;
use super::segment::{Block, Segment};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyList};
use std::fs::File;
use std::io::Error;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// See `_native.pyi`.
#[pyclass(module = "greenlane._native", frozen)]
pub struct Inbox {
    data: Arc<Mapping>,
    control: Arc<Mapping>,
    commons: Option<Arc<Mapping>>,
    channel: Py<Channel>,
    files: Py<Channel>,
    /// Whether what is received can be written to.
    writable: bool,
    overflows: AtomicU64,
    in_band: AtomicU64,
    out_of_band: AtomicU64,
    /// Whether the last message came soon after it was waited for.
    soon: AtomicBool,
}

#[pymethods]
impl Inbox {
    #[new]
    fn new(
        data: &Segment,
        control: &Segment,
        channel: Py<Channel>,
        files: Py<Channel>,
        commons: Option<&Segment>,
    ) -> Self {
        Self {
            data: data.mapping(),
            control: control.mapping(),
            commons: commons.map(Segment::mapping),
            channel,
            files,
            writable: data.is_writable(),
            overflows: AtomicU64::new(0),
            in_band: AtomicU64::new(0),
            out_of_band: AtomicU64::new(0),
            soon: AtomicBool::new(false),
        }
    }

    #[getter]
    fn overflows(&self) -> u64 {
        self.overflows.load(Ordering::Relaxed)
    }

    #[getter]
    fn in_band_bytes(&self) -> u64 {
        self.in_band.load(Ordering::Relaxed)
    }

    #[getter]
    fn out_of_band_bytes(&self) -> u64 {
        self.out_of_band.load(Ordering::Relaxed)
    }

    fn receive<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mut room = Room::new();
        let got = room.receive(self.channel.get().fileno(), libc::MSG_DONTWAIT)?;
        got.map(|length| self.letter(py, room.bytes(length)))
            .transpose()
    }

    fn wait<'py>(&self, py: Python<'py>, spin_us: u64) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mut room = Room::new();
        let fd = self.channel.get().fileno();
        let spin = Duration::from_micros(spin_us);
        let got = py.detach(|| {
            let begun = Instant::now();
            if self.soon.load(Ordering::Relaxed) {
                while begun.elapsed() < spin {
                    if let Some(length) = room.receive(fd, libc::MSG_DONTWAIT)? {
                        return Ok(Some(length));
                    }
                    // The process that shares this core may be the one that is waited for.
                    std::thread::yield_now();
                }
            }
            let got = room.receive(fd, 0);
            // Being woken takes about as long as spinning is worth it.
            let soon = begun.elapsed() < 2 * spin;
            self.soon.store(soon, Ordering::Relaxed);
            got
        })?;
        got.map(|length| self.letter(py, room.bytes(length)))
            .transpose()
    }
}

impl Inbox {
    /// (kind, names `__main__`, call id, extra, pickle, buffers); False = the other end is closed.
    fn letter<'py>(&self, py: Python<'py>, message: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        if message.is_empty() {
            return Ok(PyBool::new(py, false).to_owned().into_any());
        }
        let header = Header::read(message).ok_or_else(malformed)?;
        let tail = &message[HEADER_BYTES..];
        let mut reading = Reading {
            inbox: self,
            file: None,
        };
        let (text, buffers) = if header.inline {
            reading.body(py, tail, header.buffers)?
        } else {
            let place = Place::read(tail, 0).ok_or_else(malformed)?;
            let block = reading.block(place)?;
            if header.buffers == 0 {
                let length = block.length();
                (
                    Body::Whole(Bound::new(py, block)?, length),
                    PyList::empty(py),
                )
            } else {
                // The block is left when all has been taken out of it.
                reading.body(py, block.bytes(), header.buffers)?
            }
        };
        self.overflows
            .fetch_add(u64::from(reading.file.is_some()), Ordering::Relaxed);
        self.in_band
            .fetch_add(text.length() as u64, Ordering::Relaxed);
        let letter = (
            header.kind,
            header.names_main,
            header.call_id,
            header.extra,
            text.into_any(),
            buffers,
        )
            .into_pyobject(py)?;
        Ok(letter.into_any())
    }
}

/// A pickle.
enum Body<'py> {
    Copied(Bound<'py, PyBytes>, usize),
    Whole(Bound<'py, Block>, usize),
}

impl<'py> Body<'py> {
    fn length(&self) -> usize {
        match self {
            Self::Copied(_, length) | Self::Whole(_, length) => *length,
        }
    }

    fn into_any(self) -> Bound<'py, PyAny> {
        match self {
            Self::Copied(bytes, _) => bytes.into_any(),
            Self::Whole(block, _) => block.into_any(),
        }
    }
}

/// The parts of one message.
struct Reading<'a> {
    inbox: &'a Inbox,
    file: Option<Arc<Mapping>>,
}

impl Reading<'_> {
    fn body<'py>(
        &mut self,
        py: Python<'py>,
        body: &[u8],
        count: u32,
    ) -> PyResult<(Body<'py>, Bound<'py, PyList>)> {
        let buffers = PyList::empty(py);
        if count == 0 {
            return Ok((Body::Copied(PyBytes::new(py, body), body.len()), buffers));
        }
        let count = count as usize;
        let at = count * PLACE_BYTES;
        let length = number64(body, at).ok_or_else(malformed)? as usize;
        let mut rest = &body[at + 8..];
        let text = taken(&mut rest, length)?;
        for number in 0..count {
            let place = Place::read(body, number * PLACE_BYTES).ok_or_else(malformed)?;
            if let Place::Small { length } = place {
                let bytes = taken(&mut rest, length)?;
                self.inbox
                    .out_of_band
                    .fetch_add(length as u64, Ordering::Relaxed);
                // Arrays on bytes are read-only, on a bytearray they are not: the small are as the large.
                if self.inbox.writable {
                    buffers.append(PyByteArray::new(py, bytes))?;
                } else {
                    buffers.append(PyBytes::new(py, bytes))?;
                }
                continue;
            }
            let block = self.block(place)?;
            self.inbox
                .out_of_band
                .fetch_add(block.length() as u64, Ordering::Relaxed);
            buffers.append(Bound::new(py, block)?)?;
        }
        Ok((Body::Copied(PyBytes::new(py, text), length), buffers))
    }

    fn block(&mut self, place: Place) -> PyResult<Block> {
        let inbox = self.inbox;
        let block = match place {
            Place::Block {
                word,
                offset,
                length,
            } => {
                let end = Some((&inbox.control, word as usize));
                Block::new(&inbox.data, offset, length, inbox.writable, end)
            }
            Place::File { offset, length } => {
                Block::new(self.opened_file()?, offset, length, inbox.writable, None)
            }
            Place::Common {
                word,
                offset,
                length,
            } => {
                let commons = inbox.commons.as_ref().ok_or_else(malformed)?;
                let end = Some((&inbox.control, word as usize));
                // Its owner's, who may use it again: nobody else writes to it.
                Block::new(commons, offset, length, false, end)
            }
            Place::Small { .. } => None,
        };
        block.ok_or_else(malformed)
    }

    fn opened_file(&mut self) -> PyResult<&Arc<Mapping>> {
        if self.file.is_none() {
            // A memory file is sent before the message that refers to it.
            let fd = self.inbox.files.get().receive_fd()?.ok_or_else(malformed)?;
            // SAFETY: a new descriptor, and ours.
            let file = unsafe { File::from_raw_fd(fd) };
            self.file = Some(Arc::new(Mapping::new(
                file.as_raw_fd(),
                self.inbox.writable,
            )?));
        }
        self.file.as_ref().ok_or_else(malformed)
    }
}

/// The next `length` bytes.
fn taken<'a>(rest: &mut &'a [u8], length: usize) -> PyResult<&'a [u8]> {
    let (bytes, after) = rest.split_at_checked(length).ok_or_else(malformed)?;
    *rest = after;
    Ok(bytes)
}

/// The other end has sent what it never would: it is damaged.
fn malformed() -> PyErr {
    Error::from_raw_os_error(libc::EBADMSG).into()
}
