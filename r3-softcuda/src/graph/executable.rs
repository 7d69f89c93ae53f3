//! Entry points of executable graphs.

use std::sync::{Arc, Mutex};

use super::nodes::kernel_of;
use super::params::{HostParams, KernelParams, KernelParams1, MemsetParams, NodeParams, copy_work};
use super::{Exec, GRAPH, Graph, HOST, KERNEL, MEMCPY, MEMSET, Plan, RECORD, WAIT, memory};
use crate::api::{In, Out, api};
use crate::capture;
use crate::copy::Memcpy3d;
use crate::error::{CuError, Res};
use crate::handle::{self, Handle};
use crate::process::lock;
use crate::work::Work;
use crate::{pool, stream};

fn instantiate(out: Out<Handle>, graph: Handle, flags: u64) -> Res {
    out.required()?;
    let graph = handle::get::<Graph>(graph)?;
    let plan = graph.plan()?;
    let objects = lock(&graph.objects).clone();
    let exec = handle::create(|handle| Exec {
        handle,
        flags,
        plan: Mutex::new(Arc::new(plan)),
        last: Mutex::default(),
        _objects: objects,
    });
    out.set(exec.handle)
}

/// `CU_GRAPH_EXEC_UPDATE_ERROR_…`
const TOPOLOGY_CHANGED: u32 = 2;
const TYPE_CHANGED: u32 = 3;

/// Nodes of the same kinds in the same order; then the work of the one becomes that of the other.
fn update(exec: Handle, graph: Handle, result: Out<u32>) -> Res {
    let exec = handle::get::<Exec>(exec)?;
    let new = handle::get::<Graph>(graph)?.plan()?;
    let mut plan = lock(&exec.plan);
    let edges =
        |plan: &Plan| -> Vec<_> { plan.steps.iter().map(|step| step.before.clone()).collect() };
    let kinds = |plan: &Plan| -> Vec<_> { plan.steps.iter().map(|step| step.kind).collect() };
    let refused = if edges(&plan) != edges(&new) {
        TOPOLOGY_CHANGED
    } else if kinds(&plan) != kinds(&new) {
        TYPE_CHANGED
    } else {
        0
    };
    if refused != 0 {
        result.set_if_wanted(refused);
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
    pub result: u32,
    pub node: Handle,
    pub from: Handle,
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct InstantiateParams {
    pub flags: u64,
    pub stream: Handle,
    pub error_node: Handle,
    pub result: u32,
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
        if capture::take(&stream, &Work::Graph(plan.clone()))? {
            return Ok(());
        }
        let events = plan.events();
        let (allocated, freed) = plan.memory();
        let mut last = lock(&exec.last);
        let gone = memory::launched(&allocated, &freed, exec.flags)?;
        let after = last.clone().into_iter().filter(|point| !point.reached()).collect();
        let point = stream::enqueue(&stream, after, Work::Graph(plan.at_launch()))?;
        events.iter().for_each(|event| event.recorded_at(&point));
        *last = Some(point);
        gone.into_iter().try_for_each(|address| pool::free_later(address, &stream))
    }

    fn cuGraphExecUpdate(exec: Handle, graph: Handle, error_node: Out<Handle>, result: Out<u32>) {
        error_node.set_if_wanted(0);
        update(exec, graph, result)
    }

    fn cuGraphExecUpdate_v2(exec: Handle, graph: Handle, info: Out<UpdateResult>) {
        let mut result = 1;
        let outcome = update(exec, graph, Out::new(&raw mut result));
        info.set_if_wanted(UpdateResult { result, node: 0, from: 0 });
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
