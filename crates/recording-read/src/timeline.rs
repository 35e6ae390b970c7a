//! What each unit of a process did at each moment: its events laid over each other, as disjoint pieces.
//!
//! What was said to run without its end lies lowest, then its slices, then the garbage collector, then what blocked it, then its named waits on top; where
//! two of one layer overlap, the one that began later counts. Of a measured slice the part that no event explains and
//! that used no CPU was off the core; where in the slice that was nobody knows, so it stands at the end of each
//! [`QUANTUM_NS`] of it.

use super::contended::ResourceEvents;
use greenlane_recording_format::event::{
    ArrivalClock, Event, Text, UnitKind, WaitKind, HELD_THE_LOOP, TIMED_OUT,
};
use std::collections::{BinaryHeap, HashMap};

/// Time off the core is spread over a slice in steps of this.
pub const QUANTUM_NS: u64 = 1_000_000;
/// But not in more steps than this a piece: a damaged time must not fill the memory.
const MOST_QUANTA: u64 = 64;
/// No slice, no block, no job.
pub const NONE: u32 = u32::MAX;

/// Numbers of `phase.Kind` that are not I/O: they end when something else of the process lets them.
const SLEEP: u8 = 4;
const LOCK: u8 = 5;
const QUEUE: u8 = 6;
const FUTURE: u8 = 7;
const HOST: u8 = 10;

/// The layer of slices: one lies below them, three above.
const SLICE: u8 = 1;

/// What a unit does at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    Run,
    Gc,
    Wait(WaitKind),
    /// By `phase.Kind`; not `certain`: it may have been ready already.
    Io {
        kind: u8,
        certain: bool,
    },
}

/// A stretch of one unit's timeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    pub from_ns: u64,
    pub to_ns: u64,
    /// Index of [`Timeline::units`].
    pub unit: u32,
    /// Index of [`Timeline::jobs`], or `NONE`.
    pub job: u32,
    /// The slice that it lies in, or `NONE`: then its thread was free for others.
    pub slice: u32,
    /// The block that it is of, or `NONE`.
    pub block: u32,
    pub state: Activity,
    /// The thread itself was blocked, and everybody on it.
    pub held: bool,
}

/// What runs.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    pub id: u32,
    pub kind: UnitKind,
    /// Of the operating system; unknown ones get a number of their own.
    pub thread: u64,
    pub name: Text,
}

impl Unit {
    /// Whether it takes turns with others on a loop's thread.
    pub fn is_green(&self) -> bool {
        matches!(self.kind, UnitKind::Greenlet | UnitKind::Task)
    }
}

/// A job's beginning.
#[derive(Clone, Copy, Debug)]
pub struct JobOpening {
    pub at_ns: u64,
    pub unit: u32,
    pub arrival_ns: u64,
    pub spawn_ns: u64,
    pub deadline_ns: u64,
    pub clock: ArrivalClock,
    pub host: Text,
}

/// What is said about a job.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub id: u64,
    pub route: Text,
    pub opened: Option<JobOpening>,
    /// (when, status)
    pub closed: Option<(u64, u16)>,
    /// Its trace (high half, low half) and its span there; zeros = none.
    pub traced: (u64, u64, u64),
}

/// A slice as it was written.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    pub from_ns: u64,
    pub to_ns: u64,
    pub phase: u16,
    /// The first of those that only waits for the GIL cut apart, and when the last of them ends.
    pub head: u32,
    pub stretch_to_ns: u64,
    /// Its end is not in the recording: `to_ns` is when it was last seen running.
    pub open: bool,
    cpu_ns: u64,
}

/// A block as it was written.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub from_ns: u64,
    pub to_ns: u64,
    pub unit: u32,
    pub job: u32,
    pub kind: u8,
    pub held: bool,
    pub call: Text,
    pub peer: Text,
}

/// Everything about the units and jobs of one process.
#[derive(Default)]
pub struct Timeline {
    pub units: Vec<Unit>,
    pub jobs: Vec<Job>,
    pub slices: Vec<Slice>,
    pub blocks: Vec<Block>,
    /// By job: when it was held back before its first instruction, and by what.
    pub parked: HashMap<u32, Vec<(u64, u64, Text)>>,
    /// What is said of pools and others that have places.
    pub resources: ResourceEvents,
    /// By unit, then by time.
    pub pieces: Vec<Piece>,
    /// Where the pieces of each unit begin; one more than units.
    pub starts: Vec<usize>,
    /// Units whose beginning is not in the recording.
    pub unknown_units: u64,
    unit_numbers: HashMap<u32, u32>,
    job_numbers: HashMap<u64, u32>,
}

