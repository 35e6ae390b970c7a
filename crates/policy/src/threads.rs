//! Who gets a thread of a pool: under lasting overload the last quarter of its threads is for light requests.
//!
//! One more request that will wait for a permit ends no sooner for having a thread. While an eighth of the threads wait
//! for one, such a request gets none of the last quarter, and light ones go before it. Otherwise requests are served as
//! they come. Why: `docs/design/0029-threads-under-overload.md`.

/// Weight of the newest request. What becomes heavy is known to be so after four.
const NEWEST: f64 = 0.2;

/// Which of a pool's two queues is served next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolQueue {
    Light,
    Heavy,
}

/// With this many busy threads of `most`, one more request may have to wait.
pub fn nearly_full(most: usize) -> usize {
    most - most / 4
}

/// Whose turn it is in a pool of `most` threads; None = nobody's, or there is no thread for it.
///
/// `light`, `heavy`: when the head of each queue came, by any count; `waiting`: phases that wait for a permit.
pub fn next_queue(
    most: usize,
    busy: usize,
    light: Option<u64>,
    heavy: Option<u64>,
    waiting: usize,
) -> Option<PoolQueue> {
    if busy >= most {
        return None;
    }
    let is_long = waiting >= (most / 8).max(1);
    match (light, heavy) {
        (Some(_), None) => Some(PoolQueue::Light),
        (Some(light), Some(heavy)) if is_long || light < heavy => Some(PoolQueue::Light),
        (_, Some(_)) if !is_long || busy < nearly_full(most) => Some(PoolQueue::Heavy),
        _ => None,
    }
}

/// The share of a route's requests that asked for a permit, with one more; None = there was none before.
pub fn learn_share(share: Option<f64>, asked: bool) -> f64 {
    let asked = f64::from(u8::from(asked));
    share.map_or(asked, |share| share + (asked - share) * NEWEST)
}

/// Whether a request is expected to ask for a permit, by its route's share.
pub fn is_heavy(share: Option<f64>) -> bool {
    share.is_some_and(|share| share > 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_an_eighth_of_the_threads_wait_for_a_permit_the_last_quarter_is_for_light_requests() {
        assert_eq!(next_queue(64, 47, None, Some(1), 8), Some(PoolQueue::Heavy));
        assert_eq!(next_queue(64, 48, None, Some(1), 8), None);
        assert_eq!(
            next_queue(64, 48, Some(2), Some(1), 8),
            Some(PoolQueue::Light)
        );
        assert_eq!(next_queue(64, 64, Some(2), Some(1), 8), None);
    }

    #[test]
    fn with_a_shorter_queue_at_the_permit_they_go_as_they_came() {
        assert_eq!(
            next_queue(64, 63, Some(2), Some(1), 7),
            Some(PoolQueue::Heavy)
        );
        assert_eq!(
            next_queue(64, 63, Some(1), Some(2), 7),
            Some(PoolQueue::Light)
        );
        assert_eq!(next_queue(64, 63, None, Some(2), 7), Some(PoolQueue::Heavy));
        assert_eq!(next_queue(64, 1, None, None, 0), None);
    }

    #[test]
    fn a_route_that_becomes_heavy_is_known_to_be_so_after_four() {
        let shares: Vec<f64> = (0..4)
            .scan(0.0, |share, _| {
                *share = learn_share(Some(*share), true);
                Some(*share)
            })
            .collect();
        assert_eq!(
            shares
                .iter()
                .map(|&share| is_heavy(Some(share)))
                .collect::<Vec<_>>(),
            [false, false, false, true]
        );
        assert!(is_heavy(Some(learn_share(None, true))) && !is_heavy(None));
    }
}
