//! Descriptors: the sockets, epoll sets and pipes to which they refer, and the calls on them.

use crate::attempt::Attempt;
use crate::errno::Errno;
use crate::host_under_test::{Host, SentDatagram};
use crate::interests::Interests;
use crate::readiness;
use crate::script_settings::Flags;
use crate::socket::Stream;
use net::Instant;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

/// The object to which a descriptor refers.
#[derive(Debug)]
pub(crate) enum DescriptorObject {
    /// A stream socket.
    Stream(Stream),
    /// An epoll set.
    Interests(Interests),
    /// The read end of the pipe with this number.
    PipeReader(usize),
    /// The write end of the pipe with this number.
    PipeWriter(usize),
}

/// A descriptor known to the runner. It is a real descriptor, because at the end of the script the
/// runner closes the descriptors that the script left open.
#[derive(Debug)]
struct Descriptor {
    object: DescriptorObject,
    /// A real descriptor with the same number, which reserves the number until the script closes
    /// it.
    _real: OwnedFd,
}

/// The host under test and the descriptors of the script's process.
#[derive(Debug)]
pub(crate) struct World {
    host: Host,
    flags: Flags,
    descriptors: BTreeMap<i32, Descriptor>,
    pipes: Vec<VecDeque<u8>>,
    /// The table of connections last written to the file `sockstat`.
    published: String,
}

/// Capacity of a pipe in bytes: Linux's default.
const PIPE_CAPACITY: usize = 65_536;

impl World {
    /// Creates a world without descriptors.
    pub(crate) fn new(flags: Flags) -> Self {
        Self {
            host: Host::new(&flags),
            flags,
            descriptors: BTreeMap::new(),
            pipes: Vec::new(),
            published: String::new(),
        }
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Instant {
        self.host.now()
    }

    /// Returns the time of the next timer.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.host.deadline()
    }

