//! Stored values as they come from Redis: a list of bytes and None, fetched replies, or whole records in
//! one buffer.

use feed_core::layout::RECORD_BYTES;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::fetching::{Fetched, Held};

/// Keeps the objects alive while their bytes are read without the GIL.
pub enum Values<'py> {
    /// One value an item, None where the store had none.
    List(Vec<Option<Bound<'py, PyBytes>>>),
    /// Packed records of the present version, one behind the other.
    Whole(PyUntypedBuffer),
    /// What was fetched with `Asking`.
    Fetched(Held<'py>),
}

impl<'py> FromPyObject<'_, 'py> for Values<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(list) = object.cast::<PyList>() {
            let taken = |value: Bound<'py, PyAny>| match value.is_none() {
                true => Ok(None),
                false => Ok(Some(value.cast_into::<PyBytes>()?)),
            };
            return list
                .iter()
                .map(taken)
                .collect::<PyResult<_>>()
                .map(Self::List);
        }
        if let Ok(fetched) = object.cast::<Fetched>() {
            return Held::new(fetched.to_owned()).map(Self::Fetched);
        }
        PyUntypedBuffer::get(&object).map(Self::Whole)
    }
}

impl Values<'_> {
    /// What native code reads; valid as long as this lives.
    pub fn slices(&self) -> PyResult<Vec<Option<&[u8]>>> {
        match self {
            Self::List(values) => Ok(values
                .iter()
                .map(|value| value.as_ref().map(|bytes| bytes.as_bytes()))
                .collect()),
            Self::Fetched(held) => Ok(held.slices()),
            Self::Whole(buffer) => {
                let bytes = buffer.len_bytes();
                if bytes % RECORD_BYTES != 0 || !buffer.is_c_contiguous() {
                    return Err(PyValueError::new_err(format!(
                        "reading records: {bytes} bytes, expected a whole number of {RECORD_BYTES}"
                    )));
                }
                // SAFETY: contiguous, and the buffer is held. Who writes to it meanwhile gets features of torn records,
                // as with any array that is handed to native code.
                let all =
                    unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>(), bytes) };
                Ok(all.chunks_exact(RECORD_BYTES).map(Some).collect())
            }
        }
    }
}
