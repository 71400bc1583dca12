/* lwIP as the benchmark of stacks builds it: no threads, the C library's memory, a window of 1 MiB. */
#ifndef LWIPOPTS_H
#define LWIPOPTS_H

#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_SOCKET 0
#define LWIP_NETCONN 0
#define LWIP_IPV6 0
#define LWIP_UDP 0
#define LWIP_ARP 0
#define LWIP_STATS 0
#define LWIP_NOASSERT 1

#define MEM_LIBC_MALLOC 1
#define MEMP_MEM_MALLOC 1
#define MEM_ALIGNMENT 8

#define TCP_MSS 1460
#define LWIP_WND_SCALE 1
#define TCP_RCV_SCALE 5
#define TCP_WND (1024 * 1024)
#define TCP_SND_BUF (1024 * 1024)
#define TCP_SND_QUEUELEN 8192
#define TCP_SNDLOWAT 32768
#define TCP_LISTEN_BACKLOG 1
#define LWIP_TCP_SACK_OUT 1

/* The fastest of the checksums that it has in C. */
#define LWIP_CHKSUM_ALGORITHM 3
#define LWIP_CHECKSUM_ON_COPY 1

#endif
