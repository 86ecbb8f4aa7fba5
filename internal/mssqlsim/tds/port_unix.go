//go:build unix

package tds

import (
	"net"
	"net/netip"
	"os"
	"syscall"
)

// port is a port that refuses connections. It is bound, so that nobody else gets it meanwhile: neither another listener
// nor a client, not even one that dials this very port and would be connected to itself.
type port struct {
	fd   int
	file *os.File // over fd
}

func reserve(addr netip.AddrPort) (*port, error) {
	// No child process may keep it bound.
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	p := &port{fd: fd, file: os.NewFile(uintptr(fd), "port")}
	// Connections of before may still live there.
	err = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	if err == nil {
		err = os.NewSyscallError("bind", syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}))
	}
	if err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

// listen ends the refusing, and the reservation.
func (p *port) listen() (net.Listener, error) {
	defer p.release()
	if err := syscall.Listen(p.fd, 128); err != nil {
		return nil, os.NewSyscallError("listen", err)
	}
	return net.FileListener(p.file) // of its own descriptor
}

func (p *port) release() { _ = p.file.Close() }
