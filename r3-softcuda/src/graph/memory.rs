//! Memory of graphs: its address is fixed when the node is made, and the bytes are there from then on. Launches and
//! frees decide whether it counts as allocated.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::error::{CuError, Res};
use crate::pool;
use crate::process::lock;

/// Memory that a node allocates. It lives while the node, or an executable graph with it, does; what is allocated then
/// lives until it is freed.
pub struct Owned {
    pub address: u64,
    pub len: u64,
    pub device: i32,
}

#[derive(Clone, Copy)]
struct State {
    len: u64,
    /// A launch allocated it, and nothing has freed it since.
    live: bool,
    /// No graph has it any more.
    orphan: bool,
}

static MEMORY: Mutex<BTreeMap<u64, State>> = Mutex::new(BTreeMap::new());

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`
const AUTO_FREE: u64 = 1;

impl Owned {
    /// Memory of the device's current pool.
    pub fn new(device: i32, len: u64, context: crate::handle::Handle) -> Res<Arc<Self>> {
        let address = pool::new_in(&*pool::current(device)?, len, context)?;
        let state = State {
            len,
            live: false,
            orphan: false,
        };
        lock(&MEMORY).insert(address, state);
        Ok(Arc::new(Self {
            address,
            len,
            device,
        }))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let mut memory = lock(&MEMORY);
        let Some(state) = memory.get_mut(&self.address) else {
            return;
        };
        state.orphan = true;
        if state.live {
            return;
        }
        memory.remove(&self.address);
        drop(memory);
        pool::release(self.address);
    }
}

/// Whether a graph allocates this address.
pub fn known(address: u64) -> bool {
    lock(&MEMORY).contains_key(&address)
}

/// The program frees memory of a graph outside of graphs. `true`: no graph has it any more, so the caller gives it back.
pub fn free(address: u64) -> Res<bool> {
    let mut memory = lock(&MEMORY);
    let state = memory.get_mut(&address).ok_or(CuError::INVALID_VALUE)?;
    if !std::mem::take(&mut state.live) {
        return Err(CuError::INVALID_VALUE);
    }
    let orphan = state.orphan;
    if orphan {
        memory.remove(&address);
    }
    Ok(orphan)
}

/// A graph is launched: what it allocates may not be allocated, unless its flags say that it is freed then. What no
/// graph has any more the caller gives back when the launch has ended.
pub fn launched(allocated: &[Arc<Owned>], freed: &[u64], flags: u64) -> Res<Vec<u64>> {
    let mut memory = lock(&MEMORY);
    let is_live = |owned: &Arc<Owned>| memory.get(&owned.address).is_some_and(|state| state.live);
    if flags & AUTO_FREE == 0 && allocated.iter().any(is_live) {
        return Err(CuError::INVALID_VALUE);
    }
    for owned in allocated {
        if let Some(state) = memory.get_mut(&owned.address) {
            state.live = true;
        }
    }
    let mut gone = Vec::new();
    for address in freed {
        if let Some(state) = memory.get_mut(address) {
            state.live = false;
            if state.orphan {
                memory.remove(address);
                gone.push(*address);
            }
        }
    }
    Ok(gone)
}

/// Bytes that are allocated, and bytes that graphs hold.
pub fn totals() -> (u64, u64) {
    let memory = lock(&MEMORY);
    let live = memory.values().filter(|state| state.live);
    (
        live.map(|state| state.len).sum(),
        memory.values().map(|state| state.len).sum(),
    )
}
