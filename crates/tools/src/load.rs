//! `greenlane_tools._native.load_run`: greenlane-load shown to Python. See `_native.pyi`.

use greenlane_load::{run, Address, FailureReason, Outcome, Schedule, Stopped, Stream};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// (address, before, mark, after, head_only, keep_alive, most_connections, timeout_ns)
type StreamRow = (String, Vec<u8>, Vec<u8>, Vec<u8>, bool, bool, usize, u64);

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (streams, at_ns, stream, work_ms, *, worker_header="", tick=None))]
pub fn load_run<'py>(
    py: Python<'py>,
    streams: Vec<StreamRow>,
    at_ns: &[u8],
    stream: &[u8],
    work_ms: &[u8],
    worker_header: &str,
    tick: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let streams: Vec<Stream> = streams
        .into_iter()
        .map(stream_of)
        .collect::<PyResult<_>>()?;
    let schedule = Schedule {
        at_ns: column(at_ns),
        stream: column(stream),
        work_ms: column(work_ms),
    };
    check(&schedule, streams.len())?;
    let mut raised = None;
    let outcome = py.detach(|| {
        run(&streams, &schedule, worker_header, &mut |sent, over| {
            Python::attach(|py| match go_on(py, tick.as_ref(), sent, over) {
                Ok(()) => true,
                Err(error) => {
                    raised = Some(error);
                    false
                }
            })
        })
    });
    match (outcome, raised) {
        (_, Some(error)) => Err(error),
        (Ok(outcome), None) => columns(py, &outcome),
        (Err(stopped), None) => Err(stopped_error(stopped)),
    }
}

fn stream_of(row: StreamRow) -> PyResult<Stream> {
    let (address, before, mark, after, head_only, keep_alive, most_connections, timeout_ns) = row;
    let parsed = Address::parse(&address)
        .map_err(|error| PyValueError::new_err(("address", address, error.to_string())))?;
    Ok(Stream {
        address: parsed,
        before,
        mark,
        after,
        head_only,
        keep_alive,
        most_connections,
        timeout_ns,
    })
}

fn check(schedule: &Schedule, streams: usize) -> PyResult<()> {
    let size = schedule.at_ns.len();
    let in_order = schedule.at_ns.windows(2).all(|two| two[0] <= two[1]);
    let known = schedule
        .stream
        .iter()
        .all(|&stream| usize::from(stream) < streams);
    let whole = schedule.stream.len() == size && schedule.work_ms.len() == size;
    if !(in_order && known && whole) || schedule.at_ns.first().is_some_and(|&first| first < 0) {
        let rule = "columns of one length, times ascending from 0, numbers of given streams";
        return Err(PyValueError::new_err(("schedule", size, rule)));
    }
    if size >= (u32::MAX - 2) as usize {
        return Err(PyValueError::new_err((
            "schedule",
            size,
            "fewer than 2^32 requests",
        )));
    }
    Ok(())
}

fn go_on(py: Python<'_>, tick: Option<&Py<PyAny>>, sent: u64, over: u64) -> PyResult<()> {
    py.check_signals()?;
    match tick {
        Some(tick) => tick.call1(py, (sent, over)).map(drop),
        None => Ok(()),
    }
}

fn stopped_error(stopped: Stopped) -> PyErr {
    match stopped {
        Stopped::Descriptors => PyOSError::new_err((libc::EMFILE, "no open files left")),
        Stopped::Ports => PyOSError::new_err((libc::EADDRNOTAVAIL, "no local ports left")),
        Stopped::Kernel(number) => PyOSError::new_err((number, "the kernel refuses")),
        Stopped::Interrupted => unreachable!("only a raised exception interrupts"),
    }
}

fn columns<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("begun_ns", bytes(py, &outcome.begun_ns)?)?;
    dict.set_item("sent_ns", bytes(py, &outcome.sent_ns)?)?;
    dict.set_item("first_byte_ns", bytes(py, &outcome.first_byte_ns)?)?;
    dict.set_item("done_ns", bytes(py, &outcome.done_ns)?)?;
    dict.set_item("status", bytes(py, &outcome.status)?)?;
    dict.set_item("worker", bytes(py, &outcome.worker)?)?;
    dict.set_item("began_ns", outcome.began_ns)?;
    dict.set_item("cpu_ns", outcome.cpu_ns)?;
    dict.set_item("took_ns", outcome.took_ns)?;
    dict.set_item("connections", outcome.connections)?;
    dict.set_item("sent_again", outcome.sent_again)?;
    let failures = PyDict::new(py);
    for why in FailureReason::ALL {
        failures.set_item(why.name(), outcome.failures[why as usize])?;
    }
    dict.set_item("failures", failures)?;
    Ok(dict)
}

/// A number in the machine's own bytes.
trait Number: Sized {
    fn get(from: &[u8]) -> Self;
    fn write_to(&self, into: &mut [u8]);
}

macro_rules! number {
    ($($kind:ty),*) => {$(
        impl Number for $kind {
            fn get(from: &[u8]) -> Self {
                Self::from_ne_bytes(from.try_into().expect("a whole number"))
            }
            fn write_to(&self, into: &mut [u8]) {
                into.copy_from_slice(&self.to_ne_bytes());
            }
        }
    )*};
}
number!(i16, u16, i32, i64, f64);

fn column<T: Number>(bytes: &[u8]) -> Vec<T> {
    bytes
        .chunks_exact(std::mem::size_of::<T>())
        .map(T::get)
        .collect()
}

fn bytes<'py, T: Number>(py: Python<'py>, column: &[T]) -> PyResult<Bound<'py, PyBytes>> {
    let size = std::mem::size_of::<T>();
    PyBytes::new_with(py, std::mem::size_of_val(column), |into| {
        for (number, into) in column.iter().zip(into.chunks_exact_mut(size)) {
            number.write_to(into);
        }
        Ok(())
    })
}
