//! A whole recording after accounting: rows about processes, jobs, blame, calls, stacks.
//!
//! Cost: about a second a million events. Memory: about 150 bytes an event of what is laid out at a time, a process or
//! [`PART_BYTES`] of it, its rows, and 100 bytes an event for as long as the analysis lives. Of a recording over
//! [`KEPT_BYTES`] only the parts that were asked for last are kept; others are laid out again when they are asked for.

use super::account::{account, before_open, window, Account, ByJob, NamedWait};
use super::blame::Turns;
use super::contended::{Key, ResourceEvents};
use super::culprits::{Culprits, Names};
use super::ending::{unfinished_jobs, End, UnfinishedRow};
use super::occupancy::Occupancy;
use super::parts::{PartEvents, Parts};
use super::read::{Scan, Skipped, Texts, Unreadable};
use super::resources::{self, Doing, ResourceRow};
use super::timeline::{Activity, Block, Timeline, NONE};
use super::{delegated_waits, hidden_blocking};
use greenlane_recording_format::event::{
    ArrivalClock, Event, Outcome, Text, WaitKind, TURN_CHARGED, TURN_EXPRESS, TURN_SHARED,
    TURN_SKIPPED, TURN_TAKEN,
};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// A process with more is laid out a part at a time.
pub const PART_BYTES: u64 = 8 << 20;
/// Of a recording with more, no more than some parts are kept.
pub const KEPT_BYTES: u64 = 48 << 20;
const KEPT_PARTS: usize = 4;

/// Culprits that a job's row names.
const MOST_CULPRITS: usize = 8;

/// One process.
#[derive(Clone, Debug, Default)]
pub struct ProcessRow {
    pub pid: u32,
    pub about: Text,
    pub from_ns: u64,
    pub to_ns: u64,
    pub lost_events: u64,
    pub torn_bytes: u64,
    pub dropped_chunks: u64,
    pub missing_chunks: u64,
    /// Jobs whose begin or end is not in the recording.
    pub unfinished_jobs: u64,
    /// Units whose begin is not.
    pub unknown_units: u64,
    /// (when, what)
    pub marks: Vec<(u64, Text)>,
    /// The last event that says what the recording cost.
    pub cost: Option<Event>,
}

/// One job.
#[derive(Clone, Debug)]
pub struct JobRow {
    pub process: u32,
    pub job: u64,
    pub route: Text,
    pub host: Text,
    pub status: u16,
    pub clock: ArrivalClock,
    pub arrival_ns: u64,
    pub spawn_ns: u64,
    pub handler_ns: u64,
    pub end_ns: u64,
    pub deadline_ns: u64,
    pub account: Account,
    /// Most first.
    pub culprits: Vec<(Text, u64)>,
    /// Its trace (high half, low half) and its span there; zeros = none.
    pub traced: (u64, u64, u64),
}

/// How long jobs of a route waited because of somebody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlameRow {
    pub victim: Text,
    pub kind: u8,
    pub culprit: Text,
    pub phase: i32,
    pub ns: u64,
    pub waits: u64,
    pub slices: u64,
    pub longest_ns: u64,
    /// By the length of the culprit's slice: at index i at least 2^i us.
    pub by_length_ns: Vec<u64>,
}

/// One call of an upstream.
#[derive(Clone, Copy, Debug)]
pub struct CallRow {
    pub process: u32,
    pub job: u64,
    pub route: Text,
    pub upstream: Text,
    pub operation: Text,
    pub from_ns: u64,
    pub ready_ns: u64,
    pub to_ns: u64,
    pub deadline_ns: u64,
    pub outcome: Outcome,
    /// So much of the time until `ready_ns` its unit could have run, and did not.
    pub waited_ns: u64,
    /// By the upstream's own clock; 0 = its reply did not say.
    pub own_ns: u64,
}

/// Blocking calls that held a whole loop.
#[derive(Clone, Copy, Debug)]
pub struct HeldRow {
    pub route: Text,
    pub call: Text,
    pub stack: Text,
    pub count: u64,
    pub ns: u64,
    pub longest_ns: u64,
}

/// How often a culprit was seen at one place, and what that stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looks {
    pub ns: u64,
    pub looks: u64,
    /// Of them, at the end of one call of C that kept the GIL, and the longest of those.
    pub calls: u64,
    pub longest_call_ns: u64,
}

impl Looks {
    fn add(&mut self, weight_ns: u64, kept_ns: u64) {
        self.ns = self.ns.saturating_add(weight_ns);
        self.looks += 1;
        self.calls += u64::from(kept_ns > 0);
        self.longest_call_ns = self.longest_call_ns.max(kept_ns);
    }
}

/// How often one job was looked at while it computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookRow {
    pub process: u32,
    pub job: u64,
    pub looks: u64,
    /// That they stand for, and of it without the GIL.
    pub ns: u64,
    pub free_ns: u64,
}

/// How heavy phases of one route took turns for CPU permits: of how many what [`Event::Turn`] says is so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnRow {
    pub taken: u64,
    pub express: u64,
    pub shared: u64,
    pub charged: u64,
    /// Times that others went before a phase that had a permit: of earlier versions' recordings.
    pub stops: u64,
    pub skipped: u64,
}

