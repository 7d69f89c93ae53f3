//! Basic blocks, dominators, loops.

use r3_ptx::tree::MnemonicId;
use r3_ptx::typed::{Body, Instruction, Operand};

use super::mnemonics::{Flow, MnemonicInfo};

/// Number of no block.
pub(crate) const NONE: u32 = u32::MAX;

/// A run of instructions that is entered at its first and left at its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Its first instruction.
    pub first: u32,
    /// One past its last.
    pub end: u32,
}

/// The blocks of a body and how control flows between them.
///
/// A block may be empty: the end of the body, where something jumps or falls to it, is one.
#[derive(Debug, Default)]
pub(crate) struct Cfg {
    /// Blocks in the order of the text. Block 0 is the first to be executed.
    pub blocks: Vec<Block>,
    successors: Lists,
    predecessors: Lists,
    /// Reachable blocks in reverse postorder.
    pub order: Vec<u32>,
    /// Immediate dominator; that of block 0 is itself, [`NONE`] of a block that is not reachable.
    pub idom: Vec<u32>,
    /// Position in a walk over the dominator tree: first visit, last visit.
    visits: Vec<(u32, u32)>,
    children: Lists,
    block_of: Vec<u32>,
}

/// Lists of numbers, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    /// Begins the next list.
    pub fn begin(&mut self) {
        self.starts.push(self.items.len() as u32);
    }

    /// Adds to the list that was begun last.
    pub fn push(&mut self, item: u32) {
        self.items.push(item);
    }

    /// A list.
    pub fn get(&self, list: u32) -> &[u32] {
        let list = list as usize;
        let Some(&start) = self.starts.get(list) else {
            return &[];
        };
        let end = self.starts.get(list + 1).copied();
        let end = end.map_or(self.items.len(), |end| end as usize);
        self.items.get(start as usize..end).unwrap_or_default()
    }

    /// For each number, the lists that it is in.
    pub fn inverse(&self, count: usize) -> Self {
        let mut starts = vec![0u32; count + 1];
        for &item in &self.items {
            starts[item as usize + 1] += 1;
        }
        for i in 0..count {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut items = vec![0; self.items.len()];
        for list in 0..self.starts.len() as u32 {
            for &item in self.get(list) {
                items[next[item as usize] as usize] = list;
                next[item as usize] += 1;
            }
        }
        starts.truncate(count);
        Self { starts, items }
    }
}

/// Instructions to which an instruction may jump.
pub(crate) fn targets<'a>(body: &'a Body, instruction: &Instruction) -> &'a [u32] {
    static NOTHING: [u32; 0] = [];
    for operand in body.operands(instruction) {
        match operand {
            Operand::Label(target) => return std::slice::from_ref(target),
            Operand::BranchTable(table) => {
                let table = body.branch_tables.get(*table as usize);
                return table.map_or(&NOTHING, Vec::as_slice);
            }
            _ => {}
        }
    }
    &NOTHING
}

fn flow(mnemonics: &[MnemonicInfo], mnemonic: MnemonicId) -> Flow {
    mnemonics
        .get(mnemonic.0 as usize)
        .map_or(Flow::Next, |info| info.flow)
}

impl Cfg {
    /// Finds the blocks of a body.
    pub fn new(body: &Body, mnemonics: &[MnemonicInfo]) -> Self {
        let mut cfg = Self::default();
        cfg.cut(body, mnemonics);
        cfg.link(body, mnemonics);
        cfg.sort();
        cfg.dominators();
        cfg.tree();
        cfg
    }

    /// How many blocks.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Where control may go from a block: an entry for each edge.
    pub fn successors(&self, block: u32) -> &[u32] {
        self.successors.get(block)
    }

    /// Where control may come from: an entry for each edge.
    pub fn predecessors(&self, block: u32) -> &[u32] {
        self.predecessors.get(block)
    }

    /// Blocks whose immediate dominator this is.
    pub fn children(&self, block: u32) -> &[u32] {
        self.children.get(block)
    }

    /// The block in which an instruction is.
    pub fn block_of(&self, instruction: u32) -> Option<u32> {
        self.block_of.get(instruction as usize).copied()
    }

    /// Whether a block can be reached.
    pub fn reachable(&self, block: u32) -> bool {
        self.idom.get(block as usize).is_some_and(|&i| i != NONE)
    }

    /// Whether every way to `below` leads through `above`.
    pub fn dominates(&self, above: u32, below: u32) -> bool {
        let visit = |block: u32| self.visits.get(block as usize).copied();
        match (visit(above), visit(below)) {
            (Some((first, last)), Some((at, _))) => first <= at && at <= last && last != 0,
            _ => false,
        }
    }

