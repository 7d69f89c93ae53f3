//! Random kernels with defined results.
//!
//! Each thread reads 16 words of 64 bits, works in registers that all have values, and writes its registers to slots
//! of its own; accumulators of atomics follow after the slots of all threads. Lanes that take part in an operation of
//! the warp are known: a mask register goes with each branch and loop.

use std::fmt::Write;

use super::operations::Family;

/// What a kernel is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// `.version`
    pub version: (u8, u8),
    /// `.target`: 90 or later for all families.
    pub sm: u16,
    /// Operations, those in branches included; about.
    pub operations: usize,
    /// Threads of the one block: a multiple of 32.
    pub threads: u32,
    /// Families to choose from.
    pub families: Vec<Family>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            version: (8, 0),
            sm: 90,
            operations: 40,
            threads: 64,
            families: Family::ALL.to_vec(),
        }
    }
}

/// A register of each thread in the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Offset in the thread's part.
    pub offset: u32,
    /// Bytes: 4 or 8 (of which predicates and 16 bits use the low ones).
    pub bytes: u32,
    /// The instruction that made it, when its result is approximate; exact otherwise.
    pub approximate: Option<String>,
}

/// A kernel and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The module; its entry is `kernel(.u64 input, .u64 output)`.
    pub text: String,
    /// Threads of the block.
    pub threads: u32,
    /// Input: [`INPUT_WORDS`] for each thread.
    pub input: Vec<u64>,
    /// Slots of each thread, whose parts follow each other.
    pub slots: Vec<Slot>,
    /// Bytes of a thread's part.
    pub thread_bytes: u32,
    /// 32-bit accumulators after the parts of the threads. All output is to be zeroed first.
    pub accumulators: u32,
}

/// Words of 64 bits that each thread reads.
pub const INPUT_WORDS: u32 = 16;

/// Values of which a word's 32-bit halves are made.
const EDGES_32: &[u32] = &[
    0,
    1,
    2,
    5,
    31,
    32,
    33,
    63,
    64,
    255,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x0001_0001,
    0x3C00_3C00,
    0x7C00_FC00,
    0x7FFF_FFFF,
    0x8000_0000,
    0x8000_0001,
    0xFFFF_FFFF,
    0xFFFF_FFFE,
    0x0000_0001,
    0x007F_FFFF,
    0x0080_0000,
    0x3F80_0000,
    0xBF80_0000,
    0x3F7F_FFFF,
    0x4F00_0000,
    0xCF00_0000,
    0x7F7F_FFFF,
    0x7F80_0000,
    0xFF80_0000,
    0x7FC0_0000,
    0x7F80_0001,
    0x3EAA_AAAB,
    0x4048_F5C3,
    0x3DCC_CCCD,
    0x8080_8080,
    0x0102_0304,
    0xDEAD_BEEF,
];

/// Values of a whole word.
const EDGES_64: &[u64] = &[
    0,
    1,
    0x7FFF_FFFF_FFFF_FFFF,
    0x8000_0000_0000_0000,
    0xFFFF_FFFF_FFFF_FFFF,
    0x0123_4567_89AB_CDEF,
    0x3FF0_0000_0000_0000,
    0xBFF0_0000_0000_0000,
    0x3FF8_0000_0000_0000,
    0x000F_FFFF_FFFF_FFFF,
    0x0010_0000_0000_0000,
    0x7FEF_FFFF_FFFF_FFFF,
    0x7FF0_0000_0000_0000,
    0xFFF0_0000_0000_0000,
    0x7FF8_0000_0000_0000,
    0x7FF0_0000_0000_0001,
    0x3FD5_5555_5555_5555,
    0x41E0_0000_0000_0000,
    0x43E0_0000_0000_0000,
    0x380F_FFFF_E000_0000,
];

/// Registers that operations read and write: prefix, type, how many.
const POOLS: &[(char, &str, &str, u64)] = &[
    ('R', "%r", "b32", 8),
    ('L', "%l", "b64", 5),
    ('F', "%f", "f32", 6),
    ('D', "%d", "f64", 4),
    ('H', "%h", "b16", 5),
    ('P', "%p", "pred", 4),
];

