use super::*;

const MS: u64 = 1_000_000;

#[test]
fn an_order_is_begun_and_ended_once() {
    let mut upstreams = Upstreams::new(2, Rule::default());
    assert!(upstreams.arrive(1, "a", 0, 10, 0));
    assert!(!upstreams.arrive(1, "a", 0, 10, 0));
    let start = upstreams.next(MS).unwrap();
    assert_eq!((start.order, start.key, start.probe), (1, "a", false));
    assert!(upstreams.next(MS).is_none());
    assert!(upstreams.ended(1, 2 * MS, Outcome::Ok));
    assert!(!upstreams.ended(1, 2 * MS, Outcome::Ok));
}
