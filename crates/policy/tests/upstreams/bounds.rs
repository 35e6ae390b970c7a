//! What must leave, and what is forgotten.

use crate::world::{World, MS, S};
use greenlane_policy::upstream::{Outcome, Rule, Upstreams};

fn bounded() -> Rule {
    Rule {
        limit: 1,
        parked_most: 10,
        parked_most_bytes: 1_000,
        parked_most_ns: 60 * S,
        all_parked_most: 25,
        all_parked_most_bytes: 5_000,
        ..Rule::default()
    }
}

fn filled(orders: &[(u64, &str, u64)]) -> Upstreams {
    let mut upstreams = Upstreams::new(200, bounded());
    for &(order, key, size) in orders {
        upstreams.arrive(order, key, order, size, 0);
    }
    upstreams
}

#[test]
fn the_newest_of_a_key_go_first() {
    let orders: Vec<_> = (1..=12).map(|order| (order, "a", 1)).collect();
    let mut upstreams = filled(&orders);
    assert_eq!(upstreams.surplus(100), [12, 11]);
    assert!(upstreams.surplus(100).is_empty());
    assert_eq!(upstreams.next(100).unwrap().order, 1);
}

#[test]
fn bytes_of_a_key_are_bounded_but_one_order_is_always_kept() {
    let mut upstreams = filled(&[(1, "a", 400), (2, "a", 400), (3, "a", 400), (4, "b", 9_000)]);
    assert_eq!(upstreams.surplus(100), [3, 4]);
    let mut upstreams = filled(&[(4, "b", 9_000)]);
    assert!(upstreams.surplus(100).is_empty());
}

#[test]
fn who_has_waited_too_long_goes() {
    let mut upstreams = filled(&[(1, "a", 1), (2, "b", 1)]);
    assert_eq!(upstreams.wake_ns(0), Some(60 * S + 1));
    assert_eq!(upstreams.surplus(60 * S + 1), [1]);
    assert_eq!(upstreams.surplus(60 * S + 2), [2]);
}

#[test]
fn of_too_many_in_all_the_longest_queues_are_shortened_evenly() {
    // Known keys, so that none of them is a stranger.
    let mut upstreams = Upstreams::new(200, bounded());
    for (order, key) in [(1_000, "a"), (1_001, "b"), (1_002, "c"), (1_003, "d")] {
        upstreams.arrive(order, key, 0, 1, 0);
        assert!(upstreams.next(0).is_some());
        // d takes ten times as long.
        upstreams.end(order, if key == "d" { S } else { 100 * MS }, Outcome::Ok);
    }
    for order in 0..32 {
        upstreams.arrive(
            order,
            ["a", "b", "c", "d"][order as usize % 4],
            S + order,
            1,
            0,
        );
    }
    let gone = upstreams.surplus(2 * S);
    assert_eq!(gone.len(), 7);
    let left: Vec<u64> = upstreams.look().iter().map(|look| look.parked).collect();
    assert_eq!(left.iter().sum::<u64>(), 25);
    assert!(
        left.iter().all(|&parked| (6..=7).contains(&parked)),
        "{left:?}"
    );
}

#[test]
fn an_order_past_its_deadline_is_never_begun() {
    let mut upstreams = Upstreams::new(200, bounded());
    upstreams.arrive(1, "a", 0, 1, 5 * S);
    upstreams.arrive(2, "a", 0, 1, 0);
    upstreams.arrive(3, "b", 0, 1, 9 * S);
    assert_eq!(upstreams.wake_ns(0), Some(5 * S));
    assert_eq!(upstreams.next(5 * S).map(|start| start.order), Some(2));
    assert_eq!(upstreams.wake_ns(5 * S), Some(5 * S));
    assert_eq!(upstreams.take_expired(5 * S), [1]);
    assert_eq!(upstreams.next(5 * S).map(|start| start.order), Some(3));
    assert!(
        upstreams.take_expired(20 * S).is_empty(),
        "a call in progress is the shell's to end"
    );
}

#[test]
fn what_is_parked_can_be_taken_out_and_all_of_it_at_once() {
    let mut upstreams = filled(&[(1, "a", 1), (2, "b", 1), (3, "a", 1), (4, "a", 1)]);
    assert_eq!(upstreams.next(10).unwrap().order, 1);
    assert!(!upstreams.withdraw(1, 10), "it is in progress");
    assert!(upstreams.withdraw(3, 10));
    assert_eq!(upstreams.drain(10), [2, 4]);
    assert_eq!(upstreams.totals().parked, 0);
    assert!(upstreams.end(1, 20, Outcome::Ok));
}

#[test]
fn keys_without_orders_are_forgotten_by_number_and_by_time() {
    let mut world = World::new(
        200,
        Rule {
            keys_most: 100,
            ..Rule::default()
        },
    );
    for number in 0..5_000 {
        let name = format!("k{number}");
        world.steady(&name, MS);
        world.publish(&name, number * 10 * MS);
    }
    world.run(60 * S);
    assert_eq!(world.upstreams.totals().keys, 100);
    world.run(24 * 3_600 * S);
    assert_eq!(world.upstreams.totals().keys, 100);
    world.run(25 * 3_600 * S);
    world.publish("k1", 25 * 3_600 * S);
    world.run(25 * 3_600 * S + S);
    assert_eq!(world.upstreams.totals().keys, 1);
}

#[test]
fn a_key_with_a_rule_or_an_order_or_opened_by_hand_is_not_forgotten() {
    let mut upstreams = Upstreams::new(
        200,
        Rule {
            keys_most: 0,
            ..Rule::default()
        },
    );
    upstreams.set("ruled", 0, Some(Rule::default()));
    upstreams.open("by-hand", 0);
    upstreams.arrive(1, "busy", 0, 1, 0);
    upstreams.arrive(2, "done", 0, 1, 0);
    while upstreams.next(0).is_some() {}
    upstreams.end(2, S, Outcome::Ok);
    upstreams.take_expired(1_000 * S);
    let known: Vec<String> = upstreams.look().into_iter().map(|look| look.key).collect();
    assert_eq!(known, ["busy", "by-hand", "ruled"]);
}

#[test]
fn an_order_is_begun_once_and_ended_once() {
    let mut upstreams = Upstreams::new(2, Rule::default());
    assert!(upstreams.arrive(1, "a", 0, 10, 0));
    assert!(!upstreams.arrive(1, "a", 0, 10, 0));
    let start = upstreams.next(MS).unwrap();
    assert_eq!((start.order, start.key, start.probe), (1, "a", false));
    assert!(!upstreams.arrive(1, "b", MS, 10, 0));
    assert!(upstreams.next(MS).is_none());
    assert!(upstreams.end(1, 2 * MS, Outcome::Ok));
    assert!(!upstreams.end(1, 2 * MS, Outcome::Ok));
}
