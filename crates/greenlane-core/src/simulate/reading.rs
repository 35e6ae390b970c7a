//! Model and set-up from JSON: a profile as `greenlane plan` writes it, and a set-up with the production's rules.
//!
//! Checks what the simulation relies on; what a profile means, and what is missing in it, is the profile's own matter.

use super::law::Law;
use super::model::{Arrivals, Came, Model, Route, Sequence, Step, Upstream, Work};
use super::set_up::{
    Bulkheads, Costs, Host, KeepAlive, Kind, Lane, Order, PermitRule, Queue, SetUp,
};
use crate::at_once::AtOnceRule;
use crate::bounds::Bounds;
use crate::order::Discipline;
use crate::shed::ShedRule;
use crate::upstream::Rule;
use crate::weight::WeightRule;
use serde_json::Value;
use std::collections::HashMap;

/// Longest time, ms: a year. Most of anything else that is counted.
const MOST_MS: f64 = 366.0 * 86_400_000.0;
const MOST: f64 = 1e9;
/// Processes, and places of a closed loop.
const MOST_PROCESSES: f64 = 4096.0;
const MOST_PLACES: f64 = 1e7;

/// Something that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Where it stands: `profile.routes[2].rate_per_s`.
    pub what: String,
    /// What stands there; empty = nothing.
    pub value: String,
    /// What may.
    pub rule: String,
}

type Read<T> = Result<T, Wrong>;

/// Reads both. They belong together: a set-up names the profile's routes and upstreams.
pub fn model_and_set_up(profile: &[u8], set_up: &[u8]) -> Read<(Model, SetUp)> {
    let (profile, set_up) = (parsed("profile", profile)?, parsed("set_up", set_up)?);
    let (profile, set_up) = (At::root("profile", &profile), At::root("set_up", &set_up));
    let placement = Placement::read(&set_up.of("placement"))?;
    let (model, lanes_named) = model(&profile, &placement)?;
    let set_up = read_set_up(&set_up, &model, &lanes_named)?;
    Ok((model, set_up))
}

fn parsed(name: &str, bytes: &[u8]) -> Read<Value> {
    serde_json::from_slice(bytes).map_err(|error| Wrong {
        what: name.to_owned(),
        value: error.to_string(),
        rule: "JSON".to_owned(),
    })
}

/// A value and where it stands. None = nothing stands there, or null.
struct At<'v> {
    path: String,
    value: Option<&'v Value>,
}

impl<'v> At<'v> {
    fn root(name: &str, value: &'v Value) -> Self {
        Self {
            path: name.to_owned(),
            value: Some(value),
        }
    }

    fn of(&self, key: &str) -> Self {
        Self {
            path: format!("{}.{key}", self.path),
            value: self
                .value
                .and_then(|value| value.get(key))
                .filter(|value| !value.is_null()),
        }
    }

    fn at(&self, index: usize) -> Self {
        Self {
            path: format!("{}[{index}]", self.path),
            value: self.value.and_then(|value| value.get(index)),
        }
    }

    fn is_there(&self) -> bool {
        self.value.is_some()
    }

    fn wrong<T>(&self, rule: &str) -> Read<T> {
        let mut value = self.value.map_or(String::new(), Value::to_string);
        if value.len() > 200 {
            value = value.chars().take(200).chain("…".chars()).collect();
        }
        Err(Wrong {
            what: self.path.clone(),
            value,
            rule: rule.to_owned(),
        })
    }

    fn number(&self, low: f64, high: f64) -> Read<f64> {
        match self.value.and_then(Value::as_f64) {
            Some(number) if (low..=high).contains(&number) => Ok(number),
            _ => self.wrong(&format!("a number from {low} to {high}")),
        }
    }

    fn number_or(&self, low: f64, high: f64, default: f64) -> Read<f64> {
        if self.is_there() {
            self.number(low, high)
        } else {
            Ok(default)
        }
    }

    fn count(&self, low: f64, high: f64, default: u32) -> Read<u32> {
        let number = self.number_or(low, high, f64::from(default))?;
        if number.fract() == 0.0 {
            Ok(number as u32)
        } else {
            self.wrong("a whole number")
        }
    }

