//! A recording of any size, of a service whose times are known: for readers that must open a gigabyte.

use greenlane_recording_format::chunk::{frame, Header};
use greenlane_recording_format::codec::Encoder;
use greenlane_recording_format::event::{
    ArrivalClock, Event, Outcome, Text, UnitKind, WaitKind, NO_JOB, READY_EXACT,
};
use pyo3::prelude::*;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

const US: u64 = 1_000;
const START_NS: u64 = 1_000_000_000_000;
/// A job begins each ms, on one thread after the other.
const EVERY_NS: u64 = 1_000 * US;
const THREADS: u64 = 8;
/// As many as come in a quarter of a second.
const JOBS_A_CHUNK: u64 = 250;
const TEXTS: [&str; 7] = [
    "",
    "gunicorn.gthread",
    "GET /bikes",
    "GET /quote",
    "recv",
    "offers-db:5432",
    "SELECT",
];
const HOST: Text = 1;
const BIKES: Text = 2;
const QUOTE: Text = 3;
const CALL: Text = 4;
const PEER: Text = 5;
const SELECT: Text = 6;
const ABOUT: Text = 7;
const SOCKET: u8 = 0;

/// See `_native.pyi`.
#[pyfunction]
pub fn write_large_recording(
    py: Python<'_>,
    path: PathBuf,
    least_bytes: u64,
    about: &str,
) -> PyResult<u64> {
    py.detach(|| {
        let mut file = BufWriter::new(File::create(path)?);
        let (mut written, mut jobs, mut sequence) = (0, 0, 0);
        while written < least_bytes {
            let bytes = chunk(sequence, jobs, about);
            file.write_all(&bytes)?;
            written += bytes.len() as u64;
            jobs += JOBS_A_CHUNK;
            sequence += 1;
        }
        file.flush()?;
        Ok(jobs)
    })
}

fn chunk(sequence: u32, jobs: u64, about: &str) -> Vec<u8> {
    let base_ns = START_NS + jobs * EVERY_NS;
    let mut encoder = Encoder::new(base_ns);
    for (number, text) in TEXTS.iter().enumerate().skip(1) {
        encoder.text(number as Text, text);
    }
    if sequence == 0 {
        encoder.text(ABOUT, about);
        begin(base_ns, &mut encoder);
    }
    for job in jobs + 1..=jobs + JOBS_A_CHUNK {
        one_job(job, &mut encoder);
    }
    let header = Header {
        process: 1,
        pid: 1,
        sequence,
        lost: 0,
        base_ns,
        length: 0,
        crc: 0,
    };
    frame(header, encoder.bytes())
}

fn begin(at_ns: u64, encoder: &mut Encoder) {
    encoder.event(&Event::About { at_ns, json: ABOUT });
    for unit in 1..=THREADS as u32 {
        encoder.event(&Event::Unit {
            at_ns,
            unit,
            kind: UnitKind::Thread,
            thread: 100 + unit,
            parent: 0,
            name: 0,
        });
    }
}

/// 0.6 ms of CPU, 4 ms of I/O in four calls, 0.4 ms of waiting for the GIL: 5 ms.
fn one_job(job: u64, encoder: &mut Encoder) {
    let at_ns = START_NS + (job - 1) * EVERY_NS;
    let unit = (job % THREADS) as u32 + 1;
    encoder.event(&Event::JobOpen {
        at_ns,
        job,
        unit,
        arrival_ns: at_ns,
        spawn_ns: 0,
        deadline_ns: 0,
        clock: ArrivalClock::Kernel,
        host: HOST,
        parent_job: NO_JOB,
    });
    let route = if job % 4 == 0 { QUOTE } else { BIKES };
    encoder.event(&Event::JobName { at_ns, job, route });
    for phase in 0..4u16 {
        let from_ns = at_ns + u64::from(phase) * 1_250 * US;
        let (runs_ns, blocks_ns) = (from_ns + 100 * US, from_ns + 250 * US);
        let to_ns = from_ns + 1_250 * US;
        encoder.event(&Event::Wait {
            from_ns,
            to_ns: runs_ns,
            unit,
            job,
            kind: WaitKind::Gil,
        });
        encoder.event(&Event::Slice {
            from_ns,
            to_ns: blocks_ns,
            unit,
            job,
            phase,
            cpu_ns: 150 * US,
        });
        encoder.event(&Event::Block {
            from_ns: blocks_ns,
            known_ns: to_ns,
            ready_ns: to_ns,
            to_ns,
            unit,
            job,
            kind: SOCKET,
            flags: READY_EXACT,
            call: CALL,
            peer: PEER,
        });
        encoder.event(&Event::Call {
            from_ns: blocks_ns,
            ready_ns: to_ns,
            to_ns,
            deadline_ns: 0,
            unit,
            job,
            upstream: PEER,
            operation: SELECT,
            outcome: Outcome::Ok,
            own_ns: 0,
        });
    }
    encoder.event(&Event::JobClose {
        at_ns: at_ns + 5_000 * US,
        job,
        status: 200,
    });
}
