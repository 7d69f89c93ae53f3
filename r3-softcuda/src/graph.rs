//! Graphs: nodes with dependencies, made one by one or captured, and their executable form.
//!
//! An executable graph is a list of work in an order that the dependencies allow; a launch of it is one piece of work.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::api::{In, Out, Text, api};
use crate::context::{self, Context};
use crate::copy::{Fill, Memcpy3d};
use crate::error::{CuError, Res};
use crate::event::Event;
use crate::handle::{self, Handle};
use crate::launch::{Launch, Shape};
use crate::pool;
use crate::process::lock;
use crate::space;
use crate::stream;
use crate::work::{HostFn, MemOp, Work};

/// A graph.
pub struct Graph {
    pub handle: Handle,
    nodes: Mutex<Vec<Arc<Node>>>,
    objects: Mutex<Vec<Arc<UserObject>>>,
}

/// A node.
pub struct Node {
    pub handle: Handle,
    graph: Handle,
    work: Mutex<NodeWork>,
    before: Mutex<Vec<Arc<Node>>>,
}

/// What a node does.
#[derive(Clone)]
struct NodeWork {
    work: Work,
    /// `CUgraphNodeType`
    kind: u32,
    /// A graph inside.
    child: Option<Arc<Graph>>,
    /// Memory that the node allocated.
    memory: Option<(u64, u64)>,
}

/// A graph that can be launched.
pub struct Exec {
    pub handle: Handle,
    flags: u64,
    plan: Mutex<Arc<Plan>>,
    _objects: Vec<Arc<UserObject>>,
}

/// Work in order, with the nodes that it is of.
#[derive(Clone, Default)]
pub struct Plan {
    steps: Vec<Step>,
}

#[derive(Clone)]
struct Step {
    node: Handle,
    kind: u32,
    work: Work,
    enabled: bool,
}

/// Something of the program's that ends with the graphs that use it.
pub struct UserObject {
    pub handle: Handle,
    destroy: HostFn,
    kept: Mutex<u64>,
    ended: AtomicBool,
}

impl Drop for UserObject {
    fn drop(&mut self) {
        self.end();
    }
}

impl UserObject {
    fn end(&self) {
        if !self.ended.swap(true, Ordering::AcqRel)
            && let Some(function) = self.destroy.function
        {
            function(self.destroy.data as *mut _);
        }
    }
}

const KERNEL: u32 = 0;
const MEMCPY: u32 = 1;
const MEMSET: u32 = 2;
const HOST: u32 = 3;
const GRAPH: u32 = 4;
const EMPTY: u32 = 5;
const WAIT: u32 = 6;
const RECORD: u32 = 7;
const ALLOC: u32 = 10;
const FREE: u32 = 11;
const MEMOPS: u32 = 12;

fn kind_of(work: &Work) -> u32 {
    match work {
        Work::Kernel(_) => KERNEL,
        Work::Copy(_) => MEMCPY,
        Work::Fill(_) => MEMSET,
        Work::Host(_) | Work::Callback(_) => HOST,
        Work::Graph(_) => GRAPH,
        Work::WaitEvent(_) => WAIT,
        Work::Record(..) => RECORD,
        Work::Free(_) => FREE,
        Work::MemOps(_) => MEMOPS,
        Work::Nothing => EMPTY,
    }
}

impl NodeWork {
    fn of(work: Work) -> Self {
        Self {
            kind: kind_of(&work),
            work,
            child: None,
            memory: None,
        }
    }
}

impl Node {
    /// What it waits for.
    pub fn dependencies(&self) -> Vec<Arc<Node>> {
        lock(&self.before).clone()
    }

    fn kind(&self) -> u32 {
        lock(&self.work).kind
    }

    fn set(&self, kind: u32, work: Work) -> Res {
        let mut own = lock(&self.work);
        if own.kind != kind {
            return Err(CuError::INVALID_VALUE);
        }
        own.work = work;
        Ok(())
    }
}

