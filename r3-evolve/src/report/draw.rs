//! The curve of a page, as SVG: how the best became better.

use std::fmt::Write;

use super::data::{Report, Times};
use super::escape::html;
use super::words;

/// Size of the drawing, in its own units.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 310.0;
/// What is around the plot: left, right, top, bottom.
const MARGIN: (f64, f64, f64, f64) = (70.0, 132.0, 24.0, 44.0);
/// Least distance of two labels at the right.
const APART: f64 = 15.0;

/// Least distance of two pauses that are both named.
const NAMED: f64 = 110.0;

/// From values to places.
struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        let part = (value - self.from) / (self.to - self.from).max(f64::MIN_POSITIVE);
        self.start + part.clamp(-0.05, 1.05) * (self.end - self.start)
    }

    /// Round values along it, about so many.
    fn ticks(&self, about: f64) -> Vec<f64> {
        let span = (self.to - self.from).max(1e-9);
        let raw = span / about;
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= raw)
            .unwrap_or(raw);
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step + 1e-9).floor() as i64;
        (first..=last).take(20).map(|i| i as f64 * step).collect()
    }
}

/// The curve. Nothing before something right was measured.
#[must_use]
pub fn curve(of: &Report) -> String {
    let steps = &of.curve.steps;
    if steps.is_empty() {
        return String::new();
    }
    let mut least = f64::INFINITY;
    let mut most = 1.0f64;
    for times in steps.iter().map(|step| step.times).chain(of.source) {
        least = least.min(times.low);
        most = most.max(times.high);
    }
    let pad = ((most - least) * 0.08).max(0.005);
    let (left, right, top, bottom) = MARGIN;
    let x = Scale {
        from: 0.0,
        to: of.curve.evaluations.max(1) as f64,
        start: left,
        end: WIDTH - right,
    };
    let y = Scale {
        from: (least - pad).max(0.0),
        to: most + pad,
        start: HEIGHT - bottom,
        end: top,
    };
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_curve(&mut out, of, &x, &y);
    out
}

fn write_curve(out: &mut String, of: &Report, x: &Scale, y: &Scale) -> std::fmt::Result {
    let steps = &of.curve.steps;
    let last = steps.last().map(|step| step.times).unwrap_or_default();
    writeln!(
        out,
        "<svg class=\"curve\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        html(&format!(
            "Best time so far over {} evaluations: from {} to {} of the captured binary's",
            of.curve.evaluations,
            steps
                .first()
                .map_or_else(String::new, |one| words::times(&one.times)),
            words::times(&last)
        ))
    )?;
    axes(out, x, y)?;
    pauses(out, of, x, y)?;
    let mut labels = vec![(1.0, "captured binary".to_owned(), "captured")];
    if let Some(source) = of.source {
        if source.low < source.high {
            writeln!(
                out,
                "<rect class=\"band source\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                x.start,
                y.at(source.high),
                x.end - x.start,
                y.at(source.low) - y.at(source.high)
            )?;
        }
        labels.push((source.median, "source as given".to_owned(), "source"));
    }
    for (value, _, class) in &labels {
        writeln!(
            out,
            "<line class=\"baseline {class}\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{2:.1}\" y2=\"{2:.1}\"/>",
            x.start,
            x.end,
            y.at(*value)
        )?;
    }
    writeln!(out, "<path class=\"band best\" d=\"{}\"/>", band(of, x, y))?;
    writeln!(out, "<path class=\"line best\" d=\"{}\"/>", line(of, x, y))?;
    for step in steps {
        writeln!(
            out,
            "<a href=\"#v{0}\" data-variant=\"{0}\"><circle cx=\"{1:.1}\" cy=\"{2:.1}\" r=\"4.5\"><title>{3}</title></circle></a>",
            step.variant,
            x.at(step.evaluations as f64),
            y.at(step.times.median),
            html(&format!(
                "variant {}, after {} and {}: {}",
                step.variant,
                words::count(step.evaluations, "evaluation"),
                words::duration(step.seconds),
                words::times(&step.times)
            ))
        )?;
    }
    labels.push((last.median, format!("best: {:.3}", last.median), "best"));
    for (place, text, class) in spread(labels, y) {
        writeln!(
            out,
            "<text class=\"label {class}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x.end + 8.0,
            place + 4.0,
            html(&text)
        )?;
    }
    writeln!(out, "</svg>")
}

