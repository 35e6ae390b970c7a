//! Events to bytes and back.
//!
//! A record is a tag (1 byte), the length of its body (varint), and its body: the event's fields in the order in which
//! `event.rs` declares them. Numbers are LEB128 varints. The first time of a record is a zigzag delta to the first time
//! of the record before it (to the chunk's base for the first); its other times are zigzag deltas to its first time,
//! and 0 for "none" where the field allows none, else delta + 1 shifted to stay distinct (see [`Encoder::maybe`]).
//! A reader skips tags that it does not know, except their first time.
//!
//! Tag 0 defines a text: its number, then UTF-8 up to the body's end.

use super::event::{ArrivalClock, Event, Outcome, ResourceKind, Text, UnitKind, WaitKind};

/// The tag of a text's definition.
pub const TEXT: u8 = 0;
/// The last tag of an event.
const LAST: u8 = 24;

/// What one record says.
#[derive(Debug, PartialEq)]
pub enum Record<'a> {
    /// Number and text.
    Text(Text, &'a str),
    Event(Event),
    /// A tag of a later version, or a wait or resource of a kind of one.
    Unknown(u8),
}

/// The bytes are no recording: what was expected.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub struct Malformed(pub &'static str);

const LATER_KIND: Malformed = Malformed("a kind of wait or resource");

/// Writes records behind each other.
#[derive(Default)]
pub struct Encoder {
    bytes: Vec<u8>,
    body: Vec<u8>,
    last_ns: u64,
    first_ns: u64,
}

impl Encoder {
    /// Times are deltas from `base_ns`.
    pub fn new(base_ns: u64) -> Self {
        Self {
            last_ns: base_ns,
            ..Self::default()
        }
    }

    /// What has been written.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Defines a text.
    pub fn text(&mut self, number: Text, text: &str) {
        self.plain(u64::from(number));
        self.body.extend_from_slice(text.as_bytes());
        self.finish(TEXT);
    }

    /// Writes an event.
    pub fn event(&mut self, event: &Event) {
        let tag = self.fields(event);
        self.finish(tag);
    }

    fn finish(&mut self, tag: u8) {
        self.bytes.push(tag);
        varint(&mut self.bytes, self.body.len() as u64);
        self.bytes.append(&mut self.body);
    }

    fn plain(&mut self, value: u64) {
        varint(&mut self.body, value);
    }

    /// The record's first time.
    fn first(&mut self, at_ns: u64) {
        varint(&mut self.body, zigzag(at_ns.wrapping_sub(self.last_ns)));
        self.last_ns = at_ns;
        self.first_ns = at_ns;
    }

    /// A further time.
    fn time(&mut self, at_ns: u64) {
        varint(&mut self.body, zigzag(at_ns.wrapping_sub(self.first_ns)));
    }

    /// A further time, or 0 for none: 0, else 1 + the zigzag delta.
    fn maybe(&mut self, at_ns: u64) {
        if at_ns == 0 {
            self.plain(0);
        } else {
            let delta = zigzag(at_ns.wrapping_sub(self.first_ns));
            self.plain(delta.saturating_add(1));
        }
    }

