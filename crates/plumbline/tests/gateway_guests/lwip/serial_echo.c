/* A host at a serial line with lwIP: connects to a server by TCP and sends back what it receives.
 *
 * usage: lwip-serial slip|ppp ADDRESS PORT, or lwip-serial --version
 *
 * The line is a pseudo-terminal, whose name the program prints. With SLIP, the host is 10.0.2.100,
 * and its gateway 10.0.2.2. PPP negotiates the addresses. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "lwip/init.h"
#include "lwip/ip.h"
#include "lwip/netif.h"
#include "lwip/sio.h"
#include "lwip/tcp.h"
#include "lwip/timeouts.h"
#include "netif/ppp/pppos.h"
#include "netif/slipif.h"

enum { READ_BYTES = 256 };

static int device;
static struct netif interface;
static ppp_pcb *ppp;
static ip_addr_t server;
static u16_t port;
static int has_ended, has_failed;
/* Data that the connection has not taken yet. */
static struct pbuf *waiting;

u32_t sys_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (u32_t)(now.tv_sec * 1000 + now.tv_nsec / 1000000);
}

u32_t sys_jiffies(void) {
    return sys_now();
}

/* Writes all bytes; the line takes them at its own rate. */
static u32_t transmit(const u8_t *bytes, u32_t count) {
    u32_t written = 0;
    while (written < count) {
        ssize_t part = write(device, bytes + written, count - written);
        if (part < 0 && errno != EINTR && errno != EAGAIN) return written;
        if (part > 0) written += (u32_t)part;
    }
    return written;
}

static u32_t transmit_ppp(ppp_pcb *connection, u8_t *bytes, u32_t count, void *context) {
    (void)connection, (void)context;
    return transmit(bytes, count);
}

sio_fd_t sio_open(u8_t number) {
    (void)number;
    return &device;
}

void sio_send(u8_t byte, sio_fd_t line) {
    (void)line;
    transmit(&byte, 1);
}

u32_t sio_tryread(sio_fd_t line, u8_t *bytes, u32_t count) {
    ssize_t part = read(*line, bytes, count);
    return part > 0 ? (u32_t)part : 0;
}

u32_t sio_read(sio_fd_t line, u8_t *bytes, u32_t count) {
    return sio_tryread(line, bytes, count);
}

/* Sends back the waiting data as far as the connection takes it. */
static void echo(struct tcp_pcb *connection) {
    while (waiting != NULL && tcp_sndbuf(connection) >= waiting->len) {
        struct pbuf *first = waiting;
        if (tcp_write(connection, first->payload, first->len, TCP_WRITE_FLAG_COPY) != ERR_OK) break;
        tcp_recved(connection, first->len);
        waiting = first->next;
        if (waiting != NULL) pbuf_ref(waiting);
        pbuf_free(first);
    }
    tcp_output(connection);
}

static err_t sent(void *argument, struct tcp_pcb *connection, u16_t count) {
    (void)argument, (void)count;
    echo(connection);
    return ERR_OK;
}

static err_t received(void *argument, struct tcp_pcb *connection, struct pbuf *data, err_t error) {
    (void)argument, (void)error;
    if (data == NULL) {
        has_ended = 1;
        return tcp_close(connection);
    }
    if (waiting == NULL) waiting = data;
    else pbuf_cat(waiting, data);
    echo(connection);
    return ERR_OK;
}

static void failed(void *argument, err_t error) {
    (void)argument;
    fprintf(stderr, "the connection failed: error %d of lwIP\n", error);
    has_failed = 1;
}

static err_t connected(void *argument, struct tcp_pcb *connection, err_t error) {
    (void)argument, (void)connection;
    return error;
}

static void open_connection(void) {
    struct tcp_pcb *connection = tcp_new();
    tcp_recv(connection, received);
    tcp_sent(connection, sent);
    tcp_err(connection, failed);
    if (tcp_connect(connection, &server, port, connected) != ERR_OK) failed(NULL, ERR_CONN);
}

static void ppp_changed(ppp_pcb *connection, int error, void *context) {
    (void)context;
    if (error != PPPERR_NONE) {
        fprintf(stderr, "PPP ended: error %d of lwIP\n", error);
        has_failed = error != PPPERR_USER;
        return;
    }
    fprintf(stderr, "address %s\n", ip4addr_ntoa(netif_ip4_addr(&interface)));
    netif_set_default(ppp_netif(connection));
    open_connection();
}

static void start_slip(void) {
    ip4_addr_t address, mask, gateway;
    IP4_ADDR(&address, 10, 0, 2, 100);
    IP4_ADDR(&mask, 255, 255, 255, 0);
    IP4_ADDR(&gateway, 10, 0, 2, 2);
    netif_add(&interface, &address, &mask, &gateway, NULL, slipif_init, ip_input);
    netif_set_default(&interface);
    netif_set_up(&interface);
    netif_set_link_up(&interface);
    open_connection();
}

static void start_ppp(void) {
    /* The type of the bytes differs between versions of lwIP. */
    ppp = pppos_create(&interface, (pppos_output_cb_fn)transmit_ppp, ppp_changed, NULL);
    ppp_connect(ppp, 0);
}

static void receive(void) {
    u8_t bytes[READ_BYTES];
    ssize_t count;
    if (ppp == NULL) {
        slipif_poll(&interface);
        return;
    }
    while ((count = read(device, bytes, sizeof bytes)) > 0) pppos_input(ppp, bytes, (int)count);
}

int main(int count, char **words) {
    struct termios settings;
    if (count == 2 && strcmp(words[1], "--version") == 0) {
        puts("lwip-serial with lwIP " LWIP_VERSION_STRING);
        return 0;
    }
    if (count != 4 || !ipaddr_aton(words[2], &server)) {
        fputs("usage: lwip-serial slip|ppp ADDRESS PORT\n", stderr);
        return 2;
    }
    port = (u16_t)atoi(words[3]);
    device = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (device < 0 || grantpt(device) != 0 || unlockpt(device) != 0) {
        perror("pseudo-terminal");
        return 1;
    }
    tcgetattr(device, &settings);
    cfmakeraw(&settings);
    tcsetattr(device, TCSANOW, &settings);
    puts(ptsname(device));
    fflush(stdout);
    lwip_init();
    if (strcmp(words[1], "ppp") == 0) start_ppp();
    else start_slip();
    /* The FIN is sent and acknowledged after the end of the server's data. */
    while (!has_failed && (!has_ended || tcp_active_pcbs != NULL)) {
        struct pollfd ready = {device, POLLIN, 0};
        u32_t wait = sys_timeouts_sleeptime();
        poll(&ready, 1, wait > 1000 ? 1000 : (int)wait);
        sys_check_timeouts();
        receive();
    }
    return has_failed;
}