/// Where the search did not go on: no evaluation says so.
fn pauses(out: &mut String, of: &Report, x: &Scale, y: &Scale) -> std::fmt::Result {
    let mut named = f64::NEG_INFINITY;
    for pause in &of.curve.pauses {
        let at = x.at(pause.evaluations as f64);
        let long = pause.seconds.map(words::duration);
        writeln!(
            out,
            "<g class=\"pause\"><line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/><title>{}</title>",
            y.start,
            y.end,
            html(&match &long {
                Some(long) => format!("{} ({long})", pause.why),
                None => pause.why.clone(),
            })
        )?;
        if at - named >= NAMED {
            named = at;
            let text = long.map_or_else(|| "stopped".to_owned(), |long| format!("paused {long}"));
            // Within the plot at its right end.
            let (place, class) = if x.end - at < NAMED {
                (at - 4.0, "end")
            } else {
                (at + 4.0, "begin")
            };
            writeln!(
                out,
                "<text class=\"{class}\" x=\"{place:.1}\" y=\"{:.1}\">{}</text>",
                y.end - 6.0,
                html(&text)
            )?;
        }
        writeln!(out, "</g>")?;
    }
    Ok(())
}

fn axes(out: &mut String, x: &Scale, y: &Scale) -> std::fmt::Result {
    let ticks = y.ticks(5.0);
    let digits = digits(&ticks);
    let middle = f64::midpoint(y.start, y.end);
    writeln!(
        out,
        "<text class=\"tick middle\" x=\"14\" y=\"{middle:.1}\" transform=\"rotate(-90 14 {middle:.1})\">part of the captured binary's time</text>"
    )?;
    for tick in ticks {
        writeln!(
            out,
            "<line class=\"rule\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{2:.1}\" y2=\"{2:.1}\"/><text class=\"tick end\" x=\"{3:.1}\" y=\"{4:.1}\">{5:.6$}</text>",
            x.start,
            x.end,
            y.at(tick),
            x.start - 8.0,
            y.at(tick) + 4.0,
            tick,
            digits
        )?;
    }
    for tick in x.ticks(6.0) {
        writeln!(
            out,
            "<text class=\"tick middle\" x=\"{:.1}\" y=\"{:.1}\">{tick}</text>",
            x.at(tick),
            y.start + 18.0
        )?;
    }
    writeln!(
        out,
        "<line class=\"axis\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{2:.1}\" y2=\"{2:.1}\"/>\
         <text class=\"tick middle\" x=\"{3:.1}\" y=\"{4:.1}\">evaluations</text>",
        x.start,
        x.end,
        y.start,
        f64::midpoint(x.start, x.end),
        y.start + 36.0
    )
}

/// Digits behind the point with which all values of an axis can be told apart: the same for all of them.
fn digits(ticks: &[f64]) -> usize {
    let exact = |digits: &usize| {
        let factor = 10f64.powi(*digits as i32);
        let whole = |tick: &f64| (tick * factor - (tick * factor).round()).abs() < 1e-6;
        ticks.iter().all(whole)
    };
    (0..6).find(exact).unwrap_or(6)
}

/// A value of an axis, without zeros at its end.
#[must_use]
pub fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0" } else { text }.to_owned()
}

/// Where the best is at each step and at the end of the search.
fn places(of: &Report) -> impl DoubleEndedIterator<Item = (f64, Times)> {
    let steps = of.curve.steps.iter();
    let end = of.curve.steps.last();
    steps
        .map(|step| (step.evaluations as f64, step.times))
        .chain(end.map(|step| {
            (
                of.curve.evaluations.max(step.evaluations) as f64,
                step.times,
            )
        }))
}

fn line(of: &Report, x: &Scale, y: &Scale) -> String {
    path(
        places(of).map(|(at, times)| (x.at(at), y.at(times.median))),
        'M',
    )
}

/// Steps from left to right: across first, then up or down.
fn path(places: impl Iterator<Item = (f64, f64)>, begin: char) -> String {
    let mut out = String::new();
    for (index, (x, y)) in places.enumerate() {
        let _ = if index == 0 {
            write!(out, "{begin}{x:.1} {y:.1}")
        } else {
            write!(out, "H{x:.1}V{y:.1}")
        };
    }
    out
}

fn band(of: &Report, x: &Scale, y: &Scale) -> String {
    let above = path(
        places(of).map(|(at, times)| (x.at(at), y.at(times.high))),
        'M',
    );
    // Back: first down or up, then across.
    let mut below = String::new();
    let back: Vec<(f64, f64)> = places(of)
        .rev()
        .map(|(at, times)| (x.at(at), y.at(times.low)))
        .collect();
    for (index, (x, y)) in back.iter().enumerate() {
        let _ = if index == 0 {
            write!(below, "L{x:.1} {y:.1}")
        } else {
            write!(below, "V{y:.1}H{x:.1}")
        };
    }
    format!("{above}{below}Z")
}