/// An event's time on its unit, before those above it are laid over it.
#[derive(Clone, Copy)]
struct Span {
    from_ns: u64,
    to_ns: u64,
    layer: u8,
    /// When it began before it was cut, and its event's number: of one layer the last one counts.
    begun_ns: u64,
    event: u32,
    unit: u32,
    job: u32,
    slice: u32,
    block: u32,
    state: Activity,
    held: bool,
}

/// From `at_ns` on a unit worked for `job`.
struct JobAttachment {
    unit: u32,
    at_ns: u64,
    job: u32,
}

impl Timeline {
    /// Lays out the events of one process, in any order.
    pub fn new(events: &[Event]) -> Self {
        let mut timeline = Self::default();
        for event in events {
            timeline.note_unit(event);
        }
        for event in events {
            timeline.note_job(event);
        }
        let turns = timeline.turns(events);
        let mut spans = timeline.spans(events, &turns);
        timeline.running(events, &turns, &mut spans);
        timeline.lay(spans);
        timeline
    }

    /// The number of the unit that the recording calls `id`.
    pub fn unit_number(&self, id: u32) -> Option<u32> {
        self.unit_numbers.get(&id).copied()
    }

    /// The number of the job that the recording calls `id`; `NONE` for none.
    pub fn job_number(&self, id: u64) -> u32 {
        self.job_numbers.get(&id).copied().unwrap_or(NONE)
    }

    /// The pieces of one unit, by time.
    pub fn pieces_of(&self, unit: u32) -> &[Piece] {
        &self.pieces[self.starts[unit as usize]..self.starts[unit as usize + 1]]
    }

    /// Whether a unit computed for a job at that moment, or would have with a core: nobody knows at which moments of a
    /// slice it was off the core.
    pub fn was_computing(&self, unit: u32, job: u64, at_ns: u64) -> bool {
        let Some(unit) = self.unit_number(unit) else {
            return false;
        };
        let pieces = self.pieces_of(unit);
        let here = pieces.partition_point(|piece| piece.to_ns <= at_ns);
        pieces.get(here).is_some_and(|piece| {
            let ran = match piece.state {
                Activity::Run | Activity::Gc => true,
                Activity::Wait(WaitKind::Os | WaitKind::Unseen) => piece.block == NONE,
                _ => false,
            };
            let of_job = piece.job != NONE && piece.job == self.job_number(job);
            piece.from_ns <= at_ns && piece.slice != NONE && ran && of_job
        })
    }

    /// Whether a unit was in a call that blocks.
    pub fn is_blocked(&self, unit: u32, at_ns: u64) -> bool {
        let pieces = self
            .unit_number(unit)
            .map_or(&[][..], |unit| self.pieces_of(unit));
        let here = pieces.partition_point(|piece| piece.to_ns <= at_ns);
        let blocked = |piece: &Piece| {
            piece.from_ns <= at_ns
                && matches!(
                    piece.state,
                    Activity::Io { .. } | Activity::Wait(WaitKind::Lock)
                )
        };
        pieces.get(here).is_some_and(blocked)
    }

    fn note_unit(&mut self, event: &Event) {
        if let Event::Unit {
            unit: id,
            kind,
            thread,
            name,
            ..
        } = *event
        {
            let thread = u64::from(thread);
            if let Some(&number) = self.unit_numbers.get(&id) {
                let known = &mut self.units[number as usize];
                if name != 0 {
                    known.name = name; // Written again with the name that it got later.
                }
                return;
            }
            self.unit_numbers.insert(id, self.units.len() as u32);
            self.units.push(Unit {
                id,
                kind,
                thread,
                name,
            });
        }
    }

    /// The number of a unit, made up if its beginning is not in the recording: a thread of its own.
    fn unit(&mut self, id: u32) -> u32 {
        if let Some(&number) = self.unit_numbers.get(&id) {
            return number;
        }
        let number = self.units.len() as u32;
        self.unit_numbers.insert(id, number);
        self.unknown_units += 1;
        self.units.push(Unit {
            id,
            kind: UnitKind::Thread,
            thread: u64::from(u32::MAX) + 1 + u64::from(id),
            name: 0,
        });
        number
    }

