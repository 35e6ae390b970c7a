//! What a recording can say. Times are nanoseconds of one monotonic clock; ids belong to one process.
//!
//! A *unit* is what runs: a thread, a greenlet, a task, or a loop between them. A *job* is one request, task or placed
//! call; its children (threads, greenlets, tasks, futures) are units attached to it. Unit 0 and job 0 mean "none".
//!
//! Who reads a recording finds each moment of a unit in a [`Event::Slice`] (it ran, or waited for the GIL inside) or in
//! a [`Event::Block`] (it was blocked, then ready, then resumed). [`Event::Wait`] is laid over both and names waits
//! that are known exactly.

/// Number of a text, defined once a chunk. 0 = no text.
pub type Text = u32;

/// What runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum UnitKind {
    Thread = 0,
    Greenlet = 1,
    Task = 2,
    /// An event loop's own work between greenlets or tasks.
    Loop = 3,
}

/// Where a job's arrival was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ArrivalClock {
    /// The first instruction that we saw: hides every wait before it.
    Handler = 0,
    /// When the unit that runs it was made ready.
    Spawn = 1,
    /// When its connection was accepted or its bytes were read.
    Accept = 2,
    /// When its bytes reached the machine, by the kernel's stamp.
    Kernel = 3,
    /// What a front wrote into a header.
    Header = 4,
    /// When it was put into a queue.
    Enqueue = 5,
    /// The caller said so.
    Given = 6,
}

/// What a wait is for: the unit could have run, somebody else did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum WaitKind {
    Gil = 0,
    Loop = 1,
    Permit = 2,
    /// Between arrival and the first instruction: accept queue, listen backlog, server's own queue.
    Accept = 3,
    /// A lock, a queue, a future of another job: written as blocks, named here for the accounting.
    Lock = 4,
    Pool = 5,
    /// Off the CPU although nothing in the process held it: the operating system ran others, or a page fault.
    Os = 6,
    /// Only earlier versions wrote it: others went before its heavy phase, which had a permit.
    Stopped = 7,
    /// Its host held it back before its first instruction: written as [`Event::Parked`], named here for the accounting.
    Parked = 8,
    /// Off the CPU in a call that nobody saw, and not for want of a core: named by the accounting alone.
    Unseen = 9,
    /// In the queue of one thread, which works for others first: named by the accounting alone.
    Queue = 10,
}

/// What has places that units wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ResourceKind {
    /// A pool of connections.
    Connections = 0,
    /// The threads of an executor or a limiter.
    Threads = 1,
    Semaphore = 2,
    Lock = 3,
    /// The processes of an executor.
    Processes = 4,
}

/// How a client call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Outcome {
    Ok = 0,
    Error = 1,
    Timeout = 2,
}

/// The job's number is unknown, or there is none.
pub const NO_JOB: u64 = 0;
/// Bit of [`Event::Block`]`.flags`: the thread itself was blocked, and with it every unit of its loop.
pub const HELD_THE_LOOP: u8 = 1;
/// Bit of [`Event::Block`]`.flags`: `ready_ns` is the kernel's stamp or another exact moment, not a guess.
pub const READY_EXACT: u8 = 2;
/// Bit of [`Event::Block`]`.flags`: the caller's own time-out ended a wait for something that did not happen, as a sleep
/// ends: nobody had what it waited for.
pub const TIMED_OUT: u8 = 4;
/// [`Event::Contention`]`.flags`: the wait ended without a place.
pub const GAVE_UP: u8 = 1;
/// [`Event::Hold`]`.flags`: it holds the place still.
pub const HOLDS_STILL: u8 = 1;
/// Bit of [`Event::Turn`]`.how`: the phase took a permit.
pub const TURN_TAKEN: u8 = 1;
/// Likewise: beside a holder whose phase is at least twice as long.
pub const TURN_EXPRESS: u8 = 2;
/// Likewise: it used the CPU of its share, and computed beside others from then on.
pub const TURN_SHARED: u8 = 4;
/// Likewise: it was believed light, and has used the CPU of a heavy one.
pub const TURN_CHARGED: u8 = 8;
/// Likewise: it ran without a permit, although it is heavy; with [`TURN_TAKEN`]: until it got one.
pub const TURN_SKIPPED: u8 = 16;

