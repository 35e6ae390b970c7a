//! Where each job's time went: CPU + I/O + wait + residual = latency, in whole nanoseconds.
//!
//! A job's units may do different things at one moment. Then the job computes if one of them does; else it waits if
//! one of them could run; else it is in I/O if one of them is; else it waits for a pool, a lock or a queue; what no event
//! explains is residual. Among I/O that may have been over already counts before I/O that was not.

use super::timeline::{Activity, Job, Piece, Timeline, NONE};
use greenlane_recording_format::event::{Text, WaitKind};
use std::collections::BTreeSet;

/// Kinds of I/O: the numbers of `phase.Kind`.
pub const IO_KINDS: usize = 11;
/// Kinds of wait: the numbers of [`WaitKind`].
pub const WAIT_KINDS: usize = 11;

/// A job's latency by what it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub cpu_ns: u64,
    pub io_ns: [u64; IO_KINDS],
    pub wait_ns: [u64; WAIT_KINDS],
    pub residual_ns: u64,
    /// So much of the I/O may have been wait.
    pub uncertain_ns: u64,
}

/// A wait of a job: which of its units could have run, and did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedWait {
    pub kind: WaitKind,
    /// What held it back, or whose queue it is in, where the recording says so; else 0.
    pub by: Text,
    pub unit: u32,
    pub from_ns: u64,
    pub to_ns: u64,
}

/// A stretch that counts for a job.
#[derive(Clone, Copy)]
struct AccountPart {
    from_ns: u64,
    to_ns: u64,
    unit: u32,
    state: Activity,
    by: Text,
}

/// The smallest counts.
fn rank(state: Activity) -> u8 {
    match state {
        Activity::Run | Activity::Gc => 0,
        Activity::Wait(WaitKind::Gil) => 1,
        Activity::Wait(WaitKind::Loop) => 2,
        Activity::Wait(WaitKind::Permit) => 3,
        Activity::Wait(WaitKind::Stopped) => 4,
        Activity::Wait(WaitKind::Accept) => 5,
        Activity::Wait(WaitKind::Os) => 6,
        Activity::Wait(WaitKind::Unseen) => 7,
        Activity::Io {
            kind,
            certain: false,
        } => 8 + kind,
        Activity::Io {
            kind,
            certain: true,
        } => 8 + IO_KINDS as u8 + kind,
        Activity::Wait(WaitKind::Pool) => 8 + 2 * IO_KINDS as u8,
        Activity::Wait(WaitKind::Lock) => 9 + 2 * IO_KINDS as u8,
        Activity::Wait(WaitKind::Queue) => 10 + 2 * IO_KINDS as u8,
        Activity::Wait(WaitKind::Parked) => 11 + 2 * IO_KINDS as u8,
    }
}

/// Pieces by the job that they are of.
pub struct ByJob {
    starts: Vec<usize>,
    pieces: Vec<u32>,
}

impl ByJob {
    /// Sorts out the pieces of a process.
    pub fn new(timeline: &Timeline) -> Self {
        let mut starts = vec![0; timeline.jobs.len() + 1];
        for piece in timeline.pieces.iter().filter(|piece| piece.job != NONE) {
            starts[piece.job as usize + 1] += 1;
        }
        for job in 1..starts.len() {
            starts[job] += starts[job - 1];
        }
        let mut pieces = vec![0; starts[timeline.jobs.len()]];
        let mut next = starts.clone();
        for (index, piece) in timeline.pieces.iter().enumerate() {
            if piece.job != NONE {
                pieces[next[piece.job as usize]] = index as u32;
                next[piece.job as usize] += 1;
            }
        }
        Self { starts, pieces }
    }

    /// The pieces of one job, by unit and time.
    pub fn of<'a>(&'a self, timeline: &'a Timeline, job: u32) -> impl Iterator<Item = &'a Piece> {
        let range = self.starts[job as usize]..self.starts[job as usize + 1];
        self.pieces[range]
            .iter()
            .map(|&index| &timeline.pieces[index as usize])
    }
}

/// When a job came and when its answer left, if both are known.
pub fn window(job: &Job) -> Option<(u64, u64)> {
    let opened = job.opened?;
    let (closed_ns, _) = job.closed?;
    (closed_ns >= opened.at_ns).then_some((opened.arrival_ns, closed_ns))
}

/// Between arrival and first instruction: what the job waited for.
pub fn before_open(timeline: &Timeline, job: &Job) -> Vec<NamedWait> {
    let Some(opened) = job.opened else {
        return Vec::new();
    };
    let green = timeline.units[opened.unit as usize].is_green();
    let spawned_ns = match opened.spawn_ns {
        0 => opened.at_ns,
        _ if !green => opened.at_ns,
        spawn_ns => spawn_ns,
    };
    let mut parts = Vec::new();
    let mut from_ns = opened.arrival_ns;
    if let Some(parked) = timeline.parked.get(&timeline.job_number(job.id)) {
        let mut parked = parked.clone();
        parked.sort_unstable();
        for (parked_ns, until_ns, by) in parked {
            let parked_ns = parked_ns.clamp(from_ns, spawned_ns.max(from_ns));
            let until_ns = until_ns.clamp(parked_ns, spawned_ns.max(parked_ns));
            parts.push((WaitKind::Accept, 0, from_ns, parked_ns));
            parts.push((WaitKind::Parked, by, parked_ns, until_ns));
            from_ns = until_ns;
        }
    }
    parts.push((WaitKind::Accept, 0, from_ns, spawned_ns));
    parts.push((WaitKind::Loop, 0, spawned_ns, opened.at_ns));
    let waited = parts
        .into_iter()
        .map(|(kind, by, from_ns, to_ns)| NamedWait {
            kind,
            by,
            unit: opened.unit,
            from_ns,
            to_ns,
        });
    waited.filter(|wait| wait.from_ns < wait.to_ns).collect()
}

