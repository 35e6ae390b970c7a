//! Who had what at each moment of a process: each loop's thread, the GIL, the workers, the threads of pools.

use super::account::window;
use super::blame::{add, share_out, Candidate, Holding, Turns, MOST_TOGETHER};
use super::culprits::{Culprits, Names};
use super::resources::Resources;
use super::timeline::{Activity, Piece, Timeline, NONE};
use greenlane_recording_format::event::WaitKind;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Who had what; see the module.
#[derive(Default)]
pub struct Occupancy {
    /// By thread, of those that run a loop: who ran on it, or blocked it.
    pub loops: HashMap<u64, Turns>,
    /// Who ran Python, as far as slices tell.
    pub gil: Turns,
    /// Whose jobs the workers had while all were busy, else as `gil`.
    pub workers: Turns,
    /// Whose work threads had that run no loop, blocked or not: others wait for one of them. Else as `gil`.
    pub pool: Turns,
    /// Who had the places of pools that are known.
    pub resources: Resources,
    /// Length of each uninterrupted stretch of work, ns.
    pub spans: Vec<u64>,
}

/// A stretch in which a thread was not free.
#[derive(Clone, Copy)]
struct BusyStretch {
    from_ns: u64,
    to_ns: u64,
    culprit: u32,
    span: u32,
    by: ThreadUse,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ThreadUse {
    Running,
    OffTheCore,
    /// Off the core in a call that nobody saw: it may have had the GIL.
    Unseen,
    Blocked,
    /// Itself waiting for the GIL: somebody else is to blame.
    NoGil,
}

/// Numbers the stretches of work.
struct Spans<'a> {
    timeline: &'a Timeline,
    lengths: Vec<u64>,
    of_slice: Vec<[u32; 2]>,
    of_block: HashMap<u32, u32>,
}

impl Spans<'_> {
    fn new_span(&mut self, length_ns: u64) -> u32 {
        self.lengths.push(length_ns);
        (self.lengths.len() - 1) as u32
    }

    fn of(&mut self, piece: &Piece) -> u32 {
        let own = piece.to_ns - piece.from_ns;
        match piece.state {
            Activity::Gc => self.new_span(own),
            _ if piece.slice == NONE && piece.block == NONE => self.new_span(own),
            _ if piece.slice == NONE => match self.of_block.get(&piece.block) {
                Some(&span) => span,
                None => {
                    let block = self.timeline.blocks.get(piece.block as usize);
                    let span =
                        self.new_span(block.map_or(own, |block| block.to_ns - block.from_ns));
                    self.of_block.insert(piece.block, span);
                    span
                }
            },
            state => {
                let which = usize::from(matches!(
                    state,
                    Activity::Wait(WaitKind::Os | WaitKind::Unseen)
                ));
                let head = self.timeline.slices[piece.slice as usize].head as usize;
                if self.of_slice[head][which] == NONE {
                    let stretch = self.timeline.slices[head];
                    self.of_slice[head][which] =
                        self.new_span(stretch.stretch_to_ns - stretch.from_ns);
                }
                self.of_slice[head][which]
            }
        }
    }
}

impl Occupancy {
    /// Of one process.
    pub fn new(timeline: &Timeline, names: &Names, culprits: &mut Culprits) -> Self {
        let mut spans = Spans {
            timeline,
            lengths: Vec::new(),
            of_slice: vec![[NONE; 2]; timeline.slices.len()],
            of_block: HashMap::new(),
        };
        let threads = busy_stretches(timeline, names, culprits, &mut spans);
        let gil = Turns::new(share_out(&runners(&threads)));
        let workers = Turns::new(workers(timeline, names, culprits, &mut spans, &gil));
        let looping: HashSet<u64> = timeline
            .units
            .iter()
            .filter(|unit| unit.is_green())
            .map(|unit| unit.thread)
            .collect();
        let pool = Turns::new(pool(timeline, names, culprits, &mut spans, &looping, &gil));
        let loops = threads
            .iter()
            .filter(|(thread, _)| looping.contains(thread))
            .map(|(&thread, occupied)| (thread, Turns::new(on_thread(occupied, &gil, culprits))))
            .collect();
        let mut spans = spans.lengths;
        let resources = Resources::new(timeline, names, culprits, &mut spans);
        Self {
            loops,
            gil,
            workers,
            pool,
            resources,
            spans,
        }
    }
}

