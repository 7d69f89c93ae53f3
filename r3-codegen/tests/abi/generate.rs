//! Modules with interfaces of all shapes: parameters, shared memory, launch bounds, functions, variables.

use std::fmt::Write;

/// A small generator of random numbers: the same for a seed on every machine.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

/// A type, its bytes, and a load of it into a register of the right class.
const SCALARS: &[(&str, u64)] = &[
    ("u8", 1),
    ("s8", 1),
    ("b8", 1),
    ("u16", 2),
    ("s16", 2),
    ("b16", 2),
    ("u32", 4),
    ("s32", 4),
    ("b32", 4),
    ("f32", 4),
    ("u64", 8),
    ("s64", 8),
    ("b64", 8),
    ("f64", 8),
];

/// A parameter.
#[derive(Clone)]
struct Param {
    /// With its name as `{}`.
    declaration: String,
    bytes: u64,
    align: u64,
    /// The type of a scalar.
    scalar: Option<&'static str>,
}

impl Param {
    fn named(&self, name: &str) -> String {
        self.declaration.replace("{}", name)
    }
}

/// Of a function, where assemblers take no narrow ones.
fn wide_scalar(random: &mut Random) -> Param {
    loop {
        let found = scalar(random);
        if found.bytes >= 4 {
            return found;
        }
    }
}

fn scalar(random: &mut Random) -> Param {
    let (ty, bytes) = random.pick(SCALARS);
    Param {
        declaration: format!(".param .{ty} {{}}"),
        bytes,
        align: bytes,
        scalar: Some(ty),
    }
}

fn array(random: &mut Random, most: u64) -> Param {
    let (ty, element) = random.pick(SCALARS);
    let least = element.trailing_zeros() as u64;
    let align = 1 << (least + random.below(6 - least.min(5)));
    let count = 1 + random.below(most / element);
    let given = align != element || random.one_in(2);
    let text = match given {
        true => format!(".param .align {align} .{ty} {{}}[{count}]"),
        false => format!(".param .{ty} {{}}[{count}]"),
    };
    Param {
        declaration: text,
        bytes: count * element,
        align: if given { align } else { element },
        scalar: None,
    }
}

fn kernel_param(random: &mut Random) -> Param {
    match random.below(10) {
        0..=3 => scalar(random),
        4 | 5 => {
            let most = random.pick(&[8, 16, 64, 300]);
            array(random, most)
        }
        6 => {
            // More alignment than a scalar needs.
            let (ty, bytes) = random.pick(SCALARS);
            let align = bytes << random.below(3);
            Param {
                declaration: format!(".param .align {align} .{ty} {{}}"),
                bytes,
                align,
                scalar: Some(ty),
            }
        }
        _ => {
            let space = random.pick(&["", " .global", " .shared", " .const", " .local"]);
            let align = random.pick(&["", " .align 1", " .align 4", " .align 16", " .align 128"]);
            Param {
                declaration: format!(".param .u64 .ptr{space}{align} {{}}"),
                bytes: 8,
                align: 8,
                scalar: Some("u64"),
            }
        }
    }
}

/// A device function.
struct Function {
    name: String,
    result: Option<Param>,
    params: Vec<Param>,
}

struct Writer<'r> {
    random: &'r mut Random,
    text: String,
    functions: Vec<Function>,
    shared: Vec<String>,
    dynamic: Vec<String>,
    next: u32,
    /// Functions have shared variables of their own. The assembler's order of variables then depends on what it inlines
    /// itself: sizes are such that no order needs padding.
    even: bool,
}

/// A module with so many kernels.
pub fn module(seed: u64, kernels: usize) -> String {
    let mut random = Random::new(seed);
    let even = random.one_in(2);
    let mut writer = Writer {
        even,
        random: &mut random,
        text: ".version 8.5\n.target sm_90\n.address_size 64\n".into(),
        functions: Vec::new(),
        shared: Vec::new(),
        dynamic: Vec::new(),
        next: 0,
    };
    writer.module(kernels);
    writer.text
}

