/* One of several copies of the run-time compiler in a process: COPY is its number. A program of
 * another copy is noticed, as its memory would be misread. */
#include <stdio.h>
#include <stdlib.h>

typedef struct program { int copy; } *nvrtcProgram;

int nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name, int count, const char *const *headers,
                       const char *const *names) {
    (void)source, (void)name, (void)count, (void)headers, (void)names;
    *program = malloc(sizeof **program);
    if (!*program) return 1;
    (*program)->copy = COPY;
    return 0;
}

static int own(const char *call, nvrtcProgram program) {
    if (program->copy == COPY) return 0;
    printf("%s of compiler %d got a program of compiler %d\n", call, COPY, program->copy);
    return 4;
}

int nvrtcCompileProgram(nvrtcProgram program, int count, const char *const *options) {
    (void)count, (void)options;
    return own("nvrtcCompileProgram", program);
}

/* Calls that R3 has no hook for. */
int nvrtcVersion(int *major, int *minor) { return *major = COPY, *minor = 0, 0; }

int nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes) {
    *bytes = 1;
    return own("nvrtcGetProgramLogSize", program);
}

int nvrtcDestroyProgram(nvrtcProgram *program) {
    int result = own("nvrtcDestroyProgram", *program);
    if (result == 0) free(*program);
    return result;
}