/// Operations of the accumulators, by number.
const ACCUMULATORS: &[&str] = &[
    "add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32",
];

/// Makes the kernel of a seed. The same seed and options give the same kernel.
pub fn kernel(seed: u64, options: &Options) -> Kernel {
    let mut writer = Writer {
        random: Random(seed),
        options,
        body: String::new(),
        functions: String::new(),
        next: 0,
        approximate: Vec::new(),
        mask: "-1".into(),
        left: options.operations,
    };
    while writer.left > 0 {
        writer.operation(0);
    }
    writer.finish()
}

/// Instructions that assemblers of NVIDIA (those of CUDA 12.9 to 13.5, at least) make several of, not all of them guarded:
/// `testp` is done whatever the guard says, and what `set` leaves alone is made a float once more.
fn loses_guard(mnemonic: &str) -> bool {
    mnemonic.starts_with("testp.") || mnemonic.starts_with("set.") && mnemonic.ends_with(".f32.f32")
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    fn of<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> Option<&'a T> {
        let at = self.below(list.len() as u64) as usize;
        list.get(at).copied()
    }
}

struct Writer<'a> {
    random: Random,
    options: &'a Options,
    body: String,
    functions: String,
    /// Numbers of temporary registers, labels, functions.
    next: u32,
    /// Instructions behind `%x0`, `%x1`, …
    approximate: Vec<String>,
    /// The lanes that take part here: a register or -1.
    mask: String,
    left: usize,
}

