//! Who is granted a permit before whom.

/// The order in which waiters are granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// By the job's arrival, so that a job with several heavy phases does not queue at the tail again for each.
    Fifo,
    /// Earliest deadline first; jobs without one come last, by arrival.
    Deadline,
    /// Shortest expected burst first; needs ageing, or long bursts starve under load.
    Shortest,
}

/// What a phase brings when it asks for a permit. Times in ns of one monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// When its job arrived.
    pub arrival_ns: u64,
    /// When its job's answer is due; 0 = no deadline.
    pub deadline_ns: u64,
    /// Its expected CPU burst, ns.
    pub expected_ns: u64,
}

/// Sort key of a waiter: smaller goes first. Ties go to the earlier arrival, then to the smaller ticket.
pub type Key = (u64, u64, u64);

impl Discipline {
    /// The key of `claim` with `ticket` under this discipline.
    pub fn key(self, claim: &Claim, ticket: u64) -> Key {
        match self {
            Self::Fifo => (claim.arrival_ns, claim.arrival_ns, ticket),
            Self::Deadline if claim.deadline_ns == 0 => (u64::MAX, claim.arrival_ns, ticket),
            Self::Deadline => (claim.deadline_ns, claim.arrival_ns, ticket),
            Self::Shortest => (claim.expected_ns, claim.arrival_ns, ticket),
        }
    }

    /// The discipline called `name`; None when there is none.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "fifo" => Some(Self::Fifo),
            "deadline" => Some(Self::Deadline),
            "shortest" => Some(Self::Shortest),
            _ => None,
        }
    }
}
