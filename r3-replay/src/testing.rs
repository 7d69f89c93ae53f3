//! What unit tests share: a device in memory whose kernels are closures, and small archives.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use r3_archive::chunk::{CHUNK_SIZE, ChunkList};
use r3_archive::model::*;
use r3_archive::{Archive, ArchiveWriter, WriterOptions};

use crate::device::{
    AddressRange, Device, DeviceError, DeviceInfo, Effort, Fill, GlobalAddress, JitOption,
    KernelHandle, LaunchConfig, ModuleHandle, Piece, write_one_by_one,
};

/// A launch of nothing.
pub fn empty_launch() -> LaunchRecord {
    LaunchRecord {
        id: LaunchId(1),
        kernel: KernelId(1),
        device: 0,
        entry_point: "cuLaunchKernel".to_owned(),
        grid: [1; 3],
        block: [1; 3],
        dynamic_shared: 0,
        cooperative: false,
        attributes: Vec::new(),
        params: Vec::new(),
        pointers: Vec::new(),
        function_settings: Vec::new(),
        cache_config: None,
        limits: Vec::new(),
        occurrence: 1,
        sequence: 1,
        thread: 1,
        unix_ns: 0,
        before: Default::default(),
        after: Default::default(),
        notes: Vec::new(),
    }
}

/// What a closure kernel sees.
pub struct Memory(BTreeMap<u64, Vec<u8>>);

impl Memory {
    fn slice(&mut self, address: u64, len: usize) -> Result<&mut [u8], DeviceError> {
        self.0
            .range_mut(..=address)
            .next_back()
            .and_then(|(start, bytes)| {
                let offset = (address - start) as usize;
                bytes.get_mut(offset..offset + len)
            })
            .ok_or_else(|| DeviceError::Call {
                operation: format!("access to {len} bytes at {address:#x}"),
                code: 700,
                name: "CUDA_ERROR_ILLEGAL_ADDRESS".to_owned(),
                text: "an illegal memory access was encountered".to_owned(),
            })
    }

    pub fn load(&mut self, address: u64) -> Result<u64, DeviceError> {
        let mut word = [0; 8];
        word.copy_from_slice(self.slice(address, 8)?);
        Ok(u64::from_le_bytes(word))
    }

    pub fn store(&mut self, address: u64, value: u64) -> Result<(), DeviceError> {
        self.slice(address, 8)?
            .copy_from_slice(&value.to_le_bytes());
        Ok(())
    }
}

type Kernel = Rc<dyn Fn(&mut Memory, &[u8]) -> Result<(), DeviceError>>;

/// The device.
pub struct TestDevice {
    pub info: DeviceInfo,
    pub memory: Memory,
    pub reserved: Vec<AddressRange>,
    pub host_reserved: Vec<AddressRange>,
    /// Ranges that cannot be reserved.
    pub taken: Vec<AddressRange>,
    /// Whether host memory can be mapped.
    pub host: bool,
    kernels: HashMap<String, Kernel>,
    handles: Vec<String>,
    globals: HashMap<String, GlobalAddress>,
    /// Every operation on the address space, for tests about order.
    pub log: Vec<String>,
    pub settings: Vec<(i32, i32)>,
    /// Lengths of the lists that were written piece by piece.
    pub pieces: Vec<usize>,
    next: u64,
}

impl TestDevice {
    pub fn new() -> Self {
        Self {
            info: DeviceInfo {
                name: "test device".to_owned(),
                compute_capability: (9, 0),
                total_memory: 1 << 30,
                ..DeviceInfo::default()
            },
            memory: Memory(BTreeMap::new()),
            reserved: Vec::new(),
            host_reserved: Vec::new(),
            taken: Vec::new(),
            host: true,
            kernels: HashMap::new(),
            handles: Vec::new(),
            globals: HashMap::new(),
            log: Vec::new(),
            settings: Vec::new(),
            pieces: Vec::new(),
            next: 0x10_0000_0000,
        }
    }

    pub fn with_kernel(
        mut self,
        name: &str,
        kernel: impl Fn(&mut Memory, &[u8]) -> Result<(), DeviceError> + 'static,
    ) -> Self {
        self.kernels.insert(name.to_owned(), Rc::new(kernel));
        self
    }

    /// A variable of the code at an address of the device's choice.
    pub fn with_global(mut self, name: &str, address: u64, len: u64) -> Self {
        self.globals
            .insert(name.to_owned(), GlobalAddress { address, len });
        self.memory.0.insert(address, vec![0; len as usize]);
        self
    }
}

