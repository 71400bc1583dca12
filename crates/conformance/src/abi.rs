//! The C interface of the runner, and all unsafe code of this crate.
//!
//! The runner looks up one symbol, `packetdrill_interface_init`, and passes it a table to fill: an
//! opaque pointer, which is the first argument of every call, and 32 functions in a fixed order.
//! The functions have POSIX semantics and report errors with -1 and `errno`. The exceptions are
//! `netdev_send`, which injects a packet, `netdev_receive`, which waits for a packet, and the
//! functions that read the time of day and sleep.
//!
//! This file only converts C arguments to slices and numbers; other files implement the calls.
//! `fcntl` and `ioctl` are variadic in C. Functions with four fixed arguments replace them, which
//! works on platforms where variadic and other functions receive the first arguments in the same
//! registers, such as Linux on x86-64 and aarch64.
//!
//! A panic at this boundary ends the process, so the script fails.

#![expect(unsafe_code, reason = "C's pointers come in here, and nowhere else")]

use crate::attempt::Attempt;
use crate::epoll_wait;
use crate::errno::Errno;
use crate::scheduler::{Idle, Scheduler};
use crate::script_settings::Flags;
use crate::socket::Phase;
use crate::world::World;
use libc::{c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_void, iovec, msghdr};
use libc::{epoll_event, nfds_t, pollfd, size_t, sockaddr, sockaddr_in, socklen_t, ssize_t};
use net::time::Duration;
use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::OnceLock;

/// First argument of all functions: the scheduler created by [`packetdrill_interface_init`].
type Data = *const Scheduler;

