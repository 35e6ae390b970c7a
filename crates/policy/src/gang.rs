//! Whether the threads that share a GIL keep to one core, and to which.
//!
//! It pays where a hand-over to another core costs more, because that core sleeps: see `docs/design/0030-one-core.md`. It
//! costs where somebody else uses the core: then two have it in turns, while another is idle. So a core is judged by what
//! others use of it.

/// What handing over costs, ns: the first decile from waking a thread until it runs, where both are on one core and on two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOver {
    pub one_core_ns: u64,
    pub two_cores_ns: u64,
}

/// A saving below this is not worth a core's being full: some 4,000 hand-overs a second are 2 % of a core then. Arbitrary.
const LEAST_SAVING_NS: u64 = 4_000;

impl HandOver {
    /// Whether keeping to one core saves anything on this machine.
    pub fn pays(self) -> bool {
        self.two_cores_ns >= self.one_core_ns + LEAST_SAVING_NS
            && 2 * self.two_cores_ns >= 3 * self.one_core_ns
    }
}

/// One of the cores that the process may use, over the last second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Core {
    pub number: u32,
    /// What others used of it.
    pub foreign_frac: f64,
    /// What the gang's threads did.
    pub ours_frac: f64,
    /// Whether no other gang has it.
    pub free: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Stay,
    /// Keep to this core from now on.
    Gather(u32),
    /// Use all cores.
    Disband,
}

/// Over this one look is enough: a neighbour that computes all the time takes half of a core that is full.
const CROWDED_FRAC: f64 = 0.5;
/// A glance over this is, and two glances over the one before.
const OVERRUN_FRAC: f64 = 0.65;
/// Over this two looks are.
const BUSY_FRAC: f64 = 0.35;
/// Or over this, where nothing of the core is left: on two cores all would have room.
const FULL_FOREIGN_FRAC: f64 = 0.15;
const FULL_FRAC: f64 = 0.9;
/// A core that others use less than this can be gathered on, if there is room for the gang as well.
const QUIET_FRAC: f64 = 0.15;
/// How much quieter another core must be for a gang that never disbands to move.
const BETTER_FRAC: f64 = 0.2;
/// Looks in a row that must find a core quiet after the gang has been disbanded: at first, and at most.
const FIRST_WAIT: u32 = 10;
const LONGEST_WAIT: u32 = 64;
/// A gang that lasted for this many looks was worth it.
const LASTED: u32 = 60;

/// Chooses a gang's core, one look a second.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Never disband, and share a core with other gangs if need be: `cores = one`.
    always: bool,
    current: Option<u32>,
    /// Looks in a row that found the gang's core busy; that found one quiet while there is no gang.
    busy: u32,
    quiet: u32,
    /// Glances in a row that found it crowded.
    crowded: u32,
    /// Looks that the gang has lasted.
    lasted: u32,
    /// Looks to wait for before the next gang.
    wait: u32,
}

impl Choice {
    pub fn new(always: bool) -> Self {
        Self {
            always,
            current: None,
            busy: 0,
            quiet: 0,
            crowded: 0,
            lasted: 0,
            wait: 1,
        }
    }

    /// The core that the gang keeps to; None = there is none.
    pub fn current(&self) -> Option<u32> {
        self.current
    }

    /// Takes in a look at all cores, in the order in which equal ones are preferred.
    pub fn look(&mut self, cores: &[Core]) -> Verdict {
        let Some(best) = self.best(cores) else {
            return self.disband();
        };
        let Some(&Core {
            foreign_frac,
            ours_frac,
            ..
        }) = self.core_in_use(cores)
        else {
            self.quiet = match best.foreign_frac <= QUIET_FRAC {
                true => self.quiet + 1,
                false => 0,
            };
            if self.always || self.quiet >= self.wait {
                return self.gather(best.number);
            }
            return Verdict::Stay;
        };
        let full = foreign_frac >= FULL_FOREIGN_FRAC && foreign_frac + ours_frac >= FULL_FRAC;
        self.busy = if full || foreign_frac >= BUSY_FRAC {
            self.busy + 1
        } else {
            0
        };
        self.lasted += 1;
        match self.busy < 2 && foreign_frac < CROWDED_FRAC {
            true => Verdict::Stay,
            false => self.leave(cores),
        }
    }

    /// Takes in a glance at them, a quarter of a second: whether others use the gang's so much that it is left at once.
    pub fn is_crowded(&mut self, cores: &[Core]) -> bool {
        let foreign_frac = self
            .core_in_use(cores)
            .map_or(0.0, |core| core.foreign_frac);
        self.crowded = match foreign_frac >= CROWDED_FRAC {
            true => self.crowded + 1,
            false => 0,
        };
        self.crowded >= 2 || foreign_frac >= OVERRUN_FRAC
    }

    /// The core is too busy: to another one, if one has room.
    pub fn leave(&mut self, cores: &[Core]) -> Verdict {
        let foreign_frac = self
            .core_in_use(cores)
            .map_or(1.0, |core| core.foreign_frac);
        if let Some(best) = self.best(cores) {
            let has_room = self.always || best.foreign_frac <= QUIET_FRAC;
            if has_room && best.foreign_frac + BETTER_FRAC <= foreign_frac {
                return self.gather(best.number);
            }
        }
        match self.always {
            true => Verdict::Stay,
            false => self.disband(),
        }
    }

