//! The page of a search over source, made by the programs and opened in a real browser.
//!
//! Without a browser the test says so and does nothing: `scripts/setup.sh` installs one where it can. `R3_BROWSER` names another
//! one; `R3_PICTURES` names a folder in which pictures of the page are left.

#[path = "../browser/mod.rs"]
mod browser;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use browser::Browser;
use r3_tests::{Bed, End};
use serde_json::Value;

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../capture-samples")
        .join(name)
}

/// What a source may hold: in a page it must stay text, and be seen.
const HOSTILE: &str = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\"><!-- \u{2028}\u{202e}";

/// A text as the page shows it.
fn shown(text: &str) -> String {
    text.replace('\u{2028}', "⟨U+2028⟩")
        .replace('\u{202e}', "⟨U+202E⟩")
}

/// A small search over source on the CPU device, its page, and what is in the page.
fn searched(bed: &Bed) -> (PathBuf, Value) {
    let folder = bed.path();
    for (from, to) in [
        ("archives/reduction.r3", "a.r3"),
        ("programs/reduction.cu", "reduction.cu"),
        ("programs/sample.h", "sample.h"),
    ] {
        std::fs::copy(sample(from), folder.join(to)).expect("a copy of the sample");
    }
    let source = folder.join("reduction.cu");
    let text = std::fs::read_to_string(&source).expect("the sample");
    let begin = "    float sum = 0.0f;\n";
    assert!(text.contains(begin));
    let with = text.replacen(begin, &format!("{begin}    // {HOSTILE}\n"), 1);
    std::fs::write(&source, with).expect("a source");
    let run = bed
        .evolve(&[
            "evolve",
            "a.r3",
            "--kernel",
            "block_sums",
            "--source",
            "reduction.cu",
            "--run",
            "run",
            "--device",
            "cpu",
            "--workers",
            "2",
            "--seed",
            "7",
            "--islands",
            "2",
            "--evaluations",
            "40",
            "--migration",
            "4",
            "--compiler",
            "clang",
            "--quiet",
        ])
        .run();
    assert_eq!(run.end, End::Exit(0), "{run}");
    let run = bed.evolve(&["report", "run"]).run();
    assert_eq!(run.end, End::Exit(0), "{run}");
    let json = bed.evolve(&["report", "run", "--json"]).run();
    assert_eq!(json.end, End::Exit(0), "{json}");
    let report = serde_json::from_str(&json.stdout).expect("a report");
    (folder.join("run/report.html"), report)
}

fn variant(report: &Value, number: i64) -> &Value {
    let variants = report["variants"].as_array().expect("variants");
    let found = variants.iter().find(|one| one["number"] == number);
    found.unwrap_or_else(|| panic!("there is no variant {number}"))
}

/// A picture for whoever wants to look at the page.
fn keep(name: &str, bytes: &[u8]) {
    if let Some(folder) = std::env::var_os("R3_PICTURES") {
        std::fs::write(Path::new(&folder).join(name), bytes).expect("a picture is written");
    }
}

/// Also those that are in no cell: by lists of how variants came out. Each has the text that its difference makes of its parent's.
fn every_variant_can_be_chosen(browser: &mut Browser, report: &Value) {
    let lists = browser.value("document.querySelectorAll('#all details').length");
    for list in 1..=lists.as_u64().expect("a number") {
        let list = format!("#all details:nth-of-type({list})");
        browser.click(&format!("{list} > summary"));
        // What is in it comes after the click, and moves all that is below.
        browser.wait_until(&format!("document.querySelector('{list} li') !== null"));
    }
    let variants = report["variants"].as_array().expect("variants");
    browser.wait_until(&format!(
        "document.querySelectorAll('#all a').length === {}",
        variants.len()
    ));
    for one in variants {
        let number = &one["number"];
        browser.click(&format!("#all a[data-variant=\"{number}\"]"));
        assert_eq!(browser.text("#variant h3"), format!("Variant {number}"));
        let diff = one["diff"].as_str().expect("a difference");
        assert_eq!(browser.text("#variant pre.diff"), shown(diff));
        let text = browser.text("#variant pre.source");
        assert!(text.contains(&shown(HOSTILE)), "{text}");
        for line in diff.lines().skip(2) {
            if let Some(line) = line.strip_prefix(['+', ' ']) {
                assert!(text.contains(&shown(line)), "{line} in {text}");
            }
        }
    }
}