impl TurnRow {
    fn count(&mut self, how: u8, stops: u32) {
        let has = |bit: u8| u64::from(how & bit != 0);
        self.taken += has(TURN_TAKEN);
        self.express += has(TURN_EXPRESS);
        self.shared += has(TURN_SHARED);
        self.charged += has(TURN_CHARGED);
        self.skipped += has(TURN_SKIPPED);
        self.stops += u64::from(stops);
    }
}

/// Where one job was while it computed, and so much of its CPU: of that, each look stands for as much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnRow {
    pub process: u32,
    pub job: u64,
    pub route: Text,
    pub stack: Text,
    pub cpu_ns: u64,
    pub looks: u64,
}

/// A stretch of a job's timeline.
#[derive(Clone, Copy, Debug)]
pub struct SegmentRow {
    pub state: &'static str,
    pub kind: &'static str,
    pub from_ns: u64,
    pub to_ns: u64,
    pub unit: Text,
    pub label: Text,
}

/// What one process leaves for questions about single jobs.
struct ProcessCache {
    timeline: Timeline,
    by_job: ByJob,
    names: Names,
    occupancy: Occupancy,
}

/// See the module.
pub struct Analysis<'a> {
    pub texts: Texts,
    pub skipped: Skipped,
    pub processes: Vec<ProcessRow>,
    pub jobs: Vec<JobRow>,
    pub blame: Vec<BlameRow>,
    pub calls: Vec<CallRow>,
    pub held: Vec<HeldRow>,
    /// The same of calls that kept a thread, as far as one was looked at.
    pub blocked: Vec<HeldRow>,
    /// By process; those that ran first.
    pub unfinished: Vec<UnfinishedRow>,
    /// (culprit, stack, looks)
    pub stacks: Vec<(Text, Text, Looks)>,
    /// By process and job; of jobs that were looked at.
    pub looks: Vec<LookRow>,
    /// By process and job, of jobs that were looked at.
    pub own: Vec<OwnRow>,
    /// By route, of those whose phases were heavy.
    pub turns: Vec<(Text, TurnRow)>,
    /// Most waited for first.
    pub resources: Vec<(Key, ResourceRow)>,
    /// (process, event)
    pub samples: Vec<(u32, Event)>,
    /// By process and part; of a large recording those that were asked for last, the last one at the end.
    kept: Vec<((u32, u32), ProcessCache)>,
    culprits: Culprits,
    scan: Scan<'a>,
    /// By process; None = it is one part.
    parts: Vec<Option<Parts>>,
    keeps_all: bool,
}

/// What is counted of a part: its own events, what ends in its own time, its own jobs.
struct Own<'a> {
    around: &'a [Event],
    events: Range<usize>,
    ns: Range<u64>,
    jobs: &'a dyn Fn(u64) -> bool,
}

/// What blame is collected in while processes are read.
#[derive(Default)]
struct Sums {
    rows: HashMap<(Text, u8, u32), BlameRow>,
    held: BTreeMap<(Text, Text, Text), HeldRow>,
    blocked: BTreeMap<(Text, Text, Text), HeldRow>,
    stacks: BTreeMap<(Text, Text), Looks>,
    turns: HashMap<Text, TurnRow>,
    resources: HashMap<Key, ResourceRow>,
}

/// Where it is known who was to blame for a wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Loop(u64),
    Gil,
    Workers,
    Pool,
    Resource(u32),
    Nowhere,
}

impl<'a> Analysis<'a> {
    /// Reads files, each with chunks of any processes in any order.
    pub fn new(inputs: Vec<&'a [u8]>) -> Result<Self, Unreadable> {
        Self::of(Scan::new(inputs)?)
    }

    /// The same of the chunks that were found.
    pub fn of(scan: Scan<'a>) -> Result<Self, Unreadable> {
        Self::cut(scan, PART_BYTES, KEPT_BYTES)
    }

    /// The same, with other sizes of a part and of what is kept whole.
    pub fn cut(scan: Scan<'a>, part_bytes: u64, kept_bytes: u64) -> Result<Self, Unreadable> {
        let mut texts = Texts::default();
        let culprits = Culprits::new(&mut texts);
        let mut analysis = Self {
            texts,
            skipped: Skipped::default(),
            processes: Vec::new(),
            jobs: Vec::new(),
            blame: Vec::new(),
            calls: Vec::new(),
            held: Vec::new(),
            blocked: Vec::new(),
            unfinished: Vec::new(),
            stacks: Vec::new(),
            looks: Vec::new(),
            own: Vec::new(),
            turns: Vec::new(),
            resources: Vec::new(),
            samples: Vec::new(),
            kept: Vec::new(),
            culprits,
            keeps_all: scan.bytes() <= kept_bytes,
            scan,
            parts: Vec::new(),
        };
        let mut sums = Sums::default();
        for index in 0..analysis.scan.origins.len() {
            let origin = &analysis.scan.origins[index];
            let mut row = ProcessRow {
                pid: origin.pid,
                lost_events: origin.lost_events,
                torn_bytes: origin.torn_bytes,
                dropped_chunks: origin.dropped_chunks,
                missing_chunks: origin.missing_chunks,
                from_ns: u64::MAX,
                ..ProcessRow::default()
            };
            let parts = Parts::of(&mut analysis.scan, index, part_bytes, &mut analysis.texts);
            if let Some(Event::About { json, .. }) = parts.as_ref().and_then(Parts::about) {
                row.about = json;
            }
            let count = parts.as_ref().map_or(1, Parts::count);
            analysis.parts.push(parts);
            for part in 0..count {
                analysis.part(index as u32, part, part + 1 == count, &mut row, &mut sums);
            }
            row.from_ns = row.from_ns.min(row.to_ns);
            analysis.processes.push(row);
        }
        analysis.skipped = analysis.scan.skipped;
        analysis.finish(sums);
        Ok(analysis)
    }

