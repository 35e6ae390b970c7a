//! When a key's calls are held back.

use crate::world::{healthy_latencies, nine_healthy, World, MS, S};
use greenlane_policy::upstream::{Delays, Outcome, Rule, Upstreams};

fn failing(from_ns: u64, until_ns: u64) -> impl FnMut(u64, u32) -> (u64, Outcome) {
    move |now, _| {
        if (from_ns..until_ns).contains(&now) {
            (10 * MS, Outcome::Failed)
        } else {
            (300 * MS, Outcome::Ok)
        }
    }
}

/// `Upstreams` with one key whose breaker is open since `MS`, and 50 orders waiting.
fn open_with_fifty_waiting(outcome: Outcome) -> Upstreams {
    let mut upstreams = Upstreams::new(200, Rule::default());
    for order in 0..10 {
        upstreams.arrive(order, "m", 0, 0, 0);
        assert!(upstreams.next(0).is_some());
    }
    for order in 0..10 {
        upstreams.end(order, MS, outcome);
    }
    for order in 100..150 {
        upstreams.arrive(order, "m", 2 * MS, 0, 0);
    }
    upstreams
}

#[test]
fn open_parks_and_half_open_lets_exactly_three_of_fifty_through() {
    let mut upstreams = open_with_fifty_waiting(Outcome::Failed);
    assert!(upstreams.next(5 * S).is_none());
    let wake = upstreams.wake_ns(5 * S).unwrap();
    assert_eq!(wake, 5 * S + MS);
    let mut probes = Vec::new();
    while let Some(start) = upstreams.next(wake) {
        assert!(start.probe);
        assert_eq!(start.time_limit_ns, 5 * S);
        probes.push(start.order);
    }
    assert_eq!(probes, [100, 101, 102]);
    assert!(upstreams.next(wake + 4 * S).is_none());
    assert_eq!(upstreams.look()[0].parked, 47);
    // Two end well: not all have. The third does, too: closed.
    upstreams.end(100, wake + 300 * MS, Outcome::Ok);
    upstreams.end(101, wake + 300 * MS, Outcome::Ok);
    assert!(upstreams.next(wake + 300 * MS).is_none());
    upstreams.end(102, wake + 300 * MS, Outcome::Ok);
    let start = upstreams.next(wake + 300 * MS).unwrap();
    assert!(!start.probe);
}

#[test]
fn a_probe_that_says_nothing_is_given_again() {
    let mut upstreams = open_with_fifty_waiting(Outcome::Failed);
    let wake = upstreams.wake_ns(5 * S).unwrap();
    (0..3).for_each(|_| assert!(upstreams.next(wake).is_some()));
    assert!(upstreams.next(wake).is_none());
    upstreams.end(101, wake, Outcome::Cancelled);
    assert_eq!(upstreams.next(wake).unwrap().order, 103);
    assert!(upstreams.next(wake).is_none());
}

#[test]
fn while_probes_fail_it_is_open_for_longer_and_probes_have_longer() {
    let mut upstreams = open_with_fifty_waiting(Outcome::TimedOut);
    let mut now = 2 * MS;
    let mut seen = Vec::new();
    for _ in 0..6 {
        let open = upstreams.wake_ns(now).unwrap() - now;
        now += open;
        let mut probes = Vec::new();
        while let Some(start) = upstreams.next(now) {
            probes.push((start.order, start.time_limit_ns / S));
        }
        seen.push((open / S, probes.len(), probes[0].1));
        for (order, _) in probes {
            upstreams.end(order, now, Outcome::TimedOut);
        }
    }
    // Two of three decide; the third no longer counts.
    assert_eq!(
        seen,
        [
            (4, 3, 5),
            (10, 3, 10),
            (20, 3, 20),
            (40, 3, 40),
            (60, 3, 80),
            (60, 3, 160)
        ]
    );
}

