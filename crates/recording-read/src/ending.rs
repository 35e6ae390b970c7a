//! What was in progress when a process ended: jobs whose answer never left, and who ran last.
//!
//! The end is the last thing that the recording has of the process; where its server marked that it was aborted
//! ([`ABORT`]), it is that moment: what it did then is unwinding, and a job that was closed by it did not end well.

use super::account::{account_until, Account, ByJob};
use super::timeline::{Activity, Job, JobOpening, Piece, Timeline, NONE};
use greenlane_recording_format::event::{Text, UnitKind, WaitKind};
use std::collections::{HashMap, HashSet};

/// The mark of a server that ends a process because it does not answer.
pub const ABORT: &str = "abort";
/// Recording was switched off, or on.
pub const OFF: &str = "off";
/// A slice without an end that was seen this long before the end was running then: five of the writer's rounds.
const SEEN_NS: u64 = 1_000_000_000;

/// A blocking call that ended this long before an abort was ended by its signal.
const INTERRUPTED_NS: u64 = 20_000_000;

/// A job that was in progress at the end.
#[derive(Clone, Debug)]
pub struct UnfinishedRow {
    pub process: u32,
    pub job: u64,
    pub route: Text,
    pub host: Text,
    pub arrival_ns: u64,
    pub handler_ns: u64,
    /// Up to where it is accounted for: the last that is known of it.
    pub last_ns: u64,
    pub account: Account,
    /// How long it had been running without a pause; 0 = it was waiting, or blocked.
    pub running_ns: u64,
    /// What ran kept a loop's thread: nothing else of the loop could run.
    pub held: bool,
    pub stack: Text,
}

/// When a process ended, by what its marks say.
#[derive(Clone, Copy, Debug)]
pub struct End {
    pub at_ns: u64,
    /// It was aborted then, and went on for some time.
    pub aborted: bool,
    /// Jobs older than this may have been closed while nothing was recorded.
    pub known_from_ns: u64,
}

impl End {
    /// The end of a process whose last event was at `to_ns`. `marks`: by time.
    pub fn of<'a>(to_ns: u64, marks: impl Iterator<Item = (u64, &'a str)>) -> Self {
        let mut end = Self {
            at_ns: to_ns,
            aborted: false,
            known_from_ns: 0,
        };
        let mut off_ns = 0;
        for (at_ns, what) in marks {
            if what == ABORT && !end.aborted {
                (end.at_ns, end.aborted) = (at_ns, true);
            }
            if what == OFF {
                off_ns = at_ns;
            } else if off_ns != 0 {
                end.known_from_ns = off_ns;
            }
        }
        end
    }

    fn has_in_progress(&self, job: &Job, opened: &JobOpening) -> bool {
        if opened.at_ns > self.at_ns || opened.at_ns < self.known_from_ns {
            return false;
        }
        job.closed
            .is_none_or(|(closed_ns, _)| self.aborted && closed_ns >= self.at_ns)
    }
}

/// Jobs in progress at the end of a process, those that ran first, then the oldest. Texts but the stack are left to the caller.
pub fn unfinished_jobs(
    timeline: &Timeline,
    by_job: &ByJob,
    end: End,
    stacks: &HashMap<u32, Vec<(u64, Text)>>,
) -> Vec<(u32, UnfinishedRow)> {
    let loops: HashSet<u64> = timeline
        .units
        .iter()
        .filter(|unit| unit.kind == UnitKind::Loop || unit.is_green())
        .map(|unit| unit.thread)
        .collect();
    let mut rows = Vec::new();
    for (number, job) in timeline.jobs.iter().enumerate() {
        let number = number as u32;
        let Some(opened) = job.opened.filter(|opened| end.has_in_progress(job, opened)) else {
            continue;
        };
        let (mut last_ns, mut running) = (opened.at_ns, None);
        for piece in by_job.of(timeline, number) {
            last_ns = last_ns.max(piece.to_ns.min(end.at_ns));
            if runs_at(timeline, piece, end) {
                running = Some(*piece);
            }
        }
        let unit = running.map_or(opened.unit, |piece| piece.unit);
        let running_ns = running.map_or(0, |piece| {
            piece
                .to_ns
                .min(end.at_ns)
                .saturating_sub(begun_ns(timeline, &piece))
        });
        let of_unit = stacks
            .get(&timeline.units[unit as usize].id)
            .map_or(&[][..], Vec::as_slice);
        let before = of_unit.partition_point(|stack| stack.0 <= end.at_ns);
        let stack = of_unit[..before].last();
        rows.push((
            number,
            UnfinishedRow {
                process: 0,
                job: job.id,
                route: 0,
                host: opened.host,
                arrival_ns: opened.arrival_ns,
                handler_ns: opened.at_ns,
                last_ns,
                account: account_until(timeline, by_job, number, last_ns, &mut Vec::new()),
                running_ns,
                held: running_ns > 0 && loops.contains(&timeline.units[unit as usize].thread),
                stack: stack
                    .filter(|one| one.0 >= opened.at_ns)
                    .map_or(0, |one| one.1),
            },
        ));
    }
    rows.sort_by_key(|(_, row)| (u64::MAX - row.running_ns, row.arrival_ns, row.job));
    rows
}

fn runs_at(timeline: &Timeline, piece: &Piece, end: End) -> bool {
    let before_ns = end.at_ns.saturating_sub(piece.to_ns);
    if end.aborted && piece.held && piece.from_ns <= end.at_ns && before_ns <= INTERRUPTED_NS {
        return true;
    }
    let Some(slice) = timeline.slices.get(piece.slice as usize) else {
        return false;
    };
    if end.aborted && piece.from_ns <= end.at_ns && piece.to_ns >= end.at_ns {
        return true;
    }
    slice.open && before_ns <= SEEN_NS && piece.from_ns <= end.at_ns
}

/// Since when the unit of a piece had been running: slices are cut at their waits for the GIL.
fn begun_ns(timeline: &Timeline, last: &Piece) -> u64 {
    let pieces = timeline.pieces_of(last.unit);
    let mut from_ns = last.from_ns;
    let before = pieces.partition_point(|piece| piece.from_ns < last.from_ns);
    for piece in pieces[..before].iter().rev() {
        let runs =
            piece.slice != NONE || piece.held || piece.state == Activity::Wait(WaitKind::Gil);
        if piece.to_ns != from_ns || piece.job != last.job || !runs {
            break;
        }
        from_ns = piece.from_ns;
    }
    from_ns
}