    fn cut(&mut self, body: &Body, mnemonics: &[MnemonicInfo]) {
        let len = body.instructions.len();
        let mut leads = vec![false; len + 1];
        leads[0] = true;
        let mut falls_off = true;
        for (i, instruction) in body.instructions.iter().enumerate() {
            let flow = flow(mnemonics, instruction.mnemonic);
            falls_off = true;
            if matches!(flow, Flow::Next | Flow::Call) {
                continue;
            }
            falls_off = instruction.guard.is_some();
            if i + 1 < len {
                leads[i + 1] = true;
            }
            for &target in targets(body, instruction) {
                if let Some(lead) = leads.get_mut(target as usize) {
                    *lead = true;
                }
            }
        }
        leads[len] |= falls_off;
        self.block_of = vec![0; len + 1];
        for (i, lead) in leads.iter().enumerate() {
            if *lead {
                if let Some(last) = self.blocks.last_mut() {
                    last.end = i as u32;
                }
                self.blocks.push(Block {
                    first: i as u32,
                    end: len as u32,
                });
            }
            self.block_of[i] = self.blocks.len() as u32 - 1;
        }
    }

    fn link(&mut self, body: &Body, mnemonics: &[MnemonicInfo]) {
        for block in 0..self.blocks.len() as u32 {
            self.successors.begin();
            let Block { first, end } = self.blocks[block as usize];
            let last = match end > first {
                true => body.instructions.get(end as usize - 1),
                false => None,
            };
            let (mut next, mut jumps) = (true, false);
            if let Some(last) = last {
                let flow = flow(mnemonics, last.mnemonic);
                jumps = matches!(flow, Flow::Branch | Flow::Table);
                next = matches!(flow, Flow::Next | Flow::Call) || last.guard.is_some();
            }
            if jumps && let Some(last) = last {
                for &target in targets(body, last) {
                    if let Some(&target) = self.block_of.get(target as usize) {
                        self.successors.push(target);
                    }
                }
            }
            // The end of the body, as a block, has no next.
            if next && (block as usize) + 1 < self.blocks.len() {
                self.successors.push(block + 1);
            }
        }
        self.predecessors = self.successors.inverse(self.blocks.len());
    }

    /// Reverse postorder of what can be reached.
    fn sort(&mut self) {
        let mut seen = vec![false; self.blocks.len()];
        let mut stack = vec![(0u32, 0usize)];
        seen[0] = true;
        while let Some((block, next)) = stack.last_mut() {
            let successor = self.successors.get(*block).get(*next).copied();
            *next += 1;
            match successor {
                Some(successor) => {
                    if !std::mem::replace(&mut seen[successor as usize], true) {
                        stack.push((successor, 0));
                    }
                }
                None => {
                    self.order.push(*block);
                    stack.pop();
                }
            }
        }
        self.order.reverse();
    }

    /// Immediate dominators, by iteration over the order until nothing changes.
    fn dominators(&mut self) {
        let mut number = vec![NONE; self.blocks.len()];
        for (i, &block) in self.order.iter().enumerate() {
            number[block as usize] = i as u32;
        }
        // In numbers of the order.
        let mut idom = vec![NONE; self.order.len()];
        idom[0] = 0;
        let mut changed = true;
        while changed {
            changed = false;
            for (i, &block) in self.order.iter().enumerate().skip(1) {
                let mut new = NONE;
                for &predecessor in self.predecessors.get(block) {
                    let mut at = number[predecessor as usize];
                    if at == NONE || idom[at as usize] == NONE {
                        continue;
                    }
                    if new == NONE {
                        new = at;
                        continue;
                    }
                    while at != new {
                        while at > new {
                            at = idom[at as usize];
                        }
                        while new > at {
                            new = idom[new as usize];
                        }
                    }
                }
                if idom[i] != new {
                    idom[i] = new;
                    changed = true;
                }
            }
        }
        self.idom = vec![NONE; self.blocks.len()];
        for (i, &block) in self.order.iter().enumerate() {
            self.idom[block as usize] = self.order[idom[i] as usize];
        }
    }

    /// Children in the dominator tree, in the order of the text, and the places of a walk.
    fn tree(&mut self) {
        let count = self.blocks.len();
        let mut up = Lists::default();
        for block in 0..count as u32 {
            up.begin();
            let idom = self.idom[block as usize];
            if idom != NONE && block != 0 {
                up.push(idom);
            }
        }
        self.children = up.inverse(count);
        self.visits = vec![(0, 0); count];
        let mut time = 1;
        let mut stack = vec![(0u32, 0usize)];
        self.visits[0].0 = time;
        while let Some((block, next)) = stack.last_mut() {
            match self.children.get(*block).get(*next).copied() {
                Some(child) => {
                    *next += 1;
                    time += 1;
                    self.visits[child as usize].0 = time;
                    stack.push((child, 0));
                }
                None => {
                    self.visits[*block as usize].1 = time;
                    stack.pop();
                }
            }
        }
    }
}