    /// What a part of a process adds to the rows.
    fn part(&mut self, process: u32, part: u32, last: bool, row: &mut ProcessRow, sums: &mut Sums) {
        let parts = std::mem::take(&mut self.parts);
        let (read, timeline, names) = self.laid_out(&parts, process, part);
        row.unknown_units += timeline.unknown_units;
        let jobs = |job: u64| match &parts[process as usize] {
            Some(parts) => parts.of_job(job) == part,
            None => true,
        };
        let own = Own {
            around: &read.events,
            events: read.own.clone(),
            ns: read.own_ns.clone(),
            jobs: &jobs,
        };
        let looked_at = self.own.len();
        let by_unit = self.rows(process, &timeline, &names, row, sums, &own);
        let by_job = ByJob::new(&timeline);
        if last && !self.scan.origins[process as usize].goes_on {
            row.marks.sort_unstable();
            let marks = row.marks.iter();
            let marks = marks.map(|&(at_ns, what)| (at_ns, self.texts.get(what)));
            let end = End::of(row.to_ns, marks);
            for (job, mut left) in unfinished_jobs(&timeline, &by_job, end, &by_unit) {
                (left.process, left.route) = (process, names.routes[job as usize]);
                self.unfinished.push(left);
            }
        }
        drop(read);
        let kept = self.make_cache(timeline, by_job, names);
        self.account(process, &kept, row, sums, &jobs, looked_at);
        self.parts = parts;
        self.keep((process, part), kept);
    }

    /// A part's events and what they mean.
    fn laid_out(
        &mut self,
        parts: &[Option<Parts>],
        process: u32,
        part: u32,
    ) -> (PartEvents, Timeline, Names) {
        let origin = process as usize;
        let read = match &parts[origin] {
            Some(parts) => parts.events(&mut self.scan, origin, part, &mut self.texts),
            None => {
                let events = self.scan.events(origin, &mut self.texts);
                PartEvents {
                    own: 0..events.len(),
                    own_ns: 0..u64::MAX,
                    events,
                }
            }
        };
        let mut timeline = Timeline::new(&read.events);
        timeline.resources = ResourceEvents::of(&read.events, &read.own, &timeline);
        let (pieces, starts) = (&mut timeline.pieces, &mut timeline.starts);
        hidden_blocking::name_hidden_blocking(&read.events, &timeline.units, pieces, starts);
        let answered = delegated_waits::name_delegated_waits(
            &read.events,
            &timeline.jobs,
            &timeline.units,
            pieces,
            starts,
        );
        let names = Names::new(&timeline, &mut self.texts);
        for (block, unit) in answered {
            timeline.blocks[block as usize].peer = names.name_runner(unit, NONE);
        }
        (read, timeline, names)
    }

    fn make_cache(&mut self, timeline: Timeline, by_job: ByJob, names: Names) -> ProcessCache {
        let occupancy = Occupancy::new(&timeline, &names, &mut self.culprits);
        for &(_, _, by) in timeline.parked.values().flatten() {
            self.culprits.number((by, -1));
        }
        for piece in &timeline.pieces {
            if piece.state == Activity::Wait(WaitKind::Queue) {
                let by = timeline.blocks[piece.block as usize].peer;
                self.culprits.number((by, -1));
            }
        }
        ProcessCache {
            timeline,
            by_job,
            names,
            occupancy,
        }
    }

    fn keep(&mut self, key: (u32, u32), kept: ProcessCache) {
        if !self.keeps_all && self.kept.len() == KEPT_PARTS {
            self.kept.remove(0);
        }
        self.kept.push((key, kept));
    }

    /// What is left of the part that a job is of; laid out again if need be. To be given back to [`Analysis::keep`].
    fn take(&mut self, process: u32, job: u64) -> Option<((u32, u32), ProcessCache)> {
        let part = match self.parts.get(process as usize)? {
            Some(parts) => parts.of_job(job),
            None => 0,
        };
        let key = (process, part);
        if let Some(at) = self.kept.iter().position(|kept| kept.0 == key) {
            return Some(self.kept.remove(at));
        }
        if self.kept.len() == KEPT_PARTS {
            self.kept.remove(0);
        }
        let parts = std::mem::take(&mut self.parts);
        let (read, timeline, names) = self.laid_out(&parts, process, part);
        self.parts = parts;
        drop(read);
        let by_job = ByJob::new(&timeline);
        Some((key, self.make_cache(timeline, by_job, names)))
    }

