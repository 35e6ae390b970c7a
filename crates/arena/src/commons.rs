//! `greenlane._native.Commons`: memory that callers make arrays in, which workers see without a copy.

use super::lender::Lender;
use super::segment::{Block, Segment};
use pyo3::prelude::*;

/// See `_native.pyi`.
#[pyclass(module = "greenlane._native", frozen)]
pub struct Commons {
    lender: Lender,
}

#[pymethods]
impl Commons {
    #[new]
    fn new(data: &Segment, flags: &Segment) -> Self {
        let words = u32::try_from(flags.mapping().length() / 8).unwrap_or(u32::MAX);
        Self {
            lender: Lender::new(data.mapping(), flags.mapping(), (0, words)),
        }
    }

    #[getter]
    fn lent_bytes(&self) -> u64 {
        self.lender.lent_bytes()
    }

    fn block(&self, length: usize) -> Option<Block> {
        self.lender.take_back();
        let (word, offset) = self.lender.lend(length)?;
        let end = Some((&self.lender.control, word as usize));
        Block::new(&self.lender.data, offset, length, true, end)
    }
}
