//! Tests: whatever the bytes are, a reader ends, does not panic, and says what it skipped.

use super::analysis::{Analysis, LookRow};
use super::read::{Scan, Skipped, Texts, Unreadable};
use greenlane_recording_format::chunk::{frame, Header, HEADER, MAGIC};
use greenlane_recording_format::codec::{Decoder, Encoder, Record};
use greenlane_recording_format::event::{
    ArrivalClock, Event, Outcome, ResourceKind, Text, UnitKind, WaitKind,
};
use greenlane_recording_format::events;

/// Numbers that look random and are the same in each run (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

fn chunk(process: u64, sequence: u32, events: &[Event]) -> Vec<u8> {
    let mut encoder = Encoder::new(1_000);
    encoder.text(7, "GET /bikes");
    events.iter().for_each(|event| encoder.event(event));
    let header = Header {
        process,
        pid: process as u32,
        sequence,
        lost: 3,
        base_ns: 1_000,
        length: 0,
        crc: 0,
    };
    frame(header, encoder.bytes())
}

/// A chunk with one job, of 100 ns.
fn one_job(process: u64, sequence: u32) -> Vec<u8> {
    let (unit, job) = (1, u64::from(sequence) + 1);
    let at_ns = 1_000 + u64::from(sequence) * 100;
    let open = Event::JobOpen {
        at_ns,
        job,
        unit,
        arrival_ns: at_ns,
        spawn_ns: 0,
        deadline_ns: 0,
        clock: ArrivalClock::Handler,
        host: 0,
        parent_job: 0,
    };
    let close = Event::JobClose {
        at_ns: at_ns + 100,
        job,
        status: 200,
    };
    let name = Event::JobName {
        at_ns,
        job,
        route: 7,
    };
    chunk(process, sequence, &[open, name, close])
}

fn jobs(bytes: &[u8]) -> usize {
    Analysis::new(vec![bytes]).expect("readable").jobs.len()
}

#[test]
fn chunks_of_many_processes_in_any_order_are_one_recording() {
    let (first, second, other) = (one_job(1, 0), one_job(1, 1), one_job(2, 0));
    let bytes = [second.clone(), other.clone(), first.clone()].concat();
    let analysis = Analysis::new(vec![&bytes]).expect("readable");
    assert_eq!((analysis.processes.len(), analysis.jobs.len()), (2, 3));
    assert_eq!(analysis.skipped, Skipped::default());
    assert_eq!(analysis.processes[0].lost_events, 3);
    let apart = Analysis::new(vec![&first, &other, &second]).expect("readable");
    assert_eq!(apart.jobs.len(), 3);
}

#[test]
fn a_chunk_cut_off_at_any_byte_costs_only_itself() {
    let (whole, last) = (one_job(1, 0), one_job(1, 1));
    for length in 1..last.len() {
        let bytes = [&whole[..], &last[..length], &one_job(2, 0)].concat();
        let analysis = Analysis::new(vec![&bytes]).expect("readable");
        assert_eq!(analysis.jobs.len(), 2, "cut at {length}");
        let torn: u64 = analysis.processes.iter().map(|row| row.torn_bytes).sum();
        assert_eq!(
            torn + analysis.skipped.damaged_bytes,
            length as u64,
            "cut at {length}"
        );
        let at_the_end = [&whole[..], &last[..length]].concat();
        let analysis = Analysis::new(vec![&at_the_end]).expect("readable");
        assert_eq!(
            analysis.processes[0].torn_bytes, length as u64,
            "cut at {length}"
        );
    }
}

