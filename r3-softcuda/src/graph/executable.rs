//! Entry points of executable graphs.

use std::sync::{Arc, Mutex};

use super::nodes::kernel_of;
use super::params::{HostParams, KernelParams, KernelParams1, MemsetParams, NodeParams, copy_work};
use super::{Exec, GRAPH, Graph, HOST, KERNEL, MEMCPY, MEMSET, Plan, RECORD, WAIT};
use crate::api::{In, Out, api};
use crate::copy::Memcpy3d;
use crate::error::{CuError, Res};
use crate::handle::{self, Handle};
use crate::process::lock;
use crate::stream;
use crate::work::Work;

fn instantiate(out: Out<Handle>, graph: Handle, flags: u64) -> Res {
    out.required()?;
    let graph = handle::get::<Graph>(graph)?;
    let plan = graph.plan()?;
    let objects = lock(&graph.objects).clone();
    let exec = handle::create(|handle| Exec {
        handle,
        flags,
        plan: Mutex::new(Arc::new(plan)),
        _objects: objects,
    });
    out.set(exec.handle)
}

/// Nodes of the same kinds in the same order; then the work of the one becomes that of the other.
fn update(exec: Handle, graph: Handle, result: Out<u32>) -> Res {
    let exec = handle::get::<Exec>(exec)?;
    let new = handle::get::<Graph>(graph)?.plan()?;
    let mut plan = lock(&exec.plan);
    let kinds = |plan: &Plan| plan.steps.iter().map(|step| step.kind).collect::<Vec<_>>();
    if kinds(&plan) != kinds(&new) {
        // Topology changed.
        result.set_if_wanted(2);
        return Err(CuError::GRAPH_EXEC_UPDATE_FAILURE);
    }
    let mut changed = Plan::clone(&plan);
    for (step, new) in changed.steps.iter_mut().zip(new.steps) {
        step.work = new.work;
    }
    *plan = Arc::new(changed);
    result.set_if_wanted(0);
    Ok(())
}

/// `CUgraphExecUpdateResultInfo`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UpdateResult {
    result: u32,
    node: Handle,
    from: Handle,
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct InstantiateParams {
    flags: u64,
    stream: Handle,
    error_node: Handle,
    result: u32,
}