/// By thread, when it was not free, by time.
fn busy_stretches(
    timeline: &Timeline,
    names: &Names,
    culprits: &mut Culprits,
    spans: &mut Spans<'_>,
) -> BTreeMap<u64, Vec<BusyStretch>> {
    let mut threads: BTreeMap<u64, Vec<BusyStretch>> = BTreeMap::new();
    for piece in &timeline.pieces {
        if piece.slice == NONE && !piece.held {
            continue;
        }
        let by = match piece.state {
            Activity::Run | Activity::Gc => ThreadUse::Running,
            Activity::Wait(WaitKind::Os) if !piece.held => ThreadUse::OffTheCore,
            Activity::Wait(WaitKind::Unseen) => ThreadUse::Unseen,
            Activity::Wait(WaitKind::Gil) => ThreadUse::NoGil,
            Activity::Wait(_) | Activity::Io { .. } => ThreadUse::Blocked,
        };
        let culprit = match (piece.state, by) {
            (Activity::Gc, _) => culprits.gc,
            (_, ThreadUse::OffTheCore) => culprits.os,
            _ => {
                let slice = timeline.slices.get(piece.slice as usize);
                let phase = match slice {
                    Some(slice) if piece.job != NONE => i32::from(slice.phase),
                    _ => -1,
                };
                culprits.number((names.name_runner(piece.unit, piece.job), phase))
            }
        };
        let thread = threads
            .entry(timeline.units[piece.unit as usize].thread)
            .or_default();
        thread.push(BusyStretch {
            from_ns: piece.from_ns,
            to_ns: piece.to_ns,
            culprit,
            span: spans.of(piece),
            by,
        });
    }
    for occupied in threads.values_mut() {
        occupied.sort_by_key(|one| one.from_ns);
    }
    threads
}

/// Who may have had the GIL: who ran, or was off the core within its slice. Of several it is the one that began last: it
/// began by taking the GIL. Who is in a call that nobody saw has given it away, more likely than not.
fn runners(threads: &BTreeMap<u64, Vec<BusyStretch>>) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for occupied in threads.values() {
        let (mut begun_ns, mut until_ns) = (0, 0);
        for one in occupied {
            if !matches!(
                one.by,
                ThreadUse::Running | ThreadUse::OffTheCore | ThreadUse::Unseen
            ) {
                continue;
            }
            if one.from_ns != until_ns {
                begun_ns = one.from_ns;
            }
            until_ns = one.to_ns;
            candidates.push(Candidate {
                from_ns: one.from_ns,
                to_ns: one.to_ns,
                rank: (u8::from(one.by == ThreadUse::Unseen), u64::MAX - begun_ns),
                culprit: one.culprit,
                span: one.span,
            });
        }
    }
    candidates
}

/// Who had a thread. While it waited for the GIL, who had that.
fn on_thread(occupied: &[BusyStretch], gil: &Turns, culprits: &Culprits) -> Vec<Holding> {
    let mut turns = Vec::with_capacity(occupied.len());
    let mut now_ns = 0;
    for one in occupied {
        let (from_ns, to_ns) = (one.from_ns.max(now_ns), one.to_ns);
        if from_ns >= to_ns {
            continue;
        }
        if one.by == ThreadUse::NoGil {
            fill(&mut turns, gil, from_ns, to_ns, Some(culprits.native));
        } else {
            let turn = Holding {
                from_ns,
                to_ns,
                culprit: one.culprit,
                span: one.span,
            };
            add(&mut turns, turn);
        }
        now_ns = to_ns;
    }
    turns
}

/// Adds who had the GIL between the two; `nobody` is who had it when no slice tells.
fn fill(turns: &mut Vec<Holding>, gil: &Turns, from_ns: u64, to_ns: u64, nobody: Option<u32>) {
    let mut now_ns = from_ns;
    let empty = |turns: &mut Vec<Holding>, from_ns: u64, to_ns: u64| {
        if let Some(culprit) = nobody {
            let turn = Holding {
                from_ns,
                to_ns,
                culprit,
                span: NONE,
            };
            add(turns, turn);
        }
    };
    for turn in gil.within(from_ns, to_ns) {
        let part = Holding {
            from_ns: turn.from_ns.max(from_ns),
            to_ns: turn.to_ns.min(to_ns),
            ..*turn
        };
        empty(turns, now_ns, part.from_ns);
        add(turns, part);
        now_ns = part.to_ns;
    }
    empty(turns, now_ns, to_ns);
}

/// Whose work the threads of pools had; else who had the GIL.
fn pool(
    timeline: &Timeline,
    names: &Names,
    culprits: &mut Culprits,
    spans: &mut Spans<'_>,
    looping: &HashSet<u64>,
    gil: &Turns,
) -> Vec<Holding> {
    if !timeline
        .pieces
        .iter()
        .any(|piece| piece.state == Activity::Wait(WaitKind::Pool))
    {
        return Vec::new();
    }
    let mut candidates = Vec::new();
    for piece in &timeline.pieces {
        let unit = &timeline.units[piece.unit as usize];
        let works = piece.job != NONE && piece.state != Activity::Wait(WaitKind::Pool);
        if works && !looping.contains(&unit.thread) {
            candidates.push(Candidate {
                from_ns: piece.from_ns,
                to_ns: piece.to_ns,
                rank: (0, 0),
                culprit: culprits.number((names.routes[piece.job as usize], -1)),
                span: spans.of(piece),
            });
        }
    }
    // While they have none they may be on their way to the GIL.
    candidates.extend(gil.all().iter().map(|turn| Candidate {
        from_ns: turn.from_ns,
        to_ns: turn.to_ns,
        rank: (1, 0),
        culprit: turn.culprit,
        span: turn.span,
    }));
    share_out(&candidates)
}

