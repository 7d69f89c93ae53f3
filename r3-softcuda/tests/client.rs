//! A third-party client on the software driver: cudarc's safe interface, which opens the library itself.

use std::ffi::CString;
use std::process::Command;
use std::sync::Arc;

use cudarc::driver::sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_RELAXED;
use cudarc::driver::sys::{CUevent_flags_enum, CUfunction, CUgraphInstantiate_flags_enum};
use cudarc::driver::{
    CudaContext, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DriverError, result,
};

const N: usize = 1000;

fn kernel(name: &str) -> CUfunction {
    let text = CString::new(include_str!("kernels.ptx")).expect("PTX");
    // SAFETY: a text with its end; the module lives to the end of the process.
    unsafe {
        let module = result::module::load_data(text.as_ptr().cast()).expect("a module");
        result::module::get_function(module, CString::new(name).expect("a name")).expect("a kernel")
    }
}

fn add_one(
    stream: &Arc<CudaStream>,
    function: CUfunction,
    data: &mut CudaSlice<u32>,
) -> Result<(), DriverError> {
    let mut count = N as i32;
    let (mut address, _written) = data.device_ptr_mut(stream);
    let params = &mut [(&raw mut address).cast(), (&raw mut count).cast()];
    // SAFETY: the kernel's parameters in order.
    unsafe {
        result::launch_kernel(
            function,
            (8, 1, 1),
            (128, 1, 1),
            0,
            stream.cu_stream(),
            params,
        )
    }
}

/// Runs in a process of its own, which finds the driver by `LD_LIBRARY_PATH`.
#[test]
#[ignore = "started by the other test"]
fn client() -> Result<(), DriverError> {
    let context = CudaContext::new(0)?;
    assert_eq!(context.name()?, "NVIDIA H200 (software)");
    assert_eq!(context.compute_capability()?, (9, 0));
    let stream = context.new_stream()?;
    let function = kernel("add_one");

    let values: Vec<u32> = (0..N as u32).collect();
    let mut data = stream.clone_htod(&values)?;
    let start = stream.record_event(Some(CUevent_flags_enum::CU_EVENT_DEFAULT))?;
    add_one(&stream, function, &mut data)?;
    let end = stream.record_event(Some(CUevent_flags_enum::CU_EVENT_DEFAULT))?;
    assert!(start.elapsed_ms(&end)? >= 0.0);

    // Another stream takes over by an event that the client records itself.
    let other = stream.fork()?;
    add_one(&other, function, &mut data)?;
    stream.join(&other)?;
    let back = stream.clone_dtoh(&data)?;
    stream.synchronize()?;
    assert!(
        back.iter()
            .zip(&values)
            .all(|(after, before)| *after == before + 2)
    );

    let mut copy = stream.alloc_zeros::<u32>(N)?;
    stream.memcpy_dtod(&data, &mut copy)?;
    assert_eq!(stream.clone_dtoh(&copy)?, back);

    // SAFETY: no slice of this context is used in two streams from here on.
    unsafe { context.disable_event_tracking() };
    stream.begin_capture(CU_STREAM_CAPTURE_MODE_RELAXED)?;
    add_one(&stream, function, &mut copy)?;
    let flags = CUgraphInstantiate_flags_enum::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags)?.expect("a graph");
    graph.launch()?;
    graph.launch()?;
    assert_eq!(stream.clone_dtoh(&copy)?[5], 9);

    let (address, _read) = copy.device_ptr(&stream);
    assert!(address != 0);
    println!("client: all right");
    Ok(())
}

#[test]
fn a_client_of_the_rust_interface_runs() {
    let folder = tempfile::TempDir::with_prefix("softcuda-").expect("a temporary directory");
    let this = std::env::current_exe().expect("the test's path");
    let library = this.with_file_name("libcuda.so");
    for name in ["libcuda.so", "libcuda.so.1"] {
        std::os::unix::fs::symlink(&library, folder.path().join(name)).expect("a link");
    }
    let output = Command::new(&this)
        .args(["--exact", "client", "--ignored", "--nocapture"])
        .env("LD_LIBRARY_PATH", folder.path())
        .output()
        .expect("the test starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("client: all right"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
