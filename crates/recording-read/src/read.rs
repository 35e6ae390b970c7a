//! Finds the chunks of a recording, whole or damaged, of one process or of many.
//!
//! Nothing in the bytes is believed before its checksum fits. What does not fit is counted and skipped up to the next
//! magic. Memory is in proportion to the input: a decoded event takes at most 12 times its bytes, and one process is
//! decoded at a time. Time is too: after checksums over [`EFFORT`] times the input the rest is given up as damaged, so
//! that headers made to overlap cannot keep a reader busy.

use greenlane_recording_format::chunk::{checksum, Header, Refused, HEADER, MAGIC};
use greenlane_recording_format::codec::{Decoder, Record};
use greenlane_recording_format::event::{Event, Text};
use std::collections::{BTreeMap, HashMap};
use std::ops::{Range, RangeInclusive};

/// Bytes that are checksummed at most, in times of the input.
pub const EFFORT: u64 = 8;

/// Why a recording cannot be read at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// No bytes.
    Empty,
    /// Not one of our chunks.
    Foreign,
    /// Of this later version.
    Newer(u16),
    /// Ours, but no chunk is whole.
    Damaged,
    /// Nothing was recorded between the two moments that were asked for.
    Outside,
}

/// What was skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Chunks whose checksum did not fit or whose records made no sense, with others of their process behind them.
    pub damaged_chunks: u64,
    /// Bytes in them, and between chunks.
    pub damaged_bytes: u64,
    /// Chunks of a later version.
    pub newer_chunks: u64,
    /// Records of kinds that this version does not know.
    pub unknown_records: u64,
    /// Chunks that were there twice.
    pub repeated_chunks: u64,
}

/// One process of a recording: where its chunks are.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    pub process: u64,
    pub pid: u32,
    /// Events that a full buffer lost.
    pub lost_events: u64,
    /// Of its last chunk, which ends too early.
    pub torn_bytes: u64,
    /// Chunks before the first one that is there: their file was deleted for want of room.
    pub dropped_chunks: u64,
    /// Chunks missing between those that are there.
    pub missing_chunks: u64,
    /// It goes on behind the window: see [`Scan::within`].
    pub goes_on: bool,
    chunks: Vec<Chunk>,
}

#[derive(Clone, Debug)]
struct Chunk {
    sequence: u32,
    base_ns: u64,
    input: usize,
    payload: Range<usize>,
}

/// The chunks of a recording, by process, in order.
pub struct Scan<'a> {
    inputs: Vec<&'a [u8]>,
    window_ns: RangeInclusive<u64>,
    pub origins: Vec<Origin>,
    pub skipped: Skipped,
    release: Release,
}

/// Told of bytes that are not needed for now: those of a file may leave the memory.
pub type Release = fn(&[u8]);

/// A chunk that is not whole.
struct DamagedBytes {
    process: u64,
    sequence: u32,
    bytes: u64,
}

/// Texts by number, each once. Number 0 is the empty text.
pub struct Texts {
    numbers: HashMap<Box<str>, Text>,
    texts: Vec<Box<str>>,
}

impl Default for Texts {
    fn default() -> Self {
        let mut texts = Self {
            numbers: HashMap::new(),
            texts: Vec::new(),
        };
        texts.number("");
        texts
    }
}

impl Texts {
    /// The number of `text`, a new one if need be.
    pub fn number(&mut self, text: &str) -> Text {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.texts.len() as Text;
        self.texts.push(text.into());
        self.numbers.insert(text.into(), number);
        number
    }

    /// The text of a number that [`Texts::number`] gave.
    pub fn get(&self, number: Text) -> &str {
        &self.texts[number as usize]
    }
}

impl<'a> Scan<'a> {
    /// Finds the chunks in files, each of which holds chunks of any process in any order.
    pub fn new(inputs: Vec<&'a [u8]>) -> Result<Self, Unreadable> {
        Self::releasing(inputs, |_| ())
    }

