//! Events to bytes and back.
//!
//! A record is a tag (1 byte), the length of its body (varint), and its body: the event's fields in the order in which
//! `event.rs` has them in its table. Numbers are LEB128 varints. The first time of a record is a zigzag delta to the first time
//! of the record before it (to the chunk's base for the first); its other times are zigzag deltas to its first time,
//! and 0 for "none" where the field allows none, else delta + 1 shifted to stay distinct (see [`Encoder::maybe`]).
//! A reader skips tags that it does not know, except their first time.
//!
//! Tag 0 defines a text: its number, then UTF-8 up to the body's end.

use super::event::{ArrivalClock, Event, Outcome, ResourceKind, Text, UnitKind, WaitKind};
use crate::events;

/// The tag of a text's definition.
pub const TEXT: u8 = 0;

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

    /// A moment of CPU time; `u64::MAX`, not measured, is 0.
    fn measured(&mut self, cpu_ns: u64) {
        self.plain(cpu_ns.wrapping_add(1));
    }

    fn later(&mut self, value: u64) {
        self.plain(value);
    }
}

/// Ways to write a number of at most 64 bits that differ in how they are read.
macro_rules! numbers {
    ($($how:ident: $type:ty),+) => {
        impl Encoder {
            $(fn $how(&mut self, value: $type) {
                self.plain(value as u64);
            })+
        }
    };
}

numbers!(
    small: u32,
    short: u16,
    tiny: u8,
    flag: bool,
    text_number: Text,
    unit_kind: UnitKind,
    arrival_clock: ArrivalClock,
    wait_kind: WaitKind,
    resource_kind: ResourceKind,
    outcome: Outcome
);

macro_rules! code {
    ($($(#[$doc:meta])+ $tag:literal $name:ident $event:ident {
        $first:ident: u64 = first $(, $field:ident: $type:ty = $how:ident)*
    })+) => {
        impl Encoder {
            fn fields(&mut self, event: &Event) -> u8 {
                match *event {
                    $(Event::$event { $first, $($field),* } => {
                        self.first($first);
                        $(self.$how($field);)*
                        $tag
                    })+
                }
            }
        }

        /// The event; None = its tag is of a later version.
        fn event(
            tag: u8,
            at_ns: Result<u64, Malformed>,
            body: &mut Body<'_>,
        ) -> Result<Option<Event>, Malformed> {
            Ok(Some(match tag {
                $($tag => Event::$event { $first: at_ns?, $($field: body.$how()?),* },)+
                _ => return Ok(None),
            }))
        }
    };
}

events!(code);

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
        match event(tag, at_ns, &mut body) {
            Ok(Some(event)) => Ok(Record::Event(event)),
            Ok(None) | Err(LATER_KIND) => Ok(Record::Unknown(tag)),
            Err(malformed) => Err(malformed),
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

    fn measured(&mut self) -> Result<u64, Malformed> {
        Ok(self.plain()?.wrapping_sub(1))
    }

    fn short(&mut self) -> Result<u16, Malformed> {
        u16::try_from(self.plain()?).map_err(|_| Malformed("a number of 16 bits"))
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        Ok(self.plain()? != 0)
    }

    fn text_number(&mut self) -> Result<Text, Malformed> {
        self.small()
    }

    fn one_of<T: Copy>(&mut self, kinds: &[T], expected: Malformed) -> Result<T, Malformed> {
        let number = usize::from(self.tiny()?);
        kinds.get(number).copied().ok_or(expected)
    }

    fn unit_kind(&mut self) -> Result<UnitKind, Malformed> {
        self.one_of(&UnitKind::BY_NUMBER, Malformed("a kind of unit"))
    }

    fn arrival_clock(&mut self) -> Result<ArrivalClock, Malformed> {
        self.one_of(&ArrivalClock::BY_NUMBER, Malformed("a clock"))
    }

    fn wait_kind(&mut self) -> Result<WaitKind, Malformed> {
        self.one_of(&WaitKind::BY_NUMBER, LATER_KIND)
    }

    fn resource_kind(&mut self) -> Result<ResourceKind, Malformed> {
        self.one_of(&ResourceKind::BY_NUMBER, LATER_KIND)
    }

    fn outcome(&mut self) -> Result<Outcome, Malformed> {
        self.one_of(&Outcome::BY_NUMBER, Malformed("an outcome"))
    }
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
