//! A large process, read a part at a time: memory is bounded by a part, not by the recording.
//!
//! A job belongs to the part in which it ends. A part is laid out with what lies before it, back to where the first of
//! its jobs arrived (but not beyond four parts: what longer jobs did before is residual), and a second behind it: who
//! made its jobs wait is in it. What is true since long (who units are, how jobs in progress began) is collected first,
//! in one pass.

use super::read::{Scan, Texts};
use greenlane_recording_format::event::Event;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// What is looked at behind a part: a slice is written when it ends.
const BEHIND_NS: u64 = 1_000_000_000;
/// A job may have begun this many parts back, and this many behind are looked at.
const PARTS_AROUND: usize = 4;
/// What is looked at before the first arrival of a part, likewise.
const BEFORE_NS: u64 = 1_000_000_000;

/// Where a process is cut, and what was true at each cut.
pub struct Parts {
    /// Chunks, by part.
    cuts: Vec<Range<usize>>,
    /// By part: its first chunk with what lies before it.
    firsts: Vec<usize>,
    /// By job, except those of the last part and those that never ended.
    of_job: HashMap<u64, u32>,
    /// By part: how jobs that are in progress when it begins were opened, and named.
    in_progress: Vec<Vec<Event>>,
    units: HashMap<u32, Event>,
    about: Option<Event>,
}

/// What is known of a job before it ends.
#[derive(Default)]
struct Beginning {
    opened: Option<Event>,
    named: Option<Event>,
}

impl Beginning {
    /// 0: nothing says when it came.
    fn arrival_ns(&self) -> u64 {
        match self.opened {
            Some(Event::JobOpen {
                at_ns,
                arrival_ns: 0,
                ..
            }) => at_ns,
            Some(Event::JobOpen { arrival_ns, .. }) => arrival_ns,
            _ => 0,
        }
    }
}

/// The events of a part with what lies around it.
pub struct PartEvents {
    pub events: Vec<Event>,
    /// Those that are counted here.
    pub own: Range<usize>,
    /// What ends in this time is counted here.
    pub own_ns: Range<u64>,
}

impl Parts {
    /// Cuts a process into parts of about `most` bytes. None: it is one.
    pub fn of(scan: &mut Scan<'_>, origin: usize, most: u64, texts: &mut Texts) -> Option<Self> {
        let cuts = scan.cuts(origin, most);
        if cuts.len() < 2 {
            return None;
        }
        let mut parts = Self {
            firsts: Vec::new(),
            of_job: HashMap::new(),
            in_progress: Vec::new(),
            units: HashMap::new(),
            about: None,
            cuts,
        };
        let mut open: HashMap<u64, Beginning> = HashMap::new();
        parts.learn(scan, origin, 0..parts.cuts[0].start, texts, |_| {});
        for number in 0..parts.cuts.len() {
            let known = open.values().flat_map(|begun| [begun.opened, begun.named]);
            parts.in_progress.push(known.flatten().collect());
            let (mut ended, mut earliest_ns) = (Vec::new(), u64::MAX);
            let chunks = parts.cuts[number].clone();
            parts.learn(scan, origin, chunks, texts, |event| match *event {
                Event::JobOpen { job, .. } => open.entry(job).or_default().opened = Some(*event),
                Event::JobName { job, .. } => open.entry(job).or_default().named = Some(*event),
                Event::JobClose { job, .. } => {
                    if let Some(begun) = open.remove(&job) {
                        earliest_ns = earliest_ns.min(begun.arrival_ns());
                    }
                    ended.push(job);
                }
                _ => {}
            });
            parts
                .of_job
                .extend(ended.into_iter().map(|job| (job, number as u32)));
            let before = parts.cuts[number.saturating_sub(PARTS_AROUND)].start;
            let first = scan.chunk_at(origin, earliest_ns.saturating_sub(BEFORE_NS));
            parts
                .firsts
                .push(first.clamp(before, parts.cuts[number].start));
        }
        let behind = parts.cuts[parts.cuts.len() - 1].end..scan.chunks(origin);
        parts.learn(scan, origin, behind, texts, |_| {});
        Some(parts)
    }

    /// How many.
    pub fn count(&self) -> u32 {
        self.cuts.len() as u32
    }

    /// That of a job.
    pub fn of_job(&self, job: u64) -> u32 {
        self.of_job.get(&job).copied().unwrap_or(self.count() - 1)
    }

    /// What is to be laid out for one.
    pub fn events(
        &self,
        scan: &mut Scan<'_>,
        origin: usize,
        number: u32,
        texts: &mut Texts,
    ) -> PartEvents {
        let number = number as usize;
        let own = self.cuts[number].clone();
        let last = number + 1 == self.cuts.len();
        let behind = &self.cuts[(number + PARTS_AROUND).min(self.cuts.len() - 1)];
        let until_ns = scan.base_ns(origin, own.end - 1);
        let mut end = own.end;
        while end < behind.end && scan.base_ns(origin, end - 1) < until_ns + BEHIND_NS {
            end += 1;
        }
        let mut around: Vec<Event> = Vec::new();
        let mut counted = [0, 0];
        for chunk in self.firsts[number]..end {
            if chunk == own.start {
                counted[0] = around.len();
            }
            scan.decode(origin, chunk, texts, |event| {
                if !matches!(event, Event::Unit { .. } | Event::About { .. }) {
                    around.push(event);
                }
            });
            scan.done_with(origin, chunk);
            if chunk + 1 == own.end {
                counted[1] = around.len();
            }
        }
        let first = self
            .cuts
            .partition_point(|cut| cut.end <= self.firsts[number]);
        let begun = self.in_progress[first..=number].iter().flatten();
        let met: HashSet<u32> = begun
            .clone()
            .chain(&around)
            .filter_map(Event::unit)
            .collect();
        let mut events: Vec<Event> = met
            .iter()
            .filter_map(|unit| self.units.get(unit))
            .copied()
            .collect();
        // The first opening of a job counts, and its last name.
        events.extend(begun);
        let before = events.len();
        events.append(&mut around);
        let from_ns = match own.start {
            0 => 0,
            start => scan.base_ns(origin, start - 1),
        };
        PartEvents {
            own: before + counted[0]..before + counted[1],
            own_ns: if number == 0 { 0 } else { from_ns }..if last { u64::MAX } else { until_ns },
            events,
        }
    }

    /// The process's own description.
    pub fn about(&self) -> Option<Event> {
        self.about
    }

    fn learn(
        &mut self,
        scan: &mut Scan<'_>,
        origin: usize,
        chunks: Range<usize>,
        texts: &mut Texts,
        mut tell: impl FnMut(&Event),
    ) {
        for chunk in chunks {
            let (units, about) = (&mut self.units, &mut self.about);
            scan.decode_and_count(origin, chunk, texts, |event| match event {
                Event::Unit { unit, name, .. } => {
                    // Written again, with the name that it got later.
                    let known = units.entry(unit).or_insert(event);
                    if let (Event::Unit { name: known, .. }, true) = (known, name != 0) {
                        *known = name;
                    }
                }
                Event::About { .. } => *about = Some(event),
                event => tell(&event),
            });
            scan.done_with(origin, chunk);
        }
    }
}
