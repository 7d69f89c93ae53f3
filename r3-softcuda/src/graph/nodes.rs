//! Entry points that add nodes, read them and change them.

use std::sync::Arc;

use super::params::{
    AllocParams, HostParams, KernelParams, KernelParams1, MemsetParams, NodeParams, child_of,
    copy_node, copy_work, free_node,
};
use super::{Graph, HOST, KERNEL, MEMCPY, MEMSET, Node, NodeWork, RECORD, WAIT, nodes_of};
use crate::api::{In, Out, api};
use crate::copy::{Fill, Memcpy3d};
use crate::error::{CuError, Res};
use crate::handle::{self, Handle};
use crate::launch::Launch;
use crate::process::lock;
use crate::work::Work;

fn add(out: Out<Handle>, graph: Handle, list: In<Handle>, count: usize, work: NodeWork) -> Res {
    out.required()?;
    let graph = handle::get::<Graph>(graph)?;
    let before = nodes_of(list, count)?;
    if before.iter().any(|node| node.graph != graph.handle) {
        return Err(CuError::INVALID_VALUE);
    }
    out.set(graph.add_node(work, before).handle)
}

pub fn kernel_of(node: Handle) -> Res<Arc<Launch>> {
    match &lock(&handle::get::<Node>(node)?.work).work {
        Work::Kernel(launch) => Ok(launch.clone()),
        _ => Err(CuError::INVALID_VALUE),
    }
}