    fn job(&mut self, id: u64) -> u32 {
        if id == 0 {
            return NONE;
        }
        if let Some(&number) = self.job_numbers.get(&id) {
            return number;
        }
        let number = self.jobs.len() as u32;
        self.job_numbers.insert(id, number);
        self.jobs.push(Job {
            id,
            route: 0,
            opened: None,
            closed: None,
            traced: (0, 0, 0),
        });
        number
    }

    fn note_job(&mut self, event: &Event) {
        match *event {
            Event::JobOpen {
                at_ns,
                job,
                unit,
                arrival_ns,
                spawn_ns,
                deadline_ns,
                clock,
                host,
                ..
            } => {
                let (job, unit) = (self.job(job), self.unit(unit));
                if job == NONE || self.jobs[job as usize].opened.is_some() {
                    return;
                }
                let arrival_ns = match arrival_ns {
                    0 => at_ns,
                    arrival_ns => arrival_ns.min(at_ns),
                };
                let spawn_ns = match spawn_ns {
                    0 => 0,
                    spawn_ns => spawn_ns.clamp(arrival_ns, at_ns),
                };
                self.jobs[job as usize].opened = Some(JobOpening {
                    at_ns,
                    unit,
                    arrival_ns,
                    spawn_ns,
                    deadline_ns,
                    clock,
                    host,
                });
            }
            Event::Parked {
                from_ns,
                to_ns,
                job,
                by,
            } => {
                let job = self.job(job);
                if job != NONE && from_ns < to_ns {
                    self.parked
                        .entry(job)
                        .or_default()
                        .push((from_ns, to_ns, by));
                }
            }
            Event::JobName { job, route, .. } => {
                let job = self.job(job);
                if job != NONE {
                    self.jobs[job as usize].route = route;
                }
            }
            Event::Traced {
                job,
                trace_high,
                trace_low,
                span,
                ..
            } => {
                let job = self.job(job);
                if job != NONE {
                    // The outermost span counts: others of the same job are children of it.
                    let traced = &mut self.jobs[job as usize].traced;
                    if *traced == (0, 0, 0) {
                        *traced = (trace_high, trace_low, span);
                    }
                }
            }
            Event::JobClose { at_ns, job, status } => {
                let job = self.job(job);
                if job != NONE {
                    self.jobs[job as usize]
                        .closed
                        .get_or_insert((at_ns, status));
                }
            }
            _ => {}
        }
    }

    /// When units changed their job, by unit and time.
    fn turns(&mut self, events: &[Event]) -> Vec<JobAttachment> {
        let mut turns = Vec::new();
        let mut closings = HashMap::new();
        for event in events {
            if let Event::Attach { at_ns, unit, job } = *event {
                let (unit, job) = (self.unit(unit), self.job(job));
                turns.push(JobAttachment { unit, at_ns, job });
            }
        }
        for (number, job) in self.jobs.iter().enumerate() {
            let Some(opened) = job.opened else { continue };
            let (unit, number) = (opened.unit, number as u32);
            turns.push(JobAttachment {
                unit,
                at_ns: opened.at_ns,
                job: number,
            });
            if let Some((at_ns, _)) = job.closed {
                closings.insert((unit, at_ns), number);
                turns.push(JobAttachment {
                    unit,
                    at_ns,
                    job: NONE,
                });
            }
        }
        turns.sort_by_key(|turn| (turn.unit, turn.at_ns));
        // The end of a job that its unit no longer works for changes nothing.
        let mut current = (NONE, NONE);
        turns.retain(|turn| {
            let before = if current.0 == turn.unit {
                current.1
            } else {
                NONE
            };
            let closes = closings.get(&(turn.unit, turn.at_ns));
            if turn.job == NONE && closes.is_some_and(|&job| job != before) {
                return false;
            }
            current = (turn.unit, turn.job);
            true
        });
        turns
    }

