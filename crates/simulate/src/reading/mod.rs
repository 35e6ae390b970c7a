//! Model and set-up from JSON: a profile as `greenlane plan` writes it, and a set-up with the production's rules.
//!
//! Checks what the simulation relies on; what a profile means, and what is missing in it, is the profile's own matter.

mod at;
mod profile;
mod rules;
mod served;

use super::model::Model;
use super::set_up::SetUp;
pub use at::Wrong;
use at::{At, Read};
use profile::Placement;
use serde_json::Value;

/// Reads both. They belong together: a set-up names the profile's routes and upstreams.
pub fn model_and_set_up(profile: &[u8], set_up: &[u8]) -> Read<(Model, SetUp)> {
    let (profile, set_up) = (parse("profile", profile)?, parse("set_up", set_up)?);
    let (profile, set_up) = (At::root("profile", &profile), At::root("set_up", &set_up));
    let placement = Placement::read(&set_up.of("placement"))?;
    let model = profile::model(&profile, &placement)?;
    let set_up = served::set_up(&set_up, &model)?;
    Ok((model, set_up))
}

fn parse(name: &str, bytes: &[u8]) -> Read<Value> {
    serde_json::from_slice(bytes).map_err(|error| Wrong {
        what: name.to_owned(),
        value: error.to_string(),
        rule: "JSON".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Work;

    fn wrong(profile: &str, set_up: &str) -> (String, String) {
        match model_and_set_up(profile.as_bytes(), set_up.as_bytes()) {
            Err(wrong) => (wrong.what, wrong.rule),
            Ok(_) => (String::new(), String::new()),
        }
    }

    const PROFILE: &str = r#"{"routes": [{"route": "a", "rate_per_s": 2, "deadline_ms": 500,
        "upstreams": ["db"], "sequences": [{"weight": 3, "steps": [["cpu", 1.5], ["io", 10, 0], ["free", 2]]},
        {"steps": [["io", 4, -1], ["cpu", 1]]}]}]}"#;

    #[test]
    fn a_profile_is_read_with_its_shares() {
        let set_up = r#"{"host": "threads", "lanes": [{"routes": ["a"], "kind": "hard", "processes": 1}],
            "processes": 2, "placement": {"a": "process"}}"#;
        let read = model_and_set_up(PROFILE.as_bytes(), set_up.as_bytes());
        let (model, set_up) = read.unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let shares: Vec<f64> = model.routes[0].shares().map(|(share, _)| share).collect();
        assert_eq!(shares, [0.75, 0.25]);
        let works: Vec<Work> = model.steps.iter().map(|step| step.work).collect();
        let io = |upstream| Work::Io { upstream };
        let expected = [
            Work::Process,
            io(Some(0)),
            Work::Process,
            io(None),
            Work::Process,
        ];
        assert_eq!(works, expected);
        assert_eq!(
            (model.steps[0].ns, model.steps[3].ns),
            (1_500_000, 4_000_000)
        );
        assert_eq!(set_up.lane_of, vec![1]);
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
        let limits = r#"{"host": "celery", "upstream_limits": {"cache": 3}}"#;
        assert_eq!(wrong(PROFILE, limits).0, "set_up.upstream_limits.cache");
        let limits = r#"{"host": "threads", "upstream_limits": {"db": 3}}"#;
        assert_eq!(wrong(PROFILE, limits).0, "set_up.upstream_limits");
    }
}