    fn fields(&mut self, event: &Event) -> u8 {
        match *event {
            Event::Unit {
                at_ns,
                unit,
                kind,
                thread,
                parent,
                name,
            } => {
                self.first(at_ns);
                self.numbers(&[u64::from(unit), kind as u64, u64::from(thread)]);
                self.numbers(&[u64::from(parent), u64::from(name)]);
                1
            }
            Event::JobOpen {
                at_ns,
                job,
                unit,
                arrival_ns,
                spawn_ns,
                deadline_ns,
                clock,
                host,
                parent_job,
            } => {
                self.first(at_ns);
                self.numbers(&[job, u64::from(unit)]);
                self.time(arrival_ns);
                self.maybe(spawn_ns);
                self.maybe(deadline_ns);
                self.numbers(&[clock as u64, u64::from(host), parent_job]);
                2
            }
            Event::JobName { at_ns, job, route } => {
                self.first(at_ns);
                self.numbers(&[job, u64::from(route)]);
                3
            }
            Event::JobClose { at_ns, job, status } => {
                self.first(at_ns);
                self.numbers(&[job, u64::from(status)]);
                4
            }
            Event::Attach { at_ns, unit, job } => {
                self.first(at_ns);
                self.numbers(&[u64::from(unit), job]);
                5
            }
            Event::Slice {
                from_ns,
                to_ns,
                unit,
                job,
                phase,
                cpu_ns,
            } => {
                self.first(from_ns);
                self.time(to_ns);
                self.numbers(&[u64::from(unit), job, u64::from(phase)]);
                self.plain(cpu_ns.wrapping_add(1)); // u64::MAX, not measured, is 0.
                6
            }
            Event::Wait {
                from_ns,
                to_ns,
                unit,
                job,
                kind,
            } => {
                self.first(from_ns);
                self.time(to_ns);
                self.numbers(&[u64::from(unit), job, kind as u64]);
                7
            }
            Event::Block {
                from_ns,
                known_ns,
                ready_ns,
                to_ns,
                unit,
                job,
                kind,
                flags,
                call,
                peer,
            } => {
                self.first(from_ns);
                self.time(known_ns);
                self.time(ready_ns);
                self.time(to_ns);
                self.numbers(&[u64::from(unit), job, u64::from(kind), u64::from(flags)]);
                self.numbers(&[u64::from(call), u64::from(peer)]);
                8
            }
            Event::Call {
                from_ns,
                ready_ns,
                to_ns,
                deadline_ns,
                unit,
                job,
                upstream,
                operation,
                outcome,
                own_ns,
            } => {
                self.first(from_ns);
                self.maybe(ready_ns);
                self.time(to_ns);
                self.maybe(deadline_ns);
                self.numbers(&[u64::from(unit), job, u64::from(upstream)]);
                self.numbers(&[u64::from(operation), outcome as u64, own_ns]);
                9
            }
            Event::Gc {
                from_ns,
                to_ns,
                unit,
                generation,
            } => {
                self.first(from_ns);
                self.time(to_ns);
                self.numbers(&[u64::from(unit), u64::from(generation)]);
                10
            }
            Event::Stack {
                at_ns,
                unit,
                job,
                weight_ns,
                stack,
                kept_ns,
            } => {
                self.first(at_ns);
                self.numbers(&[u64::from(unit), job, weight_ns, u64::from(stack), kept_ns]);
                11
            }
            Event::Process {
                at_ns,
                cpu_ns,
                os_wait_ns,
                rss_bytes,
                threads,
                jobs,
                lag_ns,
                loop_ns,
                waking_ns,
                hand_overs,
            } => {
                self.first(at_ns);
                self.numbers(&[cpu_ns, os_wait_ns, rss_bytes, u64::from(threads)]);
                self.numbers(&[u64::from(jobs), lag_ns, u64::from(loop_ns)]);
                self.numbers(&[waking_ns, hand_overs]);
                12
            }
            Event::Running {
                at_ns,
                unit,
                job,
                from_ns,
            } => {
                self.first(at_ns);
                self.numbers(&[u64::from(unit), job]);
                self.time(from_ns);
                15
            }
            Event::Cost {
                at_ns,
                events,
                thousand_ns,
                writer_ns,
                sampler_ns,
            } => {
                self.first(at_ns);
                self.numbers(&[events, thousand_ns, writer_ns, sampler_ns]);
                16
            }
            Event::Parked {
                from_ns,
                to_ns,
                job,
                by,
            } => {
                self.first(from_ns);
                self.time(to_ns);
                self.numbers(&[job, u64::from(by)]);
                17
            }
            Event::Traced {
                at_ns,
                job,
                trace_high,
                trace_low,
                span,
            } => {
                self.first(at_ns);
                self.numbers(&[job, trace_high, trace_low, span]);
                18
            }
            Event::Look {
                at_ns,
                unit,
                job,
                weight_ns,
                free,
            } => {
                self.first(at_ns);
                self.numbers(&[u64::from(unit), job, weight_ns, u64::from(free)]);
                19
            }
            Event::Cores {
                at_ns,
                thread,
                waited_ns,
                withheld_ns,
            } => {
                self.first(at_ns);
                self.numbers(&[u64::from(thread), waited_ns, withheld_ns]);
                20
            }
            Event::Answer { at_ns, unit } => {
                self.first(at_ns);
                self.plain(u64::from(unit));
                21
            }
            Event::Turn {
                at_ns,
                unit,
                job,
                how,
                stops,
            } => {
                self.first(at_ns);
                self.numbers(&[u64::from(unit), job, u64::from(how), u64::from(stops)]);
                22
            }
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
            } => {
                self.first(from_ns);
                self.time(to_ns);
                self.numbers(&[u64::from(unit), job, u64::from(resource), kind as u64]);
                self.numbers(&[u64::from(flags), u64::from(capacity)]);
                self.numbers(&[u64::from(name), u64::from(line)]);
                23
            }
            Event::Hold {
                from_ns,
                to_ns,
                unit,
                job,
                resource,
                flags,
                line,
            } => {
                self.first(from_ns);
                self.time(to_ns);
                self.numbers(&[u64::from(unit), job, u64::from(resource)]);
                self.numbers(&[u64::from(flags), u64::from(line)]);
                24
            }
            Event::About { at_ns, json } => {
                self.first(at_ns);
                self.plain(u64::from(json));
                13
            }
            Event::Mark { at_ns, what } => {
                self.first(at_ns);
                self.plain(u64::from(what));
                14
            }
        }
    }

    fn numbers(&mut self, values: &[u64]) {
        for &value in values {
            self.plain(value);
        }
    }
}

