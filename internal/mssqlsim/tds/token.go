package tds

import (
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf16"
)

// Bits of the status of a DONE token.
const (
	doneMore        = 0x1
	doneError       = 0x2
	doneInXact      = 0x4
	doneCount       = 0x10
	doneAttention   = 0x20
	doneServerError = 0x100
)

// DONE tokens: of a batch's statement, of a procedure, of a statement in one.
const (
	tokenDone       = 0xFD
	tokenDoneProc   = 0xFE
	tokenDoneInProc = 0xFF
)

const (
	envDatabase   = 1
	envLanguage   = 2
	envPacketSize = 4
	envCollation  = 7
	envReset      = 18
	envRouting    = 20

	tokenError        = 0xAA
	tokenInfo         = 0xAB
	tokenReturnStatus = 0x79

	fatalClass = 20 // from here on an error ends the connection
)

// serverName and serverVersion are what a SQL Server 2022 says about itself.
const (
	serverName    = "mssqlsim"
	serverVersion = "\x10\x00\x03\xE8"
)

// appendSized writes a token whose body is preceded by its length.
func appendSized(b []byte, token byte, body func([]byte) []byte) []byte {
	b = append(b, token, 0, 0)
	start := len(b)
	b = body(b)
	binary.LittleEndian.PutUint16(b[start-2:], uint16(len(b)-start))
	return b
}

func appendEnvText(b []byte, kind byte, changed, old string) []byte {
	return appendSized(b, 0xE3, func(b []byte) []byte {
		return appendBVarChar(appendBVarChar(append(b, kind), changed), old)
	})
}

func appendEnvBytes(b []byte, kind byte, changed, old []byte) []byte {
	return appendSized(b, 0xE3, func(b []byte) []byte {
		b = append(append(b, kind, byte(len(changed))), changed...)
		return append(append(b, byte(len(old))), old...)
	})
}

// appendEnvTransaction announces the begin or the end of transaction id.
func appendEnvTransaction(b []byte, change TransactionChange, id uint64) []byte {
	descriptor := binary.LittleEndian.AppendUint64(nil, id)
	if change == TransactionBegun {
		return appendEnvBytes(b, byte(change), descriptor, nil)
	}
	return appendEnvBytes(b, byte(change), nil, descriptor)
}

func appendEnvRouting(b []byte, to *Redirect) []byte {
	return appendSized(b, 0xE3, func(b []byte) []byte {
		n := utf16Len(to.Host)
		b = append(b, envRouting)
		b = binary.LittleEndian.AppendUint16(b, uint16(1+2+2+2*n))
		b = append(b, 0) // TCP
		b = binary.LittleEndian.AppendUint16(b, to.Port)
		b = binary.LittleEndian.AppendUint16(b, uint16(n))
		return append(appendUTF16(b, to.Host), 0, 0)
	})
}

// appendMessage writes an ERROR or INFO token. The text is cut to what a real
// server allows, 2047 units, so that the token's length holds it.
func appendMessage(b []byte, token byte, m Message) []byte {
	const longest = 2047
	if units := utf16.Encode([]rune(m.Text)); len(units) > longest {
		m.Text = string(utf16.Decode(units[:longest]))
	}
	return appendSized(b, token, func(b []byte) []byte {
		b = binary.LittleEndian.AppendUint32(b, uint32(m.Number))
		b = append(b, m.State, m.Class)
		b = binary.LittleEndian.AppendUint16(b, uint16(utf16Len(m.Text)))
		b = appendUTF16(b, m.Text)
		b = appendBVarChar(b, serverName)
		b = appendBVarChar(b, m.Procedure)
		return binary.LittleEndian.AppendUint32(b, uint32(m.Line))
	})
}

func appendDone(b []byte, token byte, status uint16, cmd Command, rows int64) []byte {
	b = append(b, token)
	b = binary.LittleEndian.AppendUint16(b, status)
	b = binary.LittleEndian.AppendUint16(b, uint16(cmd))
	return binary.LittleEndian.AppendUint64(b, uint64(max(rows, 0)))
}

func appendReturnStatus(b []byte, status int32) []byte {
	return binary.LittleEndian.AppendUint32(append(b, tokenReturnStatus), uint32(status))
}

// appendLoginAck writes the answer to an accepted login.
func appendLoginAck(b []byte, l login7) []byte {
	database := l.Database
	if database == "" {
		database = "master"
	}
	b = appendEnvText(b, envDatabase, database, "master")
	b = appendMessage(b, tokenInfo, Message{Number: 5701, State: 2, Text: "Changed database context to '" + database + "'.", Line: 1})
	b = appendEnvBytes(b, envCollation, []byte(collation), nil)
	b = appendEnvText(b, envLanguage, "us_english", "")
	b = appendSized(b, 0xAD, func(b []byte) []byte {
		b = append(b, 1) // T-SQL
		b = binary.BigEndian.AppendUint32(b, l.version)
		b = appendBVarChar(b, "Microsoft SQL Server")
		return append(b, serverVersion...)
	})
	return appendEnvText(b, envPacketSize, strconv.Itoa(l.PacketSize), strconv.Itoa(defaultPacketSize))
}

// packetSizeFor is the packet size granted to a client.
func packetSizeFor(l login7) int {
	limit := maxPacketSize
	if l.Encrypted {
		limit = maxTLSPacketSize
	}
	if l.packetSize == 0 || l.packetSize > math.MaxUint16 {
		return defaultPacketSize
	}
	return min(max(l.packetSize, minPacketSize), limit)
}
