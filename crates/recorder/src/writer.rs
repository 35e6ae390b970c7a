//! The native thread that drains the rings into the files. It never takes the GIL and blocks no signal of the process.
//!
//! It wakes every 200 ms, or when a ring is a quarter full; what it has found is written as one chunk at once, so that a
//! process that is killed loses no more than that. It has a table of descriptors of its own.
//!
//! [`start`] only makes a plan. Threads and files come with the first event, or the first poll, of each process, see
//! [`pending`]: a child that only executes another program, or a daemon on its way to the background, has none.

use crate::calls::installation;
use crate::calls::waking;
use crate::cores::Cores;
use crate::ring::{Ring, ESTIMATED};
use crate::segments::Segments;
use crate::thread_registry::{self, lock, registry, ThreadRegistry, WriterStatus, WAKE};
use crate::{cost, names, pending, sampler, switch};
use greenlane_process::numbers::{NumberMap, NumberSet};
use greenlane_process::{clock, descriptors, forks, signals, speed};
use greenlane_recording_format::codec::Encoder;
use greenlane_recording_format::event::{Event, Text, UnitKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Once, PoisonError};
use std::time::Duration;
use std::{fs, io, mem, ptr};

const PERIOD: Duration = Duration::from_millis(200);
const SECOND_NS: u64 = 1_000_000_000;
/// Events that are taken from a ring at once.
const BATCH: usize = 1024;
/// A writer that has done its last round ends immediately.
const MOST_PATIENCE_MS: u32 = 1000;
/// A chunk beyond this is written before the ring is empty, bytes.
const CHUNK_BYTES: usize = 256 << 10;
/// A slice that has lasted this long is written down before its end, once a round.
const LONG_NS: u64 = 1_000_000;
/// Threads and loops that are named again in each file; more are not.
const MOST_UNITS: usize = 4096;
/// Greenlets and tasks that are remembered, so that each file that mentions one describes it: up to twice this many,
/// those mentioned last.
const MOST_GREEN: usize = 32_768;

/// In the folder: its recording is over.
const ENDED: &str = "ended";
/// What the name of a folder ends in that goes when its recording is over.
const PARTS: &str = "parts";

/// What is to be recorded, here and in forked children.
struct Plan {
    pid: u32,
    folder: PathBuf,
    max_bytes: u64,
    keep: Duration,
    about: String,
}

impl Plan {
    fn is_over(&self) -> bool {
        let parts = self
            .folder
            .extension()
            .is_some_and(|suffix| suffix == PARTS);
        self.folder.join(ENDED).exists() || parts && !self.folder.exists()
    }

    /// The JSON that begins each file of this process.
    fn about(&self) -> Text {
        let fields = self.about.trim_end().trim_end_matches('}');
        let comma = if fields.ends_with('{') { "" } else { ", " };
        // SAFETY: no arguments, no failure.
        let (pid, parent) = unsafe { (libc::getpid(), libc::getppid()) };
        let (ns, unix_ns) = (started_ns(), STARTED_UNIX_NS.load(Ordering::Relaxed));
        names::text(&format!(
            "{fields}{comma}\"pid\": {pid}, \"parent_pid\": {parent}, \"started_ns\": {ns}, \"started_unix_ns\": {unix_ns}}}"
        ))
    }
}

/// Never freed: a forked child may find it in use. Null: nothing is to be recorded.
static PLAN: AtomicPtr<Plan> = AtomicPtr::new(ptr::null_mut());
static STARTED_NS: AtomicU64 = AtomicU64::new(0);
static STARTED_UNIX_NS: AtomicU64 = AtomicU64::new(0);
static WATCHED: Once = Once::new();

fn plan() -> Option<&'static Plan> {
    // SAFETY: null, or from a Box that is never freed.
    unsafe { PLAN.load(Ordering::Acquire).as_ref() }
}

fn replace_plan(plan: Plan) {
    PLAN.store(Box::into_raw(Box::new(plan)), Ordering::Release);
}

extern "C" fn in_child() {
    pending::set(plan().is_some());
}

/// When this process has begun; 0 = it has not.
pub fn started_ns() -> u64 {
    STARTED_NS.load(Ordering::Relaxed)
}