impl Graph {
    pub fn create() -> Arc<Self> {
        handle::create(|handle| Self {
            handle,
            nodes: Mutex::default(),
            objects: Mutex::default(),
        })
    }

    /// Adds a node.
    pub fn add(&self, work: Work, before: Vec<Arc<Node>>) -> Arc<Node> {
        self.add_node(NodeWork::of(work), before)
    }

    fn add_node(&self, work: NodeWork, before: Vec<Arc<Node>>) -> Arc<Node> {
        let node = handle::create(|handle| Node {
            handle,
            graph: self.handle,
            work: Mutex::new(work),
            before: Mutex::new(before),
        });
        lock(&self.nodes).push(node.clone());
        node
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        lock(&self.nodes).clone()
    }

    /// Ends it, and its nodes.
    pub fn discard(&self) {
        for node in lock(&self.nodes).drain(..) {
            lock(&node.before).clear();
            let _ = handle::remove::<Node>(node.handle);
        }
        lock(&self.objects).clear();
        let _ = handle::remove::<Self>(self.handle);
    }

    /// A copy, and which node became which.
    fn copy(&self) -> (Arc<Self>, BTreeMap<Handle, Arc<Node>>) {
        let copy = Self::create();
        let mut became = BTreeMap::new();
        for node in self.nodes() {
            let made = copy.add_node(lock(&node.work).clone(), Vec::new());
            became.insert(node.handle, made);
        }
        for node in self.nodes() {
            let before = node
                .dependencies()
                .iter()
                .filter_map(|node| became.get(&node.handle).cloned())
                .collect();
            if let Some(made) = became.get(&node.handle) {
                *lock(&made.before) = before;
            }
        }
        *lock(&copy.objects) = lock(&self.objects).clone();
        (copy, became)
    }

    /// Its nodes in an order in which each follows what it waits for; an error for circles.
    fn plan(&self) -> Res<Plan> {
        let nodes = self.nodes();
        let mut missing: BTreeMap<Handle, usize> = BTreeMap::new();
        let mut after: BTreeMap<Handle, Vec<usize>> = BTreeMap::new();
        for (index, node) in nodes.iter().enumerate() {
            let before = node.dependencies();
            missing.insert(node.handle, before.len());
            for other in before {
                after.entry(other.handle).or_default().push(index);
            }
        }
        let is_free = |node: &&Arc<Node>| missing.get(&node.handle) == Some(&0);
        let mut ready: std::collections::VecDeque<Arc<Node>> =
            nodes.iter().filter(is_free).cloned().collect();
        let mut plan = Plan::default();
        while let Some(node) = ready.pop_front() {
            for index in after.get(&node.handle).into_iter().flatten() {
                let Some(next) = nodes.get(*index) else {
                    continue;
                };
                if let Some(left) = missing.get_mut(&next.handle) {
                    *left -= 1;
                    if *left == 0 {
                        ready.push_back(next.clone());
                    }
                }
            }
            let own = lock(&node.work).clone();
            let work = match &own.child {
                Some(child) => Work::Graph(Arc::new(child.plan()?)),
                None => own.work,
            };
            plan.steps.push(Step {
                node: node.handle,
                kind: own.kind,
                work,
                enabled: true,
            });
        }
        if plan.steps.len() != nodes.len() {
            return Err(CuError::INVALID_VALUE);
        }
        Ok(plan)
    }
}

impl Plan {
    /// Runs everything in order.
    pub fn run(&self, context: &Arc<Context>) -> Res {
        self.steps
            .iter()
            .filter(|step| step.enabled)
            .try_for_each(|step| step.work.run(context))
    }

    fn events(&self) -> Vec<Arc<Event>> {
        let events = self.steps.iter().flat_map(|step| match &step.work {
            Work::Record(event, _) => vec![event.clone()],
            Work::Graph(plan) => plan.events(),
            _ => Vec::new(),
        });
        events.collect()
    }
}

