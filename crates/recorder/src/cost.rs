//! What recording costs the process that is recorded: measured by the clocks of its threads, estimated for the hooks.
//!
//! A hook runs inside of the program's own calls and cannot be timed there for less than it takes. So at the start a
//! thousand events go into a ring that nobody reads; the recording has their time, and how many events there were.

use super::ring::{Ring, THREAD_EVENTS};
use super::sampler;
use greenlane_process::clock;
use greenlane_recording_format::event::Event;
use std::sync::atomic::Ordering;

const EVENTS: u64 = 1_000;

/// What a thousand events take, ns: for each, two looks at the clock and a place in a ring that lies in the cache.
///
/// Cost: about 0.1 ms.
pub fn thousand_ns() -> u64 {
    let ring = Ring::new(THREAD_EVENTS);
    let record = || {
        let from_ns = clock::monotonic_ns();
        for number in 0..EVENTS {
            let begun_ns = clock::monotonic_ns();
            ring.push(Event::Slice {
                from_ns: begun_ns,
                to_ns: clock::monotonic_ns(),
                unit: 1,
                job: number,
                phase: 0,
                cpu_ns: 0,
            });
        }
        let took_ns = clock::monotonic_ns() - from_ns;
        while ring.pop().is_some() {}
        took_ns
    };
    // The first touches the memory; what the others are disturbed by is not theirs.
    record();
    (0..2).map(|_| record()).min().unwrap_or(0)
}

/// The cost so far. Called by the writer: its own CPU is read here.
pub fn event(at_ns: u64, events: u64, thousand_ns: u64) -> Event {
    Event::Cost {
        at_ns,
        events,
        thousand_ns,
        writer_ns: clock::thread_cpu_ns(),
        sampler_ns: sampler::CPU_NS.load(Ordering::Relaxed),
    }
}
