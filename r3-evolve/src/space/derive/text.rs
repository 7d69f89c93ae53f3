//! What can be done to a kernel's PTX as text.

use super::{Allowed, SINGLE_CONSTANTS, View, choice};
use crate::space::Parameter;

impl View<'_> {
    pub(super) fn text_parameters(&self) -> Vec<Parameter> {
        vec![
            self.registers(),
            self.constants(),
            self.load_cache(),
            self.read_only(),
            Parameter {
                varied: false,
                dropped: vec!["-O0".to_owned()],
                why: "left alone: -O1 took 1.07 of the time (0.96 on one kernel of 41, up to 3.2), -O2 1.004; -O0 also \
                      changes results"
                    .to_owned(),
                ..choice("assembler", ["default", "-O1", "-O2"])
            },
        ]
    }

    fn registers(&self) -> Parameter {
        let used = self.of.used.map(|used| used.registers);
        let mut values = vec!["as compiled".to_owned()];
        let mut dropped = Vec::new();
        for cap in [64, 48, 96, 128] {
            values.push(format!("max {cap}"));
        }
        for blocks in [1, 2, 4] {
            values.push(format!("min-blocks {blocks}"));
        }
        for cap in [24, 32, 40] {
            let fits = used.is_some_and(|used| used > 0 && used <= cap);
            if fits { &mut values } else { &mut dropped }.push(format!("max {cap}"));
        }
        dropped.extend(["min-blocks 8", "min-blocks 16", "threads"].map(str::to_owned));
        Parameter {
            varied: !self.of.device.counts,
            dropped,
            why: if self.of.device.counts {
                "left alone: this device counts instructions, and registers cost nothing"
            } else {
                "caps of 48 to 128 registers and 1 to 4 blocks on a multiprocessor took 0.98 of the time (down to 0.59; up to \
                 1.28), also where the kernel uses fewer: they change what the assembler aims at. Dropped: caps of 24 to 40 \
                 that spill (1.15, 1.08, 1.02), 8 blocks and more (1.07), threads of a block alone (1.00)"
            }
            .to_owned(),
            ..choice("registers", values)
        }
    }

    fn constants(&self) -> Parameter {
        let constant: Vec<u32> = self
            .of
            .params
            .iter()
            .filter(|param| param.constant.is_some() && !param.pointer)
            .map(|param| param.index)
            .collect();
        let mut values = vec!["none".to_owned()];
        if !constant.is_empty() {
            values.push("scalars".to_owned());
        }
        if (2..=SINGLE_CONSTANTS).contains(&constant.len()) {
            values.extend(constant.iter().map(|index| format!("param {index}")));
        }
        let changing = self
            .of
            .params
            .iter()
            .filter(|param| !param.pointer && param.constant.is_none())
            .count();
        Parameter {
            varied: !constant.is_empty(),
            dropped: ["geometry", "scalars+geometry"].map(str::to_owned).to_vec(),
            why: match (constant.len(), changing) {
                (0, 0) => "left alone: no parameter is a scalar whose value is known".to_owned(),
                (0, _) => "left alone: no scalar has one value in all recorded launches".to_owned(),
                (some, changing) => format!(
                    "{some} scalar(s) have one value in all recorded launches{}: as constants they took 0.97 of the time as \
                     text (down to 0.71), 0.90 through LLVM (down to 0.37); the code then runs for these values only. \
                     Dropped: the launch's shape as constants (1.00)",
                    match changing {
                        0 => String::new(),
                        changing => format!(", {changing} have several"),
                    }
                ),
            },
            ..choice("constants", values)
        }
    }

    fn load_cache(&self) -> Parameter {
        let loads = !self.known || self.census.global_loads > 0;
        Parameter {
            varied: loads && !self.of.device.counts,
            dropped: ["cg", "cv"].map(str::to_owned).to_vec(),
            why: if self.of.device.counts {
                "left alone: this device has no caches"
            } else if loads {
                "-dlcm=cs took 0.79 of the time at best and 1.09 on average: tried once. Dropped: cg and cv, which never helped"
            } else {
                "left alone: the kernel loads nothing from global memory that is not read-only"
            }
            .to_owned(),
            ..choice("load_cache", ["default", "cs"])
        }
    }

    fn read_only(&self) -> Parameter {
        let loads = !self.known || self.census.global_loads > 0;
        Parameter {
            varied: loads && !self.of.device.counts,
            why: if self.of.device.counts {
                "left alone: this device has no caches"
            } else if loads {
                "loads through the read-only path took 0.94 to 1.01 of the time"
            } else {
                "left alone: all loads from global memory are read-only already"
            }
            .to_owned(),
            ..choice("read_only", ["no", "yes"])
        }
    }

    pub(super) fn approximate(&self, allowed: Allowed) -> Parameter {
        let source = self.of.forms.iter().any(|form| form.contains("source"));
        let mut values = vec!["exact".to_owned()];
        let mut dropped = Vec::new();
        let steps = [
            (Allowed::Division, "division", true),
            (Allowed::Flush, "division+flush", true),
            (Allowed::FastMath, "fast-math", source),
        ];
        for (step, name, possible) in steps {
            if allowed >= step && possible {
                values.push(name.to_owned());
            } else if possible {
                dropped.push(name.to_owned());
            }
        }
        let useful = !self.known
            || self.census.exact_divisions > 0
            || self.census.unflushed > 0
            || values.iter().any(|value| value == "fast-math");
        Parameter {
            varied: allowed > Allowed::Exact && useful,
            dropped,
            why: match (allowed, useful) {
                (_, false) => "left alone: the kernel has no exact division, square root or subnormals in single precision",
                (Allowed::Exact, true) => {
                    "left alone: results must be exact. Where a tolerance allows it, this is the largest lever: 0.84, 0.86 \
                     and 0.81 of the time (down to 0.31)"
                }
                _ => {
                    "allowed by the tolerance; the largest lever: 0.84, 0.86 and 0.81 of the time (down to 0.31)"
                }
            }
            .to_owned(),
            ..choice("approximate", values)
        }
    }
}