    /// Milliseconds as ns; 0 when nothing stands there.
    fn ms(&self) -> Read<u64> {
        Ok((self.number_or(0.0, MOST_MS, 0.0)? * 1e6).round() as u64)
    }

    fn ns(&self) -> Read<u64> {
        Ok(self.number(0.0, MOST_MS * 1e6)?.round() as u64)
    }

    fn truth(&self) -> Read<bool> {
        match self.value {
            None => Ok(false),
            Some(Value::Bool(truth)) => Ok(*truth),
            Some(_) => self.wrong("true or false"),
        }
    }

    fn text(&self) -> Read<&'v str> {
        match self.value.and_then(Value::as_str) {
            Some(text) => Ok(text),
            None => self.wrong("a text"),
        }
    }

    fn text_or(&self, default: &'v str) -> Read<&'v str> {
        if self.is_there() {
            self.text()
        } else {
            Ok(default)
        }
    }

    fn list(&self) -> Read<Vec<At<'v>>> {
        match self.value {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => Ok((0..items.len()).map(|index| self.at(index)).collect()),
            Some(_) => self.wrong("a list"),
        }
    }

    fn object(&self) -> Read<Vec<(&'v str, At<'v>)>> {
        match self.value {
            None => Ok(Vec::new()),
            Some(Value::Object(items)) => Ok(items
                .keys()
                .map(|key| (key.as_str(), self.of(key)))
                .collect()),
            Some(_) => self.wrong("a table"),
        }
    }
}

/// Where steps of CPU run, by route, or by "route:number of the step".
struct Placement(HashMap<String, Work>);

impl Placement {
    fn read(at: &At<'_>) -> Read<Self> {
        let mut found = HashMap::new();
        for (name, place) in at.object()? {
            let work = match place.text()? {
                "inline" => Work::Cpu,
                "thread" => Work::Thread,
                "process" => Work::Process,
                _ => return place.wrong("one of inline, thread, process"),
            };
            found.insert(name.to_owned(), work);
        }
        Ok(Self(found))
    }

    fn of(&self, route: &str, step: usize, work: Work) -> Work {
        let own = if self.0.is_empty() {
            None
        } else {
            self.0
                .get(&format!("{route}:{step}"))
                .or_else(|| self.0.get(route))
        };
        match (own, work) {
            (Some(Work::Cpu) | None, _) | (_, Work::Io { .. }) => work,
            // What releases the GIL anyway is no work for the one thread that shares it.
            (Some(Work::Thread), Work::Free) => work,
            (Some(&place), _) => place,
        }
    }
}

