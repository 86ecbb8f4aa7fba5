package tds

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The fuzz targets ask that no input makes a parser panic, and that what it
// accepts means what it says.

func FuzzReadMessage(f *testing.F) {
	f.Add([]byte("\x01\x01\x00\x0c\x00\x00\x01\x00text"))
	f.Add([]byte("\x03\x00\x00\x09\x00\x00\x01\x00a\x03\x09\x00\x09\x00\x00\x02\x00b"))
	f.Add([]byte("\x06\x01\x00\x08\x00\x00\x01\x00"))
	f.Add([]byte("\x16\x03\x01\x00\x05hello"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		const limit = 1 << 10
		m, err := readMessage(bytes.NewReader(stream), limit)
		if err == nil {
			require.LessOrEqual(t, len(m.body), min(limit, len(stream)-headerSize))
		}
	})
}

func FuzzPrelogin(f *testing.F) {
	f.Add(appendPrelogin(nil, encryptOn))
	f.Add([]byte{preloginEnd})
	f.Add([]byte{preloginEncryption, 0, 6, 0xFF, 0xFF, preloginEnd})
	f.Fuzz(func(t *testing.T, body []byte) {
		if encryption, err := parsePrelogin(body); err == nil {
			require.Contains(t, body, encryption)
		}
	})
}

// loginMessage is LOGIN7 with these fields, in the order of their positions.
func loginMessage(host, user, password, app, server, database string) []byte {
	b := make([]byte, loginFixedBytes)
	binary.LittleEndian.PutUint32(b[4:], version74)
	binary.LittleEndian.PutUint32(b[8:], defaultPacketSize)
	scrambled := appendUTF16(nil, password)
	for i, c := range scrambled {
		scrambled[i] = (c<<4 | c>>4) ^ 0xA5
	}
	for at, data := range map[int][]byte{36: appendUTF16(nil, host), 40: appendUTF16(nil, user), 44: scrambled,
		48: appendUTF16(nil, app), 52: appendUTF16(nil, server), 68: appendUTF16(nil, database)} {
		binary.LittleEndian.PutUint16(b[at:], uint16(len(b)))
		binary.LittleEndian.PutUint16(b[at+2:], uint16(len(data)/2))
		b = append(b, data...)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	return b
}

func FuzzLogin7(f *testing.F) {
	f.Add(loginMessage("host", "sa", "geheim😼", "leasehold", "127.0.0.1", "locks"))
	f.Add(loginMessage("", "", "", "", "", ""))
	f.Add(make([]byte, loginFixedBytes))
	f.Fuzz(func(t *testing.T, body []byte) {
		l, err := parseLogin7(body)
		if err != nil {
			require.ErrorIs(t, err, errMalformed)
			return
		}
		size := packetSizeFor(l)
		require.GreaterOrEqual(t, size, minPacketSize)
		require.LessOrEqual(t, size, maxPacketSize)
		l.PacketSize = size
		appendLoginAck(nil, l) // writes what the client sent, whatever it is
	})
}

func TestLogin7(t *testing.T) {
	l, err := parseLogin7(loginMessage("host", "sa", "geheim😼", "leasehold", "127.0.0.1", "locks"))
	require.NoError(t, err)
	require.Equal(t, Login{User: "sa", Password: "geheim😼", Database: "locks", App: "leasehold", Host: "host", Server: "127.0.0.1"}, l.Login)
}

// rpcMessage is sp_executesql with one parameter of each type.
func rpcMessage() []byte {
	b := binary.LittleEndian.AppendUint32(nil, 22)
	b = binary.LittleEndian.AppendUint32(b, 18)
	b = append(b, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0)
	b = append(b, 0xFF, 0xFF, 10, 0, 0, 0)
	param := func(name string, t Type, value any) {
		b = append(appendBVarChar(b, name), 0)
		b = appendValue(appendType(b, t), Column{Type: t}, value)
	}
	param("", TypeNVarCharMax, "SELECT @a, @b")
	param("", TypeNVarCharMax, "@a nvarchar(3), @b decimal(18, 2),@c bigint,@d bit,@e varbinary(2),@f datetimeoffset(7),@g float")
	param("@a", TypeNVarChar(3), "x😼")
	param("@b", TypeInt, int64(1))
	param("@c", TypeBigInt, int64(1))
	param("@d", TypeBit, true)
	param("@e", TypeVarBinary(2), []byte{1})
	param("@f", TypeDateTimeOffset, time.Unix(1, 100).In(time.FixedZone("", -90*60)))
	param("@g", TypeFloat, 1.5)
	return b
}

func TestExecuteSQL(t *testing.T) {
	c, err := parseCommand(packetRPC, rpcMessage())
	require.NoError(t, err)
	require.Nil(t, c.refusal)
	require.Equal(t, uint64(1), c.transaction)
	require.Equal(t, executeSQL, c.Procedure)
	require.Equal(t, "SELECT @a, @b", c.SQL)
	require.Len(t, c.Params, 7)
	require.Equal(t, Param{Name: "@a", Declared: "nvarchar(3)", Type: TypeNVarChar(3), Value: "x😼"}, c.Params[0])
	require.Equal(t, "decimal(18, 2)", c.Params[1].Declared)
}

func FuzzCommand(f *testing.F) {
	rpc := rpcMessage()
	f.Add(byte(packetRPC), rpc)
	f.Add(byte(packetBatch), append(rpc[:22:22], "S\x00E\x00"...))
	f.Add(byte(packetTransaction), append(rpc[:22:22], 5, 0, 4, 0))
	f.Add(byte(packetTransaction), append(rpc[:22:22], 7, 0, 0, 0))
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		c, err := parseCommand(kind, body)
		if err != nil {
			require.ErrorIs(t, err, errMalformed)
			return
		}
		if c.refusal != nil {
			appendMessage(nil, tokenError, c.refusal[0])
			return
		}
		require.NotEmpty(t, c.op)
		for _, p := range c.Params {
			sendBack(t, p)
		}
	})
}

// sendBack writes a parameter as a column and reads it again.
func sendBack(t *testing.T, p Param) {
	long := p.Type.Kind == NVarChar || p.Type.Kind == VarBinary || p.Type.Kind == Binary
	if p.Value == nil || long && p.Type.Size != Max && (p.Type.Size < 1 || p.Type.Size > 4000) || p.Type.Kind == Binary {
		return // there is no such column, or the value is padded
	}
	column := Column{Name: "c", Type: p.Type}
	d := decoder{b: appendValue(appendType(nil, p.Type), column, p.Value)}
	typ, value, refusal := parseValue(&d)
	require.NoError(t, d.err)
	require.Nil(t, refusal)
	require.Empty(t, d.b)
	require.Equal(t, p.Type, typ)
	if number, ok := p.Value.(float64); ok && number != number {
		return // not even equal to itself
	}
	require.Equal(t, p.Value, value)
}
