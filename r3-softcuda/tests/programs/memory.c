/* Memory of each family, as the host and as kernels see it; copies and fills. */
#include "driver.h"

static Handle module;

static void add_one(CUdeviceptr memory, int n) {
    CHECK(cuLaunchKernel(kernel(module, "add_one"), 1, 1, 1, 32, 1, 1, 0, NULL, PARAMS(&memory, &n), NULL));
    CHECK(cuCtxSynchronize());
}

static void families(void) {
    CUdeviceptr device, managed, pool, base;
    size_t size;
    unsigned *pinned, *registered = aligned_alloc(4096, 4096);
    CHECK(cuMemAlloc_v2(&device, 100));
    CHECK(cuMemAllocManaged(&managed, 8192, 1));
    CHECK(cuMemHostAlloc((void **)&pinned, 64, 0));
    memset(registered, 0, 4096);
    CHECK(cuMemHostRegister_v2(registered, 4096, 0));
    CHECK(cuMemAllocAsync(&pool, 64, NULL));
    CHECK(cuMemsetD32_v2(device, 3, 25));
    CHECK(cuMemsetD32_v2(pool, 4, 16));
    for (int i = 0; i < 16; i++) ((unsigned *)managed)[i] = 5, pinned[i] = 6;
    add_one(device, 25);
    add_one(managed, 16);
    add_one((CUdeviceptr)pinned, 16);
    add_one((CUdeviceptr)registered, 16);
    add_one(pool, 16);
    REQUIRE(word_at(device + 96) == 4 && word_at(pool) == 5);
    REQUIRE(*(unsigned *)managed == 6 && pinned[15] == 7 && registered[0] == 1);
    CHECK(cuMemGetAddressRange_v2(&base, &size, device + 50));
    REQUIRE(base == device && size == 100);
    int type;
    CHECK(cuPointerGetAttribute(&type, 2, device));
    REQUIRE(type == 2);
    CHECK(cuPointerGetAttribute(&type, 2, (CUdeviceptr)pinned));
    REQUIRE(type == 1);
    /* A copy past the end, memory of another family, memory that was freed, host memory as device memory. */
    EXPECT(cuMemcpyHtoD_v2(device + 96, pinned, 8), 1);
    EXPECT(cuMemFree_v2((CUdeviceptr)pinned), 1);
    EXPECT(cuMemFree_v2(device + 4), 1);
    EXPECT(cuMemcpyHtoD_v2((CUdeviceptr)&type, pinned, 4), 1);
    CHECK(cuMemFree_v2(device));
    EXPECT(cuMemFree_v2(device), 1);
    CHECK(cuMemFreeAsync(pool, NULL));
    CHECK(cuMemHostUnregister(registered));
    EXPECT(cuMemHostUnregister(registered), 713);
    CHECK(cuMemFreeHost(pinned));
    size_t left, total;
    CHECK(cuMemGetInfo_v2(&left, &total));
    EXPECT(cuMemAlloc_v2(&device, total + 1), 2);
    EXPECT(cuMemAlloc_v2(&device, 0), 1);
}

static void mappings(void) {
    const size_t size = 2 << 20;
    CUdeviceptr hint = 0x153940000000, address, again;
    AllocationProp prop = {.kind = 1, .location = {1, 0}};
    AccessDesc access = {{1, 0}, 3};
    unsigned long long physical;
    CHECK(cuMemAddressReserve(&address, 2 * size, 0, hint, 0));
    REQUIRE(address == hint);
    CHECK(cuMemAddressReserve(&again, size, 0, hint, 0));
    REQUIRE(again != hint);
    CHECK(cuMemCreate(&physical, size, &prop, 0));
    CHECK(cuMemMap(address, size, 0, physical, 0));
    EXPECT(cuMemsetD32_v2(address, 1, 4), 1); /* No access yet. */
    CHECK(cuMemSetAccess(address, size, &access, 1));
    CHECK(cuMemsetD32_v2(address, 1, 4));
    CHECK(cuMemMap(address + size, size, 0, physical, 0));
    CHECK(cuMemSetAccess(address + size, size, &access, 1));
    add_one(address + size, 4); /* The same memory, at another address. */
    REQUIRE(word_at(address) == 2);
    CHECK(cuMemRelease(physical)); /* The mappings keep it. */
    REQUIRE(word_at(address + size) == 2);
    EXPECT(cuMemAddressFree(address, 2 * size), 1);
    CHECK(cuMemUnmap(address, 2 * size));
    CHECK(cuMemAddressFree(address, 2 * size));
}

/* Advice is kept. */
static void advice(void) {
    CUdeviceptr memory;
    int value, devices[2];
    Location device = {1, 0}, host = {2, 0};
    CHECK(cuMemAllocManaged(&memory, 4096, 1));
    CHECK(cuMemRangeGetAttribute(&value, 4, 2, memory, 4096));
    REQUIRE(value == -2);
    CHECK(cuMemAdvise_v2(memory, 4096, 1, device));
    CHECK(cuMemAdvise_v2(memory, 4096, 3, host));
    CHECK(cuMemAdvise_v2(memory, 4096, 5, device));
    CHECK(cuMemPrefetchAsync_v2(memory, 4096, device, 0, NULL));
    CHECK(cuMemRangeGetAttribute(&value, 4, 1, memory, 4096));
    REQUIRE(value == 1);
    CHECK(cuMemRangeGetAttribute(&value, 4, 2, memory, 4096));
    REQUIRE(value == -1);
    CHECK(cuMemRangeGetAttribute(devices, 8, 3, memory, 4096));
    REQUIRE(devices[0] == 0 && devices[1] == -2);
    CHECK(cuMemRangeGetAttribute(&value, 4, 4, memory, 4096));
    REQUIRE(value == 0);
    EXPECT(cuMemAdvise_v2(memory, 4097, 1, device), 1);
    EXPECT(cuMemAdvise_v2(memory, 4096, 3, (Location){1, 9}), 101);
    CHECK(cuMemFree_v2(memory));
    EXPECT(cuMemAdvise_v2(memory, 4096, 1, device), 1);
}

