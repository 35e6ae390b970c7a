//! Who gets the slots.

use crate::world::{healthy_latencies, nine_healthy, World, MS, S};
use greenlane_policy::upstream::{Outcome, Rule};

/// Ten merchants at ten orders a second for 35 s, one of them at 30 s a call, the others at 0.3; 200 slots.
fn slow_merchant_run(rule: Rule) -> World {
    let mut world = nine_healthy(200, rule, 35 * S);
    world.steady("slow", 30 * S);
    world.stream("slow", 10, 0, 35 * S);
    world
}

#[test]
fn one_slow_merchant_of_ten_stops_nobody() {
    let mut world = slow_merchant_run(Rule::default());
    world.run(40 * S);
    let took = healthy_latencies(&world, 0, 35 * S);
    assert_eq!(took.len(), 3150);
    assert_eq!(took[3149], 300 * MS, "nobody has waited at all");
    assert_eq!(world.peak["slow"], 20);
    let slow = world.look("slow");
    let there = slow.parked + u64::from(slow.running) + slow.counts.ended[0];
    assert_eq!((there, world.surplus.len()), (350, 0));
    world.nothing_is_lost();
}

#[test]
fn without_keys_the_same_run_falls_off_the_cliff() {
    let mut world = slow_merchant_run(Rule {
        limit: 200,
        most_frac: 1.0,
        failure_rate: 0.0,
        slow_call_rate: 0.0,
        ..Rule::default()
    });
    world.one_key = true;
    world.run(40 * S);
    // What Celery's gevent pool of 200 was measured at: 2250, with its own CPU on top.
    assert_eq!(healthy_latencies(&world, 0, 35 * S).len(), 2434);
    assert_eq!(healthy_latencies(&world, 0, 17 * S).len(), 9 * 170);
    assert_eq!(healthy_latencies(&world, 30 * S, 35 * S).len(), 0);
}

#[test]
fn five_slow_merchants_of_fourteen_stop_nobody() {
    let mut world = nine_healthy(200, Rule::default(), 60 * S);
    for name in ["a", "b", "c", "d", "e"] {
        world.steady(name, 30 * S);
        world.stream(name, 10, 0, 60 * S);
    }
    world.run(65 * S);
    let took = healthy_latencies(&world, 0, 60 * S);
    assert_eq!(took.len(), 5400);
    assert_eq!(took[5399], 300 * MS);
    world.nothing_is_lost();
}

#[test]
fn slow_merchants_whose_limits_have_grown_leave_slots_free_however_many_they_are() {
    let fixed = Rule {
        limit: 200,
        slow_call_rate: 0.0,
        ..Rule::default()
    };
    for (slow, each) in [(1, 100), (2, 66), (3, 50), (9, 20)] {
        let mut world = World::new(200, fixed.clone());
        for name in (0..slow).map(|number| format!("slow-{number}")) {
            world.steady(&name, 30 * S);
            world.stream(&name, 50, 0, 20 * S);
        }
        // Somebody who is known: else nothing is kept back.
        world.steady("known", MS);
        world.stream("known", 10, 0, 20 * S);
        for name in (0..slow).map(|number| format!("slow-{number}")) {
            world.upstreams.set(&name, 0, Some(fixed.clone()));
        }
        world.run(19 * S);
        let most = (0..slow)
            .map(|number| world.peak[&format!("slow-{number}")])
            .max();
        assert!(
            (each..=each + 1).contains(&most.unwrap()),
            "{slow} slow ones: {most:?}"
        );
        assert!(world.upstreams.totals().running < 200);
        assert_eq!(*world.latencies("known", 0, 18 * S).last().unwrap(), MS);
    }
}

#[test]
fn a_flood_of_one_key_stops_nobody_and_its_overflow_goes_back() {
    let mut world = nine_healthy(200, Rule::default(), 30 * S);
    world.steady("flood", 300 * MS);
    world.stream("flood", 2000, 5 * S, 15 * S);
    world.run(35 * S);
    let took = healthy_latencies(&world, 0, 30 * S);
    assert_eq!(took.len(), 2700);
    assert_eq!(took[2699], 300 * MS);
    assert!(world.peak["flood"] > 80, "{}", world.peak["flood"]);
    assert!(world.surplus.iter().all(|merchant| merchant == "flood"));
    assert!(world.most_parked <= 1001);
    world.nothing_is_lost();
}

#[test]
fn thousands_of_new_keys_together_take_what_one_takes() {
    let mut world = nine_healthy(200, Rule::default(), 20 * S);
    for number in 0..20_000 {
        let name = format!("new-{number}");
        world.steady(&name, 300 * MS);
        world.publish(&name, 5 * S + number * 250_000);
    }
    world.run(40 * S);
    let took = healthy_latencies(&world, 0, 20 * S);
    assert_eq!(took.len(), 1800);
    assert_eq!(took[1799], 300 * MS);
    assert!(world
        .surplus
        .iter()
        .all(|merchant| merchant.starts_with("new")));
    assert!(world.upstreams.totals().keys <= 10_000);
    world.nothing_is_lost();
}

