/* cc: */
/* In the place of the run-time compiler: whatever the source, the outcome is kernels.ptx. */
#include <stdlib.h>
#include <string.h>

#include "kernels_ptx.h"

typedef struct program { char *expression; } *nvrtcProgram;

int nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = 0, 0; }

int nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name, int count, const char *const *headers,
                       const char *const *names) {
    (void)name, (void)count, (void)headers, (void)names;
    if (!source) return 3;
    *program = calloc(1, sizeof **program);
    return *program ? 0 : 1;
}

int nvrtcDestroyProgram(nvrtcProgram *program) {
    free((*program)->expression);
    free(*program);
    *program = NULL;
    return 0;
}

int nvrtcAddNameExpression(nvrtcProgram program, const char *expression) {
    program->expression = strdup(expression);
    return 0;
}

/* An option that it does not know fails the compilation. */
int nvrtcCompileProgram(nvrtcProgram program, int count, const char *const *options) {
    (void)program;
    for (int i = 0; i < count; i++)
        if (strcmp(options[i], "--wrong") == 0) return 5;
    return 0;
}

int nvrtcGetLoweredName(nvrtcProgram program, const char *expression, const char **lowered) {
    if (!program->expression || strcmp(program->expression, expression) != 0) return 10;
    *lowered = "_Z5scaleIfEvPT_S0_i";
    return 0;
}

int nvrtcGetPTXSize(nvrtcProgram program, size_t *bytes) { return (void)program, *bytes = sizeof KERNELS_PTX, 0; }
int nvrtcGetPTX(nvrtcProgram program, char *ptx) { return (void)program, memcpy(ptx, KERNELS_PTX, sizeof KERNELS_PTX), 0; }