impl Writer<'_> {
    fn module(&mut self, kernels: usize) {
        self.text.push_str(
            ".extern .func (.param .b32 r) vprintf (.param .b64 format, .param .b64 arguments);\n",
        );
        for i in 0..self.random.below(4) {
            let bytes = 1 + self.random.below(500);
            let bytes = self.sized(bytes);
            let align = 1 << self.random.below(6);
            _ = writeln!(self.text, ".shared .align {align} .b8 shared_{i}[{bytes}];");
            self.shared.push(format!("shared_{i}"));
        }
        for i in 0..self.random.below(3) {
            let align = self.random.pick(&[4, 8, 16, 128]);
            _ = writeln!(
                self.text,
                ".extern .shared .align {align} .b8 dynamic_{i}[];"
            );
            self.dynamic.push(format!("dynamic_{i}"));
        }
        self.text.push_str(VARIABLES);
        for i in 0..self.random.below(5) {
            self.function(i);
        }
        self.table();
        for i in 0..kernels {
            self.kernel(i);
        }
    }

    fn sized(&self, bytes: u64) -> u64 {
        match self.even {
            true => bytes.next_multiple_of(64),
            false => bytes,
        }
    }

    fn register(&mut self, ty: &str) -> String {
        self.next += 1;
        let prefix = match ty {
            "f32" => "%f",
            "f64" => "%fd",
            _ => match ty.trim_start_matches(|c: char| c.is_alphabetic()) {
                "8" | "16" => "%h",
                "32" => "%r",
                _ => "%d",
            },
        };
        format!("{prefix}{}", self.next)
    }

    /// Stores a register where the host sees it.
    fn store(&mut self, ty: &str, register: &str) {
        let offset = self.next % 64 * 8;
        _ = writeln!(self.text, "\tst.global.{ty} [%out+{offset}], {register};");
    }

    fn registers(&mut self) {
        self.text.push_str(
            "\t.reg .b16 %h<3000>;\n\t.reg .b32 %r<3000>;\n\t.reg .b64 %d<3000>;\n\t.reg .f32 %f<3000>;\n\t.reg .f64 \
             %fd<3000>;\n\t.reg .pred %p<8>;\n\t.reg .b64 %out;\n",
        );
        self.next = 0;
        self.text
            .push_str("\tmov.u64 %out, sink;\n\tcvta.global.u64 %out, %out;\n\tcvta.to.global.u64 %out, %out;\n");
    }

    /// Loads of a parameter, of many kinds.
    fn use_param(&mut self, name: &str, param: &Param, kernel: bool) {
        if let Some(ty) = param.scalar {
            let register = self.register(ty);
            _ = writeln!(self.text, "\tld.param.{ty} {register}, [{name}];");
            self.store(ty, &register);
            if param.bytes >= 4 && self.random.one_in(4) {
                let part = self.register("u16");
                let offset = self.random.below(param.bytes / 2) * 2;
                _ = writeln!(self.text, "\tld.param.u16 {part}, [{name}+{offset}];");
                self.store("u16", &part);
            }
            return;
        }
        let width = self.random.pick(&[1, 2, 4, 8]).min(param.align);
        let ty = match width {
            1 => "u8",
            2 => "b16",
            4 => "f32",
            _ => "u64",
        };
        if param.bytes >= width {
            let register = self.register(ty);
            let offset = self.random.below(param.bytes / width) * width;
            _ = writeln!(self.text, "\tld.param.{ty} {register}, [{name}+{offset}];");
            self.store(ty, &register);
        }
        if param.align >= 8 && param.bytes >= 8 && self.random.one_in(2) {
            let (a, b) = (self.register("b32"), self.register("b32"));
            _ = writeln!(self.text, "\tld.param.v2.b32 {{{a}, {b}}}, [{name}];");
            self.store("b32", &a);
            self.store("b32", &b);
        }
        if kernel && self.random.one_in(3) {
            let (index, wide, address) = (
                self.register("u32"),
                self.register("u64"),
                self.register("u64"),
            );
            let value = self.register("u8");
            _ = writeln!(
                self.text,
                "\tmov.u32 {index}, %tid.x;\n\tcvt.u64.u32 {wide}, {index};\n\tmov.b64 {address}, {name};\n\tadd.s64 \
                 {address}, {address}, {wide};"
            );
            match self.random.one_in(2) {
                true => _ = writeln!(self.text, "\tld.param.u8 {value}, [{address}];"),
                false => {
                    _ = writeln!(
                        self.text,
                        "\tcvta.param.u64 {address}, {address};\n\tld.u8 {value}, [{address}];"
                    );
                }
            }
            self.store("u8", &value);
        }
    }

    fn function(&mut self, number: u64) {
        let result = match self.random.below(4) {
            0 => None,
            1 | 2 => Some(wide_scalar(self.random)),
            _ => Some(array(self.random, 40)),
        };
        let count = self.random.below(5);
        let params: Vec<Param> = (0..count)
            .map(|_| match self.random.below(3) {
                0 => array(self.random, 40),
                _ => wide_scalar(self.random),
            })
            .collect();
        let name = format!("function_{number}");
        let linkage = self.random.pick(&["", "", ".visible ", ".weak "]);
        _ = write!(self.text, "{linkage}.func ");
        if let Some(result) = &result {
            _ = write!(self.text, "({}) ", result.named("result"));
        }
        _ = write!(self.text, "{name}(");
        for (i, param) in params.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            _ = write!(self.text, "{comma}{}", param.named(&format!("p{i}")));
        }
        self.text.push_str(")\n{\n");
        if self.even && self.random.one_in(2) {
            let bytes = 8 + self.random.below(140);
            _ = writeln!(
                self.text,
                "\t.shared .align 8 .b8 own[{}];",
                self.sized(bytes)
            );
            self.registers();
            let register = self.register("u32");
            _ = writeln!(self.text, "\tld.shared.u32 {register}, [own+4];");
            self.store("u32", &register);
        } else {
            self.registers();
        }
        for (i, param) in params.iter().enumerate() {
            self.use_param(&format!("p{i}"), param, false);
        }
        if !self.functions.is_empty() && self.random.one_in(2) {
            let callee = self.random.below(self.functions.len() as u64) as usize;
            self.call(callee, false);
        }
        if let Some(result) = &result {
            self.fill("result", result);
        }
        self.text.push_str("\tret;\n}\n");
        self.functions.push(Function {
            name,
            result,
            params,
        });
    }

    /// Stores into all bytes of something in parameter space.
    fn fill(&mut self, name: &str, param: &Param) {
        if let Some(ty) = param.scalar {
            let register = self.register(ty);
            _ = writeln!(self.text, "\tld.global.{ty} {register}, [%out];");
            _ = writeln!(self.text, "\tst.param.{ty} [{name}], {register};");
            return;
        }
        let width = [8, 4, 2, 1]
            .into_iter()
            .find(|w| param.align >= *w && param.bytes.is_multiple_of(*w))
            .unwrap_or(1);
        let ty = match width {
            1 => "b8",
            2 => "b16",
            4 => "b32",
            _ => "f64",
        };
        for at in 0..param.bytes / width {
            let register = self.register(ty);
            let offset = at * width;
            _ = writeln!(self.text, "\tld.global.{ty} {register}, [%out+{offset}];");
            _ = writeln!(self.text, "\tst.param.{ty} [{name}+{offset}], {register};");
        }
    }

    fn call(&mut self, callee: usize, indirect: bool) {
        let Function {
            name,
            result,
            params,
        } = &self.functions[callee];
        let (name, result, params) = (name.clone(), result.clone(), params.clone());
        self.text.push_str("\t{\n");
        for (i, param) in params.iter().enumerate() {
            let given = format!("argument{i}");
            _ = writeln!(self.text, "\t{};", param.named(&given));
            self.fill(&given, param);
        }
        if let Some(result) = &result {
            _ = writeln!(self.text, "\t{};", result.named("back"));
        }
        let back = if result.is_some() { "(back), " } else { "" };
        let list: Vec<String> = (0..params.len()).map(|i| format!("argument{i}")).collect();
        let list = match list.is_empty() {
            true => String::new(),
            false => format!(", ({})", list.join(", ")),
        };
        match indirect {
            false => _ = writeln!(self.text, "\tcall.uni {back}{name}{list};"),
            true => {
                let address = self.register("u64");
                _ = writeln!(self.text, "\tmov.u64 {address}, {name};");
                let result = result
                    .iter()
                    .map(|r| format!("({}) ", r.named("_")))
                    .collect::<String>();
                let params: Vec<String> = params.iter().map(|p| p.named("_")).collect();
                _ = writeln!(
                    self.text,
                    "\tproto: .callprototype {result}_ ({});",
                    params.join(", ")
                );
                // The list of arguments cannot be left out in front of a prototype.
                let list = if list.is_empty() { ", ()".into() } else { list };
                _ = writeln!(self.text, "\tcall {back}{address}{list}, proto;");
            }
        }
        if let Some(result) = &result {
            self.use_param("back", result, false);
        }
        self.text.push_str("\t}\n");
    }

    /// Addresses of functions and variables in initialisers.
    fn table(&mut self) {
        let mut list: Vec<String> = self.functions.iter().map(|f| f.name.clone()).collect();
        list.push("generic(table)+8".into());
        list.push("numbers".into());
        _ = writeln!(
            self.text,
            ".visible .global .align 8 .u64 addresses[{}] = {{{}}};",
            list.len(),
            list.join(", ")
        );
    }

    fn bounds(&mut self) {
        let random = &mut *self.random;
        match random.below(6) {
            0 => _ = writeln!(self.text, ".maxntid {}", 32 << random.below(5)),
            1 => {
                _ = writeln!(
                    self.text,
                    ".maxntid {}, {}, 1",
                    1 + random.below(16),
                    1 + random.below(16)
                )
            }
            2 => {
                _ = writeln!(
                    self.text,
                    ".reqntid {}, {}",
                    1 + random.below(64),
                    1 + random.below(4)
                )
            }
            3 => _ = writeln!(self.text, ".reqntid {}, 2, 3", 1 + random.below(64)),
            _ => {}
        }
        let bounded =
            self.text
                .ends_with(|c: char| c.is_ascii_digit() || c == '\n')
                && self.text.lines().last().is_some_and(|line| {
                    line.starts_with(".maxntid") || line.starts_with(".reqntid")
                });
        if bounded && random.one_in(3) {
            _ = writeln!(self.text, ".minnctapersm {}", 1 + random.below(2));
        }
        if random.one_in(4) {
            _ = writeln!(self.text, ".maxnreg {}", 32 + random.below(12) * 8);
        }
        match random.below(6) {
            0 => {
                _ = writeln!(
                    self.text,
                    ".explicitcluster\n.reqnctapercluster {}, {}, 1",
                    1 + random.below(2),
                    1 + random.below(4)
                );
            }
            1 => _ = writeln!(self.text, ".maxclusterrank {}", 1 << random.below(4)),
            _ => {}
        }
    }

    fn kernel(&mut self, number: usize) {
        let count = match self.random.below(8) {
            0 => 0,
            1 => 30,
            _ => 1 + self.random.below(9),
        };
        let params: Vec<Param> = (0..count).map(|_| kernel_param(self.random)).collect();
        let linkage = self
            .random
            .pick(&[".visible ", ".visible ", ".visible ", ".weak "]);
        _ = write!(self.text, "{linkage}.entry kernel_{number}(");
        for (i, param) in params.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            _ = write!(
                self.text,
                "{comma}\n\t{}",
                param.named(&format!("k{number}_{i}"))
            );
        }
        self.text.push_str(")\n");
        self.bounds();
        self.text.push_str("{\n");
        let own = self.random.below(3);
        for i in 0..own {
            let bytes = 4 + self.random.below(100);
            let bytes = self.sized(bytes);
            let align = 4 << self.random.below(3);
            _ = writeln!(self.text, "\t.shared .align {align} .b8 own_{i}[{bytes}];");
        }
        self.registers();
        for i in 0..own {
            match self.random.below(3) {
                0 => {}
                1 => {
                    let register = self.register("u32");
                    _ = writeln!(self.text, "\tld.shared.u32 {register}, [own_{i}];");
                }
                _ => _ = writeln!(self.text, "\tst.shared.u32 [own_{i}], 1;"),
            }
        }
        for (i, param) in params.iter().enumerate() {
            if !self.random.one_in(5) {
                self.use_param(&format!("k{number}_{i}"), param, true);
            }
        }
        for name in self.shared.clone() {
            let register = self.register("u32");
            match self.random.below(4) {
                0 => {
                    _ = writeln!(self.text, "\tmov.u32 {register}, {name};");
                    self.store("u32", &register);
                }
                // Of no consequence, but it counts.
                1 => _ = writeln!(self.text, "\tmov.u32 {register}, {name};"),
                2 => _ = writeln!(self.text, "\tst.shared.u8 [{name}], 3;"),
                _ => {}
            }
        }
        for name in self.dynamic.clone() {
            if self.random.one_in(2) {
                let register = self.register("u32");
                _ = writeln!(self.text, "\tld.shared.u32 {register}, [{name}+4];");
                self.store("u32", &register);
            }
        }
        if !self.functions.is_empty() {
            for _ in 0..self.random.below(3) {
                let callee = self.random.below(self.functions.len() as u64) as usize;
                let indirect = self.random.one_in(3);
                self.call(callee, indirect);
            }
        }
        if self.random.one_in(5) {
            self.text.push_str(PRINT);
        }
        self.text.push_str("\tret;\n}\n");
    }
}

const VARIABLES: &str = "\
.visible .global .align 8 .b8 sink[1024];
.visible .const .align 4 .u32 numbers[4] = {1, 2, 0xFFFFFFFF, 4};
.global .align 1 .b8 format[4] = {37, 100, 10, 0};
.visible .global .attribute(.managed) .align 4 .b32 managed_word = 7;
.weak .global .align 4 .u32 weak_word = 9;
.common .global .align 4 .b32 common_word;
.visible .global .texref texture;
.visible .global .u64 table[2] = {generic(sink), sink+16};
";

const PRINT: &str = "\
	{
	.param .b64 param0;
	.param .b64 param1;
	.param .b32 retval0;
	.reg .b64 %format; .reg .b32 %printed;
	mov.u64 %format, format;
	cvta.global.u64 %format, %format;
	st.param.b64 [param0], %format;
	st.param.b64 [param1], 0;
	call.uni (retval0), vprintf, (param0, param1);
	ld.param.b32 %printed, [retval0];
	}
";