static void copies(void) {
    CUdeviceptr memory;
    unsigned char bytes[64], back[64];
    CHECK(cuMemAlloc_v2(&memory, 4096));
    CHECK(cuMemsetD8_v2(memory, 1, 4096));
    CHECK(cuMemsetD16_v2(memory + 2, 0x0203, 3));
    CHECK(cuMemsetD2D32_v2(memory + 16, 16, 0x04050607, 1, 2));
    CHECK(cuMemcpyDtoH_v2(bytes, memory, 40));
    for (int i = 0; i < 40; i++) printf("%d", bytes[i]);
    printf("\n");
    EXPECT(cuMemsetD16_v2(memory + 1, 0, 1), 1);
    /* A window of a host matrix of 8 x 8 into device memory of pitch 512, then by an array, and back. */
    for (int i = 0; i < 64; i++) bytes[i] = i;
    Handle array;
    ArrayDescriptor descriptor = {4, 4, 1, 1};
    CHECK(cuArrayCreate_v2(&array, &descriptor));
    Memcpy2D in = {.src_type = 1, .src_host = bytes, .src_x = 2, .src_y = 1, .src_pitch = 8, .dst_type = 2, .dst_device = memory,
                   .dst_pitch = 512, .width = 3, .height = 4};
    Memcpy2D over = {.src_type = 2, .src_device = memory, .src_pitch = 512, .dst_type = 3, .dst_array = array, .dst_x = 1, .width = 3, .height = 4};
    Memcpy2D out = {.src_type = 3, .src_array = array, .src_x = 1, .src_y = 1, .dst_type = 1, .dst_host = back, .dst_pitch = 4, .width = 3, .height = 3};
    memset(back, 0, sizeof back);
    CHECK(cuMemcpy2D_v2(&in));
    CHECK(cuMemcpy2D_v2(&over));
    CHECK(cuMemcpy2D_v2(&out));
    for (int i = 0; i < 12; i++) printf("%d ", back[i]);
    printf("\n");
    over.width = 4;
    EXPECT(cuMemcpy2D_v2(&over), 1);
    CHECK(cuArrayDestroy(array));
}

static void textures(void) {
    enum { WIDTH = 4, HEIGHT = 3 };
    float texels[HEIGHT][WIDTH], back[HEIGHT][WIDTH];
    for (int i = 0; i < WIDTH * HEIGHT; i++) texels[i / WIDTH][i % WIDTH] = i * 0.5f;
    Handle array;
    Array3DDescriptor descriptor = {WIDTH, HEIGHT, 0, 0x20, 1, 2};
    CHECK(cuArray3DCreate_v2(&array, &descriptor));
    Memcpy2D in = {.src_type = 1, .src_host = texels, .src_pitch = sizeof *texels, .dst_type = 3, .dst_array = array,
                   .width = sizeof *texels, .height = HEIGHT};
    Memcpy2D out = {.src_type = 3, .src_array = array, .dst_type = 1, .dst_host = back, .dst_pitch = sizeof *back,
                    .width = sizeof *texels, .height = HEIGHT};
    CHECK(cuMemcpy2D_v2(&in));
    unsigned long long texture, surface;
    ResourceDesc resource = {.kind = 0, .array = array};
    TextureDesc description = {.address = {1, 1, 1}};
    CHECK(cuTexObjectCreate(&texture, &resource, &description, NULL));
    CHECK(cuSurfObjectCreate(&surface, &resource));
    CUdeviceptr memory;
    CHECK(cuMemAlloc_v2(&memory, sizeof texels));
    int width = WIDTH, height = HEIGHT;
    CHECK(cuLaunchKernel(kernel(module, "sample"), 1, 1, 1, WIDTH, HEIGHT, 1, 0, NULL, PARAMS(&texture, &memory, &width, &height), NULL));
    CHECK(cuMemcpyDtoH_v2(back, memory, sizeof back));
    REQUIRE(memcmp(back, texels, sizeof back) == 0);
    CHECK(cuLaunchKernel(kernel(module, "draw"), 1, 1, 1, WIDTH, HEIGHT, 1, 0, NULL, PARAMS(&surface, &width), NULL));
    CHECK(cuMemcpy2D_v2(&out));
    REQUIRE(back[2][3] == 23);
    CHECK(cuTexObjectDestroy(texture));
    CHECK(cuSurfObjectDestroy(surface));
    EXPECT(cuTexObjectDestroy(texture), 1);
}

int main(void) {
    start();
    module = load_kernels();
    families();
    mappings();
    advice();
    copies();
    textures();
    return 0;
}