/// Reads records one after the other.
pub struct Decoder<'a> {
    rest: &'a [u8],
    last_ns: u64,
}

impl<'a> Decoder<'a> {
    /// Reads what an [`Encoder`] with the same base has written.
    pub fn new(bytes: &'a [u8], base_ns: u64) -> Self {
        Self {
            rest: bytes,
            last_ns: base_ns,
        }
    }

    fn record(&mut self) -> Result<Record<'a>, Malformed> {
        let mut head = Body {
            rest: self.rest,
            first_ns: 0,
        };
        let tag = head.byte()?;
        let length = usize::try_from(head.plain()?).map_err(|_| Malformed("a length"))?;
        if head.rest.len() < length {
            return Err(Malformed("a whole record"));
        }
        let (body, rest) = head.rest.split_at(length);
        self.rest = rest;
        let mut body = Body {
            rest: body,
            first_ns: 0,
        };
        if tag == TEXT {
            let number = body.small()?;
            let text = std::str::from_utf8(body.rest).map_err(|_| Malformed("UTF-8"))?;
            return Ok(Record::Text(number, text));
        }
        // Of a tag that is not known too: the next event's time is a delta to it.
        let at_ns = body.first(self.last_ns);
        self.last_ns = at_ns.unwrap_or(self.last_ns);
        if tag > LAST {
            return Ok(Record::Unknown(tag));
        }
        let at_ns = at_ns?;
        match event(tag, at_ns, &mut body) {
            Err(LATER_KIND) => Ok(Record::Unknown(tag)),
            found => found.map(Record::Event),
        }
    }
}

impl<'a> Iterator for Decoder<'a> {
    type Item = Result<Record<'a>, Malformed>;

    /// After an error there is nothing more.
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = self.record();
        if record.is_err() {
            self.rest = &[];
        }
        Some(record)
    }
}

struct Body<'a> {
    rest: &'a [u8],
    first_ns: u64,
}