/// The table that the runner passes to be filled.
#[repr(C)]
#[derive(Debug)]
pub struct Interface {
    userdata: Data,
    free: extern "C" fn(Data),
    socket: extern "C" fn(Data, c_int, c_int, c_int) -> c_int,
    bind: extern "C" fn(Data, c_int, *const sockaddr, socklen_t) -> c_int,
    listen: extern "C" fn(Data, c_int, c_int) -> c_int,
    accept: extern "C" fn(Data, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    connect: extern "C" fn(Data, c_int, *const sockaddr, socklen_t) -> c_int,
    read: extern "C" fn(Data, c_int, *mut c_void, size_t) -> ssize_t,
    readv: extern "C" fn(Data, c_int, *const iovec, c_int) -> ssize_t,
    recv: extern "C" fn(Data, c_int, *mut c_void, size_t, c_int) -> ssize_t,
    recvfrom: extern "C" fn(
        Data,
        c_int,
        *mut c_void,
        size_t,
        c_int,
        *mut sockaddr,
        *mut socklen_t,
    ) -> ssize_t,
    recvmsg: extern "C" fn(Data, c_int, *mut msghdr, c_int) -> ssize_t,
    write: extern "C" fn(Data, c_int, *const c_void, size_t) -> ssize_t,
    writev: extern "C" fn(Data, c_int, *const iovec, c_int) -> ssize_t,
    send: extern "C" fn(Data, c_int, *const c_void, size_t, c_int) -> ssize_t,
    sendto: extern "C" fn(
        Data,
        c_int,
        *const c_void,
        size_t,
        c_int,
        *const sockaddr,
        socklen_t,
    ) -> ssize_t,
    sendmsg: extern "C" fn(Data, c_int, *const msghdr, c_int) -> ssize_t,
    fcntl: extern "C" fn(Data, c_int, c_int, c_long) -> c_int,
    ioctl: extern "C" fn(Data, c_int, c_ulong, *mut c_int) -> c_int,
    close: extern "C" fn(Data, c_int) -> c_int,
    shutdown: extern "C" fn(Data, c_int, c_int) -> c_int,
    getsockopt: extern "C" fn(Data, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    setsockopt: extern "C" fn(Data, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    poll: extern "C" fn(Data, *mut pollfd, nfds_t, c_int) -> c_int,
    netdev_send: extern "C" fn(Data, *const c_void, size_t) -> c_int,
    netdev_receive: extern "C" fn(Data, *mut c_void, *mut size_t, *mut c_longlong) -> c_int,
    usleep: extern "C" fn(Data, c_uint) -> c_int,
    gettimeofday: extern "C" fn(Data, *mut libc::timeval, *mut c_void) -> c_int,
    epoll_create: extern "C" fn(Data, c_int) -> c_int,
    epoll_ctl: extern "C" fn(Data, c_int, c_int, c_int, *mut epoll_event) -> c_int,
    epoll_wait: extern "C" fn(Data, c_int, *mut epoll_event, c_int, c_int) -> c_int,
    pipe: extern "C" fn(Data, *mut c_int) -> c_int,
    splice: extern "C" fn(
        Data,
        c_int,
        *mut libc::loff_t,
        c_int,
        *mut libc::loff_t,
        size_t,
        c_uint,
    ) -> ssize_t,
}

/// Fills `table` with functions for a new host.
///
/// # Safety
///
/// `flags` must be null or a C string, and `table` must point to space for an [`Interface`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(flags: *const c_char, table: *mut Interface) {
    let text = if flags.is_null() {
        String::new()
    } else {
        // SAFETY: the caller passes a C string.
        unsafe { CStr::from_ptr(flags) }.to_string_lossy().into_owned()
    };
    let scheduler = Box::new(Scheduler::new(World::new(Flags::parse(&text))));
    // The scheduler is leaked, because threads of the runner may use it until the process ends.
    let scheduler: &'static Scheduler = Box::leak(scheduler);
    _ = SCHEDULER.set(scheduler);
    let interface = Interface {
        userdata: scheduler,
        free,
        socket,
        bind,
        listen,
        accept,
        connect,
        read,
        readv,
        recv,
        recvfrom,
        recvmsg,
        write,
        writev,
        send,
        sendto,
        sendmsg,
        fcntl,
        ioctl,
        close,
        shutdown,
        getsockopt,
        setsockopt,
        poll,
        netdev_send,
        netdev_receive,
        usleep,
        gettimeofday,
        epoll_create,
        epoll_ctl,
        epoll_wait,
        pipe,
        splice,
    };
    // SAFETY: the caller passes space for a table, whose old contents need not be dropped.
    unsafe { table.write(interface) };
}

/// The scheduler for [`preloaded_getsockopt`], which receives no pointer to it.
static SCHEDULER: OnceLock<&'static Scheduler> = OnceLock::new();

/// Replaces the `getsockopt` of the C library if this library is preloaded (`LD_PRELOAD`). Before
/// the assertions of a script, the runner queries `TCP_INFO` with the C library's function instead
/// of the table.
///
/// # Safety
///
/// As for getsockopt(2): `value` must point to as many bytes as `len` says.
#[unsafe(export_name = "getsockopt")]
pub unsafe extern "C" fn preloaded_getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if let Some(scheduler) = SCHEDULER.get() {
        return getsockopt(*scheduler, fd, level, name, value, len);
    }
    // SAFETY: the caller passes valid arguments of getsockopt(2).
    let result = unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, value, len) };
    c_int::try_from(result).unwrap_or(-1)
}

/// Exit code for a script in which no further event can happen.
const EXIT_IDLE: c_int = 3;

fn scheduler<'a>(data: Data) -> &'a Scheduler {
    // SAFETY: the runner passes the pointer made by `packetdrill_interface_init`, which is never
    // freed.
    unsafe { &*data }
}

/// Exits the process if no further event can happen in the script; otherwise the runner would wait
/// indefinitely.
fn or_exit<T>(result: Result<T, Idle>) -> T {
    result.unwrap_or_else(|Idle| std::process::exit(EXIT_IDLE))
}

/// Stores the error in `errno` and returns -1.
fn fail(Errno(number): Errno) -> c_int {
    // SAFETY: errno of this thread always exists.
    unsafe { *libc::__errno_location() = number };
    -1
}

fn answer(result: Result<(), Errno>) -> c_int {
    result.map_or_else(fail, |()| 0)
}

fn answer_number(result: Result<c_int, Errno>) -> c_int {
    result.unwrap_or_else(fail)
}

fn answer_count(result: Result<usize, Errno>) -> ssize_t {
    match result {
        Ok(count) => ssize_t::try_from(count).unwrap_or(ssize_t::MAX),
        Err(error) => ssize_t::try_from(fail(error)).unwrap_or(-1),
    }
}

