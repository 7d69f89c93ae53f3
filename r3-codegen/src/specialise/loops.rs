//! Unroll counts and marks of loops.

use std::collections::HashMap;

use inkwell::basic_block::BasicBlock;
use inkwell::module::Module;
use inkwell::values::{AsValueRef, FunctionValue, InstructionValue};
use llvm_sys::core::{
    LLVMConstInt, LLVMGetMDKindIDInContext, LLVMGetMDNodeNumOperands, LLVMGetMDNodeOperands,
    LLVMGetMDString, LLVMGetMetadata, LLVMGetModuleContext, LLVMInt32TypeInContext,
    LLVMMDNodeInContext2, LLVMMDStringInContext2, LLVMMetadataAsValue,
    LLVMReplaceMDNodeOperandWith, LLVMSetMetadata, LLVMValueAsMetadata,
};
use llvm_sys::prelude::{LLVMContextRef, LLVMMetadataRef, LLVMValueRef};

use crate::recipe::Unroll;

/// Says of every loop how often it is to be unrolled, or takes away what is said.
///
/// Returns how many loops it said something new of.
pub fn unroll(module: &Module, what: Unroll) -> usize {
    let count = match what {
        Unroll::Keep => return 0,
        Unroll::Free => None,
        Unroll::Count(count) => Some(count),
    };
    let mut changed = 0;
    for function in module.get_functions() {
        for latch in latches(function) {
            if mark(module, latch, count) {
                changed += 1;
            }
        }
    }
    changed
}

/// Ends of loops: terminators with an edge back to a block that dominates them.
fn latches(function: FunctionValue<'_>) -> Vec<InstructionValue<'_>> {
    let blocks = function.get_basic_blocks();
    let number: HashMap<BasicBlock, usize> = blocks
        .iter()
        .enumerate()
        .map(|(at, block)| (*block, at))
        .collect();
    let successors: Vec<Vec<usize>> = blocks
        .iter()
        .map(|block| {
            let Some(end) = block.get_terminator() else {
                return Vec::new();
            };
            end.get_operands()
                .flatten()
                .filter_map(|operand| operand.block())
                .filter_map(|block| number.get(&block).copied())
                .collect()
        })
        .collect();
    let dominators = Dominators::of(&successors);
    blocks
        .iter()
        .enumerate()
        .filter(|(at, _)| {
            successors
                .get(*at)
                .is_some_and(|to| to.iter().any(|&header| dominators.dominates(header, *at)))
        })
        .filter_map(|(_, block)| block.get_terminator())
        .collect()
}

/// Which block dominates which.
struct Dominators {
    /// Of each block, the closest that dominates it; `None` for the entry and for what is not reached.
    above: Vec<Option<usize>>,
    /// Place in reverse postorder; `None` for what is not reached.
    order: Vec<Option<usize>>,
}

impl Dominators {
    /// Of a graph whose entry is block 0.
    fn of(successors: &[Vec<usize>]) -> Self {
        let post = postorder(successors);
        let mut order = vec![None; successors.len()];
        for (place, &block) in post.iter().rev().enumerate() {
            if let Some(to) = order.get_mut(block) {
                *to = Some(place);
            }
        }
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); successors.len()];
        for &block in &post {
            for &to in successors.get(block).map_or(&[][..], Vec::as_slice) {
                if let Some(list) = before.get_mut(to) {
                    list.push(block);
                }
            }
        }
        let mut this = Self {
            above: vec![None; successors.len()],
            order,
        };
        loop {
            let mut changed = false;
            for &block in post.iter().rev().skip(1) {
                let new = before
                    .get(block)
                    .into_iter()
                    .flatten()
                    .copied()
                    .filter(|&from| from == 0 || this.above.get(from).copied().flatten().is_some())
                    .reduce(|left, right| this.meet(left, right));
                if let Some(to) = this.above.get_mut(block)
                    && *to != new
                {
                    *to = new;
                    changed = true;
                }
            }
            if !changed {
                return this;
            }
        }
    }

    /// The closest block above both.
    fn meet(&self, mut left: usize, mut right: usize) -> usize {
        let place = |block: usize| self.order.get(block).copied().flatten().unwrap_or(0);
        let up = |block: usize| self.above.get(block).copied().flatten().unwrap_or(0);
        while left != right {
            if place(left) > place(right) {
                left = up(left);
            } else {
                right = up(right);
            }
        }
        left
    }

    /// Whether every way to `below` goes through `above`.
    fn dominates(&self, above: usize, mut below: usize) -> bool {
        if self.order.get(below).copied().flatten().is_none() {
            return false;
        }
        loop {
            if below == above {
                return true;
            }
            match self.above.get(below).copied().flatten() {
                Some(next) if next != below => below = next,
                _ => return false,
            }
        }
    }
}

