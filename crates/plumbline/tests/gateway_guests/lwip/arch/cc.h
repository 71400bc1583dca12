/* What lwIP requires of the compiler and the C library. */
#ifndef ARCH_CC_H
#define ARCH_CC_H

#include <stdlib.h>

#define LWIP_PLATFORM_DIAG(arguments) ((void)0)
#define LWIP_PLATFORM_ASSERT(text) abort()
#define LWIP_RAND() ((u32_t)random())

/* The serial line of SLIP. */
typedef int *sio_fd_t;
#define __sio_fd_t_defined

#endif
