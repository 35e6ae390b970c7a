//! The generator against servers on real sockets, good and bad ones. No verdict rests on how long anything took.

use greenlane_load::{
    run, Address, FailureReason, Outcome, Schedule, Stopped, Stream, FAILED, UNANSWERED,
};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Worker: 17\r\n\r\nok";

trait Talk: Read + Write + Send + 'static {}
impl Talk for TcpStream {}
impl Talk for UnixStream {}

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    requests: AtomicUsize,
}

/// Serves each connection of a TCP port with `answer(connection, number of the request on it)`; false closes it.
fn serve<F>(answer: F) -> (Address, Arc<Seen>)
where
    F: Fn(&mut dyn Talk, usize) -> bool + Send + Sync + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    let (seen, answer) = (Arc::new(Seen::default()), Arc::new(answer));
    let counted = seen.clone();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let (seen, answer) = (counted.clone(), answer.clone());
            seen.connections.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || talk(&mut connection.unwrap(), &seen, &*answer));
        }
    });
    (address, seen)
}

fn talk(connection: &mut dyn Talk, seen: &Seen, answer: &dyn Fn(&mut dyn Talk, usize) -> bool) {
    let mut read = [0; 4096];
    let mut number = 0;
    while matches!(connection.read(&mut read), Ok(got) if got > 0) {
        seen.requests.fetch_add(1, Ordering::SeqCst);
        if !answer(connection, number) {
            return;
        }
        number += 1;
    }
}

fn say(connection: &mut dyn Talk, words: &[u8]) -> bool {
    connection.write_all(words).is_ok()
}