/// Plans to record this process and its forked children. `about` is the JSON that describes them, except what
/// [`Plan::about`] adds.
///
/// Fails if the folder cannot be written to. Running already: nothing happens.
pub fn start(folder: &Path, max_bytes: u64, keep: Duration, about: &str) -> io::Result<()> {
    let registry = registry();
    let thread = lock(&registry.thread);
    if thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
        if registry.stop.load(Ordering::Relaxed) {
            // Rings have one reader.
            return Err(io::Error::other("the one before is still being written"));
        }
        return Ok(());
    }
    writable(folder)?;
    forks::watch();
    WATCHED.call_once(|| {
        // SAFETY: the handler only writes an atomic.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    replace_plan(Plan {
        pid: std::process::id(),
        folder: folder.to_owned(),
        max_bytes,
        keep,
        about: about.to_owned(),
    });
    note_start();
    pending::act_is(begin_now);
    pending::set(true);
    switch::set(true);
    Ok(())
}

fn writable(folder: &Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let name = std::ffi::CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: a string that ends in 0.
    match unsafe { libc::access(name.as_ptr(), libc::W_OK | libc::X_OK) } {
        0 if folder.is_dir() => Ok(()),
        0 => Err(io::Error::from_raw_os_error(libc::ENOTDIR)),
        _ => Err(io::Error::last_os_error()),
    }
}

fn note_start() {
    STARTED_NS.store(clock::monotonic_ns(), Ordering::Relaxed);
    let unix_ns = clock::read(libc::CLOCK_REALTIME).unwrap_or(0);
    STARTED_UNIX_NS.store(unix_ns, Ordering::Relaxed);
}

/// Describes the process again: something of it has changed.
pub fn describe(about: &str) {
    if let Some(plan) = plan() {
        replace_plan(Plan {
            pid: plan.pid,
            folder: plan.folder.clone(),
            max_bytes: plan.max_bytes,
            keep: plan.keep,
            about: about.to_owned(),
        });
        if let (false, Some(plan)) = (pending::is_pending(), self::plan()) {
            registry().about.store(plan.about(), Ordering::Relaxed);
        }
    }
}

#[cold]
fn begin_now() {
    // The child of a `vfork` has our memory, and executes another program.
    if !forks::is_own_process() || !pending::take() {
        return;
    }
    let Some(plan) = plan() else { return };
    if plan.pid != std::process::id() {
        note_start();
    }
    if plan.is_over() || spawn(plan).is_err() {
        switch::set(false);
        return;
    }
    sampler::begin();
}

fn spawn(plan: &'static Plan) -> io::Result<()> {
    let registry = registry();
    let mut thread = lock(&registry.thread);
    let process = process_number();
    registry.stop.store(false, Ordering::Relaxed);
    registry.over.store(false, Ordering::Release);
    *lock(&registry.state) = WriterStatus {
        running: true,
        process,
        ..WriterStatus::default()
    };
    registry.about.store(plan.about(), Ordering::Relaxed);
    let segments = Segments::new(&plan.folder, process, plan.max_bytes, plan.keep);
    let writer = Writer::new(registry, segments, cost::thousand_ns());
    let started = signals::with_all_blocked(|| {
        std::thread::Builder::new()
            .name("greenlane-writer".to_owned())
            .spawn(move || writer.run())
    });
    match started {
        Ok(started) => {
            *thread = Some(started);
            Ok(())
        }
        Err(error) => {
            registry.over.store(true, Ordering::Release);
            lock(&registry.state).running = false;
            Err(error)
        }
    }
}

/// Writes what there is and ends the writer; waits for it, at most some seconds. Call without the GIL.
pub fn stop() {
    if plan().is_some_and(|plan| plan.pid == std::process::id()) {
        pending::begin(); // Without an event, too, a process is in its recording.
    }
    pending::set(false);
    PLAN.store(ptr::null_mut(), Ordering::Release);
    switch::set(false);
    let registry = registry();
    if lock(&registry.thread).is_none() {
        return;
    }
    registry.stop.store(true, Ordering::Relaxed);
    flush();
    // The thread has ended when this returns, unless the disk hangs: the next `start`, and code that looks at the
    // threads, may rely on it.
    for _ in 0..MOST_PATIENCE_MS {
        let mut thread = lock(&registry.thread);
        match thread.take_if(|thread| thread.is_finished()) {
            Some(ended) => return drop(ended.join()),
            None if thread.is_none() => return,
            None => {}
        }
        drop(thread);
        std::thread::sleep(Duration::from_millis(1));
        if !registry.over.load(Ordering::Acquire) {
            return;
        }
    }
}

