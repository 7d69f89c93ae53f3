/* How a kernel that is written in C gets its arguments. */
#ifndef KERNELS_H
#define KERNELS_H
#include "standin.h"

#define ARGUMENT(launch, type, index) \
    (*(type *)((launch)->parameters + (launch)->function->code->offsets[index]))

#pragma GCC visibility push(hidden)
void compare_chunks(const struct launch *launch);
void fingerprint(const struct launch *launch);
#pragma GCC visibility pop
#endif