    /// The same; `release` hears what has been read.
    pub fn releasing(inputs: Vec<&'a [u8]>, release: Release) -> Result<Self, Unreadable> {
        let mut found: BTreeMap<u64, Origin> = BTreeMap::new();
        let (mut skipped, mut broken) = (Skipped::default(), Vec::new());
        let (mut newer, mut ours) = (None, false);
        let total: u64 = inputs.iter().map(|bytes| bytes.len() as u64).sum();
        let mut effort = total.saturating_mul(EFFORT);
        for (input, bytes) in inputs.iter().enumerate() {
            let mut at = 0;
            let mut before = None; // Whose chunk ends here.
            while at < bytes.len() {
                let rest = &bytes[at..];
                let mut ended = None;
                let header = match Header::read(rest) {
                    // The next one begins within it: it was cut off.
                    Ok(_) | Err(Refused::Newer(_))
                        if next_magic(&rest[..rest.len().min(HEADER + 3)]) < HEADER =>
                    {
                        Err(Refused::Short)
                    }
                    header => header,
                };
                let step = match header {
                    Err(Refused::Newer(version)) => {
                        newer = Some(version);
                        skipped.newer_chunks += 1;
                        next_magic(rest)
                    }
                    Err(refused) => {
                        let step = next_magic(rest);
                        ours |= rest.starts_with(&MAGIC);
                        match before {
                            // A header cut short: the writer was killed in the midst of it.
                            Some(process) if refused == Refused::Short => {
                                broken.push(DamagedBytes {
                                    process,
                                    sequence: u32::MAX,
                                    bytes: step as u64,
                                })
                            }
                            _ => skipped.damaged_bytes += step as u64,
                        }
                        step
                    }
                    Ok((header, head)) => {
                        ours = true;
                        let end = head.saturating_add(header.length as usize);
                        let whole = end <= rest.len() && effort >= u64::from(header.length) && {
                            effort -= u64::from(header.length);
                            checksum(&rest[head..end]) == header.crc
                        };
                        if whole {
                            ended = Some(header.process);
                            let origin = found.entry(header.process).or_default();
                            origin.process = header.process;
                            origin.pid = header.pid;
                            origin.lost_events = origin.lost_events.max(u64::from(header.lost));
                            origin.chunks.push(Chunk {
                                sequence: header.sequence,
                                base_ns: header.base_ns,
                                input,
                                payload: at + head..at + end,
                            });
                            end
                        } else {
                            let step = next_magic(rest);
                            broken.push(DamagedBytes {
                                process: header.process,
                                sequence: header.sequence,
                                bytes: step as u64,
                            });
                            step
                        }
                    }
                };
                release(&bytes[at..at + step]);
                at += step;
                before = ended;
            }
        }
        if found.is_empty() {
            return Err(match newer {
                _ if total == 0 => Unreadable::Empty,
                Some(version) => Unreadable::Newer(version),
                None if ours => Unreadable::Damaged,
                None => Unreadable::Foreign,
            });
        }
        for origin in found.values_mut() {
            skipped.repeated_chunks += origin.sort();
        }
        for chunk in broken {
            match found.get_mut(&chunk.process) {
                Some(origin)
                    if origin
                        .chunks
                        .last()
                        .is_none_or(|last| last.sequence < chunk.sequence) =>
                {
                    origin.torn_bytes += chunk.bytes;
                }
                _ => {
                    skipped.damaged_chunks += 1;
                    skipped.damaged_bytes += chunk.bytes;
                }
            }
        }
        let mut origins: Vec<Origin> = found.into_values().collect();
        origins.sort_by_key(|origin| (origin.chunks[0].base_ns, origin.process));
        Ok(Self {
            inputs,
            window_ns: 0..=u64::MAX,
            origins,
            skipped,
            release,
        })
    }

    /// Only what was written between two moments, monotonic, to a chunk's length; and of what is true since long: who
    /// the process and its units are.
    pub fn within(mut self, window_ns: RangeInclusive<u64>) -> Result<Self, Unreadable> {
        let inside = |chunk: &Chunk| window_ns.contains(&chunk.base_ns);
        self.origins
            .retain(|origin| origin.chunks.iter().any(inside));
        if self.origins.is_empty() {
            return Err(Unreadable::Outside);
        }
        for origin in &mut self.origins {
            let behind = |chunk: &Chunk| chunk.base_ns > *window_ns.end();
            origin.goes_on = origin.chunks.iter().any(behind);
        }
        self.window_ns = window_ns;
        Ok(self)
    }

    /// The events of one process, chunk by chunk, with the numbers that `texts` gives. Counts what makes no sense.
    pub fn events(&mut self, origin: usize, texts: &mut Texts) -> Vec<Event> {
        let mut events = Vec::new();
        for chunk in 0..self.chunks(origin) {
            let inside = self.inside(origin, chunk);
            self.decode_and_count(origin, chunk, texts, |event| {
                if inside || holds_for_long(&event) {
                    events.push(event);
                }
            });
        }
        events
    }

    /// How many chunks a process has.
    pub fn chunks(&self, origin: usize) -> usize {
        self.origins[origin].chunks.len()
    }

    /// Of all processes, the bytes that are in the window.
    pub fn bytes(&self) -> u64 {
        let chunks = self.origins.iter().flat_map(|origin| &origin.chunks);
        let inside = chunks.filter(|chunk| self.window_ns.contains(&chunk.base_ns));
        inside.map(|chunk| chunk.payload.len() as u64).sum()
    }

    /// The chunks of a process that are in the window, in ranges of about this many bytes.
    pub fn cuts(&self, origin: usize, most: u64) -> Vec<Range<usize>> {
        let mut cuts: Vec<Range<usize>> = Vec::new();
        let mut bytes = 0;
        for (number, chunk) in self.origins[origin].chunks.iter().enumerate() {
            if !self.inside(origin, number) {
                continue;
            }
            let size = chunk.payload.len() as u64;
            match cuts.last_mut() {
                Some(last) if bytes + size <= most && last.end == number => {
                    last.end += 1;
                    bytes += size;
                }
                _ => {
                    cuts.push(number..number + 1);
                    bytes = size;
                }
            }
        }
        cuts
    }