    /// Rows that need no accounting. Gives the stacks of each unit, by time.
    fn rows(
        &mut self,
        process: u32,
        timeline: &Timeline,
        names: &Names,
        row: &mut ProcessRow,
        sums: &mut Sums,
        own: &Own<'_>,
    ) -> HashMap<u32, Vec<(u64, Text)>> {
        let mut stacks: HashMap<u32, Vec<(u64, Text)>> = HashMap::new();
        let mut looks: BTreeMap<u64, LookRow> = BTreeMap::new();
        let mut seen: BTreeMap<(u64, Text), u64> = BTreeMap::new();
        let waits = Waits::of(own.around);
        for (number, event) in own.around.iter().enumerate() {
            let counts = own.events.contains(&number);
            if counts && !matches!(event, Event::Unit { .. } | Event::About { .. }) {
                let (from_ns, to_ns) = event.span_ns();
                row.from_ns = row.from_ns.min(from_ns);
                row.to_ns = row.to_ns.max(to_ns);
            }
            match *event {
                Event::Call {
                    unit,
                    from_ns,
                    ready_ns,
                    ..
                } if counts => {
                    let waited_ns = waits.within(unit, from_ns, ready_ns.max(from_ns));
                    let row = call_row(process, event, timeline, names, waited_ns);
                    self.calls.extend(row);
                }
                Event::Stack {
                    at_ns,
                    unit,
                    job,
                    weight_ns,
                    stack,
                    kept_ns,
                } => {
                    stacks.entry(unit).or_default().push((at_ns, stack));
                    let blocked = weight_ns == 0 && timeline.is_blocked(unit, at_ns);
                    if job != 0 && !blocked && (own.jobs)(job) {
                        *seen.entry((job, stack)).or_default() += 1;
                    }
                    if weight_ns > 0 && counts {
                        let culprit = match timeline.job_number(job) as usize {
                            number if number < names.routes.len() => names.routes[number],
                            _ => match timeline.unit_number(unit) {
                                Some(unit) => names.units[unit as usize],
                                None => self.texts.number("unknown"),
                            },
                        };
                        let looks = sums.stacks.entry((culprit, stack)).or_default();
                        looks.add(weight_ns, kept_ns);
                    }
                }
                Event::Look {
                    at_ns,
                    unit,
                    job,
                    weight_ns,
                    free,
                } if (own.jobs)(job) && timeline.was_computing(unit, job, at_ns) => {
                    let of_job = looks.entry(job).or_insert(LookRow {
                        process,
                        job,
                        looks: 0,
                        ns: 0,
                        free_ns: 0,
                    });
                    of_job.looks += 1;
                    of_job.ns = of_job.ns.saturating_add(weight_ns);
                    if free {
                        of_job.free_ns = of_job.free_ns.saturating_add(weight_ns);
                    }
                }
                Event::Turn {
                    job, how, stops, ..
                } if (own.jobs)(job) => {
                    let number = timeline.job_number(job) as usize;
                    if let Some(&route) = names.routes.get(number) {
                        sums.turns.entry(route).or_default().count(how, stops);
                    }
                }
                Event::Process { .. } if counts => self.samples.push((process, *event)),
                Event::Cost { at_ns, .. } => {
                    let known = row.cost.map_or(0, |cost| cost.span_ns().0);
                    row.cost = if at_ns >= known {
                        Some(*event)
                    } else {
                        row.cost
                    };
                }
                Event::About { json, .. } => row.about = json,
                Event::Mark { at_ns, what } if counts => row.marks.push((at_ns, what)),
                _ => {}
            }
        }
        self.looks.extend(looks.into_values());
        let seen = seen.into_iter();
        self.own.extend(seen.map(|((job, stack), looks)| OwnRow {
            process,
            job,
            route: 0,
            stack,
            cpu_ns: 0,
            looks,
        }));
        for stacks in stacks.values_mut() {
            stacks.sort_unstable();
        }
        self.add_blocks(timeline, names, own, &stacks, sums);
        stacks
    }

    /// Adds the calls that blocked a loop, and those of others whose stack is known.
    fn add_blocks(
        &mut self,
        timeline: &Timeline,
        names: &Names,
        own: &Own<'_>,
        stacks: &HashMap<u32, Vec<(u64, Text)>>,
        sums: &mut Sums,
    ) {
        let counted = |block: &&Block| own.ns.contains(&block.to_ns);
        for block in timeline.blocks.iter().filter(counted) {
            let unit = timeline.units[block.unit as usize].id;
            let of_unit = stacks.get(&unit).map_or(&[][..], Vec::as_slice);
            let first = of_unit.partition_point(|one| one.0 < block.from_ns);
            let stack = of_unit.get(first).filter(|one| one.0 <= block.to_ns);
            if !block.held && stack.is_none() {
                continue;
            }
            let rows = if block.held {
                &mut sums.held
            } else {
                &mut sums.blocked
            };
            let route = names.name_runner(block.unit, block.job);
            let call = self.call_name(block.call, block.peer, block.kind);
            let key = (route, call, stack.map_or(0, |one| one.1));
            let held = rows.entry(key).or_insert(HeldRow {
                route,
                call,
                stack: key.2,
                count: 0,
                ns: 0,
                longest_ns: 0,
            });
            let ns = block.to_ns - block.from_ns;
            held.count += 1;
            held.ns = held.ns.saturating_add(ns);
            held.longest_ns = held.longest_ns.max(ns);
        }
    }

    /// What a holder of a place did, as one text.
    pub fn doing(&mut self, what: Doing) -> Text {
        match what {
            Doing::Nothing => 0,
            Doing::Call(operation, upstream) => self.call_name(operation, upstream, 0),
            Doing::Block(call, peer, kind) => self.call_name(call, peer, kind),
            Doing::Wait(kind) => self.texts.number(wait_name(kind)),
        }
    }

