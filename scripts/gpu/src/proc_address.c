// Compares what cuGetProcAddress returns with what libcuda exports.
//
// Input, one a line: "S symbol" (an exported name) and "Q name version" (a look-up, made with flags 0, 1
// and 2). Output: a table row "name version flags status address-owner" for each look-up on stdout, and a
// summary on stderr. With --path it prints the file of the loaded libcuda and ends.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*get_proc_address_v2)(const char *, void **, int, uint64_t, int *);
typedef int (*get_proc_address_v1)(const char *, void **, int, uint64_t);

struct symbol {
    char name[128];
    void *address;
};

static struct symbol *symbols;
static size_t symbol_count, symbol_room;

static int by_address(const void *left, const void *right) {
    uintptr_t a = (uintptr_t)((const struct symbol *)left)->address;
    uintptr_t b = (uintptr_t)((const struct symbol *)right)->address;
    return a == b ? strcmp(((const struct symbol *)left)->name, ((const struct symbol *)right)->name)
                  : (a < b ? -1 : 1);
}

// Names of all exports at this address, joined by '|'; empty when there is none.
static void owners(const void *address, char *out, size_t room) {
    size_t low = 0, high = symbol_count;
    out[0] = '\0';
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t)symbols[middle].address < (uintptr_t)address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < symbol_count && symbols[low].address == address; ++low) {
        if (strlen(out) + strlen(symbols[low].name) + 2 < room) {
            if (out[0] != '\0') {
                strcat(out, "|");
            }
            strcat(out, symbols[low].name);
        }
    }
}

int main(int argc, char **argv) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "proc_address: %s\n", dlerror());
        return 2;
    }
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
    int (*driver_version)(int *) = (int (*)(int *))dlsym(library, "cuDriverGetVersion");
    get_proc_address_v2 look_up = (get_proc_address_v2)dlsym(library, "cuGetProcAddress_v2");
    get_proc_address_v1 look_up_v1 = (get_proc_address_v1)dlsym(library, "cuGetProcAddress");
    if (init == NULL || driver_version == NULL || look_up == NULL || look_up_v1 == NULL) {
        fprintf(stderr, "proc_address: libcuda lacks cuGetProcAddress_v2\n");
        return 2;
    }
    Dl_info info;
    if (argc > 1 && strcmp(argv[1], "--path") == 0) {
        if (dladdr((void *)init, &info) == 0) {
            return 2;
        }
        printf("%s\n", info.dli_fname);
        return 0;
    }
    const int initialised = argc > 1 && strcmp(argv[1], "--init") == 0;
    if (initialised) {
        int status = init(0);
        if (status != 0) {
            fprintf(stderr, "proc_address: cuInit gave %d\n", status);
            return 2;
        }
    }

    char (*queries)[160] = NULL;
    size_t query_count = 0, query_room = 0;
    char line[256];
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == 'S' && strlen(line) > 2 && strlen(line) < 128) {
            if (symbol_count == symbol_room) {
                symbol_room = symbol_room ? 2 * symbol_room : 1024;
                symbols = realloc(symbols, symbol_room * sizeof *symbols);
            }
            void *address = dlsym(library, line + 2);
            if (address != NULL && symbols != NULL) {
                strcpy(symbols[symbol_count].name, line + 2);
                symbols[symbol_count++].address = address;
            }
        } else if (line[0] == 'Q' && strlen(line) > 2 && strlen(line) < 160) {
            if (query_count == query_room) {
                query_room = query_room ? 2 * query_room : 1024;
                queries = realloc(queries, query_room * sizeof *queries);
            }
            if (queries != NULL) {
                strcpy(queries[query_count++], line + 2);
            }
        }
    }
    if (symbols == NULL || queries == NULL) {
        fprintf(stderr, "proc_address: no input\n");
        return 2;
    }
    qsort(symbols, symbol_count, sizeof *symbols, by_address);
    size_t distinct = 0;
    for (size_t i = 0; i < symbol_count; ++i) {
        distinct += i == 0 || symbols[i].address != symbols[i - 1].address;
    }

    size_t found = 0, exported = 0, refused = 0, v1_differs = 0;
    for (size_t i = 0; i < query_count; ++i) {
        char name[128];
        int version;
        if (sscanf(queries[i], "%127s %d", name, &version) != 2) {
            continue;
        }
        for (int flags = 0; flags < 3; ++flags) {
            void *address = NULL, *address_v1 = NULL;
            int query_status = -1;
            int status = look_up(name, &address, version, (uint64_t)flags, &query_status);
            int status_v1 = look_up_v1(name, &address_v1, version, (uint64_t)flags);
            char owner[1024] = "-";
            v1_differs += status == 0 && (status_v1 != 0 || address_v1 != address);
            if (status != 0 || address == NULL) {
                ++refused;
            } else {
                ++found;
                owners(address, owner, sizeof owner);
                if (owner[0] != '\0') {
                    ++exported;
                } else if (dladdr(address, &info) != 0) {
                    const char *file = strrchr(info.dli_fname, '/');
                    snprintf(owner, sizeof owner, "UNEXPORTED(%s+0x%llx)", file ? file + 1 : info.dli_fname,
                             (unsigned long long)((uintptr_t)address - (uintptr_t)info.dli_fbase));
                } else {
                    snprintf(owner, sizeof owner, "UNEXPORTED(no file)");
                }
            }
            printf("%s\t%d\t%d\t%d\t%d\t%s\n", name, version, flags, status, query_status, owner);
        }
    }
    int version = 0;
    driver_version(&version);
    fprintf(stderr,
            "{\"driver\": %d, \"initialised\": %s, \"exports\": %zu, \"distinct_addresses\": %zu, "
            "\"lookups\": %zu, \"found\": %zu, \"refused\": %zu, \"exported\": %zu, \"unexported\": %zu, "
            "\"v1_differs\": %zu}\n",
            version, initialised ? "true" : "false", symbol_count, distinct, 3 * query_count, found, refused,
            exported, found - exported, v1_differs);
    free(symbols);
    free(queries);
    return 0;
}
