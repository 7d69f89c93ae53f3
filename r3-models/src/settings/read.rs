//! Settings are read, completed and checked, so that what uses them need not.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Endpoint, Key, LookUp, Model, Part, Settings, SettingsError};
use crate::small;
use crate::url::Url;

/// Fields of a request that no setting may put in.
const OWN: &[&str] = &[
    "model",
    "messages",
    "stream",
    "stream_options",
    "input",
    "n",
];

pub(super) fn from_text(
    text: &str,
    origin: &str,
    folder: &Path,
    look_up: &LookUp<'_>,
) -> Result<Settings, SettingsError> {
    let mut settings: Settings = toml::from_str(text).map_err(|error| SettingsError::Parse {
        origin: origin.to_owned(),
        message: error.to_string(),
    })?;
    for endpoint in &mut settings.endpoints {
        for path in [&mut endpoint.ca_file, &mut endpoint.key_file]
            .into_iter()
            .flatten()
        {
            *path = folder.join(&path);
        }
    }
    complete(settings, origin, look_up)
}

pub(super) fn from_environment(look_up: &LookUp<'_>) -> Result<Option<Settings>, SettingsError> {
    let set = |name: &str| look_up(name).filter(|value| !value.trim().is_empty());
    let list = |name: &str, part: Part| -> Vec<Model> {
        let names = set(name).unwrap_or_default();
        let names = names
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        names.map(|name| Model::new(name, part)).collect()
    };
    let mut models: Vec<Model> = [
        ("R3_MODEL", Part::Accurate),
        ("R3_MODEL_FAST", Part::Fast),
        ("R3_MODEL_EMBEDDING", Part::Embedding),
    ]
    .into_iter()
    .flat_map(|(name, part)| list(name, part))
    .collect();
    let (variable, url, key) = match (set("R3_MODEL_URL"), set("OPENAI_BASE_URL")) {
        (Some(url), _) => ("R3_MODEL_URL", url, set("R3_MODEL_KEY")),
        // Set for other programs: it counts when models are named for this one.
        (None, Some(url)) if !models.is_empty() => ("OPENAI_BASE_URL", url, set("OPENAI_API_KEY")),
        (None, _) if !models.is_empty() => {
            return Err(SettingsError::Value {
                origin: "environment".to_owned(),
                what: "models are named, and no endpoint: set R3_MODEL_URL, for example http://localhost:8000/v1".to_owned(),
            });
        }
        (None, _) => return Ok(None),
    };
    if !models.iter().any(|model| model.part != Part::Embedding) {
        return Err(SettingsError::Value {
            origin: variable.to_owned(),
            what: "an endpoint without models: name one or several by R3_MODEL".to_owned(),
        });
    }
    let mut endpoint = Endpoint::new(&url);
    endpoint.key = key.map(Key::new);
    if let Some(context) = set("R3_MODEL_CONTEXT") {
        let context = context.trim().parse().map_err(|_| SettingsError::Value {
            origin: "R3_MODEL_CONTEXT".to_owned(),
            what: format!("{context:?} is no number of tokens: for example 8192"),
        })?;
        for model in &mut models {
            model.context = Some(context);
        }
    }
    let settings = Settings {
        endpoints: vec![endpoint],
        models,
        ..Settings::default()
    };
    complete(settings, variable, look_up).map(Some)
}

/// Looks keys up and checks everything.
fn complete(
    mut settings: Settings,
    origin: &str,
    look_up: &LookUp<'_>,
) -> Result<Settings, SettingsError> {
    settings.roots = look_up("SSL_CERT_FILE")
        .filter(|path| !path.is_empty())
        .map(Into::into);
    let wrong = |what: String| {
        Err(SettingsError::Value {
            origin: origin.to_owned(),
            what,
        })
    };
    if settings.endpoints.is_empty() {
        return wrong("no [[endpoint]] is named".to_owned());
    }
    if settings.models.is_empty() {
        return wrong("no [[model]] is named".to_owned());
    }
    let mut names = BTreeSet::new();
    for endpoint in &mut settings.endpoints {
        if !names.insert(endpoint.name.clone()) {
            return wrong(format!("two endpoints are called {:?}", endpoint.name));
        }
        if let Err(what) = check_endpoint(endpoint) {
            return wrong(format!("endpoint {:?}: {what}", endpoint.name));
        }
        key(endpoint, origin, look_up)?;
    }
    let mut names = BTreeSet::new();
    for model in &settings.models {
        if !names.insert(&model.name) {
            return wrong(format!("two models are called {:?}", model.name));
        }
        if let Err(what) = check_model(model) {
            return wrong(format!("model {:?}: {what}", model.name));
        }
        if settings.endpoint_of(model).is_none() {
            let known: Vec<&str> = settings.endpoints.iter().map(|e| e.name.as_str()).collect();
            let known = known.join(", ");
            return wrong(match &model.endpoint {
                Some(name) => format!(
                    "model {:?}: no endpoint is called {name:?}; there are: {known}",
                    model.name
                ),
                None => format!(
                    "model {:?}: say which endpoint it is at: {known}",
                    model.name
                ),
            });
        }
    }
    check_cost(&settings, origin)?;
    let choice = &settings.choice;
    if !(choice.idle >= 0.0 && (0.0..=10.0).contains(&choice.cost_weight)) {
        return wrong("choice: idle is not below 0, cost_weight is from 0 to 10".to_owned());
    }
    Ok(settings)
}

