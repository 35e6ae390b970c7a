//! `greenlane_tools._native.Recording`: a recording after accounting, read without the GIL. See `_native.pyi`.

use crate::mapped::{self, Mapped};
use greenlane_recording_format::event::{Event, Text};
use greenlane_recording_read::account::{Account, IO_KINDS, WAIT_KINDS};
use greenlane_recording_read::analysis::{
    clock_name, io_name, outcome_name, resource_name, wait_name, Analysis, JobRow, ProcessRow,
};
use greenlane_recording_read::read::{Release, Scan, Unreadable};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// See `_native.pyi`.
#[pyclass(module = "greenlane_tools._native")]
pub struct Recording {
    /// Reads `inputs`, and goes before them.
    analysis: Analysis<'static>,
    #[expect(dead_code, reason = "is read by `analysis`")]
    inputs: Vec<Input>,
    texts: HashMap<Text, Py<PyString>>,
}

/// What a recording can be read from.
#[derive(FromPyObject)]
enum Source<'py> {
    Bytes(Bound<'py, PyBytes>),
    Paths(Vec<PathBuf>),
}

/// Files of more than this, all together, are mapped, not read.
const READ_BYTES: u64 = 48 << 20;

fn analyse(
    inputs: &[Input],
    window_ns: RangeInclusive<u64>,
    part_bytes: Option<u64>,
) -> Result<Analysis<'static>, Unreadable> {
    // SAFETY: the bytes of each input stay where they are until it is dropped, and `Recording` drops it last.
    let kept = |input: &Input| unsafe { &*std::ptr::from_ref::<[u8]>(input.bytes()) };
    let mapped = inputs.iter().any(|input| matches!(input, Input::Mapped(_)));
    let release: Release = if mapped { mapped::release } else { |_| () };
    let scan = Scan::releasing(inputs.iter().map(kept).collect(), release)?.within(window_ns)?;
    match part_bytes {
        Some(part_bytes) => Analysis::cut(scan, part_bytes, 0),
        None => Analysis::of(scan),
    }
}

#[pymethods]
impl Recording {
    #[new]
    #[pyo3(signature = (source, from_ns=0, to_ns=u64::MAX, *, part_bytes=None))]
    fn new(
        py: Python<'_>,
        source: Source<'_>,
        from_ns: u64,
        to_ns: u64,
        part_bytes: Option<u64>,
    ) -> PyResult<Self> {
        let window_ns = from_ns..=to_ns;
        let inputs = match source {
            Source::Bytes(bytes) => vec![Input::Read(bytes.as_bytes().to_vec())],
            Source::Paths(paths) => py.detach(|| open_files(&paths))?,
        };
        let analysis = py.detach(|| analyse(&inputs, window_ns, part_bytes));
        let analysis = analysis.map_err(|unreadable| {
            PyValueError::new_err(match unreadable {
                Unreadable::Empty => ("empty", 0),
                Unreadable::Foreign => ("foreign", 0),
                Unreadable::Newer(version) => ("newer", version),
                Unreadable::Damaged => ("damaged", 0),
                Unreadable::Outside => ("outside", 0),
            })
        })?;
        Ok(Self {
            analysis,
            inputs,
            texts: HashMap::new(),
        })
    }

