//! Test functions of optimisation on whole numbers, names, conditions and orders. `scripts/compare-optuna.py` has the same ones,
//! so that the strategies here and those of Optuna can be held against each other.

use super::subject::{Source, Subject};
use crate::space::{Condition, Domain, Parameter, Point, Space, Value};

/// All of them.
#[must_use]
pub fn all() -> Vec<Subject> {
    let number = |name: &str, low: i64, high: i64| {
        parameter(
            name,
            Domain::Integer {
                low,
                high,
                log: false,
                default: low,
            },
        )
    };
    vec![
        subject(
            "branin",
            vec![number("x", 0, 100), number("y", 0, 100)],
            branin,
            0.403_77,
        ),
        subject(
            "hartmann6",
            (1..=6).map(|at| number(&format!("x{at}"), 0, 50)).collect(),
            hartmann6,
            0.183_18,
        ),
        subject("mixed", mixed_parameters(), mixed, 0.337_36),
        subject("conditional", conditional_parameters(), conditional, 0.3),
        subject(
            "order",
            vec![parameter(
                "order",
                Domain::Permutation(CITIES.iter().map(|(name, ..)| (*name).to_owned()).collect()),
            )],
            order,
            0.598_97,
        ),
    ]
}

fn subject(
    name: &str,
    parameters: Vec<Parameter>,
    function: fn(&Point) -> f64,
    least: f64,
) -> Subject {
    Subject {
        name: name.to_owned(),
        synthetic: true,
        about: "a test function".to_owned(),
        space: Space {
            kernel: None,
            parameters,
            never: Vec::new(),
            start: Vec::new(),
        },
        source: Source::Function(function, least),
        noise: 0.0,
    }
}

fn parameter(name: &str, domain: Domain) -> Parameter {
    Parameter {
        name: name.to_owned(),
        domain,
        when: Vec::new(),
        varied: true,
        dropped: Vec::new(),
        why: String::new(),
    }
}

fn names(of: &[&str]) -> Domain {
    Domain::Choice(of.iter().map(|name| (*name).to_owned()).collect())
}

fn number(point: &Point, name: &str) -> f64 {
    point.get(name).and_then(Value::number).unwrap_or(0) as f64
}

/// Branin's function on a grid of 101 by 101; its least value there is 0.40377.
fn branin(point: &Point) -> f64 {
    use std::f64::consts::PI;
    let x = -5.0 + 15.0 * number(point, "x") / 100.0;
    let y = 15.0 * number(point, "y") / 100.0;
    let square = y - 5.1 / (4.0 * PI * PI) * x * x + 5.0 / PI * x - 6.0;
    square * square + 10.0 * (1.0 - 1.0 / (8.0 * PI)) * x.cos() + 10.0
}