    fn spans(&mut self, events: &[Event], turns: &[JobAttachment]) -> Vec<Span> {
        let mut spans = Vec::new();
        for (number, event) in events.iter().enumerate() {
            let (mut span, job) = match *event {
                Event::Slice {
                    from_ns,
                    to_ns,
                    unit,
                    job,
                    phase,
                    cpu_ns,
                } if from_ns < to_ns => {
                    let mut span = self.span(from_ns, to_ns, SLICE, unit, Activity::Run);
                    span.slice = self.slice(from_ns, to_ns, phase, cpu_ns);
                    (span, job)
                }
                Event::Gc {
                    from_ns,
                    to_ns,
                    unit,
                    ..
                } if from_ns < to_ns => {
                    (self.span(from_ns, to_ns, SLICE + 1, unit, Activity::Gc), 0)
                }
                Event::Wait {
                    from_ns,
                    to_ns,
                    unit,
                    job,
                    kind,
                } if from_ns < to_ns => (
                    self.span(from_ns, to_ns, SLICE + 3, unit, Activity::Wait(kind)),
                    job,
                ),
                Event::Block { from_ns, to_ns, .. } if from_ns < to_ns => {
                    self.block(event, number as u32, turns, &mut spans);
                    continue;
                }
                _ => continue,
            };
            span.job = self.job(job);
            span.event = number as u32;
            split(span, turns, &mut spans);
        }
        spans
    }

    fn slice(&mut self, from_ns: u64, to_ns: u64, phase: u16, cpu_ns: u64) -> u32 {
        let head = self.slices.len() as u32;
        self.slices.push(Slice {
            from_ns,
            to_ns,
            phase,
            head,
            stretch_to_ns: to_ns,
            open: false,
            cpu_ns,
        });
        head
    }

    /// What was running when the process was killed counts as far as it is known.
    fn running(&mut self, events: &[Event], turns: &[JobAttachment], spans: &mut Vec<Span>) {
        let mut begun: HashMap<(u32, u64), (u64, u64)> = HashMap::new();
        for event in events {
            if let Event::Running {
                at_ns,
                unit,
                job,
                from_ns,
            } = *event
            {
                let last = begun.entry((unit, from_ns)).or_insert((at_ns, job));
                *last = (*last).max((at_ns, job));
            }
        }
        if begun.is_empty() {
            return;
        }
        for event in events {
            if let Event::Slice { from_ns, unit, .. } = *event {
                begun.remove(&(unit, from_ns)); // It ended.
            }
        }
        for ((unit, from_ns), (to_ns, job)) in begun {
            if from_ns < to_ns {
                let mut span = self.span(from_ns, to_ns, SLICE - 1, unit, Activity::Run);
                span.slice = self.slice(from_ns, to_ns, 0, u64::MAX);
                self.slices[span.slice as usize].open = true;
                span.job = self.job(job);
                split(span, turns, spans);
            }
        }
    }

    fn span(&mut self, from_ns: u64, to_ns: u64, layer: u8, unit: u32, state: Activity) -> Span {
        Span {
            from_ns,
            to_ns,
            layer,
            begun_ns: from_ns,
            event: 0,
            unit: self.unit(unit),
            job: NONE,
            slice: NONE,
            block: NONE,
            state,
            held: false,
        }
    }

    /// A block: I/O, what may be I/O, and what is left until the unit ran again.
    fn block(
        &mut self,
        event: &Event,
        number: u32,
        turns: &[JobAttachment],
        spans: &mut Vec<Span>,
    ) {
        let Event::Block {
            from_ns,
            known_ns,
            ready_ns,
            to_ns,
            unit,
            job,
            kind,
            flags,
            call,
            peer,
        } = *event
        else {
            return;
        };
        let held = flags & HELD_THE_LOOP != 0;
        let ready_ns = match ready_ns {
            0 => to_ns,
            ready_ns => ready_ns.clamp(from_ns, to_ns),
        };
        let known_ns = known_ns.clamp(from_ns, ready_ns);
        let mut span = self.span(from_ns, to_ns, SLICE + 2, unit, Activity::Run);
        span.job = self.job(job);
        span.block = self.blocks.len() as u32;
        span.held = held;
        span.event = number;
        self.blocks.push(Block {
            from_ns,
            to_ns,
            unit: span.unit,
            job: span.job,
            kind,
            held,
            call,
            peer,
        });
        let off = if self.units[span.unit as usize].is_green() && !held {
            WaitKind::Loop
        } else {
            WaitKind::Os
        };
        let (blocked, perhaps) = match kind {
            // Its own time-out ended it: it has slept.
            LOCK | QUEUE if flags & TIMED_OUT != 0 => {
                let slept = Activity::Io {
                    kind: SLEEP,
                    certain: true,
                };
                (slept, slept)
            }
            LOCK | QUEUE => (
                Activity::Wait(WaitKind::Lock),
                Activity::Wait(WaitKind::Lock),
            ),
            FUTURE => (
                Activity::Wait(WaitKind::Pool),
                Activity::Wait(WaitKind::Pool),
            ),
            kind => {
                let kind = kind.min(HOST);
                let io = |certain| Activity::Io { kind, certain };
                (io(true), io(false))
            }
        };
        let parts = [
            (from_ns, known_ns, blocked),
            (known_ns, ready_ns, perhaps),
            (ready_ns, to_ns, Activity::Wait(off)),
        ];
        for (from_ns, to_ns, state) in parts {
            if from_ns < to_ns {
                let part = Span {
                    from_ns,
                    to_ns,
                    begun_ns: from_ns,
                    state,
                    ..span
                };
                split(part, turns, spans);
            }
        }
    }

