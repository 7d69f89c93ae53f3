//! The structures that cross the border have the sizes of the vendor's header, and their fields its places.

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

macro_rules! same_place {
    ($( $own:ty = $theirs:ident { $( $field:ident = $field_of_theirs:ident ),* $(,)? } )*) => {
        #[test]
        fn fields_are_where_the_header_has_them() {
            $( $( assert_eq!(
                std::mem::offset_of!($own, $field),
                std::mem::offset_of!(sys::$theirs, $field_of_theirs),
                concat!(stringify!($theirs), ".", stringify!($field_of_theirs))
            ); )* )*
        }
    };
}

same_place! {
    array::Descriptor = CUDA_ARRAY_DESCRIPTOR { width = Width, height = Height, format = Format, channels = NumChannels }
    array::Descriptor3d = CUDA_ARRAY3D_DESCRIPTOR {
        width = Width, height = Height, depth = Depth, format = Format, channels = NumChannels, flags = Flags,
    }
    copy::Memcpy2d = CUDA_MEMCPY2D {
        src_x = srcXInBytes, src_y = srcY, src_type = srcMemoryType, src_host = srcHost, src_device = srcDevice,
        src_array = srcArray, src_pitch = srcPitch, dst_x = dstXInBytes, dst_y = dstY, dst_type = dstMemoryType,
        dst_host = dstHost, dst_device = dstDevice, dst_array = dstArray, dst_pitch = dstPitch,
        width = WidthInBytes, height = Height,
    }
    copy::Memcpy3d = CUDA_MEMCPY3D_PEER {
        src_x = srcXInBytes, src_y = srcY, src_z = srcZ, src_level = srcLOD, src_type = srcMemoryType, src_host = srcHost,
        src_device = srcDevice, src_array = srcArray, src_context = srcContext, src_pitch = srcPitch,
        src_height = srcHeight, dst_x = dstXInBytes, dst_y = dstY, dst_z = dstZ, dst_level = dstLOD,
        dst_type = dstMemoryType, dst_host = dstHost, dst_device = dstDevice, dst_array = dstArray,
        dst_context = dstContext, dst_pitch = dstPitch, dst_height = dstHeight, width = WidthInBytes, height = Height,
        depth = Depth,
    }
    graph::params::KernelParams = CUDA_KERNEL_NODE_PARAMS {
        function = func, grid = gridDimX, block = blockDimX, shared = sharedMemBytes, params = kernelParams, extra = extra,
        kernel = kern, context = ctx,
    }
    graph::params::KernelParams1 = CUDA_KERNEL_NODE_PARAMS_v1 {
        function = func, grid = gridDimX, block = blockDimX, shared = sharedMemBytes, params = kernelParams, extra = extra,
    }
    graph::params::MemsetParams = CUDA_MEMSET_NODE_PARAMS {
        address = dst, pitch = pitch, value = value, element = elementSize, width = width, height = height,
    }
    graph::params::HostParams = CUDA_HOST_NODE_PARAMS { function = fn_, data = userData }
    graph::params::CopyParams = CUDA_MEMCPY_NODE_PARAMS { context = copyCtx, copy = copyParams }
    graph::params::AllocParams = CUDA_MEM_ALLOC_NODE_PARAMS {
        pool = poolProps, access = accessDescs, access_count = accessDescCount, len = bytesize, address = dptr,
    }
    graph::executable::InstantiateParams = CUDA_GRAPH_INSTANTIATE_PARAMS {
        flags = flags, stream = hUploadStream, error_node = hErrNode_out, result = result_out,
    }
    graph::executable::UpdateResult = CUgraphExecUpdateResultInfo { result = result, node = errorNode, from = errorFromNode }
    launch::Config = CUlaunchConfig {
        grid = gridDimX, block = blockDimX, shared = sharedMemBytes, stream = hStream, attributes = attrs, count = numAttrs,
    }
    launch::Attribute = CUlaunchAttribute { id = id, value = value }
    launch::DeviceLaunch = CUDA_LAUNCH_PARAMS {
        function = function, grid = gridDimX, block = blockDimX, shared = sharedMemBytes, stream = hStream,
        params = kernelParams,
    }
    pool::Properties = CUmemPoolProps {
        kind = allocType, handle_types = handleTypes, location = location, max = maxSize, usage = usage,
    }
    texture::Description = CUDA_TEXTURE_DESC {
        address = addressMode, filter = filterMode, flags = flags, anisotropy = maxAnisotropy,
        mip_filter = mipmapFilterMode, mip_bias = mipmapLevelBias, mip_clamp = minMipmapLevelClamp, border = borderColor,
    }
    texture::Resource = CUDA_RESOURCE_DESC { kind = resType, value = res, flags = flags }
    texture::View = CUDA_RESOURCE_VIEW_DESC {
        format = format, width = width, height = height, depth = depth, first_level = firstMipmapLevel,
        last_level = lastMipmapLevel, first_layer = firstLayer, last_layer = lastLayer,
    }
    vmm::Access = CUmemAccessDesc { location = location, flags = flags }
    vmm::Location = CUmemLocation { kind = type_, id = id }
    vmm::Properties = CUmemAllocationProp {
        kind = type_, handle_types = requestedHandleTypes, location = location, flags = allocFlags,
    }
}

/// The operations of a batch are a union; all have their fields where the wait of 64 bits has them.
#[test]
fn operations_of_a_batch_are_read_where_the_header_has_them() {
    type Wait = sys::CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st;
    type Write = sys::CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st;
    use std::mem::offset_of;
    assert_eq!(
        offset_of!(stream::BatchMemOp, address),
        offset_of!(Wait, address)
    );
    assert_eq!(
        offset_of!(stream::BatchMemOp, flags),
        offset_of!(Wait, flags)
    );
    assert_eq!(
        offset_of!(stream::BatchMemOp, address),
        offset_of!(Write, address)
    );
    assert_eq!(
        offset_of!(stream::BatchMemOp, flags),
        offset_of!(Write, flags)
    );
}