#[test]
fn a_damaged_chunk_in_the_middle_is_skipped_and_counted() {
    let mut bytes = [one_job(1, 0), one_job(1, 1), one_job(1, 2)].concat();
    let length = one_job(1, 0).len();
    bytes[length + HEADER + 3] ^= 0x10;
    let analysis = Analysis::new(vec![&bytes]).expect("readable");
    assert_eq!(analysis.jobs.len(), 2);
    assert_eq!(analysis.skipped.damaged_chunks, 1);
    assert_eq!(analysis.skipped.damaged_bytes, one_job(1, 1).len() as u64);
    assert_eq!(analysis.processes[0].missing_chunks, 1);
}

#[test]
fn a_dropped_beginning_and_repeated_chunks_are_counted() {
    let bytes = [one_job(1, 5), one_job(1, 5), one_job(1, 6)].concat();
    let analysis = Analysis::new(vec![&bytes]).expect("readable");
    assert_eq!(
        (analysis.jobs.len(), analysis.skipped.repeated_chunks),
        (2, 1)
    );
    assert_eq!(analysis.processes[0].dropped_chunks, 5);
}

#[test]
fn what_is_no_recording_is_refused_with_the_reason() {
    let refused = |bytes: &[u8]| Scan::new(vec![bytes]).err();
    assert_eq!(refused(b""), Some(Unreadable::Empty));
    assert_eq!(
        refused(b"PK\x03\x04 something else"),
        Some(Unreadable::Foreign)
    );
    assert_eq!(refused(&MAGIC), Some(Unreadable::Damaged));
    let mut newer = one_job(1, 0);
    newer[4] = 9;
    assert_eq!(refused(&newer), Some(Unreadable::Newer(9)));
    let mut damaged = one_job(1, 0);
    *damaged.last_mut().expect("not empty") ^= 1;
    assert_eq!(refused(&damaged), Some(Unreadable::Damaged));
    assert_eq!(jobs(&[newer, one_job(1, 0)].concat()), 1);
}

#[test]
fn texts_belong_to_their_chunk() {
    let name = |route| Event::JobName {
        at_ns: 1_000,
        job: 1,
        route,
    };
    let bytes = chunk(1, 0, &[name(7), name(8)]);
    let mut texts = Texts::default();
    let mut scan = Scan::new(vec![&bytes]).expect("readable");
    let events = scan.events(0, &mut texts);
    let routes: Vec<&str> = events
        .iter()
        .map(|event| match event {
            Event::JobName { route, .. } => texts.get(*route),
            _ => "?",
        })
        .collect();
    assert_eq!(routes, ["GET /bikes", ""]);
}

#[test]
fn an_event_or_wait_of_a_later_version_is_skipped_and_times_behind_it_stay() {
    let look = Event::Look {
        at_ns: 1_500,
        unit: 1,
        job: 1,
        weight_ns: 20,
        free: true,
    };
    let wait = Event::Wait {
        from_ns: 1_500,
        to_ns: 1_600,
        unit: 1,
        job: 1,
        kind: WaitKind::Stopped,
    };
    let encoded = |event| {
        let mut encoder = Encoder::new(1_000);
        encoder.event(&event);
        encoder.bytes().to_vec()
    };
    let (mut look, mut wait) = (encoded(look), encoded(wait));
    assert_eq!((look[0], wait[0], wait.last()), (19, 7, Some(&7)));
    look[0] = 200;
    *wait.last_mut().unwrap() = 100;
    skipped(look, 200);
    skipped(wait, 7);
}

fn skipped(later: Vec<u8>, tag: u8) {
    let mut encoder = Encoder::new(1_500);
    encoder.event(&Event::JobClose {
        at_ns: 1_700,
        job: 1,
        status: 200,
    });
    let payload = [later, encoder.bytes().to_vec()].concat();
    let records: Vec<_> = Decoder::new(&payload, 1_000).collect();
    let close = Event::JobClose {
        at_ns: 1_700,
        job: 1,
        status: 200,
    };
    assert_eq!(
        records,
        [Ok(Record::Unknown(tag)), Ok(Record::Event(close))]
    );
}