    /// Advances the time to `now`.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.host.advance(now);
        self.settle();
    }

    /// Completes a call: sends pending output and writes the table of connections.
    pub(crate) fn settle(&mut self) {
        self.host.flush();
        self.publish();
    }

    /// Writes the table of connections to a file for the script's program `sockstat`, if the table
    /// has changed.
    fn publish(&mut self) {
        let Some(directory) = &self.flags.directory else { return };
        let table = self.host.table();
        if table != self.published {
            // If writing fails, a script that reads the table finds none.
            let _ = std::fs::write(directory.join("sockstat"), &table);
            self.published = table;
        }
    }

    /// Injects a packet from the script.
    pub(crate) fn inject(&mut self, bytes: &[u8]) {
        self.host.inject(bytes);
    }

    /// Removes and returns the next sent packet.
    pub(crate) fn next_sent(&mut self) -> Option<SentDatagram> {
        self.host.next_sent()
    }

    /// Returns whether [`Self::next_sent`] would return a packet.
    pub(crate) fn has_sent(&self) -> bool {
        self.host.has_sent()
    }

    fn add(&mut self, object: DescriptorObject) -> Result<i32, Errno> {
        let real = File::open("/dev/null").map_err(|_| Errno(libc::EMFILE))?;
        let fd = real.as_raw_fd();
        self.descriptors.insert(fd, Descriptor { object, _real: real.into() });
        Ok(fd)
    }

    fn object(&mut self, fd: i32) -> Result<&mut DescriptorObject, Errno> {
        self.descriptors
            .get_mut(&fd)
            .map(|descriptor| &mut descriptor.object)
            .ok_or(Errno(libc::EBADF))
    }

    /// Returns the stream socket `fd` and the host.
    pub(crate) fn stream(&mut self, fd: i32) -> Result<(&mut Stream, &mut Host), Errno> {
        match self.descriptors.get_mut(&fd).map(|descriptor| &mut descriptor.object) {
            Some(DescriptorObject::Stream(stream)) => Ok((stream, &mut self.host)),
            Some(_) => Err(Errno(libc::ENOTSOCK)),
            None => Err(Errno(libc::EBADF)),
        }
    }

    /// Implements socket(2).
    pub(crate) fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Result<i32, Errno> {
        if domain != libc::AF_INET {
            return Err(Errno(libc::EAFNOSUPPORT));
        }
        if kind & 0xF != libc::SOCK_STREAM || ![0, libc::IPPROTO_TCP].contains(&protocol) {
            return Err(Errno(libc::EPROTONOSUPPORT));
        }
        let mut stream = Stream::new(&self.flags, self.flags.sysctl());
        stream.is_nonblocking = kind & libc::SOCK_NONBLOCK != 0;
        self.add(DescriptorObject::Stream(stream))
    }

    /// Implements accept(2); returns the new descriptor and the peer's address.
    pub(crate) fn accept(&mut self, fd: i32) -> Attempt<Result<(i32, SocketAddr), Errno>> {
        let accepted = match self.stream(fd) {
            Ok((stream, host)) => stream.accept(host),
            Err(error) => return Attempt::Done(Err(error)),
        };
        match accepted {
            Attempt::Done(Ok((stream, peer))) => {
                Attempt::Done(self.add(DescriptorObject::Stream(stream)).map(|fd| (fd, peer)))
            }
            Attempt::Done(Err(error)) => Attempt::Done(Err(error)),
            Attempt::Blocked(until) => Attempt::Blocked(until),
        }
    }

    /// Implements read(2) and recv(2).
    pub(crate) fn read(
        &mut self,
        fd: i32,
        buffer: &mut [u8],
        flags: i32,
    ) -> Attempt<Result<usize, Errno>> {
        match self.object(fd) {
            Ok(DescriptorObject::PipeReader(pipe)) => {
                let pipe = *pipe;
                Attempt::Done(self.read_pipe(pipe, buffer))
            }
            Ok(DescriptorObject::Stream(_)) => match self.stream(fd) {
                Ok((stream, host)) => stream.read(host, buffer, flags),
                Err(error) => Attempt::Done(Err(error)),
            },
            Ok(_) => Attempt::Done(Err(Errno(libc::EINVAL))),
            Err(error) => Attempt::Done(Err(error)),
        }
    }

    /// Implements write(2) and send(2). `sent` is the number of bytes of `data` accepted by earlier
    /// attempts of the same call.
    pub(crate) fn write(
        &mut self,
        fd: i32,
        data: &[u8],
        flags: i32,
        sent: &mut usize,
    ) -> Attempt<Result<usize, Errno>> {
        match self.object(fd) {
            Ok(DescriptorObject::PipeWriter(pipe)) => {
                let pipe = *pipe;
                Attempt::Done(self.write_pipe(pipe, data))
            }
            Ok(DescriptorObject::Stream(_)) => match self.stream(fd) {
                Ok((stream, host)) => stream.write(host, data, flags, sent),
                Err(error) => Attempt::Done(Err(error)),
            },
            Ok(_) => Attempt::Done(Err(Errno(libc::EINVAL))),
            Err(error) => Attempt::Done(Err(error)),
        }
    }

    /// Implements close(2).
    pub(crate) fn close(&mut self, fd: i32) -> Result<(), Errno> {
        let descriptor = self.descriptors.remove(&fd).ok_or(Errno(libc::EBADF))?;
        if let DescriptorObject::Stream(stream) = descriptor.object {
            stream.close(&mut self.host);
        }
        Ok(())
    }

    /// Implements pipe(2); returns the descriptors of the read end and the write end.
    pub(crate) fn pipe(&mut self) -> Result<[i32; 2], Errno> {
        let number = self.pipes.len();
        self.pipes.push(VecDeque::new());
        Ok([
            self.add(DescriptorObject::PipeReader(number))?,
            self.add(DescriptorObject::PipeWriter(number))?,
        ])
    }

    fn read_pipe(&mut self, pipe: usize, buffer: &mut [u8]) -> Result<usize, Errno> {
        let pipe_data = self.pipes.get_mut(pipe).ok_or(Errno(libc::EBADF))?;
        let count = pipe_data.len().min(buffer.len());
        if count == 0 && !buffer.is_empty() {
            return Err(Errno(libc::EAGAIN));
        }
        for (to, from) in buffer.iter_mut().zip(pipe_data.drain(..count)) {
            *to = from;
        }
        Ok(count)
    }

    fn write_pipe(&mut self, pipe: usize, data: &[u8]) -> Result<usize, Errno> {
        let pipe_data = self.pipes.get_mut(pipe).ok_or(Errno(libc::EBADF))?;
        let count = data.len().min(PIPE_CAPACITY - pipe_data.len());
        if count == 0 && !data.is_empty() {
            return Err(Errno(libc::EAGAIN));
        }
        pipe_data.extend(data.iter().take(count));
        Ok(count)
    }

    /// Implements splice(2): moves at most `limit` bytes from `from` to `to`.
    pub(crate) fn splice(
        &mut self,
        from: i32,
        to: i32,
        limit: usize,
        flags: i32,
    ) -> Attempt<Result<usize, Errno>> {
        let mut held = vec![0; limit.min(PIPE_CAPACITY)];
        let read = match self.read(from, &mut held, flags) {
            Attempt::Done(Ok(count)) => held.get(..count).unwrap_or_default(),
            other => return other,
        };
        self.write(to, read, libc::MSG_DONTWAIT, &mut 0)
    }

    /// Implements epoll_create(2).
    pub(crate) fn epoll_create(&mut self) -> Result<i32, Errno> {
        self.add(DescriptorObject::Interests(Interests::default()))
    }

    /// Returns the epoll set `fd`.
    pub(crate) fn interests(&mut self, fd: i32) -> Result<&mut Interests, Errno> {
        match self.object(fd)? {
            DescriptorObject::Interests(interests) => Ok(interests),
            _ => Err(Errno(libc::EINVAL)),
        }
    }

    /// Returns the readiness of `fd` as event bits of poll(2).
    pub(crate) fn readiness(&self, fd: i32) -> i16 {
        match self.descriptors.get(&fd).map(|descriptor| &descriptor.object) {
            Some(DescriptorObject::Stream(stream)) => readiness::of_stream(stream, &self.host),
            Some(DescriptorObject::PipeReader(pipe)) => {
                let is_empty = self.pipes.get(*pipe).is_none_or(VecDeque::is_empty);
                if is_empty { 0 } else { libc::POLLIN | libc::POLLRDNORM }
            }
            Some(DescriptorObject::PipeWriter(_)) => libc::POLLOUT | libc::POLLWRNORM,
            Some(DescriptorObject::Interests(_)) => 0,
            None => libc::POLLNVAL,
        }
    }
}