    /// What was called, and whom, as one text.
    fn call_name(&mut self, call: Text, peer: Text, kind: u8) -> Text {
        if peer == 0 && call != 0 {
            return call;
        }
        let call = match call {
            0 => io_name(kind),
            call => self.texts.get(call),
        };
        let called = format!("{call} {}", self.texts.get(peer));
        self.texts.number(called.trim_end())
    }

    /// Rows of the jobs of one process, and who is to blame for their waits.
    fn account(
        &mut self,
        process: u32,
        kept: &ProcessCache,
        row: &mut ProcessRow,
        sums: &mut Sums,
        mine: &dyn Fn(u64) -> bool,
        looked_at: usize,
    ) {
        let ProcessCache {
            timeline,
            by_job,
            names,
            occupancy,
        } = kept;
        let mut waits: Vec<NamedWait> = Vec::new();
        let mut by_victim: BTreeMap<(Text, u8, Place), Vec<(u64, u64)>> = BTreeMap::new();
        let mut of_wait = Tally::new(self.culprits.len());
        let mut of_job = Tally::new(self.culprits.len());
        for (number, job) in timeline.jobs.iter().enumerate() {
            if !mine(job.id) {
                continue;
            }
            let (Some(opened), Some((_, end_ns))) = (job.opened, window(job)) else {
                row.unfinished_jobs += 1;
                continue;
            };
            let account = account(timeline, by_job, number as u32, &mut waits);
            let route = names.routes[number];
            computed_in(&mut self.own[looked_at..], job.id, route, account.cpu_ns);
            for wait in &waits {
                let place = place(timeline, occupancy, number as u32, wait);
                by_victim
                    .entry((route, wait.kind as u8, place))
                    .or_default()
                    .push((wait.from_ns, wait.to_ns));
                charge(occupancy, place, wait, &self.culprits, &mut of_wait);
                of_wait.drain(|culprit, ns| {
                    of_job.add(culprit, ns);
                    let (name, phase) = self.culprits.get(culprit);
                    let sum = sums
                        .rows
                        .entry((route, wait.kind as u8, culprit))
                        .or_insert_with(|| BlameRow {
                            victim: route,
                            kind: wait.kind as u8,
                            culprit: name,
                            phase,
                            ..BlameRow::default()
                        });
                    sum.ns = sum.ns.saturating_add(ns);
                    sum.waits += 1;
                });
            }
            let mut by_name: BTreeMap<Text, u64> = BTreeMap::new();
            of_job.drain(|culprit, ns| {
                *by_name.entry(self.culprits.get(culprit).0).or_default() += ns
            });
            let mut culprits: Vec<(Text, u64)> = by_name.into_iter().collect();
            culprits.sort_by(|one, other| {
                other
                    .1
                    .cmp(&one.1)
                    .then_with(|| self.texts.get(one.0).cmp(self.texts.get(other.0)))
            });
            culprits.truncate(MOST_CULPRITS);
            self.jobs.push(JobRow {
                process,
                job: job.id,
                route,
                host: opened.host,
                status: job.closed.map_or(0, |closed| closed.1),
                clock: opened.clock,
                arrival_ns: opened.arrival_ns,
                spawn_ns: opened.spawn_ns,
                handler_ns: opened.at_ns,
                end_ns,
                deadline_ns: opened.deadline_ns,
                account,
                culprits,
                traced: job.traced,
            });
        }
        lengths(occupancy, by_victim, sums);
        let unknown = self.culprits.get(self.culprits.unknown).0;
        resources::add_rows(timeline, by_job, names, unknown, &mut sums.resources);
    }

    /// Sorts what was collected.
    fn finish(&mut self, sums: Sums) {
        self.jobs
            .sort_by_key(|job| (job.arrival_ns, job.process, job.job));
        self.calls
            .sort_by_key(|call| (call.from_ns, call.process, call.job));
        self.samples
            .sort_by_key(|(process, event)| (event.span_ns(), *process));
        self.looks.sort_by_key(|look| (look.process, look.job));
        let text = |number: Text| self.texts.get(number);
        self.blame = sums.rows.into_values().collect();
        self.blame.sort_by(|one, other| {
            let key = |row: &BlameRow| (u64::MAX - row.ns, row.kind, row.phase);
            key(one)
                .cmp(&key(other))
                .then_with(|| text(one.victim).cmp(text(other.victim)))
                .then_with(|| text(one.culprit).cmp(text(other.culprit)))
        });
        self.held = with_stacks(sums.held);
        self.blocked = sums.blocked.into_values().collect();
        for rows in [&mut self.held, &mut self.blocked] {
            rows.sort_by(|one, other| {
                other.ns.cmp(&one.ns).then_with(|| {
                    let key = |row: &HeldRow| (text(row.route), text(row.call), text(row.stack));
                    key(one).cmp(&key(other))
                })
            });
        }
        let stacks = sums
            .stacks
            .into_iter()
            .map(|((culprit, stack), looks)| (culprit, stack, looks));
        self.stacks = stacks.collect();
        self.stacks.sort_by(|one, other| {
            let key = |row: &(Text, Text, Looks)| (u64::MAX - row.2.ns, text(row.0), text(row.1));
            key(one).cmp(&key(other))
        });
        self.resources = sums.resources.into_iter().collect();
        self.resources.sort_by(|one, other| {
            let key = |row: &(Key, ResourceRow)| {
                (u64::MAX - row.1.ns, row.0 .0, text(row.0 .1), row.0 .2)
            };
            key(one).cmp(&key(other))
        });
        self.turns = sums.turns.into_iter().collect();
        self.turns
            .sort_by(|one, other| text(one.0).cmp(text(other.0)));
    }

