//! What a kernel's code is like, for searches that tell kinds of code apart: from its PTX, its cubin and its launches.

use std::collections::BTreeSet;

use r3_archive::model::LaunchId;
use r3_codegen::recipe::Resources;
use r3_ptx::isa::{Mnemonic, Opcode, ScalarType, Space, TypeKind, Word};
use r3_ptx::typed::{Operand, Variable};

use super::describe::DeviceDescription;
use super::engine::shape::Shape;
use super::outcome::{Behaviour, Mix};
use super::rules::Code;

/// What code is like that is launched in these shapes.
pub fn of(
    code: &Code,
    resources: Option<&Resources>,
    shapes: &[(LaunchId, Shape)],
    device: &DeviceDescription,
) -> Behaviour {
    let mut behaviour = Behaviour {
        registers: resources.map(|used| used.registers),
        spilled: resources
            .and_then(|used| used.spills)
            .map(|(stores, loads)| stores.saturating_add(loads)),
        dynamic_shared: shapes
            .iter()
            .map(|(_, shape)| shape.dynamic_shared)
            .max()
            .unwrap_or(0),
        ..Behaviour::default()
    };
    let (declared_local, declared_shared) = declared(code);
    behaviour.local = resources.map_or(declared_local, |used| used.local);
    behaviour.static_shared = resources.map_or(declared_shared, |used| used.shared);
    for (_, body) in code.bodies() {
        for instruction in &body.instructions {
            let mnemonic = code.module.mnemonics.get(instruction.mnemonic.0 as usize);
            if let Some(mnemonic) = mnemonic {
                *kind(mnemonic, &mut behaviour.mix) += 1;
                widest(mnemonic, body.operands(instruction), &mut behaviour);
            }
        }
    }
    let occupancy = shapes.iter().filter_map(|(_, shape)| {
        let shared = behaviour.static_shared.saturating_add(shape.dynamic_shared);
        occupancy(shape.threads(), behaviour.registers, shared, device)
    });
    behaviour.occupancy = occupancy.min_by(f64::total_cmp);
    behaviour
}

/// Bytes of local and of static shared memory that the text declares.
fn declared(code: &Code) -> (u32, u32) {
    let of_module = code.variables.iter();
    let of_module = of_module.filter_map(|id| code.module.variables.get(id.0 as usize));
    let mut seen = BTreeSet::new();
    let (mut local, mut shared) = (0u64, 0u64);
    let mut add = |variable: &Variable| match variable.space {
        Space::Local => local = local.saturating_add(variable.size),
        space if space.is_shared() && seen.insert(variable.pos) => {
            shared = shared.saturating_add(variable.size);
        }
        _ => {}
    };
    of_module.for_each(&mut add);
    for (_, body) in code.bodies() {
        body.locals.iter().for_each(&mut add);
    }
    let narrow = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    (narrow(local), narrow(shared))
}

/// The count that an instruction belongs to.
fn kind<'m>(mnemonic: &Mnemonic, mix: &'m mut Mix) -> &'m mut u32 {
    use Opcode as O;
    match mnemonic.opcode() {
        O::Ld | O::Ldu | O::St | O::Cp | O::Prefetch | O::Discard | O::Multimem => {
            let spaces: Vec<Space> = mnemonic.spaces().collect();
            match spaces.as_slice() {
                // A copy between memories is what it costs in the slower one.
                spaces if spaces.contains(&Space::Global) => &mut mix.global,
                [] => &mut mix.global,
                [Space::Local, ..] => &mut mix.local,
                [space, ..] if space.is_shared() => &mut mix.shared,
                _ => &mut mix.constant,
            }
        }
        O::Tex | O::Tld4 | O::Suld | O::Sust | O::Sured => &mut mix.constant,
        O::Atom | O::Red => &mut mix.atomic,
        O::Bar if mnemonic.has(Word::Warp) => &mut mix.exchange,
        O::Bar | O::Barrier | O::Mbarrier | O::Membar | O::Fence => &mut mix.barrier,
        O::Shfl | O::Vote | O::Match | O::Activemask | O::Redux | O::Elect => &mut mix.exchange,
        O::Mma | O::Wmma | O::Wgmma | O::Tcgen05 | O::Ldmatrix | O::Stmatrix | O::Movmatrix => {
            &mut mix.matrix
        }
        O::Bra | O::Brx | O::Call | O::Ret | O::Exit | O::Trap => &mut mix.control,
        O::Cvt => &mut mix.conversion,
        O::Rcp | O::Sqrt | O::Rsqrt | O::Sin | O::Cos | O::Ex2 | O::Lg2 | O::Tanh => {
            &mut mix.special
        }
        O::Div if of_float(mnemonic) => &mut mix.special,
        O::Mov | O::Selp | O::Slct | O::Cvta | O::Isspacep | O::Prmt => &mut mix.other,
        _ => match mnemonic.types().last().copied() {
            Some(ScalarType::F64) => &mut mix.double,
            Some(ScalarType::F32 | ScalarType::F32x2 | ScalarType::TF32) => &mut mix.single,
            Some(ty) if ty.is_float() => &mut mix.half,
            Some(ty) if matches!(ty.kind(), TypeKind::Pred | TypeKind::Opaque) => &mut mix.other,
            Some(_) => &mut mix.integer,
            None => &mut mix.other,
        },
    }
}

fn of_float(mnemonic: &Mnemonic) -> bool {
    mnemonic.types().iter().any(|ty| ty.is_float())
}

