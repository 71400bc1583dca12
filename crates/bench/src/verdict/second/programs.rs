//! Servers written in Python for the verdict benchmark's second generator of cases. Each server is
//! a script for `python3 -c`, takes its arguments after the script, and runs until it is killed.

/// A Telnet server (RFC 854) with echo and without go-ahead; each connection has a process and a
/// pseudo-terminal. Arguments: the login program, the address, the port.
pub(super) const TELNETD: &str = r#"
import os, pty, select, signal, socket, sys
program, address, port = sys.argv[1:]
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
IAC, WILL, ECHO, SGA, SB, SE = 255, 251, 1, 3, 250, 240

def from_network(data, state):
    text = bytearray()
    for byte in data:
        mode = state[0]
        if mode == 'data' and byte == IAC:
            state[0] = 'command'
        elif mode == 'data':
            if not (state[1] == 13 and byte in (0, 10)):
                text.append(byte)
            state[1] = byte
        elif mode == 'command' and byte == IAC:
            text.append(byte)
            state[0] = 'data'
        elif mode == 'command':
            state[0] = 'option' if 251 <= byte <= 254 else 'sub' if byte == SB else 'data'
        elif mode == 'option':
            state[0] = 'data'
        elif mode == 'sub':
            state[0] = 'sub end' if byte == IAC else 'sub'
        else:
            state[0] = 'data' if byte == SE else 'sub'
    return bytes(text)

def serve(connection):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(bytes([IAC, WILL, ECHO, IAC, WILL, SGA]))
    child, terminal = pty.fork()
    if child == 0:
        os.execv(program, [program])
    state = ['data', 0]
    while True:
        ready, _, _ = select.select([connection, terminal], [], [])
        if connection in ready:
            data = connection.recv(4096)
            if not data:
                break
            os.write(terminal, from_network(data, state))
        if terminal in ready:
            try:
                data = os.read(terminal, 4096)
            except OSError:
                break
            if not data:
                break
            connection.sendall(data.replace(b'\xff', b'\xff\xff'))

sessions = []

def end(*_):
    for session in sessions:
        try:
            os.kill(session, signal.SIGKILL)
        except ProcessLookupError:
            pass
    os._exit(0)

signal.signal(signal.SIGTERM, end)
listener = socket.create_server((address, int(port)), backlog=16)
while True:
    connection, _ = listener.accept()
    session = os.fork()
    sessions.append(session)
    if session == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        listener.close()
        try:
            serve(connection)
        except OSError:
            pass
        os._exit(0)
    connection.close()
"#;

/// pyftpdlib with a thread per session and without sendfile(2). Arguments: the directory, the
/// address, the port.
pub(super) const PYFTPDLIB: &str = "
import logging, sys
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import ThreadedFTPServer
logging.basicConfig(level=logging.ERROR)
root, address, port = sys.argv[1:]
users = DummyAuthorizer()
users.add_user('me', 'secret', root, perm='elradfmwMT')
FTPHandler.authorizer = users
FTPHandler.use_sendfile = False
ThreadedFTPServer((address, int(port)), FTPHandler).serve_forever()
";

/// A TFTP server: RFC 1350 with blksize (RFC 2348), or without options. Arguments: the directory,
/// the address, the port, and `options` or `plain`.
pub(super) const TFTPD: &str = r#"
import os, socket, sys, threading
root, address, port, mode = sys.argv[1:]

def answered(link, client, packet, block):
    for _ in range(6):
        link.sendto(packet, client)
        while True:
            try:
                reply, sender = link.recvfrom(1024)
            except socket.timeout:
                break
            if sender == client and reply[:2] == b'\0\5':
                return False
            if sender == client and reply[:4] == b'\0\4' + block.to_bytes(2, 'big'):
                return True
    return False

def serve(request, client):
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.bind((address, 0))
    link.settimeout(1)
    words = request[2:].split(b'\0')
    path = os.path.join(root, os.path.basename(os.fsdecode(words[0])))
    if request[:2] != b'\0\1' or not os.path.isfile(path):
        link.sendto(b'\0\5\0\1no such file\0', client)
        return
    options = {name.lower(): value for name, value in zip(words[2::2], words[3::2])}
    size = 512
    if mode == 'options' and b'blksize' in options:
        size = min(int(options[b'blksize']), 1428)
        accepted = b'\0\6blksize\0' + str(size).encode() + b'\0'
        if not answered(link, client, accepted, 0):
            return
    block = 0
    with open(path, 'rb') as file:
        while True:
            data = file.read(size)
            block = (block + 1) % 65536
            packet = b'\0\3' + block.to_bytes(2, 'big') + data
            if not answered(link, client, packet, block) or len(data) < size:
                return

server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((address, int(port)))
while True:
    request, client = server.recvfrom(1024)
    threading.Thread(target=serve, args=(request, client), daemon=True).start()
"#;