/// Waits for what a server counts: its threads may get a core later than the client that has given them up.
fn seen_in_time(counted: &AtomicUsize, expected: usize) {
    for _ in 0..20_000 {
        if counted.load(Ordering::SeqCst) >= expected {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(counted.load(Ordering::SeqCst), expected);
}

fn stream(address: Address) -> Stream {
    Stream {
        address,
        before: b"GET /".to_vec(),
        mark: b"?ms=".to_vec(),
        after: b" HTTP/1.1\r\nHost: here\r\n\r\n".to_vec(),
        head_only: false,
        keep_alive: false,
        most_connections: 0,
        timeout_ns: 20_000_000_000,
    }
}

fn kept(address: Address, most_connections: usize) -> Stream {
    Stream {
        keep_alive: true,
        most_connections,
        ..stream(address)
    }
}

/// `count` requests, one a millisecond.
fn paced(count: usize) -> Schedule {
    Schedule {
        at_ns: (0..count as i64).map(|number| number * 1_000_000).collect(),
        stream: vec![0; count],
        work_ms: vec![0.0; count],
    }
}

fn sent(stream: Stream, schedule: &Schedule) -> Outcome {
    run(&[stream], schedule, "x-worker", &mut |_, _| true).unwrap()
}

fn failures(outcome: &Outcome, why: FailureReason) -> u64 {
    outcome.failures[why as usize]
}

#[test]
fn every_request_is_sent_when_it_is_due_and_timed_in_order() {
    let (address, seen) = serve(|connection, _| say(connection, OK));
    for stream in [
        stream(address.clone()),
        kept(address.clone(), 0),
        kept(address, 2),
    ] {
        let before = seen.requests.load(Ordering::SeqCst);
        let schedule = paced(100);
        let outcome = sent(stream, &schedule);
        assert_eq!(seen.requests.load(Ordering::SeqCst) - before, 100);
        for request in 0..100 {
            assert_eq!(
                (outcome.status[request], outcome.worker[request]),
                (200, 17)
            );
            assert!(schedule.at_ns[request] <= outcome.begun_ns[request]);
            assert!(outcome.begun_ns[request] <= outcome.sent_ns[request]);
            assert!(outcome.sent_ns[request] <= outcome.first_byte_ns[request]);
            assert!(outcome.first_byte_ns[request] <= outcome.done_ns[request]);
        }
    }
}

#[test]
fn connections_are_new_or_kept_and_never_more_than_asked_for() {
    let (address, seen) = serve(|connection, _| say(connection, OK));
    assert_eq!(sent(stream(address), &paced(30)).connections, 30);
    assert_eq!(seen.connections.load(Ordering::SeqCst), 30);
    let (address, seen) = serve(|connection, _| {
        thread::sleep(Duration::from_millis(3));
        say(connection, OK)
    });
    let outcome = sent(kept(address, 2), &paced(30));
    assert!(outcome.status.iter().all(|&status| status == 200));
    assert_eq!(seen.connections.load(Ordering::SeqCst), 2);
}

#[test]
fn the_amount_of_work_is_part_of_the_request() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    let heard = thread::spawn(move || {
        let mut lines = Vec::new();
        for _ in 0..2 {
            let (mut connection, _) = listener.accept().unwrap();
            let mut read = [0; 4096];
            let got = connection.read(&mut read).unwrap();
            connection.write_all(OK).unwrap();
            lines.push(
                String::from_utf8_lossy(&read[..got])
                    .lines()
                    .next()
                    .unwrap()
                    .to_owned(),
            );
        }
        lines
    });
    let schedule = Schedule {
        work_ms: vec![40.0, 0.0],
        ..paced(2)
    };
    sent(stream(address), &schedule);
    let mut lines = heard.join().unwrap();
    lines.sort();
    assert_eq!(lines, ["GET / HTTP/1.1", "GET /?ms=40.0 HTTP/1.1"]);
}

#[test]
fn silence_slows_nobody_down_and_is_given_up_in_time() {
    let (address, seen) = serve(|_, _| true);
    let impatient = Stream {
        timeout_ns: 300_000_000,
        ..stream(address)
    };
    let schedule = paced(100);
    let outcome = sent(impatient, &schedule);
    seen_in_time(&seen.requests, 100);
    for request in 0..100 {
        assert_eq!(outcome.status[request], UNANSWERED);
        assert!(outcome.done_ns[request] - schedule.at_ns[request] >= 300_000_000);
    }
}

#[test]
fn who_waits_for_a_connection_in_vain_is_given_up_too() {
    let (address, seen) = serve(|_, _| true);
    let impatient = Stream {
        timeout_ns: 200_000_000,
        ..kept(address, 1)
    };
    let schedule = Schedule {
        at_ns: vec![0; 20],
        ..paced(20)
    };
    let outcome = sent(impatient, &schedule);
    assert!(outcome.status.iter().all(|&status| status == UNANSWERED));
    assert_eq!(
        outcome
            .sent_ns
            .iter()
            .filter(|&&sent_ns| sent_ns > 0)
            .count(),
        1
    );
    assert_eq!(outcome.connections, 1);
    seen_in_time(&seen.connections, 1);
}

#[test]
fn a_server_that_ends_kept_connections_loses_no_request() {
    let (address, _) = serve(|connection, number| say(connection, OK) && number < 2);
    let outcome = sent(kept(address, 0), &paced(100));
    assert!(outcome.status.iter().all(|&status| status == 200));
    // One that reads a request on a kept connection and says nothing: it is sent again, once.
    let (address, _) = serve(|connection, number| number == 0 && say(connection, OK));
    let outcome = sent(kept(address, 1), &paced(100));
    assert!(outcome.status.iter().all(|&status| status == 200));
    assert!(outcome.sent_again > 0);
    assert_eq!(outcome.failures, [0; 5]);
}

#[test]
fn bad_answers_are_told_apart() {
    let endless = b"X-Y: zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz\r\n";
    let cases: [(FailureReason, &[u8], usize); 4] = [
        (FailureReason::Rubbish, b"SSH-2.0-OpenSSH_9.2\r\n", 1),
        (FailureReason::Closed, b"HTTP/1.1 200 OK\r\nContent-Le", 1),
        (
            FailureReason::Closed,
            b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
            1,
        ),
        (FailureReason::EndlessHead, endless, 2_000),
    ];
    for (why, words, times) in cases {
        let (address, _) = serve(move |connection, _| {
            let _ = (times == 1 || say(connection, b"HTTP/1.1 200 OK\r\n"))
                && (0..times).all(|_| say(connection, words));
            false
        });
        let outcome = sent(stream(address), &paced(5));
        assert!(
            outcome.status.iter().all(|&status| status == FAILED),
            "{why:?}"
        );
        // A server that closes with our bytes unread resets: seen before its words, or behind them.
        assert_eq!(
            failures(&outcome, why) + failures(&outcome, FailureReason::Reset),
            5,
            "{why:?}"
        );
    }
}

#[test]
fn an_answer_of_a_status_alone_lasts_until_the_end() {
    let (address, _) = serve(|connection, _| {
        say(connection, b"HTTP/1.1 503 No\r\n\r\n");
        false
    });
    let outcome = sent(kept(address, 0), &paced(5));
    assert!(outcome.status.iter().all(|&status| status == 503));
}

#[test]
fn nobody_there_is_a_failed_request() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    drop(listener);
    let outcome = sent(stream(address), &paced(5));
    assert_eq!(failures(&outcome, FailureReason::Refused), 5);
    let outcome = sent(
        stream(Address::parse("unix:/nowhere/at/all").unwrap()),
        &paced(5),
    );
    assert_eq!(failures(&outcome, FailureReason::Refused), 5);
}

