//! What merchants of all kinds do to each other's orders: simulated, so every run is the same run.

mod world;

use greenlane_core::upstream::{Outcome, Rule};
use world::{quantile, Chance, World, MS, S};

fn healthy() -> Vec<String> {
    (1..10).map(|number| format!("healthy-{number}")).collect()
}

/// Latencies of all healthy merchants' orders published in this time, sorted.
fn healthy_latencies(world: &World, from_ns: u64, until_ns: u64) -> Vec<u64> {
    let mut took: Vec<u64> = healthy()
        .iter()
        .flat_map(|name| world.latencies(name, from_ns, until_ns))
        .collect();
    took.sort_unstable();
    took
}

/// Nine merchants at 0.3 s a call and ten orders a second each.
fn nine_healthy(slots: u32, rule: Rule, until_ns: u64) -> World {
    let mut world = World::new(slots, rule);
    for name in healthy() {
        world.steady(&name, 300 * MS);
        world.stream(&name, 10, 0, until_ns);
    }
    world
}

/// The acceptance run: the tenth takes 30 s a call.
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
    assert_eq!(took[3149], 300 * MS);
    let slow = world.look("slow");
    assert_eq!(world.peak["slow"], 20);
    assert!(world.surplus.is_empty());
    assert_eq!(
        slow.parked + u64::from(slow.running) + slow.counts.ended[0],
        350
    );
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
    let took = healthy_latencies(&world, 0, 35 * S);
    // Measured with Celery's gevent pool of 200: 2250, and none of the last 5 s.
    assert!((2200..2300).contains(&took.len()), "{}", took.len());
    assert_eq!(healthy_latencies(&world, 30 * S, 35 * S).len(), 0);
}

#[test]
fn a_flood_by_one_key_stops_nobody_and_goes_back_to_the_broker() {
    let mut world = nine_healthy(200, Rule::default(), 30 * S);
    world.steady("flood", 300 * MS);
    world.stream("flood", 2000, 5 * S, 15 * S);
    world.run(35 * S);
    let took = healthy_latencies(&world, 0, 30 * S);
    eprintln!(
        "flood: healthy {} max {} ms; peak {} surplus {}; {:?}",
        took.len(),
        took.last().unwrap() / MS,
        world.peak["flood"],
        world.surplus.len(),
        world.look("flood")
    );
    world.nothing_is_lost();
}

#[test]
fn many_new_keys_stop_nobody() {
    let mut world = nine_healthy(200, Rule::default(), 20 * S);
    for number in 0..20_000 {
        let name = format!("new-{number}");
        world.steady(&name, 300 * MS);
        world.publish(&name, 5 * S + number * 250_000);
    }
    world.run(40 * S);
    let took = healthy_latencies(&world, 0, 20 * S);
    eprintln!(
        "new: healthy {} p95 {} max {} ms surplus {} {:?}",
        took.len(),
        quantile(&took, 0.95) / MS,
        took.last().unwrap() / MS,
        world.surplus.len(),
        world.upstreams.totals()
    );
    world.nothing_is_lost();
}

#[test]
fn a_merchant_that_is_well_again_is_served_again() {
    let mut world = nine_healthy(200, Rule::default(), 120 * S);
    world.merchant("slow", |now, _| {
        (
            if (20 * S..60 * S).contains(&now) {
                30 * S
            } else {
                300 * MS
            },
            Outcome::Ok,
        )
    });
    world.stream("slow", 10, 0, 180 * S);
    for until in (5..=180).step_by(5) {
        world.run(until * S);
        let look = world.look("slow");
        eprintln!(
            "well-again {until}: running {} parked {} limit {} {} usual {} ms opened {} bad {}",
            look.running,
            look.parked,
            look.limit,
            look.breaker,
            look.usual_ns / MS,
            look.counts.opened,
            world.bad
        );
    }
    let took = healthy_latencies(&world, 0, 120 * S);
    eprintln!("healthy {} max {}", took.len(), took.last().unwrap() / MS);
    world.nothing_is_lost();
}

#[test]
fn a_merchant_that_has_become_slow_is_served_as_one_that_is_slow_by_nature() {
    let mut world = nine_healthy(200, Rule::default(), 120 * S);
    world.merchant("slow", |now, _| {
        (if now > 20 * S { 30 * S } else { 300 * MS }, Outcome::Ok)
    });
    world.stream("slow", 2, 0, 600 * S);
    for until in (10..=600).step_by(10) {
        world.run(until * S);
        let look = world.look("slow");
        eprintln!(
            "becomes {until}: running {} parked {} limit {} {} usual {} ms opened {} bad {}",
            look.running,
            look.parked,
            look.limit,
            look.breaker,
            look.usual_ns / MS,
            look.counts.opened,
            world.bad
        );
    }
    world.nothing_is_lost();
}

#[test]
fn all_slow_at_once() {
    for (times, per_s) in [(3u64, 10u64), (10, 5), (100, 10)] {
        let mut world = World::new(200, Rule::default());
        for name in healthy() {
            world.merchant(&name, move |now, _| {
                (
                    if now > 20 * S {
                        times * 300 * MS
                    } else {
                        300 * MS
                    },
                    Outcome::Ok,
                )
            });
            world.stream(&name, per_s, 0, 120 * S);
        }
        for until in (5..=120).step_by(5) {
            world.run(until * S);
            let look: Vec<_> = world
                .upstreams
                .look()
                .into_iter()
                .map(|l| (l.running, l.parked, l.limit, l.breaker, l.usual_ns / MS))
                .collect();
            eprintln!(
                "all {times} {until}: {:?} {:?}",
                world.upstreams.totals().common,
                &look[..]
            );
        }
    }
}

#[test]
fn slow_by_nature() {
    let mut world = nine_healthy(200, Rule::default(), 300 * S);
    world.steady("slow", 30 * S);
    world.stream("slow", 2, 0, 300 * S);
    for until in (10..=300).step_by(10) {
        world.run(until * S);
        let look = world.look("slow");
        eprintln!(
            "nature {until}: running {} parked {} limit {} {} usual {} ms opened {} bad {}",
            look.running,
            look.parked,
            look.limit,
            look.breaker,
            look.usual_ns / MS,
            look.counts.opened,
            world.bad
        );
    }
}

#[test]
fn overloaded() {
    let mut world = World::new(200, Rule::default());
    let mut chance = Chance(1);
    // Fifteen at once; beyond that everybody waits.
    world.merchant("weak", move |_, running| {
        (
            chance.spread(300 * MS * u64::from(running.max(15)) / 15, 0.5),
            Outcome::Ok,
        )
    });
    world.stream("weak", 100, 0, 3600 * S);
    for until in (1..=60).map(|minute| minute * 60) {
        world.run(until * S);
        let look = world.look("weak");
        eprintln!(
            "weak {until}: running {} limit {} usual {} ms {} done {}",
            look.running,
            look.limit,
            look.usual_ns / MS,
            look.breaker,
            world.done.len()
        );
    }
}
