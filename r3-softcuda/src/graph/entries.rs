//! Entry points of graphs, their edges, and what they keep alive.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use super::{Graph, Node, UserObject, nodes_of};
use crate::api::{In, Out, Text, api};
use crate::error::{CuError, Res};
use crate::handle::{self, Handle};
use crate::process::lock;
use crate::work::HostFn;

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
        lock(&graph.objects).extend(std::iter::repeat_n(object.clone(), count as usize));
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

    fn cuGraphReleaseUserObject(graph: Handle, object: Handle, count: u32) {
        let graph = handle::get::<Graph>(graph)?;
        let mut objects = lock(&graph.objects);
        let mut released = Vec::new();
        for _ in 0..count {
            let known = objects.iter().position(|known| known.handle == object);
            released.extend(known.map(|index| objects.swap_remove(index)));
        }
        // The last reference runs a function of the program's: without a lock.
        drop(objects);
        drop(released);
        Ok(())
    }
}
