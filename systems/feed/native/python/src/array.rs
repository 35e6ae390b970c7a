//! Numbers that NumPy and CatBoost read in place, through the buffer protocol.

use std::ffi::{c_int, CStr};
use std::ptr;

use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

/// One column of numbers, or a column-major matrix of float32.
#[pyclass(frozen)]
pub struct Array {
    numbers: Numbers,
    /// Rows, and columns when it is a matrix.
    shape: Vec<ffi::Py_ssize_t>,
    strides: Vec<ffi::Py_ssize_t>,
}

enum Numbers {
    F32(Vec<f32>),
    F64(Vec<f64>),
    U32(Vec<u32>),
}

impl Array {
    /// A matrix with this number of rows.
    pub fn columns(numbers: Vec<f32>, rows: usize) -> Self {
        let columns = numbers
            .len()
            .checked_div(rows)
            .unwrap_or(feed_core::layout::FEATURE_COUNT);
        let bytes = size_of::<f32>();
        Self {
            numbers: Numbers::F32(numbers),
            shape: vec![rows as isize, columns as isize],
            strides: vec![bytes as isize, (rows * bytes) as isize],
        }
    }

    /// The numbers of a matrix, column after column.
    pub fn float32(&self) -> PyResult<&[f32]> {
        match &self.numbers {
            Numbers::F32(numbers) => Ok(numbers),
            _ => Err(PyValueError::new_err(
                "predicting: an array of other numbers, expected float32",
            )),
        }
    }

    fn line(numbers: Numbers) -> Self {
        let (count, size) = (numbers.count(), numbers.size());
        Self {
            numbers,
            shape: vec![count as isize],
            strides: vec![size as isize],
        }
    }
}

impl From<Vec<f64>> for Array {
    fn from(numbers: Vec<f64>) -> Self {
        Self::line(Numbers::F64(numbers))
    }
}

impl From<Vec<u32>> for Array {
    fn from(numbers: Vec<u32>) -> Self {
        Self::line(Numbers::U32(numbers))
    }
}

impl Numbers {
    fn count(&self) -> usize {
        match self {
            Self::F32(numbers) => numbers.len(),
            Self::F64(numbers) => numbers.len(),
            Self::U32(numbers) => numbers.len(),
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::F64(_) => 8,
            Self::F32(_) | Self::U32(_) => 4,
        }
    }

    fn format(&self) -> &'static CStr {
        match self {
            Self::F32(_) => c"f",
            Self::F64(_) => c"d",
            Self::U32(_) => c"I",
        }
    }

    fn start(&self) -> *const std::ffi::c_void {
        match self {
            Self::F32(numbers) => numbers.as_ptr().cast(),
            Self::F64(numbers) => numbers.as_ptr().cast(),
            Self::U32(numbers) => numbers.as_ptr().cast(),
        }
    }
}

#[pymethods]
impl Array {
    /// Takes any float32 matrix with a column per feature; it is copied.
    #[staticmethod]
    fn of(matrix: pyo3::buffer::PyBuffer<f32>, py: Python<'_>) -> PyResult<Self> {
        let [rows, _] = matrix.shape()[..] else {
            return Err(PyValueError::new_err(
                "taking a matrix: expected two dimensions",
            ));
        };
        let mut numbers = vec![0.0; matrix.item_count()];
        matrix.copy_to_fortran_slice(py, &mut numbers)?;
        Ok(Self::columns(numbers, rows))
    }

    fn __len__(&self) -> usize {
        self.shape[0] as usize
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("expected a view to fill"));
        }
        let array = slf.get();
        let is_line = array.shape.len() == 1;
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("features and scores are read-only"));
        }
        if !is_line
            && (flags & ffi::PyBUF_STRIDES != ffi::PyBUF_STRIDES
                || flags & ffi::PyBUF_C_CONTIGUOUS == ffi::PyBUF_C_CONTIGUOUS)
        {
            return Err(PyBufferError::new_err(
                "a matrix of features is column-major",
            ));
        }
        (*view).buf = array.numbers.start().cast_mut();
        (*view).len = (array.numbers.count() * array.numbers.size()) as isize;
        (*view).readonly = 1;
        (*view).itemsize = array.numbers.size() as isize;
        (*view).format = if flags & ffi::PyBUF_FORMAT == ffi::PyBUF_FORMAT {
            array.numbers.format().as_ptr().cast_mut()
        } else {
            ptr::null_mut()
        };
        (*view).ndim = array.shape.len() as c_int;
        (*view).shape = array.shape.as_ptr().cast_mut();
        (*view).strides = array.strides.as_ptr().cast_mut();
        (*view).suboffsets = ptr::null_mut();
        (*view).internal = ptr::null_mut();
        (*view).obj = slf.into_any().into_ptr();
        Ok(())
    }
}