/// Waits until everything that was in the rings when it was called is in the file, at most 5 s. Call without the GIL.
pub fn flush() {
    let registry = registry();
    let wanted = registry.asked.fetch_add(1, Ordering::AcqRel) + 1;
    match lock(&registry.thread).as_ref() {
        Some(thread) => thread.thread().unpark(),
        None => return,
    }
    let mut done = lock(&registry.done);
    let mut patience = 50;
    // A writer that is over has done its last round, whatever number that had.
    while *done < wanted && patience > 0 && !registry.over.load(Ordering::Acquire) {
        let waited = registry
            .round
            .wait_timeout(done, Duration::from_millis(100));
        done = waited.unwrap_or_else(PoisonError::into_inner).0;
        patience -= 1;
    }
}

/// Says that the writer is over, also when it fails: nobody waits for it in vain, and nothing more is recorded.
struct Over(&'static ThreadRegistry);

impl Drop for Over {
    fn drop(&mut self) {
        if std::thread::panicking() {
            switch::set(false);
            let mut state = lock(&self.0.state);
            state.running = false;
            state.error = Some("the writer failed".to_owned());
        }
        let done = lock(&self.0.done);
        self.0.over.store(true, Ordering::Release);
        self.0.round.notify_all();
        drop(done);
    }
}

struct Writer {
    registry: &'static ThreadRegistry,
    segments: Segments,
    about: Text,
    /// Texts that the present chunk has defined.
    defined: NumberSet<Text>,
    encoder: Encoder,
    base_ns: u64,
    /// Threads and loops, said again in each file.
    units: NumberMap<u32, Event>,
    /// Greenlets and tasks likewise, those mentioned since the first were put aside and those before.
    green: [NumberMap<u32, Event>; 2],
    /// Those that the present file has said.
    said: NumberSet<u32>,
    next_process_ns: u64,
    cores: Cores,
    /// Threads that were there before the recording, and had waited for a core by then: (when, ns).
    cores_before: NumberMap<u32, (u64, u64)>,
    events: u64,
    /// Of them, those that came from the rings, and what a thousand of them take.
    recorded: u64,
    thousand_ns: u64,
}

impl Writer {
    fn new(registry: &'static ThreadRegistry, segments: Segments, thousand_ns: u64) -> Self {
        Self {
            registry,
            segments,
            about: registry.about.load(Ordering::Relaxed),
            defined: NumberSet::default(),
            encoder: Encoder::default(),
            base_ns: 0,
            units: NumberMap::default(),
            green: Default::default(),
            said: NumberSet::default(),
            next_process_ns: 0,
            cores: Cores::default(),
            cores_before: NumberMap::default(),
            events: 0,
            recorded: 0,
            thousand_ns,
        }
    }

    fn run(mut self) {
        let _over = Over(self.registry);
        descriptors::unshare_descriptors();
        if let Err(error) = self.segments.open() {
            switch::set(false);
            let mut state = lock(&self.registry.state);
            state.running = false;
            state.error = Some(error.to_string());
            return;
        }
        self.cores.look();
        let at_ns = clock::monotonic_ns();
        let before = self.cores.waited.iter();
        self.cores_before = before.map(|&(thread, ns)| (thread, (at_ns, ns))).collect();
        loop {
            std::thread::park_timeout(PERIOD);
            WAKE.store(false, Ordering::Relaxed);
            let asked = self.registry.asked.load(Ordering::Acquire);
            let last = self.registry.stop.load(Ordering::Relaxed);
            self.round(last);
            installation::rescan();
            *lock(&self.registry.done) = asked;
            self.registry.round.notify_all();
            if last {
                return;
            }
        }
    }

    fn round(&mut self, last: bool) {
        let (registry, rings) = (self.registry, thread_registry::rings());
        let about = registry.about.load(Ordering::Relaxed);
        if about != self.about {
            self.about = about;
            self.write(&Event::About {
                at_ns: clock::monotonic_ns(),
                json: about,
            });
        }
        for ring in rings.iter() {
            self.drain(ring);
        }
        self.name_threads();
        let now_ns = clock::monotonic_ns();
        for ring in rings.iter() {
            self.write_running(ring, now_ns);
        }
        let mut throttled = false;
        if now_ns >= self.next_process_ns || last {
            self.next_process_ns = now_ns + SECOND_NS;
            let mut live = lock(&registry.live);
            let (jobs, lag_ns) = (live.in_progress() as u32, live.take_worst_lag_ns());
            drop(live);
            self.write_cores();
            throttled = self.cores.was_throttled(SECOND_NS);
            self.write(&process_event(now_ns, jobs, lag_ns, &self.cores));
            let cost = cost::event(now_ns, self.recorded, self.thousand_ns);
            self.write(&cost);
        }
        let mut marks = mem::take(&mut *lock(&registry.marks));
        if throttled {
            marks.push((now_ns, names::text("throttled")));
        }
        if last {
            marks.push((now_ns, names::text("end")));
        }
        for (at_ns, what) in marks {
            self.write(&Event::Mark { at_ns, what });
        }
        self.finish_chunk();
        drop(rings);
        thread_registry::forget_ended();
        let mut state = lock(&self.registry.state);
        state.running = !last;
        state.events = self.events;
        state.lost = self.segments.lost;
        state.written_bytes = self.segments.written_bytes;
        state.failed = self.segments.failed;
        state.error.clone_from(&self.segments.error);
    }

    /// Takes what is in `ring`; a thread that is faster than we are waits for the next round. The live figures are not
    /// locked while the disk is written to.
    fn drain(&mut self, ring: &Ring) {
        self.segments.lost += ring.take_lost();
        let mut left = ring.events();
        let mut batch = Vec::new();
        while left > 0 {
            batch.extend(std::iter::from_fn(|| ring.pop()).take(BATCH.min(left)));
            if batch.is_empty() {
                return;
            }
            left -= batch.len();
            self.recorded += batch.len() as u64;
            let mut live = lock(&self.registry.live);
            batch.iter().for_each(|event| live.observe(event));
            drop(live);
            for event in batch.drain(..) {
                self.write(&event);
                if self.encoder.bytes().len() >= CHUNK_BYTES {
                    self.finish_chunk();
                }
            }
        }
    }

    fn write(&mut self, event: &Event) {
        if self.base_ns == 0 {
            self.begin_chunk();
        }
        if let Event::Unit { unit, kind, .. } = event {
            let lasting = matches!(kind, UnitKind::Thread | UnitKind::Loop);
            if !lasting {
                self.know(*unit, *event);
                self.said.insert(*unit);
            } else if self.units.len() < MOST_UNITS || self.units.contains_key(unit) {
                self.units.insert(*unit, *event);
            }
        } else if let Some(unit) = unit_of(event) {
            self.say(unit);
        }
        self.events += 1;
        self.write_event(event);
    }

    fn know(&mut self, unit: u32, event: Event) {
        if self.green[0].len() >= MOST_GREEN {
            self.green.swap(0, 1);
            self.green[0].clear();
        }
        self.green[0].insert(unit, event);
    }

    /// Says in this file who a greenlet or task is that lives on from an earlier one.
    fn say(&mut self, unit: u32) {
        if !self.said.insert(unit) || self.units.contains_key(&unit) {
            return;
        }
        let known = self.green[0]
            .get(&unit)
            .or_else(|| self.green[1].get(&unit));
        if let Some(event) = known.copied() {
            self.know(unit, event);
            self.write_event(&event);
        }
    }

    /// What has been running for long may never end: a worker that is killed in the middle of it.
    fn write_running(&mut self, ring: &Ring, at_ns: u64) {
        let from_ns = ring.from_ns.load(Ordering::Relaxed);
        if from_ns != 0 && at_ns.saturating_sub(from_ns) >= LONG_NS {
            self.write(&Event::Running {
                at_ns,
                unit: ring.unit.load(Ordering::Relaxed),
                job: ring.job.load(Ordering::Relaxed),
                from_ns,
            });
        }
    }

    /// How long each thread that is recorded has waited for a core.
    fn write_cores(&mut self) {
        self.cores.look();
        let threads: NumberSet<u32> = self.units.values().filter_map(thread_of).collect();
        let (at_ns, withheld_ns) = (clock::monotonic_ns(), self.cores.withheld_ns);
        for (thread, waited_ns) in self.cores.waited.clone() {
            if threads.contains(&thread) {
                if let Some((at_ns, waited_ns)) = self.cores_before.remove(&thread) {
                    self.write(&Event::Cores {
                        at_ns,
                        thread,
                        waited_ns,
                        withheld_ns: 0,
                    });
                }
                self.write(&Event::Cores {
                    at_ns,
                    thread,
                    waited_ns,
                    withheld_ns,
                });
            }
        }
    }

    /// Says the names of threads that Python has told since they came.
    fn name_threads(&mut self) {
        let told = mem::take(&mut *lock(&self.registry.thread_names));
        if told.is_empty() {
            return;
        }
        let nameless: Vec<Event> = self.units.values().copied().collect();
        for mut event in nameless {
            if let Event::Unit {
                kind: UnitKind::Thread,
                thread,
                ref mut name,
                ..
            } = event
            {
                if let (0, Some(&told)) = (*name, told.get(&thread)) {
                    *name = told;
                    self.write(&event);
                }
            }
        }
    }

    fn begin_chunk(&mut self) {
        self.base_ns = clock::monotonic_ns();
        self.encoder = Encoder::new(self.base_ns);
        self.defined.clear();
        if self.segments.at_start() {
            self.said.clear();
            self.write_event(&Event::About {
                at_ns: self.base_ns,
                json: self.about,
            });
            for event in self.units.values().copied().collect::<Vec<_>>() {
                self.write_event(&event);
            }
        }
    }

    fn write_event(&mut self, event: &Event) {
        for text in texts_of(event) {
            self.define(text);
        }
        self.encoder.event(&as_written(event));
    }

    fn define(&mut self, text: Text) {
        if text == 0 || !self.defined.insert(text) {
            return;
        }
        self.encoder.text(text, names::of(text));
    }

    fn finish_chunk(&mut self) {
        if self.base_ns != 0 {
            self.segments.write(self.base_ns, self.encoder.bytes());
            self.base_ns = 0;
        }
    }
}

/// What was only estimated is not measured, in the file.
fn as_written(event: &Event) -> Event {
    let mut event = *event;
    if let Event::Slice { cpu_ns, .. } = &mut event {
        if *cpu_ns & ESTIMATED != 0 {
            *cpu_ns = u64::MAX;
        }
    }
    event
}

fn thread_of(event: &Event) -> Option<u32> {
    match *event {
        Event::Unit { thread, .. } => Some(thread),
        _ => None,
    }
}

/// Which unit it is about.
fn unit_of(event: &Event) -> Option<u32> {
    match *event {
        Event::JobOpen { unit, .. }
        | Event::Attach { unit, .. }
        | Event::Slice { unit, .. }
        | Event::Wait { unit, .. }
        | Event::Block { unit, .. }
        | Event::Call { unit, .. }
        | Event::Gc { unit, .. }
        | Event::Stack { unit, .. }
        | Event::Running { unit, .. }
        | Event::Look { unit, .. }
        | Event::Answer { unit, .. }
        | Event::Turn { unit, .. } => Some(unit),
        _ => None,
    }
}

fn texts_of(event: &Event) -> [Text; 2] {
    match *event {
        Event::Unit { name, .. } => [name, 0],
        Event::JobOpen { host, .. } => [host, 0],
        Event::JobName { route, .. } => [route, 0],
        Event::Block { call, peer, .. } => [call, peer],
        Event::Call {
            upstream,
            operation,
            ..
        } => [upstream, operation],
        Event::Stack { stack, .. } => [stack, 0],
        Event::About { json, .. } => [json, 0],
        Event::Mark { what, .. } => [what, 0],
        Event::Parked { by, .. } => [by, 0],
        Event::Contention { name, line, .. } => [name, line],
        Event::Hold { line, .. } => [line, 0],
        _ => [0, 0],
    }
}

fn process_event(at_ns: u64, jobs: u32, lag_ns: u64, cores: &Cores) -> Event {
    let (waking_ns, hand_overs) = waking::totals();
    Event::Process {
        at_ns,
        cpu_ns: clock::read(libc::CLOCK_PROCESS_CPUTIME_ID).unwrap_or(0),
        os_wait_ns: cores.all_ns(),
        rss_bytes: resident_bytes(),
        threads: cores.threads,
        jobs,
        lag_ns,
        loop_ns: speed::loop_ns(),
        waking_ns,
        hand_overs,
    }
}

fn resident_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse().ok())
        .unwrap_or(0);
    // SAFETY: sysconf has no preconditions.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(0) as u64
}

/// A number that no other process has.
fn process_number() -> u64 {
    let mut number = [0u8; 8];
    // SAFETY: the buffer has the length that is said.
    let got = unsafe { libc::getrandom(number.as_mut_ptr().cast(), number.len(), 0) };
    let number = u64::from_le_bytes(number);
    if got == 8 && number != 0 {
        number
    } else {
        clock::monotonic_ns() ^ u64::from(std::process::id()) << 40
    }
}
