//! Copies and fills: what each of the many entry points asks for becomes one shape, rows of rows of bytes.

use std::sync::Arc;

use crate::api::{Call, In, api};
use crate::array::Array;
use crate::capture;
use crate::context;
use crate::error::{CuError, Res};
use crate::handle::{self, Handle};
use crate::space::{self, InUse};
use crate::stream;
use crate::work::Work;

/// One side of a copy: where its first byte is, and how far the next row and the next slice are.
#[derive(Clone)]
pub struct Side {
    at: At,
    row: u64,
    slice: u64,
}

#[derive(Clone)]
enum At {
    /// Device memory, or the program's when the driver does not know it.
    Address { address: u64, device_only: bool },
    /// Ordinary memory of the program's, read when the copy was submitted.
    Bytes(Arc<[u8]>),
}

/// A copy.
#[derive(Clone)]
pub struct Copy {
    from: Side,
    to: Side,
    width: u64,
    height: u64,
    depth: u64,
    /// As it was asked for, for graphs to tell.
    pub asked: Memcpy3d,
}

/// A fill.
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    pub address: u64,
    pub pitch: u64,
    pub value: u32,
    pub element: u32,
    pub width: u64,
    pub height: u64,
}

/// `CUDA_MEMCPY2D`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Memcpy2d {
    pub src_x: u64,
    pub src_y: u64,
    pub src_type: u32,
    pub src_host: u64,
    pub src_device: u64,
    pub src_array: Handle,
    pub src_pitch: u64,
    pub dst_x: u64,
    pub dst_y: u64,
    pub dst_type: u32,
    pub dst_host: u64,
    pub dst_device: u64,
    pub dst_array: Handle,
    pub dst_pitch: u64,
    pub width: u64,
    pub height: u64,
}

/// `CUDA_MEMCPY3D`, and `CUDA_MEMCPY3D_PEER`, which has contexts in the reserved places.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Memcpy3d {
    pub src_x: u64,
    pub src_y: u64,
    pub src_z: u64,
    pub src_level: u64,
    pub src_type: u32,
    pub src_host: u64,
    pub src_device: u64,
    pub src_array: Handle,
    pub src_context: Handle,
    pub src_pitch: u64,
    pub src_height: u64,
    pub dst_x: u64,
    pub dst_y: u64,
    pub dst_z: u64,
    pub dst_level: u64,
    pub dst_type: u32,
    pub dst_host: u64,
    pub dst_device: u64,
    pub dst_array: Handle,
    pub dst_context: Handle,
    pub dst_pitch: u64,
    pub dst_height: u64,
    pub width: u64,
    pub height: u64,
    pub depth: u64,
}

/// Source or destination as it was asked for.
struct End {
    kind: u32,
    host: u64,
    device: u64,
    array: Handle,
    at: [u64; 4],
    pitch: u64,
    rows: u64,
}

const HOST: u32 = 1;
const DEVICE: u32 = 2;
const ARRAY: u32 = 3;
const UNIFIED: u32 = 4;

impl Memcpy3d {
    /// A row of bytes.
    fn linear(to: u64, to_type: u32, from: u64, from_type: u32, len: usize) -> Self {
        let (mut src_host, mut src_device, mut dst_host, mut dst_device) = (0, 0, 0, 0);
        *(if from_type == HOST {
            &mut src_host
        } else {
            &mut src_device
        }) = from;
        *(if to_type == HOST {
            &mut dst_host
        } else {
            &mut dst_device
        }) = to;
        Self {
            src_type: from_type,
            src_host,
            src_device,
            dst_type: to_type,
            dst_host,
            dst_device,
            width: len as u64,
            height: 1,
            depth: 1,
            ..Self::default()
        }
    }

    fn out_of_array(mut self, array: Handle, offset: usize) -> Self {
        (self.src_type, self.src_array, self.src_x) = (ARRAY, array, offset as u64);
        self
    }

    fn into_array(mut self, array: Handle, offset: usize) -> Self {
        (self.dst_type, self.dst_array, self.dst_x) = (ARRAY, array, offset as u64);
        self
    }

