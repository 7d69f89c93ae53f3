/* cc: -lnvrtc_eleven */
#define COMPILE compile
#include "nvrtc_user.h"
