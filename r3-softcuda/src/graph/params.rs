//! Structures that describe nodes, and the work that they become.

use std::sync::Arc;

use super::{
    ALLOC, EMPTY, FREE, GRAPH, Graph, HOST, KERNEL, MEMCPY, MEMSET, NodeWork, RECORD, WAIT, memory,
};
use crate::api::{In, Out};
use crate::context;
use crate::copy::{Fill, Memcpy3d};
use crate::error::{CuError, Res};
use crate::handle::{self, Handle};
use crate::launch::{Launch, Shape};
use crate::pool;
use crate::work::{HostFn, Work};

/// `CUDA_KERNEL_NODE_PARAMS_v2` and `_v3`; the first form ends before `kernel`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelParams {
    pub function: Handle,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub params: *const u64,
    pub extra: *const u64,
    pub kernel: Handle,
    pub context: Handle,
}

/// `CUDA_KERNEL_NODE_PARAMS_v1`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelParams1 {
    pub function: Handle,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub params: *const u64,
    pub extra: *const u64,
}

impl KernelParams1 {
    pub fn wide(self) -> KernelParams {
        let Self {
            function,
            grid,
            block,
            shared,
            params,
            extra,
        } = self;
        KernelParams {
            function,
            grid,
            block,
            shared,
            params,
            extra,
            kernel: 0,
            context: 0,
        }
    }
}

impl KernelParams {
    pub fn work(&self, before: Option<Shape>) -> Res<Work> {
        let asked = if self.function != 0 {
            self.function
        } else {
            self.kernel
        };
        let context = if self.context != 0 {
            handle::get(self.context)?
        } else {
            context::current()?
        };
        let shape = Shape {
            grid: self.grid,
            block: self.block,
            shared: self.shared,
            ..before.unwrap_or_default()
        };
        let (params, extra) = (In::new(self.params), In::new(self.extra));
        let context = match crate::function::resolve(asked) {
            // A function knows its context.
            Ok(function) if self.context == 0 => function.module()?.context()?,
            _ => context,
        };
        Ok(Work::Kernel(Arc::new(Launch::new(
            &context, asked, shape, params, extra,
        )?)))
    }

    pub fn of(launch: &Launch) -> Self {
        Self {
            function: launch.function.handle,
            grid: launch.shape.grid,
            block: launch.shape.block,
            shared: launch.shape.shared,
            // Owned by the node: valid until it is changed or destroyed.
            params: launch.pointers.as_ptr(),
            extra: std::ptr::null(),
            kernel: 0,
            context: 0,
        }
    }
}

/// `CUDA_MEMSET_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemsetParams {
    pub address: u64,
    pub pitch: u64,
    pub value: u32,
    pub element: u32,
    pub width: u64,
    pub height: u64,
}

impl MemsetParams {
    pub fn work(self) -> Res<Work> {
        let Self {
            address,
            pitch,
            value,
            element,
            width,
            height,
        } = self;
        let fill = Fill {
            address,
            pitch,
            value,
            element,
            width,
            height,
        };
        fill.check()?;
        Ok(Work::Fill(fill))
    }
}

/// `CUDA_HOST_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HostParams {
    pub function: Option<extern "C" fn(*mut std::ffi::c_void)>,
    pub data: u64,
}

impl HostParams {
    pub fn work(self) -> Res<Work> {
        if self.function.is_none() {
            return Err(CuError::INVALID_VALUE);
        }
        Ok(Work::Host(HostFn {
            function: self.function,
            data: self.data,
        }))
    }
}

pub fn copy_work(copy: Memcpy3d) -> Res<Work> {
    Ok(copy
        .prepare()?
        .map_or(Work::Nothing, |copy| Work::Copy(Arc::new(copy))))
}

pub fn copy_node(copy: Memcpy3d) -> Res<NodeWork> {
    Ok(NodeWork {
        kind: MEMCPY,
        ..NodeWork::of(copy_work(copy)?)
    })
}

/// `CUDA_MEMCPY_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CopyParams {
    pub flags: u32,
    pub reserved: u32,
    pub context: Handle,
    pub copy: Memcpy3d,
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AllocParams {
    pub pool: pool::Properties,
    pub access: u64,
    pub access_count: u64,
    pub len: u64,
    pub address: u64,
}

impl AllocParams {
    /// Of a node.
    pub fn of(owned: &memory::Owned) -> Self {
        Self {
            pool: pool::Properties::pinned(owned.device),
            access: 0,
            access_count: 0,
            len: owned.len,
            address: owned.address,
        }
    }

    /// The memory is there from now on: a graph's addresses are fixed when its node is made.
    pub fn node(&mut self) -> Res<NodeWork> {
        let device = self.pool.device()?;
        let context = context::top()?.map_or(0, |context| context.handle);
        let owned = memory::Owned::new(device.ordinal, self.len, context)?;
        self.address = owned.address;
        Ok(NodeWork::of(Work::Allocated(owned)))
    }
}

/// `CUgraphNodeParams`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NodeParams {
    pub kind: u32,
    pub reserved: [u32; 3],
    pub value: [u64; 29],
    pub end: u64,
}

impl NodeParams {
    /// The member of the union, which is at its start.
    fn member<T: Copy>(&self) -> Res<T> {
        const { assert!(size_of::<T>() <= size_of::<[u64; 29]>()) };
        In::new(self.value.as_ptr().cast::<T>()).get()
    }

    pub fn node(&mut self) -> Res<NodeWork> {
        Ok(match self.kind {
            KERNEL => NodeWork::of(self.member::<KernelParams>()?.work(None)?),
            MEMCPY => copy_node(self.member::<CopyParams>()?.copy)?,
            MEMSET => NodeWork::of(self.member::<MemsetParams>()?.work()?),
            HOST => NodeWork::of(self.member::<HostParams>()?.work()?),
            GRAPH => child_of(self.member::<Handle>()?)?,
            EMPTY => NodeWork::of(Work::Nothing),
            WAIT => NodeWork::of(Work::WaitEvent(handle::get(self.member::<Handle>()?)?)),
            RECORD => NodeWork::of(Work::Record(handle::get(self.member::<Handle>()?)?, 0)),
            ALLOC => {
                let mut params = self.member::<AllocParams>()?;
                let node = params.node()?;
                Out::new(self.value.as_mut_ptr().cast::<AllocParams>()).set(params)?;
                node
            }
            FREE => free_node(self.member::<u64>()?)?,
            _ => return Err(CuError::NOT_SUPPORTED),
        })
    }
}

pub fn child_of(graph: Handle) -> Res<NodeWork> {
    let (child, _) = handle::get::<Graph>(graph)?.copy();
    Ok(NodeWork {
        kind: GRAPH,
        child: Some(child),
        ..NodeWork::of(Work::Nothing)
    })
}

pub fn free_node(address: u64) -> Res<NodeWork> {
    if memory::known(address) {
        Ok(NodeWork::of(Work::Freed(address)))
    } else {
        Err(CuError::INVALID_VALUE)
    }
}
