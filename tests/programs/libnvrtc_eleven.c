/* cc: -Wl,-soname,libnvrtc.so.11.2 */
#define COPY 11
#include "nvrtc_copy.h"