#[test]
fn a_failing_merchant_is_asked_rarely_and_served_when_it_is_well() {
    let mut world = nine_healthy(200, Rule::default(), 120 * S);
    world.merchant("failing", failing(20 * S, 60 * S));
    world.stream("failing", 10, 0, 120 * S);
    world.run(125 * S);
    // 400 orders came in that time; without a breaker each would have been called some ten times over.
    assert!(world.bad < 40, "{} calls in vain", world.bad);
    assert_eq!(world.look("failing").parked, 0);
    assert_eq!(world.done.len() as u64, world.orders());
    assert_eq!(
        *healthy_latencies(&world, 0, 120 * S).last().unwrap(),
        300 * MS
    );
}

#[test]
fn a_merchant_that_hangs_keeps_few_slots_and_nobody_waits_for_it() {
    let mut world = nine_healthy(200, Rule::default(), 120 * S);
    // The shell's own time limit ends a call after 60 s.
    world.merchant("hanging", |now, _| {
        if now > 20 * S {
            (60 * S, Outcome::TimedOut)
        } else {
            (300 * MS, Outcome::Ok)
        }
    });
    world.stream("hanging", 10, 0, 60 * S);
    world.run(120 * S);
    assert!(world.peak["hanging"] <= 23, "{}", world.peak["hanging"]);
    assert_eq!(
        *healthy_latencies(&world, 0, 120 * S).last().unwrap(),
        300 * MS
    );
    world.nothing_is_lost();
}

#[test]
fn one_that_is_slow_by_nature_and_fails_for_a_while_is_probed_with_time_enough() {
    let mut world = World::new(200, Rule::default());
    world.merchant("slow", |now, _| {
        if (200 * S..260 * S).contains(&now) {
            (MS, Outcome::Failed)
        } else {
            (30 * S, Outcome::Ok)
        }
    });
    world.stream("slow", 1, 0, 400 * S);
    world.run(360 * S);
    let slow = world.look("slow");
    assert_eq!(
        (slow.breaker, slow.counts.ended[2]),
        ("closed", 0),
        "no probe was cut off"
    );
    assert!(world.bad < 60, "{}", world.bad);
}

#[test]
fn calls_that_a_deadline_cuts_off_early_say_nothing_about_the_upstream() {
    let mut world = World::new(200, Rule::default());
    let mut calls = 0;
    world.merchant("m", move |_, _| {
        calls += 1;
        if calls > 20 && calls % 4 > 0 {
            (50 * MS, Outcome::TimedOut)
        } else {
            (300 * MS, Outcome::Ok)
        }
    });
    world.stream("m", 10, 0, 100 * S);
    world.run(100 * S);
    let m = world.look("m");
    assert_eq!((m.counts.opened, m.limit), (0, 20));
}

#[test]
fn by_hand_it_is_open_until_it_is_closed_by_hand() {
    let mut world = World::new(200, Rule::default());
    world.steady("m", 300 * MS);
    world.stream("m", 10, 0, 60 * S);
    world.run(10 * S);
    world.upstreams.open("m", 10 * S);
    let begun = world.begun.len();
    world.run(50 * S);
    assert_eq!(
        (world.begun.len(), world.look("m").breaker),
        (begun, "forced-open")
    );
    world.upstreams.close("m", 50 * S);
    world.run(65 * S);
    assert_eq!(world.done.len(), 600);
}

#[test]
fn closing_by_hand_ends_an_open_time() {
    let mut upstreams = open_with_fifty_waiting(Outcome::Failed);
    assert!(upstreams.next(3 * MS).is_none());
    upstreams.close("m", 3 * MS);
    assert!(!upstreams.next(3 * MS).unwrap().probe);
}

#[test]
fn when_all_upstreams_fail_the_open_time_does_not_grow() {
    let mut world = World::new(200, Rule::default());
    let names: Vec<String> = (0..9).map(|number| format!("m{number}")).collect();
    for name in &names {
        world.merchant(name, failing(20 * S, 300 * S));
        world.stream(name, 10, 0, 310 * S);
    }
    world.run(320 * S);
    // Our own network was cut: well again at 300 s, all are served within one open time and one probe.
    for name in &names {
        let first = world
            .begun
            .iter()
            .find(|(when, merchant, probe)| *when >= 300 * S && merchant == name && *probe);
        assert!(first.unwrap().0 <= 320 * S, "{first:?}");
        assert_eq!(world.look(name).breaker, "closed");
    }
}