/// Returns the `len` bytes at `start`, or an empty slice if `start` is null.
///
/// # Safety
///
/// The runner must keep the bytes unchanged for the duration of the call.
unsafe fn bytes<'a>(start: *const c_void, len: usize) -> &'a [u8] {
    if start.is_null() {
        return &[];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(start.cast(), len) }
}

/// Returns the `len` bytes at `start` for writing, or an empty slice if `start` is null.
///
/// # Safety
///
/// The bytes must stay valid for the duration of the call, and nothing else may access them.
unsafe fn bytes_mut<'a>(start: *mut c_void, len: usize) -> &'a mut [u8] {
    if start.is_null() {
        return &mut [];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts_mut(start.cast(), len) }
}

/// Returns the buffers of an `iovec` array.
///
/// # Safety
///
/// `parts` must be null or point to `count` entries.
unsafe fn parts<'a>(parts: *const iovec, count: usize) -> &'a [iovec] {
    if parts.is_null() {
        return &[];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(parts, count) }
}

/// The value of AF_INET as `sa_family_t`.
const FAMILY: libc::sa_family_t = 2;

fn read_address(address: *const sockaddr, len: socklen_t) -> Option<SocketAddr> {
    if address.is_null() || (len as usize) < size_of::<sockaddr_in>() {
        return None;
    }
    // SAFETY: the buffer has at least the size of an IPv4 address, which need not be aligned.
    let address = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
    let is_ipv4 = address.sin_family == FAMILY;
    let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
    is_ipv4.then(|| SocketAddr::new(ip.into(), u16::from_be(address.sin_port)))
}

/// Writes `from` to the caller's buffer. Does nothing if a pointer is null.
fn write_address(from: SocketAddr, to: *mut sockaddr, len: *mut socklen_t) {
    if to.is_null() || len.is_null() {
        return;
    }
    let IpAddr::V4(ip) = from.ip() else { return };
    let address = sockaddr_in {
        sin_family: FAMILY,
        sin_port: from.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(ip).to_be() },
        sin_zero: [0; 8],
    };
    // SAFETY: `len` is the size of the runner's buffer, which need not be aligned.
    unsafe {
        let capacity = *len as usize;
        let count = capacity.min(size_of::<sockaddr_in>());
        std::ptr::from_ref(&address).cast::<u8>().copy_to(to.cast(), count);
        *len = socklen_t::try_from(size_of::<sockaddr_in>()).unwrap_or(socklen_t::MAX);
    }
}

extern "C" fn free(_: Data) {
    // The process ends next, which closes the descriptors.
}

extern "C" fn socket(data: Data, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    answer_number(scheduler(data).call(|world| world.socket(domain, kind, protocol)))
}

extern "C" fn bind(data: Data, fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    let address = read_address(address, len);
    answer(scheduler(data).call(|world| {
        let address = address.ok_or(Errno(libc::EAFNOSUPPORT))?;
        world.stream(fd)?.0.bind(address.port())
    }))
}

extern "C" fn listen(data: Data, fd: c_int, _backlog: c_int) -> c_int {
    answer(scheduler(data).call(|world| {
        let (stream, host) = world.stream(fd)?;
        stream.listen(host)
    }))
}

extern "C" fn accept(data: Data, fd: c_int, peer: *mut sockaddr, len: *mut socklen_t) -> c_int {
    match or_exit(scheduler(data).call_or_sleep(|world| world.accept(fd))) {
        Ok((fd, address)) => {
            write_address(address, peer, len);
            fd
        }
        Err(error) => fail(error),
    }
}

extern "C" fn connect(data: Data, fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    let remote = read_address(address, len);
    let result = scheduler(data).call_or_sleep(|world| {
        let (stream, host) = match world.stream(fd) {
            Ok(found) => found,
            Err(error) => return Attempt::Done(Err(error)),
        };
        match remote {
            Some(remote) => stream.connect(host, remote),
            None => {
                stream.disconnect(host);
                Attempt::Done(Ok(()))
            }
        }
    });
    answer(or_exit(result))
}

fn receive(data: Data, fd: c_int, buffer: &mut [u8], flags: c_int) -> Result<usize, Errno> {
    or_exit(scheduler(data).call_or_sleep(|world| world.read(fd, buffer, flags)))
}