/// The model, and the name of each route's lane ("" = none).
fn model(at: &At<'_>, placement: &Placement) -> Read<(Model, Vec<String>)> {
    let mut upstreams = upstreams(&at.of("upstreams"))?;
    let mut steps = Vec::new();
    let (mut routes, mut lanes) = (Vec::new(), Vec::new());
    for route in at.of("routes").list()? {
        let name = route.of("route").text()?;
        let per_s = route.of("rate_per_s").number(0.0, MOST)?;
        let called = named(&route.of("upstreams"), &mut upstreams)?;
        let listed = route.of("sequences");
        let mut sequences = Vec::new();
        for sequence in listed.list()? {
            let weight = sequence.of("weight").number_or(0.0, MOST, 1.0)?;
            let first = steps.len() as u32;
            for (index, step) in sequence.of("steps").list()?.iter().enumerate() {
                let step = read_step(step, &called)?;
                let work = placement.of(name, index, step.work);
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
        lanes.push(route.of("lane").text_or("")?.to_owned());
        let deadline_ns = route.of("deadline_ms").ms()?;
        routes.push(Route::new(name, per_s, deadline_ns, sequences));
    }
    if routes.iter().all(|route| route.per_s <= 0.0) {
        return at
            .of("routes")
            .wrong("one route or more with a rate_per_s over 0");
    }
    let model = Model {
        arrivals: arrivals(&at.of("arrivals"), &routes)?,
        routes,
        steps,
        upstreams,
    };
    Ok((model, lanes))
}

fn upstreams(at: &At<'_>) -> Read<Vec<Upstream>> {
    let read = |one: &At<'_>| -> Read<Upstream> {
        Ok(Upstream {
            name: one.of("name").text()?.to_owned(),
            limit: one.of("limit").count(0.0, MOST, 0)?,
            failure_frac: one.of("failure_frac").number_or(0.0, 1.0, 0.0)?,
            timeout_ns: one.of("timeout_ms").ms()?,
        })
    };
    at.list()?.iter().map(read).collect()
}

/// Numbers of the upstreams that a route calls, by name.
fn named(at: &At<'_>, upstreams: &mut Vec<Upstream>) -> Read<Vec<u32>> {
    let mut numbers = Vec::new();
    for one in at.list()? {
        let name = one.text()?;
        let known = upstreams.iter().position(|upstream| upstream.name == name);
        let number = known.unwrap_or_else(|| {
            upstreams.push(Upstream {
                name: name.to_owned(),
                limit: 0,
                failure_frac: 0.0,
                timeout_ns: 0,
            });
            upstreams.len() - 1
        });
        numbers.push(number as u32);
    }
    Ok(numbers)
}

/// `["cpu", ms]`, `["free", ms]` or `["io", ms, upstream]`, each with a law behind it if it varies.
fn read_step(at: &At<'_>, called: &[u32]) -> Read<Step> {
    const RULE: &str =
        r#"["cpu", ms], ["free", ms] or ["io", ms, number of the route's upstream or -1]"#;
    let mean_ns = match at.at(1).value {
        Some(_) => at.at(1).ms()?,
        None => return at.wrong(RULE),
    };
    let (work, law_at) = match at.at(0).value.and_then(Value::as_str) {
        Some("cpu") => (Work::Cpu, 2),
        Some("free") => (Work::Free, 2),
        Some("io") => {
            let upstream = match at.at(2).value {
                None | Some(Value::Null) => None,
                Some(Value::Number(number)) if number.as_i64() == Some(-1) => None,
                Some(Value::Number(number)) => {
                    let known = number.as_u64().and_then(|index| called.get(index as usize));
                    match known {
                        Some(&upstream) => Some(upstream),
                        None => return at.wrong(RULE),
                    }
                }
                Some(_) => return at.wrong(RULE),
            };
            (Work::Io { upstream }, 3)
        }
        _ => return at.wrong(RULE),
    };
    let law = match at.at(law_at).value.and_then(Value::as_str) {
        None => Law::Fixed,
        Some("exponential") => Law::Exponential,
        Some("lognormal") => Law::lognormal(at.at(law_at + 1).number(0.0, 100.0)?),
        Some(_) => {
            return at
                .at(law_at)
                .wrong("exponential, or lognormal with its coefficient of variation behind it")
        }
    };
    Ok(Step { work, mean_ns, law })
}

fn arrivals(at: &At<'_>, routes: &[Route]) -> Read<Arrivals> {
    let clients = at.of("clients");
    if clients.is_there() {
        return Ok(Arrivals::Closed {
            places: clients.count(1.0, MOST_PLACES, 1)?,
            think_ns: at.of("think_ms").ms()?,
        });
    }
    let recorded = at.of("recorded").list()?;
    if recorded.is_empty() {
        return Ok(Arrivals::Open {
            dispersion: at.of("dispersion").number_or(0.0, MOST, 1.0)?,
        });
    }
    let mut came = Vec::with_capacity(recorded.len());
    for one in &recorded {
        let at_ns = (one.at(0).number(0.0, MOST_MS)? * 1e6).round() as u64;
        let route = one.at(1).count(0.0, routes.len() as f64 - 1.0, 0)?;
        let number = one.at(2);
        let known = routes[route as usize].count() as f64;
        let sequence = match number.value {
            None | Some(Value::Null) => None,
            Some(_) => Some(number.count(0.0, known - 1.0, 0)?),
        };
        came.push(Came {
            at_ns,
            route,
            sequence,
        });
    }
    came.sort_unstable();
    let once = at.of("once").truth()?;
    Ok(Arrivals::Recorded { came, once })
}

fn read_set_up(at: &At<'_>, model: &Model, named: &[String]) -> Read<SetUp> {
    let rules = at.of("rules");
    let processes = at.of("processes").count(1.0, MOST_PROCESSES, 1)? as usize;
    let queue = queue(&at.of("queue"))?;
    let (lanes, lane_of) = lanes(&at.of("lanes"), model, named)?;
    let own: usize = lanes
        .iter()
        .filter(|lane| lane.kind == Kind::Hard)
        .map(|lane| lane.processes.max(1))
        .sum();
    if own >= processes && own > 0 {
        let rule =
            format!("more than {own}: hard lanes have so many of their own, and others need one");
        return at.of("processes").wrong(&rule);
    }
    let limits = upstream_limits(&at.of("upstream_limits"), model)?;
    let limit = at.of("limit").count(0.0, MOST, 0)?;
    let at_once = at.of("at_once").count(0.0, MOST, 0)?;
    let breakers = at.of("breakers").truth()?;
    let celery = at.of("host").text()? == "celery";
    let held = celery && (breakers || limits.iter().any(|&limit| limit > 0));
    let central = queue == Queue::Central;
    Ok(SetUp {
        host: host(at, processes)?,
        queue,
        processes,
        cores: at.of("cores").count(0.0, MOST, 0)? as usize,
        switch_interval_ns: (at
            .of("switch_interval_ms")
            .number_or(0.0, MOST_MS, 5.0)?
            .max(1e-3)
            * 1e6) as u64,
        limit,
        at_once,
        at_once_rule: if central && at_once == 0 {
            Some(at_once_rule(&rules.of("at_once"))?)
        } else {
            None
        },
        keep_alive: keep_alive(&at.of("keep_alive"))?,
        shed: if at.of("shed").truth()? {
            Some(shed_rule(&rules.of("shed"))?)
        } else {
            None
        },
        lanes,
        lane_of,
        bulkheads: held.then(|| {
            let slots = processes as u32 * limit.max(at_once).max(1);
            bulkheads(slots, limits.clone(), breakers)
        }),
        upstream_limits: if held { vec![0; limits.len()] } else { limits },
        pool: at.of("pool").count(0.0, MOST_PROCESSES, 1)?,
        costs: costs(&at.of("costs"))?,
    })
}

fn host(at: &At<'_>, processes: usize) -> Read<Host> {
    let slice_ns = at.of("slice_ms").ms()?;
    let ideal = |order| -> Read<Host> { Ok(Host::Ideal { order, slice_ns }) };
    let name = at.of("host");
    match name.text()? {
        "gevent" => {
            let usual = if processes > 1 { 1 } else { 100 };
            let max_accept = at.of("max_accept").count(1.0, MOST, usual)?;
            Ok(Host::Gevent { max_accept })
        }
        "threads" | "celery" => Ok(Host::Threads),
        "asyncio" => Ok(Host::Asyncio),
        "permits" => {
            let mut rule = permit_rule(&at.of("rules").of("permits"))?;
            let permits = at.of("permits").count(0.0, MOST, 0)? as usize;
            if permits > 0 {
                rule.permits = permits;
            }
            Ok(Host::Permits(rule))
        }
        "turns" => ideal(Order::Turns),
        "oldest" => ideal(Order::Oldest),
        "first" => ideal(Order::First),
        _ => name.wrong(
            "one of gevent, threads, permits, asyncio, celery, or an ideal CPU: turns, oldest, first",
        ),
    }
}

fn queue(at: &At<'_>) -> Read<Queue> {
    Ok(match at.text_or("accept")? {
        "accept" => Queue::Accept,
        "reuse-port" => Queue::ReusePort,
        "round-robin" => Queue::RoundRobin,
        "two-choices" => Queue::TwoChoices,
        "shortest" => Queue::Shortest,
        "central" => Queue::Central,
        _ => {
            return at
                .wrong("one of accept, reuse-port, round-robin, two-choices, shortest, central")
        }
    })
}

fn lanes(at: &At<'_>, model: &Model, named: &[String]) -> Read<(Vec<Lane>, Vec<usize>)> {
    let mut lanes = vec![Lane {
        name: String::new(),
        kind: Kind::Soft,
        processes: 0,
        priority: 0,
        at_once: 0,
        deadline_ns: 0,
    }];
    let mut lane_of = vec![0; model.routes.len()];
    for one in at.list()? {
        let name = one.of("name").text()?;
        let kind = one.of("kind");
        let number = lanes.len();
        lanes.push(Lane {
            name: name.to_owned(),
            kind: match kind.text_or("soft")? {
                "soft" => Kind::Soft,
                "hard" => Kind::Hard,
                "pinned" => Kind::Pinned,
                _ => return kind.wrong("one of soft, hard, pinned"),
            },
            processes: one.of("processes").count(0.0, MOST_PROCESSES, 0)? as usize,
            priority: one.of("priority").number_or(-1e9, 1e9, 0.0)? as i64,
            at_once: one.of("at_once").count(0.0, MOST, 0)?,
            deadline_ns: one.of("deadline_ms").ms()?,
        });
        for (index, lane) in named.iter().enumerate() {
            if lane == name {
                lane_of[index] = number;
            }
        }
        for route in one.of("routes").list()? {
            let text = route.text()?;
            match model.routes.iter().position(|known| known.name == text) {
                Some(index) => lane_of[index] = number,
                None => return route.wrong("a route of the profile"),
            }
        }
    }
    Ok((lanes, lane_of))
}

fn upstream_limits(at: &At<'_>, model: &Model) -> Read<Vec<u32>> {
    let mut limits = vec![0; model.upstreams.len()];
    for (name, limit) in at.object()? {
        let known = model.upstreams.iter().position(|one| one.name == name);
        match known {
            Some(index) => limits[index] = limit.count(0.0, MOST, 0)?,
            None => return limit.wrong("the limit of an upstream of the profile"),
        }
    }
    Ok(limits)
}

fn keep_alive(at: &At<'_>) -> Read<Option<KeepAlive>> {
    if !at.is_there() {
        return Ok(None);
    }
    Ok(Some(KeepAlive {
        connections: at.of("connections").count(1.0, MOST_PLACES, 1)?,
        idle_ns: (at.of("idle_s").number_or(0.0, MOST_MS / 1e3, 0.0)? * 1e9) as u64,
    }))
}

fn costs(at: &At<'_>) -> Read<Costs> {
    let us = |name: &str| -> Read<u64> { Ok((at.of(name).number_or(0.0, 1e9, 0.0)? * 1e3) as u64) };
    Ok(Costs {
        switch_ns: us("switch_us")?,
        dispatch_ns: us("dispatch_us")?,
        front_ns: us("front_us")?,
        releases_per_call: at.of("releases_per_call").count(0.0, 100.0, 0)?,
        turns_per_request: at.of("turns_per_request").count(0.0, 100.0, 0)?,
    })
}

/// Everything is parked that may not begin: there is nowhere to send it to.
fn bulkheads(slots: u32, limits: Vec<u32>, breakers: bool) -> Bulkheads {
    let usual = Rule::default();
    let rate = |rate: f64| if breakers { rate } else { 0.0 };
    let general = Rule {
        parked_most: u64::MAX,
        parked_most_bytes: u64::MAX,
        parked_most_ns: 0,
        failure_rate: rate(usual.failure_rate),
        slow_call_rate: rate(usual.slow_call_rate),
        ..usual
    };
    Bulkheads {
        slots,
        general,
        limits,
    }
}

fn permit_rule(at: &At<'_>) -> Read<PermitRule> {
    let discipline = at.of("discipline");
    Ok(PermitRule {
        permits: at.of("permits").number(1.0, MOST)? as usize,
        discipline: match Discipline::named(discipline.text()?) {
            Some(discipline) => discipline,
            None => return discipline.wrong("one of fifo, deadline, shortest"),
        },
        ageing_ns: at.of("ageing_ns").ns()?,
        weight: WeightRule {
            heavy_ns: at.of("heavy_ns").ns()?,
            quantile: at.of("quantile").number(0.0, 1.0)?,
            margin: at.of("margin").number(0.0, MOST)?,
            learn_after: at.of("learn_after").number(0.0, MOST)? as u64,
        },
        bounds: Bounds {
            wait_factor: at.of("wait_factor").number(0.0, MOST)?,
            wait_min_ns: at.of("wait_min_ns").ns()?,
            wait_max_ns: at.of("wait_max_ns").ns()?,
            hold_factor: at.of("hold_factor").number(0.0, MOST)?,
            hold_min_ns: at.of("hold_min_ns").ns()?,
        },
        interval_ns: (at.of("interval_s").number(1e-6, MOST)? * 1e9) as u64,
        phases: at.of("max_phases").number(1.0, MOST)? as usize,
    })
}

fn shed_rule(at: &At<'_>) -> Read<ShedRule> {
    Ok(ShedRule {
        waited_ns: at.of("waited_ns").ns()?,
        stands_ns: at.of("stands_ns").ns()?,
        stands_count: at.of("stands_count").number(0.0, MOST)? as u64,
        frac: at.of("frac").number(0.0, 1.0)?,
        most: at.of("most").number(0.0, 1.0)?,
    })
}

fn at_once_rule(at: &At<'_>) -> Read<AtOnceRule> {
    Ok(AtOnceRule {
        busy: at.of("busy").number(0.0, 1.0)?,
        least: at.of("least").number(1.0, MOST)? as u32,
        most: at.of("most").number(1.0, MOST)? as u32,
        gap_ns: at.of("gap_ns").ns()?,
        window_ns: at.of("window_ns").ns()?,
        window_jobs: at.of("window_jobs").number(0.0, MOST)? as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(profile: &str, set_up: &str) -> (String, String) {
        match model_and_set_up(profile.as_bytes(), set_up.as_bytes()) {
            Err(wrong) => (wrong.what, wrong.rule),
            Ok(_) => (String::new(), String::new()),
        }
    }

    const PROFILE: &str = r#"{"routes": [{"route": "a", "rate_per_s": 2, "lane": "slow", "deadline_ms": 500,
        "upstreams": ["db"], "sequences": [{"weight": 3, "steps": [["cpu", 1.5], ["io", 10, 0], ["free", 2]]},
        {"steps": [["io", 4, -1, "lognormal", 1.0], ["cpu", 1, "exponential"]]}]}]}"#;

    #[test]
    fn a_profile_is_read_with_its_laws_shares_and_lanes() {
        let set_up = r#"{"host": "threads", "lanes": [{"name": "slow", "kind": "hard", "processes": 1}],
            "processes": 2, "upstream_limits": {"db": 3}, "placement": {"a:0": "process"}}"#;
        let read = model_and_set_up(PROFILE.as_bytes(), set_up.as_bytes());
        let (model, set_up) = read.unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let shares: Vec<f64> = model.routes[0].shares().map(|(share, _)| share).collect();
        assert_eq!(shares, [0.75, 0.25]);
        let works: Vec<Work> = model.steps.iter().map(|step| step.work).collect();
        let io = |upstream| Work::Io { upstream };
        let expected = [Work::Process, io(Some(0)), Work::Free, io(None), Work::Cpu];
        assert_eq!(works, expected);
        assert_eq!(
            (model.steps[0].mean_ns, model.steps[4].law),
            (1_500_000, Law::Exponential)
        );
        assert_eq!((set_up.lane_of, set_up.upstream_limits), (vec![1], vec![3]));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let set_up = r#"{"host": "threads"}"#;
        assert_eq!(wrong("{", set_up).1, "JSON");
        assert_eq!(
            wrong(r#"{"routes": []}"#, set_up),
            (
                "profile.routes".into(),
                "one route or more with a rate_per_s over 0".into()
            )
        );
        let text = r#"{"routes": [{"route": "a", "rate_per_s": 1, "sequences": [{"steps": [["io", 1, 0]]}]}]}"#;
        assert_eq!(
            wrong(text, set_up).0,
            "profile.routes[0].sequences[0].steps[0]"
        );
        assert_eq!(wrong(PROFILE, r#"{"host": "twisted"}"#).0, "set_up.host");
        assert_eq!(
            wrong(PROFILE, r#"{"host": "permits"}"#),
            (
                "set_up.rules.permits.permits".into(),
                "a number from 1 to 1000000000".into()
            )
        );
        let limits = r#"{"host": "threads", "upstream_limits": {"cache": 3}}"#;
        assert_eq!(wrong(PROFILE, limits).0, "set_up.upstream_limits.cache");
    }
}
