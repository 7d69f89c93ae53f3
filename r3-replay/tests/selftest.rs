//! The self-test, as a user runs it, on the CPU device.

use assert_cmd::Command;

#[test]
fn every_exploit_is_caught_and_no_harmless_rewrite_is_refused() {
    let run = Command::cargo_bin("r3-replay")
        .unwrap()
        .args([
            "selftest",
            "--device",
            "cpu",
            "--launch-limit",
            "2",
            "--json",
        ])
        .args(["--cache-size", "0", "--workers", "2"])
        .output()
        .unwrap();
    let said: serde_json::Value = serde_json::from_slice(&run.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&run.stderr)));
    let wrong: Vec<_> = said["cases"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|case| case["ok"] != true)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(said["exploits"]["count"].as_u64().unwrap() >= 26);
    assert!(said["harmless"]["count"].as_u64().unwrap() >= 15);
    assert_eq!(run.status.code(), Some(0));
}
