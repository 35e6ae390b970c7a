//! Who had the places of a resource, such as a pool of connections, while others waited for one.
//!
//! Each moment of a wait is shared among those who had a place then: had one of them given it back, the wait would have
//! been over. What a holder did meanwhile is what its job did: a call of an upstream, CPU, a wait of its own.

use super::account::{moments, ByJob};
use super::blame::{share_out, Candidate, Holding, Turns, MOST_TOGETHER};
use super::contended::{Contention, Hold, Key, ResourceEvents};
use super::culprits::{Culprits, Names};
use super::timeline::{Activity, Timeline, NONE};
use greenlane_recording_format::event::{Event, Text, GAVE_UP};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

/// Jobs of one route that waited, asked for by one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VictimRow {
    pub route: Text,
    pub line: Text,
    pub waits: u64,
    pub ns: u64,
    pub longest_ns: u64,
    pub gave_up: u64,
}

/// Those who had places meanwhile, taken by one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HolderRow {
    pub route: Text,
    pub line: Text,
    pub holds: u64,
    /// Their part of the waits.
    pub ns: u64,
    pub held_ns: u64,
    pub longest_ns: u64,
    /// (state, what, ns), most first: see [`Doing`].
    pub meanwhile: Vec<(&'static str, Doing, u64)>,
}

/// What a holder did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doing {
    Nothing,
    /// Operation and upstream.
    Call(Text, Text),
    /// Call, peer, `phase.Kind`.
    Block(Text, Text, u8),
    /// `WaitKind`.
    Wait(u8),
}

/// A resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceRow {
    pub waits: u64,
    pub ns: u64,
    pub longest_ns: u64,
    pub gave_up: u64,
    pub victims: BTreeMap<(Text, Text), VictimRow>,
    pub holders: BTreeMap<(Text, Text), HolderRow>,
}

impl ResourceEvents {
    /// Of the events of a process; those in `own` are counted here.
    pub fn of(events: &[Event], own: &Range<usize>, timeline: &Timeline) -> Self {
        let mut found = Self::default();
        let mut holds: HashMap<(u32, u32, u64), Hold> = HashMap::new();
        for (number, event) in events.iter().enumerate() {
            match *event {
                Event::Contention {
                    from_ns,
                    to_ns,
                    unit,
                    job,
                    resource,
                    kind,
                    flags,
                    capacity,
                    name,
                    line,
                } if from_ns < to_ns => found.contentions.push(Contention {
                    from_ns,
                    to_ns,
                    unit: timeline.unit_number(unit).unwrap_or(NONE),
                    job: timeline.job_number(job),
                    resource,
                    key: (kind as u8, name, capacity),
                    line,
                    gave_up: flags & GAVE_UP != 0,
                    own: own.contains(&number),
                }),
                Event::Hold {
                    from_ns,
                    to_ns,
                    unit,
                    job,
                    resource,
                    line,
                    ..
                } if from_ns < to_ns => {
                    let hold = Hold {
                        from_ns,
                        to_ns,
                        unit: timeline.unit_number(unit).unwrap_or(NONE),
                        job: timeline.job_number(job),
                        resource,
                        line,
                    };
                    // Told again while it went on.
                    let known = holds.entry((resource, unit, from_ns)).or_insert(hold);
                    if known.to_ns < to_ns {
                        *known = hold;
                    }
                }
                _ => {}
            }
        }
        if found.contentions.is_empty() {
            return found;
        }
        found.holds = holds.into_values().collect();
        found
            .holds
            .sort_unstable_by_key(|hold| (hold.from_ns, hold.resource, hold.unit, hold.job));
        let holding: HashSet<u32> = found.holds.iter().map(|hold| hold.job).collect();
        for event in events {
            if let Event::Call {
                from_ns,
                to_ns,
                job,
                upstream,
                operation,
                ..
            } = *event
            {
                let job = timeline.job_number(job);
                if job != NONE && holding.contains(&job) {
                    let calls = found.calls.entry(job).or_default();
                    calls.push((from_ns, to_ns, operation, upstream));
                }
            }
        }
        for calls in found.calls.values_mut() {
            calls.sort_unstable();
        }
        found
    }