/// A slice of unit 1 for job 1 from 1,000 to 2,000 that used so much CPU, blocked from 1,600 to 1,700, with looks.
fn looked_at(cpu_ns: u64, looks: &[(u64, u32, u64, bool)]) -> Vec<LookRow> {
    let (unit, job) = (1, 1);
    let mut events = vec![
        Event::JobOpen {
            at_ns: 1_000,
            job,
            unit,
            arrival_ns: 1_000,
            spawn_ns: 0,
            deadline_ns: 0,
            clock: ArrivalClock::Handler,
            host: 0,
            parent_job: 0,
        },
        Event::Slice {
            from_ns: 1_000,
            to_ns: 2_000,
            unit,
            job,
            phase: 0,
            cpu_ns,
        },
        Event::Block {
            from_ns: 1_600,
            known_ns: 1_700,
            ready_ns: 1_700,
            to_ns: 1_700,
            unit,
            job,
            kind: 0,
            flags: 1,
            call: 0,
            peer: 0,
        },
        Event::JobClose {
            at_ns: 2_000,
            job,
            status: 200,
        },
    ];
    let looks = looks.iter().map(|&(at_ns, unit, job, free)| Event::Look {
        at_ns,
        unit,
        job,
        weight_ns: 20,
        free,
    });
    events.extend(looks);
    let bytes = chunk(1, 0, &events);
    let analysis = Analysis::new(vec![&bytes]).expect("readable");
    analysis.looks
}

#[test]
fn a_look_counts_where_its_job_computed() {
    let looks = [
        (1_000, 1, 1, true),
        (1_300, 1, 1, false),
        (1_599, 1, 1, true),
        (1_650, 1, 1, true), // Blocked, with its loop.
        (2_000, 1, 1, true), // Over.
        (1_300, 1, 2, true), // Another job,
        (1_300, 2, 1, true), // another unit.
        (900, 1, 1, true),
    ];
    let counted = LookRow {
        process: 0,
        job: 1,
        looks: 3,
        ns: 60,
        free_ns: 40,
    };
    assert_eq!(looked_at(u64::MAX, &looks), [counted]);
    // Off the core for half of its time, nobody knows when.
    assert_eq!(looked_at(450, &looks), [counted]);
}

#[test]
fn overlapping_headers_do_not_keep_a_reader_busy() {
    let mut header = Header {
        process: 1,
        pid: 1,
        sequence: 0,
        lost: 0,
        base_ns: 0,
        length: 0,
        crc: 1,
    };
    let count = 20_000;
    let mut bytes = Vec::new();
    for index in 0..count {
        header.length = ((count - index - 1) * HEADER) as u32;
        bytes.extend_from_slice(&header.to_bytes());
    }
    assert_eq!(Scan::new(vec![&bytes]).err(), Some(Unreadable::Damaged));
}

#[test]
fn flipped_bytes_never_panic() {
    let whole: Vec<u8> = (0..8)
        .flat_map(|index| one_job(index % 3, index as u32))
        .collect();
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for _ in 0..3_000 {
        let mut bytes = whole.clone();
        for _ in 0..=numbers.below(4) {
            let at = numbers.below(bytes.len() as u64) as usize;
            bytes[at] = numbers.next() as u8;
        }
        bytes.truncate(numbers.below(bytes.len() as u64 * 4) as usize);
        let _ = Analysis::new(vec![&bytes]);
    }
}

/// A number that breaks things: small, huge, or just about now.
fn hostile(numbers: &mut Numbers) -> u64 {
    match numbers.below(6) {
        0 => 0,
        1 => u64::MAX - numbers.below(3),
        2 => numbers.next(),
        _ => 1_000 + numbers.below(200),
    }
}

/// A field by its name and how it is written: what refers to others does so to few, all else is any number.
fn hostile_field(name: &str, how: &str, numbers: &mut Numbers) -> u64 {
    match (name, how) {
        ("job" | "parent_job", _) => numbers.below(5),
        ("unit" | "parent" | "thread", _) => numbers.below(4),
        ("resource", _) => numbers.below(3),
        (_, "text_number") => numbers.below(9),
        _ => hostile(numbers),
    }
}