#[test]
fn a_click_at_a_cell_shows_the_source_that_is_that_cell_s() {
    let Some(program) = browser::find() else {
        eprintln!("skipped: there is no browser");
        return;
    };
    let bed = Bed::new();
    let (page, report) = searched(&bed);
    let mut browser = Browser::start(&program, 1400, 1000);
    browser.open(&page);
    browser.wait_until("document.querySelector('#variant h3') !== null");

    // Every elite of every island is a button, on the island that it is an elite of.
    let islands = report["islands"].as_array().expect("islands");
    assert_eq!(islands.len(), 2);
    let mut elites = BTreeSet::new();
    for island in islands {
        let number = &island["occupancy"]["island"];
        for cell in island["grid"]["cells"].as_array().expect("cells") {
            let elite = cell["number"].as_i64().expect("a number");
            elites.insert(elite);
            let selector =
                format!(".heat[data-island=\"{number}\"] button[data-variant=\"{elite}\"]");
            assert!(!browser.text(&selector).is_empty(), "{selector}");
        }
    }
    assert!(elites.len() > 2, "{elites:?}");

    // Each one, clicked with the mouse, shows its own file and says whose it is.
    let best = report["best"].as_i64().expect("a best variant");
    assert_eq!(browser.text("#variant h3"), format!("Variant {best}"));
    for elite in &elites {
        browser.click(&format!(".heat button[data-variant=\"{elite}\"]"));
        assert_eq!(browser.text("#variant h3"), format!("Variant {elite}"));
        let expected = variant(&report, *elite);
        let text = expected["text"].as_str().expect("a text");
        assert!(text.contains(HOSTILE));
        assert_eq!(browser.text("#variant pre.source"), shown(text));
        assert_eq!(
            browser.text("#variant pre.diff"),
            shown(expected["diff"].as_str().expect("a difference"))
        );
        let pressed = browser.value("[...document.querySelectorAll('.heat [aria-pressed=true]')].map((one) => one.dataset.variant)");
        let pressed = pressed.as_array().expect("buttons");
        let number = elite.to_string();
        assert!(
            !pressed.is_empty() && pressed.iter().all(|one| one.as_str() == Some(&number)),
            "{pressed:?}"
        );
    }
    keep("light.png", &browser.picture());
    keep("page.pdf", &browser.print());

    every_variant_can_be_chosen(&mut browser, &report);
    // Data that are cut off end with an error, and not never.
    for bytes in ["", "0", "4", "0, 0, 0, 0, 0"] {
        let cut = format!("inflate(new Uint8Array([{bytes}]))");
        let said = browser.value(&format!(
            "(() => {{ try {{ {cut}; return \"nothing\"; }} catch (error) {{ return error.message; }} }})()"
        ));
        assert_eq!(said, "the data is damaged", "{bytes}");
    }
    let title = browser.value("document.title");
    assert!(
        title
            .as_str()
            .is_some_and(|title| title.contains("block_sums")),
        "{title}"
    );

    // By the keyboard alone: an arrow goes to another cell, Enter chooses it.
    browser.value("document.querySelector('.heat button').focus()");
    let ways = ["ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"];
    let first = browser.value("document.activeElement.dataset.variant");
    for way in ways {
        browser.press(way);
        if browser.value("document.activeElement.dataset.variant") != first {
            break;
        }
    }
    let focused = browser.value("document.activeElement.dataset.variant");
    browser.press("Enter");
    let focused = focused.as_str().expect("a cell has the focus");
    assert_eq!(browser.text("#variant h3"), format!("Variant {focused}"));

    // A link of the lineage chooses too, and the address says it.
    browser.click("#lineage a[data-variant=\"1\"]");
    assert_eq!(browser.text("#variant h3"), "Variant 1");
    assert_eq!(browser.value("location.hash"), "#v1");

    // Both schemes have ink that can be told from paper.
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        let contrast = browser.value(
            "(() => { const of = getComputedStyle(document.body); \
             const light = (colour) => { const [r, g, b] = colour.match(/[\\d.]+/g).map(Number); return (r + g + b) / 3; }; \
             return Math.abs(light(of.color) - light(of.backgroundColor)); })()",
        );
        assert!(
            contrast.as_f64().expect("a number") > 150.0,
            "{scheme}: {contrast}"
        );
    }
    keep("dark.png", &browser.picture());

    assert_eq!(
        browser.asked,
        [format!("file://{}", page.display())],
        "the page asks for something"
    );
    assert_eq!(
        browser.complaints,
        Vec::<String>::new(),
        "the page complains"
    );
}
