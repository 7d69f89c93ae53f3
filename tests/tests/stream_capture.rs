//! Stream capture and graphs are left alone (interception.md, section 4, cases 19, 21 to 24, 27 to 32).

use r3_tests::{Bed, Run, same_with_r3};

fn graphs(mode: &str) -> (Bed, Run) {
    same_with_r3("graphs", &[mode], |program| program)
}

/// Cases 19, 21, 27, 28, 29: nothing is synchronised, nothing allocated; launches into the graph are
/// counted and named, and the graph's launches too.
#[test]
fn launches_into_a_graph_are_counted_and_not_recorded() {
    for mode in ["global", "relaxed", "thread_local"] {
        let (bed, _) = graphs(mode);
        let archives = bed.archive_paths();
        if let [path] = archives.as_slice() {
            let archive = r3_tests::open(path);
            assert_eq!(archive.launches().len(), 0, "{mode}");
            assert_eq!(archive.process_stats().launches_into_graphs, 4, "{mode}");
            assert_eq!(archive.process_stats().graph_launches, 3, "{mode}");
        } else {
            panic!("{mode}: what was seen is not in an archive: {archives:?}");
        }
    }
}

/// The same kernel and shape outside a capture is recorded before and after.
#[test]
fn a_launch_before_the_capture_is_recorded() {
    let (bed, _) = graphs("warm");
    let archive = bed.archive();
    assert_eq!(archive.launches().len(), 1);
    assert_eq!(archive.process_stats().launches_into_graphs, 4);
    bed.verify();
}

/// Case 31: whether a launch runs at once is a question of its stream, not of the process. (In the
/// strict mode R3 must not allocate meanwhile: case 29.)
#[test]
fn launches_beside_a_capture_run_and_do_not_break_it() {
    for mode in ["other_stream", "other_stream_relaxed", "other_thread"] {
        let (bed, _) = graphs(mode);
        assert_eq!(
            bed.archive().process_stats().launches_into_graphs,
            2,
            "{mode}"
        );
    }
}

/// Case 31: in the relaxed mode launches beside the capture are recorded.
#[test]
fn launches_beside_a_relaxed_capture_are_recorded() {
    let (bed, _) = graphs("other_stream_relaxed");
    assert_eq!(bed.archive().launches().len(), 3);
    bed.verify();
}

#[test]
fn a_stream_that_joins_a_capture_is_a_capturing_stream() {
    let (bed, _) = graphs("joined");
    assert_eq!(bed.archive().process_stats().launches_into_graphs, 2);
}

/// Cases 30, 32: an invalidated capture is a capture, and ended by the program alone.
#[test]
fn an_invalidated_capture_stays_the_programs_business() {
    let (bed, _) = graphs("invalidated");
    assert_eq!(bed.archive().launches().len(), 1);
    bed.verify();
}

/// The default stream beside a capture of a blocking stream: every question is answered as before,
/// and R3's own question does not invalidate the capture.
#[test]
fn the_default_stream_beside_a_capture_answers_as_before() {
    graphs("legacy");
}

/// A capture into a graph that is there already.
#[test]
fn a_capture_into_a_graph_is_a_capture() {
    let (bed, _) = graphs("to_graph");
    let archive = bed.archive();
    assert_eq!(archive.process_stats().launches_into_graphs, 2);
    assert_eq!(archive.process_stats().graph_launches, 2);
}

/// Cases 22, 23, 24: nodes built by hand, by function and by kernel handle.
#[test]
fn graphs_built_by_hand_run_as_before() {
    let (bed, _) = graphs("built");
    assert_eq!(bed.archive().process_stats().graph_launches, 2);
}
