/* cc: -Wl,-soname,libnvrtc.so.12 */
#define COPY 12
#include "nvrtc_copy.h"
