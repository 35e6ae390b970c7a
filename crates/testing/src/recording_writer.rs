//! `greenlane_testing.RecordingWriter`: chunks with chosen events, for tests of whatever reads recordings.

use greenlane_recording_format::chunk::{frame, Header};
use greenlane_recording_format::codec::Encoder;
use greenlane_recording_format::event::{
    ArrivalClock, Event, Outcome, ResourceKind, Text, UnitKind, WaitKind,
};
use greenlane_recording_format::events;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::collections::HashMap;

/// See `_native.pyi`.
#[pyclass(module = "greenlane_testing._native")]
pub struct RecordingWriter {
    process: u64,
    pid: u32,
    sequence: u32,
    texts: HashMap<String, Text>,
    events: Vec<Event>,
}

#[pymethods]
impl RecordingWriter {
    #[new]
    fn new(process: u64, pid: u32) -> Self {
        Self {
            process,
            pid,
            sequence: 0,
            texts: HashMap::new(),
            events: Vec::new(),
        }
    }

    #[pyo3(signature = (name, /, **fields))]
    fn event(&mut self, name: &str, fields: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let fields = match fields {
            Some(fields) => fields.copy()?,
            None => return Err(PyKeyError::new_err("an event without fields")),
        };
        let mut fields = Fields {
            fields,
            texts: &mut self.texts,
        };
        let event = fields.event(name)?;
        if let Some(other) = fields.fields.keys().iter().next() {
            return Err(PyKeyError::new_err(format!("{name} has no field {other}")));
        }
        self.events.push(event);
        Ok(())
    }

    #[pyo3(signature = (*, lost=0))]
    fn chunk<'py>(&mut self, py: Python<'py>, lost: u32) -> Bound<'py, PyBytes> {
        if self.events.is_empty() {
            return PyBytes::new(py, b"");
        }
        let base_ns = self.events[0].span_ns().0;
        let mut encoder = Encoder::new(base_ns);
        let mut texts: Vec<(Text, String)> = self
            .texts
            .drain()
            .map(|(text, number)| (number, text))
            .collect();
        texts.sort_unstable();
        for (number, text) in texts {
            encoder.text(number, &text);
        }
        self.events
            .drain(..)
            .for_each(|event| encoder.event(&event));
        let header = Header {
            process: self.process,
            pid: self.pid,
            sequence: self.sequence,
            lost,
            base_ns,
            length: 0,
            crc: 0,
        };
        self.sequence += 1;
        PyBytes::new(py, &frame(header, encoder.bytes()))
    }
}

/// Fields of one event, taken out one by one.
struct Fields<'a, 'py> {
    fields: Bound<'py, PyDict>,
    texts: &'a mut HashMap<String, Text>,
}

impl Fields<'_, '_> {
    fn maybe(&self, name: &str) -> PyResult<Option<u64>> {
        let Some(value) = self.fields.get_item(name)? else {
            return Ok(None);
        };
        self.fields.del_item(name)?;
        value.extract().map(Some)
    }

    /// A number; 0 if it is not said.
    fn get(&self, name: &str) -> PyResult<u64> {
        Ok(self.maybe(name)?.unwrap_or(0))
    }

    /// A number of fewer bits; 0 if it is not said.
    fn small<T: TryFrom<u64>>(&self, name: &str) -> PyResult<T> {
        let value = self.get(name)?;
        T::try_from(value).map_err(|_| {
            PyValueError::new_err(format!("{name}={value}, expected a smaller number"))
        })
    }

    /// One of `choices` by its number.
    fn choice<T: Copy>(&self, name: &str, choices: &[T]) -> PyResult<T> {
        let value: usize = self.small(name)?;
        let choice = choices.get(value).copied();
        choice.ok_or_else(|| {
            PyValueError::new_err(format!(
                "{name}={value}, expected less than {}",
                choices.len()
            ))
        })
    }

    /// The number of a text; 0 for "" or if it is not said.
    fn text(&mut self, name: &str) -> PyResult<Text> {
        let Some(value) = self.fields.get_item(name)? else {
            return Ok(0);
        };
        self.fields.del_item(name)?;
        let value: String = value.extract()?;
        if value.is_empty() {
            return Ok(0);
        }
        let next = self.texts.len() as Text + 1;
        Ok(*self.texts.entry(value).or_insert(next))
    }

    fn set_default(&self, name: &str, value: impl FnOnce() -> PyResult<u64>) -> PyResult<()> {
        if !self.fields.contains(name)? {
            self.fields.set_item(name, value()?)?;
        }
        Ok(())
    }

    fn event(&mut self, name: &str) -> PyResult<Event> {
        let field = |name| match self.fields.get_item(name)? {
            Some(value) => value.extract(),
            None => Ok(0),
        };
        match name {
            "job_open" => self.set_default("arrival_ns", || field("at_ns"))?,
            "slice" => self.set_default("cpu_ns", || Ok(u64::MAX))?,
            "block" => {
                self.set_default("ready_ns", || field("to_ns"))?;
                self.set_default("known_ns", || field("ready_ns"))?;
            }
            _ => {}
        }
        self.read(name)
    }
}

/// A field by how it is written: a text and kinds by name, all others as numbers.
macro_rules! take {
    ($self:ident, $name:expr, flag, $type:ty) => {
        $self.get($name)? != 0
    };
    ($self:ident, $name:expr, text_number, $type:ty) => {
        $self.text($name)?
    };
    ($self:ident, $name:expr, unit_kind, $type:ty) => {
        $self.choice($name, &<$type>::BY_NUMBER)?
    };
    ($self:ident, $name:expr, arrival_clock, $type:ty) => {
        $self.choice($name, &<$type>::BY_NUMBER)?
    };
    ($self:ident, $name:expr, wait_kind, $type:ty) => {
        $self.choice($name, &<$type>::BY_NUMBER)?
    };
    ($self:ident, $name:expr, resource_kind, $type:ty) => {
        $self.choice($name, &<$type>::BY_NUMBER)?
    };
    ($self:ident, $name:expr, outcome, $type:ty) => {
        $self.choice($name, &<$type>::BY_NUMBER)?
    };
    ($self:ident, $name:expr, $how:ident, $type:ty) => {
        $self.small::<$type>($name)?
    };
}

macro_rules! read {
    ($($(#[$doc:meta])+ $tag:literal $name:ident $event:ident {
        $($field:ident: $type:ty = $how:ident),+
    })+) => {
        impl Fields<'_, '_> {
            fn read(&mut self, name: &str) -> PyResult<Event> {
                Ok(match name {
                    $(stringify!($name) => Event::$event {
                        $($field: take!(self, stringify!($field), $how, $type)),+
                    },)+
                    _ => {
                        return Err(PyValueError::new_err(format!(
                            "event={name:?}, expected a name of `docs/recording-format.md`"
                        )))
                    }
                })
            }
        }
    };
}

events!(read);