    fn side(&self, end: End) -> Res<Side> {
        let copy = self;
        let End {
            kind,
            host,
            device,
            array,
            at: [x, y, z, level],
            pitch,
            rows,
        } = end;
        if kind == ARRAY {
            let array = handle::get::<Array>(array)?;
            if level != 0 {
                return Err(CuError::INVALID_VALUE);
            }
            let shape = array.shape();
            if x + copy.width > shape.row
                || y + copy.height > shape.rows
                || z + copy.depth > shape.slices
            {
                return Err(CuError::INVALID_VALUE);
            }
            let slice = shape.row * shape.rows;
            let address = array.address() + z * slice + y * shape.row + x;
            return Ok(Side {
                at: At::Address {
                    address,
                    device_only: true,
                },
                row: shape.row,
                slice,
            });
        }
        let (base, device_only) = match kind {
            HOST => (host, false),
            DEVICE => (device, true),
            UNIFIED => (device, false),
            _ => return Err(CuError::INVALID_VALUE),
        };
        let row = if pitch == 0 { x + copy.width } else { pitch };
        if base == 0 || row < copy.width {
            return Err(CuError::INVALID_VALUE);
        }
        let rows = if rows == 0 { copy.height } else { rows };
        let slice = row.checked_mul(rows).ok_or(CuError::INVALID_VALUE)?;
        let offset = (|| {
            z.checked_mul(slice)?
                .checked_add(y.checked_mul(row)?)?
                .checked_add(x)
        })();
        let address = offset
            .and_then(|offset| base.checked_add(offset))
            .ok_or(CuError::INVALID_VALUE)?;
        Ok(Side {
            at: At::Address {
                address,
                device_only,
            },
            row,
            slice,
        })
    }

    /// Checks it, and whether all memory is there.
    pub fn prepare(self) -> Res<Option<Copy>> {
        if self.width == 0 || self.height == 0 || self.depth == 0 {
            return Ok(None);
        }
        let from = self.side(End {
            kind: self.src_type,
            host: self.src_host,
            device: self.src_device,
            array: self.src_array,
            at: [self.src_x, self.src_y, self.src_z, self.src_level],
            pitch: self.src_pitch,
            rows: self.src_height,
        })?;
        let to = self.side(End {
            kind: self.dst_type,
            host: self.dst_host,
            device: self.dst_device,
            array: self.dst_array,
            at: [self.dst_x, self.dst_y, self.dst_z, self.dst_level],
            pitch: self.dst_pitch,
            rows: self.dst_height,
        })?;
        let copy = Copy {
            from,
            to,
            width: self.width,
            height: self.height,
            depth: self.depth,
            asked: self,
        };
        copy.check()?;
        Ok(Some(copy))
    }
}

impl Memcpy2d {
    fn wide(self) -> Memcpy3d {
        Memcpy3d {
            src_x: self.src_x,
            src_y: self.src_y,
            src_type: self.src_type,
            src_host: self.src_host,
            src_device: self.src_device,
            src_array: self.src_array,
            src_pitch: self.src_pitch,
            dst_x: self.dst_x,
            dst_y: self.dst_y,
            dst_type: self.dst_type,
            dst_host: self.dst_host,
            dst_device: self.dst_device,
            dst_array: self.dst_array,
            dst_pitch: self.dst_pitch,
            width: self.width,
            height: self.height,
            depth: 1,
            ..Memcpy3d::default()
        }
    }
}

impl Side {
    /// Whether the program's ordinary memory is on this side.
    fn pageable(&self) -> bool {
        match &self.at {
            At::Address {
                address,
                device_only,
            } => !device_only && space::find(*address).is_none(),
            At::Bytes(_) => false,
        }
    }

    fn row(&self, y: u64, z: u64, width: u64) -> Res<Vec<(*mut u8, usize)>> {
        let offset = z * self.slice + y * self.row;
        match &self.at {
            At::Address {
                address,
                device_only,
            } => space::spans(address + offset, width, *device_only),
            At::Bytes(bytes) => {
                let start = usize::try_from(offset).map_err(|_| CuError::INVALID_VALUE)?;
                let row = bytes
                    .get(start..start + width as usize)
                    .ok_or(CuError::INVALID_VALUE)?;
                Ok(vec![(row.as_ptr().cast_mut(), row.len())])
            }
        }
    }
}

