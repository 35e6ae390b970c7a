//! The loop: send what is due, read what came, give up what is late, sleep until the next of these.

use crate::clock::{now_ns, thread_cpu_ns, OnTime};
use crate::connection::{Connection, Connections};
use crate::plan::{FailureReason, Outcome, Schedule, Stopped, Stream, FAILED, UNANSWERED};
use crate::pool::{Offer, Place, Pool};
use crate::socket::{Address, Connected};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::net::{send, SendFlags};
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;

/// This many sends, then this many events, then a look at the clock: at 5 us each neither delays the other long.
const AT_ONCE: usize = 64;
/// Larger answers take several reads.
const READ_BYTES: usize = 64 << 10;
/// How often the caller is asked whether to go on: a Ctrl-C ends the run within it.
const TICK_NS: u64 = 50_000_000;
/// How often a full Unix listener is asked again.
const KNOCK_NS: u64 = 1_000_000;

/// Where a request is.
const NOT_DUE: u32 = u32::MAX;
const NOWHERE: u32 = u32::MAX - 1;
const OVER: u32 = u32::MAX - 2;

/// Sends the whole schedule and waits for every answer, at most each stream's time-out past its last send.
///
/// `tick(sent, over)` is called every 50 ms on this thread; false ends the run. Raises the limit of open files to its
/// hard limit. Blocks; connections that are still open at the end are closed.
pub fn run(
    streams: &[Stream],
    schedule: &Schedule,
    worker_header: &str,
    tick: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Outcome, Stopped> {
    raise_descriptors();
    let _on_time = OnTime::new();
    let cpu_ns = thread_cpu_ns();
    let mut generator = Generator::new(streams, schedule, worker_header)?;
    generator.run(tick)?;
    let mut outcome = generator.outcome;
    outcome.took_ns = now_ns() - outcome.began_ns;
    outcome.cpu_ns = thread_cpu_ns() - cpu_ns;
    Ok(outcome)
}

struct Generator<'a> {
    streams: &'a [Stream],
    schedule: &'a Schedule,
    worker_header: &'a str,
    epoll: OwnedFd,
    outcome: Outcome,
    connections: Connections,
    pools: Vec<Pool>,
    /// By stream.
    pool_of: Vec<usize>,
    /// By request: the place of its connection, or one of the three above.
    place_of: Vec<u32>,
    /// By stream, by time: requests that were begun; those that are over are dropped when they come to the front.
    begun: Vec<VecDeque<u32>>,
    /// Connections whose Unix listener was full, with their requests.
    knocking: VecDeque<(u64, u32)>,
    knock_ns: u64,
    next: usize,
    over: u64,
    read: Vec<u8>,
}

impl<'a> Generator<'a> {
    fn new(
        streams: &'a [Stream],
        schedule: &'a Schedule,
        worker_header: &'a str,
    ) -> Result<Self, Stopped> {
        let size = schedule.at_ns.len();
        let (pools, pool_of) = pools(streams);
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(stop_exhausted)?;
        Ok(Self {
            streams,
            schedule,
            worker_header,
            epoll,
            outcome: Outcome {
                begun_ns: vec![0; size],
                sent_ns: vec![0; size],
                first_byte_ns: vec![0; size],
                done_ns: vec![0; size],
                status: vec![UNANSWERED; size],
                worker: vec![0; size],
                ..Outcome::default()
            },
            connections: Connections::default(),
            pools,
            pool_of,
            place_of: vec![NOT_DUE; size],
            begun: vec![VecDeque::new(); streams.len()],
            knocking: VecDeque::new(),
            knock_ns: 0,
            next: 0,
            over: 0,
            read: vec![0; READ_BYTES],
        })
    }

    fn run(&mut self, tick: &mut dyn FnMut(u64, u64) -> bool) -> Result<(), Stopped> {
        let mut events = Vec::with_capacity(AT_ONCE);
        let mut next_tick_ns = 0;
        self.outcome.began_ns = now_ns();
        loop {
            self.send_due()?;
            let now_ns = self.now_ns();
            self.give_up(now_ns)?;
            self.knock(now_ns)?;
            if now_ns >= next_tick_ns {
                next_tick_ns = now_ns + TICK_NS;
                if !tick(self.next as u64, self.over) {
                    return Err(Stopped::Interrupted);
                }
            }
            if self.over as usize == self.schedule.at_ns.len() {
                return Ok(());
            }
            self.wait(&mut events, next_tick_ns)?;
        }
    }

