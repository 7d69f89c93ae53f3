//! Endpoints, models, prices, limits: from TOML or the environment.
//!
//! A file names endpoints and models:
//!
//! ```toml
//! [budget]
//! cost = 5.0                         # US dollars
//!
//! [[endpoint]]
//! name = "cluster"
//! url = "https://llm.example.org/v1"
//! key_env = "CLUSTER_KEY"            # the key itself stays out of the file
//! ca_file = "cluster-ca.pem"         # beside the system's roots
//! parallel = 8
//!
//! [[model]]
//! name = "small"
//! id = "Qwen/Qwen3-8B"               # what the endpoint calls it
//! part = "fast"
//! price = { input = 0.2, cached = 0.02, output = 0.6 }
//! ```
//!
//! With no file, `R3_MODEL_URL`, `R3_MODEL_KEY` and `R3_MODEL` do, or `OPENAI_BASE_URL` and `OPENAI_API_KEY`, which other programs read
//! as well.

mod read;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::account::Budget;
use crate::roots::RootsError;

/// What a model is asked for.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Answers soon: asked while devices stand idle.
    Fast,
    /// Answers well: asked while devices are busy anyway.
    #[default]
    Accurate,
    /// Vectors of texts.
    Embedding,
}

/// A key of a service. It is never printed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Key(String);

impl Key {
    /// From its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Its text, to be sent.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// How long is waited, in seconds. There is one layer of retries, and `question` bounds all of it: nothing multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// Until a connection stands, TLS included.
    pub connect: f64,
    /// From sending to the first token, where answers come in pieces; for vectors, to all of them.
    pub first_token: f64,
    /// From one token to the next.
    pub between_tokens: f64,
    /// For one attempt.
    pub attempt: f64,
    /// For a question with all its attempts and the pauses between them. What is waited in an outage, or for a limit, does not count.
    pub question: f64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: 15.0,
            first_token: 300.0,
            between_tokens: 60.0,
            attempt: 900.0,
            question: 1800.0,
        }
    }
}

impl Timeouts {
    /// Seconds as a duration, not less than a millisecond.
    pub(crate) fn duration(seconds: f64) -> Duration {
        Duration::try_from_secs_f64(seconds)
            .unwrap_or(Duration::from_secs(86_400))
            .clamp(Duration::from_millis(1), Duration::from_secs(86_400))
    }
}

/// Pauses that double, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pauses {
    /// After the first failure.
    pub first: f64,
    /// At most.
    pub most: f64,
}

impl Default for Pauses {
    fn default() -> Self {
        Self {
            first: 1.0,
            most: 60.0,
        }
    }
}

/// A service.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Its name in these settings.
    #[serde(default = "default_name")]
    pub name: String,
    /// Where it is, up to and with `/v1` where it has that.
    pub url: String,
    /// Its key.
    #[serde(default)]
    pub key: Option<Key>,
    /// The variable of the environment that holds the key.
    #[serde(default)]
    pub key_env: Option<String>,
    /// The file that holds the key.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// Certificates (PEM) that are trusted beside those of the system.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// Headers that it wants.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Requests under way at a time, at most.
    #[serde(default = "default_parallel")]
    pub parallel: usize,
    /// Requests in any minute, at most.
    #[serde(default)]
    pub requests_per_minute: Option<u32>,
    /// Tokens of prompts and answers in any minute, at most.
    #[serde(default)]
    pub tokens_per_minute: Option<u64>,
    /// Whether answers come in pieces, so that a stalled one is noticed soon.
    #[serde(default = "default_true")]
    pub stream: bool,
    /// How often a question is tried while the service answers others.
    #[serde(default = "default_attempts")]
    pub attempts: u32,
    /// How long is waited.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Pauses between attempts, and between looks at a service that is down.
    #[serde(default)]
    pub pauses: Pauses,
}

/// US dollars per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Price {
    /// Tokens of the prompt.
    pub input: f64,
    /// Those that its cache served; as much as the others where it is not given.
    pub cached: Option<f64>,
    /// Tokens of the answer.
    pub output: f64,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Its name in these settings.
    pub name: String,
    /// What the endpoint calls it; its name where nothing is given.
    #[serde(default)]
    pub id: Option<String>,
    /// The endpoint; where there is one only, that one.
    #[serde(default)]
    pub endpoint: Option<String>,
    /// What it is asked for.
    #[serde(default)]
    pub part: Part,
    /// Tokens of an answer at most.
    #[serde(default = "default_max_tokens")]
    pub max_tokens: u32,
    /// Tokens that it takes, prompt and answer together. Where it is given, prompts are made short enough, and answers get what is left.
    #[serde(default)]
    pub context: Option<u32>,
    /// How freely it answers; the service's own where none is given.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// What it costs. With a budget of money each model has one, if it is all zeros.
    #[serde(default)]
    pub price: Option<Price>,
    /// Further fields of the request, as the service wants them: `reasoning_effort`, `top_p`, `chat_template_kwargs`.
    #[serde(default)]
    pub extra: toml::Table,
}

impl Endpoint {
    /// At an address, with everything else as it is by default.
    pub fn new(url: &str) -> Self {
        Self {
            name: default_name(),
            url: url.to_owned(),
            key: None,
            key_env: None,
            key_file: None,
            ca_file: None,
            headers: BTreeMap::new(),
            parallel: default_parallel(),
            requests_per_minute: None,
            tokens_per_minute: None,
            stream: true,
            attempts: default_attempts(),
            timeouts: Timeouts::default(),
            pauses: Pauses::default(),
        }
    }
}

