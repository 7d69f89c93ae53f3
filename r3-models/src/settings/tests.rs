//! Settings as people write them, and what is wrong with some.

use std::path::Path;

use super::read::{from_environment, from_text};
use super::*;

fn read(text: &str) -> Result<Settings, SettingsError> {
    let variables = |name: &str| (name == "THE_KEY").then(|| " secret-key\n".to_owned());
    from_text(text, "models.toml", Path::new("/somewhere"), &variables)
}

const WHOLE: &str = r#"
    [budget]
    cost = 5.0
    tokens = 2_000_000

    [choice]
    idle = 2.5

    [[endpoint]]
    name = "cluster"
    url = "https://llm.example.org/v1"
    key_env = "THE_KEY"
    ca_file = "ca.pem"
    parallel = 8
    requests_per_minute = 60
    timeouts = { first_token = 30.0 }
    pauses = { first = 0.5 }
    headers = { "X-Project" = "r3" }

    [[endpoint]]
    name = "here"
    url = "http://localhost:8080"
    stream = false

    [[model]]
    name = "small"
    endpoint = "here"
    part = "fast"
    price = { input = 0.1, output = 0.1 }

    [[model]]
    name = "large"
    id = "vendor/large"
    endpoint = "cluster"
    price = { input = 3.0, cached = 0.3, output = 15.0 }
    extra = { reasoning_effort = "low", stop = ["x"] }
"#;

#[test]
fn a_whole_file_is_read() {
    let settings = read(WHOLE).unwrap();
    let cluster = &settings.endpoints[0];
    assert_eq!(cluster.key.as_ref().map(Key::text), Some("secret-key"));
    assert_eq!(
        cluster.ca_file.as_deref(),
        Some(Path::new("/somewhere/ca.pem"))
    );
    assert_eq!(cluster.timeouts.first_token, 30.0);
    assert_eq!(cluster.timeouts.attempt, Timeouts::default().attempt);
    assert_eq!(
        settings
            .part(Part::Fast)
            .map(|m| m.name.as_str())
            .collect::<Vec<_>>(),
        ["small"]
    );
    assert_eq!(settings.endpoint_of(&settings.models[0]), Some(1));
    assert_eq!(settings.endpoint_of(&settings.models[1]), Some(0));
}

/// What is written in the documentation is what is read.
#[test]
fn the_documented_file_is_read() {
    let page = include_str!("../../../docs/models.md");
    let file = page
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cluster.key"), "k").unwrap();
    let settings = from_text(file, "models.toml", folder.path(), &|_| None).unwrap();
    let mut expected = Endpoint::new("https://llm.example.org/v1");
    expected.name = "cluster".to_owned();
    let cluster = &settings.endpoints[0];
    // Where it shows a default, that is the default.
    assert_eq!(cluster.timeouts, expected.timeouts);
    assert_eq!(cluster.pauses, expected.pauses);
    assert_eq!(
        (cluster.attempts, cluster.stream),
        (expected.attempts, expected.stream)
    );
    assert_eq!(settings.choice, ChoiceSettings::default());
    assert_eq!(
        settings.models[0].max_tokens,
        Model::new("m", Part::Accurate).max_tokens
    );
    assert_eq!(settings.models.len(), 2);
}

