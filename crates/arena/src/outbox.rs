//! `greenlane._native.Outbox`: the sending end between a worker and its parent.
//!
//! Large buffers are copied into blocks of the sender's segment; what finds no room there goes into a memory file of its
//! own, which the receiver unmaps when it is no longer used. So room in the segment decides how fast, never
//! whether. A block belongs to its receiver until the last view of it is gone, which clears its flag; the sender takes
//! such blocks back when it next needs room. So a buffer may be kept for ever: it costs its own block.

use super::channel::Channel;
use super::lender::Lender;
use super::letter::{Header, Place, INLINE_BYTES, PLACE_BYTES, SMALL_BYTES};
use super::mapping::Mapping;
use super::room::aligned;
use super::segment::{Segment, LET_OTHERS_RUN_BYTES};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// See `_native.pyi`.
#[pyclass(module = "greenlane._native", frozen)]
pub struct Outbox {
    lender: Lender,
    /// Memory that the other side has mapped, too: what lies there is not copied.
    commons: Option<Arc<Mapping>>,
    /// What lies there and is in use on the other side, with its flag.
    kept: Mutex<Vec<(u32, Py<PyAny>)>>,
    channel: Py<Channel>,
    files: Py<Channel>,
    new_file: Py<PyAny>,
    overflows: AtomicU64,
    in_band: AtomicU64,
    out_of_band: AtomicU64,
}

#[pymethods]
impl Outbox {
    #[new]
    fn new(
        data: &Segment,
        control: &Segment,
        words: (u32, u32),
        channel: Py<Channel>,
        files: Py<Channel>,
        new_file: Py<PyAny>,
        commons: Option<&Segment>,
    ) -> PyResult<Self> {
        if !data.is_writable() || !control.is_writable() {
            return Err(PyBufferError::new_err("the segment is mapped read-only"));
        }
        Ok(Self {
            lender: Lender::new(data.mapping(), control.mapping(), words),
            commons: commons.map(Segment::mapping),
            kept: Mutex::new(Vec::new()),
            channel,
            files,
            new_file,
            overflows: AtomicU64::new(0),
            in_band: AtomicU64::new(0),
            out_of_band: AtomicU64::new(0),
        })
    }

    #[getter]
    fn overflows(&self) -> u64 {
        self.overflows.load(Ordering::Relaxed)
    }

    #[getter]
    fn lent_bytes(&self) -> u64 {
        self.lender.lent_bytes()
    }

    fn take_back(&self) {
        self.lender.take_back();
        let mut left = Vec::new();
        {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let mut at = 0;
            while at < kept.len() {
                if self.lender.is_set(kept[at].0) {
                    at += 1;
                } else {
                    left.push(kept.swap_remove(at));
                }
            }
        }
        for (word, array) in left {
            self.lender.flag_back(word);
            drop(array);
        }
    }

    #[getter]
    fn in_band_bytes(&self) -> u64 {
        self.in_band.load(Ordering::Relaxed)
    }

    #[getter]
    fn out_of_band_bytes(&self) -> u64 {
        self.out_of_band.load(Ordering::Relaxed)
    }

    #[pyo3(signature = (kind, call_id, extra, text, buffers, *, names_main=false, clear=false))]
    #[allow(clippy::too_many_arguments)] // What a message is made of.
    fn send(
        &self,
        py: Python<'_>,
        kind: u8,
        call_id: u64,
        extra: u64,
        text: &Bound<'_, PyBytes>,
        buffers: &Bound<'_, PyList>,
        names_main: bool,
        clear: bool,
    ) -> PyResult<bool> {
        let text = text.as_bytes();
        let mut header = Header {
            kind,
            inline: true,
            names_main,
            buffers: 0,
            call_id,
            extra,
        };
        self.in_band.fetch_add(text.len() as u64, Ordering::Relaxed);
        if buffers.is_empty() && text.len() <= INLINE_BYTES {
            return Ok(self.to_channel(header, text));
        }
        let views = Views::of(buffers)?;
        header.buffers = views.0.len() as u32;
        let mut placing = Placing::new(self);
        let tail = match placing.tail(py, text, &views) {
            Ok(Some(tail)) => tail,
            not_sent => {
                placing.undo();
                return not_sent.map(|_| false);
            }
        };
        header.inline = tail.inline;
        let sum: usize = views.0.iter().map(|view| view.bytes().len()).sum();
        self.out_of_band.fetch_add(sum as u64, Ordering::Relaxed);
        drop(views);
        if clear {
            buffers.del_slice(0, buffers.len())?;
        }
        Ok(self.to_channel(header, &tail.bytes))
    }
}

impl Outbox {
    /// False = the other end is gone, or damaged.
    fn to_channel(&self, header: Header, tail: &[u8]) -> bool {
        let sent = self.channel.get().send_parts(&header.write(), tail);
        sent.unwrap_or(false)
    }

    /// The flag and the offset of what lies in the commons, kept until the other side has left it; None = it does not.
    fn shared(&self, bytes: &[u8], owner: &Bound<'_, PyAny>) -> Option<(u32, usize)> {
        let offset = self.commons.as_ref()?.offset_of(bytes)?;
        let word = self.lender.lend_flag()?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push((word, owner.clone().unbind()));
        Some((word, offset))
    }
}

/// What stands in the message after its header.
struct Tail {
    inline: bool,
    bytes: Vec<u8>,
}

