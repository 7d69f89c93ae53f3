//! Kernels made of instructions of all forms, with hostile addresses, sizes and branches: whatever a launch does, it ends
//! with a report or a fault, touches no memory but its own, and does the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use r3_emu::memory::textures::{Format, Image, Level, Object, Sampler, Texture};
use r3_emu::memory::{LOCAL_BASE, PARAM_BASE, SHARED_BASE};
use r3_emu::{Fault, FaultKind, LaunchConfig, Memory, Placement, Program, Report, RunOptions};
use std::sync::{Arc, LazyLock};

/// Instructions of all forms, on the registers and variables of [`HEAD`].
static INSTRUCTIONS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let forms = r3_ptx::isa::Forms::table();
    let examples = forms.all().iter().flat_map(r3_ptx::generate::examples);
    let mut all: Vec<String> = examples.map(|example| example.text).collect();
    all.sort();
    all.dedup();
    all
});

/// Where the buffer is, and how many bytes it has.
const BUFFER: u64 = 0x7f00_0000_0000;
const BUFFER_BYTES: u64 = 4096;
/// Where variables of the module are.
const VARIABLES: u64 = 0x1000_0000;

/// What registers of 64 bits start with.
const LONGS: &[u64] = &[
    0,
    1,
    4,
    16,
    1024,
    BUFFER,
    BUFFER + 128,
    BUFFER + BUFFER_BYTES - 8,
    BUFFER + BUFFER_BYTES,
    VARIABLES,
    SHARED_BASE,
    SHARED_BASE + 0x3f8,
    SHARED_BASE + 0x0100_0000,
    SHARED_BASE + 0xffff_ff80,
    LOCAL_BASE,
    LOCAL_BASE + 0x3fc,
    LOCAL_BASE + 0xffff_fff0,
    PARAM_BASE,
    PARAM_BASE + 120,
    0x4600_0000_0000_0000,
    0x4600_0000_0000_0010,
    0x4600_0000_0000_0020,
    0x0400_0000_0000_0000,
    u64::MAX,
    u64::MAX - 15,
    1 << 63,
    0x8000_0000,
    0xffff_ffff,
    512 << 10,
];

/// What registers of 32 bits start with.
const WORDS: &[u32] = &[
    0,
    1,
    2,
    3,
    4,
    8,
    16,
    31,
    32,
    64,
    128,
    1016,
    1024,
    0x0100_0000,
    0x0200_0040,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_0000,
    0xffff_fff0,
    0xffff_ffff,
];