    /// The timeline of one job, stretch by stretch; None = there is no such job, or it was cut off.
    pub fn segments(&mut self, process: u32, job: u64) -> Option<Vec<SegmentRow>> {
        let (key, kept) = self.take(process, job)?;
        let segments = self.segments_of(&kept, job);
        self.keep(key, kept);
        segments
    }

    fn segments_of(&mut self, kept: &ProcessCache, job: u64) -> Option<Vec<SegmentRow>> {
        let timeline = &kept.timeline;
        let number = timeline.job_number(job);
        let row = timeline.jobs.get(number as usize)?;
        let (Some(opened), Some((_, end_ns))) = (row.opened, window(row)) else {
            return None;
        };
        let before = before_open(timeline, row);
        let held: HashMap<u64, Text> = before.iter().map(|wait| (wait.from_ns, wait.by)).collect();
        let mut found: Vec<(u32, u64, u64, Activity, u32)> = before
            .into_iter()
            .map(|wait| {
                (
                    wait.unit,
                    wait.from_ns,
                    wait.to_ns,
                    Activity::Wait(wait.kind),
                    NONE,
                )
            })
            .collect();
        for piece in kept.by_job.of(timeline, number) {
            let (from_ns, to_ns) = (piece.from_ns.max(opened.at_ns), piece.to_ns.min(end_ns));
            if from_ns >= to_ns {
                continue;
            }
            let state = match piece.state {
                Activity::Gc => Activity::Run,
                Activity::Io { kind, .. } => Activity::Io {
                    kind,
                    certain: true,
                },
                state => state,
            };
            match found.last_mut() {
                Some(last) if (last.0, last.2, last.3) == (piece.unit, from_ns, state) => {
                    last.2 = to_ns
                }
                _ => found.push((piece.unit, from_ns, to_ns, state, piece.block)),
            }
        }
        found.sort_by_key(|one| (one.1, one.0, one.2));
        let mut segments = Vec::with_capacity(found.len());
        for (unit, from_ns, to_ns, state, block) in found {
            let name = kept.timeline.units[unit as usize].name;
            let block = kept.timeline.blocks.get(block as usize).copied();
            let (state, kind, label) = match state {
                Activity::Run | Activity::Gc => ("cpu", "", 0),
                Activity::Io { kind, .. } => {
                    let label = block.map_or(0, |block| {
                        self.call_name(block.call, block.peer, block.kind)
                    });
                    ("io", io_name(kind), label)
                }
                Activity::Wait(kind) => {
                    let by = match (kind, block) {
                        (WaitKind::Queue, Some(block)) => block.peer,
                        _ => held.get(&from_ns).copied().unwrap_or(0),
                    };
                    let wait = NamedWait {
                        kind,
                        by,
                        unit,
                        from_ns,
                        to_ns,
                    };
                    (
                        "wait",
                        wait_name(kind as u8),
                        self.instead(kept, number, &wait),
                    )
                }
            };
            segments.push(SegmentRow {
                state,
                kind,
                from_ns,
                to_ns,
                unit: name,
                label,
            });
        }
        Some(segments)
    }

    /// Who is to blame for what a job waited between two moments: (culprit, ns), most first.
    pub fn culprits(
        &mut self,
        process: u32,
        job: u64,
        from_ns: u64,
        to_ns: u64,
    ) -> Vec<(Text, u64)> {
        let Some((key, kept)) = self.take(process, job) else {
            return Vec::new();
        };
        let found = self.culprits_of(&kept, job, from_ns, to_ns);
        self.keep(key, kept);
        found
    }

    fn culprits_of(
        &self,
        kept: &ProcessCache,
        job: u64,
        from_ns: u64,
        to_ns: u64,
    ) -> Vec<(Text, u64)> {
        let number = kept.timeline.job_number(job);
        let whole = kept.timeline.jobs.get(number as usize).and_then(window);
        if whole.is_none() {
            return Vec::new();
        }
        let mut waits: Vec<NamedWait> = Vec::new();
        account(&kept.timeline, &kept.by_job, number, &mut waits);
        let mut tally = Tally::new(self.culprits.len());
        for mut wait in waits {
            wait.from_ns = wait.from_ns.max(from_ns);
            wait.to_ns = wait.to_ns.min(to_ns);
            if wait.from_ns < wait.to_ns {
                let at = place(&kept.timeline, &kept.occupancy, number, &wait);
                charge(&kept.occupancy, at, &wait, &self.culprits, &mut tally);
            }
        }
        let mut by_name: BTreeMap<Text, u64> = BTreeMap::new();
        tally.drain(|culprit, ns| *by_name.entry(self.culprits.get(culprit).0).or_default() += ns);
        let mut found: Vec<(Text, u64)> = by_name.into_iter().collect();
        found.sort_by(|one, other| {
            let names = (self.texts.get(one.0), self.texts.get(other.0));
            other.1.cmp(&one.1).then_with(|| names.0.cmp(names.1))
        });
        found
    }