    /// The chunk that has what happened at that moment; writing it began later.
    pub fn chunk_at(&self, origin: usize, at_ns: u64) -> usize {
        let chunks = &self.origins[origin].chunks;
        chunks.partition_point(|chunk| chunk.base_ns <= at_ns)
    }

    /// When writing a chunk began.
    pub fn base_ns(&self, origin: usize, chunk: usize) -> u64 {
        self.origins[origin].chunks[chunk].base_ns
    }

    /// What is left of a chunk is not needed for now.
    pub fn done_with(&self, origin: usize, chunk: usize) {
        let chunk = &self.origins[origin].chunks[chunk];
        (self.release)(&self.inputs[chunk.input][chunk.payload.clone()]);
    }

    /// Tells the events of a chunk, and counts what makes no sense.
    pub fn decode_and_count(
        &mut self,
        origin: usize,
        chunk: usize,
        texts: &mut Texts,
        tell: impl FnMut(Event),
    ) {
        let skipped = self.decode(origin, chunk, texts, tell);
        self.skipped.unknown_records += skipped.unknown_records;
        self.skipped.damaged_chunks += skipped.damaged_chunks;
        self.skipped.damaged_bytes += skipped.damaged_bytes;
    }

    /// Tells the events of a chunk with the numbers that `texts` gives; gives what made no sense.
    pub fn decode(
        &self,
        origin: usize,
        chunk: usize,
        texts: &mut Texts,
        mut tell: impl FnMut(Event),
    ) -> Skipped {
        let chunk = &self.origins[origin].chunks[chunk];
        let payload = &self.inputs[chunk.input][chunk.payload.clone()];
        let mut skipped = Skipped::default();
        let mut numbers: HashMap<Text, Text> = HashMap::new();
        for record in Decoder::new(payload, chunk.base_ns).flatten() {
            if let Record::Text(number, text) = record {
                numbers.insert(number, texts.number(text));
            }
        }
        for record in Decoder::new(payload, chunk.base_ns) {
            match record {
                Ok(Record::Event(event)) => tell(renumber(event, &numbers)),
                Ok(Record::Text(..)) => {}
                Ok(Record::Unknown(_)) => skipped.unknown_records += 1,
                Err(_) => {
                    skipped.damaged_chunks += 1;
                    skipped.damaged_bytes += payload.len() as u64;
                }
            }
        }
        skipped
    }

    fn inside(&self, origin: usize, chunk: usize) -> bool {
        self.window_ns.contains(&self.base_ns(origin, chunk))
    }
}

impl Origin {
    /// Puts the chunks in order; how many were there twice.
    fn sort(&mut self) -> u64 {
        let before = self.chunks.len();
        self.chunks.sort_by_key(|chunk| chunk.sequence);
        self.chunks.dedup_by_key(|chunk| chunk.sequence);
        let (first, last) = (
            self.chunks[0].sequence,
            self.chunks[self.chunks.len() - 1].sequence,
        );
        self.dropped_chunks = u64::from(first);
        self.missing_chunks = u64::from(last - first) + 1 - self.chunks.len() as u64;
        (before - self.chunks.len()) as u64
    }
}

/// Who somebody is holds for the chunks behind as well.
fn holds_for_long(event: &Event) -> bool {
    matches!(event, Event::Unit { .. } | Event::About { .. })
}

/// How far it is to the next magic behind the first byte, or to the end.
fn next_magic(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(step) = bytes[at.min(bytes.len())..]
        .iter()
        .position(|&byte| byte == MAGIC[0])
    {
        at += step;
        if bytes[at..].starts_with(&MAGIC) {
            return at;
        }
        at += 1;
    }
    bytes.len()
}

fn renumber(mut event: Event, numbers: &HashMap<Text, Text>) -> Event {
    let new = |text: &mut Text| *text = numbers.get(text).copied().unwrap_or(0);
    match &mut event {
        Event::Unit { name, .. } => new(name),
        Event::JobOpen { host, .. } => new(host),
        Event::JobName { route, .. } => new(route),
        Event::Block { call, peer, .. } => {
            new(call);
            new(peer);
        }
        Event::Call {
            upstream,
            operation,
            ..
        } => {
            new(upstream);
            new(operation);
        }
        Event::Stack { stack, .. } => new(stack),
        Event::About { json, .. } => new(json),
        Event::Mark { what, .. } => new(what),
        Event::Parked { by, .. } => new(by),
        Event::Contention { name, line, .. } => {
            new(name);
            new(line);
        }
        Event::Hold { line, .. } => new(line),
        Event::JobClose { .. }
        | Event::Attach { .. }
        | Event::Slice { .. }
        | Event::Wait { .. }
        | Event::Gc { .. }
        | Event::Running { .. }
        | Event::Cost { .. }
        | Event::Traced { .. }
        | Event::Look { .. }
        | Event::Cores { .. }
        | Event::Answer { .. }
        | Event::Turn { .. }
        | Event::Process { .. } => {}
    }
    event
}