impl Exec {
    fn update(&self, node: Handle, kind: u32, work: Work) -> Res {
        self.change(node, |step| {
            if step.kind != kind {
                return Err(CuError::INVALID_VALUE);
            }
            step.work = work;
            Ok(())
        })
    }

    fn change<T>(&self, node: Handle, change: impl FnOnce(&mut Step) -> Res<T>) -> Res<T> {
        let mut plan = lock(&self.plan);
        // A launch that is queued keeps the plan that it was launched with.
        let mut changed = Plan::clone(&plan);
        let step = changed
            .steps
            .iter_mut()
            .find(|step| step.node == node)
            .ok_or(CuError::INVALID_VALUE)?;
        let result = change(step)?;
        *plan = Arc::new(changed);
        Ok(result)
    }
}

/// Nodes of a list.
pub fn nodes_of(list: In<Handle>, count: usize) -> Res<Vec<Arc<Node>>> {
    list.list(count)?
        .into_iter()
        .map(handle::get::<Node>)
        .collect()
}

fn add(out: Out<Handle>, graph: Handle, list: In<Handle>, count: usize, work: NodeWork) -> Res {
    out.required()?;
    let graph = handle::get::<Graph>(graph)?;
    let before = nodes_of(list, count)?;
    if before.iter().any(|node| node.graph != graph.handle) {
        return Err(CuError::INVALID_VALUE);
    }
    out.set(graph.add_node(work, before).handle)
}

/// `CUDA_KERNEL_NODE_PARAMS_v2` and `_v3`; the first form ends before `kernel`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelParams {
    function: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    params: *const u64,
    extra: *const u64,
    kernel: Handle,
    context: Handle,
}

/// `CUDA_KERNEL_NODE_PARAMS_v1`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelParams1 {
    function: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    params: *const u64,
    extra: *const u64,
}

