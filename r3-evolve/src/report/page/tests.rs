use std::collections::BTreeMap;

use super::*;
use crate::elites::{AxisView, Cell, CellView, GridView};
use crate::evolve::variant::{IslandNumber, VariantNumber};
use crate::islands::Occupancy;
use crate::report::data::{Claim, Curve, Island, Operator, Step, Times};

const GIVEN: &str =
    "__global__ void k(float *x) {\n  int i = threadIdx.x;\n  x[i] = x[i] / sqrtf(x[i]);\n}\n";

fn times(median: f64) -> Times {
    Times {
        median,
        low: median - 0.01,
        high: median + 0.01,
    }
}

fn occupancy(island: u32) -> Occupancy {
    Occupancy {
        island: IslandNumber(island),
        opened: 12,
        born: 4,
        arrived: 1,
        filled: 3,
        own_elites: 2,
        size: 9,
        best: Some((VariantNumber(4), 0.7)),
    }
}

/// A run with two islands, in which one variant is wrong.
fn example() -> Report {
    let variant = |number: i64, parent: i64, median: Option<f64>| Variant {
        number,
        island: (number % 2).unsigned_abs() as u32,
        operator: if number == 1 { "original" } else { "rewrite" }.to_owned(),
        by: if number == 1 { "" } else { "rsqrt" }.to_owned(),
        what: if number == 1 {
            ""
        } else {
            "a / sqrtf(b) becomes a * rsqrtf(b)"
        }
        .to_owned(),
        parents: (parent > 0).then_some(parent).into_iter().collect(),
        verdict: if median.is_some() { "right" } else { "wrong" }.to_owned(),
        elite: median.is_some(),
        checked: true,
        times: median.map(times),
        text: GIVEN.replace("i]", &format!("i + {}]", number - 1)),
        diff: if parent > 0 {
            "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"
        } else {
            ""
        }
        .to_owned(),
        ..Variant::default()
    };
    let cell = |bins: [u16; 2], number: i64, ratio: f64| CellView {
        cell: Cell(bins.iter().map(|bin| Some(*bin)).collect()),
        number: VariantNumber(number),
        ratio,
        values: vec![Some(10.0), Some(0.1)],
    };
    let axis = |name: &str, edges: &[f64]| AxisView {
        name: name.to_owned(),
        title: format!("{name} of it"),
        edges: edges.to_vec(),
    };
    let island = |number: u32, cells: Vec<CellView>| Island {
        occupancy: occupancy(number),
        grid: GridView {
            axes: vec![
                axis("tokens", &[40.5, 50.0]),
                axis("distance", &[0.1, 0.25]),
            ],
            cells,
            members: 5,
        },
        mix: vec![("rewrite".to_owned(), 1.0)],
    };
    Report {
        kernel: "k(float*)".to_owned(),
        file: "k.cu".to_owned(),
        device: "the CPU device".to_owned(),
        claim: Claim {
            claimed: true,
            headline: "30.0 % less time".to_owned(),
            said: vec!["It was measured again.".to_owned()],
            not_said: vec!["Other inputs.".to_owned()],
        },
        source: Some(times(1.02)),
        best: Some(4),
        curve: Curve {
            steps: vec![
                Step {
                    evaluations: 1,
                    seconds: 2.0,
                    variant: 1,
                    times: times(1.02),
                },
                Step {
                    evaluations: 20,
                    seconds: 9.0,
                    variant: 4,
                    times: times(0.7),
                },
            ],
            evaluations: 40,
            variants: 5,
            seconds: 20.0,
            ..Curve::default()
        },
        islands: vec![
            island(
                0,
                vec![
                    cell([0, 0], 1, 1.02),
                    cell([1, 2], 2, 0.9),
                    cell([2, 1], 4, 0.7),
                ],
            ),
            island(1, vec![cell([0, 0], 1, 1.02), cell([2, 2], 4, 0.7)]),
        ],
        variants: vec![
            variant(1, 0, Some(1.02)),
            variant(2, 1, Some(0.9)),
            variant(3, 2, None),
            variant(4, 2, Some(0.7)),
        ],
        operators: vec![Operator {
            name: "rewrite".to_owned(),
            proposals: 5,
            right: 4,
            gain: 0.3,
            evaluations: 40,
            ..Operator::default()
        }],
        environment: vec![("device".to_owned(), "the CPU device".to_owned())],
        ..Report::default()
    }
}

fn data(page: &str) -> Report {
    let begin = "<script type=\"text/plain\" id=\"data\">";
    let from = page.find(begin).unwrap() + begin.len();
    let to = page[from..].find("</script>").unwrap();
    pack::tests::unpack(&page[from..from + to])
}

#[test]
fn what_can_be_scrolled_is_reached_by_the_keyboard() {
    let page = page(&example());
    let boxes: Vec<&str> = page.split("<pre").skip(1).collect();
    assert!(!boxes.is_empty());
    for one in boxes {
        let tag = one.split('>').next().unwrap_or_default();
        assert!(tag.contains("tabindex=\"0\""), "{tag}");
    }
}

#[test]
fn the_page_has_the_report_s_data_and_everything_that_is_said() {
    let report = example();
    let page = page(&report);
    assert_eq!(data(&page), report);
    for said in [
        "30.0 % less time",
        "It was measured again.",
        "Other inputs.",
        "source as given",
        "Island 1",
        "<h2 id=\"lineage-title\">Lineage</h2>",
    ] {
        assert!(page.contains(said), "{said}");
    }
}

#[test]
fn a_page_asks_nothing_of_a_network() {
    let page = page(&example());
    assert!(page.contains("default-src 'none'"));
    for reference in [
        "src=", "http://", "https://", "@import", "url(", "<link", "<img", "<iframe",
    ] {
        assert!(!page.contains(reference), "{reference}");
    }
}