/// One thing that happened. Written when it is over, so events of one process are in order of their *end*.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    /// A unit came to be. `thread`: the OS thread that runs it, `parent`: the unit that started it.
    Unit {
        at_ns: u64,
        unit: u32,
        kind: UnitKind,
        thread: u32,
        parent: u32,
        name: Text,
    },
    /// A job's first instruction, `at_ns`. `spawn_ns`: its unit was made ready (0 = unknown).
    /// `deadline_ns`: when its answer is due (0 = never). `host`: who opened it, such as "gunicorn.gevent".
    JobOpen {
        at_ns: u64,
        job: u64,
        unit: u32,
        arrival_ns: u64,
        spawn_ns: u64,
        deadline_ns: u64,
        clock: ArrivalClock,
        host: Text,
        parent_job: u64,
    },
    /// The framework resolved the job's route.
    JobName { at_ns: u64, job: u64, route: Text },
    /// The job's answer left. `status`: HTTP status, or 0 ok and 1 failed for others.
    JobClose { at_ns: u64, job: u64, status: u16 },
    /// From here on `unit` works for `job` (0 = for none).
    Attach { at_ns: u64, unit: u32, job: u64 },
    /// `unit` ran. `cpu_ns`: CPU used, or `u64::MAX`: not measured, at most the slice less its waits.
    Slice {
        from_ns: u64,
        to_ns: u64,
        unit: u32,
        job: u64,
        phase: u16,
        cpu_ns: u64,
    },
    /// `unit` could have run from `from_ns` to `to_ns` and did not. May lie inside its slices.
    Wait {
        from_ns: u64,
        to_ns: u64,
        unit: u32,
        job: u64,
        kind: WaitKind,
    },
    /// `unit` was blocked from `from_ns`, was ready at some moment in [`known_ns`, `ready_ns`], and ran again at
    /// `to_ns`. Exact if both are equal. `kind`: `phase.Kind`. `call`: what it called; `peer`: whom, if known.
    Block {
        from_ns: u64,
        known_ns: u64,
        ready_ns: u64,
        to_ns: u64,
        unit: u32,
        job: u64,
        kind: u8,
        flags: u8,
        call: Text,
        peer: Text,
    },
    /// A call to an upstream, over all its blocks. `ready_ns`: its reply was there (0 = unknown).
    /// `deadline_ns`: when its timeout ended (0 = none). `own_ns`: how long it took by the upstream's own clock, as its
    /// reply says (0 = it does not).
    Call {
        from_ns: u64,
        ready_ns: u64,
        to_ns: u64,
        deadline_ns: u64,
        unit: u32,
        job: u64,
        upstream: Text,
        operation: Text,
        outcome: Outcome,
        own_ns: u64,
    },
    /// The garbage collector ran in `unit`.
    Gc {
        from_ns: u64,
        to_ns: u64,
        unit: u32,
        generation: u8,
    },
    /// Where `unit` was while somebody waited: frames from the outermost to the innermost, each
    /// `function (file:line)`, a coroutine's after `async `, separated by `;`. Stands for `weight_ns` of its time.
    /// `kept_ns`: until then it had kept the GIL for so long though it was asked for it, so in one call of C; 0 = not.
    Stack {
        at_ns: u64,
        unit: u32,
        job: u64,
        weight_ns: u64,
        stack: Text,
        kept_ns: u64,
    },
    /// The process as a whole, once a second. `os_wait_ns`: its threads waited for a core, since the start.
    /// `lag_ns`: largest lateness of its loop since the last one. `loop_ns`: what a loop of fixed work took, by the CPU
    /// clock, so how fast the cores are; 0 = not known. `waking_ns`: since recording began the GIL was nobody's although
    /// somebody waited for it, from its release until that thread ran, `hand_overs` times.
    Process {
        at_ns: u64,
        cpu_ns: u64,
        os_wait_ns: u64,
        rss_bytes: u64,
        threads: u32,
        jobs: u32,
        lag_ns: u64,
        loop_ns: u32,
        waking_ns: u64,
        hand_overs: u64,
    },
    /// `unit` has been running since `from_ns` and still does: what there is of a slice that may never end.
    Running {
        at_ns: u64,
        unit: u32,
        job: u64,
        from_ns: u64,
    },
    /// What the recording has cost this process since it began: `events` at `thousand_ns` a thousand (measured at its
    /// start, on a ring of its own), and the CPU of its two threads.
    Cost {
        at_ns: u64,
        events: u64,
        thousand_ns: u64,
        writer_ns: u64,
        sampler_ns: u64,
    },
    /// A job was held back before its first instruction. `by`: what held it, such as an upstream's limit.
    Parked {
        from_ns: u64,
        to_ns: u64,
        job: u64,
        by: Text,
    },
    /// The job is that span of that trace (of 128 bits, in two halves).
    Traced {
        at_ns: u64,
        job: u64,
        trace_high: u64,
        trace_low: u64,
        span: u64,
    },
    /// `unit` was looked at while it ran for `job`. `free`: it did so without the GIL. Stands for `weight_ns`.
    Look {
        at_ns: u64,
        unit: u32,
        job: u64,
        weight_ns: u64,
        free: bool,
    },
    /// `thread` has waited for a core for `waited_ns` since it began. `withheld_ns`: cores stolen from the machine, and
    /// time without quota, since the recording of its process began.
    Cores {
        at_ns: u64,
        thread: u32,
        waited_ns: u64,
        withheld_ns: u64,
    },
    /// The thread of `unit` handed something to an event loop: a result that a task there may wait for.
    Answer { at_ns: u64, unit: u32 },
    /// A heavy phase of `job` has ended. `how`: [`TURN_TAKEN`] and the bits behind it. `stops`: 0; in earlier
    /// versions how often others went before it.
    Turn {
        at_ns: u64,
        unit: u32,
        job: u64,
        how: u8,
        stops: u32,
    },
    /// `unit` waited for one of the `capacity` places of a resource (0 = not known). Its [`Event::Wait`] or
    /// [`Event::Block`] says so, too. `line`: the application's frame that asked, as one of a stack.
    Contention {
        from_ns: u64,
        to_ns: u64,
        unit: u32,
        job: u64,
        resource: u32,
        kind: ResourceKind,
        flags: u8,
        capacity: u32,
        name: Text,
        line: Text,
    },
    /// `unit` had a place of a resource while others waited for one. `line`: the application's frame that took it, of
    /// threads the function that ran. With [`HOLDS_STILL`] it may be told again: the last one counts.
    Hold {
        from_ns: u64,
        to_ns: u64,
        unit: u32,
        job: u64,
        resource: u32,
        flags: u8,
        line: Text,
    },
    /// A JSON object that describes the process: `docs/recording-format.md` lists its fields.
    About { at_ns: u64, json: Text },
    /// Recording was switched "on" or "off", or something happened that a reader should know.
    Mark { at_ns: u64, what: Text },
}

