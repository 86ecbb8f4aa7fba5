package tds

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTokens are the shapes of answers, which the driver does not show.
func TestTokens(t *testing.T) {
	row := func(w ResponseWriter) {
		w.Columns(Column{Name: "n", Type: TypeInt})
		w.Row(int64(7))
	}
	fails := Message{Number: 1222, Class: 16, Text: "Lock request time out period exceeded."}
	tests := []struct {
		name       string
		answer     func(w ResponseWriter)
		batch, rpc string
	}{
		{"nothing", func(ResponseWriter) {}, "DONE(0)", "STATUS DONEPROC(0)"},
		{"counted", func(w ResponseWriter) { w.Done(CommandUpdate, 2) },
			"DONE(COUNT 2)", "DONEINPROC(MORE COUNT 2) STATUS DONEPROC(0)"},
		{"not counted", func(w ResponseWriter) { w.Done(CommandUpdate, NoCount) }, "DONE(0)", "STATUS DONEPROC(0)"},
		{"two statements", func(w ResponseWriter) { w.Done(CommandUpdate, 2); row(w); w.Done(CommandSelect, 1) },
			"DONE(MORE COUNT 2) COLUMNS ROW DONE(COUNT 1)",
			"DONEINPROC(MORE COUNT 2) COLUMNS ROW DONEINPROC(MORE COUNT 1) STATUS DONEPROC(0)"},
		{"rows, not counted", func(w ResponseWriter) { row(w); w.Done(CommandSelect, NoCount) },
			"COLUMNS ROW DONE(0)", "COLUMNS ROW DONEINPROC(MORE) STATUS DONEPROC(0)"},
		{"failed statement, then another", func(w ResponseWriter) {
			w.Error(fails)
			w.Done(CommandUpdate, NoCount)
			w.Done(CommandUpdate, 1)
		}, "ERROR DONE(MORE ERROR) DONE(COUNT 1)", "ERROR DONEINPROC(MORE ERROR) DONEINPROC(MORE COUNT 1) STATUS DONEPROC(ERROR)"},
		{"failed batch", func(w ResponseWriter) { w.Done(CommandUpdate, 1); w.Error(fails) },
			"DONE(MORE COUNT 1) ERROR DONE(ERROR)", "DONEINPROC(MORE COUNT 1) ERROR STATUS DONEPROC(ERROR)"},
		{"fatal, what follows is dropped", func(w ResponseWriter) {
			w.Error(Message{Number: 9001, Class: 21})
			row(w)
			w.Done(CommandSelect, 1)
		}, "ERROR DONE(ERROR FATAL)", "ERROR DONE(ERROR FATAL)"},
		{"information", func(w ResponseWriter) { w.Info(Message{Number: 5701}); w.ReturnStatus(3) },
			"INFO DONE(0)", "INFO STATUS DONEPROC(0)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, rpc := range []bool{false, true} {
				var sent bytes.Buffer
				r := &response{conn: &conn{server: &Server{}}, packets: &packetWriter{w: &sent, size: defaultPacketSize}, rpc: rpc}
				test.answer(r)
				r.end(false)
				require.NoError(t, r.packets.finish())
				want := test.batch
				if rpc {
					want = test.rpc
				}
				require.Equal(t, want, describe(t, sent.Bytes()[headerSize:]))
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		var sent bytes.Buffer
		r := &response{conn: &conn{server: &Server{}}, packets: &packetWriter{w: &sent, size: defaultPacketSize}, rpc: true}
		row(r)
		r.end(true)
		require.NoError(t, r.packets.finish())
		require.Equal(t, "COLUMNS ROW DONE(ATTENTION)", describe(t, sent.Bytes()[headerSize:]))
	})
}

// describe names the tokens of an answer whose only column is one int.
func describe(t *testing.T, tokens []byte) string {
	var names []string
	d := decoder{b: tokens}
	for len(d.b) > 0 {
		switch token := d.uint8(); token {
		case tokenDone, tokenDoneProc, tokenDoneInProc:
			name := map[uint8]string{tokenDone: "DONE", tokenDoneProc: "DONEPROC", tokenDoneInProc: "DONEINPROC"}[token]
			names = append(names, name+"("+describeStatus(&d)+")")
		case tokenError, tokenInfo:
			names = append(names, map[uint8]string{tokenError: "ERROR", tokenInfo: "INFO"}[token])
			d.take(int(d.uint16()))
		case tokenReturnStatus:
			names = append(names, "STATUS")
			d.take(4)
		case 0x81:
			names = append(names, "COLUMNS")
			d.take(2 + 4 + 2 + 2 + 1 + 2)
		case 0xD1:
			names = append(names, "ROW")
			d.take(5)
		default:
			t.Fatalf("token %#x", token)
		}
	}
	require.NoError(t, d.err)
	return strings.Join(names, " ")
}

func describeStatus(d *decoder) string {
	status := d.uint16()
	d.uint16() // command
	rows := binary.LittleEndian.Uint64(d.take(8))
	var bits []string
	for _, bit := range []struct {
		mask uint16
		name string
	}{{doneMore, "MORE"}, {doneError, "ERROR"}, {doneCount, fmt.Sprintf("COUNT %d", rows)}, {doneAttention, "ATTENTION"},
		{doneServerError, "FATAL"}} {
		if status&bit.mask != 0 {
			bits = append(bits, bit.name)
		}
	}
	if bits == nil {
		return "0"
	}
	return strings.Join(bits, " ")
}