impl Model {
    /// By its name, with everything else as it is by default.
    pub fn new(name: &str, part: Part) -> Self {
        Self {
            name: name.to_owned(),
            id: None,
            endpoint: None,
            part,
            max_tokens: default_max_tokens(),
            context: None,
            temperature: None,
            price: None,
            extra: toml::Table::new(),
        }
    }

    /// Bytes of a prompt that leave room for an answer, where the context is known: a third of it, or as much as an answer may have.
    #[must_use]
    pub fn prompt_bytes(&self) -> Option<usize> {
        let context = self.context?;
        let answer = self.max_tokens.min(context / 3);
        Some((f64::from(context - answer) * BYTES_PER_TOKEN) as usize)
    }
}

/// Bytes of a token of source text, before a service has counted any: rather too few than too many.
pub(crate) const BYTES_PER_TOKEN: f64 = 2.5;

/// How models are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChoiceSettings {
    /// Seconds for which a device may have nothing to do before fast models are asked.
    pub idle: f64,
    /// How much a model's cost weighs against what it brought: 0 not at all, 1 as much.
    pub cost_weight: f64,
}

impl Default for ChoiceSettings {
    fn default() -> Self {
        Self {
            idle: 1.0,
            cost_weight: 0.5,
        }
    }
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Services.
    #[serde(default, rename = "endpoint")]
    pub endpoints: Vec<Endpoint>,
    /// Models.
    #[serde(default, rename = "model")]
    pub models: Vec<Model>,
    /// What may be spent in all.
    #[serde(default)]
    pub budget: Budget,
    /// How models are chosen.
    #[serde(default)]
    pub choice: ChoiceSettings,
    /// What takes the place of the system's roots of trust: `SSL_CERT_FILE`.
    #[serde(skip)]
    pub roots: Option<PathBuf>,
}

fn default_name() -> String {
    "default".to_owned()
}

fn default_parallel() -> usize {
    4
}

fn default_true() -> bool {
    true
}

fn default_attempts() -> u32 {
    4
}

fn default_max_tokens() -> u32 {
    8192
}

/// Settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not TOML, or not these settings.
    #[error("{origin}: {message}")]
    Parse {
        /// File or variable.
        origin: String,
        /// What is wrong, with its place.
        message: String,
    },
    /// The thread that asks cannot be started.
    #[error("no thread for models: {0}")]
    Thread(std::io::Error),
    /// A service cannot be trusted.
    #[error("endpoint {endpoint}: {source}")]
    Roots {
        /// Which.
        endpoint: String,
        /// Why.
        source: RootsError,
    },
    /// A value makes no sense.
    #[error("{origin}: {what}")]
    Value {
        /// File or variable.
        origin: String,
        /// What, and what to do.
        what: String,
    },
}

impl Settings {
    /// From the text of a file, which the caller reads. Keys are looked up in the environment, or in files named beside it.
    pub fn from_text(text: &str, path: &Path, look_up: &LookUp<'_>) -> Result<Self, SettingsError> {
        let folder = path.parent().unwrap_or(Path::new(""));
        read::from_text(text, &path.display().to_string(), folder, look_up)
    }

    /// From the environment; `None` where it names no endpoint.
    ///
    /// | variable | what |
    /// |---|---|
    /// | `R3_MODEL_URL` | the endpoint |
    /// | `R3_MODEL_KEY` | its key, where it wants one |
    /// | `R3_MODEL` | names of models, with commas between them |
    /// | `R3_MODEL_CONTEXT` | tokens that they take, prompt and answer together |
    /// | `R3_MODEL_FAST`, `R3_MODEL_EMBEDDING` | the same, for the other parts |
    ///
    /// `OPENAI_BASE_URL` and `OPENAI_API_KEY` stand in for the first two, both together: a key of one service is not sent to another.
    pub fn from_environment(look_up: &LookUp<'_>) -> Result<Option<Self>, SettingsError> {
        read::from_environment(look_up)
    }

    /// No more may be spent than so many US dollars, whatever the settings allow. Each model must have a price then.
    pub fn cap_cost(&mut self, dollars: f64, origin: &str) -> Result<(), SettingsError> {
        self.budget.cost = Some(self.budget.cost.map_or(dollars, |cost| cost.min(dollars)));
        read::check_cost(self, origin)
    }

    /// A model by its name.
    pub fn model(&self, name: &str) -> Option<&Model> {
        self.models.iter().find(|model| model.name == name)
    }

    /// The models of a part, in their order.
    pub fn part(&self, part: Part) -> impl Iterator<Item = &Model> {
        self.models.iter().filter(move |model| model.part == part)
    }

    /// The place of a model's endpoint among the endpoints.
    pub fn endpoint_of(&self, model: &Model) -> Option<usize> {
        match &model.endpoint {
            Some(name) => self
                .endpoints
                .iter()
                .position(|endpoint| endpoint.name == *name),
            None => (self.endpoints.len() == 1).then_some(0),
        }
    }
}

/// Reads a variable of the environment.
pub type LookUp<'a> = dyn Fn(&str) -> Option<String> + 'a;

#[cfg(test)]
mod tests;