/// Takes an access to global memory into account.
fn widest(mnemonic: &Mnemonic, operands: &[Operand], behaviour: &mut Behaviour) {
    let mut spaces = mnemonic.spaces();
    let global = match spaces.next() {
        None => true,
        Some(first) => first == Space::Global || spaces.any(|space| space == Space::Global),
    };
    if !global {
        return;
    }
    let bytes = || {
        let each = mnemonic.types().last().map_or(0, |ty| ty.bytes());
        u32::from(mnemonic.vector()).saturating_mul(u32::try_from(each).unwrap_or(0))
    };
    let (widest, bytes) = match mnemonic.opcode() {
        Opcode::Ld | Opcode::Ldu => (&mut behaviour.widest_load, bytes()),
        Opcode::St => (&mut behaviour.widest_store, bytes()),
        Opcode::Cp => {
            // The size of a thread's copy is its third operand; bulk copies are those of a whole block.
            let size = match operands.get(2) {
                Some(Operand::Number(size)) => u32::try_from(*size).unwrap_or(0),
                _ => 0,
            };
            (&mut behaviour.widest_load, size)
        }
        _ => return,
    };
    *widest = (*widest).max(bytes);
}

/// Threads of a warp.
const WARP: u32 = 32;
/// Registers are handed out to warps in pieces of so many, and shared memory to blocks in pieces of so many bytes.
const REGISTERS_PIECE: u32 = 256;
const SHARED_PIECE: u32 = 128;
/// What the system takes of each block's shared memory, on devices of compute capability 8.0 and later.
const SYSTEM_SHARED: u32 = 1024;

/// Part of a multiprocessor's threads that blocks of so many threads can fill; `None` where the device does not say how many it
/// has. A multiprocessor has as much shared memory as a block can have at most, plus what the system takes of it.
fn occupancy(
    threads: u32,
    registers: Option<u32>,
    shared: u32,
    device: &DeviceDescription,
) -> Option<f64> {
    let most = device.max_threads_per_multiprocessor;
    if most == 0 || threads == 0 {
        return None;
    }
    let warps = threads.div_ceil(WARP);
    let mut blocks = (most / WARP) / warps;
    if let Some(registers) = registers.filter(|n| *n > 0)
        && device.registers_per_multiprocessor > 0
    {
        let warp = registers
            .saturating_mul(WARP)
            .next_multiple_of(REGISTERS_PIECE);
        blocks = blocks.min(device.registers_per_multiprocessor / warp / warps);
    }
    if device.max_shared_per_block > 0 {
        let system = if device.sm >= 80 { SYSTEM_SHARED } else { 0 };
        let block = shared.saturating_add(system).next_multiple_of(SHARED_PIECE);
        let all = device.max_shared_per_block.saturating_add(system);
        blocks = blocks.min(all.checked_div(block).unwrap_or(blocks));
    }
    Some(f64::from(blocks.saturating_mul(warps * WARP).min(most)) / f64::from(most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::rules::code;

    fn hopper() -> DeviceDescription {
        DeviceDescription {
            sm: 90,
            max_threads_per_multiprocessor: 2048,
            registers_per_multiprocessor: 65_536,
            max_shared_per_block: 232_448,
            ..DeviceDescription::default()
        }
    }

    fn of_corpus(text: &str, kernel: &str) -> Behaviour {
        let shape = Shape {
            grid: [4, 1, 1],
            block: [256, 1, 1],
            dynamic_shared: 0,
            carveout: None,
        };
        let code = code::read(text, kernel).unwrap();
        of(&code, None, &[(LaunchId(1), shape)], &hopper())
    }

    #[test]
    fn rewrites_differ_in_what_they_do() {
        let targets = include_str!("../selftest/corpus/targets.ptx");
        let plain = of_corpus(targets, "scale_add");
        assert_eq!((plain.widest_load, plain.widest_store), (4, 4));
        assert_eq!((plain.static_shared, plain.mix.shared), (0, 0));
        assert_eq!(plain.mix.single, 1);
        assert_eq!(plain.mix.total(), 20);
        let wide = include_str!("../selftest/corpus/harmless/four_at_a_time.ptx");
        let wide = of_corpus(wide, "scale_add");
        assert_eq!((wide.widest_load, wide.widest_store), (16, 16));
        let tile = include_str!("../selftest/corpus/harmless/shared_tile.ptx");
        let tile = of_corpus(tile, "smooth");
        assert!(tile.static_shared > 0 && tile.mix.shared > 0 && tile.mix.barrier > 0);
        let local = include_str!("../selftest/corpus/harmless/local_array.ptx");
        assert!(of_corpus(local, "smooth").local > 0);
        let shuffles = include_str!("../selftest/corpus/harmless/shuffles.ptx");
        assert!(of_corpus(shuffles, "row_sums").mix.exchange > 0);
        let root = include_str!("../selftest/corpus/harmless/reciprocal_root.ptx");
        assert!(of_corpus(root, "divide").mix.special > 0);
    }

    /// Numbers as CUDA's occupancy calculator has them for compute capability 9.0.
    #[test]
    fn occupancy_is_limited_by_threads_registers_and_shared_memory() {
        let of = |threads, registers, shared| occupancy(threads, registers, shared, &hopper());
        assert_eq!(of(256, Some(32), 0), Some(1.0));
        assert_eq!(of(256, Some(128), 0), Some(0.25));
        assert_eq!(of(256, Some(129), 0), Some(0.125));
        assert_eq!(of(256, None, 100 << 10), Some(0.25));
        assert_eq!(of(1024, Some(64), 0), Some(0.5));
        // Blocks of 33 threads have two warps.
        assert_eq!(of(33, None, 0), Some(1.0));
        assert_eq!(occupancy(256, None, 0, &DeviceDescription::default()), None);
    }
}