api! {
    fn cuGraphAddKernelNode(node: Out<Handle>, graph: Handle, list: In<Handle>, count: usize, params: In<KernelParams1>) {
        add(node, graph, list, count, NodeWork::of(params.get()?.wide().work(None)?))
    }

    fn cuGraphAddKernelNode_v2(node: Out<Handle>, graph: Handle, list: In<Handle>, count: usize, params: In<KernelParams>) {
        add(node, graph, list, count, NodeWork::of(params.get()?.work(None)?))
    }

    fn cuGraphKernelNodeGetParams(node: Handle, params: Out<KernelParams1>) {
        let KernelParams { function, grid, block, shared, params: list, extra, .. } =
            KernelParams::of(&*kernel_of(node)?);
        params.set(KernelParams1 { function, grid, block, shared, params: list, extra })
    }

    fn cuGraphKernelNodeGetParams_v2(node: Handle, params: Out<KernelParams>) {
        params.set(KernelParams::of(&*kernel_of(node)?))
    }

    fn cuGraphKernelNodeSetParams(node: Handle, params: In<KernelParams1>) {
        let before = kernel_of(node)?.shape;
        handle::get::<Node>(node)?.set(KERNEL, params.get()?.wide().work(Some(before))?)
    }

    fn cuGraphKernelNodeSetParams_v2(node: Handle, params: In<KernelParams>) {
        let before = kernel_of(node)?.shape;
        handle::get::<Node>(node)?.set(KERNEL, params.get()?.work(Some(before))?)
    }

    fn cuGraphKernelNodeGetAttribute(node: Handle, attribute: u32, value: Out<[u32; 16]>) {
        let shape = kernel_of(node)?.shape;
        let mut words = [0; 16];
        match attribute {
            2 => words[0] = u32::from(shape.cooperative),
            4 => words[..3].copy_from_slice(&shape.cluster),
            _ => {}
        }
        value.set(words)
    }

    fn cuGraphKernelNodeSetAttribute(node: Handle, attribute: u32, value: In<[u32; 16]>) {
        let value = value.get()?;
        let mut launch = Launch::clone(&*kernel_of(node)?);
        match attribute {
            2 => launch.shape.cooperative = value[0] != 0,
            4 => launch.shape.cluster = [value[0], value[1], value[2]],
            _ => {}
        }
        launch.find_pointers();
        handle::get::<Node>(node)?.set(KERNEL, Work::Kernel(Arc::new(launch)))
    }

    fn cuGraphKernelNodeCopyAttributes(to: Handle, from: Handle) {
        let from = kernel_of(from)?.shape;
        let mut launch = Launch::clone(&*kernel_of(to)?);
        (launch.shape.cooperative, launch.shape.cluster) = (from.cooperative, from.cluster);
        launch.find_pointers();
        handle::get::<Node>(to)?.set(KERNEL, Work::Kernel(Arc::new(launch)))
    }

    fn cuGraphAddMemcpyNode(node: Out<Handle>, graph: Handle, list: In<Handle>, count: usize, copy: In<Memcpy3d>, _context: Handle) {
        add(node, graph, list, count, copy_node(copy.get()?)?)
    }

    fn cuGraphMemcpyNodeGetParams(node: Handle, copy: Out<Memcpy3d>) {
        match &lock(&handle::get::<Node>(node)?.work).work {
            Work::Copy(own) => copy.set(own.asked),
            _ => Err(CuError::INVALID_VALUE),
        }
    }

    fn cuGraphMemcpyNodeSetParams(node: Handle, copy: In<Memcpy3d>) {
        handle::get::<Node>(node)?.set(MEMCPY, copy_work(copy.get()?)?)
    }

    fn cuGraphAddMemsetNode(node: Out<Handle>, graph: Handle, list: In<Handle>, count: usize, params: In<MemsetParams>, _context: Handle) {
        add(node, graph, list, count, NodeWork::of(params.get()?.work()?))
    }

    fn cuGraphMemsetNodeGetParams(node: Handle, params: Out<MemsetParams>) {
        match &lock(&handle::get::<Node>(node)?.work).work {
            Work::Fill(fill) => {
                let Fill { address, pitch, value, element, width, height } = *fill;
                params.set(MemsetParams { address, pitch, value, element, width, height })
            }
            _ => Err(CuError::INVALID_VALUE),
        }
    }

    fn cuGraphMemsetNodeSetParams(node: Handle, params: In<MemsetParams>) {
        handle::get::<Node>(node)?.set(MEMSET, params.get()?.work()?)
    }

    fn cuGraphAddHostNode(node: Out<Handle>, graph: Handle, list: In<Handle>, count: usize, params: In<HostParams>) {
        add(node, graph, list, count, NodeWork::of(params.get()?.work()?))
    }

    fn cuGraphHostNodeGetParams(node: Handle, params: Out<HostParams>) {
        match &lock(&handle::get::<Node>(node)?.work).work {
            Work::Host(host) => params.set(HostParams { function: host.function, data: host.data }),
            _ => Err(CuError::INVALID_VALUE),
        }
    }

    fn cuGraphHostNodeSetParams(node: Handle, params: In<HostParams>) {
        handle::get::<Node>(node)?.set(HOST, params.get()?.work()?)
    }

    fn cuGraphAddChildGraphNode(node: Out<Handle>, graph: Handle, list: In<Handle>, count: usize, child: Handle) {
        add(node, graph, list, count, child_of(child)?)
    }

    fn cuGraphChildGraphNodeGetGraph(node: Handle, child: Out<Handle>) {
        let node = handle::get::<Node>(node)?;
        let own = lock(&node.work).child.clone().ok_or(CuError::INVALID_VALUE)?;
        child.set(own.handle)
    }

    fn cuGraphAddEmptyNode(node: Out<Handle>, graph: Handle, list: In<Handle>, count: usize) {
        add(node, graph, list, count, NodeWork::of(Work::Nothing))
    }

    fn cuGraphAddEventRecordNode(node: Out<Handle>, graph: Handle, list: In<Handle>, count: usize, event: Handle) {
        add(node, graph, list, count, NodeWork::of(Work::Record(handle::get(event)?, 0)))
    }

    fn cuGraphAddEventWaitNode(node: Out<Handle>, graph: Handle, list: In<Handle>, count: usize, event: Handle) {
        add(node, graph, list, count, NodeWork::of(Work::WaitEvent(handle::get(event)?)))
    }

    fn cuGraphEventRecordNodeGetEvent(node: Handle, event: Out<Handle>) {
        match &lock(&handle::get::<Node>(node)?.work).work {
            Work::Record(own, _) => event.set(own.handle),
            _ => Err(CuError::INVALID_VALUE),
        }
    }

    fn cuGraphEventRecordNodeSetEvent(node: Handle, event: Handle) {
        handle::get::<Node>(node)?.set(RECORD, Work::Record(handle::get(event)?, 0))
    }

    fn cuGraphEventWaitNodeGetEvent(node: Handle, event: Out<Handle>) {
        match &lock(&handle::get::<Node>(node)?.work).work {
            Work::WaitEvent(own) => event.set(own.handle),
            _ => Err(CuError::INVALID_VALUE),
        }
    }

    fn cuGraphEventWaitNodeSetEvent(node: Handle, event: Handle) {
        handle::get::<Node>(node)?.set(WAIT, Work::WaitEvent(handle::get(event)?))
    }

    fn cuGraphAddMemAllocNode(node: Out<Handle>, graph: Handle, list: In<Handle>, count: usize, params: Out<AllocParams>) {
        let mut own = params.get()?;
        add(node, graph, list, count, own.node()?)?;
        params.set(own)
    }

    fn cuGraphAddMemFreeNode(node: Out<Handle>, graph: Handle, list: In<Handle>, count: usize, address: u64) {
        add(node, graph, list, count, free_node(address)?)
    }

    fn cuGraphMemAllocNodeGetParams(node: Handle, params: Out<AllocParams>) {
        match &lock(&handle::get::<Node>(node)?.work).work {
            Work::Allocated(owned) => params.set(AllocParams::of(owned)),
            _ => Err(CuError::INVALID_VALUE),
        }
    }

    fn cuGraphMemFreeNodeGetParams(node: Handle, address: Out<u64>) {
        match &lock(&handle::get::<Node>(node)?.work).work {
            Work::Freed(own) | Work::Free(own) => address.set(*own),
            _ => Err(CuError::INVALID_VALUE),
        }
    }

    fn cuGraphAddNode(node: Out<Handle>, graph: Handle, list: In<Handle>, count: usize, params: Out<NodeParams>) {
        let mut own = params.get()?;
        add(node, graph, list, count, own.node()?)?;
        params.set(own)
    }

    fn cuGraphAddNode_v2(node: Out<Handle>, graph: Handle, list: In<Handle>, _data: In<u64>, count: usize, params: Out<NodeParams>) {
        let mut own = params.get()?;
        add(node, graph, list, count, own.node()?)?;
        params.set(own)
    }

    fn cuGraphNodeSetParams(node: Handle, params: Out<NodeParams>) {
        let mut own = params.get()?;
        let new = own.node()?;
        handle::get::<Node>(node)?.set(new.kind, new.work)
    }
}