#[test]
fn rare_keys_do_not_wait_behind_many_busy_ones() {
    // 210 slots are asked for by 70 busy keys, 8 by keys that come once.
    let mut world = World::new(200, Rule::default());
    for number in 0..70 {
        let name = format!("busy-{number}");
        world.steady(&name, 300 * MS);
        world.stream(&name, 10, 0, 60 * S);
    }
    for number in 0..1_600 {
        let name = format!("rare-{number}");
        world.steady(&name, 300 * MS);
        world.publish(&name, S + number * 36 * MS);
    }
    world.run(62 * S);
    let mut took: Vec<u64> = (0..1_600)
        .flat_map(|number| world.latencies(&format!("rare-{number}"), S, 60 * S))
        .collect();
    took.sort_unstable();
    assert_eq!(took.len(), 1600, "all of them");
    assert!(took[1583] <= 600 * MS, "{} ms", took[1583] / MS);
    world.nothing_is_lost();
}

#[test]
fn where_all_keys_are_new_they_have_all_slots() {
    let mut world = World::new(200, Rule::default());
    for number in 0..2_000 {
        let name = format!("new-{number}");
        world.steady(&name, 30 * S);
        world.publish(&name, 0);
    }
    world.run(S);
    assert_eq!(world.upstreams.totals().running, 200);
}

#[test]
fn keys_at_their_limit_hide_no_others_and_no_slot_stays_idle() {
    let mut world = World::new(
        10,
        Rule {
            limit: 1,
            most_frac: 1.0,
            ..Rule::default()
        },
    );
    for number in 0..100 {
        world.publish("capped", number);
    }
    world.steady("capped", 100 * S);
    for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i"] {
        world.steady(name, 100 * S);
        world.publish(name, 1_000);
    }
    world.run(S);
    let totals = world.upstreams.totals();
    assert_eq!((totals.running, totals.parked), (10, 99));
}

#[test]
fn where_slots_are_scarce_slot_time_is_shared_and_not_the_number_of_calls() {
    // One slot; both always have orders; one takes nine times as long a call.
    let rule = Rule {
        limit: 1,
        most_frac: 1.0,
        slow_call_rate: 0.0,
        ..Rule::default()
    };
    let mut world = World::new(1, rule.clone());
    world.steady("short", 100 * MS);
    world.steady("long", 900 * MS);
    world.stream("short", 10, 0, 50 * S);
    world.stream("long", 10, 0, 50 * S);
    world.run(100 * S);
    let (short, long) = (
        world.look("short").counts.ended[0],
        world.look("long").counts.ended[0],
    );
    let (short_s, long_s) = (short as f64 * 0.1, long as f64 * 0.9);
    assert!(
        (short_s - long_s).abs() < 3.0,
        "{short_s} s and {long_s} s of slot time"
    );

    let mut world = World::new(1, rule.clone());
    world
        .upstreams
        .set("short", 0, Some(Rule { weight: 3, ..rule }));
    world.steady("short", 100 * MS);
    world.steady("long", 900 * MS);
    world.stream("short", 20, 0, 50 * S);
    world.stream("long", 10, 0, 50 * S);
    world.run(80 * S);
    let (short, long) = (
        world.look("short").counts.ended[0],
        world.look("long").counts.ended[0],
    );
    let times = short as f64 * 0.1 / (long as f64 * 0.9);
    assert!((2.7..3.3).contains(&times), "{times} times the slot time");
}

#[test]
fn who_has_been_away_has_saved_nothing_up() {
    let rule = Rule {
        limit: 1,
        most_frac: 1.0,
        ..Rule::default()
    };
    let mut world = World::new(1, rule);
    world.steady("busy", 100 * MS);
    world.steady("back", 100 * MS);
    world.stream("busy", 10, 0, 200 * S);
    world.publish("back", 0);
    for order in 0..100 {
        world.publish("back", 100 * S + order);
    }
    world.run(110 * S);
    let begun = |from: u64| {
        world
            .begun
            .iter()
            .filter(|(when, name, _)| *when > from && name == "back")
            .count()
    };
    assert!((40..60).contains(&begun(100 * S)), "{}", begun(100 * S));
}

#[test]
fn a_promised_minimum_is_kept_while_others_want_everything() {
    let general = Rule {
        limit: 100,
        slow_call_rate: 0.0,
        ..Rule::default()
    };
    let mut world = World::new(20, general.clone());
    world.upstreams.set(
        "vip",
        0,
        Some(Rule {
            least: 5,
            ..general
        }),
    );
    world.steady("vip", 30 * S);
    for name in ["a", "b", "c", "d", "e", "f"] {
        world.steady(name, 30 * S);
        world.stream(name, 10, 0, 10 * S);
    }
    world.run(5 * S);
    for number in 0..5 {
        world.publish("vip", 5 * S + number);
    }
    world.run(6 * S);
    assert_eq!(world.look("vip").running, 5);
}

#[test]
fn a_stranger_that_hangs_from_its_first_call_on_keeps_no_other_stranger_waiting() {
    let mut world = nine_healthy(200, Rule::default(), 60 * S);
    world.merchant("hanging", |_, _| (30 * S, Outcome::Ok));
    world.stream("hanging", 10, 0, 60 * S);
    for number in 0..600 {
        let name = format!("rare-{number}");
        world.steady(&name, 300 * MS);
        world.publish(&name, S + number * 90 * MS);
    }
    world.run(65 * S);
    let late = world
        .done
        .iter()
        .filter(|done| done.merchant.starts_with("rare") && done.took_ns() > S)
        .count();
    assert_eq!(late, 0);
    let rare = |done: &&crate::world::Done| done.merchant.starts_with("rare");
    assert_eq!(world.done.iter().filter(rare).count(), 600);
}