impl Copy {
    fn check(&self) -> Res {
        // The first and the last row tell; what lies between is looked at when it is copied.
        for (y, z) in [(0, 0), (self.height - 1, self.depth - 1)] {
            for side in [&self.from, &self.to] {
                if !side.pageable() {
                    side.row(y, z, self.width)?;
                }
            }
        }
        Ok(())
    }

    /// Takes the bytes now, when they come from ordinary memory, which the program may change after the call.
    fn staged(mut self) -> Self {
        if self.from.pageable() {
            let len =
                (self.depth - 1) * self.from.slice + (self.height - 1) * self.from.row + self.width;
            let At::Address { address, .. } = self.from.at else {
                return self;
            };
            let mut bytes = vec![0; len as usize];
            for z in 0..self.depth {
                for y in 0..self.height {
                    let offset = z * self.from.slice + y * self.from.row;
                    let to = bytes.as_mut_ptr().wrapping_add(offset as usize);
                    // SAFETY: the program says that the rows are its memory; the buffer spans all of them.
                    unsafe {
                        std::ptr::copy_nonoverlapping(
                            (address + offset) as *const u8,
                            to,
                            self.width as usize,
                        )
                    };
                }
            }
            self.from.at = At::Bytes(bytes.into());
        }
        self
    }

    /// Copies.
    pub fn run(&self) -> Res {
        let _in_use = InUse::begin();
        // Rows without gaps are one row.
        let solid = |side: &Side| {
            side.row == self.width && (self.depth == 1 || side.slice == self.width * self.height)
        };
        let (width, height, depth) = if solid(&self.from) && solid(&self.to) {
            (self.width * self.height * self.depth, 1, 1)
        } else {
            (self.width, self.height, self.depth)
        };
        for z in 0..depth {
            for y in 0..height {
                let from = self
                    .from
                    .row(y, z, width)
                    .map_err(|_| CuError::ILLEGAL_ADDRESS)?;
                let to = self
                    .to
                    .row(y, z, width)
                    .map_err(|_| CuError::ILLEGAL_ADDRESS)?;
                copy_spans(&from, &to);
            }
        }
        Ok(())
    }
}

fn copy_spans(from: &[(*mut u8, usize)], to: &[(*mut u8, usize)]) {
    let mut from = from.iter().copied();
    let mut to = to.iter().copied();
    let (mut source, mut target) = (from.next(), to.next());
    while let (Some((read, read_len)), Some((write, write_len))) = (source, target) {
        let len = read_len.min(write_len);
        // SAFETY: mapped memory, or the program's own by its word; bytes that are freed meanwhile stay while the
        // caller's `InUse` lives. They may overlap.
        unsafe { std::ptr::copy(read, write, len) };
        source = if len < read_len {
            Some((read.wrapping_add(len), read_len - len))
        } else {
            from.next()
        };
        target = if len < write_len {
            Some((write.wrapping_add(len), write_len - len))
        } else {
            to.next()
        };
    }
}

impl Fill {
    /// Checks it.
    pub fn check(&self) -> Res {
        let element = u64::from(self.element);
        if !matches!(element, 1 | 2 | 4) || !self.address.is_multiple_of(element) {
            return Err(CuError::INVALID_VALUE);
        }
        if self.height > 1
            && (self.pitch < self.width * element || !self.pitch.is_multiple_of(element))
        {
            return Err(CuError::INVALID_VALUE);
        }
        if self.width > 0 && self.height > 0 {
            space::spans(self.address, self.width * element, true)?;
            space::spans(
                self.address + (self.height - 1) * self.pitch,
                self.width * element,
                true,
            )?;
        }
        Ok(())
    }

