//! What is simulated: a profile's routes, steps, upstreams and arrivals.

use super::at::{At, Read, MOST, MOST_MS};
use crate::model::{Arrivals, Model, RecordedArrival, Route, Sequence, Step, Work};
use serde_json::Value;
use std::collections::HashMap;

/// Where steps of CPU run, by route.
pub struct Placement(HashMap<String, Work>);

impl Placement {
    pub fn read(at: &At<'_>) -> Read<Self> {
        let mut found = HashMap::new();
        for (name, place) in at.object()? {
            let work = match place.text()? {
                "thread" => Work::Thread,
                "process" => Work::Process,
                _ => return place.wrong("thread or process"),
            };
            found.insert(name.to_owned(), work);
        }
        Ok(Self(found))
    }

    fn of(&self, route: &str, work: Work) -> Work {
        match (self.0.get(route), work) {
            (None, _) | (_, Work::Io { .. }) => work,
            // What releases the GIL anyway is no work for the one thread that shares it.
            (Some(Work::Thread), Work::Free) => work,
            (Some(&place), _) => place,
        }
    }
}

/// The model.
pub fn model(at: &At<'_>, placement: &Placement) -> Read<Model> {
    let mut upstreams = Vec::new();
    let mut steps = Vec::new();
    let mut routes = Vec::new();
    for route in at.of("routes").list()? {
        let name = route.of("route").text()?;
        let per_s = route.of("rate_per_s").number(0.0, MOST)?;
        let called = upstream_numbers(&route.of("upstreams"), &mut upstreams)?;
        let listed = route.of("sequences");
        let mut sequences = Vec::new();
        for sequence in listed.list()? {
            let weight = sequence.of("weight").number_or(0.0, MOST, 1.0)?;
            let first = steps.len() as u32;
            for step in &sequence.of("steps").list()? {
                let step = read_step(step, &called)?;
                let work = placement.of(name, step.work);
                steps.push(Step { work, ..step });
            }
            let end = steps.len() as u32;
            if first == end {
                return sequence.of("steps").wrong("one step or more");
            }
            if weight > 0.0 {
                sequences.push((weight, Sequence { first, end }));
            }
        }
        if sequences.is_empty() {
            return listed.wrong("one sequence or more, of a weight over 0");
        }
        let deadline_ns = route.of("deadline_ms").ms()?;
        routes.push(Route::new(name, per_s, deadline_ns, sequences));
    }
    if routes.iter().all(|route| route.per_s <= 0.0) {
        return at
            .of("routes")
            .wrong("one route or more with a rate_per_s over 0");
    }
    Ok(Model {
        arrivals: arrivals(&at.of("arrivals"), &routes)?,
        routes,
        steps,
        upstreams,
    })
}

/// Numbers of the upstreams that a route calls, by name.
fn upstream_numbers(at: &At<'_>, upstreams: &mut Vec<String>) -> Read<Vec<u32>> {
    let mut numbers = Vec::new();
    for one in at.list()? {
        let name = one.text()?;
        let known = upstreams.iter().position(|upstream| upstream == name);
        let number = known.unwrap_or_else(|| {
            upstreams.push(name.to_owned());
            upstreams.len() - 1
        });
        numbers.push(number as u32);
    }
    Ok(numbers)
}

/// `["cpu", ms]`, `["free", ms]` or `["io", ms, upstream]`.
fn read_step(at: &At<'_>, called: &[u32]) -> Read<Step> {
    const RULE: &str =
        r#"["cpu", ms], ["free", ms] or ["io", ms, number of the route's upstream or -1]"#;
    let ns = match at.at(1).value {
        Some(_) => at.at(1).ms()?,
        None => return at.wrong(RULE),
    };
    let work = match at.at(0).value.and_then(Value::as_str) {
        Some("cpu") => Work::Cpu,
        Some("free") => Work::Free,
        Some("io") => {
            let upstream = match at.at(2).value {
                None | Some(Value::Null) => None,
                Some(number) if number.as_i64() == Some(-1) => None,
                Some(number) => {
                    let known = number.as_u64().and_then(|index| called.get(index as usize));
                    match known {
                        Some(&upstream) => Some(upstream),
                        None => return at.wrong(RULE),
                    }
                }
            };
            Work::Io { upstream }
        }
        _ => return at.wrong(RULE),
    };
    Ok(Step { work, ns })
}

fn arrivals(at: &At<'_>, routes: &[Route]) -> Read<Arrivals> {
    let recorded = at.of("recorded").list()?;
    if recorded.is_empty() {
        return Ok(Arrivals::Open {
            dispersion: at.of("dispersion").number_or(0.0, MOST, 1.0)?,
        });
    }
    let mut came = Vec::with_capacity(recorded.len());
    for one in &recorded {
        came.push(read_came(one, routes)?);
    }
    came.sort_unstable();
    Ok(Arrivals::Recorded(came))
}

/// `[ms, number of its route]`; behind it, if it is known, the number of the route's sequence, or null.
fn read_came(at: &At<'_>, routes: &[Route]) -> Read<RecordedArrival> {
    let route = at.at(1).count(0.0, routes.len() as f64 - 1.0, 0)?;
    let number = at.at(2);
    let sequence = match number.value {
        None | Some(Value::Null) => None,
        Some(_) => {
            let known = routes[route as usize].count() as f64;
            Some(number.count(0.0, known - 1.0, 0)?)
        }
    };
    Ok(RecordedArrival {
        at_ns: (at.at(0).number(0.0, MOST_MS)? * 1e6).round() as u64,
        route,
        sequence,
    })
}
