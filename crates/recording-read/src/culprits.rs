//! What culprits are called: a route and its phase; or what ran without a job.

use super::read::Texts;
use super::timeline::{Timeline, NONE};
use greenlane_recording_format::event::{Text, UnitKind};
use std::collections::{HashMap, HashSet};

/// A job whose route nobody named.
pub const NO_ROUTE: &str = "(no route)";

/// A name and a phase; -1 = not a route's phase.
pub type Culprit = (Text, i32);

/// Culprits by number.
pub struct Culprits {
    numbers: HashMap<Culprit, u32>,
    all: Vec<Culprit>,
    pub gc: u32,
    pub os: u32,
    pub loops: u32,
    pub native: u32,
    pub unknown: u32,
    pub unseen: u32,
}

impl Culprits {
    /// Those that are no routes.
    pub fn new(texts: &mut Texts) -> Self {
        let mut culprits = Self {
            numbers: HashMap::new(),
            all: Vec::new(),
            gc: 0,
            os: 0,
            loops: 0,
            native: 0,
            unknown: 0,
            unseen: 0,
        };
        culprits.gc = culprits.number((texts.number("gc"), -1));
        culprits.os = culprits.number((texts.number("os"), -1));
        culprits.loops = culprits.number((texts.number("loop"), -1));
        culprits.native = culprits.number((texts.number("native"), -1));
        culprits.unknown = culprits.number((texts.number("unknown"), -1));
        culprits.unseen = culprits.number((texts.number("blocked"), -1));
        culprits
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Never: six are there from the start.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Name and phase of one.
    pub fn get(&self, number: u32) -> Culprit {
        self.all[number as usize]
    }

    /// The number of one that was numbered before.
    pub fn find_number(&self, culprit: Culprit) -> Option<u32> {
        self.numbers.get(&culprit).copied()
    }

    /// The number of one, a new one if need be.
    pub fn number(&mut self, culprit: Culprit) -> u32 {
        let next = self.all.len() as u32;
        let number = *self.numbers.entry(culprit).or_insert(next);
        if number == next {
            self.all.push(culprit);
        }
        number
    }
}

/// What the jobs and units of one process are called.
pub struct Names {
    /// By job.
    pub routes: Vec<Text>,
    /// By unit, for when it has no job.
    pub units: Vec<Text>,
}

impl Names {
    /// Of a process.
    pub fn new(timeline: &Timeline, texts: &mut Texts) -> Self {
        let unnamed = texts.number(NO_ROUTE);
        let routes = timeline.jobs.iter().map(|job| match job.route {
            0 => unnamed,
            route => route,
        });
        let routes = routes.collect();
        let loops: HashSet<u64> = timeline
            .units
            .iter()
            .filter(|unit| unit.is_green())
            .map(|unit| unit.thread)
            .collect();
        let units = timeline.units.iter().map(|unit| {
            let what = match unit.kind {
                UnitKind::Loop => return texts.number("loop"),
                UnitKind::Thread if loops.contains(&unit.thread) => return texts.number("loop"),
                UnitKind::Thread => "thread",
                UnitKind::Greenlet => "greenlet",
                UnitKind::Task => "task",
            };
            let name = without_numbers(texts.get(unit.name));
            texts.number(format!("{what} {name}").trim_end())
        });
        let units = units.collect();
        Self { routes, units }
    }

    /// Who ran: the job's route, else the unit.
    pub fn name_runner(&self, unit: u32, job: u32) -> Text {
        if job == NONE {
            self.units[unit as usize]
        } else {
            self.routes[job as usize]
        }
    }
}

/// `Thread-12 (worker)` and `Thread-13 (worker)` are one culprit: `Thread-N (worker)`.
fn without_numbers(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    for character in name.chars() {
        if !character.is_ascii_digit() {
            plain.push(character);
        } else if !plain.ends_with('N') {
            plain.push('N');
        }
    }
    plain
}