#[test]
fn a_key_is_in_no_debug_text() {
    let text = format!("{:?}", read(WHOLE).unwrap());
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn what_makes_no_sense_is_said() {
    let head = "[[endpoint]]\nurl = 'http://localhost:1'\n";
    let model = "[[model]]\nname = 'm'\n";
    let cases = [
        (String::new(), "no [[endpoint]]"),
        (head.to_owned(), "no [[model]]"),
        (
            format!("{head}{model}{model}"),
            "two models are called \"m\"",
        ),
        (
            format!("{head}{head}{model}"),
            "two endpoints are called \"default\"",
        ),
        (
            format!("{head}{model}endpoint = 'x'"),
            "no endpoint is called \"x\"; there are: default",
        ),
        (
            format!("{head}[[endpoint]]\nname='b'\nurl='http://b'\n{model}"),
            "say which endpoint it is at: default, b",
        ),
        (
            format!("{head}parallel = 0\n{model}"),
            "parallel is to be more than 0",
        ),
        (
            format!("{head}timeouts = {{ connect = nan }}\n{model}"),
            "timeouts.connect is to be more than 0",
        ),
        (
            format!("{head}key = 'a'\nkey_env = 'THE_KEY'\n{model}"),
            "one of key, key_env and key_file",
        ),
        (
            format!("{head}key_env = 'NO_KEY'\n{model}"),
            "the environment has no NO_KEY",
        ),
        (
            format!("{head}headers = {{ 'a b' = 'c' }}\n{model}"),
            "header \"a b\"",
        ),
        (
            format!("{head}{model}extra = {{ stream = true }}"),
            "extra.stream is set by R3",
        ),
        (format!("{head}{model}part = 'slow'"), "slow"),
        (format!("{head}{model}prise = 1"), "prise"),
        (
            format!("[[endpoint]]\nurl = 'localhost:1'\n{model}"),
            "write it as http://host:8000/v1",
        ),
        (
            format!("[budget]\ncost = 1.0\n{head}{model}"),
            "has no price",
        ),
    ];
    for (text, wanted) in cases {
        let error = read(&text).unwrap_err().to_string();
        assert!(error.contains(wanted), "{text}: {error}");
        assert!(error.starts_with("models.toml: "), "{error}");
    }
}

#[test]
fn the_environment_names_an_endpoint_and_models() {
    let read = |variables: &[(&str, &str)]| {
        let look_up = |name: &str| {
            variables
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, value)| (*value).to_owned())
        };
        from_environment(&look_up)
    };
    assert!(read(&[]).unwrap().is_none());
    // Set for other programs, these start nothing.
    assert!(
        read(&[
            ("OPENAI_BASE_URL", "https://a.example/v1"),
            ("OPENAI_API_KEY", "k")
        ])
        .unwrap()
        .is_none()
    );
    let settings = read(&[
        ("R3_MODEL_URL", "http://localhost:11434"),
        ("R3_MODEL", "qwen:7b, llama"),
        ("R3_MODEL_FAST", "tiny"),
        ("R3_MODEL_CONTEXT", "8192"),
        ("OPENAI_API_KEY", "k"),
    ])
    .unwrap()
    .unwrap();
    let names: Vec<_> = settings
        .models
        .iter()
        .map(|m| (m.name.as_str(), m.part))
        .collect();
    assert_eq!(
        names,
        [
            ("qwen:7b", Part::Accurate),
            ("llama", Part::Accurate),
            ("tiny", Part::Fast)
        ]
    );
    assert!(settings.models.iter().all(|m| m.context == Some(8192)));
    // A third is kept for the answer: 2730 tokens.
    assert_eq!(settings.models[0].prompt_bytes(), Some(13_655));
    assert_eq!(
        settings.endpoints[0].key, None,
        "the key of another service"
    );
    let settings = read(&[
        ("OPENAI_BASE_URL", "https://a.example/v1"),
        ("OPENAI_API_KEY", "k"),
        ("R3_MODEL", "m"),
        ("SSL_CERT_FILE", "/ca.pem"),
    ])
    .unwrap()
    .unwrap();
    assert_eq!(settings.endpoints[0].key.as_ref().map(Key::text), Some("k"));
    assert_eq!(settings.roots.as_deref(), Some(Path::new("/ca.pem")));
    for (variables, wanted) in [
        (vec![("R3_MODEL", "m")], "set R3_MODEL_URL"),
        (
            vec![
                ("R3_MODEL_URL", "http://a"),
                ("R3_MODEL", "m"),
                ("R3_MODEL_CONTEXT", "8k"),
            ],
            "no number of tokens",
        ),
        (
            vec![
                ("R3_MODEL_URL", "http://a"),
                ("R3_MODEL", "m"),
                ("R3_MODEL_CONTEXT", "512"),
            ],
            "1024 tokens at least",
        ),
        (vec![("R3_MODEL_URL", "http://a")], "R3_MODEL"),
        (
            vec![("R3_MODEL_URL", "http://a"), ("R3_MODEL_EMBEDDING", "e")],
            "an endpoint without models",
        ),
    ] {
        let error = read(&variables).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}
