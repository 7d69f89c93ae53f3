//! What a kernel's PTX does: counted over the kernel and the functions that it calls.

use std::collections::BTreeSet;

use r3_ptx::isa::{Mnemonic, Opcode, ScalarType, Space, SpecialRegister, Word};
use r3_ptx::tree::FunctionDirective;
use r3_ptx::typed::{Body, FnId, Function, Instruction, Module, Operand, Symbol, VarId};

use super::Census;

/// Counts what a kernel of a PTX module does. `None` when the text is none, or has no such kernel with a body.
pub fn census(ptx: &str, kernel: &str) -> Option<Census> {
    let module = module(ptx)?;
    let start = find(&module, kernel)?;
    let mut counter = Counter {
        module: &module,
        out: Census::default(),
        variables: BTreeSet::new(),
    };
    let mut seen = BTreeSet::from([start]);
    let mut left = vec![start];
    while let Some(id) = left.pop() {
        let Some(function) = module.functions.get(id.0 as usize) else {
            continue;
        };
        for called in counter.function(function) {
            if seen.insert(called) {
                left.push(called);
            }
        }
    }
    counter.shared_variables();
    Some(counter.out)
}

/// Parameters of a kernel that are declared as pointers (`.ptr`).
pub(super) fn declared_pointers(ptx: &str, kernel: &str) -> Option<BTreeSet<u32>> {
    let module = module(ptx)?;
    let function = module.functions.get(find(&module, kernel)?.0 as usize)?;
    Some(
        (0..)
            .zip(&function.params)
            .filter(|(_, param)| param.ptr.is_some())
            .map(|(index, _)| index)
            .collect(),
    )
}

fn module(ptx: &str) -> Option<Module> {
    r3_ptx::check(&r3_ptx::parse(ptx).ok()?).ok()
}

fn find(module: &Module, kernel: &str) -> Option<FnId> {
    let at = module.functions.iter().position(|function| {
        function.entry && function.body.is_some() && &*function.name == kernel
    })?;
    Some(FnId(u32::try_from(at).ok()?))
}

struct Counter<'m> {
    module: &'m Module,
    out: Census,
    /// Variables of the module that the code names.
    variables: BTreeSet<VarId>,
}

/// Directives of kernels that are launched in clusters.
const CLUSTER_DIRECTIVES: &[&str] = &[
    "reqnctapercluster",
    "maxclusterrank",
    "explicitcluster",
    "blocksareclusters",
];

