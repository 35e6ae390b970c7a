//! `greenlane_testing.RecordingWriter`: chunks with chosen events, for tests of whatever reads recordings.

use greenlane_recording_format::chunk::{frame, Header};
use greenlane_recording_format::codec::Encoder;
use greenlane_recording_format::event::{
    ArrivalClock, Event, Outcome, ResourceKind, Text, UnitKind, WaitKind,
};
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

    fn event(&mut self, name: &str) -> PyResult<Event> {
        use ArrivalClock::{Accept, Enqueue, Given, Handler, Header, Kernel, Spawn};
        Ok(match name {
            "unit" => Event::Unit {
                at_ns: self.get("at_ns")?,
                unit: self.small("unit")?,
                kind: self.choice(
                    "kind",
                    &[
                        UnitKind::Thread,
                        UnitKind::Greenlet,
                        UnitKind::Task,
                        UnitKind::Loop,
                    ],
                )?,
                thread: self.small("thread")?,
                parent: self.small("parent")?,
                name: self.text("name")?,
            },
            "job_open" => {
                let at_ns = self.get("at_ns")?;
                Event::JobOpen {
                    at_ns,
                    job: self.get("job")?,
                    unit: self.small("unit")?,
                    arrival_ns: self.maybe("arrival_ns")?.unwrap_or(at_ns),
                    spawn_ns: self.get("spawn_ns")?,
                    deadline_ns: self.get("deadline_ns")?,
                    clock: self.choice(
                        "clock",
                        &[Handler, Spawn, Accept, Kernel, Header, Enqueue, Given],
                    )?,
                    host: self.text("host")?,
                    parent_job: self.get("parent_job")?,
                }
            }
            "job_name" => Event::JobName {
                at_ns: self.get("at_ns")?,
                job: self.get("job")?,
                route: self.text("route")?,
            },
            "job_close" => Event::JobClose {
                at_ns: self.get("at_ns")?,
                job: self.get("job")?,
                status: self.small("status")?,
            },
            "attach" => Event::Attach {
                at_ns: self.get("at_ns")?,
                unit: self.small("unit")?,
                job: self.get("job")?,
            },
            "slice" => Event::Slice {
                from_ns: self.get("from_ns")?,
                to_ns: self.get("to_ns")?,
                unit: self.small("unit")?,
                job: self.get("job")?,
                phase: self.small("phase")?,
                cpu_ns: self.maybe("cpu_ns")?.unwrap_or(u64::MAX),
            },
            "wait" => Event::Wait {
                from_ns: self.get("from_ns")?,
                to_ns: self.get("to_ns")?,
                unit: self.small("unit")?,
                job: self.get("job")?,
                kind: self.choice(
                    "kind",
                    &[
                        WaitKind::Gil,
                        WaitKind::Loop,
                        WaitKind::Permit,
                        WaitKind::Accept,
                        WaitKind::Lock,
                        WaitKind::Pool,
                        WaitKind::Os,
                        WaitKind::Stopped,
                    ],
                )?,
            },
            "parked" => Event::Parked {
                from_ns: self.get("from_ns")?,
                to_ns: self.get("to_ns")?,
                job: self.get("job")?,
                by: self.text("by")?,
            },
            "block" => {
                let to_ns = self.get("to_ns")?;
                let ready_ns = self.maybe("ready_ns")?.unwrap_or(to_ns);
                Event::Block {
                    from_ns: self.get("from_ns")?,
                    known_ns: self.maybe("known_ns")?.unwrap_or(ready_ns),
                    ready_ns,
                    to_ns,
                    unit: self.small("unit")?,
                    job: self.get("job")?,
                    kind: self.small("kind")?,
                    flags: self.small("flags")?,
                    call: self.text("call")?,
                    peer: self.text("peer")?,
                }
            }
            "call" => Event::Call {
                from_ns: self.get("from_ns")?,
                ready_ns: self.get("ready_ns")?,
                to_ns: self.get("to_ns")?,
                deadline_ns: self.get("deadline_ns")?,
                unit: self.small("unit")?,
                job: self.get("job")?,
                upstream: self.text("upstream")?,
                operation: self.text("operation")?,
                outcome: self
                    .choice("outcome", &[Outcome::Ok, Outcome::Error, Outcome::Timeout])?,
                own_ns: self.maybe("own_ns")?.unwrap_or(0),
            },
            "traced" => Event::Traced {
                at_ns: self.get("at_ns")?,
                job: self.get("job")?,
                trace_high: self.get("trace_high")?,
                trace_low: self.get("trace_low")?,
                span: self.get("span")?,
            },
            "gc" => Event::Gc {
                from_ns: self.get("from_ns")?,
                to_ns: self.get("to_ns")?,
                unit: self.small("unit")?,
                generation: self.small("generation")?,
            },
            "stack" => Event::Stack {
                at_ns: self.get("at_ns")?,
                unit: self.small("unit")?,
                job: self.get("job")?,
                weight_ns: self.get("weight_ns")?,
                stack: self.text("stack")?,
                kept_ns: self.maybe("kept_ns")?.unwrap_or(0),
            },
            "process" => Event::Process {
                at_ns: self.get("at_ns")?,
                cpu_ns: self.get("cpu_ns")?,
                os_wait_ns: self.get("os_wait_ns")?,
                rss_bytes: self.get("rss_bytes")?,
                threads: self.small("threads")?,
                jobs: self.small("jobs")?,
                lag_ns: self.get("lag_ns")?,
                loop_ns: self.small("loop_ns")?,
                waking_ns: self.maybe("waking_ns")?.unwrap_or(0),
                hand_overs: self.maybe("hand_overs")?.unwrap_or(0),
            },
            "running" => Event::Running {
                at_ns: self.get("at_ns")?,
                unit: self.small("unit")?,
                job: self.get("job")?,
                from_ns: self.get("from_ns")?,
            },
            "cost" => Event::Cost {
                at_ns: self.get("at_ns")?,
                events: self.get("events")?,
                thousand_ns: self.get("thousand_ns")?,
                writer_ns: self.get("writer_ns")?,
                sampler_ns: self.get("sampler_ns")?,
            },
            "look" => Event::Look {
                at_ns: self.get("at_ns")?,
                unit: self.small("unit")?,
                job: self.get("job")?,
                weight_ns: self.get("weight_ns")?,
                free: self.get("free")? != 0,
            },
            "cores" => Event::Cores {
                at_ns: self.get("at_ns")?,
                thread: self.small("thread")?,
                waited_ns: self.get("waited_ns")?,
                withheld_ns: self.get("withheld_ns")?,
            },
            "answer" => Event::Answer {
                at_ns: self.get("at_ns")?,
                unit: self.small("unit")?,
            },
            "turn" => Event::Turn {
                at_ns: self.get("at_ns")?,
                unit: self.small("unit")?,
                job: self.get("job")?,
                how: self.small("how")?,
                stops: self.small("stops")?,
            },
            "contention" => Event::Contention {
                from_ns: self.get("from_ns")?,
                to_ns: self.get("to_ns")?,
                unit: self.small("unit")?,
                job: self.get("job")?,
                resource: self.small("resource")?,
                kind: self.choice(
                    "kind",
                    &[
                        ResourceKind::Connections,
                        ResourceKind::Threads,
                        ResourceKind::Semaphore,
                        ResourceKind::Lock,
                        ResourceKind::Processes,
                    ],
                )?,
                flags: self.small("flags")?,
                capacity: self.small("capacity")?,
                name: self.text("name")?,
                line: self.text("line")?,
            },
            "hold" => Event::Hold {
                from_ns: self.get("from_ns")?,
                to_ns: self.get("to_ns")?,
                unit: self.small("unit")?,
                job: self.get("job")?,
                resource: self.small("resource")?,
                flags: self.small("flags")?,
                line: self.text("line")?,
            },
            "about" => Event::About {
                at_ns: self.get("at_ns")?,
                json: self.text("json")?,
            },
            "mark" => Event::Mark {
                at_ns: self.get("at_ns")?,
                what: self.text("what")?,
            },
            _ => {
                return Err(PyValueError::new_err(format!(
                    "event={name:?}, expected a name of `docs/recording-format.md`"
                )))
            }
        })
    }
}