/// Hartmann's function of six variables on a grid of 51 in each, raised by 3.5 so that it is positive; its least value
/// there is 0.18318.
fn hartmann6(point: &Point) -> f64 {
    const ALPHA: [f64; 4] = [1.0, 1.2, 3.0, 3.2];
    const A: [[f64; 6]; 4] = [
        [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
        [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
        [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
        [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
    ];
    const P: [[f64; 6]; 4] = [
        [1312.0, 1696.0, 5569.0, 124.0, 8283.0, 5886.0],
        [2329.0, 4135.0, 8307.0, 3736.0, 1004.0, 9991.0],
        [2348.0, 1451.0, 3522.0, 2883.0, 3047.0, 6650.0],
        [4047.0, 8828.0, 8732.0, 5743.0, 1091.0, 381.0],
    ];
    let mut sum = 0.0;
    for ((alpha, a), p) in ALPHA.iter().zip(&A).zip(&P) {
        let inner: f64 = a
            .iter()
            .zip(p)
            .enumerate()
            .map(|(at, (a, p))| {
                let x = number(point, &format!("x{}", at + 1)) / 50.0;
                a * (x - p * 1e-4).powi(2)
            })
            .sum();
        sum += alpha * (-inner).exp();
    }
    3.5 - sum
}

fn mixed_parameters() -> Vec<Parameter> {
    vec![
        parameter("kind", names(&["a", "b", "c", "d", "e", "f"])),
        parameter("mode", names(&["off", "slow", "fast", "auto"])),
        parameter("flag", names(&["no", "yes"])),
        parameter(
            "size",
            Domain::Integer {
                low: 1,
                high: 4096,
                log: true,
                default: 1,
            },
        ),
        parameter(
            "depth",
            Domain::Integer {
                low: 0,
                high: 20,
                log: false,
                default: 0,
            },
        ),
    ]
}

/// Names with effects of their own, one pair that is good only together, and two numbers, one of them on a logarithmic scale. Its
/// least value is 0.33736.
fn mixed(point: &Point) -> f64 {
    let place = |name: &str, of: &[&str]| {
        let text = point.text(name).unwrap_or_default();
        of.iter().position(|one| *one == text).unwrap_or(0)
    };
    let kind = place("kind", &["a", "b", "c", "d", "e", "f"]);
    let mode = place("mode", &["off", "slow", "fast", "auto"]);
    let flag = place("flag", &["no", "yes"]);
    let of_kind = [1.0, 0.95, 1.1, 0.9, 1.3, 1.0][kind];
    let of_mode = [1.0, 1.2, 0.85, 0.95][mode];
    let together = if kind == 5 && flag == 1 { 0.75 } else { 1.0 };
    let size = (number(point, "size").max(1.0)).log2();
    let depth = number(point, "depth");
    let numbers = 0.6 + 0.02 * (size - 7.0).powi(2) + 0.003 * (depth - 13.0).powi(2);
    let flag_alone = if flag == 1 { 1.05 } else { 1.0 };
    let best = of_kind * of_mode * together * flag_alone * numbers;
    // The pair with the fast mode.
    if kind == 5 && flag == 1 && mode == 2 {
        best * 0.84
    } else {
        best
    }
}

fn conditional_parameters() -> Vec<Parameter> {
    let when = |parameter: &str, value: &str| {
        vec![Condition {
            parameter: parameter.to_owned(),
            values: vec![value.to_owned()],
        }]
    };
    let whole = |name: &str, high: i64| {
        parameter(
            name,
            Domain::Integer {
                low: 0,
                high,
                log: false,
                default: 0,
            },
        )
    };
    vec![
        parameter("route", names(&["plain", "left", "right"])),
        Parameter {
            when: when("route", "left"),
            ..whole("left_x", 30)
        },
        Parameter {
            when: when("route", "left"),
            ..whole("left_y", 30)
        },
        Parameter {
            when: when("route", "right"),
            ..whole("right_x", 30)
        },
        Parameter {
            when: when("route", "right"),
            ..parameter("right_mode", names(&["one", "two", "three", "four"]))
        },
        whole("common", 10),
    ]
}

/// Three routes with parameters of their own; the best one has the narrowest valley. Its least value is 0.3.
fn conditional(point: &Point) -> f64 {
    let common = 0.01 * (number(point, "common") - 4.0).powi(2);
    let route = match point.text("route").unwrap_or_default() {
        "left" => {
            let x = number(point, "left_x") - 21.0;
            let y = number(point, "left_y") - 8.0;
            0.5 + 0.002 * (x * x + y * y)
        }
        "right" => {
            let mode = match point.text("right_mode").unwrap_or_default() {
                "three" => 0.0,
                "four" => 0.15,
                _ => 0.4,
            };
            let x = number(point, "right_x") - 17.0;
            0.3 + mode + 0.008 * x * x
        }
        _ => 0.8,
    };
    route + common
}

/// Places for a round trip; what counts is in which order they are visited.
const CITIES: &[(&str, f64, f64)] = &[
    ("a", 0.0, 0.0),
    ("b", 6.0, 1.0),
    ("c", 1.0, 5.0),
    ("d", 7.0, 7.0),
    ("e", 3.0, 2.0),
    ("f", 9.0, 4.0),
    ("g", 2.0, 8.0),
    ("h", 5.0, 5.0),
];

/// Length of the round trip, as a part of 50.
fn order(point: &Point) -> f64 {
    let Some(order) = point.get("order").and_then(Value::list) else {
        return 1.0;
    };
    let place = |name: &String| {
        let city = CITIES.iter().find(|(city, ..)| city == name);
        city.map_or((0.0, 0.0), |(_, x, y)| (*x, *y))
    };
    let next = order.iter().cycle().skip(1);
    let length: f64 = order
        .iter()
        .zip(next)
        .map(|(from, to)| {
            let ((x1, y1), (x2, y2)) = (place(from), place(to));
            ((x1 - x2).powi(2) + (y1 - y2).powi(2)).sqrt()
        })
        .sum();
    length / 50.0
}
