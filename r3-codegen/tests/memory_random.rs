//! Random address arithmetic: pointers that alias, wander, are chosen at run time, change their space and width.

#![allow(clippy::unwrap_used)]

mod common;
mod memory_support;

use common::Launch;
use memory_support::{noise, same};
use std::fmt::Write;

/// Bytes of each thread in each buffer, and in shared memory.
const REGION: i64 = 256;
const THREADS: u32 = 40;

/// An address register: its space, and which offsets in the thread's region it may have.
#[derive(Clone)]
struct Address {
    name: String,
    space: &'static str,
    low: i64,
    high: i64,
    /// Which memory: only addresses of one may be chosen between.
    memory: u32,
    wide: bool,
}

struct Kernel {
    text: String,
    state: u64,
    addresses: Vec<Address>,
    registers: u32,
}

impl Kernel {
    fn random(&mut self, below: u64) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.state >> 33) % below
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn fresh(&mut self, wide: bool) -> String {
        self.registers += 1;
        let n = self.registers;
        if wide {
            format!("%rd{n}")
        } else {
            format!("%r{n}")
        }
    }

    fn any(&mut self) -> Address {
        let n = self.random(self.addresses.len() as u64);
        self.addresses[n as usize].clone()
    }

    /// A word inside the region that this address reaches wherever it is: an offset.
    fn reach(&mut self, address: &Address) -> Option<i64> {
        let least = -address.low;
        let most = REGION - 4 - address.high;
        let choices = (most - least) / 4;
        (choices >= 0).then(|| least + 4 * self.random(choices as u64 + 1) as i64)
    }

    /// A number of 0, 4, 8 or 12 that only the data tells.
    fn small(&mut self) -> String {
        let register = self.fresh(false);
        let at = 4 * self.random(32);
        self.line(&format!(
            "ld.global.u32 {register}, [%in+{at}]; and.b32 {register}, {register}, 3;"
        ));
        register
    }

    fn step(&mut self) {
        let from = self.any();
        let ty = if from.wide { "s64" } else { "s32" };
        let mut to = Address {
            name: self.fresh(from.wide),
            ..from.clone()
        };
        let (a, b) = (from.name.clone(), to.name.clone());
        match self.random(9) {
            0 => {
                let by = 4 * self.random(16) as i64 - 32;
                to.low += by;
                to.high += by;
                let text = match self.random(3) {
                    0 => format!("add.{ty} {b}, {a}, {by};"),
                    1 => format!("sub.{ty} {b}, {a}, {};", -by),
                    _ => format!("mov.b{} {b}, {a}; add.{ty} {b}, {b}, {by};", &ty[1..]),
                };
                self.line(&text);
            }
            1 => {
                let index = self.small();
                to.high += 12;
                let text = match (from.wide, self.random(2)) {
                    (true, 0) => format!("mad.wide.u32 {b}, {index}, 4, {a};"),
                    (true, _) => format!("mul.wide.s32 {b}, {index}, 4; add.s64 {b}, {b}, {a};"),
                    (false, _) => format!("mad.lo.s32 {b}, {index}, 4, {a};"),
                };
                self.line(&text);
            }
            2 => {
                let index = self.small();
                to.low -= 12;
                let text = match from.wide {
                    true => format!("mul.wide.u32 {b}, {index}, 4; sub.s64 {b}, {a}, {b};"),
                    false => format!("mad.lo.s32 {b}, {index}, -4, {a};"),
                };
                self.line(&text);
            }
            3 => {
                // Chosen between two of the same memory.
                let other = self.any();
                let same = other.memory == from.memory
                    && other.space == from.space
                    && other.wide == from.wide;
                if same {
                    let index = self.small();
                    to.low = to.low.min(other.low);
                    to.high = to.high.max(other.high);
                    let width = &ty[1..];
                    self.line(&format!("setp.gt.u32 %p1, {index}, 1;"));
                    let text = match self.random(2) {
                        0 => format!("selp.b{width} {b}, {a}, {}, %p1;", other.name),
                        _ => format!(
                            "mov.b{width} {b}, {a}; @%p1 mov.b{width} {b}, {};",
                            other.name
                        ),
                    };
                    self.line(&text);
                } else {
                    self.line(&format!(
                        "mov.{} {b}, {a};",
                        if from.wide { "u64" } else { "u32" }
                    ));
                }
            }
            4 if from.space == "global" => {
                to.space = "";
                self.line(&format!("cvta.global.u64 {b}, {a};"));
            }
            4 if from.space.is_empty() && from.memory == 0 => {
                to.space = "global";
                self.line(&format!("cvta.to.global.u64 {b}, {a};"));
            }
            // An address before the beginning is none of shared memory, and has no generic one.
            4 if from.space == "shared" && from.low >= 0 => {
                to.name = self.fresh(true);
                to.space = "";
                let text = match from.wide {
                    true => format!("cvta.shared.u64 {}, {a};", to.name),
                    false => format!("cvt.u64.u32 {0}, {a}; cvta.shared.u64 {0}, {0};", to.name),
                };
                to.wide = true;
                self.line(&text);
            }
            5 => {
                // A loop that carries the address.
                let count = self.random(3) as i64 + 2;
                let by = if self.random(2) == 0 { 4 } else { -4 };
                let n = self.registers;
                let (low, high) = (
                    from.low + (by * count).min(0),
                    from.high + (by * count).max(0),
                );
                if low < 0 || high > REGION - 4 {
                    self.line(&format!("mov.b{} {b}, {a};", &ty[1..]));
                } else {
                    let space = if from.space.is_empty() {
                        String::new()
                    } else {
                        format!(".{}", from.space)
                    };
                    self.line(&format!(
                        "mov.b{} {b}, {a}; mov.u32 %i, 0;\nl{n}: ld{space}.u32 %x, [{b}]; mad.lo.u32 %sum, %sum, 5, %x;\n\
                         add.u32 %x, %x, %i; st{space}.u32 [{b}], %x; add.{ty} {b}, {b}, {by}; add.u32 %i, %i, 1;\n\
                         setp.lt.u32 %p2, %i, {count}; @%p2 bra l{n};",
                        &ty[1..]
                    ));
                    to.low = low;
                    to.high = high;
                }
            }
            6 => {
                // Used as an integer, too.
                let text = match from.wide {
                    true => format!(
                        "shr.u64 {b}, {a}, 2; cvt.u32.u64 %x, {b}; and.b32 %x, %x, 63; add.u32 %sum, %sum, %x; mov.u64 {b}, {a};"
                    ),
                    false => {
                        format!("and.b32 %x, {a}, 252; add.u32 %sum, %sum, %x; mov.b32 {b}, {a};")
                    }
                };
                self.line(&text);
            }
            7 => {
                // The way to another address of the same memory, and along it.
                let other = self.any();
                if other.memory == from.memory
                    && other.space == from.space
                    && other.wide == from.wide
                {
                    to.low = other.low;
                    to.high = other.high;
                    self.line(&format!(
                        "sub.{ty} {b}, {}, {a}; add.{ty} {b}, {b}, {a};",
                        other.name
                    ));
                } else {
                    self.line(&format!("mov.b{} {b}, {a};", &ty[1..]));
                }
            }
            _ => self.line(&format!("mov.b{} {b}, {a};", &ty[1..])),
        }
        if to.low >= -512 && to.high < 768 {
            self.addresses.push(to);
        }
    }

    fn access(&mut self) {
        let address = self.any();
        let Some(offset) = self.reach(&address) else {
            return;
        };
        let space = match address.space {
            "" => String::new(),
            space => format!(".{space}"),
        };
        let at = format!("[{}+{offset}]", address.name);
        match self.random(4) {
            0 => self.line(&format!(
                "add.u32 %sum, %sum, 77; st{space}.u32 {at}, %sum;"
            )),
            1 => self.line(&format!(
                "ld.volatile{space}.u32 %x, {at}; xor.b32 %sum, %sum, %x;"
            )),
            _ => self.line(&format!(
                "ld{space}.u32 %x, {at}; mad.lo.u32 %sum, %sum, 3, %x;"
            )),
        }
    }
}

