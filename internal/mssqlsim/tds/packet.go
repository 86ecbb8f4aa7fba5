package tds

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Packet types: what a client sends, and the one type of every answer.
const (
	packetBatch       = 0x01
	packetRPC         = 0x03
	packetReply       = 0x04
	packetAttention   = 0x06
	packetTransaction = 0x0E
	packetLogin7      = 0x10
	packetPrelogin    = 0x12
)

// Bits of a packet's status.
const (
	statusEnd       = 0x01 // last packet of the message
	statusIgnore    = 0x02
	statusReset     = 0x08
	statusResetKeep = 0x10 // reset, but keep the transaction
)

const (
	headerSize = 8

	minPacketSize     = 512
	defaultPacketSize = 4096
	maxPacketSize     = 32767
	maxTLSPacketSize  = 16383

	maxLoginBytes   = 128 << 10 // the protocol's own limit for LOGIN7
	maxMessageBytes = 64 << 20
)

// errMalformed is the class of everything that cannot be TDS.
var errMalformed = errors.New("tds: malformed message")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errMalformed, fmt.Sprintf(format, args...))
}

// message is a whole client message, put together from its packets.
type message struct {
	kind   byte
	status byte // of the first packet: the driver repeats the reset bit on all
	body   []byte
}

// readMessage reads packets until one says that it is the last.
func readMessage(r io.Reader, limit int) (message, error) {
	var m message
	for first := true; ; first = false {
		kind, status, body, err := readPacket(r)
		if err != nil {
			return message{}, err
		}
		if first {
			m.kind, m.status = kind, status
		}
		switch {
		case kind != m.kind:
			return message{}, malformed("packet type %#x inside a message of type %#x", kind, m.kind)
		case len(m.body)+len(body) > limit:
			return message{}, malformed("message longer than %d bytes", limit)
		case status&statusIgnore != 0:
			return message{}, malformed("cancelled by the ignore bit, which no known driver uses")
		}
		m.body = append(m.body, body...)
		if status&statusEnd != 0 {
			return m, nil
		}
	}
}

func readPacket(r io.Reader) (kind, status byte, body []byte, err error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, 0, nil, err
	}
	size := int(binary.BigEndian.Uint16(header[2:]))
	if size < headerSize {
		return 0, 0, nil, malformed("packet of %d bytes", size)
	}
	switch header[0] {
	case packetBatch, packetRPC, packetAttention, packetTransaction, packetLogin7, packetPrelogin:
	default:
		// Checked before the body is awaited: garbage announces any length.
		return 0, 0, nil, malformed("packet type %#x", header[0])
	}
	body = make([]byte, size-headerSize)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, 0, nil, err
	}
	return header[0], header[1], body, nil
}

// packetWriter cuts one answer into packets. Packets leave when they are full,
// at flush and at the end; or, in keep mode, all together at the end.
type packetWriter struct {
	w    io.Writer
	size int // negotiated, header included
	spid uint16

	keep bool // hold full packets back until finish
	body []byte
	out  []byte // kept packets
	next byte   // packet number
	err  error  // of the first failed write; everything after it is dropped
}

func (p *packetWriter) begin() {
	p.body, p.out, p.next, p.err = p.body[:0], p.out[:0], 1, nil
}

// write takes over complete tokens; emit leaves at least one byte for the last
// packet, because an answer must not end with an empty one.
func (p *packetWriter) write(token []byte) {
	p.body = append(p.body, token...)
	for len(p.body) > p.size-headerSize {
		p.emit(p.size-headerSize, 0)
	}
}

func (p *packetWriter) flush() {
	if len(p.body) > 0 {
		p.emit(len(p.body), 0)
	}
}

// finish sends the last packet, and returns the error of the whole answer.
func (p *packetWriter) finish() error {
	p.end()
	p.send()
	return p.err
}

// end makes the last packet without sending it if packets are kept.
func (p *packetWriter) end() { p.emit(len(p.body), statusEnd) }

func (p *packetWriter) emit(n int, status byte) {
	size := n + headerSize
	p.out = append(p.out, packetReply, status, byte(size>>8), byte(size), byte(p.spid>>8), byte(p.spid), p.next, 0)
	p.out = append(p.out, p.body[:n]...)
	p.body = p.body[:copy(p.body, p.body[n:])]
	p.next++
	if !p.keep {
		p.send()
	}
}

// send writes one packet at a time: one is one TCP segment or TLS record, as
// the real server does it.
func (p *packetWriter) send() {
	for out := p.out; len(out) > 0 && p.err == nil; {
		size := binary.BigEndian.Uint16(out[2:])
		_, p.err = p.w.Write(out[:size])
		out = out[size:]
	}
	p.out = p.out[:0]
}
