//! Business rules over a ranked list: paid boosts move up, and no seller or category fills the screen.
//!
//! The twin of service/rules.py, whose numbers stand in layout.rs: the same ranking gives the same feed.

use crate::layout::{ASIDE, BOOST_FACTOR, MOST_OF_CATEGORY, MOST_OF_SELLER, VARIED, WINDOW};

/// What the rules look at.
#[derive(Clone, Copy)]
pub struct Shown {
    pub item_id: u32,
    /// 0 = not known: no rule of variety for it.
    pub seller_id: u32,
    pub category: u8,
    /// Level of the paid boost that is in force.
    pub boost: u8,
}

impl Shown {
    /// Of an item whose record nobody has.
    pub fn lacking(item_id: u32) -> Self {
        Self {
            item_id,
            seller_id: 0,
            category: u8::MAX,
            boost: 0,
        }
    }
}

/// The feed: every item of the ranking (best first) once, in the order in which it is shown.
pub fn arranged(ranked: &[Shown]) -> Vec<u32> {
    let order = boosted(ranked);
    let mut shown: Vec<&Shown> = Vec::with_capacity(ranked.len());
    let mut aside: Vec<&Shown> = Vec::with_capacity(ASIDE);
    let mut coming = order.iter().map(|&place| &ranked[place as usize]);
    while shown.len() < VARIED.min(ranked.len()) {
        let recent = &shown[shown.len().saturating_sub(WINDOW - 1)..];
        let next = match aside.iter().position(|item| fits(item, recent)) {
            Some(at) => Some(aside.remove(at)),
            None => next_fitting(&mut coming, &mut aside, recent),
        };
        // Nothing fits: what has waited longest.
        let item = next.unwrap_or_else(|| aside.remove(0));
        shown.push(item);
    }
    shown
        .into_iter()
        .chain(aside)
        .chain(coming)
        .map(|item| item.item_id)
        .collect()
}

/// The next that fits; those before it are set aside, as many as there is room for.
fn next_fitting<'a>(
    coming: &mut impl Iterator<Item = &'a Shown>,
    aside: &mut Vec<&'a Shown>,
    recent: &[&Shown],
) -> Option<&'a Shown> {
    while aside.len() < ASIDE {
        let item = coming.next()?;
        if fits(item, recent) {
            return Some(item);
        }
        aside.push(item);
    }
    None
}

fn fits(item: &Shown, recent: &[&Shown]) -> bool {
    let of_seller = recent
        .iter()
        .filter(|one| one.seller_id == item.seller_id)
        .count();
    let of_category = recent
        .iter()
        .filter(|one| one.category == item.category)
        .count();
    item.seller_id == 0 || (of_seller < MOST_OF_SELLER && of_category < MOST_OF_CATEGORY)
}

/// Places of the ranking in the order after boosts; equal ones by item id.
fn boosted(ranked: &[Shown]) -> Vec<u32> {
    let mut moved: Vec<(f64, u32, u32)> = Vec::new();
    for (place, item) in ranked.iter().enumerate() {
        if item.boost != 0 {
            let to = place as f64 / f64::from(1 + BOOST_FACTOR as u32 * u32::from(item.boost));
            moved.push((to, item.item_id, place as u32));
        }
    }
    moved.sort_by(|one, other| one.partial_cmp(other).expect("places are numbers"));
    let mut order = Vec::with_capacity(ranked.len());
    let mut moved = moved.into_iter().peekable();
    for (place, item) in ranked
        .iter()
        .enumerate()
        .filter(|(_, item)| item.boost == 0)
    {
        let stayed = (place as f64, item.item_id, place as u32);
        while let Some(first) = moved.next_if(|one| *one < stayed) {
            order.push(first.2);
        }
        order.push(place as u32);
    }
    order.extend(moved.map(|one| one.2));
    order
}