    /// Who ran most of a wait.
    fn instead(&self, kept: &ProcessCache, job: u32, wait: &NamedWait) -> Text {
        let mut tally = Tally::new(self.culprits.len());
        charge(
            &kept.occupancy,
            place(&kept.timeline, &kept.occupancy, job, wait),
            wait,
            &self.culprits,
            &mut tally,
        );
        let mut most = (0, 0);
        tally.drain(|culprit, ns| {
            if ns > most.0 {
                most = (ns, self.culprits.get(culprit).0);
            }
        });
        most.1
    }
}

/// ns by culprit, emptied often.
struct Tally {
    ns: Vec<u64>,
    touched: Vec<u32>,
}

impl Tally {
    fn new(culprits: usize) -> Self {
        Self {
            ns: vec![0; culprits],
            touched: Vec::new(),
        }
    }

    fn add(&mut self, culprit: u32, ns: u64) {
        let sum = &mut self.ns[culprit as usize];
        if *sum == 0 && ns > 0 {
            self.touched.push(culprit);
        }
        *sum += ns;
    }

    fn drain(&mut self, mut tell: impl FnMut(u32, u64)) {
        for culprit in self.touched.drain(..) {
            tell(culprit, std::mem::take(&mut self.ns[culprit as usize]));
        }
    }
}

/// The row of an [`Event::Call`].
fn call_row(
    process: u32,
    event: &Event,
    timeline: &Timeline,
    names: &Names,
    waited_ns: u64,
) -> Option<CallRow> {
    let Event::Call {
        from_ns,
        ready_ns,
        to_ns,
        deadline_ns,
        job,
        upstream,
        operation,
        outcome,
        own_ns,
        ..
    } = *event
    else {
        return None;
    };
    let number = timeline.job_number(job) as usize;
    Some(CallRow {
        process,
        job,
        route: names.routes.get(number).copied().unwrap_or(0),
        upstream,
        operation,
        from_ns,
        ready_ns,
        to_ns,
        deadline_ns,
        outcome,
        own_ns,
        waited_ns,
    })
}

fn place(timeline: &Timeline, occupancy: &Occupancy, job: u32, wait: &NamedWait) -> Place {
    let unit = &timeline.units[wait.unit as usize];
    let resource = match wait.kind {
        WaitKind::Pool | WaitKind::Lock => {
            occupancy
                .resources
                .waited_for(job, wait.from_ns, wait.to_ns)
        }
        _ => None,
    };
    if let Some(resource) = resource {
        return Place::Resource(resource);
    }
    match wait.kind {
        WaitKind::Gil | WaitKind::Permit | WaitKind::Stopped => Place::Gil,
        WaitKind::Loop => Place::Loop(unit.thread),
        WaitKind::Accept if unit.is_green() => Place::Loop(unit.thread),
        WaitKind::Accept => Place::Workers,
        WaitKind::Pool => Place::Pool,
        WaitKind::Lock | WaitKind::Os | WaitKind::Parked | WaitKind::Unseen | WaitKind::Queue => {
            Place::Nowhere
        }
    }
}

fn turns(occupancy: &Occupancy, place: Place) -> Option<&Turns> {
    match place {
        Place::Loop(thread) => occupancy.loops.get(&thread),
        Place::Gil => Some(&occupancy.gil),
        Place::Workers => Some(&occupancy.workers),
        Place::Pool => Some(&occupancy.pool),
        Place::Resource(number) => occupancy.resources.turns(number),
        Place::Nowhere => None,
    }
}

/// Tells for each nanosecond of a wait who is to blame.
fn charge(
    occupancy: &Occupancy,
    place: Place,
    wait: &NamedWait,
    culprits: &Culprits,
    tally: &mut Tally,
) {
    let mut left_ns = wait.to_ns - wait.from_ns;
    if let Some(turns) = turns(occupancy, place) {
        turns.charge(wait.from_ns, wait.to_ns, |culprit, ns| {
            left_ns -= ns;
            tally.add(culprit, ns);
        });
    }
    let nobody = match wait.kind {
        WaitKind::Gil => culprits.native,
        WaitKind::Os => culprits.os,
        WaitKind::Unseen => culprits.unseen,
        WaitKind::Parked | WaitKind::Queue => culprits
            .find_number((wait.by, -1))
            .unwrap_or(culprits.unknown),
        _ => culprits.unknown,
    };
    tally.add(nobody, left_ns);
}

/// Shares a job's CPU out among the places where it was seen, which stand together.
fn computed_in(own: &mut [OwnRow], job: u64, route: Text, cpu_ns: u64) {
    let first = own.partition_point(|row| row.job < job);
    let end = first + own[first..].partition_point(|row| row.job == job);
    let looks: u64 = own[first..end].iter().map(|row| row.looks).sum();
    for row in &mut own[first..end] {
        row.route = route;
        row.cpu_ns = (u128::from(cpu_ns) * u128::from(row.looks) / u128::from(looks)) as u64;
    }
}