/// Labels at the right, moved apart where they would cover each other.
fn spread(labels: Vec<(f64, String, &'static str)>, y: &Scale) -> Vec<(f64, String, &'static str)> {
    let mut placed: Vec<(f64, String, &'static str)> = labels
        .into_iter()
        .map(|(value, text, class)| (y.at(value), text, class))
        .collect();
    placed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut least = f64::NEG_INFINITY;
    for (place, ..) in &mut placed {
        *place = place.max(least);
        least = *place + APART;
    }
    // Not below the plot.
    let mut most = y.start;
    for (place, ..) in placed.iter_mut().rev() {
        *place = place.min(most);
        most = *place - APART;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::data::{Curve, Step};

    fn report(medians: &[f64]) -> Report {
        let times = |median: f64| Times {
            median,
            low: median * 0.99,
            high: median * 1.01,
        };
        Report {
            source: Some(times(1.02)),
            curve: Curve {
                steps: (1..)
                    .zip(medians)
                    .map(|(number, median)| Step {
                        evaluations: 10 * number as u64,
                        seconds: 1.0,
                        variant: number,
                        times: times(*median),
                    })
                    .collect(),
                evaluations: 100,
                variants: 30,
                seconds: 9.0,
                ..Curve::default()
            },
            ..Report::default()
        }
    }

    #[test]
    fn both_baselines_and_every_step_are_in_the_curve() {
        let svg = curve(&report(&[1.02, 0.9, 0.7]));
        assert!(svg.contains("captured binary") && svg.contains("source as given"));
        assert_eq!(svg.matches("data-variant").count(), 3);
        assert!(svg.contains("best: 0.700"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn a_run_without_anything_right_has_no_curve() {
        assert_eq!(curve(&report(&[])), "");
    }

    #[test]
    fn labels_do_not_cover_each_other() {
        let y = Scale {
            from: 0.0,
            to: 2.0,
            start: 250.0,
            end: 10.0,
        };
        let label = |value: f64| (value, String::new(), "");
        let placed = spread(vec![label(1.0), label(1.001), label(1.002), label(0.0)], &y);
        for pair in placed.windows(2) {
            assert!(pair[1].0 - pair[0].0 >= APART - 1e-9, "{placed:?}");
        }
        assert!(placed.iter().all(|(place, ..)| *place <= 250.0));
    }

    #[test]
    fn ticks_are_round_and_within() {
        let scale = Scale {
            from: 0.63,
            to: 1.04,
            start: 0.0,
            end: 1.0,
        };
        let ticks: Vec<String> = scale.ticks(5.0).into_iter().map(short).collect();
        assert_eq!(ticks, ["0.7", "0.8", "0.9", "1"]);
    }

    #[test]
    fn labels_of_an_axis_have_as_many_digits_as_tell_them_apart() {
        for (from, to) in [
            (0.948, 0.9491),
            (0.94, 1.1),
            (0.0, 2.0),
            (0.63, 1.04),
            (0.9999, 1.0),
        ] {
            let scale = Scale {
                from,
                to,
                start: 0.0,
                end: 1.0,
            };
            let ticks = scale.ticks(5.0);
            let digits = digits(&ticks);
            let mut labels: Vec<String> = ticks
                .iter()
                .map(|tick| format!("{tick:.digits$}"))
                .collect();
            assert!(labels.len() > 1, "{from} to {to}");
            labels.dedup();
            assert_eq!(labels.len(), ticks.len(), "{labels:?}");
        }
    }

    #[test]
    fn a_pause_is_in_the_curve_with_how_long_it_was_and_why() {
        let mut report = report(&[1.02, 0.9]);
        let pause = |evaluations, seconds| crate::report::data::Pause {
            evaluations,
            seconds,
            why: "no <answer>".to_owned(),
        };
        report.curve.pauses = vec![
            pause(12, Some(200.0)),
            pause(13, Some(1.0)),
            pause(99, None),
        ];
        let svg = curve(&report);
        assert_eq!(svg.matches("class=\"pause\"").count(), 3);
        assert!(
            svg.contains("paused 3:20 min") && svg.contains(">stopped<"),
            "{svg}"
        );
        // Two that are near each other have one name; both say why.
        assert!(!svg.contains("paused 1 s"));
        assert_eq!(svg.matches("no &lt;answer&gt;").count(), 3);
    }
}