impl Counter<'_> {
    /// Counts a function and returns those that it names.
    fn function(&mut self, function: &Function) -> Vec<FnId> {
        let of_cluster = function.directives.iter().any(|directive| match directive {
            FunctionDirective::Numbers(name, _) | FunctionDirective::Flag(name) => {
                CLUSTER_DIRECTIVES.contains(&&**name)
            }
            _ => false,
        });
        self.out.grid_wide |= of_cluster;
        let Some(body) = &function.body else {
            return Vec::new();
        };
        for local in &body.locals {
            self.shared(local.space, local.size, local.unsized_array);
        }
        let mut named = Vec::new();
        for operand in &body.operands {
            self.operand(*operand, &mut named);
        }
        named.extend(body.call_tables.iter().flatten());
        for (index, instruction) in (0..).zip(&body.instructions) {
            self.instruction(body, index, instruction);
        }
        named
    }

    fn operand(&mut self, operand: Operand, named: &mut Vec<FnId>) {
        match operand {
            Operand::Special(register) => self.special(register),
            Operand::Address(Symbol::Variable(id), _)
            | Operand::MemorySymbol(Symbol::Variable(id), _) => {
                self.variables.insert(id);
            }
            Operand::Address(Symbol::Function(id), _) => named.push(id),
            _ => {}
        }
    }

    fn special(&mut self, register: SpecialRegister) {
        use SpecialRegister as R;
        let out = &mut self.out;
        let (reads, dimensions): (&mut [bool; 3], &[usize]) = match register {
            R::Ntid => (&mut out.reads_block, &[0, 1, 2]),
            R::NtidX => (&mut out.reads_block, &[0]),
            R::NtidY => (&mut out.reads_block, &[1]),
            R::NtidZ => (&mut out.reads_block, &[2]),
            R::Nctaid => (&mut out.reads_grid, &[0, 1, 2]),
            R::NctaidX => (&mut out.reads_grid, &[0]),
            R::NctaidY => (&mut out.reads_grid, &[1]),
            R::NctaidZ => (&mut out.reads_grid, &[2]),
            R::Ctaid => (&mut out.reads_block_index, &[0, 1, 2]),
            R::CtaidX => (&mut out.reads_block_index, &[0]),
            R::CtaidY => (&mut out.reads_block_index, &[1]),
            R::CtaidZ => (&mut out.reads_block_index, &[2]),
            // The driver hands the workspace of a grid-wide barrier over in these.
            R::Envreg(_) => {
                out.grid_wide = true;
                return;
            }
            R::Clusterid
            | R::ClusteridX
            | R::ClusteridY
            | R::ClusteridZ
            | R::Nclusterid
            | R::NclusteridX
            | R::NclusteridY
            | R::NclusteridZ
            | R::ClusterCtaid
            | R::ClusterCtaidX
            | R::ClusterCtaidY
            | R::ClusterCtaidZ
            | R::ClusterNctaid
            | R::ClusterNctaidX
            | R::ClusterNctaidY
            | R::ClusterNctaidZ
            | R::ClusterCtarank
            | R::ClusterNctarank => {
                out.grid_wide = true;
                return;
            }
            // Lanes and warps have a meaning of their own.
            R::LaneId
            | R::LanemaskEq
            | R::LanemaskLe
            | R::LanemaskLt
            | R::LanemaskGe
            | R::LanemaskGt => {
                out.warp_exchanges += 1;
                return;
            }
            _ => return,
        };
        for &dimension in dimensions {
            reads[dimension] = true;
        }
    }

    fn instruction(&mut self, body: &Body, index: u32, instruction: &Instruction) {
        let Some(mnemonic) = self.module.mnemonics.get(instruction.mnemonic.0 as usize) else {
            return;
        };
        self.out.instructions += 1;
        self.arithmetic(mnemonic);
        let operands = body.operands(instruction);
        let out = &mut self.out;
        match mnemonic.opcode() {
            Opcode::Bra | Opcode::Brx => {
                let back = operands.iter().any(|operand| match operand {
                    Operand::Label(to) => *to <= index,
                    Operand::BranchTable(table) => body
                        .branch_tables
                        .get(*table as usize)
                        .is_some_and(|targets| targets.iter().any(|to| *to <= index)),
                    _ => false,
                });
                out.loops += u32::from(back);
            }
            Opcode::Bar if mnemonic.has(Word::Warp) => out.warp_exchanges += 1,
            Opcode::Barrier if mnemonic.has(Word::Cluster) => out.grid_wide = true,
            Opcode::Bar | Opcode::Barrier | Opcode::Mbarrier => out.barriers += 1,
            Opcode::Mapa | Opcode::Getctarank => out.grid_wide = true,
            Opcode::Shfl
            | Opcode::Vote
            | Opcode::Match
            | Opcode::Activemask
            | Opcode::Redux
            | Opcode::Elect
            | Opcode::Mma
            | Opcode::Wmma
            | Opcode::Wgmma
            | Opcode::Tcgen05
            | Opcode::Ldmatrix
            | Opcode::Stmatrix
            | Opcode::Movmatrix => out.warp_exchanges += 1,
            Opcode::Atom | Opcode::Red => out.atomics += 1,
            Opcode::Ld | Opcode::Ldu if is_global(mnemonic) => {
                out.global_loads += u32::from(!mnemonic.has(Word::Nc));
                out.guarded_accesses += u32::from(instruction.guard.is_some());
            }
            Opcode::St if is_global(mnemonic) => {
                out.global_stores += 1;
                out.guarded_accesses += u32::from(instruction.guard.is_some());
            }
            Opcode::Call => {
                let with_body = operands.iter().any(|operand| match operand {
                    Operand::Address(Symbol::Function(id), _) => self
                        .module
                        .functions
                        .get(id.0 as usize)
                        .is_some_and(|function| function.body.is_some()),
                    _ => false,
                });
                out.calls += u32::from(with_body);
            }
            _ => {}
        }
    }

    fn arithmetic(&mut self, mnemonic: &Mnemonic) {
        let Some(ty) = mnemonic.ty() else { return };
        let out = &mut self.out;
        let single = ty == ScalarType::F32;
        match mnemonic.opcode() {
            Opcode::Div | Opcode::Sqrt | Opcode::Rcp if ty.is_float() => {
                out.float_operations += 1;
                let exact = mnemonic.rounding().is_some();
                out.exact_divisions += u32::from(single && exact);
                out.unflushed += u32::from(single && !mnemonic.ftz());
            }
            Opcode::Add
            | Opcode::Sub
            | Opcode::Mul
            | Opcode::Mad
            | Opcode::Fma
            | Opcode::Rsqrt
            | Opcode::Ex2
            | Opcode::Lg2
            | Opcode::Sin
            | Opcode::Cos
            | Opcode::Tanh
            | Opcode::Min
            | Opcode::Max
                if ty.is_float() =>
            {
                out.float_operations += 1;
                let flushes = matches!(mnemonic.opcode(), Opcode::Tanh) || mnemonic.ftz();
                out.unflushed += u32::from(single && !flushes);
            }
            Opcode::Div | Opcode::Rem if ty.is_integer() => out.integer_divisions += 1,
            _ => {}
        }
    }

    fn shared(&mut self, space: Space, size: u64, unsized_array: bool) {
        if !space.is_shared() {
            return;
        }
        if unsized_array {
            self.out.dynamic_shared = true;
        }
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.out.static_shared = self.out.static_shared.saturating_add(size);
    }

    fn shared_variables(&mut self) {
        let module = self.module;
        for id in std::mem::take(&mut self.variables) {
            if let Some(variable) = module.variables.get(id.0 as usize) {
                self.shared(variable.space, variable.size, variable.unsized_array);
            }
        }
    }
}

/// Whether an access reaches global memory: by name, or through a generic address.
fn is_global(mnemonic: &Mnemonic) -> bool {
    matches!(mnemonic.space(), None | Some(Space::Global))
}