    fn name(&self, names: &Names, unit: u32, job: u32) -> Option<Text> {
        (unit != NONE || job != NONE).then(|| names.name_runner(unit, job))
    }
}

/// Who had the places, for blame.
#[derive(Default)]
pub struct Resources {
    /// By resource.
    turns: HashMap<u32, Turns>,
    /// By job: (from, to, resource), by time.
    by_job: HashMap<u32, Vec<(u64, u64, u32)>>,
}

impl Resources {
    /// Of a process. Stretches of holding are numbered behind `spans`.
    pub fn new(
        timeline: &Timeline,
        names: &Names,
        culprits: &mut Culprits,
        spans: &mut Vec<u64>,
    ) -> Self {
        let found = &timeline.resources;
        let mut resources = Self::default();
        for one in found.contentions.iter().filter(|one| one.job != NONE) {
            let of_job = resources.by_job.entry(one.job).or_default();
            of_job.push((one.from_ns, one.to_ns, one.resource));
        }
        for of_job in resources.by_job.values_mut() {
            of_job.sort_unstable();
        }
        let mut candidates: BTreeMap<u32, Vec<Candidate>> = BTreeMap::new();
        for hold in &found.holds {
            let Some(name) = found.name(names, hold.unit, hold.job) else {
                continue;
            };
            spans.push(hold.to_ns - hold.from_ns);
            candidates
                .entry(hold.resource)
                .or_default()
                .push(Candidate {
                    from_ns: hold.from_ns,
                    to_ns: hold.to_ns,
                    rank: (0, 0),
                    culprit: culprits.number((name, -1)),
                    span: (spans.len() - 1) as u32,
                });
        }
        let turns = candidates
            .into_iter()
            .map(|(resource, candidates)| (resource, Turns::new(share_out(&candidates))));
        resources.turns = turns.collect();
        resources
    }

    /// The resource that a job waited for between two moments.
    pub fn waited_for(&self, job: u32, from_ns: u64, to_ns: u64) -> Option<u32> {
        let of_job = self.by_job.get(&job)?;
        let overlap = |one: &(u64, u64, u32)| one.1.min(to_ns).saturating_sub(one.0.max(from_ns));
        let begun = of_job.partition_point(|one| one.0 < to_ns);
        let last = of_job[..begun].iter().rev().take(MOST_TOGETHER);
        let most = last.max_by_key(|one| overlap(one))?;
        // The wait as the accounting has it may begin or end a little beside.
        (overlap(most) > (to_ns - from_ns) / 2).then_some(most.2)
    }

    /// Who had its places.
    pub fn turns(&self, resource: u32) -> Option<&Turns> {
        self.turns.get(&resource)
    }
}

