//! Who ran while others waited: stretches of time with one culprit each, and what waits that overlap them amount to.
//!
//! A [`Turns`] says for each moment who had what somebody may wait for: a loop's thread, the GIL, a worker. Where
//! several had it at once the moment is cut between them, in steps, so that each nanosecond of wait has one culprit
//! and sums stay exact.

use std::collections::BTreeMap;

/// Stretches are shared between several in steps of about this.
const STEP_NS: u64 = 250_000;
/// But in no more of them each: a damaged time must not fill the memory.
const MOST_STEPS: u64 = 64;
/// Of more than these at one moment the rest goes free: a moment's cost must be bounded.
pub const MOST_TOGETHER: usize = 16;
const BLOCK: usize = 256;
const BLOCKS: usize = 64;

/// Somebody had it from `from_ns` to `to_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    pub from_ns: u64,
    pub to_ns: u64,
    /// Number of the culprit.
    pub culprit: u32,
    /// Number of the uninterrupted stretch of its work that this is part of.
    pub span: u32,
}

/// Disjoint turns by time, with sums over many of them.
#[derive(Default)]
pub struct Turns {
    turns: Vec<Holding>,
    blocks: Vec<Vec<(u32, u64)>>,
    groups: Vec<Vec<(u32, u64)>>,
}

impl Turns {
    /// `turns` are sorted and disjoint.
    pub fn new(turns: Vec<Holding>) -> Self {
        let blocks: Vec<_> = turns
            .chunks_exact(BLOCK)
            .map(|some| {
                sums(
                    some.iter()
                        .map(|turn| (turn.culprit, turn.to_ns - turn.from_ns)),
                )
            })
            .collect();
        let groups = blocks
            .chunks_exact(BLOCKS)
            .map(|some| sums(some.iter().flatten().copied()))
            .collect();
        Self {
            turns,
            blocks,
            groups,
        }
    }

    /// All of them.
    pub fn all(&self) -> &[Holding] {
        &self.turns
    }

    /// Those that overlap [`from_ns`, `to_ns`].
    pub fn within(&self, from_ns: u64, to_ns: u64) -> &[Holding] {
        let first = self.turns.partition_point(|turn| turn.to_ns <= from_ns);
        let end = first + self.turns[first..].partition_point(|turn| turn.from_ns < to_ns);
        &self.turns[first..end]
    }

    /// How long who had it between the two, told in no order and perhaps in parts.
    pub fn charge(&self, from_ns: u64, to_ns: u64, mut tell: impl FnMut(u32, u64)) {
        let first = self.turns.partition_point(|turn| turn.to_ns <= from_ns);
        let mut at = first;
        while let Some(turn) = self.turns.get(at) {
            if turn.from_ns >= to_ns {
                break;
            }
            // Whole blocks that lie inside.
            let ends_inside = |end: usize| self.turns[end - 1].to_ns <= to_ns;
            if turn.from_ns >= from_ns && at % BLOCK == 0 && at + BLOCK <= self.turns.len() {
                let block = at / BLOCK;
                let group_end = at + BLOCK * BLOCKS;
                if block % BLOCKS == 0 && group_end <= self.turns.len() && ends_inside(group_end) {
                    self.groups[block / BLOCKS]
                        .iter()
                        .for_each(|&(culprit, ns)| tell(culprit, ns));
                    at = group_end;
                    continue;
                }
                if ends_inside(at + BLOCK) {
                    self.blocks[block]
                        .iter()
                        .for_each(|&(culprit, ns)| tell(culprit, ns));
                    at += BLOCK;
                    continue;
                }
            }
            let ns = turn.to_ns.min(to_ns) - turn.from_ns.max(from_ns);
            tell(turn.culprit, ns);
            at += 1;
        }
    }