impl Writer<'_> {
    fn line(&mut self, text: &str) {
        self.body.push_str(text);
        self.body.push('\n');
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn register(&mut self, pool: char) -> String {
        let pool = POOLS.iter().find(|entry| entry.0 == pool);
        pool.map_or(String::new(), |&(_, prefix, _, count)| {
            format!("{prefix}{}", self.random.below(count))
        })
    }

    /// One operation at a depth of branches: at 0, all threads of the block are here.
    fn operation(&mut self, depth: u32) {
        self.left = self.left.saturating_sub(1);
        let at = self.random.below(self.options.families.len() as u64) as usize;
        let Some(&family) = self.options.families.get(at) else {
            return;
        };
        match family {
            Family::Branch if depth < 3 => match self.random.below(2) {
                0 => self.branch(depth),
                _ => self.repeat(depth),
            },
            Family::Table if depth < 3 => self.table(depth),
            Family::Barrier if depth == 0 => self.exchange(),
            Family::Warp => self.warp(),
            Family::Atomic => self.atomic(),
            Family::Local => self.local(),
            Family::Call => self.call(),
            Family::Carry => self.carry(),
            Family::Integer if self.random.below(6) == 0 => self.divide(),
            family => {
                if let Some(template) = self.random.of(family.templates()) {
                    self.template(template);
                }
            }
        }
    }

    fn block(&mut self, depth: u32) {
        for _ in 0..=self.random.below(4) {
            self.operation(depth);
        }
    }

    /// Writes an instruction after a template; sometimes with a guard.
    fn template(&mut self, template: &str) {
        let text = self.choose(template);
        let (mnemonic, operands) = text.split_once(' ').unwrap_or((&text, ""));
        let mut made = Vec::new();
        let mut result = None;
        for operand in operands.split(", ") {
            let operand = match operand {
                "X" => {
                    result = Some(self.approximate.len());
                    format!("%x{}", self.approximate.len())
                }
                "Q" => {
                    let sign = if self.random.below(2) == 0 { "!" } else { "" };
                    format!("{sign}{}", self.register('P'))
                }
                "#" => format!("{}", self.random.below(1 << 32) as i32),
                pool if pool.len() == 1 => self.register(pool.chars().next().unwrap_or('R')),
                other => other.to_owned(),
            };
            made.push(operand);
        }
        // Three operands are meant where the fourth is missing (`mad24`).
        if mnemonic.starts_with("mad24") && made.len() == 3 {
            made.push(self.register('R'));
        }
        let guard = match self.random.below(8) {
            0 => format!("@{} ", self.register('P')),
            1 => format!("@!{} ", self.register('P')),
            _ => String::new(),
        };
        if result.is_some() {
            self.approximate.push(mnemonic.to_owned());
        }
        let guard = if loses_guard(mnemonic) { "" } else { &guard };
        self.line(&format!("{guard}{mnemonic} {};", made.join(", ")));
    }

    /// Takes one of each group of alternatives.
    fn choose(&mut self, template: &str) -> String {
        let mut out = String::new();
        let mut rest = template;
        while let Some(at) = rest.find(['(', '{']) {
            let (before, group) = rest.split_at(at);
            out.push_str(before);
            let close = if group.starts_with('(') { ')' } else { '}' };
            let end = group.find(close).unwrap_or(group.len() - 1);
            let inner = group.get(1..end).unwrap_or_default();
            match close {
                ')' => {
                    let list: Vec<&str> = inner.split('|').collect();
                    out.push_str(self.random.of(&list).unwrap_or_default());
                }
                _ if self.random.below(2) == 0 => out.push_str(inner),
                _ => {}
            }
            rest = group.get(end + 1..).unwrap_or_default();
        }
        out + rest
    }

    /// Division by a positive odd number.
    fn divide(&mut self) {
        let (op, ty) = (self.random.below(2), self.random.below(2));
        let op = if op == 0 { "div" } else { "rem" };
        let ty = if ty == 0 { "u32" } else { "s32" };
        let (d, a, b) = (self.register('R'), self.register('R'), self.register('R'));
        self.line(&format!(
            "and.b32 %t0, {b}, 0x7fffffff;\nor.b32 %t0, %t0, 1;\n{op}.{ty} {d}, {a}, %t0;"
        ));
    }

    fn carry(&mut self) {
        let registers: Vec<_> = (0..7).map(|_| self.register('R')).collect();
        let [a, b, c, d, e, f, g] = registers.as_slice() else {
            return;
        };
        let (first, next) = match self.random.below(3) {
            0 => ("add.cc.u32", "addc"),
            1 => ("sub.cc.u32", "subc"),
            _ => ("mad.lo.cc.u32", "madc.hi"),
        };
        let third = |x: &str| {
            if first.starts_with("mad") {
                format!(", {x}")
            } else {
                String::new()
            }
        };
        self.line(&format!(
            "{first} %t0, {a}, {b}{};\n{next}.cc.u32 %t1, {c}, {d}{};\n{next}.u32 %t2, {e}, {f}{};",
            third(c),
            third(e),
            third(g)
        ));
        self.line(&format!("xor.b32 {a}, %t0, %t1;\nxor.b32 {b}, %t1, %t2;"));
    }

    /// `if … else …` with the masks of both sides.
    fn branch(&mut self, depth: u32) {
        let n = self.number();
        let (p, outer) = (self.register('P'), self.mask.clone());
        // Two masks: lanes of the first side, and those of the second.
        self.line(&format!(
            "mov.pred %b{n}, {p};\nvote.sync.ballot.b32 %m{n}, %b{n}, {outer};\nnot.b32 %n{n}, %m{n};\nand.b32 %n{n}, %n{n}, {outer};\n@!%b{n} bra ELSE{n};"
        ));
        self.mask = format!("%m{n}");
        self.block(depth + 1);
        self.line(&format!("bra END{n};\nELSE{n}:"));
        self.mask = format!("%n{n}");
        if self.random.below(3) > 0 {
            self.block(depth + 1);
        }
        self.line(&format!("END{n}:"));
        self.mask = outer;
    }

    /// A loop that each thread leaves after its own number of rounds.
    fn repeat(&mut self, depth: u32) {
        let n = self.number();
        let (r, outer) = (self.register('R'), self.mask.clone());
        self.line(&format!(
            "and.b32 %c{n}, {r}, 3;\nmov.b32 %m{n}, {outer};\nLOOP{n}:"
        ));
        self.mask = format!("%m{n}");
        self.block(depth + 1);
        self.line(&format!(
            "setp.ne.s32 %b{n}, %c{n}, 0;\nvote.sync.ballot.b32 %m{n}, %b{n}, %m{n};\nsub.s32 %c{n}, %c{n}, 1;\n@%b{n} bra LOOP{n};"
        ));
        self.mask = outer;
    }

    fn table(&mut self, depth: u32) {
        let n = self.number();
        let (r, outer) = (self.register('R'), self.mask.clone());
        self.line(&format!(
            "and.b32 %c{n}, {r}, 3;\nmatch.any.sync.b32 %m{n}, %c{n}, {outer};"
        ));
        self.line(&format!(
            "TABLE{n}: .branchtargets CASE{n}_0, CASE{n}_1, CASE{n}_2, CASE{n}_3;\nbrx.idx %c{n}, TABLE{n};"
        ));
        self.mask = format!("%m{n}");
        for case in 0..4 {
            self.line(&format!("CASE{n}_{case}:"));
            self.block(depth + 1);
            self.line(&format!("bra END{n};"));
        }
        self.line(&format!("END{n}:"));
        self.mask = outer;
    }

    /// An operation of the lanes that are here.
    fn warp(&mut self) {
        let (d, a, b, p, q, mask) = (
            self.register('R'),
            self.register('R'),
            self.register('R'),
            self.register('P'),
            self.register('P'),
            self.mask.clone(),
        );
        let text = match self.random.below(8) {
            // A lane that does not take part has nothing to give.
            0 | 1 => format!(
                "and.b32 %t0, {b}, 31;\nshfl.sync.idx.b32 %t1, {a}, %t0, 31, {mask};\nmov.b32 %t2, {mask};\nshr.u32 %t2, %t2, %t0;\nand.b32 %t2, %t2, 1;\nsetp.ne.s32 %t, %t2, 0;\nselp.b32 {d}, %t1, 0, %t;"
            ),
            2 if mask == "-1" => {
                let mode = self.random.of(&["up", "down", "bfly"]).unwrap_or_default();
                let clamp = if mode == "up" { "0" } else { "31" };
                let width = self
                    .random
                    .of(&["0", "0x1800", "0x1000"])
                    .unwrap_or_default();
                format!(
                    "and.b32 %t0, {b}, 31;\nor.b32 %t1, {width}, {clamp};\nshfl.sync.{mode}.b32 {d}|{p}, {a}, %t0, %t1, -1;"
                )
            }
            2 | 3 => {
                let mode = self.random.of(&["all", "any", "uni"]).unwrap_or_default();
                format!("vote.sync.{mode}.pred {p}, {q}, {mask};")
            }
            4 => format!("vote.sync.ballot.b32 {d}, !{q}, {mask};"),
            5 => {
                let op = self.random.of(&[
                    "add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32",
                ]);
                format!("redux.sync.{} {d}, {a}, {mask};", op.unwrap_or_default())
            }
            6 => format!("match.all.sync.b32 {d}|{p}, {a}, {mask};"),
            _ => format!("and.b32 %t0, {a}, 3;\nmatch.any.sync.b32 {d}, %t0, {mask};"),
        };
        self.line(&text);
    }

    /// Values go around the block through shared memory.
    fn exchange(&mut self) {
        let threads = self.options.threads;
        let (d, a, b, p, q) = (
            self.register('R'),
            self.register('R'),
            self.register('R'),
            self.register('P'),
            self.register('P'),
        );
        let id = self.random.below(16);
        let count = if self.random.below(2) == 0 {
            format!(", {threads}")
        } else {
            String::new()
        };
        let barrier = self
            .random
            .of(&["bar.sync", "barrier.sync", "barrier.sync.aligned"])
            .unwrap_or_default();
        self.line(&format!(
            "st.shared.b32 [%own], {a};\n{barrier} {id}{count};\nrem.u32 %t0, {b}, {threads};\nmad.lo.u32 %t0, %t0, 4, %base;\nld.shared.b32 {d}, [%t0];\n{barrier} {id}{count};"
        ));
        let text = match self.random.below(4) {
            0 => format!("bar.red.popc.u32 {d}, {id}, {q};"),
            1 => format!("bar.red.and.pred {p}, {id}, {q};"),
            2 => format!("bar.red.or.pred {p}, {id}, !{q};"),
            _ => return,
        };
        self.line(&text);
    }

    fn atomic(&mut self) {
        let at = self.random.below(ACCUMULATORS.len() as u64);
        let a = self.register('R');
        let op = ACCUMULATORS.get(at as usize).copied().unwrap_or_default();
        let offset = at * 4;
        let text = match self.random.below(4) {
            0 => format!("red.global.{op} [%sum+{offset}], {a};"),
            1 => format!("atom.global.{op} %t3, [%sum+{offset}], {a};"),
            2 => format!("red.relaxed.gpu.global.{op} [%sum+{offset}], {a};"),
            _ => format!("atom.shared.{op} %t3, [sums+{offset}], {a};"),
        };
        self.line(&text);
    }

    fn local(&mut self) {
        let (d, a, b) = (self.register('R'), self.register('R'), self.register('R'));
        let address =
            format!("and.b32 %t0, {b}, 7;\nmul.wide.u32 %t4, %t0, 4;\nadd.u64 %t4, %t4, %stack;");
        self.line(&address);
        let text = match self.random.below(4) {
            0 => format!("st.local.b32 [%t4], {a};"),
            1 => format!("st.local.u8 [%t4+1], {a};"),
            2 => format!("ld.local.s16 {d}, [%t4+2];"),
            _ => format!("ld.local.b32 {d}, [%t4];"),
        };
        self.line(&text);
    }

    /// A function of two numbers, and a call.
    fn call(&mut self) {
        let n = self.number();
        let ops = ["add.s32", "mul.lo.s32", "xor.b32", "min.u32", "shl.b32"];
        let (x, y) = (self.random.of(&ops), self.random.of(&ops));
        _ = write!(
            self.functions,
            ".func (.param .b32 result) function{n}(.param .b32 a, .param .b64 b)
{{
.reg .b32 %r<4>;
.reg .b64 %l<2>;
.reg .pred %p;
ld.param.b32 %r0, [a];
ld.param.b64 %l0, [b];
cvt.u32.u64 %r1, %l0;
setp.lt.s32 %p, %r0, %r1;
@%p bra LESS;
{} %r2, %r0, %r1;
st.param.b32 [result], %r2;
ret;
LESS:
{} %r2, %r1, %r0;
st.param.b32 [result], %r2;
ret;
}}
",
            x.unwrap_or_default(),
            y.unwrap_or_default()
        );
        let (d, a, b) = (self.register('R'), self.register('R'), self.register('L'));
        self.line(&format!(
            "{{\n.param .b32 first;\n.param .b64 second;\n.param .b32 back;\nst.param.b32 [first], {a};\nst.param.b64 [second], {b};\ncall.uni (back), function{n}, (first, second);\nld.param.b32 {d}, [back];\n}}"
        ));
    }

    fn finish(mut self) -> Kernel {
        let threads = self.options.threads;
        let mut slots = Vec::new();
        let mut stores = String::new();
        let mut thread_bytes = 0u32;
        let mut store = |register: &str, ty: &str, approximate: Option<String>| {
            let bytes = if matches!(ty, "b64" | "f64") { 8 } else { 4 };
            let offset = thread_bytes.next_multiple_of(bytes);
            let text = match ty {
                "pred" => {
                    format!("selp.b32 %t0, 1, 0, {register};\nst.global.b32 [%out+{offset}], %t0;")
                }
                "b16" => {
                    format!("cvt.u32.u16 %t0, {register};\nst.global.b32 [%out+{offset}], %t0;")
                }
                _ => format!("st.global.{ty} [%out+{offset}], {register};"),
            };
            stores.push_str(&text);
            stores.push('\n');
            slots.push(Slot {
                offset,
                bytes,
                approximate,
            });
            thread_bytes = offset + bytes;
        };
        let mut registers = String::new();
        let mut loads = String::new();
        let mut word = 0u32;
        for &(_, prefix, ty, count) in POOLS {
            _ = writeln!(registers, ".reg .{ty} {prefix}<{count}>;");
            for n in 0..count {
                let from = word % (INPUT_WORDS * 2) * 4;
                let load = match ty {
                    "pred" => format!(
                        "ld.global.b32 %t0, [%in+{from}];\nand.b32 %t0, %t0, 1;\nsetp.ne.s32 {prefix}{n}, %t0, 0;"
                    ),
                    "b64" | "f64" => {
                        word = word.next_multiple_of(2);
                        let from = word % (INPUT_WORDS * 2) * 4;
                        word += 1;
                        format!("ld.global.{ty} {prefix}{n}, [%in+{from}];")
                    }
                    _ => format!("ld.global.{ty} {prefix}{n}, [%in+{from}];"),
                };
                word += 1;
                loads.push_str(&load);
                loads.push('\n');
                store(&format!("{prefix}{n}"), ty, None);
            }
        }
        for (n, text) in self.approximate.iter().enumerate() {
            _ = writeln!(loads, "mov.f32 %x{n}, 0f00000000;");
            store(&format!("%x{n}"), "f32", Some(text.clone()));
        }
        let thread_bytes = thread_bytes.next_multiple_of(8);
        let (n, x) = (self.next + 1, self.approximate.len() + 1);
        let total = threads * thread_bytes;
        let accumulators = 2 * ACCUMULATORS.len() as u32;
        let (major, minor) = self.options.version;
        let mut text = format!(
            ".version {major}.{minor}
.target sm_{}
.address_size 64
{}.visible .entry kernel(.param .u64 input, .param .u64 output)
{{
.shared .align 4 .b8 values[{}];
.shared .align 4 .b8 sums[{}];
.local .align 8 .b8 stack[32];
{registers}.reg .b32 %t<4>;
.reg .b64 %t4, %in, %out, %sum, %stack;
.reg .b32 %own, %base, %me;
.reg .pred %t, %b<{n}>;
.reg .b32 %m<{n}>, %n<{n}>, %c<{n}>;
.reg .f32 %x<{x}>;
",
            self.options.sm,
            self.functions,
            threads * 4,
            accumulators * 2,
        );
        _ = write!(
            text,
            "ld.param.u64 %in, [input];
ld.param.u64 %out, [output];
add.u64 %sum, %out, {total};
mov.u32 %me, %tid.x;
mad.wide.u32 %in, %me, {}, %in;
mad.wide.u32 %out, %me, {thread_bytes}, %out;
mov.u32 %base, values;
mad.lo.u32 %own, %me, 4, %base;
mov.u64 %stack, stack;
{loads}",
            INPUT_WORDS * 8
        );
        for n in 0..4 {
            _ = writeln!(text, "st.local.b64 [stack+{}], %l{n};", n * 8);
        }
        // Thread 0 clears the sums of the block, and in the end writes them.
        _ = writeln!(text, "setp.ne.u32 %b0, %me, 0;\n@%b0 bra CLEARED;");
        for at in 0..ACCUMULATORS.len() {
            _ = writeln!(text, "st.shared.u32 [sums+{}], 0;", at * 4);
        }
        _ = writeln!(
            text,
            "CLEARED:\nbar.sync 0;\n{}bar.sync 0;\n{stores}",
            self.body
        );
        _ = writeln!(text, "setp.ne.u32 %b0, %me, 0;\n@%b0 bra WRITTEN;");
        for at in 0..ACCUMULATORS.len() {
            let to = (ACCUMULATORS.len() + at) * 4;
            _ = writeln!(
                text,
                "ld.shared.b32 %t0, [sums+{}];\nst.global.b32 [%sum+{to}], %t0;",
                at * 4
            );
        }
        text.push_str("WRITTEN:\nret;\n}\n");
        Kernel {
            text,
            threads,
            input: self.input(),
            slots,
            thread_bytes,
            accumulators,
        }
    }

    fn input(&mut self) -> Vec<u64> {
        let words = self.options.threads * INPUT_WORDS;
        (0..words)
            .map(|_| match self.random.below(4) {
                0 => self.random.next(),
                1 => EDGES_64[self.random.below(EDGES_64.len() as u64) as usize],
                _ => {
                    let mut half = || EDGES_32[self.random.below(EDGES_32.len() as u64) as usize];
                    u64::from(half()) << 32 | u64::from(half())
                }
            })
            .collect()
    }
}