/// Adds what is counted of a process to the rows.
pub fn add_rows(
    timeline: &Timeline,
    by_job: &ByJob,
    names: &Names,
    unknown: Text,
    rows: &mut HashMap<Key, ResourceRow>,
) {
    let found = &timeline.resources;
    let mut by_resource: BTreeMap<u32, Vec<&Contention>> = BTreeMap::new();
    for one in found.contentions.iter().filter(|one| one.own) {
        by_resource.entry(one.resource).or_default().push(one);
    }
    for (resource, waits) in by_resource {
        // The last one knows its places best: pools grow.
        let key = waits[waits.len() - 1].key;
        let row = rows.entry(key).or_default();
        for wait in &waits {
            let ns = wait.to_ns - wait.from_ns;
            let route = found.name(names, wait.unit, wait.job).unwrap_or(unknown);
            let victim = row.victims.entry((route, wait.line)).or_default();
            (victim.route, victim.line) = (route, wait.line);
            for (waits, sum, longest, gave_up) in [
                (
                    &mut victim.waits,
                    &mut victim.ns,
                    &mut victim.longest_ns,
                    &mut victim.gave_up,
                ),
                (
                    &mut row.waits,
                    &mut row.ns,
                    &mut row.longest_ns,
                    &mut row.gave_up,
                ),
            ] {
                *waits += 1;
                *sum = sum.saturating_add(ns);
                *longest = (*longest).max(ns);
                *gave_up += u64::from(wait.gave_up);
            }
        }
        let of_it = |hold: &&Hold| hold.resource == resource;
        let holds: Vec<&Hold> = found.holds.iter().filter(of_it).collect();
        let candidates: Vec<Candidate> = holds
            .iter()
            .enumerate()
            .map(|(number, hold)| Candidate {
                from_ns: hold.from_ns,
                to_ns: hold.to_ns,
                rank: (0, 0),
                culprit: number as u32,
                span: number as u32,
            })
            .collect();
        let turns = Turns::new(share_out(&candidates));
        let windows: Vec<(u64, u64)> = waits
            .iter()
            .map(|wait| (wait.from_ns, wait.to_ns))
            .collect();
        let mut caused: BTreeMap<u32, u64> = BTreeMap::new();
        turns.weigh(&windows, |turn: &Holding, ns| {
            let sum = caused.entry(turn.culprit).or_default();
            *sum = sum.saturating_add(ns);
        });
        for (number, ns) in caused {
            let hold = holds[number as usize];
            let route = found.name(names, hold.unit, hold.job).unwrap_or(unknown);
            let holder = row.holders.entry((route, hold.line)).or_default();
            let held_ns = hold.to_ns - hold.from_ns;
            (holder.route, holder.line) = (route, hold.line);
            holder.holds += 1;
            holder.ns = holder.ns.saturating_add(ns);
            holder.held_ns = holder.held_ns.saturating_add(held_ns);
            holder.longest_ns = holder.longest_ns.max(held_ns);
            found.add_doing(timeline, by_job, hold, &mut holder.meanwhile);
        }
    }
}

impl ResourceEvents {
    fn add_doing(
        &self,
        timeline: &Timeline,
        by_job: &ByJob,
        hold: &Hold,
        did: &mut Vec<(&'static str, Doing, u64)>,
    ) {
        let calls = self.calls.get(&hold.job).map_or(&[][..], Vec::as_slice);
        moments(
            timeline,
            by_job,
            (hold.unit, hold.job),
            hold.from_ns,
            hold.to_ns,
            |piece, from_ns, to_ns| {
                let (state, what) = match piece.state {
                    Activity::Run | Activity::Gc => ("cpu", Doing::Nothing),
                    Activity::Wait(kind) => ("wait", Doing::Wait(kind as u8)),
                    Activity::Io { kind, .. } => {
                        let middle_ns = from_ns + (to_ns - from_ns) / 2;
                        let begun = calls.partition_point(|call| call.0 <= middle_ns);
                        let last = calls[..begun].iter().rev().take(MOST_TOGETHER);
                        let call = last.clone().find(|call| middle_ns < call.1);
                        let block = timeline.blocks.get(piece.block as usize);
                        let what = match (call, block) {
                            (Some(&(_, _, operation, upstream)), _) => {
                                Doing::Call(operation, upstream)
                            }
                            (None, Some(block)) => Doing::Block(block.call, block.peer, kind),
                            (None, None) => Doing::Block(0, 0, kind),
                        };
                        ("io", what)
                    }
                };
                let ns = to_ns - from_ns;
                match did.iter().position(|one| (one.0, one.1) == (state, what)) {
                    Some(at) => did[at].2 = did[at].2.saturating_add(ns),
                    None if did.len() < MOST_DOINGS => did.push((state, what, ns)),
                    None => {}
                }
            },
        );
    }
}

/// What is told apart of one row's holders.
const MOST_DOINGS: usize = 64;