/// Accounts for one job that has a [`window`]; tells its waits in order.
pub fn account(
    timeline: &Timeline,
    by_job: &ByJob,
    job: u32,
    waits: &mut Vec<NamedWait>,
) -> Account {
    match window(&timeline.jobs[job as usize]) {
        Some((_, end_ns)) => account_until(timeline, by_job, job, end_ns, waits),
        None => Account::default(),
    }
}

/// Accounts for a job up to a moment that is not before its beginning, whenever it ended; likewise.
pub fn account_until(
    timeline: &Timeline,
    by_job: &ByJob,
    job: u32,
    end_ns: u64,
    waits: &mut Vec<NamedWait>,
) -> Account {
    let row = &timeline.jobs[job as usize];
    let Some(opened) = row.opened else {
        return Account::default();
    };
    let arrival_ns = opened.arrival_ns;
    let mut parts: Vec<AccountPart> = Vec::new();
    for wait in before_open(timeline, row) {
        parts.push(AccountPart {
            from_ns: wait.from_ns,
            to_ns: wait.to_ns,
            unit: wait.unit,
            state: Activity::Wait(wait.kind),
            by: wait.by,
        });
    }
    for piece in by_job.of(timeline, job) {
        let (from_ns, to_ns) = (piece.from_ns.max(opened.at_ns), piece.to_ns.min(end_ns));
        if from_ns < to_ns {
            let by = match piece.state {
                Activity::Wait(WaitKind::Queue) => timeline.blocks[piece.block as usize].peer,
                _ => 0,
            };
            parts.push(AccountPart {
                from_ns,
                to_ns,
                unit: piece.unit,
                state: piece.state,
                by,
            });
        }
    }
    let mut sums = Account::default();
    waits.clear();
    if parts
        .windows(2)
        .all(|pair| pair[0].to_ns <= pair[1].from_ns)
    {
        for part in &parts {
            sums.add(part, part.from_ns, part.to_ns, waits);
        }
    } else {
        sweep(&parts, |part, from_ns, to_ns| {
            sums.add(part, from_ns, to_ns, waits)
        });
    }
    sums.residual_ns = (end_ns - arrival_ns) - sums.explained_ns();
    sums
}

/// What a job did between two moments, or a unit without one: which of its pieces counts at each.
pub fn moments(
    timeline: &Timeline,
    by_job: &ByJob,
    (unit, job): (u32, u32),
    from_ns: u64,
    to_ns: u64,
    mut tell: impl FnMut(&Piece, u64, u64),
) {
    let pieces: Vec<&Piece> = match (unit, job) {
        (NONE, NONE) => return,
        (unit, NONE) => timeline.pieces_of(unit).iter().collect(),
        (_, job) => by_job.of(timeline, job).collect(),
    };
    let parts: Vec<AccountPart> = pieces
        .iter()
        .enumerate()
        .map(|(number, piece)| AccountPart {
            from_ns: piece.from_ns.max(from_ns),
            to_ns: piece.to_ns.min(to_ns),
            unit: piece.unit,
            state: piece.state,
            by: number as u32,
        })
        .filter(|part| part.from_ns < part.to_ns)
        .collect();
    sweep(&parts, |part, from_ns, to_ns| {
        tell(pieces[part.by as usize], from_ns, to_ns)
    });
}

/// Which of the parts counts at each moment.
fn sweep(parts: &[AccountPart], mut count: impl FnMut(&AccountPart, u64, u64)) {
    let mut moments: Vec<(u64, bool, u32)> = Vec::with_capacity(2 * parts.len());
    for (index, part) in parts.iter().enumerate() {
        moments.push((part.from_ns, true, index as u32));
        moments.push((part.to_ns, false, index as u32));
    }
    moments.sort_unstable();
    let mut active: BTreeSet<(u8, u32, u32)> = BTreeSet::new();
    let mut last_ns = 0;
    for (at_ns, begins, index) in moments {
        if let Some(&(_, _, first)) = active.first() {
            if last_ns < at_ns {
                count(&parts[first as usize], last_ns, at_ns);
            }
        }
        last_ns = at_ns;
        let part = &parts[index as usize];
        let key = (rank(part.state), part.unit, index);
        if begins {
            active.insert(key);
        } else {
            active.remove(&key);
        }
    }
}

impl Account {
    /// CPU, I/O and wait.
    pub fn explained_ns(&self) -> u64 {
        self.cpu_ns + self.io_ns.iter().sum::<u64>() + self.wait_ns.iter().sum::<u64>()
    }

    fn add(&mut self, part: &AccountPart, from_ns: u64, to_ns: u64, waits: &mut Vec<NamedWait>) {
        let ns = to_ns - from_ns;
        let (unit, by) = (part.unit, part.by);
        match part.state {
            Activity::Run | Activity::Gc => self.cpu_ns += ns,
            Activity::Io { kind, certain } => {
                self.io_ns[usize::from(kind)] += ns;
                self.uncertain_ns += if certain { 0 } else { ns };
            }
            Activity::Wait(kind) => {
                self.wait_ns[kind as usize] += ns;
                match waits.last_mut() {
                    Some(last)
                        if (last.kind, last.by, last.unit, last.to_ns)
                            == (kind, by, unit, from_ns) =>
                    {
                        last.to_ns = to_ns
                    }
                    _ => waits.push(NamedWait {
                        kind,
                        by,
                        unit,
                        from_ns,
                        to_ns,
                    }),
                }
            }
        }
    }
}
