/* A library that is linked to one copy of the run-time compiler and compiles with it: COMPILE names
 * its function. Gives the number of the copy, or -1. */
#include <stddef.h>

typedef struct program *nvrtcProgram;
int nvrtcVersion(int *, int *);
int nvrtcCreateProgram(nvrtcProgram *, const char *, const char *, int, const char *const *, const char *const *);
int nvrtcCompileProgram(nvrtcProgram, int, const char *const *);
int nvrtcGetProgramLogSize(nvrtcProgram, size_t *);
int nvrtcDestroyProgram(nvrtcProgram *);

int COMPILE(void) {
    nvrtcProgram program;
    size_t bytes;
    int copy, minor;
    if (nvrtcVersion(&copy, &minor) || nvrtcCreateProgram(&program, "text", "name", 0, NULL, NULL)) return -1;
    if (nvrtcCompileProgram(program, 0, NULL) || nvrtcGetProgramLogSize(program, &bytes)) return -1;
    return nvrtcDestroyProgram(&program) ? -1 : copy;
}
