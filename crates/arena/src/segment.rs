//! `greenlane._native.Segment` and `Block`: mapped memory files, and pieces of them that say when they are no longer used.

use super::mapping::{forks, Mapping};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyIndexError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::os::raw::c_int;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// Copies from this size on let other threads run: some 0.6 ms at memory's pace. Below, waiting for the GIL afterwards
/// costs more than the copy.
pub const LET_OTHERS_RUN_BYTES: usize = 16 << 20;

/// See `_native.pyi`.
#[pyclass(module = "greenlane._native", frozen)]
pub struct Segment {
    mapping: Arc<Mapping>,
    writable: bool,
}

#[pymethods]
impl Segment {
    #[new]
    #[pyo3(signature = (fd, *, writable))]
    fn new(fd: i32, writable: bool) -> PyResult<Self> {
        forks();
        let mapping = Mapping::new(fd, writable)?;
        Ok(Self {
            mapping: Arc::new(mapping),
            writable,
        })
    }

    #[getter]
    fn size(&self) -> usize {
        self.mapping.length()
    }

    fn write(&self, py: Python<'_>, offset: usize, buffer: PyBuffer<u8>) -> PyResult<()> {
        let length = buffer.len_bytes();
        let to = self.place(offset, length)? as usize;
        if !self.writable {
            return Err(PyBufferError::new_err("the segment is mapped read-only"));
        }
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("the buffer is not contiguous"));
        }
        let from = buffer.buf_ptr() as usize;
        // SAFETY: `to` has room for `length` bytes; `from` is kept by the buffer; a buffer inside the segment may overlap.
        let copy = move || unsafe { std::ptr::copy(from as *const u8, to as *mut u8, length) };
        if length < LET_OTHERS_RUN_BYTES {
            copy();
        } else {
            py.detach(copy);
        }
        Ok(())
    }

    fn load(&self, word: usize) -> PyResult<u64> {
        Ok(self.word(word)?.load(Ordering::Acquire))
    }

    fn store(&self, word: usize, value: u64) -> PyResult<()> {
        if !self.writable {
            return Err(PyBufferError::new_err("the segment is mapped read-only"));
        }
        self.word(word)?.store(value, Ordering::Release);
        Ok(())
    }

    fn part(&self, offset: usize, length: usize) -> PyResult<Block> {
        Block::new(&self.mapping, offset, length, self.writable, None)
            .ok_or_else(|| PyIndexError::new_err("not inside the segment"))
    }
}

impl Segment {
    pub fn mapping(&self) -> Arc<Mapping> {
        Arc::clone(&self.mapping)
    }

    pub fn is_writable(&self) -> bool {
        self.writable
    }

    fn place(&self, offset: usize, length: usize) -> PyResult<*mut u8> {
        self.mapping
            .place(offset, length)
            .ok_or_else(|| PyIndexError::new_err("not inside the segment"))
    }

    fn word(&self, word: usize) -> PyResult<&std::sync::atomic::AtomicU64> {
        self.mapping
            .word(word)
            .ok_or_else(|| PyIndexError::new_err("no such word in the segment"))
    }
}

/// See `_native.pyi`.
#[pyclass(module = "greenlane._native", frozen)]
pub struct Block {
    mapping: Arc<Mapping>,
    offset: usize,
    length: usize,
    writable: bool,
    /// The word that is set to 0 when it is no longer used.
    end: Option<(Arc<Mapping>, usize)>,
    forks: u64,
}

impl Block {
    /// A piece of a mapping; `end` = the word to set to 0 when it is no longer used, and the mapping that it is in. None
    /// if it is not inside, or there is no such word.
    ///
    /// After a fork of this process a child may look too: then the word stays as it is for ever.
    pub fn new(
        mapping: &Arc<Mapping>,
        offset: usize,
        length: usize,
        writable: bool,
        end: Option<(&Arc<Mapping>, usize)>,
    ) -> Option<Self> {
        mapping.place(offset, length)?;
        if let Some((flags, word)) = end {
            flags.word(word)?;
        }
        Some(Self {
            mapping: Arc::clone(mapping),
            offset,
            length,
            writable,
            end: end.map(|(flags, word)| (Arc::clone(flags), word)),
            forks: forks(),
        })
    }

    pub fn length(&self) -> usize {
        self.length
    }

    /// What lies there. The sender has written it, and leaves it alone while this block is in use.
    pub fn bytes(&self) -> &[u8] {
        match self.mapping.place(self.offset, self.length) {
            // SAFETY: inside the mapping, which the block holds.
            Some(place) => unsafe { std::slice::from_raw_parts(place, self.length) },
            None => &[],
        }
    }
}

#[pymethods]
impl Block {
    fn __len__(&self) -> usize {
        self.length
    }

    /// Views keep the block through `view.obj`; nothing has to be done when one is released.
    #[allow(clippy::needless_pass_by_value)] // The signature that PyO3 expects.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let block = slf.get();
        let Some(place) = block.mapping.place(block.offset, block.length) else {
            return Err(PyBufferError::new_err("not inside the segment"));
        };
        let length = ffi::Py_ssize_t::try_from(block.length).unwrap_or(ffi::Py_ssize_t::MAX);
        // SAFETY: `view` comes from the caller of the protocol; the memory lives as long as the block, which it holds.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                place.cast(),
                length,
                c_int::from(!block.writable),
                flags,
            )
        };
        if filled == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(slf.py()))
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // After a fork two processes look; neither knows of the other, so the memory is never used again.
        if let Some((flags, word)) = self.end.as_ref().filter(|_| self.forks == forks()) {
            if let Some(word) = flags.word(*word) {
                word.store(0, Ordering::Release);
            }
        }
    }
}