    fn processes<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for index in 0..self.analysis.processes.len() {
            let row: ProcessRow = self.analysis.processes[index].clone();
            let about = self.text(py, row.about);
            let marks: Vec<_> = row
                .marks
                .iter()
                .map(|&(at_ns, what)| (at_ns, self.text(py, what)))
                .collect();
            let counts = (
                row.dropped_chunks,
                row.missing_chunks,
                row.unfinished_jobs,
                row.unknown_units,
            );
            list.append((
                (
                    index,
                    row.pid,
                    about,
                    row.from_ns,
                    row.to_ns,
                    row.lost_events,
                    row.torn_bytes,
                ),
                counts,
                marks,
            ))?;
        }
        Ok(list)
    }

    fn skipped(&self) -> HashMap<&'static str, u64> {
        let skipped = self.analysis.skipped;
        HashMap::from([
            ("damaged_chunks", skipped.damaged_chunks),
            ("damaged_bytes", skipped.damaged_bytes),
            ("newer_chunks", skipped.newer_chunks),
            ("unknown_records", skipped.unknown_records),
            ("repeated_chunks", skipped.repeated_chunks),
        ])
    }

    fn jobs<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for row in std::mem::take(&mut self.analysis.jobs) {
            list.append(self.job(py, &row)?)?;
        }
        Ok(list)
    }

    fn blame<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for index in 0..self.analysis.blame.len() {
            let row = self.analysis.blame[index].clone();
            let (victim, culprit) = (self.text(py, row.victim), self.text(py, row.culprit));
            list.append((
                victim,
                wait_name(row.kind),
                culprit,
                row.phase,
                row.ns,
                row.waits,
                row.slices,
                row.longest_ns,
                row.by_length_ns,
            ))?;
        }
        Ok(list)
    }

    fn calls<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for row in std::mem::take(&mut self.analysis.calls) {
            list.append((
                row.process,
                row.job,
                self.text(py, row.route),
                self.text(py, row.upstream),
                self.text(py, row.operation),
                row.from_ns,
                row.ready_ns,
                row.to_ns,
                row.deadline_ns,
                outcome_name(row.outcome),
                row.waited_ns,
                row.own_ns,
            ))?;
        }
        Ok(list)
    }

    fn held<'py>(&mut self, py: Python<'py>, loops: bool) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        let rows = if loops {
            self.analysis.held.clone()
        } else {
            self.analysis.blocked.clone()
        };
        for row in rows {
            list.append((
                self.text(py, row.route),
                self.text(py, row.call),
                self.text(py, row.stack),
                row.count,
                row.ns,
                row.longest_ns,
            ))?;
        }
        Ok(list)
    }

    fn unfinished<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for index in 0..self.analysis.unfinished.len() {
            let row = self.analysis.unfinished[index].clone();
            let (io, wait) = kinds(py, &row.account)?;
            let texts = (self.text(py, row.route), self.text(py, row.host));
            let stack = self.text(py, row.stack);
            let (route, host) = texts;
            let fields: [Bound<'py, PyAny>; 13] = [
                row.process.into_pyobject(py)?.into_any(),
                row.job.into_pyobject(py)?.into_any(),
                route.into_any(),
                host.into_any(),
                row.arrival_ns.into_pyobject(py)?.into_any(),
                row.handler_ns.into_pyobject(py)?.into_any(),
                row.last_ns.into_pyobject(py)?.into_any(),
                row.account.cpu_ns.into_pyobject(py)?.into_any(),
                io.into_any(),
                wait.into_any(),
                row.running_ns.into_pyobject(py)?.into_any(),
                stack.into_any(),
                row.held.into_pyobject(py)?.to_owned().into_any(),
            ];
            list.append(PyTuple::new(py, fields)?)?;
        }
        Ok(list)
    }

    fn costs(&self) -> Vec<(usize, u64, u64, u64, u64, u64)> {
        let rows = self.analysis.processes.iter().enumerate();
        rows.filter_map(|(index, row)| match row.cost? {
            Event::Cost {
                at_ns,
                events,
                thousand_ns,
                writer_ns,
                sampler_ns,
            } => Some((index, at_ns, events, thousand_ns, writer_ns, sampler_ns)),
            _ => None,
        })
        .collect()
    }

    fn stacks<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for index in 0..self.analysis.stacks.len() {
            let (culprit, stack, looks) = self.analysis.stacks[index];
            list.append((
                self.text(py, culprit),
                self.text(py, stack),
                looks.ns,
                looks.looks,
                looks.calls,
                looks.longest_call_ns,
            ))?;
        }
        Ok(list)
    }

    fn own<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for index in 0..self.analysis.own.len() {
            let row = self.analysis.own[index];
            if row.cpu_ns > 0 {
                let (route, stack) = (self.text(py, row.route), self.text(py, row.stack));
                list.append((row.process, row.job, route, stack, row.cpu_ns, row.looks))?;
            }
        }
        Ok(list)
    }

    fn turns<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for index in 0..self.analysis.turns.len() {
            let (route, row) = self.analysis.turns[index];
            list.append((
                self.text(py, route),
                row.taken,
                row.express,
                row.shared,
                row.charged,
                row.stops,
                row.skipped,
            ))?;
        }
        Ok(list)
    }

    fn resources<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for index in 0..self.analysis.resources.len() {
            let ((kind, name, capacity), row) = self.analysis.resources[index].clone();
            let victims: Vec<_> = most_first(row.victims.into_values(), |victim| victim.ns)
                .into_iter()
                .map(|victim| {
                    let names = (self.text(py, victim.route), self.text(py, victim.line));
                    (
                        names.0,
                        names.1,
                        victim.waits,
                        victim.ns,
                        victim.longest_ns,
                        victim.gave_up,
                    )
                })
                .collect();
            let mut holders = Vec::new();
            for holder in most_first(row.holders.into_values(), |holder| holder.ns) {
                let meanwhile: Vec<_> = most_first(holder.meanwhile.into_iter(), |did| did.2)
                    .into_iter()
                    .map(|(state, what, ns)| {
                        let what = self.analysis.doing(what);
                        (state, self.text(py, what), ns)
                    })
                    .collect();
                holders.push((
                    self.text(py, holder.route),
                    self.text(py, holder.line),
                    holder.holds,
                    holder.ns,
                    holder.held_ns,
                    holder.longest_ns,
                    meanwhile,
                ));
            }
            let fields = (
                resource_name(kind),
                self.text(py, name),
                capacity,
                row.waits,
                row.ns,
                row.longest_ns,
                row.gave_up,
            );
            list.append((fields, victims, holders))?;
        }
        Ok(list)
    }

    fn looks(&self) -> Vec<(u32, u64, u64, u64, u64)> {
        let rows = self.analysis.looks.iter();
        rows.map(|row| (row.process, row.job, row.looks, row.ns, row.free_ns))
            .collect()
    }

    fn samples<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for (process, event) in &self.analysis.samples {
            if let Event::Process {
                at_ns,
                cpu_ns,
                os_wait_ns,
                rss_bytes,
                threads,
                jobs,
                lag_ns,
                loop_ns,
                waking_ns,
                hand_overs,
            } = *event
            {
                list.append((
                    *process, at_ns, cpu_ns, os_wait_ns, rss_bytes, threads, jobs, lag_ns, loop_ns,
                    waking_ns, hand_overs,
                ))?;
            }
        }
        Ok(list)
    }

    fn segments<'py>(
        &mut self,
        py: Python<'py>,
        process: u32,
        job: u64,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let Some(rows) = self.analysis.segments(process, job) else {
            return Ok(None);
        };
        let list = PyList::empty(py);
        for row in rows {
            let (unit, label) = (self.text(py, row.unit), self.text(py, row.label));
            list.append((row.state, row.kind, row.from_ns, row.to_ns, unit, label))?;
        }
        Ok(Some(list))
    }

    fn culprits<'py>(
        &mut self,
        py: Python<'py>,
        process: u32,
        job: u64,
        from_ns: u64,
        to_ns: u64,
    ) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for (culprit, ns) in self.analysis.culprits(process, job, from_ns, to_ns) {
            list.append((self.text(py, culprit), ns))?;
        }
        Ok(list)
    }
}