/// Whose jobs the workers had. All of them are busy when as many jobs are open as ever were at once.
fn workers(
    timeline: &Timeline,
    names: &Names,
    culprits: &mut Culprits,
    spans: &mut Spans<'_>,
    gil: &Turns,
) -> Vec<Holding> {
    let mut moments: Vec<(u64, bool, u32)> = Vec::new();
    for (number, job) in timeline.jobs.iter().enumerate() {
        let (Some(opened), Some((_, end_ns))) = (job.opened, window(job)) else {
            continue;
        };
        if opened.at_ns < end_ns && !timeline.units[opened.unit as usize].is_green() {
            moments.push((opened.at_ns, true, number as u32));
            moments.push((end_ns, false, number as u32));
        }
    }
    if moments.is_empty() {
        return Vec::new();
    }
    moments.sort_unstable();
    let (mut open, mut most) = (0u32, 0u32);
    for &(_, opens, _) in &moments {
        open = if opens { open + 1 } else { open - 1 };
        most = most.max(open);
    }
    let ran = running(timeline);
    let mut busy: BTreeMap<u32, Busy> = BTreeMap::new();
    let (mut turns, mut last_ns) = (Vec::new(), 0);
    open = 0;
    for (at_ns, opens, job) in moments {
        if last_ns < at_ns {
            if open == most {
                divide(&busy, last_ns, at_ns, &mut turns);
            } else {
                fill(&mut turns, gil, last_ns, at_ns, None);
            }
        }
        last_ns = at_ns;
        let culprit = culprits.number((names.routes[job as usize], -1));
        let (running_ns, blocked_ns) = ran[job as usize];
        let row = busy.entry(culprit).or_default();
        if opens {
            open += 1;
            row.jobs += 1;
            row.span = spans.new_span(running_ns);
            row.running_ns += u128::from(running_ns);
            row.blocked_ns += u128::from(blocked_ns);
        } else {
            open -= 1;
            row.jobs -= 1;
            row.running_ns -= u128::from(running_ns);
            row.blocked_ns -= u128::from(blocked_ns);
            if row.jobs == 0 {
                busy.remove(&culprit);
            }
        }
    }
    fill(&mut turns, gil, last_ns, u64::MAX, None);
    turns
}

/// The jobs of one culprit that have workers.
#[derive(Default)]
struct Busy {
    jobs: u32,
    /// Of the one that came last.
    span: u32,
    /// In all their timeline they run, or would if they were let, and are blocked.
    running_ns: u128,
    blocked_ns: u128,
}

/// By job: how long it runs, or would if it were let, and how long it is blocked.
fn running(timeline: &Timeline) -> Vec<(u64, u64)> {
    let mut ran = vec![(0u64, 0u64); timeline.jobs.len()];
    for piece in timeline.pieces.iter().filter(|piece| piece.job != NONE) {
        let (running_ns, blocked_ns) = &mut ran[piece.job as usize];
        let sum = match piece.state {
            Activity::Io { .. }
            | Activity::Wait(
                WaitKind::Lock | WaitKind::Pool | WaitKind::Unseen | WaitKind::Queue,
            ) => blocked_ns,
            _ => running_ns,
        };
        *sum = sum.saturating_add(piece.to_ns - piece.from_ns);
    }
    ran
}

/// Cuts a moment between those that have workers, by how many they have. What their jobs are blocked of it is nobody's
/// slice: the worker is taken, and no core.
fn divide(busy: &BTreeMap<u32, Busy>, from_ns: u64, to_ns: u64, turns: &mut Vec<Holding>) {
    let rows = || busy.iter().take(MOST_TOGETHER);
    let all: u64 = rows().map(|(_, row)| u64::from(row.jobs)).sum();
    let mut done = 0u64;
    let part = |of_ns: u64, part: u128, whole: u128| {
        (u128::from(of_ns).saturating_mul(part) / whole.max(1)) as u64
    };
    let moment = |done: u64| from_ns + part(to_ns - from_ns, u128::from(done), u128::from(all));
    for (&culprit, row) in rows() {
        let (own_ns, until_ns) = (moment(done), moment(done + u64::from(row.jobs)));
        let whole_ns = row.running_ns + row.blocked_ns;
        let middle_ns = until_ns - part(until_ns - own_ns, row.blocked_ns, whole_ns);
        for (from_ns, to_ns, span) in [(own_ns, middle_ns, row.span), (middle_ns, until_ns, NONE)] {
            let turn = Holding {
                from_ns,
                to_ns,
                culprit,
                span,
            };
            add(turns, turn);
        }
        done += u64::from(row.jobs);
    }
}