#[test]
fn a_large_answer_and_a_large_request_pass() {
    let (address, _) = serve(|connection, _| {
        let mut left = 3_000_000_usize - 4096;
        let mut read = vec![0; 65536];
        while left > 0 {
            left = left.saturating_sub(connection.read(&mut read).unwrap());
        }
        let body = vec![b'x'; 2_000_000];
        say(
            connection,
            b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n",
        ) && say(connection, &body)
    });
    let mut large = stream(address);
    large.after.extend(vec![b'y'; 3_000_000]);
    let outcome = sent(large, &paced(3));
    assert!(outcome.status.iter().all(|&status| status == 200));
}

#[test]
fn a_full_unix_listener_is_asked_until_it_has_room() {
    let path = std::env::temp_dir().join(format!("greenlane-load-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    let address = Address::parse(&format!("unix:{}", path.display())).unwrap();
    let count = 50;
    rustix::net::listen(&listener, 1).unwrap(); // std asks for a backlog that would hold them all
    let server = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        for connection in listener.incoming().take(count) {
            let mut connection = connection.unwrap();
            let mut read = [0; 4096];
            let _ = connection.read(&mut read);
            let _ = connection.write_all(OK);
        }
    });
    let outcome = sent(
        stream(address),
        &Schedule {
            at_ns: vec![0; count],
            ..paced(count)
        },
    );
    server.join().unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(outcome.status.iter().all(|&status| status == 200));
}

#[test]
fn the_caller_ends_a_run() {
    let (address, _) = serve(|_, _| true);
    let mut ticks = 0;
    let stopped = run(&[stream(address)], &paced(100_000), "", &mut |_, _| {
        ticks += 1;
        ticks < 3
    });
    assert_eq!(stopped.unwrap_err(), Stopped::Interrupted);
}

#[test]
fn an_empty_schedule_is_over_at_once() {
    let outcome = run(&[], &Schedule::default(), "", &mut |_, _| true).unwrap();
    assert!(outcome.status.is_empty());
}

#[test]
fn whatever_a_server_says_every_request_comes_to_an_end() {
    let whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Worker: 1\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let state = std::sync::Mutex::new(7_u64);
    let (address, _) = serve(move |connection, _| {
        let random = || {
            let mut state = state.lock().unwrap();
            *state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (*state >> 33) as usize
        };
        let mut words = whole[..random() % (whole.len() + 1)].to_vec();
        for _ in 0..random() % 3 {
            let at = random() % (words.len() + 1);
            words.insert(at, random() as u8);
        }
        let cut = random() % (words.len() + 1);
        say(connection, &words[..cut]) && say(connection, &words[cut..]) && random() % 3 > 0
    });
    let impatient = Stream {
        timeout_ns: 300_000_000,
        ..kept(address, 0)
    };
    let outcome = sent(impatient, &paced(500));
    assert!(outcome.done_ns.iter().all(|&done_ns| done_ns > 0));
    let failed = outcome
        .status
        .iter()
        .filter(|&&status| status == FAILED)
        .count() as u64;
    assert_eq!(failed, outcome.failures.iter().sum::<u64>());
}