impl Recording {
    /// One string object for each text.
    fn text<'py>(&mut self, py: Python<'py>, number: Text) -> Bound<'py, PyString> {
        let texts = &self.analysis.texts;
        let text = self
            .texts
            .entry(number)
            .or_insert_with(|| PyString::new(py, texts.get(number)).unbind());
        text.bind(py).clone()
    }

    fn job<'py>(&mut self, py: Python<'py>, row: &JobRow) -> PyResult<Bound<'py, PyTuple>> {
        let (io, wait) = kinds(py, &row.account)?;
        let culprits: Vec<_> = row
            .culprits
            .iter()
            .map(|&(culprit, ns)| (self.text(py, culprit), ns))
            .collect();
        let fields: [Bound<'py, PyAny>; 19] = [
            row.process.into_pyobject(py)?.into_any(),
            row.job.into_pyobject(py)?.into_any(),
            self.text(py, row.route).into_any(),
            self.text(py, row.host).into_any(),
            row.status.into_pyobject(py)?.into_any(),
            pyo3::types::PyString::intern(py, clock_name(row.clock)).into_any(),
            row.arrival_ns.into_pyobject(py)?.into_any(),
            row.spawn_ns.into_pyobject(py)?.into_any(),
            row.handler_ns.into_pyobject(py)?.into_any(),
            row.end_ns.into_pyobject(py)?.into_any(),
            row.deadline_ns.into_pyobject(py)?.into_any(),
            row.account.cpu_ns.into_pyobject(py)?.into_any(),
            io.into_any(),
            wait.into_any(),
            row.account.residual_ns.into_pyobject(py)?.into_any(),
            row.account.uncertain_ns.into_pyobject(py)?.into_any(),
            culprits.into_pyobject(py)?.into_any(),
            trace_of(row).into_pyobject(py)?.into_any(),
            row.traced.2.into_pyobject(py)?.into_any(),
        ];
        PyTuple::new(py, fields)
    }
}