fn kernel(seed: u64) -> String {
    let address = |name: &str, space: &'static str, memory: u32, wide: bool| Address {
        name: name.into(),
        space,
        low: 0,
        high: 0,
        memory,
        wide,
    };
    let mut kernel = Kernel {
        text: String::new(),
        state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5555,
        // The output has two names: what is written by one is read by the other.
        addresses: vec![
            address("%out", "global", 0, true),
            address("%gen", "", 0, true),
            address("%sh", "shared", 1, false),
            address("%shw", "shared", 1, true),
        ],
        registers: 10,
    };
    for _ in 0..24 {
        kernel.step();
        kernel.access();
    }
    let mut text = format!(
        ".visible .entry k(.param .u64 in, .param .u64 out)\n{{\n.shared .align 16 .b8 s[{}];\n\
         .reg .b64 %in, %out, %gen, %shw, %at, %rd<99>; .reg .b32 %t, %sh, %x, %i, %sum, %r<99>; .reg .pred %p<4>;\n\
         ld.param.u64 %in, [in]; ld.param.u64 %gen, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %at, %t, {REGION};\n\
         cvta.to.global.u64 %in, %in; add.s64 %in, %in, %at; add.s64 %gen, %gen, %at; cvta.to.global.u64 %out, %gen;\n\
         mov.u32 %sh, s; mad.lo.u32 %sh, %t, {REGION}, %sh; mov.u64 %shw, s; add.s64 %shw, %shw, %at; mov.u32 %sum, %t;\n\
         mov.u32 %i, 0;\nfill: cvt.u64.u32 %at, %i; add.s64 %at, %in, %at; ld.global.u32 %x, [%at]; add.u32 %x, %x, 9;\n\
         add.u32 %r1, %sh, %i; st.shared.u32 [%r1], %x; add.u32 %i, %i, 4; setp.lt.u32 %p1, %i, {REGION}; @%p1 bra fill;\n",
        REGION * i64::from(THREADS)
    );
    write!(text, "{}", kernel.text).unwrap();
    // What is in shared memory in the end is seen, too.
    write!(
        text,
        "mov.u32 %i, 0;\nfold: add.u32 %r1, %sh, %i; ld.shared.u32 %x, [%r1]; mad.lo.u32 %sum, %sum, 31, %x;\n\
         add.u32 %i, %i, 4; setp.lt.u32 %p1, %i, {REGION}; @%p1 bra fold;\n\
         st.global.u32 [%out+252], %sum;\nret;\n}}\n"
    )
    .unwrap();
    text
}

#[test]
fn random_addresses_reach_the_same_bytes() {
    let bytes = REGION as usize * THREADS as usize;
    for seed in 0..40 {
        let launch = Launch {
            buffers: vec![noise(bytes, seed), noise(bytes, seed + 1000)],
            ..Launch::new("k", THREADS, Vec::new())
        };
        same(&kernel(u64::from(seed)), &launch);
    }
}