api! {
    fn cuGraphExecNodeSetParams(exec: Handle, node: Handle, params: Out<NodeParams>) {
        let mut own = params.get()?;
        let new = own.node()?;
        handle::get::<Exec>(exec)?.update(node, new.kind, new.work)
    }

    fn cuGraphInstantiate(exec: Out<Handle>, graph: Handle, error_node: Out<Handle>, log: Out<u8>, len: usize) {
        error_node.set_if_wanted(0);
        if len > 0 {
            log.set_if_wanted(0);
        }
        instantiate(exec, graph, 0)
    }

    fn cuGraphInstantiate_v2(exec: Out<Handle>, graph: Handle, error_node: Out<Handle>, log: Out<u8>, len: usize) {
        error_node.set_if_wanted(0);
        if len > 0 {
            log.set_if_wanted(0);
        }
        instantiate(exec, graph, 0)
    }

    fn cuGraphInstantiateWithFlags(exec: Out<Handle>, graph: Handle, flags: u64) {
        instantiate(exec, graph, flags)
    }

    fn cuGraphInstantiateWithParams/cuGraphInstantiateWithParams_ptsz(exec: Out<Handle>, graph: Handle, params: Out<InstantiateParams>) |_call| {
        let mut own = params.get()?;
        instantiate(exec, graph, own.flags)?;
        (own.error_node, own.result) = (0, 0);
        params.set(own)
    }

    fn cuGraphExecGetFlags(exec: Handle, flags: Out<u64>) {
        flags.set(handle::get::<Exec>(exec)?.flags)
    }

    fn cuGraphExecDestroy(exec: Handle) {
        handle::remove::<Exec>(exec).map(drop)
    }

    fn cuGraphUpload/cuGraphUpload_ptsz(exec: Handle, stream: Handle) |call| {
        handle::get::<Exec>(exec)?;
        stream::resolve(stream, call.per_thread).map(drop)
    }

    fn cuGraphLaunch/cuGraphLaunch_ptsz(exec: Handle, stream: Handle) |call| {
        let exec = handle::get::<Exec>(exec)?;
        let stream = stream::resolve(stream, call.per_thread)?;
        let plan = lock(&exec.plan).clone();
        let events = plan.events();
        if let Some(point) = stream::submit(&stream, Work::Graph(plan))? {
            events.iter().for_each(|event| event.recorded_at(&point));
        }
        Ok(())
    }

    fn cuGraphExecUpdate(exec: Handle, graph: Handle, error_node: Out<Handle>, result: Out<u32>) {
        error_node.set_if_wanted(0);
        update(exec, graph, result)
    }

    fn cuGraphExecUpdate_v2(exec: Handle, graph: Handle, info: Out<UpdateResult>) {
        let outcome = update(exec, graph, Out::new(std::ptr::null_mut()));
        info.set_if_wanted(UpdateResult { result: if outcome.is_ok() { 0 } else { 2 }, node: 0, from: 0 });
        outcome
    }

    fn cuGraphExecKernelNodeSetParams(exec: Handle, node: Handle, params: In<KernelParams1>) {
        let before = kernel_of(node)?.shape;
        handle::get::<Exec>(exec)?.update(node, KERNEL, params.get()?.wide().work(Some(before))?)
    }

    fn cuGraphExecKernelNodeSetParams_v2(exec: Handle, node: Handle, params: In<KernelParams>) {
        let before = kernel_of(node)?.shape;
        handle::get::<Exec>(exec)?.update(node, KERNEL, params.get()?.work(Some(before))?)
    }

    fn cuGraphExecMemcpyNodeSetParams(exec: Handle, node: Handle, copy: In<Memcpy3d>, _context: Handle) {
        handle::get::<Exec>(exec)?.update(node, MEMCPY, copy_work(copy.get()?)?)
    }

    fn cuGraphExecMemsetNodeSetParams(exec: Handle, node: Handle, params: In<MemsetParams>, _context: Handle) {
        handle::get::<Exec>(exec)?.update(node, MEMSET, params.get()?.work()?)
    }

    fn cuGraphExecHostNodeSetParams(exec: Handle, node: Handle, params: In<HostParams>) {
        handle::get::<Exec>(exec)?.update(node, HOST, params.get()?.work()?)
    }

    fn cuGraphExecChildGraphNodeSetParams(exec: Handle, node: Handle, child: Handle) {
        let plan = handle::get::<Graph>(child)?.plan()?;
        handle::get::<Exec>(exec)?.update(node, GRAPH, Work::Graph(Arc::new(plan)))
    }

    fn cuGraphExecEventRecordNodeSetEvent(exec: Handle, node: Handle, event: Handle) {
        handle::get::<Exec>(exec)?.update(node, RECORD, Work::Record(handle::get(event)?, 0))
    }

    fn cuGraphExecEventWaitNodeSetEvent(exec: Handle, node: Handle, event: Handle) {
        handle::get::<Exec>(exec)?.update(node, WAIT, Work::WaitEvent(handle::get(event)?))
    }

    fn cuGraphNodeSetEnabled(exec: Handle, node: Handle, enabled: u32) {
        handle::get::<Exec>(exec)?.change(node, |step| {
            if !matches!(step.kind, KERNEL | MEMCPY | MEMSET) {
                return Err(CuError::INVALID_VALUE);
            }
            step.enabled = enabled != 0;
            Ok(())
        })
    }

    fn cuGraphNodeGetEnabled(exec: Handle, node: Handle, enabled: Out<u32>) {
        let exec = handle::get::<Exec>(exec)?;
        let plan = lock(&exec.plan).clone();
        let step = plan.steps.iter().find(|step| step.node == node).ok_or(CuError::INVALID_VALUE)?;
        enabled.set(u32::from(step.enabled))
    }
}
