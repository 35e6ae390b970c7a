//! What of a slice's time off the core was not the operating system's: the thread was blocked in a call that nobody saw.
//!
//! Once a second the recording says how long the scheduler let each thread wait for a core, and how long the machine had
//! none to give. More than that no thread can have waited for one. In each such window the late returns of blocking
//! calls come first, since nothing else explains them; what slices were off the core beyond the rest is unseen, and
//! taken from all of them alike.

use super::timeline::{Activity, Piece, Unit, NONE};
use greenlane_recording_format::event::{Event, WaitKind};
use std::collections::HashMap;

/// In a window, less than this, or than 1 / `LEAST_PART` of the time that the thread ran, is a difference of clocks.
const LEAST_NS: u64 = 1_000_000;
const LEAST_PART: u64 = 50;

/// Between two looks at one thread.
#[derive(Clone, Copy, Default)]
struct Window {
    to_ns: u64,
    most_ns: u64,
    late_ns: u64,
    off_ns: u64,
    ran_ns: u64,
}

impl Window {
    fn unseen_ns(&self) -> u64 {
        let left_ns = self.most_ns.saturating_sub(self.late_ns);
        let unseen_ns = self.off_ns.saturating_sub(left_ns);
        if unseen_ns < LEAST_NS + self.ran_ns / LEAST_PART {
            return 0;
        }
        unseen_ns
    }
}

/// Names what was unseen among the pieces, which are those of each unit in turn, from `starts` on.
pub fn name_hidden_blocking(
    events: &[Event],
    units: &[Unit],
    pieces: &mut Vec<Piece>,
    starts: &mut [usize],
) {
    let mut windows = windows(events);
    if windows.is_empty() {
        return;
    }
    for piece in pieces.iter() {
        let Some(window) = window_of(&mut windows, units, piece) else {
            continue;
        };
        let ns = piece.to_ns - piece.from_ns;
        let sum = match piece.state {
            Activity::Wait(WaitKind::Os) if piece.block != NONE => &mut window.late_ns,
            Activity::Wait(WaitKind::Os) => &mut window.off_ns,
            Activity::Run | Activity::Gc => &mut window.ran_ns,
            _ => continue,
        };
        *sum = sum.saturating_add(ns);
    }
    divide(pieces, starts, |piece| {
        if piece.state != Activity::Wait(WaitKind::Os) || piece.block != NONE {
            return None;
        }
        let window = window_of(&mut windows, units, piece)?;
        let (off_ns, unseen_ns) = (window.off_ns.max(1), window.unseen_ns());
        let ns = u128::from(piece.to_ns - piece.from_ns);
        let own_ns = (ns * u128::from(unseen_ns) / u128::from(off_ns)) as u64;
        Some((piece.to_ns - own_ns, Activity::Wait(WaitKind::Unseen)))
    });
}

/// Gives each piece that `cut` names another state from a moment on; until then it has what `cut` leaves in it.
pub fn divide(
    pieces: &mut Vec<Piece>,
    starts: &mut [usize],
    mut cut: impl FnMut(&mut Piece) -> Option<(u64, Activity)>,
) {
    let mut told = Vec::with_capacity(pieces.len());
    let mut next = 0;
    for (index, piece) in pieces.iter_mut().enumerate() {
        while starts.get(next) == Some(&index) {
            starts[next] = told.len();
            next += 1;
        }
        let (middle_ns, state) = cut(piece).unwrap_or((piece.to_ns, piece.state));
        let parts = [
            Piece {
                to_ns: middle_ns,
                ..*piece
            },
            Piece {
                from_ns: middle_ns,
                state,
                ..*piece
            },
        ];
        told.extend(parts.into_iter().filter(|part| part.from_ns < part.to_ns));
    }
    for start in &mut starts[next..] {
        *start = told.len();
    }
    *pieces = told;
}

/// By thread, in order.
fn windows(events: &[Event]) -> HashMap<u64, Vec<Window>> {
    let mut looks: HashMap<u64, Vec<(u64, u64, u64)>> = HashMap::new();
    for event in events {
        if let Event::Cores {
            at_ns,
            thread,
            waited_ns,
            withheld_ns,
        } = *event
        {
            let of_thread = looks.entry(u64::from(thread)).or_default();
            of_thread.push((at_ns, waited_ns, withheld_ns));
        }
    }
    let in_order = |(thread, mut looks): (u64, Vec<(u64, u64, u64)>)| {
        looks.sort_unstable();
        let (mut waited_ns, mut withheld_ns) = (0, 0);
        let windows = looks.into_iter().map(|(to_ns, waited, withheld)| {
            let more_ns = waited.saturating_sub(waited_ns);
            let most_ns = more_ns.saturating_add(withheld.saturating_sub(withheld_ns));
            (waited_ns, withheld_ns) = (waited, withheld);
            Window {
                to_ns,
                most_ns,
                ..Window::default()
            }
        });
        (thread, windows.collect())
    };
    looks.into_iter().map(in_order).collect()
}

fn window_of<'a>(
    windows: &'a mut HashMap<u64, Vec<Window>>,
    units: &[Unit],
    piece: &Piece,
) -> Option<&'a mut Window> {
    let of_thread = windows.get_mut(&units[piece.unit as usize].thread)?;
    let here = of_thread.partition_point(|window| window.to_ns <= piece.from_ns);
    of_thread.get_mut(here)
}