impl KernelParams1 {
    fn wide(self) -> KernelParams {
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
    fn work(&self, before: Option<Shape>) -> Res<Work> {
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

    fn of(launch: &Launch) -> Self {
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
    address: u64,
    pitch: u64,
    value: u32,
    element: u32,
    width: u64,
    height: u64,
}

impl MemsetParams {
    fn work(self) -> Res<Work> {
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
    function: Option<extern "C" fn(*mut std::ffi::c_void)>,
    data: u64,
}

impl HostParams {
    fn work(self) -> Res<Work> {
        if self.function.is_none() {
            return Err(CuError::INVALID_VALUE);
        }
        Ok(Work::Host(HostFn {
            function: self.function,
            data: self.data,
        }))
    }
}

fn copy_work(copy: Memcpy3d) -> Res<Work> {
    Ok(copy
        .prepare()?
        .map_or(Work::Nothing, |copy| Work::Copy(Arc::new(copy))))
}

fn copy_node(copy: Memcpy3d) -> Res<NodeWork> {
    Ok(NodeWork {
        kind: MEMCPY,
        ..NodeWork::of(copy_work(copy)?)
    })
}

/// `CUDA_MEMCPY_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CopyParams {
    flags: u32,
    reserved: u32,
    context: Handle,
    copy: Memcpy3d,
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AllocParams {
    pool: pool::Properties,
    access: u64,
    access_count: u64,
    len: u64,
    address: u64,
}

impl AllocParams {
    /// The memory is there from now on: a graph's addresses are fixed when its node is made.
    fn node(&mut self) -> Res<NodeWork> {
        let device = self.pool.device()?;
        let context = context::top()?.map_or(0, |context| context.handle);
        self.address = pool::new_in(&*pool::current(device.ordinal)?, self.len, context)?;
        Ok(NodeWork {
            kind: ALLOC,
            memory: Some((self.address, self.len)),
            ..NodeWork::of(Work::Nothing)
        })
    }
}

/// `CUgraphNodeParams`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NodeParams {
    kind: u32,
    reserved: [u32; 3],
    value: [u64; 29],
    end: u64,
}

impl NodeParams {
    /// The member of the union, which is at its start.
    fn member<T: Copy>(&self) -> Res<T> {
        const { assert!(size_of::<T>() <= size_of::<[u64; 29]>()) };
        In::new(self.value.as_ptr().cast::<T>()).get()
    }

    fn node(&mut self) -> Res<NodeWork> {
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

fn child_of(graph: Handle) -> Res<NodeWork> {
    let (child, _) = handle::get::<Graph>(graph)?.copy();
    Ok(NodeWork {
        kind: GRAPH,
        child: Some(child),
        ..NodeWork::of(Work::Nothing)
    })
}

/// A graph's memory is given back with its node's destruction here, so that it can be launched again.
fn free_node(address: u64) -> Res<NodeWork> {
    space::find(address)
        .filter(|found| found.base == address)
        .ok_or(CuError::INVALID_VALUE)?;
    Ok(NodeWork {
        kind: FREE,
        memory: Some((address, 0)),
        ..NodeWork::of(Work::Nothing)
    })
}

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

/// Writes a list in the two-call manner: with a null pointer only the count.
fn put_list<T: Copy + Default>(out: Out<T>, count: Out<usize>, list: &[T]) -> Res {
    count.required()?;
    if out.is_null() {
        return count.set(list.len());
    }
    let room = count.get()?;
    let mut padded = list[..list.len().min(room)].to_vec();
    padded.resize(room, T::default());
    out.fill(&padded)?;
    if room > list.len() {
        count.set(list.len())
    } else {
        Ok(())
    }
}

fn edges_of(graph: Handle) -> Res<Vec<(Handle, Handle)>> {
    let graph = handle::get::<Graph>(graph)?;
    let edges = graph.nodes().into_iter().flat_map(|node| {
        let before = node.dependencies();
        before
            .into_iter()
            .map(move |other| (other.handle, node.handle))
    });
    Ok(edges.collect())
}

fn put_edges(graph: Handle, from: Out<Handle>, to: Out<Handle>, count: Out<usize>) -> Res {
    let edges = edges_of(graph)?;
    let (first, second): (Vec<_>, Vec<_>) = edges.into_iter().unzip();
    if !from.is_null() {
        let room = count.get()?;
        from.fill(&first[..first.len().min(room)])?;
    }
    put_list(to, count, &second)
}

fn dependents(node: Handle) -> Res<Vec<Handle>> {
    let node = handle::get::<Node>(node)?;
    let graph = handle::get::<Graph>(node.graph)?;
    let waits = |other: &Arc<Node>| {
        other
            .dependencies()
            .iter()
            .any(|before| before.handle == node.handle)
    };
    Ok(graph
        .nodes()
        .iter()
        .filter(|other| waits(other))
        .map(|other| other.handle)
        .collect())
}

fn dependencies(node: Handle) -> Res<Vec<Handle>> {
    Ok(handle::get::<Node>(node)?
        .dependencies()
        .iter()
        .map(|node| node.handle)
        .collect())
}

fn change_edges(graph: Handle, from: In<Handle>, to: In<Handle>, count: usize, add: bool) -> Res {
    handle::get::<Graph>(graph)?;
    let (from, to) = (nodes_of(from, count)?, nodes_of(to, count)?);
    for (from, to) in from.into_iter().zip(to) {
        let mut before = lock(&to.before);
        let known = before.iter().position(|node| Arc::ptr_eq(node, &from));
        match (add, known) {
            (true, None) => before.push(from),
            (false, Some(index)) => drop(before.remove(index)),
            _ => return Err(CuError::INVALID_VALUE),
        }
    }
    Ok(())
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

fn kernel_of(node: Handle) -> Res<Arc<Launch>> {
    match &lock(&handle::get::<Node>(node)?.work).work {
        Work::Kernel(launch) => Ok(launch.clone()),
        _ => Err(CuError::INVALID_VALUE),
    }
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
    fn cuGraphCreate(graph: Out<Handle>, flags: u32) {
        graph.required()?;
        if flags != 0 {
            return Err(CuError::INVALID_VALUE);
        }
        graph.set(Graph::create().handle)
    }

    fn cuGraphDestroy(graph: Handle) {
        handle::get::<Graph>(graph)?.discard();
        Ok(())
    }

    fn cuGraphClone(copy: Out<Handle>, graph: Handle) {
        copy.required()?;
        copy.set(handle::get::<Graph>(graph)?.copy().0.handle)
    }

    fn cuGraphNodeFindInClone(node: Out<Handle>, original: Handle, copy: Handle) {
        let original = handle::get::<Node>(original)?;
        let graph = handle::get::<Graph>(original.graph)?;
        let index = graph.nodes().iter().position(|node| Arc::ptr_eq(node, &original)).ok_or(CuError::INVALID_VALUE)?;
        let nodes = handle::get::<Graph>(copy)?.nodes();
        node.set(nodes.get(index).ok_or(CuError::INVALID_VALUE)?.handle)
    }

    fn cuGraphGetNodes(graph: Handle, nodes: Out<Handle>, count: Out<usize>) {
        let list: Vec<Handle> = handle::get::<Graph>(graph)?.nodes().iter().map(|node| node.handle).collect();
        put_list(nodes, count, &list)
    }

    fn cuGraphGetRootNodes(graph: Handle, nodes: Out<Handle>, count: Out<usize>) {
        let all = handle::get::<Graph>(graph)?.nodes();
        let list: Vec<Handle> =
            all.iter().filter(|node| node.dependencies().is_empty()).map(|node| node.handle).collect();
        put_list(nodes, count, &list)
    }

    fn cuGraphGetEdges(graph: Handle, from: Out<Handle>, to: Out<Handle>, count: Out<usize>) {
        put_edges(graph, from, to, count)
    }

    fn cuGraphGetEdges_v2(graph: Handle, from: Out<Handle>, to: Out<Handle>, data: Out<u64>, count: Out<usize>) {
        if !data.is_null() {
            data.fill(&vec![0; count.get()?])?;
        }
        put_edges(graph, from, to, count)
    }

    fn cuGraphNodeGetDependencies(node: Handle, list: Out<Handle>, count: Out<usize>) {
        put_list(list, count, &dependencies(node)?)
    }

    fn cuGraphNodeGetDependencies_v2(node: Handle, list: Out<Handle>, data: Out<u64>, count: Out<usize>) {
        if !data.is_null() {
            data.fill(&vec![0; count.get()?])?;
        }
        put_list(list, count, &dependencies(node)?)
    }

    fn cuGraphNodeGetDependentNodes(node: Handle, list: Out<Handle>, count: Out<usize>) {
        put_list(list, count, &dependents(node)?)
    }

    fn cuGraphNodeGetDependentNodes_v2(node: Handle, list: Out<Handle>, data: Out<u64>, count: Out<usize>) {
        if !data.is_null() {
            data.fill(&vec![0; count.get()?])?;
        }
        put_list(list, count, &dependents(node)?)
    }

    fn cuGraphAddDependencies(graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) {
        change_edges(graph, from, to, count, true)
    }

    fn cuGraphAddDependencies_v2(graph: Handle, from: In<Handle>, to: In<Handle>, _data: In<u64>, count: usize) {
        change_edges(graph, from, to, count, true)
    }

    fn cuGraphRemoveDependencies(graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) {
        change_edges(graph, from, to, count, false)
    }

    fn cuGraphRemoveDependencies_v2(graph: Handle, from: In<Handle>, to: In<Handle>, _data: In<u64>, count: usize) {
        change_edges(graph, from, to, count, false)
    }

    fn cuGraphNodeGetType(node: Handle, kind: Out<u32>) {
        kind.set(handle::get::<Node>(node)?.kind())
    }

    fn cuGraphDestroyNode(node: Handle) {
        let node = handle::remove::<Node>(node)?;
        let graph = handle::get::<Graph>(node.graph)?;
        lock(&graph.nodes).retain(|other| !Arc::ptr_eq(other, &node));
        for other in graph.nodes() {
            lock(&other.before).retain(|before| !Arc::ptr_eq(before, &node));
        }
        Ok(())
    }

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
        let start = launch.params.as_ptr() as u64;
        let offsets = launch.function.info.params.iter().map(|(offset, ..)| start + u64::from(*offset));
        launch.pointers = offsets.collect();
        handle::get::<Node>(node)?.set(KERNEL, Work::Kernel(Arc::new(launch)))
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

    fn cuGraphMemFreeNodeGetParams(node: Handle, address: Out<u64>) {
        let node = handle::get::<Node>(node)?;
        let own = lock(&node.work).clone();
        if own.kind != FREE {
            return Err(CuError::INVALID_VALUE);
        }
        address.set(own.memory.map_or(0, |(address, _)| address))
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

    fn cuGraphAddBatchMemOpNode(node: Out<Handle>, graph: Handle, list: In<Handle>, count: usize, _params: In<u64>) {
        let _ = (node, graph, list, count, MemOp::Nothing);
        Err(CuError::NOT_SUPPORTED)
    }

    fn cuGraphDebugDotPrint(graph: Handle, path: Text, _flags: u32) {
        let graph = handle::get::<Graph>(graph)?;
        let names: BTreeMap<Handle, usize> = graph.nodes().iter().enumerate().map(|(i, node)| (node.handle, i)).collect();
        let mut text = String::from("digraph graph_0 {\n");
        for node in graph.nodes() {
            let (Some(index), kind) = (names.get(&node.handle), node.kind()) else { continue };
            text.push_str(&format!("  node_{index} [label=\"{index}: type {kind}\"];\n"));
            for before in node.dependencies().iter().filter_map(|before| names.get(&before.handle)) {
                text.push_str(&format!("  node_{before} -> node_{index};\n"));
            }
        }
        text.push_str("}\n");
        std::fs::write(path.get()?, text).map_err(|_| CuError::OPERATING_SYSTEM)
    }

    fn cuUserObjectCreate(object: Out<Handle>, data: u64, function: Option<extern "C" fn(*mut std::ffi::c_void)>, count: u32, _flags: u32) {
        object.required()?;
        let destroy = HostFn { function, data };
        let made = handle::create(|handle| UserObject {
            handle,
            destroy,
            kept: Mutex::new(u64::from(count)),
            ended: AtomicBool::new(false),
        });
        object.set(made.handle)
    }

    fn cuUserObjectRetain(object: Handle, count: u32) {
        *lock(&handle::get::<UserObject>(object)?.kept) += u64::from(count);
        Ok(())
    }

    fn cuUserObjectRelease(object: Handle, count: u32) {
        let object = handle::get::<UserObject>(object)?;
        let mut kept = lock(&object.kept);
        *kept = kept.saturating_sub(u64::from(count));
        if *kept == 0 {
            // Graphs that retain it keep it alive.
            handle::remove::<UserObject>(object.handle)?;
        }
        Ok(())
    }

    fn cuGraphRetainUserObject(graph: Handle, object: Handle, count: u32, flags: u32) {
        let graph = handle::get::<Graph>(graph)?;
        let object = handle::get::<UserObject>(object)?;
        lock(&graph.objects).push(object.clone());
        if flags & 1 != 0 {
            // The caller's references move to the graph.
            let mut kept = lock(&object.kept);
            *kept = kept.saturating_sub(u64::from(count));
            if *kept == 0 {
                handle::remove::<UserObject>(object.handle)?;
            }
        }
        Ok(())
    }

    fn cuGraphReleaseUserObject(graph: Handle, object: Handle, _count: u32) {
        let graph = handle::get::<Graph>(graph)?;
        lock(&graph.objects).retain(|known| known.handle != object);
        Ok(())
    }
}
