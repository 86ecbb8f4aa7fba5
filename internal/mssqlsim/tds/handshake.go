package tds

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// logIn goes from the first byte to the answered login. A message that cannot
// be TDS ends the connection without a word, as a server does.
func (c *conn) logIn() bool {
	if _, ok := c.sufferAll(AtAccept); !ok {
		return false
	}
	agreed, err := c.prelogin()
	if err != nil {
		return false
	}
	if _, ok := c.sufferAll(AtPrelogin); !ok {
		return false
	}
	if agreed != encryptNotSupported && c.transport == net.Conn(c.wire) {
		if c.transport, err = wrapTLS(c.wire, c.server.tls); err != nil {
			return false
		}
	}
	m, err := readMessage(c.transport, maxLoginBytes)
	if err != nil || m.kind != packetLogin7 {
		return false
	}
	login, err := parseLogin7(m.body)
	if err != nil {
		return false
	}
	if agreed == encryptOff {
		c.transport = c.wire // the login alone was to be encrypted
	}
	c.packets.w = c.transport
	login.Conn, login.Via, login.Encrypted = c.id, c.via, c.transport != net.Conn(c.wire)
	login.PacketSize = packetSizeFor(login)
	known := login.Login
	known.Password = ""
	c.login.Store(&known)
	return c.decide(login)
}

// prelogin reads and answers PRELOGIN, and returns what is agreed upon about
// encryption. In TDS 8 TLS comes first, and c.transport is encrypted already.
func (c *conn) prelogin() (agreed byte, err error) {
	const tlsHandshake = 0x16
	var first [1]byte
	if _, err := c.wire.Read(first[:]); err != nil {
		return 0, err
	}
	c.wire.unread(first[:])
	strict := first[0] == tlsHandshake
	if strict {
		if c.server.options.Encryption == EncryptionMissing {
			return 0, malformed("TLS, and there is no certificate")
		}
		config := c.server.tls.Clone()
		config.NextProtos = []string{"tds/8.0"}
		c.transport = tls.Server(c.wire, config)
	}
	m, err := readMessage(c.transport, maxLoginBytes)
	if err != nil {
		return 0, err
	}
	if m.kind != packetPrelogin {
		return 0, malformed("message type %#x before PRELOGIN", m.kind)
	}
	wish, err := parsePrelogin(m.body)
	if err != nil {
		return 0, err
	}
	agreed = c.server.agree(wish)
	if strict {
		agreed = encryptOn
	}
	c.packets.w = c.transport
	c.packets.begin()
	c.packets.write(appendPrelogin(nil, agreed))
	return agreed, c.packets.finish()
}

// agree answers a client's wish for encryption.
func (s *Server) agree(wish byte) byte {
	switch s.options.Encryption {
	case EncryptionMissing:
		return encryptNotSupported
	case EncryptionRequired:
		return encryptRequired
	default:
		return wish
	}
}

// decide lets the handler decide about the login, and answers it.
func (c *conn) decide(login login7) bool {
	refusal, ok := c.sufferAll(AtLogin)
	if !ok {
		return false
	}
	var err error
	if refusal == nil {
		c.session, err = c.server.handler.Login(c.ctx, login.Login)
	}
	var redirect *Redirect
	var b []byte
	switch {
	case errors.As(err, &redirect):
		b = appendEnvRouting(appendLoginAck(b, login), redirect)
		b = appendDone(b, tokenDone, 0, CommandNone, 0)
	case err != nil || refusal != nil:
		if refusal == nil {
			refusal = messagesOf(err, Message{Number: 18456, State: 1, Class: 14, Line: 1,
				Text: fmt.Sprintf("Login failed for user '%s'.", login.User)})
		}
		for _, m := range refusal {
			b = appendMessage(b, tokenError, m)
		}
		b = appendDone(b, tokenDone, doneError, CommandNone, 0)
	default:
		b = appendDone(appendLoginAck(b, login), tokenDone, 0, CommandNone, 0)
		c.server.logins.Add(1)
		c.mu.Lock()
		c.ready = true
		c.mu.Unlock()
	}
	c.packets.begin()
	c.packets.write(b)
	sent := c.packets.finish() == nil
	c.packets.size = login.PacketSize // from the next message on
	return sent && c.session != nil
}

// sufferAll suffers the faults of a place before the login, where nobody else
// reads: a client that hangs up ends the waiting.
func (c *conn) sufferAll(place Place) (refusal Messages, ok bool) {
	for _, s := range c.server.faults.pick(place, c.subject()) {
		stop := c.wire.listen()
		ok := c.suffer(c.ctx, s)
		stop()
		if !ok {
			return nil, false
		}
		refusal = append(refusal, s.fault.Effect.messages...)
	}
	return refusal, true
}