    /// Lays the spans of each unit over each other.
    fn lay(&mut self, mut spans: Vec<Span>) {
        spans.sort_by_key(|span| (span.unit, span.from_ns, span.layer));
        let (mut rest, mut laid) = (&spans[..], Vec::new());
        for unit in 0..self.units.len() as u32 {
            self.starts.push(self.pieces.len());
            let here = rest.partition_point(|span| span.unit == unit);
            laid.clear();
            lay_one(&rest[..here], &mut laid);
            rest = &rest[here..];
            join(&mut laid, &mut self.slices);
            off_the_core(&laid, &self.slices, &mut self.pieces);
        }
        self.starts.push(self.pieces.len());
    }
}

/// Cuts a span where its unit changed its job. What was written at its end holds for the last part.
fn split(mut span: Span, turns: &[JobAttachment], spans: &mut Vec<Span>) {
    let first = turns.partition_point(|turn| (turn.unit, turn.at_ns) <= (span.unit, span.from_ns));
    let mut before = match first.checked_sub(1).map(|last| &turns[last]) {
        Some(turn) if turn.unit == span.unit => turn.job,
        _ => NONE,
    };
    if span.state == Activity::Gc {
        span.job = before; // Says nothing of its job.
    }
    for turn in &turns[first..] {
        if turn.unit != span.unit || turn.at_ns >= span.to_ns {
            break;
        }
        if turn.at_ns > span.from_ns {
            spans.push(Span {
                to_ns: turn.at_ns,
                job: before,
                ..span
            });
            span.from_ns = turn.at_ns;
        }
        before = turn.job;
        if span.state == Activity::Gc {
            span.job = before;
        }
    }
    spans.push(span);
}

/// Disjoint pieces of one unit's spans, which are sorted by their begin.
fn lay_one(spans: &[Span], laid: &mut Vec<Piece>) {
    // Of those that go on now: (layer, begin, event, index), the greatest counts. And the slices alone, for what lies below.
    let mut active: BinaryHeap<(u8, u64, u32, usize)> = BinaryHeap::new();
    let mut slices: BinaryHeap<(u64, usize)> = BinaryHeap::new();
    let (mut next, mut now_ns) = (0, 0);
    loop {
        while active
            .peek()
            .is_some_and(|&(_, _, _, index)| spans[index].to_ns <= now_ns)
        {
            active.pop();
        }
        while slices
            .peek()
            .is_some_and(|&(_, index)| spans[index].to_ns <= now_ns)
        {
            slices.pop();
        }
        if active.is_empty() {
            let Some(span) = spans.get(next) else { break };
            now_ns = span.from_ns;
        }
        while let Some(span) = spans.get(next).filter(|span| span.from_ns <= now_ns) {
            active.push((span.layer, span.begun_ns, span.event, next));
            if span.layer <= SLICE {
                slices.push((span.begun_ns, next));
            }
            next += 1;
        }
        let Some(&(_, _, _, index)) = active.peek() else {
            break;
        };
        let top = &spans[index];
        let below = slices.peek().map(|&(_, index)| &spans[index]);
        let mut to_ns = top.to_ns;
        if let Some(span) = spans.get(next) {
            to_ns = to_ns.min(span.from_ns);
        }
        if let Some(slice) = below {
            to_ns = to_ns.min(slice.to_ns);
        }
        let piece = Piece {
            from_ns: now_ns,
            to_ns,
            unit: top.unit,
            job: top.job,
            slice: below.map_or(NONE, |span| span.slice),
            block: top.block,
            state: top.state,
            held: top.held,
        };
        push(laid, piece);
        now_ns = to_ns;
    }
}

