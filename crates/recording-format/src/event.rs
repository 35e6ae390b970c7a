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

impl UnitKind {
    /// Those that a recording can say, by number.
    pub const BY_NUMBER: [Self; 4] = [Self::Thread, Self::Greenlet, Self::Task, Self::Loop];
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

impl ArrivalClock {
    /// Those that a recording can say, by number.
    pub const BY_NUMBER: [Self; 7] = [
        Self::Handler,
        Self::Spawn,
        Self::Accept,
        Self::Kernel,
        Self::Header,
        Self::Enqueue,
        Self::Given,
    ];
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

impl WaitKind {
    /// Those that a recording can say, by number.
    pub const BY_NUMBER: [Self; 8] = [
        Self::Gil,
        Self::Loop,
        Self::Permit,
        Self::Accept,
        Self::Lock,
        Self::Pool,
        Self::Os,
        Self::Stopped,
    ];
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

impl ResourceKind {
    /// Those that a recording can say, by number.
    pub const BY_NUMBER: [Self; 5] = [
        Self::Connections,
        Self::Threads,
        Self::Semaphore,
        Self::Lock,
        Self::Processes,
    ];
}

/// How a client call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Outcome {
    Ok = 0,
    Error = 1,
    Timeout = 2,
}

impl Outcome {
    /// Those that a recording can say, by number.
    pub const BY_NUMBER: [Self; 3] = [Self::Ok, Self::Error, Self::Timeout];
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

/// The table of events: `events!(with)` calls the macro `with` with it.
///
/// An entry is a tag, a name, a variant and its fields in the order in which they are written, each with its type and how
/// it is written: a method of both `Encoder` and `Decoder`. The first field is the event's first time.
#[macro_export]
macro_rules! events {
    ($with:ident) => {
        $with! {
            /// A unit came to be. `thread`: the OS thread that runs it, `parent`: the unit that started it.
            1 unit Unit {
                at_ns: u64 = first, unit: u32 = small, kind: UnitKind = unit_kind, thread: u32 = small,
                parent: u32 = small, name: Text = text_number
            }
            /// A job's first instruction, `at_ns`. `spawn_ns`: its unit was made ready (0 = unknown).
            /// `deadline_ns`: when its answer is due (0 = never). `host`: who opened it, such as "gunicorn.gevent".
            2 job_open JobOpen {
                at_ns: u64 = first, job: u64 = plain, unit: u32 = small, arrival_ns: u64 = time,
                spawn_ns: u64 = maybe, deadline_ns: u64 = maybe, clock: ArrivalClock = arrival_clock,
                host: Text = text_number, parent_job: u64 = plain
            }
            /// The framework resolved the job's route.
            3 job_name JobName { at_ns: u64 = first, job: u64 = plain, route: Text = text_number }
            /// The job's answer left. `status`: HTTP status, or 0 ok and 1 failed for others.
            4 job_close JobClose { at_ns: u64 = first, job: u64 = plain, status: u16 = short }
            /// From here on `unit` works for `job` (0 = for none).
            5 attach Attach { at_ns: u64 = first, unit: u32 = small, job: u64 = plain }
            /// `unit` ran. `cpu_ns`: CPU used, or `u64::MAX`: not measured, at most the slice less its waits.
            6 slice Slice {
                from_ns: u64 = first, to_ns: u64 = time, unit: u32 = small, job: u64 = plain,
                phase: u16 = short, cpu_ns: u64 = measured
            }
            /// `unit` could have run from `from_ns` to `to_ns` and did not. May lie inside its slices.
            7 wait Wait {
                from_ns: u64 = first, to_ns: u64 = time, unit: u32 = small, job: u64 = plain,
                kind: WaitKind = wait_kind
            }
            /// `unit` was blocked from `from_ns`, was ready at some moment in [`known_ns`, `ready_ns`], and ran again at
            /// `to_ns`. Exact if both are equal. `kind`: `phase.Kind`. `call`: what it called; `peer`: whom, if known.
            8 block Block {
                from_ns: u64 = first, known_ns: u64 = time, ready_ns: u64 = time, to_ns: u64 = time,
                unit: u32 = small, job: u64 = plain, kind: u8 = tiny, flags: u8 = tiny,
                call: Text = text_number, peer: Text = text_number
            }
            /// A call to an upstream, over all its blocks. `ready_ns`: its reply was there (0 = unknown).
            /// `deadline_ns`: when its timeout ended (0 = none). `own_ns`: how long it took by the upstream's own clock, as its
            /// reply says (0 = it does not).
            9 call Call {
                from_ns: u64 = first, ready_ns: u64 = maybe, to_ns: u64 = time,
                deadline_ns: u64 = maybe, unit: u32 = small, job: u64 = plain, upstream: Text = text_number,
                operation: Text = text_number, outcome: Outcome = outcome, own_ns: u64 = later
            }
            /// The garbage collector ran in `unit`.
            10 gc Gc { from_ns: u64 = first, to_ns: u64 = time, unit: u32 = small, generation: u8 = tiny }
            /// Where `unit` was while somebody waited: frames from the outermost to the innermost, each
            /// `function (file:line)`, a coroutine's after `async `, separated by `;`. Stands for `weight_ns` of its time.
            /// `kept_ns`: until then it had kept the GIL for so long though it was asked for it, so in one call of C; 0 = not.
            11 stack Stack {
                at_ns: u64 = first, unit: u32 = small, job: u64 = plain, weight_ns: u64 = plain,
                stack: Text = text_number, kept_ns: u64 = later
            }
            /// The process as a whole, once a second. `os_wait_ns`: its threads waited for a core, since the start.
            /// `lag_ns`: largest lateness of its loop since the last one. `loop_ns`: what a loop of fixed work took, by the CPU
            /// clock, so how fast the cores are; 0 = not known. `waking_ns`: since recording began the GIL was nobody's although
            /// somebody waited for it, from its release until that thread ran, `hand_overs` times.
            12 process Process {
                at_ns: u64 = first, cpu_ns: u64 = plain, os_wait_ns: u64 = plain,
                rss_bytes: u64 = plain, threads: u32 = small, jobs: u32 = small, lag_ns: u64 = plain,
                loop_ns: u32 = small, waking_ns: u64 = later, hand_overs: u64 = later
            }
            /// `unit` has been running since `from_ns` and still does: what there is of a slice that may never end.
            15 running Running { at_ns: u64 = first, unit: u32 = small, job: u64 = plain, from_ns: u64 = time }
            /// What the recording has cost this process since it began: `events` at `thousand_ns` a thousand (measured at its
            /// start, on a ring of its own), and the CPU of its two threads.
            16 cost Cost {
                at_ns: u64 = first, events: u64 = plain, thousand_ns: u64 = plain,
                writer_ns: u64 = plain, sampler_ns: u64 = plain
            }
            /// A job was held back before its first instruction. `by`: what held it, such as an upstream's limit.
            17 parked Parked { from_ns: u64 = first, to_ns: u64 = time, job: u64 = plain, by: Text = text_number }
            /// The job is that span of that trace (of 128 bits, in two halves).
            18 traced Traced {
                at_ns: u64 = first, job: u64 = plain, trace_high: u64 = plain, trace_low: u64 = plain,
                span: u64 = plain
            }
            /// `unit` was looked at while it ran for `job`. `free`: it did so without the GIL. Stands for `weight_ns`.
            19 look Look {
                at_ns: u64 = first, unit: u32 = small, job: u64 = plain, weight_ns: u64 = plain,
                free: bool = flag
            }
            /// `thread` has waited for a core for `waited_ns` since it began. `withheld_ns`: cores stolen from the machine, and
            /// time without quota, since the recording of its process began.
            20 cores Cores {
                at_ns: u64 = first, thread: u32 = small, waited_ns: u64 = plain,
                withheld_ns: u64 = plain
            }
            /// The thread of `unit` handed something to an event loop: a result that a task there may wait for.
            21 answer Answer { at_ns: u64 = first, unit: u32 = small }
            /// A heavy phase of `job` has ended. `how`: [`TURN_TAKEN`] and the bits behind it. `stops`: 0; in earlier
            /// versions how often others went before it.
            22 turn Turn {
                at_ns: u64 = first, unit: u32 = small, job: u64 = plain, how: u8 = tiny,
                stops: u32 = small
            }
            /// `unit` waited for one of the `capacity` places of a resource (0 = not known). Its [`Event::Wait`] or
            /// [`Event::Block`] says so, too. `line`: the application's frame that asked, as one of a stack.
            23 contention Contention {
                from_ns: u64 = first, to_ns: u64 = time, unit: u32 = small, job: u64 = plain,
                resource: u32 = small, kind: ResourceKind = resource_kind, flags: u8 = tiny,
                capacity: u32 = small, name: Text = text_number, line: Text = text_number
            }
            /// `unit` had a place of a resource while others waited for one. `line`: the application's frame that took it, of
            /// threads the function that ran. With [`HOLDS_STILL`] it may be told again: the last one counts.
            24 hold Hold {
                from_ns: u64 = first, to_ns: u64 = time, unit: u32 = small, job: u64 = plain,
                resource: u32 = small, flags: u8 = tiny, line: Text = text_number
            }
            /// A JSON object that describes the process: `docs/recording-format.md` lists its fields.
            13 about About { at_ns: u64 = first, json: Text = text_number }
            /// Recording was switched "on" or "off", or something happened that a reader should know.
            14 mark Mark { at_ns: u64 = first, what: Text = text_number }
        }
    };
}

macro_rules! define {
    ($($(#[$doc:meta])+ $tag:literal $name:ident $event:ident {
        $($field:ident: $type:ty = $how:ident),+
    })+) => {
        /// One thing that happened. Written when it is over, so events of one process are in order of their *end*.
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub enum Event {
            $($(#[$doc])+ $event { $($field: $type),+ },)+
        }
    };
}

events!(define);

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