impl Device for TestDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn free_memory(&mut self) -> Result<u64, DeviceError> {
        Ok(self.info.total_memory)
    }

    fn reservation_granularity(&self) -> u64 {
        32 << 20
    }

    fn mapping_granularity(&self) -> u64 {
        2 << 20
    }

    fn host_granularity(&self) -> u64 {
        4096
    }

    fn reserve(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        self.log.push(format!("reserve {range}"));
        if self
            .taken
            .iter()
            .chain(&self.host_reserved)
            .chain(&self.reserved)
            .any(|taken| taken.overlaps(range))
        {
            return Err(DeviceError::AddressTaken {
                wanted: range,
                got: None,
            });
        }
        self.reserved.push(range);
        Ok(())
    }

    fn reserve_anywhere(&mut self, len: u64) -> Result<u64, DeviceError> {
        let start = self.next;
        self.next += len;
        self.reserved.extend(AddressRange::new(start, len));
        Ok(start)
    }

    fn release(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        self.log.push(format!("release {range}"));
        self.reserved.retain(|reserved| *reserved != range);
        Ok(())
    }

    fn map(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        self.log.push(format!("map {range}"));
        assert!(
            self.reserved.iter().any(|r| r.covers(range)),
            "{range} is not reserved"
        );
        // Not zeros: what is not restored must be noticed.
        assert!(
            self.memory
                .0
                .insert(range.start(), vec![0xAA; range.len() as usize])
                .is_none()
        );
        Ok(())
    }

    fn unmap(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        self.log.push(format!("unmap {range}"));
        assert_eq!(
            self.memory.0.remove(&range.start()).unwrap().len() as u64,
            range.len()
        );
        Ok(())
    }

    fn reserve_host(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        assert!(!self.reserved.iter().any(|r| r.overlaps(range)));
        if self.taken.iter().any(|taken| taken.overlaps(range)) {
            return Err(DeviceError::AddressTaken {
                wanted: range,
                got: None,
            });
        }
        self.host_reserved.push(range);
        Ok(())
    }

    fn release_host(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        self.host_reserved.retain(|reserved| *reserved != range);
        Ok(())
    }

    fn map_host(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        self.log.push(format!("map host {range}"));
        assert!(
            self.host_reserved.iter().any(|r| r.covers(range)),
            "{range} is not reserved"
        );
        if !self.host {
            return Err(DeviceError::Unsupported("no host memory here".to_owned()));
        }
        assert!(!self.reserved.iter().any(|r| r.overlaps(range)));
        self.memory
            .0
            .insert(range.start(), vec![0xAA; range.len() as usize]);
        Ok(())
    }

    fn unmap_host(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        self.log.push(format!("unmap host {range}"));
        self.memory.0.remove(&range.start());
        Ok(())
    }

    fn allocate(&mut self, len: u64) -> Result<u64, DeviceError> {
        let start = self.next;
        self.next += len.next_multiple_of(256);
        self.memory.0.insert(start, vec![0xAA; len as usize]);
        Ok(start)
    }

    fn free(&mut self, address: u64) -> Result<(), DeviceError> {
        self.memory
            .0
            .remove(&address)
            .map(|_| ())
            .ok_or_else(|| DeviceError::Unsupported("free".into()))
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.memory
            .slice(address, bytes.len())?
            .copy_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, address: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        out.copy_from_slice(self.memory.slice(address, out.len())?);
        Ok(())
    }

    fn copy(&mut self, from: u64, to: u64, len: u64) -> Result<(), DeviceError> {
        let bytes = self.memory.slice(from, len as usize)?.to_vec();
        self.write(to, &bytes)
    }

    fn zero(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        self.memory
            .slice(range.start(), range.len() as usize)?
            .fill(0);
        Ok(())
    }

    fn write_pieces(&mut self, pieces: &[Piece], fill: &Fill<'_>) -> Result<(), DeviceError> {
        self.pieces.push(pieces.len());
        write_one_by_one(self, pieces, fill)
    }

    fn load(
        &mut self,
        _: &[u8],
        _: &[JitOption],
        _: &[(&str, AddressRange)],
    ) -> Result<ModuleHandle, DeviceError> {
        Ok(ModuleHandle(1))
    }

    fn unload(&mut self, _: ModuleHandle) -> Result<(), DeviceError> {
        Ok(())
    }

    fn kernel(&mut self, _: ModuleHandle, name: &str) -> Result<Option<KernelHandle>, DeviceError> {
        Ok(self.kernels.contains_key(name).then(|| {
            self.handles.push(name.to_owned());
            KernelHandle(self.handles.len() as u64 - 1)
        }))
    }

    fn global(
        &mut self,
        _: ModuleHandle,
        name: &str,
    ) -> Result<Option<GlobalAddress>, DeviceError> {
        Ok(self.globals.get(name).copied())
    }

    fn kernel_attribute(&mut self, _: KernelHandle, attribute: i32) -> Result<i32, DeviceError> {
        Ok(self
            .settings
            .iter()
            .rev()
            .find(|(a, _)| *a == attribute)
            .map_or(0, |(_, v)| *v))
    }

    fn set_kernel_attribute(
        &mut self,
        _: KernelHandle,
        attribute: i32,
        value: i32,
    ) -> Result<(), DeviceError> {
        self.settings.push((attribute, value));
        Ok(())
    }

    fn set_cache_config(&mut self, _: KernelHandle, _: u32) -> Result<(), DeviceError> {
        Ok(())
    }

    fn limit(&mut self, _: u32) -> Result<u64, DeviceError> {
        Ok(0)
    }

    fn set_limit(&mut self, _: u32, _: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    fn launch(
        &mut self,
        kernel: KernelHandle,
        config: &LaunchConfig<'_>,
    ) -> Result<(), DeviceError> {
        let kernel = Rc::clone(&self.kernels[&self.handles[kernel.0 as usize]]);
        kernel(&mut self.memory, config.params)
    }

    fn launch_timed(
        &mut self,
        kernel: KernelHandle,
        config: &LaunchConfig<'_>,
    ) -> Result<Effort, DeviceError> {
        self.launch(kernel, config)
            .map(|()| Effort::Nanoseconds(1000.0))
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// PTX in which all test kernels are declared, so that code is found for them.
pub const PTX: &str = ".version 6.0\n.target sm_50\n.address_size 64\n\
    .visible .entry kernel(.param .u64 kernel_param_0)\n{\nret;\n}\n";

/// One region of a launch to be written.
pub struct TestRegion {
    pub owner: RegionOwner,
    pub address: u64,
    pub before: Vec<u8>,
    pub after: Vec<u8>,
}

impl TestRegion {
    pub fn memory(allocation: u64, address: u64, before: Vec<u8>, after: Vec<u8>) -> Self {
        Self {
            owner: RegionOwner::Allocation(AllocationId(allocation)),
            address,
            before,
            after,
        }
    }
}

/// Builds archives of one kernel, `kernel`, with one pointer parameter.
pub struct TestArchive {
    pub writer: ArchiveWriter,
    path: tempfile::TempPath,
    launches: u64,
}

impl TestArchive {
    pub fn new() -> Self {
        Self::with_code(PTX.as_bytes(), ImageKind::Ptx)
    }

    /// With other code of `kernel`.
    pub fn with_code(code: &[u8], kind: ImageKind) -> Self {
        let path = tempfile::Builder::new()
            .suffix(".r3")
            .tempfile()
            .unwrap()
            .into_temp_path();
        std::fs::remove_file(&path).unwrap();
        let options = WriterOptions {
            workers: 0,
            ..WriterOptions::default()
        };
        let writer = ArchiveWriter::create(&path, options).unwrap();
        let process = ProcessRecord {
            r3_version: "0.1.0".to_owned(),
            pid: 4711,
            host: "node1".to_owned(),
            exe: "/bin/app".to_owned(),
            argv: vec!["app".to_owned()],
            driver_version: 13000,
            ..ProcessRecord::default()
        };
        writer.append(&process).unwrap();
        let image = writer.put_bytes(code).unwrap();
        let module = ModuleRecord {
            id: ModuleId(1),
            kind,
            image,
            loaded_by: "cuModuleLoadData".to_owned(),
            jit_options: Vec::new(),
            origin: None,
            source: None,
        };
        writer.append(&module).unwrap();
        let kernel = KernelRecord {
            id: KernelId(1),
            module: Some(ModuleId(1)),
            name: "kernel".to_owned(),
            params: vec![ParamLayout { offset: 0, size: 8 }],
            layout: LayoutSource::Ptx,
            attributes: Vec::new(),
        };
        writer.append(&kernel).unwrap();
        Self {
            writer,
            path,
            launches: 0,
        }
    }

    pub fn allocation(&self, id: u64, address: u64, len: u64, kind: AllocationKind) {
        let record = AllocationRecord {
            id: AllocationId(id),
            address,
            len,
            kind,
            device: 0,
        };
        self.writer.append(&record).unwrap();
    }

    /// Appends a launch whose only argument points to the first region.
    pub fn launch(&mut self, regions: &[TestRegion]) -> LaunchId {
        self.launch_with(regions, |_| {})
    }

    pub fn launch_with(
        &mut self,
        regions: &[TestRegion],
        change: impl FnOnce(&mut LaunchRecord),
    ) -> LaunchId {
        self.launches += 1;
        let mut launch = LaunchRecord {
            id: LaunchId(self.launches),
            ..empty_launch()
        };
        for (index, region) in regions.iter().enumerate() {
            let chunks: ChunkList = region
                .before
                .chunks(CHUNK_SIZE)
                .map(|chunk| self.writer.put_chunk(chunk).unwrap())
                .collect();
            launch.before.regions.push(RegionSnapshot {
                owner: region.owner.clone(),
                address: region.address,
                len: region.before.len() as u64,
                chunks,
            });
            let pairs = region
                .before
                .chunks(CHUNK_SIZE)
                .zip(region.after.chunks(CHUNK_SIZE));
            for (chunk, (before, after)) in pairs.enumerate() {
                if before != after {
                    launch.after.changes.push(ChunkChange {
                        region: index as u32,
                        chunk: chunk as u64,
                        data: self.writer.put_chunk(after).unwrap(),
                    });
                }
            }
        }
        if let Some(first) = regions.first() {
            launch.params = first.address.to_le_bytes().to_vec();
            if let RegionOwner::Allocation(allocation) = first.owner {
                launch.pointers = vec![PointerWord {
                    offset: 0,
                    address: first.address,
                    allocation,
                }];
            }
        }
        change(&mut launch);
        self.writer.append(&launch).unwrap();
        launch.id
    }

    pub fn open(self) -> Archive {
        self.writer.finish().unwrap();
        Archive::open(&self.path).unwrap()
    }
}