    /// Fills.
    pub fn run(&self) -> Res {
        let _in_use = InUse::begin();
        let element = self.element as usize;
        let pattern = self.value.to_le_bytes();
        for y in 0..self.height {
            let mut phase = 0;
            let row = space::spans(
                self.address + y * self.pitch,
                self.width * element as u64,
                true,
            );
            for (at, len) in row.map_err(|_| CuError::ILLEGAL_ADDRESS)? {
                if element == 1 {
                    // SAFETY: as in `copy_spans`.
                    unsafe { at.write_bytes(pattern[0], len) };
                    continue;
                }
                let whole: Vec<u8> = (0..len.min(4096))
                    .map(|i| pattern[(phase + i) % element])
                    .collect();
                let mut done = 0;
                while done < len {
                    let step = whole.len().min(len - done);
                    // SAFETY: as in `copy_spans`.
                    unsafe {
                        at.wrapping_add(done)
                            .copy_from_nonoverlapping(whole.as_ptr(), step)
                    };
                    done += step;
                }
                phase += len;
            }
        }
        Ok(())
    }
}

/// A call that returns when the bytes are there. Copies inside the device do not wait.
fn now(call: &Call, copy: Memcpy3d) -> Res {
    capture::refuse_unsafe()?;
    let stream = stream::resolve(0, call.per_thread)?;
    let Some(copy) = copy.prepare()? else {
        return Ok(());
    };
    let inside = [copy.asked.src_type, copy.asked.dst_type]
        .iter()
        .all(|kind| matches!(*kind, DEVICE | ARRAY));
    let work = Work::Copy(Arc::new(copy));
    if inside {
        stream::submit(&stream, work).map(drop)
    } else {
        stream::submit_and_wait(&stream, work)
    }
}

/// A call that only queues, except that copies with ordinary memory are done with it when they return.
fn later(call: &Call, copy: Memcpy3d, on: Handle) -> Res {
    let stream = stream::resolve(on, call.per_thread)?;
    let Some(copy) = copy.prepare()? else {
        return Ok(());
    };
    let waits = copy.to.pageable();
    let copy = copy.staged();
    let work = Work::Copy(Arc::new(copy));
    if waits {
        stream::submit_and_wait(&stream, work)
    } else {
        stream::submit(&stream, work).map(drop)
    }
}

fn fill(call: &Call, fill: Fill, on: Handle, asynchronous: bool) -> Res {
    if !asynchronous {
        capture::refuse_unsafe()?;
    }
    let stream = stream::resolve(on, call.per_thread)?;
    fill.check()?;
    if fill.width == 0 || fill.height == 0 {
        return Ok(());
    }
    let pinned = space::find(fill.address).is_some_and(|found| found.kind.on_host());
    if !asynchronous && pinned {
        return stream::submit_and_wait(&stream, Work::Fill(fill));
    }
    stream::submit(&stream, Work::Fill(fill)).map(drop)
}

fn row(address: u64, value: u32, element: u32, count: usize) -> Fill {
    Fill {
        address,
        pitch: 0,
        value,
        element,
        width: count as u64,
        height: 1,
    }
}

fn rows(address: u64, pitch: usize, value: u32, element: u32, width: usize, height: usize) -> Fill {
    Fill {
        address,
        pitch: pitch as u64,
        value,
        element,
        width: width as u64,
        height: height as u64,
    }
}

type L = Memcpy3d;