#[test]
fn rare_failures_open_nothing() {
    let mut world = World::new(200, Rule::default());
    let mut calls = 0;
    world.merchant("m", move |_, _| {
        calls += 1;
        (
            300 * MS,
            if calls % 3 == 0 {
                Outcome::Failed
            } else {
                Outcome::Ok
            },
        )
    });
    world.stream("m", 10, 0, 100 * S);
    world.run(150 * S);
    assert_eq!(world.look("m").counts.opened, 0);
}

#[test]
fn an_order_knows_how_long_breaker_limit_and_slots_kept_it_parked() {
    let rule = Rule {
        limit: 2,
        most_frac: 1.0,
        ..Rule::default()
    };
    let mut upstreams = Upstreams::new(2, rule);
    for order in 0..2 {
        upstreams.arrive(order, "m", 0, 0, 0);
        assert_eq!(upstreams.next(0).unwrap().held, Delays::default());
    }
    upstreams.arrive(2, "m", 10 * MS, 0, 0); // the limit
    assert!(upstreams.next(10 * MS).is_none());
    upstreams.open("m", 30 * MS); // the breaker, by hand
    upstreams.end(0, 40 * MS, Outcome::Ok);
    upstreams.arrive(3, "n", 50 * MS, 0, 0);
    assert_eq!(upstreams.next(50 * MS).unwrap().order, 3);
    upstreams.close("m", 70 * MS); // now nothing but the slots, which its neighbour and another key have
    assert!(upstreams.next(75 * MS).is_none());
    upstreams.end(1, 80 * MS, Outcome::Ok);
    let held = upstreams.next(80 * MS).unwrap().held;
    assert_eq!(
        held,
        Delays {
            breaker_ns: 40 * MS,
            limit_ns: 20 * MS,
            slots_ns: 10 * MS
        }
    );
}

/// One call of `m` after the other, each so long after the one before; gives how many it took until the breaker opened.
fn calls_until_open(
    upstreams: &mut Upstreams,
    now: &mut u64,
    gap_ns: u64,
    most: u64,
) -> Option<u64> {
    for call in 1..=most {
        *now += gap_ns;
        upstreams.arrive(*now, "m", *now, 0, 0);
        assert_eq!(upstreams.next(*now).unwrap().order, *now);
        upstreams.end(*now, *now + MS, Outcome::Failed);
        if upstreams.look()[0].breaker == "open" {
            return Some(call);
        }
    }
    None
}

#[test]
fn a_merchant_with_a_call_in_ten_minutes_is_judged_over_hours() {
    for gap_ns in [S, 90 * S, 600 * S, 3_600 * S] {
        let mut upstreams = Upstreams::new(200, Rule::default());
        let mut now = S;
        let calls = calls_until_open(&mut upstreams, &mut now, gap_ns, 30);
        assert!(
            calls.is_some_and(|calls| calls <= 12),
            "{gap_ns}: {calls:?}"
        );
    }
}

#[test]
fn what_a_busy_merchant_did_before_a_quiet_night_says_nothing_in_the_morning() {
    let mut upstreams = Upstreams::new(200, Rule::default());
    let mut now = S;
    assert_eq!(calls_until_open(&mut upstreams, &mut now, S / 10, 9), None);
    now += 8 * 3_600 * S;
    assert_eq!(calls_until_open(&mut upstreams, &mut now, S / 10, 9), None);
    assert_eq!(
        calls_until_open(&mut upstreams, &mut now, S / 10, 9),
        Some(1)
    );
}