const HEAD: &str = "
.version 9.0
.target sm_90a
.address_size 64
.global .align 128 .b8 global[1024];
.const .align 128 .b8 constant[1024];
.shared .align 128 .b8 shared[1024];
.extern .shared .align 16 .b8 dynamic[];
.global .texref texture;
.global .surfref surface;
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.extern .func (.param .b64 r) malloc(.param .b64 n);
.extern .func free(.param .b64 p);
.func (.param .b32 result) function(.param .b32 argument);
.func deeper(.param .b64 n)
{
.local .align 8 .b8 room[4096];
.param .b32 x; .param .b32 y;
.reg .b64 %n, %a; .reg .pred %q; .reg .b32 %v;
ld.param.u64 %n, [n];
mov.u64 %a, room;
st.local.u64 [%a], %n;
setp.eq.u64 %q, %n, 0;
@%q ret;
sub.u64 %n, %n, 1;
{ .param .b64 again; st.param.b64 [again], %n; call deeper, (again); }
call (y), function, (x);
ret;
}
.func (.param .b32 result) function(.param .b32 argument)
{
.reg .b32 %v;
ld.param.u32 %v, [argument];
shfl.sync.bfly.b32 %v, %v, 1, 31, -1;
st.param.b32 [result], %v;
ret;
}
.visible .entry kernel(.param .align 64 .b8 parameter[128])
{
.reg .pred %p<8>; .reg .b8 %rb<300>; .reg .b16 %rs<300>; .reg .b32 %r<300>; .reg .b64 %rd<300>;
.reg .b128 %rq<300>; .reg .f32 %f<300>; .reg .f64 %fd<300>;
.local .align 128 .b8 stack[1024];
.param .b32 argument;
.param .b32 result;
targets: .branchtargets L0, after, L3;
prototype: .callprototype _ (.param .b64 n);
mov.u32 %r299, %laneid;
cvt.u64.u32 %rd299, %r299;
";

/// Lines that no form gives.
const EXTRA: &[&str] = &[
    "bra L0;",
    "bra L3;",
    "@%p2 bra L5;",
    "@!%p3 bra L1;",
    "@%p4 exit;",
    "brx.idx %r2, targets;",
    "brx.idx %r299, targets;",
    "bar.sync 0;",
    "@%p5 bar.sync 1, 64;",
    "bar.warp.sync -1;",
    "{ .param .b64 n; st.param.b64 [n], %rd2; call deeper, (n); }",
    "{ .param .b64 n; st.param.b64 [n], %rd299; call %rd3, (n), prototype; }",
    "{ .param .b64 n; .param .b64 r; st.param.b64 [n], %rd4; call (r), malloc, (n); ld.param.b64 %rd5, [r]; }",
    "{ .param .b64 n; st.param.b64 [n], %rd5; call free, (n); }",
    "{ .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %rd2; st.param.b64 [a], %rd6; call (r), vprintf, (f, a); }",
    "mbarrier.init.shared.b64 [shared], %r2;",
    "mov.u32 %r4, shared;",
    "mov.u32 %r5, dynamic;",
    "mov.u64 %rd4, stack;",
    "add.u64 %rd2, %rd2, %rd299;",
    "mad.lo.u64 %rd3, %rd299, 16, %rd3;",
    "add.u32 %r2, %r2, %r299;",
    "mad.lo.u32 %r3, %r299, 132, %r3;",
    "setp.lt.u32 %p2, %r299, 7;",
    "setp.lt.u64 %p3, %rd2, %rd3;",
    "activemask.b32 %r6;",
    "st.global.v4.u32 [%rd2], {%r2, %r3, %r4, %r5};",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [shared], [%rd2], %r3, [%r4];",
    "alloca.u64 %rd7, %rd2, 16;",
    "stackrestore.u64 %rd8;",
];

/// The bytes of the input as decisions; zeros behind its end.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    fn below(&mut self, n: usize) -> usize {
        (usize::from(self.byte()) << 8 | usize::from(self.byte())) % n.max(1)
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

fn text(bytes: &mut Bytes<'_>) -> String {
    let mut text = HEAD.to_owned();
    for n in 2..18 {
        let (long, word) = (bytes.of(LONGS), bytes.of(WORDS));
        text += &format!("mov.u64 %rd{n}, {long:#x};\nmov.u32 %r{n}, {word:#x};\n");
        text += &format!(
            "cvt.u16.u32 %rs{n}, %r{n};\nmov.b32 %f{n}, %r{n};\nmov.b64 %fd{n}, %rd{n};\n"
        );
    }
    for n in 2..8 {
        let least = bytes.below(34);
        text += &format!("setp.lt.u32 %p{n}, %r299, {least};\n");
    }
    let count = bytes.below(48);
    let mut labels = 0;
    for line in 0..count {
        if line % 5 == 0 && labels < 8 {
            text += &format!("L{labels}:\n");
            labels += 1;
        }
        let kind = bytes.byte();
        let mut instruction = match kind {
            0..96 => bytes.of(EXTRA).to_owned(),
            _ => INSTRUCTIONS[bytes.below(INSTRUCTIONS.len())].clone(),
        };
        if kind % 4 == 1 {
            // Another register of the same kind.
            let digits: Vec<usize> = instruction
                .char_indices()
                .filter(|(i, c)| {
                    let kinds = ["%r", "%rd", "%rs", "%f", "%fd"];
                    c.is_ascii_digit() && kinds.iter().any(|kind| instruction[..*i].ends_with(kind))
                })
                .map(|(i, _)| i)
                .collect();
            if !digits.is_empty() {
                let at = bytes.of(&digits);
                let end = at
                    + instruction[at..]
                        .chars()
                        .take_while(char::is_ascii_digit)
                        .count();
                instruction.replace_range(at..end, &(2 + bytes.below(16)).to_string());
            }
        }
        if kind % 8 == 3 && !instruction.starts_with(['@', '{']) {
            let not = if kind % 16 == 3 { "!" } else { "" };
            text += &format!("@{not}%p{} ", 2 + bytes.below(6));
        }
        text += &instruction;
        text.push('\n');
    }
    for label in labels..8 {
        text += &format!("L{label}:\n");
    }
    text += "after:\nret;\n}\n";
    text
}

struct Shape {
    grid: [u32; 3],
    block: [u32; 3],
    cluster: [u32; 3],
    dynamic_shared: u32,
    cooperative: bool,
    racecheck: bool,
    threads: usize,
    limit: u64,
}

fn shape(bytes: &mut Bytes<'_>) -> Shape {
    let flags = bytes.byte();
    Shape {
        grid: [
            bytes.of(&[1, 2, 3, 4]),
            bytes.of(&[1, 1, 2, 0]),
            bytes.of(&[1, 1, 1, 70000]),
        ],
        block: [
            bytes.of(&[1, 32, 33, 64, 96, 1000]),
            bytes.of(&[1, 1, 2, 5]),
            bytes.of(&[1, 1, 0, 4]),
        ],
        cluster: [bytes.of(&[1, 1, 2, 4]), 1, 1],
        dynamic_shared: bytes.of(&[0, 64, 100, 4096, u32::MAX]),
        cooperative: flags & 1 != 0,
        racecheck: flags & 2 != 0,
        threads: if flags & 4 != 0 { 2 } else { 1 },
        limit: bytes.of(&[200, 2000, 20000]),
    }
}

/// What a launch leaves: its result, the buffer, the module's variable, what it printed.
type Outcome = (Result<Report, Fault>, Vec<u8>, Vec<u8>);

fn image() -> Image {
    let level = Level {
        width: 8,
        height: 8,
        depth: 1,
        address: BUFFER + 1024,
        row_pitch: 64,
        slice_pitch: 512,
    };
    Image {
        format: Format::F32,
        channels: 2,
        layers: 0,
        linear: false,
        levels: vec![level],
    }
}

fn run(module: &r3_ptx::typed::Module, shape: &Shape) -> Option<Outcome> {
    let memory = Memory::new();
    memory.map(BUFFER, BUFFER_BYTES).ok()?;
    let bytes: Vec<u8> = (0..BUFFER_BYTES)
        .map(|i| b"%s%*.*f%d%n%lx\0\x01"[i as usize % 16])
        .collect();
    memory.write(BUFFER, &bytes).ok()?;
    let mut next = VARIABLES;
    let place_memory = memory.clone();
    let mut place = |p: &Placement<'_>| {
        let at = next.next_multiple_of(p.align.max(128));
        let size = p.size.clamp(1, 1 << 20);
        next = at + size;
        place_memory.map(at, size).map_err(|e| e.to_string())?;
        Ok(at)
    };
    let program = Program::load(&[module], &memory, &mut place).ok()?;
    let texture = Texture {
        image: image(),
        sampler: Sampler::default(),
    };
    let texture = memory.add_object(Object::Texture(Arc::new(texture)));
    let surface = memory.add_object(Object::Surface(Arc::new(image())));
    for (name, handle) in [("texture", texture), ("surface", surface)] {
        if let Some((at, _)) = program.global(name) {
            _ = memory.write(at, &handle.to_le_bytes());
        }
    }
    let kernel = program.kernel("kernel")?;
    let config = LaunchConfig {
        grid: shape.grid,
        block: shape.block,
        cluster: shape.cluster,
        dynamic_shared: shape.dynamic_shared,
        cooperative: shape.cooperative,
        params: &[7; 128],
        blocks: None,
    };
    let options = RunOptions {
        threads: shape.threads,
        racecheck: shape.racecheck,
        instruction_limit: Some(shape.limit),
        print: &|_| {},
        cancel: None,
    };
    let result = program.launch(kernel, &config, &memory, &options);
    if let Err(fault) = &result {
        _ = fault.to_string();
        assert!(!matches!(fault.kind, FaultKind::Internal(_)), "{fault}");
    }
    let mut buffer = vec![0; BUFFER_BYTES as usize];
    memory.read(BUFFER, &mut buffer).ok()?;
    let mut variable = vec![0; 1024];
    if let Some((at, _)) = program.global("global") {
        memory.read(at, &mut variable).ok()?;
    }
    Some((result, buffer, variable))
}

fuzz_target!(|data: &[u8]| {
    let mut bytes = Bytes(data);
    let shape = shape(&mut bytes);
    let mut text = text(&mut bytes);
    // Sometimes a few characters become others.
    let changes = bytes.below(12).saturating_sub(8);
    for _ in 0..changes {
        let (at, new) = (bytes.below(text.len()), bytes.byte());
        if text.is_char_boundary(at) && text.is_char_boundary(at + 1) {
            text.replace_range(at..=at, char::from(new & 127).encode_utf8(&mut [0; 4]));
        }
    }
    let checked = r3_ptx::parse(&text).and_then(|tree| r3_ptx::check(&tree));
    let module = match checked {
        Ok(module) => module,
        Err(errors) => {
            if std::env::var_os("FUZZ_TELL").is_some() {
                eprintln!("{}", errors.render(&text));
            }
            return;
        }
    };
    let first = run(&module, &shape);
    // Grids have numbers of their own, which kernels can see.
    if shape.threads == 1 && !text.contains("gridid") && !shape.cooperative {
        assert_eq!(first, run(&module, &shape));
    }
});