/// Blocks that are reached, each after its successors (but for edges back), without recursion.
fn postorder(successors: &[Vec<usize>]) -> Vec<usize> {
    let mut seen = vec![false; successors.len()];
    let mut order = Vec::with_capacity(successors.len());
    let mut stack = Vec::new();
    if let Some(first) = seen.first_mut() {
        *first = true;
        stack.push((0, 0));
    }
    while let Some((block, next)) = stack.pop() {
        match successors.get(block).and_then(|to| to.get(next)) {
            Some(&to) => {
                stack.push((block, next + 1));
                if let Some(seen) = seen.get_mut(to)
                    && !*seen
                {
                    *seen = true;
                    stack.push((to, 0));
                }
            }
            None => order.push(block),
        }
    }
    order
}

/// Replaces what a loop says of unrolling; the rest of what it says stays.
fn mark(module: &Module, latch: InstructionValue, count: Option<u32>) -> bool {
    const KIND: &str = "llvm.loop";
    // SAFETY: everything is of the module that is borrowed; sizes are those of the texts.
    unsafe {
        let context = LLVMGetModuleContext(module.as_mut_ptr());
        let kind = LLVMGetMDKindIDInContext(
            context,
            KIND.as_ptr().cast(),
            u32::try_from(KIND.len()).unwrap_or(0),
        );
        let present = LLVMGetMetadata(latch.as_value_ref(), kind);
        let said = if present.is_null() {
            Vec::new()
        } else {
            operands(present)
        };
        // The first operand of such a node is the node itself.
        let mut kept: Vec<LLVMMetadataRef> = said
            .iter()
            .skip(1)
            .filter(|value| !about_unrolling(**value))
            .map(|value| LLVMValueAsMetadata(*value))
            .collect();
        let removed = said.len().saturating_sub(1) > kept.len();
        if count.is_none() && !removed {
            return false;
        }
        if let Some(count) = count {
            kept.push(property(context, count));
        }
        let node = distinct(context, &kept);
        LLVMSetMetadata(latch.as_value_ref(), kind, node);
        true
    }
}

/// A node's operands.
///
/// # Safety
/// The value is a metadata node of a living context.
unsafe fn operands(node: LLVMValueRef) -> Vec<LLVMValueRef> {
    // SAFETY: the buffer has as many places as the node has operands.
    unsafe {
        let count = LLVMGetMDNodeNumOperands(node) as usize;
        let mut found = vec![std::ptr::null_mut(); count];
        LLVMGetMDNodeOperands(node, found.as_mut_ptr());
        found
    }
}

/// Whether an element of a loop's node begins with `llvm.loop.unroll.`.
///
/// # Safety
/// The value is null or metadata of a living context.
unsafe fn about_unrolling(element: LLVMValueRef) -> bool {
    // SAFETY: only a node is asked for operands, only a string for its text, which lives as long as the context.
    unsafe {
        if element.is_null() || llvm_sys::core::LLVMIsAMDNode(element).is_null() {
            return false;
        }
        let Some(&name) = operands(element).first() else {
            return false;
        };
        if name.is_null() || llvm_sys::core::LLVMIsAMDString(name).is_null() {
            return false;
        }
        let mut length = 0;
        let text = LLVMGetMDString(name, &raw mut length);
        std::slice::from_raw_parts(text.cast::<u8>(), length as usize)
            .starts_with(b"llvm.loop.unroll.")
    }
}

/// `!{!"llvm.loop.unroll.count", i32 count}`, or `!{!"llvm.loop.unroll.disable"}` for a count of 1.
///
/// # Safety
/// The context is alive.
unsafe fn property(context: LLVMContextRef, count: u32) -> LLVMMetadataRef {
    let name = if count <= 1 {
        "llvm.loop.unroll.disable"
    } else {
        "llvm.loop.unroll.count"
    };
    // SAFETY: sizes are those of the text and of the array.
    unsafe {
        let mut parts = vec![LLVMMDStringInContext2(
            context,
            name.as_ptr().cast(),
            name.len(),
        )];
        if count > 1 {
            parts.push(LLVMValueAsMetadata(LLVMConstInt(
                LLVMInt32TypeInContext(context),
                u64::from(count),
                0,
            )));
        }
        LLVMMDNodeInContext2(context, parts.as_mut_ptr(), parts.len())
    }
}

/// A node whose first operand is itself, which makes it one loop's own.
///
/// # Safety
/// The context is alive, the properties are its metadata.
unsafe fn distinct(context: LLVMContextRef, properties: &[LLVMMetadataRef]) -> LLVMValueRef {
    // SAFETY: sizes are those of the array; the node is asked for an operand that it has.
    unsafe {
        let mut parts = vec![LLVMMDNodeInContext2(context, std::ptr::null_mut(), 0)];
        parts.extend_from_slice(properties);
        let node = LLVMMDNodeInContext2(context, parts.as_mut_ptr(), parts.len());
        let value = LLVMMetadataAsValue(context, node);
        // A node that refers to itself becomes distinct.
        LLVMReplaceMDNodeOperandWith(value, 0, node);
        value
    }
}