    fn core_in_use<'a>(&self, cores: &'a [Core]) -> Option<&'a Core> {
        cores.iter().find(|core| Some(core.number) == self.current)
    }

    /// The quietest that no other gang has.
    fn best(&self, cores: &[Core]) -> Option<Core> {
        let quietest = |of: &dyn Fn(&Core) -> bool| {
            let among = cores.iter().copied().filter(of);
            among.min_by(|one, other| one.foreign_frac.total_cmp(&other.foreign_frac))
        };
        quietest(&|core| core.free || Some(core.number) == self.current)
            .or_else(|| quietest(&|_| self.always))
    }

    fn gather(&mut self, core: u32) -> Verdict {
        (self.busy, self.quiet, self.crowded) = (0, 0, 0);
        if self.current.replace(core).is_none() {
            self.lasted = 0;
        }
        Verdict::Gather(core)
    }

    /// There is no gang from now on, also where another process was quicker to take the core.
    pub fn disband(&mut self) -> Verdict {
        if self.current.take().is_none() {
            return Verdict::Stay;
        }
        // A neighbour that comes and goes costs a second each time that it comes: let it come ever more rarely.
        self.wait = match self.lasted >= LASTED {
            true => FIRST_WAIT,
            false => (2 * self.wait).clamp(FIRST_WAIT, LONGEST_WAIT),
        };
        (self.busy, self.quiet, self.crowded) = (0, 0, 0);
        Verdict::Disband
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two(first: f64, second: f64) -> [Core; 2] {
        full_of(first, second, 0.4)
    }

    fn full_of(first: f64, second: f64, ours_frac: f64) -> [Core; 2] {
        [(0, first), (1, second)].map(|(number, foreign_frac)| Core {
            number,
            foreign_frac,
            ours_frac,
            free: true,
        })
    }

    #[test]
    fn it_pays_where_two_cores_cost_more_and_not_where_they_cost_the_same() {
        let pays = |one_core_ns, two_cores_ns| {
            HandOver {
                one_core_ns,
                two_cores_ns,
            }
            .pays()
        };
        assert!(pays(8_000, 97_000));
        assert!(pays(4_000, 10_000));
        assert!(!pays(2_000, 5_000));
        assert!(!pays(97_000, 97_000));
        assert!(!pays(60_000, 80_000));
    }

    #[test]
    fn it_gathers_on_the_quietest_core_and_stays_while_nobody_needs_it() {
        let mut choice = Choice::new(false);
        assert_eq!(choice.look(&two(0.1, 0.0)), Verdict::Gather(1));
        for _ in 0..9 {
            assert_eq!(choice.look(&two(0.0, 0.3)), Verdict::Stay);
        }
    }

    #[test]
    fn a_neighbour_that_spins_ends_it_at_the_first_look() {
        let mut choice = Choice::new(false);
        choice.look(&two(0.1, 0.0));
        assert_eq!(choice.look(&two(0.2, 0.6)), Verdict::Disband);
        assert_eq!(choice.current(), None);
    }

    #[test]
    fn one_glance_at_a_core_that_is_overrun_is_enough_or_two_at_a_crowded_one() {
        let mut choice = Choice::new(false);
        choice.look(&two(0.1, 0.0));
        for foreign_frac in [0.3, 0.55, 0.4, 0.55] {
            assert!(!choice.is_crowded(&two(0.2, foreign_frac)));
        }
        assert!(choice.is_crowded(&two(0.2, 0.55)));
        assert_eq!(choice.leave(&two(0.2, 0.55)), Verdict::Disband);
        let mut choice = Choice::new(false);
        choice.look(&two(0.1, 0.0));
        assert!(choice.is_crowded(&two(0.1, 0.7)));
        assert_eq!(choice.leave(&two(0.1, 0.7)), Verdict::Gather(0));
        assert!(!choice.is_crowded(&two(0.1, 0.7)));
    }

    #[test]
    fn it_moves_where_another_core_has_room() {
        let mut choice = Choice::new(false);
        choice.look(&two(0.1, 0.0));
        assert_eq!(choice.look(&two(0.1, 0.6)), Verdict::Gather(0));
    }

    #[test]
    fn a_core_that_is_full_is_left_after_two_looks() {
        let mut choice = Choice::new(false);
        choice.look(&two(0.1, 0.0));
        assert_eq!(choice.look(&full_of(0.4, 0.2, 0.75)), Verdict::Stay);
        assert_eq!(choice.look(&full_of(0.4, 0.2, 0.75)), Verdict::Disband);
    }

    #[test]
    fn who_comes_and_goes_is_believed_ever_less() {
        let mut choice = Choice::new(false);
        let mut waits = Vec::new();
        for _ in 0..6 {
            let mut looks = 0;
            while choice.look(&two(0.1, 0.0)) == Verdict::Stay {
                looks += 1;
            }
            waits.push(looks + 1);
            assert_eq!(choice.look(&two(0.3, 0.6)), Verdict::Disband);
        }
        assert_eq!(waits, [1, 10, 20, 40, 64, 64]);
    }

    #[test]
    fn with_one_it_never_disbands() {
        let mut choice = Choice::new(true);
        assert_eq!(choice.look(&two(0.9, 0.8)), Verdict::Gather(1));
        assert_eq!(choice.look(&two(0.9, 0.8)), Verdict::Stay);
        assert_eq!(choice.look(&two(0.5, 0.8)), Verdict::Gather(0));
    }

    #[test]
    fn no_core_is_taken_that_another_gang_has() {
        let mut choice = Choice::new(false);
        let taken = two(0.1, 0.0).map(|core| Core {
            free: false,
            ..core
        });
        assert_eq!(choice.look(&taken), Verdict::Stay);
        assert_eq!(choice.current(), None);
        assert_eq!(Choice::new(true).look(&taken), Verdict::Gather(1));
    }
}
