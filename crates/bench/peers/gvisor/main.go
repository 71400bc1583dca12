// gVisor's netstack on a TUN or a packet socket, as a server for the stack benchmark.
//
// netstack runs with auto-tuned buffers of at most 8 MiB, CUBIC and SACK. On a packet socket the
// kernel segments packets and verifies checksums (PACKET_VNET_HDR), and netstack coalesces received
// packets (GRO). On a TUN it uses no offloads.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/link/tun"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

const (
	nic        = 1
	port       = 7000
	prefixBits = 24
	bufferMax  = 8 << 20
	gsoMax     = 65536
)

func main() {
	attach := flag.String("attach", "", "tun:NAME or packet:IFACE")
	address := flag.String("address", "", "own IPv4 address")
	mode := flag.String("mode", "echo", "sink, source or echo")
	mtu := flag.Uint("mtu", 1500, "MTU in bytes")
	buffers := flag.Int("buffers", 4<<20, "bytes of a buffer at the start")
	flag.Int("connections", 1, "accepted, and of no influence")
	flag.Bool("spin", false, "accepted, and of no influence: it always blocks")
	flag.Parse()
	if err := serve(*attach, *address, *mode, uint32(*mtu), *buffers); err != nil {
		fmt.Fprintln(os.Stderr, "gvisor-server:", err)
		os.Exit(1)
	}
}

func serve(attach, address, mode string, mtu uint32, buffers int) error {
	link, err := open(attach, mtu)
	if err != nil {
		return err
	}
	own := tcpip.AddrFromSlice(net.ParseIP(address).To4())
	s, err := newStack(link, own, buffers)
	if err != nil {
		return err
	}
	listener, err := gonet.ListenTCP(s, tcpip.FullAddress{NIC: nic, Addr: own, Port: port}, header.IPv4ProtocolNumber)
	if err != nil {
		return err
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go use(connection, mode)
		}
	}()
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	var used unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &used); err != nil {
		return err
	}
	fmt.Printf("%.6f\n", float64(used.Nano())/1e9)
	return nil
}

func newStack(link stack.LinkEndpoint, own tcpip.Address, buffers int) (*stack.Stack, error) {
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	congestion := tcpip.CongestionControlOption("cubic")
	sack := tcpip.TCPSACKEnabled(true)
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4096, Default: buffers, Max: bufferMax}
	send := tcpip.TCPSendBufferSizeRangeOption{Min: 4096, Default: buffers, Max: bufferMax}
	moderate := tcpip.TCPModerateReceiveBufferOption(true)
	for _, option := range []tcpip.SettableTransportProtocolOption{
		&congestion, &sack, &receive, &send, &moderate,
	} {
		if err := s.SetTransportProtocolOption(tcp.ProtocolNumber, option); err != nil {
			return nil, fmt.Errorf("option %T: %v", option, err)
		}
	}
	if err := s.CreateNIC(nic, link); err != nil {
		return nil, fmt.Errorf("CreateNIC: %v", err)
	}
	prefix := tcpip.AddressWithPrefix{Address: own, PrefixLen: prefixBits}
	protocolAddress := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: prefix}
	if err := s.AddProtocolAddress(nic, protocolAddress, stack.AddressProperties{}); err != nil {
		return nil, fmt.Errorf("AddProtocolAddress: %v", err)
	}
	s.SetRouteTable([]tcpip.Route{{Destination: prefix.Subnet(), NIC: nic}})
	return s, nil
}

func open(attach string, mtu uint32) (stack.LinkEndpoint, error) {
	kind, name, _ := strings.Cut(attach, ":")
	switch kind {
	case "tun":
		descriptor, err := tun.Open(name)
		if err != nil {
			return nil, fmt.Errorf("TUN %s: %w", name, err)
		}
		return fdbased.New(&fdbased.Options{FDs: []int{descriptor}, MTU: mtu})
	case "packet":
		return openPacket(name, mtu)
	}
	return nil, errors.New("--attach takes tun:NAME or packet:IFACE")
}

func openPacket(name string, mtu uint32) (stack.LinkEndpoint, error) {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	protocol := uint16(unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00)
	descriptor, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, int(protocol))
	if err != nil {
		return nil, err
	}
	if err := unix.SetsockoptInt(descriptor, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		return nil, err
	}
	const queue = 4 << 20
	// SO_RCVBUFFORCE and SO_SNDBUFFORCE may exceed the limit for unprivileged processes. Without the
	// required privilege they fail, and the buffers keep their default sizes.
	_ = unix.SetsockoptInt(descriptor, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, queue)
	_ = unix.SetsockoptInt(descriptor, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, queue)
	place := unix.SockaddrLinklayer{Protocol: protocol, Ifindex: device.Index}
	if err := unix.Bind(descriptor, &place); err != nil {
		return nil, err
	}
	// TXChecksumOffload is not set: netstack would omit the checksums of packets that need no
	// segmentation, without a request to the kernel to add them.
	return fdbased.New(&fdbased.Options{
		FDs:                []int{descriptor},
		MTU:                mtu,
		EthernetHeader:     true,
		Address:            tcpip.LinkAddress(device.HardwareAddr),
		PacketDispatchMode: fdbased.RecvMMsg,
		GSOMaxSize:         gsoMax,
		RXChecksumOffload:  true,
		GRO:                true,
	})
}

func use(connection net.Conn, mode string) {
	defer connection.Close()
	size := 1 << 20
	if mode == "echo" {
		size = 4 << 10
	}
	data := make([]byte, size)
	for {
		count, err := size, error(nil)
		if mode != "source" {
			count, err = connection.Read(data)
		}
		if err == nil && mode != "sink" {
			_, err = connection.Write(data[:count])
		}
		if err != nil {
			return
		}
	}
}
