//! What is known of each route's phases.

use crate::counters::Turns;
use crate::places::OPENED;
use greenlane_policy::weight::{PhaseProfile, Pin, WeightRule};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where jobs of routes beyond the cap are filed; they run free.
const OTHER: &str = "(other)";
/// A route's mode when it follows the process.
pub const INHERIT: u8 = u8::MAX;

/// Jobs of a route that make it one of the application's: what a scanner asks for comes once. Arbitrary.
const SCANNED: u64 = 8;
/// A route that was not asked for in this many times the cap is stale. Arbitrary: hours, with 512 routes and 10/s.
const STALE: u64 = 256;

/// One route: its phases' profiles, its pin, its mode.
pub struct Route {
    pub name: String,
    pub turns: Turns,
    pin: AtomicU8,
    mode: AtomicU8,
    /// Its last place among all the times that a route was asked for.
    asked: AtomicU64,
    /// Locked only with the GIL held (or on a free-threaded build), for tens of nanoseconds.
    phases: Mutex<Phases>,
}

/// By number, in the order in which their places were first met.
#[derive(Default)]
struct Phases {
    profiles: Vec<PhaseProfile>,
    places: Vec<u64>,
}

impl Phases {
    /// The number of the phase that begins at `place`; where there are too many they share the last one.
    fn number_of(&mut self, place: u64, last: usize) -> usize {
        if self.places.is_empty() {
            self.places.push(OPENED);
        }
        match self.places.iter().position(|&known| known == place) {
            Some(number) => number,
            None if self.places.len() <= last => {
                self.places.push(place);
                self.places.len() - 1
            }
            None => last,
        }
    }

    fn profile(&mut self, number: usize) -> &mut PhaseProfile {
        if self.profiles.len() <= number {
            self.profiles.resize_with(number + 1, PhaseProfile::default);
        }
        &mut self.profiles[number]
    }
}

/// A phase as it is shown.
pub struct PhaseRow {
    pub phase: usize,
    pub mean_ns: u64,
    pub samples: u64,
    pub looks: u32,
    pub free: u32,
    pub weight: greenlane_policy::weight::Weight,
}

impl Route {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            turns: Turns::default(),
            pin: AtomicU8::new(if name == OTHER { 2 } else { 0 }),
            mode: AtomicU8::new(INHERIT),
            asked: AtomicU64::new(0),
            phases: Mutex::default(),
        }
    }

    /// What the owner said of it.
    pub fn pin(&self) -> Pin {
        match self.pin.load(Ordering::Relaxed) {
            1 => Pin::Heavy,
            2 => Pin::Light,
            3 => Pin::Native,
            _ => Pin::Auto,
        }
    }

    /// Pins or unpins it.
    pub fn set_pin(&self, pin: Pin) {
        let value = match pin {
            Pin::Auto => 0,
            Pin::Heavy => 1,
            Pin::Light => 2,
            Pin::Native => 3,
        };
        self.pin.store(value, Ordering::Relaxed);
    }

    /// Its own mode, or `process` when it has none.
    pub fn mode_or(&self, process: u8) -> u8 {
        match self.mode.load(Ordering::Relaxed) {
            INHERIT => process,
            own => own,
        }
    }

    /// Gives it a mode of its own; [`INHERIT`] takes that back.
    pub fn set_mode(&self, mode: u8) {
        self.mode.store(mode, Ordering::Relaxed);
    }

    /// Runs `work` on the profile of `phase`, which is made when missing.
    pub fn with<T>(&self, phase: usize, work: impl FnOnce(&mut PhaseProfile) -> T) -> T {
        work(self.lock().profile(phase))
    }

    /// The number of the phase that begins at `place`, `last` at most.
    pub fn phase_at(&self, place: u64, last: usize) -> usize {
        self.lock().number_of(place, last)
    }

    /// All phases seen.
    pub fn rows(&self, rule: &WeightRule) -> Vec<PhaseRow> {
        let pin = self.pin();
        let phases = self.lock();
        let row = |(phase, profile): (usize, &PhaseProfile)| {
            let (looks, free) = profile.looks();
            PhaseRow {
                phase,
                mean_ns: profile.expected_ns(),
                samples: profile.sketch().samples(),
                looks,
                free,
                weight: profile.weight(rule, pin, 0),
            }
        };
        phases.profiles.iter().enumerate().map(row).collect()
    }

    /// Whether nobody would miss it after `asked` times that a route was asked for: it was scanned, or is stale.
    fn may_go(&self, asked: u64, cap: usize) -> bool {
        let owned = self.pin() != Pin::Auto || self.mode.load(Ordering::Relaxed) != INHERIT;
        let age = asked - self.asked.load(Ordering::Relaxed);
        let scanned = || {
            let phases = self.lock();
            phases
                .profiles
                .first()
                .is_none_or(|one| one.sketch().samples() < SCANNED)
        };
        !owned && (age > cap as u64 * STALE || scanned())
    }

    fn lock(&self) -> MutexGuard<'_, Phases> {
        self.phases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All routes of a process, capped in number.
pub struct Routes {
    cap: usize,
    asked: AtomicU64,
    by_name: Mutex<HashMap<String, Arc<Route>>>,
}

impl Routes {
    /// Room for `cap` routes; later ones share "(other)".
    pub fn new(cap: usize) -> Self {
        Self {
            cap,
            asked: AtomicU64::new(0),
            by_name: Mutex::new(HashMap::new()),
        }
    }

    /// The route called `name`, made when new, in place of one that was scanned or is stale if need be. The second value is
    /// false when the cap refused it.
    pub fn get(&self, name: &str) -> (Arc<Route>, bool) {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        if let Some(route) = by_name.get(name) {
            route.asked.store(asked, Ordering::Relaxed);
            return (Arc::clone(route), true);
        }
        let full = by_name.len() >= self.cap;
        let fits = !full || evict(&mut by_name, asked, self.cap);
        let filed = if fits { name } else { OTHER };
        let route = by_name
            .entry(filed.to_owned())
            .or_insert_with(|| Arc::new(Route::new(filed)));
        route.asked.store(asked, Ordering::Relaxed);
        (Arc::clone(route), fits)
    }

    /// Every route, by name.
    pub fn all(&self) -> Vec<Arc<Route>> {
        let by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = by_name.values().cloned().collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }
}

/// Drops the route that was not asked for longest, of those that no job has and nobody would miss.
fn evict(by_name: &mut HashMap<String, Arc<Route>>, asked: u64, cap: usize) -> bool {
    let oldest = by_name
        .values()
        .filter(|route| Arc::strong_count(route) == 1 && route.may_go(asked, cap))
        .min_by_key(|route| route.asked.load(Ordering::Relaxed))
        .map(|route| route.name.clone());
    oldest.is_some_and(|name| by_name.remove(&name).is_some())
}