fn transmit(data: Data, fd: c_int, bytes: &[u8], flags: c_int) -> Result<usize, Errno> {
    let mut sent = 0;
    or_exit(scheduler(data).call_or_sleep(|world| world.write(fd, bytes, flags, &mut sent)))
}

/// Receives data into the buffers of an `iovec` array, in their order.
fn receive_parts(data: Data, fd: c_int, into: &[iovec], flags: c_int) -> Result<usize, Errno> {
    let mut buffer = vec![0; into.iter().map(|part| part.iov_len).sum()];
    let count = receive(data, fd, &mut buffer, flags)?;
    let mut rest = buffer.get(..count).unwrap_or_default();
    for part in into {
        // SAFETY: the runner's parts are writable, for exclusive use by this call.
        let target = unsafe { bytes_mut(part.iov_base, part.iov_len) };
        let (now, later) = rest.split_at(rest.len().min(target.len()));
        for (to, from) in target.iter_mut().zip(now) {
            *to = *from;
        }
        rest = later;
    }
    Ok(count)
}

fn transmit_parts(data: Data, fd: c_int, from: &[iovec], flags: c_int) -> Result<usize, Errno> {
    let mut buffer = Vec::new();
    for part in from {
        // SAFETY: the runner's parts are unchanged for the duration of the call.
        buffer.extend_from_slice(unsafe { bytes(part.iov_base, part.iov_len) });
    }
    transmit(data, fd, &buffer, flags)
}

