//! `greenlane._native.Outbox`: the sending end between a worker and its parent.
//!
//! Large buffers are copied into blocks of the sender's segment; what finds no room there goes into a memory file of its
//! own, which the receiver unmaps when nobody looks into it any more. So room in the segment decides how fast, never
//! whether. A block belongs to its receiver until the last view of it is gone, which clears its flag; the sender takes
//! such blocks back when it next needs room. So a buffer may be kept for ever: it costs its own block.

use super::channel::Channel;
use super::letter::{Header, Place, INLINE_BYTES, PLACE_BYTES, SMALL_BYTES};
use super::mapping::Mapping;
use super::room::{aligned, Room};
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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See `_native.pyi`.
#[pyclass(module = "greenlane._native", frozen)]
pub struct Outbox {
    data: Arc<Mapping>,
    control: Arc<Mapping>,
    channel: Py<Channel>,
    files: Py<Channel>,
    new_file: Py<PyAny>,
    /// Held for book-keeping only: never while Python code runs.
    lent: Mutex<Lent>,
    lent_bytes: AtomicU64,
    overflows: AtomicU64,
    in_band: AtomicU64,
    out_of_band: AtomicU64,
}

struct Lent {
    room: Room,
    free_words: Vec<u32>,
    /// Flag word and offset of each block that the receiver may look into.
    blocks: Vec<(u32, usize)>,
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
    ) -> PyResult<Self> {
        if !data.is_writable() || !control.is_writable() {
            return Err(PyBufferError::new_err("the segment is mapped read-only"));
        }
        let lent = Lent {
            room: Room::new(data.mapping().length()),
            free_words: (words.0..words.1).rev().collect(),
            blocks: Vec::new(),
        };
        Ok(Self {
            data: data.mapping(),
            control: control.mapping(),
            channel,
            files,
            new_file,
            lent: Mutex::new(lent),
            lent_bytes: AtomicU64::new(0),
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
        self.lent_bytes.load(Ordering::Relaxed)
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
        let sum: usize = views.0.iter().map(|view| view.len as usize).sum();
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

    fn lent(&self) -> MutexGuard<'_, Lent> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees the blocks that the receiver has left.
    fn take_back(&self) {
        let Lent {
            room,
            free_words,
            blocks,
        } = &mut *self.lent();
        let mut back = 0;
        blocks.retain(|&(word, offset)| {
            let is_used =
                flag(&self.control, word).is_some_and(|it| it.load(Ordering::Acquire) != 0);
            if !is_used {
                back += room.give_back(offset);
                free_words.push(word);
            }
            is_used
        });
        self.lent_bytes.fetch_sub(back as u64, Ordering::Relaxed);
    }

    /// Gives a block, its flag set; None when there is no room or no flag.
    fn lend(&self, length: usize) -> Option<(u32, usize)> {
        let lent = &mut *self.lent();
        let word = *lent.free_words.last()?;
        let flag = flag(&self.control, word)?;
        let offset = lent.room.take(length)?;
        lent.free_words.pop();
        lent.blocks.push((word, offset));
        self.lent_bytes
            .fetch_add(aligned(length) as u64, Ordering::Relaxed);
        flag.store(1, Ordering::Release);
        Some((word, offset))
    }
}

fn flag(control: &Mapping, word: u32) -> Option<&AtomicU64> {
    control.word(word as usize)
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
    fn tail(&mut self, py: Python<'_>, text: &[u8], views: &Views) -> PyResult<Option<Tail>> {
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

    fn body(&mut self, py: Python<'_>, text: &[u8], views: &Views) -> Vec<u8> {
        let mut body = Vec::with_capacity(views.0.len() * PLACE_BYTES + 8 + text.len());
        for view in &views.0 {
            let bytes = view_bytes(view);
            let place = if bytes.len() < SMALL_BYTES {
                Place::Small {
                    length: bytes.len(),
                }
            } else {
                self.place(py, bytes)
            };
            body.extend_from_slice(&place.write());
        }
        body.extend_from_slice(&(text.len() as u64).to_le_bytes());
        body.extend_from_slice(text);
        for bytes in views.0.iter().map(view_bytes) {
            if bytes.len() < SMALL_BYTES {
                body.extend_from_slice(bytes);
            }
        }
        body
    }

    fn place(&mut self, py: Python<'_>, bytes: &[u8]) -> Place {
        let length = bytes.len();
        if let Some((word, offset)) = self.outbox.lend(length) {
            self.words.push(word);
            if let Some(to) = self.outbox.data.place(offset, length) {
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
            if let Some(flag) = flag(&self.outbox.control, word) {
                flag.store(0, Ordering::Release);
            }
        }
    }
}

/// The memory of Python buffers, held.
struct Views(Vec<ffi::Py_buffer>);

impl Views {
    fn of(buffers: &Bound<'_, PyList>) -> PyResult<Self> {
        let mut views = Self(Vec::with_capacity(buffers.len()));
        for buffer in buffers {
            let mut view = ffi::Py_buffer::new();
            // SAFETY: filled by the call if it succeeds, and given back on drop then only.
            if unsafe { ffi::PyObject_GetBuffer(buffer.as_ptr(), &mut view, ffi::PyBUF_SIMPLE) }
                != 0
            {
                return Err(PyErr::fetch(buffer.py()));
            }
            views.0.push(view);
        }
        Ok(views)
    }
}

impl Drop for Views {
    fn drop(&mut self) {
        for view in &mut self.0 {
            // SAFETY: got in `of`, and given back once; the GIL is held wherever views live.
            unsafe { ffi::PyBuffer_Release(view) };
        }
    }
}

fn view_bytes(view: &ffi::Py_buffer) -> &[u8] {
    if view.len <= 0 {
        return &[];
    }
    // SAFETY: a simple buffer is contiguous bytes, valid while the view is held.
    unsafe { slice::from_raw_parts(view.buf.cast(), view.len as usize) }
}
