/* Device code: modules, libraries, functions, kernels, variables. An image is PTX text, alone or in
 * a fat binary; what counts in it are the entries with their parameters and the variables. */
#define _GNU_SOURCE
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "standin.h"

struct variable {
    char *name;
    size_t bytes, count;
    unsigned width;
    uint64_t *values;  /* `count` initial values, or NULL. */
    char **addresses;  /* For each value: the variable whose address it is, or NULL. */
    CUdeviceptr address;
};

struct image {
    struct code *codes;
    size_t code_count;
    struct variable *variables;
    size_t variable_count;
};

struct CUmod_st {
    enum tag tag;
    CUcontext context;
    CUlibrary library;
    struct image image;
    struct CUfunc_st *functions;
    CUmodule next; /* Of all that were ever loaded. */
};

struct CUkern_st { enum tag tag; CUlibrary library; size_t index; int attributes[FUNCTION_ATTRIBUTES]; bool set[FUNCTION_ATTRIBUTES]; };

struct CUlib_st {
    enum tag tag;
    char *text;
    struct image image;
    struct CUkern_st *kernels;
    CUmodule modules[16];
    size_t module_count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- From what the program gave to PTX text ---- */

static char *copy_text(const char *text, size_t length) {
    char *copy = malloc(length + 1);
    if (!copy) misuse("out of host memory");
    memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

static char *ptx_of_container(const unsigned char *at) {
    uint16_t header_bytes;
    uint64_t length;
    memcpy(&header_bytes, at + 6, 2);
    memcpy(&length, at + 8, 8);
    const unsigned char *end = at + header_bytes + length;
    for (at += header_bytes; at + 64 <= end;) {
        uint16_t kind;
        uint32_t header, compressed;
        uint64_t payload;
        memcpy(&kind, at, 2);
        memcpy(&header, at + 4, 4);
        memcpy(&payload, at + 8, 8);
        memcpy(&compressed, at + 16, 4);
        if (kind == 1 && compressed == 0) return copy_text((const char *)at + header, strnlen((const char *)at + header, payload));
        at += header + payload;
    }
    return NULL;
}

static CUresult ptx_of(const void *image, char **text) {
    *text = NULL;
    if (!image) return CUDA_ERROR_INVALID_VALUE;
    if (strncmp(image, "\x7f" "ELF", 4) == 0) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (strncmp(image, "\xb1\x43\x62\x46", 4) == 0) {
        const void *data;
        memcpy(&data, (const char *)image + 8, sizeof data);
        *text = ptx_of_container(data);
        return *text ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    if (strncmp(image, "\x50\xed\x55\xba", 4) == 0) {
        *text = ptx_of_container(image);
        return *text ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    if (!strstr(image, ".version")) return CUDA_ERROR_INVALID_IMAGE;
    *text = copy_text(image, strlen(image));
    return CUDA_SUCCESS;
}

/* ---- PTX: entries and variables ---- */

static const char *skip_blank(const char *at) {
    for (;;) {
        while (isspace((unsigned char)*at)) at++;
        if (at[0] == '/' && at[1] == '/') at += strcspn(at, "\n");
        else return at;
    }
}

static bool name_char(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$'; }

/* The word at `at`, and what follows it. */
static const char *word(const char *at, char *into, size_t room) {
    at = skip_blank(at);
    size_t length = 0;
    if (*at == '.') into[length++] = *at++;
    while (name_char(*at) && length + 1 < room) into[length++] = *at++;
    into[length] = 0;
    return at;
}

/* Bytes of a type such as .u64; 0 if it is none. */
static unsigned type_width(const char *word) {
    if (word[0] != '.' || !word[1] || !strchr("usfb", word[1])) return 0;
    int bits = atoi(word + 2);
    return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? (unsigned)bits / 8 : 0;
}

/* `[.align N] TYPE [.ptr …] NAME [\[COUNT\]]`, as variables and parameters are declared. */
static const char *declaration(const char *at, char *name, size_t room, unsigned *width, size_t *bytes, unsigned *align) {
    char token[512];
    *width = 0;
    *align = 0;
    name[0] = 0;
    while (!name[0]) {
        at = word(at, token, sizeof token);
        if (!token[0]) return at; /* Not a declaration that we know. */
        if (strcmp(token, ".align") == 0) {
            at = word(at, token, sizeof token);
            if (!*width) *align = (unsigned)atoi(token); /* After the type it belongs to .ptr. */
        } else if (token[0] == '.') {
            if (type_width(token)) *width = type_width(token);
        } else {
            snprintf(name, room, "%s", token);
        }
    }
    size_t count = 1;
    at = skip_blank(at);
    if (*at == '[') {
        count = strtoul(at + 1, NULL, 0);
        at += strcspn(at, "]") + 1;
    }
    *bytes = count * *width;
    if (!*align) *align = *width;
    return at;
}

static void parse_entry(const char *at, struct image *image) {
    char name[512];
    at = word(at, name, sizeof name);
    struct code code = {.name = copy_text(name, strlen(name)), .body = find_body(name)};
    at = skip_blank(at);
    if (*at == '(') {
        for (at = skip_blank(at + 1); *at && *at != ')'; at = skip_blank(at)) {
            char parameter[512], token[16];
            unsigned width, align;
            size_t bytes;
            at = word(at, token, sizeof token); /* .param */
            at = declaration(at, parameter, sizeof parameter, &width, &bytes, &align);
            if (!parameter[0] || code.parameters == MAX_PARAMETERS) break;
            unsigned offset = (code.parameter_bytes + align - 1) / align * align;
            code.offsets[code.parameters] = offset;
            code.sizes[code.parameters++] = (unsigned)bytes;
            code.parameter_bytes = offset + (unsigned)bytes;
            at = skip_blank(at);
            if (*at == ',') at++;
        }
    }
    image->codes = realloc(image->codes, (image->code_count + 1) * sizeof code);
    if (!image->codes) misuse("out of host memory");
    image->codes[image->code_count++] = code;
}

static const char *parse_value(const char *at, uint64_t *value, char **address) {
    at = skip_blank(at);
    if (at[0] == '0' && (at[1] == 'f' || at[1] == 'd')) {
        char *end;
        *value = strtoull(at + 2, &end, 16);
        return end;
    }
    if (isdigit((unsigned char)*at) || *at == '-') {
        char *end;
        *value = *at == '-' ? (uint64_t)strtoll(at, &end, 0) : strtoull(at, &end, 0);
        return end;
    }
    char name[512];
    at = word(at, name, sizeof name);
    if (strcmp(name, "generic") == 0) {
        at = word(skip_blank(at) + 1, name, sizeof name);
        at = skip_blank(at) + 1;
    }
    if (name[0]) *address = copy_text(name, strlen(name));
    return at;
}

static void parse_variable(const char *at, struct image *image) {
    char name[512];
    unsigned width, align;
    size_t bytes;
    at = declaration(at, name, sizeof name, &width, &bytes, &align);
    if (!name[0] || !width || !bytes) return;
    struct variable made = {.name = copy_text(name, strlen(name)), .bytes = bytes, .width = width, .count = bytes / width};
    at = skip_blank(at);
    if (*at == '=') {
        made.values = calloc(made.count, sizeof *made.values);
        made.addresses = calloc(made.count, sizeof *made.addresses);
        if (!made.values || !made.addresses) misuse("out of host memory");
        at = skip_blank(at + 1);
        bool list = *at == '{';
        if (list) at++;
        for (size_t i = 0; i < made.count; i++) {
            at = skip_blank(parse_value(at, &made.values[i], &made.addresses[i]));
            if (!list || *at != ',') break;
            at++;
        }
    }
    image->variables = realloc(image->variables, (image->variable_count + 1) * sizeof made);
    if (!image->variables) misuse("out of host memory");
    image->variables[image->variable_count++] = made;
}

/* The end of a statement: behind its ';', or behind the body of a function. */
static const char *statement_end(const char *at, bool has_body) {
    int depth = 0;
    for (; *at; at++) {
        if (*at == '{') depth++;
        if (*at == '}' && --depth == 0 && has_body) return at + 1;
        if (*at == ';' && depth == 0) return at + 1;
    }
    return at;
}

static struct image parse(const char *text) {
    struct image image = {0};
    for (const char *at = skip_blank(text); *at; at = skip_blank(at)) {
        char token[64];
        const char *start = at;
        const char *rest = word(at, token, sizeof token);
        while (strcmp(token, ".visible") == 0 || strcmp(token, ".weak") == 0 || strcmp(token, ".extern") == 0)
            rest = word(rest, token, sizeof token);
        if (strcmp(token, ".version") == 0 || strcmp(token, ".target") == 0 || strcmp(token, ".address_size") == 0) {
            at += strcspn(at, "\n");
            continue;
        }
        if (strcmp(token, ".entry") == 0) parse_entry(rest, &image);
        if (strcmp(token, ".global") == 0 || strcmp(token, ".const") == 0) parse_variable(rest, &image);
        at = statement_end(rest, strcmp(token, ".entry") == 0 || strcmp(token, ".func") == 0);
        if (at == start) break;
    }
    return image;
}

/* ---- Modules ---- */

static struct variable *find_variable(CUmodule module, const char *name) {
    for (size_t i = 0; i < module->image.variable_count; i++)
        if (strcmp(module->image.variables[i].name, name) == 0) return &module->image.variables[i];
    return NULL;
}

void *variable(CUmodule module, const char *name) {
    struct variable *found = find_variable(module, name);
    if (!found) misuse("a kernel uses a variable that its module lacks");
    return (void *)(uintptr_t)found->address;
}

static void place_variables(CUmodule module) {
    for (size_t i = 0; i < module->image.variable_count; i++) {
        struct variable *made = &module->image.variables[i];
        made->address = allocate(made->bytes, MEMORY_GLOBAL, module->context);
        if (!made->address) misuse("out of device memory");
        memset((void *)(uintptr_t)made->address, 0, made->bytes);
    }
    for (size_t i = 0; i < module->image.variable_count; i++) {
        struct variable *made = &module->image.variables[i];
        for (size_t k = 0; made->values && k < made->count; k++) {
            uint64_t value = made->values[k];
            struct variable *target = made->addresses[k] ? find_variable(module, made->addresses[k]) : NULL;
            if (target) value = target->address;
            memcpy((char *)(uintptr_t)made->address + k * made->width, &value, made->width);
        }
    }
}

static const int DEFAULT_ATTRIBUTES[FUNCTION_ATTRIBUTES] = {
    [CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024, [CU_FUNC_ATTRIBUTE_NUM_REGS] = 16, [CU_FUNC_ATTRIBUTE_PTX_VERSION] = 90,
    [CU_FUNC_ATTRIBUTE_BINARY_VERSION] = 90, [CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 49152,
    [CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = -1,
};

/* Handles stay readable and lose their tags, so that a late use is noticed. With STANDIN_REUSE the
 * next module gets the function handles of the last one that was unloaded. */
enum { REUSED = 64 };
static CUmodule modules;
static struct CUfunc_st *unused;
static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;

static struct CUfunc_st *function_handles(size_t count) {
    struct CUfunc_st *handles;
    pthread_mutex_lock(&handles_lock);
    handles = count <= REUSED ? unused : NULL;
    if (handles) unused = NULL;
    pthread_mutex_unlock(&handles_lock);
    if (handles) memset(handles, 0, REUSED * sizeof *handles);
    else handles = calloc(count < REUSED ? REUSED : count, sizeof *handles);
    if (!handles) misuse("out of host memory");
    return handles;
}

static CUmodule new_module(CUcontext context, const char *text, CUlibrary library) {
    CUmodule module = tagged(sizeof *module, TAG_MODULE);
    module->context = context;
    module->library = library;
    module->image = parse(text);
    module->functions = function_handles(module->image.code_count);
    pthread_mutex_lock(&handles_lock);
    module->next = modules;
    modules = module;
    pthread_mutex_unlock(&handles_lock);
    for (size_t i = 0; i < module->image.code_count; i++) {
        module->functions[i].tag = TAG_FUNCTION;
        module->functions[i].code = &module->image.codes[i];
        module->functions[i].module = module;
        memcpy(module->functions[i].attributes, DEFAULT_ATTRIBUTES, sizeof DEFAULT_ATTRIBUTES);
    }
    place_variables(module);
    return module;
}

static void unload(CUmodule module) {
    for (size_t i = 0; i < module->image.variable_count; i++)
        release(module->image.variables[i].address, MEMORY_GLOBAL, MEMORY_GLOBAL);
    for (size_t i = 0; i < module->image.code_count; i++) module->functions[i].tag = 0;
    module->tag = 0;
    if (setting("STANDIN_REUSE") && module->image.code_count <= REUSED) unused = module->functions;
}

void unload_modules(CUcontext context) {
    for (CUmodule module = modules; module; module = module->next)
        if (module->context == context && module->tag == TAG_MODULE && !module->library) unload(module);
}

static CUresult load(CUmodule *module, const void *image) {
    CONTEXT(context);
    UNSAFE_CALL;
    char *text;
    CUresult result = ptx_of(image, &text);
    if (result != CUDA_SUCCESS) return result;
    *module = new_module(context, text, NULL);
    free(text);
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) { ENTER; return load(module, image); }
CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) { ENTER; return load(module, image); }
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values) {
    ENTER;
    (void)count, (void)options, (void)values;
    return load(module, image);
}

enum { FILE_LIMIT = 4 << 20 };

CUresult cuModuleLoad(CUmodule *module, const char *path) {
    ENTER;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return CUDA_ERROR_NOT_FOUND;
    char *image = calloc(1, FILE_LIMIT + 1), *at = image;
    ssize_t got;
    while (image && (got = read(file, at, (size_t)(image + FILE_LIMIT - at))) > 0) at += got; /* A pipe comes in pieces. */
    close(file);
    CUresult result = image && at > image ? load(module, image) : CUDA_ERROR_NOT_FOUND;
    free(image);
    return result;
}

#define MODULE(module) \
    if (!module) return CUDA_ERROR_INVALID_HANDLE;    \
    if (!has_tag(module, TAG_MODULE)) misuse("a module handle that is none")

CUresult cuModuleUnload(CUmodule module) {
    ENTER;
    CONTEXT(context);
    MODULE(module);
    if (module->library) return CUDA_ERROR_INVALID_HANDLE;
    wait_for_context(context);
    unload(module);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    ENTER;
    MODULE(module);
    for (size_t i = 0; i < module->image.code_count; i++)
        if (strcmp(module->image.codes[i].name, name) == 0) return *function = &module->functions[i], CUDA_SUCCESS;
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule module) {
    ENTER;
    MODULE(module);
    *count = (unsigned)module->image.code_count;
    return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned count, CUmodule module) {
    ENTER;
    MODULE(module);
    for (size_t i = 0; i < count && i < module->image.code_count; i++) functions[i] = &module->functions[i];
    return CUDA_SUCCESS;
}

static CUresult global(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
    struct variable *found = find_variable(module, name);
    if (!found) return CUDA_ERROR_NOT_FOUND;
    if (address) *address = found->address;
    if (bytes) *bytes = found->bytes;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
    ENTER;
    MODULE(module);
    return global(address, bytes, module, name);
}

/* ---- Libraries: loaded into a context when something of them is first needed there ---- */

#define LIBRARY(library) \
    if (!library) return CUDA_ERROR_INVALID_HANDLE;    \
    if (!has_tag(library, TAG_LIBRARY)) misuse("a library handle that is none")
#define KERNEL(kernel) \
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;    \
    if (!has_tag(kernel, TAG_KERNEL)) misuse("a kernel handle that is none")

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values, unsigned jit_count,
                           CUlibraryOption *options, void **values, unsigned count) {
    ENTER;
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    char *text;
    CUresult result = ptx_of(code, &text);
    if (result != CUDA_SUCCESS) return result;
    CUlibrary made = tagged(sizeof *made, TAG_LIBRARY);
    made->text = text;
    made->image = parse(text);
    made->kernels = calloc(made->image.code_count + 1, sizeof *made->kernels);
    if (!made->kernels) misuse("out of host memory");
    for (size_t i = 0; i < made->image.code_count; i++) {
        made->kernels[i].tag = TAG_KERNEL;
        made->kernels[i].library = made;
        made->kernels[i].index = i;
        memcpy(made->kernels[i].attributes, DEFAULT_ATTRIBUTES, sizeof DEFAULT_ATTRIBUTES);
    }
    *library = made;
    return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary library) {
    ENTER;
    LIBRARY(library);
    for (size_t i = 0; i < library->module_count; i++) {
        wait_for_context(library->modules[i]->context);
        unload(library->modules[i]);
    }
    for (size_t i = 0; i < library->image.code_count; i++) library->kernels[i].tag = 0;
    library->tag = 0;
    return CUDA_SUCCESS;
}

static CUmodule module_in(CUlibrary library, CUcontext context) {
    CUmodule module = NULL;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < library->module_count; i++)
        if (library->modules[i]->context == context) module = library->modules[i];
    if (!module) {
        if (library->module_count == 16) misuse("too many contexts for one library");
        module = library->modules[library->module_count++] = new_module(context, library->text, library);
        for (size_t i = 0; i < library->image.code_count; i++)
            for (int k = 0; k < FUNCTION_ATTRIBUTES; k++)
                if (library->kernels[i].set[k]) module->functions[i].attributes[k] = library->kernels[i].attributes[k];
    }
    pthread_mutex_unlock(&lock);
    return module;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    ENTER;
    LIBRARY(library);
    for (size_t i = 0; i < library->image.code_count; i++)
        if (strcmp(library->image.codes[i].name, name) == 0) return *kernel = &library->kernels[i], CUDA_SUCCESS;
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuLibraryGetKernelCount(unsigned *count, CUlibrary library) {
    ENTER;
    LIBRARY(library);
    *count = (unsigned)library->image.code_count;
    return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned count, CUlibrary library) {
    ENTER;
    LIBRARY(library);
    for (size_t i = 0; i < count && i < library->image.code_count; i++) kernels[i] = &library->kernels[i];
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library) {
    ENTER;
    CONTEXT(context);
    LIBRARY(library);
    *module = module_in(library, context);
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name) {
    ENTER;
    CONTEXT(context);
    LIBRARY(library);
    return global(address, bytes, module_in(library, context), name);
}

CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name) {
    ENTER;
    (void)address, (void)bytes, (void)name;
    LIBRARY(library);
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    ENTER;
    CONTEXT(context);
    KERNEL(kernel);
    *function = &module_in(kernel->library, context)->functions[kernel->index];
    return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel) {
    ENTER;
    KERNEL(kernel);
    *library = kernel->library;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUkernel kernel) {
    ENTER;
    KERNEL(kernel);
    *name = kernel->library->image.codes[kernel->index].name;
    return CUDA_SUCCESS;
}

static CUresult parameter(const struct code *code, size_t index, size_t *offset, size_t *size) {
    if (index >= code->parameters) return CUDA_ERROR_INVALID_VALUE;
    if (offset) *offset = code->offsets[index];
    if (size) *size = code->sizes[index];
    return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size) {
    ENTER;
    KERNEL(kernel);
    return parameter(&kernel->library->image.codes[kernel->index], index, offset, size);
}

#define ATTRIBUTE(attribute) \
    if ((unsigned)(attribute) >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE
/* Below the first one that can be set, attributes are facts. */
#define SETTABLE(attribute) \
    if ((unsigned)(attribute) < CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_ERROR_INVALID_VALUE

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
    ENTER;
    KERNEL(kernel);
    ATTRIBUTE(attribute);
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *value = kernel->attributes[attribute];
    return CUDA_SUCCESS;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
    ENTER;
    KERNEL(kernel);
    ATTRIBUTE(attribute);
    SETTABLE(attribute);
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    kernel->attributes[attribute] = value;
    kernel->set[attribute] = true;
    for (size_t i = 0; i < kernel->library->module_count; i++)
        kernel->library->modules[i]->functions[kernel->index].attributes[attribute] = value;
    return CUDA_SUCCESS;
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device) {
    ENTER;
    (void)config, (void)device;
    KERNEL(kernel);
    return CUDA_SUCCESS;
}

/* ---- Functions ---- */

#define FUNCTION(function) \
    if (!function) return CUDA_ERROR_INVALID_HANDLE;    \
    if (!has_tag(function, TAG_FUNCTION)) misuse("a function handle that is none")

CUresult resolve_function(CUfunction handle, CUcontext context, CUfunction *function) {
    if (has_tag(handle, TAG_KERNEL)) {
        CUkernel kernel = (CUkernel)(void *)handle;
        *function = &module_in(kernel->library, context)->functions[kernel->index];
        return CUDA_SUCCESS;
    }
    FUNCTION(handle);
    if (handle->module->context != context) return CUDA_ERROR_INVALID_HANDLE;
    *function = handle;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function) {
    ENTER;
    FUNCTION(function);
    *module = function->module;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction function) {
    ENTER;
    FUNCTION(function);
    *name = function->code->name;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size) {
    ENTER;
    FUNCTION(function);
    return parameter(function->code, index, offset, size);
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    ENTER;
    FUNCTION(function);
    ATTRIBUTE(attribute);
    *value = function->attributes[attribute];
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    ENTER;
    FUNCTION(function);
    ATTRIBUTE(attribute);
    SETTABLE(attribute);
    function->attributes[attribute] = value;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
    ENTER;
    (void)config;
    FUNCTION(function);
    return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config) {
    ENTER;
    (void)config;
    FUNCTION(function);
    return CUDA_SUCCESS;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function) {
    ENTER;
    FUNCTION(function);
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function) {
    ENTER;
    FUNCTION(function);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block, size_t shared) {
    ENTER;
    (void)shared;
    CONTEXT(context);
    CUresult result = resolve_function(function, context, &function);
    if (result != CUDA_SUCCESS || block < 1 || block > 1024) return CUDA_ERROR_INVALID_VALUE;
    *blocks = 2048 / block < 32 ? 2048 / block : 32;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *config) {
    ENTER;
    (void)config;
    CONTEXT(context);
    CUresult result = resolve_function(function, context, &function);
    *clusters = 8;
    return result;
}