impl Event {
    /// The unit that it is about, if it is about one.
    pub fn unit(&self) -> Option<u32> {
        match *self {
            Self::Unit { unit, .. }
            | Self::JobOpen { unit, .. }
            | Self::Attach { unit, .. }
            | Self::Slice { unit, .. }
            | Self::Wait { unit, .. }
            | Self::Block { unit, .. }
            | Self::Call { unit, .. }
            | Self::Gc { unit, .. }
            | Self::Stack { unit, .. }
            | Self::Running { unit, .. }
            | Self::Look { unit, .. }
            | Self::Answer { unit, .. }
            | Self::Turn { unit, .. }
            | Self::Contention { unit, .. }
            | Self::Hold { unit, .. } => Some(unit),
            _ => None,
        }
    }

    /// When it began and ended; the same moment twice for what takes no time.
    pub fn span_ns(&self) -> (u64, u64) {
        match *self {
            Self::Unit { at_ns, .. }
            | Self::JobOpen { at_ns, .. }
            | Self::JobName { at_ns, .. }
            | Self::JobClose { at_ns, .. }
            | Self::Attach { at_ns, .. }
            | Self::Stack { at_ns, .. }
            | Self::Process { at_ns, .. }
            | Self::Cost { at_ns, .. }
            | Self::Traced { at_ns, .. }
            | Self::Look { at_ns, .. }
            | Self::Cores { at_ns, .. }
            | Self::Answer { at_ns, .. }
            | Self::Turn { at_ns, .. }
            | Self::About { at_ns, .. }
            | Self::Mark { at_ns, .. } => (at_ns, at_ns),
            Self::Slice { from_ns, to_ns, .. }
            | Self::Wait { from_ns, to_ns, .. }
            | Self::Block { from_ns, to_ns, .. }
            | Self::Call { from_ns, to_ns, .. }
            | Self::Gc { from_ns, to_ns, .. }
            | Self::Contention { from_ns, to_ns, .. }
            | Self::Hold { from_ns, to_ns, .. }
            | Self::Parked { from_ns, to_ns, .. } => (from_ns, to_ns),
            Self::Running { from_ns, at_ns, .. } => (from_ns, at_ns),
        }
    }
}
