//! The structures that cross the border have the sizes of the vendor's header.

use cudarc::driver::sys;

use crate::{array, copy, device, graph, launch, pool, stream, texture, vmm};

macro_rules! same_size {
    ($( $own:ty = $theirs:ident; )*) => {
        #[test]
        fn structures_have_the_sizes_of_the_header() {
            $( assert_eq!(size_of::<$own>(), size_of::<sys::$theirs>(), stringify!($theirs)); )*
        }
    };
}

same_size! {
    array::Descriptor = CUDA_ARRAY_DESCRIPTOR;
    array::Descriptor3d = CUDA_ARRAY3D_DESCRIPTOR;
    array::Requirements = CUDA_ARRAY_MEMORY_REQUIREMENTS;
    copy::Memcpy2d = CUDA_MEMCPY2D;
    copy::Memcpy3d = CUDA_MEMCPY3D;
    copy::Memcpy3d = CUDA_MEMCPY3D_PEER;
    device::Properties = CUdevprop;
    graph::params::KernelParams1 = CUDA_KERNEL_NODE_PARAMS_v1;
    graph::params::KernelParams = CUDA_KERNEL_NODE_PARAMS;
    graph::params::MemsetParams = CUDA_MEMSET_NODE_PARAMS;
    graph::params::HostParams = CUDA_HOST_NODE_PARAMS;
    graph::params::CopyParams = CUDA_MEMCPY_NODE_PARAMS;
    graph::params::AllocParams = CUDA_MEM_ALLOC_NODE_PARAMS;
    graph::params::NodeParams = CUgraphNodeParams;
    graph::executable::InstantiateParams = CUDA_GRAPH_INSTANTIATE_PARAMS;
    graph::executable::UpdateResult = CUgraphExecUpdateResultInfo;
    launch::Config = CUlaunchConfig;
    launch::Attribute = CUlaunchAttribute;
    launch::DeviceLaunch = CUDA_LAUNCH_PARAMS;
    pool::Properties = CUmemPoolProps;
    stream::BatchMemOp = CUstreamBatchMemOpParams;
    texture::Resource = CUDA_RESOURCE_DESC;
    texture::Description = CUDA_TEXTURE_DESC;
    texture::View = CUDA_RESOURCE_VIEW_DESC;
    vmm::Location = CUmemLocation;
    vmm::Access = CUmemAccessDesc;
    vmm::Properties = CUmemAllocationProp;
}