    fn now_ns(&self) -> u64 {
        now_ns() - self.outcome.began_ns
    }

    fn send_due(&mut self) -> Result<(), Stopped> {
        for _ in 0..AT_ONCE {
            let now_ns = self.now_ns();
            match self.schedule.at_ns.get(self.next) {
                Some(&at_ns) if at_ns as u64 <= now_ns => {}
                _ => break,
            }
            let request = self.next as u32;
            self.next += 1;
            self.outcome.begun_ns[request as usize] = now_ns as i64;
            self.place_of[request as usize] = NOWHERE;
            let stream = self.stream_number(request);
            self.begun[stream].push_back(request);
            match self.pools[self.pool_of[stream]].offer(request) {
                Offer::Kept(place) => self.carry(place, request)?,
                Offer::New => self.open(request)?,
                Offer::Wait => {}
            }
        }
        Ok(())
    }

    fn wait(&mut self, events: &mut Vec<Event>, next_tick_ns: u64) -> Result<(), Stopped> {
        let left_ns = self.wake_ns(next_tick_ns).saturating_sub(self.now_ns());
        let timeout = Timespec {
            tv_sec: (left_ns / 1_000_000_000) as i64,
            tv_nsec: (left_ns % 1_000_000_000) as i64,
        };
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Stopped::Kernel(error.raw_os_error())),
        }
        for event in events.iter() {
            // A connection that an earlier event of this batch closed is no longer there.
            if let Some(place) = self.connections.find_by_tag(event.data.u64()) {
                self.take_event(place, event.flags)?;
            }
        }
        Ok(())
    }

    /// When there is something to do though nothing happens.
    fn wake_ns(&mut self, next_tick_ns: u64) -> u64 {
        let mut wake_ns = next_tick_ns;
        if let Some(&at_ns) = self.schedule.at_ns.get(self.next) {
            wake_ns = wake_ns.min(at_ns as u64);
        }
        if !self.knocking.is_empty() {
            wake_ns = wake_ns.min(self.knock_ns);
        }
        for (stream, begun) in self.streams.iter().zip(&self.begun) {
            if let Some(&request) = begun.front() {
                wake_ns =
                    wake_ns.min(self.schedule.at_ns[request as usize] as u64 + stream.timeout_ns);
            }
        }
        wake_ns
    }

    fn stream_number(&self, request: u32) -> usize {
        usize::from(self.schedule.stream[request as usize])
    }

    /// A connection of its own for a request; its pool has counted it.
    fn open(&mut self, request: u32) -> Result<(), Stopped> {
        let address = &self.streams[self.stream_number(request)].address;
        let fd = address.socket().map_err(stop_exhausted)?;
        let begun = address.connect(&fd);
        self.outcome.connections += 1;
        let place = self.connections.add(Connection::new(fd));
        self.assign(place, request);
        match begun {
            Ok(Connected::Begun) => self.write(place),
            Ok(Connected::Full) => {
                self.knocking
                    .push_back((self.connections.tag(place), request));
                Ok(())
            }
            Err(error) => self.broke(place, error),
        }
    }

    /// A kept connection for a request.
    fn carry(&mut self, place: Place, request: u32) -> Result<(), Stopped> {
        self.assign(place, request);
        self.write(place)
    }

    fn assign(&mut self, place: Place, request: u32) {
        self.place_of[request as usize] = place;
        let work_ms = self.schedule.work_ms[request as usize];
        let stream = &self.streams[self.stream_number(request)];
        let connection = self.connections.at(place);
        connection.request = Some(request);
        connection.written = 0;
        connection.answer.begin(stream.head_only);
        connection.out.clear();
        connection.out.extend_from_slice(&stream.before);
        if work_ms > 0.0 {
            connection.out.extend_from_slice(&stream.mark);
            connection
                .out
                .extend_from_slice(format!("{work_ms:?}").as_bytes());
        }
        connection.out.extend_from_slice(&stream.after);
    }

    /// Sends as much as the kernel takes. Over loopback that works right behind `connect`: no event to wait for.
    fn write(&mut self, place: Place) -> Result<(), Stopped> {
        let connection = self.connections.at(place);
        let rest = &connection.out[connection.written..];
        match send(&connection.fd, rest, SendFlags::NOSIGNAL) {
            Ok(taken) => connection.written += taken,
            Err(Errno::AGAIN | Errno::INTR) => {}
            // A server that has heard enough of a long request may have answered before it closed.
            Err(Errno::PIPE | Errno::CONNRESET) if connection.written > 0 => {
                return self.receive(place)
            }
            Err(error) => return self.broke(place, error),
        }
        let mut interest = EventFlags::IN;
        if connection.is_written() {
            let request = connection.request.expect("only requests are written") as usize;
            self.outcome.sent_ns[request] = self.now_ns() as i64;
        } else {
            interest |= EventFlags::OUT;
        }
        self.watch(place, interest)
    }

    fn watch(&mut self, place: Place, interest: EventFlags) -> Result<(), Stopped> {
        let data = EventData::new_u64(self.connections.tag(place));
        let connection = self.connections.at(place);
        let known = std::mem::replace(&mut connection.interest, interest);
        if known.is_empty() {
            epoll::add(&self.epoll, &connection.fd, data, interest).map_err(stop_exhausted)?;
        } else if known != interest {
            epoll::modify(&self.epoll, &connection.fd, data, interest).map_err(stop_exhausted)?;
        }
        Ok(())
    }

    fn take_event(&mut self, place: Place, flags: EventFlags) -> Result<(), Stopped> {
        let connection = self.connections.at(place);
        let Some(request) = connection.request else {
            // An idle connection that says anything at all has ended, or is out of step.
            return self.forget(place);
        };
        if !connection.is_written()
            && flags.intersects(EventFlags::OUT | EventFlags::ERR | EventFlags::HUP)
        {
            self.write(place)?;
            // The answer may be there as well, and what the write came to may have closed the connection.
            if self.place_of[request as usize] != place || !flags.contains(EventFlags::IN) {
                return Ok(());
            }
        }
        self.receive(place)
    }

    fn receive(&mut self, place: Place) -> Result<(), Stopped> {
        let connection = self.connections.at(place);
        let Some(request) = connection.request else {
            return Ok(());
        };
        let got = match rustix::io::read(&connection.fd, &mut self.read[..]) {
            Ok(got) => got,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(error) => return self.broke(place, error),
        };
        if got == 0 {
            return if connection.answer.end() {
                self.end_answer(place)
            } else {
                self.fail_request(place, FailureReason::Closed)
            };
        }
        let first = !connection.answer.begun;
        let fed = connection
            .answer
            .feed(&self.read[..got], self.worker_header);
        if first {
            self.outcome.first_byte_ns[request as usize] = self.now_ns() as i64;
        }
        match fed {
            Ok(false) => Ok(()),
            Ok(true) => self.end_answer(place),
            Err(why) => self.fail_request(place, why),
        }
    }

    fn end_answer(&mut self, place: Place) -> Result<(), Stopped> {
        let connection = self.connections.at(place);
        let request = connection
            .request
            .take()
            .expect("only requests are answered");
        connection.fresh = false;
        let (status, worker) = (connection.answer.status, connection.answer.worker);
        let kept = connection.answer.reusable && connection.is_written();
        self.outcome.worker[request as usize] = worker;
        self.finish(request, status);
        let stream = self.stream_number(request);
        if !(kept && self.streams[stream].keep_alive) {
            return self.close(place, stream);
        }
        let over = |request: u32| self.place_of[request as usize] == OVER;
        match self.pools[self.pool_of[stream]].give_back(place, over) {
            Some(waiting) => self.carry(place, waiting),
            None => Ok(()),
        }
    }

    /// A system call said so.
    fn broke(&mut self, place: Place, error: Errno) -> Result<(), Stopped> {
        let why = match error {
            Errno::MFILE | Errno::NFILE | Errno::ADDRNOTAVAIL => return Err(stop_exhausted(error)),
            Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED | Errno::NOTCONN => {
                FailureReason::Reset
            }
            _ => FailureReason::Refused,
        };
        self.fail_request(place, why)
    }

    fn fail_request(&mut self, place: Place, why: FailureReason) -> Result<(), Stopped> {
        let connection = self.connections.at(place);
        let request = connection.request.take().expect("only requests fail");
        if !connection.fresh && !connection.answer.begun {
            // The server closed a kept connection while we wrote to it: its right, and a client's cue to try again.
            self.connections.remove(place);
            self.outcome.sent_again += 1;
            self.place_of[request as usize] = NOWHERE;
            return self.open(request);
        }
        self.outcome.failures[why as usize] += 1;
        self.finish(request, FAILED);
        self.close(place, self.stream_number(request))
    }

    fn finish(&mut self, request: u32, status: i16) {
        self.place_of[request as usize] = OVER;
        self.outcome.status[request as usize] = status;
        self.outcome.done_ns[request as usize] = self.now_ns() as i64;
        self.over += 1;
    }

    /// Closes a connection without a request; who waited for one may open another.
    fn close(&mut self, place: Place, stream: usize) -> Result<(), Stopped> {
        self.connections.remove(place);
        let over = |request: u32| self.place_of[request as usize] == OVER;
        match self.pools[self.pool_of[stream]].lose_connection(over) {
            Some(waiting) => self.open(waiting),
            None => Ok(()),
        }
    }

    fn forget(&mut self, place: Place) -> Result<(), Stopped> {
        for pool in &mut self.pools {
            pool.forget(place);
        }
        self.connections.remove(place);
        Ok(())
    }

    fn give_up(&mut self, now_ns: u64) -> Result<(), Stopped> {
        for stream in 0..self.streams.len() {
            // All that are late first: a connection that one of them frees is for somebody who is not.
            let mut freed = Vec::new();
            while let Some(&request) = self.begun[stream].front() {
                let place = self.place_of[request as usize];
                if place != OVER {
                    let due_ns = self.schedule.at_ns[request as usize] as u64;
                    if now_ns < due_ns + self.streams[stream].timeout_ns {
                        break;
                    }
                    self.finish(request, UNANSWERED);
                    if place != NOWHERE {
                        freed.push(place);
                    }
                }
                self.begun[stream].pop_front();
            }
            for place in freed {
                self.close(place, stream)?;
            }
        }
        Ok(())
    }

    /// Asks full Unix listeners again, those first that were first.
    fn knock(&mut self, now_ns: u64) -> Result<(), Stopped> {
        if self.knocking.is_empty() || now_ns < self.knock_ns {
            return Ok(());
        }
        self.knock_ns = now_ns + KNOCK_NS;
        for _ in 0..self.knocking.len() {
            let Some((tag, request)) = self.knocking.pop_front() else {
                break;
            };
            let Some(place) = self.connections.find_by_tag(tag) else {
                continue;
            };
            let address: &Address = &self.streams[self.stream_number(request)].address;
            match address.connect(&self.connections.at(place).fd) {
                Ok(Connected::Begun) => self.write(place)?,
                Ok(Connected::Full) => self.knocking.push_back((tag, request)),
                Err(error) => self.broke(place, error)?,
            }
        }
        Ok(())
    }
}

/// One pool for each address, limit and kind of connection; and the pool of each stream.
fn pools(streams: &[Stream]) -> (Vec<Pool>, Vec<usize>) {
    let mut pools = Vec::new();
    let mut known = HashMap::new();
    let pool_of = streams
        .iter()
        .map(|stream| {
            let most = if stream.keep_alive {
                stream.most_connections
            } else {
                0
            };
            *known
                .entry((&stream.address, stream.keep_alive, most))
                .or_insert_with(|| {
                    pools.push(Pool::new(most));
                    pools.len() - 1
                })
        })
        .collect();
    (pools, pool_of)
}

fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Refused: the limit stays, and reaching it is reported.
    let _ = setrlimit(Resource::Nofile, raised);
}

fn stop_exhausted(error: Errno) -> Stopped {
    match error {
        Errno::MFILE | Errno::NFILE => Stopped::Descriptors,
        Errno::ADDRNOTAVAIL => Stopped::Ports,
        other => Stopped::Kernel(other.raw_os_error()),
    }
}