#[test]
fn workers_that_saw_it_fail_together_do_not_probe_together() {
    let mut opened = Vec::new();
    for seed in 1..=8 {
        let rule = Rule {
            seed,
            ..Rule::default()
        };
        let mut upstreams = Upstreams::new(200, rule);
        let mut now = S;
        calls_until_open(&mut upstreams, &mut now, MS, 20).unwrap();
        opened.push(upstreams.look()[0].open_until_ns - now - MS);
    }
    opened.sort_unstable();
    opened.dedup();
    assert_eq!(opened.len(), 8);
    assert!(opened[0] >= 5 * S && opened[7] <= 6 * S);
    assert!(opened[7] - opened[0] > 500 * MS);
}

#[test]
fn after_the_failed_probes_of_another_process_it_waits_as_long_and_a_little_longer() {
    let rule = Rule {
        seed: 7,
        ..Rule::default()
    };
    let mut upstreams = Upstreams::new(200, rule);
    for order in 0..10 {
        upstreams.arrive(order, "m", 0, 0, 0);
        assert!(upstreams.next(0).is_some());
    }
    for order in 0..10 {
        upstreams.end(order, MS, Outcome::Failed);
    }
    upstreams.arrive(100, "m", 2 * MS, 0, 0);
    upstreams.probes_failed("m", 4 * S, 10 * S);
    let wake = upstreams.wake_ns(4 * S).unwrap();
    assert!((14 * S..16 * S).contains(&wake));
    // Said again it changes nothing, and less than it waits anyway neither.
    upstreams.probes_failed("m", 4 * S, 10 * S);
    upstreams.probes_failed("m", 5 * S, S);
    assert_eq!(upstreams.wake_ns(5 * S), Some(wake));
    // Its own probes are failures of the second open time.
    for order in [101, 102] {
        upstreams.arrive(order, "m", wake, 0, 0);
    }
    while let Some(start) = upstreams.next(wake) {
        let order = start.order;
        upstreams.end(order, wake, Outcome::Failed);
    }
    let open = upstreams.look_at("m").unwrap().open_until_ns - wake;
    assert!((20 * S..24 * S).contains(&open));
}

#[test]
fn nobody_waits_longer_than_the_longest_open_time_because_another_says_so() {
    let mut upstreams = open_with_fifty_waiting(Outcome::Failed);
    upstreams.probes_failed("m", S, 3_600 * S);
    assert_eq!(upstreams.wake_ns(S), Some(S + 60 * S));
    upstreams.probes_failed("nobody", S, S);
    assert!(upstreams.look_at("nobody").is_none());
}

#[test]
fn a_call_that_waits_elsewhere_is_not_slow_until_it_begins() {
    let mut upstreams = Upstreams::new(200, Rule::default());
    let call = |upstreams: &mut Upstreams, order: u64, now: u64| {
        upstreams.arrive(order, "m", now, 0, 0);
        assert_eq!(upstreams.next(now).unwrap().order, order);
        upstreams.began(order, now, false);
    };
    for order in 0..9 {
        call(&mut upstreams, order, order * S);
        upstreams.began(order, order * S + 500 * MS, true);
        upstreams.end(order, order * S + 600 * MS, Outcome::Ok);
    }
    assert_eq!(upstreams.look_at("m").unwrap().usual_ns, 100 * MS);
    // Of these, one counts: it has begun, and it hangs.
    for order in 10..30 {
        call(&mut upstreams, order, 10 * S);
    }
    upstreams.began(10, 10 * S, true);
    upstreams.began(11, 10 * S, false);
    upstreams.arrive(99, "m", 20 * S, 0, 0);
    assert_eq!(upstreams.look_at("m").unwrap().counts.slow, 1);
}

#[test]
fn a_key_whose_usual_latency_is_not_known_is_slow_by_the_one_that_is_presumed() {
    for (presumed, breaker) in [(0, "closed"), (100 * MS, "open")] {
        let mut upstreams = Upstreams::new(200, Rule::default());
        upstreams.presume("m", 0, presumed);
        for order in 0..10 {
            upstreams.arrive(order, "m", 0, 0, 0);
            assert!(upstreams.next(0).is_some());
        }
        upstreams.arrive(99, "m", S, 0, 0);
        assert_eq!(upstreams.look_at("m").unwrap().breaker, breaker);
    }
}
