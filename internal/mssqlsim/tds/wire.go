package tds

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// wire is the socket of a connection, with the faults of AtWire in between.
type wire struct {
	net.Conn
	conn *conn

	mu    sync.Mutex
	ahead []byte // read before anybody asked for it
}

// Read waits in a black hole after the bytes have come, Write before they go.
func (w *wire) Read(b []byte) (int, error) {
	w.mu.Lock()
	if len(w.ahead) > 0 {
		defer w.mu.Unlock()
		n := copy(b, w.ahead)
		w.ahead = w.ahead[n:]
		return n, nil
	}
	w.mu.Unlock()
	n, err := w.Conn.Read(b)
	w.conn.crossWire(effectSilence)
	return n, err
}

func (w *wire) Write(b []byte) (int, error) {
	w.conn.crossWire(effectSilence)
	w.conn.crossWire(effectDelay)
	return w.Conn.Write(b)
}

// unread gives back what was read to have a look.
func (w *wire) unread(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead = append(slices.Clip(b), w.ahead...)
}

// listen reads ahead until the client hangs up or stop is called, while nobody
// else reads: so that a connection held before its login ends with its client.
func (w *wire) listen() (stop func()) {
	var reading sync.WaitGroup
	reading.Go(func() {
		b := make([]byte, 4096)
		for {
			n, err := w.Conn.Read(b)
			w.mu.Lock()
			w.ahead = append(w.ahead, b[:n]...)
			flood := len(w.ahead) > maxLoginBytes
			w.mu.Unlock()
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return // stop
			}
			if err != nil || flood {
				w.conn.disconnect(ErrDisconnected)
				return
			}
		}
	})
	return func() {
		_ = w.SetReadDeadline(time.Unix(1, 0)) // the long past: Read returns
		reading.Wait()
		_ = w.SetReadDeadline(time.Time{})
	}
}

// handshake carries the records of a TLS handshake inside of PRELOGIN packets,
// and after it bare.
type handshake struct {
	net.Conn
	rest []byte // of the packet read last
	over bool
}

func (h *handshake) Read(b []byte) (int, error) {
	if h.over {
		return h.Conn.Read(b)
	}
	for len(h.rest) == 0 {
		kind, _, body, err := readPacket(h.Conn)
		if err != nil {
			return 0, err
		}
		if kind != packetPrelogin {
			return 0, malformed("packet type %#x in a TLS handshake", kind)
		}
		h.rest = body
	}
	n := copy(b, h.rest)
	h.rest = h.rest[n:]
	return n, nil
}

// Write sends one message for one flight: the driver reads no further than to
// the end of a message.
func (h *handshake) Write(b []byte) (int, error) {
	if h.over {
		return h.Conn.Write(b)
	}
	var out []byte
	for rest, number := b, byte(1); len(rest) > 0; number++ {
		n := min(len(rest), defaultPacketSize-headerSize)
		status := byte(0)
		if n == len(rest) {
			status = statusEnd
		}
		out = append(out, packetPrelogin, status)
		out = binary.BigEndian.AppendUint16(out, uint16(n+headerSize))
		out = append(out, 0, 0, number, 0)
		out = append(out, rest[:n]...)
		rest = rest[n:]
	}
	if _, err := h.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// wrapTLS does the handshake inside of the protocol and returns the encrypted
// connection.
func wrapTLS(c net.Conn, config *tls.Config) (net.Conn, error) {
	h := &handshake{Conn: c}
	encrypted := tls.Server(h, config)
	if err := encrypted.Handshake(); err != nil {
		return nil, err
	}
	h.over = true
	return encrypted, nil
}
