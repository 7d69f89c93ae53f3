/* cc: -lnvrtc_twelve */
#define COMPILE compile
#include "nvrtc_user.h"
