/* lwIP at a serial line: no threads, SLIP, PPP with compressed TCP headers, and TCP. */
#ifndef LWIPOPTS_H
#define LWIPOPTS_H

#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_SOCKET 0
#define LWIP_NETCONN 0
#define LWIP_IPV6 0
#define LWIP_ARP 0
#define LWIP_STATS 0

#define MEM_LIBC_MALLOC 1
#define MEMP_MEM_MALLOC 1
#define MEM_ALIGNMENT 8
#define PBUF_POOL_SIZE 64

#define TCP_MSS 536
#define TCP_WND (8 * TCP_MSS)
#define TCP_SND_BUF (8 * TCP_MSS)

#define LWIP_HAVE_SLIPIF 1
#define PPP_SUPPORT 1
#define PPPOS_SUPPORT 1
#define PPP_IPV4_SUPPORT 1
#define PPP_IPV6_SUPPORT 0
#define PAP_SUPPORT 0
#define CHAP_SUPPORT 0
#define VJ_SUPPORT 1

#endif