impl Body<'_> {
    fn byte(&mut self) -> Result<u8, Malformed> {
        let (&first, rest) = self.rest.split_first().ok_or(Malformed("more bytes"))?;
        self.rest = rest;
        Ok(first)
    }

    fn plain(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed("a number of 64 bits"))
    }

    /// A number that earlier writers did not write: 0 where the body has ended.
    fn later(&mut self) -> Result<u64, Malformed> {
        if self.rest.is_empty() {
            return Ok(0);
        }
        self.plain()
    }

    fn small(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.plain()?).map_err(|_| Malformed("a number of 32 bits"))
    }

    fn tiny(&mut self) -> Result<u8, Malformed> {
        u8::try_from(self.plain()?).map_err(|_| Malformed("a number of 8 bits"))
    }

    fn first(&mut self, last_ns: u64) -> Result<u64, Malformed> {
        self.first_ns = last_ns.wrapping_add(unzigzag(self.plain()?));
        Ok(self.first_ns)
    }

    fn time(&mut self) -> Result<u64, Malformed> {
        Ok(self.first_ns.wrapping_add(unzigzag(self.plain()?)))
    }

    fn maybe(&mut self) -> Result<u64, Malformed> {
        match self.plain()? {
            0 => Ok(0),
            value => Ok(self.first_ns.wrapping_add(unzigzag(value - 1))),
        }
    }
}

fn event(tag: u8, at_ns: u64, body: &mut Body<'_>) -> Result<Event, Malformed> {
    let from_ns = at_ns;
    Ok(match tag {
        1 => Event::Unit {
            at_ns,
            unit: body.small()?,
            kind: unit_kind(body.tiny()?)?,
            thread: body.small()?,
            parent: body.small()?,
            name: body.small()?,
        },
        2 => {
            let (job, unit) = (body.plain()?, body.small()?);
            let (arrival_ns, spawn_ns, deadline_ns) = (body.time()?, body.maybe()?, body.maybe()?);
            Event::JobOpen {
                at_ns,
                job,
                unit,
                arrival_ns,
                spawn_ns,
                deadline_ns,
                clock: arrival_clock(body.tiny()?)?,
                host: body.small()?,
                parent_job: body.plain()?,
            }
        }
        3 => Event::JobName {
            at_ns,
            job: body.plain()?,
            route: body.small()?,
        },
        4 => Event::JobClose {
            at_ns,
            job: body.plain()?,
            status: u16::try_from(body.plain()?).map_err(|_| Malformed("a status"))?,
        },
        5 => Event::Attach {
            at_ns,
            unit: body.small()?,
            job: body.plain()?,
        },
        6 => Event::Slice {
            from_ns,
            to_ns: body.time()?,
            unit: body.small()?,
            job: body.plain()?,
            phase: u16::try_from(body.plain()?).map_err(|_| Malformed("a phase"))?,
            cpu_ns: body.plain()?.wrapping_sub(1),
        },
        7 => Event::Wait {
            from_ns,
            to_ns: body.time()?,
            unit: body.small()?,
            job: body.plain()?,
            kind: wait_kind(body.tiny()?)?,
        },
        8 => Event::Block {
            from_ns,
            known_ns: body.time()?,
            ready_ns: body.time()?,
            to_ns: body.time()?,
            unit: body.small()?,
            job: body.plain()?,
            kind: body.tiny()?,
            flags: body.tiny()?,
            call: body.small()?,
            peer: body.small()?,
        },
        9 => Event::Call {
            from_ns,
            ready_ns: body.maybe()?,
            to_ns: body.time()?,
            deadline_ns: body.maybe()?,
            unit: body.small()?,
            job: body.plain()?,
            upstream: body.small()?,
            operation: body.small()?,
            outcome: outcome(body.tiny()?)?,
            own_ns: body.later()?,
        },
        10 => Event::Gc {
            from_ns,
            to_ns: body.time()?,
            unit: body.small()?,
            generation: body.tiny()?,
        },
        11 => Event::Stack {
            at_ns,
            unit: body.small()?,
            job: body.plain()?,
            weight_ns: body.plain()?,
            stack: body.small()?,
            kept_ns: body.later()?,
        },
        12 => Event::Process {
            at_ns,
            cpu_ns: body.plain()?,
            os_wait_ns: body.plain()?,
            rss_bytes: body.plain()?,
            threads: body.small()?,
            jobs: body.small()?,
            lag_ns: body.plain()?,
            loop_ns: body.small()?,
            waking_ns: body.later()?,
            hand_overs: body.later()?,
        },
        13 => Event::About {
            at_ns,
            json: body.small()?,
        },
        15 => Event::Running {
            at_ns,
            unit: body.small()?,
            job: body.plain()?,
            from_ns: body.time()?,
        },
        16 => Event::Cost {
            at_ns,
            events: body.plain()?,
            thousand_ns: body.plain()?,
            writer_ns: body.plain()?,
            sampler_ns: body.plain()?,
        },
        17 => Event::Parked {
            from_ns,
            to_ns: body.time()?,
            job: body.plain()?,
            by: body.small()?,
        },
        18 => Event::Traced {
            at_ns,
            job: body.plain()?,
            trace_high: body.plain()?,
            trace_low: body.plain()?,
            span: body.plain()?,
        },
        19 => Event::Look {
            at_ns,
            unit: body.small()?,
            job: body.plain()?,
            weight_ns: body.plain()?,
            free: body.plain()? != 0,
        },
        20 => Event::Cores {
            at_ns,
            thread: body.small()?,
            waited_ns: body.plain()?,
            withheld_ns: body.plain()?,
        },
        21 => Event::Answer {
            at_ns,
            unit: body.small()?,
        },
        22 => Event::Turn {
            at_ns,
            unit: body.small()?,
            job: body.plain()?,
            how: body.tiny()?,
            stops: body.small()?,
        },
        23 => Event::Contention {
            from_ns,
            to_ns: body.time()?,
            unit: body.small()?,
            job: body.plain()?,
            resource: body.small()?,
            kind: resource_kind(body.tiny()?)?,
            flags: body.tiny()?,
            capacity: body.small()?,
            name: body.small()?,
            line: body.small()?,
        },
        24 => Event::Hold {
            from_ns,
            to_ns: body.time()?,
            unit: body.small()?,
            job: body.plain()?,
            resource: body.small()?,
            flags: body.tiny()?,
            line: body.small()?,
        },
        _ => Event::Mark {
            at_ns,
            what: body.small()?,
        },
    })
}