fn most_first<T>(rows: impl Iterator<Item = T>, ns: impl Fn(&T) -> u64) -> Vec<T> {
    let mut rows: Vec<T> = rows.collect();
    rows.sort_by_key(|row| u64::MAX - ns(row));
    rows
}

/// The number of its trace, of 128 bits; 0 = none.
fn trace_of(row: &JobRow) -> u128 {
    (u128::from(row.traced.0) << 64) | u128::from(row.traced.1)
}

/// The bytes of a file.
enum Input {
    Read(Vec<u8>),
    Mapped(Mapped),
}

impl Input {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes,
            Self::Mapped(mapped) => mapped.bytes(),
        }
    }
}

/// Whole files; else an OSError like Python's own.
fn open_files(paths: &[PathBuf]) -> PyResult<Vec<Input>> {
    let sizes = paths.iter().filter_map(|path| path.metadata().ok());
    let large = sizes.map(|about| about.len()).sum::<u64>() > READ_BYTES;
    let open = |path: &PathBuf| {
        if large {
            std::fs::File::open(path)
                .and_then(|file| Mapped::new(&file))
                .map(Input::Mapped)
        } else {
            std::fs::read(path).map(Input::Read)
        }
    };
    paths
        .iter()
        .map(|path| open(path).map_err(|error| unreadable(&error, path)))
        .collect()
}

fn unreadable(error: &std::io::Error, path: &Path) -> PyErr {
    let said = error.to_string();
    let said = said
        .split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned();
    PyOSError::new_err((error.raw_os_error(), said, path.to_path_buf()))
}

/// I/O and wait by the names of their kinds; what is 0 is left out.
fn kinds<'py>(
    py: Python<'py>,
    account: &Account,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let (io, wait) = (PyDict::new(py), PyDict::new(py));
    for kind in 0..IO_KINDS as u8 {
        let ns = account.io_ns[usize::from(kind)];
        if ns > 0 {
            io.set_item(PyString::intern(py, io_name(kind)), ns)?;
        }
    }
    for kind in 0..WAIT_KINDS as u8 {
        let ns = account.wait_ns[usize::from(kind)];
        if ns > 0 {
            wait.set_item(PyString::intern(py, wait_name(kind)), ns)?;
        }
    }
    Ok((io, wait))
}
