//! What a job waits for whose result somebody else computes: a place in a pool, until its work begins on a thread of this
//! process, or a call for it (to a worker process); then, and where neither ever begins, a result that comes from
//! elsewhere: I/O.

use super::life::{Job, Piece, State, Unit, NONE};
use greenlane_recording_format::event::{Event, UnitKind, WaitKind};
use std::collections::HashMap;

/// `phase.Kind`.
const FUTURE: u8 = 7;
/// In place of a thread.
const OF_A_CALL: u64 = u64::MAX;

/// Names the waits for futures among the pieces, which are those of each unit in turn, from `starts` on.
pub fn tell_apart(
    events: &[Event],
    jobs: &[Job],
    units: &[Unit],
    pieces: &mut Vec<Piece>,
    starts: &mut [usize],
) {
    let mut waiting: HashMap<u32, Vec<(u64, u64, u64)>> = HashMap::new();
    for piece in pieces.iter().filter(|piece| waits(units, piece)) {
        waiting.entry(piece.job).or_default();
    }
    if waiting.is_empty() {
        return;
    }
    // When the threads worked for those jobs: (from, to, thread).
    for piece in pieces.iter() {
        if let Some(work) = waiting.get_mut(&piece.job) {
            if piece.slice != NONE || piece.block != NONE {
                let thread = units[piece.unit as usize].thread;
                work.push((piece.from_ns, piece.to_ns, thread));
            }
        }
    }
    let numbers: HashMap<u64, u32> = waiting
        .keys()
        .map(|&number| (jobs[number as usize].id, number))
        .collect();
    for event in events {
        if let Event::Call {
            from_ns,
            to_ns,
            job,
            ..
        } = *event
        {
            if let Some(number) = numbers.get(&job) {
                let work = waiting.entry(*number).or_default();
                work.push((from_ns, to_ns, OF_A_CALL));
            }
        }
    }
    for work in waiting.values_mut() {
        work.sort_unstable();
    }
    super::unseen::divide(pieces, starts, |piece| {
        if !waits(units, piece) {
            return None;
        }
        let thread = units[piece.unit as usize].thread;
        let work = &waiting[&piece.job];
        let here = work.partition_point(|one| one.0 < piece.from_ns);
        // The last work to begin meanwhile had to wait for its place.
        let begun = work[here..].iter().take_while(|one| one.0 <= piece.to_ns);
        let last_ns = begun.filter(|one| one.2 != thread).map(|one| one.0).last();
        let elsewhere = State::Io {
            kind: FUTURE,
            certain: true,
        };
        Some((last_ns.unwrap_or(piece.from_ns), elsewhere))
    });
}

/// Greenlets hand results to each other by the same objects.
fn waits(units: &[Unit], piece: &Piece) -> bool {
    piece.job != NONE
        && piece.block != NONE
        && piece.state == State::Wait(WaitKind::Pool)
        && units[piece.unit as usize].kind != UnitKind::Greenlet
}