/// Which slices of the culprits did it, and how long they were.
fn lengths(
    occupancy: &Occupancy,
    by_victim: BTreeMap<(Text, u8, Place), Vec<(u64, u64)>>,
    sums: &mut Sums,
) {
    let mut seen = vec![0u32; occupancy.spans.len()];
    let (mut group, mut last) = (0, None);
    for ((victim, kind, place), waits) in by_victim {
        if last != Some((victim, kind)) {
            group += 1;
            last = Some((victim, kind));
        }
        let Some(turns) = turns(occupancy, place) else {
            continue;
        };
        turns.weigh(&waits, |turn, ns| {
            let Some(&length_ns) = occupancy.spans.get(turn.span as usize) else {
                return;
            };
            let Some(row) = sums.rows.get_mut(&(victim, kind, turn.culprit)) else {
                return;
            };
            if seen[turn.span as usize] != group {
                seen[turn.span as usize] = group;
                row.slices += 1;
                row.longest_ns = row.longest_ns.max(length_ns);
            }
            let index = (length_ns / 1000).max(1).ilog2() as usize;
            if row.by_length_ns.len() <= index {
                row.by_length_ns.resize(index + 1, 0);
            }
            row.by_length_ns[index] = row.by_length_ns[index].saturating_add(ns);
        });
    }
}

/// Rows of one call without a stack are shared out among those with one, by their number: the same places, not all
/// looked at.
fn with_stacks(held: BTreeMap<(Text, Text, Text), HeldRow>) -> Vec<HeldRow> {
    let (stackless, mut rows): (Vec<_>, Vec<_>) =
        held.into_values().partition(|row| row.stack == 0);
    for mut lost in stackless {
        let same = |row: &&mut HeldRow| (row.route, row.call) == (lost.route, lost.call);
        let seen: u64 = rows.iter_mut().filter(same).map(|row| row.count).sum();
        let whole = (lost.count, lost.ns);
        let part = |of: u64, count: u64| {
            (u128::from(of) * u128::from(count) / u128::from(seen.max(1))) as u64
        };
        let mut last = None;
        for row in rows.iter_mut().filter(same) {
            let (count, ns) = (part(whole.0, row.count), part(whole.1, row.count));
            (lost.count, lost.ns) = (lost.count - count, lost.ns - ns);
            row.count += count;
            row.ns = row.ns.saturating_add(ns);
            row.longest_ns = row.longest_ns.max(lost.longest_ns);
            last = Some(row);
        }
        match last {
            Some(row) => {
                row.count += lost.count;
                row.ns = row.ns.saturating_add(lost.ns);
            }
            None => rows.push(lost),
        }
    }
    rows
}

/// Of each unit, the stretches in which it could have run and did not: sorted, none within another.
struct Waits(HashMap<u32, Vec<(u64, u64)>>);

impl Waits {
    /// Those of the units that call upstreams.
    fn of(events: &[Event]) -> Self {
        let mut waits: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
        for event in events {
            if let Event::Call { unit, .. } = *event {
                waits.entry(unit).or_default();
            }
        }
        for event in events {
            let (unit, from_ns, to_ns) = match *event {
                Event::Wait {
                    unit,
                    from_ns,
                    to_ns,
                    ..
                } => (unit, from_ns, to_ns),
                Event::Block {
                    unit,
                    ready_ns,
                    to_ns,
                    ..
                } if ready_ns != 0 => (unit, ready_ns, to_ns),
                _ => continue,
            };
            if let (Some(of_unit), true) = (waits.get_mut(&unit), from_ns < to_ns) {
                of_unit.push((from_ns, to_ns));
            }
        }
        for of_unit in waits.values_mut() {
            of_unit.sort_unstable();
            let mut end_ns = 0;
            of_unit.retain_mut(|one| {
                one.0 = one.0.max(end_ns);
                end_ns = end_ns.max(one.1);
                one.0 < one.1
            });
        }
        Self(waits)
    }

    /// How much of them lies in a stretch of time.
    fn within(&self, unit: u32, from_ns: u64, to_ns: u64) -> u64 {
        let of_unit = self.0.get(&unit).map_or(&[][..], Vec::as_slice);
        let first = of_unit.partition_point(|one| one.1 <= from_ns);
        let overlaps = of_unit[first..].iter().take_while(|one| one.0 < to_ns);
        overlaps
            .map(|one| one.1.min(to_ns) - one.0.max(from_ns))
            .sum()
    }
}

/// What `rows.py` calls a kind of wait.
pub fn wait_name(kind: u8) -> &'static str {
    [
        "gil", "loop", "permit", "accept", "lock", "pool", "os", "stopped", "parked", "blocked",
        "queue",
    ][usize::from(kind)]
}

/// What `rows.py` calls a kind of I/O: `phase.Kind`, later ones as "host".
pub fn io_name(kind: u8) -> &'static str {
    let names = [
        "socket", "ssl", "dns", "select", "sleep", "lock", "queue", "future", "process", "driver",
        "host",
    ];
    names[usize::from(kind).min(names.len() - 1)]
}

/// What `rows.py` calls a kind of resource.
pub fn resource_name(kind: u8) -> &'static str {
    ["connections", "threads", "semaphore", "lock", "processes"][usize::from(kind)]
}

/// What `rows.py` calls a clock.
pub fn clock_name(clock: ArrivalClock) -> &'static str {
    [
        "handler", "spawn", "accept", "kernel", "header", "enqueue", "given",
    ][clock as usize]
}

/// What `rows.py` calls an outcome.
pub fn outcome_name(outcome: Outcome) -> &'static str {
    ["ok", "error", "timeout"][outcome as usize]
}