macro_rules! hostile_field {
    (unit_kind, $numbers:expr, $number:expr, $type:ty) => {
        UnitKind::BY_NUMBER[$numbers.below(4) as usize]
    };
    (arrival_clock, $numbers:expr, $number:expr, $type:ty) => {
        ArrivalClock::Kernel
    };
    (wait_kind, $numbers:expr, $number:expr, $type:ty) => {
        WaitKind::BY_NUMBER[$numbers.below(8) as usize]
    };
    (resource_kind, $numbers:expr, $number:expr, $type:ty) => {
        ResourceKind::BY_NUMBER[$numbers.below(5) as usize]
    };
    (outcome, $numbers:expr, $number:expr, $type:ty) => {
        Outcome::BY_NUMBER[$numbers.below(3) as usize]
    };
    (flag, $numbers:expr, $number:expr, $type:ty) => {
        $number % 2 == 1
    };
    ($how:ident, $numbers:expr, $number:expr, $type:ty) => {
        $number as $type
    };
}

macro_rules! hostile_events {
    ($($(#[$doc:meta])+ $tag:literal $name:ident $event:ident {
        $($field:ident: $type:ty = $how:ident),+
    })+) => {
        fn hostile_event(numbers: &mut Numbers) -> Event {
            // What makes jobs comes more often.
            let frequent = ["job_close", "slice", "block"];
            let names = [frequent.as_slice(), &[$(stringify!($name)),+]].concat();
            match names[numbers.below(names.len() as u64) as usize] {
                $(stringify!($name) => Event::$event {
                    $($field: hostile_field!(
                        $how,
                        numbers,
                        hostile_field(stringify!($field), stringify!($how), numbers),
                        $type
                    )),+
                },)+
                name => unreachable!("{name}"),
            }
        }
    };
}

events!(hostile_events);

#[test]
fn impossible_events_never_panic_and_sums_stay_exact() {
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    let mut jobs = 0;
    for _ in 0..6_000 {
        let events: Vec<Event> = (0..numbers.below(40))
            .map(|_| hostile_event(&mut numbers))
            .collect();
        let bytes = chunk(1, 0, &events);
        let mut analysis = Analysis::new(vec![&bytes]).expect("a whole chunk");
        for job in analysis.jobs.clone() {
            let sum = job.account.explained_ns() + job.account.residual_ns;
            assert_eq!(sum, job.end_ns - job.arrival_ns);
            assert!(analysis.segments(job.process, job.job).is_some());
            let waited: u128 = job.account.wait_ns.iter().map(|&ns| u128::from(ns)).sum();
            let whole = analysis.culprits(job.process, job.job, 0, u64::MAX);
            let blamed: u128 = whole.iter().map(|&(_, ns)| u128::from(ns)).sum();
            assert!(blamed == waited || waited > u128::from(u64::MAX));
            let middle_ns = job.arrival_ns / 2 + job.end_ns / 2;
            let halves: u128 = [(0, middle_ns), (middle_ns, u64::MAX)]
                .iter()
                .flat_map(|&(from, to)| analysis.culprits(job.process, job.job, from, to))
                .map(|(_, ns)| u128::from(ns))
                .sum();
            assert!(halves == blamed || waited > u128::from(u64::MAX));
            jobs += 1;
        }
        let waits: u128 = analysis
            .jobs
            .iter()
            .flat_map(|job| job.account.wait_ns)
            .map(u128::from)
            .sum();
        let blame: u128 = analysis.blame.iter().map(|row| u128::from(row.ns)).sum();
        assert!(blame == waits || waits > u128::from(u64::MAX));
    }
    assert!(jobs > 500, "{jobs}");
}