/// Adds a piece, to the last one if that goes on.
fn push(pieces: &mut Vec<Piece>, piece: Piece) {
    if let Some(last) = pieces.last_mut() {
        let same = Piece {
            from_ns: last.from_ns,
            to_ns: last.to_ns,
            ..piece
        };
        if last.to_ns == piece.from_ns && *last == same {
            last.to_ns = piece.to_ns;
            return;
        }
    }
    if piece.from_ns < piece.to_ns {
        pieces.push(piece);
    }
}

/// A slice that waits for the GIL cut in two still had its thread: the wait belongs to it, and its length is of both.
fn join(laid: &mut [Piece], slices: &mut [Slice]) {
    for index in 2..laid.len() {
        let (before, gap, after) = (laid[index - 2], laid[index - 1], laid[index]);
        let waits = gap.state == Activity::Wait(WaitKind::Gil) && gap.slice == NONE;
        let adjoin = before.to_ns == gap.from_ns && gap.to_ns == after.from_ns;
        if !waits
            || !adjoin
            || before.slice == NONE
            || after.slice == NONE
            || before.job != after.job
        {
            continue;
        }
        let (first, second) = (slices[before.slice as usize], slices[after.slice as usize]);
        if first.phase == second.phase {
            laid[index - 1].slice = before.slice;
            slices[after.slice as usize].head = first.head;
            slices[first.head as usize].stretch_to_ns = second.to_ns;
        }
    }
}

/// Takes out of the running pieces of measured slices what was not CPU.
fn off_the_core(laid: &[Piece], slices: &[Slice], pieces: &mut Vec<Piece>) {
    let first = pieces.len();
    let runs =
        |piece: &Piece| piece.slice != NONE && matches!(piece.state, Activity::Run | Activity::Gc);
    let mut at = 0;
    while at < laid.len() {
        let slice = laid[at].slice;
        let end = at
            + laid[at..]
                .iter()
                .take_while(|piece| piece.slice == slice)
                .count();
        let ran_ns: u64 = laid[at..end]
            .iter()
            .filter(|piece| runs(piece))
            .map(|piece| piece.to_ns - piece.from_ns)
            .sum();
        let off_ns = match slices.get(slice as usize) {
            Some(slice) => ran_ns.saturating_sub(slice.cpu_ns),
            None => 0,
        };
        // Of the first `done_ns` of the slice's running time.
        let off_by = |done_ns: u64| {
            (u128::from(off_ns) * u128::from(done_ns) / u128::from(ran_ns.max(1))) as u64
        };
        let mut done_ns = 0;
        for piece in &laid[at..end] {
            if off_ns == 0 || !runs(piece) {
                keep(pieces, first, *piece);
                continue;
            }
            let mut from_ns = piece.from_ns;
            let step_ns = QUANTUM_NS.max((piece.to_ns - piece.from_ns) / MOST_QUANTA);
            while from_ns < piece.to_ns {
                let to_ns = piece.to_ns.min(from_ns.saturating_add(step_ns));
                let lost_ns = off_by(done_ns + (to_ns - from_ns)) - off_by(done_ns);
                let middle_ns = to_ns - lost_ns;
                let ran = Piece {
                    from_ns,
                    to_ns: middle_ns,
                    ..*piece
                };
                keep(pieces, first, ran);
                let off = Piece {
                    from_ns: middle_ns,
                    to_ns,
                    state: Activity::Wait(WaitKind::Os),
                    ..*piece
                };
                keep(pieces, first, off);
                done_ns += to_ns - from_ns;
                from_ns = to_ns;
            }
        }
        at = end;
    }
}

/// As [`push`], never to a piece of the unit before.
fn keep(pieces: &mut Vec<Piece>, first: usize, piece: Piece) {
    if pieces.len() > first {
        push(pieces, piece);
    } else if piece.from_ns < piece.to_ns {
        pieces.push(piece);
    }
}