/// Whether a budget of money can be kept.
pub(super) fn check_cost(settings: &Settings, origin: &str) -> Result<(), SettingsError> {
    let wrong = |what: String| {
        Err(SettingsError::Value {
            origin: origin.to_owned(),
            what,
        })
    };
    let Some(cost) = settings.budget.cost else {
        return Ok(());
    };
    if !(cost >= 0.0 && cost.is_finite()) {
        return wrong("a budget of money is not an amount".to_owned());
    }
    match settings.models.iter().find(|model| model.price.is_none()) {
        Some(model) => wrong(format!(
            "there is a budget of money, and model {:?} has no price: give price = {{ input = …, output = … }} in US dollars per \
             million tokens, zeros for one that costs nothing",
            model.name
        )),
        None => Ok(()),
    }
}

fn check_endpoint(endpoint: &Endpoint) -> Result<(), String> {
    Url::parse(&endpoint.url)?;
    let times = &endpoint.timeouts;
    let positive = [
        ("timeouts.connect", times.connect),
        ("timeouts.first_token", times.first_token),
        ("timeouts.between_tokens", times.between_tokens),
        ("timeouts.attempt", times.attempt),
        ("timeouts.question", times.question),
        ("parallel", endpoint.parallel as f64),
        ("attempts", f64::from(endpoint.attempts)),
        (
            "requests_per_minute",
            endpoint.requests_per_minute.map_or(1.0, f64::from),
        ),
        (
            "tokens_per_minute",
            endpoint.tokens_per_minute.map_or(1.0, |n| n as f64),
        ),
        ("pauses.most", endpoint.pauses.most),
    ];
    if let Some((name, _)) = positive
        .iter()
        .find(|(_, value)| !(*value > 0.0 && value.is_finite()))
    {
        return Err(format!("{name} is to be more than 0"));
    }
    if endpoint.parallel > 1024 {
        return Err("parallel is to be at most 1024: each request is a thread".to_owned());
    }
    if !(endpoint.pauses.first >= 0.0 && endpoint.pauses.first.is_finite()) {
        return Err("pauses.first is not below 0".to_owned());
    }
    for (name, value) in &endpoint.headers {
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) || !is_sendable(value) {
            return Err(format!("header {name:?} cannot be sent"));
        }
    }
    Ok(())
}

fn check_model(model: &Model) -> Result<(), String> {
    if model.name.trim().is_empty() {
        return Err("a name is missing".to_owned());
    }
    if model.max_tokens == 0 {
        return Err("max_tokens is to be more than 0".to_owned());
    }
    if model.context.is_some_and(|context| context < 1024) {
        return Err("context is to be 1024 tokens at least: no kernel fits into less".to_owned());
    }
    let price = model.price.unwrap_or_default();
    let amounts = [price.input, price.cached.unwrap_or(0.0), price.output];
    if !amounts
        .iter()
        .all(|amount| *amount >= 0.0 && amount.is_finite())
    {
        return Err("a price is not an amount".to_owned());
    }
    match model.extra.keys().find(|name| OWN.contains(&name.as_str())) {
        Some(name) => Err(format!("extra.{name} is set by R3")),
        None => Ok(()),
    }
}

fn is_sendable(value: &str) -> bool {
    value.bytes().all(|byte| (b' '..0x7f).contains(&byte))
}

/// The key, from where the settings say it is.
fn key(endpoint: &mut Endpoint, origin: &str, look_up: &LookUp<'_>) -> Result<(), SettingsError> {
    let name = &endpoint.name;
    let wrong = |what: String| SettingsError::Value {
        origin: origin.to_owned(),
        what: format!("endpoint {name:?}: {what}"),
    };
    let given = [
        endpoint.key.is_some(),
        endpoint.key_env.is_some(),
        endpoint.key_file.is_some(),
    ];
    if given.iter().filter(|given| **given).count() > 1 {
        return Err(wrong(
            "one of key, key_env and key_file is enough".to_owned(),
        ));
    }
    let text = if let Some(variable) = &endpoint.key_env {
        look_up(variable)
            .ok_or_else(|| wrong(format!("the environment has no {variable} (key_env)")))?
    } else if let Some(path) = &endpoint.key_file {
        small::text(path, small::KEY).map_err(|source| SettingsError::Read {
            path: path.clone(),
            source,
        })?
    } else if let Some(key) = &endpoint.key {
        key.text().to_owned()
    } else {
        return Ok(());
    };
    let text = text.trim();
    if text.is_empty() || !is_sendable(text) {
        return Err(wrong(
            "the key is empty, or has characters that cannot be sent".to_owned(),
        ));
    }
    endpoint.key = Some(Key::new(text));
    Ok(())
}
