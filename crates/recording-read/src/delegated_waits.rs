//! What a job waits for whose result somebody else computes.
//!
//! | who computes | until it is begun | then |
//! |---|---|---|
//! | a thread of a pool: it worked for the job meanwhile | wait for a place in the pool | I/O |
//! | a thread of a library, which answers one after the other (aiosqlite) | wait in its queue | I/O |
//! | nobody of this process (a worker process), or not known who | | I/O |
//!
//! A library's thread says nothing of whom it works for. But it says when it answers: while it was busy, what came last
//! was begun when the answer before it was given. A thread that only passes on what others have computed, as that of a
//! process pool does, is idle most of that time.

use super::timeline::{Activity, Job, Piece, Unit, NONE};
use greenlane_recording_format::event::{Event, UnitKind, WaitKind};
use std::collections::HashMap;

/// `phase.Kind`.
const SELECT: u8 = 3;
const FUTURE: u8 = 7;
/// In place of a thread.
const OF_A_CALL: u64 = u64::MAX;

const ELSEWHERE: Activity = Activity::Io {
    kind: FUTURE,
    certain: true,
};

/// Names the waits for futures among the pieces, which are those of each unit in turn, from `starts` on. Gives those
/// whose thread is known: (block, the thread's unit).
pub fn name_delegated_waits(
    events: &[Event],
    jobs: &[Job],
    units: &[Unit],
    pieces: &mut Vec<Piece>,
    starts: &mut [usize],
) -> Vec<(u32, u32)> {
    let mut waiting: HashMap<u32, Vec<(u64, u64, u64)>> = HashMap::new();
    for piece in pieces.iter().filter(|piece| waits(units, piece)) {
        waiting.entry(piece.job).or_default();
    }
    if waiting.is_empty() {
        return Vec::new();
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
    let (by_moment, answering) = answering(events, units, pieces, starts);
    let mut answered = Vec::new();
    super::hidden_blocking::divide(pieces, starts, |piece| {
        if !waits(units, piece) {
            return None;
        }
        let (from_ns, to_ns) = (piece.from_ns, piece.to_ns);
        if let Some(&unit) = by_moment.get(&to_ns) {
            let thread = &answering[&unit];
            if !thread.was_lent(from_ns, to_ns) {
                answered.push((piece.block, unit));
                piece.state = Activity::Wait(WaitKind::Queue);
                return Some((thread.begun_ns(from_ns, to_ns), ELSEWHERE));
            }
        }
        let thread = units[piece.unit as usize].thread;
        let work = &waiting[&piece.job];
        let here = work.partition_point(|one| one.0 < from_ns);
        // The last work to begin meanwhile had to wait for its place.
        let begun = work[here..].iter().take_while(|one| one.0 <= to_ns);
        let last_ns = begun.filter(|one| one.2 != thread).map(|one| one.0).last();
        Some((last_ns.unwrap_or(from_ns), ELSEWHERE))
    });
    answered
}

/// A thread that answers.
#[derive(Default)]
struct Answering {
    at_ns: Vec<u64>,
    /// When it waited for something to do.
    idle: Vec<(u64, u64)>,
    /// When it began or ended to work for a job.
    lent_ns: Vec<u64>,
}

impl Answering {
    fn was_lent(&self, from_ns: u64, to_ns: u64) -> bool {
        let first = self.lent_ns.partition_point(|&at_ns| at_ns < from_ns);
        self.lent_ns.get(first).is_some_and(|&at_ns| at_ns <= to_ns)
    }

    /// When it began what it answered at `to_ns` and was asked for at `from_ns`.
    fn begun_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        let earlier = self.at_ns.partition_point(|&at_ns| at_ns < to_ns);
        let Some(&last_ns) = self.at_ns[..earlier].last() else {
            return from_ns;
        };
        let first = self.idle.partition_point(|idle| idle.1 <= from_ns);
        let idle = self.idle[first..]
            .iter()
            .take_while(|idle| idle.0 < last_ns);
        let idle_ns: u64 = idle
            .map(|idle| idle.1.min(last_ns) - idle.0.max(from_ns))
            .sum();
        if last_ns > from_ns && idle_ns < (last_ns - from_ns) / 2 {
            last_ns
        } else {
            from_ns
        }
    }
}

/// Who answered at a moment, and the threads that did, by unit.
fn answering(
    events: &[Event],
    units: &[Unit],
    pieces: &[Piece],
    starts: &[usize],
) -> (HashMap<u64, u32>, HashMap<u32, Answering>) {
    let mut by_id: HashMap<u32, Answering> = HashMap::new();
    let mut ids: HashMap<u64, u32> = HashMap::new();
    for event in events {
        if let Event::Answer { at_ns, unit } = *event {
            by_id.entry(unit).or_default().at_ns.push(at_ns);
            ids.insert(at_ns, unit);
        }
    }
    if by_id.is_empty() {
        return (HashMap::new(), HashMap::new());
    }
    for event in events {
        if let Event::Attach { at_ns, unit, .. } = *event {
            if let Some(thread) = by_id.get_mut(&unit) {
                thread.lent_ns.push(at_ns);
            }
        }
    }
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    let mut answering: HashMap<u32, Answering> = HashMap::new();
    for (number, unit) in units.iter().enumerate() {
        let Some(mut thread) = by_id.remove(&unit.id) else {
            continue;
        };
        thread.at_ns.sort_unstable();
        thread.lent_ns.sort_unstable();
        let own = pieces[starts[number]..starts[number + 1]].iter();
        let idle = own.filter(|piece| is_idle(piece));
        thread.idle = idle.map(|piece| (piece.from_ns, piece.to_ns)).collect();
        numbers.insert(unit.id, number as u32);
        answering.insert(number as u32, thread);
    }
    let by_moment = ids
        .into_iter()
        .filter_map(|(at_ns, id)| Some((at_ns, *numbers.get(&id)?)));
    (by_moment.collect(), answering)
}

fn is_idle(piece: &Piece) -> bool {
    matches!(
        piece.state,
        Activity::Wait(WaitKind::Lock | WaitKind::Pool) | Activity::Io { kind: SELECT, .. }
    )
}

/// Greenlets hand results to each other by the same objects.
fn waits(units: &[Unit], piece: &Piece) -> bool {
    piece.job != NONE
        && piece.block != NONE
        && piece.state == Activity::Wait(WaitKind::Pool)
        && units[piece.unit as usize].kind != UnitKind::Greenlet
}
