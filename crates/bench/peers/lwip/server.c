/* lwIP on a TUN by its raw interface, as a server that the benchmark of stacks measures.
 *
 * One thread reads packets, hands them to the stack and waits in poll() for the next packet or the
 * next timer. Data to be sent stands in a static array and is not copied. */

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "lwip/init.h"
#include "lwip/ip.h"
#include "lwip/netif.h"
#include "lwip/tcp.h"
#include "lwip/timeouts.h"

enum { PORT = 7000, PACKETS_A_TURN = 64, PIECES_MAX = 64, SOURCE_BYTES = 65536 };

static int device;
static char mode = 'e';
static int spins;
static char source[SOURCE_BYTES];

u32_t sys_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (u32_t)(now.tv_sec * 1000 + now.tv_nsec / 1000000);
}

static err_t transmit(struct netif *netif, struct pbuf *packet, const ip4_addr_t *next) {
    struct iovec pieces[PIECES_MAX];
    int count = 0;
    (void)netif, (void)next;
    for (; packet != NULL && count < PIECES_MAX; packet = packet->next)
        pieces[count++] = (struct iovec){packet->payload, packet->len};
    return writev(device, pieces, count) < 0 ? ERR_IF : ERR_OK;
}

static err_t set_up(struct netif *netif) {
    netif->name[0] = 't', netif->name[1] = 'n';
    netif->mtu = 1500;
    netif->output = transmit;
    netif->flags = NETIF_FLAG_UP | NETIF_FLAG_LINK_UP;
    return ERR_OK;
}

static err_t fill(void *argument, struct tcp_pcb *connection, u16_t sent) {
    (void)argument, (void)sent;
    while (tcp_sndbuf(connection) >= SOURCE_BYTES / 4)
        if (tcp_write(connection, source, SOURCE_BYTES / 4, 0) != ERR_OK) break;
    return tcp_output(connection);
}

static err_t receive(void *argument, struct tcp_pcb *connection, struct pbuf *data, err_t error) {
    struct pbuf *piece;
    (void)argument, (void)error;
    if (data == NULL) return tcp_close(connection);
    if (mode == 'e') {
        for (piece = data; piece != NULL; piece = piece->next)
            tcp_write(connection, piece->payload, piece->len, TCP_WRITE_FLAG_COPY);
        tcp_recved(connection, data->tot_len);
        tcp_output(connection);
    } else {
        tcp_recved(connection, data->tot_len);
    }
    pbuf_free(data);
    return ERR_OK;
}

static err_t accepted(void *argument, struct tcp_pcb *connection, err_t error) {
    (void)argument, (void)error;
    if (connection == NULL) return ERR_VAL;
    tcp_nagle_disable(connection);
    tcp_recv(connection, receive);
    if (mode == 'o') {
        tcp_sent(connection, fill);
        return fill(NULL, connection, 0);
    }
    return ERR_OK;
}

static int open_tun(const char *name) {
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    int descriptor = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    if (descriptor < 0 || ioctl(descriptor, TUNSETIFF, &request) < 0) {
        perror(name);
        exit(1);
    }
    return descriptor;
}

static void *end_with_input(void *nothing) {
    struct timespec used;
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    printf("%.6f\n", (double)used.tv_sec + (double)used.tv_nsec / 1e9);
    fflush(stdout);
    _exit(0);
    return nothing;
}

static void run(struct netif *netif) {
    for (;;) {
        int turn;
        for (turn = 0; turn < PACKETS_A_TURN; turn++) {
            struct pbuf *packet = pbuf_alloc(PBUF_RAW, 1500, PBUF_RAM);
            ssize_t length = packet == NULL ? -1 : read(device, packet->payload, 1500);
            if (length <= 0) {
                if (packet != NULL) pbuf_free(packet);
                break;
            }
            pbuf_realloc(packet, (u16_t)length);
            if (netif->input(packet, netif) != ERR_OK) pbuf_free(packet);
        }
        sys_check_timeouts();
        if (turn < PACKETS_A_TURN && !spins) {
            struct pollfd readable = {.fd = device, .events = POLLIN};
            u32_t sleep = sys_timeouts_sleeptime();
            poll(&readable, 1, sleep == SYS_TIMEOUTS_SLEEPTIME_INFINITE ? -1 : (int)sleep);
        }
    }
}

int main(int count, char **words) {
    struct netif netif = {0};
    struct tcp_pcb *listener;
    ip4_addr_t address, mask;
    const char *name = NULL;
    pthread_t watcher;
    int at;
    IP4_ADDR(&mask, 255, 255, 255, 0);
    ip4_addr_set_any(&address);
    for (at = 1; at < count; at++) {
        const char *value = at + 1 < count ? words[at + 1] : "";
        if (strcmp(words[at], "--spin") == 0) {
            spins = 1;
            continue;
        }
        if (strcmp(words[at], "--attach") == 0 && strncmp(value, "tun:", 4) == 0) name = value + 4;
        if (strcmp(words[at], "--address") == 0) ip4addr_aton(value, &address);
        /* sink, source or echo: the second letter tells them apart. */
        if (strcmp(words[at], "--mode") == 0) mode = strcmp(value, "echo") ? value[1] : 'e';
        at++;
    }
    if (name == NULL) {
        fputs("usage: lwip-server --attach tun:NAME --address A --mode sink|source|echo\n", stderr);
        return 2;
    }
    device = open_tun(name);
    lwip_init();
    netif_add(&netif, &address, &mask, NULL, NULL, set_up, ip_input);
    netif_set_default(&netif);
    listener = tcp_new();
    if (tcp_bind(listener, IP_ANY_TYPE, PORT) != ERR_OK) return 1;
    tcp_accept(listener = tcp_listen(listener), accepted);
    pthread_create(&watcher, NULL, end_with_input, NULL);
    puts("ready");
    fflush(stdout);
    run(&netif);
}