/// Where the parts of one message go.
struct Placing<'a> {
    outbox: &'a Outbox,
    words: Vec<u32>,
    /// What found no room: its offset in the file, address, length.
    rest: Vec<(usize, usize, usize)>,
    rest_bytes: usize,
}

impl<'a> Placing<'a> {
    fn new(outbox: &'a Outbox) -> Self {
        Self {
            outbox,
            words: Vec::new(),
            rest: Vec::new(),
            rest_bytes: 0,
        }
    }

    /// Puts everything where the receiver finds it; None = it is gone.
    fn tail(&mut self, py: Python<'_>, text: &[u8], views: &Views<'_>) -> PyResult<Option<Tail>> {
        self.outbox.take_back();
        let made;
        let body = if views.0.is_empty() {
            text
        } else {
            made = self.body(py, text, views);
            &made
        };
        let inline = body.len() <= INLINE_BYTES;
        let bytes = if inline {
            body.to_vec()
        } else {
            self.place(py, body).write().to_vec()
        };
        // The addresses of `rest` are those of `views` and `body`.
        let sent = self.send_file(py)?;
        Ok(sent.then_some(Tail { inline, bytes }))
    }

    fn body(&mut self, py: Python<'_>, text: &[u8], views: &Views<'_>) -> Vec<u8> {
        let mut body = Vec::with_capacity(views.0.len() * PLACE_BYTES + 8 + text.len());
        for view in &views.0 {
            let bytes = view.bytes();
            let length = bytes.len();
            let place = if length < SMALL_BYTES {
                Place::Small { length }
            } else if let Some((word, offset)) = self.outbox.shared(bytes, &view.owner) {
                self.words.push(word);
                Place::Common {
                    word,
                    offset,
                    length,
                }
            } else {
                self.place(py, bytes)
            };
            body.extend_from_slice(&place.write());
        }
        body.extend_from_slice(&(text.len() as u64).to_le_bytes());
        body.extend_from_slice(text);
        for bytes in views.0.iter().map(View::bytes) {
            if bytes.len() < SMALL_BYTES {
                body.extend_from_slice(bytes);
            }
        }
        body
    }

    fn place(&mut self, py: Python<'_>, bytes: &[u8]) -> Place {
        let length = bytes.len();
        if let Some((word, offset)) = self.outbox.lender.lend(length) {
            self.words.push(word);
            if let Some(to) = self.outbox.lender.data.place(offset, length) {
                let to = to as usize;
                // SAFETY: `to` has room for `length` bytes that nobody else has; what is sent may lie in the segment.
                let copy = || unsafe { ptr::copy(bytes.as_ptr(), to as *mut u8, length) };
                if length < LET_OTHERS_RUN_BYTES {
                    copy();
                } else {
                    py.detach(copy);
                }
            }
            return Place::Block {
                word,
                offset,
                length,
            };
        }
        let offset = self.rest_bytes;
        self.rest.push((offset, bytes.as_ptr() as usize, length));
        self.rest_bytes += aligned(length);
        Place::File { offset, length }
    }

    /// False = the receiver is gone.
    fn send_file(&self, py: Python<'_>) -> PyResult<bool> {
        if self.rest.is_empty() {
            return Ok(true);
        }
        self.outbox.overflows.fetch_add(1, Ordering::Relaxed);
        let made = self.outbox.new_file.bind(py).call1((self.rest_bytes,))?;
        // SAFETY: a new descriptor, and ours; closed here however this ends.
        let file = unsafe { File::from_raw_fd(made.extract()?) };
        py.detach(|| {
            self.rest.iter().try_for_each(|&(offset, address, length)| {
                // SAFETY: the buffers are held by the caller until all is written.
                let bytes = unsafe { slice::from_raw_parts(address as *const u8, length) };
                file.write_all_at(bytes, offset as u64)
            })
        })?;
        Ok(self.outbox.files.get().send_fd(file.as_raw_fd()).is_ok())
    }

    /// Says that the receiver will never see these blocks.
    fn undo(&self) {
        for &word in &self.words {
            self.outbox.lender.clear(word);
        }
    }
}

/// The memory of Python buffers, held.
struct Views<'py>(Vec<View<'py>>);

struct View<'py> {
    owner: Bound<'py, PyAny>,
    buffer: ffi::Py_buffer,
}

impl<'py> Views<'py> {
    fn of(buffers: &Bound<'py, PyList>) -> PyResult<Self> {
        let mut views = Self(Vec::with_capacity(buffers.len()));
        for owner in buffers {
            let mut buffer = ffi::Py_buffer::new();
            // SAFETY: filled by the call if it succeeds, and given back on drop then only.
            let got =
                unsafe { ffi::PyObject_GetBuffer(owner.as_ptr(), &mut buffer, ffi::PyBUF_SIMPLE) };
            if got != 0 {
                return Err(PyErr::fetch(owner.py()));
            }
            views.0.push(View { owner, buffer });
        }
        Ok(views)
    }
}

impl View<'_> {
    fn bytes(&self) -> &[u8] {
        let length = usize::try_from(self.buffer.len).unwrap_or(0);
        if length == 0 {
            return &[];
        }
        // SAFETY: a simple buffer is contiguous bytes, valid while it is held.
        unsafe { slice::from_raw_parts(self.buffer.buf.cast(), length) }
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        // SAFETY: got in `of`, and given back once; the GIL is held wherever views live.
        unsafe { ffi::PyBuffer_Release(&mut self.buffer) };
    }
}