extern "C" fn read(data: Data, fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t {
    recv(data, fd, buffer, len, 0)
}

extern "C" fn readv(data: Data, fd: c_int, vector: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the runner passes as many parts as `count` says.
    let vector = unsafe { parts(vector, usize::try_from(count).unwrap_or(0)) };
    answer_count(receive_parts(data, fd, vector, 0))
}

extern "C" fn recv(
    data: Data,
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the runner's buffer is for exclusive use by this call.
    let buffer = unsafe { bytes_mut(buffer, len) };
    answer_count(receive(data, fd, buffer, flags))
}

extern "C" fn recvfrom(
    data: Data,
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    flags: c_int,
    _source: *mut sockaddr,
    _source_len: *mut socklen_t,
) -> ssize_t {
    // For a stream socket, the source address is not returned.
    recv(data, fd, buffer, len, flags)
}

extern "C" fn recvmsg(data: Data, fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the runner passes a message with as many parts as it says.
    let vector = unsafe {
        (*message).msg_controllen = 0;
        (*message).msg_flags = 0;
        parts((*message).msg_iov, (*message).msg_iovlen)
    };
    answer_count(receive_parts(data, fd, vector, flags))
}

extern "C" fn write(data: Data, fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t {
    send(data, fd, buffer, len, 0)
}

extern "C" fn writev(data: Data, fd: c_int, vector: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the runner passes as many parts as `count` says.
    let vector = unsafe { parts(vector, usize::try_from(count).unwrap_or(0)) };
    answer_count(transmit_parts(data, fd, vector, 0))
}

extern "C" fn send(
    data: Data,
    fd: c_int,
    buffer: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the runner's buffer is unchanged for the duration of the call.
    let buffer = unsafe { bytes(buffer, len) };
    answer_count(transmit(data, fd, buffer, flags))
}

extern "C" fn sendto(
    data: Data,
    fd: c_int,
    buffer: *const c_void,
    len: size_t,
    flags: c_int,
    _address: *const sockaddr,
    _address_len: socklen_t,
) -> ssize_t {
    if flags & libc::MSG_FASTOPEN != 0 {
        return answer_count(Err(Errno(libc::EOPNOTSUPP)));
    }
    send(data, fd, buffer, len, flags)
}

extern "C" fn sendmsg(data: Data, fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the runner passes a message with as many parts as it says.
    let vector = unsafe { parts((*message).msg_iov, (*message).msg_iovlen) };
    answer_count(transmit_parts(data, fd, vector, flags))
}

extern "C" fn fcntl(data: Data, fd: c_int, command: c_int, argument: c_long) -> c_int {
    let flags = c_int::try_from(argument & 0x7FFF_FFFF).unwrap_or(0);
    answer_number(scheduler(data).call(|world| {
        let stream = world.stream(fd)?.0;
        match command {
            libc::F_GETFL if stream.is_nonblocking => Ok(libc::O_RDWR | libc::O_NONBLOCK),
            libc::F_GETFL => Ok(libc::O_RDWR),
            libc::F_SETFL => {
                stream.is_nonblocking = flags & libc::O_NONBLOCK != 0;
                Ok(0)
            }
            libc::F_GETFD | libc::F_SETFD => Ok(0),
            _ => Err(Errno(libc::EINVAL)),
        }
    }))
}

extern "C" fn ioctl(data: Data, fd: c_int, request: c_ulong, value: *mut c_int) -> c_int {
    let result = scheduler(data).call(|world| {
        let (stream, host) = world.stream(fd)?;
        if matches!(stream.phase, Phase::Listening(_)) {
            return Err(Errno(libc::EINVAL));
        }
        let status = stream.status(host);
        match request {
            libc::FIONREAD => {
                let waiting = status.map_or(0, |status| status.receive_queue);
                // Linux's socket lists count an unread FIN as a byte; the result of FIONREAD does
                // not.
                Ok(c_int::try_from(waiting).unwrap_or(c_int::MAX))
            }
            libc::TIOCOUTQ => {
                let waiting = status.map_or(0, |status| status.send_queue);
                Ok(c_int::try_from(waiting).unwrap_or(c_int::MAX))
            }
            _ => Err(Errno(libc::EINVAL)),
        }
    });
    match result {
        Ok(_) if value.is_null() => fail(Errno(libc::EFAULT)),
        Ok(number) => {
            // SAFETY: the runner passes space for one number.
            unsafe { *value = number };
            0
        }
        Err(error) => fail(error),
    }
}

extern "C" fn close(data: Data, fd: c_int) -> c_int {
    answer(scheduler(data).call(|world| world.close(fd)))
}

extern "C" fn shutdown(data: Data, fd: c_int, how: c_int) -> c_int {
    answer(scheduler(data).call(|world| {
        let (stream, host) = world.stream(fd)?;
        stream.shut_down(host, how)
    }))
}

extern "C" fn getsockopt(
    data: Data,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let result = scheduler(data).call(|world| {
        let (stream, host) = world.stream(fd)?;
        stream.option(host, (level, name))
    });
    let found = match result {
        Ok(found) => found,
        Err(error) => return fail(error),
    };
    if len.is_null() {
        return fail(Errno(libc::EFAULT));
    }
    // SAFETY: the runner passes a buffer of the length in `len`.
    unsafe {
        let target = bytes_mut(value, *len as usize);
        target.iter_mut().zip(&found).for_each(|(to, from)| *to = *from);
        *len = socklen_t::try_from(found.len().min(target.len())).unwrap_or(0);
    }
    0
}

extern "C" fn setsockopt(
    data: Data,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    // SAFETY: the runner's value is unchanged for the duration of the call.
    let value = unsafe { bytes(value, len as usize) };
    answer(scheduler(data).call(|world| {
        let (stream, host) = world.stream(fd)?;
        stream.set_option(host, (level, name), value)
    }))
}

/// Returns the time at which a call with `timeout` in milliseconds times out; `None` if `timeout`
/// is negative, which means no timeout.
fn deadline_after(data: Data, timeout: c_int) -> Option<net::Instant> {
    let millis = u64::try_from(timeout).ok()?;
    Some(scheduler(data).call(|world| world.now()) + Duration::from_millis(millis))
}

extern "C" fn poll(data: Data, fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    let deadline = deadline_after(data, timeout);
    let fds = if fds.is_null() {
        &mut []
    } else {
        // SAFETY: the runner passes as many entries as `count` says, for exclusive use by this
        // call.
        unsafe { std::slice::from_raw_parts_mut(fds, usize::try_from(count).unwrap_or(0)) }
    };
    let ready = or_exit(scheduler(data).call_or_sleep(|world| {
        for entry in fds.iter_mut() {
            let always_reported = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
            entry.revents = world.readiness(entry.fd) & (entry.events | always_reported);
        }
        let ready = fds.iter().filter(|entry| entry.revents != 0).count();
        if ready > 0 || deadline.is_some_and(|deadline| deadline <= world.now()) {
            Attempt::Done(ready)
        } else {
            Attempt::Blocked(deadline)
        }
    }));
    c_int::try_from(ready).unwrap_or(c_int::MAX)
}

extern "C" fn netdev_send(data: Data, packet: *const c_void, len: size_t) -> c_int {
    // SAFETY: the runner's packet is unchanged for the duration of the call.
    scheduler(data).inject(unsafe { bytes(packet, len) });
    0
}

extern "C" fn netdev_receive(
    data: Data,
    packet: *mut c_void,
    len: *mut size_t,
    time_usecs: *mut c_longlong,
) -> c_int {
    let sent = or_exit(scheduler(data).next_sent());
    let micros = sent.at.as_nanos() / 1000;
    // SAFETY: the runner passes a buffer of the length in `len`, and space for both numbers.
    unsafe {
        let target = bytes_mut(packet, *len);
        target.iter_mut().zip(&sent.bytes).for_each(|(to, from)| *to = *from);
        *len = sent.bytes.len().min(target.len());
        *time_usecs = c_longlong::try_from(micros).unwrap_or(c_longlong::MAX);
    }
    0
}

extern "C" fn usleep(data: Data, micros: c_uint) -> c_int {
    scheduler(data).sleep(Duration::from_micros(micros.into()));
    0
}

extern "C" fn gettimeofday(data: Data, time: *mut libc::timeval, _zone: *mut c_void) -> c_int {
    let micros = scheduler(data).read_clock().as_nanos() / 1000;
    let part = |micros: u64| c_long::try_from(micros).unwrap_or(c_long::MAX);
    let now = libc::timeval { tv_sec: part(micros / 1_000_000), tv_usec: part(micros % 1_000_000) };
    // SAFETY: the runner passes space for a time.
    unsafe { time.write(now) };
    0
}

extern "C" fn epoll_create(data: Data, _size: c_int) -> c_int {
    answer_number(scheduler(data).call(World::epoll_create))
}

extern "C" fn epoll_ctl(
    data: Data,
    set: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    let (events, token) = if event.is_null() {
        (0, 0)
    } else {
        // SAFETY: the runner passes an event.
        let event = unsafe { event.read_unaligned() };
        (event.events, event.u64)
    };
    answer(
        scheduler(data).call(|world| world.interests(set)?.control(operation, fd, events, token)),
    )
}

extern "C" fn epoll_wait(
    data: Data,
    set: c_int,
    events: *mut epoll_event,
    events_max: c_int,
    timeout: c_int,
) -> c_int {
    let deadline = deadline_after(data, timeout);
    let events_max = usize::try_from(events_max).unwrap_or(0);
    let result = or_exit(scheduler(data).call_or_sleep(|world| {
        match epoll_wait::collect(world, set, events_max) {
            Ok(reports)
                if reports.is_empty() && deadline.is_none_or(|deadline| deadline > world.now()) =>
            {
                Attempt::Blocked(deadline)
            }
            other => Attempt::Done(other),
        }
    }));
    let reports = match result {
        Ok(reports) => reports,
        Err(error) => return fail(error),
    };
    for (at, (bits, token)) in reports.iter().enumerate() {
        // SAFETY: there are at most as many events as fit in the runner's array.
        unsafe { events.add(at).write_unaligned(epoll_event { events: *bits, u64: *token }) };
    }
    c_int::try_from(reports.len()).unwrap_or(c_int::MAX)
}

extern "C" fn pipe(data: Data, ends: *mut c_int) -> c_int {
    match scheduler(data).call(World::pipe) {
        Ok(pair) => {
            // SAFETY: the runner passes space for two numbers.
            unsafe { ends.cast::<[c_int; 2]>().write_unaligned(pair) };
            0
        }
        Err(error) => fail(error),
    }
}

extern "C" fn splice(
    data: Data,
    from: c_int,
    _from_offset: *mut libc::loff_t,
    to: c_int,
    _to_offset: *mut libc::loff_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    let is_nonblocking = flags & libc::SPLICE_F_NONBLOCK != 0;
    let flags = if is_nonblocking { libc::MSG_DONTWAIT } else { 0 };
    answer_count(or_exit(scheduler(data).call_or_sleep(|world| world.splice(from, to, len, flags))))
}
