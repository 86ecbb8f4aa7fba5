package tds

import "encoding/binary"

// Tokens of a PRELOGIN message and the answers to its encryption question.
const (
	preloginVersion    = 0
	preloginEncryption = 1
	preloginThread     = 3
	preloginMARS       = 4
	preloginEnd        = 0xFF

	encryptOff          = 0 // the login alone is encrypted
	encryptOn           = 1
	encryptNotSupported = 2
	encryptRequired     = 3
)

// parsePrelogin returns what the client says about encryption.
func parsePrelogin(body []byte) (encryption byte, err error) {
	found := false
	for at := 0; ; at += 5 {
		if at >= len(body) {
			return 0, malformed("PRELOGIN without an end")
		}
		if body[at] == preloginEnd {
			break
		}
		if at+5 > len(body) {
			return 0, malformed("PRELOGIN option cut off")
		}
		offset, length := int(binary.BigEndian.Uint16(body[at+1:])), int(binary.BigEndian.Uint16(body[at+3:]))
		if offset+length > len(body) {
			return 0, malformed("PRELOGIN option %d points outside", body[at])
		}
		if body[at] == preloginEncryption {
			if length != 1 {
				return 0, malformed("PRELOGIN encryption of %d bytes", length)
			}
			encryption, found = body[offset], true
		}
	}
	if !found {
		return 0, malformed("PRELOGIN without encryption")
	}
	return encryption, nil
}

func appendPrelogin(b []byte, encryption byte) []byte {
	// The option without data stands before one with data: the driver takes an
	// offset at the very end of the message for an error.
	options := []struct {
		token byte
		data  []byte
	}{
		{preloginVersion, []byte{serverVersion[0], serverVersion[1], serverVersion[2], serverVersion[3], 0, 0}},
		{preloginEncryption, []byte{encryption}},
		{preloginThread, nil},
		{preloginMARS, []byte{0}},
	}
	offset := 5*len(options) + 1
	for _, o := range options {
		b = append(b, o.token)
		b = binary.BigEndian.AppendUint16(b, uint16(offset))
		b = binary.BigEndian.AppendUint16(b, uint16(len(o.data)))
		offset += len(o.data)
	}
	b = append(b, preloginEnd)
	for _, o := range options {
		b = append(b, o.data...)
	}
	return b
}

const (
	version74 = 0x74000004
	version80 = 0x08000000

	loginFixedBytes = 94
	maxLoginField   = 128 // UTF-16 units, by the protocol
	readOnlyIntent  = 0x20
)

// login7 is a parsed LOGIN7 message.
type login7 struct {
	version    uint32
	packetSize int
	Login
}

func parseLogin7(body []byte) (login7, error) {
	d := decoder{b: body}
	if length := d.uint32(); d.err != nil || int64(length) != int64(len(body)) || len(body) < loginFixedBytes {
		return login7{}, malformed("LOGIN7 of %d bytes says %d", len(body), length)
	}
	l := login7{version: d.uint32(), packetSize: int(d.uint32())}
	if l.version != version74 && l.version != version80 {
		return login7{}, malformed("TDS version %#x", l.version)
	}
	if body[25]&0x80 != 0 {
		return login7{}, malformed("integrated security is not supported by the simulator")
	}
	l.ReadOnly = body[26]&readOnlyIntent != 0

	field := func(at int) []byte {
		offset := int(binary.LittleEndian.Uint16(body[at:]))
		length := 2 * int(binary.LittleEndian.Uint16(body[at+2:]))
		switch {
		case length == 0:
			return nil
		case length > 2*maxLoginField:
			d.fail("LOGIN7 field at %d of %d bytes", at, length)
			return nil
		case offset+length > len(body):
			d.fail("LOGIN7 field at %d points outside", at)
			return nil
		}
		return body[offset : offset+length]
	}
	l.Host = decodeUTF16(field(36))
	l.User = decodeUTF16(field(40))
	l.Password = decodeUTF16(unscramble(field(44)))
	l.App = decodeUTF16(field(48))
	l.Server = decodeUTF16(field(52))
	l.Database = decodeUTF16(field(68))
	return l, d.err
}

// unscramble undoes what LOGIN7 does to a password.
func unscramble(scrambled []byte) []byte {
	plain := make([]byte, len(scrambled))
	for i, b := range scrambled {
		b ^= 0xA5
		plain[i] = b<<4 | b>>4
	}
	return plain
}
