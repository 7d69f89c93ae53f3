//! What somebody who watches a run sees: two lines that change on a terminal, a line now and then elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use super::signals::Signals;
use crate::result::text::ratio;
use crate::store::Phase;
use crate::tune::progress::{Progress, Watch};
use crate::tune::summary::gain;

/// How often the lines change on a terminal.
const LIVE: Duration = Duration::from_millis(200);
/// How often a line is written elsewhere.
const PLAIN: Duration = Duration::from_secs(10);

/// Standard error, for somebody who watches.
pub struct Terminal {
    signals: Signals,
    quiet: bool,
    live: bool,
    shown: Option<Instant>,
    lines: usize,
    told_of_stop: bool,
    best: Option<u64>,
}

impl Terminal {
    /// Shows nothing but what a person must know when `quiet`.
    pub fn new(signals: Signals, quiet: bool) -> Self {
        Self {
            signals,
            quiet,
            live: io::stderr().is_terminal(),
            shown: None,
            lines: 0,
            told_of_stop: false,
            best: None,
        }
    }

    /// Takes the live lines away.
    pub fn clear(&mut self) {
        if self.lines > 0 {
            // Up, and clear to the end of the screen.
            let _ = write!(io::stderr(), "\x1b[{}A\x1b[J", self.lines);
            self.lines = 0;
        }
    }

    /// Shows lines when it is time for that. `found` changes when there is something better; `lines` are made for a width, and
    /// for what is no terminal they are written as one.
    pub(super) fn show(
        &mut self,
        phase: Phase,
        found: Option<u64>,
        lines: impl FnOnce(usize) -> Vec<String>,
    ) {
        if self.quiet {
            return;
        }
        if self.signals.count() == 1 && !self.told_of_stop && phase == Phase::Search {
            self.told_of_stop = true;
            self.say(
                "stopping: the best so far is measured at length; another Ctrl-C leaves at once",
            );
        }
        let every = if self.live { LIVE } else { PLAIN };
        let news = !self.live && found != self.best && found.is_some();
        if self.shown.is_some_and(|shown| shown.elapsed() < every) && !news {
            return;
        }
        self.shown = Some(Instant::now());
        self.best = found;
        let width = width();
        let lines = lines(width);
        if self.live {
            self.clear();
            let text: String = lines
                .iter()
                .map(|line| format!("{}\n", cut(line, width)))
                .collect();
            self.write(&text);
            self.lines = lines.len();
        } else {
            let lines: Vec<&str> = lines
                .iter()
                .map(|line| line.trim())
                .filter(|line| !line.is_empty())
                .collect();
            self.write(&format!("{}\n", lines.join("; ")));
        }
    }

    fn write(&mut self, text: &str) {
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

impl Watch for Terminal {
    fn progress(&mut self, progress: &Progress) {
        let found = progress.best.as_ref().map(|best| best.found_at);
        self.show(progress.phase, found, |_| {
            let [first, second] = lines(progress);
            vec![first, second]
        });
    }

    fn say(&mut self, line: &str) {
        self.clear();
        self.write(&format!("r3-evolve: {line}\n"));
    }

    fn stop(&self) -> bool {
        self.signals.count() >= 1
    }

    fn leave(&self) -> bool {
        self.signals.count() >= 2
    }
}

/// The lines.
fn lines(progress: &Progress) -> [String; 2] {
    let word = match progress.phase {
        Phase::Search => "search",
        Phase::Final => "measuring the best",
        Phase::Ablation => "setting knobs back",
        Phase::Done => "done",
    };
    let of = progress
        .of
        .map_or_else(String::new, |of| format!(" of {of}"));
    let failed: Vec<String> = progress
        .failed
        .iter()
        .map(|(verdict, count)| format!("{count} {verdict}"))
        .collect();
    let failed = if failed.is_empty() {
        String::new()
    } else {
        format!(" ({})", failed.join(", "))
    };
    let left = progress
        .left
        .map_or_else(String::new, |left| format!(", {} left", duration(left)));
    let busy = if progress.phase == Phase::Search {
        format!(
            ", compilers {:.0} %, device {:.0} %",
            100.0 * progress.compilers,
            100.0 * progress.devices
        )
    } else {
        String::new()
    };
    let first = format!(
        "{word}: {}{of}{failed}, {} under way, {:.1}/s{left}{busy}",
        progress.done, progress.under_way, progress.rate
    );
    let second = match &progress.best {
        None => "best: none yet".to_owned(),
        Some(best) => {
            let knobs: Vec<String> = best
                .knobs
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            let knobs = if knobs.is_empty() {
                "the original".to_owned()
            } else {
                knobs.join(" ")
            };
            format!(
                "best: {}, {}: {knobs}",
                ratio(&best.ratio),
                gain(best.ratio.median)
            )
        }
    };
    let second = if progress.phase == Phase::Search {
        second
    } else {
        String::new()
    };
    [first, second]
}

fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds / 60 % 60),
    }
}

/// `text` with at most `width` characters.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars()
        .take(width.saturating_sub(1))
        .chain(['…'])
        .collect()
}

/// Columns of the terminal.
fn width() -> usize {
    // SAFETY: the structure is plain numbers, for which zeros are valid.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the request writes a `winsize` to the address that it is given.
    let asked = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    if asked == 0 && size.ws_col > 0 {
        usize::from(size.ws_col) - 1
    } else {
        79
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::progress::Best;
    use r3_replay::remix::pairs::Ratio;

    #[test]
    fn the_lines_say_how_it_is_going() {
        let progress = Progress {
            phase: Phase::Search,
            done: 40,
            of: Some(100),
            under_way: 12,
            failed: vec![("no code", 2), ("wrong", 1)],
            best: Some(Best {
                ratio: Ratio {
                    median: 0.72,
                    low: 0.71,
                    high: 0.73,
                    confidence: 0.95,
                },
                knobs: vec![("block".into(), "128x1x1".into())],
                found_at: 17,
            }),
            rate: 8.25,
            left: Some(95.0),
            compilers: 0.93,
            devices: 0.4,
        };
        insta::assert_snapshot!(lines(&progress).join("\n"));
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(
            (duration(9.6), duration(3700.0)),
            ("10 s".into(), "1:01 h".into())
        );
    }
}