fn unit_kind(number: u8) -> Result<UnitKind, Malformed> {
    use UnitKind::{Greenlet, Loop, Task, Thread};
    let kinds = [Thread, Greenlet, Task, Loop];
    let kind = kinds.get(usize::from(number)).copied();
    kind.ok_or(Malformed("a kind of unit"))
}

fn arrival_clock(number: u8) -> Result<ArrivalClock, Malformed> {
    use ArrivalClock::{Accept, Enqueue, Given, Handler, Header, Kernel, Spawn};
    let clocks = [Handler, Spawn, Accept, Kernel, Header, Enqueue, Given];
    let clock = clocks.get(usize::from(number)).copied();
    clock.ok_or(Malformed("a clock"))
}

fn wait_kind(number: u8) -> Result<WaitKind, Malformed> {
    use WaitKind::{Accept, Gil, Lock, Loop, Os, Permit, Pool, Stopped};
    let kinds = [Gil, Loop, Permit, Accept, Lock, Pool, Os, Stopped];
    let kind = kinds.get(usize::from(number)).copied();
    kind.ok_or(LATER_KIND)
}

fn resource_kind(number: u8) -> Result<ResourceKind, Malformed> {
    use ResourceKind::{Connections, Lock, Processes, Semaphore, Threads};
    let kinds = [Connections, Threads, Semaphore, Lock, Processes];
    let kind = kinds.get(usize::from(number)).copied();
    kind.ok_or(LATER_KIND)
}

fn outcome(number: u8) -> Result<Outcome, Malformed> {
    let outcomes = [Outcome::Ok, Outcome::Error, Outcome::Timeout];
    let outcome = outcomes.get(usize::from(number)).copied();
    outcome.ok_or(Malformed("an outcome"))
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn zigzag(value: u64) -> u64 {
    let signed = value as i64;
    ((signed << 1) ^ (signed >> 63)) as u64
}

fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}