api! {
    fn cuMemcpy/cuMemcpy_ptds(to: u64, from: u64, len: usize) |call| {
        now(call, L::linear(to, UNIFIED, from, UNIFIED, len))
    }

    fn cuMemcpyAsync/cuMemcpyAsync_ptsz(to: u64, from: u64, len: usize, stream: Handle) |call| {
        later(call, L::linear(to, UNIFIED, from, UNIFIED, len), stream)
    }

    fn cuMemcpyPeer/cuMemcpyPeer_ptds(to: u64, to_context: Handle, from: u64, from_context: Handle, len: usize) |call| {
        context::get(to_context)?;
        context::get(from_context)?;
        now(call, L::linear(to, DEVICE, from, DEVICE, len))
    }

    fn cuMemcpyPeerAsync/cuMemcpyPeerAsync_ptsz(to: u64, to_context: Handle, from: u64, from_context: Handle, len: usize, stream: Handle) |call| {
        context::get(to_context)?;
        context::get(from_context)?;
        later(call, L::linear(to, DEVICE, from, DEVICE, len), stream)
    }

    fn cuMemcpyHtoD_v2/cuMemcpyHtoD_v2_ptds(to: u64, from: u64, len: usize) |call| {
        now(call, L::linear(to, DEVICE, from, HOST, len))
    }

    fn cuMemcpyDtoH_v2/cuMemcpyDtoH_v2_ptds(to: u64, from: u64, len: usize) |call| {
        now(call, L::linear(to, HOST, from, DEVICE, len))
    }

    fn cuMemcpyDtoD_v2/cuMemcpyDtoD_v2_ptds(to: u64, from: u64, len: usize) |call| {
        now(call, L::linear(to, DEVICE, from, DEVICE, len))
    }

    fn cuMemcpyHtoDAsync_v2/cuMemcpyHtoDAsync_v2_ptsz(to: u64, from: u64, len: usize, stream: Handle) |call| {
        later(call, L::linear(to, DEVICE, from, HOST, len), stream)
    }

    fn cuMemcpyDtoHAsync_v2/cuMemcpyDtoHAsync_v2_ptsz(to: u64, from: u64, len: usize, stream: Handle) |call| {
        later(call, L::linear(to, HOST, from, DEVICE, len), stream)
    }

    fn cuMemcpyDtoDAsync_v2/cuMemcpyDtoDAsync_v2_ptsz(to: u64, from: u64, len: usize, stream: Handle) |call| {
        later(call, L::linear(to, DEVICE, from, DEVICE, len), stream)
    }

    fn cuMemcpyDtoA_v2/cuMemcpyDtoA_v2_ptds(array: Handle, offset: usize, from: u64, len: usize) |call| {
        now(call, L::linear(0, DEVICE, from, DEVICE, len).into_array(array, offset))
    }

    fn cuMemcpyAtoD_v2/cuMemcpyAtoD_v2_ptds(to: u64, array: Handle, offset: usize, len: usize) |call| {
        now(call, L::linear(to, DEVICE, 0, DEVICE, len).out_of_array(array, offset))
    }

    fn cuMemcpyHtoA_v2/cuMemcpyHtoA_v2_ptds(array: Handle, offset: usize, from: u64, len: usize) |call| {
        now(call, L::linear(0, DEVICE, from, HOST, len).into_array(array, offset))
    }

    fn cuMemcpyAtoH_v2/cuMemcpyAtoH_v2_ptds(to: u64, array: Handle, offset: usize, len: usize) |call| {
        now(call, L::linear(to, HOST, 0, DEVICE, len).out_of_array(array, offset))
    }

    fn cuMemcpyAtoA_v2/cuMemcpyAtoA_v2_ptds(to: Handle, to_offset: usize, from: Handle, from_offset: usize, len: usize) |call| {
        now(call, L::linear(0, DEVICE, 0, DEVICE, len).into_array(to, to_offset).out_of_array(from, from_offset))
    }

    fn cuMemcpyHtoAAsync_v2/cuMemcpyHtoAAsync_v2_ptsz(array: Handle, offset: usize, from: u64, len: usize, stream: Handle) |call| {
        later(call, L::linear(0, DEVICE, from, HOST, len).into_array(array, offset), stream)
    }

    fn cuMemcpyAtoHAsync_v2/cuMemcpyAtoHAsync_v2_ptsz(to: u64, array: Handle, offset: usize, len: usize, stream: Handle) |call| {
        later(call, L::linear(to, HOST, 0, DEVICE, len).out_of_array(array, offset), stream)
    }

    fn cuMemcpy2D_v2/cuMemcpy2D_v2_ptds(copy: In<Memcpy2d>) |call| {
        now(call, copy.get()?.wide())
    }

    fn cuMemcpy2DUnaligned_v2/cuMemcpy2DUnaligned_v2_ptds(copy: In<Memcpy2d>) |call| {
        now(call, copy.get()?.wide())
    }

    fn cuMemcpy2DAsync_v2/cuMemcpy2DAsync_v2_ptsz(copy: In<Memcpy2d>, stream: Handle) |call| {
        later(call, copy.get()?.wide(), stream)
    }

    fn cuMemcpy3D_v2/cuMemcpy3D_v2_ptds(copy: In<Memcpy3d>) |call| {
        now(call, copy.get()?)
    }

    fn cuMemcpy3DAsync_v2/cuMemcpy3DAsync_v2_ptsz(copy: In<Memcpy3d>, stream: Handle) |call| {
        later(call, copy.get()?, stream)
    }

    fn cuMemcpy3DPeer/cuMemcpy3DPeer_ptds(copy: In<Memcpy3d>) |call| {
        now(call, copy.get()?)
    }

    fn cuMemcpy3DPeerAsync/cuMemcpy3DPeerAsync_ptsz(copy: In<Memcpy3d>, stream: Handle) |call| {
        later(call, copy.get()?, stream)
    }

    fn cuMemcpyBatchAsync_v2/cuMemcpyBatchAsync_v2_ptsz(to: In<u64>, from: In<u64>, lens: In<usize>, count: usize, _attributes: In<u64>, _indices: In<usize>, _attribute_count: usize, stream: Handle) |call| {
        let (to, from, lens) = (to.list(count)?, from.list(count)?, lens.list(count)?);
        for ((to, from), len) in to.into_iter().zip(from).zip(lens) {
            later(call, L::linear(to, UNIFIED, from, UNIFIED, len), stream)?;
        }
        Ok(())
    }

    fn cuMemsetD8_v2/cuMemsetD8_v2_ptds(at: u64, value: u8, count: usize) |call| {
        fill(call, row(at, value.into(), 1, count), 0, false)
    }

    fn cuMemsetD16_v2/cuMemsetD16_v2_ptds(at: u64, value: u16, count: usize) |call| {
        fill(call, row(at, value.into(), 2, count), 0, false)
    }

    fn cuMemsetD32_v2/cuMemsetD32_v2_ptds(at: u64, value: u32, count: usize) |call| {
        fill(call, row(at, value, 4, count), 0, false)
    }

    fn cuMemsetD2D8_v2/cuMemsetD2D8_v2_ptds(at: u64, pitch: usize, value: u8, width: usize, height: usize) |call| {
        fill(call, rows(at, pitch, value.into(), 1, width, height), 0, false)
    }

    fn cuMemsetD2D16_v2/cuMemsetD2D16_v2_ptds(at: u64, pitch: usize, value: u16, width: usize, height: usize) |call| {
        fill(call, rows(at, pitch, value.into(), 2, width, height), 0, false)
    }

    fn cuMemsetD2D32_v2/cuMemsetD2D32_v2_ptds(at: u64, pitch: usize, value: u32, width: usize, height: usize) |call| {
        fill(call, rows(at, pitch, value, 4, width, height), 0, false)
    }

    fn cuMemsetD8Async/cuMemsetD8Async_ptsz(at: u64, value: u8, count: usize, stream: Handle) |call| {
        fill(call, row(at, value.into(), 1, count), stream, true)
    }

    fn cuMemsetD16Async/cuMemsetD16Async_ptsz(at: u64, value: u16, count: usize, stream: Handle) |call| {
        fill(call, row(at, value.into(), 2, count), stream, true)
    }

    fn cuMemsetD32Async/cuMemsetD32Async_ptsz(at: u64, value: u32, count: usize, stream: Handle) |call| {
        fill(call, row(at, value, 4, count), stream, true)
    }

    fn cuMemsetD2D8Async/cuMemsetD2D8Async_ptsz(at: u64, pitch: usize, value: u8, width: usize, height: usize, stream: Handle) |call| {
        fill(call, rows(at, pitch, value.into(), 1, width, height), stream, true)
    }

    fn cuMemsetD2D16Async/cuMemsetD2D16Async_ptsz(at: u64, pitch: usize, value: u16, width: usize, height: usize, stream: Handle) |call| {
        fill(call, rows(at, pitch, value.into(), 2, width, height), stream, true)
    }

    fn cuMemsetD2D32Async/cuMemsetD2D32Async_ptsz(at: u64, pitch: usize, value: u32, width: usize, height: usize, stream: Handle) |call| {
        fill(call, rows(at, pitch, value, 4, width, height), stream, true)
    }
}
