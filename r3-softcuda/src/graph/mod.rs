//! Graphs: nodes with dependencies, made one by one or captured, and their executable form.
//!
//! An executable graph is a list of work in an order that the dependencies allow; a launch of it is one piece of work.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

mod entries;
pub mod executable;
pub mod memory;
mod nodes;
pub mod params;

use crate::api::In;
use crate::context::Context;
use crate::error::{CuError, Res};
use crate::event::Event;
use crate::handle::{self, Handle};
use crate::process::lock;
use crate::stream::Point;
use crate::work::{HostFn, Work};

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
pub struct NodeWork {
    work: Work,
    /// `CUgraphNodeType`
    kind: u32,
    /// A graph inside.
    child: Option<Arc<Graph>>,
}

/// A graph that can be launched.
pub struct Exec {
    pub handle: Handle,
    flags: u64,
    plan: Mutex<Arc<Plan>>,
    /// Where it was launched last: launches of one graph follow each other.
    last: Mutex<Option<Point>>,
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
    /// Places in the plan of what it waits for.
    before: Vec<usize>,
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
        if !self.ended.swap(true, Ordering::AcqRel) {
            self.destroy.call();
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
        Work::WaitEvent(_) | Work::WaitPoint(_) => WAIT,
        Work::Record(..) => RECORD,
        Work::Allocated(_) => ALLOC,
        Work::Free(_) | Work::Freed(_) => FREE,
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
        let _ = handle::remove::<Self>(self.handle);
        // Functions of the program's run here: without a lock.
        let objects = std::mem::take(&mut *lock(&self.objects));
        drop(objects);
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
            let place =
                |other: &Arc<Node>| plan.steps.iter().position(|step| step.node == other.handle);
            let before = node.dependencies().iter().filter_map(place).collect();
            plan.steps.push(Step {
                node: node.handle,
                before,
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

    /// What a launch runs: it waits for events as they are recorded now, not as they will be when it is their turn.
    fn at_launch(self: &Arc<Self>) -> Arc<Self> {
        fn waits(plan: &Plan) -> bool {
            plan.steps.iter().any(|step| match &step.work {
                Work::WaitEvent(_) => true,
                Work::Graph(inner) => waits(inner),
                _ => false,
            })
        }
        if !waits(self) {
            return self.clone();
        }
        let mut plan = Self::clone(self);
        for step in &mut plan.steps {
            match &step.work {
                Work::WaitEvent(event) => {
                    step.work = event.point().map_or(Work::Nothing, Work::WaitPoint);
                }
                Work::Graph(inner) => step.work = Work::Graph(inner.at_launch()),
                _ => {}
            }
        }
        Arc::new(plan)
    }

    /// Memory that nodes allocate, and addresses that nodes free.
    fn memory(&self) -> (Vec<Arc<memory::Owned>>, Vec<u64>) {
        let (mut allocated, mut freed) = (Vec::new(), Vec::new());
        for step in &self.steps {
            match &step.work {
                Work::Allocated(memory) => allocated.push(memory.clone()),
                Work::Freed(address) => freed.push(*address),
                Work::Graph(inner) => {
                    let inner = inner.memory();
                    allocated.extend(inner.0);
                    freed.extend(inner.1);
                }
                _ => {}
            }
        }
        (allocated, freed)
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
