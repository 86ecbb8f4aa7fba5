//go:build !unix

package tds

import (
	"net"
	"net/netip"
)

// port is a port that refuses connections because nobody listens. Elsewhere than on Unix somebody else may get it.
type port struct{ addr netip.AddrPort }

func reserve(addr netip.AddrPort) (*port, error) { return &port{addr}, nil }

func (p *port) listen() (net.Listener, error) { return net.Listen("tcp", p.addr.String()) }

func (p *port) release() {}