#[test]
fn no_text_of_a_run_becomes_part_of_the_page() {
    let hostile = "</script><script>alert(1)</script><img src=x onerror=\"alert(2)\">'\"<!-- \0\u{2028}\u{202e}]]>";
    let mut report = example();
    report.kernel = hostile.to_owned();
    report.file = hostile.to_owned();
    report.claim.headline = hostile.to_owned();
    report.claim.said = vec![hostile.to_owned()];
    report.environment = vec![(hostile.to_owned(), hostile.to_owned())];
    report.notes = vec![hostile.to_owned()];
    report.operators[0].name = hostile.to_owned();
    for variant in &mut report.variants {
        for text in [
            &mut variant.text,
            &mut variant.what,
            &mut variant.by,
            &mut variant.operator,
            &mut variant.verdict,
            &mut variant.diff,
        ] {
            *text = format!("--- \n+++ \n{hostile}");
        }
        variant.reason = Some(hostile.to_owned());
        variant.configuration = vec![hostile.to_owned()];
    }
    for island in &mut report.islands {
        island.mix = vec![(hostile.to_owned(), 1.0)];
        for axis in &mut island.grid.axes {
            axis.title = hostile.to_owned();
        }
    }
    let page = page(&report);
    let calm = super::page(&example());
    let count = |page: &str, text: &str| page.matches(text).count();
    for tag in ["<script", "</script", "<img", "<!--", "onerror=\"alert(2)"] {
        assert_eq!(count(&page, tag), count(&calm, tag), "{tag}");
    }
    assert_eq!(data(&page), report);
}

#[test]
fn every_elite_is_a_button_in_the_cell_of_its_row_and_column() {
    let page = page(&example());
    let mut cells: BTreeMap<&str, usize> = BTreeMap::new();
    for part in page
        .split("<button type=\"button\" data-variant=\"")
        .skip(1)
    {
        *cells.entry(part.split('"').next().unwrap()).or_default() += 1;
    }
    assert_eq!(cells, BTreeMap::from([("1", 2), ("2", 1), ("4", 2)]));
    // Three rows of three cells on each island.
    assert_eq!(page.matches("<th scope=\"row\">").count(), 6);
    assert_eq!(page.matches("<td class=\"empty\">").count(), 18 - 5);
}

#[test]
fn the_lineage_has_elites_and_their_ancestors_with_lists_that_end() {
    let mut out = String::new();
    lineage::tree(&mut out, &example()).unwrap();
    assert_eq!(out.matches("<li").count(), 3);
    assert_eq!(out.matches("<ul").count(), out.matches("</ul>").count());
    assert_eq!(out.matches("<li").count(), out.matches("</li>").count());
    assert!(
        out.contains("1 variant that led to none of them is left out"),
        "{out}"
    );
}

#[test]
fn a_tree_of_many_generations_is_not_deep_and_says_what_comes_of_what() {
    let mut report = example();
    // A line of hundreds, and at each of them a child that leads nowhere further.
    report.variants = (1..=600)
        .map(|number| Variant {
            number,
            elite: true,
            parents: match number {
                1 => Vec::new(),
                2 => vec![1],
                number if number % 2 == 0 => vec![number - 2],
                number => vec![number - 1],
            },
            ..Variant::default()
        })
        .collect();
    report.best = Some(600);
    let mut out = String::new();
    lineage::tree(&mut out, &report).unwrap();
    assert_eq!(out.matches("<li").count(), 600);
    let (mut depth, mut most) = (0i64, 0);
    for part in out.split('<') {
        depth += i64::from(part.starts_with("ul")) - i64::from(part.starts_with("/ul"));
        most = most.max(depth);
    }
    assert_eq!((depth, most), (0, 2), "{out}");
    assert!(out.contains("of 300:"));
}

#[test]
fn a_name_of_thousands_of_letters_does_not_fill_the_page() {
    let mut report = example();
    report.kernel = "void k<".to_owned() + &"std::tuple<int, ".repeat(300);
    let page = page(&report);
    let heading = &page[page.find("<h1>").unwrap()..page.find("</h1>").unwrap()];
    assert!(heading.len() < 1000, "{heading}");
    assert_eq!(page.matches(&super::html(&report.kernel)).count(), 1);
}

#[test]
fn a_run_in_which_nothing_is_right_has_a_page() {
    let page = page(&Report::default());
    assert!(page.contains("No variant is right so far"));
    // What is wrong can be chosen all the same.
    assert!(page.contains("id=\"variant\""));
    assert!(page.contains("Nothing was measured at length"));
    assert_eq!(data(&page), Report::default());
}

#[test]
fn more_than_two_axes_are_several_tables_and_one_is_a_row() {
    let mut report = example();
    for island in &mut report.islands {
        let mut third = island.grid.axes[0].clone();
        third.name = "registers".to_owned();
        third.title = "registers of a thread".to_owned();
        island.grid.axes.push(third);
        for (place, cell) in island.grid.cells.iter_mut().enumerate() {
            cell.cell.0.push((place > 0).then_some(1));
        }
    }
    let with_three = page(&report);
    assert_eq!(with_three.matches("<table class=\"heat\"").count(), 4);
    assert!(with_three.contains("registers of a thread: not known"));
    assert!(with_three.contains("registers of a thread: 40.5–50"));
    for island in &mut report.islands {
        island.grid.axes.truncate(1);
        for cell in &mut island.grid.cells {
            cell.cell.0.truncate(1);
        }
    }
    let with_one = page(&report);
    assert_eq!(with_one.matches("<table class=\"heat\"").count(), 2);
    assert!(with_one.contains("<caption>tokens of it</caption>"));
}
