//! What there is to choose, and the reasons, with the names by which Python and files know them.

/// Where a call runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Where its caller is.
    Inline,
    /// On the native thread.
    #[default]
    Thread,
    /// In a worker process.
    Process,
}

impl Place {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Inline, Self::Thread, Self::Process];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Thread => "thread",
            Self::Process => "process",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|place| place.name() == name)
    }
}

/// Why calls run where they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Why {
    /// Too little is known.
    #[default]
    New,
    /// A loop bears it.
    Light,
    /// A call has lately taken far longer than the others.
    Surprised,
    /// It runs without the GIL.
    Released,
    /// Processes are not to be chosen.
    Alone,
    /// It cannot run in another process, or must not.
    Refused,
    /// What would have to be pickled costs the loop too much.
    Payload,
    /// The processes will be tried as soon as they are ready.
    Preparing,
    /// Trying has used up its budget.
    Budget,
    /// The other placement is being tried.
    Trying,
    /// The other one is slower.
    Faster,
    /// The other one is as fast and keeps the loop more.
    Calmer,
    /// The other one is as fast; this one is simpler, or was there first.
    Equal,
}

impl Why {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::New,
        Self::Light,
        Self::Surprised,
        Self::Released,
        Self::Alone,
        Self::Refused,
        Self::Payload,
        Self::Preparing,
        Self::Budget,
        Self::Trying,
        Self::Faster,
        Self::Calmer,
        Self::Equal,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Light => "light",
            Self::Surprised => "surprised",
            Self::Released => "released",
            Self::Alone => "alone",
            Self::Refused => "refused",
            Self::Payload => "payload",
            Self::Preparing => "preparing",
            Self::Budget => "budget",
            Self::Trying => "trying",
            Self::Faster => "faster",
            Self::Calmer => "calmer",
            Self::Equal => "equal",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|why| why.name() == name)
    }
}
