//! How many calls a key may have in progress.

use crate::world::{healthy_latencies, nine_healthy, Chance, World, MS, S};
use greenlane_policy::upstream::{Outcome, Rule};

#[test]
fn a_merchant_that_is_slow_by_nature_gets_what_it_needs() {
    let mut world = nine_healthy(200, Rule::default(), 400 * S);
    world.steady("slow", 30 * S);
    world.stream("slow", 2, 0, 400 * S);
    world.run(400 * S);
    let slow = world.look("slow");
    assert_eq!(
        (slow.running, slow.parked),
        (60, 0),
        "two a second at 30 s each"
    );
    assert_eq!(
        (slow.usual_ns, slow.counts.opened, world.bad),
        (30 * S, 0, 0)
    );
}

#[test]
fn a_merchant_that_has_become_slow_is_one_that_is_slow_by_nature_after_a_while() {
    let mut world = nine_healthy(200, Rule::default(), 400 * S);
    world.merchant("slow", |now, _| {
        (if now > 20 * S { 30 * S } else { 300 * MS }, Outcome::Ok)
    });
    world.stream("slow", 2, 0, 400 * S);
    world.run(60 * S);
    assert!(
        world.peak["slow"] <= 23,
        "its limit and three probes at a time: {}",
        world.peak["slow"]
    );
    world.run(400 * S);
    let slow = world.look("slow");
    assert_eq!((slow.running, slow.parked), (60, 0));
    assert_eq!(
        (slow.usual_ns, world.bad),
        (30 * S, 0),
        "no call was cut off to learn that"
    );
    assert_eq!(
        *healthy_latencies(&world, 0, 400 * S).last().unwrap(),
        300 * MS
    );
    world.nothing_is_lost();
}

#[test]
fn a_merchant_that_is_well_again_is_soon_served_at_once() {
    let mut world = nine_healthy(200, Rule::default(), 200 * S);
    let slow = |now| (20 * S..60 * S).contains(&now);
    world.merchant("slow", move |now, _| {
        (if slow(now) { 30 * S } else { 300 * MS }, Outcome::Ok)
    });
    world.stream("slow", 10, 0, 200 * S);
    world.run(200 * S);
    // The last slow call ends at 90 s.
    let later = world.latencies("slow", 100 * S, 199 * S);
    assert_eq!((later.len(), *later.last().unwrap()), (990, 300 * MS));
    assert_eq!(
        *healthy_latencies(&world, 0, 200 * S).last().unwrap(),
        300 * MS
    );
    world.nothing_is_lost();
}

#[test]
fn when_all_are_slow_at_once_nobody_is_punished() {
    for (times, per_s) in [(3, 10), (10, 5), (100, 10)] {
        let mut world = World::new(200, Rule::default());
        let names: Vec<String> = (0..9).map(|number| format!("m{number}")).collect();
        for name in &names {
            world.merchant(name, move |now, _| {
                (
                    if now > 20 * S {
                        times * 300 * MS
                    } else {
                        300 * MS
                    },
                    Outcome::Ok,
                )
            });
            world.stream(name, per_s, 0, 120 * S);
        }
        for second in 30..120 {
            world.run(second * S);
            for look in world.upstreams.look() {
                assert!(look.limit >= 20, "{times} times, {second} s: {look:?}");
                assert_eq!(look.breaker, "closed");
                // As many as its orders need, or an even share of what there is.
                let needed = (per_s * times * 300 / 1000 - 1).min(20) as u32;
                assert!(
                    look.running >= needed,
                    "{times} times, {second} s: {look:?}"
                );
            }
        }
    }
}

#[test]
fn an_overloaded_merchant_is_brought_back_to_what_it_bears_and_stays_there_for_an_hour() {
    let mut world = World::new(200, Rule::default());
    let mut chance = Chance(1);
    // Bears fifteen calls at once; with more of them all wait..
    world.merchant("weak", move |_, running| {
        let times = u64::from(running.max(15));
        (chance.spread(300 * MS * times / 15, 0.5), Outcome::Ok)
    });
    world.stream("weak", 50, 0, 3600 * S);
    let mut most = 0;
    for minute in 2..=60 {
        world.run(minute * 60 * S);
        most = most.max(world.look("weak").limit);
    }
    let per_s = world.done.len() as f64 / 3600.0;
    // Fifteen at 0.34 s on average are 44 a second.
    assert!(per_s > 41.0, "{per_s} calls a second");
    assert!(most <= 60, "limit {most}: it drifts");
}

#[test]
fn a_limit_does_not_grow_unused() {
    let mut world = World::new(200, Rule::default());
    world.steady("calm", 300 * MS);
    world.stream("calm", 10, 0, 600 * S);
    world.run(600 * S);
    assert_eq!((world.look("calm").limit, world.peak["calm"]), (20, 3));
}

#[test]
fn one_that_refuses_for_want_of_capacity_gets_fewer_calls_at_once() {
    let rule = Rule {
        failure_rate: 0.0,
        ..Rule::default()
    };
    let mut world = World::new(200, rule);
    world.merchant("strict", |_, running| {
        if running > 5 {
            (10 * MS, Outcome::Refused)
        } else {
            (300 * MS, Outcome::Ok)
        }
    });
    world.stream("strict", 30, 0, 60 * S);
    world.run(60 * S);
    let strict = world.look("strict");
    assert!(strict.limit <= 8, "{strict:?}");
    assert!(strict.counts.ended[0] > 500, "{strict:?}");
}

#[test]
fn latencies_that_vary_widely_are_no_reason_to_hold_anything_back() {
    for sigma in [0.3, 0.7, 1.0] {
        let mut world = World::new(200, Rule::default());
        let mut chance = Chance(7);
        world.merchant("wide", move |_, _| {
            (chance.spread(300 * MS, sigma), Outcome::Ok)
        });
        world.stream("wide", 100, 0, 200 * S);
        for second in 5..200 {
            world.run(second * S);
            assert_eq!(world.look("wide").parked, 0, "sigma {sigma}, {second} s");
        }
        assert_eq!(world.look("wide").counts.opened, 0);
    }
}
