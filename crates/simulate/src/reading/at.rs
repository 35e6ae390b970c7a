//! A place in a JSON text: its value, checked, and its path, which errors name.

use serde_json::Value;

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

pub type Read<T> = Result<T, Wrong>;

/// Longest time, ms: a year. Most of anything else that is counted.
pub const MOST_MS: f64 = 366.0 * 86_400_000.0;
pub const MOST: f64 = 1e9;
/// Processes.
pub const MOST_PROCESSES: f64 = 4096.0;

/// A value and where it stands. None = nothing stands there, or null.
pub struct At<'v> {
    path: String,
    pub value: Option<&'v Value>,
}

impl<'v> At<'v> {
    pub fn root(name: &str, value: &'v Value) -> Self {
        Self {
            path: name.to_owned(),
            value: Some(value),
        }
    }

    pub fn of(&self, key: &str) -> Self {
        Self {
            path: format!("{}.{key}", self.path),
            value: self
                .value
                .and_then(|value| value.get(key))
                .filter(|value| !value.is_null()),
        }
    }

    pub fn at(&self, index: usize) -> Self {
        Self {
            path: format!("{}[{index}]", self.path),
            value: self.value.and_then(|value| value.get(index)),
        }
    }

    pub fn is_there(&self) -> bool {
        self.value.is_some()
    }

    pub fn wrong<T>(&self, rule: &str) -> Read<T> {
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

    pub fn number(&self, low: f64, high: f64) -> Read<f64> {
        match self.value.and_then(Value::as_f64) {
            Some(number) if (low..=high).contains(&number) => Ok(number),
            _ => self.wrong(&format!("a number from {low} to {high}")),
        }
    }

    pub fn number_or(&self, low: f64, high: f64, default: f64) -> Read<f64> {
        if self.is_there() {
            self.number(low, high)
        } else {
            Ok(default)
        }
    }

    pub fn count(&self, low: f64, high: f64, default: u32) -> Read<u32> {
        let number = self.number_or(low, high, f64::from(default))?;
        if number.fract() == 0.0 {
            Ok(number as u32)
        } else {
            self.wrong("a whole number")
        }
    }

    /// Milliseconds as ns; 0 when nothing stands there.
    pub fn ms(&self) -> Read<u64> {
        Ok((self.number_or(0.0, MOST_MS, 0.0)? * 1e6).round() as u64)
    }

    pub fn ns(&self) -> Read<u64> {
        Ok(self.number(0.0, MOST_MS * 1e6)?.round() as u64)
    }

    pub fn truth(&self) -> Read<bool> {
        match self.value {
            None => Ok(false),
            Some(Value::Bool(truth)) => Ok(*truth),
            Some(_) => self.wrong("true or false"),
        }
    }

    pub fn text(&self) -> Read<&'v str> {
        match self.value.and_then(Value::as_str) {
            Some(text) => Ok(text),
            None => self.wrong("a text"),
        }
    }

    pub fn text_or(&self, default: &'v str) -> Read<&'v str> {
        if self.is_there() {
            self.text()
        } else {
            Ok(default)
        }
    }

    pub fn list(&self) -> Read<Vec<At<'v>>> {
        match self.value {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => Ok((0..items.len()).map(|index| self.at(index)).collect()),
            Some(_) => self.wrong("a list"),
        }
    }

    pub fn object(&self) -> Read<Vec<(&'v str, At<'v>)>> {
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