    /// How much wait each turn caused: the sum of its overlaps with each of `waits`, (from, to).
    pub fn weigh(&self, waits: &[(u64, u64)], mut tell: impl FnMut(&Holding, u64)) {
        let mut starts: Vec<u64> = waits.iter().map(|wait| wait.0).collect();
        let mut ends: Vec<u64> = waits.iter().map(|wait| wait.1).collect();
        starts.sort_unstable();
        ends.sort_unstable();
        let (Some(&from_ns), Some(&to_ns)) = (starts.first(), ends.last()) else {
            return;
        };
        // Walks through time: `waiting` of them wait between two moments.
        let (mut started, mut ended) = (0, 0);
        for turn in self.within(from_ns, to_ns) {
            while started < starts.len() && starts[started] <= turn.from_ns {
                started += 1;
            }
            while ended < ends.len() && ends[ended] <= turn.from_ns {
                ended += 1;
            }
            let (mut now_ns, mut caused_ns) = (turn.from_ns, 0u64);
            while now_ns < turn.to_ns {
                let next_ns = [starts.get(started), ends.get(ended)]
                    .into_iter()
                    .flatten()
                    .min();
                let until_ns = next_ns.map_or(turn.to_ns, |&next_ns| next_ns.min(turn.to_ns));
                let waiting = (started - ended) as u64;
                caused_ns = caused_ns.saturating_add(waiting.saturating_mul(until_ns - now_ns));
                now_ns = until_ns;
                while started < starts.len() && starts[started] <= now_ns {
                    started += 1;
                }
                while ended < ends.len() && ends[ended] <= now_ns {
                    ended += 1;
                }
            }
            if caused_ns > 0 {
                tell(turn, caused_ns);
            }
        }
    }
}

fn sums(rows: impl Iterator<Item = (u32, u64)>) -> Vec<(u32, u64)> {
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for (culprit, ns) in rows {
        *sums.entry(culprit).or_default() += ns;
    }
    sums.into_iter().collect()
}

/// Somebody who may have had it, beside others. Of those at one moment only the first rank counts.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub from_ns: u64,
    pub to_ns: u64,
    pub rank: (u8, u64),
    pub culprit: u32,
    pub span: u32,
}

/// Disjoint turns of candidates that may overlap.
pub fn share_out(candidates: &[Candidate]) -> Vec<Holding> {
    let mut moments: Vec<(u64, bool, u32)> = Vec::with_capacity(2 * candidates.len());
    for (index, candidate) in candidates.iter().enumerate() {
        if candidate.from_ns < candidate.to_ns {
            moments.push((candidate.from_ns, true, index as u32));
            moments.push((candidate.to_ns, false, index as u32));
        }
    }
    moments.sort_unstable();
    let mut active: std::collections::BTreeSet<((u8, u64), u32)> = Default::default();
    let (mut turns, mut last_ns, mut now, mut next) = (Vec::new(), 0, Vec::new(), 0);
    for (at_ns, begins, index) in moments {
        if let (true, Some(&(rank, _))) = (last_ns < at_ns, active.first()) {
            now.clear();
            let first = active
                .iter()
                .take_while(|one| one.0 == rank)
                .take(MOST_TOGETHER);
            now.extend(first.map(|one| &candidates[one.1 as usize]));
            share(&now, last_ns, at_ns, &mut next, &mut turns);
        }
        last_ns = at_ns;
        let key = (candidates[index as usize].rank, index);
        if begins {
            active.insert(key);
        } else {
            active.remove(&key);
        }
    }
    turns
}

/// Cuts [`from_ns`, `to_ns`] between those who had it together. Moments too short to cut go to one after the other.
fn share(
    together: &[&Candidate],
    from_ns: u64,
    to_ns: u64,
    next: &mut u64,
    turns: &mut Vec<Holding>,
) {
    let (length_ns, many) = (to_ns - from_ns, together.len() as u64);
    let steps = if many == 1 {
        1
    } else {
        (length_ns / STEP_NS).clamp(1, MOST_STEPS * many)
    };
    let moment =
        |step: u64| from_ns + (u128::from(length_ns) * u128::from(step) / u128::from(steps)) as u64;
    for step in 0..steps {
        let candidate = together[(*next % many) as usize];
        *next += u64::from(many > 1);
        let turn = Holding {
            from_ns: moment(step),
            to_ns: moment(step + 1),
            culprit: candidate.culprit,
            span: candidate.span,
        };
        add(turns, turn);
    }
}

/// Adds a turn that begins where the last one ends, or later; to the last one if it is the same that goes on.
pub fn add(turns: &mut Vec<Holding>, mut turn: Holding) {
    if let Some(last) = turns.last_mut() {
        turn.from_ns = turn.from_ns.max(last.to_ns);
        if last.to_ns == turn.from_ns && (last.culprit, last.span) == (turn.culprit, turn.span) {
            last.to_ns = last.to_ns.max(turn.to_ns);
            return;
        }
    }
    if turn.from_ns < turn.to_ns {
        turns.push(turn);
    }
}
